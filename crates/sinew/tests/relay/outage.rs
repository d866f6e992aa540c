//! Copies that continue by themselves: around a relay that has failed or is full, and over one that
//! comes back.

use crate::chain::{Chain, names, noise, part};
use std::fs;
use std::process::{Child, Stdio};

/// More data than can be in flight at any time.
const BYTES: usize = 120_000_000;

/// Starts a copy to lon, and stops it in the middle. Returns the relay that it uses.
fn begin_and_hold(chain: &Chain, relays: &[&'static str], more: &str) -> (Child, &'static str) {
    let target = chain.root("lon").join("copy");
    let child = chain.begin_cp(&format!("data lon:copy --stripes 1 {more}"));
    chain.world.wait("a part of it is there", || {
        fs::metadata(part(&target)).is_ok_and(|part| part.len() > 1_000_000)
    });
    chain.signal("lon", "-STOP");
    assert!(!target.exists(), "it was over too soon");
    let has_it = |name: &&&str| chain.world.status(name)["bulk"]["active"] == 1;
    let relay = relays.iter().find(has_it).expect("somebody relays it");
    (child, relay)
}

/// Returns true if the process has a TCP socket. `cp` makes none by itself.
fn has_tcp(pid: u32) -> bool {
    let tcp = fs::read_to_string("/proc/self/net/tcp").unwrap();
    let inodes: Vec<&str> = tcp
        .lines()
        .filter_map(|line| line.split_whitespace().nth(9))
        .collect();
    let held = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let mut held = held.filter_map(|fd| fs::read_link(fd.ok()?.path()).ok());
    held.any(|at| {
        let at = at.to_string_lossy();
        let inode = at
            .strip_prefix("socket:[")
            .and_then(|at| at.strip_suffix(']'));
        inode.is_some_and(|inode| inodes.contains(&inode))
    })
}

fn end(chain: &Chain, mut child: Child) -> serde_json::Value {
    chain
        .world
        .wait("the copy ends", || child.try_wait().unwrap().is_some());
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(
        fs::read(chain.root("lon").join("copy")).unwrap(),
        noise(BYTES)
    );
    assert_eq!(names(&chain.root("lon")), ["copy"]);
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_relay_that_dies_is_gone_around() {
    let mut chain = Chain::ring("cp-around");
    chain.start();
    chain.file("data", BYTES);
    let (child, relay) = begin_and_hold(&chain, &["fra", "par"], "");
    assert!(has_tcp(child.id()), "its node has lent it no connection");
    chain.world.kill(relay);
    chain.signal("lon", "-CONT");
    let done = end(&chain, child);
    assert!(done["attempts"].as_u64() > Some(1), "{done}");
    let other = if relay == "fra" {
        "10.7.0.4"
    } else {
        "10.7.0.2"
    };
    let segments = done["segments"].as_array().unwrap();
    assert!(
        segments.iter().any(|segment| segment["from"] == other),
        "{done}"
    );
}

#[test]
fn the_only_relay_is_waited_for() {
    let mut chain = Chain::new("cp-waits", 3);
    chain.file("data", BYTES);
    let (child, relay) = begin_and_hold(&chain, &["fra"], "--via fra");
    chain.world.kill(relay);
    chain.signal("lon", "-CONT");
    chain.world.wait("lon has missed it", || {
        chain.world.status("lon")["bulk"]["active"] == 0
    });
    chain.world.start(relay);
    let done = end(&chain, child);
    assert!(done["attempts"].as_u64() > Some(1), "{done}");
}

#[test]
fn what_begins_anew_does_so_once() {
    let mut chain = Chain::new("cp-fresh-once", 3);
    chain.file("data", BYTES);
    let (child, relay) = begin_and_hold(&chain, &["fra"], "--via fra --fresh");
    chain.world.kill(relay);
    chain.signal("lon", "-CONT");
    chain.world.start(relay);
    let done = end(&chain, child);
    assert!(done["attempts"].as_u64() > Some(1), "{done}");
    // The numbers of segments are those of the last attempt.
    let segments = done["segments"].as_array().unwrap();
    let last = segments.iter().map(|segment| segment["bytes"].as_u64());
    assert!(last.max().flatten() < Some(BYTES as u64), "{done}");
}

#[test]
fn a_relay_that_is_full_is_gone_around() {
    let mut chain = Chain::ring("cp-full-relay");
    for relay in ["fra", "par"] {
        chain.append(relay, "transfers = 1");
    }
    chain.start();
    chain.file("data", 1_000);
    for (held, other) in [("fra", "10.7.0.4"), ("par", "10.7.0.2")] {
        let mut holder = std::process::Command::new(env!("CARGO_BIN_EXE_sinew"))
            .current_dir(&chain.world.dir)
            .args(["cp", "-", &format!("{held}:held"), "--node", "net/ams"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let part = part(&chain.root(held).join("held"));
        chain.world.wait("its place is taken", || part.exists());
        let done = chain.cp("data lon:copy");
        assert_eq!(
            done["segments"][1]["from"].as_str().or(Some(other)),
            Some(other),
            "{done}"
        );
        drop(holder.stdin.take());
        assert!(holder.wait().unwrap().success());
    }
}

#[test]
fn what_cannot_begin_is_said_at_once_and_waited_for_where_that_is_asked() {
    let mut chain = Chain::new("cp-never", 3);
    chain.file("data", BYTES);
    chain.world.kill("fra");
    let refused = chain.try_cp("data lon:copy --via fra");
    assert_eq!(refused.status.code(), Some(1));
    let said: serde_json::Value =
        serde_json::from_slice(&chain.try_cp("data lon:copy --via fra --json").stdout).unwrap();
    assert!(
        said["error"].as_str().is_some_and(|text| !text.is_empty()),
        "{said}"
    );
    assert_eq!(said["kind"], "broken", "{said}");
    let child = chain.begin_cp("data lon:copy --via fra --give-up 60");
    chain.world.start("fra");
    chain.wait_for_links();
    end(&chain, child);
}
