//! Round trip and retransmission timeout of a stream [RFC 6298].

use base::{Duration, Time};

/// The shortest timeout. Choice: the value of Linux. With the RFC's second, a stream would stall if its last segments
/// are lost.
pub(crate) const RTO_MIN: Duration = Duration::from_millis(200);
/// The longest timeout after back-off. Choice: not the RFC's minute. The stream then finds a repaired path within
/// seconds, and one small packet in four seconds is no burden.
pub(crate) const RTO_MAX: Duration = Duration::from_secs(4);
/// The timeout before anything is measured.
const RTO_START: Duration = Duration::from_millis(500);
/// A stamp is echoed within this time or not at all. Choice: acknowledgements leave in the batch in which the segment
/// came, so this is long even for a busy host.
pub(crate) const ECHO_WITHIN: Duration = Duration::from_millis(100);
/// The longest wait of an acknowledgement, if the segment's sender lets it wait. Choice: in a stream with one packet in
/// 20 ms, such as speech, every second packet is acknowledged. Of the waits of kernels and QUIC (40 ms and 25 ms) this
/// is the shorter. [RFC 9000 §18.2]
pub(crate) const ACK_WAIT: Duration = Duration::from_millis(25);
/// The number of samples that must be short before the round trip counts as short again.
const PRESENT_SAMPLES: usize = 3;
/// A sample above this comes from a wrong echo.
const SAMPLE_MAX: Duration = Duration::from_secs(60);

/// The estimator of the round trip.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rtt {
    smoothed: Option<Duration>,
    variation: Duration,
    /// The last samples, the newest first.
    recent: [Duration; PRESENT_SAMPLES],
}

impl Rtt {
    /// Takes a sample.
    pub(crate) fn sample(&mut self, sample: Duration) {
        if sample > SAMPLE_MAX {
            return;
        }
        self.recent.rotate_right(1);
        self.recent[0] = sample;
        match self.smoothed {
            None => {
                self.recent = [sample; PRESENT_SAMPLES];
                self.smoothed = Some(sample);
                self.variation = sample.div(2);
            }
            Some(smoothed) => {
                let error = if sample > smoothed {
                    sample - smoothed
                } else {
                    smoothed - sample
                };
                self.variation = (self.variation * 3 + error).div(4);
                self.smoothed = Some((smoothed * 7 + sample).div(8));
            }
        }
    }

    /// Returns the smoothed round trip, once there is one.
    pub(crate) fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }

    /// Returns the smoothed round trip, but no more than the longest of the last few samples. After an outage of some
    /// seconds the average stays long for tens of samples, and a pace computed from it would be too slow for as long.
    pub(crate) fn present(&self) -> Option<Duration> {
        let longest = self.recent.iter().max().copied()?;
        Some(self.smoothed?.min(longest))
    }

    /// Returns the smoothed round trip or the latest one, whichever is longer.
    pub(crate) fn cautious(&self) -> Duration {
        self.smoothed.unwrap_or(RTO_START).max(self.recent[0])
    }

    /// Returns the timeout after `backoff` timeouts in a row, if the acknowledgement may `wait` so long.
    pub(crate) fn rto(&self, backoff: u32, wait: Duration) -> Duration {
        let base = match self.smoothed {
            None => RTO_START,
            Some(smoothed) => smoothed + (self.variation * 4).max(Duration::from_millis(1)) + wait,
        };
        let base = base.max(RTO_MIN);
        // If the round trip is longer than the limit, the timeout is not cut below the computed one.
        (base * (1 << backoff.min(8))).min(RTO_MAX.max(base))
    }
}

/// Returns the time as it is sent on the wire: microseconds, and never 0.
pub(crate) fn stamp(now: Time) -> u32 {
    (now.as_micros() as u32).max(1)
}

/// Returns a stamp that is later by `by`.
pub(crate) fn later(stamp_us: u32, by: Duration) -> u32 {
    stamp_us.wrapping_add(by.as_micros() as u32).max(1)
}

/// Returns how long ago a stamp was made; none for 0, and for a stamp from the future.
pub(crate) fn since(now: Time, stamp_us: u32) -> Option<Duration> {
    let ago = stamp(now).wrapping_sub(stamp_us);
    (stamp_us != 0 && ago < 1 << 31).then(|| Duration::from_micros(ago.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_follows_the_samples_within_its_bounds() {
        let mut rtt = Rtt::default();
        assert_eq!(rtt.rto(0, Duration::ZERO), RTO_START);
        for _ in 0..50 {
            rtt.sample(Duration::from_millis(100));
        }
        assert_eq!(rtt.smoothed(), Some(Duration::from_millis(100)));
        assert_eq!(rtt.rto(0, Duration::ZERO), RTO_MIN);
        assert_eq!(rtt.rto(2, Duration::ZERO), RTO_MIN * 4);
        assert_eq!(rtt.rto(20, Duration::ZERO), RTO_MAX);
        for _ in 0..50 {
            rtt.sample(Duration::from_millis(400));
            rtt.sample(Duration::from_millis(800));
        }
        assert!(
            rtt.rto(0, Duration::ZERO) > Duration::from_millis(1_000),
            "{:?}",
            rtt.rto(0, Duration::ZERO)
        );
        let before = rtt.rto(0, Duration::ZERO);
        assert_eq!(rtt.rto(0, ACK_WAIT), before + ACK_WAIT);
        rtt.sample(Duration::from_secs(1_000));
        assert_eq!(rtt.rto(0, Duration::ZERO), before, "nobody's round trip");
    }

    #[test]
    fn an_outage_makes_the_present_round_trip_long_for_three_samples_and_the_average_for_tens() {
        let mut rtt = Rtt::default();
        let (short, long) = (Duration::from_millis(100), Duration::from_secs(5));
        for sample in [short, short, long, short, short] {
            rtt.sample(sample);
        }
        assert!(rtt.present() > Some(short * 4));
        rtt.sample(short);
        assert_eq!(rtt.present(), Some(short));
        assert!(rtt.smoothed() > Some(short * 4));
    }

    #[test]
    fn stamps_wrap_and_zero_is_none() {
        let now = Time::from_nanos((1u64 << 32) * 1_000);
        assert_eq!(stamp(now), 1);
        assert_eq!(since(now, 0), None);
        assert_eq!(since(now, u32::MAX), Some(Duration::from_micros(2)));
        assert_eq!(since(now, 1_000), None, "from the future");
    }
}
