//! What several tests need.

use std::path::PathBuf;

/// An empty directory for one test.
pub(crate) fn directory(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("sinew-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}
