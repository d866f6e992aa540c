//! How long a datagram the path to a neighbour carries: probes of a length, and their answers.
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
//! A probe is alone in its datagram, which has `bytes` bytes from its clear header to its tag: what
//! UDP carries. The padding is sent as zeros and not looked at. The answer repeats the probe's
//! number and bytes, and tells that a datagram of that length has come whole.

use super::MESSAGE_HEADER_BYTES;
use crate::bytes::Reader;
use crate::link::SEAL_BYTES;
use crate::{Full, Malformed};

/// Bytes of a probe's datagram that are not its body.
const AROUND: usize = SEAL_BYTES + MESSAGE_HEADER_BYTES;

/// Does a datagram of this length arrive?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MtuProbe {
    /// The sender's count of its probes.
    pub number: u32,
    /// Bytes of the datagram.
    pub bytes: u16,
}

/// It does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MtuAnswer {
    /// The probe's number.
    pub number: u32,
    /// The bytes of its datagram.
    pub bytes: u16,
}

impl MtuProbe {
    /// Bytes of the body before the padding.
    pub const FIXED_BYTES: usize = 6;
    /// The shortest datagram with a probe: no padding.
    pub const DATAGRAM_BYTES_MIN: usize = AROUND + MtuProbe::FIXED_BYTES;

    /// Reads a body. One that is not as long as it says is [`Malformed::Length`].
    pub fn parse(body: &[u8]) -> Result<MtuProbe, Malformed> {
        let mut r = Reader::new(body);
        let number = r.u32()?;
        let bytes = r.u16()?;
        match AROUND + body.len() == usize::from(bytes) {
            true => Ok(MtuProbe { number, bytes }),
            false => Err(Malformed::Length),
        }
    }

    /// Writes the body at the front of `out`, and tells its length.
    pub(super) fn emit(self, out: &mut [u8]) -> Result<(), Full> {
        let (fixed, padding) = out
            .split_first_chunk_mut::<{ MtuProbe::FIXED_BYTES }>()
            .ok_or(Full)?;
        *fixed = to_bytes(self.number, self.bytes);
        padding.fill(0);
        Ok(())
    }

    /// Bytes of the body with its padding.
    pub(super) fn body_bytes(self) -> Result<usize, Full> {
        let body = usize::from(self.bytes).checked_sub(AROUND);
        body.filter(|body| *body >= MtuProbe::FIXED_BYTES)
            .ok_or(Full)
    }
}

impl MtuAnswer {
    /// Bytes of the body.
    pub const BYTES: usize = 6;

    /// Reads a body.
    pub fn parse(body: &[u8]) -> Result<MtuAnswer, Malformed> {
        let mut r = Reader::new(body);
        let number = r.u32()?;
        let bytes = r.u16()?;
        r.finish()?;
        Ok(MtuAnswer { number, bytes })
    }

    /// The body as it stands on the wire.
    pub const fn to_bytes(self) -> [u8; MtuAnswer::BYTES] {
        to_bytes(self.number, self.bytes)
    }
}

const fn to_bytes(number: u32, bytes: u16) -> [u8; 6] {
    let [a, b, c, d] = number.to_be_bytes();
    let [e, f] = bytes.to_be_bytes();
    [a, b, c, d, e, f]
}
