//! Table I: the fifteen loads. [Brogle09 §III-B]

use crate::experiment::Size;

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Load {
    /// Its number.
    pub(super) no: u32,
    /// Bytes of UDP payload.
    pub(super) payload: usize,
    /// Bytes of the packet on the wire, as the table counts them.
    pub(super) data: usize,
    /// Megabits of such packets per second.
    pub(super) mbps: f64,
    /// Number of packets that the paper sends.
    pub(super) packets: u64,
}

const fn load(no: u32, payload: usize, data: usize, mbps: f64, packets: u64) -> Load {
    Load {
        no,
        payload,
        data,
        mbps,
        packets,
    }
}

/// The table.
pub(super) const LOADS: [Load; 15] = [
    load(1, 32, 79, 1.0, 8_000),
    load(2, 32, 79, 5.0, 40_000),
    load(3, 32, 79, 10.0, 80_000),
    load(4, 32, 79, 24.8, 130_000),
    load(5, 32, 79, 49.6, 130_000),
    load(6, 512, 559, 1.0, 1_200),
    load(7, 512, 559, 24.8, 28_000),
    load(8, 512, 559, 49.6, 56_000),
    load(9, 512, 559, 75.2, 85_000),
    load(10, 512, 559, 84.8, 95_000),
    load(11, 1_024, 1_071, 1.0, 600),
    load(12, 1_024, 1_071, 24.8, 15_000),
    load(13, 1_024, 1_071, 49.6, 29_000),
    load(14, 1_024, 1_071, 75.2, 44_000),
    load(15, 1_024, 1_071, 84.8, 50_000),
];

/// A quick run sends one of this many of the paper's packets: about a second per load.
const QUICK_SHARE: u64 = 5;
/// Least number of packets of a quick run: fewer would not measure the loss.
const QUICK_PACKETS_MIN: u64 = 200;

impl Load {
    /// Returns the load with a number.
    pub(super) fn numbered(no: f64) -> Load {
        let found = LOADS.iter().find(|load| f64::from(load.no) == no);
        *found.expect("the experiment made this cell")
    }

    /// Returns the packets per second.
    // Choice: bandwidth over the packet's bits, which gives each load the five seconds that follow from its packet
    // count. The column of gaps at 100 Mbit/s gives 4 to 14 % more.
    pub(super) fn rate_pps(&self) -> f64 {
        self.mbps * 1e6 / (8.0 * self.data as f64)
    }

    /// Returns the number of packets that a run sends.
    pub(super) fn packets(&self, size: Size) -> u64 {
        match size {
            Size::Full => self.packets,
            Size::Quick => (self.packets / QUICK_SHARE).max(QUICK_PACKETS_MIN),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_load_takes_the_five_seconds_of_the_table_but_for_the_two_that_are_cut_short() {
        for (place, load) in LOADS.iter().enumerate() {
            assert_eq!(load.no as usize, place + 1);
            assert_eq!(load.data, load.payload + 47);
            assert_eq!(Load::numbered(f64::from(load.no)), *load);
            let seconds = load.packets as f64 / load.rate_pps();
            match load.no {
                4 | 5 => assert!(seconds < 3.4 && load.packets == 130_000),
                _ => assert!((5.0..5.4).contains(&seconds), "{} {seconds}", load.no),
            }
        }
    }

    #[test]
    fn a_quick_run_sends_fewer_and_never_too_few() {
        assert_eq!(LOADS[4].packets(Size::Quick), 26_000);
        assert_eq!(LOADS[10].packets(Size::Quick), 200);
        assert_eq!(LOADS[10].packets(Size::Full), 600);
    }
}
