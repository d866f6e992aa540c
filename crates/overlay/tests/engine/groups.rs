//! Multicast and anycast in worlds of nodes. Each member gets each packet at most once, whatever happens, and exactly
//! once if nothing goes wrong. `--nocapture` shows what was measured.
#![allow(
    clippy::disallowed_macros,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test that shows what it measured"
)]

use crate::world::groups::{Cast, GROUP, MEMBER, SOURCE};
use crate::world::neighbour::records;
use crate::world::script::{EAST, Script, WEST};
use crate::world::{Nodes, PORT, Plan, addr, chain, voice};
use base::{ClientId, Duration, NodeAddr, Rng, Time};
use overlay::event::Drop;
use overlay::request::{Delivery, Operation, Options, RequestError};
use overlay::sockets::default_options;
use overlay::{Reply, Request};
use wire::data::LinkProtocol;
use wire::groups::{Setting, TreeBuilder, Ways};

/// The tree of [Brogle09 §III]: depth four, leaves 0 (the source's side), 3, 5 and 6.
const TREE: [(usize, usize); 6] = [(0, 1), (1, 2), (2, 3), (1, 4), (2, 5), (4, 6)];

fn settled(seed: u64, count: usize, edges: &[(usize, usize)], path: &str) -> Nodes {
    let mut nodes = Nodes::new(seed, count, edges, path);
    nodes.run_ms(3_000);
    nodes.arrivals();
    nodes
}

/// Node 0 sends a packet, and with it the key of the group. Packets that are forwarded later can then be counted
/// without the key.
fn tell_keys(nodes: &mut Nodes) {
    let now = nodes.world.now();
    nodes.set_sender(0, SOURCE, voice());
    nodes.send_to_addr(now, 0, SOURCE, (GROUP, PORT), 0, 160);
    nodes.run_ms(500);
    nodes.arrivals();
}

#[test]
fn members_get_each_packet_once_and_others_none() {
    for link in [
        LinkProtocol::BestEffort,
        LinkProtocol::RealTime,
        LinkProtocol::Reliable,
    ] {
        let mut nodes = settled(1, 7, &TREE, "delay=10ms");
        for member in [3, 5, 6] {
            nodes.join(member, GROUP);
        }
        nodes.run_ms(200);
        tell_keys(&mut nodes);
        let mut options = voice();
        options.class.link = link;
        let before = nodes.count().forwarded;
        // A sender need not be a member.
        let mut cast = Cast::new(0, 5, options);
        cast.run_ms(&mut nodes, 1_000);
        cast.finish(&mut nodes);
        assert_eq!(cast.doubles(), 0);
        for i in 0..7 {
            let is_member = [3, 5, 6].contains(&i);
            let (got, _) = cast.got(i, Time::ZERO, Time::FAR);
            assert_eq!(got, if is_member { 200 } else { 0 }, "{link:?} {i}");
        }
        // Each of the 200 packets is forwarded once over five links of the tree, and over no other link.
        let forwarded = nodes.count().forwarded - before;
        assert_eq!(forwarded, 200 * 5, "{link:?}");
        nodes.world.close().unwrap();
    }
}

#[test]
fn the_branch_to_the_farthest_member_is_served_first() {
    // If the links were in order of address, node 1, which is near, would be before node 2 with node 4 behind it.
    let edges = [(0, 1), (0, 2), (0, 3), (2, 4)];
    let mut nodes = settled(4, 5, &edges, "delay=10ms");
    for member in [1, 3, 4] {
        nodes.join(member, GROUP);
    }
    nodes.run_ms(200);
    let mut cast = Cast::new(0, 5, voice());
    cast.run_ms(&mut nodes, 100);
    cast.finish(&mut nodes);
    let now = nodes.world.now();
    let told = nodes.running(0).unwrap().group_statuses(now, Some(GROUP));
    let branches = &told[0].sources[0].branches;
    let at = |i: usize| {
        branches
            .iter()
            .position(|branch| *branch == addr(i).to_string())
    };
    assert_eq!(branches.len(), 3);
    assert_eq!(at(2), Some(0), "{branches:?}");
}

#[test]
fn a_join_takes_effect_at_once_and_a_leave_within_a_second() {
    let mut nodes = settled(2, 5, &chain(5), "delay=10ms");
    let mut cast = Cast::new(0, 5, voice());
    cast.run_ms(&mut nodes, 500);
    let joined = nodes.world.now();
    nodes.join(4, GROUP);
    cast.run_ms(&mut nodes, 1_000);
    let first = cast.arrivals(4)[0];
    let left = nodes.world.now();
    nodes.leave(4, GROUP);
    let forwarded = nodes.count().forwarded;
    cast.run_ms(&mut nodes, 1_000);
    let quiet = nodes.count().forwarded;
    cast.run_ms(&mut nodes, 1_000);
    cast.finish(&mut nodes);
    let after = first.since(joined);
    println!("join to first packet over four hops of 10 ms: {after}");
    assert!(after < Duration::from_millis(200 + 40));
    assert!(quiet > forwarded, "the branch ends after the leave");
    assert_eq!(nodes.count().forwarded, quiet, "within a second");
    let last = *cast.arrivals(4).last().unwrap();
    assert!(last <= left + Duration::from_millis(1), "{last}");
    assert_eq!(cast.doubles(), 0);
}

#[test]
fn losses_on_a_middle_link_are_repaired_for_all_behind_it() {
    let mut nodes = settled(3, 7, &TREE, "delay=10ms");
    nodes.link(1, 2, "delay=10ms loss=1%");
    for member in [3, 5, 6] {
        nodes.join(member, GROUP);
    }
    nodes.run_ms(500);
    let options = Options {
        deadline: Some(Duration::from_millis(200)),
        ..default_options()
    };
    let mut cast = Cast::new(0, 2, options);
    cast.run_ms(&mut nodes, 40_000);
    cast.finish(&mut nodes);
    for leaf in [3, 5, 6] {
        let (got, sent) = cast.got(leaf, Time::ZERO, Time::FAR);
        let lost = 100.0 * (sent - got) as f64 / sent as f64;
        println!("leaf {leaf}: {lost:.4} % of {sent} lost behind a link that loses 1 %");
        assert!(lost <= 0.03, "leaf {leaf} lost {lost} %");
    }
    assert_eq!(cast.doubles(), 0);
}

#[test]
fn a_dead_node_of_the_tree_is_routed_around() {
    // The path from 0 to 3 leads through 1. The path through 2 is longer.
    let diamond = [(0, 1), (1, 3), (0, 2), (2, 3), (3, 4)];
    let mut worst = Duration::ZERO;
    for seed in 0..8 {
        let mut nodes = Nodes::new(seed, 5, &diamond, "delay=10ms");
        nodes.link(0, 2, "delay=13ms");
        nodes.link(2, 3, "delay=13ms");
        nodes.join(4, GROUP);
        nodes.run_ms(10_000 + 137 * seed);
        nodes.arrivals();
        let mut cast = Cast::new(0, 5, voice());
        cast.run_ms(&mut nodes, 2_000 + 29 * seed);
        nodes.crash(1);
        cast.run_ms(&mut nodes, 5_000);
        cast.finish(&mut nodes);
        worst = worst.max(cast.longest_gap(4));
        assert_eq!(cast.doubles(), 0);
        let after = cast.sent[cast.sent.len() - 400];
        assert_eq!(cast.got(4, after, Time::FAR), (400, 400));
    }
    println!("longest gap after the death of an inner node: {worst}");
    assert!(worst < Duration::from_secs(1));
}

#[test]
fn a_tree_that_moves_does_not_lose_what_is_under_way() {
    let square = [(0, 1), (1, 3), (0, 2), (2, 3)];
    let mut nodes = Nodes::new(5, 4, &square, "delay=10ms");
    nodes.link(0, 2, "delay=13ms");
    nodes.link(2, 3, "delay=13ms");
    nodes.join(3, GROUP);
    nodes.run_ms(5_000);
    nodes.arrivals();
    let mut cast = Cast::new(0, 2, voice());
    cast.run_ms(&mut nodes, 2_000);
    // The path through 1 becomes the longer one, but loses nothing.
    nodes.link(0, 1, "delay=30ms");
    cast.run_ms(&mut nodes, 40_000);
    cast.finish(&mut nodes);
    assert!(!nodes.count().route_changes.is_empty());
    let (got, sent) = cast.got(3, Time::ZERO, Time::FAR);
    assert_eq!((got, cast.doubles()), (sent, 0));
}

#[test]
fn a_node_that_starts_again_is_in_no_group_of_before() {
    let mut nodes = settled(6, 3, &chain(3), "delay=5ms");
    nodes.join(2, GROUP);
    nodes.run_ms(500);
    let told = |nodes: &Nodes| {
        let node = nodes.running(0).unwrap();
        node.database().membership().members(GROUP).count()
    };
    assert_eq!(told(&nodes), 1);
    nodes.crash(2);
    nodes.run_ms(2_000);
    nodes.restart(2);
    nodes.run_ms(3_000);
    assert_eq!(told(&nodes), 0);
    nodes.join(2, GROUP);
    nodes.run_ms(500);
    assert_eq!(told(&nodes), 1);
}

#[test]
fn clients_of_one_node_share_a_group_and_leave_one_by_one() {
    let mut nodes = settled(7, 2, &chain(2), "delay=5ms");
    let (group, port) = (GROUP, PORT);
    let clients = [MEMBER, crate::world::RECEIVER, crate::world::SENDER];
    for client in clients {
        nodes.request(1, client, Request::Join { group, port });
        nodes.request(1, client, Request::Join { group, port });
    }
    let mut gone = Vec::new();
    for (round, leaver) in clients.into_iter().enumerate() {
        nodes.run_ms(500);
        nodes.world.take_replies();
        nodes.send_to_addr(
            nodes.world.now(),
            0,
            SOURCE,
            (group, port),
            round as u64,
            100,
        );
        nodes.run_ms(500);
        let replies = nodes.world.take_replies();
        let came = replies
            .iter()
            .filter(|a| matches!(a.reply, Reply::Datagram { .. }));
        let mut came: Vec<_> = came.map(|answer| answer.client).collect();
        came.sort_unstable();
        let mut expected: Vec<_> = clients.into_iter().filter(|c| !gone.contains(c)).collect();
        expected.sort_unstable();
        assert_eq!(came, expected);
        match round {
            0 => nodes.request(1, leaver, Request::Leave { group, port }),
            _ => nodes.request(1, leaver, Request::Close),
        }
        gone.push(leaver);
    }
    nodes.run_ms(500);
    let node = nodes.running(0).unwrap();
    assert_eq!(node.database().membership().members(GROUP).count(), 0);
}

#[test]
fn a_sender_that_is_a_member_does_not_hear_itself() {
    let mut nodes = settled(8, 2, &chain(2), "delay=5ms");
    nodes.join(0, GROUP);
    nodes.join(1, GROUP);
    let (group, port) = (GROUP, PORT);
    nodes.request(0, SOURCE, Request::Join { group, port });
    nodes.run_ms(500);
    nodes.world.take_replies();
    let mut cast = Cast::new(0, 5, voice());
    cast.run_ms(&mut nodes, 100);
    cast.finish(&mut nodes);
    // The other client of the same node receives the packets, and so does the other node.
    assert_eq!((cast.doubles(), cast.came.len()), (0, 40));
}

#[test]
fn long_datagrams_reach_all_members_whole_and_in_order() {
    let mut nodes = settled(9, 7, &TREE, "delay=10ms loss=0.5%");
    let options = Options {
        deadline: Some(Duration::from_millis(500)),
        delivery: Delivery::InOrder,
        ..default_options()
    };
    for member in [3, 5, 6] {
        nodes.request(member, MEMBER, Request::Options(options));
        nodes.join(member, GROUP);
    }
    nodes.request(0, SOURCE, Request::Options(options));
    nodes.run_ms(500);
    nodes.world.take_replies();
    for number in 0..100u64 {
        let at = nodes.world.now();
        nodes.send_to_addr(at, 0, SOURCE, (GROUP, PORT), number, 9_000);
        nodes.run_ms(10);
    }
    nodes.run_ms(2_000);
    let mut last = [None; 7];
    let mut count = 0;
    for answer in nodes.world.take_replies() {
        if let Reply::Datagram { payload, .. } = answer.reply {
            assert_eq!(payload.len(), 9_000);
            let (number, _) = crate::world::read(payload.bytes());
            let last = &mut last[answer.host.place()];
            assert!(last.is_none_or(|last| last < number), "in order");
            *last = Some(number);
            count += 1;
        }
    }
    assert!(count >= 295, "{count} of 300");
}

#[test]
fn anycast_goes_to_the_nearest_member() {
    const ANY: NodeAddr = NodeAddr(0xf000_0007);
    let mut nodes = settled(10, 5, &chain(5), "delay=10ms");
    nodes.join(0, ANY);
    nodes.join(4, ANY);
    nodes.run_ms(500);
    let ask = |nodes: &mut Nodes, from: usize| -> Vec<usize> {
        nodes.world.take_replies();
        nodes.send_to_addr(nodes.world.now(), from, SOURCE, (ANY, PORT), 1, 100);
        nodes.run_ms(500);
        let replies = nodes.world.take_replies();
        let came = replies
            .iter()
            .filter(|a| matches!(a.reply, Reply::Datagram { .. }));
        came.map(|answer| answer.host.place()).collect()
    };
    assert_eq!(ask(&mut nodes, 1), [0]);
    assert_eq!(ask(&mut nodes, 3), [4]);
    assert_eq!(ask(&mut nodes, 4), [4]);
    nodes.leave(4, ANY);
    nodes.run_ms(200);
    assert_eq!(ask(&mut nodes, 3), [0]);
    nodes.leave(0, ANY);
    nodes.run_ms(200);
    assert_eq!(ask(&mut nodes, 3), [0usize; 0]);
}

#[test]
fn joins_are_bounded_and_refused_in_words() {
    let mut nodes = settled(11, 2, &chain(2), "delay=5ms");
    let port = PORT;
    for i in 0..2_000u32 {
        let group = NodeAddr(0xef02_0000 + i);
        nodes.request(0, MEMBER, Request::Join { group, port });
    }
    // One client cannot use up all joins: a part is reserved for other clients.
    let kept = 1_953 / 8;
    let other = ClientId(77);
    for i in 0..kept + 5 {
        let group = NodeAddr(0xef03_0000 + i);
        nodes.request(0, other, Request::Join { group, port });
    }
    nodes.request(
        0,
        MEMBER,
        Request::Join {
            group: addr(1),
            port,
        },
    );
    nodes.run_ms(3_000);
    let replies = nodes.world.take_replies();
    let refused = replies
        .iter()
        .filter(|a| matches!(a.reply, Reply::NotJoined { .. }));
    let of = |client| refused.clone().filter(|a| a.client == client).count();
    assert_eq!(of(MEMBER), 2_000 - (1_953 - kept as usize) + 1);
    assert_eq!(of(other), 5);
    let node = nodes.running(1).unwrap();
    assert_eq!(node.database().membership().groups().count(), 1_953);
}

#[test]
fn the_source_s_node_knows_what_each_receiver_lost() {
    let mut nodes = settled(12, 7, &TREE, "delay=10ms");
    nodes.link(2, 3, "delay=10ms loss=5%");
    for member in [3, 5, 6] {
        nodes.join(member, GROUP);
    }
    nodes.run_ms(500);
    let mut cast = Cast::new(0, 4, voice());
    cast.run_ms(&mut nodes, 12_000);
    let now = nodes.world.now();
    let status = |i: usize| nodes.running(i).unwrap().group_statuses(now, Some(GROUP));
    let [group] = status(0).try_into().unwrap();
    assert_eq!(
        (group.members.len(), group.tree.as_str()),
        (3, "link-state")
    );
    let [source] = group.sources.try_into().unwrap();
    assert_eq!((source.upstream, source.receivers), (None, 3));
    assert_eq!((source.branches.len(), source.links.len()), (1, 6));
    assert_eq!(source.receptions.len(), 3);
    for one in &source.receptions {
        let sent = one.received + one.lost;
        assert!((2_000..=3_000).contains(&sent), "{one:?}");
        let behind = one.node == addr(3).to_string();
        let (low, high) = if behind { (3.0, 8.0) } else { (0.0, 0.0) };
        assert!((low..=high).contains(&one.lost_before_pct), "{one:?}");
        assert!(one.lost_after_pct < 0.2, "{one:?}");
    }
    // A node in the middle of the tree knows only the members below it.
    let [group] = status(4).try_into().unwrap();
    assert_eq!(group.sources[0].receivers, 1);
    assert_eq!(group.sources[0].upstream, Some(addr(1).to_string()));
}

#[test]
fn a_group_that_does_not_fit_is_refused_with_the_link_and_the_numbers() {
    let mut plan = Plan::of(3);
    (plan.edges, plan.capacity_kbps) = (chain(3), 20_000);
    let mut nodes = Nodes::planned(13, plan);
    nodes.link(0, 1, "delay=10ms");
    nodes.link(1, 2, "delay=10ms");
    nodes.join(2, GROUP);
    let other = NodeAddr(0xef01_0204);
    nodes.join(1, other);
    nodes.run_ms(3_000);
    let setting = |group, rate_kbps, deadline_ms| Setting {
        group,
        prefix: 32,
        version: 0,
        tree: TreeBuilder::LinkState,
        class: default_options().class,
        deadline_ms,
        rate_kbps,
        ways: Ways::Auto,
        delivery: None,
        aim: Default::default(),
    };
    let judge = |nodes: &Nodes, setting| nodes.running(0).unwrap().admission(&setting);
    assert!(judge(&nodes, setting(GROUP, 12_000, 100)).admitted);
    let late = judge(&nodes, setting(GROUP, 12_000, 15));
    assert_eq!((late.admitted, late.refusals.len()), (false, 1));
    assert!(late.refusals[0].contains("20."), "{late:?}");
    // The rate that is promised to one group is not available to another one.
    let promised = setting(other, 12_000, 0);
    let prefix = 32;
    nodes.operate(
        0,
        Operation::SetGroup {
            group: other,
            prefix,
            setting: Some(promised),
        },
    );
    nodes.run_ms(500);
    let full = judge(&nodes, setting(GROUP, 12_000, 0));
    assert_eq!(
        full.refusals,
        [
            "the link n0 > n1 has 20000 kbit/s, 12000 of them taken by other groups: 8000 are left, and 12000 are wanted"
        ]
    );
    assert!(judge(&nodes, setting(GROUP, 8_000, 0)).admitted);
    // The other nodes learn the setting, and the source obeys it: 1.6 Mbit/s are sent, 0.4 are promised.
    let low = setting(GROUP, 400, 150);
    nodes.operate(
        0,
        Operation::SetGroup {
            group: GROUP,
            prefix,
            setting: Some(low),
        },
    );
    nodes.run_ms(500);
    let heard = nodes
        .running(2)
        .unwrap()
        .database()
        .membership()
        .setting(GROUP);
    assert_eq!(
        heard.map(|s| (s.rate_kbps, s.deadline_ms)),
        Some((400, 150))
    );
    let mut cast = Cast::new(0, 1, voice());
    cast.run_ms(&mut nodes, 4_000);
    cast.finish(&mut nodes);
    let (got, sent) = cast.got(2, Time::ZERO, Time::FAR);
    let share = got as f64 * 160.0 * 8.0 / 4.0 / 400_000.0;
    assert!((0.95..1.15).contains(&share), "{got} of {sent}");
    assert!(nodes.count().drops(Drop::OverRate) > 2_000);
    nodes.operate(
        0,
        Operation::SetGroup {
            group: GROUP,
            prefix,
            setting: None,
        },
    );
    nodes.run_ms(500);
    let node = nodes.running(2).unwrap();
    assert_eq!(node.database().membership().setting(GROUP), None);
}

#[test]
fn nobody_joins_in_another_s_name() {
    let mut script = Script::new();
    let members = |script: &Script| -> Vec<NodeAddr> {
        let node = script.nodes.running(0).unwrap();
        node.database().membership().members(GROUP).collect()
    };
    let part = wire::record::RecordKind::GROUPS;
    let body = script.rogue(WEST).groups(addr(WEST), 1, &[GROUP]);
    script.say_control(WEST, &records(&[(part, &body)]));
    script.run_ms(100);
    assert_eq!(members(&script), [addr(WEST)]);
    // West says that East joins, that the node itself joins, and that East is in no group.
    for (origin, groups) in [(EAST, &[GROUP][..]), (0, &[GROUP]), (EAST, &[])] {
        let body = script.rogue(WEST).groups(addr(origin), 9, groups);
        script.say_control(WEST, &records(&[(part, &body)]));
    }
    // West's own record with the kind of another part, and with one byte changed.
    let body = script.rogue(WEST).groups(addr(WEST), 2, &[]);
    let other = wire::record::RecordKind::groups(3).unwrap();
    script.say_control(WEST, &records(&[(other, &body)]));
    let mut changed = script
        .rogue(WEST)
        .groups(addr(WEST), 3, &[NodeAddr(0xef01_0205)]);
    changed[22] = 0x03;
    script.say_control(WEST, &records(&[(part, &changed)]));
    script.run_ms(100);
    assert_eq!(members(&script), [addr(WEST)]);
    // The record in the node's own name refers to a newer certificate than the node has. It waits for that certificate,
    // so it is not counted.
    assert_eq!(script.nodes.count().records_refused, 4);
}

/// Runs a world with every kind of trouble. After the world has healed, it must deliver.
fn storm(seed: u64) {
    let mut rng = Rng::new(seed);
    let count = 5 + rng.below(5) as usize;
    let mut edges = chain(count);
    for _ in 0..rng.below(6) {
        let (a, b) = (
            rng.below(count as u64) as usize,
            rng.below(count as u64) as usize,
        );
        let edge = (a.min(b), a.max(b));
        if a != b && !edges.contains(&edge) {
            edges.push(edge);
        }
    }
    let mut nodes = settled(seed, count, &edges, "delay=7ms loss=1%");
    let from = rng.below(count as u64) as usize;
    let mut members: Vec<bool> = (0..count).map(|_| rng.below(2) == 0).collect();
    for i in (0..count).filter(|i| members[*i]) {
        nodes.join(i, GROUP);
    }
    let mut options = voice();
    options.deadline = Some(Duration::from_millis(400));
    let mut cast = Cast::new(from, 4, options);
    let mut out = Vec::new();
    for _ in 0..40 {
        match rng.below(4) {
            0 => {
                let edge = edges[rng.below(edges.len() as u64) as usize];
                nodes.set_outage(edge.0, edge.1, true);
                out.push(edge);
            }
            1 => {
                if let Some(edge) = out.pop() {
                    nodes.set_outage(edge.0, edge.1, false);
                }
            }
            _ => {
                let i = rng.below(count as u64) as usize;
                members[i] = !members[i];
                match members[i] {
                    true => nodes.join(i, GROUP),
                    false => nodes.leave(i, GROUP),
                }
            }
        }
        cast.run_ms(&mut nodes, 20 + rng.below(400));
    }
    for (a, b) in out {
        nodes.set_outage(a, b, false);
    }
    for &(a, b) in &edges {
        nodes.link(a, b, "delay=7ms");
    }
    cast.run_ms(&mut nodes, 60_000);
    let healed = nodes.world.now();
    cast.run_ms(&mut nodes, 1_000);
    cast.finish(&mut nodes);
    assert_eq!(cast.doubles(), 0, "seed {seed}: a packet came twice");
    for (i, is_member) in members.into_iter().enumerate() {
        let (got, sent) = cast.got(i, healed, Time::FAR);
        let expected = if is_member { sent } else { 0 };
        assert_eq!(got, expected, "seed {seed}: node {i}, member {is_member}");
    }
}

#[test]
fn after_any_storm_each_member_gets_each_packet_once() {
    for seed in 0..6 {
        storm(seed);
    }
}

#[test]
fn reports_that_a_client_makes_are_not_believed() {
    let mut nodes = settled(14, 2, &chain(2), "delay=5ms");
    let to = (addr(1), overlay::node::REPORTS_PORT);
    nodes.send_to_addr(nodes.world.now(), 0, SOURCE, to, 1, 100);
    nodes.run_ms(100);
    assert_eq!(nodes.count().drops(Drop::Malformed), 1);
}

/// Sets the permit of the group at node `at`.
fn permit(nodes: &mut Nodes, at: usize, send: Option<&[&str]>, receive: Option<&[&str]>) {
    let words = |words: Option<&[&str]>| {
        words.map(|words| words.iter().map(|word| (*word).to_owned()).collect())
    };
    let permit = overlay::groups::Permit {
        group: GROUP,
        prefix: 32,
        send: words(send),
        receive: words(receive),
    };
    nodes.operate(at, Operation::Permit(permit));
}

#[test]
fn who_may_not_send_is_told_so_and_stopped_where_he_enters() {
    let mut nodes = settled(5, 4, &chain(4), "delay=10ms");
    nodes.join(3, GROUP);
    permit(&mut nodes, 1, Some(&[&addr(1).to_string()]), None);
    nodes.run_ms(500);
    nodes.set_sender(0, SOURCE, voice());
    nodes.world.take_replies();
    let begin = nodes.world.now();
    let before = nodes.count().forwarded;
    for number in 0..400 {
        let at = begin + Duration::from_millis(5 * number);
        nodes.send_to_addr(at, 0, SOURCE, (GROUP, PORT), number, 160);
    }
    nodes.run_ms(3_000);
    assert_eq!(nodes.count().drops(Drop::NotPermitted), 400);
    let now = nodes.world.now();
    let status = nodes.running(0).unwrap().group_statuses(now, Some(GROUP));
    assert_eq!(status[0].refused_packets, 400);
    // Nothing left the node. Its client was told once per second.
    assert_eq!(nodes.count().forwarded, before);
    let told = nodes.world.take_replies();
    let refused = Reply::Refused(RequestError::MayNotSend { group: GROUP });
    let refusals = told
        .iter()
        .filter(|a| format!("{:?}", a.reply) == format!("{refused:?}"));
    assert_eq!(refusals.count(), 2);
    // The permit is withdrawn.
    permit(&mut nodes, 1, None, None);
    nodes.run_ms(500);
    let mut cast = Cast::new(0, 5, voice());
    cast.run_ms(&mut nodes, 1_000);
    cast.finish(&mut nodes);
    assert_eq!(cast.got(3, Time::ZERO, Time::FAR), (200, 200));
}

#[test]
fn a_node_that_does_not_obey_gets_no_farther_than_its_neighbour() {
    let mut nodes = settled(7, 4, &chain(4), "delay=10ms");
    nodes.join(3, GROUP);
    nodes.run_ms(500);
    tell_keys(&mut nodes);
    // Node 0 learns of the permit 10 ms after node 1. Until then it sends like a node that does not obey.
    permit(&mut nodes, 1, Some(&["nobody"]), None);
    let before = nodes.count().forwarded;
    let mut cast = Cast::new(0, 1, voice());
    cast.run_ms(&mut nodes, 9);
    cast.finish(&mut nodes);
    assert_eq!(cast.got(3, Time::ZERO, Time::FAR), (0, 9));
    assert_eq!(nodes.count().drops(Drop::NotPermitted), 9);
    assert_eq!(nodes.count().forwarded, before);
}

#[test]
fn who_may_not_receive_is_in_no_tree_and_is_refused_when_he_joins() {
    let mut nodes = settled(6, 7, &TREE, "delay=10ms");
    for member in [3, 5, 6] {
        nodes.join(member, GROUP);
    }
    nodes.run_ms(200);
    let may = [addr(3).to_string(), addr(5).to_string()];
    let may: Vec<&str> = may.iter().map(String::as_str).collect();
    permit(&mut nodes, 2, None, Some(&may));
    nodes.run_ms(500);
    tell_keys(&mut nodes);
    let forwarded = nodes.count().forwarded;
    let mut cast = Cast::new(0, 5, voice());
    cast.run_ms(&mut nodes, 1_000);
    cast.finish(&mut nodes);
    let got = [3, 5, 6].map(|member| cast.got(member, Time::ZERO, Time::FAR).0);
    assert_eq!(got, [200, 200, 0]);
    // The packets are forwarded after the source's own link to 1: over 1-2, 2-3 and 2-5, and not towards 6.
    assert_eq!(nodes.count().forwarded - forwarded, 200 * 3);
    let now = nodes.world.now();
    let told = nodes.running(0).unwrap().group_statuses(now, Some(GROUP));
    assert_eq!(told[0].kept_out, [addr(6).to_string()]);
    assert_eq!(told[0].permits[0].said_by, addr(2).to_string());
    // A join is refused with a clear reason.
    nodes.join(4, GROUP);
    nodes.run_ms(100);
    let refused = nodes.world.take_replies();
    let refused: Vec<_> = refused
        .iter()
        .filter_map(|arrival| match &arrival.reply {
            Reply::NotJoined { why, .. } => Some(why.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(refused.len(), 1);
    assert!(refused[0].contains("may not receive"), "{refused:?}");
}
