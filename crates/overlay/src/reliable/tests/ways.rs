//! Tests of a lane over two paths: which packets take the second path, and for which path a loss counts.

use super::world::{at, hear, lane, ms, number, packet, packet_within};
use crate::reliable::{Lane, Open};
use base::{Duration, Time};
use wire::control::Builder;
use wire::data::{Header, LaneSeq};

const SPARE: u8 = 1;

fn spare() -> Open {
    Open {
        way: SPARE,
        rtt: ms(80),
        packet_bytes: 500,
    }
}

/// Returns a lane with two paths, with round trips of 20 and 80 ms.
fn two() -> Lane {
    let mut lane = lane();
    lane.sender.seed_rtt(at(0), ms(20));
    lane.sender.open_ways(at(0), &[spare()], false);
    lane
}

fn push(lane: &mut Lane, now: Time, flow: u16, numbers: core::ops::Range<u32>, bytes: usize) {
    for number in numbers {
        let packet = packet(flow, number, bytes);
        assert!(matches!(lane.sender.push(now, &packet, None), Ok(None)));
    }
}

/// Lets everything leave that may leave by a path now. Returns lane numbers and packets.
fn leave(lane: &mut Lane, now: Time, way: u8) -> Vec<(u32, u32)> {
    let mut left = Vec::new();
    lane.sender.on_timeout(now);
    while lane.sender.peek(now, way, &|_| None).is_some() {
        let packet = lane.sender.take(now, way).unwrap();
        let seq = Header::trusted(packet.bytes).lane_seq().value();
        left.push((seq, number(packet.bytes)));
    }
    left
}

/// The other end acknowledges these numbers; the last one has just arrived.
fn acknowledge(lane: &mut Lane, now: Time, came: &[u32]) {
    let mut other = crate::reliable::Receiver::default();
    for seq in came {
        other.on_packet(now, Duration::ZERO, LaneSeq::new(*seq));
    }
    let mut bytes = vec![0; 1_400];
    let mut builder = Builder::new(&mut bytes);
    let head = other.acknowledge(now, 1_000);
    builder.reliable_ack(&head, other.ranges()).unwrap();
    let len = builder.len();
    hear(lane, now, &bytes[..len]);
}

#[test]
fn the_spare_takes_what_others_of_its_flow_wait_behind() {
    let mut lane = two();
    // The window of the path in use is full.
    push(&mut lane, at(0), 1, 0..200, 200);
    let mut now = 0;
    let mut first = 0;
    while lane.sender.in_flight() < 10 {
        first += leave(&mut lane, at(now), 0).len();
        now += 1;
    }
    assert_eq!(first, 10);
    assert_eq!(leave(&mut lane, at(now), 0), []);
    let second = leave(&mut lane, at(now), SPARE);
    assert!(!second.is_empty());
    // Another flow has one packet, which is next and waits for the better path. The bulk data behind it does not wait.
    push(&mut lane, at(now), 2, 1_000..1_001, 200);
    let third = leave(&mut lane, at(now + 50), SPARE);
    assert!(!third.is_empty(), "one packet shuts no path");
    assert!(third.iter().all(|(_, number)| *number < 1_000), "{third:?}");
    // Once that flow has two packets, its packet is next here too.
    let come: Vec<u32> = second.iter().chain(&third).map(|(seq, _)| *seq).collect();
    acknowledge(&mut lane, at(now + 130), &come);
    push(&mut lane, at(now + 130), 2, 1_001..1_002, 200);
    let fourth = leave(&mut lane, at(now + 130), SPARE);
    assert_eq!(fourth[0].1, 1_000, "{fourth:?}");
    // Packets that are too long for the spare wait for the other path.
    push(&mut lane, at(now + 130), 3, 2_000..2_010, 800);
    let fifth = leave(&mut lane, at(now + 500), SPARE);
    assert!(
        !fifth.is_empty() && fifth.iter().all(|(_, number)| *number < 2_000),
        "{fifth:?}"
    );
}

/// The path in use takes 10 ms and the spare 70 ms. A packet with 50 ms left leaves by the first path when its window
/// opens.
#[test]
fn a_longer_spare_takes_nothing_that_it_would_bring_too_late_and_gives_nothing_up() {
    let mut lane = two();
    for number in 0..40 {
        let packet = packet_within(1, number, 200, ms(50));
        assert!(matches!(lane.sender.push(at(0), &packet, None), Ok(None)));
    }
    let mut first = Vec::new();
    let mut now = 0;
    while lane.sender.in_flight() < 10 {
        first.extend(leave(&mut lane, at(now), 0));
        now += 1;
    }
    assert_eq!(leave(&mut lane, at(now), SPARE), []);
    assert_eq!((lane.sender.take_overdue(), first.len()), (0, 10));
    let come: Vec<u32> = first.iter().map(|(seq, _)| *seq).collect();
    acknowledge(&mut lane, at(now + 10), &come);
    assert!(!leave(&mut lane, at(now + 10), 0).is_empty());
    assert_eq!(lane.sender.take_overdue(), 0);
    // The path in use gives up what has become too old for it.
    leave(&mut lane, at(45), 0);
    assert!(lane.sender.take_overdue() > 0);
}

/// A late acknowledgement of a path that has ended says nothing about the next path with the same number.
#[test]
fn what_arrives_after_its_path_has_ended_makes_no_losses_on_the_next_one() {
    let mut lane = two();
    push(&mut lane, at(0), 1, 0..60, 200);
    let mut before = Vec::new();
    for now in 0..60 {
        before.extend(leave(&mut lane, at(now), SPARE));
    }
    assert!(before.len() >= 6, "{before:?}");
    lane.sender.end_path(at(60), SPARE);
    lane.sender.open_ways(at(70), &[spare()], false);
    // The last packet has arrived after all.
    let come = vec![before[before.len() - 1].0];
    acknowledge(&mut lane, at(80), &come);
    let mut after = Vec::new();
    for now in 80..140 {
        after.extend(leave(&mut lane, at(now), SPARE));
    }
    assert!(after.len() >= 4, "{after:?}");
    lane.sender.on_timeout(at(141));
    assert_eq!(lane.sender.in_flight(), after.len(), "none is overtaken");
    assert_eq!(lane.sender.stats().cuts, 0);
    // And an acknowledgement of the first packet makes none of the others lost.
    let come = vec![before[before.len() - 1].0, after[0].0];
    acknowledge(&mut lane, at(165), &come);
    lane.sender.on_timeout(at(165));
    assert_eq!(lane.sender.in_flight(), after.len() - 1);
    assert_eq!(lane.sender.stats().cuts, 0);
}

/// Calls take the spare while the other path is in doubt: bulk data makes no queue there.
#[test]
fn a_spare_that_calls_take_gets_no_queue() {
    let window = |queue_from| {
        let mut lane = two();
        lane.sender.open_ways(at(0), &[spare()], true);
        lane.sender.spare_calls([None, queue_from, None, None]);
        push(&mut lane, at(0), 1, 0..400, 200);
        let mut come: Vec<u32> = Vec::new();
        for round in 0..5 {
            let begun = round * 120;
            let mut sent = Vec::new();
            for now in begun..begun + 90 {
                sent.extend(leave(&mut lane, at(now), SPARE));
            }
            come.extend(sent.iter().map(|(seq, _)| *seq));
            acknowledge(&mut lane, at(begun + 110), &come);
        }
        lane.sender.congestion_window()
    };
    assert!(window(Some(ms(1))) * 2.0 < window(None));
}

/// The turns of priorities do not depend on failed attempts: a path that takes none of the waiting packets uses up no
/// turn.
#[test]
fn who_takes_nothing_uses_up_no_turn() {
    let turns = |asks: bool| {
        let mut lane = two();
        // All packets are too long for the spare.
        let long = |flow: u16, numbers: core::ops::Range<u32>, priority: u8, lane: &mut Lane| {
            for number in numbers {
                let mut packet = packet(flow, number, 800);
                let mut header = Header::trusted(&mut packet[..]);
                let class = header.class();
                header.set_class(wire::data::Class { priority, ..class });
                assert!(matches!(lane.sender.push(at(0), &packet, None), Ok(None)));
            }
        };
        long(1, 0..100, 5, &mut lane);
        long(2, 1_000..1_010, 1, &mut lane);
        let mut order = Vec::new();
        for now in 0..2_000 {
            let now = at(now);
            if asks {
                assert_eq!(leave(&mut lane, now, SPARE), []);
            }
            let left = leave(&mut lane, now, 0);
            let seqs: Vec<u32> = left.iter().map(|(seq, _)| *seq).collect();
            order.extend(left.iter().map(|(_, number)| *number));
            let all: Vec<u32> = (0..order.len() as u32).collect();
            if !seqs.is_empty() {
                acknowledge(&mut lane, now, &all);
            }
        }
        order
    };
    let alone = turns(false);
    assert_eq!(alone.len(), 110);
    assert!(alone[..40].iter().any(|number| *number >= 1_000));
    assert_eq!(turns(true), alone);
}

/// Three packets that left later have arrived by the shorter path. That makes no packet of the longer path lost.
#[test]
fn what_a_shorter_path_brings_sooner_makes_no_losses_on_the_longer_one() {
    let mut lane = two();
    push(&mut lane, at(0), 1, 0..40, 200);
    let (mut longer, mut shorter) = (Vec::new(), Vec::new());
    for now in 0..20 {
        longer.extend(leave(&mut lane, at(now), SPARE));
    }
    for now in 20..30 {
        shorter.extend(leave(&mut lane, at(now), 0));
    }
    assert!(
        longer.len() >= 4 && shorter.len() >= 5,
        "{longer:?} {shorter:?}"
    );
    let came: Vec<u32> = shorter.iter().map(|(seq, _)| *seq).collect();
    acknowledge(&mut lane, at(50), &came);
    lane.sender.on_timeout(at(55));
    assert_eq!(lane.sender.in_flight(), longer.len());
    let again = lane.sender.stats().retransmissions;
    // The first packet of the longer path was lost: three later ones of the same path have arrived.
    let mut came = came;
    came.extend(longer.iter().skip(1).map(|(seq, _)| *seq));
    acknowledge(&mut lane, at(100), &came);
    let mut repaired = Vec::new();
    for now in 100..110 {
        repaired.extend(leave(&mut lane, at(now), 0));
    }
    assert_eq!(
        repaired[0].0, longer[0].0,
        "it goes out first, by the path that has room"
    );
    assert_eq!(lane.sender.stats().retransmissions, again + 1);
    assert_eq!(lane.sender.stats().timeouts, 0);
}

#[test]
fn what_is_on_a_silent_path_goes_by_the_other_at_once() {
    for silent in [0, SPARE] {
        let mut lane = two();
        push(&mut lane, at(0), 1, 0..12, 200);
        let mut left = [Vec::new(), Vec::new()];
        for now in 0..20 {
            left[1].extend(leave(&mut lane, at(now), SPARE));
            left[0].extend(leave(&mut lane, at(now), 0));
        }
        assert!(left.iter().all(|left| !left.is_empty()));
        assert_eq!(lane.sender.in_flight(), 12);
        let rests = silent == 0;
        let open = [spare()];
        lane.sender
            .open_ways(at(20), if rests { &open } else { &[] }, rests);
        lane.sender.lose_path(at(20), silent);
        let other = if rests { SPARE } else { 0 };
        let lost: Vec<u32> = left[usize::from(silent)]
            .iter()
            .map(|(seq, _)| *seq)
            .collect();
        let mut again = Vec::new();
        for now in 20..40 {
            assert_eq!(leave(&mut lane, at(now), silent), [], "nothing takes it");
            again.extend(leave(&mut lane, at(now), other).iter().map(|(seq, _)| *seq));
        }
        // As many leave as the window of the other path has room for, in their order.
        let room = (10 - left[usize::from(other)].len()).min(lost.len());
        assert!(room > 0 && again.len() == room, "{again:?} of {lost:?}");
        assert_eq!(again[..], lost[..room]);
        // Packets that were late and not lost arrive twice. Each number is acknowledged once.
        let all: Vec<u32> = (0..12).collect();
        acknowledge(&mut lane, at(45), &all);
        assert!(lane.sender.is_empty());
        assert_eq!(lane.sender.in_flight(), 0);
    }
}

/// A neighbour acknowledges packets that were never sent by any path.
#[test]
fn what_was_not_sent_opens_no_window() {
    let mut lane = two();
    push(&mut lane, at(0), 1, 0..40, 200);
    let sent = leave(&mut lane, at(0), SPARE).len() as u32;
    let window = lane.sender.congestion_window();
    let lies: Vec<u32> = (0..sent + 20).collect();
    acknowledge(&mut lane, at(1), &lies);
    assert_eq!(lane.sender.stats().bogus, 1);
    assert_eq!(lane.sender.congestion_window(), window);
    assert_eq!(lane.sender.in_flight(), sent as usize);
}

/// The receiver uses the gap before a packet on the lane, whatever the path. So the acknowledgement of a packet that
/// takes the spare alone may wait too.
#[test]
fn what_a_spare_takes_now_and_then_beside_a_thin_path_in_use_is_asked_for_no_sooner_than_its_acknowledgement_may_come()
 {
    let asked_at = |gap: u64| {
        let mut lane = two();
        lane.on_peer(true);
        push(&mut lane, at(0), 1, 0..1, 200);
        let mut come: Vec<u32> = leave(&mut lane, at(500 - gap), 0)
            .iter()
            .map(|p| p.0)
            .collect();
        push(&mut lane, at(500), 1, 1..3, 200);
        let spare = leave(&mut lane, at(500), SPARE);
        assert_eq!(spare.len(), 1);
        come.extend(leave(&mut lane, at(500), 0).iter().map(|p| p.0));
        acknowledge(&mut lane, at(510), &come);
        (510..1_000).find(|now| !leave(&mut lane, at(*now), SPARE).is_empty())
    };
    let (alone, beside) = (asked_at(400).unwrap(), asked_at(10).unwrap());
    assert_eq!(beside, alone + 18, "20 ms for 2");
}
