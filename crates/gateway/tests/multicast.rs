//! Bridges at real interfaces, in network namespaces, with plain sockets of programs that do not know overlays. Needs
//! root; without root, prints this and skips.
//!
//! The overlay is a list in memory: packets that one site sends to a group arrive at all other sites that have joined
//! the group.
#![allow(clippy::unwrap_used)]

use base::NodeAddr;
use client::Error;
use gateway::multicast::channel::carrier;
use gateway::multicast::overlay::Link;
use gateway::multicast::report::Event;
use gateway::multicast::{self, Overlay, Place, Service, Settings, Start};
use net::epoll::Waker;
use net::netns::{Namespace, available};
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 1, 1);
const SSM: Ipv4Addr = Ipv4Addr::new(232, 1, 1, 1);
const PORT: u16 = 5_004;
/// How long a test waits for something that must happen.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a test waits for one packet before it sends the packet again.
const MOMENT: Duration = Duration::from_millis(20);

#[derive(Clone, Default)]
struct Hub(Arc<(Mutex<Vec<Member>>, Condvar)>);

struct Member {
    groups: BTreeSet<NodeAddr>,
    waiting: VecDeque<(NodeAddr, Vec<u8>)>,
    waker: Waker,
}

impl Hub {
    /// Waits until `site` is a member of `group`, or is not. If members name sources, the source is A.
    fn wait_for(&self, site: usize, group: impl Into<IpAddr>, is_member: bool) {
        let (members, changed) = &*self.0;
        let group = group.into();
        let source: IpAddr = if group.is_ipv4() {
            A.into()
        } else {
            v6(A).into()
        };
        let group = carrier(group, source);
        let is = |members: &mut Vec<Member>| members[site].groups.contains(&group) != is_member;
        let waited = changed.wait_timeout_while(members.lock().unwrap(), PATIENCE, is);
        assert!(
            !waited.unwrap().1.timed_out(),
            "site {site}, {group}, {is_member}"
        );
    }
}

struct Site {
    hub: Hub,
}

struct Connection {
    hub: Hub,
    number: usize,
    waker: Waker,
    sending: Vec<(NodeAddr, Vec<u8>)>,
    came: Vec<(NodeAddr, Vec<u8>)>,
}

impl Overlay for Site {
    type Link = Connection;

    fn connect(&self) -> Result<Connection, Error> {
        let waker = Waker::new()?;
        let mut members = self.hub.0.0.lock().unwrap();
        members.push(Member {
            groups: BTreeSet::new(),
            waiting: VecDeque::new(),
            waker: waker.clone(),
        });
        Ok(Connection {
            hub: self.hub.clone(),
            number: members.len() - 1,
            waker,
            sending: Vec::new(),
            came: Vec::new(),
        })
    }
}

impl Connection {
    fn change(&self, change: impl FnOnce(&mut BTreeSet<NodeAddr>)) {
        let (members, changed) = &*self.hub.0;
        change(&mut members.lock().unwrap()[self.number].groups);
        changed.notify_all();
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }
}

impl Link for Connection {
    fn node(&self) -> NodeAddr {
        NodeAddr(0x0a07_0001 + self.number as u32)
    }
    fn join(&self, group: NodeAddr) -> Result<(), Error> {
        self.change(|groups| {
            groups.insert(group);
        });
        Ok(())
    }
    fn leave(&self, group: NodeAddr) -> Result<(), Error> {
        self.change(|groups| {
            groups.remove(&group);
        });
        Ok(())
    }
    fn max_packet(&self) -> usize {
        65_507
    }
    fn push(&mut self, group: NodeAddr, packet: &[u8]) -> bool {
        self.sending.push((group, packet.to_vec()));
        true
    }
    fn gathered(&self) -> usize {
        self.sending.len()
    }
    fn flush(&mut self) -> Result<(), Error> {
        let mut members = self.hub.0.0.lock().unwrap();
        for (group, packet) in self.sending.drain(..) {
            let others = members
                .iter_mut()
                .enumerate()
                .filter(|(n, _)| *n != self.number);
            for (_, member) in others.filter(|(_, member)| member.groups.contains(&group)) {
                member.waiting.push_back((group, packet.clone()));
                member.waker.wake();
            }
        }
        Ok(())
    }
    fn receive(&mut self) -> Result<bool, Error> {
        self.waker.drain();
        let mut members = self.hub.0.0.lock().unwrap();
        self.came = members[self.number].waiting.drain(..).collect();
        Ok(!self.came.is_empty())
    }
    fn received(&self) -> impl Iterator<Item = (NodeAddr, &[u8])> {
        self.came
            .iter()
            .map(|(group, packet)| (*group, &packet[..]))
    }
}

/// A bridge in a namespace, and its events.
struct Bridge {
    service: Service<Site>,
    events: Receiver<String>,
}

fn start(inside: &Namespace, hub: &Hub, place: Place, change: fn(&mut Settings)) -> Bridge {
    let (say, events) = channel();
    let say = Mutex::new(say);
    let start = Start {
        overlay: Site { hub: hub.clone() },
        place,
        realtime: false,
        tell: Box::new(move |event: Event| {
            // The receiver may be gone.
            let _ = say.lock().unwrap().send(event.to_string());
        }),
    };
    let started = inside.run(|| {
        Service::start(start, |node, seed| {
            let mut settings = Settings::new(node, seed);
            change(&mut settings);
            settings
        })
    });
    Bridge {
        service: started.unwrap().unwrap_or_else(|error| panic!("{error}")),
        events,
    }
}

impl Bridge {
    /// Waits for an event that contains this text.
    fn wait_for(&self, what: &str) {
        loop {
            let said = self.events.recv_timeout(PATIENCE);
            let said = said.unwrap_or_else(|_| panic!("it never said {what:?}"));
            if said.contains(what) {
                return;
            }
        }
    }
}

fn tap(address: Ipv4Addr) -> Place {
    Place::Tap {
        name: "mc0".into(),
        address: Some((address, 24)),
        address_v6: Some(v6(address)),
        mtu: Some(9_000),
        routes: vec![
            (Ipv4Addr::new(239, 0, 0, 0).into(), 8),
            (Ipv4Addr::new(232, 0, 0, 0).into(), 8),
            (Ipv6Addr::new(0xff1e, 0, 0, 0, 0, 0, 0, 0).into(), 16),
            (Ipv6Addr::new(0xff3e, 0, 0, 0, 0, 0, 0, 0).into(), 16),
        ],
    }
}

/// Returns the IPv6 address of the host with this IPv4 address.
fn v6(address: Ipv4Addr) -> Ipv6Addr {
    let [a, b, c, d] = address.octets().map(u16::from);
    Ipv6Addr::new(0xfd53, 0, 0, 0, a, b, c, d)
}

/// Opens an IPv6 socket of a program that leaves the choice of interface to the kernel.
fn program_v6(inside: &Namespace) -> Socket {
    let opened = inside.run(|| {
        let socket = Socket::new(Domain::IPV6, Type::DGRAM, Some(Protocol::UDP)).unwrap();
        socket.set_reuse_address(true).unwrap();
        let any = SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, PORT, 0, 0);
        socket.bind(&any.into()).unwrap();
        socket.set_multicast_loop_v6(false).unwrap();
        socket.set_read_timeout(Some(MOMENT)).unwrap();
        socket
    });
    opened.unwrap()
}

fn reaches_v6(from: &Socket, to: &Socket, group: Ipv6Addr, payload: &[u8]) {
    let tries = PATIENCE.as_millis() / MOMENT.as_millis();
    let mut tries = (0..tries).map(|_| {
        let group = SocketAddrV6::new(group, PORT, 0, 0).into();
        from.send_to(payload, &group).unwrap();
        comes(to, payload)
    });
    assert!(tries.any(|came| came), "nothing comes");
}

/// Opens a socket of a program in a namespace, which sends multicast from `own`.
fn program(inside: &Namespace, own: Ipv4Addr) -> Socket {
    let opened = inside.run(|| {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP)).unwrap();
        socket.set_reuse_address(true).unwrap();
        socket
            .bind(&SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, PORT).into())
            .unwrap();
        socket.set_multicast_if_v4(&own).unwrap();
        socket.set_multicast_loop_v4(false).unwrap();
        socket.set_read_timeout(Some(MOMENT)).unwrap();
        socket
    });
    opened.unwrap()
}

fn send(socket: &Socket, group: Ipv4Addr, payload: &[u8]) {
    let to = SocketAddrV4::new(group, PORT).into();
    socket.send_to(payload, &to).unwrap();
}

/// Returns whether the next packet that arrives within a moment is `payload`.
fn comes(socket: &Socket, payload: &[u8]) -> bool {
    let mut buffer = vec![0; 10_000];
    let mut socket: &Socket = socket;
    let read = std::io::Read::read(&mut socket, &mut buffer);
    read.is_ok_and(|len| buffer[..len] == *payload)
}

/// Sends until the packet arrives.
fn reaches(from: &Socket, to: &Socket, group: Ipv4Addr, payload: &[u8]) {
    let tries = PATIENCE.as_millis() / MOMENT.as_millis();
    let mut tries = (0..tries).map(|_| {
        send(from, group, payload);
        comes(to, payload)
    });
    assert!(tries.any(|came| came), "nothing comes");
}

fn namespaces<const N: usize>(test: &str) -> Option<[Namespace; N]> {
    if let Err(why) = available() {
        eprintln!("SKIPPED {test}: {why}");
        return None;
    }
    Some(core::array::from_fn(|_| Namespace::new().unwrap()))
}

const A: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 2, 0, 1);

#[test]
fn programs_that_join_get_packets_of_another_site_until_they_leave() {
    let Some([a, b]) = namespaces("programs_that_join_get_packets_of_another_site") else {
        return;
    };
    let hub = Hub::default();
    let one = start(&a, &hub, tap(A), |_| ());
    let mut two = start(&b, &hub, tap(B), |_| ());
    let (sender, receiver) = (program(&a, A), program(&b, B));
    receiver.join_multicast_v4(&GROUP, &B).unwrap();
    hub.wait_for(1, GROUP, true);
    one.wait_for("this bridge carries");
    reaches(&sender, &receiver, GROUP, b"hello");
    one.wait_for("TTL 1");
    // These are longer than the overlay's usual datagrams; the second goes out in fragments of the sender.
    reaches(&sender, &receiver, GROUP, &vec![7; 8_900]);
    a.ip(&["link", "set", "mc0", "mtu", "1500"]).unwrap();
    reaches(&sender, &receiver, GROUP, &vec![8; 8_900]);
    // One more program joins the group, and one leaves: nothing changes.
    let second = program(&b, B);
    second.join_multicast_v4(&GROUP, &B).unwrap();
    receiver.leave_multicast_v4(&GROUP, &B).unwrap();
    reaches(&sender, &second, GROUP, b"still");
    second.leave_multicast_v4(&GROUP, &B).unwrap();
    hub.wait_for(1, GROUP, false);
    let report = two.service.stop();
    assert!(report.counters.injected >= 4, "{report:?}");
}

#[test]
fn hosts_of_ipv6_join_by_mld_and_get_packets_until_they_leave() {
    let Some([a, b]) = namespaces("hosts_of_ipv6_join_by_mld") else {
        return;
    };
    if a.sysctl("net/ipv6/conf/lo/accept_dad", "0").is_err() {
        eprintln!("SKIPPED hosts_of_ipv6_join_by_mld: this kernel has no IPv6");
        return;
    }
    let group = Ipv6Addr::new(0xff1e, 0, 0, 0, 0, 0, 0, 0x101);
    let hub = Hub::default();
    let one = start(&a, &hub, tap(A), |_| ());
    let mut two = start(&b, &hub, tap(B), |_| ());
    let (sender, receiver) = (program_v6(&a), program_v6(&b));
    // The interface follows from the route of the groups.
    receiver.join_multicast_v6(&group, 0).unwrap();
    hub.wait_for(1, group, true);
    one.wait_for("this bridge carries");
    reaches_v6(&sender, &receiver, group, b"hello");
    reaches_v6(&sender, &receiver, group, &vec![7; 8_900]);
    one.wait_for("TTL 1");
    receiver.leave_multicast_v6(&group, 0).unwrap();
    hub.wait_for(1, group, false);
    let report = two.service.stop();
    assert!(report.counters.injected >= 2, "{report:?}");
}

#[test]
fn a_tap_that_was_switched_off_gets_its_routes_again() {
    let Some([a, b]) = namespaces("a_tap_that_was_switched_off_gets_its_routes_again") else {
        return;
    };
    let hub = Hub::default();
    let one = start(&a, &hub, tap(A), |_| ());
    let _two = start(&b, &hub, tap(B), |_| ());
    let shown = |args: &[&str]| {
        let mut command = a.command("ip").unwrap();
        let output = command.args(args).args(["dev", "mc0"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let seen = || {
        let table = ["route", "show", "table", "all"];
        let routes = ["-4", "-6"].map(|family| shown(&[&[family][..], &table].concat()));
        (
            routes,
            shown(&["-4", "addr", "show"]),
            shown(&["-6", "addr", "show"]),
        )
    };
    let before = seen();
    a.ip(&["link", "set", "mc0", "down"]).unwrap();
    one.wait_for("gone");
    a.ip(&["link", "set", "mc0", "up"]).unwrap();
    one.wait_for("is there");
    assert_eq!(seen(), before);
    let (sender, receiver) = (program(&a, A), program(&b, B));
    receiver.join_multicast_v4(&GROUP, &B).unwrap();
    hub.wait_for(1, GROUP, true);
    reaches(&sender, &receiver, GROUP, b"again");
}

#[test]
fn a_program_gets_the_sources_that_it_named_and_no_others() {
    let Some([a, b]) = namespaces("a_program_gets_the_sources_that_it_named") else {
        return;
    };
    let hub = Hub::default();
    let _one = start(&a, &hub, tap(A), |_| ());
    let mut two = start(&b, &hub, tap(B), |_| ());
    let other = Ipv4Addr::new(10, 1, 0, 77);
    a.ip(&["addr", "add", "10.1.0.77/24", "dev", "mc0"])
        .unwrap();
    let (right, receiver) = (program(&a, A), program(&b, B));
    let wrong = a.run(|| {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP)).unwrap();
        socket.bind(&SocketAddrV4::new(other, 0).into()).unwrap();
        socket.set_multicast_if_v4(&A).unwrap();
        socket
    });
    let wrong = wrong.unwrap();
    receiver.join_ssm_v4(&A, &SSM, &B).unwrap();
    hub.wait_for(1, SSM, true);
    reaches(&right, &receiver, SSM, b"right");
    send(&wrong, SSM, b"wrong");
    // Packets that were sent earlier would have arrived earlier.
    reaches(&right, &receiver, SSM, b"right again");
    assert!(!comes(&receiver, b"wrong"));
    receiver.leave_ssm_v4(&A, &SSM, &B).unwrap();
    hub.wait_for(1, SSM, false);
    let drops = two.service.stop().counters.drops;
    let reason = multicast::drops::Drop::Filtered;
    assert_eq!(drops.of(reason), 0, "it has stayed at home");
}

#[test]
fn a_host_that_drops_what_comes_from_elsewhere_is_told_why() {
    let Some([a, b]) = namespaces("a_host_that_drops_what_comes_from_elsewhere") else {
        return;
    };
    b.sysctl("net/ipv4/conf/all/rp_filter", "1").unwrap();
    let hub = Hub::default();
    let one = start(&a, &hub, tap(A), |_| ());
    let two = start(&b, &hub, tap(B), |_| ());
    let (sender, receiver) = (program(&a, A), program(&b, B));
    receiver.join_multicast_v4(&GROUP, &B).unwrap();
    hub.wait_for(1, GROUP, true);
    one.wait_for("this bridge carries");
    two.wait_for("this bridge carries");
    send(&sender, GROUP, b"lost");
    two.wait_for("rp_filter");
    assert!(!comes(&receiver, b"lost"));
    b.sysctl("net/ipv4/conf/all/rp_filter", "0").unwrap();
    reaches(&sender, &receiver, GROUP, b"hello");
}

/// A network with a host and two bridges on a snooping switch, and a site elsewhere.
#[test]
fn two_bridges_of_one_network_carry_each_packet_once() {
    let Some([switch, host, b1, b2, far]) = namespaces("two_bridges_of_one_network") else {
        return;
    };
    let hub = Hub::default();
    switch
        .ip(&["link", "add", "br0", "type", "bridge", "forward_delay", "0"])
        .unwrap();
    switch.ip(&["link", "set", "br0", "up"]).unwrap();
    // One of the bridges is started before its interface exists.
    let late = Place::Interface {
        name: "eth0".into(),
    };
    let two = start(&b2, &hub, late.clone(), |_| ());
    for (n, inside) in [&host, &b1, &b2].into_iter().enumerate() {
        let port = format!("port{n}");
        switch.veth(&port, inside, "eth0").unwrap();
        switch.ip(&["link", "set", &port, "master", "br0"]).unwrap();
        let address = format!("10.1.0.{}/24", n + 1);
        inside
            .ip(&["addr", "add", &address, "dev", "eth0"])
            .unwrap();
    }
    two.wait_for("eth0 is there");
    let one = start(&b1, &hub, late, |_| ());
    let third = start(&far, &hub, tap(B), |_| ());
    let (here, there) = (program(&host, A), program(&far, B));
    here.join_multicast_v4(&GROUP, &A).unwrap();
    there.join_multicast_v4(&GROUP, &B).unwrap();
    hub.wait_for(2, GROUP, true);
    two.wait_for("this bridge carries");
    one.wait_for("stands by");
    hub.wait_for(0, GROUP, true);
    reaches(&here, &there, GROUP, b"out");
    reaches(&there, &here, GROUP, b"in");
    for (from, to) in [(&here, &there), (&there, &here)] {
        let mut seen = BTreeMap::new();
        for n in 0..200u32 {
            send(from, GROUP, &[&n.to_be_bytes()[..], &[9; 96]].concat());
        }
        let mut buffer = [0; 200];
        let mut to: &Socket = to;
        while let Ok(len) = std::io::Read::read(&mut to, &mut buffer) {
            if len == 100 {
                *seen.entry(buffer[..4].to_vec()).or_insert(0) += 1;
            }
        }
        assert_eq!(seen.len(), 200);
        assert!(seen.values().all(|&count| count == 1), "{seen:?}");
    }
    // The bridge on standby takes over.
    drop(two);
    one.wait_for("this bridge carries");
    hub.wait_for(1, GROUP, true);
    reaches(&here, &there, GROUP, b"out again");
    reaches(&there, &here, GROUP, b"in again");
    let drops = third.service.report().counters.drops;
    assert_eq!(drops.of(multicast::drops::Drop::Looped), 0);
}

/// Measures the cost of carrying packets. This is not a test, and it prints its results:
/// `cargo test -p gateway --test multicast -- --ignored --nocapture`
#[test]
#[ignore = "a measurement, which wants a quiet machine"]
fn cost_of_a_packet() {
    let Some([a, b]) = namespaces("cost_of_a_packet") else {
        return;
    };
    let hub = Hub::default();
    let one = start(&a, &hub, tap(A), |_| ());
    let two = start(&b, &hub, tap(B), |_| ());
    let (sender, receiver) = (program(&a, A), program(&b, B));
    receiver.set_recv_buffer_size(8 << 20).unwrap();
    receiver.join_multicast_v4(&GROUP, &B).unwrap();
    one.wait_for("this bridge carries");
    hub.wait_for(1, GROUP, true);
    reaches(&sender, &receiver, GROUP, b"hello");
    for bytes in [32, 512, 1_024, 1_400] {
        let payload = vec![5; bytes];
        let settled = || {
            // A report is at most a second old, so wait for the next one of both bridges.
            let at = one.service.report().reported;
            while one.service.report().reported == at {
                comes(&receiver, b"");
            }
            while comes(&receiver, &payload) {}
            let at = two.service.report().reported;
            while two.service.report().reported == at {
                comes(&receiver, b"");
            }
            [one.service.report(), two.service.report()]
        };
        let before = settled();
        let began = std::time::Instant::now();
        let count = 100_000u32;
        let counter = std::thread::spawn({
            let receiver = receiver.try_clone().unwrap();
            let payload = payload.clone();
            move || {
                let mut came = 0u32;
                let mut last = std::time::Instant::now();
                while last.elapsed() < MOMENT * 20 {
                    if comes(&receiver, &payload) {
                        came += 1;
                        last = std::time::Instant::now();
                    }
                }
                came
            }
        });
        for _ in 0..count {
            send(&sender, GROUP, &payload);
        }
        let took = began.elapsed();
        let came = counter.join().unwrap();
        let after = settled();
        let cpu = |n: usize, packets: u64| {
            let spent = after[n].cpu.saturating_sub(before[n].cpu);
            spent.as_nanos() / packets.max(1)
        };
        let captured = after[0].counters.captured - before[0].counters.captured;
        let injected = after[1].counters.injected - before[1].counters.injected;
        eprintln!(
            "{bytes} bytes: offered {:.0} packets/s; captured {captured} at {} ns each, injected {injected} at {} ns, received {came}; drops {} / {}",
            f64::from(count) / took.as_secs_f64(),
            cpu(0, captured),
            cpu(1, injected),
            after[0].counters.drops,
            after[1].counters.drops,
        );
    }
}
