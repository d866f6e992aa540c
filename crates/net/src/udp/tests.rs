use super::*;
use crate::addr::underlay;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};

const V4: &str = "127.0.0.1:0";
const V6: &str = "[::1]:0";

fn open(addr: &str, options: Options) -> Socket {
    Socket::bind(addr.parse().unwrap(), options).unwrap()
}

fn address(socket: &Socket) -> UnderlayAddr {
    underlay(socket.local_addr().unwrap(), 0)
}

/// Creates a burst of datagrams of `stride` bytes, the last of `last`, each filled with its number.
fn burst(pool: &Pool, first: u8, count: usize, stride: usize, last: usize) -> Burst {
    let mut burst = pool.large().unwrap();
    let len = (count - 1) * stride + last;
    for (i, byte) in burst.spare_mut()[..len].iter_mut().enumerate() {
        *byte = first.wrapping_add((i / stride) as u8);
    }
    burst.fill(len, stride);
    burst
}

/// Returns everything that waits at `socket`, as single datagrams. Loopback delivers within the send.
fn drain(socket: &mut Socket, pool: &Pool) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    while socket.recv_batch(pool, &mut out, 64).unwrap() > 0 {}
    let datagrams = out
        .iter()
        .flat_map(|(_, burst)| (0..burst.segments()).map(|i| burst.segment(i).to_vec()));
    datagrams.collect()
}

#[test]
fn bursts_arrive_whole_and_in_order_with_any_offload() {
    let pool = Pool::new(128, 128);
    for addr in [V4, V6] {
        for (gso, gro) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut a = open(
                addr,
                Options {
                    gso,
                    ..Options::default()
                },
            );
            let mut b = open(
                addr,
                Options {
                    gro,
                    ..Options::default()
                },
            );
            assert_eq!((a.gso(), b.gro()), (gso, gro), "this kernel has both");
            let mut queue = SendQueue::new();
            queue.push(address(&b), burst(&pool, 0, 30, 1200, 700));
            queue.push(address(&b), burst(&pool, 30, 1, 10, 10));
            let sent = a.send_batch(&mut queue);
            assert_eq!(
                (sent.datagrams, sent.blocked, sent.gso_refused),
                (31, false, false)
            );
            let got = drain(&mut b, &pool);
            let sizes: Vec<usize> = got.iter().map(Vec::len).collect();
            assert_eq!(sizes, [vec![1200; 29], vec![700, 10]].concat());
            for (i, datagram) in got.iter().enumerate() {
                assert!(datagram.iter().all(|&byte| byte == i as u8), "datagram {i}");
            }
            let messages = if gso { 2 } else { 31 };
            assert_eq!(a.counters().send_messages, messages);
            assert_eq!(b.counters().recv_datagrams, 31);
            if gso && gro {
                assert_eq!(b.counters().recv_messages, 2, "loopback keeps bursts whole");
            }
        }
    }
}

#[test]
fn mapped_addresses_cross_between_families() {
    let pool = Pool::new(64, 64);
    let mut dual = open(
        "[::]:0",
        Options {
            socket: 5,
            ..Options::default()
        },
    );
    let mut four = open(V4, Options::default());
    let port = dual.local_addr().unwrap().port();
    let mut queue = SendQueue::new();
    let to = underlay((Ipv4Addr::LOCALHOST, port).into(), 0);
    queue.push(to, pool.copy_of(0, b"hello").unwrap());
    assert_eq!(four.send_batch(&mut queue).datagrams, 1);
    let mut out = Vec::new();
    assert_eq!(dual.recv_batch(&pool, &mut out, 64).unwrap(), 1);
    let (from, hello) = out.pop().unwrap();
    assert_eq!(
        (from.socket, from.is_ipv4(), hello.bytes()),
        (5, true, &b"hello"[..])
    );
    queue.push(from, hello);
    assert_eq!(dual.send_batch(&mut queue).datagrams, 1);
    assert_eq!(drain(&mut four, &pool), [b"hello"]);
    assert_eq!(drain(&mut dual, &pool), [[0u8; 0]; 0]);
}

#[test]
fn a_batch_stops_at_its_limit_and_the_rest_waits() {
    let pool = Pool::new(64, 64);
    let (mut a, mut b) = (open(V4, Options::default()), open(V4, Options::default()));
    a.set_gso(false);
    let mut queue = SendQueue::new();
    queue.push(address(&b), burst(&pool, 0, 10, 600, 600));
    a.send_batch(&mut queue);
    let mut out = Vec::new();
    assert_eq!(b.recv_batch(&pool, &mut out, 3).unwrap(), 3);
    assert_eq!(b.recv_batch(&pool, &mut out, 0).unwrap(), 0);
    assert_eq!(b.recv_batch(&pool, &mut out, 100).unwrap(), 7);
    let order: Vec<u8> = out.iter().map(|(_, burst)| burst.bytes()[0]).collect();
    assert_eq!(order, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
}

#[test]
fn small_datagrams_leave_the_large_slots_free() {
    let pool = Pool::new(64, 64);
    let (mut a, mut b) = (open(V4, Options::default()), open(V4, Options::default()));
    let mut queue = SendQueue::new();
    for (number, len) in [(0, 100), (1, 600), (2, 100), (3, 90)] {
        queue.push(address(&b), burst(&pool, number, 1, len, len));
    }
    a.set_gso(false);
    assert_eq!(a.send_batch(&mut queue).datagrams, 4);
    let mut out = Vec::new();
    b.recv_batch(&pool, &mut out, 64).unwrap();
    let got: Vec<(u8, usize)> = out.iter().map(|(_, b)| (b.bytes()[0], b.len())).collect();
    assert_eq!(got, [(0, 100), (1, 600), (2, 100), (3, 90)]);
    assert_eq!(
        pool.in_use(),
        (1 + 2 * 4, 3),
        "one large was handed out; room for twice as many messages as came waits"
    );
    out.clear();
    drop(b);
    assert_eq!(pool.in_use(), (0, 0));
}

#[test]
fn an_exhausted_pool_drops_and_counts_and_recovers() {
    let (sender_pool, pool) = (Pool::new(8, 8), Pool::new(1, 0));
    let (mut a, mut b) = (open(V4, Options::default()), open(V4, Options::default()));
    a.set_gso(false);
    let mut queue = SendQueue::new();
    queue.push(address(&b), burst(&sender_pool, 0, 3, 700, 700));
    a.send_batch(&mut queue);
    let mut out = Vec::new();
    assert_eq!(b.recv_batch(&pool, &mut out, 64).unwrap(), 1);
    assert_eq!(
        b.counters().recv_no_slot,
        0,
        "what the engine holds may come back first"
    );
    assert_eq!(b.recv_batch(&pool, &mut out, 64).unwrap(), 2);
    assert_eq!((b.counters().recv_no_slot, out.len()), (2, 1));
    out.clear();
    queue.push(address(&b), burst(&sender_pool, 9, 1, 700, 700));
    a.send_batch(&mut queue);
    assert_eq!(drain(&mut b, &pool), [[9; 700]]);
}

#[test]
fn what_lay_in_the_socket_while_nobody_looked_says_for_how_long() {
    // For how long the test does something else: far longer than any correction of a clock meanwhile.
    const ELSEWHERE: base::Duration = base::Duration::from_millis(20);
    let pool = Pool::new(64, 64);
    for (gso, gro) in [(false, false), (true, true)] {
        let offload = Options {
            gso,
            gro,
            ..Options::default()
        };
        let (mut a, mut b) = (open(V4, offload), open(V4, offload));
        let mut queue = SendQueue::new();
        let mut send = |first, count, bytes| {
            queue.push(address(&b), burst(&pool, first, count, bytes, bytes));
            a.send_batch(&mut queue);
        };
        // A large slot, a burst, and a datagram that is copied into a small slot.
        send(0, 1, 1_200);
        send(1, 4, 700);
        let clock = crate::clock::Clock::new();
        while clock.now() < base::Time::ZERO + ELSEWHERE {
            std::hint::spin_loop();
        }
        send(5, 1, 90);
        let mut out = Vec::new();
        while b.recv_batch(&pool, &mut out, 64).unwrap() > 0 {}
        let numbers: usize = out.iter().map(|(_, burst)| burst.segments()).sum();
        assert_eq!(numbers, 6);
        let waits: Vec<_> = out.iter().map(|(_, burst)| burst.waited()).collect();
        let (last, early) = waits.split_last().unwrap();
        for wait in early {
            assert!(*wait > base::Duration::ZERO && wait > last, "{waits:?}");
        }
    }
}

#[test]
fn empty_datagrams_are_counted_and_nothing_else() {
    let pool = Pool::new(64, 64);
    let mut b = open(V4, Options::default());
    let plain = UdpSocket::bind(V4).unwrap();
    plain.send_to(&[], b.local_addr().unwrap()).unwrap();
    plain.send_to(&[7], b.local_addr().unwrap()).unwrap();
    assert_eq!(drain(&mut b, &pool), [[7]]);
    assert_eq!(
        (b.counters().recv_empty, b.counters().recv_datagrams),
        (1, 1)
    );
}

#[test]
fn what_cannot_be_sent_is_counted_and_the_rest_goes_on() {
    let pool = Pool::new(64, 64);
    for gso in [true, false] {
        let mut a = open(
            V4,
            Options {
                gso,
                ..Options::default()
            },
        );
        let mut b = open(V4, Options::default());
        let six = underlay("[2001:db8::1]:9".parse().unwrap(), 0);
        let mut queue = SendQueue::new();
        queue.push(address(&b), burst(&pool, 1, 2, 50, 40));
        queue.push(six, burst(&pool, 0, 3, 50, 50));
        queue.push(address(&b), burst(&pool, 3, 1, 65_530, 65_530));
        queue.push(address(&b), burst(&pool, 4, 1, 50, 50));
        let sent = a.send_batch(&mut queue);
        assert_eq!(
            sent,
            Sent {
                datagrams: 3,
                ..Sent::default()
            }
        );
        assert!(queue.is_empty() && queue.bytes() == 0);
        let counters = *a.counters();
        assert_eq!((counters.send_unreachable, counters.send_too_long), (3, 1));
        assert_eq!(
            drain(&mut b, &pool),
            [vec![1; 50], vec![2; 40], vec![4; 50]]
        );
        assert_eq!(a.gso(), gso);
    }
}

#[test]
fn a_closed_port_stops_nobody() {
    let pool = Pool::new(64, 64);
    let (mut a, mut b) = (open(V4, Options::default()), open(V4, Options::default()));
    let closed = address(&open(V4, Options::default()));
    let mut queue = SendQueue::new();
    for number in 0..20 {
        queue.push(closed, burst(&pool, number, 1, 50, 50));
        queue.push(address(&b), burst(&pool, number, 1, 50, 50));
        assert_eq!(a.send_batch(&mut queue).datagrams, 2);
    }
    assert_eq!(drain(&mut b, &pool).len(), 20);
    assert_eq!(drain(&mut a, &pool).len(), 0);
}

#[test]
fn a_kernel_that_refuses_gso_gets_single_datagrams() {
    let pool = Pool::new(64, 64);
    let (mut a, mut b) = (open(V4, Options::default()), open(V4, Options::default()));
    // Without checksums the kernel answers EINVAL to GSO, as some devices do.
    sys::set_option(a.as_fd(), libc::SOL_SOCKET, libc::SO_NO_CHECK, 1).unwrap();
    let mut queue = SendQueue::new();
    queue.push(address(&b), burst(&pool, 0, 1, 70, 70));
    queue.push(address(&b), burst(&pool, 1, 70, 50, 20));
    queue.push(address(&b), burst(&pool, 71, 3, 90, 90));
    let sent = a.send_batch(&mut queue);
    assert_eq!(
        (sent.datagrams, sent.gso_refused, sent.blocked),
        (74, true, false)
    );
    assert!(!a.gso());
    let numbers: Vec<u8> = drain(&mut b, &pool).iter().map(|d| d[0]).collect();
    assert_eq!(numbers, Vec::from_iter(0..74));
    queue.push(address(&b), burst(&pool, 0, 5, 50, 50));
    let sent = a.send_batch(&mut queue);
    assert_eq!((sent.datagrams, sent.gso_refused), (5, false), "said once");
}

/// Returns the `IP_TOS` of a datagram.
fn tos(socket: &UdpSocket) -> u8 {
    let (mut byte, mut control) = ([0u8; 2_048], [0u64; 8]);
    let mut iovec = libc::iovec {
        iov_base: byte.as_mut_ptr().cast(),
        iov_len: byte.len(),
    };
    // SAFETY: all zero is a valid `msghdr`.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut iovec;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(&control);
    // SAFETY: the header points to buffers of this function, with their lengths.
    let got = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, 0) };
    assert!(got > 0, "{}", io::Error::last_os_error());
    // SAFETY: the kernel has just written the header's control messages.
    let message = unsafe { libc::CMSG_FIRSTHDR(&raw const header).as_ref() }.unwrap();
    let kind = (message.cmsg_level, message.cmsg_type);
    assert_eq!(kind, (libc::IPPROTO_IP, libc::IP_TOS));
    // SAFETY: a message of this kind has at least one byte.
    unsafe { libc::CMSG_DATA(message).read() }
}

#[test]
fn the_network_below_is_told_the_class_of_datagrams() {
    const DSCP: [u8; 3] = [0, 46, 18];
    let pool = Pool::new(16, 16);
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    sys::set_option(receiver.as_fd(), libc::IPPROTO_IP, libc::IP_RECVTOS, 1).unwrap();
    let SocketAddr::V4(to) = receiver.local_addr().unwrap() else {
        panic!("of IPv4")
    };
    let to = underlay(to.into(), 0);
    // The second one is an IPv6 socket that supports IPv4, too.
    for from in [V4, "[::]:0"] {
        for gso in [false, true] {
            let options = Options {
                gso,
                ..Options::default()
            };
            let mut socket = open(from, options);
            let mut queue = SendQueue::marking(&DSCP);
            for (mark, segments) in [(1, 3), (1, 1), (2, 1), (0, 2), (9, 1)] {
                let mut burst = burst(&pool, 0, segments, 100, 100);
                burst.set_mark(mark);
                queue.push(to, burst);
            }
            assert_eq!(queue.messages(), 3, "equal classes go together");
            assert_eq!(socket.send_batch(&mut queue).datagrams, 8);
            let told: Vec<u8> = (0..8).map(|_| tos(&receiver) >> 2).collect();
            assert_eq!(told, [46, 46, 46, 46, 18, 0, 0, 0], "{from} {gso}");
        }
    }
    let mut plain = SendQueue::new();
    for mark in [1, 2] {
        let mut burst = burst(&pool, 0, 1, 100, 100);
        burst.set_mark(mark);
        plain.push(to, burst);
    }
    assert_eq!(plain.messages(), 1, "nothing is told, and nothing is apart");
}
