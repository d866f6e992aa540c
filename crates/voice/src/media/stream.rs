//! The names of streams, the carriers of their sides, and the addresses of the other ends.

use core::net::{IpAddr, SocketAddr};

use base::{NodeAddr, VirtualPort};

use super::learn::Expected;
use crate::sdp::{Announce, End, Host};

/// A call, by the number that the gateway gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// RTP, or the RTCP that belongs to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    /// Media; if multiplexed, also RTCP.
    Rtp,
    /// Reports.
    Rtcp,
}

/// One stream of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    /// The call.
    pub call: CallId,
    /// Place of the stream in the description, from 0.
    pub media: u8,
}

/// The carrier of one side of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Carrier {
    /// UDP, to a phone or another host.
    Udp,
    /// The overlay, to another gateway or an aware end. [Amir06 §VI]
    Overlay,
}

/// Where a side sends to, according to a description.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remote {
    /// Over UDP.
    Udp {
        /// The address that receives RTP.
        rtp: Expected,
        /// The address that receives RTCP, if it differs from that of RTP.
        rtcp: Option<Expected>,
        /// Whether DTLS is accepted: SRTP whose keys the ends exchange on this port.
        dtls: bool,
    },
    /// Over the overlay.
    Overlay {
        /// The node.
        node: NodeAddr,
        /// The port that receives RTP.
        rtp: VirtualPort,
        /// The port that receives RTCP; the same if multiplexed.
        rtcp: VirtualPort,
    },
}

impl Remote {
    /// Returns where an end receives media over UDP, according to its description. Returns `None` if it rejects the
    /// stream, or gives a name, which the caller must look up first.
    ///
    /// `muxed` is true once both ends agreed on it; `via` is the source address of the end's signalling.
    #[must_use]
    pub fn of(end: &End, muxed: bool, dtls: bool, via: Option<IpAddr>) -> Option<Self> {
        let expected = |(host, port): (Host<'_>, u16)| {
            let signalled = SocketAddr::new(host.ip()?, port);
            Some(Expected {
                signalled,
                via,
                lan: false,
            })
        };
        let rtcp = end.rtcp().filter(|_| !muxed);
        Some(Self::Udp {
            rtp: expected(end.rtp()?)?,
            rtcp: rtcp.and_then(expected),
            dtls,
        })
    }

    /// Returns the same remote, and if `may` is true, accepts media from any host of its IPv4 /24 or IPv6 /64. A host
    /// there that sends first takes over the stream, so this is only for sites whose ends send media from an address
    /// that they do not announce.
    #[must_use]
    pub fn or_from_lan(mut self, may: bool) -> Self {
        if let Self::Udp { rtp, rtcp, .. } = &mut self {
            for expected in [Some(rtp), rtcp.as_mut()].into_iter().flatten() {
                expected.lan = may;
            }
        }
        self
    }

    /// Returns where an end receives media in the overlay. [Amir06 §VI]
    #[must_use]
    pub fn announced(announce: &Announce) -> Self {
        Self::Overlay {
            node: announce.node(),
            rtp: announce.rtp(),
            rtcp: announce.rtcp(),
        }
    }
}

/// The ports at which this gateway receives one side of a stream, as written in its descriptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LocalPorts {
    /// The port for RTP.
    pub rtp: u16,
    /// The port for RTCP; the same if multiplexed.
    pub rtcp: u16,
}
