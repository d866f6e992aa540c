//! The state that a node keeps for one neighbor: a leaf, a parent, a child, or several of these.

use crate::config::VISITS_MAX;
use crate::tree::Share;
use base::Time;

/// One neighbor.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// When anything was last heard from the neighbor, or when its state was created.
    pub(crate) heard: Time,
    /// The groups in which the neighbor is this node's parent.
    pub(crate) up: Share,
    /// The groups in which the neighbor is this node's child.
    pub(crate) down: Share,
    /// When the neighbor last sent a message as a child.
    pub(crate) kept: Time,
    /// Number of further beats in which the neighbor is told that `up` is empty.
    pub(crate) leaving: u8,
    /// When Joins and Leaves were last sent to the neighbor.
    pub(crate) flushed: Option<Time>,
    /// The Joins to the neighbor that wait for an answer.
    pub(crate) asked: Asked,
    /// Number of groups that the neighbor may make this node look at before the next beat.
    pub(crate) visits: u32,
}

/// The state of Joins to a parent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// When the first Join was sent.
    pub(crate) since: Time,
    /// When the Joins are repeated next.
    pub(crate) again: Time,
    /// How often the Joins were repeated.
    pub(crate) tries: u8,
}

impl Peer {
    pub(crate) fn new(now: Time) -> Peer {
        Peer {
            heard: now,
            kept: now,
            up: Share::default(),
            down: Share::default(),
            leaving: 0,
            flushed: None,
            asked: Asked {
                since: now,
                again: now,
                tries: 0,
            },
            visits: VISITS_MAX,
        }
    }

    /// Returns true if no group is shared with the neighbor.
    pub(crate) fn is_idle(&self) -> bool {
        self.up.count == 0 && self.down.count == 0 && self.leaving == 0
    }

    /// Pays for looking at this number of groups. Returns false if the neighbor's allowance is too small.
    pub(crate) fn pay(&mut self, visits: usize) -> bool {
        let left = u32::try_from(visits + 1)
            .ok()
            .and_then(|visits| self.visits.checked_sub(visits));
        self.visits = left.unwrap_or(0);
        left.is_some()
    }

    /// Records that the first Joins have been sent.
    pub(crate) fn begin_asking(&mut self, now: Time) {
        self.asked = Asked {
            since: now,
            again: now,
            tries: 0,
        };
    }
}
