//! What a pump carries, frame by frame: outward from the local sockets, inward to them.

use super::beside::Way;
use super::data::Data;
use super::{Blocked, Pump, Role, Turn};
use crate::remote::channel::ChannelError;
use crate::remote::dial::pair;
use net::unix::{Received, Taken, shutdown_write};
use std::io::{ErrorKind, IoSlice};
use std::os::fd::AsFd;
use std::sync::Arc;
use wire::Malformed;
use wire::ipc::{Reply, kind};
use wire::remote::Frame;

/// [`wire::ipc::Request::Finish`].
const FINISH: [u8; 1] = [kind::FINISH];
/// [`Reply::Done`] of [`wire::ipc::Request::Raw`]: what comes behind it is payloads.
const RAW: [u8; 2] = [kind::DONE, kind::RAW];
/// Frames carried in one direction before the other has its turn.
pub(super) const FRAMES_PER_TURN: usize = 64;

impl Pump {
    /// From here to there, while the connection takes it.
    pub(super) fn outward(&mut self) -> Result<Turn, ChannelError> {
        for _ in 0..FRAMES_PER_TURN {
            if !self.channel.is_flushed() || !(self.take_control()? || self.take_data()?) {
                return Ok(Turn::Idle);
            }
            self.channel.flush()?;
        }
        Ok(Turn::More)
    }

    /// True when a message was there.
    fn take_control(&mut self) -> Result<bool, ChannelError> {
        let Some(control) = &self.control else {
            return Ok(false);
        };
        let (received, fds) = control.recv_with_fds(&mut self.buffer)?;
        let message = match received {
            Received::Message(len) => &self.buffer[..len],
            Received::Empty => return Ok(false),
            // Longer than any message: no end speaks like this.
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
                if !self.way.send(message, self.is_raw) {
                    self.channel.say(&Frame::Message(message))?;
                }
                if matches!(self.role, Role::Gate(_)) && message == RAW && !self.is_raw {
                    self.is_raw = true;
                    self.way.set_raw();
                }
            }
        }
        Ok(true)
    }

    /// True when some of the stream was there.
    fn take_data(&mut self) -> Result<bool, ChannelError> {
        let Some(data) = self.data.as_mut().filter(|data| !data.read) else {
            return Ok(false);
        };
        match data.take(&mut self.buffer) {
            Taken::Bytes(len) => self.channel.say(&Frame::Data(&self.buffer[..len]))?,
            Taken::Empty => return Ok(false),
            Taken::End => {
                data.read = true;
                // Why it ended has been told before.
                while self.take_control()? {}
                self.channel.say(&Frame::End)?;
            }
            Taken::Reset => self.lose_data()?,
        }
        Ok(true)
    }

    /// The socket is closed, and with it the way of its datagrams.
    fn close(&mut self) {
        self.way = Way::Refused;
        self.control = None;
    }

    pub(super) fn lose_data(&mut self) -> Result<(), ChannelError> {
        self.data = None;
        while self.take_control()? {}
        self.channel.say(&Frame::Gone)
    }

    /// From there to here, while the local sockets take it.
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

    /// Hands the frame at the front over.
    fn hand_over(&mut self) -> Result<Option<Blocked>, ChannelError> {
        let Some(frame) = self.channel.frame()? else {
            return Ok(None);
        };
        match (frame, &self.role) {
            // Without bytes it would look like the end.
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
                    Ok(()) if matches!(self.role, Role::Client(_)) && !self.is_raw => {
                        self.is_raw = message == RAW;
                        // What belongs to a port comes behind the word that there is one.
                        let is_bound = message.first() == Some(&kind::BOUND);
                        if is_bound && matches!(self.way, Way::None) && self.channel.knows_ways() {
                            self.way = Way::Asked;
                            self.channel.say(&Frame::AskWay)?;
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
                    // Nobody is there to take it: the end of the pair says so.
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
                    // It fails when the end is gone, and that is found by itself.
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
