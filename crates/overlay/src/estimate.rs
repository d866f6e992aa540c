//! The quality of a link: its round-trip time and its loss rate, measured from the traffic that it carries anyway.
//!
//! ```text
//!   hello out --stamp-->  peer  --echo, hold--> hello in    Rtt::on_sample
//!   sealed datagrams in, each with its counter              Loss::on_run
//!                                                             | rate()
//!                                                             v
//!                                              announce, and back to the peer in hellos
//! ```
//!
//! The counter of the AEAD is the link's sequence number. Every datagram of a direction has one, so data, hellos and
//! control datagrams all measure loss, and nothing is sent only to measure it.
//!
//! [`Loss`] follows [Amir06 §III-A]: a packet is lost when three later ones have arrived; the rate is one over the mean
//! distance between the last L = 50 losses. So the estimate rises as fast as losses come, and falls only as fast as
//! packets arrive without loss. Three things go beyond the paper:
//!
//! - *Reordering*. On a link where packets arrive later than three others, a loss counts in the rate only when no
//!   packet as late as the recent ones can revoke it.
//! - *Runs*. Fifty losses may be one run of them, whose distance says nothing. The rate is taken over at least fifty
//!   losses and twenty runs. The part by which a run is far longer than the others is not counted: it was an outage.
//! - *Change*. If the last ten runs came at quite another pace than those before, only they count. If no run came for
//!   so long that many were due, losses have ended: only the last run counts.

mod inbound;
mod rtt;
mod split;

pub use inbound::Inbound;
pub use rtt::Rtt;
pub use split::Split;

use std::collections::VecDeque;

/// A packet counts as lost when this many later ones have arrived. [Amir06 §III-A]
pub const REORDER_PACKETS: u32 = 3;
/// L, the losses over which the rate is averaged. [Amir06 §III-A]
pub const LOSS_EVENTS: usize = 50;
/// Minimum number of runs over which the rate is averaged, if there are that many. Choice: their lengths and their
/// distances both vary by their own size, so the mean of 20 is off by a third: sqrt(2 / 20).
pub(crate) const RUNS_LEAST: usize = 20;
/// The number of last runs that show whether the pace has changed,
const RUNS_RECENT: usize = 10;
/// and the factor by which it must have changed. Choice: this detects a link that has begun to lose, or has lost a
/// little for hours and now loses much. A link that swings between one and eight per cent is announced with the average
/// of both, which moves no routes.
const PACE_CHANGED: f64 = 10.0;
/// Losses have ended when this many runs were due and none came. Choice: twice as many as are remembered. Without this
/// rule, an estimate of 10 % falls to 1 % after 5000 packets, which are a minute and a half of a call; with it, after
/// 1000.
const RUNS_DUE: u64 = 2 * LOSS_EVENTS as u64;
/// The last runs differ from those before if they are this many times as long. Choice: if runs have two packets on
/// average, ten runs have five on average four times in a million, and if runs have four, ten on average 52 times in a
/// million.
const RUNS_LONGER: f64 = 2.5;
/// Losses that one run can contribute if the others are short. Choice: half of the history, so that one outage (which
/// `hello` handles) does not make the link look as if it had always lost everything.
pub const GAP_EVENTS: u64 = LOSS_EVENTS as u64 / 2;
/// A run of this many times the mean of the others was an outage. Choice: one of 50 runs is longer by chance.
const RUN_OUTLIER: f64 = 4.0;
/// Losses of one run that a queue may have caused. Choice: a full queue accepts packets as it sends others, so it loses
/// few packets in a row, unless it receives many times what leaves it.
const RUN_COUNTS: u64 = 3;
/// The longest run that is remembered, which bounds the work per input.
const RUN_MAX: u64 = 256;
/// Number of beginnings of runs whose positions are kept: more than one packet shows at once.
const BEGUN_KEPT: usize = 32;
/// A link that has reordered packets may do so again within this many packets. Choice: a minute of six calls.
const REORDERS_FOR: u64 = 20_000;
/// How many numbers a packet may arrive behind others and still revoke its loss. Choice: 60 ms at 16 000 packets/s.
const LATE_MAX: u64 = 1024;
/// While fewer packets have been seen, the rate is taken over this many. Choice: the first loss of a new link then
/// gives 1 %, not 50 %.
pub const FEWEST_PACKETS: u64 = 100;

/// The loss rate of the direction towards this node, from the sequence numbers that arrive.
///
/// ```text
///   numbers   ... 4  5  6  7  8  9 10 | next = 11        bit 0 of the maps is number next - 1
///   arrived       x  x     x  x     x
///   absent                       1      missing, fewer than three later ones are here
///   lost                1               counted; undone when it arrives within 64 numbers
///   pending             6               counted, and not in the rate until it cannot be late any more
/// ```
/// All numbers in this struct are positions: the link's sequence number minus what was cut out of long gaps. So a
/// position is reached by receiving or by losing every position before it.
#[derive(Clone, Debug, Default)]
pub struct Loss {
    /// The position after the highest one seen.
    next: u64,
    /// Sequence number minus position, wrapping.
    offset: u64,
    /// Positions below this are ignored.
    floor: u64,
    absent: u64,
    lost: u64,
    started: bool,
    /// Lost, or perhaps only late, ascending.
    pending: VecDeque<u64>,
    /// How many numbers late a packet may be.
    lateness: u64,
    /// The last runs of losses, ascending.
    runs: VecDeque<Run>,
    /// `runs` has been full once, so `base` is a loss and not the beginning of the link.
    full: bool,
    /// The beginning of the interval before the oldest run.
    base: u64,
    received_total: u64,
    lost_total: u64,
    begun: Begun,
    /// Losses that cannot be revoked; of one run, at most [`RUN_COUNTS`].
    told_total: u64,
}

/// The beginnings of runs of losses, for callers that need to know at once. On a link that has not recently reordered,
/// a run has begun as soon as a number is skipped; on other links, when its first packet counts as lost.
#[derive(Clone, Debug, Default)]
struct Begun {
    /// All beginnings, without the revoked ones.
    count: u64,
    /// The positions of the last ones, ascending.
    last: VecDeque<u64>,
    /// Runs before this position have been counted.
    counted: u64,
    /// The link has reordered, and may do so again until this position.
    reorders_until: u64,
}

/// Losses in a row.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: u64,
    last: u64,
    lost: u64,
}

impl Begun {
    fn on_run(&mut self, at: u64) {
        if self.last.len() == BEGUN_KEPT {
            self.last.pop_front();
        }
        self.last.push_back(at);
        self.count += 1;
    }

    /// A skipped packet has arrived: the run that began with it was none.
    fn on_late(&mut self, position: u64, next: u64) {
        self.reorders_until = next + REORDERS_FOR;
        if let Some(k) = self.last.iter().rposition(|at| *at == position) {
            self.last.remove(k);
            self.count -= 1;
        }
    }
}

impl Loss {
    /// The packet with this sequence number arrived.
    #[inline]
    pub fn on_packet(&mut self, seq: u64) {
        self.on_run(seq, 1);
    }

    /// The packets `first`, `first + 1`, … (`count` of them) arrived. The cost does not depend on
    /// `count`, and in order it is a handful of instructions.
    #[inline]
    pub fn on_run(&mut self, first: u64, count: u64) {
        let is_next = first.wrapping_sub(self.offset) == self.next;
        if is_next && self.absent == 0 && self.started && self.pending.is_empty() {
            self.lost = shift(self.lost, count);
            self.next += count;
            self.received_total += count;
            return;
        }
        self.on_disorder(first, count);
    }

    /// Takes the packet with this sequence number as neither lost nor overtaken, if it has not arrived.
    pub fn forgive(&mut self, seq: u64) {
        let reorders_until = self.begun.reorders_until;
        self.on_packet(seq);
        self.begun.reorders_until = reorders_until;
    }

    /// A new session begins: its sequence numbers are unrelated to the earlier ones. The node's knowledge of the link
    /// is kept.
    pub fn on_new_session(&mut self) {
        self.settle_absent();
        self.lost = 0;
        self.floor = self.next;
        self.started = false;
    }

    /// The link was given up: packets missing until the next one belong to an outage and do not count as losses.
    pub fn on_outage(&mut self) {
        self.on_new_session();
    }

    /// Returns the share of packets that are lost, 0 to 1.
    pub fn rate(&self) -> f64 {
        let Some(newest) = self.runs.back() else {
            return 0.0;
        };
        let longest = self.longest_usual();
        let mut from = self.counted_from(longest);
        if self.has_ended(from, self.settled()) {
            from = self.runs.len() - 1;
        }
        let counted = self.runs.range(from..);
        let (lost, beyond) = counted.fold((0, 0), |(lost, beyond), run| {
            let counts = run.lost.min(longest);
            (lost + counts, beyond + run.lost - counts)
        });
        if from == 0 && !self.full {
            let packets = self.settled() - self.base - beyond;
            return lost as f64 / packets.max(FEWEST_PACKETS).max(lost) as f64;
        }
        // The closed intervals, or all but the oldest of them plus the open one, whichever gives less loss: the
        // estimate falls while losses stay out, and never because of a loss.
        let closed = newest.last - self.before(from) - beyond;
        let with_open = (self.settled() - 1 - self.runs[from].last).saturating_sub(beyond);
        lost as f64 / closed.max(with_open).max(lost) as f64
    }

    /// Returns the mean length of the recent runs of losses that were no outages; 1 without any.
    pub fn run(&self) -> f64 {
        if self.runs.is_empty() {
            return 1.0;
        }
        let longest = self.longest_usual();
        let mean = |range: core::ops::Range<usize>| {
            let runs = range.len().max(1) as f64;
            let lost = self.runs.range(range).map(|run| run.lost.min(longest));
            lost.sum::<u64>() as f64 / runs
        };
        let all = self.runs.len();
        let recent = all.saturating_sub(RUNS_RECENT);
        // The last runs alone, if they differ greatly.
        match recent >= RUNS_RECENT && mean(recent..all) > mean(0..recent) * RUNS_LONGER {
            true => mean(recent..all),
            false => mean(0..all),
        }
    }

    /// Returns the number of runs of losses that have begun since the link began, without those whose packets arrived
    /// after all.
    #[inline]
    pub fn begun(&self) -> u64 {
        self.begun.count
    }

    /// Returns where the last `count` of them have begun, or as many as are kept. Each value is the number of packets
    /// that had arrived or been lost before the run.
    pub fn last_begun(&self, count: u64) -> impl Iterator<Item = u64> {
        let known = self.begun.last.len();
        let count = usize::try_from(count).map_or(known, |count| count.min(known));
        self.begun.last.range(known - count..).copied()
    }

    /// Returns the number of packets that have arrived or been lost since the link began, including lost ones that may
    /// still arrive.
    pub fn position(&self) -> u64 {
        self.next
    }

    /// Returns the number of arrived or lost packets over which the rate is taken, without assumed ones.
    pub fn packets(&self) -> u64 {
        self.settled().saturating_sub(self.base)
    }

    /// Returns the rate in the format of hellos and link-state records.
    pub fn share(&self) -> wire::Loss {
        wire::Loss::from_share(self.rate())
    }

    /// Returns the packets that arrived and the packets that were lost since the link began.
    pub fn totals(&self) -> (u64, u64) {
        (self.received_total, self.lost_total)
    }

    /// Returns the packets that arrived, and the losses that may indicate a queue. Losses that may be merely late do
    /// not count; of a long run, which is an outage, only the first ones count.
    pub fn told(&self) -> (u64, u64) {
        (self.received_total, self.told_total)
    }

    #[cold]
    fn on_disorder(&mut self, first: u64, count: u64) {
        if count == 0 {
            return;
        }
        if !self.started {
            self.start(first);
        }
        let at = first.wrapping_sub(self.offset);
        // Wrapping: a number far below appears as one far above, and no number can be half the range ahead.
        if at.wrapping_sub(self.next) >= 1 << 63 {
            let behind = self.next.wrapping_sub(at);
            let late = count.min(behind);
            // The packets count one by one in their order, because each may show that those before it are lost.
            for k in late.saturating_sub(LATE_MAX)..late {
                self.on_late(at.wrapping_add(k));
            }
            if count > late {
                self.on_run(first.wrapping_add(late), count - late);
            }
            return;
        }
        let mut gap = at - self.next;
        if gap > RUN_MAX {
            self.settle_absent();
            self.lost = 0;
            self.offset = self.offset.wrapping_add(gap - RUN_MAX);
            self.floor = self.next;
            self.lost_total = self.lost_total.saturating_add(gap - RUN_MAX);
            gap = RUN_MAX;
        }
        if gap > 0 && self.next >= self.begun.reorders_until {
            self.begun.on_run(self.next);
            self.begun.counted = self.next + gap;
        }
        self.advance(gap, true);
        self.advance(count, false);
        self.received_total += count;
        self.settle_overtaken();
        self.confirm();
    }

    fn start(&mut self, first: u64) {
        self.started = true;
        self.offset = first.wrapping_sub(self.next);
    }

    /// Moves `next` up by `count` positions that are either all missing or all present.
    fn advance(&mut self, count: u64, missing: bool) {
        // A position that leaves the maps unseen is lost, however few have arrived since.
        let leaving = if count >= 64 {
            self.absent
        } else {
            self.absent & !(u64::MAX >> count)
        };
        self.settle(leaving);
        self.absent = shift(self.absent, count);
        self.lost = shift(self.lost, count);
        if missing {
            for position in self.next..(self.next + count).saturating_sub(64) {
                self.push(position);
            }
            self.absent |= shift(u64::MAX, count) ^ u64::MAX;
        }
        self.next += count;
    }

    fn on_late(&mut self, position: u64) {
        let behind = self.next.wrapping_sub(position).wrapping_sub(1);
        if position < self.floor || behind >= LATE_MAX {
            return;
        }
        let bit = shift(1, behind);
        if self.absent & bit != 0 {
            self.absent &= !bit;
            self.received_total += 1;
            self.settle_overtaken();
        } else if (self.lost & bit != 0 || behind >= 64) && self.undo(position) {
            self.lost &= !bit;
            self.received_total += 1;
            self.lost_total -= 1;
        } else {
            return;
        }
        self.begun.on_late(position, self.next);
        // A quarter more, and some: the next one may be even later.
        let lateness = (behind + behind / 4 + u64::from(REORDER_PACKETS)).min(LATE_MAX);
        if behind >= u64::from(REORDER_PACKETS) {
            self.lateness = self.lateness.max(lateness);
        }
        self.confirm();
    }

    /// Counts packets as lost that three later packets have overtaken.
    fn settle_overtaken(&mut self) {
        if self.absent == 0 {
            return;
        }
        let mut here = !(self.absent | self.lost);
        for _ in 1..REORDER_PACKETS {
            here &= here.wrapping_sub(1);
        }
        if here == 0 {
            return;
        }
        let third = here.trailing_zeros();
        self.settle(self.absent & (u64::MAX << third));
    }

    fn settle_absent(&mut self) {
        self.settle(self.absent);
    }

    /// Turns the absent numbers of `which` into losses, oldest first.
    fn settle(&mut self, mut which: u64) {
        self.absent &= !which;
        self.lost |= which;
        while which != 0 {
            let behind = 63 - which.leading_zeros();
            which &= !(1 << behind);
            self.push(self.next - 1 - u64::from(behind));
        }
    }

    /// Returns the position after the last one of which it is known whether it arrived or was lost.
    fn settled(&self) -> u64 {
        let absent = self.next - u64::from(u64::BITS - self.absent.leading_zeros());
        self.pending.front().map_or(absent, |&at| at.min(absent))
    }

    /// Returns where the interval before run `k` begins.
    fn before(&self, k: usize) -> u64 {
        match k.checked_sub(1) {
            Some(before) => self.runs[before].last,
            None => self.base,
        }
    }

    /// Returns the length above which a run was an outage.
    fn longest_usual(&self) -> u64 {
        let lengths = self.runs.iter().map(|run| run.lost);
        let longest = lengths.clone().max().unwrap_or(0);
        let others = (self.runs.len() - 1).max(1) as f64;
        let mean = (lengths.sum::<u64>() - longest) as f64 / others;
        GAP_EVENTS.max((RUN_OUTLIER * mean) as u64)
    }

    /// Returns true if the runs from `recent` on came at another pace than those of `from..recent`.
    fn pace_changed(&self, from: usize, recent: usize) -> bool {
        let pace = |runs: usize, packets: u64| runs.max(1) as f64 / packets.max(1) as f64;
        let last = self.runs[self.runs.len() - 1].last;
        let before = self.before(recent);
        let older = pace(recent - from, before - self.before(from));
        let newer = pace(self.runs.len() - recent, last - before);
        newer > PACE_CHANGED * older || newer * PACE_CHANGED < older
    }

    /// Returns the oldest run over which the rate is taken.
    fn counted_from(&self, longest: u64) -> usize {
        let (mut from, mut lost) = (self.runs.len(), 0);
        while from > 0 && (lost < LOSS_EVENTS as u64 || self.runs.len() - from < RUNS_LEAST) {
            from -= 1;
            lost += self.runs[from].lost.min(longest);
        }
        let recent = self.runs.len().saturating_sub(RUNS_RECENT);
        match recent > from && self.pace_changed(from, recent) {
            true => recent,
            false => from,
        }
    }

    /// Returns true if no run came between the last one and `until` though many were due, by the pace of the runs from
    /// `from` on.
    fn has_ended(&self, from: usize, until: u64) -> bool {
        let Some(newest) = self.runs.back() else {
            return false;
        };
        let counted = (self.runs.len() - from) as u64;
        let open = until.saturating_sub(newest.last + 1);
        open.saturating_mul(counted) > RUNS_DUE * newest.last.saturating_sub(self.before(from))
    }

    /// Forgets the runs before the last one if losses had ended since and now begin again.
    fn forget_ended(&mut self, position: u64) {
        let Some(older) = self.runs.len().checked_sub(2) else {
            return;
        };
        if self.has_ended(self.counted_from(self.longest_usual()), position) {
            self.base = self.runs[older].last;
            self.full = true;
            self.runs.drain(..=older);
        }
    }

    fn push(&mut self, position: u64) {
        self.lost_total += 1;
        self.pending.push_back(position);
    }

    /// Adds losses to the rate that can no longer be merely late.
    fn confirm(&mut self) {
        while let Some(&position) = self.pending.front() {
            if self.next - position <= self.lateness && self.pending.len() <= LATE_MAX as usize {
                return;
            }
            self.pending.pop_front();
            // The lateness decreases gradually if packets arrive in order from now on.
            self.lateness -= self.lateness.div_ceil(128);
            self.enter(position);
        }
    }

    fn enter(&mut self, position: u64) {
        if let Some(run) = self.runs.back_mut()
            && run.last + 1 == position
            && run.lost < RUN_MAX
        {
            run.last = position;
            run.lost += 1;
            self.told_total += u64::from(run.lost <= RUN_COUNTS);
            return;
        }
        self.told_total += 1;
        self.forget_ended(position);
        if self.runs.len() == LOSS_EVENTS
            && let Some(oldest) = self.runs.pop_front()
        {
            self.base = oldest.last;
            self.full = true;
        }
        if position >= self.begun.counted {
            self.begun.on_run(position);
        }
        self.runs.push_back(Run {
            first: position,
            last: position,
            lost: 1,
        });
    }

    /// Revokes a loss, if it is one.
    fn undo(&mut self, position: u64) -> bool {
        if let Ok(at) = self.pending.binary_search(&position) {
            self.pending.remove(at);
            return true;
        }
        let within = |run: &Run| (run.first..=run.last).contains(&position);
        let Some(k) = self.runs.iter().rposition(within) else {
            return false;
        };
        self.told_total -= u64::from(self.runs[k].lost <= RUN_COUNTS);
        self.runs[k].lost -= 1;
        if self.runs[k].lost == 0 {
            self.runs.remove(k);
        }
        true
    }
}

const fn shift(map: u64, by: u64) -> u64 {
    if by >= 64 { 0 } else { map << by }
}

#[cfg(test)]
mod tests;
