//! What a world remembers: counters, what engines reported, what clients were told, and a digest
//! of everything that arrived.

use crate::host::HostId;
use crate::trace::{Fate, Packet, Trace};
use base::{Burst, ClientId, Engine, Time, UnderlayAddr};
use core::fmt;

/// Events and replies kept until they are taken: 4 million of each. Later ones are counted.
pub const RECORDS_MAX: usize = 1 << 22;

/// Something that an engine reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report<T> {
    /// The world's time.
    pub at: Time,
    /// Whose engine.
    pub host: HostId,
    /// What it reported.
    pub event: T,
}

/// A reply to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer<T> {
    /// The world's time.
    pub at: Time,
    /// Whose engine.
    pub host: HostId,
    /// Which client of that host.
    pub client: ClientId,
    /// What the client is told.
    pub reply: T,
}

/// What has happened so far, in datagrams where nothing else is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Handed to an outbox.
    pub sent: u64,
    /// Handed to an engine.
    pub delivered: u64,
    /// Dropped: no link leads from the host to that address.
    pub no_path: u64,
    /// Dropped: a partition lies between.
    pub cut: u64,
    /// Dropped: the receiving host was down.
    pub host_down: u64,
    /// Dropped: the receiving host was stalled and its socket buffer full.
    pub buffer_full: u64,
    /// Dropped: all packet buffers of the host were in use.
    pub no_slot: u64,
    /// Inputs by which they were handed over, each a burst or a single datagram.
    pub inputs: u64,
    /// Requests to a host that was down.
    pub requests_lost: u64,
    /// Events and replies that came on top of [`RECORDS_MAX`].
    pub unrecorded: u64,
    /// Things that happened: timers, arrivals, requests.
    pub events: u64,
}

/// Packet buffers that did not come back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leak {
    /// Large ones.
    pub large: usize,
    /// Small ones.
    pub small: usize,
    /// Bytes in memory of their own.
    pub kept_bytes: usize,
}

/// What a world remembers of the past.
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

    /// Tells the trace, if there is one, of each datagram of a burst.
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
            // In a sealed datagram this is half the tag, which depends on every byte.
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

/// Eight bytes of a datagram, or all of a shorter one.
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
