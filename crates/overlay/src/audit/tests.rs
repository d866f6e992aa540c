//! When questions are due, and how they travel.

use super::ledger::Judged;
use super::*;
use graph::{LinkCost, Parameters};
use wire::data::LinkProtocol;
use wire::link::SessionIndex;

const TO: NodeAddr = NodeAddr(9);
const LATENCY: Duration = Duration::from_millis(20);

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

/// An audit of one destination that gets a packet every 20 ms.
struct Talk {
    audits: Audits,
    way: WayId,
    first: u64,
    asked: Vec<(u64, u16, usize, By)>,
}

impl Talk {
    fn new() -> Talk {
        let mut audits = Audits::default();
        let audit = audits.of(at(0), TO).unwrap();
        let path = || Some(vec![NodeAddr(1), NodeAddr(2), TO]);
        let topology = Topology::new(Parameters::default());
        let journey = Journey {
            ends: (NodeAddr(1), TO),
            topology: &topology,
            is_data: true,
        };
        let way = audit.by_table(at(0), (Routing::Latency, 1), journey, || true, path);
        let way = way.unwrap();
        Talk {
            audits,
            way,
            first: 0,
            asked: Vec::new(),
        }
    }

    fn run(&mut self, from_ms: u64, to_ms: u64, is_data: bool, answers: bool) {
        for ms in from_ms..to_ms {
            if ms % 20 == 0 {
                let sent = Sent {
                    session: SessionIndex::new(7),
                    first: self.first,
                    count: 1,
                    way: Some(self.way),
                    link: LinkProtocol::RealTime,
                    is_data,
                };
                self.first += 1;
                self.audits.note(at(ms), TO, sent);
            }
            for due in self.audits.due(at(ms), |_| (LATENCY, true)) {
                let counters = due.question.lengths.iter().map(|len| usize::from(*len));
                let counters = counters.sum();
                self.asked.push((ms, due.question.number, counters, due.by));
                if answers {
                    let audit = self.audits.get_mut(TO).unwrap();
                    let all = due.question.lengths.into_iter();
                    audit.on_told(due.question.number, all, |_, _| Some(Promise { loss: 0.0 }));
                }
            }
        }
    }
}

#[test]
fn two_questions_a_second_while_there_are_packets() {
    let mut talk = Talk::new();
    talk.run(0, 10_000, true, true);
    assert!((18..=20).contains(&talk.asked.len()), "{:?}", talk.asked);
    assert!(talk.asked.iter().all(|(.., by)| *by == By::Table));
    let counters: usize = talk.asked.iter().map(|(_, _, counters, _)| counters).sum();
    assert!((460..=500).contains(&counters), "{counters}");
    let asked = talk.asked.len();
    talk.run(10_000, 20_000, false, true);
    // Packets that were still too young are asked about, and nothing after them.
    assert!(talk.asked.len() <= asked + 2, "{:?}", &talk.asked[asked..]);
}

#[test]
fn without_an_answer_a_question_goes_by_two_paths_and_then_by_all_ever_more_seldom() {
    let mut talk = Talk::new();
    talk.run(0, 20_000, true, false);
    let by = |by: By| talk.asked.iter().filter(|asked| asked.3 == by).count();
    assert_eq!(by(By::Table), 1);
    assert_eq!(talk.asked[1].3, By::Two);
    let floods = by(By::All);
    assert!((3..=6).contains(&floods), "{floods}");
    assert!(talk.asked.len() <= 20, "{}", talk.asked.len());
    // If nothing is sent any more, nothing is asked any more.
    let asked = talk.asked.len();
    talk.run(20_000, 60_000, false, false);
    assert!(talk.asked.len() <= asked + 1, "{:?}", &talk.asked[asked..]);
}

#[test]
fn many_ends_that_do_not_answer_get_few_floods() {
    let mut budgets = Budgets::default();
    let mut floods = |ms| {
        let all = 0..1_000;
        all.take_while(|_| budgets.take_question_flood(at(ms)))
            .count()
    };
    assert_eq!((floods(0), floods(1_000), floods(5_000)), (4, 0, 1));
}

#[test]
fn destinations_are_bounded_and_idle_ones_make_room() {
    let mut audits = Audits::default();
    for to in 0..AUDITS_MAX as u32 {
        assert!(audits.of(at(0), NodeAddr(to)).is_some());
    }
    let another = NodeAddr(u32::MAX);
    assert!(audits.of(at(1_000), another).is_none());
    assert!(audits.of(at(0) + IDLE, another).is_some());
    assert_eq!(audits.all.len(), AUDITS_MAX);
    audits.expire(at(0) + IDLE * 3);
    assert!(audits.all.is_empty());
}

#[test]
fn copies_to_all_destinations_together_are_limited() {
    let links = [(1, 2), (1, 3)].into_iter();
    let links = links.chain((10..20).flat_map(|to| [(2, to), (3, to)]));
    let links = links.map(|(a, b)| (NodeAddr(a), NodeAddr(b), LinkCost::new(10, 0.0)));
    let topology = Topology::from_links(Parameters::default(), links);
    let mut audits = Audits::default();
    let mut two = 0;
    for to in (10..20).map(NodeAddr) {
        let ways = &mut audits.of(at(0), to).unwrap().ways;
        let natural = ways.enter(at(0), vec![NodeAddr(1), NodeAddr(2), to]);
        ways.want(at(0), natural);
        for slot in 0..8 {
            let judged = Judged {
                way: natural,
                link: LinkProtocol::RealTime,
                at: at(slot * 250),
                sent: 10,
                lost: 10,
            };
            ways.judge(&judged, &mut |_, _| Some(Promise { loss: 0.0 }));
        }
        ways.decide(at(0), &topology, (NodeAddr(1), to));
        assert!(ways.is_in_trial());
        for _ in 0..100 {
            let course = audits.course(at(0), to, (Some(natural), 1), |_| true);
            two += u32::from(matches!(course, Course::Two(..)));
        }
    }
    assert_eq!(two, budget::COPIES_BURST as u32);
}

/// The first packet on the new way is one whose loss does not count, so it shows nothing about the way.
#[test]
fn a_turn_waits_for_a_packet_that_shows_something() {
    let mut ways = Ways::new(at(0));
    let mut enter = |relay: u32| ways.enter(at(0), vec![NodeAddr(1), NodeAddr(relay), TO]);
    let (a, b) = (enter(2), enter(3));
    let mut taken = Taken::first(Some(a));
    assert_eq!(
        taken.turn(|| true),
        None,
        "the first way has none before it"
    );
    taken = taken.next(Some(b));
    assert_eq!(taken.turn(|| false), None);
    // The tables have changed, but lead the same way.
    taken = taken.next(Some(b));
    assert_eq!(taken.turn(|| true), Some((b, Some(a))));
    assert_eq!(taken.turn(|| true), None, "once");
    // Packets that took a link without relays meanwhile have no way before.
    taken = taken.next(None).next(Some(a));
    assert_eq!(taken.turn(|| true), Some((a, None)));
    taken = taken.next(Some(b));
    assert_eq!(taken.turn(|| true), Some((b, Some(a))));
    // A change to another way and back is not a turn.
    taken = taken.next(Some(a)).next(Some(b));
    assert_eq!(taken.turn(|| true), None);
}
