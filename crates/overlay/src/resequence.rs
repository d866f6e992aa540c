//! Delivery in order within the deadline: a buffer at the egress that puts a flow's packets back
//! in order, and never holds one longer than its own deadline.
//!
//! ```text
//!   arrives 5 (next is 5)      -> deliver 5
//!   arrives 7                  -> hold 7 until 6 comes, or until 7's deadline
//!   arrives 6                  -> deliver 6, 7
//!   7's deadline first         -> deliver 7; 6, should it come, is too late for order
//! ```
//! A packet without a deadline is held at most [`HOLD_WITHOUT_DEADLINE`].
//!
//! A flow that its receiver wants *as sent* is put in order and handed over at its sender's pace: each packet when
//! its remaining time has come down to the flow's lead. What a repair has held back then leaves in no
//! burst, which small sockets do not take. Who sends says when by the deadline: the
//! header's remaining time tells a packet's age, to 100 µs, and a repair's time is in it.
//!
//! Numbers of a flow begin at a multiple of [`START_SPACING`]. Who hears a number that lies little above one waits for
//! those before it, as for any others: they are the first of a flow, and come later if a link has to repair them.
//!
//! What is held is bounded, per flow and for the whole node. Where it would be more, the first gap is given
//! up: one packet is lost, and not all that comes until the deadline. Of the node's bound the flow pays
//! that holds most, so that the trouble of one costs no other. A held packet does not stay in the buffer
//! in which it came, for buffers are what the node receives with: it moves into memory of its size
//! ([`Hold::keep`]), and where there is none it does not wait.

use base::{ClientId, Duration, Map, NodeAddr, Pool, Time, VirtualPort};
use lead::Lead;
use std::collections::{BTreeMap, BTreeSet};

/// How long a packet without a deadline waits for its predecessors. Choice: two hundred
/// milliseconds, time for several strikes on a continental hop.
pub const HOLD_WITHOUT_DEADLINE: Duration = Duration::from_millis(200);
/// Packets held per flow while one before them is missing. Choice: 800 ms at 20 000 packets/s, the longest
/// deadline of a video group and some. Of a faster flow a missing packet has less time, and comes too late
/// for order then.
const MAX_HELD: usize = 16_384;
/// Bytes held per flow. Choice: a second of 100 Mbit/s, which is 10 000 packets/s of 1316 bytes.
pub const FLOW_BYTES_MAX: usize = 16 << 20;
/// Bytes held at a node. Choice: three quarters of what a node's pool keeps, four flows of the fastest; the
/// rest is for what waits for a full socket.
pub const NODE_BYTES_MAX: usize = 48 << 20;
/// Flows that are put in order at one node.
const MAX_FLOWS: usize = 4_096;
/// A flow that has been silent this long is forgotten.
const FORGET_AFTER: Duration = Duration::from_secs(60);
/// A number so far from what is expected is that of a sender that has begun anew: numbers begin at
/// random, so it shows in all but one of 2^15 restarts. Choice: 3 s at 20 000 packets/s, longer
/// than any packet is late.
const RESTART_JUMP: u64 = 1 << 16;
/// A flow's numbers begin at a multiple of it. Choice: 2^16, so that one join in 4096 falls by chance on a number
/// that looks like a beginning, and waits once for what was before it.
pub const START_SPACING: u32 = 1 << 16;
/// A first packet that comes with one of so many numbers is not the flow's first. Choice: what may be lost
/// in one burst when a flow begins.
const FIRST_FEW: u32 = 16;
/// What is handed over at its sender's pace is looked at again after so long: receivers do not see less, and
/// 10 000 packets/s do not wake the node 10 000 times.
const PACE_STEP: Duration = Duration::from_micros(500);
/// A packet is released this long before its deadline, for the client to read it in time.
const MARGIN: Duration = Duration::from_millis(1);

/// Whose packets: the receiving client, the node or group and port that they are for, and the sender.
pub type FlowKey = (ClientId, (NodeAddr, VirtualPort), NodeAddr, VirtualPort);

/// What can be held.
pub trait Hold {
    /// Its bytes, with what it takes to hold it.
    fn bytes(&self) -> usize;
    /// Moves into memory of its size. False when there is none.
    fn keep(&mut self, pool: &Pool) -> bool;
}

/// What is held at a node, and what was given up for want of room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldTotals {
    /// Packets.
    pub packets: usize,
    /// Their bytes.
    pub bytes: usize,
    /// Gaps that were given up because as much was held as may be.
    pub given_up: u64,
}

/// How a flow is handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// In order, as soon as may be.
    AtOnce,
    /// In order and as sent, with so much time left to the deadline, or as repairs have needed lately.
    AsSent(Option<Duration>),
}

/// What became of a flow's packets that were not handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// They came after what follows them had been handed over.
    pub late: u64,
    /// They were waited for in vain: late ones are among them.
    pub missed: u64,
}

/// What became of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Taken; [`Resequencer::pop`] hands out what is ready.
    Taken,
    /// Its successors have been delivered.
    TooLate,
    /// There are as many flows as there may be, or nobody has fetched what is ready.
    Full,
}

/// All flows that are put in order; `T` is what is held.
#[derive(Debug)]
pub struct Resequencer<T> {
    flows: Map<FlowKey, Flow<T>>,
    /// When to look at which flow.
    agenda: BTreeSet<(Time, FlowKey)>,
    /// When something was handed over at its pace last.
    paced_at: Time,
    totals: HeldTotals,
    node_bytes_max: usize,
}

#[derive(Debug)]
struct Flow<T> {
    /// What is added to the sender's numbers, so that they go on rising when it begins anew.
    shift: u32,
    /// The next number to deliver, shifted and widened.
    next: u64,
    held: BTreeMap<u64, Held<T>>,
    order: Order,
    lead: Lead,
    losses: Losses,
    /// Where it stands in the agenda.
    wake: Time,
    /// Their bytes.
    bytes: usize,
    /// Gaps that were given up for want of room.
    given_up: u64,
    /// Not later than the earliest release among those held.
    earliest: Time,
    last: Time,
}

#[derive(Debug)]
struct Held<T> {
    /// When it is handed over at the latest.
    at: Time,
    /// It keeps its sender's pace until then.
    is_paced: bool,
    item: T,
}

impl<T> Default for Resequencer<T> {
    fn default() -> Self {
        Resequencer {
            flows: Map::default(),
            agenda: BTreeSet::new(),
            paced_at: Time::ZERO,
            totals: HeldTotals::default(),
            node_bytes_max: NODE_BYTES_MAX,
        }
    }
}

impl<T: Hold> Resequencer<T> {
    /// Takes a packet that arrived `now` with `remaining` time to its deadline, and gives it back
    /// when it cannot be delivered.
    pub fn push(
        &mut self,
        now: Time,
        key: FlowKey,
        (seq, order): (u32, Order),
        remaining: Option<Duration>,
        mut item: T,
        pool: &Pool,
    ) -> Result<(), (Verdict, T)> {
        if !self.flows.contains_key(&key) {
            self.make_room(now);
            if self.flows.len() >= MAX_FLOWS {
                return Err((Verdict::Full, item));
            }
            // The widened numbers start high enough for a first late packet to lie below.
            let next = (1 << 32) + u64::from(seq - after_start(seq));
            let flow = Flow {
                shift: 0,
                next,
                held: BTreeMap::new(),
                order,
                lead: Lead::default(),
                losses: Losses::default(),
                wake: Time::FAR,
                bytes: 0,
                given_up: 0,
                earliest: Time::FAR,
                last: now,
            };
            self.flows.insert(key, flow);
        }
        let flow = self.flows.get_mut(&key).expect("inserted above");
        flow.last = now;
        let wide = flow.number(seq);
        if wide < flow.next {
            flow.losses.late += 1;
            return Err((Verdict::TooLate, item));
        }
        if flow.held.len() > MAX_HELD {
            return Err((Verdict::Full, item));
        }
        let left = remaining.map_or(HOLD_WITHOUT_DEADLINE, |r| r - MARGIN);
        let mut at = now + left;
        flow.order = order;
        let mut is_paced = order != Order::AtOnce && remaining.is_some();
        if is_paced {
            flow.lead.on_arrival(now, left);
        }
        // What is next and due is fetched at once. Anything else waits, if it has memory of its own.
        let is_ready = wide == flow.next && !(is_paced && at - flow.lead_of(now) > now);
        if !is_ready && !item.keep(pool) {
            (at, is_paced) = (now, false);
            flow.given_up += 1;
            self.totals.given_up += 1;
        }
        let bytes = item.bytes();
        let held = Held { at, is_paced, item };
        let replaced = flow.held.insert(wide, held);
        let freed = replaced.as_ref().map_or(0, |held| held.item.bytes());
        flow.bytes = flow.bytes + bytes - freed;
        self.totals.bytes = self.totals.bytes + bytes - freed;
        self.totals.packets += usize::from(replaced.is_none());
        flow.earliest = flow.earliest.min(at);
        // What is next the caller fetches now.
        if wide != flow.next {
            let wake = flow.wake.min(at);
            schedule(&mut self.agenda, key, flow, wake);
        }
        Ok(())
    }

    /// The next packet of `key` that is ready: the next in order, or one whose deadline is near.
    pub fn pop(&mut self, now: Time, key: FlowKey) -> Option<T> {
        let flow = self.flows.get_mut(&key)?;
        let popped = flow.pop(now, &mut self.totals);
        if popped.is_none() {
            let wake = flow.wake_at(now);
            schedule(&mut self.agenda, key, flow, wake);
        } else if flow.order != Order::AtOnce {
            self.paced_at = now;
        }
        popped
    }

    /// A flow that must give up its first gap, because the node holds as much as it may: the one that
    /// holds most. What it has ready then is to be fetched by [`Resequencer::pop`].
    pub fn relieve(&mut self) -> Option<FlowKey> {
        if self.totals.bytes <= self.node_bytes_max {
            return None;
        }
        let most = self.flows.iter_mut().max_by_key(|(_, flow)| flow.bytes);
        let (key, flow) = most?;
        let (&first, _) = flow.held.first_key_value()?;
        if first != flow.next {
            flow.losses.missed += first - flow.next;
            flow.next = first;
            flow.given_up += 1;
            self.totals.given_up += 1;
        }
        if let Some(held) = flow.held.get_mut(&first) {
            held.is_paced = false;
        }
        Some(*key)
    }

    /// What became of packets of one source for members of a group here that were not handed over.
    pub fn of_group(&self, source: NodeAddr, group: NodeAddr) -> Losses {
        let flows = self.flows.iter();
        let flows = flows.filter(|((_, to, from, _), _)| (to.0, *from) == (group, source));
        flows.fold(Losses::default(), |sum, (_, flow)| Losses {
            late: sum.late + flow.losses.late,
            missed: sum.missed + flow.losses.missed,
        })
    }

    /// What is held in all.
    pub fn totals(&self) -> HeldTotals {
        self.totals
    }

    /// The flows that hold something or have given up something, those that hold most first: what each
    /// holds and has given up.
    pub fn holders(&self) -> Vec<(FlowKey, HeldTotals)> {
        let flows = self.flows.iter().map(|(key, flow)| (*key, flow.totals()));
        let mut holders: Vec<_> = flows
            .filter(|(_, held)| held.packets > 0 || held.given_up > 0)
            .collect();
        holders.sort_unstable_by_key(|(key, held)| (core::cmp::Reverse(held.bytes), *key));
        holders
    }

    /// A packet of any flow whose time has come.
    pub fn pop_due(&mut self, now: Time) -> Option<(FlowKey, T)> {
        while let Some(&(at, key)) = self.agenda.first()
            && at <= now
        {
            if let Some(item) = self.pop(now, key) {
                return Some((key, item));
            }
        }
        None
    }

    /// When [`Resequencer::pop_due`] may have something.
    pub fn next_timeout(&self) -> Option<Time> {
        let (at, _) = self.agenda.first()?;
        Some((*at).max(self.paced_at + PACE_STEP))
    }

    /// Forgets the flows of a client that is gone.
    pub fn close(&mut self, client: ClientId) {
        self.forget(|key, _| key.0 == client);
    }

    /// Forgets what came to a client for a group that it has left: what comes when it joins again does
    /// not wait for what was sent meanwhile.
    pub fn leave(&mut self, client: ClientId, group: NodeAddr, port: VirtualPort) {
        self.forget(|key, _| (key.0, key.1) == (client, (group, port)));
    }

    fn forget(&mut self, is_gone: impl Fn(&FlowKey, &Flow<T>) -> bool) {
        let (totals, agenda) = (&mut self.totals, &mut self.agenda);
        self.flows.retain(|key, flow| {
            let gone = is_gone(key, flow);
            if gone {
                schedule(agenda, *key, flow, Time::FAR);
                totals.bytes -= flow.bytes;
                totals.packets -= flow.held.len();
            }
            !gone
        });
    }

    fn make_room(&mut self, now: Time) {
        if self.flows.len() >= MAX_FLOWS {
            self.forget(|_, flow| now.since(flow.last) >= FORGET_AFTER);
        }
    }
}

impl<T: Hold> Flow<T> {
    /// The place of a packet in the flow. What a restarted sender says stands behind all that is
    /// held of what it said before.
    fn number(&mut self, seq: u32) -> u64 {
        let wide = |shift| base::seq::widen(u64::from(seq.wrapping_add(shift)), 32, self.next);
        if wide(self.shift).abs_diff(self.next) > RESTART_JUMP {
            let last = self.held.last_key_value();
            let behind_all = last.map_or(self.next, |(number, _)| number + 1);
            let after = after_start(seq);
            self.shift = (behind_all as u32).wrapping_sub(seq - after);
            return behind_all + u64::from(after);
        }
        wide(self.shift)
    }

    fn totals(&self) -> HeldTotals {
        HeldTotals {
            packets: self.held.len(),
            bytes: self.bytes,
            given_up: self.given_up,
        }
    }

    fn pop(&mut self, now: Time, totals: &mut HeldTotals) -> Option<T> {
        let (&first, held) = self.held.first_key_value()?;
        let (at, is_paced) = (held.at, held.is_paced);
        let is_full = self.held.len() > MAX_HELD || self.bytes > FLOW_BYTES_MAX;
        let is_early = is_paced && at - self.lead_of(now) > now;
        if !is_full && is_early && first == self.next {
            return None;
        }
        if first != self.next {
            // At a time that was given nothing waits any longer, as the receiver wants it.
            let is_timed = is_paced && matches!(self.order, Order::AsSent(Some(_))) && !is_early;
            if !is_timed && !self.is_due(now) {
                if !is_full {
                    return None;
                }
                self.given_up += 1;
                totals.given_up += 1;
            }
            self.losses.missed += first - self.next;
        }
        // Everything before a packet whose time has come goes first, so order is kept.
        self.next = first + 1;
        let Held { item, .. } = self.held.remove(&first)?;
        if is_paced {
            self.lead.on_release(now, at.since(now));
        }
        self.bytes -= item.bytes();
        totals.bytes -= item.bytes();
        totals.packets -= 1;
        if self.held.is_empty() {
            self.earliest = Time::FAR;
        }
        Some(item)
    }

    /// The time of one of those held has come. They are looked through only when it may have: what is
    /// handed out in order costs the same however many wait behind it.
    fn is_due(&mut self, now: Time) -> bool {
        if self.earliest <= now {
            let releases = self.held.values().map(|held| held.at);
            self.earliest = releases.min().unwrap_or(Time::FAR);
        }
        self.earliest <= now
    }

    /// With how much time left, less the margin, packets are handed over at present.
    fn lead_of(&self, now: Time) -> Duration {
        match self.order {
            Order::AtOnce => Duration::from_secs(u64::from(u32::MAX)),
            Order::AsSent(Some(left)) => left - MARGIN,
            // What would wait for less than a look is not kept waiting: the header tells time to 100 µs.
            Order::AsSent(None) => self.lead.at(now) + PACE_STEP,
        }
    }

    /// When there may be something to hand over, having been looked at now.
    fn wake_at(&self, now: Time) -> Time {
        let Some((&first, held)) = self.held.first_key_value() else {
            return Time::FAR;
        };
        let is_timed = matches!(self.order, Order::AsSent(Some(_)));
        let paced = (held.is_paced && (first == self.next || is_timed))
            .then(|| held.at - self.lead_of(now));
        let at = paced.unwrap_or(Time::FAR).min(self.earliest);
        at.max(now + Duration::from_micros(1))
    }
}

/// How far a number lies above the beginning of its flow, if it is one of the first few.
const fn after_start(seq: u32) -> u32 {
    match seq % START_SPACING {
        after if after < FIRST_FEW => after,
        _ => 0,
    }
}

fn schedule<T>(agenda: &mut BTreeSet<(Time, FlowKey)>, key: FlowKey, flow: &mut Flow<T>, at: Time) {
    if at == flow.wake {
        return;
    }
    if flow.wake != Time::FAR {
        agenda.remove(&(flow.wake, key));
    }
    if at != Time::FAR {
        agenda.insert((at, key));
    }
    flow.wake = at;
}

mod lead;
#[cfg(test)]
mod tests;
