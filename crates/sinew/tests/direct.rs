//! Two nodes behind NAT link directly when there is traffic between them. Real processes, real NAT by nftables, in
//! namespaces of the test.
//!
//! ```text
//!   b 10.97.1.2 ── router 10.98.1.2 ── 10.98.1.1 core, and the node a, 10.98.2.1 ── 10.98.2.2 router ── 10.97.2.2 c
//!                  masquerade                                                       masquerade
//! ```
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod world;

use net::netns::{Namespace, available};
use serde_json::Value;
use std::fs;
use world::{World, nft};

/// How a router gives public ports.
#[derive(Clone, Copy)]
enum Nat {
    /// One for all destinations; what was not asked for stays outside.
    PortRestricted,
    /// Another one for each destination.
    Symmetric,
}

/// A network of three nodes, and what it runs in.
struct Site {
    world: World,
    _namespaces: Vec<Namespace>,
}

/// False where nftables is missing.
fn masquerade(router: &Namespace, nat: Nat) -> bool {
    let random = match nat {
        Nat::PortRestricted => "",
        Nat::Symmetric => "random,fully-random",
    };
    // As routers do: what was not asked for is dropped, and leaves no trace in the table of bindings.
    let rules = format!(
        "table ip nat {{\nchain post {{\ntype nat hook postrouting priority 100;\n\
         oifname \"r1\" masquerade {random};\n}}\n}}\n\
         table ip filter {{\nchain input {{\ntype filter hook input priority 0;\n\
         iifname \"r1\" ct state new drop;\n}}\n}}\n"
    );
    nft::load(router, &rules)
}

/// One side: the host of a node, and its router, which is joined to the core.
fn side(core: &Namespace, n: u8, nat: Nat) -> Option<[Namespace; 2]> {
    let [host, router] = [0; 2].map(|_| Namespace::new().unwrap());
    host.veth("i0", &router, "r0").unwrap();
    router.veth("r1", core, &format!("c{n}")).unwrap();
    let add = |at: &Namespace, address: String, to: &str| {
        at.ip(&["addr", "add", &address, "dev", to]).unwrap();
    };
    add(&host, format!("10.97.{n}.2/24"), "i0");
    add(&router, format!("10.97.{n}.1/24"), "r0");
    add(&router, format!("10.98.{n}.2/24"), "r1");
    add(core, format!("10.98.{n}.1/24"), &format!("c{n}"));
    let default = |at: &Namespace, via: String| {
        at.ip(&["route", "add", "default", "via", &via]).unwrap();
    };
    default(&host, format!("10.97.{n}.1"));
    default(&router, format!("10.98.{n}.1"));
    router.sysctl("net/ipv4/ip_forward", "1").unwrap();
    masquerade(&router, nat).then_some([host, router])
}

/// None, loudly, where the kernel or nftables cannot.
fn site(test: &str, nats: [Nat; 2]) -> Option<Site> {
    if let Err(why) = available() {
        eprintln!("SKIPPED: {test}: {why}");
        return None;
    }
    let core = Namespace::new().unwrap();
    core.sysctl("net/ipv4/ip_forward", "1").unwrap();
    let sides = [side(&core, 1, nats[0]), side(&core, 2, nats[1])];
    let [Some([b, b_router]), Some([c, c_router])] = sides else {
        eprintln!("SKIPPED: {test}: nftables cannot masquerade here");
        return None;
    };
    let mut world = World::new(test);
    for (name, at) in [
        ("a", "10.98.1.1:7700"),
        ("b", "10.97.1.2:7700"),
        ("c", "10.97.2.2:7700"),
    ] {
        world.sinew(&format!("net add net {name} --address {at} --link none"));
        world.configure(name, "direct_links = true");
    }
    world.listen("a", "0.0.0.0:7700");
    let hub = world.overlay_address("a");
    for (name, at) in [("b", "10.98.1.1"), ("c", "10.98.2.1")] {
        let neighbor =
            format!("\n[[neighbor]]\nname = 'a'\naddress = '{hub}'\nendpoint = '{at}:7700'\n");
        let path = world.node(name).join("node.toml");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text + &neighbor).unwrap();
    }
    world.launch_in("a", &core);
    world.launch_in("b", &b);
    world.launch_in("c", &c);
    world.wait_for_link("a", "b");
    world.wait_for_link("a", "c");
    Some(Site {
        world,
        _namespaces: vec![core, b, b_router, c, c_router],
    })
}

/// What `b` says of a ping of `c`.
fn ping(world: &World, count: u32) -> Value {
    let words = format!("ping c --node net/b --count {count} --interval 200ms --json");
    serde_json::from_slice(&world.try_sinew(&words).stdout).unwrap_or_default()
}

#[test]
fn two_nodes_behind_nat_link_directly_when_they_have_traffic() {
    let Some(site) = site("direct", [Nat::PortRestricted; 2]) else {
        return;
    };
    let world = &site.world;
    assert_eq!(world.link("b", "c"), "none");
    world.wait("b and c link directly", || {
        ping(world, 5);
        world.link("b", "c") == "up" && world.link("c", "b") == "up"
    });
    let links = world.json("links --node net/b").to_string();
    assert!(links.contains("10.98.2.2:7700"), "{links}");
}

#[test]
fn two_nodes_behind_symmetric_nat_stay_on_their_way() {
    let Some(site) = site("symmetric", [Nat::Symmetric; 2]) else {
        return;
    };
    let world = &site.world;
    let said = ping(world, 40);
    assert_eq!(said["received"], 40, "{said}");
    assert_ne!(world.link("b", "c"), "up");
}
