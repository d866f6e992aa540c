//! The cost of the overlay's structure: Pastry's routes and Scribe's trees compared with shortest paths and link-state
//! source trees. [Brogle09 §I]
//!
//! ```text
//!   routers (transit-stub, Waxman) ─▶ hosts on them ─▶ production nodes enter one by one
//!        │                                                   │
//!        │ shortest paths                                     ├─▶ routes: hops, stretch
//!        ▼                                                    ├─▶ trees: delay, depth, stress
//!   source trees of link state ◀── the same members ──────────┤
//!                                                             ├─▶ a tenth dies: who is served when
//!                                                             └─▶ one node in 100 000 groups
//! ```
//!
//! The nodes are production nodes; messages take the time of the shortest path.

mod claims;
mod measure;
mod underlay;
mod verdicts;
mod world;

use crate::experiment::{Cell, CellError, Experiment, Findings, Plan, Row, Rows, Size};
use crate::plot::{Axis, Chart, Mark, Series};
use base::Rng;
pub(in crate::experiment) use claims::CLAIMS;
use underlay::Underlay;
use world::World;

/// The experiment.
pub(super) const PASTRY: Pastry = Pastry;

/// Sizes of the rings: numbers of nodes.
const QUICK_NODES: [u32; 3] = [100, 500, 2_000];
const FULL_NODES: [u32; 4] = [100, 1_000, 4_000, 10_000];
/// Numbers of nodes in the cells in which a tenth fails.
const CHURN_NODES: (u32, u32) = (500, 2_000);
/// The number of groups of one node, and the number of nodes around it.
const MANY_GROUPS: u32 = 100_000;
const MANY_NODES: u32 = 64;

/// The measurements of a cell, as its coordinate `part`.
const SHAPE: f64 = 0.0;
const CHURN: f64 = 1.0;
const GROUPS: f64 = 2.0;

/// Rings and trees by simulation.
pub(super) struct Pastry;

impl Experiment for Pastry {
    fn id(&self) -> &'static str {
        "brogle09/pastry"
    }

    fn title(&self) -> &'static str {
        "Pastry's routes and Scribe's trees against link-state trees"
    }

    fn method(&self, size: Size) -> String {
        format!(
            "The engine alone, not the system: production nodes (crate scribe), without links that lose or processors \
             that are busy, on hosts that lie evenly on the routers of a transit-stub network of \
             555 routers and a Waxman network of 600 (4000 km wide); a message takes the shortest path, and 0.5 ms from \
             each host to its router. Rings of up to {} nodes: each enters by the nearest of 32 random ones. Then 2000 \
             routes from random nodes to random ids; 12 groups with 1, 10 and 50 % of all nodes as members, each \
             against the source tree of shortest paths from one of them. A tenth of all nodes dies at once, with \
             the overlay noticing within 360 ms, and without. One node of a ring of {MANY_NODES} is in {MANY_GROUPS} groups.",
            nodes(size).iter().max().expect("there are sizes")
        )
    }

    fn cells(&self, size: Size) -> Vec<Cell> {
        let mut cells = Vec::new();
        // The longest cells come first, so that all cores end at about the same time.
        for nodes in nodes(size).iter().rev() {
            for waxman in [0.0, 1.0] {
                cells.push(Cell::at(&[
                    ("part", SHAPE),
                    ("waxman", waxman),
                    ("nodes", f64::from(*nodes)),
                ]));
            }
        }
        let churn = match size {
            Size::Quick => CHURN_NODES.0,
            Size::Full => CHURN_NODES.1,
        };
        for told in [1.0, 0.0] {
            cells.push(Cell::at(&[
                ("part", CHURN),
                ("told", told),
                ("nodes", f64::from(churn)),
            ]));
        }
        cells.push(Cell::at(&[
            ("part", GROUPS),
            ("groups", f64::from(MANY_GROUPS)),
            ("nodes", f64::from(MANY_NODES)),
        ]));
        cells
    }

    fn measure(&self, _: &Plan, cell: &Cell, seed: u64) -> Result<Row, CellError> {
        let mut row = Row::of(cell);
        let mut rng = Rng::new(seed);
        let hosts = cell.parameter("nodes") as usize;
        let part = cell.parameter("part");
        let is_transit_stub = part != SHAPE || cell.parameter("waxman") == 0.0;
        let underlay = Underlay::new(is_transit_stub, hosts, &mut rng)?;
        let mut world = World::grown(underlay, hosts, &mut rng);
        if part == SHAPE {
            measure::ids(&world, &mut row);
            measure::knowledge(&world, &mut row);
            measure::routes(&mut world, &mut row);
            measure::trees(&mut world, &mut row);
        } else if part == CHURN {
            measure::churn(&mut world, cell.parameter("told") == 1.0, &mut row);
        } else {
            let groups = cell.parameter("groups") as usize;
            measure::groups(&mut world, groups, &mut row);
        }
        Ok(row)
    }

    fn conclude(&self, _: &Plan, rows: &Rows) -> Findings {
        Findings {
            charts: vec![hops(rows), costs(rows), served(rows)],
            verdicts: verdicts::all(rows),
        }
    }
}

fn nodes(size: Size) -> &'static [u32] {
    match size {
        Size::Quick => &QUICK_NODES,
        Size::Full => &FULL_NODES,
    }
}

/// Returns the rows of one network, by size of the ring.
fn line(rows: &Rows, waxman: f64, name: &str) -> Vec<(f64, f64)> {
    let at = [("part", SHAPE), ("waxman", waxman)];
    rows.line(&at, "nodes", name)
}

fn most(series: &[Series]) -> f64 {
    let points = series.iter().flat_map(|series| &series.points);
    points.map(|(_, y)| *y).fold(1.0, f64::max)
}

fn over_nodes(
    title: &'static str,
    label: &'static str,
    rows: &Rows,
    lines: &[(&'static str, f64, &str)],
) -> Chart {
    let series: Vec<Series> = lines
        .iter()
        .enumerate()
        .map(|(i, (name, waxman, value))| Series {
            name: (*name).into(),
            color: i as u8,
            mark: Mark::Line,
            // The sizes are far apart, so the axis has their logarithm.
            points: line(rows, *waxman, value)
                .into_iter()
                .map(|(nodes, y)| (nodes.log10(), y))
                .collect(),
        })
        .collect();
    Chart {
        title: title.into(),
        x: Axis {
            label: "nodes of the ring, log₁₀".into(),
            min: 2.0,
            max: 4.0,
        },
        y: Axis {
            label: label.into(),
            min: 0.0,
            max: most(&series),
        },
        series,
    }
}

fn hops(rows: &Rows) -> Chart {
    over_nodes(
        "Pastry: hops of a route",
        "hops",
        rows,
        &[
            ("⌈log₁₆ N⌉", 0.0, "bound_hops"),
            ("mean, transit-stub", 0.0, "hops_mean"),
            ("mean, Waxman", 1.0, "hops_mean"),
            ("most, transit-stub", 0.0, "hops_most"),
        ],
    )
}

fn costs(rows: &Rows) -> Chart {
    over_nodes(
        "Scribe against link-state source trees",
        "times as much",
        rows,
        &[
            ("route's delay, transit-stub", 0.0, "stretch_mean"),
            (
                "tree's delay by the root, transit-stub",
                0.0,
                "delay_mean_ratio",
            ),
            ("tree's delay by the root, Waxman", 1.0, "delay_mean_ratio"),
            ("link crossings, transit-stub", 0.0, "crossings_ratio"),
            ("mean link stress, transit-stub", 0.0, "stress_mean"),
        ],
    )
}

fn served(rows: &Rows) -> Chart {
    let series = |(color, told, name): (u8, f64, &'static str)| Series {
        name: name.into(),
        color,
        mark: Mark::Steps,
        points: rows
            .with(&[("part", CHURN), ("told", told)])
            .flat_map(|row| row.points("served").to_vec())
            .collect(),
    };
    Chart {
        title: "Members served after a tenth of all nodes died".into(),
        x: Axis {
            label: "ms".into(),
            min: 0.0,
            max: 8_000.0,
        },
        y: Axis {
            label: "served, %".into(),
            min: 0.0,
            max: 100.0,
        },
        series: [
            (0, 1.0, "the overlay notices within 360 ms"),
            (1, 0.0, "heart-beats alone"),
        ]
        .into_iter()
        .map(series)
        .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Measures a cell of a ring that is small enough for a test.
    fn measure(parameters: &[(&'static str, f64)], seed: u64) -> Row {
        let plan = Plan {
            size: Size::Quick,
            seed,
            program: "sinew".into(),
            speech: None,
            overrides: Vec::new(),
            stop: crate::experiment::Stop::default(),
        };
        let measured = PASTRY.measure(&plan, &Cell::at(parameters), seed);
        measured.expect("the networks are within their ranges")
    }

    #[test]
    fn routes_end_where_they_should_and_trees_reach_everybody_once() {
        for waxman in [0.0, 1.0] {
            let cell = [("part", SHAPE), ("waxman", waxman), ("nodes", 60.0)];
            let row = measure(&cell, 5);
            for name in [
                "astray",
                "wrong_roots",
                "not_once",
                "wrong_leaf_sets",
                "same_ids",
            ] {
                assert_eq!(row.value(name), 0.0, "{name}");
            }
            assert!(row.value("hops_mean") <= row.value("bound_hops"));
            // The detour by the root cannot be shorter than the shortest path.
            assert!(row.value("delay_mean_ratio") >= 1.0 && row.value("stretch_mean") >= 1.0);
            assert!(row.value("crossings_ratio") >= 1.0);
            assert_eq!(row, measure(&cell, 5));
        }
    }

    #[test]
    fn who_dies_is_missed_and_replaced() {
        let row = measure(&[("part", CHURN), ("told", 1.0), ("nodes", 120.0)], 3);
        assert_eq!(row.value("killed"), 12.0);
        assert!(row.value("served_least") < 100.0 && row.value("mended_ms") > 0.0);
        assert!(row.value("mended_ms") < row.value("notice_ms") + 1_000.0);
    }
}
