//! The multicast bridge: it carries the IP multicast of unchanged programs across an overlay.
//!
//! ```text
//!   program ──IP──▶ TAP, or eth1 ══ Service ──group a.b.c.d──▶ node ══ overlay ══ node ──▶ Service ══ eth1 ──▶ programs
//!                        IGMP ────▶ join, leave
//! ```
//! The group a.b.c.d of IP is the group a.b.c.d of the overlay, at the virtual port [`BRIDGE_PORT`]. Groups whose
//! members name sources are an exception ([`channel`]). A packet crosses whole, from its IP header on. [Brogle09 §II]
//! Hosts request groups by IGMP, and the bridge joins these groups: nothing is carried to a network without members.
//!
//! [`bridge::Bridge`] makes the decisions, without sockets or clocks. [`igmp`] decides which groups have members,
//! [`hello`] which of several bridges carries, [`digest`] which packets have come back, and [`flood`] which sources
//! send too much. `run` contains the thread that carries out the decisions.

pub mod bridge;
pub mod channel;
pub mod device;
pub mod digest;
pub mod drops;
pub mod flood;
pub mod hello;
pub mod igmp;
pub mod inside;
pub mod members;
pub mod notice;
pub mod overlay;
pub mod packet;
pub mod report;
pub mod rules;
mod run;
pub mod train;

pub use bridge::Settings;
pub use device::Place;
pub use inside::{Inside, Sink};
pub use overlay::{ByNode, Overlay};
pub use report::{Event, Report};
pub use rules::Rules;

use crate::alive::Over;
use base::NodeAddr;
use client::{Delivery, Options};
use device::Device;
use net::Clock;
use net::epoll::Waker;
use overlay::Link as _;
use run::Loop;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// The virtual port of the overlay for bridged packets. Ports below 16 belong to nodes.
pub const BRIDGE_PORT: u16 = 1112;
/// The default deadline of packets. It equals what players buffer of live video.
pub const DEADLINE: core::time::Duration = core::time::Duration::from_millis(500);
/// Maximum number of groups that a report lists. The report contains the number of all groups in any case.
pub const GROUPS_TOLD_MAX: usize = 256;

/// Returns the options with which packets cross: they are recovered on each hop within the deadline. They are delivered
/// in order and at their sender's pace, so that packets that a repair held back do not reach small sockets in one
/// burst.
#[must_use]
pub fn options(deadline: core::time::Duration) -> Options {
    Options {
        delivery: Delivery::AsSent(None),
        ..Options::voice(deadline)
    }
}

/// Receives the events; called on the bridge's thread. It should not wait.
pub type Tell = Box<dyn Fn(Event) + Send + Sync>;

/// The reason why a bridge cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The node cannot be reached.
    #[error("the gateway's node: {0}")]
    Node(#[from] client::Error),
    /// The interface cannot be used.
    #[error("{name}: {error}{}", advice(error))]
    Interface {
        /// The name of the interface.
        name: String,
        /// The error of the kernel.
        error: io::Error,
    },
    /// The kernel refused something else.
    #[error(transparent)]
    Io(#[from] io::Error),
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            ": run as root, or give the capabilities CAP_NET_ADMIN and CAP_NET_RAW"
        }
        io::ErrorKind::ResourceBusy => ": another program holds it; choose another name",
        io::ErrorKind::NotFound => ": this system has no /dev/net/tun",
        io::ErrorKind::InvalidInput => ": the name is no interface's, or the value cannot be",
        _ => "",
    }
}

/// A running bridge; it ends when [`Service::stop`] is called, or when this value is dropped.
pub struct Service<O: Overlay> {
    shared: Arc<Shared<O>>,
    thread: Option<JoinHandle<()>>,
    over: Over,
}

struct Shared<O: Overlay> {
    overlay: O,
    node: NodeAddr,
    clock: Clock,
    waker: Waker,
    stop: AtomicBool,
    tell: Tell,
    report: Mutex<Report>,
    /// The new connection to the node, after the old one was lost.
    found: Mutex<Option<O::Link>>,
}

/// The parameters with which a bridge starts.
pub struct Start<O> {
    /// The connection to the overlay.
    pub overlay: O,
    /// The interface.
    pub place: Place,
    /// Real-time priority for the thread, if permitted.
    pub realtime: bool,
    /// Receives the events.
    pub tell: Tell,
}

impl<O: Overlay> Service<O> {
    /// Starts a bridge. `settings` makes its settings from the node's address and a seed.
    ///
    /// # Errors
    /// The node cannot be reached, or the interface cannot be used. An interface that others will make need not exist
    /// yet.
    pub fn start(
        start: Start<O>,
        settings: impl FnOnce(NodeAddr, u64) -> Settings,
    ) -> Result<Service<O>, Error> {
        let Start {
            overlay,
            place,
            realtime,
            tell,
        } = start;
        let name = place.name().to_owned();
        let refused = |error| Error::Interface { name, error };
        let link = overlay.connect()?;
        let device = Device::open(place).map_err(refused)?;
        let [a, b, c, d, e, f, g, h, ..] = net::sched::entropy()?;
        let seed = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        let settings = settings(link.node(), seed);
        let shared = Arc::new(Shared::new(overlay, link.node(), tell)?);
        let data = Loop::new(shared.clone(), device, link, settings)?;
        let over = Over::new()?;
        let thread = over.spawn("multicast", move || data.run(realtime))?;
        Ok(Service {
            shared,
            thread: Some(thread),
            over,
        })
    }

    /// Returns what is readable once the bridge has ended.
    #[must_use]
    pub fn over(&self) -> &Over {
        &self.over
    }

    /// Returns the state of the bridge within the last second.
    #[must_use]
    pub fn report(&self) -> Report {
        self.shared.report().clone()
    }

    /// Ends the bridge, and returns its last report.
    pub fn stop(&mut self) -> Report {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.waker.wake();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported on standard error.
            let _ = thread.join();
        }
        self.report()
    }
}

impl<O: Overlay> Drop for Service<O> {
    fn drop(&mut self) {
        self.stop();
    }
}

impl<O: Overlay> Shared<O> {
    fn new(overlay: O, node: NodeAddr, tell: Tell) -> io::Result<Shared<O>> {
        Ok(Shared {
            node,
            overlay,
            clock: Clock::new(),
            waker: Waker::new()?,
            stop: AtomicBool::new(false),
            tell,
            report: Mutex::new(Report::default()),
            found: Mutex::new(None),
        })
    }

    fn report(&self) -> MutexGuard<'_, Report> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn found(&self) -> MutexGuard<'_, Option<O::Link>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
