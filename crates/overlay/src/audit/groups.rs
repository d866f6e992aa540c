//! Audits of groups: whether the tree brings each member what this node sends to its groups.
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
//! What a relay swallows of a group nobody between can tell: it may swallow that and nothing else. So the source, which
//! knows the members of groups that records tell, asks them. A member that the tree starves gets each packet a second
//! time inside its end-to-end session, whose paths have audits and ways around of their own. The tree goes on, and what
//! it brings is counted apart: so the source sees when it works again.
//!
//! The path that the tree takes may swallow more than a group, so copies that take the same one are tried by another at
//! once: its audit begins with this evidence.
//!
//! Where the tables turn the tree's path to a member, nobody knows yet what the new one brings: copies begin with it,
//! and end when it has brought some ([`turns`]).
//!
//! A member that lies about what has come gets its packets twice, and costs nobody else anything but its
//! share of what one node may spend on copies. One that does not answer is not judged.
//!
//! Choice: the thresholds are those of paths between two nodes ([`super::evidence`]). No suspect is named for what only
//! a group has lost: the next tree may not lead over it.

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
use wire::link::SessionIndex;

/// Groups of this node's sources that are audited; 5 KiB each.
const GROUPS_MAX: usize = 256;
/// Members of all of them; 250 bytes each, and the path.
const MEMBERS_MAX: usize = 4_096;
/// Nodes that get copies. Choice: what a node sends once on a tree it sends so often besides at the most.
pub(crate) const COPIED_MAX: usize = 16;
/// Groups of which one node gets copies. Choice: one that lies of all its groups costs as much as a member of so
/// many that are starved.
const COPIED_GROUPS_MAX: usize = 4;
/// Questions per second, to all members of all groups, and at once.
const QUESTIONS_PER_S: f64 = 20.0;
const QUESTIONS_BURST: f64 = 20.0;
/// From one question to the next about one group, of 125 bytes with all below it: 2 kbit/s, and as much back.
const ASK_EVERY: Duration = Duration::from_millis(500);
/// The same where they would take room that packets need.
const SPACED: Duration = Duration::from_secs(4);
/// From one question to the next to one node about any group: it answers 20 per second.
const APART: Duration = Duration::from_millis(100);
/// A question without an answer is asked again after so long, and twice the way there and back.
const ANSWER_WITHIN: Duration = Duration::from_millis(200);
/// After a question that was asked in vain, the next ones go by two paths at once for so long.
const DOUBLED_FOR: Duration = Duration::from_secs(10);
/// A group to which nothing was sent for so long is not asked about any more.
const STOPPED: Duration = Duration::from_secs(5);
/// And is forgotten.
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
    /// Members that get copies, of each group.
    copied: usize,
    findings: u64,
    copies: u64,
}

#[derive(Debug)]
struct GroupAudit {
    sent: Stretches,
    members: BTreeMap<NodeAddr, Member>,
    /// Those that get copies.
    copied: Vec<NodeAddr>,
    /// Members may have come or gone.
    is_due: bool,
    /// The tables by which the tree's paths to members were known last.
    tables: (Option<u64>, Time),
    used: Time,
}

/// The way of the tree to a member.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    pub(crate) latency: Duration,
    /// Its first link has room to spare.
    pub(crate) has_room: bool,
    /// From this node on.
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
    /// One lately had no answer: by two paths at once.
    pub(crate) is_doubled: bool,
}

/// What follows from an answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum GroupFinding {
    /// The tree brings a member less than it promises: copies begin.
    Starved { evidence: Evidence },
    /// It brings what it promises: copies end.
    Whole,
}

/// A member that gets copies, as it is told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CopiedMember {
    pub(crate) node: NodeAddr,
    /// What the tree has lost when they began, and since then.
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
            tables: (None, Time::ZERO),
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

    /// Members of a group have come or gone; `None` of any.
    pub(crate) fn on_changed(&mut self, group: Option<NodeAddr>) {
        let all = self.groups.iter_mut();
        let concerned = all.filter(|(of, _)| group.is_none_or(|group| group == **of));
        concerned.for_each(|(_, audit)| audit.is_due = true);
    }

    /// The groups whose members are to be told with [`GroupAudits::set_members`].
    pub(crate) fn due_members(&self, now: Time) -> Vec<NodeAddr> {
        if self.next.is_none_or(|next| now < next) {
            return Vec::new();
        }
        let due = self.groups.iter().filter(|(_, audit)| audit.is_due);
        due.map(|(group, _)| *group).collect()
    }

    /// These are the members of a group that can be asked.
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

    /// The members that get copies are those that say so.
    fn settle(&mut self, group: NodeAddr) {
        if let Some(audit) = self.groups.get_mut(&group) {
            let copied = audit.members.iter().filter(|(_, m)| m.copied.is_some());
            audit.copied = copied.map(|(node, _)| *node).collect();
        }
        self.copied = self.groups.values().map(|audit| audit.copied.len()).sum();
    }

    /// The questions that are due. `way` tells the tree's way to a member; nothing if no relay is on it.
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

    /// When somebody may have to be asked next.
    fn soonest(&self, now: Time) -> Option<Time> {
        let live = self.groups.values();
        let live = live.filter(|audit| now.since(audit.used) < STOPPED);
        let members = live.flat_map(|audit| audit.members.values());
        let at = members.map(Member::ready_at).min()?;
        // Those that could not be asked now wait for others' turns.
        Some(on_grid(at.max(now + APART.div(2))))
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.next
    }

    /// An answer of a member: judges what it is about. `path` is that of the tree to it now, and `promise` says what a
    /// path promises to such packets.
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

    /// A node may get copies of one more group. Where the places are taken, it takes that of the node that has been
    /// there for longest, if that was long enough: who keeps saying that nothing comes does not keep others out.
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
                // It was not too early for it.
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
        // Records tell who can be asked, and may have come meanwhile.
        self.on_changed(None);
        let before = self.groups.len();
        self.groups.retain(|_, audit| now.since(audit.used) < IDLE);
        if self.groups.len() < before {
            self.copied = self.groups.values().map(|audit| audit.copied.len()).sum();
        }
    }

    /// The members of a group that get copies, for people.
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

    /// How many members get copies, of each group, because the tree starves them.
    pub(crate) fn starved(&self) -> usize {
        let groups = self.groups.keys().filter(|_| self.copied > 0);
        groups
            .map(|group| self.copied_members(*group).count())
            .sum()
    }

    /// How often the tree was found to bring a member less than it promises, and how many copies were sent.
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
