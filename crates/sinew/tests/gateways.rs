//! Gateways report at their start what they wait for, and what cannot work.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod world;

use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command};
use world::World;

/// A running gateway, and its output.
struct Running {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Running {
    fn start(world: &World, words: &str) -> Running {
        let mut child = world.begin(&format!("gateway {words} --json"));
        let lines = BufReader::new(child.stdout.take().unwrap());
        Running { child, lines }
    }

    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// Ends the gateway, and returns its further output.
    fn end(mut self) -> String {
        let pid = self.child.id().to_string();
        let killed = Command::new("kill").args(["-TERM", &pid]).status().unwrap();
        assert!(killed.success());
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).unwrap();
        assert!(self.child.wait().unwrap().success());
        rest
    }
}

#[test]
fn a_bridge_waits_aloud_for_an_interface_that_is_not_there() {
    let mut world = World::new("bridge");
    world.add("ams", 1, "");
    world.start("ams");
    let mut bridge = Running::start(&world, "multicast --interface nosuch0 --node net/ams");
    let said = bridge.next();
    assert_eq!(
        (&said["event"], &said["interface"]),
        (&"waiting".into(), &"nosuch0".into())
    );
    bridge.end();
}

#[test]
fn a_local_domain_that_no_certificate_names_is_warned_of_and_can_be_added() {
    let mut world = World::new("domain");
    world.add("ams", 1, "");
    world.start("ams");
    let words = format!(
        "sip --listen {} --local a.example=127.0.0.1:5999 --node net/ams",
        world.endpoint(50)
    );
    let mut gateway = Running::start(&world, &words);
    assert_eq!(gateway.next()["event"], "listening");
    let warning = gateway.next();
    let text = warning["text"].as_str().unwrap();
    assert_eq!(warning["event"], "warning");
    assert!(
        text.contains("a.example") && text.contains("net set DIR ams --domain a.example"),
        "{text}"
    );
    gateway.end();

    let told = world.json("net set net ams --domain a.example --node net/ams");
    assert_eq!(told["told"], true);
    world.wait("the node tells of its domain", || {
        world.status("ams")["nodes"]
            .to_string()
            .contains("a.example")
    });
    let mut gateway = Running::start(&world, &words);
    assert_eq!(gateway.next()["event"], "listening");
    assert!(!gateway.end().contains("warning"));
}
