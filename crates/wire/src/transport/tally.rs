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
//! An answer contains the counts at its making: a late packet counts in the next answer. An answer without counts means
//! that the exit no longer knows the session, or such old counters.
//!
//! The same for the asker's packets to a group, under one of its keys. Only packets count that have come by the tree,
//! and not those that it has sent to a single receiver ([`super::group_copy()`]).
//!
//! ```text
//! +---------------+---------------+-------------------------------+
//! |    kind 3     |   2 question  |      number of the question   |   0
//! +---------------+---------------+-------------------------------+
//! |                             group                             |   4
//! +---------------+-----------------------------------------------+
//! |  reserved 0   |               number of the key               |   8
//! +---------------+-----------------------------------------------+
//! |              the first counter, the low 32 bits               |  12
//! +-------------------------------+-------------------------------+
//! |  so many from there on        |  so many after these ...      |  16
//! +-------------------------------+-------------------------------+
//!
//! +---------------+---------------+-------------------------------+
//! |    kind 3     |   3 answer    |      number of the question   |   0
//! +---------------+---------------+-------------------------------+
//! |  opened of the first          |  opened of the second ...     |   4
//! +-------------------------------+-------------------------------+
//! ```

use super::{KeyName, TALLY};
use crate::bytes::{Reader, Writer};
use crate::groups::is_group;
use crate::link::SessionIndex;
use crate::{Full, Malformed};
use base::NodeAddr;

/// The maximum number of counts in one message. Choice: half a second of packets that alternate between two paths, 256
/// bytes.
pub const COUNTS_MAX: usize = 128;
const COUNT_BYTES: usize = 2;
const ASKED: u8 = 0;
const TOLD: u8 = 1;
const ASKED_OF_KEY: u8 = 2;
const TOLD_OF_KEY: u8 = 3;

/// A question or an answer, with a number that the answer repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tally<'a> {
    /// A question how many datagrams have been opened of each of these ranges.
    Asked {
        /// The number of the question.
        number: u16,
        /// The session under which they were sealed, as the exit has chosen it.
        session: SessionIndex,
        /// The low bits of the first counter.
        first: u32,
        /// The lengths of the ranges, which follow each other.
        counts: Counts<'a>,
    },
    /// The answer.
    Told {
        /// The number of the question.
        number: u16,
        /// The count for each range.
        counts: Counts<'a>,
    },
    /// A question how many datagrams of each of these ranges have come by the tree and been opened.
    AskedOfKey {
        /// The number of the question.
        number: u16,
        /// The group, and the key under which they were sealed.
        name: KeyName,
        /// The low bits of the first counter.
        first: u32,
        /// The lengths of the ranges, which follow each other.
        counts: Counts<'a>,
    },
    /// The answer.
    ToldOfKey {
        /// The number of the question.
        number: u16,
        /// The count for each range.
        counts: Counts<'a>,
    },
}

/// Numbers in their wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts<'a>(&'a [[u8; COUNT_BYTES]]);

impl<'a> Counts<'a> {
    /// Returns the numbers.
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
                let (first, counts) = Tally::stretches(&mut r)?;
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
            ASKED_OF_KEY => {
                let (group, key) = (NodeAddr(r.u32()?), r.u32()?);
                let is_named = group.is_multicast() && is_group(group);
                if !is_named || key > SessionIndex::MAX.value() {
                    return Err(Malformed::Value);
                }
                let (first, counts) = Tally::stretches(&mut r)?;
                let name = KeyName {
                    group,
                    number: SessionIndex::new(key),
                };
                Ok(Tally::AskedOfKey {
                    number,
                    name,
                    first,
                    counts,
                })
            }
            TOLD_OF_KEY => Ok(Tally::ToldOfKey {
                number,
                counts: Tally::counts(r.rest())?,
            }),
            _ => Err(Malformed::Value),
        }
    }

    /// Reads the subject of a question: a first counter, and ranges that are not empty.
    fn stretches(r: &mut Reader<'a>) -> Result<(u32, Counts<'a>), Malformed> {
        let first = r.u32()?;
        let counts = Tally::counts(r.rest())?;
        match counts.0.is_empty() || counts.iter().any(|len| len == 0) {
            true => Err(Malformed::Count),
            false => Ok((first, counts)),
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

    /// Writes a question at the front of `out`. Returns its length.
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

    /// Writes a question about a key at the front of `out`. Returns its length.
    pub fn ask_of_key(
        (number, name, first): (u16, KeyName, u32),
        lengths: &[u16],
        out: &mut [u8],
    ) -> Result<usize, Full> {
        let mut w = Writer::new(out);
        w.u8(TALLY)?;
        w.u8(ASKED_OF_KEY)?;
        w.u16(number)?;
        w.u32(name.group.0)?;
        w.u32(name.number.value())?;
        w.u32(first)?;
        lengths.iter().try_for_each(|len| w.u16(*len))?;
        Ok(w.written().len())
    }

    /// Writes an answer at the front of `out`. Returns its length.
    pub fn tell(number: u16, opened: &[u16], out: &mut [u8]) -> Result<usize, Full> {
        Tally::answer(TOLD, number, opened, out)
    }

    /// Writes an answer to a question about a key at the front of `out`. Returns its length.
    pub fn tell_of_key(number: u16, opened: &[u16], out: &mut [u8]) -> Result<usize, Full> {
        Tally::answer(TOLD_OF_KEY, number, opened, out)
    }

    fn answer(what: u8, number: u16, opened: &[u16], out: &mut [u8]) -> Result<usize, Full> {
        let mut w = Writer::new(out);
        w.u8(TALLY)?;
        w.u8(what)?;
        w.u16(number)?;
        opened.iter().try_for_each(|count| w.u16(*count))?;
        Ok(w.written().len())
    }
}

/// The maximum length of a message.
pub const TALLY_BYTES_MAX: usize = 16 + COUNTS_MAX * COUNT_BYTES;

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

    const ASKED_OF_KEY_VECTOR: [u8; 20] = [
        3, 2, 0x12, 0x34, 239, 1, 2, 3, 0, 0xab, 0xcd, 0xef, 0xff, 0xff, 0xff, 0xf0, 0, 3, 0xff,
        0xff,
    ];
    const TOLD_OF_KEY_VECTOR: [u8; 8] = [3, 3, 0x12, 0x34, 0, 2, 0xff, 0xfe];

    #[test]
    fn the_same_about_a_key() {
        let key = KeyName {
            group: NodeAddr(0xef01_0203),
            number: SessionIndex::new(0x00ab_cdef),
        };
        let Ok(Tally::AskedOfKey {
            number,
            name,
            first,
            counts,
        }) = Tally::parse(&ASKED_OF_KEY_VECTOR)
        else {
            panic!("a question");
        };
        assert_eq!((number, name, first), (0x1234, key, 0xffff_fff0));
        assert_eq!(counts.iter().collect::<Vec<_>>(), [3, 0xffff]);
        let mut out = [0xa5; TALLY_BYTES_MAX];
        let len = Tally::ask_of_key((number, key, first), &[3, 0xffff], &mut out).unwrap();
        assert_eq!(out[..len], ASKED_OF_KEY_VECTOR);
        let Ok(Tally::ToldOfKey { number, counts }) = Tally::parse(&TOLD_OF_KEY_VECTOR) else {
            panic!("an answer");
        };
        assert_eq!(number, 0x1234);
        assert_eq!(counts.iter().collect::<Vec<_>>(), [2, 0xfffe]);
        let len = Tally::tell_of_key(number, &[2, 0xfffe], &mut out).unwrap();
        assert_eq!(out[..len], TOLD_OF_KEY_VECTOR);
        for cut in 0..ASKED_OF_KEY_VECTOR.len() - 4 {
            assert_eq!(
                Tally::parse(&ASKED_OF_KEY_VECTOR[..cut]),
                Err(Malformed::Short)
            );
        }
        for (at, to) in [(4, 10), (8, 1)] {
            let mut bytes = ASKED_OF_KEY_VECTOR;
            bytes[at] = to;
            assert_eq!(Tally::parse(&bytes), Err(Malformed::Value), "{at}");
        }
        assert_eq!(
            Tally::parse(&ASKED_OF_KEY_VECTOR[..16]),
            Err(Malformed::Count)
        );
        let longest = Tally::ask_of_key((1, key, 0), &[1; COUNTS_MAX], &mut out);
        assert_eq!(longest, Ok(TALLY_BYTES_MAX));
    }

    #[test]
    fn what_is_none_is_refused() {
        let bad = |at: usize, to: u8| {
            let mut bytes = ASKED_VECTOR;
            bytes[at] = to;
            Tally::parse(&bytes).unwrap_err()
        };
        assert_eq!(bad(0, 2), Malformed::Kind);
        assert_eq!(bad(1, 4), Malformed::Value);
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
