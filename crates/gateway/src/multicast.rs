//! The multicast bridge: programs that speak IP multicast, across an overlay, unchanged.
//!
//! ```text
//!   program ──IP──▶ TAP, or eth1 ══ Service ──group a.b.c.d──▶ node ══ overlay ══ node ──▶ Service ══ eth1 ──▶ programs
//!                        IGMP ────▶ join, leave
//! ```
//! The group a.b.c.d of IP is the group a.b.c.d of the overlay, at the virtual port [`BRIDGE_PORT`], but for
//! those of which members name sources ([`channel`]); a packet crosses whole, from its IP header on.
//! [Brogle09 §II] Hosts say by IGMP what they want, and
//! the bridge joins that: nothing is carried to where nobody listens.
//!
//! [`bridge::Bridge`] decides, and knows neither sockets nor clocks: [`igmp`] who wants what, [`hello`]
//! which of several bridges carries, [`digest`] what has come back, [`flood`] who sends too much.
//! `run` is the thread that does what it decides.

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

/// The overlay's virtual port of bridged packets. Ports below 16 belong to nodes.
pub const BRIDGE_PORT: u16 = 1112;
/// How long a packet is of use where nothing else is said: what players buffer of live video.
pub const DEADLINE: core::time::Duration = core::time::Duration::from_millis(500);
/// Groups that a report names; how many there are it tells in any case.
pub const GROUPS_TOLD_MAX: usize = 256;

/// How packets cross: recovered on each hop within the deadline, and handed over in order and at their sender's
/// pace, so that what a repair held back does not reach small sockets in one burst.
#[must_use]
pub fn options(deadline: core::time::Duration) -> Options {
    Options {
        delivery: Delivery::AsSent(None),
        ..Options::voice(deadline)
    }
}

/// Who is told what happens; called on the bridge's thread. It should not wait.
pub type Tell = Box<dyn Fn(Event) + Send + Sync>;

/// Why there is no bridge.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The node cannot be had.
    #[error("the gateway's node: {0}")]
    Node(#[from] client::Error),
    /// The interface cannot be had.
    #[error("{name}: {error}{}", advice(error))]
    Interface {
        /// Its name.
        name: String,
        /// What the kernel said.
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

/// A running bridge; it ends when [`Service::stop`] is called, or this is dropped.
pub struct Service<O: Overlay> {
    shared: Arc<Shared<O>>,
    thread: Option<JoinHandle<()>>,
}

struct Shared<O: Overlay> {
    overlay: O,
    node: NodeAddr,
    clock: Clock,
    waker: Waker,
    stop: AtomicBool,
    tell: Tell,
    report: Mutex<Report>,
    /// The node's connection, when it was lost and is found again.
    found: Mutex<Option<O::Link>>,
}

/// How a bridge is to be started.
pub struct Start<O> {
    /// The way to the overlay.
    pub overlay: O,
    /// The interface.
    pub place: Place,
    /// Real-time priority for the thread, if permitted.
    pub realtime: bool,
    /// Who is told what happens.
    pub tell: Tell,
}

impl<O: Overlay> Service<O> {
    /// Starts a bridge: `settings` makes what it is to do, of the node's address and a seed.
    ///
    /// # Errors
    /// When the node or the interface cannot be had. An interface that others will make need not be
    /// there yet.
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
        let thread = std::thread::Builder::new().name("multicast".into());
        let thread = thread.spawn(move || data.run(realtime))?;
        Ok(Service {
            shared,
            thread: Some(thread),
        })
    }

    /// The bridge as it was within the last second.
    #[must_use]
    pub fn report(&self) -> Report {
        self.shared.report().clone()
    }

    /// Ends the bridge, and tells how it was.
    pub fn stop(&mut self) -> Report {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.waker.wake();
        if let Some(thread) = self.thread.take() {
            // A panic there was told on standard error.
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
