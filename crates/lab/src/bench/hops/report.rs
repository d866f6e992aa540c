//! The results of `sinew bench hops`: the documented JSON, and the tables.

use super::talk::Told;
use super::{Load, MESSAGE_BYTES};
use crate::bench::heading;
use crate::stats;
use serde::Serialize;
use std::fmt;
use tools::table::align;

/// All results.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Links in the row.
    pub hops: usize,
    /// The model of the links.
    pub link: &'static str,
    /// Bytes of a message.
    pub message_bytes: usize,
    /// How long messages were written.
    pub seconds: f64,
    /// The machine's load before and after.
    pub load: [f64; 2],
    /// One per load.
    pub cases: Vec<Case>,
}

/// One load.
#[derive(Clone, Debug, Serialize)]
pub struct Case {
    /// Payload of each writer.
    pub rate_kbps: u32,
    /// Loss of the link in the middle, in each direction.
    pub loss_pct: f64,
    /// All contenders.
    pub contenders: Vec<Delays>,
}

/// Delays of messages from the time when they were due to their delivery in order.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Delays {
    /// The contender.
    pub name: String,
    /// Messages written.
    pub sent: u64,
    /// Messages that arrived.
    pub arrived: u64,
    /// Least, mean, median, 99th percentile and longest delay.
    pub least_ms: f64,
    /// See `least_ms`.
    pub mean_ms: f64,
    /// See `least_ms`.
    pub p50_ms: f64,
    /// See `least_ms`.
    pub p99_ms: f64,
    /// See `least_ms`.
    pub max_ms: f64,
    /// Percentage of the messages that took longer than 60 ms.
    pub over_60_pct: f64,
    /// Percentage of the messages that took longer than 100 ms.
    pub over_100_pct: f64,
}

impl Case {
    pub(super) fn new(load: Load, told: Vec<Told>) -> Case {
        Case {
            rate_kbps: load.rate_kbps,
            loss_pct: load.loss_pct,
            contenders: told.into_iter().map(Delays::new).collect(),
        }
    }

    /// Returns whether the goals of this load are met, if it has any.
    fn holds(&self, delays: &Delays) -> Option<bool> {
        let all = delays.arrived == delays.sent;
        match (self.rate_kbps, self.loss_pct) {
            (500, 1.0) => Some(all && delays.over_60_pct <= 3.0 && delays.over_100_pct <= 1.0),
            (1_000, 2.0) => Some(all && delays.mean_ms < 65.0 && delays.max_ms <= 500.0),
            _ => None,
        }
    }
}

impl Delays {
    fn new(told: Told) -> Delays {
        let mut ms: Vec<f64> = told.delays.iter().map(|d| d.as_secs_f64() * 1e3).collect();
        ms.sort_unstable_by(f64::total_cmp);
        let count = ms.len().max(1) as f64;
        // Returns the smallest delay that a share `q` does not exceed; 0 if there are none.
        let quantile = |q: f64| stats::ranked(&ms, q).unwrap_or_default();
        let over = |limit: f64| {
            let within = ms.partition_point(|&delay| delay <= limit);
            (ms.len() - within) as f64 * 100.0 / count
        };
        Delays {
            sent: told.sent,
            arrived: ms.len() as u64,
            least_ms: quantile(0.0),
            mean_ms: ms.iter().sum::<f64>() / count,
            p50_ms: quantile(0.5),
            p99_ms: quantile(0.99),
            max_ms: quantile(1.0),
            over_60_pct: over(60.0),
            over_100_pct: over(100.0),
            name: told.name,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [before, after] = self.load;
        writeln!(
            f,
            "messages of {MESSAGE_BYTES} bytes over {} links of `{}`, the one in the middle with \
             losses; {} s each; load {before:.1} to {after:.1}\n\
             delays in ms, from when a message was due to its delivery in order",
            self.hops, self.link, self.seconds,
        )?;
        for case in &self.cases {
            writeln!(
                f,
                "\n{} kbit/s, {} % lost each way",
                case.rate_kbps, case.loss_pct
            )?;
            let mut rows = vec![heading([
                "", "messages", "least", "mean", "p50", "p99", "max", "> 60 ms", "> 100 ms", "",
            ])];
            for (place, delays) in case.contenders.iter().enumerate() {
                let ms = |value: f64| format!("{value:.1}");
                let goal = match case.holds(delays).filter(|_| place == 0) {
                    Some(true) => "ok",
                    Some(false) => "MISSED",
                    None => "",
                };
                rows.push(vec![
                    delays.name.clone(),
                    format!("{} of {}", delays.arrived, delays.sent),
                    ms(delays.least_ms),
                    ms(delays.mean_ms),
                    ms(delays.p50_ms),
                    ms(delays.p99_ms),
                    ms(delays.max_ms),
                    format!("{:.2} %", delays.over_60_pct),
                    format!("{:.2} %", delays.over_100_pct),
                    goal.to_owned(),
                ]);
            }
            f.write_str(&align(&rows))?;
        }
        writeln!(
            f,
            "\ngoals hop by hop: 500 kbit/s and 1 %: over 60 ms 3 % at most, over 100 ms 1 % at most; \
             1000 kbit/s and 2 %: mean below 65 ms, nothing over 500 ms"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn told(ms: &[u64]) -> Told {
        Told {
            name: "x".into(),
            sent: ms.len() as u64,
            delays: ms.iter().map(|&ms| Duration::from_millis(ms)).collect(),
        }
    }

    #[test]
    fn shares_are_of_what_is_over_a_limit() {
        let delays = Delays::new(told(&[50, 101, 60, 61]));
        assert_eq!((delays.over_60_pct, delays.over_100_pct), (50.0, 25.0));
        assert_eq!((delays.least_ms, delays.max_ms), (50.0, 101.0));
        assert_eq!((delays.p50_ms, delays.mean_ms), (60.0, 68.0));
        assert_eq!(Delays::new(told(&[])).mean_ms, 0.0);
    }

    #[test]
    fn goals_belong_to_their_loads() {
        let case = |words: &str| Case::new(words.parse().unwrap(), Vec::new());
        let fine = Delays::new(told(&[50; 100]));
        let slow = Delays::new(told(&[501; 100]));
        for words in ["500:1", "1000:2"] {
            assert_eq!(case(words).holds(&fine), Some(true));
            assert_eq!(case(words).holds(&slow), Some(false));
        }
        assert_eq!(case("500:2").holds(&slow), None);
        let missing = Delays { sent: 101, ..fine };
        assert_eq!(case("500:1").holds(&missing), Some(false));
    }
}
