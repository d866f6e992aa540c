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

use super::counters::{Counters, Refused};
use super::message::{MAC_BYTES, Mac, Message};
use super::tunnel::{ASKS, HOST, Host, Said, Tunnel, host};
use crate::multicast::channel::carrier;
use crate::multicast::drops::Drop as Why;
use crate::multicast::igmp::emit::Speaker;
use crate::multicast::igmp::{Address, Message as Igmp, Querier, Query, Timing, mld};
use crate::multicast::packet::{ETHERNET_BYTES, Ip, PROTOCOL_IGMP};
use crate::multicast::rules::Rules;
use base::token_bucket::TokenBucket;
use base::{Duration, NodeAddr, Time};
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::collections::BTreeMap;
use subtle::ConstantTimeEq as _;

/// The maximum number of receivers of one relay: at about 500 bytes each half a megabyte, and a copy of each packet.
pub const TUNNELS_MAX: usize = 1_024;
/// The maximum number of receivers of one host, which may be behind one address translator. Choice: a /64 of IPv6
/// counts as one host, which may send from any address in it.
pub const TUNNELS_PER_HOST_MAX: usize = 32;
/// The maximum number of groups of one receiver, for each family of addresses. Here and below, each source of a
/// source-specific group counts as a group, because it takes a place of the node.
pub const GROUPS_PER_TUNNEL_MAX: usize = 64;
/// The maximum number of different groups of all receivers of one host: an eighth of the places of a node.
pub const GROUPS_PER_HOST_MAX: usize = 244;
/// The number of answers per second to senders that have not yet proved their address: 1000 of 60 bytes are half a
/// Mbit/s, whomever they hit.
const ANSWERS_PER_S: f64 = 1_000.0;
/// How long a secret is used for MACs. MACs of the previous secret are still valid, so a gateway has this time to
/// answer.
const SECRET_EVERY: Duration = Duration::from_secs(120);

/// The interface through which a relay acts.
pub trait Outlet {
    /// Sends a datagram. Returns false if that was not possible.
    fn send(&mut self, to: SocketAddr, bytes: &[u8]) -> bool;
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
    hosts: BTreeMap<IpAddr, Host>,
    /// For each group of the overlay, the receivers that want something of it.
    wanted: BTreeMap<NodeAddr, BTreeMap<SocketAddr, u32>>,
    /// The budget for answers to senders that are not receivers. Receivers have their own, so that strangers who ask
    /// all the time do not use it up.
    answers: TokenBucket,
    counters: Counters,
    bytes: Vec<u8>,
    query: Vec<u8>,
}

impl Relay {
    /// Creates a relay without receivers.
    #[must_use]
    pub fn new(settings: Settings, now: Time) -> Relay {
        Relay {
            settings,
            started: now,
            tunnels: BTreeMap::new(),
            hosts: BTreeMap::new(),
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
                match out.send(*to, &self.bytes) {
                    true => {
                        self.counters.sent += 1;
                        self.counters.sent_bytes += self.bytes.len() as u64;
                    }
                    false => self.counters.refuse(Refused::NotSent),
                }
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
        let sent = out.send(to, &self.bytes);
        sent.then_some(()).ok_or(Refused::NotSent)
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
        let taken = self
            .hosts
            .get(&host(from))
            .map_or(0, |host| host.groups.len());
        let room = GROUPS_PER_HOST_MAX.saturating_sub(taken);
        if let Some(tunnel) = self.tunnels.get_mut(&from) {
            let (rules, side) = (&self.settings.rules, side(tunnel));
            let own = side.host_groups(HOST);
            side.set_host_groups(GROUPS_PER_TUNNEL_MAX.min(own + room));
            side.on_message(now, speaker, &message, rules, &mut said);
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
        self.hosts.entry(host(from)).or_default().tunnels += 1;
        Ok(())
    }

    /// Returns true if another receiver of this host is allowed.
    fn has_room(&self, from: SocketAddr) -> bool {
        let own = self.hosts.get(&host(from)).map_or(0, |host| host.tunnels);
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
            self.want(at, by, is_wanted, out);
        }
        if self.tunnels.get(&at).is_some_and(Tunnel::is_idle) {
            self.tunnels.remove(&at);
            if let Some(own) = self.hosts.get_mut(&host(at)) {
                own.tunnels -= 1;
                if own.tunnels == 0 {
                    assert!(own.groups.is_empty(), "no receiver wants these groups");
                    self.hosts.remove(&host(at));
                }
            }
        }
    }

    /// Records that a receiver wants one more thing of an overlay's group, or one fewer.
    fn want(&mut self, at: SocketAddr, by: NodeAddr, is_wanted: bool, out: &mut impl Outlet) {
        let was = self.wanted.contains_key(&by);
        let all = self.wanted.entry(by).or_default();
        let uses = all.entry(at).or_insert(0);
        let before = *uses;
        *uses = match is_wanted {
            true => before + 1,
            false => before.saturating_sub(1),
        };
        let after = *uses;
        if after == 0 {
            all.remove(&at);
        }
        let is = !all.is_empty();
        if !is {
            self.wanted.remove(&by);
        }
        if let Some(own) = self.hosts.get_mut(&host(at)) {
            own.count(by, before > 0, after > 0);
        }
        if is != was {
            out.member(by, is);
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
        self.counters.refuse(why);
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

#[cfg(test)]
mod tests;
