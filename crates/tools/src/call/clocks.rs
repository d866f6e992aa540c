//! Two clocks that are not synchronized, and the delays between them.

use base::Time;

/// What is known about one packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Packet {
    /// When the packet was sent, by the caller's clock; `None` if it was not sent.
    pub(crate) sent: Option<Time>,
    /// When the answerer received the packet, in microseconds of its clock.
    pub(crate) heard_us: Option<u32>,
    /// When the answer arrived, by the caller's clock.
    pub(crate) answered: Option<Time>,
    /// The packet was lost on its way to the answerer and recovered.
    pub(crate) recovered_there: bool,
    /// The answer was lost on its way back and recovered.
    pub(crate) recovered_back: bool,
}

/// A packet in one direction, as the evaluation uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    /// When it was sent, in microseconds of the caller's clock.
    pub(crate) sent_us: u64,
    /// One-way delay; `None` if the packet did not arrive.
    pub(crate) delay_us: Option<u64>,
    /// The packet was lost on some hop and recovered.
    pub(crate) recovered: bool,
}

/// The difference of the clocks, answerer's minus caller's in microseconds, estimated from the
/// latest packets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Offset(Option<i64>);

impl Offset {
    /// Updates the estimate from packets of any path, all sent within some seconds. The packet with
    /// the shortest round trip gives the difference. Without an answered packet, the previous
    /// estimate stays.
    pub(crate) fn learn<'a>(&mut self, packets: impl IntoIterator<Item = &'a Packet>) {
        let mut best: Option<(u64, i64)> = None;
        for packet in packets {
            let Packet {
                sent: Some(sent),
                heard_us: Some(heard_us),
                answered: Some(answered),
                ..
            } = *packet
            else {
                continue;
            };
            let round_trip = answered.since(sent).as_micros();
            let middle = (sent.as_micros() + round_trip / 2) as i64;
            // The first answered packet of all gives the starting value of the answerer's clock.
            let before = best.map(|(_, offset)| offset).or(self.0);
            let heard = before.map_or(i64::from(heard_us), |offset| {
                unwrapped(middle + offset, heard_us)
            });
            if best.is_none_or(|(shortest, _)| round_trip < shortest) {
                best = Some((round_trip, heard - middle));
            }
        }
        self.0 = best.map(|(_, offset)| offset).or(self.0);
    }

    /// Converts the answerer's time `heard_us` of a packet that was sent at `sent` to microseconds
    /// of the caller's clock. Returns `None` if no packet was ever answered.
    fn in_own_us(&self, sent: Time, heard_us: u32) -> Option<i64> {
        let offset = self.0?;
        Some(unwrapped(sent.as_micros() as i64 + offset, heard_us) - offset)
    }

    /// Returns the sample of a packet on the way there, and of its answer on the way back. The
    /// second exists only if the packet was heard there, because the answerer answers nothing else.
    pub(crate) fn samples(&self, packet: &Packet) -> Option<(Sample, Option<Sample>)> {
        let sent = packet.sent?;
        let heard = packet.heard_us.and_then(|us| self.in_own_us(sent, us));
        let since = |from: i64, until: i64| u64::try_from(until - from).unwrap_or(0);
        let there = Sample {
            sent_us: sent.as_micros(),
            delay_us: heard.map(|heard| since(sent.as_micros() as i64, heard)),
            recovered: heard.is_some() && packet.recovered_there,
        };
        let back = heard.map(|heard| Sample {
            sent_us: u64::try_from(heard).unwrap_or(0),
            delay_us: packet
                .answered
                .map(|at| since(heard, at.as_micros() as i64)),
            recovered: packet.answered.is_some() && packet.recovered_back,
        });
        Some((there, back))
    }
}

/// Returns the time near `about` whose low 32 bits are `low`. This is unique because a packet is
/// heard within half an hour.
fn unwrapped(about: i64, low: u32) -> i64 {
    about + i64::from(low.wrapping_sub(about as u32) as i32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Makes a packet sent at `sent_us` that takes `there_us` and `back_us`. The answerer's clock
    /// is `offset_us` ahead.
    fn packet(sent_us: u64, there_us: u64, back_us: Option<u64>, offset_us: u32) -> Packet {
        let at = |us: u64| Time::from_nanos(us * 1_000);
        Packet {
            sent: Some(at(sent_us)),
            heard_us: Some(((sent_us + there_us) as u32).wrapping_add(offset_us)),
            answered: back_us.map(|back_us| at(sent_us + there_us + back_us)),
            ..Packet::default()
        }
    }

    type Delays = Vec<Option<u64>>;

    fn delays(packets: &[Packet], offset: &Offset) -> (Delays, Delays) {
        let samples: Vec<_> = packets.iter().filter_map(|p| offset.samples(p)).collect();
        let there = samples.iter().map(|(there, _)| there.delay_us).collect();
        let back = samples
            .iter()
            .filter_map(|(_, back)| Some((*back)?.delay_us))
            .collect();
        (there, back)
    }

    fn judged(packets: &[Packet]) -> (Delays, Delays) {
        let mut offset = Offset::default();
        offset.learn(packets);
        delays(packets, &offset)
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
    fn each_lesson_counts_for_its_own_packets_and_the_last_one_goes_on() {
        // The answerer's clock gains 400 µs; the third group of packets has no answers.
        let mut offset = Offset::default();
        for n in 0..3_u32 {
            let start = u64::from(n) * 10_000_000;
            let back = (n < 2).then_some(30_000);
            let packets: Vec<Packet> = (0..3)
                .map(|i| packet(start + i * 20_000, 30_000, back, 400 * n.min(1)))
                .collect();
            offset.learn(&packets);
            assert_eq!(delays(&packets, &offset).0, vec![Some(30_000); 3], "{n}");
        }
    }

    #[test]
    fn the_clock_may_wrap_many_times_in_a_day() {
        let mut offset = Offset::default();
        for hour in 0..24_u64 {
            let sent = hour * 3_600_000_000;
            let packets = [
                packet(sent, 30_000, Some(30_000), 7),
                packet(sent, 80_000, None, 7),
            ];
            offset.learn(&packets);
            let expected = [Some(30_000), Some(80_000)];
            assert_eq!(delays(&packets, &offset).0, expected, "{hour}");
        }
    }

    #[test]
    fn without_any_answer_nothing_is_known() {
        let (there, back) = judged(&[packet(0, 1, None, 7)]);
        assert_eq!((there, back), (vec![None], vec![]));
    }

    #[test]
    fn what_was_recovered_counts_where_it_came() {
        let mut offset = Offset::default();
        let recovered = Packet {
            recovered_there: true,
            recovered_back: true,
            ..packet(0, 40_000, Some(40_000), 0)
        };
        offset.learn([&recovered]);
        let (there, back) = offset.samples(&recovered).unwrap();
        assert!(there.recovered && back.unwrap().recovered);
        let lost = Packet {
            answered: None,
            ..recovered
        };
        assert!(!offset.samples(&lost).unwrap().1.unwrap().recovered);
    }

    proptest! {
        /// On a path whose shortest delays are equal in both directions, the measured delays are
        /// exact, whatever the answerer's clock shows, also when it wraps.
        #[test]
        fn symmetric_paths_are_measured_exactly(
            offset in any::<u32>(),
            extra in prop::collection::vec((0u64..50_000, 0u64..50_000), 1..50),
        ) {
            let mut packets = vec![packet(0, 40_000, Some(40_000), offset)];
            for (i, &(there, back)) in extra.iter().enumerate() {
                let sent = (i as u64 + 1) * 20_000;
                packets.push(packet(sent, 40_000 + there, Some(40_000 + back), offset));
            }
            let (there, back) = judged(&packets);
            for (i, &(a, b)) in extra.iter().enumerate() {
                prop_assert_eq!(there[i + 1], Some(40_000 + a));
                prop_assert_eq!(back[i + 1], Some(40_000 + b));
            }
        }
    }
}
