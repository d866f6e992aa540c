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
//! More is tried after a second, and after twice as long each time that it was too much: packets of refused flows
//! pass again, a quarter more each second at most, until a queue stands or the flow has room.
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
mod epoch;
mod flows;
mod growth;
mod limit;
mod standing;
#[cfg(test)]
mod tests;

pub use growth::Echo;

use answer::{ANSWER_PACKETS, ASKS_BELOW, Cut};
use epoch::Epoch;
use flows::{Flows, State};
use growth::{Growth, Line};
use limit::{DRAINING, Limit};
use standing::EMPTYING;

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

/// A level rise is the path's after so long, and four times the rise, if nothing is braked.
const STEADY_FREE: Duration = Duration::from_secs(3);
/// The same while less is sent than is offered: a queue of that length would have emptied by half.
const STEADY_BRAKED: Duration = Duration::from_secs(1);
/// Losses up to this share may be random. Choice: what recovery on the hop is made for; a link that
/// is given a twentieth too much loses more.
const FEW_LOST: f64 = 0.03;
/// So many lost between two hellos that came, and so many times as many as arrived, are an outage's. Choice: a tenth of a
/// second of a call and its hellos; a queue that is given six times what leaves it lets more through.
const OUTAGE_PACKETS: u64 = 8;
const OUTAGE_SHARE: u64 = 5;
/// By how much the losses of a few packets vary more than if each were lost by itself. Choice: runs of which every
/// second loss is followed by another: (1 + 1/2) / (1 - 1/2).
const LOSSES_TOGETHER: f64 = 3.0;
/// Less is sent than offered if it is less than this share of it.
const HELD_BACK: f64 = 0.97;
/// A path that has become longer is judged by the losses of so many packets and so much time.
/// Choice: bursts of random losses are evened out.
const PROBATION: Duration = Duration::from_secs(2);
const PROBATION_PACKETS: u64 = 200;
/// And so many times: a queue that is full loses all the time, and what is lost later is no sign of this one.
const PROBATIONS: u8 = 2;
/// Judgements are at least so far apart: one loss at 50 packets/s is otherwise a rate of 100 %.
const EPOCH_LEAST: Duration = Duration::from_millis(100);
/// The brake lets go when the rate is so many times what is offered.
const FREE_AT: f64 = 1.25;
/// The rate grows by no more than this share in the first second of trying. Choice: a queue that grows by a
/// quarter of a second per second is known before it is a tenth long.
const GROWTH_FIRST: f64 = 0.25;
/// By twice as much in each further second without a queue, up to this share: a path that carries many times
/// what it did is found within seconds.
const GROWTH_MOST: f64 = 1.0;
/// More is tried so long after the rate fell, twice as long when that was too much, and so on.
const TRY_AFTER: Duration = Duration::from_secs(1);
const TRY_AFTER_MAX: Duration = Duration::from_secs(64);
/// The same while no flow is served whole: a trial disturbs nobody then.
const TRY_AFTER_UNSERVED: Duration = Duration::from_secs(2);
/// Where others give more than this share to the link, it is not clear who makes the queue.
const OTHERS_SHARE: f64 = 0.25;
/// A queue that was others' is let grow for so long.
const OTHERS_FOR: Duration = Duration::from_secs(30);
/// A queue is let grow as long as it makes nothing late within so much time and two round trips. Choice: a tenth of a
/// second until the next line is seen, and one until what is given less shows.
const REACTION: Duration = Duration::from_millis(200);
/// Choice: longer than this, many queues lose.
const QUEUE_MOST: Duration = Duration::from_millis(100);
/// So many packets a second more are tried at least where no flow is served whole. Choice: a lane that was left nothing, because hellos
/// fill the link, is as wide as a call four seconds after the link is.
const TRIED_LEAST: f64 = 4.0;
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
            probation: None,
            tolerated: 0.0,
            loss: 0.0,
            usual_loss: 0.0,
            packet_bytes: 0.0,
            limit: None,
            congested: false,
            flows: Flows::default(),
            growth: Growth::default(),
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
        Verdict::Sent
    }

    /// The same while a limit holds.
    #[cold]
    fn weigh(&mut self, now: Time, packet: &Packet, state: State) -> Verdict {
        let waits = self.waits(now);
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
            State::Open if shares() => Verdict::Sent,
            State::Open => Verdict::Braked,
            State::Refused(_) if may_try && shares() => Verdict::Sent,
            State::Refused(_) => Verdict::Refused,
        }
    }

    /// How long a packet that is sent now would wait in the queue; none if nothing is known of it.
    fn waits(&self, now: Time) -> Option<Duration> {
        let limit = self.limit.as_ref()?;
        let (leaves_bps, other_bps) = limit.leaves?;
        // Where more is tried that disturbs none, it is taken to leave as well, until answers tell otherwise.
        let is_quick = self.flows.none_fits(limit.known_bps()?);
        let tried = if is_quick {
            limit.rate_bps + other_bps
        } else {
            0.0
        };
        let leaves_bps = leaves_bps.max(tried);
        let last = self.growth.last()?;
        let since = now.since(last.sent).as_secs_f64();
        let lane_bits = (self.lane_bytes - last.lane_bytes) as f64 * 8.0;
        let given_s = (lane_bits + other_bps * since) / leaves_bps.max(1.0);
        let waits_s = self.baseline.above(last.there).as_secs_f64() + given_s - since;
        Some(Duration::from_secs_f64(waits_s.max(0.0)))
    }

    fn may_try(&self, now: Time) -> bool {
        let limit = self.limit.as_ref();
        limit.is_some_and(|limit| now.since(limit.fell) >= self.try_after)
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
        let is_long = self
            .growth
            .last()
            .is_some_and(|echo| self.baseline.is_long(echo.there));
        (began || is_long).then(|| now + WATCHED)
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
        self.look_for_growth(now);
    }

    fn look_for_growth(&mut self, now: Time) {
        let fell = self.limit.as_ref().map_or(Time::ZERO, |limit| limit.fell);
        if self.stands() {
            self.measure_again(fell);
        }
        if !self.baseline.is_queued() {
            let last = self.growth.last();
            let is_gone = last.is_some_and(|e| e.sent > fell && !self.baseline.is_above(e.rtt));
            if let Some(limit) = &mut self.limit {
                limit.is_proved |= is_gone;
            }
            if is_gone && self.was_chance(now, fell) {
                self.chance_at = Some(now);
                self.release(now);
            }
            return;
        }
        if self.is_others(fell) {
            self.others_until = now + OTHERS_FOR;
            self.release(now);
            return;
        }
        if !self.is_there() {
            return;
        }
        let leaves = self.limit.as_ref().and_then(|limit| limit.leaves);
        if leaves.is_some() && self.may_try(now) {
            return self.try_no_more(now);
        }
        let jitter = self.baseline.jitter();
        if now >= self.others_until
            && let Some(line) = self.growth.rising(fell, jitter)
            && self.is_urgent(&line)
        {
            self.slow_down(now, &line);
        }
    }

    /// What makes the round trip long is not on the way back.
    fn is_there(&self) -> bool {
        let last = self.growth.last();
        last.is_none_or(|last| self.baseline.is_long(last.there))
    }

    /// A queue that grows so makes packets late before it could be known to answer.
    fn is_urgent(&self, line: &Line) -> bool {
        let Some(last) = self.growth.last() else {
            return false;
        };
        let most = self.slack.min(self.epoch.slack).min(QUEUE_MOST);
        let left = most.saturating_sub(self.baseline.above(last.there));
        let grows_s = line.slope * (REACTION + last.rtt * 2).as_secs_f64();
        left.as_secs_f64() <= grows_s
    }

    /// A queue grows: the lane sends what leaves it, less a little.
    fn slow_down(&mut self, now: Time, line: &Line) {
        if line.other_bps > OTHERS_SHARE * line.given_bps {
            return;
        }
        let leaves = line.served_bps();
        let rate_bps = ((leaves - line.other_bps) * DRAINING).max(0.0);
        let before = self.limit.take();
        let held = before.as_ref().map_or(f64::MAX, |limit| limit.rate_bps);
        let mut limit = before.unwrap_or_else(|| Limit::new(now, rate_bps, self.baseline.jitter()));
        limit.rate_bps = rate_bps.min(held);
        limit.leaves = Some((leaves, line.other_bps));
        limit.first_bps = leaves;
        limit.cut = None;
        self.falls(now, limit);
        self.congested = true;
    }

    /// More was tried, and a queue stands: back to what leaves it.
    fn try_no_more(&mut self, now: Time) {
        let Some(mut limit) = self.limit.take() else {
            return;
        };
        limit.rate_bps = limit.rate_bps.min(limit.known_bps().unwrap_or(f64::MAX));
        self.falls(now, limit);
    }

    /// The rate has fallen to that of `limit`.
    fn falls(&mut self, now: Time, mut limit: Limit) {
        limit.rate_bps = limit.rate_bps.max(self.heard_least_bps());
        if now.since(limit.fell) >= self.try_after {
            // What was tried was too much.
            let most = match self.flows.served_bps() > 0.0 {
                true => TRY_AFTER_MAX,
                false => TRY_AFTER_UNSERVED,
            };
            self.try_after = (self.try_after * 2).min(most);
        }
        limit.fell = now;
        let rtt = self.baseline.latest();
        limit.deaf_until = now + rtt * 2 + EPOCH_LEAST;
        self.limit = Some(limit);
        self.flows.measure(now);
        self.decide(now);
    }

    fn release(&mut self, now: Time) {
        self.limit = None;
        self.congested = false;
        self.try_after = TRY_AFTER;
        self.decide(now);
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

    fn judge(&mut self, now: Time, rtt: Duration, span: Duration, epoch: &Epoch) {
        let per_s = 8.0 / span.as_secs_f64();
        let share = epoch.lost_share();
        self.loss = match self.loss {
            0.0 => share,
            loss => 0.75 * loss + 0.25 * share,
        };
        self.packet_bytes = epoch.sent_bytes as f64 / epoch.sent as f64;
        let packet_bps = self.packet_bytes * 8.0 / rtt.as_secs_f64().max(1e-3);
        let flows = epoch.flows();
        let doubt = self.doubt(now, epoch);
        let lost_so_far = match self.baseline.steady() {
            Some(_) if self.trial.told > 0 => self.trial.lost_share(),
            _ => self.loss,
        };
        self.try_out(now, rtt, epoch);
        self.hear_answer(now, epoch);
        let queued = self.baseline.is_queued() && self.is_there();
        let may_try = self.may_try(now);
        let stands = self.stands();
        // Nor what was lost while a queue may have begun to stand.
        let there = self.growth.last().map_or(rtt, |last| last.there);
        if !queued && !self.baseline.is_above(there) {
            self.usual_loss += 0.1 * (share - self.usual_loss);
        }
        let is_usual = doubt == Doubt::AsUsual
            || now < self.unanswered_until && self.loss <= self.usual_most(ANSWER_PACKETS);
        let is_few = self.loss <= self.usual_most(ANSWER_PACKETS).max(FEW_LOST);
        // What is told to be lost now was sent in this epoch or in the last.
        let beside = epoch.waited_beside();
        let others_answer = core::mem::replace(&mut self.waited_beside, beside) || beside;
        match (&mut self.limit, epoch.lost > 0, queued) {
            (_, true, true) if others_answer => self.congested = true,
            (None, true, true) if is_usual => {}
            // What was sent before the rate fell is lost still: one cut for each round trip.
            (Some(limit), true, true) if now < limit.deaf_until => {
                self.congested = true;
            }
            (Some(limit), true, true) if doubt != Doubt::None || limit.cut.is_some() => {
                self.congested = true;
            }
            // It sends less than leaves, which is measured; few losses are random.
            (Some(limit), true, true) if limit.leaves.is_some() && is_few => {
                self.congested = true;
            }
            (limit, true, true) => {
                self.congested = true;
                let arrived = epoch.sent_bytes as f64 * per_s * (1.0 - share);
                let held = limit.as_ref().map_or(f64::MAX, |limit| limit.rate_bps);
                // An epoch in which little was sent says little.
                let slower = held
                    .min(arrived)
                    .max(if held < f64::MAX { held / 2.0 } else { 0.0 });
                // Mathis et al. 1997: a TCP has 1.22 / √p packets per round trip.
                let fair = flows * packet_bps * (1.5 / self.loss.max(1e-4)).sqrt();
                let slower = slower * (1.0 - self.settings.gamma);
                let mut limit = limit
                    .take()
                    .unwrap_or_else(|| Limit::new(now, slower, self.baseline.jitter()));
                // To hear an answer a lane sends less than is fair, for a while, if it must send less at all.
                let is_too_much = fair < epoch.offered_bytes as f64 * per_s;
                let asks = now >= limit.asks_from && is_too_much && self.loss <= ASKS_BELOW;
                limit.rate_bps = if asks { slower } else { slower.max(fair) };
                if asks {
                    limit.cut = Some(Cut {
                        lost_share: share.min(lost_so_far),
                        fair_bps: fair,
                        since: Epoch::new(now),
                    });
                }
                // It loses what was thought to leave it.
                limit.leaves = None;
                self.falls(now, limit);
            }
            // Without a queue losses are random, and no reason to stay slow.
            (Some(limit), _, false) if may_try && !stands => {
                let steps = span.as_secs_f64() / rtt.as_secs_f64().max(1e-3);
                let fair = self.settings.alpha * flows * packet_bps * steps.min(8.0);
                let tried = now.since(limit.fell).saturating_sub(self.try_after);
                let growth = (GROWTH_FIRST * tried.as_secs_f64().floor().exp2()).min(GROWTH_MOST);
                let whole = limit.rate_bps * span.as_secs_f64();
                // Where no flow can be served whole, a trial disturbs none, and what succeeds serves one the sooner. It
                // ends when a queue stands, at what is known to leave it.
                let known = limit.known_bps();
                // A rate of nothing would never grow.
                let least = TRIED_LEAST * self.packet_bytes * 8.0 * span.as_secs_f64();
                let is_quick = known.is_some_and(|known| self.flows.none_fits(known));
                limit.rate_bps += match is_quick {
                    true => GROWTH_MOST * whole.max(least),
                    false => fair.min(growth * whole),
                };
                limit.rate_bps = limit.rate_bps.max(limit.known_bps().unwrap_or(0.0));
            }
            _ => {}
        }
        self.congested &= queued;
        let offered = (epoch.offered_bytes as f64 * per_s).max(self.flows.offered_bps());
        let is_wide = |limit: &Limit| limit.rate_bps > FREE_AT * offered;
        if !queued && may_try && self.limit.as_ref().is_some_and(is_wide) {
            self.release(now);
        }
    }

    /// Whether what was taken for a longer path loses as a queue does.
    fn try_out(&mut self, now: Time, rtt: Duration, epoch: &Epoch) {
        let Some((trial, left)) = &mut self.probation else {
            return;
        };
        trial.add(epoch);
        if trial.sent < PROBATION_PACKETS || now.since(trial.since) < PROBATION {
            return;
        }
        if trial.lost_share() > self.tolerated {
            self.baseline.go_back(now, rtt);
            self.probation = None;
        } else if *left > 1 {
            (*trial, *left) = (Epoch::new(now), *left - 1);
        } else {
            self.probation = None;
        }
    }

    /// The share of so many packets that may be lost where no more is lost than without a queue.
    fn usual_most(&self, told: u64) -> f64 {
        let usual = self.usual_loss;
        if usual <= 1e-3 {
            return 0.0;
        }
        let deviation = (LOSSES_TOGETHER * usual / told.max(1) as f64).sqrt();
        (2.0 * usual + 0.01).max(usual + 3.0 * deviation)
    }

    /// Whether what looks like a queue may be a longer path; when that is clear, lets go.
    fn doubt(&mut self, now: Time, epoch: &Epoch) -> Doubt {
        let Some(steady) = self.baseline.steady() else {
            return Doubt::None;
        };
        if self.trial.since != steady.since {
            self.trial = Epoch::new(steady.since);
        }
        self.trial.add(epoch);
        let patience = if steady.has_moved { 3 } else { 1 };
        let lost = self.trial.lost_share();
        let as_usual = self.usual_most(self.trial.told);
        let is_held = self.trial.sent_bytes as f64 <= HELD_BACK * self.trial.offered_bytes as f64;
        let (is_clear, after) = match self.limit {
            None => (lost <= as_usual, STEADY_FREE),
            Some(_) if lost > 0.0 => {
                let is_few = lost <= as_usual.max(FEW_LOST);
                (is_few && is_held, STEADY_BRAKED)
            }
            Some(_) => (is_held, STEADY_BRAKED),
        };
        // What the lane's own packets explain is no longer path.
        let is_more = self.own_packets().is_none_or(|own| steady.above > own);
        let is_clear = is_clear && is_more;
        if is_clear && now.since(steady.since) >= (after + steady.above * 4) * patience {
            self.baseline.follow(now);
            self.probation = Some((Epoch::new(now), PROBATIONS));
            // What it lost before it became longer it may lose still.
            self.tolerated = (2.0 * self.usual_loss + 0.01).max(1.5 * FEW_LOST);
            // Without losses it may be a longer path that is full as well: more is tried.
            if lost > 0.0 || self.limit.is_none() {
                self.release(now);
            }
            return Doubt::None;
        }
        match lost {
            _ if steady.has_moved => Doubt::None,
            lost if lost <= as_usual => Doubt::AsUsual,
            lost if lost <= FEW_LOST => Doubt::Few,
            _ => Doubt::None,
        }
    }
}

/// What losses say while the round trip is level above its baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doubt {
    /// It is a queue, or there is nothing to doubt.
    None,
    /// No more than before it rose.
    AsUsual,
    /// Few: they may be random.
    Few,
}

impl Settings {
    fn margin(&self) -> Margin {
        Margin {
            floor: self.queue_floor,
            share: self.queue_share,
        }
    }
}
