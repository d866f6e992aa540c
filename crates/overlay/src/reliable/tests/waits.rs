//! Acknowledgements that wait for the next packet of a lane, and the probes meanwhile.

use super::scripts::{arrive, push, ready, send_all};
use super::world::{ack, at, hear, lane, ms};

/// Returns how many acknowledgements and probes a lane needs for a hundred packets, one in 20 ms, on a link of 6 ms.
fn thin(acks_wait: bool) -> (u64, u64) {
    let (mut from, mut to) = (lane(), lane());
    from.sender.seed_rtt(at(0), ms(6));
    from.on_peer(acks_wait);
    to.on_peer(acks_wait);
    let (mut there, mut back) = (Vec::new(), Vec::new());
    for now in 100..2_100 {
        if now % 20 == 0 {
            push(&mut from, now, now as u32 / 20..now as u32 / 20 + 1);
        }
        for seq in send_all(&mut from, now, now) {
            there.push((now + 3, seq));
        }
        for (_, seq) in there.extract_if(.., |(due, _)| *due == now) {
            arrive(&mut to, now, &[seq]);
        }
        if to.receiver.is_due(at(now)) {
            back.push((now + 3, ack(&mut to, at(now), 100)));
        }
        for (_, bytes) in back.extract_if(.., |(due, _)| *due == now) {
            hear(&mut from, at(now), &bytes);
        }
    }
    let stats = from.sender.stats();
    assert_eq!((stats.sent, stats.timeouts), (100, 0));
    (to.receiver.stats().acks, stats.probes)
}

#[test]
fn a_thin_lane_is_acknowledged_every_second_time_and_asks_for_nothing() {
    assert_eq!(thin(false), (100, 0));
    let (acks, probes) = thin(true);
    assert!((49..=52).contains(&acks), "{acks}");
    assert_eq!(probes, 0);
}

#[test]
fn what_stands_alone_on_a_lane_is_acknowledged_and_asked_for_as_soon_as_ever() {
    let (mut from, mut to) = ready();
    from.on_peer(true);
    to.on_peer(true);
    push(&mut from, 100, 0..1);
    assert_eq!(send_all(&mut from, 100, 123), [0]);
    assert_eq!(send_all(&mut from, 124, 124), [0]);
    arrive(&mut to, 129, &[0]);
    assert!(!to.receiver.is_due(at(130)) && to.receiver.is_due(at(131)));
}

/// Returns how many packets arrive in ten seconds over a lane that may have two packets in flight, if its link carries
/// one packet in 16 ms. Hellos are sent every 100 ms.
fn narrow(acks_wait: bool) -> u64 {
    let (mut from, mut to) = (lane(), lane());
    from.sender.seed_rtt(at(0), ms(26));
    let bytes = ack(&mut to, at(0), 2);
    hear(&mut from, at(0), &bytes);
    let (mut there, mut back, mut free) = (Vec::new(), Vec::new(), 0);
    let mut pushed = 0;
    for now in 1..10_000 {
        if now % 100 == 1 {
            from.on_peer(acks_wait);
            to.on_peer(acks_wait && from.sender.lets_wait());
        }
        while from.sender.queued() < 4 {
            push(&mut from, now, pushed..pushed + 1);
            pushed += 1;
        }
        for seq in send_all(&mut from, now, now) {
            free = now.max(free) + 16;
            there.push((free + 5, seq));
        }
        for (_, seq) in there.extract_if(.., |(due, _)| *due == now) {
            arrive(&mut to, now, &[seq]);
        }
        if to.receiver.is_due(at(now)) {
            back.push((now + 5, ack(&mut to, at(now), 2)));
        }
        for (_, bytes) in back.extract_if(.., |(due, _)| *due == now) {
            hear(&mut from, at(now), &bytes);
        }
    }
    to.receiver.stats().received
}

#[test]
fn a_lane_that_its_window_limits_waits_for_no_acknowledgement_longer_than_ever() {
    let (before, after) = (narrow(false), narrow(true));
    assert!(before > 500, "{before}");
    assert_eq!(after, before);
}

#[test]
fn acknowledgements_may_wait_once_the_window_has_room_for_four() {
    let (mut from, mut to) = ready();
    assert!(from.sender.lets_wait());
    push(&mut from, 100, 0..4);
    assert_eq!(send_all(&mut from, 100, 105), [0, 1, 2, 3]);
    // All packets are lost.
    let mut now = 106;
    while from.sender.stats().timeouts == 0 {
        send_all(&mut from, now, now);
        now += 1;
    }
    assert!(!from.sender.lets_wait());
    let mut number = 4;
    while !from.sender.lets_wait() {
        assert!(now < 2_000);
        push(&mut from, now, number..number + 4);
        number += 4;
        let sent = send_all(&mut from, now, now + 9);
        now += 10;
        arrive(&mut to, now, &sent);
        let bytes = ack(&mut to, at(now), 1_000);
        hear(&mut from, at(now), &bytes);
    }
}
