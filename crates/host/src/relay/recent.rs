//! Remembers how many connections the segments that begin at this node used last, so that the next transfer continues
//! from there.
//!
//! ```text
//!   probe: 1, 2, 4, 8 ──▶ keep(node, Striping) ──▶ copy: taken up ──▶ begins with 8, and finds out more
//! ```
//! Without this, a copy after a probe would spend another six seconds to find what is already known, with fewer
//! connections than the segment needs. Only a transfer with the same congestion control continues where another one has
//! ended.

use base::{Duration, NodeAddr, Time};
use net::Clock;
use relay::striping::Striping;
use std::sync::{Mutex, PoisonError};

/// How long an entry is valid. Choice: the copies of one job follow each other within seconds, and other traffic
/// changes within minutes.
const FRESH: Duration = Duration::from_secs(120);
/// Number of segments that are remembered: some kilobytes each.
const SEGMENTS_MAX: usize = 256;

/// The remembered segments.
#[derive(Debug)]
pub(super) struct Recent {
    clock: Clock,
    ended: Mutex<Segments>,
}

#[derive(Debug, Default)]
struct Segments(Vec<Ended>);

#[derive(Debug)]
struct Ended {
    to: NodeAddr,
    congestion: String,
    at: Time,
    striping: Striping,
}

impl Recent {
    /// Creates an empty memory.
    pub(super) fn new() -> Recent {
        Recent {
            clock: Clock::new(),
            ended: Mutex::default(),
        }
    }

    /// Notes that a transfer has used the segment to this node until now.
    pub(super) fn keep(&self, to: NodeAddr, congestion: &str, striping: &Striping) {
        let now = self.clock.now();
        self.with(|all| all.keep(now, to, congestion, striping));
    }

    /// Returns what the last transfer over it has left.
    pub(super) fn of(&self, to: NodeAddr, congestion: &str) -> Option<Striping> {
        let now = self.clock.now();
        self.with(|all| all.of(now, to, congestion))
    }

    fn with<R>(&self, act: impl FnOnce(&mut Segments) -> R) -> R {
        act(&mut self.ended.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Segments {
    fn keep(&mut self, now: Time, to: NodeAddr, congestion: &str, striping: &Striping) {
        self.forget(now);
        self.0.retain(|ended| !ended.is(to, congestion));
        if self.0.len() >= SEGMENTS_MAX {
            self.0.remove(0);
        }
        self.0.push(Ended {
            to,
            congestion: congestion.to_owned(),
            at: now,
            striping: striping.clone(),
        });
    }

    fn of(&mut self, now: Time, to: NodeAddr, congestion: &str) -> Option<Striping> {
        self.forget(now);
        let found = self.0.iter().find(|ended| ended.is(to, congestion));
        found.map(|ended| ended.striping.clone())
    }

    fn forget(&mut self, now: Time) {
        self.0.retain(|ended| now.since(ended.at) < FRESH);
    }
}

impl Ended {
    fn is(&self, to: NodeAddr, congestion: &str) -> bool {
        self.to == to && self.congestion == congestion
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn the_last_of_a_segment_is_kept_for_two_minutes_and_of_so_many_segments() {
        let mut recent = Segments::default();
        let (a, b) = (NodeAddr(1), NodeAddr(2));
        recent.keep(s(0), a, "", &Striping::new(1, false));
        recent.keep(s(1), a, "", &Striping::new(4, false));
        recent.keep(s(2), a, "bbr", &Striping::new(8, false));
        let active = |recent: &mut Segments, now, to, congestion| {
            let found = recent.of(s(now), to, congestion);
            found.map(|striping| striping.active())
        };
        assert_eq!(active(&mut recent, 120, a, ""), Some(4));
        assert_eq!(active(&mut recent, 120, a, "bbr"), Some(8));
        assert_eq!(active(&mut recent, 120, a, "cubic"), None);
        assert_eq!(active(&mut recent, 120, b, ""), None);
        assert_eq!(active(&mut recent, 121, a, ""), None);
        for n in 0..1_000 {
            recent.keep(s(200), NodeAddr(n), "", &Striping::new(1, false));
        }
        assert_eq!(recent.0.len(), SEGMENTS_MAX);
        assert!(recent.of(s(200), NodeAddr(999), "").is_some());
    }
}
