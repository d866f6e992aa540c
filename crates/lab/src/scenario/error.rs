//! Why a scenario cannot be used: file, line, key, and what was expected.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a scenario cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The file cannot be read.
    #[error("cannot read {path}: {error}; docs/scenario.md has the format, examples/ has some", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        error: io::Error,
    },
    /// The file is not what it should be.
    #[error("{0}")]
    Bad(Mistake),
}

/// A place in a scenario file, and what is wrong there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The file, as it was named.
    pub file: String,
    /// Counted from 1.
    pub line: usize,
    /// The key with what it belongs to, such as `link A-B: path`; empty if the text is no TOML.
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
