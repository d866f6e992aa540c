//! The media plane of the SIP gateway: RTP and RTCP of all calls, between phones and the overlay.
//!
//! ```text
//!   phone ──UDP──> leased port ┐                               ┌ virtual port of a range ══ overlay
//!   phone ──UDP──> leased port ┼──> one thread: Calls decides ─┼ virtual port ══ overlay
//!                              │    quality takes notes        │
//!                              └───────── one lock ────────────┘
//!                                          ^
//!   SIP core: open, add_stream, signal, answered, close, report
//! ```
//!
//! [`voice::media::Calls`] decides where every packet goes. This module contains the sockets, the thread and the clock
//! for it, and [`voice::live`] for each direction of each stream. Packets are forwarded unchanged. One thread serves
//! all calls: a turn takes what is ready, within a bound, while it holds the lock, and sends the packets for the
//! overlay in few messages. The calls of [`Plane`] are short and take the same lock.
//!
//! The life of a call: [`Plane::open`], a stream for each of its media ([`Plane::add_stream`]), a [`Plane::signal`] for
//! every description of either side, [`Plane::answered`], and [`Plane::close`] on BYE. A call without an explicit end
//! ends by itself ([`Event::Ended`]).
//!
//! **Nodes.** When this gateway's own node is gone, the gateway tries to reconnect, and calls over the overlay wait
//! [`NODE_GRACE`] for it. Silence alone does not show that a far node is lost; a caller that knows it calls
//! [`Plane::node_lost`].

mod quality;
mod report;
mod run;
mod shadow;
mod state;
mod udp;
mod uplink;

pub use report::{Counters, Drops, Event, Report, SideReport, StreamReport, Why};
pub use shadow::{SHADOW_PORT, Shadow};

use crate::alive::Over;
use base::{Duration, NodeAddr, Time};
use client::{Node, Options};
use core::fmt;
use core::ops::RangeInclusive;
use net::Clock;
use net::epoll::{Poller, Waker};
use run::Media;
use shadow::Mirror;
use state::State;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use udp::Addresses;
use uplink::Uplink;
use voice::live::Settings as Live;
use voice::media::{
    CALLS_MAX, CallError, CallId, Calls, Carrier, LocalPorts, Need, PortError, Remote, StreamId,
};
use voice::sdp::Side;

/// The default UDP ports for media: [`CALLS_MAX`] calls of one stream with a pair of ports each, and half as many ports
/// that are resting. They end below the ports that Linux gives to programs that ask for any port (32768).
pub const UDP_PORTS: RangeInclusive<u16> = 20_000..=32_767;

/// The default virtual ports for media: the same number. They end below those that a node gives to clients that ask for
/// any port (32768). The range is taken as a whole, so a single such client that came first would prevent a gateway
/// from starting.
pub const OVERLAY_PORTS: RangeInclusive<u16> = 20_000..=32_767;

/// The default deadline of a packet. [Amir06 §II-C]
pub const DEADLINE: core::time::Duration = core::time::Duration::from_millis(100);

/// How long calls over the overlay wait until this gateway's own node comes back: a restart takes about a second, and
/// BYE must be sent within ten.
pub const NODE_GRACE: Duration = Duration::from_secs(5);

/// The maximum number of consecutive ports taken by other programs before a stream is refused.
pub const PORT_TRIES: usize = 64;

/// The number of descriptors that the plane usually needs. At most, [`CALLS_MAX`] calls have two streams, each with two
/// ports for either side and a socket of each family, 65 536 in all. A usual call has one stream, one side of UDP and
/// one family.
const DESCRIPTORS_USUAL: u64 = 2 * CALLS_MAX as u64 + 1_024;

/// The receiver of events. It is called without any lock on the media thread, or on the thread that reported the loss
/// of a node. It should not wait.
pub type Tell = Box<dyn Fn(Event) + Send + Sync>;

/// The settings of a plane.
pub struct Settings {
    /// This gateway's node.
    pub node: Node,
    /// UDP ports for media.
    pub udp: RangeInclusive<u16>,
    /// Local addresses for media: one of IPv4, one of IPv6, or both.
    pub bind: Vec<IpAddr>,
    /// Virtual ports for media.
    pub overlay: RangeInclusive<u16>,
    /// The options for media on the overlay: [`Options::voice`] with the calls' deadline.
    pub options: Options,
    /// True for real-time priority of the media thread, if permitted.
    pub realtime: bool,
    /// The settings for shadow mode: it mirrors some calls directly, and receives what others mirror.
    pub shadow: Option<Shadow>,
    /// The receiver of events.
    pub tell: Tell,
}

impl Settings {
    /// Returns the default settings, at all IPv4 addresses of the host.
    #[must_use]
    pub fn new(node: Node, tell: Tell) -> Settings {
        Settings {
            node,
            udp: UDP_PORTS,
            bind: vec![Ipv4Addr::UNSPECIFIED.into()],
            overlay: OVERLAY_PORTS,
            options: Options::voice(DEADLINE),
            realtime: true,
            shadow: None,
            tell,
        }
    }
}

/// The reason why a plane or a stream cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The node cannot be reached.
    #[error("the gateway's node: {0}")]
    Node(#[from] client::Error),
    /// The range of ports is invalid.
    #[error(transparent)]
    Ports(#[from] PortError),
    /// There is no local address, or two of one family.
    #[error("media needs one local IPv4 address, one IPv6 address, or one of each")]
    Addresses,
    /// The call or the stream cannot be created.
    #[error(transparent)]
    Call(#[from] CallError),
    /// A media port cannot be bound, although no program uses it.
    #[error("media port {port}: {error}")]
    Bind {
        /// The port.
        port: u16,
        /// The error of the kernel.
        error: io::Error,
    },
    /// Other programs use the ports.
    #[error("{PORT_TRIES} media ports in a row are in use by other programs: choose another range")]
    PortsTaken,
    /// The kernel has refused an operation.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A running media plane. Clones are the same plane; it stops when [`Plane::stop`] is called, or the last clone is
/// dropped.
#[derive(Clone)]
pub struct Plane {
    shared: Arc<Shared>,
    over: Over,
    /// Stops the thread when the last clone is dropped.
    _last: Arc<Stopper>,
}

struct Shared {
    state: Mutex<State>,
    /// Number of threads that wait for the lock: the media thread gives way to them.
    waiting: AtomicUsize,
    clock: Clock,
    node: NodeAddr,
    shadow_port: Option<u16>,
    waker: Waker,
    stop: AtomicBool,
    tell: Tell,
}

struct Stopper {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Plane {
    /// Starts a plane.
    ///
    /// # Errors
    /// The node cannot be reached, the virtual ports are taken, or the settings are invalid.
    pub fn start(settings: Settings) -> Result<Plane, Error> {
        let Settings {
            node,
            udp,
            bind,
            overlay,
            options,
            realtime,
            shadow,
            tell,
        } = settings;
        let addresses = Addresses::new(&bind).ok_or(Error::Addresses)?;
        let mut calls = Calls::new(udp, overlay.clone())?;
        if net::sched::raise_descriptors().is_ok_and(|limit| limit < DESCRIPTORS_USUAL) {
            tell(Event::Warning(format!(
                "this process may open fewer than {DESCRIPTORS_USUAL} files, which bounds its calls: \
                 raise the hard limit (`ulimit -Hn`)"
            )));
        }
        let (poller, waker) = (Poller::new()?, Waker::new()?);
        let uplink = Uplink::open(&node, overlay, options)?;
        let mirror = match shadow {
            Some(shadow) => {
                let port = shadow.port;
                let sockets = addresses.bind(port);
                let sockets = sockets.map_err(|error| Error::Bind { port, error })?;
                Some(Mirror::new(shadow, sockets))
            }
            None => None,
        };
        let node_addr = uplink.node();
        calls.set_own(bind, Some(node_addr));
        let deadline = options.deadline.map(state::nanos);
        let state = State::new(
            calls,
            uplink,
            mirror,
            poller.registry(),
            addresses,
            deadline,
        );
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            waiting: AtomicUsize::new(0),
            clock: Clock::new(),
            node: node_addr,
            shadow_port: shadow.map(|shadow| shadow.port),
            waker,
            stop: AtomicBool::new(false),
            tell,
        });
        let media = Media::new(shared.clone(), poller)?;
        let over = Over::new()?;
        let thread = over.spawn("media", move || media.run(realtime))?;
        let last = Stopper {
            shared: shared.clone(),
            thread: Mutex::new(Some(thread)),
        };
        Ok(Plane {
            shared,
            over,
            _last: Arc::new(last),
        })
    }

    /// Returns what is readable once the plane's thread has ended, or another one that was started by this.
    pub fn over(&self) -> &Over {
        &self.over
    }

    /// Returns the address of this gateway's node.
    pub fn node(&self) -> NodeAddr {
        self.shared.node
    }

    /// Returns true if a link on the path to the gateway of `node` has no room for all present calls, so that there is
    /// no room for another one.
    pub fn is_refused(&self, node: NodeAddr) -> bool {
        self.shared.lock().uplink.is_refused(node)
    }

    /// Returns the UDP port for mirrored packets, which the other gateway's [`Plane::signal_shadow`] needs, with this
    /// host's address.
    pub fn shadow_port(&self) -> Option<u16> {
        self.shared.shadow_port
    }

    /// Opens a call, and assigns it an id.
    ///
    /// # Errors
    /// There are too many calls.
    pub fn open(&self) -> Result<CallId, CallError> {
        self.with(|now, state| state.open(now))
    }

    /// Leases ports for a stream, for the caller's side and for the callee's, and receives media there.
    ///
    /// # Errors
    /// There are no ports left, or the call already has the stream; nothing is kept in this case.
    pub fn add_stream(
        &self,
        id: StreamId,
        sides: [(Carrier, Need); 2],
    ) -> Result<[LocalPorts; 2], Error> {
        self.with(|_, state| state.add_stream(id, sides))
    }

    /// Applies the description of a side: where to send, and from where to expect media. See [`Calls::signal`].
    ///
    /// # Errors
    /// The stream does not exist, its side has another carrier, or the media would loop.
    pub fn signal(&self, id: StreamId, side: Side, remote: Remote) -> Result<(), CallError> {
        self.with(|now, state| state.signal(now, id, side, remote))
    }

    /// Sets the address at which the other gateway's shadow port is reached directly. RTP of this stream is mirrored
    /// there, if the stream is one of the fraction that [`Settings::shadow`] requests. Returns whether it is.
    pub fn signal_shadow(&self, id: StreamId, to: SocketAddr) -> bool {
        self.with(|_, state| state.signal_shadow(id, to))
    }

    /// Sets the known properties of the media that come from `side`: codec, clock, packet length, deadline. In the
    /// middle of a call they apply to the whole call.
    pub fn set_formats(&self, id: StreamId, side: Side, live: Live) {
        self.with(|_, state| state.set_formats(id, side, live));
    }

    /// Records that the call is answered, and whether media flows or all of it is on hold.
    ///
    /// # Errors
    /// The call does not exist.
    pub fn answered(&self, id: CallId, flowing: bool) -> Result<(), CallError> {
        self.with(|now, state| state.calls.answered(now, id, flowing))
    }

    /// Records activity in the call's dialog.
    ///
    /// # Errors
    /// The call does not exist.
    pub fn on_dialog(&self, id: CallId) -> Result<(), CallError> {
        self.with(|now, state| state.calls.on_dialog(now, id))
    }

    /// Ends one stream and releases its ports.
    ///
    /// # Errors
    /// The stream does not exist.
    pub fn end_stream(&self, id: StreamId) -> Result<(), CallError> {
        self.with(|now, state| state.end_stream(now, id))
    }

    /// Ends a call and releases its ports. Returns its report; `None` if the call does not exist.
    pub fn close(&self, id: CallId) -> Option<Report> {
        // The sockets are closed after the lock is free again.
        let closed = self.with(|now, state| state.close(now, id))?;
        Some(closed.into_report())
    }

    /// Returns the report of a call so far.
    pub fn report(&self, id: CallId) -> Option<Report> {
        self.with(|now, state| state.report(now, id))
    }

    /// Returns the reports of all calls so far.
    pub fn reports(&self) -> Vec<Report> {
        self.with(|now, state| state.reports(now))
    }

    /// Returns the counters of the whole plane.
    pub fn counters(&self) -> Counters {
        self.with(|_, state| state.counters())
    }

    /// Handles the permanent loss of a node of the overlay: calls through it end, and [`Settings::tell`] is called for
    /// each before this returns. Returns their number.
    pub fn node_lost(&self, node: NodeAddr) -> usize {
        let mut count = 0;
        loop {
            let ended = self.with(|now, state| state.node_lost(now, node, false));
            if ended.is_empty() {
                return count;
            }
            count += ended.len();
            self.shared.tell_ended(ended);
        }
    }

    /// Ends all calls and the thread.
    pub fn stop(&self) {
        self._last.stop();
    }

    fn with<T>(&self, act: impl FnOnce(Time, &mut State) -> T) -> T {
        self.shared.waiting.fetch_add(1, Ordering::AcqRel);
        let mut state = self.shared.lock();
        self.shared.waiting.fetch_sub(1, Ordering::AcqRel);
        act(self.shared.clock.now(), &mut state)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell_ended(&self, ended: Vec<(CallId, Why, state::Closed)>) {
        for (call, why, closed) in ended {
            (self.tell)(Event::Ended {
                call,
                why,
                report: Box::new(closed.into_report()),
            });
        }
    }
}

impl Stopper {
    fn stop(&self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.waker.wake();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        let thread = { thread }.take();
        // On the media thread itself, inside the callback, this must not wait.
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

impl Drop for Stopper {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for Plane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plane")
            .field("node", &self.shared.node)
            .finish_non_exhaustive()
    }
}
