//! Verdicts from the rows on each claim.

use super::{CHURN, GROUPS, SHAPE};
use crate::experiment::{Row, Rows, Verdict};

/// A beat is a second, with jitter of a tenth: a neighbour receives a node's beats at most at this rate.
const BEATS_PER_SECOND: f64 = 1.0 / 0.9;

pub(super) fn all(rows: &Rows) -> Vec<Verdict> {
    let shapes: Vec<&Row> = rows.with(&[("part", SHAPE)]).collect();
    vec![
        ids(&shapes),
        prefix(&shapes),
        hops(&shapes),
        hop_delay(&shapes),
        neighbourhood(&shapes),
        root(&shapes),
        reverse(&shapes),
        participants(&shapes),
        groups(rows),
        churn(rows, "self-organizing", 1.0),
        churn(rows, "self-organizing-alone", 0.0),
        delay(&shapes),
        stress(&shapes),
        once(&shapes),
    ]
}

fn at(row: &Row) -> String {
    let network = match row.parameter("waxman") {
        0.0 => "transit-stub",
        _ => "Waxman",
    };
    format!("{} nodes, {network}", row.parameter("nodes"))
}

/// Formats a number of each row.
fn each(rows: &[&Row], tell: impl Fn(&Row) -> String) -> String {
    let told: Vec<String> = rows
        .iter()
        .map(|row| format!("{} ({})", tell(row), at(row)))
        .collect();
    told.join(", ")
}

fn largest<'a>(rows: &[&'a Row]) -> Vec<&'a Row> {
    let most = rows
        .iter()
        .map(|row| row.parameter("nodes"))
        .fold(0.0, f64::max);
    let is_largest = |row: &&&Row| row.parameter("nodes") == most;
    rows.iter().filter(is_largest).copied().collect()
}

fn holds(rows: &[&Row], test: impl Fn(&Row) -> bool) -> bool {
    !rows.is_empty() && rows.iter().all(|row| test(row))
}

fn ids(rows: &[&Row]) -> Verdict {
    let good = holds(rows, |row| {
        row.value("same_ids") == 0.0 && row.value("chi_square") < 30.6
    });
    let text = each(rows, |row| format!("χ² {:.1}", row.value("chi_square")));
    Verdict::of("ids-uniform", good, format!("no two alike; {text}")).note(
        "ids are mixed from overlay addresses, which certificates bind, instead of drawn; the addresses are the same in every run, so \
         is χ² for one N",
    )
}

fn prefix(rows: &[&Row]) -> Verdict {
    let good = holds(rows, |row| row.value("longer_prefix") >= 0.9);
    let text = each(rows, |row| {
        format!("{:.1} %", 100.0 * row.value("longer_prefix"))
    });
    Verdict::of("prefix-per-hop", good, text)
        .because("in a small ring many hops go by the leaf set, where closeness counts, not digits")
}

fn hops(rows: &[&Row]) -> Verdict {
    let good = holds(rows, |row| {
        row.value("hops_mean") <= row.value("bound_hops")
    });
    let text = each(rows, |row| {
        format!(
            "{:.2} of {}, at most {}",
            row.value("hops_mean"),
            row.value("bound_hops"),
            row.value("hops_most")
        )
    });
    Verdict::of("log-hops", good, text)
}

fn hop_delay(rows: &[&Row]) -> Verdict {
    let large: Vec<&Row> = rows
        .iter()
        .filter(|row| row.parameter("nodes") >= 1_000.0)
        .copied()
        .collect();
    let good = holds(&large, |row| {
        row.value("first_hop_us") < 0.5 * row.value("pair_us")
    });
    let text = each(&large, |row| {
        format!(
            "{:.1} ms of {:.1} ms, whole routes {:.2} times the direct way",
            row.value("first_hop_us") / 1e3,
            row.value("pair_us") / 1e3,
            row.value("stretch_mean")
        )
    });
    Verdict::of("hop-delay", good, text)
}

fn neighbourhood(rows: &[&Row]) -> Verdict {
    let good = holds(rows, |row| row.value("known_near") > row.value("known_far"));
    let text = each(rows, |row| {
        format!(
            "{:.1} % near, {:.1} % far",
            100.0 * row.value("known_near"),
            100.0 * row.value("known_far")
        )
    });
    Verdict::of("neighbourhood", good, text)
}

fn root(rows: &[&Row]) -> Verdict {
    let wrong = |row: &Row| row.value("astray") + row.value("wrong_roots");
    let text = each(rows, |row| format!("{} wrong", wrong(row)));
    Verdict::of("root-closest", holds(rows, |row| wrong(row) == 0.0), text)
}

fn reverse(rows: &[&Row]) -> Verdict {
    let good = holds(rows, |row| row.value("reverse_path") >= 0.95);
    let text = each(rows, |row| {
        format!("{:.1} %", 100.0 * row.value("reverse_path"))
    });
    Verdict::of("reverse-path", good, text)
}

fn participants(rows: &[&Row]) -> Verdict {
    let bound = |row: &Row| 15.0 * row.value("bound_hops") + 32.0;
    let good = holds(rows, |row| row.value("known_mean") <= bound(row));
    let text = each(rows, |row| format!("{:.1} nodes", row.value("known_mean")));
    Verdict::of("scales-participants", good, text)
}

fn groups(rows: &Rows) -> Verdict {
    let Some(row) = rows.with(&[("part", GROUPS)]).next() else {
        return Verdict::untested("scales-groups", "its cell was not measured");
    };
    let nodes = row.parameter("nodes");
    let more = row.value("messages_with_groups") - row.value("messages_idle");
    let good = row.value("bytes_per_group") <= 64.0
        && row.value("pending") == 0.0
        && more <= 2.0 * nodes * BEATS_PER_SECOND;
    let text = format!(
        "{:.1} bytes per group; {:.1} messages/s without groups, {:.1} with {} of them; joined by {} messages; after the loss \
         of the parent of {} groups all joined again within {} ms",
        row.value("bytes_per_group"),
        row.value("messages_idle"),
        row.value("messages_with_groups"),
        row.parameter("groups"),
        row.value("join_messages"),
        row.value("lost_groups"),
        row.value("rejoined_ms")
    );
    Verdict::of("scales-groups", good, text)
        .note("the bytes are counted by the node; tests/memory.rs of the crate holds them against the allocator")
}

fn churn(rows: &Rows, claim: &'static str, told: f64) -> Verdict {
    let Some(row) = rows.with(&[("part", CHURN), ("told", told)]).next() else {
        return Verdict::untested(claim, "its cell was not measured");
    };
    let bound = if told == 1.0 {
        row.value("notice_ms") + 1_000.0
    } else {
        10_000.0
    };
    let mended = row.value("mended_ms");
    let good = mended <= bound && row.value("wrong_leaf_sets") == 0.0;
    let text = format!(
        "{} of {} nodes died; {:.1} % served at the least, all after {mended} ms; {} leaf sets wrong 10 s later",
        row.value("killed"),
        row.parameter("nodes"),
        row.value("served_least"),
        row.value("wrong_leaf_sets")
    );
    Verdict::of(claim, good, text)
}

fn delay(rows: &[&Row]) -> Verdict {
    let large = largest(rows);
    let good = holds(&large, |row| row.value("delay_mean_ratio") < 2.0);
    let text = each(&large, |row| {
        format!(
            "mean {:.2} times, worst member {:.2} times, from the root alone {:.2} times, by branches both ways {:.2} times; {:.1} nodes deep in the mean, {} at most; the \
             source tree {} routers",
            row.value("delay_mean_ratio"),
            row.value("delay_most_ratio"),
            row.value("delay_root_ratio"),
            row.value("delay_branches_ratio"),
            row.value("depth_mean"),
            row.value("depth_most"),
            row.value("routers_most")
        )
    });
    Verdict::of("core-delay", good, text)
        .because("the detour by the root, which lies anywhere, costs one random way more")
}

fn stress(rows: &[&Row]) -> Verdict {
    let large = largest(rows);
    let good = holds(&large, |row| row.value("stress_mean") < 3.0);
    let text = each(&large, |row| {
        format!(
            "mean {:.2}, most {}, {:.2} times the source tree's crossings, at most {} children",
            row.value("stress_mean"),
            row.value("stress_most"),
            row.value("crossings_ratio"),
            row.value("children_most")
        )
    });
    Verdict::of("core-stress", good, text)
        .because("members outnumber routers here, so links near the root carry many copies")
}

fn once(rows: &[&Row]) -> Verdict {
    let wrong = |row: &Row| row.value("not_once");
    let text = each(rows, |row| {
        format!("{} of {} not once", wrong(row), row.value("members"))
    });
    Verdict::of("each-once", holds(rows, |row| wrong(row) == 0.0), text)
}
