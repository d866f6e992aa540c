//! A partially reliable flow between two hosts, and the ranges that its receiver reports.

use super::PartialSettings;
use crate::tcp::packet::{BLOCKS, Segment};
use crate::tcp::receiver::{Order, Reader, Receiver};
use crate::tcp::{Flow, Network, TcpHost, Traffic};
use crate::world::World;
use base::{Duration, Time};
use proptest::prelude::{prop_assert_eq, proptest};
use std::collections::BTreeSet;

const DEADLINE: Duration = Duration::from_millis(150);
const SPAN: Duration = Duration::from_secs(60);

/// Runs calls that never pause over one link.
fn run(link: &str, calls: usize) -> (World<TcpHost>, Vec<Flow>) {
    let mut network = Network::default();
    let (a, b) = (network.host(), network.host());
    network.link(a, b, &link.parse().unwrap());
    let flows = (0..calls).map(|n| {
        let start = Duration::from_millis(7 * n as u64);
        let traffic = Traffic::cbr(64_000, 160).between(start, SPAN);
        network.partial(a, b, PartialSettings::within(DEADLINE), traffic)
    });
    let flows: Vec<Flow> = flows.collect();
    let mut world = network.build(5);
    world.run_until(Time::ZERO + SPAN + Duration::from_secs(2));
    (world, flows)
}

#[test]
fn on_a_clean_path_everything_comes_once_and_at_once() {
    let (world, flows) = run("delay=30ms", 1);
    let (sent, received) = (flows[0].sent(&world), flows[0].received(&world));
    assert_eq!((sent.segments, sent.again, sent.refused), (3_000, 0, 0));
    assert_eq!((received.delivered, received.duplicates), (3_000, 0));
    let on_time = |delay: Duration| delay == Duration::from_millis(30);
    assert!(
        flows[0]
            .deliveries(&world)
            .iter()
            .all(|d| on_time(d.delay()))
    );
}

#[test]
fn random_losses_are_repaired_in_time_and_do_not_brake() {
    let (world, flows) = run("delay=20ms loss=5%", 1);
    let (sent, received) = (flows[0].sent(&world), flows[0].received(&world));
    assert_eq!(sent.written, 3_000);
    // A packet that is lost twice in the data direction stays lost: 0.25 %.
    assert!(received.delivered >= 2_980, "{received:?}");
    assert!(sent.again > 100 && sent.recoveries == 0, "{sent:?}");
    let mut late = flows[0]
        .deliveries(&world)
        .iter()
        .filter(|d| d.delay() > DEADLINE);
    assert_eq!(late.next(), None);
    let mut numbers: Vec<u32> = flows[0]
        .deliveries(&world)
        .iter()
        .map(|d| d.number)
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(
        numbers.len() as u64,
        received.delivered,
        "something came twice"
    );
}

#[test]
fn what_cannot_be_in_time_is_not_repeated() {
    let (world, flows) = run("delay=100ms loss=5%", 1);
    let (sent, received) = (flows[0].sent(&world), flows[0].received(&world));
    assert_eq!(sent.again, 0);
    assert!((2_780..2_920).contains(&received.delivered), "{received:?}");
}

#[test]
fn too_many_calls_drop_at_their_senders_and_not_in_the_network() {
    // The load is 40 calls of 80 kbit/s over 2 Mbit/s: 1.6 times too much.
    let (world, flows) = run("delay=20ms rate=2mbit queue=400", 40);
    let (mut sent, mut refused, mut arrived) = (0, 0, 0);
    let mut least = u64::MAX;
    for flow in &flows {
        let (s, r) = (flow.sent(&world), flow.received(&world));
        sent += s.segments;
        refused += s.refused;
        arrived += r.delivered;
        least = least.min(r.delivered);
    }
    assert!(refused > 0);
    assert!(
        (sent - arrived) * 100 < sent,
        "{sent} sent, {arrived} arrived"
    );
    // 2 Mbit/s are 1250 packets/s.
    assert!(arrived > 74_000, "the link idles: {arrived}");
    assert!(
        least > arrived / 80,
        "somebody starves: {least} of {arrived}"
    );
}

fn receiver() -> Receiver {
    Receiver::new(0, 0, Reader::Application, Order::Connection)
}

fn packet(seq: i64, number: u32) -> Segment {
    Segment {
        to: 0,
        flow: 0,
        seq,
        stamp: Time::ZERO,
        written: Time::ZERO,
        number,
        wave: 0,
        last: false,
        datagram: true,
    }
}

proptest! {
    /// Transmissions arrive in any order: the reported ranges are the highest of those that exist.
    #[test]
    fn the_ranges_told_are_true(seqs in proptest::collection::vec(0_i64..40, 1..60)) {
        let mut receiver = receiver();
        let mut came = BTreeSet::new();
        for (at, seq) in seqs.into_iter().enumerate() {
            came.insert(seq);
            let ack = receiver.on_partial(Time::ZERO, &packet(seq, at as u32), 200);
            prop_assert_eq!(ack.acked, seq);
            for (from, to) in ack.blocks() {
                for seq in *from..*to {
                    prop_assert_eq!(came.contains(&seq), true);
                }
            }
            let highest = came.last().copied().unwrap_or(0);
            prop_assert_eq!(ack.blocks()[0].1, highest + 1);
            prop_assert_eq!(ack.blocks().len() <= BLOCKS, true);
        }
    }

    /// Each message is delivered once, however often and in whatever order it arrives.
    #[test]
    fn copies_are_known(numbers in proptest::collection::vec(0_u32..50, 1..120)) {
        let mut receiver = receiver();
        let mut came = BTreeSet::new();
        for (seq, number) in numbers.into_iter().enumerate() {
            came.insert(number);
            receiver.on_partial(Time::ZERO, &packet(seq as i64, number), 200);
            prop_assert_eq!(receiver.counts.delivered, came.len() as u64);
        }
    }
}
