//! `cargo xtask ci`: exactly the steps of CI, the cheapest first and the tests last. It stops at the first failure, so
//! that the failure is the last thing on the screen.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::{Outcome, fuzz, tests, walls, wheel};

/// How many of the checks run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    /// The checks that every change must pass.
    Short,
    /// Also the tests marked `#[ignore]`, optimised, and [`LONG_FUZZ_SECONDS`] of every fuzz target.
    Long,
}

const LONG_FUZZ_SECONDS: u32 = 30;

/// One step: a cargo command line, with the environment that it needs.
struct Step {
    name: &'static str,
    args: &'static [&'static str],
    env: &'static [(&'static str, &'static str)],
}

const WARNINGS_ARE_ERRORS: &[(&str, &str)] = &[("RUSTDOCFLAGS", "-D warnings")];

const BEFORE_TESTS: &[Step] = &[
    Step {
        name: "format",
        args: &["fmt", "--all", "--check"],
        env: &[],
    },
    Step {
        name: "format of the fuzz crate",
        args: &["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"],
        env: &[],
    },
    Step {
        name: "lints",
        args: &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ],
        env: &[],
    },
    Step {
        name: "documentation",
        args: &[
            "doc",
            "--workspace",
            "--no-deps",
            "--document-private-items",
        ],
        env: WARNINGS_ARE_ERRORS,
    },
];

/// The build is separate from the tests, so that both times are visible, and so that the faster linker is not in the
/// environment of the processes that the tests start.
const BUILD_OF_TESTS: Step = Step {
    name: "build of the tests",
    args: &["test", "--workspace", "--no-run"],
    env: &[],
};

const LONG_TESTS: Step = Step {
    name: "long tests",
    args: &[
        "test",
        "--workspace",
        "--release",
        "--lib",
        "--bins",
        "--tests",
        "--no-fail-fast",
        "--",
        "--ignored",
    ],
    env: &[],
};

/// The tests compile the bodies of the fuzz targets, but not the list of them.
const FUZZ_CRATE: Step = Step {
    name: "fuzz crate",
    args: &["check", "--manifest-path", "fuzz/Cargo.toml", "--lib"],
    env: &[],
};

/// Runs the steps in order and stops at the first that fails.
pub(crate) fn run(root: &Path, length: Length) -> Outcome {
    let mut done = Vec::new();
    let outcome = run_steps(root, length, &mut done);
    let total: Duration = done.iter().map(|&(_, elapsed)| elapsed).sum();
    for (name, elapsed) in &done {
        eprintln!("ci: {:7.1} s  {name}", elapsed.as_secs_f64());
    }
    let verdict = if matches!(outcome, Outcome::Done) {
        "passed"
    } else {
        "FAILED at the last step"
    };
    eprintln!("ci: {:7.1} s  {verdict}", total.as_secs_f64());
    outcome
}

fn run_steps(root: &Path, length: Length, done: &mut Vec<(&'static str, Duration)>) -> Outcome {
    let mut timed = |name: &'static str, step: &dyn Fn() -> bool| {
        eprintln!("ci: ----- {name}");
        let start = Instant::now();
        let passed = step();
        done.push((name, start.elapsed()));
        passed
    };
    if !timed("walls", &|| matches!(walls::run(root), Outcome::Done)) {
        return Outcome::Failed;
    }
    for step in BEFORE_TESTS {
        if !timed(step.name, &|| cargo(root, step)) {
            return Outcome::Failed;
        }
    }
    if length == Length::Long {
        for step in [&FUZZ_CRATE, &LONG_TESTS] {
            if !timed(step.name, &|| cargo(root, step)) {
                return Outcome::Failed;
            }
        }
        let all = || matches!(fuzz::run_all(root, LONG_FUZZ_SECONDS), Outcome::Done);
        if !timed("fuzzing", &all) {
            return Outcome::Failed;
        }
    }
    if !timed(BUILD_OF_TESTS.name, &|| build(root, &BUILD_OF_TESTS)) {
        return Outcome::Failed;
    }
    if !timed("Python package", &|| {
        matches!(wheel::run(root, wheel::Wheel::Tested), Outcome::Done)
    }) {
        return Outcome::Failed;
    }
    // The tests include the replay of the fuzz corpora.
    if timed("tests", &|| tests::run(root)) {
        Outcome::Done
    } else {
        Outcome::Failed
    }
}

fn cargo(root: &Path, step: &Step) -> bool {
    eprintln!("ci: cargo {}", step.args.join(" "));
    succeeds(cargo_command(root), step)
}

/// Like [`cargo`], but links with mold if it is installed: there are more than a hundred programs to link.
fn build(root: &Path, step: &Step) -> bool {
    let cargo_alone = cargo_command(root);
    let mut mold = Command::new("mold");
    let has_mold = mold
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !has_mold {
        return cargo(root, step);
    }
    eprintln!("ci: mold -run cargo {}", step.args.join(" "));
    let mut command = Command::new("mold");
    command.arg("-run").arg(cargo_alone.get_program());
    command.current_dir(root);
    for (name, value) in cargo_alone.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    succeeds(command, step)
}

fn succeeds(mut command: Command, step: &Step) -> bool {
    let status = command
        .args(step.args)
        .envs(step.env.iter().copied())
        .status();
    match status {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("ci: cargo could not be started: {error}");
            false
        }
    }
}

/// Makes the command of the cargo that runs this program, in the root of the repository.
///
/// It removes the variables of this package: build scripts of dependencies (that of `ring`) watch such variables, and
/// everything that depends on them would be built again, now and at the next plain build.
pub(crate) fn cargo_command(root: &Path) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.current_dir(root);
    for (name, _) in std::env::vars_os() {
        let is_of_package =
            |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
        if name.to_str().is_some_and(is_of_package) {
            command.env_remove(name);
        }
    }
    command
}
