//! Links over byte streams (TCP), which the host opens if datagrams get no answer.
//!
//! ```text
//!   Event::NoDatagrams ──▶ host: TLS to the neighbour ──▶ Operation::Tunnel ──▶ dialled there at once
//!                                                         Operation::TunnelEnded ──▶ silence, then as before
//! ```
//! [`crate::link`]'s `Fallback` decides when to ask for a stream, and when to try datagrams again.

use super::Node;
use crate::event::Event;
use crate::link::LinkIndex;
use crate::request::{Reply, RequestError};
use base::{NodeAddr, Outbox, Time, UnderlayAddr};

impl Node {
    /// The host has a byte stream to a neighbour.
    pub(super) fn on_tunnel(
        &mut self,
        now: Time,
        neighbor: NodeAddr,
        (at, is_dialled): (UnderlayAddr, bool),
        out: &mut impl Outbox<Node>,
    ) -> Result<Reply, RequestError> {
        let Some(index) = self.links.by_peer(neighbor) else {
            // A node that is no neighbour yet identifies itself by a handshake.
            return Ok(Reply::Done);
        };
        let link = self.links.at_mut(index);
        link.fallback.on_open(at, is_dialled);
        if link.is_over_stream() {
            // The former stream ends: this one leads to the same neighbour, with the same keys.
            link.move_to(now, at);
        }
        if !link.is_up() {
            // The node asked for the stream because dials by datagrams had no answer.
            (link.path.dialled, link.path.dials) = (None, 0);
            self.redial(now, out);
        }
        Ok(Reply::Done)
    }

    /// A byte stream has ended. A link that used it tries datagrams again and finds out by silence whether they get
    /// through.
    pub(super) fn on_tunnel_ended(
        &mut self,
        now: Time,
        neighbor: NodeAddr,
        at: UnderlayAddr,
    ) -> Result<Reply, RequestError> {
        let Some(index) = self.links.by_peer(neighbor) else {
            return Ok(Reply::Done);
        };
        let link = self.links.at_mut(index);
        let was_used = link.path.leads_to(at);
        let ended = link.end_spares(now, |spare| spare.leads_to(at));
        self.release(ended);
        let link = self.links.at_mut(index);
        if link.fallback.on_end(at) && was_used {
            link.path.at = link.dial.or(link.path.at);
            if link.is_up() {
                link.path.hello.watch_closely(now);
            }
            self.links.touch(index);
        }
        Ok(Reply::Done)
    }

    /// A neighbour sends from another address.
    #[cold]
    pub(super) fn on_moved(
        &mut self,
        now: Time,
        index: LinkIndex,
        at: UnderlayAddr,
        out: &mut impl Outbox<Node>,
    ) {
        let link = self.links.at_mut(index);
        link.path.mtu.suspect(now);
        let peer = link.peer;
        out.report(Event::Moved { peer, at });
        self.note_way(now, index, out);
    }

    /// Notifies others if the link has changed from datagrams to a byte stream, or back.
    pub(super) fn note_way(&mut self, now: Time, index: LinkIndex, out: &mut impl Outbox<Node>) {
        let link = self.links.at_mut(index);
        let (peer, is_stream) = (link.peer, link.is_over_stream());
        if link.fallback.is_news(is_stream) {
            link.path.mtu.suspect(now);
            out.report(Event::Way { peer, is_stream });
            self.consider_cost(now, index);
            self.own_record.note();
        }
    }
}
