//! Where to relay on a path: the optimal *pipeline* of a given number of TCP connections, one after the other. [Liu04
//! §III-A, §III-B]
//!
//! ```text
//!   v0 ── v1 ── v2 ══ v3 ── v4 ── v5      n links, ══ the slowest; a connection over links i+1 … j
//!   └──────────┘└────┘└───────────┘       has the rate B(i,j)
//!   0          2      3           5       a 3-partition A; T(A) = min B(A(i-1), A(i))
//! ```
//!
//! Long connections suffer from the sums of delays and losses, so it pays to cut them: n equal links have n·√n times
//! the rate hop by hop. No pipeline is faster than its slowest link. Where fewer connections already reach that rate,
//! more relays cost memory and gain nothing ([`smallest`]).
//!
//! The algorithms here and in [`crate::stripes`] work on [`Rates`]: the rate of one connection between any two places
//! of the path, from the model, from measurement, or from better knowledge of the caller.

use crate::metric::LinkCost;
use crate::width::model::{self, Formula};
use crate::width::{Known, Width};

/// The maximum number of links of a path. The tables grow with its square. Paths of the Internet have fewer than 40
/// links.
pub const LINKS_MAX: usize = 256;

/// The rates of connections between two places of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// The rate of one connection alone.
    pub one: Width,
    /// The rate of any number of connections together: the capacity of the narrowest link.
    pub most: Width,
}

impl Rate {
    /// Returns the rate of this number of parallel connections.
    pub fn of(self, connections: usize) -> Width {
        self.one.times(connections).min(self.most)
    }
}

/// The rates of connections between any two places of a path. Places are numbered from 0, the source, to n, the
/// destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rates {
    links: usize,
    rates: Vec<Rate>,
}

/// Why there are no rates for a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a path of {0} links: use 1 to {LINKS_MAX}")]
pub struct BadPath(pub usize);

impl Rates {
    /// Builds the rates of a path of n `links`. The function `rate(i, j)` gives each rate for 0 ≤ i < j ≤ n.
    pub fn new(links: usize, mut rate: impl FnMut(usize, usize) -> Rate) -> Result<Rates, BadPath> {
        if !(1..=LINKS_MAX).contains(&links) {
            return Err(BadPath(links));
        }
        let mut rates = Vec::with_capacity((links + 1) * (links + 1));
        for i in 0..=links {
            for j in 0..=links {
                // No connection runs backwards, so these entries are never read.
                rates.push(if i < j {
                    rate(i, j)
                } else {
                    Rate {
                        one: Width::NONE,
                        most: Width::NONE,
                    }
                });
            }
        }
        Ok(Rates { links, rates })
    }

    /// Returns the rates that the model gives over links in a row [Liu04 §III-A (1)], limited by the narrowest of their
    /// capacities. For a single link, a measured rate replaces the model's rate.
    pub fn of_links(links: &[(LinkCost, Known)]) -> Result<Rates, BadPath> {
        Rates::new(links.len(), |i, j| {
            let over = &links[i..j];
            let most = over.iter().map(|(_, known)| known.most());
            let most = most.min().unwrap_or(Width::UNLIMITED);
            let one = match over {
                [(link, known)] => model::of_known(Formula::default(), *link, *known),
                _ => model::of_links(over.iter().map(|(link, _)| *link)).min(most),
            };
            Rate { one, most }
        })
    }

    /// Returns the rates of the same path if only some of its places have relays. `relays` are in rising order and
    /// include neither source nor destination.
    #[must_use]
    pub fn between(&self, relays: &[usize]) -> Rates {
        let inner = relays
            .iter()
            .copied()
            .filter(|at| (1..self.links).contains(at));
        let mut places: Vec<usize> = [0].into_iter().chain(inner).chain([self.links]).collect();
        places.sort_unstable();
        places.dedup();
        let at = |i: usize, j: usize| self.rate(places[i], places[j]);
        let links = places.len() - 1;
        let rates = (0..=links).flat_map(|i| (0..=links).map(move |j| (i, j)));
        Rates {
            links,
            rates: rates.map(|(i, j)| at(i, j)).collect(),
        }
    }

    /// Returns n, the number of links. The places are 0 to n.
    pub fn links(&self) -> usize {
        self.links
    }

    /// Returns B(i, j).
    pub fn rate(&self, i: usize, j: usize) -> Rate {
        self.rates[i * (self.links + 1) + j]
    }

    /// Returns the rate of the slowest link. No pipeline of single connections is faster: T(A) ≤ min B(i-1, i) [Liu04
    /// §III-A].
    pub fn bound(&self) -> Width {
        let links = (1..=self.links).map(|j| self.rate(j - 1, j).one);
        links.min().unwrap_or(Width::NONE)
    }
}

/// Connections in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pipeline {
    /// The places where they begin and end, A: 0, the relays, n.
    pub cuts: Vec<usize>,
    /// T(A): the rate of the slowest connection.
    pub rate: Width,
}

impl Pipeline {
    /// Returns the number of connections in a row, m.
    pub fn connections(&self) -> usize {
        self.cuts.len() - 1
    }

    /// Returns the places of the relays.
    pub fn relays(&self) -> &[usize] {
        &self.cuts[1..self.cuts.len() - 1]
    }
}

/// Returns the optimal pipeline of exactly m connections, for each m from 1 to n. The computation takes n³ steps.
pub fn pipelines(rates: &Rates) -> Vec<Pipeline> {
    let n = rates.links();
    // T*[k, m] by place, for the current m, and the k* from which each was reached, for all m.
    let mut best: Vec<Width> = (0..=n).map(|k| rates.rate(0, k).one).collect();
    let mut from: Vec<Vec<usize>> = vec![vec![0; n + 1]];
    let mut found = vec![traced(&from, n, best[n])];
    for m in 2..=n {
        let mut next = vec![Width::NONE; n + 1];
        let mut before = vec![0; n + 1];
        for j in m..=n {
            // T*[n,m] = max over m-1 ≤ k ≤ n-1 of min{T*[k,m-1], B(k,n)} [Liu04 §III-B]
            // Choice: of equally fast splits, the one whose faster part is the fastest.
            let split = (m - 1..j).map(|k| (best[k], rates.rate(k, j).one, k));
            let widest = split.max_by_key(|&(a, b, k)| (a.min(b), a.max(b), core::cmp::Reverse(k)));
            if let Some((a, b, k)) = widest {
                (next[j], before[j]) = (a.min(b), k);
            }
        }
        best = next;
        from.push(before);
        found.push(traced(&from, n, best[n]));
    }
    found
}

/// Returns the optimal pipeline of at most `m` connections; of equally fast ones, the one with the fewest connections.
/// If `m` is zero, it counts as 1.
pub fn pipeline(rates: &Rates, m: usize) -> Pipeline {
    let all = pipelines(rates).into_iter().take(m.max(1));
    let best = all.reduce(|best, next| if next.rate > best.rate { next } else { best });
    best.expect("a path has a link, so there is a pipeline of one connection")
}

/// Returns the smallest pipeline, m*, that reaches what any pipeline can reach: "adding more than m* sequential TCP
/// connections won't improve the end-end throughput" [Liu04 §III-B]. In the model, that rate is the rate of the slowest
/// link, [`Rates::bound`].
pub fn smallest(rates: &Rates) -> Pipeline {
    pipeline(rates, rates.links())
}

/// Follows the stored splits back: A*[n, m] = A*[k*, m-1] ⊕ {n} [Liu04 §III-B]
fn traced(from: &[Vec<usize>], n: usize, rate: Width) -> Pipeline {
    let mut cuts = vec![n];
    let mut at = n;
    for before in from.iter().rev() {
        at = before[at];
        cuts.push(at);
    }
    cuts.reverse();
    Pipeline { cuts, rate }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(losses: &[f64]) -> Rates {
        let link = |loss: &f64| (LinkCost::new(10_000, *loss), Known::default());
        let links: Vec<_> = losses.iter().map(link).collect();
        Rates::of_links(&links).unwrap()
    }

    #[test]
    fn two_relays_stand_at_both_ends_of_the_slowest_link() {
        // [Liu04 Fig. 2]
        let rates = links(&[0.001, 0.001, 0.02, 0.001, 0.001]);
        let best = pipeline(&rates, 3);
        assert_eq!((best.relays(), best.connections()), (&[2, 3][..], 3));
        assert_eq!(best.rate, rates.bound());
        assert_eq!(smallest(&rates).cuts, [0, 2, 3, 5], "more gain nothing");
    }

    #[test]
    fn equal_links_gain_n_root_n_hop_by_hop() {
        // By the paper's formula.
        let rates = Rates::new(6, |i, j| {
            let link = LinkCost::new(10_000, 0.005);
            Rate {
                one: model::square_root(std::iter::repeat_n(link, j - i)),
                most: Width::UNLIMITED,
            }
        });
        let rates = rates.unwrap();
        let all = pipelines(&rates);
        let rate = |m: usize| all[m - 1].rate.0 as f64;
        assert!((rate(6) / rate(1) - 6f64.powf(1.5)).abs() < 0.01);
        assert!((rate(2) / rate(1) - 2f64.powf(1.5)).abs() < 0.01, "halves");
        assert_eq!(all[1].cuts, [0, 3, 6]);
        assert_eq!(all[2].cuts, [0, 2, 4, 6]);
        assert_eq!(all[5].cuts, [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(smallest(&rates).connections(), 6);
        // With four or five connections, one segment of two links remains, as with three. So three connections are as
        // fast.
        assert_eq!(pipeline(&rates, 5).connections(), 3);
    }

    #[test]
    fn relays_stand_where_they_may() {
        let rates = links(&[0.005; 6]);
        let some = rates.between(&[1, 4]);
        assert_eq!((some.links(), some.rate(1, 2)), (3, rates.rate(1, 4)));
        assert_eq!(smallest(&some).cuts, [0, 1, 2, 3]);
        let none = rates.between(&[0, 6, 9]);
        assert_eq!(smallest(&none).rate, rates.rate(0, 6).one);
    }

    #[test]
    fn capacities_and_measurements_count() {
        let link = LinkCost::new(10_000, 0.01);
        let known = |capacity: Option<u64>, one: Option<u64>| {
            let (capacity, one) = (capacity.map(Width), one.map(Width));
            let known = Known {
                capacity,
                one,
                ..Known::default()
            };
            (link, known)
        };
        let path = [known(Some(1_000), None), known(None, Some(7_000))];
        let rates = Rates::of_links(&path).unwrap();
        assert_eq!(
            (rates.rate(0, 1).one, rates.bound()),
            (Width(1_000), Width(1_000))
        );
        assert_eq!(rates.rate(1, 2).of(3), Width(21_000));
        assert_eq!(
            rates.rate(0, 2).of(100),
            Width(1_000),
            "the narrowest capacity"
        );
        assert_eq!(Rates::of_links(&[]), Err(BadPath(0)));
        let none = Rate {
            one: Width(1),
            most: Width(1),
        };
        assert!(Rates::new(LINKS_MAX + 1, |_, _| none).is_err());
    }
}
