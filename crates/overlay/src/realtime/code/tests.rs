//! The code against a naive model: all equations kept, solved anew by Gauss after each input.

use super::super::ring::Ring;
use super::*;
use base::{Duration, Rng, Time};
use std::collections::BTreeMap;
use wire::control::Repair;

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

/// Returns a random packet with this lane number.
fn packet(rng: &mut Rng, seq: u64) -> Vec<u8> {
    let len = HEADER_BYTES + rng.below(40) as usize;
    let mut bytes: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
    bytes[TAG_AT..HEADER_BYTES].copy_from_slice(&(seq as u32).to_be_bytes()[1..]);
    bytes
}

/// Returns a packet as the code combines it.
fn symbol(packet: &[u8]) -> Vec<u8> {
    let mut symbol = packet.to_vec();
    symbol[TAG_AT..HEADER_BYTES].copy_from_slice(&tag(packet));
    symbol
}

/// A sender of a lane.
struct Sender {
    ring: Ring,
    encoder: Encoder,
    next: u64,
    /// By default a packet is sent each millisecond.
    now: Time,
}

impl Sender {
    fn new(share: Share) -> Sender {
        let mut encoder = Encoder::default();
        encoder.set_share(Some(share));
        Sender {
            ring: Ring::new(1 << 20, Duration::from_millis(150)),
            encoder,
            next: 0,
            now: Time::ZERO,
        }
    }

    fn send(&mut self, rng: &mut Rng, is_covered: bool) -> Vec<u8> {
        self.send_at(at(self.next), rng, is_covered)
    }

    fn send_at(&mut self, now: Time, rng: &mut Rng, is_covered: bool) -> Vec<u8> {
        let packet = packet(rng, self.next);
        self.now = now;
        self.ring.push(now, self.next, &packet);
        if is_covered {
            self.encoder.cover(self.next, &packet);
        }
        self.next += 1;
        packet
    }

    fn repair(&mut self) -> Option<Vec<u8>> {
        let mut out = vec![0xee; 2_000];
        let len = self.encoder.poll(self.now, &self.ring, &mut out)?;
        out.truncate(len);
        Some(out)
    }
}

const HALF: Share = Share {
    repairs: 1,
    packets: 2,
    lag: 0,
    width: 16,
};

/// All repair packets and originals that arrived, and the packets that follow from them.
#[derive(Default)]
struct Naive {
    equations: Vec<(BTreeMap<u64, u8>, Vec<u8>)>,
    known: BTreeMap<u64, Vec<u8>>,
}

impl Naive {
    fn on_repair(&mut self, newest: u64, repair: &Repair<'_>) {
        let members = (0..64).filter(|k| repair.members >> k & 1 == 1);
        let terms = members.map(|k| (newest - k, coefficient(repair.seed, newest - k)));
        self.equations.push((terms.collect(), repair.sum.to_vec()));
    }

    /// Returns the packets from `reach` on that the equations determine and that are not known yet.
    fn solve(&mut self, reach: u64) -> BTreeMap<u64, Vec<u8>> {
        self.equations.retain(|(terms, _)| {
            terms
                .keys()
                .next_back()
                .is_some_and(|newest| *newest >= reach)
        });
        let mut rows = Vec::new();
        for (terms, sum) in &self.equations {
            let (mut left, mut sum) = (BTreeMap::new(), sum.clone());
            for (seq, by) in terms {
                match self.known.get(seq) {
                    Some(bytes) => {
                        for (sum, byte) in sum.iter_mut().zip(bytes) {
                            *sum ^= field::product(*by, *byte);
                        }
                    }
                    None => drop(left.insert(*seq, *by)),
                }
            }
            if !left.is_empty() {
                sum.resize(200, 0);
                rows.push((left, sum));
            }
        }
        let mut solved: Vec<(u64, BTreeMap<u64, u8>, Vec<u8>)> = Vec::new();
        while let Some((mut terms, mut sum)) = rows.pop() {
            for (pivot, others, value) in &solved {
                if let Some(by) = terms.get(pivot).copied() {
                    subtract(&mut terms, &mut sum, by, others, value);
                }
            }
            let Some((&pivot, &by)) = terms.iter().next() else {
                continue;
            };
            let by = field::inverse(by);
            terms.values_mut().for_each(|x| *x = field::product(*x, by));
            sum.iter_mut().for_each(|x| *x = field::product(*x, by));
            for (_, others, value) in &mut solved {
                if let Some(by) = others.get(&pivot).copied() {
                    subtract(others, value, by, &terms, &sum);
                }
            }
            solved.push((pivot, terms, sum));
        }
        let found = solved
            .into_iter()
            .filter(|(pivot, terms, _)| terms.len() == 1 && *pivot >= reach);
        found.map(|(pivot, _, sum)| (pivot, sum)).collect()
    }
}

fn subtract(
    to: &mut BTreeMap<u64, u8>,
    sum: &mut [u8],
    by: u8,
    from: &BTreeMap<u64, u8>,
    value: &[u8],
) {
    for (seq, x) in from {
        let entry = to.entry(*seq).or_default();
        *entry ^= field::product(by, *x);
    }
    to.retain(|_, x| *x != 0);
    for (sum, byte) in sum.iter_mut().zip(value) {
        *sum ^= field::product(by, *byte);
    }
}

#[test]
fn it_finds_what_a_naive_solver_finds_and_nothing_else() {
    let mut found_in_all = 0;
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let share = Share {
            repairs: 1 + rng.below(2) as u32,
            packets: 1 + rng.below(4) as u32,
            lag: rng.below(3) as u32,
            width: 1 + rng.below(SPAN as u64) as u32,
        };
        let loss = [0.05, 0.3, 0.6][rng.below(3) as usize];
        let (mut sender, mut decoder) = (Sender::new(share), Decoder::default());
        let mut naive = Naive::default();
        let mut sent = BTreeMap::new();
        let mut late: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut newest = 0;
        // The first repair packet makes the decoder listen.
        decoder.listen(at(0));
        for _ in 0..120 {
            let now = at(sender.next);
            let seq = sender.next;
            let is_covered = rng.chance(0.9);
            let packet = sender.send(&mut rng, is_covered);
            sent.insert(seq, symbol(&packet));
            let mut comes = Vec::new();
            match rng.chance(loss) {
                false => comes.push((seq, packet)),
                true if rng.chance(0.2) => late.push((seq, packet)),
                true => {}
            }
            if rng.chance(0.1) {
                comes.extend(late.pop());
            }
            for (seq, packet) in comes {
                decoder.on_original(now, seq, &packet);
                // A packet that arrives when it is out of reach does not help with those within reach.
                if seq + SPAN as u64 >= newest {
                    naive.known.entry(seq).or_insert_with(|| symbol(&packet));
                }
            }
            while let Some(body) = sender.repair() {
                if rng.chance(loss) {
                    continue;
                }
                let repair = Repair::parse(&body).unwrap();
                let named = repair.newest.widen(seq);
                newest = newest.max(named + 1);
                decoder.on_repair(now, named, &repair);
                naive.on_repair(named, &repair);
            }
            let mut found = BTreeMap::new();
            while let Some((seq, due)) = decoder.poll() {
                assert!(due <= now, "found before it came due");
                found.insert(seq, decoder.bytes(seq).unwrap().to_vec());
            }
            let mut expected = naive.solve(newest.saturating_sub(SPAN as u64));
            // A restored packet makes others known, in the next round of the model.
            for (seq, sum) in &expected {
                let len = sent[seq].len();
                assert_eq!(sum[..len], sent[seq], "the model is right");
                naive.known.insert(*seq, sent[seq].clone());
            }
            expected
                .iter_mut()
                .for_each(|(seq, sum)| sum.truncate(sent[seq].len()));
            assert_eq!(found, expected, "seed {seed}");
            found_in_all += found.len();
        }
        assert_eq!(decoder.stats().bad, 0);
    }
    assert!(found_in_all > 600, "{found_in_all}");
}

/// Sends packets with the gaps of `next_gap_us` and loses each datagram with a probability of 0.1. Returns by how much
/// restored packets count as older than they are, at most and on average.
fn too_old(share: Share, mut next_gap_us: impl FnMut(&mut Rng) -> u64) -> (Duration, Duration) {
    let mut rng = Rng::new(8);
    let (mut sender, mut decoder) = (Sender::new(share), Decoder::default());
    let (mut now, mut sent) = (Time::ZERO, Vec::new());
    let mut errors = Vec::new();
    decoder.listen(at(0));
    for seq in 0..4_000 {
        now += Duration::from_micros(next_gap_us(&mut rng));
        let packet = sender.send_at(now, &mut rng, true);
        sent.push(now);
        if !rng.chance(0.1) {
            decoder.on_original(now, seq, &packet);
        }
        while let Some(body) = sender.repair() {
            if !rng.chance(0.1) {
                let repair = Repair::parse(&body).unwrap();
                decoder.on_repair(now, repair.newest.widen(seq), &repair);
            }
        }
        while let Some((seq, due)) = decoder.poll() {
            let sent = sent[seq as usize];
            assert!(due <= sent, "packet {seq} counts as younger than it is");
            // Nothing is known of the time before the first packet that arrives.
            if due > Time::ZERO {
                errors.push(sent.since(due));
            }
        }
    }
    assert!(errors.len() > 300, "{}", errors.len());
    let sum = errors
        .iter()
        .fold(Duration::ZERO, |sum, error| sum + *error);
    (
        errors.iter().copied().max().unwrap(),
        sum.div(errors.len() as u64),
    )
}

#[test]
fn a_found_packet_counts_as_no_younger_than_it_is_where_packets_are_unevenly_spaced() {
    // Bursts of packets 1 ms apart, and pauses.
    too_old(HALF, |rng| if rng.chance(0.2) { 60_000 } else { 1_000 });
}

#[test]
fn the_age_of_what_is_found_is_known_to_a_millisecond_where_packets_are_few() {
    for (lag, width) in [(0, 3), (0, 8), (2, 1)] {
        let share = Share {
            repairs: 1,
            packets: 1,
            lag,
            width,
        };
        let (most, _) = too_old(share, |rng| 15_000 + rng.below(10_000));
        assert!(most <= Duration::from_millis(1), "{lag} {width}: {most}");
    }
}

#[test]
fn the_age_of_what_is_found_is_known_to_about_a_packet_where_there_are_many() {
    let share = Share {
        repairs: 1,
        packets: 3,
        lag: 0,
        width: 50,
    };
    let (most, mean) = too_old(share, |rng| 500 + rng.below(1_000));
    assert!(most <= Duration::from_millis(9), "{most}");
    assert!(mean <= Duration::from_micros(1_200), "{mean}");
}

#[test]
fn memory_is_bounded_when_no_original_ever_comes() {
    let (mut rng, mut decoder) = (Rng::new(1), Decoder::default());
    let mut sender = Sender::new(HALF);
    let mut most = 0;
    for n in 0..20_000 {
        sender.send(&mut rng, true);
        while let Some(body) = sender.repair() {
            let repair = Repair::parse(&body).unwrap();
            decoder.on_repair(at(n), sender.next - 1, &repair);
        }
        while decoder.poll().is_some() {}
        if n == 10_000 {
            most = decoder.held_bytes();
        }
    }
    assert_eq!(
        decoder.held_bytes(),
        most,
        "nothing is allocated after a while"
    );
    assert!(most < (KEPT + 2 * SPAN) * 1_500, "{most}");
    assert_eq!(decoder.stats().decoded, 0);
    decoder.release_idle(at(40_000));
    assert_eq!(decoder.held_bytes(), 0);
}

#[test]
fn a_changed_packet_spoils_what_follows_from_it_and_nothing_else() {
    let (mut rng, mut decoder) = (Rng::new(4), Decoder::default());
    let mut sender = Sender::new(HALF);
    let (mut good, mut lost) = (0, 0);
    for n in 0..4_000u64 {
        let mut packet = sender.send(&mut rng, true);
        let is_lost = n % 11 == 3;
        lost += u32::from(is_lost);
        let sent = symbol(&packet);
        // One packet in a hundred arrives with another remaining time, like a copy, although nobody requested it.
        if n % 101 == 50 {
            packet[2] ^= 1;
        }
        if !is_lost {
            decoder.on_original(at(n), n, &packet);
        }
        while let Some(body) = sender.repair() {
            decoder.on_repair(at(n), sender.next - 1, &Repair::parse(&body).unwrap());
        }
        while let Some((seq, _)) = decoder.poll() {
            let found = decoder.bytes(seq).unwrap();
            assert_eq!(tag(found)[1..], found[TAG_AT + 1..HEADER_BYTES]);
            if seq == n {
                good += u32::from(found == sent);
            }
        }
    }
    assert!(decoder.stats().bad > 0 && decoder.stats().decoded > u64::from(lost) / 2);
    assert!(good > 0);
}

#[test]
fn a_repair_packet_that_comes_after_newer_ones_is_late_and_not_bad() {
    let (mut rng, mut decoder) = (Rng::new(8), Decoder::default());
    let mut sender = Sender::new(HALF);
    decoder.listen(at(0));
    let mut held = None;
    for n in 0..SPAN as u64 + 6 {
        let packet = sender.send(&mut rng, true);
        let is_lost = n == 4;
        if !is_lost {
            decoder.on_original(at(n), n, &packet);
        }
        while let Some(body) = sender.repair() {
            // The one that would restore the lost packet is on its way until the matrix reaches its newest packet, but not
            // the lost one.
            match (4..8).contains(&n) {
                true => held = Some((n, body)),
                false if (8..SPAN as u64).contains(&n) => {}
                false => decoder.on_repair(at(n), n, &Repair::parse(&body).unwrap()),
            }
        }
    }
    let before = decoder.stats();
    let (newest, body) = held.unwrap();
    decoder.on_repair(at(80), newest, &Repair::parse(&body).unwrap());
    let after = decoder.stats();
    assert_eq!((after.stale, after.bad), (before.stale + 1, 0));
    assert_eq!(after.decoded, 0);
}

#[test]
fn what_was_asked_for_is_unknown_until_it_is_found() {
    let (mut rng, mut decoder) = (Rng::new(5), Decoder::default());
    let mut sender = Sender::new(HALF);
    let repair = |sender: &mut Sender, decoder: &mut Decoder, n: u64| {
        while let Some(body) = sender.repair() {
            decoder.on_repair(at(n), sender.next - 1, &Repair::parse(&body).unwrap());
        }
    };
    let first = [0, 1].map(|_| sender.send(&mut rng, true));
    repair(&mut sender, &mut decoder, 1);
    // The decoder listens only from now on: it does not know the earlier packets.
    drop(first);
    let [a, b, c] = [2, 3, 4].map(|_| sender.send(&mut rng, true));
    decoder.on_asked(at(4), 2);
    let mut copy = a.clone();
    copy[3] ^= 7;
    decoder.on_original(at(5), 2, &copy);
    decoder.on_original(at(5), 3, &b);
    decoder.on_original(at(5), 4, &c);
    assert_eq!(decoder.stats().bad, 0);
    for n in 5..9 {
        let packet = sender.send(&mut rng, true);
        decoder.on_original(at(n), n, &packet);
        repair(&mut sender, &mut decoder, n);
    }
    let mut found = Vec::new();
    while let Some((seq, _)) = decoder.poll() {
        found.push((seq, decoder.bytes(seq).unwrap().to_vec()));
    }
    found.retain(|(seq, _)| *seq == 2);
    assert_eq!(found, [(2, symbol(&a))], "and as it was sent");
}

#[test]
fn a_lane_that_falls_silent_gets_what_its_last_packets_are_owed() {
    let mut rng = Rng::new(6);
    let mut sender = Sender::new(Share {
        repairs: 1,
        packets: 5,
        lag: 0,
        width: 20,
    });
    let mut decoder = Decoder::default();
    let hear = |sender: &mut Sender, decoder: &mut Decoder| {
        let mut count = 0;
        while let Some(body) = sender.repair() {
            let repair = Repair::parse(&body).unwrap();
            decoder.on_repair(at(1), repair.newest.widen(0), &repair);
            count += 1;
        }
        count
    };
    decoder.listen(at(0));
    let mut packets = Vec::new();
    for seq in 0..24 {
        packets.push(sender.send(&mut rng, true));
        assert_eq!(hear(&mut sender, &mut decoder), u32::from(seq % 5 == 4));
    }
    for (seq, packet) in packets.iter().enumerate().take(22) {
        decoder.on_original(at(2), seq as u64, packet);
    }
    while decoder.poll().is_some() {}
    sender.encoder.on_silence();
    sender.encoder.on_silence();
    assert_eq!(hear(&mut sender, &mut decoder), 2, "once");
    let found: Vec<u64> = core::iter::from_fn(|| decoder.poll())
        .map(|(seq, _)| seq)
        .collect();
    assert_eq!(found, [22, 23]);
}

/// If packets are sent at one moment, their repair packets may follow one by one or all together: they are the same.
#[test]
fn repair_packets_of_a_burst_are_the_same_together_as_one_by_one() {
    let copies = Share {
        repairs: 1,
        packets: 1,
        lag: 3,
        width: 1,
    };
    let three_of_ten = Share {
        repairs: 3,
        packets: 10,
        ..HALF
    };
    for share in [HALF, three_of_ten, copies] {
        let mut made = [Vec::new(), Vec::new()];
        for (together, made) in made.iter_mut().enumerate() {
            let (mut rng, mut sender) = (Rng::new(5), Sender::new(share));
            for burst in 0..20 {
                for _ in 0..12 {
                    sender.send_at(at(burst * 4), &mut rng, true);
                    assert!(!sender.encoder.is_crowded());
                    if together == 0 {
                        made.extend(std::iter::from_fn(|| sender.repair()));
                    }
                }
                made.extend(std::iter::from_fn(|| sender.repair()));
            }
        }
        assert!(made[0].len() > 60, "{}", made[0].len());
        assert_eq!(made[0], made[1], "{share:?}");
    }
}

#[test]
fn a_burst_that_earns_much_repair_is_to_end() {
    let twice = Share {
        repairs: 2,
        packets: 1,
        ..HALF
    };
    let (mut rng, mut sender) = (Rng::new(5), Sender::new(twice));
    for n in 1..=40 {
        sender.send_at(at(0), &mut rng, true);
        assert_eq!(sender.encoder.is_crowded(), n >= 8, "{n}");
    }
    // Repair packets that are not fetched in time do not pile up for ever.
    assert_eq!(std::iter::from_fn(|| sender.repair()).count(), 32);
}
