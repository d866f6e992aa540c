//! Scenario 5: thresholds of the metric. [Papadimitriou06 §5.5]

use super::CLEARLY;
use crate::experiment::papadimitriou06::metrics::THRESHOLDS_MS;
use crate::experiment::papadimitriou06::scenario::{LIGHT, Scenario, point};
use crate::experiment::papadimitriou06::setup::{FIGURE_1, Transport};
use crate::experiment::papadimitriou06::table::Table;
use crate::experiment::{Size, Verdict};
use Transport::{Real, Udp, Vegas, Westwood};

const PAPER: [Transport; 4] = Transport::PAPER;
const TCPS: [Transport; 3] = Transport::TCPS;

fn share(table: &Table<'_>, t: Transport, calls: f64, what: &str, threshold: u64) -> f64 {
    table.mean(t, point(calls, LIGHT), &format!("{what}_{threshold}"))
}

fn index(table: &Table<'_>, t: Transport, calls: f64, threshold: u64) -> f64 {
    share(table, t, calls, "index", threshold)
}

/// Returns the index at the last threshold minus that at the first.
fn range(table: &Table<'_>, t: Transport, calls: f64) -> f64 {
    index(table, t, calls, 400) - index(table, t, calls, 100)
}

/// Formats "Vegas 0.91, 0.95, 0.97" at 100, 200 and 400 ms.
fn told(table: &Table<'_>, of: &[Transport], calls: f64, what: &str) -> String {
    let each = of.iter().map(|t| {
        let [a, b, c] = [100, 200, 400].map(|ms| share(table, *t, calls, what, ms));
        format!("{} {a:.4}, {b:.4}, {c:.4}", t.name())
    });
    format!(
        "at 100, 200, 400 ms: {}",
        each.collect::<Vec<_>>().join("; ")
    )
}

fn most_sensitive(table: &Table<'_>, calls: f64) -> Verdict {
    let range = |t: Transport| range(table, t, calls);
    let two = range(Vegas).min(range(Real));
    let holds = two > range(Westwood) && two > range(Udp);
    Verdict::of("most-sensitive", holds, told(table, &PAPER, calls, "index"))
}

fn two_hundred(table: &Table<'_>, calls: f64) -> Verdict {
    let gain = |t: Transport| index(table, t, calls, 200) - index(table, t, calls, 100);
    let holds = gain(Vegas) >= CLEARLY && gain(Real) >= CLEARLY;
    let steps = |t: Transport| {
        let each = THRESHOLDS_MS.map(|ms| format!("{:.3}", share(table, t, calls, "delayed", ms)));
        format!("{} {}", t.name(), each.join(", "))
    };
    Verdict::of(
        "two-hundred",
        holds,
        told(table, &[Vegas, Real], calls, "index"),
    )
    .because(format!(
        "where the bottleneck is full a window arrives in a bunch and the gap to the next is a round trip, so a gain comes \
         at the threshold that exceeds the queue: the first queue alone holds up to {:.0} ms, Real fills it and Vegas does \
         not. Delayed at 100, 150 to 400 ms: {}; {}",
        FIGURE_1.first_queue_ms(160.0),
        steps(Vegas),
        steps(Real)
    ))
}

fn udp_less(table: &Table<'_>, calls: f64) -> Verdict {
    let range = |t: Transport| range(table, t, calls);
    let least = TCPS.iter().all(|t| range(Udp) < range(*t));
    let each = PAPER.map(|t| format!("{} {:.4}", t.name(), range(t)));
    Verdict::of(
        "udp-less",
        least,
        format!("index at 400 less that at 100 ms: {}", each.join(", ")),
    )
}

fn below_two_hundred(table: &Table<'_>, calls: f64) -> Verdict {
    let more = |t: &Transport| {
        let delayed = |ms| share(table, *t, calls, "delayed", ms);
        let more = delayed(100) - delayed(200);
        more > 0.0 && more < 0.2
    };
    let told = told(table, &TCPS, calls, "delayed");
    Verdict::of("below-two-hundred", TCPS.iter().all(more), told)
}

fn setup(size: Size) -> Verdict {
    let ms = |place: Option<&u64>| place.map_or(f64::NAN, |ms| *ms as f64);
    let calls = Scenario::Five.calls(size);
    let call = |n: usize| calls.get(n).copied().unwrap_or(f64::NAN);
    Verdict::setup(
        "setup",
        &[
            ("ms at least", ms(THRESHOLDS_MS.first()), 100.0),
            ("ms at most", ms(THRESHOLDS_MS.last()), 400.0),
            ("calls", call(0), 80.0),
            ("calls", call(1), 120.0),
            ("FTP flows over Reno", LIGHT, 20.0),
        ],
    )
}

/// Figure 21.
pub(in crate::experiment::papadimitriou06) fn index_80(
    table: &Table<'_>,
    size: Size,
) -> Vec<Verdict> {
    let of = |t: Transport, ms: u64| index(table, t, 80.0, ms);
    let satisfied = PAPER.iter().all(|t| of(*t, 200) >= 0.9);
    let acceptable = TCPS.iter().all(|t| (0.7..=0.95).contains(&of(*t, 100)));
    let differs = [Vegas, Real]
        .iter()
        .all(|t| of(*t, 200) - of(*t, 100) >= 0.05);
    vec![
        setup(size),
        most_sensitive(table, 80.0),
        two_hundred(table, 80.0),
        Verdict::of("satisfied", satisfied, told(table, &PAPER, 80.0, "index")),
        Verdict::of("acceptable", acceptable, told(table, &TCPS, 80.0, "index")),
        Verdict::of(
            "perceived-difference",
            differs,
            told(table, &[Vegas, Real], 80.0, "index"),
        ),
        udp_less(table, 80.0),
    ]
}

/// Figure 22.
pub(in crate::experiment::papadimitriou06) fn delayed_80(
    table: &Table<'_>,
    _: Size,
) -> Vec<Verdict> {
    vec![
        Verdict::by_construction(
            "delayed-exclusively",
            "by the metric's definition: a packet that arrives is timely or delayed",
        ),
        below_two_hundred(table, 80.0),
    ]
}

/// Figure 23.
pub(in crate::experiment::papadimitriou06) fn index_120(
    table: &Table<'_>,
    _: Size,
) -> Vec<Verdict> {
    vec![
        most_sensitive(table, 120.0),
        two_hundred(table, 120.0),
        udp_less(table, 120.0),
    ]
}

/// Figure 24.
pub(in crate::experiment::papadimitriou06) fn delayed_120(
    table: &Table<'_>,
    _: Size,
) -> Vec<Verdict> {
    vec![below_two_hundred(table, 120.0)]
}
