//! The results of `sinew bench fairness`: the documented JSON, and the table.

use crate::bench::heading;
use congestion::Family;
use serde::Serialize;
use std::fmt;
use tools::table::align;

/// The goals: the streams' share of the sum of both, Jain's index over all, and use of the wire.
const SHARE_GOAL: [f64; 2] = [0.4, 0.6];
const JAIN_GOAL: f64 = 0.95;
const USED_GOAL: f64 = 0.9;

/// All results.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The bottleneck.
    pub link: &'static str,
    /// What is compared with TCP.
    pub compared: String,
    /// The machine's load before and after.
    pub load: [f64; 2],
    /// Length of a run, after the warm-up.
    pub seconds: f64,
    /// Runs per pairing.
    pub repeats: usize,
    /// The pairs that shared the bottleneck.
    pub pairings: Vec<Pairing>,
}

/// The streams of a link, and as many connections of the kernel.
#[derive(Clone, Debug, Serialize)]
pub struct Pairing {
    /// The congestion control of the link.
    pub link: String,
    /// The congestion control of the kernel.
    pub tcp: String,
    /// Number of streams, and of connections.
    pub count: usize,
    /// Whether the goals apply: to links whose control reacts to congestion as TCP's does, and not to the kernel's own
    /// connections.
    pub judged: bool,
    /// The runs in their order.
    pub runs: Vec<Run>,
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// Payload of each stream.
    pub stream_bps: Vec<f64>,
    /// Payload of each connection.
    pub tcp_bps: Vec<f64>,
    /// The streams' share of all payload.
    pub share: f64,
    /// Jain's index over streams and connections.
    pub jain: f64,
    /// The share of the bottleneck's rate that came out of it, including headers and retransmissions.
    pub used: f64,
    /// Packets of the link, retransmissions, and timeouts, including the warm-up.
    pub packets: u64,
    /// See `packets`.
    pub retransmissions: u64,
    /// See `packets`.
    pub timeouts: u64,
    /// Messages that expired: their receivers missed them.
    pub missed: u64,
}

impl Run {
    pub(super) fn new(
        streams: &[f64],
        tcp: &[f64],
        used: f64,
        [packets, retransmissions, timeouts]: [u64; 3],
    ) -> Run {
        let sum = |rates: &[f64]| rates.iter().sum::<f64>();
        let all = sum(streams) + sum(tcp);
        let squares: f64 = streams.iter().chain(tcp).map(|rate| rate * rate).sum();
        let count = (streams.len() + tcp.len()) as f64;
        Run {
            stream_bps: streams.to_vec(),
            tcp_bps: tcp.to_vec(),
            share: sum(streams) / all.max(1.0),
            jain: all * all / (count * squares).max(1.0),
            used: used.min(1.0),
            packets,
            retransmissions,
            timeouts,
            missed: 0,
        }
    }
}

impl Pairing {
    pub(super) fn new(link: Family, tcp: &str, count: usize) -> Pairing {
        Pairing {
            link: link.label().to_owned(),
            tcp: tcp.to_owned(),
            count,
            judged: link
                .kept_on_loss(&congestion::Settings::default())
                .is_some(),
            runs: Vec::new(),
        }
    }

    fn mean(&self, of: impl Fn(&Run) -> f64) -> f64 {
        self.runs.iter().map(of).sum::<f64>() / self.runs.len().max(1) as f64
    }

    /// Returns Jain's index of the mean rates of all runs.
    fn jain(&self) -> f64 {
        let rates = |of: fn(&Run) -> &[f64]| -> Vec<f64> {
            let places = 0..self.count;
            let mean = |at: usize| self.mean(|run| of(run).get(at).copied().unwrap_or_default());
            places.map(mean).collect()
        };
        let (streams, tcp) = (rates(|run| &run.stream_bps), rates(|run| &run.tcp_bps));
        Run::new(&streams, &tcp, 0.0, [0; 3]).jain
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [before, after] = self.load;
        writeln!(
            f,
            "{} beside as many TCP connections through {}\n\
             {} runs of {} s; load {before:.1} to {after:.1}\n",
            self.compared, self.link, self.repeats, self.seconds,
        )?;
        let mut table = vec![heading([
            "link", "TCP", "n", "streams", "TCP", "share", "runs", "Jain", "used", "again",
            "missed", "",
        ])];
        for pairing in &self.pairings {
            let mbps = |rates: &[f64]| rates.iter().sum::<f64>() / 1e6;
            let share = pairing.mean(|run| run.share);
            let shares = pairing.runs.iter().map(|run| run.share);
            let low = shares.clone().fold(1.0, f64::min);
            let high = shares.fold(0.0, f64::max);
            let (jain, used) = (pairing.jain(), pairing.mean(|run| run.used));
            let again = pairing.mean(|run| run.retransmissions as f64 / run.packets.max(1) as f64);
            let holds = (SHARE_GOAL[0]..=SHARE_GOAL[1]).contains(&share)
                && jain >= JAIN_GOAL
                && used >= USED_GOAL;
            table.push(vec![
                pairing.link.clone(),
                pairing.tcp.clone(),
                pairing.count.to_string(),
                format!("{:.2}", pairing.mean(|run| mbps(&run.stream_bps))),
                format!("{:.2}", pairing.mean(|run| mbps(&run.tcp_bps))),
                format!("{:.0} %", share * 100.0),
                format!("{:.0}-{:.0}", low * 100.0, high * 100.0),
                format!("{jain:.3}"),
                format!("{:.0} %", used * 100.0),
                format!("{:.1} %", again * 100.0),
                format!("{:.0}", pairing.mean(|run| run.missed as f64)),
                match (pairing.judged, holds) {
                    (false, _) => "-",
                    (true, true) => "ok",
                    (true, false) => "MISSED",
                }
                .to_owned(),
            ]);
        }
        f.write_str(&align(&table))?;
        write!(f, "\nrates in Mbit/s of payload")?;
        if self.pairings.iter().any(|pairing| pairing.judged) {
            write!(
                f,
                "; goals: share 40-60 %, Jain's index {JAIN_GOAL} at least, link used {:.0} % at least",
                USED_GOAL * 100.0
            )?;
        }
        if self.pairings.iter().any(|pairing| !pairing.judged) {
            write!(
                f,
                "; rows without a goal: controls that do not take losses for congestion, and the kernel's own"
            )?;
        }
        writeln!(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_jain_are_as_defined() {
        let even = Run::new(&[2.0, 2.0], &[2.0, 2.0], 0.95, [0; 3]);
        assert_eq!((even.share, even.jain), (0.5, 1.0));
        let odd = Run::new(&[3.0], &[1.0], 2.0, [0; 3]);
        assert_eq!((odd.share, odd.jain, odd.used), (0.75, 0.8, 1.0));
        let mut pairing = Pairing::new(Family::Cubic, "cubic", 1);
        pairing.runs = vec![odd, Run::new(&[1.0], &[3.0], 1.0, [0; 3])];
        assert_eq!(pairing.jain(), 1.0, "of the mean rates");
        let report = |link| {
            let mut pairing = Pairing::new(link, "reno", 1);
            pairing.runs = vec![Run::new(&[3.0], &[1.0], 1.0, [0; 3])];
            let report = Report {
                link: "path",
                compared: "streams".into(),
                load: [0.0; 2],
                seconds: 1.0,
                repeats: 1,
                pairings: vec![pairing],
            };
            report.to_string()
        };
        assert!(report(Family::Cubic).contains("MISSED"));
        assert!(report(Family::Cubic).contains("goals"));
        assert!(!report(Family::Bbr).contains("MISSED"));
        assert!(!report(Family::Bbr).contains("goals"));
    }
}
