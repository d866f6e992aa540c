//! The longest datagram that each link carries, and what else the links' senders report about them besides the cost.
//!
//! Few links carry less than others, so only those are kept, together with the smallest length: if there are none, one
//! comparison is enough.

use super::Database;
use crate::mtu::{DEFAULT, FLOOR};
use base::NodeAddr;
use core::num::NonZeroU8;
use std::collections::BTreeMap;
use wire::Endpoint;
use wire::link_state::{Bulk, Link, LinkState, Rates};

/// The values that the sender of a link reports about its direction, for bulk data and groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// The capacity of the link, in kbit/s.
    pub capacity_kbps: Option<u32>,
    /// The rates that transfers have recently reached over it.
    pub rates: Option<Rates>,
    /// The number of physical links that it crosses.
    pub hops: Option<NonZeroU8>,
    /// The link runs over a byte stream (TCP).
    pub is_tunnel: bool,
}

impl Database {
    /// Returns the longest datagram that the link between two nodes carries in this direction.
    pub fn usable(&self, from: NodeAddr, to: NodeAddr) -> u16 {
        self.usable.get(&(from, to)).copied().unwrap_or(DEFAULT)
    }

    /// Returns the longest datagram that all links of a path carry.
    pub fn usable_along(&self, path: &[NodeAddr]) -> u16 {
        if self.least_usable == DEFAULT {
            return DEFAULT;
        }
        let links = path.windows(2).map(|hop| self.usable(hop[0], hop[1]));
        links.min().unwrap_or(DEFAULT)
    }

    /// Returns what is reported about the link between two nodes in this direction.
    pub fn told(&self, from: NodeAddr, to: NodeAddr) -> Told {
        self.told.get(&(from, to)).copied().unwrap_or_default()
    }

    /// Returns a node's role in bulk data, if the node reports it.
    pub fn bulk(&self, node: NodeAddr) -> Option<Bulk> {
        self.bulk.get(&node).copied()
    }

    /// Returns the addresses at which neighbours of a node see it, if the node reports them.
    pub fn endpoints_of(&self, node: NodeAddr) -> &[Endpoint] {
        self.endpoints.get(&node).map_or(&[], Vec::as_slice)
    }

    /// Returns the addresses at which a node listens on the interfaces of its host, if the node reports them.
    pub fn hosts_of(&self, node: NodeAddr) -> &[Endpoint] {
        self.hosts.get(&node).map_or(&[], Vec::as_slice)
    }

    /// Returns the nodes that offer themselves as neighbours, in order of address.
    pub fn offers(&self) -> impl Iterator<Item = NodeAddr> {
        self.offers.keys().copied()
    }

    /// Returns whether a node keeps the link to `neighbor`; `None` if it does not offer itself, and so does not report
    /// this.
    pub fn keeps(&self, node: NodeAddr, neighbor: NodeAddr) -> Option<bool> {
        Some(self.offers.get(&node)?.contains(&neighbor))
    }

    /// Returns true if a queue in front of any link drops packets.
    #[inline]
    pub(crate) fn has_queued(&self) -> bool {
        !self.queued.is_empty()
    }

    /// Returns true if a queue in front of the link between two nodes drops packets in this direction, as its sender
    /// reports.
    pub(crate) fn is_queued(&self, from: NodeAddr, to: NodeAddr) -> bool {
        self.queued.contains(&(from, to))
    }

    /// Returns the smallest of these lengths over all links.
    #[inline]
    pub fn least_usable(&self) -> u16 {
        self.least_usable
    }

    /// Returns true if the node reports that it seals from end to end.
    #[inline]
    pub fn seals(&self, node: NodeAddr) -> bool {
        self.sealers.contains_key(&node)
    }

    /// Returns true if the node reports that it answers how many packets it has opened.
    #[inline]
    pub fn tallies(&self, node: NodeAddr) -> bool {
        self.tellers.contains(&node)
    }

    /// Returns true if the node reports that it answers how many packets to a group have arrived at it.
    #[inline]
    pub fn tallies_groups(&self, node: NodeAddr) -> bool {
        self.group_tellers.contains(&node)
    }

    /// Returns true if the node reports that it opens what is sealed for a group.
    #[inline]
    pub fn has_group_keys(&self, node: NodeAddr) -> bool {
        self.key_holders.contains(&node)
    }

    /// Returns `Some(true)` if nodes that open what is sealed for groups have come or gone since the last call;
    /// `Some(false)` if only other nodes have reported something.
    pub(crate) fn take_key_holders_changed(&mut self) -> Option<bool> {
        self.key_holders_changed.take()
    }

    /// Returns all nodes that seal, in no particular order but the same in every run.
    pub(crate) fn sealers(&self) -> impl Iterator<Item = NodeAddr> {
        self.sealers.keys().copied()
    }

    /// Returns the number that distinguishes the present start of a node that seals from earlier ones.
    pub(crate) fn boot_of(&self, node: NodeAddr) -> Option<u32> {
        self.sealers.get(&node).copied()
    }

    /// Takes in what a record reports; `None` when the record has gone.
    pub(super) fn follow_options(&mut self, origin: NodeAddr, state: Option<&LinkState<'_>>) {
        forget(&mut self.usable, origin);
        self.queued.retain(|(from, _)| *from != origin);
        forget(&mut self.told, origin);
        self.bulk.remove(&origin);
        self.endpoints.remove(&origin);
        self.hosts.remove(&origin);
        self.offers.remove(&origin);
        match state.is_some_and(|state| state.tallies()) {
            true => self.tellers.insert(origin),
            false => self.tellers.remove(&origin),
        };
        match state.is_some_and(|state| state.tallies_groups()) {
            true => self.group_tellers.insert(origin),
            false => self.group_tellers.remove(&origin),
        };
        let held = match state.is_some_and(|state| state.has_group_keys()) {
            true => !self.key_holders.insert(origin),
            false => self.key_holders.remove(&origin),
        };
        let holds = self.key_holders.contains(&origin);
        if held != holds || !holds {
            let changed = self.key_holders_changed.unwrap_or_default();
            self.key_holders_changed = Some(changed || held != holds);
        }
        match state.and_then(|state| state.seals()) {
            Some(boot) => self.sealers.insert(origin, boot),
            None => self.sealers.remove(&origin),
        };
        if let Some(state) = state {
            self.take_in(origin, state);
        }
        self.least_usable = self.usable.values().copied().min().unwrap_or(DEFAULT);
    }

    fn take_in(&mut self, origin: NodeAddr, state: &LinkState<'_>) {
        if let Some(bulk) = state.bulk() {
            self.bulk.insert(origin, bulk);
        }
        let endpoints: Vec<Endpoint> = state.endpoints().collect();
        if !endpoints.is_empty() {
            self.endpoints.insert(origin, endpoints);
        }
        let hosts: Vec<Endpoint> = state.hosts().collect();
        if !hosts.is_empty() {
            self.hosts.insert(origin, hosts);
        }
        let links: Vec<Link> = state.links().collect();
        if let Some(kept) = state.offer() {
            let kept = kept.map(|place| links[place].neighbor);
            self.offers.insert(origin, kept.collect());
        }
        // The parser has skipped places that belong to no link.
        let key = |place: usize| (origin, links[place].neighbor);
        for (link, told) in links.iter().zip(state.protections().into_iter().flatten()) {
            if told.is_queued() {
                self.queued.insert((origin, link.neighbor));
            }
        }
        for (place, bytes) in state.usable() {
            // A node that reports a smaller length would make others cut their packets into tiny fragments.
            self.usable.insert(key(place), bytes.max(FLOOR));
        }
        for (place, kbps) in state.capacities() {
            self.told.entry(key(place)).or_default().capacity_kbps = Some(kbps);
        }
        for (place, rates) in state.rates() {
            self.told.entry(key(place)).or_default().rates = Some(rates);
        }
        for (place, hops) in state.hops() {
            self.told.entry(key(place)).or_default().hops = Some(hops);
        }
        for place in state.tunnels() {
            self.told.entry(key(place)).or_default().is_tunnel = true;
        }
    }
}

/// Removes what `origin` has reported.
fn forget<T>(map: &mut BTreeMap<(NodeAddr, NodeAddr), T>, origin: NodeAddr) {
    let of_origin = (origin, NodeAddr(0))..=(origin, NodeAddr(u32::MAX));
    let before: Vec<_> = map.range(of_origin).map(|(key, _)| *key).collect();
    for key in before {
        map.remove(&key);
    }
}
