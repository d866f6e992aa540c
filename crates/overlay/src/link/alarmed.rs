//! Whether what comes from the neighbour is in trouble: what the alarms of its paths say, and what others are told.

use super::{Link, Path};
use base::{Duration, Time};

/// An alarm that others were told of stays told for so long. Choice: they hold it for as long anyway, and where all links
/// lose now and then, each link tells of at most one in this time.
const TOLD_FOR: Duration = Duration::from_secs(10);

impl Link {
    /// Looks whether what comes from the neighbour is in trouble, or is no more; true if others are to be told. To be called
    /// about once per second.
    pub(crate) fn look_for_trouble(&mut self, now: Time) -> bool {
        for path in self.paths_mut() {
            path.alarm.look(now, path.loss.position());
        }
        self.tells_alarm(now) != self.alarm_told.is_some()
    }

    /// Others are to know of an alarm: of one that is on, or that they were told of a short time ago.
    pub(crate) fn tells_alarm(&self, now: Time) -> bool {
        let is_fresh = |at: Time| now.since(at) < TOLD_FOR;
        // By a spare packets come if the neighbour has it in use.
        let is_on = |path: &Path| path.alarm.is_on() && path.hello.is_active();
        let is_on = self.path.alarm.is_on() || self.spares.iter().any(is_on);
        is_on || self.alarm_told.is_some_and(is_fresh)
    }

    /// Others are told now.
    pub(crate) fn on_alarm_told(&mut self, now: Time) {
        self.alarm_told = match self.tells_alarm(now) {
            true => self.alarm_told.or(Some(now)),
            false => None,
        };
    }
}
