//! Answers that are kept as long as their TTL says.

use base::{Duration, Time};
use std::collections::BTreeMap;

/// The shortest time for which an answer is kept: a name with a TTL of 0 is asked for once per second and not once per
/// call.
pub const TTL_MIN: Duration = Duration::from_secs(1);
/// The longest time for which an answer is kept: if a server moves and the TTL is days, clients notice it after an
/// hour.
pub const TTL_MAX: Duration = Duration::from_secs(3_600);

/// A bounded memory of answers.
#[derive(Clone, Debug)]
pub struct Cache<K, V> {
    entries: BTreeMap<K, (Time, V)>,
    most: usize,
}

impl<K: Ord + Clone, V> Cache<K, V> {
    /// Creates an empty cache for `most` answers.
    pub fn new(most: usize) -> Cache<K, V> {
        Cache {
            entries: BTreeMap::new(),
            most,
        }
    }

    /// Returns the answer for `key`, and until when it is valid.
    pub fn find(&self, now: Time, key: &K) -> Option<(Time, &V)> {
        let (until, value) = self.entries.get(key)?;
        (now < *until).then_some((*until, value))
    }

    /// Keeps an answer for `ttl`, within the bounds. The answer that expires first makes room.
    pub fn keep(&mut self, now: Time, key: K, value: V, ttl: Duration) -> Time {
        let until = now + ttl.max(TTL_MIN).min(TTL_MAX);
        if self.entries.len() >= self.most && !self.entries.contains_key(&key) {
            self.entries.retain(|_, (until, _)| now < *until);
            if self.entries.len() >= self.most {
                let ends_first = self.entries.iter().min_by_key(|(_, (until, _))| *until);
                if let Some(key) = ends_first.map(|(key, _)| key.clone()) {
                    self.entries.remove(&key);
                }
            }
        }
        self.entries.insert(key, (until, value));
        until
    }

    /// Returns how many answers are held, including expired ones.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if no answer is held.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn answers_count_for_their_time_within_bounds() {
        let mut cache = Cache::new(8);
        cache.keep(at(0), "short", 1, Duration::ZERO);
        cache.keep(at(0), "long", 2, Duration::from_secs(86_400));
        cache.keep(at(0), "plain", 3, Duration::from_secs(60));
        for (key, last_ms) in [("short", 999), ("long", 3_599_999), ("plain", 59_999)] {
            assert!(cache.find(at(last_ms), &key).is_some(), "{key}");
            assert_eq!(cache.find(at(last_ms + 1), &key), None, "{key}");
        }
        cache.keep(at(500), "short", 4, Duration::ZERO);
        assert_eq!(cache.find(at(1_499), &"short"), Some((at(1_500), &4)));
    }

    #[test]
    fn what_ends_first_makes_room() {
        let mut cache = Cache::new(2);
        cache.keep(at(0), 1, (), Duration::from_secs(50));
        cache.keep(at(0), 2, (), Duration::from_secs(10));
        cache.keep(at(0), 3, (), Duration::from_secs(20));
        assert_eq!((cache.len(), cache.is_empty()), (2, false));
        assert!(cache.find(at(0), &1).is_some() && cache.find(at(0), &3).is_some());
    }

    proptest! {
        /// With room for all answers, it behaves like a list that is searched from its end. With less room it stays
        /// within its bound, and never returns an answer that the list would not return.
        #[test]
        fn it_never_tells_what_is_over_or_replaced(
            steps in prop::collection::vec((0u64..3_000, 0u8..6, 0u64..4), 1..60),
            most in 1usize..8,
        ) {
            let mut cache = Cache::new(most);
            let mut list: Vec<(u8, usize, Time)> = Vec::new();
            let mut now = Time::ZERO;
            for (i, &(pause_ms, key, ttl_s)) in steps.iter().enumerate() {
                now += Duration::from_millis(pause_ms);
                cache.keep(now, key, i, Duration::from_secs(ttl_s));
                list.push((key, i, now + Duration::from_secs(ttl_s.max(1))));
                prop_assert!(cache.len() <= most);
                for key in 0..6 {
                    let last = list.iter().rev().find(|(k, ..)| *k == key);
                    let last = last.filter(|(.., until)| now < *until);
                    let found = cache.find(now, &key).map(|(_, value)| *value);
                    if most >= 6 || found.is_some() {
                        prop_assert_eq!(found, last.map(|(_, value, _)| *value));
                    }
                }
            }
        }
    }
}
