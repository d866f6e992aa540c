//! Every pair of nodes whose path changes between two topologies.

use super::{Class, Question, Route, answer};
use crate::metric::Metric;
use crate::paths::price;
use crate::spf::Tree;
use crate::topology::{NodeIndex, Topology};
use base::{NodeAddr, Set};

/// The maximum number of pairs that are compared for classes whose paths are computed one by one: all pairs of 100
/// nodes. Each costs some shortest-path trees of 100 nodes, 10 µs each, so 10 000 pairs take a second.
pub const STAMPED_PAIRS_MAX: usize = 10_000;
/// The same for best routes, whose search takes a millisecond each among 30 nodes.
pub const BEST_PAIRS_MAX: usize = 1_000;

/// A pair whose path changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// The node that packets come from.
    pub src: NodeAddr,
    /// The node that packets go to.
    pub dst: NodeAddr,
    /// The path or paths before the change; empty if there was none.
    pub before: Vec<Route>,
    /// The path or paths after the change.
    pub after: Vec<Route>,
}

/// The pairs whose paths change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changed {
    /// Number of pairs that were compared.
    pub compared: usize,
    /// Number of pairs whose path changes.
    pub changed: usize,
    /// Number of these pairs that lose their only path.
    pub lost: usize,
    /// Number of these pairs that had no path before.
    pub gained: usize,
    /// The first changed pairs in order of source and destination; pairs that lost their path come first.
    pub listed: Vec<Pair>,
}

/// There are more pairs than are compared for this class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyPairs {
    /// Number of pairs in the topology.
    pub pairs: usize,
    /// Maximum number of pairs that are compared.
    pub most: usize,
}

/// Compares the paths of all pairs, and lists up to `list` of those that differ.
pub fn changed(
    before: &Topology,
    after: &Topology,
    class: Class,
    deadline_us: u32,
    list: usize,
) -> Result<Changed, TooManyPairs> {
    let mut nodes: Vec<NodeAddr> = before.nodes().map(|node| before.addr(node)).collect();
    nodes.sort_unstable();
    let pairs = nodes.len() * nodes.len().saturating_sub(1);
    let most = match class {
        Class::Metric(_) => usize::MAX,
        Class::Width | Class::Disjoint(_) | Class::Targeted => STAMPED_PAIRS_MAX,
        Class::Best => BEST_PAIRS_MAX,
    };
    if pairs > most {
        return Err(TooManyPairs { pairs, most });
    }
    let mut changed = Changed {
        compared: pairs,
        ..Changed::default()
    };
    let mut found = Vec::new();
    for &src in &nodes {
        let different = different(before, after, class, deadline_us, src, &nodes);
        if different.is_empty() {
            continue;
        }
        let [had, has] = [before, after].map(|topology| reached(topology, src));
        for dst in different {
            found.push((has.contains(&dst), src, dst));
            changed.lost += usize::from(!has.contains(&dst));
            changed.gained += usize::from(!had.contains(&dst));
        }
    }
    changed.changed = found.len();
    found.sort_unstable();
    found.truncate(list);
    let pair = |(_, src, dst)| {
        let [before, after] =
            [before, after].map(|topology| paths(topology, class, deadline_us, src, dst));
        Pair {
            src,
            dst,
            before,
            after,
        }
    };
    changed.listed = found.into_iter().map(pair).collect();
    Ok(changed)
}

/// Returns the nodes that can be reached.
fn reached(topology: &Topology, src: NodeAddr) -> Set<NodeAddr> {
    let mut seen = Set::default();
    let mut stack: Vec<NodeIndex> = topology.index(src).into_iter().collect();
    while let Some(node) = stack.pop() {
        if seen.insert(topology.addr(node)) {
            stack.extend(topology.links_from(node).iter().map(|edge| edge.peer));
        }
    }
    seen
}

/// Returns the destinations to which the path from `src` differs.
fn different(
    before: &Topology,
    after: &Topology,
    class: Class,
    deadline_us: u32,
    src: NodeAddr,
    nodes: &[NodeAddr],
) -> Vec<NodeAddr> {
    let others = nodes.iter().copied().filter(|dst| *dst != src);
    if let Class::Metric(metric) = class {
        let (old, new) = (
            Paths::of(before, src, metric),
            Paths::of(after, src, metric),
        );
        return others.filter(|dst| old.differs(&new, *dst)).collect();
    }
    let nodes_of = |topology: &Topology, dst| -> Vec<Vec<NodeAddr>> {
        let routes = paths(topology, class, deadline_us, src, dst);
        routes.iter().map(|route| route.nodes().collect()).collect()
    };
    others
        .filter(|dst| nodes_of(before, *dst) != nodes_of(after, *dst))
        .collect()
}

/// Returns the paths of one pair; empty if there is no path.
fn paths(
    topology: &Topology,
    class: Class,
    deadline_us: u32,
    src: NodeAddr,
    dst: NodeAddr,
) -> Vec<Route> {
    if let Class::Metric(metric) = class {
        let paths = Paths::of(topology, src, metric);
        let nodes = topology
            .index(dst)
            .map(|node| paths.nodes(node))
            .unwrap_or_default();
        let path = price(topology, metric, &nodes);
        let there = !path.hops.is_empty();
        return there
            .then(|| Route::of(topology, &path, deadline_us))
            .into_iter()
            .collect();
    }
    let question = Question {
        src,
        dst,
        class,
        deadline_us,
        runners_up: 0,
    };
    answer(topology, &question).map_or_else(|_| Vec::new(), |answer| answer.chosen)
}

/// The tree of a source, and the data from which its paths are built.
struct Paths<'t> {
    topology: &'t Topology,
    tree: Option<Tree>,
}

impl<'t> Paths<'t> {
    fn of(topology: &'t Topology, src: NodeAddr, metric: Metric) -> Paths<'t> {
        let tree = topology
            .index(src)
            .map(|root| Tree::new(topology, root, metric));
        Paths { topology, tree }
    }

    fn nodes(&self, node: NodeIndex) -> Vec<NodeIndex> {
        self.tree
            .as_ref()
            .map(|tree| tree.path(node))
            .unwrap_or_default()
    }

    /// Returns whether the paths differ. Walks both paths back from their common end.
    fn differs(&self, other: &Paths<'_>, dst: NodeAddr) -> bool {
        let mut at = dst;
        loop {
            let (mine, theirs) = (self.before(at), other.before(at));
            if mine != theirs {
                return true;
            }
            match mine {
                Some(parent) => at = parent,
                None => return false,
            }
        }
    }

    fn before(&self, node: NodeAddr) -> Option<NodeAddr> {
        let parent = self.tree.as_ref()?.parent(self.topology.index(node)?)?;
        Some(self.topology.addr(parent))
    }
}
