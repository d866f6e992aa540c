//! The goals for real relays, compared with the measurements.

use super::{CONGESTION, Links, value};
use crate::experiment::{Rows, Verdict};

/// The least gain of all relays together over one connection. The model gives 6·√6 = 14.7, before the links' capacity
/// limits anything [Liu04 §III-A].
const GAIN: f64 = 8.0;
/// The least share of the slowest segment's own rate.
const SHARE: f64 = 0.9;
/// Largest relative error of a prediction.
const PREDICTED: f64 = 0.2;
const STRIPED: f64 = 0.15;

pub(super) fn verdicts(rows: &Rows) -> Vec<Verdict> {
    let reno = |key: &str| value(rows, 0, Links::Alike, key);
    let (direct, relays, slowest) = (reno("direct_bps"), reno("relays_bps"), reno("slowest_bps"));
    let others = (1..CONGESTION.len()).map(|kind| {
        let of = |key: &str| value(rows, kind, Links::Alike, key);
        format!(
            "{}: one connection {}, slowest segment {}, relays {}",
            CONGESTION[kind],
            mbit(of("direct_bps")),
            mbit(of("slowest_bps")),
            mbit(of("relays_bps"))
        )
    });
    let others: Vec<String> = others.collect();
    let gain = relays / direct;
    let share = relays / slowest;
    let predicted = reno("predicted_bps");
    let off = predicted / relays - 1.0;
    let striped = |key: &str| value(rows, 0, Links::OneWorse, key);
    let lift = striped("relays_bps") / striped("optimum_bps") - 1.0;
    vec![
        Verdict::of(
            "real-gain",
            gain >= GAIN,
            format!("{gain:.1} times: {} against {}", mbit(relays), mbit(direct)),
        )
        .note(others.join("; ")),
        Verdict::of(
            "real-slowest",
            share >= SHARE,
            format!("{:.0} % of {}", share * 100.0, mbit(slowest)),
        ),
        Verdict::of(
            "real-predicted",
            off.abs() <= PREDICTED,
            format!(
                "{} predicted, {} achieved: {:+.0} %",
                mbit(predicted),
                mbit(relays),
                off * 100.0
            ),
        ),
        capacity(rows),
        Verdict::of(
            "real-stripes",
            lift.abs() <= STRIPED,
            format!(
                "{} where the optimum of {:.0} connections has {}: {:+.0} %; one connection each would have {}",
                mbit(striped("relays_bps")),
                striped("stripes"),
                mbit(striped("optimum_bps")),
                lift * 100.0,
                mbit(striped("slowest_bps"))
            ),
        ),
    ]
}

/// Judges the cells in which nothing is lost and one link has a lower rate.
fn capacity(rows: &Rows) -> Verdict {
    let of = |kind: usize, key: &str| value(rows, kind, Links::OneNarrow, key);
    let mut holds = true;
    let said = (0..CONGESTION.len()).map(|kind| {
        let [predicted, achieved, slowest] =
            ["predicted_bps", "relays_bps", "slowest_bps"].map(|key| of(kind, key));
        let off = predicted / achieved - 1.0;
        holds &= off.abs() <= PREDICTED && achieved >= SHARE * slowest;
        format!(
            "{}: {} predicted, {} achieved ({:+.0} %), the slowest link alone {}",
            CONGESTION[kind],
            mbit(predicted),
            mbit(achieved),
            off * 100.0,
            mbit(slowest)
        )
    });
    let said: Vec<String> = said.collect();
    Verdict::of("real-capacity", holds, said.join("; "))
}

fn mbit(bps: f64) -> String {
    format!("{:.2} Mbit/s", bps / 1e6)
}
