//! The receiver step by step.

use super::super::{Arrival, LastRound, Losses, NACK_SEQS, Receiver, Settings, Strike};
use super::{at_us, ms};
use base::{Duration, Time};
use wire::data::{LaneSeq, Remaining};

const RTT: Duration = ms(20);

fn arrive(receiver: &mut Receiver, now: Time, seq: u64) -> Arrival {
    receiver.on_packet(now, LaneSeq::of(seq), Remaining::NONE, || Duration::ZERO)
}

/// A packet arrives with 50 ms of slack.
fn arrive_in_a_hurry(receiver: &mut Receiver, now: Time, seq: u64) -> Arrival {
    let remaining = Remaining::from_duration(ms(90));
    receiver.on_packet(now, LaneSeq::of(seq), remaining, || ms(40))
}

fn polled(receiver: &mut Receiver, now: Time) -> Vec<(Strike, Vec<u64>)> {
    let mut out = Vec::new();
    let mut seqs = [0; NACK_SEQS];
    while let Some((strike, n)) = receiver.poll_nack(now, RTT, &mut seqs) {
        out.push((strike, seqs[..n].to_vec()));
    }
    out
}

#[test]
fn the_first_packet_out_of_order_triggers_one_request() {
    let mut receiver = Receiver::new(Settings::paper());
    assert_eq!(arrive(&mut receiver, at_us(0), 0), Arrival::New);
    assert_eq!(receiver.next_timeout(), None);
    assert_eq!(arrive(&mut receiver, at_us(8_000), 4), Arrival::New);
    assert_eq!(receiver.next_timeout(), Some(at_us(8_000)));
    let first = vec![(Strike::new(1, false), vec![1, 2, 3])];
    assert_eq!(polled(&mut receiver, at_us(8_000)), first);
    assert_eq!(polled(&mut receiver, at_us(8_000)), []);
    let after = Arrival::Recovered { after: ms(20) };
    assert_eq!(arrive(&mut receiver, at_us(28_000), 2), after);
    assert_eq!(arrive(&mut receiver, at_us(28_000), 2), Arrival::Duplicate);
    assert_eq!(arrive(&mut receiver, at_us(28_000), 1), after);
    // Packet 3 is given up without a second request.
    let due = receiver.next_timeout().expect("packet 3 is missing");
    assert_eq!(polled(&mut receiver, due), []);
    assert_eq!((receiver.missing_len(), receiver.next_timeout()), (0, None));
    let stats = receiver.stats();
    assert_eq!((stats.missing, stats.given_up, stats.requests), (3, 1, 3));
    assert_eq!(stats.recovered, [2, 0, 0, 0, 0]);
}

#[test]
fn strikes_follow_while_the_deadline_permits_and_the_last_is_repeated() {
    let mut receiver = Receiver::new(Settings::modern());
    arrive_in_a_hurry(&mut receiver, at_us(0), 0);
    arrive_in_a_hurry(&mut receiver, at_us(4_000), 2);
    let mut log = Vec::new();
    while let Some(now) = receiver.next_timeout() {
        for (strike, seqs) in polled(&mut receiver, now) {
            assert_eq!(seqs, [1]);
            log.push((now.as_micros(), strike));
        }
    }
    // The packet was due at 2 ms, so an answer is useful until 52 ms, and a request until 32 ms.
    let last = Strike::new(2, true);
    assert_eq!(
        log,
        [
            (4_000, Strike::new(1, false)),
            (4_000 + 22_500, last),
            (4_000 + 22_500 + 2_000, last),
            (4_000 + 22_500 + 4_000, last)
        ]
    );
    assert_eq!(receiver.stats().given_up, 1);
}

#[test]
fn on_a_way_with_heavy_losses_the_last_request_is_earlier_and_has_more_copies() {
    let heavy = Losses {
        share: 0.2,
        burst: 0.5,
    };
    // The budget is full, or an outage has taken more than half of it.
    for (outage, at, copies) in [(1, 21_000, 6), (400, 26_500, 3)] {
        let mut receiver = Receiver::new(Settings::modern());
        let hurry = Remaining::from_duration(ms(22));
        for (at, seq) in [(0, 0), (4_000, outage + 1)] {
            receiver.on_packet(at_us(at), LaneSeq::of(seq), hurry, || Duration::ZERO);
        }
        while let Some(now) = receiver.next_timeout() {
            polled(&mut receiver, now);
        }
        receiver.set_last_round(LastRound::of(heavy, 1.0));
        let begin = 100_000;
        arrive_in_a_hurry(&mut receiver, at_us(begin), outage + 2);
        arrive_in_a_hurry(&mut receiver, at_us(begin + 4_000), outage + 4);
        let mut last = Vec::new();
        while let Some(now) = receiver.next_timeout() {
            let asked = polled(&mut receiver, now).into_iter();
            last.extend(asked.filter(|(s, _)| s.is_last()).map(|_| now.as_micros()));
        }
        let expected: Vec<u64> = (0..copies).map(|n| begin + at + n * 2_000).collect();
        assert_eq!(last, expected);
    }
}

#[test]
fn a_lane_that_repeats_nothing_does_not_hurry_its_last_request() {
    let mut receiver = Receiver::new(Settings {
        redundant_last: false,
        ..Settings::modern()
    });
    receiver.set_last_round(LastRound::of(
        Losses {
            share: 0.2,
            burst: 0.5,
        },
        1.0,
    ));
    arrive_in_a_hurry(&mut receiver, at_us(0), 0);
    arrive_in_a_hurry(&mut receiver, at_us(4_000), 2);
    let mut asked = Vec::new();
    while let Some(now) = receiver.next_timeout() {
        asked.extend(polled(&mut receiver, now).iter().map(|_| now.as_micros()));
    }
    assert_eq!(asked, [4_000, 26_500]);
}

#[test]
fn with_little_slack_all_repetitions_of_a_request_go_at_once() {
    let mut receiver = Receiver::new(Settings::modern());
    let remaining = Remaining::from_duration(ms(22));
    let rest = || Duration::ZERO;
    receiver.on_packet(at_us(0), LaneSeq::new(0), remaining, rest);
    receiver.on_packet(at_us(4_000), LaneSeq::new(2), remaining, rest);
    let only = (Strike::new(1, true), vec![1]);
    assert_eq!(
        polled(&mut receiver, at_us(4_000)),
        [only.clone(), only.clone(), only.clone(), only]
    );
}

#[test]
fn without_deadline_the_strikes_are_counted() {
    let mut receiver = Receiver::new(Settings::modern());
    arrive(&mut receiver, at_us(0), 0);
    arrive(&mut receiver, at_us(100), 2);
    let mut strikes = Vec::new();
    while let Some(now) = receiver.next_timeout() {
        strikes.extend(
            polled(&mut receiver, now)
                .into_iter()
                .map(|(s, _)| s.number()),
        );
    }
    assert_eq!(strikes, [1, 2, 3, 4, 5, 5, 5]);
}

/// After an outage the link needs longer for the answers than they take one by one.
#[test]
fn answers_that_wait_for_each_other_are_not_asked_for_again() {
    let mut receiver = Receiver::new(Settings::modern());
    let remaining = Remaining::from_duration(ms(400));
    let arrive = |receiver: &mut Receiver, now, seq| {
        receiver.on_packet(now, LaneSeq::of(seq), remaining, || Duration::ZERO)
    };
    arrive(&mut receiver, at_us(0), 0);
    arrive(&mut receiver, at_us(2_000), 21);
    let all: Vec<u64> = (1..=20).collect();
    let first = vec![(Strike::new(1, false), all)];
    assert_eq!(polled(&mut receiver, at_us(2_000)), first);
    let mut asked = Vec::new();
    // One answer arrives every 4 ms, beginning a round trip later. One answer is lost.
    for seq in (1..=20).filter(|seq| *seq != 10) {
        let came = at_us(18_000 + seq * 4_000);
        while let Some(due) = receiver.next_timeout().filter(|due| *due < came) {
            let again = polled(&mut receiver, due).into_iter();
            asked.extend(again.map(|(strike, seqs)| (due, strike, seqs)));
        }
        arrive(&mut receiver, came, seq);
    }
    // The answer behind the lost one has shown the loss.
    let again = (at_us(63_000), Strike::new(2, false), vec![10]);
    assert_eq!(asked.first(), Some(&again));
    assert!(asked.iter().all(|(.., seqs)| *seqs == [10]), "{asked:?}");
}

#[test]
fn what_comes_by_itself_was_only_late() {
    let mut receiver = Receiver::new(Settings::modern());
    arrive(&mut receiver, at_us(0), 0);
    arrive(&mut receiver, at_us(2_000), 3);
    assert_eq!(
        arrive(&mut receiver, at_us(2_000), 1),
        Arrival::New,
        "before the flush"
    );
    assert_eq!(polled(&mut receiver, at_us(2_000)).len(), 1);
    assert_eq!(
        arrive(&mut receiver, at_us(9_000), 2),
        Arrival::New,
        "before any answer can be"
    );
    assert_eq!(receiver.stats().reordered, 2);
    assert_eq!(polled(&mut receiver, at_us(60_000)), []);
}

#[test]
fn a_lost_first_packet_is_noticed() {
    let mut receiver = Receiver::new(Settings::modern());
    arrive(&mut receiver, at_us(0), 2);
    assert_eq!(polled(&mut receiver, at_us(0))[0].1, [0, 1]);
    // A receiver that joins a lane late requests nothing.
    let mut late = Receiver::new(Settings::modern());
    arrive(&mut late, at_us(0), 5_000_000);
    assert_eq!((late.missing_len(), late.stats().restarts), (0, 0));
}

#[test]
fn a_tail_probe_reveals_what_no_packet_does() {
    let mut receiver = Receiver::new(Settings::modern());
    arrive_in_a_hurry(&mut receiver, at_us(0), 0);
    receiver.on_tail_probe(at_us(10_000), LaneSeq::new(1));
    assert_eq!(receiver.missing_len(), 0, "nothing is lost");
    receiver.on_tail_probe(at_us(11_000), LaneSeq::new(3));
    receiver.on_tail_probe(at_us(12_000), LaneSeq::new(3));
    assert_eq!(
        polled(&mut receiver, at_us(12_000)),
        [(Strike::new(1, false), vec![1, 2])]
    );
    assert_eq!(
        arrive_in_a_hurry(&mut receiver, at_us(32_000), 1),
        Arrival::Recovered { after: ms(21) }
    );
    assert_eq!(
        arrive_in_a_hurry(&mut receiver, at_us(33_000), 3),
        Arrival::New
    );
    assert_eq!(receiver.stats().missing, 2);
}

#[test]
fn the_only_stream_s_last_packet_is_recovered_within_the_slack() {
    // Sent at 0 and lost; probed at 25 ms, reported at 35; an answer by 55 is in time until 60.
    let mut receiver = Receiver::new(Settings::modern());
    arrive_in_a_hurry(&mut receiver, at_us(90_000), 0);
    receiver.on_tail_probe(at_us(135_000), LaneSeq::new(2));
    assert_eq!(polled(&mut receiver, at_us(135_000))[0].1, [1]);
}

#[test]
fn a_restarted_lane_is_not_a_million_losses() {
    let mut receiver = Receiver::new(Settings::modern());
    arrive(&mut receiver, at_us(0), 0);
    arrive(&mut receiver, at_us(1), 2);
    assert_eq!(arrive(&mut receiver, at_us(2), 3_000_000), Arrival::New);
    let stats = receiver.stats();
    assert_eq!(
        (receiver.missing_len(), stats.restarts, stats.given_up),
        (0, 1, 1)
    );
    assert_eq!(polled(&mut receiver, at_us(2)), []);
    assert_eq!(arrive(&mut receiver, at_us(3), 3_000_001), Arrival::New);
}

#[test]
fn an_outage_makes_no_storm_of_requests() {
    let mut receiver = Receiver::new(Settings::modern());
    arrive_in_a_hurry(&mut receiver, at_us(0), 0);
    // 300 ms at 600 000 packets/s.
    let (first, gap_ns) = (180_000, 1_667);
    let start = at_us(300_000);
    let mut per_rtt = [0; 10];
    for i in 0..100_000u64 {
        let now = start + Duration::from_nanos(i * gap_ns);
        arrive_in_a_hurry(&mut receiver, now, first + i);
        if i % 64 == 0 {
            let flush: usize = polled(&mut receiver, now)
                .iter()
                .map(|(_, s)| s.len())
                .sum();
            assert!(flush <= 1024, "{flush}");
            let turn = now.since(start).as_millis() / RTT.as_millis();
            per_rtt[turn as usize] += flush;
        }
    }
    // Each of the 4096 is requested at most once and then three times per round trip, and none for ever.
    assert!(per_rtt.iter().all(|&n| n <= 4 * 4096), "{per_rtt:?}");
    assert_eq!(per_rtt[4..].iter().sum::<usize>(), 0, "{per_rtt:?}");
    let stats = receiver.stats();
    assert_eq!(stats.missing, first - 1);
    assert_eq!(stats.forgotten + stats.given_up, first - 1);
}

#[test]
fn losses_at_full_rate_are_all_asked_for() {
    let mut receiver = Receiver::new(Settings::modern());
    let mut rng = base::Rng::new(5);
    for i in 0..300_000u64 {
        let now = Time::from_nanos(i * 1_667);
        if !rng.chance(0.1) {
            arrive_in_a_hurry(&mut receiver, now, i);
        }
        if i % 64 == 0 {
            polled(&mut receiver, now);
        }
    }
    let stats = receiver.stats();
    assert_eq!((stats.forgotten, stats.throttled), (0, 0));
    assert!(stats.requests >= 2 * stats.given_up, "{stats:?}");
}

#[test]
fn numbers_that_jump_again_and_again_are_noted_at_a_limited_rate() {
    let mut receiver = Receiver::new(Settings::modern());
    arrive(&mut receiver, at_us(0), 0);
    let jump = |receiver: &mut Receiver, now: Time, n: u64| {
        receiver.on_tail_probe(now, LaneSeq::of(1 + 4_096 * n));
    };
    for n in 1..=100 {
        jump(&mut receiver, at_us(n), n);
    }
    // The packets of the second jump are still on the list, less some for which others have come.
    assert_eq!(receiver.missing_len(), 4_096);
    let before = receiver.missing_len();
    arrive(&mut receiver, at_us(200), 8_000);
    assert_eq!(receiver.missing_len(), before - 1);
    // After a while, packets are noted again.
    jump(&mut receiver, at_us(100_000), 101);
    arrive(&mut receiver, at_us(100_001), 8_001);
    assert_eq!(receiver.missing_len(), 4_096);
    arrive(&mut receiver, at_us(100_002), 4_096 * 101 - 1);
    assert_eq!(receiver.missing_len(), 4_095);
    let stats = receiver.stats();
    assert_eq!(stats.missing, 4_096 * 101);
}

#[test]
fn without_a_budget_nothing_wakes_the_node_for_what_is_too_late() {
    let mut receiver = Receiver::new(Settings::modern());
    arrive_in_a_hurry(&mut receiver, at_us(0), 0);
    // Most is lost, so that the budget is used up. Then the lane falls silent.
    let mut now = at_us(0);
    for burst in 1..=20u64 {
        now = at_us(4_000 * burst);
        arrive_in_a_hurry(&mut receiver, now, 200 * burst);
        polled(&mut receiver, now);
    }
    assert!(receiver.missing_len() > 1_000);
    let mut wakes = 0;
    while let Some(at) = receiver.next_timeout() {
        now = now.max(at);
        polled(&mut receiver, now);
        wakes += 1;
        assert!(wakes < 1_000, "{now}");
    }
    assert!(receiver.stats().throttled > 0);
    assert_eq!(receiver.missing_len(), 0);
}

#[test]
fn idle_memory_is_given_back_and_resets_forget() {
    let mut receiver = Receiver::new(Settings::modern());
    arrive(&mut receiver, at_us(0), 0);
    arrive(&mut receiver, at_us(1), 1000);
    receiver.reset();
    assert_eq!((receiver.missing_len(), receiver.next_timeout()), (0, None));
    assert_eq!(receiver.stats().given_up, 999);
    assert_eq!(
        arrive(&mut receiver, at_us(2), 0),
        Arrival::New,
        "the numbers start again"
    );
    receiver.release_idle(at_us(10_000_000));
    assert_eq!(arrive(&mut receiver, at_us(10_000_001), 1), Arrival::New);
    // The window of a busy lane shrinks, and the lane continues where it was.
    let gap = Duration::from_nanos(1_667);
    for seq in 2..100_000 {
        arrive(&mut receiver, at_us(10_000_002) + gap * seq, seq);
    }
    assert_eq!(
        arrive(&mut receiver, at_us(11_000_000), 40_000),
        Arrival::Duplicate
    );
    receiver.release_idle(at_us(20_000_000));
    assert_eq!(
        arrive(&mut receiver, at_us(20_000_000), 99_999),
        Arrival::Duplicate
    );
    assert_eq!(
        arrive(&mut receiver, at_us(20_000_000), 100_000),
        Arrival::New
    );
    assert_eq!(receiver.stats().missing, 999);
}

#[test]
fn a_loss_is_told_once_it_is_sure_and_not_before() {
    let mut receiver = Receiver::new(Settings::modern());
    let hear = |receiver: &mut Receiver, seqs: &[u64]| {
        for seq in seqs {
            receiver.on_packet(
                at_us(seq * 1_000),
                LaneSeq::of(*seq),
                Remaining::NONE,
                || ms(0),
            );
        }
    };
    hear(&mut receiver, &[0, 1, 4, 5]);
    // 2 and 3 are missing, and young.
    assert_eq!(receiver.settle_lost(), 0);
    hear(&mut receiver, &[7]);
    // One packet has arrived since; packet 6 is young.
    hear(&mut receiver, &[3]);
    assert_eq!(receiver.settle_lost(), 1, "2");
    hear(&mut receiver, &[8]);
    assert_eq!(receiver.settle_lost(), 2, "2 and 6");
    // The packet was not lost after all.
    hear(&mut receiver, &[6]);
    assert_eq!(receiver.settle_lost(), 1);
}
