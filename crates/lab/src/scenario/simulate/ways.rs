//! Which way the packets of each flow take by the nodes' tables, and how often it changed.
//!
//! Nodes keep a tree per metric to every destination. Most of them carry nothing, and that one of those has
//! changed is nobody's concern; that a call has another way is.

use super::network::{Network, Party};
use crate::scenario::{Carrier, Flow, Scenario};
use base::NodeAddr;
use graph::Metric;
use sim::{Either, World};
use wire::data::Routing;

/// The ways of all flows, in the file's order.
#[derive(Default)]
pub(super) struct Ways(Vec<Way>);

#[derive(Clone, Default)]
struct Way {
    /// The nodes behind the first one; none while there is no way.
    nodes: Option<Vec<NodeAddr>>,
    changes: u64,
}

impl Ways {
    /// Looks where packets would go now.
    pub(super) fn follow(
        &mut self,
        scenario: &Scenario,
        world: &World<Party>,
        network: &Network<'_>,
    ) {
        self.0.resize(scenario.flows.len(), Way::default());
        for (way, flow) in self.0.iter_mut().zip(&scenario.flows) {
            // While there is no way, packets go nowhere: the next way counts if it is another than the last.
            let Some(nodes) = nodes(scenario, world, network, flow) else {
                continue;
            };
            let old = way.nodes.replace(nodes);
            way.changes += u64::from(old.is_some() && old != way.nodes);
        }
    }

    /// How often the way of each flow became another; none of a flow that had none by table.
    pub(super) fn changes(&self) -> impl Iterator<Item = Option<u64>> {
        self.0
            .iter()
            .map(|way| way.nodes.as_ref().map(|_| way.changes))
    }
}

/// The nodes behind the first that a packet passes, up to its receiver; none if it does not get there, or does
/// not go by table to one receiver.
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
        // Tables that are being changed may form a circle for a moment.
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
        // The other end has another way too, and trees by other metrics have changed.
        assert!(report.overlay.route_changes > 1);
    }
}
