//! One plain TCP connection between two hosts: what the kernel's congestion control makes of the way.

use super::site::{Site, address};
use crate::experiment::CellError;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const PORT: u16 = 9_000;
/// What is written at once.
const BLOCK_BYTES: usize = 64 * 1024;

/// A connection that is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream<'a> {
    /// Its ends.
    pub(super) from: usize,
    pub(super) to: usize,
    /// The kernel's name of the sender's congestion control.
    pub(super) congestion: &'a str,
    /// How long it has to find its rate, and for how long it is measured.
    pub(super) warm: Duration,
    pub(super) span: Duration,
}

/// What each of several connections carries at the same time, in bits per second.
pub(super) fn rates(site: &Site, streams: &[Stream<'_>]) -> Result<Vec<f64>, CellError> {
    thread::scope(|scope| {
        let running: Vec<_> = streams
            .iter()
            .map(|stream| scope.spawn(move || rate(site, stream)))
            .collect();
        let ended = running.into_iter().map(|one| {
            let ended = one.join();
            ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        ended.collect::<io::Result<Vec<f64>>>()
    })
    .map_err(|error| CellError(format!("a plain connection over the chain: {error}")))
}

fn rate(site: &Site, stream: &Stream<'_>) -> io::Result<f64> {
    let inside = |host: usize| site.host(host);
    let listener = inside(stream.to)
        .run(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)))
        .map_err(io::Error::other)??;
    let to = (address(stream.to), PORT);
    let sender = inside(stream.from)
        .run(|| TcpStream::connect(to))
        .map_err(io::Error::other)??;
    net::tcp::set_congestion_control(&sender, stream.congestion)?;
    let (receiver, _) = listener.accept()?;
    let arrived = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| feed(&sender));
        scope.spawn(|| drain(&receiver, &arrived));
        thread::sleep(stream.warm);
        let (before, begun) = (arrived.load(Ordering::Relaxed), Instant::now());
        thread::sleep(stream.span);
        let (after, took) = (arrived.load(Ordering::Relaxed), begun.elapsed());
        // Both threads end by an error; one that has ended already is no matter.
        let _ = sender.shutdown(Shutdown::Both);
        let _ = receiver.shutdown(Shutdown::Both);
        Ok((after - before) as f64 * 8.0 / took.as_secs_f64())
    })
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
