//! Reports of receivers along the trees of Scribe: from node to node of the tree, up to the source.
//!
//! ```text
//!   member ── its own ──▶ node of the tree ── own + heard ──▶ … ──▶ root ──▶ source outside of it
//! ```
//! The edge by which a source's packets arrived is the path up. The ends of an edge may be far apart, so a report is a
//! datagram from node to node, made of the same messages as control datagrams.

use super::Groups;
use crate::event::Drop;
use crate::flow::Flows;
use crate::groups::{REPORT_EVERY, Reports};
use crate::link::{LinkIndex, Links};
use crate::node::Node;
use crate::node::receive::drop_one;
use crate::node::send::{message, own_header};
use crate::sockets::default_options;
use base::{Burst, Duration, NodeAddr, Outbox, Time, VirtualPort};
use std::collections::{BTreeMap, BTreeSet};
use wire::control::{Builder, GroupReport, Message, Messages, Reception};
use wire::data::{Header, Remaining};

/// The virtual port of reports, of those that belong to the node.
pub const REPORTS_PORT: VirtualPort = VirtualPort(8);

/// A slot without packets for this long is not reported.
const ACTIVE: Duration = Duration::from_secs(10);
/// Bytes of a control datagram with reports; see [`crate::node::control`].
const REPORT_BYTES_MAX: usize = 1_100;
/// How long a node waits to combine the reports of several branches.
const REPORT_GATHER: Duration = Duration::from_millis(100);
/// The least time between two rounds of reports.
const REPORT_SPACING: Duration = Duration::from_secs(1);
/// The reception of this node's own clients, by source and group.
pub(super) type Own = BTreeMap<(NodeAddr, NodeAddr), Reception>;
/// For a source and its group: the number of receivers below, and the worst receptions.
type Report = ((NodeAddr, NodeAddr), u32, Vec<Reception>);

/// The reception of receivers, as reported by the branches below and to the nodes above.
#[derive(Debug, Default)]
pub(super) struct Reporting {
    pub(super) heard: Reports,
    pub(super) due: Time,
    told_at: Time,
}

impl Reporting {
    /// Takes in a report of a branch.
    fn on_report(&mut self, now: Time, from: NodeAddr, report: &GroupReport<'_>) {
        self.heard.on_report(now, from, report);
        // The report is passed on soon, so that the source does not get an old one, a hop older each time.
        let soon = (self.told_at + REPORT_SPACING).max(now + REPORT_GATHER);
        self.due = self.due.min(soon);
    }

    /// Returns true if reports are due.
    fn begin(&mut self, now: Time) -> bool {
        if now < self.due {
            return false;
        }
        (self.told_at, self.due) = (now, now + REPORT_EVERY);
        self.heard.expire(now);
        true
    }
}

impl Groups {
    /// Returns the reception of this node's own clients, by source and group.
    pub(super) fn own_receptions(&self, now: Time, flows: &Flows) -> Own {
        let mut all = Own::new();
        let is_own = |group: NodeAddr| group.is_multicast() && self.local.is_member(group);
        let flows = flows.iter();
        for flow in flows.filter(|flow| is_own(flow.key.destination)) {
            let of = (flow.key.source, flow.key.destination);
            let sum = all.entry(of).or_insert(Reception {
                node: self.own,
                received: 0,
                recovered: 0,
                lost: 0,
            });
            let add = |to: &mut u32, n: u64| {
                *to = to.saturating_add(u32::try_from(n).unwrap_or(u32::MAX));
            };
            add(&mut sum.received, flow.packets);
            add(&mut sum.recovered, flow.recovered);
            add(&mut sum.lost, flow.missing(now));
        }
        all
    }

    /// Returns the reports about the receivers below for the nodes above in Scribe's trees.
    fn for_nodes(&self, now: Time, own: &Own) -> BTreeMap<NodeAddr, Vec<Report>> {
        let mut by_node: BTreeMap<NodeAddr, Vec<Report>> = BTreeMap::new();
        let active = |used: Time| now.since(used) < ACTIVE;
        for (of, passing) in self.shared.passing().filter(|(_, p)| active(p.used)) {
            let own = own.get(&of).copied();
            let (receivers, worst) = self.reports.heard.below(now, of, own, passing.upstream);
            if let Some(upstream) = passing.upstream
                && receivers > 0
            {
                by_node
                    .entry(upstream)
                    .or_default()
                    .push((of, receivers, worst));
            }
        }
        by_node
    }

    /// Returns the reports for the neighbours above in the trees of link state.
    fn for_links(&self, now: Time, own: &Own, links: &Links) -> BTreeMap<LinkIndex, Vec<Report>> {
        let mut seen = BTreeSet::new();
        let mut by_link: BTreeMap<LinkIndex, Vec<Report>> = BTreeMap::new();
        let active = |used: Time| now.since(used) < ACTIVE;
        for slot in self.trees.iter().filter(|slot| active(slot.used)) {
            let of = (slot.key.source, slot.key.group);
            let upstream = slot.upstream.and_then(|peer| links.by_peer(peer));
            if let Some(link) = upstream.filter(|link| links.at(*link).is_up())
                && seen.insert(of)
            {
                let own = own.get(&of).copied();
                let (receivers, worst) = self.reports.heard.below(now, of, own, None);
                if receivers > 0 {
                    by_link
                        .entry(link)
                        .or_default()
                        .push((of, receivers, worst));
                }
            }
        }
        by_link
    }
}

/// Writes reports into as few messages as possible, and passes each to `give`.
fn in_messages(all: &[Report], mut give: impl FnMut(&[u8])) {
    let mut bytes = [0; REPORT_BYTES_MAX];
    let mut builder = Builder::new(&mut bytes);
    for (of, receivers, worst) in all {
        if builder.group_report(*of, *receivers, worst).is_err() {
            let len = builder.len();
            give(&bytes[..len]);
            builder = Builder::new(&mut bytes);
            // The longest report fits an empty datagram.
            let _ = builder.group_report(*of, *receivers, worst);
        }
    }
    let len = builder.len();
    give(&bytes[..len]);
}

impl Node {
    pub(in crate::node) fn on_group_report(
        &mut self,
        now: Time,
        index: LinkIndex,
        report: &GroupReport<'_>,
    ) {
        let peer = self.links.at(index).peer;
        self.groups.reports.on_report(now, peer, report);
    }

    /// Reports the reception of the receivers below to the nodes above, when it is due.
    pub(in crate::node) fn report_groups(&mut self, now: Time, out: &mut impl Outbox<Node>) {
        if !self.groups.reports.begin(now) {
            return;
        }
        let own = self.groups.own_receptions(now, &self.flows);
        for (to, all) in self.groups.for_nodes(now, &own) {
            in_messages(&all, |bytes| self.send_reports(now, to, bytes, out));
        }
        for (link, all) in self.groups.for_links(now, &own, &self.links) {
            let link = self.links.at_mut(link);
            in_messages(&all, |bytes| link.send_control(now, bytes, out));
        }
    }

    fn send_reports(&mut self, now: Time, to: NodeAddr, bytes: &[u8], out: &mut impl Outbox<Node>) {
        let port = REPORTS_PORT;
        let seq = self.next_echo_seq();
        let class = default_options().class;
        let mut header = own_header(class, (self.addr, port), (to, port), seq);
        header.remaining = Remaining::from_deadline(Some(REPORT_EVERY));
        let seals = self.seals_to(to, (port, port));
        let packet = message(&header, (&[], seals), bytes, out);
        self.originate_made(now, &header, packet, out);
    }

    /// Handles a packet of reports, from the header on. Only nodes send from this port, and only those next to this one
    /// in a group's tree are believed.
    pub(in crate::node) fn on_reports(
        &mut self,
        now: Time,
        packet: &Burst,
        out: &mut impl Outbox<Node>,
    ) {
        let header = Header::trusted(packet.bytes());
        let from = header.source();
        if header.source_port() != REPORTS_PORT {
            return drop_one(Drop::Malformed, out);
        }
        for message in Messages::new(header.payload()) {
            match message {
                Ok(Message::GroupReport(report))
                    if self.groups.shared.is_beside(now, report.group, from) =>
                {
                    self.groups.reports.on_report(now, from, &report);
                }
                // The report belongs to a tree that has just changed, or the message to a later version.
                Ok(_) => {}
                Err(_) => return drop_one(Drop::Malformed, out),
            }
        }
    }
}
