//! Measures the memory of a group: 100 000 of them, counted by the allocator.

use base::{Duration, NodeAddr, Time};
use scribe::{Config, Event, Outlet, Scribe, Settings};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use wire::scribe::{Addresses, BeatFlags, MESSAGE_BYTES_MAX, Message};

/// Counts the bytes that are in use.
struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is passed on to the system's allocator; the counter needs no allocation.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the rules of `alloc`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: `at` came from `alloc` above, with this layout.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Parents accept everything; no other message is handled.
#[derive(Default)]
struct Outside {
    joins: Vec<(NodeAddr, Vec<u8>)>,
}

impl Outlet for Outside {
    fn send(&mut self, to: NodeAddr, bytes: &[u8]) {
        if let Ok(Message::Join(_)) = Message::parse(bytes) {
            self.joins.push((to, bytes.to_vec()));
        }
    }
    fn branches(&mut self, _: NodeAddr, _: Option<NodeAddr>, _: &[NodeAddr], _: bool) {}
    fn root(&mut self, _: NodeAddr, _: NodeAddr) {}
    fn proximity_us(&self, _: NodeAddr) -> Option<u32> {
        Some(1_000)
    }
    fn report(&mut self, _: Event) {}
}

fn bytes_of(message: &Message<'_>) -> Vec<u8> {
    let mut buffer = [0; MESSAGE_BYTES_MAX];
    let len = message.emit(&mut buffer).expect("it fits");
    buffer[..len].to_vec()
}

#[test]
fn a_group_costs_at_most_64_bytes() {
    const GROUPS: u32 = 100_000;
    let own = NodeAddr(0x0a07_0001);
    let mut now = Time::ZERO + Duration::from_secs(1);
    let mut out = Outside::default();
    let mut node = Scribe::new(Config {
        own,
        seed: 1,
        settings: Settings::default(),
    });
    let beat = bytes_of(&Message::Beat {
        flags: BeatFlags::default(),
        nodes: Addresses::new(&[]),
    });
    for n in 2..40 {
        node.on_message(now, NodeAddr(0x0a07_0000 + n), &beat, &mut out);
    }
    let before = IN_USE.load(Ordering::Relaxed);
    // The addresses of the groups are in no order, as in reality.
    for n in 0..GROUPS {
        let group = NodeAddr(0xe000_0000 + n.wrapping_mul(0x9e37_79b1) % 0x0fff_ffff);
        node.join(now, group, &mut out).expect("there is room");
        if n % 100 == 0 {
            now += Duration::from_micros(100);
        }
    }
    now += Duration::from_millis(10);
    node.on_timeout(now, &mut out);
    for (parent, join) in std::mem::take(&mut out.joins) {
        let Ok(Message::Join(groups)) = Message::parse(&join) else {
            unreachable!("only joins are kept");
        };
        node.on_message(now, parent, &bytes_of(&Message::Accept(groups)), &mut out);
    }
    assert_eq!(
        (node.group_count(), node.pending_count()),
        (GROUPS as usize, 0)
    );
    let used = IN_USE.load(Ordering::Relaxed) - before;
    let each = used as f64 / f64::from(GROUPS);
    assert!(each <= 64.0, "{each} bytes for each group");
    let told = node.state_bytes() as f64 / f64::from(GROUPS);
    assert!(
        told >= each * 0.8 && told <= 64.0,
        "{told} bytes told, {each} used"
    );
}
