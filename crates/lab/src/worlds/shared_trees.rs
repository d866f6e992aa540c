//! Stations in a world: nodes with Scribe in them, and groups whose trees it builds.

use crate::members::Members;
use crate::whole::address;
use base::{ClientId, Duration, NodeAddr, Rng, Time, VirtualPort};
use host::station::Station;
use overlay::request::{Operation, Options};
use overlay::sockets::default_options;
use overlay::{Neighbor, Node, Reply, Request, Settings};
use scribe::Id;
use sim::{HostId, World};
use std::collections::{BTreeMap, BTreeSet};
use wire::HEADROOM;
use wire::groups::{Setting, TreeBuilder, Ways};

const GROUP: NodeAddr = NodeAddr(0xefc0_0107);
const PORT: VirtualPort = VirtualPort(5_000);
const MEMBER: ClientId = ClientId(11);
const SOURCE: ClientId = ClientId(12);
const OPERATOR: ClientId = ClientId(0);

struct Stations {
    world: World<Station>,
    hosts: Vec<HostId>,
    links: Vec<(usize, usize)>,
    members: Members,
    capacity_kbps: u32,
    sent: u64,
    /// By node and packet: how often the packet arrived.
    came: BTreeMap<(usize, u64), u32>,
    first: BTreeMap<usize, Time>,
}

impl Stations {
    fn new(seed: u64, count: usize) -> Stations {
        let mut rng = Rng::new(seed);
        let mut links: Vec<(usize, usize)> = (1..count).map(|i| (i - 1, i)).collect();
        for _ in 0..count {
            let (a, b) = (
                rng.below(count as u64) as usize,
                rng.below(count as u64) as usize,
            );
            let link = (a.min(b), a.max(b));
            if a != b && !links.contains(&link) {
                links.push(link);
            }
        }
        Stations::linked(seed, count, links, ("delay=8ms loss=1%", 0))
    }

    /// Creates stations with these links, all of them like `path` and of this capacity.
    fn linked(
        seed: u64,
        count: usize,
        links: Vec<(usize, usize)>,
        (path, capacity_kbps): (&str, u32),
    ) -> Stations {
        let mut rng = Rng::new(seed);
        let mut members = Members::new(&mut rng, false);
        for i in 0..count {
            members.add(&mut rng, &format!("n{i}"), address(i));
        }
        let mut all = Stations {
            world: World::new(seed),
            hosts: Vec::new(),
            links,
            members,
            capacity_kbps,
            sent: 0,
            came: BTreeMap::new(),
            first: BTreeMap::new(),
        };
        for i in 0..count {
            let station = all.start(i, 0);
            let host = all.world.add_host(station);
            all.hosts.push(host);
        }
        for (a, b) in all.links.clone() {
            all.path(a, b, path);
        }
        all
    }

    fn path(&mut self, a: usize, b: usize, path: &str) {
        let model = path.parse().unwrap();
        self.world.link(self.hosts[a], self.hosts[b], &model);
    }

    /// Starts a node for the `nth` time.
    fn start(&self, i: usize, nth: u64) -> Station {
        let ends = self.links.iter().filter(|(a, b)| *a == i || *b == i);
        let neighbors = ends.map(|&(a, b)| {
            let peer = if a == i { b } else { a };
            Neighbor {
                more: Vec::new(),
                capacity_kbps: self.capacity_kbps,
                reliable: Default::default(),
                addr: address(peer),
                name: format!("n{peer}"),
                at: (a == i).then(|| sim::underlay(peer as u32)),
            }
        });
        let neighbors = neighbors.collect();
        let rng = self.world.rng_of(&[i as u64, nth]);
        let settings = Settings::modern();
        let config = self.members.config(i, rng, neighbors, settings);
        Station::new(Node::new(config), i as u64)
    }

    fn run_ms(&mut self, ms: u64) {
        self.world.run_for(Duration::from_millis(ms));
        for answer in self.world.take_replies() {
            if let Reply::Datagram { payload, group, .. } = answer.reply {
                assert_eq!(group, Some(GROUP));
                let number = u64::from_be_bytes(payload.bytes()[..8].try_into().unwrap());
                let node = answer.host.place();
                *self.came.entry((node, number)).or_default() += 1;
                self.first.entry(node).or_insert(answer.at);
            }
        }
    }

    fn request(&mut self, i: usize, client: ClientId, request: Request) {
        self.world.request(self.hosts[i], client, request);
    }

    /// Sets at node 0 that the groups of the organisation's scope belong to Scribe.
    fn choose(&mut self, tree: TreeBuilder) {
        self.choose_with(tree, 0);
    }

    fn choose_with(&mut self, tree: TreeBuilder, rate_kbps: u32) {
        let group = NodeAddr(0xefc0_0000);
        let prefix = 14;
        let setting = Setting {
            group,
            prefix,
            version: 0,
            tree,
            class: default_options().class,
            deadline_ms: 400,
            rate_kbps,
            ways: Ways::Auto,
            delivery: None,
            aim: Default::default(),
        };
        let operation = Operation::SetGroup {
            group,
            prefix,
            setting: Some(setting),
        };
        self.request(0, OPERATOR, Request::Operate(operation));
    }

    fn join(&mut self, i: usize) {
        self.join_group(i, GROUP);
    }

    fn join_group(&mut self, i: usize, group: NodeAddr) {
        let port = PORT;
        self.request(i, MEMBER, Request::Join { group, port });
    }

    /// Sends this many packets, 5 ms apart, and lets them arrive.
    fn send(&mut self, from: usize, count: u64) -> std::ops::Range<u64> {
        let first = self.sent;
        let options = Options {
            deadline: Some(Duration::from_millis(400)),
            ..default_options()
        };
        self.request(from, SOURCE, Request::Options(options));
        for _ in 0..count {
            let bytes = [&self.sent.to_be_bytes()[..], &[7; 152]].concat();
            let payload = self.world.pool().copy_of(HEADROOM, &bytes).unwrap();
            let (to, port) = (GROUP, PORT);
            self.request(from, SOURCE, Request::Send { to, port, payload });
            self.sent += 1;
            self.run_ms(5);
        }
        self.run_ms(500);
        first..self.sent
    }

    fn assert_once(&self, packets: std::ops::Range<u64>, members: &[usize]) {
        for node in 0..self.hosts.len() {
            let times = |n: u64| self.came.get(&(node, n)).copied().unwrap_or(0);
            let wanted = u32::from(members.contains(&node));
            let wrong: Vec<u64> = packets.clone().filter(|n| times(*n) != wanted).collect();
            assert!(wrong.is_empty(), "node {node}, {wanted} wanted: {wrong:?}");
        }
    }
}

/// Returns the node that is closest to a group's id, among `count` nodes.
fn root_of(count: usize, group: NodeAddr) -> usize {
    let (key, id) = (Id::of_group(group), |i: usize| Id::of_node(address(i)));
    let nodes = 0..count;
    nodes.min_by(|a, b| key.closer(id(*a), id(*b))).unwrap()
}

#[test]
fn members_of_a_group_of_scribe_get_each_packet_once() {
    for seed in 0..4 {
        let mut all = Stations::new(seed, 12);
        all.run_ms(3_000);
        all.choose(TreeBuilder::Scribe);
        all.run_ms(4_000);
        let members = [1, 4, 7, 10, 11];
        for i in members {
            all.join(i);
        }
        all.run_ms(1_000);
        // A sender outside of the tree first requests the root.
        let first = all.send(2, 1);
        let packets = all.send(2, 200);
        all.assert_once(packets, &members);
        assert!(all.came.keys().filter(|(_, n)| first.contains(n)).count() <= members.len());
        // A member sends along its own edges, and receives only other nodes' packets.
        let packets = all.send(4, 100);
        all.assert_once(packets, &members);
        let joined = all.world.now();
        all.join(6);
        let packets = all.send(2, 100);
        let first = all.first[&6].since(joined);
        assert!(first < Duration::from_millis(400), "seed {seed}: {first}");
        all.assert_once(packets.end - 20..packets.end, &[1, 4, 6, 7, 10, 11]);
    }
}

#[test]
fn a_tree_of_scribe_is_mended_when_a_node_dies() {
    for seed in 0..4 {
        let mut all = Stations::new(seed, 12);
        all.run_ms(3_000);
        all.choose(TreeBuilder::Scribe);
        all.run_ms(4_000);
        let members = [1, 4, 7, 10, 11];
        for i in members {
            all.join(i);
        }
        all.run_ms(1_000);
        all.send(4, 100);
        // The test needs an inner node that is not a member and whose loss does not partition the network.
        let mut inner = all
            .hosts
            .iter()
            .map(|host| all.world.engine(*host).unwrap());
        let inner = inner.position(|station| {
            let scribe = station.scribe().unwrap();
            scribe.is_in_tree(GROUP) && !scribe.is_member(GROUP)
        });
        let dies = inner.filter(|dies| *dies != 0).unwrap_or(7);
        drop(all.world.crash(all.hosts[dies]));
        all.run_ms(8_000);
        let packets = all.send(4, 100);
        let reached: Vec<usize> = members
            .into_iter()
            .filter(|member| *member != dies && connected(&all, dies, 4, *member))
            .collect();
        all.assert_once(packets, &reached);
    }
}

/// Returns whether two nodes can reach each other without a third.
fn connected(all: &Stations, without: usize, from: usize, to: usize) -> bool {
    let mut seen = vec![from];
    let mut next = 0;
    while let Some(&at) = seen.get(next) {
        next += 1;
        for &(a, b) in &all.links {
            for (x, y) in [(a, b), (b, a)] {
                if x == at && y != without && !seen.contains(&y) {
                    seen.push(y);
                }
            }
        }
    }
    seen.contains(&to)
}

#[test]
fn a_group_goes_from_one_builder_to_the_other_and_back() {
    let mut all = Stations::new(9, 8);
    all.run_ms(3_000);
    let members = [1, 3, 7];
    for i in members {
        all.join(i);
    }
    all.run_ms(500);
    let packets = all.send(5, 50);
    all.assert_once(packets, &members);
    for tree in [TreeBuilder::Scribe, TreeBuilder::LinkState] {
        all.choose(tree);
        all.run_ms(6_000);
        all.send(5, 1);
        let packets = all.send(5, 50);
        all.assert_once(packets, &members);
        let station = all.world.engine(all.hosts[5]).unwrap();
        assert_eq!(station.scribe().is_some(), tree == TreeBuilder::Scribe);
    }
}

#[test]
fn the_source_s_node_knows_what_each_receiver_of_a_shared_tree_lost() {
    for seed in 0..3 {
        let mut all = Stations::new(seed, 12);
        all.run_ms(3_000);
        all.choose(TreeBuilder::Scribe);
        all.run_ms(4_000);
        let members = [1, 4, 7, 10, 11];
        for i in members {
            all.join(i);
        }
        all.run_ms(1_000);
        // One source is outside of the tree, the other one is a member.
        for source in [2, 4] {
            all.send(source, 1_500);
            // A report may be lost; the next one contains everything that it did.
            all.run_ms(2_000);
            let now = all.world.now();
            let station = all.world.engine(all.hosts[source]).unwrap();
            let [group] = station.group_statuses(now, Some(GROUP)).try_into().unwrap();
            assert_eq!((group.tree.as_str(), group.refused), ("scribe", None));
            let of = address(source).to_string();
            let sent = group.sources.iter().find(|s| s.source == of).unwrap();
            assert_eq!((sent.metric.as_str(), &sent.upstream), ("scribe", &None));
            let wanted = members.iter().filter(|member| **member != source);
            let wanted: BTreeSet<String> = wanted.map(|i| address(*i).to_string()).collect();
            let told = sent.receptions.iter().map(|one| one.node.clone());
            assert_eq!(told.collect::<BTreeSet<_>>(), wanted, "seed {seed}");
            assert_eq!(sent.receivers as usize, wanted.len());
            for one in &sent.receptions {
                assert!(one.received > 900 && one.lost_after_pct < 0.2, "{one:?}");
            }
            let totals = station.group_totals(now).totals;
            assert_eq!(totals.sources[0].receivers as usize, wanted.len());
            assert!(totals.sources[0].packets >= 1_500);
        }
    }
}

#[test]
fn a_shared_tree_that_does_not_fit_a_link_is_refused_with_the_reason() {
    // 10 Mbit/s carry only one group of 8 Mbit/s.
    let path = ("delay=8ms", 10_000);
    let mut all = Stations::linked(3, 2, vec![(0, 1)], path);
    all.run_ms(3_000);
    all.choose_with(TreeBuilder::Scribe, 8_000);
    all.run_ms(4_000);
    let groups = (0..).map(|n| NodeAddr(GROUP.0 + n));
    let groups: Vec<NodeAddr> = groups.filter(|g| root_of(2, *g) == 0).take(2).collect();
    // The joins also fit into one message.
    for group in &groups {
        all.join_group(1, *group);
    }
    all.run_ms(2_500);
    let refusal = |all: &Stations, group: NodeAddr| {
        let station = all.world.engine(all.hosts[1]).unwrap();
        let status = station.group_statuses(all.world.now(), Some(group));
        status[0].refused.clone()
    };
    let refused: Vec<bool> = groups.iter().map(|g| refusal(&all, *g).is_some()).collect();
    assert_eq!(refused.iter().filter(|refused| **refused).count(), 1);
    let (out, inside) = match refused[0] {
        true => (groups[0], groups[1]),
        false => (groups[1], groups[0]),
    };
    let why = refusal(&all, out).unwrap();
    assert!(why.starts_with("n0 ") && why.contains("rate"), "{why}");
    let root = all.world.engine(all.hosts[0]).unwrap();
    let lacks = root.node().lacks_for(out, address(1), &[]).unwrap();
    assert!(lacks.contains("10000") && lacks.contains("8000"), "{lacks}");
    // The member gets in as soon as there is room.
    let (group, port) = (inside, PORT);
    all.request(1, MEMBER, Request::Leave { group, port });
    all.run_ms(2_500);
    assert_eq!(refusal(&all, out), None);
    let root = all.world.engine(all.hosts[0]).unwrap().scribe().unwrap();
    assert_eq!(root.children(out), [address(1)]);
}

#[test]
fn a_root_that_moves_loses_nothing() {
    let count = 6;
    let newcomer = root_of(count, GROUP);
    let others: Vec<usize> = (0..count).filter(|i| *i != newcomer).collect();
    let links = (0..count).flat_map(|a| (0..a).map(move |b| (b, a)));
    let mut all = Stations::linked(5, count, links.collect(), ("delay=8ms", 0));
    // No path between other nodes leads through it.
    for i in &others {
        all.path(newcomer, *i, "delay=30ms");
    }
    drop(all.world.crash(all.hosts[newcomer]));
    all.run_ms(3_000);
    let operator = others[0];
    assert_eq!(operator, 0, "node 0 says what is Scribe's");
    all.choose(TreeBuilder::Scribe);
    all.run_ms(4_000);
    let members = [others[1], others[2], others[3]];
    for i in members {
        all.join(i);
    }
    all.run_ms(1_000);
    // One source is outside of the tree, the other one is a member.
    for (nth, source) in [(1, others[4]), (2, others[1])] {
        all.send(source, 10);
        let station = all.start(newcomer, nth);
        all.world.restart(all.hosts[newcomer], station);
        let packets = all.send(source, 2_000);
        all.assert_once(packets, &members);
        let scribe = all.world.engine(all.hosts[newcomer]).unwrap().scribe();
        let scribe = scribe.unwrap();
        assert!(scribe.is_in_tree(GROUP) && scribe.parent(GROUP).is_none());
        drop(all.world.crash(all.hosts[newcomer]));
        all.run_ms(8_000);
    }
}
