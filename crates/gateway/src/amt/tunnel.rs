//! The receivers of a relay: what each of them wants, and what those of one host take together.

use super::counters::Refused;
use crate::multicast::channel::carrier;
use crate::multicast::drops::Drop as Why;
use crate::multicast::igmp::emit::Speaker;
use crate::multicast::igmp::{self, Address, Querier, Query, Timing};
use crate::multicast::packet::Ip;
use crate::multicast::rules::is_source_specific;
use base::token_bucket::TokenBucket;
use base::{NodeAddr, Time};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::collections::{BTreeMap, BTreeSet};

/// The number of answers to one receiver per second, and at once. A receiver asks for IPv4 and IPv6 every half minute
/// or so. Others that use its address cannot cause more traffic to it.
const ANSWERS_TO_RECEIVER_PER_S: f64 = 2.0;
const ANSWERS_TO_RECEIVER_AT_ONCE: f64 = 4.0;
/// The source address of MLD queries: any address of the link, as a router's must be. [RFC 3810 §5.1.14]
pub(super) const ASKS: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2);
/// The Ethernet address of the one host behind a tunnel, for the tables of IGMP.
pub(super) const HOST: [u8; 6] = [0x02, 0x53, 0x4e, 0, 0, 0];

/// What the receivers of one host take.
#[derive(Debug, Default)]
pub(super) struct Host {
    pub(super) tunnels: usize,
    /// The groups of the overlay, each with the number of receivers that want something of it.
    pub(super) groups: BTreeMap<NodeAddr, usize>,
}

impl Host {
    /// Counts a group when a receiver begins to want something of it, and when it no longer does.
    pub(super) fn count(&mut self, by: NodeAddr, was: bool, is: bool) {
        match (was, is) {
            (false, true) => *self.groups.entry(by).or_insert(0) += 1,
            (true, false) => {
                let users = self.groups.get_mut(&by);
                let users = users.expect("a group that a receiver wants is counted");
                *users -= 1;
                if *users == 0 {
                    self.groups.remove(&by);
                }
            }
            _ => {}
        }
    }
}

/// The wishes of one receiver.
#[derive(Debug)]
pub(super) struct Tunnel {
    pub(super) v4: Querier,
    pub(super) v6: Querier<Ipv6Addr>,
    pub(super) answers: TokenBucket,
}

impl Tunnel {
    pub(super) fn new(now: Time) -> Tunnel {
        Tunnel {
            v4: Tunnel::side(Ipv4Addr::UNSPECIFIED, now),
            v6: Tunnel::side(ASKS, now),
            answers: TokenBucket::new(ANSWERS_TO_RECEIVER_PER_S, ANSWERS_TO_RECEIVER_AT_ONCE, now),
        }
    }

    fn side<A: Address>(own: A, now: Time) -> Querier<A> {
        Querier::new(Timing::default(), own, true, now)
    }

    pub(super) fn wants(&self, now: Time, ip: &Ip) -> bool {
        match (ip.destination, ip.source) {
            (IpAddr::V4(group), IpAddr::V4(source)) => self.v4.wants(now, group, source),
            (IpAddr::V6(group), IpAddr::V6(source)) => self.v6.wants(now, group, source),
            _ => false,
        }
    }

    pub(super) fn next_timeout(&self) -> Time {
        self.v4.next_timeout().min(self.v6.next_timeout())
    }

    pub(super) fn is_idle(&self) -> bool {
        self.v4.groups().len() + self.v6.groups().len() == 0
    }
}

/// Returns the owner of an address: a host with IPv6 may use its whole network of 64 bits.
pub(super) fn host(at: SocketAddr) -> IpAddr {
    match at.ip() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

/// The consequences of a receiver's report.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub(super) changes: Vec<(NodeAddr, bool)>,
    pub(super) refused: BTreeSet<Refused>,
}

impl<A: Address> igmp::Outlet<A> for Said {
    // Choice: a receiver is only queried by the answers to its own requests.
    fn query(&mut self, _: &Query<'_, A>) {}

    fn member(&mut self, group: A, is_wanted: bool) {
        if !is_source_specific(group) {
            let by = carrier(group, A::UNSPECIFIED);
            self.changes.push((by, is_wanted));
        }
    }

    fn channel(&mut self, group: A, source: A, is_wanted: bool) {
        self.changes.push((carrier(group, source), is_wanted));
    }

    fn refused(&mut self, _: Speaker<A>, _: A, reason: Why) {
        self.refused.insert(match reason {
            Why::JoinNotAllowed | Why::JoinWithoutSource => Refused::Group,
            _ => Refused::TooMany,
        });
    }

    fn unanswered(&mut self, _: A) {}
}
