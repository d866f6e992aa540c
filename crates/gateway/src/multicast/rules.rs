//! Which groups may cross: networks of class D, and exceptions to them.
//!
//! 224.0.0.0/24 never crosses, whatever the rules say: routing protocols, IGMP and discovery on
//! one network live there, and no router forwards it (RFC 5771 §4).

use core::fmt;
use core::net::Ipv4Addr;
use core::str::FromStr;

/// Networks that one list may name.
pub const NETWORKS_MAX: usize = 64;

/// Whether a group is of 224.0.0.0/24.
#[must_use]
pub const fn is_link_local(group: Ipv4Addr) -> bool {
    let [a, b, c, _] = group.octets();
    a == 224 && b == 0 && c == 0
}

/// Whether a group is of 232.0.0.0/8, where a member names the sources it wants (RFC 4607).
#[must_use]
pub const fn is_source_specific(group: Ipv4Addr) -> bool {
    group.octets()[0] == 232
}

/// The groups that may cross, as `239.0.0.0/8,232.0.0.0/8,!239.255.255.250`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    networks: Vec<Network>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    address: Ipv4Addr,
    bits: u8,
    is_exception: bool,
}

impl Default for Rules {
    /// What is meant for private use, without the local scope, which ends where a site does, and where
    /// discovery such as SSDP lives [RFC 2365 §6.1]; and source-specific multicast. The scope of an
    /// organization, 239.192.0.0/14, is among it.
    fn default() -> Rules {
        let network = |a, b, bits, is_exception| Network {
            address: Ipv4Addr::new(a, b, 0, 0),
            bits,
            is_exception,
        };
        Rules {
            networks: vec![
                network(239, 0, 8, false),
                network(239, 255, 16, true),
                network(232, 0, 8, false),
            ],
        }
    }
}

impl Rules {
    /// Whether a group may cross: an exception is stronger than a network.
    #[must_use]
    pub fn allows(&self, group: Ipv4Addr) -> bool {
        let has = |is_exception| {
            let mut those = self.networks.iter();
            those.any(|n| n.is_exception == is_exception && n.contains(group))
        };
        group.is_multicast() && !is_link_local(group) && has(false) && !has(true)
    }

    /// The networks, without the exceptions.
    pub fn networks(&self) -> impl Iterator<Item = (Ipv4Addr, u8)> + '_ {
        let networks = self.networks.iter().filter(|n| !n.is_exception);
        networks.map(|network| {
            let first = network.address.to_bits() & network.mask();
            (Ipv4Addr::from_bits(first), network.bits)
        })
    }
}

impl Network {
    fn contains(&self, group: Ipv4Addr) -> bool {
        (group.to_bits() ^ self.address.to_bits()) & self.mask() == 0
    }

    fn mask(&self) -> u32 {
        u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0)
    }
}

/// The text is no list of groups.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRules {
    /// Not a group or a network of groups.
    #[error(
        "{0:?} is no group or network of groups: write 239.1.0.0/16, 239.1.1.1, or !239.1.1.1 for one that may not cross"
    )]
    NotGroups(String),
    /// 224.0.0.0/24 or a part of it.
    #[error("{0:?} never leaves a network: groups of 224.0.0.0/24 cannot be bridged")]
    LinkLocal(String),
    /// Nothing may cross by this list.
    #[error("no groups are left: name at least one network without `!`")]
    Empty,
    /// Too long a list.
    #[error("more than {NETWORKS_MAX} networks of groups")]
    TooMany,
}

impl FromStr for Rules {
    type Err = BadRules;

    fn from_str(text: &str) -> Result<Rules, BadRules> {
        let words = text.split(',').map(str::trim).filter(|w| !w.is_empty());
        let networks = words.map(Network::parse).collect::<Result<Vec<_>, _>>()?;
        if networks.len() > NETWORKS_MAX {
            return Err(BadRules::TooMany);
        }
        if networks.iter().all(|network| network.is_exception) {
            return Err(BadRules::Empty);
        }
        Ok(Rules { networks })
    }
}

impl Network {
    fn parse(word: &str) -> Result<Network, BadRules> {
        let bad = || BadRules::NotGroups(word.to_owned());
        let (rest, is_exception) = match word.strip_prefix('!') {
            Some(rest) => (rest, true),
            None => (word, false),
        };
        let (address, bits) = rest.split_once('/').unwrap_or((rest, "32"));
        let address: Ipv4Addr = address.parse().map_err(|_| bad())?;
        let bits: u8 = bits.parse().map_err(|_| bad())?;
        if !(4..=32).contains(&bits) || !address.is_multicast() {
            return Err(bad());
        }
        if bits >= 24 && is_link_local(address) && !is_exception {
            return Err(BadRules::LinkLocal(word.to_owned()));
        }
        Ok(Network {
            address,
            bits,
            is_exception,
        })
    }
}

impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, network) in self.networks.iter().enumerate() {
            let comma = if n > 0 { "," } else { "" };
            let mark = if network.is_exception { "!" } else { "" };
            write!(f, "{comma}{mark}{}/{}", network.address, network.bits)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(rules: &Rules, group: &str) -> bool {
        rules.allows(group.parse().unwrap())
    }

    #[test]
    fn networks_let_in_and_exceptions_keep_out() {
        let rules = Rules::default();
        assert_eq!(rules.to_string(), "239.0.0.0/8,!239.255.0.0/16,232.0.0.0/8");
        assert!(allows(&rules, "239.192.0.1") && allows(&rules, "239.254.255.255"));
        assert!(!allows(&rules, "239.255.255.250") && !allows(&rules, "239.255.0.1"));
        assert!(allows(&rules, "239.1.1.1") && allows(&rules, "232.255.255.255"));
        assert!(!allows(&rules, "224.0.1.1") && !allows(&rules, "10.0.0.1"));
        let rules: Rules = "224.0.0.0/4, !239.255.255.250".parse().unwrap();
        assert!(allows(&rules, "224.0.1.129") && allows(&rules, "239.255.255.249"));
        for never in ["224.0.0.1", "224.0.0.251", "239.255.255.250", "240.0.0.1"] {
            assert!(!allows(&rules, never), "{never}");
        }
        assert_eq!(rules.to_string().parse(), Ok(rules));
        let rules: Rules = "239.1.2.3/16,!239.1.9.9".parse().unwrap();
        let networks: Vec<_> = rules.networks().collect();
        assert_eq!(networks, [(Ipv4Addr::new(239, 1, 0, 0), 16)]);
    }

    #[test]
    fn what_is_no_list_of_groups_is_refused_with_the_word() {
        for text in ["10.0.0.0/8", "239.0.0.0/33", "239.0.0.0/0", "239.1", "x"] {
            let refused = text.parse::<Rules>().unwrap_err();
            assert_eq!(refused, BadRules::NotGroups(text.to_owned()));
        }
        for text in ["224.0.0.251", "224.0.0.0/24"] {
            let refused = text.parse::<Rules>().unwrap_err();
            assert_eq!(refused, BadRules::LinkLocal(text.to_owned()));
        }
        assert_eq!("".parse::<Rules>(), Err(BadRules::Empty));
        assert_eq!("!239.1.1.1".parse::<Rules>(), Err(BadRules::Empty));
        let long = vec!["239.0.0.0/8"; NETWORKS_MAX + 1].join(",");
        assert_eq!(long.parse::<Rules>(), Err(BadRules::TooMany));
    }
}
