//! The host names under which the metrics server answers.
//!
//! A web page can make a browser query this server under a name of its own, which it lets resolve to this host's
//! address (DNS rebinding). It may then read the answer, because the browser takes this server for the page's own. The
//! browser sends the name, so requests under a foreign name are refused.

use std::net::{IpAddr, Ipv6Addr};

/// The names of this server.
#[derive(Clone, Debug, Default)]
pub struct Hosts(Vec<String>);

impl Hosts {
    /// Creates the set of the host's own name and of these names.
    pub fn new(more: &[String]) -> Hosts {
        let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let own = Some(own.trim().to_owned()).filter(|own| !own.is_empty());
        Hosts(own.into_iter().chain(more.iter().cloned()).collect())
    }

    /// Returns true if a request may have this value in `Host`. All addresses are permitted, because nobody else can
    /// own an address as a name.
    pub(super) fn has(&self, host: &str) -> bool {
        let host = host.trim();
        let name = match host.strip_prefix('[') {
            Some(rest) => {
                let ip = rest.split(']').next().unwrap_or_default();
                return ip.parse::<Ipv6Addr>().is_ok();
            }
            None => host.rsplit_once(':').map_or(host, |(name, _)| name),
        };
        let name = name.strip_suffix('.').unwrap_or(name);
        let is_it = |known: &str| name.eq_ignore_ascii_case(known);
        name.parse::<IpAddr>().is_ok()
            || is_it("localhost")
            || self.0.iter().any(|known| is_it(known))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_own_names_are_known_and_others_are_not() {
        let hosts = Hosts(vec!["ams".to_owned(), "ams.example.org".to_owned()]);
        for (host, known) in [
            ("127.0.0.1:9700", true),
            ("192.0.2.1", true),
            ("[::1]:9700", true),
            ("[2001:db8::1]", true),
            ("localhost:9700", true),
            ("LocalHost.", true),
            ("ams:9700", true),
            ("AMS.example.org:9700", true),
            ("evil.example:9700", false),
            ("ams.evil.example", false),
            ("127.0.0.1.evil.example:9700", false),
            ("[evil.example]", false),
            ("", false),
        ] {
            assert_eq!(hosts.has(host), known, "{host}");
        }
    }
}
