//! A call's media at a gateway: which port belongs to which call, and where each packet goes.
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
//! Packets are never changed, and looked at no further than to tell RTP, RTCP and DTLS from what
//! does not belong here.
//!
//! **Symmetric RTP.** A phone behind a translator of addresses names an address that cannot be
//! reached; it is answered where it sends from. The address of the first valid packet is learned if
//! its host is the one that was signalled or that signalling came from ([`Expected`]), and locked:
//! other senders are dropped and counted.
//! Only another description, by [`Calls::signal`], opens the lock; until media comes from the new
//! place that from the old one passes, for [`MOVE_GRACE`].
//!
//! **Ends.** [`Calls::close`] on BYE. Without it [`Calls::on_timeout`] ends calls that were never
//! answered, whose media stopped, or whose dialog fell silent, and names them to the caller, who
//! sends BYE. Ports rest as long as they can before they are leased again.

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

/// Most calls at once. With two streams of two ports they take 16 000 of the 65 000 ports there
/// are; at about 1 kB each, 4 MB of memory.
pub const CALLS_MAX: usize = 4096;

/// A call that nobody answered: timer C of SIP, which ends the search for the callee, is 180 s at
/// least (RFC 3261 §16.6), and 20 s for its answer.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(200);

/// A call whose media should flow, and none came from either side: 3 intervals of comfort noise
/// and RTCP at their slowest, 20 s.
pub const MEDIA_TIMEOUT: Duration = Duration::from_secs(60);

/// A call on hold, in whose dialog nothing happened: three times the 1800 s after which SIP's
/// session timers refresh (RFC 4028).
pub const DIALOG_TIMEOUT: Duration = Duration::from_secs(5400);

/// How long media from the old place passes after an end announced a new one: packets on the way,
/// and a phone that goes on until its switch is done. 100 packets.
pub const MOVE_GRACE: Duration = Duration::from_secs(2);

/// Why a call or a stream cannot be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum CallError {
    /// [`CALLS_MAX`] are open.
    #[error("{CALLS_MAX} calls are open: refuse with 503")]
    TooManyCalls,
    /// The call is open already.
    #[error("call {0:?} is open already")]
    CallExists(CallId),
    /// No such call.
    #[error("call {0:?} is not open")]
    NoCall(CallId),
    /// No such stream.
    #[error("the call has no stream {0}")]
    NoStream(u8),
    /// A stream at a place that no description has.
    #[error("stream {0} is beyond the {MEDIA_MAX} that a description may have")]
    BadStream(u8),
    /// The stream is there already.
    #[error("the call has stream {0} already")]
    StreamExists(u8),
    /// A remote that is this gateway itself.
    #[error("the description leads media to this gateway's own ports: it would go round for ever")]
    Loop,
    /// A remote of the overlay for a side of UDP, or the other way round.
    #[error("the side is carried by {0:?}: end the stream and open it anew")]
    OtherCarrier(Carrier),
    /// No port.
    #[error(transparent)]
    Ports(#[from] PortError),
}

/// Why a call ended by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Expired {
    /// Never answered, see [`ANSWER_TIMEOUT`].
    NoAnswer,
    /// Media stopped, see [`MEDIA_TIMEOUT`].
    NoMedia,
    /// The dialog is silent, see [`DIALOG_TIMEOUT`].
    NoDialog,
}

/// What a call had carried when it was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Carried {
    /// Packets forwarded, by the side that they came from.
    pub packets: [u64; 2],
    /// Their bytes.
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
    /// Who has a port.
    owners: Map<(Carrier, u16), Owner>,
    /// When each call is looked at next; moved on when its time comes, not with every packet.
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
    /// No calls yet, and the ports that they will use: of the host, and of the gateway's node.
    ///
    /// # Errors
    /// When a range has no pair of ports.
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

    /// Says which addresses are this gateway's own. No description may lead media to its ports
    /// there: two calls that name each other's would pass a packet round for ever.
    pub fn set_own(&mut self, ips: Vec<IpAddr>, node: Option<NodeAddr>) {
        self.own = Own { ips, node };
    }

    /// Opens a call without streams.
    ///
    /// # Errors
    /// When there are too many, or it is open.
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
    /// When there are none left; nothing is kept then.
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

    /// A description of one side: where to send, and whence to expect. Media learned before is
    /// learned anew. The dialog is alive.
    ///
    /// The first offer is signalled when it comes, since media may come before its answer; a later
    /// one when it is answered, since a refusal leaves everything as it was.
    ///
    /// # Errors
    /// When there is no such stream, the side is carried otherwise, or the remote is this gateway.
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

    /// What the last exchange says: the call is answered, and something of it flows or all is on
    /// hold. The dialog is alive.
    ///
    /// # Errors
    /// When there is no such call.
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

    /// Something happened in the dialog: a refresh, an OPTIONS, anything of its own.
    ///
    /// # Errors
    /// When there is no such call.
    pub fn on_dialog(&mut self, now: Time, id: CallId) -> Result<(), CallError> {
        self.call(id)?.last_dialog = now;
        Ok(())
    }

    /// Ends one stream and gives its ports back.
    ///
    /// # Errors
    /// When there is no such stream.
    pub fn end_stream(&mut self, id: StreamId) -> Result<(), CallError> {
        let stream = self.call(id.call)?.streams.remove(&id.media);
        self.release(stream.ok_or(CallError::NoStream(id.media))?);
        Ok(())
    }

    /// Ends a call and gives its ports back.
    ///
    /// # Errors
    /// When there is no such call.
    pub fn close(&mut self, id: CallId) -> Result<Carried, CallError> {
        let call = self.calls.remove(&id).ok_or(CallError::NoCall(id))?;
        self.checks.remove(&(call.check, id));
        for stream in call.streams.into_values() {
            self.release(stream);
        }
        Ok(call.carried)
    }

    /// A datagram came over UDP at one of our ports.
    ///
    /// # Errors
    /// With the reason for which it does not pass; it is counted.
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

    /// A datagram came over the overlay at one of our virtual ports.
    ///
    /// # Errors
    /// With the reason for which it does not pass; it is counted.
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

    /// When [`Calls::on_timeout`] is wanted next.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        self.checks.first().map(|(at, _)| *at)
    }

    /// Closes calls that ended by themselves, at most `max` of them, and names them.
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

    /// Calls with a side at this node of the overlay: they end when it is lost.
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

    /// Calls that are open.
    #[must_use]
    pub fn count(&self) -> usize {
        self.calls.len()
    }

    /// Ports of a carrier that are free.
    #[must_use]
    pub fn ports_free(&self, carrier: Carrier) -> usize {
        match carrier {
            Carrier::Udp => self.udp.free(),
            Carrier::Overlay => self.overlay.free(),
        }
    }

    /// What an open call has carried.
    #[must_use]
    pub fn carried(&self, id: CallId) -> Option<Carried> {
        self.calls.get(&id).map(|call| call.carried)
    }

    /// The address that was learned for a side of UDP.
    #[must_use]
    pub fn learned(&self, id: StreamId, side: Side, component: Component) -> Option<SocketAddr> {
        let stream = self.calls.get(&id.call)?.streams.get(&id.media)?;
        stream.sides[side.index()].learned(component)
    }

    /// Packets dropped for a reason, in all.
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

/// A socket of both families writes IPv4 addresses as IPv6 ones; descriptions do not.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::new(IpAddr::V4(ip), address.port()),
        // As it is, with the scope of a link-local address.
        IpAddr::V6(_) => address,
    }
}

#[cfg(test)]
mod tests;
