//! A log-linear histogram of whole numbers (microseconds, nanoseconds, bytes) in fixed memory.
//!
//! ```text
//!   value:    0 1 2 ... 31 | 32 33 ... 63 | 64 66 ... 126 | 128 132 ... | ...
//!   bucket:   exact          exact          2 wide          4 wide        each octave: 32 buckets
//! ```
//!
//! Every power of two is divided into 32 equal buckets, so a bucket is at most 1/32 as wide as its values are large. A
//! quantile is returned as the middle of its bucket: it is off by at most half a bucket, which is [`RELATIVE_ERROR`] =
//! 1/64 of the true value. Count, sum, minimum and maximum are exact.

/// Number of bits of a value that its bucket identifies, below the leading one.
const SUB_BITS: u32 = 5;
/// Number of buckets per octave.
const SUBS: usize = 1 << SUB_BITS;
/// Values below 32 have a bucket each; then one octave for each leading bit from 2^5 to 2^63.
/// 60 × 32 buckets of 8 bytes are 15 KiB.
const BUCKETS: usize = (64 - SUB_BITS as usize + 1) * SUBS;

/// A quantile is off by at most this share of the true value.
pub const RELATIVE_ERROR: f64 = 1.0 / (2 * SUBS) as f64;

/// How often each value has been seen, by logarithmic buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    buckets: Box<[u64]>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram::new()
    }
}

impl Histogram {
    /// Creates an empty histogram. This is the only function that allocates.
    pub fn new() -> Histogram {
        Histogram {
            buckets: vec![0; BUCKETS].into_boxed_slice(),
            count: 0,
            sum: 0,
            min: u64::MAX,
            max: 0,
        }
    }

    /// Records `value` once.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.record_n(value, 1);
    }

    /// Records `value` `n` times.
    #[inline]
    pub fn record_n(&mut self, value: u64, n: u64) {
        if n == 0 {
            return;
        }
        self.buckets[index_of(value)] += n;
        self.count += n;
        self.sum += u128::from(value) * u128::from(n);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Adds everything that `other` has recorded.
    pub fn merge(&mut self, other: &Histogram) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Removes all values.
    pub fn clear(&mut self) {
        self.buckets.fill(0);
        (self.count, self.sum) = (0, 0);
        (self.min, self.max) = (u64::MAX, 0);
    }

    /// Returns how many values have been recorded.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the smallest value.
    pub fn min(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min)
    }

    /// Returns the largest value.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// Returns the mean of all values.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// Returns the smallest value that at least a share `q` of all values do not exceed, within [`RELATIVE_ERROR`]:
    /// `quantile(0.5)` is the median, `quantile(0.0)` the minimum and `quantile(1.0)` the maximum. Returns `None` if
    /// nothing was recorded.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let rank =
            ((q.clamp(0.0, 1.0) * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        self.buckets
            .iter()
            .position(|&n| {
                seen += n;
                seen >= rank
            })
            .map(|index| middle_of(index).clamp(self.min, self.max))
    }

    /// Returns the buckets that are not empty, from low to high: first value, last value, count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        self.buckets
            .iter()
            .enumerate()
            .filter(|(_, n)| **n > 0)
            .map(|(index, &n)| {
                let (low, width) = bounds_of(index);
                (low, low + (width - 1), n)
            })
    }
}

/// Returns the bucket of a value.
#[inline]
fn index_of(value: u64) -> usize {
    // Below 2^6 the shift is zero and the value itself is the index.
    let octave = (value | SUBS as u64).ilog2() - SUB_BITS;
    octave as usize * SUBS + (value >> octave) as usize
}

/// Returns the first value of a bucket, and how many values it covers.
fn bounds_of(index: usize) -> (u64, u64) {
    if index < SUBS {
        return (index as u64, 1);
    }
    let octave = index / SUBS - 1;
    let low = ((index % SUBS + SUBS) as u64) << octave;
    (low, 1 << octave)
}

fn middle_of(index: usize) -> u64 {
    let (low, width) = bounds_of(index);
    low + (width - 1) / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_follow_each_other_without_gap_or_overlap() {
        let mut next = 0u64;
        for index in 0..BUCKETS {
            let (low, width) = bounds_of(index);
            assert_eq!(low, next, "bucket {index}");
            assert_eq!(index_of(low), index);
            assert_eq!(index_of(low + (width - 1)), index);
            next = low.wrapping_add(width);
        }
        assert_eq!(next, 0, "the last bucket ends with the largest number");
    }

    #[test]
    fn small_numbers_are_exact() {
        let mut h = Histogram::new();
        assert_eq!(
            (h.quantile(0.5), h.mean(), h.min(), h.max()),
            (None, None, None, None)
        );
        (1..=10).for_each(|v| h.record(v));
        let quantiles = [0.0, 0.05, 0.5, 0.51, 0.9, 1.0].map(|q| h.quantile(q).unwrap());
        assert_eq!(quantiles, [1, 1, 5, 6, 9, 10]);
        assert_eq!(h.mean(), Some(5.5));
        assert_eq!(h.buckets().map(|(_, _, n)| n).sum::<u64>(), 10);
        h.clear();
        assert_eq!(h, Histogram::default());
    }

    #[test]
    fn extremes_and_nonsense_do_no_harm() {
        let mut h = Histogram::new();
        h.record_n(u64::MAX, 1 << 40);
        h.record_n(7, 0);
        assert_eq!(h.quantile(f64::NAN), Some(u64::MAX));
        assert_eq!(h.quantile(-3.0), Some(u64::MAX));
        assert_eq!((h.min(), h.count()), (Some(u64::MAX), 1 << 40));
    }

    /// Generates values of every magnitude.
    fn values() -> impl Strategy<Value = Vec<u64>> {
        let one = (any::<u64>(), 0u32..64).prop_map(|(v, shift)| v >> shift);
        proptest::collection::vec(one, 1..200)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn quantiles_are_within_the_stated_error(mut all in values(), q in 0.0f64..=1.0) {
            let mut h = Histogram::new();
            all.iter().for_each(|&v| h.record(v));
            all.sort_unstable();
            let rank = (q * all.len() as f64).ceil() as usize;
            let exact = all[rank.max(1) - 1];
            let error = h.quantile(q).unwrap().abs_diff(exact) as f64;
            prop_assert!(error <= exact as f64 * RELATIVE_ERROR);
            prop_assert_eq!(h.min(), all.first().copied());
            prop_assert_eq!(h.max(), all.last().copied());
        }

        #[test]
        fn merging_equals_recording_all_in_one(a in values(), b in values()) {
            let of = |values: &[u64]| {
                let mut h = Histogram::new();
                values.iter().for_each(|&v| h.record(v));
                h
            };
            let mut merged = of(&a);
            merged.merge(&of(&b));
            prop_assert_eq!(merged, of(&[a, b].concat()));
        }
    }
}
