//! The memory in which a node runs.
//!
//! ```text
//!   start ──▶ keep what runs ──▶ links come up ──▶ 10 s ──▶ keep what runs ──▶ only what runs is in memory
//! ```
//! Most of the program is called once: to read files, to shake hands, to take the first records. It is given back, and
//! comes again from the page cache if it is called again. What stays is locked, if the node got real-time priority and
//! runs as root.

use super::is_root;
use net::sched;

/// Keeps in memory what has run since it was last asked, and what will run; gives the code back that has only run before.
pub(super) fn keep_what_runs(is_realtime: bool) {
    // Of locked memory nothing is given back.
    let _ = sched::unlock_memory();
    sched::give_back_code();
    // With a limit, the next allocation beyond it would fail, and that is worse than a page that was swapped out.
    if is_realtime && is_root() {
        let _ = sched::lock_memory();
    }
}
