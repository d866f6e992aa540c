//! Measures how long a datagram the path to a neighbor carries: probes of a given length, and their answers.
//!
//! ```text
//!  MtuProbe
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |                            number                             |
//! +-------------------------------+-------------------------------+
//! |             bytes             |  padding, up to the length ...|
//! +-------------------------------+-------------------------------+
//!
//!  MtuAnswer
//! +---------------------------------------------------------------+
//! |                            number                             |
//! +-------------------------------+-------------------------------+
//! |             bytes             |
//! +-------------------------------+
//! ```
//!
//! A probe is alone in its datagram, which has `bytes` bytes from its clear header to its tag: this is what UDP
//! carries. The padding is sent as zeros and ignored. The answer repeats the probe's number and bytes, and confirms
//! that a datagram of that length has arrived completely.

use super::MESSAGE_HEADER_BYTES;
use crate::bytes::Reader;
use crate::link::SEAL_BYTES;
use crate::{Full, Malformed};

/// Number of bytes of a probe's datagram that do not belong to its body.
const AROUND: usize = SEAL_BYTES + MESSAGE_HEADER_BYTES;

/// A probe whether a datagram of this length arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MtuProbe {
    /// The sender's number of the probe.
    pub number: u32,
    /// The length of the datagram.
    pub bytes: u16,
}

/// The answer that the probe has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MtuAnswer {
    /// The probe's number.
    pub number: u32,
    /// The length of the probe's datagram.
    pub bytes: u16,
}

impl MtuProbe {
    /// Number of bytes of the body before the padding.
    pub const FIXED_BYTES: usize = 6;
    /// The shortest datagram with a probe: no padding.
    pub const DATAGRAM_BYTES_MIN: usize = AROUND + MtuProbe::FIXED_BYTES;

    /// Reads a body. If it has another length than it says, the result is [`Malformed::Length`].
    pub fn parse(body: &[u8]) -> Result<MtuProbe, Malformed> {
        let mut r = Reader::new(body);
        let number = r.u32()?;
        let bytes = r.u16()?;
        match AROUND + body.len() == usize::from(bytes) {
            true => Ok(MtuProbe { number, bytes }),
            false => Err(Malformed::Length),
        }
    }

    /// Writes the body at the front of `out`.
    pub(super) fn emit(self, out: &mut [u8]) -> Result<(), Full> {
        let (fixed, padding) = out
            .split_first_chunk_mut::<{ MtuProbe::FIXED_BYTES }>()
            .ok_or(Full)?;
        *fixed = to_bytes(self.number, self.bytes);
        padding.fill(0);
        Ok(())
    }

    /// Returns the number of bytes of the body with its padding.
    pub(super) fn body_bytes(self) -> Result<usize, Full> {
        let body = usize::from(self.bytes).checked_sub(AROUND);
        body.filter(|body| *body >= MtuProbe::FIXED_BYTES)
            .ok_or(Full)
    }
}

impl MtuAnswer {
    /// Number of bytes of the body.
    pub const BYTES: usize = 6;

    /// Reads a body.
    pub fn parse(body: &[u8]) -> Result<MtuAnswer, Malformed> {
        let mut r = Reader::new(body);
        let number = r.u32()?;
        let bytes = r.u16()?;
        r.finish()?;
        Ok(MtuAnswer { number, bytes })
    }

    /// Returns the wire format of the body.
    pub const fn to_bytes(self) -> [u8; MtuAnswer::BYTES] {
        to_bytes(self.number, self.bytes)
    }
}

const fn to_bytes(number: u32, bytes: u16) -> [u8; 6] {
    let [a, b, c, d] = number.to_be_bytes();
    let [e, f] = bytes.to_be_bytes();
    [a, b, c, d, e, f]
}
