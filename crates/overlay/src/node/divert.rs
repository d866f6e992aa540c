//! Packets that take another path than the tables say, because the path by table does not deliver what it promises.
//! [`crate::audit`] decides which packets.
//!
//! ```text
//!   client ─▶ cut, with room for the stamps and to what the ways carry ─▶ seal_to ─▶ divert
//!                                                                                      │
//!               as always ◀── table, or neither way carries it ◀───────────────────────┤
//!               stamped with each way that carries it, sealed for itself, noted ◀──────'
//! ```

use super::Node;
use super::audit::has_room;
use super::receive::drop_some;
use super::send::extension_bytes;
use crate::audit::{Audit, Course, WayId};
use crate::event::Drop;
use crate::link::LinkIndex;
use crate::mtu::DEFAULT;
use base::{Burst, NodeAddr, Outbox, Time};
use wire::CLEAR_BYTES;
use wire::data::{EXTENSION_LENGTH_BYTES, HEADER_BYTES, Header, Routing};
use wire::stamp::STAMP_BYTES_MAX;

/// The limits for packets that may take the planned ways.
#[derive(Clone, Copy, Debug)]
pub(super) struct Diversion {
    /// The longest datagram that all of the ways carry.
    pub(super) usable: u16,
    /// Number of bytes that the longest stamp takes.
    pub(super) stamp_bytes: usize,
}

impl Node {
    /// Sends packets by another path than usual, if their path does not deliver what it promises. Returns the packets
    /// if they go as usual.
    pub(super) fn divert(
        &mut self,
        now: Time,
        to: NodeAddr,
        natural: Option<WayId>,
        packets: Burst,
        out: &mut impl Outbox<Node>,
    ) -> Option<Burst> {
        let count = packets.segments();
        let links = &self.links;
        let has_room = |hop: NodeAddr| has_room(links, links.by_peer(hop));
        let course = self.audits.course(now, to, (natural, count), has_room);
        let (first, second) = match course {
            Course::Table => return Some(packets),
            Course::One(way) => (way, None),
            Course::Two(first, second) => (first, Some(second)),
        };
        // All of this is decided before the first copy leaves: packets that go by table after all must not have been
        // sent already.
        let ways = [Some(first), second];
        let ways = ways.map(|way| way.filter(|way| self.carries(to, *way, &packets)));
        // No room was kept for the stamp of a way that is not part of the plan.
        let is_planned = |audit: &Audit| audit.ways.is_planned(first);
        let is_by_table = ways[0].is_none() && !self.audits.get(to).is_some_and(is_planned);
        if is_by_table || ways == [None, None] {
            return Some(packets);
        }
        for way in ways.into_iter().flatten() {
            let mut stamp = [0; STAMP_BYTES_MAX];
            let known = self.audits.get(to).map_or(&[][..], |a| a.ways.stamp(way));
            let len = known.len();
            stamp[..len].copy_from_slice(known);
            self.send_along(now, to, (way, &stamp[..len]), &packets, out);
        }
        None
    }

    /// Returns whether a way has a stamp, and packets with this stamp are not too long for the links of the way. Other
    /// links do not matter: otherwise any member could prevent diversions by claiming that a link of its own carries
    /// only short packets.
    fn carries(&self, to: NodeAddr, way: WayId, packets: &Burst) -> bool {
        let Some(Audit { ways, .. }) = self.audits.get(to) else {
            return false;
        };
        let most = usize::from(self.router.database().usable_along(ways.nodes(way)));
        let stamp_bytes = ways.stamp(way).len();
        stamp_bytes > 0 && fits(packets, stamp_bytes, most)
    }

    /// Sends copies of unsealed packets along a way.
    fn send_along(
        &mut self,
        now: Time,
        to: NodeAddr,
        (way, stamp): (WayId, &[u8]),
        packets: &Burst,
        out: &mut impl Outbox<Node>,
    ) {
        let mut at = 0;
        while at < packets.segments() {
            let Some(copy) = restamp(packets, at, stamp, out) else {
                return drop_some(Drop::NoBuffer, (packets.segments() - at) as u32, out);
            };
            at += copy.segments();
            if let Some(sealed) = self.seal_noted(now, to, copy, Some(way), out) {
                self.send_copies(now, None, sealed, out);
            }
        }
    }

    /// Returns the link by which packets leave, if they take one path that is not the one by table.
    pub(super) fn diverted_hop(&self, routing: Routing, to: NodeAddr) -> Option<LinkIndex> {
        let hop = self.audits.get(to)?.first_hop(routing)?;
        let link = self.links.by_peer(hop)?;
        self.links.at(link).is_up().then_some(link)
    }

    /// Returns what packets to a node must leave room for while they may take another path than the one by table.
    pub(super) fn diversion(&self, to: NodeAddr) -> Diversion {
        let mut diversion = Diversion {
            usable: DEFAULT,
            stamp_bytes: 0,
        };
        if let Some(Audit { ways, .. }) = self.audits.get(to) {
            for way in ways.planned() {
                let usable = self.router.database().usable_along(ways.nodes(way));
                let stamp_bytes = extension_bytes(ways.stamp(way));
                diversion.usable = diversion.usable.min(usable);
                diversion.stamp_bytes = diversion.stamp_bytes.max(stamp_bytes);
            }
        }
        diversion
    }
}

fn extension_bytes_of(stamp_bytes: usize) -> usize {
    match stamp_bytes {
        0 => 0,
        len => EXTENSION_LENGTH_BYTES + len,
    }
}

/// Returns whether packets have at most `most` bytes if their stamp is replaced by one of `stamp_bytes` bytes.
fn fits(packets: &Burst, stamp_bytes: usize, most: usize) -> bool {
    let header = Header::trusted(&packets.segment(0)[CLEAR_BYTES..]);
    let before = extension_bytes(header.extension().unwrap_or_default());
    packets.stride() - before + extension_bytes_of(stamp_bytes) <= most
}

/// Returns copies of the packets from place `at` on with this stamp, as many as one buffer holds.
fn restamp(packets: &Burst, at: usize, stamp: &[u8], out: &impl Outbox<Node>) -> Option<Burst> {
    let pool = out.pool();
    let first = packets.segment(at);
    let from = CLEAR_BYTES + Header::trusted(&first[CLEAR_BYTES..]).payload_offset();
    let front = CLEAR_BYTES + HEADER_BYTES + EXTENSION_LENGTH_BYTES + stamp.len();
    let stride = front + first.len() - from;
    let small = pool.small().filter(|small| {
        let is_last = at + 1 == packets.segments();
        is_last && stride <= small.capacity()
    });
    let mut copy = small.or_else(|| pool.large())?;
    let (mut used, capacity) = (0, copy.capacity());
    for i in at..packets.segments() {
        let packet = packets.segment(i);
        let len = front + packet.len() - from;
        if used + len > capacity {
            break;
        }
        let mut header = Header::trusted(&packet[CLEAR_BYTES..]).repr();
        header.class.routing = Routing::Stamped;
        header.has_extension = true;
        let room = &mut copy.spare_mut()[used..used + len];
        let (head, rest) = room.split_at_mut(front);
        let emitted = header.emit(&mut head[CLEAR_BYTES..]);
        emitted.expect("the header fits before its stamp");
        let extension = &mut head[CLEAR_BYTES + HEADER_BYTES..];
        let (length, place) = extension.split_at_mut(EXTENSION_LENGTH_BYTES);
        length.copy_from_slice(&(stamp.len() as u16).to_be_bytes());
        place.copy_from_slice(stamp);
        rest.copy_from_slice(&packet[from..]);
        used += len;
    }
    if used == 0 {
        return None;
    }
    copy.fill(used, stride);
    Some(copy)
}
