//! Finds the node: by the name that a program or its environment gives, or by searching for it.

use crate::remote::{Named, Place, shared};
use crate::{Error, Node};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// The environment variable that names the node.
pub const NODE_VARIABLE: &str = "SINEW_NODE";
/// The directory with the sockets of nodes that run as services.
pub const SYSTEM: &str = "/run/sinew";
/// The suffixes of the clients' socket and of the operator's socket, which is beside it.
const CLIENTS: &str = "sock";
const OPERATOR: &str = "ctl";
/// How deep below a directory sockets are searched: `net/ams/ams.sock` is at depth two.
const MAX_DEPTH: usize = 4;
/// How many directory entries are read at most.
const MAX_ENTRIES: usize = 20_000;

impl Node {
    /// Returns the node that `SINEW_NODE` names, or the only one that can be found: below the working directory, or in
    /// `/run/sinew`.
    pub fn from_env() -> Result<Node, Error> {
        match std::env::var(NODE_VARIABLE) {
            Ok(text) if !text.is_empty() => Node::find(&text),
            _ => {
                let mut found = sockets_in(Path::new("."));
                found.extend(sockets_in(Path::new(SYSTEM)));
                only_one(found).map(Node::at)
            }
        }
    }

    /// Returns the node that `text` names: the directory of a node on this host, or its socket file; the file that
    /// `sinew net clients` has written for a node on another host, or its content; `dns:DOMAIN` for a node that the DNS
    /// knows.
    pub fn find(text: &str) -> Result<Node, Error> {
        if let Some(named) = Named::parse(text) {
            return shared(text, &named?);
        }
        let path = Path::new(text);
        let place = match Place::is_meant(text) {
            true => Some(text.parse()),
            false => Place::load(path),
        };
        if let Some(place) = place {
            let place = place.map_err(|error| Error::NotFound(error.to_string()))?;
            return Node::remote(place);
        }
        if path.is_dir() {
            return only_one(sockets_in(path)).map(Node::at);
        }
        // The tools name a node by its operator's socket.
        Ok(match path.extension().is_some_and(|e| e == OPERATOR) {
            true => Node::at(path.with_extension(CLIENTS)),
            false => Node::at(path),
        })
    }
}

/// Returns the clients' sockets in `dir` and below at which nodes answer.
fn sockets_in(dir: &Path) -> Vec<PathBuf> {
    let mut found = sockets_below(dir, CLIENTS);
    // A killed node leaves its file behind.
    found.retain(|path| net::unix::SeqStream::connect(path).is_ok());
    found
}

/// Returns all socket files in `dir` and below, some levels deep, whose names end in `.suffix`, sorted.
pub fn sockets_below(dir: &Path, suffix: &str) -> Vec<PathBuf> {
    let (mut found, mut entries) = (Vec::new(), 0);
    let mut waiting = vec![(dir.to_owned(), 0)];
    while let Some((dir, depth)) = waiting.pop() {
        // If a directory cannot be read, its sockets could not be used either.
        let Ok(content) = std::fs::read_dir(&dir) else {
            continue;
        };
        for entry in content.flatten() {
            entries += 1;
            let (path, Ok(kind)) = (entry.path(), entry.file_type()) else {
                continue;
            };
            if kind.is_socket() && path.extension().is_some_and(|e| e == suffix) {
                found.push(path);
            } else if kind.is_dir() && depth < MAX_DEPTH && entries < MAX_ENTRIES {
                waiting.push((path, depth + 1));
            }
        }
    }
    found.sort();
    found
}

fn only_one(mut found: Vec<PathBuf>) -> Result<PathBuf, Error> {
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(Error::NotFound(format!(
            "no running node found (no *.{CLIENTS} here, nor in {SYSTEM}): start one with `sinew \
             node --config FILE`, or name it by {NODE_VARIABLE}"
        ))),
        _ => {
            let list: Vec<String> = found.iter().map(|p| p.display().to_string()).collect();
            Err(Error::NotFound(format!(
                "several nodes run here: choose one by {NODE_VARIABLE}: {}",
                list.join(", ")
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::unix::SeqListener;

    #[test]
    fn the_only_live_socket_is_found_and_several_are_listed() {
        let dir = std::env::temp_dir().join(format!("client-locate-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(dir.join("net/ams")).unwrap();
        let name = dir.to_str().unwrap();
        let none = Node::find(name).unwrap_err().to_string();
        assert!(none.contains("sinew node --config"), "{none}");
        let path = dir.join("net/ams/ams.sock");
        let one = SeqListener::bind(&path, 0o600).unwrap();
        std::fs::write(dir.join("net/text.sock"), "no socket").unwrap();
        let found = Node::find(name).unwrap();
        assert!(format!("{found:?}").contains("ams.sock"), "{found:?}");
        let by_operator = Node::find(&format!("{name}/net/ams/ams.ctl")).unwrap();
        assert_eq!(format!("{by_operator:?}"), format!("{found:?}"));
        let _two = SeqListener::bind(&dir.join("net/fra.sock"), 0o600).unwrap();
        let several = Node::find(name).unwrap_err().to_string();
        assert!(
            several.contains("ams.sock") && several.contains("fra.sock"),
            "{several}"
        );
        drop(one);
        std::fs::remove_dir_all(dir).unwrap();
    }
}
