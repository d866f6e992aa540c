//! What a run has measured, kept on disk until the run is over: one that is interrupted, or fails in one cell,
//! loses nothing else.
//!
//! ```text
//!   OUT/amir06/fig4.cells.jsonl      a line for each cell: its identity and its row; gone when the run is over
//!   OUT/amir06/fig4.cells-2-of-5.jsonl      the same of a shard
//! ```
//! The next run takes over what has the identity of a cell of its own ([`cells::identity`]): equal version, seed,
//! size, settings and speech. A line that was cut in the middle is none.

use super::cells::MeasuredCell;
use super::{Row, Shard};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// The rows of one experiment of a run, on disk.
pub(super) struct Kept {
    path: PathBuf,
    /// By identity: what an earlier run has left.
    known: BTreeMap<String, Row>,
    /// Opened with the first row.
    file: Option<File>,
}

impl Kept {
    /// What an earlier run has left in a folder; nothing if all is to be measured afresh.
    pub(super) fn open(
        out: &Path,
        experiment: &str,
        shard: Option<Shard>,
        is_fresh: bool,
    ) -> io::Result<Kept> {
        let shard = shard.map_or_else(String::new, |shard| format!("-{shard}"));
        let path = out.join(format!("{experiment}.cells{shard}.jsonl"));
        let text = match fs::read_to_string(&path) {
            Ok(_) if is_fresh => {
                fs::remove_file(&path)?;
                String::new()
            }
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error),
        };
        let cells = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        let keyed = |cell: MeasuredCell| (cell.identity, cell.row);
        Ok(Kept {
            path,
            known: cells.map(keyed).collect(),
            file: None,
        })
    }

    /// The row of a cell that was measured before.
    pub(super) fn take(&mut self, identity: &str) -> Option<Row> {
        self.known.remove(identity)
    }

    /// Keeps a cell that was just measured.
    pub(super) fn add(&mut self, cell: &MeasuredCell) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                if let Some(folder) = self.path.parent() {
                    fs::create_dir_all(folder)?;
                }
                let mut options = OpenOptions::new();
                let mut file = options.create(true).append(true).open(&self.path)?;
                // Behind a line that was cut.
                file.write_all(b"\n")?;
                self.file.insert(file)
            }
        };
        let line = serde_json::to_string(cell).map_err(io::Error::other)? + "\n";
        file.write_all(line.as_bytes())
    }

    /// All is written elsewhere: nothing needs to be kept.
    pub(super) fn done(self) -> io::Result<()> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Scratch;

    #[test]
    fn a_cut_line_is_none_and_what_follows_it_counts() {
        let scratch = Scratch::new("lab-kept").unwrap();
        let open = |is_fresh| Kept::open(scratch.path(), "own/a", None, is_fresh).unwrap();
        let cell = |identity: &str| MeasuredCell {
            identity: identity.to_owned(),
            row: Row::default(),
        };
        open(false).add(&cell("one")).unwrap();
        let path = scratch.path().join("own/a.cells.jsonl");
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"identity\":\"cut\",\"ro").unwrap();
        open(false).add(&cell("two")).unwrap();
        let mut kept = open(false);
        let taken = ["one", "two", "cut", "one"].map(|identity| kept.take(identity).is_some());
        assert_eq!(taken, [true, true, false, false]);
        assert!(open(true).take("one").is_none() && !path.exists());
        open(false).add(&cell("three")).unwrap();
        open(false).done().unwrap();
        open(false).done().unwrap();
        assert!(!path.exists());
    }
}
