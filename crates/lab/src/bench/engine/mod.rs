//! `sinew bench engine`: what the node's own code costs per packet, without sockets and without
//! the kernel.
//!
//! ```text
//!   a (seals) ──bursts──> b: handle × 32, flush <── the clock runs here only
//!                         └──bursts──> c (opens, answers hellos)
//! ```
//!
//! Three engines in this process, in virtual time: `a` sends packets of the real-time lane to `c`,
//! `b` is measured as its loop would drive it, 32 messages to a turn. Each packet is opened,
//! judged, entered in the next lane's history and sealed again. The virtual clock advances at the
//! rate that is asked for, so that history and windows have the size that they have at that rate.

mod replay;

pub use replay::Replay;

use super::{BenchError, heading};
use base::Duration;
use replay::MESSAGES_PER_TURN;
use serde::Serialize;
use std::fmt;
use tools::progress::Progress;
use tools::table::align;

/// Turns before the clock counts: windows and history reach their sizes.
const WARM_UP: Duration = Duration::from_millis(400);

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of payload of each packet, one table each.
    pub payloads: Vec<usize>,
    /// Packets per message, one row each.
    pub bursts: Vec<usize>,
    /// Flows that the packets belong to, in turn.
    pub flows: u32,
    /// Packets per measurement.
    pub packets: u64,
    /// Packets per second of virtual time.
    pub rate_pps: u64,
    /// Packets go to a group, of which the middle engine and the last are members.
    pub group: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            payloads: vec![160, 1_200],
            bursts: vec![1, 8, 16, 32],
            flows: 10,
            packets: 200_000,
            rate_pps: 500_000,
            group: false,
        }
    }
}

/// What was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Packets per second of virtual time.
    pub rate_pps: u64,
    /// One per payload and burst.
    pub rows: Vec<Row>,
}

/// One measurement.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Row {
    /// Bytes of payload.
    pub payload_bytes: usize,
    /// Packets per message.
    pub burst: usize,
    /// Packets measured.
    pub packets: u64,
    /// Time per packet in `handle` and `flush`: the median over the turns.
    pub ns_per_packet: f64,
    /// Packets that did not come out again.
    pub lost: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "engine alone: opened, judged, kept, sealed; {} packets/s of virtual time",
            self.rate_pps
        )?;
        let mut table = vec![heading(["payload", "burst", "ns/packet", "lost"])];
        for row in &self.rows {
            table.push(vec![
                format!("{} B", row.payload_bytes),
                row.burst.to_string(),
                format!("{:.0}", row.ns_per_packet),
                row.lost.to_string(),
            ]);
        }
        f.write_str(&align(&table))
    }
}

/// Measures.
///
/// # Errors
/// [`BenchError`], when the three nodes do not find each other or a payload does not fit.
pub fn run(options: &Options, progress: Progress) -> Result<Report, BenchError> {
    let mut rows = Vec::new();
    for &payload in &options.payloads {
        for &burst in &options.bursts {
            progress.step(&format!("{payload} bytes, bursts of {burst}"));
            let begin = match options.group {
                true => Replay::to_group,
                false => Replay::new,
            };
            let mut replay = begin(payload, burst, options.flows, options.rate_pps)?;
            let warm_up = options.rate_pps * WARM_UP.as_nanos() / 1_000_000_000;
            while replay.packets() < warm_up {
                replay.turn(|| {})?;
            }
            let (before, lost_before) = (replay.packets(), replay.lost());
            let mut turns = Vec::new();
            while replay.packets() - before < options.packets {
                turns.push(replay.turn(|| {})?.as_nanos());
            }
            turns.sort_unstable();
            let median_ns = turns.get(turns.len() / 2).copied().unwrap_or_default();
            rows.push(Row {
                payload_bytes: payload,
                burst,
                packets: replay.packets() - before,
                ns_per_packet: median_ns as f64 / (MESSAGES_PER_TURN * burst) as f64,
                lost: replay.lost() - lost_before,
            });
        }
    }
    Ok(Report {
        rate_pps: options.rate_pps,
        rows,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_is_a_table_and_has_stable_keys() {
        let options = Options {
            payloads: vec![160],
            bursts: vec![4],
            packets: 256,
            flows: 3,
            rate_pps: 50_000,
            group: false,
        };
        let report = run(&options, Progress::Silent).unwrap();
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["rows"][0]["burst"], 4);
        assert_eq!(json["rows"][0]["lost"], 0);
        assert!(json["rows"][0]["ns_per_packet"].as_f64().unwrap() > 0.0);
        assert!(report.to_string().contains("ns/packet"));
    }
}
