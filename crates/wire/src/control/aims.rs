//! The repair targets that senders of flows set, sent to the next node on the flow's path.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |                          source node                          |  n times
//! +---------------------------------------------------------------+
//! |                   destination node or group                   |
//! +-------------------------------+-------------------------------+
//! |          source port          |        destination port       |
//! +-------------------------------+---------------+---------------+
//! |  target, millionths; 0: none  |  most, 255 -  |
//! +-------------------------------+---------------+
//! ```
//! A data packet has no room for the target, and needs none: the target applies to the following packets of the flow,
//! until it is changed or until [`FLOW_AIM_LASTS`] has passed without a message. A node that does not know the message
//! repairs by its own settings.

use crate::bytes::Reader;
use crate::{Aim, Malformed};
use base::{Duration, NodeAddr, VirtualPort};

/// How long the target of a flow applies; it is sent again after a third of this time.
pub const FLOW_AIM_LASTS: Duration = Duration::from_secs(30);

/// The target of one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowAim {
    /// The node and port where the flow begins.
    pub source: (NodeAddr, VirtualPort),
    /// The node or group, and the port, where the flow goes.
    pub destination: (NodeAddr, VirtualPort),
    /// The target that its sender has set.
    pub aim: Aim,
}

/// A view of several targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowAims<'a> {
    body: &'a [u8],
}

impl FlowAim {
    /// Number of bytes on the wire.
    pub const BYTES: usize = 12 + Aim::BYTES;

    fn read(r: &mut Reader<'_>) -> Result<FlowAim, Malformed> {
        let (source, destination) = (NodeAddr(r.u32()?), NodeAddr(r.u32()?));
        let (from, to) = (VirtualPort(r.u16()?), VirtualPort(r.u16()?));
        Ok(FlowAim {
            source: (source, from),
            destination: (destination, to),
            aim: Aim::read(r)?,
        })
    }

    /// Returns the wire format.
    pub fn to_bytes(self) -> [u8; FlowAim::BYTES] {
        let mut bytes = [0; FlowAim::BYTES];
        bytes[..4].copy_from_slice(&self.source.0.0.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.destination.0.0.to_be_bytes());
        bytes[8..10].copy_from_slice(&self.source.1.0.to_be_bytes());
        bytes[10..12].copy_from_slice(&self.destination.1.0.to_be_bytes());
        bytes[12..].copy_from_slice(&self.aim.to_bytes());
        bytes
    }
}

impl<'a> FlowAims<'a> {
    /// Reads the body of the message.
    pub fn parse(body: &'a [u8]) -> Result<FlowAims<'a>, Malformed> {
        match !body.is_empty() && body.len().is_multiple_of(FlowAim::BYTES) {
            true => Ok(FlowAims { body }),
            false => Err(Malformed::Length),
        }
    }

    /// Returns the targets.
    pub fn iter(&self) -> impl Iterator<Item = FlowAim> + use<'a> {
        let all = self.body.chunks_exact(FlowAim::BYTES);
        all.filter_map(|bytes| FlowAim::read(&mut Reader::new(bytes)).ok())
    }
}
