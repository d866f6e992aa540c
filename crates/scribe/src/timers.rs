//! The seven timers of a node.

use base::Time;

/// The purpose of a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// Heartbeats to leaves and parents, and the check for silent neighbors.
    Beat,
    /// Entering the ring.
    Enter,
    /// Joins and Leaves that wait for further ones.
    Flush,
    /// Questions for roots.
    Locate,
    /// Questions to nodes that will enter the leaf set.
    Probe,
    /// Joins without an answer.
    Retry,
    /// Comparison of a routing table row with another node's.
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

/// When each timer is due.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timers([Option<Time>; ALL.len()]);

impl Timers {
    /// Sets a timer to `at`, whatever it was before; `None` stops it.
    pub(crate) fn set(&mut self, timer: Timer, at: Option<Time>) {
        self.0[timer as usize] = at;
    }

    /// Sets a timer to `at`, unless it is due earlier.
    pub(crate) fn at_most(&mut self, timer: Timer, at: Time) {
        let slot = &mut self.0[timer as usize];
        *slot = Some(slot.map_or(at, |before| before.min(at)));
    }

    pub(crate) fn is_set(&self, timer: Timer) -> bool {
        self.0[timer as usize].is_some()
    }

    /// Returns a timer that is due, and clears it.
    pub(crate) fn take_due(&mut self, now: Time) -> Option<Timer> {
        let (timer, _) = ALL
            .iter()
            .find(|(timer, _)| self.0[*timer as usize].is_some_and(|at| at <= now))?;
        self.0[*timer as usize] = None;
        Some(*timer)
    }

    /// Returns the earliest timer.
    pub(crate) fn next(&self) -> Option<(Time, &'static str)> {
        let armed = ALL
            .iter()
            .filter_map(|(timer, name)| self.0[*timer as usize].map(|at| (at, *name)));
        armed.min()
    }
}
