//! The node's service for bulk data: `[relay]`.

use super::parse::{rules, some_listen, yes};
use gateway::allow::Rule;
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use wire::certificate::{BadPattern, Pattern};

/// Settings for bulk data through and to the node.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Relay {
    /// TCP addresses of the service; by default, the addresses of `listen` for UDP.
    #[serde(deserialize_with = "some_listen")]
    pub listen: Option<Vec<SocketAddr>>,
    /// Most transfers in which the node takes part at the same time. With 0 it serves none.
    pub transfers: usize,
    /// The nodes for which the node passes on data to other nodes.
    pub passes: Passes,
    /// Most bytes that the node sends to measure what a segment carries. With 0 it does not measure.
    pub probe: u64,
    /// The directories that the service may write and read.
    pub roots: Vec<Root>,
    /// The addresses that it dials for other nodes, besides those of its neighbours.
    #[serde(deserialize_with = "rules")]
    pub allow: Vec<Rule>,
}

/// The nodes for which a node relays.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "true, false, or a list of nodes: [\"ams\", \"*-lab\", \"10.7.0.3\", \"tag:lab\", \"@lab.example\"]"
)]
pub enum Passes {
    /// All nodes, or none.
    All(bool),
    /// Transfers that these nodes have begun. The words are names, patterns such as `*-lab`, addresses, or tags or
    /// domains of the certificate.
    Some(Vec<String>),
}

impl Passes {
    /// Converts the setting for the service.
    pub fn open(&self) -> host::relay::Passes {
        match self {
            Passes::All(true) => host::relay::Passes::All,
            Passes::All(false) => host::relay::Passes::Nobody,
            Passes::Some(nodes) => host::relay::Passes::Some(nodes.clone()),
        }
    }
}

/// A directory that the service uses: its path, or its path and rights.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "a path, or a table of path, read, write and from: { path = \"/srv\", from = [\"ams\"] }"
)]
pub enum Root {
    /// The service reads and writes the directory.
    Open(PathBuf),
    /// The service has the given rights.
    Told(RootRights),
}

/// The rights on a directory.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RootRights {
    /// The directory's path.
    pub path: PathBuf,
    /// The service sends files of the directory.
    #[serde(default = "yes")]
    pub read: bool,
    /// The service stores files in the directory.
    #[serde(default = "yes")]
    pub write: bool,
    /// Received files may keep their owner, their set-user-id bit and their extended attributes.
    #[serde(default)]
    pub owners: bool,
    /// The nodes whose transfers may use the directory, in the same words as in `passes`; all nodes by default.
    #[serde(default)]
    pub from: Option<Vec<String>>,
}

impl Root {
    /// Converts the setting for the service.
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
    /// Returns two roots of which one contains the other, with different rights.
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

    /// Returns the first invalid word of `passes` or of `from`, and the reason.
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
