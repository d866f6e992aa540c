//! The decisions of an AMT relay: which gateways it believes, which packets they get, and which groups it requests from
//! the overlay.
//!
//! ```text
//!   Discovery ──▶ Advertisement        Request ──▶ Query, with a MAC of the asker's address
//!   Update with that MAC ──▶ tunnel ── IGMP, MLD ──▶ its groups ──▶ join, leave
//!   packet of the overlay ──▶ Data to each tunnel that wants it
//! ```
//! The relay stores nothing for an address until an update returns the MAC that was sent to that address. Until then,
//! the address gets no more than one short answer for each question. [RFC 7450 §5.3.3]

use super::message::{MAC_BYTES, Mac, Message};
use crate::multicast::channel::carrier;
use crate::multicast::drops::Drop as Why;
use crate::multicast::igmp::emit::Speaker;
use crate::multicast::igmp::{self, Address, Message as Igmp, Querier, Query, Timing, mld};
use crate::multicast::packet::{ETHERNET_BYTES, Ip, PROTOCOL_IGMP};
use crate::multicast::rules::{Rules, is_source_specific};
use base::token_bucket::TokenBucket;
use base::{Duration, NodeAddr, Time};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::collections::{BTreeMap, BTreeSet};
use subtle::ConstantTimeEq as _;

/// The maximum number of receivers of one relay: at about 500 bytes each half a megabyte, and a copy of each packet.
pub const TUNNELS_MAX: usize = 1_024;
/// The maximum number of receivers of one host, which may be behind one address translator. Choice: a /64 of IPv6
/// counts as one host, which may send from any address in it.
pub const TUNNELS_PER_HOST_MAX: usize = 32;
/// The maximum number of groups of one receiver, for each family of addresses.
pub const GROUPS_PER_TUNNEL_MAX: usize = 64;
/// The number of answers per second to senders that have not yet proved their address: 1000 of 60 bytes are half a
/// Mbit/s, whomever they hit.
const ANSWERS_PER_S: f64 = 1_000.0;
/// The number of answers to one receiver per second, and at once. A receiver asks for IPv4 and IPv6 every half minute
/// or so. Others that use its address cannot cause more traffic to it.
const ANSWERS_TO_RECEIVER_PER_S: f64 = 2.0;
const ANSWERS_TO_RECEIVER_AT_ONCE: f64 = 4.0;
/// How long a secret is used for MACs. MACs of the previous secret are still valid, so a gateway has this time to
/// answer.
const SECRET_EVERY: Duration = Duration::from_secs(120);

/// Why something was refused. The order is that of the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refused {
    /// Not an AMT message, or one that only relays send.
    Malformed,
    /// A MAC that was not given to this address.
    Mac,
    /// More questions than are answered.
    Flood,
    /// The maximum number of receivers has been reached.
    Full,
    /// The maximum number of receivers of one host has been reached.
    AddressFull,
    /// Incorrect IGMP or MLD.
    Igmp,
    /// A group that must not be relayed, or a join that names no source where it must.
    Group,
    /// More groups or sources than one receiver may have.
    TooMany,
    /// An incorrect packet of the overlay.
    Forged,
    /// A packet of the overlay that no receiver wants.
    NoMember,
}

impl Refused {
    /// All reasons, in the order of their counters.
    pub const ALL: [Refused; 10] = [
        Refused::Malformed,
        Refused::Mac,
        Refused::Flood,
        Refused::Full,
        Refused::AddressFull,
        Refused::Igmp,
        Refused::Group,
        Refused::TooMany,
        Refused::Forged,
        Refused::NoMember,
    ];

    /// Returns the counter's name.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Refused::Malformed => "malformed",
            Refused::Mac => "mac",
            Refused::Flood => "flood",
            Refused::Full => "full",
            Refused::AddressFull => "address_full",
            Refused::Igmp => "igmp",
            Refused::Group => "group",
            Refused::TooMany => "too_many",
            Refused::Forged => "forged",
            Refused::NoMember => "no_member",
        }
    }
}

/// Counters of a relay's work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Number of packets that came from the overlay.
    pub packets: u64,
    /// Number of copies that were sent to receivers.
    pub sent: u64,
    /// Number of bytes of these copies, with the header of AMT.
    pub sent_bytes: u64,
    /// Numbers of refusals, by reason.
    pub refused: [u64; Refused::ALL.len()],
}

/// The interface through which a relay acts.
pub trait Outlet {
    /// Sends a datagram.
    fn send(&mut self, to: SocketAddr, bytes: &[u8]);
    /// Reports that the overlay's group is wanted, or no longer wanted.
    fn member(&mut self, group: NodeAddr, is_wanted: bool);
}

/// The settings of a relay.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The address at which gateways reach the relay.
    pub address: IpAddr,
    /// The groups that it relays.
    pub rules: Rules,
    /// The secret for MACs.
    pub secret: [u8; 32],
}

/// A relay.
#[derive(Debug)]
pub struct Relay {
    settings: Settings,
    started: Time,
    tunnels: BTreeMap<SocketAddr, Tunnel>,
    per_host: BTreeMap<IpAddr, usize>,
    /// For each group of the overlay, the receivers that want something of it.
    wanted: BTreeMap<NodeAddr, BTreeMap<SocketAddr, u32>>,
    /// The budget for answers to senders that are not receivers. Receivers have their own, so that strangers who ask
    /// all the time do not use it up.
    answers: TokenBucket,
    counters: Counters,
    bytes: Vec<u8>,
    query: Vec<u8>,
}

/// The wishes of one receiver.
#[derive(Debug)]
struct Tunnel {
    v4: Querier,
    v6: Querier<Ipv6Addr>,
    answers: TokenBucket,
}

impl Tunnel {
    fn new(now: Time) -> Tunnel {
        Tunnel {
            v4: Tunnel::side(Ipv4Addr::UNSPECIFIED, now),
            v6: Tunnel::side(ASKS, now),
            answers: TokenBucket::new(ANSWERS_TO_RECEIVER_PER_S, ANSWERS_TO_RECEIVER_AT_ONCE, now),
        }
    }

    fn side<A: Address>(own: A, now: Time) -> Querier<A> {
        let side = Querier::new(Timing::default(), own, true, now);
        side.with_host_groups(GROUPS_PER_TUNNEL_MAX)
    }

    fn wants(&self, now: Time, ip: &Ip) -> bool {
        match (ip.destination, ip.source) {
            (IpAddr::V4(group), IpAddr::V4(source)) => self.v4.wants(now, group, source),
            (IpAddr::V6(group), IpAddr::V6(source)) => self.v6.wants(now, group, source),
            _ => false,
        }
    }

    fn next_timeout(&self) -> Time {
        self.v4.next_timeout().min(self.v6.next_timeout())
    }

    fn is_idle(&self) -> bool {
        self.v4.groups().len() + self.v6.groups().len() == 0
    }
}

/// The source address of MLD queries: any address of the link, as a router's must be. [RFC 3810 §5.1.14]
const ASKS: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2);
/// The Ethernet address of the one host behind a tunnel, for the tables of IGMP.
const HOST: [u8; 6] = [0x02, 0x53, 0x4e, 0, 0, 0];

impl Relay {
    /// Creates a relay without receivers.
    #[must_use]
    pub fn new(settings: Settings, now: Time) -> Relay {
        Relay {
            settings,
            started: now,
            tunnels: BTreeMap::new(),
            per_host: BTreeMap::new(),
            wanted: BTreeMap::new(),
            answers: TokenBucket::new(ANSWERS_PER_S, ANSWERS_PER_S, now),
            counters: Counters::default(),
            bytes: Vec::new(),
            query: Vec::new(),
        }
    }

    /// Returns the number of receivers.
    #[must_use]
    pub fn tunnels(&self) -> usize {
        self.tunnels.len()
    }

    /// Returns the number of groups of the overlay that the receivers want.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.wanted.len()
    }

    /// Returns the counters of its work.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Handles a datagram.
    pub fn on_datagram(
        &mut self,
        now: Time,
        from: SocketAddr,
        bytes: &[u8],
        out: &mut impl Outlet,
    ) {
        let from = SocketAddr::new(from.ip().to_canonical(), from.port());
        if let Err(why) = self.handle(now, from, bytes, out) {
            self.refuse(why);
        }
    }

    /// Handles a packet of the overlay.
    pub fn on_overlay(&mut self, now: Time, by: NodeAddr, packet: &[u8], out: &mut impl Outlet) {
        self.counters.packets += 1;
        let Some(ip) = self.is_right(by, packet) else {
            return self.refuse(Refused::Forged);
        };
        let Some(all) = self.wanted.get(&by) else {
            return self.refuse(Refused::NoMember);
        };
        self.bytes.clear();
        Message::Data { packet }.emit(&mut self.bytes);
        for to in all.keys() {
            let tunnel = self.tunnels.get(to);
            if tunnel.is_some_and(|tunnel| tunnel.wants(now, &ip)) {
                out.send(*to, &self.bytes);
                self.counters.sent += 1;
                self.counters.sent_bytes += self.bytes.len() as u64;
            }
        }
    }

    /// Does what is due.
    pub fn on_timeout(&mut self, now: Time, out: &mut impl Outlet) {
        let due = self.tunnels.iter();
        let due = due.filter(|(_, tunnel)| tunnel.next_timeout() <= now);
        let due: Vec<SocketAddr> = due.map(|(at, _)| *at).collect();
        for at in due {
            let mut said = Said::default();
            if let Some(tunnel) = self.tunnels.get_mut(&at) {
                tunnel.v4.on_timeout(now, &mut said);
                tunnel.v6.on_timeout(now, &mut said);
            }
            self.follow(at, said, out);
        }
    }

    /// Returns when something is due next. It takes microseconds to look at all receivers, once a second.
    #[must_use]
    pub fn next_timeout(&self) -> Time {
        let next = self.tunnels.values().map(Tunnel::next_timeout).min();
        next.unwrap_or(Time::FAR)
    }

    fn handle(
        &mut self,
        now: Time,
        from: SocketAddr,
        bytes: &[u8],
        out: &mut impl Outlet,
    ) -> Result<(), Refused> {
        match Message::parse(bytes).map_err(|_| Refused::Malformed)? {
            Message::Discovery { nonce } => {
                let relay = self.settings.address;
                self.answer(now, from, &Message::Advertisement { nonce, relay }, out)
            }
            Message::Request { is_mld, nonce } => {
                let mut query = core::mem::take(&mut self.query);
                match is_mld {
                    false => write_query(&mut query, Ipv4Addr::UNSPECIFIED),
                    true => write_query(&mut query, ASKS),
                }
                let asked = self.ask(now, from, (nonce, &query), out);
                self.query = query;
                asked
            }
            Message::Update { mac, nonce, packet } => {
                self.check(now, from, nonce, mac)?;
                self.update(now, from, packet, out)
            }
            Message::Teardown {
                mac,
                nonce,
                gateway,
            } => {
                self.check(now, gateway, nonce, mac)?;
                self.tear_down(gateway, out);
                Ok(())
            }
            Message::Advertisement { .. } | Message::Query { .. } | Message::Data { .. } => {
                Err(Refused::Malformed)
            }
        }
    }

    /// Answers a question. The sender may be at another address than it claims. So a receiver has a budget of its own,
    /// which strangers in its name use up first, and then the common one.
    fn answer(
        &mut self,
        now: Time,
        to: SocketAddr,
        message: &Message<'_>,
        out: &mut impl Outlet,
    ) -> Result<(), Refused> {
        let own = self.tunnels.get_mut(&to);
        let may = own.is_some_and(|tunnel| tunnel.answers.try_take(now, 1.0))
            || self.answers.try_take(now, 1.0);
        if !may {
            return Err(Refused::Flood);
        }
        self.bytes.clear();
        message.emit(&mut self.bytes);
        out.send(to, &self.bytes);
        Ok(())
    }

    fn ask(
        &mut self,
        now: Time,
        from: SocketAddr,
        (nonce, query): (u32, &[u8]),
        out: &mut impl Outlet,
    ) -> Result<(), Refused> {
        // The padding of an Ethernet frame does not belong to the packet.
        let bytes = Ip::parse(&query[ETHERNET_BYTES..]).map_or(0, |ip| ip.total_bytes);
        let message = Message::Query {
            is_full: !self.has_room(from),
            mac: self.mac(self.epoch(now), from, nonce),
            nonce,
            packet: &query[ETHERNET_BYTES..ETHERNET_BYTES + bytes],
            gateway: Some(from),
        };
        self.answer(now, from, &message, out)
    }

    fn update(
        &mut self,
        now: Time,
        from: SocketAddr,
        packet: &[u8],
        out: &mut impl Outlet,
    ) -> Result<(), Refused> {
        let ip = Ip::parse(packet).map_err(|_| Refused::Igmp)?;
        match ip.source {
            IpAddr::V4(source) if ip.protocol == PROTOCOL_IGMP && !ip.is_fragment => {
                let message = Igmp::parse(&packet[ip.header_bytes..ip.total_bytes]);
                self.hear(now, (from, source), message, |tunnel| &mut tunnel.v4, out)
            }
            IpAddr::V6(source) if mld::is_mld(&ip, packet) => {
                let message = mld::parse(&ip, packet);
                self.hear(now, (from, source), message, |tunnel| &mut tunnel.v6, out)
            }
            _ => Err(Refused::Igmp),
        }
    }

    /// Handles a report of the receiver at `from`, with the address `source` behind its tunnel.
    fn hear<A: Address>(
        &mut self,
        now: Time,
        (from, source): (SocketAddr, A),
        message: Result<Igmp<'_, A>, Why>,
        side: impl FnOnce(&mut Tunnel) -> &mut Querier<A>,
        out: &mut impl Outlet,
    ) -> Result<(), Refused> {
        let message = message.map_err(|_| Refused::Igmp)?;
        if matches!(message, Igmp::Query(_)) {
            return Err(Refused::Igmp);
        }
        if !self.tunnels.contains_key(&from) {
            self.enter(now, from)?;
        }
        let mut said = Said::default();
        let speaker = Speaker {
            mac: HOST,
            address: source,
        };
        if let Some(tunnel) = self.tunnels.get_mut(&from) {
            let rules = &self.settings.rules;
            side(tunnel).on_message(now, speaker, &message, rules, &mut said);
        }
        self.follow(from, said, out);
        Ok(())
    }

    fn enter(&mut self, now: Time, from: SocketAddr) -> Result<(), Refused> {
        if self.tunnels.len() >= TUNNELS_MAX {
            return Err(Refused::Full);
        }
        if !self.has_room(from) {
            return Err(Refused::AddressFull);
        }
        self.tunnels.insert(from, Tunnel::new(now));
        *self.per_host.entry(host(from)).or_insert(0) += 1;
        Ok(())
    }

    /// Returns true if another receiver of this host is allowed.
    fn has_room(&self, from: SocketAddr) -> bool {
        let own = self.per_host.get(&host(from)).copied().unwrap_or(0);
        let is_known = self.tunnels.contains_key(&from);
        is_known || (self.tunnels.len() < TUNNELS_MAX && own < TUNNELS_PER_HOST_MAX)
    }

    fn tear_down(&mut self, at: SocketAddr, out: &mut impl Outlet) {
        let mut said = Said::default();
        if let Some(tunnel) = self.tunnels.get_mut(&at) {
            tunnel.v4.forget(&mut said);
            tunnel.v6.forget(&mut said);
        }
        self.follow(at, said, out);
    }

    /// Applies the consequences of a receiver's report. A receiver that wants nothing any more is removed.
    fn follow(&mut self, at: SocketAddr, said: Said, out: &mut impl Outlet) {
        for why in said.refused {
            self.refuse(why);
        }
        for (by, is_wanted) in said.changes {
            let before = self.wanted.contains_key(&by);
            let all = self.wanted.entry(by).or_default();
            let uses = all.entry(at).or_insert(0);
            *uses = match is_wanted {
                true => *uses + 1,
                false => uses.saturating_sub(1),
            };
            if *uses == 0 {
                all.remove(&at);
            }
            let is = !all.is_empty();
            if !is {
                self.wanted.remove(&by);
            }
            if is != before {
                out.member(by, is);
            }
        }
        if self.tunnels.get(&at).is_some_and(Tunnel::is_idle) {
            self.tunnels.remove(&at);
            if let Some(count) = self.per_host.get_mut(&host(at)) {
                *count -= 1;
                if *count == 0 {
                    self.per_host.remove(&host(at));
                }
            }
        }
    }

    fn is_right(&self, by: NodeAddr, packet: &[u8]) -> Option<Ip> {
        let ip = Ip::parse(packet).ok()?;
        let is_right = carrier(ip.destination, ip.source) == by
            && ip.total_bytes == packet.len()
            && ip.protocol != PROTOCOL_IGMP
            && !mld::is_mld(&ip, packet)
            && self.settings.rules.allows(ip.destination);
        is_right.then_some(ip)
    }

    fn check(&self, now: Time, at: SocketAddr, nonce: u32, mac: Mac) -> Result<(), Refused> {
        let epoch = self.epoch(now);
        let epochs = [Some(epoch), epoch.checked_sub(1)];
        let is_good = |epoch: u64| bool::from(self.mac(epoch, at, nonce).ct_eq(&mac));
        match epochs.into_iter().flatten().any(is_good) {
            true => Ok(()),
            false => Err(Refused::Mac),
        }
    }

    fn epoch(&self, now: Time) -> u64 {
        now.since(self.started).as_nanos() / SECRET_EVERY.as_nanos()
    }

    /// Computes the MAC, which is bound to the address of the gateway, its nonce, and the time. [RFC 7450 §5.3.5]
    fn mac(&self, epoch: u64, at: SocketAddr, nonce: u32) -> Mac {
        let mut hasher = blake3::Hasher::new_keyed(&self.settings.secret);
        hasher.update(&epoch.to_be_bytes());
        match at.ip().to_canonical() {
            IpAddr::V4(address) => hasher.update(&address.octets()),
            IpAddr::V6(address) => hasher.update(&address.octets()),
        };
        hasher.update(&at.port().to_be_bytes());
        hasher.update(&nonce.to_be_bytes());
        let mut mac = [0; MAC_BYTES];
        mac.copy_from_slice(&hasher.finalize().as_bytes()[..MAC_BYTES]);
        mac
    }

    fn refuse(&mut self, why: Refused) {
        self.counters.refused[why as usize] += 1;
    }
}

/// Returns the owner of an address: a host with IPv6 may use its whole network of 64 bits.
fn host(at: SocketAddr) -> IpAddr {
    match at.ip() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

/// Writes the general query, which asks every receiver what it wants.
fn write_query<A: Address>(frame: &mut Vec<u8>, own: A) {
    let timing = Timing::default();
    let speaker = Speaker {
        mac: HOST,
        address: own,
    };
    let asked = Query {
        group: None,
        sources: &[],
        suppress: false,
        max_response: timing.startup_response,
        robustness: timing.robustness,
        interval: timing.query_interval,
    };
    A::query(frame, speaker, &asked);
}

/// The consequences of a receiver's report.
#[derive(Debug, Default)]
struct Said {
    changes: Vec<(NodeAddr, bool)>,
    refused: BTreeSet<Refused>,
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

#[cfg(test)]
mod tests;
