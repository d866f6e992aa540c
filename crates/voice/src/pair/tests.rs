use super::*;
use crate::rtp::Header;
use proptest::prelude::*;

fn rtp(seq: u16, ssrc: u32) -> Vec<u8> {
    let header = Header {
        marker: false,
        payload_type: 33,
        seq,
        timestamp: u32::from(seq),
        ssrc,
    };
    header.to_bytes().to_vec()
}

fn ms(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

fn seq(packet: &[u8]) -> u16 {
    Packet::parse(packet).unwrap().header().seq
}

/// Gives a merger packets (time, path, number) and returns what it forwarded, and when.
fn play(merger: &mut Merger, packets: &[(u64, usize, u16)]) -> Vec<(u64, u16)> {
    let mut sent = Vec::new();
    for &(at, leg, number) in packets {
        let until = ms(at);
        while let Some(due) = merger.next_timeout().filter(|due| *due <= until) {
            merger.on_timeout(due, &mut |packet| sent.push((due, seq(packet))));
        }
        merger.on_packet(until, leg, &rtp(number, 7), &mut |packet| {
            sent.push((until, seq(packet)))
        });
    }
    while let Some(due) = merger.next_timeout() {
        merger.on_timeout(due, &mut |packet| sent.push((due, seq(packet))));
    }
    let in_ms = |(at, seq): (Time, u16)| (at.as_micros() / 1_000, seq);
    sent.into_iter().map(in_ms).collect()
}

#[test]
fn what_one_way_loses_the_other_has() {
    let mut merger = Merger::new(WINDOW);
    // The first path loses 9 and the second 11; the second is 20 ms behind.
    let sent = play(
        &mut merger,
        &[
            (0, 0, 8),
            (2, 0, 10),
            (3, 0, 11),
            (20, 1, 8),
            (21, 1, 9),
            (22, 1, 10),
            (24, 1, 12),
            (25, 0, 12),
        ],
    );
    assert_eq!(sent, [(0, 8), (21, 9), (21, 10), (21, 11), (24, 12)]);
    let [first, second] = *merger.legs();
    assert_eq!((first.received, first.lost, first.first), (4, 1, 3));
    assert_eq!((second.received, second.lost, second.first), (4, 1, 2));
    assert_eq!(second.behind_max, Duration::from_millis(20));
    assert_eq!(
        merger.merged(),
        Merged {
            sent: 5,
            lost: 0,
            restarts: 0
        }
    );
}

#[test]
fn what_neither_has_is_waited_for_no_longer_than_the_window() {
    let mut merger = Merger::new(WINDOW);
    let sent = play(
        &mut merger,
        &[(0, 0, 1), (10, 0, 3), (11, 1, 4), (61, 0, 2)],
    );
    assert_eq!(sent, [(0, 1), (60, 3), (60, 4)]);
    assert_eq!(merger.merged().lost, 1);
    assert_eq!(merger.legs()[0].late, 1);
}

#[test]
fn nothing_is_given_up_before_both_ways_were_read() {
    let mut merger = Merger::new(WINDOW);
    let mut sent = Vec::new();
    // After a pause of 400 ms, the first path is read, then the second.
    for (at, leg, number) in [(0, 0, 1), (1, 0, 3), (400, 0, 5), (400, 1, 2), (400, 1, 4)] {
        merger.on_packet(ms(at), leg, &rtp(number, 7), &mut |p| sent.push(seq(p)));
    }
    merger.on_timeout(ms(400), &mut |p| sent.push(seq(p)));
    assert_eq!(sent, [1, 2, 3, 4, 5]);
    assert_eq!(merger.merged().lost, 0);
}

#[test]
fn numbers_wrap() {
    let mut merger = Merger::new(WINDOW);
    let sent = play(
        &mut merger,
        &[(0, 0, 65_534), (1, 0, 0), (2, 1, 65_535), (3, 0, 1)],
    );
    assert_eq!(sent, [(0, 65_534), (2, 65_535), (2, 0), (3, 1)]);
}

#[test]
fn a_stranger_is_foreign_until_the_stream_is_silent() {
    let mut merger = Merger::new(WINDOW);
    let mut sent = Vec::new();
    let mut give =
        |at, packet: Vec<u8>| merger.on_packet(ms(at), 0, &packet, &mut |p| sent.push(seq(p)));
    give(0, rtp(5, 7));
    give(1, rtp(900, 8)); // another source
    give(2, rtp(20_000, 7)); // another place
    give(3, vec![0x47; 188]); // no RTP
    give(4, rtp(6, 7));
    give(200, rtp(900, 8));
    give(201, rtp(901, 8));
    assert_eq!(sent, [5, 6, 900, 901]);
    assert_eq!(merger.legs()[0].foreign, 3);
    assert_eq!(merger.merged().restarts, 1);
}

/// Returns packets by both paths from a time on, one each millisecond, the second `behind` later.
fn both(from: u64, numbers: core::ops::Range<u16>, behind: u64) -> Vec<(u64, usize, u16)> {
    let first = numbers.start;
    let at = |number: u16| from + u64::from(number - first);
    let all =
        numbers.flat_map(|number| [(at(number), 0, number), (at(number) + behind, 1, number)]);
    let mut all: Vec<_> = all.collect();
    all.sort_by_key(|packet| packet.0);
    all
}

fn numbers(sent: &[(u64, u16)]) -> Vec<u16> {
    sent.iter().map(|(_, number)| *number).collect()
}

#[test]
fn an_encoder_that_begins_its_numbers_anew_is_heard() {
    for (first, again) in [
        (0..5_000, 0..100),
        (0..5_000, 4_000..4_100),
        (0..50, 0..100),
    ] {
        let mut merger = Merger::new(WINDOW);
        let mut packets = both(0, first.clone(), 20);
        packets.extend(both(u64::from(first.end) + 2_000, again.clone(), 20));
        let sent = play(&mut merger, &packets);
        let expected: Vec<u16> = first.clone().chain(again.clone()).collect();
        assert_eq!(numbers(&sent), expected, "{first:?}, {again:?}");
        assert_eq!(merger.merged().restarts, 1);
        assert_eq!(merger.merged().lost, 0);
    }
    // The restarted stream arrives by a path that was dead until then.
    let mut merger = Merger::new(WINDOW);
    let one_way = both(0, 0..5_000, 20)
        .into_iter()
        .filter(|packet| packet.1 == 0);
    let mut packets: Vec<_> = one_way.collect();
    packets.extend(
        both(7_000, 0..100, 20)
            .into_iter()
            .filter(|packet| packet.1 == 1),
    );
    let sent = play(&mut merger, &packets);
    assert_eq!((sent.len(), merger.merged().restarts), (5_100, 1));
    // Without a pause, its first packets look like copies until 100 ms after the second path last advanced. Then that
    // path is taken first: 79 arrives by it when 99 arrives by the other.
    let mut merger = Merger::new(WINDOW);
    let mut packets = both(0, 0..5_000, 20);
    packets.extend(both(5_020, 0..1_000, 20));
    let sent = play(&mut merger, &packets);
    assert_eq!(numbers(&sent)[5_000..], (79..1_000).collect::<Vec<_>>());
    assert_eq!(merger.merged().restarts, 1);
}

#[test]
fn a_way_that_is_behind_goes_on_where_the_other_has_died() {
    for behind in [40, 300] {
        let mut merger = Merger::new(WINDOW);
        let packets = both(0, 0..5_000, behind).into_iter();
        let packets: Vec<_> = packets
            .filter(|(at, leg, _)| *leg == 1 || *at < 2_000)
            .collect();
        let sent = play(&mut merger, &packets);
        assert_eq!(
            numbers(&sent),
            (0..5_000).collect::<Vec<_>>(),
            "{behind} ms"
        );
        assert_eq!(merger.merged().restarts, 0);
    }
    // A pause of both paths does not end the stream.
    let mut merger = Merger::new(WINDOW);
    let mut packets = both(0, 0..100, 40);
    packets.extend(both(5_000, 100..200, 40));
    let sent = play(&mut merger, &packets);
    assert_eq!(numbers(&sent), (0..200).collect::<Vec<_>>());
    assert_eq!(merger.merged().restarts, 0);
}

#[test]
fn a_late_packet_after_a_pause_is_not_a_new_stream() {
    for number in [99, 60, 20_000] {
        let mut merger = Merger::new(WINDOW);
        let mut packets = both(0, 0..100, 10);
        // The same packet arrives once more, by each path.
        packets.extend([(1_000, 0, number), (1_001, 1, number)]);
        packets.extend(both(1_002, 100..200, 10));
        let sent = play(&mut merger, &packets);
        assert_eq!(numbers(&sent), (0..200).collect::<Vec<_>>(), "{number}");
        assert_eq!(merger.merged().restarts, 0);
    }
}

#[test]
fn what_waits_is_bounded() {
    let mut merger = Merger::new(Duration::from_secs(10));
    let mut count = 0;
    merger.on_packet(ms(0), 0, &rtp(0, 7), &mut |_| count += 1);
    for number in 0..HELD_MAX as u32 + 100 {
        // Every second packet is missing.
        merger.on_packet(ms(1), 0, &rtp((2 * number + 2) as u16, 7), &mut |_| {
            count += 1
        });
        assert!(merger.held() <= HELD_MAX);
    }
    let long = Merger::new(Duration::from_secs(10));
    let mut merger = long;
    let mut packet = rtp(0, 7);
    packet.resize(60_000, 0);
    for number in 0..500_u16 {
        packet[2..4].copy_from_slice(&(2 * number).to_be_bytes());
        merger.on_packet(ms(1), 0, &packet, &mut |_| ());
    }
    assert!(merger.held_bytes <= HELD_BYTES_MAX);
}

/// Returns each packet that at least one path delivered, once and in order.
fn naive(packets: &[(u64, usize, u16)]) -> Vec<u16> {
    let mut all: Vec<u16> = packets.iter().map(|(.., number)| *number).collect();
    all.sort_unstable();
    all.dedup();
    all
}

proptest! {
    /// Two paths lose and delay packets at random, by less than the window.
    #[test]
    fn two_ways_give_the_union_in_order(
        fates in prop::collection::vec((any::<[bool; LEGS]>(), [0_u64..40, 0..40]), 1..200),
    ) {
        // The first packet arrives by both at once: packets before the first are not part of the stream.
        let mut packets = vec![(0, 0, 0), (0, 1, 0)];
        for (n, (has, delays)) in fates.iter().enumerate() {
            for leg in 0..LEGS {
                if has[leg] {
                    packets.push((n as u64 + delays[leg], leg, n as u16 + 1));
                }
            }
        }
        packets.sort_by_key(|packet| packet.0);
        let mut merger = Merger::new(WINDOW);
        let sent = play(&mut merger, &packets);
        let arrived = |number| packets.iter().filter(move |p| p.2 == number).map(|p| p.0).min().unwrap();
        for (at, number) in &sent {
            prop_assert!(at - arrived(*number) <= WINDOW.as_millis());
        }
        let sent: Vec<u16> = sent.into_iter().map(|(_, number)| number).collect();
        prop_assert_eq!(sent, naive(&packets));
        for (leg, counts) in merger.legs().iter().enumerate() {
            let mine = packets.iter().filter(|packet| packet.1 == leg);
            let last = mine.clone().map(|packet| u64::from(packet.2)).max().unwrap();
            prop_assert_eq!(counts.received, mine.clone().count() as u64);
            prop_assert_eq!(counts.lost, last + 1 - mine.count() as u64);
            prop_assert_eq!(counts.late, 0);
        }
    }

    /// Whatever arrives: packets leave in order, each once, and none waits longer than the window. After a long time
    /// without anything new, the numbers restart.
    #[test]
    fn any_packets_go_on_in_order(packets in prop::collection::vec((0_u64..30, 0..LEGS, 0_u16..300), 1..200)) {
        let mut at = 0;
        let packets: Vec<_> = packets.into_iter().map(|(wait, leg, number)| {
            at += wait;
            (at, leg, number)
        }).collect();
        let mut merger = Merger::new(WINDOW);
        // The packets that were forwarded, and after how many restarts.
        let mut sent = Vec::new();
        for (at, leg, number) in packets {
            while let Some(due) = merger.next_timeout().filter(|due| *due <= ms(at)) {
                let restarts = merger.merged().restarts;
                merger.on_timeout(due, &mut |packet| sent.push((restarts, seq(packet))));
            }
            let mut now = Vec::new();
            let before = merger.merged();
            merger.on_packet(ms(at), leg, &rtp(number, 7), &mut |packet| now.push(seq(packet)));
            let after = merger.merged();
            // Held packets of the old stream leave before the new one begins.
            let old = (after.sent - before.sent) as usize - now.iter().rev().take_while(|n| **n == number || **n + 1 == number).count();
            let restarts = |n| if n < old { before.restarts } else { after.restarts };
            sent.extend(now.into_iter().enumerate().map(|(n, seq)| (restarts(n), seq)));
        }
        while let Some(due) = merger.next_timeout() {
            let restarts = merger.merged().restarts;
            merger.on_timeout(due, &mut |packet| sent.push((restarts, seq(packet))));
        }
        prop_assert!(sent.is_sorted(), "{:?}", sent);
        prop_assert_eq!(sent.len() as u64, merger.merged().sent);
        prop_assert_eq!(merger.held(), 0);
    }
}
