//! The rate of one TCP connection. [Liu04 §III-A (1)]
//!
//! ```text
//!   square root   B = C / (d·√p)                                    the paper's; C = MSS·√(3/2)
//!   with timeouts B = MSS / (d·√(2p/3) + T·min(1, 3·√(3p/8))·p·(1 + 32·p²))
//! ```
//!
//! d is the round trip, twice the latency in the records, p the loss rate, MSS 1460 · 8 bits. Over several links in a
//! row, d and p are the sums of the links' values. The model uses whole numbers, as costs do, so that all nodes agree.
//!
//! The paper's formula ignores timeouts. For short lossy links it is far too optimistic: a link of 0.2 ms that loses
//! every fifth packet would have 175 Mbit/s, although its windows have two packets and every second loss costs 200 ms.
//! The full formula (Padhye et al., SIGCOMM 1998) has a term for timeouts; where little is lost, both are the same.
//! Present kernels recover more losses without a timeout, so their rate lies between the two.
//!
//! Neither formula knows the capacity of a link. Both give no limit where nothing is lost, and neither applies where
//! the sender does not slow down for losses (BBR). So the capacity limits the result, where it is known, and
//! measurements by transfers take precedence ([`Known`]).

use super::Width;
use crate::metric::LinkCost;

/// Additional knowledge about a link for bulk data, besides its latency and loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Known {
    /// The configured capacity of the link.
    pub capacity: Option<Width>,
    /// The recent rate of one connection over the link.
    pub one: Option<Width>,
    /// The recent rate of all connections of a transfer over the link, together.
    pub together: Option<Width>,
    /// More connections did not increase the rate.
    pub is_full: bool,
    /// The uncertainty of the measured rates, in per cent.
    pub spread_pct: u8,
    /// The connections of its sender do not slow down for losses, so no formula applies to the link.
    pub by_rate: bool,
    /// Number of physical links that the link crosses, as probed or configured.
    pub physical_hops: Option<u16>,
}

impl Known {
    /// Returns the measured rate of several connections, or of one connection that used the whole capacity. One
    /// connection that left capacity unused is recorded as both `one` and `together`; this says nothing about several.
    pub fn several(&self) -> Option<Width> {
        self.together
            .filter(|together| self.is_full || self.one != Some(*together))
    }

    /// Returns the maximum that may be claimed of the link: the configured capacity, or the rate that transfers have
    /// measured.
    ///
    /// Choice: the rate of several connections together is the maximum, even if they did not fill the link. Losses that
    /// hit one connection slow down those beside it, so n of them have less than n times the rate of one.
    pub fn most(&self) -> Width {
        let all = self.capacity.into_iter().chain(self.several());
        all.min().unwrap_or(Width::UNLIMITED)
    }
}

/// The formula that predicts widths that nobody has measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Formula {
    /// The formula with timeouts: [`of_links`].
    #[default]
    Timeouts,
    /// The paper's formula: [`square_root`].
    SquareRoot,
}

impl Formula {
    /// Returns the predicted rate of one connection over these links in a row.
    pub fn of(self, links: impl IntoIterator<Item = LinkCost>) -> Width {
        match self {
            Formula::Timeouts => of_links(links),
            Formula::SquareRoot => square_root(links),
        }
    }
}

/// Returns the width of a link: the measured rate, or else the rate by the formula; in either case no more than the
/// link carries in total.
pub fn of_known(formula: Formula, link: LinkCost, known: Known) -> Width {
    let one = known.one.unwrap_or_else(|| formula.of([link]));
    one.min(known.most())
}

/// Returns the rate of one connection over the link by the model.
///
/// Choice: a link without known loss is assumed to lose half of the least loss that a record can express, and no link
/// takes less than a microsecond. The formula is of no use for values of zero.
pub fn of_link(link: LinkCost) -> Width {
    of_links([link])
}

/// Delays and losses of links in a row, added up [Liu04 §III-A (1)].
struct Sum {
    latency_us: u128,
    /// The loss as a share of 131 072, twice as fine as in records.
    half_losses: u128,
}

impl Sum {
    fn of(links: impl IntoIterator<Item = LinkCost>) -> Option<Sum> {
        let (mut latency_us, mut half_losses) = (0u128, 0u128);
        for link in links {
            latency_us += u128::from(link.latency_us.max(1));
            half_losses += u128::from(link.loss) * 2;
        }
        (latency_us > 0).then_some(Sum {
            latency_us,
            half_losses: half_losses.max(1),
        })
    }
}

/// All packets, in halves of the unit of records.
const ALL: u128 = 131_072;
/// The payload of a segment, in bits.
const SEGMENT_BITS: u128 = 11_680;
/// The minimum by which the wait for an acknowledgement exceeds the round trip, on Linux.
const TIMEOUT_US: u128 = 200_000;

/// Returns the rate of one connection over all of these links in a row, by the model with timeouts.
/// [`Width::UNLIMITED`] over no links.
pub fn of_links(links: impl IntoIterator<Item = LinkCost>) -> Width {
    let Some(Sum {
        latency_us,
        half_losses,
    }) = Sum::of(links)
    else {
        return Width::UNLIMITED;
    };
    let rtt_us = 2 * latency_us;
    // Shares and their roots are counted in 2^32ths. Sums of losses are below 2^31 halves, and 10 000 links of more
    // than an hour are below 2^47 µs, so the first term is at most 2^47 · 2^40. In the second term at most all packets
    // are lost: 2^47 · 2^32 · 2^17 · 2^40, where the last factor is 1 + 32·p² in 2^34ths.
    let recovery = rtt_us * ((half_losses << 65) / (3 * ALL)).isqrt();
    let lost = half_losses.min(ALL);
    let after = (3 * (((3 * lost) << 64) / (8 * ALL)).isqrt()).min(1 << 32);
    let again = (1 << 34) + 32 * lost * lost;
    let waits = ((((rtt_us + TIMEOUT_US) * after) >> 17) * lost * (again >> 10)) >> 24;
    let bits = SEGMENT_BITS * 1_000_000;
    // A link always carries something, however little.
    Width((((bits << 32) / (recovery + waits).max(1)) as u64).max(1))
}

/// Returns the same by the paper's formula, without timeouts. This is more than most connections reach.
pub fn square_root(links: impl IntoIterator<Item = LinkCost>) -> Width {
    /// (1460 · 8)² · 3/2 · 65 536 · 10¹² / 4, twice, since losses are counted in halves.
    const SQUARE: u128 = 11_680 * 11_680 * 3 / 2 * 65_536 * 500_000_000_000;
    let Some(sum) = Sum::of(links) else {
        return Width::UNLIMITED;
    };
    // 10 000 links of more than an hour each are below 2^46 µs and 2^31 halves: 2^123 in all. One link with the best
    // values has 2.6 · 10¹² bit/s.
    let square = SQUARE / (sum.latency_us * sum.latency_us * sum.half_losses);
    Width(square.isqrt() as u64)
}

/// Returns whether the model's value for these links is more than a lower bound: some loss is known.
pub fn is_known(links: impl IntoIterator<Item = LinkCost>) -> bool {
    links.into_iter().any(|link| link.loss > 0)
}

impl Width {
    /// Returns the width with only this number of significant bits: widths that differ by less than a 2^(bits-1)-th
    /// part become equal. "B(i,j) should be quantized to avoid unnecessary complexity introduced by small differences
    /// in link width" [Liu04 §IV-A].
    ///
    /// Choice: the steps grow with the width, since the errors of estimates are relative. Zero bits would leave
    /// nothing, so at least one is kept.
    #[must_use]
    pub fn quantised(self, bits: u32) -> Width {
        let cut = self.0.checked_ilog2().unwrap_or(0) + 1;
        let cut = cut.saturating_sub(bits.max(1));
        if self == Width::UNLIMITED {
            return self;
        }
        Width(self.0 >> cut << cut)
    }

    /// Returns this width times `count`. An unlimited width stays unlimited.
    #[must_use]
    pub fn times(self, count: usize) -> Width {
        Width(self.0.saturating_mul(count as u64))
    }

    /// Returns this width times a number that is not negative. An unlimited width stays unlimited.
    #[must_use]
    pub fn scaled(self, by: f64) -> Width {
        if self == Width::UNLIMITED {
            return self;
        }
        // The cast turns a float beyond the range into the largest number.
        Width((self.0 as f64 * by) as u64)
    }

    /// Returns this width reduced by a share, 0 to 1.
    #[must_use]
    pub fn less_by(self, share: f64) -> Width {
        if self == Width::UNLIMITED {
            return self;
        }
        Width((self.0 as f64 * (1.0 - share.clamp(0.0, 1.0))).ceil() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n_links_in_a_row_are_n_root_n_times_as_slow_as_one() {
        for (latency_us, loss) in [(10_000, 328), (5_000, 7), (200_000, 3_000)] {
            let link = LinkCost::of_share(latency_us, loss);
            let one = square_root([link]).0 as f64;
            for n in 1..12usize {
                let all = square_root(std::iter::repeat_n(link, n)).0 as f64;
                let ratio = one / all;
                let expected = (n as f64).powf(1.5);
                assert!((ratio / expected - 1.0).abs() < 1e-3, "{n}: {ratio}");
            }
        }
        assert_eq!(
            (of_links([]), square_root([])),
            (Width::UNLIMITED, Width::UNLIMITED)
        );
    }

    #[test]
    fn a_longer_row_is_never_wider() {
        let links = [
            LinkCost::default(),
            LinkCost::new(0, 0.5),
            LinkCost::new(10, 0.0),
            LinkCost::of_share(u32::MAX, u16::MAX),
        ];
        for i in 0..links.len() {
            for j in i..links.len() {
                let inner = of_links(links[i..=j].iter().copied());
                for wider in [&links[i..j], &links[i + 1..=j]] {
                    assert!(of_links(wider.iter().copied()) >= inner);
                }
            }
        }
        assert!(!is_known([links[0], links[2]]) && is_known([links[0], links[1]]));
    }

    /// Computes the formula as in the literature, in floating point.
    fn padhye(rtt_s: f64, p: f64) -> f64 {
        let again = (3.0 * (3.0 * p / 8.0).sqrt()).min(1.0) * p * (1.0 + 32.0 * p * p);
        11_680.0 / (rtt_s * (2.0 * p / 3.0).sqrt() + (rtt_s + 0.2) * again)
    }

    #[test]
    fn the_whole_formula_is_that_of_the_literature() {
        for latency_us in [100, 5_000, 40_000, 250_000] {
            for loss in [1, 7, 328, 3_277, 13_107, 60_000] {
                let link = LinkCost::of_share(latency_us, loss);
                let rtt_s = 2e-6 * f64::from(latency_us);
                let expected = padhye(rtt_s, f64::from(loss) / 65_536.0);
                let got = of_link(link).0 as f64;
                assert!((got / expected - 1.0).abs() < 1e-3, "{got} {expected}");
                assert!(of_link(link) <= square_root([link]));
            }
        }
    }

    #[test]
    fn timeouts_keep_a_short_lossy_link_from_looking_fast() {
        // A link that loses a fifth is not faster than a long link that loses a hundredth.
        let (short, long) = (LinkCost::new(100, 0.217), LinkCost::new(15_000, 0.01));
        assert!(square_root([short]) > square_root([long]));
        assert!(of_link(short) < of_link(long));
        let clean = LinkCost::new(20_000, 0.0001);
        let (with, without) = (of_link(clean).0, square_root([clean]).0);
        assert!(
            without - with < without / 100,
            "they are the same: {with} {without}"
        );
    }

    #[test]
    fn capacity_caps_and_measurement_replaces_the_model() {
        let link = LinkCost::new(10_000, 0.01);
        let modelled = of_link(link);
        let known = |capacity: Option<u64>, one: Option<u64>| Known {
            capacity: capacity.map(Width),
            one: one.map(Width),
            ..Known::default()
        };
        assert_eq!(
            of_known(Formula::Timeouts, link, Known::default()),
            modelled
        );
        assert_eq!(
            of_known(Formula::Timeouts, link, known(Some(5), None)),
            Width(5)
        );
        assert_eq!(
            of_known(Formula::Timeouts, link, known(Some(u64::MAX), None)),
            modelled
        );
        assert_eq!(
            of_known(Formula::Timeouts, link, known(None, Some(9))),
            Width(9)
        );
        let together = |is_full| Known {
            together: Some(Width(7)),
            is_full,
            ..known(Some(20), Some(9))
        };
        assert_eq!(of_known(Formula::Timeouts, link, together(true)), Width(7));
        assert_eq!(of_known(Formula::Timeouts, link, together(false)), Width(7));
        assert_eq!(together(false).most(), Width(7), "seen, though not full");
        let alone = known(Some(20), Some(7));
        let alone = Known {
            together: alone.one,
            ..alone
        };
        assert_eq!(alone.most(), Width(20), "nobody has seen several");
    }

    #[test]
    fn quantised_widths_keep_their_order_and_lose_little() {
        for bits in [1, 2, 4, 8] {
            let mut last = Width(0);
            for rate in (0..5_000_000u64).step_by(997) {
                let width = Width(rate).quantised(bits);
                assert!(width >= last && width.0 <= rate);
                assert!(rate - width.0 <= rate >> (bits - 1), "{rate} {bits}");
                assert_eq!(width.quantised(bits), width);
                last = width;
            }
        }
        assert_eq!(Width(1_023).quantised(1), Width(512));
        assert_eq!(Width(1_023).quantised(0), Width(512));
        assert_eq!(Width::UNLIMITED.quantised(3), Width::UNLIMITED);
        assert_eq!(Width(1_000).less_by(0.25), Width(750));
        assert_eq!(Width(1_000).less_by(7.0), Width(0));
        assert_eq!(Width(3).times(4), Width(12));
    }
}
