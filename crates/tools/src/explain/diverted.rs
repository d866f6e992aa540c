//! Packets that leave the path of the routing tables because a node or link on it swallows packets: the path that they
//! take instead, and the reason.

use super::{PathNumbers, View, percent};
use base::NodeAddr;
use overlay::snapshot::{KnownDiversion, KnownSuspect};
use serde::Serialize;
use std::fmt;

/// The path that packets take instead.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diverted {
    /// The names of the nodes on that path.
    pub path: Vec<String>,
    /// The addresses of the nodes on that path.
    pub addresses: Vec<String>,
    /// Nodes and links of the path by table that are suspected to swallow packets; nodes by their names.
    pub suspects: Vec<KnownSuspect>,
}

impl Diverted {
    /// Returns the path that packets of the node that gave the snapshot take instead of the chosen path, if they do.
    pub(super) fn of(
        view: &View,
        (from, to): (NodeAddr, NodeAddr),
        chosen: &[PathNumbers],
    ) -> Option<Diverted> {
        let snapshot = view.snapshot();
        let [path] = chosen else {
            return None;
        };
        if snapshot.teller != Some(from.to_string()) {
            return None;
        }
        let to = to.to_string();
        let mut all = snapshot.diverted.iter();
        let KnownDiversion { way, suspects, .. } = all.find(|diversion| diversion.to == to)?;
        let met = suspects.iter().filter(|s| is_on(s, &path.addresses));
        let suspects: Vec<KnownSuspect> = met.map(|s| named(view, s)).collect();
        if suspects.is_empty() || *way == path.addresses {
            return None;
        }
        Some(Diverted {
            path: way.iter().map(|node| name(view, node)).collect(),
            addresses: way.clone(),
            suspects,
        })
    }
}

/// Returns the suspect with names instead of addresses.
fn named(view: &View, suspect: &KnownSuspect) -> KnownSuspect {
    KnownSuspect {
        node: name(view, &suspect.node),
        link_to: suspect.link_to.as_ref().map(|to| name(view, to)),
        ..suspect.clone()
    }
}

/// Returns true if a path over these nodes contains the suspect.
fn is_on(suspect: &KnownSuspect, nodes: &[String]) -> bool {
    match &suspect.link_to {
        None => nodes.contains(&suspect.node),
        Some(to) => nodes
            .windows(2)
            .any(|hop| hop[0] == suspect.node && hop[1] == *to),
    }
}

fn name(view: &View, address: &str) -> String {
    let node = address.parse::<NodeAddr>();
    node.map_or_else(|_| address.to_owned(), |node| view.name(node))
}

/// Describes what the suspect swallows, and until when it is avoided.
fn words(suspect: &KnownSuspect) -> String {
    let what = match &suspect.link_to {
        None => suspect.node.clone(),
        Some(to) => format!("the link from {} to {to}", suspect.node),
    };
    format!(
        "{what} swallows {:.0} % (next try in {:.0} s)",
        percent(suspect.lost),
        suspect.retry_in_s
    )
}

impl fmt::Display for Diverted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.suspects.iter().map(words).collect();
        write!(
            f,
            "packets take {} instead: {}",
            self.path.join("-"),
            words.join(" or ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::{Asked, Why, why};
    use serde_json::{Value, json};

    /// Explains a network of four nodes: the path by table from a to d is a-b-d, and a-c-d is longer.
    fn explained(teller: &str, suspects: Value) -> Why {
        let address = |n: u8| format!("10.7.0.{n}");
        let node = |n: u8, name: &str| json!({"address": address(n), "name": name});
        let link = |a: u8, b: u8, us: u32| {
            [(a, b), (b, a)].map(
                |(a, b)| json!({"from": address(a), "to": address(b), "latency_us": us, "loss": 0}),
            )
        };
        let links = [
            link(1, 2, 5_000),
            link(2, 4, 5_000),
            link(1, 3, 20_000),
            link(3, 4, 20_000),
        ];
        let snapshot = json!({
            "teller": teller, "profile": "modern", "detect_us": 2_000, "late_us": 100_000,
            "nodes": [node(1, "a"), node(2, "b"), node(3, "c"), node(4, "d")],
            "links": links.concat(), "holds": [], "rule": {
                "spacing_s": 0.0, "worse_s": 0.0, "worse_unclear_s": 0.0, "better_s": 0.0,
                "better_unclear_s": 0.0, "better_max_s": 0.0,
            },
            "diverted": [{"to": address(4), "way": [address(1), address(3), address(4)], "suspects": suspects}],
        });
        let view = View::new(serde_json::from_value(snapshot).unwrap()).unwrap();
        why(&view, "a", "d", &Asked::default()).unwrap()
    }

    #[test]
    fn packets_that_avoid_a_suspect_are_told_with_their_way() {
        let relay = json!([{"node": "10.7.0.2", "lost": 0.52, "retry_in_s": 47.6}]);
        let told = explained("10.7.0.1", relay.clone());
        assert_eq!(told.choice.chosen[0].path, ["a", "b", "d"], "by table");
        let way = told.diverted.as_ref().unwrap();
        assert_eq!(way.path, ["a", "c", "d"]);
        let words = "packets take a-c-d instead: b swallows 52 % (next try in 48 s)";
        assert_eq!(way.to_string(), words);
        let whole = told.to_string();
        assert!(whole.contains(&format!("\nnow   {words}\n")), "{whole}");
        // If there are several suspects, each has its own numbers.
        let both = json!([
            {"node": "10.7.0.2", "lost": 0.52, "retry_in_s": 47.6},
            {"node": "10.7.0.2", "link_to": "10.7.0.4", "lost": 1.0, "retry_in_s": 9.0},
        ]);
        let told = explained("10.7.0.1", both).diverted.unwrap().to_string();
        let also = " or the link from b to d swallows 100 % (next try in 9 s)";
        assert_eq!(told, format!("{words}{also}"));
        // Other nodes do not know the suspects, and a suspect that is not on the path diverts nothing.
        assert_eq!(explained("10.7.0.3", relay).diverted, None);
        let elsewhere = json!([{"node": "10.7.0.3", "lost": 0.5, "retry_in_s": 9.0}]);
        assert_eq!(explained("10.7.0.1", elsewhere).diverted, None);
    }
}
