//! Verdicts from the figures on each of the paper's sentences.

use super::THRESHOLD_US;
use crate::experiment::{Plan, Row, Rows, Verdict};
use crate::stats::most;
use base::Rng;
use graph::best::Question;
use graph::delivery::Recovery;
use graph::generate::Network;
use graph::generate::waxman::Waxman;
use graph::metric::{LinkCost, Metric};
use graph::{NodeIndex, Parameters, Topology};

/// Number of networks of each size in which all paths are counted.
const GROWTH_TOPOLOGIES: u32 = 20;

/// Returns the largest diameter at which packets can still arrive: beyond it all metrics deliver next to nothing, and
/// differences have no meaning.
pub(super) fn latency_bound<'r>(by_diameter: &[&'r Row]) -> Option<&'r Row> {
    let alive = |row: &&&'r Row| row.value("best") > 0.1;
    by_diameter.iter().rev().find(alive).copied()
}

fn percent(row: &Row, name: &str) -> String {
    format!("{name} {:.2} %", 100.0 * row.value(name))
}

fn at(row: &Row) -> String {
    format!("at {:.0} ms", row.value("diameter_ms"))
}

pub(super) fn loss_small(small: &Row) -> Verdict {
    let below = small.value("best") - small.value("loss");
    let text = format!(
        "{}, {} {}",
        percent(small, "loss"),
        percent(small, "best"),
        at(small)
    );
    Verdict::of("loss-small", below < 0.002, text)
}

pub(super) fn latency_large(large: &Row) -> Verdict {
    let text = format!(
        "{}, {} {}",
        percent(large, "latency"),
        percent(large, "loss"),
        at(large)
    );
    let holds = large.value("latency") > large.value("loss");
    Verdict::of("latency-large", holds, text)
}

pub(super) fn expected_below_loss(small: &Row) -> Verdict {
    let (above, error) = (
        small.value("expected_above_loss"),
        small.value("expected_above_loss_error"),
    );
    let text = format!(
        "expected latency − loss = {:+.3} ± {:.3} points {}",
        100.0 * above,
        100.0 * error,
        at(small)
    );
    Verdict::of("expected-below-loss", above <= 0.0, text)
}

/// Compares pairs, topology by topology; a difference within two standard errors of zero does not count as worse.
pub(super) fn expected_above_latency(by_diameter: &[&Row]) -> Verdict {
    let worse = |row: &&&Row| {
        let error = row.value("expected_above_latency_error");
        let above = row.value("expected_above_latency");
        above.is_nan() || above < -2.0 * error
    };
    let shown = |row: &&Row| {
        format!(
            "{:+.2} ± {:.2} {}",
            100.0 * row.value("expected_above_latency"),
            100.0 * row.value("expected_above_latency_error"),
            at(row)
        )
    };
    let all: Vec<String> = by_diameter.iter().map(shown).collect();
    let failing: Vec<String> = by_diameter
        .iter()
        .filter(worse)
        .map(|row| at(row))
        .collect();
    let text = format!("expected latency − latency, points: {}", all.join("; "));
    let verdict = Verdict::of(
        "expected-above-latency",
        !all.is_empty() && failing.is_empty(),
        text,
    );
    match failing.is_empty() {
        true => verdict,
        false => verdict.note(format!(
            "worse {}: near the deadline a detour that avoids loss costs the time that a recovery, or \
             even the packet itself, would have needed, which a sum of expectations cannot see",
            failing.join(", ")
        )),
    }
}

pub(super) fn greedy_fails(large: &Row) -> Verdict {
    let metrics = Metric::ALL.map(|metric| large.value(metric.as_str()));
    let most = most(metrics);
    let text = format!(
        "{}, best metric {:.2} % {}",
        percent(large, "greedy"),
        100.0 * most,
        at(large)
    );
    Verdict::of("greedy-fails", large.value("greedy") < most, text)
}

/// [Amir06 Fig. 11]: judges the partial paths A-B-D (fast, lossy) and A-C-D (slow, clean), without recovery: D-E
/// determines which is better.
pub(super) fn partial_paths() -> Verdict {
    let [a, b, c, d, e] = [0, 1, 2, 3, 4].map(Network::addr);
    let delivered = |last_ms: u32| {
        let link = |from, to, ms: u32, loss| (from, to, LinkCost::new(ms * 1_000, loss));
        let links = [
            link(a, b, 20, 0.02),
            link(b, d, 20, 0.02),
            link(a, c, 35, 0.0),
            link(c, d, 35, 0.0),
            link(d, e, last_ms, 0.0),
        ];
        let topology = Topology::from_links(Parameters::default(), links);
        let question = Question {
            src: a,
            dst: e,
            deadline_us: THRESHOLD_US,
            recovery: Recovery::None,
        };
        [[a, b, d, e], [a, c, d, e]].map(|path| {
            let path = path.map(|node| topology.index(node).expect("its links were added"));
            question.delivery(&topology, &path).unwrap_or(0.0)
        })
    };
    let ([fast_near, slow_near], [fast_far, slow_far]) = (delivered(20), delivered(50));
    let text = format!(
        "D-E of 20 ms: {:.1} % by B, {:.1} % by C; of 50 ms: {:.1} % by B, {:.1} % by C",
        100.0 * fast_near,
        100.0 * slow_near,
        100.0 * fast_far,
        100.0 * slow_far
    );
    let holds = slow_near > fast_near && fast_far > slow_far;
    Verdict::of("partial-paths", holds, text)
}

/// Measures how the number of all paths grows, on separate networks.
pub(super) fn exhaustive_expensive(plan: &Plan) -> Verdict {
    let [few, many, more] = [10, 15, 20].map(|nodes| {
        let mut rng = Rng::new(plan.seed);
        let paths = (0..GROWTH_TOPOLOGIES).map(|_| {
            let shape = Waxman {
                nodes,
                ..Waxman::default()
            };
            let network = shape.generate(&mut rng).expect("a shape within its ranges");
            let topology = network.topology(Parameters::default(), &[]);
            let (a, b, _) = network.diameter().expect("more than one node");
            let place = |node| {
                topology
                    .index(Network::addr(node))
                    .expect("every node is linked")
            };
            count_paths(&topology, place(a), place(b), &mut vec![false; nodes])
        });
        paths.sum::<u64>() as f64 / f64::from(GROWTH_TOPOLOGIES)
    });
    let text = format!("{few:.0} paths at 10 nodes, {many:.0} at 15, {more:.0} at 20");
    Verdict::of("exhaustive-expensive", many > 10.0 * few, text).note(format!(
        "{:.1} and {:.1} times as many for five nodes more: exponential, though this rate of growth, which the \
         paper does not tell, was expected to be above ten",
        many / few,
        more / many
    ))
}

/// Counts the paths that pass no node twice.
fn count_paths(topology: &Topology, at: NodeIndex, to: NodeIndex, seen: &mut [bool]) -> u64 {
    if at == to {
        return 1;
    }
    seen[at.place()] = true;
    let mut count = 0;
    for edge in topology.links_from(at) {
        if !seen[edge.peer.place()] {
            count += count_paths(topology, edge.peer, to, seen);
        }
    }
    seen[at.place()] = false;
    count
}

pub(super) fn small_drop(small: &Row) -> Verdict {
    let drop = small.value("loss") - small.value("expected-latency");
    let text = format!("{:.3} points {}", 100.0 * drop, at(small));
    Verdict::of("small-drop", drop < 0.005, text)
}

pub(super) fn expected_robust(small: &Row, large: &Row) -> Verdict {
    let best = |row: &Row| {
        let metrics = Metric::ALL.map(|metric| row.value(metric.as_str()));
        most(metrics)
    };
    let below = |row: &Row| best(row) - row.value("expected-latency");
    let text = format!(
        "{:.3} points below the best metric {}, {:.3} {}",
        100.0 * below(small),
        at(small),
        100.0 * below(large),
        at(large)
    );
    let error = large.value("expected_above_latency_error");
    let holds = below(small) < 0.005 && below(large) <= 2.0 * error;
    Verdict::of("expected-robust", holds, text)
}

pub(super) fn best_on_top(rows: &Rows) -> Verdict {
    let sum = |name: &str| rows.0.iter().map(|row| row.value(name)).sum::<f64>();
    let text = format!(
        "beaten in {} of {} topologies; differs from the best of all paths in {}",
        sum("beaten"),
        sum("topologies"),
        sum("differing")
    );
    let holds = sum("topologies") > 0.0 && sum("beaten") + sum("differing") == 0.0;
    Verdict::of("best-on-top", holds, text)
}

pub(super) fn best_proved(rows: &Rows) -> Verdict {
    let gap = most(rows.0.iter().map(|row| row.value("widest_gap")));
    let text = format!("proved within {:.4} points in every topology", 100.0 * gap);
    Verdict::of("best-proved", gap < 0.001, text)
}
