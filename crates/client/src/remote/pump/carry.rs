//! The work of a pump, frame by frame: outward from the local sockets, inward to them.

use super::beside::Way;
use super::data::Data;
use super::{Blocked, Pump, Role, Turn};
use crate::remote::channel::{Channel, ChannelError};
use crate::remote::dial::pair;
use crate::remote::way;
use net::unix::{Received, Taken, shutdown_write};
use std::io::{ErrorKind, IoSlice};
use std::os::fd::AsFd;
use std::sync::Arc;
use wire::Malformed;
use wire::ipc::{Reply, Request, kind};
use wire::remote::Frame;

/// [`wire::ipc::Request::Finish`].
const FINISH: [u8; 1] = [kind::FINISH];
/// [`Reply::Done`] of [`wire::ipc::Request::Raw`]: only payloads follow.
const RAW: [u8; 2] = [kind::DONE, kind::RAW];
/// The same for [`wire::ipc::Request::Options`]: the node has granted them.
const OPTIONS: [u8; 2] = [kind::DONE, kind::OPTIONS];
/// Number of frames carried in one direction before the other has its turn.
pub(super) const FRAMES_PER_TURN: usize = 64;

impl Pump {
    /// Carries from here to the other end while the connection accepts it, and otherwise what goes beside it.
    pub(super) fn outward(&mut self) -> Result<Turn, ChannelError> {
        for _ in 0..FRAMES_PER_TURN {
            let free = self.channel.is_flushed();
            self.is_stuck &= !free;
            if !free && !self.goes_on_beside() {
                return Ok(Turn::Idle);
            }
            let frames = self.channel.frames;
            if !(self.take_control()? || (free && self.take_data()?)) {
                return Ok(Turn::Idle);
            }
            self.is_stuck = !free && self.channel.frames != frames;
            self.channel.flush()?;
        }
        Ok(Turn::More)
    }

    /// Returns true if datagrams need not wait for the connection, because none of them needs it.
    pub(super) fn goes_on_beside(&self) -> bool {
        !self.is_stuck && self.way.longest().is_some()
    }

    /// Takes a message. Returns true if there was one.
    fn take_control(&mut self) -> Result<bool, ChannelError> {
        let Some(control) = &self.control else {
            return Ok(false);
        };
        let (received, fds) = control.recv_with_fds(&mut self.buffer)?;
        let message = match received {
            Received::Message(len) => &self.buffer[..len],
            Received::Empty => return Ok(false),
            // The message is longer than any message: no valid end sends this.
            Received::Closed | Received::Truncated(_) => {
                self.close();
                self.channel.say(&Frame::Closed)?;
                return Ok(true);
            }
        };
        match (&self.role, fds) {
            (Role::Gate(_), [Some(data), None]) => {
                if let Ok(Reply::Connected { framing, .. }) = Reply::parse(message) {
                    self.data = Some(Data::new(framing, data));
                    self.channel.say(&Frame::Attached(message))?;
                }
            }
            (Role::Gate(ground), [Some(data), Some(notices)]) => {
                if let Ok(Reply::Incoming { framing, .. }) = Reply::parse(message)
                    && let Some(ticket) = ground.put(framing, data, notices)
                {
                    self.channel.say(&Frame::Offered(ticket, message))?;
                }
            }
            _ => {
                self.finishing |= message == FINISH;
                let is_datagram = way::is_datagram(message, self.is_raw);
                if let (Role::Client(_), false, Some(&kind::OPTIONS)) =
                    (&self.role, self.is_raw, message.first())
                    && let Ok(Request::Options(options)) = Request::parse(message)
                {
                    self.wish.on_asked(&options);
                    self.way.want(self.wish.may());
                }
                let becomes_raw =
                    matches!(self.role, Role::Gate(_)) && message == RAW && !self.is_raw;
                send(
                    (&mut self.way, &mut self.channel, &mut self.scratch),
                    message,
                    self.is_raw,
                )?;
                if becomes_raw {
                    self.is_raw = true;
                    self.way.set_raw();
                }
                if is_datagram {
                    self.ask_way()?;
                }
            }
        }
        Ok(true)
    }

    /// Takes data of the stream. Returns true if there was some.
    fn take_data(&mut self) -> Result<bool, ChannelError> {
        let Some(data) = self.data.as_mut().filter(|data| !data.read) else {
            return Ok(false);
        };
        match data.take(&mut self.buffer) {
            Taken::Bytes(len) => self.channel.say(&Frame::Data(&self.buffer[..len]))?,
            Taken::Empty => return Ok(false),
            Taken::End => {
                data.read = true;
                // The reason for its end has been sent before.
                while self.take_control()? {}
                self.channel.say(&Frame::End)?;
            }
            Taken::Reset => self.lose_data()?,
        }
        Ok(true)
    }

    /// Handles that the socket is closed, and with it the way of its datagrams.
    fn close(&mut self) {
        self.way = Way::Refused;
        self.control = None;
    }

    pub(super) fn lose_data(&mut self) -> Result<(), ChannelError> {
        self.data = None;
        while self.take_control()? {}
        self.channel.say(&Frame::Gone)
    }

    /// Carries from the other end to here, while the local sockets accept it.
    pub(super) fn inward(&mut self) -> Result<Turn, ChannelError> {
        for _ in 0..FRAMES_PER_TURN {
            if !self.channel.fill()? {
                return Ok(Turn::Idle);
            }
            if let Some(blocked) = self.hand_over()? {
                return Ok(Turn::Blocked(blocked));
            }
            self.channel.pass();
            self.offset = 0;
        }
        Ok(Turn::More)
    }

    /// Delivers the frame at the front.
    fn hand_over(&mut self) -> Result<Option<Blocked>, ChannelError> {
        let Some(frame) = self.channel.frame()? else {
            return Ok(None);
        };
        match (frame, &self.role) {
            // An empty message would look like the end.
            (Frame::Message([]) | Frame::Data([]) | Frame::Ping, _) => {}
            (Frame::Message(message), _) => {
                let Some(control) = &self.control else {
                    return Ok(None);
                };
                match control.send_parts(&[IoSlice::new(message)]) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        return Ok(Some(Blocked::Control));
                    }
                    Err(_) => {
                        self.close();
                        self.channel.say(&Frame::Closed)?;
                    }
                    Ok(()) if matches!(self.role, Role::Client(_)) => {
                        let is_datagram = way::is_datagram(message, self.is_raw);
                        let len = message.len();
                        if message == OPTIONS && !self.is_raw {
                            self.wish.on_granted();
                            self.way.want(self.wish.may());
                        }
                        if message == RAW && !self.is_raw {
                            self.is_raw = true;
                            self.way.set_raw();
                        }
                        if is_datagram {
                            self.way.on_whole(len);
                            self.ask_way()?;
                        }
                    }
                    Ok(()) => {}
                }
            }
            (Frame::Attached(message), Role::Client(_)) => {
                let (Ok(Reply::Connected { framing, .. }), Some(control)) =
                    (Reply::parse(message), &self.control)
                else {
                    return Err(Malformed::Kind.into());
                };
                let (theirs, ours) = pair(framing)?;
                match control.send_with_fds(&[IoSlice::new(message)], &[theirs.as_fd()]) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        return Ok(Some(Blocked::Control));
                    }
                    // Nobody is there to take it: the end of the pair shows this.
                    _ => self.data = Some(Data::new(framing, ours)),
                }
            }
            (Frame::Offered(ticket, message), Role::Client(remote)) => {
                if let Some(control) = &self.control {
                    remote.fetch(ticket, message.to_vec(), Arc::clone(control));
                }
            }
            (Frame::Data(bytes), _) => {
                let Some(data) = &self.data else {
                    return Ok(None);
                };
                match data.give(&bytes[self.offset..]) {
                    Ok(len) => {
                        self.offset += len;
                        if self.offset < bytes.len() {
                            return Ok(Some(Blocked::Data));
                        }
                    }
                    Err(_) => self.lose_data()?,
                }
            }
            (Frame::End, _) => {
                if let Some(data) = &mut self.data {
                    data.written = true;
                    // This fails if the end is gone, which is noticed separately.
                    let _ = shutdown_write(data.fd());
                }
            }
            (Frame::Gone, _) => self.data = None,
            (Frame::Closed, _) => self.close(),
            (Frame::AskWay, Role::Gate(_)) if !self.channel.is_flushed() => {
                return Ok(Some(Blocked::Channel));
            }
            (Frame::AskWay, Role::Gate(_)) => self.open_way()?,
            (Frame::Way { index, port }, Role::Client(_)) => self.take_way(index, port)?,
            (Frame::NoWay, Role::Client(_)) => self.way = Way::Refused,
            (Frame::NoWay, Role::Gate(_)) => self.way.leave(),
            _ => return Err(Malformed::Kind.into()),
        }
        Ok(None)
    }
}

/// Sends a message: permitted parts by the way, piece by piece, and everything else by the connection.
fn send(
    (way, channel, scratch): (&mut Way, &mut Channel, &mut Vec<u8>),
    message: &[u8],
    is_raw: bool,
) -> Result<(), ChannelError> {
    if way::as_sealed(message, is_raw, true).is_some() {
        way.on_whole(message.len());
    }
    let longest = match (way.is_there(), way.longest()) {
        (false, _) => return channel.say(&Frame::Message(message)),
        (true, longest) => longest.unwrap_or(usize::MAX),
    };
    way::split(message, is_raw, longest, scratch, |piece, count| match way
        .send(piece, count, is_raw)
    {
        true => Ok(()),
        false => channel.say(&Frame::Message(piece)),
    })
}
