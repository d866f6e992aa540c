//! Streams that were offered to clients and wait to be fetched.

use client::remote::abandon;
use core::time::Duration;
use net::unix::SeqStream;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use wire::ipc::Framing;
use wire::remote::{TICKET_BYTES, Ticket};

/// Maximum number of waiting streams of all clients: two descriptors each.
const MAX_WAITING: usize = 1_024;
/// How long a stream waits: a client fetches it within a handshake.
const PATIENCE: Duration = Duration::from_secs(20);

/// A stream as its client gets it: the connection that reports its end, and the stream itself.
type Stream = (SeqStream, Option<(Framing, OwnedFd)>);

/// The waiting streams.
#[derive(Debug, Default)]
pub(super) struct Waiting(Mutex<BTreeMap<Ticket, (Instant, Stream)>>);

impl Waiting {
    /// Removes and returns the stream with this ticket.
    pub(super) fn take(&self, ticket: &Ticket) -> Option<Stream> {
        self.streams().remove(ticket).map(|(_, stream)| stream)
    }

    /// Adds a stream, with the connection that reports its end. If there is no room, returns `None` and informs the
    /// stream's peer.
    pub(super) fn put(&self, framing: Framing, data: OwnedFd, notices: OwnedFd) -> Option<Ticket> {
        let notices = SeqStream::from(notices);
        let mut streams = self.streams();
        let entropy = match streams.len() < MAX_WAITING {
            true => net::sched::entropy().ok(),
            false => None,
        };
        let Some(entropy) = entropy else {
            drop(streams);
            abandon(&[&notices]);
            return None;
        };
        let mut ticket = [0; TICKET_BYTES];
        ticket.copy_from_slice(&entropy[..TICKET_BYTES]);
        streams.insert(ticket, (Instant::now(), (notices, Some((framing, data)))));
        Some(ticket)
    }

    /// Drops streams that no client has fetched, and informs their peers.
    pub(super) fn sweep(&self, now: Instant) {
        let over: Vec<Stream> = {
            let mut streams = self.streams();
            let is_over =
                |(_, (since, _)): &(&Ticket, &(Instant, Stream))| now >= *since + PATIENCE;
            let tickets: Vec<Ticket> = streams.iter().filter(is_over).map(|(t, _)| *t).collect();
            let over = tickets.iter().filter_map(|ticket| streams.remove(ticket));
            over.map(|(_, stream)| stream).collect()
        };
        let notices: Vec<&SeqStream> = over.iter().map(|(notices, _)| notices).collect();
        abandon(&notices);
    }

    fn streams(&self) -> MutexGuard<'_, BTreeMap<Ticket, (Instant, Stream)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::unix::Received;
    use wire::ipc::Request;

    #[test]
    fn a_stream_is_fetched_once_and_not_for_ever() {
        let waiting = Waiting::default();
        let put = || {
            let (data, _) = SeqStream::pair().unwrap();
            let (notices, node) = SeqStream::pair().unwrap();
            let (data, notices) = (data.into(), notices.into());
            (waiting.put(Framing::Bytes, data, notices).unwrap(), node)
        };
        let ((one, _node), (two, node)) = (put(), put());
        assert_ne!(one, two);
        assert!(waiting.take(&one).is_some() && waiting.take(&one).is_none());
        waiting.sweep(Instant::now());
        assert_eq!(waiting.streams().len(), 1);
        let told = std::thread::spawn(move || {
            node.set_nonblocking(false).unwrap();
            let mut buffer = [0; 16];
            let received = node.recv_into(&mut buffer).unwrap();
            let Received::Message(len) = received else {
                panic!("{received:?}")
            };
            assert_eq!(Request::parse(&buffer[..len]), Ok(Request::Reset));
        });
        waiting.sweep(Instant::now() + PATIENCE);
        told.join().unwrap();
        assert!(waiting.take(&two).is_none());
    }
}
