//! Datagrams of a client on another host, over UDP beside its TLS connection.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+-----------------------------------------------+
//! |     0x18      |            index, chosen by the gate          |  as between neighbours:
//! +---------------+-----------------------------------------------+  [`crate::link`]
//! |                    counter, the low 32 bits                   |
//! +---------------+-----------------------------------------------+
//! |     kind      |  sealed: a message of ipc, a payload in raw   |
//! +---------------+  mode; number, challenge, came, rtt; or       |
//! |                  number, longest, flags and padding           |
//! +---------------------------------------------------------------+
//! |                            tag, 16 bytes                      |
//! +---------------------------------------------------------------+
//! ```
//!
//! The seal is the same as on a hop; each direction has a key. A probe and its answer have equal lengths, so that
//! nobody gets more bytes than he sent. A trial and its answer also do, so the answer shows that datagrams of that
//! length pass in both directions. The challenge of the answer, sent back in the next probe from the same address,
//! proves that the client receives at that address.

use crate::bytes::{Reader, Writer};
use crate::link::SEAL_BYTES;
use crate::{Full, Malformed};

/// The label under which TLS exports the keys of a way (RFC 8446 §7.5). The context is the number of ways that this
/// connection has had before, u32. The first 32 bytes are the key of the client's direction, the others are the key of
/// the gate's.
pub const LABEL: &[u8] = b"EXPORTER-sinew-client-way";
/// Number of bytes of both keys.
pub const KEYS_BYTES: usize = 64;
/// Number of bytes around a message: seal and kind.
pub const AROUND_BYTES: usize = SEAL_BYTES + 1;
/// Number of bytes of a probe and of its answer, sealed.
pub const PROBE_BYTES: usize = AROUND_BYTES + 16;
/// The maximum length of a datagram: what Ethernet carries, 1500 bytes, minus the headers of IPv6 and UDP, if trials
/// have shown that the path carries it. Longer datagrams are sent by TLS.
pub const DATAGRAM_BYTES_MAX: usize = 1_500 - 40 - 8;
/// The maximum length of a datagram without a trial: what every host accepts, 576 bytes (RFC 791), minus the headers of
/// IPv4 and UDP.
pub const UNTRIED_BYTES_MAX: usize = 576 - 20 - 8;
/// Number of bytes around the padding of a trial.
pub const TRIAL_AROUND_BYTES: usize = AROUND_BYTES + 7;

const MESSAGE: u8 = 1;
const PAYLOAD: u8 = 2;
const PROBE: u8 = 3;
const ANSWER: u8 = 4;
const TRIAL: u8 = 5;
const TRIED: u8 = 6;

/// The content of a probe or an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Echo {
    /// The client's number of the probe; 0 in an answer without a probe.
    pub number: u32,
    /// In an answer: the challenge that the client must return from this address. In a probe: the last challenge that
    /// it received.
    pub challenge: u32,
    /// Number of the other side's datagrams that have arrived under the keys of this session.
    pub came: u32,
    /// In a probe: the round trip that the client has measured, in microseconds; 0 if it is not known, and in answers.
    pub rtt_us: u32,
}

/// The content of a trial, and of its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trial<'a> {
    /// The client's number of the trial.
    pub number: u32,
    /// The longest datagram that is known to pass in both directions, with its seal.
    pub longest: u16,
    /// The flags: [`Trial::RAW`]; other bits have no meaning yet.
    pub flags: u8,
    /// Padding up to the tried length; its bytes may have any value.
    pub padding: &'a [u8],
}

impl Trial<'_> {
    /// A flag: the client now accepts payloads, and no messages any more.
    pub const RAW: u8 = 0x01;
}

/// The sealed content of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sealed<'a> {
    /// A datagram as one message of [`crate::ipc`]: kind 1.
    Message(&'a [u8]),
    /// A datagram in raw mode: kind 2.
    Payload(&'a [u8]),
    /// A question of the client whether the way works: kind 3.
    Probe(Echo),
    /// The answer that the way works: kind 4.
    Answer(Echo),
    /// The client tries whether a datagram of this length passes, and reports what it knows: kind 5.
    Trial(Trial<'a>),
    /// The answer to a trial, with the same length and nothing else: kind 6.
    Tried(Trial<'a>),
}

impl<'a> Sealed<'a> {
    /// Reads the sealed content.
    pub fn parse(plaintext: &'a [u8]) -> Result<Sealed<'a>, Malformed> {
        let mut r = Reader::new(plaintext);
        let kind = r.u8()?;
        match kind {
            MESSAGE => return Ok(Sealed::Message(r.rest())),
            PAYLOAD => return Ok(Sealed::Payload(r.rest())),
            PROBE | ANSWER => {}
            TRIAL | TRIED => {
                let trial = Trial {
                    number: r.u32()?,
                    longest: r.u16()?,
                    flags: r.u8()?,
                    padding: r.rest(),
                };
                return Ok(match kind {
                    TRIAL => Sealed::Trial(trial),
                    _ => Sealed::Tried(trial),
                });
            }
            _ => return Err(Malformed::Kind),
        }
        let echo = Echo {
            number: r.u32()?,
            challenge: r.u32()?,
            came: r.u32()?,
            rtt_us: r.u32()?,
        };
        r.finish()?;
        Ok(match kind {
            PROBE => Sealed::Probe(echo),
            _ => Sealed::Answer(echo),
        })
    }

    /// Writes the content at the front of `bytes`. Returns its length.
    pub fn emit(&self, bytes: &mut [u8]) -> Result<usize, Full> {
        let mut w = Writer::new(bytes);
        match *self {
            Sealed::Message(message) => {
                w.u8(MESSAGE)?;
                w.put(message)?;
            }
            Sealed::Payload(payload) => {
                w.u8(PAYLOAD)?;
                w.put(payload)?;
            }
            Sealed::Probe(echo) | Sealed::Answer(echo) => {
                w.u8(match self {
                    Sealed::Probe(_) => PROBE,
                    _ => ANSWER,
                })?;
                w.u32(echo.number)?;
                w.u32(echo.challenge)?;
                w.u32(echo.came)?;
                w.u32(echo.rtt_us)?;
            }
            Sealed::Trial(trial) | Sealed::Tried(trial) => {
                w.u8(match self {
                    Sealed::Trial(_) => TRIAL,
                    _ => TRIED,
                })?;
                w.u32(trial.number)?;
                w.u16(trial.longest)?;
                w.u8(trial.flags)?;
                w.put(trial.padding)?;
            }
        }
        Ok(w.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ECHO: Echo = Echo {
        number: 1,
        challenge: 0x0203_0405,
        came: 0xffff_fffe,
        rtt_us: 30_000,
    };

    #[test]
    fn what_is_sealed_is_these_bytes() {
        let trial = Trial {
            number: 1,
            longest: 1_452,
            flags: Trial::RAW,
            padding: &[0, 7],
        };
        let vectors: [(Sealed<'_>, &[u8]); 6] = [
            (Sealed::Message(b"\x04m"), b"\x01\x04m"),
            (Sealed::Payload(b""), b"\x02"),
            (
                Sealed::Probe(ECHO),
                b"\x03\0\0\0\x01\x02\x03\x04\x05\xff\xff\xff\xfe\0\0\x75\x30",
            ),
            (
                Sealed::Answer(ECHO),
                b"\x04\0\0\0\x01\x02\x03\x04\x05\xff\xff\xff\xfe\0\0\x75\x30",
            ),
            (Sealed::Trial(trial), b"\x05\0\0\0\x01\x05\xac\x01\0\x07"),
            (Sealed::Tried(Trial::default()), b"\x06\0\0\0\0\0\0\0"),
        ];
        for (sealed, bytes) in vectors {
            let mut room = [0xa5; 20];
            let len = sealed.emit(&mut room).unwrap();
            assert_eq!(&room[..len], bytes);
            assert_eq!(Sealed::parse(bytes), Ok(sealed));
            for short in 0..len {
                assert_eq!(sealed.emit(&mut room[..short]), Err(Full), "{sealed:?}");
            }
        }
        let probe = vectors[2].1;
        assert_eq!(probe.len() + SEAL_BYTES, PROBE_BYTES);
        for short in 0..probe.len() {
            assert_eq!(Sealed::parse(&probe[..short]), Err(Malformed::Short));
        }
        let tried = vectors[5].1;
        assert_eq!(tried.len() + SEAL_BYTES, TRIAL_AROUND_BYTES);
        for short in 1..tried.len() {
            assert_eq!(Sealed::parse(&tried[..short]), Err(Malformed::Short));
        }
        assert_eq!(Sealed::parse(&[0; 13]), Err(Malformed::Kind));
        assert_eq!(Sealed::parse(&[3; 18]), Err(Malformed::Length));
    }

    proptest! {
        #[test]
        fn whatever_is_understood_is_written_alike(bytes in prop::collection::vec(0u8..8, 0..20)) {
            if let Ok(sealed) = Sealed::parse(&bytes) {
                let mut room = [0; 20];
                let len = sealed.emit(&mut room).unwrap();
                prop_assert_eq!(&room[..len], &bytes[..]);
            }
        }
    }
}
