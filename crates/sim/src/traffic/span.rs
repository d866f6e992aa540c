//! Random spans of time. This module computes logarithm and exponential with IEEE's four operations alone, which round
//! alike everywhere: the libraries of different systems differ in the last bit, and one different bit would make
//! another trace.

use super::Spread;
use base::{Duration, Rng};
use core::f64::consts::LN_2;

/// Longest span: a day. A Pareto tail of shape 1.5 around a second reaches it once in 10^8 draws.
const SPAN_MAX: Duration = Duration::from_secs(86_400);
/// Least shape of a Pareto distribution: below this the mean is hardly finite.
const SHAPE_MIN: f64 = 1.01;

/// Draws a span with this mean.
pub(super) fn draw(rng: &mut Rng, mean: Duration, spread: Spread) -> Duration {
    // The value is in (0, 1], so that its logarithm is finite: at most 36.8 without its sign.
    let chance = 1.0 - rng.unit();
    let factor = match spread {
        Spread::Exponential => minus_ln(chance),
        Spread::Pareto { shape } => {
            // Scale · chance^(-1/shape), with the scale that gives a mean of one.
            let shape = if shape >= SHAPE_MIN { shape } else { SHAPE_MIN };
            (shape - 1.0) / shape * exp(minus_ln(chance) / shape)
        }
    };
    mean.mul_f64(factor).min(SPAN_MAX)
}

/// Returns −ln x for x in (0, 1].
fn minus_ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let exponent = ((bits >> 52) & 0x7ff) as i64 - 1_023;
    // The mantissa is in [1, 2).
    let mantissa = f64::from_bits((bits & ((1 << 52) - 1)) | (1_023 << 52));
    // ln m = 2 artanh z with z = (m−1)/(m+1) below 1/3: the 17th term is below 10^-16.
    let z = (mantissa - 1.0) / (mantissa + 1.0);
    let (mut term, mut sum) = (z, 0.0);
    for k in 0..17_u32 {
        sum += term / f64::from(2 * k + 1);
        term *= z * z;
    }
    -(2.0 * sum + exponent as f64 * LN_2)
}

/// Returns e^x for x in 0 to 700.
fn exp(x: f64) -> f64 {
    let twos = (x / LN_2).floor();
    let rest = x - twos * LN_2;
    let (mut term, mut sum) = (1.0, 0.0);
    for k in 1..20_u32 {
        sum += term;
        term *= rest / f64::from(k);
    }
    sum * f64::from_bits((twos as u64 + 1_023) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert, proptest};

    proptest! {
        #[test]
        fn both_agree_with_the_library(x in 1e-16f64..=1.0, y in 0.0f64..100.0) {
            prop_assert!((minus_ln(x) + x.ln()).abs() <= 1e-14 * x.ln().abs().max(1.0));
            prop_assert!((exp(y) / y.exp() - 1.0).abs() < 1e-13);
        }
    }

    /// These numbers are part of what makes a run repeatable.
    #[test]
    fn draws_are_pinned() {
        let mut rng = Rng::new(1);
        let second = Duration::from_secs(1);
        let spans = [
            draw(&mut rng, second, Spread::Exponential),
            draw(&mut rng, second, Spread::Pareto { shape: 1.5 }),
            draw(&mut rng, second, Spread::Pareto { shape: 0.0 }),
        ];
        assert_eq!(
            spans.map(Duration::as_nanos),
            [1_669_252_456, 833_524_286, 10_991_454]
        );
        assert_eq!((minus_ln(1.0), exp(0.0)), (0.0, 1.0));
    }

    #[test]
    fn a_pareto_tail_falls_as_its_shape_says() {
        let mut rng = Rng::new(4);
        let spread = Spread::Pareto { shape: 1.5 };
        let mut exceed = |factor: u64| {
            let mean = Duration::from_secs(3);
            let draws =
                (0..100_000).filter(|_| draw(&mut rng, mean, spread) > Duration::from_secs(factor));
            draws.count() as f64 / 100_000.0
        };
        // The scale is a third of the mean, 1 s: P(X > x) = x^-1.5.
        assert_eq!(exceed(0), 1.0);
        assert!((exceed(4) - 0.125).abs() < 0.004);
        assert!((exceed(100) - 0.001).abs() < 0.0004);
    }
}
