//! The behavior of one node for one packet: scripts between two neighbours that are driven by hand.
#![allow(clippy::unwrap_used)]

use crate::world::neighbour::control;
use crate::world::party::Ask;
use crate::world::script::{EAST, Script, WAY, WEST, header};
use crate::world::{PORT, RECEIVER, SENDER, addr, voice};
use base::{Duration, VirtualPort};
use overlay::event::Drop;
use overlay::request::{Delivery, Operation, Options, RequestError};
use overlay::{Reply, Request};
use wire::control::{Message, Messages, TailProbe};
use wire::data::{Class, FlowSeq, Header, LaneSeq, Remaining, Repr, Routing};
use wire::echo::{ECHO_BYTES, Echo, Kind as EchoKind};
use wire::link::Kind;

fn ms(ms: u64) -> Remaining {
    Remaining::from_duration(Duration::from_millis(ms))
}

#[test]
fn a_packet_is_sent_on_with_less_time_to_live_and_to_its_deadline() {
    let mut s = Script::new();
    let sent = Repr {
        remaining: ms(100),
        ..header(addr(WEST), addr(EAST), 0)
    };
    s.say(WEST, &sent, b"hello");
    s.run_ms(20);
    let expected = Repr {
        ttl: 31,
        remaining: ms(90),
        ..sent
    };
    assert_eq!(s.packets(EAST), [(expected, b"hello".to_vec())]);
    assert_eq!(s.rogue(EAST).heard.last().map(|h| h.from), Some(s.node()));
    assert_eq!(s.all_drops(), 0);
}

#[test]
fn every_lane_has_its_own_numbers() {
    let mut s = Script::new();
    let numbers = [5, 6, 7, 8];
    for seq in numbers {
        s.say(WEST, &header(addr(WEST), addr(EAST), seq), b"");
    }
    s.run_ms(20);
    let packets = s.packets(EAST);
    let lane: Vec<u32> = packets.iter().map(|(h, _)| h.lane_seq.value()).collect();
    let flow: Vec<u32> = packets.iter().map(|(h, _)| h.flow_seq.0).collect();
    assert_eq!((lane, flow), (vec![0, 1, 2, 3], numbers.to_vec()));
}

#[test]
fn what_a_hop_recovered_is_marked_and_stays_so() {
    let mut s = Script::new();
    let packet = |seq| header(addr(WEST), addr(EAST), seq);
    let before = Repr {
        recovered: true,
        ..packet(3)
    };
    for sent in [packet(0), packet(2), before] {
        s.say(WEST, &sent, b"");
    }
    s.run_ms(20);
    // The node has requested this packet meanwhile, and gets it again.
    s.say(WEST, &packet(1), b"");
    s.run_ms(20);
    let packets = s.packets(EAST);
    let marks: Vec<_> = packets
        .iter()
        .map(|(h, _)| (h.flow_seq.0, h.recovered))
        .collect();
    assert_eq!(marks, [(0, false), (2, false), (3, true), (1, true)]);
    assert!(packets.iter().all(|(h, _)| h.class == packet(0).class));
}

#[test]
fn what_came_before_is_dropped_by_lane_and_by_flow() {
    let mut s = Script::new();
    let first = header(addr(WEST), addr(EAST), 3);
    s.say(WEST, &first, b"once");
    // The same lane number comes first. Then the same packet comes with another lane number, and over another link.
    s.say(WEST, &first, b"once");
    s.say(
        WEST,
        &Repr {
            lane_seq: LaneSeq::new(4),
            ..first
        },
        b"once",
    );
    s.say(EAST, &first, b"once");
    s.run_ms(30);
    assert_eq!(s.packets(EAST).len(), 1);
    assert_eq!(s.drops(Drop::Duplicate), 3);
    let flow = &s.nodes.snapshot(0).flows[0];
    assert_eq!((flow.packets, flow.duplicates), (1, 2));
}

/// The path to the node takes 10 ms, which is half of the round trip. The real delay may be shorter.
#[test]
fn a_packet_surely_past_its_deadline_goes_no_farther() {
    let mut s = Script::new();
    for (seq, left) in [(0, 0), (1, 5), (2, 6), (3, 11)] {
        let sent = Repr {
            remaining: ms(left),
            ..header(addr(WEST), addr(EAST), seq)
        };
        s.say(WEST, &sent, b"");
    }
    s.run_ms(20);
    let packets = s.packets(EAST);
    let told: Vec<_> = packets
        .iter()
        .map(|(h, _)| (h.flow_seq.0, h.remaining))
        .collect();
    assert_eq!(told, [(2, Remaining(1)), (3, ms(1))]);
    assert_eq!(s.drops(Drop::Expired), 2);
    assert_eq!(s.nodes.snapshot(0).flows[0].expired, 2);
}

/// The path takes 10 ms, as far as the node knows.
#[test]
fn a_packet_that_may_be_in_time_is_delivered() {
    let mut s = Script::new();
    s.nodes.bind(0, voice());
    s.run_ms(1);
    s.nodes.world.take_replies();
    for (seq, left) in [(0, 5), (1, 6), (2, 11)] {
        let sent = Repr {
            remaining: ms(left),
            ..header(addr(WEST), addr(0), seq)
        };
        s.say(WEST, &sent, b"hello");
    }
    s.run_ms(20);
    let replies = s.nodes.world.take_replies();
    let left = replies.iter().filter_map(|answer| match &answer.reply {
        Reply::Datagram { remaining, .. } => Some(*remaining),
        _ => None,
    });
    assert_eq!(left.collect::<Vec<_>>(), [Remaining(1), ms(1)]);
    assert_eq!(s.drops(Drop::Expired), 1);
}

/// Hellos that waited in full queues have measured the delay of the queues, which is seconds. As soon as one hello
/// passes without waiting, packets are charged only the delay of the link, and losses are requested.
#[test]
fn after_an_overload_packets_go_on_at_once() {
    let mut s = Script::new();
    let voice = |seq| Repr {
        remaining: ms(150),
        ..header(addr(WEST), addr(EAST), seq)
    };
    s.ask(WEST, Ask::Queue(Duration::from_secs(2)));
    s.run_ms(8_100);
    s.say(WEST, &voice(0), b"");
    s.run_ms(30);
    assert_eq!(s.drops(Drop::Expired), 1, "so long they believe the queues");
    s.ask(WEST, Ask::Queue(Duration::ZERO));
    s.run_ms(70);
    s.say(WEST, &voice(1), b"");
    s.run_ms(30);
    let told: Vec<_> = s
        .packets(EAST)
        .iter()
        .map(|(h, _)| (h.flow_seq.0, h.remaining))
        .collect();
    assert_eq!(told, [(1, ms(140))]);
    let average = s.nodes.link_status(0, WEST).rtt_ms.unwrap();
    assert!(average > 1e3, "the average is slow: {average} ms");
    // Three hellos later, a lost packet is requested as well.
    s.run_ms(150);
    s.say(WEST, &voice(3), b"");
    s.run_ms(30);
    let nacks = s
        .rogue(WEST)
        .heard
        .iter()
        .filter(|h| h.kind == Kind::Control);
    let nacks = nacks.flat_map(|h| {
        Messages::new(&h.plaintext)
            .flatten()
            .map(|m| matches!(m, Message::Nack(_)))
            .collect::<Vec<_>>()
    });
    assert!(
        nacks.filter(|n| *n).count() > 0,
        "nobody asked for number 2"
    );
    assert_eq!(s.drops(Drop::Expired), 1);
}

fn echo(kind: EchoKind, hop: u8) -> Echo {
    Echo {
        kind,
        id: 7,
        seq: 9,
        stamp_us: 1_234,
        node: addr(WEST),
        hop,
    }
}

/// `who` sends an echo request with this time to live to `to`.
fn ask_echo(s: &mut Script, who: usize, to: usize, ttl: u8, seq: u32) {
    let mut payload = [0xa5; ECHO_BYTES + 6];
    echo(EchoKind::Request, 0).emit(&mut payload).unwrap();
    let request = Repr {
        ttl,
        destination_port: wire::echo::PORT,
        ..header(addr(who), addr(to), seq)
    };
    s.say(who, &request, &payload);
}

#[test]
fn an_echo_is_answered_and_a_time_to_live_that_ends_is_told_to_those_who_ask() {
    let mut s = Script::new();
    ask_echo(&mut s, WEST, 0, 32, 0);
    ask_echo(&mut s, WEST, EAST, 1, 1);
    ask_echo(&mut s, WEST, EAST, 0, 2);
    ask_echo(&mut s, WEST, EAST, 2, 3);
    s.run_ms(30);
    let answers: Vec<_> = s
        .packets(WEST)
        .into_iter()
        .map(|(h, payload)| {
            let from = (h.source, h.source_port);
            assert_eq!(from, (addr(0), wire::echo::PORT));
            let to = (h.destination, h.destination_port);
            assert_eq!(to, (addr(WEST), VirtualPort(700)));
            assert_eq!(h.ttl, Options::TTL_DEFAULT);
            let echo = Echo::parse(&payload).unwrap();
            assert_eq!((echo.id, echo.seq, echo.stamp_us), (7, 9, 1_234));
            assert_eq!(echo.node, addr(0));
            echo.kind
        })
        .collect();
    let count = |kind| answers.iter().filter(|k| **k == kind).count();
    let counts = [EchoKind::Reply, EchoKind::TtlExceeded].map(count);
    assert_eq!((answers.len(), counts), (3, [1, 2]));
    assert_eq!(s.drops(Drop::TtlExceeded), 2);
    let on = s.packets(EAST);
    assert_eq!(on.len(), 1);
    assert_eq!((on[0].0.ttl, on[0].0.flow_seq.0), (1, 3));
}

#[test]
fn an_answer_tells_the_hops_of_the_request() {
    let mut s = Script::new();
    for (seq, hops) in [(0, 0), (1, 1), (2, 4)] {
        ask_echo(&mut s, WEST, 0, Options::TTL_DEFAULT - hops, seq);
    }
    s.run_ms(30);
    let hops = s.packets(WEST).into_iter();
    let hops: Vec<u8> = hops.map(|(_, p)| Echo::parse(&p).unwrap().hop).collect();
    assert_eq!(hops, [1, 2, 5]);
}

#[test]
fn voice_and_answers_whose_time_to_live_ends_are_not_answered() {
    let mut s = Script::new();
    let voice = Repr {
        ttl: 1,
        ..header(addr(WEST), addr(EAST), 0)
    };
    s.say(WEST, &voice, &[0; 160]);
    let mut payload = [0; ECHO_BYTES];
    echo(EchoKind::TtlExceeded, 3).emit(&mut payload).unwrap();
    let answer = Repr {
        destination_port: wire::echo::PORT,
        flow_seq: FlowSeq(1),
        lane_seq: LaneSeq::new(1),
        ..voice
    };
    s.say(WEST, &answer, &payload);
    // This packet is for the node itself, and is no request.
    let odd = Repr {
        ttl: 9,
        destination: addr(0),
        lane_seq: LaneSeq::new(2),
        ..answer
    };
    s.say(WEST, &odd, &payload);
    s.run_ms(30);
    assert_eq!((s.packets(WEST).len(), s.packets(EAST).len()), (0, 0));
    assert_eq!(
        (s.drops(Drop::TtlExceeded), s.drops(Drop::Malformed)),
        (2, 1)
    );
}

#[test]
fn a_packet_is_not_sent_back_where_it_came_from() {
    let mut s = Script::new();
    s.say(WEST, &header(addr(EAST), addr(WEST), 0), b"");
    s.run_ms(30);
    assert_eq!((s.packets(WEST).len(), s.packets(EAST).len()), (0, 0));
    assert_eq!((s.drops(Drop::Loop), s.all_drops()), (1, 1));
}

#[test]
fn nowhere_to_go() {
    let mut s = Script::new();
    let unknown = header(addr(WEST), addr(9), 0);
    s.say(WEST, &unknown, b"");
    let width = Class {
        routing: Routing::Width,
        ..unknown.class
    };
    let packet = Repr {
        class: width,
        ..header(addr(WEST), addr(EAST), 1)
    };
    s.say(WEST, &packet, b"");
    // No socket listens on this port.
    let deaf = header(addr(WEST), addr(0), 3);
    s.say(WEST, &deaf, b"");
    let fragment = Repr {
        has_transport: true,
        ..header(addr(WEST), addr(0), 4)
    };
    s.say(WEST, &fragment, b"");
    s.run_ms(30);
    assert_eq!((s.packets(WEST).len(), s.packets(EAST).len()), (0, 0));
    assert_eq!((s.drops(Drop::NoRoute), s.drops(Drop::NoSocket)), (1, 1));
    assert_eq!(s.drops(Drop::Unsupported), 2);
    assert_eq!(s.all_drops(), 4);
}

#[test]
fn a_local_client_gets_what_is_for_its_port() {
    let mut s = Script::new();
    s.nodes.bind(0, voice());
    let sent = Repr {
        remaining: ms(100),
        ..header(addr(WEST), addr(0), 0)
    };
    s.say(WEST, &sent, b"for you");
    s.run_ms(20);
    let replies: Vec<Reply> = s
        .nodes
        .world
        .take_replies()
        .into_iter()
        .map(|a| a.reply)
        .collect();
    let Some(Reply::Datagram {
        from,
        port,
        to: _,
        group: _,
        recovered: false,
        remaining,
        payload,
    }) = replies.last()
    else {
        panic!("{replies:?}");
    };
    assert_eq!((*from, *port), (addr(WEST), VirtualPort(700)));
    assert_eq!(
        (*remaining, payload.bytes()),
        (ms(90), b"for you".as_slice())
    );
    assert_eq!(s.all_drops(), 0);
}

#[test]
fn a_packet_with_an_extension_is_carried_untouched_and_delivered_without_it() {
    let mut s = Script::new();
    s.nodes.bind(0, voice());
    s.run_ms(1);
    s.nodes.world.take_replies();
    for (seq, to) in [(0, EAST), (1, 0)] {
        let stamped = Repr {
            has_extension: true,
            ..header(addr(WEST), addr(to), seq)
        };
        s.say(WEST, &stamped, b"\x00\x03abcvoice");
    }
    s.run_ms(30);
    let [(on, _)] = &s.packets(EAST)[..] else {
        panic!("one packet goes on");
    };
    assert!(on.has_extension);
    let plaintext = &s.rogue(EAST).heard.iter().rfind(|h| h.kind == Kind::Data);
    let header = Header::parse(&*plaintext.unwrap().plaintext).unwrap();
    assert_eq!(
        (header.extension(), header.payload()),
        (Some(&b"abc"[..]), &b"voice"[..])
    );
    for answer in s.nodes.world.take_replies() {
        let Reply::Datagram { payload, .. } = answer.reply else {
            panic!("{:?}", answer.reply);
        };
        assert_eq!(payload.bytes(), b"voice");
    }
}

#[test]
fn delivery_in_order_waits_for_what_is_missing_until_the_deadline() {
    let mut s = Script::new();
    let in_order = Options {
        delivery: Delivery::InOrder,
        ..voice()
    };
    s.nodes.bind(0, in_order);
    s.run_ms(1);
    s.nodes.world.take_replies();
    let start = s.nodes.world.now();
    // Packet 1 arrives late, and packet 4 never arrives.
    for (seq, left) in [(0, 60), (2, 60), (3, 60), (1, 60), (5, 60)] {
        let packet = Repr {
            remaining: ms(left),
            ..header(addr(WEST), addr(0), seq)
        };
        let packet = crate::world::neighbour::packet(&packet, &[seq as u8]);
        s.say_data(WEST, &packet);
        s.run_ms(10);
    }
    s.run_ms(100);
    let mut came = Vec::new();
    for answer in s.nodes.world.take_replies() {
        if let Reply::Datagram {
            payload, remaining, ..
        } = answer.reply
        {
            assert_eq!(answer.client, RECEIVER);
            let at = answer.at.since(start).as_millis();
            let left = remaining.duration().unwrap().as_millis();
            came.push((payload.bytes()[0], at, left));
        }
    }
    // Packet 5 arrives at 50 ms with 50 ms left, and is delivered one millisecond before it is late.
    assert_eq!(
        came,
        [
            (0, 10, 50),
            (1, 40, 50),
            (2, 40, 30),
            (3, 40, 40),
            (5, 99, 1)
        ]
    );
}

#[test]
fn a_gap_is_asked_for_at_once_and_its_filling_sent_on_at_once() {
    let mut s = Script::new();
    for seq in [0, 1, 3] {
        s.say(WEST, &header(addr(WEST), addr(EAST), seq), b"");
    }
    let start = s.nodes.world.now();
    s.run_ms(15);
    s.say(WEST, &header(addr(WEST), addr(EAST), 2), b"");
    s.run_ms(500);
    let asked: Vec<_> = s
        .rogue(WEST)
        .heard
        .iter()
        .filter(|h| h.at >= start && h.kind == Kind::Control)
        .flat_map(|h| {
            let messages = Messages::new(&h.plaintext).flatten();
            let missing = messages.filter_map(|m| match m {
                Message::Nack(nack) => Some(nack.missing().map(LaneSeq::value).collect::<Vec<_>>()),
                _ => None,
            });
            missing.map(|m| (h.at.since(start), m)).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(asked[0], (WAY * 2, vec![2]));
    assert_eq!(
        asked.len(),
        1,
        "it was there before the second strike: {asked:?}"
    );
    let order: Vec<u32> = s.packets(EAST).iter().map(|(h, _)| h.flow_seq.0).collect();
    assert_eq!(order, [0, 1, 3, 2]);
}

#[test]
fn what_a_neighbour_asks_for_is_sent_again_and_the_end_of_the_lane_is_told() {
    let mut s = Script::new();
    for seq in 0..3 {
        let packet = Repr {
            remaining: ms(200),
            ..header(addr(WEST), addr(EAST), seq)
        };
        s.say(WEST, &packet, &[seq as u8]);
    }
    s.run_ms(60);
    let probes: Vec<TailProbe> = s
        .rogue(EAST)
        .heard
        .iter()
        .filter(|h| h.kind == Kind::Control)
        .flat_map(|h| Messages::new(&h.plaintext).flatten().collect::<Vec<_>>())
        .filter_map(|m| match m {
            Message::TailProbe(probe) => Some(probe),
            _ => None,
        })
        .collect();
    let next = LaneSeq::new(3);
    assert_eq!(probes.len(), 2);
    assert!(probes.iter().all(|p| p.next == next), "{probes:?}");
    let nack = control(|b| assert_eq!(b.nack(1, &[1]), Ok(1)));
    s.say_control(EAST, &nack);
    // The second request of the same strike gets no answer.
    s.say_control(EAST, &nack);
    s.run_ms(30);
    let packets = s.packets(EAST);
    assert_eq!(packets.len(), 4);
    let (again, payload) = &packets[3];
    assert_eq!(
        (again.lane_seq, payload.as_slice()),
        (LaneSeq::new(1), &[1u8][..])
    );
    // The packet took 10 ms to the node and spent 60 ms in its history: it was sent at 10 ms and requested at 70 ms.
    assert_eq!(again.remaining, ms(130));
}

#[test]
fn options_that_this_version_does_not_carry_are_refused() {
    let mut s = Script::new();
    let refused = [
        Class {
            routing: Routing::Width,
            ..voice().class
        },
        Class {
            routing: Routing::Stamped,
            ..voice().class
        },
    ];
    for class in refused {
        s.nodes.set_sender(0, SENDER, Options { class, ..voice() });
    }
    s.nodes.request(
        0,
        SENDER,
        Request::Bind {
            port: VirtualPort(7),
        },
    );
    s.nodes.bind(0, voice());
    s.nodes.request(0, SENDER, Request::Bind { port: PORT });
    s.nodes.operate(
        0,
        Operation::Locate {
            neighbor: addr(9),
            at: s.node(),
            more: Vec::new(),
        },
    );
    s.run_ms(1);
    let told: Vec<RequestError> = s
        .nodes
        .world
        .take_replies()
        .into_iter()
        .filter_map(|a| match a.reply {
            Reply::Refused(why) => Some(why),
            _ => None,
        })
        .collect();
    use RequestError::{NoSuchNeighbor, PortInUse, PortReserved, Unsupported};
    let expected = [
        Unsupported,
        Unsupported,
        PortReserved,
        PortInUse,
        NoSuchNeighbor,
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_class_that_changes_moves_the_flow() {
    let mut s = Script::new();
    // East is near by latency, but lossy. Its own record reports the loss only for the direction from East, so the flow
    // to a node behind both neighbors shows which table was used.
    let far = crate::world::script::neighbour(&mut s.nodes, 3);
    let certificate = far.identity.certificate().as_bytes().to_vec();
    let record = far.link_state(addr(3), 1, &[(addr(WEST), 50_000), (addr(EAST), 1_000)]);
    use wire::record::RecordKind;
    let told = [
        (RecordKind::CERTIFICATE, &certificate[..]),
        (RecordKind::LINK_STATE, &record[..]),
    ];
    s.say_control(EAST, &crate::world::neighbour::records(&told));
    let lossy = s
        .rogue(EAST)
        .lossy_record(2, &[(addr(0), 10_000, 0.0), (addr(3), 1_000, 0.2)]);
    s.say_control(EAST, &lossy);
    let clean = s
        .rogue(WEST)
        .record(2, &[(addr(0), 10_000), (addr(3), 50_000)]);
    s.say_control(WEST, &clean);
    s.run_ms(3_000);
    let by = |routing: Routing, seq: u32| {
        let class = Class {
            routing,
            ..voice().class
        };
        Repr {
            class,
            ..header(addr(8), addr(3), seq)
        }
    };
    s.say(WEST, &by(Routing::Latency, 0), b"");
    s.run_ms(30);
    assert_eq!((s.packets(WEST).len(), s.packets(EAST).len()), (0, 1));
    s.say(EAST, &by(Routing::Loss, 1), b"");
    s.run_ms(30);
    assert_eq!((s.packets(WEST).len(), s.packets(EAST).len()), (1, 1));
}
