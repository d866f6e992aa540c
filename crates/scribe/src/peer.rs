//! What a node keeps of one neighbour: a leaf, a parent, a child, or several of these.

use crate::config::VISITS_MAX;
use crate::tree::Share;
use base::Time;

/// One neighbour.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// When anything was heard last, or the acquaintance began.
    pub(crate) heard: Time,
    /// Groups in which it is this node's parent.
    pub(crate) up: Share,
    /// Groups in which it is this node's child.
    pub(crate) down: Share,
    /// When it spoke as a child last.
    pub(crate) kept: Time,
    /// Beats in which it is still told that `up` is empty.
    pub(crate) leaving: u8,
    /// When Joins and Leaves went to it last.
    pub(crate) flushed: Option<Time>,
    /// Its Joins that wait for an answer.
    pub(crate) asked: Asked,
    /// Groups that it may let this node look at before the next beat.
    pub(crate) visits: u32,
}

/// How Joins to a parent go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// When the first went.
    pub(crate) since: Time,
    /// When they are repeated.
    pub(crate) again: Time,
    /// How often they were.
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

    /// Nothing is shared with it.
    pub(crate) fn is_idle(&self) -> bool {
        self.up.count == 0 && self.down.count == 0 && self.leaving == 0
    }

    /// Pays for looking at so many groups; false if it has not as much left.
    pub(crate) fn pay(&mut self, visits: usize) -> bool {
        let left = u32::try_from(visits + 1)
            .ok()
            .and_then(|visits| self.visits.checked_sub(visits));
        self.visits = left.unwrap_or(0);
        left.is_some()
    }

    /// The first Joins have gone.
    pub(crate) fn begin_asking(&mut self, now: Time) {
        self.asked = Asked {
            since: now,
            again: now,
            tries: 0,
        };
    }
}
