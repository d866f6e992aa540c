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
//! memory it does not wait. The number of flows is limited too. A flow for which there is no room is not put in order.

use base::{ClientId, Duration, Map, NodeAddr, Pool, Time, VirtualPort};
use flow::{Flow, Held};
use std::collections::BTreeSet;

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
/// A flow that has been silent this long is forgotten if there are many.
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
    /// Gaps that were given up for lack of room, and packets for whose flow there was no room.
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

/// Why a packet was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Its successors have been delivered already.
    TooLate,
    /// The limit of flows is reached: the packet can be delivered out of order only.
    NoFlow,
    /// The flow holds as much as it may, and nobody has fetched what is ready.
    Full,
}

/// All flows whose packets are put in order; `T` is the type of a held item.
#[derive(Debug)]
pub struct Resequencer<T> {
    flows: Map<FlowKey, Flow<T>>,
    /// The number of flows by source.
    flows_of: Map<NodeAddr, usize>,
    /// When clients joined groups, for [`NEW_MEMBER`].
    joined: Map<(ClientId, (NodeAddr, VirtualPort)), Time>,
    /// When to look at which flow.
    agenda: BTreeSet<(Time, FlowKey)>,
    /// When a packet that had waited was last handed over at its sender's pace.
    paced_at: Time,
    totals: HeldTotals,
    node_bytes_max: usize,
}

impl<T> Default for Resequencer<T> {
    fn default() -> Self {
        Resequencer {
            flows: Map::default(),
            flows_of: Map::default(),
            joined: Map::default(),
            agenda: BTreeSet::new(),
            paced_at: Time::ZERO,
            totals: HeldTotals::default(),
            node_bytes_max: NODE_BYTES_MAX,
        }
    }
}

impl<T: Hold> Resequencer<T> {
    /// Takes a packet that arrived `now` with `remaining` time to its deadline. Returns it if it was not taken.
    pub fn push(
        &mut self,
        now: Time,
        key: FlowKey,
        (seq, order): (u32, Order),
        remaining: Option<Duration>,
        mut item: T,
        pool: &Pool,
    ) -> Result<(), (Refused, T)> {
        if !self.flows.contains_key(&key) && !self.begin(now, key, (seq, order)) {
            self.totals.given_up += 1;
            return Err((Refused::NoFlow, item));
        }
        let flow = self.flows.get_mut(&key).expect("it has begun");
        flow.last = now;
        let wide = flow.number(seq);
        if wide < flow.next {
            flow.losses.late += 1;
            return Err((Refused::TooLate, item));
        }
        if flow.totals().packets > MAX_HELD {
            return Err((Refused::Full, item));
        }
        let left = remaining.map_or(HOLD_WITHOUT_DEADLINE, |r| r - MARGIN);
        let mut at = now + left;
        flow.order = order;
        let mut is_paced = order != Order::AtOnce && remaining.is_some();
        if is_paced {
            flow.lead.on_arrival(now, left);
        }
        // A packet that is next and due is fetched at once. Any other packet waits, if it has memory of its own.
        let is_next = wide == flow.next;
        let is_ready = is_next && !(is_paced && flow.is_early(now, at));
        if !is_ready && !item.keep(pool) {
            (at, is_paced) = (now, false);
            flow.count_given_up(&mut self.totals);
        }
        let held = Held { at, is_paced, item };
        flow.hold(wide, held, &mut self.totals);
        // The caller now fetches the packet that is next.
        if !is_next {
            let wake = flow.wake.min(flow.wake_at(now));
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
        }
        popped
    }

    /// If the node holds as much as it may, gives up the first gap of the flow that holds most, and returns that flow.
    /// The caller then fetches its ready packets by [`Resequencer::pop`].
    pub fn relieve(&mut self) -> Option<FlowKey> {
        if self.totals.bytes <= self.node_bytes_max {
            return None;
        }
        let most = self
            .flows
            .iter_mut()
            .max_by_key(|(_, flow)| flow.totals().bytes);
        let (key, flow) = most?;
        flow.give_up_gap(&mut self.totals);
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
                // Packets that leave when they arrive postpone nothing.
                let flow = self.flows.get(&key);
                if flow.is_some_and(|flow| flow.order != Order::AtOnce) {
                    self.paced_at = now;
                }
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

    /// Slow housekeeping, about once a second: forgets when clients joined, and silent flows if there are many. A
    /// silent flow has counts that users look at.
    pub fn expire(&mut self, now: Time) {
        self.joined
            .retain(|_, joined| now.since(*joined) < NEW_MEMBER);
        if self.flows.len() > MAX_FLOWS / 2 {
            self.forget(|_, flow| now.since(flow.last) >= FORGET_AFTER);
        }
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
        let flows_of = &mut self.flows_of;
        self.flows.retain(|key, flow| {
            let gone = is_gone(key, flow);
            if gone {
                schedule(agenda, *key, flow, Time::FAR);
                let held = flow.totals();
                totals.bytes -= held.bytes;
                totals.packets -= held.packets;
                count_out(flows_of, key.2);
            }
            !gone
        });
    }

    /// Begins a flow. Returns false if there are as many as there may be.
    fn begin(&mut self, now: Time, key: FlowKey, (seq, order): (u32, Order)) -> bool {
        if self.flows.len() >= MAX_FLOWS && !self.make_room(key.2) {
            return false;
        }
        let is_new = self.is_new_member(now, (key.0, key.1));
        let flow = Flow::new(now, (seq, order), is_new.then(|| now + FIRST_WAIT));
        self.flows.insert(key, flow);
        *self.flows_of.entry(key.2).or_default() += 1;
        true
    }

    /// Makes room for a flow of this source. Choice: the source with the most flows loses the one that has been silent
    /// for longest, so that a source with thousands of flows takes no room from others. A source that has the most
    /// itself gets none, so that it does not make this node search for each of its packets.
    #[cold]
    fn make_room(&mut self, source: NodeAddr) -> bool {
        let most = self.flows_of.iter().max_by_key(|(_, count)| **count);
        let Some((&busiest, &most)) = most else {
            return false;
        };
        if self.flows_of.get(&source).is_some_and(|own| *own >= most) {
            return false;
        }
        let its = self.flows.iter().filter(|(key, _)| key.2 == busiest);
        let idle = its.filter(|(_, flow)| flow.totals().packets == 0);
        let Some((&silent, _)) = idle.min_by_key(|(key, flow)| (flow.last, **key)) else {
            return false;
        };
        self.flows.remove(&silent);
        count_out(&mut self.flows_of, busiest);
        true
    }
}

/// Counts a flow of a source out.
fn count_out(flows_of: &mut Map<NodeAddr, usize>, source: NodeAddr) {
    match flows_of.get_mut(&source) {
        Some(count) if *count > 1 => *count -= 1,
        _ => drop(flows_of.remove(&source)),
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

mod flow;
mod lead;
#[cfg(test)]
mod tests;
