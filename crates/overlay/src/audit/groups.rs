//! Audits of groups: they check whether the tree brings each member what this node sends to its groups.
//!
//! ```text
//!   sealed ─▶ Stretches: counters a..b of a key      member opens what the tree brings
//!               │  "how many of a..b, b..c by the tree?" ═══════▶ │   (end to end, in turn)
//!               │  ◀═══════════════════════════ "all; none" ══════'
//!               ▼
//!            Evidence against what the links on the tree's path promise
//!              │ bad                                      │ good, and some time has passed
//!              ▼                                          ▼
//!            each packet once more, to this member alone ──▶ by the tree alone
//! ```
//! No node on the path can find out what a relay drops of a group: the relay may drop that and nothing else. So the
//! source, which knows the members of groups from their records, asks the members. A member that the tree starves gets
//! each packet a second time inside its end-to-end session, whose paths have audits and detours of their own. The tree
//! continues, and the packets that it brings are counted separately. So the source sees when the tree works again.
//!
//! The path that the tree takes may drop more than the packets of a group. So if the copies take the same path, they
//! are tried by another one at once: the audit of that path begins with this evidence.
//!
//! If the tables change the tree's path to a member, it is not known yet whether the new path delivers. So copies begin
//! with the new path, and end when it has brought some packets ([`turns`]). The same holds when a second way to a member
//! ends: until then, whatever the tree's path dropped came by the second way.
//!
//! A member that lies about what has arrived gets its packets twice. This costs other nodes only its share of what one
//! node may spend on copies. A member that does not answer is not judged.
//!
//! Choice: the thresholds are those of paths between two nodes ([`super::evidence`]). If only a group has lost packets,
//! no suspect is named: the next tree may not lead over it.

mod member;
mod stretches;
mod turns;

use super::evidence::{Evidence, Promise};
use super::on_grid;
use base::token_bucket::TokenBucket;
use base::{Duration, Map, NodeAddr, Time};
use member::{Asked, HOLD, Member};
use std::collections::BTreeMap;
use stretches::Stretches;
pub(crate) use stretches::{Carried, Stretch};
pub(crate) use turns::{Known, Turn};
use wire::link::SessionIndex;

/// Groups that this node sends to and that are audited; 5 KiB each.
const GROUPS_MAX: usize = 256;
/// Members of all of them; 250 bytes each, and the path.
const MEMBERS_MAX: usize = 4_096;
/// Nodes that get copies. Choice: a node sends at most this many copies besides the one packet on a tree.
pub(crate) const COPIED_MAX: usize = 16;
/// Groups of which one node gets copies. Choice: a node that lies about all its groups costs as much as a starved
/// member of this many groups.
const COPIED_GROUPS_MAX: usize = 4;
/// Questions per second to all members of all groups, and how many of them at once.
const QUESTIONS_PER_S: f64 = 20.0;
const QUESTIONS_BURST: f64 = 20.0;
/// The time between two questions to a member about one group. A question has 125 bytes with all lower layers: 2
/// kbit/s, and as much for the answers.
const ASK_EVERY: Duration = Duration::from_millis(500);
/// The same if the link has no room to spare: questions would take room that packets need.
const SPACED: Duration = Duration::from_secs(4);
/// The least time between two questions to one node about any group: a node answers 20 per second.
const APART: Duration = Duration::from_millis(100);
/// A question without an answer is repeated after this time plus two round trips.
const ANSWER_WITHIN: Duration = Duration::from_millis(200);
/// After an unanswered question, the next ones go by two paths at once for this time.
const DOUBLED_FOR: Duration = Duration::from_secs(10);
/// If nothing was sent to a group for this time, no more questions are asked about it.
const STOPPED: Duration = Duration::from_secs(5);
/// If nothing was sent to a group for this time, it is forgotten.
const IDLE: Duration = Duration::from_secs(120);
/// Unanswered questions in a row after which a member gets no more copies: this node cannot know whether they are of
/// use.
const VAIN_MOST: u32 = 4;

/// The audits of the groups that this node sends to.
#[derive(Debug)]
pub(crate) struct GroupAudits {
    groups: Map<NodeAddr, GroupAudit>,
    questions: TokenBucket,
    /// When the next question may be due.
    next: Option<Time>,
    number: u16,
    /// When each node was asked last.
    asked: Map<NodeAddr, Time>,
    /// Number of members that get copies, summed over all groups.
    copied: usize,
    findings: u64,
    copies: u64,
}

#[derive(Debug)]
struct GroupAudit {
    sent: Stretches,
    members: BTreeMap<NodeAddr, Member>,
    /// The members that get copies.
    copied: Vec<NodeAddr>,
    /// Whether members may have joined or left.
    is_due: bool,
    /// What the tree's paths and the second ways to the members were last determined by, and when.
    known: (Option<Known>, Time),
    used: Time,
}

/// The tree's path to a member.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    pub(crate) latency: Duration,
    /// Whether the first link has room to spare.
    pub(crate) has_room: bool,
    /// The nodes of the path, from this node on.
    pub(crate) path: Vec<NodeAddr>,
}

/// A question to a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupQuestion {
    pub(crate) to: NodeAddr,
    pub(crate) group: NodeAddr,
    pub(crate) key: SessionIndex,
    pub(crate) number: u16,
    pub(crate) first: u32,
    pub(crate) lengths: Vec<u16>,
    /// Whether the question goes by two paths at once, because one had no answer lately.
    pub(crate) is_doubled: bool,
}

/// A result that follows from an answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum GroupFinding {
    /// The tree brings a member less than it promises: copies begin.
    Starved { evidence: Evidence },
    /// The tree brings what it promises: copies end.
    Whole,
}

/// A member that gets copies, as it is reported.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CopiedMember {
    pub(crate) node: NodeAddr,
    /// The tree's packet loss when the copies began, and since then.
    pub(crate) loss: f64,
    pub(crate) loss_now: f64,
    pub(crate) since: Time,
    pub(crate) packets: u64,
}

impl Default for GroupAudits {
    fn default() -> GroupAudits {
        GroupAudits {
            groups: Map::default(),
            questions: TokenBucket::new(QUESTIONS_PER_S, QUESTIONS_BURST, Time::ZERO),
            next: None,
            number: 0,
            asked: Map::default(),
            copied: 0,
            findings: 0,
            copies: 0,
        }
    }
}

impl GroupAudits {
    /// Notes packets to a group that have just been sealed.
    #[inline]
    pub(crate) fn note(&mut self, now: Time, group: NodeAddr, sent: Stretch) {
        if !self.groups.contains_key(&group) && !self.begin(now, group) {
            return;
        }
        let Some(audit) = self.groups.get_mut(&group) else {
            return;
        };
        audit.used = now;
        audit.sent.note(now, sent);
        if self.next.is_none() {
            self.next = Some(on_grid(now + ASK_EVERY));
        }
    }

    #[cold]
    fn begin(&mut self, now: Time, group: NodeAddr) -> bool {
        if self.groups.len() >= GROUPS_MAX {
            return false;
        }
        let audit = GroupAudit {
            sent: Stretches::default(),
            members: BTreeMap::new(),
            copied: Vec::new(),
            is_due: true,
            known: (None, Time::ZERO),
            used: now,
        };
        self.groups.insert(group, audit);
        true
    }

    /// Notes that `packets` of the packets that were noted at `at` did not leave this node for the neighbour `next`.
    pub(crate) fn excuse(&mut self, at: Time, group: NodeAddr, (next, packets): (NodeAddr, u16)) {
        if let Some(audit) = self.groups.get_mut(&group) {
            audit.sent.excuse(at, next, packets);
        }
    }

    /// The members of a group that get copies.
    #[inline]
    pub(crate) fn copied(&self, group: NodeAddr) -> &[NodeAddr] {
        if self.copied == 0 {
            return &[];
        }
        self.groups
            .get(&group)
            .map_or(&[][..], |audit| &audit.copied)
    }

    /// How the last packets to a group were carried.
    pub(crate) fn carried(&self, group: NodeAddr) -> Option<Carried> {
        self.groups.get(&group)?.sent.carried()
    }

    /// Counts copies to a member.
    pub(crate) fn count_copies(&mut self, group: NodeAddr, member: NodeAddr, packets: u64) {
        self.copies += packets;
        let audit = self.groups.get_mut(&group);
        if let Some(member) = audit.and_then(|audit| audit.members.get_mut(&member))
            && let Some(copied) = &mut member.copied
        {
            copied.packets += packets;
        }
    }

    /// Notes that members of a group have joined or left. `None` stands for all groups.
    pub(crate) fn on_changed(&mut self, group: Option<NodeAddr>) {
        let all = self.groups.iter_mut();
        let concerned = all.filter(|(of, _)| group.is_none_or(|group| group == **of));
        concerned.for_each(|(_, audit)| audit.is_due = true);
    }

    /// Returns the groups whose members the caller must set with [`GroupAudits::set_members`].
    pub(crate) fn due_members(&self, now: Time) -> Vec<NodeAddr> {
        if self.next.is_none_or(|next| now < next) {
            return Vec::new();
        }
        let due = self.groups.iter().filter(|(_, audit)| audit.is_due);
        due.map(|(group, _)| *group).collect()
    }

    /// Sets the members of a group that can be asked.
    pub(crate) fn set_members(
        &mut self,
        now: Time,
        group: NodeAddr,
        members: impl Iterator<Item = NodeAddr>,
    ) {
        let all: usize = self.groups.values().map(|audit| audit.members.len()).sum();
        let Some(audit) = self.groups.get_mut(&group) else {
            return;
        };
        let room = MEMBERS_MAX - (all - audit.members.len());
        let mut before = core::mem::take(&mut audit.members);
        let known = |node| {
            let member = before.remove(&node);
            (node, member.unwrap_or_else(|| Member::new(now)))
        };
        audit.members = members.take(room).map(known).collect();
        audit.is_due = false;
        self.settle(group);
    }

    /// Updates the list of members that get copies, and their number, from the state of each member.
    fn settle(&mut self, group: NodeAddr) {
        if let Some(audit) = self.groups.get_mut(&group) {
            let copied = audit.members.iter().filter(|(_, m)| m.copied.is_some());
            audit.copied = copied.map(|(node, _)| *node).collect();
        }
        self.copied = self.groups.values().map(|audit| audit.copied.len()).sum();
    }

    /// Returns the questions that are due. `way` gives the tree's path to a member, or `None` if there is no relay on
    /// it.
    pub(crate) fn due(
        &mut self,
        now: Time,
        way: impl Fn(NodeAddr, Carried) -> Option<Way>,
    ) -> Vec<GroupQuestion> {
        if self.next.is_none_or(|next| now < next) {
            return Vec::new();
        }
        let mut due: Vec<(Time, NodeAddr, NodeAddr)> = Vec::new();
        for (group, audit) in &self.groups {
            let members = audit.members.iter();
            let ready = members.filter(|(_, member)| member.ready_at() <= now);
            due.extend(ready.map(|(node, member)| (member.ready_at(), *group, *node)));
        }
        // The member that has waited longest comes first.
        due.sort_unstable();
        let (mut questions, mut ended) = (Vec::new(), Vec::new());
        for (_, group, to) in due {
            let is_near = |at: &Time| now.since(*at) < APART;
            if self.asked.get(&to).is_some_and(is_near) || self.questions.available(now) < 1.0 {
                continue;
            }
            let Some(audit) = self.groups.get_mut(&group) else {
                continue;
            };
            let number = self.number.wrapping_add(1);
            let question = audit.ask(now, (group, to), number, &way);
            if audit.copied.contains(&to) && !audit.gets_copies(to) {
                ended.push(group);
            }
            if let Some(question) = question {
                self.number = number;
                self.questions.try_take(now, 1.0);
                self.asked.insert(to, now);
                questions.push(question);
            }
        }
        ended.into_iter().for_each(|group| self.settle(group));
        self.next = self.soonest(now);
        questions
    }

    /// Returns when the next question to some member may be due.
    fn soonest(&self, now: Time) -> Option<Time> {
        let live = self.groups.values();
        let live = live.filter(|audit| now.since(audit.used) < STOPPED);
        let members = live.flat_map(|audit| audit.members.values());
        let at = members.map(Member::ready_at).min()?;
        // Members that could not be asked now wait until the limits permit it.
        Some(on_grid(at.max(now + APART.div(2))))
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.next
    }

    /// Takes in an answer of a member, and judges the packets that it is about. `path` gives the tree's present path to
    /// the member, and `promise` says what a path promises to such packets.
    pub(crate) fn on_told(
        &mut self,
        now: Time,
        (from, number): (NodeAddr, u16),
        opened: impl ExactSizeIterator<Item = u16>,
        path: impl Fn(Carried) -> Option<Vec<NodeAddr>>,
        promise: impl Fn(&[NodeAddr], &Stretch) -> Option<Promise>,
    ) -> Option<(NodeAddr, GroupFinding)> {
        let opened: Vec<u16> = opened.collect();
        let mut all = self.groups.iter_mut();
        let (group, member, asked) = all.find_map(|(group, audit)| {
            let member = audit.members.get_mut(&from)?;
            let asked = member.asked.take_if(|asked| asked.number == number)?;
            Some((*group, member, asked))
        })?;
        member.answered(&asked);
        if member.is_elsewhere(now, path(asked.about.first()?.carried).unwrap_or_default()) {
            return None;
        }
        member.judge(&asked, &opened, promise);
        let finding = if member.is_introduced() && !member.evidence.is_bad_still() {
            if member.is_at_home(now) {
                self.settle(group);
            }
            return None;
        } else if member.copied.is_some() && !member.is_introduced() {
            member.recover(now)?
        } else {
            let is_bad = member.evidence.is_bad_still();
            let has_place = member.copied.is_some();
            if !is_bad || !has_place && !self.make_place(now, from) {
                return None;
            }
            self.findings += 1;
            self.groups
                .get_mut(&group)?
                .members
                .get_mut(&from)?
                .starve(now)
        };
        self.settle(group);
        Some((group, finding))
    }

    /// Returns whether a node may get copies of one more group. If all places are taken, the node gets the place of the
    /// node that has had one for the longest time, if that was at least [`HOLD`]. So a node that keeps saying that
    /// nothing arrives cannot keep other nodes out.
    fn make_place(&mut self, now: Time, node: NodeAddr) -> bool {
        let mut places: BTreeMap<NodeAddr, (usize, Time)> = BTreeMap::new();
        for audit in self.groups.values() {
            for (node, member) in &audit.members {
                if let Some(copied) = member.copied {
                    let place = places.entry(*node).or_insert((0, copied.since));
                    *place = (place.0 + 1, place.1.min(copied.since));
                }
            }
        }
        if let Some((groups, _)) = places.get(&node) {
            return *groups < COPIED_GROUPS_MAX;
        }
        if places.len() < COPIED_MAX {
            return true;
        }
        let places = places.iter().map(|(node, (_, since))| (*since, *node));
        let Some((_, oldest)) = places.min().filter(|(since, _)| now.since(*since) >= HOLD) else {
            return false;
        };
        let mut displaced = Vec::new();
        for (group, audit) in &mut self.groups {
            if let Some(member) = audit.members.get_mut(&oldest)
                && member.end_copies(now)
            {
                // This end of the copies must not count as too early.
                member.strikes = member.strikes.saturating_sub(1);
                displaced.push(*group);
            }
        }
        displaced.into_iter().for_each(|group| self.settle(group));
        true
    }

    /// Slow housekeeping.
    pub(crate) fn expire(&mut self, now: Time) {
        self.asked.retain(|_, at| now.since(*at) < APART);
        // Records decide which members can be asked, and new ones may have arrived meanwhile.
        self.on_changed(None);
        let before = self.groups.len();
        self.groups.retain(|_, audit| now.since(audit.used) < IDLE);
        if self.groups.len() < before {
            self.copied = self.groups.values().map(|audit| audit.copied.len()).sum();
        }
    }

    /// Returns the members of a group that get copies, for reports to the user.
    pub(crate) fn copied_members(&self, group: NodeAddr) -> impl Iterator<Item = CopiedMember> {
        let audit = self.groups.get(&group).into_iter();
        let members = audit.flat_map(|audit| &audit.members);
        members.filter_map(|(node, member)| {
            let copied = member.copied.filter(|copied| !copied.is_introduction)?;
            Some(CopiedMember {
                node: *node,
                loss: copied.loss,
                loss_now: member.evidence.loss(),
                since: copied.since,
                packets: copied.packets,
            })
        })
    }

    /// Returns how many members get copies because the tree starves them, summed over all groups.
    pub(crate) fn starved(&self) -> usize {
        let groups = self.groups.keys().filter(|_| self.copied > 0);
        groups
            .map(|group| self.copied_members(*group).count())
            .sum()
    }

    /// Returns how often the tree was found to bring a member less than it promises, and how many copies were sent.
    pub(crate) fn totals(&self) -> (u64, u64) {
        (self.findings, self.copies)
    }
}

impl GroupAudit {
    fn gets_copies(&self, node: NodeAddr) -> bool {
        let member = self.members.get(&node);
        member.is_some_and(|member| member.copied.is_some())
    }

    fn ask(
        &mut self,
        now: Time,
        (group, to): (NodeAddr, NodeAddr),
        number: u16,
        way: impl Fn(NodeAddr, Carried) -> Option<Way>,
    ) -> Option<GroupQuestion> {
        let member = self.members.get_mut(&to)?;
        let unanswered = member.asked.take_if(|asked| asked.answer_by <= now);
        if unanswered.is_some() {
            (member.in_vain, member.doubled_until) = (member.in_vain + 1, now + DOUBLED_FOR);
            if member.in_vain >= VAIN_MOST {
                member.end_copies(now);
            }
        }
        member.at = on_grid(now + ASK_EVERY * member.patience());
        let carried = self.sent.carried()?;
        let Some(Way {
            latency,
            has_room,
            path,
        }) = way(to, carried)
        else {
            member.stand_alone(now);
            return None;
        };
        if member.is_elsewhere(now, path) {
            return None;
        }
        let is_late = |at: Time| now.since(at) >= SPACED;
        if !has_room && !member.last_asked.is_none_or(is_late) {
            return None;
        }
        let about = self.sent.ripe(now, member.from, (carried.routing, latency));
        let first = about.first()?;
        let question = GroupQuestion {
            to,
            group,
            key: first.key,
            number,
            first: first.first as u32,
            lengths: about.iter().map(|stretch| stretch.count).collect(),
            is_doubled: now < member.doubled_until,
        };
        let within = ANSWER_WITHIN * member.patience() + latency * 4;
        member.last_asked = Some(now);
        member.asked = Some(Asked {
            number,
            answer_by: on_grid(now + within),
            about,
        });
        Some(question)
    }
}

#[cfg(test)]
mod tests;
