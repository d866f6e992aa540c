//! The flows of this node, for status: their properties, and their paths from here.

use super::operate::percent;
use super::{Node, metric};
use crate::flow::{Flow, FlowKey};
use crate::link::LinkIndex;
use crate::snapshot::{FlowStatus, StreamStatus};
use crate::sockets::Outgoing;
use crate::stamps::Wish;
use base::{Duration, NodeAddr, Time, VirtualPort};
use wire::HEADER_BYTES;
use wire::data::{Class, LinkProtocol, Routing};
use wire::ipc::{Options, RouteBy, Scheme};

/// Maximum number of flows in a snapshot, separately for those that begin here and the others: a full table would have
/// 4096.
const MAX_FLOWS_LISTED: usize = 512;
/// If another link carried packets in place of a full one this recently, it still does.
const PASSED_OF_LATE: Duration = Duration::from_secs(2);

impl Node {
    pub(super) fn flow_statuses(&self, now: Time) -> Vec<FlowStatus> {
        let own = self.sockets.outgoing().take(MAX_FLOWS_LISTED);
        let own = own.map(|(from, options, to, port, flow)| {
            self.outgoing(now, from, options, (to, port), flow)
        });
        let others = self.flows.iter().take(MAX_FLOWS_LISTED);
        own.chain(others.map(|flow| self.passing(now, flow)))
            .collect()
    }

    pub(super) fn stream_statuses(&self) -> Vec<StreamStatus> {
        let streams = self.streams.iter().take(MAX_FLOWS_LISTED);
        streams.map(|stream| stream.status(self.addr)).collect()
    }

    /// Returns the status of a flow that begins here.
    fn outgoing(
        &self,
        now: Time,
        from: VirtualPort,
        options: &Options,
        (to, port): (NodeAddr, VirtualPort),
        flow: &Outgoing,
    ) -> FlowStatus {
        let by = options.route_by();
        let paths = match by {
            Some(RouteBy::Stamp(Scheme::Flooding)) => Vec::new(),
            Some(RouteBy::Stamp(scheme)) => self.stamped_paths(to, scheme, options),
            _ => self.path_by_table(options.class.routing, to),
        };
        let next = paths.first().and_then(|path| path.get(1));
        let next: Option<NodeAddr> = next.and_then(|next| next.parse().ok());
        let key = FlowKey {
            source: self.addr,
            source_port: from,
            destination: to,
            destination_port: port,
        };
        FlowStatus {
            refused: next.and_then(|next| self.refusal(now, options.class.link, next, &key)),
            role: "originates",
            link: options.class.link.label(),
            routing: by.map_or(options.class.routing.label(), RouteBy::label),
            priority: options.class.priority,
            deadline_ms: flow.deadline.map(|deadline| deadline.as_secs_f64() * 1e3),
            target_pct: options.aim.target().map(percent),
            most_pct: options.aim.most().map(percent),
            from: format!("{}:{from}", self.addr),
            to: format!("{to}:{port}"),
            next_hop: next.map(|next| next.to_string()),
            paths,
            packets: flow.packets,
            bytes: flow.bytes + flow.packets * HEADER_BYTES as u64,
            duplicates: 0,
            expired: 0,
            idle_s: now.since(flow.last).as_secs_f64(),
        }
    }

    /// Returns the status of a flow that passes, or ends here.
    fn passing(&self, now: Time, flow: &Flow) -> FlowStatus {
        let Class {
            link,
            routing,
            priority,
        } = flow.class;
        let to = flow.key.destination;
        let is_here = to == self.addr;
        let aim = self.aims.of(&flow.key).unwrap_or_default();
        let generation = self.router.tables().generation();
        let cached = flow.cached.filter(|cached| cached.generation == generation);
        let next = cached.map(|cached| self.links.at(LinkIndex(cached.link as u16)).peer);
        FlowStatus {
            refused: next.and_then(|next| self.refusal(now, link, next, &flow.key)),
            role: if is_here { "delivers" } else { "forwards" },
            link: link.label(),
            routing: routing.label(),
            priority,
            deadline_ms: None,
            target_pct: aim.target().map(percent),
            most_pct: aim.most().map(percent),
            paths: if is_here {
                Vec::new()
            } else {
                self.path_by_table(routing, to)
            },
            from: format!("{}:{}", flow.key.source, flow.key.source_port),
            to: format!("{to}:{}", flow.key.destination_port),
            next_hop: next.map(|next| next.to_string()),
            packets: flow.packets,
            bytes: flow.bytes,
            duplicates: flow.duplicates,
            expired: flow.expired,
            idle_s: now.since(flow.last_seen).as_secs_f64(),
        }
    }

    /// Returns why the link to the neighbour does not carry a flow of this link protocol.
    fn refusal(
        &self,
        now: Time,
        link: LinkProtocol,
        next: NodeAddr,
        key: &FlowKey,
    ) -> Option<String> {
        if link != LinkProtocol::RealTime {
            return None;
        }
        let link = self.links.at(self.links.by_peer(next)?);
        let brake = link.brake.as_ref()?;
        let since = brake.refused_since(key.hash())?;
        let limit = brake.rate_bps().map_or(String::new(), |bps| {
            format!(", which carries {} kbit/s", bps / 1_000)
        });
        let passed = link
            .passed
            .filter(|(_, at)| now.since(*at) < PASSED_OF_LATE);
        let around = passed.map_or(String::new(), |(way, _)| {
            format!("; packets go by {} instead", self.links.at(way).name)
        });
        Some(format!(
            "no room on the link to {}{limit}, for {} s{around}",
            link.name,
            now.since(since).as_micros() / 1_000_000
        ))
    }

    /// Returns the path that the tables of all nodes form, or none.
    fn path_by_table(&self, routing: Routing, to: NodeAddr) -> Vec<Vec<String>> {
        let path = metric(routing).and_then(|metric| self.router.path(metric, to));
        let path = path.filter(|path| path.len() > 1);
        let addresses = |path: Vec<NodeAddr>| path.iter().map(NodeAddr::to_string).collect();
        path.map(addresses).into_iter().collect()
    }

    /// Returns the paths that this node stamps at present; without a stamp, packets go by table.
    fn stamped_paths(&self, to: NodeAddr, scheme: Scheme, options: &Options) -> Vec<Vec<String>> {
        let wish = Wish {
            to,
            scheme,
            link: options.class.link,
            deadline: options.deadline,
        };
        let paths = self.router.stamped(&wish);
        let paths: Vec<Vec<String>> = paths
            .map(|path| path.iter().map(ToString::to_string).collect())
            .collect();
        if paths.is_empty() {
            return self.path_by_table(Routing::ExpectedLatency, to);
        }
        paths
    }
}
