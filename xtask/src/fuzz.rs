//! `cargo xtask fuzz`: searches with libFuzzer for inputs at which a target of `fuzz/` fails.
//!
//! ```text
//!   fuzz/ ── cargo, instrumented, with the address sanitizer ──▶ any
//!                                                                 │ SINEW_FUZZ_TARGET=wire_data
//!   fuzz/corpus/wire_data ── read ──▶ libFuzzer ── new code ──▶ fuzz/artifacts/wire_data/found
//!                                         '─────── a failure ─▶ fuzz/artifacts/wire_data
//! ```
//! All targets are in one fuzz binary, which selects its target by the variable `SINEW_FUZZ_TARGET`. So a new target
//! needs no manifest entry (see fuzz/README.md). This module builds the binary with the options of cargo-fuzz, so that
//! a checkout needs no tool but a C++ compiler, for libFuzzer.

mod progress;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Outcome;
use crate::ci::cargo_command;
use crate::walls::{Tree, fuzzing};
use progress::{Progress, crate_of};

pub(crate) const DEFAULT_SECONDS: u32 = 60;

/// The options that instrument the code: the edges that were reached, the values that were compared, and the address
/// sanitizer.
const INSTRUMENTED: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Zsanitizer=address",
    "-Cdebug-assertions",
    "-Coverflow-checks",
    "--cfg=fuzzing",
];
/// An input that takes longer counts as an endless loop.
const INPUT_SECONDS: u32 = 20;
/// Number of libFuzzer's lines that are shown for a failed target.
const LAST_LINES: usize = 60;

const NO_COMPILER: &str = "fuzzing needs a C++ compiler, for libFuzzer: install `c++`.
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

/// Fuzzes one target, starting from its corpus. Inputs that reach new code go to `fuzz/artifacts/TARGET/found`, and
/// failing ones go next to that folder. The developer moves useful inputs to the corpus by hand.
pub(crate) fn run(root: &Path, target: &str, seconds: u32) -> Outcome {
    match names(root) {
        Err(outcome) => return outcome,
        Ok(names) if names.iter().any(|name| name == target) => {}
        Ok(names) => {
            let known = names.join(" ");
            return Outcome::Misused(format!("no fuzz target `{target}`; there are: {known}"));
        }
    }
    if !has_compiler() {
        eprintln!("{NO_COMPILER}");
        return Outcome::Failed;
    }
    match build(root).and_then(|binary| fuzz(root, &binary, target, seconds)) {
        Ok(progress) => {
            println!("{}\n{}", Progress::HEADER, progress.row(target));
            match progress.failure {
                None => Outcome::Done,
                Some(_) => Outcome::Failed,
            }
        }
        Err(why) => {
            eprintln!("{why}");
            Outcome::Failed
        }
    }
}

/// Fuzzes every target in turn, each for its share of the time.
pub(crate) fn run_for(root: &Path, minutes: u32) -> Outcome {
    if !has_compiler() {
        eprintln!("{NO_COMPILER}");
        return Outcome::Failed;
    }
    match names(root) {
        Ok(names) => {
            let seconds = share(minutes, names.len());
            println!("{} targets, {seconds} s each", names.len());
            run_each(root, &names, seconds)
        }
        Err(outcome) => outcome,
    }
}

/// Fuzzes every target in turn for this time. If there is no compiler, it prints a line and passes.
pub(crate) fn run_all(root: &Path, seconds: u32) -> Outcome {
    if !has_compiler() {
        eprintln!("SKIPPED: {NO_COMPILER}");
        return Outcome::Done;
    }
    match names(root) {
        Ok(names) => run_each(root, &names, seconds),
        Err(outcome) => outcome,
    }
}

/// Prints one row for each target, and one for each crate. After a failure, the other targets still run.
fn run_each(root: &Path, names: &[String], seconds: u32) -> Outcome {
    let binary = match build(root) {
        Ok(binary) => binary,
        Err(why) => {
            eprintln!("{why}");
            return Outcome::Failed;
        }
    };
    println!("{}", Progress::HEADER);
    let mut crates: Vec<(String, Progress)> = Vec::new();
    let mut failed: Vec<&str> = Vec::new();
    for name in names {
        let progress = match fuzz(root, &binary, name, seconds) {
            Ok(progress) => progress,
            Err(why) => {
                eprintln!("{why}");
                return Outcome::Failed;
            }
        };
        println!("{}", progress.row(name));
        if progress.failure.is_some() {
            failed.push(name);
        }
        // The names are sorted, so the targets of a crate follow each other.
        match crates.last_mut() {
            Some((of, sum)) if of == crate_of(name) => sum.add(&progress),
            _ => crates.push((crate_of(name).to_owned(), progress)),
        }
    }
    println!("\nsums of the targets of each crate:");
    for (name, sum) in &crates {
        println!("{}", sum.row(name));
    }
    match failed[..] {
        [] => Outcome::Done,
        _ => {
            eprintln!("failed: {}", failed.join(" "));
            Outcome::Failed
        }
    }
}

/// Returns the seconds for each target.
fn share(minutes: u32, targets: usize) -> u32 {
    let targets = u32::try_from(targets).unwrap_or(u32::MAX);
    (minutes.saturating_mul(60) / targets.max(1)).max(1)
}

/// Builds the fuzz binary, and returns its path.
fn build(root: &Path) -> Result<PathBuf, String> {
    let host = host(root)?;
    let folder = root.join("fuzz/target");
    let status = cargo_command(root)
        .args(["build", "--release", "--manifest-path", "fuzz/Cargo.toml"])
        .args(["--features", "libfuzzer", "--bin", "any", "--quiet"])
        // With an explicit target, cargo does not instrument build scripts and macros.
        .args(["--target", &host])
        .arg("--target-dir")
        .arg(&folder)
        .env_remove("RUSTFLAGS")
        .env("CARGO_ENCODED_RUSTFLAGS", INSTRUMENTED.join("\x1f"))
        // The sanitizers are unstable options; with this variable, the stable compiler accepts them.
        .env("RUSTC_BOOTSTRAP", "1")
        .status();
    match status {
        Ok(status) if status.success() => Ok(folder.join(host).join("release/any")),
        Ok(_) => Err("the fuzz binary does not build".to_owned()),
        Err(error) => Err(format!("cargo could not be started: {error}")),
    }
}

/// Runs one target. libFuzzer's output is shown only if the target fails.
fn fuzz(root: &Path, binary: &Path, target: &str, seconds: u32) -> Result<Progress, String> {
    let corpus = root.join("fuzz/corpus").join(target);
    let artifacts = root.join("fuzz/artifacts").join(target);
    let found = artifacts.join("found");
    std::fs::create_dir_all(&found)
        .map_err(|error| format!("cannot create {}: {error}", found.display()))?;
    let output = Command::new(binary)
        // libFuzzer writes to the first folder and only reads the others.
        .args([&found, &corpus])
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-timeout={INPUT_SECONDS}"))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .env("SINEW_FUZZ_TARGET", target)
        .env("ASAN_OPTIONS", "detect_odr_violation=0")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot run {}: {error}", binary.display()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let mut progress = Progress::read(&said);
    if !output.status.success() {
        let lines: Vec<&str> = said.lines().collect();
        let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
        eprintln!("{}", last.join("\n"));
        eprintln!(
            "{target} failed: mend it, and copy the input from {} to fuzz/corpus/{target}",
            artifacts.display()
        );
        progress.failure = Some(output.status.to_string());
    }
    Ok(progress)
}

/// Returns the triple of this host, as the compiler names it.
fn host(root: &Path) -> Result<String, String> {
    let output = Command::new("rustc").arg("-vV").current_dir(root).output();
    let output = output.map_err(|error| format!("rustc could not be started: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned)
        .ok_or_else(|| "rustc does not say which host this is".to_owned())
}

fn names(root: &Path) -> Result<Vec<String>, Outcome> {
    let tree = Tree::read(root).map_err(|error| {
        eprintln!("cannot read the repository: {error}");
        Outcome::Failed
    })?;
    Ok(fuzzing::target_names(&tree))
}

fn has_compiler() -> bool {
    Command::new("c++")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_gets_an_equal_share_and_a_second_at_least() {
        assert_eq!(share(10, 50), 12);
        assert_eq!(share(1, 51), 1);
        assert_eq!(share(0, 51), 1);
        assert_eq!(share(1, 0), 60);
    }
}
