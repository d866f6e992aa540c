//! The text forms of domains, services and endpoints.

use super::Error;
use core::fmt;
use core::str::FromStr;
use std::net::IpAddr;

/// The longest DNS name, and the longest of its labels.
const NAME_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;

/// The transport of SIP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transport {
    /// Each message is a datagram.
    Udp,
    /// TCP: messages are sent over a connection.
    Tcp,
}

/// A service to search for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Service {
    /// Nodes of an overlay: their gates for clients on other hosts.
    Nodes,
    /// SIP proxies.
    Sip(Transport),
}

impl Service {
    /// Returns the prefix of the domain in the DNS.
    pub const fn label(self) -> &'static str {
        match self {
            Service::Nodes => "_sinew._udp",
            Service::Sip(Transport::Udp) => "_sip._udp",
            Service::Sip(Transport::Tcp) => "_sip._tcp",
        }
    }

    /// Returns the default port: that of gates in the documentation, and SIP's. [RFC 3261 §18.2.1]
    pub const fn default_port(self) -> u16 {
        match self {
            Service::Nodes => 7443,
            Service::Sip(_) => 5060,
        }
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

/// A host with or without a port: `example.org`, `example.org:5070`, `[2001:db8::1]:5060`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HostPort {
    pub(super) host: Host,
    pub(super) port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Host {
    Address(IpAddr),
    Name(String),
}

impl FromStr for HostPort {
    type Err = Error;

    fn from_str(text: &str) -> Result<HostPort, Error> {
        let wrong = || Error::Name(text.chars().take(NAME_BYTES_MAX).collect());
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(HostPort {
                host: Host::Address(address),
                port: None,
            });
        }
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, rest) = rest.split_once(']').ok_or_else(wrong)?;
                let port = match rest {
                    "" => None,
                    rest => Some(rest.strip_prefix(':').ok_or_else(wrong)?),
                };
                (
                    Host::Address(IpAddr::V6(host.parse().map_err(|_| wrong())?)),
                    port,
                )
            }
            None => {
                let (host, port) = match text.split_once(':') {
                    Some((host, port)) => (host, Some(port)),
                    None => (text, None),
                };
                let host = match host.parse::<IpAddr>() {
                    Ok(address) => Host::Address(address),
                    Err(_) => Host::Name(host_name(host).ok_or_else(wrong)?),
                };
                (host, port)
            }
        };
        let port = match port {
            Some(port) => Some(
                port.parse()
                    .ok()
                    .filter(|port| *port > 0)
                    .ok_or_else(wrong)?,
            ),
            None => None,
        };
        Ok(HostPort { host, port })
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Address(address) => address.fmt(f),
            Host::Name(name) => f.write_str(name),
        }
    }
}

/// Returns a name in the form for questions: labels of letters, digits, `-` and `_`, in lower case, without the dot at
/// the end. Names in other scripts are written in their `xn--` form.
pub(super) fn host_name(text: &str) -> Option<String> {
    let text = text.strip_suffix('.').unwrap_or(text);
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    let label =
        |label: &str| (1..=LABEL_BYTES_MAX).contains(&label.len()) && label.bytes().all(allowed);
    let whole = text.len() <= NAME_BYTES_MAX && text.split('.').all(label);
    whole.then(|| text.to_ascii_lowercase())
}

/// Configured servers of a domain, for which the DNS is not asked: `example.org=HOST:PORT,HOST:PORT`, in the order in
/// which they are to be tried. The name may be that of one service, as in `_sip._udp.example.org=HOST`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Static {
    pub(super) name: String,
    pub(super) hosts: Vec<HostPort>,
}

/// Largest number of hosts of one domain in the configuration.
pub const STATIC_HOSTS_MAX: usize = 16;

impl FromStr for Static {
    type Err = Error;

    fn from_str(text: &str) -> Result<Static, Error> {
        let wrong = || Error::Static(text.to_owned());
        let (name, hosts) = text.split_once('=').ok_or_else(wrong)?;
        let hosts: Result<Vec<HostPort>, Error> = hosts.split(',').map(str::parse).collect();
        let hosts = hosts.map_err(|_| wrong())?;
        if hosts.len() > STATIC_HOSTS_MAX {
            return Err(wrong());
        }
        Ok(Static {
            name: host_name(name).ok_or_else(wrong)?,
            hosts,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_are_read_in_every_form() {
        for (text, host, port) in [
            ("example.org", "example.org", None),
            ("Example.ORG.", "example.org", None),
            ("example.org:5070", "example.org", Some(5070)),
            ("192.0.2.1", "192.0.2.1", None),
            ("192.0.2.1:5061", "192.0.2.1", Some(5061)),
            ("2001:db8::1", "2001:db8::1", None),
            ("[2001:db8::1]", "2001:db8::1", None),
            ("[2001:db8::1]:7", "2001:db8::1", Some(7)),
            ("_x-1.a", "_x-1.a", None),
        ] {
            let read: HostPort = text.parse().unwrap();
            assert_eq!(
                (read.host.to_string().as_str(), read.port),
                (host, port),
                "{text}"
            );
        }
        let long_label = "a".repeat(64) + ".org";
        let long = "a.".repeat(128);
        for bad in [
            "",
            ".",
            "..",
            "a..b",
            "a b",
            "ex\u{e4}mple.org",
            "a:0",
            "a:",
            "a:70000",
            "a:1:2",
            "[::1",
            "[::1]5",
            "[a]:1",
            "a\0",
            &long_label,
            &long,
        ] {
            assert!(
                matches!(bad.parse::<HostPort>(), Err(Error::Name(_))),
                "{bad}"
            );
        }
    }

    #[test]
    fn static_lists_are_read_and_mistakes_told() {
        let list: Static = "Example.org=a.example.net:7443,192.0.2.1".parse().unwrap();
        assert_eq!(list.name, "example.org");
        assert_eq!(list.hosts.len(), 2);
        let many = format!("a={}", ["h"; STATIC_HOSTS_MAX + 1].join(","));
        for bad in ["example.org", "=a", "a=", "a=b,,c", "a b=c", "a=b:x", &many] {
            let error = bad.parse::<Static>().unwrap_err().to_string();
            assert!(error.contains("DOMAIN=HOST:PORT"), "{error}");
        }
    }
}
