//! On which links copies of a packet to a group leave this node.
//!
//! ```text
//!   (source, metric, group) ──▶ Slot: links, still true? ── no ──▶ the source's tree, from every
//!                                                                  member up to the source: where
//!                                                                  it passes here, a branch begins
//! ```
//!
//! The source's shortest-path tree is computed once for each source and metric in use, and again
//! when the topology has changed and a packet comes. Copies leave in the order of the farthest member
//! behind each branch. A slot is one hash away from a packet.

use super::Membership;
use crate::link::{LinkIndex, Links};
use base::{Duration, Map, NodeAddr, Time};
use core::cmp::Reverse;
use graph::spf::Tree;
use graph::{Cost, Metric, NodeIndex, Topology};

/// Sources, metrics and groups that pass this node at once; 150 bytes each.
pub const SLOTS_MAX: usize = 4_096;
/// Trees of sources that are kept: 256 of 1024 nodes are 7 MB.
const TREES_MAX: usize = 256;
/// How long a branch that is no longer of the tree is still served. Choice: a change is flooded
/// through ten hops of 20 ms meanwhile, and a leave takes effect well within a second.
pub const LINGER: Duration = Duration::from_millis(300);
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
}

/// Where copies of such packets go from here.
#[derive(Clone, Debug)]
pub struct Slot {
    /// Of which packets.
    pub key: Key,
    /// The branches of the tree.
    links: Vec<LinkIndex>,
    /// Those of the tree before, until `linger_until`.
    old: Vec<LinkIndex>,
    linger_until: Time,
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
}

impl Slot {
    /// The links on which copies leave at this moment.
    pub fn links(&self, now: Time) -> impl Iterator<Item = LinkIndex> + '_ {
        let lingers = now < self.linger_until;
        let old = self
            .old
            .iter()
            .filter(move |link| lingers && !self.links.contains(link));
        self.links.iter().chain(old).copied()
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
#[derive(Clone, Debug, Default)]
pub struct Trees {
    places: Map<Key, u32>,
    slots: Vec<Slot>,
    trees: Map<(NodeAddr, Metric), SourceTree>,
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
        if self.slots[self.last].follows != Some(view.generation) {
            self.compute(now, self.last, view);
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
            linger_until: Time::ZERO,
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
        if let Some(root) = view.topology.index(key.source)
            && let Some(own) = view.topology.index(view.own)
        {
            let tree = source_tree(&mut self.trees, now, (key, root), view);
            self.seen.clear();
            self.seen.resize(view.topology.node_count(), false);
            self.members.clear();
            let members = view.membership.members(key.group);
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
        let lost = |link: &LinkIndex| !branches.contains(link);
        if slot.links.iter().any(lost) {
            // Those that lingered already have had their time.
            slot.old = slot.links.iter().copied().filter(lost).collect();
            slot.linger_until = now + LINGER;
        }
        slot.links = branches;
        slot.follows = Some(view.generation);
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
