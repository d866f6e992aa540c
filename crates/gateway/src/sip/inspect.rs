//! What sees every message: a bound on what one source may send and is told, and a trace.
//!
//! Whoever writes another's address into a datagram sends the answers there. So an address is told each of
//! its first answers once, and beyond that no more than amplifies little ([`AMPLIFICATION`]), until it
//! has shown that it hears: by a request with the tag of an answer, such as the ACK. Who controls a callee
//! knows the tags of its answers, and can show that in another's name.

use super::{Counters, message, places};
use core::hash::BuildHasher;
use core::net::{IpAddr, SocketAddr};
use rsipstack::platform::net::UdpSocket;
use rsipstack::sip::{SipMessage, Transport};
use rsipstack::transaction::endpoint::{MessageInspector, TransportEventInspector};
use rsipstack::transport::{SipAddr, SipConnection, TransportEvent};
use std::collections::{HashMap, VecDeque};
use std::hash::RandomState;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Messages a second that one source may send: 400 calls set up and torn down by a PBX, at five
/// messages each.
const RATE_PER_S: f64 = 2_000.0;
/// As many at once.
const BURST: f64 = 2_000.0;
/// What messages that wait to be taken up may cost in memory: some 2 kB each.
const WAITING_MAX: usize = 4 << 20;
/// Of one source, so that who sends too many delays himself.
const WAITING_OF_ONE_MAX: usize = WAITING_MAX / 8;
/// Sources that are remembered; when there are more, all begin anew.
const SOURCES_MAX: usize = 8_192;

/// Bytes of answers for each byte from an address that has proven nothing, beside its first answers: an
/// answer is about as long as its request, so a lost one is repeated twice.
const AMPLIFICATION: usize = 2;
/// What it may have in store.
const CREDIT_MAX: usize = 64 << 10;
/// So many answers are told for nothing, once.
const FREE_ANSWERS: usize = 8;
/// After these, repetitions leave so much of the credit to answers that were not told yet. Choice: those of three calls. Else
/// the repeated answers to one call that is not acknowledged would cost the next one its own.
const RESERVED: usize = 4 << 10;
/// So many answers are known again.
const KNOWN_ANSWERS: usize = 64;
/// And the tags of so many, the last ones, show that they were heard.
const TAGS_MAX: usize = 8;

/// Which way a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the gateway.
    In,
    /// From it.
    Out,
}

/// Who sees every message: which way it goes, where from or to, if that is known, and its text.
pub type Trace = Arc<dyn Fn(Direction, Option<SocketAddr>, &str) + Send + Sync>;

/// Lets through what sources may send. Asked where datagrams are received, before they cost
/// anything: the stack's queue behind that has no bound of its own.
pub(crate) struct Gate {
    state: Mutex<State>,
    counters: Arc<Counters>,
    hasher: RandomState,
}

#[derive(Default)]
struct State {
    sources: HashMap<IpAddr, Source>,
    /// What messages cost that were let through and are not taken up yet.
    waiting: usize,
}

struct Source {
    tokens: f64,
    at: Instant,
    /// What each of its messages costs that waits, in order.
    waiting: VecDeque<usize>,
    waiting_all: usize,
    /// It hears what it is told.
    is_proven: bool,
    /// Bytes that it may be told.
    credit: usize,
    /// Answers that it was told for nothing.
    free: usize,
    /// The last answers that it was told, as hashes.
    told: VecDeque<u64>,
    /// The tags of its last ones.
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
}

impl State {
    /// The source of this address, a new one if it is not known.
    fn source(&mut self, at: IpAddr, now: Instant) -> &mut Source {
        if self.sources.len() >= SOURCES_MAX && !self.sources.contains_key(&at) {
            let waits = |source: &Source| !source.waiting.is_empty();
            // Those that may be invented go first.
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

    /// Whether a message of this source goes on, which costs so much; then it waits until it is taken up.
    fn lets(&self, from: IpAddr, cost: usize, now: Instant) -> bool {
        let mut state = self.locked();
        let is_full = state.waiting + cost > WAITING_MAX;
        let source = state.source(from, now);
        let passed = now.saturating_duration_since(source.at).as_secs_f64();
        source.tokens = (source.tokens + passed * RATE_PER_S).min(BURST);
        source.at = now;
        let has_room = source.waiting_all + cost <= WAITING_OF_ONE_MAX;
        let may = !is_full && source.tokens >= 1.0 && has_room;
        if may {
            source.tokens -= 1.0;
            source.waiting.push_back(cost);
            source.waiting_all += cost;
            state.waiting += cost;
        } else {
            self.counters.flood.add();
        }
        may
    }

    /// So many bytes came from an address and go on; `tag` is the one of To.
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

    /// Whether an address is told this.
    fn may_tell(&self, to: IpAddr, bytes: &[u8], now: Instant) -> bool {
        // What is no answer, nobody has asked for in another's name.
        if !bytes.starts_with(b"SIP/2.0 ") {
            return true;
        }
        let mut state = self.locked();
        // One that was forgotten begins anew.
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

    /// Whether an address has shown that it hears what it is told.
    pub(crate) fn is_proven(&self, from: IpAddr) -> bool {
        let state = self.locked();
        state
            .sources
            .get(&from)
            .is_some_and(|source| source.is_proven)
    }

    /// A message of this source was taken up, the first that waits.
    fn taken_up(&self, from: IpAddr) {
        let mut state = self.locked();
        if let Some(source) = state.sources.get_mut(&from)
            && let Some(cost) = source.waiting.pop_front()
        {
            source.waiting_all -= cost;
            if source.waiting.is_empty() {
                // A burst leaves no room behind that it took.
                source.waiting = VecDeque::new();
            }
            state.waiting -= cost;
        }
    }
}

/// What a message costs while it waits.
fn cost(message: &SipMessage) -> usize {
    match message {
        SipMessage::Request(request) => places::cost(&request.headers, &request.body),
        SipMessage::Response(response) => places::cost(&response.headers, &response.body),
    }
}

/// A socket behind the gate.
pub(super) struct Gated<S> {
    pub(super) socket: S,
    pub(super) gate: Arc<Gate>,
    /// Whoever sends can write another's address into what he sends.
    pub(super) is_spoofable: bool,
}

#[async_trait::async_trait]
impl<S: UdpSocket> UdpSocket for Gated<S> {
    async fn recv_from(&self, buffer: &mut [u8]) -> rsipstack::Result<(usize, SocketAddr)> {
        loop {
            let (len, from) = self.socket.recv_from(buffer).await?;
            // Keep-alives are the stack's, and end there.
            if buffer[..len].iter().all(u8::is_ascii_whitespace) {
                return Ok((len, from));
            }
            // What the stack would drop is not counted as waiting.
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
            // As if it were lost.
            return Ok(bytes.len());
        }
        self.socket.send_to(bytes, to).await
    }

    fn local_addr(&self) -> rsipstack::Result<SocketAddr> {
        self.socket.local_addr()
    }
}

/// The gate where the stack takes messages up.
pub(super) struct Inside(pub(super) Arc<Gate>);

#[async_trait::async_trait]
impl TransportEventInspector for Inside {
    async fn handle(&self, event: TransportEvent) -> Option<TransportEvent> {
        let TransportEvent::Incoming(message, connection, from) = &event else {
            return Some(event);
        };
        let Ok(from) = from.get_socketaddr() else {
            return Some(event);
        };
        // A stream is read by the stack itself, and its sender is held up by TCP.
        if connection.is_reliable() && !self.0.lets(from.ip(), cost(message), Instant::now()) {
            return None;
        }
        self.0.taken_up(from.ip());
        Some(event)
    }
}

/// Shows every message to who wants to see them.
pub(super) struct Tracer(pub(super) Trace);

impl Tracer {
    /// Shows one.
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
