//! Connects at once, or in the background.

use super::{Socket, State, node};
use crate::address::Address;
use crate::connecting;
use crate::errno::{self, Errno};
use crate::sys;
use client::{Accepted, DatagramSocket, Error, Framing, Target};
use core::mem;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;

impl Socket {
    pub(crate) fn connect(self: &Arc<Socket>, address: Address) -> Result<(), Errno> {
        let mut state = self.state();
        match mem::replace(&mut *state, State::Between) {
            State::Datagram(socket) => {
                let (next, result) = self.connect_datagram(socket, address);
                *state = next;
                result
            }
            State::Fresh {
                number,
                other,
                port,
            } => {
                let bytes = self.kind == libc::SOCK_STREAM;
                let nonblocking = sys::flags(self.number).is_ok_and(|f| f & libc::O_NONBLOCK != 0);
                if bytes && nonblocking {
                    *state = State::Connecting { number };
                    drop(state);
                    let open = self.opening(address, port);
                    let started = connecting::start(self, other, open);
                    return Err(match started {
                        Ok(()) => libc::EINPROGRESS,
                        Err(why) => {
                            self.connected(Err(why), || ());
                            why
                        }
                    });
                }
                drop(state);
                let opened = self.opening(address, port)();
                let opened = opened.and_then(|stream| {
                    sys::replace(self.number, stream.as_fd().as_raw_fd())?;
                    Ok(stream)
                });
                let (next, result) = match opened {
                    Ok(stream) => {
                        let next = State::Stream {
                            _number: None,
                            stream: Arc::new(stream.rehomed(number)),
                        };
                        (next, Ok(()))
                    }
                    Err(why) => {
                        let next = State::Fresh {
                            number,
                            other,
                            port: None,
                        };
                        (next, Err(why))
                    }
                };
                *self.state() = next;
                result
            }
            other => {
                let why = match &other {
                    State::Connecting { .. } => libc::EALREADY,
                    State::Failed { why, .. } => *why,
                    State::Between => libc::EALREADY,
                    _ => libc::EISCONN,
                };
                *state = other;
                Err(why)
            }
        }
    }

    fn connect_datagram(
        &self,
        socket: Arc<DatagramSocket>,
        address: Address,
    ) -> (State, Result<(), Errno>) {
        let socket = match Arc::try_unwrap(socket) {
            Ok(socket) => socket,
            // Another thread is blocked in it.
            Err(used) => return (State::Datagram(used), Err(libc::EBUSY)),
        };
        let (node, max_payload) = (socket.local().node, socket.max_payload());
        let peer = address.target(node);
        let mut kept = None;
        let raw = self.asking(|| {
            socket.into_raw(peer).map_err(|refused| {
                let (socket, error) = *refused;
                kept = Some(socket);
                error
            })
        });
        match (raw, kept) {
            (Ok((fd, port)), _) => {
                let raw = State::Raw {
                    _number: fd,
                    local: Target { node, port },
                    peer,
                    max_payload,
                };
                (raw, Ok(()))
            }
            (Err(why), Some(socket)) => (State::Datagram(Arc::new(socket)), Err(why)),
            (Err(why), None) => (State::Between, Err(why)),
        }
    }

    /// Returns a function that opens the stream; it waits for the peer.
    fn opening(
        &self,
        address: Address,
        port: Option<DatagramSocket>,
    ) -> impl FnOnce() -> Result<Accepted, Errno> + Send + 'static {
        let options = *self.options();
        let framing = match self.kind {
            libc::SOCK_SEQPACKET => Framing::Messages,
            _ => Framing::Bytes,
        };
        move || {
            let socket = match port {
                Some(socket) => socket,
                None => node()?.open(options).map_err(|e| errno::of(&e))?,
            };
            let peer = address.target(socket.local().node);
            socket
                .into_stream(peer, framing)
                .map_err(|error| match error {
                    Error::Timeout { .. } => {
                        errno::of(&error);
                        libc::ETIMEDOUT
                    }
                    error => errno::of(&error),
                })
        }
    }

    /// Notes the result of connecting in the background. `number` stays the program's descriptor; `show` makes it
    /// writable. A program that sees this finds the socket in its new state.
    pub(crate) fn connected(&self, outcome: Result<Arc<Accepted>, Errno>, show: impl FnOnce()) {
        let mut state = self.state();
        show();
        *state = match (mem::replace(&mut *state, State::Between), outcome) {
            (State::Connecting { number }, Ok(stream)) => State::Stream {
                _number: Some(number),
                stream,
            },
            (State::Connecting { number }, Err(why)) => State::Failed {
                _number: number,
                why,
            },
            (other, _) => other,
        };
    }

    /// Returns the value of SO_ERROR: the failure of connecting in the background, once.
    pub(crate) fn take_error(&self) -> Errno {
        match &mut *self.state() {
            State::Failed { why, .. } => mem::replace(why, libc::ECONNABORTED),
            _ => 0,
        }
    }
}
