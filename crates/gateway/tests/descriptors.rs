//! If a gateway has no descriptors for a further connection, it waits until some are free, and then continues.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use client::{Node, Options, Target};
use gateway::Near;
use std::fs::File;
use std::io::Read;
use std::net::TcpStream;
use std::process::Command;
use std::sync::Arc;

/// Set in the process that has few descriptors.
const FEW: &str = "SINEW_TEST_FEW_DESCRIPTORS";

#[test]
fn a_gateway_without_descriptors_goes_on_when_there_are_some_again() {
    if std::env::var_os(FEW).is_some() {
        return accept_without_descriptors();
    }
    // The test runs in a process of its own, so that its limit does not apply to other tests.
    let own = std::env::current_exe().unwrap();
    let status = Command::new("sh")
        .args(["-c", "ulimit -n 64; exec \"$0\"", own.to_str().unwrap()])
        .env(FEW, "1")
        .status();
    assert!(status.unwrap().success());
}

fn accept_without_descriptors() {
    let local = "127.0.0.1:0".parse().unwrap();
    let node = Node::at("/nonexistent.sock");
    let to = Target::new(base::NodeAddr(0x0a07_0002), 80);
    let near = Near::bind(local, node, to, Options::stream(), Arc::new(|_| {})).unwrap();
    let mut waiting = TcpStream::connect(near.local().unwrap()).unwrap();
    let mut all = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        all.push(file);
    }
    assert!(all.len() < 64);
    near.serve_next().expect("no reason to end");
    drop(all);
    near.serve_next().unwrap();
    // There is no node, so the connection is reset; but it was accepted.
    assert!(waiting.read(&mut [0]).is_err());
}
