//! On which links copies of a packet to a group leave this node.
//!
//! ```text
//!   (source, metric, group) ──▶ Slot: links, still true? ── no ──▶ the source's tree, from every
//!                                                                  member up to the source: where
//!                                                                  it passes here, a branch begins
//! ```
//!
//! Packets that go two ways leave on the links of both trees alike: a node sends on the first copy that it gets,
//! so whichever way is whole carries it, and the later one is a duplicate here. Two ways are as far apart as the network
//! lets them be ([`graph::redundant`]), found member by member and kept while the topology stays: a member that
//! joins costs one search. After what has taken long the old links serve for nine times as long, half a second
//! at most, so a network in uproar takes a tenth of a node.
//!
//! The source's shortest-path tree is computed once for each source and metric in use, and again
//! when the topology has changed and a packet comes. Copies leave in the order of the farthest member
//! behind each branch. A slot is one hash away from a packet.

use super::Membership;
use crate::link::{LinkIndex, Links};
use base::{Duration, Map, NodeAddr, Time};
use core::cmp::Reverse;
use graph::redundant::TwoWays;
use graph::spf::Tree;
use graph::{Cost, Metric, NodeIndex, Topology};

/// Sources, metrics and groups that pass this node at once; 150 bytes each.
pub const SLOTS_MAX: usize = 4_096;
/// Trees of sources that are kept: 256 of 1024 nodes are 7 MB.
const TREES_MAX: usize = 256;
/// How long a branch that is no longer of the tree is still served. Choice: a change is flooded
/// through ten hops of 20 ms meanwhile, and a leave takes effect well within a second.
pub const LINGER: Duration = Duration::from_millis(300);
/// The same where packets go two ways: nodes may rest for half a second before they follow a change.
pub const LINGER_TWO_WAYS: Duration = Duration::from_secs(1);
/// An arc of a search for two ways, and the most that is rested after one.
const WORK: Duration = Duration::from_nanos(10);
const REST_MOST: Duration = Duration::from_millis(500);
/// Parts of rest to one of work.
const REST: u64 = 9;
/// The upstream of packets that go two ways is another one when it has brought nothing for so long.
const UPSTREAM_SILENT: Duration = Duration::from_secs(1);
/// A slot without a packet for so long leaves the table.
const IDLE: Duration = Duration::from_secs(60);
/// Slots of which the least lately used one makes room.
const EVICTION_SAMPLE: usize = 8;

/// What the way of a packet to a group depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Where it began.
    pub source: NodeAddr,
    /// What the tree makes short.
    pub metric: Metric,
    /// The group.
    pub group: NodeAddr,
    /// They go along two trees.
    pub two_ways: bool,
}

/// Where copies of such packets go from here.
#[derive(Clone, Debug)]
pub struct Slot {
    /// Of which packets.
    pub key: Key,
    /// The branches of the tree.
    links: Vec<LinkIndex>,
    /// Those that were of the tree, and until when they are served.
    old: Vec<(LinkIndex, Time)>,
    /// The topology that the branches follow from; none when the group has changed.
    follows: Option<u64>,
    /// When it was used last.
    pub used: Time,
    /// Packets that took it.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The neighbour that they come from; none where they begin.
    pub upstream: Option<NodeAddr>,
    upstream_at: Time,
}

impl Slot {
    /// The links on which copies leave at this moment.
    pub fn links(&self, now: Time) -> impl Iterator<Item = LinkIndex> + '_ {
        let old = self.old.iter().filter(move |(_, until)| now < *until);
        self.links.iter().chain(old.map(|(link, _)| link)).copied()
    }

    /// Counts packets that came from a neighbour, none for those that begin here. Of two that bring the
    /// same packets in turn one stays the upstream, so that receivers' reports take one way.
    pub fn count(&mut self, now: Time, upstream: Option<NodeAddr>, packets: u64, bytes: u64) {
        self.packets += packets;
        self.bytes += bytes;
        let silent = now.since(self.upstream_at) >= UPSTREAM_SILENT;
        if !self.key.two_ways || silent || self.upstream.is_none() {
            self.upstream = upstream;
        }
        if self.upstream == upstream {
            self.upstream_at = now;
        }
    }

    /// The tree is now so: what is no longer of it is served for a while.
    fn set_links(&mut self, now: Time, links: Vec<LinkIndex>) {
        let linger = match self.key.two_ways {
            true => LINGER_TWO_WAYS,
            false => LINGER,
        };
        let lost = self.links.iter().filter(|link| !links.contains(link));
        self.old.extend(lost.map(|link| (*link, now + linger)));
        // What has come back is of the tree, and what has had its time goes.
        self.old
            .retain(|(link, until)| now < *until && !links.contains(link));
        self.links = links;
    }

    /// Those of the tree as it is.
    pub fn branches(&self) -> &[LinkIndex] {
        &self.links
    }
}

#[derive(Clone, Debug)]
struct SourceTree {
    follows: u64,
    tree: Tree,
    used: Time,
}

/// The slots of a node.
#[derive(Debug, Default)]
pub struct Trees {
    places: Map<Key, u32>,
    slots: Vec<Slot>,
    trees: Map<(NodeAddr, Metric), SourceTree>,
    ways: Ways,
    last: usize,
    /// Where eviction and expiry go on looking.
    hand: usize,
    /// Scratch: nodes from which a way up was followed.
    seen: Vec<bool>,
    /// Scratch: members that the source reaches, and how far they are.
    members: Vec<(Cost, NodeIndex)>,
}

/// What branches follow from.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// This node.
    pub own: NodeAddr,
    /// The graph.
    pub topology: &'a Topology,
    /// Its generation.
    pub generation: u64,
    /// Who is in which group.
    pub membership: &'a Membership,
    /// The links of this node.
    pub links: &'a Links,
}

impl Trees {
    /// The place of the slot for such packets, its branches up to date.
    #[inline]
    pub fn slot(&mut self, now: Time, key: Key, view: View<'_>) -> u32 {
        if self.slots.get(self.last).is_none_or(|slot| slot.key != key) {
            self.last = match self.places.get(&key) {
                Some(place) => *place as usize,
                None => self.place(now, key),
            };
        }
        let slot = &self.slots[self.last];
        if slot.follows != Some(view.generation) {
            // What has lost its tree, or has none yet, cannot wait.
            let can_rest = slot.key.two_ways && slot.follows.is_some() && !slot.links.is_empty();
            if !can_rest || now >= self.ways.rested_at {
                self.compute(now, self.last, view);
            }
        }
        self.slots[self.last].used = now;
        self.last as u32
    }

    /// The slot at a place.
    #[inline]
    pub fn at(&self, place: u32) -> &Slot {
        &self.slots[place as usize]
    }

    /// The slot at a place, to be counted on.
    #[inline]
    pub fn at_mut(&mut self, place: u32) -> &mut Slot {
        &mut self.slots[place as usize]
    }

    /// All slots, in no particular order but the same in every run.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Slot> {
        self.slots.iter()
    }

    /// The tree of a source in the topology of a generation, if packets of it have passed here since.
    pub fn tree(&self, key: Key, generation: u64) -> Option<&Tree> {
        let known = self.trees.get(&(key.source, key.metric))?;
        (known.follows == generation).then_some(&known.tree)
    }

    /// Who may receive has changed.
    pub fn on_permits_changed(&mut self) {
        for slot in &mut self.slots {
            slot.follows = None;
        }
    }

    /// The members of a group have changed.
    pub fn on_group_changed(&mut self, group: NodeAddr) {
        for slot in self.slots.iter_mut().filter(|slot| slot.key.group == group) {
            slot.follows = None;
        }
    }

    /// Forgets what has been idle. Call it about once per second.
    pub fn expire(&mut self, now: Time) {
        let mut place = 0;
        while place < self.slots.len() {
            match now.since(self.slots[place].used) >= IDLE {
                true => self.remove(place),
                false => place += 1,
            }
        }
        self.trees.retain(|_, tree| now.since(tree.used) < IDLE);
    }

    fn place(&mut self, now: Time, key: Key) -> usize {
        if self.slots.len() >= SLOTS_MAX {
            let sample = (0..EVICTION_SAMPLE).map(|i| (self.hand + i) % self.slots.len());
            let oldest = sample.min_by_key(|&place| self.slots[place].used);
            self.hand = (self.hand + EVICTION_SAMPLE) % SLOTS_MAX;
            if let Some(oldest) = oldest {
                self.remove(oldest);
            }
        }
        self.places.insert(key, self.slots.len() as u32);
        self.slots.push(Slot {
            key,
            links: Vec::new(),
            old: Vec::new(),
            upstream_at: Time::ZERO,
            follows: None,
            used: now,
            packets: 0,
            bytes: 0,
            upstream: None,
        });
        self.slots.len() - 1
    }

    fn remove(&mut self, place: usize) {
        self.places.remove(&self.slots[place].key);
        self.slots.swap_remove(place);
        if let Some(moved) = self.slots.get(place) {
            self.places.insert(moved.key, place as u32);
        }
    }

    /// Follows the source's tree from all members up, and notes where it passes this node.
    fn compute(&mut self, now: Time, place: usize, view: View<'_>) {
        let key = self.slots[place].key;
        let mut branches = Vec::new();
        if key.two_ways {
            self.ways.links(now, key, view, &mut branches);
        } else if let Some(root) = view.topology.index(key.source)
            && let Some(own) = view.topology.index(view.own)
        {
            let tree = source_tree(&mut self.trees, now, (key, root), view);
            self.seen.clear();
            self.seen.resize(view.topology.node_count(), false);
            self.members.clear();
            let members = view.membership.receivers(key.group);
            let nodes = members.filter_map(|member| view.topology.index(member));
            let reached = nodes.filter_map(|node| Some((tree.distance(node)?, node)));
            self.members.extend(reached);
            // Choice: copies leave one after the other, so the branch to the farthest member leaves
            // first.
            self.members.sort_by_key(|(distance, _)| Reverse(*distance));
            for (_, node) in &self.members {
                if let Some(child) = below(tree, own, *node, &mut self.seen)
                    && let Some(link) = view.links.by_peer(view.topology.addr(child))
                {
                    branches.push(link);
                }
            }
        }
        let slot = &mut self.slots[place];
        slot.set_links(now, branches);
        slot.follows = Some(view.generation);
    }
}

/// Where the two ways from sources to members pass this node, for one topology.
#[derive(Debug, Default)]
struct Ways {
    generation: u64,
    /// The network of the source that was asked for last.
    of: Option<(NodeAddr, TwoWays)>,
    /// By source and member: the nodes that follow this one.
    next: Map<(NodeAddr, NodeAddr), [Option<NodeAddr>; 2]>,
    /// Not before this moment, unless there is no way at all.
    rested_at: Time,
}

impl Ways {
    /// The links on which packets to all members of a group leave here.
    fn links(&mut self, now: Time, key: Key, view: View<'_>, links: &mut Vec<LinkIndex>) {
        if self.generation != view.generation {
            self.generation = view.generation;
            self.of = None;
            self.next.clear();
        }
        let mut work = 0;
        let members = view.membership.receivers(key.group);
        for member in members.filter(|member| *member != key.source) {
            let pair = (key.source, member);
            let next = match self.next.get(&pair) {
                Some(next) => *next,
                None => {
                    let (next, took) = self.search(key, member, view);
                    work += took;
                    self.next.insert(pair, next);
                    next
                }
            };
            for node in next.into_iter().flatten() {
                if let Some(link) = view.links.by_peer(node)
                    && !links.contains(&link)
                {
                    links.push(link);
                }
            }
        }
        self.rested_at = now + (WORK * work * REST).min(REST_MOST);
    }

    /// The nodes that follow this one on the two ways to a member, and the work that it took to find them.
    fn search(
        &mut self,
        key: Key,
        member: NodeAddr,
        view: View<'_>,
    ) -> ([Option<NodeAddr>; 2], u64) {
        let is_at_hand = self.of.as_ref().is_some_and(|(of, _)| *of == key.source);
        if !is_at_hand {
            let ways = TwoWays::new(view.topology, key.source, key.metric);
            self.of = ways.map(|ways| (key.source, ways));
        }
        let Some((_, ways)) = &mut self.of else {
            return ([None; 2], 0);
        };
        let before = if is_at_hand { ways.work() } else { 0 };
        let next = ways.to(member).map_or([None; 2], |pair| {
            pair.map(|way| {
                let hop = way.windows(2).find(|hop| hop[0] == view.own);
                hop.map(|hop| hop[1])
            })
        });
        (next, ways.work() - before)
    }
}

/// The present tree of a packet's source.
fn source_tree<'a>(
    trees: &'a mut Map<(NodeAddr, Metric), SourceTree>,
    now: Time,
    (key, root): (Key, NodeIndex),
    view: View<'_>,
) -> &'a Tree {
    let name = (key.source, key.metric);
    let is_known = trees.contains_key(&name);
    if !is_known && trees.len() >= TREES_MAX {
        let oldest = trees.iter().map(|(name, tree)| (tree.used, *name)).min();
        if let Some((_, oldest)) = oldest {
            trees.remove(&oldest);
        }
    }
    let present = trees.entry(name).or_insert_with(|| SourceTree {
        follows: view.generation,
        tree: Tree::new(view.topology, root, key.metric),
        used: now,
    });
    if present.follows != view.generation {
        present.tree = Tree::new(view.topology, root, key.metric);
        present.follows = view.generation;
    }
    present.used = now;
    &present.tree
}

/// The child of `own` on the tree's path to `node`, if the path passes `own` and was not followed
/// before.
fn below(tree: &Tree, own: NodeIndex, node: NodeIndex, seen: &mut [bool]) -> Option<NodeIndex> {
    let mut at = node;
    loop {
        if core::mem::replace(&mut seen[at.place()], true) {
            return None;
        }
        let parent = tree.parent(at)?;
        if parent == own {
            return Some(at);
        }
        at = parent;
    }
}
