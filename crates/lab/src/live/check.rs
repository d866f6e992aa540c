//! Finds the parts of a scenario that real nodes do not support, by their keys, before anything is started.

use crate::scenario::{BothWays, Carrier, FaultKind, Flow, Scenario};
use base::Duration;
use base::impair::Model;

/// Most node processes: each has a dozen threads and descriptors, and all share this machine.
pub(super) const NODES_MAX: usize = 100;
/// Most streams of all flows: each is a client at both ends, or two sockets.
pub(super) const STREAMS_MAX: usize = 1_000;

/// The key that is not supported, with its item, and the reason.
type Refusal = (String, String);

/// Checks whether real nodes on one machine support the whole scenario.
pub(crate) fn can_run(scenario: &Scenario) -> Result<(), Refusal> {
    let refuse = |key: String, what: String| Err((key, what));
    let nodes = scenario.nodes.len();
    if nodes > NODES_MAX {
        let what =
            format!("{nodes} node processes are more than the limit of {NODES_MAX}: simulate it");
        return refuse("node".into(), what);
    }
    if !scenario.sealing {
        let what = "real nodes always seal: leave it out, or simulate it";
        return refuse("scenario: sealing".into(), what.into());
    }
    for node in &scenario.nodes {
        let keys = [
            ("clock_ahead", node.clock_ahead != Duration::ZERO),
            ("clock_drift_ppm", node.clock_drift_ppm != 0),
        ];
        if let Some((key, _)) = keys.into_iter().find(|(_, set)| *set) {
            let what = "all nodes have this machine's clock: leave it out, or simulate it";
            return refuse(format!("node {}: {key}", node.name), what.into());
        }
    }
    let name = |node: usize| &scenario.nodes[node].name;
    for link in &scenario.links {
        if link.second.is_some() {
            let what = "real nodes on loopback have one uplink: leave it out, or simulate it";
            let key = format!("link {}-{}: second", name(link.a), name(link.b));
            return refuse(key, what.into());
        }
        path(&link.path, || {
            format!("link {}-{}", name(link.a), name(link.b))
        })?;
    }
    for flow in &scenario.flows {
        if !flow.also.is_empty() {
            let what =
                "flows to groups are for the simulator: simulate it, or give each receiver a flow";
            return refuse(format!("flow {}: also", flow.name), what.into());
        }
        if let Carrier::Tcp(..) = flow.carrier {
            let what =
                "the simulator's TCP is for the simulator: simulate it, or leave the flow out";
            return refuse(format!("flow {}: tcp", flow.name), what.into());
        }
        if let Carrier::Direct(both) = &flow.carrier {
            path(both, || format!("flow {}", flow.name))?;
        }
    }
    let streams: usize = scenario.flows.iter().map(|flow: &Flow| flow.count).sum();
    if streams > STREAMS_MAX {
        let what = format!(
            "{streams} streams are more than the limit of {STREAMS_MAX} for real clients: simulate \
             it"
        );
        return refuse("flow: count".into(), what);
    }
    for fault in &scenario.faults {
        let at = format!("fault at {}", fault.at);
        match &fault.kind {
            FaultKind::Set(_, both) | FaultKind::Follow(_, both) => path(both, || at.clone())?,
            FaultKind::Down(_)
            | FaultKind::Up(_)
            | FaultKind::Crash(_)
            | FaultKind::Restart(_)
            | FaultKind::Stall(..)
            | FaultKind::Partition(_)
            | FaultKind::Heal => {}
        }
    }
    Ok(())
}

/// Refuses scheduled outages of a path: they count from the scenario's zero, which the nodes do not know.
fn path(both: &BothWays, what: impl Fn() -> String) -> Result<(), Refusal> {
    let scheduled = |model: &Model| !model.outages().is_empty();
    let key = match (scheduled(&both.there), scheduled(&both.back)) {
        (true, _) => "path",
        (false, true) => "back",
        (false, false) => return Ok(()),
    };
    let why = "`outage=10s..12s` is for the simulator: use the faults `link-down` and `link-up`";
    Err((format!("{}: {key}", what()), why.into()))
}
