//! Two clocks that have nothing to do with each other, and the delays between them.

use base::Time;

/// What is known of one packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Packet {
    /// When it was sent, by the caller's clock; nothing if it was not.
    pub(crate) sent: Option<Time>,
    /// When it was heard, by the answerer's clock in microseconds.
    pub(crate) heard_us: Option<u32>,
    /// When its answer came, by the caller's clock.
    pub(crate) answered: Option<Time>,
    /// It was lost on its way there and recovered.
    pub(crate) recovered_there: bool,
    /// Its answer was.
    pub(crate) recovered_back: bool,
}

/// A packet in one direction, as it counts for the quality.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    /// When it was sent, in microseconds of the caller's clock.
    pub(crate) sent_us: u64,
    /// How long it took, if it came.
    pub(crate) delay_us: Option<u64>,
    /// It came because it was recovered.
    pub(crate) recovered: bool,
}

/// The difference of the clocks, answerer's minus caller's in microseconds, as the last packets have
/// shown it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Offset(Option<i64>);

impl Offset {
    /// Learns from packets of any path, all sent within some seconds. The one with the shortest
    /// round trip shows the difference; without any the one before goes on.
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
            // The first of all says where the answerer's clock stands.
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

    /// The answerer's time `heard_us` by the caller's clock in microseconds, for a packet sent at
    /// `sent`; `None` when nothing was ever answered.
    fn in_own_us(&self, sent: Time, heard_us: u32) -> Option<i64> {
        let offset = self.0?;
        Some(unwrapped(sent.as_micros() as i64 + offset, heard_us) - offset)
    }

    /// A packet on the way there, and its answer on the way back: only what was heard there is
    /// answered.
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

/// The time near `about` whose low 32 bits are `low`: a packet is heard within half an hour.
fn unwrapped(about: i64, low: u32) -> i64 {
    about + i64::from(low.wrapping_sub(about as u32) as i32)
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
        // The answerer's clock gains 400 µs; the third lesson has no answers.
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
