//! The two tables of keys, without a node.

use super::own::{OwnKeys, Telling};
use super::received::ReceivedKeys;
use super::waiting::{Waiting, WaitingPackets};
use crate::event::Drop;
use base::pool::KEPT_OVERHEAD;
use base::{Duration, NodeAddr, Pool, Time};
use secure::{Authority, GroupKeys, Network, Route, SealingKey};
use std::collections::BTreeSet;
use wire::data::{FlowSeq, Header, LaneSeq, Remaining, Repr};
use wire::link::{Kind, SEAL_BYTES, SessionIndex};
use wire::transport::GroupKey;
use wire::{CLEAR_BYTES, HEADER_BYTES, TAG_BYTES};

const SOURCE: NodeAddr = NodeAddr(0x0a07_0001);
const SECOND: Duration = Duration::from_secs(1);

fn network() -> Network {
    Authority::generate(&[3; 32]).network()
}

fn group(n: u32) -> NodeAddr {
    NodeAddr(0xef00_0000 + n)
}

fn node(n: u32) -> NodeAddr {
    NodeAddr(0x0a07_0100 + n)
}

/// A sealed packet of `source` to a group, from its header on.
fn packet(source: NodeAddr, to: NodeAddr, seq: u32, key: &mut SealingKey) -> Vec<u8> {
    let header = Repr {
        class: wire::data::Class::default(),
        ttl: 9,
        has_extension: false,
        congested: false,
        recovered: false,
        has_transport: true,
        remaining: Remaining::NONE,
        source,
        destination: to,
        source_port: base::VirtualPort(1),
        destination_port: base::VirtualPort(2),
        flow_seq: FlowSeq(seq),
        lane_seq: LaneSeq::new(0),
    };
    let mut packet = vec![0x33; HEADER_BYTES + SEAL_BYTES + 40];
    header.emit(&mut packet).unwrap();
    let bound = Header::trusted(&packet[..]).bound();
    key.seal(Kind::Data, &mut packet[HEADER_BYTES..], &bound)
        .unwrap();
    packet
}

struct Bench {
    keys: GroupKeys,
    received: ReceivedKeys,
    waiting: WaitingPackets,
}

impl Bench {
    fn new() -> Bench {
        Bench {
            keys: GroupKeys::new(&network(), &[1; 32]),
            received: ReceivedKeys::new(),
            waiting: WaitingPackets::default(),
        }
    }

    fn tell(&mut self, now: Time, of: (NodeAddr, NodeAddr), key: &SealingKey) {
        let key = self.keys.opening(key.number(), key.secret(), key.first());
        self.received.insert(now, of, key);
    }
}

#[test]
fn a_packet_is_opened_once_by_the_key_of_its_source_and_group_alone() {
    let mut bench = Bench::new();
    let now = Time::ZERO + SECOND;
    let mut key = bench.keys.make(now);
    let good = packet(SOURCE, group(1), 7, &mut key);
    assert_eq!(
        bench.received.open(now, Route::Tree, &mut good.clone()),
        Err(Drop::EndNoSession)
    );
    bench.tell(now, (SOURCE, group(1)), &key);
    let mut of_another = packet(node(1), group(1), 7, &mut key);
    let mut to_another = packet(SOURCE, group(2), 7, &mut key);
    for other in [&mut of_another, &mut to_another] {
        assert_eq!(
            bench.received.open(now, Route::Tree, other),
            Err(Drop::EndNoSession)
        );
    }
    let mut changed = good.clone();
    *changed.last_mut().unwrap() ^= 1;
    assert_eq!(
        bench.received.open(now, Route::Tree, &mut changed),
        Err(Drop::EndForged)
    );
    let mut opened = good.clone();
    assert_eq!(bench.received.open(now, Route::Tree, &mut opened), Ok(()));
    let opened = &opened[CLEAR_BYTES..opened.len() - TAG_BYTES];
    let header = Header::parse(opened).unwrap();
    assert!(!header.has_transport());
    assert_eq!(header.payload(), [0x33; 40]);
    assert_eq!(
        bench.received.open(now, Route::Tree, &mut good.clone()),
        Err(Drop::Duplicate)
    );
}

#[test]
fn two_keys_open_in_any_order_until_one_is_of_no_use_any_more() {
    let mut bench = Bench::new();
    let (mut now, of) = (Time::ZERO, (SOURCE, group(1)));
    let (mut old, mut new) = (bench.keys.make(now), bench.keys.make(now));
    let late = packet(SOURCE, group(1), 1, &mut old);
    bench.tell(now, of, &old);
    assert_eq!(
        bench.received.open(now, Route::Tree, &mut late.clone()),
        Ok(())
    );
    bench.tell(now, of, &new);
    // An answer that was on its way: the record of packets opened under the key is kept.
    bench.tell(now, of, &old);
    assert_eq!(
        bench.received.open(now, Route::Tree, &mut late.clone()),
        Err(Drop::Duplicate)
    );
    let mut open = |now: Time, key: &mut SealingKey, seq: u32| {
        let mut packet = packet(SOURCE, group(1), seq, key);
        bench.received.open(now, Route::Tree, &mut packet)
    };
    now += SECOND * 9;
    assert_eq!(open(now, &mut old, 2), Ok(()));
    assert_eq!(open(now, &mut new, 3), Ok(()));
    // The source sends nothing for a minute.
    now += SECOND * 60;
    assert_eq!(open(now, &mut new, 4), Ok(()));
    assert_eq!(open(now, &mut old, 5), Err(Drop::EndNoSession));
    assert_eq!(open(now, &mut new, 6), Ok(()));
}

#[test]
fn who_leaves_and_comes_back_within_the_life_of_a_key_opens_nothing_twice() {
    let mut bench = Bench::new();
    let (mut now, of) = (Time::ZERO, (SOURCE, group(1)));
    let mut key = bench.keys.make(now);
    bench.tell(now, of, &key);
    let mut packet = |seq: u32| packet(SOURCE, group(1), seq, &mut key);
    let heard: Vec<_> = (0..100).map(&mut packet).collect();
    let missed = packet(100);
    for one in &heard {
        assert_eq!(
            bench.received.open(now, Route::Tree, &mut one.clone()),
            Ok(())
        );
    }
    bench.received.leave(group(1));
    now += SECOND * 599;
    bench.received.expire(now);
    // The node does not know the key before it receives the key again.
    assert!(!bench.received.has_number(of, key.number()));
    let early = bench.received.open(now, Route::Tree, &mut missed.clone());
    assert_eq!(early, Err(Drop::EndNoSession));
    bench.tell(now, of, &key);
    for one in &heard {
        let again = bench.received.open(now, Route::Tree, &mut one.clone());
        assert_eq!(again, Err(Drop::Duplicate));
    }
    assert_eq!(
        bench.received.open(now, Route::Tree, &mut missed.clone()),
        Ok(())
    );
}

#[test]
fn a_key_that_was_at_rest_when_another_was_told_still_opens_nothing_twice() {
    let mut bench = Bench::new();
    let (mut now, of) = (Time::ZERO, (SOURCE, group(1)));
    let (mut old, mut new) = (bench.keys.make(now), bench.keys.make(now));
    let heard: Vec<_> = (0..100)
        .map(|seq| packet(SOURCE, group(1), seq, &mut old))
        .collect();
    let next: Vec<_> = (100..103)
        .map(|seq| packet(SOURCE, group(1), seq, &mut new))
        .collect();
    let open = |bench: &mut Bench, now: Time, one: &[u8]| {
        bench.received.open(now, Route::Tree, &mut one.to_vec())
    };
    bench.tell(now, of, &old);
    for one in &heard {
        assert_eq!(open(&mut bench, now, one), Ok(()));
    }
    // The source sends nothing for a while, and then sends the next key; the first key may still be requested.
    now += SECOND * 11;
    bench.tell(now, of, &new);
    bench.received.expire(now);
    bench.tell(now, of, &old);
    for one in &heard {
        assert_eq!(open(&mut bench, now, one), Err(Drop::Duplicate));
    }
    // The key is out of use from when the next one opens a packet.
    for (one, after) in next.iter().zip([60, 9, 1]) {
        let is_held = bench.received.has_number(of, old.number());
        assert!(is_held, "{after}");
        now += SECOND * after;
        assert_eq!(open(&mut bench, now, one), Ok(()));
    }
    bench.received.expire(now);
    assert!(!bench.received.has_number(of, old.number()));
    // The record of packets that it has opened is forgotten, which is not the same as zero.
    let came = |bench: &mut Bench, number| bench.received.came_by_tree(of, number, (0, 3));
    assert_eq!(came(&mut bench, old.number()), None);
    assert_eq!(came(&mut bench, new.number()), Some(3));
    let unknown = SessionIndex::new(old.number().value() ^ new.number().value() ^ 1);
    assert_eq!(came(&mut bench, unknown), Some(0));
    // Now nobody can make the node accept the key again, however late it is received.
    bench.tell(now, of, &old);
    for one in &heard {
        assert_eq!(open(&mut bench, now, one), Err(Drop::EndNoSession));
    }
}

#[test]
fn a_withheld_packet_under_the_former_key_does_not_displace_the_present_one() {
    let mut bench = Bench::new();
    let (mut now, of) = (Time::ZERO, (SOURCE, group(1)));
    let [mut old, mut new, mut third] = [(); 3].map(|()| bench.keys.make(now));
    let withheld = [1, 2].map(|seq| packet(SOURCE, group(1), seq, &mut old));
    let open = |bench: &mut Bench, now: Time, key: &mut SealingKey, seq: u32| {
        let mut packet = packet(SOURCE, group(1), seq, key);
        bench.received.open(now, Route::Tree, &mut packet)
    };
    let late = |bench: &mut Bench, now: Time, n: usize| {
        let mut packet: Vec<u8> = withheld[n].clone();
        bench.received.open(now, Route::Tree, &mut packet)
    };
    bench.tell(now, of, &old);
    assert_eq!(open(&mut bench, now, &mut old, 3), Ok(()));
    bench.tell(now, of, &new);
    now += SECOND;
    assert_eq!(open(&mut bench, now, &mut new, 4), Ok(()));
    // The source sends nothing for a while, and somebody sends what was withheld.
    now += SECOND * 12;
    assert_eq!(late(&mut bench, now, 0), Ok(()));
    bench.received.expire(now);
    assert_eq!(open(&mut bench, now, &mut new, 5), Ok(()));
    // A third key takes the place of the former one, even if the former was used last.
    now += SECOND;
    assert_eq!(late(&mut bench, now, 1), Ok(()));
    bench.tell(now, of, &third);
    assert_eq!(open(&mut bench, now, &mut new, 6), Ok(()));
    assert_eq!(open(&mut bench, now, &mut third, 7), Ok(()));
    let gone = open(&mut bench, now, &mut old, 8);
    assert_eq!(gone, Err(Drop::EndNoSession));
}

#[test]
fn a_source_of_thousands_of_groups_takes_no_keys_of_others() {
    let mut bench = Bench::new();
    let mut now = Time::ZERO;
    let key = bench.keys.make(now);
    for n in 0..500 {
        bench.tell(now, (SOURCE, group(n)), &key);
    }
    for n in 0..6_000 {
        now += Duration::from_millis(1);
        bench.tell(now, (node(1), group(n)), &key);
    }
    let kept = |of: NodeAddr| {
        (0..6_000)
            .filter(|n| bench.received.has((of, group(*n))))
            .count()
    };
    assert_eq!(kept(SOURCE), 500);
    assert_eq!(kept(node(1)), 1_024 - 500);
}

#[test]
fn an_answer_with_another_key_makes_no_question_due() {
    let mut bench = Bench::new();
    let (at, of) = (
        |ms| Time::ZERO + Duration::from_millis(ms),
        (SOURCE, group(1)),
    );
    assert_eq!(asked(&mut bench, at(1), of), 0);
    assert_eq!(asked(&mut bench, at(2), of), 1);
    let key = bench.keys.make(at(3));
    bench.tell(at(3), of, &key);
    assert_eq!(asked(&mut bench, at(70), of), 0);
    // Housekeeping does not make the interval begin anew.
    assert_eq!(
        asked(&mut bench, at(82), of) + asked(&mut bench, at(84), of),
        1
    );
    bench.received.expire(at(300));
    assert_eq!(
        asked(&mut bench, at(301), of) + asked(&mut bench, at(303), of),
        1
    );
    assert_eq!(
        asked(&mut bench, at(500), of) + asked(&mut bench, at(502), of),
        0
    );
}

/// Returns how many requests are due after packets under an unknown key of these sources and groups.
fn asked(bench: &mut Bench, now: Time, of: (NodeAddr, NodeAddr)) -> usize {
    bench.received.ask(now, of, SessionIndex::new(7));
    bench.received.take_to_ask(now).len()
}

#[test]
fn a_source_is_asked_at_a_limited_rate() {
    let mut bench = Bench::new();
    let (mut now, of) = (Time::ZERO, (SOURCE, group(1)));
    let mut count = 0;
    for _ in 0..1_000 {
        count += asked(&mut bench, now, of);
        now += Duration::from_millis(1);
    }
    // After 0, 80, 240, 490, 740 and 990 ms.
    assert_eq!(count, 6);
    // A refusal counts only if the key was requested.
    for n in 0..10_000 {
        bench
            .received
            .on_refused(now, (SOURCE, group(n)), SessionIndex::new(9));
    }
    bench.received.on_refused(now, of, SessionIndex::new(7));
    let after = |bench: &mut Bench, seconds: u64| {
        let at = now + SECOND * seconds;
        asked(bench, at, of) + asked(bench, at + Duration::from_millis(1), of)
    };
    assert_eq!((after(&mut bench, 4), after(&mut bench, 5)), (0, 1));
    // The same for invented sources or groups.
    now += SECOND * 6;
    let mut count = 0;
    for n in 0..20_000 {
        now += Duration::from_micros(100);
        count += asked(&mut bench, now, (node(n), group(n)));
    }
    assert!((256..=256 + 200).contains(&count), "{count} in two seconds");
}

/// Returns which nodes get a key if these are the members.
fn told(own: &mut OwnKeys, now: Time, members: &BTreeSet<NodeAddr>) -> Vec<NodeAddr> {
    let due = own.due(now).into_iter();
    due.flat_map(|group| told_of(own, now, group, members))
        .collect()
}

fn told_of(
    own: &mut OwnKeys,
    now: Time,
    group: NodeAddr,
    members: &BTreeSet<NodeAddr>,
) -> Vec<NodeAddr> {
    let may = |node: NodeAddr| members.contains(&node);
    let to = own.lacking(now, group, Some(members.iter().copied()), may);
    for node in &to {
        assert!(!own.tell(now, group, *node).is_empty());
    }
    to
}

/// Returns the number of the key in a message.
fn number_in(telling: &Telling) -> u32 {
    match GroupKey::parse(telling.bytes()) {
        Ok(GroupKey::Told { name, .. }) => name.number.value(),
        _ => unreachable!("a key is told"),
    }
}

/// Returns the numbers of the keys that a node gets, the newest one last.
fn numbers(own: &mut OwnKeys, now: Time, to: NodeAddr) -> Vec<u32> {
    let tellings = own.tell(now, group(1), to);
    tellings.iter().map(number_in).collect()
}

fn number(own: &mut OwnKeys, now: Time, to: NodeAddr) -> u32 {
    *numbers(own, now, to).last().unwrap()
}

/// A second passes between the making of a key and its use. A node that comes in this second also needs the key in use;
/// a node that has that key gets only the next one.
#[test]
fn who_comes_while_the_key_changes_is_told_both() {
    let mut own = OwnKeys::new(&network(), &[1; 32]);
    let mut now = Time::ZERO;
    assert_eq!(own.prepare(now, group(1)), Ok(true));
    let first = numbers(&mut own, now, node(1));
    assert_eq!(first.len(), 1);
    numbers(&mut own, now, node(2));
    own.on_revoked(node(2));
    now += SECOND * 10;
    own.tend(now);
    let next = numbers(&mut own, now, node(1));
    assert_eq!(next.len(), 1);
    assert_ne!(next, first);
    assert_eq!(numbers(&mut own, now, node(3)), [first[0], next[0]]);
    // If the message with the key in use is lost, the node asks, and the answer is not withheld because the key was
    // just sent.
    now += Duration::from_millis(60);
    let asked = (group(1), SessionIndex::new(first[0]));
    let answer = own.answer(now, asked, node(3)).map(|it| number_in(&it));
    assert_eq!(answer, Some(first[0]));
    now += SECOND;
    assert_eq!(own.prepare(now, group(1)), Ok(false));
    assert_eq!(numbers(&mut own, now, node(4)), next);
}

/// A node that received the next key a moment ago, but lacks the one in use, is answered at once.
#[test]
fn who_was_just_told_the_next_key_may_ask_for_the_present_one() {
    let mut own = OwnKeys::new(&network(), &[1; 32]);
    let mut now = Time::ZERO;
    assert_eq!(own.prepare(now, group(1)), Ok(true));
    let present = number(&mut own, now, node(1));
    numbers(&mut own, now, node(2));
    own.on_revoked(node(2));
    now += SECOND * 10;
    own.tend(now);
    number(&mut own, now, node(1));
    now += Duration::from_millis(5);
    let asked = (group(1), SessionIndex::new(present));
    let answer = own.answer(now, asked, node(1)).map(|it| number_in(&it));
    assert_eq!(answer, Some(present));
}

#[test]
fn a_key_changes_after_a_member_has_left_but_not_often() {
    let mut own = OwnKeys::new(&network(), &[1; 32]);
    let mut now = Time::ZERO;
    let mut members: BTreeSet<NodeAddr> = [node(1), node(2), node(3)].into();
    assert_eq!(own.prepare(now, group(1)), Ok(true));
    assert_eq!(told_of(&mut own, now, group(1), &members).len(), 3);
    let first = number(&mut own, now, node(1));
    let mut numbers = vec![first];
    // Every second one member leaves or comes back, for a minute.
    for second in 0..60 {
        now += SECOND;
        match second % 2 {
            0 => members.remove(&node(3)),
            _ => members.insert(node(3)),
        };
        own.on_changed(now, group(1));
        own.tend(now);
        now += Duration::from_millis(1);
        told(&mut own, now, &members);
        assert_eq!(own.prepare(now, group(1)), Ok(false));
        numbers.push(number(&mut own, now, node(1)));
    }
    numbers.dedup();
    assert!((5..=7).contains(&numbers.len()), "{} keys", numbers.len());
}

/// Returns the number of the key in the answer to a node's request, if there is an answer.
fn answered(own: &mut OwnKeys, now: Time, to: NodeAddr) -> Option<u32> {
    let unknown = SessionIndex::new(1);
    let telling = own.answer(now, (group(1), unknown), to)?;
    Some(number_in(&telling))
}

/// Lets a second pass in a group whose members ask, and returns the nodes that get a key without asking.
fn second(own: &mut OwnKeys, now: &mut Time) -> Vec<NodeAddr> {
    *now += SECOND;
    own.tend(*now);
    *now += Duration::from_millis(1);
    assert_eq!(own.prepare(*now, group(1)), Ok(false));
    let mut told = Vec::new();
    for group in own.due(*now) {
        let to = own.lacking(*now, group, None::<core::iter::Empty<NodeAddr>>, |_| true);
        told.extend(to);
    }
    for node in &told {
        assert!(!own.tell(*now, group(1), *node).is_empty());
    }
    told
}

#[test]
fn a_key_that_a_revoked_node_has_asked_for_changes_in_time() {
    let mut own = OwnKeys::new(&network(), &[1; 32]);
    let mut now = Time::ZERO;
    assert_eq!(own.prepare(now, group(1)), Ok(true));
    let known = answered(&mut own, now, node(1));
    assert_eq!(answered(&mut own, now, node(2)), known);
    for _ in 0..20 {
        assert!(second(&mut own, &mut now).is_empty());
    }
    own.on_revoked(node(3));
    assert!(second(&mut own, &mut now).is_empty(), "it has had no key");
    own.on_revoked(node(2));
    assert_eq!(second(&mut own, &mut now), [node(1)]);
    second(&mut own, &mut now);
    let fresh = answered(&mut own, now, node(1));
    assert!(fresh.is_some() && fresh != known);
    assert_eq!(own.told(group(1)), 1);
    // The key does not change again within ten seconds.
    own.on_revoked(node(1));
    second(&mut own, &mut now);
    second(&mut own, &mut now);
    assert_eq!(answered(&mut own, now, node(4)), fresh);
}

#[test]
fn who_asks_no_more_is_told_no_more() {
    let mut own = OwnKeys::new(&network(), &[1; 32]);
    let mut now = Time::ZERO;
    assert_eq!(own.prepare(now, group(1)), Ok(true));
    for n in 0..4 {
        assert!(answered(&mut own, now, node(n)).is_some());
    }
    let mut unasked = 0;
    for _ in 0..1_300 {
        unasked += second(&mut own, &mut now).len();
    }
    assert_eq!(
        unasked, 4,
        "at the next change, and not at the one after it"
    );
    assert_eq!(own.told(group(1)), 0);
}

#[test]
fn who_confirms_what_it_was_told_at_once_is_told_on_and_not_answered() {
    let mut own = OwnKeys::new(&network(), &[1; 32]);
    let mut now = Time::ZERO;
    assert_eq!(own.prepare(now, group(1)), Ok(true));
    assert!(answered(&mut own, now, node(1)).is_some());
    // The way there and back takes less, or more, than the time in which one answer is enough.
    let mut changes = 0;
    for (confirms_ms, seconds) in [(5, 1_300), (200, 1_300)] {
        for _ in 0..seconds {
            for to in second(&mut own, &mut now) {
                changes += 1;
                let told = number(&mut own, now, to);
                let name = (group(1), SessionIndex::new(told));
                let at = now + Duration::from_millis(confirms_ms);
                assert!(own.answer(at, name, to).is_none(), "{confirms_ms} ms");
            }
        }
    }
    assert_eq!(changes, 4, "each change of the key");
    assert_eq!(own.told(group(1)), 1);
}

#[test]
fn many_members_are_told_bit_by_bit() {
    let mut own = OwnKeys::new(&network(), &[1; 32]);
    let mut now = Time::ZERO;
    let members: BTreeSet<NodeAddr> = (0..100).map(node).collect();
    assert_eq!(own.prepare(now, group(1)), Ok(true));
    let mut all = told_of(&mut own, now, group(1), &members);
    assert_eq!(all.len(), 32);
    while let Some(at) = own.next_timeout() {
        assert!(told(&mut own, now, &members).is_empty(), "not before");
        now = at;
        all.extend(told(&mut own, now, &members));
    }
    let once: BTreeSet<NodeAddr> = all.iter().copied().collect();
    assert_eq!((all.len(), once), (100, members));
}

mod waiting;
