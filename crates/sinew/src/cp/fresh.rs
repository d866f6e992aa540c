//! `--fresh`: removes what an earlier copy has left, but only once, and never what this copy has brought.
//!
//! ```text
//!   first attempt: fresh ──▶ an end has begun: noted ──▶ every attempt after that goes on
//! ```
//! A detached copy records this in a file, so that it continues correctly after its process was killed.

use super::{Copy, Job};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The ends that must not be cleared again.
#[derive(Debug)]
pub(super) struct Fresh {
    is_asked: bool,
    begun: Mutex<BTreeSet<String>>,
    noted: Option<PathBuf>,
}

impl Fresh {
    /// Reads the option, and the record of an earlier process of the same copy.
    pub(super) fn of(args: &Copy) -> Fresh {
        let noted = args.begun.clone();
        let begun = noted.as_ref().and_then(|path| std::fs::read(path).ok());
        let begun = begun.and_then(|text| serde_json::from_slice(&text).ok());
        Fresh {
            is_asked: args.fresh,
            begun: Mutex::new(begun.unwrap_or_default()),
            noted,
        }
    }

    /// Returns true if the next attempt starts anew. Choice: it does so for all ends if one of them has not begun.
    pub(super) fn is_due(&self, job: Job<'_>) -> bool {
        let begun = self.begun();
        self.is_asked && !ends(job).all(|end| begun.contains(&end))
    }

    /// Records that all ends of a copy have begun.
    pub(super) fn on_begun(&self, job: Job<'_>) {
        let mut begun = self.begun();
        let before = begun.len();
        begun.extend(ends(job).filter(|_| self.is_asked));
        if let Some(path) = self.noted.as_ref().filter(|_| begun.len() > before) {
            // If the file cannot be written and the process is killed, only the data received so far is lost.
            let _ = host::files::write_whole(path, &serde_json::json!(*begun).to_string(), 0o600);
        }
    }

    fn begun(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns names for the pairs of source and target.
fn ends(job: Job<'_>) -> impl Iterator<Item = String> {
    let (source, remotes) = match job {
        Job::Push(source, targets) => (source.to_string_lossy(), targets),
        Job::Pull(source, target) => (target.to_string_lossy(), std::slice::from_ref(source)),
    };
    remotes
        .iter()
        .map(move |remote| format!("{source} {}", remote.shown()))
}

#[cfg(test)]
mod tests {
    use super::super::Remote;
    use super::*;
    use std::ffi::OsStr;

    fn remote(node: &str) -> Remote {
        Remote {
            node: node.to_owned(),
            path: b"x".to_vec(),
        }
    }

    #[test]
    fn each_end_begins_anew_once_even_if_the_process_is_another() {
        let dir = crate::testing::directory("cp-fresh");
        let mut args =
            crate::transfers::parse(&["a", "b:x", "--fresh"].map(str::to_owned)).unwrap();
        args.begun = Some(dir.join("begun"));
        let both = [remote("b"), remote("c")];
        let job = |targets| Job::Push(OsStr::new("a"), targets);
        let fresh = Fresh::of(&args);
        assert!(fresh.is_due(job(&both)));
        fresh.on_begun(job(&both[..1]));
        assert!(fresh.is_due(job(&both)) && !fresh.is_due(job(&both[..1])));
        let other = Fresh::of(&args);
        assert!(!other.is_due(job(&both[..1])) && other.is_due(job(&both[1..])));
        other.on_begun(job(&both));
        assert!(!other.is_due(job(&both)));
        args.fresh = false;
        assert!(!Fresh::of(&args).is_due(job(&[remote("d")])));
        std::fs::remove_dir_all(dir).unwrap();
    }
}
