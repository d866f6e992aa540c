//! The members of the family by name, and what they can be told.

use core::fmt;
use core::str::FromStr;

use crate::Control;
use crate::aimd::Aimd;
use crate::bbr::Bbr;
use crate::cubic::Cubic;
use crate::real::Real;
use crate::vegas::Vegas;
use crate::westwood::Westwood;

/// A congestion control out of the family, named by its label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// Back to one segment on every loss (Jacobson 1988).
    Tahoe,
    /// Fast recovery [RFC 2581].
    Reno,
    /// Fast recovery that survives partial acknowledgements [RFC 6582].
    NewReno,
    /// Recovery by selective acknowledgements [RFC 6675].
    Sack,
    /// Forward acknowledgement (Mathis and Mahdavi 1996).
    Fack,
    /// Queueing delay as the signal (Brakmo and Peterson 1995) [Papadimitriou06 §3.3].
    Vegas,
    /// Bandwidth estimate as the threshold (Mascolo et al. 2001) [Papadimitriou06 §3.2].
    Westwood,
    /// Westwood with one sample of bandwidth per round trip (Grieco and Mascolo 2004).
    WestwoodPlus,
    /// The receiver's rate decides whether a loss was congestion (Tsaoussidis and Zhang 2002)
    /// [Papadimitriou06 §3.1].
    Real,
    /// A cubic function of the time since the last loss [RFC 9438].
    Cubic,
    /// A model of the path: bandwidth and least round trip (draft-ietf-ccwg-bbr).
    Bbr,
}

/// What a member of the family can be told. Windows are in segments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The window at the start, and the largest after a pause [RFC 6928: 10; the papers: 1].
    pub initial_window: f64,
    /// Where the first slow start ends at the latest.
    pub initial_threshold: f64,
    /// The window never exceeds this: the peer's buffer, or ns-2's `window_`.
    pub max_window: f64,
    /// Fast recovery never starts with less [RFC 5681: 2; ns-2: 1].
    pub minimum_window: f64,
    /// Segments by which the window grows each round trip, for Tahoe to FACK and TCP-Real.
    pub alpha: f64,
    /// The share of the window that is kept on a loss, for Tahoe to FACK and TCP-Real.
    pub beta: f64,
    /// The share of the window that TCP-Real gives up when the receiver's rate falls
    /// [Papadimitriou06 §3.1].
    pub gamma: f64,
    /// Every acknowledgement counts as one segment, however many it acknowledges, as in ns-2 and
    /// RFC 2581.
    pub count_acks: bool,
    /// CUBIC counts in whole segments, as kernels do: what it keeps on a loss is rounded down, and each of its
    /// two curves asks for a segment only when it has passed the next one. With ten segments in flight that is a
    /// fifth of the rate.
    pub whole: bool,
}

/// No member of the family has this label.
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

    /// How configuration, tables and figures call it.
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

    /// The share of the window that is left after a loss, for members that take each for congestion and
    /// go on from there.
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

    /// A fresh control of this kind.
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
    /// Twice what 10 Gbit/s over 200 ms hold: 250 MB are 196 000 segments of 1274 bytes.
    pub const MAX_WINDOW: f64 = 524_288.0;

    /// The same settings with every number inside the range in which the rules make sense: what
    /// comes from a configuration cannot stop a sender.
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

/// Not `clamp`, which keeps a not-a-number.
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
