//! The initial configuration of a new node, and the syntax of endpoints.

use super::register::Entry;
use crate::failure::{Failure, Outcome};
use base::NodeAddr;
use std::net::{IpAddr, SocketAddr};

/// The default port of a node without an endpoint.
pub(crate) const DEFAULT_PORT: u16 = 7700;

/// The values that `sinew join` configures besides certificate and key.
pub(crate) struct Joined<'a> {
    /// The node's name.
    pub name: &'a str,
    /// The addresses at which other nodes reach the node.
    pub endpoints: &'a [String],
    /// The addresses on which the node listens.
    pub listen: &'a [SocketAddr],
    /// The directory of the node's sockets; `None` for that of the configuration.
    pub sockets: Option<&'a str>,
    /// The nodes that this node dials: overlay address, name, endpoints. The first one has certified it.
    pub neighbors: &'a [(NodeAddr, String, Vec<String>)],
    /// The key of the node that has certified this one.
    pub issuer: [u8; 32],
    /// The endpoints at which the certifying node is asked for the next certificate.
    pub from: &'a [String],
}

/// Writes the configuration of a node that has joined by an invitation.
pub(crate) fn joined(node: &Joined<'_>) -> String {
    let entry = |address: NodeAddr, name: &str, endpoints: &[String]| Entry {
        name: name.to_owned(),
        address,
        endpoints: endpoints.to_vec(),
        serial: 0,
        revoked: false,
    };
    let own = entry(NodeAddr(0), node.name, node.endpoints);
    let neighbors = node.neighbors.iter();
    let neighbors: Vec<Entry> = neighbors
        .map(|(address, name, endpoints)| entry(*address, name, endpoints))
        .collect();
    let listen: Vec<String> = node.listen.iter().map(SocketAddr::to_string).collect();
    let mut text = write(
        &own,
        &listen,
        node.sockets,
        "that has joined by an invitation",
    );
    text += "# Link directly to nodes with which programs here exchange packets, through NAT too.\ndirect_links = true\n\
             # Find the nodes to which a link is worth having, and be found.\nfind_links = true\n";
    let key: String = node
        .issuer
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    text += &format!(
        "\n# Its certificate is renewed by the node that has issued it.\n\
         [renewal]\nfrom = {:?}\nkey = \"{key}\"\n",
        node.from
    );
    // The node enters the network by these neighbours, and then finds its links.
    for node in &neighbors {
        text += &neighbor(node);
        text += "first = true\n";
    }
    text
}

/// Writes the section that makes a node an issuer.
pub(super) fn issuer(endpoints: &[String]) -> String {
    format!(
        "\n# It certifies hosts that `sinew invite` has invited.\n\
         [issuer]\ndelegation = \"node.delegation\"\nbooks = \"issuer\"\nendpoints = {endpoints:?}\n"
    )
}

/// Writes the configuration of a new node.
pub(super) fn text(network: &str, entry: &Entry, lab: bool, links: &[Entry]) -> String {
    let listen = listen(&entry.endpoints);
    let mut text = write(entry, &listen, None, &format!("of network {network}"));
    if lab {
        text.push_str("lab = true\n");
    }
    for link in links {
        text.push_str(&neighbor(link));
    }
    text
}

fn write(node: &Entry, listen: &[String], sockets: Option<&str>, what: &str) -> String {
    let Entry { name, .. } = node;
    let beside = sockets.map_or_else(String::new, |dir| format!("{dir}/"));
    format!(
        "# Node {name} {what}. Paths are relative to this file.\n\
         certificate = \"node.cert\"\nkey = \"node.key\"\nnetwork = \"network.pub\"\n\
         revocations = \"revocations\"\nlisten = {listen:?}\n\
         client_socket = \"{beside}{name}.sock\"\ncontrol_socket = \"{beside}{name}.ctl\"\n\
         # metrics = \"127.0.0.1:9700\"\n"
    )
}

pub(super) fn neighbor(node: &Entry) -> String {
    let mut text = format!(
        "\n[[neighbor]]\nname = \"{}\"\naddress = \"{}\"\n",
        node.name, node.address
    );
    match node.endpoints.as_slice() {
        [] => text.push_str("# It has no address that could be dialled, and dials this node.\n"),
        [one] => text.push_str(&format!("endpoint = {one:?}\n")),
        more => text.push_str(&format!("endpoint = {more:?}\n")),
    }
    text
}

/// Returns the addresses on which a node must listen to be reached at `endpoints`.
pub(super) fn listen(endpoints: &[String]) -> Vec<String> {
    let mut found: Vec<SocketAddr> = Vec::new();
    for endpoint in endpoints {
        let addr = match endpoint.parse::<SocketAddr>() {
            Ok(addr) if addr.ip().is_loopback() => addr,
            Ok(SocketAddr::V6(addr)) => SocketAddr::from(([0u16; 8], addr.port())),
            Ok(SocketAddr::V4(addr)) => SocketAddr::from(([0u8; 4], addr.port())),
            // This is a name: only the node itself can resolve it.
            Err(_) => SocketAddr::from(([0u8; 4], port_of(endpoint).unwrap_or(DEFAULT_PORT))),
        };
        if !found.contains(&addr) {
            found.push(addr);
        }
    }
    // A socket bound to `::` serves IPv4 as well, so a second socket would find the port in use.
    let serves_both = found.clone();
    found.retain(|addr| {
        let both = SocketAddr::from(([0u16; 8], addr.port()));
        !(addr.is_ipv4() && addr.ip().is_unspecified() && serves_both.contains(&both))
    });
    if found.is_empty() {
        found.push(SocketAddr::from(([0u8; 4], DEFAULT_PORT)));
    }
    found.iter().map(SocketAddr::to_string).collect()
}

/// Returns the addresses on which the node of this host must listen to be reached at `endpoints`. If [`listen`] returns
/// all addresses of one family, this function returns those of both families. Each family has a socket of its own, so a
/// link has a path of each.
pub(crate) fn listen_here(endpoints: &[String], has_ipv6: bool) -> Vec<SocketAddr> {
    let mut all: Vec<SocketAddr> = Vec::new();
    for at in listen(endpoints) {
        let Ok(at) = at.parse::<SocketAddr>() else {
            continue;
        };
        let any = [IpAddr::from([0u8; 4]), IpAddr::from([0u16; 8])];
        let any = any.map(|ip| SocketAddr::new(ip, at.port()));
        let wanted = match at.ip().is_unspecified() && has_ipv6 {
            true => &any[..],
            false => &[at],
        };
        for at in wanted {
            if !all.contains(at) {
                all.push(*at);
            }
        }
    }
    all
}

fn port_of(endpoint: &str) -> Option<u16> {
    endpoint
        .rsplit_once(':')?
        .1
        .parse()
        .ok()
        .filter(|port| *port != 0)
}

/// Returns true for `HOST:PORT` with a host name or address, IPv6 in brackets.
pub(crate) fn is_endpoint(text: &str) -> bool {
    if let Ok(addr) = text.parse::<SocketAddr>() {
        return addr.port() != 0 && !addr.ip().is_unspecified();
    }
    let host = text.rsplit_once(':').map_or("", |(host, _)| host);
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let is_name = !host.is_empty() && host.len() <= 253 && host.bytes().all(allowed);
    // A name without letters is a mistyped address.
    let has_letter = host.bytes().any(|b| b.is_ascii_alphabetic());
    is_name && has_letter && port_of(text).is_some()
}

pub(super) fn check_endpoint(text: &str) -> Outcome {
    if is_endpoint(text) {
        return Ok(());
    }
    Err(Failure::misused(format_args!(
        "--address `{text}`: write a host name or address and a port, like ams.example.net:7700, \
         192.0.2.7:7700 or [2001:db8::7]:7700"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_names_or_addresses_with_a_port() {
        for good in [
            "ams.example.net:7700",
            "192.0.2.7:1",
            "[2001:db8::7]:7700",
            "localhost:7",
        ] {
            assert!(is_endpoint(good), "{good}");
        }
        for bad in [
            "ams",
            "ams:",
            "ams:0",
            ":7700",
            "192.0.2:7700",
            "0.0.0.0:7700",
            "2001:db8::7:7700",
            "a b:1",
        ] {
            assert!(!is_endpoint(bad), "{bad}");
        }
    }

    #[test]
    fn a_node_listens_where_it_is_reached() {
        let listen = |endpoints: &[&str]| {
            let endpoints: Vec<String> = endpoints.iter().map(|e| (*e).to_owned()).collect();
            listen(&endpoints)
        };
        assert_eq!(listen(&[]), ["0.0.0.0:7700"]);
        assert_eq!(listen(&["127.0.0.1:7701"]), ["127.0.0.1:7701"]);
        assert_eq!(listen(&["ams.example.net:7800"]), ["0.0.0.0:7800"]);
        assert_eq!(listen(&["192.0.2.1:1", "192.0.2.2:1"]), ["0.0.0.0:1"]);
        assert_eq!(listen(&["192.0.2.1:1", "[2001:db8::1]:1"]), ["[::]:1"]);
        assert_eq!(
            listen(&["192.0.2.1:1", "[2001:db8::1]:2"]),
            ["0.0.0.0:1", "[::]:2"]
        );
        let here = |endpoints: &[&str], has_ipv6| {
            let endpoints: Vec<String> = endpoints.iter().map(|e| (*e).to_owned()).collect();
            let listen = listen_here(&endpoints, has_ipv6);
            listen.iter().map(SocketAddr::to_string).collect::<Vec<_>>()
        };
        let both = ["0.0.0.0:7700", "[::]:7700"];
        assert_eq!(here(&[], true), both);
        assert_eq!(here(&[], false), both[..1]);
        assert_eq!(here(&["192.0.2.1:7700", "[2001:db8::1]:7700"], true), both);
        assert_eq!(here(&["[2001:db8::1]:7700"], true), both);
        assert_eq!(here(&["[2001:db8::1]:7700"], false), both[1..]);
        assert_eq!(here(&["127.0.0.1:7701"], true), ["127.0.0.1:7701"]);
    }
}
