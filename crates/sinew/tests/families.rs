//! Two hosts with addresses of both families: a link comes up over the family that works, and continues over the other
//! one if it fails. Real nodes in network namespaces of the test. The tests need root and nftables; without them they
//! print a line and skip.
//!
//! ```text
//!   a 10.96.0.1, fd96::1 ─── veth ─── 10.96.0.2, fd96::2 b        a dials b
//! ```
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that shows what it measured, and says when it is skipped"
)]

mod world;

use net::netns::{Namespace, available};
use serde_json::Value;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use world::{World, nft};

/// How much longer than one family alone a link may take to come up.
const LATER_GOAL: Duration = Duration::from_secs(1);

const FAMILIES: [&str; 2] = ["ip", "ip6"];

struct Pair {
    world: World,
    hosts: [Namespace; 2],
}

impl Pair {
    /// Makes a pair in which `a` knows `b` by these endpoints. Returns `None` and prints a line if the kernel or
    /// nftables cannot.
    fn new(test: &str, endpoints: &str) -> Option<Pair> {
        if let Err(why) = available() {
            eprintln!("SKIPPED: {test}: {why}");
            return None;
        }
        let hosts = [0; 2].map(|_| Namespace::new().unwrap());
        hosts[0].veth("i0", &hosts[1], "i0").unwrap();
        for (host, n) in hosts.iter().zip(1..) {
            let (four, six) = (format!("10.96.0.{n}/24"), format!("fd96::{n}/64"));
            host.ip(&["addr", "add", &four, "dev", "i0"]).unwrap();
            host.ip(&["addr", "add", &six, "dev", "i0", "nodad"])
                .unwrap();
        }
        let world = World::new(test);
        world.sinew(&format!("net add net b --address {endpoints} --link none"));
        world.sinew("net add net a --address 10.96.0.1:7700 --link b");
        for name in ["a", "b"] {
            world.listen(name, "0.0.0.0:7700\", \"[::]:7700");
        }
        let pair = Pair { world, hosts };
        if !FAMILIES.iter().all(|family| pair.set(family, "accept")) {
            eprintln!("SKIPPED: {test}: nftables cannot drop here");
            return None;
        }
        Some(pair)
    }

    /// Sets what `b` does with UDP of a family.
    fn set(&self, family: &str, verdict: &str) -> bool {
        let rules = format!(
            "table {family} families\ndelete table {family} families\ntable {family} families {{\n\
             chain input {{\ntype filter hook input priority 0;\nmeta l4proto udp {verdict};\n}}\n}}\n"
        );
        nft::load(&self.hosts[1], &rules)
    }

    /// Starts both nodes. Returns the time from the start of the second one to the link.
    fn link(&mut self) -> Duration {
        self.start("b", 1);
        let began = Instant::now();
        self.start("a", 0);
        self.world.wait_for_link("a", "b");
        began.elapsed()
    }

    fn start(&mut self, name: &str, host: usize) {
        self.world.launch_in(name, &self.hosts[host]);
        let control = self.world.control(name);
        self.world.wait(&format!("{name} answers"), || {
            UnixStream::connect(&control).is_ok()
        });
    }

    /// Returns the paths of `a` to `b` that are up, and whether they are in use.
    fn paths(&self) -> Vec<(String, bool)> {
        let status = self.world.status("a");
        let paths = status["snapshot"]["links"][0]["paths"].as_array().cloned();
        let up = paths.unwrap_or_default().into_iter();
        let up = up.filter(|path: &Value| path["state"] == "up");
        let told = |path: Value| {
            let at = path["at"].as_str().unwrap_or_default().to_owned();
            (at, path["in_use"] == true)
        };
        up.map(told).collect()
    }
}

#[test]
fn a_link_comes_up_by_the_family_that_works_and_goes_on_by_the_other_one() {
    let six_first = "[fd96::2]:7700 10.96.0.2:7700";
    let Some(mut pair) = Pair::new("families", six_first) else {
        return;
    };
    assert!(pair.set("ip6", "drop"));
    println!("IPv6 is dropped: up after {} ms", pair.link().as_millis());
    let [four, six] = ["10.96.0.2:7700", "[fd96::2]:7700"].map(str::to_owned);
    assert_eq!(pair.paths(), [(four.clone(), true)]);
    assert!(pair.set("ip6", "accept"));
    pair.world
        .wait("both families have a path", || pair.paths().len() == 2);
    let used = pair.paths().iter().find(|it| it.1).unwrap().0.clone();
    let (dies, other) = match used == four {
        true => ("ip", six),
        false => ("ip6", four),
    };
    assert!(pair.set(dies, "drop"));
    pair.world.wait("the other family is used", || {
        pair.paths() == [(other.clone(), true)]
    });
    assert_eq!(pair.world.link("a", "b"), "up");
    assert_eq!(pair.world.status("a")["snapshot"]["links"][0]["downs"], 0);
    pair.world.ping("b --node net/a --count 20");
}

#[test]
#[ignore = "measures a goal, on a quiet machine"]
fn goals() {
    let time = |test: &str, endpoints: &str| {
        let mut pair = Pair::new(test, endpoints)?;
        assert!(pair.set("ip6", "drop"));
        Some(pair.link())
    };
    let four = "10.96.0.2:7700";
    let (Some(alone), Some(both)) = (
        time("one-family", four),
        time("both-families", &format!("[fd96::2]:7700 {four}")),
    ) else {
        return;
    };
    println!("IPv4 alone {alone:?}, IPv6 first and dropped {both:?}");
    assert!(both <= alone + LATER_GOAL, "{alone:?} {both:?}");
}
