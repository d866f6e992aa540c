//! Connections in a row and side by side: the optimal placement of N TCP connections on a path.
//! [Liu04 §III-C]
//!
//! ```text
//!   v0 ──────── v2 ═══ v3 ──────── v5      3 segments, the middle one with two *stripes*: s = 1, 2, 1
//!                                          rate: min s(i)·B(Q(i-1), Q(i)),  Σ s(i) = N
//! ```
//!
//! Stripes speed up the worst segment, which relays cannot do. Relays free every segment from the delay and the losses
//! of the others, which stripes cannot do. The tables weigh both.

use crate::pipeline::Rates;
use crate::width::Width;

/// The maximum number of connections of a transfer, on all segments together. A relay between two segments holds
/// buffers for all their connections, and a share of a link that is as large hurts others [Liu04 §III-C].
pub const CONNECTIONS_MAX: usize = 256;

/// The number of connections that are allowed, 1 to [`CONNECTIONS_MAX`] in all; other numbers are limited to this
/// range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connections {
    /// On all segments together: the paper's N.
    InAll(usize),
    /// On each segment.
    OnEach(usize),
}

impl Connections {
    /// Returns the number of connections on this number of links together, however they are cut into segments.
    fn over(self, links: usize) -> usize {
        let most = match self {
            Connections::InAll(most) => most,
            Connections::OnEach(most) => most.saturating_mul(links),
        };
        most.clamp(1, CONNECTIONS_MAX)
    }

    /// Returns the maximum number of connections on one segment.
    fn each(self) -> usize {
        let (Connections::InAll(most) | Connections::OnEach(most)) = self;
        most.clamp(1, CONNECTIONS_MAX)
    }
}

impl From<usize> for Connections {
    fn from(most: usize) -> Connections {
        Connections::InAll(most)
    }
}

/// Segments in a row, each with parallel connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Striped {
    /// The places where segments begin and end, Q: 0, the relays, n.
    pub cuts: Vec<usize>,
    /// The connections of each segment, s.
    pub stripes: Vec<usize>,
    /// The rate of the slowest segment.
    pub rate: Width,
}

impl Striped {
    /// Returns the number of all connections together.
    pub fn connections(&self) -> usize {
        self.stripes.iter().sum()
    }
}

/// Returns the fastest placement of at most `connections` connections. Takes N²·n² steps.
///
/// Choice: the paper places exactly N. More connections never reduce min s(i)·B. But where a capacity or another
/// segment is the limit, they gain nothing and harm others ("too many parallel connections can cause more congestion",
/// [Liu04 §III-C]). So of the equally fast placements, the function returns the one with the fewest connections.
pub fn striped(rates: &Rates, connections: impl Into<Connections>) -> Striped {
    let (n, connections) = (rates.links(), connections.into());
    let (most, each) = (connections.over(n), connections.each());
    let wide = most + 1;
    // T*[k, l] and {k*, s}: l connections between places 0 and k.
    let mut best = vec![Width::NONE; (n + 1) * wide];
    let mut from = vec![(0, 0); (n + 1) * wide];
    best[0] = Width::UNLIMITED;
    for k in 1..=n {
        for l in 1..=most {
            // T*[n,N] = max over k, j of min{T*[k,j], (N-j)·B(k,n)} [Liu04 §III-C], where T*[0,0] has no limit: all N
            // connections are on one segment.
            for i in 0..k {
                for stripes in 1..=l.min(each) {
                    let before = best[i * wide + l - stripes];
                    let rate = before.min(rates.rate(i, k).of(stripes));
                    // Choice: of equally fast placements, the one whose last segment is the longest: it has fewer
                    // relays.
                    if rate > best[k * wide + l] {
                        best[k * wide + l] = rate;
                        from[k * wide + l] = (i, stripes);
                    }
                }
            }
        }
    }
    let widest = (1..=most).map(|l| best[n * wide + l]).max();
    let rate = widest.unwrap_or(Width::NONE);
    let fewest = (1..=most).find(|l| best[n * wide + l] == rate).unwrap_or(1);
    if rate == Width::NONE {
        return Striped {
            cuts: vec![0, n],
            stripes: vec![1],
            rate,
        };
    }
    // Q*[n,N] = Q*[k*,j*] ⊕ {n}, s*[n,N] = s*[k*,j*] ⊕ {N-j*} [Liu04 §III-C]
    let (mut cuts, mut stripes) = (vec![n], Vec::new());
    let (mut k, mut l) = (n, fewest);
    while k > 0 {
        let (before, side_by_side) = from[k * wide + l];
        stripes.push(side_by_side);
        cuts.push(before);
        (k, l) = (before, l - side_by_side);
    }
    cuts.reverse();
    stripes.reverse();
    Striped {
        cuts,
        stripes,
        rate,
    }
}

/// Returns the optimal stripes of given segments. `rates` has one link per segment: "given m and Q, it becomes an
/// integer programming problem" [Liu04 §III-C]. Each further connection goes to the segment that is the slowest at that
/// point. This is optimal, since more connections never slow a segment down. There are at most `connections`, and at
/// least one per segment.
pub fn stripes_of(rates: &Rates, connections: impl Into<Connections>) -> Striped {
    let (n, connections) = (rates.links(), connections.into());
    let mut stripes = vec![1; n];
    let rate = |stripes: &[usize], at: usize| rates.rate(at, at + 1).of(stripes[at]);
    for _ in n..connections.over(n) {
        let slowest = (0..n)
            .min_by_key(|&at| (rate(&stripes, at), at))
            .unwrap_or(0);
        let before = rate(&stripes, slowest);
        if stripes[slowest] == connections.each() {
            break;
        }
        stripes[slowest] += 1;
        if rate(&stripes, slowest) == before {
            // The segment has reached its capacity, so no further gain is possible.
            stripes[slowest] -= 1;
            break;
        }
    }
    let slowest = (0..n).map(|at| rate(&stripes, at)).min();
    let rate = slowest.unwrap_or(Width::NONE);
    // Remove connections that are not needed: the last ones may have gained nothing.
    for (at, count) in stripes.iter_mut().enumerate() {
        while *count > 1 && rates.rate(at, at + 1).of(*count - 1) >= rate {
            *count -= 1;
        }
    }
    Striped {
        cuts: (0..=n).collect(),
        stripes,
        rate,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::LinkCost;
    use crate::pipeline::{Rate, smallest};
    use crate::width::Known;

    fn links(links: &[(f64, Option<u64>)]) -> Rates {
        let link = |(loss, capacity): &(f64, Option<u64>)| {
            let known = Known {
                capacity: capacity.map(Width),
                ..Known::default()
            };
            (LinkCost::new(10_000, *loss), known)
        };
        let links: Vec<_> = links.iter().map(link).collect();
        Rates::of_links(&links).unwrap()
    }

    #[test]
    fn the_slowest_link_gets_parallel_connections() {
        // [Liu04 Fig. 3]
        let path = [0.002, 0.002, 0.02, 0.002, 0.002].map(|loss| (loss, None));
        let rates = links(&path);
        let bound = smallest(&rates);
        let four = striped(&rates, bound.connections() + 1);
        assert_eq!(
            (&four.cuts[..], &four.stripes[..]),
            (&[0, 2, 3, 5][..], &[1, 2, 1][..])
        );
        assert!(four.rate > bound.rate);
        assert_eq!(striped(&rates, 1).rate, rates.rate(0, 5).one);
        assert_eq!(striped(&rates, 0), striped(&rates, 1));
        let many = striped(&rates, 30);
        assert!(many.rate > four.rate && many.connections() <= 30);
    }

    #[test]
    fn capacity_ends_what_stripes_gain() {
        let path = [(0.01, Some(20_000_000)), (0.01, Some(9_000_000))];
        let full = striped(&links(&path), 100);
        assert_eq!(full.rate, Width(9_000_000));
        assert_eq!(full.connections(), 4, "2.5 Mbit/s each: {full:?}");
        let apart = stripes_of(&links(&path), 100);
        assert_eq!(
            (apart.stripes, apart.rate),
            (vec![2, 2], full.rate),
            "7.2 Mbit/s each"
        );
    }

    #[test]
    fn what_carries_nothing_stays_at_nothing() {
        let none = Rate {
            one: Width::NONE,
            most: Width::UNLIMITED,
        };
        let rates = Rates::new(3, |_, _| none).unwrap();
        assert_eq!(striped(&rates, 9).rate, Width::NONE);
        assert_eq!(stripes_of(&rates, 9).rate, Width::NONE);
    }
}
