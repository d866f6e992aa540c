//! Whether packets from the neighbour are in trouble: what the alarms of its paths report, and what this node reports
//! to others.

use super::{Link, Path};
use base::{Duration, Time};

/// How long an alarm stays reported. Choice: the receivers of an alarm keep it for as long anyway, and if all links
/// lose packets now and then, each link reports at most one alarm in this time.
const TOLD_FOR: Duration = Duration::from_secs(10);

impl Link {
    /// Checks whether packets from the neighbour are in trouble, or no longer are. Returns true if others are to be
    /// notified. To be called about once per second.
    pub(crate) fn look_for_trouble(&mut self, now: Time) -> bool {
        for path in self.paths_mut() {
            path.alarm.look(now, path.loss.position());
        }
        self.tells_alarm(now) != self.alarm_told.is_some()
    }

    /// Returns true if others are to know of an alarm: one is on, or was reported a short time ago.
    pub(crate) fn tells_alarm(&self, now: Time) -> bool {
        let is_fresh = |at: Time| now.since(at) < TOLD_FOR;
        // Packets arrive by a spare if the neighbour has it in use.
        let is_on = |path: &Path| path.alarm.is_on() && path.hello.is_active();
        let is_on = self.path.alarm.is_on() || self.spares.iter().any(is_on);
        is_on || self.alarm_told.is_some_and(is_fresh)
    }

    /// This node reports its alarm to others now.
    pub(crate) fn on_alarm_told(&mut self, now: Time) {
        self.alarm_told = match self.tells_alarm(now) {
            true => self.alarm_told.or(Some(now)),
            false => None,
        };
    }
}
