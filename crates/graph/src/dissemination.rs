//! Dissemination graphs with targeted redundancy: one path while the network is calm, and more links
//! exactly where there is trouble. [Babay et al. 2017]
//!
//! ```text
//!   trouble        what is stamped
//!   none           one path, of the least expected latency
//!   middle         two disjoint paths
//!   source         these, and the source sends over each of its links that is of use
//!   destination    these, and each neighbour of the destination that is of use sends to it
//!   both           the union of the last two, and two ways on from each neighbour of an end
//!
//!                    .─▶ a ─▶ c ─.
//!                 s ─┼─▶ b ─▶ d ─┼─▶ t      s-a-c-t and s-b-d-t are the disjoint paths;
//!                    '─▶ e ─▶ d  │          s-e-d is the ear of the source's link to e,
//!                        b ─▶ f ─'          b-f-t that of the destination's link from f
//! ```
//!
//! Two disjoint paths avoid trouble on links of the middle. But both begin at the source and end at the destination:
//! around these, only more of their own links help. Almost all trouble that is left after protection is of that kind.
//! It is rare, so the expensive graphs are seldom in use.
//!
//! A graph grows from the disjoint paths by *ears* (in `ears`): chains of new nodes between two nodes that are in the
//! graph. So it never has a cycle, and each of its links is on a path from the source to the destination that meets the
//! deadline. The plan lists whole paths, the most important first. If there is room for fewer paths, the last ones are
//! left out.
//!
//! [`Watch`] decides from the link state which trouble there is. It detects trouble quickly and lets it end slowly. The
//! same watch looks along the path of a group's tree ([`Watch::look_along`]): every node of the tree has one, and the
//! watches behind the source let trouble end later than the source does ([`Watch::behind_source`]).

mod ears;
mod least;

use crate::disjoint::disjoint;
use crate::metric::{LinkCost, Metric};
use crate::spf::Tree;
use crate::topology::{NodeIndex, Topology};
use base::{Duration, NodeAddr, Time};
use core::cell::Cell;
use ears::Ears;
use least::Least;

/// The loss at which a link counts as trouble, as a share of 65 536: 2 %.
///
/// Choice: one request and its answer leave 2p² − p³ of independent losses: 0.08 % of 2 %. This is more than the 0.05 %
/// that protection aims at. Where losses come in runs, up to half of the loss, 1 %, is left.
const ENTER_LOSS: u16 = 1_311;
/// The loss at which trouble ends: 1 %.
///
/// Choice: one request leaves 0.02 % of it. An estimate over 50 losses has a standard deviation of a seventh, so an
/// estimate that began the trouble at 2 % does not fall to half by chance.
const LEAVE_LOSS: u16 = 655;
/// The price of outages at which a link counts as trouble: the price of one outage. The price halves every minute.
const ENTER_PRICE_US: u32 = 64_000;
/// Choice: the price of one outage that is not yet a minute old. A link that failed a moment ago is likely to fail
/// again.
const LEAVE_PRICE_US: u32 = 32_001;
/// How long there must have been no trouble before trouble ends.
///
/// Choice: [Amir06 §IV-B] saw instability if less than 10 s passed between two route changes. Problems also pause, and
/// most of the cost of a problem is in its first seconds, before it is detected.
pub const HOLD: Duration = Duration::from_secs(10);
/// The additional time that a node behind the source waits.
///
/// Choice: the record that ends a trouble reaches such a node at another moment than the source. The difference comes
/// from the flooding over some hops, from the second by which records may be spaced, and from the computation, which
/// may pause for half a second.
const MARGIN: Duration = Duration::from_secs(2);
/// The number of bad links of the source, or of the destination, that counts as trouble even off the path in use.
///
/// Choice: one bad link beside the path costs nothing, as no packet takes it, and many nodes have such a link
/// permanently. Two at the same time are trouble of the node.
const LINKS_OF_AN_END: usize = 2;

/// The ends of a journey of packets, and its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Journey {
    /// The source.
    pub src: NodeAddr,
    /// The destination.
    pub dst: NodeAddr,
    /// The deadline in microseconds; `u64::MAX` if there is none.
    pub deadline_us: u64,
}

/// Where there is trouble.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trouble {
    /// There is trouble on links of the source.
    pub source: bool,
    /// There is trouble on links of the destination.
    pub destination: bool,
    /// There is trouble on links of the path that touch neither end.
    pub middle: bool,
}

impl Trouble {
    /// Returns true if there is no trouble.
    pub fn is_calm(self) -> bool {
        self == Trouble::default()
    }

    /// Returns the places of the trouble in words; nothing if there is none.
    pub fn words(self) -> impl Iterator<Item = &'static str> {
        let all = [
            (self.source, "source"),
            (self.middle, "middle"),
            (self.destination, "destination"),
        ];
        all.into_iter().filter(|(is, _)| *is).map(|(_, word)| word)
    }
}

/// Watches one journey for trouble.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// The path that was in use at the last look.
    path: Vec<NodeAddr>,
    source: Spell,
    destination: Spell,
    middle: Spell,
    /// True for the watch of a node behind the source.
    is_behind: bool,
}

/// Trouble in one place, and the time when it was last seen.
#[derive(Clone, Copy, Debug, Default)]
struct Spell {
    seen: Option<Time>,
    /// The last look found trouble.
    is_there: bool,
}

/// The paths to send along, from the source to the destination, the most important first, and the number of links that
/// were looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The paths. Each meets the deadline, and all of them together have no cycle.
    pub paths: Vec<Vec<NodeAddr>>,
    /// Number of links that were looked at.
    pub work: u64,
}

impl Watch {
    /// Returns the watch of a node behind the source of a tree. It lets trouble end later than the source's watch does:
    /// it counts from the look that finds the end of the trouble, and it waits longer.
    pub fn behind_source() -> Watch {
        Watch {
            is_behind: true,
            ..Watch::default()
        }
    }

    /// Looks at a topology and returns where there is trouble. The second number is the number of links looked at.
    pub fn look(&mut self, now: Time, topology: &Topology, journey: &Journey) -> (Trouble, u64) {
        let ground = Ground::new(topology, journey);
        let path = ground.as_ref().and_then(Ground::best_path);
        self.look_on(now, ground, path.unwrap_or_default())
    }

    /// Does the same for packets that take this path from the source to the destination, whatever other paths there
    /// are.
    pub fn look_along(
        &mut self,
        now: Time,
        topology: &Topology,
        journey: &Journey,
        path: Vec<NodeAddr>,
    ) -> (Trouble, u64) {
        self.look_on(now, Ground::new(topology, journey), path)
    }

    fn look_on(
        &mut self,
        now: Time,
        ground: Option<Ground<'_>>,
        path: Vec<NodeAddr>,
    ) -> (Trouble, u64) {
        let Some(ground) = ground else {
            // Without one of the ends there is nothing to look at, so present trouble ends when its time is over.
            self.follow(now, Trouble::default());
            return (self.trouble(), 0);
        };
        let before = core::mem::replace(&mut self.path, path);
        let paths = [&self.path, &before];
        let was = self.trouble();
        let places = [was.source, was.destination, was.middle];
        // The result is the same for all places with trouble before, and for all places without.
        let [fresh, still] = [false, true].map(|was_there| match places.contains(&was_there) {
            true => ground.trouble(paths, was_there),
            false => Trouble::default(),
        });
        let of = |was_there| if was_there { still } else { fresh };
        let trouble = Trouble {
            source: of(was.source).source,
            destination: of(was.destination).destination,
            middle: of(was.middle).middle,
        };
        self.follow(now, trouble);
        (self.trouble(), ground.work())
    }

    fn follow(&mut self, now: Time, trouble: Trouble) {
        let is_behind = self.is_behind;
        self.source.follow(now, trouble.source, is_behind);
        self.destination.follow(now, trouble.destination, is_behind);
        self.middle.follow(now, trouble.middle, is_behind);
    }

    /// Returns the time of the next look if the topology does not change; `None` while there is no trouble.
    pub fn next(&self) -> Option<Time> {
        let all = [self.source, self.destination, self.middle];
        let seen = all.into_iter().filter_map(|spell| spell.seen);
        seen.map(|seen| seen + hold(self.is_behind)).min()
    }

    /// Returns where there was trouble at the last look.
    pub fn trouble(&self) -> Trouble {
        Trouble {
            source: self.source.seen.is_some(),
            destination: self.destination.seen.is_some(),
            middle: self.middle.seen.is_some(),
        }
    }
}

impl Spell {
    fn follow(&mut self, now: Time, is_there: bool, is_behind: bool) {
        let is_over = |seen: Time| now >= seen + hold(is_behind);
        // Trouble that the last look found has lasted until this look.
        let ends = is_behind && core::mem::replace(&mut self.is_there, is_there);
        match is_there || ends {
            true => self.seen = Some(now),
            false => self.seen = self.seen.filter(|seen| !is_over(*seen)),
        }
    }
}

fn hold(is_behind: bool) -> Duration {
    match is_behind {
        true => HOLD + MARGIN,
        false => HOLD,
    }
}

/// Returns what to send along while there is trouble in these places. There are no paths if none meets the deadline.
pub fn plan(topology: &Topology, journey: &Journey, trouble: Trouble) -> Plan {
    let Some(ground) = Ground::new(topology, journey) else {
        return Plan::default();
    };
    let Some(best) = ground.best_path() else {
        return Plan {
            paths: Vec::new(),
            work: ground.work(),
        };
    };
    if trouble.is_calm() {
        return Plan {
            paths: vec![best],
            work: ground.work(),
        };
    }
    let (apart, runs) = ground.two_paths(best);
    let mut ears = Ears::new(
        topology,
        (ground.src, ground.dst),
        journey.deadline_us,
        &apart,
    );
    if trouble.source {
        ears.of_source();
    }
    if trouble.destination {
        ears.of_destination();
    }
    if trouble.source && trouble.destination {
        ears.cross();
    }
    let work = ground.work() + runs * topology.link_count() as u64 + ears.work;
    let paths = ears.paths.into_iter();
    let addrs = |path: Vec<NodeIndex>| path.iter().map(|node| topology.addr(*node)).collect();
    Plan {
        paths: paths.map(addrs).collect(),
        work,
    }
}

/// One journey on one topology.
struct Ground<'t> {
    topology: &'t Topology,
    journey: Journey,
    src: NodeIndex,
    dst: NodeIndex,
    /// Number of shortest-path runs so far.
    runs: Cell<u64>,
}

impl<'t> Ground<'t> {
    fn new(topology: &'t Topology, journey: &Journey) -> Option<Ground<'t>> {
        let (src, dst) = (topology.index(journey.src)?, topology.index(journey.dst)?);
        let ground = Ground {
            topology,
            journey: *journey,
            src,
            dst,
            runs: Cell::new(0),
        };
        (src != dst).then_some(ground)
    }

    fn count_run(&self) {
        self.runs.set(self.runs.get() + 1);
    }

    /// Returns the number of links looked at so far: each run looks at all links.
    fn work(&self) -> u64 {
        self.runs.get() * self.topology.link_count() as u64
    }

    /// Returns the path of the least expected latency, or else the path of the least latency, if it meets the deadline.
    fn best_path(&self) -> Option<Vec<NodeAddr>> {
        [Metric::ExpectedLatency, Metric::Latency]
            .into_iter()
            .find_map(|metric| {
                self.count_run();
                let tree = Tree::new(self.topology, self.src, metric);
                let is_in_time = tree.delay_us(self.dst) <= self.journey.deadline_us;
                let path = tree.path(self.dst);
                let addrs = path.iter().map(|node| self.topology.addr(*node));
                (is_in_time && !path.is_empty()).then(|| addrs.collect())
            })
    }

    /// Returns two disjoint paths that meet the deadline, or as many as there are, which is at least the best path.
    /// Also returns the number of shortest-path runs.
    fn two_paths(&self, best: Vec<NodeAddr>) -> (Vec<Vec<NodeIndex>>, u64) {
        let Journey {
            src,
            dst,
            deadline_us,
        } = self.journey;
        let index = |addr: NodeAddr| self.topology.index(addr);
        let mut runs = 0;
        for metric in [Metric::ExpectedLatency, Metric::Latency] {
            runs += 2;
            let found = disjoint(self.topology, src, dst, metric, 2).unwrap_or_default();
            let delay = |path: &crate::paths::Path| {
                let hops = path.hops.iter().map(|hop| u64::from(hop.link.latency_us));
                hops.sum::<u64>()
            };
            let all_in_time = found.iter().all(|path| delay(path) <= deadline_us);
            if found.len() == 2 && all_in_time {
                let nodes = |path: &crate::paths::Path| path.nodes().filter_map(index).collect();
                return (found.iter().map(nodes).collect(), runs);
            }
        }
        (vec![best.into_iter().filter_map(index).collect()], runs)
    }

    /// Returns where there is trouble, on these paths and around their ends. `was_there` applies the lower thresholds
    /// for trouble that was already there.
    fn trouble(&self, paths: [&Vec<NodeAddr>; 2], was_there: bool) -> Trouble {
        let mut trouble = Trouble {
            source: self.bad_links_of_source(was_there) >= LINKS_OF_AN_END,
            destination: self.bad_links_of_destination(was_there) >= LINKS_OF_AN_END,
            middle: false,
        };
        for path in paths {
            for hop in path
                .windows(2)
                .filter(|hop| self.is_bad_hop(hop, was_there))
            {
                let ends = (hop[0] == self.journey.src, hop[1] == self.journey.dst);
                match ends {
                    (true, false) => trouble.source = true,
                    (false, true) => trouble.destination = true,
                    // Choice: for a link between both ends the remedy is another path, which two disjoint paths
                    // contain.
                    _ => trouble.middle = true,
                }
            }
        }
        trouble
    }

    /// Returns true if the link of this hop is bad. A link that a path has lost is bad, too.
    fn is_bad_hop(&self, hop: &[NodeAddr], was_there: bool) -> bool {
        let ends = self.topology.index(hop[0]).zip(self.topology.index(hop[1]));
        let link = ends.and_then(|(from, to)| self.topology.link(from, to));
        link.is_none_or(|edge| is_bad(edge.link, was_there))
    }

    fn bad_links_of_source(&self, was_there: bool) -> usize {
        let bad = self.topology.links_from(self.src).iter();
        let bad = bad.filter(|edge| is_bad(edge.link, was_there));
        if bad.clone().nth(LINKS_OF_AN_END - 1).is_none() {
            return 0;
        }
        self.count_run();
        let rest = Least::to(self.topology, self.dst, self.src);
        bad.filter(|edge| rest.is_within(edge, self.journey.deadline_us))
            .count()
    }

    fn bad_links_of_destination(&self, was_there: bool) -> usize {
        let bad = self.topology.links_to(self.dst).iter();
        let bad = bad.filter(|edge| is_bad(edge.link, was_there));
        if bad.clone().nth(LINKS_OF_AN_END - 1).is_none() {
            return 0;
        }
        self.count_run();
        let rest = Least::from(self.topology, self.src, self.dst);
        bad.filter(|edge| rest.is_within(edge, self.journey.deadline_us))
            .count()
    }
}

/// Returns whether a link is in trouble. Where there was trouble before, lower thresholds apply.
fn is_bad(link: LinkCost, was_there: bool) -> bool {
    let (loss, price_us) = match was_there {
        true => (LEAVE_LOSS, LEAVE_PRICE_US),
        false => (ENTER_LOSS, ENTER_PRICE_US),
    };
    link.alarm.unwrap_or(link.loss >= loss) || link.price_us >= price_us
}

#[cfg(test)]
mod tests;
