//! The bridge's connection to the overlay: one socket for all groups.

use super::BRIDGE_PORT;
use base::NodeAddr;
use client::{Batch, Error, GroupSocket, Node, Options, Sending, Told};
use std::os::fd::{AsFd, BorrowedFd};

/// Gives access to the overlay.
pub trait Overlay: Send + Sync + 'static {
    /// A connection to the overlay.
    type Link: Link;

    /// Connects; this may wait.
    fn connect(&self) -> Result<Self::Link, Error>;
}

/// A connection to the overlay. No function waits; the descriptor is ready when something has arrived.
pub trait Link: AsFd + Send + 'static {
    /// Returns the address of the node.
    fn node(&self) -> NodeAddr;
    /// Joins a group, to receive what is sent to it. A refusal is reported after a later receive.
    fn join(&self, group: NodeAddr) -> Result<(), Error>;
    /// Leaves a group.
    fn leave(&self, group: NodeAddr) -> Result<(), Error>;
    /// Returns the maximum length of a packet that can be sent.
    fn max_packet(&self) -> usize;
    /// Adds a packet to those that are sent together. Returns false if there is no room.
    fn push(&mut self, group: NodeAddr, packet: &[u8]) -> bool;
    /// Returns how many packets are waiting to be sent.
    fn gathered(&self) -> usize;
    /// Sends the waiting packets. None is left afterwards, even if sending fails.
    fn flush(&mut self) -> Result<(), Error>;
    /// Receives a message of packets. Returns false if nothing has arrived.
    fn receive(&mut self) -> Result<bool, Error>;
    /// Returns the received packets with their groups.
    fn received(&self) -> impl Iterator<Item = (NodeAddr, &[u8])>;
    /// Returns the next report of the node up to the last receive.
    fn take_told(&mut self) -> Option<Told> {
        None
    }
}

/// Access to the overlay by a node, with the options for packets.
#[derive(Clone, Debug)]
pub struct ByNode {
    /// The node.
    pub node: Node,
    /// The options with which packets cross.
    pub options: Options,
}

/// A connection to a node.
#[derive(Debug)]
pub struct NodeLink {
    socket: GroupSocket,
    sending: Sending,
    batch: Batch,
}

impl Overlay for ByNode {
    type Link = NodeLink;

    fn connect(&self) -> Result<NodeLink, Error> {
        let socket = self.node.group_socket(BRIDGE_PORT, self.options)?;
        socket.watch()?;
        socket.set_nonblocking(true)?;
        Ok(NodeLink {
            socket,
            sending: Sending::new(),
            batch: Batch::new(),
        })
    }
}

impl Link for NodeLink {
    fn node(&self) -> NodeAddr {
        self.socket.node()
    }

    fn join(&self, group: NodeAddr) -> Result<(), Error> {
        self.socket.join(group)
    }

    fn leave(&self, group: NodeAddr) -> Result<(), Error> {
        self.socket.leave(group)
    }

    fn max_packet(&self) -> usize {
        self.socket.max_payload()
    }

    fn push(&mut self, group: NodeAddr, packet: &[u8]) -> bool {
        self.socket.push(&mut self.sending, group, packet)
    }

    fn gathered(&self) -> usize {
        self.sending.len()
    }

    fn flush(&mut self) -> Result<(), Error> {
        let sent = self.socket.send_batch(&mut self.sending);
        self.sending.clear();
        sent
    }

    fn receive(&mut self) -> Result<bool, Error> {
        match self.socket.recv_batch(&mut self.batch).map(drop) {
            Ok(()) => Ok(true),
            Err(Error::WouldBlock) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn received(&self) -> impl Iterator<Item = (NodeAddr, &[u8])> {
        let came = self.batch.iter();
        came.filter_map(|(_, _, info, payload)| Some((info.group?, payload)))
    }

    fn take_told(&mut self) -> Option<Told> {
        self.socket.take_told()
    }
}

impl AsFd for NodeLink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
