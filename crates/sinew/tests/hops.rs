//! Nodes measure how many physical links lead to their neighbours, and announce it to the whole network.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod world;

use net::netns::{Namespace, available};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Child, Stdio};
use world::World;

/// Returns what a node reports about its link to a neighbour.
fn hops(world: &World, node: &str, neighbor: &str) -> Value {
    let links = world.json(&format!("links --node net/{node}"));
    let links = links.as_array().unwrap();
    let link = links.iter().find(|link| link["name"] == neighbor);
    link.map_or(Value::Null, |link| link["hops"].clone())
}

#[test]
fn what_is_configured_wins_and_all_else_is_probed_unless_it_is_switched_off() {
    let mut world = World::new("hops");
    for (number, name) in (1..).zip(["ams", "fra", "lon"]) {
        world.add(name, number, "");
    }
    // The file of `fra` ends with its only neighbour, `ams`.
    let edit = |name: &str, edit: &dyn Fn(String) -> String| {
        let path = world.node(name).join("node.toml");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, edit(text)).unwrap();
    };
    edit("fra", &|text| text + "\nhops = 9\n");
    edit("lon", &|text| format!("probe_hops = false\n{text}"));
    for name in ["ams", "fra", "lon"] {
        world.start(name);
    }
    for (node, neighbor, expected) in [
        ("ams", "fra", json!(1)),
        ("ams", "lon", json!(1)),
        ("fra", "ams", json!(9)),
        ("fra", "lon", json!(1)),
    ] {
        world.wait(&format!("{node} knows how far {neighbor} is"), || {
            hops(&world, node, neighbor) == expected
        });
    }
    assert_eq!(
        [hops(&world, "lon", "ams"), hops(&world, "lon", "fra")],
        [Value::Null, Value::Null]
    );
    // Every node knows what every node announces.
    for name in ["ams", "lon"] {
        world.wait(&format!("{name} knows what all tell"), || {
            let mut told = told(&world, name);
            told.sort_by_key(Value::as_u64);
            told == [
                Value::Null,
                Value::Null,
                json!(1),
                json!(1),
                json!(1),
                json!(9),
            ]
        });
    }
    // A link without a known number counts as the median of 1, 1, 1, 9.
    for (from, to, hops, assumed) in [
        ("fra", "ams", 9, 0),
        ("ams", "fra", 1, 0),
        ("lon", "fra", 1, 1),
    ] {
        let words = format!("plan {from} {to} --length physical-hops --node net/lon");
        let plan = world.json(&words);
        let segment = &plan["direct"]["segments"][0];
        let found = (&segment["physical_hops"], &segment["hops_assumed"]);
        assert_eq!(found, (&json!(hops), &json!(assumed)), "{plan}");
    }
    let text = world.sinew("plan ams fra --length physical-hops --node net/ams");
    assert!(
        text.contains(" hops\n") && !text.contains("assumed"),
        "{text}"
    );
}

/// Returns the hops of every link that a node knows.
fn told(world: &World, node: &str) -> Vec<Value> {
    let network = world.ask(node, "{\"cmd\":\"network\"}\n");
    let network: Value = serde_json::from_str(&network).unwrap();
    let links = network["links"].as_array().unwrap();
    links.iter().map(|link| link["hops"].clone()).collect()
}

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(at: &Namespace, dir: &Path, config: &str) -> Running {
    let mut command = at.command(env!("CARGO_BIN_EXE_sinew")).unwrap();
    command.current_dir(dir).stdout(Stdio::null());
    command.args(["node", "--quiet", "--config", config]);
    Running(command.spawn().unwrap())
}

#[test]
fn a_router_between_two_nodes_is_a_hop() {
    if let Err(why) = available() {
        eprintln!("SKIPPED a_router_between_two_nodes_is_a_hop: {why}");
        return;
    }
    let [a, router, b] = [(); 3].map(|()| Namespace::new().unwrap());
    for (site, net) in [(&a, "1"), (&b, "2")] {
        site.veth("eth", &router, &format!("to{net}")).unwrap();
        let [near, far] = ["2", "1"].map(|host| format!("10.99.{net}.{host}"));
        let with_mask = |address: &str| format!("{address}/24");
        site.ip(&["addr", "add", &with_mask(&near), "dev", "eth"])
            .unwrap();
        router
            .ip(&["addr", "add", &with_mask(&far), "dev", &format!("to{net}")])
            .unwrap();
        site.ip(&["route", "add", "default", "via", &far]).unwrap();
    }
    router.sysctl("net/ipv4/ip_forward", "1").unwrap();
    let world = World::new("router");
    world.sinew("net add net a --address 10.99.1.2:7701");
    world.sinew("net add net b --address 10.99.2.2:7701");
    let _a = start(&a, &world.dir, "net/a/node.toml");
    let _b = start(&b, &world.dir, "net/b/node.toml");
    world.wait("the nodes answer", || {
        let status = |name: &str| world.try_sinew(&format!("status --node net/{name}")).status;
        status("a").success() && status("b").success()
    });
    for (node, neighbor) in [("a", "b"), ("b", "a")] {
        world.wait(&format!("{node} has counted the router"), || {
            hops(&world, node, neighbor) == 2
        });
    }
    world.wait("each knows what the other has counted", || {
        told(&world, "a") == [json!(2), json!(2)] && told(&world, "b") == [json!(2), json!(2)]
    });
}
