//! Asking a running node, by its operator's socket; and finding that socket.

use crate::failure::Failure;
use client::SYSTEM;
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a node may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest answer: the status of a node with thousands of routes is some megabytes.
const MAX_ANSWER_BYTES: u64 = 64 << 20;
/// The name of the operator's socket ends so.
pub const SUFFIX: &str = "ctl";

/// A connection to a running node.
#[derive(Debug)]
pub struct Control {
    stream: BufReader<UnixStream>,
    path: PathBuf,
}

impl Control {
    /// Connects to the socket at `path`.
    pub fn connect(path: &Path) -> Result<Control, Failure> {
        let fail = |error: io::Error| {
            let (path, denied) = (path.display(), error.kind() == ErrorKind::PermissionDenied);
            Failure::failed(match denied {
                true => format!("{path}: {error}; be the user that runs the node, or root"),
                false => {
                    format!("no node at {path}: {error}; start one with `sinew node --config FILE`")
                }
            })
        };
        let stream = UnixStream::connect(path).map_err(fail)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(fail)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(fail)?;
        Ok(Control {
            stream: BufReader::new(stream),
            path: path.to_owned(),
        })
    }

    /// Connects to the node that the command line, the environment or the files at hand name.
    pub fn find(node: Option<&Path>) -> Result<Control, Failure> {
        Control::connect(&socket(node)?)
    }

    /// The socket's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Asks and waits for the answer; what the node refuses is a failure.
    pub fn ask(&mut self, question: &Value) -> Result<Value, Failure> {
        let fail = |what: &dyn std::fmt::Display| {
            Failure::failed(format_args!("the node at {}: {what}", self.path.display()))
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

    /// Everything about the node.
    pub fn status(&mut self) -> Result<Value, Failure> {
        self.ask(&json!({"cmd": "snapshot"}))
    }
}

/// A node that is asked again and again, and found again after it was restarted.
#[derive(Debug)]
pub struct Watched {
    path: PathBuf,
    control: Option<Control>,
}

impl Watched {
    /// The node that the command line, the environment or the files at hand name.
    pub fn find(node: Option<&Path>) -> Result<Watched, Failure> {
        Ok(Watched {
            path: socket(node)?,
            control: None,
        })
    }

    /// Does something with the connection; one that has failed is made anew the next time.
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

/// The socket that is meant: the one given, that of `SINEW_NODE`, or the only one at hand.
pub fn socket(given: Option<&Path>) -> Result<PathBuf, Failure> {
    let named = given.map(Path::to_owned).or_else(|| {
        std::env::var_os("SINEW_NODE")
            .filter(|text| !text.is_empty())
            .map(PathBuf::from)
    });
    match named {
        Some(path) if path.is_dir() => only_one(sockets_in(&path)),
        Some(path) => Ok(path),
        None => only_one(at_hand()),
    }
}

/// All sockets below the current directory and of the system.
pub fn at_hand() -> Vec<PathBuf> {
    let mut found = sockets_in(Path::new("."));
    found.extend(sockets_in(Path::new(SYSTEM)));
    found
}

/// All sockets at which a node answers, in `dir` and below.
pub fn sockets_in(dir: &Path) -> Vec<PathBuf> {
    let mut found = client::sockets_below(dir, SUFFIX);
    // A node that was killed leaves its file; that of another user is told as such.
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
}
