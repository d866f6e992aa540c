//! The neighbours by which a node enters the network: they are configured, and dialled as long as the links of its own
//! choice are too few.
//!
//! ```text
//!   no link at all       one, and one more every 2 s; after the first of them also offers of before, one every 2 s
//!   too few chosen ones  one, and one more every 10 s
//!   else                 none; but who is not reached by any way is looked for now and then
//! ```
//! The last rule joins parts of a network that have lost each other. It holds for these neighbours and for all nodes
//! that have offered themselves: the neighbours by which a node has entered may all be gone.

use super::LEAST;
use super::view::place;
use base::{Duration, NodeAddr, Time};

/// One more is dialled after so long without any link.
const NO_ANSWER: Duration = Duration::from_secs(2);
/// And after so long with too few.
const TOO_FEW: Duration = Duration::from_secs(10);
/// One that is not reached is looked for once in so long on average, for so long: at two addresses, one after the other.
/// Choice: no longer than until it would be told that it does not answer, as nobody has to know.
const LOOK_EVERY: Duration = Duration::from_secs(60);
const LOOK_FOR: Duration = Duration::from_secs(9);
/// A link that has come of it is kept until then. Choice: the ring is closed across it by then.
const KEPT_FOR: Duration = Duration::from_secs(20);

/// One of them, and how it stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entrance {
    pub(crate) addr: NodeAddr,
    pub(crate) is_up: bool,
    pub(crate) is_reached: bool,
}

/// Which of them are wanted, and of others that have offered themselves.
#[derive(Debug, Default)]
pub(crate) struct First {
    alone_since: Option<Time>,
    few_since: Option<Time>,
    /// Those that are looked for, and since when.
    looked_for: Vec<(NodeAddr, Time)>,
    last_look: Option<NodeAddr>,
    /// The next look of a node with links, and of one without any.
    next_look: Time,
    next_of_alone: Time,
    wanted: Vec<NodeAddr>,
}

impl First {
    /// The link to it is kept for now.
    pub(crate) fn wants(&self, of: NodeAddr) -> bool {
        self.wanted.contains(&of)
    }

    /// At the last review, the node had too few links of its own choice: those by which it enters end when it has enough.
    pub(crate) fn is_entering(&self) -> bool {
        self.few_since.is_some()
    }

    /// Those that no way leads to, or led to a moment ago, and that are dialled.
    pub(crate) fn looked_for(&self) -> impl Iterator<Item = NodeAddr> {
        self.looked_for.iter().map(|(of, _)| *of)
    }

    /// Chooses anew, for a node with so many `links`, and so many of its own choice among them. `lost` are those that have
    /// offered themselves, and are not reached.
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
        // Each node begins elsewhere, so that the one which all know does not carry all.
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
            // The others come with the first records.
            self.next_look = now + TOO_FEW;
        }
        let due = match is_alone {
            true => &mut self.next_of_alone,
            false => &mut self.next_look,
        };
        if now < *due || lost.is_empty() {
            return;
        }
        // All have lost the same ones at the same time, and one of them is enough: not all look at once.
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

/// An order of nodes that is another one for each node.
fn mixed(own: NodeAddr, of: NodeAddr) -> (u64, NodeAddr) {
    place(NodeAddr(of.0 ^ own.0.rotate_left(16)))
}
