//! Where to relay on a path: the optimal *pipeline* of so many TCP connections one after the other.
//! [Liu04 §III-A, §III-B]
//!
//! ```text
//!   v0 ── v1 ── v2 ══ v3 ── v4 ── v5      n links, ══ the slowest; a connection over links i+1 … j
//!   └──────────┘└────┘└───────────┘       has the rate B(i,j)
//!   0          2      3           5       a 3-partition A; T(A) = min B(A(i-1), A(i))
//! ```
//!
//! Long connections suffer from the sums of delays and losses, so cutting them pays: n equal links
//! have n·√n times the rate hop by hop. No pipeline is faster than its slowest link; where fewer
//! connections reach that already, more relays cost memory and gain nothing ([`smallest`]).
//!
//! [`Rates`] are what the algorithms here and in [`crate::stripes`] work on: what one connection
//! between any two places of the path carries, by the model, by measurement, or by whatever a caller
//! knows better.

use crate::metric::LinkCost;
use crate::width::model::{self, Formula};
use crate::width::{Known, Width};

/// Links of a path at most: the tables grow with their square. Paths of the Internet have under 40.
pub const LINKS_MAX: usize = 256;

/// What connections between two places of a path carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// One connection alone.
    pub one: Width,
    /// All together, however many: the capacity of the narrowest link.
    pub most: Width,
}

impl Rate {
    /// So many connections side by side.
    pub fn of(self, connections: usize) -> Width {
        self.one.times(connections).min(self.most)
    }
}

/// What connections between any two places of a path carry. Places are numbered from 0, the source,
/// to n, the destination.
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
    /// The rates of a path of n `links`, each told by `rate(i, j)` for 0 ≤ i < j ≤ n.
    pub fn new(links: usize, mut rate: impl FnMut(usize, usize) -> Rate) -> Result<Rates, BadPath> {
        if !(1..=LINKS_MAX).contains(&links) {
            return Err(BadPath(links));
        }
        let mut rates = Vec::with_capacity((links + 1) * (links + 1));
        for i in 0..=links {
            for j in 0..=links {
                // Nothing runs backwards; those places are never looked at.
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

    /// The rates that the model gives over links in a row [Liu04 §III-A (1)], no more than the
    /// narrowest of their capacities; over one link what was measured on it, if anything was.
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

    /// The same path with relays at some of its places only: `relays` in rising order, neither
    /// source nor destination among them.
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

    /// n: the places are 0 to n.
    pub fn links(&self) -> usize {
        self.links
    }

    /// B(i, j).
    pub fn rate(&self, i: usize, j: usize) -> Rate {
        self.rates[i * (self.links + 1) + j]
    }

    /// The rate of the slowest link: no pipeline of single connections has more, T(A) ≤ min B(i-1,
    /// i) [Liu04 §III-A].
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
    /// T(A): the rate of the slowest.
    pub rate: Width,
}

impl Pipeline {
    /// Connections in a row, m.
    pub fn connections(&self) -> usize {
        self.cuts.len() - 1
    }

    /// The places of the relays.
    pub fn relays(&self) -> &[usize] {
        &self.cuts[1..self.cuts.len() - 1]
    }
}

/// The optimal pipeline of exactly m connections for each m from 1 to n. Takes n³ steps.
pub fn pipelines(rates: &Rates) -> Vec<Pipeline> {
    let n = rates.links();
    // T*[k, m] by place, for the m at hand, and the k* from which each was reached, for all m.
    let mut best: Vec<Width> = (0..=n).map(|k| rates.rate(0, k).one).collect();
    let mut from: Vec<Vec<usize>> = vec![vec![0; n + 1]];
    let mut found = vec![traced(&from, n, best[n])];
    for m in 2..=n {
        let mut next = vec![Width::NONE; n + 1];
        let mut before = vec![0; n + 1];
        for j in m..=n {
            // T*[n,m] = max over m-1 ≤ k ≤ n-1 of min{T*[k,m-1], B(k,n)} [Liu04 §III-B]
            // Choice: of equal ones the split whose other side is the faster.
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

/// The optimal pipeline of at most `m` connections, and of equally fast ones that of the fewest.
/// With fewer than one connection there is none; it is taken for one.
pub fn pipeline(rates: &Rates, m: usize) -> Pipeline {
    let all = pipelines(rates).into_iter().take(m.max(1));
    let best = all.reduce(|best, next| if next.rate > best.rate { next } else { best });
    best.expect("a path has a link, so there is a pipeline of one connection")
}

/// The smallest m* that reaches what any pipeline can: "adding more than m* sequential TCP
/// connections won't improve the end-end throughput" [Liu04 §III-B]. By the model that is the rate of
/// the slowest link, [`Rates::bound`].
pub fn smallest(rates: &Rates) -> Pipeline {
    pipeline(rates, rates.links())
}

/// A*[n, m] = A*[k*, m-1] ⊕ {n} [Liu04 §III-B]
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
        // With four or five a segment of two links is left, as with three: fewer do as well.
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
