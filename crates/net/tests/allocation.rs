//! Checks that forwarding by the node's sockets allocates nothing after warm-up.

#![allow(clippy::unwrap_used)]

use base::{Pool, UnderlayAddr};
use net::addr::underlay;
use net::udp::{Options, SendQueue, Socket};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Counts the allocations of the calling thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: everything is passed on to the system's allocator; the counter needs no allocation.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the rules of `alloc`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: `at` came from `alloc` above, with this layout.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn bind() -> Socket {
    Socket::bind("127.0.0.1:0".parse().unwrap(), Options::default()).unwrap()
}

/// Sends mixed traffic through one socket: single datagrams to be merged, bursts, two destinations.
fn round(
    pool: &Pool,
    sockets: &mut [Socket; 3],
    queue: &mut SendQueue,
    out: &mut Vec<(UnderlayAddr, base::Burst)>,
) -> usize {
    let to = [0, 1, 2].map(|i: usize| underlay(sockets[i].local_addr().unwrap(), 0));
    let [source, relay, sink] = sockets;
    for size in [200, 200, 200, 900, 900, 90] {
        let mut burst = pool.large().unwrap();
        burst.fill(size * 8, size);
        queue.push(to[1], burst);
        queue.push(to[1], pool.copy_of(0, &[1; 150]).unwrap());
    }
    source.send_batch(queue);
    let mut datagrams = 0;
    while relay.recv_batch(pool, out, 64).unwrap() > 0 {
        for (i, (_, burst)) in out.drain(..).enumerate() {
            datagrams += burst.segments();
            queue.push(to[if i % 3 == 0 { 0 } else { 2 }], burst);
        }
        relay.send_batch(queue);
    }
    for socket in [source, sink] {
        while socket.recv_batch(pool, out, 64).unwrap() > 0 {
            out.clear();
        }
    }
    datagrams
}

#[test]
fn nothing_is_allocated_after_warm_up() {
    let pool = Pool::new(256, 256);
    let (mut queue, mut out) = (SendQueue::new(), Vec::with_capacity(256));
    for gso in [true, false] {
        let mut sockets = [bind(), bind(), bind()];
        sockets[1].set_gso(gso);
        for _ in 0..20 {
            assert_eq!(round(&pool, &mut sockets, &mut queue, &mut out), 54);
        }
        let before = ALLOCATIONS.with(Cell::get);
        for _ in 0..50 {
            assert_eq!(round(&pool, &mut sockets, &mut queue, &mut out), 54);
        }
        assert_eq!(ALLOCATIONS.with(Cell::get) - before, 0);
    }
}
