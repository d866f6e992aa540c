//! Shards: the part of all cells that a run measures, so that several machines share the work.

use std::fmt;
use std::str::FromStr;

/// Most shards: with more, most machines would have no cell to measure.
const SHARDS_MAX: usize = 10_000;

/// One part of a number of equal parts, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    index: usize,
    count: usize,
}

/// The text is not a shard.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a shard: write it like 2/5, the second of five, from 1/1 to 10000/10000")]
pub struct BadShard(String);

impl Shard {
    /// Returns whether this shard measures the cell at this index.
    pub(crate) fn holds(self, place: usize) -> bool {
        place % self.count == self.index - 1
    }
}

impl FromStr for Shard {
    type Err = BadShard;

    fn from_str(text: &str) -> Result<Shard, BadShard> {
        let bad = || BadShard(text.to_owned());
        let (index, count) = text.split_once('/').ok_or_else(bad)?;
        let number = |text: &str| text.parse::<usize>().map_err(|_| bad());
        let shard = Shard {
            index: number(index)?,
            count: number(count)?,
        };
        let fits = (1..=SHARDS_MAX).contains(&shard.count);
        if fits && (1..=shard.count).contains(&shard.index) {
            Ok(shard)
        } else {
            Err(bad())
        }
    }
}

/// Writes the shard's form in file names.
impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-of-{}", self.index, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_is_in_one_shard() {
        for count in 1..7 {
            let shards: Vec<Shard> = (1..=count)
                .map(|i| format!("{i}/{count}").parse().unwrap())
                .collect();
            for place in 0..50 {
                assert_eq!(shards.iter().filter(|s| s.holds(place)).count(), 1);
            }
        }
    }

    #[test]
    fn what_is_no_shard_is_refused() {
        for text in [
            "5/3", "0/3", "1/0", "0/0", "1", "/", "a/b", "1/2/3", "-1/2", "1/99999", "",
        ] {
            let error = text.parse::<Shard>().unwrap_err().to_string();
            assert!(error.contains("2/5"), "{error}");
        }
    }
}
