//! Rules of nftables in a namespace.

use net::netns::Namespace;
use std::io::Write;
use std::process::Stdio;

/// Loads rules. Returns false if the kernel or the program cannot.
pub(crate) fn load(at: &Namespace, rules: &str) -> bool {
    let mut command = at.command("nft").unwrap();
    let spawned = command
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = spawned else { return false };
    // The pipe is closed at the end of the statement, because the program reads to the end.
    let written = child.stdin.take().unwrap().write_all(rules.as_bytes());
    written.is_ok() && child.wait().unwrap().success()
}
