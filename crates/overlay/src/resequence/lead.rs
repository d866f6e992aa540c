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
//! no receiver notices, until no packet waits any more. A gap that is given up delays packets by as much once, but
//! later packets do not wait for it again.

use base::{Duration, Time};

/// A repair is remembered for the present span and the one after. Choice: at 2 % loss and 50 packets/s, a repair occurs
/// every second.
const SPAN: Duration = Duration::from_secs(10);
/// Packets are handed over faster than they were sent by one part in this many: 450 ms are gone in half a minute.
const SLOW: u64 = 64;

/// The time left, and the values from which it follows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lead {
    /// The time left at the last release; `None` before the first.
    present: Option<(Duration, Time)>,
    /// The least time left on arrival, in the present span and the one before.
    least: Option<Duration>,
    before: Option<Duration>,
    began: Time,
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
        let most = self.least.into_iter().chain(self.before).min();
        let most = most.unwrap_or_default();
        match self.present {
            None => most,
            Some((left, then)) => (left + now.since(then).div(SLOW)).min(most),
        }
    }

    /// Notes that a packet is handed over with this time left.
    pub(super) fn on_release(&mut self, now: Time, left: Duration) {
        self.present = Some((self.at(now).min(left), now));
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
}
