//! How well calls came through, computed from the delays of their packets alone, without speech.
//!
//! [`Quality::of`] puts the calls of one path together. docs/demo.md defines each number.

use base::Duration;
use serde::Serialize;
use voice::call::{CONCEALMENT_US, Delay, jitter_us};
use voice::emodel::{Concealment, Parameters, burst_ratio};
use voice::frames::FRAME_US;
use voice::playout::{Fate, Playout};

/// One call on one path: the one-way delay of each packet in microseconds, `None` for a packet that
/// never arrived.
pub type Call = Vec<Option<u64>>;

/// The calls of one path, judged together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Quality {
    /// Packets sent.
    pub sent: u64,
    /// Percent of the sent packets that never arrived.
    pub lost_pct: f64,
    /// Percent of the sent packets that arrived after their playout time.
    pub late_pct: f64,
    /// One-way delay of the packets that arrived.
    pub delay_ms: DelayMs,
    /// Interarrival jitter (RFC 3550), mean over the calls.
    pub jitter_ms: f64,
    /// The E-model's rating, mean over the calls.
    pub r_factor: f64,
    /// The E-model's mean opinion score, mean over the calls.
    pub mos: f64,
}

/// One-way delay; all fields are `None` if no packet arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct DelayMs {
    /// Arithmetic mean.
    pub mean: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// 95th percentile.
    pub p95: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
}

impl Quality {
    /// Judges calls whose packets are played `deadline` after they were sent.
    #[must_use]
    pub fn of(calls: &[Call], deadline: Duration) -> Quality {
        let deadline_us = deadline.as_micros();
        let (mut sent, mut lost, mut late) = (0_u64, 0_u64, 0_u64);
        let (mut jitters_ms, mut ratings) = (Vec::new(), Vec::new());
        for call in calls {
            let playout = Playout::from_delays(call.clone(), Some(deadline_us));
            let totals = playout.totals();
            sent += u64::from(totals.sent);
            lost += u64::from(totals.lost);
            late += u64::from(totals.late);
            jitters_ms.push(jitter_us(call) as f64 / 1e3);
            // [Papadimitriou06 §4.1.1] adds the delays of packet, concealment, network and playout
            // buffer.
            let mouth_to_ear_us = FRAME_US + CONCEALMENT_US + deadline_us;
            let bursts = burst_ratio(playout.fates().map(Fate::is_missed));
            let missed = totals.missed_fraction();
            let plc = Concealment::AppendixI;
            ratings.push(Parameters::for_call(mouth_to_ear_us, missed, bursts, plc).rate());
        }
        let of_sent = |count: u64| 100.0 * count as f64 / (sent as f64).max(1.0);
        let delays: Call = calls.iter().flatten().copied().collect();
        Quality {
            sent,
            lost_pct: round(of_sent(lost), 3),
            late_pct: round(of_sent(late), 3),
            delay_ms: DelayMs::of(Delay::of(&delays)),
            jitter_ms: round(mean(&jitters_ms), 3),
            r_factor: round(mean(&ratings.iter().map(|r| r.r).collect::<Vec<_>>()), 2),
            mos: round(
                mean(&ratings.iter().map(|r| r.mos()).collect::<Vec<_>>()),
                3,
            ),
        }
    }
}

/// Returns the rows of a table with a column for each path, without a heading.
pub fn rows(paths: &[&Quality], deadline_ms: f64) -> Vec<Vec<String>> {
    let row = |what: &str, show: &dyn Fn(&Quality) -> String| {
        let cells = paths.iter().map(|quality| show(quality));
        core::iter::once(what.to_owned()).chain(cells).collect()
    };
    vec![
        row("packets sent", &|q| q.sent.to_string()),
        row("lost", &|q| format!("{:.2} %", q.lost_pct)),
        row(&format!("late, after {deadline_ms} ms"), &|q| {
            format!("{:.2} %", q.late_pct)
        }),
        row("delay, mean, ms", &|q| ms(q.delay_ms.mean)),
        row("delay, p95 / p99, ms", &|q| {
            format!("{} / {}", ms(q.delay_ms.p95), ms(q.delay_ms.p99))
        }),
        row("jitter, ms", &|q| format!("{:.2}", q.jitter_ms)),
        row("R-factor (G.107)", &|q| format!("{:.1}", q.r_factor)),
        row("MOS (G.107)", &|q| format!("{:.2}", q.mos)),
    ]
}

impl DelayMs {
    fn of(delay: Option<Delay>) -> DelayMs {
        let ms = |us: fn(&Delay) -> u64| delay.as_ref().map(|d| us(d) as f64 / 1e3);
        DelayMs {
            mean: ms(|d| d.mean_us),
            p50: ms(|d| d.p50_us),
            p95: ms(|d| d.p95_us),
            p99: ms(|d| d.p99_us),
        }
    }
}

fn ms(value: Option<f64>) -> String {
    value.map_or_else(|| "none".into(), |ms| format!("{ms:.1}"))
}

fn mean(values: &[f64]) -> f64 {
    if values.is_empty() {
        0.0
    } else {
        values.iter().sum::<f64>() / values.len() as f64
    }
}

/// Rounds to as many digits as are significant, so that the JSON stays readable.
pub fn round(value: f64, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use voice::call::Original;
    use voice::g711::Law;

    const DEADLINE: Duration = Duration::from_millis(100);

    #[test]
    fn calls_are_put_together() {
        let good: Call = vec![Some(50_000); 100];
        let mut bad = good.clone();
        bad[40..60].fill(None);
        bad[60] = Some(100_001);
        let quality = Quality::of(&[good.clone(), bad.clone()], DEADLINE);
        assert_eq!(
            (quality.sent, quality.lost_pct, quality.late_pct),
            (200, 10.0, 0.5)
        );
        assert_eq!(quality.delay_ms.p50, Some(50.0));
        assert_eq!(
            quality.delay_ms.p99,
            Some(50.0),
            "179 of 180 are not slower"
        );
        let each = [good, bad].map(|call| Quality::of(&[call], DEADLINE).r_factor);
        assert!(
            (quality.r_factor - (each[0] + each[1]) / 2.0).abs() < 0.011,
            "but for rounding"
        );
    }

    #[test]
    fn nothing_arrived_and_nothing_sent() {
        let nothing = Quality::of(&[vec![None; 10]], DEADLINE);
        assert_eq!(
            (nothing.lost_pct, nothing.delay_ms),
            (100.0, DelayMs::default())
        );
        assert_eq!(ms(nothing.delay_ms.p99), "none");
        assert_eq!(Quality::of(&[], DEADLINE).sent, 0);
    }

    /// One call has the same numbers here as in the evaluation with speech.
    #[test]
    fn agrees_with_the_judgement_with_speech() {
        let original = Original::new(&voice::sample::speech()[..16_000], Law::Mu).unwrap();
        let mut call: Call = (0..100).map(|i| Some(50_000 + i * 10)).collect();
        call[50] = Some(150_000);
        call[60..63].fill(None);
        let expected = original
            .evaluate(&call, Some(DEADLINE.as_micros()))
            .unwrap();
        let quality = Quality::of(&[call], DEADLINE);
        assert_eq!(quality.r_factor, round(expected.r_factor(), 2));
        assert_eq!(quality.mos, round(expected.mos(), 3));
        assert_eq!(quality.jitter_ms, expected.jitter_us as f64 / 1e3);
        assert_eq!((quality.lost_pct, quality.late_pct), (3.0, 1.0));
    }

    proptest! {
        #[test]
        fn shares_and_percentiles_are_those_of_a_naive_count(
            call in prop::collection::vec(prop::option::weighted(0.9, 0u64..200_000), 1..300)
        ) {
            let quality = Quality::of(std::slice::from_ref(&call), DEADLINE);
            let share = |test: &dyn Fn(&Option<u64>) -> bool| {
                100.0 * call.iter().filter(|d| test(d)).count() as f64 / call.len() as f64
            };
            prop_assert!((quality.lost_pct - share(&|d| d.is_none())).abs() < 0.001);
            prop_assert!((quality.late_pct - share(&|d| d.is_some_and(|d| d > 100_000))).abs() < 0.001);
            let arrived: Vec<u64> = call.iter().copied().flatten().collect();
            for (value, part) in [(quality.delay_ms.p50, 0.5), (quality.delay_ms.p95, 0.95)] {
                let Some(value) = value else { prop_assert!(arrived.is_empty()); continue };
                let not_above = arrived.iter().filter(|&&us| us as f64 / 1e3 <= value).count() as f64;
                let below = arrived.iter().filter(|&&us| (us as f64 / 1e3) < value).count() as f64;
                let count = arrived.len() as f64;
                prop_assert!(not_above >= part * count - 1e-9 && below < part * count);
            }
        }
    }

    #[test]
    fn rounding_keeps_signs_and_halves() {
        assert_eq!(
            (round(5.019_999_99, 3), round(-0.25, 1), round(78.0, 2)),
            (5.02, -0.3, 78.0)
        );
    }
}
