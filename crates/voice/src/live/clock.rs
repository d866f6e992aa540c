//! Transit times: arrival against the media's own clock.
//!
//! Clocks of sender and receiver have no common zero, so only differences count. This module uses two: the difference
//! to the previous packet, which is jitter (RFC 3550 §6.4.1), and the difference to the quickest recent packet, which
//! determines how long a playout buffer must wait. Only *recent* packets count, because clocks of phones diverge by up
//! to 100 ppm: 3 ms in half a minute, a third of a second in an hour.

use base::{Duration, Time};

/// Number of windows in which the quickest packet counts: 6 of 5 s.
const QUICKEST_WINDOWS: usize = 6;

/// A difference in transit that is not jitter: the media's clock was reset. No buffer for conversation waits as long as
/// 2 s.
const NEW_CLOCK_NS: i64 = 2_000_000_000;

#[derive(Debug, Clone, Default)]
pub(super) struct Clock {
    last: Option<Last>,
    jitter_ns: f64,
    /// The shortest transit of each window, the current one first.
    quickest_ns: [Option<i64>; QUICKEST_WINDOWS],
}

#[derive(Debug, Clone, Copy)]
struct Last {
    at: Time,
    timestamp: u32,
    /// Transit, counted from that of the first packet.
    transit_ns: i64,
}

/// The measurements of one packet.
pub(super) struct Step {
    /// The jitter after the packet; `None` if the packet is no measurement of jitter.
    pub(super) jitter_ns: Option<f64>,
    /// How much slower the packet was than the quickest.
    pub(super) behind: Duration,
}

impl Clock {
    pub(super) fn step(&mut self, now: Time, timestamp: u32, clock_hz: u32) -> Step {
        let difference = self.last.and_then(|last| {
            let elapsed = now.since(last.at).as_nanos().cast_signed();
            let ticks = timestamp.wrapping_sub(last.timestamp).cast_signed();
            // 2³¹ · 10⁹ fits into 63 bits.
            let media = i64::from(ticks) * 1_000_000_000 / i64::from(clock_hz);
            let difference = elapsed.saturating_sub(media);
            (difference.saturating_abs() <= NEW_CLOCK_NS).then_some((last, difference))
        });
        let Some((last, difference)) = difference else {
            self.restart();
            return self.note(now, timestamp, 0, None);
        };
        // Choice: a packet with the timestamp of the previous one, such as a part of a picture or a repetition of a
        // dialled digit, was not sent at the time of its timestamp, so it does not count as jitter.
        let jitter = (timestamp != last.timestamp).then(|| {
            let size = difference.unsigned_abs() as f64;
            self.jitter_ns += (size - self.jitter_ns) / 16.0;
            self.jitter_ns
        });
        let transit = last.transit_ns.saturating_add(difference);
        self.note(now, timestamp, transit, jitter)
    }

    /// Starts over with another media clock: the known transit times do not hold for it.
    pub(super) fn restart(&mut self) {
        self.last = None;
        self.quickest_ns = [None; QUICKEST_WINDOWS];
    }

    /// Notes the end of `count` windows.
    pub(super) fn end_windows(&mut self, count: u64) {
        let count = count.min(QUICKEST_WINDOWS as u64) as usize;
        self.quickest_ns.rotate_right(count);
        self.quickest_ns[..count].fill(None);
    }

    fn note(&mut self, now: Time, timestamp: u32, transit: i64, jitter: Option<f64>) -> Step {
        self.last = Some(Last {
            at: now,
            timestamp,
            transit_ns: transit,
        });
        let window = &mut self.quickest_ns[0];
        *window = Some(window.map_or(transit, |least| least.min(transit)));
        let quickest = self.quickest_ns.iter().flatten().min();
        let quickest = quickest.copied().unwrap_or(transit);
        Step {
            jitter_ns: jitter,
            behind: Duration::from_nanos(transit.saturating_sub(quickest).unsigned_abs()),
        }
    }
}
