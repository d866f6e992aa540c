//! The transport of SIP over the overlay: datagrams, which look like UDP to the transactions.

use super::hop::OVERLAY_PORT;
use base::{NodeAddr, VirtualPort};
use client::{DatagramSocket, Error, Node, Options, Target};
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;
use rsipstack::platform::net::UdpSocket;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::unix::AsyncFd;

/// The time between attempts to reach a lost node again.
const AGAIN: Duration = Duration::from_millis(500);

/// A datagram socket of the node, bound to [`OVERLAY_PORT`]; it is bound again when the node was restarted.
pub(crate) struct OverlaySocket {
    node: Node,
    address: NodeAddr,
    socket: Mutex<Arc<AsyncFd<DatagramSocket>>>,
}

impl OverlaySocket {
    /// Binds the socket. This must run within a runtime.
    pub(crate) fn bind(node: &Node) -> Result<Self, Error> {
        let socket = bind(node)?;
        Ok(OverlaySocket {
            node: node.clone(),
            address: socket.get_ref().local().node,
            socket: Mutex::new(Arc::new(socket)),
        })
    }

    fn socket(&self) -> Arc<AsyncFd<DatagramSocket>> {
        let socket = self.socket.lock();
        socket.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until the node is back.
    async fn bind_again(&self) {
        loop {
            tokio::time::sleep(AGAIN).await;
            if let Ok(socket) = bind(&self.node) {
                let mut held = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
                *held = Arc::new(socket);
                return;
            }
        }
    }
}

/// Binds the socket for reliable links, so that losses between gateways are repaired not only by the retransmissions of
/// the phones.
#[expect(
    deprecated,
    reason = "its successor is unsafe to call; a socket owns its descriptor, and keeps it"
)]
fn bind(node: &Node) -> Result<AsyncFd<DatagramSocket>, Error> {
    let options = Options {
        priority: 5,
        ..Options::stream()
    };
    let socket = node.bind(OVERLAY_PORT, options)?;
    socket.set_nonblocking(true)?;
    Ok(AsyncFd::new(socket)?)
}

fn address(target: Target) -> SocketAddr {
    let ip = IpAddr::V4(Ipv4Addr::from_bits(target.node.0));
    SocketAddr::new(ip, target.port.0)
}

fn failed(error: impl core::fmt::Display) -> rsipstack::Error {
    rsipstack::Error::Error(error.to_string())
}

#[async_trait::async_trait]
impl UdpSocket for OverlaySocket {
    async fn recv_from(&self, buffer: &mut [u8]) -> rsipstack::Result<(usize, SocketAddr)> {
        loop {
            let socket = self.socket();
            let mut ready = socket.readable().await.map_err(failed)?;
            match ready.get_inner().recv_from(buffer) {
                Ok((len, from, _)) => return Ok((len, address(from))),
                Err(Error::WouldBlock) => ready.clear_ready(),
                // A datagram could not be sent; its transaction notices this by itself.
                Err(Error::Refused { .. }) => {}
                Err(_) => self.bind_again().await,
            }
        }
    }

    async fn send_to(&self, bytes: &[u8], to: SocketAddr) -> rsipstack::Result<usize> {
        let IpAddr::V4(ip) = to.ip() else {
            return Err(failed("an overlay address has 32 bits"));
        };
        let to = Target {
            node: NodeAddr(ip.to_bits()),
            port: VirtualPort(to.port()),
        };
        let socket = self.socket();
        loop {
            let mut ready = socket.writable().await.map_err(failed)?;
            match ready.get_inner().send_to(bytes, to) {
                Ok(()) => return Ok(bytes.len()),
                Err(Error::WouldBlock) => ready.clear_ready(),
                Err(error) => return Err(failed(error)),
            }
        }
    }

    fn local_addr(&self) -> rsipstack::Result<SocketAddr> {
        let ip = IpAddr::V4(Ipv4Addr::from_bits(self.address.0));
        Ok(SocketAddr::new(ip, OVERLAY_PORT))
    }
}
