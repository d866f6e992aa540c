//! Runs the built tests, three programs at a time.
//!
//! ```text
//!   cargo test --no-run ──▶ programs ─┬─▶ of packages with real sockets and processes, two at a time: they mostly wait
//!                                     └─▶ the others, one at a time: they compute, and give way (nice)
//!                                           then cargo test --doc, then a third of those that wait
//! ```
//! `cargo test` runs one program after another, and half of the time no processor has work, because nodes wait for
//! timers of seconds. So programs that wait run at the same time as each other and as those that compute. The longest
//! programs start first, so that none runs alone at the end. Each program still has the machine's number of test
//! threads. A program's output appears in one piece when it has ended.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use serde_json::Value;

use crate::ci;

/// Packages whose tests wait for real sockets, processes and the kernel.
const WAITING: &[&str] = &["capi", "client", "gateway", "host", "net", "sinew"];

/// How many programs that wait run at a time. Choice: as many as two processors carry besides one that computes.
const WAITING_AT_A_TIME: usize = 2;

/// The waiting programs that take about half a minute and more, the longest first.
const LONG_WAITS: &[&str] = &[
    "uplinks", "relay", "mtu", "tunnel", "phones", "rotation", "lab", "bridges",
];

/// A program with tests.
struct Program {
    package: String,
    name: String,
    path: PathBuf,
    /// The folder in which `cargo test` would start it.
    folder: PathBuf,
}

/// Runs all tests of the workspace, which must have been built. Returns true if all pass.
pub(crate) fn run(root: &Path) -> bool {
    let programs = match programs(root) {
        Ok(programs) => programs,
        Err(error) => {
            eprintln!("ci: {error}");
            return false;
        }
    };
    let count = programs.len();
    let (mut waiting, computing): (Vec<Program>, Vec<Program>) = programs
        .into_iter()
        .partition(|program| WAITING.contains(&&*program.package));
    waiting.sort_by_key(|program| {
        let place = LONG_WAITS.iter().position(|name| *name == program.name);
        place.unwrap_or(LONG_WAITS.len())
    });
    let screen = Mutex::new(());
    let next = AtomicUsize::new(0);
    let wait = || run_each(from(&waiting, &next), false, &screen);
    let (failed, documented) = thread::scope(|scope| {
        let beside: Vec<_> = (0..WAITING_AT_A_TIME).map(|_| scope.spawn(wait)).collect();
        let mut failed = run_each(computing.iter(), true, &screen);
        let documented = documentation(root);
        failed.extend(wait());
        for thread in beside {
            failed.extend(
                thread
                    .join()
                    .expect("a thread that runs tests does not panic"),
            );
        }
        (failed, documented)
    });
    eprintln!(
        "ci: {} of {count} test programs passed",
        count - failed.len()
    );
    for name in &failed {
        eprintln!("ci: FAILED: {name}");
    }
    failed.is_empty() && documented
}

/// Returns the programs that cargo has built. Cargo builds missing ones.
fn programs(root: &Path) -> Result<Vec<Program>, String> {
    let output = ci::cargo_command(root)
        .args(["test", "--workspace", "--no-run", "-q"])
        .arg("--message-format=json")
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo could not be started: {error}"))?;
    if !output.status.success() {
        return Err("the tests do not build".to_owned());
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let programs: Vec<Program> = messages.lines().filter_map(program).collect();
    if programs.is_empty() {
        return Err("cargo named no program with tests".to_owned());
    }
    Ok(programs)
}

/// Returns the program of one message of cargo, if it is one with tests.
fn program(message: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(message).ok()?;
    if message["profile"]["test"] != true {
        return None;
    }
    let path = PathBuf::from(message["executable"].as_str()?);
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
    Some(Program {
        package: folder.file_name()?.to_str()?.to_owned(),
        name: message["target"]["name"].as_str()?.to_owned(),
        path,
        folder: folder.to_owned(),
    })
}

/// Distributes programs to several threads: each program goes to one of them.
fn from<'a>(programs: &'a [Program], next: &'a AtomicUsize) -> impl Iterator<Item = &'a Program> {
    std::iter::from_fn(|| programs.get(next.fetch_add(1, Ordering::Relaxed)))
}

/// Runs the programs, and returns the names of those that fail.
fn run_each<'a>(
    programs: impl Iterator<Item = &'a Program>,
    gives_way: bool,
    screen: &Mutex<()>,
) -> Vec<String> {
    let mut failed = Vec::new();
    for program in programs {
        let mut command = if gives_way {
            let mut nice = Command::new("nice");
            nice.arg(&program.path);
            nice
        } else {
            Command::new(&program.path)
        };
        command
            .current_dir(&program.folder)
            .env("CARGO_MANIFEST_DIR", &program.folder);
        let name = format!("{} {}", program.package, program.name);
        let start = Instant::now();
        let output = command.output();
        let elapsed_s = start.elapsed().as_secs_f64();
        let _guard = screen.lock();
        eprintln!("ci: {name} ({elapsed_s:.1} s)");
        let passed = match output {
            Ok(output) => {
                eprint!("{}", String::from_utf8_lossy(&output.stdout));
                eprint!("{}", String::from_utf8_lossy(&output.stderr));
                output.status.success()
            }
            Err(error) => {
                eprintln!("ci: it could not be started: {error}");
                false
            }
        };
        if !passed {
            failed.push(name);
        }
    }
    failed
}

fn documentation(root: &Path) -> bool {
    let status = ci::cargo_command(root)
        .args(["test", "--workspace", "--doc", "-q"])
        .status();
    status.is_ok_and(|status| status.success())
}
