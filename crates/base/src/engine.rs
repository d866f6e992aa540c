//! The seam: what drives a protocol, and where a protocol puts what it wants done.
//!
//! Time is pulled, packets are pushed. A forwarder's output is mostly its input, so an engine
//! writes into an [`Outbox`] instead of queueing owned packets. The node's event loop, the
//! simulator and a test's recorder are the three hosts; all drive the same code.
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
    /// Datagrams of equal size (the last may be short) from one address below.
    Datagrams {
        /// Who sent them, as the network below claims.
        from: UnderlayAddr,
        /// The datagrams, back to back.
        burst: Burst,
    },
    /// A client asks for something.
    Request {
        /// Which client.
        client: ClientId,
        /// What it asks for.
        request: R,
    },
    /// The host cannot send so many bytes in one piece to this address: they are more than its own
    /// interface takes, or than it has been told of the path. What may be cut was sent in pieces.
    TooLong {
        /// To whom.
        to: UnderlayAddr,
        /// The least length of which this is known now.
        bytes: u16,
    },
    /// The time that [`Engine::next_timeout`] named has come. Spurious ones do no harm.
    Timeout,
}

/// Where an engine puts what it wants done. No method blocks.
pub trait Outbox<E: Engine + ?Sized> {
    /// Sends the datagrams of `burst` to `to`, in order behind earlier ones to the same address.
    /// A host whose queue is full drops and counts, as a network does.
    fn send(&mut self, to: UnderlayAddr, burst: Burst);
    /// Hands `reply` to a client.
    fn deliver(&mut self, client: ClientId, reply: E::Reply);
    /// Tells that something observable happened: logs, counters, traces derive from it.
    fn report(&mut self, event: E::Event);
    /// Where packet buffers come from.
    fn pool(&self) -> &Pool;
}

/// A protocol endpoint: no sockets, no clock, no threads, no global randomness.
/// Equal configuration, seed and inputs give equal outputs.
pub trait Engine {
    /// What clients and operators may ask.
    type Request;
    /// What they are told.
    type Reply;
    /// What can be observed.
    type Event;
    /// Handles one input. Bounded work; no allocation on the datagram path after warm-up.
    fn handle(&mut self, now: Time, input: Input<Self::Request>, out: &mut impl Outbox<Self>);
    /// Called once after each batch of inputs: acknowledgements, flooding and route computation
    /// coalesce here.
    fn flush(&mut self, now: Time, out: &mut impl Outbox<Self>);
    /// When a timeout is wanted next, and on whose behalf.
    fn next_timeout(&self) -> Option<(Time, &'static str)>;
}
