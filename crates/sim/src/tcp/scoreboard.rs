//! The segments that the receiver has beyond the last one in order, and those that were retransmitted.

use std::collections::VecDeque;

/// Marks for the segments from the first missing one up to the highest that has arrived.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scoreboard {
    first: i64,
    marks: VecDeque<Mark>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    arrived: bool,
    /// If it was retransmitted: the next new segment at that time.
    resent_before: Option<i64>,
}

/// What an acknowledgement changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Update {
    /// Whether it contained something new.
    pub(crate) changed: bool,
    /// Number of retransmitted segments that have arrived.
    pub(crate) resent_arrived: i64,
}

impl Scoreboard {
    /// Notes an acknowledgement.
    pub(crate) fn update(&mut self, acked: i64, blocks: &[(i64, i64)]) -> Update {
        let mut update = Update::default();
        while !self.marks.is_empty() && self.first <= acked {
            if let Some(mark) = self.marks.pop_front() {
                update.resent_arrived += i64::from(mark.resent_before.is_some());
            }
            self.first += 1;
            update.changed = true;
        }
        if self.marks.is_empty() {
            self.first = acked + 1;
        }
        for &(from, to) in blocks {
            let end = self.first + self.marks.len() as i64;
            for _ in end..to {
                self.marks.push_back(Mark::default());
            }
            for seq in from.max(self.first)..to {
                let mark = &mut self.marks[(seq - self.first) as usize];
                if !mark.arrived {
                    mark.arrived = true;
                    update.changed = true;
                }
                update.resent_arrived += i64::from(mark.resent_before.take().is_some());
            }
        }
        update
    }

    /// Returns the first segment from `from` on that is missing and was not retransmitted.
    pub(crate) fn next_missing(&self, from: i64) -> Option<i64> {
        let skip = (from - self.first).max(0);
        let place = self
            .marks
            .iter()
            .skip(skip as usize)
            .position(|mark| !mark.arrived && mark.resent_before.is_none())?;
        Some(self.first + skip + place as i64)
    }

    /// Notes that `seq` was retransmitted while `next` was the next new segment.
    pub(crate) fn resent(&mut self, seq: i64, next: i64) {
        let place = seq - self.first;
        if let Some(mark) = usize::try_from(place)
            .ok()
            .and_then(|p| self.marks.get_mut(p))
        {
            mark.resent_before = Some(next);
        }
    }

    /// Returns whether a retransmitted segment is lost again: a segment that was sent for the first time after it has
    /// arrived. The lost one no longer counts as under way.
    pub(crate) fn lost_again(&mut self, blocks: &[(i64, i64)]) -> bool {
        let Some(highest) = blocks.iter().map(|(_, to)| *to).max() else {
            return false;
        };
        let mut any = false;
        for mark in &mut self.marks {
            if mark.resent_before.is_some_and(|next| next < highest) {
                mark.resent_before = None;
                any = true;
            }
        }
        any
    }

    pub(crate) fn clear(&mut self) {
        self.marks.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_found_in_order_and_once() {
        let mut board = Scoreboard::default();
        assert!(board.update(4, &[(7, 9), (10, 11)]).changed);
        assert!(!board.update(4, &[(7, 9)]).changed);
        assert_eq!(board.next_missing(0), Some(5));
        board.resent(5, 12);
        assert_eq!(board.next_missing(0), Some(6));
        assert_eq!(board.next_missing(7), Some(9));
        board.resent(6, 12);
        board.resent(9, 13);
        assert_eq!(board.next_missing(0), None);
        let update = board.update(8, &[(10, 11)]);
        assert_eq!((update.resent_arrived, update.changed), (2, true));
        let update = board.update(8, &[(9, 11)]);
        assert_eq!(update.resent_arrived, 1);
    }

    #[test]
    fn a_second_loss_shows_when_something_newer_arrives() {
        let mut board = Scoreboard::default();
        board.update(0, &[(2, 6)]);
        board.resent(1, 6);
        assert!(!board.lost_again(&[(2, 6)]));
        assert!(board.lost_again(&[(2, 8)]));
        assert!(!board.lost_again(&[(2, 8)]), "told once");
    }
}
