//! The result of a scenario: a table for people, JSON for programs.

use super::meter::{DelayMs, Judgement, rounded};
use super::{Carrier, Column, Flow, Scenario};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use tools::table;

/// The result of a scenario. The keys of its JSON are a contract; docs/scenario.md defines each.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The scenario's name.
    pub scenario: String,
    /// The seed of all randomness.
    pub seed: u64,
    /// How long it lasted after settling.
    pub duration_s: f64,
    /// Number of nodes.
    pub nodes: usize,
    /// Number of links.
    pub links: usize,
    /// The flows, in the file's order.
    pub flows: Vec<FlowReport>,
    /// The overlay as a whole.
    pub overlay: OverlayReport,
    /// Wake-ups of the simulator: timers, arrivals, requests.
    pub events: u64,
    /// Datagrams that arrived at a host.
    pub datagrams: u64,
    /// A hash of every arrival: equal runs have equal hashes.
    pub trace_hash: String,
    #[serde(skip)]
    pub(crate) columns: Vec<Column>,
}

/// One flow.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowReport {
    /// Its name.
    pub name: String,
    /// The sending node.
    pub from: String,
    /// The receiving node; for a group, all receiving nodes.
    pub to: String,
    /// `overlay`, `direct` or `tcp`.
    pub carrier: &'static str,
    /// Number of streams.
    pub count: usize,
    /// The time after which its packets are late.
    pub deadline_ms: Option<f64>,
    /// Payload per second that arrived in the judged span.
    pub goodput_bps: f64,
    /// How often the path of its packets by table changed; `None` if this is not known.
    pub route_changes: Option<u64>,
    /// The results of its packets.
    #[serde(flatten)]
    pub packets: Judgement,
}

/// The overlay as a whole, from the scenario's beginning.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OverlayReport {
    /// Bytes of all datagrams between nodes, without UDP and IP headers.
    pub wire_bytes: u64,
    /// Payload bytes that hops carried: each byte once per hop.
    pub payload_bytes: u64,
    /// The first divided by the second: the cost of a byte of payload per hop.
    pub wire_bytes_per_payload_byte: Option<f64>,
    /// Bytes of retransmitted packets.
    pub retransmitted_bytes: u64,
    /// Bytes of repair packets, sent without a request.
    pub repair_bytes: u64,
    /// Bytes of control datagrams.
    pub control_bytes: u64,
    /// Packets that nodes requested from their neighbours, each request counted.
    pub requested: u64,
    /// Packets that were retransmitted.
    pub retransmitted: u64,
    /// Repair packets that were sent.
    pub repair: u64,
    /// Packets that a hop had lost and that arrived in the end.
    pub recovered: u64,
    /// How often links came up, counted at each end.
    pub links_up: u64,
    /// How often links went down, counted at each end.
    pub links_down: u64,
    /// How often nodes changed their routes.
    pub route_changes: u64,
    /// Packets that should have been stamped but were forwarded by table, because there was no stamp.
    pub unstamped: u64,
    /// Packets that nodes dropped, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
}

impl FlowReport {
    pub(crate) fn of(scenario: &Scenario, flow: &Flow, packets: Judgement) -> FlowReport {
        FlowReport {
            name: flow.name.clone(),
            from: scenario.nodes[flow.from].name.clone(),
            to: {
                let names = flow
                    .receivers()
                    .map(|node| scenario.nodes[node].name.as_str());
                names.collect::<Vec<_>>().join(" + ")
            },
            carrier: match flow.carrier {
                Carrier::Overlay(_) => "overlay",
                Carrier::Direct(_) => "direct",
                Carrier::Tcp(..) => "tcp",
            },
            count: flow.count,
            deadline_ms: flow.deadline.map(|d| d.as_secs_f64() * 1e3),
            goodput_bps: goodput_bps(scenario, flow, &packets),
            route_changes: None,
            packets,
        }
    }
}

/// Returns the payload of all receivers together, per second of the judged span.
fn goodput_bps(scenario: &Scenario, flow: &Flow, packets: &Judgement) -> f64 {
    let (from, until) = flow.judged(scenario.measure.from);
    let bytes = match flow.is_bulk {
        true => packets.bulk_bytes,
        false => packets.received_bytes,
    };
    let span = until.saturating_sub(from).as_secs_f64();
    rounded(bytes as f64 * 8.0 / span.max(1e-9), 0)
}

impl Report {
    /// Returns the documented JSON, with line breaks.
    #[must_use]
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a report has text keys and plain values only")
    }

    pub(crate) fn head(scenario: &Scenario, seed: u64) -> Report {
        Report {
            scenario: scenario.name.clone(),
            seed,
            duration_s: scenario.duration.as_secs_f64(),
            nodes: scenario.nodes.len(),
            links: scenario.links.len(),
            flows: Vec::new(),
            overlay: OverlayReport::default(),
            events: 0,
            datagrams: 0,
            trace_hash: String::new(),
            columns: scenario.measure.columns.clone(),
        }
    }
}

impl Column {
    fn titles(self) -> &'static [&'static str] {
        match self {
            Column::Sent => &["sent"],
            Column::Lost => &["lost %"],
            Column::Late => &["late %"],
            Column::Delay => &["mean ms", "p50", "p95", "p99"],
            Column::Jitter => &["jitter ms"],
            Column::Duplicates => &["duplicates"],
            Column::Reordered => &["reordered"],
            Column::Gaps => &["gaps", "longest ms"],
            Column::Rate => &["Mbit/s"],
        }
    }

    fn cells(self, flow: &FlowReport) -> Vec<String> {
        let packets = &flow.packets;
        let delay = |ms: Option<f64>| ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.1}"));
        let DelayMs {
            mean,
            p50,
            p95,
            p99,
            ..
        } = packets.delay_ms;
        match self {
            Column::Sent => vec![packets.sent.to_string()],
            Column::Lost => vec![format!("{:.2}", packets.lost_pct)],
            Column::Late => vec![format!("{:.2}", packets.late_pct)],
            Column::Delay => [mean, p50, p95, p99].map(delay).to_vec(),
            Column::Jitter => vec![format!("{:.2}", packets.jitter_ms)],
            Column::Duplicates => vec![packets.duplicates.to_string()],
            Column::Reordered => vec![packets.reordered.to_string()],
            Column::Gaps => vec![
                packets.gaps.to_string(),
                format!("{:.0}", packets.longest_gap_ms),
            ],
            Column::Rate => vec![format!("{:.3}", flow.goodput_bps / 1e6)],
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: {} nodes, {} links, {} s, seed {}\n",
            self.scenario, self.nodes, self.links, self.duration_s, self.seed
        )?;
        let titles = self.columns.iter().flat_map(|column| column.titles());
        let mut rows = vec![vec!["flow".to_owned()]];
        rows[0].extend(titles.map(|&title| title.to_owned()));
        for flow in &self.flows {
            let mut row = vec![flow.name.clone()];
            row.extend(self.columns.iter().flat_map(|c| c.cells(flow)));
            rows.push(row);
        }
        f.write_str(&table::fold(&rows, table::COLUMNS))?;
        for flow in self.flows.iter().filter(|flow| flow.packets.refused > 0) {
            let refused = flow.packets.refused;
            writeln!(f, "{}: its node refused {refused} requests", flow.name)?;
        }
        for flow in self.flows.iter().filter(|flow| flow.packets.reopened > 0) {
            let reopened = flow.packets.reopened;
            writeln!(f, "{}: opened again {reopened} times", flow.name)?;
        }
        writeln!(f, "\n{}", self.overlay)
    }
}

impl fmt::Display for OverlayReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(ratio) = self.wire_bytes_per_payload_byte {
            writeln!(f, "bytes on the wire per payload byte and hop: {ratio:.2}")?;
        }
        writeln!(
            f,
            "retransmitted: {}, repair packets: {}, recovered: {}; links up {}, down {}; route changes {}",
            self.retransmitted,
            self.repair,
            self.recovered,
            self.links_up,
            self.links_down,
            self.route_changes
        )?;
        if self.unstamped > 0 {
            writeln!(
                f,
                "to be source-routed, but sent by table: {}",
                self.unstamped
            )?;
        }
        let dropped: Vec<String> = self
            .dropped
            .iter()
            .map(|(reason, packets)| format!("{reason} {packets}"))
            .collect();
        if dropped.is_empty() {
            f.write_str("nodes dropped nothing")
        } else {
            write!(f, "nodes dropped: {}", dropped.join(", "))
        }
    }
}
