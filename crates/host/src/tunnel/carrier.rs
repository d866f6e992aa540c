//! Carries datagrams between the loop and one TLS connection, on a thread of its own, until either ends.
//!
//! ```text
//!   loop ── stride, burst ──▶ backlog ── records, 16 KiB at once ──▶ TLS ──▶ TCP, little unsent
//!   loop ◀───── datagram ──── decoder ◀───────────────────────────── TLS ◀── TCP
//! ```
//! The loop's socket is always read, so that old datagrams are dropped here and do not pile up there. TCP is written
//! only if the kernel reports that little is unsent: what waits beyond that can still be dropped.

use super::backlog::Backlog;
use super::table::Counts;
use crate::relay::socket::{Data, Socket};
use net::poll::{Polled, poll};
use net::unix::{Received, SeqStream};
use rustls::Connection;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::tunnel::{Decoder, RECORD_BYTES_MAX, Record};

/// Bytes that are given to TLS at once: one TLS record. Choice: 10 ms of 13 Mbit/s.
const BATCH_BYTES: usize = 16 << 10;
/// Bytes that may be unsent in the kernel, in addition to those in flight.
const UNSENT_BYTES: u32 = BATCH_BYTES as u32;
/// Number of bursts taken from the loop, or of reads from the connection, before the other side has its turn.
const PER_TURN: usize = 64;
/// The longest message from the loop: a stride and a whole burst.
const MESSAGE_BYTES: usize = STRIDE_BYTES + base::pool::LARGE_BYTES;
/// Size of the stride in front of a burst: the length of each of its datagrams except the last.
pub(super) const STRIDE_BYTES: usize = 2;

/// After this silence the kernel probes whether the other host is reachable,
const ASK_AFTER: Duration = Duration::from_secs(2);
/// repeats the probe at this interval,
const ASK_EVERY: Duration = Duration::from_secs(1);
/// and gives the connection up after this silence. Choice: the link notices long before, and a new connection is cheap;
/// if a path is interrupted for less time, its tunnel survives.
const SILENCE: Duration = Duration::from_secs(6);

/// One tunnel's thread.
pub(crate) struct Carrier {
    socket: Arc<Socket>,
    tls: Connection,
    decoder: Decoder,
    backlog: Backlog,
    counts: Arc<Counts>,
    /// Records on their way into TLS, or plain bytes out of it.
    buffer: Vec<u8>,
}

impl Carrier {
    /// Creates a tunnel on a connection whose certificates have been checked. Bytes that arrived behind the
    /// certificates are kept.
    pub(crate) fn new(data: Data, counts: Arc<Counts>) -> io::Result<Carrier> {
        let (socket, sealed) = data.into_parts();
        // Only TLS connections carry links.
        let (mut tls, rest) = sealed.ok_or(ErrorKind::InvalidInput)?;
        socket.set_patience(None)?;
        socket.set_nonblocking(true)?;
        if let Some(tcp) = socket.tcp() {
            tcp.set_nodelay(true)?;
            net::tcp::keep_alive_within(tcp, ASK_AFTER, ASK_EVERY, SILENCE)?;
            // If a kernel does not support this, more is queued there.
            let _ = net::tcp::set_unsent_low_water(tcp, UNSENT_BYTES);
        }
        let mut rest = &rest[..];
        let mut decoder = Decoder::default();
        let mut buffer = vec![0; BATCH_BYTES];
        while !rest.is_empty() {
            tls.read_tls(&mut rest)?;
            process(&mut tls)?;
            drain(&mut tls, &mut buffer, &mut decoder)?;
        }
        drain(&mut tls, &mut buffer, &mut decoder)?;
        Ok(Carrier {
            socket,
            tls,
            decoder,
            backlog: Backlog::default(),
            counts,
            buffer,
        })
    }

    /// Carries datagrams until the loop or the other side ends the tunnel. The caller measures how long that takes.
    pub(crate) fn run(mut self, local: &SeqStream) -> io::Result<()> {
        let ended = self.carry(local);
        self.socket.shutdown(Shutdown::Both);
        ended
    }

    fn carry(&mut self, local: &SeqStream) -> io::Result<()> {
        let mut message = vec![0; MESSAGE_BYTES];
        let (mut readable, mut writable) = (false, true);
        // Deliver what arrived together with the greeting.
        self.hand_over(local)?;
        loop {
            if !self.take(local, &mut message)? {
                return Ok(());
            }
            if writable {
                self.write()?;
            }
            if readable && !self.read(local)? {
                return Ok(());
            }
            let dropped = self.backlog.take_dropped();
            self.counts.add(dropped.full, dropped.late);
            let wants = self.tls.wants_write() || !self.backlog.is_empty();
            let mut polled = [
                Polled::new(self.socket.as_fd(), true, wants),
                Polled::new(local.as_fd(), true, false),
            ];
            poll(&mut polled, None)?;
            (readable, writable) = (polled[0].readable(), polled[0].writable());
        }
    }

    /// Takes what the loop sends. Returns false if the loop has ended the tunnel.
    fn take(&mut self, local: &SeqStream, message: &mut [u8]) -> io::Result<bool> {
        let now = Instant::now();
        for _ in 0..PER_TURN {
            match local.recv_into(message)? {
                Received::Message(len) => {
                    let Some((stride, burst)) = message[..len].split_first_chunk() else {
                        continue;
                    };
                    let stride = usize::from(u16::from_be_bytes(*stride)).max(1);
                    for datagram in burst.chunks(stride) {
                        self.backlog.push(now, datagram);
                    }
                }
                Received::Empty => break,
                Received::Closed | Received::Truncated(_) => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Gives the next datagrams to TLS, and TLS's output to the kernel.
    fn write(&mut self) -> io::Result<()> {
        if !self.tls.wants_write() {
            let now = Instant::now();
            self.buffer.clear();
            while self.buffer.len() + RECORD_BYTES_MAX <= BATCH_BYTES {
                let Some(datagram) = self.backlog.pop(now) else {
                    break;
                };
                if Record::Datagram(&datagram)
                    .append(&mut self.buffer)
                    .is_err()
                {
                    // No link sends a datagram of this length.
                    self.counts.add(1, 0);
                }
                self.backlog.give_back(datagram);
            }
            self.tls.writer().write_all(&self.buffer)?;
        }
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut &*self.socket) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads what has arrived. Returns false at the end of the connection.
    fn read(&mut self, local: &SeqStream) -> io::Result<bool> {
        self.buffer.resize(BATCH_BYTES, 0);
        for _ in 0..PER_TURN {
            match self.tls.read_tls(&mut &*self.socket) {
                Ok(0) => return Ok(false),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            process(&mut self.tls)?;
            drain(&mut self.tls, &mut self.buffer, &mut self.decoder)?;
            self.hand_over(local)?;
        }
        Ok(true)
    }

    /// Delivers complete datagrams to the loop.
    fn hand_over(&mut self, local: &SeqStream) -> io::Result<()> {
        loop {
            let record = self.decoder.take();
            let record =
                record.map_err(|malformed| io::Error::new(ErrorKind::InvalidData, malformed))?;
            match record {
                None => return Ok(()),
                Some(Record::Datagram(datagram)) => {
                    match local.send_parts(&[IoSlice::new(datagram)]) {
                        Err(error) if error.kind() == ErrorKind::WouldBlock => {
                            self.counts.add(1, 0);
                        }
                        other => other?,
                    }
                }
                // There is only one Hello, and it was read before.
                Some(Record::Hello(_)) => return Err(ErrorKind::InvalidData.into()),
            }
        }
    }
}

fn process(tls: &mut Connection) -> io::Result<()> {
    let processed = tls.process_new_packets();
    let processed = processed.map(drop);
    processed.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}

fn drain(tls: &mut Connection, buffer: &mut [u8], decoder: &mut Decoder) -> io::Result<()> {
    loop {
        match tls.reader().read(buffer) {
            Ok(0) => return Ok(()),
            Ok(len) => decoder.push(&buffer[..len]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            // The next read finds the end.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}
