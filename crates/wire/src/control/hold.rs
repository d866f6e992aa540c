//! Back-pressure: how many packets to some destinations a node accepts while earlier packets to these destinations wait
//! at it. [Amir03 §IV]
//!
//! ```text
//!  LaneHolds
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |              destination: a node, or a group                  |
//! +---------+-----+-------------------------------+---------------+
//! |    0    |rout.|             room              | destination ..|
//! +---------+-----+-------------------------------+---------------+
//! ```
//!
//! There are seven bytes for each destination and routing: the maximum number of reliable packets to that destination
//! by that routing that may be on their way to this node without acknowledgement. [`Hold::NONE`] ends the hold. A hold
//! is repeated while it lasts, and ends by itself when it is not repeated.

use crate::Malformed;
use crate::data::{Class, LinkProtocol, Routing};
use base::NodeAddr;

/// Number of bytes of one hold.
pub(super) const HOLD_BYTES: usize = 7;

/// How many packets to a destination may be on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The destination of the packets.
    pub destination: NodeAddr,
    /// The routing of the packets.
    pub routing: Routing,
    /// The number of packets.
    pub room: u16,
}

/// The holds of several destinations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneHolds<'a> {
    holds: &'a [u8],
}

impl Hold {
    /// The room value of a destination that is not held any more.
    pub const NONE: u16 = u16::MAX;

    /// Returns the wire format of the hold.
    pub(super) fn to_bytes(self) -> [u8; HOLD_BYTES] {
        let [a, b, c, d] = self.destination.0.to_be_bytes();
        let [high, low] = self.room.to_be_bytes();
        let class = Class {
            link: LinkProtocol::BestEffort,
            routing: self.routing,
            priority: 0,
        };
        [a, b, c, d, class.to_byte() >> 3, high, low]
    }

    fn from_bytes(bytes: &[u8; HOLD_BYTES]) -> Result<Hold, Malformed> {
        let &[a, b, c, d, routing, high, low] = bytes;
        if routing > 7 {
            return Err(Malformed::Value);
        }
        Ok(Hold {
            destination: NodeAddr(u32::from_be_bytes([a, b, c, d])),
            routing: Class::from_byte(routing << 3)?.routing,
            room: u16::from_be_bytes([high, low]),
        })
    }
}

impl<'a> LaneHolds<'a> {
    /// Reads a body: at least one hold, and only complete ones of known routings.
    pub fn parse(body: &'a [u8]) -> Result<LaneHolds<'a>, Malformed> {
        if body.is_empty() {
            return Err(Malformed::Short);
        }
        let (holds, rest) = body.as_chunks::<HOLD_BYTES>();
        if !rest.is_empty() {
            return Err(Malformed::Length);
        }
        for hold in holds {
            Hold::from_bytes(hold)?;
        }
        Ok(LaneHolds { holds: body })
    }

    /// Returns the holds, in their order.
    pub fn holds(&self) -> impl Iterator<Item = Hold> + 'a {
        let (holds, _) = self.holds.as_chunks::<HOLD_BYTES>();
        // All holds were checked when they were parsed.
        holds.iter().filter_map(|hold| Hold::from_bytes(hold).ok())
    }
}
