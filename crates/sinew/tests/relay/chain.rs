//! A chain of nodes, each with a directory that it serves.

use crate::world::World;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// A chain of nodes: ams, fra, lon, par.
pub(crate) struct Chain {
    pub(crate) world: World,
    names: Vec<&'static str>,
}

impl Chain {
    /// Makes a chain of `nodes` running nodes, and waits until all links are up.
    pub(crate) fn new(test: &str, nodes: usize) -> Chain {
        let mut chain = Chain::stopped(test, nodes);
        chain.start();
        chain
    }

    /// Makes four nodes in a ring, not yet started: there are two paths from ams to lon, over fra and over par.
    pub(crate) fn ring(test: &str) -> Chain {
        Chain::prepared(test, 4, "--link lon,ams")
    }

    /// Makes a chain that is not yet started.
    pub(crate) fn stopped(test: &str, nodes: usize) -> Chain {
        Chain::prepared(test, nodes, "--link lon")
    }

    fn prepared(test: &str, nodes: usize, last: &str) -> Chain {
        let world = World::new(test);
        let names: Vec<&str> = ["ams", "fra", "lon", "par"][..nodes].to_vec();
        for (i, name) in names.iter().enumerate() {
            let link = match i {
                0 => String::new(),
                3 => last.to_owned(),
                i => format!("--link {}", names[i - 1]),
            };
            world.add(name, i as u16 + 1, &link);
        }
        let chain = Chain { world, names };
        for name in chain.names.clone() {
            fs::create_dir_all(chain.root(name)).unwrap();
            let root = chain.root(name);
            chain.append(name, &format!("[relay]\nroots = [{root:?}]\n"));
        }
        chain
    }

    pub(crate) fn start(&mut self) {
        for name in self.names.clone() {
            self.world.start(name);
        }
        self.wait_for_links();
    }

    pub(crate) fn wait_for_links(&self) {
        for pair in self.names.windows(2) {
            self.world.wait_for_link(pair[0], pair[1]);
        }
        let first = self.names[0];
        for i in 1..self.names.len() {
            let address = format!("10.7.0.{}", i + 1);
            self.world.wait("the first node knows a way to each", || {
                self.world.has_route(first, &address)
            });
        }
    }

    /// Adds lines to the end of a node's configuration.
    pub(crate) fn append(&self, name: &str, lines: &str) {
        let path = self.world.node(name).join("node.toml");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{text}\n{lines}\n")).unwrap();
    }

    /// Returns the directory that a node serves.
    pub(crate) fn root(&self, name: &str) -> PathBuf {
        self.world.dir.join(format!("{name}-data"))
    }

    /// Makes a file next to the nodes, of bytes that do not repeat.
    pub(crate) fn file(&self, name: &str, bytes: usize) -> PathBuf {
        let path = self.world.dir.join(name);
        fs::write(&path, noise(bytes)).unwrap();
        path
    }

    /// Runs a copy at the first node, which must succeed, and returns its JSON.
    pub(crate) fn cp(&self, words: &str) -> Value {
        self.world.json(&format!("cp {words} --node net/ams"))
    }

    /// Runs a copy at the first node.
    pub(crate) fn try_cp(&self, words: &str) -> Output {
        self.world.try_sinew(&format!("cp {words} --node net/ams"))
    }

    /// Starts a copy at the first node in the background.
    pub(crate) fn begin_cp(&self, words: &str) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sinew"));
        command.current_dir(&self.world.dir).arg("cp");
        command
            .args(words.split_whitespace())
            .args(["--node", "net/ams", "--json"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Sends a signal to a node.
    pub(crate) fn signal(&self, name: &str, signal: &str) {
        let pid = self.world.pid(name).to_string();
        let sent = Command::new("kill").args([signal, &pid]).status().unwrap();
        assert!(sent.success());
    }
}

/// Makes bytes that do not repeat, the same at each call.
pub(crate) fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut all = Vec::with_capacity(bytes + 8);
    while all.len() < bytes {
        all.extend(next().to_le_bytes());
    }
    all.truncate(bytes);
    all
}

/// Returns the path of the partial file next to a target while it is copied.
pub(crate) fn part(target: &Path) -> PathBuf {
    let name = target.file_name().unwrap().to_str().unwrap();
    target.with_file_name(format!(".{name}.sinew-part"))
}

/// Lists the names in a directory.
pub(crate) fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
