//! From UDP into the overlay: one leg unchanged, or two legs merged.

use super::{Leg, Shared};
use crate::video::line::Core;
use crate::video::{Outlet, Watch};
use base::{Duration, Time};
use client::Target;
use net::epoll::{Interest, Poller};
use std::net::UdpSocket;
use std::sync::Arc;
use voice::pair::{LEGS, Merger};

/// Maximum number of datagrams of one leg per turn.
const DATAGRAMS_PER_TURN: usize = 64;
/// Maximum length of a datagram.
const DATAGRAM_BYTES_MAX: usize = 65_536;
/// The time between checks for messages of the node.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// The time between checks whether the groups are still joined.
const JOIN_EVERY: Duration = Duration::from_secs(1);

pub(super) struct Inward {
    shared: Arc<Shared>,
    poller: Poller,
    ways: Vec<(Leg, UdpSocket)>,
    next_join: Time,
    /// The merger, if there are two legs.
    merger: Option<Merger>,
    outlet: Outlet,
    target: Target,
    watch: Watch,
    buffer: Vec<u8>,
}

impl Inward {
    pub(super) fn new(
        shared: Arc<Shared>,
        ways: Vec<(Leg, UdpSocket)>,
        window: Duration,
        outlet: Outlet,
        target: Target,
    ) -> std::io::Result<Inward> {
        let poller = Poller::new()?;
        for (index, (_, socket)) in ways.iter().enumerate() {
            poller.add(socket, index as u64, Interest::READ)?;
        }
        Ok(Inward {
            shared,
            poller,
            merger: (ways.len() == LEGS).then(|| Merger::new(window)),
            ways,
            next_join: Time::ZERO,
            outlet,
            target,
            watch: Watch::default(),
            buffer: vec![0; DATAGRAM_BYTES_MAX],
        })
    }

    /// Takes the datagrams that have arrived on one leg. Returns true if none is left.
    fn take(&mut self, now: Time, leg: usize) -> bool {
        for _ in 0..DATAGRAMS_PER_TURN {
            let Ok(len) = self.ways[leg].1.recv(&mut self.buffer) else {
                return true;
            };
            let (watch, outlet, target) = (&mut self.watch, &mut self.outlet, self.target);
            let mut pass = |packet: &[u8]| {
                watch.on_packet(now, packet, false);
                outlet.push(target, packet);
            };
            match &mut self.merger {
                Some(merger) => merger.on_packet(now, leg, &self.buffer[..len], &mut pass),
                None => pass(&self.buffer[..len]),
            }
        }
        false
    }

    /// Joins groups again whose interface has disappeared and come back.
    fn rejoin(&mut self) -> std::io::Result<()> {
        for (index, (leg, socket)) in self.ways.iter_mut().enumerate() {
            // A missing interface is searched again at the next check.
            if let Ok(Some(other)) = leg.rejoined(socket) {
                *socket = other;
                self.poller.add(&*socket, index as u64, Interest::READ)?;
            }
        }
        Ok(())
    }

    /// Releases packets that have waited long enough.
    fn release(&mut self, now: Time) {
        let (watch, outlet, target) = (&mut self.watch, &mut self.outlet, self.target);
        if let Some(merger) = &mut self.merger {
            merger.on_timeout(now, &mut |packet| {
                watch.on_packet(now, packet, false);
                outlet.push(target, packet);
            });
        }
    }
}

impl Core for Inward {
    fn turn(&mut self) -> std::io::Result<()> {
        let now = self.shared.clock.now();
        let due = self.merger.as_ref().and_then(Merger::next_timeout);
        let wait = due.map_or(LOOK_EVERY, |due| due.since(now).min(LOOK_EVERY));
        let mut ready = Vec::new();
        self.poller.wait(Some(wait), &mut ready)?;
        let now = self.shared.clock.now();
        // The turn reads both legs, whatever the poller reported. After a pause of this thread a missing packet may
        // have arrived meanwhile. A packet counts as missing only if it is in neither socket.
        let mut is_all = true;
        for leg in 0..self.ways.len() {
            is_all &= self.take(now, leg);
        }
        if is_all {
            self.release(now);
        }
        if now >= self.next_join {
            self.next_join = now + JOIN_EVERY;
            self.rejoin()?;
        }
        self.outlet.flush();
        self.shared.tell_node(self.outlet.look(now));
        let mut report = self.shared.report();
        report.seen = self.watch.seen();
        report.dropped = self.outlet.dropped();
        report.more = self
            .merger
            .as_ref()
            .map(|merger| (*merger.legs(), merger.merged()));
        Ok(())
    }
}
