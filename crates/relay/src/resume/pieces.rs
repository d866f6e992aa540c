//! Collects the sinks' reports about the file that is being compared: which of its pieces all of them have.
//!
//! ```text
//!   ask ─▶ on_keys … on_keys(none) of each sink ─▶ take_next: the key of the next piece, where all have the same
//! ```

use super::{KEYS_MAX, TooMuch};
use std::collections::{BTreeMap, VecDeque};

/// The sinks' reports about the file that is being compared.
#[derive(Debug)]
pub struct Pieces<N: Ord> {
    sinks: usize,
    answers: BTreeMap<N, Answer>,
    /// Number of files that the source has asked about.
    asked: u64,
}

#[derive(Debug, Default)]
struct Answer {
    /// Number of files for which the sink has reported everything.
    told: u64,
    /// Keys of the file that was asked about last that the source has not looked at yet.
    keys: VecDeque<u64>,
}

impl<N: Ord + Copy> Pieces<N> {
    /// Expects answers of this many sinks. Nothing was asked yet.
    pub fn new(sinks: usize) -> Pieces<N> {
        Pieces {
            sinks,
            answers: BTreeMap::new(),
            asked: 0,
        }
    }

    /// Returns true if the source has asked about a file.
    pub fn is_asked(&self) -> bool {
        self.asked > 0
    }

    /// Asks all sinks about the next file. Returns false, and asks nothing, until all have reported everything about
    /// the file before.
    pub fn ask(&mut self) -> bool {
        let have_told = |answer: &Answer| answer.told == self.asked;
        let is_free = self.asked == 0
            || (self.answers.len() == self.sinks && self.answers.values().all(have_told));
        if is_free {
            self.asked += 1;
            self.answers.values_mut().for_each(|a| a.keys.clear());
        }
        is_free
    }

    /// Takes the keys of the next pieces from a sink. An empty list means that the sink has reported everything.
    pub fn on_keys(&mut self, from: N, keys: impl Iterator<Item = u64>) -> Result<(), TooMuch> {
        if !self.answers.contains_key(&from) && self.answers.len() == self.sinks {
            return Err(TooMuch);
        }
        let answer = self.answers.entry(from).or_default();
        let before = answer.keys.len();
        answer.keys.extend(keys);
        let is_asked = answer.told < self.asked;
        if answer.keys.len() == before {
            answer.told += 1;
        }
        match is_asked && answer.keys.len() <= KEYS_MAX {
            true => Ok(()),
            false => Err(TooMuch),
        }
    }

    /// Returns the key of the next piece. The outer option is none while a sink has not answered yet. The inner option
    /// is none if the sinks do not all have the same key.
    pub fn take_next(&mut self) -> Option<Option<u64>> {
        let asked = self.asked;
        let is_known = |answer: &Answer| !answer.keys.is_empty() || answer.told == asked;
        if self.answers.len() < self.sinks || !self.answers.values().all(is_known) {
            return None;
        }
        let mut keys = self.answers.values_mut().map(|a| a.keys.pop_front());
        let first = keys.next().flatten();
        // Each sink's next key is removed, also behind the first one that differs.
        let are_same = keys.fold(true, |same, key| same & (key == first));
        Some(first.filter(|_| are_same))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_the_same_where_all_sinks_have_it() {
        let mut pieces = Pieces::new(2);
        assert_eq!(
            pieces.on_keys('a', [1].into_iter()),
            Err(TooMuch),
            "asked for nothing"
        );
        let mut pieces = Pieces::new(2);
        assert!(pieces.ask());
        pieces.on_keys('a', [1, 2, 3, 4].into_iter()).unwrap();
        assert_eq!(pieces.take_next(), None, "b has told nothing");
        pieces.on_keys('b', [1, 9].into_iter()).unwrap();
        assert_eq!(pieces.on_keys('c', [1].into_iter()), Err(TooMuch));
        assert_eq!(
            (pieces.take_next(), pieces.take_next()),
            (Some(Some(1)), Some(None))
        );
        assert_eq!(pieces.take_next(), None, "b may have more");
        pieces.on_keys('b', [3].into_iter()).unwrap();
        assert_eq!(pieces.take_next(), Some(Some(3)));
        pieces.on_keys('b', [].into_iter()).unwrap();
        assert_eq!(pieces.take_next(), Some(None), "it has no more of it");
        assert!(!pieces.ask(), "a has not told all of the first file");
        pieces.on_keys('a', [5].into_iter()).unwrap();
        pieces.on_keys('a', [].into_iter()).unwrap();
        assert_eq!(pieces.on_keys('a', [7].into_iter()), Err(TooMuch));
        let mut pieces = Pieces::new(1);
        assert!(pieces.ask());
        pieces.on_keys('a', [5].into_iter()).unwrap();
        pieces.on_keys('a', [].into_iter()).unwrap();
        assert!(pieces.ask());
        assert_eq!(
            pieces.take_next(),
            None,
            "what is left of the first file is gone"
        );
        pieces.on_keys('a', [6].into_iter()).unwrap();
        assert_eq!(pieces.take_next(), Some(Some(6)));
        assert_eq!(pieces.on_keys('a', 0..KEYS_MAX as u64 + 1), Err(TooMuch));
    }
}
