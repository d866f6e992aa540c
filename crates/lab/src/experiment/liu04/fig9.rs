//! Figure 9: transfers through the widest relay path with a limited number of hops. [Liu04 §V-B]

use super::underlay::{LINK_BPS, LINKS, LOSS_MAX, NODES, OVERLAY_NODES, PAIRS, Underlay, number};
use crate::experiment::{Cell, CellError, Experiment, Findings, Plan, Row, Rows, Size, Verdict};
use crate::plot::{Axis, Chart, Mark, Series};
use crate::stats::{every, least, mean, most};
use base::Rng;
use graph::generate::Network;
use graph::width::model::Formula;
use graph::width::widest_within;
use graph::{Metric, Topology};

/// The figure.
pub(super) const FIG9: Figure = Figure;

/// Limits on hops. [Liu04 §V-B]
const HOPS_MAX: usize = 8;
/// "The widest paths … keep the same when the upper limit is larger than 7."
const SAME_FROM: usize = 7;
/// A trend is obvious if the gain from one hop to the most is at least this factor.
const OBVIOUS: f64 = 1.5;
/// Transfers over equal paths differ by at most this share by chance.
const CHANCE: f64 = 0.05;

/// The experiment.
pub(super) struct Figure;

impl Experiment for Figure {
    fn id(&self) -> &'static str {
        "liu04/fig9"
    }

    fn title(&self) -> &'static str {
        "Throughput by the widest relay path of at most so many hops"
    }

    fn method(&self, size: Size) -> String {
        format!(
            "{} transit-stub networks of {NODES} nodes and {LINKS} links of 10 Mbit/s, delays by distance with 10 ms in the mean, losses of 0 to \
             2 % in both directions, queues of 50 packets; packets are routed by the fewest links. {OVERLAY_NODES} random nodes are the \
             overlay, {PAIRS} random pairs of them send and receive. Logical links have half the round trip over the routes below there and back, their losses and the least \
             capacity of the routes below; the widest path of at most 1 to {HOPS_MAX} hops is chosen by graph::width and carries a \
             transfer of ns-2's Reno with segments of 1460 bytes for {} s after 10 s of warm-up, alone in the network. \
             The paper's formula chooses; beside it stands what the formula with timeouts says of the same path, and the path that it \
             would choose, with a transfer over that.",
            networks(size),
            seconds(size)
        )
    }

    fn cells(&self, size: Size) -> Vec<Cell> {
        let mut cells = Vec::new();
        for network in 0..networks(size) {
            for pair in 0..PAIRS {
                for hops in 1..=HOPS_MAX {
                    cells.push(Cell::at(&[
                        ("network", f64::from(network)),
                        ("pair", pair as f64),
                        ("hops", hops as f64),
                    ]));
                }
            }
        }
        cells
    }

    fn measure(&self, plan: &Plan, cell: &Cell, _: u64) -> Result<Row, CellError> {
        let seed = network_seed(plan.seed, cell.parameter("network") as u32);
        let underlay = Underlay::new(seed)?;
        let pair = underlay.pairs[cell.parameter("pair") as usize];
        measured(cell, &underlay, pair, seconds(plan.size), seed)
    }

    fn conclude(&self, plan: &Plan, rows: &Rows) -> Findings {
        let judge = Judge {
            rows,
            networks: networks(plan.size),
        };
        let line = |pair: usize, key: &'static str| -> Vec<(f64, f64)> {
            let place = [("network", 0.0), ("pair", pair as f64)];
            rows.line(&place, "hops", key)
        };
        let series = (0..PAIRS).flat_map(|pair| {
            let of = |what: &str, key, mark| Series {
                name: format!("pair {}, {what}", pair + 1).into(),
                color: pair as u8,
                mark,
                points: line(pair, key),
            };
            [
                of("measured", "kbps", Mark::Line),
                of("the paper's formula", "model_kbps", Mark::Dots),
                of("with timeouts, the same paths", "timeouts_kbps", Mark::Dots),
            ]
        });
        Findings {
            charts: vec![Chart {
                title: self.title().into(),
                x: Axis {
                    label: "hops at most".into(),
                    min: 1.0,
                    max: HOPS_MAX as f64,
                },
                y: Axis {
                    label: "throughput, kbit/s".into(),
                    min: 0.0,
                    max: LINK_BPS as f64 / 1e3,
                },
                series: series.collect(),
            }],
            verdicts: judge.all(),
        }
    }
}

/// Returns the number of networks of a run: "we performed these experiments several times".
pub(super) const fn networks(size: Size) -> u32 {
    match size {
        Size::Quick => 5,
        Size::Full => 10,
    }
}

/// Returns the seed of a network, the same in all figures.
pub(super) fn network_seed(seed: u64, network: u32) -> u64 {
    Rng::new(seed ^ (u64::from(network) << 32) ^ 0x6c69_7534).next_u64()
}

const fn seconds(size: Size) -> u64 {
    match size {
        Size::Quick => 60,
        Size::Full => 200,
    }
}

/// Runs a cell.
pub(super) fn measured(
    cell: &Cell,
    underlay: &Underlay,
    pair: (usize, usize),
    seconds: u64,
    seed: u64,
) -> Result<Row, CellError> {
    let hops = cell.parameter("hops") as usize;
    let missing = || CellError("an overlay without links".into());
    let [paper, timeouts] = [Formula::SquareRoot, Formula::Timeouts].map(|f| underlay.graph(f));
    let nodes = widest(&paper, pair, hops).ok_or_else(missing)?;
    let others = widest(&timeouts, pair, hops).ok_or_else(missing)?;
    let mut row = Row::of(cell);
    let (nodes_of, links_of) = underlay.size();
    row.set("underlay_nodes", nodes_of as f64);
    row.set("underlay_links", links_of as f64);
    let (least, most) = underlay.losses();
    row.set("loss_least", least);
    row.set("loss_most", most);
    row.set("taken_hops", (nodes.len() - 1) as f64);
    row.set("model_kbps", width_kbps(&paper, &nodes));
    row.set("timeouts_kbps", width_kbps(&timeouts, &nodes));
    row.set(
        "physical_links",
        (underlay.route(pair.0, pair.1).len() - 1) as f64,
    );
    let kbps = underlay.transfer_kbps(&nodes, seconds, seed);
    row.set("kbps", kbps);
    row.set("other_hops", (others.len() - 1) as f64);
    row.set("other_timeouts_kbps", width_kbps(&timeouts, &others));
    row.set(
        "other_kbps",
        match others == nodes {
            true => kbps,
            false => underlay.transfer_kbps(&others, seconds, seed),
        },
    );
    Ok(row)
}

/// Returns the nodes of the widest path with at most `hops` hops.
fn widest(graph: &Topology, (from, to): (usize, usize), hops: usize) -> Option<Vec<usize>> {
    let index = |node: usize| graph.index(Network::addr(node));
    let (from, to) = index(from).zip(index(to))?;
    let path = widest_within(graph, from, hops).path(graph, to, Metric::Hops)?;
    Some(path.nodes().map(number).collect())
}

/// Returns the width of a path by the graph's formula.
fn width_kbps(graph: &Topology, nodes: &[usize]) -> f64 {
    let width = |pair: &[usize]| {
        let [from, to] = [pair[0], pair[1]].map(|node| graph.index(Network::addr(node)));
        let link = from.zip(to).and_then(|(from, to)| graph.link(from, to));
        link.map_or(f64::NAN, |link| link.width().0 as f64 / 1e3)
    };
    nodes.windows(2).map(width).fold(f64::INFINITY, f64::min)
}

struct Judge<'a> {
    rows: &'a Rows,
    networks: u32,
}

impl Judge<'_> {
    fn all(&self) -> Vec<Verdict> {
        vec![
            self.setup(),
            self.losses(),
            self.unchanged(),
            self.same(),
            self.one_hop(),
            self.wider(),
            self.trend(),
            self.order(),
            self.similar(),
        ]
    }

    /// Returns a value by the limit on hops, for each pair of each network.
    fn lines(&self, key: &str) -> Vec<Vec<f64>> {
        let mut lines = Vec::new();
        for network in 0..self.networks {
            for pair in 0..PAIRS {
                let place = [("network", f64::from(network)), ("pair", pair as f64)];
                let line = self.rows.line(&place, "hops", key);
                lines.push(line.into_iter().map(|point| point.1).collect());
            }
        }
        lines
    }

    fn setup(&self) -> Verdict {
        // Returns the common value of all networks, if they are equal.
        let of_all = |key: &str| {
            let values = || self.rows.0.iter().map(|row| row.value(key));
            match most(values()) == least(values()) {
                true => most(values()),
                false => f64::NAN,
            }
        };
        let parameters = [
            ("nodes", of_all("underlay_nodes"), 50.0),
            ("links", of_all("underlay_links"), 217.0),
            ("Mbit/s", LINK_BPS as f64 / 1e6, 10.0),
            ("nodes of the overlay", OVERLAY_NODES as f64, 20.0),
        ];
        Verdict::setup("setup-network", &parameters).note(
            "a transit-stub network of this project's generator; GT-ITM's parameters are not told, and so few stubs as 50 nodes have \
             cannot hold 217 links, so 60 or so are between stubs",
        )
    }

    fn losses(&self) -> Verdict {
        let drawn = most(self.rows.0.iter().map(|row| row.value("loss_most")));
        // None of 434 evenly drawn losses needs to reach the limit.
        let is_within = drawn <= LOSS_MAX;
        let limit = if is_within { LOSS_MAX } else { f64::NAN };
        Verdict::setup("setup-losses", &[("% at most", 100.0 * limit, 2.0)]).note(format!(
            "evenly from 0, the largest drawn is {:.2} %",
            100.0 * drawn
        ))
    }

    fn unchanged(&self) -> Verdict {
        let lines = self.lines("taken_hops");
        let stays = |line: &&Vec<f64>| line.windows(2).any(|pair| pair[0] == pair[1]);
        let count = lines.iter().filter(stays).count();
        let said = format!(
            "{count} of {} pairs keep their path at some step",
            lines.len()
        );
        Verdict::of("unchanged", count == lines.len(), said)
    }

    fn same(&self) -> Verdict {
        let lines = self.lines("taken_hops");
        let last = |line: &Vec<f64>| line.last().copied().unwrap_or(f64::NAN);
        let longest = most(lines.iter().map(last));
        let said = format!(
            "the longest of {} widest paths has {longest} hops",
            lines.len()
        );
        Verdict::of("same-from-7", longest <= SAME_FROM as f64, said)
    }

    fn one_hop(&self) -> Verdict {
        let rows = self.rows.with(&[("hops", 1.0)]);
        let rows: Vec<&Row> = rows.collect();
        let holds = !rows.is_empty() && rows.iter().all(|row| row.value("taken_hops") == 1.0);
        let links = mean(rows.iter().map(|row| row.value("physical_links")));
        let said =
            format!("one connection along the route of the network, {links:.1} links in the mean");
        Verdict::of("one-hop", holds, said)
    }

    fn wider(&self) -> Verdict {
        let lines = self.lines("model_kbps");
        let rises = |line: &&Vec<f64>| line.windows(2).all(|pair| pair[1] >= pair[0]);
        let gains = |line: &&Vec<f64>| line.last() > line.first();
        let holds = lines.iter().filter(rises).count() == lines.len();
        let wider = lines.iter().filter(gains).count();
        let said = format!(
            "no path gets narrower, {wider} of {} get wider; from 1 to {HOPS_MAX} hops {:.1} times in the mean",
            lines.len(),
            mean(lines.iter().map(|line| ratio(line)))
        );
        Verdict::of("wider", holds && wider == lines.len(), said)
            .because("a pair whose route has one link or little loss has nothing to gain")
    }

    fn trend(&self) -> Verdict {
        let lines = self.lines("kbps");
        let gains: Vec<f64> = lines.iter().map(|line| ratio(line)).collect();
        let obvious = gains.iter().filter(|gain| **gain >= OBVIOUS).count();
        let said = format!(
            "{obvious} of {} pairs gain {OBVIOUS} times or more from 1 to {HOPS_MAX} hops; {}",
            gains.len(),
            gains
                .iter()
                .map(|gain| format!("{gain:.1}"))
                .collect::<Vec<_>>()
                .join(", ")
        );
        Verdict::of("trend", 2 * obvious > gains.len(), said)
    }

    /// Compares steps to a path that is wider by the model with the transfer's rate on it.
    fn steps(&self, model: &str, measured: &str) -> Steps {
        let lines = self.lines(model).into_iter().zip(self.lines(measured));
        let pairs = lines.flat_map(|(model, measured)| {
            let steps = model.windows(2).zip(measured.windows(2));
            let wider = steps.filter(|(model, _)| model[1] > model[0]);
            let worst = wider.map(|(_, kbps)| kbps[1] / kbps[0]);
            worst.collect::<Vec<f64>>()
        });
        let gains: Vec<f64> = pairs.collect();
        Steps {
            all: gains.len(),
            narrower: gains.iter().filter(|gain| **gain < 1.0 - CHANCE).count(),
            worst: gains.iter().copied().fold(1.0, f64::min),
        }
    }

    fn order(&self) -> Verdict {
        let steps = self.steps("other_timeouts_kbps", "other_kbps");
        let paper = self.steps("model_kbps", "kbps");
        let gain = |key: &str| mean(self.lines(key).iter().map(|line| ratio(line)));
        let off = |model: &str, measured: &str| {
            let rows = self.rows.0.iter();
            mean(rows.map(|row| row.value(model) / row.value(measured)))
        };
        let text = format!(
            "with timeouts {steps}, and {:.1} times from 1 to {HOPS_MAX} hops; by the paper's formula {paper}, and {:.1} times",
            gain("other_kbps"),
            gain("kbps")
        );
        Verdict::of("order", steps.all > 0 && steps.narrower == 0, text).note(format!(
            "on the paper's paths its formula predicts {:.1} times what is measured, that with timeouts {:.1} times, in the mean: \
             short links with much loss look wide without timeouts",
            off("model_kbps", "kbps"),
            off("timeouts_kbps", "kbps")
        ))
    }

    fn similar(&self) -> Verdict {
        let lines = self.lines("kbps");
        let gains: Vec<f64> = lines
            .chunks(PAIRS)
            .map(|network| mean(network.iter().map(|line| ratio(line))))
            .collect();
        let said: Vec<String> = gains.iter().map(|gain| format!("{gain:.1}")).collect();
        let holds = every(&gains, |gain| *gain > 1.0);
        let said = format!(
            "gain in the mean of {PAIRS} pairs, network by network: {}",
            said.join(", ")
        );
        Verdict::of("similar", holds, said)
    }
}

/// Steps to a path that is wider by a model.
struct Steps {
    all: usize,
    /// Number of steps after which the transfer has a lower rate, by more than chance.
    narrower: usize,
    /// The worst ratio of the rates after and before a step.
    worst: f64,
}

impl std::fmt::Display for Steps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Steps { all, narrower, .. } = self;
        let most = 100.0 * (1.0 - self.worst);
        write!(
            f,
            "{narrower} of {all} steps to a wider path have less (the worst {most:.0} % less)"
        )
    }
}

/// Returns the ratio of the last value to the first.
fn ratio(line: &[f64]) -> f64 {
    match (line.first(), line.last()) {
        (Some(first), Some(last)) => last / first.max(1e-9),
        _ => f64::NAN,
    }
}
