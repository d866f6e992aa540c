//! How many of the datagrams that one end has sealed the other has opened: the question, and the answer.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! |    kind 3     |   0 question  |      number of the question   |   0
//! +---------------+---------------+-------------------------------+
//! |  reserved 0   |           session, chosen by the exit         |   4
//! +---------------+-----------------------------------------------+
//! |              the first counter, the low 32 bits               |   8
//! +-------------------------------+-------------------------------+
//! |  so many from there on        |  so many after these ...      |  12
//! +-------------------------------+-------------------------------+
//!
//! +---------------+---------------+-------------------------------+
//! |    kind 3     |   1 answer    |      number of the question   |   0
//! +---------------+---------------+-------------------------------+
//! |  opened of the first          |  opened of the second ...     |   4
//! +-------------------------------+-------------------------------+
//! ```
//!
//! An answer says what is so when it is made: a late packet counts in the next one. An answer without
//! counts says that the exit does not know the session any more, or so old counters.

use super::TALLY;
use crate::bytes::{Reader, Writer};
use crate::link::SessionIndex;
use crate::{Full, Malformed};

/// Counts in one message. Choice: half a second of packets that alternate between two paths, 256 bytes.
pub const COUNTS_MAX: usize = 128;
const COUNT_BYTES: usize = 2;
const ASKED: u8 = 0;
const TOLD: u8 = 1;

/// A question or an answer, and its number, which the answer repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tally<'a> {
    /// How many have been opened of each of these stretches?
    Asked {
        /// The number of the question.
        number: u16,
        /// The session under which they were sealed, as the exit has chosen it.
        session: SessionIndex,
        /// The low bits of the first counter.
        first: u32,
        /// The lengths of the stretches, one behind the other.
        counts: Counts<'a>,
    },
    /// So many.
    Told {
        /// The number of the question.
        number: u16,
        /// Of each stretch.
        counts: Counts<'a>,
    },
}

/// Some numbers as they stand on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts<'a>(&'a [[u8; COUNT_BYTES]]);

impl<'a> Counts<'a> {
    /// The numbers.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u16> + use<'a> {
        self.0.iter().map(|bytes| u16::from_be_bytes(*bytes))
    }
}

impl<'a> Tally<'a> {
    /// Reads a message of kind 3.
    pub fn parse(payload: &'a [u8]) -> Result<Tally<'a>, Malformed> {
        let mut r = Reader::new(payload);
        if r.u8()? != TALLY {
            return Err(Malformed::Kind);
        }
        let what = r.u8()?;
        let number = r.u16()?;
        match what {
            ASKED => {
                let session = r.u32()?;
                if session > SessionIndex::MAX.value() {
                    return Err(Malformed::Value);
                }
                let first = r.u32()?;
                let counts = Tally::counts(r.rest())?;
                if counts.0.is_empty() || counts.iter().any(|len| len == 0) {
                    return Err(Malformed::Count);
                }
                let session = SessionIndex::new(session);
                Ok(Tally::Asked {
                    number,
                    session,
                    first,
                    counts,
                })
            }
            TOLD => Ok(Tally::Told {
                number,
                counts: Tally::counts(r.rest())?,
            }),
            _ => Err(Malformed::Value),
        }
    }

    fn counts(bytes: &'a [u8]) -> Result<Counts<'a>, Malformed> {
        let (counts, []) = bytes.as_chunks() else {
            return Err(Malformed::Length);
        };
        match counts.len() {
            0..=COUNTS_MAX => Ok(Counts(counts)),
            _ => Err(Malformed::Count),
        }
    }

    /// Writes a question at the front of `out`, and returns its length.
    pub fn ask(
        (number, session, first): (u16, SessionIndex, u32),
        lengths: &[u16],
        out: &mut [u8],
    ) -> Result<usize, Full> {
        let mut w = Writer::new(out);
        w.u8(TALLY)?;
        w.u8(ASKED)?;
        w.u16(number)?;
        w.u32(session.value())?;
        w.u32(first)?;
        lengths.iter().try_for_each(|len| w.u16(*len))?;
        Ok(w.written().len())
    }

    /// Writes an answer at the front of `out`, and returns its length.
    pub fn tell(number: u16, opened: &[u16], out: &mut [u8]) -> Result<usize, Full> {
        let mut w = Writer::new(out);
        w.u8(TALLY)?;
        w.u8(TOLD)?;
        w.u16(number)?;
        opened.iter().try_for_each(|count| w.u16(*count))?;
        Ok(w.written().len())
    }
}

/// Bytes of the longest message.
pub const TALLY_BYTES_MAX: usize = 12 + COUNTS_MAX * COUNT_BYTES;

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED_VECTOR: [u8; 16] = [
        3, 0, 0x12, 0x34, 0, 0xab, 0xcd, 0xef, 0xff, 0xff, 0xff, 0xf0, 0, 3, 0xff, 0xff,
    ];
    const TOLD_VECTOR: [u8; 8] = [3, 1, 0x12, 0x34, 0, 2, 0xff, 0xfe];

    #[test]
    fn a_question_and_its_answer_are_read_and_written() {
        let session = SessionIndex::new(0x00ab_cdef);
        let Ok(Tally::Asked {
            number,
            session: told,
            first,
            counts,
        }) = Tally::parse(&ASKED_VECTOR)
        else {
            panic!("a question");
        };
        assert_eq!((number, told, first), (0x1234, session, 0xffff_fff0));
        assert_eq!(counts.iter().collect::<Vec<_>>(), [3, 0xffff]);
        let mut out = [0xa5; TALLY_BYTES_MAX];
        let len = Tally::ask((number, session, first), &[3, 0xffff], &mut out).unwrap();
        assert_eq!(out[..len], ASKED_VECTOR);
        let Ok(Tally::Told { number, counts }) = Tally::parse(&TOLD_VECTOR) else {
            panic!("an answer");
        };
        assert_eq!(number, 0x1234);
        assert_eq!(counts.iter().collect::<Vec<_>>(), [2, 0xfffe]);
        let len = Tally::tell(number, &[2, 0xfffe], &mut out).unwrap();
        assert_eq!(out[..len], TOLD_VECTOR);
        assert_eq!(super::super::Kind::of(&out), Ok(super::super::Kind::Tally));
    }

    #[test]
    fn what_is_none_is_refused() {
        let bad = |at: usize, to: u8| {
            let mut bytes = ASKED_VECTOR;
            bytes[at] = to;
            Tally::parse(&bytes).unwrap_err()
        };
        assert_eq!(bad(0, 2), Malformed::Kind);
        assert_eq!(bad(1, 2), Malformed::Value);
        assert_eq!(bad(4, 1), Malformed::Value);
        assert_eq!(bad(13, 0), Malformed::Count, "of nothing");
        assert_eq!(Tally::parse(&ASKED_VECTOR[..12]), Err(Malformed::Count));
        assert_eq!(Tally::parse(&ASKED_VECTOR[..13]), Err(Malformed::Length));
        assert_eq!(Tally::parse(&ASKED_VECTOR[..11]), Err(Malformed::Short));
        let none = Tally::parse(&TOLD_VECTOR[..4]).unwrap();
        assert!(matches!(none, Tally::Told { counts, .. } if counts.iter().len() == 0));
        let mut many = vec![3, 1, 0, 0];
        many.extend([0; 2 * (COUNTS_MAX + 1)]);
        assert_eq!(Tally::parse(&many), Err(Malformed::Count));
    }
}
