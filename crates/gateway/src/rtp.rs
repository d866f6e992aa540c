//! RTP and transport streams over UDP, by one way or by two (SMPTE ST 2022-7).
//!
//! ```text
//!   source ──239.1.1.1@eth1──▶ ┐                                              ┌ ──239.2.1.1@eth1──▶
//!                              Inward ──▶ node ══ overlay ══ node ──▶ Outward ┤                     receiver
//!          ──239.1.1.2@eth2──▶ ┘ (merged)                                     └ ──239.2.1.2@eth2──▶
//! ```
//! An ordinary client of its node, with one stream and one thread. Two ways in are merged by the numbers of RTP
//! ([`voice::pair`]); two ways out carry the same.

mod inward;
mod leg;
mod outward;

use crate::video::{Inlet, Outlet, Place, Seen};
use base::Duration;
use client::{Node, Options, Target};
use core::fmt;
use inward::Inward;
use net::Clock;
use outward::{Outward, Wrap};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use voice::pair::{self, LEGS, Merged};

pub use leg::{Interface, Leg};

/// What a gateway is to do.
#[derive(Clone, Debug)]
pub enum Work {
    /// From one or two ways into the overlay.
    In {
        /// The ways.
        legs: Vec<Leg>,
        /// For how long a packet is waited for that one way lacks.
        window: Duration,
        /// Where the stream goes.
        target: Target,
    },
    /// Out of the overlay, by one or two ways.
    Out {
        /// Where the stream is.
        place: Place,
        /// The ways.
        legs: Vec<Leg>,
        /// Bare transport streams get an RTP header.
        wrap: bool,
    },
}

/// Something that happened.
#[derive(Debug)]
pub enum Event {
    /// The node has gone, or refuses.
    NodeAway(client::Error),
    /// It is back.
    NodeBack,
    /// The gateway ends.
    Failed(io::Error),
}

impl Event {
    /// A word for it, for programs.
    pub fn label(&self) -> &'static str {
        match self {
            Event::NodeAway(_) => "node_away",
            Event::NodeBack => "node_back",
            Event::Failed(_) => "failed",
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::NodeAway(error) => write!(f, "the gateway's node: {error}"),
            Event::NodeBack => write!(f, "the gateway's node is back"),
            Event::Failed(error) => write!(f, "the gateway stops: {error}"),
        }
    }
}

/// The gateway so far.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The stream, as it enters the overlay or leaves it.
    pub seen: Seen,
    /// Packets that the node, or the network, did not take.
    pub dropped: u64,
    /// Of two ways in: each of them, and what became of both.
    pub merged: Option<([pair::Leg; LEGS], Merged)>,
}

/// Why there is no gateway.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The node cannot be had.
    #[error("the gateway's node: {0}")]
    Node(#[from] client::Error),
    /// A way cannot be had.
    #[error("{leg}: {error}")]
    Leg {
        /// Which.
        leg: String,
        /// What the kernel said.
        error: io::Error,
    },
    /// There is no way, or more than two.
    #[error("a stream has one way or two")]
    Legs,
    /// The kernel refused something else.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Who is told what happens; called on the gateway's thread. It should not wait.
pub type Tell = Box<dyn Fn(Event) + Send + Sync>;

/// A running gateway; it ends when [`Service::stop`] is called, or this is dropped.
pub struct Service {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    clock: Clock,
    stop: AtomicBool,
    tell: Tell,
    report: Mutex<Report>,
}

/// What a gateway's thread does, again and again.
trait Core {
    /// Waits for something, not for long, and serves it.
    fn turn(&mut self) -> io::Result<()>;
}

impl Service {
    /// Starts a gateway.
    ///
    /// # Errors
    /// When the node or a way cannot be had.
    pub fn start(node: &Node, work: Work, options: Options, tell: Tell) -> Result<Service, Error> {
        let shared = Arc::new(Shared {
            clock: Clock::new(),
            stop: AtomicBool::new(false),
            tell,
            report: Mutex::default(),
        });
        let core = core(shared.clone(), node, work, options)?;
        let of_thread = shared.clone();
        let thread = Builder::new().name("rtp".into());
        let thread = thread.spawn(move || run(&of_thread, core))?;
        Ok(Service {
            shared,
            thread: Some(thread),
        })
    }

    /// The gateway as it is.
    #[must_use]
    pub fn report(&self) -> Report {
        self.shared.report().clone()
    }

    /// Ends the gateway, and tells how it was.
    pub fn stop(&mut self) -> Report {
        self.shared.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // A panic there was told on standard error.
            let _ = thread.join();
        }
        self.report()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn report(&self) -> MutexGuard<'_, Report> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
            let sockets = legs.iter();
            let sockets = sockets.map(|leg| leg.receiver().map_err(|error| refused(leg, error)));
            let sockets = sockets.collect::<Result<Vec<_>, _>>()?;
            let outlet = Outlet::open(node.clone(), options)?;
            Ok(Box::new(Inward::new(
                shared, sockets, window, outlet, target,
            )?))
        }
        Work::Out { place, legs, wrap } => {
            let ways = legs.into_iter().map(|leg| match leg.sender() {
                Ok(socket) => Ok((socket, leg)),
                Err(error) => Err(refused(&leg, error)),
            });
            let ways = ways.collect::<Result<Vec<_>, _>>()?;
            let [a, b, c, d, e, f, ..] = net::sched::entropy()?;
            let wrap = wrap.then_some(Wrap {
                ssrc: u32::from_be_bytes([a, b, c, d]),
                seq: u16::from_be_bytes([e, f]),
            });
            let inlet = Inlet::open(node.clone(), place, options)?;
            Ok(Box::new(Outward::new(shared, inlet, ways, wrap)?))
        }
    }
}

fn run(shared: &Shared, mut core: Box<dyn Core + Send>) {
    while !shared.stop.load(Ordering::Acquire) {
        if let Err(error) = core.turn() {
            (shared.tell)(Event::Failed(error));
            return;
        }
    }
}
