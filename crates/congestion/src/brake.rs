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
//! The rate never falls below what as many TCP connections as the lane carries flows would have
//! under the same losses and round trip, so that braking among TCPs does not mean starving.

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

/// Half of the window of the least round trip. Choice: with both halves 30 to 60 s, so that TCPs
/// that keep a queue standing show a dip of it within the window.
const LEAST_HALF: Duration = Duration::from_secs(30);
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
    least: [Option<Duration>; 2],
    half_since: Time,
    epoch: Epoch,
    /// Share lost, averaged over epochs.
    loss: f64,
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
            least: [None; 2],
            half_since: Time::ZERO,
            epoch: Epoch::new(Time::ZERO),
            loss: 0.0,
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
        self.enter_least(now, rtt);
        let span = now.since(self.epoch.since);
        if span < EPOCH_LEAST.max(rtt) {
            return;
        }
        let epoch = core::mem::replace(&mut self.epoch, Epoch::new(now));
        if epoch.sent == 0 {
            // Nothing to judge by; what held may hold no longer when traffic comes back.
            self.limit = None;
            self.congested = false;
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
            half_since: now,
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
        let queued = self.is_queued(rtt);
        match (&mut self.limit, epoch.lost > 0, queued) {
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
            (Some(limit), false, false) => {
                let steps = span.as_secs_f64() / rtt.as_secs_f64().max(1e-3);
                limit.rate_bps += self.settings.alpha * flows * packet_bps * steps.min(8.0);
            }
            _ => {}
        }
        self.congested &= queued || epoch.lost > 0;
        let offered = epoch.offered_bytes as f64 * per_s;
        if self
            .limit
            .as_ref()
            .is_some_and(|l| l.rate_bps > FREE_AT * offered)
        {
            self.limit = None;
        }
    }

    fn is_queued(&self, rtt: Duration) -> bool {
        let Some(least) = self.least.iter().flatten().min() else {
            return false;
        };
        let margin = least.as_secs_f64() * self.settings.queue_share;
        let above = (rtt - *least).as_secs_f64();
        above > self.settings.queue_floor.as_secs_f64() + margin
    }

    fn enter_least(&mut self, now: Time, rtt: Duration) {
        let age = now.since(self.half_since);
        if age >= LEAST_HALF {
            let before = (age < LEAST_HALF * 2).then_some(self.least[0]).flatten();
            self.least = [None, before];
            self.half_since = now;
        }
        self.least[0] = Some(self.least[0].map_or(rtt, |least| least.min(rtt)));
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

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(40);
    const QUEUED: Duration = Duration::from_millis(120);
    const BYTES: usize = 200;

    fn ms(n: u64) -> Time {
        Time::ZERO + Duration::from_millis(n)
    }

    /// Sends 50 packets/s for each of `priorities` over some round trips of 200 ms; the share that
    /// was admitted of each.
    fn drive(
        brake: &mut Brake,
        from_ms: u64,
        epochs: u64,
        priorities: &[u8],
        mut network: impl FnMut(&mut Brake, u64),
    ) -> Vec<f64> {
        let mut admitted = vec![0u64; priorities.len()];
        for epoch in 0..epochs {
            for tick in 0..10 {
                let now = ms(from_ms + epoch * 200 + tick * 20);
                for (i, &priority) in priorities.iter().enumerate() {
                    admitted[i] += u64::from(brake.admits(now, BYTES, priority, i as u64));
                }
            }
            network(brake, from_ms + (epoch + 1) * 200);
        }
        let all = (epochs * 10) as f64;
        admitted.into_iter().map(|n| n as f64 / all).collect()
    }

    #[test]
    fn random_losses_do_not_brake() {
        let mut brake = Brake::new(Settings::default());
        let shares = drive(&mut brake, 0, 100, &[4; 8], |brake, at| {
            brake.on_lost(8);
            brake.on_round_trip(ms(at), RTT);
        });
        assert!(shares.iter().all(|&share| share == 1.0));
        assert!(brake.allows_redundancy() && brake.rate_bps().is_none());
    }

    #[test]
    fn a_queue_without_losses_does_not_brake() {
        let mut brake = Brake::new(Settings::default());
        brake.on_round_trip(ms(0), RTT);
        drive(&mut brake, 0, 100, &[4], |brake, at| {
            brake.on_round_trip(ms(at), QUEUED);
        });
        assert!(brake.allows_redundancy());
    }

    #[test]
    fn losses_behind_a_queue_slow_down_to_the_fair_rate_and_no_further() {
        let mut brake = Brake::new(Settings::default());
        brake.on_round_trip(ms(0), RTT);
        let mut rates = Vec::new();
        drive(&mut brake, 0, 60, &[4; 32], |brake, at| {
            brake.on_lost(brake.epoch.sent * 3 / 10);
            brake.on_round_trip(ms(at), QUEUED);
            rates.push(brake.rate_bps().unwrap());
            assert!(!brake.allows_redundancy());
        });
        // Thirty per cent of 32 × 80 kbit/s do not arrive; an eighth goes at once.
        let first = 32.0 * 80e3 * 0.7 * 0.875;
        assert!(
            (rates[0] as f64 - first).abs() < 0.01 * first,
            "{}",
            rates[0]
        );
        assert!(
            rates.windows(2).all(|w| w[1] as f64 <= 1.01 * w[0] as f64),
            "{rates:?}"
        );
        // 32 flows by their hashes, 1.22 / √0.3 packets of 200 bytes per 120 ms each.
        let fair = 64.0 * 2f64.ln() * 1600.0 / 0.12 * 5f64.sqrt();
        let last = *rates.last().unwrap() as f64;
        assert!((last - fair).abs() < 0.02 * fair, "{last} {fair}");
    }

    #[test]
    fn a_lane_below_its_fair_rate_keeps_it_and_sends_nothing_twice() {
        let mut brake = Brake::new(Settings::default());
        brake.on_round_trip(ms(0), RTT);
        let shares = drive(&mut brake, 0, 60, &[4; 8], |brake, at| {
            brake.on_lost(1);
            brake.on_round_trip(ms(at), QUEUED);
            assert!(!brake.allows_redundancy());
        });
        assert!(shares.iter().all(|&share| share == 1.0), "{shares:?}");
    }

    #[test]
    fn the_lowest_priorities_go_first() {
        let mut brake = Brake::new(Settings::default());
        brake.on_round_trip(ms(0), RTT);
        brake.limit = Some(Limit::new(ms(0), 4.0 * 80e3));
        let priorities = [0, 2, 4, 5, 7, 7];
        let shares = drive(&mut brake, 0, 20, &priorities, |_, _| {});
        assert!(shares[4] > 0.95 && shares[5] > 0.95, "{shares:?}");
        assert!(shares[0] < 0.5, "{shares:?}");
        let all: f64 = shares.iter().sum();
        assert!((3.5..=4.6).contains(&all), "{shares:?}");
    }

    #[test]
    fn it_lets_go_when_the_queue_is_gone() {
        let mut brake = Brake::new(Settings::default());
        brake.on_round_trip(ms(0), RTT);
        drive(&mut brake, 0, 10, &[4; 4], |brake, at| {
            brake.on_lost(4);
            brake.on_round_trip(ms(at), QUEUED);
        });
        let mut epochs = 0;
        drive(&mut brake, 2000, 100, &[4; 4], |brake, at| {
            epochs += u32::from(!brake.allows_redundancy());
            brake.on_round_trip(ms(at), RTT);
        });
        assert!(brake.allows_redundancy() && epochs < 50, "{epochs}");
    }

    #[test]
    fn silence_and_a_new_path_let_go_at_once() {
        for silence in [true, false] {
            let mut brake = Brake::new(Settings::default());
            brake.on_round_trip(ms(0), RTT);
            drive(&mut brake, 0, 10, &[4; 4], |brake, at| {
                brake.on_lost(4);
                brake.on_round_trip(ms(at), QUEUED);
            });
            assert!(!brake.allows_redundancy());
            match silence {
                true => brake.on_round_trip(ms(5000), QUEUED),
                false => brake.reset(ms(5000)),
            }
            assert!(brake.allows_redundancy());
        }
    }
}
