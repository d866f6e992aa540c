//! `sinew bench sim`: the speed of the simulator, compared with a bare event loop and ns-3.
//!
//! ```text
//!   overlay   client ─ node ─ 1 ms ─ node ─ … ten hops … ─ node ─ client     real engines, unsealed
//!   plain     host ─── 1 ms, 1 Gbit/s ─── … ten hops … ───────── host        UDP hosts, CBR
//!   heap      the same number of events through a binary heap, and nothing else
//!   ns-3      the plain chain as ns-3 has it, same packets
//! ```
//!
//! The measure is the processor time of one thread, in turns; the median counts. A packet-hop is one packet over one
//! link: the purpose of a simulation, and the unit that can be compared. An event is one entry that the simulator takes
//! from its queue; this simulator takes one per arrival of a burst, ns-3 at least two per packet and link.

mod chain;
mod cpu;
mod ns3;
mod plain;

use super::{BenchError, go_on, heading};
use serde::Serialize;
use std::fmt;
use std::path::PathBuf;
use tools::interrupt::Interrupt;
use tools::progress::Progress;
use tools::table::align;

/// Number of links from the first host to the last.
const HOPS: usize = 10;
/// Delay of each link: longer than the simulated time between two packets, so that many are under way.
const DELAY_NS: u64 = 1_000_000;
/// Rate of each link of the plain chain and of ns-3's.
const RATE_BPS: u64 = 1_000_000_000;
/// Time between two packets of the plain chain and of ns-3's.
const INTERVAL_NS: u64 = 20_000;

/// Options of the benchmark.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of payload.
    pub payload: usize,
    /// Packets that clients send at one moment; one row each.
    pub bursts: Vec<usize>,
    /// Packets of each measurement.
    pub packets: u64,
    /// Measurements of each; the median counts.
    pub repeats: usize,
    /// A Python that has the package `ns3`, or the compiled `crates/lab/peers/ns3_chain.cc`; by default the system's
    /// Python, if it has that package.
    pub ns3: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            payload: 160,
            bursts: vec![1, 16, 32],
            packets: 200_000,
            repeats: 3,
            ns3: None,
        }
    }
}

/// The results.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Links from the first host to the last.
    pub hops: usize,
    /// Bytes of payload.
    pub payload_bytes: usize,
    /// Packets of each measurement.
    pub packets: u64,
    /// Real engines, one per burst and link protocol.
    pub overlay: Vec<OverlayRow>,
    /// Plain UDP hosts.
    pub plain: Speed,
    /// A bare binary heap, with as many events as `plain`.
    pub heap: Speed,
    /// The plain chain in ns-3, if it is available.
    pub ns3: Option<Speed>,
    /// Packet-hops per second of `plain` over those of `ns3`.
    pub hops_over_ns3: Option<f64>,
    /// Events per second of `plain` over those of `ns3`.
    pub events_over_ns3: Option<f64>,
}

/// One measurement with real engines.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct OverlayRow {
    /// The link protocol of the packets.
    pub link: &'static str,
    /// Packets sent at one moment.
    pub burst: usize,
    /// The speed of the measurement.
    #[serde(flatten)]
    pub speed: Speed,
}

/// The speed of a contender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Speed {
    /// Events taken out of the queue.
    pub events: u64,
    /// Packets times links that they crossed.
    pub packet_hops: u64,
    /// Processor time.
    pub cpu_s: f64,
    /// Events per second of processor time.
    pub events_per_s: f64,
    /// Packet-hops per second of processor time.
    pub packet_hops_per_s: f64,
}

impl Speed {
    fn new(events: u64, packet_hops: u64, cpu_s: f64) -> Speed {
        let per_s = |count: u64| (count as f64 / cpu_s.max(1e-9)).round();
        Speed {
            events,
            packet_hops,
            cpu_s,
            events_per_s: per_s(events),
            packet_hops_per_s: per_s(packet_hops),
        }
    }

    fn cells(&self) -> [String; 3] {
        let millions = |per_s: f64| match per_s {
            0.0 => "-".to_owned(),
            per_s => format!("{:.2}", per_s / 1e6),
        };
        [
            millions(self.packet_hops_per_s),
            millions(self.events_per_s),
            format!("{:.2}", self.cpu_s),
        ]
    }
}

/// Runs the measurement.
///
/// # Errors
/// [`BenchError`], if an option is invalid, or packets do not arrive.
pub fn run(options: &Options, progress: Progress) -> Result<Report, BenchError> {
    check(options)?;
    let interrupt = Interrupt::install()?;
    let peer = ns3::Peer::find(options.ns3.as_deref())?;
    let mut rows: Vec<(&'static str, usize, Vec<Speed>)> = Vec::new();
    for link in ["best-effort", "real-time"] {
        rows.extend(
            options
                .bursts
                .iter()
                .map(|&burst| (link, burst, Vec::new())),
        );
    }
    let (mut plain, mut heap, mut ns3) = (Vec::new(), Vec::new(), Vec::new());
    for turn in 1..=options.repeats {
        for (link, burst, speeds) in &mut rows {
            go_on(&interrupt)?;
            progress.step(&format!("{turn}: engines, {link}, bursts of {burst}"));
            speeds.push(chain::measure(options, link, *burst)?);
        }
        go_on(&interrupt)?;
        progress.step(&format!("{turn}: plain hosts, and a bare heap"));
        let speed = plain::measure(options.packets, options.payload)?;
        heap.push(plain::heap(speed.events)?);
        plain.push(speed);
        if let Some(peer) = &peer {
            progress.step(&format!("{turn}: ns-3"));
            ns3.push(peer.measure(options.packets, options.payload)?);
        }
    }
    let (plain, heap, ns3) = (median(&plain), median(&heap), median(&ns3));
    let plain = plain.unwrap_or_default();
    let ratio = |of: fn(&Speed) -> f64| ns3.map(|ns3| round(of(&plain) / of(&ns3).max(1.0)));
    Ok(Report {
        hops: HOPS,
        payload_bytes: options.payload,
        packets: options.packets,
        overlay: rows
            .into_iter()
            .filter_map(|(link, burst, speeds)| {
                let speed = median(&speeds)?;
                Some(OverlayRow { link, burst, speed })
            })
            .collect(),
        plain,
        heap: heap.unwrap_or_default(),
        ns3,
        hops_over_ns3: ratio(|speed| speed.packet_hops_per_s),
        events_over_ns3: ratio(|speed| speed.events_per_s),
    })
}

fn check(options: &Options) -> Result<(), BenchError> {
    let most = overlay::node::MAX_PAYLOAD;
    let fits = |burst: &usize| (1..=chain::BURST_MAX).contains(burst);
    if options.payload == 0
        || options.payload > most
        || options.packets == 0
        || options.repeats == 0
        || options.bursts.is_empty()
        || !options.bursts.iter().all(fits)
    {
        return Err(BenchError::Option(format!(
            "choose a payload of 1 to {most} bytes, bursts of 1 to {}, at least one packet and \
             one repetition",
            chain::BURST_MAX
        )));
    }
    Ok(())
}

fn median(speeds: &[Speed]) -> Option<Speed> {
    let mut sorted = speeds.to_vec();
    sorted.sort_by(|a, b| a.cpu_s.total_cmp(&b.cpu_s));
    sorted.get(sorted.len() / 2).copied()
}

fn round(ratio: f64) -> f64 {
    tools::quality::round(ratio, 2)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} packets of {} bytes over {} hops; per second of one processor, in millions\n",
            self.packets, self.payload_bytes, self.hops
        )?;
        let mut table = vec![heading(["", "packet-hops", "events", "cpu s"])];
        let mut row = |what: String, speed: &Speed| {
            let mut cells = vec![what];
            cells.extend(speed.cells());
            table.push(cells);
        };
        for OverlayRow { link, burst, speed } in &self.overlay {
            row(format!("engines, {link}, bursts of {burst}"), speed);
        }
        row("plain UDP hosts, CBR".to_owned(), &self.plain);
        row("a bare binary heap".to_owned(), &self.heap);
        if let Some(ns3) = &self.ns3 {
            row("ns-3, the plain chain".to_owned(), ns3);
        }
        f.write_str(&align(&table))?;
        match (self.hops_over_ns3, self.events_over_ns3) {
            (Some(hops), Some(events)) => writeln!(
                f,
                "\nplain hosts over ns-3: {hops} times the packet-hops, {events} times the events"
            ),
            _ => writeln!(
                f,
                "\nns-3 is not here: `pip install ns3`, or --ns3 with a Python that has it"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_is_a_table_and_has_stable_keys() {
        let options = Options {
            bursts: vec![4],
            packets: 400,
            repeats: 1,
            ns3: Some("/nonexistent".into()),
            ..Options::default()
        };
        let absent = ns3::Peer::find(options.ns3.as_deref());
        assert!(matches!(absent, Err(BenchError::Option(_))));
        let options = Options {
            ns3: None,
            ..options
        };
        let speeds = [
            chain::measure(&options, "best-effort", 4).unwrap(),
            chain::measure(&options, "real-time", 4).unwrap(),
            plain::measure(options.packets, 160).unwrap(),
        ];
        assert!(speeds.iter().all(|speed| speed.packet_hops == 4_000));
        let report = Report {
            hops: HOPS,
            payload_bytes: 160,
            packets: 400,
            overlay: vec![OverlayRow {
                link: "real-time",
                burst: 4,
                speed: speeds[0],
            }],
            plain: speeds[2],
            heap: plain::heap(speeds[2].events).unwrap(),
            ns3: None,
            hops_over_ns3: None,
            events_over_ns3: None,
        };
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["overlay"][0]["packet_hops"], 4_000);
        assert_eq!(json["plain"]["events"], json["heap"]["events"]);
        assert!(report.to_string().contains("ns-3 is not here"));
    }
}
