//! A small world: nodes in a plane, and messages that take the time of their distance and a little more, or are lost.

use base::{Duration, NodeAddr, Rng, Time};
use scribe::{Config, Event, Id, Outlet, Scribe, Settings};
use std::collections::{BTreeMap, BTreeSet};

/// Returns the n-th group.
pub(crate) fn group(n: u32) -> NodeAddr {
    NodeAddr(0xef01_0000 + n)
}

/// The parent, the children, and whether the node is a member.
pub(crate) type Branches = (Option<NodeAddr>, Vec<NodeAddr>, bool);

struct Place {
    x: f64,
    y: f64,
    /// The side of a partitioned network.
    side: u32,
}

/// The results of a node's calls.
struct Effects<'a> {
    own: NodeAddr,
    places: &'a BTreeMap<NodeAddr, Place>,
    sent: Vec<(NodeAddr, Vec<u8>)>,
    branches: &'a mut BTreeMap<(NodeAddr, NodeAddr), Branches>,
    roots: &'a mut BTreeMap<(NodeAddr, NodeAddr), NodeAddr>,
}

impl Outlet for Effects<'_> {
    fn send(&mut self, to: NodeAddr, bytes: &[u8]) {
        assert!(bytes.len() <= 1200);
        self.sent.push((to, bytes.to_vec()));
    }
    fn branches(
        &mut self,
        group: NodeAddr,
        parent: Option<NodeAddr>,
        children: &[NodeAddr],
        is_member: bool,
    ) {
        let key = (self.own, group);
        if parent.is_none() && children.is_empty() && !is_member {
            self.branches.remove(&key);
        } else {
            self.branches
                .insert(key, (parent, children.to_vec(), is_member));
        }
    }
    fn root(&mut self, group: NodeAddr, root: NodeAddr) {
        self.roots.insert((self.own, group), root);
    }
    fn proximity_us(&self, to: NodeAddr) -> Option<u32> {
        let (a, b) = (self.places.get(&self.own)?, self.places.get(&to)?);
        (a.side == b.side).then(|| distance_us(a, b))
    }
    fn report(&mut self, _: Event) {}
}

/// Returns the distance of two places, up to 28 ms.
fn distance_us(a: &Place, b: &Place) -> u32 {
    let (dx, dy) = (a.x - b.x, a.y - b.y);
    500 + ((dx * dx + dy * dy).sqrt() * 20_000.0) as u32
}

/// The nodes, and the messages on their way.
pub(crate) struct World {
    seed: u64,
    rng: Rng,
    now: Time,
    /// The share of messages that is lost.
    pub(crate) loss: f64,
    nodes: BTreeMap<NodeAddr, Scribe>,
    places: BTreeMap<NodeAddr, Place>,
    flying: BTreeMap<(Time, u64), (NodeAddr, NodeAddr, Vec<u8>)>,
    /// When each node's timeout is due.
    due: BTreeMap<NodeAddr, Time>,
    timeouts: BTreeSet<(Time, NodeAddr)>,
    numbered: u64,
    made: u32,
    members: BTreeSet<(NodeAddr, NodeAddr)>,
    branches: BTreeMap<(NodeAddr, NodeAddr), Branches>,
    roots: BTreeMap<(NodeAddr, NodeAddr), NodeAddr>,
    digest: u64,
}

impl World {
    pub(crate) fn new(seed: u64) -> World {
        World {
            seed,
            rng: Rng::new(seed),
            now: Time::ZERO + Duration::from_secs(1),
            loss: 0.0,
            nodes: BTreeMap::new(),
            places: BTreeMap::new(),
            flying: BTreeMap::new(),
            due: BTreeMap::new(),
            timeouts: BTreeSet::new(),
            numbered: 0,
            made: 0,
            members: BTreeSet::new(),
            branches: BTreeMap::new(),
            roots: BTreeMap::new(),
            digest: 0,
        }
    }

    /// Builds nodes that enter one after the other, each through a random one.
    pub(crate) fn of(seed: u64, count: usize) -> World {
        let mut world = World::new(seed);
        world.add_first();
        for _ in 1..count {
            let live = world.live();
            let via = live[world.rng.below(live.len() as u64) as usize];
            world.add_by(via);
            world.run(Duration::from_millis(20));
        }
        world.run(Duration::from_secs(3));
        world
    }

    fn make(&mut self) -> NodeAddr {
        self.made += 1;
        let addr = NodeAddr(0x0a07_0000 + self.made);
        let place = Place {
            x: self.rng.unit(),
            y: self.rng.unit(),
            side: 0,
        };
        self.places.insert(addr, place);
        self.start(addr);
        addr
    }

    fn start(&mut self, addr: NodeAddr) {
        let config = Config {
            own: addr,
            seed: self.rng.next_u64(),
            settings: Settings::default(),
        };
        self.nodes.insert(addr, Scribe::new(config));
    }

    pub(crate) fn add_first(&mut self) -> NodeAddr {
        self.make()
    }

    pub(crate) fn add_by(&mut self, via: NodeAddr) -> NodeAddr {
        let addr = self.make();
        self.act(addr, |node, now, out| node.enter(now, via, out));
        addr
    }

    pub(crate) fn restart(&mut self, addr: NodeAddr, via: NodeAddr) {
        self.branches.retain(|(node, _), _| *node != addr);
        self.start(addr);
        self.act(addr, |node, now, out| node.enter(now, via, out));
        let groups: Vec<NodeAddr> = self.members_here(addr);
        for group in groups {
            self.join(addr, group);
        }
    }

    fn members_here(&self, addr: NodeAddr) -> Vec<NodeAddr> {
        let here = self.members.iter().filter(|(node, _)| *node == addr);
        here.map(|(_, group)| *group).collect()
    }

    /// Kills a node. The others are told soon after, or detect it themselves.
    pub(crate) fn kill(&mut self, addr: NodeAddr, tells: bool) {
        self.nodes.remove(&addr);
        self.due
            .remove(&addr)
            .map(|at| self.timeouts.remove(&(at, addr)));
        self.places.remove(&addr);
        self.members.retain(|(node, _)| *node != addr);
        self.branches.retain(|(node, _), _| *node != addr);
        self.roots.retain(|(node, _), _| *node != addr);
        // A node that was entering through it gets another contact, as from a host with several.
        let inside = |(_, node): &(&NodeAddr, &Scribe)| node.is_in_ring();
        let via = self.nodes.iter().find(inside).map(|(via, _)| *via);
        let outside: Vec<NodeAddr> = self
            .nodes
            .iter()
            .filter(|n| !inside(n))
            .map(|n| *n.0)
            .collect();
        for newcomer in outside {
            if let Some(via) = via {
                self.act(newcomer, |node, now, out| node.enter(now, via, out));
            }
        }
        if tells {
            for other in self.live() {
                self.act(other, |node, now, out| node.on_peer_gone(now, addr, out));
            }
        }
    }

    /// Cuts the network into sides, which the overlay detects.
    pub(crate) fn part(&mut self, sides: u32) {
        for (i, place) in self.places.values_mut().enumerate() {
            place.side = i as u32 % sides;
        }
        for a in self.live() {
            for b in self.live() {
                if self.places[&a].side != self.places[&b].side {
                    self.act(a, |node, now, out| node.on_peer_gone(now, b, out));
                }
            }
        }
    }

    pub(crate) fn heal(&mut self) {
        let sides: BTreeMap<NodeAddr, u32> =
            self.places.iter().map(|(a, p)| (*a, p.side)).collect();
        self.places.values_mut().for_each(|place| place.side = 0);
        for a in self.live() {
            for b in self.live() {
                if sides[&a] != sides[&b] {
                    self.act(a, |node, now, out| node.on_peer_seen(now, b, out));
                }
            }
        }
    }

    pub(crate) fn join(&mut self, who: NodeAddr, group: NodeAddr) {
        self.members.insert((who, group));
        self.act(who, |node, now, out| {
            node.join(now, group, out).expect("it is a group");
        });
    }

    pub(crate) fn leave(&mut self, who: NodeAddr, group: NodeAddr) {
        self.members.remove(&(who, group));
        self.act(who, |node, now, out| node.leave(now, group, out));
    }

    pub(crate) fn locate(&mut self, who: NodeAddr, group: NodeAddr) {
        self.act(who, |node, now, out| {
            node.locate(now, group, out).expect("it is a group");
        });
    }

    fn act(&mut self, who: NodeAddr, call: impl FnOnce(&mut Scribe, Time, &mut Effects<'_>)) {
        let Some(node) = self.nodes.get_mut(&who) else {
            return;
        };
        let mut out = Effects {
            own: who,
            places: &self.places,
            sent: Vec::new(),
            branches: &mut self.branches,
            roots: &mut self.roots,
        };
        call(node, self.now, &mut out);
        let due = node.next_timeout().map(|(at, _)| at);
        let before = match due {
            Some(at) => self.due.insert(who, at),
            None => self.due.remove(&who),
        };
        if before != due {
            before.map(|at| self.timeouts.remove(&(at, who)));
            due.map(|at| self.timeouts.insert((at, who)));
        }
        for (to, bytes) in out.sent {
            let (Some(a), Some(b)) = (self.places.get(&who), self.places.get(&to)) else {
                continue;
            };
            if a.side != b.side || self.rng.chance(self.loss) {
                continue;
            }
            let jitter_us = self.rng.below(400);
            let delay = Duration::from_micros(u64::from(distance_us(a, b)) + jitter_us);
            self.numbered += 1;
            self.flying
                .insert((self.now + delay, self.numbered), (who, to, bytes));
        }
    }

    pub(crate) fn run(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            let timer = self.timeouts.first().copied().filter(|(at, _)| *at <= end);
            let message = self
                .flying
                .keys()
                .next()
                .copied()
                .filter(|(at, _)| *at <= end);
            match (timer, message) {
                (Some((at, who)), message) if message.is_none_or(|(other, _)| at < other) => {
                    self.now = self.now.max(at);
                    self.act(who, |node, now, out| node.on_timeout(now, out));
                }
                (_, Some(key)) => {
                    self.now = key.0;
                    let (from, to, bytes) = self.flying.remove(&key).expect("it is the first");
                    for byte in &bytes {
                        self.digest =
                            (self.digest ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
                    }
                    self.digest ^= self.now.as_nanos();
                    self.act(to, |node, now, out| node.on_message(now, from, &bytes, out));
                }
                _ => break,
            }
        }
        self.now = end;
    }

    pub(crate) fn now(&self) -> Time {
        self.now
    }
    pub(crate) fn live(&self) -> Vec<NodeAddr> {
        self.nodes.keys().copied().collect()
    }
    pub(crate) fn trace(&self) -> u64 {
        self.digest
    }
    pub(crate) fn branches(&self, who: NodeAddr, group: NodeAddr) -> Option<Branches> {
        self.branches.get(&(who, group)).cloned()
    }

    /// Returns the live node closest to the group's id, on a side.
    fn closest(&self, group: NodeAddr, side: Option<u32>) -> NodeAddr {
        let key = Id::of_group(group);
        let live = self.nodes.keys().copied();
        let here = live.filter(|a| side.is_none_or(|side| self.places[a].side == side));
        here.min_by(|a, b| key.closer(Id::of_node(*a), Id::of_node(*b)))
            .expect("somebody lives")
    }

    pub(crate) fn root_of(&self, group: NodeAddr) -> NodeAddr {
        self.closest(group, None)
    }

    /// Returns a node that has children, but is not the root.
    pub(crate) fn inner_of(&self, group: NodeAddr) -> Option<NodeAddr> {
        let inner = |(key, b): &(&(NodeAddr, NodeAddr), &Branches)| {
            key.1 == group && b.0.is_some() && !b.1.is_empty()
        };
        self.branches.iter().find(inner).map(|(key, _)| key.0)
    }

    /// Returns the nodes that a packet from `from` reaches over the branches to children, and how often.
    fn reached(&self, from: NodeAddr, group: NodeAddr) -> BTreeMap<NodeAddr, u32> {
        let mut reached = BTreeMap::new();
        let mut waiting = vec![from];
        while let Some(node) = waiting.pop() {
            let times = reached.entry(node).or_insert(0);
            *times += 1;
            assert!(*times <= 64, "seed {}: a loop in {group}", self.seed);
            if let Some((_, children, _)) = self.branches.get(&(node, group)) {
                waiting.extend(children.iter().filter(|c| self.nodes.contains_key(c)));
            }
        }
        reached
    }

    pub(crate) fn is_served(&self, who: NodeAddr, group: NodeAddr) -> bool {
        self.reached(self.root_of(group), group).contains_key(&who)
    }

    pub(crate) fn all_served(&self, group: NodeAddr) -> bool {
        let reached = self.reached(self.root_of(group), group);
        let members = self.members.iter().filter(|(_, g)| *g == group);
        members
            .into_iter()
            .all(|(who, _)| reached.contains_key(who))
    }

    /// Returns the delay from a member to the root along the tree.
    pub(crate) fn way_up(&self, who: NodeAddr, group: NodeAddr) -> Duration {
        let mut at = who;
        let mut us = 0;
        while let Some(parent) = self.nodes[&at].parent(group) {
            us += u64::from(distance_us(&self.places[&at], &self.places[&parent])) + 400;
            at = parent;
        }
        Duration::from_micros(us)
    }

    /// Checks what holds at every moment: a walk upwards from any node comes closer and ends.
    pub(crate) fn check_safe(&self) {
        for ((node, group), (parent, ..)) in &self.branches {
            let key = Id::of_group(*group);
            if let Some(parent) = parent {
                let (a, b) = (Id::of_node(*parent), Id::of_node(*node));
                assert!(
                    key.closer(a, b).is_lt(),
                    "seed {}: {node} under {parent}",
                    self.seed
                );
            }
        }
        for node in self.nodes.values() {
            for group in node.groups() {
                let told = self.branches.get(&(node.own(), group));
                let has = (
                    node.parent(group),
                    node.children(group).to_vec(),
                    node.is_member(group),
                );
                assert_eq!(
                    told,
                    Some(&has),
                    "seed {}: what the overlay was told",
                    self.seed
                );
            }
        }
    }

    /// Checks what holds when nothing changes any more.
    pub(crate) fn check_whole(&self, when: &str) {
        self.check_leaves(None, when);
        self.check_trees(None, when);
    }

    pub(crate) fn check_whole_by_side(&self, when: &str) {
        for side in [0, 1] {
            self.check_leaves(Some(side), when);
            self.check_trees(Some(side), when);
        }
    }

    fn is_here(&self, node: NodeAddr, side: Option<u32>) -> bool {
        let place = self.places.get(&node);
        place.is_some_and(|place| side.is_none_or(|side| place.side == side))
    }

    /// Checks that every leaf set contains the eight nearest live nodes on each side.
    fn check_leaves(&self, side: Option<u32>, when: &str) {
        let here = |a: &&NodeAddr| self.is_here(**a, side);
        let live: Vec<NodeAddr> = self.nodes.keys().filter(here).copied().collect();
        for own in &live {
            let id = Id::of_node(*own);
            let mut up: Vec<NodeAddr> = live.iter().copied().filter(|a| a != own).collect();
            up.sort_by_key(|addr| id.ahead(Id::of_node(*addr)));
            let ends = up.iter().take(8).chain(up.iter().rev().take(8));
            let expected: BTreeSet<NodeAddr> = ends.copied().collect();
            let node = &self.nodes[own];
            let held: BTreeSet<NodeAddr> = node.leaves().collect();
            assert!(
                node.is_in_ring(),
                "seed {}, {when}: {own} outside",
                self.seed
            );
            assert_eq!(
                held, expected,
                "seed {}, {when}: leaves of {own}",
                self.seed
            );
        }
    }

    /// Checks that each member is reached once from the closest live node, and that no node is in the tree without
    /// need.
    fn check_trees(&self, side: Option<u32>, when: &str) {
        let seed = self.seed;
        let groups: BTreeSet<NodeAddr> = self.branches.keys().map(|(_, g)| *g).collect();
        let wanted = self.members.iter().filter(|(a, _)| self.is_here(*a, side));
        let groups: BTreeSet<NodeAddr> = wanted.clone().map(|(_, g)| *g).chain(groups).collect();
        for group in groups {
            let root = self.closest(group, side);
            let reached = self.reached(root, group);
            for (who, _) in wanted.clone().filter(|(_, g)| *g == group) {
                let times = reached.get(who).copied();
                assert_eq!(
                    times,
                    Some(1),
                    "seed {seed}, {when}: {who} in {group}, root {root}"
                );
            }
            for ((node, _), (parent, children, is_member)) in self
                .branches
                .iter()
                .filter(|((a, g), _)| *g == group && self.is_here(*a, side))
            {
                let context = format!("seed {seed}, {when}: {node} in {group}");
                assert!(*is_member || !children.is_empty(), "{context}: no need");
                assert_eq!(
                    parent.is_none(),
                    *node == root,
                    "{context}: root {root}, parent {parent:?}"
                );
                assert_eq!(reached.get(node), Some(&1), "{context}");
                assert_eq!(
                    *is_member,
                    self.members.contains(&(*node, group)),
                    "{context}"
                );
            }
        }
        for (addr, node) in &self.nodes {
            assert_eq!(node.pending_count(), 0, "seed {seed}, {when}: {addr} waits");
        }
    }

    pub(crate) fn check_located(&self, askers: &[NodeAddr], groups: u32) {
        for who in askers
            .iter()
            .step_by(7)
            .filter(|a| self.nodes.contains_key(a))
        {
            for g in 0..groups {
                let told = self.roots.get(&(*who, group(g)));
                let root = self.root_of(group(g));
                assert_eq!(told, Some(&root), "seed {}: {who} asks", self.seed);
            }
        }
    }
}
