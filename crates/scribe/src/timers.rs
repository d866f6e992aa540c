//! The seven timers of a node.

use base::Time;

/// On whose behalf a timeout is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// Heart-beats to leaves, parents; silence of all neighbours.
    Beat,
    /// Entering the ring.
    Enter,
    /// Joins and Leaves that wait for others.
    Flush,
    /// Questions for roots.
    Locate,
    /// Questions to nodes that shall enter the leaf set.
    Probe,
    /// Joins without an answer.
    Retry,
    /// A row of the routing table is compared with another node's.
    Upkeep,
}

const ALL: [(Timer, &str); 7] = [
    (Timer::Beat, "scribe beat"),
    (Timer::Enter, "scribe enter"),
    (Timer::Flush, "scribe flush"),
    (Timer::Locate, "scribe locate"),
    (Timer::Probe, "scribe probe"),
    (Timer::Retry, "scribe retry"),
    (Timer::Upkeep, "scribe upkeep"),
];

/// When each is due.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timers([Option<Time>; ALL.len()]);

impl Timers {
    /// Due at `at`, whatever was before; `None` for never.
    pub(crate) fn set(&mut self, timer: Timer, at: Option<Time>) {
        self.0[timer as usize] = at;
    }

    /// Due at `at`, or earlier if it was before.
    pub(crate) fn at_most(&mut self, timer: Timer, at: Time) {
        let slot = &mut self.0[timer as usize];
        *slot = Some(slot.map_or(at, |before| before.min(at)));
    }

    pub(crate) fn is_set(&self, timer: Timer) -> bool {
        self.0[timer as usize].is_some()
    }

    /// Takes one that is due.
    pub(crate) fn take_due(&mut self, now: Time) -> Option<Timer> {
        let (timer, _) = ALL
            .iter()
            .find(|(timer, _)| self.0[*timer as usize].is_some_and(|at| at <= now))?;
        self.0[*timer as usize] = None;
        Some(*timer)
    }

    /// The earliest.
    pub(crate) fn next(&self) -> Option<(Time, &'static str)> {
        let armed = ALL
            .iter()
            .filter_map(|(timer, name)| self.0[*timer as usize].map(|at| (at, *name)));
        armed.min()
    }
}
