//! A node behind a masquerading router dials out. Its neighbour learns the node's address and follows it when the
//! router rebinds; streams in both directions continue. Real processes, real NAT by nftables, in namespaces of the
//! test.
//!
//! ```text
//!   inner 10.99.1.2 --- 10.99.1.1 router 10.99.2.1 (later 10.99.2.9) --- 10.99.2.2 hub
//!                               masquerade ->
//! ```

// A test fails by panicking, also in its helper functions.
#![allow(clippy::unwrap_used)]

mod world;

use client::{Node, Options, Target};
use net::netns::{Namespace, available};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use wire::echo::{ECHO_BYTES, Echo, Kind, PORT};
use world::nft;

const PATIENCE: Duration = Duration::from_secs(20);

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn sinew(args: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_sinew"))
        .args(args)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "sinew {args:?}: {said}");
}

fn start(at: &Namespace, dir: &Path, listen: &str, neighbors: &str) -> Running {
    let config = format!(
        "certificate = 'node.cert'\nkey = 'node.key'\nnetwork = 'network.pub'\n\
         listen = ['{listen}']\nclient_socket = 'c.sock'\ncontrol_socket = 'o.ctl'\n\
         realtime_priority = false\n{neighbors}"
    );
    let path = dir.join("nat.toml");
    std::fs::write(&path, config).unwrap();
    let mut command = at.command(env!("CARGO_BIN_EXE_sinew")).unwrap();
    command.args(["node", "--quiet", "--config"]).arg(&path);
    Running(command.stdout(Stdio::null()).spawn().unwrap())
}

/// Asks `to` for an echo through the node at `socket` until one comes, for a limited time.
fn echoes(socket: &Path, to: Target) -> bool {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if ask(socket, to) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    false
}

fn ask(socket: &Path, to: Target) -> bool {
    let Ok(socket) = Node::at(socket).bind(0, Options::best_effort()) else {
        return false;
    };
    let request = Echo {
        kind: Kind::Request,
        id: 1,
        seq: 1,
        stamp_us: 0,
        node: socket.local().node,
        hop: 0,
    };
    let mut bytes = [0; ECHO_BYTES];
    request.emit(&mut bytes).unwrap();
    socket.set_nonblocking(true).unwrap();
    if socket.send_to(&bytes, to).is_err() {
        return false;
    }
    let until = Instant::now() + Duration::from_millis(300);
    let mut buffer = [0; 64];
    while Instant::now() < until {
        if let Ok((len, from, _)) = socket.recv_from(&mut buffer) {
            let kind = Echo::parse(&buffer[..len]).map(|echo| echo.kind);
            return from.node == to.node && kind == Ok(Kind::Reply);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    false
}

/// Returns the byte at this position of every stream.
fn byte(at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// A stream that is written until the test stops it, and read to its end.
#[derive(Default)]
struct Pouring {
    read: AtomicU64,
    stop: AtomicBool,
}

impl Pouring {
    /// Returns the number of written bytes, all of which arrived unchanged.
    fn pour(&self, from: &Path, to: &Path, at: Target) -> u64 {
        let listener = Node::at(to).listen(at.port.0, Options::stream()).unwrap();
        let near = Node::at(from).connect(at, Options::stream()).unwrap();
        let far = listener.accept_bytes().unwrap();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| self.write(&near));
            let read = self.read(&far);
            assert_eq!(writer.join().unwrap(), read);
            read
        })
    }

    fn write(&self, mut near: &client::Stream) -> u64 {
        let mut written = 0;
        while !self.stop.load(Ordering::Relaxed) {
            let block: Vec<u8> = (written..written + 4096).map(byte).collect();
            near.write_all(&block).unwrap();
            written += block.len() as u64;
        }
        near.shutdown(Shutdown::Write).unwrap();
        written
    }

    fn read(&self, mut far: &client::Stream) -> u64 {
        let (mut buffer, mut read) = ([0; 4096], 0);
        loop {
            let len = far.read(&mut buffer).unwrap();
            let is_same = |(n, b): (usize, &u8)| *b == byte(read + n as u64);
            assert!(buffer[..len].iter().enumerate().all(is_same), "at {read}");
            read += len as u64;
            self.read.store(read, Ordering::Relaxed);
            if len == 0 {
                return read;
            }
        }
    }

    /// Waits until further bytes arrive, for a limited time.
    fn goes_on(&self) -> bool {
        let (before, until) = (self.read.load(Ordering::Relaxed), Instant::now() + PATIENCE);
        // The number is larger than what was in flight and in buffers.
        while self.read.load(Ordering::Relaxed) < before + (16 << 20) {
            if Instant::now() > until {
                return false;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        true
    }
}

fn scratch() -> PathBuf {
    let path = std::env::temp_dir().join(format!("sinew-nat-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

#[test]
fn a_neighbour_behind_nat_is_followed_when_the_router_rebinds() {
    if let Err(why) = available() {
        eprintln!("SKIPPED: a_neighbour_behind_nat_is_followed: {why}");
        return;
    }
    let [inner, router, outer] = [0; 3].map(|_| Namespace::new().unwrap());
    inner.veth("i0", &router, "r0").unwrap();
    router.veth("r1", &outer, "o0").unwrap();
    inner
        .ip(&["addr", "add", "10.99.1.2/24", "dev", "i0"])
        .unwrap();
    router
        .ip(&["addr", "add", "10.99.1.1/24", "dev", "r0"])
        .unwrap();
    router
        .ip(&["addr", "add", "10.99.2.1/24", "dev", "r1"])
        .unwrap();
    outer
        .ip(&["addr", "add", "10.99.2.2/24", "dev", "o0"])
        .unwrap();
    inner
        .ip(&["route", "add", "default", "via", "10.99.1.1"])
        .unwrap();
    router.sysctl("net/ipv4/ip_forward", "1").unwrap();
    let masquerade = "table ip nat {\nchain post {\ntype nat hook postrouting priority 100;\n\
                      oifname \"r1\" masquerade;\n}\n}\n";
    if !nft::load(&router, masquerade) {
        eprintln!("SKIPPED: a_neighbour_behind_nat_is_followed: nftables cannot masquerade here");
        return;
    }
    let dir = scratch();
    let net = dir.join("net");
    let net = net.to_str().unwrap();
    sinew(&["net", "init", net, "--name", "nat-test"]);
    for (name, overlay, address) in [
        ("hub", "10.7.0.1", "10.99.2.2:7700"),
        ("inner", "10.7.0.2", "10.99.1.2:7700"),
    ] {
        let args = [
            "net",
            "add",
            net,
            name,
            "--address",
            address,
            "--overlay",
            overlay,
        ];
        sinew(&[&args[..], &["--link", "none"]].concat());
    }
    let (hub_dir, inner_dir) = (dir.join("net/hub"), dir.join("net/inner"));
    let _hub = start(&outer, &hub_dir, "10.99.2.2:7700", "");
    let neighbor = "[[neighbor]]\nname = 'hub'\naddress = '10.7.0.1'\n\
                    endpoint = '10.99.2.2:7700'\n";
    let _inner = start(&inner, &inner_dir, "10.99.1.2:7700", neighbor);
    let inner_node = Target::new("10.7.0.2".parse().unwrap(), PORT.0);
    let hub_socket = hub_dir.join("c.sock");
    assert!(
        echoes(&hub_socket, inner_node),
        "the hub reaches the node behind the router"
    );

    let inner_socket = inner_dir.join("c.sock");
    let streams = [
        (&hub_socket, &inner_socket, "10.7.0.2"),
        (&inner_socket, &hub_socket, "10.7.0.1"),
    ];
    let pouring = [Pouring::default(), Pouring::default()];
    std::thread::scope(|scope| {
        let threads: Vec<_> = (streams.iter().zip(&pouring))
            .map(|((from, to, node), pouring)| {
                let at = Target::new(node.parse().unwrap(), 5_000);
                scope.spawn(move || pouring.pour(from, to, at))
            })
            .collect();
        let go_on = || pouring.iter().all(Pouring::goes_on);
        let before = go_on();
        // The kernel forgets the bindings of an address that is removed. The new address gets new bindings.
        router
            .ip(&["addr", "del", "10.99.2.1/24", "dev", "r1"])
            .unwrap();
        router
            .ip(&["addr", "add", "10.99.2.9/24", "dev", "r1"])
            .unwrap();
        let follows = echoes(&hub_socket, inner_node);
        let after = go_on();
        for pouring in &pouring {
            pouring.stop.store(true, Ordering::Relaxed);
        }
        assert!(before, "the streams run");
        assert!(follows, "the hub follows the node to its new address");
        assert!(after, "the streams go on");
        for thread in threads {
            assert!(thread.join().unwrap() > 0);
        }
    });
    let status = Command::new(env!("CARGO_BIN_EXE_sinew"))
        .args(["links", "--json", "--node"])
        .arg(hub_dir.join("o.ctl"))
        .output()
        .unwrap();
    let links = String::from_utf8_lossy(&status.stdout);
    assert!(links.contains("10.99.2.9"), "{links}");
    std::fs::remove_dir_all(&dir).unwrap();
}
