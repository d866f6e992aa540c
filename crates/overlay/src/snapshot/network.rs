//! The network as a node's link-state database has it, with what holds its announcements back: what
//! explanations are made of. Plain data, ready for JSON both ways; the keys are a contract.

use crate::announce;
use core::fmt;
use core::num::NonZeroU8;
use serde::{Deserialize, Serialize};
use wire::certificate::Certificate;
use wire::link_state::{Bulk, Sending};

/// Nodes, links and rules.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NetworkSnapshot {
    /// The address of the node that tells; none when no node does.
    pub teller: Option<String>,
    /// The profile of its timers.
    pub profile: String,
    /// Δ of the expected latency, in microseconds.
    pub detect_us: u32,
    /// Tmax of the expected latency, in microseconds.
    pub late_us: u32,
    /// What the loss of every packet costs beside the time of repair; 0 of an older node.
    #[serde(default)]
    pub loss_us: u32,
    /// What is done about losses on real-time lanes, as the teller is set; none of an older node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protect: Option<String>,
    /// How much its repair of a lane may leave and add; none of an older node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aims: Option<KnownAims>,
    /// The nodes in order of address.
    pub nodes: Vec<NamedNode>,
    /// The links that are up in both directions, each direction by itself.
    pub links: Vec<KnownLink>,
    /// The real-time lanes of the teller's links that are up, each direction by itself; empty of an older node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lanes: Vec<KnownLane>,
    /// Where the teller's packets go instead of by table, because something on the path of the tables swallows them; empty
    /// of an older node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diverted: Vec<KnownDiversion>,
    /// When a node of this profile announces a change.
    pub rule: DampingRule,
    /// What holds back the announcements of the links that begin at the teller.
    pub holds: Vec<Hold>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedNode {
    /// Its overlay address.
    pub address: String,
    /// Its name, if it is known.
    pub name: Option<String>,
    /// Its part in bulk data, if it tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bulk: Option<KnownBulk>,
    /// Why the teller sends it nothing, if there can be no session with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// A node's part in bulk data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownBulk {
    /// It relays for nobody.
    pub closed: bool,
    /// It relays for some nodes only.
    #[serde(default)]
    pub for_some: bool,
    /// It relays for some, and the teller is none of them. False if it does not tell for whom: it says so when it is
    /// asked.
    #[serde(default)]
    pub refuses_teller: bool,
    /// Of its places for transfers so many quarters are taken.
    pub load: u8,
    /// Its connections send as fast as they measure, whatever is lost; false where it does not tell.
    pub by_rate: bool,
}

impl KnownBulk {
    /// What is told to the node of this certificate.
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

    /// It can take no transfer more for others.
    #[must_use]
    pub fn is_shut(&self) -> bool {
        self.closed || self.load >= Bulk::LOAD_FULL
    }
}

/// A link in one direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownLink {
    /// Where it begins.
    pub from: String,
    /// Where it ends.
    pub to: String,
    /// One-way latency in microseconds.
    pub latency_us: u32,
    /// Packets lost, as a share of 65 536.
    pub loss: u16,
    /// What its outages of late cost, in microseconds of latency; 4294967295 while the other end is not
    /// heard.
    #[serde(default)]
    pub price_us: u32,
    /// How often the other end asks for a lost packet; 0 if it does not tell, or does not ask.
    #[serde(default)]
    pub strikes: u8,
    /// The mean length of a run of losses, in 256ths of a packet, if its sender tells how its real-time lane is protected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_256ths: Option<u16>,
    /// Repair packets that its sender allows per 16 packets of a call, if it tells.
    #[serde(default)]
    pub repair_16ths: u8,
    /// What it can carry, in kbit/s, if its sender tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_kbps: Option<u32>,
    /// What one TCP connection has lately carried over it, in kbit/s, if its sender tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_kbps: Option<u32>,
    /// What the connections of a transfer have lately carried over it together, in kbit/s, if its sender
    /// tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub together_kbps: Option<u32>,
    /// More connections would not carry more than that.
    #[serde(default)]
    pub together_is_all: bool,
    /// What was carried may be off by so many per cent.
    #[serde(default)]
    pub spread_pct: u8,
    /// The physical links that it crosses, if its sender tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hops: Option<NonZeroU8>,
    /// It runs over TCP, because UDP does not get through, and costs more for that.
    #[serde(default)]
    pub over_tcp: bool,
}

/// How much the repair of a lane may leave lost, and add.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct KnownAims {
    /// The share of packets that may stay lost.
    pub target: f64,
    /// The most repair packets per packet, of a lane with several flows.
    pub most: f64,
    /// The same of a lane with one.
    pub most_single: f64,
}

/// What is measured of the real-time lane of a link, in one direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KnownLane {
    /// Where it begins.
    pub from: String,
    /// Where it ends.
    pub to: String,
    /// The share of packets lost.
    pub loss: f64,
    /// The mean length of a run of losses, in packets.
    pub run: f64,
    /// What a request and its answer mostly take at most, in microseconds.
    pub rtt_us: u32,
    /// The same at least.
    pub rtt_least_us: u32,
    /// Losses are not a queue's, as far as the sender knows.
    pub is_random: bool,
    /// The end of the lane takes repair packets.
    pub takes_repair: bool,
    /// What protects the packets that pass now; none where none pass, or the teller does not send them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_force: Option<InForce>,
}

/// Packets that avoid what is suspect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KnownDiversion {
    /// Where they go.
    pub to: String,
    /// The nodes on their way, from the teller to there. Packets whose path by table has no suspect go by table.
    pub way: Vec<String>,
    /// What they avoid.
    pub suspects: Vec<KnownSuspect>,
}

/// A relay or link that is suspected to swallow packets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KnownSuspect {
    /// The relay, or where the link begins.
    pub node: String,
    /// Where the link ends; null for a relay.
    #[serde(default)]
    pub link_to: Option<String>,
    /// The share that was lost.
    pub lost: f64,
    /// In so many seconds it gets another chance.
    pub retry_in_s: f64,
}

/// What protects the packets of a lane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InForce {
    /// `none`, `requests`, `repair` beside requests, or `copies` beside them.
    pub plan: String,
    /// Why that, and no more.
    pub reason: String,
    /// Repair packets per hundred packets that are covered.
    pub repair_pct: f64,
    /// What may stay lost of the packets that pass, in percent; null at a node of a version that does not tell.
    #[serde(default)]
    pub target_pct: Option<f64>,
    /// The flow whose target that is; null if it is the node's own.
    #[serde(default)]
    pub target_of: Option<String>,
    /// What is expected to stay lost of the packets that pass, in percent.
    pub predicted_pct: f64,
    /// What has stayed lost or came too late, as the neighbour tells.
    pub measured_pct: Option<f64>,
    /// Of so many packets.
    pub measured_packets: u64,
    /// The bytes of repair, in percent of those of the packets.
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
    /// For how long a clear change to the worse must last.
    pub worse_s: f64,
    /// For how long one that is not clear must last.
    pub worse_unclear_s: f64,
    /// For how long a clear change to the better must last.
    pub better_s: f64,
    /// For how long one that is not clear must last.
    pub better_unclear_s: f64,
    /// A clear change to the better must last so long at most, after relapses.
    pub better_max_s: f64,
}

/// What holds back the announcements of a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hold {
    /// Where the link begins.
    pub from: String,
    /// Where it ends.
    pub to: String,
    /// What is announced: one-way latency.
    pub announced_latency_us: u32,
    /// What is announced: loss as a share of 65 536.
    pub announced_loss: u16,
    /// What is measured at the moment.
    pub measured_latency_us: u32,
    /// What is measured at the moment.
    pub measured_loss: u16,
    /// Nothing is announced for so long, whatever is measured.
    pub spacing_left_s: f64,
    /// What the link's outages of late cost is gone after so long.
    #[serde(default)]
    pub price_ends_in_s: Option<f64>,
    /// For how long a clear improvement of the latency must last at the moment.
    pub better_latency_s: f64,
    /// For how long a clear improvement of the loss must last at the moment.
    pub better_loss_s: f64,
    /// Changes that wait.
    pub pending: Vec<PendingChange>,
}

/// A change that is measured and not announced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PendingChange {
    /// `latency` or `loss`.
    pub what: String,
    /// To the better.
    pub better: bool,
    /// It is announced after so long if it lasts.
    pub due_in_s: f64,
}

impl DampingRule {
    /// The rule of these settings.
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
