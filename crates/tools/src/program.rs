//! The path of the program to run when this process starts a node.
//!
//! The command line starts itself again: `PROGRAM node --config FILE`. A process that only has the
//! command line as a library, such as a Python interpreter, runs another program. Such a process
//! names the right program here, once, before the first call of [`path()`].

use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;

static NAMED: OnceLock<PathBuf> = OnceLock::new();

/// Names the program to start, instead of the running one. Only the first call has an effect.
pub fn name(path: PathBuf) {
    // A second call names the same installation.
    let _ = NAMED.set(path);
}

/// Returns the path of the program to start: the named one, or the running one.
///
/// # Errors
/// The kernel does not report the path of the running program.
pub fn path() -> io::Result<PathBuf> {
    match NAMED.get() {
        Some(path) => Ok(path.clone()),
        None => std::env::current_exe(),
    }
}
