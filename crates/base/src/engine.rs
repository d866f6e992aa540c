//! The seam: the interface through which a host drives a protocol, and a protocol outputs its actions.
//!
//! Time is pulled, packets are pushed. A forwarder's output is mostly its input, so an engine writes into an [`Outbox`]
//! instead of queueing owned packets. The three hosts are the node's event loop, the simulator, and a test's recorder;
//! all drive the same code.
//!
//! ```text
//! host:   handle(now, Datagrams) ... handle(now, Request) ... flush(now)   one batch
//!         sleep until next_timeout() or the next input
//!         handle(now, Timeout) ... flush(now)
//! ```

use crate::ids::{ClientId, UnderlayAddr};
use crate::pool::{Burst, Pool};
use crate::time::Time;

/// Everything that can happen to an engine.
#[derive(Debug)]
pub enum Input<R> {
    /// Datagrams of equal size (the last may be short) from one underlay address.
    Datagrams {
        /// The sender, as the underlay claims.
        from: UnderlayAddr,
        /// The datagrams, back to back.
        burst: Burst,
    },
    /// A request of a client.
    Request {
        /// The client.
        client: ClientId,
        /// The request.
        request: R,
    },
    /// The host cannot send this many bytes in one piece to this address: they exceed the limit of its own interface,
    /// or the reported limit of the path. Datagrams that may be fragmented were sent in pieces.
    TooLong {
        /// The destination.
        to: UnderlayAddr,
        /// The least length for which this is known now.
        bytes: u16,
    },
    /// The time that [`Engine::next_timeout`] returned has come. Spurious timeouts do no harm.
    Timeout,
}

/// Receives an engine's actions. No method blocks.
pub trait Outbox<E: Engine + ?Sized> {
    /// Sends the datagrams of `burst` to `to`, in order behind earlier ones to the same address. If the host's queue is
    /// full, it drops them and counts the drops, as a network does.
    fn send(&mut self, to: UnderlayAddr, burst: Burst);
    /// Delivers `reply` to a client.
    fn deliver(&mut self, client: ClientId, reply: E::Reply);
    /// Reports an observable event: logs, counters and traces are derived from it.
    fn report(&mut self, event: E::Event);
    /// Returns the source of packet buffers.
    fn pool(&self) -> &Pool;
}

/// A protocol endpoint: no sockets, no clock, no threads, no global randomness.
/// Equal configuration, seed and inputs give equal outputs.
pub trait Engine {
    /// A request of clients or operators.
    type Request;
    /// The answer to a request.
    type Reply;
    /// An observable event.
    type Event;
    /// Handles one input. The work is bounded, and the datagram path does not allocate after warm-up.
    fn handle(&mut self, now: Time, input: Input<Self::Request>, out: &mut impl Outbox<Self>);
    /// The driver calls it once after each batch of inputs: acknowledgements, flooding and route computation
    /// coalesce here.
    fn flush(&mut self, now: Time, out: &mut impl Outbox<Self>);
    /// Returns when the next timeout is wanted, and for what.
    fn next_timeout(&self) -> Option<(Time, &'static str)>;
}
