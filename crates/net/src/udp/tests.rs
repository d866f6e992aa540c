use super::*;
use crate::addr::underlay;
use std::net::Ipv4Addr;

const V4: &str = "127.0.0.1:0";
const V6: &str = "[::1]:0";

fn open(addr: &str, options: Options) -> Socket {
    Socket::bind(addr.parse().unwrap(), options).unwrap()
}

fn address(socket: &Socket) -> UnderlayAddr {
    underlay(socket.local_addr().unwrap(), 0)
}

/// A burst of datagrams of `stride` bytes, the last of `last`, each filled with its number.
fn burst(pool: &Pool, first: u8, count: usize, stride: usize, last: usize) -> Burst {
    let mut burst = pool.large().unwrap();
    let len = (count - 1) * stride + last;
    for (i, byte) in burst.spare_mut()[..len].iter_mut().enumerate() {
        *byte = first.wrapping_add((i / stride) as u8);
    }
    burst.fill(len, stride);
    burst
}

/// Everything that waits at `socket`, as single datagrams. Loopback delivers within the send.
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
