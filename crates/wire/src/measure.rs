//! Link measurements in their wire format: loss as a share of 65 536, latency in microseconds. Both saturate, so that a
//! bad measurement looks bad and never wraps to a good one.

use base::Duration;

/// A share of packets lost, in units of 1/65 536. One hundred percent is represented by 65 535.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Loss(pub u16);

/// A delay in microseconds, in 24 bits: at most 16.777215 s, which means "or more".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Latency(u32);

/// How reliable a link has been recently.
///
/// | byte | means |
/// |---|---|
/// | 0 | steady |
/// | 1 to 13 | its outages of late cost 1, 2, 4 … 4096 ms of latency |
/// | 14 to 254 | reserved; read as 13 |
/// | 255 | silent: the other end is not heard, and packets take the link where there is no other way |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Availability(pub u8);

impl Availability {
    /// The link had no recent outages.
    pub const STEADY: Availability = Availability(0);
    /// The other end is not heard.
    pub const SILENT: Availability = Availability(255);
    /// The code of the highest price.
    const DEAREST: u8 = 13;

    /// Converts a price in microseconds, rounded down; `u32::MAX` for a silent link.
    pub const fn of_price(us: u32) -> Availability {
        match us / 1_000 {
            _ if us == u32::MAX => Availability::SILENT,
            0 => Availability::STEADY,
            ms => {
                let code = 1 + ms.ilog2() as u8;
                Availability(if code > Availability::DEAREST {
                    Availability::DEAREST
                } else {
                    code
                })
            }
        }
    }

    /// Returns the price in microseconds; `u32::MAX` for a silent link.
    pub const fn price_us(self) -> u32 {
        match self.0 {
            255 => u32::MAX,
            0 => 0,
            code if code > Availability::DEAREST => 1_000 << (Availability::DEAREST - 1),
            code => 1_000 << (code - 1),
        }
    }
}

impl Loss {
    /// Nothing is lost.
    pub const NONE: Loss = Loss(0);
    /// All is lost.
    pub const ALL: Loss = Loss(u16::MAX);

    /// Returns the value nearest to `share` of 1. Numbers below zero and non-numbers give none, numbers above one give
    /// all.
    pub fn from_share(share: f64) -> Loss {
        // The cast saturates and turns a non-number into zero.
        Loss((share * 65_536.0).round() as u16)
    }
    /// Returns the loss as a share of 1.
    pub fn share(self) -> f64 {
        f64::from(self.0) / 65_536.0
    }
}

impl Latency {
    /// The longest latency that can be represented.
    pub const MAX: Latency = Latency(0x00ff_ffff);

    /// Converts microseconds; saturates.
    pub const fn from_micros(us: u32) -> Latency {
        if us > Latency::MAX.0 {
            Latency::MAX
        } else {
            Latency(us)
        }
    }
    /// Converts a span, rounded down; saturates.
    pub fn from_duration(span: Duration) -> Latency {
        Latency::from_micros(u32::try_from(span.as_micros()).unwrap_or(u32::MAX))
    }
    /// Returns the latency in microseconds.
    pub const fn micros(self) -> u32 {
        self.0
    }
    /// Returns the latency as a span.
    pub const fn duration(self) -> Duration {
        Duration::from_micros(self.0 as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn loss_saturates_at_both_ends() {
        assert_eq!(Loss::from_share(-0.5), Loss::NONE);
        assert_eq!(Loss::from_share(f64::NAN), Loss::NONE);
        assert_eq!(Loss::from_share(1.0), Loss::ALL);
        assert_eq!(Loss::from_share(f64::INFINITY), Loss::ALL);
        assert_eq!(Loss::from_share(0.5), Loss(32_768));
        assert_eq!(Loss::from_share(0.05), Loss(3_277), "3276.8 units");
        assert_eq!(Loss(3_277).share(), 3_277.0 / 65_536.0);
    }

    #[test]
    fn availability_tells_prices_by_powers_of_two() {
        for (us, code, told) in [
            (0, 0, 0),
            (999, 0, 0),
            (1_000, 1, 1_000),
            (64_000, 7, 64_000),
            (96_000, 7, 64_000),
            (4_096_000, 13, 4_096_000),
            (u32::MAX - 1, 13, 4_096_000),
            (u32::MAX, 255, u32::MAX),
        ] {
            let availability = Availability::of_price(us);
            assert_eq!(
                (availability.0, availability.price_us()),
                (code, told),
                "{us}"
            );
        }
        assert_eq!(Availability(14).price_us(), Availability(13).price_us());
        assert_eq!(Availability(254).price_us(), Availability(13).price_us());
    }

    #[test]
    fn latency_saturates_at_24_bits() {
        assert_eq!(
            Latency::from_duration(Duration::from_millis(30)).micros(),
            30_000
        );
        assert_eq!(Latency::from_duration(Duration::MAX), Latency::MAX);
        assert_eq!(Latency::from_micros(0x0100_0000), Latency::MAX);
        assert_eq!(Latency::MAX.duration(), Duration::from_micros(16_777_215));
    }

    proptest! {
        #[test]
        fn units_survive_the_way_through_floats_and_spans(loss: u16, us in 0u32..1 << 24) {
            prop_assert_eq!(Loss::from_share(Loss(loss).share()), Loss(loss));
            let latency = Latency::from_micros(us);
            prop_assert_eq!(latency.micros(), us);
            prop_assert_eq!(Latency::from_duration(latency.duration()), latency);
        }
    }
}
