//! A node's report about its relay service.

use crate::chain::{Chain, part};
use crate::world::failure;
use serde_json::Value;
use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

const BYTES: usize = 3_000_000;

#[test]
fn each_node_tells_what_it_does_and_has_done() {
    let mut chain = Chain::stopped("cp-status", 3);
    // No other test has this address.
    let metrics = SocketAddr::new(chain.world.endpoint(2).ip(), 7_790);
    chain
        .world
        .configure("fra", &format!("metrics = \"{metrics}\""));
    chain.start();
    let bulk = |name: &str| chain.world.status(name)["bulk"].clone();
    let mut cp = Command::new(env!("CARGO_BIN_EXE_sinew"))
        .current_dir(&chain.world.dir)
        .args(["cp", "-", "lon:held", "--background", "--node", "net/ams"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = cp.stdin.take().unwrap();
    input.write_all(&vec![7; BYTES]).unwrap();
    let target = chain.root("lon").join("held");
    chain.world.wait("it has begun", || part(&target).exists());
    // The sink receives everything that the relay has passed on, after some time.
    chain.world.wait("the sink has taken it in", || {
        bulk("lon")["transfers"][0]["bytes"].as_u64() >= Some(BYTES as u64)
    });
    chain.world.wait("the relay knows its segments", || {
        bulk("fra")["transfers"][0]["slowest"].is_object()
    });
    let transfer = |name: &str| bulk(name)["transfers"][0].clone();
    let (ams, fra, lon) = (transfer("ams"), transfer("fra"), transfer("lon"));
    let told = |t: &Value| format!("{} {} {}", t["role"], t["from"], t["to"]).replace('"', "");
    assert_eq!(told(&ams), "relay 10.7.0.1 [10.7.0.2]");
    assert_eq!(told(&fra), "relay 10.7.0.1 [10.7.0.3]");
    assert_eq!(told(&lon), "sink 10.7.0.2 []");
    assert!(ams["id"] == lon["id"] && fra["id"] == lon["id"], "{lon}");
    assert_eq!(fra["scavenge"], true);
    let text = chain.world.sinew("status --node net/fra");
    assert!(
        text.contains("bulk         1 of 64 transfers, 0 done"),
        "{text}"
    );
    assert!(text.contains("relay from ams to lon"), "{text}");
    drop(input);
    assert!(cp.wait().unwrap().success());
    for (name, counts) in [("fra", "passed_bytes"), ("lon", "taken_bytes")] {
        chain.world.wait("it is over", || bulk(name)["active"] == 0);
        let bulk = bulk(name);
        assert!(bulk[counts].as_u64() > Some(BYTES as u64), "{bulk}");
        assert!(bulk["done"] == 1 && bulk["failed"] == serde_json::json!({}));
    }
    // A copy back, and a refused one.
    chain.cp("lon:held back");
    assert!(bulk("lon")["given_bytes"].as_u64() > Some(BYTES as u64));
    let (_, text) = failure(&chain.try_cp("back fra:../outside"));
    assert!(!text.is_empty());
    chain
        .world
        .wait("it is counted", || bulk("fra")["refused"]["forbidden"] == 1);
    for line in [
        "sinew_bulk_transfers 0\n",
        "sinew_bulk_transfers_done_total 2\n",
        "sinew_bulk_transfers_refused_total{reason=\"forbidden\"} 1\n",
    ] {
        let is_told = || chain.world.get(metrics).contains(line);
        chain.world.wait(line, is_told);
    }
}
