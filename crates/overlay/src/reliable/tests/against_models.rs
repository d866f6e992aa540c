//! Tests of the parts against naive models.

use super::world::{at, lane, number, packet, packet_to};
use crate::reliable::queue::{Queue, Takes, Toward};
use crate::reliable::{Arrival, QUEUE_BYTES, QUEUE_PACKETS, Receiver, SPAN};
use base::{Duration, NodeAddr, Time};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use wire::control::{Builder, Message, Messages};
use wire::data::{Header, LaneSeq, Routing};

/// Returns the content of an acknowledgement, its ranges as a set.
fn told(receiver: &mut Receiver) -> (u64, u64, BTreeSet<u64>) {
    let mut bytes = [0; 8_192];
    let mut builder = Builder::new(&mut bytes);
    let head = receiver.acknowledge(Time::ZERO, 100);
    builder.reliable_ack(&head, receiver.ranges()).unwrap();
    let len = builder.len();
    let message = Messages::new(&bytes[..len]).next().unwrap().unwrap();
    let Message::ReliableAck(ack) = message else {
        panic!("{message:?}");
    };
    let wide = |seq: LaneSeq| u64::from(seq.value());
    let above = ack
        .received()
        .flat_map(|(first, count)| wide(first)..wide(first) + u64::from(count));
    (wide(ack.head.next), wide(ack.head.end), above.collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_receiver_agrees_with_a_set(numbers in proptest::collection::vec(0u64..300, 1..400)) {
        let mut receiver = Receiver::default();
        let mut all = BTreeSet::new();
        for n in numbers {
            let is_new = all.insert(n);
            match receiver.on_packet(Time::ZERO, Duration::ZERO, LaneSeq::of(n)) {
                Arrival::New | Arrival::Recovered => prop_assert!(is_new),
                Arrival::Duplicate => prop_assert!(!is_new),
                Arrival::Beyond => prop_assert!(false, "within the span"),
            }
            let next = (0..).find(|n| !all.contains(n)).unwrap();
            let above: BTreeSet<u64> = all.iter().copied().filter(|n| *n >= next).collect();
            let end = all.last().map_or(0, |n| n + 1);
            prop_assert_eq!(told(&mut receiver), (next, end, above));
        }
    }

    #[test]
    fn the_queue_is_fair_by_bytes(lengths in proptest::collection::vec(30usize..1_400, 2..6)) {
        let mut queue = Queue::default();
        for n in 0..200 {
            for (flow, length) in lengths.iter().enumerate() {
                let packet = packet(flow as u16, n, *length);
                prop_assert!(queue.push(Time::ZERO, &packet, None).is_ok());
            }
        }
        let mut sent = vec![(0, 0); lengths.len()];
        // The loop runs as long as all flows have packets that wait.
        let shortest = lengths.iter().min().unwrap();
        let most = 150 * shortest;
        while sent.iter().all(|(_, bytes)| *bytes < most) {
            let packet = queue.pop(Takes::ALL).unwrap();
            let flow = usize::from(Header::trusted(&packet.bytes[..]).source_port().0);
            prop_assert_eq!(number(&packet.bytes), sent[flow].0, "first in, first out");
            sent[flow].0 += 1;
            sent[flow].1 += packet.bytes.len();
        }
        let bytes = sent.iter().map(|(_, bytes)| *bytes);
        let (least, most) = (bytes.clone().min().unwrap(), bytes.max().unwrap());
        prop_assert!(most - least <= 2 * 1_500 + 1_400, "{:?}", sent);
    }

    /// A held destination never has more packets on their way than allowed, and a hold loses or forgets no packet.
    #[test]
    fn holds_lose_nothing(ops in proptest::collection::vec((0u8..6, 0u16..6, 0u32..3), 1..400)) {
        let mut queue = Queue::default();
        let (mut pushed, mut popped) = (0, Vec::new());
        let (mut on_way, mut rooms) = (Vec::<Vec<u8>>::new(), BTreeMap::new());
        let count = |on_way: &[Vec<u8>], toward| {
            on_way.iter().filter(|packet| Toward::of(packet) == toward).count()
        };
        for (op, flow, to) in ops {
            let toward = Toward { destination: NodeAddr(to), routing: Routing::Hops };
            match op {
                0 | 1 => {
                    prop_assert!(queue.push(at(1), &packet_to(to, flow, pushed), None).is_ok());
                    pushed += 1;
                }
                2 => match queue.pop(Takes::ALL) {
                    Some(packet) => {
                        let toward = Toward::of(&packet.bytes);
                        let room = rooms.get(&toward.destination.0);
                        prop_assert!(room.is_none_or(|room| count(&on_way, toward) < *room));
                        popped.push(number(&packet.bytes));
                        on_way.push(packet.bytes);
                    }
                    None => prop_assert_eq!(queue.due(), 0),
                },
                3 => {
                    queue.hold(at(1), toward, flow.into(), || count(&on_way, toward));
                    rooms.insert(to, usize::from(flow));
                }
                4 => {
                    queue.let_go(toward);
                    rooms.remove(&to);
                }
                _ => {
                    if let Some(packet) = on_way.pop() {
                        queue.on_arrived(&packet);
                    }
                }
            }
            prop_assert_eq!(queue.len(), pushed as usize - popped.len());
        }
        queue.let_all_go();
        prop_assert_eq!(queue.due(), queue.len());
        while let Some(packet) = queue.pop(Takes::ALL) {
            popped.push(number(&packet.bytes));
        }
        prop_assert_eq!((queue.flows(), queue.bytes()), (0, 0));
        popped.sort_unstable();
        prop_assert_eq!(popped, (0..pushed).collect::<Vec<_>>());
    }

    /// Whatever a neighbour claims: the sender does not forget packets that an honest neighbour has not received.
    #[test]
    fn lies_do_not_break_the_sender(
        lies in proptest::collection::vec(any::<[u8; 15]>(), 1..60),
        ranges in proptest::collection::vec((1u16..9, 1u16..9), 0..5),
    ) {
        let mut lane = lane();
        for n in 0..50 {
            lane.sender.push(at(1), &packet(0, n, 100), None).unwrap();
        }
        let mut now = 1;
        for lie in lies {
            now += 7;
            super::world::send(&mut lane, at(now));
            let mut body = lie.to_vec();
            for (a, b) in &ranges {
                body.extend(a.to_be_bytes());
                body.extend(b.to_be_bytes());
            }
            // The numbers are near the true ones, so that the sender believes some of them.
            (body[0], body[1], body[3], body[4]) = (0, 0, 0, 0);
            body[2] %= 60;
            body[5] %= 80;
            if let Ok(ack) = wire::control::ReliableAck::parse(&body) {
                lane.sender.on_ack(at(now), Duration::ZERO, &ack);
            }
            prop_assert!(lane.sender.in_flight() <= 50);
        }
    }
}

#[test]
fn numbers_beyond_the_span_are_refused() {
    let mut receiver = Receiver::default();
    let beyond = LaneSeq::of(SPAN);
    assert_eq!(
        receiver.on_packet(at(0), Duration::ZERO, beyond),
        Arrival::Beyond
    );
    assert_eq!(
        receiver.on_packet(at(0), Duration::ZERO, LaneSeq::of(0)),
        Arrival::New
    );
    assert_eq!(
        receiver.on_packet(at(0), Duration::ZERO, beyond),
        Arrival::New
    );
    assert_eq!(receiver.stats().beyond, 1);
    // A sender that uses only every other number makes so many ranges and no more.
    let mut receiver = Receiver::default();
    for n in 0..10_000 {
        receiver.on_packet(at(0), Duration::ZERO, LaneSeq::of(2 * n + 1));
    }
    assert!(receiver.ranges().count() <= 1_024);
    assert!(receiver.stats().beyond >= 8_976);
}

#[test]
fn a_full_queue_makes_room_for_flows_with_less() {
    let mut queue = Queue::default();
    for n in 0..QUEUE_PACKETS as u32 {
        assert!(matches!(
            queue.push(at(0), &packet(1, n, 100), None),
            Ok(None)
        ));
    }
    assert!(queue.push(at(0), &packet(1, 0, 100), None).is_err());
    let out = queue.push(at(0), &packet(2, 7, 100), None).unwrap();
    let out = out.map(|packet| number(&packet.bytes));
    assert_eq!(
        out,
        Some(QUEUE_PACKETS as u32 - 1),
        "the last of the longest"
    );
    assert_eq!(queue.len(), QUEUE_PACKETS);
    let both =
        [queue.pop(Takes::ALL), queue.pop(Takes::ALL)].map(|packet| number(&packet.unwrap().bytes));
    assert!(both.contains(&0));
    while queue.pop(Takes::ALL).is_some() {}
    assert_eq!((queue.len(), queue.bytes(), queue.flows()), (0, 0, 0));
}

#[test]
fn short_packets_make_no_room_for_long_ones() {
    let mut queue = Queue::default();
    for n in 0..QUEUE_PACKETS {
        queue
            .push(at(0), &packet(0, n as u32, 1_400), None)
            .unwrap();
    }
    for flow in 1..500 {
        let _ = queue.push(at(0), &packet(flow, 0, 60_000), None);
    }
    assert!(queue.bytes() <= QUEUE_BYTES, "{}", queue.bytes());
    // With packets no longer than those that wait, a flow still gets its share.
    assert!(matches!(
        queue.push(at(0), &packet(501, 0, 1_000), None),
        Ok(Some(_))
    ));
}
