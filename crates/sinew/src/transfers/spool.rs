//! The files of detached copies.
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
//! The lock and the end file together give the state of a copy, so nothing must be repaired after the host went down.

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

/// Most copies that are kept, including ended ones.
const JOBS_MAX: usize = 10_000;
/// Most copies that run at once. Choice: these are enough to keep several paths busy. Further copies end sooner one
/// after the other than all at once, and the node keeps room for other transfers.
const TURNS: u32 = 4;

/// The task of a copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Job {
    /// Words of `sinew cp`.
    #[serde(with = "word::list")]
    pub(super) words: Vec<OsString>,
    /// The directory in which the command was entered.
    #[serde(with = "word::path")]
    pub(super) directory: PathBuf,
    /// The command that a shell runs at the end.
    pub(super) notify: Option<String>,
    /// When the copy was begun, in seconds since 1970.
    pub(super) begun_s: u64,
}

/// The result of a copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct End {
    pub(super) ok: bool,
    /// The operator has cancelled the copy.
    #[serde(default)]
    pub(super) cancelled: bool,
    pub(super) text: String,
    /// When the copy ended, in seconds since 1970.
    pub(super) ended_s: u64,
}

/// The state of a copy.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum State {
    /// The progress in words.
    Running(Value),
    Ended(End),
    /// The process has gone, but the copy had not ended.
    Interrupted,
}

/// All copies of one user.
#[derive(Clone, Debug)]
pub(super) struct Spool(PathBuf);

impl Spool {
    /// Returns the spool of this user.
    pub(super) fn own() -> Result<Spool, Failure> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let state = variable("XDG_STATE_HOME").map(PathBuf::from);
        // A relative path would depend on the present directory.
        let state = state.filter(|path| path.is_absolute());
        let home = || Some(PathBuf::from(variable("HOME")?).join(".local/state"));
        let state = state.or_else(home).ok_or_else(|| {
            Failure::failed("there is no place for copies that run on: set HOME or XDG_STATE_HOME")
        })?;
        Ok(Spool(state.join("sinew/transfers")))
    }

    /// Stores a new copy, and returns its number.
    pub(super) fn add(&self, job: &Job) -> Result<u32, Failure> {
        // The names of files are private.
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
        // The link creates the complete file atomically.
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

    /// Returns the numbers of all copies, in ascending order.
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

    /// Returns the task of a copy.
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

    /// Locks a copy for this process, until the file is dropped. Returns `None` if another process has the lock.
    pub(super) fn hold(&self, number: u32) -> Result<Option<File>, Failure> {
        let path = self.file(number, "job");
        // Some network file systems lock only files that are open for writing.
        let file = File::options().read(true).write(true).open(&path);
        let file = file.map_err(|error| unusable(&path, &error))?;
        let locked = try_lock(&file).map_err(|error| unusable(&path, &error))?;
        Ok(locked.then_some(file))
    }

    /// Takes one of the few turns, until the file is dropped. Returns `None` while all are taken.
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

    /// Returns true if no copy with a smaller number waits for a turn.
    pub(super) fn is_next(&self, number: u32) -> Result<bool, Failure> {
        for before in self.numbers()? {
            if before >= number {
                break;
            }
            // A copy that was cleared meanwhile does not wait, and neither does one whose process has gone.
            if self.file(before, "waits").exists() && matches!(self.hold(before), Ok(None)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Marks the copy as no longer waiting.
    pub(super) fn go(&self, number: u32) {
        let _ = fs::remove_file(self.file(number, "waits"));
    }

    /// Returns the state of a copy.
    pub(super) fn state(&self, number: u32) -> Result<State, Failure> {
        if self.hold(number)?.is_none() {
            let progress = fs::read(self.file(number, "progress")).unwrap_or_default();
            // A file that is just being written cannot be parsed.
            let progress = serde_json::from_slice(&progress).unwrap_or(Value::Null);
            return Ok(State::Running(progress));
        }
        let end = fs::read(self.file(number, "end")).ok();
        let end = end.and_then(|end| serde_json::from_slice(&end).ok());
        Ok(end.map_or(State::Interrupted, State::Ended))
    }

    /// Returns the process of the copy: the one whose own command line says that it does this copy.
    pub(super) fn pid(&self, number: u32) -> Option<u32> {
        let text = fs::read_to_string(self.file(number, "pid")).ok()?;
        let pid: u32 = text.trim().parse().ok()?;
        let words = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let wanted = format!("transfers\0work\0{number}\0");
        words.ends_with(wanted.as_bytes()).then_some(pid)
    }

    /// Removes the number of the copy's process.
    pub(super) fn rest(&self, number: u32) {
        let _ = fs::remove_file(self.file(number, "pid"));
    }

    /// Returns true if the copy has ended, successfully or not.
    pub(super) fn has_ended(&self, number: u32) -> bool {
        self.file(number, "end").exists()
    }

    /// Records how the copy ended.
    pub(super) fn end(&self, number: u32, end: &End) -> Result<(), Failure> {
        let text = serde_json::to_string(end).map_err(Failure::failed)?;
        self.write(number, "end", &text)
    }

    pub(super) fn write(&self, number: u32, what: &str, text: &str) -> Result<(), Failure> {
        let path = self.file(number, what);
        files::write_whole(&path, text, 0o600).map_err(|error| unusable(&path, &error))
    }

    /// Removes the state of a copy, so that it can begin again.
    pub(super) fn reset(&self, number: u32) {
        for what in ["end", "progress", "pid", "waits"] {
            // A missing file is no error.
            let _ = fs::remove_file(self.file(number, what));
        }
    }

    /// Lets all targets begin anew the next time, if the copy has that option.
    pub(super) fn forget_begun(&self, number: u32) {
        let _ = fs::remove_file(self.file(number, "begun"));
    }

    /// Removes the copy.
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
        // The copy that came first goes first, while its process runs.
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
