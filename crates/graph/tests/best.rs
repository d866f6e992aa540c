//! These tests compare the best route with all paths: with a naive model on small graphs of any kind, with the pruned
//! exhaustive search on the paper's 15 nodes, and with its own bounds on 100 nodes.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use base::{NodeAddr, Rng};
use graph::best::exhaustive::{self, NoAnswer};
use graph::best::study::Routing;
use graph::best::{Effort, Question, ROUNDING, best_route};
use graph::delivery::Recovery;
use graph::generate::Network;
use graph::generate::regular::full_mesh;
use graph::generate::waxman::Waxman;
use graph::metric::Repair;
use graph::paths::NoPath;
use graph::protection::{Lane, left};
use graph::topology::NodeIndex;
use graph::{LinkCost, Metric, Parameters, Topology};
use proptest::prelude::{ProptestConfig, Strategy, prop_assert, prop_assert_eq, proptest};

const RECOVERIES: [Recovery; 4] = [
    Recovery::None,
    Recovery::Paper,
    Recovery::Independent,
    Recovery::InForce,
];

/// Computes the delivery of a path with the naive model: a list of (delay, share), without merging or cutting.
fn naive_delivery(topology: &Topology, path: &[NodeIndex], question: &Question) -> f64 {
    let mut outcomes = vec![(0.0, 1.0)];
    for hop in path.windows(2) {
        let link = topology.link(hop[0], hop[1]).unwrap().link;
        let (t, p) = (f64::from(link.latency_us), f64::from(link.loss) / 65_536.0);
        if let (Recovery::InForce, Some(_)) = (question.recovery, link.repair) {
            let steps = in_force(link, topology.parameters());
            let on = |(at, share): &(f64, f64)| {
                let (at, share) = (*at, *share);
                steps
                    .iter()
                    .map(move |(us, of)| (at + us, share * of))
                    .collect::<Vec<_>>()
            };
            outcomes = outcomes.iter().flat_map(on).collect();
            continue;
        }
        let lost = match question.recovery {
            Recovery::None => p,
            Recovery::Paper | Recovery::InForce => 2.0 * p * p - 3.0 * p * p * p,
            Recovery::Independent => 2.0 * p * p - p * p * p,
        };
        let slow = 3.0 * t + f64::from(topology.parameters().detect_us);
        outcomes = outcomes
            .iter()
            .flat_map(|(at, share)| [(at + t, share * (1.0 - p)), (at + slow, share * (p - lost))])
            .collect();
    }
    let deadline = f64::from(question.deadline_us);
    outcomes
        .iter()
        .filter(|(at, _)| *at <= deadline)
        .map(|(_, share)| share)
        .sum()
}

/// Returns what is not lost on a link whose protection is reported. After the time of this number of packets,
/// everything has arrived that would not stay lost with this much time.
fn in_force(link: LinkCost, parameters: &Parameters) -> Vec<(f64, f64)> {
    let p = f64::from(link.loss) / 65_536.0;
    let (mut steps, mut before) = (vec![(f64::from(link.latency_us), 1.0 - p)], p);
    for packets in [1, 2, 3, 4, 5, 6, 7, 8, 11, 16, 23, 32] {
        let us = packets * u64::from(parameters.detect_us);
        let left = left(link, us + 2_000, parameters).share().min(before);
        steps.push((f64::from(link.latency_us) + us as f64, before - left));
        before = left;
    }
    steps
}

fn all_paths(
    t: &Topology,
    path: &mut Vec<NodeIndex>,
    to: NodeIndex,
    all: &mut Vec<Vec<NodeIndex>>,
) {
    let last = path[path.len() - 1];
    if last == to {
        return all.push(path.clone());
    }
    for edge in t.links_from(last) {
        if !path.contains(&edge.peer) {
            path.push(edge.peer);
            all_paths(t, path, to, all);
            path.pop();
        }
    }
}

/// Returns losses within the range of the paper's formula, with any reported protection, or none.
fn link() -> impl Strategy<Value = LinkCost> {
    let lane = (0u8..5, 200u16..1_600, 0u8..4);
    (0u32..30, 0u16..7, 0u32..3, lane).prop_map(|(ms, loss, us, (cap, run_256ths, strikes))| {
        let lane = Lane {
            run_256ths,
            repair_16ths: cap * 8,
        };
        let loss = loss * 4_000;
        let repair = Repair::new(strikes, loss, loss / 2).with_lane(Some(lane));
        LinkCost {
            repair: (cap < 4).then_some(repair),
            ..LinkCost::of_share(ms * 1_000 + us, loss)
        }
    })
}

fn links() -> impl Strategy<Value = Vec<(NodeAddr, NodeAddr, LinkCost)>> {
    let node = || (0..7u32).prop_map(|i| NodeAddr((i * 3 + 2) % 7 + 1));
    proptest::collection::vec((node(), node(), link()), 1..24)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_best_route_is_the_best_of_all_paths(
        list in links(), deadline_ms in 0u32..150, recovery in 0usize..4, tolerance in 0.0..0.2,
    ) {
        let topology = Topology::from_links(Parameters::default(), list.iter().copied());
        let question = Question {
            src: list[0].0,
            dst: list[list.len() - 1].1,
            deadline_us: deadline_ms * 1_000,
            recovery: RECOVERIES[recovery],
        };
        let found = best_route(&topology, &question, &Effort::EXACT);
        let mut all = Vec::new();
        let ends = (topology.index(question.src), topology.index(question.dst));
        if let (Some(src), Some(dst)) = ends && src != dst {
            all_paths(&topology, &mut vec![src], dst, &mut all);
        }
        let best = all.iter().map(|path| naive_delivery(&topology, path, &question))
            .reduce(f64::max);
        let Some(best) = best else {
            prop_assert!(found.is_err());
            return Ok(());
        };
        let found = found.unwrap();
        prop_assert!(all.contains(&found.nodes));
        prop_assert!((found.delivery - best).abs() < 1e-8, "{} {best}", found.delivery);
        prop_assert!((naive_delivery(&topology, &found.nodes, &question) - best).abs() < 1e-8);
        prop_assert!(found.upper >= best - 1e-12 && found.gap() <= 1e-8);

        let exhaustive = exhaustive::best_of_all(&topology, &question).unwrap();
        prop_assert!((exhaustive.delivery - best).abs() < 1e-8);

        // Bounds hold however little work is done.
        for work in [0, 50, 500] {
            let rough = best_route(&topology, &question, &Effort { tolerance, work }).unwrap();
            prop_assert!(rough.delivery <= best + 1e-9 && best <= rough.upper + 1e-9);
            prop_assert_eq!(question.delivery(&topology, &rough.nodes), Some(rough.delivery));
        }
        let rough = Effort { tolerance, ..Effort::EXACT };
        let rough = best_route(&topology, &question, &rough).unwrap();
        prop_assert!(rough.gap() <= tolerance + 1e-8 && best <= rough.upper + 1e-9);
    }
}

/// Creates a network of the routing study and the question between the nodes of its diameter. [Amir06 §IV-B]
fn study(nodes: usize, side_km: u32, recovery: Recovery, seed: u64) -> (Topology, Question) {
    let mut rng = Rng::new(seed);
    let shape = Waxman {
        nodes,
        side_km,
        ..Waxman::default()
    };
    let network = shape.generate(&mut rng).unwrap();
    let losses = network.random_losses(0.5, 0.05, &mut rng);
    let (a, b, _) = network.diameter().unwrap();
    let question = Question {
        src: Network::addr(a),
        dst: Network::addr(b),
        deadline_us: 100_000,
        recovery,
    };
    (network.topology(Parameters::default(), &losses), question)
}

#[test]
fn at_fifteen_nodes_it_equals_the_exhaustive_search() {
    let mut told_apart = 0;
    for (i, side_km) in [3_000, 9_000, 12_000, 15_000, 18_000]
        .into_iter()
        .enumerate()
    {
        for seed in 0..30 {
            let recovery = RECOVERIES[(i + seed as usize) % 4];
            let (topology, question) = study(15, side_km, recovery, seed);
            let best = best_route(&topology, &question, &Effort::EXACT).unwrap();
            let all = Routing::Exhaustive.route(&topology, &question).unwrap();
            assert!(
                (best.delivery - all.delivery).abs() <= 2.0 * ROUNDING,
                "{side_km} km, seed {seed}: {} {}",
                best.delivery,
                all.delivery
            );
            assert!(best.gap() <= 2.0 * ROUNDING);
            let expected = Routing::Metric(Metric::ExpectedLatency);
            let expected = expected.route(&topology, &question).unwrap();
            told_apart += usize::from(best.delivery > expected.delivery + 0.001);
        }
    }
    assert!(
        told_apart > 30,
        "the searches had something to find: {told_apart}"
    );
}

#[test]
fn at_a_hundred_nodes_it_is_proved_within_a_tenth_of_a_point() {
    for side_km in [2_000, 8_000, 11_000, 13_000] {
        for seed in 0..20 {
            let (topology, question) = study(100, side_km, Recovery::Paper, seed);
            assert_eq!((topology.node_count(), topology.link_count()), (100, 400));
            let route = best_route(&topology, &question, &Effort::ROUTING).unwrap();
            assert!(route.gap() < 0.001, "{side_km} km, seed {seed}: {route:?}");
            assert!(route.work < Effort::ROUTING.work, "{route:?}");
            assert_eq!(
                question.delivery(&topology, &route.nodes),
                Some(route.delivery)
            );
            for other in Routing::COMPARED {
                let other = other.route(&topology, &question).unwrap();
                assert!(
                    other.delivery <= route.upper + ROUNDING,
                    "{route:?} {other:?}"
                );
                assert!(other.delivery <= route.delivery + 0.001);
            }
        }
    }
}

#[test]
fn the_answer_does_not_depend_on_the_order_in_which_links_were_learnt() {
    for seed in 0..10 {
        let (topology, question) = study(100, 9_000, Recovery::Paper, seed);
        let mut links: Vec<_> = topology
            .nodes()
            .flat_map(|node| {
                topology
                    .links_from(node)
                    .iter()
                    .map(move |edge| (node, edge))
            })
            .map(|(node, edge)| (topology.addr(node), topology.addr(edge.peer), edge.link))
            .collect();
        let mut rng = Rng::new(seed);
        for i in (1..links.len()).rev() {
            links.swap(i, rng.below(i as u64 + 1) as usize);
        }
        let shuffled = Topology::from_links(Parameters::default(), links);
        let route = |topology: &Topology| {
            let route = best_route(topology, &question, &Effort::EXACT).unwrap();
            let nodes = route.nodes.iter().map(|node| topology.addr(*node));
            (nodes.collect::<Vec<_>>(), route.delivery, route.work)
        };
        assert_eq!(route(&topology), route(&shuffled));
    }
}

/// Builds six stages of three paths each, with twelve lossy links in a row: 4096 outcomes on every path, so that labels
/// are coarsened.
fn stages(rng: &mut Rng) -> Topology {
    let mut topology = Topology::new(Parameters {
        detect_us: 1,
        ..Parameters::default()
    });
    let mut link = |from: u32, to: u32| {
        let link = LinkCost::new(100 + rng.below(3_000) as u32, 0.35 * rng.unit());
        topology.set_link(NodeAddr(from), NodeAddr(to), Some(link));
    };
    for stage in (1..=24).step_by(4) {
        for way in 1..=3 {
            link(stage, stage + way);
            link(stage + way, stage + 4);
        }
    }
    topology
}

#[test]
fn coarse_labels_do_not_mislead() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let topology = stages(&mut rng);
        let question = Question {
            src: NodeAddr(1),
            dst: NodeAddr(25),
            deadline_us: 20_000 + rng.below(20_000) as u32,
            recovery: Recovery::Independent,
        };
        let best = best_route(&topology, &question, &Effort::EXACT).unwrap();
        let all = exhaustive::best_of_all(&topology, &question).unwrap();
        assert!(
            (best.delivery - all.delivery).abs() <= 2.0 * ROUNDING,
            "seed {seed}"
        );
        assert!(best.gap() <= 2.0 * ROUNDING, "seed {seed}: {best:?}");
    }
}

/// Every link is lossy and fast, and all nodes are linked: this gives the maximum of paths and atoms.
#[test]
fn work_is_bounded_where_everything_is_alike() {
    let network = full_mesh(40, 300).unwrap();
    let mut rng = Rng::new(2);
    let losses = network.random_losses(1.0, 0.4, &mut rng);
    let topology = network.topology(Parameters::default(), &losses);
    for (deadline_us, work) in [
        (100_000, 2_000_000),
        (u32::MAX, 2_000_000),
        (100_000, 10_000),
    ] {
        let question = Question {
            src: Network::addr(0),
            dst: Network::addr(39),
            deadline_us,
            recovery: Recovery::Independent,
        };
        let effort = Effort {
            tolerance: 0.0,
            work,
        };
        let route = best_route(&topology, &question, &effort).unwrap();
        assert!(route.work <= work + work / 2, "{}", route.work);
        assert!(route.delivery > 0.9 && route.upper <= 1.0, "{route:?}");
        assert!(matches!(
            exhaustive::best_of_all(&topology, &question),
            Err(NoAnswer::TooLarge(40))
        ));
    }
}

#[test]
fn where_all_is_late_there_is_a_path_and_where_there_is_none_a_reason() {
    let (topology, question) = study(15, 3_000, Recovery::Paper, 1);
    let question = Question {
        deadline_us: 0,
        ..question
    };
    for routing in [Routing::Best(Effort::EXACT), Routing::Exhaustive] {
        let route = routing.route(&topology, &question).unwrap();
        assert!(route.nodes.len() > 1 && route.delivery == 0.0, "{route:?}");
        assert!(route.upper <= ROUNDING);
    }
    let greedy = Routing::Greedy.route(&topology, &question).unwrap();
    assert_eq!((greedy.nodes.len(), greedy.delivery), (0, 0.0));

    let nowhere = Question {
        dst: NodeAddr(77),
        ..question
    };
    for routing in Routing::COMPARED {
        let why = routing.route(&topology, &nowhere).unwrap_err();
        assert_eq!(why, NoAnswer::NoPath(NoPath::Unknown(NodeAddr(77))));
    }
}
