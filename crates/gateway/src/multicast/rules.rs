//! The groups that may cross: networks of groups, of IPv4 and IPv6, with exceptions.
//!
//! Groups of one link never cross, whatever the rules are: 224.0.0.0/24, which contains routing protocols, IGMP and
//! discovery (RFC 5771 §4), and the IPv6 scopes 0 to 2, of an interface and of a link (RFC 7346 §2).

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

/// Maximum number of networks in a list.
pub const NETWORKS_MAX: usize = 64;
/// The widest scope of IPv6 that never leaves a link.
const SCOPE_LINK: u8 = 2;

/// Returns whether a group never leaves its link.
#[must_use]
pub fn is_link_local(group: impl Into<IpAddr>) -> bool {
    match group.into() {
        IpAddr::V4(group) => group.octets()[..3] == [224, 0, 0],
        IpAddr::V6(group) => group.octets()[1] & 0xf <= SCOPE_LINK,
    }
}

/// Returns whether a group is source-specific: of 232.0.0.0/8, or of ff30::/12 with any scope. A member of such a group
/// names the sources that it wants (RFC 4607 §1).
#[must_use]
pub fn is_source_specific(group: impl Into<IpAddr>) -> bool {
    match group.into() {
        IpAddr::V4(group) => group.octets()[0] == 232,
        IpAddr::V6(group) => {
            let [first, second, third, fourth, ..] = group.octets();
            first == 0xff && second >> 4 == 3 && [third, fourth] == [0, 0]
        }
    }
}

/// The groups that may cross, as `239.0.0.0/8,232.0.0.0/8,!239.255.255.250,ff1e::/16`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    networks: Vec<Network>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    bits: u8,
    is_exception: bool,
}

impl Default for Rules {
    /// The default allows the range for private use and source-specific multicast. The range includes the scope of an
    /// organization, 239.192.0.0/14. It excludes the local scope, which ends at the site and contains discovery such as
    /// SSDP [RFC 2365 §6.1].
    ///
    /// IPv6 is similar: the default allows the scopes of an organization (8) and of the world (e) [RFC 7346 §2]. Within
    /// them it allows groups that programs choose (ff1x), groups that belong to a prefix, including source-specific
    /// ones (ff3x), and groups of a rendezvous point (ff7x). Groups that IANA has assigned permanently (ff0x) do not
    /// cross, and neither does 224.0.1.0/24.
    fn default() -> Rules {
        let network = |address: IpAddr, bits, is_exception| Network {
            address,
            bits,
            is_exception,
        };
        let v4 = |a, b, bits, is| network(Ipv4Addr::new(a, b, 0, 0).into(), bits, is);
        let v6 = |first| network(Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, 0).into(), 16, false);
        Rules {
            networks: vec![
                v4(239, 0, 8, false),
                v4(239, 255, 16, true),
                v4(232, 0, 8, false),
                v6(0xff18),
                v6(0xff1e),
                v6(0xff38),
                v6(0xff3e),
                v6(0xff78),
                v6(0xff7e),
            ],
        }
    }
}

impl Rules {
    /// Returns whether a group may cross: an exception takes precedence over a network.
    #[must_use]
    pub fn allows(&self, group: impl Into<IpAddr>) -> bool {
        let group = group.into();
        let has = |is_exception| {
            let mut those = self.networks.iter();
            those.any(|n| n.is_exception == is_exception && n.contains(group))
        };
        group.is_multicast() && !is_link_local(group) && has(false) && !has(true)
    }

    /// Returns the networks, without the exceptions.
    pub fn networks(&self) -> impl Iterator<Item = (IpAddr, u8)> + '_ {
        let networks = self.networks.iter().filter(|n| !n.is_exception);
        networks.map(|network| (network.first(), network.bits))
    }

    /// Returns whether any groups of IPv6 may cross.
    #[must_use]
    pub fn has_ipv6(&self) -> bool {
        self.networks().any(|(network, _)| network.is_ipv6())
    }
}

impl Network {
    fn contains(&self, group: IpAddr) -> bool {
        let of_group = Network {
            address: group,
            ..*self
        };
        group.is_ipv4() == self.address.is_ipv4() && of_group.first() == self.first()
    }

    /// Returns the lowest address.
    fn first(&self) -> IpAddr {
        let bits = u32::from(self.bits);
        match self.address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
                Ipv4Addr::from_bits(address.to_bits() & mask).into()
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
                Ipv6Addr::from_bits(address.to_bits() & mask).into()
            }
        }
    }
}

/// The text is not a list of groups.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRules {
    /// Not a group or a network of groups.
    #[error(
        "{0:?} is no group or network of groups: write 239.1.0.0/16, 239.1.1.1, ff1e::/16, or !239.1.1.1 for one that may not cross"
    )]
    NotGroups(String),
    /// The entry is 224.0.0.0/24 or a part of it, or of an IPv6 scope that ends at the link.
    #[error(
        "{0:?} never leaves a network: groups of 224.0.0.0/24 and of ff00::/12 to ff02::/16 cannot be bridged"
    )]
    LinkLocal(String),
    /// The list allows no group.
    #[error("no groups are left: name at least one network without `!`")]
    Empty,
    /// The list is too long.
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
        let (address, bits) = match rest.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (rest, None),
        };
        let address: IpAddr = address.parse().map_err(|_| bad())?;
        // The shortest and the longest prefix of multicast, and the prefix length from which a network is entirely of
        // one link.
        let (least, most, of_link) = match address {
            IpAddr::V4(_) => (4, 32, 24),
            IpAddr::V6(_) => (8, 128, 16),
        };
        let bits: u8 = bits.map_or(Ok(most), str::parse).map_err(|_| bad())?;
        if !(least..=most).contains(&bits) || !address.is_multicast() {
            return Err(bad());
        }
        if bits >= of_link && is_link_local(address) && !is_exception {
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
        rules.allows(group.parse::<IpAddr>().unwrap())
    }

    #[test]
    fn networks_let_in_and_exceptions_keep_out() {
        let rules = Rules::default();
        let text = rules.to_string();
        assert!(text.starts_with("239.0.0.0/8,!239.255.0.0/16,232.0.0.0/8,ff18::/16,ff1e::/16,"));
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
        assert_eq!(networks, [(Ipv4Addr::new(239, 1, 0, 0).into(), 16)]);
    }

    #[test]
    fn scopes_of_ipv6_cross_from_an_organization_on_and_never_those_of_a_link() {
        let rules = Rules::default();
        for may in ["ff1e::101", "ff18::1", "ff3e::8000:1", "ff38::1", "ff7e::1"] {
            assert!(allows(&rules, may), "{may}");
        }
        // These are of the site scope or a narrower one, assigned permanently, of a link, and not a group.
        for not in [
            "ff15::1",
            "ff14::1",
            "ff35::1",
            "ff0e::101",
            "ff02::fb",
            "ff12::1",
            "fd00::1",
        ] {
            assert!(!allows(&rules, not), "{not}");
        }
        let all: Rules = "ff00::/8,!ff05::/16".parse().unwrap();
        assert!(allows(&all, "ff15::1") && allows(&all, "ff0e::101"));
        for never in [
            "ff05::c",
            "ff02::1",
            "ff11::1",
            "ff32::1",
            "ff00::1",
            "239.1.1.1",
        ] {
            assert!(!allows(&all, never), "{never}");
        }
        assert_eq!(all.to_string().parse(), Ok(all.clone()));
        assert!(all.has_ipv6() && !"239.1.1.1".parse::<Rules>().unwrap().has_ipv6());
        let only: Rules = "ff15::7".parse().unwrap();
        assert!(allows(&only, "ff15::7") && !allows(&only, "ff15::8"));
        let is_ssm = |text: &str| is_source_specific(text.parse::<IpAddr>().unwrap());
        assert!(is_ssm("ff3e::8000:1") && is_ssm("ff35::1"));
        // This group belongs to a prefix, and so is not a channel.
        assert!(!is_ssm("ff3e:40:2001:db8::1") && !is_ssm("ff1e::1"));
    }

    #[test]
    fn what_is_no_list_of_groups_is_refused_with_the_word() {
        for text in [
            "10.0.0.0/8",
            "239.0.0.0/33",
            "239.0.0.0/0",
            "239.1",
            "x",
            "fd00::/8",
            "ff00::/7",
            "ff1e::/129",
        ] {
            let refused = text.parse::<Rules>().unwrap_err();
            assert_eq!(refused, BadRules::NotGroups(text.to_owned()));
        }
        for text in ["224.0.0.251", "224.0.0.0/24", "ff02::fb", "ff12::/16"] {
            let refused = text.parse::<Rules>().unwrap_err();
            assert_eq!(refused, BadRules::LinkLocal(text.to_owned()));
        }
        assert_eq!("".parse::<Rules>(), Err(BadRules::Empty));
        assert_eq!("!239.1.1.1".parse::<Rules>(), Err(BadRules::Empty));
        let long = vec!["239.0.0.0/8"; NETWORKS_MAX + 1].join(",");
        assert_eq!(long.parse::<Rules>(), Err(BadRules::TooMany));
    }
}
