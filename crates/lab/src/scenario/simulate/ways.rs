//! The paths that the packets of each flow take by the nodes' tables, and how often they changed.
//!
//! Nodes keep a tree per metric to every destination. Most trees carry nothing, and their changes do not matter; a
//! change of a call's path does.

use super::network::{Network, Party};
use crate::scenario::{Carrier, Flow, Scenario};
use base::NodeAddr;
use graph::Metric;
use sim::{Either, World};
use wire::data::Routing;

/// The paths of all flows, in the file's order.
#[derive(Default)]
pub(super) struct Ways(Vec<Way>);

#[derive(Clone, Default)]
struct Way {
    /// The nodes after the first one; `None` while there is no path.
    nodes: Option<Vec<NodeAddr>>,
    changes: u64,
}

impl Ways {
    /// Determines the present paths of packets.
    pub(super) fn follow(
        &mut self,
        scenario: &Scenario,
        world: &World<Party>,
        network: &Network<'_>,
    ) {
        self.0.resize(scenario.flows.len(), Way::default());
        for (way, flow) in self.0.iter_mut().zip(&scenario.flows) {
            // While there is no path, packets are dropped: the next path counts as a change if it differs from the last
            // one.
            let Some(nodes) = nodes(scenario, world, network, flow) else {
                continue;
            };
            let old = way.nodes.replace(nodes);
            way.changes += u64::from(old.is_some() && old != way.nodes);
        }
    }

    /// Returns how often the path of each flow changed; `None` for a flow that had no path by table.
    pub(super) fn changes(&self) -> impl Iterator<Item = Option<u64>> {
        self.0
            .iter()
            .map(|way| way.nodes.as_ref().map(|_| way.changes))
    }
}

/// Returns the nodes after the first that a packet passes, up to its receiver; `None` if it does not get there, or is
/// not forwarded by table to one receiver.
fn nodes(
    scenario: &Scenario,
    world: &World<Party>,
    network: &Network<'_>,
    flow: &Flow,
) -> Option<Vec<NodeAddr>> {
    let Carrier::Overlay(options) = &flow.carrier else {
        return None;
    };
    let metric = match options.class.routing {
        Routing::Hops => Metric::Hops,
        Routing::Latency => Metric::Latency,
        Routing::Loss => Metric::Loss,
        Routing::ExpectedLatency => Metric::ExpectedLatency,
        Routing::Width | Routing::Stamped => return None,
    };
    if !flow.also.is_empty() {
        return None;
    }
    let to = scenario.nodes[flow.to].address;
    let mut nodes = Vec::new();
    let mut at = flow.from;
    while at != flow.to {
        // Tables that are being changed may form a loop for a moment.
        if nodes.len() == scenario.nodes.len() {
            return None;
        }
        let Some(Either::A(node)) = world.engine(network.hosts[at]) else {
            return None;
        };
        let next = node.next_hop(metric, to)?;
        nodes.push(next);
        at = scenario
            .nodes
            .iter()
            .position(|node| node.address == next)?;
    }
    Some(nodes)
}

#[cfg(test)]
mod tests {
    use crate::scenario::{Scenario, simulate};

    #[test]
    fn the_way_of_a_call_changes_with_its_link_and_that_of_a_direct_flow_never() {
        let text = r#"
            [scenario]
            name = "ways"
            duration = "20s"
            [topology]
            kind = "full-mesh"
            nodes = 3
            delay = "10ms"
            [[flow]]
            name = "call"
            from = "n0"
            to = "n1"
            [[flow]]
            name = "beside"
            from = "n2"
            to = "n1"
            [[flow]]
            name = "udp"
            from = "n0"
            to = "n1"
            direct = true
            path = "delay=10ms"
            [[fault]]
            at = "5s"
            kind = "link-down"
            a = "n0"
            b = "n1"
        "#;
        let scenario = Scenario::parse("ways", text).unwrap();
        let report = simulate(&scenario, 1);
        let changes: Vec<_> = report.flows.iter().map(|flow| flow.route_changes).collect();
        assert_eq!(changes, [Some(1), Some(0), None]);
        // The other end has another path too, and trees by other metrics have changed.
        assert!(report.overlay.route_changes > 1);
    }
}
