//! Checks that forwarding by the engine allocates nothing after a warm-up.

#![allow(clippy::unwrap_used)]

use lab::bench::engine::{How, Replay};
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

/// Returns the number of turns in which the middle engine allocated, and the number of allocations, out of `turns`.
fn allocating_turns(replay: &mut Replay, turns: usize) -> (usize, u64) {
    let mut seen = (0, 0);
    for _ in 0..turns {
        let mut edges = [0; 2];
        let mut edge = 0;
        replay
            .turn(|| {
                edges[edge] = ALLOCATIONS.with(Cell::get);
                edge += 1;
            })
            .unwrap();
        let count = edges[1] - edges[0];
        seen.0 += usize::from(count > 0);
        seen.1 += count;
    }
    seen
}

#[test]
fn packets_are_forwarded_without_allocation() {
    let how = |group, coded| How {
        group,
        coded,
        ..How::default()
    };
    for (payload, burst, how) in [
        (160, 1, how(false, false)),
        (160, 16, how(false, false)),
        (1_200, 16, how(false, false)),
        (160, 1, how(true, false)),
        (160, 16, how(true, false)),
        (160, 1, how(false, true)),
        (160, 16, how(false, true)),
    ] {
        // The rate is high in virtual time, so that the engine is warm after few packets, but low enough for debug
        // builds.
        let rate_pps = 100_000;
        let mut replay = Replay::new(how, payload, burst, 10, rate_pps).unwrap();
        let per_turn = 32 * burst;
        // Windows double until half of each lasts for half a second. The measurement then lies between two rounds of
        // housekeeping, which run once per second and may allocate.
        allocating_turns(&mut replay, rate_pps as usize * 5 / 2 / per_turn);
        let turns = rate_pps as usize / 4 / per_turn;
        let (allocating, allocations) = allocating_turns(&mut replay, turns);
        assert_eq!(
            (allocating, allocations),
            (0, 0),
            "turns that allocated, and allocations, in {turns} turns of {per_turn} packets of \
             {payload} bytes, {how:?}"
        );
    }
}
