//! Ids: 128 bits on a circle, computed from an address by a mixing function. [Brogle09 §I]
//!
//! ```text
//!            0
//!         .--+--.        digit 0 is the first of 32 hexadecimal digits
//!   3/4  |       | 1/4   distance is the shorter way round
//!         '--+--'        closer: the less distance; of two as far, the less id
//!           1/2
//! ```
//!
//! Nodes and groups are mixed differently, so a group's id is near a node's id only by chance. Peers on the paper's
//! ring draw random ids. `// Choice:` here an id follows from the overlay address, which certificates bind. So no node
//! can choose its place on the ring, and no message carries ids.

use base::NodeAddr;
use core::cmp::Ordering;
use core::fmt;

/// Number of bits of a digit: b = 4, as usual for Pastry.
pub const DIGIT_BITS: u32 = 4;
/// Number of values of a digit.
pub const DIGITS: usize = 1 << DIGIT_BITS;
/// Number of digits of an id.
pub const ID_DIGITS: usize = (u128::BITS / DIGIT_BITS) as usize;

/// Constants that make the ids of nodes and groups with the same number different.
const NODE_DOMAIN: u64 = 0x6e6f_6465_0000_0000;
const GROUP_DOMAIN: u64 = 0x6772_6f75_0000_0000;

/// A place on the ring.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(pub u128);

impl Id {
    /// Returns the id of a node.
    pub const fn of_node(addr: NodeAddr) -> Id {
        Id::mixed(NODE_DOMAIN | addr.0 as u64)
    }

    /// Returns the id of a group. The node closest to the id is the group's root.
    pub const fn of_group(group: NodeAddr) -> Id {
        Id::mixed(GROUP_DOMAIN | group.0 as u64)
    }

    /// Mixes a word by two chained rounds of SplitMix64's finalizer (Stafford's mix 13): every bit of the input flips
    /// each bit of the output with probability one half.
    const fn mixed(word: u64) -> Id {
        let high = finalize(word ^ 0x9e37_79b9_7f4a_7c15);
        let low = finalize(high.wrapping_add(word).wrapping_add(0x9e37_79b9_7f4a_7c15));
        Id(((high as u128) << 64) | low as u128)
    }

    /// Returns the digit at a place, the most significant first. Places from 32 on have digit 0.
    pub const fn digit(self, place: usize) -> usize {
        if place >= ID_DIGITS {
            return 0;
        }
        let shift = u128::BITS - DIGIT_BITS * (place as u32 + 1);
        ((self.0 >> shift) & (DIGITS as u128 - 1)) as usize
    }

    /// Returns how many leading digits two ids share.
    pub const fn shared_digits(self, other: Id) -> usize {
        ((self.0 ^ other.0).leading_zeros() / DIGIT_BITS) as usize
    }

    /// Returns how far `other` is ahead, going upwards round the ring.
    pub const fn ahead(self, other: Id) -> u128 {
        other.0.wrapping_sub(self.0)
    }

    /// Returns the distance, which is the shorter way round the ring.
    pub const fn distance(self, other: Id) -> u128 {
        let up = self.ahead(other);
        let down = other.ahead(self);
        if up < down { up } else { down }
    }

    /// Compares which of two ids is closer to this one: less is closer. Only equal ids compare equal, so every set of
    /// nodes has one that is closest.
    pub fn closer(self, a: Id, b: Id) -> Ordering {
        let by_distance = self.distance(a).cmp(&self.distance(b));
        by_distance.then(a.0.cmp(&b.0))
    }
}

const fn finalize(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}
impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}…", self.0 >> 96)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_bit_of_the_address_turns_half_of_the_id() {
        let mut least = u128::BITS;
        let mut sum = 0;
        let mut tried = 0;
        for seed in 0..200u32 {
            let addr = 0x0a00_0000 + seed * 7;
            for bit in 0..32 {
                let other = NodeAddr(addr ^ (1 << bit));
                let turned = Id::of_node(NodeAddr(addr)).0 ^ Id::of_node(other).0;
                least = least.min(turned.count_ones());
                sum += turned.count_ones();
                tried += 1;
            }
        }
        let mean = f64::from(sum) / f64::from(tried);
        assert!((62.0..66.0).contains(&mean), "{mean} of 128");
        assert!(least > 30, "{least} of 128");
    }

    #[test]
    fn consecutive_addresses_spread_evenly_over_first_digits() {
        let mut counts = [[0u32; DIGITS]; 2];
        for n in 0..16_000 {
            counts[0][Id::of_node(NodeAddr(0x0a00_0001 + n)).digit(0)] += 1;
            counts[1][Id::of_group(NodeAddr(0xef00_0001 + n)).digit(0)] += 1;
        }
        let even = |count: &u32| (850..1150).contains(count);
        assert!(counts.as_flattened().iter().all(even), "{counts:?}");
        let number = NodeAddr(0xef00_0001);
        assert_ne!(Id::of_node(number), Id::of_group(number));
    }

    /// Returns the digits one by one, as a text.
    fn hex(id: Id) -> Vec<u8> {
        format!("{:032x}", id.0).into_bytes()
    }

    proptest! {
        #[test]
        fn digits_and_prefixes_are_those_of_the_text(a: u128, b: u128, common in 0u32..128) {
            let (a, b) = (Id(a), Id(if common == 0 { b } else { (b >> common) ^ a }));
            let (ta, tb) = (hex(a), hex(b));
            let shared = ta.iter().zip(&tb).take_while(|(x, y)| x == y).count();
            prop_assert_eq!(a.shared_digits(b), shared);
            for (place, text) in ta.iter().enumerate() {
                let digit = char::from(*text).to_digit(16).unwrap() as usize;
                prop_assert_eq!(a.digit(place), digit);
            }
        }

        #[test]
        fn distance_is_the_shorter_way_and_order_is_total(a: u128, b: u128, key: u128) {
            let (a, b, key) = (Id(a), Id(b), Id(key));
            let (lo, hi) = (a.0.min(b.0), a.0.max(b.0));
            let direct = hi - lo;
            let round = (u128::MAX - direct).saturating_add(u128::from(direct != 0));
            prop_assert_eq!(a.distance(b), if direct == 0 { 0 } else { direct.min(round) });
            prop_assert_eq!(a.distance(b), b.distance(a));
            prop_assert_eq!(key.closer(a, b), key.closer(b, a).reverse());
            prop_assert_eq!(key.closer(a, b) == Ordering::Equal, a == b);
        }
    }
}
