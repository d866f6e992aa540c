//! Topology generators: networks to try things on.
//!
//! ```text
//!   shape (a few numbers) + seed ──▶ Network ──▶ topology(losses) ──▶ routes, studies
//!                                      │
//!                                      └──▶ nodes and links of a scenario, simulated or real
//! ```
//!
//! - [`regular`]: chain, ring, diamond, full mesh.
//! - [`waxman`]: random networks in a plane, as BRITE generates them. [Amir06 §IV-B]
//! - [`transit_stub`]: the Internet's two levels of domains, as GT-ITM generates them.
//! - [`cities`]: sites of the world with delays by great-circle distance. [Amir06 §V-B]
//!
//! A network determines where nodes are and how long links take. The losses of links are drawn separately
//! ([`Network::random_losses`]), so that one network can be tried with many losses. Lengths are rounded to whole
//! microseconds and weights to whole numbers before they decide anything, so that equal seeds give equal networks.

pub mod cities;
mod connected;
pub mod regular;
pub mod transit_stub;
pub mod waxman;

use crate::metric::{LinkCost, Parameters};
use crate::topology::Topology;
use base::{NodeAddr, Rng};
use core::cmp::Reverse;
use std::collections::BinaryHeap;

/// The most nodes that a generator makes: ten times the largest network in use.
pub const MOST_NODES: usize = 10_000;
/// The most links that a generator makes: a full mesh of 1 000 nodes has 499 500.
pub const MOST_LINKS: usize = 500_000;

/// The speed of light in kilometres per millisecond. BRITE's delays are length divided by this speed.
pub const LIGHT_KM_PER_MS: f64 = 299.792_458;
/// The speed of light in fibre, about two thirds of the speed in vacuum.
pub const FIBRE_KM_PER_MS: f64 = 200.0;

/// Nodes and the links between them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Network {
    /// The nodes; a node's number is its position here.
    pub nodes: Vec<Node>,
    /// The links; each stands for both directions.
    pub links: Vec<Link>,
}

/// A node and where it is: in a plane in kilometres, or on the globe as longitude and latitude in
/// degrees.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The name of the node, for people.
    pub name: String,
    /// Kilometres to the right, or degrees east.
    pub x: f64,
    /// Kilometres up, or degrees north.
    pub y: f64,
}

/// A link between two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// One end.
    pub a: usize,
    /// The other end.
    pub b: usize,
    /// How long a packet takes in either direction, in microseconds.
    pub delay_us: u32,
}

/// Why a network cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadShape {
    /// There are fewer nodes than the shape needs.
    #[error("{nodes} nodes are too few for this shape: use at least {least}")]
    TooFewNodes {
        /// Number of nodes requested.
        nodes: usize,
        /// Number of nodes needed.
        least: usize,
    },
    /// There are more nodes or links than is sensible.
    #[error("{nodes} nodes with {links} links are too many: stay within 10000 nodes, 500000 links")]
    TooLarge {
        /// Number of nodes requested.
        nodes: usize,
        /// Number of links that they would have, at least.
        links: usize,
    },
    /// A number is outside its range.
    #[error("{what} is out of range: use {range}")]
    OutOfRange {
        /// The name of the number.
        what: &'static str,
        /// The range of the number.
        range: &'static str,
    },
}

impl Network {
    /// Returns the overlay address of the node `index`: 10.0.0.1 and upwards.
    pub fn addr(index: usize) -> NodeAddr {
        NodeAddr(0x0a00_0001 + index as u32)
    }

    /// Returns the graph to route on: every link in both directions. A link has the loss at its position in `losses`,
    /// or no loss if the list is shorter.
    pub fn topology(&self, parameters: Parameters, losses: &[f64]) -> Topology {
        let mut topology = Topology::new(parameters);
        for index in 0..self.nodes.len() {
            topology.add_node(Network::addr(index));
        }
        for (place, link) in self.links.iter().enumerate() {
            let loss = losses.get(place).copied().unwrap_or(0.0);
            let (a, b) = (Network::addr(link.a), Network::addr(link.b));
            let cost = LinkCost::new(link.delay_us, loss);
            topology.set_link(a, b, Some(cost));
            topology.set_link(b, a, Some(cost));
        }
        topology
    }

    /// Returns a loss for each link: none for most links, and evenly distributed up to `most` for a random selection of
    /// the given share. The routing study has 5 % on half of the links. [Amir06 §IV-B]
    pub fn random_losses(&self, share: f64, most: f64, rng: &mut Rng) -> Vec<f64> {
        let mut losses = vec![0.0; self.links.len()];
        let lossy = (share.clamp(0.0, 1.0) * losses.len() as f64).round() as usize;
        let mut places: Vec<usize> = (0..losses.len()).collect();
        for i in 0..lossy {
            let other = i + rng.below((places.len() - i) as u64) as usize;
            places.swap(i, other);
            losses[places[i]] = rng.unit() * most;
        }
        losses
    }

    /// Returns whether every node can reach every other node.
    pub fn is_connected(&self) -> bool {
        !self.nodes.is_empty()
            && self
                .delays_from(0, &self.neighbours())
                .iter()
                .all(Option::is_some)
    }

    /// Returns the two nodes whose least delay is the longest, and that delay in microseconds; `None` for fewer than
    /// two nodes. Of equally distant pairs, the first counts. Pairs without a path do not count. [Amir06 §IV-B]
    pub fn diameter(&self) -> Option<(usize, usize, u64)> {
        let neighbours = self.neighbours();
        let mut widest = None;
        for a in 0..self.nodes.len() {
            let delays = self.delays_from(a, &neighbours);
            for (b, delay) in delays.iter().enumerate().skip(a + 1) {
                if let Some(delay) = *delay
                    && widest.is_none_or(|(_, _, most)| delay > most)
                {
                    widest = Some((a, b, delay));
                }
            }
        }
        widest
    }

    fn neighbours(&self) -> Vec<Vec<(usize, u32)>> {
        let mut neighbours = vec![Vec::new(); self.nodes.len()];
        for link in &self.links {
            neighbours[link.a].push((link.b, link.delay_us));
            neighbours[link.b].push((link.a, link.delay_us));
        }
        neighbours
    }

    fn delays_from(&self, root: usize, neighbours: &[Vec<(usize, u32)>]) -> Vec<Option<u64>> {
        let mut delays = vec![None; self.nodes.len()];
        let mut heap = BinaryHeap::from([Reverse((0u64, root))]);
        while let Some(Reverse((delay, node))) = heap.pop() {
            if delays[node].is_some() {
                continue;
            }
            delays[node] = Some(delay);
            for &(peer, hop) in &neighbours[node] {
                heap.push(Reverse((delay + u64::from(hop), peer)));
            }
        }
        delays
    }

    /// Adds a link whose delay is its length at the given speed.
    fn join(&mut self, a: usize, b: usize, km_per_ms: f64) {
        let delay_us = delay_us(plane_distance(&self.nodes[a], &self.nodes[b]), km_per_ms);
        self.links.push(Link { a, b, delay_us });
    }
}

/// Returns how long light takes for a distance, in microseconds; at least one.
fn delay_us(km: f64, km_per_ms: f64) -> u32 {
    // The cast saturates.
    ((km * 1_000.0 / km_per_ms).round() as u32).max(1)
}

fn plane_distance(a: &Node, b: &Node) -> f64 {
    let (dx, dy) = (a.x - b.x, a.y - b.y);
    (dx * dx + dy * dy).sqrt()
}

fn check_size(nodes: usize, links: usize) -> Result<(), BadShape> {
    if nodes > MOST_NODES || links > MOST_LINKS {
        return Err(BadShape::TooLarge { nodes, links });
    }
    Ok(())
}

fn check_speed(km_per_ms: f64) -> Result<(), BadShape> {
    if km_per_ms.is_finite() && km_per_ms > 0.0 {
        return Ok(());
    }
    Err(BadShape::OutOfRange {
        what: "the propagation speed",
        range: "kilometres per millisecond above 0, such as 200",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_fall_on_the_share_of_links_that_was_asked_for() {
        let ring = regular::ring(40, 1_000).unwrap();
        let mut rng = Rng::new(5);
        let losses = ring.random_losses(0.5, 0.05, &mut rng);
        assert_eq!(losses.len(), 40);
        assert_eq!(losses.iter().filter(|loss| **loss > 0.0).count(), 20);
        assert!(losses.iter().all(|loss| (0.0..0.05).contains(loss)));
        assert_eq!(ring.random_losses(9.0, 0.05, &mut rng).len(), 40);

        let topology = ring.topology(Parameters::default(), &losses);
        let [a, b] = [0, 1].map(|i| topology.index(Network::addr(i)).unwrap());
        let (there, back) = (topology.link(a, b).unwrap(), topology.link(b, a).unwrap());
        assert_eq!(there.link, LinkCost::new(1_000, losses[0]));
        assert_eq!(there.link, back.link);
        assert_eq!((topology.node_count(), topology.link_count()), (40, 80));
    }

    #[test]
    fn the_diameter_is_between_the_farthest_pair() {
        let chain = regular::chain(5, 7_000).unwrap();
        assert_eq!(chain.diameter(), Some((0, 4, 28_000)));
        let mut cut = chain;
        cut.links.remove(1);
        assert!(!cut.is_connected());
        assert_eq!(cut.diameter(), Some((2, 4, 14_000)));
        assert_eq!(Network::default().diameter(), None);
        assert!(!Network::default().is_connected());
    }
}
