//! Dissemination graphs with targeted redundancy [Babay et al. 2017]: how much of flooding's gain over one path they
//! achieve, and at what cost.
//!
//! ```text
//!   one scenario per scheme and run ──▶ flows of the same packets ──▶ missed, by when they were sent
//!                                                                ──▶ bytes on all links per byte delivered
//! ```
//!
//! The nodes are production nodes in the simulator. A packet is missed if it is lost or arrives after its deadline.
//! Bytes are those of all datagrams except control packets, which every scheme sends: they include retransmissions and
//! repair packets.

mod cities;
mod edge;
mod groups;

use super::{CellError, ClaimText, Experiment, Verdict};
use crate::scenario::{Call, Scenario, Simulation};
use base::Duration;

/// The experiments.
pub(super) const EXPERIMENTS: &[&dyn Experiment] = &[&edge::EDGE, &cities::CITIES, &groups::GROUPS];

const SOURCE: &str = "Babay17";
/// The schemes that are compared.
const SCHEMES: [&str; 4] = ["best", "disjoint", "targeted", "flooding"];
/// Interval of a call's packets.
const PACKET_MS: u64 = 20;
/// Bytes of a packet.
const PACKET_BYTES: u64 = 160;

/// The claims.
pub(super) fn claims() -> impl Iterator<Item = &'static ClaimText> {
    edge::CLAIMS
        .iter()
        .chain(cities::CLAIMS)
        .chain(groups::CLAIMS)
}

/// The result of a run.
struct Run {
    /// The packets of each flow.
    calls: Vec<Call>,
    /// Bytes carried up to each of some moments, and to the end.
    bytes: Vec<u64>,
}

/// Runs a scenario, and counts the bytes that its links carried up to these moments of its time.
fn run(text: &str, seed: u64, moments: &[u64]) -> Result<Run, CellError> {
    let scenario = Scenario::parse("babay17", text);
    let scenario = scenario.map_err(|error| CellError(error.to_string()))?;
    let mut simulation = Simulation::new(&scenario, seed);
    let settle_ms = scenario.settle.as_millis();
    let mut bytes = Vec::new();
    let mut at_ms = 0;
    for moment in moments {
        let until_ms = settle_ms + moment * 1_000;
        simulation.run_for(Duration::from_millis(until_ms - at_ms));
        at_ms = until_ms;
        bytes.push(simulation.carried_bytes());
    }
    while simulation.run_for(Duration::from_secs(3_600)) {}
    bytes.push(simulation.carried_bytes());
    let (_, calls) = simulation.finish_with_calls();
    Ok(Run {
        calls: calls.into_iter().flatten().collect(),
        bytes,
    })
}

/// Returns the packets of a call that were sent in a range of seconds, and how many of them were missed.
fn missed(call: &Call, deadline_ms: u64, seconds: core::ops::Range<u64>) -> (u64, u64) {
    let place = |second: u64| (second * 1_000 / PACKET_MS) as usize;
    let range = place(seconds.start).min(call.len())..place(seconds.end).min(call.len());
    let sent = &call[range];
    let is_late = |delay: &Option<u32>| delay.is_none_or(|us| u64::from(us) > deadline_ms * 1_000);
    let missed = sent.iter().filter(|delay| is_late(delay)).count();
    (sent.len() as u64, missed as u64)
}

/// Returns the bytes on all links per byte delivered.
fn cost(bytes: u64, delivered: u64) -> f64 {
    bytes as f64 / (delivered * PACKET_BYTES).max(1) as f64
}

fn percent(missed: u64, sent: u64) -> f64 {
    100.0 * missed as f64 / sent.max(1) as f64
}

/// Returns verdicts for an experiment without a cell: no claim is judged.
fn untested(claims: &[ClaimText]) -> Vec<Verdict> {
    let all = claims.iter();
    all.map(|claim| Verdict::untested(claim.key, "no cell"))
        .collect()
}
