//! Two ends and a way that loses: what is found, sessions that begin anew, and peers that say what they like.

use super::*;
use crate::realtime::tests_packet;
use base::Rng;
use wire::control::REPAIR_FRONT_BYTES;

const ONE: SessionIndex = SessionIndex::new(1);
const TWO: SessionIndex = SessionIndex::new(2);
const DEADLINE: Duration = Duration::from_millis(150);

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

/// Two ends, and a way of 50 ms that loses packets and rewrites what hops do.
struct Way {
    sender: EndSender,
    receiver: EndReceiver,
    rng: Rng,
    loss: f64,
    counter: u64,
    ms: u64,
    lost: Vec<(u64, Vec<u8>)>,
    found: Vec<(u64, Vec<u8>)>,
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
            lost: Vec::new(),
            found: Vec::new(),
        }
    }

    /// So many packets, 2 ms apart.
    fn send(&mut self, session: SessionIndex, packets: u64) {
        for _ in 0..packets {
            self.ms += 2;
            let (now, there) = (at(self.ms), at(self.ms + 50));
            let packet = tests_packet(self.counter, Remaining::from_duration(DEADLINE));
            let sealed = Sealed {
                session,
                counter: self.counter,
                packet: &packet,
                way: Duration::from_millis(50),
                wish: None,
                is_data: true,
            };
            self.sender.on_sealed(now, &sealed);
            self.sender.look(now, true);
            match self.rng.chance(self.loss) {
                true => self.lost.push((self.counter, packet)),
                false => self.arrive(there, session, packet),
            }
            self.counter += 1;
            if let Some(session) = self.sender.ask(now)
                && let Some(report) = self.receiver.on_ask(there, session)
            {
                self.sender.on_report(at(self.ms + 100), &report);
            }
            let mut room = [0; REPAIR_FRONT_BYTES + 64];
            while let Some((len, session, left)) = self.sender.poll(now, &mut room) {
                assert_eq!(left, Some(DEADLINE));
                let repair = Repair::parse(&room[..len]).unwrap();
                if !self.rng.chance(self.loss) {
                    let left = left.map(|left| left.saturating_sub(Duration::from_millis(50)));
                    self.receiver.on_repair(there, session, left, &repair);
                }
            }
            self.take(there);
        }
    }

    fn arrive(&mut self, now: Time, session: SessionIndex, mut packet: Vec<u8>) {
        let mut header = Header::trusted(&mut packet[..]);
        header.set_ttl(3);
        header.set_recovered();
        header.set_remaining(Remaining::from_duration(Duration::from_millis(99)));
        self.receiver.note(&packet);
        self.receiver
            .on_opened(now, session, self.counter as u32, true);
    }

    fn take(&mut self, now: Time) {
        while let Some((remaining, bytes)) = self.receiver.poll(now) {
            let left = remaining.duration().unwrap();
            let header = Header::trusted(bytes);
            assert!(left <= Duration::from_millis(100), "{left:?}");
            self.found.push((
                header.flow_seq().widen(self.counter),
                header.payload().to_vec(),
            ));
        }
    }
}

#[test]
fn what_is_lost_on_the_way_is_found_whatever_hops_have_written() {
    let mut way = Way::new(0.05);
    way.send(ONE, 5_000);
    let (lost, _) = way.sender.measured();
    assert!((0.02..0.1).contains(&lost), "{lost}");
    assert!(way.sender.plan().share.is_some());
    way.lost.clear();
    way.found.clear();
    way.send(ONE, 5_000);
    let found = way.lost.iter().filter(|(counter, packet)| {
        let is_it = |(of, payload): &&(u64, Vec<u8>)| of == counter && packet.ends_with(payload);
        way.found.iter().any(|found| is_it(&found))
    });
    let (found, lost) = (found.count(), way.lost.len());
    assert!(found * 100 > lost * 97, "{found} of {lost}");
}

#[test]
fn another_session_has_other_numbers() {
    let mut way = Way::new(0.05);
    way.send(ONE, 3_000);
    // The counters begin anew, and what was reported of the session before says nothing.
    way.ms += 5_000;
    let old = way.receiver.on_ask(at(way.ms), ONE).unwrap();
    way.counter = 0;
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
    way.lost.clear();
    way.found.clear();
    way.send(TWO, 3_000);
    assert!(way.found.len() * 100 > way.lost.len() * 95);
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
            is_data: true,
        };
        sender.on_sealed(at(n), &sealed);
        sender.look(at(n), true);
    }
    assert_eq!((sender.made(), sender.plan().share), (0, None));
    let mut receiver = EndReceiver::default();
    let answers = (0..1_000).filter(|ms| receiver.on_ask(at(*ms), ONE).is_some());
    assert_eq!(answers.count(), 2);
}

#[test]
fn repair_packets_of_any_numbers_take_bounded_memory() {
    let (mut receiver, mut rng) = (EndReceiver::default(), Rng::new(3));
    receiver.on_ask(at(0), ONE);
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
        receiver.on_repair(at(n), session, None, &repair);
        receiver.note(&packet);
        receiver.on_opened(at(n), session, rng.next_u64() as u32, true);
        while receiver.poll(at(n)).is_some() {}
    }
    assert!(receiver.decoder.held_bytes() < 512 << 10);
}
