//! Checks whether there is room for files: those of the node, and those of its relay service.

use super::Finding;
use crate::config::Config;
use crate::quantity::bytes_in_words;
use host::files::write_whole;
use net::beneath::Directory;
use std::io;
use std::path::Path;

/// Free space that the node's own directory needs. Choice: certificates, lists and books have some kilobytes, and a log
/// file of a year some megabytes.
const OWN_FREE_BYTES: u64 = 50_000_000;
/// Free space that a root of `[relay]` needs. Choice: a copy of 1 GB is a small one.
const ROOT_FREE_BYTES: u64 = 1_000_000_000;

const WHAT: &str = "disk";

/// Checks the file systems of the node's directory and of its roots.
pub(super) fn look(config: &Config) -> Vec<Finding> {
    let dir = config.certificate.parent().unwrap_or(Path::new("."));
    let roots = config.relay.roots.iter().map(|root| root.open());
    let roots = roots.map(|root| {
        free(&root.path).map_or_else(
            |error| not_read(&root.path, &error),
            |bytes| judge_root(&root.path, bytes),
        )
    });
    [own(dir)].into_iter().chain(roots).collect()
}

/// Checks the node's own directory, where it writes its certificate and the list of revocations.
fn own(dir: &Path) -> Finding {
    let probe = dir.join("doctor.probe");
    let written = write_whole(&probe, "x", 0o600);
    let _ = std::fs::remove_file(&probe);
    match written.and_then(|()| free(dir)) {
        Ok(bytes) => judge_own(dir, bytes),
        Err(error) => Finding::bad(
            WHAT,
            format!("{}: {error}", dir.display()),
            "make room, or let the node's user write there: a renewed certificate would be lost",
        ),
    }
}

fn free(dir: &Path) -> io::Result<u64> {
    Directory::open(dir)?.free()
}

fn judge_own(dir: &Path, bytes: u64) -> Finding {
    let seen = format!(
        "{} takes files: {} free",
        dir.display(),
        bytes_in_words(bytes)
    );
    match bytes >= OWN_FREE_BYTES {
        true => Finding::good(WHAT, seen),
        false => Finding::bad(
            WHAT,
            format!("{seen}, and {} are to be", bytes_in_words(OWN_FREE_BYTES)),
            "make room on this file system: a renewed certificate would be lost when it is full",
        ),
    }
}

fn judge_root(dir: &Path, bytes: u64) -> Finding {
    let seen = format!(
        "{} of `[relay]`: {} free",
        dir.display(),
        bytes_in_words(bytes)
    );
    match bytes >= ROOT_FREE_BYTES {
        true => Finding::good(WHAT, seen),
        false => Finding::weak(
            WHAT,
            format!("{seen}, less than {}", bytes_in_words(ROOT_FREE_BYTES)),
            "make room on this file system: copies to this node that do not fit are refused",
        ),
    }
}

fn not_read(dir: &Path, error: &io::Error) -> Finding {
    Finding::bad(
        WHAT,
        format!("{} of `[relay]`: {error}", dir.display()),
        "make the directory and let the node's user use it, or change `[relay] roots`",
    )
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn too_little_room_is_said_with_the_limit() {
        let dir = Path::new("/srv");
        assert_eq!(judge_own(dir, OWN_FREE_BYTES).state, State::Good);
        assert_eq!(judge_root(dir, ROOT_FREE_BYTES).state, State::Good);
        let own = judge_own(dir, OWN_FREE_BYTES - 1);
        assert!(
            own.state == State::Bad && own.seen.contains("and 50.0 MB are to be"),
            "{own:?}"
        );
        let root = judge_root(dir, 0);
        assert!(
            root.state == State::Weak && root.seen.contains("less than 1.00 GB"),
            "{root:?}"
        );
    }
}
