//! Which group of the overlay carries what of IP multicast.
//!
//! ```text
//!   239.1.1.1, from anybody          ──▶ 239.1.1.1
//!   232.1.1.1, from 10.0.0.5         ──▶ 232.x.y.z   one of its own for each source
//! ```
//! A member of a source-specific group names the sources that it wants [RFC 4607 §1]: a group and a source
//! are a channel, and to each channel belongs a group of the overlay. So a source that nobody wants stays
//! at home, by the same membership that keeps groups at home, and of two sources of one group each goes to
//! its own members only.
//!
//! // Choice: the 64 bits of a channel are mixed to the 24 that 232.0.0.0/8 leaves. Two channels that meet
//! there, one pair among 6000 channels, cost each other's members the way, and nothing else: packets cross
//! whole, and the members' bridge looks at their addresses.

use super::rules::is_source_specific;
use base::NodeAddr;
use core::net::Ipv4Addr;

/// Bits of an overlay's group that a channel chooses.
const BITS: u32 = 24;

/// The overlay's group of what `source` sends to `group`.
#[must_use]
pub fn carrier(group: Ipv4Addr, source: Ipv4Addr) -> NodeAddr {
    if !is_source_specific(group) {
        return NodeAddr(group.to_bits());
    }
    let both = u64::from(group.to_bits()) << 32 | u64::from(source.to_bits());
    let [first, ..] = group.octets();
    NodeAddr(u32::from(first) << BITS | (mixed(both) >> (64 - BITS)) as u32)
}

/// One round of SplitMix64 (Stafford's mix 13): every bit of the input turns each bit of the output with
/// probability one half.
const fn mixed(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn of(group: &str, source: &str) -> NodeAddr {
        carrier(group.parse().unwrap(), source.parse().unwrap())
    }

    #[test]
    fn each_channel_has_a_group_and_other_groups_are_themselves() {
        assert_eq!(of("239.1.1.1", "10.0.0.5"), NodeAddr(0xef01_0101));
        assert_eq!(of("239.1.1.1", "10.0.0.6"), NodeAddr(0xef01_0101));
        // Bridges of all versions have to agree.
        assert_eq!(of("232.1.1.1", "10.0.0.5"), NodeAddr(0xe836_e904));
        assert_eq!(of("232.1.1.1", "10.0.0.6"), NodeAddr(0xe8b4_cb6c));
        assert_ne!(of("232.1.1.2", "10.0.0.5"), of("232.1.1.1", "10.0.0.5"));
    }

    #[test]
    fn channels_are_spread_over_the_whole_range() {
        let all = (0..4_096u32).map(|n| {
            let source = Ipv4Addr::from_bits(0x0a00_0000 + n % 64);
            let group = Ipv4Addr::from_bits(0xe801_0100 + n / 64);
            carrier(group, source).0
        });
        let all: BTreeSet<u32> = all.collect();
        assert!(all.iter().all(|group| group >> 24 == 232));
        // 4096 in 2^24: half a pair meets, as a rule.
        assert!(all.len() >= 4_090, "{}", all.len());
    }
}
