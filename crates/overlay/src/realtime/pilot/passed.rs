//! The packets that passed on a lane in a second: how they follow each other and, for those that are to be repaired,
//! the time that they have, their lengths, and whether they belong to one flow.
//!
//! A packet of any flow reveals the loss of the one before it. All else comes only from packets that want repair. The
//! other packets are not covered, and must not influence the plan for those that are.

use super::spacing::Spacing;
use super::wishes::{Wish, Wishes};
use super::{Aims, SLACK_LEAST};
use base::{Duration, Time};

/// How long an answer is useful for a packet without a deadline.
const NO_DEADLINE: Duration = Duration::from_millis(500);
/// The shortest pause. A pause does not count as a distance of packets.
const PAUSE: Duration = Duration::from_millis(150);
/// Number of kinds of flows that are distinguished by a hash: enough to distinguish one flow from several.
const KINDS: usize = 32;

/// A packet that is sent. [`super::Pilot::on_sent`] explains the fields.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    pub(super) bytes: usize,
    pub(super) slack: Option<Duration>,
    pub(super) flow: u64,
    pub(super) wish: Option<Wish>,
}

/// The packets that passed in a second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Passed {
    /// Number of all packets, and of those that want repair.
    pub(super) packets: u32,
    pub(super) wanted: u32,
    /// The least time that a packet had left after its path: among the packets that want repair and had time, and among
    /// those that want no repair and had time.
    pub(super) slack: Option<Duration>,
    pub(super) unwanted_slack: Option<Duration>,
    pub(super) spacing: Spacing,
    pub(super) wishes: Wishes,
    gaps: Duration,
    gaps_counted: u32,
    last: Time,
    /// The bytes of packets that want repair, the longest of these packets, and their number for each kind of flow.
    bytes: u64,
    longest: usize,
    kinds: [u32; KINDS],
}

impl Passed {
    /// Notes a packet on a lane that loses this share. Returns the time that the packet has left if it wants repair and
    /// repair can be in time.
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

    /// Returns the packets of this second, and begins the next one.
    pub(super) fn take(&mut self) -> Passed {
        let next = Passed {
            last: self.last,
            ..Passed::default()
        };
        core::mem::replace(self, next)
    }

    /// Returns the mean distance of packets.
    pub(super) fn interval(&self) -> Duration {
        match self.gaps_counted {
            0 => Duration::from_millis(20),
            n => self.gaps.div(u64::from(n)).max(Duration::from_micros(1)),
        }
    }

    /// Returns the mean distance of packets that want repair.
    pub(super) fn wanted_interval(&self) -> Duration {
        (self.interval() * u64::from(self.packets)).div(u64::from(self.wanted.max(1)))
    }

    /// Returns true if nearly all packets that want repair belong to one flow: a call's reports beside its voice are
    /// not a second flow.
    pub(super) fn is_single(&self) -> bool {
        let most = self.kinds.iter().max().copied().unwrap_or_default();
        most * 5 > self.wanted * 4
    }

    /// Returns the mean length of packets that want repair, divided by the longest.
    pub(super) fn evenness(&self) -> Option<f64> {
        let mean = self.bytes as f64 / f64::from(self.wanted.max(1));
        (self.wanted > 0).then(|| mean / self.longest.max(1) as f64)
    }
}
