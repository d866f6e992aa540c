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
//! What is held is bounded, per flow and for the whole node. Where it would be more, the first gap is given
//! up: one packet is lost, and not all that comes until the deadline. Of the node's bound the flow pays
//! that holds most, so that the trouble of one costs no other. A held packet does not stay in the buffer
//! in which it came, for buffers are what the node receives with: it moves into memory of its size
//! ([`Hold::keep`]), and where there is none it does not wait.

use base::{ClientId, Duration, Map, NodeAddr, Pool, Time, VirtualPort};
use std::collections::BTreeMap;

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
    /// Not later than the earliest release.
    next: Time,
    totals: HeldTotals,
    node_bytes_max: usize,
}

#[derive(Debug)]
struct Flow<T> {
    /// What is added to the sender's numbers, so that they go on rising when it begins anew.
    shift: u32,
    /// The next number to deliver, shifted and widened.
    next: u64,
    held: BTreeMap<u64, (Time, T)>,
    /// Their bytes.
    bytes: usize,
    /// Gaps that were given up for want of room.
    given_up: u64,
    /// Not later than the earliest release among those held.
    earliest: Time,
    last: Time,
}

impl<T> Default for Resequencer<T> {
    fn default() -> Self {
        Resequencer {
            flows: Map::default(),
            next: Time::FAR,
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
        seq: u32,
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
            let next = (1 << 32) + u64::from(seq);
            let flow = Flow {
                shift: 0,
                next,
                held: BTreeMap::new(),
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
            return Err((Verdict::TooLate, item));
        }
        if flow.held.len() > MAX_HELD {
            return Err((Verdict::Full, item));
        }
        let mut release = now + remaining.map_or(HOLD_WITHOUT_DEADLINE, |r| r - MARGIN);
        // What is next is fetched at once. Anything else waits, if it has memory of its own.
        if wide != flow.next && !item.keep(pool) {
            release = now;
            flow.given_up += 1;
            self.totals.given_up += 1;
        }
        let bytes = item.bytes();
        let replaced = flow.held.insert(wide, (release, item));
        let freed = replaced.as_ref().map_or(0, |(_, item)| item.bytes());
        flow.bytes = flow.bytes + bytes - freed;
        self.totals.bytes = self.totals.bytes + bytes - freed;
        self.totals.packets += usize::from(replaced.is_none());
        flow.earliest = flow.earliest.min(release);
        self.next = if wide == flow.next {
            now
        } else {
            self.next.min(release)
        };
        Ok(())
    }

    /// The next packet of `key` that is ready: the next in order, or one whose deadline is near.
    pub fn pop(&mut self, now: Time, key: FlowKey) -> Option<T> {
        self.flows.get_mut(&key)?.pop(now, &mut self.totals)
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
            flow.next = first;
            flow.given_up += 1;
            self.totals.given_up += 1;
        }
        Some(*key)
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
        if self.next > now {
            return None;
        }
        for (key, flow) in &mut self.flows {
            if let Some(item) = flow.pop(now, &mut self.totals) {
                return Some((*key, item));
            }
        }
        self.next = self
            .flows
            .values()
            .map(|flow| flow.earliest)
            .min()
            .unwrap_or(Time::FAR);
        None
    }

    /// When [`Resequencer::pop_due`] may have something.
    pub fn next_timeout(&self) -> Option<Time> {
        (self.next != Time::FAR).then_some(self.next)
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
        let totals = &mut self.totals;
        self.flows.retain(|key, flow| {
            let gone = is_gone(key, flow);
            if gone {
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
            self.shift = (behind_all as u32).wrapping_sub(seq);
            return behind_all;
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
        let (&first, _) = self.held.first_key_value()?;
        if first != self.next && !self.is_due(now) {
            if self.held.len() <= MAX_HELD && self.bytes <= FLOW_BYTES_MAX {
                return None;
            }
            self.given_up += 1;
            totals.given_up += 1;
        }
        // Everything before a packet whose time has come goes first, so order is kept.
        self.next = first + 1;
        let (_, item) = self.held.remove(&first)?;
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
            let releases = self.held.values().map(|(at, _)| *at);
            self.earliest = releases.min().unwrap_or(Time::FAR);
        }
        self.earliest <= now
    }
}

#[cfg(test)]
mod tests;
