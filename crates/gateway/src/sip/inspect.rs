//! What sees every message: a bound on what one source may send and is told, and a trace.
//!
//! Whoever writes another's address into a datagram has that one told the answers. Answers to an address
//! are repeated only as far as they amplify little ([`AMPLIFICATION`]), until it has shown that it
//! hears them: by a request with the tag of an answer, such as the ACK.

use super::{Counters, message};
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
/// Messages that wait to be taken up, some 2 kB each: 4 MB.
const WAITING_MAX: usize = 2_048;
/// Of one source, so that who sends too many delays himself.
const WAITING_OF_ONE_MAX: usize = WAITING_MAX / 8;
/// Sources that are remembered; when there are more, all begin anew.
const SOURCES_MAX: usize = 16_384;

/// Bytes of repeated answers for each byte from an address that has proven nothing: an answer is about
/// as long as its request, so a lost one is repeated twice.
const AMPLIFICATION: usize = 3;
/// What it may have in store, by requests that were not answered yet.
const CREDIT_MAX: usize = 64 << 10;
/// Answers of which an address can know the tag, and which are known as repetitions.
const ANSWERS_MAX: usize = 8;

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
pub(super) struct Gate {
    state: Mutex<State>,
    counters: Arc<Counters>,
    hasher: RandomState,
}

#[derive(Default)]
struct State {
    sources: HashMap<IpAddr, Source>,
    /// Messages that were let through and are not taken up yet.
    waiting: usize,
}

struct Source {
    tokens: f64,
    at: Instant,
    waiting: usize,
    /// It hears what it is told.
    is_proven: bool,
    /// Bytes that it may be told again.
    credit: usize,
    /// The last answers and their tags, as hashes.
    told: VecDeque<(u64, Option<u64>)>,
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

    /// Whether a message of this source goes on; then it waits until it is taken up.
    fn lets(&self, from: IpAddr, now: Instant) -> bool {
        let mut state = self.locked();
        if state.sources.len() >= SOURCES_MAX && !state.sources.contains_key(&from) {
            // Those that may be invented go first.
            state
                .sources
                .retain(|_, source| source.waiting > 0 || source.is_proven);
            if state.sources.len() >= SOURCES_MAX {
                state.sources.retain(|_, source| source.waiting > 0);
            }
        }
        let is_full = state.waiting >= WAITING_MAX;
        let source = state.sources.entry(from).or_insert(Source {
            tokens: BURST,
            at: now,
            waiting: 0,
            is_proven: false,
            credit: 0,
            told: VecDeque::new(),
        });
        let passed = now.saturating_duration_since(source.at).as_secs_f64();
        source.tokens = (source.tokens + passed * RATE_PER_S).min(BURST);
        source.at = now;
        let may = !is_full && source.tokens >= 1.0 && source.waiting < WAITING_OF_ONE_MAX;
        if may {
            source.tokens -= 1.0;
            source.waiting += 1;
            state.waiting += 1;
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
        let tag = tag.map(|tag| self.hasher.hash_one(tag));
        if tag.is_some() && source.told.iter().any(|(_, told)| *told == tag) {
            source.is_proven = true;
            source.told = VecDeque::new();
        }
    }

    /// Whether an address is told this.
    fn may_tell(&self, to: IpAddr, bytes: &[u8]) -> bool {
        // What is no answer, nobody has asked for in another's name.
        if !bytes.starts_with(b"SIP/2.0 ") {
            return true;
        }
        let mut state = self.locked();
        let Some(source) = state.sources.get_mut(&to) else {
            // It has sent nothing, or is forgotten: its request comes again.
            self.counters.unproven.add();
            return false;
        };
        if source.is_proven {
            return true;
        }
        let answer = self.hasher.hash_one(bytes);
        let is_repeated = source.told.iter().any(|(told, _)| *told == answer);
        if is_repeated && source.credit < bytes.len() {
            self.counters.unproven.add();
            return false;
        }
        source.credit = source.credit.saturating_sub(bytes.len());
        if !is_repeated {
            let tag = match SipMessage::try_from(bytes) {
                Ok(SipMessage::Response(response)) => message::tags(&response).1,
                _ => None,
            };
            let tag = tag.map(|tag| self.hasher.hash_one(tag.as_str()));
            if source.told.len() >= ANSWERS_MAX {
                source.told.pop_front();
            }
            source.told.push_back((answer, tag));
        }
        true
    }

    /// A message of this source was taken up.
    fn taken_up(&self, from: IpAddr) {
        let mut state = self.locked();
        if let Some(source) = state.sources.get_mut(&from)
            && source.waiting > 0
        {
            source.waiting -= 1;
            state.waiting -= 1;
        }
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
            let is_sip = message.is_ok_and(|message| {
                SipConnection::update_msg_received(message, from, Transport::Udp).is_ok()
            });
            if !is_sip {
                self.gate.counters.nonsense.add();
            } else if self.gate.lets(from.ip(), Instant::now()) {
                if self.is_spoofable {
                    self.gate.heard(from.ip(), len, tag.as_deref());
                }
                return Ok((len, from));
            }
        }
    }

    async fn send_to(&self, bytes: &[u8], to: SocketAddr) -> rsipstack::Result<usize> {
        if self.is_spoofable && !self.gate.may_tell(to.ip(), bytes) {
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
        let TransportEvent::Incoming(_, connection, from) = &event else {
            return Some(event);
        };
        let Ok(from) = from.get_socketaddr() else {
            return Some(event);
        };
        // A stream is read by the stack itself, and its sender is held up by TCP.
        if connection.is_reliable() && !self.0.lets(from.ip(), Instant::now()) {
            return None;
        }
        self.0.taken_up(from.ip());
        Some(event)
    }
}

/// Shows every message to who wants to see them.
pub(super) struct Tracer(pub(super) Trace);

impl Tracer {
    fn show(&self, direction: Direction, at: Option<&SipAddr>, message: &SipMessage) {
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
mod tests {
    use super::*;
    use core::time::Duration;

    #[test]
    fn a_source_has_its_rate_and_others_theirs() {
        let gate = Gate::new(Arc::default());
        let [one, other] = [[192, 0, 2, 1], [192, 0, 2, 2]].map(IpAddr::from);
        let now = Instant::now();
        let lets = |from, now| {
            let may = gate.lets(from, now);
            if may {
                gate.taken_up(from);
            }
            may
        };
        let passed = (0..3 * BURST as usize).filter(|_| lets(one, now));
        assert_eq!(passed.count(), BURST as usize);
        assert!(lets(other, now));
        let later = now + Duration::from_millis(10);
        let passed = (0..100).filter(|_| lets(one, later));
        assert_eq!(passed.count(), 20);
        assert_eq!(gate.locked().waiting, 0);
    }

    #[test]
    fn answers_are_repeated_to_an_address_only_as_far_as_it_has_paid_or_proven_itself() {
        let gate = Gate::new(Arc::default());
        let (now, at) = (Instant::now(), IpAddr::from([192, 0, 2, 1]));
        let asked = 400;
        let answer = "SIP/2.0 404 Not Found\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1\r\n\
                      From: <sip:a@a.example>;tag=a\r\nTo: <sip:b@b.example>;tag=told\r\n\
                      Call-ID: 1\r\nCSeq: 1 INVITE\r\nContent-Length: 0\r\n\r\n";
        let ask = |tag: Option<&str>| {
            assert!(gate.lets(at, now));
            gate.taken_up(at);
            gate.heard(at, asked, tag);
        };
        // As often as timer G has it: 11 times in 32 s.
        let tell = || {
            let told = (0..11).filter(|_| gate.may_tell(at, answer.as_bytes()));
            told.count() * answer.len()
        };
        assert!(
            !gate.may_tell(at, answer.as_bytes()),
            "it has asked nothing"
        );
        ask(None);
        let told = tell();
        assert!(told >= answer.len() && told <= 3 * asked, "{told}");
        assert!(gate.counters.unproven.value() > 1);
        // Who guesses a tag has heard nothing, and who knows it has.
        ask(Some("guessed"));
        assert!(told + tell() <= 2 * 3 * asked);
        ask(Some("told"));
        assert_eq!(tell(), 11 * answer.len());
        // Requests are not answers.
        let other = IpAddr::from([192, 0, 2, 2]);
        assert!(gate.may_tell(other, b"OPTIONS sip:a@b SIP/2.0\r\n\r\n"));
    }

    #[test]
    fn what_waits_is_bounded_for_each_and_for_all() {
        let gate = Gate::new(Arc::default());
        let now = Instant::now();
        let source = |n: usize| IpAddr::from([192, 0, 2, n as u8]);
        let flood = |n| (0..500).filter(|_| gate.lets(source(n), now)).count();
        assert_eq!(flood(0), WAITING_OF_ONE_MAX);
        assert_eq!(
            (1..20).map(flood).sum::<usize>(),
            WAITING_MAX - WAITING_OF_ONE_MAX
        );
        gate.taken_up(source(0));
        assert!(gate.lets(source(30), now));
        assert!(!gate.lets(source(31), now));
        // What was never let through is not taken up.
        gate.taken_up(source(99));
        assert_eq!(gate.locked().waiting, WAITING_MAX);
    }
}
