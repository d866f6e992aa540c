//! The gate's end of the ways: one UDP socket for the datagrams of all its clients.
//!
//! ```text
//!   UDP ──▶ WaySocket::turn (a thread): index ──▶ WayEntry: open ──▶ the client's socket of the node
//!   node ──▶ the connection's pump: PumpWay::send: seal ──▶ UDP
//! ```
//!
//! A datagram that cannot be opened costs one look-up or one tag check. The gate stores nothing for it and sends no
//! answer. Each connection has one way, so there are at most as many ways as connections. The thread for datagrams may
//! have a higher priority than the threads of the connections. So no lock is held during a system call, or for longer
//! than it takes to encrypt one datagram or to copy the table.

use super::count;
use super::counters::{WayCounters, WayDrop};
use base::Time;
use client::remote::Beside;
use client::remote::way::{GateLength, Keys, Losses, Peer, Seals, as_message, as_sealed, fits};
use net::clock::Clock;
use net::poll::{Polled, poll};
use net::udp::{Ends, enlarge, is_too_long, whole};
use net::unix::SeqStream;
use secure::OpenError;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry as MapEntry;
use std::io::{self, IoSlice};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wire::ipc::Request;
use wire::link::{Clear, SessionIndex};
use wire::remote::way::{DATAGRAM_BYTES_MAX, Echo, PROBE_BYTES, Sealed, Trial};

/// The size of the receive buffer: more than any datagram of a way.
const ROOM_BYTES: usize = DATAGRAM_BYTES_MAX + 1;
/// Maximum number of datagrams per turn.
const TURN: usize = 256;
/// Maximum number of attempts to find a free index: some thousands of 2^24 are taken.
const TRIES: usize = 8;

/// All ways of a gate.
#[derive(Debug)]
pub(super) struct WaySocket {
    socket: UdpSocket,
    port: u16,
    clock: Clock,
    entries: Mutex<BTreeMap<SessionIndex, Arc<WayEntry>>>,
    counters: WayCounters,
}

/// The way of one client.
#[derive(Debug)]
struct WayEntry {
    control: Arc<SeqStream>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    seals: Seals,
    peer: Peer<Ends>,
    length: GateLength,
    is_raw: bool,
    /// Whether the client has switched to raw mode too. Before this, it would not understand bare payloads as messages.
    is_client_raw: bool,
    /// The round trip that the client has measured.
    rtt: Option<Duration>,
    losses: Losses,
}

/// A client that has a way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WayClient {
    /// The address at which the client has proven that it receives; none while its datagrams go by TLS.
    pub at: Option<SocketAddr>,
    /// The round trip that the client has measured.
    pub rtt: Option<Duration>,
    /// The packet loss from the client to the gate, over the last reports.
    pub loss: f64,
}

/// A way as the pump of its connection uses it.
struct PumpWay {
    ways: Arc<WaySocket>,
    entry: Arc<WayEntry>,
    index: SessionIndex,
}

impl WaySocket {
    /// Binds the socket that receives datagrams at `at`.
    pub(super) fn bind(at: SocketAddr) -> io::Result<WaySocket> {
        let socket = UdpSocket::bind(at)?;
        socket.set_nonblocking(true)?;
        whole(&socket, at.is_ipv6())?;
        Ends::observe(&socket)?;
        enlarge(&socket);
        Ok(WaySocket {
            port: socket.local_addr()?.port(),
            socket,
            clock: Clock::new(),
            entries: Mutex::default(),
            counters: WayCounters::default(),
        })
    }

    pub(super) fn counters(&self) -> &WayCounters {
        &self.counters
    }

    /// Returns at most `most` clients that have a way, and the number of all such clients.
    pub(super) fn clients(&self, most: usize) -> (Vec<WayClient>, usize) {
        let now = self.clock.now();
        let entries: Vec<_> = {
            let entries = self.entries();
            let each = entries.iter();
            each.map(|(index, entry)| (*index, Arc::clone(entry)))
                .collect()
        };
        let (mut clients, mut all) = (Vec::new(), 0);
        for (index, entry) in entries {
            let state = entry.state();
            // A client that has changed keys is in the table twice.
            if state.seals.indices().next() != Some(index) {
                continue;
            }
            all += 1;
            if clients.len() < most {
                clients.push(WayClient {
                    at: state.peer.to(now).map(|ends| ends.far),
                    rtt: state.rtt,
                    loss: state.losses.share(),
                });
            }
        }
        (clients, all)
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Opens a way for a client; `control` is the client's socket at the node.
    pub(super) fn open(
        self: &Arc<WaySocket>,
        keys: &Keys,
        control: &Arc<SeqStream>,
    ) -> Option<Box<dyn Beside>> {
        let now = self.clock.now();
        let (index, entry) = self.enter(|index| {
            Arc::new(WayEntry {
                control: Arc::clone(control),
                state: Mutex::new(State {
                    seals: Seals::new(index, false, keys, now),
                    peer: Peer::new(now),
                    length: GateLength::default(),
                    is_raw: false,
                    is_client_raw: false,
                    rtt: None,
                    losses: Losses::default(),
                }),
            })
        })?;
        count(&self.counters.opened);
        Some(Box::new(PumpWay {
            ways: Arc::clone(self),
            entry,
            index,
        }))
    }

    /// Gives an entry a free index. The index is not secret, but it does not reveal how many there were before. Returns
    /// `None` if no free index was found.
    fn enter(
        &self,
        make: impl Fn(SessionIndex) -> Arc<WayEntry>,
    ) -> Option<(SessionIndex, Arc<WayEntry>)> {
        (0..TRIES).find_map(|_| {
            let [a, b, c, d, ..] = net::sched::entropy().ok()?;
            let index = SessionIndex::new(u32::from_be_bytes([a, b, c, d]));
            let entry = make(index);
            match self.entries().entry(index) {
                MapEntry::Vacant(place) => {
                    place.insert(Arc::clone(&entry));
                    Some((index, entry))
                }
                MapEntry::Occupied(_) => None,
            }
        })
    }

    /// Waits for datagrams for at most `span`, and handles them.
    pub(super) fn serve_for(&self, span: Duration) -> io::Result<()> {
        poll(
            &mut [Polled::new(self.socket.as_fd(), true, false)],
            Some(span),
        )?;
        self.turn();
        Ok(())
    }

    /// Handles the datagrams that have arrived.
    fn turn(&self) {
        let mut room = [0; ROOM_BYTES];
        for _ in 0..TURN {
            // An error is about a datagram that was sent earlier; the next datagram is still in the queue.
            let Ok((len, from)) = Ends::recv(&self.socket, &mut room) else {
                return;
            };
            match self.take(&mut room[..len], from) {
                Ok(taken) => {
                    self.counters.received.fetch_add(taken, Ordering::Relaxed);
                }
                Err(why) => self.counters.drop(why),
            }
        }
    }

    /// Handles a datagram. Returns how many datagrams the node has taken from it.
    fn take(&self, datagram: &mut [u8], from: Ends) -> Result<u64, WayDrop> {
        let clear = Clear::parse(datagram).map_err(|_| WayDrop::Malformed)?;
        let entry = self.entries().get(&clear.session).map(Arc::clone);
        let entry = entry.ok_or(WayDrop::Unknown)?;
        let now = self.clock.now();
        let len = datagram.len();
        let mut state = entry.state();
        let opened = state.seals.open(datagram, now).map_err(|why| match why {
            OpenError::NoSession => WayDrop::Unknown,
            OpenError::Replay => WayDrop::Replay,
            OpenError::Short => WayDrop::Malformed,
            OpenError::Tag => WayDrop::Seal,
        })?;
        let sealed = Sealed::parse(&datagram[opened.plaintext]).map_err(|_| WayDrop::Malformed)?;
        let (asked, tried) = match sealed {
            Sealed::Probe(echo) => (Some(echo), None),
            Sealed::Trial(trial) => (None, Some(trial)),
            _ => (None, None),
        };
        let repeated = asked.map(|echo| echo.challenge);
        let draw =
            || net::sched::entropy().map_or(0, |[a, b, c, d, ..]| u32::from_be_bytes([a, b, c, d]));
        let challenge = state
            .peer
            .on_heard(now, from, opened.is_newest, repeated, draw);
        let is_new = challenge != 0 && !state.peer.is_proven(from) && len >= PROBE_BYTES;
        if let Some(trial) = tried.filter(|_| opened.is_newest) {
            state.length.on_trial(now, trial.longest);
        }
        // A client that has switched to raw mode stays in this mode, so a trial that was overtaken is valid for this as
        // well.
        state.is_client_raw |= tried.is_some_and(|trial| trial.flags & Trial::RAW != 0);
        if let Some(echo) = asked {
            let rtt = Duration::from_micros(echo.rtt_us.into());
            state.rtt = (!rtt.is_zero()).then_some(rtt);
            let came = state.seals.came();
            state.losses.tell(came.count, came.of);
        }
        // There is only one answer, so that no address gets more bytes than came from it.
        let answer = match tried {
            _ if asked.is_some() || is_new => Some(Sealed::Answer(Echo {
                number: asked.map_or(0, |echo| echo.number),
                challenge,
                came: state.seals.came().count as u32,
                rtt_us: 0,
            })),
            Some(trial) => Some(Sealed::Tried(Trial {
                number: trial.number,
                padding: trial.padding,
                ..Trial::default()
            })),
            None => None,
        };
        let is_raw = state.is_raw;
        // An answer that is not sent counts as lost.
        match answer {
            Some(answer) => drop(self.put(&entry, state, &answer, from, now)),
            None => drop(state),
        }
        if asked.is_some() || tried.is_some() {
            return Ok(0);
        }
        let message = as_message(sealed, is_raw, true).ok_or(WayDrop::Mode)?;
        let count = match (is_raw, Request::parse(message)) {
            (false, Ok(Request::SendFrom(datagrams))) => datagrams.iter().count() as u64,
            _ => 1,
        };
        let given = entry.control.send_parts(&[IoSlice::new(message)]);
        given.map(|()| count).map_err(|_| WayDrop::Full)
    }

    /// Encrypts a datagram, and sends it after the lock on the state is released. Returns false if it was not sent.
    fn put(
        &self,
        entry: &WayEntry,
        mut state: MutexGuard<'_, State>,
        sealed: &Sealed<'_>,
        to: Ends,
        now: Time,
    ) -> bool {
        let mut room = [0; ROOM_BYTES];
        let sealed = state.seals.seal(sealed, now, &mut room);
        drop(state);
        let Ok(len) = sealed else {
            return false;
        };
        match to.send(&self.socket, &room[..len]) {
            Ok(()) => true,
            Err(error) => {
                if is_too_long(&error) {
                    entry.state().length.refuse();
                }
                false
            }
        }
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<SessionIndex, Arc<WayEntry>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WayEntry {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Beside for PumpWay {
    fn place(&self) -> (SessionIndex, u16) {
        (self.index, self.ways.port)
    }

    fn renew(&mut self, keys: &Keys) -> Option<SessionIndex> {
        let now = self.ways.clock.now();
        let (index, _) = self.ways.enter(|_| Arc::clone(&self.entry))?;
        let dropped = self.entry.state().seals.renew(index, keys, now);
        if let Some(dropped) = dropped {
            self.ways.entries().remove(&dropped);
        }
        self.index = index;
        Some(index)
    }

    fn longest(&self) -> Option<usize> {
        let now = self.ways.clock.now();
        let state = self.entry.state();
        state.peer.to(now).map(|_| state.length.longest(now))
    }

    fn send(&mut self, message: &[u8], count: u64, is_raw: bool) -> bool {
        let Some(sealed) = as_sealed(message, is_raw, false) else {
            return false;
        };
        let now = self.ways.clock.now();
        let state = self.entry.state();
        let to = state.peer.to(now).filter(|_| {
            fits(message.len(), state.length.longest(now)) && state.is_client_raw >= is_raw
        });
        let goes = match to {
            Some(to) => self.ways.put(&self.entry, state, &sealed, to, now),
            None => false,
        };
        let counters = &self.ways.counters;
        let counter = match goes {
            true => &counters.sent,
            false => &counters.sent_by_tls,
        };
        counter.fetch_add(count, Ordering::Relaxed);
        goes
    }

    fn set_raw(&mut self) {
        self.entry.state().is_raw = true;
    }

    fn leave(&mut self) {
        self.entry.state().peer.leave();
    }
}

impl Drop for PumpWay {
    fn drop(&mut self) {
        // Datagrams that the client sent before it closed have usually arrived by now.
        self.ways.turn();
        let mut entries = self.ways.entries();
        for index in self.entry.state().seals.indices() {
            entries.remove(&index);
        }
    }
}
