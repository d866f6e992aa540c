//! What may stay lost of a flow, and what its repair may cost, where its sender asks for something else than the nodes do
//! by themselves.
//!
//! ```text
//!  0                   1                   2
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3
//! +-------------------------------+---------------+
//! |  target, millionths; 0: none  |  most, 255 -  |
//! +-------------------------------+---------------+
//! ```
//! The target is the share of packets that may stay lost. The most is repair packets per hundred packets; it stands as
//! 255 less of it, so that zeros say nothing.

use crate::Malformed;
use crate::bytes::Reader;

/// A sender's own aim. The default says nothing: nodes do as their settings say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Aim {
    target_ppm: u16,
    /// 255 less of it; 0 says nothing.
    spared: u8,
}

/// A number that cannot be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadAim {
    /// The share of packets that may stay lost.
    #[error("a target is a share from 0.000001 to 0.065 (6.5%)")]
    Target,
    /// The most repair packets per packet.
    #[error("a limit of repair is from 0 to 2.54 repair packets per packet (254%)")]
    Most,
}

impl Aim {
    /// It says nothing.
    pub const NONE: Aim = Aim {
        target_ppm: 0,
        spared: 0,
    };
    /// Bytes on the wire.
    pub const BYTES: usize = 3;
    /// The least target, and the largest.
    pub const TARGET_LEAST: f64 = 1e-6;
    /// See [`Aim::TARGET_LEAST`].
    pub const TARGET_MOST: f64 = 0.065_535;
    /// The most repair packets per packet that can be told.
    pub const MOST: f64 = 2.54;

    /// The share of packets that may stay lost, and the most repair packets per packet; none for what the nodes do by
    /// themselves.
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

    /// Something is asked for.
    pub fn is_said(self) -> bool {
        self != Aim::default()
    }

    /// This, and what it does not say as another one says it.
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

    /// The share of packets that may stay lost.
    pub fn target(self) -> Option<f64> {
        (self.target_ppm > 0).then(|| f64::from(self.target_ppm) / 1e6)
    }

    /// The most repair packets per packet.
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
