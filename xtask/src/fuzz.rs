//! `cargo xtask fuzz TARGET`: runs cargo-fuzz on one target of `fuzz/`.
//!
//! All targets live in one fuzz binary, which picks its body by the variable `SINEW_FUZZ_TARGET`;
//! so adding a target needs no manifest entry (see fuzz/README.md).

use std::path::Path;
use std::process::Stdio;

use crate::Outcome;
use crate::ci::cargo_command;
use crate::walls::{Tree, fuzzing};

pub(crate) const DEFAULT_SECONDS: u32 = 60;

const INSTALL: &str = "cargo-fuzz is not installed. It needs a C++ compiler as well:
    cargo install cargo-fuzz
Without it, `cargo test` still replays the stored corpora and mutations of them.";

/// Prints the name of every target.
pub(crate) fn list(root: &Path) -> Outcome {
    match names(root) {
        Ok(names) => {
            for name in names {
                println!("{name}");
            }
            Outcome::Done
        }
        Err(outcome) => outcome,
    }
}

/// Fuzzes one target, starting from its corpus. Inputs that reach new code go to
/// `fuzz/artifacts/TARGET/found`,
/// failing ones beside it; what is worth keeping is moved to the corpus by hand.
pub(crate) fn run(root: &Path, target: &str, seconds: u32) -> Outcome {
    match names(root) {
        Err(outcome) => return outcome,
        Ok(names) if names.iter().any(|name| name == target) => {}
        Ok(names) => {
            let known = names.join(" ");
            return Outcome::Misused(format!("no fuzz target `{target}`; there are: {known}"));
        }
    }
    if !installed(root) {
        eprintln!("{INSTALL}");
        return Outcome::Failed;
    }
    let corpus = root.join("fuzz/corpus").join(target);
    let artifacts = root.join("fuzz/artifacts").join(target);
    let found = artifacts.join("found");
    if let Err(error) = std::fs::create_dir_all(&found) {
        eprintln!("cannot create {}: {error}", found.display());
        return Outcome::Failed;
    }
    let status = cargo_command(root)
        .args(["fuzz", "run", "--features", "libfuzzer", "any"])
        // libFuzzer writes to the first folder and only reads the others.
        .args([&found, &corpus])
        .args(["--", &format!("-max_total_time={seconds}")])
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .env("SINEW_FUZZ_TARGET", target)
        // The sanitizers are unstable options; this lets the stable compiler take them.
        .env("RUSTC_BOOTSTRAP", "1")
        .status();
    match status {
        Ok(status) if status.success() => Outcome::Done,
        Ok(_) => {
            eprintln!(
                "{target} failed: mend it, and copy the input from {} to fuzz/corpus/{target}",
                artifacts.display()
            );
            Outcome::Failed
        }
        Err(error) => {
            eprintln!("cargo could not be started: {error}");
            Outcome::Failed
        }
    }
}

/// Fuzzes every target in turn; says so and passes if cargo-fuzz is missing.
pub(crate) fn run_all(root: &Path, seconds: u32) -> Outcome {
    if !installed(root) {
        eprintln!("SKIPPED: {INSTALL}");
        return Outcome::Done;
    }
    match names(root) {
        Ok(names) => names
            .iter()
            .map(|target| run(root, target, seconds))
            .find(|outcome| !matches!(outcome, Outcome::Done))
            .unwrap_or(Outcome::Done),
        Err(outcome) => outcome,
    }
}

fn names(root: &Path) -> Result<Vec<String>, Outcome> {
    let tree = Tree::read(root).map_err(|error| {
        eprintln!("cannot read the repository: {error}");
        Outcome::Failed
    })?;
    Ok(fuzzing::target_names(&tree))
}

fn installed(root: &Path) -> bool {
    cargo_command(root)
        .args(["fuzz", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
