//! Sockets over real interfaces, between network namespaces. Needs root; says so and skips without.
//!
//! A process of its own: `ip` is run by fork, and a fork holds for a moment the descriptors of
//! all other tests in the process, such as listeners that they believe to be closed.
#![allow(clippy::unwrap_used)]

use base::{Burst, Pool, UnderlayAddr};
use net::addr::underlay;
use net::epoll::{Interest, Poller};
use net::netns::{Namespace, available};
use net::udp::{Options, SendQueue, Sent, Socket};
use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd};

fn address(socket: &Socket) -> UnderlayAddr {
    underlay(socket.local_addr().unwrap(), 0)
}

/// A burst of `count` datagrams of `stride` bytes, each filled with its number.
fn burst(pool: &Pool, first: u8, count: usize, stride: usize) -> Burst {
    let mut burst = pool.large().unwrap();
    for (i, byte) in burst.spare_mut()[..count * stride].iter_mut().enumerate() {
        *byte = first + (i / stride) as u8;
    }
    burst.fill(count * stride, stride);
    burst
}

/// Everything that waits at `socket`: the number of each datagram.
fn drain(socket: &mut Socket, pool: &Pool) -> Vec<u8> {
    let mut out = Vec::new();
    while socket.recv_batch(pool, &mut out, 64).unwrap() > 0 {}
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

/// Two sockets in namespaces of their own, connected by interfaces of `mtu`, and what holds them.
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
    // A socket stays in the network in which its thread has made it.
    let bind = |network: &Namespace, addr: &str| {
        network.enter().unwrap();
        Socket::bind(addr.parse().unwrap(), Options::default()).unwrap()
    };
    let sockets = (bind(&a, "10.0.0.1:4000"), bind(&b, "10.0.0.2:4000"));
    Some((sockets.0, sockets.1, [a, b]))
}

#[test]
fn bursts_too_long_for_the_mtu_are_lost_without_blaming_gso() {
    let Some((mut a, b, _networks)) = over_veth("1280") else {
        return;
    };
    let pool = Pool::new(64, 64);
    let mut queue = SendQueue::new();
    queue.push(address(&b), burst(&pool, 0, 5, 1300));
    queue.push(address(&b), burst(&pool, 5, 5, 1200));
    let sent = a.send_batch(&mut queue);
    assert_eq!(
        sent,
        Sent {
            datagrams: 5,
            ..Sent::default()
        }
    );
    assert_eq!((a.counters().send_too_long, a.gso()), (5, true));
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
    // Once somebody seems to be there, what waited leaves, and all the rest can follow.
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
    poller.add(&b, 2, Interest::READ).unwrap();
    poller.remove(&a).unwrap();
    let mut numbers = Vec::new();
    while numbers.len() < 11 {
        poller.wait(None, &mut ready).unwrap();
        numbers.extend(drain(&mut b, &pool));
    }
    assert_eq!(numbers, Vec::from_iter(0..11));
}
