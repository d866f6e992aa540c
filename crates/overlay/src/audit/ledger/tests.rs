//! The ledger against a list of all packets, and answers that are late, lost, repeated or about nothing.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

const WAY: WayId = WayId::numbered(1);
const OTHER: WayId = WayId::numbered(2);
const LATENCY: Duration = Duration::from_millis(20);
/// The age after which a run is asked about.
const OLD: Duration = Duration::from_millis(290);

fn sent(first: u64, count: u32, way: Option<WayId>) -> Sent {
    Sent {
        session: SessionIndex::new(7),
        first,
        count,
        way,
        link: LinkProtocol::RealTime,
        is_data: true,
    }
}

/// Returns the answer of an exit that has opened these packets.
fn answer(question: &Question, opened: &BTreeSet<u64>) -> Vec<u16> {
    let mut at = u64::from(question.first);
    let count = |len: &u16| {
        let from = at;
        at += u64::from(*len);
        opened.range(from..at).count() as u16
    };
    question.lengths.iter().map(count).collect()
}

fn told(ledger: &mut Ledger, number: u16, counts: &[u16]) -> Vec<Judged> {
    let mut judged = Vec::new();
    ledger.on_told(number, counts.iter().copied(), |run| judged.push(run));
    judged
}

#[test]
fn runs_end_where_the_way_changes_and_are_asked_about_when_they_are_old() {
    let mut ledger = Ledger::default();
    let at = |ms: u64| Time::ZERO + Duration::from_millis(ms);
    ledger.note(at(0), sent(10, 1, Some(WAY)));
    ledger.note(at(20), sent(11, 2, Some(WAY)));
    ledger.note(at(40), sent(13, 1, None));
    ledger.note(at(40), sent(14, 1, Some(OTHER)));
    ledger.note(at(100), sent(15, 1, Some(OTHER)));
    assert_eq!(ledger.ask(at(280), LATENCY), None);
    let question = ledger.ask(at(40) + OLD, LATENCY).unwrap();
    assert_eq!(
        (question.first, &question.lengths[..]),
        (10, &[3, 1, 1][..])
    );
    let judged = told(&mut ledger, question.number, &[2, 0, 1]);
    let counts: Vec<_> = judged.iter().map(|j| (j.way, j.sent, j.lost)).collect();
    assert_eq!(counts, [(WAY, 3, 1), (OTHER, 1, 0)]);
    assert!(told(&mut ledger, question.number, &[2, 0, 1]).is_empty());
    let question = ledger.ask(at(100) + OLD, LATENCY).unwrap();
    assert_eq!((question.first, &question.lengths[..]), (15, &[1][..]));
}

#[test]
fn what_did_not_leave_is_no_loss() {
    let mut ledger = Ledger::default();
    ledger.note(Time::ZERO, sent(0, 10, Some(WAY)));
    ledger.excuse(Time::ZERO, 4);
    let question = ledger.ask(Time::ZERO + OLD, LATENCY).unwrap();
    let judged = told(&mut ledger, question.number, &[6]);
    assert_eq!((judged[0].sent, judged[0].lost), (6, 0));
}

#[test]
fn what_is_given_up_late_is_excused_in_its_own_run() {
    let mut ledger = Ledger::default();
    let at = |ms: u64| Time::ZERO + Duration::from_millis(ms);
    for (ms, first) in [(0, 0), (10, 10), (60, 20), (120, 30)] {
        ledger.note(at(ms), sent(first, 10, Some(WAY)));
    }
    ledger.excuse(at(10), 4);
    ledger.excuse(at(60), 10);
    ledger.excuse(at(60), 1);
    let question = ledger.ask(at(120) + OLD, LATENCY).unwrap();
    assert_eq!(question.lengths, [20, 10, 10]);
    let judged = told(&mut ledger, question.number, &[16, 0, 9]);
    let counts: Vec<_> = judged.iter().map(|j| (j.sent, j.lost)).collect();
    assert_eq!(counts, [(16, 0), (0, 0), (10, 1)]);
}

#[test]
fn a_run_goes_on_when_some_of_it_did_not_leave() {
    let mut ledger = Ledger::default();
    for first in 0..50 {
        let now = Time::ZERO + Duration::from_millis(first);
        ledger.note(now, sent(first, 1, Some(WAY)));
        ledger.excuse(now, 1);
    }
    let question = ledger.ask(Time::ZERO + OLD, LATENCY).unwrap();
    assert_eq!(question.lengths, [50]);
    assert_eq!(told(&mut ledger, question.number, &[0])[0].lost, 0);
}

#[test]
fn reliable_links_have_their_time_and_others_are_judged_meanwhile() {
    let mut ledger = Ledger::default();
    let link = LinkProtocol::Reliable;
    ledger.note(
        Time::ZERO,
        Sent {
            link,
            ..sent(0, 2, Some(WAY))
        },
    );
    ledger.note(Time::ZERO, sent(2, 2, Some(OTHER)));
    let question = ledger.ask(Time::ZERO + OLD, LATENCY).unwrap();
    let judged = told(&mut ledger, question.number, &[1, 1]);
    assert_eq!(judged.len(), 1, "the reliable one is late");
    let question = ledger.ask(Time::ZERO + OLD * 2, LATENCY).unwrap();
    assert_eq!(
        question.lengths,
        [2],
        "what is judged at the end is not asked about"
    );
    let judged = told(&mut ledger, question.number, &[2]);
    assert_eq!((judged[0].sent, judged[0].lost), (2, 0));
}

#[test]
fn a_session_that_the_exit_does_not_know_says_nothing() {
    let mut ledger = Ledger::default();
    ledger.note(Time::ZERO, sent(0, 5, Some(WAY)));
    let other = SessionIndex::new(8);
    ledger.note(
        Time::ZERO,
        Sent {
            session: other,
            ..sent(0, 5, Some(WAY))
        },
    );
    let question = ledger.ask(Time::ZERO + OLD, LATENCY).unwrap();
    assert_eq!(
        (question.session, &question.lengths[..]),
        (SessionIndex::new(7), &[5][..])
    );
    assert!(told(&mut ledger, question.number, &[]).is_empty());
    assert!(
        told(&mut ledger, 4711, &[5]).is_empty(),
        "nobody has asked that"
    );
    let question = ledger.ask(Time::ZERO + OLD, LATENCY).unwrap();
    assert_eq!(question.session, other);
    // There is no answer for a long time.
    assert!(!ledger.has_open(Time::ZERO + FORGOTTEN_AFTER));
}

#[test]
fn it_keeps_to_its_bounds() {
    let mut ledger = Ledger::default();
    for i in 0..2_000 {
        let way = [WAY, OTHER][i as usize % 2];
        ledger.note(Time::ZERO, sent(i, 1, Some(way)));
        ledger.ask(Time::ZERO + OLD, LATENCY);
    }
    assert!(ledger.runs.len() <= RUNS_MAX && ledger.asked.len() <= ASKED_MAX);
    let question = ledger.ask(Time::ZERO + OLD, LATENCY).unwrap();
    assert_eq!(question.lengths.len(), COUNTS_MAX);
}

proptest! {
    /// Packets take two ways. Some are lost and some are late, and some questions and answers are lost. In the end
    /// every packet has been judged once, and exactly the lost ones count as lost.
    #[test]
    fn agrees_with_a_list_of_all_packets(
        packets in proptest::collection::vec((0u8..3, any::<bool>(), 0u64..200), 1..300),
        answers in proptest::collection::vec(any::<bool>(), 60),
    ) {
        let mut ledger = Ledger::default();
        let mut now = Time::ZERO;
        let mut arrivals: Vec<(Time, u64)> = Vec::new();
        let mut truth = [(0, 0); 2];
        let mut judged = [(0, 0); 2];
        let mut take = |run: Judged| {
            let (sent, lost) = &mut judged[usize::from(run.way == OTHER)];
            (*sent, *lost) = (*sent + run.sent, *lost + run.lost);
        };
        let mut asks = answers.into_iter().cycle();
        let mut ask = |ledger: &mut Ledger, now: Time, arrivals: &[(Time, u64)], sure: bool| {
            let Some(question) = ledger.ask(now, LATENCY) else { return };
            if sure || asks.next() == Some(true) {
                let there = arrivals.iter().filter(|(at, _)| *at <= now);
                let opened = there.map(|(_, counter)| *counter).collect();
                let counts = answer(&question, &opened);
                ledger.on_told(question.number, counts.into_iter(), &mut take);
            }
        };
        for (counter, (way, arrives, late_ms)) in (0u64..).zip(&packets) {
            let way = [Some(WAY), Some(OTHER), None][usize::from(*way)];
            ledger.note(now, sent(counter, 1, way));
            if let Some(way) = way {
                let (sent, lost) = &mut truth[usize::from(way == OTHER)];
                (*sent, *lost) = (*sent + 1, *lost + u32::from(!arrives));
            }
            if *arrives {
                arrivals.push((now + Duration::from_millis(*late_ms), counter));
            }
            if counter % 10 == 9 {
                ask(&mut ledger, now, &arrivals, false);
            }
            now += Duration::from_millis(20);
        }
        for _ in 0..8 {
            now += OLD;
            ask(&mut ledger, now, &arrivals, true);
        }
        prop_assert_eq!(judged, truth);
    }
}
