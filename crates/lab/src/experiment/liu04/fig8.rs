//! Figure 8: a transfer over a chain of six congested links, with as many relays as there may be, where
//! the optimal pipeline has them. [Liu04 §V-A]
//!
//! Each cell first watches the chain with ordinary flows alone: losses and round trips of its links
//! decide the placement, by the algorithm of [Liu04 §III-B] over formula (1). Then the transfer runs.

use super::chain::{BUFFER_SEGMENTS, Chain, Outcome};
use super::mean;
use crate::experiment::{Cell, CellError, Experiment, Findings, Plan, Row, Rows, Size, Verdict};
use crate::plot::{Axis, Chart, Mark, Series};
use base::Rng;
use graph::pipeline::{Rate, Rates, pipelines};
use graph::width::Width;

/// The figure.
pub(super) const FIG8: Figure = Figure;

/// Links of the chain. [Liu04 §V-A]
const LINKS: usize = 6;
/// Ordinary flows on each link. Choice: the figure's assignment is in its drawing only, of which the
/// text has nothing; so there are several, and quick runs have the first.
const LAYOUTS: [[u32; LINKS]; 3] = [
    [80, 40, 120, 40, 80, 40],
    [40, 80, 120, 40, 80, 120],
    [120, 40, 80, 40, 120, 80],
];
const QUICK_LAYOUTS: [[u32; LINKS]; 1] = [LAYOUTS[0]];
/// In place of a number of connections: one over the slowest link alone, and none at all.
const SLOWEST: usize = LINKS + 1;
const NOTHING: usize = 0;

/// How far ordinary losses may be from what they are without the transfer.
const NEGLIGIBLE: f64 = 0.05;
/// Runs are similar if each is within this share of their mean.
const SIMILAR: f64 = 0.35;
/// How far above the slowest link's own rate a pipeline may be, by chance.
const CHANCE: f64 = 0.25;

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
             ns-2's Reno with segments of 1000 bytes. Each run watches the chain for {} s without the transfer: losses of the \
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
        // Runs of equal number meet the same ordinary flows, however many connections there are.
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
        Size::Quick => 2,
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
        // As long as the others: their losses are compared with these.
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
        // The slowest link alone: the chain is cut to it.
        chain = Chain::new(&ordinary[slowest..=slowest]);
    } else {
        chain.cuts = all[connections - 1].cuts.clone();
        row.set("model_kbps", all[connections - 1].rate.0 as f64 / 1e3);
        let relays = chain.cuts[1..chain.cuts.len() - 1].iter();
        row.set("relays_mask", relays.map(|at| f64::from(1 << at)).sum::<f64>());
    }
    chain.transfers = 1;
    chain.seconds = seconds(size);
    // Other seeds than what decided the placement: it is not to know these very flows.
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

/// B(i,j) of formula (1) [Liu04 §III-A], with segments of 1000 bytes.
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

struct Judge<'a> {
    rows: &'a Rows,
    layouts: &'static [[u32; LINKS]],
    runs: u32,
}

impl Judge<'_> {
    fn all(&self) -> Vec<Verdict> {
        vec![
            Verdict::of("setup-links", true, "six links, 20 Mbit/s, 10 ms in each direction"),
            Verdict::of("setup-background", true, "40, 80 or 120 on each link")
                .note("which link has how many is in the figure's drawing only: see the method"),
            self.most_congested(),
            self.negligible(),
            self.rises(),
            self.boost(),
            self.hop_by_hop_bound(),
            self.non_decreasing(),
            self.back_pressure(),
            self.similar(),
        ]
    }

    fn over_layouts(&self) -> std::ops::Range<usize> {
        0..self.layouts.len()
    }

    fn kbps(&self, layout: usize, connections: usize) -> f64 {
        value(self.rows, layout, connections, "kbps")
    }

    fn most_congested(&self) -> Verdict {
        let by = |flows: u32| -> Vec<f64> {
            let links = self.over_layouts().flat_map(|layout| {
                let of = self.layouts[layout].iter().enumerate();
                let of = of.filter(move |(_, count)| **count == flows);
                of.map(move |(at, _)| (layout, at))
            });
            let loss = |(layout, at)| value(self.rows, layout, NOTHING, &format!("loss_{at}"));
            links.map(loss).collect()
        };
        let [few, some, many] = [40, 80, 120].map(by);
        let least = |losses: &[f64]| losses.iter().copied().fold(f64::INFINITY, f64::min);
        let most = |losses: &[f64]| losses.iter().copied().fold(0.0, f64::max);
        let holds = most(&few) < least(&some) && most(&some) < least(&many);
        let said = [(40, &few), (80, &some), (120, &many)]
            .map(|(flows, losses)| format!("{flows} flows {:.1} %", 100.0 * mean(losses.iter().copied())));
        Verdict::of("most-congested", holds, format!("lost: {}", said.join(", ")))
    }

    fn negligible(&self) -> Verdict {
        let mut worst = 0.0_f64;
        for layout in self.over_layouts() {
            for at in 0..LINKS {
                let without = value(self.rows, layout, NOTHING, &format!("loss_{at}"));
                let with = value(self.rows, layout, LINKS, &format!("loss_with_{at}"));
                worst = worst.max((with / without - 1.0).abs());
            }
        }
        let said = format!("hop by hop, no link's loss is off by more than {:.1} %", 100.0 * worst);
        Verdict::of("negligible", worst <= NEGLIGIBLE, said)
    }

    fn rises(&self) -> Verdict {
        let mut holds = true;
        let said = self.over_layouts().map(|layout| {
            let rates: Vec<f64> = (1..=LINKS).map(|m| self.kbps(layout, m)).collect();
            holds &= rates.windows(2).all(|pair| pair[1] > pair[0]);
            let rates: Vec<String> = rates.iter().map(|rate| format!("{rate:.0}")).collect();
            format!("{} kbit/s with 0 to {} relays", rates.join(", "), LINKS - 1)
        });
        let said: Vec<String> = said.collect();
        Verdict::of("rises", holds, said.join("; ")).because(
            "a relay that does not touch the slowest segment moves nothing but chance; see what the model predicts in the drawing",
        )
    }

    fn boost(&self) -> Verdict {
        let gains = self.over_layouts().map(|layout| self.kbps(layout, LINKS) / self.kbps(layout, 1));
        let gains: Vec<f64> = gains.collect();
        let holds = gains.iter().all(|gain| *gain > 1.0);
        let said: Vec<String> = gains.iter().map(|gain| format!("{gain:.1}")).collect();
        Verdict::of("boost", holds, format!("hop by hop {} times the single connection", said.join(", ")))
            .note("with equal links the model has 6·√6 = 14.7")
    }

    fn hop_by_hop_bound(&self) -> Verdict {
        let mut holds = true;
        let said = self.over_layouts().map(|layout| {
            let (pipeline, alone) = (self.kbps(layout, LINKS), self.kbps(layout, SLOWEST));
            let most = (1..=LINKS).map(|m| self.kbps(layout, m)).fold(0.0, f64::max);
            holds &= most <= alone * (1.0 + CHANCE);
            format!("hop by hop {pipeline:.0} kbit/s, the slowest link alone {alone:.0}")
        });
        let said: Vec<String> = said.collect();
        Verdict::of("bound", holds, said.join("; "))
            .note("two runs of one connection among 120 differ by more than a tenth")
    }

    fn non_decreasing(&self) -> Verdict {
        let rows = self.rows.0.iter();
        let mut holds = true;
        for row in rows.filter(|row| row.parameter("connections") == LINKS as f64) {
            let [layout, run] = ["layout", "run"].map(|name| row.parameter(name));
            let rates = (1..=LINKS).map(|m| {
                let place = [("layout", layout), ("run", run), ("connections", m as f64)];
                self.rows.value(&place, "model_kbps")
            });
            let rates: Vec<f64> = rates.collect();
            holds &= rates.windows(2).all(|pair| pair[1] >= pair[0]);
        }
        let said = self.over_layouts().map(|layout| {
            let rates = (1..=LINKS).map(|m| value(self.rows, layout, m, "model_kbps"));
            rates.map(|rate| format!("{rate:.0}")).collect::<Vec<_>>().join(", ")
        });
        let said: Vec<String> = said.collect();
        Verdict::of("non-decreasing", holds, format!("{} kbit/s by the model", said.join("; ")))
            .note("the formula knows no timeouts, so where a tenth is lost it is far above what passes")
    }

    fn back_pressure(&self) -> Verdict {
        let rows = self.rows.0.iter().map(|row| {
            let relays = (row.parameter("connections") - 1.0).clamp(0.0, LINKS as f64 - 1.0);
            // Per relay: a receive buffer, a send buffer.
            (row.value("held_most"), relays * 2.0 * f64::from(BUFFER_SEGMENTS))
        });
        let rows: Vec<(f64, f64)> = rows.filter(|(held, _)| held.is_finite()).collect();
        let holds = rows.iter().all(|(held, room)| held <= room);
        let most = rows.iter().map(|(held, _)| *held).fold(0.0, f64::max);
        let said = format!("relays of one transfer together held at most {most:.0} segments, and never more than their buffers");
        Verdict::of("back-pressure", holds, said)
    }

    fn similar(&self) -> Verdict {
        let mut worst = 0.0_f64;
        for layout in self.over_layouts() {
            let average = self.kbps(layout, LINKS);
            let place = [("layout", layout as f64), ("connections", LINKS as f64)];
            for row in self.rows.with(&place) {
                worst = worst.max((row.value("kbps") / average - 1.0).abs());
            }
        }
        let said = format!(
            "{} runs hop by hop, each within {:.0} % of their mean",
            self.runs,
            100.0 * worst
        );
        Verdict::of("similar", worst <= SIMILAR, said)
    }
}

/// A small chain for tests.
#[cfg(test)]
pub(super) fn small(connections: usize, seed: u64) -> Row {
    let cell = Cell::at(&[("connections", connections as f64)]);
    let mut chain = Chain::new(&[10, 30, 10]);
    (chain.transfers, chain.seconds, chain.warm_up_s) = (0, 5, 2);
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
