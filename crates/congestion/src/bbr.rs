//! BBR: the pace and the window follow a model of the path, not its losses (Cardwell et al. 2017;
//! draft-ietf-ccwg-bbr, version 3 of the algorithm).
//!
//! ```text
//!   delivery rate ─▶ bandwidth (most of two cycles) ─┬─▶ pace   = gain · bandwidth
//!   round trip    ─▶ least round trip (10 s) ────────┴─▶ window = gain · bandwidth · least RTT
//!   losses beyond those of the path, marks ─▶ bounds ─▶ cap on both
//!
//!   Startup ─▶ Drain ─▶ ┌▶ Down ─▶ Cruise ─▶ Refill ─▶ Up ─┐      gains 0.9  1  1  1.25
//!   ×2.77      ×0.5     └──────────────────────────────────┘
//!        5 s without a round trip as short as the least: ProbeRtt, half a window for 200 ms
//! ```
//!
//! This implementation differs from the draft in the meaning of a loss. In the draft, 2 % of a round are too many,
//! whatever the path is. A radio that errs for 2 % of its packets then gets half of its rate, and with few packets in
//! flight a single loss is 2 %. Here the path's own losses are learned while no queue stands and the pace is not above
//! the bandwidth. Too many losses are 2 % *more* than that, and more than chance would cause (`loss`).
//!
//! - `path`: bandwidth, least round trip, rounds. `loss`: what the path loses by itself.
//! - The bounds: `high` is what was in flight when it was too much, kept until a probe shows more; `low` and `rate_low`
//!   are of the last rounds and end with the next probe.

mod loss;
mod path;

use base::{Duration, Time};

use crate::delivery::Delivered;
use crate::{Acked, Congestion, Control, Settings};
pub(crate) use loss::Losses;
use path::{Aggregation, Path, Plateau};

/// The pace gain of Startup, which doubles the rate each round: 4 ln 2.
const STARTUP_PACE: f64 = 2.77;
/// A round that grows by less than this factor finds no more bandwidth, in Startup and in Up.
const STARTUP_GROWTH: f64 = 1.25;
const UP_GROWTH: f64 = 1.1;
const DRAIN_PACE: f64 = 0.5;
const DOWN_PACE: f64 = 0.9;
const UP_PACE: f64 = 1.25;
/// The window as a multiple of what a paced path holds, normally and while the bandwidth is probed.
const WINDOW_GAIN: f64 = 2.0;
const UP_WINDOW_GAIN: f64 = 2.25;
/// The pace stays below the bandwidth by this share, so that queues drain.
const MARGIN: f64 = 0.01;
/// The share of a bound that is kept when there was too much in flight.
const BETA: f64 = 0.7;
/// The share of `high` that is left to others between probes.
const HEADROOM: f64 = 0.15;
/// The minimum window, which keeps acknowledgements coming.
const WINDOW_LEAST: f64 = 4.0;
/// The packets that gather on the path in addition to the model: bursts, and acknowledgements for two packets.
const QUANTUM: f64 = 3.0;

/// The time between two probes for bandwidth: this time, up to a second more, and as many rounds as a Reno would need
/// to return to the same window, so that a Reno beside it gets its turn.
const PROBE_WAIT: Duration = Duration::from_secs(2);
const PROBE_ROUNDS: f64 = 63.0;
/// How long the path is kept emptier to measure the round trip; a round at least.
const RTT_PROBE: Duration = Duration::from_millis(200);
const RTT_WINDOW_GAIN: f64 = 0.5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    /// The probe ends at this time, once the path is as empty as it should be.
    ProbeRtt(Option<Time>),
}

/// The pace and window of BBR.
#[derive(Clone, Debug)]
pub struct Bbr {
    settings: Settings,
    phase: Phase,
    since: Time,
    /// Number of rounds of this phase, and of this cycle.
    rounds: u32,
    cycle_rounds: u32,
    cycle_since: Time,
    cycles: u32,
    path: Path,
    plateau: Plateau,
    /// Whether startup has found the bandwidth once.
    is_full: bool,
    was_idle: bool,
    losses: Losses,
    aggregation: Aggregation,
    window: f64,
    /// The window before the path was emptied.
    window_before: f64,
    rate: Option<f64>,
    high: f64,
    low: f64,
    rate_low: f64,
    /// The maximum of this round.
    rate_latest: f64,
    arrived_latest: f64,
    /// Number of rounds in which the flight reached `high` while probing: each raises it by twice as much.
    raised: u32,
    meets_high: bool,
    marked: bool,
}

impl Bbr {
    /// Creates a fresh control.
    pub fn new(settings: Settings) -> Bbr {
        let settings = settings.sane();
        Bbr {
            settings,
            phase: Phase::Startup,
            since: Time::ZERO,
            rounds: 0,
            cycle_rounds: 0,
            cycle_since: Time::ZERO,
            cycles: 0,
            path: Path::default(),
            plateau: Plateau::default(),
            is_full: false,
            was_idle: false,
            losses: Losses::default(),
            aggregation: Aggregation::default(),
            window: settings.initial_window.min(settings.max_window),
            window_before: 0.0,
            rate: None,
            high: f64::INFINITY,
            low: f64::INFINITY,
            rate_low: f64::INFINITY,
            rate_latest: 0.0,
            arrived_latest: 0.0,
            raised: 0,
            meets_high: false,
            marked: false,
        }
    }

    /// Returns the estimated bandwidth of the path, in segments per second.
    pub fn bandwidth(&self) -> f64 {
        self.path.bandwidth().min(self.rate_low)
    }

    /// Returns the number of segments that a path without queues holds at this bandwidth.
    fn product(&self) -> f64 {
        let least = self.path.least().unwrap_or_default();
        self.bandwidth() * least.as_secs_f64()
    }

    fn is_probing(&self) -> bool {
        matches!(self.phase, Phase::Startup | Phase::Refill | Phase::Up)
    }

    fn enter(&mut self, now: Time, phase: Phase) {
        self.phase = phase;
        self.since = now;
        self.rounds = 0;
        self.plateau = Plateau::default();
    }

    fn begin_cycle(&mut self, now: Time) {
        self.enter(now, Phase::Down);
        self.cycles = self.cycles.wrapping_add(1);
        self.cycle_since = now;
        self.cycle_rounds = 0;
        self.raised = 0;
        self.meets_high = false;
    }

    fn on_round(&mut self) {
        self.rounds += 1;
        self.cycle_rounds += 1;
        let is_calm = matches!(self.phase, Phase::Down | Phase::Cruise);
        let learns = is_calm && self.cycle_rounds > 2 && !self.path.is_queued();
        let too_many = self.losses.end_round(learns) || core::mem::take(&mut self.marked);
        if too_many && !self.is_probing() {
            let (rate, low) = (self.path.bandwidth(), self.window);
            self.rate_low = self.rate_latest.max(BETA * self.rate_low.min(rate));
            self.low = self.arrived_latest.max(BETA * self.low.min(low));
        }
        if is_calm && self.cycle_rounds == 1 {
            // Everything that the probe has sent is answered.
            self.path.end_cycle();
        }
        self.path.begin_round();
        (self.rate_latest, self.arrived_latest) = (0.0, 0.0);
    }

    /// Handles a probe that sent too much.
    fn on_too_much(&mut self, now: Time, in_flight: f64) {
        let target = self.product().min(self.window);
        self.high = in_flight.max(BETA * target).max(WINDOW_LEAST);
        self.losses.forget_round();
        self.marked = false;
        if self.phase == Phase::Up {
            self.begin_cycle(now);
        }
    }

    /// Judges losses and marks while the packets of a probe are being answered.
    fn judge_probe(&mut self, told: &Delivered) {
        let is_answered =
            matches!(self.phase, Phase::Down | Phase::Cruise) && self.cycle_rounds == 0;
        let probed = self.phase == Phase::Up || is_answered;
        let sent = told
            .sample
            .map_or(told.in_flight, |sample| sample.in_flight);
        if probed && (self.marked || self.losses.are_too_many()) {
            self.on_too_much(told.now, sent);
        } else if self.high.is_finite() && told.lost == 0.0 && sent > self.high {
            self.high = sent;
        }
        if self.phase == Phase::Up && told.limited && self.window >= self.high {
            self.meets_high = true;
            let growth = f64::from(1 << self.raised.min(16));
            self.high += told.segments * (growth / self.window).min(1.0);
        }
    }

    fn startup(&mut self, told: &Delivered, is_round: bool) {
        let overflows = self.rounds > 1 && self.losses.are_a_flood();
        if is_round {
            let rate = self.path.bandwidth();
            if told.sample.is_some_and(|sample| !sample.of_application) {
                self.plateau.on_round(rate, STARTUP_GROWTH);
            }
        }
        if overflows {
            self.high = self.product().max(self.arrived_latest).max(WINDOW_LEAST);
            self.losses.forget_round();
        }
        if overflows || self.plateau.rounds() >= 3 {
            self.is_full = true;
            self.enter(told.now, Phase::Drain);
        }
    }

    fn probe_bandwidth(&mut self, told: &Delivered, is_round: bool) {
        let now = told.now;
        match self.phase {
            Phase::Down => {
                let most = self.high * (1.0 - HEADROOM);
                if told.in_flight <= (self.product() + QUANTUM).min(most.max(WINDOW_LEAST)) {
                    self.enter(now, Phase::Cruise);
                }
                self.probe_again(now);
            }
            Phase::Cruise => self.probe_again(now),
            Phase::Refill if is_round && self.rounds > 0 => {
                self.losses.forget_round();
                self.enter(now, Phase::Up);
            }
            Phase::Up => {
                if is_round {
                    self.plateau.on_round(self.path.bandwidth(), UP_GROWTH);
                }
                if is_round && core::mem::take(&mut self.meets_high) {
                    // The bound limits the flight, and rises: the rate cannot yet show what the path carries.
                    self.plateau = Plateau::default();
                    self.raised += 1;
                }
                let is_full = told.in_flight >= UP_PACE * self.product() + QUANTUM;
                let stands = self.path.is_queued() || self.plateau.rounds() >= 1;
                if (is_full && stands) || self.plateau.rounds() >= 3 {
                    self.begin_cycle(now);
                }
            }
            _ => {}
        }
    }

    fn probe_again(&mut self, now: Time) {
        // Choice: the draft uses random numbers. Steps of the golden ratio also keep senders apart that began together,
        // and are the same in each run.
        let more = (f64::from(self.cycles) * 0.618_034).fract();
        let wait = PROBE_WAIT + Duration::from_secs_f64(more);
        let rounds = self.product().clamp(2.0, PROBE_ROUNDS);
        let is_due = now.since(self.cycle_since) >= wait || f64::from(self.cycle_rounds) >= rounds;
        if is_due && self.cycle_rounds > 1 {
            self.enter(now, Phase::Refill);
            (self.low, self.rate_low) = (f64::INFINITY, f64::INFINITY);
        }
    }

    fn probe_rtt(&mut self, told: &Delivered, is_round: bool, is_old: bool) {
        let now = told.now;
        let target = (RTT_WINDOW_GAIN * self.product()).max(WINDOW_LEAST);
        match self.phase {
            Phase::ProbeRtt(None) if told.in_flight <= target => {
                self.phase = Phase::ProbeRtt(Some(now + RTT_PROBE));
                self.rounds = 0;
            }
            Phase::ProbeRtt(Some(until)) if is_round && self.rounds > 0 && now >= until => {
                self.path.was_emptied(now);
                self.window = self.window.max(self.window_before);
                match self.is_full {
                    true => self.begin_cycle(now),
                    false => self.enter(now, Phase::Startup),
                }
            }
            Phase::ProbeRtt(_) => {}
            // After silence there is no queue.
            _ if is_old && !self.was_idle => {
                self.window_before = self.window;
                self.enter(now, Phase::ProbeRtt(None));
            }
            _ => {}
        }
        self.was_idle = false;
    }

    fn set_rate(&mut self, told: &Delivered) {
        let gain = match self.phase {
            Phase::Startup => STARTUP_PACE,
            Phase::Drain => DRAIN_PACE,
            Phase::Down => DOWN_PACE,
            // Choice: the draft continues to cruise. The measured maximum is the bandwidth that is free at the best
            // moments, and with few packets in flight a queue would stand from probe to probe.
            Phase::Cruise if self.path.is_queued() => DOWN_PACE,
            Phase::Cruise | Phase::Refill | Phase::ProbeRtt(_) => 1.0,
            Phase::Up => UP_PACE,
        };
        let rate = gain * (1.0 - MARGIN) * self.bandwidth();
        // Before anything is measured, the sender sends the initial window in the first round trip.
        let first = || {
            let rtt = told.rtt.or(self.path.least()).unwrap_or_default();
            gain * self.settings.initial_window / rtt.as_secs_f64().max(1e-3)
        };
        self.rate = match self.is_full {
            true => Some(rate.max(1.0)),
            false => Some(rate.max(self.rate.unwrap_or_else(first))),
        };
    }

    fn set_window(&mut self, told: &Delivered) {
        let gain = match self.phase {
            Phase::Up => UP_WINDOW_GAIN,
            _ => WINDOW_GAIN,
        };
        let most = gain * self.product() + self.aggregation.extra() + QUANTUM;
        let grown = self.window + told.segments;
        self.window = match self.phase {
            Phase::Startup if grown < most || told.total < self.settings.initial_window => grown,
            Phase::Startup => self.window,
            _ => grown.min(most),
        };
        let headroom = self.high * (1.0 - HEADROOM);
        let cap = match self.phase {
            Phase::Startup => f64::INFINITY,
            Phase::Cruise => headroom,
            Phase::ProbeRtt(_) => {
                headroom.min((RTT_WINDOW_GAIN * self.product()).max(WINDOW_LEAST))
            }
            _ => self.high,
        };
        let cap = cap.min(self.low).max(WINDOW_LEAST);
        let least = WINDOW_LEAST.min(self.settings.max_window);
        // `max` comes last: it also turns a not-a-number into the least.
        self.window = self
            .window
            .min(cap)
            .min(self.settings.max_window)
            .max(least);
    }
}

impl Control for Bbr {
    fn on_ack(&mut self, _ack: &Acked) {}

    fn on_delivered(&mut self, told: &Delivered) {
        self.losses.on_delivered(told.segments, told.lost);
        let is_old = told
            .rtt
            .is_some_and(|rtt| self.path.on_round_trip(told.now, rtt));
        let mut is_round = false;
        if let Some(sample) = &told.sample {
            is_round = self.path.on_sample(sample, told.total);
            self.rate_latest = self.rate_latest.max(sample.rate());
            self.arrived_latest = self.arrived_latest.max(sample.segments);
        }
        if is_round {
            self.on_round();
        }
        let bandwidth = self.bandwidth();
        self.aggregation
            .on_delivered(told, bandwidth, self.window, is_round);
        self.judge_probe(told);
        match self.phase {
            Phase::Startup => self.startup(told, is_round),
            Phase::Drain if told.in_flight <= self.product() + QUANTUM => {
                self.begin_cycle(told.now);
            }
            _ => self.probe_bandwidth(told, is_round),
        }
        self.probe_rtt(told, is_round, is_old);
        self.set_rate(told);
        self.set_window(told);
    }

    fn on_congestion(&mut self, _now: Time, _in_flight: f64, why: Congestion) {
        // Losses are not handled here: each of them is counted separately.
        self.marked |= why == Congestion::Explicit;
    }

    fn undo_timeout(&mut self, window: f64, _threshold: f64) {
        self.window = self.window.max(window);
    }

    fn on_timeout(&mut self, _now: Time, _in_flight: f64) {
        self.losses.forget_round();
        self.window = 1.0;
    }

    fn on_idle(&mut self, _idle: Duration, _rto: Duration) {
        self.was_idle = true;
    }

    fn pace(&self) -> Option<f64> {
        self.rate
    }

    fn window(&self) -> f64 {
        self.window
    }

    fn threshold(&self) -> f64 {
        self.window
    }

    fn in_slow_start(&self) -> bool {
        self.phase == Phase::Startup
    }
}

#[cfg(test)]
mod tests;
