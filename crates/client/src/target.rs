//! The destination or source of a datagram.

use base::{NodeAddr, VirtualPort};
use core::fmt;
use core::str::FromStr;

/// A node and a virtual port there, written `10.7.0.3:5000`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    /// The node.
    pub node: NodeAddr,
    /// The virtual port.
    pub port: VirtualPort,
}

/// The text is not `NODE:PORT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a target: write it like 10.7.0.3:5000")]
pub struct BadTarget;

impl Target {
    /// Parses the text form.
    pub fn parse(text: &str) -> Result<Target, BadTarget> {
        let (node, port) = text.rsplit_once(':').ok_or(BadTarget)?;
        Ok(Target {
            node: node.parse().map_err(|_| BadTarget)?,
            port: VirtualPort(port.parse().map_err(|_| BadTarget)?),
        })
    }

    /// Creates a target from a node's address and a port's number.
    pub const fn new(node: NodeAddr, port: u16) -> Target {
        Target {
            node,
            port: VirtualPort(port),
        }
    }
}

impl FromStr for Target {
    type Err = BadTarget;
    fn from_str(text: &str) -> Result<Target, BadTarget> {
        Target::parse(text)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.node, self.port)
    }
}

/// Returns a group and port in the form for the node.
pub(crate) fn destination(group: NodeAddr, port: u16) -> wire::ipc::Destination {
    wire::ipc::Destination {
        node: group,
        port: VirtualPort(port),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_round_trip_and_refuse_nonsense() {
        assert_eq!(
            Target::parse("10.7.0.3:5000").unwrap().to_string(),
            "10.7.0.3:5000"
        );
        for bad in ["10.7.0.3", "10.7.0.3:", "10.7.0.3:70000", ":5", "ams:5"] {
            assert_eq!(Target::parse(bad), Err(BadTarget), "{bad}");
        }
    }
}
