//! Carrying bytes between a TCP connection and a stream of the overlay, both ways, to both ends.
//!
//! ```text
//!   TCP read ──▶ stream write      EOF of one side ──▶ shutdown of the other (half-close)
//!   stream read ──▶ TCP write      an error of one side ──▶ reset of the other, at once
//! ```
//! Until both have ended in order, closing the connection resets it: the kernel closes what a process
//! leaves behind that was killed.

use client::Stream;
use net::tcp;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Bytes carried at once: what the node takes with one read.
const BUFFER_BYTES: usize = 65_536;
/// A direction's thread holds a buffer on the heap and little on its stack.
const STACK_BYTES: usize = 128 * 1024;

/// What was carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Bytes from TCP to the overlay.
    pub to_overlay: u64,
    /// Bytes from the overlay to TCP.
    pub to_tcp: u64,
}

/// Carries bytes both ways until both have ended, or one of them in error, which both sides are
/// told by a reset.
pub fn carry(tcp: TcpStream, stream: Stream) -> (Carried, io::Result<()>) {
    // Interactive programs wait for single bytes.
    let _ = tcp.set_nodelay(true);
    let _ = tcp::keep_alive(&tcp);
    let guarded = tcp::abort_on_close(&tcp, true);
    let pair = Pair {
        tcp,
        stream,
        first_error: Mutex::default(),
    };
    let carried = thread::scope(|scope| {
        let outward = thread::Builder::new()
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, || pair.outward());
        match guarded.and(outward) {
            Ok(outward) => {
                let to_tcp = pair.inward();
                // A thread that has panicked has carried nothing that could be told.
                let to_overlay = outward.join().unwrap_or_default();
                Carried { to_overlay, to_tcp }
            }
            Err(error) => {
                pair.fail(error);
                Carried::default()
            }
        }
    });
    let first_error = pair.first_error.into_inner();
    match first_error.unwrap_or_else(PoisonError::into_inner) {
        Some(error) => (carried, Err(error)),
        // What is still to be sent to the client is sent after the end.
        None => (carried, tcp::abort_on_close(&pair.tcp, false)),
    }
}

/// The two sides.
struct Pair {
    tcp: TcpStream,
    stream: Stream,
    /// What follows from it is of no interest.
    first_error: Mutex<Option<io::Error>>,
}

impl Pair {
    fn outward(&self) -> u64 {
        let mut carried = 0;
        let poured = pour(&self.tcp, &self.stream, &mut carried);
        self.end(poured.and_then(|()| self.stream.shutdown(Shutdown::Write)));
        carried
    }

    fn inward(&self) -> u64 {
        let mut carried = 0;
        let poured = pour(&self.stream, &self.tcp, &mut carried);
        self.end(poured.and_then(|()| self.tcp.shutdown(Shutdown::Write)));
        carried
    }

    fn end(&self, direction: io::Result<()>) {
        match direction {
            Ok(()) => {}
            // The other side has closed already, and had everything that it wanted.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => {}
            Err(error) => self.fail(error),
        }
    }

    /// Ends both sides at once, which wakes the other direction from its read or write.
    fn fail(&self, error: io::Error) {
        let mut first = self
            .first_error
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(error);
        drop(first);
        self.stream.reset();
        tcp::abort(&self.tcp);
    }
}

fn pour(mut from: impl Read, mut to: impl Write, carried: &mut u64) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let len = match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        to.write_all(&buffer[..len])?;
        *carried += len as u64;
    }
}
