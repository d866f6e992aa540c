//! The network of a scenario file as its nodes would learn it: one-way latency is half the round trip, jitter counts by
//! its mean, loss by its share in the long run.

use crate::scenario::{BothWays, FaultKind, Place, Scenario};
use base::impair::{LossModel, Model};
use base::{Duration, NodeAddr, Time};
use graph::LinkCost;
use graph::protection::{Lane, RUN_USUAL_256THS};
use overlay::realtime::Protect;
use overlay::settings::{MetricOf, Settings};
use overlay::snapshot::{DampingRule, KnownAims, KnownLane, KnownLink, NamedNode, NetworkSnapshot};

/// Returns the network at a moment of the scenario's time, after the faults up to then.
#[must_use]
pub fn snapshot_of(scenario: &Scenario, at: Duration) -> NetworkSnapshot {
    let settings = scenario.node_settings();
    let aims = &settings.realtime.aims;
    let state = State::at(scenario, at);
    let mut nodes: Vec<_> = scenario.nodes.iter().collect();
    nodes.sort_by_key(|node| node.address);
    let mut lanes = Vec::new();
    let mut links: Vec<_> = (0..scenario.links.len())
        .filter(|link| state.is_up(scenario, *link, at))
        .flat_map(|link| {
            let ends = &scenario.links[link];
            let path = &state.paths[link];
            let address = |node: usize| scenario.nodes[node].address;
            let latency_us = latency_us(path).min(u32::MAX / 2);
            [(ends.a, ends.b, &path.there), (ends.b, ends.a, &path.back)].map(
                |(from, to, model)| {
                    let loss = LinkCost::new(latency_us, model.loss().marginal()).loss;
                    let lane = told_lane(&settings, model.loss());
                    let rate = model.rate().map(|(rate_bps, _)| rate_bps / 1_000);
                    let kbps = rate.map(|kbps| u32::try_from(kbps).unwrap_or(u32::MAX));
                    let ends = (address(from), address(to));
                    lanes.extend(known_lane(ends, latency_us, model.loss(), &settings));
                    (ends, latency_us, loss, lane, kbps)
                },
            )
        })
        .collect();
    links.sort_unstable_by_key(|link| link.0);
    NetworkSnapshot {
        teller: None,
        profile: settings.name.to_owned(),
        detect_us: settings.detection.as_micros() as u32,
        late_us: settings.codec_threshold.as_micros() as u32,
        loss_us: settings.loss_burden.as_micros() as u32,
        protect: Some(aims.protect.label().to_owned()),
        aims: Some(KnownAims {
            target: aims.target,
            most: aims.most,
            most_single: aims.most_single,
        }),
        lanes,
        diverted: Vec::new(),
        nodes: nodes
            .into_iter()
            .map(|node| NamedNode {
                address: node.address.to_string(),
                name: Some(node.name.clone()),
                bulk: None,
                refused: None,
            })
            .collect(),
        links: links
            .into_iter()
            .map(
                |((from, to), latency_us, loss, lane, capacity_kbps)| KnownLink {
                    from: from.to_string(),
                    to: to.to_string(),
                    latency_us,
                    loss,
                    price_us: 0,
                    strikes: match settings.metric {
                        MetricOf::Paper => 0,
                        MetricOf::Measured if aims.protect == Protect::Off => 0,
                        MetricOf::Measured => settings.realtime.strikes,
                    },
                    run_256ths: lane.map(|lane| lane.run_256ths),
                    repair_16ths: lane.map_or(0, |lane| lane.repair_16ths),
                    capacity_kbps,
                    measured_kbps: None,
                    together_kbps: None,
                    together_is_all: false,
                    spread_pct: 0,
                    hops: None,
                    over_tcp: false,
                },
            )
            .collect(),
        rule: DampingRule::of(&settings.announce),
        holds: Vec::new(),
    }
}

/// Returns what a node reports of a lane with this loss and without queues.
fn told_lane(settings: &Settings, loss: &LossModel) -> Option<Lane> {
    let aims = &settings.realtime.aims;
    // A lane without losses has no known runs.
    let run = run_of(loss).filter(|_| *loss != LossModel::None);
    (settings.metric == MetricOf::Measured).then(|| Lane {
        // The cast saturates.
        run_256ths: run.map_or(RUN_USUAL_256THS, |run| (run * 256.0) as u16),
        repair_16ths: aims.announced_16ths(),
    })
}

/// Returns the mean length of a run of losses, if the file determines it.
fn run_of(losses: &LossModel) -> Option<f64> {
    let behind_a_loss = match *losses {
        LossModel::None => 0.0,
        // Without burstiness these losses are also independent.
        LossModel::Bernoulli { p } | LossModel::Conditional { p, burstiness: 0.0 } => p,
        LossModel::Conditional { burstiness, .. } => burstiness,
        LossModel::GilbertElliott { .. } | LossModel::Trace(_) => return None,
    };
    Some(1.0 / (1.0 - behind_a_loss.min(MOST)))
}

/// Returns the lane of a direction whose runs of losses the file determines.
fn known_lane(
    (from, to): (NodeAddr, NodeAddr),
    latency_us: u32,
    losses: &LossModel,
    settings: &Settings,
) -> Option<KnownLane> {
    Some(KnownLane {
        from: from.to_string(),
        to: to.to_string(),
        loss: losses.marginal(),
        run: run_of(losses)?,
        rtt_us: latency_us * 2,
        rtt_least_us: latency_us * 2,
        is_random: true,
        takes_repair: settings.realtime.aims.protect.repairs(),
        in_force: None,
    })
}

/// If a larger share is lost after a loss, hardly anything ever arrives again.
const MOST: f64 = 0.99;

fn latency_us(path: &BothWays) -> u32 {
    let mean = |model: &Model| model.delay() + model.jitter().div(2);
    let one_way = (mean(&path.there) + mean(&path.back)).div(2);
    u32::try_from(one_way.as_micros()).unwrap_or(u32::MAX)
}

/// The state of the links after faults.
struct State {
    paths: Vec<BothWays>,
    crashed: Vec<bool>,
    islands: Vec<Vec<usize>>,
}

impl State {
    fn at(scenario: &Scenario, at: Duration) -> State {
        let mut state = State {
            paths: scenario
                .links
                .iter()
                .map(|link| link.path.clone())
                .collect(),
            crashed: vec![false; scenario.nodes.len()],
            islands: Vec::new(),
        };
        for fault in scenario.faults.iter().take_while(|fault| fault.at <= at) {
            match &fault.kind {
                FaultKind::Down(Place::Link(link)) => state.set_outage(*link, true),
                FaultKind::Up(Place::Link(link)) => state.set_outage(*link, false),
                FaultKind::Set(Place::Link(link), path) => state.paths[*link] = (**path).clone(),
                FaultKind::Follow(link, path) => {
                    let is_down = state.paths[*link].there.outage();
                    state.paths[*link] = (**path).clone();
                    state.set_outage(*link, is_down);
                }
                FaultKind::Crash(node) => state.crashed[*node] = true,
                FaultKind::Restart(node) => state.crashed[*node] = false,
                FaultKind::Partition(groups) => state.islands.extend(groups.iter().cloned()),
                FaultKind::Heal => state.islands.clear(),
                // A stalled node sends nothing in the meantime; most stalls end before its links count as down.
                FaultKind::Stall(..) => {}
                // A direct flow has a separate path outside the overlay; of a link, only the first path is known.
                FaultKind::Down(Place::Flow(_) | Place::Second(_))
                | FaultKind::Up(Place::Flow(_) | Place::Second(_))
                | FaultKind::Set(Place::Flow(_) | Place::Second(_), _) => {}
            }
        }
        state
    }

    fn set_outage(&mut self, link: usize, outage: bool) {
        let BothWays { there, back } = &mut self.paths[link];
        for model in [there, back] {
            *model = core::mem::take(model).with_outage(outage);
        }
    }

    fn is_up(&self, scenario: &Scenario, link: usize, at: Duration) -> bool {
        let ends = [scenario.links[link].a, scenario.links[link].b];
        let path = &self.paths[link];
        let is_cut = |island: &Vec<usize>| {
            let [a, b] = ends.map(|end| island.contains(&end));
            a != b
        };
        !ends.iter().any(|end| self.crashed[*end])
            && !self.islands.iter().any(is_cut)
            && ![&path.there, &path.back]
                .iter()
                .any(|model| model.is_out(Time::ZERO + at))
    }
}

#[cfg(test)]
mod tests;
