//! Files that a scenario names, such as measured paths: they are read from the scenario's folder, or passed with its
//! text.
//!
//! ```text
//!   Scenario::load(file) ──▶ Files::beside(folder) ──read──▶ Scenario::files: names and texts
//!                                                              │ sent to another machine
//!   Scenario::parse_with(text, &Files::Given(…)) ◀─────────────┘
//! ```

use super::measured;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The longest file that is read.
const BYTES_MAX: u64 = 64 << 20;

/// Texts of files, by the names that a scenario has for them.
pub type Texts = BTreeMap<String, String>;

/// The source of a scenario's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Files {
    /// The disk: names are paths, and relative ones start in this folder.
    Beside(PathBuf),
    /// These texts alone.
    Given(Texts),
}

impl Files {
    /// Returns the text of a file, or the reason why there is none, with its name. Third-party measurements are
    /// converted to tables, and passed on as such.
    pub(super) fn read(&self, name: &str) -> Result<String, String> {
        match self {
            Files::Given(texts) => {
                let text = texts.get(name).cloned();
                text.ok_or_else(|| format!("{name}: the scenario came without this file"))
            }
            Files::Beside(folder) => {
                let path = folder.join(name);
                let unread = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
                let about = std::fs::metadata(&path).map_err(|error| unread(&error))?;
                if !about.is_file() || about.len() > BYTES_MAX {
                    return Err(unread(&"it is no file, or too long"));
                }
                let bytes = std::fs::read(&path).map_err(|error| unread(&error))?;
                match measured::is_meant_by(name) {
                    true => measured::table(name, &bytes).map_err(|why| unread(&why)),
                    false => String::from_utf8(bytes).map_err(|error| unread(&error)),
                }
            }
        }
    }
}
