//! The members of the family by name, and their parameters.

use core::fmt;
use core::str::FromStr;

use crate::Control;
use crate::aimd::Aimd;
use crate::bbr::Bbr;
use crate::cubic::Cubic;
use crate::real::Real;
use crate::vegas::Vegas;
use crate::westwood::Westwood;

/// A congestion control of the family, named by its label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// Returns to one segment on every loss (Jacobson 1988).
    Tahoe,
    /// Uses fast recovery [RFC 2581].
    Reno,
    /// Uses fast recovery that survives partial acknowledgements [RFC 6582].
    NewReno,
    /// Recovers by selective acknowledgements [RFC 6675].
    Sack,
    /// Uses forward acknowledgement (Mathis and Mahdavi 1996).
    Fack,
    /// Uses the queueing delay as the signal (Brakmo and Peterson 1995) [Papadimitriou06 §3.3].
    Vegas,
    /// Uses a bandwidth estimate as the threshold (Mascolo et al. 2001) [Papadimitriou06 §3.2].
    Westwood,
    /// Like Westwood, with one sample of bandwidth per round trip (Grieco and Mascolo 2004).
    WestwoodPlus,
    /// Uses the receiver's rate to decide whether a loss was congestion (Tsaoussidis and Zhang 2002) [Papadimitriou06
    /// §3.1].
    Real,
    /// Uses a cubic function of the time since the last loss [RFC 9438].
    Cubic,
    /// Uses a model of the path: bandwidth and least round trip (draft-ietf-ccwg-bbr).
    Bbr,
}

/// The parameters of the family. Windows are in segments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The window at the start, and the largest window after a pause [RFC 6928: 10; the papers: 1].
    pub initial_window: f64,
    /// The window at which the first slow start ends at the latest.
    pub initial_threshold: f64,
    /// The window never exceeds this: the peer's buffer, or ns-2's `window_`.
    pub max_window: f64,
    /// The minimum window with which fast recovery starts [RFC 5681: 2; ns-2: 1].
    pub minimum_window: f64,
    /// Segments by which the window grows each round trip, for Tahoe to FACK and TCP-Real.
    pub alpha: f64,
    /// The share of the window that is kept on a loss, for Tahoe to FACK and TCP-Real.
    pub beta: f64,
    /// The share of the window that TCP-Real gives up when the receiver's rate falls
    /// [Papadimitriou06 §3.1].
    pub gamma: f64,
    /// True if every acknowledgement counts as one segment, however many it acknowledges, as in ns-2 and RFC 2581.
    pub count_acks: bool,
    /// True if CUBIC counts in whole segments, as kernels do. The window that it keeps on a loss is rounded down, and
    /// each of its two curves requests a segment only when it has passed the next one. With ten segments in flight this
    /// makes a difference of a fifth of the rate.
    pub whole: bool,
}

/// The error for a label that no member of the family has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no congestion control is called {0:?}: use one of tahoe, reno, newreno, sack, fack, vegas, westwood, westwood+, real, cubic, bbr"
)]
pub struct UnknownFamily(pub String);

impl Family {
    /// Every member.
    pub const ALL: [Family; 11] = [
        Family::Tahoe,
        Family::Reno,
        Family::NewReno,
        Family::Sack,
        Family::Fack,
        Family::Vegas,
        Family::Westwood,
        Family::WestwoodPlus,
        Family::Real,
        Family::Cubic,
        Family::Bbr,
    ];

    /// Returns the name in configurations, tables and figures.
    pub const fn label(self) -> &'static str {
        match self {
            Family::Tahoe => "tahoe",
            Family::Reno => "reno",
            Family::NewReno => "newreno",
            Family::Sack => "sack",
            Family::Fack => "fack",
            Family::Vegas => "vegas",
            Family::Westwood => "westwood",
            Family::WestwoodPlus => "westwood+",
            Family::Real => "real",
            Family::Cubic => "cubic",
            Family::Bbr => "bbr",
        }
    }

    /// Returns the share of the window that is left after a loss, for members that take each loss for congestion and
    /// continue from there.
    pub fn kept_on_loss(self, settings: &Settings) -> Option<f64> {
        match self {
            Family::Reno | Family::NewReno | Family::Sack | Family::Fack => Some(settings.beta),
            Family::Cubic => Some(crate::cubic::BETA),
            Family::Tahoe
            | Family::Vegas
            | Family::Westwood
            | Family::WestwoodPlus
            | Family::Real
            | Family::Bbr => None,
        }
    }

    /// Creates a fresh control of this kind.
    pub fn control(self, settings: Settings) -> Box<dyn Control + Send> {
        match self {
            Family::Tahoe => Box::new(Aimd::tahoe(settings)),
            Family::Reno | Family::NewReno | Family::Sack | Family::Fack => {
                Box::new(Aimd::new(settings))
            }
            Family::Vegas => Box::new(Vegas::new(settings)),
            Family::Westwood => Box::new(Westwood::new(settings)),
            Family::WestwoodPlus => Box::new(Westwood::plus(settings)),
            Family::Real => Box::new(Real::new(settings)),
            Family::Cubic => Box::new(Cubic::new(settings)),
            Family::Bbr => Box::new(Bbr::new(settings)),
        }
    }
}

impl Settings {
    /// Twice the number of segments that 10 Gbit/s over 200 ms hold: 250 MB are 196 000 segments of 1274 bytes.
    pub const MAX_WINDOW: f64 = 524_288.0;

    /// Returns the same settings with every number limited to the range in which the rules make sense, so that values
    /// from a configuration cannot stop a sender.
    #[must_use]
    pub fn sane(mut self) -> Settings {
        self.max_window = within(self.max_window, 1.0, Settings::MAX_WINDOW);
        self.initial_window = within(self.initial_window, 1.0, self.max_window);
        self.initial_threshold = within(self.initial_threshold, 1.0, Settings::MAX_WINDOW);
        self.minimum_window = within(self.minimum_window, 1.0, self.max_window);
        self.alpha = within(self.alpha, 0.0, Settings::MAX_WINDOW);
        self.beta = within(self.beta, 0.0, 1.0);
        self.gamma = within(self.gamma, 0.0, 1.0);
        self
    }
}

/// Limits `x` to the range. `clamp` would keep a not-a-number.
fn within(x: f64, low: f64, high: f64) -> f64 {
    x.min(high).max(low)
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            initial_window: 10.0,
            initial_threshold: Settings::MAX_WINDOW,
            max_window: Settings::MAX_WINDOW,
            minimum_window: 2.0,
            alpha: 1.0,
            beta: 0.5,
            gamma: 0.125,
            count_acks: false,
            whole: false,
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.label())
    }
}

impl FromStr for Family {
    type Err = UnknownFamily;

    fn from_str(label: &str) -> Result<Family, UnknownFamily> {
        Family::ALL
            .into_iter()
            .find(|family| family.label() == label)
            .ok_or_else(|| UnknownFamily(label.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_name_their_members() {
        for family in Family::ALL {
            assert_eq!(family.to_string().parse(), Ok(family));
        }
        assert_eq!(
            "compound".parse::<Family>(),
            Err(UnknownFamily("compound".to_string()))
        );
    }

    #[test]
    fn absurd_settings_become_sane() {
        let absurd = Settings {
            initial_window: f64::NAN,
            initial_threshold: f64::INFINITY,
            max_window: -3.0,
            minimum_window: 1e300,
            alpha: f64::NAN,
            beta: 7.0,
            gamma: -1.0,
            count_acks: true,
            whole: false,
        };
        for family in Family::ALL {
            let control = family.control(absurd);
            assert_eq!(control.window(), 1.0, "{family}");
            assert!(control.threshold().is_finite(), "{family}");
        }
    }
}
