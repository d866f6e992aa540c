//! The overlay attribute: the node and the virtual ports at which media is received. [Amir06 §VI]

use core::fmt;

use base::{NodeAddr, VirtualPort};

/// Longest domain: the limit of DNS, 255 bytes on the wire, minus the two bytes that the text does not have.
const DOMAIN_BYTES_MAX: usize = 253;

/// The announcement in one section of a description. The grammar is in the header of [`super`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Announce {
    node: NodeAddr,
    rtp: VirtualPort,
    rtcp: VirtualPort,
    domain: String,
}

/// Why an overlay attribute was not understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum BadAnnounce {
    /// The version is not 1, or is missing.
    #[error("the overlay attribute is not of version 1")]
    Version,
    /// The node is not an overlay address of one node.
    #[error("the overlay attribute's node is not an address of one node, like 10.7.0.3")]
    Node,
    /// The virtual ports are not one or two numbers from 1.
    #[error("the overlay attribute's ports are not RTP or RTP/RTCP, each 1 to 65535")]
    Ports,
    /// The domain is not a domain.
    #[error("the overlay attribute's domain is not a domain name")]
    Domain,
    /// The remaining fields are not NAME=VALUE.
    #[error("the overlay attribute ends in something that is not NAME=VALUE")]
    Extension,
    /// A section has a second attribute.
    #[error("the section has two overlay attributes")]
    Repeated,
}

impl Announce {
    /// The attribute's name.
    pub const NAME: &'static str = "sinew";

    /// Creates an announcement; equal ports multiplex RTP and RTCP.
    ///
    /// # Errors
    /// Fails if a part does not follow the grammar.
    pub fn new(
        node: NodeAddr,
        rtp: VirtualPort,
        rtcp: VirtualPort,
        domain: &str,
    ) -> Result<Self, BadAnnounce> {
        if !node.is_node() {
            return Err(BadAnnounce::Node);
        }
        if rtp.0 == 0 || rtcp.0 == 0 {
            return Err(BadAnnounce::Ports);
        }
        if !is_domain(domain) {
            return Err(BadAnnounce::Domain);
        }
        Ok(Self {
            node,
            rtp,
            rtcp,
            // Domains are compared without regard to case.
            domain: domain.to_ascii_lowercase(),
        })
    }

    /// Reads the value after `a=sinew:`.
    ///
    /// # Errors
    /// Returns the error of the first part that does not follow the grammar.
    pub fn parse(value: &[u8]) -> Result<Self, BadAnnounce> {
        let text = core::str::from_utf8(value).map_err(|_| BadAnnounce::Version)?;
        let mut fields = text.split(' ');
        if fields.next() != Some("1") {
            return Err(BadAnnounce::Version);
        }
        let node = fields
            .next()
            .and_then(|node| node.parse().ok())
            .ok_or(BadAnnounce::Node)?;
        let (rtp, rtcp) = fields.next().and_then(ports).ok_or(BadAnnounce::Ports)?;
        let announce = Self::new(node, rtp, rtcp, fields.next().unwrap_or_default())?;
        if fields.all(is_extension) {
            Ok(announce)
        } else {
            Err(BadAnnounce::Extension)
        }
    }

    /// Returns the node, by its overlay address.
    #[must_use]
    pub fn node(&self) -> NodeAddr {
        self.node
    }

    /// Returns the port that receives RTP.
    #[must_use]
    pub fn rtp(&self) -> VirtualPort {
        self.rtp
    }

    /// Returns the port that receives RTCP; the same if they are multiplexed.
    #[must_use]
    pub fn rtcp(&self) -> VirtualPort {
        self.rtcp
    }

    /// Returns the domain that the node serves, in lower case.
    #[must_use]
    pub fn domain(&self) -> &str {
        &self.domain
    }
}

/// Writes the text after `a=`.
impl fmt::Display for Announce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:1 {} {}", Self::NAME, self.node, self.rtp.0)?;
        if self.rtcp != self.rtp {
            write!(f, "/{}", self.rtcp.0)?;
        }
        write!(f, " {}", self.domain)
    }
}

fn ports(text: &str) -> Option<(VirtualPort, VirtualPort)> {
    let (rtp, rtcp) = text.split_once('/').unwrap_or((text, text));
    Some((port(rtp)?, port(rtcp)?))
}

/// Reads a port without a sign or leading zeros, so that each port has only one form.
fn port(text: &str) -> Option<VirtualPort> {
    let begins_well = text.as_bytes().first()?.is_ascii_digit() && !text.starts_with('0');
    begins_well.then(|| text.parse().ok().map(VirtualPort))?
}

fn is_domain(text: &str) -> bool {
    text.len() <= DOMAIN_BYTES_MAX && text.split('.').all(is_label)
}

fn is_label(label: &str) -> bool {
    (1..=63).contains(&label.len())
        && label
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && !label.starts_with('-')
        && !label.ends_with('-')
}

fn is_extension(text: &str) -> bool {
    let is_token = |text: &str| !text.is_empty() && text.bytes().all(is_token_byte);
    text.split_once('=')
        .is_some_and(|(name, value)| is_token(name) && is_token(value))
}

/// token-char of RFC 8866 §9.
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`{|}~".contains(&byte)
}
