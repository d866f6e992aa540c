//! The targets to which an exit may carry connections: the lines of `[[exit]] allow`.
//!
//! ```text
//!   10.1.0.0/16:443    example.org:80    *.example.org:443    [2001:db8::]/32:1-1023    10.0.0.1:*
//! ```
//!
//! The address that is connected to decides. A name in the list covers only those of its addresses that are on the
//! Internet: the owner of the name must not be able to point it at this host or its site. Any other name is allowed for
//! those of its addresses that are listed as addresses. An address that is not on the Internet ([`special`]) is reached
//! only by a rule that lies within its range, and an address of this host only by a rule for exactly that address.

use crate::special::{self, Range, is_within};
use core::fmt;
use core::net::{IpAddr, Ipv6Addr};
use core::ops::RangeInclusive;
use core::str::FromStr;
use std::io::ErrorKind;
use wire::exit::Host;

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    whom: Whom,
    ports: RangeInclusive<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Whom {
    /// The addresses that share this number of leading bits with this one.
    Net(IpAddr, u8),
    /// This name.
    Name(String),
    /// The names below this one.
    Below(String),
}

/// A line that is not a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not HOST:PORT, like 10.1.0.0/16:443, example.org:80, *.example.org:1-1023 or [2001:db8::]/32:*"
)]
pub struct BadRule(String);

/// All rules.
#[derive(Clone, Debug, Default)]
pub struct Allowed(Vec<Rule>);

/// Why a target is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No rule contains the target.
    #[error("the exit does not list the target: see `[[exit]] allow` there")]
    NotListed,
    /// Only rules for wider ranges contain the target.
    #[error(
        "the exit does not list the target: {} is {}, and only a rule within {} reaches it, like \
         \"{}\"",
        .at.0, .range.kind, .range, Just(*.at)
    )]
    Special {
        /// The address and port.
        at: (IpAddr, u16),
        /// The range that the address belongs to.
        range: Range,
    },
    /// The target is this host.
    #[error(
        "the exit does not list the target: {} is an address of the exit itself, and only a rule for \
         just this address reaches it, like \"{}\"",
        .at.0, Just(*.at)
    )]
    Own {
        /// The address and port.
        at: (IpAddr, u16),
    },
}

impl Allowed {
    /// Creates the list of these rules.
    pub fn new(rules: Vec<Rule>) -> Allowed {
        Allowed(rules)
    }

    /// Returns true if nothing is allowed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if an address is listed, of whatever kind it is. This is for incoming connections.
    pub fn admits(&self, ip: IpAddr, port: u16) -> bool {
        let ip = ip.to_canonical();
        self.at(port).any(|rule| {
            rule.net()
                .is_some_and(|(net, bits)| is_within(net, bits, ip))
        })
    }

    /// Returns true if a rule is for exactly this address.
    pub fn names(&self, ip: IpAddr) -> bool {
        let just = (ip.to_canonical(), width(ip.to_canonical()));
        self.0.iter().any(|rule| rule.net() == Some(just))
    }

    /// Returns true if the requested target could be permitted, depending on the addresses of its name.
    pub fn may_permit(&self, asked: &Host<'_>, port: u16) -> bool {
        match asked {
            Host::Ip(ip) => self.admits(*ip, port),
            Host::Name(name) => self
                .at(port)
                .any(|rule| rule.net().is_some() || rule.whom.is_name(name)),
        }
    }

    /// Decides whether a connection may go to this address, which somebody has requested as `asked`. The address must
    /// be the one that is then connected to.
    pub fn permit(&self, asked: &Host<'_>, ip: IpAddr, port: u16) -> Result<(), Refusal> {
        self.judge(asked, ip.to_canonical(), port, is_own)
    }

    fn judge(
        &self,
        asked: &Host<'_>,
        ip: IpAddr,
        port: u16,
        is_own: impl Fn(IpAddr) -> bool,
    ) -> Result<(), Refusal> {
        let range = special::range(ip);
        let named = |rule: &Rule| match asked {
            // Choice: this name means loopback to everybody (RFC 6761 §6.3), so an operator who lists it means that.
            Host::Name(name) if is_localhost(name) => rule.whom.is_name(name) && ip.is_loopback(),
            Host::Name(name) => rule.whom.is_name(name) && range.is_none(),
            Host::Ip(_) => false,
        };
        let nets = || {
            let nets = self.at(port).filter_map(Rule::net);
            nets.filter(|(net, bits)| is_within(*net, *bits, ip))
        };
        let is_named = self.at(port).any(named);
        if !is_named && nets().next().is_none() {
            // An operator who lists the name gets an error that says what the address is.
            return Err(match (asked, range) {
                (Host::Name(name), Some(range))
                    if self.at(port).any(|rule| rule.whom.is_name(name)) =>
                {
                    Refusal::Special {
                        at: (ip, port),
                        range,
                    }
                }
                _ => Refusal::NotListed,
            });
        }
        if let Some(range) = range {
            let within = nets().any(|(net, bits)| range.encloses(net, bits));
            return match within || is_named {
                true => Ok(()),
                false => Err(Refusal::Special {
                    at: (ip, port),
                    range,
                }),
            };
        }
        let is_just_it = |(_, bits): (IpAddr, u8)| bits == width(ip);
        match nets().any(is_just_it) || !is_own(ip) {
            true => Ok(()),
            false => Err(Refusal::Own { at: (ip, port) }),
        }
    }

    fn at(&self, port: u16) -> impl Iterator<Item = &Rule> {
        self.0.iter().filter(move |rule| rule.ports.contains(&port))
    }
}

impl Rule {
    fn net(&self) -> Option<(IpAddr, u8)> {
        match self.whom {
            Whom::Net(net, bits) => Some((net, bits)),
            Whom::Name(_) | Whom::Below(_) => None,
        }
    }
}

impl Whom {
    fn is_name(&self, asked: &str) -> bool {
        let asked = bare(asked);
        match self {
            Whom::Net(..) => false,
            Whom::Name(name) => name.eq_ignore_ascii_case(asked),
            Whom::Below(suffix) => {
                let split = asked.len().checked_sub(suffix.len());
                split
                    .and_then(|at| asked.split_at_checked(at))
                    .is_some_and(|(front, back)| {
                        front.len() > 1 && front.ends_with('.') && back.eq_ignore_ascii_case(suffix)
                    })
            }
        }
    }
}

/// Returns a name without the dot of the root.
fn bare(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

fn is_localhost(name: &str) -> bool {
    bare(name).eq_ignore_ascii_case("localhost")
}

fn width(ip: IpAddr) -> u8 {
    match ip {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

/// Returns whether the address belongs to this host. If the kernel does not say, it is assumed to.
fn is_own(ip: IpAddr) -> bool {
    match special::source_toward(ip) {
        Ok(source) => source == ip,
        Err(error) => !matches!(
            error.kind(),
            ErrorKind::NetworkUnreachable
                | ErrorKind::HostUnreachable
                | ErrorKind::AddrNotAvailable
        ),
    }
}

/// A target, displayed as a rule for exactly this target.
struct Just((IpAddr, u16));

impl fmt::Display for Just {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            (IpAddr::V4(ip), port) => write!(f, "{ip}:{port}"),
            (IpAddr::V6(ip), port) => write!(f, "[{ip}]:{port}"),
        }
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
            (bits <= width(net)).then_some(Whom::Net(net, bits))?
        }
        None => match address(host) {
            Some(ip) => Whom::Net(ip, width(ip)),
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

/// Parses IPv4, or IPv6 in brackets.
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
    // A name that consists of digits is a mistyped address.
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
mod tests;
