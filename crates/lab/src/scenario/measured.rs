//! Third-party measurements as tables that a link can follow.
//!
//! ```text
//!   .pcap, .pcapng    what tcpdump saw of a ping, or of a stream of RTP ──┐
//!   .json             results of `ping` by RIPE Atlas ────────────────────┴▶ Sample … ──▶ at_s,delay_ms,loss_pct
//! ```
//! The converter assumes that a round trip consists of two equal directions: half of it is the delay, and a missing
//! answer is a packet lost in this direction. It combines samples in steps that have twenty of them on average, so that
//! a loss rate is meaningful, but steps are no longer than an hour.

mod atlas;
mod capture;

use std::path::Path;

/// Mean number of samples in a step: one loss is 5 %.
const SAMPLES: f64 = 20.0;
/// The possible lengths of a step, in seconds.
const STEPS_S: [f64; 9] = [1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0, 3_600.0];

/// What happened to some packets that were sent at a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sample {
    /// The time, in seconds of any clock.
    at_s: f64,
    /// The one-way delay; `None` if it was not measured.
    delay_ms: Option<f64>,
    sent: u32,
    lost: u32,
}

/// Returns whether a file is such a measurement, by its name.
pub(super) fn is_meant_by(name: &str) -> bool {
    ["pcap", "pcapng", "json"].contains(&ending(name).as_str())
}

/// Returns the table.
pub(super) fn table(name: &str, bytes: &[u8]) -> Result<String, String> {
    let samples = match ending(name).as_str() {
        "json" => atlas::samples(bytes)?,
        _ => capture::samples(bytes)?,
    };
    steps(samples)
}

fn ending(name: &str) -> String {
    let ending = Path::new(name).extension().unwrap_or_default();
    ending.to_string_lossy().to_ascii_lowercase()
}

fn steps(mut samples: Vec<Sample>) -> Result<String, String> {
    samples.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else {
        return Err("nothing was measured in it".to_owned());
    };
    let (zero, span_s) = (first.at_s, last.at_s - first.at_s);
    let sent: f64 = samples.iter().map(|sample| f64::from(sample.sent)).sum();
    let fits = |step: &&f64| sent * **step >= SAMPLES * span_s;
    let longest = STEPS_S[STEPS_S.len() - 1];
    let step_s = STEPS_S.iter().find(fits).copied().unwrap_or(longest);
    let has_delay = samples.iter().any(|sample| sample.delay_ms.is_some());
    let head = if has_delay {
        "at_s,delay_ms,loss_pct"
    } else {
        "at_s,loss_pct"
    };
    let mut table = head.to_owned() + "\n";
    let mut delay_ms = samples
        .iter()
        .find_map(|sample| sample.delay_ms)
        .unwrap_or_default();
    let place = |sample: &Sample| ((sample.at_s - zero) / step_s).floor();
    for step in samples.chunk_by(|a, b| place(a) == place(b)) {
        let at_s = place(&step[0]) * step_s;
        let sum =
            |of: fn(&Sample) -> u32| step.iter().map(|sample| u64::from(of(sample))).sum::<u64>();
        let (sent, lost) = (sum(|sample| sample.sent), sum(|sample| sample.lost));
        let loss_pct = 100.0 * lost as f64 / sent.max(1) as f64;
        let mut delays: Vec<f64> = step.iter().filter_map(|sample| sample.delay_ms).collect();
        delays.sort_by(f64::total_cmp);
        // If everything was lost in a step, the delay is that of the step before.
        delay_ms = delays.get(delays.len() / 2).copied().unwrap_or(delay_ms);
        table += &match has_delay {
            true => format!("{at_s},{delay_ms:.3},{loss_pct:.3}\n"),
            false => format!("{at_s},{loss_pct:.3}\n"),
        };
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_s: f64, delay_ms: Option<f64>) -> Sample {
        Sample {
            at_s,
            delay_ms,
            sent: 1,
            lost: u32::from(delay_ms.is_none()),
        }
    }

    #[test]
    fn samples_become_steps_that_have_enough_of_them() {
        // There are five samples per second: steps of five seconds have 25. All of the second step are lost, and one of
        // the third.
        let at = |n: u32| 1_000.0 + f64::from(n) / 5.0;
        let fate = |n: u32| match n {
            25..50 | 60 => None,
            n => Some(20.0 + f64::from(n % 3)),
        };
        let samples = (0..75).rev().map(|n| sample(at(n), fate(n))).collect();
        let expected =
            "at_s,delay_ms,loss_pct\n0,21.000,0.000\n5,21.000,100.000\n10,21.000,4.000\n";
        assert_eq!(steps(samples).unwrap(), expected);
        assert!(
            steps(Vec::new())
                .unwrap_err()
                .contains("nothing was measured")
        );
        // All samples are from one moment.
        assert_eq!(
            steps(vec![sample(5.0, Some(1.0))]).unwrap(),
            "at_s,delay_ms,loss_pct\n0,1.000,0.000\n"
        );
    }

    #[test]
    fn names_say_what_a_file_is() {
        assert!(is_meant_by("a/PING.PCAP") && is_meant_by("x.json") && !is_meant_by("x.csv"));
        assert!(!is_meant_by("trace"));
    }
}
