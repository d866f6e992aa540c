//! Datagrams of a SOCKS client. [RFC 1928 §7]
//!
//! ```text
//!   client ── UDP: address, payload ──▶ Association ── overlay socket ──▶ node, or exit
//! ```
//! An association lives as long as the TCP connection that requested it. Datagrams are accepted only from the host of
//! that connection, and only from one of its ports: the first that sends.

use super::session::Way;
use super::{Refusal, Shared, count, message};
use client::{DatagramSocket, How, Target};
use core::net::SocketAddr;
use net::poll::{Polled, poll};
use net::tcp::keep_alive;
use std::io::{self, Read};
use std::net::{TcpStream, UdpSocket};
use std::os::fd::AsFd;
use wire::bytes::{Reader, Writer};
use wire::exit::{ADDRESS_BYTES_MAX, Address, Code, DATAGRAM_PORT, Host};

/// Maximum number of datagrams in one direction before the other direction is served.
const PER_TURN: usize = 32;
const DATAGRAM_BYTES_MAX: usize = 65_535;

pub(super) struct Association<'a> {
    shared: &'a Shared,
    udp: UdpSocket,
    local: SocketAddr,
    overlay: DatagramSocket,
    from: SocketAddr,
    /// The client's address, after it has sent something.
    client: Option<SocketAddr>,
}

impl<'a> Association<'a> {
    pub(super) fn open(
        shared: &'a Shared,
        tcp: &TcpStream,
        from: SocketAddr,
    ) -> Result<Association<'a>, Refusal> {
        let failed = |_: io::Error| Refusal::Code(Code::Failed);
        let at = tcp.local_addr().map_err(failed)?.ip();
        let udp = UdpSocket::bind((at, 0)).map_err(failed)?;
        udp.set_nonblocking(true).map_err(failed)?;
        let settings = &shared.settings;
        let overlay = settings.node.bind(0, settings.datagrams)?;
        overlay.set_nonblocking(true)?;
        Ok(Association {
            shared,
            local: udp.local_addr().map_err(failed)?,
            udp,
            overlay,
            from,
            client: None,
        })
    }

    /// Returns the address to which the client must send.
    pub(super) fn local(&self) -> SocketAddr {
        self.local
    }

    /// Carries datagrams until the connection ends.
    pub(super) fn carry(mut self, mut tcp: &TcpStream) {
        let mut buffer = vec![0; ADDRESS_BYTES_MAX + DATAGRAM_BYTES_MAX];
        if tcp.set_nonblocking(true).is_err() || keep_alive(tcp).is_err() {
            return;
        }
        loop {
            let mut polled = [
                Polled::new(self.udp.as_fd(), true, false),
                Polled::new(self.overlay.as_fd(), true, false),
                Polled::new(tcp.as_fd(), true, false),
            ];
            if poll(&mut polled, None).is_err() {
                return;
            }
            let [outward, inward, ended] = polled.map(|polled| polled.readable());
            if outward {
                self.outward(&mut buffer);
            }
            if inward && self.inward(&mut buffer).is_err() {
                return;
            }
            if ended {
                let mut ignored = [0; 256];
                match tcp.read(&mut ignored) {
                    Ok(len) if len > 0 => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    _ => return,
                }
            }
        }
    }

    fn outward(&mut self, buffer: &mut [u8]) {
        for _ in 0..PER_TURN {
            let Ok((len, from)) = self.udp.recv_from(buffer) else {
                return;
            };
            let client = *self.client.get_or_insert(from);
            let carried = from == client
                && from.ip().to_canonical() == self.from.ip().to_canonical()
                && self.send(&buffer[..len]).is_some();
            if !carried {
                if client.ip().to_canonical() != self.from.ip().to_canonical() {
                    self.client = None;
                }
                count(&self.shared.counters.datagrams_dropped);
            }
        }
    }

    fn send(&self, datagram: &[u8]) -> Option<()> {
        let (to, payload) = message::datagram(datagram).ok()??;
        let sent = match self.shared.way(&to).ok()? {
            Way::Node(target) => self.overlay.send_to(payload, target),
            Way::Exit(exit) => {
                let mut header = [0; ADDRESS_BYTES_MAX];
                let mut w = Writer::new(&mut header);
                to.write(&mut w).ok()?;
                let whole = [w.written(), payload].concat();
                self.overlay
                    .send_to(&whole, Target::new(exit, DATAGRAM_PORT))
            }
        };
        sent.ok()
    }

    /// Carries datagrams to the client. Returns an error if the node was lost.
    fn inward(&self, buffer: &mut [u8]) -> Result<(), client::Error> {
        for _ in 0..PER_TURN {
            let (len, from, _) = match self.overlay.recv_from_how(buffer, How::default()) {
                Ok(received) => received,
                Err(client::Error::WouldBlock) => return Ok(()),
                // The error is about a datagram that was sent.
                Err(client::Error::Refused { .. }) => continue,
                Err(error) => return Err(error),
            };
            if self.give(from, &buffer[..len]).is_none() {
                count(&self.shared.counters.datagrams_dropped);
            }
        }
        Ok(())
    }

    /// Sends a datagram to the client.
    fn give(&self, from: Target, bytes: &[u8]) -> Option<()> {
        let client = self.client?;
        let beyond = self.shared.settings.exit == Some(from.node) && from.port.0 == DATAGRAM_PORT;
        let (source, payload) = if beyond {
            let mut r = Reader::new(bytes);
            (Address::read(&mut r).ok()?, r.rest())
        } else {
            let ip = std::net::Ipv4Addr::from_bits(from.node.0);
            let source = Address {
                host: Host::Ip(ip.into()),
                port: from.port.0,
            };
            (source, bytes)
        };
        let (header, len) = message::datagram_header(&source);
        let whole = [&header[..len], payload].concat();
        self.udp.send_to(&whole, client).ok().map(drop)
    }
}
