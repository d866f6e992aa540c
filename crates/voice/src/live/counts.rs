//! What was counted, and what it means for the listener.

use base::Duration;

use super::Settings;
use crate::emodel::{self, Parameters, Rating};

/// Steps of the delay budget, of which percentiles are taken: 1/16, up to twice the budget, and
/// one for all beyond.
const SHARES: usize = 33;
const SHARES_PER_BUDGET: u64 = 16;

/// Packets of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Numbers from the first to the highest.
    pub expected: u64,
    /// Those that came, once each, late ones included.
    pub received: u64,
    /// Of these, those that a hop sent again.
    pub recovered: u64,
    /// Of these, those that were not played.
    pub late: u64,
    /// Copies of what had come.
    pub duplicates: u64,
    /// Those that came after a later one.
    pub reordered: u64,
    /// Those that belonged to no stream: too old, or of a source that did not go on.
    pub strays: u64,
    /// Times that another stream began.
    pub restarts: u64,
    /// Groups of missed packets that follow each other.
    pub runs: u64,
}

impl Counts {
    /// Packets that never came.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.expected.saturating_sub(self.received)
    }

    /// Packets that the codec went without: lost and late.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.lost() + self.late.min(self.expected)
    }

    /// Fraction that the links lost before the overlay recovered.
    #[must_use]
    pub fn loss_before_recovery(&self) -> f64 {
        self.fraction(self.lost() + self.recovered)
    }

    /// Fraction lost in the end.
    #[must_use]
    pub fn loss(&self) -> f64 {
        self.fraction(self.lost())
    }

    /// Fraction that the codec went without.
    #[must_use]
    pub fn missed_fraction(&self) -> f64 {
        self.fraction(self.missed())
    }

    /// What came since `earlier` was counted. What was missing then and came since makes the loss
    /// less, but not less than none.
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

/// How much of the deadline was used on the way, over the packets whose delay is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// Mean one-way delay.
    pub mean: Duration,
    /// The slowest packet's.
    pub max: Duration,
    /// Mean share of the deadline, 1 for all of it.
    pub share_mean: f64,
    /// The share within which 99 % of the packets came, rounded up to 1/16; infinite beyond twice
    /// the deadline.
    pub share_p99: f64,
}

/// How one direction is heard.
#[derive(Debug, Clone, PartialEq)]
pub struct Quality {
    /// Packets.
    pub counts: Counts,
    /// Interarrival jitter of RFC 3550, mean of its value after each packet.
    pub jitter: Duration,
    /// The highest value that it had.
    pub jitter_max: Duration,
    /// Burst ratio of the missed packets; 1 is random.
    pub burst_ratio: f64,
    /// Delay budget, where one-way delays are known.
    pub budget: Option<Budget>,
    /// From mouth to ear, as the E-model counts it.
    pub mouth_to_ear: Duration,
    /// The E-model's R and its terms; `None` without a codec that it knows, or without packets.
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

    /// The E-model's R, 0 to 100.
    #[must_use]
    pub fn r_factor(&self) -> Option<f64> {
        self.rating.map(|rating| rating.r)
    }

    /// The E-model's MOS, 1 to 4.5.
    #[must_use]
    pub fn mos(&self) -> Option<f64> {
        self.rating.map(|rating| rating.mos())
    }
}

/// Values that are averaged.
#[derive(Debug, Clone)]
pub(super) struct Spread {
    jitter_sum_ns: f64,
    jitter_count: u64,
    jitter_max_ns: f64,
    delay_sum: Duration,
    delay_max: Duration,
    share_sum: f64,
    /// 2³² packets of 20 ms are 2.7 years.
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
        // Exactly all of the budget still belongs to the step that ends there.
        let steps = u128::from(used.as_nanos()) * u128::from(SHARES_PER_BUDGET);
        let step = steps.div_ceil(u128::from(budget_ns)).saturating_sub(1);
        let share = &mut self.shares[step.min(SHARES as u128 - 1) as usize];
        *share = share.saturating_add(1);
    }

    pub(super) fn budget(&self) -> Option<Budget> {
        let count: u64 = self.shares.iter().copied().map(u64::from).sum();
        let mean = self.delay_sum.as_nanos().checked_div(count)?;
        // Nearest rank.
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
