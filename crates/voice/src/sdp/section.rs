//! One media section of a description.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::ops::Range;

use super::announce::{Announce, BadAnnounce};
use super::line;

/// The kind of media of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MediaKind {
    /// `m=audio`.
    Audio,
    /// `m=video`.
    Video,
    /// Anything else, which is passed unchanged.
    Other,
}

/// The direction in which media flows, as the description's maker sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Direction {
    /// `a=sendrecv`, which is also the default.
    #[default]
    SendReceive,
    /// `a=sendonly`.
    SendOnly,
    /// `a=recvonly`.
    ReceiveOnly,
    /// `a=inactive`.
    Inactive,
}

impl Direction {
    /// Returns the direction with the attribute's name.
    #[must_use]
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"sendrecv" => Self::SendReceive,
            b"sendonly" => Self::SendOnly,
            b"recvonly" => Self::ReceiveOnly,
            b"inactive" => Self::Inactive,
            _ => return None,
        })
    }

    /// Returns whether the maker sends.
    #[must_use]
    pub fn sends(self) -> bool {
        matches!(self, Self::SendReceive | Self::SendOnly)
    }

    /// Returns whether the maker wants to receive.
    #[must_use]
    pub fn receives(self) -> bool {
        matches!(self, Self::SendReceive | Self::ReceiveOnly)
    }

    /// Returns the attribute's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::SendReceive => "sendrecv",
            Self::SendOnly => "sendonly",
            Self::ReceiveOnly => "recvonly",
            Self::Inactive => "inactive",
        }
    }
}

/// An address in a description: a number, or a name for the gateway to look up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Host<'a> {
    /// An IPv4 or IPv6 address.
    Ip(IpAddr),
    /// A domain name.
    Name(&'a str),
}

impl Host<'_> {
    /// Returns the address, unless it is a name.
    #[must_use]
    pub fn ip(self) -> Option<IpAddr> {
        match self {
            Host::Ip(ip) => Some(ip),
            Host::Name(_) => None,
        }
    }

    /// Returns whether the address is `0.0.0.0` or `::`: it means "send nothing", which was the form of hold before RFC
    /// 3264. A name under `.invalid` has the same meaning (RFC 6157 §4).
    #[must_use]
    pub fn is_unspecified(self) -> bool {
        match self {
            Host::Ip(ip) => ip.is_unspecified(),
            Host::Name(name) => {
                let name = name.as_bytes();
                let from = name.len().saturating_sub(8);
                name[from..].eq_ignore_ascii_case(b".invalid")
            }
        }
    }
}

impl fmt::Display for Host<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Ip(ip) => ip.fmt(f),
            Host::Name(name) => f.write_str(name),
        }
    }
}

/// A `c=` line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connection<'a> {
    /// The host that receives media.
    pub host: Host<'a>,
}

impl<'a> Connection<'a> {
    /// Reads the value of a `c=` line; it discards the scope and count of a multicast address.
    pub(super) fn parse(value: &'a [u8]) -> Option<Self> {
        let mut fields = line::fields(value).map(|(_, field)| field);
        let (net, kind, address) = (fields.next()?, fields.next()?, fields.next()?);
        if fields.next().is_some() {
            return None;
        }
        let address = address.split(|&byte| byte == b'/').next()?;
        let host = host(net, kind, address)?;
        Some(Self { host })
    }

    /// Returns whether it is a multicast group.
    #[must_use]
    pub fn is_multicast(&self) -> bool {
        self.host.ip().is_some_and(|ip| ip.is_multicast())
    }
}

/// Reads `IN`, `IP4` or `IP6`, and an address of that kind or a name.
pub(super) fn host<'a>(net: &[u8], kind: &[u8], address: &'a [u8]) -> Option<Host<'a>> {
    let text = core::str::from_utf8(address).ok()?;
    if net != b"IN" {
        return None;
    }
    let ip = match kind {
        b"IP4" => text.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
        b"IP6" => text.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        _ => return None,
    };
    match ip {
        Some(ip) => Some(Host::Ip(ip)),
        None if is_name(text) => Some(Host::Name(text)),
        None => None,
    }
}

/// Returns whether the text is a domain name whose last label is not a number: `10.0.0.300` is no name.
fn is_name(text: &str) -> bool {
    let last = text.trim_end_matches('.').rsplit('.').next();
    text.len() <= 255
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'))
        && last.is_some_and(|label| label.bytes().any(|byte| byte.is_ascii_alphabetic()))
}

/// The attribute `a=rtcp:` (RFC 3605).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RtcpAttribute<'a> {
    pub(super) line: usize,
    pub(super) port: u16,
    pub(super) host: Option<Host<'a>>,
}

impl<'a> RtcpAttribute<'a> {
    pub(super) fn parse(value: &'a [u8], line: usize) -> Option<Self> {
        let mut fields = line::fields(value).map(|(_, field)| field);
        let port = line::port(fields.next()?).filter(|&port| port != 0)?;
        let host = match fields.next() {
            None => None,
            Some(net) => Some(host(net, fields.next()?, fields.next()?)?),
        };
        fields.next().is_none().then_some(Self { line, port, host })
    }
}

/// One of a section's formats, with its number in RTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PayloadFormat<'a> {
    /// The payload type in the RTP header.
    pub payload_type: u8,
    /// The encoding's name, such as `PCMU` or `opus`. Names are compared without regard to case.
    pub name: &'a str,
    /// Ticks of its timestamps per second.
    pub clock_hz: u32,
}

/// A media section.
#[derive(Debug, Clone)]
pub struct Section<'a> {
    /// `audio`, `video`, or another word.
    pub media: &'a str,
    /// The port of RTP; 0 rejects or ends the stream.
    pub port: u16,
    /// Number of consecutive ports, nearly always 1.
    pub ports: u16,
    /// `RTP/AVP`, `RTP/SAVP`, `UDP/TLS/RTP/SAVPF`, …
    pub protocol: &'a str,
    /// Payload types or other formats, as written in the line.
    pub formats: &'a str,
    /// The address that applies to the section: its own or the session's.
    pub connection: Option<Connection<'a>>,
    /// The direction that applies to the section: its own or the session's.
    pub direction: Direction,
    /// Whether RTP and RTCP may share the port (`a=rtcp-mux`).
    pub rtcp_mux: bool,
    /// `a=bundle-only`: port 0 then is no rejection, because the section uses another section's port.
    pub bundle_only: bool,
    /// Whether the section or the session has ICE attributes.
    pub ice: bool,
    /// The overlay announcement. An unreadable one must not prevent a call.
    pub announce: Result<Option<Announce>, BadAnnounce>,
    pub(super) rtcp: Option<RtcpAttribute<'a>>,
    pub(super) formats_mapped: Vec<PayloadFormat<'a>>,
    /// Its lines: `m=` and all lines before the next `m=`.
    pub(super) lines: Range<usize>,
    /// Position of the port's digits in the description.
    pub(super) port_range: Range<usize>,
    /// The line of its own `c=`.
    pub(super) own_connection: Option<usize>,
}

impl<'a> Section<'a> {
    /// Returns the kind of media.
    #[must_use]
    pub fn kind(&self) -> MediaKind {
        match self.media {
            "audio" => MediaKind::Audio,
            "video" => MediaKind::Video,
            _ => MediaKind::Other,
        }
    }

    /// Returns whether the stream is rejected, which port 0 means.
    #[must_use]
    pub fn is_rejected(&self) -> bool {
        self.port == 0 && !self.bundle_only
    }

    /// Returns whether the section is RTP or SRTP over UDP.
    #[must_use]
    pub fn is_rtp(&self) -> bool {
        let protocol = self.protocol;
        !protocol.starts_with("TCP/")
            && protocol
                .split('/')
                .any(|part| part.eq_ignore_ascii_case("RTP"))
    }

    /// Returns whether it is SRTP whose keys the ends exchange by DTLS on the media's own port.
    #[must_use]
    pub fn is_dtls(&self) -> bool {
        self.protocol.starts_with("UDP/TLS/")
    }

    /// Returns whether it is audio or video in RTP, in use, to one receiver: the kind that this product can carry.
    #[must_use]
    pub fn is_steerable(&self) -> bool {
        let unicast = self.connection.is_some_and(|c| !c.is_multicast());
        self.port != 0
            && self.ports == 1
            && self.is_rtp()
            && unicast
            && self.kind() != MediaKind::Other
    }

    /// Returns where the maker receives RTP.
    #[must_use]
    pub fn rtp(&self) -> Option<(Host<'a>, u16)> {
        let host = self.connection?.host;
        (self.port != 0).then_some((host, self.port))
    }

    /// Returns where the maker receives RTCP if it is not multiplexed: the address of `a=rtcp:` if there is one, else
    /// the next port.
    #[must_use]
    pub fn rtcp(&self) -> Option<(Host<'a>, u16)> {
        let (host, port) = self.rtp()?;
        match self.rtcp {
            Some(rtcp) => Some((rtcp.host.unwrap_or(host), rtcp.port)),
            None => Some((host, port.checked_add(1)?)),
        }
    }

    /// Returns whether the maker wants no media, by direction or by an address of zeros.
    #[must_use]
    pub fn is_on_hold(&self) -> bool {
        let zeros = self.connection.is_some_and(|c| c.host.is_unspecified());
        zeros || !self.direction.receives()
    }

    /// Returns the formats that have a number in RTP: those of the section's `a=rtpmap` lines, and the static numbers
    /// of RFC 3551 that need no such line.
    pub fn payload_formats(&self) -> impl Iterator<Item = PayloadFormat<'a>> + '_ {
        let mapped = self.formats_mapped.iter().copied();
        let numbers = self.formats.split(' ').filter_map(|text| text.parse().ok());
        let fixed = numbers
            .filter(|number| {
                self.formats_mapped
                    .iter()
                    .all(|format| format.payload_type != *number)
            })
            .filter_map(|number| -> Option<PayloadFormat<'a>> { static_format(number) });
        mapped.chain(fixed)
    }
}

/// Reads `a=rtpmap:NUMBER NAME/CLOCK[/CHANNELS]`.
pub(super) fn rtpmap(value: &[u8]) -> Option<PayloadFormat<'_>> {
    let mut fields = core::str::from_utf8(value).ok()?.split_ascii_whitespace();
    let payload_type = fields.next()?.parse().ok().filter(|&number| number < 128)?;
    let mut parts = fields.next()?.split('/');
    let name = parts.next()?;
    let clock_hz = parts.next()?.parse().ok().filter(|&hz| hz != 0)?;
    Some(PayloadFormat {
        payload_type,
        name,
        clock_hz,
    })
}

/// Returns the static payload types of RFC 3551 that telephones use.
fn static_format(payload_type: u8) -> Option<PayloadFormat<'static>> {
    let (name, clock_hz) = match payload_type {
        0 => ("PCMU", 8000),
        3 => ("GSM", 8000),
        4 => ("G723", 8000),
        8 => ("PCMA", 8000),
        // The clock repeats an error of RFC 1890; the sample rate is 16 kHz.
        9 => ("G722", 8000),
        13 => ("CN", 8000),
        18 => ("G729", 8000),
        26 => ("JPEG", 90_000),
        31 => ("H261", 90_000),
        34 => ("H263", 90_000),
        _ => return None,
    };
    Some(PayloadFormat {
        payload_type,
        name,
        clock_hz,
    })
}
