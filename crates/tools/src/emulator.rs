//! An emulated path for real UDP packets, in one direction.
//!
//! ```text
//!   sender ──UDP──> [ socket ── Line (loss, delay) ── socket ] ──UDP──> receiver
//!                        one thread: epoll with a timeout in nanoseconds
//! ```
//!
//! The line is the same model that impairs the links inside the nodes and in the simulator. So an
//! emulated path and a link with the same words lose in the same way.

use base::impair::{Counts, Line, Model};
use base::rng::Rng;
use net::Clock;
use net::epoll::{Interest, Poller, Waker};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// The longest datagram that passes; longer datagrams are cut. Voice packets have 172 bytes.
const DATAGRAM_BYTES_MAX: usize = 2048;
/// Datagrams that are taken at once. The limit keeps due datagrams from waiting: 64 take some 100
/// µs.
const READS_PER_TURN: usize = 64;

const TOKEN_SOCKET: u64 = 0;
const TOKEN_WAKER: u64 = 1;

/// A path that is running. Dropping it ends its thread.
#[derive(Debug)]
pub struct Emulator {
    address: SocketAddr,
    stopping: Arc<AtomicBool>,
    /// A new model that the thread has not taken over yet.
    order: Arc<Mutex<Option<Model>>>,
    waker: Arc<Waker>,
    thread: Option<JoinHandle<io::Result<Traffic>>>,
}

/// What was sent into the path, and what the path did with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes of UDP payload that were sent into the path.
    pub bytes_in: u64,
    /// What the model did with the packets.
    pub counts: Counts,
    /// Packets that the kernel refused to send to the receiver.
    pub refused: u64,
}

impl Emulator {
    /// Opens a path on the loopback interface that ends at `to`. Equal seeds give equal fates.
    pub fn start(model: Model, seed: u64, to: SocketAddr) -> io::Result<Emulator> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.set_nonblocking(true)?;
        let address = socket.local_addr()?;
        let (poller, waker) = (Poller::new()?, Arc::new(Waker::new()?));
        poller.add(&socket, TOKEN_SOCKET, Interest::READ)?;
        poller.add(&*waker, TOKEN_WAKER, Interest::READ)?;
        let order = Arc::new(Mutex::new(None));
        let stopping = Arc::new(AtomicBool::new(false));
        let path = Path {
            socket,
            to,
            line: Line::new(model, Rng::new(seed)),
            clock: Clock::new(),
            traffic: Traffic::default(),
            order: Arc::clone(&order),
            waker: Arc::clone(&waker),
        };
        let stop = Arc::clone(&stopping);
        let thread = std::thread::Builder::new().name("emulator".into());
        let thread = thread.spawn(move || path.run(poller, &stop))?;
        Ok(Emulator {
            address,
            stopping,
            order,
            waker,
            thread: Some(thread),
        })
    }

    /// Returns the address to which senders send.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the model of the path. Packets in the line arrive as the old model decided.
    pub fn set_model(&self, model: Model) {
        *self.order.lock().unwrap_or_else(PoisonError::into_inner) = Some(model);
        self.waker.wake();
    }

    /// Ends the path and returns what it carried. Packets that are still in the line are lost.
    pub fn stop(mut self) -> io::Result<Traffic> {
        self.join().unwrap_or_else(|| Ok(Traffic::default()))
    }

    fn join(&mut self) -> Option<io::Result<Traffic>> {
        self.stopping.store(true, Ordering::Release);
        self.waker.wake();
        let ended = self.thread.take()?.join();
        Some(ended.unwrap_or_else(|_| Err(io::Error::other("the emulator's thread panicked"))))
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.join();
    }
}

struct Path {
    socket: UdpSocket,
    to: SocketAddr,
    line: Line<Vec<u8>>,
    clock: Clock,
    traffic: Traffic,
    order: Arc<Mutex<Option<Model>>>,
    waker: Arc<Waker>,
}

impl Path {
    fn run(mut self, mut poller: Poller, stopping: &AtomicBool) -> io::Result<Traffic> {
        crate::pace::prepare_thread();
        let mut ready = Vec::new();
        while !stopping.load(Ordering::Acquire) {
            self.send_due();
            let now = self.clock.now();
            let timeout = self.line.next().map(|at| at.since(now));
            poller.wait(timeout, &mut ready)?;
            if ready.iter().any(|event| event.token == TOKEN_SOCKET) {
                self.receive()?;
            }
            if ready.iter().any(|event| event.token == TOKEN_WAKER) {
                self.waker.drain();
                let order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(model) = { order }.take() {
                    self.line.set_model(model);
                }
            }
        }
        self.traffic.counts = self.line.pipe().counts();
        Ok(self.traffic)
    }

    fn receive(&mut self) -> io::Result<()> {
        let mut buffer = [0; DATAGRAM_BYTES_MAX];
        for _ in 0..READS_PER_TURN {
            match self.socket.recv(&mut buffer) {
                Ok(len) => {
                    self.traffic.bytes_in += len as u64;
                    // The line counts the result by itself.
                    let _ = self
                        .line
                        .push(self.clock.now(), len, buffer[..len].to_vec());
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return Ok(()),
                    // The kernel reports here that the receiver has gone away, once per packet sent
                    // to it.
                    io::ErrorKind::ConnectionRefused | io::ErrorKind::Interrupted => {}
                    _ => return Err(error),
                },
            }
        }
        Ok(())
    }

    fn send_due(&mut self) {
        let now = self.clock.now();
        while let Some(packet) = self.line.pop_due(now) {
            if self.socket.send_to(&packet, self.to).is_err() {
                self.traffic.refused += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Time;
    use base::impair::Verdict;

    /// Opens a receiver with a timeout, so that a lost packet fails a test instead of stopping it.
    fn receiver() -> UdpSocket {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket
            .set_read_timeout(Some(std::time::Duration::from_secs(30)))
            .unwrap();
        socket
    }

    /// The packets that arrive are those that the model lets through, for the same seed.
    #[test]
    fn fates_are_those_of_the_model_with_the_same_seed() {
        const PACKETS: u8 = 200;
        let model: Model = "loss=20% burst=40%".parse().unwrap();
        let mut line = Line::new(model.clone(), Rng::new(42));
        let survives = |n: &u8| matches!(line.push(Time::ZERO, 1, *n), Verdict::Deliver(_));
        let expected: Vec<u8> = (0..PACKETS).filter(survives).collect();

        let receiver = receiver();
        let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let emulator = Emulator::start(model, 42, receiver.local_addr().unwrap()).unwrap();
        let mut buffer = [0; 8];
        let mut arrived = Vec::new();
        for n in 0..PACKETS {
            sender.send_to(&[n], emulator.address()).unwrap();
            // The test sends the packets one after the other, so that no buffer can overflow on a
            // slow machine.
            if expected.contains(&n) {
                assert_eq!(receiver.recv(&mut buffer).unwrap(), 1);
                arrived.push(buffer[0]);
            }
        }
        assert_eq!(arrived, expected);
        let traffic = emulator.stop().unwrap();
        assert_eq!(traffic.counts.delivered, expected.len() as u64);
        assert_eq!(traffic.refused, 0);
    }

    #[test]
    fn a_path_that_goes_down_carries_nothing_until_it_is_up() {
        let receiver = receiver();
        let clean: Model = "clean".parse().unwrap();
        let emulator = Emulator::start(clean.clone(), 1, receiver.local_addr().unwrap()).unwrap();
        let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut buffer = [0; 8];
        emulator.set_model(clean.clone().with_outage(true));
        // Packets pass until the thread has seen the order; after that, none passes. The second
        // order lets all pass again.
        receiver
            .set_read_timeout(Some(std::time::Duration::from_millis(200)))
            .unwrap();
        let mut passes = || {
            sender.send_to(b"x", emulator.address()).unwrap();
            receiver.recv(&mut buffer).is_ok()
        };
        assert!((0..100).any(|_| !passes()));
        emulator.set_model(clean);
        assert!((0..100).any(|_| passes()));
    }

    #[test]
    fn nothing_arrives_before_its_delay_and_an_endless_wait_ends() {
        let receiver = receiver();
        let model = "delay=30ms".parse().unwrap();
        let emulator = Emulator::start(model, 1, receiver.local_addr().unwrap()).unwrap();
        let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let clock = Clock::new();
        let before = clock.now();
        sender.send_to(b"voice", emulator.address()).unwrap();
        let mut buffer = [0; 8];
        assert_eq!(receiver.recv(&mut buffer).unwrap(), 5);
        assert!(clock.now().since(before) >= base::Duration::from_millis(30));
        let traffic = emulator.stop().unwrap();
        assert_eq!((traffic.bytes_in, traffic.counts.delivered), (5, 1));
    }
}
