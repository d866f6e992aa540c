//! Figures 12 and 13: the share of the packets that arrives within 100 ms between the two ends of the diameter, by
//! routing metric and by diameter. [Amir06 §IV-B]
//!
//! ```text
//!   side of the plane ─▶ Waxman topologies ─▶ losses on half of the links ─▶ ends of the diameter
//!                                                                                   │
//!        mean delivery by way of routing ◀─ distribution of delays along the path ◀─┘
//! ```
//!
//! A cell is a side of the plane; its position on the x axis is the mean diameter of its topologies.

mod verdict;

use crate::experiment::{Cell, CellError, Experiment, Findings, Plan, Row, Rows, Size, Verdict};
use crate::plot::{Axis, Chart, Mark, Series};
use base::Rng;
use graph::Parameters;
use graph::best::study::Routing;
use graph::best::{Question, ROUNDING};
use graph::delivery::Recovery;
use graph::generate::Network;
use graph::generate::waxman::Waxman;
use graph::metric::Metric;
use verdict::{
    best_on_top, best_proved, exhaustive_expensive, expected_above_latency, expected_below_loss,
    expected_robust, greedy_fails, latency_bound, latency_large, loss_small, partial_paths,
    small_drop,
};

/// Figure 12: 15 nodes and 30 links.
pub(super) const FIG12: Study = Study {
    id: "amir06/fig12",
    title: "Routing metrics on networks of 15 nodes and 30 links",
    nodes: 15,
};
/// Figure 13: 100 nodes and 200 links.
pub(super) const FIG13: Study = Study {
    id: "amir06/fig13",
    title: "Routing metrics on networks of 100 nodes and 200 links",
    nodes: 100,
};

/// The codec's threshold. [Amir06 §IV-B]
const THRESHOLD_US: u32 = 100_000;
/// Loss: uniform up to 5 % on half of the links. [Amir06 §IV-B]
const LOSSY_SHARE: f64 = 0.5;
const MOST_LOSS: f64 = 0.05;
/// Sides of the plane in kilometres, which determine the delays.
const SIDES_KM: [u32; 9] = [
    1_000, 2_500, 4_000, 5_500, 7_000, 8_500, 10_000, 12_000, 14_000,
];

/// One of the two figures.
pub(super) struct Study {
    id: &'static str,
    title: &'static str,
    nodes: usize,
}

impl Experiment for Study {
    fn id(&self) -> &'static str {
        self.id
    }

    fn title(&self) -> &'static str {
        self.title
    }

    fn method(&self, size: Size) -> String {
        format!(
            "For each of {} sizes of the plane, {} Waxman topologies as BRITE makes them (incremental \
             growth, 2 links per node), loss evenly between 0 and 5 % on half of the links. Between the \
             two nodes that are farthest from each other by latency, each way of routing chooses a \
             path; its delivery ratio within 100 ms follows exactly from the three-step delays of its \
             links (2p² − 3p³ lost). The best route is the proved optimum.",
            SIDES_KM.len(),
            topologies(size)
        )
    }

    fn cells(&self, _: Size) -> Vec<Cell> {
        let cell = |side: &u32| Cell::at(&[("side_km", f64::from(*side))]);
        SIDES_KM.iter().map(cell).collect()
    }

    fn measure(&self, plan: &Plan, cell: &Cell, seed: u64) -> Result<Row, CellError> {
        let mut row = Row::of(cell);
        let mut sums = Sums::default();
        let mut rng = Rng::new(seed);
        for _ in 0..topologies(plan.size) {
            let side_km = cell.parameter("side_km") as u32;
            self.one_topology(side_km, &mut rng, &mut sums)?;
        }
        sums.tell(&mut row);
        Ok(row)
    }

    fn conclude(&self, plan: &Plan, rows: &Rows) -> Findings {
        Findings {
            charts: vec![self.chart(rows)],
            verdicts: self.verdicts(plan, rows),
        }
    }
}

/// Returns the topologies per diameter; the paper has 1000.
fn topologies(size: Size) -> u32 {
    match size {
        Size::Quick => 150,
        Size::Full => 1_000,
    }
}

/// The sums over the topologies of a cell.
#[derive(Default)]
struct Sums {
    topologies: f64,
    diameter_ms: f64,
    delivered: [f64; Routing::COMPARED.len()],
    /// Expected latency minus latency, and expected latency minus loss: sums and sums of squares.
    above_latency: (f64, f64),
    above_loss: (f64, f64),
    /// Number of topologies in which something delivers more than the best route.
    beaten: f64,
    widest_gap: f64,
    /// Number of topologies in which the best route is not the best of all paths.
    differing: f64,
    exhaustive_work: f64,
    best_work: f64,
}

const fn place(metric: Metric) -> usize {
    // The numbers follow the order of Routing::COMPARED.
    match metric {
        Metric::Hops => 0,
        Metric::Latency => 1,
        Metric::Loss => 2,
        Metric::ExpectedLatency => 3,
    }
}
const BEST: usize = 5;

impl Study {
    fn one_topology(&self, side_km: u32, rng: &mut Rng, sums: &mut Sums) -> Result<(), CellError> {
        let failed = |error: &dyn std::fmt::Display| CellError(error.to_string());
        let shape = Waxman {
            nodes: self.nodes,
            side_km,
            ..Waxman::default()
        };
        let network = shape.generate(rng).map_err(|e| failed(&e))?;
        let losses = network.random_losses(LOSSY_SHARE, MOST_LOSS, rng);
        let topology = network.topology(Parameters::default(), &losses);
        let (a, b, far_us) = network.diameter().expect("more than one node");
        let question = Question {
            src: Network::addr(a),
            dst: Network::addr(b),
            deadline_us: THRESHOLD_US,
            recovery: Recovery::Paper,
        };
        let mut delivered = [0.0; Routing::COMPARED.len()];
        for (i, routing) in Routing::COMPARED.into_iter().enumerate() {
            let route = routing
                .route(&topology, &question)
                .map_err(|e| failed(&e))?;
            delivered[i] = route.delivery;
            if i == BEST {
                sums.widest_gap = sums.widest_gap.max(route.gap());
                sums.best_work += route.work as f64;
            }
        }
        if self.nodes <= 15 {
            let all = Routing::Exhaustive.route(&topology, &question);
            let all = all.map_err(|e| failed(&e))?;
            let differs = (all.delivery - delivered[BEST]).abs() > 2.0 * ROUNDING;
            sums.differing += f64::from(u8::from(differs));
            sums.exhaustive_work += all.work as f64;
        }
        let most = delivered[..BEST].iter().copied().fold(0.0, f64::max);
        sums.beaten += f64::from(u8::from(most > delivered[BEST] + 2.0 * ROUNDING));
        sums.add(&delivered, far_us as f64 / 1e3);
        Ok(())
    }

    fn chart(&self, rows: &Rows) -> Chart {
        let over_diameter = |name: &str| {
            let mut points: Vec<(f64, f64)> = rows
                .0
                .iter()
                .map(|row| (row.value("diameter_ms"), 100.0 * row.value(name)))
                .collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            points
        };
        let series = |(i, routing): (usize, &Routing)| Series {
            name: routing.as_str().into(),
            color: i as u8,
            mark: Mark::Line,
            points: over_diameter(routing.as_str()),
        };
        let far = rows.0.iter().map(|row| row.value("diameter_ms"));
        Chart {
            title: format!("Delivered, {} nodes", self.nodes).into(),
            x: Axis {
                label: "network diameter, ms".into(),
                min: 0.0,
                max: far.fold(0.0, f64::max),
            },
            y: Axis {
                label: "delivered within 100 ms, %".into(),
                min: 0.0,
                max: 100.0,
            },
            series: Routing::COMPARED.iter().enumerate().map(series).collect(),
        }
    }

    fn verdicts(&self, plan: &Plan, rows: &Rows) -> Vec<Verdict> {
        let mut by_diameter: Vec<&Row> = rows.0.iter().collect();
        by_diameter.sort_by(|a, b| a.value("diameter_ms").total_cmp(&b.value("diameter_ms")));
        let nothing = Row::default();
        let small = by_diameter.first().copied().unwrap_or(&nothing);
        let large = latency_bound(&by_diameter).unwrap_or(&nothing);
        let mut verdicts = vec![
            self.setup(plan),
            loss_small(small),
            latency_large(large),
            expected_below_loss(small),
            expected_above_latency(&by_diameter),
            greedy_fails(large),
        ];
        if self.nodes <= 15 {
            verdicts.extend([
                partial_paths(),
                exhaustive_expensive(plan),
                small_drop(small),
                expected_robust(small, large),
                best_on_top(rows),
            ]);
        } else {
            verdicts.push(best_proved(rows));
        }
        verdicts
    }

    fn setup(&self, plan: &Plan) -> Verdict {
        let nodes = match self.id {
            "amir06/fig12" => 15.0,
            _ => 100.0,
        };
        Verdict::setup(
            "setup",
            &[
                (
                    "topologies per diameter",
                    f64::from(topologies(plan.size)),
                    1_000.0,
                ),
                ("nodes", self.nodes as f64, nodes),
                ("links", 2.0 * self.nodes as f64, 2.0 * nodes),
            ],
        )
    }
}

impl Sums {
    fn add(&mut self, delivered: &[f64; Routing::COMPARED.len()], diameter_ms: f64) {
        self.topologies += 1.0;
        self.diameter_ms += diameter_ms;
        for (sum, one) in self.delivered.iter_mut().zip(delivered) {
            *sum += one;
        }
        let expected = delivered[place(Metric::ExpectedLatency)];
        for (sum, other) in [
            (&mut self.above_latency, Metric::Latency),
            (&mut self.above_loss, Metric::Loss),
        ] {
            let above = expected - delivered[place(other)];
            *sum = (sum.0 + above, sum.1 + above * above);
        }
    }

    fn tell(&self, row: &mut Row) {
        let n = self.topologies;
        row.set("topologies", n);
        row.set("diameter_ms", self.diameter_ms / n);
        for (routing, sum) in Routing::COMPARED.iter().zip(self.delivered) {
            row.set(routing.as_str(), sum / n);
        }
        for (name, (sum, squares)) in [
            ("expected_above_latency", self.above_latency),
            ("expected_above_loss", self.above_loss),
        ] {
            let mean = sum / n;
            row.set(name, mean);
            let variance = (squares / n - mean * mean).max(0.0);
            row.set(format!("{name}_error"), (variance / n).sqrt());
        }
        row.set("beaten", self.beaten);
        row.set("widest_gap", self.widest_gap);
        row.set("best_work", self.best_work / n);
        if self.exhaustive_work > 0.0 {
            row.set("differing", self.differing);
            row.set("exhaustive_work", self.exhaustive_work / n);
        }
    }
}
