//! Regular networks: chain, ring, diamond, full mesh. All their links have the same delay.
//!
//! ```text
//!   chain        ring          diamond        full mesh
//!   0-1-2-3      0-1-2         1              0───1
//!                |   |       /   \            │ ╲╱ │
//!                5-4-3      0  …  n-1         │ ╱╲ │
//!                            \   /            2───3
//!                             n-2
//! ```
//!
//! The chain of five links is the one of [Amir06 Fig. 8].

use super::{BadShape, Link, Network, Node, check_size};

/// Builds `nodes` in a row, each linked to the next.
pub fn chain(nodes: usize, delay_us: u32) -> Result<Network, BadShape> {
    let links = (1..nodes).map(|b| (b - 1, b)).collect();
    build(nodes, 2, row, links, delay_us)
}

/// Builds `nodes` in a circle, each linked to the next, the last one to the first.
pub fn ring(nodes: usize, delay_us: u32) -> Result<Network, BadShape> {
    let links = (0..nodes).map(|a| (a, (a + 1) % nodes)).collect();
    build(nodes, 3, circle, links, delay_us)
}

/// Joins node 0 and the last node over each of the others: `nodes` - 2 disjoint paths of two links.
pub fn diamond(nodes: usize, delay_us: u32) -> Result<Network, BadShape> {
    let middle = 1..nodes.saturating_sub(1);
    let links = middle
        .flat_map(|via| [(0, via), (via, nodes - 1)])
        .collect();
    build(nodes, 3, lozenge, links, delay_us)
}

/// Builds `nodes`, each linked to every other one.
pub fn full_mesh(nodes: usize, delay_us: u32) -> Result<Network, BadShape> {
    check_size(nodes, pairs(nodes))?;
    let links = (0..nodes)
        .flat_map(|a| (a + 1..nodes).map(move |b| (a, b)))
        .collect();
    build(nodes, 2, circle, links, delay_us)
}

/// Returns the number of links of a full mesh.
pub(super) fn pairs(nodes: usize) -> usize {
    nodes.saturating_mul(nodes.saturating_sub(1)) / 2
}

fn build(
    nodes: usize,
    least: usize,
    place: fn(usize, usize) -> (f64, f64),
    links: Vec<(usize, usize)>,
    delay_us: u32,
) -> Result<Network, BadShape> {
    if nodes < least {
        return Err(BadShape::TooFewNodes { nodes, least });
    }
    check_size(nodes, links.len())?;
    let node = |i| {
        let (x, y) = place(i, nodes);
        let name = format!("n{i}");
        Node { name, x, y }
    };
    let link = |(a, b)| Link { a, b, delay_us };
    Ok(Network {
        nodes: (0..nodes).map(node).collect(),
        links: links.into_iter().map(link).collect(),
    })
}

/// The side of the plane in which nodes are placed; the delays of these networks do not depend on it.
const SIDE_KM: f64 = 1_000.0;

fn row(i: usize, nodes: usize) -> (f64, f64) {
    (SIDE_KM * i as f64 / (nodes - 1) as f64, SIDE_KM / 2.0)
}

fn circle(i: usize, nodes: usize) -> (f64, f64) {
    let angle = core::f64::consts::TAU * i as f64 / nodes as f64;
    let half = SIDE_KM / 2.0;
    (half + half * angle.cos(), half + half * angle.sin())
}

fn lozenge(i: usize, nodes: usize) -> (f64, f64) {
    let half = SIDE_KM / 2.0;
    match i {
        0 => (0.0, half),
        last if last == nodes - 1 => (SIDE_KM, half),
        via => (half, SIDE_KM * via as f64 / (nodes - 1) as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn degrees(network: &Network) -> Vec<usize> {
        let mut degrees = vec![0; network.nodes.len()];
        for link in &network.links {
            degrees[link.a] += 1;
            degrees[link.b] += 1;
        }
        degrees
    }

    #[test]
    fn shapes_have_the_degrees_of_their_names() {
        assert_eq!(degrees(&chain(4, 1).unwrap()), [1, 2, 2, 1]);
        assert_eq!(degrees(&ring(5, 1).unwrap()), [2; 5]);
        assert_eq!(degrees(&diamond(5, 1).unwrap()), [3, 2, 2, 2, 3]);
        assert_eq!(degrees(&full_mesh(6, 1).unwrap()), [5; 6]);
        for shape in [chain, ring, diamond, full_mesh] {
            let network = shape(7, 2_500).unwrap();
            assert!(network.is_connected());
            assert!(network.links.iter().all(|link| link.delay_us == 2_500));
        }
    }

    #[test]
    fn sizes_that_make_no_sense_are_refused() {
        for shape in [chain, ring, diamond, full_mesh] {
            for nodes in [0, 1] {
                assert!(matches!(shape(nodes, 1), Err(BadShape::TooFewNodes { .. })));
            }
            assert!(matches!(
                shape(1_000_000, 1),
                Err(BadShape::TooLarge { .. })
            ));
        }
        assert!(ring(2, 1).is_err(), "both its links would be the same");
        assert!(matches!(
            full_mesh(1_001, 1),
            Err(BadShape::TooLarge { .. })
        ));
    }
}
