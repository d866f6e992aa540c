//! The plane's state: calls, the owners of ports, and the quality of each stream. One lock protects it. The media
//! thread takes the lock once per batch of packets, and other threads take it for a short call.

use super::quality::{Came, Heard};
use super::report::{Counters, Report, StreamReport, Why};
use super::shadow::{self, Beside, Mirror, Mirrored};
use super::udp::{Addresses, Sockets};
use super::uplink::Uplink;
use super::{Error, PORT_TRIES};
use base::{Duration, Map, NodeAddr, Time, VirtualPort};
use client::{Info, Target};
use core::net::SocketAddr;
use net::epoll::{Interest, Registry};
use std::collections::BTreeMap;
use std::io;
use std::time::SystemTime;
use voice::live::{Arrival, Settings as Live};
use voice::media::{
    CallError, CallId, Calls, Carrier, Destination, Drop, Forward, LocalPorts, Need, Remote,
    StreamId,
};
use voice::rtp::Kind;
use voice::sdp::Side;

/// The maximum number of calls that are ended in one turn, so that the loss of a node does not delay the packets of
/// other calls: 64 take some 2 ms, most of it in the kernel for their sockets.
pub(super) const ENDED_PER_TURN: usize = 64;
/// The flag in the epoll token of a port's socket that marks IPv6; the rest of the token is the port.
pub(super) const TOKEN_V6: u64 = 1 << 16;

pub(super) struct State {
    pub(super) calls: Calls,
    open: Map<CallId, OpenCall>,
    ports: Map<u16, Port>,
    virtual_ports: Map<u16, (StreamId, Side)>,
    pub(super) uplink: Uplink,
    mirror: Option<Mirror>,
    registry: Registry,
    addresses: Addresses,
    live: Live,
    last_call: u64,
    pub(super) counters: Counters,
}

struct OpenCall {
    since: SystemTime,
    opened: Time,
    streams: BTreeMap<u8, Stream>,
    /// The last reports of streams that ended before the call.
    ended: Vec<StreamReport>,
}

struct Stream {
    local: [(Carrier, LocalPorts); 2],
    heard: Heard,
    beside: Beside,
}

/// A UDP port of a stream.
struct Port {
    sockets: Sockets,
    stream: StreamId,
    side: Side,
}

/// The sockets of a port, before they are added to it.
type Bound = (u16, Side, Sockets);

/// A closed call. Its sockets are closed when it is dropped, which is best done without the lock.
pub(super) struct Closed {
    report: Report,
    _sockets: Vec<Sockets>,
}

impl Closed {
    /// Closes the sockets, and returns the report.
    pub(super) fn into_report(self) -> Report {
        self.report
    }
}

impl State {
    pub(super) fn new(
        calls: Calls,
        uplink: Uplink,
        mirror: Option<Mirror>,
        registry: Registry,
        addresses: Addresses,
        deadline: Option<Duration>,
    ) -> State {
        let live = Live::default();
        State {
            calls,
            open: Map::default(),
            ports: Map::default(),
            virtual_ports: Map::default(),
            uplink,
            mirror,
            registry,
            addresses,
            live: Live {
                deadline: deadline.unwrap_or(live.deadline),
                ..live
            },
            last_call: 0,
            counters: Counters::default(),
        }
    }

    pub(super) fn open(&mut self, now: Time) -> Result<CallId, CallError> {
        let id = CallId(self.last_call + 1);
        self.calls.open(now, id)?;
        self.last_call = id.0;
        let call = OpenCall {
            since: SystemTime::now(),
            opened: now,
            streams: BTreeMap::new(),
            ended: Vec::new(),
        };
        self.open.insert(id, call);
        self.counters.opened += 1;
        Ok(id)
    }

    pub(super) fn add_stream(
        &mut self,
        id: StreamId,
        sides: [(Carrier, Need); 2],
    ) -> Result<[LocalPorts; 2], Error> {
        // A port that another program uses is skipped. Released ports rest, so every try uses other ports.
        for _ in 0..PORT_TRIES {
            let local = self.calls.add_stream(id, sides)?;
            let local = [(sides[0].0, local[0]), (sides[1].0, local[1])];
            let bound = match self.bind(&local) {
                Ok(bound) => bound,
                Err((port, error)) => {
                    self.calls.end_stream(id)?;
                    if error.kind() == io::ErrorKind::AddrInUse {
                        self.counters.ports_taken += 1;
                        continue;
                    }
                    return Err(Error::Bind { port, error });
                }
            };
            for (port, side, sockets) in bound {
                let port_of = Port {
                    sockets,
                    stream: id,
                    side,
                };
                self.ports.insert(port, port_of);
            }
            for (side, port) in ports_of(&local, Carrier::Overlay) {
                self.virtual_ports.insert(port, (id, side));
            }
            let heard = Heard::new(local.map(|(carrier, _)| carrier), self.live);
            if let Some(call) = self.open.get_mut(&id.call) {
                let beside = Beside::default();
                let stream = Stream {
                    local,
                    heard,
                    beside,
                };
                call.streams.insert(id.media, stream);
            }
            return Ok(local.map(|(_, ports)| ports));
        }
        Err(Error::PortsTaken)
    }

    /// Binds and watches the sockets of a stream's UDP ports: all or none.
    fn bind(&self, local: &[(Carrier, LocalPorts); 2]) -> Result<Vec<Bound>, (u16, io::Error)> {
        let mut bound = Vec::with_capacity(4);
        for (side, port) in ports_of(local, Carrier::Udp) {
            let sockets = self.addresses.bind(port).map_err(|error| (port, error))?;
            for (is_v6, socket) in sockets.iter() {
                let token = u64::from(port) + if is_v6 { TOKEN_V6 } else { 0 };
                self.registry
                    .add(socket, token, Interest::READ)
                    .map_err(|error| (port, error))?;
            }
            bound.push((port, side, sockets));
        }
        Ok(bound)
    }

    pub(super) fn signal(
        &mut self,
        now: Time,
        id: StreamId,
        side: Side,
        remote: Remote,
    ) -> Result<(), CallError> {
        self.calls.signal(now, id, side, remote)?;
        let at = match remote {
            Remote::Overlay { node, rtp, .. } => Some((node, rtp)),
            Remote::Udp { .. } => None,
        };
        if let Some(stream) = self.stream(id) {
            stream.beside.on_signal(side, at);
        }
        Ok(())
    }

    /// Mirrors a stream to the other gateway's shadow port, if it is one of the fraction. A stream that is already
    /// mirrored continues, to this address.
    pub(super) fn signal_shadow(&mut self, id: StreamId, to: SocketAddr) -> bool {
        let (Some(mirror), Some(call)) = (&mut self.mirror, self.open.get_mut(&id.call)) else {
            return false;
        };
        let Some(stream) = call.streams.get_mut(&id.media) else {
            return false;
        };
        if stream.beside.mirrored.is_some() || mirror.is_due() {
            stream.beside.mirrored = Mirrored::new(to);
        }
        stream.beside.mirrored.is_some()
    }

    pub(super) fn set_formats(&mut self, id: StreamId, side: Side, live: Live) {
        if let Some(stream) = self.stream(id) {
            stream.heard.set_settings(side, live);
        }
    }

    pub(super) fn end_stream(&mut self, now: Time, id: StreamId) -> Result<(), CallError> {
        self.calls.end_stream(id)?;
        let call = self.open.get_mut(&id.call);
        let Some((call, mut stream)) =
            call.and_then(|call| call.streams.remove(&id.media).map(|stream| (call, stream)))
        else {
            return Ok(());
        };
        call.ended.retain(|ended| ended.media != id.media);
        call.ended.push(StreamReport {
            media: id.media,
            sides: stream.heard.reports(now),
        });
        drop(self.take_sockets(&stream.local));
        self.forget_shadow(&stream.beside);
        Ok(())
    }

    /// Closes a call that the caller ends.
    pub(super) fn close(&mut self, now: Time, id: CallId) -> Option<Closed> {
        self.calls.close(id).ok()?;
        self.forget(now, id)
    }

    /// Closes calls that ended by themselves, a limited number at a time.
    pub(super) fn on_timeout(&mut self, now: Time) -> Vec<(CallId, Why, Closed)> {
        let ended = self.calls.on_timeout(now, ENDED_PER_TURN);
        ended
            .into_iter()
            .filter_map(|(id, why, _)| {
                self.counters.expired += 1;
                Some((id, Why::Expired(why), self.forget(now, id)?))
            })
            .collect()
    }

    /// Closes calls whose path includes a node of the overlay, a limited number at a time; `None` stands for this
    /// gateway's own node.
    pub(super) fn node_lost(
        &mut self,
        now: Time,
        node: NodeAddr,
        is_own: bool,
    ) -> Vec<(CallId, Why, Closed)> {
        let lost: Vec<CallId> = match is_own {
            true => {
                let overlay = |call: &&OpenCall| {
                    let mut carriers = call.streams.values().flat_map(|stream| stream.local);
                    carriers.any(|(carrier, _)| carrier == Carrier::Overlay)
                };
                let calls = self.open.iter().filter(|(_, call)| overlay(call));
                calls.map(|(id, _)| *id).take(ENDED_PER_TURN).collect()
            }
            false => self.calls.through(node).take(ENDED_PER_TURN).collect(),
        };
        let why = Why::NodeLost(node);
        self.counters.nodes_lost += lost.len() as u64;
        lost.into_iter()
            .filter_map(|id| Some((id, why, self.close(now, id)?)))
            .collect()
    }

    pub(super) fn report(&mut self, now: Time, id: CallId) -> Option<Report> {
        let call = self.open.get_mut(&id)?;
        Some(call.report(now, id))
    }

    pub(super) fn reports(&mut self, now: Time) -> Vec<Report> {
        let calls = self.open.iter_mut();
        let mut reports: Vec<Report> = calls.map(|(id, call)| call.report(now, *id)).collect();
        reports.sort_by_key(|report| report.call);
        reports
    }

    pub(super) fn counters(&self) -> Counters {
        Counters {
            calls: self.calls.count(),
            udp_ports_free: self.calls.ports_free(Carrier::Udp),
            overlay_ports_free: self.calls.ports_free(Carrier::Overlay),
            connected: self.uplink.is_connected(),
            overlay_failed: self.uplink.failed(),
            ..self.counters
        }
    }

    /// Receives a datagram at a UDP port, 0 for the shadow port, into `buffer`. Returns its length and its sender;
    /// `None` if there is none now, or if the port was closed meanwhile.
    pub(super) fn receive(
        &self,
        port: u16,
        is_v6: bool,
        buffer: &mut [u8],
    ) -> Option<(usize, SocketAddr)> {
        let sockets = match port {
            // 0 is never a port of a stream.
            0 => &self.mirror.as_ref()?.sockets,
            port => &self.ports.get(&port)?.sockets,
        };
        let socket = sockets.of(is_v6)?;
        // An error belongs to a datagram that was sent before, or means an empty socket: in both cases the next event
        // is enough.
        socket.recv_from(buffer).ok()
    }

    pub(super) fn on_udp(&mut self, now: Time, port: u16, from: SocketAddr, datagram: &[u8]) {
        self.count_received(Carrier::Udp, datagram);
        let came = Came {
            from: Some(from),
            ..Came::default()
        };
        match self.calls.on_udp(now, port, from, datagram) {
            Ok(forward) => self.forward(now, &forward, datagram, came),
            Err(reason) => {
                let owner = self.ports.get(&port).map(|port| (port.stream, port.side));
                self.count_drop(reason, owner);
            }
        }
    }

    /// Handles a datagram at the shadow port: it is counted, and not forwarded.
    pub(super) fn on_mirrored(&mut self, now: Time, datagram: &[u8]) {
        let found = self
            .mirror
            .as_ref()
            .and_then(|mirror| mirror.on_datagram(datagram));
        match found {
            Some((id, side, header)) => {
                self.counters.mirrored_received += 1;
                if let Some(stream) = self.stream(id) {
                    stream.heard.on_direct(now, side, &header);
                }
            }
            None => self.counters.mirrored_refused += 1,
        }
    }

    pub(super) fn on_overlay(
        &mut self,
        now: Time,
        port: VirtualPort,
        from: Target,
        datagram: &[u8],
        info: Info,
    ) {
        self.count_received(Carrier::Overlay, datagram);
        // The remaining part of the deadline reveals the delay of the path.
        let left = info.remaining.map(nanos);
        let came = Came {
            arrival: Arrival {
                one_way: left.map(|left| self.live.deadline.saturating_sub(left)),
                recovered: info.recovered,
            },
            from: None,
        };
        let from = (from.node, from.port);
        if let Some(token) = shadow::note(datagram)
            && self.on_note(port, from, token)
        {
            return;
        }
        match self.calls.on_overlay(now, port, from, datagram) {
            Ok(forward) => self.forward(now, &forward, datagram, came),
            Err(reason) => {
                let owner = self.virtual_ports.get(&port.0).copied();
                self.count_drop(reason, owner);
            }
        }
    }

    /// Watches the shadow port, if there is one.
    pub(super) fn watch_shadow(&self) -> io::Result<()> {
        let sockets = self.mirror.iter().flat_map(|mirror| mirror.sockets.iter());
        for (is_v6, socket) in sockets {
            let token = if is_v6 { TOKEN_V6 } else { 0 };
            self.registry.add(socket, token, Interest::READ)?;
        }
        Ok(())
    }

    /// Watches the new socket of the overlay.
    pub(super) fn watch_uplink(&self, token: u64) -> io::Result<()> {
        self.uplink.watch(&self.registry, token)
    }

    /// Sends the packets that are gathered for the overlay.
    pub(super) fn flush(&mut self) {
        self.uplink.flush();
    }

    /// Handles a note with a token for mirrored packets. Returns false if its sender is not entitled to it.
    fn on_note(
        &mut self,
        port: VirtualPort,
        from: (NodeAddr, VirtualPort),
        token: shadow::Token,
    ) -> bool {
        let owner = self.virtual_ports.get(&port.0).copied();
        let (Some((id, side)), Some(mirror)) = (owner, &mut self.mirror) else {
            return false;
        };
        let call = self.open.get_mut(&id.call);
        let Some(stream) = call.and_then(|call| call.streams.get_mut(&id.media)) else {
            return false;
        };
        let may = stream.beside.is_at(side, from);
        if may {
            mirror.on_note(id, side, &mut stream.beside, token);
        }
        may
    }

    /// Sends a packet of the overlay also directly.
    fn mirror(
        &mut self,
        now: Time,
        forward: &Forward,
        (from, to): (VirtualPort, Target),
        packet: &[u8],
    ) {
        let call = self.open.get_mut(&forward.stream.call);
        let stream = call.and_then(|call| call.streams.get_mut(&forward.stream.media));
        let mirrored = stream.and_then(|stream| stream.beside.mirrored.as_mut());
        let (Some(mirrored), Some(mirror)) = (mirrored, &mut self.mirror) else {
            return;
        };
        if let Some(note) = mirrored.note(now) {
            self.uplink.send(from, to, &note);
        }
        self.counters.mirrored += u64::from(mirror.send(mirrored, packet));
    }

    fn forward(&mut self, now: Time, forward: &Forward, datagram: &[u8], came: Came) {
        if let Some(stream) = self.stream(forward.stream) {
            let Forward {
                from,
                kind,
                learned,
                ..
            } = *forward;
            stream
                .heard
                .on_passed(now, from, kind, datagram, came, learned);
        }
        match forward.to {
            Destination::Udp { from, to } => {
                let sent = self
                    .ports
                    .get(&from)
                    .map(|port| port.sockets.send(datagram, to));
                match sent {
                    Some(Ok(())) => self.counters.sent[Carrier::Udp as usize] += 1,
                    _ => self.counters.udp_failed += 1,
                }
            }
            Destination::Overlay { from, node, to } => {
                self.counters.sent[Carrier::Overlay as usize] += 1;
                let to = Target { node, port: to };
                self.uplink.send(from, to, datagram);
                if self.mirror.is_some() && forward.kind == Kind::Rtp {
                    self.mirror(now, forward, (from, to), datagram);
                }
            }
        }
    }

    fn count_received(&mut self, carrier: Carrier, datagram: &[u8]) {
        self.counters.received[carrier as usize] += 1;
        self.counters.received_bytes[carrier as usize] += datagram.len() as u64;
    }

    fn count_drop(&mut self, reason: Drop, owner: Option<(StreamId, Side)>) {
        self.counters.drops.count(reason);
        if let Some((id, side)) = owner
            && let Some(stream) = self.stream(id)
        {
            stream.heard.on_dropped(side, reason);
        }
    }

    fn stream(&mut self, id: StreamId) -> Option<&mut Stream> {
        self.open.get_mut(&id.call)?.streams.get_mut(&id.media)
    }

    /// Releases a call that [`Calls`] has closed.
    fn forget(&mut self, now: Time, id: CallId) -> Option<Closed> {
        let mut call = self.open.remove(&id)?;
        let report = call.report(now, id);
        let mut sockets = Vec::new();
        for stream in call.streams.values() {
            self.forget_shadow(&stream.beside);
            sockets.extend(self.take_sockets(&stream.local));
        }
        Some(Closed {
            report,
            _sockets: sockets,
        })
    }

    fn forget_shadow(&mut self, beside: &Beside) {
        if let Some(mirror) = &mut self.mirror {
            mirror.forget(beside);
        }
    }

    fn take_sockets(&mut self, local: &[(Carrier, LocalPorts); 2]) -> Vec<Sockets> {
        for (_, port) in ports_of(local, Carrier::Overlay) {
            self.virtual_ports.remove(&port);
        }
        ports_of(local, Carrier::Udp)
            .filter_map(|(_, port)| self.ports.remove(&port).map(|port| port.sockets))
            .collect()
    }
}

impl OpenCall {
    fn report(&mut self, now: Time, call: CallId) -> Report {
        let open = self.streams.iter_mut().map(|(media, stream)| StreamReport {
            media: *media,
            sides: stream.heard.reports(now),
        });
        let mut streams: Vec<StreamReport> = open.collect();
        // A stream that was opened again at the same position replaces the earlier one.
        let ended = self.ended.iter().filter(|ended| {
            let again = self.streams.contains_key(&ended.media);
            !again
        });
        streams.extend(ended.cloned());
        streams.sort_by_key(|stream| stream.media);
        Report {
            call,
            since: self.since,
            age: now.since(self.opened),
            streams,
        }
    }
}

/// Returns the ports that one carrier has of a stream, with the side of each.
fn ports_of(
    local: &[(Carrier, LocalPorts); 2],
    carrier: Carrier,
) -> impl Iterator<Item = (Side, u16)> + use<> {
    let [caller, callee] = [0, 1].map(|index| {
        let (is, ports) = local[index];
        let own_rtcp = ports.rtcp != ports.rtp;
        let rtp = (is == carrier).then_some(ports.rtp);
        [rtp, rtp.filter(|_| own_rtcp).map(|_| ports.rtcp)]
    });
    let caller = caller
        .into_iter()
        .flatten()
        .map(|port| (Side::Caller, port));
    let callee = callee
        .into_iter()
        .flatten()
        .map(|port| (Side::Callee, port));
    caller.chain(callee)
}

/// Converts a span of the standard library to one of the engine crates.
pub(super) fn nanos(span: core::time::Duration) -> Duration {
    Duration::from_nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
}
