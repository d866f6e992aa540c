//! Sealed groups, with relays and members that read, change, repeat and invent packets.
#![allow(clippy::unwrap_used, reason = "a test")]

use crate::ends::{Tapped, as_it_is, changed_first, is_marked, sealed, with_one_behind};
use crate::world::groups::{Cast, GROUP, SOURCE};
use crate::world::{Nodes, PAYLOAD, PORT, Plan, addr, chain, read, voice};
use base::{Duration, Time};
use overlay::Reply;
use overlay::event::Drop;
use overlay::groups::Permit;
use overlay::request::{Operation, Options};
use overlay::settings::Sealing;
use overlay::snapshot::GroupStatus;
use std::collections::BTreeSet;
use wire::data::{FlowSeq, Header};
use wire::transport::GROUP_KEY_BYTES_MAX;

/// Returns the bytes that name the key in a packet to the group, if the packet is sealed.
fn key_of(packet: &[u8]) -> Option<[u8; 3]> {
    let header = Header::parse(packet).ok()?;
    let is_sealed = header.destination() == GROUP && header.has_transport();
    let payload = header.payload();
    is_sealed.then(|| [payload[1], payload[2], payload[3]])
}

fn is_to_group(packet: &[u8]) -> bool {
    Header::parse(packet).is_ok_and(|header| header.destination() == GROUP)
}

/// Returns whether the packet is a key for a receiver. No other packet between two nodes has this length.
fn is_key(packet: &[u8]) -> bool {
    let len = wire::HEADER_BYTES + wire::link::SEAL_BYTES + GROUP_KEY_BYTES_MAX;
    Header::parse(packet).is_ok_and(|header| header.destination().is_node()) && packet.len() == len
}

/// Node 0 sends packets to the group at a fixed pace. Returns the numbers that node `at` received, in order of arrival.
fn talk(
    tapped: &mut Tapped,
    (numbers, at): (core::ops::Range<u64>, usize),
    passes: &mut dyn FnMut(&[u8]) -> Vec<Vec<u8>>,
) -> Vec<u64> {
    tapped.nodes.set_sender(0, SOURCE, voice());
    for number in numbers {
        let now = tapped.nodes.world.now();
        let to = (GROUP, PORT);
        tapped
            .nodes
            .send_to_addr(now, 0, SOURCE, to, number, PAYLOAD);
        tapped.run(10, passes);
    }
    tapped.run(500, passes);
    let replies = tapped.nodes.world.take_replies().into_iter();
    let replies = replies.filter(|answer| answer.host.place() == at);
    let numbers = replies.filter_map(|answer| match answer.reply {
        Reply::Datagram { payload, .. } => Some(read(payload.bytes()).0),
        _ => None,
    });
    numbers.collect()
}

fn joined(plan: Plan) -> Tapped {
    let mut tapped = Tapped::new(plan);
    tapped.nodes.join(1, GROUP);
    tapped.run(200, &mut as_it_is);
    tapped
}

fn status(nodes: &Nodes, at: usize) -> GroupStatus {
    let now = nodes.world.now();
    let mut all = nodes.running(at).unwrap().group_statuses(now, Some(GROUP));
    all.remove(0)
}

#[test]
fn a_relay_reads_nothing_of_what_goes_to_a_group() {
    let mut tapped = joined(sealed(2));
    let (mut passed, mut marked) = (0, 0);
    let mut passes = |packet: &[u8]| {
        passed += u32::from(key_of(packet).is_some());
        marked += u32::from(is_marked(packet));
        as_it_is(packet)
    };
    tapped.nodes.set_sender(0, SOURCE, voice());
    // The payload is filled with the number. Long payloads are sent in fragments.
    for bytes in [160, 1_392, 9_000] {
        let now = tapped.nodes.world.now();
        let to = (GROUP, PORT);
        tapped.nodes.send_to_addr(now, 0, SOURCE, to, 0xc5, bytes);
        tapped.run(300, &mut passes);
    }
    let replies = tapped.nodes.world.take_replies().into_iter();
    let payloads = replies.filter_map(|answer| match answer.reply {
        Reply::Datagram { payload, .. } => Some(payload.len()),
        _ => None,
    });
    assert_eq!(payloads.collect::<Vec<_>>(), [160, 1_392, 9_000]);
    assert!(passed > 9, "{passed}");
    assert_eq!(marked, 0, "the relay has seen payload");
    let status = status(&tapped.nodes, 0);
    assert_eq!((status.sealed, status.keys_told), (Some(true), 1));
}

#[test]
fn what_a_relay_invents_changes_and_repeats_costs_the_group_nothing() {
    let mut tapped = joined(sealed(2));
    let mut forged = 0_u64;
    let mut passes = |packet: &[u8]| {
        if !is_to_group(packet) {
            return as_it_is(packet);
        }
        let numbered = |ahead: u32| {
            let mut bad = packet.to_vec();
            let seq = Header::trusted(packet).flow_seq().0.wrapping_add(ahead);
            let repr = wire::data::Repr {
                flow_seq: FlowSeq(seq),
                ..Header::trusted(packet).repr()
            };
            repr.emit(&mut bad).unwrap();
            bad
        };
        let mut all = Vec::new();
        // The next numbers, and some numbers far ahead, with the seal of this packet.
        all.extend([1, 2, 40, 5_000, 1 << 20].map(numbered));
        // The same numbers in unsealed packets.
        for ahead in [0, 1, 2, 70_000] {
            let mut bad = numbered(ahead);
            let mut repr = Header::trusted(&bad[..]).repr();
            repr.has_transport = false;
            repr.emit(&mut bad).unwrap();
            all.push(bad);
        }
        // A changed byte of the content, the counter, the key or the tag.
        for at in [
            40,
            wire::HEADER_BYTES + 7,
            wire::HEADER_BYTES + 2,
            packet.len() - 1,
        ] {
            let mut bad = packet.to_vec();
            bad[at] ^= 1;
            all.push(bad);
        }
        forged += all.len() as u64;
        all.extend([packet.to_vec(), packet.to_vec()]);
        all
    };
    let got = talk(&mut tapped, (0..200, 1), &mut passes);
    assert_eq!(got, (0..200).collect::<Vec<_>>());
    let dropped = [Drop::EndForged, Drop::EndUnsealed, Drop::EndNoSession];
    let dropped: u64 = dropped.map(|why| tapped.drops(why)).iter().sum();
    assert!(dropped > forged / 2, "{dropped} of {forged}");
}

#[test]
fn a_changed_copy_that_comes_first_costs_no_member_the_packet() {
    let mut tapped = with_one_behind();
    for member in [1, 2] {
        tapped.nodes.join(member, GROUP);
    }
    tapped.run(500, &mut as_it_is);
    // Node 1 receives the group and forwards it. Node 2 gets all packets from node 1.
    for (numbers, at) in [(0..100, 1), (100..200, 2)] {
        let got = talk(&mut tapped, (numbers.clone(), at), &mut changed_first);
        assert_eq!(got, numbers.collect::<Vec<_>>(), "node {at}");
    }
    assert!(tapped.drops(Drop::EndForged) >= 400);
    // Now node 1 only forwards the group.
    tapped.nodes.leave(1, GROUP);
    tapped.run(500, &mut as_it_is);
    let got = talk(&mut tapped, (200..300, 2), &mut changed_first);
    assert_eq!(got, (200..300).collect::<Vec<_>>());
}

#[test]
fn packets_wait_for_a_key_that_was_lost_and_all_come() {
    let mut tapped = joined(sealed(2));
    let mut lost = 0;
    let mut passes = |packet: &[u8]| {
        if is_key(packet) && lost < 2 {
            lost += 1;
            return Vec::new();
        }
        as_it_is(packet)
    };
    let got = talk(&mut tapped, (0..100, 1), &mut passes);
    // The packets sent in the last deadline before the answer arrived are still available. The key is requested after
    // 80 ms, and 160 ms later.
    assert_eq!(lost, 2);
    assert_eq!(got.last(), Some(&99));
    let first = got.first().unwrap();
    assert!(*first <= 20, "the first that came is {first}");
    assert_eq!(
        got,
        (*first..100).collect::<Vec<_>>(),
        "in order, none lost"
    );
}

#[test]
fn a_lost_key_costs_a_fast_group_with_half_a_second_nothing() {
    let mut tapped = joined(sealed(2));
    let deadline = Some(Duration::from_millis(500));
    tapped.nodes.set_sender(
        0,
        SOURCE,
        Options {
            deadline,
            ..voice()
        },
    );
    let mut is_lost = false;
    let mut passes = |packet: &[u8]| {
        if is_key(packet) && !is_lost {
            is_lost = true;
            return Vec::new();
        }
        as_it_is(packet)
    };
    // A video of 50 Mbit/s.
    let to = (GROUP, PORT);
    for number in 0..1_000 {
        let now = tapped.nodes.world.now();
        let nodes = &mut tapped.nodes;
        nodes.send_to_addr(now, 0, SOURCE, to, number, 1_300);
        if number % 5 == 4 {
            tapped.run(1, &mut passes);
        }
    }
    tapped.run(500, &mut passes);
    assert!(is_lost);
    let replies = tapped.nodes.world.take_replies().into_iter();
    let numbers = replies.filter_map(|answer| match answer.reply {
        Reply::Datagram { payload, .. } => Some(read(payload.bytes()).0),
        _ => None,
    });
    assert!(numbers.eq(0..1_000), "all, and in order");
}

#[test]
fn who_joins_in_the_middle_gets_all_from_then_on() {
    let mut nodes = Nodes::new(1, 3, &chain(3), "delay=10ms");
    nodes.run_ms(3_000);
    nodes.join(1, GROUP);
    nodes.run_ms(200);
    nodes.arrivals();
    let mut cast = Cast::new(0, 5, voice());
    cast.run_ms(&mut nodes, 1_000);
    nodes.join(2, GROUP);
    nodes.run_ms(1);
    let joined = nodes.world.now();
    cast.run_ms(&mut nodes, 1_000);
    cast.finish(&mut nodes);
    let (got, sent) = cast.got(2, joined + Duration::from_millis(100), Time::FAR);
    assert_eq!(got, sent);
    assert_eq!(cast.got(1, Time::ZERO, Time::FAR), (400, 400));
    assert_eq!(cast.doubles(), 0);
    assert_eq!(status(&nodes, 0).keys_told, 2);
    assert_eq!(nodes.count().drops(Drop::EndForged), 0);
}

/// Returns the keys under which a relay saw packets to the group while node 0 sent `count` packets, and the numbers
/// that arrived.
fn keys_seen(tapped: &mut Tapped, count: u64) -> (Vec<[u8; 3]>, Vec<u64>) {
    let mut keys = Vec::new();
    let mut passes = |packet: &[u8]| {
        if let Some(key) = key_of(packet)
            && keys.last() != Some(&key)
        {
            keys.push(key);
        }
        as_it_is(packet)
    };
    let got = talk(tapped, (0..count, 1), &mut passes);
    (keys, got)
}

/// Creates node 2 beside node 0, and node 1 behind the relay.
fn with_another(plan: Plan) -> Tapped {
    let plan = Plan {
        edges: vec![(0, 2)],
        ..plan
    };
    let mut tapped = Tapped::beside(plan, &[(0, 2, "delay=5ms")]);
    for member in [1, 2] {
        tapped.nodes.join(member, GROUP);
    }
    tapped.run(500, &mut as_it_is);
    tapped
}

#[test]
fn who_has_left_gets_no_key_of_what_follows() {
    let mut tapped = with_another(sealed(3));
    let (before, _) = keys_seen(&mut tapped, 50);
    assert_eq!(before.len(), 1);
    assert_eq!(status(&tapped.nodes, 0).keys_told, 2);
    tapped.nodes.leave(2, GROUP);
    let (keys, got) = keys_seen(&mut tapped, 1_300);
    assert_eq!(keys.len(), 2, "another key, once: {keys:?}");
    assert_eq!(keys[0], before[0]);
    assert_eq!(
        got,
        (0..1_300).collect::<Vec<_>>(),
        "no packet is lost by that"
    );
    assert_eq!(status(&tapped.nodes, 0).keys_told, 1);
    assert_eq!(
        tapped.drops(Drop::EndForged) + tapped.drops(Drop::EndNoSession),
        0
    );
}

#[test]
fn who_is_kept_out_by_a_permit_gets_no_key_of_what_follows() {
    let mut tapped = with_another(sealed(3));
    let (before, _) = keys_seen(&mut tapped, 50);
    let permit = Permit {
        group: GROUP,
        prefix: 32,
        send: None,
        receive: Some(vec![addr(1).to_string()]),
    };
    tapped.nodes.operate(0, Operation::Permit(permit));
    let (keys, got) = keys_seen(&mut tapped, 1_300);
    assert_eq!((keys.len(), keys[0]), (2, before[0]));
    assert_eq!(got, (0..1_300).collect::<Vec<_>>());
    assert_eq!(status(&tapped.nodes, 0).keys_told, 1);
}

#[test]
fn keys_change_by_age_and_no_packet_is_lost_by_that() {
    let mut nodes = Nodes::new(3, 3, &chain(3), "delay=10ms");
    nodes.run_ms(3_000);
    nodes.join(2, GROUP);
    nodes.run_ms(200);
    nodes.arrivals();
    let mut cast = Cast::new(0, 50, voice());
    cast.run_ms(&mut nodes, 1_300_000);
    cast.finish(&mut nodes);
    let sent = cast.sent.len();
    assert_eq!(cast.got(2, Time::ZERO, Time::FAR), (sent, sent));
    let totals = nodes.count();
    assert_eq!(
        totals.drops(Drop::EndForged) + totals.drops(Drop::EndNoSession),
        0
    );
}

#[test]
fn a_member_that_cannot_open_makes_the_group_open_until_it_has_left() {
    let plan = Plan {
        sealing: vec![(2, Sealing::Off)],
        ..sealed(3)
    };
    let mut tapped = with_another(plan);
    let told = status(&tapped.nodes, 0);
    assert_eq!(told.sealed, Some(false));
    assert_eq!(told.cannot_open, [addr(2).to_string()]);
    let (keys, got) = keys_seen(&mut tapped, 50);
    assert!(keys.is_empty());
    assert_eq!(got, (0..50).collect::<Vec<_>>());
    tapped.nodes.leave(2, GROUP);
    tapped.run(500, &mut as_it_is);
    let (keys, got) = keys_seen(&mut tapped, 50);
    assert_eq!(keys.len(), 1);
    assert_eq!(got, (0..50).collect::<Vec<_>>());
    assert_eq!(status(&tapped.nodes, 0).sealed, Some(true));
}

#[test]
fn a_source_that_was_started_again_is_opened_under_another_key() {
    for seed in 0..4 {
        let mut nodes = Nodes::new(seed, 3, &chain(3), "delay=10ms");
        nodes.run_ms(3_000);
        for member in [1, 2] {
            nodes.join(member, GROUP);
        }
        nodes.run_ms(200);
        nodes.arrivals();
        let mut cast = Cast::new(0, 10, voice());
        cast.run_ms(&mut nodes, 1_000);
        cast.finish(&mut nodes);
        nodes.restart(0);
        nodes.run_ms(4_000);
        let again = nodes.world.now();
        cast.run_ms(&mut nodes, 2_000);
        cast.finish(&mut nodes);
        for member in [1, 2] {
            let (got, sent) = cast.got(member, again, Time::FAR);
            assert_eq!(got, sent, "seed {seed}, member {member}");
        }
        assert_eq!(cast.doubles(), 0);
    }
}

#[test]
fn the_clients_of_the_source_get_the_plaintext_and_nothing_twice() {
    let mut nodes = Nodes::new(1, 2, &chain(2), "delay=10ms");
    nodes.run_ms(3_000);
    for member in [0, 1] {
        nodes.join(member, GROUP);
    }
    nodes.run_ms(200);
    nodes.arrivals();
    let mut cast = Cast::new(0, 10, voice());
    cast.run_ms(&mut nodes, 500);
    cast.finish(&mut nodes);
    let members: BTreeSet<usize> = cast.came.keys().map(|(node, _)| *node).collect();
    assert_eq!(members, BTreeSet::from([0, 1]));
    assert_eq!(cast.came.len(), 100);
    assert_eq!(cast.doubles(), 0);
    assert_eq!(nodes.count().dropped.values().sum::<u64>(), 0);
}
