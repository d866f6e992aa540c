//! Functions that several tests need.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// Makes an empty directory, a different one at each call: tests with the same name run at the same
/// time.
pub(crate) fn directory(name: &str) -> PathBuf {
    static DIRECTORIES: AtomicU32 = AtomicU32::new(0);
    let number = DIRECTORIES.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("sinew-{}-{name}-{number}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}
