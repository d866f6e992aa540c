//! `sinew doctor` and `sinew node --check` must find what is wrong, and report it with the next
//! step.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod world;

use cli::doctor::{Doctor, Finding, HostClock, State, examine};
use serde_json::Value;
use std::fs;
use std::net::{TcpListener, UdpSocket};
use world::{World, failure};

/// Returns the doctor's finding about one subject.
fn finding(world: &World, words: &str, what: &str) -> Value {
    let output = world.try_sinew(&format!("doctor {words} --json"));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = told["findings"].as_array().unwrap().clone();
    let found = findings.iter().find(|it| it["what"] == what);
    let found = found.unwrap_or_else(|| panic!("nothing about {what}: {told}"));
    // Every finding that is not good has a next step.
    for it in &findings {
        assert_eq!(it["state"] == "good", it["next"] == "", "{it}");
    }
    found.clone()
}

#[test]
fn a_good_node_is_good_and_each_fault_is_found() {
    let mut world = World::new("doctor");
    world.add("a", 1, "");
    world.add("b", 2, "");
    assert_eq!(finding(&world, "net/a", "configuration")["state"], "good");
    assert_eq!(finding(&world, "net/a", "certificate")["state"], "good");
    assert_eq!(finding(&world, "net/a", "ports")["state"], "good");
    assert_eq!(finding(&world, "net/a", "node")["seen"], "none is running");
    assert!(
        world
            .sinew("node --config net/a/node.toml --check")
            .contains("is good: a with")
    );
    // Another program has the port.
    let taken = UdpSocket::bind(world.endpoint(1)).unwrap();
    let ports = finding(&world, "net/a", "ports");
    assert!(
        ports["state"] == "bad" && ports["seen"].to_string().contains("UDP"),
        "{ports}"
    );
    drop(taken);
    let taken = TcpListener::bind(world.endpoint(1)).unwrap();
    let ports = finding(&world, "net/a", "ports");
    assert!(
        ports["state"] == "bad" && ports["seen"].to_string().contains("TCP"),
        "{ports}"
    );
    drop(taken);
    // First the node runs without its neighbour, then with it.
    world.start("b");
    world.wait("the link is looked at", || {
        finding(&world, "net/b", "link")["state"] == "bad"
    });
    let (status, why) = failure(&world.try_sinew("doctor net/b"));
    assert_eq!(status, 1);
    assert!(why.contains("bad: see"), "{why}");
    world.start("a");
    world.wait_for_link("a", "b");
    assert_eq!(finding(&world, "net/b", "node")["state"], "good");
    assert!(
        finding(&world, "net/b", "link")["seen"]
            .to_string()
            .contains("to a: up")
    );
}

#[test]
fn mistakes_in_files_are_found_by_both() {
    let world = World::new("doctor-files");
    world.add("a", 1, "");
    let config = world.node("a").join("node.toml");
    let good = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("{good}\nlisten_to = 3\n")).unwrap();
    let told = finding(&world, "net/a", "configuration");
    assert_eq!(told["state"], "bad");
    assert!(told["seen"].to_string().contains("listen_to"), "{told}");
    let (status, why) = failure(&world.try_sinew("node --config net/a/node.toml --check"));
    assert_eq!(status, 2);
    assert!(why.contains("listen_to"), "{why}");
    fs::write(
        &config,
        format!("{good}\n[[neighbor]]\nname = \"x\"\naddress = \"10.7.0.99\"\nendpoint = \"nobody.invalid:7700\"\n"),
    )
    .unwrap();
    assert_eq!(finding(&world, "net/a", "names")["state"], "bad");
    // A setting must not override what the node promises about relays.
    let promises =
        format!("relays_can_read = \"never\"\n{good}\n[settings]\nseal_ends = \"off\"\n");
    fs::write(&config, promises).unwrap();
    let (status, why) = failure(&world.try_sinew("node --config net/a/node.toml --check"));
    assert!(status == 2 && why.contains("leave out one"), "{why}");
    for (value, expected) in [("off", 0), ("prefer", 0), ("require", 0), ("always", 2)] {
        let setting = format!("{good}\n[settings]\npost_quantum = \"{value}\"\n");
        fs::write(&config, setting).unwrap();
        let told = world.try_sinew("node --config net/a/node.toml --check");
        assert_eq!(told.status.code(), Some(expected), "{value}: {told:?}");
        let why = String::from_utf8_lossy(&told.stderr);
        assert_eq!(
            why.contains("`off`, `prefer` or `require`"),
            expected == 2,
            "{why}"
        );
    }
    fs::write(&config, &good).unwrap();
    // The directory has the certificate of another node.
    world.add("b", 2, "");
    let (a, b) = (world.node("a"), world.node("b"));
    fs::copy(b.join("node.cert"), a.join("node.cert")).unwrap();
    assert_eq!(finding(&world, "net/a", "certificate")["state"], "bad");
    let (status, _) = failure(&world.try_sinew("node --config net/a/node.toml --check"));
    assert_eq!(status, 2);
}

/// Returns the doctor's findings about a node if the host's clock is wrong by `wrong_s`.
fn by_clock(world: &World, wrong_s: i64) -> Vec<Finding> {
    let args = Doctor {
        dir: Some(world.node("a")),
        node: None,
        json: false,
    };
    let now_s = net::Clock::new().unix_s().checked_add_signed(wrong_s);
    let at = HostClock {
        now_s: now_s.unwrap(),
        is_synchronised: Some(false),
    };
    examine(&args, at)
}

#[test]
fn a_clock_that_is_wrong_by_a_year_is_said_before_all_else() {
    const YEAR_S: i64 = 365 * 86_400;
    let world = World::new("doctor-clock");
    world.add("a", 1, "");
    let of = |findings: &[Finding], what: &str| {
        let mut findings = findings.iter();
        findings.find(|it| it.what == what).unwrap().clone()
    };
    let right = by_clock(&world, 0);
    for what in ["clock", "certificate"] {
        assert_eq!(of(&right, what).state, State::Good);
    }
    let behind = by_clock(&world, -YEAR_S);
    assert_eq!(behind[0].what, "clock");
    assert_eq!(behind[0].state, State::Bad, "{behind:?}");
    assert!(behind[0].seen.contains("the clock is behind"), "{behind:?}");
    assert!(of(&behind, "certificate").next.contains("clock first"));
    // Two years, because the certificate is valid for one.
    let ahead = by_clock(&world, 2 * YEAR_S);
    assert_eq!(ahead[0].state, State::Weak, "{ahead:?}");
    assert!(
        ahead[0]
            .next
            .contains("compare it with another clock first")
    );
    let certificate = of(&ahead, "certificate");
    assert_eq!(certificate.state, State::Bad);
    assert!(certificate.next.starts_with("check the clock first"));
}

#[test]
fn a_node_is_named_by_its_directory_or_as_other_commands_have_it() {
    let mut world = World::new("doctor-node");
    world.add("a", 1, "");
    world.start("a");
    for words in ["net/a", "--node net/a", "--node net/a/a.ctl"] {
        assert_eq!(finding(&world, words, "node")["state"], "good");
        let certificate = finding(&world, words, "certificate");
        assert_eq!(certificate["state"], "good", "{words}");
        let disk = finding(&world, words, "disk")["seen"].to_string();
        assert!(disk.contains("free"), "{disk}");
    }
    // The check of DNS needs no node.
    assert!(finding(&world, "", "DNS")["seen"].is_string());
    let (status, why) = failure(&world.try_sinew("doctor net/a --node net/a"));
    assert!(status == 2 && why.contains("cannot be used with"), "{why}");
}
