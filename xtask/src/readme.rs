//! `cargo xtask readme`: runs the shell blocks of README.md as they are printed.
//!
//! ```text
//!   README.md ─▶ blocks of ```sh ─▶ one bash, in a fresh directory, 80 columns ─▶ which failed, and where
//! ```
//! All blocks run in one shell, one after the other, because a reader enters them so: what a block starts in the
//! background is there for the next one. A block fails if one of its commands fails, if it takes too long, or if a line
//! of its output is wider than the terminal. A block under a comment `<!-- not run: WHY -->` is left out, and the
//! report says so. As root the shell has its own network and processes, so that nothing outlives it and no port
//! conflicts. Otherwise the function ends its process group.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::ci::cargo_command;

/// Columns of the terminal that the reader is assumed to have.
const COLUMNS: usize = 80;
/// The longest time of a block. Choice: the longest block has test calls of ten seconds and their waits; this is three
/// times as long.
const BLOCK_MAX: Duration = Duration::from_secs(60);
/// The line at the end of a block's output, with the block's number and the commands that failed.
const END: &str = "--- xtask readme: end of block";

/// A block of shell commands.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Block {
    /// The line of its first command, from 1.
    line: usize,
    text: String,
    /// Why the block is not run, if it is left out.
    left_out: Option<String>,
}

/// Builds the program, and runs the blocks.
pub(crate) fn run(root: &Path) -> Outcome {
    let built = cargo_command(root).args(["build", "-p", "sinew"]).status();
    if !built.is_ok_and(|status| status.success()) {
        eprintln!("readme: the program could not be built");
        return Outcome::Failed;
    }
    match check(root, &programs(root)) {
        Ok(failures) if failures.is_empty() => Outcome::Done,
        Ok(failures) => {
            for failure in &failures {
                eprintln!("readme: {failure}");
            }
            Outcome::Failed
        }
        Err(error) => {
            eprintln!("readme: {error}");
            Outcome::Failed
        }
    }
}

/// Returns the directory in which cargo puts programs.
fn programs(root: &Path) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR");
    target
        .map_or_else(|| root.join("target"), PathBuf::from)
        .join("debug")
}

/// Runs the blocks with the programs of a folder. Returns the failures.
fn check(root: &Path, programs: &Path) -> io::Result<Vec<String>> {
    let blocks = blocks(&fs::read_to_string(root.join("README.md"))?);
    let fresh = Fresh::make(root)?;
    let mut shell = Shell::start(&fresh.0, programs)?;
    let mut failures = Vec::new();
    for (number, block) in blocks.iter().enumerate() {
        if let Some(why) = &block.left_out {
            eprintln!("readme: line {}: not run: {why}", block.line);
            continue;
        }
        let start = Instant::now();
        let ended = shell.run(number, block)?;
        let seconds = start.elapsed().as_secs_f64();
        eprintln!("readme: line {}: {seconds:.1} s", block.line);
        let is_over = ended.is_over;
        failures.extend(ended.failures);
        if is_over {
            break;
        }
    }
    Ok(failures)
}

/// Returns the shell blocks of a page.
fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    let mut left_out = None;
    for (i, line) in page.lines().enumerate() {
        match (&mut open, line) {
            (None, "```sh") => {
                open = Some(Block {
                    line: i + 2,
                    text: String::new(),
                    left_out: left_out.take(),
                });
            }
            (None, "") => {}
            (None, line) => {
                let why = line.strip_prefix("<!-- not run: ");
                left_out = why
                    .and_then(|why| why.strip_suffix(" -->"))
                    .map(str::to_owned);
            }
            (Some(_), "```") => blocks.extend(open.take()),
            (Some(block), line) => {
                block.text += line;
                block.text.push('\n');
            }
        }
    }
    blocks
}

/// A fresh directory with the files that a reader has in the clone. It is removed at the end.
struct Fresh(PathBuf);

impl Fresh {
    fn make(root: &Path) -> io::Result<Fresh> {
        let name = format!("sinew-readme-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path)?;
        let fresh = Fresh(path);
        for shared in ["examples", "crates", "docs"] {
            std::os::unix::fs::symlink(root.join(shared), fresh.0.join(shared))?;
        }
        Ok(fresh)
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        // This removes the symbolic links, and not their targets.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The result of a block.
struct Ended {
    failures: Vec<String>,
    /// The shell cannot be used any more.
    is_over: bool,
}

/// A bash process, and its output.
struct Shell {
    child: Child,
    lines: Receiver<String>,
    /// The shell has its own network and processes.
    is_apart: bool,
}

impl Shell {
    fn start(directory: &Path, programs: &Path) -> io::Result<Shell> {
        let is_apart = can_be_apart();
        let mut command = match is_apart {
            true => {
                let mut command = Command::new("unshare");
                let words = ["--net", "--pid", "--fork", "--kill-child", "--mount-proc"];
                command.args(words).args(["bash", "--norc"]);
                command
            }
            false => {
                let mut command = Command::new("bash");
                command.arg("--norc");
                command
            }
        };
        let path = std::env::var_os("PATH").unwrap_or_default();
        let paths = std::env::split_paths(&path);
        let path = std::env::join_paths([programs.to_owned()].into_iter().chain(paths))
            .map_err(io::Error::other)?;
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command
            .current_dir(directory)
            .env("PATH", path)
            .env("COLUMNS", COLUMNS.to_string())
            .env_remove("SINEW_NODE")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().expect("it is piped");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                if sender
                    .send(String::from_utf8_lossy(&line).into_owned())
                    .is_err()
                {
                    return;
                }
            }
        });
        let mut shell = Shell {
            child,
            lines,
            is_apart,
        };
        if is_apart {
            shell.say("ip link set lo up || echo 'no loopback' >&2\n")?;
        }
        // The trap also counts failures that do not end the block.
        shell.say("set -E\ntrap 'FAILED=\"$FAILED$BASH_COMMAND: status $?; \"' ERR\n")?;
        Ok(shell)
    }

    fn say(&mut self, text: &str) -> io::Result<()> {
        let input = self.child.stdin.as_mut().expect("it is piped");
        input.write_all(text.as_bytes())?;
        input.flush()
    }

    fn run(&mut self, number: usize, block: &Block) -> io::Result<Ended> {
        let end = format!("{END} {number}:");
        // The shell's standard input is the script, so commands in a block must not read it.
        self.say(&format!(
            "FAILED=\n{{\n{}}} < /dev/null\necho; echo \"{end} $FAILED\"\n",
            block.text
        ))?;
        let until = Instant::now() + BLOCK_MAX;
        let mut failures = Vec::new();
        let at = |what: &str| format!("line {}: {what}", block.line);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    if let Some(failed) = line.strip_prefix(&end) {
                        if !failed.trim().is_empty() {
                            failures.push(at(failed.trim()));
                        }
                        return Ok(Ended {
                            failures,
                            is_over: false,
                        });
                    }
                    if line.chars().count() > COLUMNS {
                        failures.push(at(&format!("wider than {COLUMNS} columns: {line}")));
                    }
                    println!("{line}");
                }
                Err(RecvTimeoutError::Timeout) => {
                    failures.push(at(&format!("not done after {} s", BLOCK_MAX.as_secs())));
                    return Ok(Ended {
                        failures,
                        is_over: true,
                    });
                }
                Err(RecvTimeoutError::Disconnected) => {
                    failures.push(at("the shell has ended"));
                    return Ok(Ended {
                        failures,
                        is_over: true,
                    });
                }
            }
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // With its own process namespace, the shell's processes end with the first one, and that one with `unshare`.
        if !self.is_apart {
            let group = format!("-{}", self.child.id());
            for signal in ["-TERM", "-KILL"] {
                let _ = Command::new("kill").args([signal, "--", &group]).status();
                std::thread::sleep(Duration::from_millis(500));
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns true if a shell can have its own network and processes.
fn can_be_apart() -> bool {
    let words = ["--net", "--pid", "--fork", "--kill-child", "--mount-proc"];
    let mut command = Command::new("unshare");
    let tried = command
        .args(words)
        .args(["ip", "link", "set", "lo", "up"])
        .stderr(Stdio::null())
        .status();
    tried.is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
# Page

```sh
echo one
```

<!-- not run: it takes minutes -->
```sh
echo two
```

```rust
fn not_shell() {}
```

```sh
echo three
false
```
";

    #[test]
    fn shell_blocks_are_found_with_their_lines_and_reasons() {
        let found = blocks(PAGE);
        let lines: Vec<usize> = found.iter().map(|block| block.line).collect();
        assert_eq!(lines, [4, 9, 17]);
        assert_eq!(found[0].text, "echo one\n");
        assert_eq!(found[1].left_out.as_deref(), Some("it takes minutes"));
        assert_eq!(found[2].left_out, None);
    }

    #[test]
    fn a_command_that_fails_and_a_line_that_is_too_wide_are_told_with_their_line() {
        let directory = std::env::temp_dir();
        let mut shell = Shell::start(&directory, Path::new("/nowhere")).unwrap();
        let mut run = |number, text: &str| {
            let block = Block {
                line: 17,
                text: text.to_owned(),
                left_out: None,
            };
            shell.run(number, &block).unwrap()
        };
        assert!(run(0, "x=1\ntrue\n").failures.is_empty());
        let failed = run(1, "echo \"$x\"\nfalse\ntrue\n").failures;
        assert_eq!(failed, ["line 17: false: status 1;"]);
        let wide = run(2, "printf '%081d\\n' 1\n").failures;
        assert!(wide[0].starts_with("line 17: wider than 80"), "{wide:?}");
        assert!(
            run(3, "if false; then :; fi\nuntil true; do :; done\n")
                .failures
                .is_empty()
        );
        let ended = run(4, "exit 3\n");
        assert!(ended.is_over && ended.failures == ["line 17: the shell has ended"]);
    }

    /// Runs the blocks of README.md with the program as it is built.
    #[test]
    #[ignore = "takes about a minute"]
    fn every_block_of_the_readme_runs() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let built = cargo_command(root).args(["build", "-p", "sinew"]).status();
        assert!(built.unwrap().success());
        let failures = check(root, &programs(root)).unwrap();
        assert!(failures.is_empty(), "{failures:#?}");
    }
}
