//! Plain TCP connections between two hosts: the rate of the kernel's congestion control on the path.

use super::site::Site;
use crate::experiment::CellError;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const PORT: u16 = 9_000;
/// Block size of writes.
const BLOCK_BYTES: usize = 64 * 1024;

/// A connection that is measured.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Stream<'a> {
    /// Its ends.
    pub(in super::super) from: usize,
    pub(in super::super) to: usize,
    /// The kernel's name of the sender's congestion control.
    pub(in super::super) congestion: &'a str,
    /// The time for it to reach its rate, and the time in which it is measured.
    pub(in super::super) warm: Duration,
    pub(in super::super) span: Duration,
}

/// Returns the rates of several simultaneous connections, in bits per second.
pub(in super::super) fn rates(site: &Site, streams: &[Stream<'_>]) -> Result<Vec<f64>, CellError> {
    thread::scope(|scope| {
        let running: Vec<_> = streams
            .iter()
            .map(|stream| scope.spawn(move || rate(site, stream)))
            .collect();
        let ended = running.into_iter().map(|one| {
            let ended = one.join();
            ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        ended.collect()
    })
}

fn rate(site: &Site, stream: &Stream<'_>) -> Result<f64, CellError> {
    let running = Connection::start(site, (stream.from, stream.to), stream.congestion)?;
    thread::sleep(stream.warm);
    let (before, begun) = (running.arrived(), Instant::now());
    thread::sleep(stream.span);
    let (after, took) = (running.arrived(), begun.elapsed());
    Ok((after - before) as f64 * 8.0 / took.as_secs_f64())
}

/// A connection that sends as fast as possible until this is dropped.
pub(in super::super) struct Connection {
    sockets: [TcpStream; 2],
    arrived: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Connection {
    /// Starts to send from one host to another.
    pub(in super::super) fn start(
        site: &Site,
        ends: (usize, usize),
        congestion: &str,
    ) -> Result<Connection, CellError> {
        let started = Connection::between(site, ends, congestion);
        started.map_err(|error| CellError(format!("a plain connection: {error}")))
    }

    fn between(
        site: &Site,
        (from, to): (usize, usize),
        congestion: &str,
    ) -> io::Result<Connection> {
        let inside = |host: usize| site.host(host);
        let listener = inside(to)
            .run(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)))
            .map_err(io::Error::other)??;
        let at = (site.address(to), PORT);
        let sender = inside(from)
            .run(|| TcpStream::connect(at))
            .map_err(io::Error::other)??;
        net::tcp::set_congestion_control(&sender, congestion)?;
        let (receiver, _) = listener.accept()?;
        let arrived = Arc::<AtomicU64>::default();
        let sockets = [sender.try_clone()?, receiver.try_clone()?];
        let count = Arc::clone(&arrived);
        let threads = vec![
            thread::spawn(move || feed(&sender)),
            thread::spawn(move || drain(&receiver, &count)),
        ];
        Ok(Connection {
            sockets,
            arrived,
            threads,
        })
    }

    /// Returns the bytes that have arrived.
    pub(in super::super) fn arrived(&self) -> u64 {
        self.arrived.load(Ordering::Relaxed)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        for socket in &self.sockets {
            // This ends both threads; the connection may already have ended.
            let _ = socket.shutdown(Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn feed(mut sender: &TcpStream) {
    let block = [0; BLOCK_BYTES];
    while sender.write_all(&block).is_ok() {}
}

fn drain(mut receiver: &TcpStream, arrived: &AtomicU64) {
    let mut block = [0; BLOCK_BYTES];
    while let Ok(bytes @ 1..) = receiver.read(&mut block) {
        arrived.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}
