//! Checks whether the trees of a world's groups are complete. Every node knows the members, as far as records contain
//! them. A tree of Scribe has one root, which every source outside the tree knows; it is connected, and contains all
//! members and no superfluous node.

use super::groups::{Groups, address};
use super::network::Nodes;
use base::NodeAddr;
use graph::Metric;
use scribe::{Id, Scribe};
use std::collections::BTreeSet;
use wire::groups::TreeBuilder;

/// Returns why the tree of some group is not complete, or `None`. All nodes must be running.
pub(super) fn complaint(nodes: &Nodes<'_>, groups: &Groups) -> Option<String> {
    let all = groups.groups.iter().enumerate();
    let mut complaints = all.filter_map(|(g, group)| match group.builder {
        TreeBuilder::LinkState => membership_complaint(nodes, groups, g),
        TreeBuilder::Scribe => tree_complaint(nodes, groups, g),
    });
    complaints.next()
}

/// Finds records with other members than the real ones.
fn membership_complaint(nodes: &Nodes<'_>, groups: &Groups, g: usize) -> Option<String> {
    let wanted: Vec<NodeAddr> = groups.members(g).map(|i| nodes.addr(i)).collect();
    (0..nodes.hosts.len()).find_map(|i| {
        let known = nodes.running(i)?.node().database().membership();
        let known: Vec<NodeAddr> = known.members(address(g)).collect();
        let told = || format!("group {g}: node {i} knows the members {known:?}, not {wanted:?}");
        (known != wanted).then(told)
    })
}

fn tree_complaint(nodes: &Nodes<'_>, groups: &Groups, g: usize) -> Option<String> {
    let group = address(g);
    let count = nodes.hosts.len();
    let key = Id::of_group(group);
    let closest = (0..count).min_by(|a, b| {
        let id = |i: usize| Id::of_node(nodes.addr(i));
        key.closer(id(*a), id(*b))
    })?;
    let members: BTreeSet<usize> = groups.members(g).collect();
    for i in 0..count {
        let told = |what: String| Some(format!("group {g}: node {i} {what}"));
        let Some(scribe) = nodes.running(i).and_then(|station| station.scribe()) else {
            return told("runs no Scribe".to_owned());
        };
        let is_wanted = members.contains(&i);
        if scribe.is_member(group) != is_wanted {
            return told(format!("is a member: {}", !is_wanted));
        }
        if !scribe.is_in_tree(group) {
            continue;
        }
        match scribe.parent(group) {
            None if i != closest => return told(format!("is a root beside {closest}")),
            None => {}
            Some(parent) => {
                let above = scribe_at(nodes, parent);
                let knows = above.is_some_and(|s| s.children(group).contains(&scribe.own()));
                if !knows {
                    return told(format!("is not known to its parent {parent}"));
                }
            }
        }
        for child in scribe.children(group) {
            let below = scribe_at(nodes, *child).and_then(|s| s.parent(group));
            if below != Some(scribe.own()) {
                return told(format!("has the child {child}, whose parent is {below:?}"));
            }
        }
        if !is_wanted && scribe.children(group).is_empty() {
            return told("is in the tree without need".to_owned());
        }
    }
    // A source outside of the tree must know the root.
    groups.groups[g].sources.iter().find_map(|&i| {
        let scribe = nodes.running(i)?.scribe()?;
        let root = scribe.root(group);
        let is_lost = !scribe.is_in_tree(group) && root != Some(nodes.addr(closest));
        is_lost.then(|| format!("group {g}: node {i} sends to {root:?}, the root is {closest}"))
    })
}

fn scribe_at<'a>(nodes: &'a Nodes<'_>, addr: NodeAddr) -> Option<&'a Scribe> {
    nodes.running(place(nodes, addr)?)?.scribe()
}

fn place(nodes: &Nodes<'_>, addr: NodeAddr) -> Option<usize> {
    (0..nodes.hosts.len()).find(|i| nodes.addr(*i) == addr)
}

/// Returns parents and children of all nodes in all trees of Scribe: the result is equal if nothing has changed.
pub(super) fn shape(nodes: &Nodes<'_>, groups: &Groups) -> Vec<(Option<NodeAddr>, Vec<NodeAddr>)> {
    let mut shape = Vec::new();
    for g in 0..groups.groups.len() {
        for i in 0..nodes.hosts.len() {
            if let Some(scribe) = nodes.running(i).and_then(|station| station.scribe()) {
                let children = scribe.children(address(g)).to_vec();
                shape.push((scribe.parent(address(g)), children));
            }
        }
    }
    shape
}

/// Returns the most hops that a packet of a group takes from a node to a member: along the tree, and by the metric
/// between its nodes.
pub(super) fn longest_way(nodes: &Nodes<'_>, groups: &Groups, g: usize, source: usize) -> usize {
    let count = nodes.hosts.len();
    if groups.groups[g].builder == TreeBuilder::LinkState {
        return count - 1;
    }
    let metric = wire_metric(groups, g);
    let group = address(g);
    let up = |from: usize| -> usize {
        let (mut at, mut hops) = (from, 0);
        while let Some(parent) = nodes
            .running(at)
            .and_then(|station| station.scribe()?.parent(group))
            .and_then(|parent| place(nodes, parent))
        {
            hops += way(nodes, metric, at, parent).max(way(nodes, metric, parent, at));
            at = parent;
        }
        hops
    };
    let key = Id::of_group(group);
    let root = (0..count).min_by(|a, b| {
        let id = |i: usize| Id::of_node(nodes.addr(i));
        key.closer(id(*a), id(*b))
    });
    let in_tree = nodes
        .running(source)
        .and_then(|station| station.scribe())
        .is_some_and(|scribe| scribe.is_in_tree(group));
    let first = match in_tree {
        true => up(source),
        false => root.map_or(0, |root| way(nodes, metric, source, root)),
    };
    first + groups.members(g).map(up).max().unwrap_or(0)
}

fn wire_metric(groups: &Groups, g: usize) -> Metric {
    use wire::data::Routing;
    match groups.groups[g].options.class.routing {
        Routing::Hops => Metric::Hops,
        Routing::Latency => Metric::Latency,
        Routing::Loss => Metric::Loss,
        _ => Metric::ExpectedLatency,
    }
}

/// Returns the hops from one node to another, by the tables.
fn way(nodes: &Nodes<'_>, metric: Metric, from: usize, to: usize) -> usize {
    let (mut at, mut hops) = (from, 0);
    while at != to && hops <= nodes.hosts.len() {
        let next = nodes
            .running(at)
            .and_then(|station| station.node().next_hop(metric, nodes.addr(to)));
        let Some(next) = next.and_then(|next| place(nodes, next)) else {
            return nodes.hosts.len();
        };
        at = next;
        hops += 1;
    }
    hops
}
