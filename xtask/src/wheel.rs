//! `cargo xtask wheel`: the Python package, installed as users install it, and tested.
//!
//! ```text
//!   cargo test --no-run ──▶ lib_sinew.so ──pack.py──┐
//!   with --release: maturin build --release ────────┴▶ wheel ──pip──▶ empty environment ──▶ pytest, pdoc
//! ```
//! Without `--release`, the extension module is the one that the tests of the workspace have built, with their profile
//! and features, so nothing is compiled twice. With it, the wheel is the one to publish. If Python, its environments or
//! pip are missing, the step prints a line and passes: the rest of the project does not need them.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::{Outcome, ci};

/// The folder of the package, from the root.
const PACKAGE: &str = "crates/python";
/// The folder for wheel and environment, from the root. No test reads it.
const FOLDER: &str = "target/wheel";
/// The requirements of the environment: a Python version that the wheel supports, `venv` with `pip`, and `tomllib` or
/// pip's.
const PROBE: &str = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))";
/// The builder of wheels, as pyproject.toml requires it.
const MATURIN: &str = "maturin>=1.8,<2";
/// Packages that only some tests need; without them these tests skip.
const EXTRAS: &[&str] = &[
    "networkx",
    "pandas",
    "pyarrow",
    "matplotlib",
    "distributed",
    "nbclient",
    "ipykernel",
];
/// Packages that are so large that only the published wheel is tested with them.
const LARGE_EXTRAS: &[&str] = &["ns3"];
/// The generator of the package's reference.
const PDOC: &str = "pdoc>=15,<17";

/// The kind of wheel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wheel {
    /// A wheel of the module that the tests of the workspace have built.
    Tested,
    /// The wheel to publish.
    Released,
}

/// Why the step ended early.
enum Stop {
    Failed(String),
    Skipped(String),
}

/// Builds, installs and tests the wheel.
pub(crate) fn run(root: &Path, which: Wheel) -> Outcome {
    match steps(root, which) {
        Ok(()) => Outcome::Done,
        Err(Stop::Failed(why)) => {
            eprintln!("wheel: {why}");
            Outcome::Failed
        }
        Err(Stop::Skipped(why)) => {
            eprintln!("SKIPPED: wheel: {why}");
            Outcome::Done
        }
    }
}

fn steps(root: &Path, which: Wheel) -> Result<(), Stop> {
    let mut probe = Command::new("python3");
    probe.args(["-c", PROBE]).stderr(Stdio::null());
    if !probe.status().is_ok_and(|status| status.success()) {
        let why =
            "python3 from 3.10 on with venv and pip is missing: the Python package is not tested";
        return Err(Stop::Skipped(why.to_owned()));
    }
    let folder = root.join(FOLDER);
    let wheel = match which {
        Wheel::Tested => packed(root, &library(root)?, &folder)?,
        Wheel::Released => released(root, &folder)?,
    };
    let bytes = fs::metadata(&wheel).map_or(0, |about| about.len());
    eprintln!("wheel: {} ({:.1} MB)", wheel.display(), bytes as f64 / 1e6);
    let python = environment(root, &folder.join("venv"))?;
    pip(&python, root, &["--no-index"], Some(&wheel))?;
    call(&python, root, &["-c", "import sinew"], None)?;
    if pip(&python, root, &["pytest"], None).is_err() {
        let why =
            "pip cannot get pytest: the wheel installs and imports, and is not tested further";
        return Err(Stop::Skipped(why.to_owned()));
    }
    if pip(&python, root, EXTRAS, None).is_err() {
        let missing = EXTRAS.join(", ");
        eprintln!("SKIPPED: wheel: pip cannot get {missing}: what needs them is not tested");
    }
    if which == Wheel::Released && pip(&python, root, LARGE_EXTRAS, None).is_err() {
        let missing = LARGE_EXTRAS.join(", ");
        eprintln!("SKIPPED: wheel: pip cannot get {missing}: what needs them is not tested");
    }
    // pytest's cache would be a folder in the sources. In the package's own folder, Python would import the sources.
    let pytest = ["-m", "pytest", "--quiet", "-p", "no:cacheprovider"];
    call(&python, &root.join(PACKAGE).join("tests"), &pytest, None)?;
    reference(root, &python, &folder.join("api"))
}

/// Builds the reference of everything public as pages, from the package's own docstrings.
fn reference(root: &Path, python: &Path, folder: &Path) -> Result<(), Stop> {
    if pip(python, root, &[PDOC], None).is_err() {
        return Err(Stop::Skipped(
            "pip cannot get pdoc: the reference of the package is not built".to_owned(),
        ));
    }
    let pdoc = ["-m", "pdoc", "sinew", "--output-directory"];
    call(python, root, &pdoc, Some(folder))?;
    let page = folder.join("sinew/lab.html");
    match fs::metadata(&page) {
        Ok(_) => Ok(()),
        Err(error) => Err(Stop::Failed(format!("{}: {error}", page.display()))),
    }
}

/// Makes an empty environment, and returns its interpreter.
fn environment(root: &Path, folder: &Path) -> Result<PathBuf, Stop> {
    call("python3", root, &["-m", "venv", "--clear"], Some(folder))?;
    Ok(folder.join("bin/python"))
}

fn pip(python: &Path, root: &Path, words: &[&str], path: Option<&Path>) -> Result<(), Stop> {
    let install = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ];
    call(python, root, &[&install, words].concat(), path)
}

/// Returns the extension module, built with everything that is tested.
fn library(root: &Path) -> Result<PathBuf, Stop> {
    let output = ci::cargo_command(root)
        .args(["test", "--workspace", "--no-run", "-q"])
        .arg("--message-format=json")
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| Stop::Failed(format!("cargo could not be started: {error}")))?;
    if !output.status.success() {
        return Err(Stop::Failed("the tests do not build".to_owned()));
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let module = messages.lines().find_map(|message| {
        let message: Value = serde_json::from_str(message).ok()?;
        let of_package =
            Path::new(message["manifest_path"].as_str()?).ends_with("python/Cargo.toml");
        let files = message["filenames"]
            .as_array()?
            .iter()
            .map_while(Value::as_str);
        let mut modules = files.filter(|file| file.ends_with(".so"));
        modules.next().filter(|_| of_package).map(PathBuf::from)
    });
    module.ok_or_else(|| Stop::Skipped("there is no extension module for this system".to_owned()))
}

/// Builds the wheel with maturin.
fn released(root: &Path, folder: &Path) -> Result<PathBuf, Stop> {
    let python = environment(root, &folder.join("tools"))?;
    if pip(&python, root, &[MATURIN], None).is_err() {
        return Err(Stop::Skipped("pip cannot get maturin".to_owned()));
    }
    let out = folder.join("release");
    // The search below would find a wheel of an older version.
    let _ = fs::remove_dir_all(&out);
    let maturin = folder.join("tools/bin/maturin");
    let package = root.join(PACKAGE);
    call(
        &maturin,
        &package,
        &["build", "--release", "--out"],
        Some(&out),
    )?;
    let files = fs::read_dir(&out).map_err(|error| Stop::Failed(error.to_string()))?;
    let mut paths = files.filter_map(|entry| Some(entry.ok()?.path()));
    let wheel = paths.find(|path| path.extension() == Some(OsStr::new("whl")));
    wheel.ok_or_else(|| Stop::Failed("maturin has made no wheel".to_owned()))
}

fn packed(root: &Path, library: &Path, folder: &Path) -> Result<PathBuf, Stop> {
    let output = Command::new("python3")
        .arg(root.join(PACKAGE).join("pack.py"))
        .args([library, folder])
        // All crates of the workspace have the version of this one.
        .arg(env!("CARGO_PKG_VERSION"))
        .stderr(Stdio::inherit())
        .output();
    match output {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8_lossy(&output.stdout);
            Ok(PathBuf::from(text.trim()))
        }
        _ => Err(Stop::Failed("the wheel could not be packed".to_owned())),
    }
}

/// Runs a program that must succeed.
fn call(
    program: impl AsRef<OsStr>,
    folder: &Path,
    words: &[&str],
    path: Option<&Path>,
) -> Result<(), Stop> {
    let mut command = Command::new(program);
    command.args(words).args(path).current_dir(folder);
    let shown = format!("{command:?}");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Stop::Failed(format!("{shown}: {status}"))),
        Err(error) => Err(Stop::Failed(format!("{shown}: {error}"))),
    }
}
