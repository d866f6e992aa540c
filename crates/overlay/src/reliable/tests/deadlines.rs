//! Packets that could not arrive in time leave the queue without a number.

use super::world::{ack, at, hear, lane, ms, packet_within};
use crate::reliable::Lane;
use base::{Duration, Time};
use wire::data::{Header, LaneSeq};

/// Returns the lane numbers of the packets that may leave now, if the rest of the path from the neighbour takes `rest`.
fn send(lane: &mut Lane, now: Time, rest: Duration) -> Vec<u32> {
    let mut sent = Vec::new();
    lane.sender.on_timeout(now);
    while lane.sender.peek(now, 0, &|_| Some(rest)).is_some() {
        let packet = lane.sender.take(now, 0).unwrap();
        sent.push(Header::trusted(packet.bytes).lane_seq().value());
    }
    sent
}

/// Returns a lane that has measured a round trip of 10 ms.
fn ready() -> Lane {
    let mut lane = lane();
    lane.sender.seed_rtt(at(0), ms(10));
    lane
}

#[test]
fn what_was_stranded_elsewhere_is_not_taken_for_a_part_of_an_overload() {
    let mut lane = ready();
    lane.sender
        .push(at(50), &packet_within(0, 0, 500, ms(1_000)), None)
        .unwrap();
    assert_eq!(send(&mut lane, at(50), ms(5)), [0]);
    let mut elsewhere = ready();
    elsewhere
        .sender
        .push(at(400), &packet_within(0, 1, 500, ms(1_000)), None)
        .unwrap();
    // The packet's link was down for 600 ms, and 400 ms are left for a path of 10 ms.
    let mut packets = Vec::new();
    elsewhere.sender.give_up(|packet| packets.push(packet));
    for packet in packets {
        lane.sender.push_again(packet);
    }
    assert_eq!(send(&mut lane, at(1_000), ms(5)), [1]);
    assert_eq!(lane.sender.take_overdue(), 0);
}

/// Returns how many of 40 packets are finally sent after they have waited for 1.2 s of their 2 s, if the rest of the
/// path from the neighbour takes `rest`; and how many are given up.
fn after_a_long_wait(rest: Duration) -> (usize, u32) {
    let (mut from, mut to) = (ready(), lane());
    for number in 0..40 {
        from.sender
            .push(at(100), &packet_within(0, number, 500, ms(2_000)), None)
            .unwrap();
    }
    let sent: Vec<_> = (100..=105)
        .flat_map(|ms| send(&mut from, at(ms), rest))
        .collect();
    assert!(sent.len() < 40, "{}", sent.len());
    for seq in sent {
        to.receiver
            .on_packet(at(1_299), Duration::ZERO, LaneSeq::new(seq));
    }
    let bytes = ack(&mut to, at(1_299), 1_000);
    hear(&mut from, at(1_299), &bytes);
    let sent = (1_300..=1_310).flat_map(|ms| send(&mut from, at(ms), rest));
    (sent.count(), from.sender.take_overdue())
}

#[test]
fn behind_the_last_link_nothing_is_left_over_for_lanes_further_on() {
    let (sent, given_up) = after_a_long_wait(Duration::ZERO);
    assert!(
        sent > 0 && given_up == 0,
        "{sent} sent, {given_up} given up"
    );
    let (sent, given_up) = after_a_long_wait(ms(5));
    assert!(
        sent == 0 && given_up > 0,
        "{sent} sent, {given_up} given up"
    );
}
