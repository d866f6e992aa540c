//! The overlay group that carries a given IP multicast group.
//!
//! ```text
//!   239.1.1.1, from anybody          ──▶ 239.1.1.1
//!   232.1.1.1, from 10.0.0.5         ──▶ 232.x.y.z   one of its own for each source
//!   ff1e::101, from anybody          ──▶ 236.x.y.z
//!   ff3e::8000:1, from fd00::5       ──▶ 237.x.y.z   one of its own for each source
//! ```
//! A member of a source-specific group names the sources that it wants [RFC 4607 §1]: a group and a source form a
//! channel, and each channel has an overlay group. So packets of a source without members are not sent: the same
//! membership that stops unwanted groups stops them. If one group has two sources, each source reaches only its own
//! members.
//!
//! // Choice: the 64 bits of a channel are mixed to the 24 bits that 232.0.0.0/8 leaves, and so are the 128 bits of a
//! group of IPv6, or 256 bits with a source. Among 6000 channels, one pair collides. A collision costs the members the
//! transport of the other channel's packets, and nothing else: packets cross whole, and the bridge of the members
//! checks their addresses. 236.0.0.0/8 and 237.0.0.0/8 are ranges that no program of IPv4 may use (reserved by IANA,
//! RFC 5771 §3).

use super::rules::is_source_specific;
use base::NodeAddr;
use core::net::{IpAddr, Ipv6Addr};

/// Number of bits of an overlay group that depend on the channel.
const BITS: u32 = 24;
/// The first byte of overlay groups that carry IPv6: groups from any source, and channels.
const IPV6: u32 = 236;
const IPV6_CHANNELS: u32 = 237;

/// Returns the overlay group for packets that `source` sends to `group`.
#[must_use]
pub fn carrier(group: impl Into<IpAddr>, source: impl Into<IpAddr>) -> NodeAddr {
    let (group, source) = (group.into(), source.into());
    let is_channel = is_source_specific(group);
    let within =
        |network: u32, mixed: u64| NodeAddr(network << BITS | (mixed >> (64 - BITS)) as u32);
    match (group, source) {
        (IpAddr::V4(group), IpAddr::V4(source)) if is_channel => {
            let both = u64::from(group.to_bits()) << 32 | u64::from(source.to_bits());
            within(group.octets()[0].into(), mixed(both))
        }
        (IpAddr::V4(group), _) => NodeAddr(group.to_bits()),
        (IpAddr::V6(group), IpAddr::V6(source)) if is_channel => {
            within(IPV6_CHANNELS, mixed_in(mixed_in(0, group), source))
        }
        (IpAddr::V6(group), _) => within(IPV6, mixed_in(0, group)),
    }
}

fn mixed_in(before: u64, address: Ipv6Addr) -> u64 {
    let bits = address.to_bits();
    mixed(mixed(before ^ (bits >> 64) as u64) ^ bits as u64)
}

/// One round of SplitMix64 (Stafford's mix 13): every input bit flips each output bit with probability one half.
const fn mixed(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;
    use std::collections::BTreeSet;

    fn of(group: &str, source: &str) -> NodeAddr {
        let read = |text: &str| text.parse::<IpAddr>().unwrap();
        carrier(read(group), read(source))
    }

    #[test]
    fn each_channel_has_a_group_and_other_groups_are_themselves() {
        assert_eq!(of("239.1.1.1", "10.0.0.5"), NodeAddr(0xef01_0101));
        assert_eq!(of("239.1.1.1", "10.0.0.6"), NodeAddr(0xef01_0101));
        // Bridges of all versions must agree.
        assert_eq!(of("232.1.1.1", "10.0.0.5"), NodeAddr(0xe836_e904));
        assert_eq!(of("232.1.1.1", "10.0.0.6"), NodeAddr(0xe8b4_cb6c));
        assert_ne!(of("232.1.1.2", "10.0.0.5"), of("232.1.1.1", "10.0.0.5"));
    }

    #[test]
    fn a_group_of_ipv6_has_one_and_each_of_its_channels() {
        assert_eq!(of("ff1e::101", "fd00::5"), of("ff1e::101", "fd00::6"));
        assert_ne!(of("ff1e::101", "fd00::5"), of("ff1e::102", "fd00::5"));
        assert_ne!(of("ff3e::8000:1", "fd00::5"), of("ff3e::8000:1", "fd00::6"));
        assert_ne!(of("ff3e::8000:1", "fd00::5"), of("ff3e::8000:2", "fd00::5"));
        // Bridges of all versions must agree.
        assert_eq!(of("ff1e::101", "fd00::5").to_string(), "236.170.145.136");
        assert_eq!(of("ff3e::8000:1", "fd00::5").to_string(), "237.94.77.11");
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
        // With 4096 channels in 2^24 groups, half a pair collides on average.
        assert!(all.len() >= 4_090, "{}", all.len());
    }
}
