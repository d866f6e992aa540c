//! Scenario 4: packet errors. [Papadimitriou06 §5.4]

use super::CLEARLY;
use crate::experiment::papadimitriou06::scenario::{LIGHT, Scenario, point};
use crate::experiment::papadimitriou06::setup::{FIGURE_1, Transport};
use crate::experiment::papadimitriou06::table::Table;
use crate::experiment::{Size, Verdict};
use crate::stats::{self, mean};
use Transport::{Real, Udp, Vegas, Westwood};

const PAPER: [Transport; 4] = Transport::PAPER;
const TCPS: [Transport; 3] = Transport::TCPS;
const GOODPUT: &str = "goodput_kbps";
const INDEX: &str = "index_300";
/// The reduction of an index by errors of 5 % alone, with a small margin.
const MINOR: f64 = 0.06;

fn at(table: &Table<'_>, t: Transport, calls: f64, errors: f64, name: &str) -> f64 {
    table.mean(t, point(calls, LIGHT).errors(errors), name)
}

/// Formats "Vegas 0.91 to 0.88": without errors, and with 5 %.
fn ends(table: &Table<'_>, of: &[Transport], calls: f64, name: &str, digits: usize) -> String {
    let each = of.iter().map(|t| {
        let [clean, bad] = [0.0, 5.0].map(|errors| at(table, *t, calls, errors, name));
        format!("{} {clean:.digits$} to {bad:.digits$}", t.name())
    });
    each.collect::<Vec<_>>().join(", ")
}

/// Returns the remaining share of the goodput at 5 %.
fn left(table: &Table<'_>, t: Transport, calls: f64) -> f64 {
    at(table, t, calls, 5.0, GOODPUT) / at(table, t, calls, 0.0, GOODPUT)
}

/// Returns the reduction of the index by 5 %.
fn fall(table: &Table<'_>, t: Transport, calls: f64) -> f64 {
    at(table, t, calls, 0.0, INDEX) - at(table, t, calls, 5.0, INDEX)
}

/// Explains why Vegas is slow in competition with FTP without errors. It allows at most three segments of its own in
/// queues, so a queue that others fill becomes the round trip in which it has them.
fn vegas_beside_ftp(table: &Table<'_>) -> String {
    let at = |t, name: &str| at(table, t, 80.0, 0.0, name);
    let queue_ms = at(Udp, "delay_p50_ms") - 1e3 * FIGURE_1.propagation().as_secs_f64();
    format!(
        "Vegas is limited before there are errors: it leaves at most 3 segments in queues, and those of FTP hold a packet \
         {queue_ms:.0} ms (UDP, median), so it is content with {:.0} segments/s while a call writes 50 in its talkspurts; \
         without errors {:.3} of what was written arrives over it, {:.4} is lost, and windows are reduced {:.1} times in \
         1000 packets. A round trip of one segment makes it take that round trip, queue and all, for the shortest, and it \
         grows: errors bring such round trips",
        3e3 / queue_ms,
        at(Vegas, GOODPUT) / at(Vegas, "written_kbps"),
        at(Vegas, "lost"),
        at(Vegas, "cuts_per_1000")
    )
}

/// Explains why errors do not degrade the quality of 120 calls.
fn full_at_120(table: &Table<'_>) -> String {
    let of = |name: &'static str, digits| ends(table, &TCPS, 120.0, name, digits);
    format!(
        "with 120 calls the bottleneck decides how much arrives and not the errors (not there by the end: {}); errors keep \
         its queue shorter (dropped in queues: {}), and so fewer gaps exceed the threshold (delayed: {})",
        of("undelivered", 3),
        of("queue_lost", 4),
        of("delayed_300", 3)
    )
}

fn reason(table: &Table<'_>, calls: f64) -> String {
    match calls > 100.0 {
        true => full_at_120(table),
        false => vegas_beside_ftp(table),
    }
}

fn diminished(table: &Table<'_>, calls: f64) -> Verdict {
    let all = TCPS.iter().all(|t| left(table, *t, calls) < 1.0);
    let ends = ends(table, &TCPS, calls, GOODPUT, 0);
    Verdict::of(
        "tcp-diminished",
        all,
        format!("kbit/s without errors and at 5 %: {ends}"),
    )
    .because(reason(table, calls))
}

fn quality(table: &Table<'_>, calls: f64) -> Verdict {
    let all = TCPS.iter().all(|t| fall(table, *t, calls) >= CLEARLY);
    let ends = ends(table, &TCPS, calls, INDEX, 3);
    Verdict::of(
        "quality",
        all,
        format!("index without errors and at 5 %: {ends}"),
    )
    .because(reason(table, calls))
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

fn setup(size: Size) -> Verdict {
    let (errors, calls) = (Scenario::Four.errors(size), Scenario::Four.calls(size));
    let parameters = [
        ("rates of errors", errors.len() as f64, 6.0),
        ("% the lowest", stats::least(errors), 0.0),
        ("% the highest", stats::most(errors), 5.0),
        ("calls", stats::least(calls), 80.0),
        ("calls", stats::most(calls), 120.0),
        ("FTP flows over Reno", LIGHT, 20.0),
    ];
    Verdict::setup("setup", &parameters)
}

/// Figure 17.
pub(in crate::experiment::papadimitriou06) fn goodput_80(
    table: &Table<'_>,
    size: Size,
) -> Vec<Verdict> {
    let lefts = |calls: f64| mean(TCPS.map(|t| left(table, t, calls)));
    let each = TCPS.map(|t| format!("{} {:.3}", t.name(), left(table, t, 80.0)));
    let left = |t| left(table, t, 80.0);
    vec![
        setup(size),
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
        )
        .because(vegas_beside_ftp(table)),
    ]
}

/// Figure 18.
pub(in crate::experiment::papadimitriou06) fn index_80(table: &Table<'_>, _: Size) -> Vec<Verdict> {
    let falls = |calls: f64| mean(TCPS.map(|t| fall(table, t, calls)));
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
