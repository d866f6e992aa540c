//! Which share of a call's packets a path misses by the deadline, with the protection that its links
//! have.
//!
//! ```text
//!   deadline − latency of the path = slack ─▶ of each link: the plan that its sender would make
//!                                             (overlay's pilot), and what that leaves lost
//!   missed = 1 − Π (1 − left)
//! ```
//!
//! Each link has the whole slack: a packet that is lost on two links of a path is rare. The plan is
//! the engine's own, asked with one call over the link and nothing beside it.

use base::{Duration, NodeAddr, Time};
use graph::Topology;
use graph::explain::{Leg, Route};
use overlay::realtime::{Aims, LaneLink, Losses, Pilot, Protect, RoundTrip, predict_requests};
use overlay::snapshot::NetworkSnapshot;
use std::collections::BTreeMap;

/// Records do not tell in what runs losses come. Choice: after a lost packet the next is lost with
/// 25 %, as on the paths of [Amir06 §II-C]; independent losses would make repair look better.
pub const BURST: f64 = 0.25;
/// Packets of a call follow each other so.
const INTERVAL: Duration = Duration::from_millis(20);
/// A packet of a call: 172 bytes of RTP and what the overlay puts around them.
const PACKET_BYTES: usize = 220;
/// Packets of a second, after which the pilot looks at its plan.
const PACKETS: u64 = 50;
/// With less time after its way a packet is not repaired: hosts and timers take as much.
const SLACK_LEAST: Duration = Duration::from_millis(3);

/// How the links of a network are protected.
#[derive(Clone, Debug)]
pub(super) struct Protections {
    /// All links but those below.
    network: Protect,
    /// Each direction by itself.
    edited: BTreeMap<(NodeAddr, NodeAddr), Protect>,
}

impl Protections {
    /// As the snapshot tells; the paper's single request where nobody tells of requests.
    pub(super) fn of(snapshot: &NetworkSnapshot) -> Protections {
        let told = snapshot.protect.as_deref().and_then(Protect::of_label);
        let asks = snapshot.links.iter().any(|link| link.strikes > 0);
        let network = match (told, asks) {
            (Some(told), _) => told,
            (None, true) => Protect::Auto,
            (None, false) => Protect::Requests,
        };
        Protections {
            network,
            edited: BTreeMap::new(),
        }
    }

    pub(super) fn set(&mut self, from: NodeAddr, to: NodeAddr, protect: Protect) {
        self.edited.insert((from, to), protect);
    }

    /// The network as a whole is not protected.
    pub(super) fn is_off(&self) -> bool {
        self.network == Protect::Off
    }

    fn at(&self, leg: &Leg) -> Protect {
        let edited = self.edited.get(&(leg.from, leg.to)).copied();
        edited.unwrap_or(self.network)
    }
}

/// What becomes of a call's packets on a path.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Missed {
    /// The share that is lost or late.
    pub(super) share: f64,
    /// What each link leaves lost, and by what it is protected.
    pub(super) legs: Vec<Left>,
}

/// What a link leaves lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Left {
    /// The share.
    pub(super) share: f64,
    /// `none`, `requests`, `repair` beside requests, or `copies` beside them.
    pub(super) by: &'static str,
    /// Repair packets, or copies, per packet.
    pub(super) repair: f64,
}

/// Calls with a deadline over links that are protected so.
#[derive(Clone, Copy, Debug)]
pub(super) struct Calls<'a> {
    pub(super) topology: &'a Topology,
    pub(super) protections: &'a Protections,
    pub(super) deadline_us: u32,
}

impl Calls<'_> {
    /// What they miss on a path.
    pub(super) fn over(&self, route: &Route) -> Missed {
        let slack_us = u64::from(self.deadline_us).checked_sub(route.latency_us);
        let slack = Duration::from_micros(slack_us.unwrap_or(0));
        let legs: Vec<Left> = route.legs.iter().map(|leg| self.left(leg, slack)).collect();
        let arrives: f64 = legs.iter().map(|left| 1.0 - left.share).product();
        Missed {
            // What arrives after the deadline is missed, all of it.
            share: slack_us.map_or(1.0, |_| 1.0 - arrives),
            legs,
        }
    }

    /// What a link leaves lost of packets that have so much time after their way.
    fn left(&self, leg: &Leg, slack: Duration) -> Left {
        let share = leg.link.loss_share();
        let nothing = Left {
            share,
            by: "none",
            repair: 0.0,
        };
        if slack < SLACK_LEAST || share <= 0.0 {
            return nothing;
        }
        let losses = Losses::of(share, 1.0 / (1.0 - BURST));
        let rtt = RoundTrip::from(self.round_trip(leg));
        let strikes = leg.link.repair.map_or(1, |repair| repair.strikes);
        let requests = Left {
            share: predict_requests(losses, rtt, slack, INTERVAL, strikes),
            by: "requests",
            repair: 0.0,
        };
        match self.protections.at(leg) {
            Protect::Off => nothing,
            Protect::Requests => requests,
            protect => planned(protect, share, rtt, slack, strikes).unwrap_or(requests),
        }
    }

    fn round_trip(&self, leg: &Leg) -> Duration {
        let topology = self.topology;
        let ends = topology.index(leg.to).zip(topology.index(leg.from));
        let back = ends.and_then(|(to, from)| topology.link(to, from));
        let back_us = back.map_or(leg.link.latency_us, |edge| edge.link.latency_us);
        Duration::from_micros(u64::from(leg.link.latency_us) + u64::from(back_us))
    }
}

/// What the engine would do for a call, if it would add anything to requests.
fn planned(
    protect: Protect,
    share: f64,
    rtt: RoundTrip,
    slack: Duration,
    strikes: u8,
) -> Option<Left> {
    let mut pilot = Pilot::new(Aims {
        protect,
        ..Aims::default()
    });
    // Nothing has come and nothing is lost yet; the neighbour tells of the runs.
    pilot.on_report(0, 0, 1.0 / (1.0 - BURST));
    let begin = Time::from_nanos(0);
    for packet in 0..PACKETS {
        pilot.on_sent(begin + INTERVAL * packet, PACKET_BYTES, Some(slack), 0);
    }
    let link = LaneLink {
        share,
        rtt,
        is_random: true,
        takes_repair: true,
        strikes,
        longer: Duration::ZERO,
    };
    pilot.look(begin + INTERVAL * PACKETS, &link);
    let plan = pilot.plan();
    let added = plan.share?;
    Some(Left {
        share: plan.predicted,
        by: match added.lag {
            0 => "repair",
            _ => "copies",
        },
        repair: added.ratio(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use graph::explain::{Class, Question, answer};
    use graph::metric::Repair;
    use graph::{LinkCost, Metric, Parameters};

    const A: NodeAddr = NodeAddr(1);
    const B: NodeAddr = NodeAddr(2);

    /// What calls miss over one link, in percent.
    fn missed(protect: Protect, latency_us: u32, deadline_us: u32) -> (f64, &'static str) {
        let link = LinkCost::new(latency_us, 0.05);
        let link = LinkCost {
            repair: Some(Repair::new(5, link.loss, link.loss)),
            ..link
        };
        let topology = Topology::from_links(Parameters::default(), [(A, B, link)]);
        let question = Question {
            src: A,
            dst: B,
            class: Class::Metric(Metric::ExpectedLatency),
            deadline_us,
            runners_up: 0,
        };
        let answer = answer(&topology, &question).unwrap();
        let calls = Calls {
            topology: &topology,
            protections: &Protections {
                network: protect,
                edited: BTreeMap::new(),
            },
            deadline_us,
        };
        let missed = calls.over(&answer.chosen[0]);
        (missed.share * 100.0, missed.legs[0].by)
    }

    /// docs/protection.md measures 5.1 % and 0.05 to 0.09 % between 50 and 75 ms.
    #[test]
    fn a_long_link_is_repaired_and_requests_come_too_late() {
        let (requests, by) = missed(Protect::Requests, 60_000, 150_000);
        assert!((4.9..5.1).contains(&requests), "{requests} by {by}");
        let (auto, by) = missed(Protect::Auto, 60_000, 150_000);
        assert!((0.005..0.1).contains(&auto), "{auto}");
        assert_ne!(by, "requests");
        let (off, by) = missed(Protect::Off, 60_000, 150_000);
        assert!((4.9..5.1).contains(&off) && by == "none", "{off} by {by}");
    }

    #[test]
    fn on_a_short_link_requests_do() {
        let (auto, by) = missed(Protect::Auto, 10_000, 150_000);
        assert!(auto < 0.1 && by == "requests", "{auto} by {by}");
    }

    #[test]
    fn what_is_late_is_missed() {
        assert_eq!(missed(Protect::Auto, 60_000, 50_000).0, 100.0);
        let (barely, by) = missed(Protect::Auto, 60_000, 61_000);
        assert!((4.9..5.1).contains(&barely) && by == "none", "{barely}");
    }
}
