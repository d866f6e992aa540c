//! The connections of the metrics server. It polls all of them together, so that none waits for another.
//!
//! ```text
//!   accepted ── request whole, too long or late ──▶ answering ── written, or late ──▶ closed
//! ```
//! If all places are taken, the connection that has been silent for the longest time is closed, or else the oldest one.

use super::hosts::Hosts;
use super::{MAX_REQUEST_BYTES, Source, answer};
use crate::log::Lines;
use crate::rest::Rest;
use net::epoll::Waker;
use net::poll::{Polled, poll};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Largest number of connections, each for one request of a scraper or browser.
pub(super) const MAX_CONNECTIONS: usize = 32;

pub(super) struct Server<S> {
    pub(super) listener: TcpListener,
    pub(super) waker: Waker,
    pub(super) stopping: Arc<AtomicBool>,
    pub(super) source: S,
    pub(super) hosts: Hosts,
    pub(super) lines: Lines,
    /// The time limit of a request, and then that of its answer.
    pub(super) patience: Duration,
}

struct Connection {
    stream: TcpStream,
    head: Vec<u8>,
    /// The rest of the answer; none while the request is incomplete.
    answer: Option<Vec<u8>>,
    until: Instant,
}

impl<S: Source> Server<S> {
    /// Serves until it has to stop.
    pub(super) fn run(self) {
        // The oldest connection comes first.
        let mut connections: Vec<Connection> = Vec::new();
        let mut rest = Rest::default();
        while !self.stopping.load(Ordering::Acquire) {
            let now = Instant::now();
            let rests = rest.left(now);
            let untils = connections.iter().map(|connection| connection.until);
            let left = untils.map(|until| until.saturating_duration_since(now));
            let wait = left.chain(rests).min();
            let mut polled = vec![
                Polled::new(self.waker.as_fd(), true, false),
                Polled::new(self.listener.as_fd(), rests.is_none(), false),
            ];
            polled.extend(connections.iter().map(|connection| {
                let answers = connection.answer.is_some();
                Polled::new(connection.stream.as_fd(), !answers, answers)
            }));
            if let Err(error) = poll(&mut polled, wait) {
                let text = format!("metrics are served no more: {error}");
                return self.lines.error(&text);
            }
            let comes = polled[1].readable() && rests.is_none();
            let ready: Vec<bool> = polled[2..]
                .iter()
                .map(|polled| polled.readable() || polled.writable())
                .collect();
            drop(polled);
            let now = Instant::now();
            let mut ready = ready.into_iter();
            connections.retain_mut(|connection| {
                let is_ready = ready.next().unwrap_or(false);
                // If the client has closed the connection before its answer, it does not need the answer.
                self.advance(connection, is_ready, now).unwrap_or(false)
            });
            if comes {
                self.accept(&mut connections, &mut rest, now);
            }
        }
    }

    fn accept(&self, connections: &mut Vec<Connection>, rest: &mut Rest, now: Instant) {
        let stream = match self.listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if net::tcp::has_run_out(&error) => {
                if let Some(more) = rest.begin(now) {
                    let text = format!("metrics cannot be asked for: {error} ({more} times more)");
                    self.lines.warn(&text);
                }
                // A silent connection is closed, to free its descriptor.
                if let Some(silent) = silent(connections) {
                    connections.remove(silent);
                }
                return;
            }
            Err(_) => return,
        };
        if connections.len() >= MAX_CONNECTIONS {
            // Remove the oldest connection if none is silent.
            connections.remove(silent(connections).unwrap_or(0));
        }
        if stream.set_nonblocking(true).is_ok() {
            connections.push(Connection {
                stream,
                head: Vec::new(),
                answer: None,
                until: now + self.patience,
            });
        }
    }

    /// Continues with a connection. Returns false when it is done.
    fn advance(
        &self,
        connection: &mut Connection,
        is_ready: bool,
        now: Instant,
    ) -> io::Result<bool> {
        if connection.answer.is_none() {
            let is_whole = is_ready && connection.hear()?;
            if !is_whole && now < connection.until {
                return Ok(true);
            }
            let head = match is_whole && connection.head.len() <= MAX_REQUEST_BYTES {
                true => String::from_utf8_lossy(&connection.head).into_owned(),
                false => String::new(),
            };
            connection.answer = Some(answer(&head, &self.hosts, &self.source));
            connection.until = now + self.patience;
        } else if now >= connection.until {
            return Ok(false);
        }
        connection.tell()
    }
}

impl Connection {
    /// Reads what has arrived. Returns true if the request is complete or too long.
    fn hear(&mut self) -> io::Result<bool> {
        let mut bytes = [0; 1_024];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(len) => self.head.extend_from_slice(&bytes[..len]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            let ends = self.head.ends_with(b"\r\n\r\n") || self.head.ends_with(b"\n\n");
            if ends || self.head.len() > MAX_REQUEST_BYTES {
                return Ok(true);
            }
        }
    }

    /// Writes what the other side accepts. Returns false when everything is written.
    fn tell(&mut self) -> io::Result<bool> {
        let Some(answer) = &mut self.answer else {
            return Ok(true);
        };
        while !answer.is_empty() {
            match self.stream.write(answer) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(len) => drop(answer.drain(..len)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }
}

/// Returns the connection that has been silent for the longest time.
fn silent(connections: &[Connection]) -> Option<usize> {
    let is_silent =
        |connection: &Connection| connection.head.is_empty() && connection.answer.is_none();
    connections.iter().position(is_silent)
}
