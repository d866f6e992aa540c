//! A socket for groups: over one connection to the node it sends to and receives from any number of groups, with
//! several datagrams in a message.
//!
//! ```text
//!   join(group) ─────▶ node ◀── Sending::push(group, ..) ... send_batch
//!   recv_batch ◀────── what was sent to (group, port), and by whom
//! ```
//! [`DatagramSocket::join`](crate::DatagramSocket::join) is for programs that want a few packets of one group; this
//! socket is for programs that carry many.

use crate::range::{Batch, RangeSocket, Sending, Told};
use crate::socket::Node;
use crate::{Error, Options, Target};
use base::{NodeAddr, VirtualPort};
use core::time::Duration;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

/// An overlay socket for groups. Several threads may share it.
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
    /// The sender.
    pub source: Target,
    /// True if it was lost on some hop and recovered there.
    pub recovered: bool,
    /// The rest of its deadline when it left the node; none if it had no deadline.
    pub remaining: Option<Duration>,
    /// The payload.
    pub payload: &'a [u8],
}

impl Node {
    /// Opens a socket for datagrams to `port` of groups.
    pub fn group_socket(&self, port: u16, options: Options) -> Result<GroupSocket, Error> {
        // It sends from a port of its own, so that several sockets of a node can share the groups' port.
        let socket = self.bind_range(0..=0, options)?;
        Ok(GroupSocket { socket, port })
    }
}

impl GroupSocket {
    /// Returns the node.
    pub fn node(&self) -> NodeAddr {
        self.socket.node()
    }

    /// Returns the port of groups for which the socket is.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the length of the longest datagram that can be sent.
    pub fn max_payload(&self) -> usize {
        self.socket.max_payload()
    }

    /// Sets whether calls fail with [`Error::WouldBlock`] instead of blocking.
    pub fn set_nonblocking(&self, on: bool) -> Result<(), Error> {
        self.socket.set_nonblocking(on)
    }

    /// Joins a group. The node answers later: if it refuses, a later receive returns the error.
    pub fn join(&self, group: NodeAddr) -> Result<(), Error> {
        self.socket.join(group, self.port)
    }

    /// Leaves a group.
    pub fn leave(&self, group: NodeAddr) -> Result<(), Error> {
        self.socket.leave(group, self.port)
    }

    /// Requests reports about the state of the node in the overlay, and about the group of a refused join.
    pub fn watch(&self) -> Result<(), Error> {
        self.socket.watch()
    }

    /// Takes the next report that had arrived by the last receive.
    pub fn take_told(&self) -> Option<Told> {
        self.socket.take_told()
    }

    /// Adds a datagram for a group to those that are sent together. Returns false if there is no room: send the
    /// gathered datagrams first.
    #[must_use]
    pub fn push(&self, sending: &mut Sending, group: NodeAddr, payload: &[u8]) -> bool {
        let port = VirtualPort(self.port);
        sending.push(
            *self.socket.ports().start(),
            Target { node: group, port },
            payload,
        )
    }

    /// Sends the gathered datagrams as one message: all of them, or none if this fails. `sending` is empty afterwards.
    pub fn send_batch(&self, sending: &mut Sending) -> Result<(), Error> {
        self.socket.send_batch(sending)
    }

    /// Receives the datagrams of one message into `batch`, and replaces its content; at least one is of a group.
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

    /// Returns the node by which it was opened.
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
