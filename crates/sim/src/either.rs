//! Two kinds of engine in one world: overlay nodes and plain UDP hosts, for example. For three kinds, put an `Either`
//! into an `Either`.

use base::{Burst, ClientId, Engine, Input, Outbox, Pool, Time, UnderlayAddr};
use core::marker::PhantomData;

/// One of two kinds: of an engine, or of its requests, replies and events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Either<A, B> {
    /// The first kind.
    A(A),
    /// The second kind.
    B(B),
}

impl<A, B> Either<A, B> {
    /// Returns the value of the first kind, if it is one.
    pub fn a(&self) -> Option<&A> {
        match self {
            Either::A(a) => Some(a),
            Either::B(_) => None,
        }
    }

    /// Returns the value of the second kind, if it is one.
    pub fn b(&self) -> Option<&B> {
        match self {
            Either::A(_) => None,
            Either::B(b) => Some(b),
        }
    }
}

/// The panic message for a request of one kind to a host of the other.
const MISDIRECTED: &str = "a request goes to an engine of its kind";

impl<A: Engine, B: Engine> Engine for Either<A, B> {
    type Request = Either<A::Request, B::Request>;
    type Reply = Either<A::Reply, B::Reply>;
    type Event = Either<A::Event, B::Event>;

    /// Handles an input. Panics if a request is for an engine of the other kind, which is a mistake of the world's
    /// user.
    fn handle(&mut self, now: Time, input: Input<Self::Request>, out: &mut impl Outbox<Self>) {
        match self {
            Either::A(engine) => {
                let input = narrowed(input, |r| match r {
                    Either::A(request) => request,
                    Either::B(_) => panic!("{MISDIRECTED}"),
                });
                engine.handle(now, input, &mut OutOfA(out, PhantomData::<B>));
            }
            Either::B(engine) => {
                let input = narrowed(input, |r| match r {
                    Either::B(request) => request,
                    Either::A(_) => panic!("{MISDIRECTED}"),
                });
                engine.handle(now, input, &mut OutOfB(out, PhantomData::<A>));
            }
        }
    }

    fn flush(&mut self, now: Time, out: &mut impl Outbox<Self>) {
        match self {
            Either::A(engine) => engine.flush(now, &mut OutOfA(out, PhantomData::<B>)),
            Either::B(engine) => engine.flush(now, &mut OutOfB(out, PhantomData::<A>)),
        }
    }

    fn next_timeout(&self) -> Option<(Time, &'static str)> {
        match self {
            Either::A(engine) => engine.next_timeout(),
            Either::B(engine) => engine.next_timeout(),
        }
    }
}

fn narrowed<R, S>(input: Input<R>, request_of: impl FnOnce(R) -> S) -> Input<S> {
    match input {
        Input::Datagrams { from, burst } => Input::Datagrams { from, burst },
        Input::Request { client, request } => Input::Request {
            client,
            request: request_of(request),
        },
        Input::TooLong { to, bytes } => Input::TooLong { to, bytes },
        Input::Timeout => Input::Timeout,
    }
}

/// The common outbox as an engine of the first kind sees it.
struct OutOfA<'a, O, B>(&'a mut O, PhantomData<B>);
/// The common outbox as an engine of the second kind sees it.
struct OutOfB<'a, O, A>(&'a mut O, PhantomData<A>);

impl<A: Engine, B: Engine, O: Outbox<Either<A, B>>> Outbox<A> for OutOfA<'_, O, B> {
    fn send(&mut self, to: UnderlayAddr, burst: Burst) {
        self.0.send(to, burst);
    }
    fn deliver(&mut self, client: ClientId, reply: A::Reply) {
        self.0.deliver(client, Either::A(reply));
    }
    fn report(&mut self, event: A::Event) {
        self.0.report(Either::A(event));
    }
    fn pool(&self) -> &Pool {
        self.0.pool()
    }
}

impl<A: Engine, B: Engine, O: Outbox<Either<A, B>>> Outbox<B> for OutOfB<'_, O, A> {
    fn send(&mut self, to: UnderlayAddr, burst: Burst) {
        self.0.send(to, burst);
    }
    fn deliver(&mut self, client: ClientId, reply: B::Reply) {
        self.0.deliver(client, Either::B(reply));
    }
    fn report(&mut self, event: B::Event) {
        self.0.report(Either::B(event));
    }
    fn pool(&self) -> &Pool {
        self.0.pool()
    }
}
