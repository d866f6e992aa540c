//! Scenario 4: packet errors. [Papadimitriou06 §5.4]

use super::CLEARLY;
use crate::experiment::papadimitriou06::scenario::{LIGHT, point};
use crate::experiment::papadimitriou06::setup::Transport;
use crate::experiment::papadimitriou06::table::Table;
use crate::experiment::{Size, Verdict};
use Transport::{Real, Udp, Vegas, Westwood};

const PAPER: [Transport; 4] = Transport::PAPER;
const TCPS: [Transport; 3] = Transport::TCPS;
const GOODPUT: &str = "goodput_kbps";
const INDEX: &str = "index_300";
/// What errors of 5 % take from an index by themselves, and a little.
const MINOR: f64 = 0.06;

fn at(table: &Table<'_>, t: Transport, calls: f64, errors: f64, name: &str) -> f64 {
    table.mean(t, point(calls, LIGHT).errors(errors), name)
}

/// "Vegas 0.91 to 0.88": without errors, and with 5 %.
fn ends(table: &Table<'_>, of: &[Transport], calls: f64, name: &str, digits: usize) -> String {
    let each = of.iter().map(|t| {
        let [clean, bad] = [0.0, 5.0].map(|errors| at(table, *t, calls, errors, name));
        format!("{} {clean:.digits$} to {bad:.digits$}", t.name())
    });
    each.collect::<Vec<_>>().join(", ")
}

/// What is left of the goodput at 5 %.
fn left(table: &Table<'_>, t: Transport, calls: f64) -> f64 {
    at(table, t, calls, 5.0, GOODPUT) / at(table, t, calls, 0.0, GOODPUT)
}

/// What 5 % takes from the index.
fn fall(table: &Table<'_>, t: Transport, calls: f64) -> f64 {
    at(table, t, calls, 0.0, INDEX) - at(table, t, calls, 5.0, INDEX)
}

fn mean(of: impl Fn(Transport) -> f64) -> f64 {
    TCPS.iter().map(|t| of(*t)).sum::<f64>() / TCPS.len() as f64
}

fn diminished(table: &Table<'_>, calls: f64) -> Verdict {
    let all = TCPS.iter().all(|t| left(table, *t, calls) < 1.0);
    let ends = ends(table, &TCPS, calls, GOODPUT, 0);
    Verdict::of(
        "tcp-diminished",
        all,
        format!("kbit/s without errors and at 5 %: {ends}"),
    )
}

fn quality(table: &Table<'_>, calls: f64) -> Verdict {
    let all = TCPS.iter().all(|t| fall(table, *t, calls) >= CLEARLY);
    let ends = ends(table, &TCPS, calls, INDEX, 3);
    Verdict::of(
        "quality",
        all,
        format!("index without errors and at 5 %: {ends}"),
    )
}

fn minor(table: &Table<'_>, calls: f64) -> Verdict {
    let fall = fall(table, Udp, calls);
    let ends = ends(table, &[Udp], calls, INDEX, 3);
    Verdict::of(
        "udp-minor",
        fall <= MINOR,
        format!("index without errors and at 5 %: {ends}"),
    )
}

/// Figure 17.
pub(in crate::experiment::papadimitriou06) fn goodput_80(
    table: &Table<'_>,
    _: Size,
) -> Vec<Verdict> {
    let lefts = |calls: f64| mean(|t| left(table, t, calls));
    let each = TCPS.map(|t| format!("{} {:.3}", t.name(), left(table, t, 80.0)));
    let left = |t| left(table, t, 80.0);
    vec![
        Verdict::of(
            "setup",
            true,
            "0 to 5 %; 80 and 120 calls; 20 FTP flows over Reno",
        ),
        diminished(table, 80.0),
        Verdict::of(
            "eighty-more",
            lefts(80.0) < lefts(120.0),
            format!(
                "left at 5 %: {:.3} with 80 calls, {:.3} with 120",
                lefts(80.0),
                lefts(120.0)
            ),
        ),
        Verdict::of(
            "vegas-westwood-less",
            left(Westwood) > left(Vegas) && left(Vegas) > left(Real),
            format!("left at 5 %: {}", each.join(", ")),
        ),
    ]
}

/// Figure 18.
pub(in crate::experiment::papadimitriou06) fn index_80(table: &Table<'_>, _: Size) -> Vec<Verdict> {
    let falls = |calls: f64| mean(|t| fall(table, t, calls));
    let short = |t: Transport| {
        let bad = [3.0, 5.0].map(|errors| at(table, t, 80.0, errors, INDEX));
        at(table, t, 80.0, 0.0, INDEX) - (bad[0] + bad[1]) / 2.0
    };
    let each = TCPS.map(|t| format!("{} {:.3}", t.name(), short(t)));
    vec![
        quality(table, 80.0),
        Verdict::of(
            "eighty-more",
            falls(80.0) > falls(120.0),
            format!(
                "index lost at 5 %: {:.3} with 80 calls, {:.3} with 120",
                falls(80.0),
                falls(120.0)
            ),
        ),
        Verdict::of(
            "real-limited",
            short(Real) > short(Vegas) || short(Real) > short(Westwood),
            format!("index lost at 3 and 5 %: {}", each.join(", ")),
        ),
        minor(table, 80.0),
    ]
}

/// Figure 19.
pub(in crate::experiment::papadimitriou06) fn goodput_120(
    table: &Table<'_>,
    _: Size,
) -> Vec<Verdict> {
    vec![diminished(table, 120.0)]
}

/// Figure 20.
pub(in crate::experiment::papadimitriou06) fn index_120(
    table: &Table<'_>,
    _: Size,
) -> Vec<Verdict> {
    let behind = |calls: f64| {
        let at_errors = |errors: f64| {
            let best = table.most(&PAPER, point(calls, LIGHT).errors(errors), INDEX);
            at(table, best, calls, errors, INDEX) - at(table, Real, calls, errors, INDEX)
        };
        (at_errors(3.0) + at_errors(5.0)) / 2.0
    };
    let place = |calls: f64| {
        let mine = at(table, Real, calls, 5.0, INDEX);
        PAPER
            .iter()
            .filter(|t| at(table, **t, calls, 5.0, INDEX) > mine)
            .count()
            + 1
    };
    let improved = behind(120.0) < behind(80.0) || place(120.0) < place(80.0);
    vec![
        quality(table, 120.0),
        Verdict::of(
            "real-improved",
            improved,
            format!(
                "behind the best at 3 and 5 %: {:.3} with 80 calls, {:.3} with 120; place at 5 %: {} and {}",
                behind(80.0),
                behind(120.0),
                place(80.0),
                place(120.0)
            ),
        ),
        minor(table, 120.0),
    ]
}
