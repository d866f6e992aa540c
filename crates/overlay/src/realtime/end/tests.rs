//! Two ends and a path that loses packets: restored packets, sessions that begin anew, and peers that send arbitrary
//! values.

use super::*;
use crate::realtime::tests_packet;
use base::Rng;
use std::collections::BTreeSet;
use wire::control::REPAIR_FRONT_BYTES;

const ONE: SessionIndex = SessionIndex::new(1);
const TWO: SessionIndex = SessionIndex::new(2);
const DEADLINE: Duration = Duration::from_millis(150);

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

/// The one-way delay of the path.
const WAY: Duration = Duration::from_millis(50);

fn of(session: SessionIndex) -> Of {
    // Sessions with higher indices were made later.
    let made = Time::ZERO + Duration::from_secs(session.value().into());
    Of { session, made }
}

/// Two ends, and a path that loses packets and rewrites what hops rewrite.
struct Way {
    sender: EndSender,
    receiver: EndReceiver,
    rng: Rng,
    loss: f64,
    counter: u64,
    ms: u64,
    /// The deadline of every other packet.
    other: Duration,
    /// How many numbers after each packet belong to other packets, of which none is lost.
    beside: u64,
    opened: BTreeSet<u64>,
    lost: Vec<(u64, Vec<u8>)>,
    found: Vec<(u64, Vec<u8>)>,
    repairs: u64,
}

impl Way {
    fn new(loss: f64) -> Way {
        Way {
            sender: EndSender::new(Aims::default()),
            receiver: EndReceiver::default(),
            rng: Rng::new(7),
            loss,
            counter: 5_000,
            ms: 0,
            other: DEADLINE,
            beside: 0,
            opened: BTreeSet::new(),
            lost: Vec::new(),
            found: Vec::new(),
            repairs: 0,
        }
    }

    /// Sends `packets` packets, 2 ms apart.
    fn send(&mut self, session: SessionIndex, packets: u64) {
        for _ in 0..packets {
            self.ms += 2;
            let (now, there) = (at(self.ms), at(self.ms) + WAY);
            let deadline = [DEADLINE, self.other][(self.ms / 2 % 2) as usize];
            let packet = tests_packet(self.counter, Remaining::from_duration(deadline));
            let sealed = Sealed {
                session,
                counter: self.counter,
                packet: &packet,
                way: WAY,
                wish: None,
            };
            self.sender.on_sealed(now, &sealed);
            match self.rng.chance(self.loss) {
                true => self.lost.push((self.counter, packet)),
                false => self.arrive(there, session, packet),
            }
            self.counter += 1;
            for _ in 0..self.beside {
                self.sender.on_other(now, session, self.counter);
                self.receiver
                    .on_opened(there, session, self.counter as u32, false);
                self.opened.insert(self.counter);
                self.counter += 1;
            }
            self.flush(session);
        }
    }

    fn flush(&mut self, session: SessionIndex) {
        let (now, there) = (at(self.ms), at(self.ms) + WAY);
        self.sender.look(now, true);
        if let Some((session, names)) = self.sender.ask(now) {
            let report = self.ask(there, session, &names);
            if let Some(report) = report {
                self.sender.on_report(at(self.ms + 100), &report);
            }
        }
        let mut room = [0; REPAIR_FRONT_BYTES + 64];
        while let Some((len, session, left)) = self.sender.poll(now, &mut room) {
            self.repairs += 1;
            let repair = Repair::parse(&room[..len]).unwrap();
            if !self.rng.chance(self.loss) {
                let left = left.map(|left| left.saturating_sub(WAY));
                self.receiver.on_repair(there, of(session), left, &repair);
            }
        }
        self.take(there, session);
    }

    fn ask(&mut self, there: Time, session: SessionIndex, names: &Names) -> Option<EndReport> {
        let opened = &self.opened;
        let (first, _) = names.parts();
        let each = (u64::from(first)..).map(|counter| opened.contains(&counter));
        self.receiver
            .on_ask(there, of(session), names.parts(), each)
    }

    fn arrive(&mut self, now: Time, session: SessionIndex, mut packet: Vec<u8>) {
        let mut header = Header::trusted(&mut packet[..]);
        header.set_ttl(3);
        header.set_recovered();
        header.set_remaining(Remaining::from_duration(Duration::from_millis(99)));
        let is_noted = self.receiver.note(now, session, &packet);
        let low = self.counter as u32;
        self.receiver.on_opened(now, session, low, is_noted);
        self.opened.insert(self.counter);
    }

    fn take(&mut self, now: Time, session: SessionIndex) {
        let mut came = Vec::new();
        while let Some((counter, remaining, bytes)) = self.receiver.poll(now) {
            let header = Header::trusted(bytes);
            // It is late by as much as the packet itself is older than its repair, and not later than that by more than
            // the unit of ages.
            let seq = header.flow_seq().widen(self.counter);
            let sent = self.ms - 2 * (self.counter - seq) / (1 + self.beside);
            let passed = Duration::from_millis(self.ms - sent);
            let exact = (DEADLINE.min(self.other) - WAY).saturating_sub(passed);
            let left = remaining.duration().unwrap();
            assert!(
                left <= exact + Duration::from_millis(2),
                "{left:?}, {exact:?}"
            );
            let told = Duration::from_millis(6);
            assert!(left + told >= exact, "{left:?}, {exact:?}");
            if !remaining.is_expired() {
                came.push(counter);
                self.found.push((seq, header.payload().to_vec()));
            }
        }
        for counter in came {
            assert_eq!(self.receiver.restored(session, counter as u32, 1), 0);
            self.receiver.on_restored(counter);
            self.opened.insert(counter);
            assert_eq!(self.receiver.restored(session, counter as u32, 1), 1);
        }
    }

    /// Forgets what was lost and found, and sends packets. Returns how many of the packets that were lost then were
    /// found, and how many were lost.
    fn measure(&mut self, session: SessionIndex, packets: u64) -> (usize, usize) {
        self.lost.clear();
        self.found.clear();
        self.send(session, packets);
        let found = self.lost.iter().filter(|(counter, packet)| {
            let is_it =
                |(of, payload): &&(u64, Vec<u8>)| of == counter && packet.ends_with(payload);
            self.found.iter().any(|found| is_it(&found))
        });
        (found.count(), self.lost.len())
    }
}

#[test]
fn what_is_lost_on_the_way_is_found_whatever_hops_have_written() {
    let mut way = Way::new(0.05);
    way.send(ONE, 5_000);
    let (lost, _) = way.sender.measured();
    assert!((0.02..0.1).contains(&lost), "{lost}");
    assert!(way.sender.plan().share.is_some());
    let (found, lost) = way.measure(ONE, 5_000);
    assert!(found * 100 > lost * 97, "{found} of {lost}");
    // And the reports agree: they say what stays lost after repair.
    let (left, of) = way.sender.measured().1.unwrap();
    assert!(of > 2_000 && left < 0.005, "{left} of {of}");
}

#[test]
fn a_stream_beside_hides_no_losses_and_shortens_what_repair_reaches_over() {
    let mut way = Way::new(0.05);
    way.beside = 9;
    way.send(ONE, 5_000);
    let (lost, _) = way.sender.measured();
    assert!((0.02..0.1).contains(&lost), "{lost}");
    let share = way.sender.plan().share.unwrap();
    assert!(share.width <= 7, "{share:?}");
    let (found, lost) = way.measure(ONE, 5_000);
    assert!(found * 100 > lost * 80, "{found} of {lost}");
}

#[test]
fn what_was_repaired_for_a_short_deadline_does_not_shorten_later_ones() {
    let mut way = Way::new(0.05);
    way.other = Duration::from_millis(90);
    way.send(ONE, 5_000);
    // As long as other members have less time, a found packet has less time too. After that it has all of its time.
    way.other = DEADLINE;
    let mut room = [0; REPAIR_FRONT_BYTES + 64];
    let mut last = None;
    for _ in 0..200 {
        way.ms += 2;
        let packet = tests_packet(way.counter, Remaining::from_duration(DEADLINE));
        let sealed = Sealed {
            session: ONE,
            counter: way.counter,
            packet: &packet,
            way: WAY,
            wish: None,
        };
        way.sender.on_sealed(at(way.ms), &sealed);
        way.counter += 1;
        while let Some((_, _, left)) = way.sender.poll(at(way.ms), &mut room) {
            last = left;
        }
    }
    assert_eq!(last, Some(DEADLINE));
}

#[test]
fn the_last_packets_of_a_flow_are_repaired_too() {
    let mut way = Way::new(0.05);
    way.send(ONE, 5_000);
    assert!(!way.sender.encoder.is_due());
    let due = way.sender.next_timeout().unwrap();
    assert!(due > at(way.ms) && due <= at(way.ms + 30), "{due:?}");
    let before = way.repairs;
    way.ms += 30;
    assert!(way.sender.on_timeout(at(way.ms)));
    way.flush(ONE);
    let owed = way.repairs - before;
    assert!((1..=32).contains(&owed), "{owed}");
    assert_eq!(way.sender.next_timeout(), None);
}

#[test]
fn what_was_restored_has_not_come_until_the_same_comes() {
    let mut way = Way::new(0.05);
    way.send(ONE, 5_000);
    let kept = (way.counter - 60) as u32;
    let count = |way: &Way| way.receiver.restored(ONE, kept, 60);
    while count(&way) == 0 {
        way.send(ONE, 1);
    }
    let restored = way.receiver.restored.back().copied().unwrap();
    let (_, packet) = way
        .lost
        .iter()
        .find(|(of, _)| *of == restored)
        .unwrap()
        .clone();
    let before = way.receiver.restored.len();
    let mut other = packet.clone();
    *other.last_mut().unwrap() ^= 1;
    way.receiver.note(at(way.ms), ONE, &other);
    way.receiver.on_duplicate(restored as u32);
    assert_eq!(
        way.receiver.restored.len(),
        before,
        "another packet of its number"
    );
    way.receiver.note(at(way.ms), ONE, &packet);
    way.receiver.on_duplicate(restored as u32);
    assert_eq!(way.receiver.restored.len(), before - 1);
}

#[test]
fn another_session_has_other_numbers_and_the_one_before_does_not_come_back() {
    let mut way = Way::new(0.05);
    way.send(ONE, 3_000);
    // The counters begin anew, and reports about the previous session say nothing.
    way.ms += 5_000;
    let old = way.ask(at(way.ms), ONE, &Names::default()).unwrap();
    way.counter = 0;
    way.opened.clear();
    way.send(TWO, 1);
    way.sender.on_report(
        at(way.ms),
        &EndReport {
            loss: 60_000,
            ..old
        },
    );
    assert!(way.sender.measured().0 < 0.1);
    way.send(TWO, 1_500);
    // This is a repair packet of the old session that a hop has recovered.
    let late = Repair {
        newest: wire::data::LaneSeq::of(8_000),
        seed: 1,
        members: 1,
        ages: &[],
        sum: &[0; 64],
    };
    way.receiver.on_repair(at(way.ms), of(ONE), None, &late);
    assert!(way.receiver.is_of(TWO));
    let (found, lost) = way.measure(TWO, 3_000);
    assert!(found * 100 > lost * 95, "{found} of {lost}");
}

#[test]
fn who_gets_no_report_repairs_nothing_and_who_floods_gets_few() {
    let mut sender = EndSender::new(Aims::default());
    for n in 0..5_000 {
        let packet = tests_packet(n, Remaining::from_duration(DEADLINE));
        let sealed = Sealed {
            session: ONE,
            counter: n,
            packet: &packet,
            way: Duration::ZERO,
            wish: None,
        };
        sender.on_sealed(at(n), &sealed);
        sender.look(at(n), true);
    }
    assert_eq!((sender.made(), sender.plan().share), (0, None));
    let mut receiver = EndReceiver::default();
    let answers = (0..1_000).filter(|ms| {
        let answer = receiver.on_ask(at(*ms), of(ONE), (0, &[]), core::iter::empty());
        answer.is_some()
    });
    assert_eq!(answers.count(), 4);
}

#[test]
fn repair_packets_of_any_numbers_take_bounded_memory() {
    let (mut receiver, mut rng) = (EndReceiver::default(), Rng::new(3));
    receiver.on_ask(at(0), of(ONE), (0, &[]), core::iter::empty());
    let packet = tests_packet(1, Remaining::NONE);
    for n in 0..20_000u64 {
        let session = if rng.chance(0.001) { TWO } else { ONE };
        let sum = [rng.next_u64() as u8; 1_200];
        let repair = Repair {
            newest: wire::data::LaneSeq::of(rng.next_u64()),
            seed: n as u8,
            members: rng.next_u64() | 1,
            ages: &[],
            sum: &sum,
        };
        receiver.on_repair(at(n), of(session), None, &repair);
        let is_noted = receiver.note(at(n), session, &packet);
        receiver.on_opened(at(n), session, rng.next_u64() as u32, is_noted);
        while let Some((counter, ..)) = receiver.poll(at(n)) {
            receiver.on_restored(counter);
        }
    }
    assert!(receiver.restored.len() <= RESTORED_KEPT);
    assert!(receiver.decoder.held_bytes() < 512 << 10);
}
