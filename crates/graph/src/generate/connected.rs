//! Connected random graphs on points of a plane: the domains of a [transit-stub
//! network](super::transit_stub).
//!
//! ```text
//!   each pair with the probability ──▶ connected? ──▶ done
//!              ▲                           │ no, some tries left
//!              ╰───────────────────────────┤
//!                                          ╰─ none left ──▶ join the pieces by shortest links
//! ```

use super::{Node, plane_distance};
use base::Rng;

/// How often a graph is drawn before its parts are joined.
const TRIES: usize = 100;

/// Returns the links of a connected random graph on these points.
pub(super) fn connected_graph(
    points: &[Node],
    probability: f64,
    rng: &mut Rng,
) -> Vec<(usize, usize)> {
    let n = points.len();
    let mut links = Vec::new();
    for _ in 0..TRIES {
        let pairs = (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b)));
        links = pairs.filter(|_| rng.chance(probability)).collect();
        if pieces(n, &links).iter().all(|piece| *piece == 0) {
            return links;
        }
    }
    let pieces = pieces(n, &links);
    join_pieces(points, &pieces, &mut links);
    links
}

/// Joins the parts to the part of the first point, the nearest first, by the shortest links.
fn join_pieces(points: &[Node], pieces: &[usize], links: &mut Vec<(usize, usize)>) {
    /// A point that is not joined yet, with the nearest point that is.
    struct Apart {
        point: usize,
        nearest: usize,
        km: f64,
    }
    let far = |point| Apart {
        point,
        nearest: 0,
        km: f64::INFINITY,
    };
    let mut apart: Vec<Apart> = (0..points.len()).map(far).collect();
    let mut piece = 0;
    loop {
        let joined: Vec<usize> = (0..points.len()).filter(|p| pieces[*p] == piece).collect();
        apart.retain(|apart| pieces[apart.point] != piece);
        for apart in &mut apart {
            for &nearest in &joined {
                let km = plane_distance(&points[apart.point], &points[nearest]);
                if km < apart.km {
                    (apart.nearest, apart.km) = (nearest, km);
                }
            }
        }
        let Some(next) = apart.iter().min_by(|a, b| a.km.total_cmp(&b.km)) else {
            return;
        };
        links.push((next.nearest, next.point));
        piece = pieces[next.point];
    }
}

/// Returns, for each point, the first point of its part.
fn pieces(n: usize, links: &[(usize, usize)]) -> Vec<usize> {
    let mut piece: Vec<usize> = (0..n).collect();
    for &(a, b) in links {
        let (from, to) = (piece[a].max(piece[b]), piece[a].min(piece[b]));
        if from != to {
            piece
                .iter_mut()
                .filter(|p| **p == from)
                .for_each(|p| *p = to);
        }
    }
    piece
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(count: usize, rng: &mut Rng) -> Vec<Node> {
        let point = |_| Node {
            name: String::new(),
            x: rng.unit(),
            y: rng.unit(),
        };
        (0..count).map(point).collect()
    }

    #[test]
    fn a_graph_has_the_links_of_its_probability_and_is_one() {
        let mut rng = Rng::new(6);
        let mut links_in_all = 0;
        for _ in 0..50 {
            let points = points(12, &mut rng);
            let links = connected_graph(&points, 0.5, &mut rng);
            assert_eq!(pieces(12, &links), [0; 12]);
            links_in_all += links.len();
        }
        let mean = links_in_all / 50;
        assert!((30..37).contains(&mean), "33 of 66 pairs expected: {mean}");
    }

    #[test]
    fn pieces_are_joined_by_the_shortest_tree() {
        let mut rng = Rng::new(7);
        for _ in 0..20 {
            let points = points(8, &mut rng);
            let links = connected_graph(&points, 0.0, &mut rng);
            assert_eq!(pieces(8, &links), [0; 8]);
            assert_eq!(links.len(), 7);
            let mut pairs: Vec<(usize, usize)> = (0..8)
                .flat_map(|a| (a + 1..8).map(move |b| (a, b)))
                .collect();
            let km = |pair: &(usize, usize)| plane_distance(&points[pair.0], &points[pair.1]);
            pairs.sort_by(|x, y| km(x).total_cmp(&km(y)));
            // This is Kruskal's algorithm.
            let mut tree = Vec::new();
            for pair in pairs {
                let before = pieces(8, &tree);
                if before[pair.0] != before[pair.1] {
                    tree.push(pair);
                }
            }
            let total = |links: &[(usize, usize)]| links.iter().map(km).sum::<f64>();
            assert!((total(&links) - total(&tree)).abs() < 1e-9);
        }
    }

    #[test]
    fn no_point_or_one_needs_no_link() {
        let mut rng = Rng::new(8);
        for count in [0, 1] {
            let points = points(count, &mut rng);
            assert!(connected_graph(&points, 1.0, &mut rng).is_empty());
        }
    }
}
