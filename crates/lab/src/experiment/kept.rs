//! Rows of a run that did not complete: the same run again measures only the missing ones.
//!
//! ```text
//!   run ── a cell fails, or Ctrl-C ──▶ ID.kept.json ──▶ the same run, in the same folder ──▶ ID.csv …
//! ```
//!
//! The same run has the same code, size, seed, parameters and recording, and with real nodes the same program. Rows of
//! another run are not used, and are overwritten if this run does not complete either.

use super::Shard;
use super::files::Part;
use crate::files;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Returns the file in which the rows of an experiment are kept.
pub(super) fn path(out: &Path, id: &str, shard: Option<Shard>) -> PathBuf {
    let shard = shard.map_or_else(String::new, |shard| format!("-{shard}"));
    out.join(format!("{id}.kept{shard}.json"))
}

/// Returns the kept rows of an equal run.
pub(super) fn read(path: &Path, like: &Part) -> Option<Part> {
    let kept: Part = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    let same = Part {
        took_s: kept.took_s,
        rows: kept.rows.clone(),
        ..like.clone()
    };
    (kept == same).then_some(kept)
}

/// Keeps the rows, if there are any.
pub(super) fn write(path: &Path, part: &Part) -> io::Result<()> {
    if part.rows.is_empty() {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    files::write(path, &serde_json::to_vec(part).map_err(io::Error::other)?)
}

/// Removes the file, because nothing is missing any more.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
