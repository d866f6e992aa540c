//! Audits of groups without a node.

use super::*;
use wire::data::{LinkProtocol, Routing};

const GROUP: NodeAddr = NodeAddr(0xef01_0203);
const KEY: SessionIndex = SessionIndex::new(7);
const CARRIED: Carried = Carried {
    link: LinkProtocol::RealTime,
    routing: Routing::ExpectedLatency,
};
const CLEAN: Promise = Promise { loss: 0.0 };
const LATENCY: Duration = Duration::from_millis(20);
/// Packets of a call.
const EVERY: Duration = Duration::from_millis(20);

fn member(n: u32) -> NodeAddr {
    NodeAddr(0x0a07_0100 + n)
}

/// A source, and members to which the tree brings what `brings` says.
struct Bench {
    audits: GroupAudits,
    now: Time,
    counter: u64,
    asked: Vec<(Time, NodeAddr)>,
    found: Vec<(Time, NodeAddr, GroupFinding)>,
}

impl Bench {
    fn new(members: u32) -> Bench {
        let mut bench = Bench {
            audits: GroupAudits::default(),
            now: Time::ZERO,
            counter: 0,
            asked: Vec::new(),
            found: Vec::new(),
        };
        bench.seal();
        let all = (0..members).map(member);
        bench.audits.set_members(bench.now, GROUP, all);
        bench
    }

    fn seal(&mut self) {
        let sent = Stretch {
            key: KEY,
            first: self.counter,
            count: 1,
            carried: CARRIED,
            at: self.now,
            left: None,
            excused: 0,
        };
        self.counter += 1;
        self.audits.note(self.now, GROUP, sent);
    }

    /// Lets time pass. `brings` says which counters the tree brings to whom; none from who does not answer.
    fn run(&mut self, seconds: u64, brings: impl Fn(NodeAddr, u64) -> Option<bool>) {
        for _ in 0..seconds * 50 {
            self.now += EVERY;
            self.seal();
            let due = self.audits.due(self.now, |_, _| Some((LATENCY, true)));
            for question in due {
                self.asked.push((self.now, question.to));
                let mut at = u64::from(question.first);
                let opened: Option<Vec<u16>> = question
                    .lengths
                    .iter()
                    .map(|len| {
                        let stretch = at..at + u64::from(*len);
                        at += u64::from(*len);
                        let came = stretch.map(|n| brings(question.to, n).map(u16::from));
                        came.sum::<Option<u16>>()
                    })
                    .collect();
                let Some(opened) = opened else {
                    continue;
                };
                let (to, number) = (question.to, question.number);
                let opened = opened.into_iter();
                let found = self
                    .audits
                    .on_told(self.now, to, number, opened, |_| Some(CLEAN));
                if let Some((group, finding)) = found {
                    assert_eq!(group, GROUP);
                    self.found.push((self.now, to, finding));
                }
            }
            self.audits.expire(self.now);
        }
    }
}

#[test]
fn a_member_that_the_tree_starves_gets_copies_until_it_brings_all_again() {
    for (loss, within_ms) in [(1, 1_500), (2, 3_000), (20, 120_000)] {
        let mut bench = Bench::new(3);
        bench.run(5, |_, _| Some(true));
        assert_eq!(bench.found, []);
        let starts = bench.now;
        // Every packet, every second one, or one of twenty.
        bench.run(120, |to, n| Some(to != member(1) || n % loss != 0));
        let [(at, to, GroupFinding::Starved { evidence })] = &bench.found[..] else {
            panic!("{loss}: {:?}", bench.found);
        };
        assert_eq!(*to, member(1));
        let took = at.since(starts);
        assert!(took < Duration::from_millis(within_ms), "{loss}: {took:?}");
        assert!(evidence.loss() > 0.01, "{loss}: {}", evidence.loss());
        assert_eq!(bench.audits.copied(GROUP), [member(1)]);
        bench.audits.count_copies(GROUP, member(1), 5);
        let copied: Vec<CopiedMember> = bench.audits.copied_members(GROUP).collect();
        assert_eq!((copied.len(), copied[0].packets), (1, 5));
        assert_eq!(bench.audits.totals(), (1, 5));
        bench.run(60, |_, _| Some(true));
        assert_eq!(bench.found.len(), 2, "{:?}", bench.found);
        assert_eq!(bench.found[1].2, GroupFinding::Whole);
        assert!(bench.audits.copied(GROUP).is_empty());
    }
}

#[test]
fn a_hole_that_opens_and_closes_gets_copies_for_ever_longer() {
    let mut bench = Bench::new(1);
    // Five seconds in ten.
    bench.run(600, |_, n| Some(n / 250 % 2 == 0));
    let begun = bench.found.iter();
    let begun = begun.filter(|(_, _, found)| matches!(found, GroupFinding::Starved { .. }));
    assert!((1..=7).contains(&begun.count()), "{:?}", bench.found);
}

#[test]
fn links_that_lose_a_little_are_no_reproach() {
    let mut bench = Bench::new(5);
    bench.run(300, |_, n| Some(n % 101 != 0));
    assert_eq!(bench.found, []);
}

#[test]
fn questions_and_copies_are_bounded() {
    let mut bench = Bench::new(200);
    bench.run(20, |_, _| Some(false));
    let rate = bench.asked.len() as f64 / 19.0;
    assert!((15.0..22.0).contains(&rate), "{rate}");
    // Each in its turn.
    let mut nodes: Vec<NodeAddr> = bench.asked.iter().map(|(_, node)| *node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    assert_eq!(nodes.len(), 200);
    assert!(!bench.audits.copied(GROUP).is_empty());
    bench.run(60, |_, _| Some(false));
    assert_eq!(bench.audits.copied(GROUP).len(), COPIED_MAX);
    // Who leaves makes room.
    let gone = bench.audits.copied(GROUP)[0];
    let rest: Vec<NodeAddr> = (0..200).map(member).filter(|node| *node != gone).collect();
    bench.audits.set_members(bench.now, GROUP, rest.into_iter());
    assert_eq!(bench.audits.copied(GROUP).len(), COPIED_MAX - 1);
}

#[test]
fn one_member_is_asked_twice_a_second_and_who_does_not_answer_ever_more_seldom() {
    let mut bench = Bench::new(2);
    let silent = member(1);
    bench.run(60, |to, _| (to != silent).then_some(true));
    let asked = |node: NodeAddr| bench.asked.iter().filter(|(_, to)| *to == node).count();
    assert!(
        (110..=120).contains(&asked(member(0))),
        "{}",
        asked(member(0))
    );
    assert!(asked(silent) < 40, "{}", asked(silent));
    assert_eq!(bench.found, []);
}

#[test]
fn who_has_no_relay_before_it_is_not_asked() {
    let mut bench = Bench::new(1);
    for _ in 0..500 {
        bench.now += EVERY;
        bench.seal();
        assert!(bench.audits.due(bench.now, |_, _| None).is_empty());
    }
}

#[test]
fn what_has_not_left_is_nobodys_loss() {
    let mut bench = Bench::new(1);
    for _ in 0..1_000 {
        bench.now += EVERY;
        bench.seal();
        bench.audits.excuse(GROUP);
        for question in bench.audits.due(bench.now, |_, _| Some((LATENCY, true))) {
            let none = question.lengths.iter().map(|_| 0);
            let promise = |_: &Stretch| Some(CLEAN);
            let found =
                bench
                    .audits
                    .on_told(bench.now, question.to, question.number, none, promise);
            assert_eq!(found, None);
        }
    }
}
