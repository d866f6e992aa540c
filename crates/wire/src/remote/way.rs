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
//! The seal is that of a hop; each direction has a key. A probe and its answer are equally long, so
//! that nobody is answered by more bytes than came from there; a trial and what it is answered by are
//! too, so what comes back shows that datagrams of that length pass both ways. The answer's challenge,
//! in the next probe from the same address, proves that the client hears what is sent to it.

use crate::bytes::{Reader, Writer};
use crate::link::SEAL_BYTES;
use crate::{Full, Malformed};

/// The label under which TLS exports the keys of a way (RFC 8446 §7.5). The context is how many ways
/// this connection has had before, u32. The first 32 bytes are the key of the client's direction, the
/// others that of the gate's.
pub const LABEL: &[u8] = b"EXPORTER-sinew-client-way";
/// Bytes of both keys.
pub const KEYS_BYTES: usize = 64;
/// Bytes around a message: seal and kind.
pub const AROUND_BYTES: usize = SEAL_BYTES + 1;
/// Bytes of a probe and of its answer, sealed.
pub const PROBE_BYTES: usize = AROUND_BYTES + 16;
/// The longest datagram that is sent: what Ethernet carries, 1500 bytes, less the headers of IPv6 and
/// UDP, where trials have shown that the path takes it. Longer ones go by TLS.
pub const DATAGRAM_BYTES_MAX: usize = 1_500 - 40 - 8;
/// The longest datagram that is sent without a trial: what every host takes, 576 bytes (RFC 791), less
/// the headers of IPv4 and UDP.
pub const UNTRIED_BYTES_MAX: usize = 576 - 20 - 8;
/// Bytes around the padding of a trial.
pub const TRIAL_AROUND_BYTES: usize = AROUND_BYTES + 7;

const MESSAGE: u8 = 1;
const PAYLOAD: u8 = 2;
const PROBE: u8 = 3;
const ANSWER: u8 = 4;
const TRIAL: u8 = 5;
const TRIED: u8 = 6;

/// What a probe or an answer says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Echo {
    /// The client's number of the probe; 0 in an answer that no probe has asked for.
    pub number: u32,
    /// In an answer: what the client is to say from this address. In a probe: what it was told last.
    pub challenge: u32,
    /// How many of the other side's datagrams have come under the keys of this session.
    pub came: u32,
    /// In a probe: the round trip that the client has measured, in microseconds; 0 while it is not
    /// known, and in answers.
    pub rtt_us: u32,
}

/// What a trial says, and what it is answered by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trial<'a> {
    /// The client's number of it.
    pub number: u32,
    /// The longest datagram that is known to pass both ways, seal and all.
    pub longest: u16,
    /// [`Trial::RAW`]; other bits mean nothing yet.
    pub flags: u8,
    /// What makes it as long as is to be tried; of any bytes.
    pub padding: &'a [u8],
}

impl Trial<'_> {
    /// In the flags: the client takes payloads now, and no messages any more.
    pub const RAW: u8 = 0x01;
}

/// What is sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sealed<'a> {
    /// A datagram as one message of [`crate::ipc`]: kind 1.
    Message(&'a [u8]),
    /// A datagram in raw mode: kind 2.
    Payload(&'a [u8]),
    /// The client asks whether the way works: kind 3.
    Probe(Echo),
    /// It does: kind 4.
    Answer(Echo),
    /// The client tries whether so long a datagram passes, and says what it knows: kind 5.
    Trial(Trial<'a>),
    /// It has come; as long as it, with nothing else: kind 6.
    Tried(Trial<'a>),
}

impl<'a> Sealed<'a> {
    /// Reads what was sealed.
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

    /// Writes it at the front of `bytes` and returns its length.
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
