//! Checks the port that the router in front of the host forwards to the node.

use super::{Finding, reach};
use crate::show::text;
use serde_json::Value;
use std::net::{IpAddr, SocketAddr};

const WHAT: &str = "port mapping";
/// How to replace the mapping by hand.
const BY_HAND: &str = "forward the UDP port in `listen` on the router to this host";

/// Returns `None` for a node of an older version, whose status has no mapping.
pub(super) fn look(status: &Value) -> Option<Finding> {
    judge(status, reach::is_own)
}

fn judge(status: &Value, is_own: impl Fn(IpAddr) -> bool) -> Option<Finding> {
    let mapping = status["mapping"].as_object()?;
    // A path without a router, such as a link within the house, says nothing about the router in
    // front of the host.
    let mut seen = reach::seen(status);
    seen.retain(|at| at.is_ipv4() && !is_own(at.ip()));
    let of = |key: &str| mapping.get(key).map_or("", text);
    let router = of("gateway");
    Some(match of("state") {
        "mapped" => mapped(
            &seen,
            of("at"),
            &format!(
                "{} to {}, by {}, router {router}",
                of("at"),
                of("own"),
                of("by")
            ),
        ),
        "off" => Finding::good(WHAT, format!("none: {}", of("why"))),
        "asking" => Finding::good(WHAT, format!("the router {router} is being asked")),
        "silent" if is_same_for_all(&seen) => Finding::good(
            WHAT,
            format!(
                "none, and none is needed: the router {router} answers neither PCP, NAT-PMP nor UPnP, but neighbours see one endpoint"
            ),
        ),
        "silent" => Finding::weak(
            WHAT,
            format!("none: the router {router} answers neither PCP, NAT-PMP nor UPnP"),
            format!(
                "switch one of them on in the router (UPnP: let a firewall of this host take UDP answers from {router}), or {BY_HAND}; a NAT that is endpoint-independent needs neither"
            ),
        ),
        "refused" => Finding::weak(
            WHAT,
            format!("the router {router} refuses: {}", of("why")),
            format!("allow this host to map ports in the router, or {BY_HAND}"),
        ),
        "double-nat" => Finding::weak(
            WHAT,
            format!("of no use: {}, which is not public", of("why")),
            "there is a second NAT: set one of the two routers to bridge mode; if the provider shares its addresses (CGNAT), ask it for a public one, or use IPv6",
        ),
        state => Finding::weak(
            WHAT,
            format!("{state}, router {router}"),
            "see the log; the node asks again by itself",
        ),
    })
}

/// Compares the address that the router reports with the addresses that neighbours see.
fn mapped(seen: &[SocketAddr], at: &str, shown: &str) -> Finding {
    let at: Option<SocketAddr> = at.parse().ok();
    let is_there = |seen: &SocketAddr| at.is_some_and(|at| at.ip() == seen.ip());
    if !seen.is_empty() && !seen.iter().any(is_there) {
        return Finding::weak(
            WHAT,
            format!("{shown}; but no neighbour sees this node at that address"),
            "there may be a second NAT in front of the router, or another uplink: see NAT above",
        );
    }
    Finding::good(WHAT, shown)
}

/// Returns true if the NAT gives the node the same public port for all destinations. This needs at
/// least two neighbours.
fn is_same_for_all(seen: &[SocketAddr]) -> bool {
    seen.len() > 1 && seen.iter().all(|at| *at == seen[0])
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;
    use serde_json::json;

    const BY_STREAM: &str = "192.0.2.9:7700";

    fn look_at(mapping: Value, seen: &[&str]) -> Option<(State, String)> {
        let seen = seen
            .iter()
            .map(|at| json!({"at": at, "by_stream": *at == BY_STREAM}));
        let seen: Vec<Value> = seen.collect();
        let status = json!({"mapping": mapping, "snapshot": {"seen": seen}});
        let own: IpAddr = "192.168.1.2".parse().unwrap();
        judge(&status, |ip| ip == own).map(|it| {
            assert_eq!(it.state == State::Good, it.next.is_empty(), "{it:?}");
            (it.state, it.seen)
        })
    }

    #[test]
    fn each_state_has_its_next_step() {
        assert_eq!(look_at(Value::Null, &[]), None);
        let mapped = json!({"state": "mapped", "at": "198.51.100.7:7700", "own": "192.168.1.2:7700",
                            "by": "PCP", "gateway": "192.168.1.1"});
        let shown = "198.51.100.7:7700 to 192.168.1.2:7700, by PCP, router 192.168.1.1";
        for seen in [
            &[][..],
            &["198.51.100.7:5"],
            &["[2001:db8::1]:7700"],
            &["10.0.0.1:1", "198.51.100.7:5"],
            // One address is within the house, the other one belongs to a stream.
            &["192.168.1.2:7700"],
            &[BY_STREAM],
        ] {
            let told = look_at(mapped.clone(), seen);
            assert_eq!(told, Some((State::Good, shown.to_owned())), "{seen:?}");
        }
        let (state, text) = look_at(mapped, &["203.0.113.1:7700"]).unwrap();
        assert!(
            state == State::Weak && text.contains("no neighbour sees"),
            "{text}"
        );
        let silent = json!({"state": "silent", "gateway": "192.168.1.1"});
        for (seen, expected) in [
            (["198.51.100.7:5"; 2], State::Good),
            (["198.51.100.7:5", "198.51.100.7:6"], State::Weak),
            (["198.51.100.7:5", "192.168.1.2:7700"], State::Weak),
            (["192.168.1.2:7700"; 2], State::Weak),
        ] {
            let (state, text) = look_at(silent.clone(), &seen).unwrap();
            assert_eq!(state, expected, "{text}");
        }
        for (state, expected) in [
            ("off", State::Good),
            ("asking", State::Good),
            ("silent", State::Weak),
            ("refused", State::Weak),
            ("double-nat", State::Weak),
            ("lost", State::Weak),
        ] {
            let mapping = json!({"state": state, "why": "REASON", "gateway": "192.168.1.1"});
            let (state, text) = look_at(mapping, &[]).unwrap();
            assert_eq!(state, expected, "{text}");
        }
    }
}
