//! Interfaces and paths of any MTU: a node joins a network of eleven over them, and every kind of traffic passes. Real
//! nodes in network namespaces. The tests need root; without root they print a line and skip.
//!
//! ```text
//!   both ends   joiner ── MTU ── core
//!   one end     joiner ── MTU ── router ── 1500 ── core
//!   path        joiner ── 1500 ── router ── MTU ── router ── 1500 ── core
//! ```
//!
//! The nodes have the addresses of loopback interfaces, so that only routes change from case to case. Each case prints
//! its measurements.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that shows what it measured, and says when it is skipped"
)]

mod world;

use client::{DatagramSocket, Error, Node, Options, Stream, Target};
use net::netns::{Namespace, available};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use world::World;

/// The number of nodes of the core. One more node joins.
const CORE: u16 = 11;
const JOINER: &str = "n12";
/// The node at the far end of the traffic.
const FAR: &str = "n11";
const PORT: u16 = 5_000;
const GROUP: &str = "239.1.1.1";
/// How long to wait for one datagram before it is sent again.
const MOMENT: base::Duration = base::Duration::from_millis(500);
/// How many times a datagram is sent. Only a failure needs so many.
const TRIES: u32 = 60;
const STREAM_BYTES: usize = 2_000_000;
/// Lengths of long datagrams, which need fragments: around the MTUs of the test, up to the longest one.
const LONG: [usize; 4] = [2_000, 9_000, 30_000, 65_507];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    V4,
    V6,
}

impl Family {
    /// Returns the address of the nodes in the core's network (1) or in the joiner's (2).
    fn host(self, which: u8) -> String {
        match self {
            Family::V4 => format!("10.98.0.{which}"),
            Family::V6 => format!("fd98::{which}"),
        }
    }

    /// Returns the address of an end of a segment.
    fn end(self, segment: usize, end: u8) -> String {
        match self {
            Family::V4 => format!("10.98.{}.{end}", segment + 1),
            Family::V6 => format!("fd98:{}::{end}", segment + 1),
        }
    }

    /// Returns the prefix lengths of one host's network and of a segment's network.
    fn bits(self) -> (u8, u8) {
        match self {
            Family::V4 => (32, 24),
            Family::V6 => (128, 64),
        }
    }

    fn ip(self, at: &Namespace, words: &str) {
        let family = match self {
            Family::V4 => "-4",
            Family::V6 => "-6",
        };
        let words: Vec<&str> = [family].into_iter().chain(words.split(' ')).collect();
        at.ip(&words).unwrap();
    }

    fn add(self, at: &Namespace, address: &str, interface: &str) {
        let nodad = if self == Family::V6 { " nodad" } else { "" };
        self.ip(at, &format!("address add {address} dev {interface}{nodad}"));
    }

    /// Returns the range of UDP payload that a link must find over an interface of `mtu`.
    fn usable(self, mtu: u16) -> std::ops::RangeInclusive<u64> {
        let headers = if self == Family::V4 { 28 } else { 48 };
        match u64::from(mtu) - headers {
            carried @ 1_439.. => 1_439..=1_439.min(carried),
            carried @ 1_216.. => carried - 16..=carried,
            carried => 1_200..=carried.max(1_200),
        }
    }
}

/// The path from the joiner's network to the core's network.
struct Lane<'a> {
    core: &'a Namespace,
    /// The namespaces of the joiner and of the routers.
    spaces: Vec<Namespace>,
}

impl<'a> Lane<'a> {
    /// Makes segments with these MTUs, the joiner's first.
    fn new(core: &'a Namespace, family: Family, mtus: &[u16]) -> Lane<'a> {
        let spaces: Vec<Namespace> = mtus.iter().map(|_| namespace()).collect();
        let lane = Lane { core, spaces };
        let (host_bits, bits) = family.bits();
        family.add(lane.at(0), &format!("{}/{host_bits}", family.host(2)), "lo");
        for router in &lane.spaces[1..] {
            let forwarding = match family {
                Family::V4 => "net/ipv4/ip_forward",
                Family::V6 => "net/ipv6/conf/all/forwarding",
            };
            router.sysctl(forwarding, "1").unwrap();
        }
        for (i, mtu) in mtus.iter().enumerate() {
            let (left, right) = (lane.at(i), lane.at(i + 1));
            left.veth(&format!("right{i}"), right, &format!("left{i}"))
                .unwrap();
            lane.set_mtu(i, *mtu);
            family.add(
                left,
                &format!("{}/{bits}", family.end(i, 1)),
                &format!("right{i}"),
            );
            family.add(
                right,
                &format!("{}/{bits}", family.end(i, 2)),
                &format!("left{i}"),
            );
            let (joiner, core) = (family.host(2), family.host(1));
            // The node's own address is bound, whichever address the kernel would prefer.
            family.ip(left, &format!("route add {core} via {}", family.end(i, 2)));
            family.ip(
                right,
                &format!("route add {joiner} via {}", family.end(i, 1)),
            );
        }
        lane
    }

    fn at(&self, place: usize) -> &Namespace {
        self.spaces.get(place).unwrap_or(self.core)
    }

    fn set_mtu(&self, segment: usize, mtu: u16) {
        let mtu = mtu.to_string();
        for (space, side) in [(segment, "right"), (segment + 1, "left")] {
            let interface = format!("{side}{segment}");
            self.at(space)
                .ip(&["link", "set", &interface, "mtu", &mtu])
                .unwrap();
        }
    }

    /// Stops the routers from reporting what they drop.
    fn silence(&self, family: Family) {
        let protocol = match family {
            Family::V4 => "icmp",
            Family::V6 => "ipv6-icmp",
        };
        for router in &self.spaces[1..] {
            let rule = format!("rule add pref 10 ipproto {protocol} type blackhole");
            family.ip(router, &rule);
        }
    }
}

impl Drop for Lane<'_> {
    fn drop(&mut self) {
        let last = format!("left{}", self.spaces.len() - 1);
        let _ = self.core.ip(&["link", "delete", &last]);
    }
}

/// Makes a network whose interfaces are ready at once: by default, IPv6 checks for seconds whether another host has the
/// same addresses.
fn namespace() -> Namespace {
    let namespace = Namespace::new().unwrap();
    for which in ["all", "default"] {
        for setting in ["accept_dad", "dad_transmits"] {
            let name = format!("net/ipv6/conf/{which}/{setting}");
            namespace.sysctl(&name, "0").unwrap();
        }
    }
    namespace
}

/// Makes eleven nodes in a network of their own, and the certificate of one more.
fn network(name: &str, family: Family) -> (World, Namespace) {
    let core = namespace();
    let (bits, _) = family.bits();
    family.add(&core, &format!("{}/{bits}", family.host(1)), "lo");
    let mut world = World::new(name);
    for number in 1..=CORE + 1 {
        let host = family.host(if number > CORE { 2 } else { 1 });
        let host = if family == Family::V6 {
            format!("[{host}]")
        } else {
            host
        };
        let port = 7_700 + number;
        let name = format!("n{number}");
        world.sinew(&format!("net add net {name} --address {host}:{port}"));
        world.listen(&name, &format!("{host}:{port}"));
        world.configure(&name, "realtime_priority = false");
    }
    for number in 1..=CORE {
        world.launch_in(&format!("n{number}"), &core);
    }
    for number in 1..=CORE {
        let name = format!("n{number}");
        world.wait(&format!("{name} knows the core"), || {
            known(&world, &name) == usize::from(CORE)
        });
    }
    (world, core)
}

fn snapshot(world: &World, name: &str) -> Option<Value> {
    let mut stream = UnixStream::connect(world.control(name)).ok()?;
    stream.write_all(b"{\"cmd\":\"snapshot\"}\n").ok()?;
    stream.shutdown(Shutdown::Write).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    serde_json::from_str(&answer).ok()
}

/// Returns how many nodes a node can reach, itself included.
fn known(world: &World, name: &str) -> usize {
    let Some(status) = snapshot(world, name) else {
        return 0;
    };
    let nodes = status["nodes"].as_array().unwrap().iter();
    nodes
        .filter(|node| node["expected_latency_ms"].is_f64())
        .count()
}

/// Returns the longest packets of a node's links that are up.
fn carried(world: &World, name: &str) -> Vec<u64> {
    let status = snapshot(world, name).unwrap();
    let links = status["snapshot"]["links"].as_array().unwrap().iter();
    links
        .filter(|link| link["state"] == "up")
        .map(|link| link["mtu_bytes"].as_u64().unwrap())
        .collect()
}

/// Returns the longest packet of the far node's link to the joiner.
fn carried_back(world: &World) -> Option<u64> {
    let status = snapshot(world, FAR).unwrap();
    let links = status["snapshot"]["links"].as_array().unwrap();
    let link = links.iter().find(|link| link["name"] == JOINER)?;
    link["mtu_bytes"].as_u64()
}

/// Starts the joiner. Returns how long it takes until it knows all nodes.
fn join(world: &mut World, lane: &Lane<'_>) -> Duration {
    let began = Instant::now();
    world.launch_in(JOINER, lane.at(0));
    world.wait("the joiner knows all nodes", || {
        known(world, JOINER) == usize::from(CORE) + 1
    });
    began.elapsed()
}

/// Waits until the links of the joiner have found their longest packet, in both directions. Returns how long that
/// takes.
fn settle(world: &World, family: Family, mtu: u16) -> Duration {
    let (began, range) = (Instant::now(), family.usable(mtu));
    world.wait(&format!("links carry {range:?}"), || {
        let there = carried(world, JOINER);
        there.len() == usize::from(CORE)
            && there.iter().all(|bytes| range.contains(bytes))
            && carried_back(world).is_some_and(|bytes| range.contains(&bytes))
    });
    began.elapsed()
}

fn lengths() -> impl Iterator<Item = usize> {
    let around = (1_080..1_480).step_by(7);
    [1, 160, 500, 520, 548, 1_000]
        .into_iter()
        .chain(around)
        .chain(LONG)
}

/// Sends datagrams of all lengths until each has arrived. Returns how many it had to send twice.
fn deliver(from: &DatagramSocket, to: &DatagramSocket, target: Target) -> usize {
    to.set_nonblocking(true).unwrap();
    let mut poller = net::epoll::Poller::new().unwrap();
    poller.add(to, 0, net::epoll::Interest::READ).unwrap();
    let (mut ready, mut buffer, mut again) = (Vec::new(), vec![0; 65_507], 0);
    for length in lengths() {
        let payload: Vec<u8> = (0..length).map(|i| (i * 7 + length) as u8).collect();
        let mut has_come = false;
        for attempt in 0..TRIES {
            again += usize::from(attempt > 0);
            from.send_to(&payload, target).unwrap();
            poller.wait(Some(MOMENT), &mut ready).unwrap();
            loop {
                match to.recv_from(&mut buffer) {
                    Ok((len, ..)) if len == length => {
                        assert!(buffer[..len] == payload, "other bytes than were sent");
                        has_come = true;
                    }
                    // This is an earlier datagram that was sent twice.
                    Ok(_) => {}
                    Err(Error::WouldBlock) => break,
                    Err(error) => panic!("{error}"),
                }
            }
            if has_come {
                break;
            }
        }
        assert!(has_come, "a datagram of {length} bytes to {target:?}");
    }
    again
}

/// Sends the bytes of a stream from one node to another.
fn stream(from: &Node, to: &Node, target: Target) {
    let listener = to.listen(PORT, Options::stream()).unwrap();
    let target = Target::new(target.node, PORT);
    let sent: Vec<u8> = (0..STREAM_BYTES).map(|i| (i * i / 7) as u8).collect();
    let out = from.connect(target, Options::stream()).unwrap();
    let mut came = listener.accept_bytes().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (&out).write_all(&sent).unwrap();
            out.shutdown(Shutdown::Write).unwrap();
        });
        let mut got = Vec::new();
        came.read_to_end(&mut got).unwrap();
        assert!(got == sent, "{} bytes of {}", got.len(), sent.len());
    });
}

/// Exchanges every kind of traffic between the joiner and the far node, in both directions. Returns how many datagrams
/// were sent twice.
fn exchange(world: &World) -> Vec<usize> {
    let sent = world.ping(&format!("{FAR} --count 5 --node net/{JOINER}"));
    assert_eq!(sent["received"], 5);
    let ends = [JOINER, FAR].map(|name| Node::at(world.socket(name)));
    let classes = [
        Options::best_effort(),
        Options::voice(Duration::from_secs(5)),
        Options {
            deadline: None,
            ..Options::stream()
        },
    ];
    let mut again = Vec::new();
    for (from, to) in [(0, 1), (1, 0)] {
        let (from, to) = (&ends[from], &ends[to]);
        for class in classes {
            let (out, into) = (from.bind(0, class).unwrap(), to.bind(0, class).unwrap());
            again.push(deliver(&out, &into, into.local()));
            if class.link == Options::voice(Duration::ZERO).link {
                let group: base::NodeAddr = GROUP.parse().unwrap();
                into.join(group, PORT).unwrap();
                again.push(deliver(&out, &into, Target::new(group, PORT)));
            }
        }
        let target = to.bind(0, Options::stream()).unwrap().local();
        stream(from, to, target);
    }
    again
}

/// The joiner joins over this path, whose narrowest segment has `mtu`, and leaves again.
fn visit(world: &mut World, family: Family, lane: &Lane<'_>, mtu: u16, what: &str) {
    let joined = join(world, lane);
    let settled = settle(world, family, mtu);
    let again = exchange(world);
    // On a busy machine, a link may need a moment to check whether the other end is there. It is up again, and still
    // carries the same.
    settle(world, family, mtu);
    println!(
        "{family:?} {what}: joined after {joined:?}, MTU found {settled:?} later, sent twice {again:?}"
    );
    world.stop(JOINER);
}

fn is_possible(test: &str) -> bool {
    let available = available();
    if let Err(why) = &available {
        eprintln!("SKIPPED: {test}: {why}");
    }
    available.is_ok()
}

fn interfaces(name: &str, family: Family, mtus: &[u16]) {
    if !is_possible(name) {
        return;
    }
    let (mut world, core) = network(name, family);
    for mtu in mtus {
        let both = Lane::new(&core, family, &[*mtu]);
        visit(&mut world, family, &both, *mtu, &format!("{mtu} both ends"));
        drop(both);
        let one = Lane::new(&core, family, &[*mtu, 1_500]);
        let least = *mtu.min(&1_500);
        visit(&mut world, family, &one, least, &format!("{mtu} one end"));
    }
}

#[test]
fn interfaces_of_ipv4() {
    let mtus = [576, 1_280, 1_380, 1_420, 1_460, 9_000];
    interfaces("interfaces_of_ipv4", Family::V4, &mtus);
}

#[test]
fn interfaces_of_ipv6() {
    let mtus = [1_280, 1_380, 1_420, 1_460, 9_000];
    interfaces("interfaces_of_ipv6", Family::V6, &mtus);
}

fn paths(name: &str, family: Family, narrow: &[u16]) {
    if !is_possible(name) {
        return;
    }
    let (mut world, core) = network(name, family);
    for mtu in narrow {
        for is_silent in [false, true] {
            let lane = Lane::new(&core, family, &[1_500, *mtu, 1_500]);
            let what = match is_silent {
                true => format!("{mtu} on the path, no ICMP"),
                false => format!("{mtu} on the path, ICMP"),
            };
            if is_silent {
                lane.silence(family);
            }
            visit(&mut world, family, &lane, *mtu, &what);
        }
    }
}

#[test]
fn paths_of_ipv4() {
    paths("paths_of_ipv4", Family::V4, &[576, 1_280]);
}

#[test]
fn paths_of_ipv6() {
    paths("paths_of_ipv6", Family::V6, &[1_280]);
}

/// Runs a stream between the joiner and the far node. The function calls `change` after some data has arrived, and ends
/// when much more has.
fn goes_on(world: &World, change: impl FnOnce()) -> Duration {
    const BEFORE: u64 = 3_000_000;
    const AFTER: u64 = 3_000_000;
    let [from, to] = [JOINER, FAR].map(|name| Node::at(world.socket(name)));
    let listener = to.listen(PORT, Options::stream()).unwrap();
    let target = Target::new(world.overlay_address(FAR).parse().unwrap(), PORT);
    let out: Stream = from.connect(target, Options::stream()).unwrap();
    let mut came = listener.accept_bytes().unwrap();
    let (is_enough, read) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let (piece, mut written) = ([0x5a; 10_000], 0);
            while !is_enough.load(Ordering::Acquire) {
                (&out).write_all(&piece).unwrap();
                written += piece.len() as u64;
            }
            out.shutdown(Shutdown::Write).unwrap();
            written
        });
        let reader = scope.spawn(|| {
            let mut buffer = [0; 65_536];
            loop {
                let len = came.read(&mut buffer).unwrap();
                if len == 0 {
                    break;
                }
                read.fetch_add(len as u64, Ordering::AcqRel);
            }
        });
        let so_far = || read.load(Ordering::Acquire);
        world.wait("the stream flows", || so_far() >= BEFORE);
        change();
        let (began, at) = (Instant::now(), so_far());
        world.wait("the stream goes on", || so_far() >= at + AFTER);
        let took = began.elapsed();
        is_enough.store(true, Ordering::Release);
        let written = writer.join().unwrap();
        reader.join().unwrap();
        assert_eq!(so_far(), written);
        took
    })
}

fn shrinking(name: &str, family: Family) {
    if !is_possible(name) {
        return;
    }
    let (mut world, core) = network(name, family);
    // The MTU shrinks at the joiner's own interface, and behind a router that reports it or does not.
    for (segment, is_silent) in [(0, false), (1, false), (1, true)] {
        let lane = Lane::new(&core, family, &[1_500, 1_500, 1_500]);
        if is_silent {
            lane.silence(family);
        }
        join(&mut world, &lane);
        settle(&world, family, 1_500);
        let took = goes_on(&world, || lane.set_mtu(segment, 1_280));
        // A link that carries no long packets is not tested for a while. Its traffic continues in fragments.
        let again = exchange(&world);
        println!(
            "{family:?} segment {segment} shrinks, silent {is_silent}: 3 MB took {took:?}, sent twice {again:?}, carried {:?}",
            carried(&world, JOINER)
        );
        world.stop(JOINER);
    }
}

#[test]
fn an_ipv4_path_that_shrinks_under_a_stream() {
    shrinking("an_ipv4_path_that_shrinks", Family::V4);
}

#[test]
fn an_ipv6_path_that_shrinks_under_a_stream() {
    shrinking("an_ipv6_path_that_shrinks", Family::V6);
}
