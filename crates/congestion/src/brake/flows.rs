//! The flows of a lane, and which of them the lane serves while it cannot carry all.
//!
//! ```text
//!   by priority, then age   │ rate │ sum of the served          limit 150
//!   ────────────────────────┼──────┼─────────────────────
//!   7   since 10:00         │  80  │  80      served
//!   4   since 09:00         │  50  │ 130      served
//!   4   since 10:02         │  80  │          refused: it would be 210
//!   4   since 10:03         │  10  │ 140      served
//! ```
//! Half of each of two calls is useless, so a flow is served whole or not at all. A served flow stays served while the
//! sum allows it. A refused flow comes back when there has been room for it for a while.

use base::{Duration, Map, Time};

/// The maximum number of flows that a lane remembers. Packets of other flows pass while there is no limit. Choice: a
/// thousand calls of 80 kbit/s are 80 Mbit/s; wider paths seldom have too little for voice. The table takes 88 KiB.
const FLOWS_MAX: usize = 1024;
/// The time over which rates are measured: ten packets of voice.
const BIN: Duration = Duration::from_millis(200);
/// The rate of a flow that is younger is computed from all its packets.
const YOUNG: Duration = Duration::from_millis(600);
/// The rate of a flow is known after this time.
const ESTABLISHED: Duration = Duration::from_secs(1);
/// A flow is quiet while it sends less than this share of its rate.
const QUIET: f64 = 0.25;
/// A flow that is silent for this time is forgotten. Choice: longer than pauses in speech.
const IDLE: Duration = Duration::from_secs(30);
/// The room that a refused flow needs, as a multiple of its rate, and how long it must be available before the flow is
/// served.
const READMIT_ROOM: f64 = 1.1;
const READMIT_AFTER: Duration = Duration::from_secs(2);
/// The served flows may reach this multiple of the limit before one of them is refused, since rates are measured
/// values.
const TOLERATED: f64 = 1.05;

/// The state of a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    key: u64,
    priority: u8,
    /// The flow takes the remaining rate and adapts to it. It is never refused.
    is_elastic: bool,
    first: Time,
    last: Time,
    bytes: u64,
    total_bytes: u64,
    rate_bps: f64,
    /// How long the flow has sent next to nothing. Its next packets may be a backlog of its host.
    quiet: Duration,
    pub(super) state: State,
}

/// How a lane treats a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing is decided: the flow's packets share what the served flows leave.
    Open,
    /// The flow's packets pass.
    Served,
    /// The flow's packets have been dropped since this time.
    Refused(Time),
}

/// The flows of a lane.
#[derive(Clone, Debug, Default)]
pub(super) struct Flows {
    places: Map<u64, u32>,
    flows: Vec<Flow>,
    last: usize,
    settled: Time,
    /// The sum of the rates of the served flows.
    served_bps: f64,
    /// The first of the refused flows, and since when there has been room for it.
    room: Option<(u64, Time)>,
}

impl Flows {
    /// Records a packet and returns the state of its flow; `None` if the table is full.
    #[inline]
    pub(super) fn note(
        &mut self,
        now: Time,
        key: u64,
        priority: u8,
        bytes: usize,
        is_elastic: bool,
    ) -> Option<State> {
        if self.flows.get(self.last).is_none_or(|flow| flow.key != key) {
            self.last = self.place(now, key)?;
        }
        let flow = &mut self.flows[self.last];
        (flow.priority, flow.is_elastic) = (priority, is_elastic);
        flow.last = now;
        flow.bytes += bytes as u64;
        flow.total_bytes += bytes as u64;
        Some(flow.state)
    }

    /// Returns since when a flow has been refused.
    pub(super) fn refused_since(&self, key: u64) -> Option<Time> {
        let at = *self.places.get(&key)?;
        match self.flows[at as usize].state {
            State::Refused(since) => Some(since),
            State::Open | State::Served => None,
        }
    }

    /// Returns true if the packet that was recorded last is the first of its flow.
    #[inline]
    pub(super) fn has_begun(&self) -> bool {
        let last = self.flows.get(self.last);
        last.is_some_and(|flow| flow.bytes == flow.total_bytes && flow.first == flow.last)
    }

    /// Returns true if any flow is refused.
    pub(super) fn refuses(&self) -> bool {
        let refused = |flow: &Flow| matches!(flow.state, State::Refused(_));
        self.flows.iter().any(refused)
    }

    /// Returns the offered rate.
    pub(super) fn offered_bps(&self) -> f64 {
        self.flows.iter().map(|flow| flow.rate_bps).sum()
    }

    /// Returns the rate of the flows that were active at a moment and had been for a while.
    pub(super) fn established_bps(&self, at: Time) -> f64 {
        let established = self.flows.iter().filter(|flow| {
            let is_old = flow.last.since(flow.first) >= ESTABLISHED;
            is_old && at.since(flow.last) < YOUNG
        });
        established.map(|flow| flow.rate_bps).sum()
    }

    /// Returns true if a flow had been active for a while at a moment.
    pub(super) fn is_established(&self, key: u64, at: Time) -> bool {
        let place = self.places.get(&key);
        place.is_some_and(|&place| at.since(self.flows[place as usize].first) >= ESTABLISHED)
    }

    /// Returns the rate of the served flows.
    pub(super) fn served_bps(&self) -> f64 {
        self.served_bps
    }

    /// Returns true if it is time to measure and decide.
    #[inline]
    pub(super) fn is_due(&self, now: Time) -> bool {
        now.since(self.settled) >= BIN
    }

    /// Measures rates, and forgets flows that have ended.
    pub(super) fn measure(&mut self, now: Time) {
        let span = now.since(self.settled);
        for flow in &mut self.flows {
            let age = now.since(flow.first);
            if age < YOUNG {
                // The last of the packets that came covers the time until the next one.
                let counted = age.max(BIN.div(2)).as_secs_f64();
                flow.rate_bps = flow.total_bytes as f64 * 8.0 / counted;
            } else if span >= BIN.div(2) {
                let counted = span + flow.quiet;
                let present = flow.bytes as f64 * 8.0 / counted.as_secs_f64();
                let is_quiet = flow.bytes as f64 * 8.0 < QUIET * flow.rate_bps * span.as_secs_f64();
                flow.quiet = if is_quiet { counted } else { Duration::ZERO };
                // The rate falls slowly, so that a pause in speech does not cost the flow its place.
                let weight = if present > flow.rate_bps { 0.2 } else { 0.05 };
                flow.rate_bps += weight * (present - flow.rate_bps);
            }
        }
        if span >= BIN.div(2) {
            self.flows.iter_mut().for_each(|flow| flow.bytes = 0);
            self.settled = now;
        }
        if self.flows.iter().any(|flow| now.since(flow.last) > IDLE) {
            self.flows.retain(|flow| now.since(flow.last) <= IDLE);
            let places = self.flows.iter().enumerate();
            self.places = places.map(|(at, flow)| (flow.key, at as u32)).collect();
        }
    }

    /// Ends the limit: all flows are open again.
    pub(super) fn free(&mut self) {
        self.flows
            .iter_mut()
            .for_each(|flow| flow.state = State::Open);
        (self.served_bps, self.room) = (0.0, None);
    }

    /// Decides which flows a lane of this rate serves.
    pub(super) fn decide(&mut self, now: Time, limit_bps: f64) {
        let order = self.order();
        let mut served = 0.0;
        let mut waits = None;
        for &at in &order {
            let flow = &mut self.flows[at];
            let fits = |times: f64| served + flow.rate_bps <= limit_bps * times;
            match flow.state {
                State::Served if fits(TOLERATED) => served += flow.rate_bps,
                State::Open if fits(1.0) => {
                    flow.state = State::Served;
                    served += flow.rate_bps;
                }
                State::Served | State::Open => flow.state = State::Refused(now),
                State::Refused(_) => waits = waits.or(Some(at)),
            }
        }
        self.served_bps = served;
        self.let_in(now, waits, limit_bps);
        let first = order.first().map(|at| &mut self.flows[*at]);
        if let Some(first) = first.filter(|_| self.served_bps == 0.0) {
            // This flow alone exceeds the rate. A part of it is better than nothing for everybody.
            first.state = State::Open;
        }
    }

    /// Serves the flows that fit, while it is not known whether any flow has to be refused. Flows that might be refused
    /// share the remaining rate. So a call that was good stays good.
    pub(super) fn serve_first(&mut self, limit_bps: f64) {
        self.served_bps = 0.0;
        for at in self.order() {
            let flow = &mut self.flows[at];
            if matches!(flow.state, State::Refused(_)) {
                continue;
            }
            flow.state = State::Open;
            if self.served_bps + flow.rate_bps <= limit_bps {
                flow.state = State::Served;
                self.served_bps += flow.rate_bps;
            }
        }
    }

    /// Returns the flows that can be served or refused, in the order in which they are served.
    fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.flows.len())
            .filter(|at| !self.flows[*at].is_elastic)
            .collect();
        order.sort_unstable_by_key(|at| {
            let flow = &self.flows[*at];
            (core::cmp::Reverse(flow.priority), flow.first, flow.key)
        });
        order
    }

    /// Serves a refused flow if there has been room for it.
    fn let_in(&mut self, now: Time, waits: Option<usize>, limit_bps: f64) {
        let Some(flow) = waits.map(|at| &mut self.flows[at]) else {
            self.room = None;
            return;
        };
        if flow.rate_bps * READMIT_ROOM > limit_bps - self.served_bps {
            self.room = None;
            return;
        }
        let (key, since) = *self.room.get_or_insert((flow.key, now));
        if key != flow.key {
            self.room = Some((flow.key, now));
        } else if now.since(since) >= READMIT_AFTER {
            flow.state = State::Served;
            self.served_bps += flow.rate_bps;
            self.room = None;
        }
    }

    fn place(&mut self, now: Time, key: u64) -> Option<usize> {
        if let Some(&at) = self.places.get(&key) {
            return Some(at as usize);
        }
        if self.flows.len() >= FLOWS_MAX {
            return None;
        }
        let at = self.flows.len();
        self.places.insert(key, at as u32);
        self.flows.push(Flow {
            key,
            priority: 0,
            is_elastic: false,
            first: now,
            last: now,
            bytes: 0,
            total_bytes: 0,
            rate_bps: 0.0,
            quiet: Duration::ZERO,
            state: State::Open,
        });
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Time {
        Time::ZERO + Duration::from_millis(n)
    }

    /// Sends 50 packets/s of 200 bytes, 80 kbit/s, of each flow for one second.
    fn second(flows: &mut Flows, from_ms: u64, limit_bps: f64, all: &[(u64, u8)]) {
        for tick in 0..50 {
            let now = ms(from_ms + tick * 20);
            for (key, priority) in all {
                flows.note(now, *key, *priority, 200, false);
            }
            if flows.is_due(now) {
                flows.measure(now);
                flows.decide(now, limit_bps);
            }
        }
    }

    fn served(flows: &Flows) -> Vec<u64> {
        let served = flows
            .flows
            .iter()
            .filter(|flow| flow.state == State::Served);
        served.map(|flow| flow.key).collect()
    }

    #[test]
    fn the_oldest_of_the_highest_priority_are_served_and_stay_so() {
        let mut flows = Flows::default();
        second(&mut flows, 0, 1e9, &[(1, 4), (2, 4)]);
        second(&mut flows, 1_000, 200e3, &[(1, 4), (2, 4), (3, 4)]);
        assert_eq!(served(&flows), [1, 2]);
        assert!(flows.refused_since(3).is_some() && flows.refuses());
        // A flow of a higher priority takes the place of the youngest flow.
        second(&mut flows, 2_000, 200e3, &[(1, 4), (2, 4), (3, 4), (4, 7)]);
        assert_eq!(served(&flows), [1, 4]);
        let served = flows.served_bps();
        assert!((150e3..190e3).contains(&served), "{served}");
    }

    #[test]
    fn a_refused_flow_comes_back_when_there_has_been_room() {
        let mut flows = Flows::default();
        let both = [(1, 4), (2, 4)];
        second(&mut flows, 0, 100e3, &both);
        assert_eq!(served(&flows), [1]);
        second(&mut flows, 1_000, 200e3, &both);
        assert_eq!(served(&flows), [1], "not at once");
        second(&mut flows, 2_000, 200e3, &both);
        second(&mut flows, 3_000, 200e3, &both);
        assert_eq!(served(&flows), [1, 2]);
    }

    #[test]
    fn a_flow_that_is_too_much_alone_gets_a_part() {
        let mut flows = Flows::default();
        second(&mut flows, 0, 50e3, &[(1, 4), (2, 4)]);
        assert_eq!(served(&flows), [0u64; 0]);
        assert_eq!(flows.refused_since(1), None);
        assert!(flows.refused_since(2).is_some());
    }

    #[test]
    fn what_a_host_catches_up_with_is_no_higher_rate() {
        let mut flows = Flows::default();
        for from_ms in [0, 1_000, 2_000] {
            second(&mut flows, from_ms, 1e9, &[(1, 4)]);
        }
        // The flow stops for two seconds, and then sends at once what was due.
        for _ in 0..100 {
            flows.note(ms(5_000), 1, 4, 200, false);
            if flows.is_due(ms(5_000)) {
                flows.measure(ms(5_000));
            }
        }
        second(&mut flows, 5_000, 1e9, &[(1, 4)]);
        let offered = flows.offered_bps();
        assert!((70e3..95e3).contains(&offered), "{offered}");
    }

    #[test]
    fn the_table_is_bounded_and_forgets() {
        let mut flows = Flows::default();
        for key in 0..2 * FLOWS_MAX as u64 {
            flows.note(ms(0), key, 4, 200, false);
        }
        assert_eq!(flows.flows.len(), FLOWS_MAX);
        flows.measure(ms(31_000));
        assert!(flows.flows.is_empty() && flows.places.is_empty());
        assert_eq!(flows.note(ms(31_000), 7, 4, 200, false), Some(State::Open));
    }
}
