//! Coded repair between the two ends of a path, over whatever links are between them.
//!
//! ```text
//!   entry                                                        exit
//!   EndSender ── question: these were data ───────────────────▶ EndReceiver
//!       ◀── report: lost on the way, in what runs, after repair ──── │
//!   sealed packets ═══▶ relays ═══▶ relays ════════════════════▶ opened, kept
//!   repair packets ───────────────────────────────────────────▶ decoder ─▶ what is found is opened as if it had come
//! ```
//!
//! It uses the code and the pilot of a lane ([`super::code`], [`super::pilot`]). The numbers of packets are the
//! counters under which they are sealed. So nothing is added to the packets, and restored packets pass the same seal
//! and the same replay window as packets that arrive. Other packets take numbers too. So a question names the numbers
//! of data packets, half a second after they were sealed, and the exit counts which of them it has opened. Whether
//! other packets are lost does not count.
//!
//! A hop rewrites marks of the header, and both ends remove them before packets are combined ([`normal`]). A repair
//! packet starts with the shortest time left of the packets that it covers. So a restored packet has the time left of
//! the repair packet, less the time between the two. A packet that is restored too late is dropped before it is opened,
//! because a copy may still arrive in time.

#[cfg(test)]
mod tests;

use super::code::{Decoder, Encoder, KEPT, SPAN, is_same};
use super::pilot::{Aims, Link, Pilot, Plan};
use super::ring::Ring;
use super::tail::Tail;
use super::{RoundTrip, SLACK_LEAST};
use crate::estimate::Loss;
use crate::flow::FlowKey;
use base::{Duration, Time, seq};
use std::collections::VecDeque;
use wire::Aim;
use wire::control::Repair;
use wire::data::{Header, Remaining};
use wire::link::SessionIndex;
use wire::transport::{END_ASKED_MAX, EndReport};

/// How long recent packets are kept, and in how many bytes. Choice: a repair packet reaches over 64 packets. With one
/// call these take 1.3 s, but packets older than half a second are too late for any deadline of a call.
const KEPT_FOR: Duration = Duration::from_millis(500);
const KEPT_BYTES: usize = 256 << 10;
/// How often the other end is asked while packets pass.
const ASK_EVERY: Duration = Duration::from_millis(500);
/// The other end counts as able to repair if it has sent a report within this time.
const REPORT_HOLDS: Duration = Duration::from_secs(4);
/// The other end reports no more often than this, however often it is asked.
const REPORT_EVERY: Duration = Duration::from_millis(250);
/// The placeholder of a packet that is not covered. It is as long as the data that is kept beside it, so that both are
/// bounded.
const NOT_COVERED: [u8; 16] = [0; 16];
/// The most numbers of restored packets that are remembered. Choice: 5 % of 1000 packets/s for 80 s, longer than an
/// audit looks back.
const RESTORED_KEPT: usize = 4096;

/// Writes a packet into `room`, without the parts that hops rewrite.
pub(crate) fn normal(packet: &[u8], room: &mut Vec<u8>) {
    room.clear();
    room.extend_from_slice(packet);
    let mut header = Header::trusted(&mut room[..]);
    header.set_class(header.class());
    header.set_ttl(0);
    header.set_remaining(Remaining::NONE);
}

/// A packet that was sealed for the other end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sealed<'a> {
    pub(crate) session: SessionIndex,
    pub(crate) counter: u64,
    /// The packet from its header on.
    pub(crate) packet: &'a [u8],
    /// The one-way delay of its path.
    pub(crate) way: Duration,
    /// The flow and the aim that its sender has asked for.
    pub(crate) wish: Option<(FlowKey, Aim)>,
}

/// The numbers about which one question asks, and which of them are data.
#[derive(Debug, Default)]
pub(crate) struct Names {
    first: u64,
    bits: Vec<u8>,
}

impl Names {
    /// Returns the low bits of the first number, and a bit for it and for each that follows.
    pub(crate) fn parts(&self) -> (u32, &[u8]) {
        (self.first as u32, &self.bits)
    }

    /// Adds a number. Numbers beyond the limit of a question are left out: the others stand for them.
    fn add(&mut self, counter: u64) {
        if self.bits.is_empty() {
            self.first = counter;
        }
        let at = (counter - self.first) as usize;
        if at < 8 * END_ASKED_MAX {
            self.bits.resize(self.bits.len().max(at / 8 + 1), 0);
            self.bits[at / 8] |= 0x80 >> (at % 8);
        }
    }
}

/// The sending end.
#[derive(Debug)]
pub(crate) struct EndSender {
    pilot: Pilot,
    encoder: Encoder,
    ring: Ring,
    session: Option<SessionIndex>,
    next: u64,
    /// The time that the newest covered packets had left when they were sealed, by number modulo [`KEPT`].
    left: Vec<(u64, Option<Duration>)>,
    tail: Tail,
    asked: Option<Time>,
    /// The numbers that the next question names, and those sealed since the last question.
    names: [Names; 2],
    reported: Option<Time>,
    /// The share of lost packets that the other end has reported.
    loss: f64,
    /// The recent count of numbers, and of those that were data.
    numbers: f64,
    data: f64,
    /// When a packet was last covered, or could have been.
    used: Time,
    /// A node on the path reports a queue that drops packets.
    is_queued: bool,
    room: Vec<u8>,
}

impl EndSender {
    pub(crate) fn new(aims: Aims) -> EndSender {
        EndSender {
            pilot: Pilot::new(aims),
            encoder: Encoder::default(),
            ring: Ring::new(KEPT_BYTES, KEPT_FOR),
            session: None,
            next: 0,
            left: Vec::new(),
            tail: Tail::new(1, KEPT_FOR),
            asked: None,
            names: Default::default(),
            reported: None,
            loss: 0.0,
            numbers: 0.0,
            data: 0.0,
            used: Time::ZERO,
            is_queued: false,
            room: Vec::new(),
        }
    }

    /// Returns when this end was last of use.
    pub(crate) fn used(&self) -> Time {
        self.used
    }

    /// Returns the plan in force.
    pub(crate) fn plan(&self) -> Plan {
        self.pilot.plan()
    }

    /// Returns the share of packets lost on the path, as the other end reports, and the share that stays lost after
    /// repair and the number of packets that it comes from.
    pub(crate) fn measured(&self) -> (f64, Option<(f64, u64)>) {
        (self.loss, self.pilot.measured())
    }

    /// Returns the number of repair packets made.
    pub(crate) fn made(&self) -> u64 {
        self.encoder.made().0
    }

    /// Takes in that another packet was sealed, which is not data.
    pub(crate) fn on_other(&mut self, now: Time, session: SessionIndex, counter: u64) {
        self.count(session, counter);
        self.ring.push(now, counter, &NOT_COVERED);
    }

    /// Takes in that a packet of data was sealed.
    pub(crate) fn on_sealed(&mut self, now: Time, sealed: &Sealed<'_>) {
        let counter = sealed.counter;
        self.count(sealed.session, counter);
        self.used = now;
        self.data += 1.0;
        self.names[1].add(counter);
        normal(sealed.packet, &mut self.room);
        self.ring.push(now, counter, &self.room);
        let header = Header::trusted(sealed.packet);
        let left = header.remaining().duration();
        let slack = left.map(|left| left.saturating_sub(sealed.way));
        let flow = FlowKey::of(&header).hash();
        let bytes = sealed.packet.len();
        if self.pilot.on_sent(now, bytes, slack, flow, sealed.wish) {
            self.encoder.cover(counter, &self.room);
            self.tail.on_data(now);
            self.left.resize(KEPT, (u64::MAX, None));
            self.left[(counter % KEPT as u64) as usize] = (counter, left);
        }
    }

    /// Returns the session to ask about and the numbers to name, if it is time to ask.
    pub(crate) fn ask(&mut self, now: Time) -> Option<(SessionIndex, Names)> {
        let is_due = self.asked.is_none_or(|at| now.since(at) >= ASK_EVERY);
        let session = self.session.filter(|_| is_due)?;
        self.asked = Some(now);
        // Packets that hops recover arrive later. So the next question names what was sealed since the last one.
        let sealed = core::mem::take(&mut self.names[1]);
        let named = core::mem::replace(&mut self.names[0], sealed);
        Some((session, named))
    }

    /// Takes the report of the other end about the packets.
    pub(crate) fn on_report(&mut self, now: Time, report: &EndReport) {
        if self.session != Some(report.session) || self.asked.is_none() {
            return;
        }
        self.reported = Some(now);
        self.loss = f64::from(report.loss) / 65_536.0;
        let run = f64::from(report.run_256ths) / 256.0;
        self.pilot.on_report(report.received, report.lost, run);
    }

    /// Takes in whether a node on the path reports a queue that drops packets.
    pub(crate) fn set_queued(&mut self, is_queued: bool) {
        self.is_queued = is_queued;
    }

    /// Checks the plan if it is time. `is_random`: as far as the first link's brake knows, the losses do not come from
    /// a queue.
    pub(crate) fn look(&mut self, now: Time, is_random: bool) {
        let is_random = is_random && !self.is_queued;
        let reports = |at: Time| now.since(at) < REPORT_HOLDS;
        let link = Link {
            share: self.loss,
            // There are no requests for packets over the whole path, so its round trip does not matter.
            rtt: RoundTrip::from(SLACK_LEAST),
            is_random,
            takes_repair: self.reported.is_some_and(reports),
            strikes: 0,
            longer: Duration::ZERO,
            span: self.span(),
        };
        if self.pilot.look(now, &link) {
            self.encoder.set_share(self.pilot.plan().share);
        }
        if !is_random {
            self.encoder.forgo();
        }
    }

    /// Returns when the last packets get their repair unless others follow.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.encoder.share().and(self.tail.next_timeout())
    }

    /// Returns true if the flow has fallen silent, and its last packets get their repair.
    pub(crate) fn on_timeout(&mut self, now: Time) -> bool {
        let is_silent = self.next_timeout().is_some() && self.tail.on_timeout(now).is_some();
        if is_silent {
            self.encoder.on_silence();
        }
        is_silent
    }

    /// Writes the body of the repair packet that is due, if one is. Returns its length, its session, and the time that
    /// it has left: the shortest that its members had.
    pub(crate) fn poll(
        &mut self,
        now: Time,
        out: &mut [u8],
    ) -> Option<(usize, SessionIndex, Option<Duration>)> {
        let session = self.session?;
        let len = self.encoder.poll(now, &self.ring, out)?;
        let repair = Repair::parse(&out[..len]).ok()?;
        let newest = repair.newest.widen(self.next);
        let left = of_members(newest, repair.members).filter_map(|counter| {
            let (of, left) = self.left[(counter % KEPT as u64) as usize];
            left.filter(|_| of == counter)
        });
        Some((len, session, left.min()))
    }

    /// Counts a packet and its number.
    fn count(&mut self, session: SessionIndex, counter: u64) {
        if self.session != Some(session) || counter != self.next {
            self.begin(session);
        }
        self.next = counter + 1;
        self.numbers += 1.0;
        if self.numbers > 4.0 * SPAN as f64 {
            (self.numbers, self.data) = (self.numbers / 2.0, self.data / 2.0);
        }
    }

    /// Returns the number of data packets among as many numbers as a repair packet reaches over.
    fn span(&self) -> u32 {
        let share = self.data / self.numbers.max(1.0);
        ((share * SPAN as f64) as u32).max(1)
    }

    /// Begins anew, because the numbers do not continue the previous ones.
    fn begin(&mut self, session: SessionIndex) {
        if self.session != Some(session) {
            self.asked = None;
        }
        self.session = Some(session);
        self.names = Default::default();
        self.ring.clear();
        self.encoder.set_share(None);
        self.encoder.set_share(self.pilot.plan().share);
    }
}

/// Returns the numbers that a repair packet names.
fn of_members(newest: u64, members: u64) -> impl Iterator<Item = u64> {
    let behind = (0..u64::from(u64::BITS)).filter(move |behind| members >> behind & 1 == 1);
    behind.map(move |behind| newest.saturating_sub(behind))
}

/// A session of the two ends, at the receiving end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Of {
    pub(crate) session: SessionIndex,
    /// When it was made.
    pub(crate) made: Time,
}

/// The receiving end.
#[derive(Debug, Default)]
pub(crate) struct EndReceiver {
    of: Option<Of>,
    decoder: Decoder,
    /// The loss of the packets that questions have named, in their order.
    loss: Loss,
    named: u64,
    /// The number after the newest that has come.
    next: u64,
    /// The numbers of packets that were restored and have not arrived, ascending.
    restored: VecDeque<u64>,
    /// The packets that questions have named: those that are here, and those that are not.
    received: u64,
    lost: u64,
    reported: Option<Time>,
    /// When it was last asked, or last got a repair packet.
    used: Time,
    /// The time that the last repair packet had left when it came.
    left: Option<Duration>,
    /// A packet that is about to be opened.
    room: Vec<u8>,
}

impl EndReceiver {
    /// Returns when this end was last of use.
    pub(crate) fn used(&self) -> Time {
        self.used
    }

    /// Returns the number of packets restored.
    pub(crate) fn found(&self) -> u64 {
        self.decoder.stats().decoded
    }

    /// Notes a packet of data that came and is about to be opened in place. Returns true if the decoder will keep it
    /// once it has been opened.
    pub(crate) fn note(&mut self, now: Time, session: SessionIndex, packet: &[u8]) -> bool {
        let is_wanted = self.is_of(session) && self.decoder.is_wanted(now);
        if is_wanted {
            normal(packet, &mut self.room);
        }
        is_wanted
    }

    /// Takes in that a packet has been opened. `is_noted` is true if it was noted.
    pub(crate) fn on_opened(&mut self, now: Time, session: SessionIndex, low: u32, is_noted: bool) {
        if !self.is_of(session) {
            return;
        }
        let counter = self.widen(low);
        self.next = self.next.max(counter + 1);
        if is_noted {
            self.decoder.on_original(now, counter, &self.room);
        }
    }

    /// Takes in that the noted packet had been opened before. If it was restored before and is the same packet, it now
    /// counts as arrived by itself.
    pub(crate) fn on_duplicate(&mut self, low: u32) {
        let counter = self.widen(low);
        let Ok(at) = self.restored.binary_search(&counter) else {
            return;
        };
        let kept = self.decoder.bytes(counter);
        if kept.is_some_and(|kept| is_same(kept, &self.room)) {
            self.restored.remove(at);
        }
    }

    /// Answers the question of the other end about its packets, with numbers from `first` on. `opened` says of each
    /// number whether its packet was opened, either arrived or restored.
    pub(crate) fn on_ask(
        &mut self,
        now: Time,
        of: Of,
        (first, names): (u32, &[u8]),
        opened: impl Iterator<Item = bool>,
    ) -> Option<EndReport> {
        if !self.listen(now, of) || self.reported.is_some_and(|at| now.since(at) < REPORT_EVERY) {
            return None;
        }
        self.reported = Some(now);
        let first = self.widen(first);
        let bits = names
            .iter()
            .flat_map(|byte| (0..8).map(move |bit| byte << bit & 0x80 != 0));
        let named = (first..)
            .zip(bits.zip(opened))
            .filter(|(_, (is_named, _))| *is_named);
        for (counter, (_, is_here)) in named {
            self.received += u64::from(is_here);
            self.lost += u64::from(!is_here);
            if is_here && self.restored.binary_search(&counter).is_err() {
                self.loss.on_packet(self.named);
            }
            self.named += 1;
        }
        let run = self.loss.run() * 256.0;
        Some(EndReport {
            session: of.session,
            // The casts saturate, and counts wrap.
            loss: (self.loss.rate() * 65_536.0) as u16,
            run_256ths: run as u16,
            received: self.received as u32,
            lost: self.lost as u32,
        })
    }

    /// Takes a repair packet that came with so much time left.
    pub(crate) fn on_repair(
        &mut self,
        now: Time,
        of: Of,
        left: Option<Duration>,
        repair: &Repair<'_>,
    ) {
        // Before the first packet has arrived, the full number is not known.
        if !self.listen(now, of) || self.next == 0 {
            return;
        }
        self.left = left;
        self.decoder
            .on_repair(now, repair.newest.widen(self.next), repair);
    }

    /// Returns the next restored packet, and the time that it has left.
    pub(crate) fn poll(&mut self, now: Time) -> Option<(u64, Remaining, &[u8])> {
        let (counter, due) = self.decoder.poll()?;
        // The packet has the time left of the repair packet, which left later, less the time since this one should have
        // come.
        let remaining = Remaining::from_deadline(self.left).minus(now.since(due));
        Some((counter, remaining, self.decoder.bytes(counter)?))
    }

    /// Takes in that a restored packet has been opened.
    pub(crate) fn on_restored(&mut self, counter: u64) {
        if self.restored.len() == RESTORED_KEPT {
            self.restored.pop_front();
        }
        let at = self.restored.partition_point(|held| *held < counter);
        self.restored.insert(at, counter);
    }

    /// Returns how many packets of these numbers were restored and have not arrived by themselves.
    pub(crate) fn restored(&self, session: SessionIndex, first: u32, len: u16) -> u16 {
        if !self.is_of(session) {
            return 0;
        }
        let first = self.widen(first);
        let before = |counter: u64| self.restored.partition_point(|held| *held < counter);
        (before(first + u64::from(len)) - before(first)) as u16
    }

    fn is_of(&self, session: SessionIndex) -> bool {
        self.of.is_some_and(|of| of.session == session)
    }

    fn widen(&self, low: u32) -> u64 {
        seq::widen(low.into(), 32, self.next)
    }

    /// Takes in that the other end uses a session. Returns false if a newer session has taken its place.
    fn listen(&mut self, now: Time, of: Of) -> bool {
        if self
            .of
            .is_some_and(|held| held.session != of.session && held.made >= of.made)
        {
            return false;
        }
        self.used = now;
        if self.of != Some(of) {
            self.of = Some(of);
            self.decoder.reset();
            self.loss.on_new_session();
            self.named = 0;
            self.next = 0;
            self.restored.clear();
        }
        self.decoder.release_idle(now);
        true
    }
}
