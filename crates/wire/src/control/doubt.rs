//! A link that may have failed, reported upstream along the path of the packets that use it.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |                             from                              |
//! +---------------------------------------------------------------+
//! |                              to                               |
//! +---------------------------------------------------------------+
//! ```

use crate::Malformed;
use crate::bytes::Reader;
use base::NodeAddr;

/// A report that the link between these nodes has fallen silent, and that the sender has no other path for packets that
/// use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkDoubt {
    /// The end that has detected the silence.
    pub from: NodeAddr,
    /// The end that is not heard.
    pub to: NodeAddr,
}

impl LinkDoubt {
    /// Number of bytes of the body.
    pub const BYTES: usize = 8;

    /// Reads a body.
    pub fn parse(body: &[u8]) -> Result<LinkDoubt, Malformed> {
        let mut r = Reader::new(body);
        let doubt = LinkDoubt {
            from: NodeAddr(r.u32()?),
            to: NodeAddr(r.u32()?),
        };
        r.finish()?;
        Ok(doubt)
    }

    /// Returns the wire format of the body.
    pub fn to_bytes(self) -> [u8; LinkDoubt::BYTES] {
        let mut bytes = [0; LinkDoubt::BYTES];
        bytes[..4].copy_from_slice(&self.from.0.to_be_bytes());
        bytes[4..].copy_from_slice(&self.to.0.to_be_bytes());
        bytes
    }
}
