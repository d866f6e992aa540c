//! Reliable flooding over the links: each record goes to each neighbour until the neighbour has
//! confirmed it. [Amir06 §III-A]
//!
//! ```text
//!   link up ----------> the whole database is queued
//!   record accepted --> queued for all links but the one that it came over
//!   fill -------------> confirmations and due records of a link, aggregated in one datagram
//!   confirmed --------> done; otherwise sent again after a round trip and a half, then rarer
//! ```
//! A newer record takes the place of an older one in the queue. Certificates go first: a link-state
//! record is worth nothing before the certificate that proves it.

use crate::link::LinkIndex;
use crate::link_state::Database;
use base::{Duration, Map, NodeAddr, Time};
use std::collections::BTreeMap;
use wire::control::Builder;
use wire::record::{Key, RecordKind, RecordSeq};

/// The first repetition comes after a round trip and a half, and at least this.
const REPEAT_MIN: Duration = Duration::from_millis(30);
/// The longest time between repetitions.
const REPEAT_MAX: Duration = Duration::from_secs(5);
/// When a flush has sent what one flush may, the rest follows after this: at eight datagrams of
/// 1400 bytes each that is 45 Mbit/s at most.
const PACE: Duration = Duration::from_millis(2);
/// Confirmations that wait on one link. A neighbour that floods more repeats itself.
const MAX_ACKS: usize = 4_096;

/// What is under way on all links.
#[derive(Debug, Default)]
pub struct Flood {
    links: Map<LinkIndex, Sending>,
}

#[derive(Debug, Default)]
struct Sending {
    /// By rank (certificates first) and origin.
    records: BTreeMap<(u8, RecordKind, NodeAddr), Pending>,
    acks: Vec<Key>,
    next: Option<Time>,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    seq: RecordSeq,
    due: Time,
    tries: u32,
}

impl Flood {
    /// Nothing is under way.
    pub fn new() -> Flood {
        Flood::default()
    }

    /// A link has come up: it gets everything. [Amir06 §III-A]: "on the initial state transfer the
    /// entire routing table is transferred".
    pub fn on_link_up(&mut self, now: Time, link: LinkIndex, database: &Database) {
        let sending = self.links.entry(link).or_default();
        sending.records.clear();
        for key in database.keys() {
            sending.queue(now, key);
        }
    }

    /// A link has gone down: nothing is under way on it.
    pub fn on_link_down(&mut self, link: LinkIndex) {
        self.links.remove(&link);
    }

    /// A record is news: it goes to all links that are up but `from`.
    pub fn on_record(&mut self, now: Time, key: Key, from: Option<LinkIndex>) {
        for (link, sending) in &mut self.links {
            if Some(*link) != from {
                sending.queue(now, key);
            }
        }
    }

    /// One link is to get a record, because it has shown that it has an older one.
    pub fn send_to(&mut self, now: Time, link: LinkIndex, key: Key) {
        if let Some(sending) = self.links.get_mut(&link) {
            sending.queue(now, key);
        }
    }

    /// The neighbour at `link` shall have a confirmation. What it has sent it need not get.
    pub fn confirm(&mut self, now: Time, link: LinkIndex, key: Key) {
        let sending = self.links.entry(link).or_default();
        if sending.acks.len() < MAX_ACKS {
            sending.acks.push(key);
            sending.wake(now);
        }
        sending.done(key);
    }

    /// The neighbour at `link` has confirmed a record.
    pub fn on_ack(&mut self, link: LinkIndex, key: Key) {
        if let Some(sending) = self.links.get_mut(&link) {
            sending.done(key);
        }
    }

    /// Writes what is due on `link` into a control datagram, as far as it fits.
    pub fn fill(
        &mut self,
        now: Time,
        link: LinkIndex,
        rtt: Duration,
        database: &Database,
        builder: &mut Builder<'_>,
    ) {
        let Some(sending) = self.links.get_mut(&link) else {
            return;
        };
        if sending.next.is_none_or(|next| next > now) {
            return;
        }
        while let Some(key) = sending.acks.last() {
            if builder.record_ack(*key).is_err() {
                sending.next = Some(now + PACE);
                return;
            }
            sending.acks.pop();
        }
        let patience = (rtt + rtt.div(2)).max(REPEAT_MIN);
        let mut full = false;
        sending.records.retain(|&(_, kind, origin), pending| {
            if full || pending.due > now {
                return true;
            }
            // What has been forgotten meanwhile need not be sent.
            let Some((_, record)) = database.record(now, kind, origin) else {
                return false;
            };
            if builder.record(&record).is_err() {
                full = true;
                return true;
            }
            pending.due = now + (patience * (1 << pending.tries.min(16))).min(REPEAT_MAX);
            pending.tries += 1;
            true
        });
        sending.next = if full {
            Some(now + PACE)
        } else {
            sending.records.values().map(|pending| pending.due).min()
        };
    }

    /// When `link` has something to send.
    pub fn next_timeout(&self, link: LinkIndex) -> Option<Time> {
        self.links.get(&link)?.next
    }

    /// Records that `link` has not confirmed.
    pub fn unconfirmed(&self, link: LinkIndex) -> usize {
        self.links
            .get(&link)
            .map_or(0, |sending| sending.records.len())
    }

    /// Links that have something to send, or wait for confirmation.
    pub fn links(&self) -> impl Iterator<Item = LinkIndex> {
        self.links.keys().copied()
    }
}

impl Sending {
    fn queue(&mut self, now: Time, key: Key) {
        let rank = u8::from(key.kind == RecordKind::LINK_STATE);
        let pending = Pending {
            seq: key.seq,
            due: now,
            tries: 0,
        };
        self.records.insert((rank, key.kind, key.origin), pending);
        self.wake(now);
    }

    fn done(&mut self, key: Key) {
        let place = (
            u8::from(key.kind == RecordKind::LINK_STATE),
            key.kind,
            key.origin,
        );
        // A confirmation of an older edition says nothing of the one that is queued.
        if self
            .records
            .get(&place)
            .is_some_and(|pending| pending.seq <= key.seq)
        {
            self.records.remove(&place);
        }
    }

    fn wake(&mut self, now: Time) {
        self.next = Some(self.next.map_or(now, |next| next.min(now)));
    }
}

#[cfg(test)]
mod tests;
