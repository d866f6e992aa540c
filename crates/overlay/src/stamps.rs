//! The stamps of this node's packets: computed when first needed, kept until the topology changes.
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
//! A stamp is computed on the engine's thread, so the computation delays packets. One computation is limited by its
//! effort, and after it the node pauses for nine times as long as it took by the count of work. So a network with many
//! changes, or a thousand clients that write to a thousand nodes, cannot take more than a tenth of the node's time for
//! it. Work is counted, not timed, so that the same inputs give the same routes.
//!
//! When a node fails, its neighbours notice one after the other, those with idle links seconds later. A stamp that is
//! computed in between may lead through the failed node over a link whose failure nobody has noticed yet. So a disjoint
//! path that was in use and still has all its links continues to be stamped, together with the new ones, until the
//! changes have settled.
//!
//! The scheme "targeted" has a state: its entry holds a [`Watch`] of where there was trouble. While there is any, the
//! stamp is computed again when the trouble could be over, even if the topology stays.

use base::{Duration, Map, NodeAddr, Time};
use graph::best::{Effort, Question, best_route};
use graph::delivery::Recovery;
use graph::disjoint::disjoint;
use graph::dissemination::{Journey, Watch, plan};
use graph::stamp::Subgraph;
use graph::{Metric, Topology};
use wire::data::LinkProtocol;
use wire::ipc::Scheme;
use wire::stamp::{STAMP_BYTES_MAX, Stamp, emit_subgraph};

/// Maximum number of stamps kept: 256 of at most 514 bytes are 130 kB. When there are more, the least recently used one
/// is removed.
pub const STAMPS_MAX: usize = 256;
/// The effort for a best route.
pub const EFFORT: Effort = Effort::STAMP;
/// One unit of work, as [`Effort::work`] counts.
const WORK: Duration = Duration::from_nanos(5);
/// Work per link of the topology, in each run of Dijkstra's algorithm that a scheme needs (100 ns). The number of runs
/// is one per disjoint path, and six for bounds and metrics of a best route.
const WORK_PER_LINK: u64 = 20;
/// Parts of pause per part of work, after a computation.
const REST: u64 = 9;

/// The parameters of a stamp besides the topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wish {
    /// The destination of the packets.
    pub to: NodeAddr,
    /// How the stamp is chosen.
    pub scheme: Scheme,
    /// How losses are handled on each link.
    pub link: LinkProtocol,
    /// The deadline of the packets; `None` if they have none.
    pub deadline: Option<Duration>,
}

/// The stamps of a node.
#[derive(Debug, Default)]
pub struct Stamps {
    entries: Map<Wish, Entry>,
    rested_at: Time,
    stats: Stats,
}

/// Totals of computing stamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Stamps computed.
    pub computed: u64,
    /// Computations without a stamp as result: no path, too long, or no deadline for a best route.
    pub failed: u64,
}

/// How long old paths are stamped together with new ones: an idle link is given up within this time.
const SETTLE: Duration = Duration::from_secs(5);
/// Maximum number of old paths that are stamped together with new ones.
const OLD_PATHS_MAX: usize = 3;

#[derive(Debug, Default)]
struct Entry {
    /// The generation of the topology for which it was computed.
    generation: u64,
    wanted: Time,
    paths: Vec<Vec<NodeAddr>>,
    /// Paths that were in use before and still are, and until when.
    old: Vec<Vec<NodeAddr>>,
    old_until: Time,
    /// The places with trouble, for the scheme "targeted".
    watch: Watch,
    /// Empty if there is none.
    stamp: Vec<u8>,
}

/// Returns the question that the scheme "best" asks of a topology; `None` without a deadline.
pub fn question(src: NodeAddr, wish: &Wish) -> Option<Question> {
    let us = wish.deadline?.as_micros();
    Some(Question {
        src,
        dst: wish.to,
        deadline_us: u32::try_from(us).unwrap_or(u32::MAX),
        recovery: match wish.link {
            LinkProtocol::BestEffort => Recovery::None,
            LinkProtocol::RealTime => Recovery::InForce,
            LinkProtocol::Reliable => Recovery::default(),
        },
    })
}

/// Returns the paths from `src` that a scheme chooses in a topology, none for flooding, and the work that it took.
/// Empty if there is no path, or no criterion for choosing.
fn paths(
    now: Time,
    topology: &Topology,
    src: NodeAddr,
    wish: &Wish,
    watch: &mut Watch,
) -> (Vec<Vec<NodeAddr>>, u64) {
    let run = topology.link_count() as u64 * WORK_PER_LINK;
    let apart = |k: usize| {
        let found = disjoint(topology, src, wish.to, Metric::ExpectedLatency, k);
        let found = found.unwrap_or_default();
        let nodes = found.iter().map(|path| path.nodes().collect()).collect();
        (nodes, run * k as u64)
    };
    match wish.scheme {
        Scheme::Flooding => (Vec::new(), 0),
        Scheme::Targeted => targeted(now, topology, src, wish, watch),
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

/// Returns the paths of the dissemination graph for the present trouble.
///
/// Choice: without a deadline every path is in time.
fn targeted(
    now: Time,
    topology: &Topology,
    src: NodeAddr,
    wish: &Wish,
    watch: &mut Watch,
) -> (Vec<Vec<NodeAddr>>, u64) {
    let journey = Journey {
        src,
        dst: wish.to,
        deadline_us: wish.deadline.map_or(u64::MAX, Duration::as_micros),
    };
    let (trouble, looked) = watch.look(now, topology, &journey);
    let plan = plan(topology, &journey, trouble);
    (plan.paths, (looked + plan.work) * WORK_PER_LINK)
}

impl Stamps {
    /// Returns the stamp of a packet from `own`, for the topology of this generation, or for an older one during a
    /// pause. `None` if there is no stamp for now: the packet is routed by table.
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
            entry.generation == generation
                && (entry.old.is_empty() || now < entry.old_until)
                && entry.watch.next().is_none_or(|next| now < next)
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

    /// Returns the paths of the stamp that packets get at present; none if they get none.
    pub fn present(&self, wish: &Wish) -> impl Iterator<Item = &[NodeAddr]> {
        let entry = self
            .entries
            .get(wish)
            .filter(|entry| !entry.stamp.is_empty());
        let paths = entry
            .into_iter()
            .flat_map(|entry| entry.old.iter().chain(&entry.paths));
        paths.map(Vec::as_slice)
    }

    /// Returns the totals of computing stamps.
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
        let mut watch = before.as_ref().map(|e| e.watch.clone()).unwrap_or_default();
        let (paths, work) = paths(now, topology, own, wish, &mut watch);
        self.rested_at = now + WORK * work * (REST + 1);
        let mut entry = Entry {
            paths,
            watch,
            ..Entry::default()
        };
        if let Some(before) = before
            && matches!(wish.scheme, Scheme::Disjoint | Scheme::Disjoint3)
        {
            entry.keep(now, before, topology);
        }
        // The old paths are known to carry packets: if not all paths fit into one stamp, the old ones take precedence.
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
    /// Keeps the paths of the former entry that still have all their links.
    fn keep(&mut self, now: Time, before: Entry, topology: &Topology) {
        let has_link = |hop: &[NodeAddr]| {
            let ends = topology.index(hop[0]).zip(topology.index(hop[1]));
            ends.is_some_and(|(from, to)| topology.link(from, to).is_some())
        };
        let is_whole = |path: &Vec<NodeAddr>| path.windows(2).all(has_link);
        let is_settled = now >= before.old_until;
        let mut old: Vec<Vec<NodeAddr>> = Vec::new();
        self.old_until = before.old_until;
        // Without a failure there are better paths now, and the former ones are not needed.
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

/// Returns the stamp for some paths; `None` if there are none, or they do not fit into one.
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
mod tests;
