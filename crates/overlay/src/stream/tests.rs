//! Tests with two ends of a stream, and a channel between them that loses, repeats and reorders packets: everything
//! that was written arrives, unchanged.

use super::*;
use crate::sockets::default_options;
use base::{ClientId, Rng, Time, VirtualPort};
use proptest::prelude::*;
use wire::transport::{Flags, RANGES_MAX, Segment};

const OWN: [NodeAddr; 2] = [NodeAddr(0x0a07_0001), NodeAddr(0x0a07_0002)];

/// The faults of the channel.
#[derive(Clone, Copy, Debug)]
struct Channel {
    loss_pct: u64,
    twice_pct: u64,
    delay_ms: u64,
    jitter_ms: u64,
}

struct Pair {
    ends: [Connection; 2],
    /// The packets on their way: when each arrives, its number in the order of sending, and to which end.
    way: Vec<(Time, u64, usize, Vec<u8>)>,
    budget: Budget,
    now: Time,
    sent: u64,
    rng: Rng,
    channel: Channel,
    credit: [u64; 2],
    written: [Vec<u8>; 2],
    read: [Vec<u8>; 2],
    /// The messages that arrived, and when.
    messages: [Vec<(Time, Vec<u8>)>; 2],
    /// The bytes of a stream in the longest packet that the channel carries.
    carries: usize,
    /// The number of segments sent to each end.
    posted: [usize; 2],
    /// The number of segments whose acknowledgement might wait.
    patient: usize,
    /// The ends are of a version that acknowledges at once.
    is_old: bool,
}

impl Pair {
    fn new(link: LinkProtocol, framing: Framing, channel: Channel, seed: u64) -> Pair {
        Pair::expiring(link, framing, None, channel, seed)
    }

    fn expiring(
        link: LinkProtocol,
        framing: Framing,
        lifetime: Option<Duration>,
        channel: Channel,
        seed: u64,
    ) -> Pair {
        let settings = Settings::default();
        let mut options = default_options();
        options.class.link = link;
        options.deadline = lifetime;
        let content = Content::asked(framing, lifetime);
        let key = |i: usize| Key {
            peer: OWN[1 - i],
            peer_port: VirtualPort(1),
            port: VirtualPort(1),
            connection: 7,
        };
        let end =
            |i, phase| Connection::new(Time::ZERO, key(i), phase, content, &options, &settings, 0);
        let mut caller = end(0, Phase::Calling);
        caller.client = Some(ClientId(1));
        let mut called = end(1, Phase::Waiting(StreamId(1)));
        called.accept(Time::ZERO, ClientId(2));
        Pair {
            ends: [caller, called],
            way: Vec::new(),
            budget: Budget { left: GROWTH_MAX },
            now: Time::ZERO,
            sent: 0,
            rng: Rng::new(seed),
            channel,
            credit: [0; 2],
            written: [Vec::new(), Vec::new()],
            read: [Vec::new(), Vec::new()],
            messages: [Vec::new(), Vec::new()],
            carries: usize::MAX,
            posted: [0; 2],
            patient: 0,
            is_old: false,
        }
    }

    fn post(&mut self, to: usize, packet: &[u8]) {
        if packet.len() > self.carries.saturating_add(28 + RANGES_MAX * 8) {
            return;
        }
        self.posted[to] += 1;
        let flags = Segment::parse(packet).unwrap().segment.flags;
        self.patient += usize::from(flags.has(Flags::MAY_WAIT) && !flags.has(Flags::SYN));
        let copies = 1 + u64::from(self.rng.below(100) < self.channel.twice_pct);
        for _ in 0..copies {
            if self.rng.below(100) < self.channel.loss_pct {
                continue;
            }
            let jitter = self.rng.below(self.channel.jitter_ms + 1);
            let at = self.now + Duration::from_millis(self.channel.delay_ms + jitter);
            self.sent += 1;
            self.way.push((at, self.sent, to, packet.to_vec()));
        }
    }

    /// Lets one end send all that it may.
    fn flush(&mut self, i: usize) {
        if self.ends[i].is_open()
            && let Some(bytes) = self.ends[i].sender.grant(&mut self.budget)
        {
            self.credit[i] += u64::from(bytes);
        }
        let now = self.now;
        let mut packets = Vec::new();
        let end = &mut self.ends[i];
        let control = |segment: Segment, ranges: &[(u32, u32)]| {
            let mut packet = vec![0; 200];
            let len = segment.emit(ranges, &mut packet).unwrap();
            packet.truncate(len);
            packet
        };
        let mut ranges = [(0, 0); RANGES_MAX];
        if end.control_due() {
            let count = end.ranges(&mut ranges);
            let segment = end.segment(now, end.sender.end_place(), false);
            packets.push(control(segment, &ranges[..count]));
        }
        while end.is_open()
            && let Some(chunk) = end.sender.poll(now)
        {
            let mut packet = vec![0; 28 + chunk.len as usize];
            let segment = match self.is_old {
                true => end.segment(now, chunk.offset, chunk.fin),
                false => end.data_segment(now, chunk),
            };
            segment.emit(&[], &mut packet).unwrap();
            end.sender.read(chunk, &mut packet[28..]);
            packets.push(packet);
        }
        while end.expired_due() {
            let (segment, count) = end.expired(now, &mut ranges);
            packets.push(control(segment, &ranges[..count]));
        }
        end.sender.on_flushed();
        for packet in packets {
            self.post(1 - i, &packet);
        }
    }

    /// Hands a packet to an end, after it has waited in the socket of that end's host.
    fn arrive(&mut self, i: usize, waited: Duration, packet: &[u8]) {
        let parsed = Segment::parse(packet).unwrap();
        let marked = self.rng.below(50) == 0;
        let end = &mut self.ends[i];
        let reaction = end.on_segment(self.now, waited, &parsed, marked).unwrap();
        assert!(!reaction.is_bad);
        if let Taken::InOrder { skip, len } = reaction.taken {
            let bytes = &parsed.bytes[skip..skip + len];
            self.read[i].extend_from_slice(bytes);
            end.on_consumed(self.now, len as u32, &mut self.budget);
        }
        while let Some(len) = end.receiver.ready().unwrap() {
            let mut bytes = vec![0; len];
            end.receiver.deliver(&mut bytes);
            self.read[i].extend_from_slice(&bytes);
            self.messages[i].push((self.now, bytes));
            end.on_consumed(self.now, len as u32, &mut self.budget);
        }
    }

    fn write(&mut self, i: usize, len: usize) {
        let len = len.min(self.credit[i] as usize);
        if len == 0 {
            return;
        }
        let mut bytes = vec![0; len];
        self.rng.fill(&mut bytes);
        assert!(self.ends[i].sender.write(self.now, &bytes));
        self.credit[i] -= len as u64;
        self.written[i].extend_from_slice(&bytes);
    }

    /// Advances by a millisecond.
    fn step(&mut self) {
        self.now += Duration::from_millis(1);
        self.way.sort_by_key(|(at, number, ..)| (*at, *number));
        let due = self.way.partition_point(|(at, ..)| *at <= self.now);
        for (at, _, to, packet) in self.way.drain(..due).collect::<Vec<_>>() {
            self.arrive(to, self.now.since(at), &packet);
        }
        for i in 0..2 {
            if self.ends[i].next_timeout().is_some_and(|at| at <= self.now) {
                self.ends[i].on_timeout(self.now).unwrap();
            }
            self.flush(i);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn what_is_written_comes_in_order_whatever_the_channel_does(
        link in 0usize..3,
        messages: bool,
        loss_pct in 0u64..25,
        twice_pct in 0u64..10,
        delay_ms in 0u64..40,
        jitter_ms in 0u64..20,
        seed: u64,
    ) {
        let framing = if messages { Framing::Messages } else { Framing::Bytes };
        let channel = Channel { loss_pct, twice_pct, delay_ms, jitter_ms };
        let mut pair = Pair::new(LinkProtocol::ALL[link], framing, channel, seed);
        for step in 0..600_000u64 {
            pair.step();
            for i in 0..2 {
                if pair.written[i].len() < 60_000 && pair.ends[i].is_open() {
                    let len = pair.rng.below(5_000) as usize;
                    pair.write(i, len);
                } else if pair.ends[i].is_open() && step % 7 == 0 {
                    pair.ends[i].sender.finish();
                }
            }
            if pair.ends.iter().all(Connection::is_over) {
                break;
            }
        }
        prop_assert!(pair.ends.iter().all(Connection::is_over), "at {}: {:#?}", pair.now, pair.ends);
        prop_assert!(pair.read[1] == pair.written[0] && pair.read[0] == pair.written[1]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn what_is_written_comes_when_the_channel_carries_less_and_more_again(
        link in 0usize..3,
        loss_pct in 0u64..10,
        jitter_ms in 0u64..10,
        widths in proptest::collection::vec(300usize..1_400, 1..6),
        seed: u64,
    ) {
        let channel = Channel { loss_pct, twice_pct: 2, delay_ms: 5, jitter_ms };
        let mut pair = Pair::new(LinkProtocol::ALL[link], Framing::Bytes, channel, seed);
        for step in 0..600_000usize {
            pair.step();
            // The channel changes every 300 ms, and the ends learn of it 50 ms later.
            let width = widths[(step / 300).min(widths.len() - 1)];
            match step % 300 {
                0 => pair.carries = width,
                50 => pair.ends.iter_mut().for_each(|end| end.sender.set_fit(width)),
                _ => {}
            }
            for i in 0..2 {
                if pair.written[i].len() < 300_000 && pair.ends[i].is_open() {
                    pair.write(i, 1_000);
                } else if pair.ends[i].is_open() {
                    pair.ends[i].sender.finish();
                }
            }
            if pair.ends.iter().all(Connection::is_over) {
                break;
            }
        }
        prop_assert!(pair.ends.iter().all(Connection::is_over), "at {}: {:#?}", pair.now, pair.ends);
        prop_assert!(pair.read[1] == pair.written[0] && pair.read[0] == pair.written[1]);
    }
}

#[test]
fn the_memory_of_a_node_is_never_all_taken_by_who_came_first() {
    let mut budget = Budget { left: GROWTH_MAX };
    let grow = |budget: &mut Budget| {
        let mut window = WINDOW_START;
        while window < WINDOW_MAX && budget.take(window) {
            window *= 2;
        }
        window
    };
    let windows: Vec<u64> = (0..8).map(|_| grow(&mut budget)).collect();
    assert_eq!(windows[0], WINDOW_MAX);
    assert!(windows.windows(2).all(|pair| pair[1] <= pair[0]));
    assert!(windows[7] >= 1 << 20, "{windows:?}");
    let taken: u64 = windows.iter().map(|window| window - WINDOW_START).sum();
    assert_eq!(taken + budget.left, GROWTH_MAX);
}

/// The time that a program takes for its answer (three seconds), and questions after long silence, do not count as round
/// trips. Otherwise timeouts would last for half a minute on a path that loses much.
#[test]
fn who_thinks_before_it_answers_has_no_longer_round_trip() {
    let channel = Channel {
        loss_pct: 0,
        twice_pct: 0,
        delay_ms: 10,
        jitter_ms: 0,
    };
    let mut pair = Pair::new(LinkProtocol::BestEffort, Framing::Bytes, channel, 1);
    for turn in 0..20 {
        pair.write(turn % 2, 100);
        let until = pair.now + Duration::from_secs(3);
        while pair.now < until {
            pair.step();
        }
    }
    for end in &pair.ends {
        let rtt = end.sender.rtt().smoothed().unwrap();
        assert!(rtt < Duration::from_millis(40), "{rtt}");
    }
}

#[test]
fn lies_of_a_peer_do_no_harm() {
    let channel = Channel {
        loss_pct: 0,
        twice_pct: 0,
        delay_ms: 1,
        jitter_ms: 0,
    };
    let mut pair = Pair::new(LinkProtocol::BestEffort, Framing::Bytes, channel, 1);
    for _ in 0..20 {
        pair.step();
    }
    pair.write(0, 50_000);
    pair.flush(0);
    let lie = |acknowledged, window, offset, bytes: &[u8], ranges: &[(u32, u32)]| {
        let segment = Segment {
            flags: Flags::ACK,
            connection: 7,
            offset,
            acknowledged,
            window,
            ..Segment::default()
        };
        let mut packet = vec![0; 500 + bytes.len()];
        let len = segment.emit(ranges, &mut packet).unwrap();
        packet[len..len + bytes.len()].copy_from_slice(bytes);
        packet.truncate(len + bytes.len());
        packet
    };
    let now = pair.now;
    let mut say = |packet: &[u8]| {
        let parsed = Segment::parse(packet).unwrap();
        pair.ends[0].on_segment(now, Duration::ZERO, &parsed, false)
    };
    // The peer acknowledges bytes that were never sent, cumulatively and by ranges.
    assert!(say(&lie(60_000, 9_000, 0, b"", &[])).unwrap().is_bad);
    assert!(
        say(&lie(0, 9_000, 0, b"", &[(90_000, 91_000)]))
            .unwrap()
            .is_bad
    );
    assert!(
        say(&lie(0, 9_000, 0, b"", &[(5_000, 4_000)]))
            .unwrap()
            .is_bad
    );
    // These bytes lie beyond the window, and before the beginning.
    let beyond = WINDOW_START as u32;
    let refused = say(&lie(0, 0, beyond, b"far", &[])).unwrap();
    assert_eq!(refused.taken, Taken::Refused);
    assert_eq!(
        say(&lie(0, 0, u32::MAX - 9, b"old", &[])).unwrap().taken,
        Taken::Refused
    );
    // The window shrinks: bytes that were allowed stay allowed, and nothing is lost.
    assert!(!say(&lie(0, 1, 0, b"", &[])).unwrap().is_bad);
    // The peer gives two different ends of the stream.
    let fin = |offset| {
        let mut packet = lie(0, 9_000, offset, b"", &[]);
        packet[1] |= 0x20;
        packet
    };
    assert!(say(&fin(100)).is_ok());
    assert_eq!(say(&fin(200)), Err(ResetReason::Protocol));
    assert_eq!(say(&lie(0, 9, 99, b"xyz", &[])), Err(ResetReason::Protocol));
}

/// The hosts of both ends are not scheduled for three seconds, while a segment or its acknowledgement is on its way.
#[test]
fn what_waits_in_the_socket_of_a_stalled_host_makes_no_round_trip_longer() {
    for on_its_way_ms in [5, 15] {
        let channel = Channel {
            loss_pct: 0,
            twice_pct: 0,
            delay_ms: 10,
            jitter_ms: 0,
        };
        let mut pair = Pair::new(LinkProtocol::Reliable, Framing::Bytes, channel, 1);
        let run = |pair: &mut Pair, ms| (0..ms).for_each(|_| pair.step());
        run(&mut pair, 100);
        pair.write(0, 1_000);
        run(&mut pair, on_its_way_ms);
        pair.now += Duration::from_secs(3);
        run(&mut pair, 50);
        assert_eq!(pair.read[1].len(), 1_000);
        let srtt = pair.ends[0].sender.rtt().smoothed().unwrap();
        assert!(
            srtt < Duration::from_millis(25),
            "{on_its_way_ms}: {srtt:?}"
        );
    }
}

#[test]
fn what_an_end_has_had_already_does_not_reset_it_when_its_client_has_gone() {
    let channel = Channel {
        loss_pct: 0,
        twice_pct: 0,
        delay_ms: 1,
        jitter_ms: 0,
    };
    let mut pair = Pair::new(LinkProtocol::BestEffort, Framing::Bytes, channel, 1);
    let run = |pair: &mut Pair| (0..20).for_each(|_| pair.step());
    run(&mut pair);
    pair.write(0, 1_000);
    run(&mut pair);
    assert_eq!(
        (pair.read[1].len(), &pair.read[1]),
        (1_000, &pair.written[0])
    );
    // The client answers and leaves. The acknowledgement of the bytes that it has read was lost, so they come again.
    // Then bytes come that nobody will read.
    pair.write(1, 5_000);
    let now = pair.now;
    pair.ends[1].sender.finish();
    pair.ends[1].orphan(now);
    let say = |pair: &mut Pair, offset: u32, bytes: &[u8]| {
        let segment = Segment {
            flags: Flags::ACK,
            connection: 7,
            offset,
            window: 100_000,
            ..Segment::default()
        };
        let mut packet = vec![0; 28];
        segment.emit(&[], &mut packet).unwrap();
        packet.extend(bytes);
        pair.ends[1].on_segment(
            now,
            Duration::ZERO,
            &Segment::parse(&packet).unwrap(),
            false,
        )
    };
    let read = pair.read[1].clone();
    let again = say(&mut pair, 0, &read).unwrap();
    assert_eq!((again.taken, again.is_bad), (Taken::Kept, false));
    assert_eq!(say(&mut pair, 990, &[0; 20]), Err(ResetReason::Peer));
    run(&mut pair);
    assert_eq!(
        (pair.read[0].len(), &pair.read[0]),
        (5_000, &pair.written[1])
    );
}

mod expiring;
mod waits;
