//! Coded repair from end to end, at the node: the packets that pass repair on both sides, and the packets that it
//! restores. `realtime::end` makes the decisions.
//!
//! ```text
//!   seal_noted ─▶ cover_to_end         flush_end_repairs ═ ask, repair ═▶ on_end_repair ─▶ forward_restored
//!   judge_arrival ─▶ note, on_opened         on_end_repair ◀═ report ═══════════'
//! ```
//! A node repairs in this way if its `protect` is `end-to-end`. Every node answers and restores; the memory for other
//! nodes is limited. Choice: `auto` does not include it, because relays of earlier versions do not report their queues,
//! and a relay notices a queue of few packets late. Repair would fill such a queue, and hide the loss from the relay.
//!
//! Audits count the packets that have arrived. A restored packet does not count as arrived, unless it also arrives
//! itself. So a relay that drops packets is found even if repair replaces them.

use super::Node;
use super::audit::has_room;
use super::ends::CLASS;
use super::receive::{Verdict, drop_one, settle};
use super::send::message;
use crate::ends::has_seal;
use crate::ends::{PORT, is_own};
use crate::event::Drop;
use crate::realtime::{Aims, EndReceiver, EndSender, Of, Protect, Reason, SealedPacket};
use crate::snapshot::EndRepairStatus;
use base::{Burst, Duration, Map, NodeAddr, Outbox, Time};
use wire::control::REPAIR_FRONT_BYTES;
use wire::data::{Header, LaneSeq, LinkProtocol, Remaining, TTL_MAX};
use wire::link::{Clear, SessionIndex};
use wire::transport::{END_REPAIR_FRONT, END_REPORT_BYTES, EndRepair};
use wire::{CLEAR_BYTES, HEADER_BYTES, SEALED_HEADROOM, TAG_BYTES};

/// Maximum number of ends that this node repairs for, and of ends that repair for it. Choice: gateways that call one
/// another. A sender holds at most 512 KiB; a receiver holds 128 packets, as many equations, and 32 KiB of numbers: 64
/// of each take 32 and 26 MiB.
const ENDS_MOST: usize = 64;
/// Time without use after which a sender or receiver is removed.
const IDLE: Duration = Duration::from_secs(30);
/// The bytes around the longest covered packet in a repair packet, from the hop's seal inwards.
const AROUND: usize = CLEAR_BYTES
    + HEADER_BYTES
    + CLEAR_BYTES
    + END_REPAIR_FRONT
    + REPAIR_FRONT_BYTES
    + TAG_BYTES
    + TAG_BYTES;
/// The longest message: as much as fits into a small slot together with the bytes around it.
const MESSAGE_MAX: usize = base::pool::SMALL_BYTES - SEALED_HEADROOM - 2 * TAG_BYTES;

/// All ends with which this node uses repair.
#[derive(Debug, Default)]
pub(super) struct EndRepairs {
    senders: Map<NodeAddr, EndSender>,
    receivers: Map<NodeAddr, EndReceiver>,
    /// Ends to which something may be due now.
    due: Vec<NodeAddr>,
    /// The node is judging restored packets: they do not count as arrived.
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

    /// The noted packet has been opened.
    pub(super) fn on_opened(&mut self, now: Time, source: NodeAddr, noted: Noted) {
        if let Some(receiver) = self.receivers.get_mut(&source) {
            receiver.on_opened(now, noted.session, noted.counter_low, noted.is_kept);
        }
    }

    /// The noted packet had already been opened or restored.
    pub(super) fn on_duplicate(&mut self, source: NodeAddr, noted: Noted) {
        if noted.is_kept
            && let Some(receiver) = self.receivers.get_mut(&source)
        {
            receiver.on_duplicate(noted.counter_low);
        }
    }

    /// Returns true if the packet being judged has not arrived but was restored.
    pub(super) fn is_restoring(&self) -> bool {
        self.is_restoring
    }

    /// Returns how many packets of a source, among `len` numbers, were restored and have not arrived.
    pub(super) fn restored(&self, source: NodeAddr, of: (SessionIndex, u32), len: u16) -> u16 {
        let receiver = self.receivers.get(&source);
        receiver.map_or(0, |receiver| receiver.restored(of.0, of.1, len))
    }

    /// Returns when the last packets of a flow are to be repaired unless others follow.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        self.senders
            .values()
            .filter_map(EndSender::next_timeout)
            .min()
    }

    /// Handles flows that have fallen silent.
    pub(super) fn on_timeout(&mut self, now: Time) {
        for (to, sender) in &mut self.senders {
            if sender.on_timeout(now) && !self.due.contains(to) {
                self.due.push(*to);
            }
        }
    }

    /// Forgets ends that have been unused for long.
    pub(super) fn expire(&mut self, now: Time) {
        self.senders
            .retain(|_, sender| now.since(sender.used()) < IDLE);
        self.receivers
            .retain(|_, receiver| now.since(receiver.used()) < IDLE);
    }

    /// Returns the sender for packets to an end; `None` if there are too many.
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

    /// Returns the status of an end: the repair of packets to it, and the number of restored packets from it.
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

/// Returns true if the packet is a client's and of the class that is repaired.
fn is_data<B: AsRef<[u8]>>(header: &Header<B>) -> bool {
    header.class().link == LinkProtocol::RealTime && header.source_port() != PORT
}

impl Node {
    /// Packets were sealed for another end, from this counter on: keeps those that repair packets are to cover.
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
            // The settings for links apply to the path.
            let aims = Aims {
                protect: Protect::Auto,
                ..aims
            };
            let is_queued = self.router.is_queued_to(header.class().routing, to);
            let Some(sender) = self.end_repairs.sender(to, aims) else {
                continue;
            };
            sender.set_queued(is_queued);
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

    /// Returns true if the lane of the path to a node has just sent packets with which a host catches up.
    fn catches_up_to(&self, now: Time, to: NodeAddr) -> bool {
        let link = self.router.first_link(&self.links, to);
        let brake = link.and_then(|link| self.links.at(link).brake.as_ref());
        brake.is_some_and(|brake| brake.catches_up(now))
    }

    /// Sends the repair packets to other ends, and asks the ends what is lost.
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

    /// Handles a message of another end about repair, after it was opened.
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

    /// Takes restored packets of a source as if they had arrived.
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
            // The seal must not note a late packet: a copy that a hop's request brings may be in time.
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
