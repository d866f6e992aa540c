//! Bad input at the engine: noise and forgeries from outside, false reports and nonsense from inside. A call continues
//! meanwhile and must not be affected; nothing may be left behind.
#![allow(
    clippy::disallowed_macros,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test that shows what it measured"
)]

use crate::world::neighbour::{control, packet, records};
use crate::world::party::Ask;
use crate::world::script::{EAST, Script, WEST, header};
use crate::world::siege::{INTRUDER, Siege, TARGET};
use crate::world::{addr, number, voice};
use base::{ClientId, Duration, NodeAddr, Rng, Time, VirtualPort};
use overlay::Settings;
use overlay::event::Drop;
use overlay::request::Options;
use secure::Refusal;
use wire::control::{Echo, FlowAim, Hello, LaneReport, Message, Messages, TailProbe, kind};
use wire::data::{LaneSeq, Remaining, Repr};
use wire::link::Kind;
use wire::record::{Key, RecordKind, RecordSeq};
use wire::{Aim, Loss, Malformed};

fn noise(rng: &mut Rng, most: u64) -> Vec<u8> {
    let mut bytes = vec![0; rng.below(most) as usize];
    rng.fill(&mut bytes);
    bytes
}

#[test]
fn noise_from_outside_is_counted_and_dropped() {
    let mut siege = Siege::from_outside(1);
    let target = siege.target();
    siege.waves(300, |rng, _| {
        let datagrams = (0..20)
            .map(|n| {
                let mut bytes = noise(rng, 1_500);
                if let (true, Some(first)) = (n % 2 == 0, bytes.first_mut()) {
                    // The byte is that of an existing kind.
                    *first = Kind::ALL[rng.below(Kind::ALL.len() as u64) as usize].byte();
                }
                bytes
            })
            .collect();
        vec![Ask::Throw(target, datagrams)]
    });
    let mut nodes = siege.end();
    let totals = nodes.count();
    assert!(totals.drops(Drop::Malformed) > 2_000);
    assert!(totals.drops(Drop::UnknownSession) > 300);
    assert!(totals.refusals(Refusal::Malformed(Malformed::Short)) > 500);
    assert_eq!(totals.moves, 0);
}

#[test]
fn what_others_have_sealed_is_of_no_use_to_those_who_repeat_cut_or_change_it() {
    let mut siege = Siege::from_outside(2);
    siege.run(Duration::from_secs(1));
    let target = siege.target();
    let captured: Vec<Vec<u8>> = siege
        .nodes
        .tap
        .borrow()
        .iter()
        .map(|(_, d)| d.clone())
        .collect();
    assert!(captured.len() > 150);
    siege.waves(200, |rng, n| {
        let original = &captured[n % captured.len()];
        let mut changed = original.clone();
        let place = rng.below(changed.len() as u64) as usize;
        changed[place] ^= 1 << rng.below(8);
        let cut = original[..rng.below(original.len() as u64) as usize].to_vec();
        let mut ahead = original.clone();
        ahead[5] ^= 0x10;
        vec![Ask::Throw(
            target,
            vec![original.clone(), changed, cut, ahead],
        )]
    });
    let mut nodes = siege.end();
    let totals = nodes.count();
    assert!(totals.drops(Drop::Replay) >= 300, "{:?}", totals.dropped);
    assert!(totals.drops(Drop::BadTag) >= 150, "{:?}", totals.dropped);
    assert_eq!(totals.moves, 0, "no link follows the attacker");
}

#[test]
fn a_flood_of_handshakes_costs_nobody_a_packet() {
    let mut siege = Siege::from_inside(3);
    let target = siege.target();
    // Members know what a good Init looks like; they vary the parts of it that are not proved.
    let mut member = crate::world::script::neighbour(&mut siege.nodes, 8);
    let dials: Vec<Vec<u8>> = (0..500).map(|_| member.dial(Time::ZERO, target)).collect();
    siege.waves(1_000, |rng, n| {
        let datagrams = (0..100)
            .map(|k| {
                let mut init = dials[(n * 7 + k) % dials.len()].clone();
                if k % 4 == 0 {
                    let place = 8 + rng.below(48) as usize;
                    init[place] ^= 1;
                }
                init
            })
            .collect();
        vec![Ask::Throw(target, datagrams)]
    });
    let answered = siege.nodes.party(TARGET).sent(
        siege.nodes.world.addr(siege.attacker),
        Kind::HandshakeResponse,
    );
    let cookies = siege
        .nodes
        .party(TARGET)
        .sent(siege.nodes.world.addr(siege.attacker), Kind::Cookie);
    // The number of answers without a cookie in that time, each a few times: 64 + 20 · 10, nine times.
    assert!(answered.datagrams < 2_500, "{answered:?}");
    let sent = answered.bytes + cookies.bytes;
    assert!(sent < 100_000 * 1_100, "no amplification: {sent} bytes");
    let mut nodes = siege.end();
    assert!(nodes.count().refusals(Refusal::Mac) > 20_000);
    assert_eq!(nodes.snapshot(TARGET).links.len(), 3, "nobody came of it");
}

#[test]
fn members_who_dial_again_and_again_keep_to_their_link() {
    let mut siege = Siege::from_inside(4);
    let target = siege.target();
    siege.waves(500, |_, _| vec![Ask::Dial(target)]);
    assert!(siege.rogue().has_session(target));
    siege.end();
}

/// Returns control datagrams that a member might send, none of them honest.
fn absurd_control(rng: &mut Rng, siege_addr: NodeAddr) -> Vec<u8> {
    let hello = Hello {
        i_hear_you: rng.chance(0.5),
        answer_now: rng.chance(0.9),
        closing: rng.chance(0.2),
        active: rng.chance(0.5),
        takes_repair: rng.chance(0.5),
        knows_paths: rng.chance(0.5),
        doubts: rng.chance(0.5),
        lets_wait: rng.chance(0.5),
        interval_ms: [0, 1, u16::MAX][rng.below(3) as usize],
        stamp_us: rng.next_u64() as u32,
        echo: rng.chance(0.5).then(|| Echo {
            stamp_us: rng.next_u64() as u32,
            hold_us: rng.next_u64() as u32,
        }),
        loss_in: Loss(rng.next_u64() as u16),
        boot: rng.below(3) as u32,
        arrived: 0,
        lost: 0,
    };
    let seqs: Vec<u64> = (0..150).map(|n| n * rng.below(40)).collect();
    let key = |rng: &mut Rng| Key {
        kind: RecordKind(rng.next_u64() as u8),
        origin: [siege_addr, addr(0), addr(2), NodeAddr(u32::MAX)][rng.below(4) as usize],
        seq: RecordSeq([0, 1, u32::MAX][rng.below(3) as usize]),
    };
    match rng.below(10) {
        0 => control(|b| b.hello(&hello).unwrap()),
        1 => control(|b| {
            let strike = rng.next_u64() as u8;
            b.nack(strike, &seqs).unwrap();
        }),
        2 => {
            let all = [0xff; 7 * 150].map(|b: u8| b & rng.next_u64() as u8);
            control(|b| {
                b.message(kind::NACK, &[&[0x81], &all[..]].concat())
                    .unwrap()
            })
        }
        3 => control(|b| {
            let next = LaneSeq::new(rng.next_u64() as u32);
            b.tail_probe(TailProbe { next, count: 255 }).unwrap();
        }),
        4 => control(|b| (0..100).for_each(|_| b.record_ack(key(rng)).unwrap())),
        5 => noise(rng, 1_400),
        6 => {
            // Any message, with a body of any kind.
            let body = noise(rng, 300);
            control(|b| {
                b.message(rng.below(20) as u8 | (rng.below(2) as u8) << 7, &body)
                    .unwrap()
            })
        }
        7 => control(|b| {
            let any = |rng: &mut Rng| [0, 1, 1 << 30, u32::MAX][rng.below(4) as usize];
            let report = LaneReport {
                received: any(rng),
                lost: any(rng),
                run_256ths: rng.next_u64() as u16,
            };
            b.lane_report(report).unwrap();
        }),
        8 => {
            // A repair packet of any window, with and without members, whose sum is noise.
            let mut body = noise(rng, 600);
            if let Some(window) = body.get_mut(3) {
                *window &= 0xbf;
            }
            control(|b| b.message(kind::REPAIR, &body).unwrap())
        }
        _ => {
            let mut all = control(|b| {
                b.hello(&hello).unwrap();
                b.nack(1, &[1, 2, 3]).unwrap();
                b.record_ack(key(rng)).unwrap();
            });
            all.truncate(rng.below(all.len() as u64) as usize);
            all
        }
    }
}

#[test]
fn absurd_control_messages_of_a_member_change_nothing_for_others() {
    for seed in 5..8 {
        let mut siege = Siege::from_inside(seed);
        let target = siege.target();
        siege.waves(300, |rng, _| {
            (0..10)
                .map(|_| Ask::Say(target, Kind::Control, absurd_control(rng, addr(INTRUDER))))
                .collect()
        });
        let mut nodes = siege.end();
        assert!(nodes.count().drops(Drop::Malformed) > 100);
        assert_eq!(
            nodes
                .snapshot(0)
                .routes
                .iter()
                .filter(|r| number(&r.to) == 2)
                .count(),
            4
        );
    }
}

/// A neighbour that reports much loss, or long runs, requests everything repeatedly, and reports losses without end,
/// gets no more than the limits; one that reports that all is lost gets no repair.
#[test]
fn a_neighbour_that_lies_about_its_losses_gets_no_more_than_the_caps() {
    for (claimed, run, has_repair) in [(0.3, 1.4, true), (0.3, 255.0, true), (1.0, 1.4, false)] {
        let mut script = Script::new();
        script.ask(WEST, Ask::Claim(Loss::from_share(claimed)));
        script.run_ms(1_000);
        for n in 0..5_000u32 {
            let sent = Repr {
                remaining: Remaining::from(Duration::from_millis(50)),
                ..header(addr(EAST), addr(WEST), n)
            };
            script.say(EAST, &sent, &[7; 160]);
            let newest = u64::from(n);
            let seqs: Vec<u64> = (newest.saturating_sub(100)..newest).collect();
            let report = LaneReport {
                received: n,
                lost: n.wrapping_mul(1_000),
                run_256ths: (run * 256.0) as u16,
            };
            let lies = control(|b| {
                b.nack(0x81, &seqs).unwrap();
                b.lane_report(report).unwrap();
            });
            script.say_control(WEST, &lies);
            script.run_ms(2);
        }
        let link = script.nodes.link_status(0, WEST);
        let (counts, lane) = (link.counts, link.realtime);
        println!("{claimed} {run}: {counts:?} {lane:?}");
        assert!(lane.originals > 4_900, "{lane:?}");
        assert_eq!(counts.repair_out > 0, has_repair, "{:?}", lane.protection);
        // A repair packet per packet of the single flow, 24 bytes longer than it.
        assert!(counts.repair_out <= lane.originals);
        assert!(counts.repair_out_bytes * 100 <= counts.realtime_out_bytes * 115);
        // At most this share of the originals is sent again, plus what the bucket holds.
        let limits = Settings::modern().realtime;
        let budget = lane.originals as f64 * limits.retransmit_ratio + limits.retransmit_burst;
        assert!(lane.retransmissions as f64 <= budget + 1.0, "{lane:?}");
        assert!(lane.throttled > 1_000, "{lane:?}");
    }
}

/// Returns a data packet that no honest node would send.
fn absurd_packet(rng: &mut Rng) -> Vec<u8> {
    let any = |rng: &mut Rng| {
        let odd = [0, u32::MAX, 0xe000_0001, 0xf000_0001, 0x7f00_0001];
        match rng.below(3) {
            0 => NodeAddr(odd[rng.below(5) as usize]),
            1 => addr(rng.below(9) as usize),
            _ => NodeAddr(rng.next_u64() as u32),
        }
    };
    let sent = Repr {
        ttl: rng.below(64) as u8,
        has_extension: rng.chance(0.2),
        congested: false,
        recovered: false,
        has_transport: rng.chance(0.1),
        remaining: [
            Remaining::NONE,
            Remaining::MAX,
            Remaining::ZERO,
            Remaining(300),
        ][rng.below(4) as usize],
        lane_seq: LaneSeq::new(rng.next_u64() as u32),
        ..header(any(rng), any(rng), rng.next_u64() as u32)
    };
    let body = noise(rng, 200);
    let mut bytes = packet(&sent, &body);
    if rng.chance(0.3) {
        bytes[0] = rng.next_u64() as u8;
    }
    if rng.chance(0.1) {
        bytes.truncate(rng.below(bytes.len() as u64) as usize);
    }
    bytes
}

#[test]
fn absurd_packets_of_a_member_change_nothing_for_others() {
    for seed in 8..11 {
        let mut siege = Siege::from_inside(seed);
        let target = siege.target();
        siege.waves(300, |rng, _| {
            (0..20)
                .map(|_| Ask::Say(target, Kind::Data, absurd_packet(rng)))
                .collect()
        });
        let mut nodes = siege.end();
        let totals = nodes.count();
        for reason in [
            Drop::Malformed,
            Drop::BadSource,
            Drop::NoRoute,
            Drop::Expired,
        ] {
            assert!(
                totals.drops(reason) > 50,
                "{reason:?}: {:?}",
                totals.dropped
            );
        }
    }
}

#[test]
fn nobody_speaks_for_another() {
    let mut siege = Siege::from_inside(11);
    let before = siege.nodes.snapshot(0).routes;
    let rogue = siege.rogue();
    let seq = u32::MAX;
    let forged: Vec<Vec<u8>> = [0, 1, 2]
        .into_iter()
        .flat_map(|i| {
            let links = [(addr(INTRUDER), 1)];
            let serial = siege.nodes.certificate(i).fields().serial;
            [
                rogue.link_state(addr(i), seq, &links),
                rogue.forged(addr(i), serial, seq, &links),
            ]
        })
        .collect();
    let own = rogue.identity.certificate().as_bytes().to_vec();
    let mut changed = own.clone();
    *changed.last_mut().unwrap() ^= 1;
    let mut revocations = siege.nodes.authority.clone();
    let victim = siege.nodes.certificate(0);
    let mut list = revocations
        .revoke(&victim, crate::world::UNIX_S)
        .unwrap()
        .as_bytes()
        .to_vec();
    *list.last_mut().unwrap() ^= 1;
    // An own record that claims links to all nodes, at no cost: none of these nodes confirms it.
    let links: Vec<(NodeAddr, u32)> = (0..90).map(|i| (addr(i), 0)).collect();
    let mut said = vec![
        rogue.record(seq - 1, &links),
        records(&[(RecordKind::CERTIFICATE, &changed)]),
        records(&[(RecordKind::REVOCATIONS, &list)]),
        records(&[
            (RecordKind(9), b"what is this"),
            (RecordKind(0x89), b"critical"),
        ]),
    ];
    said.extend(
        forged
            .iter()
            .map(|body| records(&[(RecordKind::LINK_STATE, body)])),
    );
    siege.say(Kind::Control, said);
    siege.run(Duration::from_secs(3));
    let of = |routes: &[overlay::snapshot::RouteStatus]| -> Vec<(String, &str, String)> {
        let kept = routes.iter().filter(|r| number(&r.to) < 3);
        kept.map(|r| (r.to.clone(), r.metric, r.next_hop.clone()))
            .collect()
    };
    for i in 0..3 {
        let database = siege.nodes.running(i).unwrap().database();
        for origin in (0..3).map(addr) {
            let links = database.links_of(origin).unwrap();
            assert!(
                links
                    .iter()
                    .all(|link| origin == addr(TARGET) || link.neighbor != addr(INTRUDER))
            );
        }
        assert_eq!(
            siege
                .nodes
                .running(i)
                .unwrap()
                .network()
                .revocations_version(),
            0
        );
    }
    assert_eq!(of(&before), of(&siege.nodes.snapshot(0).routes));
    let refused = siege.nodes.count().records_refused;
    assert!(refused >= 5, "{refused}");
    siege.end();
}

#[test]
fn forged_records_without_end_are_not_even_looked_at() {
    let mut siege = Siege::from_inside(13);
    let target = siege.target();
    let serial = siege.nodes.certificate(0).fields().serial;
    // The record of node 0 is flooded as it changes, and its number does not distinguish it from these.
    let said: Vec<Vec<u8>> = (0..4_000)
        .map(|n| {
            let body =
                siege
                    .rogue()
                    .forged(addr(0), serial, 2_000_000_000 + n, &[(addr(INTRUDER), 1)]);
            records(&[(RecordKind::LINK_STATE, &body)])
        })
        .collect();
    siege.waves(200, |_, n| {
        said[(n * 20) % 4_000..][..20]
            .iter()
            .map(|record| Ask::Say(target, Kind::Control, record.clone()))
            .collect()
    });
    let totals = siege.nodes.count();
    let (looked_at, dropped) = (
        totals.records_refused,
        totals.dropped[&Drop::TooManyRecords],
    );
    // 200 at once, and 100 per second.
    assert!((200..1_500).contains(&looked_at), "{looked_at}");
    assert_eq!(looked_at + dropped, 4_000);
    siege.end();
}

#[test]
fn a_member_that_renews_its_record_without_end_does_not_stop_the_calls() {
    let mut siege = Siege::from_inside(12);
    let target = siege.target();
    let said: Vec<Vec<u8>> = (1..2_000)
        .map(|seq| siege.rogue().record(seq, &[(addr(TARGET), seq)]))
        .collect();
    siege.waves(200, |_, n| {
        said[(n * 9).min(said.len() - 9)..][..9]
            .iter()
            .map(|record| Ask::Say(target, Kind::Control, record.clone()))
            .collect()
    });
    let nodes = siege.end();
    // The neighbour has accepted 200 at once and 40 per second, and no other node has received more.
    let intruder = addr(INTRUDER).to_string();
    let snapshot = nodes.snapshot(TARGET);
    let [flooder] = snapshot.flooders.as_slice() else {
        panic!("{:?}", snapshot.flooders);
    };
    assert_eq!(flooder.node, intruder);
    assert!(
        (1_300..1_600).contains(&flooder.dropped),
        "{}",
        flooder.dropped
    );
    assert!(nodes.snapshot(0).flooders.is_empty());
}

/// A neighbour claims that calls of others want no repair: one call that passes, and one that begins at the node.
#[test]
fn nobody_speaks_for_the_flows_of_others() {
    let bare = Aim::new(None, Some(0.0)).unwrap();
    let strict = Aim::new(Some(0.000_1), None).unwrap();
    let mut script = Script::new();
    let say = |script: &mut Script, who: usize, from: usize, to: usize, aim: Aim| {
        let aim = FlowAim {
            source: (addr(from), VirtualPort(700)),
            destination: (addr(to), VirtualPort(5_000)),
            aim,
        };
        let message = control(|b| b.flow_aim(aim).unwrap());
        script.say_control(who, &message);
        script.run_ms(50);
    };
    say(&mut script, EAST, EAST, WEST, strict);
    // Invented flows do not find room for all, and take none from others.
    for n in 0..300 {
        say(&mut script, WEST, 100 + n, EAST, bare);
    }
    say(&mut script, EAST, EAST, WEST, strict);
    say(&mut script, WEST, EAST, WEST, bare);
    for to in [WEST, EAST] {
        say(&mut script, EAST, 0, to, bare);
    }
    let options = Options {
        deadline: Some(Duration::from_millis(100)),
        ..voice()
    };
    let (port, client) = (VirtualPort(700), ClientId(70));
    script.nodes.bind_to(0, client, port, options);
    for n in 0..50 {
        script.say(EAST, &header(addr(EAST), addr(WEST), n), &[7; 160]);
        let now = script.nodes.world.now();
        let to = (addr(WEST), VirtualPort(5_000));
        script.nodes.send_to_addr(now, 0, client, to, n.into(), 160);
        script.run_ms(20);
    }
    let mut told = Vec::new();
    for heard in &script.rogue(WEST).heard {
        for message in Messages::new(&heard.plaintext).flatten() {
            if let (Kind::Control, Message::FlowAims(aims)) = (heard.kind, message) {
                told.extend(aims.iter().map(|aim| (aim.source.0, aim.aim)));
            }
        }
    }
    assert!(told.len() >= 3, "{told:?}");
    assert!(
        told.iter().all(|told| *told == (addr(EAST), strict)),
        "{told:?}"
    );
}
