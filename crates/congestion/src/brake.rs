//! A brake for a lane that never waits: what real-time traffic does when it meets congestion
//! instead of random loss.
//!
//! ```text
//!   per round trip          no losses                    losses
//!   ──────────────────────────────────────────────────────────────────────────────────────
//!   no queue on the way     free, or one step faster     random: go on, recover
//!   a queue on the way      hold                         congestion: slower by γ, no redundancy
//! ```
//!
//! and before any loss, when a queue grows: slower at once, to what leaves it
//!
//! A lane that answers every loss with retransmissions makes congestion worse. The judgement is
//! TCP-Real's: losses while data arrives fast and evenly are errors of the wire, losses behind a
//! growing queue are congestion, and then the rate falls by γ of what *arrives*.
//! [Papadimitriou06 §3.1, §6] There is no window and no queue here: what the rate does not
//! admit is dropped at the entry, because a late packet is worth
//! nothing and takes the place of one in time. What is dropped are whole flows (`flows`): the lowest
//! priorities, and of these the youngest. Only flows that adapt, and one that is too much alone, share what is left packet by packet.
//!
//! Losses are not waited for where the queue is long and a packet in it late before it is full: a queue that
//! grows says what leaves it (`growth`), and that, less a little, is the rate as soon as packets would be late
//! before an answer could come. Until then it is let grow: it may be somebody else's, who stops in time. Packets
//! that would be late behind what stands there are dropped meanwhile, so it is empty soon. If it does not shrink
//! although less is sent, it is not this lane's queue, and the lane takes its share of it by the rules above.
//!
//! More is tried after a second (`tries`). Where it is known what leaves, packets beyond the rate pass as long as the queue
//! that they would make is short, and the answers to the next questions tell whether they have waited. If not, twice as
//! much leaves, and so on with each answer. A try in vain costs a short queue, and the next one comes when that is gone.
//! Where it is not known what leaves, the rate grows by a quarter each second at first, after twice as long each time that
//! it was too much. Either ends when a queue stands or the flows have room.
//!
//! A path that has become longer looks like a queue at first. What tells them apart is that a queue
//! answers: given less it falls, and one that is not given less grows. So
//!
//! ```text
//!   the round trip has risen in one step and stays level        then
//!   ──────────────────────────────────────────────────────────────────────────────────────
//!   no losses, or no more than there were before the step       go on; after 3 s it is the path
//!   nothing is sent                                             the same
//!   few losses                                                  slower by γ, once, and wait
//!   … and it stays level though less is sent, for 1 s           it is the path: off
//!   many losses, or it moves                                    congestion, as above
//!   … and is level later: few losses, for 3 s of less           it is the path: off
//!   the path, but with many losses                              it was a queue: as before
//! ```
//!
//! Losses answer too: given less than leaves it, a queue that was full loses nothing. So the rate falls once, the flows
//! that do not fit share what is left, and what is lost then decides: much less, and it was a queue; as much as before,
//! and the path loses by itself, with or without one: off.
//!
//! Other lanes of the sender may share the path, and wait where this one cannot. Losses behind a queue are theirs to
//! answer as long as they give a part of it: what a stream makes up for after an outage would else cut off the call
//! beside it. They answer by rules of their own, give less and less, and what is lost then is this lane's.
//!
//! The rate never falls below what as many TCP connections as the lane carries flows would have
//! under the same losses and round trip, so that braking among TCPs does not mean starving.

mod answer;
mod catching;
mod doubt;
mod epoch;
mod flows;
mod growth;
mod judge;
mod limit;
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
use standing::EMPTYING;
use tries::TRY_AFTER;

use crate::baseline::{Baseline, Margin};
use base::{Duration, Time};

/// How the brake judges and acts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// What is taken off the arriving rate at a round trip with congestion.
    /// [Papadimitriou06 §3.1]: 1/8.
    pub gamma: f64,
    /// Packets per flow and round trip by which the rate grows again. What is as fair to TCP as one
    /// packet and a half of the window: 3γ / (2 − γ) = 0.2 for γ = 1/8 [Papadimitriou06 eq. 3].
    pub alpha: f64,
    /// A round trip longer than the least by this and by [`Settings::queue_share`] of the least
    /// tells of a queue.
    pub queue_floor: Duration,
    /// See [`Settings::queue_floor`].
    pub queue_share: f64,
}

/// Losses up to this share may be random. Choice: what recovery on the hop is made for; a link that
/// is given a twentieth too much loses more.
const FEW_LOST: f64 = 0.03;
/// So many lost between two hellos that came, and so many times as many as arrived, are an outage's. Choice: a tenth of a
/// second of a call and its hellos; a queue that is given six times what leaves it lets more through.
const OUTAGE_PACKETS: u64 = 8;
const OUTAGE_SHARE: u64 = 5;
/// Less is sent than offered if it is less than this share of it.
const HELD_BACK: f64 = 0.97;
/// A path that has become longer is judged so many times: a queue that is full loses all the time, and what is lost later is no sign of this one.
const PROBATIONS: u8 = 2;
/// Judgements are at least so far apart: one loss at 50 packets/s is otherwise a rate of 100 %.
const EPOCH_LEAST: Duration = Duration::from_millis(100);
/// Where others give more than this share to the link, it is not clear who makes the queue.
const OTHERS_SHARE: f64 = 0.25;
/// For so long after a flow begins, or a round trip was long, questions come more often.
const WATCHED: Duration = Duration::from_millis(800);

/// One lane's brake.
#[derive(Clone, Debug)]
pub struct Brake {
    settings: Settings,
    baseline: Baseline,
    epoch: Epoch,
    /// What has happened since the round trip has been level above its baseline.
    trial: Epoch,
    run: Run,
    /// What has happened lately since a rise was taken for the path's, and how often that is looked at.
    probation: Option<(Epoch, u8)>,
    /// The share that it may lose.
    tolerated: f64,
    /// Share lost, averaged over epochs.
    loss: f64,
    /// The same of epochs without a queue.
    usual_loss: f64,
    /// Bytes of a packet, averaged.
    packet_bytes: f64,
    limit: Option<Limit>,
    /// The last losses were congestion's.
    congested: bool,
    flows: Flows,
    growth: Growth,
    catching: Catching,
    /// Other lanes of the sender, which wait, gave a part in the last epoch.
    waited_beside: bool,
    /// The lane has carried something in the last epoch.
    has_carried: bool,
    /// The least slack of what was offered in it.
    slack: Duration,
    /// What the lane has sent for the first time.
    lane_bytes: u64,
    /// A flow has begun.
    has_begun: bool,
    /// How long the rate stays where it is after it fell.
    try_after: Duration,
    /// The queue is others' until then.
    others_until: Time,
    /// Losses as usual are no queue's until then.
    unanswered_until: Time,
    /// When jitter was taken for a queue last.
    chance_at: Option<Time>,
}

/// A packet that is about to be sent for the first time.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// With all that goes on the wire.
    pub bytes: usize,
    /// 0 to 7.
    pub priority: u8,
    /// Any hash of its flow.
    pub flow: u64,
    /// Its flow adapts to what arrives.
    pub is_elastic: bool,
    /// The time to its deadline that the path without a queue leaves.
    pub slack: Duration,
}

/// What is to become of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is sent.
    Sent,
    /// The lane sends less at present, or it would be late.
    Braked,
    /// The lane has no room for its flow.
    Refused,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            gamma: 0.125,
            alpha: 0.2,
            // Choice: above what a busy host adds to a round trip, below what a queue adds that
            // loses: 50 packets of 1500 bytes at 10 Mbit/s are 60 ms.
            queue_floor: Duration::from_millis(10),
            queue_share: 0.25,
        }
    }
}

impl Brake {
    /// A brake that is off.
    pub fn new(settings: Settings) -> Brake {
        Brake {
            settings,
            baseline: Baseline::new(Time::ZERO, settings.margin()),
            epoch: Epoch::new(Time::ZERO),
            trial: Epoch::new(Time::ZERO),
            run: Run::default(),
            probation: None,
            tolerated: 0.0,
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

    /// What is to become of a packet.
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

    /// The same while a limit holds.
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

    /// Decides whom the lane serves.
    fn decide(&mut self, now: Time) {
        match &self.limit {
            // Whether anybody has to be refused is not known yet.
            Some(limit) if limit.cut.is_some() => self.flows.serve_first(limit.rate_bps),
            Some(limit) => self.flows.decide(now, limit.rate_bps),
            None if self.flows.refuses() || self.flows.served_bps() > 0.0 => self.flows.free(),
            None => {}
        }
    }

    /// Since when the lane has no room for a flow.
    pub fn refused_since(&self, flow: u64) -> Option<Time> {
        self.flows.refused_since(flow)
    }

    /// The lane refuses flows that it has.
    pub fn refuses(&self) -> bool {
        self.limit.is_some() && self.flows.refuses()
    }

    /// A flow has begun since this was asked last, or a round trip is long: round trips are of more interest than
    /// usual until the moment.
    pub fn watches(&mut self, now: Time) -> Option<Time> {
        let began = core::mem::take(&mut self.has_begun);
        let last = self.growth.last();
        let is_long = last.is_some_and(|echo| self.baseline.is_long(echo.there));
        // Questions take a part of a narrow link, which the flows that are served may need.
        let is_long = match self.flows.served_bps() > 0.0 && self.own_packets().is_some() {
            true => self.stands(),
            false => is_long || self.tries(now),
        };
        (began || is_long).then(|| now + WATCHED)
    }

    /// How long a question that is sent now would wait behind the lane's packets if no more left than is known.
    pub fn modelled(&self, now: Time) -> Duration {
        let limit = self.limit.as_ref();
        limit.map_or(Duration::ZERO, |limit| limit.modelled(now))
    }

    /// What the lane has sent for the first time.
    pub fn lane_bytes(&self) -> u64 {
        self.lane_bytes
    }

    /// A question was answered: what [`Brake::on_round_trip`] does, and whether a queue grows.
    pub fn on_echo(&mut self, now: Time, echo: Echo) {
        if self
            .growth
            .last()
            .is_some_and(|last| last.sent >= echo.sent)
        {
            // The same question's answer again says nothing new of the way there.
            return;
        }
        self.growth.on_echo(echo);
        self.baseline.on_echo(now, echo.sent, echo.rtt);
        self.judge_if_due(now, echo.rtt);
        self.look_for_room(now, &echo);
        self.look_for_growth(now);
    }

    /// Another lane of the sender, one that waits, has sent so much.
    pub fn on_beside(&mut self, bytes: u64) {
        self.epoch.beside_bytes += bytes;
    }

    /// A round trip that is longer tells of a queue, in which the packets of this lane wait; none while it carries
    /// nothing.
    pub fn queue_from(&self) -> Option<Duration> {
        let carries = self.has_carried || self.epoch.offered_bytes > 0;
        self.baseline.usual_most().filter(|_| carries)
    }

    /// The other end tells of so many more packets of the link that have arrived, and that are lost.
    pub fn on_told(&mut self, arrived: u64, lost: u64) {
        if lost >= OUTAGE_PACKETS && lost > OUTAGE_SHARE * (arrived + 1) {
            return;
        }
        self.epoch.told += arrived + lost;
        self.epoch.lost += lost;
    }

    /// A round trip was measured: if the last judgement is long enough ago, judges.
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
            // Nothing to judge by; what held may hold no longer when traffic comes back.
            self.release(now);
            // A rise that stays level where nothing is sent is not this lane's queue.
            self.doubt(now, &epoch);
            return;
        }
        if epoch.sent > 0 {
            self.judge(now, rtt, span, &epoch);
        }
    }

    /// Retransmissions may be sent more than once, and asked for again: the losses are random.
    pub fn allows_redundancy(&self) -> bool {
        !self.congested && self.limit.is_none()
    }

    /// Before this moment the lane has sent what a host catches up with: what is added to it would stand in the queue of
    /// that. Whether packets of this moment come one by one or in a burst makes no difference.
    #[inline]
    pub fn catches_up(&self, now: Time) -> bool {
        self.catching.is_ahead(now)
    }

    /// The same when a packet of some bytes, which was admitted, leaves: it counts, and those of this moment before it.
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

    /// A queue stands on the path, or the path has become longer a moment ago.
    pub fn is_queued(&self) -> bool {
        self.baseline.is_queued()
    }

    /// The rate that holds at present; none while the brake is off.
    pub fn rate_bps(&self) -> Option<u64> {
        self.limit.as_ref().map(|limit| limit.rate_bps as u64)
    }

    /// Off, as for a new path.
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
