//! The history step by step.

use super::super::{Answer, History, LastRound, Losses, Settings, Strike};
use super::{at_us, ms, packet};
use base::{Duration, NodeAddr, Time};
use wire::data::{Header, LaneSeq, Remaining};

const FIRST: Strike = Strike::new(1, false);

fn nowhere(_: NodeAddr) -> Option<Duration> {
    None
}

fn record(history: &mut History, now: Time, remaining: Remaining) -> LaneSeq {
    let mut bytes = packet(history.stats().originals, 160, remaining);
    history.record(now, &mut bytes)
}

fn answer(history: &mut History, now: Time, seq: LaneSeq, strike: Strike) -> Answer<'_> {
    history.answer(now, seq, strike, ms(10), nowhere)
}

#[test]
fn a_packet_comes_back_as_it_was_with_less_time_left() {
    let mut history = History::new(Settings::modern());
    let mut bytes = packet(77, 160, Remaining::from_duration(ms(100)));
    let seq = history.record(at_us(0), &mut bytes);
    assert_eq!(Header::trusted(&bytes).lane_seq(), seq, "numbered in place");
    match answer(&mut history, at_us(22_000), seq, FIRST) {
        Answer::Send {
            plaintext,
            remaining,
            copies,
        } => {
            assert_eq!(plaintext, bytes);
            assert_eq!((remaining, copies), (Remaining::from_duration(ms(78)), 1));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_strike_is_answered_once_and_the_last_one_doubled() {
    let mut history = History::new(Settings::modern());
    let seq = record(&mut history, at_us(0), Remaining::NONE);
    let last = Strike::new(2, true);
    let copies = |a: Answer<'_>| match a {
        Answer::Send { copies, .. } => Ok(copies),
        Answer::Repeated => Err(()),
        other => panic!("{other:?}"),
    };
    let now = at_us(20_000);
    let got = [FIRST, FIRST, last, last, FIRST].map(|s| copies(answer(&mut history, now, seq, s)));
    // The second copy of the last answer is still to come.
    assert_eq!(got, [Ok(1), Err(()), Ok(1), Err(()), Err(())]);
    assert_eq!(history.stats().retransmissions, 3);
    assert_eq!(history.stats().repeated, 3);
}

#[test]
fn on_a_way_with_heavy_losses_the_last_answer_has_more_copies() {
    let heavy = Losses {
        share: 0.2,
        burst: 0.5,
    };
    let mut history = History::new(Settings::modern());
    history.set_last_round(LastRound::of(heavy, 1.0));
    // The first has no deadline. The second has time for three copies.
    record(&mut history, at_us(0), Remaining::NONE);
    record(&mut history, at_us(0), Remaining::from_duration(ms(34)));
    let now = at_us(19_500);
    for (seq, expected) in [(0, 7), (1, 3)] {
        let before = history.stats().retransmissions;
        answer(&mut history, now, LaneSeq::new(seq), Strike::new(1, true));
        assert_eq!(history.stats().retransmissions - before, expected);
    }
    // When half of the budget is used up, there are no more copies than elsewhere.
    let mut copies = Vec::new();
    for _ in 0..40 {
        let seq = record(&mut history, now, Remaining::NONE);
        let before = history.stats().retransmissions;
        answer(&mut history, now, seq, Strike::new(1, true));
        copies.push(history.stats().retransmissions - before);
    }
    assert_eq!((copies[0], copies[39]), (7, 3));
}

#[test]
fn the_second_copy_follows_the_first_unless_it_would_be_late() {
    let mut history = History::new(Settings::modern());
    let last = Strike::new(1, true);
    // Packet 0 has no deadline; packet 1 has 10.5 ms left for a way of 10.
    record(&mut history, at_us(0), Remaining::NONE);
    record(&mut history, at_us(0), Remaining::from_duration(ms(30)));
    let now = at_us(19_500);
    for (seq, expected) in [(0, 1), (1, 3)] {
        match answer(&mut history, now, LaneSeq::new(seq), last) {
            Answer::Send { copies, .. } => assert_eq!(copies, expected),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(history.poll_repeat(now), None);
    let due = history.next_timeout().unwrap();
    assert_eq!(due, now + ms(2));
    for due in [due, due + ms(2)] {
        let again = history.poll_repeat(due);
        assert!(matches!(again, Some(Answer::Send { copies: 1, .. })));
        assert_eq!(history.poll_repeat(due), None);
    }
    assert_eq!(history.poll_repeat(due + ms(9)), None, "three in all");
}

#[test]
fn the_deadline_decides_to_the_tenth_of_a_millisecond() {
    let mut history = History::new(Settings::modern());
    let seq = record(&mut history, at_us(0), Remaining::from_duration(ms(100)));
    let mut ask = |us: u64, rest: Duration| {
        let answer = history.answer(at_us(us), seq, FIRST, ms(10), |to| {
            assert_eq!(to, NodeAddr(6));
            Some(rest)
        });
        matches!(answer, Answer::TooLate)
    };
    assert!(ask(50_200, ms(40)), "49.8 ms left for 50");
    assert!(ask(100_000, ms(0)));
    assert!(!ask(50_000, ms(40)), "50 ms left for 50");
}

#[test]
fn what_was_never_sent_or_long_ago_has_no_answer() {
    let mut history = History::new(Settings::modern());
    let seq = record(&mut history, at_us(0), Remaining::NONE);
    assert_eq!(
        answer(&mut history, at_us(1), LaneSeq::new(1), FIRST),
        Answer::Unknown
    );
    assert_eq!(
        answer(&mut history, at_us(1), LaneSeq::new(0xff_ffff), FIRST),
        Answer::Unknown
    );
    assert_eq!(
        answer(&mut history, at_us(150_001), seq, FIRST),
        Answer::Expired
    );
    assert_eq!((history.stats().unknown, history.stats().expired), (2, 1));
}

#[test]
fn the_paper_keeps_a_thousand_packets() {
    let mut history = History::new(Settings::paper());
    for i in 0..1001 {
        record(&mut history, at_us(i), Remaining::NONE);
    }
    assert_eq!(
        answer(&mut history, at_us(1001), LaneSeq::new(0), FIRST),
        Answer::Expired
    );
    let oldest = answer(&mut history, at_us(1001), LaneSeq::new(1), FIRST);
    assert!(matches!(oldest, Answer::Send { .. }));
}

#[test]
fn retransmissions_keep_to_their_share() {
    let settings = Settings {
        retransmit_ratio: 0.1,
        retransmit_burst: 5.0,
        ..Settings::modern()
    };
    let mut history = History::new(settings);
    let mut sent = 0;
    for i in 0..1000 {
        let seq = record(&mut history, at_us(i), Remaining::NONE);
        if matches!(
            answer(&mut history, at_us(i), seq, FIRST),
            Answer::Send { .. }
        ) {
            sent += 1;
        }
    }
    // The first original arrives at a full bucket.
    assert_eq!(sent, 5 + 999 / 10);
    assert_eq!(history.stats().throttled, 1000 - sent);
}

#[test]
fn numbers_wrap_on_the_wire_only() {
    let mut history = History::new(Settings {
        cover: ms(1),
        ..Settings::modern()
    });
    let mut bytes = packet(0, 0, Remaining::NONE);
    for i in 0..(1u64 << 24) + 2 {
        history.record(Time::from_nanos(i * 1000), &mut bytes);
    }
    assert_eq!(history.next_seq(), LaneSeq::new(2));
    let now = Time::from_nanos((1 << 24) * 1000 + 2000);
    for seq in [0xff_ffff, 0, 1] {
        match answer(&mut history, now, LaneSeq::new(seq), FIRST) {
            Answer::Send { plaintext, .. } => {
                assert_eq!(Header::trusted(plaintext).lane_seq(), LaneSeq::new(seq));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn memory_follows_the_rate_and_goes_when_idle() {
    let mut history = History::new(Settings::modern());
    assert_eq!(history.held_bytes(), 0);
    let mut run = |from: Time, gap_ns: u64, packets: u64| {
        let mut bytes = packet(0, 160, Remaining::NONE);
        for i in 0..packets {
            history.record(from + Duration::from_nanos(i * gap_ns), &mut bytes);
        }
        history.held_bytes()
    };
    // Ten voice streams: 75 packets of 183 bytes in 150 ms.
    let quiet = run(at_us(0), 2_000_000, 2_000);
    assert!((13_725..32 << 10).contains(&quiet), "{quiet}");
    // 600 000 packets/s.
    let busy = run(at_us(5_000_000), 1_667, 200_000);
    assert!(
        (16_000_000..=super::super::HISTORY_BYTES).contains(&busy),
        "{busy}"
    );
    // The history shrinks with the rate, even before it is idle.
    let after = run(at_us(6_000_000), 2_000_000, 2_000);
    assert!(after < 1 << 20, "{after}");
    history.release_idle(at_us(12_000_000));
    assert!(history.held_bytes() > 0, "idle for two seconds only");
    history.release_idle(at_us(20_000_000));
    assert_eq!(history.held_bytes(), 0);
    assert_eq!(history.stats().overrun, 0);
    assert_eq!(
        record(&mut history, at_us(21_000_000), Remaining::NONE).value(),
        204_000
    );
}

#[test]
fn a_reset_starts_the_numbers_again_and_keeps_the_counters() {
    let mut history = History::new(Settings::modern());
    for i in 0..10 {
        record(&mut history, at_us(i), Remaining::NONE);
    }
    history.reset();
    assert_eq!(history.next_timeout(), None, "nothing to probe for");
    assert_eq!(
        answer(&mut history, at_us(20), LaneSeq::new(3), FIRST),
        Answer::Unknown
    );
    assert_eq!(
        record(&mut history, at_us(21), Remaining::NONE),
        LaneSeq::new(0)
    );
    assert_eq!(history.stats().originals, 11);
}

#[test]
fn a_silent_lane_says_where_it_ends() {
    let mut history = History::new(Settings::modern());
    for i in 0..400 {
        record(&mut history, at_us(i * 2_000), Remaining::NONE);
    }
    let due = history.next_timeout().expect("the lane may fall silent");
    assert_eq!(due, at_us(798_000 + 4_000));
    assert_eq!(history.on_timeout(at_us(801_000)), None);
    let probe = history.on_timeout(due).expect("it has");
    assert_eq!((probe.next, probe.count), (LaneSeq::new(400), 0));
    assert_eq!(history.stats().probes, 1);
}
