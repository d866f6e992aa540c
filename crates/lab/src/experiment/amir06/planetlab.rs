//! Figures 16 and 17: calls between 32 nodes at 26 sites in North America, over the overlay and by direct UDP: the
//! shares of streams by their lost, or missed, packets. [Amir06 §V-B]
//!
//! ```text
//!   32 nodes, full mesh ─▶ 62 rounds of 16 disjoint pairs ─▶ 4 + 4 streams each ─▶ lost, missed
//! ```
//!
//! A cell is a round: every node sends to one other node or receives from one. In the paper one pair speaks at a time,
//! which takes eleven hours; here links have no limited capacity for which pairs would compete, so sixteen pairs speak
//! at once. Each round is measured with the paper's profile and with the defaults, with the same stalls at the same
//! moments. Both figures show one measurement, which is made once per process.

mod intercontinental;
mod mesh;
mod verdicts;

pub(super) use intercontinental::FIG18;

use crate::experiment::{Cell, CellError, Experiment, Findings, Plan, Row, Rows, Size};
use crate::plot::{Axis, Chart, Mark, Series};
use crate::scenario::{FlowReport, NODE_DATAGRAMS, Profile};
use base::{Duration, Rng};
use graph::generate::cities::{AMIR06_TABLE_I, great_circle_km};
use mesh::{CARRIERS, Mesh, Pair, STREAMS, Trial, loads};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Figure 16: lost packets.
pub(super) const FIG16: Continental = Continental {
    id: "amir06/fig16",
    title: "Planetlab, North America: lost packets per stream",
    figure: Figure::Lost,
};
/// Figure 17: missed packets, lost or late.
pub(super) const FIG17: Continental = Continental {
    id: "amir06/fig17",
    title: "Planetlab, North America: missed packets per stream",
    figure: Figure::Missed,
};

/// Nodes and sites. [Amir06 §V-B]
const NODES: usize = 32;
const SITES: usize = AMIR06_TABLE_I.len();
/// The largest delay, between MIT and Denver. [Amir06 §V-B]
const LONGEST_US: u32 = 47_000;
/// "In order to compensate for the 20 msec clock difference" [Amir06 §V-B].
const THRESHOLD: Duration = Duration::from_millis(120);
/// Additional loss on each overlay link and UDP stream. [Amir06 §V-B]
const INJECTED: f64 = 0.05;
/// Packets of each stream. [Amir06 §V-B]
const PACKETS: u64 = 2_000;
/// Rounds in which every ordered pair has its turn.
const ROUNDS: usize = 2 * (NODES - 1);
/// Nodes measure their links for a minute, a hello per second, before calls begin.
const SETTLE: Duration = Duration::from_secs(60);

/// The measure by which a stream is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    Lost,
    Missed,
}

impl Figure {
    const fn word(self) -> &'static str {
        match self {
            Figure::Lost => "lost",
            Figure::Missed => "missed",
        }
    }
}

/// One of the two figures.
pub(super) struct Continental {
    id: &'static str,
    title: &'static str,
    figure: Figure,
}

/// Rounds that have been measured in this process, by seed and round, so that the second figure can use them.
static MEASURED: Mutex<BTreeMap<(u64, String), Row>> = Mutex::new(BTreeMap::new());

impl Experiment for Continental {
    fn id(&self) -> &'static str {
        self.id
    }

    fn title(&self) -> &'static str {
        self.title
    }

    fn method(&self, size: Size) -> String {
        format!(
            "Production nodes in the simulator, once with the paper's profile and once with the defaults: {NODES} nodes at the {SITES} sites of \
             Table I, a full mesh, one-way delays by great-circle distance at the speed at which the \
             farthest two sites are 47 ms apart, MIT-Denver set to 47 ms. Every path loses 0.42 % with a \
             burstiness of 72 % [§II-C] and another 5 % at random. Nodes are not scheduled for 0.2 to \
             8 s at a time (tens to hundreds of packets [§V-B]), each for a share of its time that is drawn \
             evenly from 0 to {:.0} %: nodes, clients and UDP receivers there handle nothing meanwhile, 128 \
             datagrams wait for each UDP receiver and {NODE_DATAGRAMS} for the node, as Linux holds for them, later \
             ones are dropped. {} rounds of 16 disjoint ordered \
             pairs, {STREAMS} overlay and {STREAMS} UDP streams of {PACKETS} packets each; late is later \
             than 120 ms, which is also the deadline of the streams with the defaults.",
            100.0 * mesh::STALLED_SHARE_MAX,
            rounds(size),
        )
    }

    fn cells(&self, size: Size) -> Vec<Cell> {
        let cell = |profile: Profile| {
            let profile = coordinate(profile);
            move |round| Cell::at(&[("profile", profile), ("round", round as f64)])
        };
        let rounds = 0..rounds(size);
        let paper = rounds.clone().map(cell(Profile::Paper));
        paper.chain(rounds.map(cell(Profile::Modern))).collect()
    }

    fn measure(&self, plan: &Plan, cell: &Cell, _: u64) -> Result<Row, CellError> {
        let round = cell.parameter("round") as usize;
        let known = || MEASURED.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (plan.seed, cell.key.clone());
        if let Some(row) = known().get(&key) {
            return Ok(row.clone());
        }
        // Both figures and both profiles use one seed, and so have the same stalls.
        let seed = Cell::at(&[("round", round as f64)]).seed("amir06/planetlab", plan.seed);
        let profile = profile_at(cell.parameter("profile"));
        let mut row = measure(plan.seed, profile, round, seed)?;
        row.cell.clone_from(&cell.key);
        row.parameters = Row::of(cell).parameters;
        known().insert(key, row.clone());
        Ok(row)
    }

    fn conclude(&self, _: &Plan, rows: &Rows) -> Findings {
        let [paper, modern] = [Profile::Paper, Profile::Modern].map(|profile| of(rows, profile));
        let mut verdicts = match self.figure {
            Figure::Lost => verdicts::lost(&paper),
            Figure::Missed => verdicts::missed(&paper),
        };
        verdicts.extend(verdicts::never_worse(&paper, &modern, self.figure));
        Findings {
            charts: vec![self.chart(rows)],
            verdicts,
        }
    }
}

/// Returns the number of measured rounds; each has 16 pairs.
const fn rounds(size: Size) -> usize {
    match size {
        Size::Quick => 2,
        Size::Full => ROUNDS,
    }
}

/// Returns the sites of Table I; the first six have two nodes.
fn continent() -> Mesh {
    let km = |a, b| great_circle_km(a, b);
    let pairs = AMIR06_TABLE_I
        .iter()
        .flat_map(|a| AMIR06_TABLE_I.iter().map(move |b| km(a, b)));
    let farthest_km = pairs.fold(0.0, f64::max);
    let km_per_ms = farthest_km * 1e3 / f64::from(LONGEST_US);
    let mut mesh = Mesh::of(&AMIR06_TABLE_I, NODES - SITES, km_per_ms);
    let (a, b) = (mesh.place("mit"), mesh.place("internet2-denver"));
    mesh.set_delay_us(a, b, LONGEST_US);
    mesh
}

/// Returns the pairs of a round, as in a tournament in which everybody meets everybody: odd rounds are the preceding
/// even rounds with sender and receiver exchanged. The seed determines the numbers of the nodes.
fn pairs(seed: u64, round: usize) -> Vec<Pair> {
    let mut order: Vec<usize> = (0..NODES).collect();
    let mut rng = Rng::new(seed);
    for i in 0..NODES {
        let other = i + rng.below((NODES - i) as u64) as usize;
        order.swap(i, other);
    }
    let (others, turn) = (NODES - 1, round / 2);
    let meets = |i: usize| match i {
        0 => (others, turn % others),
        i => ((turn + i) % others, (turn + others - i) % others),
    };
    let pair = |(a, b): (usize, usize)| {
        let (a, b) = match round % 2 {
            0 => (a, b),
            _ => (b, a),
        };
        Pair {
            from: order[a],
            to: order[b],
            start: Duration::ZERO,
        }
    };
    (0..NODES / 2).map(meets).map(pair).collect()
}

/// Returns a profile as a coordinate of the grid.
fn coordinate(profile: Profile) -> f64 {
    match profile {
        Profile::Paper => 0.0,
        Profile::Modern => 1.0,
    }
}

fn profile_at(coordinate: f64) -> Profile {
    match coordinate {
        0.0 => Profile::Paper,
        _ => Profile::Modern,
    }
}

/// Returns the rows of a profile.
fn of(rows: &Rows, profile: Profile) -> Rows {
    let mine = rows.with(&[("profile", coordinate(profile))]);
    Rows(mine.cloned().collect())
}

fn measure(run_seed: u64, profile: Profile, round: usize, seed: u64) -> Result<Row, CellError> {
    let trial = Trial {
        profile,
        mesh: &continent(),
        pairs: &pairs(run_seed, round),
        packets: PACKETS,
        injected: INJECTED,
        loads: &loads(NODES, run_seed),
        threshold: Some(THRESHOLD),
        settle: SETTLE,
    };
    let measured = trial.run(seed)?;
    let mut row = Row::default();
    row.set("pairs", trial.pairs.len() as f64);
    row.set("stalls", measured.stalls.len() as f64);
    for (i, carrier) in CARRIERS.into_iter().enumerate() {
        let streams = measured.streams.iter().flat_map(|both| &both[i]);
        for figure in [Figure::Lost, Figure::Missed] {
            let shares = streams.clone().enumerate();
            let shares = shares.map(|(n, stream)| (n as f64, share_pct(stream, figure)));
            let name = format!("{carrier} {}", figure.word());
            row.draw(name, shares);
        }
    }
    let stalls = measured.stalls.iter().enumerate();
    let stalls = stalls.map(|(n, span)| (n as f64, span.as_secs_f64()));
    row.draw("stall seconds", stalls);
    Ok(row)
}

fn share_pct(stream: &FlowReport, figure: Figure) -> f64 {
    let packets = &stream.packets;
    let bad = match figure {
        Figure::Lost => packets.lost,
        Figure::Missed => packets.lost + packets.late,
    };
    100.0 * bad as f64 / packets.sent.max(1) as f64
}

/// Returns the shares that the streams of all rounds lost or missed, in percent, in the order of pairs and streams.
fn streams(rows: &Rows, carrier: &str, figure: Figure) -> Vec<f64> {
    let name = format!("{carrier} {}", figure.word());
    let points = rows.0.iter().flat_map(|row| row.points(&name));
    points.map(|(_, share)| *share).collect()
}

/// Returns the same shares in ascending order.
fn sorted(rows: &Rows, carrier: &str, figure: Figure) -> Vec<f64> {
    let mut shares = streams(rows, carrier, figure);
    shares.sort_by(f64::total_cmp);
    shares
}

impl Continental {
    /// Draws the share of streams that lost at least a given percentage.
    fn chart(&self, rows: &Rows) -> Chart {
        const MOST_PCT: f64 = 30.0;
        let word = self.figure.word();
        let lines = [
            ("overlay, paper profile", "overlay", Profile::Paper),
            ("overlay, defaults", "overlay", Profile::Modern),
            ("udp", "udp", Profile::Paper),
        ];
        let series = |(color, (name, carrier, profile)): (usize, (&'static str, &str, Profile))| {
            let shares = sorted(&of(rows, profile), carrier, self.figure);
            let at_least = |least: f64| {
                let below = shares.partition_point(|share| *share < least);
                100.0 * (shares.len() - below) as f64 / shares.len().max(1) as f64
            };
            let grid = (0..=300).map(|n| f64::from(n) * MOST_PCT / 300.0);
            Series {
                name: name.into(),
                color: color as u8,
                mark: Mark::Line,
                points: grid.map(|x| (x, at_least(x))).collect(),
            }
        };
        Chart {
            title: format!("Streams that {word} at least so many packets").into(),
            x: Axis {
                label: format!("{word} packets, %").into(),
                min: 0.0,
                max: MOST_PCT,
            },
            y: Axis {
                label: "streams, %".into(),
                min: 0.0,
                max: 100.0,
            },
            series: lines.into_iter().enumerate().map(series).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_ordered_pair_has_one_turn_and_rounds_are_disjoint() {
        let mut all = BTreeSet::new();
        for round in 0..ROUNDS {
            let pairs = pairs(5, round);
            let ends = pairs.iter().flat_map(|pair| [pair.from, pair.to]);
            assert_eq!(ends.collect::<BTreeSet<_>>().len(), NODES);
            all.extend(pairs.iter().map(|pair| (pair.from, pair.to)));
        }
        assert_eq!(all.len(), 992);
        assert_ne!(pairs(5, 0), pairs(6, 0));
    }

    #[test]
    fn the_largest_delay_is_the_papers() {
        let mesh = continent();
        assert_eq!((mesh.names.len(), mesh.longest_us()), (NODES, LONGEST_US));
        let (a, b) = (mesh.place("mit"), mesh.place("internet2-denver"));
        assert_eq!(mesh.delay_us[b][a], LONGEST_US);
    }
}
