//! A connection to the node after its greeting: the basis of datagram sockets and streams.

use crate::remote::GREETING_TIMEOUT;
use crate::socket::{Gate, Node};
use crate::{Error, Options};
use base::NodeAddr;
use core::time::Duration;
use net::unix::{FDS_MAX, Received, SeqStream};
use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::time::Instant;
use wire::ipc::{MESSAGE_BYTES_MAX, Reply, Request, kind};

/// The pause between attempts to connect, if a thousand other clients connect at the same time.
const CONNECT_AGAIN: Duration = Duration::from_millis(5);

/// A connection after its greeting, with its options set. Blocking.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: SeqStream,
    /// The node's address.
    pub(crate) node: NodeAddr,
    pub(crate) max_payload: usize,
    pub(crate) by: Node,
}

impl Connection {
    pub(crate) fn open(by: &Node, options: Options, until: Instant) -> Result<Connection, Error> {
        let mut connection = Connection {
            stream: dial(by, until)?,
            node: NodeAddr::default(),
            max_payload: 0,
            by: by.clone(),
        };
        let mut buffer = vec![0; MESSAGE_BYTES_MAX];
        let hello = Request::Hello {
            version: wire::ipc::VERSION,
        };
        match connection.ask(&hello, until, &mut buffer)?.0 {
            Reply::Welcome {
                node,
                payload_bytes_max,
                ..
            } => {
                connection.node = node;
                connection.max_payload = payload_bytes_max.into();
            }
            _ => return Err(Error::Protocol("welcome")),
        }
        let carried = Request::Options(options.to_wire());
        done(
            connection.ask(&carried, until, &mut buffer)?.0,
            kind::OPTIONS,
        )?;
        Ok(connection)
    }

    /// Sends a request and returns the node's next message, with the descriptors sent with it.
    pub(crate) fn ask<'b>(
        &self,
        request: &Request<'_>,
        until: Instant,
        buffer: &'b mut [u8],
    ) -> Result<(Reply<'b>, [Option<OwnedFd>; FDS_MAX]), Error> {
        self.say(request, until)?;
        self.hear(until, buffer)
    }

    pub(crate) fn say(&self, request: &Request<'_>, until: Instant) -> Result<(), Error> {
        let mut bytes = [0; 32];
        let len = request
            .emit(&mut bytes)
            .map_err(|_| Error::Protocol("request"))?;
        self.wait_at_most(until)?;
        self.stream
            .send_parts(&[IoSlice::new(&bytes[..len])])
            .map_err(|error| self.late(Error::of(error)))
    }

    fn hear<'b>(
        &self,
        until: Instant,
        buffer: &'b mut [u8],
    ) -> Result<(Reply<'b>, [Option<OwnedFd>; FDS_MAX]), Error> {
        self.wait_at_most(until)?;
        let (received, fds) = self.stream.recv_with_fds(buffer).map_err(Error::of)?;
        let len = match received {
            Received::Message(len) => len,
            Received::Truncated(_) => buffer.len(),
            Received::Empty => return Err(self.by.timed_out()),
            Received::Closed => return Err(Error::Closed),
        };
        match Reply::parse(&buffer[..len]) {
            Ok(reply) => Ok((answered(reply)?, fds)),
            Err(why) => Err(Error::Protocol(why.label())),
        }
    }

    pub(crate) fn wait_at_most(&self, until: Instant) -> Result<(), Error> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(self.by.timed_out());
        }
        Ok(self.stream.set_timeouts(Some(left), Some(left))?)
    }

    /// Converts the error of a blocking call that would block into a timeout.
    pub(crate) fn late(&self, error: Error) -> Error {
        match error {
            Error::WouldBlock => self.by.timed_out(),
            error => error,
        }
    }
}

/// Makes a blocking connection.
fn dial(by: &Node, until: Instant) -> Result<SeqStream, Error> {
    let gated = match by.gate() {
        Some(Gate::At(remote)) => {
            let greeted = remote.open(Instant::now() + GREETING_TIMEOUT);
            Some(greeted.map_err(|error| Error::Gate {
                endpoint: remote.endpoint().to_owned(),
                error,
            })?)
        }
        Some(Gate::Of(domain)) => Some(domain.open(until)?),
        None => None,
    };
    if let Some(stream) = gated {
        stream.set_nonblocking(false)?;
        return Ok(stream);
    }
    loop {
        let error = match SeqStream::connect(by.path()) {
            Ok(stream) => {
                stream.set_nonblocking(false)?;
                return Ok(stream);
            }
            Err(error) => error,
        };
        // The listener's backlog is full.
        if error.kind() != io::ErrorKind::WouldBlock {
            return Err(Error::NoNode {
                path: by.path().to_owned(),
                error,
            });
        }
        if Instant::now() >= until {
            return Err(by.timed_out());
        }
        std::thread::sleep(CONNECT_AGAIN);
    }
}

/// Returns an answer that is no refusal.
pub(crate) fn answered(reply: Reply<'_>) -> Result<Reply<'_>, Error> {
    match reply {
        Reply::Error { code, text } => Err(Error::Refused {
            code,
            text: text.to_owned(),
        }),
        Reply::Reset { reason } => Err(Error::Reset(reason)),
        reply => Ok(reply),
    }
}

pub(crate) fn done(reply: Reply<'_>, request: u8) -> Result<(), Error> {
    match reply {
        Reply::Done { request: done } if done == request => Ok(()),
        _ => Err(Error::Protocol("done")),
    }
}
