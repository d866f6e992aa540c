//! The request for missing packets of the real-time lane. [Amir06 §IV-A]
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+-----------------------------------------------+
//! |    strike     |      first missing lane sequence number       |
//! +---------------+-----------------------------------------------+
//! |     bitmap of the following 32: bit 31-i = first + 1 + i      |
//! +-----------------------------------------------+---------------+
//! |      first missing lane sequence number       |   bitmap ...  |
//! +-----------------------------------------------+---------------+
//! ```
//!
//! Seven bytes can name up to 33 missing packets. The strike counts the requests for the same packets, from 1.

use crate::Malformed;
use crate::bytes::{Reader, Writer};
use crate::data::LaneSeq;

/// Number of bytes of one range.
pub(super) const RANGE_BYTES: usize = 7;
/// How many sequence numbers one range can name: the first and the 32 of the bitmap.
pub const RANGE_SEQS: u64 = 33;

/// A list of missing packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nack<'a> {
    /// How often these packets have been requested, including this time.
    pub strike: u8,
    ranges: &'a [u8],
}

impl<'a> Nack<'a> {
    /// Reads a body: at least one range, and only complete ones.
    pub fn parse(body: &'a [u8]) -> Result<Nack<'a>, Malformed> {
        let mut r = Reader::new(body);
        let strike = r.u8()?;
        let ranges = r.rest();
        if ranges.is_empty() {
            return Err(Malformed::Short);
        }
        if !ranges.len().is_multiple_of(RANGE_BYTES) {
            return Err(Malformed::Length);
        }
        Ok(Nack { strike, ranges })
    }

    /// Returns the missing numbers, range by range, rising within each.
    pub fn missing(&self) -> impl Iterator<Item = LaneSeq> + Clone + 'a {
        let (ranges, _) = self.ranges.as_chunks::<RANGE_BYTES>();
        ranges.iter().flat_map(|&[a, b, c, m0, m1, m2, m3]| {
            let first = LaneSeq::new(u32::from_be_bytes([0, a, b, c]));
            let bitmap = u32::from_be_bytes([m0, m1, m2, m3]);
            let set = (0..32).filter(move |i| bitmap << i & 1 << 31 != 0);
            core::iter::once(first).chain(set.map(move |i| first.plus(1 + i)))
        })
    }

    /// Returns how many numbers are missing.
    pub fn count(&self) -> usize {
        let (ranges, _) = self.ranges.as_chunks::<RANGE_BYTES>();
        let bits = |r: &[u8; RANGE_BYTES]| {
            1 + u32::from_be_bytes([r[3], r[4], r[5], r[6]]).count_ones() as usize
        };
        ranges.iter().map(bits).sum()
    }
}

/// Returns the range that begins with the first of `seqs`, and how many of them it covers. `seqs` are rising and not
/// empty.
pub(super) fn range(seqs: &[u64]) -> ([u8; RANGE_BYTES], usize) {
    let first = seqs[0];
    let covered = seqs
        .iter()
        .take_while(|&&s| s >= first && s - first < RANGE_SEQS)
        .count();
    let mut bitmap = 0u32;
    for &s in &seqs[..covered] {
        if s > first {
            bitmap |= 1 << (32 - (s - first));
        }
    }
    let mut bytes = [0; RANGE_BYTES];
    let mut w = Writer::new(&mut bytes);
    w.u24(LaneSeq::of(first).value())
        .and_then(|()| w.u32(bitmap))
        .expect("three bytes and four are seven");
    (bytes, covered)
}
