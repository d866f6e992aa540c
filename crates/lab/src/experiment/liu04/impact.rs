//! The effect of relays on the underlay and on ordinary flows. [Liu04 §VI]
//!
//! | part | network | compares |
//! |---|---|---|
//! | share | chain of four links, 20 ordinary flows on each | no transfers, few, many; end to end and relayed |
//! | local | chain of six links, errors on the last | packets on all links for a delivered segment |
//! | react | chain of four links, a stream that takes 15 of 20 Mbit/s and ends | how fast the rest is taken |
//! | detour | a congested link, and a way around it of two free links | users on the link, and around it |
//! | stripes | one link, 20 ordinary flows | a user with 1, 4, 16 connections |

mod verdicts;

use super::chain::{Chain, LINK_BPS, LINK_MS, link, relayed, settings};
use crate::experiment::{Cell, CellError, Experiment, Findings, Plan, Row, Rows, Size};
use crate::plot::{Axis, Chart, Mark, Series};
use crate::stats::mean;
use base::{Duration, Rng, Time};
use sim::HostId;
use sim::World;
use sim::tcp::{Flow, Network, TcpHost, Traffic};

/// The experiment.
pub(super) const IMPACT: Impact = Impact;

const SHARE: f64 = 0.0;
const LOCAL: f64 = 1.0;
const REACT: f64 = 2.0;
const DETOUR: f64 = 3.0;
const STRIPES: f64 = 4.0;

/// Number of ordinary flows on a link.
const ORDINARY: u32 = 20;
/// Number of links of the chain of `share` and `react`.
const LINKS: usize = 4;
/// Numbers of transfers in addition to them.
const TRANSFERS: [u32; 3] = [1, 4, 20];
/// Error rates of the last link of `local`.
const ERRORS: [f64; 3] = [0.001, 0.01, 0.1];
/// Its number of links.
const LOCAL_LINKS: usize = 6;
/// Number of users of `detour`, and of ordinary flows there.
const USERS: u32 = 10;
const CONGESTED: u32 = 40;
/// Numbers of connections of the user of `stripes`.
const CONNECTIONS: [u32; 3] = [1, 4, 16];
/// The rate of the stream of `react`, and when it is present.
const STREAM_BPS: u64 = 15_000_000;
const STREAM_S: (u64, u64) = (20, 40);
/// How long the cell is observed after the stream has ended.
const AFTER_S: u64 = 20;
/// The share of the capacity, without headers, from which on the rest counts as taken.
const TAKEN: f64 = 0.9;

/// The largest share of their goodput that ordinary flows may lose to a small portion of relayed traffic: a fair share
/// of one more flow in addition to twenty is 4.8 %.
const SMALL: f64 = 0.06;
/// The least share of saved packets that is "significant".
const SAVED: f64 = 0.05;

/// The experiment.
pub(super) struct Impact;

impl Experiment for Impact {
    fn id(&self) -> &'static str {
        "liu04/impact"
    }

    fn title(&self) -> &'static str {
        "What relays do to ordinary flows: goodput, fairness, load"
    }

    fn method(&self, size: Size) -> String {
        format!(
            "Links, TCP and relays of Figure 8, {} runs of {} s. Share: {LINKS} links with {ORDINARY} ordinary flows on each, and 1, 4 or 20 \
             transfers over all of them, end to end or with a relay at every node; Jain's index over the goodput of all flows. Local: \
             {LOCAL_LINKS} links without other traffic, errors of 0.1, 1 and 10 % on the last. React: a stream takes 15 of 20 Mbit/s on the \
             second of {LINKS} links from 20 to 40 s; how long until the transfer delivers {:.0} % of the capacity. Detour: {CONGESTED} ordinary \
             flows on a link, {USERS} users over the same link or by a relay around it. Stripes: a user with 1, 4 or 16 connections beside \
             {ORDINARY} flows.",
            runs(size),
            seconds(size),
            100.0 * TAKEN
        )
    }

    fn cells(&self, size: Size) -> Vec<Cell> {
        let mut cells = Vec::new();
        let mut add = |part: f64, size_of: f64, relayed: f64| {
            for run in 0..runs(size) {
                cells.push(Cell::at(&[
                    ("part", part),
                    ("size", size_of),
                    ("relayed", relayed),
                    ("run", f64::from(run)),
                ]));
            }
        };
        add(SHARE, 0.0, 0.0);
        for relayed in [0.0, 1.0] {
            for count in TRANSFERS {
                add(SHARE, f64::from(count), relayed);
            }
            for errors in ERRORS {
                add(LOCAL, errors, relayed);
            }
            add(REACT, 1.0, relayed);
            add(DETOUR, f64::from(USERS), relayed);
        }
        for count in CONNECTIONS {
            add(STRIPES, f64::from(count), 0.0);
        }
        cells
    }

    fn measure(&self, plan: &Plan, cell: &Cell, _: u64) -> Result<Row, CellError> {
        let run = cell.parameter("run") as u64;
        // The compared variants have the same ordinary flows.
        let seed = Rng::new(plan.seed ^ (run << 32) ^ 0x0069_6d70).next_u64();
        Ok(measured(cell, seconds(plan.size), seed))
    }

    fn conclude(&self, _: &Plan, rows: &Rows) -> Findings {
        let line = |relayed: f64, key: &'static str| -> Vec<(f64, f64)> {
            let at = |count: u32| {
                (
                    f64::from(count),
                    value(rows, SHARE, f64::from(count), relayed, key),
                )
            };
            let first = (0.0, value(rows, SHARE, 0.0, 0.0, key));
            [first].into_iter().chain(TRANSFERS.map(at)).collect()
        };
        let series = |key: &'static str| -> Vec<Series> {
            [("end to end", 0.0), ("relayed", 1.0)]
                .into_iter()
                .enumerate()
                .map(|(n, (name, relayed))| Series {
                    name: name.into(),
                    color: n as u8,
                    mark: Mark::Line,
                    points: line(relayed, key),
                })
                .collect()
        };
        let chart = |title: &'static str, key: &'static str, label: &'static str, max: f64| Chart {
            title: title.into(),
            x: Axis {
                label: "transfers over the chain".into(),
                min: 0.0,
                max: f64::from(TRANSFERS[TRANSFERS.len() - 1]),
            },
            y: Axis {
                label: label.into(),
                min: 0.0,
                max,
            },
            series: series(key),
        };
        let fair = LINK_BPS as f64 / 1e3 / f64::from(ORDINARY);
        Findings {
            charts: vec![
                chart(
                    "Goodput of an ordinary flow",
                    "ordinary_kbps",
                    "kbit/s",
                    fair * 1.1,
                ),
                chart("Fairness among all flows", "jain", "Jain's index", 1.0),
            ],
            verdicts: verdicts::judge(rows),
        }
    }
}

const fn seconds(size: Size) -> u64 {
    match size {
        Size::Quick => 40,
        Size::Full => 300,
    }
}

const fn runs(size: Size) -> u32 {
    match size {
        Size::Quick => 1,
        Size::Full => 5,
    }
}

/// Runs a cell.
pub(super) fn measured(cell: &Cell, seconds: u64, seed: u64) -> Row {
    let (part, size) = (cell.parameter("part"), cell.parameter("size"));
    let is_relayed = cell.parameter("relayed") == 1.0;
    let mut row = Row::of(cell);
    if part == SHARE {
        share(&mut row, size as u32, is_relayed, seconds, seed);
    } else if part == LOCAL {
        local(&mut row, size, is_relayed, seconds, seed);
    } else if part == REACT {
        react(&mut row, is_relayed, seed);
    } else if part == DETOUR {
        detour(&mut row, is_relayed, seconds, seed);
    } else {
        stripes(&mut row, size as u32, seconds, seed);
    }
    row
}

fn cuts(links: usize, is_relayed: bool) -> Vec<usize> {
    match is_relayed {
        true => (0..=links).collect(),
        false => vec![0, links],
    }
}

fn share(row: &mut Row, transfers: u32, is_relayed: bool, seconds: u64, seed: u64) {
    let mut chain = Chain::new(&[ORDINARY; LINKS]);
    (chain.transfers, chain.seconds) = (transfers, seconds);
    chain.cuts = cuts(LINKS, is_relayed);
    let outcome = chain.run(seed);
    let ordinary = outcome.ordinary_kbps.concat();
    row.set("ordinary_kbps", mean(ordinary.iter().copied()));
    row.set(
        "transfer_kbps",
        mean(outcome.transfers_kbps.iter().copied()),
    );
    let all = [ordinary, outcome.transfers_kbps].concat();
    row.set("jain", jain(&all));
    row.set("loss", mean(outcome.losses));
}

fn local(row: &mut Row, errors: f64, is_relayed: bool, seconds: u64, seed: u64) {
    let mut chain = Chain::new(&[0; LOCAL_LINKS]);
    chain.errors[LOCAL_LINKS - 1] = errors;
    (chain.seconds, chain.cuts) = (seconds, cuts(LOCAL_LINKS, is_relayed));
    let outcome = chain.run(seed);
    // Each link also carries probes: 20 per second.
    let probes = (20 * seconds * LOCAL_LINKS as u64) as f64;
    let packets = outcome.entered - probes;
    row.set("packets_per_segment", packets / outcome.needed.max(1.0));
    row.set("transfer_kbps", mean(outcome.transfers_kbps));
}

/// Returns Jain's index: 1 if all rates are equal.
fn jain(rates: &[f64]) -> f64 {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    sum * sum / (rates.len() as f64 * squares).max(1e-9)
}

fn react(row: &mut Row, is_relayed: bool, seed: u64) {
    let mut network = Network::default();
    let hosts: Vec<HostId> = (0..=LINKS).map(|_| network.host()).collect();
    for pair in hosts.windows(2) {
        network.link(pair[0], pair[1], &link(0.0));
    }
    let cuts = cuts(LINKS, is_relayed);
    let (first, second) = (hosts[cuts[0]], hosts[cuts[1]]);
    let mut flow = network.connect(first, second, settings(), Traffic::unlimited());
    network.count_only(flow);
    let round_trip_ms = 2 * LINK_MS * (cuts[1] - cuts[0]) as u64;
    for at in &cuts[2..] {
        flow = relayed(&mut network, flow, hosts[*at], settings());
    }
    let (from, until) = STREAM_S;
    let stream = Traffic::cbr(STREAM_BPS, 1_000);
    let stream = stream.between(Duration::from_secs(from), Duration::from_secs(until));
    let stream = network.datagrams(hosts[1], hosts[2], stream);
    network.count_only(stream);
    let mut world = network.build(seed);
    let full = LINK_BPS as f64 * payload() / (payload() + 40.0);
    let mut delivered = step(&mut world, flow, until * 10);
    let (mut taken_s, mut total) = (AFTER_S as f64, 0.0);
    for tenth in 1..=AFTER_S * 10 {
        let now = step(&mut world, flow, until * 10 + tenth);
        let rate = (now - delivered) * 10.0;
        total += now - delivered;
        delivered = now;
        if rate >= TAKEN * full {
            taken_s = taken_s.min(tenth as f64 / 10.0);
        }
    }
    row.set("round_trip_ms", round_trip_ms as f64);
    row.set("taken_s", taken_s);
    row.set("used", total / AFTER_S as f64 / full);
}

fn payload() -> f64 {
    settings().payload_bytes() as f64
}

/// Returns the bits that a flow has delivered after this many tenths of a second.
fn step(world: &mut World<TcpHost>, flow: Flow, tenths: u64) -> f64 {
    world.run_until(Time::ZERO + Duration::from_millis(100 * tenths));
    flow.received(world).delivered as f64 * payload() * 8.0
}

fn detour(row: &mut Row, is_relayed: bool, seconds: u64, seed: u64) {
    let mut network = Network::default();
    let [a, b, c] = [(); 3].map(|()| network.host());
    // The way around has twice the delay, and no other traffic.
    for (from, to) in [(a, b), (a, c), (c, b)] {
        network.link(from, to, &link(0.0));
    }
    let mut rng = Rng::new(seed);
    let mut open = |network: &mut Network, to: HostId| {
        let start = Duration::from_micros(rng.below(2_000_000));
        let traffic = Traffic::unlimited().between(start, Duration::MAX);
        let flow = network.connect(a, to, settings(), traffic);
        network.count_only(flow);
        flow
    };
    let ordinary: Vec<Flow> = (0..CONGESTED).map(|_| open(&mut network, b)).collect();
    let users: Vec<Flow> = (0..USERS)
        .map(|_| match is_relayed {
            false => open(&mut network, b),
            true => {
                let first = open(&mut network, c);
                relayed(&mut network, first, b, settings())
            }
        })
        .collect();
    let mut world = network.build(seed);
    let rates = goodput(&mut world, &[&ordinary[..], &users[..]], seconds);
    row.set("ordinary_kbps", mean(rates[0].iter().copied()));
    row.set("transfer_kbps", mean(rates[1].iter().copied()));
    let bytes = [(a, b), (a, c), (c, b)].map(|(from, to)| world.bytes(from, to) as f64);
    let most = bytes.iter().copied().fold(0.0, f64::max);
    row.set("balance", mean(bytes) / most.max(1.0));
    let counts = world.counts(a, b);
    let entered = (counts.delivered + counts.queue) as f64;
    row.set("loss", counts.queue as f64 / entered.max(1.0));
}

fn stripes(row: &mut Row, connections: u32, seconds: u64, seed: u64) {
    let mut network = Network::default();
    let (a, b) = (network.host(), network.host());
    network.link(a, b, &link(0.0));
    let mut rng = Rng::new(seed);
    let mut open = || {
        let start = Duration::from_micros(rng.below(2_000_000));
        let traffic = Traffic::unlimited().between(start, Duration::MAX);
        let flow = network.connect(a, b, settings(), traffic);
        network.count_only(flow);
        flow
    };
    let ordinary: Vec<Flow> = (0..ORDINARY).map(|_| open()).collect();
    let user: Vec<Flow> = (0..connections).map(|_| open()).collect();
    let mut world = network.build(seed);
    let rates = goodput(&mut world, &[&ordinary[..], &user[..]], seconds);
    row.set("ordinary_kbps", mean(rates[0].iter().copied()));
    row.set("transfer_kbps", rates[1].iter().sum());
}

/// Returns the goodput in kbit/s of groups of flows, after 10 s.
fn goodput(world: &mut World<TcpHost>, groups: &[&[Flow]], seconds: u64) -> Vec<Vec<f64>> {
    const WARM_UP_S: u64 = 10;
    let count = |world: &World<TcpHost>| -> Vec<Vec<u64>> {
        let of = |flows: &&[Flow]| {
            let each = flows.iter().map(|flow| flow.received(world).delivered);
            each.collect()
        };
        groups.iter().map(of).collect()
    };
    let at = |s: u64| Time::ZERO + Duration::from_secs(s);
    world.run_until(at(WARM_UP_S));
    let before = count(world);
    world.run_until(at(WARM_UP_S + seconds));
    let after = count(world);
    let kbps = |(b, a): (&u64, &u64)| (a - b) as f64 * payload() * 8.0 / 1e3 / seconds as f64;
    let groups = before.iter().zip(&after);
    groups
        .map(|(b, a)| b.iter().zip(a).map(kbps).collect())
        .collect()
}

fn value(rows: &Rows, part: f64, size: f64, relayed: f64, key: &str) -> f64 {
    let place = [("part", part), ("size", size), ("relayed", relayed)];
    mean(rows.with(&place).map(|row| row.value(key)))
}
