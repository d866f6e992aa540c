//! The time left to a packet's deadline.

use base::Duration;

/// The time to the deadline in units of 100 µs; 0xffff means that the packet has no deadline. The maximum is 6.5534 s;
/// longer times are reduced to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Remaining(pub u16);

impl Remaining {
    /// The packet has no deadline.
    pub const NONE: Remaining = Remaining(u16::MAX);
    /// The longest time that can be represented.
    pub const MAX: Remaining = Remaining(u16::MAX - 1);
    /// The deadline has passed.
    pub const ZERO: Remaining = Remaining(0);
    /// Nanoseconds of one unit.
    pub const UNIT_NS: u64 = 100_000;

    /// Converts a span, rounded down: the result is never more than the real time. Saturates at [`Remaining::MAX`].
    pub const fn from_duration(span: Duration) -> Remaining {
        let units = span.as_nanos() / Remaining::UNIT_NS;
        if units > Remaining::MAX.0 as u64 {
            Remaining::MAX
        } else {
            Remaining(units as u16)
        }
    }

    /// Converts a deadline that may be absent.
    pub const fn from_deadline(span: Option<Duration>) -> Remaining {
        match span {
            Some(span) => Remaining::from_duration(span),
            None => Remaining::NONE,
        }
    }

    /// Returns the time as a span; `None` without a deadline.
    pub const fn duration(self) -> Option<Duration> {
        if self.is_none() {
            None
        } else {
            Some(Duration::from_nanos(self.0 as u64 * Remaining::UNIT_NS))
        }
    }

    /// Returns what is left after `spent`, at least zero. Without a deadline, there is still none.
    pub const fn minus(self, spent: Duration) -> Remaining {
        if self.is_none() {
            return self;
        }
        // Choice: the value is rounded to the nearest unit, so that the errors of many hops do not add up in one
        // direction.
        let units = spent.as_nanos().saturating_add(Remaining::UNIT_NS / 2) / Remaining::UNIT_NS;
        if units >= self.0 as u64 {
            Remaining::ZERO
        } else {
            Remaining(self.0 - units as u16)
        }
    }

    /// Returns true if the packet has no deadline.
    pub const fn is_none(self) -> bool {
        self.0 == u16::MAX
    }

    /// Returns true if there is a deadline and it has passed.
    pub const fn is_expired(self) -> bool {
        self.0 == 0
    }

    /// Returns true if `span` still fits before the deadline; always true without a deadline.
    pub const fn allows(self, span: Duration) -> bool {
        self.is_none() || span.as_nanos() <= self.0 as u64 * Remaining::UNIT_NS
    }
}

impl From<Duration> for Remaining {
    fn from(span: Duration) -> Remaining {
        Remaining::from_duration(span)
    }
}

impl From<Remaining> for Option<Duration> {
    fn from(remaining: Remaining) -> Option<Duration> {
        remaining.duration()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn spans_convert_downwards_and_saturate() {
        assert_eq!(Remaining::from(Duration::from_micros(199)), Remaining(1));
        assert_eq!(Remaining::from(Duration::from_millis(65)), Remaining(650));
        assert_eq!(Remaining::from(Duration::MAX), Remaining::MAX);
        assert_eq!(
            Remaining::MAX.duration(),
            Some(Duration::from_micros(6_553_400))
        );
        assert_eq!(Remaining::NONE.duration(), None);
        assert_eq!(Remaining::from_deadline(None), Remaining::NONE);
    }

    #[test]
    fn subtraction_floors_at_zero_and_keeps_none() {
        let ms = Duration::from_millis;
        assert_eq!(Remaining(650).minus(ms(15)), Remaining(500));
        assert_eq!(Remaining(650).minus(ms(65)), Remaining::ZERO);
        assert_eq!(
            Remaining(650).minus(ms(65) + Duration::from_micros(100)),
            Remaining::ZERO
        );
        assert_eq!(Remaining(650).minus(Duration::MAX), Remaining::ZERO);
        assert_eq!(Remaining::NONE.minus(Duration::MAX), Remaining::NONE);
        assert_eq!(
            Remaining(10).minus(Duration::from_micros(149)),
            Remaining(9)
        );
        assert_eq!(
            Remaining(10).minus(Duration::from_micros(150)),
            Remaining(8)
        );
    }

    #[test]
    fn a_span_is_allowed_up_to_the_deadline() {
        assert!(Remaining(10).allows(Duration::from_millis(1)));
        assert!(!Remaining(10).allows(Duration::from_micros(1_001)));
        assert!(Remaining::NONE.allows(Duration::MAX));
        assert!(Remaining::ZERO.is_expired() && !Remaining::NONE.is_expired());
    }

    proptest! {
        #[test]
        fn subtraction_is_within_half_a_unit_of_exact(units in 0u16..u16::MAX, spent_us in 0u64..8_000_000) {
            let spent = Duration::from_micros(spent_us);
            let left = Remaining(units).minus(spent).duration().unwrap();
            let exact = Remaining(units).duration().unwrap() - spent;
            let error = (left - exact).max(exact - left);
            prop_assert!(error <= Duration::from_micros(50));
        }
    }
}
