//! The retransmission timeout: RFC 6298 in whole ticks of a coarse clock, as BSD and ns-2 compute
//! it.
//!
//! A round trip is measured in the ticks that pass in it, so the phase of the clock rounds it. The smoothed value and
//! the variation are integers with three and two bits after the point. With ticks of 100 ms the timeout of a path of
//! 100 ms is 400 to 600 ms and not 120: on such paths the tick and the least timeout determine how long the sender
//! waits for a lost retransmission.

use super::settings::Timer;
use base::{Duration, Time};

/// Bits after the point of the smoothed round trip.
const SRTT_BITS: u32 = 3;
/// Bits after the point of its variation.
const RTTVAR_BITS: u32 = 2;
/// Back-off never exceeds this factor unless the timeout is still below its maximum.
const BACKOFF_MAX: u64 = 64;
/// After this much back-off, the smoothed round trip is discarded.
const BACKOFF_DISTRUST: u64 = 8;

#[derive(Clone, Debug)]
pub(crate) struct Rto {
    timer: Timer,
    tick_ns: u64,
    /// The phase of this host's clock within a tick when the world's clock shows zero.
    phase_ns: u64,
    srtt: i64,
    rttvar: i64,
    current: Duration,
    backoff: u64,
}

impl Rto {
    /// Creates the timeout. `phase` is between 0 and 1.
    pub(crate) fn new(timer: Timer, phase: f64) -> Rto {
        let tick_ns = timer.tick.as_nanos().max(1);
        Rto {
            timer,
            tick_ns,
            phase_ns: (tick_ns as f64 * phase) as u64 % tick_ns,
            srtt: 0,
            // The first measurement replaces this value, unless back-off has gone far before that.
            rttvar: 0,
            current: timer.initial,
            backoff: 1,
        }
    }

    /// Takes a measurement: a segment sent `span` ago was acknowledged.
    pub(crate) fn sample(&mut self, now: Time, span: Duration) {
        let sent_at = (now - span).as_nanos() + self.phase_ns;
        let ticks = (span.as_nanos() + sent_at % self.tick_ns) / self.tick_ns;
        let ticks = i64::try_from(ticks).unwrap_or(i64::MAX >> 8).max(1);
        if self.srtt != 0 {
            let delta = ticks - (self.srtt >> SRTT_BITS);
            self.srtt = (self.srtt + delta).max(1);
            let delta = delta.abs() - (self.rttvar >> RTTVAR_BITS);
            self.rttvar = (self.rttvar + delta).max(1);
        } else {
            self.srtt = ticks << SRTT_BITS;
            self.rttvar = ticks << (RTTVAR_BITS - 1);
        }
        // The value is srtt + 4 · rttvar: two more bits, and the difference of the two scales.
        let ticks = ((self.rttvar << (2 + SRTT_BITS - RTTVAR_BITS)) + self.srtt) >> SRTT_BITS;
        self.current = Duration::from_nanos(self.tick_ns) * ticks.unsigned_abs();
    }

    /// Returns the timeout at present.
    pub(crate) fn timeout(&self) -> Duration {
        let least = self.current.max(self.timer.min);
        (least * self.backoff)
            .min(self.timer.max)
            .max(Duration::from_nanos(self.tick_ns) * 2)
    }

    /// Doubles the next timeout after the timer expired.
    pub(crate) fn back_off(&mut self) {
        if self.backoff < BACKOFF_MAX || self.timeout() < self.timer.max {
            self.backoff = self.backoff.saturating_mul(2);
        }
        if self.backoff > BACKOFF_DISTRUST {
            self.rttvar += self.srtt >> SRTT_BITS;
            self.srtt = 0;
        }
    }

    /// Ends the back-off after the acknowledgement of a segment that was sent once [RFC 6298 §5.7].
    pub(crate) fn relax(&mut self) {
        self.backoff = 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timer(tick_ms: u64, min_ms: u64) -> Timer {
        Timer {
            min: Duration::from_millis(min_ms),
            max: Duration::from_secs(60),
            initial: Duration::from_secs(3),
            tick: Duration::from_millis(tick_ms),
        }
    }

    #[test]
    fn the_timeout_follows_the_round_trip_in_ticks() {
        let mut rto = Rto::new(timer(100, 0), 0.0);
        assert_eq!(rto.timeout(), Duration::from_secs(3));
        let span = Duration::from_millis(108);
        let mut now = Time::ZERO + span;
        rto.sample(now, span);
        // The timeout is one tick and half a tick of variation: 1 + 4 · 0.5 ticks.
        assert_eq!(rto.timeout(), Duration::from_millis(300));
        for _ in 0..100 {
            now += Duration::from_millis(116);
            rto.sample(now, span);
        }
        // The timeout is never less than two ticks.
        assert!(
            rto.timeout() >= Duration::from_millis(200),
            "{}",
            rto.timeout()
        );
        assert!(
            rto.timeout() <= Duration::from_millis(400),
            "{}",
            rto.timeout()
        );
    }

    #[test]
    fn it_doubles_up_to_its_most_and_comes_back() {
        let mut rto = Rto::new(timer(10, 1000), 0.3);
        rto.sample(Time::from_nanos(1 << 30), Duration::from_millis(100));
        assert_eq!(rto.timeout(), Duration::from_secs(1));
        let seconds: Vec<u64> = (0..8)
            .map(|_| {
                rto.back_off();
                rto.timeout().as_millis() / 1000
            })
            .collect();
        assert_eq!(seconds, [2, 4, 8, 16, 32, 60, 60, 60]);
        rto.relax();
        assert_eq!(rto.timeout(), Duration::from_secs(1));
    }
}
