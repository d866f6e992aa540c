//! Why a scenario is not valid: file, line, key, and the expected value.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a scenario is not valid.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The file cannot be read.
    #[error("cannot read {path}: {error}; docs/scenario.md has the format, examples/ has some", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        error: io::Error,
    },
    /// The file's contents are not valid.
    #[error("{0}")]
    Bad(Mistake),
}

/// A place in a scenario file, and what is wrong there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The file, by the name that the caller gave.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The key with the item that it belongs to, such as `link A-B: path`; empty if the text is not TOML.
    pub key: String,
    /// What is wrong, and what was expected.
    pub what: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.file, self.line)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.what)
    }
}

impl From<Mistake> for ScenarioError {
    fn from(mistake: Mistake) -> ScenarioError {
        ScenarioError::Bad(mistake)
    }
}
