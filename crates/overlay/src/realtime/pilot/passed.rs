//! What passed on a lane in a second: how its packets follow each other, and of those that are to be repaired the time that they
//! have, their lengths, and whether they are of one flow.
//!
//! A packet of any flow shows the loss of the one before it. All else is of packets that want repair alone: others are not
//! covered, and must not make the plan of those that are.

use super::spacing::Spacing;
use super::wishes::{Wish, Wishes};
use super::{Aims, SLACK_LEAST};
use base::{Duration, Time};

/// Without a deadline an answer is of use so long.
const NO_DEADLINE: Duration = Duration::from_millis(500);
/// The shortest pause: it does not count as a distance of packets.
const PAUSE: Duration = Duration::from_millis(150);
/// Kinds of flows that are told apart, by a hash: enough to tell one from several.
const KINDS: usize = 32;

/// A packet that is sent; [`super::Pilot::on_sent`] says what it has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    pub(super) bytes: usize,
    pub(super) slack: Option<Duration>,
    pub(super) flow: u64,
    pub(super) wish: Option<Wish>,
}

/// What passed in a second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Passed {
    /// All packets, and those of them that want repair.
    pub(super) packets: u32,
    pub(super) wanted: u32,
    /// The least time that a packet had left after its way, of those that want repair and had any; and of those that do not.
    pub(super) slack: Option<Duration>,
    pub(super) unwanted_slack: Option<Duration>,
    pub(super) spacing: Spacing,
    pub(super) wishes: Wishes,
    gaps: Duration,
    gaps_counted: u32,
    last: Time,
    /// Of packets that want repair.
    bytes: u64,
    longest: usize,
    kinds: [u32; KINDS],
}

impl Passed {
    /// Notes a packet on a lane that loses this share. The time that it has left if it wants repair and that can be in time.
    #[inline]
    pub(super) fn note(
        &mut self,
        now: Time,
        packet: &Packet,
        aims: &Aims,
        lost: f64,
    ) -> Option<Duration> {
        let wants = Wishes::wants(aims, packet.wish, lost);
        self.packets += 1;
        let gap = now.since(self.last);
        if gap < PAUSE {
            self.gaps += gap;
            self.gaps_counted += 1;
            self.spacing.push(gap, wants);
        }
        self.last = now;
        if wants {
            self.wanted += 1;
            self.bytes += packet.bytes as u64;
            self.longest = self.longest.max(packet.bytes);
            self.kinds[(packet.flow % KINDS as u64) as usize] += 1;
        }
        let slack = packet.slack.unwrap_or(NO_DEADLINE);
        if slack < SLACK_LEAST {
            return None;
        }
        self.wishes.note(aims, packet.wish, wants);
        let least = match wants {
            true => &mut self.slack,
            false => &mut self.unwanted_slack,
        };
        *least = Some(least.map_or(slack, |least| least.min(slack)));
        wants.then_some(slack)
    }

    /// The same, and the next second begins.
    pub(super) fn take(&mut self) -> Passed {
        let next = Passed {
            last: self.last,
            ..Passed::default()
        };
        core::mem::replace(self, next)
    }

    /// The mean distance of packets.
    pub(super) fn interval(&self) -> Duration {
        match self.gaps_counted {
            0 => Duration::from_millis(20),
            n => self.gaps.div(u64::from(n)).max(Duration::from_micros(1)),
        }
    }

    /// The mean distance of those that want repair.
    pub(super) fn wanted_interval(&self) -> Duration {
        (self.interval() * u64::from(self.packets)).div(u64::from(self.wanted.max(1)))
    }

    /// One flow has nearly all packets that want repair: a call's reports beside its voice are no second one.
    pub(super) fn is_single(&self) -> bool {
        let most = self.kinds.iter().max().copied().unwrap_or_default();
        most * 5 > self.wanted * 4
    }

    /// The mean length of packets that want repair by the longest.
    pub(super) fn evenness(&self) -> Option<f64> {
        let mean = self.bytes as f64 / f64::from(self.wanted.max(1));
        (self.wanted > 0).then(|| mean / self.longest.max(1) as f64)
    }
}
