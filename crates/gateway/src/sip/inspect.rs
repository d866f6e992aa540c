//! The inspection of every message: a limit on what one source may send and receive, and a trace.
//!
//! An attacker who writes a foreign address into a datagram directs the answers to that address. So an address gets
//! each of its first answers once. Beyond that, it gets only an amount with little amplification ([`AMPLIFICATION`]),
//! until it has proven that it receives the answers. The proof is a request with the tag of an answer, such as the ACK.
//! An attacker who controls a callee knows the tags of its answers, and can forge this proof for another address.

use super::{Counters, inside, message, places};
use core::future::poll_fn;
use core::hash::BuildHasher;
use core::net::{IpAddr, SocketAddr};
use core::pin::pin;
use core::task::Poll;
use core::time::Duration;
use rsipstack::platform::net::UdpSocket;
use rsipstack::sip::{SipMessage, Transport};
use rsipstack::transaction::endpoint::MessageInspector;
use rsipstack::transport::{SipAddr, SipConnection};
use std::collections::{HashMap, VecDeque};
use std::hash::RandomState;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::task::unconstrained;

/// Maximum number of messages per second from one source: 400 calls that a PBX sets up and ends, at five messages each.
const RATE_PER_S: f64 = 2_000.0;
/// Maximum number of messages in a burst.
const BURST: f64 = 2_000.0;
/// Maximum memory of messages that the stack has not taken up yet: some 2 kB each.
const WAITING_MAX: usize = 4 << 20;
/// The same limit for one source, so that a source that sends too much delays only itself.
const WAITING_OF_ONE_MAX: usize = WAITING_MAX / 8;
/// The time after which a message of a stream is offered again, if there was no room for it.
const AGAIN: Duration = Duration::from_millis(20);
/// Maximum number of sources that are remembered. If there are more, unproven sources are forgotten first.
const SOURCES_MAX: usize = 8_192;

/// Number of bytes of answers for each byte from an unproven address, beyond its first answers. An answer is about as
/// long as its request, so a lost answer is repeated twice.
const AMPLIFICATION: usize = 2;
/// Maximum credit of an address.
const CREDIT_MAX: usize = 64 << 10;
/// Number of answers that an address gets once without credit.
const FREE_ANSWERS: usize = 8;
/// When these are used up, repetitions must leave this amount of credit for new answers. Choice: the amount for the
/// answers of three calls. Otherwise the repeated answers to one unacknowledged call would take the credit for the
/// answer to the next call.
const RESERVED: usize = 4 << 10;
/// Number of answers that are remembered, to recognize repetitions.
const KNOWN_ANSWERS: usize = 64;
/// Number of tags that are remembered. A request with one of these tags proves that the address receives the answers.
const TAGS_MAX: usize = 8;

/// The direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the gateway.
    In,
    /// From the gateway.
    Out,
}

/// Receives every message: its direction, its source or destination, if known, and its text.
pub type Trace = Arc<dyn Fn(Direction, Option<SocketAddr>, &str) + Send + Sync>;

/// Whether a message of a stream may pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
    Now,
    /// After this time, it may be offered again.
    After(Duration),
    /// It costs more than one source may have.
    Never,
}

/// Limits the messages of each source. The check is where datagrams are received, before they cost anything, because
/// the stack's queue behind it has no limit of its own.
pub(crate) struct Gate {
    state: Mutex<State>,
    counters: Arc<Counters>,
    hasher: RandomState,
}

#[derive(Default)]
struct State {
    sources: HashMap<IpAddr, Source>,
    /// The cost of messages that passed the gate and are not taken up yet.
    waiting: usize,
}

struct Source {
    tokens: f64,
    at: Instant,
    /// The costs of this source's waiting messages, in order.
    waiting: VecDeque<usize>,
    waiting_all: usize,
    /// Whether the address has proven that it receives answers.
    is_proven: bool,
    /// Number of bytes of answers that it may still get.
    credit: usize,
    /// Number of answers that it got without credit.
    free: usize,
    /// Hashes of the last answers that it got.
    told: VecDeque<u64>,
    /// Hashes of the tags of the last answers.
    tags: VecDeque<u64>,
}

impl Source {
    fn new(now: Instant) -> Source {
        Source {
            tokens: BURST,
            at: now,
            waiting: VecDeque::new(),
            waiting_all: 0,
            is_proven: false,
            credit: 0,
            free: 0,
            told: VecDeque::new(),
            tags: VecDeque::new(),
        }
    }

    /// Returns the tokens that the source has now.
    fn refill(&mut self, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.tokens = (self.tokens + passed * RATE_PER_S).min(BURST);
        self.at = now;
        self.tokens
    }
}

impl State {
    /// Returns the source with this address, and creates it if it is unknown.
    fn source(&mut self, at: IpAddr, now: Instant) -> &mut Source {
        if self.sources.len() >= SOURCES_MAX && !self.sources.contains_key(&at) {
            let waits = |source: &Source| !source.waiting.is_empty();
            // Sources whose address may be forged are forgotten first.
            self.sources
                .retain(|_, source| waits(source) || source.is_proven);
            if self.sources.len() >= SOURCES_MAX {
                self.sources.retain(|_, source| waits(source));
            }
        }
        self.sources.entry(at).or_insert_with(|| Source::new(now))
    }
}

impl Gate {
    pub(super) fn new(counters: Arc<Counters>) -> Arc<Gate> {
        Arc::new(Gate {
            state: Mutex::default(),
            counters,
            hasher: RandomState::new(),
        })
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides whether a datagram with this cost may pass. If so, it counts as waiting until it is taken up.
    fn lets(&self, from: IpAddr, cost: usize, now: Instant) -> bool {
        let may = self.takes(from, cost, now);
        if !may {
            self.counters.flood.add();
        }
        may
    }

    /// Returns how long a source with a stream must wait until it may send another message.
    pub(super) fn wait(&self, from: IpAddr, now: Instant) -> Option<Duration> {
        let mut state = self.locked();
        let missing = 1.0 - state.source(from, now).refill(now);
        (missing > 0.0).then(|| Duration::from_secs_f64(missing / RATE_PER_S))
    }

    /// Decides the same for a message of a stream. Nothing is lost: TCP slows the sender down while the message waits.
    pub(super) fn lets_wait(&self, from: IpAddr, cost: usize, now: Instant) -> Pass {
        if cost > WAITING_OF_ONE_MAX {
            self.counters.flood.add();
            return Pass::Never;
        }
        match self.takes(from, cost, now) {
            true => Pass::Now,
            false => Pass::After(AGAIN),
        }
    }

    fn takes(&self, from: IpAddr, cost: usize, now: Instant) -> bool {
        let mut state = self.locked();
        let is_full = state.waiting + cost > WAITING_MAX;
        let source = state.source(from, now);
        let has_room = source.waiting_all + cost <= WAITING_OF_ONE_MAX;
        let may = source.refill(now) >= 1.0 && !is_full && has_room;
        if may {
            source.tokens -= 1.0;
            source.waiting.push_back(cost);
            source.waiting_all += cost;
            state.waiting += cost;
        }
        may
    }

    /// Records that `len` bytes came from an address and passed; `tag` is the tag of To.
    fn heard(&self, from: IpAddr, len: usize, tag: Option<&str>) {
        let mut state = self.locked();
        let Some(source) = state.sources.get_mut(&from) else {
            return;
        };
        source.credit = (source.credit + AMPLIFICATION * len).min(CREDIT_MAX);
        if let Some(tag) = tag.map(|tag| self.hasher.hash_one(tag))
            && source.tags.contains(&tag)
        {
            source.is_proven = true;
            source.told = VecDeque::new();
            source.tags = VecDeque::new();
        }
    }

    /// Decides whether these bytes may be sent to an address.
    fn may_tell(&self, to: IpAddr, bytes: &[u8], now: Instant) -> bool {
        // A request is not an answer, so no forged request can have caused it.
        if !bytes.starts_with(b"SIP/2.0 ") {
            return true;
        }
        let mut state = self.locked();
        // A forgotten source begins again.
        let source = state.source(to, now);
        if source.is_proven {
            return true;
        }
        let answer = self.hasher.hash_one(bytes);
        let is_known = source.told.contains(&answer);
        let is_free = !is_known && source.free < FREE_ANSWERS;
        let reserved = match is_known && source.free == FREE_ANSWERS {
            true => RESERVED,
            false => 0,
        };
        if is_free {
            source.free += 1;
        } else if source.credit >= bytes.len() + reserved {
            source.credit -= bytes.len();
        } else {
            self.counters.unproven.add();
            return false;
        }
        if !is_known {
            if source.told.len() == KNOWN_ANSWERS {
                source.told.pop_front();
            }
            source.told.push_back(answer);
        }
        let tag = match SipMessage::try_from(bytes) {
            Ok(SipMessage::Response(response)) => message::tags(&response).1,
            _ => None,
        };
        if let Some(tag) = tag.map(|tag| self.hasher.hash_one(tag.as_str()))
            && !source.tags.contains(&tag)
        {
            if source.tags.len() >= TAGS_MAX {
                source.tags.pop_front();
            }
            source.tags.push_back(tag);
        }
        true
    }

    /// Returns whether an address has proven that it receives what is sent to it.
    pub(crate) fn is_proven(&self, from: IpAddr) -> bool {
        let state = self.locked();
        state
            .sources
            .get(&from)
            .is_some_and(|source| source.is_proven)
    }

    /// Records that the stack has taken up the first waiting message of this source.
    pub(super) fn taken_up(&self, from: IpAddr) {
        let mut state = self.locked();
        if let Some(source) = state.sources.get_mut(&from)
            && let Some(cost) = source.waiting.pop_front()
        {
            source.waiting_all -= cost;
            if source.waiting.is_empty() {
                // After a burst, its memory is released.
                source.waiting = VecDeque::new();
            }
            state.waiting -= cost;
        }
    }
}

/// Returns the cost of a waiting message.
pub(super) fn cost(message: &SipMessage) -> usize {
    match message {
        SipMessage::Request(request) => places::cost(&request.headers, &request.body),
        SipMessage::Response(response) => places::cost(&response.headers, &response.body),
    }
}

/// A socket behind the gate.
pub(super) struct Gated<S> {
    pub(super) socket: S,
    pub(super) gate: Arc<Gate>,
    /// Whether a sender can forge the source address.
    pub(super) is_spoofable: bool,
}

#[async_trait::async_trait]
impl<S: UdpSocket> UdpSocket for Gated<S> {
    async fn recv_from(&self, buffer: &mut [u8]) -> rsipstack::Result<(usize, SocketAddr)> {
        loop {
            let (len, from) = self.socket.recv_from(buffer).await?;
            // The stack handles keep-alives itself, and they end there.
            if buffer[..len].iter().all(u8::is_ascii_whitespace) {
                return Ok((len, from));
            }
            // Messages that the stack would drop do not count as waiting.
            let message = SipMessage::try_from(&buffer[..len]);
            let tag = match &message {
                Ok(SipMessage::Request(request)) => message::tags(request).1,
                _ => None,
            };
            let message = message.ok().and_then(|message| {
                SipConnection::update_msg_received(message, from, Transport::Udp).ok()
            });
            let Some(message) = message else {
                self.gate.counters.nonsense.add();
                continue;
            };
            if self.gate.lets(from.ip(), cost(&message), Instant::now()) {
                if self.is_spoofable {
                    self.gate.heard(from.ip(), len, tag.as_deref());
                }
                return Ok((len, from));
            }
        }
    }

    async fn send_to(&self, bytes: &[u8], to: SocketAddr) -> rsipstack::Result<usize> {
        if self.is_spoofable && !self.gate.may_tell(to.ip(), bytes, Instant::now()) {
            // The answer counts as lost.
            return Ok(bytes.len());
        }
        let mut sending = pin!(self.socket.send_to(bytes, to));
        if !inside::is_loop() {
            return sending.await;
        }
        let once = poll_fn(|cx| Poll::Ready(sending.as_mut().poll(cx)));
        match unconstrained(once).await {
            Poll::Ready(sent) => sent,
            // There is no room for the datagram, so it is lost. All that the loop sends is sent again on demand.
            Poll::Pending => Ok(bytes.len()),
        }
    }

    fn local_addr(&self) -> rsipstack::Result<SocketAddr> {
        self.socket.local_addr()
    }
}

/// Passes every message to the trace.
pub(super) struct Tracer(pub(super) Trace);

impl Tracer {
    /// Passes one message to the trace.
    pub(super) fn show(&self, direction: Direction, at: Option<&SipAddr>, message: &SipMessage) {
        let at = at.and_then(|at| at.get_socketaddr().ok());
        (self.0)(direction, at, &message.to_string());
    }
}

impl MessageInspector for Tracer {
    fn before_send(&self, message: SipMessage, to: Option<&SipAddr>) -> SipMessage {
        self.show(Direction::Out, to, &message);
        message
    }

    fn after_received(&self, message: SipMessage, from: Option<&SipAddr>) -> SipMessage {
        self.show(Direction::In, from, &message);
        message
    }
}

#[cfg(test)]
mod tests;
