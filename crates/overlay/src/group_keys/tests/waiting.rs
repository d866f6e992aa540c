//! Packets that wait for a key.

use super::*;

/// Returns the numbers of packets that are delivered each millisecond after their key has arrived.
fn released(
    bench: &mut Bench,
    mut now: Time,
    of: (NodeAddr, NodeAddr),
    key: SessionIndex,
) -> Vec<usize> {
    bench.waiting.release(now, (of, key));
    let mut counts = Vec::new();
    while bench.waiting.next_timeout().is_some_and(|at| at <= now) {
        counts.push(bench.waiting.take_ready(now).len());
        now += Duration::from_millis(1);
    }
    counts
}

#[test]
fn what_waits_is_bounded_by_source_and_in_all() {
    let mut bench = Bench::new();
    let pool = Pool::new(512, 1 << 17);
    let mut now = Time::ZERO;
    let mut key = bench.keys.make(now);
    let number = key.number();
    let packets: Vec<Vec<u8>> = (0..9)
        .map(|source| packet(node(source), group(1), 1, &mut key))
        .collect();
    let fill = |bench: &mut Bench, now: Time, source: usize| {
        let packet = &packets[source];
        let waits = |_: &usize| bench.waiting.wait(now, (packet, Route::Tree), &pool);
        (0..10_000).filter(waits).count()
    };
    // Others have their own room, up to four times that of one.
    let bytes = CLEAR_BYTES + packets[0].len() + TAG_BYTES + KEPT_OVERHEAD;
    let room = (2 << 20) / bytes;
    for source in 0..4 {
        assert_eq!(fill(&mut bench, now, source), room, "{source}");
    }
    let left = (8 << 20) / bytes - 4 * room;
    assert_eq!(fill(&mut bench, now, 4), left, "no room is left in all");
    // What has ended its wait takes no room any more, however it ended.
    let of = (node(0), group(1));
    let other = SessionIndex::new(number.value().wrapping_add(1));
    assert!(released(&mut bench, now, of, other).is_empty());
    let counts = released(&mut bench, now, of, number);
    assert!(counts.iter().all(|count| *count <= 64), "not all at once");
    assert_eq!(counts.iter().sum::<usize>(), room);
    assert_eq!(fill(&mut bench, now, 0), room);
    bench.waiting.leave(group(1));
    for source in 0..4 {
        assert_eq!(fill(&mut bench, now, source), room, "{source}");
    }
    now += SECOND * 4;
    bench.waiting.expire(now);
    assert!(released(&mut bench, now, of, number).is_empty());
    for source in 5..9 {
        assert_eq!(fill(&mut bench, now, source), room, "{source}");
    }
}

#[test]
fn keys_take_turns_and_a_fast_flow_ends_its_wait() {
    let mut bench = Bench::new();
    let pool = Pool::new(512, 1 << 17);
    let mut now = Time::ZERO;
    let mut key = bench.keys.make(now);
    let number = key.number();
    let [busy, other] = [1, 2].map(|n| packet(node(n), group(1), 1, &mut key));
    let wait = |bench: &mut Bench, packet: &[u8], count: usize, now: Time| {
        for _ in 0..count {
            assert!(bench.waiting.wait(now, (packet, Route::Tree), &pool));
        }
    };
    wait(&mut bench, &busy, 1_000, now);
    wait(&mut bench, &other, 10, now);
    for n in [1, 2] {
        bench.waiting.release(now, ((node(n), group(1)), number));
    }
    let (mut rounds, mut others) = (0, 0);
    while bench.waiting.next_timeout().is_some() {
        let taken = bench.waiting.take_ready(now);
        others += taken
            .iter()
            .filter(|one| Header::trusted(&one.packet.bytes()[CLEAR_BYTES..]).source() == node(2))
            .count();
        rounds += 1;
        assert!(others == 10 || rounds < 2, "it waits one turn");
        // Twice as many come as are delivered at once.
        if bench.waiting.next_timeout().is_some() {
            wait(&mut bench, &busy, 128, now);
        }
        now += Duration::from_millis(1);
    }
    assert_eq!(rounds, 1_010usize.div_ceil(64));
}

#[test]
fn what_comes_behind_packets_that_waited_is_delivered_behind_them() {
    let mut bench = Bench::new();
    let pool = Pool::new(64, 4_096);
    let now = Time::ZERO;
    let mut key = bench.keys.make(now);
    let (of, number) = ((SOURCE, group(1)), key.number());
    let mut wait = |bench: &mut Bench, seq: u32| {
        let packet = packet(SOURCE, group(1), seq, &mut key);
        let is_behind = bench.waiting.is_behind(&Header::trusted(&packet[..]));
        assert!(bench.waiting.wait(now, (&packet, Route::Tree), &pool));
        is_behind
    };
    let before: Vec<bool> = (0..100).map(|seq| wait(&mut bench, seq)).collect();
    assert!(!before.contains(&true), "no key, nothing to be behind");
    bench.waiting.release(now, (of, number));
    let numbers = |taken: Vec<Waiting>| -> Vec<u32> {
        let seq = |one: &Waiting| {
            Header::trusted(&one.packet.bytes()[CLEAR_BYTES..])
                .flow_seq()
                .0
        };
        taken.iter().map(seq).collect()
    };
    assert_eq!(
        numbers(bench.waiting.take_ready(now)),
        (0..64).collect::<Vec<_>>()
    );
    assert!(wait(&mut bench, 100), "36 are before it");
    let later = now + Duration::from_millis(1);
    assert_eq!(
        numbers(bench.waiting.take_ready(later)),
        (64..101).collect::<Vec<_>>()
    );
    assert_eq!(bench.waiting.next_timeout(), None);
}
