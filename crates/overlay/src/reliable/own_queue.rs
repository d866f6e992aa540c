//! Finds out whether the packets of a reliable lane make a queue in which the calls beside it wait.
//!
//! ```text
//!   in flight ÷ the most that was delivered per second ≥ the wait that these packets cause
//!
//!   a catch-up:    100 packets ÷ 50/s = 2 s,     round trips are 1 s longer: it may be their queue
//!   a longer path:   4 packets ÷ 50/s = 80 ms,   round trips are 400 ms longer: it is not
//! ```
//! A bottleneck delivers no less than it has delivered. So packets in flight cannot wait for longer than it takes to
//! deliver them at the highest recent rate. A round trip that has grown by more has another cause: the path has become
//! longer, or other traffic fills the queue. A lane that held back then would starve without helping anybody.
//!
//! If the sources sent less than the path carries, the lane cannot recognize a longer path this way. But a queue gets
//! shorter when the lane sends less. If the wait does not get shorter, it is not a queue.
//!
//! If the queue consists of its own packets, the lane reduces its window by the packets in the queue, once per round
//! trip. After an outage, the data of a stream may arrive a little later and is still of use; the speech of a call is
//! not.

use base::{Duration, Time};

/// A queue is standing when this many round trips in a row are longer. Choice: the same number as the brake uses.
const STANDING: usize = 3;
/// The highest rate of this period counts, and that of the period before it.
const WINDOW: Duration = Duration::from_secs(10);
/// If the wait has not become shorter, it does not count as a queue for this long. Choice: by then the lane knows that
/// the earlier, shorter round trips are over.
const NONE_FOR: Duration = Duration::from_secs(3);
/// A wait of at least this length has to become shorter when the lane sends less. Choice: round trips vary by less than
/// this anyway.
const JUDGED: Duration = Duration::from_millis(20);

/// The queue of one lane.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OwnQueue {
    /// Round trips longer than this indicate a queue. None if there are no calls beside the lane.
    from: Option<Duration>,
    /// How many round trips in a row have been longer because of the lane's own packets.
    long_ones: usize,
    /// The highest rate, in packets per second, in this period and in the one before.
    most: [f64; 2],
    since: Time,
    /// When the lane began to send less, and how long packets waited then.
    asked: Option<(Time, Duration)>,
    none_until: Time,
}

impl OwnQueue {
    /// Sets the round trip from which on calls wait in a queue.
    pub(super) fn set_from(&mut self, from: Option<Duration>) {
        self.from = from;
        if from.is_none() {
            self.long_ones = 0;
        }
    }

    /// Takes a measured round trip, the number of packets in flight, and the rate of delivery (packets per second) if
    /// it is known. If the lane's own queue is standing, returns the number of packets that could be in flight without
    /// a queue.
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
            rtt > *from && wait * most <= in_flight as f64
        });
        let Some(from) = own_from.filter(|_| now >= self.none_until) else {
            (self.long_ones, self.asked) = (0, None);
            return None;
        };
        self.long_ones += 1;
        if self.long_ones < STANDING || !self.answers(now, rtt, rtt - from) {
            return None;
        }
        Some(most * from.as_secs_f64())
    }

    /// Whether the wait has become shorter since the lane sends less, as far as that can be known yet.
    fn answers(&mut self, now: Time, rtt: Duration, wait: Duration) -> bool {
        let (at, before) = *self.asked.get_or_insert((now, wait));
        if before < JUDGED || now.since(at) < rtt * 2 {
            return true;
        }
        let has_fallen = wait < before.div(4) * 3;
        self.asked = has_fallen.then_some((now, wait));
        if !has_fallen {
            self.long_ones = 0;
            self.none_until = now + NONE_FOR;
        }
        has_fallen
    }

    /// Returns a round trip without the delay of the lane's own queue.
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
        // 100 packets take two seconds on this path, and 3 packets would make no queue.
        let stands = [1, 2, 3].map(|n| queue.on_round_trip(at(n), long, 100, Some(50.0)));
        assert_eq!(stands, [None, None, Some(3.0)]);
        assert_eq!(queue.without(long), FROM);
        // 4 packets take 80 ms, not 400 ms.
        assert!((4..20).all(|n| queue.on_round_trip(at(n), long, 4, Some(50.0)).is_none()));
        assert_eq!(queue.without(long), long);
    }

    #[test]
    fn what_does_not_answer_is_no_queue() {
        let long = Duration::from_millis(460);
        let mut queue = queue();
        let mut stands = |ms, rtt| queue.on_round_trip(at(ms), rtt, 30, Some(50.0)).is_some();
        assert!([0, 10, 20, 900].map(|ms| stands(ms, long))[3]);
        assert!(
            !stands(1_000, long),
            "30 packets do take 400 ms, but fewer as well"
        );
        assert!(![1_010, 1_020, 1_030].map(|ms| stands(ms, long))[2]);
        // Later it may count as a queue again.
        assert!([4_010, 4_020, 4_030].map(|ms| stands(ms, long))[2]);
        assert!([5_000, 5_100].map(|ms| stands(ms, long.div(2)))[1]);
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
