//! Random operations against naive models that remember everything.

use super::super::window::PacedWindow;
use super::super::{Answer, Arrival, History, NACK_SEQS, Receiver, Settings, Strike};
use super::{ms, packet};
use base::seq::Seen;
use base::{Duration, Time};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use wire::data::{LaneSeq, Remaining};

const RTT: Duration = ms(20);

#[derive(Clone, Debug)]
enum Sending {
    Record {
        wait_us: u64,
        len: usize,
        left_ms: u64,
    },
    Ask {
        wait_us: u64,
        back: u64,
        strike: u8,
    },
}

fn sending() -> impl Strategy<Value = Sending> {
    prop_oneof![
        4 => (0u64..3_000, 0usize..1400, 1u64..300)
            .prop_map(|(wait_us, len, left_ms)| Sending::Record { wait_us, len, left_ms }),
        1 => (0u64..3_000, 0u64..400, 1u8..4)
            .prop_map(|(wait_us, back, strike)| Sending::Ask { wait_us, back, strike }),
    ]
}

/// All packets that were ever sent.
#[derive(Default)]
struct Log {
    sent: Vec<(Time, Duration, Vec<u8>)>,
    answered: BTreeMap<usize, u8>,
}

impl Log {
    fn expected(&mut self, now: Time, seq: usize, strike: u8, settings: &Settings) -> &'static str {
        let Some((at, left, _)) = self.sent.get(seq) else {
            return "unknown";
        };
        let age = now.since(*at);
        if age > settings.cover || (self.sent.len() - seq) as u64 > settings.history_packets {
            return "expired";
        }
        if self
            .answered
            .get(&seq)
            .is_some_and(|&before| before >= strike)
        {
            return "repeated";
        }
        // Remaining time has units of 100 µs, and all times here are multiples of it.
        if *left < age + ms(10) + ms(5) {
            return "late";
        }
        self.answered.insert(seq, strike);
        "sent"
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_history_is_a_full_log(steps in proptest::collection::vec(sending(), 1..600)) {
        let settings = Settings {
            retransmit_burst: 1e9,
            history_packets: 200,
            // The effect of deadlines is tested with `cover`.
            cover_most: Duration::ZERO,
            ..Settings::modern()
        };
        let mut history = History::new(settings.clone());
        let mut log = Log::default();
        let mut now = Time::ZERO;
        for step in steps {
            match step {
                Sending::Record { wait_us, len, left_ms } => {
                    now += Duration::from_micros(wait_us / 100 * 100);
                    let mut bytes = packet(7, len, Remaining::from_duration(ms(left_ms)));
                    history.record(now, &mut bytes);
                    log.sent.push((now, ms(left_ms), bytes));
                }
                Sending::Ask { wait_us, back, strike } => {
                    now += Duration::from_micros(wait_us / 100 * 100);
                    let seq = log.sent.len() as u64 + 5 - back.min(log.sent.len() as u64 + 5);
                    let expected = log.expected(now, seq as usize, strike, &settings);
                    let strike = Strike::new(strike, false);
                    let answer = history.answer(now, LaneSeq::of(seq), strike, ms(10), |_| Some(ms(5)));
                    let got = match answer {
                        Answer::Send { plaintext, remaining, .. } => {
                            let (at, left, bytes) = &log.sent[seq as usize];
                            prop_assert_eq!(plaintext, &bytes[..]);
                            prop_assert_eq!(remaining.duration(), Some(*left - now.since(*at)));
                            "sent"
                        }
                        Answer::Unknown => "unknown",
                        Answer::Expired => "expired",
                        Answer::Repeated => "repeated",
                        Answer::TooLate => "late",
                        Answer::Throttled => "throttled",
                    };
                    prop_assert_eq!(got, expected, "packet {} at {}", seq, now);
                }
            }
        }
    }

    #[test]
    fn a_small_history_holds_the_newest(lens in proptest::collection::vec(0usize..1400, 1..300)) {
        let limit = 64 << 10;
        let settings = Settings { history_bytes: limit, retransmit_burst: 1e9, ..Settings::modern() };
        let mut history = History::new(settings);
        let mut sent = Vec::new();
        for len in lens {
            let mut bytes = packet(sent.len() as u64, len, Remaining::NONE);
            history.record(Time::ZERO, &mut bytes);
            sent.push(bytes);
            prop_assert!(history.held_bytes() <= limit);
        }
        let mut newer = 0;
        for (seq, bytes) in sent.iter().enumerate().rev() {
            let answer = history.answer(Time::ZERO, LaneSeq::of(seq as u64), Strike::new(1, false), ms(1), |_| None);
            newer += bytes.len();
            match answer {
                Answer::Send { plaintext, .. } => prop_assert_eq!(plaintext, &bytes[..]),
                Answer::Expired => prop_assert!(newer > limit / 2, "gone after {} bytes", newer),
                other => prop_assert!(false, "{:?}", other),
            }
        }
        let held = sent.len() as u64 - history.stats().overrun;
        prop_assert_eq!(history.stats().retransmissions, held);
    }

    /// Packets are lost, delayed and duplicated at random; a set records those that have arrived.
    #[test]
    fn a_receiver_knows_what_has_come_and_what_has_not(
        fates in proptest::collection::vec((0u64..60, 0u8..8), 1..400),
    ) {
        let mut arrivals: Vec<(u64, u64)> = Vec::new();
        for (seq, &(delay_ms, fate)) in fates.iter().enumerate() {
            let (seq, sent) = (seq as u64, seq as u64 * 1_000);
            match fate {
                0 | 1 => {}
                2 => arrivals.push((sent + delay_ms * 1_000, seq)),
                3 => arrivals.extend([(sent, seq), (sent + delay_ms * 1_000, seq)]),
                _ => arrivals.push((sent, seq)),
            }
        }
        arrivals.sort();
        let mut receiver = Receiver::new(Settings::modern());
        let mut come = BTreeSet::new();
        let mut asked: BTreeMap<u64, Vec<(Time, Strike)>> = BTreeMap::new();
        for (us, seq) in arrivals {
            let now = super::at_us(us);
            // Timers come first, each at its own time.
            while let Some(due) = receiver.next_timeout().filter(|&due| due < now) {
                note_requests(&mut receiver, due, &come, &mut asked)?;
            }
            let remaining = Remaining::from_duration(ms(70));
            let arrival = receiver.on_packet(now, LaneSeq::of(seq), remaining, || ms(10));
            prop_assert_eq!(arrival.is_fresh(), come.insert(seq), "{:?}", arrival);
            if let Arrival::Recovered { after } = arrival {
                prop_assert!(after >= RTT.div(4) * 3 && asked.contains_key(&seq));
            }
            note_requests(&mut receiver, now, &come, &mut asked)?;
            // Every number below the highest has arrived or was requested, unless the first number is far up, or the
            // gap was seen so late that no answer would be in time.
            let highest = come.last().copied().unwrap_or(0);
            if come.first().is_some_and(|&first| first <= 32) {
                let silent = (0..highest).filter(|n| !come.contains(n) && !asked.contains_key(n));
                let silent: Vec<u64> = silent.collect();
                prop_assert!(silent.len() as u64 <= receiver.stats().given_up, "{silent:?}");
            }
        }
        while let Some(due) = receiver.next_timeout() {
            note_requests(&mut receiver, due, &come, &mut asked)?;
        }
        prop_assert_eq!(receiver.missing_len(), 0);
        for (seq, requests) in asked {
            // Within 60 ms three strikes on a round trip of 20 ms, the last one sent three times.
            prop_assert!(requests.len() <= 5, "{seq}: {requests:?}");
            for pair in requests.windows(2) {
                let ((before, strike), (after, next)) = (pair[0], pair[1]);
                let repeated = strike.is_last() && next == strike && after <= before + ms(2);
                let later = next.number() == strike.number() + 1 && !strike.is_last() && after >= before + ms(4);
                prop_assert!(repeated || later, "{seq}: {requests:?}");
            }
        }
    }

    #[test]
    fn a_paced_window_agrees_with_a_set(steps in proptest::collection::vec((0u64..6, 0u64..40), 1..400)) {
        let mut window = PacedWindow::new(64);
        let mut seen = BTreeSet::new();
        let (mut now, mut next) = (Time::ZERO, 0u64);
        for (forward, back) in steps {
            now += Duration::from_micros(100);
            next += forward;
            let seq = next.saturating_sub(back);
            let highest = seen.last().copied();
            let expected = if highest.is_none_or(|h| seq > h) { Seen::Ahead }
                else if seen.contains(&seq) { Seen::Duplicate } else { Seen::Late };
            prop_assert_eq!(window.insert(now, seq, ms(100), 1 << 16), expected);
            seen.insert(seq);
        }
    }
}

fn note_requests(
    receiver: &mut Receiver,
    now: Time,
    come: &BTreeSet<u64>,
    asked: &mut BTreeMap<u64, Vec<(Time, Strike)>>,
) -> Result<(), TestCaseError> {
    let mut seqs = [0; NACK_SEQS];
    while let Some((strike, n)) = receiver.poll_nack(now, RTT, &mut seqs) {
        prop_assert!(seqs[..n].is_sorted());
        for &seq in &seqs[..n] {
            prop_assert!(!come.contains(&seq), "{seq} has come");
            asked.entry(seq).or_default().push((now, strike));
        }
    }
    Ok(())
}

#[test]
fn a_window_grows_with_the_rate_up_to_its_limit() {
    let grown = |gap_us: u64| {
        let mut window = PacedWindow::new(256);
        for seq in 0..20_000 {
            window.insert(super::at_us(seq * gap_us), seq, ms(100), 8192);
        }
        window.capacity()
    };
    // 50 packets/s; 10 000/s, of which 100 ms are 1000; 1 000 000/s.
    assert_eq!([grown(20_000), grown(100), grown(1)], [256, 2048, 8192]);
}
