//! Time as engines use it: nanoseconds since their host started. It is always an argument.
//!
//! This is a separate type instead of `std::time::Instant`: the simulator can create values, they can be ordered and
//! printed, and the arithmetic saturates, so absurd input cannot overflow it.

use core::fmt;
use core::ops::{Add, AddAssign, Mul, Sub};

/// A point in time: nanoseconds since the host of the engine started. Only hosts create one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

/// A span of time in nanoseconds, at most 584 years.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(u64);

impl Time {
    /// The time at which the host started.
    pub const ZERO: Time = Time(0);
    /// Later than any time that is reached.
    pub const FAR: Time = Time(u64::MAX);

    /// Returns the time `ns` nanoseconds after the host's start.
    pub const fn from_nanos(ns: u64) -> Time {
        Time(ns)
    }
    /// Returns nanoseconds since the host's start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
    /// Returns microseconds since the host's start, rounded down.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }
    /// Returns seconds since the host's start.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// Returns how long ago `earlier` was; zero if it is in the future.
    pub const fn since(self, earlier: Time) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl Duration {
    /// A span of zero.
    pub const ZERO: Duration = Duration(0);
    /// The longest span.
    pub const MAX: Duration = Duration(u64::MAX);

    /// Creates a span of `ns` nanoseconds.
    pub const fn from_nanos(ns: u64) -> Duration {
        Duration(ns)
    }
    /// Creates a span of `us` microseconds.
    pub const fn from_micros(us: u64) -> Duration {
        Duration(us.saturating_mul(1_000))
    }
    /// Creates a span of `ms` milliseconds.
    pub const fn from_millis(ms: u64) -> Duration {
        Duration(ms.saturating_mul(1_000_000))
    }
    /// Creates a span of `s` seconds.
    pub const fn from_secs(s: u64) -> Duration {
        Duration(s.saturating_mul(1_000_000_000))
    }
    /// Creates a span of `s` seconds; negative numbers and NaN give zero.
    pub fn from_secs_f64(s: f64) -> Duration {
        Duration((s * 1e9).round().max(0.0) as u64)
    }
    /// Returns the span in nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
    /// Returns the span in microseconds, rounded down.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }
    /// Returns the span in milliseconds, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }
    /// Returns the span in seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// Returns the difference, or zero if `other` is longer.
    pub const fn saturating_sub(self, other: Duration) -> Duration {
        Duration(self.0.saturating_sub(other.0))
    }
    /// Multiplies the span by `factor`; negative factors and NaN give zero.
    pub fn mul_f64(self, factor: f64) -> Duration {
        Duration((self.0 as f64 * factor).max(0.0) as u64)
    }
    /// Divides the span by `divisor`. Division by zero returns the span itself.
    pub const fn div(self, divisor: u64) -> Duration {
        match self.0.checked_div(divisor) {
            Some(ns) => Duration(ns),
            None => self,
        }
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    fn add(self, d: Duration) -> Time {
        Time(self.0.saturating_add(d.0))
    }
}
impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, d: Duration) {
        *self = *self + d;
    }
}
impl Sub<Duration> for Time {
    type Output = Time;
    fn sub(self, d: Duration) -> Time {
        Time(self.0.saturating_sub(d.0))
    }
}
impl Add for Duration {
    type Output = Duration;
    fn add(self, d: Duration) -> Duration {
        Duration(self.0.saturating_add(d.0))
    }
}
impl AddAssign for Duration {
    fn add_assign(&mut self, d: Duration) {
        *self = *self + d;
    }
}
impl Sub for Duration {
    type Output = Duration;
    fn sub(self, d: Duration) -> Duration {
        self.saturating_sub(d)
    }
}
impl Mul<u64> for Duration {
    type Output = Duration;
    fn mul(self, k: u64) -> Duration {
        Duration(self.0.saturating_mul(k))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6}s", self.as_secs_f64())
    }
}
impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0..1_000 => write!(f, "{}ns", self.0),
            1_000..1_000_000 => write!(f, "{:.1}us", self.0 as f64 / 1e3),
            1_000_000..1_000_000_000 => write!(f, "{:.1}ms", self.0 as f64 / 1e6),
            _ => write!(f, "{:.2}s", self.0 as f64 / 1e9),
        }
    }
}
impl fmt::Debug for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_instead_of_wrapping() {
        assert_eq!(Time::FAR + Duration::from_secs(1), Time::FAR);
        assert_eq!(Time::ZERO - Duration::from_secs(1), Time::ZERO);
        assert_eq!(Time::ZERO.since(Time::FAR), Duration::ZERO);
        assert_eq!(Duration::from_millis(u64::MAX), Duration::MAX);
        assert_eq!(Duration::from_millis(2) * 3, Duration::from_micros(6_000));
    }

    #[test]
    fn spans_print_in_a_unit_that_fits() {
        let spans = [
            (7, "7ns"),
            (1_500, "1.5us"),
            (20_000_000, "20.0ms"),
            (3_000_000_000, "3.00s"),
        ];
        for (ns, text) in spans {
            assert_eq!(Duration::from_nanos(ns).to_string(), text);
        }
    }
}
