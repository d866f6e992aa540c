//! The counters of a direction, and the quality that follows from them.

use base::Duration;

use super::Settings;
use crate::emodel::{self, Parameters, Rating};

/// Number of steps of the delay budget for percentiles: 1/16 each, up to twice the budget, and one for all beyond.
const SHARES: usize = 33;
const SHARES_PER_BUDGET: u64 = 16;

/// Numbers of packets of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Sequence numbers from the first to the highest.
    pub expected: u64,
    /// Packets that arrived, each counted once, including late ones.
    pub received: u64,
    /// Received packets that a hop had retransmitted.
    pub recovered: u64,
    /// Received packets that were too late to be played.
    pub late: u64,
    /// Copies of packets that had already arrived.
    pub duplicates: u64,
    /// Packets that arrived after a packet with a higher number.
    pub reordered: u64,
    /// Packets that belonged to no stream: too old, or from a source that sent no more.
    pub strays: u64,
    /// How often another stream began.
    pub restarts: u64,
    /// Groups of consecutive missed packets.
    pub runs: u64,
}

impl Counts {
    /// Returns the number of packets that never arrived.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.expected.saturating_sub(self.received)
    }

    /// Returns the number of packets that the codec had to do without: lost and late.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.lost() + self.late.min(self.expected)
    }

    /// Returns the fraction of packets that the links lost, before recovery by the overlay.
    #[must_use]
    pub fn loss_before_recovery(&self) -> f64 {
        self.fraction(self.lost() + self.recovered)
    }

    /// Returns the fraction of packets that are lost after recovery.
    #[must_use]
    pub fn loss(&self) -> f64 {
        self.fraction(self.lost())
    }

    /// Returns the fraction of packets that the codec had to do without.
    #[must_use]
    pub fn missed_fraction(&self) -> f64 {
        self.fraction(self.missed())
    }

    /// Returns the counts since `earlier`. A packet that was missing then and arrived since reduces the loss, but not
    /// below zero.
    #[must_use]
    pub fn since(&self, earlier: &Counts) -> Counts {
        Counts {
            expected: self.expected.saturating_sub(earlier.expected),
            received: self.received.saturating_sub(earlier.received),
            recovered: self.recovered.saturating_sub(earlier.recovered),
            late: self.late.saturating_sub(earlier.late),
            duplicates: self.duplicates.saturating_sub(earlier.duplicates),
            reordered: self.reordered.saturating_sub(earlier.reordered),
            strays: self.strays.saturating_sub(earlier.strays),
            restarts: self.restarts.saturating_sub(earlier.restarts),
            runs: self.runs.saturating_sub(earlier.runs),
        }
    }

    fn fraction(&self, count: u64) -> f64 {
        match self.expected {
            0 => 0.0,
            expected => (count as f64 / expected as f64).min(1.0),
        }
    }
}

/// How much of the deadline packets used on the path, over the packets whose delay is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// Mean one-way delay.
    pub mean: Duration,
    /// Delay of the slowest packet.
    pub max: Duration,
    /// Mean share of the deadline, 1 for all of it.
    pub share_mean: f64,
    /// The share within which 99 % of the packets arrived, rounded up to 1/16; infinite if it exceeds twice the
    /// deadline.
    pub share_p99: f64,
}

/// How a listener hears one direction.
#[derive(Debug, Clone, PartialEq)]
pub struct Quality {
    /// The numbers of packets.
    pub counts: Counts,
    /// Interarrival jitter of RFC 3550, mean of its value after each packet.
    pub jitter: Duration,
    /// The highest value of the jitter.
    pub jitter_max: Duration,
    /// Burst ratio of the missed packets; 1 is random.
    pub burst_ratio: f64,
    /// Delay budget, if one-way delays are known.
    pub budget: Option<Budget>,
    /// Delay from mouth to ear, by the definition of the E-model.
    pub mouth_to_ear: Duration,
    /// The E-model's R and its terms; `None` without a codec that the model supports, or without packets.
    pub rating: Option<Rating>,
}

impl Quality {
    pub(super) fn of(
        counts: Counts,
        spread: &Spread,
        settings: &Settings,
        network_and_buffer: Duration,
    ) -> Self {
        let burst_ratio = emodel::burst_ratio_of(counts.expected, counts.missed(), counts.runs);
        let lookahead = settings.codec.map_or(0, |codec| codec.lookahead_us());
        let mouth_to_ear = settings.frame + Duration::from_micros(lookahead) + network_and_buffer;
        let rated = settings.codec.filter(|_| counts.expected > 0);
        let rating = rated.map(|codec| {
            let (delay_us, missed) = (mouth_to_ear.as_micros(), counts.missed_fraction());
            Parameters::for_codec(codec, delay_us, missed, burst_ratio).rate()
        });
        Self {
            counts,
            jitter: spread.jitter_mean(),
            jitter_max: Duration::from_nanos(spread.jitter_max_ns as u64),
            burst_ratio,
            budget: spread.budget(),
            mouth_to_ear,
            rating,
        }
    }

    /// Returns the E-model's R, 0 to 100.
    #[must_use]
    pub fn r_factor(&self) -> Option<f64> {
        self.rating.map(|rating| rating.r)
    }

    /// Returns the E-model's MOS, 1 to 4.5.
    #[must_use]
    pub fn mos(&self) -> Option<f64> {
        self.rating.map(|rating| rating.mos())
    }
}

/// Sums for the averaged values.
#[derive(Debug, Clone)]
pub(super) struct Spread {
    jitter_sum_ns: f64,
    jitter_count: u64,
    jitter_max_ns: f64,
    delay_sum: Duration,
    delay_max: Duration,
    share_sum: f64,
    /// The counters cannot overflow: 2³² packets of 20 ms are 2.7 years.
    shares: [u32; SHARES],
}

impl Default for Spread {
    fn default() -> Self {
        Self {
            jitter_sum_ns: 0.0,
            jitter_count: 0,
            jitter_max_ns: 0.0,
            delay_sum: Duration::ZERO,
            delay_max: Duration::ZERO,
            share_sum: 0.0,
            shares: [0; SHARES],
        }
    }
}

impl Spread {
    pub(super) fn add_jitter(&mut self, jitter_ns: f64) {
        self.jitter_sum_ns += jitter_ns;
        self.jitter_count += 1;
        self.jitter_max_ns = self.jitter_max_ns.max(jitter_ns);
    }

    pub(super) fn add_delay(&mut self, used: Duration, budget: Duration) {
        self.delay_sum += used;
        self.delay_max = self.delay_max.max(used);
        let budget_ns = budget.as_nanos().max(1);
        self.share_sum += used.as_nanos() as f64 / budget_ns as f64;
        // Exactly the whole budget still belongs to the step that ends there.
        let steps = u128::from(used.as_nanos()) * u128::from(SHARES_PER_BUDGET);
        let step = steps.div_ceil(u128::from(budget_ns)).saturating_sub(1);
        let share = &mut self.shares[step.min(SHARES as u128 - 1) as usize];
        *share = share.saturating_add(1);
    }

    pub(super) fn budget(&self) -> Option<Budget> {
        let count: u64 = self.shares.iter().copied().map(u64::from).sum();
        let mean = self.delay_sum.as_nanos().checked_div(count)?;
        // Take the percentile by nearest rank.
        let mut rank = (count - count / 100).max(1);
        let step = self.shares.iter().position(|&share| {
            let share = u64::from(share);
            let reached = share >= rank;
            rank = rank.saturating_sub(share);
            reached
        });
        let share_p99 = match step {
            Some(step) if step + 1 < SHARES => (step + 1) as f64 / SHARES_PER_BUDGET as f64,
            _ => f64::INFINITY,
        };
        Some(Budget {
            mean: Duration::from_nanos(mean),
            max: self.delay_max,
            share_mean: self.share_sum / count as f64,
            share_p99,
        })
    }

    fn jitter_mean(&self) -> Duration {
        match self.jitter_count {
            0 => Duration::ZERO,
            count => Duration::from_nanos((self.jitter_sum_ns / count as f64).round() as u64),
        }
    }
}
