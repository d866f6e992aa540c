//! Reliable flooding: every record reaches every node that can be reached. [Amir06 §III-A]
//!
//! ```text
//!   accepted from A --> queue of B, queue of C        (never back to A)
//!                         |  fill: acknowledgements first, then records, into one datagram
//!                         v
//!                     unacknowledged --acknowledged, or B sends it (or a newer one) itself--> gone
//!                         '--- no answer in time: again, each time later
//! ```
//!
//! A queue holds names of records, not records: what is sent is the newest edition in the database at that moment. So a
//! newer record replaces an older one automatically, and a queue is never longer than the database. A neighbour that
//! comes up gets the whole database, roots and certificates first, so that the rest can be verified; it confirms what
//! it already has.
//!
//! This module sends nothing: [`Flood::fill`] writes into the control datagram that the node is about to send on a
//! link.

use crate::estimate::Rtt;
use crate::link::LinkIndex;
use crate::link_state::{Database, Name, Verdict};
use base::{Duration, Time};
use std::collections::{BTreeMap, BTreeSet};
use wire::control::Builder;
use wire::record::{Key, RecordKind, RecordSeq};

/// Maximum number of unacknowledged bytes of records per link: eleven full datagrams per round trip, so a database of
/// 1024 nodes (1024 · (170 + 300) bytes) passes a link of 50 ms in 2 s.
pub const WINDOW_BYTES: usize = 16 * 1_024;
/// Maximum number of acknowledgements that wait per link: two per record of the largest database. If there are more,
/// the neighbour sends its records again.
pub const MAX_ACKS: usize = 4_096;
/// The wait for an acknowledgement before the first round trip has been measured.
const INITIAL_WAIT: Duration = Duration::from_millis(250);
/// The shortest wait: acknowledgements leave with the flush in which the record arrived, but a busy host flushes late.
const SHORTEST_WAIT: Duration = Duration::from_millis(40);
/// The longest wait between two attempts.
const LONGEST_WAIT: Duration = Duration::from_secs(3);

/// The shortest time after which a neighbour gets everything again because it has made another session over a link in
/// doubt. A neighbour that does so repeatedly does not cost a window of records each time.
const TOLD_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// A record that was sent to a neighbour.
#[derive(Clone, Copy, Debug)]
struct Outgoing {
    /// The edition that was sent last.
    seq: RecordSeq,
    /// When it was sent last.
    at: Time,
    attempts: u32,
    bytes: usize,
}

#[derive(Clone, Debug, Default)]
struct Neighbor {
    /// Editions that were not sent yet: at most all of the database.
    waiting: BTreeMap<Name, RecordSeq>,
    /// Records that were sent and are not confirmed: no more than the window holds, so that the cost of an
    /// acknowledgement does not depend on how much is waiting.
    sent: BTreeMap<Name, Outgoing>,
    acks: BTreeSet<Key>,
    in_flight: usize,
    /// No record needs to be sent before this time.
    due: Time,
    rtt: Rtt,
}

/// Totals of flooding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Records sent, retransmissions included.
    pub records: u64,
    /// Records that were sent again because no acknowledgement arrived.
    pub retransmissions: u64,
    /// Acknowledgements sent.
    pub acks: u64,
}

/// The records that each neighbour has yet to receive.
#[derive(Clone, Debug, Default)]
pub struct Flood {
    links: BTreeMap<LinkIndex, Neighbor>,
    /// When everything was sent again over a link that was not known to have ended.
    told_again: BTreeMap<LinkIndex, Time>,
    /// Links that have had something to send since the last call.
    ready: BTreeSet<LinkIndex>,
    stats: Stats,
}

impl Flood {
    /// Returns a flood without neighbours.
    pub fn new() -> Flood {
        Flood::default()
    }

    /// A link came up: its neighbour gets everything.
    pub fn on_link_up(&mut self, link: LinkIndex, database: &Database) {
        let mut neighbor = Neighbor::default();
        for key in database.keys() {
            neighbor.put(key);
        }
        self.links.insert(link, neighbor);
        self.ready.insert(link);
    }

    /// The neighbour has made another session over a link that it may have ended in between without this side noticing.
    /// The neighbour may have forgotten the records that it had confirmed. Does nothing if nothing was sent over the
    /// link yet.
    pub fn on_session_again(&mut self, now: Time, link: LinkIndex, database: &Database) {
        let again = self.told_again.get(&link);
        let is_due = again.is_none_or(|at| now.since(*at) >= TOLD_AGAIN_AFTER);
        if is_due && self.links.contains_key(&link) {
            self.told_again.insert(link, now);
            self.on_link_up(link, database);
        }
    }

    /// A link went down: what was to be sent over it is forgotten.
    pub fn on_link_down(&mut self, link: LinkIndex) {
        self.links.remove(&link);
        self.ready.remove(&link);
    }

    /// A record arrived over `link`, with this verdict of the database.
    pub fn on_verdict(&mut self, link: LinkIndex, verdict: &Verdict) {
        match *verdict {
            Verdict::Accepted(key) => {
                self.on_record_accepted(key, Some(link));
                self.confirm(link, key);
            }
            Verdict::Known(key) | Verdict::Own(key) => self.confirm(link, key),
            Verdict::Dropped { confirm, .. } => {
                if let Some(key) = confirm {
                    self.confirm(link, key);
                }
            }
            // This node's edition is newer than the received one. The neighbour will learn that when it gets this
            // node's.
            Verdict::Stale(ours) => self.put(link, ours),
            Verdict::Pending => {}
        }
    }

    /// The database has a new record, from the neighbour at `from` or from this node itself: all other neighbours are
    /// to get it.
    pub fn on_record_accepted(&mut self, key: Key, from: Option<LinkIndex>) {
        for (&link, neighbor) in &mut self.links {
            if Some(link) != from {
                neighbor.put(key);
                self.ready.insert(link);
            }
        }
    }

    /// The neighbour has confirmed a record.
    pub fn on_ack(&mut self, now: Time, link: LinkIndex, key: Key) {
        let Some(neighbor) = self.links.get_mut(&link) else {
            return;
        };
        if let Some(outgoing) = neighbor.has(key)
            && outgoing.attempts == 1
        {
            // Only a record that was sent once shows how long an answer takes (Karn's rule).
            neighbor.rtt.on_sample(now, now.since(outgoing.at));
        }
    }

    /// Appends to a control datagram what the neighbour is to receive, as far as there is room: acknowledgements, then
    /// records that were not sent yet or not confirmed in time.
    pub fn fill(
        &mut self,
        now: Time,
        link: LinkIndex,
        database: &Database,
        datagram: &mut Builder<'_>,
    ) {
        let Some(neighbor) = self.links.get_mut(&link) else {
            return;
        };
        while let Some(&key) = neighbor.acks.first() {
            if datagram.record_ack(key).is_err() {
                return;
            }
            neighbor.acks.pop_first();
            self.stats.acks += 1;
        }
        if now >= neighbor.due && !neighbor.is_done() {
            neighbor.fill_records(now, database, datagram, &mut self.stats);
        }
    }

    /// Returns a link that has something to send at once, each link once.
    pub fn poll_ready(&mut self) -> Option<LinkIndex> {
        self.ready.pop_first()
    }

    /// Returns when a link has something to send next, and which. This includes links that [`Flood::poll_ready`] has
    /// returned and that are not yet filled.
    pub fn next_timeout(&self) -> Option<(Time, LinkIndex)> {
        let due = |(link, neighbor): (&LinkIndex, &Neighbor)| Some((neighbor.next()?, *link));
        self.links.iter().filter_map(due).min()
    }

    /// Returns the links that have something to send at `now`.
    pub fn due(&self, now: Time) -> impl Iterator<Item = LinkIndex> + '_ {
        let is_due = move |n: &Neighbor| n.next().is_some_and(|at| at <= now);
        let due = self.links.iter().filter(move |(_, n)| is_due(n));
        due.map(|(link, _)| *link)
    }

    /// Returns true if every neighbour that is up has confirmed everything.
    pub fn is_settled(&self) -> bool {
        let settled = |n: &Neighbor| n.is_done() && n.acks.is_empty();
        self.links.values().all(settled)
    }

    /// Returns the totals of flooding.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    fn put(&mut self, link: LinkIndex, key: Key) {
        if let Some(neighbor) = self.links.get_mut(&link) {
            neighbor.put(key);
            self.ready.insert(link);
        }
    }

    /// Confirms a record that a neighbour has sent; the neighbour evidently has it.
    fn confirm(&mut self, link: LinkIndex, key: Key) {
        if let Some(neighbor) = self.links.get_mut(&link) {
            neighbor.has(key);
            if neighbor.acks.len() < MAX_ACKS {
                neighbor.acks.insert(key);
                self.ready.insert(link);
            }
        }
    }
}

/// Returns true if a node with the edition `has` of a record does not need `other`. A certificate of a newer root may
/// have a lower serial than one of an older root, so for certificates one edition says nothing about another.
fn covers(name: Name, has: RecordSeq, other: RecordSeq) -> bool {
    match name.kind {
        RecordKind::CERTIFICATE => has == other,
        _ => has >= other,
    }
}

impl Neighbor {
    /// Queues an edition, in place of older ones.
    fn put(&mut self, key: Key) {
        let name = Name::of(key);
        let has_it = |seq: RecordSeq| covers(name, seq, key.seq);
        let waits = self.waiting.get(&name).copied().is_some_and(has_it);
        if waits || self.sent.get(&name).is_some_and(|o| has_it(o.seq)) {
            return;
        }
        self.forget(name);
        self.waiting.insert(name, key.seq);
        self.due = Time::ZERO;
    }

    /// The neighbour has this edition: nothing older needs to be sent. Returns what was sent of the record.
    fn has(&mut self, key: Key) -> Option<Outgoing> {
        let name = Name::of(key);
        let has_it = |seq: RecordSeq| covers(name, key.seq, seq);
        if self.waiting.get(&name).copied().is_some_and(has_it) {
            self.waiting.remove(&name);
        }
        if !has_it(self.sent.get(&name)?.seq) {
            return None;
        }
        // There is room in the window.
        self.due = Time::ZERO;
        self.forget(name)
    }

    /// Forgets what was sent under a name: it is no longer under way.
    fn forget(&mut self, name: Name) -> Option<Outgoing> {
        let sent = self.sent.remove(&name)?;
        self.in_flight -= sent.bytes;
        Some(sent)
    }

    /// Returns true if everything is confirmed.
    fn is_done(&self) -> bool {
        self.waiting.is_empty() && self.sent.is_empty()
    }

    fn next(&self) -> Option<Time> {
        match (self.acks.is_empty(), self.is_done()) {
            (false, _) => Some(Time::ZERO),
            (true, false) => Some(self.due),
            (true, true) => None,
        }
    }

    fn wait(&self, attempts: u32) -> Duration {
        let wait = self.rtt.patience(INITIAL_WAIT).max(SHORTEST_WAIT);
        (wait * (1 << attempts.saturating_sub(1).min(10))).min(LONGEST_WAIT)
    }

    /// Sends the records that were not confirmed in time, then the waiting ones, as far as window and datagram have
    /// room, and determines when to look again.
    fn fill_records(
        &mut self,
        now: Time,
        database: &Database,
        datagram: &mut Builder<'_>,
        stats: &mut Stats,
    ) {
        let again_at = |sent: &Outgoing| sent.at + self.wait(sent.attempts);
        let late: Vec<Name> = self
            .sent
            .iter()
            .rev()
            .filter(|(_, sent)| again_at(sent) <= now)
            .map(|(name, _)| *name)
            .collect();
        let mut is_full = false;
        for name in late {
            is_full = is_full || !self.send(now, name, database, datagram, stats);
        }
        // Kinds from the highest: groups, roots, revocations, certificates, link state.
        while !is_full && self.in_flight < WINDOW_BYTES {
            let Some((&name, _)) = self.waiting.last_key_value() else {
                break;
            };
            match database.record(now, name) {
                Some((_, record)) if self.in_flight + record.len() > WINDOW_BYTES => {
                    // An acknowledgement opens the window again, or a retransmission becomes due.
                    break;
                }
                _ => is_full = !self.send(now, name, database, datagram, stats),
            }
        }
        let again_at = |sent: &Outgoing| sent.at + self.wait(sent.attempts);
        self.due = match is_full {
            true => now,
            false => self.sent.values().map(again_at).min().unwrap_or(Time::FAR),
        };
    }

    /// Appends the newest edition of a record. Returns false if the datagram has no room for it. A record that no
    /// longer exists is forgotten.
    fn send(
        &mut self,
        now: Time,
        name: Name,
        database: &Database,
        datagram: &mut Builder<'_>,
        stats: &mut Stats,
    ) -> bool {
        let Some((seq, record)) = database.record(now, name) else {
            self.waiting.remove(&name);
            self.forget(name);
            return true;
        };
        if datagram.record(&record).is_err() {
            return false;
        }
        self.waiting.remove(&name);
        let attempts = self.forget(name).map_or(0, |before| before.attempts);
        stats.records += 1;
        stats.retransmissions += u64::from(attempts > 0);
        self.in_flight += record.len();
        let sent = Outgoing {
            seq,
            at: now,
            attempts: attempts + 1,
            bytes: record.len(),
        };
        self.sent.insert(name, sent);
        true
    }
}

#[cfg(test)]
mod tests;
