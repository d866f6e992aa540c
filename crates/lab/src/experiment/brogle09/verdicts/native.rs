//! Verdicts on §IV-A: native multicast.

use super::super::loads::LOADS;
use super::super::site::Shape;
use super::super::view::{CHAIN, REACHED, TREE, View, numbers, setup};
use crate::experiment::{Plan, Rows, Verdict};
use crate::stats::{every, least, most};

/// Loads of each payload.
const SMALL: [u32; 5] = [1, 2, 3, 4, 5];
const MIDDLE: [u32; 5] = [6, 7, 8, 9, 10];
const LARGE: [u32; 5] = [11, 12, 13, 14, 15];
/// Why packets that were lost there are not lost here.
const NO_NETWORK_CARD: &str = "veth is forwarded in the sender's processor time: an overloaded sender falls \
                               behind and loses nothing, where network cards of 2006 overran";

/// The reason for differences between payloads.
const RATES: &str = "latency follows the packets per second here, and loads of large packets have the lowest \
                     of them";

/// Returns one verdict for each claim of Figure 4.
pub(in super::super) fn verdicts(plan: &Plan, rows: &Rows) -> Vec<Verdict> {
    let (chain, tree) = (View::of(rows, CHAIN), View::of(rows, TREE));
    let mut verdicts = vec![
        hosts("setup-chain", Shape::Chain),
        hosts("setup-tree", Shape::Tree),
        setup("setup-loads", plan.size),
    ];
    verdicts.extend(chain_losses(chain));
    verdicts.extend(chain_latencies(chain));
    verdicts.extend(tree_losses(chain, tree));
    verdicts.extend(tree_latencies(tree));
    verdicts
}

fn hosts(claim: &'static str, shape: Shape) -> Verdict {
    let hosts = shape.hosts().len();
    let two = (0..hosts).filter(|host| shape.children(*host).count() == 2);
    let (papers_hosts, papers_two) = match shape {
        Shape::Chain => (4.0, 0.0),
        Shape::Tree => (7.0, 3.0),
    };
    let verdict = Verdict::setup(
        claim,
        &[
            ("hosts", hosts as f64, papers_hosts),
            ("of out-degree 2", two.count() as f64, papers_two),
        ],
    );
    match shape {
        Shape::Chain => verdict,
        Shape::Tree => verdict.note(
            "the figure is not described in words beyond: read as P2 over P1 and P3, P3 over P4 and P5, P5 \
             over P6 and P7",
        ),
    }
}

fn chain_losses(chain: View<'_>) -> Vec<Verdict> {
    let all = numbers();
    let losses = chain.each(&all, "native_loss_pct");
    let words = chain.words(&all, "native_loss_pct", "%");
    let highest = most(&losses);
    let nothing_lost = highest == 0.0;
    let why = match nothing_lost {
        true => format!("nothing is lost in any load: {NO_NETWORK_CARD}"),
        false => "what is lost here is lost when this machine is held up".to_owned(),
    };
    let at_small = most(chain.each(&[4, 5], "native_loss_pct"));
    let mean = chain.mean(&all, "native_loss_pct");
    let fifth = chain.at(5, "native_loss_pct");
    let slow: Vec<String> = all
        .iter()
        .map(|no| {
            (
                no,
                chain.at(*no, "native_achieved_pps") / chain.at(*no, "offered_pps"),
            )
        })
        .filter(|(_, share)| *share < REACHED)
        .map(|(no, share)| format!("load {no} was sent at {:.0} % of its rate", 100.0 * share))
        .collect();
    vec![
        Verdict::of("chain-loss", highest < 0.2, words.clone()).note(slow.join(", ")),
        Verdict::of(
            "chain-loss-small",
            !nothing_lost && at_small >= highest,
            words.clone(),
        )
        .because(why.clone()),
        Verdict::of(
            "chain-loss-rate",
            fifth > mean,
            format!("load 5: {fifth:.3} %, mean of all {mean:.3} %"),
        )
        .because(why),
        falls("chain-loss-1024", chain),
        one_packet(),
    ]
}

/// "starts just below 0.2% and then falls down towards 0%" [Brogle09 §IV-A]
fn falls(claim: &'static str, view: View<'_>) -> Verdict {
    let losses = view.each(&LARGE, "native_loss_pct");
    let starts = losses
        .first()
        .is_some_and(|first| (0.1..0.2).contains(first));
    let falls = losses.windows(2).all(|pair| pair[1] <= pair[0]);
    let text = view.words(&LARGE, "native_loss_pct", "%");
    Verdict::of(claim, starts && falls, text).because(
        "one lost packet of load 11 was all that the paper's value says; here none was lost there, or \
         the machine was held up at a higher load",
    )
}

fn one_packet() -> Verdict {
    let share = |no: usize| 100.0 / LOADS[no - 1].packets as f64;
    let text = format!(
        "1 packet is {:.2} % of load 11, {:.4} % of load 15",
        share(11),
        share(15)
    );
    Verdict::made("chain-one-packet", (0.16..0.2).contains(&share(11)), text)
}

fn chain_latencies(chain: View<'_>) -> Vec<Verdict> {
    let spread = |nos: &[u32]| {
        let (high, low) = chain.range(nos, "native_mean_95_us");
        (high - low) / chain.mean(nos, "native_mean_95_us")
    };
    let spreads = [SMALL, MIDDLE, LARGE].map(|nos| 100.0 * spread(&nos));
    let means = [SMALL, MIDDLE, LARGE].map(|nos| chain.mean(&nos, "native_mean_95_us"));
    vec![
        Verdict::of(
            "chain-latency-load",
            every(&spreads, |pct| *pct < 25.0),
            format!(
                "range over loads {:.0}, {:.0}, {:.0} % of the mean at 32, 512, 1024 bytes",
                spreads[0], spreads[1], spreads[2]
            ),
        )
        .because(
            "between packets of a low rate this machine's processors fall asleep and their caches are used by \
             others; the higher the load, the lower the latency",
        ),
        Verdict::of(
            "chain-latency-size",
            means[2] > means[1] && means[1] > means[0],
            by_payload(means),
        )
        .because("the paper's difference is the time on wires of 100 Mbit/s, which veth does not have")
        .note(RATES),
    ]
}

fn by_payload([small, middle, large]: [f64; 3]) -> String {
    format!("mean {small:.0}, {middle:.0}, {large:.0} µs at 32, 512, 1024 bytes")
}

fn tree_losses(chain: View<'_>, tree: View<'_>) -> Vec<Verdict> {
    let all = numbers();
    let leaves = Shape::Tree.leaves();
    let names = leaves.iter().map(|leaf| Shape::Tree.hosts()[*leaf].name);
    let names: Vec<String> = names
        .map(|name| format!("native_{name}_loss_pct"))
        .collect();
    let apart = |no: &u32| {
        let losses: Vec<f64> = names.iter().map(|name| tree.at(*no, name)).collect();
        most(&losses) - least(&losses)
    };
    let apart = most(all.iter().map(apart));
    let loss = "native_loss_pct";
    let differences: Vec<f64> = all
        .iter()
        .map(|no| tree.at(*no, loss) - chain.at(*no, loss))
        .collect();
    let widest = most(differences.iter().map(|points| points.abs()));
    let large = tree.mean(&LARGE, loss) - chain.mean(&LARGE, loss);
    vec![
        Verdict::of(
            "tree-leaves",
            apart <= 0.05,
            format!("leaves differ by {apart:.3} points at most"),
        ),
        Verdict::of(
            "tree-loss",
            widest <= 0.1,
            format!("tree and chain differ by {widest:.3} points at most"),
        )
        .note(tree.words(&all, loss, "%")),
        Verdict::of(
            "tree-loss-large",
            large > 0.0 && large < 0.2,
            format!("the tree loses {large:+.3} points more at 1024 bytes"),
        )
        .because(NO_NETWORK_CARD),
        falls("tree-loss-1024", tree),
    ]
}

fn tree_latencies(tree: View<'_>) -> Vec<Verdict> {
    let means = [SMALL, MIDDLE, LARGE].map(|nos| tree.mean(&nos, "native_mean_95_us"));
    let (high, low) = (most(means), least(means));
    let deviation = "native_deviation_95_us";
    let others: Vec<u32> = numbers()
        .into_iter()
        .filter(|no| ![5, 10].contains(no))
        .collect();
    let usual = tree.mean(&others, deviation);
    let two = tree.each(&[5, 10], deviation);
    let [first, fifth] = [1, 5].map(|no| tree.at(no, deviation));
    let text = tree.words(&numbers(), deviation, "µs");
    vec![
        Verdict::of("tree-latency-size", high < 1.25 * low, by_payload(means)).because(RATES),
        Verdict::of("tree-jitter", every(&two, |us| *us >= 2.0 * usual), text).because(
            "the paper's queues were in network cards and wires of 100 Mbit/s; here the lowest rates, whose \
             packets find processors asleep, vary as much",
        ),
        Verdict::of(
            "tree-jitter-small",
            fifth > first,
            format!("load 1: {first:.0} µs, load 5: {fifth:.0} µs"),
        )
        .because("at the lowest rate packets find processors asleep"),
    ]
}
