//! The loop's part in tunnels: it reads them, begins them and ends them.

use super::{Driver, TOKEN_TUNNELS};
use crate::tunnel::{Ended, Offer, Wanted};
use base::{Duration, Engine, Input, Outbox};
use net::epoll::Interest;
use net::unix::Received;
use overlay::event::{Drop, Event};
use overlay::link::MAX_LINKS;
use overlay::request::Operation;
use std::sync::mpsc::{Receiver, sync_channel};
use wire::tunnel::DATAGRAM_BYTES_MAX;

/// Datagrams taken from one tunnel per turn. If datagrams are left, the poller reports the tunnel again.
const DATAGRAMS_PER_TURN: usize = 64;
/// How often the loop ends tunnels that are no longer of use, and counts what their threads have dropped.
const LOOK: Duration = Duration::from_secs(1);

impl Driver {
    /// Returns a queue of the neighbours for which a tunnel would be useful, from now on, with the address at which
    /// each is dialled by UDP. One thread may ask. A neighbour that does not fit into the queue is reported again a
    /// second later.
    pub fn tunnels_wanted(&mut self) -> Receiver<Wanted> {
        let (queue, wanted) = sync_channel(MAX_LINKS);
        self.io.tunnels_wanted = Some(queue);
        wanted
    }

    /// Takes in a tunnel. If it is not accepted, it ends: its socket to the thread is closed.
    pub(super) fn take_tunnel(&mut self, offer: Offer) {
        let (neighbor, at, is_dialled) = (offer.peer, offer.at, offer.is_dialled);
        let now = self.io.now;
        let Some((number, before)) = self.io.tunnels.take(now, offer) else {
            return;
        };
        let token = TOKEN_TUNNELS + u64::from(number);
        let socket = self.io.tunnels.socket(number);
        let watched = socket.map(|socket| self.poller.add(socket, token, Interest::READ));
        if !matches!(watched, Some(Ok(()))) {
            self.io.tunnels.end(number);
            return;
        }
        // The engine never refuses it.
        let _ = self.operate(Operation::Tunnel {
            neighbor,
            at,
            is_dialled,
        });
        if let Some(before) = before {
            self.forget_tunnel(before);
        }
    }

    /// Gives the engine the datagrams that have arrived through a tunnel.
    pub(super) fn on_tunnel(&mut self, number: u32) {
        let now = self.io.now;
        let Some(from) = self.io.tunnels.came(now, number) else {
            return;
        };
        let mut bytes = [0; DATAGRAM_BYTES_MAX];
        for _ in 0..DATAGRAMS_PER_TURN {
            let Some(socket) = self.io.tunnels.socket(number) else {
                return;
            };
            let len = match socket.recv_into(&mut bytes) {
                Ok(Received::Message(len)) => len,
                Ok(Received::Empty) => return,
                Ok(Received::Closed | Received::Truncated(_)) | Err(_) => {
                    if let Some(ended) = self.io.tunnels.end(number) {
                        self.forget_tunnel(ended);
                    }
                    return;
                }
            };
            match self.io.pool.copy_of(0, &bytes[..len]) {
                Some(burst) => {
                    let input = Input::Datagrams { from, burst };
                    self.station.handle(now, input, &mut self.io);
                }
                None => self.io.report(Event::Dropped {
                    reason: Drop::NoBuffer,
                    packets: 1,
                }),
            }
        }
    }

    /// Ends tunnels that are no longer of use, and counts what their threads have dropped.
    pub(super) fn tend_tunnels(&mut self) {
        let now = self.io.now;
        if self.io.tunnels.is_empty() || now < self.tunnels_at {
            return;
        }
        self.tunnels_at = now + LOOK;
        let dropped: Vec<(Drop, u32)> = self.io.tunnels.dropped().collect();
        for (reason, packets) in dropped {
            self.io.report(Event::Dropped { reason, packets });
        }
        while let Some(ended) = self.io.tunnels.expire(now) {
            self.forget_tunnel(ended);
        }
    }

    fn forget_tunnel(&mut self, Ended { peer, at }: Ended) {
        let neighbor = peer;
        let _ = self.operate(Operation::TunnelEnded { neighbor, at });
    }
}
