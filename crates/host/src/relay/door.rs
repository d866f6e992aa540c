//! Accepts connections, and decides which of them get a place.
//!
//! ```text
//!   TCP  ──▶ a share for each address ─┐
//!   Unix ──▶ places of its own ────────┴─▶ a thread that greets
//! ```
//! A listener never waits for connections that are already there: operators do not wait for TCP, and nodes do not wait
//! for strangers ([`net::places`]).

use super::ledger::{Ledger, TurnedAway};
use super::socket::Socket;
use crate::control::Listener;
use net::epoll::Waker;
use net::places::{Origin, Places};
use net::poll::{Polled, poll};
use std::io::{self, ErrorKind};
use std::net::{Shutdown, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wire::relay::STRIPES_MAX;

/// Number of connections that have not yet said what they want: the shares of four addresses.
pub(super) const GREETING_MAX: usize = 4 * GREETING_SHARE;
/// Number of such connections from one address. Choice: the stripes of two transfers that begin at the same time.
pub(super) const GREETING_SHARE: usize = 2 * STRIPES_MAX as usize;
/// The pause after a failed accept, because of missing descriptors or for another reason.
const PAUSE: Duration = Duration::from_millis(20);

pub(super) type Greeting = Places<Arc<Socket>>;

/// A listener for connections.
pub(super) struct Door {
    listener: Either,
    pub(super) places: Arc<Greeting>,
}

enum Either {
    Tcp(TcpListener),
    Unix(Listener),
}

/// A connection that is greeting, and its place until this value is dropped.
pub(super) struct Guest {
    pub(super) socket: Arc<Socket>,
    places: Arc<Greeting>,
    place: u64,
    is_gone: bool,
}

impl Guest {
    /// Notes that the connection has sent something.
    pub(super) fn spoke(&self) {
        self.places.spoke(self.place, Instant::now());
    }

    /// Gives the place back. Returns false if it was taken away before, together with the connection.
    pub(super) fn leave(mut self) -> bool {
        self.is_gone = true;
        self.places.leave(self.place)
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if !self.is_gone {
            self.places.leave(self.place);
        }
    }
}

impl Door {
    /// Creates a door for nodes; several doors share their places.
    pub(super) fn tcp(listener: TcpListener, places: &Arc<Greeting>) -> Door {
        Door {
            listener: Either::Tcp(listener),
            places: Arc::clone(places),
        }
    }

    /// Creates a door for operators.
    pub(super) fn unix(listener: Listener) -> Door {
        Door {
            listener: Either::Unix(listener),
            places: Arc::new(Places::new(GREETING_MAX, GREETING_MAX)),
        }
    }

    /// Accepts connections and passes them to `admit`, until it has to stop.
    pub(super) fn listen(
        &self,
        waker: &Waker,
        stopping: &AtomicBool,
        ledger: &Ledger,
        mut admit: impl FnMut(Guest),
    ) {
        while !stopping.load(Ordering::Acquire) {
            let until = self.places.next_until();
            let wait = until.map(|until| until.saturating_duration_since(Instant::now()));
            let mut polled = [
                Polled::new(self.as_fd(), true, false),
                Polled::new(waker.as_fd(), true, false),
            ];
            if poll(&mut polled, wait).is_err() {
                return;
            }
            for (socket, why) in self.places.overdue(Instant::now()) {
                send_away(&socket, ledger, TurnedAway::from_place(why));
            }
            if !polled[0].readable() {
                continue;
            }
            match self.accept() {
                Ok(Some((origin, socket))) => {
                    if let Some(guest) = self.let_in(origin, socket, ledger) {
                        admit(guest);
                    }
                }
                Ok(None) => {}
                Err(error) => {
                    if net::tcp::has_run_out(&error)
                        && let Some(displaced) = self.places.displace()
                    {
                        // The connection that has greeted for the longest time gives up its place.
                        send_away(&displaced, ledger, TurnedAway::NoRoom);
                    }
                    let _ = poll(&mut [Polled::new(waker.as_fd(), true, false)], Some(PAUSE));
                }
            }
        }
    }

    fn accept(&self) -> io::Result<Option<(Origin, Socket)>> {
        let accepted = match &self.listener {
            Either::Tcp(listener) => listener
                .accept()
                .map(|(tcp, from)| Some((Origin::of(from.ip()), Socket::Tcp(tcp)))),
            Either::Unix(listener) => listener
                .accept()
                .map(|unix| unix.map(|unix| (Origin::Operator, Socket::Unix(unix)))),
        };
        match accepted {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            // The connection was closed before it was accepted.
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => Ok(None),
            other => other,
        }
    }

    fn let_in(&self, origin: Origin, socket: Socket, ledger: &Ledger) -> Option<Guest> {
        let socket = Arc::new(socket);
        let taken = self
            .places
            .take(origin, Arc::clone(&socket), Instant::now());
        match taken {
            Ok(let_in) => {
                if let Some(displaced) = let_in.displaced {
                    send_away(&displaced, ledger, TurnedAway::Displaced);
                }
                Some(Guest {
                    socket,
                    places: Arc::clone(&self.places),
                    place: let_in.place,
                    is_gone: false,
                })
            }
            Err(why) => {
                ledger.turn_away(TurnedAway::from_place(why));
                None
            }
        }
    }
}

impl AsFd for Door {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.listener {
            Either::Tcp(listener) => listener.as_fd(),
            Either::Unix(listener) => listener.as_fd(),
        }
    }
}

/// Shuts a connection down. Its thread notices the end, and closes it.
fn send_away(socket: &Socket, ledger: &Ledger, why: TurnedAway) {
    ledger.turn_away(why);
    socket.shutdown(Shutdown::Both);
}
