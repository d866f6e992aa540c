//! Packets that do not take the path of the tables, because something on it swallows them: where they go, and why.

use super::{PathNumbers, View, percent};
use base::NodeAddr;
use overlay::snapshot::{KnownDiversion, KnownSuspect};
use serde::Serialize;
use std::fmt;

/// Where packets go instead.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diverted {
    /// The names of the nodes on their way.
    pub path: Vec<String>,
    /// Their addresses.
    pub addresses: Vec<String>,
    /// What is suspected to swallow them, of what the path by table has.
    pub suspects: Vec<Suspected>,
}

/// A suspect.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Suspected {
    /// A relay, or where a link begins.
    pub node: String,
    /// Where the link ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_to: Option<String>,
    /// What was lost there.
    pub lost_pct: f64,
    /// In so many seconds it gets another chance.
    pub retry_in_s: f64,
}

impl Diverted {
    /// Where the teller's packets go instead of by the chosen path, if they do.
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
        let suspects: Vec<Suspected> = met.map(|s| Suspected::of(view, s)).collect();
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

impl Suspected {
    fn of(view: &View, known: &KnownSuspect) -> Suspected {
        Suspected {
            node: name(view, &known.node),
            link_to: known.link_to.as_ref().map(|to| name(view, to)),
            lost_pct: percent(known.lost),
            retry_in_s: known.retry_in_s,
        }
    }
}

/// A path over these nodes has it.
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

impl fmt::Display for Diverted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lost = self.suspects.iter().map(|s| s.lost_pct).fold(0.0, f64::max);
        let retry = self.suspects.iter().map(|s| s.retry_in_s);
        let words: Vec<String> = self.suspects.iter().map(Suspected::to_string).collect();
        write!(
            f,
            "packets take {} instead: {} swallows {lost:.0} % of them; next try in {:.0} s",
            self.path.join("-"),
            words.join(" or "),
            retry.fold(f64::INFINITY, f64::min)
        )
    }
}

impl fmt::Display for Suspected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.link_to {
            None => f.write_str(&self.node),
            Some(to) => write!(f, "the link from {} to {to}", self.node),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::{Asked, Why, why};
    use serde_json::{Value, json};

    /// Four nodes: the path by table from a to d is a-b-d, and a-c-d is longer.
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
        let words = "packets take a-c-d instead: b swallows 52 % of them; next try in 48 s";
        assert_eq!(way.to_string(), words);
        let whole = told.to_string();
        assert!(whole.contains(&format!("\nnow   {words}\n")), "{whole}");
        let link =
            json!([{"node": "10.7.0.2", "link_to": "10.7.0.4", "lost": 1.0, "retry_in_s": 9.0}]);
        let told = explained("10.7.0.1", link).diverted.unwrap().to_string();
        assert!(
            told.contains("the link from b to d swallows 100 %"),
            "{told}"
        );
        // Others know nothing of it, and what is not on the path diverts nothing.
        assert_eq!(explained("10.7.0.3", relay).diverted, None);
        let elsewhere = json!([{"node": "10.7.0.3", "lost": 0.5, "retry_in_s": 9.0}]);
        assert_eq!(explained("10.7.0.1", elsewhere).diverted, None);
    }
}
