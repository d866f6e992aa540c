//! How the packets of a lane follow each other: evenly, or several at a time.
//!
//! ```text
//!   evenly    |  |  |  |  |  |  |  |        the next packet shows each loss at once
//!   together  ||||           ||||           behind the last of four nothing shows a loss for long
//!                └─ seen after ─┘
//! ```
//! Both lanes have the same mean distance. A mixer, a gateway, or a video source sends its packets together. In a given
//! time, more packets follow the first ones of such a group, and the losses of the last ones are seen late.

use super::super::SPAN;
use super::predict::Losses;
use base::Duration;

/// Number of gaps that are held. Choice: a dozen groups of twenty packets.
const HELD: usize = 256;
/// Number of lengths of runs of losses that are distinguished.
const RUNS: usize = 12;
/// Number of delays until a loss is seen that are distinguished, each of a millisecond. Longer ones count together.
const DELAYS: usize = 256;
/// Mark of a gap: the packet behind it wants no repair.
const UNWANTED: u32 = 1 << 31;
/// Number of parts into which packets are divided by the number of packets that follow them in time.
pub(super) const PARTS: usize = 4;

/// The last gaps between packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spacing {
    /// A ring of gaps in microseconds, with [`UNWANTED`] as a mark.
    gaps: [u32; HELD],
    next: usize,
    count: usize,
}

impl Default for Spacing {
    fn default() -> Spacing {
        Spacing {
            gaps: [0; HELD],
            next: 0,
            count: 0,
        }
    }
}

impl Spacing {
    /// Notes that a packet came this long after the previous one. `wants`: it wants repair.
    #[inline]
    pub(super) fn push(&mut self, gap: Duration, wants: bool) {
        let gap = u32::try_from(gap.as_micros()).map_or(UNWANTED - 1, |us| us.min(UNWANTED - 1));
        self.gaps[self.next] = if wants { gap } else { gap | UNWANTED };
        self.next = (self.next + 1) % HELD;
        self.count = (self.count + 1).min(HELD);
    }

    /// Returns how long it takes until a loss is seen: until the first packet behind it that is not lost.
    pub(super) fn seen(&self, losses: Losses) -> Seen {
        let mut seen = Seen::default();
        let each = 1.0 / self.count.max(1) as f64;
        for first in 0..self.count {
            let (mut delay, mut reaches) = (0u64, each);
            for run in 1..=RUNS {
                delay += u64::from(self.gap(first + run - 1));
                let ends = match run == RUNS {
                    true => reaches,
                    false => reaches * (1.0 - losses.burst),
                };
                reaches -= ends;
                seen.add(delay, ends);
            }
        }
        seen
    }

    /// Returns how many packets follow a packet within this time, at most [`SPAN`] less one, for each of [`PARTS`]
    /// equal parts of the packets, in ascending order.
    pub(super) fn reaches(&self, time: Duration) -> [u32; PARTS] {
        let time = time.as_micros();
        let mut counted = [0; SPAN];
        // Both ends of the stretch that fits only move forward.
        let (mut end, mut length) = (0, 0u64);
        for first in 0..self.count {
            if end < first {
                (end, length) = (first, 0);
            }
            while end - first < SPAN - 1 {
                let longer = length + u64::from(self.gap(end));
                if longer > time {
                    break;
                }
                (end, length) = (end + 1, longer);
            }
            counted[end - first] += 1;
            if end > first {
                length -= u64::from(self.gap(first));
            }
        }
        core::array::from_fn(|part| {
            let before = self.count * (2 * part + 1) / (2 * PARTS);
            let mut passed = 0;
            let of = counted.iter().position(|count| {
                passed += count;
                passed > before
            });
            of.unwrap_or_default() as u32
        })
    }

    /// Returns the spacing of only those packets that want repair.
    pub(super) fn wanted(&self) -> Spacing {
        let mut wanted = Spacing::default();
        let oldest = (self.next + HELD - self.count) % HELD;
        let mut before = Duration::ZERO;
        for at in 0..self.count {
            let gap = self.gaps[(oldest + at) % HELD];
            before += Duration::from_micros(u64::from(gap & !UNWANTED));
            if gap & UNWANTED == 0 {
                wanted.push(core::mem::take(&mut before), true);
            }
        }
        // The oldest packet follows the newest one again.
        if wanted.count > 0 {
            wanted.gaps[0] = wanted.gaps[0].saturating_add(before.as_micros() as u32);
        }
        wanted
    }

    /// Returns the gap behind a packet. The oldest packet follows the newest one again, as if the pattern repeated.
    fn gap(&self, at: usize) -> u32 {
        let oldest = (self.next + HELD - self.count) % HELD;
        self.gaps[(oldest + at % self.count.max(1)) % HELD] & !UNWANTED
    }
}

/// The shares of losses by how long it takes until they are seen.
#[derive(Debug)]
pub(super) struct Seen {
    /// For each millisecond: the share, and the sum of its delays in microseconds.
    delays: [(f64, f64); DELAYS],
}

impl Default for Seen {
    fn default() -> Seen {
        Seen {
            delays: [(0.0, 0.0); DELAYS],
        }
    }
}

impl Seen {
    fn add(&mut self, delay_us: u64, share: f64) {
        let at = (delay_us / 1_000).min(DELAYS as u64 - 1) as usize;
        let (of, sum) = &mut self.delays[at];
        *of += share;
        *sum += share * delay_us as f64;
    }

    /// Returns delays, and the share of losses that are seen after each. The shares add up to one.
    pub(super) fn delays(&self) -> impl Iterator<Item = (Duration, f64)> {
        let some = self.delays.iter().filter(|(share, _)| *share > 0.0);
        some.map(|(share, sum)| {
            // Without rounding, the delay could be a microsecond too short.
            let mean = (sum / share).round();
            (Duration::from_micros(mean as u64), *share)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// Returns the spacing of groups of `packets` packets, 20 ms apart.
    fn groups(packets: u64) -> Spacing {
        let mut spacing = Spacing::default();
        for n in 0..1_000 {
            spacing.push(if n % packets == 0 { ms(20) } else { ms(0) }, true);
        }
        spacing
    }

    #[test]
    fn a_loss_is_seen_by_the_first_packet_behind_it_that_comes() {
        let losses = Losses {
            share: 0.05,
            burst: 0.25,
        };
        let even: Vec<_> = groups(1).seen(losses).delays().take(3).collect();
        let expected = [(ms(20), 0.75), (ms(40), 0.1875), (ms(60), 0.046_875)];
        for ((delay, share), (of, is)) in even.iter().zip(expected) {
            assert_eq!(*delay, of);
            assert!((share - is).abs() < 1e-9, "{even:?}");
        }
        // No packet follows the last one of a group of four for 20 ms. Its loss is seen late, and so is a run that ends
        // with it.
        let together: Vec<_> = groups(4).seen(losses).delays().collect();
        let late = 0.25 * (1.0 + 0.25 + 0.25f64.powi(2) + 0.25f64.powi(3));
        assert!((together[0].1 - (1.0 - late)).abs() < 1e-3, "{together:?}");
        assert_eq!((together[0].0, together[1].0), (ms(0), ms(20)));
        let all: f64 = together.iter().map(|(_, share)| share).sum();
        assert!((all - 1.0).abs() < 1e-9);
        assert_eq!(Spacing::default().seen(losses).delays().count(), 0);
    }

    #[test]
    fn what_follows_a_packet_depends_on_its_place_in_the_group() {
        assert_eq!(groups(1).reaches(ms(59)), [2; PARTS]);
        assert_eq!(groups(1).reaches(ms(60)), [3; PARTS]);
        // None, one, two, or three of its own group, and all of the next two.
        assert_eq!(groups(4).reaches(ms(59)), [8, 9, 10, 11]);
        assert_eq!(groups(4).reaches(ms(19)), [0, 1, 2, 3]);
        let most = SPAN as u32 - 1;
        assert_eq!(groups(20).reaches(ms(100)), [most; PARTS]);
        assert_eq!(Spacing::default().reaches(ms(60)), [0; PARTS]);
    }

    #[test]
    fn packets_that_want_no_repair_do_not_count_among_those_that_do() {
        // A call, and beside it nine others 2 ms apart.
        let mut spacing = Spacing::default();
        (0..1_000).for_each(|n| spacing.push(ms(2), n % 10 == 0));
        assert_eq!(spacing.reaches(ms(60)), [30; PARTS]);
        assert_eq!(spacing.wanted().reaches(ms(60)), [3; PARTS]);
        assert_eq!(spacing.wanted().reaches(ms(59)), [2; PARTS]);
        assert_eq!(groups(4).wanted().reaches(ms(19)), [0, 1, 2, 3]);
    }
}
