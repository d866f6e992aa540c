//! An overlay of 20 nodes on a network of 50, as in [Liu04 §V-B]: 217 links, equal capacities, delays
//! by distance, and losses of 0 to 2 %.
//!
//! ```text
//!   transit-stub network ─▶ routes by the fewest links ─▶ a logical link between any two overlay nodes:
//!        50 nodes                                          half the round trip, the sum of losses, physical hops
//! ```
//!
//! Choice: one transit domain of two nodes, three stubs of eight nodes on each, and as many links between stubs as make
//! 217; the longest distances are between stubs. Delays are the distances, scaled to 10 ms on average, as on the links
//! of §V-A.

use super::chain::{self, BUFFER_SEGMENTS, relayed, wire};
use crate::experiment::CellError;
use base::{Duration, NodeAddr, Rng, Time};
use graph::generate::Network;
use graph::generate::transit_stub::TransitStub;
use graph::width::model::Formula;
use graph::width::{Known, Width};
use graph::{LinkCost, Parameters, Topology};
use sim::HostId;
use sim::tcp::{self, Settings, Traffic};
use std::collections::VecDeque;

/// Links of the underlay. [Liu04 §V-B]
pub(super) const LINKS: usize = 217;
/// Nodes of the underlay. [Liu04 §V-B]
pub(super) const NODES: usize = 50;
/// Nodes of the overlay. [Liu04 §V-B]
pub(super) const OVERLAY_NODES: usize = 20;
/// The rate of every link. [Liu04 §V-B]
pub(super) const LINK_BPS: u64 = 10_000_000;
/// The largest loss of a link. [Liu04 §V-B]
pub(super) const LOSS_MAX: f64 = 0.02;
/// Number of sender-receiver pairs. The paper chooses "two pairs" and shows "three".
pub(super) const PAIRS: usize = 3;
/// Number of packets that wait for a link: ns-2's 50.
const QUEUE_PACKETS: usize = 50;
const MEAN_DELAY_US: u64 = 10_000;

const SHAPE: TransitStub = TransitStub {
    transit_domains: 1,
    transit_nodes: 2,
    stubs_per_transit_node: 3,
    stub_nodes: 8,
    vary: false,
    extra_transit_stub: 0,
    extra_stub_stub: 0,
    domain_probability: 1.0,
    transit_probability: 1.0,
    stub_probability: 0.85,
    side_km: 4_000.0,
    km_per_ms: 200.0,
};

/// The network, and the overlay on it.
#[derive(Clone, Debug)]
pub(super) struct Underlay {
    network: Network,
    losses: Vec<f64>,
    /// The overlay's nodes, by their numbers in the underlay.
    pub(super) overlay: Vec<usize>,
    /// The senders and receivers among them.
    pub(super) pairs: Vec<(usize, usize)>,
    /// The next hop from each node to each other one.
    next: Vec<Vec<usize>>,
}

impl Underlay {
    /// Creates the network of a seed.
    pub(super) fn new(seed: u64) -> Result<Underlay, CellError> {
        let failed = |error: graph::generate::BadShape| CellError(error.to_string());
        let bare = SHAPE.generate(&mut Rng::new(seed)).map_err(failed)?;
        let shape = TransitStub {
            extra_stub_stub: LINKS.saturating_sub(bare.links.len()),
            ..SHAPE
        };
        // Extra links are drawn last, so the rest stays the same.
        let mut network = shape.generate(&mut Rng::new(seed)).map_err(failed)?;
        let delays: u64 = network.links.iter().map(|l| u64::from(l.delay_us)).sum();
        let all = MEAN_DELAY_US * network.links.len() as u64;
        for link in &mut network.links {
            let scaled = u64::from(link.delay_us) * all / delays.max(1);
            link.delay_us = u32::try_from(scaled.max(1)).unwrap_or(u32::MAX);
        }
        let mut rng = Rng::new(seed ^ 1);
        let losses = network.random_losses(1.0, LOSS_MAX, &mut rng);
        let mut nodes: Vec<usize> = (0..network.nodes.len()).collect();
        for i in 0..OVERLAY_NODES {
            let other = i + rng.below((nodes.len() - i) as u64) as usize;
            nodes.swap(i, other);
        }
        nodes.truncate(OVERLAY_NODES);
        // The order of the nodes is random, so the first ones are a random choice.
        let pairs = (0..PAIRS)
            .map(|n| (nodes[2 * n], nodes[2 * n + 1]))
            .collect();
        Ok(Underlay {
            next: next_hops(&network),
            network,
            losses,
            overlay: nodes,
            pairs,
        })
    }

    /// Returns the numbers of nodes and links.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.network.nodes.len(), self.network.links.len())
    }

    /// Returns the least and the largest loss of a link.
    pub(super) fn losses(&self) -> (f64, f64) {
        let least = self.losses.iter().copied().fold(f64::MAX, f64::min);
        (least, self.losses.iter().copied().fold(0.0, f64::max))
    }

    /// Returns the nodes that packets pass from one node to another.
    pub(super) fn route(&self, from: usize, to: usize) -> Vec<usize> {
        let mut nodes = vec![from];
        while let Some(&at) = nodes.last()
            && at != to
        {
            nodes.push(self.next[at][to]);
        }
        nodes
    }

    /// Returns the delay of that route, in microseconds.
    pub(super) fn route_us(&self, from: usize, to: usize) -> u64 {
        let route = self.route(from, to);
        let links = route.windows(2).map(|pair| self.link(pair[0], pair[1]));
        let delays = links.map(|link| u64::from(self.network.links[link].delay_us));
        delays.sum()
    }

    /// Returns the overlay's graph: a logical link between any two of its nodes, with the width of the formula.
    pub(super) fn graph(&self, formula: Formula) -> Topology {
        let mut topology = Topology::new(Parameters::default());
        topology.predict_by(formula);
        for &from in &self.overlay {
            for &to in self.overlay.iter().filter(|to| **to != from) {
                let route = self.route(from, to);
                let links: Vec<usize> = route.windows(2).map(|p| self.link(p[0], p[1])).collect();
                let through: f64 = links.iter().map(|link| 1.0 - self.losses[*link]).product();
                // The route back may differ, and a connection waits for round trips.
                let delay_us = (self.route_us(from, to) + self.route_us(to, from)) / 2;
                let delay_us = u32::try_from(delay_us).unwrap_or(u32::MAX);
                let cost = LinkCost::new(delay_us, 1.0 - through);
                let ends = (Network::addr(from), Network::addr(to));
                topology.set_link(ends.0, ends.1, Some(cost));
                let known = Known {
                    capacity: Some(Width(LINK_BPS)),
                    physical_hops: Some(links.len() as u16),
                    ..Known::default()
                };
                topology.set_known(ends.0, ends.1, known);
            }
        }
        topology
    }

    /// Returns the goodput of a transfer through these overlay nodes, in kbit/s.
    pub(super) fn transfer_kbps(&self, nodes: &[usize], seconds: u64, seed: u64) -> f64 {
        let mut network = tcp::Network::default();
        let hosts: Vec<HostId> = (0..self.network.nodes.len())
            .map(|_| network.host())
            .collect();
        for (link, loss) in self.network.links.iter().zip(&self.losses) {
            let delay = Duration::from_micros(u64::from(link.delay_us));
            // "Any two links between two nodes have the same loss rate" [Liu04 §V-B]: this sets both directions.
            let model = wire(LINK_BPS, delay, QUEUE_PACKETS, *loss);
            network.link(hosts[link.a], hosts[link.b], &model);
        }
        let (first, second) = (hosts[nodes[0]], hosts[nodes[1]]);
        let mut flow = network.connect(first, second, settings(), Traffic::unlimited());
        network.count_only(flow);
        for node in &nodes[2..] {
            flow = relayed(&mut network, flow, hosts[*node], settings());
        }
        let mut world = network.build(seed);
        let at = |s: u64| Time::ZERO + Duration::from_secs(s);
        world.run_until(at(WARM_UP_S));
        let before = flow.received(&world).delivered;
        world.run_until(at(WARM_UP_S + seconds));
        let segments = flow.received(&world).delivered - before;
        segments as f64 * settings().payload_bytes() as f64 * 8.0 / 1e3 / seconds as f64
    }

    fn link(&self, a: usize, b: usize) -> usize {
        let mut links = self.network.links.iter();
        let found = links.position(|link| (link.a, link.b) == (a, b) || (link.b, link.a) == (a, b));
        found.expect("routes go along links")
    }
}

/// Returns TCP with segments of 1460 bytes, as the widths of the overlay's links assume.
fn settings() -> Settings {
    let mut settings = chain::settings();
    settings.segment_bytes = 1_500;
    settings
}

/// Time after which slow start is over, and buffers of relays are filled.
const WARM_UP_S: u64 = 10;
const _: () = assert!(BUFFER_SEGMENTS > 100, "10 Mbit/s for 80 ms");

/// Returns the number of an overlay node in the underlay.
pub(super) fn number(addr: NodeAddr) -> usize {
    (addr.0 - Network::addr(0).0) as usize
}

/// Returns routes by the fewest links, as ns-2 and the simulator have them: among equal ones, each node by itself takes
/// the link that was made first.
fn next_hops(network: &Network) -> Vec<Vec<usize>> {
    let mut next = Vec::new();
    for me in 0..network.nodes.len() {
        let mut first = vec![me; network.nodes.len()];
        let mut seen = vec![false; network.nodes.len()];
        seen[me] = true;
        let mut queue = VecDeque::from([me]);
        while let Some(at) = queue.pop_front() {
            for link in &network.links {
                for (a, b) in [(link.a, link.b), (link.b, link.a)] {
                    if a == at && !seen[b] {
                        seen[b] = true;
                        first[b] = if at == me { b } else { first[at] };
                        queue.push_back(b);
                    }
                }
            }
        }
        next.push(first);
    }
    next
}
