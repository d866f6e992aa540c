//! Whether what comes from the neighbour is in trouble: the link's losses, as its [`Alarm`](crate::alarm::Alarm) is told
//! of them.

use super::Link;
use base::{Duration, Time};

/// Hellos that are so much later than usual have stood in a queue. Choice: what the brake takes for one (`brake_queue_floor`).
const QUEUED: Duration = Duration::from_millis(10);
/// An alarm that others were told of stays told for so long. Choice: they hold it for as long anyway, and where all links
/// lose now and then, each link tells of at most one in this time.
const TOLD_FOR: Duration = Duration::from_secs(10);

impl Link {
    /// Runs of losses have begun, or have turned out to be none; true if that gives an alarm.
    #[cold]
    pub(super) fn note_runs(&mut self, now: Time) -> bool {
        let was_on = self.alarm.is_on();
        let begun = self.loss.begun();
        for _ in begun..self.runs_seen {
            match self.runs_untold.checked_sub(1) {
                Some(fewer) => self.runs_untold = fewer,
                None => self.alarm.on_taken_back(),
            }
        }
        let news = begun.saturating_sub(self.runs_seen);
        self.runs_seen = begun;
        // A queue that is full loses packets too, and more of them do not make it shorter: that is for the brake. And of an
        // idle link nobody needs to know at once.
        if self.is_queued_here() || !self.hello.is_active() {
            self.runs_untold += news;
            return false;
        }
        if news > 0 {
            self.runs_untold = 0;
        }
        let run = self.loss.run();
        for at in self.loss.last_begun(news) {
            self.alarm.on_run(now, at, run);
        }
        self.alarm.is_on() && !was_on && self.alarm_told.is_none()
    }

    /// The neighbour's packets wait in a queue on the way here, as far as its hellos tell.
    fn is_queued_here(&self) -> bool {
        let jitter = self.hello.rtt().deviation() * 2;
        self.inbound.excess() > QUEUED + jitter
    }

    /// Looks whether what comes from the neighbour is in trouble, or is no more; true if others are to be told. To be called
    /// about once per second.
    pub(crate) fn look_for_trouble(&mut self, now: Time) -> bool {
        self.alarm.look(now, self.loss.position());
        self.tells_alarm(now) != self.alarm_told.is_some()
    }

    /// Others are to know of an alarm: of one that is on, or that they were told of a short time ago.
    pub(crate) fn tells_alarm(&self, now: Time) -> bool {
        let is_fresh = |at: Time| now.since(at) < TOLD_FOR;
        self.alarm.is_on() || self.alarm_told.is_some_and(is_fresh)
    }

    /// Others are told now.
    pub(crate) fn on_alarm_told(&mut self, now: Time) {
        self.alarm_told = match self.tells_alarm(now) {
            true => self.alarm_told.or(Some(now)),
            false => None,
        };
    }
}
