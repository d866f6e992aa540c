//! The goals, compared with the measurements.

use super::kind::{LONG, LONG_MBIT};
use super::trial::PLACEMENT_FAILED;
use super::{name, others};
use crate::experiment::{Row, Rows, Verdict};

/// Largest relative difference of a copy to the prediction.
const PREDICTED: f64 = 0.25;
/// The least share of the best placement's rate.
const BEST: f64 = 0.9;
/// One connection is enough if it has this share of the best.
const ENOUGH: f64 = 0.97;
/// How much more connections than needed may add to round trips.
const ADDED_MS: f64 = 20.0;

pub(super) fn verdicts(rows: &Rows) -> Vec<Verdict> {
    let rows: Vec<&Row> = rows.0.iter().collect();
    let enough = rows.iter().copied().filter(|row| is_enough(row));
    let long = rows.iter().copied().filter(|row| is_long(row));
    vec![
        each("kinds-predicted", &rows, is_predicted, |row| {
            format!(
                "{} of {} Mbit/s: {:+.0} %",
                mbit(row, "achieved_bps"),
                mbit(row, "predicted_bps"),
                100.0 * off(row)
            )
        }),
        each("kinds-best", &rows, is_best, |row| {
            format!(
                "{} of {} Mbit/s: {:.0} %",
                mbit(row, "achieved_bps"),
                mbit(row, "best_bps"),
                100.0 * share(row)
            )
        }),
        each(
            "kinds-round-trip",
            &enough.collect::<Vec<_>>(),
            |row| row.value("rtt_added_ms") <= ADDED_MS,
            |row| {
                format!(
                    "{:.1} ms, one connection {:.1}: {:+.1}",
                    row.value("rtt_copy_ms"),
                    row.value("rtt_one_ms"),
                    row.value("rtt_added_ms")
                )
            },
        ),
        gigabit(&long.collect::<Vec<_>>()),
    ]
}

/// Returns a verdict over cells, which holds if it does in each. The text lists all measurements.
fn each(
    claim: &'static str,
    rows: &[&Row],
    holds: impl Fn(&Row) -> bool,
    shown: impl Fn(&Row) -> String,
) -> Verdict {
    if rows.is_empty() {
        return Verdict::untested(claim, "no cell of this run is such");
    }
    let said = rows.iter().map(|row| {
        let mark = if holds(row) { "" } else { "NOT " };
        format!("{mark}{} ({})", name(row), shown(row))
    });
    let said: Vec<String> = said.collect();
    let count = rows.iter().filter(|row| holds(row)).count();
    let marks = [
        ("failed", "did not end"),
        (PLACEMENT_FAILED, "had placements that failed"),
    ];
    let failed = rows.iter().flat_map(|row| {
        marks.iter().filter_map(|(key, what)| {
            let words = row.words.get(*key)?;
            Some(format!("{} {what}: {words}", name(row)))
        })
    });
    let failed: Vec<String> = failed.collect();
    let text = format!("{count} of {} cells: {}", rows.len(), said.join(", "));
    let verdict = Verdict::of(claim, count == rows.len(), text);
    match failed.is_empty() {
        true => verdict,
        false => verdict.note(failed.join("; ")),
    }
}

fn gigabit(rows: &[&Row]) -> Verdict {
    let claim = "kinds-gigabit";
    let as_asked = |row: &&&Row| row.value("link_mbit") >= LONG_MBIT;
    let asked: Vec<&Row> = rows.iter().filter(as_asked).copied().collect();
    let shown = |row: &Row| {
        format!(
            "{:.0} Mbit/s link: {} achieved, {} predicted, {} best",
            row.value("link_mbit"),
            mbit(row, "achieved_bps"),
            mbit(row, "predicted_bps"),
            mbit(row, "best_bps")
        )
    };
    if !asked.is_empty() {
        return each(
            claim,
            &asked,
            |row| is_predicted(row) && is_best(row),
            shown,
        );
    }
    let untested = Verdict::untested(
        claim,
        format!(
            "a machine with few processors emulates no such link beside the nodes: where there are \
             eight or more, --set kind={LONG} --set mbit={LONG_MBIT}"
        ),
    );
    let smaller: Vec<String> = rows.iter().map(|row| shown(row)).collect();
    match smaller.is_empty() {
        true => untested,
        false => untested.measured(smaller.join("; ")),
    }
}

fn is_long(row: &Row) -> bool {
    row.parameter("kind") == LONG as f64
}

/// Returns the ratio of the achieved to the predicted rate, minus one.
fn off(row: &Row) -> f64 {
    row.value("achieved_bps") / row.value("predicted_bps") - 1.0
}

fn share(row: &Row) -> f64 {
    row.value("achieved_bps") / row.value("best_bps")
}

fn is_predicted(row: &Row) -> bool {
    off(row).abs() <= PREDICTED
}

fn is_best(row: &Row) -> bool {
    share(row) >= BEST
}

/// Returns whether the best placement of single connections has nearly the rate of the best of all.
fn is_enough(row: &Row) -> bool {
    row.value("one_bps") >= ENOUGH * row.value("best_bps")
}

fn mbit(row: &Row, key: &str) -> String {
    let bps = row.value(key);
    match bps.is_finite() {
        true => format!("{:.1}", bps / 1e6),
        false => "-".to_owned(),
    }
}

/// Returns a line for each cell, in Mbit/s and milliseconds.
pub(super) fn table(rows: &Rows) -> Vec<Vec<String>> {
    let head = [
        "cell",
        "link",
        "one",
        "best",
        "by",
        "predicted",
        "achieved",
        "by",
        "of predicted",
        "of best",
        "rtt idle",
        "one",
        "copy",
    ];
    let others = others::PROGRAMS.iter().map(|program| (*program).to_owned());
    let had_others = |row: &Row| {
        let mut programs = others::PROGRAMS.iter();
        programs.any(|program| row.value(&format!("{program}_bps")).is_finite())
    };
    let has_others = rows.0.iter().any(had_others);
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    lines[0].extend(others.filter(|_| has_others));
    for row in &rows.0 {
        let percent = |share: f64| match share.is_finite() {
            true => format!("{:.0} %", 100.0 * share),
            false => "-".to_owned(),
        };
        let by = |relays: &str, stripes: &str| {
            let [relays, stripes] = [relays, stripes].map(|key| row.value(key));
            match relays.is_finite() {
                true => format!("{relays} relays × {stripes}"),
                false => "-".to_owned(),
            }
        };
        let ms = |key: &str| format!("{:.0}", row.value(key));
        let mut line = vec![
            name(row),
            format!("{:.0}", row.value("link_mbit")),
            mbit(row, "one_bps"),
            mbit(row, "best_bps"),
            by("best_relays", "best_stripes"),
            mbit(row, "predicted_bps"),
            mbit(row, "achieved_bps"),
            by("used_relays", "used_stripes"),
            percent(row.value("achieved_bps") / row.value("predicted_bps")),
            percent(share(row)),
            ms("rtt_idle_ms"),
            ms("rtt_one_ms"),
            ms("rtt_copy_ms"),
        ];
        if has_others {
            let of = |program: &&str| mbit(row, &format!("{program}_bps"));
            line.extend(others::PROGRAMS.iter().map(of));
        }
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::kind::KINDS;
    use super::*;
    use crate::experiment::Cell;

    /// Returns a cell of a kind, in Mbit/s: predicted, achieved, best, one; and the addition to round trips.
    fn row(kind: usize, rates: [f64; 4], added_ms: f64) -> Row {
        let cell = Cell::at(&[("kind", kind as f64), ("control", 0.0)]);
        let mut row = Row::of(&cell);
        row.set("link_mbit", KINDS[kind].mbit);
        let keys = ["predicted_bps", "achieved_bps", "best_bps", "one_bps"];
        for (key, mbit) in keys.into_iter().zip(rates) {
            row.set(key, mbit * 1e6);
        }
        row.set("rtt_added_ms", added_ms);
        row
    }

    fn holds(rows: Vec<Row>) -> [Option<bool>; 4] {
        let verdicts = verdicts(&Rows(rows));
        let claims = verdicts.iter().map(|verdict| verdict.claim);
        let keys = [
            "kinds-predicted",
            "kinds-best",
            "kinds-round-trip",
            "kinds-gigabit",
        ];
        assert_eq!(claims.collect::<Vec<_>>(), keys);
        [0, 1, 2, 3].map(|at| verdicts[at].holds)
    }

    #[test]
    fn each_bar_is_held_against_every_cell() {
        let good = || row(0, [19.0, 18.5, 18.9, 18.8], 3.0);
        assert_eq!(
            holds(vec![good()]),
            [Some(true), Some(true), Some(true), None]
        );
        let all = |bad: Row| holds(vec![good(), bad]);
        let promised = row(1, [155.0, 60.0, 61.0, 9.0], 0.0);
        assert_eq!(all(promised)[..2], [Some(false), Some(true)]);
        let slower = row(1, [40.0, 40.0, 61.0, 9.0], 0.0);
        assert_eq!(all(slower)[..2], [Some(true), Some(false)]);
        // The copy has more connections than needed, and causes a queue.
        let queued = row(0, [19.0, 18.5, 18.9, 18.8], 100.0);
        assert_eq!(all(queued)[2], Some(false));
        // Where more connections are needed, this is allowed.
        let needed = row(1, [60.0, 60.0, 61.0, 9.0], 100.0);
        assert_eq!(all(needed)[2], Some(true));
    }

    #[test]
    fn a_copy_that_did_not_end_meets_nothing() {
        let failed = row(1, [f64::NAN, f64::NAN, 61.0, 9.0], f64::NAN);
        assert_eq!(holds(vec![failed])[..2], [Some(false), Some(false)]);
        let unknown = row(1, [f64::NAN, 60.0, 61.0, 9.0], 0.0);
        assert_eq!(holds(vec![unknown])[..2], [Some(false), Some(true)]);
    }

    #[test]
    fn a_gigabit_is_judged_only_where_there_was_one() {
        let mut long = row(LONG, [280.0, 270.0, 272.0, 100.0], 0.0);
        assert_eq!(holds(vec![long.clone()])[3], None);
        long.set("link_mbit", LONG_MBIT);
        assert_eq!(holds(vec![long])[3], Some(true));
    }
}
