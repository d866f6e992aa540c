//! The thread of the connections: it accepts callers, connects to peers, sends packets of encoders into the overlay,
//! and ends connections that are over.

use super::caller::{Caller, Step};
use super::connection::Connection;
use super::report::{Drops, Event, Report};
use super::routes::Route;
use super::{Direction, OUTLET, Shared};
use crate::video::Outlet;
use base::{Duration, Time};
use net::srt::{Error, Listener, PAYLOAD_BYTES_MAX, Poll, Ready, Socket, Wanted};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

/// Maximum number of messages from one connection per turn. Choice: 32 of 1316 bytes are 7 ms of 50 Mbit/s.
const MESSAGES_PER_TURN: usize = 32;
/// How long the thread waits for libsrt. This wait cannot be interrupted, so callers, the node and the end are checked
/// in between.
const WAIT: core::time::Duration = core::time::Duration::from_millis(20);
/// The time between reads of the statistics.
const STATS_EVERY: Duration = Duration::from_secs(1);

pub(super) struct Incoming {
    pub(super) shared: Arc<Shared>,
    pub(super) poll: Poll,
    pub(super) listeners: Vec<Listener>,
    pub(super) callers: Vec<Caller>,
    pub(super) outlet: Outlet,
    connections: Vec<Held>,
    next_stats: Time,
}

struct Held {
    connection: Arc<Connection>,
    /// The caller that opened the connection, if any.
    caller: Option<usize>,
    /// When the last packets are due; set if the connection is over.
    over_at: Option<Time>,
}

const MESSAGES: Wanted = Wanted {
    readable: true,
    writable: false,
};
const ANSWER: Wanted = Wanted {
    readable: false,
    writable: true,
};

impl Incoming {
    pub(super) fn new(
        shared: Arc<Shared>,
        listeners: Vec<Listener>,
        callers: Vec<Caller>,
        outlet: Outlet,
    ) -> Result<Incoming, Error> {
        let poll = Poll::new()?;
        for listener in &listeners {
            poll.add(listener.socket(), MESSAGES)?;
        }
        Ok(Incoming {
            shared,
            poll,
            listeners,
            callers,
            outlet,
            connections: Vec::new(),
            next_stats: Time::ZERO,
        })
    }

    pub(super) fn run(mut self) {
        let mut ready = Vec::new();
        while !self.shared.stop.load(Ordering::Acquire) {
            if let Err(error) = self.poll.wait(WAIT, &mut ready) {
                self.tell(Event::Warning(format!("the gateway stops: {error}")));
                return;
            }
            self.turn(&ready);
        }
        self.publish(self.shared.clock.now());
    }

    fn turn(&mut self, ready: &[Ready]) {
        let now = self.shared.clock.now();
        for event in ready {
            let listener = self.listeners.iter();
            if let Some(index) = { listener }.position(|l| l.socket().id() == event.id) {
                self.accept(now, index);
            } else {
                self.serve(now, *event);
            }
        }
        self.drain(now);
        self.outlet.flush();
        match self.outlet.look(now) {
            Ok(false) => {}
            Ok(true) => self.shared.tell_back(OUTLET),
            Err(error) => self.shared.tell_away(OUTLET, error),
        }
        self.call(now);
        let refused = self.shared.refusals_told().take(now);
        for event in refused {
            self.tell(event);
        }
        if now >= self.next_stats {
            self.next_stats = now + STATS_EVERY;
            self.sweep(now);
            self.publish(now);
        }
    }

    /// Accepts all callers that have completed the handshake.
    fn accept(&mut self, now: Time, listener: usize) {
        while let Ok((socket, peer)) = self.listeners[listener].accept() {
            self.shared.shaken.fetch_add(1, Ordering::Relaxed);
            self.shared.refusals_told().on_shaken(peer);
            let id = socket.stream_id();
            // Another caller may have been faster since the handshake.
            match self.shared.admit(&id) {
                Ok(route) => self.connect(now, socket, peer, id, route, None),
                Err(why) => self.shared.refuse(now, peer, &id, why),
            }
        }
    }

    fn connect(
        &mut self,
        now: Time,
        socket: Socket,
        peer: SocketAddr,
        stream_id: String,
        route: Route,
        caller: Option<usize>,
    ) {
        let stream = self.shared.words(route);
        self.tell(Event::Connected {
            peer,
            stream_id: stream_id.clone(),
            direction: route.direction,
            stream: stream.clone(),
        });
        if let Err(error) = self.poll.add(&socket, MESSAGES) {
            self.tell(Event::Warning(format!("{peer}: {error}")));
        }
        let connection = Connection::new(socket, peer, stream_id, route, stream, now);
        let connection = Arc::new(connection);
        self.shared.on_begin(&connection);
        self.connections.push(Held {
            connection,
            caller,
            over_at: None,
        });
    }

    /// Handles an event of a connection: takes what it has sent. A connection that is over is no longer watched.
    fn serve(&mut self, now: Time, event: Ready) {
        let is_meant = |held: &Held| held.connection.socket.id() == event.id;
        let Some(place) = self.connections.iter().position(is_meant) else {
            return;
        };
        let connection = self.connections[place].connection.clone();
        // The first message ends what is left of the previous connection, so that two encoders never mix.
        if event.readable && connection.socket.is_connected() {
            self.end_drained(now, &connection);
        }
        let is_over = event.readable && self.take(now, &connection).is_err();
        if is_over || event.failed && !connection.socket.is_connected() {
            self.leave(now, &connection);
        }
    }

    /// Sends messages into the overlay. Returns true if there may be more, and an error if the connection is over.
    fn take(&mut self, now: Time, connection: &Connection) -> Result<bool, Error> {
        let mut buffer = [0; PAYLOAD_BYTES_MAX];
        for _ in 0..MESSAGES_PER_TURN {
            let len = match connection.socket.receive(&mut buffer) {
                Ok(len) => len,
                Err(Error::WouldBlock) => return Ok(false),
                Err(error) => return Err(error),
            };
            if connection.route.direction == Direction::Out {
                self.shared.unwanted.fetch_add(1, Ordering::Relaxed);
                if !connection.is_unwanted.swap(true, Ordering::Relaxed) {
                    self.tell(Event::Unwanted {
                        peer: connection.peer,
                    });
                }
                continue;
            }
            let mut watch = connection
                .watch
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            watch.on_packet(now, &buffer[..len], false);
            let target = self.shared.routes.inputs[connection.route.index].target;
            self.outlet.push(target, &buffer[..len]);
        }
        Ok(true)
    }

    /// Finds connections that are over without an event: libsrt reports none if a connection was over before it was
    /// watched.
    fn sweep(&mut self, now: Time) {
        let is_over =
            |held: &&Held| held.over_at.is_none() && !held.connection.socket.is_connected();
        let over = self.connections.iter().filter(is_over);
        let over: Vec<_> = over.map(|held| held.connection.clone()).collect();
        for connection in over {
            self.leave(now, &connection);
        }
    }

    /// Handles the end of a connection: its place becomes free for another one. The end arrives before the connection's
    /// last packets. libsrt holds these back for the latency, and still delivers them while the socket exists.
    fn leave(&mut self, now: Time, connection: &Arc<Connection>) {
        // At most one connection of each stream may still be drained.
        self.end_drained(now, connection);
        let mut all = self.connections.iter_mut();
        let Some(held) = all.find(|held| Arc::ptr_eq(&held.connection, connection)) else {
            return;
        };
        held.connection.look();
        held.over_at = Some(now + held.connection.rest());
        self.poll.remove(&held.connection.socket);
        self.shared.on_leave(&held.connection);
        if let Some(caller) = held.caller {
            self.callers[caller].on_end(now, held.connection.since);
        }
    }

    /// Ends connections that are still being drained, if another connection has their stream now.
    fn end_drained(&mut self, now: Time, by: &Arc<Connection>) {
        for place in (0..self.connections.len()).rev() {
            let held = &self.connections[place];
            let is_older = held.over_at.is_some() && !Arc::ptr_eq(&held.connection, by);
            if is_older && held.connection.route == by.route {
                self.end(now, place);
            }
        }
    }

    fn end(&mut self, now: Time, place: usize) {
        let connection = self.connections.remove(place).connection;
        self.shared.on_end(connection.route);
        self.tell(Event::Disconnected(Box::new(connection.report(now))));
    }

    /// Receives the last packets of connections that are over, when they are due, and then ends these connections.
    fn drain(&mut self, now: Time) {
        for place in (0..self.connections.len()).rev() {
            let held = &self.connections[place];
            let Some(over_at) = held.over_at else {
                continue;
            };
            let connection = held.connection.clone();
            while matches!(self.take(now, &connection), Ok(true)) {}
            if now >= over_at {
                self.end(now, place);
            }
        }
    }

    /// Continues attempts to connect.
    fn call(&mut self, now: Time) {
        for index in 0..self.callers.len() {
            let step = self.callers[index].step(now);
            let caller = &self.callers[index];
            match step {
                Step::Nothing => {}
                Step::Begun => {
                    if let Some(socket) = caller.calling() {
                        let _ = self.poll.add(socket, ANSWER);
                    }
                }
                Step::Answered(socket, peer) => {
                    let id = self.shared.stream_id.clone().unwrap_or_default();
                    if let Some(route) = self.shared.routes.only() {
                        self.connect(now, socket, peer, id, route, Some(index));
                    }
                }
                Step::Failed(why, again_in) => self.tell(Event::CallFailed {
                    to: caller.to.clone(),
                    why,
                    again_in,
                }),
            }
        }
    }

    fn publish(&self, now: Time) {
        let connections = self.connections.iter().map(|held| &held.connection);
        let connections = connections.map(|connection| {
            connection.look();
            connection.report(now)
        });
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let shared = &self.shared;
        let report = Report {
            connections: connections.collect(),
            streams: shared.outputs.iter().map(super::Output::report).collect(),
            connected: count(&shared.connected),
            drops: Drops {
                node: self.outlet.dropped(),
                unwanted: count(&shared.unwanted),
                refused: count(&shared.refusals),
                handshake: count(&shared.let_in).saturating_sub(count(&shared.shaken)),
            },
        };
        *shared.report.lock().unwrap_or_else(PoisonError::into_inner) = report;
    }

    fn tell(&self, event: Event) {
        (self.shared.tell)(event);
    }
}
