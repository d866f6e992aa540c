//! A connection that is attempted again and again until the peer answers.

use crate::video::backoff::Backoff;
use base::{Duration, Time};
use net::srt::{Error, Options, Socket};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;

/// A peer to which the gateway connects.
pub(super) struct Caller {
    /// Host and port of the peer.
    pub(super) to: String,
    options: Options,
    backoff: Backoff,
    state: State,
}

enum State {
    Waiting(Time),
    /// A thread resolves the address.
    Resolving(Receiver<Result<SocketAddr, String>>),
    Calling(Socket, SocketAddr),
    /// The connection was passed on.
    Connected,
}

/// The result of a step.
pub(super) enum Step {
    /// Nothing has changed.
    Nothing,
    /// The attempt has begun: the socket must be watched.
    Begun,
    /// The peer has answered.
    Answered(Socket, SocketAddr),
    /// The attempt has failed. Contains the reason and the time until the next attempt.
    Failed(String, Duration),
}

impl Caller {
    pub(super) fn new(to: String, options: Options, now: Time) -> Caller {
        Caller {
            to,
            options,
            backoff: Backoff::default(),
            state: State::Waiting(now),
        }
    }

    /// Returns the socket of an attempt that is not answered yet.
    pub(super) fn calling(&self) -> Option<&Socket> {
        match &self.state {
            State::Calling(socket, _) => Some(socket),
            _ => None,
        }
    }

    /// Records that the connection that began at `since` has ended. Returns the time until the next attempt.
    pub(super) fn on_end(&mut self, now: Time, since: Time) -> Duration {
        let wait = self.backoff.fail(now, Some(since));
        self.state = State::Waiting(now + wait);
        wait
    }

    /// Continues as far as possible without waiting.
    pub(super) fn step(&mut self, now: Time) -> Step {
        match core::mem::replace(&mut self.state, State::Connected) {
            State::Waiting(until) if until <= now => {
                self.state = State::Resolving(resolve(self.to.clone()));
                Step::Nothing
            }
            State::Resolving(answer) => match answer.try_recv() {
                Ok(Ok(address)) => match Socket::call(address, &self.options) {
                    Ok(socket) => {
                        self.state = State::Calling(socket, address);
                        Step::Begun
                    }
                    Err(error) => self.fail(now, error.to_string()),
                },
                Ok(Err(why)) => self.fail(now, why),
                Err(TryRecvError::Empty) => {
                    self.state = State::Resolving(answer);
                    Step::Nothing
                }
                Err(TryRecvError::Disconnected) => self.fail(now, "no address".to_owned()),
            },
            State::Calling(socket, address) if socket.is_connected() => {
                Step::Answered(socket, address)
            }
            State::Calling(socket, address) if socket.is_connecting() => {
                self.state = State::Calling(socket, address);
                Step::Nothing
            }
            State::Calling(socket, _) => {
                let why: Error = socket.why_rejected();
                self.fail(now, why.to_string())
            }
            other => {
                self.state = other;
                Step::Nothing
            }
        }
    }

    fn fail(&mut self, now: Time, why: String) -> Step {
        let wait = self.backoff.fail(now, None);
        self.state = State::Waiting(now + wait);
        Step::Failed(why, wait)
    }
}

/// Resolves an address on a thread of its own, because this may take long.
fn resolve(host: String) -> Receiver<Result<SocketAddr, String>> {
    let (answer, receiver) = channel();
    let ask = move || {
        let found = host.to_socket_addrs().map_err(|error| error.to_string());
        let first = found.and_then(|mut all| all.next().ok_or_else(|| "no address".to_owned()));
        // The receiver may be gone.
        let _ = answer.send(first);
    };
    // Without a thread, the receiver sees a closed channel, which counts as a failure.
    let _ = thread::Builder::new().name("resolve".into()).spawn(ask);
    receiver
}
