//! The offset of a neighbor's clock from the network's, sent together with hellos.
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

/// The offset to add to the stamps of the sender's hellos to get the clock of the reference node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockOffset {
    /// The node whose clock is the network's clock.
    pub reference: NodeAddr,
    /// The offset to add to the sender's stamps, in microseconds; it wraps as they do.
    pub offset_us: u32,
}

impl ClockOffset {
    /// Number of bytes of the body.
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

    /// Returns the wire format of the body.
    pub fn to_bytes(self) -> [u8; ClockOffset::BYTES] {
        let mut bytes = [0; ClockOffset::BYTES];
        bytes[..4].copy_from_slice(&self.reference.0.to_be_bytes());
        bytes[4..].copy_from_slice(&self.offset_us.to_be_bytes());
        bytes
    }
}
