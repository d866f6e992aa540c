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
//! A lane that answers every loss with retransmissions makes congestion worse. The judgement is
//! TCP-Real's: losses while data arrives fast and evenly are errors of the wire, losses behind a
//! growing queue are congestion, and then the rate falls by γ of what *arrives*.
//! [Papadimitriou06 §3.1, §6] There is no window and no queue here: a packet that the rate does not
//! admit is dropped at the entry, the lowest priorities first, because a late packet is worth
//! nothing and takes the place of one in time.
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
//! The rate never falls below what as many TCP connections as the lane carries flows would have
//! under the same losses and round trip, so that braking among TCPs does not mean starving.

#[cfg(test)]
mod tests;

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
/// Less is sent than offered if it is less than this share of it.
const HELD_BACK: f64 = 0.97;
/// A path that has become longer is judged by the losses of so many packets and so much time.
/// Choice: bursts of random losses are evened out.
const PROBATION: Duration = Duration::from_secs(2);
const PROBATION_PACKETS: u64 = 200;
/// Judgements are at least so far apart: one loss at 50 packets/s is otherwise a rate of 100 %.
const EPOCH_LEAST: Duration = Duration::from_millis(100);
/// What the bucket holds: a burst of so much time at the rate, but never less than
/// [`BURST_PACKETS`] packets.
const BURST: Duration = Duration::from_millis(100);
const BURST_PACKETS: f64 = 4.0;
/// The brake lets go when the rate is so many times what is offered.
const FREE_AT: f64 = 2.0;
/// Priorities, 0 the lowest. The highest may empty the bucket; one below leaves an eighth, ...
const PRIORITIES: f64 = 8.0;

/// One lane's brake.
#[derive(Clone, Debug)]
pub struct Brake {
    settings: Settings,
    baseline: Baseline,
    epoch: Epoch,
    /// What has happened since the round trip has been level above its baseline.
    trial: Epoch,
    /// What has happened lately since a rise was taken for the path's.
    probation: Option<Epoch>,
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
}

/// What has happened since the last judgement.
#[derive(Clone, Debug)]
struct Epoch {
    since: Time,
    sent: u64,
    sent_bytes: u64,
    offered_bytes: u64,
    lost: u64,
    /// A bit for each flow's hash: how many are set tells how many flows there are.
    flows: u64,
}

/// A rate that holds at present.
#[derive(Clone, Debug)]
struct Limit {
    rate_bps: f64,
    level_bytes: f64,
    filled: Time,
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
        }
    }

    /// Whether a packet may be sent. `flow` is any hash of its flow; `priority` 0 to 7.
    #[inline]
    pub fn admits(&mut self, now: Time, bytes: usize, priority: u8, flow: u64) -> bool {
        self.epoch.offered_bytes += bytes as u64;
        self.epoch.flows |= 1 << (flow % 64);
        if let Some(limit) = &mut self.limit
            && !limit.admits(now, bytes as f64, priority, self.packet_bytes)
        {
            return false;
        }
        self.epoch.sent += 1;
        self.epoch.sent_bytes += bytes as u64;
        true
    }

    /// The other end misses packets of which it had not told before.
    pub fn on_lost(&mut self, packets: u64) {
        self.epoch.lost += packets;
    }

    /// A round trip was measured: if the last judgement is long enough ago, judges.
    pub fn on_round_trip(&mut self, now: Time, rtt: Duration) {
        self.baseline.on_round_trip(now, rtt);
        let span = now.since(self.epoch.since);
        if span < EPOCH_LEAST.max(rtt) {
            return;
        }
        let epoch = core::mem::replace(&mut self.epoch, Epoch::new(now));
        if epoch.sent == 0 {
            // Nothing to judge by; what held may hold no longer when traffic comes back.
            self.limit = None;
            self.congested = false;
            // A rise that stays level where nothing is sent is not this lane's queue.
            self.doubt(now, &epoch);
            return;
        }
        self.judge(now, rtt, span, &epoch);
    }

    /// Retransmissions may be sent more than once, and asked for again: the losses are random.
    pub fn allows_redundancy(&self) -> bool {
        !self.congested && self.limit.is_none()
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
        let share = (epoch.lost as f64 / epoch.sent as f64).min(1.0);
        self.loss = match self.loss {
            0.0 => share,
            loss => 0.75 * loss + 0.25 * share,
        };
        self.packet_bytes = epoch.sent_bytes as f64 / epoch.sent as f64;
        let packet_bps = self.packet_bytes * 8.0 / rtt.as_secs_f64().max(1e-3);
        let flows = epoch.flows();
        let doubt = self.doubt(now, epoch);
        self.try_out(now, rtt, epoch);
        let queued = self.baseline.is_above(rtt);
        if !queued {
            self.usual_loss += 0.1 * (share - self.usual_loss);
        }
        match (&mut self.limit, epoch.lost > 0, queued) {
            (None, true, true) if doubt == Doubt::AsUsual => {}
            (Some(_), true, true) if doubt != Doubt::None => self.congested = true,
            (limit, true, true) => {
                self.congested = true;
                let arrived = epoch.sent_bytes as f64 * per_s * (1.0 - share);
                let slower = limit.as_ref().map_or(arrived, |l| l.rate_bps.min(arrived));
                // Mathis et al. 1997: a TCP has 1.22 / √p packets per round trip.
                let fair = flows * packet_bps * (1.5 / self.loss.max(1e-4)).sqrt();
                let rate_bps = (slower * (1.0 - self.settings.gamma)).max(fair);
                match limit {
                    Some(limit) => limit.rate_bps = rate_bps,
                    None => *limit = Some(Limit::new(now, rate_bps)),
                }
            }
            // Without a queue losses are random, and no reason to stay slow.
            (Some(limit), _, false) => {
                let steps = span.as_secs_f64() / rtt.as_secs_f64().max(1e-3);
                limit.rate_bps += self.settings.alpha * flows * packet_bps * steps.min(8.0);
            }
            _ => {}
        }
        self.congested &= queued;
        let offered = epoch.offered_bytes as f64 * per_s;
        if self
            .limit
            .as_ref()
            .is_some_and(|l| l.rate_bps > FREE_AT * offered)
        {
            self.limit = None;
        }
    }

    /// Whether what was taken for a longer path loses as a queue does.
    fn try_out(&mut self, now: Time, rtt: Duration, epoch: &Epoch) {
        let Some(trial) = &mut self.probation else {
            return;
        };
        trial.add(epoch);
        if trial.sent < PROBATION_PACKETS || now.since(trial.since) < PROBATION {
            return;
        }
        if trial.lost_share() > self.tolerated {
            self.baseline.go_back(now, rtt);
            self.probation = None;
        } else {
            *trial = Epoch::new(now);
        }
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
        let as_usual = match self.usual_loss > 1e-3 {
            true => 2.0 * self.usual_loss + 0.01,
            false => 0.0,
        };
        let is_held = self.trial.sent_bytes as f64 <= HELD_BACK * self.trial.offered_bytes as f64;
        let (is_clear, after) = match self.limit {
            None => (lost <= as_usual, STEADY_FREE),
            // Without losses it holds, and that is as good.
            Some(_) => {
                let is_few = lost > 0.0 && lost <= as_usual.max(FEW_LOST);
                (is_few && is_held, STEADY_BRAKED)
            }
        };
        if is_clear && now.since(steady.since) >= (after + steady.above * 4) * patience {
            self.baseline.follow(now);
            self.probation = Some(Epoch::new(now));
            // What it lost before it became longer it may lose still.
            self.tolerated = (2.0 * self.usual_loss + 0.01).max(1.5 * FEW_LOST);
            self.limit = None;
            self.congested = false;
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

impl Epoch {
    fn new(since: Time) -> Epoch {
        Epoch {
            since,
            sent: 0,
            sent_bytes: 0,
            offered_bytes: 0,
            lost: 0,
            flows: 0,
        }
    }

    fn add(&mut self, other: &Epoch) {
        self.sent += other.sent;
        self.sent_bytes += other.sent_bytes;
        self.offered_bytes += other.offered_bytes;
        self.lost += other.lost;
    }

    fn lost_share(&self) -> f64 {
        self.lost as f64 / self.sent.max(1) as f64
    }

    /// How many flows there probably were, by the share of bits that none has set (linear
    /// counting); 64 bits tell up to about 260.
    fn flows(&self) -> f64 {
        let unset = self.flows.count_zeros().max(1);
        (64.0 * (64.0 / f64::from(unset)).ln()).max(1.0)
    }
}

impl Limit {
    fn new(now: Time, rate_bps: f64) -> Limit {
        Limit {
            rate_bps,
            // Full: what a full bucket is depends on the rate.
            level_bytes: f64::MAX,
            filled: now,
        }
    }

    fn admits(&mut self, now: Time, bytes: f64, priority: u8, packet_bytes: f64) -> bool {
        let full = (self.rate_bps / 8.0 * BURST.as_secs_f64()).max(BURST_PACKETS * packet_bytes);
        let gained = self.rate_bps / 8.0 * now.since(self.filled).as_secs_f64();
        self.level_bytes = (self.level_bytes + gained).min(full);
        self.filled = now;
        let above = PRIORITIES - 1.0 - f64::from(priority).min(PRIORITIES - 1.0);
        // Half of the bucket is everybody's to fight for, in the order of priority.
        let left = full * 0.5 * above / PRIORITIES;
        if self.level_bytes < bytes + left {
            return false;
        }
        self.level_bytes -= bytes;
        true
    }
}
