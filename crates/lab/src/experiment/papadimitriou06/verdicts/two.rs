//! Scenario 2: the size of voice packets. [Papadimitriou06 §5.2]

use super::{CLEARLY, CLEARLY_RATIO};
use crate::experiment::papadimitriou06::scenario::{LIGHT, Point, Scenario, point};
use crate::experiment::papadimitriou06::setup::Transport;
use crate::experiment::papadimitriou06::table::Table;
use crate::experiment::{Size, Verdict};
use Transport::{Real, Udp, Vegas, Westwood};

const SIZES: [f64; 3] = [160.0, 300.0, 500.0];

/// The points of one packet size.
fn of(size: Size, bytes: f64) -> Vec<Point> {
    let calls = Scenario::Two.calls(size).iter();
    calls
        .map(|calls| point(*calls, LIGHT).bytes(bytes))
        .collect()
}

/// A value at the three sizes, mean over calls.
fn three(table: &Table<'_>, size: Size, transport: Transport, name: &str) -> [f64; 3] {
    SIZES.map(|bytes| table.over(transport, &of(size, bytes), name))
}

fn told(transport: Transport, values: [f64; 3], digits: usize) -> String {
    let [a, b, c] = values.map(|value| format!("{value:.digits$}"));
    format!("{} at 160, 300, 500 bytes: {a}, {b}, {c}", transport.name())
}

/// "Slight gains in goodput".
fn slight(table: &Table<'_>, size: Size, claim: &'static str, transport: Transport) -> Verdict {
    let [small, _, large] = three(table, size, transport, "goodput_kbps");
    let gain = large / small;
    let values = three(table, size, transport, "goodput_kbps");
    Verdict::of(
        claim,
        (1.0..1.15).contains(&gain),
        format!(
            "{} kbit/s: {:+.1} %",
            told(transport, values, 0),
            100.0 * (gain - 1.0)
        ),
    )
    .note("longer packets carry fewer headers")
}

/// "Long segments degrade voice quality".
fn degrades(table: &Table<'_>, size: Size, claim: &'static str, transport: Transport) -> Verdict {
    let values = three(table, size, transport, "index_300");
    let worse = values[0] - values[2] >= CLEARLY;
    let within = three(table, size, transport, "within_150ms");
    Verdict::of(claim, worse, told(transport, values, 3)).note(format!(
        "within 150 ms one way: {}",
        told(transport, within, 3)
    ))
}

/// Figure 7.
pub(in crate::experiment::papadimitriou06) fn vegas_goodput(
    table: &Table<'_>,
    size: Size,
) -> Vec<Verdict> {
    let values = three(table, size, Vegas, "goodput_kbps");
    let no_gain = values[1..]
        .iter()
        .all(|value| *value < values[0] * CLEARLY_RATIO);
    let dropped = three(table, size, Vegas, "queue_lost");
    vec![
        Verdict::of(
            "setup",
            true,
            "160, 300, 500 bytes every 20, 37.5, 62.5 ms of a talkspurt; 20 FTP flows over Reno",
        ),
        Verdict::of(
            "vegas-no-gain",
            no_gain,
            format!("{} kbit/s", told(Vegas, values, 0)),
        ),
        Verdict::of(
            "vegas-small",
            dropped[0] < dropped[2],
            format!("dropped in queues, {}", told(Vegas, dropped, 4)),
        ),
    ]
}

/// Figure 8.
pub(in crate::experiment::papadimitriou06) fn vegas_index(
    table: &Table<'_>,
    size: Size,
) -> Vec<Verdict> {
    vec![degrades(table, size, "vegas-long-degrade", Vegas)]
}

/// Figure 9.
pub(in crate::experiment::papadimitriou06) fn westwood_goodput(
    table: &Table<'_>,
    size: Size,
) -> Vec<Verdict> {
    let gain = |transport: Transport| {
        let [small, _, large] = three(table, size, transport, "goodput_kbps");
        large / small
    };
    let others = [Vegas, Real, Udp];
    let most = others.iter().all(|other| gain(Westwood) > gain(*other));
    let each = Transport::PAPER.map(|t| format!("{} {:+.1} %", t.name(), 100.0 * (gain(t) - 1.0)));
    vec![Verdict::of(
        "westwood-gains",
        gain(Westwood) > 1.0 && most,
        format!("goodput at 500 against 160 bytes: {}", each.join(", ")),
    )]
}

/// Figure 10.
pub(in crate::experiment::papadimitriou06) fn westwood_index(
    table: &Table<'_>,
    size: Size,
) -> Vec<Verdict> {
    let index = |calls: f64, bytes: f64| {
        table.mean(Westwood, point(calls, LIGHT).bytes(bytes), "index_300")
    };
    let better = |calls: &f64| {
        SIZES[1..]
            .iter()
            .any(|b| index(*calls, *b) > index(*calls, 160.0))
    };
    let somewhere = Scenario::Two.calls(size).iter().any(better);
    let values = three(table, size, Westwood, "index_300");
    let noticeable = values[1].max(values[2]) - values[0] >= 0.1;
    vec![Verdict::of(
        "westwood-occasionally",
        somewhere && !noticeable,
        told(Westwood, values, 3),
    )]
}

/// Figure 11.
pub(in crate::experiment::papadimitriou06) fn real_goodput(
    table: &Table<'_>,
    size: Size,
) -> Vec<Verdict> {
    vec![slight(table, size, "real-slight-gain", Real)]
}

/// Figure 12.
pub(in crate::experiment::papadimitriou06) fn real_index(
    table: &Table<'_>,
    size: Size,
) -> Vec<Verdict> {
    vec![degrades(table, size, "real-long-degrade", Real)]
}

/// Figure 13.
pub(in crate::experiment::papadimitriou06) fn udp_goodput(
    table: &Table<'_>,
    size: Size,
) -> Vec<Verdict> {
    vec![slight(table, size, "udp-slight-gain", Udp)]
}

/// Figure 14.
pub(in crate::experiment::papadimitriou06) fn udp_index(
    table: &Table<'_>,
    size: Size,
) -> Vec<Verdict> {
    let lost = SIZES.map(|bytes| table.mean(Udp, point(10.0, LIGHT).bytes(bytes), "lost"));
    vec![
        degrades(table, size, "udp-long-degrade", Udp),
        Verdict::of("large-sensitive", lost[2] > lost[0], format!("lost at 10 calls, {}", told(Udp, lost, 4))).note(
            "errors strike packets, whatever their size, in the paper's model too; what a loss takes from the \
             listener is longer",
        ),
    ]
}
