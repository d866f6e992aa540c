use super::*;
use proptest::prelude::*;

const FRAME_MS: u64 = 20;

fn ms(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

fn header(seq: u16) -> Header {
    Header {
        marker: false,
        payload_type: 0,
        seq,
        timestamp: u32::from(seq) * 160,
        ssrc: 7,
    }
}

/// Takes a packet of the overlay that was sent `delay_ms` before it arrives.
fn take(reception: &mut Reception, at_ms: u64, seq: u16, delay_ms: u64) -> Option<Window> {
    let arrival = Arrival {
        one_way: Some(Duration::from_millis(delay_ms)),
        recovered: false,
    };
    reception.on_packet(ms(at_ms), &header(seq), arrival)
}

#[test]
fn a_direction_costs_a_kilobyte() {
    assert!(size_of::<Reception>() <= 1024, "{}", size_of::<Reception>());
}

#[test]
fn a_perfect_call_has_the_best_rating() {
    let mut reception = Reception::new(Settings::default());
    for n in 0..500_u16 {
        take(&mut reception, u64::from(n) * FRAME_MS, n, 40);
    }
    let quality = reception.whole();
    assert_eq!(quality.counts.expected, 500);
    assert_eq!(quality.counts.missed(), 0);
    assert_eq!(quality.jitter, Duration::ZERO);
    assert_eq!(quality.burst_ratio, 1.0);
    let budget = quality.budget.expect("delays are known");
    assert_eq!(budget.mean, Duration::from_millis(40));
    assert!((budget.share_mean - 0.4).abs() < 1e-9);
    assert_eq!(budget.share_p99, 7.0 / 16.0);
    // The delay is 20 ms of packet, 3.75 of concealment, 100 of network and buffer.
    assert_eq!(quality.mouth_to_ear, Duration::from_micros(123_750));
    assert!(quality.r_factor().is_some_and(|r| r > 88.0), "{quality:?}");
    assert!(quality.mos().is_some_and(|mos| mos > 4.2));
}

#[test]
fn loss_before_and_after_recovery_late_and_duplicates_are_told_apart() {
    let mut reception = Reception::new(Settings::default());
    for n in 0..100_u16 {
        let at = u64::from(n) * FRAME_MS;
        match n {
            10 | 11 => {}
            20 => drop(take(&mut reception, at, n, 101)),
            30 => {
                let arrival = Arrival {
                    one_way: Some(Duration::from_millis(90)),
                    recovered: true,
                };
                reception.on_packet(ms(at), &header(n), arrival);
            }
            40 => {
                take(&mut reception, at, n, 40);
                take(&mut reception, at, n, 40);
            }
            _ => drop(take(&mut reception, at, n, 40)),
        }
    }
    let quality = reception.whole();
    let counts = quality.counts;
    assert_eq!((counts.expected, counts.received), (100, 98));
    assert_eq!((counts.lost(), counts.late, counts.missed()), (2, 1, 3));
    assert_eq!((counts.recovered, counts.duplicates), (1, 1));
    assert_eq!(counts.loss_before_recovery(), 0.03);
    assert_eq!(counts.loss(), 0.02);
    assert_eq!(counts.runs, 2);
    assert!((quality.burst_ratio - 1.5 * 0.97).abs() < 1e-9);
}

#[test]
fn sequence_numbers_wrap() {
    let mut reception = Reception::new(Settings::default());
    for n in 0..70_000_u64 {
        let header = Header {
            seq: (n + 65_000) as u16,
            timestamp: (n * 160) as u32,
            ..header(0)
        };
        reception.on_packet(ms(n * FRAME_MS), &header, Arrival::default());
    }
    let counts = reception.whole().counts;
    assert_eq!((counts.expected, counts.received), (70_000, 70_000));
    assert_eq!((counts.restarts, counts.reordered), (0, 0));
    assert_eq!(reception.highest_seq(), Some(65_000 + 69_999));
}

#[test]
fn another_stream_needs_two_packets_in_a_row() {
    let mut reception = Reception::new(Settings::default());
    for n in 0..10 {
        take(&mut reception, u64::from(n) * FRAME_MS, n, 40);
    }
    // Single strays arrive, of another source and with a distant number.
    take(&mut reception, 200, 40_000, 40);
    take(&mut reception, 220, 10, 40);
    take(&mut reception, 240, 40_001, 40);
    take(&mut reception, 260, 11, 40);
    let counts = reception.whole().counts;
    assert_eq!((counts.expected, counts.strays), (12, 2));
    assert_eq!(counts.restarts, 0);

    // The sender restarts; then another source takes over.
    take(&mut reception, 280, 50_000, 40);
    take(&mut reception, 300, 50_001, 40);
    for n in 0..5 {
        let header = Header {
            ssrc: 8,
            ..header(100 + n)
        };
        reception.on_packet(ms(320 + u64::from(n) * 20), &header, Arrival::default());
    }
    let counts = reception.whole().counts;
    assert_eq!((counts.expected, counts.received), (12 + 2 + 5, 19));
    assert_eq!((counts.restarts, counts.strays), (2, 2));
    assert_eq!(counts.lost(), 0);
}

#[test]
fn without_known_delays_late_is_against_the_quickest_packet() {
    let mut reception = Reception::new(Settings::default());
    let mut put = |seq: u16, at_ms: u64| {
        reception.on_packet(ms(at_ms), &header(seq), Arrival::default());
        reception.whole().counts.late
    };
    assert_eq!(put(0, 1000), 0);
    assert_eq!(put(1, 1080), 0, "60 ms behind are waited for");
    assert_eq!(put(2, 1101), 1, "61 are not");
    assert_eq!(put(3, 1040), 1, "20 ms quicker than the first");
    assert_eq!(put(4, 1121), 2);
    // The media's clock is reset: nothing is known.
    assert_eq!(put(900, 1141), 2);
    let quality = reception.whole();
    assert!(quality.budget.is_none());
    assert_eq!(quality.mouth_to_ear, Duration::from_micros(83_750));
    reception.set_round_trip(Duration::from_millis(80));
    assert_eq!(
        reception.whole().mouth_to_ear,
        Duration::from_micros(123_750)
    );
}

#[test]
fn a_clock_that_runs_fast_makes_nothing_late() {
    // A phone whose clock is 200 ppm slow: after an hour it is 0.7 s behind.
    let mut reception = Reception::new(Settings::default());
    for n in 0..180_000_u64 {
        let header = Header {
            seq: n as u16,
            timestamp: (n * 160) as u32,
            ..header(0)
        };
        let at = Time::from_nanos(n * 20_004_000);
        reception.on_packet(at, &header, Arrival::default());
    }
    assert_eq!(reception.whole().counts.late, 0);
}

#[test]
fn windows_end_every_five_seconds_and_silent_ones_are_not_told() {
    let mut reception = Reception::new(Settings::default());
    assert_eq!(reception.on_time(ms(100_000)), None, "nothing came yet");
    for n in 0..250_u16 {
        if n % 10 != 0 || n == 0 {
            assert_eq!(take(&mut reception, 1000 + u64::from(n) * 20, n, 40), None);
        }
    }
    assert_eq!(reception.on_time(ms(5_999)), None);
    let window = take(&mut reception, 6_000, 250, 40).expect("5 s are over");
    assert_eq!(window.start, ms(1000));
    assert_eq!(window.quality.counts.expected, 250);
    assert_eq!(window.quality.counts.lost(), 24);
    let window = reception.on_time(ms(11_000)).expect("one packet came");
    assert_eq!(window.start, ms(6_000));
    assert_eq!(window.quality.counts.expected, 1);
    assert_eq!(reception.on_time(ms(16_000)), None);
    assert_eq!(reception.on_time(ms(90_000)), None);
    assert!(take(&mut reception, 90_010, 251, 40).is_none());
    let window = reception
        .on_time(ms(91_000))
        .expect("windows keep their beat");
    assert_eq!(window.start, ms(86_000));
}

#[test]
fn jitter_is_that_of_rfc_3550_and_a_repeated_timestamp_is_none() {
    let mut reception = Reception::new(Settings::default());
    take(&mut reception, 0, 0, 40);
    take(&mut reception, 36, 1, 40); // D = 16 ms
    assert_eq!(reception.whole().jitter, Duration::from_millis(1));
    let same = Header {
        timestamp: 160,
        ..header(2)
    };
    reception.on_packet(ms(50), &same, Arrival::default());
    assert_eq!(reception.whole().jitter, Duration::from_millis(1));
}

#[test]
fn codecs_differ_and_video_has_no_rating() {
    let rate = |codec| {
        let mut reception = Reception::new(Settings {
            codec,
            ..Settings::default()
        });
        take(&mut reception, 0, 0, 40);
        reception.whole().r_factor()
    };
    let (g711, g729) = (rate(Some(Codec::Pcma)), rate(Some(Codec::G729)));
    assert!(g711 > g729 && g729.is_some());
    assert_eq!(rate(None), None);
    assert_eq!(Codec::from_name("OPUS"), Some(Codec::Opus));
    assert_eq!(Codec::from_name("telephone-event"), None);
    assert!(Reception::new(Settings::default()).whole().rating.is_none());
}

#[test]
fn the_round_trip_is_read_from_rtcp_that_passes() {
    let mut sender_report = vec![0x80, 200, 0, 6, 0, 0, 0, 7];
    sender_report.extend(0x0000_1234_5678_0000_u64.to_be_bytes());
    sender_report.extend([0; 12]);
    let mut report = vec![0x81, 201, 0, 7, 0, 0, 0, 9, 0, 0, 0, 7];
    report.extend([0; 12]);
    report.extend(0x1234_5678_u32.to_be_bytes());
    report.extend(0x0000_8000_u32.to_be_bytes()); // half a second
    fn parse(bytes: &[u8]) -> crate::rtp::rtcp::Compound<'_> {
        crate::rtp::rtcp::Compound::parse(bytes).expect("it is whole")
    }
    let mut round_trip = RoundTrip::new();
    assert_eq!(round_trip.on_back(ms(2_000), &parse(&report)), None);
    round_trip.on_toward(ms(1_000), &parse(&sender_report));
    let told = round_trip.on_back(ms(1_580), &parse(&report));
    assert_eq!(told, Some(Duration::from_millis(80)));
    assert_eq!(round_trip.on_back(ms(1_400), &parse(&report)), None);
    for other in 0..8 {
        sender_report[11] = other;
        round_trip.on_toward(ms(1_600), &parse(&sender_report));
    }
    assert_eq!(round_trip.on_back(ms(1_700), &parse(&report)), None);
}

#[test]
fn what_an_end_reports_is_its_latest_on_this_stream() {
    let block = |ssrc: u8, lost: u8| {
        let mut bytes = vec![0x81, 201, 0, 7, 0, 0, 0, 9, 0, 0, 0, ssrc, lost];
        bytes.resize(32, 0);
        bytes
    };
    let metrics = |ssrc: u8, loss: u8| {
        let mut bytes = vec![
            0x80, 207, 0, 10, 0, 0, 0, 9, 7, 0, 0, 8, 0, 0, 0, ssrc, loss,
        ];
        bytes.resize(44, 0);
        bytes
    };
    let mut reported = Reported::new();
    let mut tell = |s: u64, parts: &[Vec<u8>]| {
        let bytes = parts.concat();
        let rtcp = crate::rtp::rtcp::Compound::parse(&bytes).expect("it is whole");
        reported.on_rtcp(ms(s * 1000), 7, &rtcp);
        let loss = reported
            .block()
            .map(|(at, block)| (at, block.fraction_lost));
        let rate = reported
            .voip_metrics()
            .map(|(_, metrics)| metrics.loss_rate);
        (loss, rate, reported.is_ended())
    };
    assert_eq!(tell(1, &[block(8, 1), metrics(8, 1)]), (None, None, false));
    let told = (Some((ms(2000), 3)), Some(4), false);
    assert_eq!(tell(2, &[block(7, 3), metrics(7, 4)]), told);
    assert_eq!(tell(3, &[block(8, 5)]), told, "another stream's");
    let bye = vec![0x81, 203, 0, 1, 0, 0, 0, 9];
    let told = (Some((ms(4000), 6)), Some(4), true);
    assert_eq!(tell(4, &[block(7, 6), bye]), told);
}

#[test]
fn a_format_brings_its_codec_and_clock() {
    let text =
        b"v=0\r\nc=IN IP4 10.0.0.1\r\nm=audio 4000 RTP/AVP 18 96\r\na=rtpmap:96 opus/48000/2\r\n";
    let sdp = crate::sdp::Sdp::parse(text).expect("it is valid");
    let formats: Vec<_> = sdp.media()[0].payload_formats().collect();
    let [opus, g729] = &formats[..] else {
        panic!("{formats:?}")
    };
    let settings = Settings::default().with_format(opus);
    assert_eq!(settings.codec, Some(Codec::Opus));
    assert_eq!(settings.clock_hz, 48_000);
    let mut reception = Reception::new(settings);
    take(&mut reception, 0, 0, 40);
    let before = reception.whole().r_factor();
    reception.set_format(g729);
    take(&mut reception, 1_000, 1, 40);
    assert_eq!(reception.whole().jitter, Duration::ZERO, "a new clock");
    assert!(reception.whole().r_factor() < before);
}

/// First and highest number, and the packets that arrived (number, in time).
type NaiveStream = (i64, i64, Vec<(i64, bool)>);

/// Keeps every packet, and computes the counts at the end.
#[derive(Default)]
struct Naive {
    /// The streams, one after the other.
    streams: Vec<NaiveStream>,
    source: u32,
    held: Option<(u32, u16, bool)>,
    duplicates: u64,
    strays: u64,
    reordered: u64,
}

impl Naive {
    fn take(&mut self, ssrc: u32, seq: u16, in_time: bool) {
        let Some((base, highest, came)) = self.streams.last_mut() else {
            self.begin(ssrc, seq, in_time);
            return;
        };
        // The number is the one nearest to the highest.
        let step = i64::from(seq.wrapping_sub(*highest as u16).cast_signed());
        let number = *highest + step;
        let continues = ssrc == self.source && step < 3000 && step > -128;
        if !continues {
            match self.held.take() {
                Some((held_ssrc, held_seq, held_in_time))
                    if (held_ssrc, held_seq.wrapping_add(1)) == (ssrc, seq) =>
                {
                    self.strays -= 1;
                    self.begin(ssrc, held_seq, held_in_time);
                    self.take(ssrc, seq, in_time);
                }
                _ => {
                    self.strays += 1;
                    self.held = Some((ssrc, seq, in_time));
                }
            }
            return;
        }
        self.held = None;
        if number < *base {
            self.strays += 1;
        } else if came.iter().any(|&(other, _)| other == number) {
            self.duplicates += 1;
        } else {
            self.reordered += u64::from(number < *highest);
            came.push((number, in_time));
            *highest = number.max(*highest);
        }
    }

    fn begin(&mut self, ssrc: u32, seq: u16, in_time: bool) {
        let seq = i64::from(seq);
        self.source = ssrc;
        self.streams.push((seq, seq, vec![(seq, in_time)]));
    }

    fn counts(&self) -> Counts {
        let mut counts = Counts {
            duplicates: self.duplicates,
            strays: self.strays,
            reordered: self.reordered,
            restarts: (self.streams.len() as u64).saturating_sub(1),
            ..Counts::default()
        };
        for (base, highest, came) in &self.streams {
            counts.expected += (highest - base + 1) as u64;
            counts.received += came.len() as u64;
            counts.late += came.iter().filter(|(_, in_time)| !in_time).count() as u64;
            let played = |number| came.contains(&(number, true));
            let begins = |&number: &i64| !played(number) && (number == *base || played(number - 1));
            counts.runs += (*base..=*highest).filter(begins).count() as u64;
        }
        counts
    }
}

/// Draws steps between packets: mostly to the next number, some back, some far, sometimes to another source.
fn steps() -> impl Strategy<Value = Vec<(i32, bool, bool)>> {
    let step = prop_oneof![
        12 => Just(1),
        3 => 2..6_i32,
        3 => -8..=0_i32,
        1 => -140..140_i32,
        1 => prop_oneof![2990..3010_i32, Just(20_000), Just(-20_000)],
    ];
    let packet = (step, prop::bool::weighted(0.9), prop::bool::weighted(0.02));
    prop::collection::vec(packet, 0..400)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_counts_are_those_of_a_log(start: u16, steps in steps()) {
        let mut reception = Reception::new(Settings::default());
        let mut naive = Naive::default();
        let (mut seq, mut ssrc) = (start, 7);
        let mut sum = Counts::default();
        for (n, (step, in_time, other)) in steps.into_iter().enumerate() {
            seq = seq.wrapping_add(step as u16);
            ssrc += u32::from(other);
            let delay = Duration::from_millis(if in_time { 50 } else { 150 });
            let header = Header { ssrc, seq, ..header(0) };
            let arrival = Arrival { one_way: Some(delay), recovered: false };
            let window = reception.on_packet(ms(n as u64 * 100), &header, arrival);
            naive.take(ssrc, seq, in_time);
            if let Some(window) = window {
                sum.expected += window.quality.counts.expected;
                sum.received += window.quality.counts.received;
                sum.duplicates += window.quality.counts.duplicates;
            }
        }
        let whole = reception.whole();
        prop_assert_eq!(whole.counts, naive.counts());
        prop_assert!(whole.counts.missed() <= whole.counts.expected);
        // The windows and the last unfinished one together are the whole.
        if let Some(last) = reception.on_time(Time::FAR) {
            sum.expected += last.quality.counts.expected;
            sum.received += last.quality.counts.received;
            sum.duplicates += last.quality.counts.duplicates;
        }
        prop_assert_eq!(sum.expected, whole.counts.expected);
        prop_assert_eq!(sum.received, whole.counts.received);
        prop_assert_eq!(sum.duplicates, whole.counts.duplicates);
    }

    #[test]
    fn nothing_that_comes_makes_numbers_of_nothing(
        packets in prop::collection::vec((any::<u64>(), any::<u16>(), any::<u32>(), any::<u64>()), 0..60),
        clock_hz: u32,
    ) {
        let mut reception = Reception::new(Settings { clock_hz, ..Settings::default() });
        for (at, seq, timestamp, delay) in packets {
            let header = Header { timestamp, seq: seq % 300, ..header(0) };
            let one_way = (delay % 3 != 0).then(|| Duration::from_nanos(delay));
            let arrival = Arrival { one_way, recovered: delay % 5 == 0 };
            reception.on_packet(Time::from_nanos(at), &header, arrival);
        }
        let quality = reception.whole();
        prop_assert!(quality.burst_ratio.is_finite());
        prop_assert!(quality.r_factor().is_none_or(f64::is_finite));
        prop_assert!(quality.counts.loss_before_recovery() <= 1.0);
    }
}
