//! Checks the path between this host and other nodes: address translation, as neighbours see it, and the longest
//! packets.

use super::Finding;
use crate::show::{list, text};
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, UdpSocket};

/// The longest datagram that nodes send, in bytes of UDP payload. A path that carries it needs no smaller packets.
const WHOLE_BYTES: u64 = overlay::mtu::DEFAULT as u64;

/// Finds the kind of address translation in front of the node, from the addresses at which its neighbours see it.
pub(super) fn nat(status: &Value) -> Option<Finding> {
    let listen = list(&status["host"]["listen"]).iter();
    let listen: Vec<SocketAddr> = listen.filter_map(parse).collect();
    judge(&seen(status), &listen, is_own)
}

/// Returns the addresses from which the node's datagrams reach its neighbours.
pub(super) fn seen(status: &Value) -> Vec<SocketAddr> {
    let seen = list(&status["snapshot"]["seen"]).iter();
    let seen = seen.filter(|it| it["by_stream"] == false);
    seen.filter_map(|it| parse(&it["at"])).collect()
}

/// Returns true for an address of this host: no other address can be bound.
pub(super) fn is_own(ip: IpAddr) -> bool {
    UdpSocket::bind((ip, 0)).is_ok()
}

fn parse(it: &Value) -> Option<SocketAddr> {
    text(it).parse().ok()
}

fn judge(
    seen: &[SocketAddr],
    listen: &[SocketAddr],
    is_own: impl Fn(IpAddr) -> bool,
) -> Option<Finding> {
    let what = "NAT";
    let shown: BTreeSet<String> = seen.iter().map(ToString::to_string).collect();
    let shown: Vec<String> = shown.into_iter().collect();
    if seen.is_empty() {
        return None;
    }
    if seen.iter().all(|at| is_own(at.ip())) {
        let text = format!("none: neighbours see this host's own {}", shown.join(", "));
        return Some(Finding::good(what, text));
    }
    // A path without translation, such as a link within the house, says nothing about the translation in front of the
    // host. Each family has its own translation.
    let beyond = |ipv4: bool| {
        let of = seen.iter().filter(move |at| at.is_ipv4() == ipv4);
        of.filter(|at| !is_own(at.ip())).collect::<Vec<_>>()
    };
    let family = [beyond(true), beyond(false)];
    let most = family.iter().max_by_key(|it| it.len())?;
    if most.len() < 2 {
        return Some(Finding::weak(
            what,
            format!("there is one: a neighbour sees {}", shown.join(", ")),
            "its kind is known when two neighbours with `direct_links` beyond it tell where they see this node: link to one more",
        ));
    }
    let different: BTreeSet<_> = most.iter().collect();
    // A socket of IPv6 may also use IPv4, if there is no socket of IPv4.
    let is_same = |at: &&SocketAddr| most.iter().any(|seen| seen.is_ipv4() == at.is_ipv4());
    let same: Vec<u16> = listen.iter().filter(is_same).map(|at| at.port()).collect();
    let ports = match same.is_empty() {
        true => listen.iter().map(|at| at.port()).collect(),
        false => same,
    };
    let port = match most.iter().all(|at| ports.contains(&at.port())) {
        true => "ports are kept",
        false => "ports are changed",
    };
    let hosts: BTreeSet<IpAddr> = most.iter().map(|at| at.ip()).collect();
    if hosts.len() > 1 && ports.len() > 1 {
        return Some(Finding::weak(
            what,
            format!(
                "not known: neighbours see {}, maybe by several uplinks",
                shown.join(", ")
            ),
            "look with one address in `listen`, so that all neighbours see the same uplink",
        ));
    }
    Some(match different.len() {
        1 => Finding::good(
            what,
            format!(
                "endpoint-independent: {} neighbours see {}, {port}",
                most.len(),
                shown.join(", ")
            ),
        ),
        _ => Finding::weak(
            what,
            format!(
                "address-dependent (symmetric): neighbours see {}, {port}",
                shown.join(", ")
            ),
            "direct links need a partner without such a NAT, others go over a third node: forward the UDP port in `listen` on the router to this host, or use IPv6",
        ),
    })
}

/// Reports the MTU of this host's interfaces that are up.
pub(super) fn interfaces() -> Option<Finding> {
    let mut found: Vec<String> = Vec::new();
    for entry in std::fs::read_dir("/sys/class/net").ok()?.flatten() {
        let read = |file: &str| std::fs::read_to_string(entry.path().join(file));
        let name = entry.file_name().to_string_lossy().into_owned();
        let (Ok(mtu), Ok(state)) = (read("mtu"), read("operstate")) else {
            continue;
        };
        // Tunnels and virtual interfaces report an unknown state.
        if name != "lo" && matches!(state.trim(), "up" | "unknown") {
            found.push(format!("{name} {}", mtu.trim()));
        }
    }
    found.sort_unstable();
    (!found.is_empty()).then(|| Finding::good("MTU", found.join(", ")))
}

/// Reports the longest packet of each path of the links, and whether the route should carry longer ones.
pub(super) fn paths(links: &[&Value]) -> Vec<Finding> {
    let mut narrow = Vec::new();
    let mut whole = Vec::new();
    for link in links.iter().filter(|link| link["over"] == "udp") {
        let up = list(&link["paths"]).iter().filter(|it| it["state"] == "up");
        for path in up {
            let (Some(carries), Ok(at)) = (path["mtu_bytes"].as_u64(), text(&path["at"]).parse())
            else {
                continue;
            };
            let route = net::udp::route_mtu(at).ok();
            let seen = format!(
                "to {} at {at}: {} bytes with headers",
                text(&link["name"]),
                carries + headers(at)
            );
            match is_narrow(carries, at, route) {
                true => narrow.push((seen, route)),
                false => whole.push(seen),
            }
        }
    }
    let good = (!whole.is_empty()).then(|| Finding::good("path MTU", whole.join("; ")));
    let narrow = narrow.into_iter().map(|(seen, route)| {
        let route = route.map_or_else(String::new, |mtu| format!(", where the interface says {mtu}"));
        Finding::weak(
            "path MTU",
            format!("{seen}{route}"),
            "the node cuts packets to it, nothing is lost; give the interface the path's MTU if other programs hang",
        )
    });
    good.into_iter().chain(narrow).collect()
}

fn headers(at: SocketAddr) -> u64 {
    if at.is_ipv4() { 28 } else { 48 }
}

/// Returns true if the path carries less than the interface's MTU, and less than a node would send.
fn is_narrow(carries: u64, at: SocketAddr, route: Option<u32>) -> bool {
    let promised = route.map_or(WHOLE_BYTES, |mtu| {
        u64::from(mtu).saturating_sub(headers(at)).min(WHOLE_BYTES)
    });
    carries < promised
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::State;

    fn kind(seen: &[&str]) -> Option<(State, String)> {
        kind_of(seen, &["0.0.0.0:7700"])
    }

    fn kind_of(seen: &[&str], listen: &[&str]) -> Option<(State, String)> {
        let parsed = |all: &[&str]| -> Vec<SocketAddr> {
            all.iter().map(|at| at.parse().unwrap()).collect()
        };
        let (seen, listen) = (parsed(seen), parsed(listen));
        let own: IpAddr = "198.51.100.9".parse().unwrap();
        let found = judge(&seen, &listen, |ip| ip == own)?;
        assert_eq!(found.state == State::Good, found.next.is_empty());
        Some((found.state, found.seen))
    }

    #[test]
    fn the_kind_of_a_nat_is_told_by_what_two_neighbors_see() {
        assert_eq!(kind(&[]), None, "nobody has told anything");
        let is = |seen: &[&str], state, words: &str| {
            let (of, text) = kind(seen).unwrap();
            assert_eq!(of, state, "{text}");
            assert!(text.contains(words), "{text}");
        };
        is(&["198.51.100.9:7700"; 2], State::Good, "none");
        is(&["203.0.113.4:7700"], State::Weak, "a neighbour sees");
        is(
            &["203.0.113.4:7700"; 2],
            State::Good,
            "endpoint-independent: 2",
        );
        is(&["203.0.113.4:7700"; 2], State::Good, "ports are kept");
        is(&["203.0.113.4:40001"; 3], State::Good, "ports are changed");
        let two = ["203.0.113.4:40001", "203.0.113.4:40002"];
        is(&two, State::Weak, "address-dependent");
        let uplinks = ["203.0.113.4:7700", "192.0.2.4:7700"];
        is(&uplinks, State::Weak, "address-dependent");
        let (_, text) = kind_of(&uplinks, &["10.1.0.1:7700", "10.2.0.1:7700"]).unwrap();
        assert!(text.contains("several uplinks"), "{text}");
        let (_, text) = kind_of(&uplinks, &["0.0.0.0:7700", "[::]:7700"]).unwrap();
        assert!(text.contains("address-dependent"), "{text}");
        // A link without NAT, and one of the other family, say nothing about this NAT.
        is(
            &["203.0.113.4:7700", "198.51.100.9:7700"],
            State::Weak,
            "a neighbour sees",
        );
        is(
            &["203.0.113.4:7700", "[2001:db8::4]:7700"],
            State::Weak,
            "a neighbour sees",
        );
    }

    #[test]
    fn a_path_is_narrow_where_its_interface_promises_more() {
        let [ipv4, ipv6] = ["203.0.113.4:7700", "[2001:db8::4]:7700"].map(|at| at.parse().unwrap());
        assert!(!is_narrow(WHOLE_BYTES, ipv4, Some(1_500)));
        assert!(
            !is_narrow(WHOLE_BYTES, ipv4, Some(9_000)),
            "nodes send no more"
        );
        assert!(is_narrow(1_372, ipv4, Some(1_500)));
        assert!(
            !is_narrow(1_372, ipv4, Some(1_400)),
            "the interface says so"
        );
        assert!(is_narrow(1_352, ipv6, Some(1_420)) && !is_narrow(1_352, ipv6, Some(1_400)));
        assert!(is_narrow(1_200, ipv4, None));
    }
}
