//! Packets that wait for the key of their source and group.
//!
//! ```text
//!   no key ──▶ a queue for each key ──▶ the key arrives ──▶ ready ──▶ 64 per millisecond, in order
//!                   └ 4 s: dropped                            ▲
//!   key known, but packets before it are ready ───────────────┘
//! ```

use super::received::Of;
use crate::ends::kept;
use base::pool::KEPT_OVERHEAD;
use base::{Burst, Duration, Map, NodeAddr, Pool, Time};
use core::ops::Bound;
use secure::Route;
use std::collections::{BTreeMap, VecDeque};
use wire::data::Header;
use wire::link::{Clear, SessionIndex};
use wire::{CLEAR_BYTES, TAG_BYTES};

/// Maximum number of bytes of packets of one source that wait for a key, and of all sources. Choice: a key that is lost
/// arrives 80 ms and a round trip later. 2 MiB are 10 000 packets of video per second for 140 ms. Over two paths each
/// packet waits twice, so they are 5000 packets per second.
const BYTES_OF_SOURCE_MAX: usize = 2 << 20;
const BYTES_MAX: usize = 8 << 20;
/// Number of packets that are delivered at once after their key has arrived, and the time until the next are. Choice: a
/// third of what a client's socket holds by default, so that it can read between two deliveries.
const DELIVERED_AT_ONCE: usize = 64;
const DELIVER_AGAIN: Duration = Duration::from_millis(1);
/// The interval at which the node looks for packets that have waited long enough.
const EXPIRE_AGAIN: Duration = Duration::from_millis(100);
/// How long a packet waits: as long as for the end of a handshake, which may be needed first.
const WAITS_FOR: Duration = secure::limits::HALF_OPEN_LIFETIME;

/// A key of a source for a group.
type KeyOf = (Of, SessionIndex);

/// The packets that wait for keys.
#[derive(Debug, Default)]
pub(crate) struct WaitingPackets {
    /// Packets whose key is not known, by that key.
    queues: BTreeMap<KeyOf, VecDeque<Waiting>>,
    /// When to look for packets that have waited long enough.
    expire_at: Time,
    /// Packets whose key has arrived, and those that have come behind them: they are delivered in order.
    ready: BTreeMap<KeyOf, VecDeque<Waiting>>,
    deliver_at: Option<Time>,
    /// The number of packets that have come behind others since the last delivery, and the key that was served last.
    came_behind: usize,
    served: Option<KeyOf>,
    /// The bytes of all these packets by source, and of all sources.
    bytes_of: Map<NodeAddr, usize>,
    bytes: usize,
}

/// A packet whose key is not known yet.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) at: Time,
    /// A whole opened datagram.
    pub(crate) packet: Burst,
    pub(crate) route: Route,
    of: Of,
}

impl WaitingPackets {
    /// Keeps a packet whose key is not known yet. Returns false if there is no room.
    pub(crate) fn wait(&mut self, now: Time, (packet, route): (&[u8], Route), pool: &Pool) -> bool {
        self.expire(now);
        let header = Header::trusted(packet);
        let of = (header.source(), header.destination());
        let Ok(clear) = Clear::parse(header.payload()) else {
            return false;
        };
        let number = clear.session;
        let bytes = CLEAR_BYTES + packet.len() + TAG_BYTES + KEPT_OVERHEAD;
        let held = self.bytes_of.get(&of.0).copied().unwrap_or_default();
        if held + bytes > BYTES_OF_SOURCE_MAX || self.bytes + bytes > BYTES_MAX {
            return false;
        }
        let Some(packet) = kept(packet, pool) else {
            return false;
        };
        self.bytes_of.insert(of.0, held + bytes);
        self.bytes += bytes;
        let queue = match self.ready.get_mut(&(of, number)) {
            Some(before) => {
                self.came_behind += 1;
                before
            }
            None => self.queues.entry((of, number)).or_default(),
        };
        queue.push_back(Waiting {
            at: now,
            packet,
            route,
            of,
        });
        true
    }

    /// Returns true if packets under the same key as this one are still to be delivered before it.
    pub(crate) fn is_behind(&self, header: &Header<&[u8]>) -> bool {
        let of = (header.source(), header.destination());
        !self.ready.is_empty()
            && Clear::parse(header.payload())
                .is_ok_and(|clear| self.ready.contains_key(&(of, clear.session)))
    }

    /// A key has arrived: the packets that have waited for it are to be delivered.
    pub(crate) fn release(&mut self, now: Time, key: KeyOf) {
        if let Some(its) = self.queues.remove(&key) {
            self.ready.entry(key).or_default().extend(its);
            self.deliver_at.get_or_insert(now);
        }
    }

    /// Takes packets that are to be delivered now. The number of those that are left falls each time, however many come
    /// behind them. Keys take turns.
    pub(crate) fn take_ready(&mut self, now: Time) -> Vec<Waiting> {
        let mut taken = Vec::new();
        if self.deliver_at.take_if(|at| *at <= now).is_none() {
            return taken;
        }
        let most = DELIVERED_AT_ONCE + core::mem::take(&mut self.came_behind);
        while taken.len() < most
            && let Some(key) = self.next_ready()
            && let Some(queue) = self.ready.get_mut(&key)
        {
            let count = queue.len().min(most - taken.len());
            taken.extend(queue.drain(..count));
            if queue.is_empty() {
                self.ready.remove(&key);
            }
            self.served = Some(key);
        }
        taken.iter().for_each(|one| self.count_out(one));
        self.deliver_at = (!self.ready.is_empty()).then(|| now + DELIVER_AGAIN);
        taken
    }

    /// Returns the key whose packets are delivered next: the one behind the last.
    fn next_ready(&self) -> Option<KeyOf> {
        let behind = self.served.and_then(|served| {
            let behind = (Bound::Excluded(served), Bound::Unbounded);
            self.ready.range(behind).next()
        });
        let next = behind.or_else(|| self.ready.first_key_value());
        next.map(|(key, _)| *key)
    }

    /// Updates the counts after a packet has ended its wait.
    fn count_out(&mut self, one: &Waiting) {
        let bytes = one.packet.len() + KEPT_OVERHEAD;
        self.bytes -= bytes;
        let source = one.of.0;
        let held = self.bytes_of.get(&source).copied().unwrap_or_default();
        debug_assert!(held >= bytes, "counted when it came");
        match held.saturating_sub(bytes) {
            0 => drop(self.bytes_of.remove(&source)),
            left => drop(self.bytes_of.insert(source, left)),
        }
    }

    /// Drops packets that have waited long enough.
    pub(crate) fn expire(&mut self, now: Time) {
        if now < self.expire_at {
            return;
        }
        self.expire_at = now + EXPIRE_AGAIN;
        let mut expired = Vec::new();
        self.queues.retain(|_, queue| {
            let old = queue.partition_point(|one| now.since(one.at) >= WAITS_FOR);
            expired.extend(queue.drain(..old));
            !queue.is_empty()
        });
        expired.iter().for_each(|one| self.count_out(one));
    }

    /// When [`WaitingPackets::take_ready`] has something.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.deliver_at
    }

    /// This node no longer receives a group.
    pub(crate) fn leave(&mut self, group: NodeAddr) {
        let mut left = Vec::new();
        for queues in [&mut self.queues, &mut self.ready] {
            queues.retain(|(of, _), queue| {
                let stays = of.1 != group;
                if !stays {
                    left.extend(queue.drain(..));
                }
                stays
            });
        }
        left.iter().for_each(|one| self.count_out(one));
    }
}
