//! A new connection: it gets a place and a thread, is greeted, and then gets a pump.

use super::failures::Failures;
use super::operators::Holder;
use super::ways::WaySocket;
use super::{Comer, PRIORITY, SWEEP, Shared, count};
use crate::slots::Slot;
use client::remote::way::Keys;
use client::remote::{Beside, Channel, ChannelError, Ground, Pump};
use core::time::Duration;
use net::places::Origin;
use net::poll::{Polled, poll};
use net::unix::SeqStream;
use rustls::ServerConnection;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Shutdown, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;
use wire::ipc::Framing;
use wire::remote::{Frame, Purpose, Ticket, VERSION};

/// The stack size of a connection's thread, which has its buffers on the heap.
const STACK_BYTES: usize = 256 << 10;
/// The time between attempts to reach the node while many others connect to it.
const AGAIN: Duration = Duration::from_millis(5);

/// The pump of an accepted connection. The pump of an operator holds its place until the pump ends.
type Greeted = (Pump, Option<Slot>);

impl Comer {
    pub(super) fn send_away(&self) {
        // The thread of the connection sees the end, if it has not ended already.
        let _ = self.tcp.shutdown(Shutdown::Both);
    }
}

impl Shared {
    pub(super) fn serve_ways(&self, ways: &WaySocket, over: &AtomicBool) {
        if self.realtime {
            // The node has already reported whether this priority is permitted.
            let _ = net::sched::real_time(PRIORITY);
        }
        while !over.load(Ordering::Relaxed) && ways.serve_for(SWEEP).is_ok() {}
    }

    /// Gives a new connection a place and a thread, if it is permitted and there is room.
    pub(super) fn admit(self: &Arc<Shared>, tcp: TcpStream, from: IpAddr) {
        let now = Instant::now();
        if self.failures().is_blocked(from, now) {
            return count(&self.counters.turned_away);
        }
        let (Some(open), Ok(handle)) = (self.open.take(), tcp.try_clone()) else {
            return count(&self.counters.turned_away);
        };
        let comer = Comer { tcp: handle, from };
        let let_in = match self.greeting.take(Origin::of(from), comer, now) {
            Ok(let_in) => let_in,
            Err(_) => {
                count(&self.counters.turned_away);
                return;
            }
        };
        if let Some(displaced) = let_in.displaced {
            count(&self.counters.displaced);
            displaced.send_away();
        }
        let (shared, place) = (Arc::clone(self), let_in.place);
        let thread = thread::Builder::new().name("sinew-gate".into());
        let started = thread.stack_size(STACK_BYTES).spawn(move || {
            let _open = open;
            shared.serve(tcp, from, place);
        });
        if started.is_err() {
            self.greeting.leave(place);
            count(&self.counters.turned_away);
        }
    }

    fn serve(self: &Arc<Shared>, tcp: TcpStream, from: IpAddr, place: u64) {
        let greeted = self.greet(tcp, place);
        let was_there = self.greeting.leave(place);
        match greeted {
            Ok((pump, _place)) => {
                count(&self.counters.welcomed);
                // The way in which the pump ends is the client's matter.
                let _ = pump.run();
            }
            // A connection that was sent away is counted already.
            Err(_) if !was_there => {}
            Err(error) => {
                match error {
                    ChannelError::Late => count(&self.counters.late),
                    ChannelError::Refused(_) => count(&self.counters.wrong_token),
                    ChannelError::Tls(_) | ChannelError::Frame(_) => {
                        count(&self.counters.nonsense);
                    }
                    // The client has gone.
                    _ => return,
                }
                self.failures().note(from, Instant::now());
            }
        }
    }

    /// Learns what a client wants, and finds the other end for its connection.
    fn greet(self: &Arc<Shared>, tcp: TcpStream, place: u64) -> Result<Greeted, ChannelError> {
        let until = Instant::now() + self.patience;
        let mut spoken = [Polled::new(tcp.as_fd(), true, false)];
        if poll(&mut spoken, Some(self.patience))? == 0 {
            return Err(ChannelError::Late);
        }
        self.greeting.spoke(place, Instant::now());
        let tls = ServerConnection::new(Arc::clone(&self.tls))?;
        let mut channel = Channel::new(tcp, tls)?;
        let purpose = channel.next(until, |frame| match frame {
            Frame::Hello { version, .. } if version != VERSION => {
                Ok(Err("this node speaks version 1: use matching versions"))
            }
            Frame::Hello { purpose, token, .. } => Ok(match (purpose, self.holder(token)) {
                (_, None) => Err("the token is wrong"),
                (Purpose::Operator, Some(Holder::Client)) => Err(
                    "this file is for programs: `sinew net clients --observe` makes one for status and links",
                ),
                (Purpose::Operator, Some(holder)) => Ok((purpose, holder)),
                (_, Some(Holder::Client)) => Ok((purpose, Holder::Client)),
                (_, Some(_)) => Err("this file is for looking at the node or operating it: programs need NAME.remote"),
            }),
            _ => Err(ChannelError::Frame(wire::Malformed::Kind)),
        })??;
        let ends = match purpose {
            Err(why) => {
                let refused = ChannelError::Refused(why.to_owned());
                return Err(self.refuse(channel, why, until).err().unwrap_or(refused));
            }
            Ok((Purpose::Socket, _)) => self.dial(until).map(|control| (control, None)),
            Ok((Purpose::Stream(ticket), _)) => {
                self.waiting.take(&ticket).ok_or(ErrorKind::NotFound.into())
            }
            Ok((Purpose::Operator, holder)) => return self.greet_operator(channel, holder, until),
        };
        let (control, data): (SeqStream, Option<(Framing, OwnedFd)>) = match ends {
            Ok(ends) => ends,
            Err(error) => {
                let why = match error.kind() {
                    ErrorKind::NotFound => "no such stream waits: it was not fetched in time",
                    _ => "the node does not answer at its gate",
                };
                self.refuse(channel, why, until)?;
                return Err(ChannelError::Io(error));
            }
        };
        channel.say(&Frame::Welcome)?;
        channel.flush()?;
        let ground = Arc::clone(self);
        Ok((Pump::of_gate(channel, control, data, ground), None))
    }

    fn greet_operator(
        self: &Arc<Shared>,
        mut channel: Channel,
        holder: Holder,
        until: Instant,
    ) -> Result<Greeted, ChannelError> {
        match self.operate(holder) {
            Ok((lines, slot)) => {
                channel.say(&Frame::Welcome)?;
                channel.flush()?;
                let ground = Arc::clone(self);
                let pump = Pump::to_operator(channel, lines.into(), ground);
                Ok((pump, Some(slot)))
            }
            Err(error) => {
                let why = match error.kind() {
                    ErrorKind::Other => error.to_string(),
                    _ => "the node does not answer at its control socket".to_owned(),
                };
                self.refuse(channel, &why, until)?;
                Err(ChannelError::Io(error))
            }
        }
    }

    fn refuse(&self, mut channel: Channel, why: &str, until: Instant) -> Result<(), ChannelError> {
        channel.say(&Frame::Refused(why))?;
        channel.finish(until)?;
        channel.close();
        Ok(())
    }

    /// Connects to the node.
    fn dial(&self, until: Instant) -> io::Result<SeqStream> {
        loop {
            match SeqStream::connect(&self.node) {
                // The queue of waiting connections is full.
                Err(error) if error.kind() == ErrorKind::WouldBlock && Instant::now() < until => {
                    thread::sleep(AGAIN);
                }
                // This error must not be mistaken for an unknown ticket.
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    return Err(ErrorKind::ConnectionRefused.into());
                }
                other => return other,
            }
        }
    }

    pub(super) fn failures(&self) -> MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ground for Shared {
    fn put(&self, framing: Framing, data: OwnedFd, notices: OwnedFd) -> Option<Ticket> {
        self.waiting.put(framing, data, notices)
    }

    fn open(&self, keys: &Keys, control: &Arc<SeqStream>) -> Option<Box<dyn Beside>> {
        self.ways.as_ref().ok()?.open(keys, control)
    }
}
