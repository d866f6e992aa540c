//! One node and a script. The tests check what it answers, what it refuses, and what it does not let other nodes do.

use base::{Duration, NodeAddr, Time};
use scribe::{Config, Dropped, Event, Id, Outlet, Scribe, Settings};
use std::collections::BTreeSet;
use wire::scribe::{
    ADDRESSES_MAX, Addresses, BeatFlags, Digest, Enter, Hops, MESSAGE_BYTES_MAX, Message, Refusal,
};

const OWN: NodeAddr = NodeAddr(0x0a07_0001);

fn node_addr(n: u32) -> NodeAddr {
    NodeAddr(0x0a07_0000 + n)
}

fn group(n: u32) -> NodeAddr {
    NodeAddr(0xe100_0000 + n)
}

#[derive(Default)]
struct Outside {
    sent: Vec<(NodeAddr, Vec<u8>)>,
    branches: Vec<(NodeAddr, Option<NodeAddr>, Vec<NodeAddr>, bool)>,
    events: Vec<Event>,
    roots: Vec<(NodeAddr, NodeAddr)>,
}

impl Outlet for Outside {
    fn send(&mut self, to: NodeAddr, bytes: &[u8]) {
        self.sent.push((to, bytes.to_vec()));
    }
    fn branches(
        &mut self,
        group: NodeAddr,
        parent: Option<NodeAddr>,
        children: &[NodeAddr],
        is_member: bool,
    ) {
        self.branches
            .push((group, parent, children.to_vec(), is_member));
    }
    fn root(&mut self, group: NodeAddr, root: NodeAddr) {
        self.roots.push((group, root));
    }
    fn proximity_us(&self, _: NodeAddr) -> Option<u32> {
        Some(5_000)
    }
    fn report(&mut self, event: Event) {
        self.events.push(event);
    }
}

impl Outside {
    /// Returns how many messages of a kind were sent, and the addresses in them.
    fn take(&mut self, kind: u8) -> (usize, Vec<NodeAddr>) {
        let mut listed = Vec::new();
        let mut count = 0;
        for (_, bytes) in self.sent.drain(..) {
            let message = Message::parse(&bytes).expect("it was said by a node");
            if message.kind() != kind {
                continue;
            }
            count += 1;
            match message {
                Message::Join(groups)
                | Message::Accept(groups)
                | Message::Leave(groups)
                | Message::Root(groups)
                | Message::Refuse { groups, .. }
                | Message::Groups { groups, .. } => listed.extend(groups.iter()),
                _ => {}
            }
        }
        (count, listed)
    }

    fn drops(&mut self) -> Vec<Dropped> {
        let drops = self.events.drain(..).filter_map(|event| match event {
            Event::Dropped { reason, .. } => Some(reason),
            _ => None,
        });
        drops.collect()
    }
}

/// A node, the world around it, and the time.
struct Script {
    node: Scribe,
    out: Outside,
    now: Time,
}

impl Script {
    fn new(settings: Settings, leaves: u32) -> Script {
        let mut script = Script {
            node: Scribe::new(Config {
                own: OWN,
                seed: 7,
                settings,
            }),
            out: Outside::default(),
            now: Time::ZERO + Duration::from_secs(1),
        };
        for n in 2..2 + leaves {
            script.beat(node_addr(n));
        }
        script.out.sent.clear();
        script
    }

    fn hear(&mut self, from: NodeAddr, message: &Message<'_>) {
        let mut buffer = [0; MESSAGE_BYTES_MAX];
        let len = message.emit(&mut buffer).expect("it fits");
        self.node
            .on_message(self.now, from, &buffer[..len], &mut self.out);
    }

    fn beat(&mut self, from: NodeAddr) {
        let beat = Message::Beat {
            flags: BeatFlags::default(),
            nodes: Addresses::new(&[]),
        };
        self.hear(from, &beat);
    }

    fn wait(&mut self, ms: u64) {
        let end = self.now + Duration::from_millis(ms);
        while let Some((at, _)) = self.node.next_timeout()
            && at <= end
        {
            self.now = self.now.max(at);
            self.node.on_timeout(self.now, &mut self.out);
        }
        self.now = end;
    }

    /// Returns groups whose id is closer to this node than to a child.
    fn groups_under(&self, child: NodeAddr, count: usize) -> Vec<NodeAddr> {
        let closer = |group: &NodeAddr| {
            let key = Id::of_group(*group);
            key.closer(Id::of_node(OWN), Id::of_node(child)).is_lt()
        };
        (0..).map(group).filter(closer).take(count).collect()
    }

    fn join_from(&mut self, child: NodeAddr, groups: &[NodeAddr]) {
        for page in groups.chunks(ADDRESSES_MAX) {
            self.hear(child, &Message::Join(Addresses::new(page)));
        }
    }
}

#[test]
fn a_million_joins_are_refused_beyond_the_limit_with_a_reason() {
    let settings = Settings {
        groups_per_child_max: 5_000,
        groups_max: 8_000,
        ..Settings::default()
    };
    let mut script = Script::new(settings, 0);
    let (a, b) = (node_addr(9), node_addr(10));
    let many = script.groups_under(a, 1_000_000);
    let mut refused = 0;
    for page in many.chunks(50 * ADDRESSES_MAX) {
        script.join_from(a, page);
        refused += script.out.take(wire::scribe::kind::REFUSE).1.len();
        script.out.branches.clear();
    }
    assert_eq!((script.node.group_count(), refused), (5_000, 995_000));
    // Another child gets what is left of the node's own limit.
    let others = script.groups_under(b, 1_010_000);
    let rest: Vec<NodeAddr> = others
        .into_iter()
        .filter(|g| g.0 > many[999_999].0)
        .take(5_000)
        .collect();
    script.join_from(b, &rest);
    assert_eq!(script.node.group_count(), 8_000);
    assert!(
        script
            .node
            .join(script.now, group(u32::MAX >> 8), &mut script.out)
            .is_err()
    );
    assert!(script.node.stats().refused >= 995_000 + 2_000);
}

#[test]
fn edges_against_the_order_and_nonsense_are_refused() {
    let mut script = Script::new(Settings::default(), 0);
    let child = node_addr(9);
    let good = script.groups_under(child, 5);
    let bad: Vec<NodeAddr> = (0..40)
        .map(group)
        .filter(|g| !good.contains(g))
        .take(5)
        .collect();
    let is_bad = |g: &NodeAddr| {
        Id::of_group(*g)
            .closer(Id::of_node(child), Id::of_node(OWN))
            .is_lt()
    };
    let bad: Vec<NodeAddr> = bad.into_iter().filter(is_bad).collect();
    assert!(!bad.is_empty());
    let all = [&good[..], &bad, &[node_addr(3)]].concat();
    script.join_from(child, &all);
    assert_eq!(
        script.out.take(wire::scribe::kind::ACCEPT),
        (1, good.clone())
    );
    script.join_from(child, &all);
    assert_eq!(script.out.take(wire::scribe::kind::REFUSE).0, 2);
    assert_eq!(script.node.group_count(), good.len());
    // The digest does not admit bad groups either.
    let groups = bad
        .iter()
        .copied()
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect::<Vec<_>>();
    let page = Message::Groups {
        first: NodeAddr(0),
        last: NodeAddr(u32::MAX),
        groups: Addresses::new(&groups),
    };
    script.hear(child, &page);
    assert_eq!(
        script.node.group_count(),
        0,
        "and what is not listed is no longer there"
    );
}

#[test]
fn a_full_node_hands_newcomers_to_a_closer_child() {
    let settings = Settings {
        children_max: 4,
        ..Settings::default()
    };
    let mut script = Script::new(settings, 0);
    let own = script.node.id();
    let g = (0..1_000)
        .map(group)
        .min_by_key(|g| own.distance(Id::of_group(*g)))
        .expect("there are groups");
    let key = Id::of_group(g);
    // This node is the root: all other nodes are farther.
    let mut others: Vec<NodeAddr> = (2..400)
        .map(node_addr)
        .filter(|a| key.closer(script.node.id(), Id::of_node(*a)).is_lt())
        .collect();
    others.sort_by(|a, b| key.closer(Id::of_node(*a), Id::of_node(*b)));
    let (near, far) = (&others[..4], &others[others.len() - 6..]);
    for child in near {
        script.join_from(*child, &[g]);
    }
    script.out.sent.clear();
    let mut given = BTreeSet::new();
    for newcomer in far {
        script.join_from(*newcomer, &[g]);
        let (to, bytes) = script.out.sent.pop().expect("an answer");
        assert_eq!(to, *newcomer);
        match Message::parse(&bytes) {
            Ok(Message::Refuse {
                reason: Refusal::Full,
                instead: Some(instead),
                ..
            }) => {
                assert!(near.contains(&instead));
                given.insert(instead);
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(given.len() > 1, "newcomers are spread");
    // A newcomer that is closer than every child has no other parent.
    let mut closest = Script::new(settings, 0);
    for child in far.iter().take(4) {
        closest.join_from(*child, &[g]);
    }
    closest.join_from(near[0], &[g]);
    assert_eq!(closest.node.children(g).len(), 5);
}

#[test]
fn a_refused_child_goes_where_it_is_sent_if_that_is_closer() {
    let mut script = Script::new(Settings::default(), 30);
    let (g, parent) = (0..)
        .map(group)
        .find_map(|g| Some((g, script.node.next_hop(Id::of_group(g))?)))
        .expect("some root is elsewhere");
    script
        .node
        .join(script.now, g, &mut script.out)
        .expect("it is a group");
    assert_eq!(script.out.take(wire::scribe::kind::JOIN), (1, vec![g]));
    let key = Id::of_group(g);
    let sent_to = |script: &mut Script, instead: NodeAddr| {
        let groups = [g];
        let refuse = Message::Refuse {
            reason: Refusal::Full,
            instead: Some(instead),
            groups: Addresses::new(&groups),
        };
        let by = script.node.parent(g).expect("a parent");
        script.hear(by, &refuse);
        script.node.parent(g)
    };
    let order = |a: NodeAddr| key.closer(Id::of_node(a), Id::of_node(OWN));
    let farther = (100..)
        .map(node_addr)
        .find(|a| order(*a).is_gt())
        .expect("half of all");
    // If a refusal names no acceptable node, the closest of the other known nodes is used, if there is one.
    let is_better = |a: &NodeAddr| order(*a).is_lt() && *a != parent;
    let known: BTreeSet<NodeAddr> = (2..32).map(node_addr).filter(is_better).collect();
    let next = sent_to(&mut script, farther).expect("a parent");
    assert!(known.contains(&next) || known.is_empty() && next == parent);
    let next = sent_to(&mut script, OWN).expect("a parent");
    assert!(order(next).is_lt());
    let closer = (100..)
        .map(node_addr)
        .find(|a| order(*a).is_lt())
        .expect("half of all");
    script.wait(5);
    script.out.sent.clear();
    assert_eq!(sent_to(&mut script, closer), Some(closer));
    script.wait(5);
    assert_eq!(script.out.take(wire::scribe::kind::JOIN), (1, vec![g]));
}

#[test]
fn whoever_is_refused_by_all_pauses_and_is_taken_when_there_is_room() {
    let mut script = Script::new(Settings::default(), 30);
    let closer = |g: &NodeAddr| {
        let key = Id::of_group(*g);
        let order = |n: &u32| key.closer(Id::of_node(node_addr(*n)), Id::of_node(OWN));
        (2..32u32).filter(|n| order(n).is_lt()).count()
    };
    let g = (0..).map(group).find(|g| (2..6).contains(&closer(g)));
    let g = g.expect("a group with some that are closer");
    script
        .node
        .join(script.now, g, &mut script.out)
        .expect("it is a group");
    let groups = [g];
    let refuse = Message::Refuse {
        reason: Refusal::Capacity,
        instead: None,
        groups: Addresses::new(&groups),
    };
    let mut asked = BTreeSet::new();
    let last = loop {
        let by = script.node.parent(g).expect("a parent");
        if !asked.insert(by) {
            break by;
        }
        script.hear(by, &refuse);
        script.wait(3);
    };
    assert!(asked.len() >= 2 && asked.len() <= closer(&g), "{asked:?}");
    let why = script.node.refusal(g);
    assert_eq!(why.map(|(_, reason)| reason), Some(Refusal::Capacity));
    script.out.sent.clear();
    script.wait(20);
    assert_eq!(script.out.take(wire::scribe::kind::JOIN).0, 0, "a pause");
    script.wait(2_500);
    assert!(script.out.take(wire::scribe::kind::JOIN).0 > 0, "and again");
    script.hear(last, &Message::Accept(Addresses::new(&groups)));
    assert_eq!(script.node.refusal(g), None);
    assert_eq!(
        (script.node.parent(g), script.node.pending_count()),
        (Some(last), 0)
    );
}

#[test]
fn unanswered_joins_are_repeated_and_then_another_parent_is_asked() {
    let mut script = Script::new(Settings::default(), 30);
    let g = (0..)
        .map(group)
        .find(|g| script.node.next_hop(Id::of_group(*g)).is_some())
        .expect("one");
    script
        .node
        .join(script.now, g, &mut script.out)
        .expect("it is a group");
    let first = script.node.parent(g).expect("a parent");
    script.wait(200);
    let (joins, _) = script.out.take(wire::scribe::kind::JOIN);
    assert!((2..=4).contains(&joins), "{joins} joins in 200 ms");
    for _ in 0..8 {
        // The other nodes live, the parent is silent.
        script.wait(400);
        for n in (2..32).map(node_addr).filter(|a| *a != first) {
            script.beat(n);
        }
    }
    assert_ne!(script.node.parent(g), Some(first));
    let silent = Event::PeerFailed {
        peer: first,
        why: scribe::Failure::Silent,
    };
    assert!(script.out.events.contains(&silent));
}

#[test]
fn many_joins_at_once_go_in_few_messages() {
    let mut script = Script::new(Settings::default(), 30);
    for n in 0..10_000 {
        script
            .node
            .join(script.now, group(n), &mut script.out)
            .expect("it is a group");
    }
    script.wait(3);
    let (messages, groups) = script.out.take(wire::scribe::kind::JOIN);
    assert!(groups.len() > 9_000, "{}", groups.len());
    assert!(
        messages <= 2 * 31 + 10_000 / ADDRESSES_MAX,
        "{messages} messages"
    );
}

/// A parent that has lost its state requests it: a few digests, then pages.
#[test]
fn digests_find_what_differs() {
    let mut parent = Script::new(Settings::default(), 0);
    let child = node_addr(9);
    let groups = parent.groups_under(child, 5_000);
    parent.join_from(child, &groups);
    let keep = |of: &[NodeAddr]| Digest {
        first: NodeAddr(0),
        last: NodeAddr(u32::MAX),
        count: of.len() as u32,
        digest: of.iter().fold(0, |all, g| all ^ Id::of_group(*g).0 as u64),
    };
    parent.out.sent.clear();
    parent.hear(child, &Message::Keep(keep(&groups)));
    assert_eq!(parent.out.take(wire::scribe::kind::KEPT).0, 1);
    parent.hear(child, &Message::Keep(keep(&groups[1..])));
    assert_eq!(parent.out.take(wire::scribe::kind::DIFFERS).0, 1);
    // This is a part of the range, with one group gone and one new.
    let part = Digest {
        first: groups[10],
        last: groups[100],
        ..keep(&groups[10..=100])
    };
    parent.hear(child, &Message::Keep(part));
    assert_eq!(parent.out.take(wire::scribe::kind::KEPT).0, 1);
    let page = Message::Groups {
        first: groups[10],
        last: groups[100],
        groups: Addresses::new(&groups[11..=100]),
    };
    parent.hear(child, &page);
    assert!(!parent.node.is_in_tree(groups[10]));
    assert_eq!(parent.node.group_count(), 4_999);
    let rest: Vec<NodeAddr> = groups
        .iter()
        .copied()
        .filter(|g| *g != groups[10])
        .collect();
    parent.hear(child, &Message::Keep(keep(&rest)));
    assert_eq!(parent.out.take(wire::scribe::kind::KEPT).0, 1);
    // When a child vanishes, its groups vanish, too.
    parent.wait(5_000);
    assert_eq!(parent.node.group_count(), 0);
}

#[test]
fn what_cannot_be_is_dropped_with_its_reason() {
    let mut script = Script::new(Settings::default(), 3);
    let (other, g) = (node_addr(2), [group(0)]);
    let groups = Addresses::new(&g);
    let hops_of = |count| Hops {
        count,
        another_way: false,
    };
    let enter = |joiner, hops| {
        Message::Enter(Enter {
            joiner,
            nonce: 7,
            hops: hops_of(hops),
        })
    };
    let digest = Digest {
        first: NodeAddr(0),
        last: NodeAddr(u32::MAX),
        count: 0,
        digest: 0,
    };
    let far = node_addr(99);
    let cases: [(NodeAddr, Message<'_>, Dropped); 8] = [
        (OWN, Message::AskRow { row: 0 }, Dropped::Sender),
        (group(0), Message::AskRow { row: 0 }, Dropped::Sender),
        (other, enter(node_addr(50), 0), Dropped::Address),
        (other, enter(group(1), 1), Dropped::Address),
        (other, enter(node_addr(50), 64), Dropped::Hops),
        (
            other,
            Message::State {
                nonce: 9,
                last: true,
                nodes: Addresses::new(&[]),
            },
            Dropped::Stale,
        ),
        (
            other,
            Message::Locate {
                asker: g[0],
                hops: hops_of(0),
                groups,
            },
            Dropped::Address,
        ),
        (far, Message::Kept(digest), Dropped::Stale),
    ];
    for (from, message, reason) in cases {
        script.hear(from, &message);
        assert_eq!(script.out.drops(), [reason], "{message:?}");
    }
    script
        .node
        .on_message(script.now, other, &[9, 9], &mut script.out);
    assert!(matches!(script.out.drops()[..], [Dropped::Malformed(_)]));
    assert_eq!(script.node.stats().dropped(), 9);
    assert_eq!(script.node.group_count(), 0);
    // A node that is entering does not answer nodes that search for a parent.
    script.node.enter(script.now, other, &mut script.out);
    script.hear(far, &Message::Join(groups));
    assert_eq!(script.out.drops(), [Dropped::Outside]);
}

#[test]
fn digests_cost_their_sender_and_not_the_node() {
    let mut script = Script::new(Settings::default(), 0);
    let child = node_addr(9);
    let groups = script.groups_under(child, 20_000);
    script.join_from(child, &groups);
    script.out.events.clear();
    let nearly_all = Digest {
        first: NodeAddr(1),
        last: NodeAddr(u32::MAX),
        count: 1,
        digest: 1,
    };
    for _ in 0..200 {
        script.hear(child, &Message::Keep(nearly_all));
    }
    let drops = script.out.drops();
    assert!(
        drops.len() > 100 && drops.iter().all(|d| *d == Dropped::Flood),
        "{}",
        drops.len()
    );
}

#[test]
fn silent_nodes_of_which_others_keep_telling_do_not_keep_a_newcomer_out() {
    let mut script = Script::new(Settings::default(), 0);
    let via = node_addr(2);
    let silent = [node_addr(3), node_addr(4)];
    script.node.enter(script.now, via, &mut script.out);
    let asked = script.out.sent.iter().find_map(|(_, bytes)| {
        match Message::parse(bytes).expect("it was said by a node") {
            Message::Enter(enter) => Some(enter.nonce),
            _ => None,
        }
    });
    let state = Message::State {
        nonce: asked.expect("it asks for its way"),
        last: true,
        nodes: Addresses::new(&silent[..1]),
    };
    script.hear(via, &state);
    // Three questions to each node take 1.4 s, and the second node is asked while the first questions go on. Meanwhile
    // and afterwards, the node that answers reports both ten times a second.
    for round in 0..30 {
        let told = if round < 7 { &silent[..1] } else { &silent };
        let beat = Message::Beat {
            flags: BeatFlags::default(),
            nodes: Addresses::new(told),
        };
        script.hear(via, &beat);
        script.wait(100);
    }
    assert!(script.node.is_in_ring());
    assert_eq!(script.node.leaves().collect::<Vec<_>>(), [via]);
}
