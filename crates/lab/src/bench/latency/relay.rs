//! Bare forwarders, and the sockets at both ends of them: what waking up and the kernel's UDP
//! stack cost, with nothing in between.
//!
//! As lean as can be: one wait, one read, one write by a connected socket. A second packet that
//! waits is reported again by the level-triggered poller, so the first one never waits for a look
//! whether there is a second.

use super::{Arena, MIDDLE};
use crate::bench::BenchError;
use crate::bench::trial::{Carrier, Drain, NONE, Plan, Source, Stage, Trial, Used, prepare, run};
use net::epoll::{Interest, Poller};
use net::sched;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

/// As many as there are nodes.
const RELAYS: usize = 3;
/// The longest datagram.
const BUFFER_BYTES: usize = 2_048;
const TOKEN_STOP: u64 = 1;
const TOKEN_PACKETS: u64 = 2;

/// The forwarders' sockets, and those of the streams. Threads run during trials only.
pub(super) struct Relays {
    relays: Vec<Relay>,
    /// To the first forwarder, one per stream.
    through: Vec<UdpSocket>,
    /// Straight to the end, one per stream.
    straight: Vec<UdpSocket>,
    end: UdpSocket,
}

/// One forwarder.
struct Relay {
    entry: UdpSocket,
    onward: UdpSocket,
    cpu: Option<usize>,
}

impl Relays {
    /// Opens the sockets for `streams` streams.
    pub(super) fn open(arena: &Arena<'_>, streams: u32) -> Result<Relays, BenchError> {
        let row = &arena.row;
        let bind = |host: usize| -> Result<UdpSocket, BenchError> {
            let socket = row.within(host, || UdpSocket::bind(row.any()))??;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        // The way to a socket of `host` from the host before it, or from its own.
        let way = |socket: &UdpSocket, from: usize, host: usize| -> io::Result<SocketAddr> {
            let ip = match from {
                from if from == host => row.ip(host, if host == 0 { 1 } else { host - 1 }),
                _ => row.ip(host, host - 1),
            };
            Ok((ip, socket.local_addr()?.port()).into())
        };
        let end = bind(RELAYS - 1)?;
        let mut relays = Vec::new();
        for host in 0..RELAYS {
            relays.push(Relay {
                entry: bind(host)?,
                onward: bind(host)?,
                cpu: arena.cpu(host + 1),
            });
        }
        for host in 0..RELAYS {
            let to = match relays.get(host + 1) {
                Some(next) => way(&next.entry, host, host + 1)?,
                None => way(&end, host, host)?,
            };
            relays[host].onward.connect(to)?;
        }
        let sources = |to: SocketAddr| -> Result<Vec<UdpSocket>, BenchError> {
            let open = |_| {
                let socket = bind(0)?;
                socket.connect(to)?;
                Ok(socket)
            };
            (0..streams).map(open).collect()
        };
        Ok(Relays {
            through: sources(way(&relays[0].entry, 0, 0)?)?,
            straight: sources(way(&end, RELAYS - 2, RELAYS - 1)?)?,
            relays,
            end,
        })
    }

    /// A trial by the kernel alone.
    pub(super) fn direct(&self, plan: &Plan) -> Result<Trial, BenchError> {
        Ok(run(plan, &self.straight, &self.end, NONE)?.0)
    }

    /// A trial through the forwarders.
    pub(super) fn trial(&self, plan: &Plan) -> Result<Trial, BenchError> {
        let (mut trial, used) = run(plan, &self.through, &self.end, &self.relays)?;
        let middle = used.get(MIDDLE);
        trial.wakeups = middle.map(|used| used.wakeups);
        trial.cpu_ns = middle.map(|used| used.cpu_ns);
        Ok(trial)
    }
}

impl Carrier for Relay {
    fn carry(&self, stage: &Stage) -> io::Result<Used> {
        let prepared = prepare(self.cpu).and_then(|_| self.watch(stage));
        stage.ready();
        let mut poller = prepared?;
        let (cpu, wakeups) = (sched::thread_cpu(), sched::thread_wakeups());
        let (mut events, mut buffer) = (Vec::new(), [0; BUFFER_BYTES]);
        loop {
            poller.wait(None, &mut events)?;
            for event in &events {
                if event.token == TOKEN_STOP {
                    return Ok(Used {
                        cpu_ns: sched::thread_cpu().saturating_sub(cpu).as_nanos(),
                        wakeups: sched::thread_wakeups() - wakeups,
                    });
                }
                // Errors of a datagram socket concern single packets.
                if let Ok(len) = self.entry.recv(&mut buffer) {
                    let _ = self.onward.send(&buffer[..len]);
                }
            }
        }
    }
}

impl Relay {
    fn watch(&self, stage: &Stage) -> io::Result<Poller> {
        let poller = Poller::new()?;
        poller.add(&stage.stop, TOKEN_STOP, Interest::READ)?;
        poller.add(&self.entry, TOKEN_PACKETS, Interest::READ)?;
        Ok(poller)
    }
}

impl Source for UdpSocket {
    fn send(&self, packet: &[u8]) -> io::Result<()> {
        // What the kernel does not take is lost, and counted by its absence.
        let _ = UdpSocket::send(self, packet);
        Ok(())
    }
}

impl Drain for UdpSocket {
    fn fd(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }

    fn receive(&self, packet: &mut [u8]) -> io::Result<Option<usize>> {
        Ok(self.recv(packet).ok())
    }
}

/// Sockets for `streams` streams on loopback, and where they are connected to.
#[cfg(test)]
pub(in crate::bench) fn udp_pair(streams: usize) -> (Vec<UdpSocket>, UdpSocket) {
    let end = UdpSocket::bind("127.0.0.1:0").unwrap();
    end.set_nonblocking(true).unwrap();
    let source = |_| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(end.local_addr().unwrap()).unwrap();
        socket
    };
    ((0..streams).map(source).collect(), end)
}
