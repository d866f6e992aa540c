//! Datagrams longer than a packet: the exit reassembles them, within bounded memory.
//!
//! ```text
//!   fragment ─▶ known datagram? ── all of it there ─▶ delivered
//!                 │ no                  │ not yet
//!               room? ── the oldest goes   waits, until its time is over
//! ```
//! A datagram is reassembled in the packet buffer in which its client gets it. Fragments that arrive twice do no harm.
//! A fragment that contradicts the others is refused.

use crate::stream::Ranges;
use base::{Burst, Duration, Map, NodeAddr, Pool, Time, VirtualPort};
use wire::data::Remaining;
use wire::transport::Fragment;

/// Maximum number of datagrams that one node reassembles at once, each in a buffer of 64 KiB: 4 MiB.
pub const PARTIAL_MAX: usize = 64;
/// The same for one source: a sender of long datagrams over a lossy path does not crowd out others.
pub const PARTIAL_PER_SOURCE_MAX: usize = 16;
/// Maximum time between the fragments of a datagram without a deadline. Choice: the time of two retransmissions on the
/// longest path, and no more, because the buffers are few.
pub const PATIENCE: Duration = Duration::from_secs(1);

/// The key of a fragmented datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The node and port that sent it.
    pub from: (NodeAddr, VirtualPort),
    /// Its destination node or group.
    pub to: NodeAddr,
    /// Its destination port.
    pub port: VirtualPort,
    /// The sender's number of the datagram.
    pub id: u32,
}

/// The result of taking a fragment.
#[derive(Debug)]
pub enum Outcome {
    /// The fragment was the last missing one: the datagram, and what is left of its deadline.
    Whole(Burst, Remaining),
    /// The fragment waits for others, or had arrived before.
    Kept,
    /// The fragment contradicts others.
    Contradicts,
    /// There is no packet buffer.
    NoBuffer,
}

#[derive(Debug)]
struct Partial {
    payload: Burst,
    total: u16,
    have: Ranges,
    bytes: usize,
    /// The time left to its deadline, and the moment to which this value applies.
    remaining: (Remaining, Time),
    since: Time,
    until: Time,
}

/// Datagrams that were given up since the last call of [`Reassembly::take_given_up`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GivenUp {
    /// Datagrams whose time had run out.
    pub late: u32,
    /// Datagrams whose place other datagrams have taken.
    pub crowded_out: u32,
}

/// The datagrams of a node that are not whole yet.
#[derive(Debug, Default)]
pub struct Reassembly {
    partial: Map<Key, Partial>,
    /// A time not later than the end of the first one's time.
    next: Option<Time>,
    given_up: GivenUp,
}

impl Reassembly {
    /// Returns the number of waiting datagrams.
    pub fn len(&self) -> usize {
        self.partial.len()
    }

    /// Returns true if none waits.
    pub fn is_empty(&self) -> bool {
        self.partial.is_empty()
    }

    /// Takes a fragment.
    pub fn on_fragment(
        &mut self,
        now: Time,
        key: Key,
        (fragment, bytes): (Fragment, &[u8]),
        remaining: Remaining,
        pool: &Pool,
    ) -> Outcome {
        self.expire(now);
        if !self.partial.contains_key(&key) {
            self.make_room(key.from.0);
            let Some(mut payload) = pool.large() else {
                return Outcome::NoBuffer;
            };
            payload.fill(fragment.total.into(), fragment.total.into());
            let patience = remaining.duration().unwrap_or(PATIENCE).min(PATIENCE);
            let until = now + patience;
            self.next = Some(self.next.map_or(until, |next| next.min(until)));
            let partial = Partial {
                payload,
                total: fragment.total,
                have: Ranges::default(),
                bytes: 0,
                remaining: (remaining, now),
                since: now,
                until,
            };
            self.partial.insert(key, partial);
        }
        let Some(partial) = self.partial.get_mut(&key) else {
            return Outcome::NoBuffer;
        };
        if partial.total != fragment.total {
            return Outcome::Contradicts;
        }
        let from = usize::from(fragment.offset);
        let to = from + bytes.len();
        partial.payload.bytes_mut()[from..to].copy_from_slice(bytes);
        let mut news = 0;
        partial
            .have
            .insert(from as u64, to as u64, |a, b| news += (b - a) as usize);
        partial.bytes += news;
        let (left, at) = partial.remaining;
        let left = left.minus(now.since(at));
        // The fragment that took longest counts; the value for no deadline is the largest.
        partial.remaining = (Remaining(left.0.min(remaining.0)), now);
        if partial.bytes < usize::from(partial.total) {
            return Outcome::Kept;
        }
        match self.partial.remove(&key) {
            Some(whole) => Outcome::Whole(whole.payload, whole.remaining.0),
            None => Outcome::Kept,
        }
    }

    /// Removes the oldest datagram if there are too many, of this source or in total: a datagram that has waited long
    /// is the least likely to become whole. In total, only the sources with the most datagrams lose one.
    fn make_room(&mut self, source: NodeAddr) {
        let is_full = self.len() >= PARTIAL_MAX;
        let own = self.partial.keys().filter(|key| key.from.0 == source);
        let oldest = match (own.count() >= PARTIAL_PER_SOURCE_MAX, is_full) {
            (true, _) => self.oldest(|key| key.from.0 == source),
            (false, true) => {
                let mut counts: Map<NodeAddr, usize> = Map::default();
                for key in self.partial.keys() {
                    *counts.entry(key.from.0).or_default() += 1;
                }
                let most = counts.values().max();
                self.oldest(|key| counts.get(&key.from.0) == most)
            }
            (false, false) => None,
        };
        if let Some(oldest) = oldest {
            self.partial.remove(&oldest);
            self.given_up.crowded_out += 1;
        }
    }

    fn oldest(&self, counts: impl Fn(&Key) -> bool) -> Option<Key> {
        let candidates = self.partial.iter().filter(|(key, _)| counts(key));
        let oldest = candidates.min_by_key(|(key, partial)| (partial.since, **key));
        oldest.map(|(key, _)| *key)
    }

    /// Gives up datagrams that have waited too long.
    pub fn expire(&mut self, now: Time) {
        if self.next.is_none_or(|next| now < next) {
            return;
        }
        let before = self.partial.len();
        self.partial.retain(|_, partial| partial.until > now);
        self.given_up.late += (before - self.partial.len()) as u32;
        self.next = self.partial.values().map(|partial| partial.until).min();
    }

    /// Returns the numbers of datagrams that were given up since the last call.
    pub fn take_given_up(&mut self) -> GivenUp {
        core::mem::take(&mut self.given_up)
    }

    /// Returns when [`Reassembly::expire`] has something to do.
    pub fn next_timeout(&self) -> Option<Time> {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;

    fn key(source: u32, id: u32) -> Key {
        Key {
            to: NodeAddr(9),
            from: (NodeAddr(source), VirtualPort(1)),
            port: VirtualPort(2),
            id,
        }
    }

    /// The fragments of a datagram whose bytes depend on their places.
    fn fragments(total: u16, step: usize) -> Vec<(Fragment, Vec<u8>)> {
        let byte = |at: usize| (at * 31 % 251) as u8;
        (0..usize::from(total))
            .step_by(step)
            .map(|from| {
                let to = (from + step).min(total.into());
                let fragment = Fragment {
                    offset: from as u16,
                    id: 0,
                    total,
                };
                (fragment, (from..to).map(byte).collect())
            })
            .collect()
    }

    #[test]
    fn fragments_in_any_order_and_twice_make_the_datagram() {
        let (pool, mut rng) = (Pool::new(4, 0), Rng::new(1));
        let mut all = Reassembly::default();
        for round in 0..20 {
            let mut parts = fragments(65_507, 1_382);
            parts.extend(parts.clone());
            let mut whole = None;
            while !parts.is_empty() && whole.is_none() {
                let (fragment, bytes) = parts.swap_remove(rng.below(parts.len() as u64) as usize);
                let part = (fragment, bytes.as_slice());
                let remaining = Remaining(if round % 2 == 0 { 900 } else { u16::MAX });
                match all.on_fragment(Time::ZERO, key(1, round), part, remaining, &pool) {
                    Outcome::Whole(payload, left) => whole = Some((payload, left)),
                    Outcome::Kept => {}
                    other => panic!("{other:?}"),
                }
            }
            let (payload, left) = whole.unwrap();
            assert_eq!((payload.len(), payload.segments()), (65_507, 1));
            assert!(
                payload
                    .bytes()
                    .iter()
                    .enumerate()
                    .all(|(i, b)| *b == (i * 31 % 251) as u8)
            );
            assert_eq!(left == Remaining(900), round % 2 == 0);
            assert!(all.is_empty());
        }
        assert_eq!(pool.in_use(), (0, 0));
    }

    #[test]
    fn memory_is_bounded_and_what_waits_too_long_goes() {
        let pool = Pool::new(PARTIAL_MAX + 1, 0);
        let mut all = Reassembly::default();
        let parts = fragments(3_000, 1_382);
        let first = (parts[0].0, parts[0].1.as_slice());
        let at = |ms| Time::ZERO + Duration::from_millis(ms);
        for id in 0..100 {
            all.on_fragment(at(id.into()), key(1, id), first, Remaining::NONE, &pool);
        }
        let crowded = GivenUp {
            late: 0,
            crowded_out: 84,
        };
        assert_eq!(
            (all.len(), all.take_given_up()),
            (PARTIAL_PER_SOURCE_MAX, crowded)
        );
        for source in 2..200 {
            all.on_fragment(at(200), key(source, 0), first, Remaining::NONE, &pool);
        }
        assert_eq!(all.len(), PARTIAL_MAX);
        // A source with many datagrams takes no place of one with few.
        for id in 1..100 {
            all.on_fragment(at(200), key(199, id), first, Remaining::NONE, &pool);
        }
        for source in 137..199 {
            assert!(all.partial.contains_key(&key(source, 0)), "{source}");
        }
        let wrong = Fragment {
            total: 2_999,
            ..parts[0].0
        };
        let told = all.on_fragment(
            at(300),
            key(199, 99),
            (wrong, first.1),
            Remaining::NONE,
            &pool,
        );
        assert!(matches!(told, Outcome::Contradicts));
        all.take_given_up();
        all.expire(at(1_199));
        assert_eq!(all.len(), PARTIAL_MAX);
        assert_eq!(all.next_timeout(), Some(at(1_200)));
        all.expire(at(1_200));
        let late = GivenUp {
            late: PARTIAL_MAX as u32,
            crowded_out: 0,
        };
        assert_eq!((all.len(), all.take_given_up()), (0, late));
        assert_eq!(pool.in_use(), (0, 0));
    }
}
