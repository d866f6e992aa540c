//! Runs of missed packets: the burst ratio, counted as packets come.

/// What the burst ratio is made of, without the packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Runs {
    /// Packets.
    pub total: u64,
    /// Those missed.
    pub missed: u64,
    /// Groups of missed packets that follow each other.
    pub runs: u64,
    in_run: bool,
}

impl Runs {
    /// The next packet, in the order of sending.
    pub fn push(&mut self, missed: bool) {
        self.total += 1;
        self.missed += u64::from(missed);
        self.runs += u64::from(missed && !self.in_run);
        self.in_run = missed;
    }

    /// The next `count` packets were all missed.
    pub fn push_missed(&mut self, count: u64) {
        if count > 0 {
            self.total += count;
            self.missed += count;
            self.runs += u64::from(!self.in_run);
            self.in_run = true;
        }
    }

    /// What follows does not continue a run: another stream begins.
    pub fn end_run(&mut self) {
        self.in_run = false;
    }

    /// The burst ratio, see [`super::burst_ratio`].
    #[must_use]
    pub fn burst_ratio(&self) -> f64 {
        burst_ratio(self.total, self.missed, self.runs)
    }
}

/// The burst ratio of `missed` packets among `total` that came in `runs` groups; 1 when they
/// cannot be compared with random loss.
#[must_use]
pub(crate) fn burst_ratio(total: u64, missed: u64, runs: u64) -> f64 {
    if missed == 0 || runs == 0 || missed >= total {
        return 1.0;
    }
    let arrived = (total - missed) as f64 / total as f64;
    missed as f64 / runs as f64 * arrived
}
