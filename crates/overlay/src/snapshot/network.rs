//! The network as a node's link-state database describes it, with what delays the node's announcements: the material
//! for explanations. Plain data, ready for JSON both ways; the keys are a contract.

use crate::announce;
use core::fmt;
use core::num::NonZeroU8;
use serde::{Deserialize, Serialize};
use wire::certificate::Certificate;
use wire::link_state::{Bulk, Sending};

/// Nodes, links and rules.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NetworkSnapshot {
    /// The address of the reporting node; none if no node reports.
    pub teller: Option<String>,
    /// The profile of the reporting node's timers.
    pub profile: String,
    /// Δ of the expected latency, in microseconds.
    pub detect_us: u32,
    /// Tmax of the expected latency, in microseconds.
    pub late_us: u32,
    /// The cost of losing every packet, in addition to the time of repair; 0 from an older node.
    #[serde(default)]
    pub loss_us: u32,
    /// The protection that the reporting node uses against losses on real-time lanes; none from an older node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protect: Option<String>,
    /// How much loss its repair of a lane may leave, and how much it may add; none from an older node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aims: Option<KnownAims>,
    /// The nodes in order of address.
    pub nodes: Vec<NamedNode>,
    /// The links that are up in both directions, each direction by itself.
    pub links: Vec<KnownLink>,
    /// The real-time lanes of the reporting node's links that are up, each direction by itself; empty from an older
    /// node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lanes: Vec<KnownLane>,
    /// Paths of the reporting node's packets that avoid the tables, because something on the path of the tables drops
    /// the packets; empty from an older node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diverted: Vec<KnownDiversion>,
    /// The rule by which a node of this profile announces a change.
    pub rule: DampingRule,
    /// The reasons that delay the announcements of the links that begin at the reporting node.
    pub holds: Vec<Hold>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedNode {
    /// Its overlay address.
    pub address: String,
    /// Its name, if it is known.
    pub name: Option<String>,
    /// Its role in bulk data, if it announces one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bulk: Option<KnownBulk>,
    /// Why the reporting node sends it nothing, if there can be no session with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// A node's role in bulk data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownBulk {
    /// The node relays for nobody.
    pub closed: bool,
    /// The node relays for some nodes only.
    #[serde(default)]
    pub for_some: bool,
    /// The node relays for some nodes, and the reporting node is not among them. False if the node does not announce
    /// for whom it relays: it then answers when it is asked.
    #[serde(default)]
    pub refuses_teller: bool,
    /// The share of its places for transfers that are taken, in quarters.
    pub load: u8,
    /// Its connections send at the rate that they measure, whatever is lost; false if it does not announce this.
    pub by_rate: bool,
}

impl KnownBulk {
    /// The announced role, as it applies to the node with this certificate.
    pub(crate) fn of(told: Bulk, teller: &Certificate<'_>) -> KnownBulk {
        let relays_for = told.relays_for.filter(|_| told.is_for_some);
        KnownBulk {
            refuses_teller: relays_for.is_some_and(|nodes| !nodes.may_name(teller)),
            closed: told.is_closed,
            for_some: told.is_for_some,
            load: told.load,
            by_rate: told.sending == Sending::ByRate,
        }
    }

    /// Returns true if the node can take no further transfer for others.
    #[must_use]
    pub fn is_shut(&self) -> bool {
        self.closed || self.load >= Bulk::LOAD_FULL
    }
}

/// A link in one direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownLink {
    /// The node where it begins.
    pub from: String,
    /// The node where it ends.
    pub to: String,
    /// One-way latency in microseconds.
    pub latency_us: u32,
    /// Packets lost, as a share of 65 536.
    pub loss: u16,
    /// The cost of its recent outages, in microseconds of latency; 4294967295 while the other end is not heard.
    #[serde(default)]
    pub price_us: u32,
    /// How often the other end requests a lost packet; 0 if it does not announce this, or does not request.
    #[serde(default)]
    pub strikes: u8,
    /// The mean length of a run of losses, in 256ths of a packet, if the sender announces how its real-time lane is
    /// protected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_256ths: Option<u16>,
    /// Repair packets that the sender allows per 16 packets of a call, if it announces this.
    #[serde(default)]
    pub repair_16ths: u8,
    /// The capacity of the link, in kbit/s, if the sender announces it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_kbps: Option<u32>,
    /// The rate at which one TCP connection has recently carried data over the link, in kbit/s, if the sender announces
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_kbps: Option<u32>,
    /// The rate at which all connections of a transfer together have recently carried data over the link, in kbit/s, if
    /// the sender announces it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub together_kbps: Option<u32>,
    /// More connections would not carry more than `together_kbps`.
    #[serde(default)]
    pub together_is_all: bool,
    /// The possible error of the measured rates, in percent.
    #[serde(default)]
    pub spread_pct: u8,
    /// The number of physical links that it crosses, if the sender announces it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hops: Option<NonZeroU8>,
    /// The link runs over TCP because UDP does not get through, and costs more for that reason.
    #[serde(default)]
    pub over_tcp: bool,
}

/// How much loss the repair of a lane may leave, and how much it may add.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct KnownAims {
    /// The share of packets that may stay lost.
    pub target: f64,
    /// The maximum number of repair packets per packet, for a lane with several flows.
    pub most: f64,
    /// The same for a lane with one flow.
    pub most_single: f64,
}

/// Measurements of the real-time lane of a link, in one direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KnownLane {
    /// The node where it begins.
    pub from: String,
    /// The node where it ends.
    pub to: String,
    /// The share of packets lost.
    pub loss: f64,
    /// The mean length of a run of losses, in packets.
    pub run: f64,
    /// The time that most requests and their answers take at most, in microseconds.
    pub rtt_us: u32,
    /// The shortest time that a request and its answer take.
    pub rtt_least_us: u32,
    /// Losses are not caused by a queue, as far as the sender knows.
    pub is_random: bool,
    /// The receiver of the lane accepts repair packets.
    pub takes_repair: bool,
    /// How the packets that pass now are protected; none if no packets pass, or if the reporting node does not send
    /// them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_force: Option<InForce>,
}

/// Packets that avoid a suspected relay or link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KnownDiversion {
    /// Their destination.
    pub to: String,
    /// The nodes on their path, from the reporting node to the destination. Packets whose path by table has no suspect
    /// go by table.
    pub way: Vec<String>,
    /// The suspects that the packets avoid.
    pub suspects: Vec<KnownSuspect>,
}

/// A relay or link that is suspected to drop packets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KnownSuspect {
    /// The relay, or the node where the link begins.
    pub node: String,
    /// The node where the link ends; null for a relay.
    #[serde(default)]
    pub link_to: Option<String>,
    /// The share of packets lost.
    pub lost: f64,
    /// Seconds until it gets another chance.
    pub retry_in_s: f64,
}

/// How the packets of a lane are protected.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InForce {
    /// `none`, `requests`, `repair` in addition to requests, or `copies` in addition to them.
    pub plan: String,
    /// Why the lane has this protection, and no more.
    pub reason: String,
    /// Repair packets per hundred packets that are covered.
    pub repair_pct: f64,
    /// Packet loss that may remain among the passing packets, in percent; null from a node of an older version.
    #[serde(default)]
    pub target_pct: Option<f64>,
    /// The flow that sets this target; null if it is the node's own.
    #[serde(default)]
    pub target_of: Option<String>,
    /// Packet loss that is expected to remain among the passing packets, in percent.
    pub predicted_pct: f64,
    /// Packets lost for good or late, in percent, as the neighbour reports.
    pub measured_pct: Option<f64>,
    /// The number of packets over which that was measured.
    pub measured_packets: u64,
    /// The bytes of repair, in percent of the bytes of the packets.
    pub cost_pct: f64,
}

impl fmt::Display for InForce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.plan.as_str() {
            "repair" => write!(f, "requests, {:.0} % repair packets", self.repair_pct)?,
            "copies" => write!(f, "requests, {:.0} % copies", self.repair_pct)?,
            plan => f.write_str(plan)?,
        }
        write!(f, ", +{:.1} % bytes, ", self.cost_pct)?;
        match self.measured_pct {
            Some(pct) => write!(
                f,
                "{pct:.3} % stayed lost of {} packets",
                self.measured_packets
            )?,
            None => write!(f, "{:.3} % will stay lost", self.predicted_pct)?,
        }
        write!(f, " ({}", self.reason)?;
        match (self.target_pct, &self.target_of) {
            (Some(pct), Some(flow)) => write!(f, "; at most {pct} % for {flow})"),
            (Some(pct), None) => write!(f, "; at most {pct} %)"),
            (None, _) => f.write_str(")"),
        }
    }
}

/// When a node announces that a link's cost has changed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DampingRule {
    /// The least time between two announcements of a link.
    pub spacing_s: f64,
    /// How long a clear change for the worse must last.
    pub worse_s: f64,
    /// How long an unclear change for the worse must last.
    pub worse_unclear_s: f64,
    /// How long a clear change for the better must last.
    pub better_s: f64,
    /// How long an unclear change for the better must last.
    pub better_unclear_s: f64,
    /// The upper limit for how long a clear change for the better must last, after relapses.
    pub better_max_s: f64,
}

/// The reasons that delay the announcements of a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hold {
    /// The node where the link begins.
    pub from: String,
    /// The node where it ends.
    pub to: String,
    /// The announced one-way latency.
    pub announced_latency_us: u32,
    /// The announced loss as a share of 65 536.
    pub announced_loss: u16,
    /// The latency measured at the moment.
    pub measured_latency_us: u32,
    /// The loss measured at the moment, as a share of 65 536.
    pub measured_loss: u16,
    /// The time for which nothing is announced, whatever is measured.
    pub spacing_left_s: f64,
    /// The time after which the cost of the link's recent outages has gone.
    #[serde(default)]
    pub price_ends_in_s: Option<f64>,
    /// How long a clear improvement of the latency must last at the moment.
    pub better_latency_s: f64,
    /// How long a clear improvement of the loss must last at the moment.
    pub better_loss_s: f64,
    /// Changes that are waiting.
    pub pending: Vec<PendingChange>,
}

/// A change that is measured but not yet announced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PendingChange {
    /// `latency` or `loss`.
    pub what: String,
    /// The change is for the better.
    pub better: bool,
    /// The time after which the change is announced if it lasts.
    pub due_in_s: f64,
}

impl DampingRule {
    /// Returns the rule of these settings.
    pub fn of(s: &announce::Settings) -> DampingRule {
        let [worse, hold] = [s.confirm, s.hold];
        DampingRule {
            spacing_s: s.spacing.as_secs_f64(),
            worse_s: worse.as_secs_f64(),
            worse_unclear_s: (worse * s.unclear).as_secs_f64(),
            better_s: hold.as_secs_f64(),
            better_unclear_s: (hold * s.unclear).as_secs_f64(),
            better_max_s: s.hold_max.max(hold).as_secs_f64(),
        }
    }
}
