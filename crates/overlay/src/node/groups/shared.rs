//! Packets to groups whose trees Scribe has built.

use super::sending::share;
use crate::event::Drop;
use crate::node::Node;
use crate::node::receive::{Verdict, drop_some};
use base::{Burst, NodeAddr, Outbox, Time};
use wire::data::Header;
use wire::stamp::TreeEdge;
use wire::{CLEAR_BYTES, HEADER_BYTES};

impl Node {
    /// Decides on a packet on an edge of a group's tree of which this node is not an end: it goes by table, towards the
    /// edge's end. The packet may arrive several times, on several edges, so nothing is remembered about it; its time
    /// to live ends loops. `None` when this node is the end.
    pub(in crate::node) fn judge_passing(
        &mut self,
        header: &mut Header<&mut [u8]>,
    ) -> Result<Option<Verdict>, Drop> {
        let edge = TreeEdge::parse(header.extension().unwrap_or_default());
        let edge = edge.map_err(|_| Drop::StampMalformed)?;
        if edge.to == self.addr {
            return Ok(None);
        }
        let ttl = header.ttl();
        if header.remaining().is_expired() {
            return Err(Drop::Expired);
        }
        if ttl <= 1 {
            return Err(Drop::TtlExceeded);
        }
        header.set_ttl(ttl - 1);
        let routing = header.class().routing;
        let link = self.router.next_hop(&self.links, routing, edge.to, None)?;
        match link == self.came {
            true => Err(Drop::Loop),
            false => Ok(Some(Verdict::Forward(link))),
        }
    }

    /// Forwards a run of opened packets along the edges of their groups' trees, and to the groups' clients here.
    pub(in crate::node) fn send_shared(
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
        self.groups
            .shared
            .on_passing(now, (source, group), came, count);
        let is_member = self.groups.is_delivered_here(group, &run, &self.router);
        let mut ends = core::mem::take(&mut self.groups.tree_ends);
        match self.groups.shared.edges(group) {
            Some(edges) => ends.extend(edges.iter().copied().filter(|end| Some(*end) != came)),
            // From outside the tree, packets go to the root. A node that is regarded as the root and is not in the tree
            // knows the actual root; an actual root outside the tree has no members.
            None => {
                let roots = self.groups.shared.roots(now, group);
                ends.extend(roots.into_iter().flatten().filter(|end| Some(*end) != came));
            }
        }
        ends.retain(|end| *end != self.addr);
        let mut left = ends.len() + usize::from(is_member);
        if left == 0 && !self.groups.receives(group, &self.router) {
            drop_some(Drop::NoMember, run.segments() as u32, out);
        }
        let mut run = Some(run);
        for to in ends.drain(..) {
            left -= 1;
            let Some(mut part) = share(&mut run, left == 0, out) else {
                continue;
            };
            let from = self.addr;
            write_edge(&mut part, TreeEdge { from, to });
            match self.router.next_hop(&self.links, routing, to, None) {
                Ok(link) => self.send_run(now, link, part, is_own, out),
                Err(reason) => {
                    drop_some(reason, part.segments() as u32, out);
                }
            }
        }
        self.groups.tree_ends = ends;
        if is_member && let Some(part) = share(&mut run, true, out) {
            self.deliver_group(now, part, out);
        }
    }

    /// Returns the edge in a packet of this node to a group until the packet is sent: none yet.
    pub(in crate::node) fn first_edge(own: NodeAddr) -> [u8; TreeEdge::BYTES] {
        TreeEdge { from: own, to: own }.to_bytes()
    }
}

/// Returns how many packets at the front of a run have the same source, group, class and edge.
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
