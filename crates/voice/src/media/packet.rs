//! The decision about one packet: its destination, or the reason for its drop.

use core::net::SocketAddr;

use base::{NodeAddr, VirtualPort};

use super::StreamId;
use crate::rtp::Kind;
use crate::sdp::Side;

/// The destination of a packet: from one of the gateway's ports to an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Destination {
    /// Over UDP.
    Udp {
        /// The gateway's port, from which the other end expects it.
        from: u16,
        /// The other end.
        to: SocketAddr,
    },
    /// Over the overlay.
    Overlay {
        /// The gateway's virtual port.
        from: VirtualPort,
        /// The other node.
        node: NodeAddr,
        /// Its virtual port.
        to: VirtualPort,
    },
}

/// A packet that the gateway forwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Forward {
    /// The stream that it belongs to.
    pub stream: StreamId,
    /// The side that it came from.
    pub from: Side,
    /// The kind of packet.
    pub kind: Kind,
    /// The destination. The packet is not changed.
    pub to: Destination,
    /// Whether this packet taught the gateway the sender's address.
    pub learned: bool,
}

/// Why the gateway drops a packet. Also the label of its counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
#[repr(u8)]
pub enum Drop {
    /// No call has this port: RTP without SIP, or after BYE.
    #[error("no call has the port")]
    NoCall,
    /// It is neither RTP nor RTCP, nor DTLS in a stream that uses it.
    #[error("not RTP, RTCP or the stream's DTLS")]
    NotRtp,
    /// RTP at a port for RTCP alone, or RTCP at a port that does not accept it.
    #[error("RTP at a port for RTCP, or the other way round")]
    WrongComponent,
    /// It did not come from the address of the call's media.
    #[error("not from the address that was signalled or learned")]
    UnexpectedAddress,
    /// The side's description with the other end's address has not arrived yet.
    #[error("no description of this side yet")]
    NotSignalled,
    /// The other side has no address: it is not known yet, or the side is on hold by an address of zeros.
    #[error("the other side has no address yet, or is on hold")]
    NoDestination,
}

impl Drop {
    /// All reasons, in the order of their numbers.
    pub const ALL: [Drop; 6] = [
        Drop::NoCall,
        Drop::NotRtp,
        Drop::WrongComponent,
        Drop::UnexpectedAddress,
        Drop::NotSignalled,
        Drop::NoDestination,
    ];

    /// Returns the counter's name.
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
