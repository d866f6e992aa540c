//! `cargo xtask first-call ROOT DEB`: the steps of a new user on two bare hosts, up to a measured call between them.
//!
//! ```text
//!   host a (copy of ROOT) ────────── veth ────────── host b (copy of ROOT)
//!   apt install              no file is copied        apt install
//!   sinew up --invite   ── a line that you paste ──▶  sinew join TOKEN
//!   sinew test-call b   ◀────────── calls ──────────  sinew test-call --answer
//! ```
//! Each command runs as printed, in the host's own network, file system and processes. Only the token goes from one
//! host to the other.

use crate::Outcome;
use crate::package_test::{call, remove, text};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

type Result<T> = core::result::Result<T, String>;

/// The limits: number of commands, and time of the machine.
const COMMANDS_MAX: usize = 6;
const TIME_MAX: Duration = Duration::from_secs(180);
/// How long a command may take until it prints the expected line.
const PATIENCE: Duration = Duration::from_secs(60);
/// The lowest acceptable score of a call over a cable without losses.
const MOS_LEAST: f64 = 4.0;

/// Runs the steps, and prints each with its time.
pub(crate) fn run(bare: &Path, package: &Path) -> Outcome {
    match steps(bare, package) {
        Ok(()) => Outcome::Done,
        Err(why) => {
            eprintln!("first-call: {why}");
            Outcome::Failed
        }
    }
}

fn steps(bare: &Path, package: &Path) -> Result<()> {
    if call("id", &["-u"])?.trim() != "0" {
        return Err("two hosts on one machine need root: run it by sudo".to_owned());
    }
    let mut trial = Trial::default();
    let a = trial.host(bare, package, "a")?;
    let b = trial.host(bare, package, "b")?;
    trial.connect()?;
    trial.began = Some(Instant::now());
    let install = format!("apt install -y /mnt/{}", file_name(package)?);
    trial.run(&a, &install, "")?;
    let up = "sinew up --node a --invite --address 10.99.0.1:7700";
    // Without a terminal, the command prints only the token.
    let token = trial.run(&a, up, "sinew1-")?;
    trial.run(&b, &install, "")?;
    let join = format!("sinew join {} --name b", token.trim());
    trial.run(&b, &join, "ready:")?;
    trial.run(&b, "sinew test-call --answer", "")?;
    let measure = "sinew test-call b --direct 10.99.0.2:7717 --calls 5 --seconds 10";
    let verdict = trial.run(&a, measure, "MOS")?;
    let took = trial.began.map(|began| began.elapsed()).unwrap_or_default();
    let commands = trial.commands;
    println!("first-call: {verdict}");
    let mos = mos_of(&verdict).ok_or_else(|| format!("no score in `{verdict}`"))?;
    if mos < MOS_LEAST {
        return Err(format!("MOS {mos}, less than {MOS_LEAST}"));
    }
    println!(
        "first-call: {commands} commands, {:.0} s",
        took.as_secs_f64()
    );
    match commands <= COMMANDS_MAX && took <= TIME_MAX {
        true => Ok(()),
        false => Err(format!(
            "more than {COMMANDS_MAX} commands or {} s",
            TIME_MAX.as_secs()
        )),
    }
}

/// Returns the lowest score in the row `MOS (G.107)`: directly and over the overlay. Words with a sign are differences.
fn mos_of(row: &str) -> Option<f64> {
    let (_, after) = row.split_once("MOS (G.107)")?;
    let words = after.split_whitespace();
    let scores = words.filter(|word| !word.starts_with(['+', '-']));
    scores.filter_map(|word| word.parse().ok()).reduce(f64::min)
}

fn file_name(path: &Path) -> Result<String> {
    let name = path.file_name().ok_or("which package?")?;
    Ok(name.to_string_lossy().into_owned())
}

/// A host. It has the name of its network.
struct Host {
    name: String,
    root: PathBuf,
}

/// Everything that must be removed at the end.
#[derive(Default)]
struct Trial {
    roots: Vec<PathBuf>,
    networks: Vec<String>,
    running: Vec<Child>,
    commands: usize,
    began: Option<Instant>,
}

impl Trial {
    /// Copies the bare root, with the package in it as if it had been downloaded.
    fn host(&mut self, bare: &Path, package: &Path, name: &str) -> Result<Host> {
        let root = PathBuf::from(format!("{}.{name}", bare.display()));
        remove(&root)?;
        self.roots.push(root.clone());
        let copied = call("cp", &["-a", &text(bare), &text(&root)]);
        copied.map_err(|why| format!("{why}; make {} by debootstrap", bare.display()))?;
        let inside = root.join("mnt").join(file_name(package)?);
        fs::copy(package, &inside).map_err(|error| format!("{}: {error}", package.display()))?;
        let name = format!("first-call-{name}");
        // A killed run may have left the network.
        let _ = call("ip", &["netns", "del", &name]);
        call("ip", &["netns", "add", &name])?;
        self.networks.push(name.clone());
        Ok(Host { name, root })
    }

    fn connect(&self) -> Result<()> {
        let [a, b] = self.networks.as_slice() else {
            return Err("two hosts are connected".to_owned());
        };
        let ends = ["link", "add", "eth0", "netns", a, "type", "veth"];
        call(
            "ip",
            &[&ends[..], &["peer", "name", "eth0", "netns", b]].concat(),
        )?;
        for (network, address) in [(a, "10.99.0.1/24"), (b, "10.99.0.2/24")] {
            call(
                "ip",
                &["-n", network, "addr", "add", address, "dev", "eth0"],
            )?;
            call("ip", &["-n", network, "link", "set", "lo", "up"])?;
            call("ip", &["-n", network, "link", "set", "eth0", "up"])?;
        }
        Ok(())
    }

    /// Runs a command on a host. Waits for a line with these words, and returns it. Without words, the function waits
    /// for the command's end.
    fn run(&mut self, host: &Host, command: &str, words: &str) -> Result<String> {
        self.commands += 1;
        let began = Instant::now();
        // Processes end with their parent, so nothing outlives this program.
        let typed = format!("mount -t proc proc /proc; cd /root; exec {command} 2>&1");
        let goes_on = command.ends_with("--answer");
        let mut child = Command::new("ip")
            .args(["netns", "exec", &host.name, "unshare", "--mount", "--pid"])
            .args(["--fork", "--kill-child", "chroot", &text(&host.root)])
            .args(["/bin/sh", "-c", &typed])
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("ip netns exec: {error}"))?;
        let output = child.stdout.take().ok_or("no output")?;
        let lines = read(output);
        let waited = match (goes_on, words) {
            (true, _) => Ok(String::new()),
            (false, "") => ended(&lines, &mut child),
            (false, words) => said(&lines, words),
        };
        self.running.push(child);
        let line = waited.map_err(|why| format!("`{command}` on {}: {why}", host.name))?;
        let name = host.name.trim_start_matches("first-call-");
        let took = began.elapsed().as_secs_f64();
        println!("first-call: {took:>5.1} s  {name}# {command}");
        Ok(line)
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        for child in &mut self.running {
            // The process has ended already, or ends now.
            let _ = child.kill();
            let _ = child.wait();
        }
        for network in &self.networks {
            let _ = call("ip", &["netns", "del", network]);
        }
        for root in &self.roots {
            let _ = remove(root);
        }
    }
}

/// Returns the lines of an output as they come.
fn read(output: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(|line| line.ok()) {
            // If there is no receiver any more, the output is still read, so that the program never blocks.
            let _ = sender.send(line);
        }
    });
    lines
}

/// Waits for a line with these words.
fn said(lines: &Receiver<String>, words: &str) -> Result<String> {
    let began = Instant::now();
    let mut before = String::new();
    loop {
        match lines.recv_timeout(PATIENCE.saturating_sub(began.elapsed())) {
            Ok(line) if line.contains(words) => return Ok(line),
            Ok(line) => before = format!("{before}\n{line}"),
            Err(RecvTimeoutError::Timeout) => {
                return Err(format!("no `{words}` for {PATIENCE:?}:{before}"));
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(format!("ended without `{words}`:{before}"));
            }
        }
    }
}

/// Waits for the command's successful end.
fn ended(lines: &Receiver<String>, child: &mut Child) -> Result<String> {
    let began = Instant::now();
    let mut told = Vec::new();
    loop {
        match lines.recv_timeout(PATIENCE.saturating_sub(began.elapsed())) {
            Ok(line) => told.push(line),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                return Err(format!("not over after {PATIENCE:?}:\n{}", told.join("\n")));
            }
        }
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    match status.success() {
        true => Ok(told.last().cloned().unwrap_or_default()),
        false => Err(format!("{status}: {}", told.join("\n"))),
    }
}
