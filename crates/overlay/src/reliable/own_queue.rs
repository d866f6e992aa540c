//! Whether the packets of a reliable lane make a queue in which the calls beside it wait.
//!
//! ```text
//!   in flight ÷ the most that was delivered per second ≥ the wait that these packets cause
//!
//!   a catch-up:    100 packets ÷ 50/s = 2 s,     round trips are 1 s longer: it may be their queue
//!   a longer path:   4 packets ÷ 50/s = 80 ms,   round trips are 400 ms longer: it is not
//! ```
//! A bottleneck delivers no less than it has delivered. So packets in flight cannot wait for longer than it takes to
//! deliver them at the highest rate of late, and a round trip that has grown by more has grown by something else: the
//! path has become longer, or others fill the queue. A lane that held back then would starve, and help nobody.
//!
//! Where the queue is its own, the lane gives up what stands in it, once per round trip: what a stream makes up for after
//! an outage is in time a little later as well, what a call says meanwhile is not.

use base::{Duration, Time};

/// So many round trips in a row are longer where a queue stands. Choice: as many as the brake takes.
const STANDING: usize = 3;
/// The highest rate of so much time counts, and of as much before it.
const WINDOW: Duration = Duration::from_secs(10);
/// A wait that is so many times longer than the own packets explain is not theirs. Choice: the calls beside are in the
/// queue too, and rates are measured to within a few packets.
const SLACK: f64 = 2.0;

/// The queue of one lane.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OwnQueue {
    /// Round trips from here on tell of a queue; none where no calls are beside.
    from: Option<Duration>,
    /// How many in a row have been longer because of the own packets.
    long_ones: usize,
    /// Packets per second: the most in this window, and in the one before.
    most: [f64; 2],
    since: Time,
}

impl OwnQueue {
    /// Round trips from here on tell of a queue in which calls wait.
    pub(super) fn set_from(&mut self, from: Option<Duration>) {
        self.from = from;
        if from.is_none() {
            self.long_ones = 0;
        }
    }

    /// A round trip was measured, with so many packets in flight, and at most a rate of delivery (packets per second). If
    /// the own queue stands, the packets that could be in flight without one.
    pub(super) fn on_round_trip(
        &mut self,
        now: Time,
        rtt: Duration,
        in_flight: usize,
        rate: Option<f64>,
    ) -> Option<f64> {
        if let Some(rate) = rate {
            self.note_rate(now, rate);
        }
        let most = self.most[0].max(self.most[1]);
        let own_from = self.from.filter(|from| {
            let wait = (rtt - *from).as_secs_f64();
            rtt > *from && wait * most <= SLACK * in_flight as f64
        });
        let Some(from) = own_from else {
            self.long_ones = 0;
            return None;
        };
        self.long_ones += 1;
        (self.long_ones >= STANDING).then(|| most * from.as_secs_f64())
    }

    /// A round trip without what the own queue adds.
    pub(super) fn without(&self, rtt: Duration) -> Duration {
        match self.from {
            Some(from) if self.long_ones > 0 => rtt.min(from),
            _ => rtt,
        }
    }

    fn note_rate(&mut self, now: Time, rate: f64) {
        if now.since(self.since) >= WINDOW {
            self.most = [0.0, self.most[0]];
            self.since = now;
        }
        self.most[0] = self.most[0].max(rate);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: Duration = Duration::from_millis(60);

    fn queue() -> OwnQueue {
        let mut queue = OwnQueue::default();
        queue.set_from(Some(FROM));
        queue
    }

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn a_catch_up_fills_a_queue_and_a_longer_path_does_not() {
        let long = Duration::from_millis(460);
        let mut queue = queue();
        assert_eq!(queue.on_round_trip(at(0), FROM, 4, Some(50.0)), None);
        // 100 packets take two seconds of the path, and 3 would make no queue.
        let stands = [1, 2, 3].map(|n| queue.on_round_trip(at(n), long, 100, Some(50.0)));
        assert_eq!(stands, [None, None, Some(3.0)]);
        assert_eq!(queue.without(long), FROM);
        // 4 packets take 80 ms, not 400.
        assert!((4..20).all(|n| queue.on_round_trip(at(n), long, 4, Some(50.0)).is_none()));
        assert_eq!(queue.without(long), long);
    }

    #[test]
    fn rates_are_forgotten_and_without_calls_there_is_no_queue() {
        let long = Duration::from_millis(160);
        let mut queue = queue();
        assert_eq!(queue.on_round_trip(at(0), long, 10, Some(1_000.0)), None);
        assert_eq!(queue.without(long), long, "10 packets take 10 ms");
        for n in 1..4 {
            queue.on_round_trip(at(n * 10_000), long, 10, Some(50.0));
        }
        assert_eq!(queue.without(long), FROM, "now they take 200 ms");
        queue.set_from(None);
        assert_eq!(queue.on_round_trip(at(30_001), long, 10, Some(50.0)), None);
        assert_eq!(queue.without(long), long);
    }
}
