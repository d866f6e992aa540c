//! Verdicts on §IV-C, the abstract and §V, and on this project's own goals.

use super::super::site::Shape;
use super::super::view::{ACCEPTABLE_US, CARRIED_PCT, CHAIN, HIGH_PCT, TREE, View, numbers};
use super::super::{capacity, far};
use crate::experiment::{Plan, Row, Rows, Verdict};
use crate::stats::{every, least, most};

const LOSS: &str = "overlay_worst_loss_pct";
const NATIVE_LOSS: &str = "native_worst_loss_pct";
const MEAN: &str = "overlay_mean_95_us";
const NATIVE_MEAN: &str = "native_mean_95_us";
/// Losses that "do not behave very differently", in points.
const SIMILAR: f64 = 0.2;
/// How much more the overlay may lose than native multicast, in points.
const GOAL_LOSS: f64 = 0.05;
/// How much it may add to the latency, as a multiple of what bare forwarders add.
const GOAL_LATENCY: f64 = 1.25;
/// The overlay's capacity relative to native multicast that this project aims at: a datagram of the overlay carries
/// several packets, while the kernel forwards each separately; on the tree, copies reduce this advantage.
const GOAL_CAPACITY_CHAIN: f64 = 2.0;
const GOAL_CAPACITY_TREE: f64 = 1.5;
/// The largest remaining loss after a link that loses 1 %, in percent.
const GOAL_REPAIR_PCT: f64 = 0.03;
/// The largest loss over a far link, apart from packets sent during its outage, in percent.
const GOAL_FAR_PCT: f64 = 0.01;
/// Loads whose cost is reported: 1.6, 7.9, 15.8 and 39 thousand packets per second.
const COSTED: [u32; 4] = [1, 2, 3, 4];
/// The paper's own limits do not apply to this node.
const CARRIED: &str = "the paper's middleware lost packets in loads that this node carries";

/// Returns one verdict for each claim of the comparison.
pub(in super::super) fn verdicts(_: &Plan, rows: &Rows) -> Vec<Verdict> {
    let (chain, tree) = (View::of(rows, CHAIN), View::of(rows, TREE));
    let mut verdicts = chain_verdicts(chain);
    verdicts.extend(tree_verdicts(tree));
    verdicts.push(tolerable("tolerable", &[chain, tree], 16));
    verdicts.push(tolerable("tree-tolerable", &[tree], 8));
    verdicts.extend(conclusions(rows, chain, tree));
    verdicts.push(goal_loss(chain, tree));
    verdicts.push(goal_latency(chain, tree));
    verdicts.push(goal_capacity(rows));
    verdicts.push(goal_repair(rows));
    verdicts.extend(goals_far(rows));
    verdicts
}

/// Returns the largest difference of the two losses over some loads, in points.
fn apart(view: View<'_>, nos: &[u32]) -> f64 {
    let apart = |no: &u32| (view.at(*no, LOSS) - view.at(*no, NATIVE_LOSS)).abs();
    most(nos.iter().map(apart))
}

fn similar(claim: &'static str, view: View<'_>, nos: &[u32]) -> Verdict {
    let apart = apart(view, nos);
    Verdict::of(
        claim,
        apart <= SIMILAR,
        format!("{apart:.3} points apart at most"),
    )
    .note(format!("overlay {}", view.words(nos, LOSS, "%")))
}

fn chain_verdicts(chain: View<'_>) -> Vec<Verdict> {
    let tenth = chain.at(10, LOSS);
    let native = most(chain.each(&[4, 5], NATIVE_LOSS));
    let high = every(&chain.each(&[4, 5], LOSS), |pct| *pct > HIGH_PCT);
    let twice = |no: &u32| chain.at(*no, MEAN) >= 2.0 * chain.at(*no, NATIVE_MEAN);
    let higher = numbers().iter().filter(|no| twice(no)).count();
    vec![
        similar("chain-1024", chain, &[11, 12, 13, 14, 15]),
        similar("chain-512", chain, &[6, 7, 8, 9]),
        Verdict::of("chain-512-above", tenth > HIGH_PCT, format!("{tenth:.3} %")).because(CARRIED),
        similar("chain-32", chain, &[1, 2, 3]),
        Verdict::of(
            "chain-32-above",
            native < 0.5 && high,
            format!(
                "native {native:.3} % at most, overlay {}",
                chain.words(&[4, 5], LOSS, "%")
            ),
        )
        .because(CARRIED),
        Verdict::of(
            "chain-delays",
            higher == numbers().len(),
            format!("at least twice native's in {higher} of 15 loads"),
        ),
    ]
}

fn tree_verdicts(tree: View<'_>) -> Vec<Verdict> {
    let like_native = apart(tree, &[1, 2, 3, 6, 7, 8, 11, 12, 13]) <= SIMILAR;
    let limited = every(&tree.each(&[4, 9, 14], LOSS), |pct| *pct > HIGH_PCT);
    let higher = |name: &str, native: &str| {
        let is_higher = |no: &&u32| tree.at(**no, name) > tree.at(**no, native);
        numbers().iter().filter(is_higher).count()
    };
    let delays = higher(MEAN, NATIVE_MEAN);
    let unsteady = higher("overlay_deviation_95_us", "native_deviation_95_us");
    let (low, high) = (tree.mean(&[1, 6, 11], MEAN), tree.mean(&[5, 10, 15], MEAN));
    let text = tree.words(&numbers(), LOSS, "%");
    vec![
        Verdict::of("tree-limits", like_native && limited, text).because(match like_native {
            true => CARRIED,
            false => "losses differ from native's below the paper's limits",
        }),
        Verdict::of(
            "tree-delays",
            delays == numbers().len(),
            format!("above native's in {delays} of 15 loads"),
        ),
        Verdict::of(
            "tree-steady",
            unsteady == numbers().len() && high > low,
            format!(
                "deviation above native's in {unsteady} of 15 loads; mean {low:.0} µs at the lowest bandwidths, \
                 {high:.0} µs at the highest"
            ),
        )
        .because(
            "at low rates each packet wakes processors that sleep, at higher ones they are awake: the delay \
             falls first",
        ),
    ]
}

fn tolerable(claim: &'static str, views: &[View<'_>], least: usize) -> Verdict {
    let is_tolerable = |view: &View<'_>| {
        let below = numbers()
            .into_iter()
            .filter(|no| view.at(*no, MEAN) < ACCEPTABLE_US);
        below.count()
    };
    let count: usize = views.iter().map(is_tolerable).sum();
    let of = views.len() * numbers().len();
    Verdict::of(
        claim,
        count >= least,
        format!("{count} of {of} loads below 10 ms"),
    )
}

/// Returns the highest rate that `who` carries, by the search.
fn capacity_pps(rows: &Rows, tree: f64, payload: f64, who: &str) -> f64 {
    let at = [("tree", tree), ("payload", payload), ("capacity", 1.0)];
    rows.value(&at, &format!("{who}_pps"))
}

fn conclusions(rows: &Rows, chain: View<'_>, tree: View<'_>) -> Vec<Verdict> {
    let all = numbers();
    let fast = |no: &&u32| [14, 15].contains(*no) && chain.at(**no, LOSS) < CARRIED_PCT;
    let above = |no: u32| chain.at(no, MEAN) - chain.at(no, NATIVE_MEAN);
    let nearest =
        [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10], [11, 12, 13, 14, 15]].map(|nos| least(nos.map(above)));
    let most_pps = |claim, tree: f64, paper: f64| {
        let pps = capacity_pps(rows, tree, 32.0, "overlay");
        Verdict::of(
            claim,
            pps >= paper,
            format!("{pps:.0} packets/s of 32 bytes"),
        )
    };
    let one = |claim, view: View<'_>, no: u32| {
        let pct = view.at(no, LOSS);
        Verdict::of(
            claim,
            pct < CARRIED_PCT,
            format!("{pct:.3} % lost in load {no}"),
        )
    };
    vec![
        Verdict::of(
            "abstract-throughput",
            all.iter().any(|no| fast(&no)),
            chain.words(&[14, 15], LOSS, "%"),
        ),
        Verdict::of(
            "abstract-latency",
            every(&nearest, |us| *us < 1_000.0),
            format!(
                "least above native: {:.0}, {:.0}, {:.0} µs at 32, 512, 1024 bytes",
                nearest[0], nearest[1], nearest[2]
            ),
        ),
        most_pps("conclusion-chain", CHAIN, 18_000.0),
        most_pps("conclusion-tree", TREE, 9_000.0),
        one("conclusion-chain-1024", chain, 14),
        one("conclusion-tree-1024", tree, 13),
    ]
}

fn goal_loss(chain: View<'_>, tree: View<'_>) -> Verdict {
    let mut worst = ("", 0, f64::NEG_INFINITY);
    let mut count = 0;
    for (name, view) in [("chain", chain), ("tree", tree)] {
        for no in view.reached("native") {
            let more = view.at(no, LOSS) - view.at(no, NATIVE_LOSS);
            count += 1;
            // A value that was not measured counts as the worst.
            if more.is_nan() || more > worst.2 {
                worst = (name, no, more);
            }
        }
    }
    let (name, no, more) = worst;
    let text = format!(
        "{more:+.3} points at most ({name}, load {no}) of {count} loads that native reached"
    );
    Verdict::of("goal-loss", count > 0 && more <= GOAL_LOSS, text)
}

fn goal_latency(chain: View<'_>, tree: View<'_>) -> Verdict {
    let mut words = Vec::new();
    let mut holds = true;
    for (name, view) in [("chain", chain), ("tree", tree)] {
        let added = |no: u32, who: &str| {
            let p50 = |who: &str| view.at(no, &format!("{who}_p50_us"));
            p50(who) - p50("native")
        };
        let ratios = view.reached("native").into_iter();
        let ratios = ratios.map(|no| (no, added(no, "overlay") / added(no, "bare")));
        let mut ratios: Vec<(u32, f64)> = ratios.collect();
        ratios.sort_by(|a, b| a.1.total_cmp(&b.1));
        holds &= !ratios.is_empty() && ratios.iter().all(|(_, ratio)| *ratio <= GOAL_LATENCY);
        let middle = ratios.get(ratios.len() / 2).map_or(f64::NAN, |one| one.1);
        let (no, most) = ratios.last().copied().unwrap_or((0, f64::NAN));
        words.push(format!(
            "{name}: median {middle:.2}, most {most:.2} (load {no})"
        ));
    }
    Verdict::of("goal-latency", holds, words.join("; "))
        .note("p50 above native's, overlay over bare forwarders")
}

fn goal_capacity(rows: &Rows) -> Verdict {
    let mut words = Vec::new();
    let mut holds = true;
    for (name, tree, times) in [
        ("chain", CHAIN, GOAL_CAPACITY_CHAIN),
        ("tree", TREE, GOAL_CAPACITY_TREE),
    ] {
        for payload in capacity::PAYLOADS {
            let of = |who: &str| capacity_pps(rows, tree, payload, who);
            let ratio = of("overlay") / of("native");
            // A value that was not measured does not hold.
            holds &= ratio >= times;
            words.push(format!(
                "{name}, {payload} bytes: {ratio:.2} x (overlay {:.0}, scribe {:.0}, native {:.0}, bare {:.0})",
                of("overlay"),
                of("scribe"),
                of("native"),
                of("bare")
            ));
        }
    }
    Verdict::of("goal-capacity", holds, words.join("; ")).note(format!(
        "packets/s; {}",
        copy_cpu(View::of(rows, CHAIN), View::of(rows, TREE))
    ))
}

/// Describes the cost of a copy of a packet for the middle node, and for the kernel if it forwards.
fn copy_cpu(chain: View<'_>, tree: View<'_>) -> String {
    let of = |view: View<'_>, who: &str| {
        let name = format!("{who}_copy_cpu_us");
        COSTED
            .map(|no| format!("{:.1}", view.at(no, &name)))
            .join(", ")
    };
    format!(
        "µs of processor time per packet and branch in loads {COSTED:?}: middle node on the chain {}, on \
         the tree {}; bare forwarder {} and {}; kernel {} and {}",
        of(chain, "overlay"),
        of(tree, "overlay"),
        of(chain, "bare"),
        of(tree, "bare"),
        of(chain, "native"),
        of(tree, "native")
    )
}

fn goal_repair(rows: &Rows) -> Verdict {
    let (mut overlay, mut native) = (Vec::new(), Vec::new());
    let (mut count, mut all) = (0, 0);
    for (tree, shape) in [(CHAIN, Shape::Chain), (TREE, Shape::Tree)] {
        // A row whose packets wait longer for a processor than "acceptable" gives no information about repair.
        let is_prompt = |row: &&Row| row.value(MEAN) < ACCEPTABLE_US;
        let prompt: Vec<&Row> = View::lossy(rows, tree).all().filter(is_prompt).collect();
        count += prompt.len();
        all += View::lossy(rows, tree).all().count();
        // The losses are summed over the loads: a load of some thousand packets has few losses of its own.
        for leaf in shape.leaves() {
            let name = shape.hosts()[leaf].name;
            let share = |who: &str| {
                let of = |row: &&Row| {
                    let sent = row.value(&format!("{who}_sent"));
                    (sent, sent * row.value(&format!("{who}_{name}_loss_pct")))
                };
                let sums = prompt.iter().map(of);
                let (sent, lost) = sums.fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
                lost / sent
            };
            overlay.push(share("overlay"));
            native.push(share("native"));
        }
    }
    let (residual, unrepaired) = (most(&overlay), most(&native));
    let text = format!("overlay {residual:.4} % at the worst leaf, native {unrepaired:.3} %");
    let holds = residual <= GOAL_REPAIR_PCT && unrepaired > 0.5;
    Verdict::of("goal-repair", holds, text).note(format!(
        "all packets of {count} loads together, 1 % in each direction of the link; {} more keep this \
         machine's processors too busy",
        all - count
    ))
}

fn goals_far(rows: &Rows) -> [Verdict; 2] {
    let judge = |claim: &'static str, outage_ms: f64| {
        let limit = far::own_pct(outage_ms) + GOAL_FAR_PCT;
        let (mut holds, mut words) = (true, Vec::new());
        for tree in [CHAIN, TREE] {
            for rtt_ms in far::ROUND_TRIPS_MS {
                let at = [
                    ("tree", tree),
                    ("far_rtt_ms", rtt_ms),
                    ("outage_ms", outage_ms),
                ];
                // A quick run has only the chain.
                let Some(row) = rows.with(&at).next() else {
                    continue;
                };
                let of = |who: &str| row.value(&format!("{who}_worst_loss_pct"));
                let error = |who: &str| row.value(&format!("{who}_worst_loss_pct_error"));
                holds &= of("overlay") <= limit && of("beside") <= limit && of("native") > 0.5;
                words.push(format!(
                    "{} {rtt_ms} ms: overlay {:.4} ± {:.4}, beside {:.4} ± {:.4}, bare {:.2}, native {:.2} %",
                    if tree == CHAIN { "chain" } else { "tree" },
                    of("overlay"),
                    error("overlay"),
                    of("beside"),
                    error("beside"),
                    of("bare"),
                    of("native"),
                ));
            }
        }
        match words.is_empty() {
            true => Verdict::untested(claim, "no cell"),
            false => Verdict::of(claim, holds, words.join("; ")),
        }
    };
    [judge("goal-far", 0.0), judge("goal-outage", far::OUTAGE_MS)]
}
