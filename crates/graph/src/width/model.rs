//! How fast one TCP connection goes: B = C/(d·√p). [Liu04 §III-A (1)]
//!
//! d is the round trip, twice the latency that records tell, p the loss rate, and C = MSS·√(3/2) in
//! bits: 1460 · 8 · 1.2247. Over several links in a row d and p are the sums of theirs. Whole
//! numbers, as with costs, so that all nodes agree.
//!
//! The formula knows neither capacity nor timeouts: it is an upper estimate where more than about
//! 5 % are lost, and says nothing where nothing is lost. So it is held down by the link's capacity,
//! where that is told, and gives way to what transfers have measured ([`Known`]).

use super::Width;
use crate::metric::LinkCost;

/// What is known of a link for bulk data besides its latency and loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Known {
    /// What it carries at most, as configured.
    pub capacity: Option<Width>,
    /// What one connection over it has carried lately.
    pub measured: Option<Width>,
    /// The physical links that it crosses, as probed or configured.
    pub physical_hops: Option<u16>,
}

/// The width of a link: what was measured, else what the model says and the capacity allows.
pub fn of_known(link: LinkCost, known: Known) -> Width {
    let most = known.capacity.unwrap_or(Width::UNLIMITED);
    known.measured.unwrap_or_else(|| of_link(link).min(most))
}

/// What one connection over the link would carry by the model.
///
/// Choice: a link of which no loss is known is taken to lose half of the least that a record can
/// tell, and none takes less than a microsecond; the formula is of no use for either.
pub fn of_link(link: LinkCost) -> Width {
    of_links([link])
}

/// What one connection over all of these links in a row would carry by the model: delays and
/// losses add up [Liu04 §III-A (1)]. [`Width::UNLIMITED`] over none.
pub fn of_links(links: impl IntoIterator<Item = LinkCost>) -> Width {
    /// (1460 · 8)² · 3/2 · 65 536 · 10¹² / 4, twice, since losses are counted in halves.
    const SQUARE: u128 = 11_680 * 11_680 * 3 / 2 * 65_536 * 500_000_000_000;
    let (mut latency_us, mut half_losses) = (0u128, 0u128);
    for link in links {
        latency_us += u128::from(link.latency_us.max(1));
        half_losses += u128::from(link.loss) * 2;
    }
    if latency_us == 0 {
        return Width::UNLIMITED;
    }
    // 10 000 links of more than an hour each are below 2^46 µs and 2^31 halves: 2^123 in all. One
    // link at its best has 2.6 · 10¹² bit/s.
    let square = SQUARE / (latency_us * latency_us * half_losses.max(1));
    Width(square.isqrt() as u64)
}

/// Whether the model says more of these links than a lower bound: some loss is known.
pub fn is_known(links: impl IntoIterator<Item = LinkCost>) -> bool {
    links.into_iter().any(|link| link.loss > 0)
}

impl Width {
    /// With so many significant bits and the rest cut off: widths less than a 2^(bits-1)-th part
    /// from each other become the same. "B(i,j) should be quantized to avoid unnecessary complexity
    /// introduced by small differences in link width" [Liu04 §IV-A].
    ///
    /// Choice: the steps grow with the width, since estimates err by shares of it; no bits at all
    /// would leave nothing, so there is at least one.
    #[must_use]
    pub fn quantised(self, bits: u32) -> Width {
        let cut = self.0.checked_ilog2().unwrap_or(0) + 1;
        let cut = cut.saturating_sub(bits.max(1));
        if self == Width::UNLIMITED {
            return self;
        }
        Width(self.0 >> cut << cut)
    }

    /// So many times as wide; what has no limit stays so.
    #[must_use]
    pub fn times(self, count: usize) -> Width {
        Width(self.0.saturating_mul(count as u64))
    }

    /// Less by this share, 0 to 1.
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
            let one = of_link(link).0 as f64;
            for n in 1..12usize {
                let all = of_links(std::iter::repeat_n(link, n)).0 as f64;
                let ratio = one / all;
                let expected = (n as f64).powf(1.5);
                assert!((ratio / expected - 1.0).abs() < 1e-3, "{n}: {ratio}");
            }
        }
        assert_eq!(of_links([]), Width::UNLIMITED);
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

    #[test]
    fn capacity_caps_and_measurement_replaces_the_model() {
        let link = LinkCost::new(10_000, 0.01);
        let modelled = of_link(link);
        let known = |capacity: Option<u64>, measured: Option<u64>| Known {
            capacity: capacity.map(Width),
            measured: measured.map(Width),
            ..Known::default()
        };
        assert_eq!(of_known(link, Known::default()), modelled);
        assert_eq!(of_known(link, known(Some(5), None)), Width(5));
        assert_eq!(of_known(link, known(Some(u64::MAX), None)), modelled);
        assert_eq!(of_known(link, known(None, Some(9))), Width(9));
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
