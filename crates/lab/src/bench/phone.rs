//! Clients of nodes, as the measurement's sources and its drain, in the real-time class of voice.

use super::BenchError;
use super::fleet::Process;
use super::trial::{Drain, Source};
use client::{DatagramSocket, Node, Options, Target};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// How long voice is useful [Amir06 §V-B].
const DEADLINE: Duration = Duration::from_millis(100);

/// A client that sends to one other client.
pub(super) struct Sender {
    socket: DatagramSocket,
    to: Target,
}

/// Returns a client of `node` that sends to `to`.
pub(super) fn sender(node: &Process, to: Target) -> Result<Sender, BenchError> {
    let socket = bind(node, 0)?;
    Ok(Sender { socket, to })
}

/// Returns a client of `node` that receives at `port` and waits with a poller.
pub(super) fn receiver(node: &Process, port: u16) -> Result<DatagramSocket, BenchError> {
    let socket = bind(node, port)?;
    socket.set_nonblocking(true).map_err(io::Error::other)?;
    Ok(socket)
}

/// Binds a client of `node` at `port`; 0 for any.
fn bind(node: &Process, port: u16) -> Result<DatagramSocket, BenchError> {
    let bound = Node::at(node.client_socket()).bind(port, Options::voice(DEADLINE));
    bound.map_err(|error| node.error(&error.to_string()))
}

impl Source for Sender {
    fn send(&self, packet: &[u8]) -> io::Result<()> {
        let sent = self.socket.send_to(packet, self.to);
        sent.map_err(io::Error::other)
    }
}

impl Drain for DatagramSocket {
    fn fd(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }

    fn receive(&self, packet: &mut [u8]) -> io::Result<Option<usize>> {
        match self.recv_from(packet) {
            Ok((len, ..)) => Ok(Some(len)),
            Err(client::Error::WouldBlock) => Ok(None),
            Err(error) => Err(io::Error::other(error)),
        }
    }
}
