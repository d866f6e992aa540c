//! Carries a TCP port over the overlay: the near half and the exit.
//!
//! ```text
//!   Near: TCP listener ── each connection ──▶ stream to the exit's node and port
//!   Exit: overlay port ── each stream ──▶ TCP connection to the one target that it is for
//! ```
//! A connection that cannot be carried further ends in a reset on both sides, never in what looks like the end of the
//! data. Both halves report what happens as [`Event`]s, whose text is for people.

use crate::accept;
use crate::pump::{Carried, carry};
use crate::slots::{Slot, Slots};
use base::NodeAddr;
use client::{Accepted, Listener, Node, Options, Stream, Target};
use core::fmt;
use core::time::Duration;
use net::tcp;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// The maximum number of simultaneous connections: two threads and four descriptors each. A browser has some dozens.
pub const MAX_CONNECTIONS: usize = 512;
/// How long a target may take to answer: as long as the near half waits for the exit.
const DIAL_TIMEOUT: Duration = Duration::from_secs(20);
/// The stack size of a connection's thread, which has a buffer on the heap and little on its stack.
const STACK_BYTES: usize = 128 * 1024;

/// An event of a connection.
#[derive(Debug)]
pub enum Event {
    /// A connection has been opened.
    Opened {
        /// The client's address: a TCP address, or an overlay address.
        from: String,
        /// The target.
        to: String,
    },
    /// A connection has ended in order.
    Closed {
        /// The client's address.
        from: String,
        /// The target.
        to: String,
        /// The amounts of carried data.
        carried: Carried,
    },
    /// A connection was not opened, or has ended early.
    Failed {
        /// The client's address.
        from: String,
        /// The target.
        to: String,
        /// The reason.
        why: String,
    },
}

/// The receiver of events, which may be called on any thread.
pub type Report = Arc<dyn Fn(&Event) + Send + Sync>;

/// The near half: a TCP port of this host.
pub struct Near {
    listener: TcpListener,
    node: Node,
    to: Target,
    options: Options,
    connections: Connections<()>,
}

/// The far half: a port of the node, and its only target.
pub struct Exit {
    listener: Listener,
    target: Arc<Mutex<String>>,
    connections: Connections<NodeAddr>,
}

/// A handle that changes a running exit. Streams that it already carries continue unchanged.
#[derive(Debug)]
pub struct ExitHandle {
    listener: OwnedFd,
    target: Arc<Mutex<String>>,
}

impl ExitHandle {
    /// Sets the target of new streams to `target`.
    pub fn lead_to(&self, target: &str) {
        target.clone_into(&mut lock(&self.target));
    }

    /// Closes the exit for new streams: its [`Exit::serve`] ends.
    pub fn close(self) {
        // An exit that has already ended is closed.
        let _ = UnixStream::from(self.listener).shutdown(Shutdown::Both);
    }
}

fn lock(target: &Mutex<String>) -> MutexGuard<'_, String> {
    target.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The connections of one half, and the parties that share them: at an exit, nodes.
struct Connections<K: Ord> {
    open: Slots<K>,
    report: Report,
}

impl Near {
    /// Listens at `local` and carries connections to `to`, over `node`.
    pub fn bind(
        local: SocketAddr,
        node: Node,
        to: Target,
        options: Options,
        report: Report,
    ) -> io::Result<Near> {
        Ok(Near {
            listener: TcpListener::bind(local)?,
            node,
            to,
            options,
            connections: Connections::new(report),
        })
    }

    /// Returns the local address.
    pub fn local(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Waits for the next connection, accepts it, and carries it on its own threads.
    pub fn serve_next(&self) -> io::Result<()> {
        let (tcp, from) = match self.listener.accept() {
            Ok(accepted) => accepted,
            Err(error) if accept::outlives(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        // No later error may look like an empty answer.
        let _ = tcp::abort_on_close(&tcp, true);
        let (node, to, options) = (self.node.clone(), self.to, self.options);
        let (from, target) = (from.to_string(), to.to_string());
        let open = self.connections.open.take();
        self.connections.start(open, from, target, move |opened| {
            match node.connect(to, options) {
                Ok(stream) => {
                    opened();
                    carry(tcp, stream)
                }
                Err(error) => {
                    tcp::abort(&tcp);
                    (Carried::default(), Err(io::Error::other(error)))
                }
            }
        });
        Ok(())
    }
}

impl Exit {
    /// Accepts streams at `port` of `node` and carries each to `target`, a host and a port.
    pub fn bind(
        node: &Node,
        port: u16,
        target: &str,
        options: Options,
        report: Report,
    ) -> Result<Exit, client::Error> {
        Ok(Exit {
            listener: node.listen(port, options)?,
            target: Arc::new(Mutex::new(target.to_owned())),
            connections: Connections::new(report),
        })
    }

    /// Returns a handle to change the exit while it serves.
    pub fn handle(&self) -> io::Result<ExitHandle> {
        Ok(ExitHandle {
            listener: self.listener.as_fd().try_clone_to_owned()?,
            target: Arc::clone(&self.target),
        })
    }

    /// Returns the node and port at which it accepts streams.
    pub fn local(&self) -> Target {
        self.listener.local()
    }

    /// Waits for the next stream, accepts it, and carries it on its own threads.
    pub fn serve_next(&self) -> Result<(), client::Error> {
        let stream = match self.listener.accept() {
            Ok(Accepted::Bytes(stream)) => stream,
            Err(error @ client::Error::Descriptors) => {
                let (from, to) = ("?".to_owned(), lock(&self.target).clone());
                let why = error.to_string();
                (self.connections.report)(&Event::Failed { from, to, why });
                return Ok(());
            }
            Err(error) => return Err(error),
            Ok(Accepted::Messages(stream)) => {
                // TCP has no messages.
                stream.reset();
                return Ok(());
            }
        };
        let (from, target) = (stream.peer().to_string(), lock(&self.target).clone());
        let open = self.connections.open.take_for(stream.peer().node);
        let to = target.clone();
        self.connections
            .start(open, from, to, move |opened| match dial(&target) {
                Ok(tcp) => {
                    opened();
                    carry(tcp, stream)
                }
                Err(error) => refuse(stream, error),
            });
        Ok(())
    }

    /// Serves until the node is gone.
    pub fn serve(&self) -> client::Error {
        loop {
            if let Err(error) = self.serve_next() {
                return error;
            }
        }
    }
}

fn refuse(stream: Stream, error: io::Error) -> (Carried, io::Result<()>) {
    stream.reset();
    (Carried::default(), Err(error))
}

/// Connects to the first of the target's addresses that answers.
fn dial(target: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for addr in target.to_socket_addrs()? {
        match TcpStream::connect_timeout(&addr, DIAL_TIMEOUT) {
            Ok(tcp) => return Ok(tcp),
            Err(error) => last = error,
        }
    }
    Err(last)
}

impl<K: Ord + Clone + Send + 'static> Connections<K> {
    fn new(report: Report) -> Connections<K> {
        Connections {
            open: Slots::new(MAX_CONNECTIONS),
            report,
        }
    }

    /// Carries one connection on its own thread, if there is a place for it. `carry` gets a function that it must call
    /// once the connection is open on both sides.
    fn start(
        &self,
        open: Option<Slot<K>>,
        from: String,
        to: String,
        carry: impl FnOnce(&dyn Fn()) -> (Carried, io::Result<()>) + Send + 'static,
    ) {
        let Some(open) = open else {
            let taken = self.open.taken();
            let why = match taken < MAX_CONNECTIONS {
                true => format!(
                    "this node has its share of the {MAX_CONNECTIONS} connections, {taken} of which \
                     are open"
                ),
                false => format!("{MAX_CONNECTIONS} connections are open already"),
            };
            return (self.report)(&Event::Failed { from, to, why });
        };
        let report = self.report.clone();
        let (whose, where_to) = (from.clone(), to.clone());
        let thread = thread::Builder::new()
            .stack_size(STACK_BYTES)
            .spawn(move || {
                let _open = open;
                let opened = || {
                    report(&Event::Opened {
                        from: from.clone(),
                        to: to.clone(),
                    });
                };
                let (carried, ended) = carry(&opened);
                let (from, to) = (from.clone(), to.clone());
                report(&match ended {
                    Ok(()) => Event::Closed { from, to, carried },
                    Err(error) => Event::Failed {
                        from,
                        to,
                        why: error.to_string(),
                    },
                });
            });
        if let Err(error) = thread {
            (self.report)(&Event::Failed {
                from: whose,
                to: where_to,
                why: format!("no thread for it: {error}"),
            });
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Opened { from, to } => write!(f, "{from} -> {to}: open"),
            Event::Closed { from, to, carried } => write!(
                f,
                "{from} -> {to}: closed, {} bytes to the overlay, {} bytes from it",
                carried.to_overlay, carried.to_tcp
            ),
            Event::Failed { from, to, why } => write!(f, "{from} -> {to}: {why}"),
        }
    }
}

impl fmt::Debug for Near {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Near { listener, to, .. } = self;
        f.debug_struct("Near")
            .field("listener", listener)
            .field("to", to)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Exit {
            listener, target, ..
        } = self;
        f.debug_struct("Exit")
            .field("listener", listener)
            .field("target", target)
            .finish_non_exhaustive()
    }
}

impl AsFd for Near {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl AsFd for Exit {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}
