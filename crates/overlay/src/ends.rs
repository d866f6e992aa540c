//! Sessions between the two ends of paths. What this node sends to another node is sealed here and opened there, and
//! nodes between them see only the header.
//!
//! ```text
//!   entry                                   relays                                exit
//!   packet ──▶ session? ──no──▶ waits, and   Init ═══════════════════════════▶  half-open
//!               │yes            a dial begins     ◀═══════════════ Response
//!               ▼                            Finish, and what has waited ═════▶  session
//!            sealed ════════════════════════════════════════════════════════▶  opened, judged
//!               ◀════════════════════════════════ an empty packet, sealed: it has the session
//! ```
//!
//! The handshakes, the sessions and their re-keying are those of neighbours ([`secure`]). To this code, another end is
//! a neighbour whose underlay address is derived from its overlay address. So half-open handshakes are limited, a node
//! that begins many must first show a cookie, which only the node at the claimed address receives, and two ends that
//! begin at once make one session.
//!
//! Nodes that know each other make their sessions before they need them, up to a limit. Otherwise, the first packets
//! wait for one round trip. Choice: without the wait, they could only be sealed with a key that is no longer secret
//! once the exit's key is stolen. The waiting packets are limited, and have less time left when they are sent.
//!
//! The Finish may be lost, or be overtaken by later packets. The exit keeps these packets until the Finish has arrived.
//!
//! A restarted node has no sessions. Its record reports the restart by a new boot number. If packets under an old
//! session arrive nevertheless, the restarted node learns from them which node has not heard of the restart, and dials
//! it.

use crate::event::Drop;
use crate::link::LinkIndex;
use crate::settings::Settings;
use base::token_bucket::TokenBucket;
use base::{Burst, Duration, Map, NodeAddr, Pool, Time, UnderlayAddr, VirtualPort};
use secure::{
    Bound, Due, Handshakes, Identity, Network, OpenError, Outcome, Refusal, Session, Sessions,
};
use std::collections::VecDeque;
use wire::data::Header;
use wire::handshake::Finish;
use wire::handshake::kem::{Piece, Whole};
use wire::link::{Clear, Kind, SEAL_BYTES, SessionIndex};
use wire::transport;
use wire::{CLEAR_BYTES, TAG_BYTES};

/// The source and destination port of handshakes: nobody can bind it.
pub(crate) const PORT: VirtualPort = VirtualPort(0);

/// Returns true if nodes send the packet to each other on their own behalf: no client has caused it.
#[inline]
pub(crate) fn is_own<B: AsRef<[u8]>>(header: &Header<B>) -> bool {
    (header.source_port(), header.destination_port()) == (PORT, PORT)
}

/// Maximum number of ends with which there is a session, or may soon be one: as many as a network has nodes. One takes
/// 1.5 KiB, and a window of up to 32 KiB if it is busy: 200 of them take 0.3 to 6.9 MB.
pub(crate) const ENDS_MAX: usize = crate::link_state::MAX_ORIGINS;
/// Maximum number of bytes that wait for one handshake: 1000 packets of voice, 100 calls for 200 ms.
pub(crate) const WAITING_BYTES_PER_END: usize = 256 << 10;
/// Maximum number of bytes that wait for all handshakes.
pub(crate) const WAITING_BYTES: usize = 4 << 20;
/// How much later than its first handshake the record of a node's new start may arrive: both are sent when the node's
/// first link is up.
const RECORD_TRAVELS: Duration = Duration::from_millis(300);
/// Maximum number of bytes of packets that arrived before the handshake was finished; they are forgotten together with
/// it.
const EARLY_BYTES: usize = 1 << 20;
/// The same for one end.
const EARLY_BYTES_PER_END: usize = 128 << 10;
/// How long a handshake may stay unfinished.
const EARLY_FOR: Duration = secure::limits::HALF_OPEN_LIFETIME;
/// An end is not re-keyed if nothing was sent to it or received from it for this long: its session ends by age.
const IDLE: Duration = Duration::from_secs(120);
/// An end that was heard under a session within this time is not dialled because of a packet that does not open.
const HEARD_LATELY: Duration = Duration::from_secs(2);
/// Dials per second because of packets under unknown sessions. A sender of forged packets can make a node perform this
/// many handshakes with others, at half a millisecond of each node's CPU time.
const ASKS_PER_S: f64 = 20.0;
/// Dials at once: the ends of a restarted node.
const ASKS_BURST: f64 = 64.0;

/// How long an end is not dialled again if there can be no session with it, because one of the two requires other keys.
/// Choice: a user who has just changed its settings waits for less than a minute.
const APART_FOR: Duration = Duration::from_secs(30);

/// Handshakes per second that are begun while no packet waits. Choice: 1.5 KiB each, 50 kbit/s while a network starts.
const PREPARED_PER_S: f64 = 4.0;
/// Such handshakes at once: all nodes of a small network.
const PREPARED_BURST: f64 = 16.0;

/// All sessions with other ends.
#[derive(Debug)]
pub(crate) struct Ends {
    handshakes: Handshakes,
    ends: Map<NodeAddr, End>,
    by_session: Map<SessionIndex, NodeAddr>,
    waiting_bytes: usize,
    /// Packets that arrived under handshakes that are not finished here.
    early: VecDeque<Early>,
    early_bytes: usize,
    asks: TokenBucket,
    /// When to look for nodes without a session.
    look: Option<Time>,
    preparing: TokenBucket,
    /// The number of nodes with which there is a session without any traffic.
    prepared_max: usize,
}

/// A packet that was sealed under a session which its exit does not have yet: the Finish was lost or overtaken.
#[derive(Debug)]
pub(crate) struct Early {
    pub(crate) at: Time,
    /// The link by which the packet arrived.
    pub(crate) came: LinkIndex,
    /// A whole opened datagram.
    pub(crate) packet: Burst,
    source: NodeAddr,
}

#[derive(Debug, Default)]
struct End {
    sessions: Sessions,
    waiting: VecDeque<(Time, Burst)>,
    waiting_bytes: usize,
    /// When a packet was last sealed for the end, and when one from it was last opened.
    said: Option<Time>,
    heard: Option<Time>,
    /// The number of the end's present start, as its record reports it.
    boot: Option<u32>,
    /// When a handshake last showed that one of the two requires keys that the other does not offer, and which of them.
    apart: Option<(Time, Refusal)>,
    counts: Counts,
}

/// Numbers of packets sealed and opened with one end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) sealed: u64,
    pub(crate) opened: u64,
    pub(crate) refused: u64,
}

/// The result of sealing a burst.
#[derive(Debug)]
pub(crate) enum Sealed {
    /// The burst is sealed, under this session of the exit, from this counter on.
    Ready(Burst, (SessionIndex, u64)),
    /// The burst waits. The Init is to be sent, if the burst has caused a dial.
    Waits(Option<Vec<u8>>),
    /// The burst was dropped.
    Dropped(Drop),
}

/// The content of a packet that was opened in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    /// The packet begins [`CLEAR_BYTES`] later, and ends [`TAG_BYTES`] earlier.
    Packet,
    /// The packet only shows that its sender has the session.
    Nothing,
}

impl Ends {
    pub(crate) fn new(
        identity: Identity,
        network: Network,
        seed: [u8; 32],
        settings: &Settings,
    ) -> Ends {
        let mut handshakes = Handshakes::of_ends(identity, network, seed, Time::ZERO);
        handshakes.set_post_quantum(settings.post_quantum);
        Ends {
            handshakes,
            ends: Map::default(),
            by_session: Map::default(),
            waiting_bytes: 0,
            early: VecDeque::new(),
            early_bytes: 0,
            asks: TokenBucket::new(ASKS_PER_S, ASKS_BURST, Time::ZERO),
            look: None,
            preparing: TokenBucket::new(PREPARED_PER_S, PREPARED_BURST, Time::ZERO),
            prepared_max: settings.prepared_ends as usize,
        }
    }

    /// Returns the handshakes: a renewed certificate, roots and lists of revocations are applied to them too.
    pub(crate) fn handshakes_mut(&mut self) -> &mut Handshakes {
        &mut self.handshakes
    }

    /// Returns true if there is a session under which packets can be sealed for `to`.
    pub(crate) fn has_session(&self, to: NodeAddr) -> bool {
        self.ends
            .get(&to)
            .is_some_and(|end| !end.sessions.is_empty())
    }

    /// Seals packets for `to`, which were laid out with room for it, or lets them wait for a session.
    pub(crate) fn seal(
        &mut self,
        now: Time,
        to: NodeAddr,
        mut burst: Burst,
        pool: &Pool,
    ) -> Sealed {
        let Some(end) = self
            .ends
            .get_mut(&to)
            .filter(|end| !end.sessions.is_empty())
        else {
            return self.wait(now, to, burst, pool);
        };
        end.said = Some(now);
        let Some(session) = end.sessions.current() else {
            return Sealed::Dropped(Drop::EndNoSession);
        };
        let counters = (session.peer_index(), session.sealed());
        let sealed = each_sealed(&mut burst, |kind, datagram, bound| {
            end.sessions.seal_bound(kind, datagram, bound).is_ok()
        });
        if let Err(reason) = sealed {
            return Sealed::Dropped(reason);
        }
        end.counts.sealed += burst.segments() as u64;
        Sealed::Ready(burst, counters)
    }

    /// Returns when the session with `with` was made that this node knows by this index.
    pub(crate) fn made(&self, with: NodeAddr, session: SessionIndex) -> Option<Time> {
        let end = self.ends.get(&with)?;
        Some(end.sessions.by_index(session)?.established())
    }

    /// Returns how many of `source`'s packets were opened, for stretches of `lengths` counters from `first` on. `None`
    /// if that is not known.
    pub(crate) fn opened(
        &self,
        source: NodeAddr,
        (index, first): (SessionIndex, u32),
        lengths: impl Iterator<Item = u16>,
    ) -> Option<impl Iterator<Item = u16>> {
        let session = self.ends.get(&source)?.sessions.by_index(index)?;
        let mut at = first;
        let counts = lengths.map(move |length| {
            let opened = session.opened(at, length.into());
            at = at.wrapping_add(length.into());
            Some(opened? as u16)
        });
        // The oldest counters are forgotten first.
        let mut counts = counts.peekable();
        counts.peek().copied().flatten()?;
        Some(counts.map(Option::unwrap_or_default))
    }

    fn wait(&mut self, now: Time, to: NodeAddr, mut burst: Burst, pool: &Pool) -> Sealed {
        if !self.make_room(now, to) {
            return Sealed::Dropped(Drop::EndNoSession);
        }
        let end = self.ends.entry(to).or_default();
        end.said = Some(now);
        if end.apart(now).is_some() {
            return Sealed::Dropped(Drop::EndClassic);
        }
        let bytes = burst.len();
        let fits = end.waiting_bytes + bytes <= WAITING_BYTES_PER_END
            && self.waiting_bytes + bytes <= WAITING_BYTES
            && pool.keep(&mut burst);
        if !fits {
            return Sealed::Dropped(Drop::EndNoSession);
        }
        let is_first = end.waiting.is_empty();
        end.waiting.push_back((now, burst));
        end.waiting_bytes += bytes;
        self.waiting_bytes += bytes;
        // A handshake that was begun while no packet waited may have started when there was no path yet.
        let again = self.handshakes.init_to(below(to)).filter(|_| is_first);
        Sealed::Waits(again.or_else(|| self.dial(now, to)))
    }

    /// Begins a handshake, unless one is under way. Returns the Init.
    fn dial(&mut self, now: Time, to: NodeAddr) -> Option<Vec<u8>> {
        self.handshakes.dial(now, below(to), Some(to)).ok()
    }

    /// Returns true if `bytes` more bytes may wait for a session with `to`, or need not wait.
    pub(crate) fn has_room(&self, to: NodeAddr, bytes: usize) -> bool {
        let waiting = self.ends.get(&to).map_or(0, |end| end.waiting_bytes);
        self.has_session(to)
            || waiting + bytes <= WAITING_BYTES_PER_END
                && self.waiting_bytes + bytes <= WAITING_BYTES
    }

    /// Keeps a packet of `source` whose handshake is not finished. Returns false if the packet belongs to no such
    /// handshake, or if there is no room.
    pub(crate) fn keep_early(
        &mut self,
        now: Time,
        (source, came): (NodeAddr, LinkIndex),
        packet: &[u8],
        pool: &Pool,
    ) -> bool {
        let header = Header::trusted(packet);
        let Ok(clear) = Clear::parse(header.payload()) else {
            return false;
        };
        if !self.handshakes.is_half_open(clear.session) {
            return false;
        }
        while self
            .early
            .front()
            .is_some_and(|early| now.since(early.at) >= EARLY_FOR)
        {
            let gone = self.early.pop_front();
            self.early_bytes -= gone.map_or(0, |early| early.packet.len());
        }
        let bytes = CLEAR_BYTES + packet.len() + TAG_BYTES;
        let of_end = self.early.iter().filter(|early| early.source == source);
        let held: usize = of_end.map(|early| early.packet.len()).sum();
        if held + bytes > EARLY_BYTES_PER_END || self.early_bytes + bytes > EARLY_BYTES {
            return false;
        }
        let Some(copy) = kept(packet, pool) else {
            return false;
        };
        self.early_bytes += bytes;
        self.early.push_back(Early {
            at: now,
            came,
            packet: copy,
            source,
        });
        true
    }

    /// Takes the packets that `source` sent before the handshake was finished.
    pub(crate) fn take_early(&mut self, source: NodeAddr) -> Vec<Early> {
        let all = core::mem::take(&mut self.early);
        let (his, rest): (Vec<Early>, Vec<Early>) =
            all.into_iter().partition(|early| early.source == source);
        self.early = rest.into();
        self.early_bytes -= his.iter().map(|early| early.packet.len()).sum::<usize>();
        his
    }

    /// Takes the packets that wait for a session with `to`, with the time since which each waits.
    pub(crate) fn take_waiting(&mut self, to: NodeAddr) -> VecDeque<(Time, Burst)> {
        let Some(end) = self.ends.get_mut(&to) else {
            return VecDeque::new();
        };
        self.waiting_bytes -= core::mem::take(&mut end.waiting_bytes);
        core::mem::take(&mut end.waiting)
    }

    /// Opens the content of `packet` in place. `packet` is a whole packet from its header on; `source` is the sender
    /// that it names.
    pub(crate) fn open(
        &mut self,
        now: Time,
        source: NodeAddr,
        packet: &mut [u8],
    ) -> Result<Opened, Drop> {
        let header = Header::trusted(&*packet);
        let (bound, from) = (header.bound(), header.payload_offset());
        let clear = Clear::parse(&packet[from..]).map_err(|_| Drop::Malformed)?;
        if self.by_session.get(&clear.session) != Some(&source) {
            return Err(Drop::EndNoSession);
        }
        let end = self.ends.get_mut(&source).ok_or(Drop::EndNoSession)?;
        let opened = match end.sessions.open_bound(now, &mut packet[from..], &bound) {
            Ok(opened) => opened,
            Err(OpenError::Replay) => return Err(Drop::Duplicate),
            Err(_) => {
                end.counts.refused += 1;
                return Err(Drop::EndForged);
            }
        };
        end.heard = Some(now);
        end.counts.opened += 1;
        if opened.confirms {
            self.handshakes.on_confirmed(clear.session);
        }
        let is_empty = packet.len() == from + SEAL_BYTES;
        if is_empty && clear.kind == Kind::Control {
            return Ok(Opened::Nothing);
        }
        uncover(packet, from, clear.kind);
        Ok(Opened::Packet)
    }

    /// A packet has arrived in the name of `source` that no session here opens. If the reason may be that this node has
    /// forgotten a session, the function returns an Init for a new one.
    pub(crate) fn ask(&mut self, now: Time, source: NodeAddr, packet: &[u8]) -> Option<Vec<u8>> {
        let header = Header::trusted(packet);
        let clear = Clear::parse(header.payload()).ok()?;
        if self.handshakes.is_dialling(below(source)) || self.handshakes.is_half_open(clear.session)
        {
            return None;
        }
        let heard = self.ends.get(&source).and_then(|end| end.heard);
        let is_live =
            self.has_session(source) && heard.is_some_and(|heard| now.since(heard) < HEARD_LATELY);
        if is_live || !self.make_room(now, source) || !self.asks.try_take(now, 1.0) {
            return None;
        }
        self.dial(now, source)
    }

    /// Takes in a datagram of a handshake, which arrived in the name of `source`.
    pub(crate) fn on_handshake(
        &mut self,
        now: Time,
        unix_s: u64,
        source: NodeAddr,
        datagram: &[u8],
    ) -> Outcome {
        self.handshakes
            .on_datagram(now, unix_s, below(source), datagram)
    }

    /// Returns true if `source` has repeated the last datagram of a handshake, a Finish or the first piece of a
    /// ciphertext, and the session exists here already: `source` does not know that yet.
    pub(crate) fn knows_finished(&self, source: NodeAddr, datagram: &[u8]) -> bool {
        let last = match (Finish::parse(datagram), Piece::parse(datagram)) {
            (Ok(finish), _) => Some(finish.receiver),
            (_, Ok(piece)) if piece.of == Whole::Ciphertext && piece.number == 0 => {
                Some(piece.receiver)
            }
            _ => None,
        };
        last.is_some_and(|session| self.by_session.get(&session) == Some(&source))
    }

    /// A handshake with `node` has shown that one of the two requires keys that the other does not offer. Returns how
    /// many packets have waited for a session, and whether this is news.
    pub(crate) fn on_apart(&mut self, now: Time, node: NodeAddr, why: Refusal) -> (u32, bool) {
        if !self.make_room(now, node) {
            return (0, false);
        }
        let end = self.ends.entry(node).or_default();
        let before = end.apart.replace((now, why));
        let waited = self.take_waiting(node);
        let packets = waited.iter().map(|(_, burst)| burst.segments() as u32);
        (packets.sum(), before.is_none())
    }

    /// Returns why there can be no session with `node`, if a recent handshake has shown it.
    pub(crate) fn apart(&self, now: Time, node: NodeAddr) -> Option<Refusal> {
        self.ends.get(&node)?.apart(now)
    }

    /// Installs a session with `with`, whose record has reported `boot` for its present start. Returns false if there
    /// is no room for a session.
    pub(crate) fn install(
        &mut self,
        now: Time,
        (with, boot): (NodeAddr, Option<u32>),
        session: Session,
    ) -> bool {
        let index = session.local_index();
        if !self.make_room(now, with) {
            self.handshakes.release(index);
            return false;
        }
        let end = self.ends.entry(with).or_default();
        if let Some(evicted) = end.sessions.install(now, session) {
            self.by_session.remove(&evicted);
            self.handshakes.release(evicted);
        }
        end.apart = None;
        // An end that has just completed a handshake is not idle, whether or not it has sent a packet.
        end.heard = Some(now);
        end.boot = end.boot.or(boot);
        self.by_session.insert(index, with);
        self.handshakes.on_taken(below(with), with);
        true
    }

    /// Takes in the boot number that the record of `node` reports. If it is a new one, the former sessions are over. If
    /// these were in use, returns an Init for a new session, so that the next packet need not wait for one.
    pub(crate) fn on_boot(
        &mut self,
        now: Time,
        node: NodeAddr,
        boot: Option<u32>,
    ) -> Option<Vec<u8>> {
        let end = self.ends.get_mut(&node)?;
        let before = core::mem::replace(&mut end.boot, boot);
        let newest = end.sessions.iter().map(Session::established).max();
        let is_recent = newest.is_some_and(|made| now.since(made) < RECORD_TRAVELS);
        if before.is_none() || before == boot || is_recent {
            return None;
        }
        let begins = boot.is_some() && !end.is_idle(now);
        for index in end.sessions.clear() {
            self.by_session.remove(&index);
            self.handshakes.release(index);
        }
        if begins && self.asks.try_take(now, 1.0) {
            return self.dial(now, node);
        }
        None
    }

    /// Returns true if there is no session with `node`, no handshake under way, and no reason against a session.
    pub(crate) fn is_unknown(&self, now: Time, node: NodeAddr) -> bool {
        !self.has_session(node)
            && !self.handshakes.is_dialling(below(node))
            && self.apart(now, node).is_none()
    }

    /// Schedules a look for nodes without a session, at `at` or earlier.
    pub(crate) fn look_at(&mut self, at: Time) {
        self.look = Some(self.look.map_or(at, |look| look.min(at)));
    }

    /// Returns true if such a look is due, and clears it.
    pub(crate) fn take_look(&mut self, now: Time) -> bool {
        self.look.take_if(|at| *at <= now).is_some()
    }

    /// Begins a handshake with `node` before any packet is to be sent. `None` if there have been enough.
    pub(crate) fn prepare(&mut self, now: Time, node: NodeAddr) -> Option<Vec<u8>> {
        if self.ends.len() >= self.prepared_max || !self.preparing.try_take(now, 1.0) {
            return None;
        }
        self.dial(now, node)
    }

    /// Releases an index whose handshake has led to nothing.
    pub(crate) fn release(&mut self, index: SessionIndex) {
        self.handshakes.release(index);
    }

    /// Makes room for another end: removes the least recently used idle one if necessary.
    fn make_room(&mut self, now: Time, with: NodeAddr) -> bool {
        if self.ends.contains_key(&with) || self.ends.len() < ENDS_MAX {
            return true;
        }
        let idle = self.ends.iter().filter(|(_, end)| end.is_idle(now));
        let oldest = idle.min_by_key(|(node, end)| (end.used(), **node));
        let Some(node) = oldest.map(|(node, _)| *node) else {
            return false;
        };
        self.remove(node);
        true
    }

    /// Forgets an end and its sessions, as when its certificate is revoked.
    pub(crate) fn remove(&mut self, node: NodeAddr) {
        self.handshakes.hang_up(below(node));
        let Some(mut end) = self.ends.remove(&node) else {
            return;
        };
        self.waiting_bytes -= end.waiting_bytes;
        for index in end.sessions.clear() {
            self.by_session.remove(&index);
            self.handshakes.release(index);
        }
    }

    /// Returns the ends with which there is a session that is `gone`.
    pub(crate) fn with_session(&self, gone: impl Fn(NodeAddr, &Session) -> bool) -> Vec<NodeAddr> {
        let ends = self.ends.iter();
        let with = ends.filter(|(node, end)| end.sessions.iter().any(|it| gone(**node, it)));
        let mut nodes: Vec<NodeAddr> = with.map(|(node, _)| *node).collect();
        nodes.sort_unstable();
        nodes
    }

    /// Returns all ends, in no particular order but the same in every run.
    pub(crate) fn nodes(&self) -> Vec<NodeAddr> {
        self.ends.keys().copied().collect()
    }

    /// Returns the session with `node`, and the numbers of packets sealed and opened.
    pub(crate) fn status(&self, node: NodeAddr) -> Option<(&Session, Counts)> {
        let end = self.ends.get(&node)?;
        Some((end.sessions.current()?, end.counts))
    }

    /// Handles timeouts of handshakes. Returns datagrams to be sent to nodes, and how many packets have waited in vain.
    pub(crate) fn on_timeout(&mut self, now: Time) -> (Vec<(NodeAddr, Vec<u8>)>, u32) {
        let (mut out, mut in_vain) = (Vec::new(), 0);
        for due in self.handshakes.on_timeout(now) {
            match due {
                Due::Send { to, datagram } => out.push((above(to), datagram)),
                Due::GaveUp { to, .. } | Due::Unfinished { to, .. } => {
                    let waited = self.take_waiting(above(to));
                    let packets = waited.iter().map(|(_, burst)| burst.segments() as u32);
                    in_vain += packets.sum::<u32>();
                }
                Due::Unconfirmed { session, .. } => {
                    if let Some(node) = self.by_session.remove(&session)
                        && let Some(end) = self.ends.get_mut(&node)
                    {
                        end.sessions.remove(session);
                    }
                    self.handshakes.release(session);
                }
            }
        }
        (out, in_vain)
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        let handshakes = self.handshakes.next_timeout();
        handshakes.into_iter().chain(self.look).min()
    }

    /// Slow housekeeping: ends sessions by age, and returns an Init for each session that needs a successor: the
    /// session is in use, or `seals` reports that its end still exists and there are not too many ends.
    pub(crate) fn tend(
        &mut self,
        now: Time,
        seals: impl Fn(NodeAddr) -> bool,
    ) -> Vec<(NodeAddr, Vec<u8>)> {
        let mut inits = Vec::new();
        let are_few = self.ends.len() <= self.prepared_max;
        for node in self.nodes() {
            let Some(end) = self.ends.get_mut(&node) else {
                continue;
            };
            while let Some(index) = end.sessions.expire(now) {
                self.by_session.remove(&index);
                self.handshakes.release(index);
            }
            let is_kept = !end.is_idle(now) || are_few && seals(node);
            let wants = end.sessions.wants_rekey(now) && is_kept;
            let is_over =
                end.sessions.is_empty() && end.waiting.is_empty() && end.apart(now).is_none();
            if wants && let Some(init) = self.dial(now, node) {
                inits.push((node, init));
            } else if is_over && !self.handshakes.is_dialling(below(node)) {
                self.ends.remove(&node);
            }
        }
        inits
    }
}

impl End {
    fn apart(&self, now: Time) -> Option<Refusal> {
        let (at, why) = self.apart?;
        (now.since(at) < APART_FOR).then_some(why)
    }

    fn used(&self) -> Option<Time> {
        self.said.max(self.heard)
    }

    fn is_idle(&self, now: Time) -> bool {
        self.used().is_none_or(|used| now.since(used) >= IDLE)
    }
}

/// The room that sealing needs before a packet's payload. [`SEAL_BACK`] is the room behind it.
pub(crate) const SEAL_FRONT: usize = CLEAR_BYTES;
/// See [`SEAL_FRONT`].
pub(crate) const SEAL_BACK: usize = TAG_BYTES;

/// Returns true if a packet, from its header on, is sealed from end to end, or was laid out for that.
#[inline]
pub(crate) fn has_seal<B: AsRef<[u8]>>(header: &Header<B>) -> bool {
    let kind = header
        .has_transport()
        .then(|| transport::Kind::of(header.payload()));
    matches!(kind, Some(Ok(transport::Kind::End(kind))) if kind.is_sealed())
}

/// Calls `seal` for each packet with the kind, the bytes to seal (room, payload and room), and the data bound to them.
/// Returns an error if `seal` fails.
#[inline]
pub(crate) fn each_sealed(
    burst: &mut Burst,
    mut seal: impl FnMut(Kind, &mut [u8], &Bound) -> bool,
) -> Result<(), Drop> {
    for i in 0..burst.segments() {
        let packet = &mut burst.segment_mut(i)[CLEAR_BYTES..];
        let header = Header::trusted(&*packet);
        let (bound, from) = (header.bound(), header.payload_offset());
        let to = packet.len() - TAG_BYTES;
        let datagram = &mut packet[from..to];
        let kind = match Kind::of(datagram) {
            Ok(kind @ (Kind::Data | Kind::Control)) => kind,
            _ => return Err(Drop::Malformed),
        };
        if !seal(kind, datagram, &bound) {
            return Err(Drop::EndNoSession);
        }
    }
    Ok(())
}

/// Moves the header of an opened packet to its payload, which stands behind the place of the seal at `from`.
#[inline]
pub(crate) fn uncover(packet: &mut [u8], from: usize, kind: Kind) {
    packet.copy_within(..from, CLEAR_BYTES);
    Header::trusted(&mut packet[CLEAR_BYTES..]).set_transport(kind == Kind::Control);
}

/// Returns a copy of a packet, with the room of a whole datagram, that is kept for some time.
pub(crate) fn kept(packet: &[u8], pool: &Pool) -> Option<Burst> {
    let bytes = CLEAR_BYTES + packet.len() + TAG_BYTES;
    let mut copy = pool.copy_of(CLEAR_BYTES, packet)?;
    copy.push_front(CLEAR_BYTES);
    copy.fill(bytes, bytes);
    pool.keep(&mut copy).then_some(copy)
}

/// Returns the address by which handshakes know a node.
fn below(node: NodeAddr) -> UnderlayAddr {
    let mut ip = [0; 16];
    ip[10..12].copy_from_slice(&[0xff, 0xff]);
    ip[12..].copy_from_slice(&node.0.to_be_bytes());
    UnderlayAddr {
        ip,
        port: 0,
        socket: 0,
        local: 0,
    }
}

fn above(at: UnderlayAddr) -> NodeAddr {
    let [.., a, b, c, d] = at.ip;
    NodeAddr(u32::from_be_bytes([a, b, c, d]))
}
