//! Debian's programs that the tests use. Each test installs those that it needs.

use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A program, and the package that has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Program(&'static str, &'static str);

pub(crate) const BARESIP: Program = Program("baresip", "baresip-core");
pub(crate) const SIPP: Program = Program("sipp", "sip-tester");
pub(crate) const KAMAILIO: Program = Program("kamailio", "kamailio");
pub(crate) const DNSMASQ: Program = Program("dnsmasq", "dnsmasq-base");

/// Tests of speech quality and tests with load must not run at the same time.
static PEACE: RwLock<()> = RwLock::new(());

/// Lets other tests run, but no load.
pub(crate) fn quiet() -> RwLockReadGuard<'static, ()> {
    PEACE.read().unwrap_or_else(PoisonError::into_inner)
}

/// Lets no other test run.
pub(crate) fn alone() -> RwLockWriteGuard<'static, ()> {
    PEACE.write().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether the test cannot run here, and prints the reason.
pub(crate) fn missing(test: &str, programs: &[Program]) -> bool {
    let why = match net::netns::available() {
        Err(why) => why.to_string(),
        Ok(()) => match programs.iter().find_map(|program| install(*program)) {
            Some(why) => why,
            None => return false,
        },
    };
    eprintln!("SKIPPED: {test}: {why}");
    true
}

/// Installs a program unless it exists. Returns the reason if that fails.
fn install(Program(name, package): Program) -> Option<String> {
    // The package manager has a lock, so only one installation runs at a time.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    if is_there(name) {
        return None;
    }
    eprintln!("installing {package} for {name}");
    let apt = |words: &str| {
        let mut command = Command::new("apt-get");
        command
            .args([
                "-o",
                "Acquire::http::Timeout=20",
                "-o",
                "Acquire::Retries=1",
            ])
            .args(words.split_whitespace())
            .env("DEBIAN_FRONTEND", "noninteractive")
            // The machine must not start services, only install the programs.
            .env("RUNLEVEL", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let words = format!("install -y --no-install-recommends {package}");
    let installed = apt(&words) || apt("update") && apt(&words);
    match installed && is_there(name) {
        true => None,
        false => Some(format!(
            "`{name}` is missing and cannot be installed; apt-get install {package}"
        )),
    }
}

/// Returns whether a program is in one of the usual directories.
fn is_there(name: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    let places = path.split(':').chain(["/usr/sbin", "/sbin"]);
    let mut files = places.map(|place| std::path::Path::new(place).join(name));
    files.any(|file| file.is_file())
}

/// A process that ends with the test.
#[derive(Debug)]
pub(crate) struct Running(pub(crate) Child);

impl Running {
    /// Sends a signal, such as `INT`.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.0.id().to_string();
        let sent = Command::new("kill")
            .args([&format!("-{name}"), &pid])
            .status();
        assert!(sent.unwrap().success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Kamailio's children would outlive it when it is killed.
        let pid = self.0.id().to_string();
        let _ = Command::new("pkill").args(["-KILL", "-P", &pid]).status();
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
