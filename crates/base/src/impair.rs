//! Link impairment: what a real path does to packets, as one model for the simulator, for a node's own links, and for
//! an emulator of any IP traffic.
//!
//! ```text
//!              outage?        rate, drop-tail queue          loss?        delay + jitter
//!   admit ──▶ ( switch ) ──▶ ▯▯▯▯▯▯▯▯▶(transmitter) ──▶ (wire, chain) ──▶ ─────────────▶ deliver
//!                 │                │                          │
//!              Outage            Queue                       Loss            Drop(reason)
//! ```
//!
//! - [`Model`] describes the path. It is valid by construction and has a text form:
//!   `loss=5% burst=25% delay=10ms jitter=2ms duplicate=1% rate=10mbit queue=50 mtu=1300 outage`.
//! - [`Pipe`] is one direction of a path: it decides the fate of each packet and holds none.
//! - [`Line`] is a pipe together with the packets under way in it.
//!
//! A pipe acts on single datagrams, as the wire does: for a burst, the caller asks for each of its segments. Each
//! direction of a path has a pipe of its own.

mod line;
mod model;
mod text;

#[cfg(test)]
mod tests;

pub use line::{LINE_PACKETS_MAX, Line, Witness};
pub use model::{
    BadModel, DELAY_MAX, LossModel, Model, OUTAGES_MAX, QUEUE_DEFAULT, QUEUE_PACKETS_MAX, Queue,
    TRACE_PACKETS_MAX,
};
pub use text::{BadText, rate, span};

use crate::rng::Rng;
use crate::time::{Duration, Time};
use core::fmt;
use std::collections::VecDeque;

/// The fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It arrives at this time.
    Deliver(Time),
    /// It never arrives.
    Drop(Reason),
}

/// Why a packet does not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// More packets are under way than a [`Line`] holds.
    Full,
    /// Lost on the wire.
    Loss,
    /// Longer than the path permits.
    Mtu,
    /// The path is down.
    Outage,
    /// The queue in front of the transmitter is full.
    Queue,
}

/// Number of packets by their fate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that have arrived or will arrive.
    pub delivered: u64,
    /// Dropped for [`Reason::Full`].
    pub full: u64,
    /// Dropped for [`Reason::Loss`].
    pub lost: u64,
    /// Dropped for [`Reason::Mtu`].
    pub too_long: u64,
    /// Dropped for [`Reason::Outage`].
    pub outage: u64,
    /// Dropped for [`Reason::Queue`].
    pub queue: u64,
    /// Additional copies that arrive. They do not count as packets that were handed in.
    pub duplicated: u64,
}

/// A rule for losses in place of the model's. It is called once for each packet that has left the queue, with the time
/// when it was handed in and its bytes, and returns true if it is lost.
pub type LossRule = Box<dyn FnMut(Time, usize) -> bool + Send>;

/// One direction of an impaired path: decides the fate of each packet.
pub struct Pipe {
    model: Model,
    rule: Option<LossRule>,
    /// Loss, jitter and copies use separate generators, so that a change of one leaves the pattern of the others
    /// unchanged.
    loss_rng: Rng,
    jitter_rng: Rng,
    copy_rng: Rng,
    loss: LossState,
    transmitter: Transmitter,
    /// When the last packet arrives: later ones arrive no earlier, unless reordering is on.
    last_arrival: Time,
    counts: Counts,
}

impl Pipe {
    /// Creates a pipe for `model`. Equal seeds give equal fates.
    pub fn new(model: Model, mut rng: Rng) -> Pipe {
        let mut loss_rng = rng.fork();
        let jitter_rng = rng.fork();
        let copy_rng = rng.fork();
        Pipe {
            loss: LossState::start(model.loss(), &mut loss_rng),
            loss_rng,
            jitter_rng,
            copy_rng,
            transmitter: Transmitter::default(),
            last_arrival: Time::ZERO,
            counts: Counts::default(),
            model,
            rule: None,
        }
    }

    /// Loses packets by a rule from now on, instead of the model's loss, also after the model has changed.
    pub fn set_loss_rule(&mut self, rule: LossRule) {
        self.rule = Some(rule);
    }

    /// Returns the present model of the path.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Changes the model of the path. Packets under way arrive at their original times. Later ones do not wait for
    /// them, so that a path that was too slow for use is usable at once.
    pub fn set_model(&mut self, model: Model) {
        self.loss = LossState::start(model.loss(), &mut self.loss_rng);
        self.transmitter = Transmitter::default();
        self.last_arrival = Time::ZERO;
        self.model = model;
    }

    /// Changes the model gradually, as a measured path changes: waiting packets continue to wait, packets keep their
    /// order, and a path that is down stays down.
    pub fn follow(&mut self, model: Model) {
        let model = model.with_outage(self.model.outage());
        if model.loss() != self.model.loss() {
            self.loss = LossState::start(model.loss(), &mut self.loss_rng);
        }
        if model.rate().is_none() {
            self.transmitter = Transmitter::default();
        }
        self.model = model;
    }

    /// Takes the path down, or up again.
    pub fn set_outage(&mut self, outage: bool) {
        self.model = core::mem::take(&mut self.model).with_outage(outage);
    }

    /// Decides the fate of a packet of `bytes` that is handed in at `now`.
    pub fn admit(&mut self, now: Time, bytes: usize) -> Verdict {
        let verdict = self.decide(now, bytes);
        match verdict {
            Verdict::Deliver(_) => self.counts.delivered += 1,
            Verdict::Drop(reason) => self.counts.count(reason),
        }
        verdict
    }

    /// Returns when a copy arrives of the packet for which [`Pipe::admit`] has just returned the arrival time `first`;
    /// `None` if there is no copy. It has to be called once after each delivery.
    ///
    /// Choice: copies arise on the wire, so they use none of the rate; each has a jitter of its own, is no earlier than
    /// its original, and is not lost.
    pub fn copy_of(&mut self, first: Time) -> Option<Time> {
        if self.model.duplicates() == 0.0 || !self.copy_rng.chance(self.model.duplicates()) {
            return None;
        }
        self.counts.duplicated += 1;
        let late = uniform(&mut self.copy_rng, self.model.jitter());
        let at = first + late;
        if !self.model.reorders() {
            self.last_arrival = at;
        }
        Some(at)
    }

    /// Returns the number of packets so far, by their fate.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    fn decide(&mut self, now: Time, bytes: usize) -> Verdict {
        // Choice: an outage prevents packets from entering; packets on the wire still arrive.
        if self.model.is_out(now) {
            return Verdict::Drop(Reason::Outage);
        }
        // Choice: the first router drops it, so it uses none of the rate.
        if self.model.mtu().is_some_and(|mtu| bytes > mtu) {
            return Verdict::Drop(Reason::Mtu);
        }
        let sent = match self.model.rate() {
            None => now,
            Some((rate_bps, queue)) => match self.transmitter.send(now, bytes, rate_bps, queue) {
                Some(sent) => sent,
                None => return Verdict::Drop(Reason::Queue),
            },
        };
        // Choice: a packet is lost on the wire, behind the queue, so it took its share of the rate.
        let is_lost = match &mut self.rule {
            Some(rule) => rule(now, bytes),
            None => self
                .loss
                .next_is_lost(self.model.loss(), &mut self.loss_rng),
        };
        if is_lost {
            return Verdict::Drop(Reason::Loss);
        }
        let mut arrival = sent + self.model.delay() + self.jitter();
        if !self.model.reorders() {
            arrival = arrival.max(self.last_arrival);
            self.last_arrival = arrival;
        }
        Verdict::Deliver(arrival)
    }

    /// Returns a packet's jitter. Choice: uniform between zero and the model's jitter, added to the delay: propagation
    /// is a lower bound, and queues along the path only add to it. If order is kept, a packet that would overtake waits
    /// for the one before it.
    fn jitter(&mut self) -> Duration {
        uniform(&mut self.jitter_rng, self.model.jitter())
    }
}

impl fmt::Debug for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipe")
            .field("model", &self.model)
            .field("has_rule", &self.rule.is_some())
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}

/// Returns a uniform value between zero and `most`. Without jitter nothing is drawn.
fn uniform(rng: &mut Rng, most: Duration) -> Duration {
    match most.as_nanos() {
        0 => Duration::ZERO,
        ns => Duration::from_nanos(rng.below(ns.saturating_add(1))),
    }
}

impl Counts {
    /// Returns the number of packets that were handed in.
    pub fn admitted(&self) -> u64 {
        self.delivered + self.dropped()
    }

    /// Returns the number of packets that never arrive.
    pub fn dropped(&self) -> u64 {
        self.full + self.lost + self.too_long + self.outage + self.queue
    }

    fn count(&mut self, reason: Reason) {
        match reason {
            Reason::Full => self.full += 1,
            Reason::Loss => self.lost += 1,
            Reason::Mtu => self.too_long += 1,
            Reason::Outage => self.outage += 1,
            Reason::Queue => self.queue += 1,
        }
    }
}

impl Reason {
    /// Returns a word for counters and traces.
    pub const fn as_str(self) -> &'static str {
        match self {
            Reason::Full => "full",
            Reason::Loss => "loss",
            Reason::Mtu => "mtu",
            Reason::Outage => "outage",
            Reason::Queue => "queue",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The state of the loss model.
#[derive(Clone, Copy, Debug)]
enum LossState {
    /// There is no state.
    Memoryless,
    /// Whether the previous packet was lost.
    Previous { lost: bool },
    /// Whether the path is in its bad state.
    Gilbert { bad: bool },
    /// The next entry of the trace.
    Trace { next: usize },
}

impl LossState {
    /// Draws the state before the first packet, so that the first one is lost at the marginal rate.
    fn start(model: &LossModel, rng: &mut Rng) -> LossState {
        match *model {
            LossModel::None | LossModel::Bernoulli { .. } => LossState::Memoryless,
            LossModel::Conditional { p, .. } => LossState::Previous {
                lost: rng.chance(p),
            },
            LossModel::GilbertElliott { enter, leave, .. } => LossState::Gilbert {
                bad: enter > 0.0 && rng.chance(enter / (enter + leave)),
            },
            LossModel::Trace(_) => LossState::Trace { next: 0 },
        }
    }

    fn next_is_lost(&mut self, model: &LossModel, rng: &mut Rng) -> bool {
        match (model, self) {
            (LossModel::Bernoulli { p }, _) => rng.chance(*p),
            (LossModel::Conditional { p, burstiness }, LossState::Previous { lost }) => {
                // [Amir06 §II-C] burstiness is P(lost | previous lost). With r = P(lost | previous
                // arrived) the marginal rate obeys p = p·b + (1−p)·r, hence r = p(1−b)/(1−p).
                let chance = match (*lost, *burstiness) {
                    (_, 0.0) => *p,
                    (true, b) => b,
                    (false, b) => p * (1.0 - b) / (1.0 - p),
                };
                *lost = rng.chance(chance);
                *lost
            }
            (
                LossModel::GilbertElliott {
                    enter,
                    leave,
                    loss_good,
                    loss_bad,
                },
                LossState::Gilbert { bad },
            ) => {
                let lost = rng.chance(if *bad { *loss_bad } else { *loss_good });
                if rng.chance(if *bad { *leave } else { *enter }) {
                    *bad = !*bad;
                }
                lost
            }
            (LossModel::Trace(lost), LossState::Trace { next }) => {
                let now = lost.get(*next).copied().unwrap_or(false);
                *next = (*next + 1) % lost.len().max(1);
                now
            }
            // `start` creates the state that fits the model.
            (LossModel::None, _)
            | (LossModel::Conditional { .. }, _)
            | (LossModel::GilbertElliott { .. }, _)
            | (LossModel::Trace(_), _) => false,
        }
    }
}

/// Sends one packet after the other at a rate. The waiting ones are the queue.
#[derive(Clone, Debug, Default)]
struct Transmitter {
    /// When each accepted packet has been sent, and its bytes. The first one is being transmitted, the others wait.
    leaving: VecDeque<(Time, usize)>,
    /// Bytes of all packets in `leaving`.
    bytes: usize,
    free_at: Time,
}

impl Transmitter {
    /// Returns when the packet has been transmitted, or `None` if the queue is full.
    fn send(&mut self, now: Time, bytes: usize, rate_bps: u64, queue: Queue) -> Option<Time> {
        while let Some(&(left, gone)) = self.leaving.front() {
            if left > now {
                break;
            }
            self.leaving.pop_front();
            self.bytes -= gone;
        }
        // Choice: the packet in transmission does not count, as in ns-2's DropTail: with a queue of zero, one packet at
        // a time can still pass.
        if let Some(&(_, in_transmission)) = self.leaving.front() {
            let waiting = self.leaving.len() - 1;
            let waiting_bytes = self.bytes - in_transmission;
            let full = match queue {
                Queue::Packets(limit) => waiting >= limit,
                Queue::Bytes(limit) => waiting_bytes + bytes > limit,
            };
            if full || waiting >= QUEUE_PACKETS_MAX {
                return None;
            }
        }
        let bits = (bytes as u64).saturating_mul(8);
        let sending = Duration::from_nanos(bits.saturating_mul(1_000_000_000).div_ceil(rate_bps));
        let left = now.max(self.free_at) + sending;
        self.free_at = left;
        self.leaving.push_back((left, bytes));
        self.bytes += bytes;
        Some(left)
    }
}
