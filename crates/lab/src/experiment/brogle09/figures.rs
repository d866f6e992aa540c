//! The drawings: loss and latency over the bandwidth, as the paper's Figures 4 and 5.

use super::view::ACCEPTABLE_US;
use crate::experiment::Rows;
use crate::plot::{Axis, Chart, Mark, Series};

const PAYLOADS: [f64; 3] = [32.0, 512.0, 1_024.0];
/// The table's highest bandwidth, with some margin.
const MBPS_MAX: f64 = 90.0;

/// One contender's line for each payload.
#[derive(Clone, Copy)]
pub(super) struct Drawn {
    /// The prefix of its numbers: `native`.
    pub(super) who: &'static str,
    /// Its name in the legend.
    pub(super) name: &'static str,
}

/// Returns the four drawings of a figure: loss and latency of the chain, then of the tree.
pub(super) fn four(rows: &Rows, drawn: &[Drawn]) -> Vec<Chart> {
    let mut charts = Vec::new();
    for (tree, place) in [(0.0, "chain"), (1.0, "tree, P6")] {
        let lines = |value: &str| lines(rows, tree, drawn, value);
        let loss = format!("Packet loss, {place}");
        charts.push(chart(loss, "lost, %", 100.0, lines("loss_pct")));
        let latency = format!("Mean latency without the slowest 5 %, {place}");
        let latencies = lines("mean_95_us");
        charts.push(chart(latency, "latency, µs", ACCEPTABLE_US, latencies));
    }
    charts
}

fn lines(rows: &Rows, tree: f64, drawn: &[Drawn], value: &str) -> Vec<Series> {
    let (mut all, mut bars) = (Vec::new(), Vec::new());
    for one in drawn {
        for payload in PAYLOADS {
            let at = [("tree", tree), ("payload", payload), ("loss_pct", 0.0)];
            let (color, name) = (all.len() as u8, format!("{}_{value}", one.who));
            bars.push(Series {
                name: "".into(),
                color,
                mark: Mark::Bars,
                points: rows.bars(&at, "mbps", &name, &format!("{name}_error")),
            });
            all.push(Series {
                name: format!("{}, {payload} bytes", one.name).into(),
                color,
                mark: Mark::Line,
                points: rows.line(&at, "mbps", &name),
            });
        }
    }
    all.extend(bars);
    all
}

/// Returns a chart over the bandwidth whose y axis covers all its points, except those above `limit`.
fn chart(title: String, label: &'static str, limit: f64, series: Vec<Series>) -> Chart {
    let points = series.iter().flat_map(|series| &series.points);
    let most = points.map(|point| point.1).fold(0.0, f64::max);
    Chart {
        title: title.into(),
        x: Axis {
            label: "bandwidth, Mbit/s".into(),
            min: 0.0,
            max: MBPS_MAX,
        },
        y: Axis {
            label: label.into(),
            min: 0.0,
            max: if most > 0.0 {
                (1.1 * most).min(limit)
            } else {
                1.0
            },
        },
        series,
    }
}
