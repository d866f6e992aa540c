//! The way beside a pump's connection: a client's own socket, or what the gate provides.

use super::own::ClientWay;
use super::{Pump, Role, Turn};
use crate::remote::channel::ChannelError;
use crate::remote::way::Keys;
use core::time::Duration;
use std::os::fd::BorrowedFd;
use wire::Malformed;
use wire::link::SessionIndex;
use wire::remote::Frame;

/// A way as the gate's pump uses it. Dropping it ends it.
pub trait Beside: Send {
    /// Returns the index that its datagrams contain, and the port that the client sends to.
    fn place(&self) -> (SessionIndex, u16);
    /// Sets new keys. Returns the index that names them; `None` if there is no room.
    fn renew(&mut self, keys: &Keys) -> Option<SessionIndex>;
    /// Returns the length of the longest datagram that may be sent by it now; `None` while all go by TLS.
    fn longest(&self) -> Option<usize>;
    /// Sends a message of this many datagrams. Returns false if it has to go by TLS.
    fn send(&mut self, message: &[u8], count: u64, is_raw: bool) -> bool;
    /// Notes that the socket now carries bare payloads only.
    fn set_raw(&mut self);
    /// Notes that the way does not work, according to the client.
    fn leave(&mut self);
}

/// The way beside a pump's connection.
pub(super) enum Way {
    None,
    /// A client waits for the gate's answer.
    Asked,
    /// There is none, and there will not be one.
    Refused,
    Client(Box<ClientWay>),
    Gate(Box<dyn Beside>),
}

impl Way {
    pub(super) fn is_there(&self) -> bool {
        matches!(self, Way::Client(_) | Way::Gate(_))
    }

    /// Returns the length of the longest datagram that may be sent by it now; `None` while all go by TLS.
    pub(super) fn longest(&self) -> Option<usize> {
        match self {
            Way::Client(own) => own.longest(),
            Way::Gate(way) => way.longest(),
            Way::None | Way::Asked | Way::Refused => None,
        }
    }

    pub(super) fn send(&mut self, message: &[u8], count: u64, is_raw: bool) -> bool {
        match self {
            Way::Client(own) => own.send(message, count, is_raw),
            Way::Gate(way) => way.send(message, count, is_raw),
            Way::None | Way::Asked | Way::Refused => false,
        }
    }

    /// Notes a message of datagrams that has arrived by TLS, or is to be sent, of this length before it is split.
    pub(super) fn on_whole(&mut self, len: usize) {
        if let Way::Client(own) = self {
            own.on_whole(len);
        }
    }

    pub(super) fn set_raw(&mut self) {
        match self {
            Way::Client(own) => own.set_raw(),
            Way::Gate(way) => way.set_raw(),
            Way::None | Way::Asked | Way::Refused => {}
        }
    }

    /// Notes whether the options of a client's socket permit it.
    pub(super) fn want(&mut self, is_wanted: bool) {
        if let Way::Client(own) = self {
            own.want(is_wanted);
        }
    }

    pub(super) fn leave(&mut self) {
        if let Way::Gate(way) = self {
            way.leave();
        }
    }

    /// Returns the descriptor to watch.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Way::Client(own) => Some(own.fd()),
            _ => None,
        }
    }

    /// Returns how long it has nothing to do by itself.
    pub(super) fn wait(&self) -> Option<Duration> {
        match self {
            Way::Client(own) => Some(own.wait()),
            _ => None,
        }
    }
}

impl Pump {
    /// Handles what has arrived by a client's way, and what is due on it.
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

    /// Requests a way, because a datagram is carried, if a client's pump has not done so.
    pub(super) fn ask_way(&mut self) -> Result<(), ChannelError> {
        let is_open = matches!(self.way, Way::None) && matches!(self.role, Role::Client(_));
        if is_open && self.wish.may() && self.channel.knows_ways() {
            self.way = Way::Asked;
            self.channel.say(&Frame::AskWay)?;
        }
        Ok(())
    }

    /// Sets up the way that the gate has opened, or its new keys, in a client's pump.
    pub(super) fn take_way(&mut self, index: SessionIndex, port: u16) -> Result<(), ChannelError> {
        let keys = self.next_keys()?;
        match (&mut self.way, &self.role) {
            (Way::Client(own), _) => {
                own.renew(index, &keys);
            }
            (Way::Asked, Role::Client(remote)) => {
                let mut gate = self.channel.peer()?;
                gate.set_port(port);
                // If the host provides no socket, all datagrams stay in TLS.
                self.way = match ClientWay::new(gate, index, &keys, remote.ways().begin()) {
                    Ok(own) => Way::Client(Box::new(own)),
                    Err(_) => Way::Refused,
                };
                // Apply changes that were made in the meantime.
                self.way.want(self.wish.may());
                if self.is_raw {
                    self.way.set_raw();
                }
            }
            // The socket is already closed, or no way was requested.
            _ => {}
        }
        Ok(())
    }

    /// Opens a way in a gate's pump, or changes its keys.
    pub(super) fn open_way(&mut self) -> Result<(), ChannelError> {
        let keys = self.next_keys()?;
        let Role::Gate(ground) = &self.role else {
            return Ok(());
        };
        let opened = match (&mut self.way, &self.control) {
            // The client is of a version without trials, and would lose datagrams that are too long for its path.
            _ if !self.channel.knows_ways() => None,
            (Way::Gate(way), _) => way.renew(&keys).map(|index| (index, way.place().1)),
            (_, Some(control)) => ground.open(&keys, control).map(|mut way| {
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

    /// Returns the next keys. Both ends count the ways that were opened.
    fn next_keys(&mut self) -> Result<Keys, ChannelError> {
        let keys = self.channel.way_keys(self.generations)?;
        // No keys are used twice.
        let next = self.generations.checked_add(1);
        self.generations = next.ok_or(Malformed::Value)?;
        Ok(keys)
    }
}
