//! Two bridges on one network, in network namespaces, with real nodes: which bridge carries packets when a node or its
//! uplink fails, and how much a host of the network can disturb the others. The tests need root; without root they
//! print a line and skip.
//!
//! ```text
//!   s: program ─ TAP ─ bridge in node s ══ wan ══ node x ─ bridge ┐
//!                                           ║                    ├ lan ─ hosts
//!                                           ╚═════ node y ─ bridge ┘
//! ```
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test that says when it is skipped, and what it has measured"
)]

mod world;

use gateway::amt::message::Message;
use gateway::multicast::igmp::RecordKind;
use gateway::multicast::igmp::emit::{self, Speaker};
use gateway::multicast::packet;
use net::netns::{Namespace, available};
use serde_json::Value;
use socket2::{Domain, Protocol, Socket, Type};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use world::World;

const PORT: u16 = 5_004;
/// The address of the source's TAP.
const TAP: Ipv4Addr = Ipv4Addr::new(10, 94, 0, 1);
/// The time between two packets.
const PACE: Duration = Duration::from_millis(5);
/// Number of packets in a second, which is the longest permitted gap.
const SECOND: u64 = 200;

/// The place of the network's bridges.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Beside,
    Inside,
}

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Namespaces on one Ethernet switch.
struct Network {
    _switch: Namespace,
}

impl Network {
    fn new(members: &[(&Namespace, &str, &str)]) -> Network {
        let switch = Namespace::new().unwrap();
        let bridge = [
            "link",
            "add",
            "br0",
            "type",
            "bridge",
            "mcast_snooping",
            "0",
        ];
        switch.ip(&bridge).unwrap();
        switch.ip(&["link", "set", "br0", "up"]).unwrap();
        for (n, (member, interface, address)) in members.iter().enumerate() {
            let port = format!("p{n}");
            switch.veth(&port, member, interface).unwrap();
            switch.ip(&["link", "set", &port, "master", "br0"]).unwrap();
            let add = ["address", "add", address, "dev", interface];
            member.ip(&add).unwrap();
        }
        Network { _switch: switch }
    }
}

/// All namespaces, nodes and bridges.
struct Site {
    world: World,
    s: Namespace,
    x: Namespace,
    y: Namespace,
    /// Two hosts of the network.
    hosts: [Namespace; 2],
    _networks: [Network; 2],
    bridges: Vec<Running>,
    mode: Mode,
}

impl Site {
    fn new(name: &str, mode: Mode) -> Site {
        let new = || Namespace::new().unwrap();
        let (s, x, y, hosts) = (new(), new(), new(), [new(), new()]);
        let wan = Network::new(&[
            (&s, "wan", "10.99.0.1/24"),
            (&x, "wan", "10.99.0.2/24"),
            (&y, "wan", "10.99.0.3/24"),
        ]);
        let lan = Network::new(&[
            (&x, "lan", "10.95.0.2/24"),
            (&y, "lan", "10.95.0.3/24"),
            (&hosts[0], "lan", "10.95.0.10/24"),
            (&hosts[1], "lan", "10.95.0.11/24"),
        ]);
        for host in &hosts {
            let route = ["route", "add", "224.0.0.0/4", "dev", "lan"];
            host.ip(&route).unwrap();
            // A host may join as many groups as the test wants.
            host.sysctl("net/ipv4/igmp_max_memberships", "4000")
                .unwrap();
        }
        let world = World::new(name);
        for (n, name) in ["s", "x", "y"].iter().enumerate() {
            let address = format!("10.99.0.{}:7701", n + 1);
            world.sinew(&format!("net add net {name} --address {address}"));
        }
        let more = |name: &str, lines: &str| {
            let path = world.dir.join(format!("net/{name}/node.toml"));
            let text = fs::read_to_string(&path).unwrap();
            fs::write(path, format!("{text}\n[multicast]\n{lines}\n")).unwrap();
        };
        more("s", &format!("tap = \"mc0\"\naddress = \"{TAP}/24\""));
        if mode == Mode::Inside {
            more("x", "interface = \"lan\"\npriority = 50");
            more("y", "interface = \"lan\"");
        }
        let mut site = Site {
            world,
            s,
            x,
            y,
            hosts,
            _networks: [wan, lan],
            bridges: Vec::new(),
            mode,
        };
        site.start();
        site
    }

    fn start(&mut self) {
        for (name, inside) in [("s", &self.s), ("x", &self.x), ("y", &self.y)] {
            self.world.launch_in(name, inside);
        }
        let answers = |name: &str| {
            let words = format!("status --node net/{name}");
            self.world.try_sinew(&words).status.success()
        };
        self.world.wait("the nodes answer", || {
            ["s", "x", "y"].iter().all(|name| answers(name))
        });
        for (a, b) in [("s", "x"), ("s", "y"), ("x", "y")] {
            self.world.wait_for_link(a, b);
        }
        if self.mode == Mode::Beside {
            for (name, inside, priority) in [("x", &self.x, 50), ("y", &self.y, 100)] {
                let words = format!(
                    "gateway multicast --interface lan --node net/{name} --priority {priority} --status 1s --json"
                );
                let bridge = start(inside, &self.world.dir, &words, &format!("bridge-{name}"));
                self.bridges.push(bridge);
            }
        }
        let add = ["route", "replace", "232.0.0.0/5", "dev", "mc0"];
        self.world.wait("the source's interface is there", || {
            self.s.ip(&add).is_ok()
        });
        self.wait_for_role("x", "forwarding");
        self.wait_for_role("y", "standby");
    }

    /// Returns the state of a bridge: from its node's status, or from its last line.
    fn bridge(&self, name: &str) -> Value {
        match self.mode {
            Mode::Inside => self.world.status(name)["bridges"][0].clone(),
            Mode::Beside => {
                let path = self.world.dir.join(format!("bridge-{name}"));
                let text = fs::read_to_string(path).unwrap();
                let lines = text.lines().rev();
                let mut words = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
                words
                    .find(|word| word["event"] == "status")
                    .unwrap_or_default()
            }
        }
    }

    fn wait_for_role(&self, name: &str, role: &str) {
        self.world.wait(&format!("{name} is {role}"), || {
            self.bridge(name)["role"] == role
        });
    }
}

fn start(inside: &Namespace, dir: &Path, words: &str, log: &str) -> Running {
    let mut command = inside.command(env!("CARGO_BIN_EXE_sinew")).unwrap();
    command.current_dir(dir).args(words.split_whitespace());
    let log = fs::File::create(dir.join(log)).unwrap();
    command.stdin(Stdio::null()).stdout(log);
    command.stderr(Stdio::null());
    Running(command.spawn().unwrap())
}

/// Sends numbered packets to a group, as a program, until the test stops it. Returns how many it has sent.
fn send(site: &Namespace, group: Ipv4Addr, stop: &AtomicBool) -> u64 {
    let source = site.run(|| UdpSocket::bind((TAP, 0)).unwrap()).unwrap();
    let mut n = 0u64;
    while !stop.load(Ordering::Relaxed) {
        source.send_to(&n.to_be_bytes(), (group, PORT)).unwrap();
        n += 1;
        std::thread::sleep(PACE);
    }
    n
}

/// Makes a host's program a member of a group, for this source if one is named.
fn member(
    host: &Namespace,
    address: Ipv4Addr,
    group: Ipv4Addr,
    source: Option<Ipv4Addr>,
) -> UdpSocket {
    let open = || {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP)).unwrap();
        socket.set_reuse_address(true).unwrap();
        let at = SocketAddr::from((group, PORT));
        socket.bind(&at.into()).unwrap();
        match source {
            None => socket.join_multicast_v4(&group, &address).unwrap(),
            Some(source) => socket.join_ssm_v4(&source, &group, &address).unwrap(),
        }
        let socket = UdpSocket::from(socket);
        socket
            .set_read_timeout(Some(Duration::from_millis(50)))
            .unwrap();
        socket
    };
    host.run(open).unwrap()
}

/// Reports the number of each received packet, until the test stops it.
fn receive(socket: &UdpSocket, stop: &AtomicBool, tell: &std::sync::mpsc::Sender<u64>) {
    let mut bytes = [0; 64];
    while !stop.load(Ordering::Relaxed) {
        if let Ok(8) = socket.recv(&mut bytes) {
            let number = u64::from_be_bytes(*bytes.first_chunk().unwrap());
            if tell.send(number).is_err() {
                return;
            }
        }
    }
}

/// Statistics of the received packets: the longest run of missing numbers, the number of duplicates, and the last
/// number.
#[derive(Debug, Default)]
struct Tally {
    last: Option<u64>,
    longest: u64,
    twice: u64,
}

impl Tally {
    fn take(&mut self, came: &Receiver<u64>) {
        for number in came.try_iter() {
            match self.last {
                Some(last) if number <= last => self.twice += 1,
                Some(last) => {
                    self.longest = self.longest.max(number - last - 1);
                    self.last = Some(number);
                }
                None => self.last = Some(number),
            }
        }
    }

    /// Waits until `more` further packets have arrived.
    fn wait(&mut self, world: &World, came: &Receiver<u64>, more: u64) {
        self.take(came);
        let from = self.last.map_or(0, |last| last + 1);
        world.wait("packets come", || {
            self.take(came);
            self.last.is_some_and(|last| last >= from + more)
        });
    }
}

fn skipped(test: &str) -> bool {
    let why = available().err();
    if let Some(why) = &why {
        eprintln!("SKIPPED: {test}: {why}");
    }
    why.is_some()
}

/// The carrier's uplink fails and comes back, then its node is killed. The function checks the gaps at a receiver.
fn fail_over(mode: Mode) {
    let mut site = Site::new(&format!("bridges-{mode:?}"), mode);
    let group = Ipv4Addr::new(239, 1, 1, 1);
    let socket = member(&site.hosts[0], Ipv4Addr::new(10, 95, 0, 10), group, None);
    let stop = AtomicBool::new(false);
    let (tell, came) = channel();
    let source = Namespace::open(&site.s.path().to_string_lossy()).unwrap();
    std::thread::scope(|scope| {
        let _guard = Stop(&stop);
        scope.spawn(|| send(&source, group, &stop));
        scope.spawn(|| receive(&socket, &stop, &tell));
        let mut tally = Tally::default();
        tally.wait(&site.world, &came, 2 * SECOND);
        assert!(
            tally.longest < SECOND / 4,
            "before anything fails: {tally:?}"
        );

        tally.longest = 0;
        site.x.ip(&["link", "set", "wan", "down"]).unwrap();
        site.wait_for_role("y", "forwarding");
        tally.wait(&site.world, &came, SECOND);
        eprintln!(
            "{mode:?}, uplink down: {} packets of 5 ms lost in a row",
            tally.longest
        );
        assert!(tally.longest <= SECOND, "{tally:?}");
        assert_eq!(site.bridge("x")["role"], "standby");

        tally.longest = 0;
        site.x.ip(&["link", "set", "wan", "up"]).unwrap();
        site.world.wait_for_link("s", "x");
        // This bridge has the better priority, and takes over again when its uplink has been up for a while.
        site.wait_for_role("x", "forwarding");
        site.wait_for_role("y", "standby");
        tally.wait(&site.world, &came, SECOND);
        eprintln!(
            "{mode:?}, taken back: {} packets lost in a row",
            tally.longest
        );
        assert!(tally.longest <= SECOND / 2, "{tally:?}");

        tally.longest = 0;
        site.world.kill("x");
        site.wait_for_role("y", "forwarding");
        tally.wait(&site.world, &came, SECOND);
        eprintln!(
            "{mode:?}, node killed: {} packets of 5 ms lost in a row",
            tally.longest
        );
        assert!(tally.longest <= SECOND, "{tally:?}");
        // Both bridges carry packets for a moment at most, and only few packets arrive twice.
        assert!(tally.twice <= SECOND / 10, "{tally:?}");
    });
}

/// Stops the threads of a test, however the test ends.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_standby_follows_within_a_second_beside_nodes() {
    if !skipped("a_standby_follows_within_a_second_beside_nodes") {
        fail_over(Mode::Beside);
    }
}

#[test]
fn a_standby_follows_within_a_second_in_nodes() {
    if !skipped("a_standby_follows_within_a_second_in_nodes") {
        fail_over(Mode::Inside);
    }
}

/// Sends reports of version 3 as a host that joins these groups would forge them.
fn forge(host: &Namespace, groups: impl Iterator<Item = Ipv4Addr>) {
    let raw = host
        .run(|| Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(2))).unwrap())
        .unwrap();
    let all: Vec<_> = groups.collect();
    for some in all.chunks(100) {
        let mut report = vec![0x22, 0, 0, 0, 0, 0];
        report.extend((some.len() as u16).to_be_bytes());
        for group in some {
            // The record excludes no source, so it joins the group.
            report.extend([4, 0, 0, 0]);
            report.extend(group.octets());
        }
        let sum = packet::checksum(&report);
        report[2..4].copy_from_slice(&sum.to_be_bytes());
        let to = SocketAddrV4::new(Ipv4Addr::new(224, 0, 0, 22), 0);
        raw.send_to(&report, &to.into()).unwrap();
    }
}

fn forged_reports(mode: Mode) {
    let site = Site::new(&format!("forged-{mode:?}"), mode);
    let forged = |n: u32| Ipv4Addr::from_bits(0xef02_0000 + n);
    forge(&site.hosts[1], (0..2_000).map(forged));
    site.world.wait("the bridge has heard them", || {
        site.bridge("x")["drops"]["host_too_many"].as_u64() >= Some(2_000 - 256)
    });
    // Five programs of another host join, and each gets its packets.
    let groups: Vec<_> = (1..6).map(|n| Ipv4Addr::new(239, 1, 1, n)).collect();
    let address = Ipv4Addr::new(10, 95, 0, 10);
    let members = groups
        .iter()
        .map(|group| member(&site.hosts[0], address, *group, None));
    let members: Vec<_> = members.collect();
    let source = site.s.run(|| UdpSocket::bind((TAP, 0)).unwrap()).unwrap();
    for (group, member) in groups.iter().zip(&members) {
        let mut bytes = [0; 16];
        site.world.wait("a real receiver gets packets", || {
            source.send_to(b"real", (*group, PORT)).unwrap();
            member
                .recv(&mut bytes)
                .is_ok_and(|len| &bytes[..len] == b"real")
        });
    }
    let bridge = site.bridge("x");
    site.world.wait("the node has joined what counts", || {
        site.bridge("x")["joined"].as_u64() == Some(256 + 5)
    });
    assert_eq!(bridge["refused"], 0, "{bridge}");
    only_wanted_sources_cross(&site, &source);
    receivers_without_a_node_are_served(&site, &source);
}

/// A program with its own AMT gateway on the wan, next to the relay at node y.
fn receivers_without_a_node_are_served(site: &Site, source: &UdpSocket) {
    let group = Ipv4Addr::new(232, 1, 1, 9);
    let words = "gateway amt --listen 10.99.0.3:2268 --node net/y --json";
    let _relay = start(&site.y, &site.world.dir, words, "amt");
    let open = || {
        let socket = UdpSocket::bind("10.99.0.1:0").unwrap();
        socket.connect("10.99.0.3:2268").unwrap();
        socket
            .set_read_timeout(Some(Duration::from_millis(50)))
            .unwrap();
        socket
    };
    let receiver = site.s.run(open).unwrap();
    let mut bytes = [0; 2_000];
    let mut answer = None;
    site.world.wait("the relay answers", || {
        // The kernel refuses this while the relay does not listen yet.
        let _ = receiver.send(&[3, 0, 0, 0, 0, 0, 0, 7]);
        let len = receiver.recv(&mut bytes).unwrap_or(0);
        if let Ok(Message::Query { mac, nonce: 7, .. }) = Message::parse(&bytes[..len]) {
            answer = Some(mac);
        }
        answer.is_some()
    });
    let speaker = Speaker {
        mac: [2, 0, 0, 0, 0, 1],
        address: Ipv4Addr::new(192, 168, 0, 2),
    };
    let mut frame = Vec::new();
    let record = (RecordKind::Allow, group, &[TAP][..]);
    emit::report(&mut frame, speaker, [record].into_iter());
    let report = &frame[packet::ETHERNET_BYTES..];
    let report = &report[..packet::Ip::parse(report).unwrap().total_bytes];
    let update = Message::Update {
        mac: answer.unwrap(),
        nonce: 7,
        packet: report,
    };
    let mut datagram = Vec::new();
    update.emit(&mut datagram);
    receiver.send(&datagram).unwrap();
    site.world.wait("a packet comes through the relay", || {
        source.send_to(b"by amt", (group, PORT)).unwrap();
        let len = receiver.recv(&mut bytes).unwrap_or(0);
        let Ok(Message::Data { packet: whole }) = Message::parse(&bytes[..len]) else {
            return false;
        };
        let ip = packet::Ip::parse(whole).unwrap();
        assert_eq!((ip.source, ip.destination), (TAP.into(), group.into()));
        whole.ends_with(b"by amt")
    });
}

/// Packets of a source that no member wants do not cross the overlay.
fn only_wanted_sources_cross(site: &Site, source: &UdpSocket) {
    let host = &site.hosts[0];
    let address = Ipv4Addr::new(10, 95, 0, 10);
    let [one, two] = [1, 2].map(|n| Ipv4Addr::new(232, 1, 1, n));
    let elsewhere = Ipv4Addr::new(10, 94, 0, 9);
    let before = site.bridge("x");
    let _unwanted = member(host, address, one, Some(elsewhere));
    let wanted = member(host, address, two, Some(TAP));
    site.world.wait("both are joined", || {
        site.bridge("x")["joined"].as_u64() == before["joined"].as_u64().map(|n| n + 2)
    });
    for _ in 0..800 {
        source.send_to(b"unwanted", (one, PORT)).unwrap();
    }
    let mut bytes = [0; 16];
    site.world.wait("the wanted one crosses", || {
        source.send_to(b"wanted", (two, PORT)).unwrap();
        wanted
            .recv(&mut bytes)
            .is_ok_and(|len| &bytes[..len] == b"wanted")
    });
    let injected = before["injected"].as_u64();
    site.world.wait("it is counted", || {
        site.bridge("x")["injected"].as_u64() > injected
    });
    let (before, after) = (&before["drops"], &site.bridge("x")["drops"]);
    for reason in ["filtered", "no_member", "forged"] {
        assert_eq!(before[reason], after[reason], "{reason}: {after}");
    }
}

#[test]
fn one_host_that_forges_joins_harms_no_receiver() {
    if !skipped("one_host_that_forges_joins_harms_no_receiver") {
        forged_reports(Mode::Beside);
        forged_reports(Mode::Inside);
    }
}
