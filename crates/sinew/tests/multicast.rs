//! IP multicast across real nodes, in network namespaces, by plain sockets: one site has its bridge in the node, the
//! other beside it. The test needs root; without root it prints a line and skips.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test that says when it is skipped"
)]

mod world;

use net::netns::{Namespace, available};
use serde_json::Value;
use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;
use world::World;

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 1, 1);
const PORT: u16 = 5_004;
const TAPS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 94, 0, 1), Ipv4Addr::new(10, 94, 1, 1)];
/// How long to wait for one packet before the next is sent.
const MOMENT: Duration = Duration::from_millis(50);

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(inside: &Namespace, dir: &Path, words: &str) -> Running {
    let mut command = inside.command(env!("CARGO_BIN_EXE_sinew")).unwrap();
    command.current_dir(dir).args(words.split_whitespace());
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let log = fs::File::options()
        .create(true)
        .append(true)
        .open(dir.join("log"));
    command.stderr(log.unwrap());
    Running(command.spawn().unwrap())
}

/// Opens a program's socket at a site's TAP interface, as soon as the interface exists.
fn socket(world: &World, site: &Namespace, which: usize, joins: bool) -> UdpSocket {
    let open = || {
        let port = if joins { PORT } else { 0 };
        UdpSocket::bind((TAPS[which], 0))?;
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port))?;
        if joins {
            socket.join_multicast_v4(&GROUP, &TAPS[which])?;
        }
        socket.set_read_timeout(Some(MOMENT))?;
        Ok::<_, std::io::Error>(socket)
    };
    let mut opened = None;
    world.wait("the bridge has made its interface", || {
        opened = site.run(open).unwrap().ok();
        opened.is_some()
    });
    opened.unwrap()
}

#[test]
fn programs_of_two_sites_share_a_group() {
    if let Err(why) = available() {
        eprintln!("SKIPPED: programs_of_two_sites_share_a_group: {why}");
        return;
    }
    let sites = [Namespace::new().unwrap(), Namespace::new().unwrap()];
    sites[0].veth("east", &sites[1], "west").unwrap();
    for (site, (interface, address)) in sites
        .iter()
        .zip([("east", "10.99.0.1/24"), ("west", "10.99.0.2/24")])
    {
        site.ip(&["address", "add", address, "dev", interface])
            .unwrap();
    }
    let world = World::new("multicast");
    world.sinew("net add net a --address 10.99.0.1:7701");
    world.sinew("net add net b --address 10.99.0.2:7702");
    let config = world.dir.join("net/a/node.toml");
    let text = fs::read_to_string(&config).unwrap();
    let bridge = format!(
        "\n[multicast]\ntap = \"mc0\"\naddress = \"{}/24\"\n",
        TAPS[0]
    );
    fs::write(&config, text + &bridge).unwrap();
    let _a = start(&sites[0], &world.dir, "node --config net/a/node.toml");
    let _b = start(&sites[1], &world.dir, "node --config net/b/node.toml");
    world.wait("the nodes answer", || {
        let is_there = |name: &str| {
            world
                .try_sinew(&format!("status --node net/{name}"))
                .status
                .success()
        };
        is_there("a") && is_there("b")
    });
    world.wait_for_link("a", "b");
    let beside = format!(
        "gateway multicast --tap mc0 --address {}/24 --node net/b",
        TAPS[1]
    );
    let _bridge = start(&sites[1], &world.dir, &beside);

    for (from, to) in [(0, 1), (1, 0)] {
        let sink = socket(&world, &sites[to], to, true);
        let source = socket(&world, &sites[from], from, false);
        sites[from]
            .ip(&["route", "replace", "239.0.0.0/8", "dev", "mc0"])
            .unwrap();
        let mut bytes = [0; 2_000];
        world.wait("a packet crosses", || {
            source.send_to(b"hello", (GROUP, PORT)).unwrap();
            sink.recv_from(&mut bytes)
                .is_ok_and(|(len, who)| who.ip() == TAPS[from] && &bytes[..len] == b"hello")
        });
        // The longest packet of the interface arrives whole.
        let long = vec![7; 1_472];
        world.wait("a long packet crosses", || {
            source.send_to(&long, (GROUP, PORT)).unwrap();
            sink.recv(&mut bytes).is_ok_and(|len| bytes[..len] == long)
        });
        let node = ["a", "b"][from];
        let groups = world.json(&format!("group show {GROUP} --node net/{node}"));
        assert_eq!(groups["tree"], "link-state");
        assert!(groups["members"].as_array().unwrap().len() == 1, "{groups}");
        let sources = groups["sources"].as_array().unwrap();
        assert!(
            sources.iter().any(|s| s["upstream"] == Value::Null),
            "{groups}"
        );
        drop(sink);
        let world = &world;
        world.wait("the group is left", || {
            let groups = world.json(&format!("groups --node net/{node}"));
            let groups = groups.as_array().unwrap();
            groups
                .iter()
                .all(|group| group["members"].as_array().unwrap().is_empty())
        });
    }
}
