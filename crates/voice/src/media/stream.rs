//! What streams are called, what carries their sides, and where the other ends are.

use core::net::{IpAddr, SocketAddr};

use base::{NodeAddr, VirtualPort};

use super::learn::Expected;
use crate::sdp::{Announce, End, Host};

/// A call, as the gateway numbers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// RTP, or the RTCP beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    /// Media; and RTCP too where they are multiplexed.
    Rtp,
    /// Reports.
    Rtcp,
}

/// Which stream of which call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    /// The call.
    pub call: CallId,
    /// Place of the stream in the description, from 0.
    pub media: u8,
}

/// What carries one side of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Carrier {
    /// UDP, to a phone or another host.
    Udp,
    /// The overlay, to another gateway or an aware end. [Amir06 §VI]
    Overlay,
}

/// Where a side is told to send, by a description.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remote {
    /// Over UDP.
    Udp {
        /// Where RTP is taken.
        rtp: Expected,
        /// Where RTCP is taken, if not with RTP.
        rtcp: Option<Expected>,
        /// DTLS belongs here: SRTP whose keys the ends exchange on this port.
        dtls: bool,
    },
    /// Over the overlay.
    Overlay {
        /// The node.
        node: NodeAddr,
        /// Where RTP is taken.
        rtp: VirtualPort,
        /// Where RTCP is taken; the same when multiplexed.
        rtcp: VirtualPort,
    },
}

impl Remote {
    /// Where an end takes media by its description, over UDP. `None` when it rejects the stream, or
    /// gives a name, which is to be looked up first.
    ///
    /// `muxed` once both ends agreed on it; `via` is where its signalling came from.
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

    /// The same, and media may come from any host of its IPv4 /24 or IPv6 /64. A host there that
    /// sends first takes the stream, so this is for sites whose ends send media from an address that
    /// they do not name.
    #[must_use]
    pub fn or_from_lan(mut self, may: bool) -> Self {
        if let Self::Udp { rtp, rtcp, .. } = &mut self {
            for expected in [Some(rtp), rtcp.as_mut()].into_iter().flatten() {
                expected.lan = may;
            }
        }
        self
    }

    /// Where an end takes media in the overlay. [Amir06 §VI]
    #[must_use]
    pub fn announced(announce: &Announce) -> Self {
        Self::Overlay {
            node: announce.node(),
            rtp: announce.rtp(),
            rtcp: announce.rtcp(),
        }
    }
}

/// The ports at which this gateway takes one side of a stream: what its descriptions say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LocalPorts {
    /// For RTP.
    pub rtp: u16,
    /// For RTCP; the same when multiplexed.
    pub rtcp: u16,
}
