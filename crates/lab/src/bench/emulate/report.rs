//! The results of `sinew bench emulate`: the documented JSON, and the tables.

use crate::bench::heading;
use crate::bench::trial::Trial;
use crate::stats::{median, ranked};
use base::Duration;
use serde::Serialize;
use std::fmt;
use tools::table::align;

/// All results.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The scheduling of senders and receivers.
    pub scheduling: String,
    /// The scheduling of the emulator.
    pub emulator_scheduling: String,
    /// The machine's load before and after.
    pub load: [f64; 2],
    /// Length of a trial.
    pub trial_seconds: f64,
    /// Trials per number.
    pub repeats: usize,
    /// One per path and number of streams.
    pub delays: Vec<Delay>,
    /// One per path.
    pub rates: Vec<Rate>,
    /// One per congestion control and loss.
    pub tcp: Vec<Tcp>,
}

/// How much later packets arrive than by the model.
#[derive(Clone, Debug, Serialize)]
pub struct Delay {
    /// The name of the path.
    pub path: &'static str,
    /// Streams of 50 packets/s at once.
    pub streams: u32,
    /// The delay of the model.
    pub model_us: f64,
    /// Packets that count, over all trials.
    pub sent: u64,
    /// Percentage of them that did not arrive.
    pub lost_pct: f64,
    /// Median of the one-way delay minus the model's: median over the trials.
    pub error_p50_us: f64,
    /// The same for the 99th percentile.
    pub error_p99_us: f64,
    /// The longest such difference of all trials.
    pub error_max_us: f64,
}

/// The highest rate of single packets of 160 bytes with less than 0.1 % loss.
#[derive(Clone, Debug, Serialize)]
pub struct Rate {
    /// The name of the path.
    pub path: &'static str,
    /// Packets per second: median of the searches.
    pub max_pps: u64,
    /// The lowest and the highest of the searches.
    pub range_pps: [u64; 2],
}

/// One connection of the kernel's TCP.
#[derive(Clone, Debug, Serialize)]
pub struct Tcp {
    /// Its congestion control.
    pub control: String,
    /// Share of packets lost, in each direction.
    pub loss: String,
    /// The other properties of the link, in each direction.
    pub link: &'static str,
    /// Payload that arrived, Mbit/s.
    pub goodput_mbps: f64,
}

impl Delay {
    pub(super) fn new(
        path: &'static str,
        streams: u32,
        model: Duration,
        trials: &[Trial],
    ) -> Delay {
        let counted: u64 = trials.iter().map(|t| t.counted).sum();
        let arrived: usize = trials.iter().map(|t| t.delays_ns.len()).sum();
        let error_us = |ns: u64| (ns as f64 - model.as_nanos() as f64) / 1e3;
        let of_each = |q: f64| {
            trials
                .iter()
                .map(move |t| error_us(ranked(&t.delays_ns, q).unwrap_or(0)))
        };
        Delay {
            path,
            streams,
            model_us: model.as_nanos() as f64 / 1e3,
            sent: counted,
            lost_pct: 100.0 * (1.0 - arrived as f64 / counted.max(1) as f64),
            error_p50_us: median(of_each(0.5)).unwrap_or_default(),
            error_p99_us: median(of_each(0.99)).unwrap_or_default(),
            error_max_us: of_each(1.0).fold(f64::MIN, f64::max),
        }
    }
}

impl Rate {
    pub(super) fn new(path: &'static str, mut found: Vec<u64>) -> Rate {
        found.sort_unstable();
        let ends = [found.first(), found.last()].map(|n| n.copied().unwrap_or(0));
        Rate {
            path,
            max_pps: found.get(found.len() / 2).copied().unwrap_or(0),
            range_pps: ends,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [before, after] = self.load;
        writeln!(
            f,
            "an emulated link between two namespaces, beside a pair of veth; load {before:.1} to {after:.1}\n\
             scheduling: {}; emulator: {}\n\
             one-way delay less the model's, µs: medians of {} trials of {} s taken in turns; maximum of all\n",
            self.scheduling, self.emulator_scheduling, self.repeats, self.trial_seconds
        )?;
        let mut rows = vec![heading([
            "path",
            "packets/s",
            "error p50",
            "p99",
            "max",
            "lost",
        ])];
        for delay in &self.delays {
            rows.push(vec![
                delay.path.to_owned(),
                (delay.streams * crate::bench::trial::RATE_PPS).to_string(),
                format!("{:.0}", delay.error_p50_us),
                format!("{:.0}", delay.error_p99_us),
                format!("{:.0}", delay.error_max_us),
                format!("{:.3} %", delay.lost_pct),
            ]);
        }
        writeln!(f, "{}", align(&rows))?;
        let mut rows = vec![heading(["path", "highest rate, packets/s", "of searches"])];
        for rate in &self.rates {
            let [low, high] = rate.range_pps;
            let range = format!("{low} to {high}");
            rows.push(vec![rate.path.to_owned(), rate.max_pps.to_string(), range]);
        }
        f.write_str(&align(&rows))?;
        if let Some(first) = self.tcp.first() {
            writeln!(f, "\nTCP of the kernel, {} each way", first.link)?;
            let mut rows = vec![heading(["control", "loss", "Mbit/s"])];
            for tcp in &self.tcp {
                let mbps = format!("{:.2}", tcp.goodput_mbps);
                rows.push(vec![tcp.control.clone(), tcp.loss.clone(), mbps]);
            }
            f.write_str(&align(&rows))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_is_what_is_above_the_model() {
        let trial = |delays_us: [u64; 4]| Trial {
            sent: 5,
            counted: 5,
            delays_ns: delays_us.map(|us| us * 1_000).to_vec(),
            ..Trial::default()
        };
        let trials = [
            trial([10_010, 10_020, 10_030, 10_900]),
            trial([10_011, 10_040, 10_050, 11_000]),
        ];
        let delay = Delay::new("x", 10, Duration::from_millis(10), &trials);
        assert_eq!(
            (delay.error_p50_us, delay.error_p99_us, delay.error_max_us),
            (40.0, 1_000.0, 1_000.0)
        );
        assert!((delay.lost_pct - 20.0).abs() < 1e-9);
        let rate = Rate::new("x", vec![3, 1, 2]);
        assert_eq!((rate.max_pps, rate.range_pps), (2, [1, 3]));
    }
}
