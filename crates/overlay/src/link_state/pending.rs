//! Records that came before the certificate of their origin, and wait for it.

use super::{Claim, Database, Judgement, Reason, Verdict};
use crate::link::LinkIndex;
use base::{Duration, Time};
use wire::record::{Record, RecordKind};

/// Records that wait for the certificate of their origin. Certificates are flooded first, so few
/// ever wait; 64 · 1200 bytes.
pub const MAX_PENDING: usize = 64;
/// For how long they wait: several retransmissions of the certificate.
const PENDING_FOR: Duration = Duration::from_secs(20);

#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub(super) from: LinkIndex,
    since: Time,
    kind: RecordKind,
    age_s: u16,
    body: Box<[u8]>,
}

impl Database {
    /// Judges again what waited for a certificate: to be called when one was accepted.
    pub fn retry_pending(
        &mut self,
        now: Time,
        mut verify: impl FnMut(&Claim<'_>) -> Judgement,
    ) -> Vec<(LinkIndex, Verdict)> {
        let waiting = core::mem::take(&mut self.pending);
        let mut verdicts = Vec::new();
        for p in waiting {
            let held_s = u16::try_from(now.since(p.since).as_millis() / 1_000).unwrap_or(u16::MAX);
            let record = Record {
                kind: p.kind,
                age_s: p.age_s.saturating_add(held_s),
                body: &p.body,
            };
            match self.on_record(now, p.from, &record, &mut verify) {
                Verdict::Pending => {
                    // Held back again, and its wait began when it first came.
                    if let Some(again) = self.pending.last_mut() {
                        (again.since, again.age_s) = (p.since, p.age_s);
                    }
                }
                verdict => verdicts.push((p.from, verdict)),
            }
        }
        verdicts
    }

    /// Gives up waiting.
    pub(super) fn forget_pending(&mut self, now: Time) {
        self.pending.retain(|p| now.since(p.since) < PENDING_FOR);
    }

    pub(super) fn hold_back(&mut self, now: Time, from: LinkIndex, record: &Record<'_>) -> Verdict {
        let same = |p: &Pending| p.kind == record.kind && *p.body == *record.body;
        if self.pending.iter().any(same) {
            return Verdict::Pending;
        }
        if self.pending.len() >= MAX_PENDING && !self.make_room_for(from) {
            return Verdict::dropped(None, Reason::Full);
        }
        self.pending.push(Pending {
            from,
            since: now,
            kind: record.kind,
            age_s: record.age_s,
            body: record.body.into(),
        });
        Verdict::Pending
    }

    /// Whoever has the most that waits gives a place to a neighbour that would still have less; false if nobody has that
    /// much. So a neighbour that sends what never can be judged fills no more than its share, and a node that joins by
    /// one neighbour has all places for it. What has to go was not confirmed, so it comes again.
    fn make_room_for(&mut self, from: LinkIndex) -> bool {
        let waiting_of = |link| self.pending.iter().filter(|p| p.from == link).count();
        let loads = self.pending.iter().map(|p| (waiting_of(p.from), p.from));
        let Some((most, heaviest)) = loads.max() else {
            return false;
        };
        if waiting_of(from) + 1 >= most {
            return false;
        }
        let last = self.pending.iter().rposition(|p| p.from == heaviest);
        last.map(|at| self.pending.remove(at)).is_some()
    }
}
