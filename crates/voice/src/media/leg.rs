//! One call's state, and how it handles one packet.

use core::net::SocketAddr;
use std::collections::BTreeMap;

use base::{NodeAddr, Time, VirtualPort};

use super::learn::{Admission, Latch};
use super::ports::Lease;
use super::{
    ANSWER_TIMEOUT, CallError, Carried, Carrier, Component, DIALOG_TIMEOUT, Destination, Drop,
    Expired, Forward, LocalPorts, MEDIA_TIMEOUT, Remote, StreamId,
};
use crate::rtp::{Kind, Packet};
use crate::sdp::Side;

/// The owner of a port.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owner {
    pub(super) stream: StreamId,
    pub(super) side: Side,
    pub(super) component: Component,
}

#[derive(Debug)]
pub(super) struct Call {
    pub(super) streams: BTreeMap<u8, Stream>,
    pub(super) answered: bool,
    /// Whether some of its media flows, according to its descriptions; otherwise it is on hold.
    pub(super) flowing: bool,
    pub(super) last_media: Time,
    pub(super) last_dialog: Time,
    pub(super) check: Time,
    pub(super) carried: Carried,
}

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) sides: [Leg; 2],
}

#[derive(Debug)]
pub(super) struct Leg {
    pub(super) carrier: Carrier,
    pub(super) lease: Lease,
    pub(super) remote: Option<Peer>,
}

#[derive(Debug)]
pub(super) enum Peer {
    Udp(Box<UdpPeer>),
    Overlay {
        node: NodeAddr,
        rtp: VirtualPort,
        rtcp: VirtualPort,
    },
}

/// The sender of a packet.
#[derive(Debug, Clone, Copy)]
pub(super) enum Source {
    Udp(SocketAddr),
    Overlay(NodeAddr, VirtualPort),
}

#[derive(Debug)]
pub(super) struct UdpPeer {
    rtp: Latch,
    /// The separate address of RTCP, while RTCP is not multiplexed.
    rtcp: Option<Latch>,
    dtls: bool,
}

impl Call {
    pub(super) fn expires(&self) -> Time {
        let dialog = self.last_dialog + DIALOG_TIMEOUT;
        match (self.answered, self.flowing) {
            (false, _) => self.last_dialog + ANSWER_TIMEOUT,
            (true, true) => self.last_media + MEDIA_TIMEOUT,
            // On hold, RTCP also shows that an end is still there.
            (true, false) => dialog.max(self.last_media + DIALOG_TIMEOUT),
        }
    }

    pub(super) fn expired(&self, now: Time) -> Option<Expired> {
        let why = match (self.answered, self.flowing) {
            (false, _) => Expired::NoAnswer,
            (true, true) => Expired::NoMedia,
            (true, false) => Expired::NoDialog,
        };
        (self.expires() <= now).then_some(why)
    }

    pub(super) fn forward(
        &mut self,
        now: Time,
        owner: Owner,
        source: Source,
        datagram: &[u8],
    ) -> Result<Forward, Drop> {
        let stream = self.streams.get_mut(&owner.stream.media);
        let [caller, callee] = &mut stream.ok_or(Drop::NoCall)?.sides;
        let (leg, other) = match owner.side {
            Side::Caller => (caller, callee),
            Side::Callee => (callee, caller),
        };
        let kind = leg.kind(owner.component, datagram)?;
        // RTCP remains RTCP, whichever side multiplexes.
        let component = match kind {
            Kind::Rtcp => Component::Rtcp,
            _ => owner.component,
        };
        let learned = leg.admit(now, component, owner.component, source)?;
        Ok(Forward {
            stream: owner.stream,
            from: owner.side,
            kind,
            to: other.destination(component).ok_or(Drop::NoDestination)?,
            learned,
        })
    }
}

impl Leg {
    /// Takes the side's description, the first or a later one.
    pub(super) fn signal(&mut self, now: Time, remote: Remote) -> Result<(), CallError> {
        self.remote = Some(match (self.carrier, remote) {
            (Carrier::Udp, Remote::Udp { rtp, rtcp, dtls }) => {
                let old = match &self.remote {
                    Some(Peer::Udp(old)) => Some(old),
                    _ => None,
                };
                let old_rtcp = old.and_then(|old| old.rtcp.as_ref());
                Peer::Udp(Box::new(UdpPeer {
                    rtp: Latch::signalled(now, rtp, old.map(|old| &old.rtp)),
                    rtcp: rtcp.map(|at| Latch::signalled(now, at, old_rtcp)),
                    dtls,
                }))
            }
            (Carrier::Overlay, Remote::Overlay { node, rtp, rtcp }) => {
                Peer::Overlay { node, rtp, rtcp }
            }
            (carrier, _) => return Err(CallError::OtherCarrier(carrier)),
        });
        Ok(())
    }

    /// Returns whether the side is at this node of the overlay.
    pub(super) fn is_at(&self, at: NodeAddr) -> bool {
        matches!(self.remote, Some(Peer::Overlay { node, .. }) if node == at)
    }

    pub(super) fn learned(&self, component: Component) -> Option<SocketAddr> {
        match (self.remote.as_ref()?, component) {
            (Peer::Udp(peer), Component::Rtp) => peer.rtp.learned(),
            (Peer::Udp(peer), Component::Rtcp) => peer.rtcp.as_ref()?.learned(),
            (Peer::Overlay { .. }, _) => None,
        }
    }

    /// Returns whether RTP and RTCP arrive at one port.
    fn is_single(&self) -> bool {
        self.lease.rtp() == self.lease.rtcp()
    }

    fn is_dtls(&self) -> bool {
        match &self.remote {
            Some(Peer::Udp(peer)) => peer.dtls,
            // The gateway that sent the packet has already checked.
            Some(Peer::Overlay { .. }) => true,
            None => false,
        }
    }

    /// Returns the kind of the datagram, if it belongs to this component.
    fn kind(&self, component: Component, datagram: &[u8]) -> Result<Kind, Drop> {
        let kind = Kind::of(datagram);
        match (kind, component) {
            (Kind::Dtls, _) if self.is_dtls() => Ok(kind),
            (Kind::Rtp, Component::Rtp) if Packet::parse(datagram).is_ok() => Ok(kind),
            // The first eight bytes are in clear in SRTCP too.
            (Kind::Rtcp, Component::Rtcp) if datagram.len() >= 8 => Ok(kind),
            (Kind::Rtcp, Component::Rtp) if datagram.len() >= 8 && self.takes_rtcp_with_rtp() => {
                Ok(kind)
            }
            (Kind::Rtp, Component::Rtcp) | (Kind::Rtcp, Component::Rtp) => {
                Err(Drop::WrongComponent)
            }
            _ => Err(Drop::NotRtp),
        }
    }

    fn takes_rtcp_with_rtp(&self) -> bool {
        self.is_single() || matches!(&self.remote, Some(Peer::Udp(peer)) if peer.rtcp.is_none())
    }

    /// Checks whether the source may send to the port of this component. Returns true if its address was learned just
    /// now.
    fn admit(
        &mut self,
        now: Time,
        component: Component,
        at: Component,
        source: Source,
    ) -> Result<bool, Drop> {
        match (self.remote.as_mut().ok_or(Drop::NotSignalled)?, source) {
            (Peer::Udp(peer), Source::Udp(from)) => {
                let latch = match (component, &mut peer.rtcp, at) {
                    (Component::Rtcp, Some(rtcp), _) => rtcp,
                    // The end multiplexes, and sends RTCP from the address of its RTP.
                    (_, _, Component::Rtp) => &mut peer.rtp,
                    (_, _, Component::Rtcp) => return Err(Drop::WrongComponent),
                };
                match latch.admit(now, from) {
                    Admission::Known => Ok(false),
                    Admission::Learned => Ok(true),
                    Admission::Refused => Err(Drop::UnexpectedAddress),
                }
            }
            (Peer::Overlay { node, rtp, rtcp }, Source::Overlay(from, port)) => {
                let expected = match component {
                    Component::Rtp => *rtp,
                    Component::Rtcp => *rtcp,
                };
                if (from, port) == (*node, expected) {
                    Ok(false)
                } else {
                    Err(Drop::UnexpectedAddress)
                }
            }
            // A port of one carrier never has an owner on the other.
            (Peer::Udp(_), Source::Overlay(..)) | (Peer::Overlay { .. }, Source::Udp(_)) => {
                Err(Drop::UnexpectedAddress)
            }
        }
    }

    fn destination(&self, component: Component) -> Option<Destination> {
        let local = local_ports(&self.lease);
        match self.remote.as_ref()? {
            Peer::Udp(peer) => {
                let (from, latch) = match (component, &peer.rtcp) {
                    (Component::Rtcp, Some(rtcp)) => (local.rtcp, rtcp),
                    _ => (local.rtp, &peer.rtp),
                };
                let to = latch.destination()?;
                Some(Destination::Udp { from, to })
            }
            Peer::Overlay { node, rtp, rtcp } => {
                let (from, to) = match component {
                    Component::Rtp => (local.rtp, *rtp),
                    Component::Rtcp => (local.rtcp, *rtcp),
                };
                let (from, node) = (VirtualPort(from), *node);
                Some(Destination::Overlay { from, node, to })
            }
        }
    }
}

pub(super) fn local_ports(lease: &Lease) -> LocalPorts {
    LocalPorts {
        rtp: lease.rtp(),
        rtcp: lease.rtcp(),
    }
}

pub(super) fn components(lease: &Lease) -> impl Iterator<Item = (Component, u16)> + use<> {
    let (rtp, rtcp) = (lease.rtp(), lease.rtcp());
    let own = (rtcp != rtp).then_some((Component::Rtcp, rtcp));
    [(Component::Rtp, rtp)].into_iter().chain(own)
}
