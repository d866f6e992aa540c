//! Nodes that listen on all addresses of a host with several: an answer leaves from the address that was asked. Real
//! nodes in network namespaces. The tests need root; without root they print a line and skip.
//!
//! ```text
//!   near 10.96.1.1 ────── 10.96.1.2 host 10.96.7.7 (on its loopback interface)
//!        `── dials 10.96.7.7; left alone, the kernel would answer from 10.96.1.2 ──'
//! ```
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test that says when it is skipped"
)]

mod world;

use client::{Node, Options};
use net::netns::{Namespace, available};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};
use world::World;

const PORT: u16 = 5_000;
const BYTES: usize = 3_000_000;

/// The host's node listens on `any`. The other node dials `far`, which is beyond `near`.
fn dial_the_far_address(test: &str, any: &str, [here, near, far]: [&str; 3], bits: [u8; 2]) {
    if let Err(why) = available() {
        eprintln!("SKIPPED: {test}: {why}");
        return;
    }
    let [dialler, host] = [0; 2].map(|_| Namespace::new().unwrap());
    dialler.veth("d0", &host, "h0").unwrap();
    let is_v6 = far.contains(':');
    let add = |space: &Namespace, address: &str, bits: u8, device: &str| {
        let address = format!("{address}/{bits}");
        let mut words = vec!["address", "add", &address, "dev", device];
        words.extend(is_v6.then_some("nodad"));
        space.ip(&words).unwrap();
    };
    add(&dialler, here, bits[0], "d0");
    add(&host, near, bits[0], "h0");
    add(&host, far, bits[1], "lo");
    let family = if is_v6 { "-6" } else { "-4" };
    dialler
        .ip(&[family, "route", "add", far, "via", near])
        .unwrap();

    let mut world = World::new(test);
    let endpoint = |ip: &str| match is_v6 {
        true => format!("[{ip}]:7701"),
        false => format!("{ip}:7701"),
    };
    for (name, ip) in [("host", far), ("near", here)] {
        world.sinew(&format!("net add net {name} --address {}", endpoint(ip)));
        world.configure(name, "realtime_priority = false");
    }
    world.listen("host", any);

    world.launch_in("host", &host);
    world.launch_in("near", &dialler);
    world.wait("both answer", || {
        ["host", "near"]
            .iter()
            .all(|name| std::os::unix::net::UnixStream::connect(world.control(name)).is_ok())
    });
    world.wait_for_link("near", "host");
    let address = world.overlay_address("host");
    world.wait("there is a route", || world.has_route("near", &address));

    // Send in both directions, in bursts.
    let [near_node, host_node] = ["near", "host"].map(|name| Node::at(world.socket(name)));
    let listener = host_node.listen(PORT, Options::stream()).unwrap();
    let out = near_node
        .connect(listener.local(), Options::stream())
        .unwrap();
    let mut came = listener.accept_bytes().unwrap();
    let sent: Vec<u8> = (0..BYTES).map(|i| (i * i / 5) as u8).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (&out).write_all(&sent).unwrap();
            out.shutdown(Shutdown::Write).unwrap();
        });
        let mut got = Vec::new();
        came.read_to_end(&mut got).unwrap();
        assert!(got == sent);
        came.write_all(&got).unwrap();
        came.shutdown(Shutdown::Write).unwrap();
        let mut back = Vec::new();
        (&out).read_to_end(&mut back).unwrap();
        assert!(back == sent);
    });
    // Neither node ever saw the other one at another address.
    for (name, at) in [("near", far), ("host", here)] {
        let at: SocketAddr = endpoint(at).parse().unwrap();
        let links = world.json(&format!("links --node net/{name}"));
        let is_at = |link: &serde_json::Value| link["at"].as_str().unwrap().parse() == Ok(at);
        assert!(links.as_array().unwrap().iter().any(is_at), "{links}");
        let log = world.log(name);
        assert!(!log.contains("is reached at"), "{log}");
    }
}

#[test]
fn a_host_of_several_ipv4_addresses_is_reached_at_any() {
    dial_the_far_address(
        "far-v4",
        "0.0.0.0:7701",
        ["10.96.1.1", "10.96.1.2", "10.96.7.7"],
        [24, 32],
    );
}

#[test]
fn a_host_of_several_ipv6_addresses_is_reached_at_any() {
    dial_the_far_address(
        "far-v6",
        "[::]:7701",
        ["fd96::1", "fd96::2", "fd97::7"],
        [64, 128],
    );
}

#[test]
fn a_socket_of_both_families_answers_ipv4_from_the_address_that_was_asked() {
    dial_the_far_address(
        "far-dual",
        "[::]:7701",
        ["10.96.1.1", "10.96.1.2", "10.96.7.7"],
        [24, 32],
    );
}
