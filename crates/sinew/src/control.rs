//! Asks a running node by its operator's socket, and finds that socket. A node on another host is asked through its
//! gate, with the file of an observer or operator that `sinew net clients` has written there.

use crate::failure::Failure;
use client::SYSTEM;
use client::remote::{Place, Remote};
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a node may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest answer: the status of a node with thousands of routes is some megabytes.
const MAX_ANSWER_BYTES: u64 = 64 << 20;
/// How long a command waits for a state that is about to come: a node that starts, a link that comes up, a route. Links
/// need 0.2 to 0.7 s. A command after `sinew node &` comes earlier, if it is typed or pasted.
pub const SOON: Duration = Duration::from_secs(2);
/// The time between two checks of this state.
const LOOK: Duration = Duration::from_millis(50);
/// If a node has run for a shorter time, or one of its links has changed since, the state may still change.
const SETTLED_S: f64 = 10.0;
/// The kernel's error for connecting a stream to a socket for packets, such as programs use.
const EPROTOTYPE: i32 = 91;
/// The ending of the operator's socket's name.
pub const SUFFIX: &str = "ctl";

/// A connection to a running node.
#[derive(Debug)]
pub struct Control {
    stream: BufReader<UnixStream>,
    path: PathBuf,
    /// Where the node is, in words. The path is not shown, because it may be a text with a secret.
    at: String,
    /// The node is on another host.
    is_remote: bool,
}

impl Control {
    /// Connects to the socket at `path`, or to the node on another host that `path` names, as a file or as its text.
    pub fn connect(path: &Path) -> Result<Control, Failure> {
        if let Some(place) = remote_place(path) {
            return Control::connect_remote(place?, path);
        }
        let fail = |error: io::Error| {
            let shown = path.display();
            match error.kind() {
                ErrorKind::PermissionDenied => Failure::failed(format_args!(
                    "{shown}: {error}; be the user that runs the node, or root"
                )),
                _ if error.raw_os_error() == Some(EPROTOTYPE) => Failure::misused(format_args!(
                    "{shown} is where programs connect to the node: name its control socket, like {}",
                    path.with_extension(SUFFIX).display()
                )),
                _ => Failure::failed(format_args!(
                    "no node at {shown}: {error}; start one with `sinew node --config FILE`"
                )),
            }
        };
        let stream = UnixStream::connect(path).map_err(fail)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(fail)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(fail)?;
        Ok(Control {
            stream: BufReader::new(stream),
            path: path.to_owned(),
            at: path.display().to_string(),
            is_remote: false,
        })
    }

    fn connect_remote(place: Place, path: &Path) -> Result<Control, Failure> {
        let endpoint = place.endpoint.clone();
        let fail = |error: &dyn std::fmt::Display| {
            Failure::failed(format_args!("the node at {endpoint}: {error}"))
        };
        let remote = Arc::new(Remote::new(place).map_err(|error| fail(&error))?);
        let stream = remote.operate(Instant::now() + PATIENCE);
        let stream = stream.map_err(|error| fail(&error))?;
        let timeouts = stream.set_read_timeout(Some(PATIENCE));
        timeouts.map_err(|error| fail(&error))?;
        Ok(Control {
            stream: BufReader::new(stream),
            path: path.to_owned(),
            at: endpoint,
            is_remote: true,
        })
    }

    /// Connects to the node that the command line, the environment or nearby files name.
    pub fn find(node: Option<&Path>) -> Result<Control, Failure> {
        Control::connect(&socket(node)?)
    }

    /// Connects to a node that may just be starting. If the node is named and its directory exists, the function waits
    /// for the node.
    pub fn find_soon(node: Option<&Path>) -> Result<Control, Failure> {
        Control::find_within(node, SOON)
    }

    fn find_within(node: Option<&Path>, patience: Duration) -> Result<Control, Failure> {
        let until = Instant::now() + patience;
        loop {
            match Control::find(node) {
                Err(Failure::Failed(_)) if is_prepared(node) && Instant::now() < until => {
                    std::thread::sleep(LOOK);
                }
                found => return found,
            }
        }
    }

    /// Returns the node's status as soon as it is `ready`, or the present status if that cannot be expected soon.
    pub fn status_when(&mut self, ready: impl Fn(&Value) -> bool) -> Result<Value, Failure> {
        let until = Instant::now() + SOON;
        loop {
            let status = self.status()?;
            if ready(&status) || !is_settling(&status) || Instant::now() >= until {
                return Ok(status);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Returns the status of a node that was just started, as soon as it is `ready`. After `patience`, it returns the
    /// present status.
    pub fn status_within(
        node: &Path,
        patience: Duration,
        ready: impl Fn(&Value) -> bool,
    ) -> Result<Value, Failure> {
        let until = Instant::now() + patience;
        let mut control = Control::find_within(Some(node), patience)?;
        loop {
            let status = control.status()?;
            if ready(&status) || Instant::now() >= until {
                return Ok(status);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Returns where the node is, for messages.
    pub fn at(&self) -> &str {
        &self.at
    }

    /// Returns the socket's file, or the name of a node on another host.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the socket with this ending next to the operator's socket. It exists only on the node's own host.
    pub fn beside(&self, suffix: &str) -> Result<PathBuf, Failure> {
        match self.is_remote {
            false => Ok(self.path.with_extension(suffix)),
            true => Err(Failure::misused(
                "this is done in the name of the node: run it on the node's own host",
            )),
        }
    }

    /// Asks a question and waits for the answer. A refusal of the node is a failure.
    pub fn ask(&mut self, question: &Value) -> Result<Value, Failure> {
        let fail = |what: &dyn std::fmt::Display| {
            Failure::failed(format_args!("the node at {}: {what}", self.at))
        };
        let line = format!("{question}\n");
        self.stream
            .get_mut()
            .write_all(line.as_bytes())
            .map_err(|error| fail(&error))?;
        let mut answer = Vec::new();
        let mut bounded = self.stream.by_ref().take(MAX_ANSWER_BYTES);
        let read = bounded.read_until(b'\n', &mut answer);
        read.map_err(|error| fail(&error))?;
        if answer.is_empty() {
            return Err(fail(
                &"has closed the connection: it was stopped, or restarted",
            ));
        }
        let answer: Value = serde_json::from_slice(&answer).map_err(|error| fail(&error))?;
        match answer["error"].as_str() {
            Some(text) => Err(Failure::failed(text)),
            None => Ok(answer),
        }
    }

    /// Returns the node's whole status.
    pub fn status(&mut self) -> Result<Value, Failure> {
        self.ask(&json!({"cmd": "snapshot"}))
    }
}

/// A node that is asked regularly, and that may be restarted between two questions.
#[derive(Debug)]
pub struct Watched {
    path: PathBuf,
    control: Option<Control>,
}

impl Watched {
    /// Finds the node that the command line, the environment or nearby files name.
    pub fn find(node: Option<&Path>) -> Result<Watched, Failure> {
        Ok(Watched {
            path: socket(node)?,
            control: None,
        })
    }

    /// Finds a node that may just be starting.
    pub fn find_soon(node: Option<&Path>) -> Result<Watched, Failure> {
        let control = Control::find_soon(node)?;
        Ok(Watched {
            path: control.path().to_owned(),
            control: Some(control),
        })
    }

    /// Calls `work` with the connection. After a failure, the next call connects again.
    pub fn with<T>(
        &mut self,
        work: impl FnOnce(&mut Control) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut control = match self.control.take() {
            Some(control) => control,
            None => Control::connect(&self.path)?,
        };
        let done = work(&mut control)?;
        self.control = Some(control);
        Ok(done)
    }
}

/// Returns true if a node has just started, or one of its links has just changed: then routes may still change.
pub fn is_settling(status: &Value) -> bool {
    let snapshot = &status["snapshot"];
    let young = |seconds: &Value| seconds.as_f64().is_some_and(|s| s < SETTLED_S);
    let links = snapshot["links"].as_array().into_iter().flatten();
    young(&snapshot["uptime_s"]) || links.into_iter().any(|link| young(&link["since_s"]))
}

/// Returns the right socket: the one given, that of `SINEW_NODE`, or the only one nearby.
pub fn socket(given: Option<&Path>) -> Result<PathBuf, Failure> {
    match named(given) {
        Some(path) if path.is_dir() => match sockets_in(&path).as_slice() {
            [] => Err(nobody_in(&path)),
            [_, ..] => only_one(sockets_in(&path)),
        },
        Some(path) => Ok(path),
        None => only_one(at_hand()),
    }
}

/// Returns true if the node is on another host.
pub fn is_elsewhere(given: Option<&Path>) -> bool {
    named(given).is_some_and(|path| remote_place(&path).is_some())
}

/// Returns the node on another host that this names; `None` if it is a path on this host.
fn remote_place(path: &Path) -> Option<Result<Place, Failure>> {
    let text = path.to_string_lossy();
    let place = match Place::is_meant(&text) {
        true => text.parse(),
        false => Place::load(path)?,
    };
    Some(place.map_err(Failure::misused))
}

fn named(given: Option<&Path>) -> Option<PathBuf> {
    given.map(Path::to_owned).or_else(|| {
        std::env::var_os("SINEW_NODE")
            .filter(|text| !text.is_empty())
            .map(PathBuf::from)
    })
}

/// Returns true if a node of this host is named, and the directory for its socket exists.
fn is_prepared(given: Option<&Path>) -> bool {
    let Some(path) = named(given).filter(|_| !is_elsewhere(given)) else {
        return false;
    };
    path.is_dir() || path.parent().is_some_and(Path::is_dir)
}

/// Makes the failure if no node answers in the named directory.
fn nobody_in(dir: &Path) -> Failure {
    let shown = dir.display();
    let left: Vec<String> = client::sockets_below(dir, SUFFIX)
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let left = match left.as_slice() {
        [] => format!("no *.{SUFFIX} there"),
        left => format!("{} is left over from one that was killed", left.join(", ")),
    };
    let config = dir.join("node.toml");
    let config = match config.exists() {
        true => config.display().to_string(),
        false => "FILE".to_owned(),
    };
    Failure::failed(format_args!(
        "no running node found in {shown} ({left}): start one with `sinew node --config {config}`"
    ))
}

/// Returns all sockets below the current directory and in the system's directory.
pub fn at_hand() -> Vec<PathBuf> {
    let mut found = sockets_in(Path::new("."));
    found.extend(sockets_in(Path::new(SYSTEM)));
    found
}

/// Returns all sockets at which a node answers, in `dir` and below.
pub fn sockets_in(dir: &Path) -> Vec<PathBuf> {
    let mut found = client::sockets_below(dir, SUFFIX);
    // A killed node leaves its file, which is left out. The socket of another user's node stays in the list.
    found.retain(|path| match UnixStream::connect(path) {
        Ok(_) => true,
        Err(error) => error.kind() == ErrorKind::PermissionDenied,
    });
    found
        .iter()
        .map(|path| path.strip_prefix("./").unwrap_or(path).to_owned())
        .collect()
}

fn only_one(mut found: Vec<PathBuf>) -> Result<PathBuf, Failure> {
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(Failure::failed(format_args!(
            "no running node found (no *.{SUFFIX} here, nor in {SYSTEM}): start one with `sinew \
             node --config FILE`, or name its control socket by --node or SINEW_NODE"
        ))),
        _ => {
            let list: Vec<String> = found.iter().map(|p| p.display().to_string()).collect();
            Err(Failure::misused(format_args!(
                "several nodes run here: choose one by --node or SINEW_NODE: {}",
                list.join(", ")
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_node_that_was_restarted_is_asked_again() {
        let dir = crate::testing::directory("watched");
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("ams.ctl");
        let answer_once = || {
            let listener = UnixListener::bind(&path).unwrap();
            std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut question = String::new();
                BufReader::new(&stream).read_line(&mut question).unwrap();
                stream.write_all(b"{\"snapshot\":{}}\n").unwrap();
            })
        };
        let node = answer_once();
        let mut watched = Watched::find(Some(&path)).unwrap();
        assert!(watched.with(Control::status).is_ok());
        node.join().unwrap();
        std::fs::remove_file(&path).unwrap();
        for _ in 0..2 {
            let away = watched.with(Control::status);
            assert!(matches!(away, Err(Failure::Failed(_))), "{away:?}");
        }
        let node = answer_once();
        assert!(watched.with(Control::status).is_ok());
        node.join().unwrap();
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn the_only_live_socket_is_found_and_several_are_listed() {
        let dir = crate::testing::directory("find");
        assert!(matches!(
            only_one(sockets_in(&dir)),
            Err(Failure::Failed(_))
        ));
        std::fs::create_dir_all(dir.join("net/ams")).unwrap();
        let path = dir.join("net/ams/ams.ctl");
        let one = UnixListener::bind(&path).unwrap();
        drop(UnixListener::bind(dir.join("net/killed.ctl")).unwrap());
        std::fs::write(dir.join("net/text.ctl"), "no socket").unwrap();
        assert_eq!(socket(Some(&dir)).unwrap(), path);
        assert_eq!(socket(Some(&path)).unwrap(), path);
        let left = dir.join("left");
        std::fs::create_dir_all(&left).unwrap();
        drop(UnixListener::bind(left.join("par.ctl")).unwrap());
        let Err(Failure::Failed(text)) = socket(Some(&left)) else {
            panic!("nobody answers there")
        };
        assert!(text.contains("par.ctl is left over"), "{text}");
        std::fs::remove_dir_all(&left).unwrap();
        let _two = UnixListener::bind(dir.join("net/fra.ctl")).unwrap();
        let Err(Failure::Misused(text)) = socket(Some(&dir)) else {
            panic!("ambiguous")
        };
        assert!(
            text.contains("ams.ctl") && text.contains("fra.ctl"),
            "{text}"
        );
        drop(one);
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_node_settles_within_seconds_of_its_start_and_of_each_change_of_a_link() {
        let status = |uptime_s: f64, since_s: f64| json!({"snapshot": {"uptime_s": uptime_s, "links": [{"since_s": since_s}]}});
        assert!(is_settling(&status(0.3, 0.3)) && is_settling(&status(500.0, 1.0)));
        assert!(!is_settling(&status(500.0, 400.0)) && !is_settling(&json!({})));
    }
}
