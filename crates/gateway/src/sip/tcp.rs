//! SIP by TCP: the connections, those that peers open and those that the gateway opens.
//!
//! ```text
//!   a peer connects ── its host has its share ─────────────────────▶ closed
//!         │ └── all are taken ──▶ the oldest that has asked for nothing yet goes, of the host with most
//!         ▼
//!   asks for nothing yet ── a request is admitted ──▶ stays until it ends
//! ```
//! Choice: the gateway itself reads and writes the connections ([`stream`]). The SIP stack writes to its own ones while
//! its loop waits, and queues what they read without a limit. So for the stack, a connection is a pair of channels.

mod framing;
mod stream;

use super::Counters;
use super::inspect::Gate;
use crate::slots::{Slot, Slots};
use core::net::SocketAddr;
use core::time::Duration;
use net::places::Origin;
use rsipstack::transaction::endpoint::EndpointInnerRef;
use rsipstack::transport::SipConnection;
use rsipstack::transport::channel::ChannelConnection;
use socket2::SockRef;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use stream::{Stream, UNSENT_MAX, address};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Maximum number of connections that peers open. Each takes at most 160 kB, besides a place for unsent bytes.
const ACCEPTED_MAX: usize = 512;
/// Maximum number of these connections of one host.
const PER_HOST_MAX: usize = ACCEPTED_MAX / 4;
/// Maximum number of connections that the gateway opens. One host may have half of them.
const OPENED_MAX: usize = 512;
/// Maximum number of bytes that wait for peers, besides a few of each connection. One host may have half of them.
const UNSENT_ALL_MAX: usize = 16 << 20;
/// The kernel's buffers of a connection. The kernel would enlarge them to some megabytes.
const SEND_BYTES: usize = 128 << 10;
const RECEIVE_BYTES: usize = 32 << 10;
/// The time within which a connection to a neighbor must be established.
const CONNECT_WITHIN: Duration = Duration::from_secs(4);
/// The time that peers have to accept the last messages when the gateway stops.
const FINISH_WITHIN: Duration = Duration::from_secs(1);
/// Number of connections that wait to be accepted.
const BACKLOG: u32 = 1_024;
/// The pause after an error of the kernel, which lacks descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// The connections.
pub(crate) struct Streams {
    /// By the peer. A peer cannot have two connections from the same port.
    table: Mutex<HashMap<SocketAddr, Held>>,
    accepted: Slots<Origin>,
    opened: Slots<Origin>,
    unsent: Slots<Origin>,
    /// The locks of those who connect to a peer, so that they use one connection.
    connecting: Mutex<HashMap<SocketAddr, Weak<tokio::sync::Mutex<()>>>>,
    gate: Arc<Gate>,
    counters: Arc<Counters>,
    stopped: CancellationToken,
    /// Cancelled if the connections end as soon as the last messages are sent.
    closing: CancellationToken,
    /// Notified when a connection has ended.
    ended: Notify,
}

struct Held {
    connection: SipConnection,
    slot: Slot<Origin>,
    /// Notified when the stack has taken up a message of the connection.
    taken_up: Arc<Notify>,
}

impl Streams {
    pub(super) fn new(
        gate: Arc<Gate>,
        counters: Arc<Counters>,
        stopped: CancellationToken,
    ) -> Arc<Streams> {
        Arc::new(Streams {
            table: Mutex::default(),
            accepted: Slots::new(ACCEPTED_MAX),
            opened: Slots::new(OPENED_MAX),
            unsent: Slots::new(UNSENT_ALL_MAX),
            connecting: Mutex::default(),
            gate,
            counters,
            stopped,
            closing: CancellationToken::new(),
            ended: Notify::new(),
        })
    }

    /// Accepts connections forever.
    pub(super) async fn accept(self: Arc<Self>, listener: TcpListener, endpoint: EndpointInnerRef) {
        loop {
            let Ok((socket, peer)) = listener.accept().await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let slot = self
                .accepted
                .take_of_at_most(Origin::of(peer.ip()), PER_HOST_MAX);
            match slot {
                Some(slot) => drop(self.add(&endpoint, (socket, peer), slot).await),
                None => self.counters.overload.add(),
            }
        }
    }

    /// Returns a connection to this address: one that exists, or a new one. `stays` means that it has its place even if
    /// others have no place.
    pub(crate) async fn connect(
        self: &Arc<Self>,
        endpoint: &EndpointInnerRef,
        to: SocketAddr,
        stays: bool,
    ) -> io::Result<SipConnection> {
        let connecting = {
            let mut all = locked(&self.connecting);
            all.retain(|_, of| of.strong_count() > 0);
            let known = all.get(&to).and_then(Weak::upgrade);
            let of = known.unwrap_or_default();
            all.insert(to, Arc::downgrade(&of));
            of
        };
        let connected = timeout(CONNECT_WITHIN, async {
            let _alone = connecting.lock().await;
            if let Some(connection) = self.to(to) {
                return Ok(connection);
            }
            let full = || {
                self.counters.overload.add();
                io::Error::other("too many connections by TCP")
            };
            let slot = self.opened.take_for(Origin::of(to.ip())).ok_or_else(full)?;
            let socket = TcpStream::connect(to).await?;
            let connection = self.add(endpoint, (socket, to), slot).await?;
            if stays {
                self.stays(to);
            }
            Ok(connection)
        });
        let silent = |_| io::Error::other("the next hop does not answer");
        connected.await.map_err(silent)?
    }

    /// Notes that a request of this peer was admitted: its connection stays until it ends.
    pub(crate) fn stays(&self, peer: SocketAddr) {
        if let Some(held) = locked(&self.table).get(&peer) {
            // If it was ended for another one, this comes too late.
            let _ = held.slot.stays();
        }
    }

    /// Notes that the stack has taken up the message of this peer.
    pub(super) fn taken_up(&self, peer: SocketAddr) {
        if let Some(held) = locked(&self.table).get(&peer) {
            held.taken_up.notify_one();
        }
    }

    /// Sends what is still to be sent, within a limited time, and closes all connections.
    pub(crate) async fn finish(&self) {
        self.closing.cancel();
        let ended = async {
            while !locked(&self.table).is_empty() {
                self.ended.notified().await;
            }
        };
        let _ = timeout(FINISH_WITHIN, ended).await;
    }

    fn to(&self, peer: SocketAddr) -> Option<SipConnection> {
        let table = locked(&self.table);
        let connection = table.get(&peer).map(|held| &held.connection)?;
        let ends = connection.cancel_token()?.is_cancelled();
        (!ends).then(|| connection.clone())
    }

    /// Serves a connection in a task of its own.
    async fn add(
        self: &Arc<Self>,
        endpoint: &EndpointInnerRef,
        (socket, peer): (TcpStream, SocketAddr),
        slot: Slot<Origin>,
    ) -> io::Result<SipConnection> {
        // Signalling messages are short and urgent.
        let _ = socket.set_nodelay(true);
        let _ = SockRef::from(&socket).set_send_buffer_size(SEND_BYTES);
        let (gone, taken_up) = (self.stopped.child_token(), Arc::new(Notify::new()));
        let (to_stack, incoming) = unbounded_channel();
        let (outgoing, from_stack) = unbounded_channel();
        let ends = ChannelConnection::create_connection(
            incoming,
            outgoing,
            address(peer),
            Some(gone.clone()),
        );
        let connection = SipConnection::Channel(ends.await.map_err(io::Error::other)?);
        let (ends, counters) = (gone.clone(), self.counters.clone());
        slot.may_end(move || {
            counters.overload.add();
            ends.cancel();
        });
        let held = Held {
            connection: connection.clone(),
            slot,
            taken_up: taken_up.clone(),
        };
        match locked(&self.table).entry(peer) {
            Entry::Vacant(place) => place.insert(held),
            // The gateway has several addresses, and the peer has connected to two of them from one port.
            Entry::Occupied(_) => return Err(io::ErrorKind::AddrInUse.into()),
        };
        let ends = (to_stack, from_stack);
        let stream = Stream::new(
            self.clone(),
            (socket, peer),
            connection.clone(),
            ends,
            (taken_up, gone),
        );
        endpoint.transport_layer.add_connection(connection.clone());
        tokio::spawn(stream.run());
        Ok(connection)
    }

    /// Returns a place for more unsent bytes than each connection may have.
    fn place_for_unsent(&self, peer: SocketAddr) -> Option<Slot<Origin>> {
        self.unsent.take_sized(Origin::of(peer.ip()), UNSENT_MAX)
    }

    fn forget(&self, peer: SocketAddr) {
        let held = locked(&self.table).remove(&peer);
        drop(held);
        self.ended.notify_one();
    }
}

/// Binds the listener.
pub(super) fn bind(at: SocketAddr) -> io::Result<TcpListener> {
    let socket = match at {
        SocketAddr::V4(_) => tokio::net::TcpSocket::new_v4()?,
        SocketAddr::V6(_) => tokio::net::TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    // Connections inherit this. It must be known before they are established.
    socket.set_recv_buffer_size(RECEIVE_BYTES as u32)?;
    socket.bind(at)?;
    socket.listen(BACKLOG)
}

fn locked<T>(table: &Mutex<T>) -> MutexGuard<'_, T> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}
