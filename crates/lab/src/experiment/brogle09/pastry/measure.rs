//! The measurements: routes, trees, failures, and the cost of a group.

use super::underlay::Stress;
use super::world::World;
use crate::experiment::Row;
use crate::stats::{mean, most};
use base::{Duration, NodeAddr};
use graph::generate::Network;
use scribe::{Id, Scribe};
use std::collections::{BTreeMap, BTreeSet};

/// Number of routes to random ids that are followed.
const LOOKUPS: usize = 2_000;
/// Number of groups of each size.
const GROUPS: usize = 4;
/// Sizes of the groups, as shares of all nodes.
const SHARES: [f64; 3] = [0.01, 0.1, 0.5];
/// How long the overlay takes to notice a failed node: its links give up within 360 ms.
const NOTICE: Duration = Duration::from_millis(360);
/// How often the measurement checks which members are served.
const LOOK: Duration = Duration::from_millis(20);

fn group(n: usize) -> NodeAddr {
    NodeAddr(0xe100_0000 + n as u32)
}

/// Measures ids: whether all differ, and how unevenly the first digits are distributed (χ² with 15 degrees of freedom).
pub(super) fn ids(world: &World, row: &mut Row) {
    let ids: BTreeSet<Id> = world.live().map(Scribe::id).collect();
    let mut counts = [0.0; 16];
    for id in &ids {
        counts[id.digit(0)] += 1.0;
    }
    let even = ids.len() as f64 / 16.0;
    let squares = counts.map(|count: f64| (count - even).powi(2) / even);
    row.set("same_ids", (world.live().count() - ids.len()) as f64);
    row.set("chi_square", squares.iter().sum());
}

/// Measures the nodes' knowledge: wrong leaf sets, and how much denser a node knows its own neighbourhood.
pub(super) fn knowledge(world: &World, row: &mut Row) {
    let mut ring: Vec<(Id, NodeAddr)> = world.live().map(|node| (node.id(), node.own())).collect();
    ring.sort();
    let count = ring.len();
    let near = (count / 32).max(1);
    let (mut wrong, mut known_near, mut known_far, mut known) = (0.0, 0.0, 0.0, Vec::new());
    for (i, (id, addr)) in ring.iter().enumerate() {
        let node = world.node(*addr).expect("it lives");
        let step = |by: usize| ring[(i + by) % count].1;
        let sides = (1..=8.min(count - 1)).flat_map(|k| [step(k), step(count - k)]);
        let expected: BTreeSet<NodeAddr> = sides.collect();
        wrong += f64::from(u8::from(node.leaves().collect::<BTreeSet<_>>() != expected));
        let all: BTreeSet<NodeAddr> = node
            .leaves()
            .chain(node.table().iter())
            .chain(node.neighbourhood())
            .collect();
        let span = id.distance(ring[(i + near) % count].0);
        let close = all.iter().filter(|a| id.distance(Id::of_node(**a)) <= span);
        let close = close.count() as f64;
        known_near += close / (2 * near) as f64;
        known_far +=
            (all.len() as f64 - close) / (count - 1).saturating_sub(2 * near).max(1) as f64;
        known.push(all.len() as f64);
    }
    row.set("wrong_leaf_sets", wrong);
    row.set("known_near", known_near / count as f64);
    row.set("known_far", known_far / count as f64);
    row.set("known_mean", mean(&known));
    row.set("known_most", most(&known));
}

/// Measures routes to random ids, hop by hop.
pub(super) fn routes(world: &mut World, row: &mut Row) {
    let count = world.live().count();
    let (mut hops, mut stretch, mut first, mut pairs) = (vec![], vec![], vec![], vec![]);
    let (mut inner, mut longer, mut astray) = (0.0, 0.0, 0.0);
    let mut by_hops = vec![0.0; 64];
    for _ in 0..LOOKUPS {
        let source = world.any();
        let other = world.any();
        let key = Id::of_group(NodeAddr(world.rng.next_u64() as u32));
        let path = route(world, source, key);
        let last = path[path.len() - 1];
        astray += f64::from(u8::from(last != world.closest(key)));
        let delay = |a: NodeAddr, b: NodeAddr| f64::from(world.underlay.delay_us(a, b));
        for (i, pair) in path.windows(2).enumerate() {
            // The last hop uses the leaf set, which matches no digit but ends the search.
            if i + 2 < path.len() {
                let shared = |a: NodeAddr| Id::of_node(a).shared_digits(key);
                inner += 1.0;
                longer += f64::from(u8::from(shared(pair[1]) > shared(pair[0])));
            }
        }
        if last != source {
            let way: f64 = path.windows(2).map(|pair| delay(pair[0], pair[1])).sum();
            stretch.push(way / delay(source, last));
            first.push(delay(path[0], path[1]));
        }
        if other != source {
            pairs.push(delay(source, other));
        }
        hops.push((path.len() - 1) as f64);
        by_hops[(path.len() - 1).min(63)] += 100.0 / LOOKUPS as f64;
    }
    stretch.sort_by(f64::total_cmp);
    row.set("bound_hops", (count as f64).log(16.0).ceil());
    row.set("hops_mean", mean(&hops));
    row.set("hops_most", most(&hops));
    row.set("astray", astray);
    row.set("longer_prefix", longer / f64::max(inner, 1.0));
    row.set("first_hop_us", mean(&first));
    row.set("pair_us", mean(&pairs));
    row.set("stretch_mean", mean(&stretch));
    row.set("stretch_p95", stretch[stretch.len() * 95 / 100]);
    let points = by_hops
        .iter()
        .enumerate()
        .filter(|(_, share)| **share > 0.0);
    row.draw("hops", points.map(|(hops, share)| (hops as f64, *share)));
}

/// Returns the nodes that a message to an id passes, from first to last.
fn route(world: &World, from: NodeAddr, key: Id) -> Vec<NodeAddr> {
    let next = |at: &NodeAddr| world.node(*at)?.next_hop(key);
    std::iter::successors(Some(from), next).collect()
}

/// Measures trees of several sizes, and the source trees of link state for the same members.
pub(super) fn trees(world: &mut World, row: &mut Row) {
    let count = world.live().count();
    let mut members: Vec<BTreeSet<NodeAddr>> = Vec::new();
    for share in SHARES {
        for _ in 0..GROUPS {
            let size = ((count as f64 * share) as usize).max(3);
            let mut chosen = BTreeSet::new();
            while chosen.len() < size {
                chosen.insert(world.any());
            }
            for who in &chosen {
                let group = group(members.len());
                let joined = world.act(*who, |node, now, out| node.join(now, group, out));
                debug_assert!(matches!(joined, Some(Ok(()))));
            }
            members.push(chosen);
        }
    }
    world.run(Duration::from_secs(2));
    let all: Vec<Tree> = members
        .iter()
        .enumerate()
        .map(|(n, members)| Tree::measure(world, group(n), members))
        .collect();
    let of = |value: fn(&Tree) -> f64| all.iter().map(value).collect::<Vec<f64>>();
    let sum = |value: fn(&Tree) -> f64| of(value).iter().sum::<f64>();
    row.set("wrong_roots", sum(|t| t.wrong_root));
    row.set("not_once", sum(|t| t.not_once));
    row.set("members", sum(|t| t.members));
    row.set("reverse_path", sum(|t| t.reverse) / sum(|t| t.members));
    row.set("depth_mean", sum(|t| t.depths) / sum(|t| t.members));
    row.set("depth_most", most(of(|t| t.deepest)));
    row.set("routers_most", most(of(|t| t.routers)));
    row.set("children_most", most(of(|t| t.widest)));
    row.set("delay_mean_ratio", mean(of(|t| t.mean_ratio)));
    row.set("delay_most_ratio", mean(of(|t| t.most_ratio)));
    row.set("delay_root_ratio", mean(of(|t| t.root_ratio)));
    row.set("delay_branches_ratio", mean(of(|t| t.branches_ratio)));
    row.set("stress_mean", mean(of(|t| t.stress_mean)));
    row.set("stress_most", most(of(|t| t.stress_most)));
    row.set("crossings_ratio", mean(of(|t| t.crossings_ratio)));
    for (i, share) in SHARES.iter().enumerate() {
        let part = &all[i * GROUPS..(i + 1) * GROUPS];
        let name = |what| format!("{what}_at_{}", share * 100.0);
        let at = |value: fn(&Tree) -> f64| mean(part.iter().map(value).collect::<Vec<_>>());
        row.set(name("delay_mean_ratio"), at(|t| t.mean_ratio));
        row.set(name("crossings_ratio"), at(|t| t.crossings_ratio));
        row.set(name("stress_mean"), at(|t| t.stress_mean));
    }
}

/// The measurements of one tree, compared with the source tree from one of its members.
struct Tree {
    members: f64,
    wrong_root: f64,
    not_once: f64,
    reverse: f64,
    depths: f64,
    deepest: f64,
    routers: f64,
    widest: f64,
    mean_ratio: f64,
    most_ratio: f64,
    root_ratio: f64,
    branches_ratio: f64,
    stress_mean: f64,
    stress_most: f64,
    crossings_ratio: f64,
}

impl Tree {
    fn measure(world: &World, group: NodeAddr, members: &BTreeSet<NodeAddr>) -> Tree {
        let underlay = &world.underlay;
        let key = Id::of_group(group);
        let root = world.closest(key);
        let source = *members.first().expect("groups have members");
        let (mut stress, mut native) = (Stress::default(), Stress::default());
        if source != root {
            underlay.send(source, root, &mut stress);
        }
        let to_root = if source == root {
            0
        } else {
            underlay.delay_us(source, root)
        };
        let (mut by_tree, mut from_root, mut direct, mut straight) =
            (vec![], vec![], vec![], vec![]);
        let (mut deepest, mut depths, mut widest, mut seen) = (0, 0, 0, 0u32);
        let mut waiting = vec![(root, 0u32, 0usize)];
        while let Some((at, delay_us, depth)) = waiting.pop() {
            let children = world.node(at).map_or(&[][..], |node| node.children(group));
            widest = widest.max(children.len());
            for child in children {
                underlay.send(at, *child, &mut stress);
                waiting.push((*child, delay_us + underlay.delay_us(at, *child), depth + 1));
            }
            if members.contains(&at) {
                seen += 1;
                depths += depth;
                deepest = deepest.max(depth);
                if at != source {
                    by_tree.push(f64::from(to_root + delay_us));
                    direct.push(f64::from(underlay.delay_us(source, at)));
                }
                if at != root {
                    from_root.push(f64::from(delay_us));
                    straight.push(f64::from(underlay.delay_us(root, at)));
                }
            }
        }
        let both_ways = both_ways(world, group, source);
        let by_branches = members.iter().filter(|member| **member != source);
        let by_branches: Vec<f64> = by_branches
            .filter_map(|member| both_ways.get(member).copied())
            .collect();
        let others = members.iter().copied().filter(|member| *member != source);
        let routers = underlay.source_tree(source, others, &mut native);
        let is_root = world
            .node(root)
            .is_some_and(|n| n.is_in_tree(group) && n.parent(group).is_none());
        let reverse = members.iter().filter(|member| {
            let up = |at: &NodeAddr| world.node(*at)?.parent(group);
            let up: Vec<NodeAddr> = std::iter::successors(Some(**member), up).collect();
            up == route(world, **member, key)
        });
        Tree {
            members: members.len() as f64,
            wrong_root: f64::from(u8::from(!is_root)),
            not_once: f64::from(u32::abs_diff(seen, members.len() as u32)),
            reverse: reverse.count() as f64,
            depths: depths as f64,
            deepest: deepest as f64,
            routers: routers as f64,
            widest: widest as f64,
            mean_ratio: mean(&by_tree) / mean(&direct),
            most_ratio: most(&by_tree) / most(&direct),
            root_ratio: mean(&from_root) / mean(&straight),
            branches_ratio: mean(&by_branches) / mean(&direct),
            stress_mean: stress.mean(),
            stress_most: stress.most(),
            crossings_ratio: stress.total() / native.total(),
        }
    }
}

/// Returns the delay from a node in the tree to every other one, along branches upwards and downwards.
fn both_ways(world: &World, group: NodeAddr, source: NodeAddr) -> BTreeMap<NodeAddr, f64> {
    let mut reached = BTreeMap::new();
    let mut waiting = vec![(source, 0u32)];
    while let Some((at, delay_us)) = waiting.pop() {
        let Some(node) = world.node(at) else {
            continue;
        };
        if reached.insert(at, f64::from(delay_us)).is_none() {
            let branches = node
                .children(group)
                .iter()
                .copied()
                .chain(node.parent(group));
            let onward = branches.filter(|to| !reached.contains_key(to));
            let onward: Vec<NodeAddr> = onward.collect();
            waiting.extend(
                onward
                    .into_iter()
                    .map(|to| (to, delay_us + world.underlay.delay_us(at, to))),
            );
        }
    }
    reached
}

/// Measures the failure of a tenth of all nodes at once: how long until every remaining member is served again.
pub(super) fn churn(world: &mut World, is_told: bool, row: &mut Row) {
    let count = world.live().count();
    let mut members: Vec<BTreeSet<NodeAddr>> = Vec::new();
    for n in 0..GROUPS {
        let mut chosen = BTreeSet::new();
        while chosen.len() < count / 5 {
            chosen.insert(world.any());
        }
        for who in &chosen {
            let joined = world.act(*who, |node, now, out| node.join(now, group(n), out));
            debug_assert!(matches!(joined, Some(Ok(()))));
        }
        members.push(chosen);
    }
    world.run(Duration::from_secs(3));
    for _ in 0..count / 10 {
        let who = world.any();
        world.kill(who, is_told.then_some(NOTICE));
        for chosen in &mut members {
            chosen.remove(&who);
        }
    }
    let wanted: usize = members.iter().map(BTreeSet::len).sum();
    let mut series = Vec::new();
    let (mut least, mut mended_ms) = (f64::INFINITY, f64::NAN);
    let mut ms = 0.0;
    while ms < 20_000.0 {
        let served: usize = members
            .iter()
            .enumerate()
            .map(|(n, m)| served(world, group(n), m))
            .sum();
        let share = 100.0 * served as f64 / wanted as f64;
        least = f64::min(least, share);
        series.push((ms, share));
        if served < wanted {
            mended_ms = f64::NAN;
        } else if mended_ms.is_nan() {
            mended_ms = ms;
        }
        // The state must stay so for a second.
        if ms >= mended_ms + 1_000.0 {
            break;
        }
        world.run(LOOK);
        ms += LOOK.as_millis() as f64;
    }
    row.set("killed", (count / 10) as f64);
    if is_told {
        row.set("notice_ms", NOTICE.as_millis() as f64);
    }
    row.set("served_least", least);
    row.set("mended_ms", mended_ms);
    row.draw("served", series);
    world.run(Duration::from_secs(10));
    knowledge(world, row);
}

/// Returns how many members the branches from the root reach.
fn served(world: &World, group: NodeAddr, members: &BTreeSet<NodeAddr>) -> usize {
    let root = world.closest(Id::of_group(group));
    let mut reached = BTreeSet::new();
    let mut waiting = vec![root];
    while let Some(at) = waiting.pop() {
        if let Some(node) = world.node(at)
            && reached.insert(at)
        {
            waiting.extend(node.children(group));
        }
    }
    members.intersection(&reached).count()
}

/// Measures one node in very many groups: bytes per group, and messages per beat.
pub(super) fn groups(world: &mut World, groups: usize, row: &mut Row) {
    let who = Network::addr(world.live().count() / 2);
    let sent = |world: &World| world.node(who).map_or(0, |node| node.stats().sent) as f64;
    let span = Duration::from_secs(10);
    let before = sent(world);
    world.run(span);
    let idle = sent(world) - before;
    for n in 0..groups {
        let joined = world.act(who, |node, now, out| node.join(now, group(n), out));
        debug_assert!(matches!(joined, Some(Ok(()))));
    }
    let joining = sent(world);
    world.run(Duration::from_secs(3));
    row.set("join_messages", sent(world) - joining);
    let before = sent(world);
    world.run(span);
    row.set("messages_idle", idle / span.as_secs_f64());
    row.set(
        "messages_with_groups",
        (sent(world) - before) / span.as_secs_f64(),
    );
    let node = world.node(who).expect("it lives");
    row.set("pending", node.pending_count() as f64);
    row.set("bytes_per_group", node.state_bytes() as f64 / groups as f64);
    // The parent of most groups fails.
    let mut parents: BTreeMap<NodeAddr, usize> = BTreeMap::new();
    for group in node.groups() {
        if let Some(parent) = node.parent(group) {
            *parents.entry(parent).or_insert(0) += 1;
        }
    }
    let Some((&parent, &lost)) = parents.iter().max_by_key(|(_, count)| **count) else {
        return;
    };
    world.kill(parent, Some(Duration::from_millis(1)));
    let mut ms = 0.0;
    loop {
        world.run(Duration::from_millis(5));
        ms += 5.0;
        let node = world.node(who).expect("it lives");
        if ms >= 10_000.0 || (node.pending_count() == 0 && ms > 5.0) {
            break;
        }
    }
    row.set("lost_groups", lost as f64);
    row.set("rejoined_ms", ms);
}
