//! The underlay: routers and links, hosts on them, shortest paths between all.

use crate::experiment::CellError;
use base::{NodeAddr, Rng};
use graph::generate::Network;
use graph::generate::transit_stub::TransitStub;
use graph::generate::waxman::Waxman;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// Delay from a host to its router, and back.
const ACCESS_US: u32 = 500;

/// Routers, their shortest paths, and the places of hosts.
pub(super) struct Underlay {
    routers: usize,
    /// Delays in microseconds from router to router.
    delay_us: Vec<u32>,
    /// The router before the last on the shortest path.
    before: Vec<u16>,
    /// The router of each host.
    home: Vec<u16>,
}

/// A directed link: between routers, or to or from a host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Wire {
    Router(u16, u16),
    Up(usize),
    Down(usize),
}

/// How often one packet crosses each link.
#[derive(Default)]
pub(super) struct Stress(BTreeMap<Wire, u32>);

impl Underlay {
    /// Creates a transit-stub network of 555 routers, or a Waxman one of 600, with hosts evenly distributed over them.
    pub(super) fn new(
        is_transit_stub: bool,
        hosts: usize,
        rng: &mut Rng,
    ) -> Result<Underlay, CellError> {
        let network = if is_transit_stub {
            let shape = TransitStub {
                transit_domains: 3,
                transit_nodes: 5,
                stubs_per_transit_node: 4,
                stub_nodes: 9,
                ..TransitStub::default()
            };
            shape.generate(rng)
        } else {
            let shape = Waxman {
                nodes: 600,
                side_km: 4_000,
                ..Waxman::default()
            };
            shape.generate(rng)
        };
        let network = network.map_err(|error| CellError(error.to_string()))?;
        let routers = network.nodes.len();
        let home = (0..hosts).map(|_| rng.below(routers as u64) as u16);
        let home = home.collect();
        let (delay_us, before) = shortest_paths(&network);
        Ok(Underlay {
            routers,
            delay_us,
            before,
            home,
        })
    }

    /// Returns the one-way delay from host to host.
    pub(super) fn delay_us(&self, a: NodeAddr, b: NodeAddr) -> u32 {
        let (a, b) = (self.home[place(a)], self.home[place(b)]);
        2 * ACCESS_US + self.delay_us[usize::from(a) * self.routers + usize::from(b)]
    }

    /// Returns the routers from `a` to `b`, in reverse order, both included.
    fn path(&self, a: u16, b: u16) -> impl Iterator<Item = u16> + '_ {
        let row = usize::from(a) * self.routers;
        std::iter::successors(Some(b), move |at| {
            (*at != a).then(|| self.before[row + usize::from(*at)])
        })
    }

    /// Counts one packet from host to host.
    pub(super) fn send(&self, from: NodeAddr, to: NodeAddr, stress: &mut Stress) {
        stress.add(Wire::Up(place(from)));
        stress.add(Wire::Down(place(to)));
        let path = self.path(self.home[place(from)], self.home[place(to)]);
        path.fold(None, |after, at| {
            if let Some(after) = after {
                stress.add(Wire::Router(at, after));
            }
            Some(at)
        });
    }

    /// Counts one packet by the link-state source tree: each link once. Returns also the tree's depth in routers.
    pub(super) fn source_tree(
        &self,
        source: NodeAddr,
        members: impl Iterator<Item = NodeAddr>,
        stress: &mut Stress,
    ) -> usize {
        let mut links = BTreeSet::from([Wire::Up(place(source))]);
        let mut deepest = 0;
        for member in members {
            links.insert(Wire::Down(place(member)));
            let path: Vec<u16> = self
                .path(self.home[place(source)], self.home[place(member)])
                .collect();
            deepest = deepest.max(path.len());
            links.extend(path.windows(2).map(|pair| Wire::Router(pair[1], pair[0])));
        }
        links.into_iter().for_each(|link| stress.add(link));
        deepest
    }
}

impl Stress {
    fn add(&mut self, link: Wire) {
        *self.0.entry(link).or_insert(0) += 1;
    }
    /// Returns the number of all crossings.
    pub(super) fn total(&self) -> f64 {
        self.0.values().map(|count| f64::from(*count)).sum()
    }
    /// Returns the mean per link that is crossed at least once.
    pub(super) fn mean(&self) -> f64 {
        self.total() / self.0.len() as f64
    }
    pub(super) fn most(&self) -> f64 {
        self.0.values().copied().max().map_or(0.0, f64::from)
    }
}

/// Returns the number of a host.
pub(super) fn place(addr: NodeAddr) -> usize {
    (addr.0 - Network::addr(0).0) as usize
}

/// Computes delays between all routers, and the router before the last on each path.
fn shortest_paths(network: &Network) -> (Vec<u32>, Vec<u16>) {
    let count = network.nodes.len();
    let mut links = vec![Vec::new(); count];
    for link in &network.links {
        links[link.a].push((link.b, link.delay_us));
        links[link.b].push((link.a, link.delay_us));
    }
    let mut delays = vec![u32::MAX; count * count];
    let mut before = vec![0; count * count];
    for root in 0..count {
        let row = root * count;
        let mut heap = BinaryHeap::from([Reverse((0u32, root, root))]);
        while let Some(Reverse((delay, at, from))) = heap.pop() {
            if delays[row + at] != u32::MAX {
                continue;
            }
            delays[row + at] = delay;
            before[row + at] = from as u16;
            for &(next, hop) in &links[at] {
                if delays[row + next] == u32::MAX {
                    heap.push(Reverse((delay + hop, next, at)));
                }
            }
        }
    }
    (delays, before)
}
