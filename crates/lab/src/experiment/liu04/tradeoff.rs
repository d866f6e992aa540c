//! Figures 10 and 11: how much shorter relay paths become if they may be narrower than the widest, by logical and by
//! physical hops. [Liu04 §IV-C, §V-B]

use super::fig9::{network_seed, networks};
use super::underlay::{LINKS, NODES, OVERLAY_NODES, PAIRS, Underlay};
use crate::experiment::{Cell, CellError, Experiment, Findings, Plan, Row, Rows, Size, Verdict};
use crate::plot::{Axis, Chart, Mark, Series};
use crate::stats::{every, mean};
use graph::generate::Network;
use graph::width::model::Formula;
use graph::width::{LOGICAL_HOPS, Length, Width, relaxed};

/// The figure by logical hops.
pub(super) const FIG10: Tradeoff = Tradeoff {
    id: "liu04/fig10",
    title: "Width and logical hops of the shortest path that is wide enough",
    length: LOGICAL_HOPS,
    hops: "logical hops",
    keys: [
        "width-logical",
        "hops-logical",
        "trade-logical",
        "similar-logical",
    ],
};

/// The figure by physical hops.
pub(super) const FIG11: Tradeoff = Tradeoff {
    id: "liu04/fig11",
    title: "Width and physical hops of the shortest path that is wide enough",
    length: Length::PhysicalHops,
    hops: "physical hops",
    keys: [
        "width-physical",
        "hops-physical",
        "trade-physical",
        "similar-physical",
    ],
};

/// Margins, in percent of the widest path's width.
const MARGINS: [u64; 11] = [0, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90];

/// One of the figures.
pub(super) struct Tradeoff {
    id: &'static str,
    title: &'static str,
    length: Length,
    hops: &'static str,
    /// The keys of the claims: width falls, hops fall, both together, in several networks.
    keys: [&'static str; 4],
}

impl Experiment for Tradeoff {
    fn id(&self) -> &'static str {
        self.id
    }

    fn title(&self) -> &'static str {
        self.title
    }

    fn method(&self, size: Size) -> String {
        format!(
            "The networks, overlays and pairs of Figure 9 ({} networks of {NODES} nodes and {LINKS} links, {OVERLAY_NODES} overlay nodes, \
             {PAIRS} pairs). For margins of 0 to 90 % of the widest path's width, the shortest path by {} that is at least as wide \
             as the widest less the margin (graph::width::relaxed). Widths are those of formula (1), at most the capacity.",
            networks(size),
            self.hops
        )
    }

    fn cells(&self, size: Size) -> Vec<Cell> {
        let mut cells = Vec::new();
        for network in 0..networks(size) {
            for pair in 0..PAIRS {
                cells.push(Cell::at(&[
                    ("network", f64::from(network)),
                    ("pair", pair as f64),
                ]));
            }
        }
        cells
    }

    fn measure(&self, plan: &Plan, cell: &Cell, _: u64) -> Result<Row, CellError> {
        let seed = network_seed(plan.seed, cell.parameter("network") as u32);
        let underlay = Underlay::new(seed)?;
        let (from, to) = underlay.pairs[cell.parameter("pair") as usize];
        let graph = underlay.graph(Formula::SquareRoot);
        let ends = (Network::addr(from), Network::addr(to));
        let mut row = Row::of(cell);
        let (mut widths, mut hops) = (Vec::new(), Vec::new());
        for margin in MARGINS {
            let widest = relaxed(&graph, ends.0, ends.1, self.length, Width::NONE);
            let found = widest.and_then(|widest| {
                let gap = Width(widest.widest.0 * margin / 100);
                relaxed(&graph, ends.0, ends.1, self.length, gap)
            });
            let found = found.map_err(|error| CellError(error.to_string()))?;
            widths.push((margin as f64, found.path.width().0 as f64 / 1e3));
            hops.push((margin as f64, found.path.total.0 as f64));
        }
        row.draw("width_kbps", widths);
        row.draw("hops", hops);
        Ok(row)
    }

    fn conclude(&self, _: &Plan, rows: &Rows) -> Findings {
        Findings {
            charts: vec![
                self.chart(rows, "width_kbps", "width, kbit/s"),
                self.chart(rows, "hops", self.hops),
            ],
            verdicts: self.judge(rows),
        }
    }
}

impl Tradeoff {
    fn chart(&self, rows: &Rows, key: &'static str, label: &'static str) -> Chart {
        let pairs = rows.with(&[("network", 0.0)]).enumerate();
        let series: Vec<Series> = pairs
            .map(|(pair, row)| Series {
                name: format!("pair {}", pair + 1).into(),
                color: pair as u8,
                mark: Mark::Steps,
                points: row.points(key).to_vec(),
            })
            .collect();
        let points = series.iter().flat_map(|series| &series.points);
        let most = points.map(|point| point.1).fold(1.0, f64::max);
        Chart {
            title: format!("{}: {label}", self.title).into(),
            x: Axis {
                label: "relaxation margin, % of the widest".into(),
                min: 0.0,
                max: 90.0,
            },
            y: Axis {
                label: label.into(),
                min: 0.0,
                max: most * 1.1,
            },
            series,
        }
    }

    fn judge(&self, rows: &Rows) -> Vec<Verdict> {
        let [width, hops, trade, similar] = self.keys;
        let all: Vec<&Row> = rows.0.iter().collect();
        let ends = |key: &str| {
            let of = |row: &&Row| ends(row.points(key));
            let ends: Vec<(f64, f64)> = all.iter().map(of).collect();
            (
                mean(ends.iter().map(|e| e.0)),
                mean(ends.iter().map(|e| e.1)),
            )
        };
        let falls = |row: &&&Row, key: &str| {
            let points = row.points(key);
            every(points.windows(2), |pair| pair[1].1 <= pair[0].1)
        };
        let count = |key: &str| all.iter().filter(|row| falls(row, key)).count();
        let (widths, lengths) = (ends("width_kbps"), ends("hops"));
        let (narrower, shorter) = (count("width_kbps"), count("hops"));
        let gains = |row: &&&Row| {
            let (hops, width) = (ends_of(row, "hops"), ends_of(row, "width_kbps"));
            hops.1 < hops.0 && width.1 < width.0
        };
        let both = all.iter().filter(gains).count();
        vec![
            Verdict::of(
                width,
                !all.is_empty() && narrower == all.len(),
                format!(
                    "from {:.0} to {:.0} kbit/s in the mean; with {narrower} of {} pairs it never rises",
                    widths.0,
                    widths.1,
                    all.len()
                ),
            )
            .because(
                "of equally short paths the first is taken, whatever its width: among them a lower requirement can let a wider one \
                 come first",
            ),
            Verdict::of(
                hops,
                shorter == all.len() && lengths.1 < lengths.0,
                format!(
                    "from {:.1} to {:.1} {} in the mean; with {shorter} of {} pairs they never rise",
                    lengths.0,
                    lengths.1,
                    self.hops,
                    all.len()
                ),
            ),
            Verdict::of(
                trade,
                2 * both > all.len(),
                format!(
                    "{both} of {} pairs have a shorter and narrower path at a margin of 90 %",
                    all.len()
                ),
            )
            .note("a pair whose widest path is the direct one has nothing to trade"),
            self.similar(rows, similar),
        ]
    }

    fn similar(&self, rows: &Rows, key: &'static str) -> Verdict {
        let mut said = Vec::new();
        let mut holds = true;
        for network in 0.. {
            let of: Vec<&Row> = rows.with(&[("network", f64::from(network))]).collect();
            if of.is_empty() {
                break;
            }
            let hops =
                |at: fn(&(f64, f64)) -> f64| mean(of.iter().map(|row| at(&ends_of(row, "hops"))));
            let (first, last) = (hops(|ends| ends.0), hops(|ends| ends.1));
            holds &= last <= first;
            said.push(format!("{first:.1} to {last:.1}"));
        }
        Verdict::of(
            key,
            holds && !said.is_empty(),
            format!("{}, network by network: {}", self.hops, said.join(", ")),
        )
    }
}

fn ends_of(row: &Row, key: &str) -> (f64, f64) {
    ends(row.points(key))
}

/// Returns the first and the last value.
fn ends(points: &[(f64, f64)]) -> (f64, f64) {
    let value = |point: Option<&(f64, f64)>| point.map_or(f64::NAN, |point| point.1);
    (value(points.first()), value(points.last()))
}
