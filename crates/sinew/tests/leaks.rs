//! Connections that are opened and dropped, one after the other and many at a time, must leave
//! nothing behind in any process: no descriptor, no stream, no buffer, no memory.
//!
//! The thousands of the full run take a while: `cargo test -p sinew --test leaks -- --ignored`.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test that shows what it measured, and says where it cannot go on"
)]

mod world;

use client::{Listener, Node, Options, Target};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use world::World;

const PORT: u16 = 5000;
/// Connections at the same time.
const WORKERS: usize = 16;
/// How much more memory a process may use after the connections than before, in KiB. Memory that an
/// allocator keeps varies within this limit. A stream's state has some hundreds of bytes and its
/// buffers have kilobytes, so thousands of leaked ones exceed the limit.
const SLACK_KIB: u64 = 8 << 10;

/// A program that runs until it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The resources that a process uses.
#[derive(Debug)]
struct Held {
    descriptors: usize,
    resident_kib: u64,
}

impl Held {
    fn by(pid: u32) -> Held {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
        let number = line.unwrap().split_whitespace().next();
        Held {
            descriptors: fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count(),
            resident_kib: number.unwrap().parse().unwrap(),
        }
    }
}

fn two_nodes(test: &str, more: &str) -> World {
    let mut world = World::new(test);
    for (name, number) in [("ams", 1), ("fra", 2)] {
        world.add(name, number, "");
    }
    let path = world.node("fra").join("node.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{text}\n{more}\n")).unwrap();
    world.start("ams");
    world.start("fra");
    world.wait_for_link("ams", "fra");
    world.wait("there are routes", || {
        world.has_route("ams", "10.7.0.2") && world.has_route("fra", "10.7.0.1")
    });
    world
}

/// Calls `once` for each number below `count`, [`WORKERS`] of them at the same time.
fn in_parallel(count: u32, once: impl Fn(u32) + Sync) {
    let next = AtomicU32::new(0);
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    match next.fetch_add(1, Ordering::Relaxed) {
                        n if n < count => once(n),
                        _ => return,
                    }
                }
            });
        }
    });
}

/// Waits until neither node has a stream, and each has the given number of clients.
fn wait_until_gone(world: &World, clients: [u64; 2]) {
    for (name, clients) in ["ams", "fra"].into_iter().zip(clients) {
        world.wait(&format!("{name} has no stream"), || {
            let status = world.status(name);
            let streams = status["snapshot"]["streams"].as_array().unwrap();
            streams.is_empty() && status["host"]["clients"] == clients
        });
        let buffers = world.status(name)["host"]["buffers_large"]
            .as_u64()
            .unwrap();
        assert!(buffers < 100, "{name}: {buffers} buffers are in use");
    }
}

/// Runs `some` connections, and then `many`. After that, the processes must use no more resources
/// than in between.
fn leaves_nothing(
    world: &World,
    others: &[(&str, u32)],
    clients: [u64; 2],
    [some, many]: [u32; 2],
    run: impl Fn(u32),
) {
    let mut processes = vec![("ams", world.pid("ams")), ("fra", world.pid("fra"))];
    processes.extend(others);
    // The first connections fill pools and tables.
    run(some);
    wait_until_gone(world, clients);
    let before: Vec<Held> = processes.iter().map(|(_, pid)| Held::by(*pid)).collect();
    run(many);
    wait_until_gone(world, clients);
    for ((name, pid), before) in processes.into_iter().zip(before) {
        world.wait(&format!("{name} has closed its descriptors"), || {
            Held::by(pid).descriptors <= before.descriptors
        });
        let after = Held::by(pid);
        println!("{many} connections: {name} before {before:?}, after {after:?}");
        assert!(
            after.resident_kib <= before.resident_kib + SLACK_KIB,
            "{name} has grown by {} KiB with {many} connections",
            after.resident_kib - before.resident_kib
        );
    }
}

/// Opens and drops streams from `from`. `listener` accepts them at the other end.
fn open_and_drop(from: &Node, listener: &Listener, count: u32) {
    let to = Target::parse(&format!("10.7.0.2:{PORT}")).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..count {
                let accepted = listener.accept_bytes().unwrap();
                match n % 5 {
                    0 => accepted.reset(),
                    1 => drop((&accepted).write_all(&[7; 3_000])),
                    // Data of the other end is not read.
                    _ => {}
                }
            }
        });
        in_parallel(count, |n| {
            let mut stream = from.connect(to, Options::stream()).unwrap();
            match n % 4 {
                0 => drop(stream.write_all(b"some bytes")),
                1 => stream.reset(),
                2 => drop(stream.read(&mut [0; 100])),
                _ => {}
            }
        });
    });
}

fn streams(test: &str, counts: [u32; 2]) {
    let world = two_nodes(test, "");
    let (ams, fra) = (Node::at(world.socket("ams")), Node::at(world.socket("fra")));
    let listener = fra.listen(PORT, Options::stream()).unwrap();
    leaves_nothing(&world, &[], [0, 1], counts, |count| {
        open_and_drop(&ams, &listener, count);
    });
}

#[test]
fn streams_opened_and_dropped_leave_nothing() {
    streams("dropped", [100, 400]);
}

#[test]
#[ignore = "takes a minute"]
fn ten_thousand_streams_opened_and_dropped_leave_nothing() {
    streams("dropped-full", [1_000, 10_000]);
}

/// Starts a TCP server that answers every line, until the client closes.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    thread::spawn(move || {
        for tcp in listener.incoming() {
            let tcp = tcp.unwrap();
            thread::spawn(move || std::io::copy(&mut &tcp, &mut &tcp));
        }
    });
    at
}

/// Sends a line, and closes or aborts the connection. Two of three visits read the answer first.
fn visit(mut tcp: TcpStream, n: u32) {
    tcp.write_all(b"hello").unwrap();
    if !n.is_multiple_of(3) {
        let mut heard = [0; 5];
        tcp.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"hello");
    }
    if n.is_multiple_of(2) {
        net::tcp::abort(&tcp);
    }
}

/// Starts `sinew` with these words, and returns the address at which it listens.
fn listening(world: &World, words: &str) -> (Running, SocketAddr) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sinew"));
    command
        .current_dir(&world.dir)
        .args(words.split_whitespace())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = Running(command.spawn().unwrap());
    let mut out = BufReader::new(child.0.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    let said: Value = serde_json::from_str(&line).unwrap();
    let at = said["at"].as_str().unwrap().parse().unwrap();
    // Its further output is read, so that the process never waits for a reader.
    thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
    (child, at)
}

#[test]
fn connections_carried_by_forward_and_dropped_leave_nothing() {
    let exit = format!("[[exit]]\nport = 2080\nto = \"{}\"", echo());
    let world = two_nodes("dropped-forward", &exit);
    world.wait_for_line("fra", "exit: port 2080 leads to");
    let (near, at) = listening(&world, "forward 0 fra:2080 --json --node net/ams");
    let others = [("forward", near.0.id())];
    leaves_nothing(&world, &others, [0, 1], [50, 300], |count| {
        in_parallel(count, |n| visit(TcpStream::connect(at).unwrap(), n));
    });
}

#[test]
fn connections_carried_by_socks_and_dropped_leave_nothing() {
    let target = echo();
    let exit = format!("[[exit]]\nallow = [\"{target}\"]");
    let world = two_nodes("dropped-socks", &exit);
    world.wait_for_line("fra", "exit: gateways");
    let words = "gateway socks --listen 127.0.0.1:0 --exit fra --json --node net/ams";
    let (socks, at) = listening(&world, words);
    let SocketAddr::V4(target) = target else {
        panic!("an address of IPv4");
    };
    let mut request = vec![5, 1, 0, 5, 1, 0, 1];
    request.extend(target.ip().octets());
    request.extend(target.port().to_be_bytes());
    let others = [("socks", socks.0.id())];
    // The exit has a listener and a socket for datagrams.
    leaves_nothing(&world, &others, [0, 2], [50, 300], |count| {
        in_parallel(count, |n| {
            let mut tcp = TcpStream::connect(at).unwrap();
            tcp.write_all(&request).unwrap();
            if n % 7 == 0 {
                // Close without having read the answer.
                return;
            }
            let mut answer = [0; 12];
            tcp.read_exact(&mut answer).unwrap();
            assert_eq!(answer[..4], [5, 0, 5, 0]);
            visit(tcp, n);
        });
    });
}
