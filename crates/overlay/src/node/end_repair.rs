//! Coded repair from end to end, at the node: what passes it on both sides, and what is found. `realtime::end` has what
//! follows from what.
//!
//! ```text
//!   seal_noted ─▶ cover_to_end         flush_end_repairs ═ ask, repair ═▶ on_end_repair ─▶ forward_restored
//!   judge_arrival ─▶ note, on_opened         on_end_repair ◀═ report ═══════════'
//! ```
//! A node repairs so if its `protect` is `end-to-end`. Every node answers and restores: all that it keeps for others is bounded.
//!
//! Audits count what has come: a packet that was restored has not, until it comes as well. A relay that swallows packets is found
//! though repair makes good for it.

use super::Node;
use super::audit::has_room;
use super::ends::{CLASS, PORT, is_own};
use super::receive::{Verdict, drop_one, settle};
use super::send::message;
use crate::ends::has_seal;
use crate::event::Drop;
use crate::realtime::{Aims, EndReceiver, EndSender, Of, Protect, Reason, SealedPacket};
use crate::snapshot::EndRepairStatus;
use base::{Burst, Duration, Map, NodeAddr, Outbox, Time};
use wire::control::REPAIR_FRONT_BYTES;
use wire::data::{Header, LaneSeq, LinkProtocol, Remaining, TTL_MAX};
use wire::link::{Clear, SessionIndex};
use wire::transport::{END_REPAIR_FRONT, END_REPORT_BYTES, EndRepair};
use wire::{CLEAR_BYTES, HEADER_BYTES, SEALED_HEADROOM, TAG_BYTES};

/// Other ends for which this node repairs, and as many that repair for it. Choice: gateways of one another. One that sends holds 512 KiB
/// at most, one that receives 128 packets, as many equations, and 32 KiB of numbers: 64 of each 32 and 26 MiB.
const ENDS_MOST: usize = 64;
/// What has been of no use for so long goes.
const IDLE: Duration = Duration::from_secs(30);
/// What a repair packet has around the longest packet in it, from the hop's seal inwards.
const AROUND: usize = CLEAR_BYTES
    + HEADER_BYTES
    + CLEAR_BYTES
    + END_REPAIR_FRONT
    + REPAIR_FRONT_BYTES
    + TAG_BYTES
    + TAG_BYTES;
/// The longest message: what fits a small slot with what is around it.
const MESSAGE_MAX: usize = base::pool::SMALL_BYTES - SEALED_HEADROOM - 2 * TAG_BYTES;

/// All ends with which there is repair.
#[derive(Debug, Default)]
pub(super) struct EndRepairs {
    senders: Map<NodeAddr, EndSender>,
    receivers: Map<NodeAddr, EndReceiver>,
    /// Ends to which something may be due now.
    due: Vec<NodeAddr>,
    /// Packets that were restored are on their way: they are none that have come.
    is_restoring: bool,
}

/// A packet that is about to be opened.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noted {
    session: SessionIndex,
    counter_low: u32,
    is_kept: bool,
}

impl EndRepairs {
    /// Keeps a packet that is about to be opened, if its source repairs.
    #[inline]
    pub(super) fn note(&mut self, now: Time, source: NodeAddr, packet: &[u8]) -> Option<Noted> {
        if self.receivers.is_empty() || self.is_restoring {
            return None;
        }
        let receiver = self.receivers.get_mut(&source)?;
        let header = Header::trusted(packet);
        let clear = Clear::parse(header.payload()).ok()?;
        let session = clear.session;
        let is_kept = is_data(&header) && receiver.note(now, session, packet);
        Some(Noted {
            session,
            counter_low: clear.counter_low,
            is_kept,
        })
    }

    /// It has been opened.
    pub(super) fn on_opened(&mut self, now: Time, source: NodeAddr, noted: Noted) {
        if let Some(receiver) = self.receivers.get_mut(&source) {
            receiver.on_opened(now, noted.session, noted.counter_low, noted.is_kept);
        }
    }

    /// It had been opened before, or restored.
    pub(super) fn on_duplicate(&mut self, source: NodeAddr, noted: Noted) {
        if noted.is_kept
            && let Some(receiver) = self.receivers.get_mut(&source)
        {
            receiver.on_duplicate(noted.counter_low);
        }
    }

    /// What is being judged is no packet that came, but one that was restored.
    pub(super) fn is_restoring(&self) -> bool {
        self.is_restoring
    }

    /// How many packets of a source, of so many numbers, were restored and have not come.
    pub(super) fn restored(&self, source: NodeAddr, of: (SessionIndex, u32), len: u16) -> u16 {
        let receiver = self.receivers.get(&source);
        receiver.map_or(0, |receiver| receiver.restored(of.0, of.1, len))
    }

    /// When the last packets of a flow are to be repaired unless others follow.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        self.senders
            .values()
            .filter_map(EndSender::next_timeout)
            .min()
    }

    /// Flows have fallen silent.
    pub(super) fn on_timeout(&mut self, now: Time) {
        for (to, sender) in &mut self.senders {
            if sender.on_timeout(now) && !self.due.contains(to) {
                self.due.push(*to);
            }
        }
    }

    /// Forgets ends that have been of no use for long.
    pub(super) fn expire(&mut self, now: Time) {
        self.senders
            .retain(|_, sender| now.since(sender.used()) < IDLE);
        self.receivers
            .retain(|_, receiver| now.since(receiver.used()) < IDLE);
    }

    /// The one for packets to an end; none if there are too many.
    fn sender(&mut self, to: NodeAddr, aims: Aims) -> Option<&mut EndSender> {
        if !self.senders.contains_key(&to) {
            if self.senders.len() >= ENDS_MOST {
                return None;
            }
            self.senders.insert(to, EndSender::new(aims));
        }
        self.senders.get_mut(&to)
    }

    fn receiver(&mut self, from: NodeAddr) -> Option<&mut EndReceiver> {
        if !self.receivers.contains_key(&from) {
            if self.receivers.len() >= ENDS_MOST {
                return None;
            }
            self.receivers.insert(from, EndReceiver::default());
        }
        self.receivers.get_mut(&from)
    }

    /// What the status tells of an end: the repair of what goes there, and the packets from there that were restored.
    pub(super) fn status(&self, node: NodeAddr) -> (Option<EndRepairStatus>, u64) {
        let repair = self.senders.get(&node).map(|sender| {
            let (plan, (lost, measured)) = (sender.plan(), sender.measured());
            EndRepairStatus {
                repair_pct: 100.0 * plan.share.map_or(0.0, |share| share.ratio()),
                reason: match plan.reason {
                    Reason::Neighbour => "the other end does not report losses",
                    reason => reason.text(),
                }
                .to_owned(),
                lost_pct: 100.0 * lost,
                predicted_pct: 100.0 * plan.predicted,
                measured_pct: measured.map(|(share, _)| 100.0 * share),
                target_pct: 100.0 * plan.target,
                sent: sender.made(),
            }
        });
        let restored = self.receivers.get(&node).map_or(0, EndReceiver::found);
        (repair, restored)
    }
}

/// It is a client's, and of the class that is repaired.
fn is_data<B: AsRef<[u8]>>(header: &Header<B>) -> bool {
    header.class().link == LinkProtocol::RealTime && header.source_port() != PORT
}

impl Node {
    /// Packets were sealed for another end, from this counter on: what is to be repaired there is kept.
    #[inline]
    pub(super) fn cover_to_end(
        &mut self,
        now: Time,
        to: NodeAddr,
        packets: &Burst,
        (session, first): (SessionIndex, u64),
    ) {
        let aims = self.settings.realtime.aims;
        let repairs = aims.protect == Protect::EndToEnd;
        if !repairs && self.end_repairs.senders.is_empty() {
            return;
        }
        let repairs = repairs && !self.catches_up_to(now, to);
        for i in 0..packets.segments() {
            let counter = first + i as u64;
            let segment = packets.segment(i);
            let packet = &segment[CLEAR_BYTES..segment.len() - TAG_BYTES];
            let header = Header::trusted(packet);
            let is_covered = repairs && is_data(&header) && {
                let usable = self.router.usable_to(header.class().routing, to);
                packet.len() + AROUND <= usize::from(usable)
            };
            if !is_covered {
                if let Some(sender) = self.end_repairs.senders.get_mut(&to) {
                    sender.on_other(now, session, counter);
                }
                continue;
            }
            let way = self.router.tables().latency(to).unwrap_or_default();
            let wish = self.aims.of_packet(&header);
            // What was set for links holds for the way.
            let aims = Aims {
                protect: Protect::Auto,
                ..aims
            };
            let Some(sender) = self.end_repairs.sender(to, aims) else {
                continue;
            };
            sender.on_sealed(
                now,
                &SealedPacket {
                    session,
                    counter,
                    packet,
                    way,
                    wish,
                },
            );
            if !self.end_repairs.due.contains(&to) {
                self.end_repairs.due.push(to);
            }
        }
    }

    /// The lane of the way to a node has just sent what a host catches up with.
    fn catches_up_to(&self, now: Time, to: NodeAddr) -> bool {
        let link = self.router.first_link(&self.links, to);
        let brake = link.and_then(|link| self.links.at(link).brake.as_ref());
        brake.is_some_and(|brake| brake.catches_up(now))
    }

    /// Sends what repairs the packets to other ends, and asks them what is lost.
    #[inline]
    pub(super) fn flush_end_repairs(&mut self, now: Time, out: &mut impl Outbox<Node>) {
        while let Some(to) = self.end_repairs.due.pop() {
            self.flush_end_repair_to(now, to, out);
        }
    }

    fn flush_end_repair_to(&mut self, now: Time, to: NodeAddr, out: &mut impl Outbox<Node>) {
        let is_random = has_room(&self.links, self.router.first_link(&self.links, to));
        let Some(sender) = self.end_repairs.senders.get_mut(&to) else {
            return;
        };
        sender.look(now, is_random);
        let mut bytes = [0; MESSAGE_MAX];
        if let Some((session, names)) = sender.ask(now)
            && let Ok(len) = EndRepair::ask(session, names.parts(), &mut bytes)
        {
            self.send_end_repair(now, to, &bytes[..len], None, out);
        }
        loop {
            let Some(sender) = self.end_repairs.senders.get_mut(&to) else {
                return;
            };
            let Some((len, session, left)) = sender.poll(now, &mut bytes[END_REPAIR_FRONT..])
            else {
                return;
            };
            if EndRepair::begin_repair(session, &mut bytes).is_ok() {
                let message = &bytes[..END_REPAIR_FRONT + len];
                self.send_end_repair(now, to, message, left, out);
            }
        }
    }

    /// What another end says of repair, out of its seal.
    pub(super) fn on_end_repair(&mut self, now: Time, packet: &[u8], out: &mut impl Outbox<Node>) {
        let header = Header::trusted(packet);
        let source = header.source();
        if !is_own(&header) || header.destination() != self.addr {
            return drop_one(Drop::Malformed, out);
        }
        let Ok(message) = EndRepair::parse(header.payload()) else {
            return drop_one(Drop::Malformed, out);
        };
        match message {
            EndRepair::Report(report) => {
                if let Some(sender) = self.end_repairs.senders.get_mut(&source) {
                    sender.on_report(now, &report);
                }
            }
            EndRepair::Ask {
                session,
                first,
                named,
            } => {
                let Some(made) = self.ends.made(source, session) else {
                    return drop_one(Drop::EndNoSession, out);
                };
                let Some(receiver) = self.end_repairs.receiver(source) else {
                    return drop_one(Drop::Unsupported, out);
                };
                let each = core::iter::repeat_n(1, 8 * named.len());
                let opened = self.ends.opened(source, (session, first), each);
                let opened = opened.into_iter().flatten().map(|opened| opened > 0);
                let of = Of { session, made };
                let Some(report) = receiver.on_ask(now, of, (first, named), opened) else {
                    return;
                };
                let mut bytes = [0; END_REPORT_BYTES];
                if let Ok(len) = report.emit(&mut bytes) {
                    self.send_end_repair(now, source, &bytes[..len], None, out);
                }
            }
            EndRepair::Repair { session, repair } => {
                let left = header.remaining().duration();
                let Some(made) = self.ends.made(source, session) else {
                    return drop_one(Drop::EndNoSession, out);
                };
                let Some(receiver) = self.end_repairs.receiver(source) else {
                    return drop_one(Drop::Unsupported, out);
                };
                receiver.on_repair(now, Of { session, made }, left, &repair);
                self.forward_restored(now, source, out);
            }
        }
    }

    /// Takes what was found of a source's packets as if it had come.
    pub(super) fn forward_restored(
        &mut self,
        now: Time,
        source: NodeAddr,
        out: &mut impl Outbox<Node>,
    ) {
        if self.end_repairs.is_restoring {
            return;
        }
        self.end_repairs.is_restoring = true;
        while let Some(receiver) = self.end_repairs.receivers.get_mut(&source)
            && let Some((counter, remaining, bytes)) = receiver.poll(now)
        {
            // The seal must not hear of what is late: a copy that a hop's request brings may be in time.
            if remaining.is_expired() {
                drop_one(Drop::Expired, out);
                continue;
            }
            let Some(mut burst) = out.pool().copy_of(CLEAR_BYTES, bytes) else {
                drop_one(Drop::NoBuffer, out);
                continue;
            };
            let own = self.addr;
            let is_whole = Header::parse(burst.bytes_mut()).is_ok_and(|mut header| {
                header.set_lane_seq(LaneSeq::new(0));
                header.set_ttl(TTL_MAX);
                header.set_remaining(remaining);
                let ends = (header.source(), header.destination());
                let is_one = is_data(&header) && has_seal(&header) && ends == (source, own);
                header.set_recovered();
                is_one
            });
            if !is_whole {
                drop_one(Drop::Malformed, out);
                continue;
            }
            burst.push_front(CLEAR_BYTES);
            let len = burst.len() + TAG_BYTES;
            burst.fill(len, len);
            let packet = &mut burst.bytes_mut()[CLEAR_BYTES..len - TAG_BYTES];
            let verdict = settle(self.judge_flow(now, packet, out), out);
            if matches!(verdict, Verdict::Opened)
                && let Some(receiver) = self.end_repairs.receivers.get_mut(&source)
            {
                receiver.on_restored(counter);
            }
            self.dispatch(now, verdict, burst, out);
        }
        self.end_repairs.is_restoring = false;
    }

    fn send_end_repair(
        &mut self,
        now: Time,
        to: NodeAddr,
        bytes: &[u8],
        left: Option<Duration>,
        out: &mut impl Outbox<Node>,
    ) {
        if !self.ends.has_session(to) {
            return;
        }
        let mut header = self.message_header(CLASS, to);
        header.remaining = Remaining::from_deadline(left);
        let packet = message(&header, (&[], true), bytes, out);
        self.originate_made(now, &header, packet, out);
    }
}
