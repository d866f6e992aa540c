//! The decisions of a bridge: which packets cross between one network and the overlay, and which do not.
//!
//! ```text
//!   frame ──on_frame──▶ IGMP, MLD ─▶ Querier ──▶ join, leave
//!                       hello ─────▶ Election
//!                       a packet ──▶ rules, TTL, rate, loops ──▶ to the overlay, whole
//!   packet of a group ──on_overlay──▶ members, source filters, loops ──▶ frame
//! ```
//! **One hop.** For a packet the bridge is a router: the bridge decreases its TTL by one where it captures the packet,
//! and adapts the checksum of the header; nothing else of the packet changes. A packet with TTL 1 crosses nevertheless,
//! and keeps TTL 1: most programs never set the TTL of multicast, whose default is 1, and the overlay ends loops by
//! itself. With `--router-ttl` the bridge drops such a packet, as a router does.
//!
//! **Loops.** Of several bridges on a network, one carries ([`super::hello`]). Frames that a bridge puts onto a network
//! have a source Ethernet address that every bridge recognizes. A packet that comes back under another address is
//! recognized by its fingerprint ([`super::digest`]).

mod membership;
mod settings;

pub use settings::{Counters, Outlet, Port, Settings, Tally};

use super::channel::carrier;
use super::digest::Digest;
use super::drops::Drop;
use super::flood::Flood;
use super::hello::{self, Election, Hello, Rank, Role};
use super::igmp::{Address as _, Querier, Timing, mld};
use super::notice::{Notice, Said};
use super::packet::{self, ETHERNET_BYTES, Ethernet, Ip, Mac, PROTOCOL_IGMP, TYPE_IPV4, TYPE_IPV6};
use super::rules::{Rules, is_link_local};
use base::{Duration, NodeAddr, Rng, Time};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use membership::{Own, Side};
use std::collections::BTreeMap;

/// Maximum length of a packet that crosses: what one datagram of the overlay carries.
pub const PACKET_BYTES_MAX: usize = 65_507;
/// The time between announcements to switches that a router is here. [RFC 4286 §3.1]
const ROUTER_HERE_EVERY: Duration = Duration::from_secs(20);
/// The time between searches for idle sources.
const TIDY_EVERY: Duration = Duration::from_secs(10);

/// Maximum number of overlay groups with counters of their own: at some 400 bytes each, 400 kB. The packets of later
/// groups are counted only in the sums.
pub const TALLIES_MAX: usize = 1_024;

/// The bridge of one network.
#[derive(Debug)]
pub struct Bridge {
    rules: Rules,
    timing: Timing,
    asks: bool,
    /// Whether the bridge queries members of IPv6: like `asks`, but only if groups of IPv6 may cross.
    asks_v6: bool,
    wants: Vec<(IpAddr, Vec<IpAddr>)>,
    router_ttl: bool,
    mac: Mac,
    port: Option<Port>,
    v4: Side<Ipv4Addr>,
    v6: Side<Ipv6Addr>,
    /// The overlay's groups that carry what members want, and for how many groups or channels each.
    carriers: BTreeMap<NodeAddr, u32>,
    election: Election,
    flood: Flood,
    /// Fingerprints of packets that came from this network (`captured`), and of packets that were put onto it
    /// (`injected`).
    captured: Digest,
    injected: Digest,
    next_router_here: Time,
    next_tidy: Time,
    said: Said,
    frame: Vec<u8>,
    counters: Counters,
    /// The counters by overlay group, with the IP group of the last packet.
    tallies: BTreeMap<NodeAddr, (IpAddr, Tally)>,
}

impl Bridge {
    /// Creates a bridge that has no interface yet.
    #[must_use]
    pub fn new(settings: Settings, now: Time) -> Bridge {
        let mut rng = Rng::new(settings.seed);
        let rank = Rank {
            priority: settings.priority,
            node: settings.node,
            nonce: rng.next_u64(),
        };
        let timing = settings.timing;
        let (mac, asks) = (hello::mac(rank.nonce), settings.asks);
        let asks_v6 = asks && settings.rules.has_ipv6();
        let (hosts, seed) = (settings.host_groups, rng.next_u64());
        let own_v6 = mld::link_local(mac);
        Bridge {
            v4: Side::new(&timing, Ipv4Addr::UNSPECIFIED, (asks, hosts, seed), now),
            v6: Side::new(&timing, own_v6, (asks_v6, hosts, rng.next_u64()), now),
            rules: settings.rules,
            timing,
            asks,
            asks_v6,
            wants: settings.wants,
            router_ttl: settings.router_ttl,
            mac,
            port: None,
            carriers: BTreeMap::new(),
            election: Election::new(rank, now),
            flood: Flood::new(settings.limit, now),
            captured: Digest::new(rng.next_u64()),
            injected: Digest::new(rng.next_u64()),
            next_router_here: now,
            next_tidy: now + TIDY_EVERY,
            said: Said::default(),
            frame: Vec::with_capacity(1_600),
            counters: Counters::default(),
            tallies: BTreeMap::new(),
        }
    }

    /// Returns the Ethernet address from which the bridge sends.
    #[must_use]
    pub fn mac(&self) -> Mac {
        self.mac
    }

    /// Returns the role of this bridge among the bridges of its network.
    #[must_use]
    pub fn role(&self) -> Role {
        self.election.role()
    }

    /// Returns the members of the network, for IPv4 and for IPv6.
    #[must_use]
    pub fn queriers(&self) -> (&Querier, &Querier<Ipv6Addr>) {
        (&self.v4.querier, &self.v6.querier)
    }

    /// Returns the counters.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the counters of each overlay group, with the IP group that it carries.
    pub fn tallies(&self) -> impl Iterator<Item = (NodeAddr, IpAddr, &Tally)> {
        let all = self.tallies.iter();
        all.map(|(by, (ip, tally))| (*by, *ip, tally))
    }

    /// Updates the counters of a group, if there is room for them.
    fn tally(&mut self, by: NodeAddr, ip: IpAddr, count: impl FnOnce(&mut Tally)) {
        let has_room = self.tallies.len() < TALLIES_MAX;
        match self.tallies.get_mut(&by) {
            Some((last, tally)) => {
                *last = ip;
                count(tally);
            }
            None if has_room => {
                count(&mut self.tallies.entry(by).or_insert((ip, Tally::default())).1)
            }
            None => {}
        }
    }

    /// Counts captured packets that the node did not take.
    pub fn on_refused(&mut self, reason: Drop, packets: u64) {
        self.counters.drops.add(reason, packets);
    }

    /// Records that the interface has appeared, has changed, or has disappeared.
    pub fn set_port(&mut self, now: Time, port: Option<Port>, out: &mut impl Outlet) {
        let (before, was) = (self.election.role(), self.port);
        self.port = port;
        match (was, port) {
            (None, Some(_)) => {
                self.election.restart(now);
                let own = self.own();
                self.v4.querier.restart(now, own.v4);
                self.v6.querier.restart(now, own.v6);
                for (group, sources) in self.wants.clone() {
                    self.want(now, group, &sources);
                }
            }
            (Some(was), Some(port)) if was.address != port.address => {
                self.v4.querier.restart(now, self.own().v4);
            }
            (Some(_), None) => {
                let (v4, v6, mut effects) = self.split(out);
                v4.querier.forget(&mut effects);
                v6.querier.forget(&mut effects);
                self.election.restart(now);
            }
            _ => {}
        }
        if self.asks && port.is_some_and(|port| port.address.is_none()) {
            self.say(Notice::NoAddress, out);
        }
        self.follow(now, before, out);
    }

    /// Records whether the node reaches other nodes; false also if the node is unreachable. Of several bridges, one
    /// that reaches other nodes carries.
    pub fn set_reach(&mut self, now: Time, reaches: bool, out: &mut impl Outlet) {
        let before = self.election.role();
        self.election.set_reach(now, reaches);
        self.say_hello(now, out);
        self.follow(now, before, out);
    }

    /// Returns whether the node is unreachable, or reaches no other node.
    #[must_use]
    pub fn is_cut_off(&self) -> bool {
        self.election.is_cut_off()
    }

    /// Sends a hello, if one is due.
    fn say_hello(&mut self, now: Time, out: &mut impl Outlet) {
        if self.port.is_some()
            && let Some(hello) = self.election.on_timeout(now)
        {
            out.transmit(&hello.frame(self.mac));
        }
    }

    /// Handles a frame that came from the network. If the frame contains a packet for the overlay, returns the packet
    /// and the overlay group that carries it.
    pub fn on_frame<'f>(
        &mut self,
        now: Time,
        frame: &'f mut [u8],
        out: &mut impl Outlet,
    ) -> Option<(NodeAddr, &'f [u8])> {
        match self.examine(now, frame, out) {
            Ok(Some((group, len))) => {
                self.counters.captured += 1;
                self.counters.captured_bytes += len as u64;
                Some((group, &frame[ETHERNET_BYTES..ETHERNET_BYTES + len]))
            }
            Ok(None) => None,
            Err(reason) => {
                self.counters.drops.count(reason);
                None
            }
        }
    }

    /// Handles a packet that came from the overlay for `group`. Passes the frames for the network to `put`, in two
    /// parts.
    pub fn on_overlay<'p>(
        &mut self,
        now: Time,
        group: NodeAddr,
        packet: &'p [u8],
        out: &mut impl Outlet,
        put: &mut impl FnMut(&[u8], &'p [u8]),
    ) {
        match self.admit(now, group, packet, out) {
            Ok((ip, mtu)) => {
                let ethernet = Ethernet {
                    to: packet::group_mac(ip.destination),
                    from: self.mac,
                    kind: ip.kind(),
                };
                let head = ethernet.emit();
                if packet.len() <= mtu {
                    put(&head, packet);
                } else {
                    self.counters.fragmented += 1;
                    packet::fragment(&head, packet, &ip, mtu, put);
                }
                self.counters.injected += 1;
                self.counters.injected_bytes += packet.len() as u64;
                self.tally(group, ip.destination, |tally| tally.injected += 1);
            }
            Err(reason) => {
                self.counters.drops.count(reason);
                // A forged packet belongs to no group.
                if reason != Drop::Forged
                    && let Ok(ip) = Ip::parse(packet)
                {
                    self.tally(group, ip.destination, |tally| tally.drops.count(reason));
                }
            }
        }
    }

    /// Does the work that is due.
    pub fn on_timeout(&mut self, now: Time, out: &mut impl Outlet) {
        if now >= self.next_tidy {
            self.next_tidy = now + TIDY_EVERY;
            self.flood.tidy(now);
        }
        if self.port.is_none() {
            return;
        }
        let before = self.election.role();
        self.say_hello(now, out);
        self.follow(now, before, out);
        let (v4, v6, mut effects) = self.split(out);
        v4.on_timeout(now, &mut effects);
        v6.on_timeout(now, &mut effects);
        if self.asks && now >= self.next_router_here {
            self.next_router_here = now + ROUTER_HERE_EVERY;
            let own = self.own();
            Ipv4Addr::router_here(&mut self.frame, own.speaker(), ROUTER_HERE_EVERY);
            out.transmit(&self.frame);
            if self.asks_v6 {
                Ipv6Addr::router_here(&mut self.frame, own.speaker(), ROUTER_HERE_EVERY);
                out.transmit(&self.frame);
            }
        }
    }

    /// Returns when work is due next.
    #[must_use]
    pub fn next_timeout(&self) -> Time {
        if self.port.is_none() {
            return self.next_tidy;
        }
        let router_here = if self.asks {
            self.next_router_here
        } else {
            Time::FAR
        };
        let sides = self.v4.next_timeout().min(self.v6.next_timeout());
        sides
            .min(self.election.next_timeout())
            .min(router_here)
            .min(self.next_tidy)
    }

    /// Announces the end of this bridge, so that others do not wait for a timeout.
    pub fn leave(&mut self, out: &mut impl Outlet) {
        if self.port.is_some() {
            out.transmit(&self.election.leave().frame(self.mac));
            let (v4, v6, mut effects) = self.split(out);
            v4.leave_all(&mut effects);
            v6.leave_all(&mut effects);
        }
    }

    /// Examines a frame. Returns the overlay group and the length of the packet, if the packet is to cross.
    fn examine(
        &mut self,
        now: Time,
        frame: &mut [u8],
        out: &mut impl Outlet,
    ) -> Result<Option<(NodeAddr, usize)>, Drop> {
        let ethernet = Ethernet::parse(frame).inspect_err(|&reason| {
            if reason == Drop::Vlan {
                self.say(Notice::Vlan, out);
            }
        })?;
        let packet = &mut frame[ETHERNET_BYTES..];
        if ethernet.from == self.mac {
            return Ok(None);
        }
        match ethernet.kind {
            TYPE_IPV4 | TYPE_IPV6 => {}
            hello::KIND => {
                let before = self.election.role();
                self.election.on_hello(now, Hello::parse(packet)?);
                self.follow(now, before, out);
                return Ok(None);
            }
            _ => return Err(Drop::NotMulticast),
        }
        let ip = Ip::parse(packet)?;
        if ip.kind() != ethernet.kind {
            return Err(Drop::Malformed);
        }
        let said = (ethernet.from, &*packet);
        if is_of_members(&ip, packet) {
            return match ip.destination {
                IpAddr::V4(_) => self.on_igmp(now, &ip, said, out),
                IpAddr::V6(_) => self.on_mld(now, &ip, said, out),
            }
            .map(|()| None);
        }
        let group = ip.destination;
        if !group.is_multicast() {
            return Err(Drop::NotMulticast);
        }
        if is_link_local(group) {
            return Err(Drop::LinkLocal);
        }
        if hello::is_injected(&ethernet) {
            return Err(Drop::Injected);
        }
        if !self.rules.allows(group) {
            self.say(Notice::NotAllowed { group }, out);
            return Err(Drop::NotAllowed);
        }
        let by = carrier(group, ip.source);
        let taken = self.take(now, &ip, packet, out);
        self.tally(by, group, |tally| match taken {
            Ok(()) => tally.captured += 1,
            Err(reason) => tally.drops.count(reason),
        });
        taken.map(|()| Some((by, ip.total_bytes)))
    }

    /// Decides whether a packet of an allowed group goes to the overlay, and prepares it for this.
    fn take(
        &mut self,
        now: Time,
        ip: &Ip,
        packet: &mut [u8],
        out: &mut impl Outlet,
    ) -> Result<(), Drop> {
        if self.election.role() != Role::Forwarding {
            return Err(Drop::Standby);
        }
        if !ip.has_host_source() {
            return Err(Drop::Source);
        }
        if ip.total_bytes > PACKET_BYTES_MAX {
            return Err(Drop::TooLong);
        }
        self.examine_ttl(ip, out)?;
        if !self.flood.allows(now, ip.source, ip.total_bytes) {
            self.say(Notice::Flood { source: ip.source }, out);
            return Err(Drop::Flood);
        }
        let packet = &mut packet[..ip.total_bytes];
        if self.injected.contains(now, self.injected.print(packet)) {
            return Err(Drop::Looped);
        }
        self.captured.insert(now, self.captured.print(packet));
        if ip.ttl > 1 {
            packet::decrement_ttl(packet);
        }
        Ok(())
    }

    fn examine_ttl(&mut self, ip: &Ip, out: &mut impl Outlet) -> Result<(), Drop> {
        if ip.ttl == 0 {
            return Err(Drop::TtlZero);
        }
        if ip.ttl == 1 {
            let notice = Notice::TtlOne {
                source: ip.source,
                group: ip.destination,
                carried: !self.router_ttl,
            };
            self.say(notice, out);
            if self.router_ttl {
                return Err(Drop::TtlOne);
            }
        }
        Ok(())
    }

    /// Decides whether a packet of the overlay is for this network. Returns its header and the interface's MTU.
    fn admit(
        &mut self,
        now: Time,
        by: NodeAddr,
        packet: &[u8],
        out: &mut impl Outlet,
    ) -> Result<(Ip, usize), Drop> {
        let ip = Ip::parse(packet).map_err(|_| Drop::Forged)?;
        let group = ip.destination;
        let is_right = carrier(group, ip.source) == by
            && ip.total_bytes == packet.len()
            && !is_of_members(&ip, packet)
            && ip.ttl > 0
            && ip.has_host_source()
            && self.rules.allows(group);
        if !is_right {
            return Err(Drop::Forged);
        }
        let port = self.port.ok_or(Drop::Port)?;
        if self.election.role() != Role::Forwarding {
            return Err(Drop::Standby);
        }
        match (group, ip.source) {
            (IpAddr::V4(group), IpAddr::V4(source)) => self.v4.admits(now, group, source)?,
            (IpAddr::V6(group), IpAddr::V6(source)) => self.v6.admits(now, group, source)?,
            _ => return Err(Drop::Forged),
        }
        if self.captured.contains(now, self.captured.print(packet)) {
            return Err(Drop::Echo);
        }
        if packet.len() > port.mtu && ip.dont_fragment {
            let notice = Notice::TooLong {
                source: ip.source,
                bytes: packet.len(),
                mtu: port.mtu,
            };
            self.say(notice, out);
            return Err(Drop::Mtu);
        }
        // The kernel checks only sources of IPv4 in this way.
        let is_near = |source| {
            port.address
                .is_some_and(|(own, bits)| is_of(source, own, bits))
        };
        if port.filters_path && matches!(ip.source, IpAddr::V4(source) if !is_near(source)) {
            self.say(Notice::PathFilter { source: ip.source }, out);
        }
        self.injected.insert(now, self.injected.print(packet));
        Ok((ip, port.mtu))
    }

    fn say(&mut self, notice: Notice, out: &mut impl Outlet) {
        if self.said.first(notice) {
            out.notice(notice);
        }
    }

    /// Acts on a change of this bridge's role: only the bridge that carries is a member of the overlay's groups.
    fn follow(&mut self, now: Time, before: Role, out: &mut impl Outlet) {
        let role = self.election.role();
        if role == before {
            return;
        }
        let (was, is) = (before == Role::Forwarding, role == Role::Forwarding);
        if was != is {
            for by in self.carriers.keys() {
                out.member(*by, is);
            }
        }
        out.role(role, self.election.forwarder());
        // The other bridges learn of the change at once.
        self.say_hello(now, out);
    }

    fn own(&self) -> Own {
        let address = self.port.and_then(|port| port.address);
        Own {
            mac: self.mac,
            v4: address.map_or(Ipv4Addr::UNSPECIFIED, |(address, _)| address),
            v6: mld::link_local(self.mac),
        }
    }
}

/// Returns whether a packet is one by which hosts and routers of a network manage group membership.
fn is_of_members(ip: &Ip, packet: &[u8]) -> bool {
    match ip.destination {
        IpAddr::V4(_) => ip.protocol == PROTOCOL_IGMP,
        IpAddr::V6(_) => mld::is_mld(ip, packet),
    }
}

fn is_of(address: Ipv4Addr, own: Ipv4Addr, bits: u8) -> bool {
    let mask = u32::MAX
        .checked_shl(32 - u32::from(bits.min(32)))
        .unwrap_or(0);
    (address.to_bits() ^ own.to_bits()) & mask == 0
}

#[cfg(test)]
mod tests;
