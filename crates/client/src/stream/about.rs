//! Whose a stream is, and how it ends.

use super::NOTICE_BYTES_MAX;
use crate::{Error, Target};
use core::time::Duration;
use net::unix::{Received, SeqStream};
use std::io::{self, IoSlice};
use std::sync::{Mutex, MutexGuard, PoisonError};
use wire::ipc::{Reply, Request};

/// Whose a stream is, and the connection that tells of its end.
#[derive(Debug)]
pub(super) struct About {
    pub(super) notices: SeqStream,
    pub(super) told: Mutex<Told>,
    pub(super) local: Target,
    pub(super) peer: Target,
}

/// What the node has told of a stream's end.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// The peer has written everything.
    finished: bool,
    /// The stream has ended before its time, for this reason.
    reset: Option<String>,
    /// Nothing more will be told.
    closed: bool,
}

impl About {
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

    /// Whether what the peer writes has ended in order, now that it has ended.
    pub(super) fn ended(&self) -> io::Result<()> {
        let told = self.hear()?;
        match &told.reset {
            Some(why) => Err(io::Error::new(io::ErrorKind::ConnectionReset, why.clone())),
            None if told.closed && !told.finished => Err(io::Error::new(
                io::ErrorKind::ConnectionReset,
                Error::Closed.to_string(),
            )),
            // Without a word, this end itself has shut the stream down.
            None => Ok(()),
        }
    }

    /// The reason that the node gives for an error of the kernel, if it gives one.
    pub(super) fn better(&self, error: io::Error) -> io::Error {
        match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
                self.ended().err().unwrap_or(error)
            }
            _ => error,
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
