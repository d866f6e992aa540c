//! The sockets of this node's clients: ports, options, and the sequence numbers of their flows.
//!
//! One client is one socket. Ports 0 to 15 belong to the node (7 answers echoes); ports from [`EPHEMERAL_FIRST`] are
//! assigned to clients that ask for any. A socket has one port, or a range of ports when it represents many users,
//! which costs no more than one.

use crate::request::{Delivery, Options, RequestError};
use crate::resequence::START_SPACING;
use base::{ClientId, Duration, Map, NodeAddr, Rng, Time, VirtualPort};
use std::collections::BTreeMap;
use wire::data::{Class, LinkProtocol, Routing};

/// Ports below this belong to the node.
pub const RESERVED_PORTS: u16 = 16;
/// The first port for sockets that ask for any.
pub const EPHEMERAL_FIRST: u16 = 32_768;
/// Maximum number of sockets of one node: a thousand clients, with room for each to have a few.
pub const MAX_SOCKETS: usize = 4_096;
/// Maximum number of destinations whose flow a socket remembers; 40 bytes each.
const MAX_FLOWS_PER_SOCKET: usize = 1_024;
/// The same for a socket with a range of ports: four flows for each of 4096 calls, RTP and RTCP of two streams. 650 kB.
const MAX_FLOWS_PER_RANGE: usize = 16_384;

/// The packets that a socket sends to one destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outgoing {
    /// The next flow sequence number.
    next: u32,
    /// Packets sent.
    pub packets: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
    /// When the last one was sent.
    pub last: Time,
    /// The deadline of the last one. The socket may have another deadline since then, for another flow.
    pub deadline: Option<Duration>,
    /// The refusal of the flow, if the first link has no room for it.
    refusal: Option<Refusal>,
}

/// The state of a flow without room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Refusal {
    /// When its client was last notified.
    told: Option<Time>,
    /// When a packet of it was last refused.
    last: Time,
}

/// While packets are refused, their client is notified at this interval: a client that has missed a notification gets
/// another, and a client that gets none for longer knows that it is over.
const TELL_AGAIN: Duration = Duration::from_secs(1);
/// A flow has room again if none of its packets was refused for this long. Before that, a link may admit packets only
/// as a try.
const ROOM_AFTER: Duration = Duration::from_millis(1_500);

/// One client's socket.
#[derive(Debug)]
pub struct Socket {
    /// Its port, once bound; the first of its range.
    pub port: Option<VirtualPort>,
    /// The last port of its range, if it has one.
    pub last: Option<VirtualPort>,
    /// The values that it writes into packets, and how it receives.
    pub options: Options,
    /// The flows to each destination, from each port of a range. For a socket with a single port, the port is 0 here.
    flows: Map<(VirtualPort, NodeAddr, VirtualPort), Outgoing>,
    /// The first number of a new flow: above all numbers used before.
    next_start: u32,
    /// Flows had to be forgotten: their next packets have numbers a little above those before.
    is_crowded: bool,
}

/// All sockets of a node.
#[derive(Debug, Default)]
pub struct Sockets {
    by_client: Map<ClientId, Socket>,
    by_port: Map<VirtualPort, ClientId>,
    /// The last port and the client of each range, by its first port. No two ranges share a port, and no range shares
    /// one with `by_port`.
    ranges: BTreeMap<VirtualPort, (VirtualPort, ClientId)>,
    next_ephemeral: u16,
}

/// Returns the options of a socket that has not set any: in short, those for voice.
pub fn default_options() -> Options {
    Options {
        class: Class {
            link: LinkProtocol::RealTime,
            routing: Routing::ExpectedLatency,
            priority: 4,
        },
        ..Options::default()
    }
}

impl Socket {
    fn new(rng: &mut Rng) -> Socket {
        // A random start keeps a reused port's packets apart from those of its former owner.
        let next_start = rng.next_u64() as u32;
        Socket {
            port: None,
            last: None,
            options: default_options(),
            flows: Map::default(),
            next_start,
            is_crowded: false,
        }
    }

    /// Returns the port from which the socket sends when it asks for `from`: one of its range, or its only one.
    pub fn source(&self, from: Option<VirtualPort>) -> Option<VirtualPort> {
        match (self.port, self.last, from) {
            (Some(first), Some(last), Some(from)) => (first..=last).contains(&from).then_some(from),
            (port, None, None) => port,
            _ => None,
        }
    }

    /// A packet of a flow was refused for lack of room. Returns whether its client is to be notified now.
    pub(crate) fn refused(&mut self, now: Time, key: (VirtualPort, NodeAddr, VirtualPort)) -> bool {
        let Some(flow) = self.flows.get_mut(&self.key_of(key)) else {
            return false;
        };
        let known = flow.refusal.get_or_insert(Refusal {
            told: None,
            last: now,
        });
        known.last = now;
        let is_due = known.told.is_none_or(|told| now.since(told) >= TELL_AGAIN);
        if is_due {
            known.told = Some(now);
        }
        is_due
    }

    /// A flow sends. Returns true if the flow had been refused and has not been for a while.
    pub(crate) fn is_let_in(
        &mut self,
        now: Time,
        key: (VirtualPort, NodeAddr, VirtualPort),
    ) -> bool {
        let Some(flow) = self.flows.get_mut(&self.key_of(key)) else {
            return false;
        };
        let over = |refusal: &Refusal| now.since(refusal.last) >= ROOM_AFTER;
        let is_over = flow.refusal.as_ref().is_some_and(over);
        if is_over {
            flow.refusal = None;
        }
        is_over
    }

    /// Returns the key under which a flow is kept: a socket with one port does not store that port.
    fn key_of(
        &self,
        (from, to, port): (VirtualPort, NodeAddr, VirtualPort),
    ) -> (VirtualPort, NodeAddr, VirtualPort) {
        match self.last {
            Some(_) => (from, to, port),
            None => (VirtualPort::default(), to, port),
        }
    }

    /// Counts a packet of this length from a port of its range to a destination, and returns its sequence number.
    pub fn next_seq(
        &mut self,
        now: Time,
        from: Option<VirtualPort>,
        (to, port): (NodeAddr, VirtualPort),
        bytes: usize,
    ) -> u32 {
        let key = (from.unwrap_or_default(), to, port);
        if let Some(flow) = self.flows.get_mut(&key) {
            let seq = flow.next;
            flow.next = seq.wrapping_add(1);
            flow.packets += 1;
            flow.bytes += bytes as u64;
            flow.last = now;
            flow.deadline = self.options.deadline;
            if flow.next.wrapping_sub(self.next_start) as i32 > 0 {
                self.next_start = flow.next;
            }
            return seq;
        }
        let max = match self.last {
            Some(_) => MAX_FLOWS_PER_RANGE,
            None => MAX_FLOWS_PER_SOCKET,
        };
        if self.flows.len() >= max {
            // Starting again above every number in use keeps each flow's numbers rising.
            self.flows.clear();
            self.is_crowded = true;
        }
        // A receiver that puts the packets in order sees from the number whether there were packets before. Choice: for
        // a socket that sends to many nodes, only the first flow begins so, since numbers jump by this.
        if !self.is_crowded && (self.flows.is_empty() || to.is_multicast()) {
            let beyond = self.next_start.wrapping_add(START_SPACING - 1);
            self.next_start = beyond - beyond % START_SPACING;
        }
        let seq = self.next_start;
        let flow = Outgoing {
            next: seq.wrapping_add(1),
            packets: 1,
            bytes: bytes as u64,
            last: now,
            deadline: self.options.deadline,
            refusal: None,
        };
        self.flows.insert(key, flow);
        seq
    }
}

impl Sockets {
    /// Returns the socket of `client`. Makes it if there is none and there is room.
    pub fn open(&mut self, client: ClientId, rng: &mut Rng) -> Result<&mut Socket, RequestError> {
        if !self.by_client.contains_key(&client) {
            if self.by_client.len() >= MAX_SOCKETS {
                return Err(RequestError::Exhausted);
            }
            self.by_client.insert(client, Socket::new(rng));
        }
        self.by_client
            .get_mut(&client)
            .ok_or(RequestError::Exhausted)
    }

    /// Returns the socket of `client`, if it has one.
    pub fn client(&mut self, client: ClientId) -> Option<&mut Socket> {
        self.by_client.get_mut(&client)
    }

    /// Binds `client` to `port`, or to any free one for 0. A socket that is bound already changes its port.
    pub fn bind(
        &mut self,
        client: ClientId,
        port: VirtualPort,
        rng: &mut Rng,
    ) -> Result<VirtualPort, RequestError> {
        self.open(client, rng)?;
        let port = match port.0 {
            0 => self.free_port().ok_or(RequestError::Exhausted)?,
            1..RESERVED_PORTS => return Err(RequestError::PortReserved),
            _ => port,
        };
        match self.owner(port) {
            Some(owner) if owner == client => return Ok(port),
            Some(_) => return Err(RequestError::PortInUse),
            None => {}
        }
        let socket = self.open(client, rng)?;
        if socket.last.is_some() {
            return Err(RequestError::AlreadyBound);
        }
        let old = socket.port.replace(port);
        if let Some(old) = old {
            self.by_port.remove(&old);
        }
        self.by_port.insert(port, client);
        Ok(port)
    }

    /// Binds a service of the node to a port that belongs to the node.
    pub fn open_service(
        &mut self,
        client: ClientId,
        port: VirtualPort,
        options: Options,
        rng: &mut Rng,
    ) -> Result<(), RequestError> {
        let socket = self.open(client, rng)?;
        (socket.port, socket.options) = (Some(port), options);
        self.by_port.insert(port, client);
        Ok(())
    }

    /// Binds `client` to the ports from `first` to `last`, which must all be free; to any one port if both are 0.
    /// Returns the first port.
    pub fn bind_range(
        &mut self,
        client: ClientId,
        (first, last): (VirtualPort, VirtualPort),
        rng: &mut Rng,
    ) -> Result<VirtualPort, RequestError> {
        let any = VirtualPort(0);
        let (first, last) = match (first, last) == (any, any) {
            true => {
                let port = self.free_port().ok_or(RequestError::Exhausted)?;
                (port, port)
            }
            false => (first, last),
        };
        if first.0 < RESERVED_PORTS || last < first {
            return Err(RequestError::PortReserved);
        }
        if self.open(client, rng)?.port.is_some() {
            return Err(RequestError::AlreadyBound);
        }
        let range = first..=last;
        let single = self.by_port.keys().any(|port| range.contains(port));
        // Ranges do not overlap, so of those that begin before the end, the last one also ends last.
        let before = self.ranges.range(..=last).next_back();
        if single || before.is_some_and(|(_, (end, _))| *end >= first) {
            return Err(RequestError::PortInUse);
        }
        self.ranges.insert(first, (last, client));
        let socket = self.open(client, rng)?;
        (socket.port, socket.last) = (Some(first), Some(last));
        Ok(first)
    }

    /// Forgets `client`; its ports are free again.
    pub fn close(&mut self, client: ClientId) {
        let Some(socket) = self.by_client.remove(&client) else {
            return;
        };
        match (socket.port, socket.last) {
            (Some(first), Some(_)) => drop(self.ranges.remove(&first)),
            (Some(port), None) => drop(self.by_port.remove(&port)),
            (None, _) => {}
        }
    }

    /// Returns the client that is bound to `port`, and how it receives.
    pub fn bound(&self, port: VirtualPort) -> Option<(ClientId, Delivery)> {
        let client = self.owner(port)?;
        Some((client, self.by_client.get(&client)?.options.delivery))
    }

    fn owner(&self, port: VirtualPort) -> Option<ClientId> {
        if let Some(client) = self.by_port.get(&port) {
            return Some(*client);
        }
        self.range_of(port).map(|(_, client)| client)
    }

    /// Returns what bound sockets send: from which port, with which options, and where to. In no particular order but
    /// the same in every run.
    pub fn outgoing(
        &self,
    ) -> impl Iterator<Item = (VirtualPort, &Options, NodeAddr, VirtualPort, &Outgoing)> {
        self.by_client.values().flat_map(|socket| {
            let flows = socket.port.map(|port| (port, socket.flows.iter()));
            let flows = flows
                .into_iter()
                .flat_map(|(port, flows)| flows.map(move |f| (port, f)));
            flows.map(|(first, ((from, to, to_port), flow))| {
                let port = match socket.last {
                    Some(_) => *from,
                    None => first,
                };
                (port, &socket.options, *to, *to_port, flow)
            })
        })
    }

    /// Returns how many sockets there are.
    pub fn len(&self) -> usize {
        self.by_client.len()
    }

    /// Returns true if there is no socket.
    pub fn is_empty(&self) -> bool {
        self.by_client.is_empty()
    }

    /// Returns the next free one of the automatic ports, which it passes in a circle.
    fn free_port(&mut self) -> Option<VirtualPort> {
        let span = u16::MAX - EPHEMERAL_FIRST + 1;
        let mut passed = 0;
        while passed < span {
            let at = self.next_ephemeral % span;
            let port = VirtualPort(EPHEMERAL_FIRST + at);
            // A range is passed in one step: it can contain all ports.
            let step = match self.range_of(port) {
                Some((last, _)) => (last.0 - port.0).saturating_add(1),
                None => 1,
            };
            self.next_ephemeral = at.wrapping_add(step);
            if step == 1 && self.owner(port).is_none() {
                return Some(port);
            }
            passed = passed.saturating_add(step);
        }
        None
    }

    /// Returns the last port and the client of the range that contains a port.
    fn range_of(&self, port: VirtualPort) -> Option<(VirtualPort, ClientId)> {
        let (_, &(last, client)) = self.ranges.range(..=port).next_back()?;
        (port <= last).then_some((last, client))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_has_one_owner_and_is_free_after_close() {
        let (mut sockets, mut rng) = (Sockets::default(), Rng::new(1));
        let (a, b) = (ClientId(1), ClientId(2));
        assert_eq!(
            sockets.bind(a, VirtualPort(500), &mut rng),
            Ok(VirtualPort(500))
        );
        assert_eq!(
            sockets.bind(b, VirtualPort(500), &mut rng),
            Err(RequestError::PortInUse)
        );
        assert_eq!(
            sockets.bind(b, VirtualPort(7), &mut rng),
            Err(RequestError::PortReserved)
        );
        sockets.close(a);
        assert_eq!(
            sockets.bind(b, VirtualPort(500), &mut rng),
            Ok(VirtualPort(500))
        );
        assert_eq!(sockets.bound(VirtualPort(500)).map(|(c, _)| c), Some(b));
        let any = sockets.bind(b, VirtualPort(0), &mut rng).unwrap();
        assert!(any.0 >= EPHEMERAL_FIRST && sockets.bound(VirtualPort(500)).is_none());
    }

    #[test]
    fn a_range_is_one_socket_s_and_apart_from_all_others() {
        let (mut sockets, mut rng) = (Sockets::default(), Rng::new(1));
        let (one, many, more) = (ClientId(1), ClientId(2), ClientId(3));
        let mut range = |sockets: &mut Sockets, client, first, last| {
            sockets.bind_range(client, (VirtualPort(first), VirtualPort(last)), &mut rng)
        };
        let bound = range(&mut sockets, many, 40_000, 50_000);
        assert_eq!(bound, Ok(VirtualPort(40_000)));
        for (first, last, why) in [
            (50_000, 50_001, RequestError::PortInUse),
            (39_000, 40_000, RequestError::PortInUse),
            (41_000, 41_001, RequestError::PortInUse),
            (1, u16::MAX, RequestError::PortReserved),
            (16, u16::MAX, RequestError::PortInUse),
            (9, 8, RequestError::PortReserved),
        ] {
            assert_eq!(range(&mut sockets, more, first, last), Err(why), "{first}");
        }
        let twice = range(&mut sockets, many, 30_000, 30_001);
        assert_eq!(twice, Err(RequestError::AlreadyBound));
        let mut rng = Rng::new(2);
        let mut bind =
            |sockets: &mut Sockets, client, port| sockets.bind(client, VirtualPort(port), &mut rng);
        let inside = bind(&mut sockets, one, 45_000);
        assert_eq!(inside, Err(RequestError::PortInUse));
        assert_eq!(bind(&mut sockets, one, 39_999), Ok(VirtualPort(39_999)));
        let moved = bind(&mut sockets, many, 30_000);
        assert_eq!(moved, Err(RequestError::AlreadyBound));
        let owner = |sockets: &Sockets, port| sockets.bound(VirtualPort(port)).map(|(c, _)| c);
        for (port, client) in [
            (39_998, None),
            (39_999, Some(one)),
            (40_000, Some(many)),
            (50_000, Some(many)),
            (50_001, None),
        ] {
            assert_eq!(owner(&sockets, port), client, "{port}");
        }
        let socket = sockets.client(many).unwrap();
        let source = |from: Option<u16>| socket.source(from.map(VirtualPort));
        assert_eq!(source(Some(50_000)), Some(VirtualPort(50_000)));
        assert_eq!((source(Some(50_001)), source(None)), (None, None));
        let socket = sockets.client(one).unwrap();
        assert_eq!(socket.source(None), Some(VirtualPort(39_999)));
        assert_eq!(socket.source(Some(VirtualPort(39_999))), None);
        sockets.close(many);
        assert_eq!(owner(&sockets, 45_000), None);
        let mut rng = Rng::new(3);
        let again = sockets.bind_range(more, (VirtualPort(45_000), VirtualPort(45_000)), &mut rng);
        assert_eq!(again, Ok(VirtualPort(45_000)));
    }

    #[test]
    fn automatic_ports_are_those_outside_of_ranges() {
        let (mut sockets, mut rng) = (Sockets::default(), Rng::new(1));
        let range = |first, last| (VirtualPort(first), VirtualPort(last));
        let low = range(EPHEMERAL_FIRST - 9, EPHEMERAL_FIRST + 9);
        sockets.bind_range(ClientId(1), low, &mut rng).unwrap();
        let high = range(EPHEMERAL_FIRST + 11, u16::MAX);
        sockets.bind_range(ClientId(2), high, &mut rng).unwrap();
        let mut any = |sockets: &mut Sockets, client| {
            sockets.bind(ClientId(client), VirtualPort(0), &mut rng)
        };
        let only = VirtualPort(EPHEMERAL_FIRST + 10);
        assert_eq!(any(&mut sockets, 3), Ok(only));
        assert_eq!(any(&mut sockets, 4), Err(RequestError::Exhausted));
        sockets.close(ClientId(3));
        assert_eq!(any(&mut sockets, 4), Ok(only));
        sockets.close(ClientId(2));
        assert_eq!(any(&mut sockets, 5), Ok(VirtualPort(EPHEMERAL_FIRST + 11)));
    }

    #[test]
    fn each_port_of_a_range_has_flows_of_its_own() {
        let (mut sockets, mut rng) = (Sockets::default(), Rng::new(1));
        let ports = (VirtualPort(500), VirtualPort(600));
        sockets.bind_range(ClientId(1), ports, &mut rng).unwrap();
        let to = (NodeAddr(0x0a00_0002), VirtualPort(9));
        let socket = sockets.client(ClientId(1)).unwrap();
        let mut next = |from| socket.next_seq(Time::ZERO, Some(VirtualPort(from)), to, 100);
        let (first, _) = (next(500), next(501));
        assert_eq!(next(500), first.wrapping_add(1));
        let told = sockets.outgoing();
        let told = told.map(|(from, _, _, _, flow)| (from.0, flow.packets));
        let mut told: Vec<_> = told.collect();
        told.sort_unstable();
        assert_eq!(told, [(500, 2), (501, 1)]);
    }

    #[test]
    fn flow_numbers_rise_even_when_flows_are_forgotten() {
        let mut socket = Socket::new(&mut Rng::new(3));
        let to = |i: u32| (NodeAddr(0x0a00_0001 + i), VirtualPort(9));
        let mut next = |i| socket.next_seq(Time::ZERO, None, to(i), 100);
        let first = next(0);
        assert_eq!(next(0), first.wrapping_add(1));
        for i in 1..=MAX_FLOWS_PER_SOCKET as u32 {
            next(i);
        }
        let again = next(0);
        assert!(again.wrapping_sub(first) as i32 > 1, "{first} {again}");
    }

    #[test]
    fn each_flow_keeps_the_deadline_that_its_packets_had() {
        let (mut sockets, mut rng) = (Sockets::default(), Rng::new(1));
        sockets.bind(ClientId(1), VirtualPort(0), &mut rng).unwrap();
        let socket = sockets.client(ClientId(1)).unwrap();
        // A program that answers two callers gives its socket the deadline of the one to whom it sends.
        for (to, ms) in [(2, 60), (3, 150)] {
            socket.options.deadline = Some(Duration::from_millis(ms));
            let to = (NodeAddr(to), VirtualPort(9));
            socket.next_seq(Time::ZERO, None, to, 100);
        }
        let told = sockets.outgoing();
        let told = told.map(|(_, _, to, _, flow)| (to.0, flow.deadline.unwrap().as_millis()));
        let mut told: Vec<_> = told.collect();
        told.sort_unstable();
        assert_eq!(told, [(2, 60), (3, 150)]);
    }

    #[test]
    fn what_bound_sockets_send_is_told() {
        let (mut sockets, mut rng) = (Sockets::default(), Rng::new(1));
        let (to, port, later) = (NodeAddr(0x0a00_0002), VirtualPort(9), Time::from_nanos(5));
        let socket = sockets.open(ClientId(1), &mut rng).unwrap();
        for (now, bytes) in [(Time::ZERO, 100), (later, 60)] {
            socket.next_seq(now, None, (to, port), bytes);
        }
        assert_eq!(sockets.outgoing().count(), 0, "from no port");
        let own = sockets.bind(ClientId(1), VirtualPort(0), &mut rng).unwrap();
        let told: Vec<_> = sockets.outgoing().collect();
        let [(from, options, told_to, told_port, flow)] = told.as_slice() else {
            panic!("{told:?}");
        };
        assert_eq!((*from, *told_to, *told_port), (own, to, port));
        assert_eq!(**options, default_options());
        assert_eq!((flow.packets, flow.bytes, flow.last), (2, 160, later));
    }

    #[test]
    fn the_number_of_sockets_is_bounded() {
        let (mut sockets, mut rng) = (Sockets::default(), Rng::new(1));
        for i in 0..MAX_SOCKETS as u32 {
            sockets.open(ClientId(i), &mut rng).unwrap();
        }
        assert_eq!(
            sockets.open(ClientId(u32::MAX), &mut rng).err(),
            Some(RequestError::Exhausted)
        );
    }
}
