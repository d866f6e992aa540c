//! The messages of hosts by IGMP and MLD, and their effects.

use super::{Bridge, Outlet, is_of};
use crate::multicast::channel::carrier;
use crate::multicast::drops::{Drop, Drops};
use crate::multicast::hello::Role;
use crate::multicast::igmp::emit::Speaker;
use crate::multicast::igmp::{self, Address, Host, Message, Querier, Query, Timing, mld};
use crate::multicast::notice::{Notice, Said};
use crate::multicast::packet::{Ip, Mac};
use crate::multicast::rules::{Rules, is_source_specific};
use base::{NodeAddr, Time};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::collections::BTreeMap;

/// The members of one address family, and what the bridge itself requests from the network.
#[derive(Debug)]
pub(super) struct Side<A> {
    pub(super) querier: Querier<A>,
    host: Host<A>,
}

/// The addresses from which the bridge sends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Own {
    pub(super) mac: Mac,
    pub(super) v4: Ipv4Addr,
    pub(super) v6: Ipv6Addr,
}

/// An address family in which the bridge has an address.
pub(super) trait Spoken: Address {
    fn of(own: &Own) -> Self;
}

impl Spoken for Ipv4Addr {
    fn of(own: &Own) -> Ipv4Addr {
        own.v4
    }
}

impl Spoken for Ipv6Addr {
    fn of(own: &Own) -> Ipv6Addr {
        own.v6
    }
}

impl Own {
    pub(super) fn speaker<A: Spoken>(&self) -> Speaker<A> {
        Speaker {
            mac: self.mac,
            address: A::of(self),
        }
    }
}

impl<A: Spoken> Side<A> {
    pub(super) fn new(
        timing: &Timing,
        own: A,
        (asks, host_groups, seed): (bool, usize, u64),
        now: Time,
    ) -> Side<A> {
        Side {
            querier: Querier::new(*timing, own, asks, now).with_host_groups(host_groups),
            host: Host::new(timing, seed),
        }
    }

    /// Checks whether a member on this network wants the packets of a source to a group.
    pub(super) fn admits(&self, now: Time, group: A, source: A) -> Result<(), Drop> {
        let members = self.querier.group(group).ok_or(Drop::NoMember)?;
        let is_wanted = members.wants(now, source);
        is_wanted.then_some(()).ok_or(Drop::Filtered)
    }

    pub(super) fn on_timeout<O: Outlet>(&mut self, now: Time, effects: &mut Effects<'_, O>) {
        self.querier.on_timeout(now, effects);
        if now >= self.host.next_timeout() {
            let (from, out) = (effects.own.speaker(), &mut *effects.out);
            let send = |frame: &[u8]| out.transmit(frame);
            self.host.on_timeout(now, from, effects.frame, send);
        }
    }

    pub(super) fn next_timeout(&self) -> Time {
        self.querier.next_timeout().min(self.host.next_timeout())
    }

    pub(super) fn leave_all<O: Outlet>(&mut self, effects: &mut Effects<'_, O>) {
        let (from, out) = (effects.own.speaker(), &mut *effects.out);
        let send = |frame: &[u8]| out.transmit(frame);
        self.host.leave_all(from, effects.frame, send);
    }

    /// Handles a message of `from`. If another router has begun to query instead of this bridge, returns a notice.
    fn on_message<O: Outlet>(
        &mut self,
        now: Time,
        from: Speaker<A>,
        message: &Message<'_, A>,
        effects: &mut Effects<'_, O>,
    ) -> Option<Notice> {
        let before = self.querier.other();
        let rules = effects.rules;
        self.querier.on_message(now, from, message, rules, effects);
        let other = self.querier.other();
        let (address, version) = other.filter(|_| before != other)?;
        let address = address.into();
        Some(Notice::OtherQuerier { address, version })
    }
}

impl Bridge {
    pub(super) fn on_igmp(
        &mut self,
        now: Time,
        ip: &Ip,
        (from, packet): (Mac, &[u8]),
        out: &mut impl Outlet,
    ) -> Result<(), Drop> {
        let IpAddr::V4(source) = ip.source else {
            return Err(Drop::Malformed);
        };
        // A message from beyond this network would have a lower TTL. [RFC 3376 §4]
        if ip.ttl != 1 {
            return Err(Drop::IgmpTtl);
        }
        if ip.is_fragment {
            return Err(Drop::IgmpFragment);
        }
        let message = Message::parse(&packet[ip.header_bytes..ip.total_bytes])?;
        match &message {
            Message::Query(asked) => self.v4.host.on_query(now, asked, &self.timing),
            _ => self.check_reporter(source, out)?,
        }
        self.counters.igmp += 1;
        let from = Speaker {
            mac: from,
            address: source,
        };
        let (v4, _, mut effects) = self.split(out);
        if let Some(notice) = v4.on_message(now, from, &message, &mut effects) {
            effects.say(notice);
        }
        Ok(())
    }

    pub(super) fn on_mld(
        &mut self,
        now: Time,
        ip: &Ip,
        (from, packet): (Mac, &[u8]),
        out: &mut impl Outlet,
    ) -> Result<(), Drop> {
        let IpAddr::V6(source) = ip.source else {
            return Err(Drop::Malformed);
        };
        let message = mld::parse(ip, packet)?;
        // A host without an address may report, but not query. [RFC 3810 §5.1.14, §5.2.13]
        let is_query = matches!(message, Message::Query(_));
        if !source.is_unicast_link_local() && (is_query || !source.is_unspecified()) {
            let host = source.into();
            self.say(Notice::Foreign { host }, out);
            return Err(Drop::IgmpForeign);
        }
        if let Message::Query(asked) = &message {
            self.v6.host.on_query(now, asked, &self.timing);
        }
        self.counters.igmp += 1;
        let from = Speaker {
            mac: from,
            address: source,
        };
        let (_, v6, mut effects) = self.split(out);
        if let Some(notice) = v6.on_message(now, from, &message, &mut effects) {
            effects.say(notice);
        }
        Ok(())
    }

    /// Joins a group on the network; only for these sources, if there are any.
    pub(super) fn want(&mut self, now: Time, group: IpAddr, sources: &[IpAddr]) {
        match group {
            IpAddr::V4(group) => {
                let of_v4 = |source: &IpAddr| match source {
                    IpAddr::V4(source) => Some(*source),
                    IpAddr::V6(_) => None,
                };
                let sources = sources.iter().filter_map(of_v4).collect();
                self.v4.host.want(now, group, sources);
            }
            IpAddr::V6(group) => {
                let of_v6 = |source: &IpAddr| match source {
                    IpAddr::V4(_) => None,
                    IpAddr::V6(source) => Some(*source),
                };
                let sources = sources.iter().filter_map(of_v6).collect();
                self.v6.host.want(now, group, sources);
            }
        }
    }

    /// Checks that the reporter is of this network, or has no address yet. [RFC 3376 §9.2]
    fn check_reporter(&mut self, host: Ipv4Addr, out: &mut impl Outlet) -> Result<(), Drop> {
        let network = self.port.and_then(|port| port.address);
        let is_here = network.is_none_or(|(own, bits)| is_of(host, own, bits));
        if is_here || host.is_unspecified() {
            return Ok(());
        }
        let host = host.into();
        self.say(Notice::Foreign { host }, out);
        Err(Drop::IgmpForeign)
    }

    pub(super) fn split<'b, O: Outlet>(
        &'b mut self,
        out: &'b mut O,
    ) -> (
        &'b mut Side<Ipv4Addr>,
        &'b mut Side<Ipv6Addr>,
        Effects<'b, O>,
    ) {
        let effects = Effects {
            own: self.own(),
            rules: &self.rules,
            is_forwarding: self.election.role() == Role::Forwarding,
            carriers: &mut self.carriers,
            frame: &mut self.frame,
            drops: &mut self.counters.drops,
            said: &mut self.said,
            out,
        };
        (&mut self.v4, &mut self.v6, effects)
    }
}

/// Carries out the effects of what hosts report.
pub(super) struct Effects<'b, O> {
    own: Own,
    rules: &'b Rules,
    is_forwarding: bool,
    carriers: &'b mut BTreeMap<NodeAddr, u32>,
    frame: &'b mut Vec<u8>,
    drops: &'b mut Drops,
    said: &'b mut Said,
    out: &'b mut O,
}

impl<O: Outlet> Effects<'_, O> {
    /// Records that one more use of the overlay group has begun, or that one has ended.
    fn want(&mut self, by: NodeAddr, is_wanted: bool) {
        let uses = self.carriers.entry(by).or_insert(0);
        let before = *uses;
        *uses = match is_wanted {
            true => before + 1,
            false => before.saturating_sub(1),
        };
        let is = *uses > 0;
        if !is {
            self.carriers.remove(&by);
        }
        if self.is_forwarding && is != (before > 0) {
            self.out.member(by, is);
        }
    }

    fn say(&mut self, notice: Notice) {
        if self.said.first(notice) {
            self.out.notice(notice);
        }
    }
}

impl<A: Spoken, O: Outlet> igmp::Outlet<A> for Effects<'_, O> {
    fn query(&mut self, query: &Query<'_, A>) {
        A::query(self.frame, self.own.speaker(), query);
        self.out.transmit(self.frame);
    }

    fn member(&mut self, group: A, is_wanted: bool) {
        // For source-specific groups, each channel is joined instead.
        if !is_source_specific(group) {
            self.want(carrier(group, A::UNSPECIFIED), is_wanted);
        }
    }

    fn channel(&mut self, group: A, source: A, is_wanted: bool) {
        self.want(carrier(group, source), is_wanted);
    }

    fn refused(&mut self, from: Speaker<A>, group: A, reason: Drop) {
        self.drops.count(reason);
        let group = group.into();
        match reason {
            Drop::HostTooMany => self.say(Notice::HostLimit { mac: from.mac }),
            Drop::JoinNotAllowed => self.say(Notice::JoinNotAllowed { group }),
            Drop::JoinWithoutSource => self.say(Notice::WithoutSource { group }),
            _ => self.say(Notice::TooManyJoins),
        }
    }

    fn unanswered(&mut self, group: A) {
        let group = group.into();
        self.say(Notice::Unanswered { group });
    }
}
