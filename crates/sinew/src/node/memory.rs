//! The memory of a running node.
//!
//! ```text
//!   start ──▶ keep what runs ──▶ links come up ──▶ 10 s ──▶ keep what runs ──▶ only what runs is in memory
//! ```
//! Most of the program runs only once: to read files, to do handshakes, to receive the first records. The node gives
//! the memory of this code back to the kernel. If the code runs again, it comes from the page cache. The remaining
//! memory is locked, if the node has real-time priority and runs as root.

use super::is_root;
use net::sched;

/// Keeps the code in memory that has run since the last call or runs later. Gives back the code that only ran before.
pub(super) fn keep_what_runs(is_realtime: bool) {
    // The kernel takes back no locked memory.
    let _ = sched::unlock_memory();
    sched::give_back_code();
    // With a limit, the next allocation beyond the limit would fail, which is worse than a page that was swapped out.
    if is_realtime && is_root() {
        let _ = sched::lock_memory();
    }
}
