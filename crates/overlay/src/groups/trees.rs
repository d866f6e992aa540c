//! On which links copies of a packet to a group leave this node.
//!
//! ```text
//!   (source, metric, group) ──▶ Slot: links, still true? ── no ──▶ the source's tree, from every
//!                                                                  member up to the source: where
//!                                                                  it passes here, a branch begins
//! ```
//!
//! Packets that take two ways leave on the links of both trees alike. A node forwards the first copy that it gets, so
//! the copy on an intact way gets through, and a later copy is a duplicate here. Two ways are as far apart as the
//! network allows ([`graph::redundant`]). If second ways are targeted, the branches are those of the tree, and the
//! links of second ways are added only for members in trouble. [`super::ways`] finds both.
//!
//! The source's shortest-path tree is computed once for each source and metric in use, and again when the topology has
//! changed and a packet arrives. Copies leave in the order of the farthest member behind each branch. A packet finds
//! its slot with one hash.

use super::Membership;
use super::ways::{Second, Ways};
use crate::link::{LinkIndex, Links};
use base::{Duration, Map, NodeAddr, Time};
use core::cmp::Reverse;
use graph::spf::Tree;
use graph::{Cost, Metric, NodeIndex, Topology};
use wire::data::LinkProtocol;
use wire::groups::{TreeBuilder, Ways as Wanted};

/// Maximum number of combinations of source, metric and group that pass this node at once; 250 bytes each, and the
/// members in trouble.
pub const SLOTS_MAX: usize = 4_096;
/// Maximum number of source trees that are kept: 256 trees of 1024 nodes are 7 MB.
const TREES_MAX: usize = 256;
/// How long a branch is still served that no longer belongs to the tree. Choice: a change is flooded through ten hops
/// of 20 ms meanwhile, and a leave takes effect well within a second.
pub const LINGER: Duration = Duration::from_millis(300);
/// The same for packets that take two ways: nodes may pause for half a second before they follow a change.
pub const LINGER_TWO_WAYS: Duration = Duration::from_secs(1);
/// If packets arrive by more than one way, the upstream changes when it has delivered nothing for this long.
const UPSTREAM_SILENT: Duration = Duration::from_secs(1);
/// Time without a packet after which a slot leaves the table.
const IDLE: Duration = Duration::from_secs(60);
/// Number of slots of which the least recently used one makes room.
const EVICTION_SAMPLE: usize = 8;

/// The data on which the path of a packet to a group depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The source node.
    pub source: NodeAddr,
    /// The metric that the tree minimizes.
    pub metric: Metric,
    /// The group.
    pub group: NodeAddr,
    /// The packets take two trees.
    pub two_ways: bool,
}

/// The links over which copies of such packets leave this node.
#[derive(Clone, Debug)]
pub struct Slot {
    /// The packets that use the slot.
    pub key: Key,
    /// The branches of the tree.
    links: Vec<LinkIndex>,
    /// Former branches of the tree, and until when they are served.
    old: Vec<(LinkIndex, Time)>,
    /// The generation of the topology from which the branches follow; `None` when the group has changed.
    follows: Option<u64>,
    /// When it was last used.
    pub used: Time,
    /// Packets that used the slot.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The neighbour from which the packets arrive; `None` at the source.
    pub upstream: Option<NodeAddr>,
    upstream_at: Time,
    /// Packets with a deadline in the real-time lane have used the slot.
    is_urgent: bool,
    targeted: Option<Targeted>,
    /// How often the branches or the second ways were determined.
    looks: u32,
    /// Copies that left in addition to the branches of the tree.
    pub second_packets: u64,
}

/// The state of targeted second ways for members in trouble.
#[derive(Clone, Debug)]
struct Targeted {
    /// The time that packets may take, in microseconds.
    deadline_us: u64,
    /// The group asks for second ways, not only this node's own settings.
    is_asked: bool,
    second: Second,
}

impl Slot {
    /// Returns the links on which copies leave at this moment.
    pub fn links(&self, now: Time) -> impl Iterator<Item = LinkIndex> + '_ {
        let old = self.old.iter().filter(move |(_, until)| now < *until);
        self.links.iter().chain(old.map(|(link, _)| link)).copied()
    }

    /// Returns true if packets in this lane, with a deadline in the real-time lane or not, leave on additional links at
    /// present.
    pub fn takes_second(&self, lane: LinkProtocol, is_urgent: bool) -> bool {
        let targeted = self.targeted.as_ref();
        let targeted = targeted.filter(|targeted| is_urgent || targeted.is_asked);
        // On a reliable link, packets would wait for the slower way.
        lane != LinkProtocol::Reliable
            && targeted.is_some_and(|targeted| !targeted.second.links.is_empty())
    }

    /// Returns the additional links on which copies of such packets leave.
    pub fn second_links(&self) -> &[LinkIndex] {
        self.second().map_or(&[], |second| &second.links)
    }

    /// Returns a number that changes whenever the members with second ways may be others.
    #[inline]
    pub fn looks(&self) -> u32 {
        self.looks
    }

    /// Returns true if copies may arrive by more than one way.
    pub fn has_ways(&self) -> bool {
        self.key.two_ways || self.targeted.is_some()
    }

    /// Returns what is known of second ways; `None` if there are none in any trouble.
    pub fn second(&self) -> Option<&Second> {
        self.targeted.as_ref().map(|targeted| &targeted.second)
    }

    fn is_second_due(&self, now: Time, generation: u64) -> bool {
        let second = self.second();
        second.is_some_and(|second| {
            second.follows != Some(generation) || second.until.is_some_and(|until| now >= until)
        })
    }

    /// Counts packets that arrived from a neighbour, or that begin here (`None`). If two neighbours deliver the same
    /// packets alternately, one of them stays the upstream, so that receivers' reports take one path.
    pub fn count(&mut self, now: Time, upstream: Option<NodeAddr>, packets: u64, bytes: u64) {
        self.packets += packets;
        self.bytes += bytes;
        let silent = now.since(self.upstream_at) >= UPSTREAM_SILENT;
        if !self.has_ways() || silent || self.upstream.is_none() {
            self.upstream = upstream;
        }
        if self.upstream == upstream {
            self.upstream_at = now;
        }
    }

    /// Sets the present branches. Former branches are served for a while.
    fn set_links(&mut self, now: Time, links: Vec<LinkIndex>) {
        let linger = match self.key.two_ways {
            true => LINGER_TWO_WAYS,
            false => LINGER,
        };
        let lost = self.links.iter().filter(|link| !links.contains(link));
        self.old.extend(lost.map(|link| (*link, now + linger)));
        // A link that has come back is a branch again, and one whose time is over is removed.
        self.old
            .retain(|(link, until)| now < *until && !links.contains(link));
        self.links = links;
    }

    /// Returns the branches of the present tree.
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
    /// The position at which eviction and expiry continue.
    hand: usize,
    /// Scratch: nodes from which the path up was followed.
    seen: Vec<bool>,
    /// Scratch: members that the source reaches, and their distances.
    members: Vec<(Cost, NodeIndex)>,
}

/// The data from which branches follow.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// This node.
    pub own: NodeAddr,
    /// The graph.
    pub topology: &'a Topology,
    /// The generation of the graph.
    pub generation: u64,
    /// The members of each group.
    pub membership: &'a Membership,
    /// The links of this node.
    pub links: &'a Links,
    /// Packets with a deadline are protected if the setting of their group says nothing about ways.
    pub protects: bool,
}

impl Trees {
    /// Returns the place of the slot for such packets, with a deadline in the real-time lane or not, with its branches
    /// up to date.
    #[inline]
    pub fn slot(&mut self, now: Time, key: Key, is_urgent: bool, view: View<'_>) -> u32 {
        if self.slots.get(self.last).is_none_or(|slot| slot.key != key) {
            self.last = match self.places.get(&key) {
                Some(place) => *place as usize,
                None => self.place(now, key),
            };
        }
        let slot = &self.slots[self.last];
        if is_urgent && !slot.is_urgent {
            self.slots[self.last].is_urgent = true;
            self.compute(now, self.last, view);
        } else if slot.follows != Some(view.generation) {
            // A slot that has lost its tree, or has none yet, cannot wait.
            let can_rest = slot.key.two_ways && slot.follows.is_some() && !slot.links.is_empty();
            if !can_rest || now >= self.ways.rested_at {
                self.compute(now, self.last, view);
            }
        }
        let slot = &mut self.slots[self.last];
        slot.used = now;
        if slot.is_second_due(now, view.generation) && now >= self.ways.rested_at {
            self.compute_second(now, self.last, view);
        }
        self.last as u32
    }

    /// Returns the slot at a place.
    #[inline]
    pub fn at(&self, place: u32) -> &Slot {
        &self.slots[place as usize]
    }

    /// Returns the slot at a place, for counting.
    #[inline]
    pub fn at_mut(&mut self, place: u32) -> &mut Slot {
        &mut self.slots[place as usize]
    }

    /// Returns all slots, in no particular order but the same in every run.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Slot> {
        self.slots.iter()
    }

    /// Returns the tree of a source in the topology of a generation, if packets of the source have passed here since
    /// then.
    pub fn tree(&self, key: Key, generation: u64) -> Option<&Tree> {
        let known = self.trees.get(&(key.source, key.metric))?;
        (known.follows == generation).then_some(&known.tree)
    }

    /// The permits have changed, or how groups are carried.
    pub fn on_rules_changed(&mut self) {
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

    /// Forgets idle slots and trees. Call it about once per second.
    pub fn expire(&mut self, now: Time) {
        let mut place = 0;
        while place < self.slots.len() {
            match now.since(self.slots[place].used) >= IDLE {
                true => self.remove(place),
                false => place += 1,
            }
        }
        self.trees.retain(|_, tree| now.since(tree.used) < IDLE);
        self.ways.expire(now);
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
            is_urgent: false,
            targeted: None,
            looks: 0,
            second_packets: 0,
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
            self.ways.both(now, key, view, &mut branches);
        } else if let Some(root) = view.topology.index(key.source)
            && let Some(own) = view.topology.index(view.own)
        {
            let members = view.membership.receivers(key.group);
            let mut nodes = members
                .filter_map(|member| view.topology.index(member))
                .peekable();
            // Without members no tree is computed, whatever sources packets name.
            if nodes.peek().is_none() {
                return self.follow(now, place, branches, view);
            }
            let tree = source_tree(&mut self.trees, now, (key, root), view);
            self.seen.clear();
            self.seen.resize(view.topology.node_count(), false);
            self.members.clear();
            let reached = nodes.filter_map(|node| Some((tree.distance(node)?, node)));
            self.members.extend(reached);
            // Choice: copies leave one after the other, so the branch to the farthest member leaves first.
            self.members.sort_by_key(|(distance, _)| Reverse(*distance));
            for (_, node) in &self.members {
                if let Some(child) = below(tree, own, *node, &mut self.seen)
                    && let Some(link) = view.links.by_peer(view.topology.addr(child))
                {
                    branches.push(link);
                }
            }
        }
        self.follow(now, place, branches, view);
    }

    /// Sets the branches of a slot.
    fn follow(&mut self, now: Time, place: usize, branches: Vec<LinkIndex>, view: View<'_>) {
        let slot = &mut self.slots[place];
        slot.set_links(now, branches);
        slot.follows = Some(view.generation);
        slot.looks = slot.looks.wrapping_add(1);
        let wanted = targeted(slot, view);
        let before = slot.targeted.take();
        slot.targeted = wanted.map(|(deadline_us, is_asked)| {
            // The former result is used until there is time for another look.
            let mut second = before.map_or_else(Second::default, |before| before.second);
            second.follows = None;
            Targeted {
                deadline_us,
                is_asked,
                second,
            }
        });
    }

    /// Looks for trouble on the path to each member, and for second ways around it.
    #[cold]
    fn compute_second(&mut self, now: Time, place: usize, view: View<'_>) {
        let slot = &self.slots[place];
        let key = slot.key;
        let (Some(root), Some(deadline_us)) = (
            view.topology.index(key.source),
            slot.targeted.as_ref().map(|targeted| targeted.deadline_us),
        ) else {
            return;
        };
        let tree = source_tree(&mut self.trees, now, (key, root), view);
        let of = (key, deadline_us);
        let second = self.ways.second(now, of, view, tree, &slot.links);
        let slot = &mut self.slots[place];
        slot.looks = slot.looks.wrapping_add(1);
        if let Some(targeted) = &mut slot.targeted {
            targeted.second = second;
        }
    }
}

/// Returns whether members in trouble get second ways: the time that packets may take in microseconds, and whether the
/// group asks for second ways.
///
/// Choice: the deadline is that of the group, which all nodes know alike. From a packet, a node knows only what is left
/// of the deadline.
fn targeted(slot: &Slot, view: View<'_>) -> Option<(u64, bool)> {
    let setting = view.membership.setting(slot.key.group);
    // On a reliable link, packets would wait for the slower way, and Scribe builds one tree only.
    let can = setting.is_none_or(|setting| {
        setting.class.link != LinkProtocol::Reliable && setting.tree == TreeBuilder::LinkState
    });
    let is_asked = match setting.map_or(Wanted::Auto, |setting| setting.ways) {
        Wanted::Targeted => true,
        Wanted::Auto if view.protects && slot.is_urgent => false,
        Wanted::Auto | Wanted::One | Wanted::Two => return None,
    };
    let deadline_us = match setting.map_or(0, |setting| setting.deadline_ms) {
        0 => u64::MAX,
        ms => u64::from(ms) * 1_000,
    };
    (can && !slot.key.two_ways).then_some((deadline_us, is_asked))
}

/// Returns the present tree of a packet's source.
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

/// Returns the child of `own` on the tree's path to `node`, if the path passes `own` and was not followed before.
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
