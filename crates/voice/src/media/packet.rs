//! What becomes of one packet: where it goes, or why it does not.

use core::net::SocketAddr;

use base::{NodeAddr, VirtualPort};

use super::StreamId;
use crate::rtp::Kind;
use crate::sdp::Side;

/// Where a packet goes: from the port of ours, to an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Destination {
    /// Over UDP.
    Udp {
        /// Our port, from which the other end expects it.
        from: u16,
        /// The other end.
        to: SocketAddr,
    },
    /// Over the overlay.
    Overlay {
        /// Our virtual port.
        from: VirtualPort,
        /// The other node.
        node: NodeAddr,
        /// Its virtual port.
        to: VirtualPort,
    },
}

/// A packet that passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Forward {
    /// Whose it is.
    pub stream: StreamId,
    /// The side it came from.
    pub from: Side,
    /// What it is.
    pub kind: Kind,
    /// Where it goes, unchanged.
    pub to: Destination,
    /// The address was learned by this packet.
    pub learned: bool,
}

/// Why a packet does not pass. Also the label of its counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
#[repr(u8)]
pub enum Drop {
    /// No call has this port: RTP without SIP, or after BYE.
    #[error("no call has the port")]
    NoCall,
    /// Neither RTP nor RTCP, nor DTLS where it belongs.
    #[error("not RTP, RTCP or the stream's DTLS")]
    NotRtp,
    /// RTP at a port for RTCP alone, or RTCP where no port takes it.
    #[error("RTP at a port for RTCP, or the other way round")]
    WrongComponent,
    /// Not from where the call's media comes.
    #[error("not from the address that was signalled or learned")]
    UnexpectedAddress,
    /// The side was not told yet where the other end is.
    #[error("no description of this side yet")]
    NotSignalled,
    /// The other side cannot be sent to: not told yet, or on hold by an address of zeros.
    #[error("the other side has no address yet, or is on hold")]
    NoDestination,
}

impl Drop {
    /// All, in the order of their numbers.
    pub const ALL: [Drop; 6] = [
        Drop::NoCall,
        Drop::NotRtp,
        Drop::WrongComponent,
        Drop::UnexpectedAddress,
        Drop::NotSignalled,
        Drop::NoDestination,
    ];

    /// The counter's name.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Drop::NoCall => "no_call",
            Drop::NotRtp => "not_rtp",
            Drop::WrongComponent => "wrong_component",
            Drop::UnexpectedAddress => "unexpected_address",
            Drop::NotSignalled => "not_signalled",
            Drop::NoDestination => "no_destination",
        }
    }
}
