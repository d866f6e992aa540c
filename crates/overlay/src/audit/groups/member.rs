//! One member of a group: when it is asked, what its answers show about the tree, and whether it gets copies.
//!
//! ```text
//!   asked ─▶ answered ─▶ judged ── bad ──▶ copied ── good, after `until` ──▶ by the tree alone
//!     ▲                    │                  │
//!     '────────────────────┴──── silent four times, or another node needs the place: by the tree alone
//! ```
//! Copies that begin with a new path end as soon as it has brought something.
//!
//! The evidence is about one path of the tree, and begins anew when the tree takes another path.

use super::super::evidence::{Evidence, Promise};
use super::super::on_grid;
use super::{ASK_EVERY, GroupFinding, Stretch};
use base::{Duration, NodeAddr, Time};

/// How often the waiting time doubles at most after unanswered questions: 2, 4, 8, 16 times as long as usual.
const PATIENCE_DOUBLES_MOST: u32 = 4;
/// Packets to a member do not count for this long after it joined, or after a moment at which it could not be reached.
const SETTLES: Duration = Duration::from_secs(1);
/// The least time for which a member gets copies. It doubles each time that copies ended too early, up to `HOLD_MOST`.
pub(super) const HOLD: Duration = Duration::from_secs(10);
const HOLD_MOST: Duration = Duration::from_secs(640);
/// The longest time for which a member gets copies because of a new path.
const INTRODUCED_FOR: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Member {
    pub(super) evidence: Evidence,
    /// Packets sent before this moment have been judged, or are not to be judged.
    pub(super) from: Time,
    /// When the next question is due.
    pub(super) at: Time,
    /// The tree's path to the member, which the evidence is about. It is empty if the path is not known.
    pub(super) path: Vec<NodeAddr>,
    /// Packets take a second way to the member besides the tree's path.
    pub(super) has_second: bool,
    pub(super) asked: Option<Asked>,
    pub(super) last_asked: Option<Time>,
    pub(super) in_vain: u32,
    pub(super) doubled_until: Time,
    pub(super) copied: Option<Copied>,
    /// How often copies have begun soon after they had ended.
    pub(super) strikes: u32,
    pub(super) cleared: Time,
}

/// The copies that a member gets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copied {
    pub(super) since: Time,
    pub(super) until: Time,
    /// The packet loss of the member when the copies began.
    pub(super) loss: f64,
    pub(super) packets: u64,
    /// Whether the member gets copies only because the path is new. No packet loss on the path is known.
    pub(super) is_introduction: bool,
}

/// An outstanding question.
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
            has_second: false,
            asked: None,
            last_asked: None,
            in_vain: 0,
            doubled_until: Time::ZERO,
            copied: None,
            strikes: 0,
            cleared: Time::ZERO,
        }
    }

    /// Returns when the member may be asked, or asked again.
    pub(super) fn ready_at(&self) -> Time {
        self.asked.as_ref().map_or(self.at, |asked| asked.answer_by)
    }

    /// Returns the factor by which this node waits longer than usual: the member may be gone.
    pub(super) fn patience(&self) -> u64 {
        1 << self.in_vain.min(PATIENCE_DOUBLES_MOST)
    }

    /// Notes that no relay is between this node and the member, or that the member cannot be reached.
    pub(super) fn stand_alone(&mut self, now: Time) {
        self.from = now + SETTLES;
        self.path.clear();
        self.evidence = Evidence::default();
        if self.copied.is_some_and(|copied| now >= copied.until) {
            self.end_copies(now);
        }
    }

    /// Sets the tree's path to the member. If it is another path than before, the evidence begins anew, because losses
    /// on the old path show nothing about the new one. Returns whether it is another path.
    pub(super) fn is_elsewhere(&mut self, now: Time, path: Vec<NodeAddr>) -> bool {
        let is_elsewhere = !self.path.is_empty() && self.path != path;
        if is_elsewhere {
            self.begin_anew(now);
        }
        self.path = path;
        is_elsewhere
    }

    /// Notes whether packets take a second way to the member. When it ends, the evidence begins anew: what the two ways
    /// have brought together says nothing about the tree's path alone.
    pub(super) fn set_second(&mut self, now: Time, has_second: bool) {
        if self.has_second && !has_second {
            self.begin_anew(now);
        }
        self.has_second = has_second;
    }

    fn begin_anew(&mut self, now: Time) {
        self.from = self.from.max(now);
        self.evidence = Evidence::default();
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
            // The member has forgotten counters that are so old, or has left the group.
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

    /// Notes that the tree brings the member less than it promises: the member gets copies from now on.
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

    /// Ends the copies if the tree brings what it promises.
    pub(super) fn recover(&mut self, now: Time) -> Option<GroupFinding> {
        let copied = self.copied?;
        let is_whole = now >= copied.until && self.evidence.is_good(copied.loss);
        (is_whole && self.end_copies(now)).then_some(GroupFinding::Whole)
    }

    /// Begins copies that last until the tree has brought the member some packets by its new path.
    pub(super) fn introduce(&mut self, now: Time) {
        self.copied = Some(Copied {
            since: now,
            until: now + INTRODUCED_FOR,
            loss: 1.0,
            packets: 0,
            is_introduction: true,
        });
    }

    /// Returns whether the member gets copies because the path is new.
    pub(super) fn is_introduced(&self) -> bool {
        self.copied.is_some_and(|copied| copied.is_introduction)
    }

    /// Ends the copies if the tree has brought some packets by the new path, or if there were too few packets for too
    /// long to decide. Returns whether copies ended.
    pub(super) fn is_at_home(&mut self, now: Time) -> bool {
        let is_over = self.copied.is_some_and(|copied| now >= copied.until);
        let is_known = self.evidence.carries() || is_over;
        is_known && self.copied.take().is_some()
    }

    /// Ends the copies. Returns false if the member got none.
    pub(super) fn end_copies(&mut self, now: Time) -> bool {
        let ended = self.copied.take().is_some();
        if ended {
            (self.evidence, self.cleared) = (Evidence::default(), now);
        }
        ended
    }
}
