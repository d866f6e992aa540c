//! A hostile world: a network, the member that turns hostile, its deeds, and the honest flows.

use super::treason::Treason;
use crate::whole::address;
use crate::worlds::plan::{Group, Plan, Session, Stream};
use base::{Duration, NodeAddr, Rng, Time};
use overlay::request::{Delivery, Options};
use overlay::stream::Framing;
use wire::data::{Class, LinkProtocol, Routing};
use wire::groups::TreeBuilder;
use wire::ipc::{RouteBy, Scheme};

/// By this time, all end-to-end sessions and routes exist.
const TURNS_AFTER: Duration = Duration::from_secs(6);
/// Length of the span in which honest flows are judged.
const JUDGED_FOR: Duration = Duration::from_secs(6);
/// With fewer nodes there is no path around the member.
const NODES_MIN: usize = 3;
/// Each seed runs two worlds, some of them for two minutes, so they must be small.
const NODES_MOST: usize = 10;
/// The deadline of a call's packets.
const DEADLINE: Duration = Duration::from_millis(250);

/// A hostile world before its history.
#[derive(Clone, Debug)]
pub(super) struct Scene {
    pub(super) plan: Plan,
    pub(super) traitor: usize,
    pub(super) treason: Treason,
    /// Loss of each link in each direction, in percent.
    pub(super) losses: Vec<u64>,
    /// The span in which the deeds may no longer affect honest flows.
    pub(super) judged: (Time, Time),
}

impl Scene {
    pub(super) fn draw(seed: u64) -> Scene {
        let mut rng = Rng::new(seed ^ 0x686f_7374_696c_6531);
        let rng = &mut rng;
        let mut plan = Plan::draw(rng);
        while !(NODES_MIN..=NODES_MOST).contains(&plan.nodes) {
            plan = Plan::draw(rng);
        }
        plan.calm();
        let traitor = traitor(rng, &plan);
        let honest: Vec<usize> = (0..plan.nodes).filter(|i| *i != traitor).collect();
        let near: Vec<usize> = plan.neighbors(traitor).collect();
        let pair = |rng: &mut Rng| loop {
            // Most flows are between neighbours of the traitor: their shortest paths lead through it.
            let of = if rng.chance(0.6) && near.len() > 1 {
                &near
            } else {
                &honest
            };
            let one = |rng: &mut Rng| of[rng.below(of.len() as u64) as usize];
            let (from, to) = (one(rng), one(rng));
            if from != to {
                return (from, to);
            }
        };
        let calls = (0..1 + rng.below(3)).map(|_| {
            let ends = pair(rng);
            call(rng, ends)
        });
        let calls = calls.collect();
        plan.streams = calls;
        let sessions = (0..rng.below(2)).map(|_| {
            let ends = pair(rng);
            session(rng, ends)
        });
        let sessions = sessions.collect();
        plan.sessions = sessions;
        plan.groups = match rng.chance(0.4) {
            true => vec![group(rng, &honest)],
            false => Vec::new(),
        };
        let lossless = rng.chance(0.6);
        let losses = plan.links.iter().map(|_| match lossless {
            true => 0,
            false => rng.below(3),
        });
        let losses = losses.collect();
        let at = Time::ZERO + TURNS_AFTER;
        let treason = Treason {
            seed: rng.next_u64(),
            at,
            deeds: Treason::draw(rng),
            nodes: (0..plan.nodes).map(address).collect(),
            ports: [6_000, 7_000],
            groups: plan.groups.iter().map(|_| FIRST_GROUP).collect(),
        };
        let from = at + treason.felt_for();
        Scene {
            plan,
            traitor,
            treason,
            losses,
            judged: (from, from + JUDGED_FOR),
        }
    }
}

/// The address of the first group of a world.
const FIRST_GROUP: NodeAddr = crate::worlds::groups::address(0);

/// Draws the traitor: mostly a node through which many paths lead.
fn traitor(rng: &mut Rng, plan: &Plan) -> usize {
    let any = rng.below(plan.nodes as u64) as usize;
    let degree = |i: usize| plan.neighbors(i).count();
    let most = (0..plan.nodes).map(|i| (degree(i), (i + any) % plan.nodes));
    match most.max().filter(|_| rng.chance(0.7)) {
        Some((degree_most, _)) => {
            let all = (0..plan.nodes).filter(|i| degree(*i) == degree_most);
            let all: Vec<usize> = all.collect();
            all[any % all.len()]
        }
        None => any,
    }
}

fn class(rng: &mut Rng, link: LinkProtocol) -> Class {
    Class {
        link,
        routing: [Routing::ExpectedLatency, Routing::Latency, Routing::Hops][rng.below(3) as usize],
        priority: rng.below(8) as u8,
    }
}

fn call(rng: &mut Rng, (from, to): (usize, usize)) -> Stream {
    let options = Options {
        class: class(rng, LinkProtocol::RealTime),
        deadline: Some(DEADLINE),
        ttl: 63,
        delivery: [Delivery::AsItComes, Delivery::InOrder][rng.below(2) as usize],
        ..Options::default()
    };
    let scheme = rng
        .chance(0.25)
        .then(|| [Scheme::Best, Scheme::Disjoint, Scheme::Targeted][rng.below(3) as usize]);
    Stream {
        from,
        to,
        interval: Duration::from_millis(20),
        phase: Duration::from_millis(rng.below(20)),
        burst: 1,
        bytes: 160,
        options: match scheme {
            Some(scheme) => options.routed_by(RouteBy::Stamp(scheme)),
            None => options,
        },
    }
}

fn session(rng: &mut Rng, (from, to): (usize, usize)) -> Session {
    let link = LinkProtocol::ALL[rng.below(3) as usize];
    Session {
        from,
        to,
        framing: [Framing::Bytes, Framing::Messages][rng.below(2) as usize],
        options: Options {
            class: class(rng, link),
            ttl: 63,
            ..Options::default()
        },
    }
}

fn group(rng: &mut Rng, honest: &[usize]) -> Group {
    Group {
        builder: TreeBuilder::LinkState,
        switches: false,
        operator: honest[0],
        members: honest.iter().copied().filter(|_| rng.chance(0.6)).collect(),
        sources: vec![honest[rng.below(honest.len() as u64) as usize]],
        interval: Duration::from_millis(20),
        options: Options {
            class: class(rng, LinkProtocol::RealTime),
            deadline: Some(DEADLINE),
            ttl: 63,
            ..Options::default()
        },
    }
}
