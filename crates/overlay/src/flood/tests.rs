use super::*;
use crate::link_state::tests::{certificate, is_signed, link, node, sign};
use crate::link_state::{Claim, Judgement, Origination};
use base::{NodeAddr, Rng};
use wire::control::{Message, Messages};
use wire::record::{Acks, Record, RecordKind};

const DATAGRAM: usize = 1_400;
const TICK: Duration = Duration::from_millis(5);

struct Node {
    database: Database,
    flood: Flood,
    /// Origins whose certificates are known.
    introduced: BTreeSet<NodeAddr>,
    /// The neighbours, by the index of the link, and whether the link is up.
    neighbors: Vec<(usize, bool)>,
    due: bool,
}

/// Databases that flood to each other over links that lose, delay and fail.
struct World {
    now: Time,
    nodes: Vec<Node>,
    in_flight: Vec<(Time, usize, LinkIndex, Vec<u8>)>,
    loss: f64,
    jitter_ms: u64,
    rng: Rng,
    datagrams: u64,
}

impl World {
    fn new(nodes: usize, loss: f64, seed: u64) -> World {
        let node_at = |n: usize| {
            let mut database = Database::new(node(n as u32));
            let own = certificate(node(n as u32), 1);
            database.insert_certificate(Time::ZERO, 0, &own).unwrap();
            Node {
                database,
                flood: Flood::new(),
                introduced: BTreeSet::from([node(n as u32)]),
                neighbors: Vec::new(),
                due: true,
            }
        };
        World {
            now: Time::ZERO,
            nodes: (0..nodes).map(node_at).collect(),
            in_flight: Vec::new(),
            loss,
            jitter_ms: 30,
            rng: Rng::new(seed),
            datagrams: 0,
        }
    }

    /// A connected random graph.
    fn random(nodes: usize, loss: f64, seed: u64) -> World {
        let mut world = World::new(nodes, loss, seed);
        for n in 1..nodes {
            let other = world.rng.below(n as u64) as usize;
            world.connect(n, other);
        }
        for _ in 0..nodes {
            let (a, b) = (world.rng.below(nodes as u64), world.rng.below(nodes as u64));
            world.connect(a as usize, b as usize);
        }
        world
    }

    fn connect(&mut self, a: usize, b: usize) {
        if a != b && !self.nodes[a].neighbors.iter().any(|(n, _)| *n == b) {
            self.nodes[a].neighbors.push((b, false));
            self.nodes[b].neighbors.push((a, false));
        }
    }

    fn set_link(&mut self, a: usize, b: usize, up: bool) {
        for (from, to) in [(a, b), (b, a)] {
            let node = &mut self.nodes[from];
            let index = node.neighbors.iter().position(|(n, _)| *n == to).unwrap();
            if core::mem::replace(&mut node.neighbors[index].1, up) != up {
                let link = LinkIndex(index as u16);
                if up {
                    node.flood.on_link_up(link, &node.database);
                } else {
                    node.flood.on_link_down(link);
                }
                node.due = true;
            }
        }
    }

    fn links(&self) -> Vec<(usize, usize)> {
        let of = |(a, n): (usize, &Node)| {
            n.neighbors
                .iter()
                .map(move |(b, _)| (a, *b))
                .filter(|(a, b)| a < b)
                .collect::<Vec<_>>()
        };
        self.nodes.iter().enumerate().flat_map(of).collect()
    }

    fn set_all(&mut self, up: impl Fn(usize, usize) -> bool) {
        for (a, b) in self.links() {
            self.set_link(a, b, up(a, b));
        }
    }

    fn tick(&mut self) {
        self.now += TICK;
        let now = self.now;
        let (due, later) = core::mem::take(&mut self.in_flight)
            .into_iter()
            .partition(|p| p.0 <= now);
        self.in_flight = later;
        for (_, to, link, bytes) in due {
            if self.nodes[to].neighbors[usize::from(link.0)].1 {
                self.nodes[to].on_control(now, link, &bytes);
            }
        }
        for n in 0..self.nodes.len() {
            self.nodes[n].originate_if_due(now);
            self.flush(n);
        }
    }

    fn flush(&mut self, n: usize) {
        let now = self.now;
        while self.nodes[n].flood.poll_ready().is_some() {}
        let due: Vec<LinkIndex> = self.nodes[n].flood.due(now).collect();
        for link in due {
            let (peer, up) = self.nodes[n].neighbors[usize::from(link.0)];
            assert!(up, "nothing is to be said over a link that is down");
            for round in 0.. {
                assert!(round < 100, "the window ends it");
                let mut bytes = [0; DATAGRAM];
                let mut builder = Builder::new(&mut bytes);
                let node = &mut self.nodes[n];
                node.flood.fill(now, link, &node.database, &mut builder);
                let len = builder.len();
                if len == 0 {
                    break;
                }
                self.datagrams += 1;
                if self.rng.chance(self.loss) {
                    continue;
                }
                let at = self.nodes[peer]
                    .neighbors
                    .iter()
                    .position(|(b, _)| *b == n)
                    .unwrap();
                let delay = Duration::from_millis(5 + self.rng.below(self.jitter_ms));
                let back = LinkIndex(at as u16);
                self.in_flight
                    .push((now + delay, peer, back, bytes[..len].to_vec()));
            }
        }
    }

    /// Runs until nothing is left to be sent; fails after `limit`.
    fn settle(&mut self, limit: Duration) -> Duration {
        let start = self.now;
        loop {
            self.tick();
            let quiet = self.in_flight.is_empty()
                && self.nodes.iter().all(|n| n.flood.is_settled() && !n.due);
            if quiet {
                return self.now.since(start);
            }
            assert!(self.now.since(start) < limit, "no convergence in {limit}");
        }
    }

    fn assert_equal(&self, nodes: &[usize]) {
        let keys = |n: &usize| self.nodes[*n].database.keys().collect::<Vec<_>>();
        let first = keys(&nodes[0]);
        assert!(
            first
                .iter()
                .filter(|k| k.kind == RecordKind::LINK_STATE)
                .count()
                >= nodes.len()
        );
        for n in nodes {
            assert_eq!(keys(n), first, "node {n}");
        }
    }
}

impl Node {
    fn on_control(&mut self, now: Time, link: LinkIndex, bytes: &[u8]) {
        for message in Messages::new(bytes) {
            match message.unwrap() {
                Message::Records(records) => {
                    records.iter().for_each(|r| self.on_record(now, link, &r))
                }
                Message::RecordAck(acks) => self.on_acks(now, link, &acks),
                other => panic!("not flooding: {other:?}"),
            }
        }
    }

    fn on_acks(&mut self, now: Time, link: LinkIndex, acks: &Acks<'_>) {
        acks.iter()
            .for_each(|key| self.flood.on_ack(now, link, key));
    }

    fn on_record(&mut self, now: Time, link: LinkIndex, record: &Record<'_>) {
        let introduced = self.introduced.clone();
        let judge = |claim: &Claim<'_>| match claim {
            Claim::LinkState(state) if !introduced.contains(&state.origin) => {
                Judgement::NoCertificate
            }
            claim => is_signed(claim),
        };
        let verdict = self.database.on_record(now, link, record, judge);
        self.flood.on_verdict(link, &verdict);
        match verdict {
            Verdict::Accepted(key) if key.kind == RecordKind::CERTIFICATE => {
                self.introduced.insert(key.origin);
                for (from, verdict) in self.database.retry_pending(now, is_signed) {
                    self.flood.on_verdict(from, &verdict);
                }
            }
            Verdict::Own(_) => self.due = true,
            _ => {}
        }
    }

    fn originate_if_due(&mut self, now: Time) {
        if core::mem::take(&mut self.due) {
            let up = self.neighbors.iter().filter(|(_, up)| *up);
            let links: Vec<_> = up.map(|(n, _)| link(*n as u32, 1_000)).collect();
            let what = Origination {
                links: &links,
                strikes: 0,
                certificate_serial: 1,
                options: &[],
            };
            let key = self.database.originate(now, what, |s| {
                sign(NodeAddr(u32::from_be_bytes([s[0], s[1], s[2], s[3]])))
            });
            self.flood.on_record_accepted(key.unwrap(), None);
        }
    }
}

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn databases_become_equal_over_lossy_links() {
    for seed in 0..12 {
        let size = 5 + (seed as usize * 7) % 16;
        let mut world = World::random(size, 0.2, seed);
        world.set_all(|_, _| true);
        let took = world.settle(LIMIT);
        assert!(took < Duration::from_secs(20), "{size} nodes: {took}");
        world.assert_equal(&(0..size).collect::<Vec<_>>());
        let edges = 2 * world.links().len();
        for n in &world.nodes {
            assert_eq!(n.database.topology().link_count(), edges);
        }
    }
}

#[test]
fn partitions_heal() {
    for seed in 0..8 {
        let mut world = World::random(12, 0.1, 100 + seed);
        // Two halves are separated, and change.
        world.set_all(|a, b| (a < 6) == (b < 6));
        world.settle(LIMIT);
        for (a, b) in world
            .links()
            .into_iter()
            .filter(|(a, b)| (*a < 6) == (*b < 6))
        {
            if world.rng.chance(0.3) {
                world.set_link(a, b, false);
                world.settle(LIMIT);
            }
        }
        world.set_all(|_, _| true);
        world.settle(LIMIT);
        world.assert_equal(&(0..12).collect::<Vec<_>>());
    }
}

#[test]
fn links_that_flap_while_records_fly_end_in_equal_databases() {
    for seed in 0..6 {
        let mut world = World::random(8, 0.15, 200 + seed);
        world.set_all(|_, _| true);
        for _ in 0..200 {
            let links = world.links();
            let (a, b) = links[world.rng.below(links.len() as u64) as usize];
            let up = world.rng.chance(0.6);
            world.set_link(a, b, up);
            (0..world.rng.below(20)).for_each(|_| world.tick());
        }
        world.set_all(|_, _| true);
        world.settle(LIMIT);
        world.assert_equal(&(0..8).collect::<Vec<_>>());
    }
}

#[test]
fn a_node_that_restarts_goes_on_above_its_old_record() {
    let mut world = World::random(6, 0.1, 9);
    world.set_all(|_, _| true);
    world.settle(LIMIT);
    // Its links go down one by one, so its number has grown; then it loses its state.
    for n in world.nodes[3].neighbors.clone() {
        world.set_link(3, n.0, false);
        world.settle(LIMIT);
    }
    let neighbors = world.nodes[3].neighbors.clone();
    let mut fresh = World::new(4, 0.0, 0).nodes.pop().unwrap();
    fresh.neighbors = neighbors.clone();
    world.nodes[3] = fresh;
    for n in neighbors {
        world.set_link(3, n.0, true);
    }
    world.settle(LIMIT);
    world.assert_equal(&[0, 1, 2, 3, 4, 5]);
    let told = world.nodes[0].database.links_of(node(3)).unwrap();
    assert_eq!(told.len(), world.nodes[3].neighbors.len());
}

#[test]
fn without_loss_a_change_crosses_each_link_about_once() {
    let mut world = World::random(10, 0.0, 4);
    world.jitter_ms = 1;
    world.set_all(|_, _| true);
    world.settle(LIMIT);
    let records = |w: &World| w.nodes.iter().map(|n| n.flood.stats().records).sum::<u64>();
    let (before, datagrams) = (records(&world), world.datagrams);
    world.nodes[0].due = true;
    world.settle(LIMIT);
    let links = world.links().len() as u64;
    // Over each link once, or once in both directions at the same time; acknowledged once each.
    assert!((links..=2 * links).contains(&(records(&world) - before)));
    assert!(world.datagrams - datagrams <= 4 * links);
    let again: u64 = world
        .nodes
        .iter()
        .map(|n| n.flood.stats().retransmissions)
        .sum();
    assert_eq!(again, 0);
}

fn filled(flood: &mut Flood, now: Time, database: &Database) -> Vec<Key> {
    let mut bytes = [0; DATAGRAM];
    let mut builder = Builder::new(&mut bytes);
    flood.fill(now, LinkIndex(0), database, &mut builder);
    let len = builder.len();
    let keys = |m: Message<'_>| match m {
        Message::Records(records) => records
            .iter()
            .map(|r| Claim::parse(r.kind, r.body).unwrap().key())
            .collect::<Vec<_>>(),
        _ => Vec::new(),
    };
    Messages::new(&bytes[..len])
        .flat_map(|m| keys(m.unwrap()))
        .collect()
}

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

#[test]
fn unanswered_records_come_again_ever_later_and_newer_ones_take_their_place() {
    let mut world = World::new(1, 0.0, 1);
    world.nodes[0].originate_if_due(at(0));
    let Node {
        mut database,
        mut flood,
        ..
    } = world.nodes.pop().unwrap();
    flood.on_link_up(LinkIndex(0), &database);
    let first = filled(&mut flood, at(0), &database);
    assert_eq!(
        first[0].kind,
        RecordKind::CERTIFICATE,
        "first what proves the rest"
    );
    assert_eq!(first.len(), 2);
    let mut sent = vec![0];
    for ms in 1..8_000 {
        if !filled(&mut flood, at(ms), &database).is_empty() {
            sent.push(ms);
        }
    }
    assert_eq!(sent, [0, 250, 750, 1_750, 3_750, 6_750]);
    let what = Origination {
        links: &[],
        strikes: 0,
        certificate_serial: 1,
        options: &[],
    };
    let newer = database
        .originate(at(8_000), what, |_| sign(node(0)))
        .unwrap();
    flood.on_record_accepted(newer, None);
    assert_eq!(filled(&mut flood, at(8_000), &database), [newer], "at once");
    flood.on_ack(at(8_030), LinkIndex(0), first[1]);
    assert!(
        !flood.is_settled(),
        "an old acknowledgement is none for the new edition"
    );
    flood.on_ack(at(8_030), LinkIndex(0), newer);
    flood.on_ack(at(8_030), LinkIndex(0), first[0]);
    assert!(flood.is_settled());
    assert_eq!(flood.next_timeout(), None);
}

#[test]
fn a_neighbour_that_makes_sessions_again_and_again_is_told_all_once_a_minute() {
    let mut database = Database::new(node(0));
    let own = certificate(node(0), 1);
    let key = database.insert_certificate(at(0), 0, &own);
    let key = key.unwrap().unwrap();
    let (mut flood, link) = (Flood::new(), LinkIndex(0));
    flood.on_session_again(at(0), link, &database);
    assert!(flood.is_settled(), "nothing was said over it yet");
    flood.on_link_up(link, &database);
    let mut told = 0;
    for s in 0..120 {
        let now = at(s * 1_000);
        flood.on_session_again(now, link, &database);
        told += filled(&mut flood, now, &database).len();
        flood.on_ack(now, link, key);
    }
    assert_eq!(told, 2);
}

#[test]
fn the_window_bounds_what_is_unacknowledged() {
    let mut database = Database::new(node(0));
    for n in 1..400 {
        database
            .insert_certificate(at(0), 0, &certificate(node(n), 1))
            .unwrap();
    }
    let mut flood = Flood::new();
    flood.on_link_up(LinkIndex(0), &database);
    let mut sent = Vec::new();
    loop {
        let keys = filled(&mut flood, at(0), &database);
        if keys.is_empty() {
            break;
        }
        sent.extend(keys);
    }
    let (_, record) = database.record(at(0), Name::of(sent[0])).unwrap();
    assert!(sent.len() * record.len() <= WINDOW_BYTES);
    assert!((sent.len() + 1) * record.len() > WINDOW_BYTES);
    flood.on_ack(at(30), LinkIndex(0), sent[0]);
    assert_eq!(
        filled(&mut flood, at(30), &database).len(),
        1,
        "room for one more"
    );
}
