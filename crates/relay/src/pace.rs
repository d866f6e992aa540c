//! The scavenger's brake: a rate at which the kernel paces a connection, below the onset of delay.
//!
//! ```text
//!   every 100 ms: round trip, least round trip, bytes delivered, segments resent
//!     queue = round trip - least        ≤ target: up, faster the emptier the queue is
//!                                       > target: down to below what was delivered
//! ```
//! Loss-based congestion control fills the queue of the slowest link before it slows down, and voice on the same link
//! suffers delay and loss. This pacer keeps to the delivered rate at which the round trip hardly grows, and leaves to
//! other traffic what that takes. It resembles LEDBAT (RFC 6817), at the pace that the kernel's own samples permit, on
//! top of whatever congestion control the kernel runs.

use base::{Duration, Time};

/// How often the pacer samples a connection. Choice: several round trips of most paths, and still fast enough that a
/// queue of 20 Mbit/s that overflows after 100 ms is seen while it grows.
pub const TICK: Duration = Duration::from_millis(100);
/// The queueing delay that is accepted: well below the 25 ms that a jitter buffer of voice has in
/// reserve, and above the noise of the kernel's estimate on an idle path.
pub const TARGET_US: u32 = 5_000;
/// The longest time that the other end delays an acknowledgement to wait for a second segment.
const DELAYED_ACK_US: u64 = 40_000;
/// The least rate: a transfer that gives way still makes progress.
pub const RATE_MIN_BPS: u64 = 200_000;
/// The rate that a connection begins with. Choice: half of what calls leave of the slowest links. The pacer reaches 100
/// Mbit/s 1.4 s later.
pub const RATE_START_BPS: u64 = 500_000;
/// The largest rate.
pub const RATE_MAX_BPS: u64 = 100_000_000_000;
/// If the retransmitted segments exceed this share of the delivered ones, they indicate congestion. Fewer are the
/// path's own loss, which slowing down does not reduce.
const LOSS_PERMILLE: u64 = 50;
/// Payload of a TCP segment, for that share.
const SEGMENT_BYTES: u64 = 1_448;

/// The kernel's report about a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// The smoothed round trip.
    pub rtt_us: u32,
    /// The least round trip seen.
    pub min_rtt_us: u32,
    /// Bytes acknowledged since the connection began.
    pub delivered: u64,
    /// Segments sent since the connection began.
    pub sent: u64,
    /// Segments retransmitted since the connection began.
    pub resent: u64,
}

/// The rate of one connection.
#[derive(Clone, Debug)]
pub struct Pacer {
    rate_bps: u64,
    /// No queue has been seen yet: the rate grows fast.
    starting: bool,
    last: Option<(Time, Sample)>,
}

impl Default for Pacer {
    fn default() -> Pacer {
        Pacer {
            rate_bps: RATE_START_BPS,
            starting: true,
            last: None,
        }
    }
}

impl Pacer {
    /// Returns the rate to pace with.
    pub fn rate_bps(&self) -> u64 {
        self.rate_bps
    }

    /// Takes a sample, and returns the rate from here on.
    pub fn on_sample(&mut self, now: Time, sample: Sample) -> u64 {
        let Some((at, before)) = self.last.replace((now, sample)) else {
            return self.rate_bps;
        };
        let span_us = now.since(at).as_micros().max(1);
        let delivered = sample.delivered.saturating_sub(before.delivered);
        let delivered_bps = delivered.saturating_mul(8_000_000) / span_us;
        let resent = sample.resent.saturating_sub(before.resent);
        // A paced segment is acknowledged together with the next one: that waiting time is no queue.
        let segment_bits = sample.delivered.saturating_mul(8) / sample.sent.max(1);
        let held_us = (segment_bits.saturating_mul(2_000_000) / self.rate_bps).min(DELAYED_ACK_US);
        let waited_us = sample.rtt_us.saturating_sub(sample.min_rtt_us);
        let queue_us = waited_us.saturating_sub(held_us as u32);
        let lost = resent > 2 && resent * 1_000 * SEGMENT_BYTES > delivered * LOSS_PERMILLE;
        if queue_us > TARGET_US || lost {
            // A connection that hardly sends does not cause the queue.
            if delivered_bps * 4 < self.rate_bps && !lost {
                return self.rate_bps;
            }
            self.starting = false;
            // The rate falls by a quarter at most. The longer the queue, the further it falls below the delivered rate.
            let excess = u64::from(queue_us.saturating_sub(TARGET_US).min(TARGET_US));
            let keep = 1_000 - 50 - excess * 200 / u64::from(TARGET_US);
            let through = self.rate_bps.min(delivered_bps.max(self.rate_bps / 2));
            self.rate_bps = through * keep / 1_000;
        } else if delivered_bps * 10 >= self.rate_bps * 7 {
            // A connection that does not use its rate gains no information from a higher one.
            self.rate_bps += match self.starting && queue_us < TARGET_US / 2 {
                true => self.rate_bps / 2,
                false => {
                    let room = u64::from(TARGET_US - queue_us);
                    (self.rate_bps / 20 * room / u64::from(TARGET_US)).max(20_000)
                }
            };
        }
        self.rate_bps = self.rate_bps.clamp(RATE_MIN_BPS, RATE_MAX_BPS);
        self.rate_bps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates a link that serves `others` first, with a queue of 100 ms. Returns the share of the remaining capacity
    /// that the transfer gets in the second half, and the longest queue in that half.
    fn run(link_bps: u64, others_bps: impl Fn(u64) -> u64, rtt_us: u32) -> (f64, u64) {
        let mut pacer = Pacer::default();
        let (mut queue, mut delivered, mut worst) = (0u64, 0u64, 0u64);
        let (mut got, mut left) = (0u64, 0u64);
        let tick_ms = TICK.as_millis();
        let turns = 1_200;
        for turn in 0..turns {
            let served_bps = link_bps - others_bps(turn);
            let came = pacer.rate_bps() * tick_ms / 8_000;
            let served = (served_bps * tick_ms / 8_000).min(queue + came);
            queue = (queue + came - served).min(link_bps / 80);
            delivered += served;
            let queue_us = queue * 8_000_000 / link_bps;
            if turn >= turns / 2 {
                worst = worst.max(queue_us);
                got += served;
                left += served_bps * tick_ms / 8_000;
            }
            let sample = Sample {
                rtt_us: rtt_us + queue_us as u32,
                min_rtt_us: rtt_us,
                delivered,
                sent: delivered / SEGMENT_BYTES,
                resent: 0,
            };
            pacer.on_sample(Time::ZERO + TICK * (turn + 1), sample);
        }
        (got as f64 / left as f64, worst)
    }

    #[test]
    fn an_idle_link_is_used_and_its_queue_stays_short() {
        for link_bps in [5_000_000, 20_000_000, 1_000_000_000] {
            let (share, worst) = run(link_bps, |_| 0, 20_000);
            assert!(share > 0.9, "{link_bps}: {share}");
            // A delay that cannot be distinguished from a delayed acknowledgement is added.
            let held = 2 * SEGMENT_BYTES * 8_000_000 / link_bps;
            assert!(worst < 12_000 + held, "{link_bps}: {worst} µs");
        }
    }

    #[test]
    fn what_others_take_is_left_to_them() {
        let (share, worst) = run(20_000_000, |_| 2_000_000, 20_000);
        assert!(share > 0.85 && worst < 12_000, "{share} {worst}");
        // The other traffic comes and goes every 10 s.
        let coming = |turn: u64| {
            if (turn / 100).is_multiple_of(2) {
                0
            } else {
                8_000_000
            }
        };
        let (share, worst) = run(20_000_000, coming, 20_000);
        assert!(share > 0.7 && worst < 60_000, "{share} {worst}");
    }

    #[test]
    fn loss_of_the_path_is_borne_and_that_of_a_queue_is_not() {
        let sample = |resent| Sample {
            rtt_us: 20_000,
            min_rtt_us: 20_000,
            delivered: 1_000_000,
            sent: 690,
            resent,
        };
        let mut pacer = Pacer::default();
        pacer.on_sample(Time::ZERO, Sample::default());
        let before = pacer.rate_bps();
        assert!(pacer.clone().on_sample(Time::ZERO + TICK, sample(5)) > before);
        assert!(pacer.on_sample(Time::ZERO + TICK, sample(100)) < before);
    }

    #[test]
    fn acknowledgements_that_are_held_back_are_no_queue() {
        // 2 Mbit/s in segments of 64 KiB, as within one host: each is acknowledged 40 ms late.
        let mut pacer = Pacer::default();
        let mut delivered = 0;
        for turn in 0..50 {
            let sample = Sample {
                rtt_us: 40_050,
                min_rtt_us: 50,
                delivered,
                sent: delivered / 65_000,
                resent: 0,
            };
            pacer.on_sample(Time::ZERO + TICK * turn, sample);
            delivered += pacer.rate_bps() * TICK.as_millis() / 8_000;
        }
        assert!(pacer.rate_bps() > 20_000_000, "{}", pacer.rate_bps());
    }

    #[test]
    fn the_rate_never_leaves_its_bounds() {
        let mut pacer = Pacer::default();
        for turn in 0..500 {
            let sample = Sample {
                rtt_us: u32::MAX,
                min_rtt_us: 0,
                delivered: 0,
                sent: 0,
                resent: u64::MAX,
            };
            let rate = pacer.on_sample(Time::ZERO + TICK * turn, sample);
            assert!((RATE_MIN_BPS..=RATE_MAX_BPS).contains(&rate));
        }
    }
}
