//! The SIP gateway: phones and PBXs over the overlay, unchanged. [Amir06 §VI]
//!
//! ```text
//!   phone ──SIP──▶ Gateway ══ SIP in datagrams ══ Gateway ──SIP──▶ proxy, phone
//!     └────RTP───▶ media::Plane ══ real-time class ══ media::Plane ──RTP──▶┘
//! ```
//! It stands where the phones' outbound proxy is, or a PBX's trunk. Signalling goes by the callee's
//! domain: to the gateway at the node whose certificate names it (`routes`), else as it would
//! without an overlay. Descriptions are led as they pass (`steering`), so that media enters at this
//! node and leaves at that one. Whatever fails, a call is at worst what it was without us: a direct
//! one.
//!
//! The life of a call: INVITE (`invite`, with the hops it tries), `call` while it is, BYE, which
//! `proxy` passes on or, when an end or a node is lost, `calls` makes. `dialog` is what is within a
//! call, `transactions` how the SIP stack is used, `watch` whether the other gateways live, `hop` who
//! the neighbours are, `message` what a proxy edits, `overlay` the transport between gateways, `inspect` what is
//! dropped before it costs anything. Messages, transactions and the transports of the Internet are
//! those of the crate rsipstack. All of it runs on one thread, beside that of the media.

mod call;
mod calls;
mod dialog;
mod hop;
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
pub use message::passed_on;
pub use proxy::Counter;
pub use routes::{BadServer, Lookup, Server};

use crate::allow::Allowed;
use crate::domains::Domains;
use crate::media::{self, Plane, Shadow, Why};
use base::NodeAddr;
use calls::Table;
use client::{Node, Options};
use core::hash::{BuildHasher, Hasher};
use core::net::{IpAddr, SocketAddr};
use core::ops::RangeInclusive;
use hop::Names;
use inspect::Gated;
use overlay::OverlaySocket;
use places::Places;
use proxy::Proxy;
use routes::Routes;
use rsipstack::EndpointBuilder;
use rsipstack::transport::udp::UdpConnection;
use rsipstack::transport::{SipConnection, TransportLayer};
use std::hash::RandomState;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use steering::Own;
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

pub use rsipstack::sip::Transport;

/// The port of a transport's servers, where none is said.
pub fn default_port(transport: Transport) -> u16 {
    transport.default_port().into()
}

/// The class of signalling, CS5, at the routers that heed it (RFC 4594 §4.2).
const SIGNALLING_DSCP: u8 = 40;

/// Ports that are tried when any will do.
const PORT_TRIES: usize = 16;

/// What a gateway is to be.
pub struct Settings {
    /// Its node.
    pub node: Node,
    /// Where it listens, by UDP and TCP.
    pub listen: SocketAddr,
    /// The address by which it is reached from beyond the site's translator.
    pub public: Option<IpAddr>,
    /// UDP ports for media.
    pub media: RangeInclusive<u16>,
    /// Virtual ports for media.
    pub virtual_media: RangeInclusive<u16>,
    /// How media crosses the overlay.
    pub options: Options,
    /// Whether media may come from any host of a phone's LAN, and not only from the address that it
    /// names or that its signalling came from.
    pub media_from_lan: bool,
    /// Whether a fraction of the calls is mirrored over the plain path, to compare; the other gateway
    /// needs it too, to hear them.
    pub shadow: Option<Shadow>,
    /// The domain that it announces: one that its node's certificate names.
    pub domain: String,
    /// The servers of this site's domains.
    pub local: Vec<Server>,
    /// Servers of other domains, for when the overlay does not reach them.
    pub direct: Vec<Server>,
    /// What may be sent to although its address is loopback, link-local or of another special kind; and
    /// what requests from the overlay may lead to within a call, beside what the call's end at this
    /// site has named.
    pub reach: Allowed,
    /// Who may use it; `None` is everybody in a private network.
    pub allowed: Option<Allowed>,
    /// Which nodes serve a domain.
    pub domains: Arc<dyn Domains>,
    /// Names beyond.
    pub lookup: Lookup,
    /// Real-time priority for media, if permitted.
    pub realtime: bool,
    /// Who is told what happens.
    pub report: Arc<dyn Fn(Event) + Send + Sync>,
    /// Who sees every message.
    pub trace: Option<Trace>,
}

/// What happens.
#[derive(Clone, Debug)]
pub enum Event {
    /// A call was answered.
    Answered(Box<Record>),
    /// A call ended: its detail record.
    Ended(Box<Record>),
    /// Something that the operator should know.
    Warning(String),
}

/// What was counted.
#[derive(Debug, Default)]
pub struct Counters {
    /// Calls answered.
    pub answered: Counter,
    /// Calls ended, in whatever way.
    pub ended: Counter,
    /// INVITEs refused by the gateway itself.
    pub rejected: Counter,
    /// Requests from addresses that may not use the gateway.
    pub not_allowed: Counter,
    /// Requests within a call from elsewhere than its neighbours, or to elsewhere from the overlay.
    pub forged: Counter,
    /// Requests that had been passed on too often.
    pub too_many_hops: Counter,
    /// Requests refused for want of room.
    pub overload: Counter,
    /// Messages of a source that sends too many.
    pub flood: Counter,
    /// Datagrams that are no SIP.
    pub nonsense: Counter,
    /// Answers whose description could not be led.
    pub bad_answers: Counter,
    /// Answers that were not repeated to an address that has not shown that it hears them.
    pub unproven: Counter,
}

/// Why there is no gateway.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The node cannot be had, or another gateway has its port.
    #[error("virtual port {OVERLAY_PORT} of the node: {0}")]
    Node(#[from] client::Error),
    /// No media.
    #[error("media: {0}")]
    Media(#[from] media::Error),
    /// The listening address cannot be had.
    #[error("cannot listen on {at}: {error}; choose another by --listen")]
    Listen {
        /// Where.
        at: SocketAddr,
        /// Why.
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
    /// The media plane says something.
    Media(media::Event),
    Stop,
}

impl Gateway {
    /// Starts one, on a thread of its own.
    ///
    /// # Errors
    /// When its node, its ports or its addresses cannot be had.
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
        let thread = std::thread::Builder::new().name("sip".into());
        let thread = thread.spawn(move || {
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

    /// A link on the way to the gateway of `node` has no room for all calls that there are: new ones are
    /// answered with 503.
    pub fn is_refused(&self, node: NodeAddr) -> bool {
        self.proxy.plane.is_refused(node)
    }

    /// Where it listens.
    pub fn local(&self) -> SocketAddr {
        self.at
    }

    /// Its node.
    pub fn node(&self) -> NodeAddr {
        self.proxy.own.node
    }

    /// The calls that are.
    pub fn calls(&self) -> Vec<Record> {
        self.proxy.records()
    }

    /// What was counted of signalling.
    pub fn counters(&self) -> &Counters {
        &self.proxy.counters
    }

    /// What was counted of media.
    pub fn media(&self) -> media::Counters {
        self.proxy.plane.counters()
    }

    /// Ends all calls, tells their ends, and stops.
    pub fn stop(&self) {
        // It may have stopped by itself.
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
    let transports = TransportLayer::new(stopped.clone());
    for connection in [udp.clone(), overlay.clone()] {
        transports.add_transport(connection);
    }
    let tell = orders.clone();
    let plane = Plane::start(media::Settings {
        node: settings.node.clone(),
        udp: settings.media,
        bind: vec![settings.listen.ip()],
        overlay: settings.virtual_media,
        options: settings.options,
        realtime: settings.realtime,
        shadow: settings.shadow,
        // A gateway that stops does not listen any more.
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
            ..Default::default()
        })
        .with_transport_inspector(Box::new(inspect::Inside(gate.clone())));
    if let Some(trace) = settings.trace.clone() {
        builder.with_inspector(Box::new(inspect::Tracer(trace)));
    }
    let endpoint = builder.build();
    let names = Names {
        node,
        port,
        bound: settings.listen.ip(),
        public: settings.public,
    };
    // Seeded by the kernel, anew in each process.
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
        gate,
        tags: RandomState::new(),
        trace: settings.trace.map(inspect::Tracer),
    };
    let proxy = Arc::new(proxy);
    let asking = proxy.clone();
    tokio::spawn(async move { asking.routes.find_servers().await });
    let (serving, counters) = (endpoint.inner.clone(), proxy.counters.clone());
    tokio::spawn(tcp::serve(tcp, at, serving, counters, stopped.clone()));
    Ok(Started {
        proxy,
        at,
        endpoint,
    })
}

/// UDP and TCP at one address; with port 0, at any port that both have free.
async fn listen(
    wanted: SocketAddr,
    gate: &Arc<inspect::Gate>,
) -> rsipstack::Result<(SipConnection, TcpListener, SocketAddr)> {
    let mut tries = 0;
    loop {
        let socket = net::udp::single(wanted, SIGNALLING_DSCP)?;
        // A PBX that calls in bursts must not wait for its repetitions.
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
        match tcp::bind(at).await {
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
    let mut serving = tokio::spawn(async move { serving.serve().await });
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
