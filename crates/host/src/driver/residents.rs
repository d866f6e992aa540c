//! The loop's part in serving residents.

use super::{Driver, HostError, TOKEN_RESIDENTS};
use crate::resident::{self, Desk, RESIDENTS_MAX, Resident, Wish, Wishes};
use crate::status::BridgeStatus;
use base::{Duration, Engine, Input, Outbox};
use net::epoll::Interest;
use overlay::Request;
use overlay::event::{Drop, Event};
use wire::HEADROOM;

/// One that lives here.
#[derive(Debug)]
pub(super) struct Lodger {
    resident: Box<dyn Resident>,
    /// Its descriptor was ready in this turn.
    is_ready: bool,
}

impl Driver {
    /// Takes one in. What it asks for has its turn when the loop runs.
    pub fn take_in(&mut self, resident: Box<dyn Resident>) -> Result<(), HostError> {
        let i = self.lodgers.len();
        if i >= RESIDENTS_MAX {
            return Err(HostError::Io(std::io::Error::other("too many residents")));
        }
        let token = TOKEN_RESIDENTS + i as u64;
        self.poller.add(resident.fd(), token, Interest::READ)?;
        self.io.desks.push(Desk::default());
        let client = resident::client(i);
        let request = Request::Options(resident.options());
        self.station.handle(
            self.io.now,
            Input::Request { client, request },
            &mut self.io,
        );
        let is_ready = true;
        self.lodgers.push(Lodger { resident, is_ready });
        Ok(())
    }

    pub(super) fn on_resident(&mut self, i: usize) {
        if let Some(lodger) = self.lodgers.get_mut(i) {
            lodger.is_ready = true;
        }
    }

    /// Lets those have their turn for whom there is something; true if anybody had.
    pub(super) fn serve_residents(&mut self) -> bool {
        let mut any = false;
        for i in 0..self.lodgers.len() {
            let lodger = &mut self.lodgers[i];
            let desk = &mut self.io.desks[i];
            let has_work = lodger.is_ready || desk.has_received();
            if !has_work && !lodger.resident.wait().is_zero() {
                continue;
            }
            any = true;
            let is_ready = core::mem::take(&mut lodger.is_ready);
            let came = desk.take();
            lodger.resident.turn(is_ready, &came, desk);
            desk.give_back(came);
            let wishes = desk.take_wishes();
            self.do_wishes(i, wishes);
        }
        any
    }

    fn do_wishes(&mut self, i: usize, mut wishes: Wishes) {
        let client = resident::client(i);
        for wish in wishes.members.drain(..) {
            let request = match wish {
                Wish::Join(group, port) => Request::Join { group, port },
                Wish::Leave(group, port) => Request::Leave { group, port },
            };
            let input = Input::Request { client, request };
            self.station.handle(self.io.now, input, &mut self.io);
        }
        let mut from = 0;
        for (to, port, end) in wishes.packets.drain(..) {
            let packet = &wishes.bytes[from..end];
            from = end;
            // What is longer than a packet is cut inside the node and needs no headroom.
            let is_short = packet.len() <= overlay::node::MAX_PAYLOAD;
            let headroom = if is_short { HEADROOM } else { 0 };
            let Some(payload) = self.io.pool.copy_of(headroom, packet) else {
                let reason = Drop::NoBuffer;
                self.io.report(Event::Dropped { reason, packets: 1 });
                continue;
            };
            let request = Request::Send { to, port, payload };
            let input = Input::Request { client, request };
            self.station.handle(self.io.now, input, &mut self.io);
        }
        wishes.bytes.clear();
        self.io.desks[i].give_back_wishes(wishes);
    }

    /// The bridges among them.
    pub(super) fn bridges(&self) -> Vec<BridgeStatus> {
        let lodgers = self.lodgers.iter();
        lodgers
            .filter_map(|lodger| lodger.resident.bridge())
            .collect()
    }

    /// How long residents can wait.
    pub(super) fn residents_wait(&self) -> Option<Duration> {
        let waits = self.lodgers.iter().map(|lodger| lodger.resident.wait());
        let least = waits.min()?;
        Some(Duration::from_nanos(
            u64::try_from(least.as_nanos()).unwrap_or(u64::MAX),
        ))
    }

    pub(super) fn leave_residents(&mut self) {
        for lodger in &mut self.lodgers {
            lodger.resident.leave();
        }
    }
}
