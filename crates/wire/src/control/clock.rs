//! What a neighbour's clock is ahead of the network's, told beside hellos.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |                           reference                           |
//! +---------------------------------------------------------------+
//! |                          offset, us                           |
//! +---------------------------------------------------------------+
//! ```

use crate::Malformed;
use crate::bytes::Reader;
use base::NodeAddr;

/// "Add this to the stamps of my hellos, and you have what the clock of that node says."
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockOffset {
    /// The node whose clock is the network's.
    pub reference: NodeAddr,
    /// To be added to the sender's stamps, in microseconds; wraps as they do.
    pub offset_us: u32,
}

impl ClockOffset {
    /// Bytes of the body.
    pub const BYTES: usize = 8;

    /// Reads a body.
    pub fn parse(body: &[u8]) -> Result<ClockOffset, Malformed> {
        let mut r = Reader::new(body);
        let clock = ClockOffset {
            reference: NodeAddr(r.u32()?),
            offset_us: r.u32()?,
        };
        r.finish()?;
        Ok(clock)
    }

    /// The body.
    pub fn to_bytes(self) -> [u8; ClockOffset::BYTES] {
        let mut bytes = [0; ClockOffset::BYTES];
        bytes[..4].copy_from_slice(&self.reference.0.to_be_bytes());
        bytes[4..].copy_from_slice(&self.offset_us.to_be_bytes());
        bytes
    }
}
