//! The names of nodes, as a running node knows them.

use crate::control::Control;
use crate::failure::Failure;
use crate::show::{list, text};
use base::NodeAddr;
use client::{NODE_VARIABLE, Node};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Names by address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names(BTreeMap<String, String>);

impl Names {
    /// Reads the names in a node's status: its own, those of its neighbours, and those of other nodes whose
    /// certificates it has.
    pub fn of(status: &Value) -> Names {
        let snapshot = &status["snapshot"];
        let mut names = BTreeMap::new();
        let mut enter = |address: &Value, name: &Value| {
            if let (Some(address), Some(name)) = (address.as_str(), name.as_str()) {
                names.insert(address.to_owned(), name.to_owned());
            }
        };
        enter(&snapshot["address"], &snapshot["name"]);
        list(&status["nodes"])
            .iter()
            .for_each(|node| enter(&node["address"], &node["name"]));
        list(&snapshot["links"])
            .iter()
            .for_each(|link| enter(&link["peer"], &link["name"]));
        Names(names)
    }

    /// Returns the addresses of the nodes that have a name.
    pub fn addresses(&self) -> impl Iterator<Item = NodeAddr> {
        self.0.keys().filter_map(|address| address.parse().ok())
    }

    /// Returns the name of an address, or the address itself.
    pub fn name<'a>(&'a self, address: &'a str) -> &'a str {
        self.0.get(address).map_or(address, String::as_str)
    }

    /// Returns name and address, or the address alone.
    pub fn both(&self, address: &str) -> String {
        match self.0.get(address) {
            Some(name) => format!("{name} {address}"),
            None => address.to_owned(),
        }
    }

    /// Returns the address that `word` is, or the address of the node with this name.
    pub fn address(&self, word: &str) -> Result<NodeAddr, Failure> {
        if let Ok(address) = word.parse::<NodeAddr>() {
            if address.is_node() {
                return Ok(address);
            }
            return Err(Failure::misused(format_args!(
                "{address} is not the address of a node"
            )));
        }
        let mut found = self
            .0
            .iter()
            .filter(|(_, name)| *name == word)
            .map(|(address, _)| address);
        match (
            found.next().and_then(|address| address.parse().ok()),
            found.next(),
        ) {
            (Some(address), None) => Ok(address),
            (Some(_), Some(_)) => Err(Failure::misused(format_args!(
                "two nodes are called `{word}`: use the overlay address"
            ))),
            (None, _) => {
                let known: Vec<&str> = self.0.values().map(String::as_str).collect();
                Err(Failure::misused(format_args!(
                    "no node `{word}` is known here ({}): use its overlay address, like 10.7.0.3",
                    known.join(", ")
                )))
            }
        }
    }
}

/// Returns the file of a node's socket for clients.
pub fn client_socket(status: &Value) -> Result<&str, Failure> {
    match status["host"]["client_socket"].as_str() {
        Some(path) => Ok(path),
        None => Err(Failure::failed(format_args!(
            "node {} has no client socket: set `client_socket` in its configuration",
            text(&status["snapshot"]["name"])
        ))),
    }
}

/// Returns the node to be a client of, if the command names only a way to connect as a client: the socket file for
/// clients, or a node on another host by a gate's file or line, or by `dns:DOMAIN`. `SINEW_NODE` can also name it. The
/// names of nodes are not known then, because only the operator may ask for them.
pub fn as_client(path: Option<&Path>) -> Result<Option<Node>, Failure> {
    let named = named(path).filter(|named| is_for_clients(named));
    let find = |named: PathBuf| Node::find(&named.to_string_lossy());
    Ok(named.map(find).transpose()?)
}

/// Returns the control socket of the node that a command's option or the environment names, or of the one that runs
/// here. `None` if the node is named by its socket for programs.
pub fn as_operator(path: Option<&Path>) -> Option<PathBuf> {
    match named(path) {
        Some(named) if is_for_clients(&named) => None,
        _ => crate::control::socket(path).ok(),
    }
}

/// Returns what a command's option names, or else the environment.
fn named(path: Option<&Path>) -> Option<PathBuf> {
    let from_env = || std::env::var_os(NODE_VARIABLE).map(PathBuf::from);
    path.map(Path::to_owned).or_else(from_env)
}

fn is_for_clients(path: &Path) -> bool {
    let text = path.to_string_lossy();
    let ends = |suffix| path.extension().is_some_and(|e| e == suffix);
    ends("sock") || ends("remote") || text.starts_with("tls://") || text.starts_with("dns:")
}

/// Returns the node that `word` names among those that run on this host: its connection and its status.
pub fn running(word: &str) -> Result<(Control, Value), Failure> {
    let mut known = Vec::new();
    for path in crate::control::at_hand() {
        // A node that does not answer is not the right one.
        let Ok(mut control) = Control::connect(&path) else {
            continue;
        };
        let Ok(status) = control.status() else {
            continue;
        };
        if is(&status, word) {
            return Ok((control, status));
        }
        known.push(text(&status["snapshot"]["name"]).to_owned());
    }
    let known = if known.is_empty() {
        "none".to_owned()
    } else {
        known.join(", ")
    };
    Err(Failure::failed(format_args!(
        "no node `{word}` runs here (found: {known}): run this beside it, or name its control \
         socket by --node"
    )))
}

/// Returns true if the status is that of the node that `word` names.
pub fn is(status: &Value, word: &str) -> bool {
    let snapshot = &status["snapshot"];
    snapshot["name"] == word || snapshot["address"] == word
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_only_clients_reach_is_known_however_it_is_named() {
        for named in [
            "/run/sinew/x.sock",
            "a/b.remote",
            "tls://h:1?key=1",
            "dns:example.org",
        ] {
            assert!(is_for_clients(Path::new(named)), "{named}");
        }
        for named in ["net/ams", "/run/sinew/x.ctl", "ams"] {
            assert!(!is_for_clients(Path::new(named)), "{named}");
        }
    }

    #[test]
    fn names_come_from_the_node_its_neighbors_and_those_beyond() {
        let names = Names::of(&json!({
            "snapshot": {
                "name": "ams", "address": "10.7.0.1",
                "links": [{"name": "fra", "peer": "10.7.0.2"}, {"name": "fra", "peer": "10.7.0.4"}],
            },
            "nodes": [
                {"name": "lon", "address": "10.7.0.3"}, {"name": null, "address": "10.7.0.5"},
            ],
        }));
        for (word, address) in [
            ("ams", "10.7.0.1"),
            ("lon", "10.7.0.3"),
            ("10.9.9.9", "10.9.9.9"),
        ] {
            assert_eq!(names.address(word).unwrap().to_string(), address);
        }
        for bad in ["fra", "par", "239.1.1.1", "10.7.0"] {
            assert!(
                matches!(names.address(bad), Err(Failure::Misused(_))),
                "{bad}"
            );
        }
        assert_eq!(names.both("10.7.0.3"), "lon 10.7.0.3");
        assert_eq!(names.name("10.7.0.9"), "10.7.0.9");
    }
}
