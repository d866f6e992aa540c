//! What the demonstration found: the documented JSON, and the table.
//!
//! docs/demo.md defines every number; the keys are a contract.

use serde::Serialize;
use std::fmt;
use std::path::PathBuf;

/// Everything that the demonstration found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DemoResult {
    /// What was done.
    pub scenario: Scenario,
    /// The calls over plain UDP.
    pub direct: PathResult,
    /// The same calls over the overlay.
    pub overlay: PathResult,
    /// The same speech through the codec alone.
    pub ceiling: Ceiling,
    /// Where the report was written.
    #[serde(skip)]
    pub report: PathBuf,
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scenario {
    /// Nodes, each a process.
    pub nodes: u32,
    /// The chain that they form.
    pub chain: String,
    /// Delay of each of its links.
    pub hop_delay_ms: f64,
    /// The link that loses.
    pub lossy_link: String,
    /// Delay of the direct path.
    pub direct_delay_ms: f64,
    /// Loss in percent, on the lossy link and on the direct path.
    pub loss_pct: f64,
    /// Chance in percent that the datagram after a lost one is lost too.
    pub burst_pct: f64,
    /// Calls in parallel, on each path.
    pub calls: u32,
    /// Their length.
    pub seconds: u32,
    /// How long after its sending a packet is played.
    pub deadline_ms: f64,
    /// The codec.
    pub codec: String,
    /// Speech in each packet.
    pub packet_ms: f64,
    /// The recording.
    pub speech: String,
}

/// One path's calls, judged together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PathResult {
    /// Packets sent.
    pub sent: u64,
    /// Percent of them that never arrived.
    pub lost_pct: f64,
    /// Percent of them that arrived after their playout time.
    pub late_pct: f64,
    /// One-way delay of those that arrived.
    pub delay_ms: DelayMs,
    /// Interarrival jitter (RFC 3550), mean.
    pub jitter_ms: f64,
    /// The E-model's rating, mean over the calls.
    pub r_factor: f64,
    /// The E-model's mean opinion score, mean over the calls.
    pub mos: f64,
    /// Raw P.862.
    pub pesq: Score,
    /// P.862.1.
    pub mos_lqo: Score,
    /// Bytes on the wire per byte of payload.
    pub wire_bytes_ratio: f64,
}

/// One-way delay; nothing when no packet arrived.
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

/// A score over the segments of all calls.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Score {
    /// Arithmetic mean.
    pub mean: f64,
    /// 5th percentile.
    pub p5: f64,
}

/// What no call over this codec can exceed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ceiling {
    /// Raw P.862.
    pub pesq: Score,
}

impl DemoResult {
    /// The documented JSON, on lines of its own.
    #[must_use]
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data with text keys")
    }
}

impl fmt::Display for DemoResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.json())
    }
}
