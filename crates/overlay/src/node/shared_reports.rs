//! Reports of receivers along the trees of Scribe: from node to node of the tree, up to the source.
//!
//! ```text
//!   member ── its own ──▶ node of the tree ── own + heard ──▶ … ──▶ root ──▶ source outside of it
//! ```
//! The edge that a source's packets came by is the way up. Ends of an edge may be far apart, so a
//! report is a datagram from node to node, of the messages of which control datagrams are made.

use super::Node;
use super::send::{assemble, own_header};
use crate::event::Drop;
use crate::groups::REPORT_EVERY;
use crate::sockets::default_options;
use base::{Burst, NodeAddr, Outbox, Time, VirtualPort};
use std::collections::BTreeMap;
use wire::SEALED_HEADROOM;
use wire::control::{Builder, Message, Messages, Reception};
use wire::data::{Header, Remaining};

/// The virtual port of reports, of those that belong to the node.
pub const REPORTS_PORT: VirtualPort = VirtualPort(8);

impl Node {
    /// Tells the nodes above what the receivers below have got.
    pub(super) fn tell_reports(
        &mut self,
        now: Time,
        own: &BTreeMap<(NodeAddr, NodeAddr), Reception>,
        out: &mut impl Outbox<Node>,
    ) {
        let mut by_node: BTreeMap<NodeAddr, Vec<_>> = BTreeMap::new();
        let active = |used: Time| now.since(used) < super::group_status::ACTIVE;
        for (of, passing) in self.shared.passing().filter(|(_, p)| active(p.used)) {
            let Some(upstream) = passing.upstream else {
                continue;
            };
            let own = own.get(&of).copied();
            let (receivers, worst) = self.reports.below(now, of, own, Some(upstream));
            if receivers > 0 {
                let told = (of, receivers, worst);
                by_node.entry(upstream).or_default().push(told);
            }
        }
        for (to, all) in by_node {
            let mut bytes = [0; super::group_status::REPORT_BYTES_MAX];
            let mut builder = Builder::new(&mut bytes);
            for (of, receivers, worst) in all {
                if builder.group_report(of, receivers, &worst).is_err() {
                    let len = builder.len();
                    self.send_reports(now, to, &bytes[..len], out);
                    builder = Builder::new(&mut bytes);
                    // The longest report fits an empty datagram.
                    let _ = builder.group_report(of, receivers, &worst);
                }
            }
            let len = builder.len();
            self.send_reports(now, to, &bytes[..len], out);
        }
    }

    fn send_reports(&mut self, now: Time, to: NodeAddr, bytes: &[u8], out: &mut impl Outbox<Node>) {
        let port = REPORTS_PORT;
        let seq = self.next_echo_seq();
        let class = default_options().class;
        let mut header = own_header(class, (self.addr, port), (to, port), seq);
        header.remaining = Remaining::from_deadline(Some(REPORT_EVERY));
        let seals = self.seals_to(to, (port, port));
        let payload = out.pool().copy_of(SEALED_HEADROOM, bytes);
        match payload.and_then(|payload| assemble(&header, &[], payload, seals, out)) {
            Some(packet) => self.originate(now, &header, packet, out),
            None => self.drop_one(Drop::NoBuffer, out),
        }
    }

    /// A packet of reports, from the header on. Only nodes send from this port, and only those
    /// beside this one in a group's tree are believed.
    pub(super) fn on_reports(&mut self, now: Time, packet: &Burst, out: &mut impl Outbox<Node>) {
        let header = Header::trusted(packet.bytes());
        let from = header.source();
        if header.source_port() != REPORTS_PORT {
            return self.drop_one(Drop::Malformed, out);
        }
        for message in Messages::new(header.payload()) {
            match message {
                Ok(Message::GroupReport(report))
                    if self.shared.is_beside(now, report.group, from) =>
                {
                    self.take_report(now, from, &report);
                }
                // Of a tree that has just changed, or of a version to come.
                Ok(_) => {}
                Err(_) => return self.drop_one(Drop::Malformed, out),
            }
        }
    }
}
