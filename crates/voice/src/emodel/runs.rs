//! Runs of missed packets: the burst ratio, counted while packets arrive.

/// The counters for the burst ratio, without the packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Runs {
    /// Number of packets.
    pub total: u64,
    /// Number of missed packets.
    pub missed: u64,
    /// Number of groups of consecutive missed packets.
    pub runs: u64,
    in_run: bool,
}

impl Runs {
    /// Adds the next packet, in the order of sending.
    pub fn push(&mut self, missed: bool) {
        self.total += 1;
        self.missed += u64::from(missed);
        self.runs += u64::from(missed && !self.in_run);
        self.in_run = missed;
    }

    /// Adds `count` packets that were all missed.
    pub fn push_missed(&mut self, count: u64) {
        if count > 0 {
            self.total += count;
            self.missed += count;
            self.runs += u64::from(!self.in_run);
            self.in_run = true;
        }
    }

    /// Ends the present run, because another stream begins.
    pub fn end_run(&mut self) {
        self.in_run = false;
    }

    /// Returns the burst ratio, see [`super::burst_ratio`].
    #[must_use]
    pub fn burst_ratio(&self) -> f64 {
        burst_ratio(self.total, self.missed, self.runs)
    }
}

/// Returns the burst ratio of `missed` packets among `total` in `runs` groups; 1 if they cannot be compared with random
/// loss.
#[must_use]
pub(crate) fn burst_ratio(total: u64, missed: u64, runs: u64) -> f64 {
    if missed == 0 || runs == 0 || missed >= total {
        return 1.0;
    }
    let arrived = (total - missed) as f64 / total as f64;
    missed as f64 / runs as f64 * arrived
}
