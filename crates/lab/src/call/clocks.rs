//! Two clocks that have nothing to do with each other, and the delays between them.

use crate::quality::Call;
use base::{Duration, Time};
use std::collections::BTreeMap;

/// How long one difference of the clocks counts. Clocks drift apart by 50 µs per second at worst
/// (50 ppm), so by half a millisecond in this time.
const WINDOW: Duration = Duration::from_secs(10);

/// What is known of one packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Packet {
    /// When it was sent, by the caller's clock; nothing if it was not.
    pub(crate) sent: Option<Time>,
    /// When it was heard, by the answerer's clock in microseconds.
    pub(crate) heard_us: Option<u32>,
    /// When its answer came, by the caller's clock.
    pub(crate) answered: Option<Time>,
}

/// The difference of the clocks, window by window: answerer's minus caller's in microseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Offsets {
    /// By the number of the window: shortest round trip, and the difference that it shows.
    windows: BTreeMap<u64, (u64, i64)>,
    /// The first time that was heard: the others are near it, their clock wraps.
    first_us: Option<u32>,
}

impl Offsets {
    /// Learns from packets of any path.
    pub(crate) fn learn<'a>(&mut self, packets: impl IntoIterator<Item = &'a Packet>) {
        for packet in packets {
            let Packet {
                sent: Some(sent),
                heard_us: Some(heard_us),
                answered: Some(answered),
            } = *packet
            else {
                continue;
            };
            let heard = self.unwrap(heard_us);
            let round_trip = answered.since(sent).as_micros();
            let middle = (sent.as_micros() + round_trip / 2) as i64;
            let shown = (round_trip, heard - middle);
            let window = self.windows.entry(window(sent)).or_insert(shown);
            if round_trip < window.0 {
                *window = shown;
            }
        }
    }

    /// The answerer's time of `heard_us` by the caller's clock in microseconds, for a packet sent
    /// at `sent`; `None` when nothing was ever answered.
    fn in_own_us(&mut self, sent: Time, heard_us: u32) -> Option<i64> {
        // A window without answers has the difference of the one before, or else the one after.
        let number = window(sent);
        let before = self.windows.range(..=number).next_back();
        let (_, &(_, offset)) = before.or_else(|| self.windows.range(number..).next())?;
        Some(self.unwrap(heard_us) - offset)
    }

    /// Undoes the wrapping: signed distance to the first time.
    fn unwrap(&mut self, heard_us: u32) -> i64 {
        let first = *self.first_us.get_or_insert(heard_us);
        i64::from(heard_us.wrapping_sub(first) as i32)
    }
}

fn window(sent: Time) -> u64 {
    sent.as_nanos() / WINDOW.as_nanos()
}

/// The delays of one call's packets on the way there, and of the answers on the way back: only what
/// was heard there is answered.
pub(crate) fn delays(packets: &[Packet], offsets: &mut Offsets) -> (Call, Call) {
    let (mut there, mut back) = (Call::new(), Call::new());
    for packet in packets {
        let Some(sent) = packet.sent else { continue };
        let heard = packet.heard_us.and_then(|us| offsets.in_own_us(sent, us));
        let since = |from: i64, until: i64| u64::try_from(until - from).unwrap_or(0);
        there.push(heard.map(|heard| since(sent.as_micros() as i64, heard)));
        if let Some(heard) = heard {
            let answered = packet.answered.map(|at| at.as_micros() as i64);
            back.push(answered.map(|answered| since(heard, answered)));
        }
    }
    (there, back)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A packet sent at `sent_us` that takes `there_us` and `back_us`; the answerer's clock is
    /// `offset_us` ahead.
    fn packet(sent_us: u64, there_us: u64, back_us: Option<u64>, offset_us: u32) -> Packet {
        let at = |us: u64| Time::from_nanos(us * 1_000);
        Packet {
            sent: Some(at(sent_us)),
            heard_us: Some(((sent_us + there_us) as u32).wrapping_add(offset_us)),
            answered: back_us.map(|back_us| at(sent_us + there_us + back_us)),
        }
    }

    fn judged(packets: &[Packet]) -> (Call, Call) {
        let mut offsets = Offsets::default();
        offsets.learn(packets);
        delays(packets, &mut offsets)
    }

    #[test]
    fn the_fastest_packet_sets_the_clock_right_for_the_others() {
        let packets = [
            packet(0, 70_000, Some(50_000), 123_456),
            packet(20_000, 50_000, Some(50_000), 123_456),
            packet(40_000, 50_000, Some(90_000), 123_456),
            packet(60_000, 55_000, None, 123_456),
            Packet {
                heard_us: None,
                answered: None,
                ..packet(80_000, 0, None, 0)
            },
            Packet::default(),
        ];
        let (there, back) = judged(&packets);
        assert_eq!(
            there,
            [Some(70_000), Some(50_000), Some(50_000), Some(55_000), None]
        );
        assert_eq!(back, [Some(50_000), Some(50_000), Some(90_000), None]);
    }

    #[test]
    fn each_window_has_a_difference_of_its_own() {
        // The answerer's clock gains 400 µs in each of three windows; the last has no answers.
        let packets: Vec<Packet> = (0..3)
            .flat_map(|n: u32| {
                let start = u64::from(n) * 10_000_000;
                let back = (n < 2).then_some(30_000);
                (0..3).map(move |i| packet(start + i * 20_000, 30_000, back, 400 * n.min(1)))
            })
            .collect();
        let (there, _) = judged(&packets);
        assert_eq!(there, vec![Some(30_000); 9]);
    }

    #[test]
    fn without_any_answer_nothing_is_known() {
        let (there, back) = judged(&[packet(0, 1, None, 7)]);
        assert_eq!((there, back), (vec![None], vec![]));
    }

    proptest! {
        /// On a path that is as slow in both directions at its best, delays come out as they were,
        /// wherever the answerer's clock stands, also when it wraps.
        #[test]
        fn symmetric_paths_are_measured_exactly(
            offset in any::<u32>(),
            extra in prop::collection::vec((0u64..50_000, 0u64..50_000), 1..50),
        ) {
            let mut packets = vec![packet(0, 40_000, Some(40_000), offset)];
            for (i, &(there, back)) in extra.iter().enumerate() {
                let sent = (i as u64 + 1) * 20_000;
                let there_us = 40_000 + there;
                let mut next = packet(sent, there_us, Some(40_000 + back), 0);
                next.heard_us = Some(((sent + there_us) as u32).wrapping_add(offset));
                packets.push(next);
            }
            packets[0].heard_us = Some(40_000u32.wrapping_add(offset));
            let (there, back) = judged(&packets);
            for (i, &(a, b)) in extra.iter().enumerate() {
                prop_assert_eq!(there[i + 1], Some(40_000 + a));
                prop_assert_eq!(back[i + 1], Some(40_000 + b));
            }
        }
    }
}
