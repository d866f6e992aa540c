//! The table of flows step by step, and against a set that forgets nothing.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn at_ms(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

fn key(n: u32) -> FlowKey {
    FlowKey {
        source: NodeAddr(n),
        source_port: VirtualPort(7000),
        destination: NodeAddr(1),
        destination_port: VirtualPort(8000),
    }
}

/// The salt of a node that nobody knows.
const SALT: u64 = 0x2545_f491_4f6c_dd1d;

fn note(flows: &mut Flows, now: Time, flow: u32, seq: u32) -> Verdict {
    flows.on_packet(now, key(flow), FlowSeq(seq), 100).0
}

#[test]
fn copies_are_recognised_and_counted() {
    let mut flows = Flows::new(SALT);
    assert_eq!(note(&mut flows, at_ms(0), 1, 10), Verdict::New);
    assert_eq!(note(&mut flows, at_ms(1), 1, 10), Verdict::Duplicate);
    assert_eq!(
        note(&mut flows, at_ms(2), 1, 9),
        Verdict::New,
        "late is not double"
    );
    assert_eq!(
        note(&mut flows, at_ms(3), 2, 10),
        Verdict::New,
        "another flow"
    );
    let flow = flows.find(&key(1)).unwrap();
    assert_eq!((flow.packets, flow.bytes, flow.duplicates), (2, 200, 1));
    assert_eq!((flow.first_seen, flow.last_seen), (at_ms(0), at_ms(2)));
    assert_eq!(flows.iter().map(|f| f.packets).sum::<u64>(), 3);
}

/// A stamped packet's second copy may arrive by a path with a long queue, long after the talkspurt is over. Only a
/// packet behind all remembered numbers belongs to a restarted source.
#[test]
fn a_slow_copy_is_no_restarted_source() {
    let mut flows = Flows::new(SALT);
    let mut stamped = |ms, seq| flows.on_stamped(at_ms(ms), key(1), FlowSeq(seq), 100).0;
    for seq in (1_000..1_010).filter(|seq| *seq != 1_004) {
        assert_eq!(stamped(u64::from(seq), seq), Verdict::New);
    }
    assert_eq!(stamped(9_000, 1_003), Verdict::Duplicate);
    assert_eq!(
        stamped(19_000, 1_004),
        Verdict::New,
        "its first copy was lost"
    );
    assert_eq!(stamped(29_000, 1_009), Verdict::Duplicate);
    assert_eq!(stamped(39_000, 7), Verdict::New);
    assert_eq!(stamped(39_001, 8), Verdict::New);
}

/// Packets of a call wait for seconds in the socket of a relay that does not run, while copies arrive by another path.
/// The packets are late, and many of them are in order, but none belongs to a restarted source.
#[test]
fn what_a_stalled_relay_sends_on_is_not_taken_again() {
    let mut flows = Flows::new(SALT);
    for seq in 0..600 {
        let now = at_ms(u64::from(seq) * 20);
        assert_eq!(note(&mut flows, now, 1, seq), Verdict::New);
    }
    for seq in 200..260 {
        assert_ne!(note(&mut flows, at_ms(12_000), 1, seq), Verdict::New);
    }
    assert_eq!(note(&mut flows, at_ms(12_001), 1, 600), Verdict::New);
}

#[test]
fn every_part_of_the_key_counts() {
    let mut flows = Flows::new(SALT);
    let base = key(1);
    let keys = [
        base,
        FlowKey {
            source: NodeAddr(9),
            ..base
        },
        FlowKey {
            source_port: VirtualPort(9),
            ..base
        },
        FlowKey {
            destination: NodeAddr(9),
            ..base
        },
        FlowKey {
            destination_port: VirtualPort(9),
            ..base
        },
    ];
    for key in keys {
        assert_eq!(
            flows.on_packet(at_ms(0), key, FlowSeq(1), 1).0,
            Verdict::New
        );
    }
    assert_eq!(flows.len(), 5);
}

#[test]
fn the_next_hop_stays_with_its_flow() {
    let mut flows = Flows::new(SALT);
    let hop = Cached {
        generation: 3,
        routing: Routing::Hops,
        link: 7,
    };
    flows.on_packet(at_ms(0), key(1), FlowSeq(1), 1).1.cached = Some(hop);
    assert_eq!(
        flows.on_packet(at_ms(0), key(2), FlowSeq(1), 1).1.cached,
        None
    );
    assert_eq!(
        flows.on_packet(at_ms(0), key(1), FlowSeq(2), 1).1.cached,
        Some(hop)
    );
}

#[test]
fn sequence_numbers_wrap() {
    let mut flows = Flows::new(SALT);
    for (i, seq) in (u32::MAX - 2..=u32::MAX).chain(0..3).enumerate() {
        assert_eq!(note(&mut flows, at_ms(i as u64), 1, seq), Verdict::New);
    }
    assert_eq!(note(&mut flows, at_ms(9), 1, u32::MAX), Verdict::Duplicate);
    assert_eq!(note(&mut flows, at_ms(9), 1, 0), Verdict::Duplicate);
}

#[test]
fn a_late_packet_widens_the_window() {
    let mut flows = Flows::new(SALT);
    note(&mut flows, at_ms(0), 1, 0);
    note(&mut flows, at_ms(1), 1, 20_000);
    assert_eq!(note(&mut flows, at_ms(2), 1, 15_000), Verdict::New);
    assert_eq!(note(&mut flows, at_ms(3), 1, 15_000), Verdict::Duplicate);
}

#[test]
fn copies_by_a_slower_path_are_recognised_at_a_high_rate() {
    let mut flows = Flows::new(SALT);
    // 100 000 packets/s, the copies 20 ms later: 2000 numbers, eight times the first window.
    let mut doubled = 0;
    for i in 0..50_000u32 {
        let now = Time::from_nanos(u64::from(i) * 10_000);
        assert_eq!(note(&mut flows, now, 1, i), Verdict::New);
        if i >= 2_000 {
            doubled += u32::from(note(&mut flows, now, 1, i - 2_000) == Verdict::New);
        }
    }
    assert_eq!(doubled, 0);
}

#[test]
fn a_source_that_restarts_after_silence_is_heard_at_once() {
    let mut flows = Flows::new(SALT);
    for i in 0..100 {
        note(&mut flows, at_ms(i * 20), 1, i as u32);
    }
    let silent = at_ms(99 * 20) + RESTART_SILENCE;
    assert_eq!(
        note(&mut flows, silent - Duration::from_nanos(1), 1, 0),
        Verdict::Duplicate
    );
    let silent = silent + RESTART_SILENCE;
    for i in 0..100 {
        let now = silent + Duration::from_millis(i * 20);
        assert_eq!(note(&mut flows, now, 1, i as u32), Verdict::New);
    }
}

#[test]
fn a_source_that_restarts_at_once_loses_one_packet() {
    let mut flows = Flows::new(SALT);
    note(&mut flows, at_ms(0), 1, 5_000_000);
    let verdicts: Vec<_> = (0..5).map(|i| note(&mut flows, at_ms(1), 1, i)).collect();
    assert_eq!(verdicts[0], Verdict::Stale);
    assert!(
        verdicts[1..].iter().all(|&v| v == Verdict::New),
        "{verdicts:?}"
    );
}

#[test]
fn ancient_packets_among_fresh_ones_are_no_restart() {
    let mut flows = Flows::new(SALT);
    for i in 0..100 {
        assert_eq!(
            note(&mut flows, at_ms(i), 1, 5_000_000 + i as u32),
            Verdict::New
        );
        assert_eq!(note(&mut flows, at_ms(i), 1, i as u32), Verdict::Stale);
        assert_eq!(
            note(&mut flows, at_ms(i), 1, 5_000_000 + i as u32),
            Verdict::Duplicate
        );
    }
}

#[test]
fn a_full_table_lets_the_stale_go_and_keeps_the_busy() {
    let mut flows = Flows::new(SALT);
    let busy = 1_000_000;
    for i in 0..3 * FLOW_LIMIT as u32 {
        note(&mut flows, at_ms(u64::from(i)), i, 0);
        assert_eq!(note(&mut flows, at_ms(u64::from(i)), busy, i), Verdict::New);
        assert!(flows.len() <= FLOW_LIMIT);
    }
    assert_eq!(
        flows.find(&key(busy)).unwrap().packets,
        3 * FLOW_LIMIT as u64
    );
    assert_eq!(flows.evicted(), 2 * FLOW_LIMIT as u64 + 1);
    assert_eq!(flows.iter().len(), flows.places.len());
}

#[test]
fn idle_flows_leave_and_take_their_memory_along() {
    let mut flows = Flows::new(SALT);
    for i in 0..1000 {
        note(&mut flows, at_ms(0), i, 0);
    }
    note(&mut flows, at_ms(59_000), 5, 1);
    for _ in 0..64 {
        flows.expire(at_ms(60_000));
    }
    assert_eq!((flows.len(), flows.find(&key(5)).unwrap().packets), (1, 2));
    flows.expire(at_ms(119_000));
    assert!(flows.is_empty() && flows.flows.capacity() == 0);
    assert_eq!(note(&mut flows, at_ms(120_000), 5, 1), Verdict::New);
}

/// Packets to a group that were delivered here: their numbers, and whether they were opened.
fn delivered(flows: &mut Flows, packets: impl IntoIterator<Item = (u32, bool)>) -> Vec<Verdict> {
    let packets = packets.into_iter().enumerate();
    let verdicts = packets.map(|(ms, (seq, is_opened))| {
        let what = (FlowSeq(seq), false, is_opened);
        flows.on_delivered(at_ms(ms as u64), key(1), what, 100).0
    });
    verdicts.collect()
}

#[test]
fn who_comes_first_in_the_open_with_numbers_far_ahead_silences_nobody() {
    let mut flows = Flows::new(SALT);
    let forged = (0..50).map(|n| (1_000_000 + n, false));
    let genuine = (0..50).map(|seq| (seq, true));
    let verdicts = delivered(&mut flows, forged.chain(genuine));
    assert_eq!(verdicts, [Verdict::New; 100]);
    // From then on, opened packets count.
    assert_eq!(delivered(&mut flows, [(49, true)]), [Verdict::Duplicate]);
    // A group whose members cannot all open sealed packets, for a while: packets that anybody can write move nothing,
    // and the record of opened packets is not forgotten because of them.
    let open = [(2_000_000, false), (50, false), (51, false)];
    assert_eq!(delivered(&mut flows, open), [Verdict::New; 3]);
    assert_eq!(delivered(&mut flows, [(50, true)]), [Verdict::New]);
    assert_eq!(delivered(&mut flows, [(49, true)]), [Verdict::Duplicate]);
}

/// Returns whether a packet passes that is sealed from end to end, with this tag and this mark of the whole.
fn passes(flows: &mut Flows, ms: u64, seq: u32, (tag, whole): (u32, u32)) -> bool {
    let mark = Mark {
        tag,
        is_final: false,
        whole: || whole,
    };
    let (verdict, _) = flows.on_marked(at_ms(ms), key(1), (FlowSeq(seq), mark), 100);
    verdict == Verdict::New
}

#[test]
fn the_first_packet_with_a_known_tag_passes_and_then_whole_packets_count() {
    let mut flows = Flows::new(SALT);
    // Without copies, the mark of the whole is never needed.
    for seq in 0..100 {
        let mark = Mark {
            tag: 1_000_000 + seq,
            is_final: false,
            whole: || unreachable!("no tag was there before"),
        };
        let (verdict, _) = flows.on_marked(at_ms(0), key(1), (FlowSeq(seq), mark), 100);
        assert_eq!(verdict, Verdict::New);
    }
    // A changed copy comes first, and twice.
    assert!(passes(&mut flows, 1, 100, (7, 66)));
    assert!(passes(&mut flows, 1, 100, (7, 66)));
    assert!(passes(&mut flows, 1, 100, (7, 77)), "the genuine one");
    assert!(!passes(&mut flows, 1, 100, (7, 77)), "its copy");
    for seq in 101..200 {
        assert!(passes(&mut flows, 2, seq, (1_000_000 + seq, 66_000 + seq)));
        assert!(passes(&mut flows, 2, seq, (1_000_000 + seq, 77_000 + seq)));
        assert!(!passes(&mut flows, 2, seq, (1_000_000 + seq, 77_000 + seq)));
    }
    // Of identical copies, one passes, and no third one.
    let mut flows = Flows::new(SALT);
    assert!(passes(&mut flows, 0, 5, (7, 77)));
    assert!(passes(&mut flows, 0, 5, (7, 77)));
    assert!(!passes(&mut flows, 0, 5, (7, 77)));
    // Changed copies alone do not continue for ever.
    for seq in 200..300 {
        let ms = 20_000 + u64::from(seq);
        assert!(passes(&mut flows, ms, seq, (1_000_000 + seq, 66_000 + seq)));
        assert!(passes(&mut flows, ms, seq, (1_000_000 + seq, 77_000 + seq)));
    }
}

/// Two packets of one number that alternate, as a cycle in a group's graph delivers them, with different tags or the
/// same.
#[test]
fn a_packet_and_what_somebody_has_made_of_it_do_not_go_round_and_round() {
    for tags in [[1, 2], [1, 1]] {
        let mut flows = Flows::new(SALT);
        let mut turns = (0..40).map(|turn| turn % 2);
        let passed = turns.by_ref().filter(|variant| {
            let mark = (tags[*variant], 7 + *variant as u32);
            passes(&mut flows, 0, 5, mark)
        });
        assert!(passed.count() <= 4, "{tags:?}");
    }
}

/// Two tags that have the same place under one salt have different places under another: a sender that does not know
/// the node's salt cannot choose such tags.
#[test]
fn nobody_can_choose_tags_that_make_each_other_be_forgotten() {
    let passed = |salt: u64| {
        let mut flows = Flows::new(salt);
        let turns = (0..40).map(|turn| turn % 2);
        let passes = |variant: &usize| {
            let mark = ([1_234_567, 267][*variant], 7 + *variant as u32);
            passes(&mut flows, 0, 5, mark)
        };
        turns
            .filter({
                let mut passes = passes;
                move |variant| passes(variant)
            })
            .count()
    };
    assert_eq!(
        passed(0x9e37_79b9_7f4a_7c15),
        40,
        "a salt that the two were chosen for"
    );
    let forgotten =
        (0..200).filter(|salt| passed((salt * 2 + 1u64).wrapping_mul(0xd134_2543_de82_ef95)) > 4);
    assert!(forgotten.count() <= 10, "about one of 64");
}

#[test]
fn what_was_not_sealed_is_known_again_at_once() {
    let mut flows = Flows::new(SALT);
    for seq in 0..100 {
        let is_repeated = |flows: &mut Flows| {
            let mark = Mark {
                tag: seq + 1,
                is_final: true,
                whole: || unreachable!("there is no more to know it by"),
            };
            flows.is_repeated(at_ms(0), key(1), (FlowSeq(seq), mark))
        };
        assert!(!is_repeated(&mut flows), "{seq}");
        assert!(is_repeated(&mut flows), "{seq}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_packet_is_new_once(
        steps in proptest::collection::vec((0u32..5, 0u32..4, 0u32..150), 1..500),
    ) {
        let mut flows = Flows::new(SALT);
        let mut seen = BTreeSet::new();
        let mut heads = [1_000u32; 5];
        for (i, (flow, forward, back)) in steps.into_iter().enumerate() {
            heads[flow as usize] += forward;
            let seq = heads[flow as usize] - back;
            let verdict = note(&mut flows, at_ms(i as u64), flow, seq);
            let expected = if seen.insert((flow, seq)) { Verdict::New } else { Verdict::Duplicate };
            prop_assert_eq!(verdict, expected);
        }
        prop_assert_eq!(flows.iter().map(|f| f.packets).sum::<u64>(), seen.len() as u64);
        for flow in flows.iter() {
            prop_assert_eq!(flows.find(&flow.key).map(|f| f.packets), Some(flow.packets));
        }
    }
}

/// A hole is no loss while its packet may still be repaired in time.
#[test]
fn a_hole_counts_as_lost_once_no_repair_can_come_in_time() {
    let mut flows = Flows::new(SALT);
    let mut bring = |ms: u64, seq: u32, left_ms: u64| {
        let (_, flow) = flows.on_stamped(at_ms(ms), key(1), FlowSeq(seq), 100);
        flow.expect_repairs(Some(Duration::from_millis(left_ms)));
        flow.clone()
    };
    for seq in 0..100 {
        bring(u64::from(seq) * 10, seq, 990);
    }
    // 100 and 101 are missing. 100 is repaired after 0.9 s, and 101 never arrives.
    for seq in 102..191 {
        let flow = bring(u64::from(seq) * 10, seq, 990);
        assert_eq!(flow.missing(at_ms(u64::from(seq) * 10)), 0, "{seq}");
    }
    let flow = bring(1_905, 100, 90);
    assert_eq!(flow.missing(at_ms(1_905)), 0);
    for seq in 191..400 {
        bring(u64::from(seq) * 10, seq, 990);
    }
    let flow = bring(4_000, 400, 990);
    assert_eq!(flow.missing(at_ms(4_000)), 1, "its deadline has passed");
    // 401 to 409 are missing when the flow ends.
    let flow = bring(4_100, 410, 990);
    assert_eq!(flow.missing(at_ms(4_200)), 1);
    assert_eq!(flow.missing(at_ms(5_200)), 10);
    // The count never falls, although what comes after a silence may still be repaired.
    let flow = bring(6_000, 412, 990);
    assert_eq!(flow.missing(at_ms(6_000)), 10);
    assert_eq!(flow.missing(at_ms(7_100)), 11);
}

/// Holes that the window no longer covers are lost, and a restart forgets none.
#[test]
fn holes_behind_the_window_and_before_a_restart_count() {
    let mut flows = Flows::new(SALT);
    note(&mut flows, at_ms(0), 1, 0);
    note(&mut flows, at_ms(1), 1, 100_000);
    let flow = flows.find(&key(1)).unwrap();
    let lost = flow.missing(at_ms(2));
    assert!((99_000..99_999).contains(&lost), "{lost}");
    assert_eq!(flow.missing(at_ms(2_000)), 99_999);
    note(&mut flows, at_ms(9_000), 1, 7);
    let flow = flows.find(&key(1)).unwrap();
    assert_eq!(flow.missing(at_ms(9_000)), 99_999);
}
