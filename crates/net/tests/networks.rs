//! Tests sockets over real interfaces, between network namespaces. They need root; without it they report this and are
//! skipped.
//!
//! They are a process of their own: `ip` is run by fork, and for a moment a fork holds the descriptors of all other
//! tests in the process, such as listeners that those tests believe to be closed.
#![allow(clippy::unwrap_used)]

use base::{Burst, Pool, UnderlayAddr};
use net::addr::{socket_addr, underlay};
use net::epoll::{Interest, Poller};
use net::hops::{HopsError, TOTAL, probe};
use net::netns::{Namespace, available};
use net::poll::{Polled, poll};
use net::udp::{Options, SendQueue, Sent, Socket};
use std::net::{IpAddr, UdpSocket};
use std::num::NonZeroU8;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// The longest wait for datagrams that were sent.
const PATIENCE: Duration = Duration::from_secs(20);

fn address(socket: &Socket) -> UnderlayAddr {
    underlay(socket.local_addr().unwrap(), 0)
}

/// Creates a burst of `count` datagrams of `stride` bytes, each filled with its number.
fn burst(pool: &Pool, first: u8, count: usize, stride: usize) -> Burst {
    let mut burst = pool.large().unwrap();
    for (i, byte) in burst.spare_mut()[..count * stride].iter_mut().enumerate() {
        *byte = first + (i / stride) as u8;
    }
    burst.fill(count * stride, stride);
    burst
}

/// Waits until datagrams are there: a busy kernel delivers them some time after they were sent.
fn wait_for(socket: &Socket) {
    let mut polled = [Polled::new(socket.as_fd(), true, false)];
    assert!(
        poll(&mut polled, Some(PATIENCE)).unwrap() > 0,
        "nothing arrives"
    );
}

/// Returns at least `count` datagrams, and where they come from.
fn receive(socket: &mut Socket, pool: &Pool, count: usize) -> Vec<(UnderlayAddr, Burst)> {
    let mut out: Vec<(UnderlayAddr, Burst)> = Vec::new();
    while out.iter().map(|(_, burst)| burst.segments()).sum::<usize>() < count {
        wait_for(socket);
        while socket.recv_batch(pool, &mut out, 64).unwrap() > 0 {}
    }
    out
}

/// Returns the numbers of at least `count` datagrams.
fn numbers(socket: &mut Socket, pool: &Pool, count: usize) -> Vec<u8> {
    let out = receive(socket, pool, count);
    let numbers = out
        .iter()
        .flat_map(|(_, burst)| (0..burst.segments()).map(|i| burst.segment(i)[0]));
    numbers.collect()
}

#[test]
fn two_namespaces_talk_over_a_pair_of_interfaces() {
    if let Err(why) = available() {
        eprintln!("SKIPPED two_namespaces_talk_over_a_pair_of_interfaces: {why}");
        return;
    }
    let (a, b) = (Namespace::new().unwrap(), Namespace::new().unwrap());
    a.veth("to-b", &b, "to-a").unwrap();
    a.ip(&["addr", "add", "10.0.0.1/24", "dev", "to-b"])
        .unwrap();
    b.ip(&["addr", "add", "10.0.0.2/24", "dev", "to-a"])
        .unwrap();
    let bind = |addr: &'static str| move || UdpSocket::bind(addr).unwrap();
    let (left, right) = (
        a.run(bind("10.0.0.1:4000")).unwrap(),
        b.run(bind("10.0.0.2:4000")).unwrap(),
    );
    left.send_to(b"hello", "10.0.0.2:4000").unwrap();
    let mut buffer = [0; 16];
    let (len, from) = right.recv_from(&mut buffer).unwrap();
    assert_eq!(
        (&buffer[..len], from),
        (&b"hello"[..], "10.0.0.1:4000".parse().unwrap())
    );
    b.sysctl("net/ipv4/ip_forward", "1").unwrap();
    let failed = a.ip(&["link", "set", "nothing", "up"]).unwrap_err();
    assert!(failed.to_string().contains("nothing"), "{failed}");
    assert!(b.command("true").unwrap().status().unwrap().success());
}

/// Creates two sockets in namespaces of their own, connected by interfaces of `mtu`, and returns them with what holds
/// them.
fn over_veth(mtu: &str) -> Option<(Socket, Socket, [Namespace; 2])> {
    if let Err(why) = available() {
        eprintln!("SKIPPED a test over real interfaces: {why}");
        return None;
    }
    let (a, b) = (Namespace::new().unwrap(), Namespace::new().unwrap());
    a.veth("to-b", &b, "to-a").unwrap();
    a.ip(&["addr", "add", "10.0.0.1/24", "dev", "to-b"])
        .unwrap();
    a.ip(&["link", "set", "to-b", "mtu", mtu]).unwrap();
    b.ip(&["addr", "add", "10.0.0.2/24", "dev", "to-a"])
        .unwrap();
    // A socket stays in the network in which its thread has created it.
    let bind = |network: &Namespace, addr: &str| {
        network.enter().unwrap();
        Socket::bind(addr.parse().unwrap(), Options::default()).unwrap()
    };
    let sockets = (bind(&a, "10.0.0.1:4000"), bind(&b, "10.0.0.2:4000"));
    Some((sockets.0, sockets.1, [a, b]))
}

#[test]
fn bursts_too_long_for_the_mtu_leave_in_fragments_without_blaming_gso() {
    for mtu in ["576", "1280"] {
        let Some((mut a, mut b, _networks)) = over_veth(mtu) else {
            return;
        };
        let pool = Pool::new(64, 64);
        let mut queue = SendQueue::new();
        queue.push(address(&b), burst(&pool, 0, 5, 1300));
        queue.push(address(&b), burst(&pool, 5, 5, 500));
        queue.push(address(&b), burst(&pool, 10, 1, 1400));
        let sent = a.send_batch(&mut queue);
        let all = Sent {
            datagrams: 11,
            ..Sent::default()
        };
        assert_eq!(sent, all);
        assert_eq!((a.counters().send_too_long, a.gso()), (0, true));
        let told: Vec<_> = a.too_long().collect();
        assert_eq!(told, [(address(&b), 1300)], "the single one just went");
        assert_eq!(a.too_long().count(), 0, "it is told once");
        assert_eq!(numbers(&mut b, &pool, 11), Vec::from_iter(0..11));
    }
}

#[test]
fn what_must_not_be_fragmented_is_lost_alone_and_told() {
    let Some((mut a, mut b, _networks)) = over_veth("1280") else {
        return;
    };
    let pool = Pool::new(64, 64);
    let mut queue = SendQueue::new();
    // A probe of the MTU is sent among others, with its short companion right behind it.
    queue.push(address(&b), burst(&pool, 0, 2, 1300));
    for (number, bytes) in [(2, 1_300), (3, 1_200)] {
        let mut probe = burst(&pool, number, 1, bytes);
        probe.set_dont_fragment();
        queue.push(address(&b), probe);
        queue.push(address(&b), burst(&pool, number + 10, 1, 33));
    }
    queue.push(address(&b), burst(&pool, 4, 2, 1300));
    let sent = a.send_batch(&mut queue);
    assert_eq!((sent.datagrams, sent.gso_refused), (7, false));
    assert_eq!(a.counters().send_too_long, 1);
    let told: Vec<_> = a.too_long().collect();
    assert_eq!(told, [(address(&b), 1300)]);
    assert_eq!(numbers(&mut b, &pool, 7), [0, 1, 12, 3, 13, 4, 5]);
}

/// Returns the senders of at least `count` datagrams, each once.
fn senders(socket: &mut Socket, pool: &Pool, count: usize) -> Vec<IpAddr> {
    let out = receive(socket, pool, count);
    let mut from: Vec<_> = out
        .iter()
        .map(|(from, _)| socket_addr(*from).ip())
        .collect();
    from.dedup();
    from
}

#[test]
fn answers_leave_from_the_address_that_was_asked() {
    let Some((mut a4, b, [a, b_space])) = over_veth("1500") else {
        return;
    };
    drop(b);
    for (family, near, far, here) in [
        ("-4", "10.0.0.2/24", "10.0.7.7/32", "10.0.0.1/24"),
        ("-6", "fd00::2/64", "fd07::7/128", "fd00::1/64"),
    ] {
        let alone = |with_bits: &'static str| with_bits.split('/').next().unwrap();
        if family == "-6" {
            for (space, address, device) in [(&a, here, "to-b"), (&b_space, near, "to-a")] {
                space
                    .ip(&["address", "add", address, "dev", device, "nodad"])
                    .unwrap();
            }
        }
        b_space
            .ip(&[family, "address", "add", far, "dev", "lo"])
            .unwrap();
        a.ip(&[family, "route", "add", far, "via", alone(near)])
            .unwrap();
    }
    let bind = |network: &Namespace, addr: &str| {
        network.enter().unwrap();
        Socket::bind(addr.parse().unwrap(), Options::default()).unwrap()
    };
    let mut a6 = bind(&a, "[fd00::1]:4000");
    let pool = Pool::new(64, 64);
    const DSCP: [u8; 2] = [0, 46];
    // Both families use one socket, and IPv4 uses one of its own. The ports differ, because a child that another test
    // starts at this moment holds the first socket until it executes its program.
    for (any, port, families) in [("0.0.0.0:4000", 4_000, 1), ("[::]:4001", 4_001, 2)] {
        let mut b = bind(&b_space, any);
        let asked = [["10.0.0.2", "10.0.7.7"], ["fd00::2", "fd07::7"]];
        for (asker, asked) in [&mut a4, &mut a6].into_iter().zip(asked).take(families) {
            let mut last = None;
            for ip in asked {
                let ip: IpAddr = ip.parse().unwrap();
                let mut queue = SendQueue::new();
                queue.push(underlay((ip, port).into(), 0), burst(&pool, 0, 1, 50));
                assert_eq!(asker.send_batch(&mut queue).datagrams, 1);
                let (from, _) = receive(&mut b, &pool, 1).pop().unwrap();
                assert_eq!(from.remote(), address(asker));
                // A burst, and single datagrams with and without a class.
                let mut answers = SendQueue::marking(&DSCP);
                answers.push(from, burst(&pool, 0, 5, 100));
                let mut marked = burst(&pool, 5, 1, 100);
                marked.set_mark(1);
                answers.push(from, marked);
                assert_eq!(b.send_batch(&mut answers).datagrams, 6);
                answers.push(from, burst(&pool, 6, 1, 1_300));
                assert_eq!(b.send_batch(&mut answers).datagrams, 1);
                assert_eq!(senders(asker, &pool, 7), [ip], "{any}");
                last = Some(from);
            }
            // The address is removed; what is still sent from it leaves from another one.
            let gone = if asked[1].contains(':') {
                "fd07::7/128"
            } else {
                "10.0.7.7/32"
            };
            b_space
                .ip(&["address", "delete", gone, "dev", "lo"])
                .unwrap();
            let mut late = SendQueue::new();
            late.push(last.unwrap(), burst(&pool, 0, 4, 100));
            let sent = b.send_batch(&mut late);
            assert_eq!(sent.datagrams, 4, "{any} {:?}", b.counters());
            assert!(b.gso(), "it is no fault of GSO");
            let near: IpAddr = asked[0].parse().unwrap();
            assert_eq!(senders(asker, &pool, 4), [near]);
            b_space.ip(&["address", "add", gone, "dev", "lo"]).unwrap();
        }
    }
}

#[test]
fn a_full_kernel_buffer_keeps_the_rest_in_order() {
    let Some((mut a, mut b, networks)) = over_veth("1500") else {
        return;
    };
    // Nobody answers for this address, so its datagrams wait in the kernel and fill the buffer.
    let nobody = underlay("10.0.0.77:9".parse().unwrap(), 0);
    let smallest: libc::c_int = 1;
    // SAFETY: "the arguments optval and optlen are used to access option values": an `int` that
    // outlives the call, with its size.
    let set = unsafe {
        libc::setsockopt(
            a.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_SNDBUF,
            (&raw const smallest).cast(),
            4,
        )
    };
    assert_eq!(set, 0);
    let pool = Pool::new(64, 64);
    let mut queue = SendQueue::new();
    a.set_gso(false);
    queue.push(nobody, burst(&pool, 0, 40, 1400));
    queue.push(address(&b), burst(&pool, 0, 10, 1000));
    let sent = a.send_batch(&mut queue);
    assert!(sent.blocked && sent.datagrams < 40, "{sent:?}");
    assert_eq!(a.counters().send_blocked, 1);
    queue.push(address(&b), burst(&pool, 10, 1, 1000));
    assert!(!queue.is_empty());
    // Once somebody seems to be there, the waiting datagrams are sent, and all the rest can follow.
    let [left, _right] = &networks;
    left.ip(&[
        "neigh",
        "replace",
        "10.0.0.77",
        "lladdr",
        "02:00:00:00:00:77",
        "dev",
        "to-b",
    ])
    .unwrap();
    let mut poller = Poller::new().unwrap();
    poller.add(&a, 1, Interest::READ_WRITE).unwrap();
    let mut ready = Vec::new();
    while !queue.is_empty() {
        poller.wait(None, &mut ready).unwrap();
        a.send_batch(&mut queue);
    }
    assert_eq!(a.counters().send_datagrams, 51);
    assert_eq!(numbers(&mut b, &pool, 11), Vec::from_iter(0..11));
}

/// The laboratory relies on this for a node that is not scheduled (`NODE_DATAGRAMS` there is more; this holds with
/// network cards that fill half pages, too).
#[test]
fn thousands_of_small_datagrams_wait_for_a_node_that_does_not_run() {
    const BURSTS: usize = 35;
    const EACH: usize = 100;
    let Some((mut a, mut b, _networks)) = over_veth("1500") else {
        return;
    };
    let pool = Pool::new(64, 64);
    // The datagrams are sent one by one, as they arrive from many neighbours.
    a.set_gso(false);
    for _ in 0..BURSTS {
        let mut queue = SendQueue::new();
        queue.push(address(&b), burst(&pool, 0, EACH, 200));
        assert_eq!(a.send_batch(&mut queue).datagrams, EACH);
    }
    let (mut out, mut waited) = (Vec::new(), 0);
    while waited < BURSTS * EACH {
        wait_for(&b);
        b.recv_batch(&pool, &mut out, 64).unwrap();
        waited += out.iter().map(|(_, burst)| burst.segments()).sum::<usize>();
        out.clear();
    }
    assert_eq!(waited, BURSTS * EACH);
    assert_eq!(b.kernel_drops().unwrap(), 0);
}

/// Creates two hosts with two routers between them, which forward by their kernels: a (.1.1) ── (.1.2) r (.2.1) ──
/// (.2.2) s (.3.1) ── (.3.2) b.
fn four_in_a_row() -> Option<[Namespace; 4]> {
    if let Err(why) = available() {
        eprintln!("SKIPPED a test with routers: {why}");
        return None;
    }
    let [a, r, s, b] = [(); 4].map(|()| Namespace::new().unwrap());
    for (net, left, right) in [("1", &a, &r), ("2", &r, &s), ("3", &s, &b)] {
        let [near, far] = [format!("right{net}"), format!("left{net}")];
        left.veth(&near, right, &far).unwrap();
        for (namespace, host, device) in [(left, "1", &near), (right, "2", &far)] {
            let (four, six) = (
                format!("10.0.{net}.{host}/24"),
                format!("fd00:{net}::{host}/64"),
            );
            namespace
                .ip(&["addr", "add", &four, "dev", device])
                .unwrap();
            namespace
                .ip(&["addr", "add", &six, "dev", device, "nodad"])
                .unwrap();
        }
    }
    for router in [&r, &s] {
        router.sysctl("net/ipv4/ip_forward", "1").unwrap();
        router.sysctl("net/ipv6/conf/all/forwarding", "1").unwrap();
    }
    for (namespace, to, via) in [
        (&a, "default", "10.0.1.2"),
        (&a, "default", "fd00:1::2"),
        (&r, "10.0.3.0/24", "10.0.2.2"),
        (&r, "fd00:3::/64", "fd00:2::2"),
        (&s, "10.0.1.0/24", "10.0.2.1"),
        (&s, "fd00:1::/64", "fd00:2::1"),
        (&b, "default", "10.0.3.1"),
        (&b, "default", "fd00:3::1"),
    ] {
        let route = ["route", "add", to, "via", via];
        namespace.ip(&route).unwrap();
    }
    Some([a, r, s, b])
}

/// Returns the number of hops from a namespace to an address.
fn hops_from(namespace: &Namespace, to: &str, from: Option<&str>) -> Result<Option<u8>, HopsError> {
    let (to, from) = (
        to.parse().unwrap(),
        from.map(|from| from.parse::<IpAddr>().unwrap()),
    );
    let found = namespace.run(|| probe(to, from)).unwrap();
    found.map(|hops| hops.map(NonZeroU8::get))
}

#[test]
fn routers_on_the_way_and_one_more_are_the_hops() {
    let Some([a, _r, _s, b]) = four_in_a_row() else {
        return;
    };
    // These are the default answers of a kernel.
    for (from, to, expected) in [
        (&a, "10.0.3.2", 3),
        (&a, "fd00:3::2", 3),
        (&b, "10.0.1.2", 2),
        (&b, "fd00:3::1", 1),
        (&b, "10.0.3.2", 1),
    ] {
        // A busy machine may not answer during one probe; a wrong number would stay wrong.
        let found = (0..5).find_map(|_| hops_from(from, to, None).unwrap());
        assert_eq!(found, Some(expected), "{to}");
    }
    let named = hops_from(&b, "10.0.1.1", Some("10.0.3.2")).unwrap();
    assert_eq!(named, Some(3));
}

#[test]
fn a_way_that_is_filtered_or_is_none_has_no_hops() {
    let Some([a, r, _s, b]) = four_in_a_row() else {
        return;
    };
    // A router that refuses reports it, and the search does not wait.
    r.ip(&["route", "add", "prohibit", "10.0.9.0/24"]).unwrap();
    assert_eq!(hops_from(&a, "10.0.9.1", None).unwrap(), None);
    // A host whose answers are dropped is silent for the whole time.
    b.ip(&["route", "replace", "blackhole", "10.0.1.0/24"])
        .unwrap();
    assert_eq!(
        hops_from(&a, "10.0.3.2", None).unwrap(),
        None,
        "within {TOTAL:?}"
    );
    // There is no route.
    let alone = Namespace::new().unwrap();
    let error = hops_from(&alone, "10.0.3.2", None).unwrap_err();
    assert!(matches!(error, HopsError::Send { .. }), "{error}");
    assert!(error.to_string().contains("33435"), "{error}");
}
