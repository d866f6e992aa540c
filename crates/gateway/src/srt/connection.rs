//! A connection, which both threads use.

use super::routes::Route;
use super::{Direction, report};
use crate::video::Watch;
use base::{Duration, Time};
use net::srt::{self, Socket, Stats};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The minimum part of a receiver's latency that is left to SRT itself for retransmissions. The part is three round
/// trips, but at least this time.
const OWN_SHARE_LEAST_US: i64 = 20_000;
/// The maximum delay of libsrt's estimate of the sender's clock.
const DRIFT: Duration = Duration::from_millis(20);

/// An SRT connection and its stream.
pub(super) struct Connection {
    pub(super) socket: Socket,
    pub(super) peer: SocketAddr,
    pub(super) stream_id: String,
    pub(super) route: Route,
    /// The stream of the overlay, in words.
    pub(super) stream: String,
    pub(super) since: Time,
    /// The same time by libsrt's clock: no packet may have an older time.
    since_us: i64,
    /// The maximum delay that a packet's source time may state.
    steady_us: AtomicI64,
    pub(super) watch: Mutex<Watch>,
    stats: Mutex<Stats>,
    /// Number of packets that were sent, and of their bytes.
    sent: AtomicU64,
    sent_bytes: AtomicU64,
    dropped: AtomicU64,
    /// Whether it was reported that this receiver sends.
    pub(super) is_unwanted: AtomicBool,
}

impl Connection {
    pub(super) fn new(
        socket: Socket,
        peer: SocketAddr,
        stream_id: String,
        route: Route,
        stream: String,
        now: Time,
    ) -> Connection {
        let this = Connection {
            socket,
            peer,
            stream_id,
            route,
            stream,
            since: now,
            since_us: srt::now_us(),
            steady_us: AtomicI64::new(0),
            watch: Mutex::default(),
            stats: Mutex::default(),
            sent: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            is_unwanted: AtomicBool::new(false),
        };
        this.look();
        this
    }

    /// Sends a packet that is later than the fastest one by `behind`. The receiver plays the packet as if it had not
    /// been late: within the receiver's latency, delays of the overlay vanish and cost no additional latency.
    pub(super) fn send(&self, packet: &[u8], behind: Duration) {
        let behind_us = i64::try_from(behind.as_micros()).unwrap_or(i64::MAX);
        let behind_us = behind_us.min(self.steady_us.load(Ordering::Relaxed));
        let source_time = (srt::now_us() - behind_us).max(self.since_us);
        let (counter, bytes) = match self.socket.send(packet, source_time) {
            Ok(()) => (&self.sent, packet.len() as u64),
            // A later attempt would be useless. A broken connection is noticed by the poll of connections.
            Err(_) => (&self.dropped, 0),
        };
        counter.fetch_add(1, Ordering::Relaxed);
        self.sent_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Reads the counters of libsrt, and updates the share for retransmissions from the round trip.
    pub(super) fn look(&self) {
        let Some(stats) = self.socket.stats() else {
            return;
        };
        let own_us = ((3.0 * 1_000.0 * stats.rtt_ms) as i64).max(OWN_SHARE_LEAST_US);
        let latency_us = i64::try_from(stats.send_latency_ms).unwrap_or(0) * 1_000;
        let steady_us = (latency_us - own_us).max(0);
        self.steady_us.store(steady_us, Ordering::Relaxed);
        *self.stats.lock().unwrap_or_else(PoisonError::into_inner) = stats;
    }

    /// Returns for how long packets may still be received after the end of the connection.
    pub(super) fn rest(&self) -> Duration {
        let stats = self.stats.lock().unwrap_or_else(PoisonError::into_inner);
        match self.route.direction {
            Direction::In => Duration::from_millis(stats.receive_latency_ms) + DRIFT,
            Direction::Out => Duration::ZERO,
        }
    }

    pub(super) fn report(&self, now: Time) -> report::Connection {
        let mut seen = self
            .watch
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .seen();
        if self.route.direction == Direction::Out {
            seen.packets = self.sent.load(Ordering::Relaxed);
            seen.bytes = self.sent_bytes.load(Ordering::Relaxed);
        }
        report::Connection {
            peer: self.peer,
            stream_id: self.stream_id.clone(),
            direction: self.route.direction,
            stream: self.stream.clone(),
            age: now.since(self.since),
            stats: *self.stats.lock().unwrap_or_else(PoisonError::into_inner),
            seen,
            dropped: self.dropped.load(Ordering::Relaxed),
        }
    }
}
