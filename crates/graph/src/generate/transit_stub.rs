//! The Internet's two levels of domains, as GT-ITM's transit-stub model generates them.
//!
//! ```text
//!            stub ── T ═══ T ── stub            T   node of a transit domain
//!                    ║     ║ ╲                  ═   transit domain, connected
//!            stub ── T ═══ T  stub              ║   transit domains, joined in a connected graph
//!              ╰ ─ ─ ║ ─ ─ ─ ─ ╯                ─ ─ extra link from stub to stub
//!                    T ══ T ── stub             ──  each stub hangs on one transit node
//! ```
//!
//! 1. The transit domains form a connected random graph; each of its links becomes a link between random nodes of the
//!    two domains.
//! 2. Each transit domain is a connected random graph of its nodes.
//! 3. Each transit node has stub domains, which are also connected random graphs. One link joins a stub domain to its
//!    transit node, from a random node of the stub.
//! 4. Extra links join random transit nodes to random stub nodes, and random nodes of different stubs.
//!
//! GT-ITM's numbers of nodes and stubs are averages. They are averages here when `vary` is set (evenly from 1 to twice
//! the average less 1), and exact otherwise. Within a domain each pair of nodes is linked with the domain's probability
//! (GT-ITM's *pure random* method). GT-ITM draws a domain again until it is connected. Here, the parts that are left
//! after some tries are joined by the shortest links, so that every network is connected and none takes forever.
//!
//! Transit domains lie in the plane, their nodes around them, and stubs close to their transit node: delays shrink from
//! level to level as distances do.

use super::connected::connected_graph;
use super::regular::pairs;
use super::{BadShape, FIBRE_KM_PER_MS, MOST_NODES, Network, Node, check_size, check_speed};
use base::{Rng, Set};

/// The parameters of the generator. The default has about 100 nodes: 1 · 4 · (1 + 3 · 8), as in the example that comes
/// with GT-ITM.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TransitStub {
    /// Number of transit domains.
    pub transit_domains: usize,
    /// Number of nodes of each transit domain.
    pub transit_nodes: usize,
    /// Number of stub domains on each transit node.
    pub stubs_per_transit_node: usize,
    /// Number of nodes of each stub domain.
    pub stub_nodes: usize,
    /// Whether these numbers of nodes and stubs are averages.
    pub vary: bool,
    /// Number of extra links from transit nodes to stubs.
    pub extra_transit_stub: usize,
    /// Number of extra links from stubs to stubs.
    pub extra_stub_stub: usize,
    /// Probability of a link between two transit domains.
    pub domain_probability: f64,
    /// Probability of a link between two nodes of a transit domain.
    pub transit_probability: f64,
    /// Probability of a link between two nodes of a stub domain.
    pub stub_probability: f64,
    /// The side of the plane in kilometres.
    pub side_km: f64,
    /// The speed of packets, in kilometres per millisecond.
    pub km_per_ms: f64,
}

/// The side of a transit domain's square, as a share of the plane's.
const TRANSIT_SHARE: f64 = 0.2;
/// The side of a stub domain's square.
const STUB_SHARE: f64 = 0.02;
/// How often an extra link is drawn before it is given up. If it fails so often, nearly all of the links exist already.
const EXTRA_TRIES: usize = 100;
/// Maximum of the average number of nodes of a domain. With `vary`, a domain has at most twice as many, 499 500 pairs.
const MOST_DOMAIN_NODES: usize = 500;

impl Default for TransitStub {
    fn default() -> TransitStub {
        TransitStub {
            transit_domains: 1,
            transit_nodes: 4,
            stubs_per_transit_node: 3,
            stub_nodes: 8,
            vary: false,
            extra_transit_stub: 0,
            extra_stub_stub: 0,
            domain_probability: 1.0,
            transit_probability: 0.6,
            stub_probability: 0.42,
            side_km: 4_000.0,
            km_per_ms: FIBRE_KM_PER_MS,
        }
    }
}

impl TransitStub {
    /// Generates a network of this shape. Transit nodes are named `t0.1`, for domain and node, stub nodes `s5.2`.
    pub fn generate(&self, rng: &mut Rng) -> Result<Network, BadShape> {
        self.check()?;
        let mut growing = Growing {
            shape: self,
            network: Network::default(),
            linked: Set::default(),
            rng,
        };
        let transits = growing.transits();
        let stubs = growing.stubs(&transits);
        growing.extras(&transits, &stubs);
        check_size(growing.network.nodes.len(), growing.network.links.len())?;
        Ok(growing.network)
    }

    fn check(&self) -> Result<(), BadShape> {
        let out_of_range = |what, range| Err(BadShape::OutOfRange { what, range });
        check_speed(self.km_per_ms)?;
        let counts = [self.transit_domains, self.transit_nodes];
        if counts.contains(&0) || (self.stubs_per_transit_node > 0 && self.stub_nodes == 0) {
            return out_of_range("a number of domains or nodes", "at least 1");
        }
        let transit = self.transit_domains.saturating_mul(self.transit_nodes);
        let per_transit = self.stubs_per_transit_node.saturating_mul(self.stub_nodes);
        let nodes = transit.saturating_mul(per_transit.saturating_add(1));
        check_size(
            nodes,
            self.extra_transit_stub.saturating_add(self.extra_stub_stub),
        )?;
        let largest = counts.into_iter().chain([self.stub_nodes]).max();
        if largest.is_some_and(|nodes| nodes > MOST_DOMAIN_NODES) {
            return out_of_range("the size of a domain", "at most 500 nodes");
        }
        let within = pairs(self.stub_nodes) as f64 * self.stub_probability;
        let links = within * transit.saturating_mul(self.stubs_per_transit_node) as f64;
        check_size(nodes, links as usize)?;
        let probabilities = [
            self.domain_probability,
            self.transit_probability,
            self.stub_probability,
        ];
        if !probabilities.iter().all(|p| (0.0..=1.0).contains(p)) {
            return out_of_range("an edge probability", "0 to 1");
        }
        if !(self.side_km.is_finite() && self.side_km > 0.0) {
            return out_of_range("the side of the plane", "kilometres above 0");
        }
        Ok(())
    }
}

/// The nodes of a domain, by number.
type Domain = Vec<usize>;

struct Growing<'a> {
    shape: &'a TransitStub,
    network: Network,
    linked: Set<(usize, usize)>,
    rng: &'a mut Rng,
}

impl Growing<'_> {
    fn transits(&mut self) -> Vec<Domain> {
        let shape = self.shape;
        let middles: Vec<(f64, f64)> = (0..shape.transit_domains)
            .map(|_| {
                (
                    self.rng.unit() * shape.side_km,
                    self.rng.unit() * shape.side_km,
                )
            })
            .collect();
        let side = shape.side_km * TRANSIT_SHARE;
        let mut domains = Vec::new();
        for (number, &middle) in middles.iter().enumerate() {
            let nodes = self.about(shape.transit_nodes);
            domains.push(self.domain(&format!("t{number}"), nodes, middle, side));
            self.link_within(&domains[number], shape.transit_probability);
        }
        let points: Vec<Node> = middles
            .iter()
            .map(|&(x, y)| Node {
                name: String::new(),
                x,
                y,
            })
            .collect();
        for (a, b) in connected_graph(&points, shape.domain_probability, self.rng) {
            let ends = (self.one_of(&domains[a]), self.one_of(&domains[b]));
            self.link(ends.0, ends.1);
        }
        domains
    }

    fn stubs(&mut self, transits: &[Domain]) -> Vec<Domain> {
        let side = self.shape.side_km * STUB_SHARE;
        let mut stubs: Vec<Domain> = Vec::new();
        for &transit in transits.iter().flatten() {
            let Node { x, y, .. } = self.network.nodes[transit];
            for _ in 0..self.about(self.shape.stubs_per_transit_node) {
                // This limits the sum of averages that vary.
                if self.network.nodes.len() >= MOST_NODES {
                    return stubs;
                }
                let nodes = self.about(self.shape.stub_nodes);
                let middle = (
                    x + (self.rng.unit() - 0.5) * 2.0 * side,
                    y + (self.rng.unit() - 0.5) * 2.0 * side,
                );
                let stub = self.domain(&format!("s{}", stubs.len()), nodes, middle, side);
                self.link_within(&stub, self.shape.stub_probability);
                let gateway = self.one_of(&stub);
                self.link(transit, gateway);
                stubs.push(stub);
            }
        }
        stubs
    }

    fn extras(&mut self, transits: &[Domain], stubs: &[Domain]) {
        let transit_nodes = transits.concat();
        if stubs.is_empty() {
            return;
        }
        for _ in 0..self.shape.extra_transit_stub {
            self.link_anew(|growing| {
                let stub = growing.rng.below(stubs.len() as u64) as usize;
                Some((growing.one_of(&transit_nodes), growing.one_of(&stubs[stub])))
            });
        }
        for _ in 0..self.shape.extra_stub_stub {
            self.link_anew(|growing| {
                let [a, b] = [(); 2].map(|()| growing.rng.below(stubs.len() as u64) as usize);
                (a != b).then(|| (growing.one_of(&stubs[a]), growing.one_of(&stubs[b])))
            });
        }
    }

    /// Adds nodes at random positions in a square, without links.
    fn domain(&mut self, name: &str, nodes: usize, middle: (f64, f64), side: f64) -> Domain {
        let first = self.network.nodes.len();
        for i in 0..nodes {
            let x = middle.0 + (self.rng.unit() - 0.5) * side;
            let y = middle.1 + (self.rng.unit() - 0.5) * side;
            let name = format!("{name}.{i}");
            self.network.nodes.push(Node { name, x, y });
        }
        (first..first + nodes).collect()
    }

    fn link_within(&mut self, domain: &[usize], probability: f64) {
        let points: Vec<Node> = domain
            .iter()
            .map(|node| self.network.nodes[*node].clone())
            .collect();
        for (a, b) in connected_graph(&points, probability, self.rng) {
            self.link(domain[a], domain[b]);
        }
    }

    /// Adds a link that does not exist yet, of those that `draw` proposes.
    fn link_anew(&mut self, draw: impl Fn(&mut Self) -> Option<(usize, usize)>) {
        for _ in 0..EXTRA_TRIES {
            if let Some((a, b)) = draw(self)
                && self.link(a, b)
            {
                return;
            }
        }
    }

    /// Adds a link. Returns false if it existed already.
    fn link(&mut self, a: usize, b: usize) -> bool {
        let new = self.linked.insert((a.min(b), a.max(b)));
        if new {
            self.network.join(a, b, self.shape.km_per_ms);
        }
        new
    }

    fn one_of(&mut self, domain: &[usize]) -> usize {
        domain[self.rng.below(domain.len() as u64) as usize]
    }

    fn about(&mut self, average: usize) -> usize {
        if self.shape.vary && average > 0 {
            1 + self.rng.below(2 * average as u64 - 1) as usize
        } else {
            average
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: TransitStub = TransitStub {
        transit_domains: 3,
        transit_nodes: 4,
        stubs_per_transit_node: 2,
        stub_nodes: 5,
        vary: false,
        extra_transit_stub: 6,
        extra_stub_stub: 9,
        domain_probability: 0.5,
        transit_probability: 0.6,
        stub_probability: 0.4,
        side_km: 4_000.0,
        km_per_ms: FIBRE_KM_PER_MS,
    };

    fn domain_of(network: &Network, node: usize) -> &str {
        network.nodes[node].name.split('.').next().unwrap()
    }

    /// Counts links by the kinds of domains at their ends: within transit, between transits, transit to stub, within a
    /// stub, between stubs.
    fn kinds(network: &Network) -> [usize; 5] {
        let mut kinds = [0; 5];
        for link in &network.links {
            let (a, b) = (domain_of(network, link.a), domain_of(network, link.b));
            let kind = match (a.starts_with('t'), b.starts_with('t')) {
                (true, true) => usize::from(a != b),
                (false, false) => 3 + usize::from(a != b),
                _ => 2,
            };
            kinds[kind] += 1;
        }
        kinds
    }

    #[test]
    fn the_two_levels_are_joined_as_the_model_says() {
        for seed in 0..30 {
            let network = SHAPE.generate(&mut Rng::new(seed)).unwrap();
            assert_eq!(network.nodes.len(), 12 + 24 * 5);
            assert!(network.is_connected());
            let [within, between, down, stub, across] = kinds(&network);
            assert!((9..=18).contains(&within), "{within}");
            assert!((2..=3).contains(&between), "{between}");
            assert_eq!((down, across), (24 + 6, 9));
            assert!(stub >= 24 * 4, "each stub is connected: {stub}");
        }
    }

    #[test]
    fn sparse_domains_are_still_connected() {
        let sparse = TransitStub {
            domain_probability: 0.0,
            transit_probability: 0.0,
            stub_probability: 0.0,
            extra_transit_stub: 0,
            extra_stub_stub: 0,
            ..SHAPE
        };
        let network = sparse.generate(&mut Rng::new(4)).unwrap();
        assert!(network.is_connected());
        assert_eq!(network.links.len(), network.nodes.len() - 1, "a tree");
    }

    #[test]
    fn numbers_vary_around_their_averages() {
        let varied = TransitStub {
            vary: true,
            ..SHAPE
        };
        let sizes = (0..40).map(|seed| {
            let network = varied.generate(&mut Rng::new(seed)).unwrap();
            assert!(network.is_connected());
            network.nodes.len()
        });
        let mean = sizes.sum::<usize>() / 40;
        assert!((100..165).contains(&mean), "132 expected: {mean}");
    }

    #[test]
    fn equal_seeds_give_equal_networks_and_nonsense_is_refused() {
        let of = |seed| SHAPE.generate(&mut Rng::new(seed)).unwrap();
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
        let bad = [
            TransitStub {
                transit_domains: 0,
                ..SHAPE
            },
            TransitStub {
                stub_nodes: 0,
                ..SHAPE
            },
            TransitStub {
                stub_nodes: usize::MAX,
                ..SHAPE
            },
            TransitStub {
                stub_probability: 1.5,
                ..SHAPE
            },
            TransitStub {
                side_km: f64::INFINITY,
                ..SHAPE
            },
            TransitStub {
                km_per_ms: 0.0,
                ..SHAPE
            },
        ];
        for shape in bad {
            assert!(shape.generate(&mut Rng::new(1)).is_err(), "{shape:?}");
        }
        let bare = TransitStub {
            stubs_per_transit_node: 0,
            ..SHAPE
        };
        assert_eq!(bare.generate(&mut Rng::new(1)).unwrap().nodes.len(), 12);
    }
}
