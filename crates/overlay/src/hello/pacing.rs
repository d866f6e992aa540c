//! When the next hello is sent, and what it says.

use super::{HURRIED, Hello, ROW_GAP_HALVES, State, clock};
use base::{Duration, Time};
use wire::Loss;
use wire::control::{Echo, Hello as Message};

/// A stamp that was held for longer is not echoed: if two clocks differ by 100 ppm, as cheap clocks do, 2 s add 0.2 ms
/// to the measured round trip.
const LONGEST_HOLD: Duration = Duration::from_secs(2);

impl Hello {
    /// Returns whether the other end is heard. A link that was given up starts from nothing. So patience does no harm,
    /// and a few losses while the link comes up do not restart its row.
    pub(super) fn hears(&self, now: Time) -> bool {
        let row_gap = (self.peer_interval * ROW_GAP_HALVES).div(2);
        let patience = row_gap.max(self.settings.idle.down_after);
        self.state != State::Down || self.heard.is_some_and(|at| now.since(at) <= patience)
    }

    /// Returns the earliest moment for a hello that should not wait.
    pub(super) fn earliest(&self, now: Time) -> Time {
        let spaced = self.last_sent.map(|at| at + self.settings.spacing);
        spaced.map_or(now, |at| at.max(now))
    }

    /// Returns the time between regular hellos.
    pub(super) fn interval(&self) -> Duration {
        // Data that tries a silent link must not wait for a hello longer than necessary.
        let is_wanted = self.notices > 0 || self.row > 0 || self.is_tried() && self.active;
        match self.state {
            State::Down if is_wanted => self.settings.active.interval,
            State::Down => self.settings.idle.interval,
            State::Up | State::Probing => self.pace().interval,
        }
    }

    /// Returns the time between this hello and the next one, with probing and hurry taken into account.
    fn gap(&self, now: Time) -> Duration {
        let pace = self.pace();
        let regular = self.interval();
        let asked = now < self.answer_until;
        match self.state {
            State::Probing if now.since(self.silent_since()) >= self.hurry_after() => {
                pace.hurry_interval.min(regular)
            }
            State::Probing => pace.probe_interval.min(regular),
            // Questions get lost too, so answers go on between them, and as fast as they do.
            State::Up if asked && self.asked >= HURRIED => pace.hurry_interval.min(regular),
            State::Up if asked => pace.probe_interval.min(regular),
            // This is slower than the questions of an end that hears nothing, which would be answered in a hurry.
            State::Up if self.is_watched(now) => (pace.probe_interval * 3).div(2).min(regular),
            State::Up | State::Down => regular,
        }
    }

    pub(super) fn hello(&mut self, now: Time, loss_in: Loss) -> Message {
        let slow_peer = self.peer_interval > self.settings.active.interval * 2;
        let asks = match self.state {
            State::Probing => true,
            // The other end may not know yet that the link has become active.
            State::Up => {
                let differ = self.settings.active != self.settings.idle;
                // An answer does not ask in turn, or two ends that watch would never stop.
                self.is_watched(now) && !self.answering || self.active && slow_peer && differ
            }
            // The other end may not know either that this end is still down, if it is up and idle itself and the hellos
            // that would have completed the row are lost.
            State::Down => !self.answering && (self.row == 0 || self.row_falters(now)),
        };
        self.notices = self.notices.saturating_sub(1);
        let interval = self.interval();
        let hello = Message {
            i_hear_you: self.hears(now),
            answer_now: asks,
            closing: false,
            active: self
                .data_at
                .is_some_and(|at| now.since(at) < self.settings.active_for),
            interval_ms: interval.as_millis().min(u64::from(u16::MAX)) as u16,
            stamp_us: clock(now),
            echo: self.echo(now),
            loss_in,
            // The link sets these fields.
            takes_repair: false,
            knows_paths: false,
            lets_wait: false,
            doubts: self.state == State::Probing && self.active,
            boot: 0,
            arrived: 0,
            lost: 0,
        };
        self.answering = false;
        self.last_sent = Some(now);
        self.next_send = now + self.gap(now);
        hello
    }

    fn is_watched(&self, now: Time) -> bool {
        self.active && now < self.watched_until
    }

    /// The row that is about to bring the link up waits for a hello that seems to be lost.
    fn row_falters(&self, now: Time) -> bool {
        let pace = self.settings.active.interval;
        self.interval() <= pace && now.since(self.row_last) > pace + pace.div(2)
    }

    fn echo(&self, now: Time) -> Option<Echo> {
        let (stamp_us, at) = self.peer_stamp?;
        let hold = now.since(at);
        (hold <= LONGEST_HOLD).then(|| Echo {
            stamp_us,
            hold_us: hold.as_micros() as u32,
        })
    }
}
