//! Coded repair between the two ends of a way, over whatever links are between them.
//!
//! ```text
//!   entry                                                        exit
//!   EndSender ── ask, each second that packets pass ───────────▶ EndReceiver
//!       ◀── report: lost on the way, in what runs, after repair ──── │
//!   sealed packets ═══▶ relays ═══▶ relays ════════════════════▶ opened, kept
//!   repair packets ───────────────────────────────────────────▶ decoder ─▶ what is found is opened as if it had come
//! ```
//!
//! It is the code and the pilot of a lane ([`super::code`], [`super::pilot`]). Packets are numbered by the counters under which they
//! are sealed, so nothing is added to them, and what is found passes the same seal and the same window of replays as what comes.
//! Of packets that are not covered the numbers alone count.
//!
//! A hop rewrites marks of the header; both ends take them out before packets are combined ([`normal`]). The time that a packet has
//! left is that of the repair packet that follows it, less what was between them, since a repair packet sets out with the
//! shortest time of those that it covers.

#[cfg(test)]
mod tests;

use super::code::{Decoder, Encoder, KEPT};
use super::pilot::{Aims, Link, Pilot, Plan};
use super::ring::Ring;
use super::{RoundTrip, SLACK_LEAST};
use crate::estimate::Loss;
use crate::flow::FlowKey;
use base::{Duration, Time, seq};
use wire::Aim;
use wire::control::Repair;
use wire::data::{Header, Remaining};
use wire::link::SessionIndex;
use wire::transport::EndReport;

/// What is sent lately is kept for so long, and in so many bytes. Choice: what a repair packet reaches over, 64 packets; of one call
/// they take 1.3 s, but those of before half a second are late for any deadline of a call.
const KEPT_FOR: Duration = Duration::from_millis(500);
const KEPT_BYTES: usize = 256 << 10;
/// The other end is asked so often while packets pass.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// It repairs, and knows what is lost, if it has reported so lately.
const REPORT_HOLDS: Duration = Duration::from_secs(4);
/// It reports no more often than this, however often it is asked.
const REPORT_EVERY: Duration = Duration::from_millis(500);
/// What stands for a packet that is not covered.
const NOT_COVERED: [u8; 4] = [0; 4];

/// A packet without what hops rewrite, in `room`.
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
    /// From its header on.
    pub(crate) packet: &'a [u8],
    /// What its way takes.
    pub(crate) way: Duration,
    /// What its sender wants.
    pub(crate) wish: Option<(FlowKey, Aim)>,
    /// It is to be covered, if the plan says so.
    pub(crate) is_data: bool,
}

/// The end that sends.
#[derive(Debug)]
pub(crate) struct EndSender {
    pilot: Pilot,
    encoder: Encoder,
    ring: Ring,
    session: Option<SessionIndex>,
    next: u64,
    asked: Option<Time>,
    reported: Option<Time>,
    /// What the other end has reported: the share that is lost.
    loss: f64,
    /// The least time to a deadline of what was covered lately.
    deadline: Option<Duration>,
    /// When a packet was last covered, or could have been.
    used: Time,
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
            asked: None,
            reported: None,
            loss: 0.0,
            deadline: None,
            used: Time::ZERO,
            room: Vec::new(),
        }
    }

    /// When it was of use last.
    pub(crate) fn used(&self) -> Time {
        self.used
    }

    /// The plan in force.
    pub(crate) fn plan(&self) -> Plan {
        self.pilot.plan()
    }

    /// What is lost on the way, as the other end reports, and what stays lost after repair and of how many packets.
    pub(crate) fn measured(&self) -> (f64, Option<(f64, u64)>) {
        (self.loss, self.pilot.measured())
    }

    /// Repair packets made.
    pub(crate) fn made(&self) -> u64 {
        self.encoder.made().0
    }

    /// A packet was sealed.
    pub(crate) fn on_sealed(&mut self, now: Time, sealed: &Sealed<'_>) {
        if self.session != Some(sealed.session) || sealed.counter != self.next {
            self.begin(sealed.session);
        }
        self.next = sealed.counter + 1;
        if !sealed.is_data {
            return self.ring.push(now, sealed.counter, &NOT_COVERED);
        }
        self.used = now;
        normal(sealed.packet, &mut self.room);
        self.ring.push(now, sealed.counter, &self.room);
        let header = Header::trusted(sealed.packet);
        let left = header.remaining().duration();
        let slack = left.map(|left| left.saturating_sub(sealed.way));
        let flow = FlowKey::of(&header).hash();
        let bytes = sealed.packet.len();
        if self.pilot.on_sent(now, bytes, slack, flow, sealed.wish) {
            self.encoder.cover(sealed.counter);
            self.deadline = match (self.deadline, left) {
                (Some(least), Some(left)) => Some(least.min(left)),
                (least, left) => left.or(least),
            };
        }
    }

    /// The session to ask about, if it is time to.
    pub(crate) fn ask(&mut self, now: Time) -> Option<SessionIndex> {
        let is_due = self.asked.is_none_or(|at| now.since(at) >= ASK_EVERY);
        let session = self.session.filter(|_| is_due)?;
        self.asked = Some(now);
        Some(session)
    }

    /// The other end tells what becomes of the packets.
    pub(crate) fn on_report(&mut self, now: Time, report: &EndReport) {
        if self.session != Some(report.session) || self.asked.is_none() {
            return;
        }
        self.reported = Some(now);
        self.loss = f64::from(report.loss) / 65_536.0;
        let run = f64::from(report.run_256ths) / 256.0;
        self.pilot.on_report(report.received, report.lost, run);
    }

    /// Looks at the plan if it is time. `is_random`: as far as the first link's brake knows losses are no queue's.
    pub(crate) fn look(&mut self, now: Time, is_random: bool) {
        let reports = |at: Time| now.since(at) < REPORT_HOLDS;
        let link = Link {
            share: self.loss,
            // Nobody asks for packets over the whole way, so its round trip does not matter.
            rtt: RoundTrip::from(SLACK_LEAST),
            is_random,
            takes_repair: self.reported.is_some_and(reports),
            strikes: 0,
            longer: Duration::ZERO,
        };
        if self.pilot.look(now, &link) {
            self.encoder.set_share(self.pilot.plan().share);
            self.deadline = None;
        }
        if !is_random {
            self.encoder.forgo();
        }
    }

    /// Writes the body of the repair packet that is due, if one is: its length, its session, and the time it has.
    pub(crate) fn poll(
        &mut self,
        now: Time,
        out: &mut [u8],
    ) -> Option<(usize, SessionIndex, Option<Duration>)> {
        let session = self.session?;
        let len = self.encoder.poll(now, &mut self.ring, out)?;
        Some((len, session, self.deadline))
    }

    /// Numbers have nothing to do with those of before.
    fn begin(&mut self, session: SessionIndex) {
        if self.session != Some(session) {
            self.asked = None;
        }
        self.session = Some(session);
        self.ring.clear();
        self.encoder.set_share(None);
        self.encoder.set_share(self.pilot.plan().share);
    }
}

/// What has become of a number.
#[derive(Clone, Copy, Debug, Default)]
struct Fate {
    counter: u64,
    /// A repair packet has named it: it is no repair packet, nor of another class.
    is_covered: bool,
    /// It came, or was found.
    is_here: bool,
}

/// The end that receives.
#[derive(Debug, Default)]
pub(crate) struct EndReceiver {
    session: Option<SessionIndex>,
    decoder: Decoder,
    loss: Loss,
    /// The number after the newest that has come.
    next: u64,
    /// What has become of the newest numbers, modulo [`KEPT`].
    fates: Vec<Fate>,
    /// Of older ones that repair packets have named: here, and not.
    received: u64,
    lost: u64,
    reported: Option<Time>,
    /// When it was asked or had repair last.
    used: Time,
    /// The time that the last repair packet had left when it came.
    left: Option<Duration>,
    /// A packet that is about to be opened.
    room: Vec<u8>,
}

impl EndReceiver {
    /// When it was of use last.
    pub(crate) fn used(&self) -> Time {
        self.used
    }

    /// Packets found.
    pub(crate) fn found(&self) -> u64 {
        self.decoder.stats().decoded
    }

    /// A packet came, and is about to be opened in its place.
    pub(crate) fn note(&mut self, packet: &[u8]) {
        normal(packet, &mut self.room);
    }

    /// The packet that was noted has been opened. `is_data`: it may be one that is covered.
    pub(crate) fn on_opened(&mut self, now: Time, session: SessionIndex, low: u32, is_data: bool) {
        if self.session != Some(session) {
            return;
        }
        let counter = seq::widen(low.into(), 32, self.next);
        self.next = self.next.max(counter + 1);
        self.loss.on_packet(counter);
        if is_data {
            self.decoder.on_original(now, counter, &self.room);
            self.is_here(counter);
        }
    }

    /// The other end asks what becomes of its packets.
    pub(crate) fn on_ask(&mut self, now: Time, session: SessionIndex) -> Option<EndReport> {
        self.listen(now, session);
        if self.reported.is_some_and(|at| now.since(at) < REPORT_EVERY) {
            return None;
        }
        self.reported = Some(now);
        let run = self.loss.run() * 256.0;
        Some(EndReport {
            session,
            // The casts saturate, and counts wrap.
            loss: (self.loss.rate() * 65_536.0) as u16,
            run_256ths: run as u16,
            received: self.received as u32,
            lost: self.lost as u32,
        })
    }

    /// A repair packet came that has so much time left.
    pub(crate) fn on_repair(
        &mut self,
        now: Time,
        session: SessionIndex,
        left: Option<Duration>,
        repair: &Repair<'_>,
    ) {
        self.listen(now, session);
        // Without a packet that has come it is not known which number that is.
        if self.next == 0 {
            return;
        }
        self.left = left;
        let newest = repair.newest.widen(self.next);
        for behind in (0..u64::BITS).filter(|behind| repair.members >> behind & 1 == 1) {
            let counter = newest.saturating_sub(behind.into());
            if let Some(fate) = self.fate(counter) {
                fate.is_covered = true;
            }
        }
        self.decoder.on_repair(now, newest, repair);
    }

    /// The next packet that was found, and the time that it has left.
    pub(crate) fn poll(&mut self, now: Time) -> Option<(Remaining, &[u8])> {
        let (counter, due) = self.decoder.poll()?;
        self.is_here(counter);
        // So much as the repair packet, which left later, less what has passed since this one should have come.
        let remaining = Remaining::from_deadline(self.left).minus(now.since(due));
        Some((remaining, self.decoder.bytes(counter)?))
    }

    fn listen(&mut self, now: Time, session: SessionIndex) {
        self.used = now;
        if self.session != Some(session) {
            self.session = Some(session);
            self.decoder.reset();
            self.loss.on_new_session();
            self.next = 0;
            self.fates.clear();
        }
        self.decoder.release_idle(now);
    }

    fn is_here(&mut self, counter: u64) {
        if let Some(fate) = self.fate(counter) {
            fate.is_here = true;
        }
    }

    /// The place of a number, of which what stood there before is counted; none if a newer one stands there.
    fn fate(&mut self, counter: u64) -> Option<&mut Fate> {
        self.fates.resize(KEPT, Fate::default());
        let fate = &mut self.fates[(counter % KEPT as u64) as usize];
        if fate.counter < counter {
            self.received += u64::from(fate.is_covered && fate.is_here);
            self.lost += u64::from(fate.is_covered && !fate.is_here);
            *fate = Fate {
                counter,
                ..Fate::default()
            };
        }
        (fate.counter == counter).then_some(fate)
    }
}
