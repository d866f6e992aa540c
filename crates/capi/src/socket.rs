//! One overlay socket of the program.
//!
//! ```text
//!   datagrams:  Datagram ── connect ──▶ Raw
//!   streams:    Fresh ── listen ──▶ Listener ── accept ──▶ another socket: Stream
//!                 │ └── connect ──▶ Stream
//!                 └── connect, non-blocking ──▶ Connecting ──▶ Stream, or Failed
//! ```
//!
//! A call takes what it needs from the state, and blocks without holding the lock, so that one thread may receive while
//! another sends.

mod connect;
mod data;

use crate::address::Address;
use crate::errno::{self, Errno};
use crate::{option, sys};
use base::{NodeAddr, VirtualPort};
use client::{Accepted, DatagramSocket, Error, Listener, Node, Options, Target};
use core::mem;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The address of a socket that is neither bound nor connected.
const NOWHERE: Target = Target {
    node: NodeAddr(0),
    port: VirtualPort(0),
};
/// Largest size of a message of a stream.
const MESSAGE_BYTES_MAX: usize = 65_507;

/// An overlay socket.
#[derive(Debug)]
pub(crate) struct Socket {
    number: RawFd,
    kind: libc::c_int,
    options: Mutex<Options>,
    state: Mutex<State>,
    /// The program has shut down reading.
    shut: AtomicBool,
}

#[derive(Debug)]
pub(crate) enum State {
    /// Its descriptor is the connection to the node.
    Datagram(Arc<DatagramSocket>),
    /// A connected datagram socket: its descriptor carries bare payload.
    Raw {
        _number: OwnedFd,
        local: Target,
        peer: Target,
        max_payload: usize,
    },
    /// A new stream socket, which may already have a port.
    Fresh {
        /// The descriptor, one end of a pair.
        number: OwnedFd,
        /// The other end.
        other: OwnedFd,
        port: Option<DatagramSocket>,
    },
    Listener {
        _number: OwnedFd,
        listener: Arc<Listener>,
    },
    Connecting {
        number: OwnedFd,
    },
    /// Connecting has failed, which is reported once.
    Failed {
        _number: OwnedFd,
        why: Errno,
    },
    Stream {
        /// The descriptor, if it is not the stream's own.
        _number: Option<OwnedFd>,
        stream: Arc<Accepted>,
    },
    /// The state while one state is replaced by another.
    Between,
}

/// Returns the program's node: that of `SINEW_NODE`, or the only one that can be found.
fn node() -> Result<Node, Errno> {
    sys::settle_at_exit();
    Node::from_env().map_err(|error| errno::of(&error))
}

impl Socket {
    /// Creates a datagram socket. Its number is that of its connection to the node.
    pub(crate) fn datagram() -> Result<Socket, Errno> {
        let options = Options::best_effort();
        let socket = node()?.open(options).map_err(|e| errno::of(&e))?;
        let number = socket.as_raw_fd();
        let state = State::Datagram(Arc::new(socket));
        Ok(Socket::new(number, libc::SOCK_DGRAM, options, state))
    }

    /// Creates a stream socket, of bytes (SOCK_STREAM) or messages (SOCK_SEQPACKET). It does not contact the node yet.
    pub(crate) fn stream(kind: libc::c_int) -> Result<Socket, Errno> {
        let (number, other) = sys::pair()?;
        let raw = number.as_raw_fd();
        let state = State::Fresh {
            number,
            other,
            port: None,
        };
        Ok(Socket::new(raw, kind, Options::stream(), state))
    }

    fn new(number: RawFd, kind: libc::c_int, options: Options, state: State) -> Socket {
        Socket {
            number,
            kind,
            options: Mutex::new(options),
            state: Mutex::new(state),
            shut: AtomicBool::new(false),
        }
    }

    /// Returns its descriptor, which never changes.
    pub(crate) fn number(&self) -> RawFd {
        self.number
    }

    /// Returns SOCK_DGRAM, SOCK_STREAM or SOCK_SEQPACKET.
    pub(crate) fn kind(&self) -> libc::c_int {
        self.kind
    }

    pub(crate) fn bind(&self, address: Address) -> Result<(), Errno> {
        let options = *self.options();
        let mut state = self.state();
        let is_ours = |own: NodeAddr| match address.is_own() || address.target(own).node == own {
            true => Ok(()),
            false => Err(libc::EADDRNOTAVAIL),
        };
        match &mut *state {
            State::Datagram(socket) => {
                is_ours(socket.local().node)?;
                if socket.local().port.0 != 0 {
                    return Err(libc::EINVAL);
                }
                let socket = Arc::get_mut(socket).ok_or(libc::EBUSY)?;
                self.asking(|| socket.bind(address.port))
            }
            State::Fresh {
                port: port @ None, ..
            } => {
                let mut socket = node()?.open(options).map_err(|e| errno::of(&e))?;
                is_ours(socket.local().node)?;
                socket.bind(address.port).map_err(|e| errno::of(&e))?;
                *port = Some(socket);
                Ok(())
            }
            _ => Err(libc::EINVAL),
        }
    }

    pub(crate) fn listen(&self, backlog: libc::c_int) -> Result<(), Errno> {
        let backlog = u16::try_from(backlog.max(1)).unwrap_or(u16::MAX);
        let options = *self.options();
        let mut state = self.state();
        match mem::replace(&mut *state, State::Between) {
            State::Fresh {
                number,
                other,
                port,
            } => {
                let listening = || {
                    let socket = match port {
                        Some(socket) => socket,
                        None => node()?.bind(0, options).map_err(|e| errno::of(&e))?,
                    };
                    let listener = socket.into_listener(backlog).map_err(|e| errno::of(&e))?;
                    sys::replace(self.number, listener.as_raw_fd())?;
                    Ok(listener)
                };
                match listening() {
                    Ok(listener) => {
                        *state = State::Listener {
                            _number: number,
                            listener: Arc::new(listener),
                        };
                        Ok(())
                    }
                    Err(why) => {
                        *state = State::Fresh {
                            number,
                            other,
                            port: None,
                        };
                        Err(why)
                    }
                }
            }
            other => {
                let again = matches!(other, State::Listener { .. });
                let datagrams = matches!(other, State::Datagram(_) | State::Raw { .. });
                *state = other;
                match (again, datagrams) {
                    (true, _) => Ok(()),
                    (_, true) => Err(libc::EOPNOTSUPP),
                    _ => Err(libc::EINVAL),
                }
            }
        }
    }

    /// Returns the next stream of a listener, and its peer.
    pub(crate) fn accept(&self) -> Result<(Socket, Target), Errno> {
        let listener = match &*self.state() {
            State::Listener { listener, .. } => Arc::clone(listener),
            State::Datagram(_) | State::Raw { .. } => return Err(libc::EOPNOTSUPP),
            _ => return Err(libc::EINVAL),
        };
        let stream = loop {
            let stream = listener.accept().map_err(|e| errno::of(&e))?;
            let bytes = matches!(stream, Accepted::Bytes(_));
            if bytes == (self.kind == libc::SOCK_STREAM) {
                break stream;
            }
            // The stream carries what this program does not expect.
            stream.reset();
        };
        let (number, peer) = (stream.as_fd().as_raw_fd(), stream.peer());
        let state = State::Stream {
            _number: None,
            stream: Arc::new(stream),
        };
        let options = *self.options();
        Ok((Socket::new(number, self.kind, options, state), peer))
    }

    /// Returns the address of this end.
    pub(crate) fn local(&self) -> Result<Target, Errno> {
        match &*self.state() {
            State::Datagram(socket) => Ok(socket.local()),
            State::Raw { local, .. } => Ok(*local),
            State::Fresh { port, .. } => Ok(port.as_ref().map_or(NOWHERE, DatagramSocket::local)),
            State::Listener { listener, .. } => Ok(listener.local()),
            State::Stream { stream, .. } => Ok(stream.local()),
            State::Connecting { .. } | State::Failed { .. } => Ok(NOWHERE),
            State::Between => Err(libc::EBUSY),
        }
    }

    /// Returns the address of the other end.
    pub(crate) fn peer(&self) -> Result<Target, Errno> {
        match &*self.state() {
            State::Raw { peer, .. } => Ok(*peer),
            State::Stream { stream, .. } => Ok(stream.peer()),
            _ => Err(libc::ENOTCONN),
        }
    }

    /// Ends the stream in order, because the program ends in order.
    pub(crate) fn finish(&self) {
        // If another thread holds the lock at this moment, it is doing something else with the socket.
        if let Ok(state) = self.state.try_lock()
            // If a thread carries the stream's data, that thread finishes the stream.
            && let State::Stream { _number: None, stream } = &*state
        {
            stream.finish();
        }
    }

    /// Returns true for a listener.
    pub(crate) fn is_listening(&self) -> bool {
        matches!(&*self.state(), State::Listener { .. })
    }

    /// Changes an option of the level `SOL_SINEW`.
    pub(crate) fn set_option(&self, name: libc::c_int, value: libc::c_int) -> Result<(), Errno> {
        let mut options = self.options();
        let changed = option::set(*options, name, value)?;
        let state = self.state();
        match &*state {
            State::Datagram(socket) => {
                let socket = Arc::clone(socket);
                drop(state);
                self.asking(|| socket.set_options(changed))?;
            }
            State::Fresh { port, .. } => {
                if let Some(port) = port {
                    port.set_options(changed).map_err(|e| errno::of(&e))?;
                }
            }
            // A connection of bare payload has no way to send a request.
            _ => return Err(libc::EISCONN),
        }
        *options = changed;
        Ok(())
    }

    /// Joins a group, or leaves it, at the socket's port.
    pub(crate) fn set_membership(&self, group: NodeAddr, joins: bool) -> Result<(), Errno> {
        let State::Datagram(socket) = &*self.state() else {
            // Streams have no groups, and a connection of bare payload has no way to send a request.
            return Err(libc::EOPNOTSUPP);
        };
        let socket = Arc::clone(socket);
        let port = socket.local().port.0;
        self.asking(|| match joins {
            true => socket.join(group, port),
            false => socket.leave(group, port),
        })
    }

    /// Returns the value of an option of the level `SOL_SINEW`.
    pub(crate) fn option(&self, name: libc::c_int) -> Result<libc::c_int, Errno> {
        if name == option::MAX_PAYLOAD {
            let bytes = match &*self.state() {
                State::Datagram(socket) => socket.max_payload(),
                State::Raw { max_payload, .. } => *max_payload,
                _ => MESSAGE_BYTES_MAX,
            };
            return Ok(bytes as libc::c_int);
        }
        if name == option::GIVEN_UP || name == option::MISSED {
            return self.expired(name == option::GIVEN_UP);
        }
        option::value(*self.options(), name)
    }

    /// Returns the number of expired messages of a stream: those of this end, or those of the peer.
    fn expired(&self, given_up: bool) -> Result<libc::c_int, Errno> {
        let stream = match &*self.state() {
            State::Stream { stream, .. } => Arc::clone(stream),
            _ => return Err(libc::ENOTCONN),
        };
        let Accepted::Messages(messages) = &*stream else {
            return Err(libc::ENOPROTOOPT);
        };
        let expired = messages.expired().map_err(|error| {
            let number = error.raw_os_error();
            number.unwrap_or(libc::EIO)
        })?;
        let count = if given_up {
            expired.given_up
        } else {
            expired.missed
        };
        Ok(libc::c_int::try_from(count).unwrap_or(libc::c_int::MAX))
    }

    /// Makes a request to the node. This changes flags and timeouts of the connection, which are then restored.
    fn asking<T>(&self, ask: impl FnOnce() -> Result<T, Error>) -> Result<T, Errno> {
        let (flags, times) = (sys::flags(self.number)?, sys::timeouts(self.number));
        let answer = ask();
        sys::set_flags(self.number, flags)?;
        sys::set_timeouts(self.number, times);
        answer.map_err(|error| match error {
            Error::Timeout { .. } => {
                errno::of(&error);
                libc::ETIMEDOUT
            }
            error => errno::of(&error),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn options(&self) -> MutexGuard<'_, Options> {
        self.options.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
