//! `sinew bench engine`: the cost of the node's own code per packet, without sockets and without the kernel.
//!
//! ```text
//!   a (seals) ──bursts──> b: handle × 32, flush <── the clock runs here only
//!                         └──bursts──> c (opens, answers hellos)
//! ```
//!
//! Three engines run in this process, in virtual time: `a` sends packets of the real-time lane to `c`; `b` is measured
//! and driven as its loop would drive it, 32 messages per turn. Each packet is opened, checked, entered in the next
//! lane's history and sealed again. The virtual clock advances at the requested rate, so that history and windows have
//! the size that they have at that rate. With `ends`, a second chain that seals only by hops takes turns with the
//! first: the difference is the cost of the end-to-end seal at each of the three engines.

mod replay;

pub use replay::{How, Replay, Spent};

use super::BenchError;
use base::Duration;
use replay::MESSAGES_PER_TURN;
use serde::Serialize;
use std::fmt;
use tools::progress::Progress;
use tools::table::align;

/// Time before the measurement: windows and history reach their sizes.
const WARM_UP: Duration = Duration::from_millis(400);
/// The same with a coded lane: its plan is checked once a second, and is in force after the second check.
const WARM_UP_CODED: Duration = Duration::from_millis(3_000);

/// Options of the benchmark.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of payload of each packet, one table each.
    pub payloads: Vec<usize>,
    /// Packets per message, one row each.
    pub bursts: Vec<usize>,
    /// Number of flows; the packets belong to them in turn.
    pub flows: u32,
    /// Packets per measurement.
    pub packets: u64,
    /// Packets per second of virtual time.
    pub rate_pps: u64,
    /// Whether packets go to a group, of which the middle engine and the last are members.
    pub group: bool,
    /// Whether each row is also measured with a coded lane after the middle engine.
    pub protect: bool,
    /// Whether the cost of the end-to-end seal at each engine is measured for each row.
    pub ends: bool,
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
            protect: false,
            ends: false,
        }
    }
}

/// The results.
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
    /// Packets that did not arrive.
    pub lost: u64,
    /// The same with a coded lane, if requested.
    pub coded: Option<Coded>,
    /// The cost of the end-to-end seal, if requested.
    pub ends: Option<Ends>,
}

/// Time per packet that the end-to-end seal adds at each engine of the chain.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Ends {
    /// At the first engine, where it seals.
    pub entry_ns: f64,
    /// At the middle engine, which passes it on.
    pub middle_ns: f64,
    /// At the last engine, where it opens.
    pub exit_ns: f64,
}

/// The same packets, followed by repair packets.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Coded {
    /// Repair packets per packet.
    pub repair: f64,
    /// Time per packet, repair packets included.
    pub ns_per_packet: f64,
    /// The ratio to the time without repair packets.
    pub ratio: f64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "engine alone: opened, judged, kept, sealed; {} packets/s of virtual time",
            self.rate_pps
        )?;
        let mut head = vec!["payload", "burst", "ns/packet", "lost"];
        let is_coded = self.rows.iter().any(|row| row.coded.is_some());
        if is_coded {
            head.extend(["repair", "coded ns/packet", "ratio"]);
        }
        let has_ends = self.rows.iter().any(|row| row.ends.is_some());
        if has_ends {
            head.extend(["seal: entry +ns", "middle +ns", "exit +ns"]);
        }
        let mut table = vec![head.into_iter().map(str::to_owned).collect()];
        for row in &self.rows {
            let mut cells = vec![
                format!("{} B", row.payload_bytes),
                row.burst.to_string(),
                format!("{:.0}", row.ns_per_packet),
                row.lost.to_string(),
            ];
            if let Some(coded) = &row.coded {
                cells.push(format!("{:.2}", coded.repair));
                cells.push(format!("{:.0}", coded.ns_per_packet));
                cells.push(format!("{:.2}", coded.ratio));
            }
            if let Some(ends) = &row.ends {
                let added = [ends.entry_ns, ends.middle_ns, ends.exit_ns];
                cells.extend(added.map(|ns| format!("{ns:+.0}")));
            }
            table.push(cells);
        }
        f.write_str(&align(&table))
    }
}

/// Runs the measurement.
///
/// # Errors
/// [`BenchError`], if the three nodes do not connect or a payload does not fit.
pub fn run(options: &Options, progress: Progress) -> Result<Report, BenchError> {
    let mut rows = Vec::new();
    for &payload in &options.payloads {
        for &burst in &options.bursts {
            progress.step(&format!("{payload} bytes, bursts of {burst}"));
            let plain = measure(options, (payload, burst), false)?;
            let coded = match options.protect {
                true => Some(measure(options, (payload, burst), true)?),
                false => None,
            };
            let coded = coded.map(|coded| Coded {
                repair: coded.repairs as f64 / coded.packets.max(1) as f64,
                ns_per_packet: coded.ns_per_packet,
                ratio: coded.ns_per_packet / plain.ns_per_packet,
            });
            let ends = match options.ends {
                true => Some(cost_of_ends(options, (payload, burst))?),
                false => None,
            };
            rows.push(Row {
                payload_bytes: payload,
                burst,
                packets: plain.packets,
                ns_per_packet: plain.ns_per_packet,
                lost: plain.lost,
                coded,
                ends,
            });
        }
    }
    Ok(Report {
        rate_pps: options.rate_pps,
        rows,
    })
}

/// The time of the middle engine per packet, repair packets included, and the packet counts.
struct Measured {
    ns_per_packet: f64,
    packets: u64,
    lost: u64,
    repairs: u64,
}

fn measure(
    options: &Options,
    (payload, burst): (usize, usize),
    coded: bool,
) -> Result<Measured, BenchError> {
    let how = How {
        group: options.group,
        coded,
        plain_ends: false,
    };
    let mut replay = Replay::new(how, payload, burst, options.flows, options.rate_pps)?;
    warm_up(&mut replay, options.rate_pps, coded)?;
    let before = (replay.packets(), replay.lost(), replay.repairs());
    let mut turns = Vec::new();
    while replay.packets() - before.0 < options.packets {
        turns.push(replay.turn(|| {})?.middle);
    }
    Ok(Measured {
        ns_per_packet: median_ns(turns) / (MESSAGES_PER_TURN * burst) as f64,
        packets: replay.packets() - before.0,
        lost: replay.lost() - before.1,
        repairs: replay.repairs() - before.2,
    })
}

/// Measures what the end-to-end seal adds at each engine: two chains take turns, one with it and one without.
fn cost_of_ends(options: &Options, (payload, burst): (usize, usize)) -> Result<Ends, BenchError> {
    let chain = |plain_ends| {
        let how = How {
            group: options.group,
            coded: false,
            plain_ends,
        };
        let mut chain = Replay::new(how, payload, burst, options.flows, options.rate_pps)?;
        warm_up(&mut chain, options.rate_pps, false)?;
        Ok::<Replay, BenchError>(chain)
    };
    let mut chains = [chain(true)?, chain(false)?];
    let mut turns: [[Vec<Duration>; 3]; 2] = Default::default();
    let before = chains[0].packets();
    while chains[0].packets() - before < options.packets {
        for (chain, turns) in chains.iter_mut().zip(&mut turns) {
            let spent = chain.turn(|| {})?;
            let spent = [spent.entry, spent.middle, spent.exit];
            turns
                .iter_mut()
                .zip(spent)
                .for_each(|(all, one)| all.push(one));
        }
    }
    let per_turn = (MESSAGES_PER_TURN * burst) as f64;
    let [plain, sealed] = turns.map(|engines| engines.map(|turns| median_ns(turns) / per_turn));
    Ok(Ends {
        entry_ns: sealed[0] - plain[0],
        middle_ns: sealed[1] - plain[1],
        exit_ns: sealed[2] - plain[2],
    })
}

fn warm_up(replay: &mut Replay, rate_pps: u64, coded: bool) -> Result<(), BenchError> {
    let length = match coded {
        true => WARM_UP_CODED,
        false => WARM_UP,
    };
    let packets = rate_pps * length.as_nanos() / 1_000_000_000;
    while replay.packets() < packets {
        replay.turn(|| {})?;
    }
    Ok(())
}

fn median_ns(mut turns: Vec<Duration>) -> f64 {
    turns.sort_unstable();
    let median = turns.get(turns.len() / 2);
    median.map_or(0.0, |median| median.as_nanos() as f64)
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
            protect: true,
            ends: true,
        };
        let report = run(&options, Progress::Silent).unwrap();
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["rows"][0]["burst"], 4);
        assert_eq!(json["rows"][0]["lost"], 0);
        assert!(json["rows"][0]["ns_per_packet"].as_f64().unwrap() > 0.0);
        let coded = &json["rows"][0]["coded"];
        let repair = coded["repair"].as_f64().unwrap();
        assert!((repair - 0.3).abs() < 0.03, "{json}");
        assert!(json["rows"][0]["ends"]["exit_ns"].is_f64(), "{json}");
        assert!(report.to_string().contains("coded ns/packet"));
    }
}
