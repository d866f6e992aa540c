//! What is known about the protection of the links of a network.
//!
//! ```text
//!   NetworkSnapshot ─┬─ every link: delay and loss, the other end's requests ──┐
//!                    ├─ the teller's settings: protect, target, caps           ├─▶ a pilot for one call ─▶ Left
//!                    └─ the teller's own links, both ways: losses and runs as  ┘   (overlay::realtime)
//!                       measured, the spread of round trips, what is in force
//! ```
//!
//! Values that no node reports are assumed, and [`Protections::known`] says so.

use super::case::Case;
use base::{Duration, NodeAddr};
use graph::Topology;
use graph::explain::Leg;
use graph::protection::RUN_USUAL_256THS;
use overlay::realtime::{Aims, LaneLink, Protect, RoundTrip, SPAN};
use overlay::snapshot::{InForce, KnownLane, NetworkSnapshot};
use serde::Serialize;
use std::collections::BTreeMap;
use wire::Aim;

/// The burst of a link whose record has no runs of losses. Choice: after a lost packet the next is lost with 25 %, as
/// on the paths of [Amir06 §II-C]; independent losses would make repair look better.
pub const BURST: f64 = 0.25;

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

/// The origin of a link's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Known {
    /// All numbers are measured and in force at the node that gave the snapshot.
    Own,
    /// Losses and their runs are measured at the node that gave the snapshot, and the cap of repair is announced. The
    /// target is assumed to be that of the node that gave the snapshot.
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

    /// Returns how many repair packets per 16 packets of a call the node that gave the snapshot announces for a link
    /// with this protection, or with its own if `None`.
    pub(super) fn announced_16ths(&self, protect: Option<Protect>) -> u8 {
        let protect = protect.unwrap_or(self.aims.protect);
        let aims = Aims {
            protect,
            ..self.aims
        };
        aims.announced_16ths()
    }

    /// Returns the case of a link as it is, for packets with `slack` left whose sender has this aim.
    pub(super) fn case(&self, topology: &Topology, leg: &Leg, slack: Duration, aim: Aim) -> Case {
        let ends = (leg.from, leg.to);
        let protect = self.edited.get(&ends).copied();
        let announced = (leg.link.latency_us, leg.link.loss);
        let is_as_told = |lane: &&Lane| lane.announced == announced;
        let lane = self.lanes.get(&ends).filter(is_as_told);
        let lane = lane.map(|lane| &lane.told);
        // The settings of the node that gave the snapshot apply to its own links. Other senders announce theirs.
        let is_own = lane.is_some() && self.teller.is_none_or(|own| own == leg.from);
        let told = told_of(leg);
        let aims = self.aims_of(leg, protect, told.filter(|_| !is_own));
        let span = |us: u32| Duration::from_micros(u64::from(us));
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
                strikes: strikes_of(leg),
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

    /// Returns the aims of a link with this edited protection, whose sender has announced this of its lane.
    fn aims_of(
        &self,
        leg: &Leg,
        edited: Option<Protect>,
        told: Option<graph::protection::Lane>,
    ) -> Aims {
        let usual = self.aims.protect;
        // If an edit lets a link repair and its sender announces no cap, those of the node that gave the snapshot count.
        let has_cap = |told: &graph::protection::Lane| {
            told.repair_16ths > 0 || !edited.is_some_and(Protect::repairs)
        };
        let Some(told) = told.filter(has_cap) else {
            let protect = edited.unwrap_or(usual);
            return Aims {
                protect,
                ..self.aims
            };
        };
        let announced = match (told.repair_16ths, strikes_of(leg)) {
            (1.., _) if usual.repairs() => usual,
            (1.., _) => Protect::Auto,
            (0, 1..) => Protect::Requests,
            (0, 0) => Protect::Off,
        };
        let most = f64::from(told.repair_16ths) / 16.0;
        Aims {
            protect: edited.unwrap_or(announced),
            most,
            most_single: most,
            ..self.aims
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

/// Returns how often the end of a link requests a lost packet. If nobody says so, it is the paper's single request.
fn strikes_of(leg: &Leg) -> u8 {
    leg.link.repair.map_or(1, |repair| repair.strikes)
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
