//! The change of a network from one root key to the next. Both keys sign it, and what the old one signed stays valid
//! for a while.
//!
//! ```text
//! succession                      bytes
//! +---------------------------+
//! | version (1)               |   1
//! | network id                |   8     of the first root key, for ever
//! | number                    |   1     of the new root: the first key has 0, its successor 1
//! | new root key, Ed25519     |  32
//! | until, unix seconds       |   8     the last second in which counts what older roots signed
//! | issued, unix seconds      |   8
//! | signature by the old root |  64     over everything in front of it
//! | signature by the new root |  64     likewise, the signature of the old one included
//! +---------------------------+
//! ```
//!
//! A succession proves itself to everybody who knows the old root, so it may arrive by any means: records
//! ([`crate::record::RecordKind::SUCCESSION`]), an option of each certificate that the new root signed, or files. The
//! new key also signs, so that no key becomes root without the knowledge of its holder.

use super::{KEY_BYTES, NETWORK_ID_BYTES, NetworkId, SIGNATURE_BYTES};
use crate::Malformed;
use crate::bytes::Reader;

/// The version of successions.
const VERSION: u8 = 1;
/// The part that the old root signs.
const BODY_BYTES: usize = 1 + NETWORK_ID_BYTES + 1 + KEY_BYTES + 8 + 8;
/// Bytes of a succession.
pub const SUCCESSION_BYTES: usize = BODY_BYTES + 2 * SIGNATURE_BYTES;
/// The maximum number of successions of a network. Choice: one each year for as long as a node's disk lasts; all of
/// them take 3 KB.
pub const MAX_SUCCESSIONS: usize = 16;

/// A root's statement that another key takes its place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Succession {
    /// The network, named by its first root key.
    pub network: NetworkId,
    /// The number of the new root, from 1 to [`MAX_SUCCESSIONS`].
    pub number: u8,
    /// The new root key.
    pub root: [u8; KEY_BYTES],
    /// The last second in which signatures of older roots are valid.
    pub until_s: u64,
    /// When the succession was signed.
    pub issued_s: u64,
    /// The signature by the previous root.
    pub by_old: [u8; SIGNATURE_BYTES],
    /// The signature by the new root.
    pub by_new: [u8; SIGNATURE_BYTES],
}

impl Succession {
    /// Reads a succession that fills `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Succession, Malformed> {
        let mut r = Reader::new(bytes);
        if r.u8()? != VERSION {
            return Err(Malformed::Version);
        }
        let succession = Succession {
            network: NetworkId(r.array()?),
            number: r.u8()?,
            root: r.array()?,
            until_s: r.u64()?,
            issued_s: r.u64()?,
            by_old: r.array()?,
            by_new: r.array()?,
        };
        r.finish()?;
        match (1..=MAX_SUCCESSIONS).contains(&usize::from(succession.number)) {
            true => Ok(succession),
            false => Err(Malformed::Value),
        }
    }

    /// Returns the succession as it is stored and sent.
    pub fn to_bytes(&self) -> [u8; SUCCESSION_BYTES] {
        let mut bytes = [0; SUCCESSION_BYTES];
        let parts: [&[u8]; 8] = [
            &[VERSION],
            &self.network.0,
            &[self.number],
            &self.root,
            &self.until_s.to_be_bytes(),
            &self.issued_s.to_be_bytes(),
            &self.by_old,
            &self.by_new,
        ];
        let mut at = 0;
        for part in parts {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        bytes
    }

    /// Returns the part of a succession that the old root signs.
    pub fn signed_by_old(bytes: &[u8; SUCCESSION_BYTES]) -> &[u8] {
        &bytes[..BODY_BYTES]
    }

    /// Returns the part of a succession that the new root signs.
    pub fn signed_by_new(bytes: &[u8; SUCCESSION_BYTES]) -> &[u8] {
        &bytes[..BODY_BYTES + SIGNATURE_BYTES]
    }
}

/// Omits the signatures.
impl core::fmt::Debug for Succession {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Succession")
            .field("network", &self.network)
            .field("number", &self.number)
            .field("until_s", &self.until_s)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes() -> Vec<u8> {
        [
            &[1][..],
            &[0xa0, 1, 2, 3, 4, 5, 6, 7],
            &[2],
            &[7; 32],
            &[0, 0, 0, 0, 0x66, 0, 0, 0],
            &[0, 0, 0, 0, 0x65, 0, 0, 0],
            &[8; 64],
            &[9; 64],
        ]
        .concat()
    }

    #[test]
    fn a_succession_and_its_bytes_agree_both_ways() {
        let bytes = bytes();
        let succession = Succession::parse(&bytes).unwrap();
        assert_eq!((succession.number, succession.root), (2, [7; 32]));
        assert_eq!(succession.network.0, [0xa0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(succession.until_s, 0x6600_0000);
        assert_eq!(succession.issued_s, 0x6500_0000);
        assert_eq!((succession.by_old, succession.by_new), ([8; 64], [9; 64]));
        let written = succession.to_bytes();
        assert_eq!(written[..], bytes);
        assert_eq!(Succession::signed_by_old(&written), &bytes[..58]);
        assert_eq!(Succession::signed_by_new(&written), &bytes[..122]);
        for short in 0..bytes.len() {
            let cut = Succession::parse(&bytes[..short]);
            assert_eq!(cut, Err(Malformed::Short), "{short}");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(Succession::parse(&longer), Err(Malformed::Length));
    }

    #[test]
    fn the_first_root_succeeds_nobody_and_a_chain_has_an_end() {
        for (number, is_good) in [(0, false), (1, true), (16, true), (17, false)] {
            let mut bytes = bytes();
            bytes[9] = number;
            assert_eq!(Succession::parse(&bytes).is_ok(), is_good, "{number}");
        }
        let mut bytes = bytes();
        bytes[0] = 2;
        assert_eq!(Succession::parse(&bytes), Err(Malformed::Version));
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_written_back(
            mut bytes in prop::collection::vec(any::<u8>(), SUCCESSION_BYTES),
            number in 0..20u8,
        ) {
            (bytes[0], bytes[9]) = (1, number);
            if let Ok(succession) = Succession::parse(&bytes) {
                prop_assert_eq!(&succession.to_bytes()[..], &bytes[..]);
            }
        }
    }
}
