//! `cargo xtask upgrade`: tests that a network of an earlier program can be upgraded node by node, and back.
//!
//! ```text
//!   COMMIT ──git archive──▶ target/upgrade/COMMIT/source ──cargo build──▶ target/upgrade/COMMIT/sinew ──┐
//!   --old PATH ─────────────────────────────────────────────────────────────────────────────────────────┴▶ SINEW_OLD
//!                                                   cargo test -p sinew --test upgrade -- --ignored
//! ```
//! The earlier program is built once and kept. It has its own target folder, so that neither build invalidates the
//! other.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Outcome;
use crate::ci::cargo_command;

/// The folder for earlier programs, from the root.
const FOLDER: &str = "target/upgrade";

/// The earlier program.
pub(crate) enum Old<'a> {
    /// The program of this commit or tag.
    Commit(&'a str),
    /// The program at this path.
    Path(&'a str),
}

/// Runs the test. `copies` is false if the two programs are known to have incompatible bulk data.
pub(crate) fn run(root: &Path, old: &Old<'_>, copies: bool) -> Outcome {
    let program = match old {
        Old::Path(path) => fs::canonicalize(path).map_err(|error| format!("{path}: {error}")),
        Old::Commit(commit) => build(root, commit),
    };
    let program = match program {
        Ok(program) => program,
        Err(why) => {
            eprintln!("upgrade: {why}");
            return Outcome::Failed;
        }
    };
    let mut test = cargo_command(root);
    test.args(["test", "-p", "sinew", "--test", "upgrade", "--"])
        .args(["--ignored", "--nocapture"])
        .env("SINEW_OLD", program)
        .env("SINEW_OLD_COPIES", if copies { "yes" } else { "no" });
    match test.status() {
        Ok(status) if status.success() => Outcome::Done,
        _ => Outcome::Failed,
    }
}

fn build(root: &Path, commit: &str) -> Result<PathBuf, String> {
    let commit = commit_id(root, commit)?;
    let folder = root.join(FOLDER).join(&commit);
    let program = folder.join("sinew");
    if program.exists() {
        return Ok(program);
    }
    let source = folder.join("source");
    let fails = |what: &str, error: &dyn std::fmt::Display| format!("{what}: {error}");
    fs::create_dir_all(&source).map_err(|error| fails("its source", &error))?;
    let mut archive = Command::new("git")
        .current_dir(root)
        .args(["archive", &commit])
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| fails("git archive", &error))?;
    let unpacked = Command::new("tar")
        .args(["-x", "-C"])
        .arg(&source)
        .stdin(archive.stdout.take().map_or_else(Stdio::null, Stdio::from))
        .status();
    let packed = archive.wait();
    for (what, ended) in [("git archive", packed), ("tar", unpacked)] {
        match ended {
            Ok(status) if status.success() => {}
            Ok(status) => return Err(fails(what, &status)),
            Err(error) => return Err(fails(what, &error)),
        }
    }
    let target = root.join(FOLDER).join("build");
    let built = cargo_command(&source)
        .args(["build", "-p", "sinew", "--bin", "sinew", "--target-dir"])
        .arg(&target)
        .status();
    if !built.is_ok_and(|status| status.success()) {
        return Err(format!("the program of {commit} could not be built"));
    }
    fs::copy(target.join("debug/sinew"), &program).map_err(|error| fails("its program", &error))?;
    fs::remove_dir_all(&source).map_err(|error| fails("its source", &error))?;
    Ok(program)
}

fn commit_id(root: &Path, commit: &str) -> Result<String, String> {
    let mut git = Command::new("git");
    git.current_dir(root)
        .args(["rev-parse", "--verify", "--quiet"]);
    let asked = git.arg(format!("{commit}^{{commit}}")).output();
    let asked = asked.map_err(|error| format!("git: {error}"))?;
    match asked.status.success() {
        true => Ok(String::from_utf8_lossy(&asked.stdout).trim().to_owned()),
        false => Err(format!("`{commit}` is no commit of this repository")),
    }
}
