//! Scenario 2: the size of voice packets. [Papadimitriou06 §5.2]

use super::{CLEARLY, CLEARLY_RATIO};
use crate::experiment::papadimitriou06::scenario::{LIGHT, Point, Scenario, point};
use crate::experiment::papadimitriou06::setup::{FIGURE_1, SPAN, Transport};
use crate::experiment::papadimitriou06::table::Table;
use crate::experiment::{Size, Verdict};
use Transport::{Real, Udp, Vegas, Westwood};

const SIZES: [f64; 3] = [160.0, 300.0, 500.0];

/// Returns the points of one packet size.
fn of(size: Size, bytes: f64) -> Vec<Point> {
    let calls = Scenario::Two.calls(size).iter();
    calls
        .map(|calls| point(*calls, LIGHT).bytes(bytes))
        .collect()
}

/// Returns a value at the three sizes, as the mean over calls.
fn three(table: &Table<'_>, size: Size, transport: Transport, name: &str) -> [f64; 3] {
    SIZES.map(|bytes| table.over(transport, &of(size, bytes), name))
}

/// Returns the share of the written amount that arrived, at one number of calls.
fn delivered(table: &Table<'_>, transport: Transport, calls: f64, bytes: f64) -> f64 {
    let of = |name: &str| table.mean(transport, point(calls, LIGHT).bytes(bytes), name);
    of("goodput_kbps") / of("written_kbps")
}

/// Describes the rate of speech at the first bottleneck for the three sizes.
fn carried() -> String {
    let [a, b, c] = SIZES.map(|bytes| FIGURE_1.speech_kbps(bytes));
    format!(
        "longer packets carry fewer headers, so the bottleneck carries {a:.0}, {b:.0}, {c:.0} kbit/s of speech"
    )
}

fn told(transport: Transport, values: [f64; 3], digits: usize) -> String {
    let [a, b, c] = values.map(|value| format!("{value:.digits$}"));
    format!("{} at 160, 300, 500 bytes: {a}, {b}, {c}", transport.name())
}

/// Judges "Slight gains in goodput".
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

/// Judges "Long segments degrade voice quality".
fn degrades(table: &Table<'_>, size: Size, claim: &'static str, transport: Transport) -> Verdict {
    let values = three(table, size, transport, "index_300");
    let worse = values[0] - values[2] >= CLEARLY;
    let within = three(table, size, transport, "within_150ms");
    let few = SIZES.map(|bytes| table.mean(transport, point(10.0, LIGHT).bytes(bytes), "lost"));
    let by_calls = Scenario::Two.calls(size).iter().map(|calls| {
        let at = |name: &str| {
            SIZES
                .map(|bytes| {
                    let value = table.mean(transport, point(*calls, LIGHT).bytes(bytes), name);
                    format!("{value:.3}")
                })
                .join(", ")
        };
        format!(
            "{calls} calls {} (delayed {})",
            at("index_300"),
            at("delayed_300")
        )
    });
    let by_calls = by_calls.collect::<Vec<_>>().join("; ");
    Verdict::of(claim, worse, told(transport, values, 3))
        .note(format!(
            "within 150 ms one way: {}",
            told(transport, within, 3)
        ))
        .because(format!(
            "an error takes a packet whatever its size ({}), so the index, a share of packets, does not see that longer ones \
             are lost; and {}, of which the index has more at 120 calls than gaps take away: {by_calls}",
            told(transport, few, 4),
            carried()
        ))
}

fn setup() -> Verdict {
    let parameters = [
        ("bytes", SIZES[0], 160.0),
        ("bytes", SIZES[1], 300.0),
        ("bytes", SIZES[2], 500.0),
        ("FTP flows over Reno", LIGHT, 20.0),
    ];
    Verdict::setup("setup", &parameters)
        .note("in talkspurts of 64 kbit/s these are 20, 37.5 and 62.5 ms of speech")
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
        setup(),
        Verdict::of(
            "vegas-no-gain",
            no_gain,
            format!("{} kbit/s", told(Vegas, values, 0)),
        )
        .because(format!(
            "two gains that every transport has: {}; and a window counts segments: of what 10 calls write beside FTP, whose \
             queue keeps Vegas's window small, arrive {}",
            carried(),
            told(Vegas, SIZES.map(|bytes| delivered(table, Vegas, 10.0, bytes)), 3)
        )),
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
    let gaining = Transport::PAPER.iter().filter(|t| gain(**t) > 1.0).count();
    let nearly_all = Verdict::of(
        "nearly-all",
        gaining >= 3,
        format!("goodput at 500 against 160 bytes: {}", each.join(", ")),
    )
    .note(carried());
    let most_intense = Verdict::of(
        "westwood-gains",
        gain(Westwood) > 1.0 && most,
        format!("goodput at 500 against 160 bytes: {}", each.join(", ")),
    )
    .because(format!(
        "{} for everybody; beyond that gains whose window is short at 160 bytes, and Westwood's is not: of what 10 and 80 \
         calls write at 160 bytes arrive {}",
        carried(),
        Transport::PAPER
            .map(|t| {
                let at = |calls| delivered(table, t, calls, 160.0);
                format!("{} {:.3}, {:.3}", t.name(), at(10.0), at(80.0))
            })
            .join("; ")
    ));
    vec![nearly_all, most_intense]
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
    // Errors are independent, so the difference of two shares has the standard error of Bernoulli's.
    let variance = |bytes: f64| {
        let at = point(10.0, LIGHT).bytes(bytes);
        let kbps: f64 = table.values(Udp, at, "written_kbps").iter().sum();
        let packets = kbps * 1e3 * SPAN.as_secs_f64() / 8.0 / bytes;
        let share = table.mean(Udp, at, "lost");
        share * (1.0 - share) / packets
    };
    let error = (variance(SIZES[0]) + variance(SIZES[2])).sqrt();
    let more = lost[2] - lost[0];
    vec![
        degrades(table, size, "udp-long-degrade", Udp),
        Verdict::of(
            "large-sensitive",
            more > 2.0 * error,
            format!(
                "lost at 10 calls, {}; {more:+.4} with a standard error of {error:.4}",
                told(Udp, lost, 4)
            ),
        )
        .because(
            "errors strike packets, whatever their size, as the paper's Bernoulli model by packets does too; what a loss \
             takes from the listener is longer, 62.5 ms instead of 20",
        ),
    ]
}
