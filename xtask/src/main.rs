//! The project's own tasks:
//! `cargo xtask walls | ci | test | wheel | dist | package-test | first-call | fuzz | upgrade | readme`.
//!
//! It is one binary with a TOML parser as its only dependency, so that it builds in seconds in a clean checkout.
//! Exit status: 0 done, 1 a check failed, 2 misused.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    reason = "a command-line tool: printing is what it is for"
)]

mod ci;
mod dist;
mod first_call;
mod fuzz;
mod package_test;
mod readme;
mod tests;
mod upgrade;
mod walls;
mod wheel;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask COMMAND

  walls                      check the walls between the crates and the rules of the text
  ci [--long]                everything that CI runs; --long adds the ignored tests and fuzzing
  test                       all tests, programs that compute beside programs that wait
  wheel [--release]          install the Python package in an empty environment, and test it;
                             --release builds the wheel to publish
  dist                       build the packages: archive, .deb, list of parts, checksums
  package-test ROOT DEB      install the .deb in a copy of the bare root, try it, remove it (as root;
                             `.ci/package` makes the roots and builds the package for Debian 11)
  first-call ROOT DEB        install the .deb in two copies of the bare root, join them, and measure a call
                             between them (as root)
  fuzz TARGET [--seconds N]  fuzz one target (default 60 s), and print how much code its inputs meet
  fuzz --minutes N           fuzz all targets in turn, each for its share of N minutes
  fuzz --list                name the fuzz targets
  upgrade --from COMMIT | --old PROGRAM [--no-copies]
                             upgrade a network of that program node by node, and back;
                             --no-copies: the two are known not to copy to each other
  readme                     run the shell blocks of README.md as they are printed

example: cargo xtask fuzz --list";

/// The result of a command.
pub(crate) enum Outcome {
    Done,
    Failed,
    /// The command line is invalid; the text says what was expected.
    Misused(String),
}

fn main() -> ExitCode {
    // Cargo's present value counts, not that of the build: clones may share a target folder.
    let Some(manifest_dir) = std::env::var_os("CARGO_MANIFEST_DIR") else {
        eprintln!("run me by `cargo xtask`, which says where the repository is");
        return ExitCode::from(2);
    };
    let root = Path::new(&manifest_dir)
        .parent()
        .expect("xtask lies one folder below the root of the repository");
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = match args.as_slice() {
        ["walls"] => walls::run(root),
        ["ci"] => ci::run(root, ci::Length::Short),
        ["ci", "--long"] => ci::run(root, ci::Length::Long),
        ["test"] if tests::run(root) => Outcome::Done,
        ["test"] => Outcome::Failed,
        ["wheel"] => wheel::run(root, wheel::Wheel::Tested),
        ["wheel", "--release"] => wheel::run(root, wheel::Wheel::Released),
        ["dist"] => dist::run(root),
        ["package-test", bare, deb] => package_test::run(Path::new(bare), Path::new(deb)),
        ["first-call", bare, deb] => first_call::run(Path::new(bare), Path::new(deb)),
        ["fuzz", "--list"] => fuzz::list(root),
        ["fuzz", "--minutes", minutes] => match minutes.parse() {
            Ok(minutes) => fuzz::run_for(root, minutes),
            Err(_) => Outcome::Misused(format!("--minutes wants a number, not `{minutes}`")),
        },
        ["fuzz", target] => fuzz::run(root, target, fuzz::DEFAULT_SECONDS),
        ["fuzz", target, "--seconds", seconds] => match seconds.parse() {
            Ok(seconds) => fuzz::run(root, target, seconds),
            Err(_) => Outcome::Misused(format!("--seconds wants a number, not `{seconds}`")),
        },
        ["upgrade", which @ ("--from" | "--old"), old, rest @ ..] => {
            let old = match which {
                &"--from" => upgrade::Old::Commit(old),
                _ => upgrade::Old::Path(old),
            };
            match rest {
                [] => upgrade::run(root, &old, true),
                ["--no-copies"] => upgrade::run(root, &old, false),
                _ => Outcome::Misused(USAGE.to_owned()),
            }
        }
        ["readme"] => readme::run(root),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Outcome::Done
        }
        _ => Outcome::Misused(USAGE.to_owned()),
    };
    match outcome {
        Outcome::Done => ExitCode::SUCCESS,
        Outcome::Failed => ExitCode::from(1),
        Outcome::Misused(why) => {
            eprintln!("{why}");
            ExitCode::from(2)
        }
    }
}
