//! Computes the loss that protection leaves on a link, for packets with a given time left, from everything that is
//! known about the link.
//!
//! ```text
//!   NetworkSnapshot ─┬─ every link: delay and loss, the other end's requests ──┐
//!                    ├─ the teller's settings: protect, target, caps           ├─▶ a pilot for one call ─▶ Left
//!                    └─ the teller's own links, both ways: losses and runs as  ┘   (overlay::realtime)
//!                       measured, the spread of round trips, what is in force
//! ```
//!
//! [`Case::left`] is the only calculation: `why`, `calls`, `flows` and `groups` all use it, so that they agree. The
//! plan is the engine's own. Values that no node reports are assumed, and [`Protections::known`] says so.

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

/// The burst of a link whose record has no runs of losses. Choice: after a lost packet the next is lost with 25 %, as
/// on the paths of [Amir06 §II-C]; independent losses would make repair look better.
pub const BURST: f64 = 0.25;
/// Time between two packets of a call.
const INTERVAL: Duration = Duration::from_millis(20);
/// Size of a call's packet: 172 bytes of RTP and the headers of the overlay.
const PACKET_BYTES: usize = 220;
/// How much longer a repair packet is than the packets that it covers: 9 to 24 bytes, more for a wider window.
const REPAIR_MORE_BYTES: usize = 16;
/// Packets of one second. After them the pilot decides its plan.
const PACKETS: u64 = 50;
/// A plan counts as better only if it leaves less than this share of what the present plan leaves.
const BETTER: f64 = 0.9;

/// How the links of a network are protected.
#[derive(Clone, Debug)]
pub(super) struct Protections {
    /// The node that gave the snapshot; the settings are its own. `None` for a scenario file that names no node.
    teller: Option<NodeAddr>,
    /// The aims of all links that are not edited.
    aims: Aims,
    /// The edited setting of each link; each direction has its own entry.
    edited: BTreeMap<(NodeAddr, NodeAddr), Protect>,
    lanes: BTreeMap<(NodeAddr, NodeAddr), Lane>,
}

/// A lane that the snapshot reports, with the announced delay and loss of its link. The lane does not apply to an
/// edited link, which has other values.
#[derive(Clone, Debug)]
struct Lane {
    told: KnownLane,
    announced: (u32, u16),
}

/// The share of packets that a link leaves lost, and the protection that it uses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Left {
    /// The share of packets that remains lost.
    pub(super) share: f64,
    /// `none`, `requests`, `repair` (besides requests), or `copies` (besides requests).
    pub(super) by: &'static str,
    /// Repair packets, or copies, per packet.
    pub(super) repair: f64,
    /// Why the link does not do more.
    pub(super) reason: Reason,
}

/// The origin of a link's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Known {
    /// All numbers are measured and in force at the node that gave the snapshot.
    Own,
    /// Losses and their runs are measured at the node that gave the snapshot. The other end is assumed to have the same
    /// settings.
    Measured,
    /// Delay, loss, runs and the cap of repair are announced. The target is assumed to be that of the node that gave
    /// the snapshot.
    Told,
    /// Delay and loss are announced, the cap of repair at most. Runs and settings are assumed.
    Announced,
}

impl Protections {
    /// Reads the protections of a snapshot. If no node reports requests, it assumes the paper's single request.
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

    /// Returns true if the whole network is unprotected.
    pub(super) fn is_off(&self) -> bool {
        self.aims.protect == Protect::Off
    }

    /// Returns the case of a link as it is, for packets with `slack` left whose sender has this aim.
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
                // This link's sender repairs nothing, whatever the settings of the node that gave the snapshot are.
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
                // An edit applies to both ends.
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

    /// Returns the origin of a link's numbers.
    pub(super) fn known(&self, leg: &Leg) -> Known {
        match self.lanes.get(&(leg.from, leg.to)) {
            // In a scenario, all nodes have the same settings.
            Some(_) if self.teller.is_none_or(|own| own == leg.from) => Known::Own,
            Some(_) => Known::Measured,
            // A node that has not measured runs yet announces the usual ones.
            None if told_of(leg).is_some_and(|told| told.run_256ths != RUN_USUAL_256THS) => {
                Known::Told
            }
            None => Known::Announced,
        }
    }

    /// Returns the protection that is in force on a link now, if the node that gave the snapshot sends real-time
    /// packets over it.
    pub(super) fn in_force(&self, leg: &Leg) -> Option<&InForce> {
        self.lanes.get(&(leg.from, leg.to))?.told.in_force.as_ref()
    }
}

/// Returns what the sender's end of a link announces about its lane.
fn told_of(leg: &Leg) -> Option<graph::protection::Lane> {
    leg.link.repair?.lane
}

fn round_trip(topology: &Topology, leg: &Leg) -> Duration {
    let ends = topology.index(leg.to).zip(topology.index(leg.from));
    let back = ends.and_then(|(to, from)| topology.link(to, from));
    let back_us = back.map_or(leg.link.latency_us, |edge| edge.link.latency_us);
    Duration::from_micros(u64::from(leg.link.latency_us) + u64::from(back_us))
}

/// A link, the aims on it, and the time that packets have left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) aims: Aims,
    /// The sender allows less repair than the node does.
    pub(super) is_limited: bool,
    has_target: bool,
    pub(super) link: LaneLink,
    /// The mean length of a run of losses.
    run: f64,
    slack: Duration,
}

impl Case {
    /// Computes the share that remains lost, and the protection that is used.
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
            // Further repair by the ends or by other paths is not a property of the link.
            Protect::Auto | Protect::Hop | Protect::EndToEnd | Protect::Paths => self.planned(),
        }
    }

    /// Returns true if more loss remains than the target allows. A sender that limits repair and names no target has no
    /// target to miss.
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

    /// Computes what the engine would do for a call.
    fn planned(&self) -> Left {
        let mut pilot = Pilot::new(self.aims);
        // No packet has arrived and none is lost yet; the neighbour reports the runs.
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

    /// Returns the next cheaper plan: the best one that adds less than this one.
    pub(super) fn cheaper(&self, left: &Left) -> Option<Left> {
        // Requests add hardly any traffic, so there is nothing cheaper.
        let adds = (left.repair > 0.0).then_some(left.repair * 0.99)?;
        Some(self.capped(adds).left())
    }

    /// Returns the next better plan, whatever it adds: the cheapest one that leaves less.
    pub(super) fn better(&self, left: &Left) -> Option<Left> {
        let aims = Aims {
            protect: Protect::Auto,
            target: (left.share * BETTER / TOLERANCE).max(f64::MIN_POSITIVE),
            ..self.aims
        };
        let better = Case { aims, ..*self }.capped(f64::from(u16::MAX)).left();
        (better.share <= left.share * BETTER).then_some(better)
    }

    /// Returns the same case with another cap.
    pub(super) fn capped(&self, most: f64) -> Case {
        let aims = Aims {
            most,
            most_single: most,
            ..self.aims
        };
        Case { aims, ..*self }
    }

    /// Returns each half of the link if a node is put half way: half as long, and with about half of the losses.
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
    /// Returns what the protection adds to the bytes of a call, as a share.
    pub(super) fn added(&self) -> f64 {
        self.repair * (PACKET_BYTES + REPAIR_MORE_BYTES) as f64 / PACKET_BYTES as f64
    }
}
