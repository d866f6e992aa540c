//! Nodes that are left running: the file that lists them, and how to end them.
//!
//! ```text
//!   up --keep ──▶ DIR/lab.json (process numbers and start times, sockets) ──▶ down DIR
//! ```
//!
//! A process is identified by its number and the moment of its start, so that a number which the system has since given
//! to another process is not affected.

use super::LiveError;
use super::network::Network;
use crate::bench::fleet::Member;
use crate::control;
use crate::files::{Scratch, write};
use crate::scenario::{Node, Scenario};
use net::signals;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The file in the folder.
const FILE: &str = "lab.json";
/// The name of the nodes' folder within the user's folder.
const WITHIN: &str = "nodes";
/// A socket's path has at most 107 bytes.
const SOCKET_PATH_MAX: usize = 107;
/// The longest name of a file in the folder: a node's name of 32 bytes and ".control".
const FILE_NAME_MAX: usize = 41;
/// How long a node may take to end after the request.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(20);

/// Nodes that are left running.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The scenario's name.
    pub scenario: String,
    /// The folder of the nodes' files.
    pub folder: PathBuf,
    /// Whether the folder was created for them and is removed with them.
    pub temporary: bool,
    /// The nodes.
    pub nodes: Vec<KeptNode>,
    /// The first parts of the names of the nodes' files, without endings.
    pub stems: Vec<String>,
}

/// One node that is left running.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptNode {
    /// Its name.
    pub name: String,
    /// Its overlay address.
    pub address: String,
    /// Its process id.
    pub pid: u32,
    /// When the process was started, in the kernel's own count.
    pub started: u64,
    /// Its operator's socket.
    pub control_socket: PathBuf,
    /// Its clients' socket.
    pub client_socket: PathBuf,
}

/// The folder of the nodes' files. Dropping it removes them, except logs in the user's folder.
pub(super) struct Folder {
    path: PathBuf,
    /// A folder that is removed with everything in it.
    scratch: Option<Scratch>,
    /// The first parts of the names of the nodes' files, without endings.
    stems: Vec<String>,
    /// Whether the nodes are left running.
    kept: bool,
}

impl Folder {
    /// Creates a folder for the nodes of a scenario; nodes that run must not be using it.
    pub(super) fn open(
        scenario: &Scenario,
        out: Option<&Path>,
        keep: bool,
    ) -> Result<Folder, LiveError> {
        let members = scenario.nodes.iter().enumerate();
        let stem = |(i, node): (usize, &Node)| Member::new(i, &node.name, node.address).stem;
        let stems: Vec<String> = members.map(stem).collect();
        let temporary = |stems| {
            let scratch = Scratch::new("lab")?;
            Ok(Folder {
                path: scratch.path().to_owned(),
                scratch: Some(scratch),
                stems,
                kept: false,
            })
        };
        let Some(out) = out else {
            return temporary(stems);
        };
        let at = |error| LiveError::At {
            path: out.to_owned(),
            error,
        };
        // The nodes have a separate folder, so that no other keys are overwritten.
        let nodes = out.join(WITHIN);
        fs::create_dir_all(&nodes).map_err(at)?;
        let path = fs::canonicalize(&nodes).map_err(at)?;
        if let Ok(kept) = read(out)
            && kept.nodes.iter().any(KeptNode::runs)
        {
            return Err(LiveError::Option(format!(
                "nodes of {} run in {1}: end them first, with `sinew lab down {1}`",
                kept.scenario,
                out.display()
            )));
        }
        if path.as_os_str().len() + FILE_NAME_MAX > SOCKET_PATH_MAX {
            // Sockets need short paths, so only the report is written there.
            return match keep {
                true => Err(LiveError::Option(format!(
                    "{}: sockets need a shorter path: choose a folder of up to {} bytes",
                    out.display(),
                    SOCKET_PATH_MAX - FILE_NAME_MAX - WITHIN.len() - 1
                ))),
                false => temporary(stems),
            };
        }
        // Report the error now, and not after all nodes have been started.
        let probe = path.join(FILE);
        write(&probe, b"{}\n").map_err(at)?;
        fs::remove_file(&probe).map_err(at)?;
        Ok(Folder {
            path,
            scratch: None,
            stems,
            kept: false,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves the nodes running and writes the list of them.
    pub(super) fn keep(
        mut self,
        scenario: &Scenario,
        network: Network<'_>,
    ) -> Result<Kept, LiveError> {
        let nodes = network.nodes().iter().filter_map(|process| {
            let pid = process.id().ok()?;
            Some(KeptNode {
                name: process.member().name.clone(),
                address: process.member().address.to_string(),
                pid,
                started: started(pid)?,
                control_socket: process.control_socket(),
                client_socket: process.client_socket(),
            })
        });
        let temporary = self.scratch.is_some();
        let folder = match temporary {
            true => self.path.as_path(),
            false => self.path.parent().unwrap_or(&self.path),
        };
        let kept = Kept {
            scenario: scenario.name.clone(),
            folder: folder.to_owned(),
            temporary,
            nodes: nodes.collect(),
            stems: self.stems.clone(),
        };
        let json = serde_json::to_string_pretty(&kept).map_err(io::Error::other)?;
        let path = folder.join(FILE);
        write(&path, (json + "\n").as_bytes()).map_err(|error| LiveError::At { path, error })?;
        network.leave();
        self.kept = true;
        if let Some(scratch) = self.scratch.take() {
            scratch.keep();
        }
        Ok(kept)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.scratch.is_none() && !self.kept {
            clear(&self.path, &self.stems);
        }
    }
}

/// Ends the nodes that were left running in a folder, and removes their files.
///
/// # Errors
/// [`LiveError`] if there are none, or one cannot be ended.
pub fn down(folder: &Path) -> Result<Kept, LiveError> {
    let kept = read(folder).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => LiveError::Option(format!(
            "{}: no nodes were left running there: it has no {FILE}",
            folder.display()
        )),
        _ => LiveError::At {
            path: folder.join(FILE),
            error,
        },
    })?;
    for node in kept.nodes.iter().filter(|node| node.runs()) {
        // A node that hangs is killed later.
        let _ = control::ask(&node.control_socket, &serde_json::json!({"cmd": "stop"}));
    }
    let until = Instant::now() + PATIENCE;
    while kept.nodes.iter().any(KeptNode::runs) && Instant::now() < until {
        std::thread::sleep(LOOK);
    }
    for node in kept.nodes.iter().filter(|node| node.runs()) {
        signals::kill(node.pid)?;
    }
    if kept.temporary {
        // `up` has created this folder.
        let _ = fs::remove_dir_all(&kept.folder);
    } else {
        clear(&folder.join(WITHIN), &kept.stems);
        let _ = fs::remove_file(folder.join(FILE));
    }
    Ok(kept)
}

fn read(folder: &Path) -> io::Result<Kept> {
    let text = fs::read_to_string(folder.join(FILE))?;
    serde_json::from_str(&text).map_err(io::Error::from)
}

/// Removes keys, certificates, configurations and sockets of nodes that have ended; logs stay.
fn clear(folder: &Path, stems: &[String]) {
    for stem in stems {
        for ending in ["sock", "control", "key", "cert", "toml"] {
            let _ = fs::remove_file(folder.join(format!("{stem}.{ending}")));
        }
    }
    let _ = fs::remove_file(folder.join("network.pub"));
}

impl KeptNode {
    /// Returns whether it still runs, and is the process that was started.
    fn runs(&self) -> bool {
        started(self.pid) == Some(self.started)
    }
}

/// Returns when a process was started, in ticks since the machine started; `None` if it has ended.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may contain anything. After it comes the state, and 18 fields later field 22.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    match state {
        "Z" | "X" => None,
        _ => fields.nth(18)?.parse().ok(),
    }
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} nodes of {} are running:",
            self.nodes.len(),
            self.scenario
        )?;
        for node in &self.nodes {
            writeln!(
                f,
                "  {} {}  control {}  clients {}",
                node.name,
                node.address,
                node.control_socket.display(),
                node.client_socket.display()
            )?;
        }
        if let Some(node) = self.nodes.first() {
            writeln!(
                f,
                "ask one: sinew status --node {}",
                node.control_socket.display()
            )?;
        }
        write!(f, "end them: sinew lab down {}", self.folder.display())
    }
}
