//! The program that this process is, for those who start it once more as a node.
//!
//! The command line runs itself: `PROGRAM node --config FILE`. A process that only has the command
//! line as a library, such as a Python interpreter, is another program. It names the right one here,
//! once, before anything asks.

use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;

static NAMED: OnceLock<PathBuf> = OnceLock::new();

/// Names the program to start, instead of the running one. The first name stays.
pub fn name(path: PathBuf) {
    // A second name is that of the same installation.
    let _ = NAMED.set(path);
}

/// The program to start: the named one, or the running one.
///
/// # Errors
/// The kernel does not tell where the running program is.
pub fn path() -> io::Result<PathBuf> {
    match NAMED.get() {
        Some(path) => Ok(path.clone()),
        None => std::env::current_exe(),
    }
}
