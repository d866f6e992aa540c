//! What receivers of a group have got, told up the tree to the source.
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
//! A node adds its own and what it has heard from its branches, and tells the worst where there are
//! too many. Counts are since the receiver's first packet, and saturate.

use crate::Malformed;
use crate::bytes::Reader;
use base::NodeAddr;

/// Receivers in one report: 12 + 32 · 16 = 524 bytes.
pub const RECEPTIONS_MAX: usize = 32;

/// What one node has received of a source's packets to a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reception {
    /// The node.
    pub node: NodeAddr,
    /// Packets.
    pub received: u32,
    /// Of them, those that were lost on a hop and recovered there.
    pub recovered: u32,
    /// Packets that have not come.
    pub lost: u32,
}

/// A view of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupReport<'a> {
    /// Whose packets.
    pub source: NodeAddr,
    /// To which group.
    pub group: NodeAddr,
    /// How many nodes it is about, those included that there was no room for.
    pub receivers: u32,
    receptions: &'a [u8],
}

impl Reception {
    /// Bytes on the wire.
    pub const BYTES: usize = 16;

    /// As it stands on the wire.
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

    /// The share of packets that have not come, in units of 2^-32, for who compares.
    pub fn lost_share(&self) -> u64 {
        let sent = u64::from(self.received) + u64::from(self.lost);
        (u64::from(self.lost) << 32) / sent.max(1)
    }
}

impl<'a> GroupReport<'a> {
    /// Bytes in front of the receivers.
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

    /// What the receivers have got.
    pub fn receptions(&self) -> impl ExactSizeIterator<Item = Reception> + Clone + use<'a> {
        let (all, _) = self.receptions.as_chunks();
        all.iter().map(Reception::from_bytes)
    }
}
