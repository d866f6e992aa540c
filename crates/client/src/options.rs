//! What a socket asks of the overlay.

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
    /// What routes: a metric, or a scheme by which the node stamps the packets.
    pub routing: RouteBy,
    /// 0, the lowest, to 7.
    pub priority: u8,
    /// How long after sending a packet is of use.
    pub deadline: Option<Duration>,
    /// In which order packets are handed over.
    pub delivery: Delivery,
    /// Hops after which a packet is dropped, 1 to 63.
    pub ttl: u8,
    /// After how long without a word of the peer a stream ends in an error; none for what the node has
    /// set, 15 minutes unless its operator has chosen.
    pub give_up: Option<Duration>,
    /// What decides the window of a stream: CUBIC, as kernels have it, or BBR, which bears random
    /// losses; none for what the node has set, CUBIC.
    pub control: Option<StreamControl>,
    /// Bytes go with the opening of a stream where this node and the peer's have met before: the stream is
    /// open at once, and what is written may be read before an answer is back. Whether somebody takes
    /// it is then known later, from reading or writing. What goes with the opening is delivered at most
    /// once; if the peer's node restarts just then, the stream may end in an error.
    pub early: bool,
    /// What may stay lost of its packets on each link of their way, and how much repair they may get at most; as each node's
    /// settings say unless it says otherwise. Only of datagrams on real-time links.
    pub aim: Aim,
}

impl Options {
    /// Real-time recovery within `deadline`, over the path of the least expected latency.
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

    /// Best effort over the path of the least latency: what UDP does, over the overlay.
    pub fn best_effort() -> Options {
        Options {
            link: LinkProtocol::BestEffort,
            routing: RouteBy::Table(Routing::Latency),
            priority: 0,
            deadline: None,
            ..Options::voice(Duration::ZERO)
        }
    }

    /// Reliable links over the path of the least expected latency, for streams and bulk.
    pub fn stream() -> Options {
        Options {
            link: LinkProtocol::Reliable,
            routing: RouteBy::Table(Routing::ExpectedLatency),
            priority: 2,
            deadline: None,
            ..Options::voice(Duration::ZERO)
        }
    }

    /// As a client tells its node.
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
