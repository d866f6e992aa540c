//! A socket for groups: one connection to the node sends to and receives from any number of them,
//! several datagrams in a message.
//!
//! ```text
//!   join(group) ─────▶ node ◀── Sending::push(group, ..) ... send_batch
//!   recv_batch ◀────── what was sent to (group, port), and by whom
//! ```
//! [`DatagramSocket::join`](crate::DatagramSocket::join) does for one who wants some packets of
//! some group; this is for who carries many.

use crate::range::{Batch, RangeSocket, Sending, Told};
use crate::socket::Node;
use crate::{Error, Options, Target};
use base::{NodeAddr, VirtualPort};
use core::time::Duration;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

/// An overlay socket for groups. Several threads may use one.
#[derive(Debug)]
pub struct GroupSocket {
    socket: RangeSocket,
    port: u16,
}

/// A datagram that was sent to a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incoming<'a> {
    /// The group.
    pub group: NodeAddr,
    /// Who has sent it.
    pub source: Target,
    /// It was lost on some hop of its way and recovered there.
    pub recovered: bool,
    /// What was left of its deadline when it left the node; none if it had no deadline.
    pub remaining: Option<Duration>,
    /// What was sent.
    pub payload: &'a [u8],
}

impl Node {
    /// Opens a socket for what is sent to `port` of groups.
    pub fn group_socket(&self, port: u16, options: Options) -> Result<GroupSocket, Error> {
        // What it sends comes from a port of its own, so that several of a node share the groups'.
        let socket = self.bind_range(0..=0, options)?;
        Ok(GroupSocket { socket, port })
    }
}

impl GroupSocket {
    /// The node.
    pub fn node(&self) -> NodeAddr {
        self.socket.node()
    }

    /// The port of groups for which it is.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The longest datagram that can be sent.
    pub fn max_payload(&self) -> usize {
        self.socket.max_payload()
    }

    /// Non-blocking calls fail with [`Error::WouldBlock`] instead of waiting.
    pub fn set_nonblocking(&self, on: bool) -> Result<(), Error> {
        self.socket.set_nonblocking(on)
    }

    /// Wants what is sent to a group. The node answers later: a join that it refuses is an error of
    /// a later receive.
    pub fn join(&self, group: NodeAddr) -> Result<(), Error> {
        self.socket.join(group, self.port)
    }

    /// Wants it no more.
    pub fn leave(&self, group: NodeAddr) -> Result<(), Error> {
        self.socket.leave(group, self.port)
    }

    /// Wants to be told how the node stands in the overlay, and which group a refused join was for.
    pub fn watch(&self) -> Result<(), Error> {
        self.socket.watch()
    }

    /// The next thing that the node has told until the last receive.
    pub fn take_told(&self) -> Option<Told> {
        self.socket.take_told()
    }

    /// Adds a datagram for a group to those that are sent together; false when there is no room:
    /// send what is there first.
    #[must_use]
    pub fn push(&self, sending: &mut Sending, group: NodeAddr, payload: &[u8]) -> bool {
        let port = VirtualPort(self.port);
        sending.push(
            *self.socket.ports().start(),
            Target { node: group, port },
            payload,
        )
    }

    /// Sends what was gathered, as one message: all of it, or nothing when this fails. It is empty
    /// afterwards.
    pub fn send_batch(&self, sending: &mut Sending) -> Result<(), Error> {
        self.socket.send_batch(sending)
    }

    /// Receives what came together, in the place of what was in `batch`; at least one datagram of a
    /// group.
    pub fn recv_batch<'a>(
        &self,
        batch: &'a mut Batch,
    ) -> Result<impl Iterator<Item = Incoming<'a>> + use<'a>, Error> {
        self.socket.recv_batch(batch)?;
        let came = batch.iter().filter_map(|(_, source, info, payload)| {
            Some(Incoming {
                group: info.group?,
                source,
                recovered: info.recovered,
                remaining: info.remaining,
                payload,
            })
        });
        Ok(came)
    }

    /// The node by which it was opened.
    pub fn by(&self) -> &Node {
        self.socket.by()
    }
}

impl AsFd for GroupSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for GroupSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}
