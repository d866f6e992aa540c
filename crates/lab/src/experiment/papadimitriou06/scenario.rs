//! The five scenarios as grids, and the row of a run.
//!
//! | scenario | calls | FTP | bytes | errors |
//! |---|---|---|---|---|
//! | 1 | 10 to 120 | none | 160 | 1 % |
//! | 2 | 10 to 120 | 20 | 160, 300, 500 | 1 % |
//! | 3 | 10 to 120 | 20, 60 | 160 | 1 %; second links from 3 to 24 Mbit/s |
//! | 4 | 80, 120 | 20 | 160 | 0 to 5 % |
//! | 5 | 80, 120 | 20 | 160 | 1 %; thresholds from 100 to 400 ms |
//!
//! Runs that differ only in the transport share their seed: the same people speak at the same moments. Every point is
//! run in several rounds with different seeds; figures and verdicts use the mean over them.

use super::metrics::{THRESHOLDS_MS, fairness, quantile_ms};
use super::network::{self, Outcome};
use super::setup::{FIGURE_1, SECOND_MBPS, SPAN, Setup, Transport};
use crate::experiment::{Cell, CellError, Plan, Row, Size};
use base::{Duration, Time};

/// One of the five scenarios, or the comparison over many seeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scenario {
    One,
    Two,
    Three,
    Four,
    Five,
    Partial,
}

/// A point of a grid, without transport and round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) calls: f64,
    pub(super) ftp: f64,
    pub(super) bytes: f64,
    /// The errors in percent.
    pub(super) errors: f64,
    /// The rate of the second link, if it is swept.
    pub(super) second_mbps: Option<f64>,
}

/// Returns a point with the usual values.
pub(super) const fn point(calls: f64, ftp: f64) -> Point {
    Point {
        calls,
        ftp,
        bytes: 160.0,
        errors: 1.0,
        second_mbps: None,
    }
}

impl Point {
    pub(super) const fn bytes(self, bytes: f64) -> Point {
        Point { bytes, ..self }
    }

    pub(super) const fn errors(self, errors: f64) -> Point {
        Point { errors, ..self }
    }

    pub(super) const fn second(self, mbps: f64) -> Point {
        Point {
            second_mbps: Some(mbps),
            ..self
        }
    }

    /// Returns the coordinates of cells with this transport.
    pub(super) fn of(self, transport: Transport) -> Vec<(&'static str, f64)> {
        let mut place = vec![
            ("transport", transport.code()),
            ("calls", self.calls),
            ("ftp", self.ftp),
            ("bytes", self.bytes),
            ("errors", self.errors),
        ];
        place.extend(self.second_mbps.map(|mbps| (SECOND, mbps)));
        place
    }
}

/// The coordinate of the second link's capacity, in Mbit/s.
const SECOND: &str = "second";
/// The light and the heavy cross traffic.
pub(super) const LIGHT: f64 = 20.0;
pub(super) const HEAVY: f64 = 60.0;
/// Number of seeds of the comparison with the partially reliable class.
const SEEDS: usize = 20;

impl Scenario {
    pub(super) fn name(self) -> &'static str {
        match self {
            Scenario::One => "papadimitriou06/scenario1",
            Scenario::Two => "papadimitriou06/scenario2",
            Scenario::Three => "papadimitriou06/scenario3",
            Scenario::Four => "papadimitriou06/scenario4",
            Scenario::Five => "papadimitriou06/scenario5",
            Scenario::Partial => "papadimitriou06/partial",
        }
    }

    /// Returns the numbers of calls.
    pub(super) fn calls(self, size: Size) -> &'static [f64] {
        match (self, size) {
            (Scenario::Four | Scenario::Five, _) => &[80.0, 120.0],
            (Scenario::One | Scenario::Partial, Size::Quick) => &[10.0, 20.0, 60.0, 80.0, 120.0],
            (_, Size::Quick) => &[10.0, 80.0, 120.0],
            (_, Size::Full) => &[10.0, 20.0, 40.0, 60.0, 80.0, 100.0, 120.0],
        }
    }

    /// Returns the errors in percent.
    pub(super) fn errors(self, size: Size) -> &'static [f64] {
        match (self, size) {
            (Scenario::Four, Size::Quick) => &[0.0, 1.0, 3.0, 5.0],
            (Scenario::Four, Size::Full) => &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0],
            _ => &[1.0],
        }
    }

    /// Returns every point of the grid, once.
    pub(super) fn points(self, size: Size) -> Vec<Point> {
        let calls = self.calls(size);
        let mut points = Vec::new();
        for &calls in calls {
            match self {
                Scenario::One => points.push(point(calls, 0.0)),
                Scenario::Two => {
                    let sizes = [160.0, 300.0, 500.0];
                    points.extend(sizes.map(|bytes| point(calls, LIGHT).bytes(bytes)));
                }
                Scenario::Three => {
                    for ftp in [LIGHT, HEAVY] {
                        points.extend(SECOND_MBPS.map(|mbps| point(calls, ftp).second(mbps)));
                    }
                }
                Scenario::Four | Scenario::Five => {
                    let errors = self.errors(size).iter();
                    points.extend(errors.map(|errors| point(calls, LIGHT).errors(*errors)));
                }
                Scenario::Partial => points.push(point(calls, 0.0)),
            }
        }
        if self == Scenario::Partial {
            points.extend(Scenario::Four.points(size));
        }
        points
    }

    /// Returns the transports that are compared.
    pub(super) fn transports(self) -> &'static [Transport] {
        match self {
            Scenario::Partial => &[Transport::Real, Transport::Udp, Transport::Partial],
            // These run at every capacity of the sweep.
            Scenario::Three => &Transport::PAPER,
            _ => &Transport::ALL,
        }
    }

    fn rounds(self, size: Size) -> usize {
        match (self, size) {
            (Scenario::Partial, Size::Full) => SEEDS,
            (Scenario::Partial, Size::Quick) => 2,
            (Scenario::One | Scenario::Five, Size::Quick) => 2,
            (_, Size::Quick) => 1,
            (_, Size::Full) => 5,
        }
    }

    /// Returns the grid.
    pub(super) fn cells(self, size: Size) -> Vec<Cell> {
        let mut cells = Vec::new();
        for point in self.points(size) {
            for transport in self.transports() {
                for round in 0..self.rounds(size) {
                    let mut parameters = point.of(*transport);
                    parameters.push(("round", round as f64));
                    cells.push(Cell::at(&parameters));
                }
            }
        }
        cells
    }

    /// Runs a cell.
    pub(super) fn measure(self, plan: &Plan, cell: &Cell) -> Result<Row, CellError> {
        let transport = Transport::of(cell.parameter("transport"));
        let setup = Setup {
            transport: transport.ok_or_else(|| CellError("no such transport".into()))?,
            calls: cell.parameter("calls") as usize,
            ftp: cell.parameter("ftp") as usize,
            bytes: cell.parameter("bytes") as usize,
            errors: cell.parameter("errors") / 100.0,
            span: SPAN,
            network: match cell.parameters.iter().find(|(name, _)| *name == SECOND) {
                Some((_, mbps)) => FIGURE_1.with_second_mbps(*mbps),
                None => FIGURE_1,
            },
        };
        // The seed is the same for every transport and capacity.
        let others = cell
            .parameters
            .iter()
            .filter(|(name, _)| *name != "transport" && *name != SECOND);
        let alike = Cell::at(&others.copied().collect::<Vec<_>>());
        let outcome = network::run(&setup, alike.seed(self.name(), plan.seed));
        Ok(row(cell, &setup, &outcome))
    }
}

/// Returns the row of a run. Shares are means over calls, as in the paper.
fn row(cell: &Cell, setup: &Setup, outcome: &Outcome) -> Row {
    let mut row = Row::of(cell);
    let end = Time::ZERO + setup.span;
    let kbps = |bytes: u64| bytes as f64 * 8.0 / setup.span.as_secs_f64() / 1e3;
    let scores: Vec<_> = outcome
        .calls
        .iter()
        .filter_map(|call| call.scores(end))
        .collect();
    let mean = |of: &dyn Fn(&super::metrics::Scores) -> f64| {
        scores.iter().map(of).sum::<f64>() / scores.len().max(1) as f64
    };
    for (place, threshold) in THRESHOLDS_MS.iter().enumerate() {
        row.set(format!("index_{threshold}"), mean(&|s| s.index[place]));
        row.set(format!("delayed_{threshold}"), mean(&|s| s.delayed[place]));
    }
    row.set("plain_index_300", mean(&|s| s.plain_index));
    row.set(
        "undelivered",
        mean(&|s| 1.0 - s.arrived as f64 / s.written as f64),
    );
    row.set("within_150ms", mean(&|s| s.on_time));
    let throughputs: Vec<f64> = scores.iter().map(|s| s.bytes as f64).collect();
    row.set("fairness", fairness(&throughputs));
    // The share of its demand that each call got: speakers differ, whatever the transport.
    let satisfied: Vec<f64> = scores
        .iter()
        .map(|s| s.arrived as f64 / s.written as f64)
        .collect();
    row.set("fairness_of_shares", fairness(&satisfied));
    row.set("goodput_kbps", kbps(scores.iter().map(|s| s.bytes).sum()));
    let written: u64 = outcome
        .calls
        .iter()
        .map(|call| call.packets.len() as u64)
        .sum();
    row.set("written_kbps", kbps(written * setup.bytes as u64));
    let per_written = |n: u64| n as f64 / written.max(1) as f64;
    row.set("first_sent", per_written(outcome.voice.first_sent));
    row.set("sent", per_written(outcome.voice.sent));
    row.set("lost", per_written(outcome.voice.lost));
    row.set("queue_lost", per_written(outcome.voice.queue_lost));
    row.set("cuts_per_1000", 1e3 * per_written(outcome.voice.cuts));
    let mut delays: Vec<Duration> = scores.into_iter().flat_map(|s| s.delays).collect();
    delays.sort_unstable();
    let total: f64 = delays.iter().map(|d| d.as_nanos() as f64 / 1e6).sum();
    row.set("delay_mean_ms", total / delays.len().max(1) as f64);
    for (name, q) in [
        ("delay_p5_ms", 0.05),
        ("delay_p50_ms", 0.5),
        ("delay_p95_ms", 0.95),
    ] {
        row.set(name, quantile_ms(&delays, q));
    }
    row.set("first_queue_lost", outcome.first_lost as f64);
    row.set("second_queue_lost", outcome.second_lost as f64);
    if setup.ftp > 0 {
        row.set("ftp_goodput_kbps", kbps(outcome.ftp.bytes));
        let megabytes = outcome.ftp.bytes as f64 / 1e6;
        row.set(
            "ftp_cuts_per_mb",
            outcome.ftp.cuts as f64 / megabytes.max(1e-9),
        );
    }
    row
}
