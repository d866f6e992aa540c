//! What protection leaves on a link of packets with so much time left, by all that is known of the link.
//!
//! ```text
//!   NetworkSnapshot ─┬─ every link: delay and loss, the other end's requests ──┐
//!                    ├─ the teller's settings: protect, target, caps           ├─▶ a pilot for one call ─▶ Left
//!                    └─ the teller's own links, both ways: losses and runs as  ┘   (overlay::realtime)
//!                       measured, the spread of round trips, what is in force
//! ```
//!
//! [`Case::left`] is the one answer: `why`, `calls`, `flows` and `groups` all ask it, so that they say the same. The
//! plan is the engine's own. What nobody tells is assumed, and [`Protections::known`] says so.

use base::{Duration, NodeAddr, Time};
use graph::Topology;
use graph::explain::Leg;
use graph::protection::RUN_USUAL_256THS;
use overlay::realtime::{
    Aims, LaneLink, Losses, Pilot, Protect, Reason, RoundTrip, SLACK_LEAST, SPAN, TOLERANCE,
    predict_requests,
};
use overlay::snapshot::{InForce, KnownLane, NetworkSnapshot};
use serde::Serialize;
use std::collections::BTreeMap;
use wire::Aim;

/// Where a record does not tell in what runs losses come. Choice: after a lost packet the next is lost with
/// 25 %, as on the paths of [Amir06 §II-C]; independent losses would make repair look better.
pub const BURST: f64 = 0.25;
/// Packets of a call follow each other so.
const INTERVAL: Duration = Duration::from_millis(20);
/// A packet of a call: 172 bytes of RTP and what the overlay puts around them.
const PACKET_BYTES: usize = 220;
/// A repair packet is so much longer than what it covers: 9 to 24 bytes, the more the wider its window is.
const REPAIR_MORE_BYTES: usize = 16;
/// Packets of a second, after which the pilot looks at its plan.
const PACKETS: u64 = 50;
/// A plan is no better one if it leaves more than this share of what the present one leaves.
const BETTER: f64 = 0.9;

/// How the links of a network are protected.
#[derive(Clone, Debug)]
pub(super) struct Protections {
    /// Who tells: the settings are its own; a scenario file without one.
    teller: Option<NodeAddr>,
    /// Of all links but those that are edited.
    aims: Aims,
    /// Each direction by itself.
    edited: BTreeMap<(NodeAddr, NodeAddr), Protect>,
    lanes: BTreeMap<(NodeAddr, NodeAddr), Lane>,
}

/// A lane of which the snapshot tells, and what is announced of its link, delay and loss: one that was edited has
/// others.
#[derive(Clone, Debug)]
struct Lane {
    told: KnownLane,
    announced: (u32, u16),
}

/// What a link leaves lost, and by what.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Left {
    /// The share.
    pub(super) share: f64,
    /// `none`, `requests`, `repair` beside requests, or `copies` beside them.
    pub(super) by: &'static str,
    /// Repair packets, or copies, per packet.
    pub(super) repair: f64,
    /// Why no more is done.
    pub(super) reason: Reason,
}

/// From where the numbers of a link are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Known {
    /// All is measured, and in force, at the node that tells.
    Own,
    /// Losses and their runs are measured at the node that tells; the other end is taken to have its settings.
    Measured,
    /// Delay, loss, runs and the cap of repair are announced; the target is taken to be that of the node that tells.
    Told,
    /// Delay and loss are announced, the cap of repair at most; runs and settings are assumed.
    Announced,
}

impl Protections {
    /// As the snapshot tells; the paper's single request where nobody tells of requests.
    pub(super) fn of(snapshot: &NetworkSnapshot) -> Protections {
        let told = snapshot.protect.as_deref().and_then(Protect::of_label);
        let asks = snapshot.links.iter().any(|link| link.strikes > 0);
        let protect = match (told, asks) {
            (Some(told), _) => told,
            (None, true) => Protect::Auto,
            (None, false) => Protect::Requests,
        };
        let usual = Aims {
            protect,
            ..Aims::default()
        };
        let aims = snapshot.aims.map_or(usual, |aims| Aims {
            protect,
            target: aims.target,
            most: aims.most,
            most_single: aims.most_single,
        });
        let ends = |from: &str, to: &str| from.parse().ok().zip(to.parse().ok());
        let announced: BTreeMap<(NodeAddr, NodeAddr), (u32, u16)> = snapshot
            .links
            .iter()
            .filter_map(|link| {
                let announced = (link.latency_us, link.loss);
                Some((ends(&link.from, &link.to)?, announced))
            })
            .collect();
        let lanes = snapshot.lanes.iter().filter_map(|told| {
            let ends = ends(&told.from, &told.to)?;
            let announced = *announced.get(&ends)?;
            let told = told.clone();
            Some((ends, Lane { told, announced }))
        });
        Protections {
            teller: snapshot.teller.as_deref().and_then(|own| own.parse().ok()),
            aims,
            edited: BTreeMap::new(),
            lanes: lanes.collect(),
        }
    }

    pub(super) fn set(&mut self, from: NodeAddr, to: NodeAddr, protect: Protect) {
        self.edited.insert((from, to), protect);
    }

    /// The network as a whole is not protected.
    pub(super) fn is_off(&self) -> bool {
        self.aims.protect == Protect::Off
    }

    /// The link as it is, for packets with so much time, whose sender wants this of repair.
    pub(super) fn case(&self, topology: &Topology, leg: &Leg, slack: Duration, aim: Aim) -> Case {
        let ends = (leg.from, leg.to);
        let protect = self.edited.get(&ends).copied();
        let announced = (leg.link.latency_us, leg.link.loss);
        let is_as_told = |lane: &&Lane| lane.announced == announced;
        let lane = self.lanes.get(&ends).filter(is_as_told);
        let lane = lane.map(|lane| &lane.told);
        let told = told_of(leg);
        let asked = self.aims.protect;
        let span = |us: u32| Duration::from_micros(u64::from(us));
        let aims = Aims {
            protect: match (protect, lane, told) {
                (Some(protect), ..) => protect,
                // Its sender repairs nothing, whatever is set at the node that tells.
                (None, None, Some(told)) if told.repair_16ths == 0 && asked.repairs() => {
                    Protect::Requests
                }
                _ => asked,
            },
            ..self.aims
        };
        let aims = match (lane, told) {
            (None, Some(told)) if protect.is_none() => {
                let most = f64::from(told.repair_16ths) / 16.0;
                Aims {
                    most,
                    most_single: most,
                    ..aims
                }
            }
            _ => aims,
        };
        let wished = aims.wished(aim);
        Case {
            aims: wished,
            is_limited: wished.protect != aims.protect || wished.most_single < aims.most_single,
            has_target: aim.target().is_some(),
            link: LaneLink {
                share: lane.map_or(leg.link.loss_share(), |lane| lane.loss),
                rtt: match lane {
                    Some(lane) => RoundTrip {
                        least: span(lane.rtt_least_us),
                        usual: span(lane.rtt_us),
                    },
                    None => round_trip(topology, leg).into(),
                },
                is_random: lane.is_none_or(|lane| lane.is_random),
                // Who edits means both ends.
                takes_repair: protect.is_some() || lane.is_none_or(|lane| lane.takes_repair),
                strikes: leg.link.repair.map_or(1, |repair| repair.strikes),
                longer: Duration::ZERO,
                span: SPAN as u32,
            },
            run: match (lane, told) {
                (Some(lane), _) => lane.run,
                (None, Some(told)) => f64::from(told.run_256ths) / 256.0,
                (None, None) => 1.0 / (1.0 - BURST),
            },
            slack,
        }
    }

    /// From where the numbers of a link are.
    pub(super) fn known(&self, leg: &Leg) -> Known {
        match self.lanes.get(&(leg.from, leg.to)) {
            // A scenario has the same settings for all.
            Some(_) if self.teller.is_none_or(|own| own == leg.from) => Known::Own,
            Some(_) => Known::Measured,
            // A node that knows of no runs yet is taken to have the usual ones.
            None if told_of(leg).is_some_and(|told| told.run_256ths != RUN_USUAL_256THS) => {
                Known::Told
            }
            None => Known::Announced,
        }
    }

    /// What is in force on a link now, if the node that tells sends real-time packets over it.
    pub(super) fn in_force(&self, leg: &Leg) -> Option<&InForce> {
        self.lanes.get(&(leg.from, leg.to))?.told.in_force.as_ref()
    }
}

/// What the sender's end of a link announces of its lane.
fn told_of(leg: &Leg) -> Option<graph::protection::Lane> {
    leg.link.repair?.lane
}

fn round_trip(topology: &Topology, leg: &Leg) -> Duration {
    let ends = topology.index(leg.to).zip(topology.index(leg.from));
    let back = ends.and_then(|(to, from)| topology.link(to, from));
    let back_us = back.map_or(leg.link.latency_us, |edge| edge.link.latency_us);
    Duration::from_micros(u64::from(leg.link.latency_us) + u64::from(back_us))
}

/// A link, what is aimed at on it, and the time that packets have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) aims: Aims,
    /// The sender allows less repair than the node does, and names a target.
    pub(super) is_limited: bool,
    has_target: bool,
    pub(super) link: LaneLink,
    /// The mean length of a run of losses.
    run: f64,
    slack: Duration,
}

impl Case {
    /// What is left, and by what.
    pub(super) fn left(&self) -> Left {
        let nothing = Left {
            share: self.link.share,
            by: "none",
            repair: 0.0,
            reason: Reason::Configured,
        };
        if self.link.share <= 0.0 {
            return Left {
                reason: Reason::Clean,
                ..nothing
            };
        }
        if self.slack < SLACK_LEAST {
            return Left {
                reason: Reason::NoTime,
                ..nothing
            };
        }
        match self.aims.protect {
            Protect::Off => nothing,
            Protect::Requests => self.requests(Reason::Configured),
            // What ends or other paths repair beyond is not the link's.
            Protect::Auto | Protect::Hop | Protect::EndToEnd | Protect::Paths => self.planned(),
        }
    }

    /// What is left is more than is aimed at. A sender that limits repair and names no target aims at nothing.
    pub(super) fn is_short(&self, left: &Left) -> bool {
        let is_aimed_at = self.has_target || !self.is_limited;
        is_aimed_at && left.share > self.aims.target * TOLERANCE
    }

    fn requests(&self, reason: Reason) -> Left {
        let LaneLink {
            share,
            rtt,
            strikes,
            ..
        } = self.link;
        let losses = Losses::of(share, self.run);
        Left {
            share: predict_requests(losses, rtt, self.slack, INTERVAL, strikes),
            by: "requests",
            repair: 0.0,
            reason,
        }
    }

    /// What the engine would do for a call.
    fn planned(&self) -> Left {
        let mut pilot = Pilot::new(self.aims);
        // Nothing has come and nothing is lost yet; the neighbour tells of the runs.
        pilot.on_report(0, 0, self.run);
        let begin = Time::from_nanos(0);
        for packet in 0..PACKETS {
            pilot.on_sent(
                begin + INTERVAL * packet,
                PACKET_BYTES,
                Some(self.slack),
                0,
                None,
            );
        }
        pilot.look(begin + INTERVAL * PACKETS, &self.link);
        let plan = pilot.plan();
        let Some(added) = plan.share else {
            return self.requests(plan.reason);
        };
        Left {
            share: plan.predicted,
            by: match added.lag {
                0 => "repair",
                _ => "copies",
            },
            repair: added.ratio(),
            reason: plan.reason,
        }
    }

    /// The next cheaper plan: the best one that adds less than this one.
    pub(super) fn cheaper(&self, left: &Left) -> Option<Left> {
        // Requests cost hardly anything.
        let adds = (left.repair > 0.0).then_some(left.repair * 0.99)?;
        Some(self.capped(adds).left())
    }

    /// The next better plan, whatever it adds: the cheapest one that leaves less.
    pub(super) fn better(&self, left: &Left) -> Option<Left> {
        let aims = Aims {
            protect: Protect::Auto,
            target: (left.share * BETTER / TOLERANCE).max(f64::MIN_POSITIVE),
            ..self.aims
        };
        let better = Case { aims, ..*self }.capped(f64::from(u16::MAX)).left();
        (better.share <= left.share * BETTER).then_some(better)
    }

    /// The same with another cap.
    pub(super) fn capped(&self, most: f64) -> Case {
        let aims = Aims {
            most,
            most_single: most,
            ..self.aims
        };
        Case { aims, ..*self }
    }

    /// Each half of the link with a node half way: half as long, and losing about half.
    pub(super) fn halved(&self) -> Case {
        let LaneLink { share, rtt, .. } = self.link;
        let link = LaneLink {
            share: 1.0 - (1.0 - share).sqrt(),
            rtt: RoundTrip {
                least: rtt.least.div(2),
                usual: rtt.usual.div(2),
            },
            ..self.link
        };
        Case { link, ..*self }
    }
}

impl Left {
    /// What it adds to the bytes of a call, as a share.
    pub(super) fn added(&self) -> f64 {
        self.repair * (PACKET_BYTES + REPAIR_MORE_BYTES) as f64 / PACKET_BYTES as f64
    }
}
