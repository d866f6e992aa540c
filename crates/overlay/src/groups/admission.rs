//! Decides whether the links of a group's tree have room for what the group asks for. [Brogle09 §II]
//!
//! ```text
//!   setting of G, said by its source ──▶ the source's tree to the members of G
//!       each link: capacity (told) - rates of the other groups whose trees take it ≥ rate of G ?
//!       each member: delay of its path ≤ deadline of G ?
//! ```
//! The node that sets how a group is to be carried is assumed to be its source. Unknown facts do not lead to a refusal,
//! but are reported: a link without a configured capacity, or a group that has no members yet.
//!
//! No node knows a tree of Scribe as a whole. Each node in it judges the links to a node that wants to join below it,
//! and refuses the node if the links have no room; the refused node then asks others. `// Choice:` for other trees of
//! Scribe, a node takes into account only those that it is in itself; two nodes may promise the same link.

use super::Membership;
use crate::link_state::Database;
use base::NodeAddr;
use graph::Metric;
use graph::redundant::{self, TwoWays};
use graph::spf::Tree;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use wire::groups::{Setting, TreeBuilder, Ways};

/// The decision, with its reasons.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admission {
    /// The group fits, as far as is known.
    pub admitted: bool,
    /// Requirements that do not fit.
    pub refusals: Vec<String>,
    /// Unknown or noteworthy facts.
    pub notes: Vec<String>,
}

/// The links of a tree, as far as it leads to members, and the members that it does not reach.
#[derive(Clone, Debug, Default)]
pub struct Branches {
    /// The links, from and to.
    pub links: BTreeSet<(NodeAddr, NodeAddr)>,
    /// Members that the tree does not reach.
    pub unreached: Vec<NodeAddr>,
    /// The one-way delay to each other member, in microseconds; with two ways, that of the longer one.
    pub delay_us: BTreeMap<NodeAddr, u64>,
    /// The nodes of the two ways to each other member. Only for two trees.
    pub ways: BTreeMap<NodeAddr, redundant::Pair>,
}

/// Returns the two trees from a source to some members.
pub fn two_trees(
    database: &Database,
    source: NodeAddr,
    members: impl Iterator<Item = NodeAddr>,
) -> Branches {
    let topology = database.topology();
    let mut found = Branches::default();
    let mut ways = TwoWays::new(topology, source, Metric::ExpectedLatency);
    let delay_us = |hop: &[NodeAddr]| {
        let ends = topology.index(hop[0]).zip(topology.index(hop[1]));
        let link = ends.and_then(|(from, to)| topology.link(from, to));
        link.map_or(0, |edge| u64::from(edge.link.latency_us))
    };
    for member in members.filter(|member| *member != source) {
        let Some(pair) = ways.as_mut().and_then(|ways| ways.to(member)) else {
            found.unreached.push(member);
            continue;
        };
        let delays = pair
            .iter()
            .map(|way| way.windows(2).map(delay_us).sum::<u64>());
        found
            .delay_us
            .insert(member, delays.max().unwrap_or_default());
        let hops = pair.iter().flat_map(|way| way.windows(2));
        found.links.extend(hops.map(|hop| (hop[0], hop[1])));
        found.ways.insert(member, pair);
    }
    found
}

/// Returns the tree from a source to some members.
pub fn branches(
    database: &Database,
    (source, metric): (NodeAddr, Metric),
    members: impl Iterator<Item = NodeAddr>,
) -> Branches {
    let topology = database.topology();
    let mut found = Branches::default();
    let root = topology.index(source);
    let tree = root.map(|root| Tree::new(topology, root, metric));
    for member in members.filter(|member| *member != source) {
        let node = topology.index(member);
        let Some((tree, mut node)) = tree
            .as_ref()
            .zip(node)
            .filter(|(tree, node)| tree.distance(*node).is_some())
        else {
            found.unreached.push(member);
            continue;
        };
        found.delay_us.insert(member, tree.delay_us(node));
        while let Some(parent) = tree.parent(node) {
            let link = (topology.addr(parent), topology.addr(node));
            if !found.links.insert(link) {
                break;
            }
            node = parent;
        }
    }
    found
}

/// Judges a link-state setting that `source` is about to announce, together with the settings that are already
/// announced.
pub fn admit(
    database: &Database,
    source: NodeAddr,
    setting: &Setting,
    name: impl Fn(NodeAddr) -> String,
) -> Admission {
    let mut answer = Admission::default();
    let tree = trees_of(database, source, setting);
    let apart = |pair: &&redundant::Pair| redundant::common(pair) == Default::default();
    let shared = tree.ways.len() - tree.ways.values().filter(apart).count();
    if shared > 0 {
        answer.notes.push(format!(
            "the two ways to {shared} of {} members share nodes or links: `sinew group show` names them",
            tree.ways.len()
        ));
    }
    if tree.links.is_empty() && tree.unreached.is_empty() {
        let note = "no other node is a member yet: judge again when there are";
        answer.notes.push(note.to_owned());
    }
    for member in &tree.unreached {
        answer
            .notes
            .push(format!("{} is not to be reached now", name(*member)));
    }
    if setting.deadline_ms > 0 {
        for (member, delay_us) in &tree.delay_us {
            let deadline_us = u64::from(setting.deadline_ms) * 1_000;
            if *delay_us > deadline_us {
                answer.refusals.push(format!(
                    "{} is {:.1} ms away, and {} ms are allowed",
                    name(*member),
                    *delay_us as f64 / 1e3,
                    setting.deadline_ms
                ));
            }
        }
    }
    if setting.rate_kbps > 0 {
        let taken = reserved(database, setting.group);
        judge_links(database, setting, &tree.links, &taken, name, &mut answer);
    }
    answer.admitted = answer.refusals.is_empty();
    answer
}

/// Judges whether links have room for what a setting asks for, in addition to the rates taken already.
pub fn judge_links(
    database: &Database,
    setting: &Setting,
    links: &BTreeSet<(NodeAddr, NodeAddr)>,
    taken: &BTreeMap<(NodeAddr, NodeAddr), u64>,
    name: impl Fn(NodeAddr) -> String,
    answer: &mut Admission,
) {
    let mut unknown = 0;
    for link in links {
        let Some(capacity) = database.told(link.0, link.1).capacity_kbps else {
            unknown += 1;
            continue;
        };
        let others = taken.get(link).copied().unwrap_or(0);
        let left = u64::from(capacity).saturating_sub(others);
        if u64::from(setting.rate_kbps) > left {
            answer.refusals.push(format!(
                "the link {} > {} has {capacity} kbit/s, {others} of them taken by other groups: {left} are left, and {} are wanted",
                name(link.0),
                name(link.1),
                setting.rate_kbps
            ));
        }
    }
    if unknown > 0 {
        answer.notes.push(format!(
            "the capacity of {unknown} of {} links is not known: set `capacity` of the neighbours in the nodes' configurations",
            links.len()
        ));
    }
}

/// Returns the links of the edge from one node to another below it in a tree of Scribe.
pub fn edge_links(
    database: &Database,
    from: NodeAddr,
    to: NodeAddr,
    setting: &Setting,
) -> BTreeSet<(NodeAddr, NodeAddr)> {
    let metric = metric_of(setting);
    branches(database, (from, metric), core::iter::once(to)).links
}

/// Returns the rates that the other link-state groups with a rate take on each link, in kbit/s.
pub fn reserved(database: &Database, but: NodeAddr) -> BTreeMap<(NodeAddr, NodeAddr), u64> {
    let membership: &Membership = database.membership();
    let mut taken = BTreeMap::new();
    for (origin, other) in membership.settings() {
        let counts = other.group != but && other.rate_kbps > 0;
        if !counts || other.tree == TreeBuilder::Scribe {
            continue;
        }
        let tree = trees_of(database, origin, &other);
        for link in tree.links {
            *taken.entry(link).or_insert(0) += u64::from(other.rate_kbps);
        }
    }
    taken
}

/// Returns the tree or trees from a source to the members of the group of a setting.
fn trees_of(database: &Database, source: NodeAddr, setting: &Setting) -> Branches {
    let members = database.membership().receivers(setting.group);
    match setting.ways {
        Ways::Two => two_trees(database, source, members),
        // Choice: no room is reserved for second ways. They last as long as the trouble, and avoid full links.
        Ways::Auto | Ways::One | Ways::Targeted => {
            branches(database, (source, metric_of(setting)), members)
        }
    }
}

/// Returns the metric by which the tree of a group is built.
pub fn metric_of(setting: &Setting) -> Metric {
    crate::node::metric(setting.class.routing).unwrap_or(Metric::ExpectedLatency)
}
