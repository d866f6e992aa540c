//! The widest paths of few links in dense networks, computed a machine word at a time instead of link by link.
//!
//! [Liu04 §IV-B] cites an improved Bellman-Ford algorithm for hop-limited widest paths that takes O(|E|·log|V| +
//! m·|V|²/log|V|) instead of O(m·|E|), and asks how both compare. The paper gives only that bound. The algorithm here
//! meets the bound, and its rounds equal those of the plain one, even in ties.
//!
//! In a round, a link u→v offers `min(W[u], B(u, v))`. Widths only grow from round to round, so a link is *spent* once
//! `W[u] ≥ B(u, v)`: from then on it always offers its own width.
//!
//! ```text
//!   spent links    each once: the widest one into v is kept                    |E| in all rounds,
//!                                                         found along lists sorted by width
//!   other links    offer W[u]: the first u in falling order of W[u] with a link to v is the best;
//!                  so take the u in that order, and strike what each one reaches, 64 nodes at a
//!                  time, off the list of those who have no offer yet           |V|²/64 a round
//! ```
//!
//! The algorithm needs every node's links sorted by width, which costs more than a few plain rounds do. That order
//! depends on the topology, not on the root: [`Dense`] keeps it for many roots.
//!
//! Measured (`sinew bench routing`, docs/bench.md): time divided by that of the plain algorithm:
//!
//! | nodes | links of all pairs | at most 3 hops | any hops | any hops, sorting included |
//! |---|---|---|---|---|
//! | 20 | 5 %, 50 %, all | 2.0, 1.2, 1.1 | 1.8, 1.1, 0.8 | 2.8, 1.9, 1.8 |
//! | 100 | 5 %, 50 %, all | 1.7, 1.0, 0.9 | 1.5, 0.5, 0.4 | 2.1, 1.1, 1.4 |
//! | 400 | 5 %, 50 %, all | 1.3, 0.6, 0.3 | 0.8, 0.12, 0.06 | 1.0, 0.8, 0.7 |
//!
//! So this algorithm is faster where a network has hundreds of nodes or most of its links, and many roots share the
//! order. For a single root, it is faster only in the largest networks and without a limit on hops.

use super::Width;
use super::limited::{HopLimited, Round};
use crate::topology::{NodeIndex, Topology};
use base::NodeAddr;

/// Bits of a word.
const WORD: usize = u64::BITS as usize;

/// A topology prepared for the widest paths of few links from many roots.
#[derive(Clone, Debug)]
pub struct Dense {
    addrs: Vec<NodeAddr>,
    /// The links of each node from narrow to wide: width and far end.
    links: Vec<Vec<(Width, NodeIndex)>>,
    /// A row of bits for each node: the nodes that it has links to.
    reach: Vec<u64>,
    /// Number of words in a row.
    words: usize,
}

impl Dense {
    /// Sorts the links. This takes |E|·log|V| time, and |V|²/8 bytes beside the links.
    pub fn new(topology: &Topology) -> Dense {
        let words = topology.node_count().div_ceil(WORD);
        let mut reach = vec![0; topology.node_count() * words];
        let mut links = Vec::with_capacity(topology.node_count());
        for node in topology.nodes() {
            let edges = topology.links_from(node).iter();
            let mut sorted: Vec<_> = edges.map(|edge| (edge.width(), edge.peer)).collect();
            sorted.sort_unstable();
            for (_, peer) in &sorted {
                reach[node.place() * words + peer.place() / WORD] |= bit(peer.place());
            }
            links.push(sorted);
        }
        Dense {
            addrs: topology.nodes().map(|node| topology.addr(node)).collect(),
            links,
            reach,
            words,
        }
    }

    /// Returns the widest paths from `root` of at most `hops` links, the same result as [`super::widest_within`].
    pub fn widest_within(&self, root: NodeIndex, hops: usize) -> HopLimited {
        let nodes = self.addrs.len();
        let mut search = Search {
            dense: self,
            open: self.reach.clone(),
            spent: vec![0; nodes],
            widest_spent: vec![(Width::NONE, root); nodes],
        };
        let mut rounds = vec![HopLimited::first_round(nodes, root)];
        for _ in 0..hops.min(nodes) {
            let before = &rounds[rounds.len() - 1];
            let round = search.round(before, root);
            if round == *before {
                break;
            }
            rounds.push(round);
        }
        HopLimited::of(root, rounds)
    }

    fn addr(&self, node: NodeIndex) -> NodeAddr {
        self.addrs[node.place()]
    }
}

struct Search<'a> {
    dense: &'a Dense,
    /// The links that are not spent.
    open: Vec<u64>,
    /// Number of a node's links that are spent, starting from the narrowest.
    spent: Vec<usize>,
    /// The widest spent link into each node, and where it begins.
    widest_spent: Vec<(Width, NodeIndex)>,
}

impl Search<'_> {
    fn round(&mut self, before: &Round, root: NodeIndex) -> Round {
        let mut order: Vec<NodeIndex> = (0..before.len() as u32).map(NodeIndex).collect();
        order.retain(|node| before[node.place()].0 > Width::NONE);
        for &node in &order {
            self.spend(node, before[node.place()].0);
        }
        let mut round = before.clone();
        for (place, &(width, from)) in self.widest_spent.iter().enumerate() {
            if width > before[place].0 {
                round[place] = (width, from);
            }
        }
        order.sort_by_key(|node| {
            let width = before[node.place()].0;
            (core::cmp::Reverse(width), self.dense.addr(*node))
        });
        self.offer(before, &mut round, &order, root);
        round
    }

    /// Records which links of a node of this width are spent.
    fn spend(&mut self, node: NodeIndex, width: Width) {
        let links = &self.dense.links[node.place()];
        while let Some(&(link, to)) = links.get(self.spent[node.place()])
            && link <= width
        {
            self.spent[node.place()] += 1;
            self.open[node.place() * self.dense.words + to.place() / WORD] &= !bit(to.place());
            let best = &mut self.widest_spent[to.place()];
            let lower = self.dense.addr(node) < self.dense.addr(best.1);
            if link > best.0 || (link == best.0 && lower) {
                *best = (link, node);
            }
        }
    }

    /// Applies the offers of links that are wider than the node where they begin: they offer the width of that node.
    fn offer(&self, before: &Round, round: &mut Round, order: &[NodeIndex], root: NodeIndex) {
        let words = self.dense.words;
        let mut waiting = vec![u64::MAX; words];
        if let Some(last) = waiting.last_mut()
            && !before.len().is_multiple_of(WORD)
        {
            *last = bit(before.len()) - 1;
        }
        waiting[root.place() / WORD] &= !bit(root.place());
        for &node in order {
            let width = before[node.place()].0;
            let row = &self.open[node.place() * words..][..words];
            for (at, (open, waiting)) in row.iter().zip(&mut waiting).enumerate() {
                let mut reached = open & *waiting;
                *waiting &= !reached;
                while reached != 0 {
                    let place = at * WORD + reached.trailing_zeros() as usize;
                    reached &= reached - 1;
                    let best = &mut round[place];
                    let lower = self.dense.addr(node) < self.dense.addr(best.1);
                    let tie = width == best.0 && width > before[place].0 && lower;
                    if width > best.0 || tie {
                        *best = (width, node);
                    }
                }
            }
        }
    }
}

/// Returns the bit of a position within its word.
const fn bit(place: usize) -> u64 {
    1 << (place % WORD)
}
