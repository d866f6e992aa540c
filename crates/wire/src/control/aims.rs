//! What senders of flows want of their repair, told to the next node of their way.
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
//! A data packet has no room for it, and needs none: what is told holds for the packets of the flow that follow, until it is
//! told otherwise or for [`FLOW_AIM_LASTS`] without a word. A node that does not know the message repairs by its own settings.

use crate::bytes::Reader;
use crate::{Aim, Malformed};
use base::{Duration, NodeAddr, VirtualPort};

/// What is told of a flow holds for so long; it is told anew in a third of it.
pub const FLOW_AIM_LASTS: Duration = Duration::from_secs(30);

/// The aim of one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowAim {
    /// Where the flow begins.
    pub source: (NodeAddr, VirtualPort),
    /// The node or group where it goes.
    pub destination: (NodeAddr, VirtualPort),
    /// What its sender wants.
    pub aim: Aim,
}

/// A view of some of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowAims<'a> {
    body: &'a [u8],
}

impl FlowAim {
    /// Bytes on the wire.
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

    /// As it stands in the message.
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

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = FlowAim> + use<'a> {
        let all = self.body.chunks_exact(FlowAim::BYTES);
        all.filter_map(|bytes| FlowAim::read(&mut Reader::new(bytes)).ok())
    }
}
