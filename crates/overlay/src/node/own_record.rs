//! The record in which a node announces itself: the time at which its next record is due, and its content besides the
//! costs of links.
//!
//! ```text
//!   something that the record says has changed ─▶ note ─▶ OWN_RECORD_SPACING after the last one ─▶ written and flooded
//! ```

use crate::link::Link;
use crate::mtu;
use base::token_bucket::TokenBucket;
use base::{Duration, Time};
use core::cmp::Reverse;
use wire::Endpoint;
use wire::bytes::Writer;
use wire::link_state::{
    Bulk, write_alarms, write_bulk, write_capacities, write_endpoints, write_group_keys,
    write_group_tallies, write_hops, write_hosts, write_link_rates, write_offer, write_protections,
    write_relays_for, write_tallies, write_tunnels, write_usable, write_version,
};

/// The shortest time between two records of this node: several links that change at once are announced together, and a
/// node with many unstable links does not flood the network.
const OWN_RECORD_SPACING: Duration = Duration::from_millis(50);

/// Records that this node makes because of alarms: the number at once, and the number per second. Choice: all links of
/// most nodes at once; an alarm that comes then is announced in the record of the next second.
const ALARMS_AT_ONCE: f64 = 10.0;
const ALARMS_PER_S: f64 = 1.0;

/// The record of this node.
#[derive(Debug)]
pub(super) struct OwnRecord {
    is_due: bool,
    /// No record before this moment.
    after: Time,
    /// The budget of records for alarms; `None` if alarms are not announced.
    alarms: Option<TokenBucket>,
    /// The node's role in bulk data, once that is known.
    bulk: Option<Bulk>,
    /// The version of the program; empty if it is not announced.
    version: &'static str,
}

impl OwnRecord {
    /// Returns the state before the first record, which is due at once.
    pub(super) fn new(tells_alarms: bool) -> OwnRecord {
        let bucket = || TokenBucket::new(ALARMS_PER_S, ALARMS_AT_ONCE, Time::ZERO);
        OwnRecord {
            is_due: true,
            after: Time::ZERO,
            alarms: tells_alarms.then(bucket),
            bulk: None,
            version: "",
        }
    }

    /// Something in the record has changed.
    pub(super) fn note(&mut self) {
        self.is_due = true;
    }

    /// The same if there is news.
    pub(super) fn note_if(&mut self, is_news: bool) {
        self.is_due |= is_news;
    }

    /// A link to this node has begun to lose packets, or has ceased to. Others are notified, unless too many
    /// notifications have been sent recently.
    pub(super) fn alarm(&mut self, now: Time) {
        let alarms = self.alarms.as_mut();
        self.is_due |= alarms.is_some_and(|alarms| alarms.try_take(now, 1.0));
    }

    pub(super) fn set_version(&mut self, version: &'static str) {
        self.version = version;
        self.note();
    }

    pub(super) fn set_bulk(&mut self, bulk: Bulk) {
        let before = self.bulk.replace(bulk);
        self.note_if(before != Some(bulk));
    }

    /// Returns true if the record is to be written now.
    pub(super) fn take_due(&mut self, now: Time) -> bool {
        if !self.is_due || now < self.after {
            return false;
        }
        (self.is_due, self.after) = (false, now + OWN_RECORD_SPACING);
        true
    }

    pub(super) fn next_timeout(&self) -> Option<Time> {
        self.is_due.then_some(self.after)
    }

    /// Writes what is announced besides the costs of links, as far as there is room.
    pub(super) fn write(&self, w: &mut Writer<'_>, now: Time, links: &[&Link], own: &Own<'_>) {
        const BOUNDED: &str = "it bounds itself to what is left";
        let told = || (0u8..).zip(links);
        let usable = told().map(|(i, link)| (i, link.path.mtu.usable()));
        let usable: Vec<_> = usable
            .filter(|(_, usable)| *usable < mtu::DEFAULT)
            .collect();
        let capacities = told().map(|(i, link)| (i, link.capacity_kbps));
        let capacities: Vec<_> = capacities.filter(|(_, kbps)| *kbps > 0).collect();
        let carried = told().filter_map(|(i, link)| Some((i, link.carried?.told(now)?)));
        let carried: Vec<_> = carried.collect();
        let hops: Vec<_> = told()
            .filter_map(|(i, link)| Some((i, link.hops?)))
            .collect();
        write_usable(w, &usable).expect(BOUNDED);
        if own.tallies {
            write_tallies(w).expect(BOUNDED);
        }
        if own.group_keys {
            write_group_keys(w).expect(BOUNDED);
        }
        // A node without an offer is in no ring: so the offer precedes what may be missing.
        if let Some(kept) = own.offer {
            write_offer(w, kept).expect(BOUNDED);
        }
        if own.alarms {
            let alarms = told().filter(|(_, link)| link.tells_alarm(now));
            let alarms: Vec<u8> = alarms.map(|(i, _)| i).collect();
            write_alarms(w, &alarms).expect(BOUNDED);
        }
        write_endpoints(w, own.endpoints).expect(BOUNDED);
        write_capacities(w, &capacities).expect(BOUNDED);
        if own.tallies && own.group_keys {
            write_group_tallies(w).expect(BOUNDED);
        }
        if let Some(bulk) = self.bulk {
            write_bulk(w, bulk).expect(BOUNDED);
        }
        write_hosts(w, own.hosts).expect(BOUNDED);
        let protections = told().filter_map(|(i, link)| Some((i, link.protection()?)));
        let mut protections: Vec<_> = protections.collect();
        // The protection matters most on the links that lose most.
        protections.sort_by_key(|(i, _)| Reverse(links[usize::from(*i)].announced_loss()));
        write_protections(w, &protections).expect(BOUNDED);
        // A node that does not get this list asks.
        if let Some(nodes) = self.bulk.and_then(|bulk| bulk.relays_for) {
            write_relays_for(w, &nodes).expect(BOUNDED);
        }
        write_link_rates(w, &carried).expect(BOUNDED);
        write_hops(w, &hops).expect(BOUNDED);
        write_version(w, self.version).expect(BOUNDED);
        let tunnels = told().filter(|(_, link)| link.is_over_stream());
        let tunnels: Vec<u8> = tunnels.map(|(i, _)| i).collect();
        write_tunnels(w, &tunnels).expect(BOUNDED);
    }
}

/// The content of a node's record about itself.
pub(super) struct Own<'a> {
    /// The node answers how many packets sealed for it have been opened.
    pub(super) tallies: bool,
    /// The node opens what is sealed for groups.
    pub(super) group_keys: bool,
    /// The node announces over which links packets to it are being lost.
    pub(super) alarms: bool,
    pub(super) endpoints: &'a [Endpoint],
    pub(super) hosts: &'a [Endpoint],
    /// The node offers itself as a neighbour, and keeps these links, by place.
    pub(super) offer: Option<&'a [u8]>,
}
