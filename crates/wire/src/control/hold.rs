//! Back-pressure: what a node takes of the packets to some destinations, while those that came before
//! wait at it. [Amir03 §IV]
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
//! Seven bytes for each destination and routing: of the reliable packets that go there by that routing,
//! so many may be on their way to this node and not acknowledged. [`Hold::NONE`] ends the hold. A hold
//! is told again while it lasts, and ends by itself when it is not.

use crate::Malformed;
use crate::data::{Class, LinkProtocol, Routing};
use base::NodeAddr;

/// Bytes of one hold.
pub(super) const HOLD_BYTES: usize = 7;

/// How many packets to a destination may be on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Where they go.
    pub destination: NodeAddr,
    /// By which routing.
    pub routing: Routing,
    /// How many.
    pub room: u16,
}

/// Some destinations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneHolds<'a> {
    holds: &'a [u8],
}

impl Hold {
    /// The room of a destination that is not held any more.
    pub const NONE: u16 = u16::MAX;

    /// The hold as it stands on the wire.
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
    /// Reads a body: at least one hold, and whole ones of known routings.
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

    /// The holds, in the order in which they stand.
    pub fn holds(&self) -> impl Iterator<Item = Hold> + 'a {
        let (holds, _) = self.holds.as_chunks::<HOLD_BYTES>();
        // All have been read before.
        holds.iter().filter_map(|hold| Hold::from_bytes(hold).ok())
    }
}
