//! The target of a flow: the share of its packets that may stay lost, and the maximum cost of their repair, if its
//! sender wants something other than the nodes' settings.
//!
//! ```text
//!  0                   1                   2
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3
//! +-------------------------------+---------------+
//! |  target, millionths; 0: none  |  most, 255 -  |
//! +-------------------------------+---------------+
//! ```
//! The target is the share of packets that may stay lost. The most is the maximum number of repair packets per hundred
//! packets; it is written as 255 minus the value, so that zeros set nothing.

use crate::Malformed;
use crate::bytes::Reader;

/// A sender's own aim. The default sets nothing: nodes use their settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Aim {
    target_ppm: u16,
    /// 255 minus the value of `most`; 0 sets nothing.
    spared: u8,
}

/// A number that cannot be represented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadAim {
    /// The share of packets that may stay lost.
    #[error("a target is a share from 0.000001 to 0.065 (6.5%)")]
    Target,
    /// The maximum number of repair packets per packet.
    #[error("a limit of repair is from 0 to 2.54 repair packets per packet (254%)")]
    Most,
}

impl Aim {
    /// An aim that sets nothing.
    pub const NONE: Aim = Aim {
        target_ppm: 0,
        spared: 0,
    };
    /// Number of bytes on the wire.
    pub const BYTES: usize = 3;
    /// The minimum target; the maximum is below.
    pub const TARGET_LEAST: f64 = 1e-6;
    /// The maximum target.
    pub const TARGET_MOST: f64 = 0.065_535;
    /// The maximum number of repair packets per packet that can be represented.
    pub const MOST: f64 = 2.54;

    /// Creates an aim from the share of packets that may stay lost, and the maximum number of repair packets per
    /// packet; `None` for the nodes' settings.
    pub fn new(target: Option<f64>, most: Option<f64>) -> Result<Aim, BadAim> {
        let target_ppm = match target {
            None => 0,
            Some(share) if (Aim::TARGET_LEAST..=Aim::TARGET_MOST).contains(&share) => {
                (share * 1e6).round() as u16
            }
            Some(_) => return Err(BadAim::Target),
        };
        let spared = match most {
            None => 0,
            Some(most) if (0.0..=Aim::MOST).contains(&most) => {
                u8::MAX - (most * 100.0).round() as u8
            }
            Some(_) => return Err(BadAim::Most),
        };
        Ok(Aim { target_ppm, spared })
    }

    /// Returns true if the aim sets something.
    pub fn is_said(self) -> bool {
        self != Aim::default()
    }

    /// Returns this aim, with missing values taken from another one.
    pub fn or(self, other: Aim) -> Aim {
        Aim {
            target_ppm: match self.target_ppm {
                0 => other.target_ppm,
                said => said,
            },
            spared: match self.spared {
                0 => other.spared,
                said => said,
            },
        }
    }

    /// Returns the share of packets that may stay lost.
    pub fn target(self) -> Option<f64> {
        (self.target_ppm > 0).then(|| f64::from(self.target_ppm) / 1e6)
    }

    /// Returns the maximum number of repair packets per packet.
    pub fn most(self) -> Option<f64> {
        (self.spared > 0).then(|| f64::from(u8::MAX - self.spared) / 100.0)
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Aim, Malformed> {
        Ok(Aim {
            target_ppm: r.u16()?,
            spared: r.u8()?,
        })
    }

    pub(crate) fn to_bytes(self) -> [u8; Aim::BYTES] {
        let [high, low] = self.target_ppm.to_be_bytes();
        [high, low, self.spared]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_both_ways() {
        let aim = Aim::new(Some(0.0005), Some(1.0)).unwrap();
        assert_eq!(aim.to_bytes(), [0x01, 0xf4, 155]);
        let read = |bytes: &[u8]| Aim::read(&mut Reader::new(bytes));
        assert_eq!(read(&aim.to_bytes()), Ok(aim));
        assert_eq!((aim.target(), aim.most()), (Some(0.0005), Some(1.0)));
        assert_eq!(Aim::default().to_bytes(), [0; 3]);
        assert_eq!(Aim::new(None, None), Ok(Aim::default()));
        for cut in 0..Aim::BYTES {
            assert!(read(&aim.to_bytes()[..cut]).is_err());
        }
    }

    #[test]
    fn to_want_no_repair_is_not_to_say_nothing() {
        let bare = Aim::new(None, Some(0.0)).unwrap();
        assert!(bare.is_said());
        assert_eq!((bare.target(), bare.most()), (None, Some(0.0)));
        assert!(!Aim::default().is_said());
    }

    #[test]
    fn what_one_does_not_say_another_may() {
        let aim = |target, most| Aim::new(target, most).unwrap();
        let (target, most) = (aim(Some(0.001), None), aim(None, Some(0.5)));
        let both = aim(Some(0.001), Some(0.5));
        assert_eq!((target.or(most), most.or(target)), (both, both));
        let other = aim(Some(0.01), Some(1.0));
        assert_eq!((both.or(other), Aim::NONE.or(other)), (both, other));
    }

    #[test]
    fn what_cannot_be_told_is_refused() {
        for target in [0.0, -1.0, 0.07, f64::NAN] {
            assert_eq!(
                Aim::new(Some(target), None),
                Err(BadAim::Target),
                "{target}"
            );
        }
        for most in [-0.1, 2.6, f64::NAN] {
            assert_eq!(Aim::new(None, Some(most)), Err(BadAim::Most), "{most}");
        }
    }
}
