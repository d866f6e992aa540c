//! Copies of real-time packets by another way while a link that they take is in doubt: a link of this node, or one
//! farther on that a neighbour has told of. [`crate::detour`] says which way that is, [`crate::doubts`] who is told
//! where there is none.
//!
//! A copy of a packet to a group goes to the far end of the link, as on an edge of a shared tree: nodes
//! between forward it by table, and its end takes it as if it had come by the tree.

use super::Node;
use super::metric;
use super::send::assemble;
use crate::detour::{Edge, path};
use crate::groups::Key;
use crate::link::LinkIndex;
use base::{Burst, Duration, NodeAddr, Outbox, Time};
use graph::Metric;
use wire::control::{Builder, LinkDoubt, MESSAGE_HEADER_BYTES};
use wire::data::{EXTENSION_LENGTH_BYTES, Header, LinkProtocol, Routing};
use wire::groups::TreeBuilder;
use wire::stamp::TreeEdge;
use wire::{CLEAR_BYTES, HEADROOM, TAG_BYTES};

impl Node {
    /// What takes a link may be lost on it or farther on.
    #[inline]
    pub(super) fn is_doubtful(&self, now: Time, index: LinkIndex) -> bool {
        let link = self.links.at(index);
        link.is_in_doubt(now) || self.doubts.concern(now, link.peer)
    }

    /// A neighbour tells of a link.
    pub(super) fn on_doubt(&mut self, now: Time, index: LinkIndex, doubt: LinkDoubt) {
        let LinkDoubt { from, to } = doubt;
        self.doubts
            .on_told(now, self.links.at(index).peer, Edge { from, to });
    }

    /// Sends copies of those packets of a run that cannot wait for a verdict on the link `index`, which
    /// they are about to take, or on one behind it. `came` is the link that brought them, none for packets of
    /// this node.
    #[cold]
    pub(super) fn send_around(
        &mut self,
        now: Time,
        index: LinkIndex,
        came: Option<LinkIndex>,
        run: &Burst,
        out: &mut impl Outbox<Node>,
    ) {
        for place in 0..run.segments() {
            let header = Header::trusted(&run.segment(place)[CLEAR_BYTES..]);
            let (class, to) = (header.class(), header.destination());
            let Some(metric) = metric(class.routing) else {
                continue;
            };
            if class.link != LinkProtocol::RealTime || !to.is_node() {
                continue;
            }
            let takes = |node: &Node, edge: Edge| node.takes(metric, to, edge);
            let Some(edge) = self.doubted(now, index, takes) else {
                continue;
            };
            // Who has sent it would drop it as a duplicate.
            let way = self.way_around(now, (edge, metric), to);
            match way.filter(|way| Some(*way) != came) {
                None => self.tell_doubt(now, came, edge, out),
                Some(way) => {
                    let Some(packet) = out.pool().copy_of(0, run.segment(place)) else {
                        // The packets themselves are on their way.
                        return;
                    };
                    self.send_run(now, way, packet, false, out);
                }
            }
        }
    }

    /// Sends a packet for which the link `index` has no room by the next best way that has, if it is in time there. What
    /// is left if there is none. Routes follow a link that stays full within seconds; that is too long for a call.
    #[cold]
    pub(super) fn send_past(
        &mut self,
        now: Time,
        index: LinkIndex,
        packet: Burst,
        is_own: bool,
        out: &mut impl Outbox<Node>,
    ) -> Option<Burst> {
        let header = Header::trusted(&packet.segment(0)[CLEAR_BYTES..]);
        let (class, to) = (header.class(), header.destination());
        let left = header.remaining().duration().unwrap_or(Duration::MAX);
        let Some(metric) = metric(class.routing).filter(|_| to.is_node()) else {
            return Some(packet);
        };
        let edge = Edge {
            from: self.addr,
            to: self.links.at(index).peer,
        };
        let Some(way) = self.way_around(now, (edge, metric), to) else {
            return Some(packet);
        };
        let link = self.links.at(way);
        let rest = self
            .router
            .tables()
            .latency_from(link.peer, to)
            .unwrap_or_default();
        if link.way_there() + rest >= left || packet.len() > usize::from(link.path.mtu.usable()) {
            return Some(packet);
        }
        self.links.at_mut(index).passed = Some((way, now));
        self.send_run(now, way, packet, is_own, out);
        None
    }

    /// What [`Node::send_around`] does, for packets to a group that are about to take the branch `index` of its tree.
    #[cold]
    pub(super) fn send_branch_around(
        &mut self,
        now: Time,
        (key, index): (Key, LinkIndex),
        came: Option<LinkIndex>,
        run: &Burst,
        out: &mut impl Outbox<Node>,
    ) {
        let header = Header::trusted(&run.segment(0)[CLEAR_BYTES..]);
        if header.class().link != LinkProtocol::RealTime {
            return;
        }
        let takes = |node: &Node, edge: Edge| node.is_of_tree(key, edge);
        let Some(edge) = self.doubted(now, index, takes) else {
            return;
        };
        let Some(way) = self.way_around(now, (edge, key.metric), edge.to) else {
            return self.tell_doubt(now, came, edge, out);
        };
        let end = TreeEdge {
            from: self.addr,
            to: edge.to,
        };
        for place in 0..run.segments() {
            let Some(copy) = with_edge(run.segment(place), end, out) else {
                return;
            };
            if copy.len() <= usize::from(self.links.at(way).path.mtu.usable()) {
                self.send_run(now, way, copy, false, out);
            }
        }
    }

    /// A copy has come whose end this is: it goes on as packets of the tree do.
    pub(super) fn send_as_of_tree(
        &mut self,
        now: Time,
        slot: u32,
        run: &Burst,
        out: &mut impl Outbox<Node>,
    ) {
        for place in 0..run.segments() {
            if let Some(packet) = without_extension(run.segment(place), out) {
                // Also back over the link that it came by: the branch there has not had it.
                self.send_group(now, (slot, false), None, packet, out);
            }
        }
    }

    /// The link in doubt that packets take: the link `index` itself, or one of which its other end has told
    /// and that they take as well.
    fn doubted(
        &self,
        now: Time,
        index: LinkIndex,
        takes: impl Fn(&Node, Edge) -> bool,
    ) -> Option<Edge> {
        let link = self.links.at(index);
        if link.is_in_doubt(now) {
            return Some(Edge {
                from: self.addr,
                to: link.peer,
            });
        }
        let mut told = self.doubts.of(now, link.peer);
        told.find(|edge| takes(self, *edge))
    }

    /// This node's path to a destination takes a link.
    fn takes(&self, metric: Metric, to: NodeAddr, edge: Edge) -> bool {
        let topology = self.router.database().topology();
        let tree = self.router.tables().tree(metric).zip(topology.index(to));
        tree.is_some_and(|(tree, to)| path(topology, tree, to).any(|taken| taken == edge))
    }

    /// A link is of a group's tree, below this node, with a member behind it.
    fn is_of_tree(&self, key: Key, edge: Edge) -> bool {
        let topology = self.router.database().topology();
        let Some(tree) = self.trees.tree(key, self.router.database().generation()) else {
            return false;
        };
        let members = self.router.database().membership().receivers(key.group);
        let mut nodes = members.filter_map(|member| topology.index(member));
        nodes.any(|member| {
            let mut up = path(topology, tree, member);
            up.any(|taken| taken == edge)
                && (edge.from == self.addr || up.any(|taken| taken.from == self.addr))
        })
    }

    /// The link by which a packet goes on that came from the neighbour which is next on its path: the best one that
    /// does not lead back there. The tables are right as far as this node knows, but the neighbour's say otherwise, and
    /// what it has sent would be lost between the two.
    ///
    /// Choice: RFC 5286 turns packets around a link that has failed, and for these the next hop is as good as failed.
    /// Not where links are never doubted: the papers' nodes drop such packets.
    pub(super) fn way_on(
        &mut self,
        now: Time,
        back: LinkIndex,
        routing: Routing,
        to: NodeAddr,
    ) -> Option<LinkIndex> {
        if !self.settings.hello.doubts() {
            return None;
        }
        let edge = Edge {
            from: self.addr,
            to: self.links.at(back).peer,
        };
        let known = (
            self.router.database().generation(),
            self.router.database().topology(),
        );
        let without = (self.addr, edge, metric(routing)?);
        let next = self.returns.next_hop(now, without, to, known)?;
        let way = self
            .links
            .by_peer(next)
            .filter(|way| self.links.at(*way).is_up())?;
        (way != back).then_some(way)
    }

    /// The link to the neighbour that brings copies of packets to `to` without the link in doubt.
    fn way_around(
        &mut self,
        now: Time,
        (edge, metric): (Edge, Metric),
        to: NodeAddr,
    ) -> Option<LinkIndex> {
        let known = (
            self.router.database().generation(),
            self.router.database().topology(),
        );
        let doubt = (self.addr, edge, metric);
        let next = self.detours.next_hop(now, doubt, to, known)?;
        let link = self.links.by_peer(next)?;
        let way = self.links.at(link);
        // Copies are no load for a path that has too much already.
        let is_free = way
            .brake
            .as_ref()
            .is_none_or(|brake| brake.allows_redundancy());
        (way.is_up() && !way.is_in_doubt(now) && is_free).then_some(link)
    }

    /// Tells the neighbour that packets come from, if they do, that a link which they take is in doubt.
    fn tell_doubt(
        &mut self,
        now: Time,
        came: Option<LinkIndex>,
        edge: Edge,
        out: &mut impl Outbox<Node>,
    ) {
        let Some(came) = came else {
            return;
        };
        let link = self.links.at_mut(came);
        if link.peer == edge.to || !self.doubts.is_due(now, link.peer, edge) {
            return;
        }
        let Edge { from, to } = edge;
        let mut bytes = [0; LinkDoubt::BYTES + MESSAGE_HEADER_BYTES];
        if Builder::new(&mut bytes)
            .link_doubt(LinkDoubt { from, to })
            .is_ok()
        {
            link.send_control(now, &bytes, out);
        }
    }

    /// A packet with the extension of a tree's edge is a copy of one of a tree of link state.
    pub(super) fn is_copy_of_tree(&self, group: NodeAddr) -> bool {
        self.router.builder(group) == TreeBuilder::LinkState
    }
}

/// A copy of a packet to a group, on an edge.
fn with_edge(packet: &[u8], edge: TreeEdge, out: &impl Outbox<Node>) -> Option<Burst> {
    let header = Header::trusted(&packet[CLEAR_BYTES..]);
    let mut repr = header.repr();
    repr.has_extension = true;
    let payload = &packet[HEADROOM..packet.len() - TAG_BYTES];
    let room = HEADROOM + EXTENSION_LENGTH_BYTES + TreeEdge::BYTES;
    let payload = out.pool().copy_of(room, payload)?;
    assemble(&repr, &edge.to_bytes(), payload, false, out)
}

/// A copy of a packet without its extension.
fn without_extension(packet: &[u8], out: &impl Outbox<Node>) -> Option<Burst> {
    let header = Header::trusted(&packet[CLEAR_BYTES..]);
    let mut repr = header.repr();
    repr.has_extension = false;
    let payload = &packet[CLEAR_BYTES + header.payload_offset()..packet.len() - TAG_BYTES];
    let payload = out.pool().copy_of(HEADROOM, payload)?;
    assemble(&repr, &[], payload, false, out)
}
