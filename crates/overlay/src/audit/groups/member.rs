//! One member of a group: when it is asked, what its answers say of the tree, and whether it gets copies.
//!
//! ```text
//!   asked ─▶ answered ─▶ judged ── bad ──▶ copied ── good, after `until` ──▶ by the tree alone
//!     ▲                    │                  │
//!     '────────────────────┴──── silent four times, or another node needs the place: by the tree alone
//! ```
//! Copies that begin with a new path end as soon as it has brought something.
//!
//! Its evidence is about one path of the tree, and begins anew when the tree takes another.

use super::super::evidence::{Evidence, Promise};
use super::super::on_grid;
use super::{ASK_EVERY, GroupFinding, Stretch};
use base::{Duration, NodeAddr, Time};

/// How many times as long as usual is waited after questions in vain: 2, 4, 8, 16.
const PATIENCE_DOUBLES_MOST: u32 = 4;
/// Packets to a member do not count for this long after it joined, or after a moment at which it could not be reached.
const SETTLES: Duration = Duration::from_secs(1);
/// The least time for which a member gets copies. It doubles each time that copies ended too early, up to `HOLD_MOST`.
pub(super) const HOLD: Duration = Duration::from_secs(10);
const HOLD_MOST: Duration = Duration::from_secs(640);
/// The copies of a new path end after so long at last.
const INTRODUCED_FOR: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Member {
    pub(super) evidence: Evidence,
    /// What was sent before has been judged, or is not.
    pub(super) from: Time,
    /// The next question.
    pub(super) at: Time,
    /// The tree's path to it, which is what the evidence is about; empty if that is not known.
    pub(super) path: Vec<NodeAddr>,
    pub(super) asked: Option<Asked>,
    pub(super) last_asked: Option<Time>,
    pub(super) in_vain: u32,
    pub(super) doubled_until: Time,
    pub(super) copied: Option<Copied>,
    /// How often copies have begun soon after they had ended.
    pub(super) strikes: u32,
    pub(super) cleared: Time,
}

/// A member gets copies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copied {
    pub(super) since: Time,
    pub(super) until: Time,
    /// What it had lost when they began.
    pub(super) loss: f64,
    pub(super) packets: u64,
    /// The path is new, and nothing was lost on it that is known.
    pub(super) is_introduction: bool,
}

/// A question that is out.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) number: u16,
    pub(super) answer_by: Time,
    pub(super) about: Vec<Stretch>,
}

impl Member {
    pub(super) fn new(now: Time) -> Member {
        Member {
            evidence: Evidence::default(),
            from: now + SETTLES,
            at: now + SETTLES,
            path: Vec::new(),
            asked: None,
            last_asked: None,
            in_vain: 0,
            doubled_until: Time::ZERO,
            copied: None,
            strikes: 0,
            cleared: Time::ZERO,
        }
    }

    /// When it may be asked, or asked again.
    pub(super) fn ready_at(&self) -> Time {
        self.asked.as_ref().map_or(self.at, |asked| asked.answer_by)
    }

    /// How many times as long as usual is waited: it may be gone.
    pub(super) fn patience(&self) -> u64 {
        1 << self.in_vain.min(PATIENCE_DOUBLES_MOST)
    }

    /// No relay is between this node and it, or it cannot be reached.
    pub(super) fn stand_alone(&mut self, now: Time) {
        self.from = now + SETTLES;
        self.path.clear();
        self.evidence = Evidence::default();
        if self.copied.is_some_and(|copied| now >= copied.until) {
            self.end_copies(now);
        }
    }

    /// The tree takes another path to it. What was lost on the one before says nothing of this one.
    pub(super) fn is_elsewhere(&mut self, now: Time, path: Vec<NodeAddr>) -> bool {
        let is_elsewhere = !self.path.is_empty() && self.path != path;
        if is_elsewhere {
            self.from = self.from.max(now);
            self.evidence = Evidence::default();
        }
        self.path = path;
        is_elsewhere
    }

    pub(super) fn answered(&mut self, asked: &Asked) {
        self.in_vain = 0;
        if let Some(asked) = self.last_asked {
            self.at = self.at.min(on_grid(asked + ASK_EVERY));
        }
        if let Some(last) = asked.about.last() {
            self.from = last.at + Duration::from_nanos(1);
        }
    }

    pub(super) fn judge(
        &mut self,
        asked: &Asked,
        opened: &[u16],
        promise: impl Fn(&[NodeAddr], &Stretch) -> Option<Promise>,
    ) {
        if opened.len() != asked.about.len() {
            // It has forgotten so old counters, or left the group.
            return;
        }
        for (stretch, opened) in asked.about.iter().zip(opened) {
            let missing = stretch.count.saturating_sub(*opened);
            let next = self.path.get(1);
            let excused = next.map_or(0, |next| stretch.excused_for(*next));
            let excused = excused.min(missing);
            if let Some(promise) = promise(&self.path, stretch) {
                let (sent, lost) = (stretch.count - excused, missing - excused);
                self.evidence
                    .take(stretch.at, sent.into(), lost.into(), promise);
            }
        }
    }

    /// The tree brings it less than it promises: it gets copies from now on.
    pub(super) fn starve(&mut self, now: Time) -> GroupFinding {
        if now.since(self.cleared) >= HOLD_MOST {
            self.strikes = 0;
        }
        let hold = (HOLD * (1 << self.strikes.min(6))).min(HOLD_MOST);
        self.strikes += 1;
        let evidence = core::mem::take(&mut self.evidence);
        self.copied = Some(Copied {
            since: now,
            until: now + hold,
            loss: evidence.loss(),
            packets: 0,
            is_introduction: false,
        });
        GroupFinding::Starved { evidence }
    }

    /// It gets no copies any more, if the tree brings what it promises.
    pub(super) fn recover(&mut self, now: Time) -> Option<GroupFinding> {
        let copied = self.copied?;
        let is_whole = now >= copied.until && self.evidence.is_good(copied.loss);
        (is_whole && self.end_copies(now)).then_some(GroupFinding::Whole)
    }

    /// It gets copies until the tree has brought it something by its new path.
    pub(super) fn introduce(&mut self, now: Time) {
        self.copied = Some(Copied {
            since: now,
            until: now + INTRODUCED_FOR,
            loss: 1.0,
            packets: 0,
            is_introduction: true,
        });
    }

    /// It gets copies because the path is new.
    pub(super) fn is_introduced(&self) -> bool {
        self.copied.is_some_and(|copied| copied.is_introduction)
    }

    /// The tree has brought something by the new path, or too little for too long to tell: copies end. False if not.
    pub(super) fn is_at_home(&mut self, now: Time) -> bool {
        let is_over = self.copied.is_some_and(|copied| now >= copied.until);
        let is_known = self.evidence.carries() || is_over;
        is_known && self.copied.take().is_some()
    }

    /// False if it got none.
    pub(super) fn end_copies(&mut self, now: Time) -> bool {
        let ended = self.copied.take().is_some();
        if ended {
            (self.evidence, self.cleared) = (Evidence::default(), now);
        }
        ended
    }
}
