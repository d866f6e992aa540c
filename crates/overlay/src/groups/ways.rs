//! The ways in addition to the tree of a source: two ways to every member, or a second way to the members whose path in
//! the tree is in trouble.
//!
//! ```text
//!   two ways     every member ─▶ search ─▶ the nodes after this one on both ways ─▶ links
//!   targeted     every member ─▶ watch of the tree's path: trouble? ── no ─▶ nothing
//!                                     │ yes
//!                                     ├─▶ both ways, as above
//!                                     ├─▶ at the destination: this node is its neighbour ─▶ the link to it
//!                                     └─▶ at the source: this node is it ─▶ its neighbours that pass packets on
//! ```
//!
//! Packets with targeted ways carry no mark. They always take the tree, at every node, and the links found here are
//! added. So nodes that disagree for a moment, and nodes that know nothing of second ways, carry all that the tree
//! carries. A node outside the tree forwards what a second way has brought it, and drops the packet if it knows of no
//! second way.
//!
//! Choice: in trouble, packets take the two ways of [`graph::redundant`] and the direct links of the end that is in
//! trouble, not the graphs of [`graph::dissemination::plan`]. All nodes on the path must find the same result, and here
//! addresses decide between equal ways. The direct links are what those graphs gain over two ways, in cases where the
//! far end of the link has the packet anyway.
//!
//! Results of searches are kept while the topology stays: a member that joins costs one search. After a look, the node
//! pauses for nine times as long as it took, at most half a second, and the old links are used meanwhile. The work of
//! one look is limited too, so a network with many changes takes a tenth of a node's time.

use super::trees::{Key, View};
use crate::link::LinkIndex;
use base::{Duration, Map, NodeAddr, Time};
use graph::Metric;
use graph::dissemination::{Journey, Trouble, Watch};
use graph::redundant::TwoWays;
use graph::spf::Tree;
use std::collections::BTreeSet;

/// The time per arc or link of a search, and the longest pause after one.
const WORK: Duration = Duration::from_nanos(10);
const REST_MOST: Duration = Duration::from_millis(500);
/// Parts of pause per part of work.
const REST: u64 = 9;
/// Maximum number of pairs of a source and a member that are watched; 150 bytes each, and the path. Further members
/// have one way.
const WATCHES_MAX: usize = 16_384;
/// Maximum work of one look: 5 ms, followed by the longest pause. Members beyond that have one way until the next look,
/// so a group of thousands in trouble does not endanger the node.
const WORK_MOST: u64 = 500_000;
/// A pair that was not looked at for this long is forgotten: longer than any trouble is held.
const IDLE: Duration = Duration::from_secs(60);
/// Number of direct links, the shortest ones, of an end in trouble that packets take.
///
/// Choice: in addition to the two ways, a third link of an end gains most, and each further one costs as many bytes and
/// gains less. With 16, as for one flow, a group in the twelve cities had 121 % of what two trees save for 1.34 times
/// the bytes.
const DIRECT_MAX: usize = 3;

/// Where packets pass this node outside their tree, for one topology.
#[derive(Debug, Default)]
pub(super) struct Ways {
    generation: u64,
    /// The network of the source of the last request.
    of: Option<(NodeAddr, TwoWays)>,
    /// The ways that were found, by source and member.
    found: Map<(NodeAddr, NodeAddr), Found>,
    /// The watched members, by source, member, and the time that packets may take in microseconds.
    watches: Map<(NodeAddr, NodeAddr, u64), Watched>,
    /// No search before this moment, unless there is no way at all.
    pub(super) rested_at: Time,
}

/// The two ways to a member, as far as this node needs them.
#[derive(Debug, Default)]
struct Found {
    /// The nodes that follow this one.
    next: [Option<NodeAddr>; 2],
    /// All nodes of both ways. Only at the source.
    nodes: Vec<NodeAddr>,
}

#[derive(Debug)]
struct Watched {
    watch: Watch,
    used: Time,
}

/// Where copies go from here in addition to the branches of the tree, for the members whose path in the tree is in
/// trouble.
#[derive(Clone, Debug, Default)]
pub struct Second {
    /// The generation of the topology from which it follows; `None` when the group has changed.
    pub(super) follows: Option<u64>,
    /// When another look is due, even if the topology stays.
    pub(super) until: Option<Time>,
    /// The links.
    pub links: Vec<LinkIndex>,
    /// The members in trouble, and where their trouble is.
    pub trouble: Vec<(NodeAddr, Trouble)>,
}

impl Ways {
    /// Adds the links on which packets to all members of a group leave here if they take two ways.
    pub(super) fn both(&mut self, now: Time, key: Key, view: View<'_>, links: &mut Vec<LinkIndex>) {
        self.follow(view);
        let mut work = 0;
        let members = view.membership.receivers(key.group);
        for member in members.filter(|member| *member != key.source) {
            work += self.add_both(key.source, member, view, links);
        }
        self.rest(now, work);
    }

    /// Returns the links in addition to the branches of the tree if second ways are targeted. Packets may take
    /// `deadline_us` microseconds.
    pub(super) fn second(
        &mut self,
        now: Time,
        (key, deadline_us): (Key, u64),
        view: View<'_>,
        tree: &Tree,
        branches: &[LinkIndex],
    ) -> Second {
        self.follow(view);
        let mut found = Second {
            follows: Some(view.generation),
            ..Second::default()
        };
        let (mut work, mut links) = (0, Vec::new());
        let members = view.membership.receivers(key.group);
        for member in members.filter(|member| *member != key.source) {
            if work > WORK_MOST {
                break;
            }
            let path = path(tree, member, view);
            let journey = Journey {
                src: key.source,
                dst: member,
                deadline_us,
            };
            let (trouble, until, looked) = self.look(now, journey, path, view);
            work += looked;
            found.until = [found.until, until].into_iter().flatten().min();
            if trouble.is_calm() {
                continue;
            }
            found.trouble.push((member, trouble));
            work += self.add_both(key.source, member, view, &mut links);
            if trouble.destination {
                links.extend(direct(member, view));
            }
        }
        let is_source = key.source == view.own;
        if is_source && found.trouble.iter().any(|(_, trouble)| trouble.source) {
            links.extend(self.of_source(&found.trouble, (key, tree), view));
        }
        for link in links {
            if !found.links.contains(&link) && !branches.contains(&link) {
                found.links.push(link);
            }
        }
        self.rest(now, work);
        found
    }

    /// Forgets idle watches.
    pub(super) fn expire(&mut self, now: Time) {
        self.watches.retain(|_, one| now.since(one.used) < IDLE);
    }

    fn follow(&mut self, view: View<'_>) {
        if self.generation != view.generation {
            self.generation = view.generation;
            self.of = None;
            self.found.clear();
        }
    }

    fn rest(&mut self, now: Time, work: u64) {
        let rested_at = now + (WORK * work * REST).min(REST_MOST);
        self.rested_at = self.rested_at.max(rested_at);
    }

    /// Returns the trouble on the tree's path to a member, when to look again, and the number of links examined.
    fn look(
        &mut self,
        now: Time,
        journey: Journey,
        path: Vec<NodeAddr>,
        view: View<'_>,
    ) -> (Trouble, Option<Time>, u64) {
        let key = (journey.src, journey.dst, journey.deadline_us);
        if self.watches.len() >= WATCHES_MAX && !self.watches.contains_key(&key) {
            return (Trouble::default(), None, 0);
        }
        let watched = self.watches.entry(key).or_insert_with(|| Watched {
            watch: match journey.src == view.own {
                true => Watch::default(),
                false => Watch::behind_source(),
            },
            used: now,
        });
        watched.used = now;
        let steps = path.len() as u64;
        let (trouble, work) = watched.watch.look_along(now, view.topology, &journey, path);
        (trouble, watched.watch.next(), work + steps)
    }

    /// Adds the links on which both ways to a member leave here. Returns the work that it took.
    fn add_both(
        &mut self,
        source: NodeAddr,
        member: NodeAddr,
        view: View<'_>,
        links: &mut Vec<LinkIndex>,
    ) -> u64 {
        let mut work = 0;
        if !self.found.contains_key(&(source, member)) {
            let (found, took) = self.search(source, member, view);
            work = took;
            self.found.insert((source, member), found);
        }
        for node in self.found[&(source, member)].next.into_iter().flatten() {
            if let Some(link) = view.links.by_peer(node)
                && !links.contains(&link)
            {
                links.push(link);
            }
        }
        work
    }

    /// Returns the two ways to a member, and the work that it took to find them.
    fn search(&mut self, source: NodeAddr, member: NodeAddr, view: View<'_>) -> (Found, u64) {
        let is_at_hand = self.of.as_ref().is_some_and(|(of, _)| *of == source);
        if !is_at_hand {
            let ways = TwoWays::new(view.topology, source, Metric::ExpectedLatency);
            self.of = ways.map(|ways| (source, ways));
        }
        let Some((_, ways)) = &mut self.of else {
            return (Found::default(), 0);
        };
        let before = if is_at_hand { ways.work() } else { 0 };
        let found = ways.to(member).map_or_else(Found::default, |pair| {
            let after = |way: &Vec<NodeAddr>| {
                let hop = way.windows(2).find(|hop| hop[0] == view.own);
                hop.map(|hop| hop[1])
            };
            Found {
                next: [after(&pair[0]), after(&pair[1])],
                nodes: match source == view.own {
                    true => pair.concat(),
                    false => Vec::new(),
                },
            }
        });
        (found, ways.work() - before)
    }

    /// Returns the direct links of the source, which this node is, to nodes that forward its packets: nodes of the
    /// tree, and of the ways to members in trouble.
    fn of_source(
        &self,
        trouble: &[(NodeAddr, Trouble)],
        (key, tree): (Key, &Tree),
        view: View<'_>,
    ) -> Vec<LinkIndex> {
        let mut nodes = BTreeSet::new();
        for member in view.membership.receivers(key.group) {
            nodes.extend(path(tree, member, view));
        }
        for (member, _) in trouble {
            let found = self.found.get(&(key.source, *member));
            nodes.extend(found.iter().flat_map(|found| found.nodes.iter().copied()));
        }
        let Some(own) = view.topology.index(view.own) else {
            return Vec::new();
        };
        let edges = view.topology.links_from(own).iter();
        let edges = edges.filter(|edge| !edge.link.is_silent());
        let near = edges.map(|edge| (edge.link.latency_us, view.topology.addr(edge.peer)));
        let mut near: Vec<(u32, NodeAddr)> =
            near.filter(|(_, peer)| nodes.contains(peer)).collect();
        near.sort_unstable();
        let near = near.iter().take(DIRECT_MAX);
        near.filter_map(|(_, peer)| view.links.by_peer(*peer))
            .collect()
    }
}

/// Returns the nodes on the tree's path to a member; none if the member is not reached.
fn path(tree: &Tree, member: NodeAddr, view: View<'_>) -> Vec<NodeAddr> {
    let node = view.topology.index(member);
    let path = node.map(|node| tree.path(node)).unwrap_or_default();
    path.into_iter()
        .map(|node| view.topology.addr(node))
        .collect()
}

/// Returns this node's link to a member, if it is one of the shortest to that member.
fn direct(member: NodeAddr, view: View<'_>) -> Option<LinkIndex> {
    let link = view.links.by_peer(member)?;
    let topology = view.topology;
    let edges = topology.links_to(topology.index(member)?).iter();
    let edges = edges.filter(|edge| !edge.link.is_silent());
    let order = edges.map(|edge| (edge.link.latency_us, topology.addr(edge.peer)));
    let own = order.clone().find(|(_, peer)| *peer == view.own)?;
    (order.filter(|other| *other < own).count() < DIRECT_MAX).then_some(link)
}
