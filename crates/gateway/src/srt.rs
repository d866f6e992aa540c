//! SRT into and out of the overlay, for encoders and decoders.
//!
//! ```text
//!   encoder ──SRT──▶ Incoming ──▶ node ══ overlay ══ node ──▶ Outgoing ──SRT──▶ decoders
//!                    listens, calls,                          sends to all that receive a stream
//!                    one sender per stream
//! ```
//! The gateway is an ordinary client of its node. Each message of SRT becomes a datagram of the overlay, unchanged. SRT
//! does retransmissions and holds packets back on the short path to the gateway, and the overlay does so on each of its
//! hops. So a stream needs the latency of a few round trips of one hop and not of the whole path. There are two
//! threads: one handles the packets from SRT, and the other those from the overlay. libsrt has some threads of its own.

mod caller;
mod connection;
mod ends;
mod incoming;
mod outgoing;
mod refusals;
pub mod report;
pub mod routes;

use crate::alive::Over;
use crate::video::{Inlet, Outlet, Watch, is_farewell};
use base::Time;
use caller::Caller;
use client::Node;
use connection::Connection;
use ends::Ends;
use incoming::Incoming;
use net::Clock;
use net::epoll::Waker;
use net::srt::{self, Listener, Refusal};
use outgoing::Outgoing;
use refusals::Refusals;
use report::{Event, Report, Why};
use routes::{Route, Routes};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// The default maximum number of connections. Choice: each may use 12 MB of libsrt's buffers.
pub const CONNECTIONS: usize = 64;
/// The number of the socket that sends into the overlay, for [`Ends`]; the streams out of it are numbered from 1.
const OUTLET: usize = 0;

/// The direction of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Into the overlay.
    In,
    /// Out of the overlay.
    Out,
}

/// The settings of a gateway.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The addresses at which the gateway listens.
    pub listen: Vec<SocketAddr>,
    /// The hosts and ports to which it connects. There is only one stream in this case.
    pub call: Vec<String>,
    /// The streams.
    pub routes: Routes,
    /// The SRT options of all its connections.
    pub srt: srt::Options,
    /// The options with which packets cross the overlay.
    pub overlay: client::Options,
    /// Maximum number of connections. For each stream into the overlay, one of them is kept for its sender.
    pub connections: usize,
}

/// Receives the events; called on threads of the gateway. It should not wait.
pub type Tell = Box<dyn Fn(Event) + Send + Sync>;

/// The reason why a gateway cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The node cannot be reached.
    #[error("the gateway's node: {0}")]
    Node(#[from] client::Error),
    /// libsrt cannot be loaded, or refuses.
    #[error(transparent)]
    Srt(#[from] srt::Error),
    /// The gateway cannot listen.
    #[error("cannot listen on {at}: {error}; choose another port by --listen")]
    Listen {
        /// The address.
        at: SocketAddr,
        /// The reason.
        error: srt::Error,
    },
    /// The kernel refused something else.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A running gateway; it ends when [`Service::stop`] is called, or when this value is dropped.
pub struct Service {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    over: Over,
    listening: Vec<SocketAddr>,
}

struct Shared {
    routes: Routes,
    connections_max: usize,
    stream_id: Option<String>,
    clock: Clock,
    waker: Waker,
    stop: AtomicBool,
    tell: Tell,
    report: Mutex<Report>,
    /// Whether a connection sends into this stream.
    senders: Vec<AtomicBool>,
    outputs: Vec<Output>,
    /// Number of connections that receive.
    receiving: AtomicU64,
    connected: AtomicU64,
    let_in: AtomicU64,
    shaken: AtomicU64,
    refusals: AtomicU64,
    unwanted: AtomicU64,
    refused: Mutex<Refusals>,
    ends: Mutex<Ends>,
}

/// A stream out of the overlay.
struct Output {
    place: String,
    watch: Mutex<Watch>,
    /// The list is replaced as a whole, so that the sending thread needs no lock while it sends.
    receivers: Mutex<Arc<Vec<Arc<Connection>>>>,
}

impl Service {
    /// Starts a gateway.
    ///
    /// # Errors
    /// libsrt cannot be loaded, the node cannot be reached, or the gateway cannot listen. Hosts to which it connects
    /// need not be present yet.
    pub fn start(node: &Node, settings: Settings, tell: Tell) -> Result<Service, Error> {
        srt::load().map_err(srt::Error::from)?;
        let options = settings.overlay;
        let places = settings.routes.outputs.iter().map(|output| output.place);
        let inlets = places.map(|place| Inlet::open(node.clone(), place, options));
        let inlets = inlets.collect::<Result<Vec<_>, _>>()?;
        let outlet = Outlet::open(node.clone(), options)?;
        let shared = Arc::new(Shared::new(&settings, tell)?);
        let listeners = settings.listen.iter().map(|&at| {
            let admit = shared.clone().doorkeeper();
            Listener::bind(at, &settings.srt, admit).map_err(|error| Error::Listen { at, error })
        });
        let listeners = listeners.collect::<Result<Vec<_>, _>>()?;
        let listening = listeners.iter().map(Listener::local);
        let listening = listening.collect::<Result<Vec<_>, _>>()?;
        let now = shared.clock.now();
        let callers = settings.call.iter();
        let callers = callers.map(|to| Caller::new(to.clone(), settings.srt.clone(), now));
        let outgoing = Outgoing::new(shared.clone(), inlets)?;
        let incoming = Incoming::new(shared.clone(), listeners, callers.collect(), outlet)?;
        let over = Over::new()?;
        let threads = vec![
            over.spawn("srt-in", || incoming.run())?,
            over.spawn("srt-out", || outgoing.run())?,
        ];
        Ok(Service {
            shared,
            threads,
            over,
            listening,
        })
    }

    /// Returns the addresses at which the gateway listens.
    pub fn listening(&self) -> &[SocketAddr] {
        &self.listening
    }

    /// Returns what is readable once one of the threads has ended.
    #[must_use]
    pub fn over(&self) -> &Over {
        &self.over
    }

    /// Returns the state of the gateway within the last second.
    #[must_use]
    pub fn report(&self) -> Report {
        let report = self.shared.report.lock();
        report.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends the gateway, and returns its last report.
    pub fn stop(&mut self) -> Report {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.waker.wake();
        for thread in self.threads.drain(..) {
            // A panic of the thread was reported on standard error.
            let _ = thread.join();
        }
        for output in &self.shared.outputs {
            output.replace(|_| Vec::new());
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
    fn new(settings: &Settings, tell: Tell) -> io::Result<Shared> {
        let outputs = settings.routes.outputs.iter().map(|output| Output {
            place: output.place.to_string(),
            watch: Mutex::default(),
            receivers: Mutex::default(),
        });
        Ok(Shared {
            routes: settings.routes.clone(),
            connections_max: settings.connections,
            stream_id: settings.srt.stream_id.clone(),
            clock: Clock::new(),
            waker: Waker::new()?,
            stop: AtomicBool::new(false),
            tell,
            report: Mutex::default(),
            senders: settings
                .routes
                .inputs
                .iter()
                .map(|_| AtomicBool::new(false))
                .collect(),
            outputs: outputs.collect(),
            receiving: AtomicU64::new(0),
            connected: AtomicU64::new(0),
            let_in: AtomicU64::new(0),
            shaken: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
            unwanted: AtomicU64::new(0),
            refused: Mutex::default(),
            ends: Mutex::default(),
        })
    }

    /// Returns the function that decides on callers before the handshake.
    fn doorkeeper(self: Arc<Self>) -> Box<srt::Admit> {
        Box::new(move |peer, id| {
            let now = self.clock.now();
            let admitted = self.admit(id).map(drop);
            match admitted {
                Ok(()) => {
                    self.let_in.fetch_add(1, Ordering::Relaxed);
                    self.refusals_told().on_admitted(now, peer, id);
                }
                Err(why) => self.refuse(now, peer, id, why),
            }
            admitted
        })
    }

    /// Counts a refused caller.
    fn refuse(&self, now: Time, peer: SocketAddr, id: &str, why: Refusal) {
        self.refusals.fetch_add(1, Ordering::Relaxed);
        let why = Why::Refusal(why);
        self.refusals_told().on_refused(now, peer, id, why);
    }

    /// Returns the stream of a caller, if it may use the stream. Receivers leave a place for each stream that somebody
    /// may send.
    fn admit(&self, id: &str) -> Result<Route, Refusal> {
        let route = self.routes.find(id)?;
        let is_taken = |sender: &AtomicBool| sender.load(Ordering::Acquire);
        let (taken, places) = match route.direction {
            Direction::In if is_taken(&self.senders[route.index]) => return Err(Refusal::Conflict),
            Direction::In => {
                let sending = self.senders.iter().filter(|sender| is_taken(sender));
                (sending.count(), self.connections_max)
            }
            Direction::Out => {
                let kept = self.senders.len();
                let receiving = self.receiving.load(Ordering::Acquire) as usize;
                (receiving, self.connections_max.saturating_sub(kept))
            }
        };
        match taken < places {
            true => Ok(route),
            false => Err(Refusal::Overload),
        }
    }

    fn refusals_told(&self) -> MutexGuard<'_, Refusals> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports that one of the sockets has lost the node, or that the node refuses.
    fn tell_away(&self, end: usize, error: client::Error) {
        if is_farewell(&error) {
            return;
        }
        let is_refusal = matches!(error, client::Error::Refused { .. });
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        if is_refusal || ends.on_away(end) {
            (self.tell)(Event::NodeAway(error));
        }
    }

    /// Reports that one of the sockets has the node again.
    fn tell_back(&self, end: usize) {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        if ends.on_back(end) {
            (self.tell)(Event::NodeBack);
        }
    }

    /// Returns the stream in words.
    fn words(&self, route: Route) -> String {
        match route.direction {
            Direction::In => self.routes.inputs[route.index].target.to_string(),
            Direction::Out => self.outputs[route.index].place.clone(),
        }
    }

    fn on_begin(&self, connection: &Arc<Connection>) {
        self.connected.fetch_add(1, Ordering::Relaxed);
        let Route { direction, index } = connection.route;
        match direction {
            Direction::In => self.senders[index].store(true, Ordering::Release),
            Direction::Out => {
                self.receiving.fetch_add(1, Ordering::AcqRel);
                self.outputs[index].replace(|receivers| {
                    let all = receivers.iter().chain([connection]);
                    all.cloned().collect()
                });
            }
        }
    }

    /// Releases the stream of a connection: another sender may have it, or this receiver gets no more packets.
    fn on_leave(&self, connection: &Arc<Connection>) {
        let Route { direction, index } = connection.route;
        match direction {
            Direction::In => self.senders[index].store(false, Ordering::Release),
            Direction::Out => self.outputs[index].replace(|receivers| {
                let others = receivers
                    .iter()
                    .filter(|other| !Arc::ptr_eq(other, connection));
                others.cloned().collect()
            }),
        }
    }

    fn on_end(&self, route: Route) {
        if route.direction == Direction::Out {
            self.receiving.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl Output {
    fn receivers(&self) -> Arc<Vec<Arc<Connection>>> {
        let receivers = self.receivers.lock();
        receivers.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn replace(&self, change: impl FnOnce(&[Arc<Connection>]) -> Vec<Arc<Connection>>) {
        let mut receivers = self
            .receivers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *receivers = Arc::new(change(&receivers));
    }

    fn watch(&self) -> MutexGuard<'_, Watch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn report(&self) -> report::Stream {
        report::Stream {
            place: self.place.clone(),
            seen: self.watch().seen(),
            receivers: self.receivers().len(),
        }
    }
}

#[cfg(test)]
mod tests;
