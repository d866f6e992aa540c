//! A gateway with one stream and one thread.
//!
//! ```text
//!   thread: Core::turn, again and again ──▶ Shared: what is told, and how it is ──▶ Service: report, stop
//! ```

use super::Seen;
use core::fmt;
use net::Clock;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

/// An event of the gateway.
#[derive(Debug)]
pub enum Event {
    /// The node was lost, or refuses.
    NodeAway(client::Error),
    /// The node is connected again.
    NodeBack,
    /// The other end of a connection has connected.
    Connected,
    /// The other end has disconnected.
    Disconnected,
    /// The gateway ends.
    Failed(io::Error),
}

impl Event {
    /// Returns a word for programs.
    pub fn label(&self) -> &'static str {
        match self {
            Event::NodeAway(_) => "node_away",
            Event::NodeBack => "node_back",
            Event::Connected => "connected",
            Event::Disconnected => "disconnected",
            Event::Failed(_) => "failed",
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::NodeAway(error) => write!(f, "the gateway's node: {error}"),
            Event::NodeBack => write!(f, "the gateway's node is back"),
            Event::Connected => write!(f, "connected"),
            Event::Disconnected => write!(f, "the other end is gone"),
            Event::Failed(error) => write!(f, "the gateway stops: {error}"),
        }
    }
}

/// The state of the gateway.
#[derive(Clone, Debug, Default)]
pub struct Report<M> {
    /// The stream where it enters or leaves the overlay.
    pub seen: Seen,
    /// Number of packets that the node, or the network, did not take.
    pub dropped: u64,
    /// The counters of the protocol.
    pub more: M,
}

/// Receives the events; called on the gateway's thread. It should not wait.
pub type Tell = Box<dyn Fn(Event) + Send + Sync>;

/// A running gateway; it ends when [`Service::stop`] is called, or when this value is dropped.
pub struct Service<M: Clone + Default> {
    shared: Arc<Shared<M>>,
    thread: Option<JoinHandle<()>>,
}

pub(crate) struct Shared<M> {
    pub(crate) clock: Clock,
    stop: AtomicBool,
    pub(crate) tell: Tell,
    report: Mutex<Report<M>>,
}

/// The work of a gateway's thread, which calls it in a loop.
pub(crate) trait Core {
    /// Waits a short time for work, and does it.
    fn turn(&mut self) -> io::Result<()>;
}

impl<M: Clone + Default + Send + 'static> Service<M> {
    /// Starts a thread for the result of `core`.
    pub(crate) fn begin<E: From<io::Error>>(
        name: &str,
        tell: Tell,
        core: impl FnOnce(Arc<Shared<M>>) -> Result<Box<dyn Core + Send>, E>,
    ) -> Result<Service<M>, E> {
        let shared = Arc::new(Shared {
            clock: Clock::new(),
            stop: AtomicBool::new(false),
            tell,
            report: Mutex::default(),
        });
        let core = core(shared.clone())?;
        let of_thread = shared.clone();
        let thread = Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || run(&of_thread, core))?;
        Ok(Service {
            shared,
            thread: Some(thread),
        })
    }
}

impl<M: Clone + Default> Service<M> {
    /// Returns the current state of the gateway.
    #[must_use]
    pub fn report(&self) -> Report<M> {
        self.shared.report().clone()
    }

    /// Ends the gateway, and returns its last report.
    pub fn stop(&mut self) -> Report<M> {
        self.shared.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported on standard error.
            let _ = thread.join();
        }
        self.report()
    }
}

impl<M: Clone + Default> Drop for Service<M> {
    fn drop(&mut self) {
        self.stop();
    }
}

impl<M> Shared<M> {
    pub(crate) fn report(&self) -> MutexGuard<'_, Report<M>> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports what was learned about the node, if anything.
    pub(crate) fn tell_node(&self, heard: Result<bool, client::Error>) {
        match heard {
            Ok(false) => {}
            Ok(true) => (self.tell)(Event::NodeBack),
            Err(error) => (self.tell)(Event::NodeAway(error)),
        }
    }
}

fn run<M>(shared: &Shared<M>, mut core: Box<dyn Core + Send>) {
    while !shared.stop.load(Ordering::Acquire) {
        if let Err(error) = core.turn() {
            (shared.tell)(Event::Failed(error));
            return;
        }
    }
}
