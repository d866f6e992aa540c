//! The addresses of a stream, and how it ends.

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

/// The addresses of a stream, and the connection that reports its end.
///
/// Neither side takes the end of a descriptor for the end of the data, because the kernel also closes the descriptors
/// of a killed process. The node sends Finished before its end, and this end sends Finish before its own. The owner of
/// a stream drops this value before the descriptor.
#[derive(Debug)]
pub(super) struct About {
    notices: SeqStream,
    told: Mutex<Told>,
    /// This end accepts nothing more, so it finds an end that it has caused itself.
    shut: AtomicBool,
    pub(super) local: Target,
    pub(super) peer: Target,
}

/// The numbers of expired messages of a stream: see [`crate::MessageStream::expired`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// Messages of this end that were given up because they were too old. If only the acknowledgement of a message was
    /// lost, it has arrived all the same.
    pub given_up: u64,
    /// Messages of the peer that are missing among those received.
    pub missed: u64,
}

/// How long the node may take to report how many messages have expired.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// The node's reports about a stream's end.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// The peer has written everything.
    finished: bool,
    /// The stream has ended prematurely, for this reason.
    reset: Option<String>,
    /// Nothing more will be reported.
    closed: bool,
    /// The last reported numbers of expired messages, and how often they were reported.
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

    /// Announces that the next end of this end's data is an orderly one.
    pub(super) fn finish(&self) {
        let mut bytes = [0; 8];
        if let Ok(len) = Request::Finish.emit(&mut bytes) {
            // If the node has gone, or no longer knows the stream, the announcement does not matter.
            let _ = self.notices.send_parts(&[IoSlice::new(&bytes[..len])]);
        }
    }

    /// Notes that this end is about to end its reading direction.
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
            // The node has gone, or the stream has ended.
            return;
        }
        // The node must get the reason before it sees the stream close.
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

    /// Checks whether the peer's data has ended in order, after a read has found an end. The node has reported it
    /// before. If the node was killed, the kernel may have closed this connection or not yet.
    pub(super) fn ended(&self) -> io::Result<()> {
        let told = self.hear()?;
        match &told.reset {
            Some(why) => Err(reset(why.clone())),
            None if told.finished || self.shut.load(Ordering::Acquire) => Ok(()),
            None => Err(reset(Error::Closed.to_string())),
        }
    }

    /// Returns why the stream has ended prematurely, if it has, according to what the node has reported by now.
    pub(super) fn failed(&self) -> io::Result<()> {
        let told = self.hear()?;
        match &told.reset {
            Some(why) => Err(reset(why.clone())),
            None if told.closed && !told.finished => Err(reset(Error::Closed.to_string())),
            None => Ok(()),
        }
    }

    /// Replaces an error of the kernel with the node's reason, if there is one.
    pub(super) fn better(&self, error: io::Error) -> io::Error {
        match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
                self.failed().err().unwrap_or(error)
            }
            _ => error,
        }
    }

    /// Returns how many messages have expired. Without a node, these are the last reported numbers.
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
            // If the node no longer knows the stream, it has reported the numbers before its end.
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

    /// Takes in what the node has reported by now.
    fn hear(&self) -> io::Result<MutexGuard<'_, Told>> {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buffer = [0; NOTICE_BYTES_MAX];
        while !told.closed {
            let len = match self.notices.recv_into(&mut buffer)? {
                Received::Message(len) => len,
                Received::Empty => break,
                // No message about streams is so long.
                Received::Truncated(_) => continue,
                Received::Closed => {
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
    /// Announces that the written data is complete. If a panic drops the stream, this is not known.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.finish();
        }
    }
}

fn reset(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, why)
}
