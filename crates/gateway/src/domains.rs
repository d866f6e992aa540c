//! The nodes that serve a domain: those whose certificates name it.
//!
//! ```text
//!   certificate of fra: "example.org", "*.example.net"      asked for            served by
//!   certificate of par: "sip.example.org"                   sip.example.org      par, then fra
//!   certificate of lon: "example.org"                       pbx.example.org      fra or lon, the nearer first
//!                                                           example.net          nobody
//! ```
//!
//! A call for `alice@sip.example.org` leaves the overlay at a node that may serve that domain. Only the network's root
//! decides which nodes may: a certificate names domains, the root has signed it, and every node has checked this before
//! it reports the domains. Claims of a node elsewhere, in SIP or SDP, are believed only as far as [`Domains::serves`]
//! confirms them.
//!
//! - `example.org` in a certificate is that domain and everything below it.
//! - `*.example.org` is everything below it, but not the domain itself.
//! - `*` is every domain, for a node that stands for the rest of the world: a trunk to the telephone network.
//! - An address is served by a node whose certificate names exactly that address.
//!
//! Nodes are sorted by the number of matching labels first, and then by the overlay's expected latency from this node.
//! Nodes that cannot be reached at present serve nothing. [Amir06 §VI]

use base::NodeAddr;
use core::time::Duration;
use std::net::IpAddr;

/// The maximum length of a name in the DNS.
pub const NAME_BYTES_MAX: usize = 253;

/// The known domains of nodes. It answers at once, from present knowledge.
pub trait Domains: Send + Sync {
    /// Returns the nodes that serve `domain`, the best first: the most specific name, then the nearest. The own node is
    /// included if it serves the domain.
    fn serving(&self, domain: &str) -> Vec<Serving>;

    /// Returns true if `node` may serve `domain` by its certificate, and can be reached.
    fn serves(&self, node: NodeAddr, domain: &str) -> bool {
        self.serving(domain).iter().any(|found| found.node == node)
    }
}

/// A node that serves a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serving {
    /// The node.
    pub node: NodeAddr,
    /// The node's name.
    pub name: String,
    /// The domain in the node's certificate by which it serves the domain.
    pub by: String,
    /// The expected latency of the path to the node; zero for this node.
    pub latency: Duration,
}

/// A node that can be reached, and the domains that its certificate names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certified {
    /// The node.
    pub node: NodeAddr,
    /// The node's name.
    pub name: String,
    /// The domains that its certificate names.
    pub domains: Vec<String>,
    /// The expected latency of the path to the node; zero for this node.
    pub latency: Duration,
}

/// The nodes of a network at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table(Vec<Certified>);

impl Table {
    /// Creates a table of these nodes.
    pub fn new(nodes: impl IntoIterator<Item = Certified>) -> Table {
        Table(nodes.into_iter().collect())
    }

    /// Returns the nodes.
    pub fn nodes(&self) -> &[Certified] {
        &self.0
    }
}

impl Domains for Table {
    fn serving(&self, domain: &str) -> Vec<Serving> {
        let Some(asked) = Asked::new(domain) else {
            return Vec::new();
        };
        let mut found: Vec<(usize, Serving)> = Vec::new();
        for node in &self.0 {
            let named = node.domains.iter();
            let named = named.filter_map(|named| Some((asked.matched(named)?, named)));
            let Some((score, by)) = named.max_by_key(|(score, _)| *score) else {
                continue;
            };
            let serving = Serving {
                node: node.node,
                name: node.name.clone(),
                by: by.clone(),
                latency: node.latency,
            };
            found.push((score, serving));
        }
        // Equal nodes are sorted by address, so that all nodes get the same order.
        found.sort_by_key(|(score, s)| (core::cmp::Reverse(*score), s.latency, s.node));
        found.into_iter().map(|(_, serving)| serving).collect()
    }
}

/// A requested domain, in the form of certificates.
struct Asked {
    name: String,
    is_address: bool,
}

impl Asked {
    fn new(domain: &str) -> Option<Asked> {
        let name = domain.strip_suffix('.').unwrap_or(domain);
        let whole = (1..=NAME_BYTES_MAX).contains(&name.len());
        // Labels are separated by one dot each; no label is empty.
        let labels = name.split('.').all(|label| !label.is_empty());
        (whole && labels).then(|| Asked {
            is_address: name.parse::<IpAddr>().is_ok(),
            name: name.to_ascii_lowercase(),
        })
    }

    /// Returns how much of the name `named` covers, if it covers the name: more is better.
    fn matched(&self, named: &str) -> Option<usize> {
        // A complete match is better than a match below a star.
        if self.name == named {
            return Some(2 * named.len() + 1);
        }
        if self.is_address {
            return None;
        }
        let parent = match named.strip_prefix('*') {
            Some("") => return Some(0),
            Some(below) => below.strip_prefix('.')?,
            None => named,
        };
        let below = self.name.strip_suffix(parent)?;
        let whole_labels = below.ends_with('.') && !parent.is_empty();
        whole_labels.then_some(2 * parent.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn node(n: u32, latency_ms: u64, domains: &[&str]) -> Certified {
        Certified {
            node: NodeAddr(0x0a07_0000 + n),
            name: format!("n{n}"),
            domains: domains.iter().map(|&domain| domain.to_owned()).collect(),
            latency: Duration::from_millis(latency_ms),
        }
    }

    fn names(table: &Table, domain: &str) -> Vec<String> {
        let found = table.serving(domain).into_iter();
        found.map(|serving| serving.name).collect()
    }

    #[test]
    fn the_most_specific_name_is_first_and_then_the_nearest_node() {
        let table = Table::new([
            node(1, 40, &["example.org", "*.example.net"]),
            node(2, 90, &["sip.example.org", "example.org"]),
            node(3, 10, &["example.org"]),
            node(4, 0, &["other.test"]),
            node(5, 10, &["example.org"]),
            node(6, 1, &["*"]),
        ]);
        for (domain, expected) in [
            ("sip.example.org", &["n2", "n3", "n5", "n1", "n6"][..]),
            ("SIP.Example.ORG.", &["n2", "n3", "n5", "n1", "n6"]),
            ("example.org", &["n3", "n5", "n1", "n2", "n6"]),
            ("a.b.example.org", &["n3", "n5", "n1", "n2", "n6"]),
            ("notexample.org", &["n6"]),
            ("org", &["n6"]),
            ("a.example.net", &["n1", "n6"]),
            ("example.net", &["n6"]),
            ("other.test", &["n4", "n6"]),
        ] {
            assert_eq!(names(&table, domain), expected, "{domain}");
        }
        assert_eq!(table.serving("sip.example.org")[0].by, "sip.example.org");
        assert!(table.serves(NodeAddr(0x0a07_0004), "x.other.test"));
        assert!(!table.serves(NodeAddr(0x0a07_0004), "example.org"));
    }

    #[test]
    fn addresses_and_nonsense_are_nobodys_suffix() {
        let table = Table::new([
            node(1, 0, &["192.0.2.7", "2.7", "7", "org"]),
            node(2, 0, &["*", "*.", "*x", "."]),
        ]);
        assert_eq!(names(&table, "192.0.2.7"), ["n1"]);
        for nobody in ["198.51.2.7", "2001:db8::7", "", ".", "..", "a..org", ".org"] {
            assert_eq!(names(&table, nobody), [""; 0], "{nobody}");
        }
        let long = "a.".repeat(126) + "org";
        assert_eq!(names(&table, &long), [""; 0], "{} bytes", long.len());
        assert_eq!(names(&table, &long[2..]), ["n1", "n2"]);
    }

    proptest! {
        /// The model compares label by label, which is slower and obviously correct.
        #[test]
        fn suffixes_are_those_of_whole_labels(
            asked in "[ab]{1,2}(\\.[ab]{1,2}){0,3}",
            named in "(\\*\\.)?[ab]{1,2}(\\.[ab]{1,2}){0,3}",
        ) {
            let table = Table::new([node(1, 0, &[&named])]);
            let (star, parent) = match named.strip_prefix("*.") {
                Some(parent) => (true, parent),
                None => (false, named.as_str()),
            };
            let a: Vec<&str> = asked.split('.').collect();
            let p: Vec<&str> = parent.split('.').collect();
            let expected = a.ends_with(&p) && !(star && a.len() == p.len());
            prop_assert_eq!(!table.serving(&asked).is_empty(), expected);
        }
    }
}
