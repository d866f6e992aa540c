use super::edit::{BadEdit, Direction, Edit, apply, protect};
use super::pairs::{STAMPED_PAIRS_MAX, TooManyPairs, changed};
use super::*;
use crate::metric::{Parameters, Repair};

const A: NodeAddr = NodeAddr(1);
const B: NodeAddr = NodeAddr(2);
const C: NodeAddr = NodeAddr(3);
const D: NodeAddr = NodeAddr(4);

/// Builds the paths from A to D: the path over B is quick and lossy, the path over C slow and clean, and the direct
/// link slower and lossier.
fn network() -> Topology {
    let links = [
        (A, B, 10, 0.05),
        (B, D, 10, 0.0),
        (A, C, 15, 0.0),
        (C, D, 15, 0.0),
        (A, D, 40, 0.1),
    ];
    let both = links.into_iter().flat_map(|(a, b, ms, loss)| {
        let link = LinkCost::new(ms * 1_000, loss);
        [(a, b, link), (b, a, link)]
    });
    Topology::from_links(Parameters::default(), both)
}

fn ask(class: Class) -> Question {
    Question {
        src: A,
        dst: D,
        class,
        deadline_us: 100_000,
        runners_up: 2,
    }
}

fn nodes(route: &Route) -> Vec<u32> {
    route.nodes().map(|node| node.0).collect()
}

fn choose(topology: &Topology, class: Class) -> (Vec<Vec<u32>>, Vec<Vec<u32>>) {
    let answer = answer(topology, &ask(class)).unwrap();
    assert_eq!(answer.upper.is_some(), class == Class::Best);
    let nodes = |routes: &[Route]| routes.iter().map(nodes).collect();
    (nodes(&answer.chosen), nodes(&answer.runners_up))
}

#[test]
fn every_class_chooses_by_its_own_and_names_who_came_next() {
    let (t, by_b, by_c, direct) = (network(), vec![1, 2, 4], vec![1, 3, 4], vec![1, 4]);
    let one = |path: &Vec<u32>| vec![path.clone()];
    let two = |a: &Vec<u32>, b: &Vec<u32>| vec![a.clone(), b.clone()];
    for (class, chosen, next) in [
        ("latency", one(&by_b), two(&by_c, &direct)),
        ("loss", one(&by_c), two(&by_b, &direct)),
        ("hops", one(&direct), two(&by_b, &by_c)),
        ("expected-latency", one(&by_b), two(&by_c, &direct)),
        ("width", one(&by_c), two(&by_b, &direct)),
        ("best", one(&by_c), two(&by_b, &direct)),
        ("disjoint", two(&by_b, &by_c), one(&direct)),
        (
            "disjoint-3",
            vec![by_b.clone(), by_c.clone(), direct.clone()],
            vec![],
        ),
    ] {
        let parsed: Class = class.parse().unwrap();
        assert_eq!(choose(&t, parsed), (chosen, next), "{class}");
        assert_eq!(parsed.to_string(), class);
    }
    for bad in [
        "",
        "fast",
        "disjoint-1",
        "disjoint-9",
        "disjoint-x",
        "best-2",
    ] {
        assert_eq!(bad.parse::<Class>(), Err(UnknownClass), "{bad}");
    }
}

#[test]
fn targeted_is_one_path_in_calm_and_says_what_trouble_would_make_of_it() {
    let links = [(A, B, 10), (B, D, 10), (A, C, 15), (C, D, 15), (A, D, 40)];
    let links = links.map(|(a, b, ms)| (a, b, LinkCost::new(ms * 1_000, 0.0)));
    let calm = Topology::from_links(Parameters::default(), links);
    let class: Class = "targeted".parse().unwrap();
    assert_eq!(class.to_string(), "targeted");
    let told = answer(&calm, &ask(class)).unwrap();
    let paths: Vec<Vec<u32>> = told.chosen.iter().map(nodes).collect();
    assert_eq!(paths, [[1, 2, 4]]);
    let targeted = told.targeted.unwrap();
    assert_eq!(targeted.trouble, Trouble::default());
    // There are two paths, and with trouble at an end its third link as well.
    assert_eq!(targeted.links, [4, 5, 5, 5]);
    // Two links of the source are bad.
    let told = answer(&network(), &ask(class)).unwrap();
    let trouble = told.targeted.unwrap().trouble;
    assert!(trouble.source, "{trouble:?}");
    assert_eq!(told.chosen.len(), 3);
    assert_eq!(answer(&calm, &ask(Class::Best)).unwrap().targeted, None);
}

#[test]
fn a_route_has_all_its_numbers() {
    let why = answer(&network(), &ask(Class::Metric(Metric::Latency))).unwrap();
    let route = &why.chosen[0];
    assert_eq!(route.latency_us, 20_000);
    assert_eq!(route.cost(Metric::Hops), Cost(2));
    assert_eq!(route.cost(Metric::Latency), Cost(20_000_000));
    let sum =
        |metric: Metric| -> u64 { route.legs.iter().map(|l| l.costs[metric.index()].0).sum() };
    for metric in Metric::ALL {
        assert_eq!(route.cost(metric), Cost(sum(metric)));
    }
    assert_eq!(
        route.width, route.legs[0].width,
        "the lossy link is the narrow one"
    );
    assert!((route.unrecovered - 0.95).abs() < 1e-4);
    let p = route.legs[0].link.loss_share();
    assert!((route.recovered - (1.0 - (2.0 * p * p - 3.0 * p * p * p))).abs() < 1e-9);
    // Recovered packets take three times the link's latency and the time to detect: too late.
    let soon = answer(
        &network(),
        &Question {
            deadline_us: 30_000,
            ..ask(Class::Best)
        },
    )
    .unwrap();
    assert_eq!(nodes(&soon.chosen[0]), [1, 3, 4]);
    let hasty = answer(
        &network(),
        &Question {
            deadline_us: 1_000,
            ..ask(Class::Best)
        },
    )
    .unwrap();
    assert_eq!(hasty.chosen[0].recovered, 0.0);
    assert!(hasty.upper.unwrap() <= best::ROUNDING);
}

#[test]
fn runners_up_are_bounded_and_none_may_be_wanted() {
    let mut t = Topology::new(Parameters::default());
    let link = Some(LinkCost::new(1_000, 0.0));
    for from in 1..9 {
        for to in 1..9 {
            t.set_link(NodeAddr(from), NodeAddr(to), link);
        }
    }
    for class in Class::NAMES {
        let class: Class = class.parse().unwrap();
        let with = |runners_up| {
            answer(
                &t,
                &Question {
                    runners_up,
                    ..ask(class)
                },
            )
            .unwrap()
        };
        assert_eq!(with(0).runners_up, []);
        assert_eq!(with(usize::MAX).runners_up.len(), RUNNERS_UP_MAX, "{class}");
    }
}

#[test]
fn there_is_a_reason_for_no_path() {
    let mut t = network();
    let e = NodeAddr(5);
    for class in Class::NAMES {
        let class: Class = class.parse().unwrap();
        let why = |t: &Topology, src, dst| {
            answer(
                t,
                &Question {
                    src,
                    dst,
                    ..ask(class)
                },
            )
            .unwrap_err()
        };
        assert_eq!(why(&t, A, NodeAddr(9)), NoPath::Unknown(NodeAddr(9)));
        assert_eq!(why(&t, NodeAddr(9), A), NoPath::Unknown(NodeAddr(9)));
        assert_eq!(why(&t, A, A), NoPath::Same(A));
        t.add_node(e);
        assert_eq!(why(&t, A, e), NoPath::Unreachable(A, e));
        assert_eq!(why(&t, e, A), NoPath::Unreachable(e, A));
    }
}

fn link(a: NodeAddr, b: NodeAddr, latency_us: Option<u32>, loss: Option<u16>) -> Edit {
    Edit::Link {
        a,
        b,
        direction: Direction::Both,
        latency_us,
        loss,
    }
}

#[test]
fn edits_change_what_they_name_and_nothing_else() {
    let t = network();
    let at = |t: &Topology, from, to| {
        t.link(t.index(from).unwrap(), t.index(to).unwrap())
            .map(|edge| edge.link)
    };
    let lossy = apply(&t, &[link(A, B, None, Some(6_554))]).unwrap();
    for (from, to) in [(A, B), (B, A)] {
        let expected = LinkCost::of_share(10_000, 6_554);
        assert_eq!(at(&lossy, from, to), Some(expected));
    }
    assert_eq!(at(&lossy, B, D), at(&t, B, D));
    let one_way = Edit::Link {
        a: A,
        b: B,
        direction: Direction::There,
        latency_us: Some(7),
        loss: None,
    };
    let slow = apply(&t, &[one_way]).unwrap();
    assert_eq!(at(&slow, A, B).unwrap().latency_us, 7);
    assert_eq!(at(&slow, B, A), at(&t, B, A));
    let added = apply(&t, &[link(B, C, Some(500), None)]).unwrap();
    assert_eq!(at(&added, C, B), Some(LinkCost::new(500, 0.0)));
    let asked = |strikes| {
        let mut lossy = lossy.clone();
        protect(&mut lossy, (A, B), strikes, None);
        lossy
    };
    let repair = |t: &Topology, from, to| at(t, from, to).unwrap().repair;
    assert_eq!(repair(&asked(5), A, B), Some(Repair::new(5, 6_554, 6_554)));
    assert_eq!(repair(&asked(5), B, A), None);
    let residual = |strikes| {
        let link = at(&asked(strikes), A, B).unwrap();
        crate::protection::left(link, 100_000, t.parameters()).share()
    };
    assert!((residual(0) - 0.1).abs() < 1e-4 && residual(5) < 0.01);
    // A new loss also affects the requests of the other direction.
    let one_way = Edit::Link {
        a: B,
        b: A,
        direction: Direction::There,
        latency_us: None,
        loss: Some(3_277),
    };
    let back = apply(&asked(5), &[one_way]).unwrap();
    assert_eq!(repair(&back, A, B), Some(Repair::new(5, 6_554, 3_277)));
    let mut gone = t.clone();
    protect(&mut gone, (B, C), 5, None);
    assert_eq!(at(&gone, B, C), None, "there is no link to protect");
    let down = apply(&t, &[Edit::LinkDown { a: A, b: B }]).unwrap();
    assert_eq!((at(&down, A, B), at(&down, B, A)), (None, None));
    assert_eq!(down.link_count(), t.link_count() - 2);
    let gone = apply(&t, &[Edit::NodeDown(D)]).unwrap();
    assert_eq!(gone.link_count(), 4);
    assert_eq!(gone.node_count(), t.node_count());
    // Edits apply in their order, so the last one counts.
    let both = [link(A, B, Some(1), None), link(A, B, Some(2), None)];
    assert_eq!(at(&apply(&t, &both).unwrap(), A, B).unwrap().latency_us, 2);
}

#[test]
fn edits_that_cannot_be_are_told() {
    let t = network();
    let (e, down) = (NodeAddr(9), |a, b| Edit::LinkDown { a, b });
    for (edit, why) in [
        (link(A, e, Some(1), None), BadEdit::Unknown(e)),
        (link(e, A, Some(1), None), BadEdit::Unknown(e)),
        (link(A, A, Some(1), None), BadEdit::Same(A)),
        (link(B, C, None, Some(9)), BadEdit::NoLink(B, C)),
        (down(B, C), BadEdit::NoLink(B, C)),
        (down(B, e), BadEdit::Unknown(e)),
        (down(B, B), BadEdit::Same(B)),
        (Edit::NodeDown(e), BadEdit::Unknown(e)),
    ] {
        assert_eq!(apply(&t, &[edit]).unwrap_err(), why, "{edit:?}");
        assert!(!why.to_string().is_empty());
    }
    // A link that is down cannot go down again.
    assert_eq!(
        apply(&t, &[down(A, B), down(A, B)]).unwrap_err(),
        BadEdit::NoLink(A, B)
    );
}

#[test]
fn the_pairs_that_change_are_all_and_only_those() {
    let before = network();
    for edits in [
        vec![link(A, B, None, Some(20_000))],
        vec![Edit::NodeDown(B)],
        vec![Edit::LinkDown { a: A, b: B }, link(A, D, Some(1), Some(0))],
        vec![],
    ] {
        let after = apply(&before, &edits).unwrap();
        for class in Class::NAMES {
            let class: Class = class.parse().unwrap();
            let found = changed(&before, &after, class, 100_000, 100).unwrap();
            let mut expected = Vec::new();
            for src in [A, B, C, D] {
                for dst in [A, B, C, D] {
                    let path = |t| {
                        answer(
                            t,
                            &Question {
                                src,
                                dst,
                                ..ask(class)
                            },
                        )
                        .ok()
                    };
                    let path = |t| -> Vec<Vec<u32>> {
                        path(t).map_or(vec![], |a| a.chosen.iter().map(nodes).collect())
                    };
                    if path(&before) != path(&after) {
                        expected.push((path(&after).is_empty(), src, dst));
                    }
                }
            }
            expected.sort_by_key(|(lost, src, dst)| (!lost, *src, *dst));
            let got = found
                .listed
                .iter()
                .map(|p| (p.after.is_empty(), p.src, p.dst));
            assert_eq!(got.collect::<Vec<_>>(), expected, "{class} {edits:?}");
            assert_eq!(found.changed, expected.len());
            assert_eq!(
                found.lost,
                expected.iter().filter(|(lost, ..)| *lost).count()
            );
            assert_eq!((found.compared, found.gained), (12, 0));
            let few = changed(&before, &after, class, 100_000, 1).unwrap();
            assert_eq!(few.listed.len(), expected.len().min(1));
            assert_eq!(few.changed, expected.len(), "what is not listed is counted");
        }
    }
}

#[test]
fn pairs_beyond_what_is_computed_are_refused() {
    let mut t = Topology::new(Parameters::default());
    for n in 0..102 {
        t.add_node(NodeAddr(n));
    }
    let asked = |class| changed(&t, &t, class, 1, 1);
    let most = STAMPED_PAIRS_MAX;
    assert_eq!(
        asked(Class::Width),
        Err(TooManyPairs {
            pairs: 102 * 101,
            most
        })
    );
    assert!(asked(Class::Best).is_err());
    assert_eq!(asked(Class::Metric(Metric::Hops)).unwrap().changed, 0);
}
