//! Records that arrived before the certificate of their origin, and wait for it.

use super::{Claim, Database, Judgement, Reason, Verdict};
use crate::link::LinkIndex;
use base::{Duration, Time};
use wire::record::{Record, RecordKind};

/// Maximum number of records that wait for the certificate of their origin. Certificates are flooded first, so few
/// records ever wait; 64 · 1200 bytes.
pub const MAX_PENDING: usize = 64;
/// How long they wait: several retransmissions of the certificate.
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
    /// Judges the records again that waited for a certificate. To be called when one was accepted.
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
                    // The record is held back again. Its wait began when it first arrived.
                    if let Some(again) = self.pending.last_mut() {
                        (again.since, again.age_s) = (p.since, p.age_s);
                    }
                }
                verdict => verdicts.push((p.from, verdict)),
            }
        }
        verdicts
    }

    /// Gives up records that have waited too long.
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

    /// Makes room for a waiting record of `from`: the neighbour with the most waiting records loses one, if `from`
    /// would still have fewer. Returns false if no neighbour has that many. So a neighbour that sends records that can
    /// never be judged fills no more than its share, and a node that joins by one neighbour has all places for it. A
    /// record that is removed was not confirmed, so it is sent again.
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
