//! Verdicts on [Amir06 Figs. 16, 17].

use super::{
    CARRIERS, Figure, INJECTED, LONGEST_US, NODES, PACKETS, SITES, STREAMS, THRESHOLD, continent,
};
use super::{sorted, streams};
use crate::experiment::{Rows, Verdict};
use crate::stats::{mean, most, quantile};

/// A stream with at most this loss had only the injected loss: 5 %, and three standard deviations of 2000 independent
/// losses (0.5 points each).
const INJECTED_ONLY_PCT: f64 = 6.5;
/// Half of the injected loss: with less, most losses of a stream were recovered.
const MOSTLY_RECOVERED_PCT: f64 = 2.5;
/// The loss at which the paper's curves meet.
const VERY_HIGH_PCT: f64 = 20.0;

/// The meaning of "never worse" for the mesh: better for this share of the pairs, not worse by more than this many
/// points for any, and at most this share of UDP's loss in total.
const BETTER_SHARE: f64 = 0.9;
const WORSE_POINTS: f64 = 0.3;
const OF_UDP: f64 = 1.0 / 3.0;

/// Judges Figure 16.
pub(super) fn lost(rows: &Rows) -> Vec<Verdict> {
    vec![
        Verdict::untested(
            "planetlab-size",
            "the Planetlab of 2005 is gone; what the experiment needs of it, machines that are busy \
             with others' work, is part of the model",
        ),
        bursts(rows),
        sites(),
        Verdict::setup("threshold", &[("ms", THRESHOLD.as_millis() as f64, 120.0)])
            .note("clocks are exact here; the threshold is the paper's nevertheless"),
        traffic(rows),
        half_injected(rows),
        most_recovered(rows),
        not_improved(rows),
    ]
}

/// Judges Figure 17.
pub(super) fn missed(rows: &Rows) -> Vec<Verdict> {
    vec![missed_above_lost(rows), more_in_time(rows)]
}

/// Compares the defaults with UDP, pair by pair; the text also gives the result of the paper's profile.
pub(super) fn never_worse(paper: &Rows, modern: &Rows, figure: Figure) -> [Verdict; 3] {
    let word = figure.word();
    let [paper, modern] = [paper, modern].map(|rows| Pairs::of(rows, figure));
    let pairs = |pairs: &Pairs| {
        format!(
            "better for {:.1} % of the pairs, worse by more than {WORSE_POINTS} points for {} of {} (the worst by {:.2})",
            100.0 * pairs.better,
            pairs.worse,
            pairs.count,
            pairs.worst_points
        )
    };
    let total = |pairs: &Pairs| format!("{:.2} % {word}, UDP {:.2} %", pairs.overlay, pairs.udp);
    let beyond = |pairs: &Pairs| {
        let [overlay, udp] = [pairs.overlay, pairs.udp].map(|all| all - pairs.ends);
        format!("{overlay:.2} points, UDP {udp:.2}")
    };
    let beside = |defaults: String, papers: String| {
        format!("defaults: {defaults}; the paper's profile: {papers}")
    };
    [
        Verdict::of(
            "defaults-by-pair",
            modern.better >= BETTER_SHARE && modern.worse == 0,
            beside(pairs(&modern), pairs(&paper)),
        ),
        Verdict::of(
            "defaults-in-all",
            modern.overlay <= OF_UDP * modern.udp,
            beside(total(&modern), total(&paper)),
        )
        .because(format!(
            "over a path that loses nothing UDP has {:.2} % {word}: so much the stalls of the two ends cost",
            modern.ends
        )),
        Verdict::of(
            "defaults-between-ends",
            modern.overlay - modern.ends <= OF_UDP * (modern.udp - modern.ends),
            beside(beyond(&modern), beyond(&paper)),
        ),
    ]
}

/// Pairs of nodes: the overlay's streams of each compared with those by UDP.
struct Pairs {
    count: usize,
    /// The share for which the overlay is better.
    better: f64,
    /// The number of pairs for which it is worse by more than [`WORSE_POINTS`], and the largest difference.
    worse: usize,
    worst_points: f64,
    /// Percentages of all streams together.
    overlay: f64,
    udp: f64,
    ends: f64,
}

impl Pairs {
    fn of(rows: &Rows, figure: Figure) -> Pairs {
        let [overlay, udp, ends] = CARRIERS.map(|carrier| streams(rows, carrier, figure));
        let by_pair = |shares: &[f64]| -> Vec<f64> {
            shares.chunks(STREAMS as usize).map(mean::<&f64>).collect()
        };
        let more: Vec<f64> = by_pair(&overlay)
            .iter()
            .zip(by_pair(&udp))
            .map(|(overlay, udp)| overlay - udp)
            .collect();
        let better = more.iter().filter(|more| **more < 0.0).count();
        Pairs {
            count: more.len(),
            better: better as f64 / more.len() as f64,
            worse: more.iter().filter(|more| **more > WORSE_POINTS).count(),
            worst_points: most(&more),
            overlay: mean(&overlay),
            udp: mean(&udp),
            ends: mean(&ends),
        }
    }
}

fn bursts(rows: &Rows) -> Verdict {
    let stalls = rows.0.iter().flat_map(|row| row.points("stall seconds"));
    let mut packets: Vec<f64> = stalls.map(|(_, seconds)| seconds * 50.0).collect();
    packets.sort_by(f64::total_cmp);
    let at = |share: f64| quantile(&packets, share);
    let text = format!(
        "{} stalls of {:.0} to {:.0} packets of a stream, half of them longer than {:.0}",
        packets.len(),
        at(0.0),
        at(1.0),
        at(0.5)
    );
    Verdict::made("bursts", at(0.0) >= 10.0 && at(1.0) < 1_000.0, text)
        .note("part of the model, not a result")
}

fn sites() -> Verdict {
    let mesh = continent();
    let (a, b) = (mesh.place("mit"), mesh.place("internet2-denver"));
    let text = format!(
        "{} nodes, {SITES} sites, full mesh, {:.1} ms MIT-Denver, none longer",
        mesh.names.len(),
        f64::from(mesh.delay_us[a][b]) / 1e3
    );
    let holds = mesh.names.len() == NODES
        && mesh.delay_us[a][b] == LONGEST_US
        && mesh.longest_us() == LONGEST_US;
    Verdict::made("sites", holds, text).note(
        "by great circle Calgary-Halifax is the farthest pair: it takes 47 ms as well, and MIT-Denver \
         is set to the paper's 47 ms. The text does not say which sites had two nodes: here the \
         first six",
    )
}

fn traffic(rows: &Rows) -> Verdict {
    let pairs: f64 = rows.0.iter().map(|row| row.value("pairs")).sum();
    let all = streams(rows, "overlay", Figure::Lost).len() as f64;
    let verdict = Verdict::setup(
        "traffic",
        &[
            ("pairs", pairs, 992.0),
            ("streams of a kind", all / pairs, 4.0),
            ("packets each", PACKETS as f64, 2_000.0),
            ("% additional loss", 100.0 * INJECTED, 5.0),
        ],
    );
    let alike = "16 disjoint pairs speak at once where the paper has one; links have no capacity here, so they do \
                 not compete";
    verdict.note(alike)
}

fn half_injected(rows: &Rows) -> Verdict {
    let shares = sorted(rows, "udp", Figure::Lost);
    let near = share_below(&shares, INJECTED_ONLY_PCT);
    let text = format!(
        "{:.0} % of UDP streams lost less than {INJECTED_ONLY_PCT} %; the tenth that lost most, {:.1} % \
         and more",
        100.0 * near,
        quantile(&shares, 0.9)
    );
    Verdict::of("half-injected", (0.4..=0.6).contains(&near), text).note(
        "follows from how much of their time nodes are not scheduled, the one number of the model that \
         the text does not give",
    )
}

fn most_recovered(rows: &Rows) -> Verdict {
    let shares = sorted(rows, "overlay", Figure::Lost);
    let recovered = share_below(&shares, MOSTLY_RECOVERED_PCT);
    let text = format!(
        "{:.0} % of overlay streams lost less than {MOSTLY_RECOVERED_PCT} %, half of them less than {:.2} %",
        100.0 * recovered,
        quantile(&shares, 0.5)
    );
    let verdict = Verdict::of("most-recovered", recovered > 0.5, text);
    match recovered > 0.5 {
        true => verdict,
        false => verdict.note(
            "the paper's protocol asks once and keeps packets for 100 ms: what is lost while a node is not \
             scheduled is gone when the node could ask for it",
        ),
    }
}

/// Compares stream by stream: the n-th over the overlay with the n-th by UDP of the same pair.
fn not_improved(rows: &Rows) -> Verdict {
    let overlay = streams(rows, "overlay", Figure::Lost);
    let udp = streams(rows, "udp", Figure::Lost);
    let worse = overlay.iter().zip(&udp).filter(|(over, udp)| over >= udp);
    let share = worse.count() as f64 / overlay.len().max(1) as f64;
    let text = format!(
        "{:.1} % of overlay streams lost as much as the UDP stream beside them, or more",
        100.0 * share
    );
    let verdict = Verdict::of(
        "five-percent-of-streams",
        (0.02..=0.10).contains(&share),
        text,
    );
    match share {
        ..0.02 => verdict.note(
            "fewer than in the paper: the stalls of a node hit both kinds of stream alike, and only of the \
             loss besides them the overlay recovers most",
        ),
        0.10.. => verdict.note(
            "more than in the paper: an overlay stream also suffers when a relay is not scheduled, and \
             when its route goes by way of one",
        ),
        _ => verdict,
    }
}

fn missed_above_lost(rows: &Rows) -> Verdict {
    let [missed, lost] =
        [Figure::Missed, Figure::Lost].map(|figure| mean(streams(rows, "udp", figure)));
    let text = format!(
        "UDP streams missed {missed:.2} % and lost {lost:.2} % in the mean; besides the injected 5 % that \
         is {:.2} and {:.2} points",
        missed - 100.0 * INJECTED,
        lost - 100.0 * INJECTED
    );
    // "Considerably" means by a quarter of what the network itself loses, which is where the two differ.
    let network = lost - 100.0 * INJECTED;
    let verdict = Verdict::of("missed-above-lost", missed - lost > 0.25 * network, text);
    verdict.note(
        "late are the packets that wait in a socket while their receiver is not scheduled; how many wait \
         before more are lost is the size of its buffer (here 128 datagrams)",
    )
}

fn more_in_time(rows: &Rows) -> Verdict {
    let (overlay, udp) = (
        sorted(rows, "overlay", Figure::Missed),
        sorted(rows, "udp", Figure::Missed),
    );
    let percentiles = (1..100).map(|n| f64::from(n) / 100.0);
    let compared: Vec<(f64, f64, f64)> = percentiles
        .map(|share| (share, quantile(&overlay, share), quantile(&udp, share)))
        .filter(|(.., udp)| *udp < VERY_HIGH_PCT)
        .collect();
    let worse: Vec<f64> = compared
        .iter()
        // A value that was not measured does not count as less.
        .filter(|(_, overlay, udp)| overlay.is_nan() || overlay >= udp)
        .map(|(share, ..)| 100.0 * share)
        .collect();
    let median = |shares: &[f64]| quantile(shares, 0.5);
    let text = format!(
        "medians {:.2} % (overlay) and {:.2} % (UDP); the overlay missed less at {} of {} percentiles at \
         which UDP missed under {VERY_HIGH_PCT} %",
        median(&overlay),
        median(&udp),
        compared.len() - worse.len(),
        compared.len()
    );
    let holds = !compared.is_empty() && worse.is_empty();
    let verdict = Verdict::of("more-in-time", holds, text);
    match (worse.first(), worse.last()) {
        (Some(first), Some(last)) => verdict.note(format!(
            "not from the {first:.0}th to the {last:.0}th percentile: an overlay stream also misses packets \
             while a relay or a neighbour's measurement is hit by a stall, a UDP stream only while its own \
             ends are"
        )),
        _ => verdict,
    }
}

/// Returns the share of ascending values below a limit.
fn share_below(sorted: &[f64], limit: f64) -> f64 {
    sorted.partition_point(|value| *value < limit) as f64 / sorted.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Row;

    #[test]
    fn pairs_are_better_or_worse_by_all_their_streams() {
        let mut row = Row::default();
        let mut set = |name: &str, shares: [f64; 8]| {
            let points = shares
                .iter()
                .enumerate()
                .map(|(n, share)| (n as f64, *share));
            row.draw(name, points);
        };
        set("overlay lost", [1.0, 1.0, 1.0, 1.0, 6.0, 6.0, 6.0, 6.0]);
        set("udp lost", [0.5, 0.5, 5.5, 5.5, 5.0, 5.0, 5.0, 5.0]);
        set("ends lost", [0.0; 8]);
        let rows = Rows(vec![row]);
        let pairs = Pairs::of(&rows, Figure::Lost);
        assert_eq!((pairs.count, pairs.better, pairs.worse), (2, 0.5, 1));
        assert_eq!(
            (pairs.worst_points, pairs.overlay, pairs.udp),
            (1.0, 3.5, 4.0)
        );
        let judged = never_worse(&rows, &rows, Figure::Lost);
        assert!(judged.iter().all(|verdict| verdict.holds == Some(false)));
    }
}
