//! The order in which servers are tried, as in RFC 2782.
//!
//! Lower priority numbers come first. Among equals, servers are drawn one after the other, each with a probability in
//! proportion to its weight; a weight of 0 has a very small probability as long as others are left. This way, many
//! clients spread over the servers as their owner wishes, and each client still knows all of them.

/// An SRV record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Srv {
    /// The priority: records with lower numbers come first.
    pub priority: u16,
    /// The share among the records of the same priority.
    pub weight: u16,
    /// The port of the service.
    pub port: u16,
    /// The host of the service, in lower case, without the dot at the end.
    pub target: String,
}

/// Orders records. `draw(n)` returns a random number from 0 to `n`, both included.
pub fn order(mut records: Vec<Srv>, mut draw: impl FnMut(u32) -> u32) -> Vec<Srv> {
    // Weights of 0 come first within a priority, as in RFC 2782; the rest only makes the order repeatable.
    records.sort();
    let mut ordered = Vec::with_capacity(records.len());
    while let Some(first) = records.first() {
        let priority = first.priority;
        let equals = records.partition_point(|record| record.priority == priority);
        let sum = |records: &[Srv]| records.iter().map(|record| u32::from(record.weight)).sum();
        let drawn = draw(sum(&records[..equals]));
        let mut running = 0;
        let chosen = records[..equals].iter().position(|record| {
            running += u32::from(record.weight);
            running >= drawn
        });
        // A number beyond the sum would be a mistake of `draw`; the last record is as good.
        ordered.push(records.remove(chosen.unwrap_or(equals - 1)));
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;
    use proptest::prelude::*;

    fn srv(priority: u16, weight: u16, target: &str) -> Srv {
        Srv {
            priority,
            weight,
            port: 5060,
            target: target.to_owned(),
        }
    }

    fn hosts(ordered: &[Srv]) -> Vec<&str> {
        ordered
            .iter()
            .map(|record| record.target.as_str())
            .collect()
    }

    #[test]
    fn the_drawn_number_chooses_as_the_rfc_says() {
        let records = || {
            vec![
                srv(1, 10, "b"),
                srv(1, 0, "a"),
                srv(0, 0, "first"),
                srv(1, 30, "c"),
            ]
        };
        // Running sums of priority 1: a 0, b 10, c 40.
        for (drawn, expected) in [
            (0, ["first", "a", "b", "c"]),
            (1, ["first", "b", "c", "a"]),
            (10, ["first", "b", "c", "a"]),
            (11, ["first", "c", "b", "a"]),
            (40, ["first", "c", "b", "a"]),
            (u32::MAX, ["first", "c", "b", "a"]),
        ] {
            let ordered = order(records(), |most| drawn.min(most));
            assert_eq!(hosts(&ordered), expected, "{drawn}");
        }
    }

    #[test]
    fn shares_follow_the_weights() {
        let mut rng = Rng::new(1);
        let mut first = [0u32; 3];
        for _ in 0..10_000 {
            let records = vec![srv(5, 60, "a"), srv(5, 20, "b"), srv(5, 20, "c")];
            let ordered = order(records, |most| rng.below(u64::from(most) + 1) as u32);
            first[usize::from(ordered[0].target.as_bytes()[0] - b'a')] += 1;
        }
        // The numbers 0 to 60 of 101 select the first: 60.4 %; five deviations of 0.5 % are allowed.
        assert!((5_790..6_290).contains(&first[0]), "{first:?}");
        assert!((1_780..2_200).contains(&first[1]), "{first:?}");
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_priorities_ascend(
            records in prop::collection::vec((0u16..4, any::<u16>(), "[a-c]"), 0..40),
            seed in any::<u64>(),
        ) {
            let mut rng = Rng::new(seed);
            let records: Vec<Srv> = records.iter().map(|(p, w, t)| srv(*p, *w, t)).collect();
            let mut ordered = order(records.clone(), |most| rng.below(u64::from(most) + 1) as u32);
            prop_assert!(ordered.is_sorted_by_key(|record| record.priority));
            let mut expected = records;
            ordered.sort();
            expected.sort();
            prop_assert_eq!(ordered, expected);
        }
    }
}
