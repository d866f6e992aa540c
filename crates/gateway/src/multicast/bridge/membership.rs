//! What hosts of the network say by IGMP, and what follows from it.

use super::{Bridge, Outlet, is_of};
use crate::multicast::channel::carrier;
use crate::multicast::drops::{Drop, Drops};
use crate::multicast::hello::Role;
use crate::multicast::igmp::emit::{self, Speaker};
use crate::multicast::igmp::{self, Message, Querier, Query};
use crate::multicast::notice::{Notice, Said};
use crate::multicast::packet::{Ip, Mac};
use crate::multicast::rules::{Rules, is_source_specific};
use base::{NodeAddr, Time};
use core::net::Ipv4Addr;
use std::collections::BTreeMap;

impl Bridge {
    pub(super) fn on_igmp(
        &mut self,
        now: Time,
        ip: &Ip,
        (from, packet): (Mac, &[u8]),
        out: &mut impl Outlet,
    ) -> Result<(), Drop> {
        // From beyond this network it would have been counted down. [RFC 3376 §4]
        if ip.ttl != 1 {
            return Err(Drop::IgmpTtl);
        }
        if ip.is_fragment {
            return Err(Drop::IgmpFragment);
        }
        let message = Message::parse(&packet[ip.header_bytes..ip.total_bytes])?;
        match &message {
            Message::Query(asked) => self.host.on_query(now, asked, &self.timing),
            _ => self.check_reporter(ip.source, out)?,
        }
        self.counters.igmp += 1;
        let before = self.querier.other();
        let from = Speaker {
            mac: from,
            address: ip.source,
        };
        let (querier, mut effects) = self.split(out);
        let rules = effects.rules;
        querier.on_message(now, from, &message, rules, &mut effects);
        if let Some((address, version)) = self.querier.other()
            && before != Some((address, version))
        {
            self.say(Notice::OtherQuerier { address, version }, out);
        }
        Ok(())
    }

    /// Whether who reports is of this network, or has no address yet. [RFC 3376 §9.2]
    fn check_reporter(&mut self, host: Ipv4Addr, out: &mut impl Outlet) -> Result<(), Drop> {
        let network = self.port.and_then(|port| port.address);
        let is_here = network.is_none_or(|(own, bits)| is_of(host, own, bits));
        if is_here || host.is_unspecified() {
            return Ok(());
        }
        self.say(Notice::Foreign { host }, out);
        Err(Drop::IgmpForeign)
    }

    pub(super) fn split<'b, O: Outlet>(
        &'b mut self,
        out: &'b mut O,
    ) -> (&'b mut Querier, Effects<'b, O>) {
        let from = self.speaker();
        let effects = Effects {
            from,
            rules: &self.rules,
            is_forwarding: self.election.role() == Role::Forwarding,
            carriers: &mut self.carriers,
            frame: &mut self.frame,
            drops: &mut self.counters.drops,
            said: &mut self.said,
            out,
        };
        (&mut self.querier, effects)
    }
}

/// What follows from what hosts say.
pub(super) struct Effects<'b, O> {
    from: Speaker,
    rules: &'b Rules,
    is_forwarding: bool,
    carriers: &'b mut BTreeMap<NodeAddr, u32>,
    frame: &'b mut Vec<u8>,
    drops: &'b mut Drops,
    said: &'b mut Said,
    out: &'b mut O,
}

impl<O: Outlet> Effects<'_, O> {
    /// Something that the overlay's group carries is wanted, or is not any more.
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

impl<O: Outlet> igmp::Outlet for Effects<'_, O> {
    fn query(&mut self, query: &Query<'_>) {
        emit::query(self.frame, self.from, query);
        self.out.transmit(self.frame);
    }

    fn member(&mut self, group: Ipv4Addr, is_wanted: bool) {
        // Of the others each channel is joined.
        if !is_source_specific(group) {
            self.want(NodeAddr(group.to_bits()), is_wanted);
        }
    }

    fn channel(&mut self, group: Ipv4Addr, source: Ipv4Addr, is_wanted: bool) {
        self.want(carrier(group, source), is_wanted);
    }

    fn refused(&mut self, from: Speaker, group: Ipv4Addr, reason: Drop) {
        self.drops.count(reason);
        match reason {
            Drop::HostTooMany => self.say(Notice::HostLimit { mac: from.mac }),
            Drop::JoinNotAllowed => self.say(Notice::JoinNotAllowed { group }),
            Drop::JoinWithoutSource => self.say(Notice::WithoutSource { group }),
            _ => self.say(Notice::TooManyJoins),
        }
    }

    fn unanswered(&mut self, group: Ipv4Addr) {
        self.say(Notice::Unanswered { group });
    }
}
