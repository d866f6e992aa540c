//! The present share of lost datagrams, from the reports of what one side has sent and the other has seen.

use std::collections::VecDeque;

/// Number of reports over which losses are computed: while datagrams are carried, there is one per second.
const REPORTS: usize = 10;

/// The recent reports of one direction.
#[derive(Clone, Debug, Default)]
pub struct Losses(VecDeque<(u64, u64)>);

impl Losses {
    /// Notes a report: with the present keys, `came` of `of` datagrams have arrived.
    pub fn tell(&mut self, came: u64, of: u64) {
        // New keys start from zero, and a late report shows nothing.
        if self.0.back().is_some_and(|last| of < last.1) {
            self.0.clear();
        }
        if self.0.len() >= REPORTS {
            self.0.pop_front();
        }
        self.0.push_back((came, of));
    }

    /// Returns the share, from 0 to 1.
    pub fn share(&self) -> f64 {
        let (Some(first), Some(last)) = (self.0.front(), self.0.back()) else {
            return 0.0;
        };
        // The first report covers everything before it.
        let first = if self.0.len() < 2 { &(0, 0) } else { first };
        let (came, of) = (
            last.0.saturating_sub(first.0),
            last.1.saturating_sub(first.1),
        );
        of.saturating_sub(came) as f64 / of.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_is_lost_now() {
        let mut losses = Losses::default();
        assert_eq!(losses.share(), 0.0);
        losses.tell(90, 100);
        assert!((losses.share() - 0.1).abs() < 1e-9);
        for second in 1..=100 {
            losses.tell(90 + 50 * second, 100 + 50 * second);
        }
        assert_eq!(losses.share(), 0.0);
        losses.tell(90 + 5_000, 100 + 5_050);
        assert!((losses.share() - 50.0 / 450.0).abs() < 1e-9);
        // The keys have changed.
        losses.tell(3, 4);
        assert!((losses.share() - 0.25).abs() < 1e-9);
    }
}
