//! Disjoint ranges of 64-bit places in a stream, in order. At the receiver they hold what has come beyond the
//! contiguous part; at the sender, what the peer says has come.

/// Sorted ranges that neither overlap nor touch. Each goes from the first place up to, but without, the second.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges {
    list: Vec<(u64, u64)>,
}

impl Ranges {
    /// Returns the number of ranges.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there is no range.
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns all ranges, the lowest first.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (u64, u64)> {
        self.list.iter().copied()
    }

    /// Returns the lowest range.
    pub(crate) fn first(&self) -> Option<(u64, u64)> {
        self.list.first().copied()
    }

    /// Returns the highest range.
    pub(crate) fn last(&self) -> Option<(u64, u64)> {
        self.list.last().copied()
    }

    /// Whether there is a range that `from..to` would overlap or touch.
    pub(crate) fn adjoins(&self, from: u64, to: u64) -> bool {
        let at = self.list.partition_point(|range| range.1 < from);
        self.list.get(at).is_some_and(|range| range.0 <= to)
    }

    /// Adds `from..to`, calls `news` for each part that is new, and returns the range that now contains it.
    pub(crate) fn insert(
        &mut self,
        from: u64,
        to: u64,
        mut news: impl FnMut(u64, u64),
    ) -> (u64, u64) {
        let first = self.list.partition_point(|range| range.1 < from);
        let (mut low, mut high, mut known) = (from, to, from);
        let mut after = first;
        while let Some(&(start, end)) = self.list.get(after)
            && start <= to
        {
            if start > known {
                news(known, start);
            }
            known = known.max(end);
            (low, high) = (low.min(start), high.max(end));
            after += 1;
        }
        if known < to {
            news(known, to);
        }
        if after == first {
            self.list.insert(first, (low, high));
        } else {
            self.list[first] = (low, high);
            self.list.drain(first + 1..after);
        }
        (low, high)
    }

    /// Forgets all below `place`.
    pub(crate) fn trim_below(&mut self, place: u64) {
        let gone = self.list.partition_point(|range| range.1 <= place);
        self.list.drain(..gone);
        if let Some(first) = self.list.first_mut() {
            first.0 = first.0.max(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn ranges_agree_with_a_set(parts in proptest::collection::vec((0u64..200, 1u64..30), 1..40), cut in 0u64..200) {
            let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
            for (from, len) in parts {
                let mut news = BTreeSet::new();
                let (low, high) = ranges.insert(from, from + len, |a, b| news.extend(a..b));
                let expected: BTreeSet<u64> = (from..from + len).filter(|p| !set.contains(p)).collect();
                prop_assert_eq!(&news, &expected);
                set.extend(from..from + len);
                prop_assert!((low..high).all(|p| set.contains(&p)));
                prop_assert!(!set.contains(&high) && (low == 0 || !set.contains(&(low - 1))));
            }
            ranges.trim_below(cut);
            set.retain(|p| *p >= cut);
            let told: BTreeSet<u64> = ranges.iter().flat_map(|(a, b)| a..b).collect();
            prop_assert_eq!(&told, &set);
            prop_assert!(ranges.list.windows(2).all(|pair| pair[0].1 < pair[1].0));
            for place in 0..240 {
                let near = set.contains(&place) || place > 0 && set.contains(&(place - 1));
                prop_assert_eq!(ranges.adjoins(place, place), near);
            }
        }
    }
}
