//! The ways beside the tree of a source: two to every member, or a second one to the members that the tree leads to
//! through trouble.
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
//! Packets with targeted ways bear no mark. They take the tree always, at every node, and what is found here comes on top:
//! so nodes that disagree for a moment, and those that know nothing of second ways, carry all that the tree carries. A node
//! that is not of the tree sends on what a second way has brought it, and drops it if it knows of none.
//!
//! Choice: where there is trouble, packets take the two ways of [`graph::redundant`] and the direct links of the end that is in
//! trouble, not the graphs of [`graph::dissemination::plan`]. All nodes on the way must find the same, and here equal ways are
//! decided by addresses. The direct links are what those graphs gain over two ways, where the far end of the link has the packet
//! anyway.
//!
//! Searches are kept while the topology stays: a member that joins costs one. After a look the node rests for nine times as
//! long as it took, half a second at most, and the old links serve meanwhile. One look is bounded too, so a network in uproar
//! takes a tenth of a node.

use super::trees::{Key, View};
use crate::link::LinkIndex;
use base::{Duration, Map, NodeAddr, Time};
use graph::Metric;
use graph::dissemination::{Journey, Trouble, Watch};
use graph::redundant::TwoWays;
use graph::spf::Tree;
use std::collections::BTreeSet;

/// An arc or link of a search, and the most that is rested after one.
const WORK: Duration = Duration::from_nanos(10);
const REST_MOST: Duration = Duration::from_millis(500);
/// Parts of rest to one of work.
const REST: u64 = 9;
/// Pairs of a source and a member that are watched; 150 bytes each, and the path. Beyond, members have one way.
const WATCHES_MAX: usize = 16_384;
/// One look spends so much: 5 ms, with the longest rest after it. Members whose turn does not come have one way until the
/// next one, so a group of thousands in trouble is no danger to the node.
const WORK_MOST: u64 = 500_000;
/// A pair that was not looked at for so long is forgotten: longer than any trouble is held.
const IDLE: Duration = Duration::from_secs(60);
/// The shortest links of an end in trouble are the direct ones that packets take: so many.
///
/// Choice: with the two ways that there are, a third link of an end is worth most, and each further one costs as many bytes and
/// is worth less. With 16, as for one flow, a group in the twelve cities had 121 % of what two trees save for 1.34 times the bytes.
const DIRECT_MAX: usize = 3;

/// Where packets pass this node beside their tree, for one topology.
#[derive(Debug, Default)]
pub(super) struct Ways {
    generation: u64,
    /// The network of the source that was asked for last.
    of: Option<(NodeAddr, TwoWays)>,
    /// By source and member.
    found: Map<(NodeAddr, NodeAddr), Found>,
    /// By source, member, and how many microseconds packets may take.
    watches: Map<(NodeAddr, NodeAddr, u64), Watched>,
    /// Not before this moment, unless there is no way at all.
    pub(super) rested_at: Time,
}

/// The two ways to a member, as far as this node needs them.
#[derive(Debug, Default)]
struct Found {
    /// The nodes that follow this one.
    next: [Option<NodeAddr>; 2],
    /// All nodes of both. Only at the source.
    nodes: Vec<NodeAddr>,
}

#[derive(Debug)]
struct Watched {
    watch: Watch,
    used: Time,
}

/// Where copies go from here beside the branches of the tree, for the members that it leads to through trouble.
#[derive(Clone, Debug, Default)]
pub struct Second {
    /// The topology that it follows from; none when the group has changed.
    pub(super) follows: Option<u64>,
    /// Another look is due then, though the topology stays.
    pub(super) until: Option<Time>,
    /// The links.
    pub links: Vec<LinkIndex>,
    /// The members in trouble, and where it is.
    pub trouble: Vec<(NodeAddr, Trouble)>,
}

impl Ways {
    /// The links on which packets to all members of a group leave here where they take two ways.
    pub(super) fn both(&mut self, now: Time, key: Key, view: View<'_>, links: &mut Vec<LinkIndex>) {
        self.follow(view);
        let mut work = 0;
        let members = view.membership.receivers(key.group);
        for member in members.filter(|member| *member != key.source) {
            work += self.add_both(key.source, member, view, links);
        }
        self.rest(now, work);
    }

    /// The links beside the branches of the tree where second ways are targeted. Packets may take so many
    /// microseconds.
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

    /// Forgets what has been idle.
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

    /// The trouble on the tree's path to a member, when to look again, and the links that were looked at.
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

    /// Adds the links on which both ways to a member leave here; the work that it took.
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

    /// The two ways to a member, and the work that it took to find them.
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

    /// The direct links of the source, which this node is, to nodes that pass its packets on: those of the tree, and of the
    /// ways to members in trouble.
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

/// The nodes on the tree's path to a member; none if it is not reached.
fn path(tree: &Tree, member: NodeAddr, view: View<'_>) -> Vec<NodeAddr> {
    let node = view.topology.index(member);
    let path = node.map(|node| tree.path(node)).unwrap_or_default();
    path.into_iter()
        .map(|node| view.topology.addr(node))
        .collect()
}

/// This node's link to a member, if it is one of the shortest to it.
fn direct(member: NodeAddr, view: View<'_>) -> Option<LinkIndex> {
    let link = view.links.by_peer(member)?;
    let topology = view.topology;
    let edges = topology.links_to(topology.index(member)?).iter();
    let edges = edges.filter(|edge| !edge.link.is_silent());
    let order = edges.map(|edge| (edge.link.latency_us, topology.addr(edge.peer)));
    let own = order.clone().find(|(_, peer)| *peer == view.own)?;
    (order.filter(|other| *other < own).count() < DIRECT_MAX).then_some(link)
}
