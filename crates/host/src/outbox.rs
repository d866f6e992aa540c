//! Handles the engine's output in a running node: send queues, client sockets, counters, log.

use crate::clients::Clients;
use crate::counters::Counters;
use crate::log::Log;
use crate::resident::{Desk, place};
use crate::station::Station;
use crate::tunnel::{Tunnels, Wanted};
use base::{Burst, ClientId, NodeAddr, Outbox, Pool, Time, UnderlayAddr};
use net::addr::socket_addr;
use net::udp::SendQueue;
use overlay::event::{Drop, Event};
use overlay::request::{Reply, RequestError};
use std::sync::mpsc::SyncSender;

/// The client id that stands for the operator, whose requests come through the control socket.
pub const OPERATOR: ClientId = crate::station::OPERATOR;

/// The outbox of the loop.
#[derive(Debug)]
pub struct Io {
    /// The time of the present batch.
    pub now: Time,
    /// The packet buffers.
    pub pool: Pool,
    /// One queue per UDP socket.
    pub queues: Vec<SendQueue>,
    /// Connected clients.
    pub clients: Clients,
    /// Byte streams that carry links.
    pub tunnels: Tunnels,
    /// The queue to the thread that opens tunnels. A request that does not fit is reported again.
    pub tunnels_wanted: Option<SyncSender<Wanted>>,
    /// Totals since the start.
    pub counters: Counters,
    /// The log.
    pub log: Log,
    /// The desk of each resident, between the resident and the node.
    pub desks: Vec<Desk>,
    /// The queue for links that come up or change their address. A link that does not fit is lost.
    pub links_up: Option<SyncSender<NodeAddr>>,
    /// The routes were recomputed in this turn.
    pub routes_changed: bool,
    /// The answer to the operator's request, until the loop passes it on.
    pub operator_reply: Option<Reply>,
}

impl Outbox<Station> for Io {
    fn send(&mut self, to: UnderlayAddr, burst: Burst) {
        let packets = burst.segments() as u32;
        if to.is_stream() {
            if let Err(reason) = self.tunnels.send(self.now, to, &burst) {
                self.report(Event::Dropped { reason, packets });
            }
            return;
        }
        let taken = match self.queues.get_mut(usize::from(to.socket)) {
            Some(queue) => queue.push(to, burst),
            None => false,
        };
        if !taken {
            self.report(Event::Dropped {
                reason: Drop::NoBuffer,
                packets,
            });
        }
    }

    fn deliver(&mut self, client: ClientId, reply: Reply) {
        if let Some(desk) = place(client).and_then(|i| self.desks.get_mut(i)) {
            match reply {
                Reply::Datagram { group, payload, .. } => {
                    let is_taken = group.is_some_and(|group| desk.put(group, payload));
                    if is_taken {
                        return;
                    }
                    let reason = Drop::ClientSlow;
                    self.report(Event::Dropped { reason, packets: 1 });
                }
                Reply::NotJoined { group, why } => desk.refuse(group, why),
                Reply::Refused(RequestError::MayNotSend { group }) => {
                    desk.refuse_sending(group, &RequestError::MayNotSend { group });
                }
                _ => {}
            }
        } else if client == OPERATOR {
            self.operator_reply = Some(reply);
        } else if let Err(reason) = self.clients.deliver(client, reply) {
            self.report(Event::Dropped { reason, packets: 1 });
        }
    }

    fn report(&mut self, event: Event) {
        self.counters.apply(&event);
        self.log.event(self.now, &event);
        self.routes_changed |= matches!(event, Event::RoutesChanged { .. });
        if let (Event::NoDatagrams { peer, at }, Some(queue)) = (&event, &self.tunnels_wanted) {
            let _ = queue.try_send((*peer, socket_addr(*at)));
        }
        if let (Event::LinkUp { peer } | Event::Moved { peer, .. }, Some(queue)) =
            (&event, &self.links_up)
        {
            let _ = queue.try_send(*peer);
        }
    }

    fn pool(&self) -> &Pool {
        &self.pool
    }
}
