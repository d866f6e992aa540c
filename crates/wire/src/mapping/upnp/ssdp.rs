//! SSDP, with which hosts find each other's descriptions: the search for a gateway, and the answer.
//!
//! ```text
//! M-SEARCH * HTTP/1.1            to the group, from any port
//! HOST: 239.255.255.250:1900
//! MAN: "ssdp:discover"
//! MX: 1                          the answer comes within so many seconds
//! ST: urn:schemas-upnp-org:device:InternetGatewayDevice:1
//!
//! HTTP/1.1 200 OK                to that port
//! LOCATION: http://192.168.1.1:5000/rootDesc.xml
//! ST: urn:schemas-upnp-org:device:InternetGatewayDevice:1
//! ```

use super::Url;
use super::http::{Head, empty_line};
use crate::Malformed;
use core::net::{Ipv4Addr, SocketAddrV4};

/// The address and port at which devices listen.
pub const GROUP: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(239, 255, 255, 250), 1900);
/// The maximum length of an answer. Choice: it is one datagram, and fits into an Ethernet packet.
pub const ANSWER_MAX: usize = 1_500;
/// The name of a gateway, without its version. A gateway of version 2 must also answer for version 1, but some do not.
const GATEWAY: &str = "urn:schemas-upnp-org:device:InternetGatewayDevice:";
/// The versions for which the node searches.
pub const VERSIONS: [u8; 2] = [1, 2];

/// Returns the search for a gateway of this version.
pub fn search(version: u8) -> Vec<u8> {
    format!(
        "M-SEARCH * HTTP/1.1\r\nHOST: {GROUP}\r\nMAN: \"ssdp:discover\"\r\nMX: 1\r\nST: {GATEWAY}{version}\r\n\r\n"
    )
    .into_bytes()
}

/// Returns the location of the description of the gateway that answers.
pub fn location(bytes: &[u8]) -> Result<Url, Malformed> {
    if bytes.len() > ANSWER_MAX {
        return Err(Malformed::Length);
    }
    // Some answers end without the empty line.
    let head = Head::parse(&bytes[..empty_line(bytes).map_or(bytes.len(), |(head, _)| head)])?;
    if head.status != 200 {
        return Err(Malformed::Kind);
    }
    let target = head.value("st").ok_or(Malformed::Short)?;
    if !target.starts_with(GATEWAY) {
        return Err(Malformed::Kind);
    }
    Url::parse(head.value("location").ok_or(Malformed::Short)?)
}
