//! A bare forwarder as a process of its own: it shows the cost of wake-ups and of the kernel's UDP stack, with nothing
//! in between. Like a node it has its own address space and a node's priority.
//!
//! ```text
//!   entry ── epoll ── onward, connected          lifeline closed ─> it ends
//! ```
//!
//! The forwarder is as lean as possible: one wait, one read, and one write by a connected socket. The level-triggered
//! poller reports a second waiting packet again, so the first one never waits for a check whether there is a second.

use super::{BenchError, trial};
use net::epoll::{Interest, Poller};
use std::io::{self, Read};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;

/// The longest datagram.
const BUFFER_BYTES: usize = 2_048;
const TOKEN_LIFELINE: u64 = 1;
const TOKEN_PACKETS: u64 = 2;

/// The options of a forwarder.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The address at which packets arrive; any free port if the port is 0.
    pub listen: SocketAddr,
    /// The address to which they are forwarded.
    pub to: SocketAddr,
    /// The only processor that it may use.
    pub cpu: Option<usize>,
}

/// A forwarder that is ready to run.
#[derive(Debug)]
pub struct Relay {
    entry: UdpSocket,
    onward: UdpSocket,
    cpu: Option<usize>,
}

impl Relay {
    /// Opens the sockets: from now on the kernel accepts packets for [`Relay::at`].
    ///
    /// # Errors
    /// [`BenchError::Io`] if the addresses do not belong to this host.
    pub fn open(options: &Options) -> Result<Relay, BenchError> {
        let entry = UdpSocket::bind(options.listen)?;
        let onward = UdpSocket::bind((options.listen.ip(), 0))?;
        onward.connect(options.to)?;
        entry.set_nonblocking(true)?;
        onward.set_nonblocking(true)?;
        Ok(Relay {
            entry,
            onward,
            cpu: options.cpu,
        })
    }

    /// Enlarges the kernel's buffer for bursts.
    pub(super) fn enlarge(&self) {
        net::udp::enlarge(&self.entry);
    }

    /// Returns the address at which packets arrive.
    ///
    /// # Errors
    /// [`BenchError::Io`], never in practice.
    pub fn at(&self) -> Result<SocketAddr, BenchError> {
        Ok(self.entry.local_addr()?)
    }

    /// Forwards until the other end of `lifeline` is closed, which also happens when the process that holds it ends.
    /// The calling thread is pinned and takes real-time priority, if permitted.
    ///
    /// # Errors
    /// [`BenchError::Io`], also if the thread cannot wait for `lifeline`, for example because it is a file.
    pub fn run(self, mut lifeline: impl Read + AsFd) -> Result<(), BenchError> {
        trial::prepare(self.cpu)?;
        let mut poller = Poller::new()?;
        poller.add(&lifeline, TOKEN_LIFELINE, Interest::READ)?;
        poller.add(&self.entry, TOKEN_PACKETS, Interest::READ)?;
        let (mut events, mut buffer) = (Vec::new(), [0; BUFFER_BYTES]);
        loop {
            poller.wait(None, &mut events)?;
            for event in &events {
                if event.token == TOKEN_LIFELINE {
                    if ended(&mut lifeline, &mut buffer) {
                        return Ok(());
                    }
                    continue;
                }
                // Errors of a datagram socket concern single packets.
                if let Ok(len) = self.entry.recv(&mut buffer) {
                    let _ = self.onward.send(&buffer[..len]);
                }
            }
        }
    }
}

/// Returns true at the end of the input. Any content before the end is ignored.
fn ended(lifeline: &mut impl Read, buffer: &mut [u8]) -> bool {
    match lifeline.read(buffer) {
        Ok(len) => len == 0,
        Err(error) => error.kind() != io::ErrorKind::Interrupted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn packets_are_forwarded_until_the_lifeline_is_cut() {
        let end = UdpSocket::bind("127.0.0.1:0").unwrap();
        let relay = Relay::open(&Options {
            listen: "127.0.0.1:0".parse().unwrap(),
            to: end.local_addr().unwrap(),
            cpu: None,
        })
        .unwrap();
        let at = relay.at().unwrap();
        let (lifeline, mut held) = UnixStream::pair().unwrap();
        let running = std::thread::spawn(move || relay.run(lifeline));
        held.write_all(b"words do not end it").unwrap();
        let source = UdpSocket::bind("127.0.0.1:0").unwrap();
        for packet in [&b"one"[..], b"two"] {
            source.send_to(packet, at).unwrap();
            let mut buffer = [0; 16];
            let len = end.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..len], packet);
        }
        drop(held);
        running.join().unwrap().unwrap();
    }
}
