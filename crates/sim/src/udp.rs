//! A host without an overlay: it sends and receives plain datagrams, so that a direct path can be
//! measured in the same world as the overlay beside it.
//!
//! ```text
//!   Request::Send ──┐                         ┌──▶ reply to the client that listens
//!   own sources  ───┴──▶ outbox ~~~ wire ~~~▶ ┼──▶ passed on to the next host, as a router does
//!                                             └──▶ counted
//! ```

use crate::traffic::Source;
use base::{Burst, ClientId, Duration, Engine, Input, Outbox, Time, UnderlayAddr};

/// A plain UDP host.
#[derive(Debug, Default)]
pub struct UdpHost {
    sources: Vec<Flow>,
    /// The client that gets what arrives.
    listener: Option<ClientId>,
    /// The host to which everything that arrives is forwarded.
    next_hop: Option<UnderlayAddr>,
    received: Received,
    /// Datagrams that were not sent because all packet buffers were in use.
    no_buffer: u64,
}

/// Datagrams that have arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Number of datagrams.
    pub datagrams: u64,
    /// Their bytes without UDP and IP headers.
    pub bytes: u64,
}

/// The request to send a datagram.
#[derive(Debug)]
pub struct Send {
    /// The destination.
    pub to: UnderlayAddr,
    /// The payload.
    pub payload: Burst,
}

/// The reply with datagrams that have arrived.
#[derive(Debug)]
pub struct Arrived {
    /// The sender.
    pub from: UnderlayAddr,
    /// The datagrams, which have equal size; the last may be shorter.
    pub payload: Burst,
}

#[derive(Debug)]
struct Flow {
    to: UnderlayAddr,
    bytes: usize,
    source: Source,
    /// The time of the host's first timeout.
    began: Option<Time>,
    end: Duration,
}

impl Flow {
    fn next(&self) -> Option<Time> {
        let (began, at) = (self.began?, self.source.peek());
        (at < self.end).then(|| began + at)
    }
}

impl UdpHost {
    /// Sends datagrams of `bytes` when `source` says, for this long after the host's start. The payload is zero.
    #[must_use]
    pub fn sending(
        mut self,
        source: Source,
        to: UnderlayAddr,
        bytes: usize,
        until: Duration,
    ) -> UdpHost {
        self.sources.push(Flow {
            to,
            bytes,
            source,
            began: None,
            end: until,
        });
        self
    }

    /// Hands arriving datagrams to a client.
    #[must_use]
    pub fn listening(mut self, client: ClientId) -> UdpHost {
        self.listener = Some(client);
        self
    }

    /// Forwards everything that arrives to another host.
    #[must_use]
    pub fn forwarding(mut self, to: UnderlayAddr) -> UdpHost {
        self.next_hop = Some(to);
        self
    }

    /// Returns what has arrived.
    pub fn received(&self) -> Received {
        self.received
    }

    /// Returns the number of datagrams that were not sent because all packet buffers were in use.
    pub fn no_buffer(&self) -> u64 {
        self.no_buffer
    }

    fn send_due(&mut self, now: Time, out: &mut impl Outbox<UdpHost>) {
        for flow in &mut self.sources {
            flow.began.get_or_insert(now);
            while flow.next().is_some_and(|at| at <= now) {
                flow.source.next();
                let burst = if flow.bytes <= base::pool::SMALL_BYTES {
                    out.pool().small()
                } else {
                    out.pool().large()
                };
                match burst {
                    Some(mut burst) if burst.capacity() >= flow.bytes => {
                        burst.spare_mut()[..flow.bytes].fill(0);
                        burst.fill(flow.bytes, flow.bytes);
                        out.send(flow.to, burst);
                    }
                    _ => self.no_buffer += 1,
                }
            }
        }
    }
}

impl Engine for UdpHost {
    type Request = Send;
    type Reply = Arrived;
    type Event = core::convert::Infallible;

    fn handle(&mut self, now: Time, input: Input<Send>, out: &mut impl Outbox<UdpHost>) {
        match input {
            Input::Datagrams { from, burst } => {
                self.received.datagrams += burst.segments() as u64;
                self.received.bytes += burst.len() as u64;
                if let Some(next) = self.next_hop {
                    out.send(next, burst);
                } else if let Some(client) = self.listener {
                    out.deliver(
                        client,
                        Arrived {
                            from,
                            payload: burst,
                        },
                    );
                }
            }
            Input::Request { request, .. } => out.send(request.to, request.payload),
            Input::TooLong { .. } => {}
            Input::Timeout => self.send_due(now, out),
        }
    }

    fn flush(&mut self, _now: Time, _out: &mut impl Outbox<UdpHost>) {}

    fn next_timeout(&self) -> Option<(Time, &'static str)> {
        let next = self.sources.iter().filter_map(Flow::next).min()?;
        Some((next, "traffic"))
    }
}
