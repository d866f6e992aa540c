//! Copies of real-time packets by another way while the link that they take is in doubt.
//! [`crate::detour`] says which way that is.

use super::Node;
use super::send::metric;
use crate::link::LinkIndex;
use base::{Burst, NodeAddr, Outbox, Time};
use wire::CLEAR_BYTES;
use wire::data::{Header, LinkProtocol};

impl Node {
    /// Sends copies of those packets of a run that cannot wait for a verdict on the link `index`, which
    /// they are about to take. `came` is the neighbour that sent them, none for packets of this node.
    #[cold]
    pub(super) fn send_around(
        &mut self,
        now: Time,
        index: LinkIndex,
        came: Option<NodeAddr>,
        run: &Burst,
        out: &mut impl Outbox<Node>,
    ) {
        for place in 0..run.segments() {
            let Some(packet) = out.pool().copy_of(0, run.segment(place)) else {
                // The packets themselves are on their way.
                return;
            };
            if let Some(link) = self.way_around(now, index, &packet)
                && Some(self.links.at(link).peer) != came
            {
                self.send_run(now, link, packet, false, out);
            }
        }
    }

    /// The link that a packet's copy takes while the link `index` is in doubt.
    fn way_around(&mut self, now: Time, index: LinkIndex, packet: &Burst) -> Option<LinkIndex> {
        let header = Header::trusted(&packet.segment(0)[CLEAR_BYTES..]);
        let (class, to) = (header.class(), header.destination());
        if class.link != LinkProtocol::RealTime || !to.is_node() {
            return None;
        }
        let doubt = (self.addr, self.links.at(index).peer, metric(class.routing)?);
        let known = (self.database.generation(), self.database.topology());
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
}
