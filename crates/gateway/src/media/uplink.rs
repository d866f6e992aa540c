//! The overlay side: one socket with a range of virtual ports, for all calls.
//!
//! ```text
//!   packets of a turn ──> gathered ──> few messages to the node
//!   the node goes away ──> looked for by a thread of its own ──> bound anew, or lost for good
//! ```

use super::state::State;
use super::{Event, NODE_GRACE, Shared};
use base::{NodeAddr, Time, VirtualPort};
use client::{Batch, Error, Node, Options, RangeSocket, Sending, Target};
use core::ops::RangeInclusive;
use net::epoll::{Interest, Registry};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

/// The time between attempts to find the node again: a restarted node is there within a second.
const LOOK_EVERY: core::time::Duration = core::time::Duration::from_millis(250);
/// How long a node may take to answer such an attempt.
const LOOK_PATIENCE: core::time::Duration = core::time::Duration::from_secs(2);
/// The number of datagrams after which a turn takes no more from the node: they take about a millisecond. One further
/// message can contain 64.
const DATAGRAMS_PER_TURN: usize = 256;

/// How the plane reaches the node.
#[derive(Clone, Debug)]
struct Way {
    by: Node,
    ports: RangeInclusive<u16>,
    options: Options,
}

pub(super) struct Uplink {
    way: Way,
    node: NodeAddr,
    socket: Option<RangeSocket>,
    /// Since when there is no node.
    away: Option<Time>,
    sending: Sending,
    failed: u64,
}

impl Uplink {
    /// Binds the range. The caller must still watch the socket, see [`Uplink::watch`].
    pub(super) fn open(
        by: &Node,
        ports: RangeInclusive<u16>,
        options: Options,
    ) -> Result<Uplink, Error> {
        let way = Way {
            by: by.clone(),
            ports,
            options,
        };
        let socket = way.bind()?;
        Ok(Uplink {
            way,
            node: socket.node(),
            socket: Some(socket),
            away: None,
            sending: Sending::new(),
            failed: 0,
        })
    }

    pub(super) fn watch(&self, registry: &Registry, token: u64) -> io::Result<()> {
        match &self.socket {
            Some(socket) => registry.add(socket, token, Interest::READ),
            None => Ok(()),
        }
    }

    pub(super) fn node(&self) -> NodeAddr {
        self.node
    }

    pub(super) fn is_connected(&self) -> bool {
        self.socket.is_some()
    }

    /// Returns true if the node is away for longer than calls wait.
    pub(super) fn is_lost(&self, now: Time) -> bool {
        self.away.is_some_and(|since| now >= since + NODE_GRACE)
    }

    /// Returns true if there is no room for some traffic to a node, so that another call would have none either.
    pub(super) fn is_refused(&self, to: NodeAddr) -> bool {
        self.socket
            .as_ref()
            .is_some_and(|socket| socket.is_refused(to))
    }

    /// Returns the number of datagrams that the node did not accept.
    pub(super) fn failed(&self) -> u64 {
        self.failed
    }

    /// Sends a datagram with the others of this turn.
    pub(super) fn send(&mut self, from: VirtualPort, to: Target, datagram: &[u8]) {
        if self.sending.push(from.0, to, datagram) {
            return;
        }
        self.flush();
        if !self.sending.push(from.0, to, datagram) {
            self.failed += 1;
        }
    }

    /// Sends the gathered datagrams. Datagrams that the node does not accept at once are lost, because they would be
    /// useless later.
    pub(super) fn flush(&mut self) {
        let count = self.sending.len() as u64;
        let sent = match &self.socket {
            _ if count == 0 => true,
            // A later receive detects that the node is gone.
            Some(socket) => socket.send_batch(&mut self.sending).is_ok(),
            None => false,
        };
        if !sent {
            self.sending.clear();
            self.failed += count;
        }
    }

    /// Receives datagrams that arrived together. Returns false if there are none now.
    fn receive(&self, batch: &mut Batch) -> Result<bool, Error> {
        let Some(socket) = &self.socket else {
            return Ok(false);
        };
        match socket.recv_batch(batch) {
            Ok(()) => Ok(true),
            Err(Error::WouldBlock) => Ok(false),
            // One of the sent datagrams was refused: no route yet, or too long. The others are sent.
            Err(Error::Refused { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    fn leave(&mut self, now: Time) {
        self.socket = None;
        self.away.get_or_insert(now);
    }

    fn attach(&mut self, socket: RangeSocket) {
        self.socket = Some(socket);
        self.away = None;
    }
}

impl Way {
    fn bind(&self) -> Result<RangeSocket, Error> {
        let socket = self.by.bind_range(self.ports.clone(), self.options)?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    }
}

/// The result of a turn.
pub(super) struct Came {
    pub(super) datagrams: usize,
    /// True if there may be more.
    pub(super) more: bool,
}

/// Takes what arrived over the overlay, within a bound. Returns an error if the node is gone.
pub(super) fn receive(state: &mut State, now: Time, batch: &mut Batch) -> Result<Came, Error> {
    let mut datagrams = 0;
    while datagrams < DATAGRAMS_PER_TURN {
        match state.uplink.receive(batch) {
            Ok(true) => {
                // A message of the node also counts, so that a flood of them has an end.
                datagrams += 1;
                for (n, (port, from, info, payload)) in batch.iter().enumerate() {
                    datagrams += usize::from(n > 0);
                    state.on_overlay(now, VirtualPort(port), from, payload, info);
                }
            }
            Ok(false) => {
                let more = false;
                return Ok(Came { datagrams, more });
            }
            Err(error) => {
                state.uplink.leave(now);
                return Err(error);
            }
        }
    }
    Ok(Came {
        datagrams,
        more: true,
    })
}

/// Looks for the node until it is back, on its own thread.
pub(super) fn look_for(shared: &Arc<Shared>, token: u64) {
    let way = shared.lock().uplink.way.clone();
    let own = shared.clone();
    let look = move || {
        while !own.stop.load(Ordering::Acquire) {
            thread::sleep(LOOK_EVERY);
            let way = Way {
                by: way.by.clone().with_timeout(LOOK_PATIENCE),
                ..way.clone()
            };
            // Another node at the same place does not have the address that the calls' ends use.
            let found = way.bind().ok().filter(|socket| socket.node() == own.node);
            let Some(socket) = found else {
                continue;
            };
            let mut state = own.lock();
            state.uplink.attach(socket);
            let watched = state.watch_uplink(token);
            drop(state);
            match watched {
                Ok(()) => return (own.tell)(Event::NodeBack),
                Err(error) => (own.tell)(Event::Warning(format!("media: {error}"))),
            }
        }
    };
    let thread = thread::Builder::new().name("media-node".into());
    if let Err(error) = thread.spawn(look) {
        (shared.tell)(Event::Warning(format!(
            "media: the node is not looked for, {error}"
        )));
    }
}
