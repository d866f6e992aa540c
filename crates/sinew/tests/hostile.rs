//! Real nodes under attack while a voice stream runs through them: floods of handshakes; thousands
//! of clients that send nothing, that send too fast, or that are killed; and an unwanted neighbour.
//! The test checks the loss of the stream and the memory of the node.
//!
//! The permitted loss is generous, for busy machines. On a quiet machine nothing is lost, which the
//! ignored test asserts.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_macros,
    reason = "a test that shows what it measured, and says where it cannot go on"
)]

mod world;

use base::Time;
use client::{Error, Node, Options, Target};
use net::unix::SeqStream;
use secure::{Handshakes, Identity};
use std::io::{ErrorKind, IoSlice};
use std::net::UdpSocket;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use world::World;
use world::streams::Stream;

/// Packets of a stream per second.
const RATE: u64 = 50;
/// Packets that may still be in flight when a stream is checked: 200 ms of deadline.
const TAIL: u64 = 10;
/// How many packets a stream may lose on a busy machine, where the attacker, the nodes and other
/// tests share two cores: half a second of the stream.
const LOOSE: u64 = RATE / 2;
/// How much an attack may add to a node's memory: 1200 half-open handshakes of 4 KiB, packet
/// buffers that were never needed before, and the allocator's own memory.
const GROWTH_KIB: u64 = 24 * 1024;

/// Two nodes, and a stream from the first one, which is attacked, to the second.
struct Siege {
    world: World,
    stream: Stream,
    memory_kib: u64,
}

impl Siege {
    fn new(test: &str) -> Siege {
        let mut world = World::new(test);
        world.add("ams", 1, "");
        world.add("fra", 2, "");
        world.start("ams");
        world.start("fra");
        world.wait_for_link("ams", "fra");
        let fra = world.overlay_address("fra");
        world.wait("ams has a route to fra", || world.has_route("ams", &fra));
        let stream = Stream::begin("voice", world.socket("ams"), world.socket("fra"), 5_000);
        stream.run(RATE);
        let memory_kib = memory_kib(&world);
        Siege {
            world,
            stream,
            memory_kib,
        }
    }

    /// Asserts that the stream has lost no more than `bound`, and that the node has not grown.
    fn end(mut self, what: &str, bound: u64) {
        self.stream.run(RATE);
        self.world.assert_all_run();
        let lost = self.stream.lost(0, self.stream.due() - TAIL);
        let grown = memory_kib(&self.world).saturating_sub(self.memory_kib);
        println!(
            "{what}: {lost} of {} packets lost, the node has grown by {grown} KiB",
            self.stream.due()
        );
        assert!(lost <= bound, "{lost} packets lost");
        assert!(grown < GROWTH_KIB, "grown by {grown} KiB");
        assert_eq!(self.stream.reconnected(), 0);
        assert_eq!(self.world.link("ams", "fra"), "up");
        assert_eq!(self.world.status("ams")["counters"]["links_down"], 0);
    }
}

fn memory_kib(world: &World) -> u64 {
    let path = format!("/proc/{}/status", world.pid("ams"));
    let status = std::fs::read_to_string(path).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.unwrap().split_whitespace().nth(1).unwrap();
    kib.parse().unwrap()
}

/// Makes first messages of handshakes as a member of the network sends them. They pass as valid
/// until their sender would have to prove its identity.
fn inits(world: &World, count: u8) -> Vec<Vec<u8>> {
    world.add("eve", 9, "");
    let read = |file: &str| std::fs::read_to_string(world.node("eve").join(file)).unwrap();
    let keys = secure::Keys::from_text(&read("node.key")).unwrap();
    let certificate = secure::Certificate::from_text(&read("node.cert")).unwrap();
    let network = secure::Network::from_text(&read("network.pub")).unwrap();
    let to = net::addr::underlay(world.endpoint(1), 0);
    let dial = |seed: u8| {
        let identity = Identity::new(keys.clone(), certificate.clone()).unwrap();
        let mut eve = Handshakes::new(identity, network.clone(), [seed; 32], Time::ZERO);
        eve.dial(Time::ZERO, to, None).unwrap()
    };
    (0..count).map(dial).collect()
}

/// 100 000 handshakes from 16 sources, `wave` of them every 10 ms.
fn flood_of_handshakes(wave: usize, bound: u64) {
    let siege = Siege::new(&format!("handshakes-{wave}"));
    let inits = inits(&siege.world, 50);
    let host = siege.world.endpoint(1).ip();
    let sources: Vec<UdpSocket> = (0..16)
        .map(|_| {
            let socket = UdpSocket::bind((host, 0)).unwrap();
            socket.connect(siege.world.endpoint(1)).unwrap();
            socket.set_nonblocking(true).unwrap();
            socket
        })
        .collect();
    let start = Instant::now();
    let mut answers = 0;
    for n in 0..100_000 {
        let source = &sources[n % sources.len()];
        let mut init = inits[n % inits.len()].clone();
        if n % 4 == 0 {
            // Every fourth message is damaged, each at a different position.
            let place = 1 + n / 4 % (init.len() - 1);
            init[place] ^= 0x55;
        }
        // If the kernel's buffer is full, the attacker waits.
        while source
            .send(&init)
            .is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
        {}
        while source.recv(&mut [0; 2_000]).is_ok() {
            answers += 1;
        }
        if n % wave == wave - 1 {
            let due = start + Duration::from_millis(10) * (n / wave) as u32;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
    }
    let status = siege.world.status("ams");
    let took = start.elapsed().as_secs_f64();
    println!(
        "100000 handshakes in {took:.1} s: {answers} answers, refused: {}",
        status["counters"]["refused"]
    );
    assert_eq!(status["counters"]["sessions"], 1, "nobody came of it");
    let refused = status["counters"]["refused"].as_object().unwrap();
    let refused: u64 = refused.values().filter_map(|count| count.as_u64()).sum();
    assert!(refused > 0);
    siege.end("handshakes", bound);
}

#[test]
fn a_flood_of_handshakes_does_no_harm_to_a_call() {
    flood_of_handshakes(200, LOOSE);
}

#[test]
#[ignore = "needs a quiet machine"]
fn a_flood_of_handshakes_costs_a_call_nothing_full() {
    flood_of_handshakes(200, 0);
    flood_of_handshakes(2_000, 0);
}

#[test]
fn as_many_clients_as_the_system_permits_are_bounded_and_released() {
    let permitted = net::sched::raise_descriptors().unwrap();
    // Use half of the descriptors that the process may open, because its other tests run at the
    // same time.
    let count = (host::clients::MAX_CLIENTS as u64 * 5 / 4).min(permitted / 2);
    let siege = Siege::new("clients");
    let path = siege.world.socket("ams");
    let mut silent = Vec::new();
    while silent.len() < count as usize {
        match SeqStream::connect(&path) {
            Ok(stream) => silent.push(stream),
            // A full backlog of the kernel means: try again in a moment.
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
    let clients = || {
        siege.world.status("ams")["host"]["clients"]
            .as_u64()
            .unwrap()
    };
    let most = host::clients::MAX_CLIENTS as u64;
    siege
        .world
        .wait("they are taken in", || clients() == most.min(count + 1));
    // A client that sends is served, and replaces one that sent nothing.
    let polite = Node::at(&path).bind(0, Options::best_effort()).unwrap();
    assert!(clients() <= most);
    // Some begin an invalid message; then all go.
    for stream in silent.iter().step_by(7) {
        let _ = stream.send_parts(&[IoSlice::new(&[0xee; 40])]);
    }
    drop((silent, polite));
    siege
        .world
        .wait("only the stream's own is left", || clients() == 1);
    let buffers = siege.world.status("ams")["host"]["buffers_small"].clone();
    assert!(buffers.as_u64().unwrap() < 100, "{buffers} in use");
    siege.end(&format!("{count} silent clients"), LOOSE);
}

#[test]
fn a_client_that_sends_without_pause_does_not_starve_a_call() {
    let siege = Siege::new("flood");
    let fra = siege.world.overlay_address("fra");
    let to = Target::parse(&format!("{fra}:6000")).unwrap();
    let over = AtomicBool::new(false);
    let sent = std::thread::scope(|scope| {
        let flood = scope.spawn(|| {
            let socket = Node::at(siege.world.socket("ams"));
            let socket = socket.bind(0, Options::best_effort()).unwrap();
            let mut sent = 0u64;
            while !over.load(Ordering::Acquire) {
                socket.send_to(&[7; 1_200], to).unwrap();
                sent += 1;
            }
            sent
        });
        siege.stream.run(3 * RATE);
        over.store(true, Ordering::Release);
        flood.join().unwrap()
    });
    // A client that does not wait for the node gets an error.
    let socket = Node::at(siege.world.socket("ams"));
    let socket = socket.bind(0, Options::best_effort()).unwrap();
    socket.set_nonblocking(true).unwrap();
    let refused = (0..20_000).find_map(|_| socket.send_to(&[7; 1_200], to).err());
    assert!(matches!(refused, None | Some(Error::WouldBlock)));
    siege.end(&format!("{sent} datagrams of another client"), LOOSE);
}

#[test]
fn clients_that_are_killed_leave_nothing_behind() {
    let siege = Siege::new("killed");
    let fra = siege.world.overlay_address("fra");
    let sockets = || siege.world.status("ams")["snapshot"]["sockets"].clone();
    assert_eq!(sockets(), 1, "the stream's own");
    for _ in 0..5 {
        let mut pings: Vec<_> = (0..4)
            .map(|_| {
                let mut ping = Command::new(env!("CARGO_BIN_EXE_sinew"));
                ping.current_dir(&siege.world.dir)
                    .args(["ping", &fra, "--count", "60000", "--interval", "1ms"])
                    .args(["--node", "net/ams"])
                    .stdout(std::process::Stdio::null());
                ping.spawn().unwrap()
            })
            .collect();
        siege.world.wait("all of them ping", || sockets() == 5);
        for ping in &mut pings {
            ping.kill().unwrap();
            ping.wait().unwrap();
        }
        siege.world.wait("all of them are gone", || sockets() == 1);
    }
    siege.end("20 killed clients", LOOSE);
}

#[test]
fn a_neighbour_that_is_not_wanted_is_refused_by_a_reason_of_its_own() {
    let mut world = World::new("unwanted");
    world.add("ams", 1, "");
    world.add("fra", 2, "");
    world.add("eve", 3, "--link ams");
    let metrics = world.endpoint(8);
    let fra = world.overlay_address("fra");
    let lines = format!("accept = [\"{fra}\"]\nmetrics = \"{metrics}\"");
    world.configure("ams", &lines);
    for name in ["ams", "fra", "eve"] {
        world.start(name);
    }
    let eve = world.overlay_address("eve");
    let line = world.wait_for_line("ams", "`accept` list");
    assert!(line.contains(&eve), "{line}");
    world.wait_for_link("ams", "fra");
    assert_eq!(world.link("ams", "eve"), "none");
    let refused = world.status("ams")["counters"]["refused"].clone();
    assert!(refused["not-accepted"].as_u64().unwrap() > 0, "{refused}");
    assert!(refused["full"].is_null(), "{refused}");
    let page = world.get(metrics);
    let label = "sinew_handshakes_refused_total{reason=\"not-accepted\"} ";
    assert!(page.contains(label), "{page}");
}
