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
//! A queue holds names of records, not records: what goes out is the newest edition that the
//! database has at that moment, so a newer record takes the place of an older one by itself, and a
//! queue is never longer than the database. A neighbour that comes up gets the whole database,
//! roots and certificates first, so that what follows can be verified; what it has already it confirms.
//!
//! Nothing is sent here: [`Flood::fill`] writes into the control datagram that the node is about to
//! send on a link.

use crate::estimate::Rtt;
use crate::link::LinkIndex;
use crate::link_state::{Database, Name, Verdict};
use base::{Duration, Time};
use std::collections::{BTreeMap, BTreeSet};
use wire::control::Builder;
use wire::record::{Key, RecordKind, RecordSeq};

/// Bytes of records that may be unacknowledged per link: eleven full datagrams per round trip, so
/// a database of 1024 nodes (1024 · (170 + 300) bytes) passes a link of 50 ms in 2 s.
pub const WINDOW_BYTES: usize = 16 * 1_024;
/// Acknowledgements that wait per link: two per record of the largest database. Beyond, the
/// neighbour sends again.
pub const MAX_ACKS: usize = 4_096;
/// The wait for an acknowledgement before the first round trip has been measured.
const INITIAL_WAIT: Duration = Duration::from_millis(250);
/// The shortest wait: acknowledgements leave with the flush in which the record came, but a busy
/// host flushes late.
const SHORTEST_WAIT: Duration = Duration::from_millis(40);
/// The longest wait between two attempts.
const LONGEST_WAIT: Duration = Duration::from_secs(3);

/// Between two times that a neighbour gets all again because it has made another session over a link in doubt: one that
/// does so again and again costs no window of records for each.
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
    /// Editions that were not sent yet: up to all of the database.
    waiting: BTreeMap<Name, RecordSeq>,
    /// What was sent and is not confirmed: no more than the window holds, so that an
    /// acknowledgement costs the same however much still waits.
    sent: BTreeMap<Name, Outgoing>,
    acks: BTreeSet<Key>,
    in_flight: usize,
    /// No record needs to be looked at before.
    due: Time,
    rtt: Rtt,
}

/// How much was flooded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Records sent, retransmissions included.
    pub records: u64,
    /// Of these, sent again because no acknowledgement came.
    pub retransmissions: u64,
    /// Acknowledgements sent.
    pub acks: u64,
}

/// What each neighbour is still to be told.
#[derive(Clone, Debug, Default)]
pub struct Flood {
    links: BTreeMap<LinkIndex, Neighbor>,
    /// When all was said again over a link that was not known to have ended.
    told_again: BTreeMap<LinkIndex, Time>,
    /// Links that have got something to say since they were last asked for.
    ready: BTreeSet<LinkIndex>,
    stats: Stats,
}

impl Flood {
    /// No neighbour is up.
    pub fn new() -> Flood {
        Flood::default()
    }

    /// A link came up: its neighbour is to have everything.
    pub fn on_link_up(&mut self, link: LinkIndex, database: &Database) {
        let mut neighbor = Neighbor::default();
        for key in database.keys() {
            neighbor.put(key);
        }
        self.links.insert(link, neighbor);
        self.ready.insert(link);
    }

    /// The neighbour has made another session over a link that it may have ended in between, which this side has not
    /// noticed: it may have forgotten what it had confirmed. Nothing if nothing was said over the link yet.
    pub fn on_session_again(&mut self, now: Time, link: LinkIndex, database: &Database) {
        let again = self.told_again.get(&link);
        let is_due = again.is_none_or(|at| now.since(*at) >= TOLD_AGAIN_AFTER);
        if is_due && self.links.contains_key(&link) {
            self.told_again.insert(link, now);
            self.on_link_up(link, database);
        }
    }

    /// A link went down: what was to be said over it is forgotten.
    pub fn on_link_down(&mut self, link: LinkIndex) {
        self.links.remove(&link);
        self.ready.remove(&link);
    }

    /// A record came over `link`, and this is what the database says of it.
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
            // Ours is newer than what it sent, which it will see when it gets ours.
            Verdict::Stale(ours) => self.put(link, ours),
            Verdict::Pending => {}
        }
    }

    /// The database has a new record, from the neighbour at `from` or from this node itself: all
    /// others are to have it.
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
            // Only what was sent once tells how long an answer takes (Karn's rule).
            neighbor.rtt.on_sample(now, now.since(outgoing.at));
        }
    }

    /// Appends to a control datagram what the neighbour is to be told, as far as there is room:
    /// acknowledgements, then records that were not sent yet or not confirmed in time.
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

    /// A link that has something to say at once, each once.
    pub fn poll_ready(&mut self) -> Option<LinkIndex> {
        self.ready.pop_first()
    }

    /// When a link has something to say next, and which. Links handed out by
    /// [`Flood::poll_ready`] and not yet filled are among them.
    pub fn next_timeout(&self) -> Option<(Time, LinkIndex)> {
        let due = |(link, neighbor): (&LinkIndex, &Neighbor)| Some((neighbor.next()?, *link));
        self.links.iter().filter_map(due).min()
    }

    /// The links that have something to say at `now`.
    pub fn due(&self, now: Time) -> impl Iterator<Item = LinkIndex> + '_ {
        let is_due = move |n: &Neighbor| n.next().is_some_and(|at| at <= now);
        let due = self.links.iter().filter(move |(_, n)| is_due(n));
        due.map(|(link, _)| *link)
    }

    /// Every neighbour that is up has confirmed everything.
    pub fn is_settled(&self) -> bool {
        let settled = |n: &Neighbor| n.is_done() && n.acks.is_empty();
        self.links.values().all(settled)
    }

    /// How much was flooded.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    fn put(&mut self, link: LinkIndex, key: Key) {
        if let Some(neighbor) = self.links.get_mut(&link) {
            neighbor.put(key);
            self.ready.insert(link);
        }
    }

    /// What a neighbour sends it has; it is told that it came.
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

/// Whoever has the edition `has` of a record needs no `other`. A certificate of a newer root may have a lower serial than
/// one of an older root, so there one edition says nothing of another one.
fn covers(name: Name, has: RecordSeq, other: RecordSeq) -> bool {
    match name.kind {
        RecordKind::CERTIFICATE => has == other,
        _ => has >= other,
    }
}

impl Neighbor {
    /// Queues an edition, in the place of older ones.
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

    /// The neighbour has this edition: nothing older needs to be sent. Returns what was sent of it.
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

    /// What was sent under a name is no longer under way.
    fn forget(&mut self, name: Name) -> Option<Outgoing> {
        let sent = self.sent.remove(&name)?;
        self.in_flight -= sent.bytes;
        Some(sent)
    }

    /// Everything is confirmed.
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

    /// Sends what was not confirmed in time, then what waits, as far as window and datagram have
    /// room, and finds out when to look again.
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
                    // An acknowledgement opens the window again, or a retransmission's time comes.
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

    /// Appends the newest edition of a record; false if the datagram has no room for it. A record
    /// that is no more is forgotten.
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
