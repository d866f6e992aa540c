//! RTP and transport streams over UDP, on one leg or on two (SMPTE ST 2022-7).
//!
//! ```text
//!   source ──239.1.1.1@eth1──▶ ┐                                              ┌ ──239.2.1.1@eth1──▶
//!                              Inward ──▶ node ══ overlay ══ node ──▶ Outward ┤                     receiver
//!          ──239.1.1.2@eth2──▶ ┘ (merged)                                     └ ──239.2.1.2@eth2──▶
//! ```
//! The gateway is an ordinary client of its node, with one stream and one thread. Two incoming legs are merged by the
//! sequence numbers of RTP ([`voice::pair`]); two outgoing legs carry the same packets.

mod inward;
mod leg;
mod outward;

use crate::video::line::{self, Core, Tell};
use crate::video::{Inlet, Outlet, Outward, Place};
use base::Duration;
use client::{Node, Options, Target};
use inward::Inward;
use outward::{Senders, Wrap};
use std::io;
use std::sync::Arc;
use voice::pair::{self, LEGS, Merged};

pub use leg::{Interface, Leg};

/// The work of a gateway.
#[derive(Clone, Debug)]
pub enum Work {
    /// From one or two legs into the overlay.
    In {
        /// The legs.
        legs: Vec<Leg>,
        /// How long the gateway waits for a packet that is missing on one leg.
        window: Duration,
        /// The destination of the stream.
        target: Target,
    },
    /// From the overlay to one or two legs.
    Out {
        /// The place of the stream.
        place: Place,
        /// The legs.
        legs: Vec<Leg>,
        /// Whether bare transport streams get an RTP header.
        wrap: bool,
    },
}

/// With two incoming legs: the counters of each leg, and of the merged stream.
pub type Ways = Option<([pair::Leg; LEGS], Merged)>;

/// The report of the gateway.
pub type Report = line::Report<Ways>;

/// A running gateway.
pub type Service = line::Service<Ways>;

type Shared = line::Shared<Ways>;

/// The reason why a gateway cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The node cannot be reached.
    #[error("the gateway's node: {0}")]
    Node(#[from] client::Error),
    /// A leg cannot be opened.
    #[error("{leg}: {error}")]
    Leg {
        /// The leg.
        leg: String,
        /// The error of the kernel.
        error: io::Error,
    },
    /// The number of legs is zero, or more than two.
    #[error("a stream has one way or two")]
    Legs,
    /// The kernel refused something else.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Starts a gateway.
///
/// # Errors
/// The node cannot be reached, or a leg cannot be opened.
pub fn start(node: &Node, work: Work, options: Options, tell: Tell) -> Result<Service, Error> {
    Service::begin("rtp", tell, |shared| core(shared, node, work, options))
}

fn core(
    shared: Arc<Shared>,
    node: &Node,
    work: Work,
    options: Options,
) -> Result<Box<dyn Core + Send>, Error> {
    let refused = |leg: &Leg, error| Error::Leg {
        leg: leg.to_string(),
        error,
    };
    let (Work::In { legs, .. } | Work::Out { legs, .. }) = &work;
    if !(1..=LEGS).contains(&legs.len()) {
        return Err(Error::Legs);
    }
    match work {
        Work::In {
            legs,
            window,
            target,
        } => {
            let ways = legs.into_iter().map(|leg| match leg.receiver() {
                Ok(socket) => Ok((leg, socket)),
                Err(error) => Err(refused(&leg, error)),
            });
            let ways = ways.collect::<Result<Vec<_>, _>>()?;
            let outlet = Outlet::open(node.clone(), options)?;
            Ok(Box::new(Inward::new(shared, ways, window, outlet, target)?))
        }
        Work::Out { place, legs, wrap } => {
            let ways = legs.into_iter().map(|leg| match leg.sender() {
                Ok(socket) => Ok((leg, socket)),
                Err(error) => Err(refused(&leg, error)),
            });
            let ways = ways.collect::<Result<Vec<_>, _>>()?;
            let [a, b, c, d, e, f, ..] = net::sched::entropy()?;
            let wrap = wrap.then_some(Wrap {
                ssrc: u32::from_be_bytes([a, b, c, d]),
                seq: u16::from_be_bytes([e, f]),
            });
            let inlet = Inlet::open(node.clone(), place, options)?;
            let ways = Senders::new(ways, wrap);
            Ok(Box::new(Outward::new(shared, inlet, ways)?))
        }
    }
}
