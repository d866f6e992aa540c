//! Sending, receiving, and ending both.

use super::{MESSAGE_BYTES_MAX, Socket, State};
use crate::address::Address;
use crate::errno::{self, Errno};
use crate::sys;
use client::{Accepted, How, Target};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The length of what was received, and the sender, if it has to be reported.
pub(crate) type ReceivedFrom = (usize, Option<Target>);

impl Socket {
    pub(crate) fn send(
        &self,
        bytes: &[u8],
        flags: libc::c_int,
        to: Option<Address>,
    ) -> Result<usize, Errno> {
        let mut state = self.state();
        match &mut *state {
            State::Datagram(socket) => {
                let to = to.ok_or(libc::EDESTADDRREQ)?;
                if socket.local().port.0 == 0
                    // If another thread is blocked in it, we cannot learn the port: the node then binds the socket by
                    // itself.
                    && let Some(own) = Arc::get_mut(socket)
                {
                    self.asking(|| own.bind(0))?;
                }
                let socket = Arc::clone(socket);
                drop(state);
                let to = to.target(socket.local().node);
                let sent = socket.send_to_how(bytes, to, how(flags));
                let sent = sent.and_then(|()| socket.room_to(to));
                sent.map_err(|e| errno::of(&e)).map(|()| bytes.len())
            }
            State::Raw { max_payload, .. } => {
                if to.is_some() {
                    return Err(libc::EISCONN);
                }
                if bytes.len() > *max_payload {
                    return Err(libc::EMSGSIZE);
                }
                drop(state);
                // A signal must not kill the program because the node has gone.
                match sys::send(self.number, bytes, flags | libc::MSG_NOSIGNAL) {
                    Err(libc::EPIPE | libc::ECONNRESET) => Err(libc::ENETDOWN),
                    other => other,
                }
            }
            State::Stream { stream, .. } => {
                let stream = Arc::clone(stream);
                drop(state);
                self.send_to_stream(&stream, bytes, flags)
            }
            State::Connecting { .. } => Err(libc::EAGAIN),
            State::Fresh { .. } | State::Listener { .. } | State::Failed { .. } => {
                Err(libc::ENOTCONN)
            }
            State::Between => Err(libc::EBUSY),
        }
    }

    fn send_to_stream(
        &self,
        stream: &Accepted,
        bytes: &[u8],
        flags: libc::c_int,
    ) -> Result<usize, Errno> {
        if matches!(stream, Accepted::Messages(_)) {
            match bytes.len() {
                0 => return Err(libc::EINVAL),
                1..=MESSAGE_BYTES_MAX => {}
                _ => return Err(libc::EMSGSIZE),
            }
        }
        match sys::send(self.number, bytes, flags | libc::MSG_NOSIGNAL) {
            Err(libc::EPIPE) => match stream.take_error() {
                Some(error) => {
                    errno::say(&error.to_string());
                    Err(libc::ECONNRESET)
                }
                // Try once more, with the signal, unless the program wants none.
                None => sys::send(self.number, bytes, flags),
            },
            other => other,
        }
    }

    pub(crate) fn recv(
        &self,
        buffer: &mut [u8],
        flags: libc::c_int,
    ) -> Result<ReceivedFrom, Errno> {
        if flags & libc::MSG_OOB != 0 {
            return Err(libc::EOPNOTSUPP);
        }
        let state = self.state();
        match &*state {
            State::Datagram(socket) => {
                let socket = Arc::clone(socket);
                drop(state);
                let received = socket.recv_from_how(buffer, how(flags));
                let (len, from, _) = received.map_err(|e| errno::of(&e))?;
                Ok((len, Some(from)))
            }
            State::Raw { peer, .. } => {
                let peer = *peer;
                drop(state);
                match sys::recv(self.number, buffer, flags) {
                    // This is either an empty datagram or the end of the node.
                    Ok(0) if !buffer.is_empty() && sys::hung_up(self.number) => Err(libc::ENETDOWN),
                    Err(libc::ECONNRESET) => Err(libc::ENETDOWN),
                    other => other.map(|len| (len, Some(peer))),
                }
            }
            State::Stream { stream, .. } => {
                let stream = Arc::clone(stream);
                drop(state);
                match sys::recv(self.number, buffer, flags) {
                    Ok(0) if !buffer.is_empty() && !self.shut.load(Ordering::Acquire) => {
                        stream.ended().map(|()| (0, None)).map_err(|error| {
                            errno::say(&error.to_string());
                            libc::ECONNRESET
                        })
                    }
                    other => other.map(|len| (len, None)),
                }
            }
            State::Connecting { .. } => Err(libc::EAGAIN),
            State::Fresh { .. } | State::Listener { .. } | State::Failed { .. } => {
                Err(libc::ENOTCONN)
            }
            State::Between => Err(libc::EBUSY),
        }
    }

    pub(crate) fn shutdown(&self, how: libc::c_int) -> Result<(), Errno> {
        match (&*self.state(), how) {
            // The peer's data is still accepted, as with TCP.
            (State::Stream { .. }, libc::SHUT_RD) => Ok(()),
            (State::Stream { _number, stream }, _) => {
                if how == libc::SHUT_RDWR {
                    self.shut.store(true, Ordering::Release);
                }
                if _number.is_none() {
                    stream.finish();
                }
                sys::shutdown(self.number, how)
            }
            (State::Raw { .. }, _) => sys::shutdown(self.number, how),
            _ => Err(libc::ENOTCONN),
        }
    }
}

fn how(flags: libc::c_int) -> How {
    How {
        at_once: flags & libc::MSG_DONTWAIT != 0,
        peek: flags & libc::MSG_PEEK != 0,
    }
}
