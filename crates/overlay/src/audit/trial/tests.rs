//! Trials in small networks: what is found, what is to blame, and what happens when it is over.

use super::*;
use base::Duration;
use graph::{LinkCost, Parameters};

const OWN: NodeAddr = NodeAddr(1);
const TO: NodeAddr = NodeAddr(9);
const ENDS: (NodeAddr, NodeAddr) = (OWN, TO);
const CLEAN: Promise = Promise { loss: 0.0 };

/// Returns a topology with these links in both directions, with their latency.
fn topology(links: &[(u32, u32, u32)]) -> Topology {
    let both = links.iter().flat_map(|&(a, b, us)| {
        let cost = LinkCost::new(us, 0.0);
        [
            (NodeAddr(a), NodeAddr(b), cost),
            (NodeAddr(b), NodeAddr(a), cost),
        ]
    });
    Topology::from_links(Parameters::default(), both)
}

/// Two relays side by side, and a longer way around both.
fn diamond() -> Topology {
    topology(&[
        (1, 2, 10),
        (2, 9, 10),
        (1, 3, 20),
        (3, 9, 20),
        (1, 4, 30),
        (4, 5, 30),
        (5, 9, 30),
    ])
}

fn path(nodes: &[u32]) -> Vec<NodeAddr> {
    nodes.iter().map(|node| NodeAddr(*node)).collect()
}

/// A call to the destination. `swallows` says which share of the packets each relay drops.
struct Call<F> {
    ways: Ways,
    topology: Topology,
    now: Time,
    natural: Vec<NodeAddr>,
    swallows: F,
    rng: base::Rng,
    findings: Vec<Finding>,
    /// Number of packets of which no copy arrived.
    lost: u32,
}

impl<F: Fn(Time, NodeAddr) -> f64> Call<F> {
    fn new(topology: Topology, natural: &[u32], swallows: F) -> Call<F> {
        Call {
            ways: Ways::new(Time::ZERO),
            topology,
            now: Time::ZERO,
            natural: path(natural),
            swallows,
            rng: base::Rng::new(1),
            findings: Vec::new(),
            lost: 0,
        }
    }

    /// Lets the tables change to another path.
    fn turn(&mut self, natural: &[u32]) {
        let before = self.ways.enter(self.now, self.natural.clone());
        self.natural = path(natural);
        let new = self.ways.enter(self.now, self.natural.clone());
        let turn = (new, Some(before));
        self.ways.introduce(self.now, turn, &self.topology, ENDS);
    }

    /// Sends fifty packets a second, and decides twice a second.
    fn talk(&mut self, seconds: u64) {
        let end = self.now + Duration::from_secs(seconds);
        while self.now < end {
            self.talk_half_a_second(1);
        }
    }

    /// Does the same for half a second. One in `packets` packets belongs to the call, and the others to a best-effort
    /// stream.
    fn talk_half_a_second(&mut self, packets: u32) {
        for _ in 0..25 {
            for number in 0..packets {
                self.send(match number {
                    0 => LinkProtocol::RealTime,
                    _ => LinkProtocol::BestEffort,
                });
            }
            self.now += Duration::from_millis(20);
        }
        self.findings
            .extend(self.ways.decide(self.now, &self.topology, ENDS));
    }

    fn send(&mut self, link: LinkProtocol) {
        let natural = self.ways.enter(self.now, self.natural.clone());
        self.ways.want(self.now, natural);
        let by = match self.ways.course(self.now, Some(natural), 1, |_| true) {
            Course::Table => vec![natural],
            Course::One(way) => vec![way],
            Course::Two(a, b) => vec![a, b],
        };
        let mut arrives = false;
        for way in by {
            arrives |= self.carry(way, link);
        }
        self.lost += u32::from(!arrives && link == LinkProtocol::RealTime);
    }

    fn carry(&mut self, way: WayId, link: LinkProtocol) -> bool {
        let nodes = self.ways.nodes(way).to_vec();
        let relays = &nodes[1..nodes.len() - 1];
        let share = relays.iter().map(|node| (self.swallows)(self.now, *node));
        let arrives = share.fold(1.0, |arrives, share| arrives * (1.0 - share));
        let arrives = self.rng.chance(arrives);
        let judged = Judged {
            way,
            link,
            at: self.now,
            sent: 1,
            lost: u32::from(!arrives),
        };
        // The links lose some packets, and repair the losses of calls.
        let promise = Promise {
            loss: match link {
                LinkProtocol::BestEffort => 0.04,
                _ => 0.0,
            },
        };
        self.ways.judge(&judged, &mut |_, _| Some(promise));
        arrives
    }

    fn suspects(&self) -> Vec<Suspect> {
        self.ways.suspicions().map(|s| s.suspect).collect()
    }
}

#[test]
fn a_hole_is_gone_around_and_named() {
    for (share, seconds) in [(1.0, 8), (0.5, 12), (0.05, 60)] {
        let is_two = |node| f64::from(u8::from(node == NodeAddr(2)));
        let mut call = Call::new(diamond(), &[1, 2, 9], |_, node| share * is_two(node));
        call.talk(seconds);
        assert_eq!(call.suspects(), [Suspect::Node(NodeAddr(2))], "{share}");
        assert!(matches!(call.findings[0], Finding::Bad { .. }));
        call.lost = 0;
        call.talk(50);
        assert_eq!(call.lost, 0, "{share}");
    }
}

#[test]
fn of_two_holes_the_third_way_is_found() {
    let mut call = Call::new(diamond(), &[1, 2, 9], |_, node| {
        f64::from(u8::from(node.0 == 2 || node.0 == 3))
    });
    call.talk(10);
    let way = match call.ways.plan {
        Plan::Settled(way) => call.ways.nodes(way).to_vec(),
        ref other => panic!("{other:?}"),
    };
    assert_eq!(way, path(&[1, 4, 5, 9]));
    let both = [Suspect::Node(NodeAddr(2)), Suspect::Node(NodeAddr(3))];
    assert_eq!(call.suspects(), both);
}

#[test]
fn where_relays_are_shared_the_bad_one_is_told_from_the_good_ones() {
    // 2 and 3 both lead to 6, and 6 alone to the destination.
    let topology = topology(&[(1, 2, 10), (1, 3, 20), (2, 6, 10), (3, 6, 20), (6, 9, 10)]);
    let mut call = Call::new(topology, &[1, 2, 6, 9], |_, node| {
        f64::from(u8::from(node == NodeAddr(2)))
    });
    call.talk(10);
    assert_eq!(call.suspects(), [Suspect::Node(NodeAddr(2))]);
}

#[test]
fn where_all_ways_are_alike_packets_go_by_table() {
    let mut call = Call::new(diamond(), &[1, 2, 9], |_, _| 0.3);
    call.talk(30);
    assert_eq!(call.suspects(), []);
    assert!(call.ways.is_plain());
    let mut alone = Call::new(topology(&[(1, 2, 10), (2, 9, 10)]), &[1, 2, 9], |_, _| 1.0);
    alone.talk(30);
    assert!(alone.ways.is_plain() && alone.suspects().is_empty());
    let bad = |finding: &&Finding| matches!(finding, Finding::Bad { .. });
    assert_eq!(
        alone.findings.iter().filter(bad).count(),
        1,
        "not again for a minute"
    );
}

#[test]
fn a_way_that_is_clearly_better_will_do_though_it_is_not_good() {
    // The other relays lose more than is tolerated, but so little more that this cannot be found out soon.
    let mut call = Call::new(diamond(), &[1, 2, 9], |_, node| match node {
        NodeAddr(2) => 0.08,
        _ => 0.015,
    });
    call.talk(120);
    assert!(call.suspects().contains(&Suspect::Node(NodeAddr(2))));
}

#[test]
fn an_outage_of_some_seconds_is_over_without_a_suspect() {
    for ms in [200, 1_000, 2_000, 4_000] {
        let out =
            Time::ZERO + Duration::from_secs(3)..Time::ZERO + Duration::from_millis(3_000 + ms);
        let mut call = Call::new(diamond(), &[1, 2, 9], |now, node| {
            f64::from(u8::from(node == NodeAddr(2) && out.contains(&now)))
        });
        call.talk(40);
        assert_eq!(call.suspects(), [], "{ms}");
        assert!(call.ways.is_plain());
        assert!(call.lost <= 50, "{ms}: {}", call.lost);
    }
}

#[test]
fn a_suspect_gets_another_chance_ever_more_seldom_and_costs_nothing_while_it_is_bad() {
    let hour = Duration::from_secs(3_600);
    let mut call = Call::new(diamond(), &[1, 2, 9], |now, node| {
        f64::from(u8::from(node == NodeAddr(2) && now < Time::ZERO + hour))
    });
    call.talk(10);
    call.lost = 0;
    call.talk(3_590);
    assert_eq!(call.lost, 0);
    let strikes: Vec<u32> = call.ways.suspicions().map(|s| s.strikes).collect();
    // The suspect is found at once, and tried again after 1, 3, 7, 15 and 31 minutes.
    assert_eq!(strikes, [6]);
    call.talk(3_600);
    assert_eq!(call.suspects(), []);
    assert!(call.ways.is_plain());
    let cleared = Finding::Cleared {
        suspects: vec![Suspect::Node(NodeAddr(2))],
    };
    assert!(call.findings.contains(&cleared));
}

#[test]
fn what_was_settled_on_is_left_when_it_loses_a_link() {
    let mut call = Call::new(diamond(), &[1, 2, 9], |_, node| {
        f64::from(u8::from(node == NodeAddr(2)))
    });
    call.talk(10);
    call.topology.set_link(NodeAddr(3), TO, None);
    call.talk(1);
    call.lost = 0;
    call.talk(5);
    assert_eq!(call.lost, 0, "by the third way");
    call.topology.set_link(NodeAddr(5), TO, None);
    call.talk(1);
    assert!(call.ways.is_plain(), "nothing but the suspect is left");
    call.topology
        .set_link(NodeAddr(3), TO, Some(LinkCost::new(20, 0.0)));
    call.talk(1);
    call.lost = 0;
    call.talk(5);
    assert_eq!(call.lost, 0);
}

#[test]
fn a_trial_follows_the_tables_to_another_bad_way() {
    let mut call = Call::new(diamond(), &[1, 2, 9], |_, node| {
        f64::from(u8::from(node.0 == 2 || node.0 == 4))
    });
    call.talk(1);
    assert!(call.ways.is_in_trial());
    call.natural = path(&[1, 4, 5, 9]);
    call.talk(15);
    let suspects = call.suspects();
    assert!(
        suspects.contains(&Suspect::Node(NodeAddr(4))),
        "{suspects:?}"
    );
    call.lost = 0;
    call.talk(30);
    assert_eq!(call.lost, 0);
}

/// The tables change to another way and back, and then the first way drops packets. This is found as soon as at other
/// times.
#[test]
fn what_becomes_bad_while_another_way_is_introduced_is_found() {
    let began = Time::ZERO + Duration::from_secs(5);
    let mut call = Call::new(diamond(), &[1, 2, 9], |now, node| {
        f64::from(u8::from(node == NodeAddr(2) && now >= began))
    });
    call.talk(5);
    call.turn(&[1, 3, 9]);
    call.natural = path(&[1, 2, 9]);
    assert!(call.ways.is_in_trial());
    call.talk(10);
    assert!(call.lost <= 50, "{}", call.lost);
    assert_eq!(call.suspects(), [Suspect::Node(NodeAddr(2))]);
}

/// While two ways are compared, the tables change to a third one over the relay that drops packets.
#[test]
fn packets_that_leave_a_bad_way_for_another_with_its_relay_are_not_lost() {
    let topology = topology(&[
        (1, 2, 10),
        (2, 6, 10),
        (1, 3, 10),
        (3, 6, 10),
        (6, 9, 10),
        (1, 4, 30),
        (4, 9, 30),
    ]);
    let began = Time::ZERO + Duration::from_secs(6);
    let mut call = Call::new(topology, &[1, 3, 6, 9], |now, node| {
        f64::from(u8::from(node == NodeAddr(6) && now >= began))
    });
    // Both ways have carried packets a moment ago.
    call.talk(5);
    call.turn(&[1, 2, 6, 9]);
    call.talk(3);
    assert!(call.ways.is_in_trial());
    call.lost = 0;
    call.turn(&[1, 3, 6, 9]);
    call.talk(20);
    assert_eq!(call.lost, 0);
    assert!(call.suspects().contains(&Suspect::Node(NodeAddr(6))));
}

/// The same, but the third way has a relay about which nothing is known.
#[test]
fn packets_that_leave_a_bad_way_for_another_hole_are_not_lost() {
    let mut call = Call::new(diamond(), &[1, 2, 9], |_, node| {
        f64::from(u8::from(node.0 == 2 || node.0 == 4))
    });
    call.talk(1);
    assert!(call.ways.is_in_trial());
    call.lost = 0;
    call.turn(&[1, 4, 5, 9]);
    call.talk(20);
    assert_eq!(call.lost, 0);
}

/// If a third way has carried packets since the trial began, the trial does not touch its packets, whatever relays it
/// has.
#[test]
fn a_way_that_is_known_to_carry_takes_no_copies_from_a_trial() {
    let mut call = Call::new(diamond(), &[1, 2, 9], |_, node| {
        f64::from(u8::from(node == NodeAddr(2)))
    });
    let good = call.ways.enter(call.now, path(&[1, 4, 5, 9]));
    let mut courses = Vec::new();
    for _ in 0..8 {
        call.talk_half_a_second(1);
        call.carry(good, LinkProtocol::RealTime);
        let in_trial = call.ways.is_in_trial();
        let course = call.ways.course(call.now, Some(good), 1, |_| true);
        courses.extend(in_trial.then_some(course));
        for _ in 0..30 {
            call.carry(good, LinkProtocol::RealTime);
        }
    }
    assert!(courses.len() > 3, "{courses:?}");
    assert_eq!(courses.last(), Some(&Course::Table), "{courses:?}");
}

#[test]
fn relays_are_blamed_before_links_and_what_a_good_path_has_is_not() {
    let of = |bad: &[u32], good: &[&[u32]]| -> Vec<Suspect> {
        let good: Vec<Vec<NodeAddr>> = good.iter().map(|nodes| path(nodes)).collect();
        let good = good.iter().map(|nodes| &nodes[..]);
        blamed(&path(bad), good).collect()
    };
    let node = |n| Suspect::Node(NodeAddr(n));
    let link = |a, b| Suspect::Link(NodeAddr(a), NodeAddr(b));
    assert_eq!(of(&[1, 2, 6, 9], &[&[1, 3, 6, 9]]), [node(2)]);
    assert_eq!(of(&[1, 2, 6, 9], &[&[1, 9]]), [node(2), node(6)]);
    assert_eq!(of(&[1, 2, 6, 9], &[&[1, 2, 9], &[1, 6, 9]]), [link(2, 6)]);
    let around = [link(1, 2), link(2, 6)];
    assert_eq!(of(&[1, 2, 6, 9], &[&[1, 6, 2, 9], &[1, 6, 9]]), around);
    assert_eq!(of(&[1, 9], &[&[1, 2, 9]]), [link(1, 9)]);
    assert_eq!(of(&[], &[&[1, 9]]), []);
}

#[test]
fn a_trial_that_no_packet_takes_part_in_ends_and_the_next_one_may_begin_at_once() {
    let mut call = Call::new(diamond(), &[1, 2, 9], |now, node| {
        let late = now >= Time::ZERO + Duration::from_secs(20);
        f64::from(u8::from(node.0 == 2 || node.0 == 4 && late))
    });
    call.talk(1);
    assert!(call.ways.is_in_trial());
    call.natural = path(&[1, 4, 5, 9]);
    call.talk(10);
    assert!(call.ways.is_plain() && call.suspects().is_empty());
    call.talk(20);
    assert!(call.suspects().contains(&Suspect::Node(NodeAddr(4))));
}

#[test]
fn more_than_the_copies_allow_goes_by_the_better_way() {
    let mut ways = Ways::new(Time::ZERO);
    let topology = diamond();
    let natural = ways.enter(Time::ZERO, path(&[1, 2, 9]));
    ways.want(Time::ZERO, natural);
    let judge = |ways: &mut Ways, way, lost| {
        for i in 0..40u64 {
            let at = Time::ZERO + Duration::from_millis(50) * i;
            let judged = Judged {
                way,
                link: LinkProtocol::RealTime,
                at,
                sent: 10,
                lost,
            };
            ways.judge(&judged, &mut |_, _| Some(CLEAN));
        }
    };
    judge(&mut ways, natural, 10);
    ways.decide(Time::ZERO, &topology, ENDS);
    let Plan::Trial(Trial { candidate, .. }) = ways.plan else {
        panic!("a trial");
    };
    judge(&mut ways, candidate, 0);
    for _ in 0..100 {
        let full = ways.course(Time::ZERO, Some(natural), 1, |hops| {
            assert_eq!(hops, [NodeAddr(2), NodeAddr(3)]);
            false
        });
        assert_eq!(full, Course::One(candidate), "a link has no room for both");
    }
    let mut two = 0;
    for _ in 0..1_000 {
        match ways.course(Time::ZERO, Some(natural), 1, |_| true) {
            Course::Two(a, b) => {
                assert_eq!((a, b), (natural, candidate));
                two += 1;
            }
            other => assert_eq!(other, Course::One(candidate)),
        }
    }
    assert_eq!(two, COPIES_BURST as u32);
}

#[test]
fn a_hole_that_the_tables_turn_to_loses_nothing() {
    let mut call = Call::new(diamond(), &[1, 3, 9], |_, node| {
        f64::from(u8::from(node.0 == 2))
    });
    call.talk(5);
    call.turn(&[1, 2, 9]);
    call.talk(8);
    assert_eq!(call.suspects(), [Suspect::Node(NodeAddr(2))]);
    call.talk(40);
    assert_eq!(call.lost, 0);
}

#[test]
fn a_way_that_delivers_is_introduced_by_some_tens_of_copies_and_not_again_soon() {
    let mut call = Call::new(diamond(), &[1, 3, 9], |_, _| 0.0);
    call.talk(5);
    call.turn(&[1, 2, 9]);
    assert!(call.ways.is_in_trial());
    call.talk(2);
    assert!(call.ways.is_plain());
    call.turn(&[1, 3, 9]);
    call.talk_half_a_second(1);
    call.turn(&[1, 2, 9]);
    assert!(call.ways.is_plain(), "it was in use just now");
    call.topology.set_link(NodeAddr(2), TO, None);
    call.turn(&[1, 4, 5, 9]);
    assert!(call.ways.is_plain(), "the way before has failed");
    assert!(call.findings.is_empty());
}

#[test]
fn a_way_after_one_without_relays_is_introduced_beside_it() {
    let mut links = vec![(1, 9, 50)];
    links.extend([(1, 2, 10), (2, 9, 10)]);
    let mut call = Call::new(topology(&links), &[1, 2, 9], |_, _| 1.0);
    let new = call.ways.enter(call.now, path(&[1, 2, 9]));
    call.ways
        .introduce(call.now, (new, None), &call.topology, ENDS);
    call.talk(20);
    assert_eq!(call.lost, 0);
    assert_eq!(call.suspects(), [Suspect::Node(NodeAddr(2))]);
}

/// The hole also drops 5 % of a best-effort stream, whose links may lose as much.
#[test]
fn a_best_effort_stream_does_not_hide_what_a_call_loses() {
    let mut call = Call::new(diamond(), &[1, 2, 9], |_, node| {
        0.05 * f64::from(u8::from(node.0 == 2))
    });
    for _ in 0..120 {
        call.talk_half_a_second(3);
    }
    assert_eq!(call.suspects(), [Suspect::Node(NodeAddr(2))]);
}

#[test]
fn a_link_that_a_member_tells_of_every_other_moment_ends_no_trial() {
    let mut call = Call::new(diamond(), &[1, 2, 9], |_, node| {
        f64::from(u8::from(node.0 == 2))
    });
    let cost = LinkCost::new(10, 0.0);
    for half in 0..30 {
        let is_told = half % 2 == 0;
        let told = is_told.then_some(cost);
        call.topology.set_link(NodeAddr(2), TO, told);
        call.natural = path(if is_told { &[1, 2, 9] } else { &[1, 3, 9] });
        call.talk_half_a_second(1);
        if half == 5 {
            call.lost = 0;
        }
    }
    assert_eq!(call.lost, 0);
    assert_eq!(call.suspects(), [Suspect::Node(NodeAddr(2))]);
}

/// Other nodes do not know the suspect: their tables may lead a packet to it that was sent around it.
#[test]
fn while_something_is_suspect_every_hop_is_told() {
    let mut call = Call::new(diamond(), &[1, 2, 9], |_, node| {
        f64::from(u8::from(node.0 == 2))
    });
    call.talk(10);
    for natural in [&[1, 3, 9][..], &[1, 4, 5, 9]] {
        let way = call.ways.enter(call.now, path(natural));
        let course = call.ways.course(call.now, Some(way), 1, |_| true);
        assert_eq!(course, Course::One(way));
    }
}
