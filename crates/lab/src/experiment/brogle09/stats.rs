//! The statistics of a stream's arrivals: loss and latencies, with and without the outliers.

use super::talk::{ABSENT, Arrivals, Told};
use crate::experiment::Row;
use crate::stats::mean_and_error;
use std::collections::BTreeSet;

/// "Latency w/o 5% outliers" [Brogle09 Fig. 4, 5].
// Choice: the paper does not say which outliers; the slowest 5 % are left out.
const KEPT: f64 = 0.95;

/// Latencies in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Latency {
    pub(super) mean_us: f64,
    pub(super) deviation_us: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
}

impl Latency {
    /// Computes the latency of values in nanoseconds, in order; all NaN if there are none.
    fn of(sorted_ns: &[u32]) -> Latency {
        let n = sorted_ns.len() as f64;
        let us = |ns: &u32| f64::from(*ns) / 1e3;
        let mean_us = sorted_ns.iter().map(us).sum::<f64>() / n;
        let squares = sorted_ns.iter().map(|ns| (us(ns) - mean_us).powi(2));
        let at = |share: f64| {
            let place = (share * n).ceil() as usize;
            sorted_ns.get(place.max(1) - 1).map_or(f64::NAN, us)
        };
        Latency {
            mean_us,
            deviation_us: (squares.sum::<f64>() / n).sqrt(),
            p50_us: at(0.5),
            p99_us: at(0.99),
        }
    }
}

/// Returns the latency of all packets, and of those without the slowest 5 %.
pub(super) fn latencies(arrivals: &Arrivals) -> [Latency; 2] {
    let all = arrivals.latencies_ns.iter().copied();
    let mut arrived: Vec<u32> = all.filter(|ns| *ns != ABSENT).collect();
    arrived.sort_unstable();
    let kept = (arrived.len() as f64 * KEPT).ceil() as usize;
    [Latency::of(&arrived), Latency::of(&arrived[..kept])]
}

/// Returns the share that did not arrive, in percent.
pub(super) fn loss_pct(told: &Told, arrivals: &Arrivals) -> f64 {
    100.0 * told.sent.saturating_sub(arrivals.arrived) as f64 / told.sent.max(1) as f64
}

/// Returns the largest loss of all sinks, in percent.
pub(super) fn worst_loss_pct(told: &Told) -> f64 {
    let losses = told.sinks.iter().map(|sink| loss_pct(told, sink));
    losses.fold(0.0, f64::max)
}

/// Numbers that are reported with the standard error of their mean over the trials.
const WITH_ERROR: [&str; 4] = ["worst_loss_pct", "p50_us", "p99_us", "mean_95_us"];

/// Writes the results of `who` in some trials into a row, the mean of each number: `native_p50_us` of the sink that is
/// drawn, and `native_P6_loss_pct` and so on of each. `native_p50_us_error` is a standard error.
pub(super) fn tell(row: &mut Row, who: &str, drawn: &str, trials: &[Told]) {
    let of_one = |told: &Told| {
        let mut one = Row::default();
        tell_trial(&mut one, who, drawn, told);
        one
    };
    let each: Vec<Row> = trials.iter().map(of_one).collect();
    let names: BTreeSet<&str> = each
        .iter()
        .flat_map(Row::values)
        .map(|(name, _)| name)
        .collect();
    for name in names {
        // A number that is unknown in one trial is unknown in the mean.
        let values: Vec<f64> = each.iter().map(|one| one.value(name)).collect();
        let (mean, error) = mean_and_error(&values);
        let is_with_error = WITH_ERROR.iter().any(|end| name == format!("{who}_{end}"));
        if is_with_error {
            row.set(format!("{name}_error"), error);
        }
        row.set(name, mean);
    }
}

fn tell_trial(row: &mut Row, who: &str, drawn: &str, told: &Told) {
    row.set(format!("{who}_sent"), told.sent as f64);
    row.set(format!("{who}_achieved_pps"), told.achieved_pps);
    row.set(format!("{who}_refused"), told.refused as f64);
    let cpu_us = told.sender_cpu_ns as f64 / 1e3 / told.sent.max(1) as f64;
    row.set(format!("{who}_sender_cpu_us"), cpu_us);
    row.set(format!("{who}_worst_loss_pct"), worst_loss_pct(told));
    for sink in &told.sinks {
        let of_one = format!("{who}_{}", sink.name);
        tell_sink(row, &of_one, told, sink);
        if sink.name == drawn {
            tell_sink(row, who, told, sink);
        }
    }
}

fn tell_sink(row: &mut Row, who: &str, told: &Told, sink: &Arrivals) {
    row.set(format!("{who}_loss_pct"), loss_pct(told, sink));
    row.set(format!("{who}_duplicates"), sink.duplicates as f64);
    for (suffix, latency) in ["", "_95"].into_iter().zip(latencies(sink)) {
        for (name, value) in [
            ("mean", latency.mean_us),
            ("deviation", latency.deviation_us),
            ("p50", latency.p50_us),
            ("p99", latency.p99_us),
        ] {
            row.set(format!("{who}_{name}{suffix}_us"), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(latencies_ns: Vec<u32>) -> Arrivals {
        Arrivals {
            name: "P6",
            arrived: latencies_ns.iter().filter(|ns| **ns != ABSENT).count() as u64,
            latencies_ns,
            duplicates: 0,
        }
    }

    #[test]
    fn outliers_are_the_slowest_twentieth_and_what_is_lost_has_no_latency() {
        // There are latencies of 1 to 100 µs, the slowest first, and 25 packets that never arrived.
        let mut latencies_ns: Vec<u32> = (1..=100).rev().map(|us| us * 1_000).collect();
        latencies_ns.extend([ABSENT; 25]);
        let sink = arrivals(latencies_ns);
        let [all, kept] = latencies(&sink);
        assert_eq!((all.mean_us, all.p50_us, all.p99_us), (50.5, 50.0, 99.0));
        assert_eq!((kept.mean_us, kept.p50_us, kept.p99_us), (48.0, 48.0, 95.0));
        assert!((all.deviation_us - 28.866).abs() < 1e-3);
        let told = Told {
            sent: 125,
            sinks: vec![sink],
            ..Told::default()
        };
        assert_eq!(worst_loss_pct(&told), 20.0);
        let mut row = Row::default();
        tell(&mut row, "native", "P6", &[told]);
        assert_eq!(row.value("native_P6_loss_pct"), 20.0);
        assert_eq!(row.value("native_p50_95_us"), 48.0);
    }

    #[test]
    fn of_several_trials_there_are_a_mean_and_its_error() {
        let trial = |lost: usize| {
            let mut latencies_ns = vec![1_000; 100];
            latencies_ns[..lost].fill(ABSENT);
            Told {
                sent: 100,
                sinks: vec![arrivals(latencies_ns)],
                ..Told::default()
            }
        };
        let mut row = Row::default();
        tell(&mut row, "native", "P6", &[trial(1), trial(2), trial(3)]);
        assert_eq!(row.value("native_worst_loss_pct"), 2.0);
        let error = row.value("native_worst_loss_pct_error");
        assert!((error - (1.0_f64 / 3.0).sqrt()).abs() < 1e-9, "{error}");
        assert!(row.value("native_P6_p50_us_error").is_nan());
        let mut once = Row::default();
        tell(&mut once, "native", "P6", &[trial(1)]);
        assert!(once.value("native_worst_loss_pct_error").is_nan());
    }

    #[test]
    fn nothing_arrived_is_all_loss_and_no_latency() {
        let told = Told {
            sent: 3,
            sinks: vec![arrivals(vec![ABSENT; 3])],
            ..Told::default()
        };
        let mut row = Row::default();
        tell(&mut row, "native", "P6", &[told]);
        assert_eq!(row.value("native_loss_pct"), 100.0);
        assert!(row.value("native_mean_us").is_nan());
    }
}
