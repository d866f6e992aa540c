//! The way beside a pump's connection: a client's own socket, or what the gate gives.

use super::carry::FRAMES_PER_TURN;
use super::{Pump, Role, Turn};
use crate::remote::channel::ChannelError;
use crate::remote::way::{Act, Choice, Keys, Limit, Seals, as_message, as_sealed};
use crate::remote::ways::Told;
use base::Time;
use core::time::Duration;
use net::clock::Clock;
use net::udp::{is_too_long, whole};
use net::unix::SeqStream;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use wire::Malformed;
use wire::link::SessionIndex;
use wire::remote::Frame;
use wire::remote::way::{AROUND_BYTES, DATAGRAM_BYTES_MAX, Echo, Sealed};

/// Longer than any datagram of a way: what is cut by it is too long to be one.
const ROOM_BYTES: usize = DATAGRAM_BYTES_MAX + 1;
/// Probes whose place among the datagrams is remembered: as many as may be answered.
const MARKS_MAX: usize = 8;

/// A way as the gate's pump has it. It ends when it is dropped.
pub trait Beside: Send {
    /// What its datagrams name, and the port that the client sends to.
    fn place(&self) -> (SessionIndex, u16);
    /// New keys: the index by which they are named; `None` where there is no room.
    fn renew(&mut self, keys: Keys) -> Option<SessionIndex>;
    /// Sends a datagram, or tells that it has to go by TLS.
    fn send(&mut self, message: &[u8], is_raw: bool) -> bool;
    /// The socket has become one of payloads only.
    fn set_raw(&mut self);
    /// The client says that the way does not work.
    fn leave(&mut self);
}

/// What a pump has beside its connection.
pub(super) enum Way {
    None,
    /// A client waits for the gate's answer.
    Asked,
    /// There is none, for good.
    Refused,
    Client(Box<Own>),
    Gate(Box<dyn Beside>),
}

impl Way {
    pub(super) fn send(&mut self, message: &[u8], is_raw: bool) -> bool {
        match self {
            Way::Client(own) => own.send(message, is_raw),
            Way::Gate(way) => way.send(message, is_raw),
            Way::None | Way::Asked | Way::Refused => false,
        }
    }

    pub(super) fn set_raw(&mut self) {
        if let Way::Gate(way) = self {
            way.set_raw();
        }
    }

    pub(super) fn leave(&mut self) {
        if let Way::Gate(way) = self {
            way.leave();
        }
    }

    /// What is to be watched of it.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Way::Client(own) => Some(own.socket.as_fd()),
            _ => None,
        }
    }

    /// How long it has nothing to do by itself.
    pub(super) fn wait(&self) -> Option<Duration> {
        match self {
            Way::Client(own) => {
                let left = own.choice.next_timeout().since(own.clock.now());
                Some(Duration::from_nanos(left.as_nanos()))
            }
            _ => None,
        }
    }
}

/// A client's end of a way.
pub(super) struct Own {
    socket: UdpSocket,
    gate: SocketAddr,
    clock: Clock,
    seals: Seals,
    choice: Choice,
    limit: Limit,
    /// The gate was asked for new keys.
    is_asked: bool,
    /// By the numbers of probes, how many datagrams had been sealed under the keys of this index.
    marks: VecDeque<(u32, SessionIndex, u64)>,
    told: Arc<Told>,
}

impl Own {
    fn new(gate: SocketAddr, index: SessionIndex, keys: Keys, told: Arc<Told>) -> io::Result<Own> {
        let any: SocketAddr = match gate {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(any)?;
        socket.set_nonblocking(true)?;
        whole(&socket, gate.is_ipv6())?;
        let clock = Clock::new();
        let now = clock.now();
        Ok(Own {
            socket,
            gate,
            clock,
            seals: Seals::new(index, true, keys, now),
            choice: Choice::new(now),
            limit: Limit::default(),
            is_asked: false,
            marks: VecDeque::with_capacity(MARKS_MAX),
            told,
        })
    }

    fn send(&mut self, message: &[u8], is_raw: bool) -> bool {
        let Some(sealed) = as_sealed(message, is_raw, true) else {
            return false;
        };
        let goes = self.choice.is_up()
            && self.limit.takes(message.len())
            && self.put(&sealed, self.clock.now());
        match goes {
            true => {
                self.choice.on_carried();
                self.told.sent();
            }
            false => self.told.sent_by_tls(),
        }
        goes
    }

    /// False when it has not left.
    fn put(&mut self, sealed: &Sealed<'_>, now: Time) -> bool {
        let mut room = [0; ROOM_BYTES];
        let Ok(len) = self.seals.seal(sealed, now, &mut room) else {
            return false;
        };
        match self.socket.send_to(&room[..len], self.gate) {
            Ok(_) => true,
            Err(error) => {
                if is_too_long(&error) {
                    self.limit.learn(len);
                }
                false
            }
        }
    }

    /// Takes what has come for `control`.
    fn take(&mut self, control: &SeqStream, is_raw: bool) -> Turn {
        let mut room = [0; ROOM_BYTES];
        for _ in 0..FRAMES_PER_TURN {
            // What else a socket can say of one datagram the next probe finds out.
            let Ok((len, _)) = self.socket.recv_from(&mut room) else {
                return Turn::Idle;
            };
            let now = self.clock.now();
            let opened = self.seals.open(&mut room[..len], now);
            let Ok(sealed) = opened.map(|opened| Sealed::parse(&room[opened.plaintext])) else {
                self.told.strange();
                continue;
            };
            match sealed {
                Ok(Sealed::Answer(echo)) => self.hear(&echo, now),
                Ok(sealed) => match as_message(sealed, is_raw, false) {
                    Some(message) => {
                        self.choice.on_carried();
                        // Who reads more slowly than it comes loses what there is no room for.
                        match control.send_parts(&[IoSlice::new(message)]) {
                            Ok(()) => self.told.came(),
                            Err(_) => self.told.full(),
                        }
                    }
                    None => self.told.strange(),
                },
                Err(_) => self.told.strange(),
            }
        }
        Turn::More
    }

    fn hear(&mut self, echo: &Echo, now: Time) {
        self.choice.on_answer(now, echo.number, echo.challenge);
        let current = self.seals.indices().next();
        let mark = self.marks.iter().find(|mark| mark.0 == echo.number);
        if let Some(&(_, index, sealed)) = mark
            && Some(index) == current
        {
            let outward = (u64::from(echo.came), sealed);
            let came = self.seals.came();
            self.told
                .heard(self.choice.rtt(), outward, (came.count, came.of));
        }
    }

    /// What is due by the clock: what is to be said by TLS.
    fn due(&mut self) -> Option<Frame<'static>> {
        let now = self.clock.now();
        while let Some(act) = self.choice.poll(now) {
            match act {
                Act::Leave => {
                    self.told.is_up(false);
                    return Some(Frame::NoWay);
                }
                Act::Probe { number, challenge } => {
                    let rtt = self.choice.rtt();
                    let probe = Sealed::Probe(Echo {
                        number,
                        challenge,
                        came: self.seals.came().count as u32,
                        rtt_us: rtt
                            .map_or(0, |rtt| u32::try_from(rtt.as_micros()).unwrap_or(u32::MAX)),
                    });
                    // One that has not left is one without an answer.
                    self.put(&probe, now);
                    if self.marks.len() >= MARKS_MAX {
                        self.marks.pop_front();
                    }
                    let index = self.seals.indices().next();
                    let sealed = self.seals.sealed();
                    self.marks
                        .extend(index.map(|index| (number, index, sealed)));
                }
            }
        }
        self.told.is_up(self.choice.is_up());
        self.told.probed(self.choice.probes());
        if !self.is_asked && self.seals.wants_renewal(now) {
            self.is_asked = true;
            return Some(Frame::AskWay);
        }
        None
    }
}

impl Pump {
    /// What comes by a client's way, and what is due on it.
    pub(super) fn beside(&mut self) -> Result<Turn, ChannelError> {
        let (Way::Client(own), Some(control)) = (&mut self.way, &self.control) else {
            return Ok(Turn::Idle);
        };
        let turn = own.take(control, self.is_raw);
        while let Some(frame) = own.due() {
            self.channel.say(&frame)?;
            self.channel.flush()?;
        }
        Ok(turn)
    }

    /// A client's pump takes the way that the gate has opened, or its new keys.
    pub(super) fn take_way(&mut self, index: SessionIndex, port: u16) -> Result<(), ChannelError> {
        let keys = self.next_keys()?;
        match (&mut self.way, &self.role) {
            (Way::Client(own), _) => {
                own.is_asked = false;
                let now = own.clock.now();
                own.seals.renew(index, keys, now);
            }
            (Way::Asked, Role::Client(remote)) => {
                let mut gate = self.channel.peer()?;
                gate.set_port(port);
                // A host that gives no socket leaves everything in TLS.
                self.way = match Own::new(gate, index, keys, remote.ways().begin()) {
                    Ok(own) => Way::Client(Box::new(own)),
                    Err(_) => Way::Refused,
                };
            }
            // The socket is closed already, or nobody has asked.
            _ => {}
        }
        Ok(())
    }

    /// A gate's pump opens a way, or changes its keys.
    pub(super) fn open_way(&mut self) -> Result<(), ChannelError> {
        let keys = self.next_keys()?;
        let Role::Gate(ground) = &self.role else {
            return Ok(());
        };
        let opened = match (&mut self.way, &self.control) {
            (Way::Gate(way), _) => way.renew(keys).map(|index| (index, way.place().1)),
            (_, Some(control)) => ground.open(keys, control).map(|mut way| {
                if self.is_raw {
                    way.set_raw();
                }
                let place = way.place();
                self.way = Way::Gate(way);
                place
            }),
            (_, None) => None,
        };
        match opened {
            Some((index, port)) => self.channel.say(&Frame::Way { index, port }),
            None => {
                self.way = Way::None;
                self.generations -= 1;
                self.channel.say(&Frame::NoWay)
            }
        }
    }

    /// Both ends count the ways that were opened.
    fn next_keys(&mut self) -> Result<Keys, ChannelError> {
        let keys = self.channel.way_keys(self.generations)?;
        // No keys are used twice.
        let next = self.generations.checked_add(1);
        self.generations = next.ok_or(Malformed::Value)?;
        Ok(keys)
    }
}

const _: () = assert!(AROUND_BYTES < ROOM_BYTES);
