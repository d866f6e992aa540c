//! Tests of single situations of a lane, packet by packet.

use super::world::{ack, at, hear, hear_late, lane, ms, number, packet, packet_to, send};
use crate::flow::FlowKey;
use crate::reliable::{Lane, Settings};
use base::{Duration, NodeAddr};
use wire::control::Hold;
use wire::data::{Header, LaneSeq, Routing};

/// Returns a lane that has measured a round trip of 10 ms and may send at `at(100)`, and its other end.
pub(super) fn ready() -> (Lane, Lane) {
    let (mut from, to) = (lane(), lane());
    from.sender.seed_rtt(at(0), ms(10));
    (from, to)
}

pub(super) fn push(lane: &mut Lane, ms: u64, numbers: core::ops::Range<u32>) {
    for n in numbers {
        lane.sender.push(at(ms), &packet(0, n, 500), None).unwrap();
    }
}

/// Sends all that may leave between two moments.
pub(super) fn send_all(lane: &mut Lane, from: u64, to: u64) -> Vec<u32> {
    let sent = (from..=to).flat_map(|ms| send(lane, at(ms)));
    sent.map(|(seq, _)| seq).collect()
}

pub(super) fn arrive(lane: &mut Lane, ms: u64, numbers: &[u32]) {
    for n in numbers {
        lane.receiver
            .on_packet(at(ms), Duration::ZERO, LaneSeq::new(*n));
    }
}

/// Neither end's host was scheduled for three seconds.
#[test]
fn what_waits_in_the_socket_of_a_stalled_host_makes_no_round_trip_longer() {
    let stall = ms(3_000);
    for is_here in [true, false] {
        let (mut from, mut to) = ready();
        push(&mut from, 100, 0..1);
        assert_eq!(send_all(&mut from, 100, 100), [0]);
        let (waited, came) = if is_here {
            (ms(0), 105)
        } else {
            (stall, 3_105)
        };
        to.receiver.on_packet(at(came), waited, LaneSeq::new(0));
        let bytes = ack(&mut to, at(came), 100);
        let waited = if is_here { stall } else { ms(0) };
        hear_late(&mut from, at(3_110), waited, &bytes);
        assert_eq!(from.sender.rtt().latest(), ms(10), "{is_here}");
    }
}

#[test]
fn a_loss_without_a_queue_is_sent_again_and_leaves_the_window_as_it_is() {
    let (mut from, mut to) = ready();
    push(&mut from, 100, 0..8);
    assert_eq!(send_all(&mut from, 100, 105), [0, 1, 2, 3, 4, 5, 6, 7]);
    for (ms, number) in [(106, 1), (107, 2), (108, 3)] {
        arrive(&mut to, ms, &[number]);
        let bytes = ack(&mut to, at(ms), 100);
        hear(&mut from, at(ms), &bytes);
    }
    assert_eq!(send_all(&mut from, 108, 108), [0]);
    assert_eq!(from.sender.stats().cuts, 0);
    push(&mut from, 109, 8..12);
    assert_eq!(send_all(&mut from, 109, 116), [8, 9, 10, 11]);
}

#[test]
fn a_loss_is_found_by_three_later_ones_and_its_repetition_like_it() {
    let mut to = lane();
    let mut from = Lane::new(Settings {
        spares_random_losses: false,
        ..Settings::default()
    });
    from.sender.seed_rtt(at(0), ms(10));
    push(&mut from, 100, 0..8);
    assert_eq!(send_all(&mut from, 100, 105), [0, 1, 2, 3, 4, 5, 6, 7]);
    // Two later packets within a quarter of a round trip show no loss yet.
    arrive(&mut to, 106, &[1, 2]);
    let bytes = ack(&mut to, at(106), 100);
    hear(&mut from, at(106), &bytes);
    assert_eq!(send_all(&mut from, 106, 106), [0; 0]);
    arrive(&mut to, 107, &[3]);
    let bytes = ack(&mut to, at(107), 100);
    hear(&mut from, at(107), &bytes);
    assert_eq!(send_all(&mut from, 107, 107), [0]);
    assert_eq!(from.sender.stats().cuts, 1);
    // The retransmission is lost as well.
    push(&mut from, 108, 8..12);
    let sent = send_all(&mut from, 108, 116);
    assert_eq!(sent, [8, 9, 10], "the window is 12 times 0.7");
    arrive(&mut to, 117, &[4, 5, 6, 7, 8, 9, 10]);
    let bytes = ack(&mut to, at(117), 100);
    hear(&mut from, at(117), &bytes);
    assert_eq!(send_all(&mut from, 117, 119), [0, 11]);
    assert_eq!(from.sender.stats().timeouts, 0);
    arrive(&mut to, 120, &[0, 11]);
    let bytes = ack(&mut to, at(120), 100);
    hear(&mut from, at(120), &bytes);
    assert!(from.sender.is_empty());
}

#[test]
fn the_last_packet_is_recovered_by_a_probe() {
    let (mut from, mut to) = ready();
    push(&mut from, 100, 0..1);
    assert_eq!(send_all(&mut from, 100, 110), [0]);
    // The packet is lost. The probe comes after two round trips and the time that the other end may wait.
    assert_eq!(send_all(&mut from, 111, 123), [0; 0]);
    assert_eq!(send_all(&mut from, 124, 124), [0]);
    arrive(&mut to, 129, &[0]);
    let bytes = ack(&mut to, at(129), 100);
    hear(&mut from, at(134), &bytes);
    assert!(from.sender.is_empty());
    let stats = from.sender.stats();
    assert_eq!((stats.probes, stats.timeouts, stats.cuts), (1, 0, 0));
    assert_eq!(from.sender.next_timeout(), None);
}

#[test]
fn a_closed_window_is_asked_now_and_then() {
    let (mut from, mut to) = ready();
    push(&mut from, 100, 0..2);
    assert_eq!(send_all(&mut from, 100, 101), [0, 1]);
    arrive(&mut to, 105, &[0, 1]);
    let bytes = ack(&mut to, at(105), 0);
    hear(&mut from, at(110), &bytes);
    push(&mut from, 111, 2..6);
    assert_eq!(send_all(&mut from, 111, 300), [0; 0]);
    let asked = send_all(&mut from, 301, 2_000);
    assert!(
        asked.len() >= 2 && asked.iter().all(|n| *n == 2),
        "{asked:?}"
    );
    arrive(&mut to, 2_001, &[2]);
    let bytes = ack(&mut to, at(2_001), 100);
    hear(&mut from, at(2_005), &bytes);
    // No acknowledgement came for two timeouts, so the lane begins slowly.
    assert_eq!(send_all(&mut from, 2_005, 2_010), [3, 4]);
}

#[test]
fn a_closed_window_is_asked_for_however_much_comes_to_wait() {
    let (mut from, mut to) = ready();
    push(&mut from, 100, 0..1);
    assert_eq!(send_all(&mut from, 100, 100), [0]);
    arrive(&mut to, 105, &[0]);
    let bytes = ack(&mut to, at(105), 2);
    hear(&mut from, at(110), &bytes);
    push(&mut from, 111, 1..3);
    assert_eq!(send_all(&mut from, 111, 112), [1, 2]);
    // Both are lost, and more comes each millisecond.
    let mut sent = Vec::new();
    for n in 0..1_000 {
        push(&mut from, 113 + u64::from(n), 3 + n..4 + n);
        sent.extend(send_all(&mut from, 113 + u64::from(n), 113 + u64::from(n)));
    }
    assert!(sent.len() >= 2 && sent.iter().all(|n| *n <= 2), "{sent:?}");
}

#[test]
fn an_acknowledgement_of_what_was_never_sent_counts_for_nothing() {
    let (mut from, mut liar) = ready();
    push(&mut from, 100, 0..3);
    send_all(&mut from, 100, 101);
    arrive(&mut liar, 105, &[0, 1, 2, 3]);
    let bytes = ack(&mut liar, at(105), 100);
    hear(&mut from, at(110), &bytes);
    assert_eq!(from.sender.stats().bogus, 1);
    assert_eq!(from.sender.in_flight(), 3);
}

#[test]
fn a_neighbour_that_has_had_a_packet_of_the_lane_before_does_not_stop_this_one() {
    let (mut from, mut to) = ready();
    push(&mut from, 100, 0..40);
    arrive(&mut to, 100, &[500]);
    let mut sent = Vec::new();
    for ms in 100..1_000 {
        let now = send_all(&mut from, ms, ms);
        arrive(&mut to, ms, &now);
        sent.extend(now);
        let bytes = ack(&mut to, at(ms), 100);
        hear(&mut from, at(ms), &bytes);
    }
    assert_eq!(sent, (0..40).collect::<Vec<_>>());
    assert!(from.sender.is_empty() && from.sender.stats().bogus > 0);
}

#[test]
fn what_is_given_up_is_told_until_it_is_heard() {
    let (mut from, mut to) = ready();
    push(&mut from, 100, 0..20);
    let sent = send_all(&mut from, 100, 100).len();
    assert!(sent < 20);
    arrive(&mut to, 105, &[1]);
    let bytes = ack(&mut to, at(105), 100);
    hear(&mut from, at(110), &bytes);
    let mut other_way = Vec::new();
    from.sender
        .give_up(|packet| other_way.push(number(&packet.bytes)));
    other_way.sort_unstable();
    let rest: Vec<u32> = (0..20).filter(|n| *n != 1).collect();
    assert_eq!(other_way, rest);
    assert!(from.sender.is_empty());
    let skip = from.sender.poll_skip().unwrap();
    assert_eq!(skip.first.value() as usize, sent);
    assert_eq!(from.sender.poll_skip(), None);
    // The message was lost. The sender repeats it when no acknowledgement comes.
    from.sender.resume(at(200));
    send_all(&mut from, 200, 2_000);
    assert_eq!(from.sender.poll_skip(), Some(skip));
    to.receiver.on_skip(skip);
    let bytes = ack(&mut to, at(2_001), 100);
    hear(&mut from, at(2_002), &bytes);
    send_all(&mut from, 2_002, 9_000);
    assert_eq!(from.sender.poll_skip(), None);
    push(&mut from, 9_000, 20..21);
    let next = send_all(&mut from, 9_000, 9_000);
    assert_eq!(next, [sent as u32]);
}

#[test]
fn packets_that_wait_for_long_are_marked() {
    let (mut from, _) = ready();
    for n in 0..60 {
        let packet = packet(0, n, 500);
        from.sender.push(at(100), &packet, Some(1)).unwrap();
    }
    let early = send(&mut from, at(100));
    let is_marked = |packet: &[u8]| Header::trusted(packet).is_congested();
    assert!(early.iter().all(|(_, packet)| !is_marked(packet)));
    // Timeouts let a few packets leave, long after they came.
    let late: Vec<_> = (101..2_000).flat_map(|t| send(&mut from, at(t))).collect();
    let new = late.iter().filter(|(seq, _)| *seq >= 10);
    assert!(new.clone().all(|(_, packet)| is_marked(packet)));
    assert_eq!(from.sender.stats().marked, new.count() as u64);
}

#[test]
fn a_slow_start_ends_at_the_queue_that_calls_beside_wait_in() {
    let grown = |queue_from| {
        let (mut from, mut to) = ready();
        from.sender.spare_calls([queue_from, None, None, None]);
        push(&mut from, 100, 0..400);
        for start in (100..200).step_by(20) {
            let sent = send_all(&mut from, start, start + 9);
            arrive(&mut to, start + 10, &sent);
            let bytes = ack(&mut to, at(start + 10), 1_000);
            hear(&mut from, at(start + 10), &bytes);
        }
        from.sender.congestion_window()
    };
    assert!(grown(None) >= 160.0, "{}", grown(None));
    assert_eq!(grown(None), grown(Some(ms(100))));
    // Every round trip is long: the third one ends slow start.
    assert!(grown(Some(ms(0))) <= 50.0, "{}", grown(Some(ms(0))));
}

#[test]
fn n_flows_lose_the_share_of_one() {
    let settings = Settings {
        flows_max: 4,
        ..Settings::default()
    };
    let mut from = Lane::new(settings);
    from.sender.seed_rtt(at(0), ms(10));
    for flow in 0..8 {
        for n in 0..20 {
            from.sender
                .push(at(100), &packet(flow, n, 100), None)
                .unwrap();
        }
    }
    assert_eq!(from.sender.flows(), 4);
    let window = from.sender.congestion_window();
    assert_eq!(window, 40.0);
    let sent = send_all(&mut from, 100, 120);
    let mut to = lane();
    arrive(&mut to, 121, &sent[1..8]);
    let bytes = ack(&mut to, at(121), 1_000);
    hear(&mut from, at(121), &bytes);
    assert_eq!(from.sender.stats().cuts, 1);
    let kept = from.sender.congestion_window() / window;
    assert!((0.85..1.2).contains(&kept), "{kept}");
}

fn hold(to: u32, room: u16) -> Hold {
    Hold {
        destination: NodeAddr(to),
        routing: Routing::Hops,
        room,
    }
}

fn told(lane: &Lane, now: u64, came: u16) -> Vec<Hold> {
    let mut holds = Vec::new();
    lane.sender.holds_for(at(now), came, &mut holds);
    holds
}

#[test]
fn neighbours_are_told_of_destinations_that_wait_but_not_by_a_dead_lane() {
    let (mut from, _) = ready();
    for n in 0..380 {
        from.sender
            .push(at(100), &packet_to(8, 0, n), Some(3))
            .unwrap();
    }
    from.sender
        .push(at(100), &packet_to(9, 0, 0), Some(3))
        .unwrap();
    send_all(&mut from, 100, 100);
    assert_eq!(told(&from, 100, 3), [hold(8, 0)], "9 has its part");
    assert_eq!(told(&from, 100, 4), [], "it sent nothing");
    let flow = |n| FlowKey::of(&Header::trusted(packet_to(n, 0, 0)));
    assert_eq!(from.sender.room(&flow(8)), 0);
    assert!(from.sender.ask_room(&flow(10), 7) >= 16, "its part");
    // The lane has taken nothing for a second: other lanes must not wait for it.
    assert_eq!(told(&from, 1_200, 3), []);
}

#[test]
fn what_is_held_stands_aside_and_the_rest_goes_on() {
    let (mut from, mut to) = ready();
    from.sender.on_hold(at(100), hold(8, 2));
    for n in 0..6 {
        from.sender
            .push(at(100), &packet_to(8, 0, n), None)
            .unwrap();
        from.sender
            .push(at(100), &packet_to(9, 0, 10 + n), None)
            .unwrap();
    }
    let numbers = |sent: Vec<(u32, Vec<u8>)>| -> Vec<u32> {
        sent.iter().map(|(_, packet)| number(packet)).collect()
    };
    let mut sent = numbers(send(&mut from, at(100)));
    sent.extend(numbers(send(&mut from, at(104))));
    sent.sort_unstable();
    assert_eq!(sent, [0, 1, 10, 11, 12, 13, 14, 15]);
    assert_eq!(from.sender.queued(), 4);
    // Packets that have arrived make room for as many, whichever flow asks first.
    arrive(&mut to, 110, &[0, 1, 2, 3, 4, 5, 6, 7]);
    let bytes = ack(&mut to, at(110), 100);
    hear(&mut from, at(110), &bytes);
    assert_eq!(numbers(send(&mut from, at(110))), [2, 3]);
    from.sender.on_hold(at(120), hold(8, 3));
    assert_eq!(numbers(send(&mut from, at(120))), [4]);
    // A hold that is not repeated ends.
    from.sender.on_hold(at(125), hold(8, 0));
    arrive(&mut to, 130, &[8, 9, 10]);
    let bytes = ack(&mut to, at(130), 100);
    hear(&mut from, at(130), &bytes);
    assert_eq!(from.sender.next_timeout(), Some(at(425)));
    let rest: Vec<u32> = (130..430)
        .flat_map(|ms| numbers(send(&mut from, at(ms))))
        .collect();
    assert_eq!(rest, [5]);
}

/// Runs a lane over a path with a one-way delay of `way_ms`, each millisecond until `end`; packets wait from 120 on.
/// `arrives` says whether a packet that leaves now arrives. Returns when which numbers left, and the lane.
fn carried(way_ms: u64, end: u64, arrives: impl Fn(u64) -> bool) -> (Vec<(u64, u32)>, Lane) {
    let (mut from, mut to) = ready();
    push(&mut from, 100, 0..10);
    let (mut sent, mut there, mut back) = (Vec::new(), Vec::new(), Vec::new());
    for now in 100..end {
        if now == 120 {
            push(&mut from, now, 10..40);
        }
        let came: Vec<u32> = taken(&mut there, now);
        if !came.is_empty() {
            arrive(&mut to, now, &came);
            back.push((now + way_ms, ack(&mut to, at(now), 1_000)));
        }
        for bytes in taken(&mut back, now) {
            hear(&mut from, at(now), &bytes);
        }
        for seq in send_all(&mut from, now, now) {
            sent.push((now, seq));
            if arrives(now) {
                there.push((now + way_ms, seq));
            }
        }
    }
    (sent, from)
}

/// Removes the entries that are due by now from the list, and returns them.
fn taken<T>(waits: &mut Vec<(u64, T)>, now: u64) -> Vec<T> {
    waits
        .extract_if(.., |(due, _)| *due <= now)
        .map(|(_, it)| it)
        .collect()
}

#[test]
fn a_path_that_has_become_slow_costs_neither_window_nor_packets() {
    let (sent, lane) = carried(235, 2_000, |_| true);
    let stats = lane.sender.stats();
    assert!(stats.timeouts > 0 && lane.sender.is_empty(), "{stats:?}");
    assert!(lane.sender.congestion_window() >= 10.0);
    // These are the probes and the retransmissions after the timeout, but not all packets that the timeout took for
    // lost.
    assert!(stats.retransmissions < 10, "{stats:?}");
    // All packets left in the second round trip, as they would have without the timeout.
    let last = sent.iter().map(|(now, _)| *now).max();
    assert!(last < Some(1_300), "{last:?}");
}

#[test]
fn a_path_that_has_lost_all_is_sent_all_again() {
    let (sent, lane) = carried(5, 2_000, |now| now >= 300);
    let stats = lane.sender.stats();
    assert!(stats.timeouts > 0 && lane.sender.is_empty(), "{stats:?}");
    let again = |n: &u32| sent.iter().filter(|(_, seq)| seq == n).count() >= 2;
    assert!((0..10).all(|n| again(&n)), "{sent:?}");
}

#[test]
fn what_an_outage_has_taken_is_sent_again_whatever_came_before_it() {
    let (mut from, mut to) = ready();
    push(&mut from, 100, 0..10);
    assert_eq!(send_all(&mut from, 100, 110).len(), 10);
    // Half of them arrived. Then nothing passed in either direction.
    arrive(&mut to, 107, &[0, 1, 2, 3, 4]);
    let bytes = ack(&mut to, at(700), 1_000);
    from.sender.resume(at(705));
    hear(&mut from, at(705), &bytes);
    assert_eq!(send_all(&mut from, 705, 715), [5, 6, 7, 8, 9]);
}
