//! Stations in a world: nodes with Scribe in them, and groups whose trees it builds.

use crate::members::Members;
use crate::whole::address;
use base::{ClientId, Duration, NodeAddr, Rng, Time, VirtualPort};
use host::station::Station;
use overlay::request::{Operation, Options};
use overlay::sockets::default_options;
use overlay::{Neighbor, Node, Reply, Request, Settings};
use sim::{HostId, World};
use std::collections::BTreeMap;
use wire::HEADROOM;
use wire::groups::{Setting, TreeBuilder};

const GROUP: NodeAddr = NodeAddr(0xefc0_0107);
const PORT: VirtualPort = VirtualPort(5_000);
const MEMBER: ClientId = ClientId(11);
const SOURCE: ClientId = ClientId(12);
const OPERATOR: ClientId = ClientId(0);

struct Stations {
    world: World<Station>,
    hosts: Vec<HostId>,
    links: Vec<(usize, usize)>,
    sent: u64,
    /// By node and packet: how often it came.
    came: BTreeMap<(usize, u64), u32>,
    first: BTreeMap<usize, Time>,
}

impl Stations {
    fn new(seed: u64, count: usize) -> Stations {
        let mut world: World<Station> = World::new(seed);
        let mut rng = Rng::new(seed);
        let mut members = Members::new(&mut rng, false);
        for i in 0..count {
            members.add(&mut rng, &format!("n{i}"), address(i));
        }
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
        let mut hosts = Vec::new();
        for i in 0..count {
            let ends = links.iter().filter(|(a, b)| *a == i || *b == i);
            let neighbors = ends.map(|&(a, b)| {
                let peer = if a == i { b } else { a };
                Neighbor {
                    capacity_kbps: 0,
                    addr: address(peer),
                    name: format!("n{peer}"),
                    at: (a == i).then(|| sim::underlay(peer as u32)),
                }
            });
            let neighbors = neighbors.collect();
            let config =
                members.config(i, world.rng_of(&[i as u64]), neighbors, Settings::modern());
            hosts.push(world.add_host(Station::new(Node::new(config), i as u64)));
        }
        let model = "delay=8ms loss=1%".parse().unwrap();
        for &(a, b) in &links {
            world.link(hosts[a], hosts[b], &model);
        }
        Stations {
            world,
            hosts,
            links,
            sent: 0,
            came: BTreeMap::new(),
            first: BTreeMap::new(),
        }
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

    /// Groups of the organisation's scope are Scribe's, says node 0.
    fn choose(&mut self, tree: TreeBuilder) {
        let group = NodeAddr(0xefc0_0000);
        let prefix = 14;
        let setting = Setting {
            group,
            prefix,
            version: 0,
            tree,
            class: default_options().class,
            deadline_ms: 400,
            rate_kbps: 0,
        };
        let operation = Operation::SetGroup {
            group,
            prefix,
            setting: Some(setting),
        };
        self.request(0, OPERATOR, Request::Operate(operation));
    }

    fn join(&mut self, i: usize) {
        let (group, port) = (GROUP, PORT);
        self.request(i, MEMBER, Request::Join { group, port });
    }

    /// Sends so many packets, 5 ms apart, and lets them arrive.
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
        // A sender outside of the tree asks for the root first.
        let first = all.send(2, 1);
        let packets = all.send(2, 200);
        all.assert_once(packets, &members);
        assert!(all.came.keys().filter(|(_, n)| first.contains(n)).count() <= members.len());
        // A member sends along its own edges, and does hear only others.
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
        // Some inner node that is no member and whose loss does not part the network.
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

/// Two nodes can reach each other without a third.
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
