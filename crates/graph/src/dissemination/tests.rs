use super::*;
use crate::metric::{Parameters, SILENT};
use crate::stamp::Subgraph;
use crate::topology::Edge;
use proptest::prelude::{ProptestConfig, Strategy, prop_assert, prop_assert_eq, proptest};
use std::collections::BTreeSet;

const S: u32 = 1;
const T: u32 = 2;
const NEVER: u64 = u64::MAX;
const CALM: Trouble = Trouble {
    source: false,
    destination: false,
    middle: false,
};
const MIDDLE: Trouble = Trouble {
    middle: true,
    ..CALM
};
const SOURCE: Trouble = Trouble {
    source: true,
    ..CALM
};
const DESTINATION: Trouble = Trouble {
    destination: true,
    ..CALM
};
const BOTH: Trouble = Trouble {
    source: true,
    destination: true,
    middle: false,
};
const ALL: [Trouble; 5] = [CALM, MIDDLE, SOURCE, DESTINATION, BOTH];

type Links = Vec<(u32, u32, u32)>;

fn topology(links: &[(u32, u32, u32)]) -> Topology {
    let both = links.iter().flat_map(|&(a, b, ms)| {
        let link = LinkCost::new(ms * 1_000, 0.0);
        [
            (NodeAddr(a), NodeAddr(b), link),
            (NodeAddr(b), NodeAddr(a), link),
        ]
    });
    Topology::from_links(Parameters::default(), both)
}

/// Builds three neighbors at each end, 3 to 5 and 6 to 8, in three rows with one longer crosswise link.
fn rows() -> Topology {
    let mut links = vec![(5, 7, 28)];
    for row in 0..3 {
        links.extend([
            (S, 3 + row, 5),
            (3 + row, 6 + row, 25 + row),
            (6 + row, T, 5),
        ]);
    }
    topology(&links)
}

fn journey(deadline_ms: u64) -> Journey {
    Journey {
        src: NodeAddr(S),
        dst: NodeAddr(T),
        deadline_us: deadline_ms.saturating_mul(1_000),
    }
}

fn told(plan: &Plan) -> Vec<Vec<u32>> {
    let told = |path: &Vec<NodeAddr>| path.iter().map(|node| node.0).collect();
    plan.paths.iter().map(told).collect()
}

/// Gives a link another loss, in both directions.
fn lose(t: &mut Topology, a: u32, b: u32, loss: f64) {
    for (from, to) in [(a, b), (b, a)] {
        let ends = [from, to].map(|n| t.index(NodeAddr(n)).unwrap());
        let us = t.link(ends[0], ends[1]).unwrap().link.latency_us;
        t.set_link(NodeAddr(from), NodeAddr(to), Some(LinkCost::new(us, loss)));
    }
}

#[test]
fn each_trouble_has_its_graph() {
    let t = rows();
    let of = |trouble| told(&plan(&t, &journey(65), trouble));
    let (first, second) = (vec![1, 3, 6, 2], vec![1, 4, 7, 2]);
    assert_eq!(of(CALM), std::slice::from_ref(&first));
    assert_eq!(of(MIDDLE), [first.clone(), second.clone()]);
    // The ear leads over the third link to a node of the second path, with one link less than a row of its own.
    let ear = vec![1, 5, 7, 2];
    assert_eq!(of(SOURCE), [first.clone(), second.clone(), ear.clone()]);
    // Only its own row leads to the third neighbor of the destination.
    let other = vec![1, 5, 8, 2];
    assert_eq!(
        of(DESTINATION),
        [first.clone(), second.clone(), other.clone()]
    );
    assert_eq!(of(BOTH), [first, second, ear, other]);
}

#[test]
fn what_would_be_late_is_left_out() {
    let t = rows();
    let of = |ms, trouble| told(&plan(&t, &journey(ms), trouble));
    assert_eq!(of(34, CALM).len(), 0);
    assert_eq!(of(35, BOTH), [[1, 3, 6, 2]]);
    // The third row takes 37 ms; over the crosswise link it takes 38 ms.
    let third = [vec![1, 3, 6, 2], vec![1, 4, 7, 2], vec![1, 5, 8, 2]];
    assert_eq!(of(37, SOURCE), third);
    assert_eq!(of(NEVER, BOTH).len(), 4);
}

#[test]
fn a_path_of_little_expected_latency_gives_way_to_one_in_time() {
    let mut t = topology(&[(S, 3, 10), (3, T, 10), (S, 4, 5), (4, T, 5)]);
    lose(&mut t, S, 4, 0.3);
    let first = |ms| told(&plan(&t, &journey(ms), CALM));
    assert_eq!(first(100), [[1, 3, 2]]);
    assert_eq!(first(15), [[1, 4, 2]]);
}

#[test]
fn trouble_is_where_the_bad_link_of_the_path_is() {
    let (calm, mut watch) = (rows(), Watch::default());
    let mut now = Time::ZERO + HOLD;
    let mut look = |t: &Topology| {
        now += HOLD * 2;
        watch.look(now, t, &journey(65)).0
    };
    let with = |a, b, loss| {
        let mut t = rows();
        lose(&mut t, a, b, loss);
        t
    };
    for (a, b, trouble) in [(S, 3, SOURCE), (3, 6, MIDDLE), (6, T, DESTINATION)] {
        assert_eq!(look(&calm), CALM);
        // The path has changed at once; the trouble of the previous path counts.
        assert_eq!(look(&with(a, b, 0.2)), trouble, "{a} {b}");
        // After that, a bad link that no packet takes does not count.
        assert_eq!(look(&with(a, b, 0.2)), CALM, "{a} {b}");
    }
    assert_eq!(look(&with(S, 5, 0.2)), CALM, "never on the path");
    let mut two = with(S, 5, 0.2);
    lose(&mut two, S, 4, 0.2);
    assert_eq!(look(&two), SOURCE, "of the source, though not on the path");
    let mut all = rows();
    for i in 0..3 {
        lose(&mut all, S, 3 + i, 0.05);
        lose(&mut all, 6 + i, T, 0.05);
    }
    assert_eq!(look(&all), BOTH);
    assert_eq!(look(&all), BOTH, "and stays there");
}

#[test]
fn links_that_are_silent_gone_or_have_failed_are_trouble() {
    let (calm, now) = (rows(), Time::ZERO + HOLD);
    let link = |price_us| LinkCost {
        price_us,
        ..LinkCost::new(25_000, 0.0)
    };
    let cases = [None, Some(link(SILENT)), Some(link(64_000))];
    for change in cases {
        let mut watch = Watch::default();
        assert_eq!(watch.look(now, &calm, &journey(65)).0, CALM);
        let mut t = rows();
        t.set_link(NodeAddr(3), NodeAddr(6), change);
        assert_eq!(watch.look(now, &t, &journey(65)).0, MIDDLE, "{change:?}");
    }
}

#[test]
fn trouble_comes_at_two_percent_and_goes_after_a_hold_below_one() {
    let mut watch = Watch::default();
    let at = |s| Time::ZERO + Duration::from_secs(s);
    // There is only one path, so it stays.
    let look = |watch: &mut Watch, s, loss| {
        let mut t = topology(&[(S, 3, 5), (3, 4, 20), (4, T, 5)]);
        lose(&mut t, 3, 4, loss);
        watch.look(at(s), &t, &journey(65)).0
    };
    assert_eq!(look(&mut watch, 1, 0.019), CALM);
    assert_eq!(watch.next(), None);
    assert_eq!(look(&mut watch, 2, 0.021), MIDDLE);
    assert_eq!(watch.next(), Some(at(12)));
    assert_eq!(look(&mut watch, 20, 0.011), MIDDLE, "not yet calm");
    assert_eq!(look(&mut watch, 25, 0.009), MIDDLE, "held");
    assert_eq!(watch.next(), Some(at(30)));
    assert_eq!(look(&mut watch, 29, 0.009), MIDDLE);
    assert_eq!(look(&mut watch, 30, 0.009), CALM);
    assert_eq!(
        look(&mut watch, 31, 0.019),
        CALM,
        "to come back it takes 2 %"
    );
}

#[test]
fn where_alarms_are_told_they_decide_and_not_the_loss() {
    let mut watch = Watch::default();
    let at = |s| Time::ZERO + Duration::from_secs(s);
    // There is only one path, so it stays.
    let look = |watch: &mut Watch, s, loss, alarm, price_us| {
        let mut t = topology(&[(S, 3, 5), (3, 4, 20), (4, T, 5)]);
        let link = LinkCost {
            alarm,
            price_us,
            ..LinkCost::new(20_000, loss)
        };
        t.set_link(NodeAddr(3), NodeAddr(4), Some(link));
        watch.look(at(s), &t, &journey(65)).0
    };
    assert_eq!(look(&mut watch, 1, 0.5, Some(false), 0), CALM);
    assert_eq!(look(&mut watch, 2, 0.0, Some(true), 0), MIDDLE);
    assert_eq!(look(&mut watch, 9, 0.5, Some(true), 0), MIDDLE);
    // The announced loss stays for minutes.
    assert_eq!(look(&mut watch, 10, 0.5, Some(false), 0), MIDDLE, "held");
    assert_eq!(watch.next(), Some(at(19)));
    assert_eq!(look(&mut watch, 19, 0.5, Some(false), 0), CALM);
    assert_eq!(
        look(&mut watch, 20, 0.0, Some(false), 64_000),
        MIDDLE,
        "an outage"
    );
    // The far end continues without alarms.
    assert_eq!(look(&mut watch, 40, 0.009, None, 0), CALM);
    assert_eq!(look(&mut watch, 41, 0.5, None, 0), MIDDLE);
}

#[test]
fn trouble_ends_in_its_time_though_the_destination_has_gone() {
    let at = |s| Time::ZERO + Duration::from_secs(s);
    let mut bad = rows();
    lose(&mut bad, 3, 6, 0.2);
    let mut watch = Watch::default();
    watch.look(at(1), &rows(), &journey(65));
    assert_eq!(watch.look(at(2), &bad, &journey(65)).0, MIDDLE);
    let gone = topology(&[(S, 3, 5)]);
    assert_eq!(watch.look(at(11), &gone, &journey(65)), (MIDDLE, 0));
    assert_eq!(watch.next(), Some(at(12)));
    assert_eq!(watch.look(at(12), &gone, &journey(65)), (CALM, 0));
    assert_eq!(watch.next(), None);
}

#[test]
fn a_look_counts_the_runs_that_it_takes() {
    let runs = |watch: &mut Watch, t: &Topology, deadline_ms| {
        let (_, work) = watch.look(Time::ZERO, t, &journey(deadline_ms));
        assert_eq!(work % t.link_count() as u64, 0);
        work / t.link_count() as u64
    };
    let calm = rows();
    assert_eq!(runs(&mut Watch::default(), &calm, 65), 1, "one tree");
    assert_eq!(runs(&mut Watch::default(), &calm, 1), 2, "never in time");
    let mut bad = rows();
    for i in 0..3 {
        lose(&mut bad, S, 3 + i, 0.05);
        lose(&mut bad, 6 + i, T, 0.05);
    }
    let mut watch = Watch::default();
    assert_eq!(runs(&mut watch, &bad, 65), 3, "and one for each end");
    // Both ends are in trouble and the middle is not: each end is examined separately.
    assert_eq!(runs(&mut watch, &bad, 65), 5);
}

fn links() -> impl Strategy<Value = Links> {
    let link = (1u32..10, 1u32..10, 1u32..12);
    proptest::collection::vec(link, 1..40)
}

/// Whenever nodes look, the nodes behind the source see trouble for longer than the source, at least by the margin.
#[test]
fn behind_the_source_trouble_lasts_longer() {
    let calm = rows();
    let mut bad = rows();
    lose(&mut bad, 6, T, 0.1);
    lose(&mut bad, 7, T, 0.1);
    for began_s in 0..25 {
        for ended_s in began_s + 1..25 {
            let at = |watch: &mut Watch, s: u64| {
                let t = if (began_s..ended_s).contains(&s) {
                    &bad
                } else {
                    &calm
                };
                watch
                    .look(Time::ZERO + Duration::from_secs(s), t, &journey(65))
                    .0
            };
            // The source looks each second. The other node looks at different times, and always when the topology
            // changed.
            let (mut source, mut behind) = (Watch::default(), Watch::behind_source());
            let mut last = [0; 2];
            for s in 0..60 {
                if !at(&mut source, s).is_calm() {
                    last[0] = s;
                }
                let now = Time::ZERO + Duration::from_secs(s);
                let is_due = behind.next().is_some_and(|next| now >= next);
                if s == began_s || s == ended_s || is_due {
                    at(&mut behind, s);
                }
                if !behind.trouble().is_calm() {
                    last[1] = s;
                }
            }
            assert!(last[0] >= ended_s && last[1] <= ended_s + 12, "{last:?}");
            assert!(last[1] >= last[0] + 2, "{began_s} to {ended_s}: {last:?}");
        }
    }
}

/// Packets of a tree take the tree's path, even if there is a better one.
#[test]
fn a_tree_is_watched_along_its_own_path() {
    let mut t = rows();
    lose(&mut t, 5, 8, 0.1);
    let look = |path: [u32; 4]| {
        let path = path.map(NodeAddr).to_vec();
        let mut watch = Watch::default();
        watch.look_along(Time::ZERO, &t, &journey(65), path).0
    };
    assert_eq!(Watch::default().look(Time::ZERO, &t, &journey(65)).0, CALM);
    assert_eq!(look([1, 3, 6, 2]), CALM);
    assert_eq!(look([1, 5, 8, 2]), MIDDLE);
}

/// Returns all continuations from the end of `path` to a node that take at most this time, and how much of the time
/// they leave.
fn ways(
    t: &Topology,
    path: &mut Vec<NodeIndex>,
    to: NodeIndex,
    left_us: u64,
    all: &mut Vec<(u64, Vec<NodeIndex>)>,
) {
    let last = path[path.len() - 1];
    if last == to {
        return all.push((left_us, path.clone()));
    }
    for edge in t.links_from(last) {
        let left_us = left_us.checked_sub(u64::from(edge.link.latency_us));
        let Some(left_us) = left_us.filter(|_| !path.contains(&edge.peer)) else {
            continue;
        };
        path.push(edge.peer);
        ways(t, path, to, left_us, all);
        path.pop();
    }
}

/// Checks that a link of the source is in the graph exactly if it is of use, or that a quickest path over it closes a
/// cycle. For reversed paths, the link is the last one.
fn is_right(
    t: &Topology,
    paths: &[Vec<NodeAddr>],
    journey: &Journey,
    edge: &Edge,
    backwards: bool,
) -> bool {
    let ends = [journey.src, journey.dst].map(|addr| t.index(addr).unwrap());
    let (near, far) = if backwards {
        (ends[1], ends[0])
    } else {
        (ends[0], ends[1])
    };
    let mut all = Vec::new();
    if let Some(left) = journey
        .deadline_us
        .checked_sub(u64::from(edge.link.latency_us))
    {
        ways(t, &mut vec![near, edge.peer], far, left, &mut all);
    }
    let addrs = |way: &[NodeIndex]| {
        let mut addrs: Vec<NodeAddr> = way.iter().map(|node| t.addr(*node)).collect();
        if backwards {
            addrs.reverse();
        }
        addrs
    };
    let link = addrs(&[near, edge.peer]);
    let is_used = paths
        .iter()
        .any(|path| path.windows(2).any(|hop| hop == link));
    let quickest = all.iter().map(|(left, _)| *left).max();
    let mut quick = all.iter().filter(|(left, _)| Some(*left) == quickest);
    let closes = quick.any(|(_, way)| {
        let with: Vec<Vec<NodeAddr>> = paths.iter().cloned().chain([addrs(way)]).collect();
        Subgraph::of_paths(&with).is_err()
    });
    is_used != all.is_empty() || !is_used && closes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_path_is_in_time_and_of_links_that_there_are_and_together_they_have_no_cycle(
        links in links(),
        deadline_ms in 1u64..40,
    ) {
        let t = topology(&links);
        let journey = journey(deadline_ms);
        let mut fewer = 0;
        for trouble in ALL {
            let paths = plan(&t, &journey, trouble).paths;
            prop_assert!(Subgraph::of_paths(&paths).is_ok(), "{:?}", paths);
            for path in &paths {
                prop_assert_eq!((path[0], path[path.len() - 1]), (journey.src, journey.dst));
                let us = path.windows(2).map(|hop| {
                    let ends = t.index(hop[0]).zip(t.index(hop[1]));
                    let edge = ends.and_then(|(from, to)| t.link(from, to));
                    edge.map_or(NEVER, |edge| u64::from(edge.link.latency_us))
                });
                prop_assert!(us.fold(0, u64::saturating_add) <= journey.deadline_us);
                let nodes: BTreeSet<&NodeAddr> = path.iter().collect();
                prop_assert_eq!(nodes.len(), path.len());
            }
            prop_assert!(paths.len() >= fewer);
            if trouble == CALM {
                prop_assert!(paths.len() <= 1);
                fewer = paths.len();
            }
        }
    }

    #[test]
    fn every_link_of_an_end_that_is_of_use_is_used_unless_it_closes_a_cycle(
        links in links(),
        deadline_ms in 1u64..40,
    ) {
        let t = topology(&links);
        let journey = journey(deadline_ms);
        let Some((s, d)) = t.index(journey.src).zip(t.index(journey.dst)) else {
            return Ok(());
        };
        let graph = |trouble| plan(&t, &journey, trouble).paths;
        let (source, destination, both) = (graph(SOURCE), graph(DESTINATION), graph(BOTH));
        for edge in t.links_from(s) {
            for paths in [&source, &both] {
                let to = t.addr(edge.peer).0;
                prop_assert!(is_right(&t, paths, &journey, edge, false), "to {to} in {paths:?}");
            }
        }
        for edge in t.links_to(d) {
            for paths in [&destination, &both] {
                let from = t.addr(edge.peer).0;
                prop_assert!(is_right(&t, paths, &journey, edge, true), "from {from} in {paths:?}");
            }
        }
    }
}

/// In a mesh of three neighbors at each end, each leads to two: as a ring, with the fewest links.
#[test]
fn with_trouble_at_both_ends_each_neighbour_of_one_leads_to_two_of_the_other() {
    let mut links = Vec::new();
    for a in 3..6 {
        links.extend([(S, a, 5), (a + 3, T, 5)]);
        links.extend((6..9).map(|b| (a, b, 25)));
    }
    let t = topology(&links);
    let graph = Subgraph::of_paths(&plan(&t, &journey(65), BOTH).paths).unwrap();
    let count = |wanted: fn(u32, u32) -> bool| {
        let ends = graph.ends().filter(|(from, to)| wanted(from.0, to.0));
        ends.count()
    };
    assert_eq!(
        count(|from, _| from == S),
        3,
        "{:?}",
        graph.ends().collect::<Vec<_>>()
    );
    assert_eq!(count(|_, to| to == T), 3);
    assert_eq!(
        count(|from, to| from != S && to != T),
        6,
        "{:?}",
        graph.ends().collect::<Vec<_>>()
    );
}
