//! The measurements of a run. [Papadimitriou06 §4.3]
//!
//! ```text
//!   written    |  |  |  |  |            |  |  |  |        the speaker's packets, and his pause
//!   arrived      |  |       ||| |         |   |  |
//!                     gap               (pause taken off)
//! ```
//!
//! A packet is *delayed* if the gap since the last arrival exceeds the threshold, and *timely* if it arrives and is not
//! delayed. Choice: the speaker's own silence is subtracted from a gap, since otherwise the first packet of every
//! talkspurt would be delayed, even on a perfect path; the result of the plain reading is measured too
//! ([`Scores::plain_index`]).
//!
//! By gaps, a packet that waited in the sender for seconds is timely if the one before it waited as long. So the
//! one-way delay from the application's write is measured too.

use crate::stats::ranked;
use base::{Duration, Time};

/// The thresholds of scenario 5, in milliseconds; 300 is that of all others.
pub(super) const THRESHOLDS_MS: [u64; 7] = [100, 150, 200, 250, 300, 350, 400];
/// The threshold of all scenarios but the fifth. [Papadimitriou06 §4.3]
pub(super) const THRESHOLD_MS: u64 = 300;
/// The one-way delay up to which a delay is not noticed. [Papadimitriou06 Table II]
pub(super) const ON_TIME: Duration = Duration::from_millis(150);
/// Packets that are written in this last part of a run are not judged: at its end they may still be under way without a
/// fault. No queue here holds packets longer.
pub(super) const TAIL: Duration = Duration::from_secs(1);

/// A packet of an application: when it was written, and when it had arrived completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    pub(super) written: Time,
    pub(super) arrived: Option<Time>,
}

/// One call, as its receiver heard it.
#[derive(Clone, Debug, Default)]
pub(super) struct Call {
    /// The packets in the order of writing.
    pub(super) packets: Vec<Packet>,
    /// Bytes of each packet.
    pub(super) bytes: usize,
    /// Time between two packets of a talkspurt.
    pub(super) interval: Duration,
}

/// The scores of a call.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Scores {
    /// Packets that count.
    pub(super) written: u64,
    /// Those of these packets that arrived.
    pub(super) arrived: u64,
    /// By threshold: shares of timely and of delayed packets, of the written ones.
    pub(super) index: [f64; THRESHOLDS_MS.len()],
    pub(super) delayed: [f64; THRESHOLDS_MS.len()],
    /// The index at 300 ms, with the speaker's silence included in the gaps.
    pub(super) plain_index: f64,
    /// Bytes delivered in the whole run.
    pub(super) bytes: u64,
    /// One-way delays of the packets that arrived.
    pub(super) delays: Vec<Duration>,
    /// The share of written packets that arrived within [`ON_TIME`].
    pub(super) on_time: f64,
}

impl Call {
    /// Scores a call in a run that ends at `end`; returns `None` if no packet of it counts.
    pub(super) fn scores(&self, end: Time) -> Option<Scores> {
        let arrived_by = |packet: &Packet| packet.arrived.filter(|at| *at <= end);
        let delivered = self.packets.iter().filter(|p| arrived_by(p).is_some());
        let mut scores = Scores {
            bytes: delivered.count() as u64 * self.bytes as u64,
            ..Scores::default()
        };
        let judged = self.packets.iter().filter(|p| p.written + TAIL <= end);
        let (mut timely, mut delayed) = ([0_u64; THRESHOLDS_MS.len()], [0; THRESHOLDS_MS.len()]);
        let (mut plain, mut on_time) = (0_u64, 0_u64);
        let mut last: Option<Time> = None;
        let (mut silence, mut before) = (Duration::ZERO, None::<Time>);
        for packet in judged {
            scores.written += 1;
            if let Some(before) = before {
                silence += packet.written.since(before).saturating_sub(self.interval);
            }
            before = Some(packet.written);
            let Some(at) = arrived_by(packet) else {
                continue;
            };
            scores.arrived += 1;
            let delay = at.since(packet.written);
            scores.delays.push(delay);
            on_time += u64::from(delay <= ON_TIME);
            // The first packet of a call has no gap.
            let whole = last.map_or(Duration::ZERO, |last| at.since(last));
            let gap = whole.saturating_sub(silence);
            for (place, threshold) in THRESHOLDS_MS.iter().enumerate() {
                let late = gap > Duration::from_millis(*threshold);
                timely[place] += u64::from(!late);
                delayed[place] += u64::from(late);
            }
            plain += u64::from(whole <= Duration::from_millis(THRESHOLD_MS));
            // A packet that was overtaken does not turn the clock back.
            last = Some(last.map_or(at, |last| last.max(at)));
            silence = Duration::ZERO;
        }
        let share = |n: u64| n as f64 / scores.written as f64;
        scores.index = timely.map(share);
        scores.delayed = delayed.map(share);
        scores.plain_index = share(plain);
        scores.on_time = share(on_time);
        (scores.written > 0).then_some(scores)
    }
}

/// Returns Jain's index of the flows' throughputs: 1 if all are equal. [Papadimitriou06 §4.3]
pub(super) fn fairness(throughputs: &[f64]) -> f64 {
    let (sum, squares) = throughputs
        .iter()
        .fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    match squares > 0.0 {
        true => sum * sum / (throughputs.len() as f64 * squares),
        // If all throughputs are zero, this counts as fair.
        false => 1.0,
    }
}

/// Returns the smallest of sorted values that a share `q` does not exceed, in milliseconds; NaN if there are none.
pub(super) fn quantile_ms(sorted: &[Duration], q: f64) -> f64 {
    ranked(sorted, q).map_or(f64::NAN, |value| value.as_nanos() as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    fn call(packets: &[(u64, Option<u64>)]) -> Call {
        let packet = |&(written, arrived): &(u64, Option<u64>)| Packet {
            written: ms(written),
            arrived: arrived.map(ms),
        };
        Call {
            packets: packets.iter().map(packet).collect(),
            bytes: 160,
            interval: Duration::from_millis(20),
        }
    }

    #[test]
    fn a_speakers_pause_is_nobodys_delay() {
        let scores = call(&[(0, Some(30)), (20, Some(50)), (2_000, Some(2_030))]).scores(ms(9_000));
        let scores = scores.unwrap();
        assert_eq!(scores.index, [1.0; 7]);
        assert_eq!(scores.delayed, [0.0; 7]);
        assert!((scores.plain_index - 2.0 / 3.0).abs() < 1e-12);
        assert_eq!((scores.on_time, scores.bytes), (1.0, 480));
    }

    #[test]
    fn a_gap_delays_one_packet_and_hides_those_that_waited_behind_it() {
        let sent = [
            (0, Some(30)),
            (20, Some(280)),
            (40, Some(281)),
            (60, Some(282)),
        ];
        let scores = call(&sent).scores(ms(9_000)).unwrap();
        // The gap of 250 ms is above 100, 150 and 200, and not above 250.
        assert_eq!(scores.delayed, [0.25, 0.25, 0.25, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(scores.index[0], 0.75);
        // Of the four packets, only the first arrived within 150 ms of its write.
        assert_eq!(scores.on_time, 0.25);
    }

    #[test]
    fn losses_are_in_the_gap_and_silence_around_them_is_not() {
        // The end of one talkspurt and the beginning of the next are lost, 14 packets; between them is 1 s of silence.
        let mut sent = vec![(0, Some(30))];
        sent.extend((1..8).map(|n| (20 * n, None)));
        sent.extend((0..7).map(|n| (1_140 + 20 * n, None)));
        sent.push((1_280, Some(1_310)));
        let scores = call(&sent).scores(ms(9_000)).unwrap();
        // The gap is 15 intervals of 20 ms, 300 ms, without the silence.
        assert_eq!(
            scores.delayed,
            [
                1.0 / 16.0,
                1.0 / 16.0,
                1.0 / 16.0,
                1.0 / 16.0,
                0.0,
                0.0,
                0.0
            ]
        );
        assert_eq!((scores.written, scores.arrived), (16, 2));
    }

    #[test]
    fn what_is_written_too_late_is_not_judged_and_what_comes_after_the_end_has_not_come() {
        let sent = [(0, Some(30)), (20, Some(5_001)), (4_001, Some(4_030))];
        let scores = call(&sent).scores(ms(5_000)).unwrap();
        assert_eq!((scores.written, scores.arrived, scores.bytes), (2, 1, 320));
        assert_eq!(call(&[(4_500, Some(4_600))]).scores(ms(5_000)), None);
    }

    #[test]
    fn fairness_is_one_for_equals_and_one_over_n_for_one_who_has_all() {
        assert_eq!(fairness(&[3.0; 7]), 1.0);
        assert!((fairness(&[0.0, 0.0, 5.0, 0.0]) - 0.25).abs() < 1e-12);
        assert_eq!((fairness(&[]), fairness(&[0.0, 0.0])), (1.0, 1.0));
        let all = [1, 2, 3, 4].map(Duration::from_millis);
        assert_eq!(
            [0.5, 0.51, 1.0, 0.0].map(|q| quantile_ms(&all, q)),
            [2.0, 3.0, 4.0, 1.0]
        );
        assert!(quantile_ms(&[], 0.5).is_nan());
    }
}
