//! The authority's list of the nodes in its network.
//!
//! ```toml
//! name = "voice"
//! prefix = "10.7.0.0/24"
//!
//! [[node]]
//! name = "ams"
//! address = "10.7.0.1"
//! endpoints = ["ams.example.net:7700"]
//! serial = 1
//! ```

use crate::failure::{Failure, Outcome};
use base::NodeAddr;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use wire::certificate::is_like_address;

/// The register of a network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Register {
    /// The network's name.
    pub name: String,
    /// The network's overlay addresses.
    #[serde(with = "as_text")]
    pub prefix: Prefix,
    /// The nodes, in the order in which they were added.
    #[serde(default, rename = "node", skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<Entry>,
    /// The delegations of the issuers.
    #[serde(default, rename = "delegation", skip_serializing_if = "Vec::is_empty")]
    pub delegations: Vec<Delegated>,
}

/// A block of addresses that an issuer gives to nodes. The authority gives none of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delegated {
    /// The issuer.
    pub node: String,
    /// The number of the delegation.
    pub serial: u32,
    /// The first address of the block.
    #[serde(with = "as_text")]
    pub first: NodeAddr,
    /// The last address of the block.
    #[serde(with = "as_text")]
    pub last: NodeAddr,
    /// The last second in which the delegation is valid.
    pub not_after_s: u64,
    /// The other issuer that gives these addresses, if this issuer only renews certificates of that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renews: Option<String>,
}

impl Delegated {
    fn has(&self, address: NodeAddr) -> bool {
        (self.first..=self.last).contains(&address)
    }
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The node's name.
    pub name: String,
    /// The node's overlay address.
    #[serde(with = "as_text")]
    pub address: NodeAddr,
    /// The addresses at which other nodes reach the node; empty for a node that only dials.
    #[serde(default)]
    pub endpoints: Vec<String>,
    /// The serial of its present certificate.
    pub serial: u32,
    /// The node's certificates are revoked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub revoked: bool,
}

/// Size of the smallest block for an issuer.
const BLOCK_MIN: u32 = 4;

/// A range of overlay addresses, written `10.7.0.0/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    first: u32,
    bits: u8,
}

/// The text is not a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a range of addresses: write it like 10.7.0.0/24, from /8 to /30, below 224.0.0.0")]
pub struct BadPrefix;

impl Register {
    /// Returns the node with this name.
    pub fn node(&self, name: &str) -> Option<&Entry> {
        self.nodes.iter().find(|node| node.name == name)
    }

    /// Returns the lowest free address.
    pub fn free_address(&self) -> Option<NodeAddr> {
        self.prefix
            .addresses()
            .find(|address| self.is_free(*address))
    }

    /// Returns addresses for an issuer: a quarter of the range, from its end, or a smaller block if that is not free in
    /// one piece.
    pub fn free_block(&self) -> Option<(NodeAddr, NodeAddr)> {
        let size = 1u32 << (32 - self.prefix.bits);
        let mut length = (size / 4).max(BLOCK_MIN);
        while length >= BLOCK_MIN {
            let mut at = size;
            while at >= length {
                at -= length;
                // No node has the first or the last address of the range.
                let first = self.prefix.first + at.max(1);
                let last = self.prefix.first + (at + length).min(size - 1) - 1;
                if (first..=last).all(|address| self.is_free(NodeAddr(address))) {
                    return Some((NodeAddr(first), NodeAddr(last)));
                }
            }
            length /= 2;
        }
        None
    }

    /// Returns the newest delegation by which a node gives addresses of its own.
    pub fn delegated(&self, node: &str) -> Option<&Delegated> {
        let mut latest = self.delegations.iter().rev();
        latest.find(|given| given.node == node && given.renews.is_none())
    }

    /// Returns each node's newest delegation by which it renews members of another issuer, in the order in which these
    /// delegations were first made.
    pub fn renewing(&self) -> Vec<&Delegated> {
        let mut newest: Vec<&Delegated> = Vec::new();
        for given in self.delegations.iter().filter(|it| it.renews.is_some()) {
            let mut before = newest.iter_mut();
            match before.find(|it| (&it.node, &it.renews) == (&given.node, &given.renews)) {
                Some(before) => *before = given,
                None => newest.push(given),
            }
        }
        newest
    }

    fn is_free(&self, address: NodeAddr) -> bool {
        !self.nodes.iter().any(|node| node.address == address)
            && !self.delegations.iter().any(|given| given.has(address))
    }
}

impl Prefix {
    /// Returns the addresses of the range without the first and the last: these look like a network address and a
    /// broadcast address.
    fn addresses(self) -> impl Iterator<Item = NodeAddr> {
        let size = 1u32 << (32 - self.bits);
        (1..size - 1).map(move |i| NodeAddr(self.first + i))
    }

    /// Returns true if the address is in the range.
    pub fn contains(self, address: NodeAddr) -> bool {
        address.0 >> (32 - self.bits) == self.first >> (32 - self.bits)
    }
}

impl FromStr for Prefix {
    type Err = BadPrefix;
    fn from_str(text: &str) -> Result<Prefix, BadPrefix> {
        let (address, bits) = text.split_once('/').ok_or(BadPrefix)?;
        let address: NodeAddr = address.parse().map_err(|_| BadPrefix)?;
        let bits: u8 = bits.parse().map_err(|_| BadPrefix)?;
        if !(8..=30).contains(&bits) || !address.is_node() {
            return Err(BadPrefix);
        }
        let prefix = Prefix {
            first: address.0,
            bits,
        };
        if address.0 & ((1 << (32 - bits)) - 1) != 0 {
            return Err(BadPrefix);
        }
        Ok(prefix)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", NodeAddr(self.first), self.bits)
    }
}

/// Serializes values in their text form.
mod as_text {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use std::fmt::Display;
    use std::str::FromStr;

    pub(super) fn serialize<T: Display, S: Serializer>(value: &T, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(value)
    }

    pub(super) fn deserialize<'de, T, D>(d: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        let text = String::deserialize(d)?;
        text.parse()
            .map_err(|error| D::Error::custom(format!("`{text}`: {error}")))
    }
}

/// Fails if a node cannot have this name. Rules name nodes by names or by addresses, so a name must not look like an
/// address.
pub(crate) fn check_node_name(name: &str) -> Outcome {
    match () {
        () if is_like_address(name) => Err(Failure::misused(format_args!(
            "`{name}` looks like an address, and rules name nodes by addresses, too: choose a name with a letter or `-` in it"
        ))),
        () if !is_file_name(name) => Err(Failure::misused(format_args!(
            "`{name}` is not a name for a node: use up to 63 letters, digits, `-`, `_` and `.`"
        ))),
        () => Ok(()),
    }
}

/// Returns true for a name that a directory and a host can have: letters, digits, `-`, `_`, `.`.
pub(crate) fn is_file_name(name: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    wire::certificate::is_name(name)
        && name.bytes().all(allowed)
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_round_trip_and_refuse_nonsense() {
        for text in ["10.7.0.0/24", "10.0.0.0/8", "192.168.4.4/30"] {
            assert_eq!(text.parse::<Prefix>().unwrap().to_string(), text);
        }
        for bad in [
            "10.7.0.0",
            "10.7.0.1/24",
            "10.7.0.0/7",
            "10.7.0.0/31",
            "239.0.0.0/8",
            "/24",
        ] {
            assert_eq!(bad.parse::<Prefix>(), Err(BadPrefix), "{bad}");
        }
    }

    #[test]
    fn addresses_are_given_in_order_and_end() {
        let mut register = Register {
            name: "n".into(),
            prefix: "10.7.0.0/30".parse().unwrap(),
            nodes: vec![],
            delegations: vec![],
        };
        let mut given = Vec::new();
        while let Some(address) = register.free_address() {
            given.push(address.to_string());
            register.nodes.push(Entry {
                name: format!("n{}", given.len()),
                address,
                endpoints: vec![],
                serial: 1,
                revoked: false,
            });
        }
        assert_eq!(given, ["10.7.0.1", "10.7.0.2"]);
        register.nodes.remove(0);
        assert_eq!(register.free_address().unwrap().to_string(), "10.7.0.1");
        assert!(register.prefix.contains("10.7.0.3".parse().unwrap()));
        assert!(!register.prefix.contains("10.7.0.4".parse().unwrap()));
    }

    #[test]
    fn issuers_get_blocks_that_nobody_has() {
        let mut register = Register {
            name: "n".into(),
            prefix: "10.7.0.0/24".parse().unwrap(),
            nodes: vec![],
            delegations: vec![],
        };
        let mut blocks = Vec::new();
        while let Some((first, last)) = register.free_block() {
            blocks.push(format!("{first}-{last}"));
            register.delegations.push(Delegated {
                node: "ams".into(),
                serial: 1,
                first,
                last,
                not_after_s: 0,
                renews: None,
            });
        }
        assert_eq!(blocks[0], "10.7.0.192-10.7.0.254");
        assert_eq!(blocks[1], "10.7.0.128-10.7.0.191");
        assert_eq!(blocks[3], "10.7.0.1-10.7.0.63");
        assert_eq!((blocks.len(), register.free_address()), (4, None));
        register.delegations.truncate(1);
        assert_eq!(register.free_address().unwrap().to_string(), "10.7.0.1");
    }

    #[test]
    fn names_are_good_for_files() {
        assert!(is_file_name("ams-1.example_x"));
        for bad in ["", ".", "..", "a/b", "-x", "a b", "é", &"x".repeat(64)] {
            assert!(!is_file_name(bad), "{bad}");
        }
    }
}
