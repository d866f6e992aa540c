//! The files of copies that run on by themselves.
//!
//! ```text
//!   $XDG_STATE_HOME/sinew/transfers/     (~/.local/state/sinew/transfers)
//!     7.job        what is to be done; locked by the process that does it, whose number is in 7.pid
//!     7.progress   how far it is, written anew several times a second
//!     7.begun      with --fresh: the targets that have begun, so that another process goes on
//!     7.waits      it waits for a turn: those with greater numbers come after it
//!     7.end        how it ended
//!     7.log        what it said
//!     turn.1 …     locked by the copies that are under way; the others wait for one of them
//! ```
//! Which state a copy is in follows from the lock and from whether there is an end: nothing has to be put right
//! after the host went down.

mod word;

use crate::failure::Failure;
use host::files;
use net::beneath::try_lock;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Copies that are kept, those that have ended included.
const JOBS_MAX: usize = 10_000;
/// Copies that are under way at once. Choice: as many as keep several paths busy; the others come sooner to their end
/// one after the other than all at once, and the node has places left.
const TURNS: u32 = 4;

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Job {
    /// Words of `sinew cp`.
    #[serde(with = "word::list")]
    pub(super) words: Vec<OsString>,
    /// Where they were written.
    #[serde(with = "word::path")]
    pub(super) directory: PathBuf,
    /// A shell runs this at the end.
    pub(super) notify: Option<String>,
    /// Seconds since 1970.
    pub(super) begun_s: u64,
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct End {
    pub(super) ok: bool,
    /// The operator did not want it any more.
    #[serde(default)]
    pub(super) cancelled: bool,
    pub(super) text: String,
    /// Seconds since 1970.
    pub(super) ended_s: u64,
}

/// Where a copy is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum State {
    /// How far, in words.
    Running(Value),
    Ended(End),
    /// Its process is gone, and it had not ended.
    Interrupted,
}

/// All copies of one user.
#[derive(Clone, Debug)]
pub(super) struct Spool(PathBuf);

impl Spool {
    /// That of this user.
    pub(super) fn own() -> Result<Spool, Failure> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let state = variable("XDG_STATE_HOME").map(PathBuf::from);
        // Elsewhere a relative one would be another place.
        let state = state.filter(|path| path.is_absolute());
        let home = || Some(PathBuf::from(variable("HOME")?).join(".local/state"));
        let state = state.or_else(home).ok_or_else(|| {
            Failure::failed("there is no place for copies that run on: set HOME or XDG_STATE_HOME")
        })?;
        Ok(Spool(state.join("sinew/transfers")))
    }

    /// Keeps a new one, and gives its number.
    pub(super) fn add(&self, job: &Job) -> Result<u32, Failure> {
        // Names of files are nobody else's business.
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700);
        let made = builder.create(&self.0);
        made.map_err(|error| unusable(&self.0, &error))?;
        let numbers = self.numbers()?;
        if numbers.len() >= JOBS_MAX {
            let text = "too many copies are kept: `sinew transfers clear`";
            return Err(Failure::failed(text));
        }
        let text = serde_json::to_string(job).map_err(Failure::failed)?;
        let fresh = self.0.join(format!("{}.fresh", std::process::id()));
        files::write_whole(&fresh, &text, 0o600).map_err(|error| unusable(&fresh, &error))?;
        let mut number = numbers.last().copied().unwrap_or(0).saturating_add(1);
        // It is there whole, or not at all.
        let linked = loop {
            match fs::hard_link(&fresh, self.file(number, "job")) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < u32::MAX => {
                    number += 1;
                }
                other => break other,
            }
        };
        let _ = fs::remove_file(&fresh);
        linked.map_err(|error| unusable(&self.0, &error))?;
        Ok(number)
    }

    /// The numbers of all, in their order.
    pub(super) fn numbers(&self) -> Result<Vec<u32>, Failure> {
        let entries = match fs::read_dir(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(|error| unusable(&self.0, &error))?,
        };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut numbers: Vec<u32> = names
            .filter_map(|name| name.strip_suffix(".job")?.parse().ok())
            .collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// What a copy is to do.
    pub(super) fn job(&self, number: u32) -> Result<Job, Failure> {
        let path = self.file(number, "job");
        let text = fs::read_to_string(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Failure::misused(format_args!(
                "there is no copy {number}: see `sinew transfers`"
            )),
            _ => unusable(&path, &error),
        })?;
        serde_json::from_str(&text).map_err(|error| unusable(&path, &error.into()))
    }

    /// Makes it this process's, until the file is dropped; none if it is another's.
    pub(super) fn hold(&self, number: u32) -> Result<Option<File>, Failure> {
        let path = self.file(number, "job");
        // Some network file systems lock only what may be written.
        let file = File::options().read(true).write(true).open(&path);
        let file = file.map_err(|error| unusable(&path, &error))?;
        let locked = try_lock(&file).map_err(|error| unusable(&path, &error))?;
        Ok(locked.then_some(file))
    }

    /// One of the few turns, until the file is dropped; none while all are taken.
    pub(super) fn turn(&self) -> Result<Option<File>, Failure> {
        for number in 1..=TURNS {
            let path = self.0.join(format!("turn.{number}"));
            let file = File::options().create(true).append(true).open(&path);
            let file = file.map_err(|error| unusable(&path, &error))?;
            if try_lock(&file).map_err(|error| unusable(&path, &error))? {
                return Ok(Some(file));
            }
        }
        Ok(None)
    }

    /// No copy with a smaller number waits for a turn.
    pub(super) fn is_next(&self, number: u32) -> Result<bool, Failure> {
        for before in self.numbers()? {
            if before >= number {
                break;
            }
            // One that was cleared meanwhile waits for nothing, and so does one whose process is gone.
            if self.file(before, "waits").exists() && matches!(self.hold(before), Ok(None)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// It waits no more.
    pub(super) fn go(&self, number: u32) {
        let _ = fs::remove_file(self.file(number, "waits"));
    }

    /// Where it is.
    pub(super) fn state(&self, number: u32) -> Result<State, Failure> {
        if self.hold(number)?.is_none() {
            let progress = fs::read(self.file(number, "progress")).unwrap_or_default();
            // What is just being written is not read.
            let progress = serde_json::from_slice(&progress).unwrap_or(Value::Null);
            return Ok(State::Running(progress));
        }
        let end = fs::read(self.file(number, "end")).ok();
        let end = end.and_then(|end| serde_json::from_slice(&end).ok());
        Ok(end.map_or(State::Interrupted, State::Ended))
    }

    /// The process that does it: one that says itself that this is what it does.
    pub(super) fn pid(&self, number: u32) -> Option<u32> {
        let text = fs::read_to_string(self.file(number, "pid")).ok()?;
        let pid: u32 = text.trim().parse().ok()?;
        let words = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let wanted = format!("transfers\0work\0{number}\0");
        words.ends_with(wanted.as_bytes()).then_some(pid)
    }

    /// No process does it any more.
    pub(super) fn rest(&self, number: u32) {
        let _ = fs::remove_file(self.file(number, "pid"));
    }

    /// It has come to an end, well or not.
    pub(super) fn has_ended(&self, number: u32) -> bool {
        self.file(number, "end").exists()
    }

    /// Says how it ended.
    pub(super) fn end(&self, number: u32, end: &End) -> Result<(), Failure> {
        let text = serde_json::to_string(end).map_err(Failure::failed)?;
        self.write(number, "end", &text)
    }

    pub(super) fn write(&self, number: u32, what: &str, text: &str) -> Result<(), Failure> {
        let path = self.file(number, what);
        files::write_whole(&path, text, 0o600).map_err(|error| unusable(&path, &error))
    }

    /// Forgets how it went, so that it can begin again.
    pub(super) fn reset(&self, number: u32) {
        for what in ["end", "progress", "pid", "waits"] {
            // What is not there is forgotten.
            let _ = fs::remove_file(self.file(number, what));
        }
    }

    /// The next time all targets begin anew, if that was asked for.
    pub(super) fn forget_begun(&self, number: u32) {
        let _ = fs::remove_file(self.file(number, "begun"));
    }

    /// Forgets it.
    pub(super) fn remove(&self, number: u32) {
        self.reset(number);
        self.forget_begun(number);
        for what in ["log", "job"] {
            let _ = fs::remove_file(self.file(number, what));
        }
    }

    pub(super) fn file(&self, number: u32, what: &str) -> PathBuf {
        self.0.join(format!("{number}.{what}"))
    }
}

fn unusable(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format_args!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_running_ended_or_interrupted() {
        let dir = std::env::temp_dir().join(format!("sinew-spool-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        let spool = Spool(dir.clone());
        assert!(spool.numbers().unwrap().is_empty());
        let job = Job {
            words: vec![OsString::from("a"), OsString::from("b:c")],
            directory: PathBuf::from("/tmp"),
            notify: None,
            begun_s: 5,
        };
        assert_eq!((spool.add(&job).unwrap(), spool.add(&job).unwrap()), (1, 2));
        assert_eq!(spool.numbers().unwrap(), [1, 2]);
        assert_eq!(spool.job(2).unwrap(), job);
        assert_eq!(spool.state(1).unwrap(), State::Interrupted);
        let held = spool.hold(1).unwrap().unwrap();
        assert_eq!(spool.state(1).unwrap(), State::Running(Value::Null));
        drop(held);
        let end = End {
            ok: true,
            cancelled: false,
            text: String::new(),
            ended_s: 6,
        };
        spool.end(1, &end).unwrap();
        assert_eq!(spool.state(1).unwrap(), State::Ended(end));
        let mut turns: Vec<File> = (0..TURNS).map(|_| spool.turn().unwrap().unwrap()).collect();
        assert!(spool.turn().unwrap().is_none());
        turns.pop();
        assert!(spool.turn().unwrap().is_some());
        // Who came first waits first, while there is somebody who does it.
        spool.write(1, "waits", "").unwrap();
        assert!(spool.is_next(1).unwrap() && spool.is_next(2).unwrap());
        let held = spool.hold(1).unwrap().unwrap();
        assert!(!spool.is_next(2).unwrap());
        spool.go(1);
        assert!(spool.is_next(2).unwrap());
        drop(held);
        spool.remove(1);
        assert_eq!(spool.numbers().unwrap(), [2]);
        assert!(matches!(spool.job(1), Err(Failure::Misused(_))));
        fs::remove_dir_all(dir).unwrap();
    }
}
