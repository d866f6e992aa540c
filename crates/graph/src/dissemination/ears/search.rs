//! The search for a path that joins the graph.

use super::{Ears, Towards};
use crate::dissemination::is_bad;
use crate::metric::Metric;
use crate::topology::{Edge, NodeIndex};
use core::cmp::Reverse;
use core::ops::Add;
use std::collections::{BTreeMap, BinaryHeap};

/// The cost of a path; the first field counts first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Toll {
    bad: u32,
    links: u32,
    expected: u64,
    us: u64,
}

impl<'t> Ears<'t> {
    /// Runs Dijkstra's algorithm from a node that packets reach after `start_us`, to the first node for which `joins`
    /// returns how long the rest takes. Returns the nodes on the path.
    pub(super) fn search(
        &mut self,
        (start, start_us): (NodeIndex, u64),
        towards: Towards,
        by: fn(Toll) -> Toll,
        joins: impl Fn(&Ears, NodeIndex) -> Option<u64>,
    ) -> Option<Vec<NodeIndex>> {
        let first = Toll {
            us: start_us,
            ..Toll::default()
        };
        let mut known = BTreeMap::from([(start, (first, None))]);
        let rest = joins(self, start);
        if first.us.saturating_add(rest.unwrap_or(0)) > self.deadline_us {
            return None;
        }
        let mut heap = BinaryHeap::from([Reverse((by(first), start, rest.is_some()))]);
        while let Some(Reverse((toll, node, has_joined))) = heap.pop() {
            if has_joined {
                let back = |at: &NodeIndex| known.get(at).and_then(|(_, by)| *by);
                let mut way: Vec<NodeIndex> = core::iter::successors(Some(node), back).collect();
                way.reverse();
                return Some(way);
            }
            let Some(&(so_far, _)) = known.get(&node).filter(|(best, _)| by(*best) == toll) else {
                continue;
            };
            for edge in self.onwards(node, towards) {
                self.work += 1;
                let Some((next, has_joined)) = self.step(so_far, edge, &joins) else {
                    continue;
                };
                let before = known.get(&edge.peer);
                if before.is_none_or(|(best, _)| by(next) < by(*best)) {
                    known.insert(edge.peer, (next, Some(node)));
                    heap.push(Reverse((by(next), edge.peer, has_joined)));
                }
            }
        }
        None
    }

    /// Returns the cost of a path with one more link, and whether it has joined the graph; `None` if it cannot be in
    /// time.
    fn step(
        &self,
        so_far: Toll,
        edge: &Edge,
        joins: impl Fn(&Ears, NodeIndex) -> Option<u64>,
    ) -> Option<(Toll, bool)> {
        let rest = joins(self, edge.peer);
        // No path continues through an end.
        let is_end = [self.src, self.dst].contains(&edge.peer);
        if edge.link.is_silent() || is_end && rest.is_none() {
            return None;
        }
        let mut next = so_far + Toll::of(edge);
        let rest_us = rest.unwrap_or(0);
        // Where the path joins the graph, the rest counts as time, not as links.
        next.expected = next.expected.saturating_add(rest_us.saturating_mul(1_000));
        let is_in_time = next.us.saturating_add(rest_us) <= self.deadline_us;
        is_in_time.then_some((next, rest.is_some()))
    }

    fn onwards(&self, node: NodeIndex, towards: Towards) -> &'t [Edge] {
        match towards {
            Towards::Destination => self.topology.links_from(node),
            Towards::Source => self.topology.links_to(node),
        }
    }
}

impl Toll {
    /// Returns the cost reduced to the time.
    pub(super) fn by_time(self) -> Toll {
        Toll {
            us: self.us,
            ..Toll::default()
        }
    }

    fn of(edge: &Edge) -> Toll {
        Toll {
            bad: u32::from(is_bad(edge.link, true)),
            links: 1,
            expected: edge.cost(Metric::ExpectedLatency).0,
            us: u64::from(edge.link.latency_us),
        }
    }
}

impl Add for Toll {
    type Output = Toll;
    fn add(self, other: Toll) -> Toll {
        Toll {
            bad: self.bad + other.bad,
            links: self.links + other.links,
            expected: self.expected.saturating_add(other.expected),
            us: self.us.saturating_add(other.us),
        }
    }
}
