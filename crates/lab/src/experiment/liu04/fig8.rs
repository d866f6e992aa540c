//! Figure 8: a transfer over a chain of six congested links, with each possible number of relays, at the places of the
//! optimal pipeline. [Liu04 §V-A]
//!
//! Each cell first measures the chain with ordinary flows alone: losses and round trips of its links determine the
//! placement, by the algorithm of [Liu04 §III-B] over formula (1). Then the transfer runs.

mod verdicts;

use super::chain::{BUFFER_SEGMENTS, Chain, Outcome};
use crate::experiment::{Cell, CellError, Experiment, Findings, Plan, Row, Rows, Size};
use crate::plot::{Axis, Chart, Mark, Series};
use crate::stats::mean;
use base::Rng;
use graph::pipeline::{Rate, Rates, pipelines};
use graph::width::Width;
use verdicts::Judge;

/// The figure.
pub(super) const FIG8: Figure = Figure;

/// Links of the chain. [Liu04 §V-A]
const LINKS: usize = 6;
/// Ordinary flows on each link. Choice: the figure's assignment is only in its drawing, which the text does not
/// describe; so there are several, and quick runs have the first.
const LAYOUTS: [[u32; LINKS]; 3] = [
    [80, 40, 120, 40, 80, 40],
    [40, 80, 120, 40, 80, 120],
    [120, 40, 80, 40, 120, 80],
];
const QUICK_LAYOUTS: [[u32; LINKS]; 1] = [LAYOUTS[0]];
/// Values in place of a number of connections: one connection over the slowest link alone, and no transfer.
const SLOWEST: usize = LINKS + 1;
const NOTHING: usize = 0;

/// The experiment.
pub(super) struct Figure;

impl Experiment for Figure {
    fn id(&self) -> &'static str {
        "liu04/fig8"
    }

    fn title(&self) -> &'static str {
        "Throughput of a pipeline over six congested links, by the number of connections"
    }

    fn method(&self, size: Size) -> String {
        format!(
            "A chain of {LINKS} links of 20 Mbit/s and 10 ms with 40, 80 or 120 files without an end on each ({}), queues of 100 ms, \
             ns-2's Reno with segments of 1000 bytes, up to 2 ms of jitter against phase effects. Each run watches the chain for {} s without the transfer: losses of the \
             links, and round trips by probes of 100 bytes. From these the optimal pipeline of 1 to {LINKS} connections (graph::pipeline), \
             then the transfer, {} s after 10 s of warm-up; {} runs. Relays hold {BUFFER_SEGMENTS} segments towards either \
             side. Beside it one connection over the link that the model has for the slowest.",
            layouts(size)
                .iter()
                .map(|layout| layout.map(|flows| flows.to_string()).join("-"))
                .collect::<Vec<_>>()
                .join("; "),
            watched_s(size),
            seconds(size),
            runs(size)
        )
    }

    fn cells(&self, size: Size) -> Vec<Cell> {
        let mut cells = Vec::new();
        for layout in 0..layouts(size).len() {
            for connections in NOTHING..=SLOWEST {
                for run in 0..runs(size) {
                    cells.push(Cell::at(&[
                        ("layout", layout as f64),
                        ("connections", connections as f64),
                        ("run", f64::from(run)),
                    ]));
                }
            }
        }
        cells
    }

    fn measure(&self, plan: &Plan, cell: &Cell, _: u64) -> Result<Row, CellError> {
        let ordinary = LAYOUTS[cell.parameter("layout") as usize];
        let connections = cell.parameter("connections") as usize;
        // Runs with equal numbers have the same ordinary flows, however many connections there are.
        let run = cell.parameter("run") as u64;
        let seed = Rng::new(plan.seed ^ (run << 32)).next_u64();
        Ok(measured(cell, &ordinary, connections, plan.size, seed))
    }

    fn conclude(&self, plan: &Plan, rows: &Rows) -> Findings {
        let layouts = layouts(plan.size);
        let series = (0..layouts.len()).flat_map(|layout| {
            let name = layouts[layout].map(|flows| flows.to_string()).join("-");
            let line = |what: &'static str, key: &'static str, mark| Series {
                name: format!("{what}, {name}").into(),
                color: layout as u8,
                mark,
                points: (1..=LINKS)
                    .map(|m| (m as f64 - 1.0, value(rows, layout, m, key)))
                    .collect(),
            };
            [
                line("measured", "kbps", Mark::Line),
                line("model", "model_kbps", Mark::Dots),
            ]
        });
        let series: Vec<Series> = series.collect();
        let points = series.iter().flat_map(|series| &series.points);
        let most = points.map(|point| point.1).fold(100.0, f64::max);
        Findings {
            charts: vec![Chart {
                title: self.title().into(),
                x: Axis {
                    label: "relays".into(),
                    min: 0.0,
                    max: LINKS as f64 - 1.0,
                },
                y: Axis {
                    label: "throughput, kbit/s".into(),
                    min: 0.0,
                    max: (most / 50.0).ceil() * 50.0,
                },
                series,
            }],
            verdicts: Judge {
                rows,
                layouts,
                runs: runs(plan.size),
            }
            .all(),
        }
    }
}

const fn seconds(size: Size) -> u64 {
    match size {
        Size::Quick => 60,
        Size::Full => 300,
    }
}

const fn watched_s(size: Size) -> u64 {
    match size {
        Size::Quick => 20,
        Size::Full => 60,
    }
}

const fn runs(size: Size) -> u32 {
    match size {
        Size::Quick => 3,
        Size::Full => 5,
    }
}

const fn layouts(size: Size) -> &'static [[u32; LINKS]] {
    match size {
        Size::Quick => &QUICK_LAYOUTS,
        Size::Full => &LAYOUTS,
    }
}

/// Runs a cell.
fn measured(cell: &Cell, ordinary: &[u32], connections: usize, size: Size, seed: u64) -> Row {
    let mut chain = Chain::new(ordinary);
    chain.transfers = 0;
    chain.seconds = match connections {
        // The length is that of the others, because their losses are compared with these.
        NOTHING => seconds(size),
        _ => watched_s(size),
    };
    let watched = chain.run(seed);
    let mut row = Row::of(cell);
    tell_links(&mut row, &watched);
    if connections == NOTHING {
        return row;
    }
    let rates = rates(&watched);
    let all = pipelines(&rates);
    let slowest = (0..ordinary.len())
        .min_by_key(|&at| rates.rate(at, at + 1).one)
        .unwrap_or(0);
    if connections > ordinary.len() {
        // For the slowest link alone, the chain is reduced to it.
        chain = Chain::new(&ordinary[slowest..=slowest]);
    } else {
        chain.cuts = all[connections - 1].cuts.clone();
        row.set("model_kbps", all[connections - 1].rate.0 as f64 / 1e3);
        let relays = chain.cuts[1..chain.cuts.len() - 1].iter();
        row.set(
            "relays_mask",
            relays.fold(0.0, |mask, at| mask + f64::from(1 << at)),
        );
    }
    chain.transfers = 1;
    chain.seconds = seconds(size);
    // The seed differs from that of the placement, so that the placement does not depend on these very flows.
    let outcome = chain.run(Rng::new(seed).next_u64());
    row.set("kbps", mean(outcome.transfers_kbps.iter().copied()));
    row.set("held_most", outcome.held_most);
    for (at, loss) in outcome.losses.iter().enumerate() {
        row.set(format!("loss_with_{at}"), *loss);
    }
    row
}

fn tell_links(row: &mut Row, watched: &Outcome) {
    for (at, (loss, rtt)) in watched.losses.iter().zip(&watched.rtts_ms).enumerate() {
        row.set(format!("loss_{at}"), *loss);
        row.set(format!("rtt_ms_{at}"), *rtt);
    }
}

/// Returns B(i,j) of formula (1) [Liu04 §III-A], with segments of 1000 bytes.
fn rates(watched: &Outcome) -> Rates {
    let links: Vec<(f64, f64)> = watched
        .rtts_ms
        .iter()
        .copied()
        .zip(watched.losses.iter().copied())
        .collect();
    let rates = Rates::new(links.len(), |i, j| {
        let over = &links[i..j];
        let rtt_s: f64 = over.iter().map(|(rtt, _)| rtt / 1e3).sum();
        let loss: f64 = over.iter().map(|(_, loss)| loss).sum();
        let rate = 8_000.0 * 1.5f64.sqrt() / (rtt_s * loss.max(1e-6).sqrt());
        Rate {
            one: Width(rate as u64),
            most: Width::UNLIMITED,
        }
    });
    rates.expect("a chain of a few links")
}

fn value(rows: &Rows, layout: usize, connections: usize, key: &str) -> f64 {
    let place = [
        ("layout", layout as f64),
        ("connections", connections as f64),
    ];
    mean(rows.with(&place).map(|row| row.value(key)))
}

/// Measures a small chain for tests.
#[cfg(test)]
pub(super) fn small(connections: usize, seed: u64) -> Row {
    let cell = Cell::at(&[("connections", connections as f64)]);
    let mut chain = Chain::new(&[10, 30, 10]);
    (chain.transfers, chain.seconds, chain.warm_up_s) = (0, 5, 8);
    let watched = chain.run(seed);
    let rates = rates(&watched);
    let best = pipelines(&rates).swap_remove(connections - 1);
    (chain.transfers, chain.seconds, chain.cuts) = (1, 20, best.cuts.clone());
    let outcome = chain.run(seed + 1);
    let mut row = Row::of(&cell);
    tell_links(&mut row, &watched);
    row.set("model_kbps", best.rate.0 as f64 / 1e3);
    row.set("kbps", outcome.transfers_kbps[0]);
    row.set("held_most", outcome.held_most);
    row.set("connections", best.connections() as f64);
    row
}
