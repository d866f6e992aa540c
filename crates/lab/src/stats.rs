//! Statistics of measured numbers, for experiments and benches.
//!
//! A value that was not measured is NaN here, and NaN is never lost: the largest of several numbers is unknown if one
//! is unknown, and so is the mean of an empty set. `f64::max` and `all` would ignore both, and a claim would hold that
//! nobody tested. Reports of benches, which judge nothing, write 0 for values that were not measured.

use std::borrow::Borrow;

/// Returns the mean; NaN if there are no values.
pub(crate) fn mean<N: Borrow<f64>>(values: impl IntoIterator<Item = N>) -> f64 {
    let add = |(sum, count): (f64, f64), x: N| (sum + number(&x), count + 1.0);
    let (sum, count) = values.into_iter().fold((0.0, 0.0), add);
    let mean = sum / count;
    // 0 / 0 has a sign, and a negative NaN is the smallest of all numbers for `total_cmp`.
    if mean.is_nan() { f64::NAN } else { mean }
}

/// Returns the standard deviation of a sample; NaN if it has fewer than two values.
pub(crate) fn deviation(values: &[f64]) -> f64 {
    (squares(values) / (values.len() as f64 - 1.0)).sqrt()
}

/// Returns the standard error of the mean; `None` if there are fewer than two values.
pub(crate) fn standard_error(values: &[f64]) -> Option<f64> {
    let n = values.len() as f64;
    (values.len() > 1).then(|| (squares(values) / (n - 1.0) / n).sqrt())
}

/// Returns the mean and its standard error, which is NaN if there are fewer than two values.
pub(crate) fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let error = standard_error(values).unwrap_or(f64::NAN);
    (mean(values), error)
}

/// Returns the smallest of ascending values that a share does not exceed (nearest rank); `None` if there are no values.
pub(crate) fn ranked<T: Copy>(sorted: &[T], share: f64) -> Option<T> {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

/// Returns the same quantile of numbers; NaN if there are none.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> f64 {
    ranked(sorted, share).unwrap_or(f64::NAN)
}

/// Returns the median, the upper of two in the middle; `None` if there are no values, and NaN if one is NaN.
pub(crate) fn median<N: Borrow<f64>>(values: impl IntoIterator<Item = N>) -> Option<f64> {
    let values = values.into_iter();
    let mut values: Vec<f64> = values.map(|value| number(&value)).collect();
    values.sort_by(f64::total_cmp);
    let unknown = values.iter().find(|value| value.is_nan()).copied();
    unknown.or_else(|| values.get(values.len() / 2).copied())
}

/// Returns the largest value; NaN if there are none, or one is NaN.
pub(crate) fn most<N: Borrow<f64>>(values: impl IntoIterator<Item = N>) -> f64 {
    known(values, f64::max)
}

/// Returns the smallest value; NaN if there are none, or one is NaN.
pub(crate) fn least<N: Borrow<f64>>(values: impl IntoIterator<Item = N>) -> f64 {
    known(values, f64::min)
}

/// Returns whether a condition is true for all items, of which there must be at least one.
pub(crate) fn every<T>(
    things: impl IntoIterator<Item = T>,
    mut holds: impl FnMut(T) -> bool,
) -> bool {
    let mut things = things.into_iter();
    things.next().is_some_and(&mut holds) && things.all(holds)
}

fn known<N: Borrow<f64>>(values: impl IntoIterator<Item = N>, better: fn(f64, f64) -> f64) -> f64 {
    let of_two = |a: f64, b: f64| match a.is_nan() || b.is_nan() {
        true => f64::NAN,
        false => better(a, b),
    };
    let values = values.into_iter().map(|value| number(&value));
    values.reduce(of_two).unwrap_or(f64::NAN)
}

fn number<N: Borrow<f64>>(value: &N) -> f64 {
    *<N as Borrow<f64>>::borrow(value)
}

fn squares(values: &[f64]) -> f64 {
    let middle = mean(values);
    values.iter().map(|value| (value - middle).powi(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_nearest_rank_and_the_median_is_the_middle() {
        let sorted: Vec<f64> = (1..=20).map(f64::from).collect();
        let at = |share| quantile(&sorted, share);
        assert_eq!(
            [0.0, 0.05, 0.5, 0.95, 1.0].map(at),
            [1.0, 1.0, 10.0, 19.0, 20.0]
        );
        assert!(quantile(&[], 0.5).is_nan() && ranked::<u64>(&[], 0.5).is_none());
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([1.0, 2.0]), Some(2.0));
        assert_eq!(median([0.0; 0]), None);
    }

    #[test]
    fn errors_are_of_the_mean() {
        let (mean, error) = mean_and_error(&[1.0, 2.0, 3.0]);
        assert_eq!(mean, 2.0);
        assert!((error - (1.0_f64 / 3.0).sqrt()).abs() < 1e-12);
        assert_eq!(deviation(&[1.0, 2.0, 3.0]), 1.0);
        assert!(mean_and_error(&[1.0]).1.is_nan() && deviation(&[1.0]).is_nan());
    }

    #[test]
    fn what_is_unknown_stays_unknown() {
        assert_eq!((most([1.0, 3.0, 2.0]), least([2.0, 1.0])), (3.0, 1.0));
        for values in [
            vec![0.0; 0],
            vec![f64::NAN],
            vec![1.0, f64::NAN],
            vec![f64::NAN, 1.0],
        ] {
            assert!(most(values.clone()).is_nan(), "{values:?}");
            assert!(median(values.clone()).is_none_or(f64::is_nan));
            assert!(least(values.clone()).is_nan() && mean(values).is_nan());
        }
        assert!(!every([0.0; 0], |_| true) && every([1.0, 2.0], |x| x > 0.0));
        assert!(!every([1.0, f64::NAN], |x| x > 0.0));
    }
}
