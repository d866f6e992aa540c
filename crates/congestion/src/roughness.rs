//! By how much round trips differ by chance, whatever they grow or fall by.
//!
//! How far the middle one of three round trips in a row is off the line through the others, twice, is nothing where they stay level and where a queue
//! grows or drains evenly; a step makes two of them large. With jitter nearly all are. The median of the last
//! ones is jitter's.

use base::{Duration, Time};

/// Second differences of which the median is taken: two seconds of a link in use.
const KEPT: usize = 21;
/// What jitter adds to a round trip at most, in median second differences. Choice: with an even jitter of
/// up to J each way the median is 0.7 J, and a round trip is up to 2 J longer than the least. The rest is for
/// medians that are too low by chance: with 60 ms each way three round trips in a row exceed it
/// once in an hour, with 20 ms never.
const SPREAD: f64 = 3.5;
/// The first round trips do not count: on a thin link they share it with handshakes, records and long probes.
const FIRST: u32 = 4;
/// Three count if the gaps between them are not so many times as long as each other.
const GAPS_DIFFER: u64 = 2;
/// Of a larger median before, this is left at each round trip.
const FORGETS: f64 = 0.97;

/// When a question was sent, and its round trip.
type Sample = (Time, Duration);

/// The last second differences.
#[derive(Clone, Debug, Default)]
pub(crate) struct Roughness {
    before: [Option<Sample>; 2],
    kept: [Duration; KEPT],
    seen: u32,
    count: usize,
    at: usize,
    /// [`Roughness::spread`], computed once for each sample.
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
            // Where answers are missing a queue has had time to come and go.
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
            // One step makes two: fewer than three may be nothing else.
            0..3 => Duration::ZERO,
            3..KEPT => present,
            _ => present.max(self.spread.mul_f64(FORGETS)),
        };
    }

    /// By how much a round trip can be longer than the least without a queue.
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
