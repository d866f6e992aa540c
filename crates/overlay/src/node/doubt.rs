//! Copies of real-time packets by another path while a link on their path is in doubt: a link of this node, or one
//! farther on that a neighbour has reported. [`crate::detour`] finds the other path; [`crate::doubts`] decides which
//! neighbour to notify if there is none.
//!
//! A copy of a packet to a group goes to the far end of the link, as on an edge of a shared tree: the nodes between
//! forward it by table, and the far end treats it as if it had arrived by the tree.

use super::Node;
use super::metric;
use super::router::Router;
use super::send::assemble;
use crate::detour::{Detours, Edge};
use crate::doubts::Doubts;
use crate::groups::Key;
use crate::hello;
use crate::link::{Link, LinkIndex, Links};
use base::{Burst, Duration, NodeAddr, Outbox, Time};
use graph::Metric;
use wire::control::{Builder, LinkDoubt, MESSAGE_HEADER_BYTES};
use wire::data::{EXTENSION_LENGTH_BYTES, Header, LinkProtocol, Routing};
use wire::stamp::TreeEdge;
use wire::{CLEAR_BYTES, HEADROOM, TAG_BYTES};

/// Links in doubt, and the paths around them.
#[derive(Debug)]
pub(super) struct Doubt {
    /// The doubts that neighbours have reported about links farther on, and those reported to them.
    told: Doubts,
    around: Detours,
    /// Paths for packets that would go back to the neighbour that sent them; `None` if links are never doubted: nodes
    /// of the paper profile drop such packets.
    back: Option<Detours>,
}

impl Doubt {
    pub(super) fn new(settings: &hello::Settings) -> Doubt {
        Doubt {
            told: Doubts::default(),
            around: Detours::default(),
            back: settings.doubts().then(Detours::resting),
        }
    }

    /// Returns true if packets on the link may be lost on it or farther on.
    #[inline]
    pub(super) fn is_doubtful(&self, now: Time, link: &Link) -> bool {
        link.is_in_doubt(now) || self.told.concern(now, link.peer)
    }

    /// A neighbour reports a doubt about a link.
    pub(super) fn on_told(&mut self, now: Time, by: NodeAddr, LinkDoubt { from, to }: LinkDoubt) {
        self.told.on_told(now, by, Edge { from, to });
    }

    /// Returns the link in doubt on the packets' path: the given link of this node, or one that the link's other end
    /// has reported and that the packets take as well.
    fn doubted(
        &self,
        now: Time,
        (own, link): (NodeAddr, &Link),
        takes: impl Fn(Edge) -> bool,
    ) -> Option<Edge> {
        if link.is_in_doubt(now) {
            let (from, to) = (own, link.peer);
            return Some(Edge { from, to });
        }
        self.told.of(now, link.peer).find(|edge| takes(*edge))
    }

    /// Returns the next link for a packet that came from the neighbour which is next on its path: the best one that
    /// does not lead back there. The tables are right as far as this node knows, but the neighbour's tables differ, and
    /// packets from it would be lost between the two.
    ///
    /// Choice: RFC 5286 diverts packets around a link that has failed, and for these packets the next hop is as good as
    /// failed.
    pub(super) fn way_on(
        &mut self,
        now: Time,
        back: LinkIndex,
        (routing, to): (Routing, NodeAddr),
        (router, links): (&Router, &Links),
    ) -> Option<LinkIndex> {
        let (from, neighbor) = (router.own(), links.at(back).peer);
        let edge = Edge { from, to: neighbor };
        let without = (from, edge, metric(routing)?);
        let next = self
            .back
            .as_mut()?
            .next_hop(now, without, to, router.known())?;
        let way = links.by_peer(next).filter(|way| links.at(*way).is_up())?;
        (way != back).then_some(way)
    }

    /// Returns the link to the neighbour that carries copies of packets to `to` without the link in doubt.
    fn way_around(
        &mut self,
        now: Time,
        (edge, metric): (Edge, Metric),
        to: NodeAddr,
        (router, links): (&Router, &Links),
    ) -> Option<LinkIndex> {
        let doubt = (router.own(), edge, metric);
        let next = self.around.next_hop(now, doubt, to, router.known())?;
        let link = links.by_peer(next)?;
        let way = links.at(link);
        // Copies must not be added to a path that is already overloaded.
        let is_free = way.takes_redundancy();
        (way.is_up() && !way.is_in_doubt(now) && is_free).then_some(link)
    }

    /// Notifies the neighbour from which packets arrive, if there is one, that a link on their path is in doubt.
    fn tell(
        &mut self,
        now: Time,
        came: Option<LinkIndex>,
        edge: Edge,
        links: &mut Links,
        out: &mut impl Outbox<Node>,
    ) {
        let Some(came) = came else {
            return;
        };
        let link = links.at_mut(came);
        if link.peer == edge.to || !self.told.is_due(now, link.peer, edge) {
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
}

impl Node {
    /// Sends copies of those packets of a run that cannot wait for a verdict on the link `index`, which they are about
    /// to take, or on a link behind it. `came` is the link by which they arrived, `None` for packets of this node.
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
            let takes = |edge| self.router.takes(metric, to, edge);
            let doubted = self
                .doubt
                .doubted(now, (self.addr, self.links.at(index)), takes);
            let Some(edge) = doubted else {
                continue;
            };
            // The neighbour that sent the packet would drop it as a duplicate.
            let known = (&self.router, &self.links);
            let way = self.doubt.way_around(now, (edge, metric), to, known);
            match way.filter(|way| Some(*way) != came) {
                None => self.doubt.tell(now, came, edge, &mut self.links, out),
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

    /// Sends a packet for which the link `index` has no room by the next best path that has room, if it is in time by
    /// that path. Returns the packet if there is no such path. Routes follow a link that stays full within seconds,
    /// which is too long for a call.
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
        let known = (&self.router, &self.links);
        let Some(way) = self.doubt.way_around(now, (edge, metric), to, known) else {
            return Some(packet);
        };
        let link = self.links.at(way);
        let rest = self.router.tables().latency_from(link.peer, to);
        let rest = rest.unwrap_or_default();
        if link.way_there() + rest >= left || packet.len() > usize::from(link.path.mtu.usable()) {
            return Some(packet);
        }
        self.links.at_mut(index).passed = Some((way, now));
        self.send_run(now, way, packet, is_own, out);
        None
    }

    /// The same as [`Node::send_around`], for packets to a group that are about to take the branch `index` of its tree.
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
        let takes = |edge| self.groups.is_of_tree(key, edge, &self.router);
        let doubted = self
            .doubt
            .doubted(now, (self.addr, self.links.at(index)), takes);
        let Some(edge) = doubted else {
            return;
        };
        let known = (&self.router, &self.links);
        let around = self
            .doubt
            .way_around(now, (edge, key.metric), edge.to, known);
        let Some(way) = around else {
            return self.doubt.tell(now, came, edge, &mut self.links, out);
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

    /// A copy with this node as its end has arrived: forwards it like packets of the tree.
    pub(super) fn send_as_of_tree(
        &mut self,
        now: Time,
        slot: u32,
        run: &Burst,
        out: &mut impl Outbox<Node>,
    ) {
        for place in 0..run.segments() {
            if let Some(packet) = without_extension(run.segment(place), out) {
                // The copy also goes back over the link by which it arrived: the branch there has not had it.
                self.send_group(now, (slot, false), None, packet, out);
            }
        }
    }
}

/// Returns a copy of a packet to a group, for an edge.
fn with_edge(packet: &[u8], edge: TreeEdge, out: &impl Outbox<Node>) -> Option<Burst> {
    let header = Header::trusted(&packet[CLEAR_BYTES..]);
    let mut repr = header.repr();
    repr.has_extension = true;
    let payload = &packet[HEADROOM..packet.len() - TAG_BYTES];
    let room = HEADROOM + EXTENSION_LENGTH_BYTES + TreeEdge::BYTES;
    let payload = out.pool().copy_of(room, payload)?;
    assemble(&repr, &edge.to_bytes(), payload, false, out)
}

/// Returns a copy of a packet without its extension.
fn without_extension(packet: &[u8], out: &impl Outbox<Node>) -> Option<Burst> {
    let header = Header::trusted(&packet[CLEAR_BYTES..]);
    let mut repr = header.repr();
    repr.has_extension = false;
    let payload = &packet[CLEAR_BYTES + header.payload_offset()..packet.len() - TAG_BYTES];
    let payload = out.pool().copy_of(HEADROOM, payload)?;
    assemble(&repr, &[], payload, false, out)
}
