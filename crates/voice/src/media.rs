//! A call's media at a gateway: the ports of each call, and the destination of each packet.
//!
//! ```text
//!   Calls ── call ── stream (place in the description) ── two sides, each with a Leg per component
//!                                                            RTP, RTCP; or one for both (mux)
//!
//!   side of a phone:    leased UDP port   <── from the address that is learned, and back to it
//!   side of the overlay: leased virtual port <── from the node and port that were signalled
//!
//!   packet at a port ──> Forward to the stream's other side, same component
//!                   └──> Drop, with its reason, counted
//! ```
//!
//! Packets are never changed. The gateway examines them only to tell RTP, RTCP and DTLS from packets that do not belong
//! here.
//!
//! **Symmetric RTP.** A phone behind a NAT gives an address that cannot be reached. The gateway therefore sends to the
//! address that the phone sends from. It learns the address of the first valid packet if its host is the one that was
//! signalled or that the signalling came from ([`Expected`]). It then locks this address: it drops and counts packets
//! of other senders.
//! Only another description, by [`Calls::signal`], opens the lock. Until media arrives from the new address, media from
//! the old one passes, for [`MOVE_GRACE`].
//!
//! **Ends.** [`Calls::close`] ends a call on BYE. Without a BYE, [`Calls::on_timeout`] ends calls that were never
//! answered, whose media stopped, or whose dialog fell silent, and returns them to the caller, which sends BYE. Ports
//! rest as long as possible before they are leased again.

mod learn;
mod leg;
mod packet;
mod ports;
mod stream;

pub use learn::Expected;
pub use packet::{Destination, Drop, Forward};
pub use ports::{Lease, Need, PortError, Ports};
pub use stream::{CallId, Carrier, Component, LocalPorts, Remote, StreamId};

use core::net::{IpAddr, SocketAddr};
use core::ops::RangeInclusive;
use std::collections::{BTreeMap, BTreeSet};

use base::{Duration, Map, NodeAddr, Time, VirtualPort};

use crate::sdp::{MEDIA_MAX, Side};
use leg::{Call, Leg, Owner, Source, Stream, components, local_ports};

/// Most calls at once. With two streams of two ports they take 16 000 of the 65 000 ports that exist; at about 1 kB
/// each, 4 MB of memory.
pub const CALLS_MAX: usize = 4096;

/// Limit for a call that nobody answers: timer C of SIP, which ends the search for the callee, is at least 180 s (RFC
/// 3261 §16.6); 20 s more are for its answer.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(200);

/// Limit for a call whose media should flow but arrives from neither side: 3 intervals of comfort noise and RTCP at
/// their slowest, 20 s.
pub const MEDIA_TIMEOUT: Duration = Duration::from_secs(60);

/// Limit for a call on hold without any event in its dialog: three times the 1800 s after which SIP's session timers
/// refresh (RFC 4028).
pub const DIALOG_TIMEOUT: Duration = Duration::from_secs(5400);

/// How long media from the old address passes after an end announced a new one: this covers packets on the path, and a
/// phone that continues until its switch is done. 100 packets.
pub const MOVE_GRACE: Duration = Duration::from_secs(2);

/// Why a call or a stream is not available.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum CallError {
    /// [`CALLS_MAX`] calls are open.
    #[error("{CALLS_MAX} calls are open: refuse with 503")]
    TooManyCalls,
    /// The call is already open.
    #[error("call {0:?} is open already")]
    CallExists(CallId),
    /// There is no such call.
    #[error("call {0:?} is not open")]
    NoCall(CallId),
    /// There is no such stream.
    #[error("the call has no stream {0}")]
    NoStream(u8),
    /// The stream has a place that no description has.
    #[error("stream {0} is beyond the {MEDIA_MAX} that a description may have")]
    BadStream(u8),
    /// The stream already exists.
    #[error("the call has stream {0} already")]
    StreamExists(u8),
    /// The remote is this gateway itself.
    #[error("the description leads media to this gateway's own ports: it would go round for ever")]
    Loop,
    /// The remote is in the overlay but the side uses UDP, or the other way round.
    #[error("the side is carried by {0:?}: end the stream and open it anew")]
    OtherCarrier(Carrier),
    /// No port is free.
    #[error(transparent)]
    Ports(#[from] PortError),
}

/// Why a call ended without BYE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Expired {
    /// Nobody answered it, see [`ANSWER_TIMEOUT`].
    NoAnswer,
    /// Media stopped, see [`MEDIA_TIMEOUT`].
    NoMedia,
    /// The dialog is silent, see [`DIALOG_TIMEOUT`].
    NoDialog,
}

/// What a call had carried until it was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Carried {
    /// Packets forwarded, by the side from which they came.
    pub packets: [u64; 2],
    /// Bytes of these packets.
    pub bytes: [u64; 2],
    /// Packets dropped.
    pub dropped: u64,
}

/// All calls of one gateway.
#[derive(Debug)]
pub struct Calls {
    udp: Ports,
    overlay: Ports,
    calls: Map<CallId, Call>,
    /// The owner of each port.
    owners: Map<(Carrier, u16), Owner>,
    /// When each call is checked next. The time moves only when it is reached, not with every packet.
    checks: BTreeSet<(Time, CallId)>,
    own: Own,
    drops: [u64; Drop::ALL.len()],
}

/// Addresses of this gateway.
#[derive(Debug, Default)]
struct Own {
    ips: Vec<IpAddr>,
    node: Option<NodeAddr>,
}

impl Calls {
    /// Creates an empty set of calls with the ports that they will use: of the host, and of the gateway's node.
    ///
    /// # Errors
    /// Fails if a range has no pair of ports.
    pub fn new(udp: RangeInclusive<u16>, overlay: RangeInclusive<u16>) -> Result<Self, PortError> {
        Ok(Self {
            udp: Ports::new(udp)?,
            overlay: Ports::new(overlay)?,
            calls: Map::default(),
            owners: Map::default(),
            checks: BTreeSet::new(),
            own: Own::default(),
            drops: [0; Drop::ALL.len()],
        })
    }

    /// Sets this gateway's own addresses. No description may direct media to its own ports: two calls with each other's
    /// ports would pass a packet in a loop for ever.
    pub fn set_own(&mut self, ips: Vec<IpAddr>, node: Option<NodeAddr>) {
        self.own = Own { ips, node };
    }

    /// Opens a call without streams.
    ///
    /// # Errors
    /// Fails if there are too many calls, or the call is already open.
    pub fn open(&mut self, now: Time, id: CallId) -> Result<(), CallError> {
        if self.calls.contains_key(&id) {
            return Err(CallError::CallExists(id));
        }
        if self.calls.len() >= CALLS_MAX {
            return Err(CallError::TooManyCalls);
        }
        let check = now + ANSWER_TIMEOUT;
        self.checks.insert((check, id));
        let call = Call {
            streams: BTreeMap::new(),
            answered: false,
            flowing: true,
            last_media: now,
            last_dialog: now,
            check,
            carried: Carried::default(),
        };
        self.calls.insert(id, call);
        Ok(())
    }

    /// Leases ports for a new stream, for both sides.
    ///
    /// # Errors
    /// Fails if no ports are left. Then nothing stays leased.
    pub fn add_stream(
        &mut self,
        id: StreamId,
        sides: [(Carrier, Need); 2],
    ) -> Result<[LocalPorts; 2], CallError> {
        if usize::from(id.media) >= MEDIA_MAX {
            return Err(CallError::BadStream(id.media));
        }
        let call = self.calls.get(&id.call).ok_or(CallError::NoCall(id.call))?;
        if call.streams.contains_key(&id.media) {
            return Err(CallError::StreamExists(id.media));
        }
        let [caller, callee] = sides;
        let first = self.ports(caller.0).lease(caller.1)?;
        let second = match self.ports(callee.0).lease(callee.1) {
            Ok(second) => second,
            Err(error) => {
                self.ports(caller.0).release(first);
                return Err(error.into());
            }
        };
        let sides = [(caller.0, first), (callee.0, second)].map(|(carrier, lease)| Leg {
            carrier,
            lease,
            remote: None,
        });
        let local = [local_ports(&sides[0].lease), local_ports(&sides[1].lease)];
        for (side, leg) in Side::BOTH.into_iter().zip(&sides) {
            for (component, port) in components(&leg.lease) {
                let owner = Owner {
                    stream: id,
                    side,
                    component,
                };
                self.owners.insert((leg.carrier, port), owner);
            }
        }
        if let Some(call) = self.calls.get_mut(&id.call) {
            call.streams.insert(id.media, Stream { sides });
        }
        Ok(local)
    }

    /// Takes a description of one side: the address to send to, and the addresses to expect media from. An address that
    /// was learned before is learned anew. The call also counts this as activity of the dialog.
    ///
    /// Signal the first offer when it arrives, since media may arrive before its answer; a later offer when it is
    /// answered, since a refusal leaves everything unchanged.
    ///
    /// # Errors
    /// Fails if there is no such stream, the side has another carrier, or the remote is this gateway.
    pub fn signal(
        &mut self,
        now: Time,
        id: StreamId,
        side: Side,
        remote: Remote,
    ) -> Result<(), CallError> {
        if self.is_own(&remote) {
            return Err(CallError::Loop);
        }
        let call = self.call(id.call)?;
        call.last_dialog = now;
        let stream = call.streams.get_mut(&id.media);
        let leg = &mut stream.ok_or(CallError::NoStream(id.media))?.sides[side.index()];
        leg.signal(now, remote)
    }

    /// Notes the result of the last exchange: the call is answered, and either some media flows or all is on hold. The
    /// call also counts this as activity of the dialog.
    ///
    /// # Errors
    /// Fails if there is no such call.
    pub fn answered(&mut self, now: Time, id: CallId, flowing: bool) -> Result<(), CallError> {
        let call = self.call(id)?;
        call.last_dialog = now;
        if !call.answered || (flowing && !call.flowing) {
            // Silence counts from here, not from before the hold.
            call.last_media = now;
        }
        call.answered = true;
        call.flowing = flowing;
        self.check_at(id);
        Ok(())
    }

    /// Notes activity in the dialog: a refresh, an OPTIONS, or any other request of the dialog.
    ///
    /// # Errors
    /// Fails if there is no such call.
    pub fn on_dialog(&mut self, now: Time, id: CallId) -> Result<(), CallError> {
        self.call(id)?.last_dialog = now;
        Ok(())
    }

    /// Ends one stream and releases its ports.
    ///
    /// # Errors
    /// Fails if there is no such stream.
    pub fn end_stream(&mut self, id: StreamId) -> Result<(), CallError> {
        let stream = self.call(id.call)?.streams.remove(&id.media);
        self.release(stream.ok_or(CallError::NoStream(id.media))?);
        Ok(())
    }

    /// Ends a call and releases its ports.
    ///
    /// # Errors
    /// Fails if there is no such call.
    pub fn close(&mut self, id: CallId) -> Result<Carried, CallError> {
        let call = self.calls.remove(&id).ok_or(CallError::NoCall(id))?;
        self.checks.remove(&(call.check, id));
        for stream in call.streams.into_values() {
            self.release(stream);
        }
        Ok(call.carried)
    }

    /// Handles a datagram that arrived over UDP at one of the gateway's ports.
    ///
    /// # Errors
    /// Returns the reason for which it does not pass; the drop is counted.
    pub fn on_udp(
        &mut self,
        now: Time,
        port: u16,
        from: SocketAddr,
        datagram: &[u8],
    ) -> Result<Forward, Drop> {
        let source = Source::Udp(canonical(from));
        self.on_packet(now, Carrier::Udp, port, source, datagram)
    }

    /// Handles a datagram that arrived over the overlay at one of the gateway's virtual ports.
    ///
    /// # Errors
    /// Returns the reason for which it does not pass; the drop is counted.
    pub fn on_overlay(
        &mut self,
        now: Time,
        port: VirtualPort,
        from: (NodeAddr, VirtualPort),
        datagram: &[u8],
    ) -> Result<Forward, Drop> {
        let source = Source::Overlay(from.0, from.1);
        self.on_packet(now, Carrier::Overlay, port.0, source, datagram)
    }

    /// Returns when [`Calls::on_timeout`] must be called next.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        self.checks.first().map(|(at, _)| *at)
    }

    /// Closes calls that ended without BYE, at most `max` of them, and returns them.
    pub fn on_timeout(&mut self, now: Time, max: usize) -> Vec<(CallId, Expired, Carried)> {
        let mut ended = Vec::new();
        while let Some(&(at, id)) = self.checks.first()
            && at <= now
            && ended.len() < max
        {
            let call = self.calls.get(&id);
            match call.and_then(|call| call.expired(now)) {
                Some(why) => ended.extend(self.close(id).map(|carried| (id, why, carried))),
                None => {
                    self.checks.pop_first();
                    self.check_at(id);
                }
            }
        }
        ended
    }

    /// Returns the calls with a side at this node of the overlay: they end when it is lost.
    pub fn through(&self, lost: NodeAddr) -> impl Iterator<Item = CallId> + '_ {
        let is_through = move |call: &Call| {
            let mut legs = call.streams.values().flat_map(|stream| &stream.sides);
            legs.any(|leg| leg.is_at(lost))
        };
        self.calls
            .iter()
            .filter(move |(_, call)| is_through(call))
            .map(|(id, _)| *id)
    }

    /// Returns the number of open calls.
    #[must_use]
    pub fn count(&self) -> usize {
        self.calls.len()
    }

    /// Returns the number of free ports of a carrier.
    #[must_use]
    pub fn ports_free(&self, carrier: Carrier) -> usize {
        match carrier {
            Carrier::Udp => self.udp.free(),
            Carrier::Overlay => self.overlay.free(),
        }
    }

    /// Returns what an open call has carried.
    #[must_use]
    pub fn carried(&self, id: CallId) -> Option<Carried> {
        self.calls.get(&id).map(|call| call.carried)
    }

    /// Returns the address that was learned for a side on UDP.
    #[must_use]
    pub fn learned(&self, id: StreamId, side: Side, component: Component) -> Option<SocketAddr> {
        let stream = self.calls.get(&id.call)?.streams.get(&id.media)?;
        stream.sides[side.index()].learned(component)
    }

    /// Returns the total number of packets dropped for a reason.
    #[must_use]
    pub fn dropped(&self, reason: Drop) -> u64 {
        self.drops[reason as usize]
    }

    fn on_packet(
        &mut self,
        now: Time,
        carrier: Carrier,
        port: u16,
        source: Source,
        datagram: &[u8],
    ) -> Result<Forward, Drop> {
        let owner = self.owners.get(&(carrier, port)).copied();
        let call = owner.and_then(|owner| self.calls.get_mut(&owner.stream.call));
        let (Some(owner), Some(call)) = (owner, call) else {
            self.drops[Drop::NoCall as usize] += 1;
            return Err(Drop::NoCall);
        };
        let result = call.forward(now, owner, source, datagram);
        let side = owner.side.index();
        match result {
            Ok(_) => {
                call.last_media = now;
                call.carried.packets[side] += 1;
                call.carried.bytes[side] += datagram.len() as u64;
            }
            Err(reason) => {
                call.carried.dropped += 1;
                self.drops[reason as usize] += 1;
            }
        }
        result
    }

    fn is_own(&self, remote: &Remote) -> bool {
        match remote {
            Remote::Udp { rtp, rtcp, .. } => [Some(rtp), rtcp.as_ref()]
                .into_iter()
                .flatten()
                .map(|expected| canonical(expected.signalled))
                .any(|at| self.own.ips.contains(&at.ip()) && self.udp.covers(at.port())),
            Remote::Overlay { node, rtp, rtcp } => {
                let covers = self.overlay.covers(rtp.0) || self.overlay.covers(rtcp.0);
                self.own.node == Some(*node) && covers
            }
        }
    }

    fn call(&mut self, id: CallId) -> Result<&mut Call, CallError> {
        self.calls.get_mut(&id).ok_or(CallError::NoCall(id))
    }

    fn ports(&mut self, carrier: Carrier) -> &mut Ports {
        match carrier {
            Carrier::Udp => &mut self.udp,
            Carrier::Overlay => &mut self.overlay,
        }
    }

    fn release(&mut self, stream: Stream) {
        for leg in stream.sides {
            for (_, port) in components(&leg.lease) {
                self.owners.remove(&(leg.carrier, port));
            }
            self.ports(leg.carrier).release(leg.lease);
        }
    }

    fn check_at(&mut self, id: CallId) {
        if let Some(call) = self.calls.get_mut(&id) {
            self.checks.remove(&(call.check, id));
            call.check = call.expires();
            self.checks.insert((call.check, id));
        }
    }
}

/// Returns an address in the form of descriptions: a socket of both families writes IPv4 addresses as IPv6 ones;
/// descriptions do not.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::new(IpAddr::V4(ip), address.port()),
        // Keep it unchanged, with the scope of a link-local address.
        IpAddr::V6(_) => address,
    }
}

#[cfg(test)]
mod tests;
