//! The options that a socket requests from the overlay.

use core::time::Duration;
pub use wire::Aim;
use wire::data::{Class, TTL_MAX};
pub use wire::data::{LinkProtocol, Routing};
pub use wire::ipc::{Delivery, RouteBy, Scheme, StreamControl};

/// How a socket's packets are carried, and how it receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The protocol on each hop.
    pub link: LinkProtocol,
    /// How packets are routed: by a metric, or by a scheme by which the node stamps the packets.
    pub routing: RouteBy,
    /// The priority, from 0, the lowest, to 7.
    pub priority: u8,
    /// How long after sending a packet is useful.
    pub deadline: Option<Duration>,
    /// The order in which packets are delivered.
    pub delivery: Delivery,
    /// Number of hops after which a packet is dropped, 1 to 63.
    pub ttl: u8,
    /// The silence of the peer after which a stream ends in an error; none for the node's setting, which is 15 minutes
    /// unless its operator has changed it.
    pub give_up: Option<Duration>,
    /// The congestion control of a stream: CUBIC, as in kernels, or BBR, which tolerates random losses; none for the
    /// node's setting, which is CUBIC by default.
    pub control: Option<StreamControl>,
    /// Send data with the opening of a stream, if this node and the peer's have met before: the stream is open at once,
    /// and written data may be read before an answer is back. Reading or writing shows later whether the peer accepts
    /// the stream. Data that is sent with the opening is delivered at most once; if the peer's node restarts just then,
    /// the stream may end in an error.
    pub early: bool,
    /// The share of its packets that may stay lost on each link, and the largest amount of repair; each node's settings
    /// apply unless set. Only for datagrams on real-time links.
    pub aim: Aim,
}

impl Options {
    /// Returns options for real-time recovery within `deadline`, over the path of the least expected latency.
    pub fn voice(deadline: Duration) -> Options {
        Options {
            link: LinkProtocol::RealTime,
            routing: RouteBy::Table(Routing::ExpectedLatency),
            priority: 4,
            deadline: Some(deadline),
            delivery: Delivery::AsItComes,
            ttl: wire::ipc::Options::TTL_DEFAULT,
            give_up: None,
            control: None,
            early: false,
            aim: Aim::default(),
        }
    }

    /// Returns options for best effort over the path of the least latency: like UDP, over the overlay.
    pub fn best_effort() -> Options {
        Options {
            link: LinkProtocol::BestEffort,
            routing: RouteBy::Table(Routing::Latency),
            priority: 0,
            deadline: None,
            ..Options::voice(Duration::ZERO)
        }
    }

    /// Returns options for reliable links over the path of the least expected latency, for streams and bulk.
    pub fn stream() -> Options {
        Options {
            link: LinkProtocol::Reliable,
            routing: RouteBy::Table(Routing::ExpectedLatency),
            priority: 2,
            deadline: None,
            ..Options::voice(Duration::ZERO)
        }
    }

    /// Converts the options to the form that a client sends to its node.
    pub fn to_wire(self) -> wire::ipc::Options {
        wire::ipc::Options {
            class: Class {
                link: self.link,
                routing: self.routing.routing(),
                priority: self.priority,
            },
            scheme: self.routing.scheme(),
            deadline: self.deadline.map(span),
            delivery: self.delivery,
            ttl: self.ttl.clamp(1, TTL_MAX),
            give_up: self.give_up.map(span),
            control: self.control,
            early: self.early,
            aim: self.aim,
        }
    }
}

fn span(span: Duration) -> base::Duration {
    base::Duration::from_nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
}
