//! Streams into the overlay.

use super::NODE_AGAIN;
use base::Time;
use client::{Batch, Error, Node, Options, RangeSocket, Sending, Target};

/// Sends into the overlay, several packets in a message. If the node is lost, this tries to reconnect until it is back.
/// Meanwhile packets are dropped, because they would be useless later.
pub struct Outlet {
    node: Node,
    options: Options,
    socket: Option<RangeSocket>,
    sending: Sending,
    said: Batch,
    next_try: Time,
    dropped: u64,
}

impl Outlet {
    /// Connects to the node.
    pub fn open(node: Node, options: Options) -> Result<Outlet, Error> {
        let socket = Outlet::connect(&node, options)?;
        Ok(Outlet {
            node,
            options,
            socket: Some(socket),
            sending: Sending::new(),
            said: Batch::new(),
            next_try: Time::ZERO,
            dropped: 0,
        })
    }

    fn connect(node: &Node, options: Options) -> Result<RangeSocket, Error> {
        let socket = node.bind_range(0..=0, options)?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    }

    /// Returns the number of packets that the node did not take.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Adds a packet to those that are sent together.
    pub fn push(&mut self, to: Target, packet: &[u8]) {
        let Some(socket) = &self.socket else {
            self.dropped += 1;
            return;
        };
        let port = *socket.ports().start();
        if self.sending.push(port, to, packet) {
            return;
        }
        self.flush();
        if !self.sending.push(port, to, packet) {
            self.dropped += 1;
        }
    }

    /// Sends the added packets.
    pub fn flush(&mut self) {
        let count = self.sending.len() as u64;
        let sent = match &self.socket {
            Some(socket) => socket.send_batch(&mut self.sending),
            None => Ok(()),
        };
        self.sending.clear();
        if sent.is_err() {
            // A lost node is noticed at the next check.
            self.dropped += count;
        }
    }

    /// Handles messages of the node, and tries to reconnect to a lost node. Returns an error when the node was lost or
    /// refuses, and true when it is back.
    pub fn look(&mut self, now: Time) -> Result<bool, Error> {
        let Some(socket) = &self.socket else {
            if now < self.next_try {
                return Ok(false);
            }
            self.next_try = now + NODE_AGAIN;
            self.socket = Outlet::connect(&self.node, self.options).ok();
            return Ok(self.socket.is_some());
        };
        loop {
            // Datagrams to this socket's port are ignored.
            match socket.recv_batch(&mut self.said) {
                Ok(()) => {}
                Err(Error::WouldBlock) => return Ok(false),
                Err(error @ Error::Refused { .. }) => return Err(error),
                Err(error) => {
                    self.socket = None;
                    self.next_try = now + NODE_AGAIN;
                    return Err(error);
                }
            }
        }
    }
}
