//! The clear bytes at the front of every datagram of the underlay.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------+-------+-----------------------------------------------+
//! |version| kind  |          session, chosen by the receiver      |
//! +-------+-------+-----------------------------------------------+
//! |                    counter, the low 32 bits                   |
//! +---------------------------------------------------------------+
//! |                  ciphertext (data or control) ...             |
//! +---------------------------------------------------------------+
//! |                            tag, 16 bytes                      |
//! +---------------------------------------------------------------+
//! ```
//!
//! The first byte is common to all kinds; the rest of the figure applies to the sealed ones. The eight clear bytes are
//! the additional authenticated data of the seal. The counter is 64 bits wide per direction. It is also the link's
//! sequence number, from which the receiver estimates the loss ([Amir06 §III-A], where every packet carries a link
//! sequence number for that purpose).

use crate::bytes::{Reader, Writer};
use crate::{Full, Malformed};

/// The version in the high nibble of every datagram's first byte.
pub const VERSION: u8 = 1;
/// Number of bytes of the clear header of a sealed datagram.
pub const CLEAR_BYTES: usize = 8;
/// Number of bytes of the authentication tag at the end of a sealed datagram.
pub const TAG_BYTES: usize = 16;
/// Number of bytes that sealing adds to a plaintext.
pub const SEAL_BYTES: usize = CLEAR_BYTES + TAG_BYTES;
/// Number of bits of the counter that are on the wire.
pub const COUNTER_BITS: u32 = 32;

/// The kind of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The first message of a handshake.
    HandshakeInit,
    /// The answer to it.
    HandshakeResponse,
    /// The last message of a handshake.
    HandshakeFinish,
    /// A request to come again with a cookie, from a node under load.
    Cookie,
    /// A piece of the dialler's ML-KEM key.
    KemKey,
    /// A piece of the ciphertext that answers the ML-KEM key.
    KemCiphertext,
    /// A sealed packet of the overlay.
    Data,
    /// Sealed messages between two neighbors.
    Control,
}

impl Kind {
    /// All kinds, in wire order.
    pub const ALL: [Kind; 8] = [
        Kind::HandshakeInit,
        Kind::HandshakeResponse,
        Kind::HandshakeFinish,
        Kind::Cookie,
        Kind::KemKey,
        Kind::KemCiphertext,
        Kind::Data,
        Kind::Control,
    ];

    /// Returns the number in the low nibble.
    pub const fn nibble(self) -> u8 {
        match self {
            Kind::HandshakeInit => 0,
            Kind::HandshakeResponse => 1,
            Kind::HandshakeFinish => 2,
            Kind::Cookie => 3,
            Kind::KemKey => 4,
            Kind::KemCiphertext => 5,
            Kind::Data => 8,
            Kind::Control => 9,
        }
    }
    /// Returns the first byte of a datagram of this kind.
    pub const fn byte(self) -> u8 {
        VERSION << 4 | self.nibble()
    }
    /// Returns the kind for the first byte of a datagram.
    pub const fn from_byte(byte: u8) -> Result<Kind, Malformed> {
        if byte >> 4 != VERSION {
            return Err(Malformed::Version);
        }
        match byte & 0x0f {
            0 => Ok(Kind::HandshakeInit),
            1 => Ok(Kind::HandshakeResponse),
            2 => Ok(Kind::HandshakeFinish),
            3 => Ok(Kind::Cookie),
            4 => Ok(Kind::KemKey),
            5 => Ok(Kind::KemCiphertext),
            8 => Ok(Kind::Data),
            9 => Ok(Kind::Control),
            _ => Err(Malformed::Kind),
        }
    }
    /// Returns the kind of `datagram`, by its first byte.
    pub const fn of(datagram: &[u8]) -> Result<Kind, Malformed> {
        match datagram {
            [first, ..] => Kind::from_byte(*first),
            [] => Err(Malformed::Short),
        }
    }
    /// Returns true if the datagram has a clear header, a ciphertext and a tag.
    pub const fn is_sealed(self) -> bool {
        matches!(self, Kind::Data | Kind::Control)
    }
    /// Returns a short stable word for metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Kind::HandshakeInit => "handshake-init",
            Kind::HandshakeResponse => "handshake-response",
            Kind::HandshakeFinish => "handshake-finish",
            Kind::Cookie => "cookie",
            Kind::KemKey => "kem-key",
            Kind::KemCiphertext => "kem-ciphertext",
            Kind::Data => "data",
            Kind::Control => "control",
        }
    }
}

/// The 24-bit number with which the receiver of a datagram finds the session that opens it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionIndex(u32);

impl SessionIndex {
    /// The largest index.
    pub const MAX: SessionIndex = SessionIndex(0x00ff_ffff);

    /// Returns the index with the low 24 bits of `value`.
    pub const fn new(value: u32) -> SessionIndex {
        SessionIndex(value & SessionIndex::MAX.0)
    }
    /// Returns the number.
    pub const fn value(self) -> u32 {
        self.0
    }
}

/// The clear header of a sealed datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clear {
    /// [`Kind::Data`] or [`Kind::Control`].
    pub kind: Kind,
    /// The receiver's index of the session.
    pub session: SessionIndex,
    /// The low 32 bits of the sender's counter.
    pub counter_low: u32,
}

impl Clear {
    /// Reads the header of a sealed datagram; other kinds give [`Malformed::Kind`].
    pub fn parse(datagram: &[u8]) -> Result<Clear, Malformed> {
        let mut r = Reader::new(datagram);
        let kind = Kind::from_byte(r.u8()?)?;
        if !kind.is_sealed() {
            return Err(Malformed::Kind);
        }
        Ok(Clear {
            kind,
            session: SessionIndex(r.u24()?),
            counter_low: r.u32()?,
        })
    }
    /// Returns the wire format of the header.
    pub const fn to_bytes(self) -> [u8; CLEAR_BYTES] {
        let [_, s0, s1, s2] = self.session.0.to_be_bytes();
        let [c0, c1, c2, c3] = self.counter_low.to_be_bytes();
        [self.kind.byte(), s0, s1, s2, c0, c1, c2, c3]
    }
    /// Writes the header at the front of `datagram`.
    pub fn emit(self, datagram: &mut [u8]) -> Result<(), Full> {
        Writer::new(datagram).put(&self.to_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const VECTOR: [u8; 8] = [0x19, 0xab, 0xcd, 0xef, 0x01, 0x23, 0x45, 0x67];
    const CLEAR: Clear = Clear {
        kind: Kind::Control,
        session: SessionIndex(0x00ab_cdef),
        counter_low: 0x0123_4567,
    };

    #[test]
    fn bytes_and_header_agree_both_ways() {
        assert_eq!(Clear::parse(&VECTOR), Ok(CLEAR));
        let mut datagram = [0xa5; 9];
        assert_eq!(CLEAR.emit(&mut datagram), Ok(()));
        assert_eq!(datagram[..8], VECTOR);
        assert_eq!(datagram[8], 0xa5, "only its own bytes are written");
        assert_eq!(CLEAR.emit(&mut [0; 7]), Err(Full));
    }

    #[test]
    fn every_truncation_is_short() {
        for cut in 0..VECTOR.len() {
            assert_eq!(
                Clear::parse(&VECTOR[..cut]),
                Err(Malformed::Short),
                "cut at {cut}"
            );
        }
        assert_eq!(Kind::of(&[]), Err(Malformed::Short));
    }

    #[test]
    fn every_first_byte_is_a_kind_or_a_labelled_error() {
        for byte in 0..=255u8 {
            match Kind::from_byte(byte) {
                Ok(kind) => assert_eq!(kind.byte(), byte),
                Err(Malformed::Version) => assert_ne!(byte >> 4, VERSION),
                Err(error) => {
                    assert_eq!(error, Malformed::Kind);
                    assert!(!Kind::ALL.iter().any(|kind| kind.byte() == byte));
                }
            }
        }
    }

    #[test]
    fn a_handshake_has_no_clear_header() {
        let mut bytes = VECTOR;
        bytes[0] = Kind::HandshakeInit.byte();
        assert_eq!(Clear::parse(&bytes), Err(Malformed::Kind));
    }

    proptest! {
        #[test]
        fn headers_round_trip(data: bool, session: u32, counter_low: u32) {
            let kind = if data { Kind::Data } else { Kind::Control };
            let clear = Clear { kind, session: SessionIndex::new(session), counter_low };
            prop_assert_eq!(Clear::parse(&clear.to_bytes()), Ok(clear));
        }
    }
}
