//! Streams that were offered to clients and wait to be fetched.

use client::remote::Deposit;
use core::time::Duration;
use net::unix::SeqStream;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use wire::ipc::Framing;
use wire::remote::{TICKET_BYTES, Ticket};

/// Streams that wait at the same time, of all clients: two descriptors each.
const MAX_WAITING: usize = 1_024;
/// How long one waits: a client fetches it within a handshake.
const PATIENCE: Duration = Duration::from_secs(20);

/// A stream as its client gets it: the connection that tells of its end, and itself.
type Stream = (SeqStream, Option<(Framing, OwnedFd)>);

/// The streams that wait.
#[derive(Debug, Default)]
pub(super) struct Waiting(Mutex<BTreeMap<Ticket, (Instant, Stream)>>);

impl Waiting {
    /// The stream of this ticket, once.
    pub(super) fn take(&self, ticket: &Ticket) -> Option<Stream> {
        self.streams().remove(ticket).map(|(_, stream)| stream)
    }

    /// Lets go of those that nobody has fetched.
    pub(super) fn sweep(&self, now: Instant) {
        self.streams()
            .retain(|_, (since, _)| now < *since + PATIENCE);
    }

    fn streams(&self) -> MutexGuard<'_, BTreeMap<Ticket, (Instant, Stream)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Deposit for Waiting {
    fn put(&self, framing: Framing, data: OwnedFd, notices: OwnedFd) -> Option<Ticket> {
        let mut ticket = [0; TICKET_BYTES];
        ticket.copy_from_slice(&net::sched::entropy().ok()?[..TICKET_BYTES]);
        let mut streams = self.streams();
        if streams.len() >= MAX_WAITING {
            return None;
        }
        let stream = (SeqStream::from(notices), Some((framing, data)));
        streams.insert(ticket, (Instant::now(), stream));
        Some(ticket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_fetched_once_and_not_for_ever() {
        let waiting = Waiting::default();
        let put = || {
            let (a, b) = SeqStream::pair().unwrap();
            waiting.put(Framing::Bytes, a.into(), b.into()).unwrap()
        };
        let (one, two) = (put(), put());
        assert_ne!(one, two);
        assert!(waiting.take(&one).is_some() && waiting.take(&one).is_none());
        waiting.sweep(Instant::now());
        assert_eq!(waiting.streams().len(), 1);
        waiting.sweep(Instant::now() + PATIENCE);
        assert!(waiting.take(&two).is_none());
    }
}
