//! The records of a world: counters, reports of engines, replies to clients, and a digest of everything that arrived.

use crate::host::HostId;
use crate::trace::{Fate, Packet, Trace};
use base::{Burst, ClientId, Engine, Time, UnderlayAddr};
use core::fmt;

/// Number of events and of replies kept until they are taken: 4 million of each. Later ones are only counted.
pub const RECORDS_MAX: usize = 1 << 22;

/// An event that an engine reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report<T> {
    /// The world's time.
    pub at: Time,
    /// The host whose engine reported it.
    pub host: HostId,
    /// The event.
    pub event: T,
}

/// A reply to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer<T> {
    /// The world's time.
    pub at: Time,
    /// The host whose engine replied.
    pub host: HostId,
    /// The client of that host that gets the reply.
    pub client: ClientId,
    /// The reply.
    pub reply: T,
}

/// What has happened so far. The unit is datagrams if a field does not say otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams that engines handed to an outbox.
    pub sent: u64,
    /// Datagrams handed to an engine.
    pub delivered: u64,
    /// Datagrams dropped because no link leads from the host to the address.
    pub no_path: u64,
    /// Datagrams dropped because of a partition.
    pub cut: u64,
    /// Datagrams dropped because the receiving host was down.
    pub host_down: u64,
    /// Datagrams dropped because the receiving host was stalled and its socket buffer was full.
    pub buffer_full: u64,
    /// Datagrams dropped because all packet buffers of the host were in use.
    pub no_slot: u64,
    /// Inputs that handed over the delivered datagrams. Each is a burst or a single datagram.
    pub inputs: u64,
    /// Requests to a host that was down.
    pub requests_lost: u64,
    /// Events and replies beyond [`RECORDS_MAX`], which were not kept.
    pub unrecorded: u64,
    /// Wake-ups: timers, arrivals, requests.
    pub events: u64,
}

/// Packet buffers that were not returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leak {
    /// Large buffers.
    pub large: usize,
    /// Small buffers.
    pub small: usize,
    /// Bytes in memory outside the pools' slots.
    pub kept_bytes: usize,
}

/// The records of a world.
pub(crate) struct Journal<E: Engine> {
    pub(crate) counters: Counters,
    pub(crate) reports: Vec<Report<E::Event>>,
    pub(crate) answers: Vec<Answer<E::Reply>>,
    pub(crate) digest: u64,
    pub(crate) trace: Option<Box<dyn Trace>>,
}

impl<E: Engine> Journal<E> {
    pub(crate) fn new(seed: u64) -> Journal<E> {
        Journal {
            counters: Counters::default(),
            reports: Vec::new(),
            answers: Vec::new(),
            digest: seed,
            trace: None,
        }
    }

    pub(crate) fn report(&mut self, report: Report<E::Event>) {
        if self.reports.len() < RECORDS_MAX {
            self.reports.push(report);
        } else {
            self.counters.unrecorded += 1;
        }
    }

    pub(crate) fn answer(&mut self, answer: Answer<E::Reply>) {
        if self.answers.len() < RECORDS_MAX {
            self.answers.push(answer);
        } else {
            self.counters.unrecorded += 1;
        }
    }

    /// Reports each datagram of a burst to the trace, if there is one.
    pub(crate) fn trace_all(
        &mut self,
        at: Time,
        from: UnderlayAddr,
        to: UnderlayAddr,
        burst: &Burst,
        fate: Fate,
    ) {
        if let Some(trace) = &mut self.trace {
            for i in 0..burst.segments() {
                trace.packet(&Packet {
                    at,
                    from,
                    to,
                    bytes: burst.segment(i),
                    fate,
                });
            }
        }
    }

    pub(crate) fn note(&mut self, now: Time, wire: u32, burst: &Burst) {
        let words = [
            now.as_nanos(),
            u64::from(wire) << 32 | burst.len() as u64,
            word(burst.bytes().first_chunk(), burst.bytes()),
            // In a sealed datagram these bytes are half of the tag, which depends on every byte.
            word(burst.bytes().last_chunk(), burst.bytes()),
        ];
        for word in words {
            // Multiply and rotate: any difference changes what follows.
            self.digest = (self.digest ^ word)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29);
        }
    }
}

/// Returns eight bytes of a datagram as a number, or all bytes of a shorter one.
fn word(eight: Option<&[u8; 8]>, all: &[u8]) -> u64 {
    match eight {
        Some(eight) => u64::from_be_bytes(*eight),
        None => all
            .iter()
            .fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}

impl fmt::Display for Leak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "packet buffers did not come back: {} large, {} small, {} bytes kept; someone keeps a burst",
            self.large, self.small, self.kept_bytes
        )
    }
}

impl core::error::Error for Leak {}
