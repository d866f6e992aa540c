//! The messages after the Finish if both neighbors support version 2: an ML-KEM-768 key, and the ciphertext that
//! answers it.
//!
//! ```text
//!      dialler                                           responder
//!         | Finish, and the pieces 0, 1, 2 of the key        |
//!         |------------------------------------------------->|
//!         |         the pieces 0, 1, 2 of the ciphertext     |
//!         |<-------------------------------------------------|
//!
//! 0 first byte | 1 receiver 3 | 4 number 1 | 5 piece, encrypted n | tag 16
//!
//!      key 1184          ciphertext 1088
//!      400 | 400 | 384   400 | 400 | 288
//! ```
//!
//! A piece is short enough for any path, even within a packet of the overlay: 421 bytes, 47 of a packet between two
//! ends, and 28 of IPv4 and UDP leave 80 of 576 for a stamp. The length of each piece follows from its number, so there
//! is no length field. Each piece is sealed by the result of the Noise handshake; the five bytes in front of it are
//! authenticated with it.

use super::index_bytes;
use crate::Malformed;
use crate::TAG_BYTES;
use crate::bytes::Reader;
use crate::link::{Kind, SessionIndex};
use core::ops::Range;

/// Number of bytes of an ML-KEM-768 key (FIPS 203, table 3).
pub const KEY_BYTES: usize = 1_184;
/// Number of bytes of a ciphertext.
pub const CIPHERTEXT_BYTES: usize = 1_088;
/// Number of bytes of each piece except the last.
pub const PIECE_BYTES: usize = 400;
/// Number of pieces of each of them.
pub const PIECES: usize = 3;
/// Number of bytes in front of a piece.
pub const HEADER_BYTES: usize = 5;

const _: () = assert!(KEY_BYTES.div_ceil(PIECE_BYTES) == PIECES);
const _: () = assert!(CIPHERTEXT_BYTES.div_ceil(PIECE_BYTES) == PIECES);

/// The value that a piece is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whole {
    /// The dialler's key.
    Key,
    /// The responder's ciphertext.
    Ciphertext,
}

/// One piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// The value that it is a part of.
    pub of: Whole,
    /// The addressee's index.
    pub receiver: SessionIndex,
    /// The piece's number, below [`PIECES`].
    pub number: usize,
    /// The encrypted bytes, and the tag.
    pub sealed: &'a [u8],
}

impl Whole {
    /// Returns the number of bytes of all pieces.
    pub const fn bytes(self) -> usize {
        match self {
            Whole::Key => KEY_BYTES,
            Whole::Ciphertext => CIPHERTEXT_BYTES,
        }
    }
    /// Returns the position of the piece with this number.
    pub fn range(self, number: usize) -> Range<usize> {
        let begin = number * PIECE_BYTES;
        begin..(begin + PIECE_BYTES).min(self.bytes())
    }
    const fn kind(self) -> Kind {
        match self {
            Whole::Key => Kind::KemKey,
            Whole::Ciphertext => Kind::KemCiphertext,
        }
    }
}

impl<'a> Piece<'a> {
    /// Reads a piece, which must have exactly the length that follows from its number.
    pub fn parse(datagram: &'a [u8]) -> Result<Piece<'a>, Malformed> {
        let mut r = Reader::new(datagram);
        let of = match Kind::from_byte(r.u8()?)? {
            Kind::KemKey => Whole::Key,
            Kind::KemCiphertext => Whole::Ciphertext,
            _ => return Err(Malformed::Kind),
        };
        let receiver = SessionIndex::new(r.u24()?);
        let number = usize::from(r.u8()?);
        if number >= PIECES {
            return Err(Malformed::Value);
        }
        let sealed = r.take(of.range(number).len() + TAG_BYTES)?;
        r.finish()?;
        Ok(Piece {
            of,
            receiver,
            number,
            sealed,
        })
    }

    /// Returns the bytes in front of the piece with this number.
    pub fn header(of: Whole, receiver: SessionIndex, number: usize) -> [u8; HEADER_BYTES] {
        debug_assert!(number < PIECES);
        let [a, b, c] = index_bytes(receiver);
        [of.kind().byte(), a, b, c, number as u8]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of(of: Whole, number: u8) -> Vec<u8> {
        let (first, lens) = match of {
            Whole::Key => (0x14, [400, 400, 384]),
            Whole::Ciphertext => (0x15, [400, 400, 288]),
        };
        let front = [first, 0xab, 0xcd, 0xef, number];
        let length = lens[usize::from(number)] + 16;
        [&front[..], &vec![0x66; length]].concat()
    }

    const ALL: [Whole; 2] = [Whole::Key, Whole::Ciphertext];

    #[test]
    fn pieces_and_their_bytes_agree_both_ways() {
        for of in ALL {
            for number in 0..PIECES {
                let bytes = bytes_of(of, number as u8);
                let piece = Piece::parse(&bytes).unwrap();
                let receiver = SessionIndex::new(0xabcdef);
                assert_eq!((piece.of, piece.number), (of, number));
                assert_eq!(piece.receiver, receiver);
                assert_eq!(piece.sealed, &bytes[5..]);
                assert_eq!(Piece::header(of, receiver, number), bytes[..5]);
            }
        }
    }

    #[test]
    fn other_lengths_numbers_and_kinds_are_refused() {
        for of in ALL {
            let bytes = bytes_of(of, 2);
            for cut in 0..bytes.len() {
                assert_eq!(Piece::parse(&bytes[..cut]), Err(Malformed::Short), "{cut}");
            }
            let longer = [&bytes[..], &[0]].concat();
            assert_eq!(Piece::parse(&longer), Err(Malformed::Length));
            for number in 3..=255 {
                let mut other = bytes_of(of, 0);
                other[4] = number;
                assert_eq!(Piece::parse(&other), Err(Malformed::Value));
            }
        }
        let mut bytes = bytes_of(Whole::Key, 0);
        for first in 0..=255 {
            bytes[0] = first;
            let parsed = Piece::parse(&bytes).map(|piece| piece.of);
            let expected = match first {
                0x14 => Ok(Whole::Key),
                0x15 => Ok(Whole::Ciphertext),
                _ if Kind::from_byte(first).is_ok() => Err(Malformed::Kind),
                _ => Err(Kind::from_byte(first).unwrap_err()),
            };
            assert_eq!(parsed, expected, "{first:#x}");
        }
    }

    #[test]
    fn pieces_cover_the_whole_and_no_answer_is_longer_than_what_asks_for_it() {
        for of in ALL {
            let mut end = 0;
            for number in 0..PIECES {
                let range = of.range(number);
                assert_eq!(range.start, end);
                end = range.end;
            }
            assert_eq!(end, of.bytes());
        }
        const { assert!(CIPHERTEXT_BYTES <= KEY_BYTES) };
    }
}
