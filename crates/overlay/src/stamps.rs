//! The stamps of this node's packets: computed when first wanted, kept until the topology changes.
//!
//! ```text
//!   (destination, scheme, link protocol, deadline) ──▶ entry? of this topology? ──▶ the bytes
//!                                                         │ no
//!                                                         ▼
//!                      rested? ──▶ graph::best, graph::disjoint ──▶ stamp::Subgraph ──▶ bytes
//!                         │ no
//!                         ▼
//!                   the old one; without one, none: by table, by expected latency
//! ```
//!
//! A stamp is computed on the engine's thread, so it costs packets time. One computation is bounded
//! by its effort, and after it the node rests for nine times as long as it took by the count of
//! work, so a network in uproar, or a thousand clients that write to a thousand nodes, cannot
//! spend more than a tenth of the node on it. Work is counted, not timed: the same inputs give the
//! same routes.
//!
//! When a node dies, its neighbours find out one after the other, those with idle links seconds
//! later. What is computed in between may lead through the dead node over a link that nobody has
//! missed yet. So a disjoint path that was in use and has all its links goes on being stamped,
//! beside the new ones, until things have settled.

use base::{Duration, Map, NodeAddr, Time};
use graph::best::{Effort, Question, best_route};
use graph::delivery::Recovery;
use graph::disjoint::disjoint;
use graph::stamp::Subgraph;
use graph::{Metric, Topology};
use wire::data::LinkProtocol;
use wire::ipc::Scheme;
use wire::stamp::{STAMP_BYTES_MAX, Stamp, emit_subgraph};

/// Stamps kept: 256 of at most 514 bytes are 130 kB. When there are more, the one that was wanted
/// least lately goes.
pub const STAMPS_MAX: usize = 256;
/// What is spent on a best route: half of a tenth of a point from the optimum, and at most about
/// 5 ms of search. What is found by then is never worse than the path of the least expected
/// latency, with which the search begins.
pub const EFFORT: Effort = Effort {
    tolerance: 0.000_5,
    work: 1_000_000,
};
/// One unit of work, as [`Effort::work`] counts.
const WORK: Duration = Duration::from_nanos(5);
/// Work per link of the topology, in each of the runs of Dijkstra's algorithm that any scheme
/// needs (100 ns), and their number: one per disjoint path, six for bounds and metrics of a best
/// route.
const WORK_PER_LINK: u64 = 20;
/// After a computation: nine parts of rest to one of work.
const REST: u64 = 9;

/// What a stamp depends on besides the topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wish {
    /// Where the packets go.
    pub to: NodeAddr,
    /// How the stamp is chosen.
    pub scheme: Scheme,
    /// What is done about losses on each link.
    pub link: LinkProtocol,
    /// How soon packets have to be there; none if it does not matter.
    pub deadline: Option<Duration>,
}

/// What the node has stamps for.
#[derive(Debug, Default)]
pub struct Stamps {
    entries: Map<Wish, Entry>,
    rested_at: Time,
    stats: Stats,
}

/// What computing stamps has come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Stamps computed.
    pub computed: u64,
    /// Of them those that are none: no path, too long, or no deadline for a best route.
    pub failed: u64,
}

/// How long old paths are stamped beside new ones: an idle link is given up within so long.
const SETTLE: Duration = Duration::from_secs(5);
/// Old paths beside new ones, at most.
const OLD_PATHS_MAX: usize = 3;

#[derive(Debug, Default)]
struct Entry {
    /// The topology that it was computed for.
    generation: u64,
    wanted: Time,
    paths: Vec<Vec<NodeAddr>>,
    /// Those that were in use before and still are, and until when.
    old: Vec<Vec<NodeAddr>>,
    old_until: Time,
    /// Empty if there is none.
    stamp: Vec<u8>,
}

/// The question that scheme "best" asks of a topology; `None` without a deadline.
pub fn question(src: NodeAddr, wish: &Wish) -> Option<Question> {
    let us = wish.deadline?.as_micros();
    Some(Question {
        src,
        dst: wish.to,
        deadline_us: u32::try_from(us).unwrap_or(u32::MAX),
        recovery: match wish.link {
            LinkProtocol::BestEffort => Recovery::None,
            LinkProtocol::RealTime | LinkProtocol::Reliable => Recovery::default(),
        },
    })
}

/// The paths from `src` that a scheme chooses in a topology, none for flooding, and the work that
/// it took. Empty if there is no path or nothing to choose by.
pub fn paths(topology: &Topology, src: NodeAddr, wish: &Wish) -> (Vec<Vec<NodeAddr>>, u64) {
    let run = topology.link_count() as u64 * WORK_PER_LINK;
    let apart = |k: usize| {
        let found = disjoint(topology, src, wish.to, Metric::ExpectedLatency, k);
        let found = found.unwrap_or_default();
        let nodes = found.iter().map(|path| path.nodes().collect()).collect();
        (nodes, run * k as u64)
    };
    match wish.scheme {
        Scheme::Flooding => (Vec::new(), 0),
        Scheme::Disjoint => apart(2),
        Scheme::Disjoint3 => apart(3),
        Scheme::Best => {
            let route = question(src, wish).map(|q| best_route(topology, &q, &EFFORT));
            match route {
                Some(Ok(route)) => {
                    let nodes = route.nodes.iter().map(|node| topology.addr(*node));
                    (vec![nodes.collect()], 6 * run + route.work)
                }
                Some(Err(_)) => (Vec::new(), run),
                None => (Vec::new(), 0),
            }
        }
    }
}

impl Stamps {
    /// The stamp of a packet from `own`, for the topology of this generation, or an older one while
    /// it rests. `None` for now, if there is none: route by table.
    pub fn stamp(
        &mut self,
        now: Time,
        own: NodeAddr,
        wish: Wish,
        generation: u64,
        topology: &Topology,
    ) -> Option<&[u8]> {
        if wish.scheme == Scheme::Flooding {
            const FLOODING: [u8; 1] = [1];
            debug_assert_eq!(Stamp::parse(&FLOODING), Ok(Stamp::Flooding));
            return Some(&FLOODING);
        }
        let present = self.entries.get(&wish);
        let holds = |entry: &Entry| {
            entry.generation == generation && (entry.old.is_empty() || now < entry.old_until)
        };
        if !present.is_some_and(holds) && now >= self.rested_at {
            let before = self.entries.remove(&wish);
            if before.is_none() && self.entries.len() >= STAMPS_MAX {
                self.evict();
            }
            let entry = Entry {
                generation,
                ..self.compute(now, own, &wish, before, topology)
            };
            self.entries.insert(wish, entry);
        }
        let entry = self.entries.get_mut(&wish)?;
        entry.wanted = now;
        (!entry.stamp.is_empty()).then_some(&entry.stamp)
    }

    /// What computing stamps has come to.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    fn compute(
        &mut self,
        now: Time,
        own: NodeAddr,
        wish: &Wish,
        before: Option<Entry>,
        topology: &Topology,
    ) -> Entry {
        let (paths, work) = paths(topology, own, wish);
        self.rested_at = now + WORK * work * (REST + 1);
        let mut entry = Entry {
            paths,
            ..Entry::default()
        };
        if let Some(before) = before
            && matches!(wish.scheme, Scheme::Disjoint | Scheme::Disjoint3)
        {
            entry.keep(now, before, topology);
        }
        // The old ones are known to carry packets: if not all fit one stamp, they do.
        let mut together = Vec::new();
        for path in entry.old.iter().chain(&entry.paths) {
            together.push(path.clone());
            match bytes_of(&together) {
                Some(stamp) => entry.stamp = stamp,
                None => drop(together.pop()),
            }
        }
        self.stats.computed += 1;
        self.stats.failed += u64::from(entry.stamp.is_empty());
        entry
    }

    fn evict(&mut self) {
        let oldest = self.entries.iter().map(|(wish, e)| (e.wanted, *wish)).min();
        if let Some((_, wish)) = oldest {
            self.entries.remove(&wish);
        }
    }
}

impl Entry {
    /// Keeps the paths of the entry before this one that have all their links.
    fn keep(&mut self, now: Time, before: Entry, topology: &Topology) {
        let has_link = |hop: &[NodeAddr]| {
            let ends = topology.index(hop[0]).zip(topology.index(hop[1]));
            ends.is_some_and(|(from, to)| topology.link(from, to).is_some())
        };
        let is_whole = |path: &Vec<NodeAddr>| path.windows(2).all(has_link);
        let is_settled = now >= before.old_until;
        let mut old: Vec<Vec<NodeAddr>> = Vec::new();
        self.old_until = before.old_until;
        // Without a failure there are better paths now, and those before are not missed.
        if !before.paths.iter().all(is_whole) {
            old.extend(before.paths);
            self.old_until = now + SETTLE;
        }
        old.extend(before.old.into_iter().filter(|_| !is_settled));
        old.retain(|path| is_whole(path) && !self.paths.contains(path));
        old.truncate(OLD_PATHS_MAX);
        self.old = old;
    }
}

/// The stamp for some paths; `None` if there are none, or they do not fit one.
fn bytes_of(paths: &[Vec<NodeAddr>]) -> Option<Vec<u8>> {
    let graph = Subgraph::of_paths(paths).ok()?;
    let place = |place: usize| u8::try_from(place).ok();
    let links = graph.links.iter();
    let links = links.map(|&(from, to)| Some((place(from)?, place(to)?)));
    let links: Vec<(u8, u8)> = links.collect::<Option<_>>()?;
    let mut bytes = vec![0; STAMP_BYTES_MAX];
    let len = emit_subgraph(&graph.nodes, &links, &mut bytes).ok()?;
    bytes.truncate(len);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use graph::{LinkCost, Parameters};

    const OWN: NodeAddr = node(1);

    const fn node(i: u32) -> NodeAddr {
        NodeAddr(0x0a07_0000 + i)
    }

    /// 1 to 4 by 2 (20 ms), by 3 (30 ms) and directly (50 ms, lossy).
    fn topology() -> Topology {
        let links = [
            (1, 2, 10, 0.0),
            (2, 4, 10, 0.0),
            (1, 3, 10, 0.0),
            (3, 4, 20, 0.0),
            (1, 4, 50, 0.1),
        ];
        let both = links.iter().flat_map(|&(a, b, ms, p)| {
            let cost = LinkCost::new(ms * 1_000, p);
            [(node(a), node(b), cost), (node(b), node(a), cost)]
        });
        Topology::from_links(Parameters::default(), both)
    }

    fn wish(scheme: Scheme) -> Wish {
        Wish {
            to: node(4),
            scheme,
            link: LinkProtocol::RealTime,
            deadline: Some(Duration::from_millis(100)),
        }
    }

    fn told(stamp: Option<&[u8]>) -> Vec<(u32, u32)> {
        match Stamp::parse(stamp.unwrap()) {
            Ok(Stamp::Subgraph(graph)) => {
                let ends = graph.links().map(|(from, to)| (from.0 & 0xff, to.0 & 0xff));
                let mut ends: Vec<(u32, u32)> = ends.collect();
                ends.sort_unstable();
                ends
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_scheme_has_its_links() {
        let t = topology();
        let links = |scheme| {
            let mut stamps = Stamps::default();
            told(stamps.stamp(Time::ZERO, OWN, wish(scheme), 1, &t))
        };
        assert_eq!(links(Scheme::Best), [(1, 2), (2, 4)]);
        assert_eq!(links(Scheme::Disjoint), [(1, 2), (1, 3), (2, 4), (3, 4)]);
        assert_eq!(links(Scheme::Disjoint3).len(), 5);
        let mut stamps = Stamps::default();
        let flood = stamps.stamp(Time::ZERO, OWN, wish(Scheme::Flooding), 1, &t);
        assert_eq!(Stamp::parse(flood.unwrap()), Ok(Stamp::Flooding));
        assert_eq!(stamps.stats(), Stats::default());
    }

    #[test]
    fn a_stamp_is_computed_once_per_topology_and_the_old_one_serves_during_the_rest() {
        let (mut t, mut stamps) = (topology(), Stamps::default());
        let best = wish(Scheme::Best);
        let start = Time::ZERO + Duration::from_secs(1);
        let first = told(stamps.stamp(start, OWN, best, 1, &t));
        assert_eq!(first, told(stamps.stamp(start, OWN, best, 1, &t)));
        assert_eq!(stamps.stats().computed, 1);
        t.set_link(node(1), node(2), None);
        assert_eq!(first, told(stamps.stamp(start, OWN, best, 2, &t)));
        // Another one has to wait as well.
        let other = wish(Scheme::Disjoint);
        assert_eq!(stamps.stamp(start, OWN, other, 2, &t), None);
        let rested = start + Duration::from_secs(1);
        assert_eq!(
            told(stamps.stamp(rested, OWN, best, 2, &t)),
            [(1, 3), (3, 4)]
        );
        assert_eq!(stamps.stats().computed, 2);
    }

    #[test]
    fn a_disjoint_path_that_was_in_use_stays_until_things_have_settled() {
        let (mut t, mut stamps) = (topology(), Stamps::default());
        t.set_link(node(1), node(4), None);
        let at = |s| Time::ZERO + Duration::from_secs(s);
        let wish = wish(Scheme::Disjoint);
        let mut links =
            |s, generation, t: &Topology| told(stamps.stamp(at(s), OWN, wish, generation, t));
        let both = [(1, 2), (1, 3), (2, 4), (3, 4)];
        assert_eq!(links(1, 1, &t), both);
        // The end of the first path fails, and there is a shorter way to the other's second link.
        t.set_link(node(2), node(4), None);
        t.set_link(node(1), node(5), Some(LinkCost::new(1_000, 0.0)));
        t.set_link(node(5), node(3), Some(LinkCost::new(1_000, 0.0)));
        assert_eq!(links(2, 2, &t), [(1, 3), (1, 5), (3, 4), (5, 3)]);
        assert_eq!(links(6, 2, &t).len(), 4);
        assert_eq!(links(7, 2, &t), [(1, 5), (3, 4), (5, 3)]);
        // A path with a link that is gone is of no use.
        t.set_link(node(1), node(5), None);
        assert_eq!(links(8, 3, &t), [(1, 3), (3, 4)]);
    }

    #[test]
    fn without_a_path_or_a_deadline_there_is_none_and_that_is_remembered() {
        let (t, mut stamps) = (topology(), Stamps::default());
        let nobody = Wish {
            to: node(9),
            ..wish(Scheme::Disjoint)
        };
        let timeless = Wish {
            deadline: None,
            ..wish(Scheme::Best)
        };
        for (i, wish) in [nobody, timeless, nobody, timeless].into_iter().enumerate() {
            let now = Time::ZERO + Duration::from_secs(i as u64);
            assert_eq!(stamps.stamp(now, OWN, wish, 1, &t), None);
        }
        let expected = Stats {
            computed: 2,
            failed: 2,
        };
        assert_eq!(stamps.stats(), expected);
    }

    #[test]
    fn they_are_bounded_and_the_least_lately_wanted_goes() {
        let (t, mut stamps) = (topology(), Stamps::default());
        let to = |i: u32| Wish {
            deadline: Some(Duration::from_millis(100 + u64::from(i))),
            ..wish(Scheme::Best)
        };
        for i in 0..=STAMPS_MAX as u32 {
            let now = Time::ZERO + Duration::from_secs(u64::from(i));
            assert!(stamps.stamp(now, OWN, to(i), 1, &t).is_some());
        }
        assert_eq!(stamps.entries.len(), STAMPS_MAX);
        assert!(!stamps.entries.contains_key(&to(0)));
    }

    #[test]
    fn a_path_that_does_not_fit_is_none() {
        let path: Vec<NodeAddr> = (1..=65).map(node).collect();
        assert_eq!(bytes_of(&[path.clone()]), None);
        assert!(bytes_of(&[path[..64].to_vec()]).is_some());
        assert_eq!(bytes_of(&[]), None);
    }
}
