//! The random variation of round trips, apart from any steady growth or fall.
//!
//! Of three round trips in a row, the module takes twice the distance of the middle one from the line through the other
//! two. This is zero where they stay level, and where a queue grows or drains evenly; a step makes two of these values
//! large. With jitter nearly all are large. The median of the last values shows the jitter.

use base::{Duration, Time};

/// Number of second differences over which the median is taken: two seconds of a link in use.
const KEPT: usize = 21;
/// The maximum that jitter adds to a round trip, in median second differences. Choice: with an even jitter of up to J
/// in each direction the median is 0.7 J, and a round trip is up to 2 J longer than the least. The rest allows for
/// medians that are too low by chance: with 60 ms in each direction, three round trips in a row exceed it once in an
/// hour, with 20 ms never.
const SPREAD: f64 = 3.5;
/// Number of first round trips that do not count: on a thin link, handshakes, records and long probes travel at the
/// same time.
const FIRST: u32 = 4;
/// Three round trips count only if neither of the gaps between them is this many times as long as the other.
const GAPS_DIFFER: u64 = 2;
/// The share of an earlier, larger spread that is kept at each round trip.
const FORGETS: f64 = 0.97;

/// When a question was sent, and the round trip.
type Sample = (Time, Duration);

/// The last second differences.
#[derive(Clone, Debug, Default)]
pub(crate) struct Roughness {
    before: [Option<Sample>; 2],
    kept: [Duration; KEPT],
    seen: u32,
    count: usize,
    at: usize,
    /// The value of [`Roughness::spread`], computed once for each sample.
    spread: Duration,
}

impl Roughness {
    /// Takes in a round trip, and when its question was sent.
    pub(crate) fn on_sample(&mut self, sent: Time, rtt: Duration) {
        self.seen = self.seen.saturating_add(1);
        if self.seen <= FIRST {
            return;
        }
        if let [Some(middle), Some(first)] = self.before {
            let gaps = [middle.0.since(first.0), sent.since(middle.0)];
            // Where answers are missing, a queue has had time to come and go.
            if gaps[0] < gaps[1] * GAPS_DIFFER && gaps[1] < gaps[0] * GAPS_DIFFER {
                self.take_in(first, middle, (sent, rtt));
            }
        }
        self.before = [Some((sent, rtt)), self.before[0]];
    }

    fn take_in(&mut self, first: Sample, middle: Sample, last: Sample) {
        let span_s = last.0.since(first.0).as_secs_f64().max(1e-6);
        let share = middle.0.since(first.0).as_secs_f64() / span_s;
        let (from, to) = (first.1.as_secs_f64(), last.1.as_secs_f64());
        let off_s = middle.1.as_secs_f64() - from - share * (to - from);
        self.kept[self.at] = Duration::from_secs_f64(2.0 * off_s.abs());
        self.at = (self.at + 1) % KEPT;
        self.count = (self.count + 1).min(KEPT);
        let mut sorted = self.kept;
        let sorted = &mut sorted[..self.count];
        sorted.sort_unstable();
        let present = sorted[(self.count - 1) / 2].mul_f64(SPREAD);
        self.spread = match self.count {
            // One step makes two large values, so fewer than three may be only a step.
            0..3 => Duration::ZERO,
            3..KEPT => present,
            _ => present.max(self.spread.mul_f64(FORGETS)),
        };
    }

    /// Returns by how much a round trip can exceed the least one without a queue.
    pub(crate) fn spread(&self) -> Duration {
        self.spread
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;

    fn spread_ms(samples: impl IntoIterator<Item = u64>) -> f64 {
        let mut all = Roughness::default();
        for (i, us) in samples.into_iter().enumerate() {
            let now = Time::ZERO + Duration::from_millis(100 * i as u64);
            all.on_sample(now, Duration::from_micros(us));
        }
        all.spread().as_secs_f64() * 1e3
    }

    #[test]
    fn growth_and_steps_are_not_rough_and_jitter_is() {
        assert!(spread_ms((0..30).map(|i| 40_000 + 7_000 * i)) < 0.1);
        assert!(spread_ms((0..33).map(|i| if i < 20 { 40_000 } else { 140_000 })) < 0.1);
        let mut rng = Rng::new(3);
        let mut spreads: Vec<f64> = (0..200)
            .map(|_| spread_ms((0..33).map(|_| 40_000 + rng.below(20_000) + rng.below(20_000))))
            .collect();
        spreads.sort_by(f64::total_cmp);
        assert!(spreads[20] > 20.0 && spreads[180] < 100.0, "{spreads:?}");
    }
}
