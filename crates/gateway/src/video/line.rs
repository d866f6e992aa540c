//! A gateway with one stream and one thread.
//!
//! ```text
//!   thread: Core::turn, again and again ──▶ Shared: what is told, and how it is ──▶ Service: report, stop
//! ```

use super::{Seen, is_farewell};
use crate::alive::Over;
use core::fmt;
use net::Clock;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// An event of the gateway.
#[derive(Debug)]
pub enum Event {
    /// The node was lost, or refuses.
    NodeAway(client::Error),
    /// The node is connected again.
    NodeBack,
    /// The other end of a connection has connected. It has an address if it called.
    Connected(Option<IpAddr>),
    /// The other end has disconnected.
    Disconnected(Option<IpAddr>),
    /// A second encoder sends the stream; its packets are dropped.
    Refused(Option<IpAddr>),
    /// The gateway ends.
    Failed(io::Error),
}

impl Event {
    /// Returns a word for programs.
    pub fn label(&self) -> &'static str {
        match self {
            Event::NodeAway(_) => "node_away",
            Event::NodeBack => "node_back",
            Event::Connected(_) => "connected",
            Event::Disconnected(_) => "disconnected",
            Event::Refused(_) => "refused",
            Event::Failed(_) => "failed",
        }
    }

    /// Returns the address of the other end that the event is about.
    pub fn peer(&self) -> Option<IpAddr> {
        match self {
            Event::Connected(peer) | Event::Disconnected(peer) | Event::Refused(peer) => *peer,
            Event::NodeAway(_) | Event::NodeBack | Event::Failed(_) => None,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = self.peer().map(|peer| peer.to_string());
        let who = who.as_deref().unwrap_or("the other end");
        match self {
            Event::NodeAway(error) => write!(f, "the gateway's node: {error}"),
            Event::NodeBack => write!(f, "the gateway's node is back"),
            Event::Connected(_) => write!(f, "{who} has connected"),
            Event::Disconnected(_) => write!(f, "{who} is gone"),
            Event::Refused(Some(peer)) => write!(
                f,
                "{peer} is refused: another one sends this stream already; its packets are dropped"
            ),
            Event::Refused(None) => write!(
                f,
                "a second encoder is refused: another one sends this stream already; its packets are dropped"
            ),
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
    over: Over,
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
        let over = Over::new()?;
        let thread = over.spawn(name, move || run(&of_thread, core))?;
        Ok(Service {
            shared,
            thread: Some(thread),
            over,
        })
    }
}

impl<M: Clone + Default> Service<M> {
    /// Returns the current state of the gateway.
    #[must_use]
    pub fn report(&self) -> Report<M> {
        self.shared.report().clone()
    }

    /// Returns what is readable once the gateway has ended.
    #[must_use]
    pub fn over(&self) -> &Over {
        &self.over
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
            Err(error) if is_farewell(&error) => {}
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

#[cfg(test)]
mod tests {
    use super::*;
    use base::Duration;
    use net::epoll::{Interest, Poller};

    /// Ends in the second turn, by an error or by a panic.
    struct Ends {
        turns: usize,
        by_panic: bool,
    }

    impl Core for Ends {
        fn turn(&mut self) -> io::Result<()> {
            self.turns += 1;
            match self.turns {
                1 => Ok(()),
                _ if self.by_panic => panic!("a test of a gateway that ends"),
                _ => Err(io::Error::other("no interface")),
            }
        }
    }

    #[test]
    fn the_end_of_the_thread_is_noticed_by_who_waits() {
        for by_panic in [false, true] {
            let core = Ends { turns: 0, by_panic };
            let begun = Service::<()>::begin("ends", Box::new(drop), |_| {
                Ok::<_, io::Error>(Box::new(core) as Box<dyn Core + Send>)
            });
            let service = begun.unwrap();
            let mut poller = Poller::new().unwrap();
            poller.add(service.over(), 3, Interest::READ).unwrap();
            let mut ready = Vec::new();
            poller
                .wait(Some(Duration::from_secs(20)), &mut ready)
                .unwrap();
            let tokens: Vec<u64> = ready.iter().map(|ready| ready.token).collect();
            assert_eq!(tokens, [3], "{by_panic}");
        }
    }
}
