//! Audits of group trees: relays that swallow packets to groups, and the reaction of the source.
#![allow(clippy::unwrap_used, reason = "a test")]

use crate::ends::{Tapped, as_it_is, sealed};
use crate::world::groups::{Cast, GROUP, MEMBER, SOURCE};
use crate::world::{Nodes, PORT, Plan, addr, chain, read, voice};
use base::{Rng, Time};
use overlay::Settings;
use overlay::event::Drop;
use overlay::snapshot::GroupStatus;
use wire::data::Header;

/// Creates a path with a relay that the test drives by hand, and a longer link beside it. Node 1 is in the group.
fn tapped() -> Tapped {
    let plan = Plan {
        edges: vec![(0, 1)],
        ..sealed(2)
    };
    let mut tapped = Tapped::beside(plan, &[(0, 1, "delay=20ms")]);
    tapped.nodes.join(1, GROUP);
    tapped.run(500, &mut as_it_is);
    tapped.nodes.world.take_replies();
    tapped
}

fn is_to_group(packet: &[u8]) -> bool {
    Header::parse(packet).is_ok_and(|header| header.destination().is_multicast())
}

/// Node 0 sends to the group every 10 ms. Returns the numbers that the client of node 1 received, in order of arrival.
fn talk(
    tapped: &mut Tapped,
    (numbers, bytes): (core::ops::Range<u64>, usize),
    passes: &mut dyn FnMut(&[u8]) -> Vec<Vec<u8>>,
) -> Vec<u64> {
    tapped.nodes.set_sender(0, SOURCE, voice());
    for number in numbers {
        let now = tapped.nodes.world.now();
        let to = (GROUP, PORT);
        tapped.nodes.send_to_addr(now, 0, SOURCE, to, number, bytes);
        tapped.run(10, passes);
    }
    tapped.run(300, passes);
    let replies = tapped.nodes.world.take_replies().into_iter();
    let numbers = replies.filter_map(|answer| match answer.reply {
        overlay::Reply::Datagram { payload, .. } if answer.client == MEMBER => {
            Some(read(payload.bytes()).0)
        }
        _ => None,
    });
    numbers.collect()
}

fn status(nodes: &Nodes, at: usize) -> GroupStatus {
    let now = nodes.world.now();
    let mut all = nodes.running(at).unwrap().group_statuses(now, Some(GROUP));
    all.remove(0)
}

#[test]
fn a_relay_that_swallows_a_group_alone_is_gone_around_until_it_does_so_no_more() {
    // The share that the relay swallows, and the number of packets, at 100 per second, after which the relay must be
    // out of use: 2, 10 and 120 s.
    for (share, bar, count) in [
        (1.0, 200, 1_200),
        (0.5, 1_000, 2_000),
        (0.05, 12_000, 13_000),
    ] {
        let mut tapped = tapped();
        let mut rng = Rng::new(7);
        let mut seen = 0;
        let mut swallows = |packet: &[u8]| {
            seen += u32::from(is_to_group(packet));
            match is_to_group(packet) && seen > 100 && rng.chance(share) {
                true => Vec::new(),
                false => as_it_is(packet),
            }
        };
        let got = talk(&mut tapped, (0..count, 160), &mut swallows);
        assert!(seen > 100, "packets to the group take the relay");
        let last = (0..count).rev().find(|number| !got.contains(number));
        assert!(last.unwrap() < 100 + bar, "{share}: {last:?}");
        let mut once = got.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), got.len(), "nothing comes twice");
        let starved = status(&tapped.nodes, 0).starved;
        assert_eq!(starved.len(), 1, "{share}");
        assert_eq!(starved[0].node, addr(1).to_string());
        assert!(starved[0].packets > 100 && starved[0].lost > 0.02);
        assert_eq!(
            tapped.nodes.snapshot(0).suspects.len(),
            0,
            "what goes to one node is passed on"
        );
        // The relay carries the group again.
        let got = talk(&mut tapped, (count..count + 2_000, 160), &mut as_it_is);
        assert_eq!(got.len(), 2_000);
        assert!(status(&tapped.nodes, 0).starved.is_empty(), "{share}");
    }
}

#[test]
fn a_relay_that_swallows_all_is_gone_around_and_named() {
    let mut tapped = tapped();
    let mut seen = 0;
    let mut swallows = |packet: &[u8]| {
        seen += 1;
        match seen > 100 {
            true => Vec::new(),
            false => as_it_is(packet),
        }
    };
    let got = talk(&mut tapped, (0..1_200, 160), &mut swallows);
    let last = (0..1_200).rev().find(|number| !got.contains(number));
    assert!(last.unwrap() < 300, "{last:?}");
    assert_eq!(status(&tapped.nodes, 0).starved.len(), 1);
    let suspects = tapped.nodes.snapshot(0).suspects;
    let named: Vec<_> = suspects
        .iter()
        .map(|s| (&*s.suspect.node, &*s.path_to))
        .collect();
    let (relay, member) = (addr(2).to_string(), addr(1).to_string());
    assert_eq!(named, [(&*relay, &*member)]);
}

#[test]
fn a_copy_that_ends_at_a_member_keeps_the_packet_from_nobody_behind_it() {
    let plan = Plan {
        edges: vec![(0, 1), (1, 2)],
        ..sealed(3)
    };
    let links = [(0, 1, "delay=20ms"), (1, 2, "delay=5ms")];
    let mut tapped = Tapped::beside(plan, &links);
    for member in [1, 2] {
        tapped.nodes.join(member, GROUP);
    }
    tapped.run(500, &mut as_it_is);
    tapped.nodes.world.take_replies();
    let behind = tapped.nodes.hosts[2];
    let mut copies = 0;
    let mut ahead = |packet: &[u8]| match is_to_group(packet) {
        true => {
            copies += 1;
            let mut copy = packet.to_vec();
            Header::trusted(&mut copy[..]).set_ttl(1);
            vec![copy, packet.to_vec()]
        }
        false => as_it_is(packet),
    };
    tapped.nodes.set_sender(0, SOURCE, voice());
    for number in 0..100 {
        let now = tapped.nodes.world.now();
        tapped
            .nodes
            .send_to_addr(now, 0, SOURCE, (GROUP, PORT), number, 160);
        tapped.run(10, &mut ahead);
    }
    tapped.run(300, &mut ahead);
    assert_eq!(copies, 100, "packets to the group take the relay");
    let replies = tapped.nodes.world.take_replies().into_iter();
    let got = replies.filter(|answer| {
        let is_packet = matches!(answer.reply, overlay::Reply::Datagram { .. });
        is_packet && answer.client == MEMBER && answer.host == behind
    });
    assert_eq!(got.count(), 100);
}

#[test]
fn packets_as_long_as_one_may_be_and_longer_ones_go_alone_too() {
    for bytes in [overlay::node::MAX_PAYLOAD - wire::link::SEAL_BYTES, 4_000] {
        let mut tapped = tapped();
        let mut on_tree = 0;
        let mut swallows = |packet: &[u8]| match is_to_group(packet) {
            true => {
                on_tree += 1;
                Vec::new()
            }
            false => as_it_is(packet),
        };
        let got = talk(&mut tapped, (0..600, bytes), &mut swallows);
        let each = bytes.div_ceil(overlay::node::MAX_PAYLOAD) as u64;
        assert_eq!(on_tree, 600 * each, "copies for one cost others nothing");
        let last = (0..600).rev().find(|number| !got.contains(number));
        // A member that has just joined is not judged for a second.
        assert!(last.unwrap() < 300, "{bytes}: {last:?}");
    }
}

/// Creates a source, a relay, and two members behind it.
fn chained() -> Nodes {
    let plan = Plan {
        edges: chain(4),
        ..sealed(4)
    };
    let mut nodes = Nodes::planned(3, plan);
    for (a, b) in chain(4) {
        nodes.link(a, b, "delay=5ms");
    }
    nodes
}

#[test]
fn members_behind_relays_are_asked_twice_a_second_and_others_are_not() {
    let mut nodes = chained();
    nodes.run_ms(3_000);
    for member in [1, 2, 3] {
        nodes.join(member, GROUP);
    }
    nodes.run_ms(2_000);
    nodes.arrivals();
    let sealed = |nodes: &Nodes, to: usize| crate::ends::end(nodes, 0, to).sealed;
    let before = [1, 2, 3].map(|to| sealed(&nodes, to));
    let mut cast = Cast::new(0, 10, voice());
    cast.run_ms(&mut nodes, 20_000);
    cast.finish(&mut nodes);
    let after = [1, 2, 3].map(|to| sealed(&nodes, to));
    let asked = [0, 1, 2].map(|i| after[i] - before[i]);
    // Node 1 is not asked. The one packet to it is the key.
    assert_eq!(asked[0], 1, "{asked:?}");
    assert!(
        asked[1..].iter().all(|asked| (35..=43).contains(asked)),
        "{asked:?}"
    );
    assert_eq!(cast.got(3, Time::ZERO, Time::FAR), (2_000, 2_000));
    assert_eq!(nodes.count().drops(Drop::Duplicate), 0);
}

#[test]
fn a_member_that_does_not_answer_is_neither_asked_nor_judged() {
    let mut nodes = chained();
    nodes.set_settings(Settings {
        audit: false,
        ..Settings::modern()
    });
    nodes.restart(2);
    nodes.run_ms(5_000);
    nodes.join(2, GROUP);
    nodes.run_ms(500);
    nodes.arrivals();
    let before = crate::ends::end(&nodes, 0, 2).sealed;
    let mut cast = Cast::new(0, 10, voice());
    cast.run_ms(&mut nodes, 10_000);
    cast.finish(&mut nodes);
    assert_eq!(crate::ends::end(&nodes, 0, 2).sealed - before, 1, "the key");
    assert!(status(&nodes, 0).starved.is_empty());
}

#[test]
fn links_that_lose_what_they_say_and_outages_starve_nobody_for_long() {
    let plan = Plan {
        edges: vec![(0, 1), (1, 2), (0, 2)],
        ..sealed(3)
    };
    let mut nodes = Nodes::planned(5, plan);
    nodes.link(0, 1, "delay=5ms loss=2%");
    nodes.link(1, 2, "delay=5ms loss=2%");
    nodes.link(0, 2, "delay=40ms loss=5%");
    nodes.run_ms(20_000);
    nodes.join(2, GROUP);
    nodes.run_ms(2_000);
    let mut cast = Cast::new(0, 10, voice());
    cast.run_ms(&mut nodes, 120_000);
    assert!(status(&nodes, 0).starved.is_empty());
    nodes.set_outage(1, 2, true);
    cast.run_ms(&mut nodes, 5_000);
    nodes.set_outage(1, 2, false);
    cast.run_ms(&mut nodes, 30_000);
    cast.finish(&mut nodes);
    assert!(status(&nodes, 0).starved.is_empty());
    assert_eq!(nodes.snapshot(0).suspects.len(), 0);
}
