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
//! A flow whose receiver wants it *as sent* is put in order and handed over at its sender's pace: each packet when its
//! remaining time has decreased to the flow's lead. So packets that were delayed by a repair do not leave in a burst,
//! which small sockets do not accept. The sender's pace is known from the deadline: the header's remaining time shows a
//! packet's age, to 100 µs, including the time of repairs.
//!
//! Numbers of a flow begin at a multiple of [`START_SPACING`]. If the first number received is a little above such a
//! multiple, the node waits for the numbers before it, as for any missing ones: they are the first of a flow, and
//! arrive later if a link has to repair them. For a client that has joined a group a moment ago, the node waits for
//! them for a tenth of a second only: perhaps they were sent before the network knew that it is a member.
//!
//! The memory for held packets is limited, per flow and for the whole node. At the limit, the first gap is given up:
//! one packet is lost, and not all packets until the deadline. At the node's limit, the flow that holds most gives up
//! its gap, so that its trouble costs no other flow. A held packet does not stay in the buffer in which it arrived,
//! because the node needs buffers for receiving. It moves into memory of its size ([`Hold::keep`]), and without such
//! memory it does not wait.

use base::{ClientId, Duration, Map, NodeAddr, Pool, Time, VirtualPort};
use lead::Lead;
use std::collections::{BTreeMap, BTreeSet};

/// How long a packet without a deadline waits for its predecessors. Choice: two hundred
/// milliseconds, time for several strikes on a continental hop.
pub const HOLD_WITHOUT_DEADLINE: Duration = Duration::from_millis(200);
/// Maximum number of packets held per flow while one before them is missing. Choice: 800 ms at 20 000 packets/s, a
/// little more than the longest deadline of a video group. In a faster flow, a missing packet has less time, after
/// which it is too late for order.
const MAX_HELD: usize = 16_384;
/// Maximum number of bytes held per flow. Choice: a second of 100 Mbit/s, which is 10 000 packets/s of 1316 bytes.
pub const FLOW_BYTES_MAX: usize = 16 << 20;
/// Maximum number of bytes held at a node. Choice: three quarters of what a node's pool keeps, four of the fastest
/// flows; the rest is for packets that wait for a full socket.
pub const NODE_BYTES_MAX: usize = 48 << 20;
/// Maximum number of flows that are put in order at one node.
const MAX_FLOWS: usize = 4_096;
/// A flow that has been silent this long is forgotten.
const FORGET_AFTER: Duration = Duration::from_secs(60);
/// A number this far from the expected one belongs to a sender that has restarted: numbers begin at random, so all but
/// one of 2^15 restarts are detected. Choice: 3 s at 20 000 packets/s, longer than any packet is late.
const RESTART_JUMP: u64 = 1 << 16;
/// The numbers of a flow begin at a multiple of this. Choice: 2^16, so that one join in 4096 happens at a number that
/// looks like a beginning, and waits once for the numbers before it.
pub const START_SPACING: u32 = 1 << 16;
/// If the number of the first received packet is at least this much above a multiple of [`START_SPACING`], the flow has
/// begun earlier. Choice: the number of packets that may be lost in one burst when a flow begins.
const FIRST_FEW: u32 = 16;
/// For this long after a join, the first numbers of a flow are waited for at most [`FIRST_WAIT`]. Choice: a join is
/// known everywhere within a few hundred milliseconds, even if its message is lost once.
const NEW_MEMBER: Duration = Duration::from_secs(1);
/// How long a new member waits for the first numbers of a flow. Choice: enough for a repair on a continental hop.
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// The interval at which packets that are handed over at their sender's pace are checked: receivers do not notice less,
/// and 10 000 packets/s do not wake the node 10 000 times.
const PACE_STEP: Duration = Duration::from_micros(500);
/// A packet is released this long before its deadline, for the client to read it in time.
const MARGIN: Duration = Duration::from_millis(1);

/// The key of a flow: the receiving client, the node or group and port that the packets are for, and the sender.
pub type FlowKey = (ClientId, (NodeAddr, VirtualPort), NodeAddr, VirtualPort);

/// An item that can be held.
pub trait Hold {
    /// Returns its size in bytes, with the overhead of holding it.
    fn bytes(&self) -> usize;
    /// Moves the item into memory of its size. Returns false if there is none.
    fn keep(&mut self, pool: &Pool) -> bool;
}

/// Packets held at a node, and gaps given up for lack of room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldTotals {
    /// Packets.
    pub packets: usize,
    /// Their bytes.
    pub bytes: usize,
    /// Gaps that were given up because the limit was reached.
    pub given_up: u64,
}

/// How a flow's packets are handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The node hands packets over in order, as soon as possible.
    AtOnce,
    /// The node hands packets over in order and at the sender's pace, with this time left to the deadline, or as late
    /// as recent repairs have needed.
    AsSent(Option<Duration>),
}

/// Packets of a flow that were not handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Packets that arrived after their successors had been handed over.
    pub late: u64,
    /// Packets for which the flow waited in vain, including late ones.
    pub missed: u64,
}

/// The result of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Taken; [`Resequencer::pop`] hands out what is ready.
    Taken,
    /// Its successors have been delivered already.
    TooLate,
    /// The limit of flows is reached, or nobody has fetched the packets that are ready.
    Full,
}

/// All flows whose packets are put in order; `T` is the type of a held item.
#[derive(Debug)]
pub struct Resequencer<T> {
    flows: Map<FlowKey, Flow<T>>,
    /// When clients joined groups, for [`NEW_MEMBER`].
    joined: Map<(ClientId, (NodeAddr, VirtualPort)), Time>,
    /// When to look at which flow.
    agenda: BTreeSet<(Time, FlowKey)>,
    /// When a packet was last handed over at its sender's pace.
    paced_at: Time,
    totals: HeldTotals,
    node_bytes_max: usize,
}

#[derive(Debug)]
struct Flow<T> {
    /// The difference that is added to the sender's numbers, so that they continue to rise after the sender restarts.
    shift: u32,
    /// The next number to deliver, shifted and widened.
    next: u64,
    held: BTreeMap<u64, Held<T>>,
    order: Order,
    /// The member is new: it waits for the first numbers until then. `None` after the first packet.
    first_until: Option<Time>,
    lead: Lead,
    losses: Losses,
    /// Its place in the agenda.
    wake: Time,
    /// Their bytes.
    bytes: usize,
    /// Gaps that were given up for lack of room.
    given_up: u64,
    /// A time not later than the earliest release of a held packet.
    earliest: Time,
    last: Time,
}

#[derive(Debug)]
struct Held<T> {
    /// The latest time at which the packet is handed over.
    at: Time,
    /// The packet keeps its sender's pace until then.
    is_paced: bool,
    item: T,
}

impl<T> Default for Resequencer<T> {
    fn default() -> Self {
        Resequencer {
            flows: Map::default(),
            joined: Map::default(),
            agenda: BTreeSet::new(),
            paced_at: Time::ZERO,
            totals: HeldTotals::default(),
            node_bytes_max: NODE_BYTES_MAX,
        }
    }
}

impl<T: Hold> Resequencer<T> {
    /// Takes a packet that arrived `now` with `remaining` time to its deadline. Returns it if it cannot be delivered.
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
            // The widened numbers start high enough that a late first packet can be below them.
            let next = (1 << 32) + u64::from(seq - after_start(seq));
            let is_new = self.is_new_member(now, (key.0, key.1));
            let flow = Flow {
                shift: 0,
                next,
                held: BTreeMap::new(),
                order,
                first_until: is_new.then(|| now + FIRST_WAIT),
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
        // A packet that is next and due is fetched at once. Any other packet waits, if it has memory of its own.
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
        // The caller now fetches the packet that is next.
        if wide != flow.next {
            let wake = flow.wake.min(at).min(flow.first_until.unwrap_or(Time::FAR));
            schedule(&mut self.agenda, key, flow, wake);
        }
        Ok(())
    }

    /// Returns the next packet of `key` that is ready: the next in order, or one whose deadline is near.
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

    /// If the node holds as much as it may, gives up the first gap of the flow that holds most, and returns that flow.
    /// The caller then fetches its ready packets by [`Resequencer::pop`].
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

    /// Returns the packets of one source for members of a group here that were not handed over.
    pub fn of_group(&self, source: NodeAddr, group: NodeAddr) -> Losses {
        let flows = self.flows.iter();
        let flows = flows.filter(|((_, to, from, _), _)| (to.0, *from) == (group, source));
        flows.fold(Losses::default(), |sum, (_, flow)| Losses {
            late: sum.late + flow.losses.late,
            missed: sum.missed + flow.losses.missed,
        })
    }

    /// Returns the totals of held packets.
    pub fn totals(&self) -> HeldTotals {
        self.totals
    }

    /// Returns the flows that hold packets or have given up gaps, those that hold most first, with their totals.
    pub fn holders(&self) -> Vec<(FlowKey, HeldTotals)> {
        let flows = self.flows.iter().map(|(key, flow)| (*key, flow.totals()));
        let mut holders: Vec<_> = flows
            .filter(|(_, held)| held.packets > 0 || held.given_up > 0)
            .collect();
        holders.sort_unstable_by_key(|(key, held)| (core::cmp::Reverse(held.bytes), *key));
        holders
    }

    /// Returns a packet of any flow whose time has come.
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

    /// A client has joined a group at a port.
    pub fn join(&mut self, now: Time, client: ClientId, to: (NodeAddr, VirtualPort)) {
        self.joined.insert((client, to), now);
    }

    fn is_new_member(&self, now: Time, member: (ClientId, (NodeAddr, VirtualPort))) -> bool {
        let joined = self.joined.get(&member);
        joined.is_some_and(|joined| now.since(*joined) < NEW_MEMBER)
    }

    /// Slow housekeeping, about once a second: forgets when clients joined.
    pub fn expire(&mut self, now: Time) {
        self.joined
            .retain(|_, joined| now.since(*joined) < NEW_MEMBER);
    }

    /// Forgets the flows of a client that has gone.
    pub fn close(&mut self, client: ClientId) {
        self.joined.retain(|(member, _), _| *member != client);
        self.forget(|key, _| key.0 == client);
    }

    /// Forgets what arrived at a client for a group that it has left: when the client joins again, packets do not wait
    /// for those that were sent meanwhile.
    pub fn leave(&mut self, client: ClientId, group: NodeAddr, port: VirtualPort) {
        self.joined.remove(&(client, (group, port)));
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
    /// Returns the place of a packet in the flow. Packets of a restarted sender are placed behind all held packets from
    /// before the restart.
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
            // At a given time, no packet waits any longer, as the receiver wants it.
            let is_timed = is_paced && matches!(self.order, Order::AsSent(Some(_))) && !is_early;
            let are_given_up = self.first_until.is_some_and(|until| until <= now);
            if !is_timed && !are_given_up && !self.is_due(now) {
                if !is_full {
                    return None;
                }
                self.given_up += 1;
                totals.given_up += 1;
            }
            // What was sent before the member had joined is no loss.
            if self.first_until.is_none() {
                self.losses.missed += first - self.next;
            }
            self.lead.on_gap(now);
        }
        self.first_until = None;
        // Everything before a packet whose time has come is handed over first, so order is kept.
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

    /// Returns true if the time of a held packet has come. The held packets are searched only when that is possible:
    /// handing out packets in order costs the same however many wait behind them.
    fn is_due(&mut self, now: Time) -> bool {
        if self.earliest <= now {
            let releases = self.held.values().map(|held| held.at);
            self.earliest = releases.min().unwrap_or(Time::FAR);
        }
        self.earliest <= now
    }

    /// Returns the time left, less the margin, with which packets are handed over at present.
    fn lead_of(&self, now: Time) -> Duration {
        match self.order {
            Order::AtOnce => Duration::from_secs(u64::from(u32::MAX)),
            Order::AsSent(Some(left)) => left - MARGIN,
            // A packet that would wait for less than the interval of checks does not wait: the header's time has a
            // precision of 100 µs.
            Order::AsSent(None) => self.lead.at(now) + PACE_STEP,
        }
    }

    /// Returns when there may be a packet to hand over, after a check now.
    fn wake_at(&self, now: Time) -> Time {
        let Some((&first, held)) = self.held.first_key_value() else {
            return Time::FAR;
        };
        let is_timed = matches!(self.order, Order::AsSent(Some(_)));
        let mut paced = (held.is_paced && (first == self.next || is_timed))
            .then(|| held.at - self.lead_of(now));
        if self.order == Order::AsSent(None) && self.lead.hurries() {
            // As the packet waits, the time left with which it leaves grows.
            paced = paced.map(|at| now + at.since(now).div(2));
        }
        let until = self.first_until.unwrap_or(Time::FAR);
        let at = paced.unwrap_or(Time::FAR).min(self.earliest).min(until);
        at.max(now + Duration::from_micros(1))
    }
}

/// Returns how far a number is above the beginning of its flow, if it is one of the first few.
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
