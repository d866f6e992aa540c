//! The operator's socket: one JSON request per line, one JSON answer per line.
//!
//! ```text
//!   {"cmd":"snapshot"}                                    {"snapshot":..,"counters":..,"host":..,"nodes":..}
//!   {"cmd":"network"}                                     {"nodes":[..],"links":[..],"rule":{..},"holds":[..],..}
//!   {"cmd":"groups"}                                      {"groups":[..]}
//!   {"cmd":"groups","group":"239.1.1.1"}                  {"groups":[{.. the whole tree ..}]}
//!   {"cmd":"group_set","group":"239.1.1.1",..}            {"done":"group_set","admission":{..}}
//!   {"cmd":"group_clear","group":"239.1.1.1"}             {"done":"group_clear"}
//!   {"cmd":"link_set","neighbor":"fra","model":"loss=5%"} {"done":"link_set"}
//!   {"cmd":"link_clear","neighbor":"10.7.0.2"}            {"done":"link_clear"}
//!   {"cmd":"renew","certificate":"-----BEGIN .."}         {"done":"renew"}
//!   {"cmd":"revoke","list":"-----BEGIN .."}               {"done":"revoke"}
//!   {"cmd":"succeed","network":"-----BEGIN .."}           {"done":"succeed"}
//!   {"cmd":"cancel","transfer":"9f3c21aa"}                {"done":"cancel"}
//!   {"cmd":"reload"}                                      {"done":"reload","taken":[..],"later":[..],"refused":[..]}
//!   {"cmd":"stop"}                                        {"done":"stop"}
//!   {"cmd":"observe"}                                     {"done":"observe"}: changes are refused from now on
//!   anything else                                         {"error":"what, and what to do"}
//! ```
//!
//! One thread serves all connections; it queries the loop by [`crate::Commander`] and never touches the engine. The
//! file has mode 0600 from its first moment: anybody who can connect is the operator. Requests, connections and idle
//! times are bounded. An answer is sent before the next request is read, so that an operator who does not read delays
//! nobody and costs one answer.

mod connection;
pub(crate) mod listener;
mod operator;
mod rights;
#[cfg(test)]
mod tests;

pub use connection::MAX_LINE_BYTES;
pub use listener::ControlError;
pub use operator::{AskedWays, Files, Given, GroupSet, Operator, Reload, Reloaded};
pub use rights::OBSERVE;

use crate::log::Lines;
use crate::rest::Rest;
use connection::Connection;
pub(crate) use listener::Listener;
use net::epoll::{Interest, Poller, Ready, Waker};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Largest number of connections: enough for a few operators with `--watch`, and other tools.
pub const MAX_CONNECTIONS: usize = 16;
/// A connection that sends no request for this time is closed. Watching tools send one per second.
const IDLE: Duration = Duration::from_secs(60);
/// A connection that has sent no request for this time makes room for another one if all places are taken.
const MAKES_ROOM: Duration = Duration::from_secs(2);
/// How often the server looks for idle connections.
const SWEEP: base::Duration = base::Duration::from_secs(5);

const TOKEN_LISTENER: u64 = 0;
const TOKEN_WAKER: u64 = 1;
const TOKEN_CONNECTIONS: u64 = 2;

/// The running socket. Dropping this value ends the thread and removes the file.
#[derive(Debug)]
pub struct Control {
    thread: Option<JoinHandle<()>>,
    stopping: Arc<AtomicBool>,
    waker: Waker,
}

impl Control {
    /// Listens at `path`, and answers requests by `operator`. The file of a killed node is replaced; a running node is
    /// not disturbed.
    pub fn start(path: &Path, operator: Operator, lines: Lines) -> Result<Control, ControlError> {
        let listener = Listener::bind(path)?;
        let io = |error| ControlError::Io {
            path: path.to_owned(),
            error,
        };
        let (poller, waker) = (Poller::new().map_err(io)?, Waker::new().map_err(io)?);
        poller
            .add(&listener, TOKEN_LISTENER, Interest::READ)
            .map_err(io)?;
        poller
            .add(&waker, TOKEN_WAKER, Interest::READ)
            .map_err(io)?;
        let stopping = Arc::new(AtomicBool::new(false));
        let connections = (0..MAX_CONNECTIONS).map(|_| None).collect();
        let server = Server {
            listener,
            poller,
            connections,
            operator,
            lines,
            stopping: Arc::clone(&stopping),
            rest: Rest::default(),
            is_deaf: false,
        };
        let thread = std::thread::Builder::new().name("control".into());
        let thread = thread.spawn(move || server.run()).map_err(io)?;
        Ok(Control {
            thread: Some(thread),
            stopping,
            waker,
        })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // A panic of that thread was already reported there.
            let _ = thread.join();
        }
    }
}

struct Server {
    listener: Listener,
    poller: Poller,
    connections: Vec<Option<Connection>>,
    operator: Operator,
    lines: Lines,
    stopping: Arc<AtomicBool>,
    rest: Rest,
    /// The poller does not watch the listener while it rests.
    is_deaf: bool,
}

impl Server {
    fn run(mut self) {
        let mut ready = Vec::new();
        while !self.stopping.load(Ordering::Acquire) {
            let anybody = self.connections.iter().any(Option::is_some);
            let rests = self.rest.left(Instant::now());
            if rests.is_none() && self.is_deaf {
                self.listen();
            }
            let rests = rests.map(|left| base::Duration::from_nanos(left.as_nanos() as u64));
            let wait = rests.into_iter().chain(anybody.then_some(SWEEP)).min();
            if let Err(error) = self.poller.wait(wait, &mut ready) {
                self.lines.error(&format!(
                    "the control socket has failed and is closed: {error}"
                ));
                return;
            }
            for event in &ready {
                self.on_ready(event);
            }
            self.close_idle(IDLE);
        }
    }

    fn on_ready(&mut self, event: &Ready) {
        match event.token {
            TOKEN_LISTENER => self.accept(),
            TOKEN_WAKER => {}
            token => {
                let i = (token - TOKEN_CONNECTIONS) as usize;
                let Some(connection) = self.connections.get_mut(i).and_then(Option::as_mut) else {
                    return;
                };
                let operator = &mut self.operator;
                match connection.advance(|line, rights| operator.answer(line, rights)) {
                    Ok(interest) if self.poller.modify(&*connection, token, interest).is_ok() => {}
                    // Closing the descriptor removes it from the poller.
                    _ => self.connections[i] = None,
                }
            }
        }
    }

    fn accept(&mut self) {
        let stream = match self.listener.accept() {
            Ok(Some(stream)) => stream,
            Ok(None) => return,
            Err(error) => {
                if let Some(more) = self.rest.begin(Instant::now()) {
                    let text = format!("operators are turned away: {error} ({more} times more)");
                    self.lines.warn(&text);
                }
                // A waiting connection would wake the loop at once.
                self.is_deaf = self.poller.remove(&self.listener).is_ok();
                return;
            }
        };
        let Some(i) = self.place() else {
            let text = format!("{MAX_CONNECTIONS} operators are connected: close one of them");
            Connection::refuse(&stream, &text);
            return;
        };
        let token = TOKEN_CONNECTIONS + i as u64;
        if self.poller.add(&stream, token, Interest::READ).is_ok() {
            self.connections[i] = Some(Connection::new(stream));
        }
    }

    /// Watches the listener again.
    fn listen(&mut self) {
        let added = self
            .poller
            .add(&self.listener, TOKEN_LISTENER, Interest::READ);
        self.is_deaf = added.is_err();
        if self.is_deaf {
            // The kernel has no memory: the listener rests again.
            let _ = self.rest.begin(Instant::now());
        }
    }

    /// Returns a free place. If there is none, the connection that has been idle for the longest time makes room, if it
    /// was idle long enough.
    fn place(&mut self) -> Option<usize> {
        if let Some(free) = self.connections.iter().position(Option::is_none) {
            return Some(free);
        }
        let idle_since = |i: &usize| self.connections[*i].as_ref().map(Connection::last_active);
        let longest = (0..self.connections.len()).min_by_key(idle_since)?;
        let idle = idle_since(&longest).is_some_and(|since| since.elapsed() >= MAKES_ROOM);
        idle.then(|| {
            self.connections[longest] = None;
            longest
        })
    }

    fn close_idle(&mut self, idle: Duration) {
        let now = Instant::now();
        for place in &mut self.connections {
            if place
                .as_ref()
                .is_some_and(|c| now.duration_since(c.last_active()) >= idle)
            {
                *place = None;
            }
        }
    }
}

/// Returns an error as an answer.
pub(crate) fn error_line(text: &str) -> String {
    serde_json::json!({ "error": text }).to_string()
}

/// Returns true if nothing can be read or written now.
pub(crate) fn would_block(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}
