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
/// The interval between two packets of a call.
const EVERY: Duration = Duration::from_millis(20);

/// The neighbours behind which members are, by their numbers.
const NEXT: [NodeAddr; 2] = [NodeAddr(0x0a07_0001), NodeAddr(0x0a07_0002)];

fn path(to: NodeAddr) -> Vec<NodeAddr> {
    vec![NodeAddr(0x0a07_0000), NEXT[to.0 as usize % 2], to]
}

fn way(to: NodeAddr) -> Way {
    Way {
        latency: LATENCY,
        has_room: true,
        path: path(to),
    }
}

fn member(n: u32) -> NodeAddr {
    NodeAddr(0x0a07_0100 + n)
}

/// A source, and members to which the tree brings what `brings` says.
struct Bench {
    audits: GroupAudits,
    now: Time,
    counter: u64,
    groups: Vec<NodeAddr>,
    asked: Vec<(Time, NodeAddr)>,
    found: Vec<(Time, NodeAddr, GroupFinding)>,
}

impl Bench {
    fn new(members: u32) -> Bench {
        Bench::with(members, 1)
    }

    /// All members are in all groups.
    fn with(members: u32, groups: u32) -> Bench {
        let mut bench = Bench {
            audits: GroupAudits::default(),
            now: Time::ZERO,
            counter: 0,
            groups: (0..groups).map(|n| NodeAddr(GROUP.0 + n)).collect(),
            asked: Vec::new(),
            found: Vec::new(),
        };
        bench.seal();
        for group in bench.groups.clone() {
            let all = (0..members).map(member);
            bench.audits.set_members(bench.now, group, all);
        }
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
            excused: Vec::new(),
        };
        self.counter += 1;
        for group in &self.groups {
            self.audits.note(self.now, *group, sent.clone());
        }
    }

    /// Lets time pass. `brings` says whether the tree brings a counter to a member, or `None` if the member does not
    /// answer.
    fn run(&mut self, seconds: u64, brings: impl Fn(NodeAddr, u64) -> Option<bool>) {
        for _ in 0..seconds * 50 {
            self.now += EVERY;
            self.seal();
            let due = self.audits.due(self.now, |to, _| Some(way(to)));
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
                let (path, promise) = (|_| Some(path(to)), |_: &[_], _: &_| Some(CLEAN));
                let found = self
                    .audits
                    .on_told(self.now, (to, number), opened, path, promise);
                if let Some((group, finding)) = found {
                    assert!(self.groups.contains(&group));
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
        // The tree loses every packet, every second one, or one of twenty.
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
    // The tree delivers for five seconds of every ten.
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
    // Each member is asked in turn.
    let mut nodes: Vec<NodeAddr> = bench.asked.iter().map(|(_, node)| *node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    assert_eq!(nodes.len(), 200);
    assert!(!bench.audits.copied(GROUP).is_empty());
    bench.run(60, |_, _| Some(false));
    assert_eq!(bench.audits.copied(GROUP).len(), COPIED_MAX);
    // A member that leaves makes room.
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

/// Runs members that get nothing, while this node drops packets before the link to the first neighbour.
fn starved_without(members: u32, path_now: impl Fn(u32, NodeAddr) -> Vec<NodeAddr>) -> Bench {
    let mut bench = Bench::new(members);
    for turn in 0..1_000 {
        bench.now += EVERY;
        bench.seal();
        bench.audits.excuse(bench.now, GROUP, (NEXT[0], 1));
        let path = |to: NodeAddr| path_now(turn, to);
        let way = |to: NodeAddr, _| {
            let path = path(to);
            Some(Way { path, ..way(to) })
        };
        for question in bench.audits.due(bench.now, way) {
            // A question covers half a second, in stretches of 50 ms or less.
            assert!(question.lengths.len() <= 15, "{:?}", question.lengths);
            let none = question.lengths.iter().map(|_| 0);
            let promise = |_: &[_], _: &Stretch| Some(CLEAN);
            let what = (question.to, question.number);
            let path = |_| Some(path(question.to));
            let found = bench.audits.on_told(bench.now, what, none, path, promise);
            bench
                .found
                .extend(found.map(|(_, what)| (bench.now, question.to, what)));
        }
    }
    bench
}

#[test]
fn what_is_given_up_late_is_excused_in_its_own_stretch() {
    let mut stretches = Stretches::default();
    let at = |ms: u64| Time::ZERO + Duration::from_millis(ms);
    for (ms, first) in [(0, 0), (60, 1), (120, 2)] {
        let sent = Stretch {
            key: KEY,
            first,
            count: 1,
            carried: CARRIED,
            at: at(ms),
            left: None,
            excused: Vec::new(),
        };
        stretches.note(at(ms), sent);
    }
    stretches.excuse(at(60), NEXT[0], 1);
    let way = (CARRIED.routing, Duration::ZERO);
    let ripe = stretches.ripe(at(5_000), Time::ZERO, way);
    let excused: Vec<u16> = ripe.iter().map(|s| s.excused_for(NEXT[0])).collect();
    assert_eq!(excused, [0, 1, 0]);
}

#[test]
fn what_has_not_left_is_no_loss_of_those_behind_that_link_and_excuses_no_others() {
    let bench = starved_without(2, |_, to| path(to));
    assert_eq!(bench.audits.copied(GROUP), [member(1)]);
    assert_eq!(bench.found.len(), 1);
}

#[test]
fn what_one_path_has_lost_is_no_reproach_to_the_next() {
    // The path has another relay each second, so no path has lost packets for long enough.
    let bench = starved_without(2, |turn, to| {
        let mut path = path(to);
        path.insert(2, NodeAddr(0x0a07_0200 + turn / 50));
        path
    });
    assert_eq!(bench.found, []);
}

#[test]
fn one_member_takes_few_places_and_none_for_long_by_silence() {
    let mut bench = Bench::with(2, 20);
    let liar = member(0);
    bench.run(30, |to, _| Some(to != liar));
    let places = |bench: &Bench, of: NodeAddr| {
        let groups = bench.groups.iter();
        let copied = groups.filter(|group| bench.audits.copied(**group).contains(&of));
        copied.count()
    };
    assert_eq!(places(&bench, liar), COPIED_GROUPS_MAX);
    bench.run(30, |_, _| Some(false));
    assert_eq!(places(&bench, member(1)), COPIED_GROUPS_MAX);
    bench.run(60, |to, _| (to != liar).then_some(false));
    assert_eq!(places(&bench, liar), 0);
    assert_eq!(places(&bench, member(1)), COPIED_GROUPS_MAX);
}

#[test]
fn who_is_starved_takes_the_place_of_who_has_had_it_for_longest() {
    let mut bench = Bench::new(1 + COPIED_MAX as u32);
    let honest = member(COPIED_MAX as u32);
    bench.run(30, |to, _| Some(to == honest));
    assert_eq!(bench.audits.copied(GROUP).len(), COPIED_MAX);
    bench.run(10, |_, _| Some(false));
    assert!(bench.audits.copied(GROUP).contains(&honest));
    assert_eq!(bench.audits.copied(GROUP).len(), COPIED_MAX);
}

#[test]
fn a_member_whose_path_turns_gets_copies_until_the_new_one_has_brought_some() {
    for brings_all in [true, false] {
        let mut bench = Bench::new(3);
        bench.run(5, |_, _| Some(true));
        let paths = bench.audits.paths(GROUP);
        assert_eq!(paths.len(), 3);
        let (at, turned) = (bench.now, (GROUP, member(1)));
        bench.audits.turn(at, turned, paths[0].1.clone(), false);
        assert!(bench.audits.copied(GROUP).is_empty(), "nothing is doubtful");
        let alone = |path| Turn {
            path,
            has_second: false,
        };
        bench.audits.turn(at, turned, alone(path(member(1))), true);
        assert_eq!(bench.audits.copied(GROUP), [member(1)]);
        assert!(bench.audits.is_introduced(GROUP, member(1)));
        assert_eq!(bench.audits.starved(), 0, "it lacks nothing");
        let from = bench.counter;
        bench.run(3, |to, n| Some(brings_all || to != member(1) || n < from));
        match brings_all {
            true => assert!(bench.audits.copied(GROUP).is_empty() && bench.found.is_empty()),
            false => {
                assert_eq!(bench.audits.copied(GROUP), [member(1)]);
                assert!(!bench.audits.is_introduced(GROUP, member(1)));
                assert!(matches!(
                    bench.found[..],
                    [(_, _, GroupFinding::Starved { .. })]
                ));
            }
        }
    }
}

/// The tree's path drops half of the packets from the first one on, and for 20 s a second way brings them all.
#[test]
fn what_two_ways_brought_is_no_credit_to_the_tree_alone() {
    let mut bench = Bench::new(1);
    let turn = |has_second| Turn {
        path: path(member(0)),
        has_second,
    };
    let turned = (GROUP, member(0));
    bench.audits.turn(bench.now, turned, turn(true), false);
    bench.run(20, |_, _| Some(true));
    let (at, from) = (bench.now, bench.counter);
    bench.audits.turn(at, turned, turn(false), true);
    assert!(
        bench.audits.is_introduced(GROUP, member(0)),
        "nothing is missing until the path is known"
    );
    bench.run(2, |_, n| Some(n < from || n % 2 == 0));
    let [(found, _, GroupFinding::Starved { ref evidence })] = bench.found[..] else {
        panic!("{:?}", bench.found);
    };
    assert!(found.since(at) <= Duration::from_millis(1_500));
    assert!(evidence.loss() > 0.4, "{}", evidence.loss());
}

/// The tables change twice in quick succession: to a path on which nothing is lost, and then to a hole.
#[test]
fn the_paths_of_few_members_are_looked_at_whenever_the_tables_are_others() {
    let ms = |ms: u64| Time::ZERO + Duration::from_millis(1_000 + ms);
    let known = |tables| Known {
        tables: Some(tables),
        looks: 0,
    };
    let turns = |members: u32| -> Vec<bool> {
        let mut bench = Bench::new(members);
        let tables = [(0, 1), (0, 1), (20, 2), (40, 3), (119, 4), (120, 5)];
        let each = tables.into_iter();
        each.map(|(at, tables)| bench.audits.have_turned(ms(at), GROUP, known(tables)))
            .collect()
    };
    assert_eq!(turns(1), [true, false, true, true, true, true]);
    assert_eq!(turns(4_000), [true, false, false, false, true, false]);
}
