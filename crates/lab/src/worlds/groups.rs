//! The groups of a world: members join and leave, sources send, and the arrivals at each member.
//!
//! ```text
//!   members:   join ── leave ── join …   (a node has one of each group; a crash ends it, a restart
//!                                         begins it anew)
//!   operator:  by Scribe ── by link state ── by Scribe
//!   sources:   ─┴┴┴┴┴┴┴┴┴┴┴┴┴┴┴┴┴┴┴┴┴┴┴┴┴┴▶  whether anybody is a member or not
//! ```
//! At all times each member gets each packet at most once, unaltered and in time; a node that has left gets nothing.
//! After all faults have ended, each member gets every packet.

use super::network::Nodes;
use super::plan::{Group, Plan};
use base::{ClientId, Duration, NodeAddr, Rng, Time, VirtualPort};
use host::station::OPERATOR;
use overlay::Request;
use overlay::request::{Delivery, Operation};
use std::collections::BTreeMap;
use wire::HEADROOM;
use wire::groups::{Setting, TreeBuilder, Ways};

/// Bytes of payload that identify the packet and contain its time of sending.
const LABEL_BYTES: usize = 16;
const PAYLOAD_BYTES: usize = 160;
const PORT: VirtualPort = VirtualPort(5_000);
/// The first client numbers of members, and of sources.
const MEMBERS: u32 = 40_000_000;
const SOURCES: u32 = 41_000_000;

/// A source of a group: the index of the group, and the index among the group's sources.
type Source = (usize, usize);

/// All groups.
pub(super) struct Groups {
    pub(super) groups: Vec<Group>,
    start: Time,
    /// Per group and node: since when the node has a member, if it has one.
    members: Vec<Vec<Option<Time>>>,
    /// Per group and node: whether the node should have a member after a restart.
    wanted: Vec<Vec<bool>>,
    /// The builder of each group's tree that the operator has chosen at present.
    builders: Vec<TreeBuilder>,
    /// Packets sent, by source.
    sent: BTreeMap<Source, usize>,
    /// When each packet arrived, by source and node.
    arrivals: BTreeMap<(Source, usize), Vec<Option<Time>>>,
    /// The latest packet delivered since the member joined, by source and node.
    latest: BTreeMap<(Source, usize), usize>,
    /// Per node: when it last lost its memory.
    forgot: Vec<Option<Time>>,
    /// Number of copies that arrived.
    pub(super) received: u64,
}

impl Groups {
    /// Lets the first members join, and opens the sources' sockets.
    pub(super) fn open(nodes: &mut Nodes<'_>, plan: &Plan) -> Groups {
        let groups = plan.groups.clone();
        let mut all = Groups {
            start: nodes.world.now(),
            members: vec![vec![None; plan.nodes]; groups.len()],
            wanted: vec![vec![false; plan.nodes]; groups.len()],
            builders: groups.iter().map(|group| group.builder).collect(),
            sent: BTreeMap::new(),
            arrivals: BTreeMap::new(),
            latest: BTreeMap::new(),
            forgot: vec![None; plan.nodes],
            received: 0,
            groups,
        };
        for g in 0..all.groups.len() {
            for node in all.groups[g].members.clone() {
                all.wanted[g][node] = true;
            }
        }
        for node in 0..plan.nodes {
            all.open_at(nodes, node);
        }
        all
    }

    /// Removes the members of a node that is down.
    pub(super) fn on_crash(&mut self, node: usize) {
        self.members.iter_mut().for_each(|of| of[node] = None);
    }

    /// Reopens the sockets of a restarted node's clients.
    pub(super) fn reopen(&mut self, nodes: &mut Nodes<'_>, node: usize) {
        self.forgot[node] = Some(nodes.world.now());
        self.on_crash(node);
        self.open_at(nodes, node);
    }

    fn open_at(&mut self, nodes: &mut Nodes<'_>, node: usize) {
        for g in 0..self.groups.len() {
            let group = &self.groups[g];
            let sources = group.sources.iter().enumerate();
            for (k, _) in sources.filter(|(_, at)| **at == node) {
                let options = Request::Options(group.options);
                nodes.request(node, source((g, k)), options);
            }
            if group.operator == node {
                self.choose(nodes, g, self.builders[g]);
            }
            if self.wanted[g][node] {
                self.join(nodes, g, node);
            }
        }
    }

    /// Sets the builder of a group's tree at the operator.
    fn choose(&mut self, nodes: &mut Nodes<'_>, g: usize, tree: TreeBuilder) {
        self.builders[g] = tree;
        let is_told = tree == TreeBuilder::Scribe || self.groups[g].switches;
        let setting = is_told.then(|| Setting {
            group: address(g),
            prefix: 32,
            version: 0,
            tree,
            class: self.groups[g].options.class,
            deadline_ms: 0,
            rate_kbps: 0,
            ways: Ways::Auto,
            delivery: None,
            aim: Default::default(),
        });
        self.tell(nodes, g, setting);
    }

    fn tell(&self, nodes: &mut Nodes<'_>, g: usize, setting: Option<Setting>) {
        let (group, prefix) = (address(g), 32);
        let operation = Operation::SetGroup {
            group,
            prefix,
            setting,
        };
        let operator = self.groups[g].operator;
        nodes.request(operator, OPERATOR, Request::Operate(operation));
    }

    fn join(&mut self, nodes: &mut Nodes<'_>, g: usize, node: usize) {
        let options = Request::Options(self.groups[g].options);
        nodes.request(node, member(g), options);
        let (group, port) = (address(g), PORT);
        nodes.request(node, member(g), Request::Join { group, port });
        self.members[g][node] = Some(nodes.world.now());
        self.latest
            .retain(|((of, _), at), _| (*of, *at) != (g, node));
    }

    fn leave(&mut self, nodes: &mut Nodes<'_>, g: usize, node: usize, closes: bool) {
        let (group, port) = (address(g), PORT);
        let request = match closes {
            true => Request::Close,
            false => Request::Leave { group, port },
        };
        nodes.request(node, member(g), request);
        self.members[g][node] = None;
    }

    /// Lets a member join or leave, or an operator change the builder.
    pub(super) fn stir(&mut self, nodes: &mut Nodes<'_>, rng: &mut Rng) -> Option<String> {
        let g = rng.below(self.groups.len() as u64) as usize;
        if self.groups[g].switches && rng.chance(0.1) {
            let tree = match self.builders[g] {
                TreeBuilder::LinkState => TreeBuilder::Scribe,
                TreeBuilder::Scribe => TreeBuilder::LinkState,
            };
            self.choose(nodes, g, tree);
            return Some(format!("group {g} by {}", tree.label()));
        }
        let node = rng.below(nodes.hosts.len() as u64) as usize;
        if nodes.down[node] {
            return None;
        }
        let joins = self.members[g][node].is_none();
        self.wanted[g][node] = joins;
        match joins {
            true => self.join(nodes, g, node),
            false => self.leave(nodes, g, node, rng.chance(0.3)),
        }
        let verb = if joins { "joins" } else { "leaves" };
        Some(format!("node {node} {verb} group {g}"))
    }

    /// Lets operators choose the builder of the plan.
    pub(super) fn settle(&mut self, nodes: &mut Nodes<'_>) {
        for g in 0..self.groups.len() {
            if self.builders[g] != self.groups[g].builder {
                self.choose(nodes, g, self.groups[g].builder);
            }
        }
    }

    /// Lets all members leave, and withdraws the settings of the groups.
    pub(super) fn close(&mut self, nodes: &mut Nodes<'_>) {
        for g in 0..self.groups.len() {
            for node in self.members(g).collect::<Vec<_>>() {
                self.leave(nodes, g, node, false);
            }
            self.tell(nodes, g, None);
        }
    }

    /// Schedules the packets that are sent before `until`.
    pub(super) fn send(&mut self, nodes: &mut Nodes<'_>, until: Time) {
        for (of, at) in self.sources() {
            let group = &self.groups[of.0];
            loop {
                let n = self.sent.get(&of).copied().unwrap_or(0);
                let when = sent_at(self.start, group, n);
                if when >= until {
                    break;
                }
                self.sent.insert(of, n + 1);
                // A host without a free buffer sends nothing, and the packet counts as lost.
                let bytes = payload(of, n, when);
                if let Some(payload) = nodes.world.pool().copy_of(HEADROOM, &bytes) {
                    let (to, port) = (address(of.0), PORT);
                    let request = Request::Send { to, port, payload };
                    let host = nodes.hosts[at];
                    nodes.world.request_at(when, host, source(of), request);
                }
            }
        }
    }

    /// Handles a packet of a group at a client. Returns an error if a condition is violated.
    pub(super) fn on_datagram(
        &mut self,
        at: Time,
        (node, client): (usize, ClientId),
        (from, group): (NodeAddr, NodeAddr),
        bytes: &[u8],
        slack: Duration,
    ) -> Result<(), String> {
        let word = |i: usize| bytes.get(i..i + 8).and_then(|w| w.try_into().ok());
        let (Some(label), Some(sent)) = (word(0), word(8)) else {
            return Err("a payload of a group was cut short".to_owned());
        };
        let (label, sent) = (u64::from_be_bytes(label), u64::from_be_bytes(sent));
        let of = ((label >> 48) as usize, (label >> 32) as usize & 0xffff);
        let n = label as u32 as usize;
        let Some(&source_at) = self.groups.get(of.0).and_then(|g| g.sources.get(of.1)) else {
            return Err(format!("a packet of source {of:?}, which does not exist"));
        };
        let when = sent_at(self.start, &self.groups[of.0], n);
        let intact = n < self.sent.get(&of).copied().unwrap_or(0)
            && sent == when.as_nanos()
            && bytes == payload(of, n, when)
            && client == member(of.0)
            && group == address(of.0)
            && from == crate::whole::address(source_at);
        if !intact {
            return Err(format!("packet {n} of source {of:?} is not what was sent"));
        }
        let Some(joined) = self.members[of.0][node] else {
            return Err(format!(
                "node {node} has left, and got packet {n} of {of:?}"
            ));
        };
        let group = &self.groups[of.0];
        let options = &group.options;
        let delay = at.since(when);
        // A tree of Scribe may use the same links several times.
        let by_scribe = group.switches || group.builder == TreeBuilder::Scribe;
        let slack = slack * if by_scribe { 4 } else { 1 };
        if options.deadline.is_some_and(|most| delay > most + slack) {
            return Err(format!("packet {n} of {of:?} came to {node} after {delay}"));
        }
        let seen = self.arrivals.entry((of, node)).or_default();
        seen.resize(seen.len().max(n + 1), None);
        let forgot = self.forgot[node];
        if let Some(before) = seen[n].replace(at)
            && forgot.is_none_or(|forgot| forgot < before)
        {
            return Err(format!(
                "packet {n} of {of:?} was delivered to {node} at {before} and again at {at}"
            ));
        }
        self.received += 1;
        let latest = self.latest.insert((of, node), n);
        let restarted = self.forgot[source_at].is_some_and(|forgot| forgot > joined);
        if options.delivery == Delivery::InOrder
            && !restarted
            && let Some(latest) = latest.filter(|latest| *latest > n)
        {
            return Err(format!(
                "{of:?} is out of order at {node}: {latest} before {n}"
            ));
        }
        Ok(())
    }

    /// Returns the sources and their nodes.
    pub(super) fn sources(&self) -> Vec<(Source, usize)> {
        let groups = self.groups.iter().enumerate();
        let all = groups.flat_map(|(g, group)| {
            let sources = group.sources.iter().enumerate();
            sources.map(move |(k, at)| ((g, k), *at))
        });
        all.collect()
    }

    /// Returns the nodes that have a member of a group.
    pub(super) fn members(&self, g: usize) -> impl Iterator<Item = usize> + '_ {
        let nodes = self.members[g].iter().enumerate();
        nodes.filter_map(|(node, joined)| joined.map(|_| node))
    }

    /// Returns the number of packets sent by all sources.
    pub(super) fn sent(&self) -> u64 {
        self.sent.values().map(|n| *n as u64).sum()
    }

    /// Returns the number of packets of a source that were sent in a span and did not arrive at a node.
    pub(super) fn lost_between(&self, of: Source, node: usize, from: Time, until: Time) -> usize {
        let came = self
            .arrivals
            .get(&(of, node))
            .map_or(&[][..], Vec::as_slice);
        let all = 0..self.sent.get(&of).copied().unwrap_or(0);
        let counts =
            |n: &usize| (from..until).contains(&sent_at(self.start, &self.groups[of.0], *n));
        let is_lost = |n: &usize| came.get(*n).copied().flatten().is_none();
        all.filter(counts).filter(is_lost).count()
    }

    /// Returns which packets arrived and when: this must not depend on how datagrams are handed over.
    pub(super) fn deliveries(self) -> impl Iterator<Item = Vec<Option<Time>>> {
        self.arrivals.into_values()
    }
}

/// Returns the address of a group.
pub(super) const fn address(g: usize) -> NodeAddr {
    NodeAddr(0xefc0_0100 + g as u32)
}

fn member(g: usize) -> ClientId {
    ClientId(MEMBERS + g as u32)
}

fn source((g, k): Source) -> ClientId {
    ClientId(SOURCES + (g * 16 + k) as u32)
}

fn sent_at(start: Time, group: &Group, n: usize) -> Time {
    start + group.interval * n as u64
}

fn payload((g, k): Source, n: usize, at: Time) -> Vec<u8> {
    let mut bytes = vec![n as u8; PAYLOAD_BYTES];
    let label = (g as u64) << 48 | (k as u64) << 32 | n as u64;
    bytes[..8].copy_from_slice(&label.to_be_bytes());
    bytes[8..LABEL_BYTES].copy_from_slice(&at.as_nanos().to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Arrivals;

    #[test]
    fn what_must_not_be_delivered_is_noticed() {
        let mut plan = (0..).map(|seed| Plan::draw(&mut Rng::new(seed)));
        let mut plan = plan.find(|plan| !plan.groups.is_empty()).unwrap();
        let group = &mut plan.groups[0];
        group.members = vec![0];
        group.options.deadline = Some(Duration::from_millis(100));
        group.options.delivery = Delivery::InOrder;
        let (group, nodes_count) = (group.clone(), plan.nodes);
        assert!(nodes_count >= 2);
        let mut nodes = Nodes::new(1, &plan, Arrivals::Bursts);
        let mut all = Groups::open(&mut nodes, &plan);
        all.send(&mut nodes, Time::ZERO + Duration::from_secs(2));
        let from = nodes.addr(group.sources[0]);
        let of = (0, 0);
        let sent = |n: usize| sent_at(Time::ZERO, &group, n);
        let mut deliver = |n: usize, bytes: &[u8], delay_ms: u64, node: usize| {
            let at = sent(n) + Duration::from_millis(delay_ms);
            let way = (from, address(0));
            let slack = Duration::from_millis(1);
            all.on_datagram(at, (node, member(0)), way, bytes, slack)
        };
        let packet = |n| payload(of, n, sent(n));
        assert_eq!(deliver(2, &packet(2), 50, 0), Ok(()));
        let again = deliver(2, &packet(2), 60, 0).unwrap_err();
        assert!(again.contains("and again"), "{again}");
        let late = deliver(3, &packet(3), 110, 0).unwrap_err();
        assert!(late.contains("after"), "{late}");
        let back = deliver(1, &packet(1), 90, 0).unwrap_err();
        assert!(back.contains("out of order"), "{back}");
        let left = deliver(4, &packet(4), 10, 1).unwrap_err();
        assert!(left.contains("has left"), "{left}");
        let mut altered = packet(4);
        altered[LABEL_BYTES] ^= 1;
        assert!(deliver(4, &altered, 10, 0).is_err());
        assert!(deliver(4, &packet(4)[..LABEL_BYTES], 10, 0).is_err());
        assert!(deliver(4, &[], 10, 0).is_err());
        let never_sent = payload(of, 1 << 20, sent(1 << 20));
        assert!(deliver(1 << 20, &never_sent, 10, 0).is_err());
    }
}
