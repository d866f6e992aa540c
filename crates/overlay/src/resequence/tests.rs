use super::*;
use proptest::prelude::*;

/// A packet of some size, and where it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Packet(u32, usize);

impl Hold for Packet {
    fn bytes(&self) -> usize {
        self.1
    }
    fn keep(&mut self, _: &Pool) -> bool {
        true
    }
}

impl Hold for u32 {
    fn bytes(&self) -> usize {
        4
    }
    fn keep(&mut self, _: &Pool) -> bool {
        true
    }
}

fn none() -> Pool {
    Pool::new(0, 0)
}

const KEY: FlowKey = (
    ClientId(1),
    (NodeAddr(2), VirtualPort(2)),
    NodeAddr(1),
    VirtualPort(1),
);

fn ms(n: u64) -> Time {
    Time::ZERO + Duration::from_millis(n)
}

fn drain(r: &mut Resequencer<u32>, now: Time) -> Vec<u32> {
    let mut got = Vec::new();
    while let Some(item) = r.pop(now, KEY) {
        got.push(item);
    }
    while let Some((_, item)) = r.pop_due(now) {
        got.push(item);
    }
    got
}

#[test]
fn a_late_packet_holds_its_successors_until_it_comes() {
    let mut r = Resequencer::default();
    let left = Some(Duration::from_millis(50));
    for (seq, expected) in [
        (105u32, vec![105]),
        (107, vec![]),
        (108, vec![]),
        (106, vec![106, 107, 108]),
    ] {
        r.push(ms(0), KEY, (seq, Order::AtOnce), left, seq, &none())
            .unwrap();
        assert_eq!(drain(&mut r, ms(0)), expected);
    }
    assert_eq!(r.next_timeout(), None);
}

#[test]
fn nothing_is_held_beyond_its_deadline() {
    let mut r = Resequencer::default();
    let left = Some(Duration::from_millis(50));
    r.push(ms(0), KEY, (105, Order::AtOnce), left, 105, &none())
        .unwrap();
    assert_eq!(drain(&mut r, ms(0)), [105]);
    r.push(ms(10), KEY, (107, Order::AtOnce), left, 107, &none())
        .unwrap();
    r.push(ms(20), KEY, (109, Order::AtOnce), left, 109, &none())
        .unwrap();
    assert_eq!(drain(&mut r, ms(30)), [0u32; 0]);
    let due = r.next_timeout().unwrap();
    assert!(due > ms(50) && due <= ms(60), "{due}");
    assert_eq!(drain(&mut r, due), [107]);
    assert_eq!(
        r.push(ms(61), KEY, (106, Order::AtOnce), left, 106, &none())
            .map_err(|e| e.0),
        Err(Refused::TooLate)
    );
    assert_eq!(drain(&mut r, ms(70)), [109]);
}

/// Returns the arrivals (in ms: when, number, time left) as they are handed over every millisecond: number and when.
fn handed_over(order: Order, arrivals: &[(u64, u32, u64)], until: u64) -> Vec<(u32, u64)> {
    let mut r = Resequencer::default();
    let mut got = Vec::new();
    for now in 0..until {
        for (_, seq, left) in arrivals.iter().filter(|(at, ..)| *at == now) {
            let left = Some(Duration::from_millis(*left));
            let item = *seq;
            let _ = r.push(ms(now), KEY, (*seq, order), left, item, &none());
            while let Some(item) = r.pop(ms(now), KEY) {
                got.push((item, now));
            }
        }
        if r.next_timeout().is_some_and(|at| at <= ms(now)) {
            while let Some((_, item)) = r.pop_due(ms(now)) {
                got.push((item, now));
            }
        }
    }
    assert_eq!(r.totals(), HeldTotals::default());
    got
}

/// Returns how often the node wakes for a flow of these arrivals. The node looks when a packet arrives, and at the time
/// that it was told.
fn wakes(order: Order, arrivals: &[(u64, u32, u64)], is_new: bool) -> usize {
    let mut r = Resequencer::default();
    if is_new {
        r.join(ms(arrivals[0].0), KEY.0, KEY.1);
    }
    let (mut count, mut given) = (0, 0);
    for (n, (at, seq, left)) in arrivals.iter().enumerate() {
        let left = Some(Duration::from_millis(*left));
        r.push(ms(*at), KEY, (*seq, order), left, *seq, &none())
            .unwrap();
        given += drain(&mut r, ms(*at)).len();
        let until = arrivals.get(n + 1).map_or(Time::FAR, |next| ms(next.0));
        while let Some(wake) = r.next_timeout().filter(|wake| *wake < until) {
            count += 1;
            assert!(count <= 10 * arrivals.len(), "at {wake}");
            given += drain(&mut r, wake).len();
        }
    }
    assert_eq!(given, arrivals.len());
    count
}

#[test]
fn a_flow_that_waits_for_its_pace_wakes_the_node_about_once_for_each_packet() {
    let timed = Order::AsSent(Some(Duration::from_millis(200)));
    let mut arrivals = steady(700);
    assert!(wakes(timed, &arrivals, false) <= 1_400);
    assert!(wakes(timed, &arrivals, true) <= 1_400);
    for n in [220, 520] {
        arrivals[n].0 += 70;
        arrivals[n].2 -= 70;
    }
    arrivals.sort_unstable();
    let all_wait = wakes(Order::AsSent(None), &arrivals, false);
    assert!((150..=1_400).contains(&all_wait), "{all_wait}");
}

#[test]
fn packets_that_leave_as_they_arrive_postpone_no_other_flow() {
    let mut r = Resequencer::default();
    let left = Some(Duration::from_millis(50));
    for seq in [105, 107] {
        r.push(ms(0), KEY, (seq, Order::AtOnce), left, seq, &none())
            .unwrap();
    }
    assert_eq!(drain(&mut r, ms(0)), [105]);
    let (client, to, _, port) = KEY;
    let busy = (client, to, NodeAddr(9), port);
    for n in 0..600u32 {
        let now = ms(0) + Duration::from_micros(u64::from(n) * 100);
        let order = Order::AsSent(None);
        r.push(now, busy, (105 + n, order), left, n, &none())
            .unwrap();
        assert_eq!(r.pop(now, busy), Some(n));
        if r.next_timeout().is_some_and(|at| at <= now) {
            let due: Vec<u32> = core::iter::from_fn(|| r.pop_due(now))
                .map(|(_, seq)| seq)
                .collect();
            assert_eq!((now, due), (ms(49), vec![107]));
        }
    }
    assert_eq!(r.totals().packets, 0);
}

#[test]
fn a_source_of_thousands_of_flows_takes_no_flow_of_others() {
    let mut r = Resequencer::default();
    let left = Some(Duration::from_millis(50));
    let flow = |source: u32, port: usize| {
        let (_, to, ..) = KEY;
        (KEY.0, to, NodeAddr(source), VirtualPort(port as u16))
    };
    let mut push = |key: FlowKey, now: Time| {
        let pushed = r.push(now, key, (105, Order::AtOnce), left, 1, &none());
        r.pop(now, key);
        pushed.map_err(|refused| refused.0)
    };
    for port in 0..MAX_FLOWS {
        assert_eq!(push(flow(8, port), ms(port as u64)), Ok(()));
    }
    let now = ms(MAX_FLOWS as u64);
    assert_eq!(push(flow(8, MAX_FLOWS), now), Err(Refused::NoFlow));
    // Others take the room of its silent flows, until all have the same number.
    for source in [9, 10] {
        for port in 0..MAX_FLOWS / 3 {
            assert_eq!(push(flow(source, port), now), Ok(()), "{source} {port}");
        }
    }
    assert_eq!(push(flow(9, MAX_FLOWS), now), Ok(()));
    assert_eq!(push(flow(9, MAX_FLOWS + 1), now), Err(Refused::NoFlow));
    assert_eq!(r.totals().packets, 0);
    // The oldest have gone, the youngest have not.
    let mut push_again = |port| {
        let pushed = r.push(now, flow(8, port), (104, Order::AtOnce), left, 1, &none());
        pushed.map_err(|refused| refused.0)
    };
    assert_eq!(push_again(MAX_FLOWS - 1), Err(Refused::TooLate));
    assert_eq!(push_again(0), Ok(()), "it begins anew");
}

/// Packets sent every 10 ms with 500 ms, over a delay of 50 ms; numbers from 100.
fn steady(count: u32) -> Vec<(u64, u32, u64)> {
    (0..count)
        .map(|n| (50 + 10 * u64::from(n), 100 + n, 450))
        .collect()
}

#[test]
fn after_a_second_repair_all_are_as_late_as_it_was_and_keep_their_pace() {
    let mut arrivals = steady(700);
    // Two repaired packets, each 70 ms later than the others.
    for n in [220, 520] {
        arrivals[n].0 += 70;
        arrivals[n].2 -= 70;
    }
    let got = handed_over(Order::AsSent(None), &arrivals, 9_000);
    let numbers: Vec<u32> = got.iter().map(|(n, _)| *n).collect();
    assert_eq!(numbers, (100..800).collect::<Vec<_>>());
    for (n, at) in &got {
        let sent = 10 * u64::from(n - 100);
        let expected = match n - 100 {
            220 | 520.. => 120..=121,
            221..240 => 50..=121,
            _ => 50..=51,
        };
        assert!(expected.contains(&(at - sent)), "{n} {at}");
    }
    let times = got.windows(2).map(|w| w[1].1 - w[0].1);
    assert!(times.skip(1).all(|gap| gap >= 4), "no burst");
}

#[test]
fn a_time_after_sending_is_kept_by_all_and_no_gap_is_waited_for_longer() {
    let mut arrivals = steady(100);
    arrivals[20].0 += 70;
    arrivals[20].2 -= 70;
    arrivals[30].0 += 250;
    arrivals[30].2 -= 250;
    arrivals.remove(40);
    let got = handed_over(
        Order::AsSent(Some(Duration::from_millis(300))),
        &arrivals,
        3_000,
    );
    assert_eq!(got.len(), 98, "one is lost, one came too late");
    for (n, at) in got {
        let sent = 10 * u64::from(n - 100);
        assert!((200..=202).contains(&(at - sent)), "{n} {at}");
    }
}

#[test]
fn what_is_left_of_an_outage_leaves_in_no_burst() {
    let mut arrivals = steady(200);
    arrivals.drain(40..65);
    let got = handed_over(Order::AsSent(None), &arrivals, 5_000);
    assert_eq!(got.len(), 175);
    let after: Vec<u64> = got
        .iter()
        .filter(|(n, _)| *n >= 165)
        .map(|(_, at)| *at)
        .collect();
    // They leave at twice the sender's pace until no packet waits any more.
    for pair in after.windows(2) {
        assert!((4..=11).contains(&(pair[1] - pair[0])), "{pair:?}");
    }
    assert_eq!(got.last(), Some(&(299, 50 + 1_990)), "as early as before");
}

#[test]
fn the_first_of_a_flow_are_waited_for_and_of_others_nothing_before() {
    let start = 7 * START_SPACING;
    for (first, expected) in [
        (start + 2, vec![]),
        (start + FIRST_FEW, vec![start + FIRST_FEW]),
        (start, vec![start]),
        (start - 1, vec![start - 1]),
    ] {
        let mut r = Resequencer::default();
        let left = Some(Duration::from_millis(50));
        r.push(ms(0), KEY, (first, Order::AtOnce), left, first, &none())
            .unwrap();
        assert_eq!(drain(&mut r, ms(0)), expected);
        if expected.is_empty() {
            for seq in [start + 1, start] {
                r.push(ms(9), KEY, (seq, Order::AtOnce), left, seq, &none())
                    .unwrap();
            }
            assert_eq!(drain(&mut r, ms(9)), [start, start + 1, start + 2]);
        }
    }
}

#[test]
fn a_sender_that_begins_anew_is_heard_at_once() {
    for start in [1_000u32, 1 << 31, u32::MAX - 2] {
        let mut r = Resequencer::default();
        r.push(ms(0), KEY, (700_000, Order::AtOnce), None, 1, &none())
            .unwrap();
        r.push(ms(0), KEY, (700_002, Order::AtOnce), None, 3, &none())
            .unwrap();
        assert_eq!(drain(&mut r, ms(0)), [1]);
        for n in 0..4 {
            let seq = start.wrapping_add(n);
            r.push(ms(1), KEY, (seq, Order::AtOnce), None, 10 + n, &none())
                .unwrap();
        }
        assert_eq!(drain(&mut r, ms(1)), [0u32; 0], "behind what is held");
        let due = r.next_timeout().unwrap();
        assert_eq!(drain(&mut r, due), [3, 10, 11, 12, 13]);
        let seq = start.wrapping_add(4);
        r.push(due, KEY, (seq, Order::AtOnce), None, 14, &none())
            .unwrap();
        assert_eq!(drain(&mut r, due), [14]);
    }
}

#[test]
fn a_new_member_waits_for_first_packets_a_moment_and_an_old_one_longer() {
    let (client, to) = (KEY.0, KEY.1);
    for (joined, waits_ms) in [(None, 449), (Some(0), 100), (Some(1_500), 449)] {
        let mut r = Resequencer::default();
        if let Some(before) = joined {
            r.join(ms(0), client, to);
            r.expire(ms(before));
        }
        let (now, seq) = (ms(joined.unwrap_or(0)), START_SPACING + 3);
        let left = Some(Duration::from_millis(450));
        r.push(now, KEY, (seq, Order::AtOnce), left, seq, &none())
            .unwrap();
        let later = |ms| now + Duration::from_millis(ms);
        assert_eq!(drain(&mut r, later(waits_ms - 1)), [], "{joined:?}");
        assert_eq!(drain(&mut r, later(waits_ms)), [seq], "{joined:?}");
        let missed = r.of_group(KEY.2, to.0).missed;
        assert_eq!(missed > 0, waits_ms > 100, "sent before the join");
    }
    let mut r = Resequencer::default();
    r.join(ms(0), client, to);
    let left = Some(Duration::from_millis(450));
    for seq in [START_SPACING + 1, START_SPACING] {
        r.push(ms(30), KEY, (seq, Order::AsSent(None)), left, seq, &none())
            .unwrap();
    }
    let both = [START_SPACING, START_SPACING + 1];
    assert_eq!(drain(&mut r, ms(30)), both, "repaired in time");
    // What is lost behind the first packets has the whole deadline.
    let mut r = Resequencer::default();
    r.join(ms(0), client, to);
    for (at, seq) in [(0, 3), (90, 5)] {
        r.push(
            ms(at),
            KEY,
            (START_SPACING + seq, Order::AtOnce),
            left,
            seq,
            &none(),
        )
        .unwrap();
        assert_eq!(drain(&mut r, ms(at)), []);
    }
    assert_eq!(drain(&mut r, ms(100)), [3]);
    r.push(
        ms(150),
        KEY,
        (START_SPACING + 4, Order::AtOnce),
        left,
        4,
        &none(),
    )
    .unwrap();
    assert_eq!(drain(&mut r, ms(150)), [4, 5]);
    let mut r: Resequencer<u32> = Resequencer::default();
    r.join(ms(0), client, to);
    r.leave(client, to.0, to.1);
    assert!(r.joined.is_empty(), "what has left takes no memory");
    r.join(ms(0), client, to);
    r.close(client);
    assert!(r.joined.is_empty());
}

#[test]
fn who_joins_again_does_not_wait_for_what_was_sent_meanwhile() {
    let mut r = Resequencer::default();
    let group = NodeAddr(0xef01_0101);
    let key = |port| {
        (
            ClientId(1),
            (group, VirtualPort(port)),
            NodeAddr(9),
            VirtualPort(9),
        )
    };
    for port in [1, 2] {
        assert!(
            r.push(
                ms(0),
                key(port),
                (50, Order::AtOnce),
                None,
                u32::from(port),
                &none()
            )
            .is_ok()
        );
        assert_eq!(r.pop(ms(0), key(port)), Some(u32::from(port)));
    }
    r.leave(ClientId(1), group, VirtualPort(1));
    for port in [1, 2] {
        assert!(
            r.push(
                ms(1),
                key(port),
                (100, Order::AtOnce),
                None,
                u32::from(port),
                &none()
            )
            .is_ok()
        );
    }
    assert_eq!(r.pop(ms(1), key(1)), Some(1));
    assert_eq!(r.pop(ms(1), key(2)), None, "the other group goes on");
}

#[test]
fn what_is_held_is_bounded() {
    let mut r = Resequencer::default();
    r.push(ms(0), KEY, (0, Order::AtOnce), None, 0, &none())
        .unwrap();
    drain(&mut r, ms(0));
    let full = (2..)
        .find(|&s| {
            r.push(ms(0), KEY, (s, Order::AtOnce), None, s, &none())
                .is_err()
        })
        .unwrap();
    assert_eq!(full as usize, 2 + MAX_HELD + 1, "nobody fetches them");
}

#[test]
fn one_that_never_comes_costs_a_fast_flow_no_other() {
    let mut r = Resequencer::default();
    let left = Some(Duration::from_secs(1));
    let mut got = Vec::new();
    for seq in (0..3 * MAX_HELD as u32).filter(|seq| *seq != 5) {
        r.push(ms(0), KEY, (seq, Order::AtOnce), left, seq, &none())
            .unwrap();
        got.extend(drain(&mut r, ms(0)));
    }
    let all = (0..3 * MAX_HELD as u32).filter(|seq| *seq != 5);
    assert!(got.into_iter().eq(all));
    let late = r.push(ms(0), KEY, (5, Order::AtOnce), left, 5, &none());
    assert_eq!(late.map_err(|e| e.0), Err(Refused::TooLate));
}

/// The key of a separate flow.
fn of(client: u32) -> FlowKey {
    (ClientId(client), KEY.1, KEY.2, KEY.3)
}

/// Fetches packets that are ready, as the node does after a packet; each with its flow.
fn fetch(r: &mut Resequencer<Packet>, now: Time, key: FlowKey) -> Vec<(FlowKey, u32)> {
    let (mut got, mut ready) = (Vec::new(), Some(key));
    while let Some(key) = ready {
        while let Some(Packet(seq, _)) = r.pop(now, key) {
            got.push((key, seq));
        }
        ready = r.relieve();
    }
    got
}

#[test]
fn of_the_nodes_bound_the_flow_pays_that_holds_most() {
    let mut r = Resequencer {
        node_bytes_max: 100_000,
        ..Resequencer::default()
    };
    let left = Some(Duration::from_millis(500));
    let push = |r: &mut Resequencer<Packet>, key, seq| {
        r.push(
            ms(0),
            key,
            (seq, Order::AtOnce),
            left,
            Packet(seq, 1_000),
            &none(),
        )
        .unwrap();
        fetch(r, ms(0), key)
    };
    for key in [of(1), of(2)] {
        assert_eq!(push(&mut r, key, 0), [(key, 0)]);
    }
    // The bystander waits for its packet 1 with five others.
    for seq in 2..7 {
        assert_eq!(push(&mut r, of(2), seq), []);
    }
    for seq in 2..500 {
        let got = push(&mut r, of(1), seq);
        assert!(got.iter().all(|(key, _)| *key == of(1)), "{got:?}");
        assert!(r.totals().bytes <= 100_000);
    }
    assert_eq!(r.totals().given_up, 1);
    let all: Vec<_> = (1..7).map(|seq| (of(2), seq)).collect();
    assert_eq!(push(&mut r, of(2), 1), all);
}

#[test]
fn what_no_memory_is_left_for_does_not_wait() {
    #[derive(Debug)]
    struct Homeless(u32);
    impl Hold for Homeless {
        fn bytes(&self) -> usize {
            1_000
        }
        fn keep(&mut self, _: &Pool) -> bool {
            false
        }
    }
    let mut r = Resequencer::default();
    for seq in [105, 107, 108, 110] {
        r.push(
            ms(0),
            KEY,
            (seq, Order::AtOnce),
            None,
            Homeless(seq),
            &none(),
        )
        .unwrap();
        let got = core::iter::from_fn(|| r.pop(ms(0), KEY)).map(|Homeless(seq)| seq);
        assert_eq!(got.collect::<Vec<_>>(), [seq]);
    }
    let nothing = HeldTotals {
        given_up: 2,
        ..HeldTotals::default()
    };
    assert_eq!(r.totals(), nothing);
}

proptest! {
    #[test]
    fn what_is_held_stays_within_bounds_and_in_order(
        arrivals in proptest::collection::vec((0..4u32, 0..40u32, 1..3_000usize, 0..3u64), 1..400),
    ) {
        const MOST: usize = 20_000;
        let mut r = Resequencer {
            node_bytes_max: MOST,
            ..Resequencer::default()
        };
        let mut last: Map<FlowKey, u32> = Map::default();
        let (mut now, mut base) = (ms(0), [0u32; 4]);
        let (mut taken, mut came) = (0, 0);
        for (flow, ahead, bytes, later) in arrivals {
            now += Duration::from_millis(later);
            let key = of(flow);
            let seq = base[flow as usize] + ahead;
            base[flow as usize] += 1;
            let left = Some(Duration::from_millis(20));
            let held = r.totals().packets;
            if r.push(now, key, (seq, Order::AtOnce), left, Packet(seq, bytes), &none()).is_ok() {
                // A number that is already held is replaced.
                taken += r.totals().packets - held;
            }
            let mut got = fetch(&mut r, now, key);
            while let Some((key, Packet(seq, _))) = r.pop_due(now) {
                got.push((key, seq));
            }
            came += got.len();
            for (key, seq) in got {
                let before = last.insert(key, seq);
                prop_assert!(before.is_none_or(|before| before < seq));
            }
            let sum = r.holders().into_iter().fold((0, 0), |sum, (_, held)| {
                (sum.0 + held.packets, sum.1 + held.bytes)
            });
            prop_assert_eq!(sum, (r.totals().packets, r.totals().bytes));
            prop_assert!(r.totals().bytes <= MOST);
            prop_assert_eq!(taken - came, r.totals().packets);
        }
    }
}

#[test]
fn numbers_wrap_without_a_stall() {
    let mut r = Resequencer::default();
    for seq in [u32::MAX - 1, u32::MAX, 0, 1] {
        r.push(ms(0), KEY, (seq, Order::AtOnce), None, seq, &none())
            .unwrap();
    }
    assert_eq!(drain(&mut r, ms(0)), [u32::MAX - 1, u32::MAX, 0, 1]);
}
