//! Sessions between the two ends of paths: what this node sends to another node is sealed here and
//! opened there, and nodes between them see the header alone.
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
//! The handshakes, the sessions and their re-keying are those of neighbours ([`secure`]): to them
//! another end is a neighbour whose address below is made of its address in the overlay. So half-open
//! handshakes are bounded, who sends many shows a cookie first, which only he gets in whose name he
//! sends, and two ends that begin at once make one session.
//!
//! Nodes that know each other make their session before they need it, up to a number. Otherwise
//! the first packets wait for one round trip. Choice: sooner they could go only under a key that is
//! not secret any more once the exit's key is stolen. What waits is bounded, and has less time left
//! when it goes.
//!
//! The Finish may be lost, or be overtaken by what follows it. The exit keeps that until it has come.
//!
//! A node that was started again has no sessions. Its record tells that by another boot, and what comes
//! for it under an old session all the same tells it who has not heard, and it dials.

use crate::event::Drop;
use crate::link::LinkIndex;
use crate::settings::Settings;
use base::token_bucket::TokenBucket;
use base::{Burst, Duration, Map, NodeAddr, Pool, Time, UnderlayAddr};
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

/// Ends with which there is a session, or may soon be: as many as a network has nodes. One takes 1.5 KiB,
/// and a window of up to 32 KiB if it is busy: 200 of them 0.3 to 6.9 MB.
pub(crate) const ENDS_MAX: usize = crate::link_state::MAX_ORIGINS;
/// Bytes that wait for one handshake: 1000 packets of voice, 100 calls for 200 ms.
pub(crate) const WAITING_BYTES_PER_END: usize = 256 << 10;
/// Bytes that wait for all.
pub(crate) const WAITING_BYTES: usize = 4 << 20;
/// A record of a node's new start may come so much later than its first handshake: both set out when its
/// first link is up.
const RECORD_TRAVELS: Duration = Duration::from_millis(300);
/// Bytes of packets that have come before the handshake was finished; they are forgotten with it.
const EARLY_BYTES: usize = 1 << 20;
/// Of one end.
const EARLY_BYTES_PER_END: usize = 128 << 10;
/// For so long a handshake may stay unfinished.
const EARLY_FOR: Duration = secure::limits::HALF_OPEN_LIFETIME;
/// An end of which nothing has gone or come for so long is not re-keyed: its session ends by age.
const IDLE: Duration = Duration::from_secs(120);
/// An end that has been heard under a session lately is not dialled because of what does not open.
const HEARD_LATELY: Duration = Duration::from_secs(2);
/// Dials per second because of packets under sessions that are not known here: whoever invents such
/// packets makes a node shake hands with others so often, at half a millisecond of both.
const ASKS_PER_S: f64 = 20.0;
/// As many at once: the ends of a node that was started again.
const ASKS_BURST: f64 = 64.0;

/// An end with which there can be no session, because one of both requires other keys, is not asked again for so long.
/// Choice: somebody who has just changed its settings waits for less than a minute.
const APART_FOR: Duration = Duration::from_secs(30);

/// Handshakes begun per second, with nobody waiting. Choice: 1.5 KiB each, 50 kbit/s while a network starts.
const PREPARED_PER_S: f64 = 4.0;
/// As many at once: all nodes of a small network.
const PREPARED_BURST: f64 = 16.0;

/// All sessions with other ends.
#[derive(Debug)]
pub(crate) struct Ends {
    handshakes: Handshakes,
    ends: Map<NodeAddr, End>,
    by_session: Map<SessionIndex, NodeAddr>,
    waiting_bytes: usize,
    /// What has come under handshakes that are not finished here.
    early: VecDeque<Early>,
    early_bytes: usize,
    asks: TokenBucket,
    /// When to look for nodes with which there is no session, and how many of them may be dialled.
    look: Option<Time>,
    preparing: TokenBucket,
    /// With so many nodes there is a session without any traffic.
    prepared_max: usize,
}

/// A packet that was sealed under a session which its exit does not have yet: the Finish was lost on the
/// way, or overtaken.
#[derive(Debug)]
pub(crate) struct Early {
    pub(crate) at: Time,
    /// The link that it came by.
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
    /// When something was sealed for it, and when something of it was opened.
    said: Option<Time>,
    heard: Option<Time>,
    /// What its record has told of its present start.
    boot: Option<u32>,
    /// When its handshake has shown last that one of both requires keys that the other does not make, and which.
    apart: Option<(Time, Refusal)>,
    counts: Counts,
}

/// What has been sealed and opened with one end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) sealed: u64,
    pub(crate) opened: u64,
    pub(crate) refused: u64,
}

/// What became of a burst that is to be sealed.
#[derive(Debug)]
pub(crate) enum Sealed {
    /// It is sealed, under this session of the exit's, from this counter on.
    Ready(Burst, (SessionIndex, u64)),
    /// It waits. The Init is to be sent, if a dial has begun with it.
    Waits(Option<Vec<u8>>),
    /// It goes nowhere.
    Dropped(Drop),
}

/// A packet that was opened, in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    /// The packet begins [`CLEAR_BYTES`] later, and ends [`TAG_BYTES`] earlier.
    Packet,
    /// It says only that its sender has the session.
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

    /// A renewed certificate, roots and lists of revocations count here too.
    pub(crate) fn handshakes_mut(&mut self) -> &mut Handshakes {
        &mut self.handshakes
    }

    /// There is a session under which something can be sealed for `to`.
    pub(crate) fn has_session(&self, to: NodeAddr) -> bool {
        self.ends
            .get(&to)
            .is_some_and(|end| !end.sessions.is_empty())
    }

    /// Seals packets for `to` that were laid out with room for it, or lets them wait for a session.
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

    /// When a session with `with` was made, which is known here by this index.
    pub(crate) fn made(&self, with: NodeAddr, session: SessionIndex) -> Option<Time> {
        let end = self.ends.get(&with)?;
        Some(end.sessions.by_index(session)?.established())
    }

    /// How many of `source`'s packets were opened, of stretches of so many counters each from `first` on.
    /// `None` if that is not known.
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
        // The oldest is forgotten first.
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
        // A handshake that nobody waited for may have begun when there was no way yet.
        let again = self.handshakes.init_to(below(to)).filter(|_| is_first);
        Sealed::Waits(again.or_else(|| self.dial(now, to)))
    }

    /// Begins a handshake, unless one is under way. Gives the Init.
    fn dial(&mut self, now: Time, to: NodeAddr) -> Option<Vec<u8>> {
        self.handshakes.dial(now, below(to), Some(to)).ok()
    }

    /// So many bytes more may wait for a session with `to`, or need not.
    pub(crate) fn has_room(&self, to: NodeAddr, bytes: usize) -> bool {
        let waiting = self.ends.get(&to).map_or(0, |end| end.waiting_bytes);
        self.has_session(to)
            || waiting + bytes <= WAITING_BYTES_PER_END
                && self.waiting_bytes + bytes <= WAITING_BYTES
    }

    /// Keeps a packet of `source` whose handshake is not finished. False if it is of none, or there is
    /// no room.
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

    /// Takes what `source` has sent before the handshake was finished.
    pub(crate) fn take_early(&mut self, source: NodeAddr) -> Vec<Early> {
        let all = core::mem::take(&mut self.early);
        let (his, rest): (Vec<Early>, Vec<Early>) =
            all.into_iter().partition(|early| early.source == source);
        self.early = rest.into();
        self.early_bytes -= his.iter().map(|early| early.packet.len()).sum::<usize>();
        his
    }

    /// Takes what waits for a session with `to`, and since when.
    pub(crate) fn take_waiting(&mut self, to: NodeAddr) -> VecDeque<(Time, Burst)> {
        let Some(end) = self.ends.get_mut(&to) else {
            return VecDeque::new();
        };
        self.waiting_bytes -= core::mem::take(&mut end.waiting_bytes);
        core::mem::take(&mut end.waiting)
    }

    /// Opens in place what `packet` has brought, a whole packet from its header on; `source` is whom
    /// it names as its sender.
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

    /// Something has come in the name of `source` that no session here opens. If that can be because
    /// this node has forgotten one, gives an Init for it.
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

    /// Takes in a datagram of a handshake, which came in the name of `source`.
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

    /// The session is there that is ended by what `source` has repeated, a Finish or the first piece of a ciphertext: it
    /// has not heard of that.
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

    /// A handshake with `node` has shown that one of both requires keys that the other does not make. Gives how many packets
    /// have waited for a session, and whether that is news.
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

    /// Why there can be no session with `node`, if a handshake has shown it of late.
    pub(crate) fn apart(&self, now: Time, node: NodeAddr) -> Option<Refusal> {
        self.ends.get(&node)?.apart(now)
    }

    /// Installs a session with `with`, of whose present start its record has told `boot`. False if there is no room for one.
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
        // Who has just shaken hands is no idle end, whether or not it has said anything.
        end.heard = Some(now);
        end.boot = end.boot.or(boot);
        self.by_session.insert(index, with);
        self.handshakes.on_taken(below(with), with);
        true
    }

    /// What the record of `node` says of its present start. After another one the sessions of before are
    /// over. If they were in use, gives an Init for one of now: what goes next need not wait for it.
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

    /// There is no session with `node`, none under way, and no reason why there can be none.
    pub(crate) fn is_unknown(&self, now: Time, node: NodeAddr) -> bool {
        !self.has_session(node)
            && !self.handshakes.is_dialling(below(node))
            && self.apart(now, node).is_none()
    }

    /// Asks for a look at who is unknown, at `at` or before.
    pub(crate) fn look_at(&mut self, at: Time) {
        self.look = Some(self.look.map_or(at, |look| look.min(at)));
    }

    /// Such a look is due. It is over with that.
    pub(crate) fn take_look(&mut self, now: Time) -> bool {
        self.look.take_if(|at| *at <= now).is_some()
    }

    /// Begins a handshake with `node` before anything is to be said. `None` if there have been enough.
    pub(crate) fn prepare(&mut self, now: Time, node: NodeAddr) -> Option<Vec<u8>> {
        if self.ends.len() >= self.prepared_max || !self.preparing.try_take(now, 1.0) {
            return None;
        }
        self.dial(now, node)
    }

    /// Gives back an index that came to nothing.
    pub(crate) fn release(&mut self, index: SessionIndex) {
        self.handshakes.release(index);
    }

    /// A place for another end: that of the one least lately used, if it is idle.
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

    /// The ends with which there is a session that is `gone`.
    pub(crate) fn with_session(&self, gone: impl Fn(NodeAddr, &Session) -> bool) -> Vec<NodeAddr> {
        let ends = self.ends.iter();
        let with = ends.filter(|(node, end)| end.sessions.iter().any(|it| gone(**node, it)));
        let mut nodes: Vec<NodeAddr> = with.map(|(node, _)| *node).collect();
        nodes.sort_unstable();
        nodes
    }

    /// The ends that there are, in no particular order but the same in every run.
    pub(crate) fn nodes(&self) -> Vec<NodeAddr> {
        self.ends.keys().copied().collect()
    }

    /// The session with `node`, and what has been sealed and opened.
    pub(crate) fn status(&self, node: NodeAddr) -> Option<(&Session, Counts)> {
        let end = self.ends.get(&node)?;
        Some((end.sessions.current()?, end.counts))
    }

    /// What is due of handshakes: datagrams to be sent to nodes, and how many packets have waited in
    /// vain.
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

    /// Slow housekeeping: ends sessions by age, and gives an Init for each that is to be followed by
    /// another: it is in use, or `seals` says that its end is still there and there are not too many.
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

/// What room a packet needs to be sealed: before its payload, and behind it.
pub(crate) const SEAL_FRONT: usize = CLEAR_BYTES;
/// See [`SEAL_FRONT`].
pub(crate) const SEAL_BACK: usize = TAG_BYTES;

/// A packet, from its header on, is sealed from end to end, or was laid out for that.
#[inline]
pub(crate) fn has_seal<B: AsRef<[u8]>>(header: &Header<B>) -> bool {
    let kind = header
        .has_transport()
        .then(|| transport::Kind::of(header.payload()));
    matches!(kind, Some(Ok(transport::Kind::End(kind))) if kind.is_sealed())
}

/// Calls `seal` for what is to be sealed of each packet: it gets the kind, room, payload and room, and what
/// stands around them. False if it cannot.
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

/// Moves the header of a packet that is open to its payload, which stands behind the place of the seal at `from`.
#[inline]
pub(crate) fn uncover(packet: &mut [u8], from: usize, kind: Kind) {
    packet.copy_within(..from, CLEAR_BYTES);
    Header::trusted(&mut packet[CLEAR_BYTES..]).set_transport(kind == Kind::Control);
}

/// A copy of a packet, with the room of a whole datagram, for some time.
pub(crate) fn kept(packet: &[u8], pool: &Pool) -> Option<Burst> {
    let bytes = CLEAR_BYTES + packet.len() + TAG_BYTES;
    let mut copy = pool.copy_of(CLEAR_BYTES, packet)?;
    copy.push_front(CLEAR_BYTES);
    copy.fill(bytes, bytes);
    pool.keep(&mut copy).then_some(copy)
}

/// The address by which handshakes know a node.
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
