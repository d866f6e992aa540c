//! Packets to groups whose trees Scribe has built.

use super::Node;
use super::receive::Verdict;
use crate::event::{Drop, Event};
use base::{Burst, NodeAddr, Outbox, Time};
use wire::data::Header;
use wire::stamp::TreeEdge;
use wire::{CLEAR_BYTES, HEADER_BYTES};

impl Node {
    /// Decides on a packet on an edge of a group's tree of which this node is not an end: by table,
    /// towards the edge's end. It may come by more than once, on several edges, so nothing is
    /// remembered of it; its time to live ends what loops. `None` when this node is the end.
    pub(super) fn judge_passing(
        &mut self,
        header: &mut Header<&mut [u8]>,
        out: &mut impl Outbox<Node>,
    ) -> Option<Verdict> {
        let Ok(edge) = TreeEdge::parse(header.extension().unwrap_or_default()) else {
            self.drop_one(Drop::StampMalformed, out);
            return Some(Verdict::Done);
        };
        if edge.to == self.addr {
            return None;
        }
        let ttl = header.ttl();
        let reason = if header.remaining().is_expired() {
            Drop::Expired
        } else if ttl <= 1 {
            Drop::TtlExceeded
        } else {
            header.set_ttl(ttl - 1);
            let routing = header.class().routing;
            match self.router.next_hop(&self.links, routing, edge.to, None) {
                Ok(link) if link != self.came => return Some(Verdict::Forward(link)),
                Ok(_) => Drop::Loop,
                Err(reason) => reason,
            }
        };
        self.drop_one(reason, out);
        Some(Verdict::Done)
    }

    /// Sends a run of opened packets on along the edges of their groups' trees, and to the groups'
    /// clients here.
    pub(super) fn send_shared(
        &mut self,
        now: Time,
        is_own: bool,
        mut run: Burst,
        out: &mut impl Outbox<Node>,
    ) {
        while !run.is_empty() {
            let alike = alike(&run);
            if alike == run.segments() {
                return self.send_alike(now, is_own, run, out);
            }
            let front = run.split_front(alike);
            self.send_alike(now, is_own, front, out);
        }
    }

    /// The same for packets of one source, group, class and edge.
    fn send_alike(&mut self, now: Time, is_own: bool, run: Burst, out: &mut impl Outbox<Node>) {
        let header = Header::trusted(&run.segment(0)[CLEAR_BYTES..]);
        let (group, routing) = (header.destination(), header.class().routing);
        let source = header.source();
        let came = TreeEdge::parse(header.extension().unwrap_or_default());
        let came = came.ok().filter(|_| !is_own).map(|edge| edge.from);
        let count = (run.segments() as u64, run.len() as u64);
        self.shared.on_passing(now, (source, group), came, count);
        let is_member = self.is_delivered_here(group, &run);
        let mut ends = core::mem::take(&mut self.tree_ends);
        match self.shared.edges(group) {
            Some(edges) => ends.extend(edges.iter().copied().filter(|end| Some(*end) != came)),
            // To the root, from outside of the tree. Whoever is taken for the root and is not in
            // the tree knows better; a root that is not has no members.
            None => {
                let roots = self.shared.roots(now, group);
                ends.extend(roots.into_iter().flatten().filter(|end| Some(*end) != came));
            }
        }
        ends.retain(|end| *end != self.addr);
        let mut left = ends.len() + usize::from(is_member);
        if left == 0 && !self.receives(group) {
            let (reason, packets) = (Drop::NoMember, run.segments() as u32);
            out.report(Event::Dropped { reason, packets });
        }
        let mut run = Some(run);
        for to in ends.drain(..) {
            left -= 1;
            let Some(mut part) = super::groups::share(&mut run, left == 0, out) else {
                continue;
            };
            let from = self.addr;
            write_edge(&mut part, TreeEdge { from, to });
            match self.router.next_hop(&self.links, routing, to, None) {
                Ok(link) => self.send_run(now, link, part, is_own, out),
                Err(reason) => {
                    let packets = part.segments() as u32;
                    out.report(Event::Dropped { reason, packets });
                }
            }
        }
        self.tree_ends = ends;
        if is_member && let Some(part) = super::groups::share(&mut run, true, out) {
            self.deliver_group(now, part, out);
        }
    }

    /// The edge that stands in a packet of this node to a group until it is sent: none yet.
    pub(super) fn first_edge(own: NodeAddr) -> [u8; TreeEdge::BYTES] {
        TreeEdge { from: own, to: own }.to_bytes()
    }
}

/// How many packets at the front of a run have the same source, group, class and edge.
fn alike(run: &Burst) -> usize {
    let key = |i: usize| {
        let packet = &run.segment(i)[CLEAR_BYTES..];
        let header = Header::trusted(packet);
        let front = header.payload_offset();
        let class = header.class_byte();
        let ends = (header.source(), header.destination());
        (ends, class, &packet[HEADER_BYTES..front])
    };
    let first = key(0);
    (0..run.segments()).take_while(|&i| key(i) == first).count()
}

fn write_edge(run: &mut Burst, edge: TreeEdge) {
    for i in 0..run.segments() {
        let packet = &mut run.segment_mut(i)[CLEAR_BYTES..];
        if let Some(extension) = Header::trusted(packet).extension_mut() {
            extension.copy_from_slice(&edge.to_bytes());
        }
    }
}
