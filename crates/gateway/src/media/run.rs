//! The media thread: it waits, takes what is ready, forwards it, and handles timeouts.
//!
//! ```text
//!   few calls    packet ──> woken ──> forwarded                        at once
//!   many calls   packets ... 300 µs ... ──> forwarded together         one wake-up for all
//! ```
//! It costs more to wake a thread than to forward a packet, and the sender of the packet pays that cost. So while
//! packets come fast, the thread lets them gather for a moment, which is short compared with any budget of voice. The
//! packets for the overlay then share messages, and also the node's work.

use super::state::{ENDED_PER_TURN, TOKEN_V6};
use super::{Event, Shared, uplink};
use base::{Duration, Time};
use client::Batch;
use net::epoll::{EVENTS_MAX, Interest, Poller, Ready};
use net::sched::{self, Scheduling};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

/// The priority of the thread: the same as that of a node's loop, so that neither waits for more than a turn of the
/// other.
const PRIORITY: u8 = 10;
/// How long packets gather while they come fast. Twice this time, at both gateways, is 0.6 % of the 100 ms from entry
/// to exit.
const GATHER: core::time::Duration = core::time::Duration::from_micros(300);
/// The rate from which packets count as fast: 100 calls of 100 packets/s. At this rate, three packets gather.
const FAST_PPS: u64 = 10_000;
/// The time over which packets are counted to determine the rate.
const RATE_SPAN: Duration = Duration::from_millis(20);
/// The tokens above those of the ports.
const TOKEN_WAKE: u64 = 2 * TOKEN_V6;
const TOKEN_OVERLAY: u64 = TOKEN_WAKE + 1;
/// The maximum length of a forwarded datagram. Longer ones are cut, but do not occur: RTP stays below the MTU of
/// Ethernet.
const DATAGRAM_BYTES_MAX: usize = 4_096;
/// How long the thread leaves the lock to threads that wait for it: they need some microseconds.
const LET_OTHERS: core::time::Duration = core::time::Duration::from_micros(50);
/// The time between checks that do not depend on packets.
const HOUSEKEEPING: Duration = Duration::from_secs(1);

pub(super) struct Media {
    shared: Arc<Shared>,
    poller: Poller,
    buffer: Box<[u8]>,
    batch: Batch,
    housekeeping: Time,
    rate: Rate,
}

/// Determines whether packets come fast.
struct Rate {
    since: Time,
    packets: u64,
    is_fast: bool,
}

impl Rate {
    fn note(&mut self, now: Time, packets: usize) {
        self.packets += packets as u64;
        let span = now.since(self.since);
        if span >= RATE_SPAN {
            self.is_fast = self.packets * 1_000_000 > FAST_PPS * span.as_micros();
            (self.since, self.packets) = (now, 0);
        }
    }
}

/// What follows a turn.
struct Next {
    /// How long to wait for further packets.
    timeout: Duration,
    /// True if there are further packets already.
    more: bool,
}

impl Media {
    pub(super) fn new(shared: Arc<Shared>, poller: Poller) -> io::Result<Media> {
        poller.add(&shared.waker, TOKEN_WAKE, Interest::READ)?;
        shared.lock().watch_uplink(TOKEN_OVERLAY)?;
        shared.lock().watch_shadow()?;
        Ok(Media {
            housekeeping: shared.clock.now() + HOUSEKEEPING,
            shared,
            poller,
            buffer: vec![0; DATAGRAM_BYTES_MAX].into_boxed_slice(),
            batch: Batch::new(),
            rate: Rate {
                since: Time::ZERO,
                packets: 0,
                is_fast: false,
            },
        })
    }

    pub(super) fn run(mut self, realtime: bool) {
        if realtime && let refused @ Scheduling::Normal { .. } = sched::real_time(PRIORITY) {
            (self.shared.tell)(Event::Warning(format!("media: {refused}")));
        }
        let mut ready = Vec::new();
        let mut timeout = Some(Duration::ZERO);
        while !self.shared.stop.load(Ordering::Acquire) {
            if let Err(error) = self.poller.wait(timeout, &mut ready) {
                (self.shared.tell)(Event::Warning(format!("media stops: {error}")));
                return;
            }
            let next = self.turn(&ready);
            timeout = Some(next.timeout);
            if self.rate.is_fast && !next.more {
                thread::sleep(GATHER);
            } else if self.shared.waiting.load(Ordering::Acquire) > 0 {
                // If the thread took the lock again at once, no other thread would ever get it.
                thread::park_timeout(LET_OTHERS);
            }
        }
    }

    /// Serves what is ready.
    fn turn(&mut self, ready: &[Ready]) -> Next {
        let shared = self.shared.clone();
        let mut state = shared.lock();
        let now = shared.clock.now();
        let (mut gone, mut packets) = (None, 0);
        let mut more = ready.len() == EVENTS_MAX;
        for event in ready {
            match event.token {
                TOKEN_WAKE => drop(shared.waker.drain()),
                TOKEN_OVERLAY => match uplink::receive(&mut state, now, &mut self.batch) {
                    Ok(came) => {
                        packets += came.datagrams;
                        more |= came.more;
                    }
                    Err(error) => gone = Some(error),
                },
                token => {
                    let (port, is_v6) = (token as u16, token & TOKEN_V6 != 0);
                    // Only one datagram is taken: a phone sends one in 20 ms. If there are more, the port is ready
                    // again, after the others.
                    let received = state.receive(port, is_v6, &mut self.buffer);
                    match received {
                        Some((len, _)) if port == 0 => {
                            state.on_mirrored(now, &self.buffer[..len]);
                        }
                        Some((len, from)) => {
                            packets += 1;
                            state.on_udp(now, port, from, &self.buffer[..len]);
                        }
                        None => {}
                    }
                }
            }
        }
        state.flush();
        let mut ended = state.on_timeout(now);
        if now >= self.housekeeping {
            self.housekeeping = now + HOUSEKEEPING;
            if state.uplink.is_lost(now) {
                let lost = state.node_lost(now, shared.node, true);
                if lost.len() == ENDED_PER_TURN {
                    // There may be further calls.
                    self.housekeeping = now;
                }
                ended.extend(lost);
            }
        }
        self.rate.note(now, packets);
        let next = state.calls.next_timeout();
        drop(state);
        shared.tell_ended(ended);
        if let Some(error) = gone {
            (shared.tell)(Event::NodeAway(error));
            uplink::look_for(&shared, TOKEN_OVERLAY);
        }
        let next = next.unwrap_or(Time::FAR).min(self.housekeeping);
        Next {
            timeout: next.since(shared.clock.now()),
            more,
        }
    }
}
