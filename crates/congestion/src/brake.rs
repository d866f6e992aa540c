//! A brake for a lane that never waits: it slows real-time traffic down at congestion, but not at random loss.
//!
//! ```text
//!   per round trip          no losses                    losses
//!   ──────────────────────────────────────────────────────────────────────────────────────
//!   no queue on the way     free, or one step faster     random: go on, recover
//!   a queue on the way      hold                         congestion: slower by γ, no redundancy
//! ```
//!
//! In addition, before any loss: when a queue grows, the lane slows down at once, to the rate that leaves the queue
//! (the *drain rate*).
//!
//! A lane that answers every loss with retransmissions makes congestion worse. The judgement is TCP-Real's: losses
//! while data arrives fast and evenly are errors of the wire; losses behind a growing queue are congestion, and then
//! the rate falls by γ of what *arrives*. [Papadimitriou06 §3.1, §6] There is no window and no queue here: the lane
//! drops at the entry what the rate does not admit, because a late packet is worth nothing and takes the place of one
//! in time. The lane drops whole flows (`flows`): the lowest priorities first, and of these the youngest. Only elastic
//! flows, and a single flow that exceeds the rate by itself, share the remaining rate packet by packet.
//!
//! If the queue is long and its packets would be late before it is full, the brake does not wait for losses. A growing
//! queue reveals its drain rate (`growth`). That rate, minus a small margin, becomes the lane's rate as soon as packets
//! would be late before the queue could be seen to react. Until then the queue may grow: it may belong to other
//! traffic, which stops in time. Meanwhile the lane drops packets that would be late behind the queue, so the queue is
//! empty soon. If the queue does not shrink although less is sent, it is not this lane's queue, and the lane takes its
//! share of it by the rules above.
//!
//! After a second the lane tries a higher rate (`tries`). If the drain rate is known, packets beyond the rate pass as
//! long as the queue that they would make is short, and the answers to the next questions show whether they have
//! waited. If they have not, the known drain rate is doubled, and so on with each answer. A try that fails costs a
//! short queue, and the next try comes when that queue is gone. If the drain rate is not known, the rate grows by a
//! quarter each second at first; each time that was too much, the lane waits twice as long. In both cases the try ends
//! when a queue stands or when the flows have enough room.
//!
//! A path that has become longer looks like a queue at first. The difference is that a queue reacts: if less is sent,
//! it falls, and otherwise it grows. So
//!
//! ```text
//!   the round trip has risen in one step and stays level        then
//!   ──────────────────────────────────────────────────────────────────────────────────────
//!   no losses, or no more than there were before the step       go on; after 3 s it is the path
//!   nothing is sent                                             the same
//!   losses, but too few for a queue that grows as fast          go on, add nothing; after 3 s it is the path
//!   few losses                                                  slower by γ, once, and wait
//!   … and it stays level though less is sent, for 1 s           it is the path: off
//!   many losses, or it moves                                    congestion, as above
//!   … and is level later: few losses, for 3 s of less           it is the path: off
//!   the path, but with many losses                              it was a queue: as before
//! ```
//!
//! Losses react, too: if less is sent than the drain rate, a queue that was full loses nothing. So the rate falls once,
//! the flows that do not fit share the remaining rate, and the losses that follow decide. If much less is lost, it was
//! a queue. If as much as before is lost, the path loses packets by itself, with or without a queue: the brake is
//! switched off.
//!
//! Other lanes of the sender may share the path, and wait where this lane cannot. Losses behind a queue are theirs to
//! react to, as long as they send a part of the traffic. Otherwise a stream that catches up after an outage would cut
//! off the call beside it. These lanes react by their own rules and send less and less; losses after that are this
//! lane's.
//!
//! The rate never falls below the rate that as many TCP connections as the lane has flows would have under the same
//! losses and round trip. So a lane that brakes among TCPs does not starve.

mod answer;
mod catching;
mod doubt;
mod epoch;
mod flows;
mod growth;
mod judge;
mod limit;
mod probation;
mod slowing;
mod standing;
#[cfg(test)]
mod tests;
mod tries;

pub use growth::Echo;

use catching::Catching;
use epoch::{Epoch, Run};
use flows::{Flows, State};
use growth::Growth;
use limit::Limit;
use probation::Probation;
use standing::EMPTYING;
use tries::TRY_AFTER;

use crate::baseline::{Baseline, Margin};
use base::{Duration, Time};

/// The parameters of the brake.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The share by which the arriving rate is reduced at a round trip with congestion. [Papadimitriou06 §3.1]: 1/8.
    pub gamma: f64,
    /// The number of packets per flow and round trip by which the rate grows again. The value that is as fair to TCP as
    /// one packet and a half of the window is 3γ / (2 − γ) = 0.2 for γ = 1/8 [Papadimitriou06 eq. 3].
    pub alpha: f64,
    /// A round trip that exceeds the least one by this and by [`Settings::queue_share`] of the least one indicates a
    /// queue.
    pub queue_floor: Duration,
    /// See [`Settings::queue_floor`].
    pub queue_share: f64,
}

/// Losses up to this share may be random. Choice: recovery on the hop is made for this share; a link that gets a
/// twentieth more than it carries loses more.
const FEW_LOST: f64 = 0.03;
/// If at least this many packets were lost between two hellos, and more than the given multiple of what arrived, the
/// losses belong to an outage. Choice: a tenth of a second of a call and its hellos; a queue that is sent six times its
/// drain rate lets more through.
const OUTAGE_PACKETS: u64 = 8;
const OUTAGE_SHARE: u64 = 5;
/// If less than this share of the offered traffic is sent, the lane is held back.
const HELD_BACK: f64 = 0.97;
/// The minimum time between judgements. Otherwise one loss at 50 packets/s would be a rate of 100 %.
const EPOCH_LEAST: Duration = Duration::from_millis(100);
/// If other traffic makes up more than this share of the link, it is not clear whose queue it is.
const OTHERS_SHARE: f64 = 0.25;
/// How long questions come more often after a flow begins or a round trip was long.
const WATCHED: Duration = Duration::from_millis(800);

/// The brake of one lane.
#[derive(Clone, Debug)]
pub struct Brake {
    settings: Settings,
    baseline: Baseline,
    epoch: Epoch,
    /// The events since the round trip has been level above its baseline.
    trial: Epoch,
    run: Run,
    probation: Option<Probation>,
    /// How often in a row a limit was given up by mistake.
    mistaken: u32,
    /// The share lost, averaged over epochs.
    loss: f64,
    /// The same for epochs without a queue.
    usual_loss: f64,
    /// The average packet size in bytes.
    packet_bytes: f64,
    limit: Option<Limit>,
    /// The last losses were caused by congestion.
    congested: bool,
    flows: Flows,
    growth: Growth,
    catching: Catching,
    /// Other lanes of the sender, which wait, sent a part of the traffic in the last epoch.
    waited_beside: bool,
    /// The lane has carried traffic in the last epoch.
    has_carried: bool,
    /// The least slack of the packets that were offered in the last epoch.
    slack: Duration,
    /// The bytes that the lane has sent for the first time.
    lane_bytes: u64,
    /// A flow has begun.
    has_begun: bool,
    /// How long the rate stays unchanged after it fell.
    try_after: Duration,
    /// Until this time, the queue is attributed to other traffic.
    others_until: Time,
    /// Until this time, losses at the usual rate are not attributed to a queue.
    unanswered_until: Time,
    /// When jitter was last mistaken for a queue.
    chance_at: Option<Time>,
}

/// A packet that is about to be sent for the first time.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// The size, with everything that is sent on the wire.
    pub bytes: usize,
    /// The priority, 0 to 7.
    pub priority: u8,
    /// Any hash of the packet's flow.
    pub flow: u64,
    /// The flow adapts its rate to what arrives.
    pub is_elastic: bool,
    /// The time to its deadline that is left on the path without a queue.
    pub slack: Duration,
}

/// The decision about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The lane sends it.
    Sent,
    /// The lane sends less at present, or the packet would be late.
    Braked,
    /// The lane has no room for the packet's flow.
    Refused,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            gamma: 0.125,
            alpha: 0.2,
            // Choice: above what a busy host adds to a round trip, and below what a queue adds that loses packets: 50
            // packets of 1500 bytes at 10 Mbit/s are 60 ms.
            queue_floor: Duration::from_millis(10),
            queue_share: 0.25,
        }
    }
}

impl Brake {
    /// Creates a brake that is off.
    pub fn new(settings: Settings) -> Brake {
        Brake {
            settings,
            baseline: Baseline::new(Time::ZERO, settings.margin()),
            epoch: Epoch::new(Time::ZERO),
            trial: Epoch::new(Time::ZERO),
            run: Run::default(),
            probation: None,
            mistaken: 0,
            loss: 0.0,
            usual_loss: 0.0,
            packet_bytes: 0.0,
            limit: None,
            congested: false,
            flows: Flows::default(),
            growth: Growth::default(),
            catching: Catching::default(),
            waited_beside: false,
            has_carried: false,
            slack: Duration::MAX,
            lane_bytes: 0,
            has_begun: false,
            try_after: TRY_AFTER,
            others_until: Time::ZERO,
            unanswered_until: Time::ZERO,
            chance_at: None,
        }
    }

    /// Decides whether a packet is sent.
    #[inline]
    pub fn admit(&mut self, now: Time, packet: &Packet) -> Verdict {
        let Packet {
            bytes,
            priority,
            flow,
            is_elastic,
            slack,
        } = *packet;
        self.catching
            .on_time(now, |at| self.flows.established_bps(at));
        self.epoch.offered_bytes += bytes as u64;
        self.epoch.slack = self.epoch.slack.min(slack);
        self.epoch.flows |= 1 << (flow % 64);
        let state = self.flows.note(now, flow, priority, bytes, is_elastic);
        self.has_begun |= self.flows.has_begun();
        if self.flows.is_due(now) {
            self.flows.measure(now);
            self.decide(now);
        }
        if self.limit.is_some() {
            let verdict = self.weigh(now, packet, state.unwrap_or(State::Open));
            if verdict != Verdict::Sent {
                return verdict;
            }
        }
        self.epoch.sent += 1;
        self.epoch.sent_bytes += bytes as u64;
        self.lane_bytes += bytes as u64;
        if let Some(limit) = &mut self.limit {
            limit.on_sent(now, bytes);
        }
        Verdict::Sent
    }

    /// Decides the same while a limit holds.
    #[cold]
    fn weigh(&mut self, now: Time, packet: &Packet, state: State) -> Verdict {
        let waits = self.waits(now);
        let is_tried = state != State::Served && self.has_room_to_try(now, packet.bytes);
        let may_try = self.may_try(now);
        let stands = self.stands();
        let Some(limit) = &mut self.limit else {
            return Verdict::Sent;
        };
        if waits.is_some_and(|waits| waits > packet.slack) {
            return match state {
                State::Refused(_) => Verdict::Refused,
                State::Open | State::Served => Verdict::Braked,
            };
        }
        let gives = if stands { EMPTYING } else { 1.0 };
        let left_bps = (limit.rate_bps * gives - self.flows.served_bps()).max(0.0);
        let bytes = packet.bytes as f64;
        let mut shares = || limit.admits(now, bytes, packet.priority, self.packet_bytes, left_bps);
        match state {
            State::Served => Verdict::Sent,
            State::Open if shares() || is_tried => Verdict::Sent,
            State::Open => Verdict::Braked,
            State::Refused(_) if may_try && shares() || is_tried => Verdict::Sent,
            State::Refused(_) => Verdict::Refused,
        }
    }

    /// Decides which flows the lane serves.
    fn decide(&mut self, now: Time) {
        match &self.limit {
            // It is not known yet whether any flow has to be refused.
            Some(limit) if limit.cut.is_some() => self.flows.serve_first(limit.rate_bps),
            Some(limit) => self.flows.decide(now, limit.rate_bps),
            None if self.flows.refuses() || self.flows.served_bps() > 0.0 => self.flows.free(),
            None => {}
        }
    }

    /// Returns since when the lane has had no room for a flow.
    pub fn refused_since(&self, flow: u64) -> Option<Time> {
        self.flows.refused_since(flow)
    }

    /// Returns true if the lane refuses any of its flows.
    pub fn refuses(&self) -> bool {
        self.limit.is_some() && self.flows.refuses()
    }

    /// Returns until when round trips should be measured more often than usual: if a flow has begun since the last
    /// call, or if a round trip is long.
    pub fn watches(&mut self, now: Time) -> Option<Time> {
        let began = core::mem::take(&mut self.has_begun);
        let last = self.growth.last();
        let is_long = last.is_some_and(|echo| self.baseline.is_long(echo.there));
        // Questions take a part of a narrow link, which the served flows may need.
        let is_long = match self.flows.served_bps() > 0.0 && self.own_packets().is_some() {
            true => self.stands(),
            false => is_long || self.tries(now),
        };
        (began || is_long).then(|| now + WATCHED)
    }

    /// Returns how long a question that is sent now would wait behind the lane's packets if the drain rate were not
    /// higher than known.
    pub fn modelled(&self, now: Time) -> Duration {
        let limit = self.limit.as_ref();
        limit.map_or(Duration::ZERO, |limit| limit.modelled(now))
    }

    /// Returns the number of bytes that the lane has sent for the first time.
    pub fn lane_bytes(&self) -> u64 {
        self.lane_bytes
    }

    /// Handles the answer to a question: does what [`Brake::on_round_trip`] does, and checks whether a queue grows.
    pub fn on_echo(&mut self, now: Time, echo: Echo) {
        if self
            .growth
            .last()
            .is_some_and(|last| last.sent >= echo.sent)
        {
            // A second answer to the same question contains nothing new about the forward direction.
            return;
        }
        self.growth.on_echo(echo);
        self.baseline.on_echo(now, echo.sent, echo.rtt);
        self.judge_if_due(now, echo.rtt);
        self.look_for_room(now, &echo);
        self.look_for_growth(now);
    }

    /// Records that another lane of the sender, one that waits, has sent this many bytes.
    pub fn on_beside(&mut self, bytes: u64) {
        self.epoch.beside_bytes += bytes;
    }

    /// Returns the round trip above which there is a queue in which the packets of this lane wait; `None` while the
    /// lane carries no traffic.
    pub fn queue_from(&self) -> Option<Duration> {
        let carries = self.has_carried || self.epoch.offered_bytes > 0;
        self.baseline.usual_most().filter(|_| carries)
    }

    /// Records a report of the other end: this many more packets of the link have arrived, and this many are lost.
    pub fn on_told(&mut self, arrived: u64, lost: u64) {
        if lost >= OUTAGE_PACKETS && lost > OUTAGE_SHARE * (arrived + 1) {
            return;
        }
        self.epoch.told += arrived + lost;
        self.epoch.lost += lost;
    }

    /// Forgets the losses so far, because the link is down: an outage and what leads to it, for example short outages in
    /// a row, lose packets without a queue.
    pub fn on_outage(&mut self, now: Time) {
        self.epoch = Epoch::new(now);
        self.trial = Epoch::new(self.trial.since);
        if let Some(probation) = &mut self.probation {
            probation.begin_again(now);
        }
    }

    /// Takes in a measured round trip. Judges if enough time has passed since the last judgement.
    pub fn on_round_trip(&mut self, now: Time, rtt: Duration) {
        self.baseline.on_round_trip(now, rtt);
        self.judge_if_due(now, rtt);
    }

    fn judge_if_due(&mut self, now: Time, rtt: Duration) {
        let span = now.since(self.epoch.since);
        if span < EPOCH_LEAST.max(rtt) {
            return;
        }
        let epoch = core::mem::replace(&mut self.epoch, Epoch::new(now));
        (self.has_carried, self.slack) = (epoch.offered_bytes > 0, epoch.slack);
        if epoch.offered_bytes == 0 {
            // There is nothing to judge by. The reason for a limit may be gone when traffic comes back.
            self.release(now);
            // If nothing is sent, a rise that stays level is not this lane's queue.
            self.doubt(now, &epoch);
            return;
        }
        if epoch.sent > 0 {
            self.judge(now, rtt, span, &epoch);
        }
    }

    /// Returns whether the losses are random. If so, retransmissions may be sent more than once, and requested again.
    pub fn allows_redundancy(&self) -> bool {
        let is_on_trial = self.probation.as_ref().is_some_and(Probation::begins);
        !self.congested && self.limit.is_none() && !is_on_trial
    }

    /// Returns true if the lane has sent, before this moment, a backlog that a host catches up with. Anything added
    /// would wait in the queue that the backlog makes. It makes no difference whether packets of this moment come one
    /// by one or in a burst.
    #[inline]
    pub fn catches_up(&self, now: Time) -> bool {
        self.catching.is_ahead(now)
    }

    /// Returns the same when an admitted packet of `bytes` bytes leaves: it counts, and so do earlier packets of this
    /// moment.
    #[inline]
    pub fn catches_up_with(&mut self, now: Time, flow: impl FnOnce() -> u64, bytes: usize) -> bool {
        let Some(paused) = self.catching.pays_back(now) else {
            return false;
        };
        if self.flows.is_established(flow(), paused) {
            self.catching.on_packet(bytes);
        }
        self.catching.is_ahead_here()
    }

    /// Returns true if a queue stands on the path, or if the path has just become longer.
    pub fn is_queued(&self) -> bool {
        self.baseline.is_queued()
    }

    /// Returns the rate that holds at present; `None` while the brake is off.
    pub fn rate_bps(&self) -> Option<u64> {
        self.limit.as_ref().map(|limit| limit.rate_bps as u64)
    }

    /// Switches the brake off, as for a new path.
    pub fn reset(&mut self, now: Time) {
        *self = Brake {
            baseline: Baseline::new(now, self.settings.margin()),
            epoch: Epoch::new(now),
            ..Brake::new(self.settings)
        };
    }
}

impl Settings {
    fn margin(&self) -> Margin {
        Margin {
            floor: self.queue_floor,
            share: self.queue_share,
        }
    }
}
