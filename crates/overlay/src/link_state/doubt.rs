//! Nodes in doubt: a neighbour does not hear them, and they do not contradict it.
//!
//! ```text
//!   u tells: the link to v is silent      300 ms without a word of v        v's next record
//!   --------------+-------------------------------+---------------------------+-----------
//!   as before     | v, if it runs, tells its      | no path takes v that has  | as before
//!                 | links anew: "I do hear you"   | another way               |
//! ```
//! A node that has failed, or whose host stands still, takes all of its links down. Its neighbours send few hellos on
//! links without data, and notice the failure seconds later. Until then, the path around the one link that is known to
//! be silent leads to the next neighbour of the same node, from there nowhere, and so on: a call in a mesh would try
//! one neighbour after the other.
//!
//! When a link fails and not a node, both of its ends report it within a moment, each in a record of its own. The node
//! at the far end also answers a record that calls it silent. So a node in doubt is one without any record later than
//! the neighbour's.
//!
//! Choice: the papers treat each link as failing on its own.

use super::Database;
use base::{Duration, NodeAddr, Time};
use graph::metric::SILENT;
use wire::link_state::Link;

/// A node that some neighbour does not hear.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doubt {
    since: Time,
    /// The node has had its time to answer.
    is_settled: bool,
}

impl Database {
    /// Sets the time without a record after which a node counts as silent.
    pub fn set_doubt_after(&mut self, after: Duration) {
        self.doubt_after = after;
    }

    /// Returns true once after a neighbour has reported that it does not hear this node, while this node hears that
    /// neighbour: a new record of this node then shows that it is running.
    pub fn take_denial(&mut self) -> bool {
        core::mem::take(&mut self.is_denial_due)
    }

    /// When [`Database::settle_doubts`] has something to do.
    pub fn next_doubt(&self) -> Option<Time> {
        let open = self.doubts.values().filter(|doubt| !doubt.is_settled);
        Some(open.map(|doubt| doubt.since).min()? + self.doubt_after)
    }

    /// Marks nodes as silent that have had their time to answer.
    pub fn settle_doubts(&mut self, now: Time) {
        let after = self.doubt_after;
        let due = |doubt: &Doubt| !doubt.is_settled && now.since(doubt.since) >= after;
        let mut settled = Vec::new();
        for (node, doubt) in &mut self.doubts {
            if due(doubt) {
                doubt.is_settled = true;
                settled.push(*node);
            }
        }
        for node in settled {
            self.follow_links(node, &[]);
        }
    }

    /// Returns true if the node has had its time to answer and has not: links to it count as silent.
    pub(super) fn is_silent(&self, node: NodeAddr) -> bool {
        let doubt = self.doubts.get(&node);
        doubt.is_some_and(|doubt| doubt.is_settled)
    }

    /// Compares what `origin`'s new record reports about its neighbours with the links of its former record.
    pub(super) fn weigh_silences(&mut self, now: Time, origin: NodeAddr, before: &[Link]) {
        let told = self.links_of(origin).unwrap_or_default();
        let silent = |links: &[Link]| -> Vec<NodeAddr> {
            let silent = links.iter().filter(|link| is_silent(link));
            silent.map(|link| link.neighbor).collect()
        };
        let (now_silent, was_silent) = (silent(told), silent(before));
        for &node in now_silent.iter().filter(|node| !was_silent.contains(node)) {
            if !self.is_contradicted(node, origin) {
                continue;
            }
            match node == self.own {
                true => self.is_denial_due = true,
                false => {
                    let doubt = Doubt {
                        since: now,
                        is_settled: false,
                    };
                    self.doubts.entry(node).or_insert(doubt);
                }
            }
        }
        for node in was_silent.iter().filter(|node| !now_silent.contains(node)) {
            self.clear_doubt(*node);
        }
    }

    /// The record with these links has gone, and with it the report about its neighbours.
    pub(super) fn forget_silences(&mut self, links: &[Link]) {
        for link in links.iter().filter(|link| is_silent(link)) {
            self.clear_doubt(link.neighbor);
        }
    }

    /// Ends the doubt about a node if no neighbour has one any more.
    fn clear_doubt(&mut self, node: NodeAddr) {
        let Some(links) = self.doubts.get(&node).and(self.links_of(node)) else {
            return;
        };
        let mut neighbors = links.iter().map(|link| link.neighbor);
        let is_doubted = neighbors.any(|other| {
            self.link(other, node).is_some_and(is_silent) && self.is_contradicted(node, other)
        });
        if !is_doubted {
            self.doubts.remove(&node);
            self.follow_links(node, &[]);
        }
    }

    /// Returns true if the last record of `node` reports that it hears `other`.
    fn is_contradicted(&self, node: NodeAddr, other: NodeAddr) -> bool {
        self.link(node, other).is_some_and(|link| !is_silent(link))
    }

    pub(super) fn link(&self, from: NodeAddr, to: NodeAddr) -> Option<&Link> {
        self.links_of(from)?.iter().find(|link| link.neighbor == to)
    }
}

fn is_silent(link: &Link) -> bool {
    link.availability.price_us() == SILENT
}
