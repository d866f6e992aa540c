//! How long a datagram the links carry, and how much, as their senders tell.
//!
//! Few links carry less than others, so only those are kept, and the least of all: where there are
//! none, one comparison tells.

use super::Database;
use crate::mtu::{DEFAULT, FLOOR};
use base::NodeAddr;
use wire::link_state::LinkState;

impl Database {
    /// The longest datagram that the link between two nodes carries in this direction.
    pub fn usable(&self, from: NodeAddr, to: NodeAddr) -> u16 {
        self.usable.get(&(from, to)).copied().unwrap_or(DEFAULT)
    }

    /// What the link between two nodes can carry in this direction, in kbit/s, if it is told.
    pub fn capacity_kbps(&self, from: NodeAddr, to: NodeAddr) -> Option<u32> {
        self.capacities.get(&(from, to)).copied()
    }

    /// What one TCP connection has lately carried over the link between two nodes in this direction,
    /// in kbit/s, if it is told.
    pub fn measured_kbps(&self, from: NodeAddr, to: NodeAddr) -> Option<u32> {
        self.measured.get(&(from, to)).copied()
    }

    /// The least of all links.
    #[inline]
    pub fn least_usable(&self) -> u16 {
        self.least_usable
    }

    /// Takes in what a record says; `None` when it is gone.
    pub(super) fn follow_usable(&mut self, origin: NodeAddr, state: Option<&LinkState<'_>>) {
        let told = (origin, NodeAddr(0))..=(origin, NodeAddr(u32::MAX));
        let before: Vec<_> = self.usable.range(told).map(|(key, _)| *key).collect();
        for key in before {
            self.usable.remove(&key);
        }
        let told = (origin, NodeAddr(0))..=(origin, NodeAddr(u32::MAX));
        let before: Vec<_> = self.capacities.range(told).map(|(key, _)| *key).collect();
        for key in before {
            self.capacities.remove(&key);
        }
        let told = (origin, NodeAddr(0))..=(origin, NodeAddr(u32::MAX));
        let before: Vec<_> = self.measured.range(told).map(|(key, _)| *key).collect();
        for key in before {
            self.measured.remove(&key);
        }
        if let Some(state) = state {
            for (place, kbps) in state.measured() {
                if let Some(link) = state.links().nth(place) {
                    self.measured.insert((origin, link.neighbor), kbps);
                }
            }
            for (place, kbps) in state.capacities() {
                if let Some(link) = state.links().nth(place) {
                    self.capacities.insert((origin, link.neighbor), kbps);
                }
            }
            for (place, bytes) in state.usable() {
                if let Some(link) = state.links().nth(place) {
                    // Whoever says less makes others cut their packets into crumbs.
                    self.usable
                        .insert((origin, link.neighbor), bytes.max(FLOOR));
                }
            }
        }
        self.least_usable = self.usable.values().copied().min().unwrap_or(DEFAULT);
    }
}
