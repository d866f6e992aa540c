//! The reception of a group's receivers, reported up the tree to the source.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |                            source                             |
//! +---------------------------------------------------------------+
//! |                             group                             |
//! +---------------------------------------------------------------+
//! |                     receivers, those below                    |
//! +---------------------------------------------------------------+
//! |                             node                              |  n times
//! +---------------------------------------------------------------+
//! |                       packets received                        |
//! +---------------------------------------------------------------+
//! |              of them, lost on a hop and recovered             |
//! +---------------------------------------------------------------+
//! |                      packets that are missing                 |
//! +---------------------------------------------------------------+
//! ```
//!
//! A node adds its own reception and the reports of its branches, and keeps the worst receptions if there are too many.
//! Counts start with the receiver's first packet, and saturate.

use crate::Malformed;
use crate::bytes::Reader;
use base::NodeAddr;

/// The maximum number of receivers in one report: 12 + 32 · 16 = 524 bytes.
pub const RECEPTIONS_MAX: usize = 32;

/// The number of a source's packets to a group that one node has received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reception {
    /// The node.
    pub node: NodeAddr,
    /// Number of packets that have arrived.
    pub received: u32,
    /// Number of these packets that were lost on a hop and recovered there.
    pub recovered: u32,
    /// Number of packets that have not arrived.
    pub lost: u32,
}

/// A view of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupReport<'a> {
    /// The source of the packets.
    pub source: NodeAddr,
    /// The group of the packets.
    pub group: NodeAddr,
    /// Number of nodes that the report covers, including those without room in it.
    pub receivers: u32,
    receptions: &'a [u8],
}

impl Reception {
    /// Number of bytes on the wire.
    pub const BYTES: usize = 16;

    /// Returns the wire format.
    pub fn to_bytes(self) -> [u8; Reception::BYTES] {
        let mut bytes = [0; Reception::BYTES];
        let fields = [self.node.0, self.received, self.recovered, self.lost];
        for (place, field) in bytes.chunks_exact_mut(4).zip(fields) {
            place.copy_from_slice(&field.to_be_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: &[u8; Reception::BYTES]) -> Reception {
        let (fields, _) = bytes.as_chunks::<4>();
        let field = |i: usize| u32::from_be_bytes(fields[i]);
        Reception {
            node: NodeAddr(field(0)),
            received: field(1),
            recovered: field(2),
            lost: field(3),
        }
    }

    /// Returns the share of packets that have not arrived, in units of 2^-32, for comparisons.
    pub fn lost_share(&self) -> u64 {
        let sent = u64::from(self.received) + u64::from(self.lost);
        (u64::from(self.lost) << 32) / sent.max(1)
    }
}

impl<'a> GroupReport<'a> {
    /// Number of bytes in front of the receivers.
    pub const FIXED_BYTES: usize = 12;

    /// Reads a body.
    pub fn parse(body: &'a [u8]) -> Result<GroupReport<'a>, Malformed> {
        let mut r = Reader::new(body);
        let report = GroupReport {
            source: NodeAddr(r.u32()?),
            group: NodeAddr(r.u32()?),
            receivers: r.u32()?,
            receptions: r.rest(),
        };
        if !report.receptions.len().is_multiple_of(Reception::BYTES) {
            return Err(Malformed::Length);
        }
        if report.receptions.len() > RECEPTIONS_MAX * Reception::BYTES {
            return Err(Malformed::Count);
        }
        match report.source.is_node() && report.group.is_multicast() {
            true => Ok(report),
            false => Err(Malformed::Value),
        }
    }

    /// Returns the receptions of the receivers.
    pub fn receptions(&self) -> impl ExactSizeIterator<Item = Reception> + Clone + use<'a> {
        let (all, _) = self.receptions.as_chunks();
        all.iter().map(Reception::from_bytes)
    }
}
