//! Audits: they check whether the packets that this node seals for another node arrive as the links on their path
//! promise.
//!
//! ```text
//!   sealed ─▶ Ledger: counters a..b went by path P         exit opens, or does not
//!               │  "how many of a..b, b..c have you opened?" ═══════▶ │
//!               │  ◀════════════════════ "all; half" (sealed: no relay can make it up)
//!               ▼
//!            Evidence of P against its promise ──▶ bad ──▶ Trial: every packet goes twice, under two
//!                                                           counters: by P and by another path Q
//!            P bad again, Q good ──▶ Settled: Q alone; what P has and Q has not is suspect
//!            P good ──▶ by table     Q bad ──▶ the next Q     no Q left ──▶ by table
//! ```
//! Link state says which packets the links lose. It cannot show that a node accepts packets like any other node, passes
//! on what keeps its links up, and drops the rest. Only the two ends can find this out: one knows what it has sealed,
//! the other what it has opened. So the entry asks, and the exit answers from the window that keeps it from opening a
//! packet twice. Questions and answers are about counters, not about time. So late packets, copies and lost questions
//! do no harm, and the exit needs no state of its own for audits.
//!
//! Each copy of a packet in a trial is sealed separately. So each path is judged by its own counters, and the flow can
//! use both paths: the exit drops the second copy, as it drops any packet of a flow that it has already seen.
//!
//! A suspicion belongs to this node and is about one destination. The node does not report it to other nodes, so a node
//! cannot slander another one. An exit that lies about what it has opened moves only its own packets to other paths.

mod budget;
mod evidence;
mod groups;
mod ledger;
mod trial;

pub(crate) use evidence::Promise;
pub(crate) use groups::{
    Carried, CopiedMember, GroupAudits, GroupFinding, GroupQuestion, Known, Stretch, Turn, Way,
};
pub(crate) use ledger::{Question, Sent};
pub use trial::Suspect;
pub(crate) use trial::{Course, Finding, Suspicion, WayId, Ways};

use base::{Duration, Map, NodeAddr, Time};
use budget::Budgets;
use evidence::Evidence;
use graph::Topology;
use ledger::Ledger;
use wire::data::{LinkProtocol, Routing};

/// Destinations whose paths are audited: as many as there are sessions.
const AUDITS_MAX: usize = crate::ends::ENDS_MAX;
/// The time from a packet to the question that follows it.
const ASK_AFTER: Duration = Duration::from_millis(500);
/// The same while two paths are compared.
const ASK_AFTER_IN_TRIAL: Duration = Duration::from_millis(250);
/// The least time between two questions if the link has no room to spare: they would take room that packets need.
const SPACED: Duration = Duration::from_secs(4);
/// A question without an answer is repeated after this time plus two round trips.
const ANSWER_WITHIN: Duration = Duration::from_millis(200);
/// Unanswered questions in a row after which the interval between questions doubles with each further one, up to
/// sixteen times.
const IN_VAIN_SOON: u32 = 3;
/// After this many unanswered questions in a row, no question follows if nothing was sent for [`STOPPED`].
const IN_VAIN_MOST: u32 = 2;
const STOPPED: Duration = Duration::from_secs(1);
/// After an unanswered question, the next ones go by two paths at once for this time.
const DOUBLED_FOR: Duration = Duration::from_secs(10);
/// If nothing was sent to a destination for this time, its audit is forgotten unless it has suspects.
const IDLE: Duration = Duration::from_secs(120);
/// Number of stamps to one node whose paths are remembered. Choice: this is enough for as many sockets that each send
/// to one node with a scheme of their own.
const STAMPS_MAX: usize = 4;
/// Questions are due at multiples of this time, so that many questions seldom wake a node.
const GRID: Duration = Duration::from_millis(25);

/// The audits of all destinations.
#[derive(Debug, Default)]
pub(crate) struct Audits {
    all: Map<NodeAddr, Audit>,
    /// When the next question may be due, at the latest.
    next: Option<Time>,
    pub(crate) budgets: Budgets,
    findings: u64,
}

/// The audit of one destination.
#[derive(Debug)]
pub(crate) struct Audit {
    ledger: Ledger,
    pub(crate) ways: Ways,
    /// For each routing: the path that the tables gave, and the generation of the tables at that time.
    natural: Map<Routing, (u64, Taken)>,
    /// The paths of the newest stamps. The stamp of the last packet is at the end.
    stamped: Vec<(Vec<u8>, Taken)>,
    ask_at: Option<Time>,
    /// When the outstanding question should be answered at the latest.
    answer_by: Option<Time>,
    doubled_until: Time,
    /// Number of questions in a row without an answer.
    in_vain: u32,
    /// When a packet was last sent that questions are about.
    sent: Time,
    asked: Option<Time>,
    used: Time,
}

/// Packets that are about to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Journey<'t> {
    pub(crate) ends: (NodeAddr, NodeAddr),
    pub(crate) topology: &'t Topology,
    /// Whether they are data: neither a question nor an answer.
    pub(crate) is_data: bool,
}

/// The path that packets of one routing, or with one stamp, take.
#[derive(Clone, Copy, Debug)]
struct Taken {
    way: Option<WayId>,
    /// The path before, until the first packet takes this one whose loss would count against the path. Other packets
    /// show nothing.
    before: Option<Option<WayId>>,
}

impl Taken {
    fn first(way: Option<WayId>) -> Taken {
        Taken { way, before: None }
    }

    fn next(self, way: Option<WayId>) -> Taken {
        let before = self.before.unwrap_or(self.way);
        // Packets without a known path show nothing about the path before.
        let is_turn = way.is_some() && before != way;
        Taken {
            way,
            before: is_turn.then_some(before),
        }
    }

    /// Returns this path and the one before, once for each change.
    fn turn(&mut self, is_judged: impl FnOnce() -> bool) -> Option<(WayId, Option<WayId>)> {
        let turn = self.way.zip(self.before)?;
        if !is_judged() {
            return None;
        }
        self.before = None;
        Some(turn)
    }
}

/// A question that is due.
#[derive(Debug)]
pub(crate) struct Due {
    pub(crate) to: NodeAddr,
    pub(crate) question: Question,
    pub(crate) by: By,
}

/// How a question or an answer travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// By table, like packets.
    Table,
    /// By two paths that have no relay in common.
    Two,
    /// Over every link. Both paths may be bad, or may not exist, for example if a member invents links.
    All,
}

impl Audits {
    /// Returns the audit of a destination, and begins it if there is none yet. Returns `None` if there are too many.
    pub(crate) fn of(&mut self, now: Time, to: NodeAddr) -> Option<&mut Audit> {
        if self.all.len() >= AUDITS_MAX && !self.all.contains_key(&to) {
            let idle = |audit: &Audit| now.since(audit.used) >= IDLE;
            let oldest = self.all.iter().filter(|(_, audit)| idle(audit));
            let oldest =
                oldest.min_by_key(|(to, audit)| (audit.ways.has_suspects(), audit.used, **to));
            let oldest = *oldest?.0;
            self.all.remove(&oldest);
        }
        let audit = self.all.entry(to).or_insert_with(|| Audit::new(now));
        Some(audit)
    }

    /// Notes that the tree of a group takes this path to a node and delivers less than it promises. The path may
    /// deliver too little of other packets, too.
    pub(crate) fn accuse(
        &mut self,
        now: Time,
        to: NodeAddr,
        path: Vec<NodeAddr>,
        evidence: (LinkProtocol, Evidence),
    ) {
        if let Some(audit) = self.of(now, to) {
            audit.used = now;
            audit.ways.accuse(now, path, evidence);
        }
    }

    /// Notes that packets of a group begin to take a path to a node without any other way. `paths` are this path and
    /// the one before, if it was another. Returns whether the path is doubtful.
    pub(crate) fn turn_group(
        &mut self,
        now: Time,
        to: NodeAddr,
        paths: (Vec<NodeAddr>, Option<Vec<NodeAddr>>),
        (topology, own): (&Topology, NodeAddr),
    ) -> bool {
        let Some(audit) = self.of(now, to) else {
            return false;
        };
        audit.used = now;
        audit.ways.introduce_paths(now, paths, topology, (own, to))
    }

    pub(crate) fn get(&self, to: NodeAddr) -> Option<&Audit> {
        self.all.get(&to)
    }

    pub(crate) fn get_mut(&mut self, to: NodeAddr) -> Option<&mut Audit> {
        self.all.get_mut(&to)
    }

    /// Returns where packets go whose path by table, or by their own stamp, is `natural`. `has_room` says whether the
    /// link to a neighbour has room for packets that are not strictly needed.
    pub(crate) fn course(
        &mut self,
        now: Time,
        to: NodeAddr,
        (natural, packets): (Option<WayId>, usize),
        has_room: impl Fn(NodeAddr) -> bool,
    ) -> Course {
        let Audits { all, budgets, .. } = self;
        let Some(audit) = all.get_mut(&to) else {
            return Course::Table;
        };
        let may_copy = |hops: [NodeAddr; 2]| {
            hops.into_iter().all(has_room) && budgets.take_copies(now, packets)
        };
        audit.ways.course(now, natural, packets, may_copy)
    }

    /// Notes packets that have just been sealed for a destination.
    pub(crate) fn note(&mut self, now: Time, to: NodeAddr, sent: Sent) {
        let Some(audit) = self.all.get_mut(&to) else {
            return;
        };
        audit.used = now;
        if sent.is_asked_about() {
            audit.sent = now;
        }
        if sent.is_asked_about() && audit.ask_at.is_none() {
            let at = on_grid(now + audit.ask_after());
            audit.ask_at = Some(at);
            self.next = Some(self.next.map_or(at, |next| next.min(at)));
        }
        audit.ledger.note(now, sent);
    }

    /// Notes that `packets` of the packets that were noted at `at` did not leave this node.
    pub(crate) fn excuse(&mut self, at: Time, to: NodeAddr, packets: u32) {
        if let Some(audit) = self.all.get_mut(&to) {
            audit.ledger.excuse(at, packets);
        }
    }

    /// Returns the questions that are due. `way` gives the latency of the path to a node, and says whether the path has
    /// room to spare.
    pub(crate) fn due(
        &mut self,
        now: Time,
        way: impl Fn(NodeAddr) -> (Duration, bool),
    ) -> Vec<Due> {
        let mut due = Vec::new();
        if self.next.is_none_or(|next| now < next) {
            return due;
        }
        let mut next: Option<Time> = None;
        let Audits { all, budgets, .. } = self;
        for (to, audit) in all {
            if audit.next_timeout().is_some_and(|at| at <= now)
                && let Some((question, by)) = audit.ask(now, way(*to))
            {
                let by = match by {
                    By::All if !budgets.take_question_flood(now) => By::Two,
                    by => by,
                };
                due.push(Due {
                    to: *to,
                    question,
                    by,
                });
            }
            next = next.into_iter().chain(audit.next_timeout()).min();
        }
        self.next = next;
        due
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.next
    }

    /// Forgets idle destinations that have no suspects.
    pub(crate) fn expire(&mut self, now: Time) {
        self.all.retain(|_, audit| {
            audit.ways.expire(now);
            now.since(audit.used) < IDLE || audit.ways.has_suspects()
        });
    }

    /// Returns the destinations whose packets do not all go by table.
    pub(crate) fn diverted(&self) -> Vec<NodeAddr> {
        let all = self.all.iter();
        let diverted = all.filter(|(_, audit)| !audit.ways.is_plain());
        diverted.map(|(to, _)| *to).collect()
    }

    /// Returns all destinations that have suspects on the paths to them.
    pub(crate) fn suspected(&self) -> impl Iterator<Item = (NodeAddr, &Ways)> {
        let all = self.all.iter().map(|(to, audit)| (*to, &audit.ways));
        all.filter(|(_, ways)| ways.has_suspects())
    }

    /// Counts that a path was found to deliver less than it promised.
    pub(crate) fn count_finding(&mut self) {
        self.findings += 1;
    }

    pub(crate) fn findings(&self) -> u64 {
        self.findings
    }
}

impl Audit {
    fn new(now: Time) -> Audit {
        Audit {
            ledger: Ledger::default(),
            ways: Ways::new(now),
            natural: Map::default(),
            stamped: Vec::new(),
            ask_at: None,
            answer_by: None,
            doubled_until: Time::ZERO,
            in_vain: 0,
            sent: now,
            asked: None,
            used: now,
        }
    }

    /// Returns the path that packets of a routing take by table at a generation of the tables. `path` computes it if it
    /// is not known yet. `is_judged` says whether the loss of such a packet counts against the path.
    pub(crate) fn by_table(
        &mut self,
        now: Time,
        (routing, generation): (Routing, u64),
        journey: Journey<'_>,
        is_judged: impl FnOnce() -> bool,
        path: impl FnOnce() -> Option<Vec<NodeAddr>>,
    ) -> Option<WayId> {
        let known = self.natural.get(&routing).copied();
        let is_here = |taken: &Taken| taken.way.is_none_or(|way| self.ways.has(way));
        let current = known.filter(|(at, taken)| *at == generation && is_here(taken));
        let mut taken = match (current, known) {
            (Some((_, taken)), _) => taken,
            (None, before) => {
                let way = path().map(|path| self.ways.enter(now, path));
                before.map_or(Taken::first(way), |(_, before)| before.next(way))
            }
        };
        let turned = self.turned(now, &mut taken, journey, is_judged);
        if journey.is_data && (current.is_none() || turned) {
            self.natural.insert(routing, (generation, taken));
        }
        taken.way
    }

    /// Returns the path of packets with this stamp, if it is a single path. See [`Audit::by_table`].
    pub(crate) fn by_stamp(
        &mut self,
        now: Time,
        stamp: &[u8],
        journey: Journey<'_>,
        is_judged: impl FnOnce() -> bool,
        path: impl FnOnce() -> Option<Vec<NodeAddr>>,
    ) -> Option<WayId> {
        let is_here = |taken: &Taken| taken.way.is_none_or(|way| self.ways.has(way));
        let last = self.stamped.last();
        let is_last = last.is_some_and(|(known, taken)| known == stamp && is_here(taken));
        let before = last.map(|(_, taken)| *taken);
        let mut taken = match before.filter(|_| is_last) {
            Some(taken) => taken,
            None => {
                let mut known = self.stamped.iter();
                let known = known.position(|(known, _)| known == stamp);
                let known = known.map(|at| self.stamped[at].1.way);
                let way = known.filter(|way| way.is_none_or(|way| self.ways.has(way)));
                let way = way.unwrap_or_else(|| path().map(|path| self.ways.enter(now, path)));
                before.map_or(Taken::first(way), |before| before.next(way))
            }
        };
        let turned = self.turned(now, &mut taken, journey, is_judged);
        if journey.is_data && (!is_last || turned) {
            self.stamped.retain(|(known, _)| known != stamp);
            let surplus = (self.stamped.len() + 1).saturating_sub(STAMPS_MAX);
            self.stamped.drain(..surplus);
            self.stamped.push((stamp.to_vec(), taken));
        }
        taken.way
    }

    /// Notes that packets are about to take a path. If they took another one before, this introduces the path, and the
    /// result is true.
    fn turned(
        &mut self,
        now: Time,
        taken: &mut Taken,
        journey: Journey<'_>,
        is_judged: impl FnOnce() -> bool,
    ) -> bool {
        taken.way.inspect(|way| self.ways.want(now, *way));
        let turn = match journey.is_data {
            true => taken.turn(is_judged),
            false => None,
        };
        if let Some(turn) = turn {
            self.ways
                .introduce(now, turn, journey.topology, journey.ends);
        }
        turn.is_some()
    }

    /// Returns the neighbour that gets the packets of a routing, if they do not go by table.
    pub(crate) fn first_hop(&self, routing: Routing) -> Option<NodeAddr> {
        let (_, taken) = self.natural.get(&routing)?;
        self.ways.settled(taken.way?)?.get(1).copied()
    }

    /// Returns the time from a packet, or from a question, to the question that follows it.
    fn ask_after(&self) -> Duration {
        let after = match self.ways.is_in_trial() {
            true => ASK_AFTER_IN_TRIAL,
            false => ASK_AFTER,
        };
        after * self.patience()
    }

    /// Returns the factor by which this node waits longer than usual: the other end may be gone, or may have lost its
    /// session.
    fn patience(&self) -> u64 {
        1 << self.in_vain.saturating_sub(IN_VAIN_SOON).min(4)
    }

    fn next_timeout(&self) -> Option<Time> {
        self.ask_at.into_iter().chain(self.answer_by).min()
    }

    fn ask(&mut self, now: Time, (latency, has_room): (Duration, bool)) -> Option<(Question, By)> {
        let is_unanswered = self.answer_by.is_some_and(|by| by <= now);
        let is_due = self.ask_at.is_some_and(|at| at <= now);
        if !is_due && !is_unanswered {
            return None;
        }
        let spaced = self.asked.map_or(now, |asked| on_grid(asked + SPACED));
        if !has_room && now < spaced {
            (self.ask_at, self.answer_by) = (Some(spaced), None);
            return None;
        }
        if is_unanswered {
            self.answer_by = None;
            self.doubled_until = now + DOUBLED_FOR;
            self.in_vain = self.in_vain.saturating_add(1);
        }
        if self.in_vain >= IN_VAIN_MOST && now.since(self.sent) >= STOPPED {
            // The answer is of no use any more.
            self.ledger.forget();
            (self.ask_at, self.answer_by) = (None, None);
            return None;
        }
        self.ask_at = None;
        let question = self.ledger.ask(now, latency);
        if self.ledger.has_open(now) {
            self.ask_at = Some(on_grid(now + self.ask_after()));
        }
        let question = question?;
        self.asked = Some(now);
        if self.answer_by.is_none() {
            let within = ANSWER_WITHIN * self.patience() + latency * 4;
            self.answer_by = Some(on_grid(now + within));
        }
        // Floods become ever rarer: the other end may be gone.
        let by = match self.in_vain {
            in_vain @ 2.. if is_unanswered && in_vain.is_power_of_two() => By::All,
            _ if now < self.doubled_until => By::Two,
            _ => By::Table,
        };
        Some((question, by))
    }

    /// Takes in an answer, and judges the packets that it is about. `promise` says what a path promises at present.
    pub(crate) fn on_told(
        &mut self,
        number: u16,
        opened: impl ExactSizeIterator<Item = u16>,
        mut promise: impl FnMut(&[NodeAddr], LinkProtocol) -> Option<Promise>,
    ) {
        (self.answer_by, self.in_vain) = (None, 0);
        let Audit { ledger, ways, .. } = self;
        ledger.on_told(number, opened, |judged| ways.judge(&judged, &mut promise));
    }

    /// Decides what follows from the present evidence.
    pub(crate) fn decide(
        &mut self,
        now: Time,
        topology: &Topology,
        ends: (NodeAddr, NodeAddr),
    ) -> Option<Finding> {
        self.ways.decide(now, topology, ends)
    }
}

fn on_grid(at: Time) -> Time {
    let grid = GRID.as_nanos();
    Time::from_nanos(at.as_nanos().div_ceil(grid) * grid)
}

#[cfg(test)]
mod tests;
