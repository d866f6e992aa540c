//! Whose a stream is, and how it ends.

use super::NOTICE_BYTES_MAX;
use crate::{Error, Target};
use core::time::Duration;
use net::poll::{Polled, poll};
use net::unix::{Received, SeqStream};
use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use wire::ipc::{Reply, Request};

/// Whose a stream is, and the connection that tells of its end.
///
/// Neither side takes the end of a descriptor for the end of the data: the kernel ends those of a
/// process that was killed as well. The node says Finished before the one, this end Finish before the
/// other. Who owns a stream drops this before the descriptor.
#[derive(Debug)]
pub(super) struct About {
    notices: SeqStream,
    told: Mutex<Told>,
    /// This end takes nothing more, and finds an end of its own making.
    shut: AtomicBool,
    pub(super) local: Target,
    pub(super) peer: Target,
}

/// Messages of a stream that have expired: see [`crate::MessageStream::expired`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// Of this end: given up because they were too old. One of which only the acknowledgement was lost has
    /// arrived all the same.
    pub given_up: u64,
    /// Of the peer: they are missing among what was received.
    pub missed: u64,
}

/// How long the node may take to say how many messages have expired.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// What the node has told of a stream's end.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// The peer has written everything.
    finished: bool,
    /// The stream has ended before its time, for this reason.
    reset: Option<String>,
    /// Nothing more will be told.
    closed: bool,
    /// How many messages have expired, as last told, and how often that was told.
    expired: Expired,
    answers: u64,
}

impl About {
    pub(super) fn new(notices: SeqStream, local: Target, peer: Target) -> About {
        About {
            notices,
            told: Mutex::default(),
            shut: AtomicBool::new(false),
            local,
            peer,
        }
    }

    /// Says that the next end of what this end writes is its end in order.
    pub(super) fn finish(&self) {
        let mut bytes = [0; 8];
        if let Ok(len) = Request::Finish.emit(&mut bytes) {
            // Without a node, or a stream that it knows, there is nobody left to whom it matters.
            let _ = self.notices.send_parts(&[IoSlice::new(&bytes[..len])]);
        }
    }

    /// This end is about to end what it reads.
    pub(super) fn shut(&self) {
        self.shut.store(true, Ordering::Release);
    }

    pub(super) fn reset(&self) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = [0; 8];
        let Ok(len) = Request::Reset.emit(&mut bytes) else {
            return;
        };
        let sent = self.notices.send_parts(&[IoSlice::new(&bytes[..len])]);
        if told.closed || sent.is_err() {
            // The node has gone, or the stream has.
            return;
        }
        // The node must not see the stream close before it is told why.
        let patience = Some(Duration::from_secs(1));
        let waits = self.notices.set_nonblocking(false);
        let waits = waits.and_then(|()| self.notices.set_timeouts(patience, patience));
        if waits.is_ok() {
            let mut buffer = [0; NOTICE_BYTES_MAX];
            while let Ok(Received::Message(_)) = self.notices.recv_into(&mut buffer) {}
        }
        told.closed = true;
        told.reset
            .get_or_insert_with(|| "the stream was reset by this end".to_owned());
    }

    /// Whether what the peer writes has ended in order, now that a read has found an end. The node has
    /// said so before; of one that was killed the kernel may have closed this connection or not yet.
    pub(super) fn ended(&self) -> io::Result<()> {
        let told = self.hear()?;
        match &told.reset {
            Some(why) => Err(reset(why.clone())),
            None if told.finished || self.shut.load(Ordering::Acquire) => Ok(()),
            None => Err(reset(Error::Closed.to_string())),
        }
    }

    /// Why the stream has ended before its time, if it has; as far as the node has told by now.
    pub(super) fn failed(&self) -> io::Result<()> {
        let told = self.hear()?;
        match &told.reset {
            Some(why) => Err(reset(why.clone())),
            None if told.closed && !told.finished => Err(reset(Error::Closed.to_string())),
            None => Ok(()),
        }
    }

    /// The reason that the node gives for an error of the kernel, if it gives one.
    pub(super) fn better(&self, error: io::Error) -> io::Error {
        match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
                self.failed().err().unwrap_or(error)
            }
            _ => error,
        }
    }

    /// How many messages have expired. Without a node, what it has told at last.
    pub(super) fn expired(&self) -> io::Result<Expired> {
        let (asked, until) = {
            let told = self.hear()?;
            if told.closed {
                return Ok(told.expired);
            }
            (told.answers, Instant::now() + ANSWER_TIMEOUT)
        };
        let mut bytes = [0; 8];
        let ask = Request::AskExpired.emit(&mut bytes);
        let len = ask.map_err(|_| io::ErrorKind::InvalidInput)?;
        let sent = self.notices.send_parts(&[IoSlice::new(&bytes[..len])]);
        loop {
            let told = self.hear()?;
            let left = until.saturating_duration_since(Instant::now());
            // A node that knows the stream no more has told before it has ended.
            let is_over = told.finished || told.reset.is_some() || told.closed || sent.is_err();
            if told.answers > asked || is_over || left.is_zero() {
                return Ok(told.expired);
            }
            drop(told);
            poll(
                &mut [Polled::new(self.notices.as_fd(), true, false)],
                Some(left),
            )?;
        }
    }

    /// Takes in what the node has told by now.
    fn hear(&self) -> io::Result<MutexGuard<'_, Told>> {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buffer = [0; NOTICE_BYTES_MAX];
        while !told.closed {
            let len = match self.notices.recv_into(&mut buffer)? {
                Received::Message(len) => len,
                Received::Empty => break,
                Received::Truncated(_) | Received::Closed => {
                    told.closed = true;
                    break;
                }
            };
            match Reply::parse(&buffer[..len]) {
                Ok(Reply::Finished) => told.finished = true,
                Ok(Reply::Expired { given_up, missed }) => {
                    told.expired = Expired { given_up, missed };
                    told.answers += 1;
                }
                Ok(Reply::Reset { reason }) => {
                    told.reset = Some(Error::Reset(reason).to_string());
                }
                Ok(Reply::Error { text, .. }) => told.reset = Some(text.to_owned()),
                _ => {}
            }
        }
        Ok(told)
    }
}

impl Drop for About {
    /// What was written is whole. Who drops a stream because of a panic does not know that.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.finish();
        }
    }
}

fn reset(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, why)
}
