//! The loop that drives a world: it handles wake-ups in the order of time and of scheduling.
//!
//! ```text
//!   queue ─▶ timer │ arrival │ request ─▶ engine.handle ─▶ (more of this moment?) ─▶ engine.flush
//! ```

use super::{INSTANT_EVENTS_MAX, World};
use crate::arrival::{Arrivals, merged};
use crate::clock::Clock;
use crate::host::{Desk, HostId, received};
use crate::queue::Wake;
use crate::trace::Fate;
use base::{Burst, Engine, Input, Time, UnderlayAddr};

impl<E: Engine> World<E> {
    /// Handles one wake-up, or the flush that ends the present moment. Returns false if nothing is left to do until
    /// `until`.
    pub(super) fn step(&mut self, until: Time) -> bool {
        let next = self.queue.next().filter(|at| *at <= until);
        if next != Some(self.now) && !self.dirty.is_empty() {
            self.flush();
            return true;
        }
        if next.is_none() {
            return false;
        }
        let Some((at, wake)) = self.queue.pop() else {
            return false;
        };
        if at > self.now {
            self.now = at;
            self.events_now = 0;
        }
        self.events_now += 1;
        self.journal.counters.events += 1;
        assert!(
            self.events_now <= INSTANT_EVENTS_MAX,
            "time stands still at {at} (seed {}): {}",
            self.seed,
            self.suspect(wake)
        );
        match wake {
            Wake::Timer(host) => self.on_timer(HostId(host)),
            Wake::Wire(wire) => self.on_arrival(wire),
            Wake::Request(id) => {
                let host = self.requests.get(&id).map(|(host, ..)| *host);
                if let Some(until) = host.and_then(|host| self.stalled_until(host)) {
                    self.queue.push(until, Wake::Request(id));
                } else if let Some((host, client, request)) = self.requests.remove(&id) {
                    self.input(host, Input::Request { client, request });
                }
            }
            Wake::Forged(id) => {
                if let Some((from, to, burst)) = self.forged.remove(&id) {
                    self.arrive(u32::MAX, from, to, burst);
                }
            }
        }
        true
    }

    fn flush(&mut self) {
        let mut dirty = core::mem::take(&mut self.dirty);
        for id in dirty.drain(..) {
            let now = self.now;
            self.hosts[id.place()].dirty = false;
            if let Some((host, mut desk)) = self.desk(id) {
                host.engine.flush(host.clock.shows(now), &mut desk);
            }
            self.schedule_timer(id);
        }
        // Keep the allocation for the next moment.
        if self.dirty.is_empty() {
            self.dirty = dirty;
        }
    }

    pub(super) fn schedule_timer(&mut self, id: HostId) {
        let host = &mut self.hosts[id.place()];
        let timeout = host
            .engine
            .as_ref()
            .and_then(|engine| engine.next_timeout());
        if let Some((at, _)) = timeout
            && at != Time::FAR
        {
            let at = host.clock.reaches(at).max(self.now);
            if at < host.wake_at {
                host.wake_at = at;
                self.queue.push(at, Wake::Timer(id.0));
            }
        }
    }

    fn on_timer(&mut self, id: HostId) {
        let host = &mut self.hosts[id.place()];
        if host.wake_at != self.now {
            // An earlier timer replaced this one, or the host went down in the meantime.
            return;
        }
        if let Some(until) = self.stalled_until(id) {
            self.hosts[id.place()].wake_at = until;
            self.queue.push(until, Wake::Timer(id.0));
            return;
        }
        self.end_stall(id);
        let host = &mut self.hosts[id.place()];
        host.wake_at = Time::FAR;
        let clock = host.clock.shows(self.now);
        let due = host
            .engine
            .as_ref()
            .and_then(|engine| engine.next_timeout())
            .is_some_and(|(at, _)| at <= clock);
        if due || !host.started {
            host.started = true;
            self.input(id, Input::Timeout);
        } else {
            self.schedule_timer(id);
        }
    }

    fn on_arrival(&mut self, id: u32) {
        let wire = &mut self.wires[id as usize];
        if wire.queued != self.now {
            return;
        }
        wire.queued = Time::FAR;
        let (from, to) = (wire.seen, wire.to);
        let mut waiting = wire.line.pop_due(self.now);
        while let Some(mut burst) = waiting.take() {
            let line = &mut self.wires[id as usize].line;
            while let Some(next) = line.pop_due(self.now) {
                if self.arrivals == Arrivals::Single {
                    waiting = Some(next);
                    break;
                }
                match merged(&self.pool, burst, next) {
                    Ok(both) => burst = both,
                    Err(apart) => {
                        (burst, waiting) = (apart.0, Some(apart.1));
                        break;
                    }
                }
            }
            self.arrive(id, from, to, burst);
        }
        self.wires[id as usize].schedule(id, &mut self.queue);
    }

    fn arrive(&mut self, wire: u32, from: UnderlayAddr, to: HostId, burst: Burst) {
        let datagrams = burst.segments() as u64;
        self.journal.note(self.now, wire, &burst);
        let host = &self.hosts[to.place()];
        let is_up = host.engine.is_some();
        if self.journal.trace.is_some() {
            let fate = if is_up { Fate::Arrived } else { Fate::HostDown };
            let (now, addr) = (self.now, host.addr);
            self.journal.trace_all(now, from, addr, &burst, fate);
        }
        if !is_up {
            self.journal.counters.host_down += datagrams;
            return;
        }
        if host.stall.is_some() {
            if self.stalled_until(to).is_some() {
                return self.hold(to, from, burst);
            }
            self.end_stall(to);
        }
        self.hand_over(to, from, burst);
    }

    /// Hands datagrams to a host that is up and scheduled.
    pub(super) fn hand_over(&mut self, to: HostId, from: UnderlayAddr, mut burst: Burst) {
        let datagrams = burst.segments() as u64;
        if let Some(pool) = &self.hosts[to.place()].pool {
            match received(&burst, pool) {
                Some(own) => burst = own,
                None => {
                    self.journal.counters.no_slot += datagrams;
                    return;
                }
            }
        }
        self.journal.counters.delivered += datagrams;
        if self.arrivals == Arrivals::Single {
            for _ in 1..datagrams {
                let burst = burst.split_front(1);
                self.journal.counters.inputs += 1;
                self.input(to, Input::Datagrams { from, burst });
            }
        }
        self.journal.counters.inputs += 1;
        self.input(to, Input::Datagrams { from, burst });
    }

    fn input(&mut self, id: HostId, input: Input<E::Request>) {
        let now = self.now;
        let Some((host, mut desk)) = self.desk(id) else {
            self.journal.counters.requests_lost += 1;
            return;
        };
        host.engine.handle(host.clock.shows(now), input, &mut desk);
        let first = !core::mem::replace(host.dirty, true);
        if first {
            self.dirty.push(id);
        }
    }

    /// Returns a running engine, and the outbox that it writes into.
    fn desk(&mut self, id: HostId) -> Option<(Running<'_, E>, Desk<'_, E>)> {
        let host = &mut self.hosts[id.place()];
        let running = Running {
            engine: host.engine.as_mut()?,
            clock: host.clock,
            dirty: &mut host.dirty,
        };
        let desk = Desk {
            now: self.now,
            host: id,
            addr: host.addr,
            wires_to: &host.wires,
            wires: &mut self.wires,
            queue: &mut self.queue,
            journal: &mut self.journal,
            pool: host.pool.as_ref().unwrap_or(&self.pool),
            under_way: &self.pool,
        };
        Some((running, desk))
    }

    fn suspect(&self, wake: Wake) -> String {
        match wake {
            Wake::Timer(host) => {
                let engine = self.hosts[host as usize].engine.as_ref();
                let whose = engine.and_then(|engine| engine.next_timeout());
                format!("timer {:?} of {}", whose.map(|(_, w)| w), HostId(host))
            }
            Wake::Wire(id) => {
                let wire = &self.wires[id as usize];
                format!("packets without delay from {} to {}", wire.from, wire.to)
            }
            Wake::Request(_) => "requests".to_owned(),
            Wake::Forged(_) => "forged datagrams".to_owned(),
        }
    }
}

/// The parts of a host that are borrowed while its engine runs.
struct Running<'a, E> {
    engine: &'a mut E,
    clock: Clock,
    dirty: &'a mut bool,
}
