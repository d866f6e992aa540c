//! How much time packets have left when they are handed over at their sender's pace.
//!
//! ```text
//!   left on arrival   480 480 480 390 480 480 ... 480 ...        390: repaired, 90 ms late
//!   handed over with  480 480 480 390 390 390 ... 390 ... 400 .. 480
//!                                 at once         while the repair is remembered, then slowly
//! ```
//! All packets are handed over with the same time left. The less time is left, the later they are. If nothing is
//! repaired, no packet waits. After a repair, all packets wait as long as the repair took, so that the next repair
//! causes no gap. When no repair has occurred for a while, the flow becomes faster than its sender by a fraction that
//! no receiver notices, until no packet waits any more.
//!
//! A gap that is given up delays the packets behind it up to their deadline. If it is the only one for a while, the flow
//! then leaves twice as fast as it was sent, until no packet waits any more: a receiver has noticed the gap anyway, and
//! this is no burst. If gaps are frequent, the flow becomes faster by the small fraction only, so that the next gap
//! interrupts it for a shorter time.

use base::{Duration, Time};

/// A repair is remembered for the present span and the one after. Choice: at 2 % loss and 50 packets/s, a repair occurs
/// every second.
const SPAN: Duration = Duration::from_secs(10);
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
    /// The least time left on arrival, in the present span and the one before.
    least: Option<Duration>,
    before: Option<Duration>,
    began: Time,
    /// When a gap was last given up.
    gap: Option<Time>,
    /// The flow leaves at twice its sender's pace.
    hurries: bool,
}

impl Lead {
    /// Notes a packet that arrives with this time left.
    pub(super) fn on_arrival(&mut self, now: Time, left: Duration) {
        let age = now.since(self.began);
        if age >= SPAN {
            self.before = self.least.filter(|_| age < SPAN * 2);
            self.least = None;
            self.began = now;
        }
        self.least = Some(self.least.map_or(left, |least| least.min(left)));
    }

    /// Returns the time left with which packets are to be handed over now.
    pub(super) fn at(&self, now: Time) -> Duration {
        let most = self.most();
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
        self.hurries &= present < self.most();
        self.present = Some((present, now));
    }

    /// Returns the time left with which no packet waits, except for a repair like those of late.
    fn most(&self) -> Duration {
        let least = self.least.into_iter().chain(self.before).min();
        least.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn a_repair_makes_all_wait_and_is_forgotten_slowly() {
        let mut lead = Lead::default();
        let mut now = Time::ZERO;
        let mut step = |lead: &mut Lead, left| {
            now += ms(10);
            lead.on_arrival(now, left);
            let present = lead.at(now).min(left);
            lead.on_release(now, present);
            present
        };
        for _ in 0..100 {
            assert_eq!(step(&mut lead, ms(480)), ms(480));
        }
        assert_eq!(step(&mut lead, ms(390)), ms(390));
        let mut all = Vec::new();
        for _ in 0..6_000 {
            all.push(step(&mut lead, ms(480)));
        }
        assert!(all[..900].iter().all(|left| *left == ms(390)), "remembered");
        assert!(all.is_sorted(), "one way back");
        assert!(all.windows(2).all(|w| w[1] - w[0] <= ms(10).div(SLOW)));
        assert_eq!(all[5_999], ms(480));
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
