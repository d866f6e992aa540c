//! The limit of bursts. After a gateway or its node has not run for a moment, everything that is due is there at once.
//! The socket of a player with default buffers takes some 90 datagrams, and the player may not run at once either. So
//! what is due leaves at twice the rate of the stream.
//!
//! ```text
//!   comes    ▪ ▪ ▪ ▪ ▪ ▪            ▪▪▪▪▪▪▪▪ ▪ ▪ ▪
//!   leaves   ▪ ▪ ▪ ▪ ▪ ▪            ▪ ▪▪▪▪▪▪▪▪ ▪ ▪ ▪
//! ```

use base::{Duration, Time};

/// The rate is the largest of this many windows.
const WINDOWS: usize = 4;
/// The length of a window. Choice: longer than a host stalls, so that a stall and what follows are in one window.
const WINDOW: Duration = Duration::from_millis(250);
/// Packets leave at most at this multiple of the rate.
const TIMES_RATE: u64 = 2;
/// The multiple is at least this many packets per second. Choice: a default socket takes as much in 18 ms, and a
/// picture of 30 packets leaves within 6 ms, whatever the rate of the stream.
const RATE_LEAST: u64 = 5_000;
/// The multiple until the rate is known, in packets per second.
const RATE_AT_START: u64 = 64_000;
/// The number of packets that may leave together. Choice: a sixth of what a default socket takes.
const BURST: u64 = 16;
/// More packets than [`BURST`] leave together if they leave within this time at the multiple of the rate: the thread
/// does not sleep for less.
const STEP: Duration = Duration::from_micros(500);

/// The pace of one stream.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// The number of the present window, since the clock began.
    window: u64,
    counts: [u64; WINDOWS],
    /// When the packets that have left would have left one by one at the highest rate.
    next: Time,
}

impl Pace {
    /// Counts a packet. Returns how long it has to wait.
    pub(super) fn wait(&mut self, now: Time) -> Duration {
        self.count(now);
        let second = Duration::from_secs(1);
        let gap = second.div(self.rate_most());
        self.next = self.next.max(now) + gap;
        let ahead = self.next.since(now);
        let allowed = (gap * BURST).max(STEP);
        match ahead > allowed {
            // Half, so that the thread does not sleep for each packet.
            true => ahead - allowed.div(2),
            false => Duration::ZERO,
        }
    }

    fn count(&mut self, now: Time) {
        let window = now.as_nanos() / WINDOW.as_nanos();
        let passed = window.saturating_sub(self.window).min(WINDOWS as u64);
        for ago in 0..passed {
            self.counts[(window - ago) as usize % WINDOWS] = 0;
        }
        self.window = window;
        self.counts[window as usize % WINDOWS] += 1;
    }

    /// Returns the most packets per second.
    fn rate_most(&self) -> u64 {
        let present = self.window as usize % WINDOWS;
        let complete = (0..WINDOWS).filter(|at| *at != present);
        let most = complete.map(|at| self.counts[at]).max().unwrap_or(0);
        match most * (1_000_000_000 / WINDOW.as_nanos()) {
            0 => RATE_AT_START,
            rate => (rate * TIMES_RATE).max(RATE_LEAST),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START_US: u64 = 1_000_000;

    /// Passes packets on that are due at these times, and returns when they leave.
    fn pass(due: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let mut pace = Pace::default();
        let mut now_us = START_US;
        let mut left = Vec::new();
        for due_us in due {
            now_us = now_us.max(START_US + due_us);
            let wait = pace.wait(Time::from_nanos(now_us * 1_000));
            now_us += wait.as_nanos().div_ceil(1_000);
            left.push(now_us - START_US);
        }
        left
    }

    /// The most packets that leave within this time.
    fn most_within(left: &[u64], us: u64) -> usize {
        let near = |at: usize| left[at..].iter().take_while(move |to| **to < left[at] + us);
        (0..left.len())
            .map(|at| near(at).count())
            .max()
            .unwrap_or(0)
    }

    #[test]
    fn what_is_due_after_a_stall_leaves_at_twice_the_rate() {
        // 5000 packets/s, whose gateway does not run for 100 ms.
        let stall = 2_000_000..2_100_000;
        let due = (0..20_000).map(|n| n * 200);
        let late = due.map(|at| if stall.contains(&at) { stall.end } else { at });
        let left = pass(late);
        assert_eq!(
            left[..10_000],
            (0..10_000).map(|n| n * 200).collect::<Vec<_>>()
        );
        let most = most_within(&left, 5_000);
        assert!(most <= 70, "{most} packets in 5 ms");
        assert_eq!(
            left[11_500..],
            (11_500..20_000).map(|n| n * 200).collect::<Vec<_>>()
        );
    }

    #[test]
    fn steady_streams_never_wait_and_slow_ones_may_send_pictures() {
        for gap_us in [16, 20, 100, 1_000, 100_000] {
            let due: Vec<_> = (0..100_000).map(|n| n * gap_us).collect();
            assert_eq!(pass(due.iter().copied()), due, "{gap_us} µs");
        }
        let due = (0..30_000).map(|n| n / 30 * 40_000);
        let late = pass(due.clone())
            .into_iter()
            .zip(due)
            .map(|(at, due)| at - due);
        assert!(late.max() <= Some(6_000));
    }

    #[test]
    fn a_stream_that_becomes_faster_waits_for_a_moment_only() {
        // From 5000 to 20 000 packets/s.
        let due = (0..10_000)
            .map(|n| n * 200)
            .chain((0..60_000).map(|n| 2_000_000 + n * 50));
        let left = pass(due.clone());
        let late: Vec<_> = left.iter().zip(due).map(|(at, due)| at - due).collect();
        let most = late.iter().max();
        assert!(most <= Some(&250_000), "{most:?} µs");
        assert_eq!(late[40_000..].iter().max(), Some(&0));
    }

    #[test]
    fn a_burst_at_the_start_leaves_in_parts() {
        let left = pass([0; 1_000]);
        let most = most_within(&left, 500);
        assert!(most <= 64, "{most} packets in 500 µs");
        assert!(left[999] <= 20_000, "{} µs", left[999]);
    }
}
