//! The neighbours by which a node enters the network. They are configured, and the node dials them while it has too few
//! links of its own choice.
//!
//! ```text
//!   no link at all       one, and one more every 2 s; after the first of them also offers of before, one every 2 s
//!   too few chosen ones  one, and one more every 10 s
//!   else                 none; but who is not reached by any way is looked for now and then
//! ```
//! The last rule joins parts of a network that have lost each other. It applies to these neighbours and to all nodes
//! that have offered themselves, because the neighbours by which a node has entered may all have gone.

use super::LEAST;
use super::view::place;
use base::{Duration, NodeAddr, Time};

/// Time without any link after which one more neighbour is dialled.
const NO_ANSWER: Duration = Duration::from_secs(2);
/// The same for a node with too few links.
const TOO_FEW: Duration = Duration::from_secs(10);
/// Average time between two searches for a node that is not reached, and the length of a search: at two addresses, one
/// after the other. Choice: shorter than the time after which a missing answer would be reported, because nobody needs
/// to know.
const LOOK_EVERY: Duration = Duration::from_secs(60);
const LOOK_FOR: Duration = Duration::from_secs(9);
/// How long a link that such a search has made is kept. Choice: the ring includes it by then.
const KEPT_FOR: Duration = Duration::from_secs(20);

/// The state of one of these neighbours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entrance {
    pub(crate) addr: NodeAddr,
    pub(crate) is_up: bool,
    pub(crate) is_reached: bool,
}

/// The neighbours of this kind that the node wants, and the wanted nodes among those that have offered themselves.
#[derive(Debug, Default)]
pub(crate) struct First {
    alone_since: Option<Time>,
    few_since: Option<Time>,
    /// Nodes that are searched for, and since when.
    looked_for: Vec<(NodeAddr, Time)>,
    last_look: Option<NodeAddr>,
    /// When a node with links searches next, and when one without any does.
    next_look: Time,
    next_of_alone: Time,
    wanted: Vec<NodeAddr>,
}

impl First {
    /// Returns true if the link to this node is kept for now.
    pub(crate) fn wants(&self, of: NodeAddr) -> bool {
        self.wanted.contains(&of)
    }

    /// Returns true if, at the last review, the node had too few links of its own choice: the links by which it enters
    /// end when it has enough.
    pub(crate) fn is_entering(&self) -> bool {
        self.few_since.is_some()
    }

    /// Returns the dialled nodes to which no path leads, or led until a moment ago.
    pub(crate) fn looked_for(&self) -> impl Iterator<Item = NodeAddr> {
        self.looked_for.iter().map(|(of, _)| *of)
    }

    /// Chooses again, for a node with `links` links, `chosen` of them of its own choice. `lost` are nodes that have
    /// offered themselves and are not reached.
    pub(crate) fn review(
        &mut self,
        now: Time,
        own: NodeAddr,
        (all, lost): (&[Entrance], &[NodeAddr]),
        (links, chosen): (usize, usize),
    ) {
        let steps = |since: Time, step: Duration| {
            1 + (now.since(since).as_nanos() / step.as_nanos()) as usize
        };
        self.alone_since = (links == 0).then(|| self.alone_since.unwrap_or(now));
        self.few_since = (chosen < LEAST).then(|| self.few_since.unwrap_or(now));
        let alone = self.alone_since.map(|since| steps(since, NO_ANSWER));
        let few = self
            .few_since
            .map(|since| steps(since, TOO_FEW).min(LEAST - chosen));
        let count = alone.or(few).unwrap_or(0);
        // Each node begins with another neighbour, so that a neighbour that all nodes know does not carry the whole
        // load.
        let mixed = |of: NodeAddr| mixed(own, of);
        let mut order: Vec<&Entrance> = all.iter().collect();
        order.sort_by_key(|it| (!it.is_up, mixed(it.addr)));
        self.wanted = order.iter().take(count).map(|it| it.addr).collect();
        let mut lost = lost.to_vec();
        if links > 0 {
            let all = all.iter().filter(|it| !it.is_reached);
            lost.extend(all.map(|it| it.addr));
        }
        lost.sort_by_key(|of| mixed(*of));
        lost.dedup();
        self.look(now, own, &lost, links == 0);
        self.wanted.extend(self.looked_for.iter().map(|(of, _)| of));
    }

    fn look(&mut self, now: Time, own: NodeAddr, lost: &[NodeAddr], is_alone: bool) {
        self.looked_for.retain(|(of, since)| {
            let most = match lost.contains(of) {
                true => LOOK_FOR,
                false => KEPT_FOR,
            };
            now.since(*since) < most
        });
        if is_alone {
            // Other nodes become known with the first records.
            self.next_look = now + TOO_FEW;
        }
        let due = match is_alone {
            true => &mut self.next_of_alone,
            false => &mut self.next_look,
        };
        if now < *due || lost.is_empty() {
            return;
        }
        // All nodes have lost the same ones at the same time, and one search is enough: not all search at once.
        let seconds = NodeAddr((now.as_nanos() / 1_000_000_000) as u32);
        let (chance, _) = mixed(own, seconds);
        *due = match is_alone {
            true => now + NO_ANSWER,
            false => now + LOOK_EVERY.div(2) + (LOOK_EVERY * (chance % 1_024)).div(1_024),
        };
        let mixed = |of: NodeAddr| mixed(own, of);
        let last = self.last_look.map(mixed);
        let is_new = |of: &&NodeAddr| self.looked_for.iter().all(|(it, _)| it != *of);
        let mut new = lost.iter().filter(is_new);
        let after = |of: &&NodeAddr| last.as_ref().is_none_or(|last| mixed(**of) > *last);
        if let Some(&next) = new.clone().find(after).or(new.next()) {
            self.looked_for.push((next, now));
            self.last_look = Some(next);
        }
    }
}

/// Returns a key for an order of nodes that differs from node to node.
fn mixed(own: NodeAddr, of: NodeAddr) -> (u64, NodeAddr) {
    place(NodeAddr(of.0 ^ own.0.rotate_left(16)))
}
