//! The messages between neighbors.

use super::{A, B, C, GROUP, open, written};
use base::VirtualPort;
use wire::control::{
    AckHead, Builder, ClockOffset, Echo, FlowAim, Hello, Hold, LaneReport, LinkDoubt, Message,
    Messages, MtuAnswer, MtuProbe, Reception, ReliableRate, ReliableSkip, Repair, StreamSeenAt,
    TailProbe, kind,
};
use wire::data::{LaneSeq, Routing};
use wire::record::{Key, RecordKind, RecordSeq};
use wire::{Aim, Endpoint, Full, Loss};

const HELLO: Hello = Hello {
    i_hear_you: true,
    answer_now: false,
    closing: false,
    active: true,
    takes_repair: false,
    knows_paths: false,
    doubts: false,
    lets_wait: false,
    interval_ms: 1000,
    stamp_us: 0x0102_0304,
    echo: Some(Echo {
        stamp_us: 0x0506_0708,
        hold_us: 10_000,
    }),
    loss_in: Loss(0x0ccd),
    boot: 0xb007_0001,
    arrived: 0x0000_a001,
    lost: 0x0000_0102,
};

/// Returns the only message in these bytes.
pub(crate) fn only(bytes: &[u8]) -> Message<'_> {
    let mut messages = Messages::new(bytes);
    let message = messages.next().unwrap().unwrap();
    assert_eq!(messages.next(), None);
    message
}

fn built(build: impl FnOnce(&mut Builder<'_>) -> Result<(), Full>) -> Vec<u8> {
    written(|bytes| {
        let mut builder = Builder::new(bytes);
        build(&mut builder)?;
        Ok(builder.len())
    })
}

#[test]
fn messages_that_are_values() {
    let mut fixtures = open!("control");
    let mut hello = |name: &str, hello: Hello| {
        let bytes = built(|b| b.hello(&hello));
        fixtures.hold(name, &bytes, |frozen| {
            assert_eq!(only(frozen), Message::Hello(hello));
        });
    };
    hello("hello", HELLO);
    let all = Hello {
        answer_now: true,
        closing: true,
        takes_repair: true,
        knows_paths: true,
        doubts: true,
        ..HELLO
    };
    hello("hello-all-flags", all);
    let lets_wait = Hello {
        lets_wait: true,
        ..HELLO
    };
    hello("hello-lets-acks-wait", lets_wait);
    let first = Hello {
        i_hear_you: false,
        active: false,
        echo: None,
        ..HELLO
    };
    hello("hello-first", first);

    let mut value = |name: &str, bytes: Vec<u8>, message: Message<'_>| {
        fixtures.hold(name, &bytes, |frozen| assert_eq!(only(frozen), message));
    };
    let probe = TailProbe {
        next: LaneSeq::new(39),
        count: 2,
    };
    let bytes = built(|b| b.tail_probe(probe));
    value("tail-probe", bytes, Message::TailProbe(probe));
    let skip = ReliableSkip {
        first: LaneSeq::new(40),
    };
    let bytes = built(|b| b.reliable_skip(skip));
    value("reliable-skip", bytes, Message::ReliableSkip(skip));
    let rate = ReliableRate { kbps: 25_000 };
    let bytes = built(|b| b.reliable_rate(rate));
    value("reliable-rate", bytes, Message::ReliableRate(rate));
    let (number, bytes) = (7, 36);
    let probe = MtuProbe { number, bytes };
    let emitted = built(|b| b.mtu_probe(probe));
    value("mtu-probe", emitted, Message::MtuProbe(probe));
    let answer = MtuAnswer {
        number,
        bytes: 1439,
    };
    let bytes = built(|b| b.mtu_answer(answer));
    value("mtu-answer", bytes, Message::MtuAnswer(answer));
    let doubt = LinkDoubt { from: A, to: B };
    let bytes = built(|b| b.link_doubt(doubt));
    value("link-doubt", bytes, Message::LinkDoubt(doubt));
    let report = LaneReport {
        received: 3000,
        lost: 3,
        run_256ths: 512,
    };
    let bytes = built(|b| b.lane_report(report));
    value("lane-report", bytes, Message::LaneReport(report));
    let endpoint = Endpoint {
        ip: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 198, 51, 100, 2],
        port: 40_001,
    };
    let bytes = built(|b| b.seen_at(endpoint));
    value("seen-at", bytes, Message::SeenAt(endpoint));
    let clock = ClockOffset {
        reference: A,
        offset_us: 0xffff_fc18,
    };
    let bytes = built(|b| b.clock_offset(clock));
    value("clock-offset", bytes, Message::ClockOffset(clock));
    let seen = StreamSeenAt {
        endpoint: Endpoint {
            port: 443,
            ..endpoint
        },
        is_dialled: true,
    };
    let bytes = built(|b| b.stream_seen_at(seen));
    value("stream-seen-at", bytes, Message::StreamSeenAt(seen));
    fixtures.end();
}

#[test]
fn messages_that_are_lists() {
    let mut fixtures = open!("control-lists");
    let aim = FlowAim {
        source: (A, VirtualPort(5000)),
        destination: (B, VirtualPort(7)),
        aim: Aim::new(Some(0.000_1), Some(1.0)).unwrap(),
    };
    let bytes = built(|b| b.flow_aim(aim).and_then(|()| b.flow_aim(aim)));
    fixtures.hold("flow-aims", &bytes, |frozen| {
        let Message::FlowAims(aims) = only(frozen) else {
            panic!("no aims");
        };
        assert_eq!(aims.iter().collect::<Vec<_>>(), [aim, aim]);
    });
    let missing = [5, 6, 37, 38];
    let bytes = built(|b| b.nack(1, &missing).map(drop));
    fixtures.hold("nack", &bytes, |frozen| {
        let Message::Nack(nack) = only(frozen) else {
            panic!("no nack");
        };
        let told: Vec<u64> = nack.missing().map(|seq| seq.value().into()).collect();
        assert_eq!((nack.strike, told), (1, missing.to_vec()));
    });

    let head = AckHead {
        next: LaneSeq::new(7),
        end: LaneSeq::new(13),
        window: 256,
        newest: LaneSeq::new(9),
        hold_us: 1000,
        repeated: 3,
    };
    let ranges = [(1, 2), (2, 1)];
    let bytes = built(|b| b.reliable_ack(&head, ranges.into_iter()).map(drop));
    fixtures.hold("reliable-ack", &bytes, |frozen| {
        let Message::ReliableAck(ack) = only(frozen) else {
            panic!("no acknowledgement");
        };
        let told: Vec<(u16, u16)> = ack.ranges().collect();
        assert_eq!((ack.head, told), (head, ranges.to_vec()));
    });

    let holds = [
        Hold {
            destination: C,
            routing: Routing::ExpectedLatency,
            room: 18,
        },
        Hold {
            destination: GROUP,
            routing: Routing::Stamped,
            room: 0xffff,
        },
    ];
    let bytes = built(|b| holds.into_iter().try_for_each(|hold| b.lane_hold(hold)));
    fixtures.hold("lane-holds", &bytes, |frozen| {
        let Message::LaneHolds(told) = only(frozen) else {
            panic!("no holds");
        };
        assert_eq!(told.holds().collect::<Vec<_>>(), holds);
    });

    let receptions = [(A, 9), (C, 0)].map(|(node, lost)| Reception {
        node,
        received: 1000,
        recovered: 12,
        lost,
    });
    let bytes = built(|b| b.group_report((B, GROUP), 7, &receptions));
    fixtures.hold("group-report", &bytes, |frozen| {
        let Message::GroupReport(report) = only(frozen) else {
            panic!("no report");
        };
        assert_eq!(
            (report.source, report.group, report.receivers),
            (B, GROUP, 7)
        );
        assert_eq!(report.receptions().collect::<Vec<_>>(), receptions);
    });

    let keys = [RecordKind::LINK_STATE, RecordKind::CERTIFICATE].map(|kind| Key {
        kind,
        origin: C,
        seq: RecordSeq(256),
    });
    let bytes = built(|b| keys.into_iter().try_for_each(|key| b.record_ack(key)));
    fixtures.hold("record-ack", &bytes, |frozen| {
        let Message::RecordAck(acks) = only(frozen) else {
            panic!("no acknowledgement");
        };
        assert_eq!(acks.iter().collect::<Vec<_>>(), keys);
    });

    let sum = [0x2a; 24];
    for (name, members, ages) in [
        ("repair-some", 0b101, &[0, 40][..]),
        ("repair-all", 0b111, &[0, 20, 40]),
    ] {
        let newest = LaneSeq::new(2565);
        let front = written(|bytes| Repair::emit_front(newest, 1, members, ages, bytes));
        let bytes = built(|b| b.message(kind::REPAIR, &[&front[..], &sum].concat()));
        let repair = Repair {
            newest,
            seed: 1,
            members,
            ages,
            sum: &sum,
        };
        fixtures.hold(name, &bytes, |frozen| {
            assert_eq!(only(frozen), Message::Repair(repair));
        });
    }
    fixtures.end();
}
