//! How much time packets have left when they are handed over at their sender's pace.
//!
//! ```text
//!   left on arrival   480 390 480 480 ... 480 390 480 480 ... 480 ...        390: repaired, 90 ms late
//!   handed over with  480 390 400 410 ... 480 390 390 390 ... 390 ... 400 .. 480
//!                         at once, soon again  while repairs are remembered, then slowly
//! ```
//! All packets are handed over with the same time left. The less time is left, the later they are. If nothing is
//! repaired, no packet waits. A single late packet is made up for soon: a receiver has noticed it anyway. After a
//! second one within 16 s, all packets wait as long as the longest repair took, so that the next one causes no gap.
//! When no repair has occurred for a while, the flow becomes faster than its sender by a fraction that no receiver
//! notices, until no packet waits any more.
//!
//! A flow may begin late, because its first packets wait for a key or for a path. It does not stay late for that.
//!
//! A gap that is given up delays the packets behind it up to their deadline. If it is the only one for a while, the
//! flow then leaves twice as fast as it was sent, until no packet waits any more: a receiver has noticed the gap
//! anyway, and this is no burst. If gaps are frequent, the flow becomes faster by the small fraction only, so that the
//! next gap interrupts it for a shorter time.

use base::{Duration, Time};

/// The least time left is remembered per window. Packets of the same disturbance arrive in one window or in two that
/// follow each other.
const WINDOW: Duration = Duration::from_millis(500);
/// Number of windows that are remembered. Choice: at 0.3 % loss and 50 packets/s, a repair occurs every seven seconds,
/// so two of them are remembered.
const WINDOWS: usize = 32;
/// A disturbance is a single one if it made packets at least this many times as late as all others are. Choice: on a
/// path that loses packets, a packet that is lost twice is two to three times as late as one that is lost once.
const SINGLE: u64 = 4;
/// Packets are handed over faster than they were sent by one part in this many: 450 ms are gone in half a minute.
const SLOW: u64 = 64;
/// A gap is the only one if the one before was given up at least this long ago. Choice: as long as it takes to make up
/// for a gap of 450 ms slowly.
const ALONE: Duration = Duration::from_secs(30);

/// The time left, and the values from which it follows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lead {
    /// The time left at the last release; `None` before the first.
    present: Option<(Duration, Time)>,
    /// The least and the most time left on arrival in each of the last windows: window `n` is at `n % WINDOWS`.
    seen: [Option<(Duration, Duration)>; WINDOWS],
    /// The number of the present window.
    window: u64,
    /// The time left with which no packet waits, except for a repair like the recent ones.
    most: Duration,
    /// When a gap was last given up.
    gap: Option<Time>,
    /// The flow leaves at twice its sender's pace.
    hurries: bool,
}

impl Lead {
    /// Notes a packet that arrives with this time left.
    pub(super) fn on_arrival(&mut self, now: Time, left: Duration) {
        let window = now.since(Time::ZERO).as_micros() / WINDOW.as_micros();
        let is_new = window != self.window;
        if is_new {
            for empty in (self.window + 1..=window).take(WINDOWS) {
                self.seen[place(empty)] = None;
            }
            self.window = window;
        }
        let seen = &mut self.seen[place(window)];
        let is_less = seen.is_none_or(|(least, _)| left < least);
        *seen = Some(seen.map_or((left, left), |(least, most)| {
            (least.min(left), most.max(left))
        }));
        if is_new || is_less {
            self.most = self.usual();
        }
        // It is later than the recent packets and delays those behind it, or the flow began late. Such a beginning may
        // lie in two windows.
        let is_young = is_new && matches!(self.seen.iter().flatten().count(), 2 | 3);
        self.hurries |= left < self.most && left < self.at(now) || is_young;
    }

    /// Returns the time left with which packets are to be handed over now.
    pub(super) fn at(&self, now: Time) -> Duration {
        let most = self.most;
        match self.present {
            None => most,
            Some((left, then)) if self.hurries => (left + now.since(then)).min(most),
            Some((left, then)) => (left + now.since(then).div(SLOW)).min(most),
        }
    }

    /// Notes that the flow no longer waits for missing packets.
    pub(super) fn on_gap(&mut self, now: Time) {
        let before = self.gap.replace(now);
        self.hurries = before.is_none_or(|before| now.since(before) >= ALONE);
    }

    /// Notes that a packet is handed over with this time left.
    pub(super) fn on_release(&mut self, now: Time, left: Duration) {
        let present = self.at(now).min(left);
        self.hurries &= present < self.most;
        self.present = Some((present, now));
    }

    /// Returns the least time left of all windows. A single disturbance does not count: the window with the least time
    /// and its neighbours, if the packets of all others were much less late.
    fn usual(&self) -> Duration {
        let seen = |back: u64| self.seen[place(self.window.checked_sub(back)?)];
        let all = || (0..WINDOWS as u64).filter_map(|back| Some((seen(back)?, back)));
        let (Some(((least, _), worst)), Some(most)) =
            (all().min(), all().map(|((_, most), _)| most).max())
        else {
            return Duration::ZERO;
        };
        let others = all().filter(|(_, back)| back.abs_diff(worst) > 1);
        match others.map(|((least, _), _)| least).min() {
            None => all().map(|((least, _), _)| least).max().unwrap_or(least),
            Some(usual) if (most - usual) * SINGLE <= most - least => usual,
            Some(_) => least,
        }
    }

    /// Returns true while the flow leaves at twice its sender's pace.
    pub(super) fn hurries(&self) -> bool {
        self.hurries
    }
}

/// Returns the place of a window.
const fn place(window: u64) -> usize {
    (window % WINDOWS as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// A flow of a packet every 10 ms.
    #[derive(Default)]
    struct Steps {
        lead: Lead,
        now: Time,
    }

    impl Steps {
        /// A packet arrives with this time left. Returns the time left with which it is handed over.
        fn step(&mut self, left: Duration) -> Duration {
            self.now += ms(10);
            self.lead.on_arrival(self.now, left);
            let present = self.lead.at(self.now).min(left);
            self.lead.on_release(self.now, present);
            present
        }

        fn steps(&mut self, count: usize, left: Duration) -> Vec<Duration> {
            (0..count).map(|_| self.step(left)).collect()
        }
    }

    #[test]
    fn a_single_repair_is_made_up_for_and_two_make_all_wait_and_are_forgotten_slowly() {
        let mut flow = Steps::default();
        assert!(flow.steps(300, ms(480)).iter().all(|left| *left == ms(480)));
        assert_eq!(flow.step(ms(390)), ms(390));
        let after = flow.steps(300, ms(480));
        assert_eq!(after[..3], [ms(400), ms(410), ms(420)]);
        assert!(after[9..].iter().all(|left| *left == ms(480)));
        assert_eq!(flow.step(ms(390)), ms(390));
        let all = flow.steps(6_000, ms(480));
        assert!(
            all[..1_250].iter().all(|left| *left == ms(390)),
            "remembered"
        );
        assert!(all.is_sorted(), "one way back");
        assert!(all.windows(2).all(|w| w[1] - w[0] <= ms(10).div(SLOW)));
        assert_eq!(all[5_999], ms(480));
    }

    #[test]
    fn what_is_repaired_behind_one_of_many_gaps_makes_no_hurry() {
        let (mut lead, mut now) = (Lead::default(), Time::ZERO);
        lead.on_arrival(now, ms(480));
        after_a_gap(&mut lead, &mut now, 500);
        lead.on_gap(now);
        lead.on_release(now, Duration::ZERO);
        for left in [5, 50, 100] {
            lead.on_arrival(now, ms(left));
            lead.on_release(now, ms(left));
        }
        now += ms(640);
        assert_eq!(lead.at(now), ms(10), "1/64");
    }

    #[test]
    fn a_late_beginning_across_a_boundary_is_made_up_for() {
        let mut flow = Steps::default();
        flow.steps(48, ms(330));
        flow.step(ms(400));
        let after = flow.steps(150, ms(480));
        assert_eq!(after[149], ms(480));
        assert!(after.windows(2).all(|w| w[1] - w[0] <= ms(10)), "no burst");
    }

    #[test]
    fn a_flow_that_begins_late_does_not_stay_so() {
        let mut flow = Steps::default();
        assert_eq!(flow.step(ms(180)), ms(180));
        let after = flow.steps(200, ms(480));
        assert!(after[..47].iter().all(|left| *left == ms(180)));
        assert_eq!(after[90], ms(480), "after the first window and 300 ms");
        assert!(after.windows(2).all(|w| w[1] - w[0] <= ms(10)), "no burst");
    }

    #[test]
    fn one_disturbance_at_the_end_of_a_window_is_one() {
        let mut flow = Steps::default();
        flow.steps(495, ms(480));
        flow.steps(10, ms(390));
        let after = flow.steps(100, ms(480));
        assert_eq!(after[99], ms(480));
    }

    /// Gives up a gap, and returns the times left of the packets behind it, one every 10 ms.
    fn after_a_gap(lead: &mut Lead, now: &mut Time, packets: usize) -> Vec<Duration> {
        lead.on_gap(*now);
        lead.on_release(*now, Duration::ZERO);
        let step = |_| {
            *now += ms(10);
            lead.on_arrival(*now, ms(480));
            lead.on_release(*now, ms(480));
            lead.at(*now)
        };
        (0..packets).map(step).collect()
    }

    #[test]
    fn a_single_gap_is_made_up_for_soon_and_one_of_many_slowly() {
        let (mut lead, mut now) = (Lead::default(), Time::ZERO);
        lead.on_arrival(now, ms(480));
        let first = after_a_gap(&mut lead, &mut now, 500);
        assert_eq!(
            (first[23], first[47], first[499]),
            (ms(240), ms(480), ms(480))
        );
        let second = after_a_gap(&mut lead, &mut now, 4_000);
        assert_eq!(second[63], ms(10), "the gap before was 5 s ago");
        assert_eq!(second[3_999], ms(480));
        let third = after_a_gap(&mut lead, &mut now, 48);
        assert_eq!(third[47], ms(480), "the gap before was 40 s ago");
    }
}
