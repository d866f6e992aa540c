//! The operator's requests: impairment, addresses, credentials, and the node's present state.

use super::{Neighbor, Node};
use crate::carried::Carried;
use crate::link::{Impairment, Link, Made};
use crate::request::{Operation, Options, Reply, RequestError};
use crate::snapshot::{
    FlooderStatus, LaneStatus, LinkStatus, ProtectionStatus, ReliableStatus, RouteStatus, Snapshot,
};
use base::{ClientId, NodeAddr, Outbox, Time, UnderlayAddr, impair};
use core::num::NonZeroU8;
use graph::metric::Metric;
use secure::Session;
use secure::network::notice_s;
use wire::data::Routing;
use wire::link_state::Rates;

/// The metrics by which tables route, with their names.
const METRICS: [(Metric, &str); 4] = [
    (Metric::Hops, "hops"),
    (Metric::Latency, "latency"),
    (Metric::Loss, "loss"),
    (Metric::ExpectedLatency, "expected-latency"),
];

/// Number of nodes with too many records that the status names: the worst come first.
const FLOODERS_SHOWN: usize = 8;

impl Node {
    pub(super) fn set_options(
        &mut self,
        client: ClientId,
        options: Options,
    ) -> Result<Reply, RequestError> {
        let carried = options.class.routing != Routing::Width && options.route_by().is_some();
        if !carried {
            return Err(RequestError::Unsupported);
        }
        self.sockets.open(client, &mut self.rng)?.options = options;
        Ok(Reply::Done)
    }

    pub(super) fn operate(
        &mut self,
        now: Time,
        operation: Operation,
        out: &mut impl Outbox<Node>,
    ) -> Result<Reply, RequestError> {
        match operation {
            Operation::Impair { neighbor, model } => self.impair(neighbor, model, out),
            Operation::Meet(neighbor) => {
                let addr = neighbor.addr;
                let met = self.meet(now, neighbor, out);
                if let Some(index) = self.links.by_peer(addr) {
                    let link = self.links.at_mut(index);
                    if link.made != Made::First {
                        link.made = Made::Hand;
                    }
                }
                met
            }
            Operation::Part(neighbor) => {
                let why = "the configuration has the neighbour no more";
                self.part(now, neighbor, why, out)
            }
            Operation::Locate { neighbor, at, more } => self.locate(now, neighbor, (at, more), out),
            Operation::Tunnel {
                neighbor,
                at,
                is_dialled,
            } => self.on_tunnel(now, neighbor, (at, is_dialled), out),
            Operation::TunnelEnded { neighbor, at } => self.on_tunnel_ended(now, neighbor, at),
            Operation::Carried { neighbor, rates } => self.on_carried(now, neighbor, rates),
            Operation::Bulk(bulk) => {
                self.own_record.set_bulk(bulk);
                Ok(Reply::Done)
            }
            Operation::Mapped(endpoint) => {
                self.own_links.set_mapped(endpoint);
                Ok(Reply::Done)
            }
            Operation::Hosts(hosts) => {
                self.own_links.set_hosts(hosts);
                Ok(Reply::Done)
            }
            Operation::Hops { neighbor, hops } => self.on_hops(neighbor, hops),
            Operation::SetGroup {
                group,
                prefix,
                setting,
            } => {
                let known = (self.handshakes.identity(), self.router.database());
                self.groups
                    .set(self.trust.unix_s(now), (group, prefix), setting, known)
            }
            Operation::First(first) => {
                self.set_first(&first);
                Ok(Reply::Done)
            }
            Operation::Permit(permit) => self.groups.permit(permit, self.handshakes.identity()),
            said @ (Operation::Edges { .. } | Operation::Root { .. } | Operation::NoScribe) => {
                self.groups.on_scribe(now, said);
                Ok(Reply::Done)
            }
            Operation::Renew(identity) => self.renew(now, *identity, out),
            Operation::Succeed(chain) => self.on_chain(now, &chain, out),
            Operation::Revoke(list) => self.on_revocations(now, &list, out),
            Operation::Clock { unix_s } => {
                self.set_clock(now, unix_s);
                Ok(Reply::Done)
            }
            Operation::WatchReach => {
                self.watches_reach = true;
                Ok(Reply::Done)
            }
            Operation::WatchPaths(neighbor) => self.watch_paths(now, neighbor),
            Operation::Farewell => {
                self.end_streams(now, out);
                self.say_farewell(now, out);
                Ok(Reply::Done)
            }
        }
    }

    fn impair(
        &mut self,
        neighbor: NodeAddr,
        model: Option<impair::Model>,
        out: &mut impl Outbox<Node>,
    ) -> Result<Reply, RequestError> {
        if !self.lab {
            return Err(RequestError::NotALab);
        }
        let index = self
            .links
            .by_peer(neighbor)
            .ok_or(RequestError::NoSuchNeighbor)?;
        let mut rng = self.rng.fork();
        for path in self.links.at_mut(index).paths_mut() {
            match (&mut path.impairment, &model) {
                (Some(impairment), Some(model)) => impairment.set_model(model.clone()),
                (empty @ None, Some(model)) => {
                    *empty = Some(Impairment::new(model.clone(), rng.clone()));
                    rng = rng.fork();
                }
                (impairment, None) => {
                    // Packets under way arrive at once: an emulated link that ends loses nothing.
                    if let (Some(mut old), Some(at)) = (impairment.take(), path.at) {
                        old.release(Time::FAR, at, out);
                    }
                }
            }
        }
        self.links.touch(index);
        Ok(Reply::Done)
    }

    /// Announced to others if it differs by an eighth from what they know.
    fn on_carried(
        &mut self,
        now: Time,
        neighbor: NodeAddr,
        rates: Rates,
    ) -> Result<Reply, RequestError> {
        let index = self
            .links
            .by_peer(neighbor)
            .ok_or(RequestError::NoSuchNeighbor)?;
        let link = self.links.at_mut(index);
        let before = link.carried.and_then(|carried| carried.told(now));
        let carried = Carried::after(link.carried, rates, now);
        link.carried = Some(carried);
        self.own_record.note_if(carried.is_news(before));
        Ok(Reply::Done)
    }

    /// Announced to others if the number has changed.
    fn on_hops(
        &mut self,
        neighbor: NodeAddr,
        hops: Option<NonZeroU8>,
    ) -> Result<Reply, RequestError> {
        let index = self
            .links
            .by_peer(neighbor)
            .ok_or(RequestError::NoSuchNeighbor)?;
        let before = core::mem::replace(&mut self.links.at_mut(index).hops, hops);
        self.own_record.note_if(before != hops);
        Ok(Reply::Done)
    }

    pub(super) fn meet(
        &mut self,
        now: Time,
        neighbor: Neighbor,
        out: &mut impl Outbox<Node>,
    ) -> Result<Reply, RequestError> {
        let Neighbor {
            addr,
            name,
            at,
            more,
            capacity_kbps,
            reliable,
        } = neighbor;
        if addr == self.addr || !addr.is_node() {
            return Err(RequestError::NoSuchNeighbor);
        }
        let index = match self.links.by_peer(addr) {
            Some(index) if self.links.at(index).is_left && !self.links.has_room() => {
                return Err(RequestError::TooManyNeighbors);
            }
            Some(index) => index,
            None => {
                let link = Link::new(addr, &name, &self.settings, self.boot, now);
                self.links.add(link).ok_or(RequestError::TooManyNeighbors)?
            }
        };
        let link = self.links.at_mut(index);
        link.is_left = false;
        // The address of a host name is set when it has been resolved.
        link.dial = at.or(link.dial);
        link.dial_more = more;
        link.capacity_kbps = capacity_kbps;
        let reliable = self.settings.reliable.of_link(reliable);
        link.reliable.sender.configure(reliable);
        self.own_record.note();
        self.redial(now, out);
        Ok(Reply::Done)
    }

    pub(super) fn part(
        &mut self,
        now: Time,
        neighbor: NodeAddr,
        why: &'static str,
        out: &mut impl Outbox<Node>,
    ) -> Result<Reply, RequestError> {
        let index = self
            .links
            .by_peer(neighbor)
            .ok_or(RequestError::NoSuchNeighbor)?;
        // The neighbour need not wait for silence.
        self.say_farewell_to(now, index, out);
        let link = self.links.at_mut(index);
        link.is_left = true;
        link.made = Made::Came;
        link.dial = None;
        link.dial_more.clear();
        (link.capacity_kbps, link.carried, link.hops) = (0, None, None);
        link.reliable.sender.configure(self.settings.reliable);
        self.cut(now, index, why, out);
        self.own_record.note();
        Ok(Reply::Done)
    }

    fn locate(
        &mut self,
        now: Time,
        neighbor: NodeAddr,
        (at, more): (UnderlayAddr, Vec<UnderlayAddr>),
        out: &mut impl Outbox<Node>,
    ) -> Result<Reply, RequestError> {
        let index = self
            .links
            .by_peer(neighbor)
            .ok_or(RequestError::NoSuchNeighbor)?;
        let link = self.links.at_mut(index);
        // A name has several addresses: the neighbour may be at each of them, and at its former ones.
        let before = link.dial.replace(at);
        let known = more
            .into_iter()
            .chain(before)
            .chain(link.dial_more.drain(..));
        let mut others: Vec<UnderlayAddr> = Vec::new();
        for other in known {
            if other != at && !others.contains(&other) && others.len() < crate::link::MAX_PATHS {
                others.push(other);
            }
        }
        link.dial_more = others;
        self.redial(now, out);
        Ok(Reply::Done)
    }

    /// Returns the node's state at this moment.
    pub fn snapshot(&self, now: Time) -> Snapshot {
        let own = self.handshakes.identity().certificate();
        let certificate = own.fields();
        let network = self.handshakes.network();
        let root_until_s = self
            .trust
            .own_root()
            .and_then(|it| network.counts_until_s(it));
        let not_after_s = certificate
            .not_after_s
            .min(root_until_s.unwrap_or(u64::MAX));
        let (revocations_root, revocations_version) = network.revocations_edition();
        Snapshot {
            name: self.name.clone(),
            address: self.addr.to_string(),
            uptime_s: now.as_secs_f64(),
            profile: self.settings.name,
            lab: self.lab,
            root: network.root_number(),
            certificate_serial: certificate.serial,
            certificate_root: self.trust.own_root(),
            certificate_not_after_s: not_after_s,
            certificate_expires_soon: self.trust.unix_s(now) + notice_s(own) >= not_after_s,
            revocations_root,
            revocations_version,
            sockets: self.sockets.len(),
            seen: self.own_links.seen_statuses(),
            links: self
                .links
                .iter()
                .filter(|(_, link)| !link.is_left)
                .filter(|(_, link)| !link.is_resting || link.is_up())
                .map(|(_, link)| LinkStatus {
                    why: self.why(link),
                    ..link.status(now, self.own_links.sockets())
                })
                .collect(),
            finding: self.own_links.finding_status(),
            routes: self.routes(),
            flows: self.flow_statuses(now),
            streams: self.stream_statuses(),
            ends: self.end_statuses(now),
            suspects: self.suspect_statuses(now),
            paths_bad: self.audits.findings(),
            flooders: self.flooder_statuses(),
            doubles: self.doubles.statuses(now, self.addr),
            held: self.handover.status(),
            database_nodes: self.router.database().nodes().count(),
        }
    }

    fn flooder_statuses(&self) -> Vec<FlooderStatus> {
        let flooders = self.origins.flooders().into_iter().take(FLOODERS_SHOWN);
        let status = |(node, dropped): (NodeAddr, u64)| FlooderStatus {
            node: node.to_string(),
            dropped,
        };
        flooders.map(status).collect()
    }

    fn routes(&self) -> Vec<RouteStatus> {
        let mut routes = Vec::new();
        for (metric, name) in METRICS {
            for to in self.router.tables().destinations() {
                if let Some(route) = self.router.tables().route(metric, to) {
                    routes.push(RouteStatus {
                        to: to.to_string(),
                        metric: name,
                        next_hop: route.next_hop.to_string(),
                        cost: metric.in_natural_unit(route.cost),
                        latency_ms: route.latency.as_secs_f64() * 1e3,
                    });
                }
            }
        }
        routes
    }
}

impl Link {
    fn status(&self, now: Time, own: &[UnderlayAddr]) -> LinkStatus {
        let path = &self.path;
        let state = path.state();
        let price_ends = path.hello.price_ends(now);
        let (sent, received) = (self.history.stats(), self.receiver.stats());
        let announced = self.announce.announced();
        LinkStatus {
            name: self.name.clone(),
            peer: self.peer.to_string(),
            at: path.at.or(self.dial).map(|at| at.to_string()),
            dialled_at: self.dial.map(|at| at.to_string()),
            over: match self.is_over_stream() {
                true => "tcp",
                false => "udp",
            },
            post_quantum: path.sessions.current().is_some_and(Session::is_hybrid),
            state,
            why: String::new(),
            price_ms: f64::from(path.hello.price_us(now)) / 1e3,
            price_ends_in_s: price_ends.map(|at| at.since(now).as_secs_f64()),
            reason: self.reason(now).filter(|_| state != "up"),
            since_s: now.since(self.since).as_secs_f64(),
            rtt_ms: path
                .hello
                .rtt()
                .smoothed()
                .map(|rtt| rtt.as_secs_f64() * 1e3),
            rtt_least_ms: path.hello.rtt().least().map(|rtt| rtt.as_secs_f64() * 1e3),
            rtt_varies_ms: path.hello.rtt().usually_longer().as_secs_f64() * 1e3,
            trouble: self.trouble(),
            loss_in_pct: path.loss.rate() * 100.0,
            loss_in_packets: path.loss.packets(),
            loss_out_pct: path.hello.loss_out().share() * 100.0,
            loss_run_in: path.loss.run(),
            loss_run_out: self.pilot.run(),
            heard_s: self.silence(now).map(|silence| silence.as_secs_f64()),
            announced_latency_ms: announced.map(|cost| f64::from(cost.latency_us) / 1e3),
            announced_loss_pct: announced.map(|cost| cost.loss_share() * 100.0),
            mtu_bytes: path.mtu.usable(),
            hops: self.hops,
            active: path.hello.is_active(),
            impairment: path.impairment.as_ref().map(|i| i.model().to_string()),
            paths: self.path_statuses(now, own),
            counts: self.counts,
            realtime: LaneStatus {
                received: received.received,
                missing: received.missing,
                recovered: received.recovered.iter().sum(),
                given_up: received.given_up,
                duplicates: received.duplicates,
                requests: received.requests,
                originals: sent.originals,
                retransmissions: sent.retransmissions,
                throttled: sent.throttled,
                too_late: sent.too_late,
                ahead: sent.ahead,
                probes: sent.probes,
                overrun: sent.overrun,
                overrun_lately: self.overrun.grown(sent.overrun),
                brake_bps: self.brake.as_ref().and_then(|brake| brake.rate_bps()),
                repairs: sent.repairs,
                decoded: received.decoded,
                protection: self.protection_status(),
            },
            reliable: self.reliable_status(),
        }
    }

    pub(crate) fn protection_status(&self) -> ProtectionStatus {
        let (plan, pilot) = (self.pilot.plan(), &self.pilot);
        ProtectionStatus {
            plan: match plan.share {
                Some(share) if share.lag > 0 => "copies",
                Some(_) => "repair",
                None if self.requests_there() > 0 => "requests",
                None => "none",
            },
            reason: plan.reason.text(),
            repair_pct: plan.share.map_or(0.0, |share| share.ratio() * 100.0),
            window: plan.share.map_or(0, |share| share.width),
            lag: plan.share.map_or(0, |share| share.lag),
            target_pct: percent(plan.target),
            target_of: plan.target_of.map(|flow| flow.to_string()),
            most_pct: percent(plan.most),
            predicted_pct: plan.predicted * 100.0,
            requests_pct: plan.requests * 100.0,
            requests_lack_ms: plan.requests_lack.map(|lack| lack.as_millis()),
            measured_pct: pilot.measured().map(|(share, _)| share * 100.0),
            measured_packets: pilot.measured().map_or(0, |(_, packets)| packets),
            cost_pct: 100.0 * self.repair_cost(),
            changes: pilot.changes(),
        }
    }

    fn reliable_status(&self) -> ReliableStatus {
        let sender = &self.reliable.sender;
        let (sent, received) = (sender.stats(), self.reliable.receiver.stats());
        let srtt = sender.rtt().smoothed();
        ReliableStatus {
            congestion: sender.family().label(),
            window: sender.congestion_window(),
            flows: sender.flows(),
            in_flight: sender.in_flight(),
            queued: sender.queued(),
            queued_bytes: sender.queued_bytes(),
            srtt_ms: srtt.map(|rtt| rtt.as_secs_f64() * 1e3),
            originals: sent.sent,
            retransmissions: sent.retransmissions,
            spurious: sent.spurious,
            timeouts: sent.timeouts,
            cuts: sent.cuts,
            marked: sent.marked,
            overflows: sent.overflows,
            received: received.received,
            recovered: received.recovered,
            duplicates: received.duplicates,
        }
    }
}

/// Returns the percentage of a setting, without the rounding errors of binary fractions.
pub(super) fn percent(share: f64) -> f64 {
    (share * 1e8).round() / 1e6
}
