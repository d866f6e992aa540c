//! Remembers probes without a result, so that the attempts of a copy do not repeat them.
//!
//! ```text
//!   probe: the processors are the limit, or it ends too soon ──▶ keep(node, bytes) ──▶ the next one, of no more bytes: the
//!                                                                                     same answer, and nothing is sent
//! ```
//! The answer stays "nothing is known", so no rate is derived from it. The node that sends the noise remembers it,
//! because a copy whose process was killed is begun again by another process, while the node still runs.

use base::{Duration, NodeAddr, Time};
use net::Clock;
use std::sync::{Mutex, PoisonError};

/// For this long the same probe is expected to have no result again. Choice: what keeps the processors busy ends in
/// minutes; a copy that is interrupted every 10 s then pays for one probe in thirty attempts.
const IN_VAIN: Duration = Duration::from_secs(300);
/// Number of segments that are remembered.
const SEGMENTS_MAX: usize = 256;

/// The remembered probes.
#[derive(Debug)]
pub(super) struct Vain {
    clock: Clock,
    probes: Mutex<Probes>,
}

#[derive(Debug, Default)]
struct Probes(Vec<Probe>);

#[derive(Debug)]
struct Probe {
    to: NodeAddr,
    congestion: String,
    bytes: u64,
    at: Time,
}

impl Vain {
    /// Creates an empty memory.
    pub(super) fn new() -> Vain {
        Vain {
            clock: Clock::new(),
            probes: Mutex::default(),
        }
    }

    /// Notes whether a probe of the segment to this node, with this many bytes at most, has had a result now.
    pub(super) fn keep(&self, to: NodeAddr, congestion: &str, bytes: u64, has_found: bool) {
        let now = self.clock.now();
        self.with(|all| all.keep(now, (to, congestion), bytes, has_found));
    }

    /// Returns true if a probe with this many bytes is expected to have no result.
    pub(super) fn is(&self, to: NodeAddr, congestion: &str, bytes: u64) -> bool {
        let now = self.clock.now();
        self.with(|all| all.is(now, (to, congestion), bytes))
    }

    fn with<R>(&self, act: impl FnOnce(&mut Probes) -> R) -> R {
        act(&mut self.probes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Probes {
    fn keep(&mut self, now: Time, (to, congestion): (NodeAddr, &str), bytes: u64, has_found: bool) {
        self.0.retain(|probe| {
            let is_same = probe.to == to && probe.congestion == congestion;
            now.since(probe.at) < IN_VAIN && !is_same
        });
        if has_found {
            return;
        }
        if self.0.len() >= SEGMENTS_MAX {
            self.0.remove(0);
        }
        self.0.push(Probe {
            to,
            congestion: congestion.to_owned(),
            bytes,
            at: now,
        });
    }

    fn is(&self, now: Time, (to, congestion): (NodeAddr, &str), bytes: u64) -> bool {
        self.0.iter().any(|probe| {
            let is_same = probe.to == to && probe.congestion == congestion;
            is_same && bytes <= probe.bytes && now.since(probe.at) < IN_VAIN
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn what_found_nothing_is_not_repeated_for_five_minutes_unless_with_more_bytes() {
        let mut probes = Probes::default();
        let (a, b) = (NodeAddr(1), NodeAddr(2));
        assert!(!probes.is(s(0), (a, ""), 1));
        probes.keep(s(0), (a, ""), 1_000, false);
        for (at, to, bytes, is_vain) in [
            (0, (a, ""), 1_000, true),
            (299, (a, ""), 1, true),
            (299, (a, ""), 1_001, false),
            (299, (a, "bbr"), 1, false),
            (299, (b, ""), 1, false),
            (300, (a, ""), 1, false),
        ] {
            assert_eq!(probes.is(s(at), to, bytes), is_vain, "{at} {to:?} {bytes}");
        }
        probes.keep(s(10), (a, "bbr"), 1_000, false);
        probes.keep(s(20), (a, ""), 1_000, true);
        assert!(!probes.is(s(20), (a, ""), 1), "now something is known");
        assert!(probes.is(s(20), (a, "bbr"), 1));
        for n in 0..1_000 {
            probes.keep(s(30), (NodeAddr(n), ""), 1, false);
        }
        assert_eq!(probes.0.len(), SEGMENTS_MAX);
    }
}
