//! The network as this node knows it, for explanations.

use super::Node;
use crate::announce::{Damping, Pending, Quantity};
use crate::link::Link;
use crate::realtime::Reason;
use crate::snapshot::{
    DampingRule, Hold, InForce, KnownAims, KnownBulk, KnownLane, KnownLink, NamedNode,
    NetworkSnapshot, PendingChange,
};
use base::{Duration, NodeAddr, Time};
use graph::Topology;
use wire::certificate::Certificate;

impl Node {
    /// Returns the network at this moment, as the link-state database describes it.
    pub fn network_snapshot(&self, now: Time) -> NetworkSnapshot {
        let topology = self.router.database().topology();
        let mut nodes: Vec<NodeAddr> = self.router.database().nodes().chain([self.addr]).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let parameters = topology.parameters();
        let links = || self.links.iter().map(|(_, link)| link);
        let aims = self.settings.realtime.aims;
        NetworkSnapshot {
            teller: Some(self.addr.to_string()),
            profile: self.settings.name.to_owned(),
            detect_us: parameters.detect_us,
            late_us: parameters.late_us,
            loss_us: parameters.loss_us,
            protect: Some(aims.protect.label().to_owned()),
            aims: Some(KnownAims {
                target: aims.target,
                most: aims.most,
                most_single: aims.most_single,
            }),
            lanes: links()
                .filter(|link| link.is_up())
                .flat_map(|link| self.lanes(link))
                .collect(),
            links: nodes
                .iter()
                .flat_map(|node| self.links_from(topology, *node))
                .collect(),
            nodes: nodes
                .into_iter()
                .map(|node| self.named(now, node))
                .collect(),
            diverted: self.diversions(now),
            rule: DampingRule::of(&self.settings.announce),
            holds: links().filter_map(|link| self.hold(now, link)).collect(),
        }
    }

    fn links_from(&self, topology: &Topology, from: NodeAddr) -> Vec<KnownLink> {
        let Some(index) = topology.index(from) else {
            return Vec::new();
        };
        let edges = topology.links_from(index).iter();
        let known = edges.map(|edge| {
            let to = topology.addr(edge.peer);
            let told = self.router.database().told(from, to);
            let rates = told.rates;
            let lane = edge.link.repair.and_then(|repair| repair.lane);
            KnownLink {
                from: from.to_string(),
                to: to.to_string(),
                latency_us: edge.link.latency_us,
                loss: edge.link.loss,
                price_us: edge.link.price_us,
                strikes: edge.link.repair.map_or(0, |repair| repair.strikes),
                run_256ths: lane.map(|lane| lane.run_256ths),
                repair_16ths: lane.map_or(0, |lane| lane.repair_16ths),
                capacity_kbps: told.capacity_kbps,
                measured_kbps: rates.map(|r| r.one_kbps).filter(|kbps| *kbps > 0),
                together_kbps: rates.map(|r| r.together_kbps).filter(|kbps| *kbps > 0),
                together_is_all: rates.is_some_and(|r| r.is_full),
                spread_pct: rates.map_or(0, |r| r.spread_pct),
                hops: told.hops,
                over_tcp: told.is_tunnel,
            }
        });
        known.collect()
    }

    /// Returns the lanes of a link, to the neighbour and from it.
    fn lanes(&self, link: &Link) -> [KnownLane; 2] {
        let [own, peer] = [self.addr, link.peer].map(|end| end.to_string());
        let plan = link.protection_status();
        let lane = link.lane_link();
        let micros = |span: Duration| u32::try_from(span.as_micros()).unwrap_or(u32::MAX);
        let passes = link.pilot.plan().reason != Reason::Idle || plan.measured_packets > 0;
        let there = KnownLane {
            from: own.clone(),
            to: peer.clone(),
            loss: lane.share,
            run: link.pilot.run(),
            rtt_us: micros(lane.rtt.usual),
            rtt_least_us: micros(lane.rtt.least),
            is_random: lane.is_random,
            takes_repair: lane.takes_repair,
            in_force: passes.then(|| InForce {
                plan: plan.plan.to_owned(),
                reason: plan.reason.to_owned(),
                repair_pct: plan.repair_pct,
                target_pct: Some(plan.target_pct),
                target_of: plan.target_of,
                predicted_pct: plan.predicted_pct,
                measured_pct: plan.measured_pct,
                measured_packets: plan.measured_packets,
                cost_pct: plan.cost_pct,
            }),
        };
        let back = KnownLane {
            from: peer,
            to: own,
            loss: link.path.loss.rate(),
            run: link.path.loss.run(),
            // Only the neighbour knows whether a queue causes its losses.
            is_random: true,
            takes_repair: link.takes_repair(),
            in_force: None,
            ..there.clone()
        };
        [there, back]
    }

    /// Returns a node's name, or its address if the name is not known.
    pub fn name_of(&self, node: NodeAddr) -> String {
        self.known_name(node).unwrap_or_else(|| node.to_string())
    }

    fn known_name(&self, node: NodeAddr) -> Option<String> {
        if node == self.addr {
            return Some(self.name.clone());
        }
        let certificate = self.router.database().certificate(node);
        let certificate = certificate.map(Certificate::parse)?;
        Some(certificate.ok()?.subject.name.to_owned())
    }

    fn named(&self, now: Time, node: NodeAddr) -> NamedNode {
        let own = self.handshakes.identity().certificate().fields();
        NamedNode {
            address: node.to_string(),
            name: self.known_name(node),
            bulk: self
                .router
                .database()
                .bulk(node)
                .map(|told| KnownBulk::of(told, &own)),
            refused: self.refused_end(now, node),
        }
    }

    fn hold(&self, now: Time, link: &Link) -> Option<Hold> {
        let Damping {
            announced,
            not_before,
            pending,
            latency_hold,
            loss_hold,
        } = link.announce.damping()?;
        let measured = link.measured_cost(now);
        let left = |until: Time| until.since(now).as_secs_f64();
        let change = |pending: Pending| PendingChange {
            what: match pending.what {
                Quantity::Latency => "latency".to_owned(),
                Quantity::Loss => "loss".to_owned(),
            },
            better: pending.better,
            due_in_s: left(pending.due),
        };
        Some(Hold {
            from: self.addr.to_string(),
            to: link.peer.to_string(),
            announced_latency_us: announced.latency_us,
            announced_loss: announced.loss,
            measured_latency_us: measured.latency_us,
            measured_loss: measured.loss,
            spacing_left_s: left(not_before),
            price_ends_in_s: link.path.hello.price_ends(now).map(left),
            better_latency_s: latency_hold.as_secs_f64(),
            better_loss_s: loss_hold.as_secs_f64(),
            pending: pending.into_iter().map(change).collect(),
        })
    }
}
