//! Waxman's random networks as BRITE's RouterWaxman generates them. [Amir06 §IV-B]
//!
//! Nodes lie at random on the unit squares of a plane of HS × HS kilometres, no two on the same square. Two nodes at
//! distance d have a link with a weight of α·exp(−d / (β·L)), where L is the plane's diagonal. BRITE's growth type
//! determines how links are made:
//!
//! - *incremental*: m nodes are there at the start. Every other node joins with m links to nodes before it; at the end
//!   each of the first m gets m links to other nodes than the first m. So n nodes have n·m links, and all are
//!   connected: with m = 2, the 15 nodes and 30 links, 100 nodes and 200 links of [Amir06 Fig. 12, 13].
//! - *random*: a node is drawn and gets m links to any others. This is repeated until no node is without a link. Such a
//!   network may fall into parts.
//!
//! BRITE draws a target evenly, accepts it by its probability, and draws again until one is accepted. That is a choice
//! among the targets by weight, and this module implements it as such: the same distribution in bounded time. It also
//! shows that α cancels out; only β shapes the network.

use super::{BadShape, LIGHT_KM_PER_MS, Network, Node, check_size, check_speed, plane_distance};
use base::{Rng, Set};

/// The parameters of the generator. The default is BRITE's configuration of a network of 100 nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Waxman {
    /// N: the number of nodes.
    pub nodes: usize,
    /// HS: the side of the plane in kilometres.
    pub side_km: u32,
    /// α, 0 to 1: the probability of a link of no length. It has no effect, see the module.
    pub alpha: f64,
    /// β, above 0: the reach of links, as a share of the plane's diagonal.
    pub beta: f64,
    /// m: the number of links of each new node.
    pub links_per_node: usize,
    /// How nodes join.
    pub growth: Growth,
    /// The speed of packets, in kilometres per millisecond.
    pub km_per_ms: f64,
}

/// How nodes join, BRITE's growth type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// One after the other, to nodes that already exist.
    Incremental,
    /// In any order, until every node has a link.
    Random,
}

impl Default for Waxman {
    fn default() -> Waxman {
        Waxman {
            nodes: 100,
            side_km: 1_000,
            alpha: 0.15,
            beta: 0.2,
            links_per_node: 2,
            growth: Growth::Incremental,
            km_per_ms: LIGHT_KM_PER_MS,
        }
    }
}

impl Waxman {
    /// Generates a network of this shape.
    pub fn generate(&self, rng: &mut Rng) -> Result<Network, BadShape> {
        self.check()?;
        let mut growing = Growing {
            shape: self,
            network: Network {
                nodes: self.place(rng),
                links: Vec::new(),
            },
            linked: vec![Set::default(); self.nodes],
            rng,
        };
        match self.growth {
            Growth::Incremental => growing.incrementally(),
            Growth::Random => growing.randomly(),
        }
        Ok(growing.network)
    }

    fn check(&self) -> Result<(), BadShape> {
        let out_of_range = |what, range| Err(BadShape::OutOfRange { what, range });
        check_size(self.nodes, self.nodes.saturating_mul(self.links_per_node))?;
        check_speed(self.km_per_ms)?;
        if self.links_per_node == 0 {
            return out_of_range("m, the links per node,", "at least 1");
        }
        let least = self.links_per_node + 1;
        if self.nodes < least {
            return Err(BadShape::TooFewNodes {
                nodes: self.nodes,
                least,
            });
        }
        if u64::from(self.side_km).pow(2) < self.nodes as u64 {
            return out_of_range(
                "HS, the plane's side,",
                "kilometres, HS * HS at least the nodes",
            );
        }
        if !(self.alpha > 0.0 && self.alpha <= 1.0) {
            return out_of_range("alpha", "above 0, up to 1");
        }
        if !(self.beta.is_finite() && self.beta > 0.0) {
            return out_of_range("beta", "above 0, such as 0.2");
        }
        Ok(())
    }

    fn place(&self, rng: &mut Rng) -> Vec<Node> {
        let side = u64::from(self.side_km);
        let mut taken = Set::default();
        let mut nodes = Vec::with_capacity(self.nodes);
        while nodes.len() < self.nodes {
            let (x, y) = (rng.below(side), rng.below(side));
            if taken.insert((x, y)) {
                nodes.push(Node {
                    name: format!("n{}", nodes.len()),
                    x: x as f64,
                    y: y as f64,
                });
            }
        }
        nodes
    }
}

struct Growing<'a> {
    shape: &'a Waxman,
    network: Network,
    linked: Vec<Set<usize>>,
    rng: &'a mut Rng,
}

impl Growing<'_> {
    fn incrementally(&mut self) {
        let (n, m) = (self.shape.nodes, self.shape.links_per_node);
        for node in m..n {
            self.link_to_some_of(node, 0..node);
        }
        for node in 0..m {
            self.link_to_some_of(node, m..n);
        }
    }

    fn randomly(&mut self) {
        let n = self.shape.nodes;
        while self.linked.iter().any(Set::is_empty) {
            let node = self.rng.below(n as u64) as usize;
            self.link_to_some_of(node, 0..n);
        }
    }

    /// Links `node` to m of `targets`, or fewer if there are fewer. In random growth this stops as soon as no node is
    /// without a link.
    fn link_to_some_of(&mut self, node: usize, targets: core::ops::Range<usize>) {
        for _ in 0..self.shape.links_per_node {
            let weights: Vec<(usize, u64)> = targets
                .clone()
                .filter(|target| *target != node && !self.linked[node].contains(target))
                .map(|target| (target, self.weight(node, target)))
                .collect();
            let Some(target) = draw(&weights, self.rng) else {
                return;
            };
            self.network.join(node, target, self.shape.km_per_ms);
            self.linked[node].insert(target);
            self.linked[target].insert(node);
            let random = self.shape.growth == Growth::Random;
            if random && self.linked.iter().all(|linked| !linked.is_empty()) {
                return;
            }
        }
    }

    /// Returns the probability of a link as a whole number, so that the last bit of `exp`, which differs from library
    /// to library, does not matter.
    fn weight(&self, a: usize, b: usize) -> u64 {
        /// 2^40: the sum over 10 000 nodes stays below 2^54.
        const ONE: f64 = 1_099_511_627_776.0;
        let diagonal = f64::from(self.shape.side_km) * core::f64::consts::SQRT_2;
        let distance = plane_distance(&self.network.nodes[a], &self.network.nodes[b]);
        let probability = self.shape.alpha * (-distance / (self.shape.beta * diagonal)).exp();
        ((probability * ONE).round() as u64).max(1)
    }
}

/// Draws one of the candidates, by weight.
fn draw(weights: &[(usize, u64)], rng: &mut Rng) -> Option<usize> {
    let mut ticket = rng.below(weights.iter().map(|(_, weight)| weight).sum());
    for &(candidate, weight) in weights {
        if ticket < weight {
            return Some(candidate);
        }
        ticket -= weight;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_length(beta: f64) -> f64 {
        let shape = Waxman {
            beta,
            ..Waxman::default()
        };
        let network = shape.generate(&mut Rng::new(3)).unwrap();
        let lengths = network.links.iter().map(|link| f64::from(link.delay_us));
        lengths.sum::<f64>() / network.links.len() as f64
    }

    #[test]
    fn incremental_growth_gives_m_links_per_node_and_one_network() {
        for (nodes, links_per_node) in [(15, 2), (100, 2), (30, 4), (3, 2), (2, 1)] {
            for seed in 0..20 {
                let shape = Waxman {
                    nodes,
                    links_per_node,
                    ..Waxman::default()
                };
                let network = shape.generate(&mut Rng::new(seed)).unwrap();
                assert!(network.is_connected());
                let mut pairs: Vec<_> = network
                    .links
                    .iter()
                    .map(|l| (l.a.min(l.b), l.a.max(l.b)))
                    .collect();
                pairs.sort_unstable();
                pairs.dedup();
                assert_eq!(pairs.len(), network.links.len(), "no link twice");
                assert!(pairs.iter().all(|(a, b)| a < b));
                if nodes >= 15 {
                    assert_eq!(network.links.len(), nodes * links_per_node);
                }
            }
        }
    }

    #[test]
    fn random_growth_leaves_no_node_alone() {
        let shape = Waxman {
            growth: Growth::Random,
            ..Waxman::default()
        };
        for seed in 0..10 {
            let network = shape.generate(&mut Rng::new(seed)).unwrap();
            for node in 0..100 {
                assert!(
                    network
                        .links
                        .iter()
                        .any(|link| link.a == node || link.b == node)
                );
            }
        }
    }

    #[test]
    fn links_are_short_when_beta_is_small_and_delays_follow_the_plane() {
        let (short, long) = (mean_length(0.05), mean_length(1.0));
        assert!(short * 1.5 < long, "{short} {long}");
        let shape = Waxman::default();
        let network = shape.generate(&mut Rng::new(1)).unwrap();
        let wide = Waxman {
            side_km: 1_000_000,
            ..shape
        };
        let wide = wide.generate(&mut Rng::new(1)).unwrap();
        let (a, b) = (network.diameter().unwrap().2, wide.diameter().unwrap().2);
        assert!((500..2_000).contains(&(b / a)), "{a} {b}");
        for link in &network.links {
            let km = plane_distance(&network.nodes[link.a], &network.nodes[link.b]);
            assert!((f64::from(link.delay_us) - km * 1_000.0 / LIGHT_KM_PER_MS).abs() <= 0.5);
        }
    }

    #[test]
    fn equal_seeds_give_equal_networks_and_alpha_makes_no_difference() {
        let generate = |alpha, seed| {
            let shape = Waxman {
                alpha,
                ..Waxman::default()
            };
            shape.generate(&mut Rng::new(seed)).unwrap()
        };
        assert_eq!(generate(0.15, 7), generate(0.15, 7));
        assert_ne!(generate(0.15, 7), generate(0.15, 8));
        assert_eq!(generate(0.25, 7), generate(0.5, 7));
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        let d = Waxman::default();
        let bad = [
            Waxman { nodes: 2, ..d },
            Waxman {
                nodes: 1_000_000,
                ..d
            },
            Waxman { side_km: 9, ..d },
            Waxman { alpha: 0.0, ..d },
            Waxman {
                beta: f64::NAN,
                ..d
            },
            Waxman {
                links_per_node: 0,
                ..d
            },
            Waxman {
                km_per_ms: -1.0,
                ..d
            },
        ];
        for shape in bad {
            assert!(shape.generate(&mut Rng::new(1)).is_err(), "{shape:?}");
        }
    }
}
