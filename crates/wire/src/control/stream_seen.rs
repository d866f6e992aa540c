//! The address at which the receiver of a message is seen through a byte stream: a TCP port, which reveals nothing
//! about UDP.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------------+-+-----------------------------------------------+
//! |      0      |D|       address (16 bytes) and TCP port         |
//! +-------------+-+                                               +
//! | ..                                                            |
//! ```
//! D: the sender has dialled the receiver at this address, so the port is open. A node that does not know the message
//! skips it.

use crate::{Endpoint, Malformed};

/// The bit that says that the sender has dialled.
const DIALLED: u8 = 1;

/// The address of the other end of a stream, reported to that end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamSeenAt {
    /// The address, and the TCP port.
    pub endpoint: Endpoint,
    /// The sender has dialled the receiver at this address.
    pub is_dialled: bool,
}

impl StreamSeenAt {
    /// Number of bytes of the body.
    pub const BYTES: usize = 1 + Endpoint::BYTES;

    /// Reads a body. Bits that have no meaning yet are ignored.
    pub fn parse(body: &[u8]) -> Result<StreamSeenAt, Malformed> {
        let (flags, endpoint) = body.split_first().ok_or(Malformed::Length)?;
        Ok(StreamSeenAt {
            endpoint: Endpoint::parse(endpoint)?,
            is_dialled: flags & DIALLED != 0,
        })
    }

    /// Returns the wire format.
    pub fn to_bytes(self) -> [u8; StreamSeenAt::BYTES] {
        let mut bytes = [0; StreamSeenAt::BYTES];
        bytes[0] = match self.is_dialled {
            true => DIALLED,
            false => 0,
        };
        bytes[1..].copy_from_slice(&self.endpoint.to_bytes());
        bytes
    }
}
