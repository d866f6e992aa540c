//! What was sealed for one end, and which path it took: runs of counters, until they are judged.
//!
//! ```text
//!   counters   100 ..... 119 | 120 | 121 | 122 | 123 ...... 150 | 151 ...
//!   way             P        |  P  |  Q  |  P  |       P        |  (not old enough)
//!                  judged      '───────── asked ──────────────'
//! ```
//! Every counter belongs to a run, also the counters of packets that are not judged. So a question consists of a first
//! counter and the lengths of the runs from there on. A run is judged when all of its packets have been opened, or when
//! they have had their time to arrive.

use super::WayId;
use base::{Duration, Time};
use std::collections::VecDeque;
use wire::data::LinkProtocol;
use wire::link::SessionIndex;
use wire::transport::COUNTS_MAX;

/// Number of runs that are kept: five seconds of a call, or half a second of packets that alternate between two paths
/// at the highest rate that copies may have.
const RUNS_MAX: usize = 512;
/// The longest time that one run covers.
const RUN_LASTS: Duration = Duration::from_millis(50);
/// Packets have this time plus twice the latency to arrive. A later packet was recovered on several hops, or waited in
/// a queue in which the question waits, too.
const PATIENCE: Duration = Duration::from_millis(250);
/// The same for packets on reliable links, which retransmit for longer.
const PATIENCE_RELIABLE: Duration = Duration::from_secs(4);
/// A run without an answer is forgotten after this time.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(10);
/// Number of questions that may wait for their answers.
const ASKED_MAX: usize = 8;

/// Packets that have just been sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    /// The index of the session, which the exit has chosen.
    pub(crate) session: SessionIndex,
    /// The first counter.
    pub(crate) first: u64,
    pub(crate) count: u32,
    /// The path, if the packets took a single one.
    pub(crate) way: Option<WayId>,
    pub(crate) link: LinkProtocol,
    /// Whether the packets are data: neither a question nor an answer.
    pub(crate) is_data: bool,
}

impl Sent {
    /// Returns whether a question about these packets must follow.
    pub(crate) fn is_asked_about(&self) -> bool {
        self.is_data && self.way.is_some()
    }
}

/// A run of counters.
#[derive(Clone, Copy, Debug)]
struct Run {
    sent: Sent,
    at: Time,
    /// Packets of the run that this node dropped instead of sending them.
    excused: u32,
    is_judged: bool,
}

/// The result for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Judged {
    pub(crate) way: WayId,
    pub(crate) link: LinkProtocol,
    pub(crate) at: Time,
    pub(crate) sent: u32,
    pub(crate) lost: u32,
}

/// The question how many packets of each run have been opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) number: u16,
    pub(crate) session: SessionIndex,
    pub(crate) first: u32,
    pub(crate) lengths: Vec<u16>,
}

#[derive(Debug)]
struct Asked {
    number: u16,
    at: Time,
    session: SessionIndex,
    first: u64,
    lengths: Vec<u16>,
}

/// The runs of one end, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    runs: VecDeque<Run>,
    asked: VecDeque<Asked>,
    number: u16,
}

impl Ledger {
    /// Notes packets that have just been sealed.
    #[inline]
    pub(crate) fn note(&mut self, now: Time, sent: Sent) {
        if let Some(last) = self.runs.back_mut()
            && last.continues(now, &sent)
        {
            last.sent.count += sent.count;
            return;
        }
        if self.runs.len() >= RUNS_MAX {
            self.runs.pop_front();
        }
        self.runs.push_back(Run {
            sent,
            at: now,
            excused: 0,
            is_judged: !sent.is_asked_about(),
        });
    }

    /// Notes that `packets` of the packets that were noted at `at` were not sent. They belong to the newest run that
    /// had begun by then.
    pub(crate) fn excuse(&mut self, at: Time, packets: u32) {
        let mut newest_first = self.runs.iter_mut().rev();
        if let Some(run) = newest_first.find(|run| run.at <= at) {
            run.excused = (run.excused + packets).min(run.sent.count);
        }
    }

    /// Forgets all runs and questions.
    pub(super) fn forget(&mut self) {
        self.runs.clear();
        self.asked.clear();
    }

    /// Returns whether there are runs to be judged, now or later.
    pub(crate) fn has_open(&self, now: Time) -> bool {
        self.runs.iter().any(|run| run.is_open(now))
    }

    /// Returns a question about all runs that are old enough. `latency` is that of the path.
    pub(crate) fn ask(&mut self, now: Time, latency: Duration) -> Option<Question> {
        while self.runs.front().is_some_and(|run| !run.is_open(now)) {
            self.runs.pop_front();
        }
        let front = self.runs.front()?.sent;
        let is_old = |run: &Run| now.since(run.at) >= PATIENCE + latency * 2;
        let runs = self.runs.iter();
        let runs = runs.take_while(|run| is_old(run) && run.sent.session == front.session);
        let mut lengths: Vec<u16> = Vec::new();
        let (mut was_judged, mut wanted) = (false, 0);
        for run in runs {
            // A judged run is in the question only because an unjudged one follows it.
            let is_judged = !run.is_open(now);
            let count = u16::try_from(run.sent.count).unwrap_or(u16::MAX);
            let merged = lengths.last().filter(|_| is_judged && was_judged);
            match merged.and_then(|last| last.checked_add(count)) {
                Some(sum) => {
                    lengths.pop();
                    lengths.push(sum);
                }
                None if lengths.len() == COUNTS_MAX => break,
                None => lengths.push(count),
            }
            was_judged = is_judged;
            if !is_judged {
                wanted = lengths.len();
            }
        }
        lengths.truncate(wanted);
        if lengths.is_empty() {
            return None;
        }
        self.number = self.number.wrapping_add(1);
        if self.asked.len() >= ASKED_MAX {
            self.asked.pop_front();
        }
        self.asked.push_back(Asked {
            number: self.number,
            at: now,
            session: front.session,
            first: front.first,
            lengths: lengths.clone(),
        });
        Some(Question {
            number: self.number,
            session: front.session,
            first: front.first as u32,
            lengths,
        })
    }

    /// Takes in an answer, and passes each run that it decides to `judge`.
    pub(crate) fn on_told(
        &mut self,
        number: u16,
        opened: impl ExactSizeIterator<Item = u16>,
        mut judge: impl FnMut(Judged),
    ) {
        let Some(place) = self.asked.iter().position(|asked| asked.number == number) else {
            return;
        };
        let Some(asked) = self.asked.remove(place) else {
            return;
        };
        if opened.len() != asked.lengths.len() {
            // The exit has forgotten the session, or counters that are so old.
            for run in &mut self.runs {
                run.is_judged |= run.sent.session == asked.session && run.at <= asked.at;
            }
            return;
        }
        let mut first = asked.first;
        let mut runs = self.runs.iter_mut().peekable();
        for (length, opened) in asked.lengths.iter().zip(opened) {
            let is_before =
                |run: &&mut Run| run.sent.session != asked.session || run.sent.first < first;
            while runs.next_if(is_before).is_some() {}
            let is_it =
                |run: &&mut Run| run.sent.first == first && run.sent.count == u32::from(*length);
            if let Some(run) = runs.next_if(is_it) {
                run.judge(asked.at, u32::from(opened), &mut judge);
            }
            first += u64::from(*length);
        }
    }
}

impl Run {
    fn continues(&self, now: Time, sent: &Sent) -> bool {
        let Sent {
            session,
            first,
            count,
            way,
            link,
            is_data,
        } = self.sent;
        (session, first + u64::from(count)) == (sent.session, sent.first)
            && (way, link) == (sent.way, sent.link)
            && is_data == sent.is_data
            && count + sent.count <= u32::from(u16::MAX)
            && now.since(self.at) < RUN_LASTS
    }

    fn is_open(&self, now: Time) -> bool {
        !self.is_judged && now.since(self.at) < FORGOTTEN_AFTER
    }

    /// Judges the run. At the exit, `opened` of its packets had been opened when a question arrived that was asked at
    /// `asked_at`.
    fn judge(&mut self, asked_at: Time, opened: u32, judge: &mut impl FnMut(Judged)) {
        let Some(way) = self.sent.way.filter(|_| !self.is_judged) else {
            return;
        };
        let missing = self.sent.count.saturating_sub(opened);
        let lost = missing.saturating_sub(self.excused);
        let has_time =
            self.sent.link == LinkProtocol::Reliable && asked_at.since(self.at) < PATIENCE_RELIABLE;
        if lost > 0 && has_time {
            return;
        }
        self.is_judged = true;
        judge(Judged {
            way,
            link: self.sent.link,
            at: self.at,
            sent: self.sent.count - self.excused.min(missing),
            lost,
        });
    }
}

#[cfg(test)]
mod tests;
