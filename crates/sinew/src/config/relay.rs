//! What the node does for bulk data: `[relay]`.

use super::parse::{rules, some_listen, yes};
use gateway::allow::Rule;
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use wire::certificate::{BadPattern, Pattern};

/// Bulk data through and to the node.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Relay {
    /// TCP addresses; those of `listen` for UDP unless given.
    #[serde(deserialize_with = "some_listen")]
    pub listen: Option<Vec<SocketAddr>>,
    /// How many transfers it has a part in at the same time; with 0 it serves none.
    pub transfers: usize,
    /// For whom it passes on what other nodes send to others.
    pub passes: Passes,
    /// Bytes that it sends at most to find out what a segment carries; with 0 it does not.
    pub probe: u64,
    /// The directories whose files it keeps and gives.
    pub roots: Vec<Root>,
    /// The addresses that it dials for other nodes, besides those of its neighbours.
    #[serde(deserialize_with = "rules")]
    pub allow: Vec<Rule>,
}

/// For whom a node relays.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "true, false, or a list of nodes: [\"ams\", \"*-lab\", \"10.7.0.3\", \"tag:lab\", \"@lab.example\"]"
)]
pub enum Passes {
    /// For all or for nobody.
    All(bool),
    /// For transfers that these nodes have begun: by name, how names end, address, or tag or domain of the
    /// certificate.
    Some(Vec<String>),
}

impl Passes {
    /// The same for the service.
    pub fn open(&self) -> host::relay::Passes {
        match self {
            Passes::All(true) => host::relay::Passes::All,
            Passes::All(false) => host::relay::Passes::Nobody,
            Passes::Some(nodes) => host::relay::Passes::Some(nodes.clone()),
        }
    }
}

/// A directory that is served: its path, or that and what is done with it.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "a path, or a table of path, read, write and from: { path = \"/srv\", from = [\"ams\"] }"
)]
pub enum Root {
    /// It gives and keeps.
    Open(PathBuf),
    /// It does what is said.
    Told(RootRights),
}

/// What is done with a directory.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RootRights {
    /// Where it is.
    pub path: PathBuf,
    /// Its files are given.
    #[serde(default = "yes")]
    pub read: bool,
    /// Files are kept in it.
    #[serde(default = "yes")]
    pub write: bool,
    /// What comes may keep its owner, its set-user-id and its extended attributes.
    #[serde(default)]
    pub owners: bool,
    /// The nodes whose transfers it is for, in words as `passes` takes; unless given, those of all.
    #[serde(default)]
    pub from: Option<Vec<String>>,
}

impl Root {
    /// The same for the service.
    pub fn open(&self) -> host::relay::Root {
        match self {
            Root::Open(path) => host::relay::Root::open(path.clone()),
            Root::Told(told) => host::relay::Root {
                path: told.path.clone(),
                read: told.read,
                write: told.write,
                owners: told.owners,
                from: told.from.clone(),
            },
        }
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Root::Open(path) => path,
            Root::Told(told) => &told.path,
        }
    }

    pub(super) fn path_mut(&mut self) -> &mut PathBuf {
        match self {
            Root::Open(path) => path,
            Root::Told(told) => &mut told.path,
        }
    }
}

impl Relay {
    /// Two roots of which one is in the other, with other rights.
    pub(super) fn at_odds(&self) -> Option<(&Path, &Path)> {
        let rights = |root: &host::relay::Root| (root.read, root.write, root.from.clone());
        let mut pairs = self.roots.iter().flat_map(|inner| {
            let others = self.roots.iter();
            others.map(move |outer| (inner, outer))
        });
        let (inner, outer) = pairs.find(|(inner, outer)| {
            inner.path().starts_with(outer.path()) && rights(&inner.open()) != rights(&outer.open())
        })?;
        Some((inner.path(), outer.path()))
    }

    /// The first word of `passes` or of `from` that names no nodes, and why not.
    pub(super) fn misnamed(&self) -> Option<(&str, BadPattern)> {
        let passes = match &self.passes {
            Passes::All(_) => &[][..],
            Passes::Some(words) => words,
        };
        let from = self.roots.iter().filter_map(|root| match root {
            Root::Open(_) => None,
            Root::Told(told) => told.from.as_deref(),
        });
        let mut words = passes.iter().chain(from.flatten());
        words.find_map(|word| Some((word.as_str(), Pattern::parse(word).err()?)))
    }
}

impl Default for Relay {
    fn default() -> Relay {
        Relay {
            listen: None,
            transfers: ::relay::TRANSFERS,
            passes: Passes::All(true),
            probe: ::relay::PROBE_BYTES,
            roots: Vec::new(),
            allow: Vec::new(),
        }
    }
}
