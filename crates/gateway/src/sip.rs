//! The SIP gateway: phones and PBXs over the overlay, unchanged. [Amir06 §VI]
//!
//! ```text
//!   phone ──SIP──▶ Gateway ══ SIP in datagrams ══ Gateway ──SIP──▶ proxy, phone
//!     └────RTP───▶ media::Plane ══ real-time class ══ media::Plane ──RTP──▶┘
//! ```
//! The gateway takes the place of the phones' outbound proxy, or of a PBX's trunk. Signalling follows the callee's
//! domain: it goes to the gateway at the node whose certificate names the domain (`routes`), and otherwise as it would
//! without an overlay. Session descriptions are rewritten as they pass (`steering`), so that media enters the overlay
//! at this node and leaves it at the other node. Whatever fails, a call is at worst what it would be without the
//! gateway: a direct one.
//!
//! The life of a call: it begins with INVITE (`invite`, with the hops that are tried). `call` is the call while it
//! exists. It ends with BYE, which `proxy` forwards. If an end or a node is lost, `calls` sends a BYE. `dialog` handles
//! requests within a call, `transactions` is the use of the SIP stack, `watch` checks whether the other gateways are
//! alive, and `hop` contains the neighbors. `message` contains what a proxy edits, and `overlay` the transport between
//! gateways. `inspect` drops excess messages before they cost anything. `tcp` has the connections by TCP, and `inside`
//! is what happens in the loop of the stack. Messages, transactions and the transport by UDP come from the crate
//! rsipstack. All of this runs on one thread, beside the thread for media.

mod call;
mod calls;
mod dialog;
mod hop;
mod inside;
mod inspect;
mod invite;
mod message;
mod overlay;
mod places;
mod proxy;
mod routes;
mod steering;
mod tcp;
mod transactions;
mod watch;

pub use call::{End, Record};
pub use hop::{Face, OVERLAY_PORT};
pub use inspect::{Direction, Trace};
pub use invite::ANSWER_WITHIN;
pub use message::passed_on;
pub use proxy::Counter;
pub use routes::{BadServer, Lookup, Server};

use crate::alive::Over;
use crate::allow::Allowed;
use crate::domains::Domains;
use crate::media::{self, Plane, Shadow, Why};
use crate::slots::Slots;
use base::NodeAddr;
use calls::Table;
use client::{Node, Options};
use core::hash::{BuildHasher, Hasher};
use core::net::{IpAddr, SocketAddr};
use core::ops::RangeInclusive;
use core::time::Duration;
use hop::Names;
use inside::{Inside, NoNames};
use inspect::Gated;
use overlay::OverlaySocket;
use places::{Places, Ports};
use proxy::{Proxy, REFUSALS_MAX};
use routes::Routes;
use rsipstack::EndpointBuilder;
use rsipstack::transport::udp::UdpConnection;
use rsipstack::transport::{SipConnection, TransportLayer};
use std::hash::RandomState;
use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use steering::Own;
use tcp::Streams;
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

pub use rsipstack::sip::Transport;

/// Returns the default port of a transport's servers.
pub fn default_port(transport: Transport) -> u16 {
    transport.default_port().into()
}

/// The DSCP of signalling, CS5, for routers that use it (RFC 4594 §4.2).
const SIGNALLING_DSCP: u8 = 40;

/// Number of attempts if any port will do.
const PORT_TRIES: usize = 16;

/// The settings of a gateway.
pub struct Settings {
    /// The node of the gateway.
    pub node: Node,
    /// The address at which the gateway listens, by UDP and TCP.
    pub listen: SocketAddr,
    /// The address at which the gateway is reached from outside the site's address translator.
    pub public: Option<IpAddr>,
    /// UDP ports for media.
    pub media: RangeInclusive<u16>,
    /// Virtual ports for media.
    pub virtual_media: RangeInclusive<u16>,
    /// The options with which media crosses the overlay.
    pub options: Options,
    /// Whether media may come from any host of a phone's LAN, and not only from the address in its description or of
    /// its signalling.
    pub media_from_lan: bool,
    /// Whether a fraction of the calls is mirrored over the plain path, for comparison. The other gateway also needs
    /// this setting, to receive the mirrored packets.
    pub shadow: Option<Shadow>,
    /// The domain that the gateway announces: one that its node's certificate names.
    pub domain: String,
    /// The servers of this site's domains.
    pub local: Vec<Server>,
    /// Servers of other domains, for when the overlay does not reach these domains.
    pub direct: Vec<Server>,
    /// Destinations that are permitted although their address is loopback, link-local or of another special kind.
    /// Within a call, requests from the overlay may also lead to them, besides the destinations that the call's end at
    /// this site has named.
    pub reach: Allowed,
    /// The hosts that may use the gateway; `None` is everybody in a private network.
    pub allowed: Option<Allowed>,
    /// The nodes that serve a domain.
    pub domains: Arc<dyn Domains>,
    /// Resolves names outside the overlay.
    pub lookup: Lookup,
    /// How long a callee may take to answer: [`ANSWER_WITHIN`].
    pub answer_within: Duration,
    /// Real-time priority for media, if permitted.
    pub realtime: bool,
    /// Receives the events.
    pub report: Arc<dyn Fn(Event) + Send + Sync>,
    /// Receives every message.
    pub trace: Option<Trace>,
}

/// An event of the gateway.
#[derive(Clone, Debug)]
pub enum Event {
    /// A call was answered.
    Answered(Box<Record>),
    /// A call ended; this is its detail record.
    Ended(Box<Record>),
    /// A condition that the operator should know.
    Warning(String),
}

/// The counters of signalling.
#[derive(Debug, Default)]
pub struct Counters {
    /// Calls that were answered.
    pub answered: Counter,
    /// Calls that ended, for any reason.
    pub ended: Counter,
    /// INVITEs that the gateway itself refused.
    pub rejected: Counter,
    /// Requests from addresses that may not use the gateway.
    pub not_allowed: Counter,
    /// Requests within a call that do not come from its neighbors, or that lead elsewhere and come from the overlay.
    pub forged: Counter,
    /// Requests that had passed too many hops.
    pub too_many_hops: Counter,
    /// Requests and TCP connections that were refused or ended for lack of room.
    pub overload: Counter,
    /// Messages of sources that send too many.
    pub flood: Counter,
    /// Datagrams that are not SIP, and TCP connections that were closed because of bytes that are not SIP.
    pub nonsense: Counter,
    /// Answers whose description could not be steered.
    pub bad_answers: Counter,
    /// Answers that were not sent to an address, because it had not proven that it receives them.
    pub unproven: Counter,
    /// TCP connections that were closed, because their peer did not read what the gateway sent.
    pub unread: Counter,
}

/// The reason why a gateway cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The node cannot be reached, or another gateway has its port.
    #[error("virtual port {OVERLAY_PORT} of the node: {0}")]
    Node(#[from] client::Error),
    /// The media plane cannot start.
    #[error("media: {0}")]
    Media(#[from] media::Error),
    /// The gateway cannot listen at the address.
    #[error("cannot listen on {at}: {error}; choose another by --listen")]
    Listen {
        /// The address.
        at: SocketAddr,
        /// The reason.
        error: String,
    },
    /// The kernel refused a thread or a runtime.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A running gateway.
pub struct Gateway {
    proxy: Arc<Proxy>,
    at: SocketAddr,
    orders: UnboundedSender<Order>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

enum Order {
    /// The media plane reports an event.
    Media(media::Event),
    Stop,
}

impl Gateway {
    /// Starts a gateway on a thread of its own.
    ///
    /// # Errors
    /// The node, the ports or the addresses cannot be used.
    pub fn start(settings: Settings) -> Result<Gateway, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (orders, waiting) = unbounded_channel();
        let stopped = CancellationToken::new();
        let started = runtime.block_on(start(settings, orders.clone(), &stopped))?;
        let Started {
            proxy,
            at,
            endpoint,
        } = started;
        let running = proxy.clone();
        let thread = proxy.plane.over().spawn("sip", move || {
            runtime.block_on(run(running, endpoint, waiting));
            stopped.cancel();
            runtime.shutdown_background();
        })?;
        Ok(Gateway {
            proxy,
            at,
            orders,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Returns whether a link on the path to the gateway of `node` lacks room for all present calls. New calls are
    /// answered with 503 in this case.
    pub fn is_refused(&self, node: NodeAddr) -> bool {
        self.proxy.plane.is_refused(node)
    }

    /// Returns the address at which the gateway listens.
    pub fn local(&self) -> SocketAddr {
        self.at
    }

    /// Returns the node of the gateway.
    pub fn node(&self) -> NodeAddr {
        self.proxy.own.node
    }

    /// Returns what is readable once a thread of the gateway has ended.
    pub fn over(&self) -> &Over {
        self.proxy.plane.over()
    }

    /// Returns the present calls.
    pub fn calls(&self) -> Vec<Record> {
        self.proxy.records()
    }

    /// Returns the counters of signalling.
    pub fn counters(&self) -> &Counters {
        &self.proxy.counters
    }

    /// Returns the counters of media.
    pub fn media(&self) -> media::Counters {
        self.proxy.plane.counters()
    }

    /// Ends all calls, reports their ends, and stops.
    pub fn stop(&self) {
        // The gateway may have stopped by itself.
        let _ = self.orders.send(Order::Stop);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = { thread }.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.stop();
    }
}

impl core::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Gateway")
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

struct Started {
    proxy: Arc<Proxy>,
    at: SocketAddr,
    endpoint: rsipstack::transaction::Endpoint,
}

async fn start(
    settings: Settings,
    orders: UnboundedSender<Order>,
    stopped: &CancellationToken,
) -> Result<Started, Error> {
    let overlay = OverlaySocket::bind(&settings.node)?;
    let counters = Arc::new(Counters::default());
    let gate = inspect::Gate::new(counters.clone());
    let overlay = Gated {
        socket: overlay,
        gate: gate.clone(),
        is_spoofable: false,
    };
    let overlay = UdpConnection::from_socket(Arc::new(overlay), None, None).await;
    let failed = |error: rsipstack::Error| Error::Listen {
        at: settings.listen,
        error: error.to_string(),
    };
    let overlay = SipConnection::Udp(overlay.map_err(failed)?);
    let (udp, tcp, at) = listen(settings.listen, &gate).await.map_err(failed)?;
    let port = at.port();
    let transports = TransportLayer::new_with_domain_resolver(stopped.clone(), Box::new(NoNames));
    let streams = Streams::new(gate.clone(), counters.clone(), stopped.clone());
    let stack = Arc::new(OnceLock::new());
    let inside = Inside {
        gate: gate.clone(),
        streams: streams.clone(),
        stack: stack.clone(),
    };
    for connection in [udp.clone(), overlay.clone()] {
        transports.add_transport(connection);
    }
    let tell = orders.clone();
    let ports = Ports::new(&settings.media);
    let plane = Plane::start(media::Settings {
        node: settings.node.clone(),
        udp: settings.media,
        bind: vec![settings.listen.ip()],
        overlay: settings.virtual_media,
        options: settings.options,
        realtime: settings.realtime,
        shadow: settings.shadow,
        // A gateway that stops no longer listens.
        tell: Box::new(move |event| drop(tell.send(Order::Media(event)))),
    })?;
    let node = plane.node();
    let mut builder = EndpointBuilder::new();
    builder
        .with_user_agent(concat!("sinew/", env!("CARGO_PKG_VERSION")))
        .with_cancel_token(stopped.clone())
        .with_transport_layer(transports)
        .with_option(rsipstack::transaction::endpoint::EndpointOption {
            auto_ack_2xx: false,
            // The stack would end a ringing call without a CANCEL. The gateway ends it before.
            timerc: settings.answer_within + places::LINGER,
            ..Default::default()
        })
        .with_transport_inspector(Box::new(inside));
    if let Some(trace) = settings.trace.clone() {
        builder.with_inspector(Box::new(inspect::Tracer(trace)));
    }
    let endpoint = builder.build();
    stack.get_or_init(|| Arc::downgrade(&endpoint.inner));
    let names = Names {
        node,
        port,
        bound: settings.listen.ip(),
        public: settings.public,
    };
    // The kernel seeds this anew in each process.
    let first = RandomState::new().build_hasher().finish() >> 16;
    let proxy = Proxy {
        endpoint: endpoint.inner.clone(),
        routes: Routes {
            names,
            local: settings.local,
            direct: settings.direct,
            reach: settings.reach,
            domains: settings.domains,
            lookup: settings.lookup,
            found: Mutex::default(),
        },
        ports,
        shadow_at: plane.shadow_port().map(|port| {
            let ip = settings.public.unwrap_or(settings.listen.ip());
            SocketAddr::new(ip, port)
        }),
        plane,
        own: Own {
            node,
            domain: settings.domain,
            media_from_lan: settings.media_from_lan,
        },
        allowed: settings.allowed,
        udp: vec![udp],
        overlay,
        calls: Mutex::new(Table::new(first)),
        report: settings.report,
        counters,
        places: Places::new(),
        streams: streams.clone(),
        refusals: Slots::new(REFUSALS_MAX),
        gate,
        tags: RandomState::new(),
        trace: settings.trace.map(inspect::Tracer),
        answer_within: settings.answer_within,
    };
    let proxy = Arc::new(proxy);
    let asking = proxy.clone();
    tokio::spawn(async move { asking.routes.find_servers().await });
    tokio::spawn(streams.accept(tcp, endpoint.inner.clone()));
    Ok(Started {
        proxy,
        at,
        endpoint,
    })
}

/// Opens UDP and TCP at one address; with port 0, at any port that both have free.
async fn listen(
    wanted: SocketAddr,
    gate: &Arc<inspect::Gate>,
) -> rsipstack::Result<(SipConnection, TcpListener, SocketAddr)> {
    let mut tries = 0;
    loop {
        let socket = net::udp::single(wanted, SIGNALLING_DSCP)?;
        // A PBX that calls in bursts must not wait for its retransmissions.
        net::udp::enlarge(&socket);
        let socket = Gated {
            socket: UdpSocket::from_std(socket)?,
            gate: gate.clone(),
            is_spoofable: true,
        };
        let udp = UdpConnection::from_socket(Arc::new(socket), None, None).await?;
        let udp = SipConnection::Udp(udp);
        let port = udp.get_addr().addr.port.map_or(wanted.port(), u16::from);
        let at = SocketAddr::new(wanted.ip(), port);
        match tcp::bind(at) {
            Ok(tcp) => return Ok((udp, tcp, at)),
            Err(_) if wanted.port() == 0 && tries < PORT_TRIES => tries += 1,
            Err(error) => return Err(error.into()),
        }
    }
}

async fn run(
    proxy: Arc<Proxy>,
    endpoint: rsipstack::transaction::Endpoint,
    mut orders: UnboundedReceiver<Order>,
) {
    let Ok(mut incoming) = endpoint.incoming_transactions() else {
        return;
    };
    let serving = endpoint.inner.clone();
    let mut serving = tokio::spawn(inside::serve(async move { serving.serve().await }));
    let watch = tokio::spawn(watch::run(proxy.clone()));
    loop {
        tokio::select! {
            transaction = incoming.recv() => match transaction {
                Some(transaction) => proxy.take(transaction),
                None => break,
            },
            ended = &mut serving => {
                let text = format!("the SIP stack has stopped, and the gateway with it: {ended:?}");
                (proxy.report)(Event::Warning(text));
                break;
            }
            order = orders.recv() => match order {
                Some(Order::Media(event)) => on_media(&proxy, event),
                Some(Order::Stop) | None => break,
            },
        }
    }
    proxy.stop().await;
    watch.abort();
    serving.abort();
}

fn on_media(proxy: &Arc<Proxy>, event: media::Event) {
    match event {
        media::Event::Ended { call, why, report } => {
            let end = match why {
                Why::Expired(expired) => End::Expired(expired),
                Why::NodeLost(_) => End::NodeLost,
            };
            let proxy = proxy.clone();
            tokio::spawn(async move { proxy.on_media_ended(call, end, *report).await });
        }
        event => (proxy.report)(Event::Warning(event.to_string())),
    }
}
