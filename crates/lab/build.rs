//! Computes an identifier of exactly this code, for [`experiment::build`].
//!
//! Rows that are measured on several machines, or kept for a later run, belong together only if the same code has
//! measured them. The version alone is not enough, because it stays the same between commits. The identifier contains a
//! digest of every source file of this crate and of those that it depends on.
//!
//! [`experiment::build`]: ../src/experiment/version.rs

use std::fs;
use std::path::{Path, PathBuf};

/// The crates that do not affect an experiment's measurements: the command line, and its libraries.
const ABOVE: &[&str] = &["capi", "python", "sinew"];

fn main() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .map(Path::to_owned)
        .unwrap_or_default();
    let mut files = Vec::new();
    for folder in entries(&crates) {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        if !ABOVE.contains(&&*name) && folder.join("src").is_dir() {
            println!("cargo:rerun-if-changed={}", folder.join("src").display());
            collect(&folder.join("src"), &mut files);
        }
    }
    println!("cargo:rerun-if-env-changed=TARGET");
    let mut digest = Fnv(0xcbf2_9ce4_8422_2325);
    for file in &files {
        let name = file.strip_prefix(&crates).unwrap_or(file);
        digest.add(name.to_string_lossy().as_bytes());
        // A file that has disappeared in the meantime belongs to another build.
        digest.add(&fs::read(file).unwrap_or_default());
    }
    // Floating-point functions of the system differ between targets.
    digest.add(std::env::var("TARGET").unwrap_or_default().as_bytes());
    println!("cargo:rustc-env=LAB_SOURCES={:016x}", digest.0);
}

/// Returns the entries of a folder, in the order of their names.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    paths
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for path in entries(folder) {
        if path.is_dir() {
            collect(&path, files);
        } else {
            files.push(path);
        }
    }
}

/// FNV-1a: it distinguishes contents, but does not protect against forgery.
struct Fnv(u64);

impl Fnv {
    /// Adds bytes and an end mark.
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes.iter().chain(&[0xff]) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
