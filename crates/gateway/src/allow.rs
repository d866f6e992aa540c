//! What an exit may carry connections to: the lines of `[[exit]] allow`.
//!
//! ```text
//!   10.1.0.0/16:443    example.org:80    *.example.org:443    [2001:db8::]/32:1-1023    10.0.0.1:*
//! ```
//!
//! A name in the list is a promise about the name, whatever it resolves to. A name that is not is
//! resolved, and carried to those of its addresses that are listed as addresses.

use core::fmt;
use core::net::{IpAddr, Ipv6Addr};
use core::ops::RangeInclusive;
use core::str::FromStr;
use wire::exit::Host;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    whom: Whom,
    ports: RangeInclusive<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Whom {
    /// The addresses that begin with so many bits of this one.
    Net(IpAddr, u8),
    /// This name.
    Name(String),
    /// The names below this one.
    Below(String),
}

/// A line that is no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not HOST:PORT, like 10.1.0.0/16:443, example.org:80, *.example.org:1-1023 or [2001:db8::]/32:*"
)]
pub struct BadRule(String);

/// All lines.
#[derive(Clone, Debug, Default)]
pub struct Allowed(Vec<Rule>);

impl Allowed {
    /// These lines.
    pub fn new(rules: Vec<Rule>) -> Allowed {
        Allowed(rules)
    }

    /// True if nothing is allowed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if a host is listed as it was asked for.
    pub fn lists(&self, host: &Host<'_>, port: u16) -> bool {
        self.0
            .iter()
            .any(|rule| rule.ports.contains(&port) && rule.whom.is(host))
    }

    /// True if a name could still be allowed by what it resolves to.
    pub fn lists_addresses(&self, port: u16) -> bool {
        self.0
            .iter()
            .any(|rule| rule.ports.contains(&port) && matches!(rule.whom, Whom::Net(..)))
    }
}

impl Whom {
    fn is(&self, host: &Host<'_>) -> bool {
        match (self, host) {
            (Whom::Net(net, bits), Host::Ip(ip)) => is_within(*net, *bits, ip.to_canonical()),
            (Whom::Name(name), Host::Name(asked)) => name.eq_ignore_ascii_case(bare(asked)),
            (Whom::Below(suffix), Host::Name(asked)) => {
                let asked = bare(asked);
                let split = asked.len().checked_sub(suffix.len());
                split
                    .and_then(|at| asked.split_at_checked(at))
                    .is_some_and(|(front, back)| {
                        front.len() > 1 && front.ends_with('.') && back.eq_ignore_ascii_case(suffix)
                    })
            }
            _ => false,
        }
    }
}

/// A name without the dot of the root.
fn bare(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

fn is_within(net: IpAddr, bits: u8, ip: IpAddr) -> bool {
    // The same bits above, or nothing to compare.
    let same = |a: u128, b: u128, width: u32| {
        let below = width - u32::from(bits).min(width);
        below >= 128 || a >> below == b >> below
    };
    match (net, ip) {
        (IpAddr::V4(net), IpAddr::V4(ip)) => same(net.to_bits().into(), ip.to_bits().into(), 32),
        (IpAddr::V6(net), IpAddr::V6(ip)) => same(net.to_bits(), ip.to_bits(), 128),
        _ => false,
    }
}

impl FromStr for Rule {
    type Err = BadRule;
    fn from_str(text: &str) -> Result<Rule, BadRule> {
        rule(text).ok_or_else(|| BadRule(text.to_owned()))
    }
}

fn rule(text: &str) -> Option<Rule> {
    let (host, ports) = text.rsplit_once(':')?;
    let ports = match ports.split_once('-') {
        _ if ports == "*" => 1..=u16::MAX,
        Some((first, last)) => port(first)?..=port(last)?,
        None => port(ports)?..=port(ports)?,
    };
    let whom = match host.split_once('/') {
        Some((net, bits)) => {
            let net = address(net)?;
            let bits: u8 = bits.parse().ok()?;
            let width = if net.is_ipv4() { 32 } else { 128 };
            (bits <= width).then_some(Whom::Net(net, bits))?
        }
        None => match address(host) {
            Some(ip) => Whom::Net(ip, if ip.is_ipv4() { 32 } else { 128 }),
            None => match host.strip_prefix("*.") {
                Some(suffix) => Whom::Below(name(suffix)?),
                None => Whom::Name(name(host)?),
            },
        },
    };
    (!ports.is_empty()).then_some(Rule { whom, ports })
}

fn port(text: &str) -> Option<u16> {
    text.parse().ok().filter(|port| *port != 0)
}

/// IPv4, or IPv6 in brackets.
fn address(text: &str) -> Option<IpAddr> {
    match text.strip_prefix('[') {
        Some(rest) => {
            let ip: Ipv6Addr = rest.strip_suffix(']')?.parse().ok()?;
            Some(IpAddr::V6(ip))
        }
        None => text.parse().ok().filter(IpAddr::is_ipv4),
    }
}

fn name(text: &str) -> Option<String> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    // A name of digits only is an address that was mistyped.
    let has_letter = text.bytes().any(|b| b.is_ascii_alphabetic());
    let fits = has_letter && text.len() <= 253 && text.bytes().all(allowed);
    fits.then(|| text.to_owned())
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.whom {
            Whom::Net(IpAddr::V6(ip), bits) => write!(f, "[{ip}]/{bits}")?,
            Whom::Net(ip, bits) => write!(f, "{ip}/{bits}")?,
            Whom::Name(name) => f.write_str(name)?,
            Whom::Below(suffix) => write!(f, "*.{suffix}")?,
        }
        match (*self.ports.start(), *self.ports.end()) {
            (1, u16::MAX) => f.write_str(":*"),
            (first, last) if first == last => write!(f, ":{first}"),
            (first, last) => write!(f, ":{first}-{last}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(rule: &str, host: &str, port: u16) -> bool {
        let host = match host.parse() {
            Ok(ip) => Host::Ip(ip),
            Err(_) => Host::Name(host),
        };
        Allowed::new(vec![rule.parse().unwrap()]).lists(&host, port)
    }

    #[test]
    fn a_rule_allows_what_it_says_and_nothing_else() {
        for (rule, host, port, allowed) in [
            ("10.1.0.0/16:443", "10.1.255.255", 443, true),
            ("10.1.0.0/16:443", "10.2.0.0", 443, false),
            ("10.1.0.0/16:443", "10.1.0.1", 444, false),
            ("10.1.0.0/16:443", "::ffff:10.1.0.1", 443, true),
            ("10.1.0.0/16:443", "example.org", 443, false),
            ("10.0.0.1:*", "10.0.0.1", 65_535, true),
            ("10.0.0.1:*", "10.0.0.2", 1, false),
            ("0.0.0.0/0:80", "192.0.2.1", 80, true),
            ("0.0.0.0/0:80", "2001:db8::1", 80, false),
            ("[::]/0:80", "2001:db8::1", 80, true),
            ("[2001:db8::]/32:1-1023", "2001:db8:7::1", 1_023, true),
            ("[2001:db8::]/32:1-1023", "2001:db9::1", 1_023, false),
            ("[2001:db8::]/32:1-1023", "2001:db8:7::1", 1_024, false),
            ("example.org:80", "Example.ORG.", 80, true),
            ("example.org:80", "www.example.org", 80, false),
            ("*.example.org:80", "www.example.org", 80, true),
            ("*.example.org:80", "example.org", 80, false),
            ("*.example.org:80", ".example.org", 80, false),
            ("*.example.org:80", "badexample.org", 80, false),
            ("*.example.org:80", "é.example.org", 80, true),
            ("*.example.org:80", "éxample.org", 80, false),
        ] {
            assert_eq!(allows(rule, host, port), allowed, "{rule} {host}:{port}");
        }
        let nothing = Allowed::default();
        assert!(nothing.is_empty() && !nothing.lists(&Host::Name("a"), 1));
    }

    #[test]
    fn rules_round_trip_and_nonsense_is_refused() {
        for rule in [
            "10.1.0.0/16:443",
            "[2001:db8::]/32:1-1023",
            "example.org:80",
            "*.example.org:*",
        ] {
            assert_eq!(rule.parse::<Rule>().unwrap().to_string(), rule);
        }
        for bad in [
            "",
            "example.org",
            "example.org:",
            "example.org:0",
            ":80",
            "10.1:80",
            "*:80",
            "a b:1",
            "10.1.0.0/33:1",
            "10.1.0.0/x:1",
            "2001:db8::1:80",
            "a.b:9-1",
            "*.:1",
            "a/8:1",
        ] {
            let error = bad.parse::<Rule>().unwrap_err().to_string();
            assert!(error.contains("like 10.1.0.0/16:443"), "{bad}: {error}");
        }
    }
}
