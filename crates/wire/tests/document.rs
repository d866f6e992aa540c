//! Checks that docs/wire.md matches the code: its labels, limits and examples.

use wire::control::{Message, Messages};
use wire::data::{Header, LaneSeq, Remaining};
use wire::ipc::{Datagram, Reply, Request};
use wire::{
    Malformed, certificate, control, data, echo, exit, groups, handshake, ipc, link, link_state,
    record, remote, scribe, stamp, transport,
};

const FITS: &str = "the example is of its format";
const DOCUMENT: &str = include_str!("../../../docs/wire.md");

/// Returns the cells of the tables' rows in one section.
fn rows(section: &str) -> Vec<Vec<&'static str>> {
    let begin = format!("\n## {section}\n");
    let (_, rest) = DOCUMENT.split_once(&begin).expect("the section is there");
    let text = rest
        .split("\n## ")
        .next()
        .expect("a split has a first part");
    text.lines()
        .filter(|line| line.starts_with('|') && !line.starts_with("|---"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect()
}

#[test]
fn every_label_is_explained() {
    let told: Vec<_> = rows("What is not understood")[1..]
        .iter()
        .map(|row| row[0].trim_matches('`'))
        .collect();
    assert_eq!(told, Malformed::ALL.map(Malformed::label));
}

#[test]
fn every_limit_has_its_value() {
    let limits = [
        ("link::CLEAR_BYTES", link::CLEAR_BYTES),
        ("link::TAG_BYTES", link::TAG_BYTES),
        ("data::HEADER_BYTES", data::HEADER_BYTES),
        ("data::HEADROOM", data::HEADROOM),
        ("data::TTL_MAX", data::TTL_MAX.into()),
        ("stamp::STAMP_BYTES_MAX", stamp::STAMP_BYTES_MAX),
        ("control::REPAIR_SPAN", control::REPAIR_SPAN),
        ("control::REPAIR_AGES", control::REPAIR_AGES),
        ("control::REPAIR_FRONT_BYTES", control::REPAIR_FRONT_BYTES),
        ("transport::FRAGMENT_BYTES", transport::FRAGMENT_BYTES),
        ("transport::SEGMENT_BYTES", transport::SEGMENT_BYTES),
        ("transport::RANGES_MAX", transport::RANGES_MAX),
        ("record::BODY_BYTES_MAX", record::BODY_BYTES_MAX),
        (
            "link_state::USABLE_BYTES_DEFAULT",
            link_state::USABLE_BYTES_DEFAULT.into(),
        ),
        (
            "link_state::USABLE_ENTRIES_MAX",
            link_state::USABLE_ENTRIES_MAX,
        ),
        ("link_state::LINKS_MAX", link_state::LINKS_MAX),
        (
            "link_state::OPTIONS_BYTES_MAX",
            link_state::OPTIONS_BYTES_MAX,
        ),
        (
            "link_state::VERSION_BYTES_MAX",
            link_state::VERSION_BYTES_MAX,
        ),
        ("groups::PARTS", groups::PARTS),
        ("groups::GROUPS_MAX", groups::GROUPS_MAX),
        ("groups::SETTINGS_MAX", groups::SETTINGS_MAX),
        (
            "groups::SETTINGS_WITH_AIMS_MAX",
            groups::SETTINGS_WITH_AIMS_MAX,
        ),
        (
            "certificate::MAX_CERTIFICATE_BYTES",
            certificate::MAX_CERTIFICATE_BYTES,
        ),
        ("certificate::MAX_DOMAINS", certificate::MAX_DOMAINS),
        (
            "certificate::MAX_DELEGATION_BYTES",
            certificate::MAX_DELEGATION_BYTES,
        ),
        ("certificate::MAX_RANGES", certificate::MAX_RANGES),
        ("certificate::MAX_TAGS", certificate::MAX_TAGS),
        ("certificate::MAX_TAG_BYTES", certificate::MAX_TAG_BYTES),
        ("certificate::MAX_TAGS_BYTES", certificate::MAX_TAGS_BYTES),
        ("certificate::MAX_REVOKED", certificate::MAX_REVOKED),
        ("handshake::INIT_BYTES", handshake::INIT_BYTES),
        ("handshake::kem::KEY_BYTES", handshake::kem::KEY_BYTES),
        (
            "handshake::kem::CIPHERTEXT_BYTES",
            handshake::kem::CIPHERTEXT_BYTES,
        ),
        ("handshake::kem::PIECE_BYTES", handshake::kem::PIECE_BYTES),
        ("ipc::PAYLOAD_BYTES_MAX", ipc::PAYLOAD_BYTES_MAX),
        ("ipc::TEXT_BYTES_MAX", ipc::TEXT_BYTES_MAX),
        ("ipc::BATCH_MAX", ipc::BATCH_MAX),
        ("ipc::BATCH_PAYLOAD_BYTES_MAX", ipc::BATCH_PAYLOAD_BYTES_MAX),
        ("remote::BODY_BYTES_MAX", remote::BODY_BYTES_MAX),
        ("remote::TOKEN_BYTES_MAX", remote::TOKEN_BYTES_MAX),
        (
            "remote::way::DATAGRAM_BYTES_MAX",
            remote::way::DATAGRAM_BYTES_MAX,
        ),
        ("remote::way::PROBE_BYTES", remote::way::PROBE_BYTES),
        (
            "remote::way::UNTRIED_BYTES_MAX",
            remote::way::UNTRIED_BYTES_MAX,
        ),
        (
            "tunnel::DATAGRAM_BYTES_MAX",
            wire::tunnel::DATAGRAM_BYTES_MAX,
        ),
        ("exit::ADDRESS_BYTES_MAX", exit::ADDRESS_BYTES_MAX),
        ("scribe::MESSAGE_BYTES_MAX", scribe::MESSAGE_BYTES_MAX),
        ("scribe::ADDRESSES_MAX", scribe::ADDRESSES_MAX),
    ];
    let told: Vec<_> = rows("Limits")[1..]
        .iter()
        .map(|row| (row[0].trim_matches('`'), row[1].parse().expect("a number")))
        .collect();
    assert_eq!(told, limits);
}

fn bytes(cell: &str) -> Vec<u8> {
    let digits: Vec<u8> = cell
        .bytes()
        .filter(|byte| !matches!(byte, b'`' | b' '))
        .map(|digit| char::from(digit).to_digit(16).expect("hexadecimal") as u8)
        .collect();
    digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}

/// Returns what the code reads from an example.
fn reading(format: &str, bytes: &[u8]) -> String {
    match format {
        "clear header" => format!("{:x?}", link::Clear::parse(bytes).expect(FITS)),
        "data header" => {
            let header = Header::parse(bytes).expect(FITS);
            let class = header.class();
            let from = (header.source(), header.source_port());
            let to = (header.destination(), header.destination_port());
            assert_eq!(header.remaining(), Remaining(650));
            format!(
                "{}{} {} {} ttl {} {}:{} {}:{}",
                if header.is_recovered() {
                    "recovered "
                } else {
                    ""
                },
                class.link.label(),
                class.routing.label(),
                class.priority,
                header.ttl(),
                from.0,
                from.1,
                to.0,
                to.1
            )
        }
        "echo" => {
            let echo = echo::Echo::parse(bytes).expect(FITS);
            format!("{:?} {} {}", echo.kind, echo.node, echo.hop)
        }
        "segment" => {
            let parsed = transport::Segment::parse(bytes).expect(FITS);
            let segment = parsed.segment;
            let ranges: Vec<_> = parsed.ranges().collect();
            format!(
                "{:x} {:x} {} {ranges:?} {:?}{}{}",
                segment.connection,
                segment.acknowledged,
                segment.window,
                parsed.bytes,
                if parsed.tells_expired() {
                    " expired"
                } else {
                    ""
                },
                segment.ticket.map_or(String::new(), |ticket| {
                    format!(" opening {} under {:x}", ticket.number, ticket.secret)
                })
            )
        }
        "stamp" => match stamp::Stamp::parse(bytes).expect(FITS) {
            stamp::Stamp::Subgraph(graph) => {
                let links = graph.links().map(|(from, to)| format!("{from}>{to}"));
                links.collect::<Vec<_>>().join(" ")
            }
            stamp::Stamp::Flooding => "flooding".to_owned(),
            stamp::Stamp::TwoTrees => "two trees".to_owned(),
        },
        "ipc request" => match Request::parse(bytes).expect(FITS) {
            Request::SendFrom(batch) => {
                let told = batch.iter().map(|(ports, bytes)| {
                    let (from, to) = (ports.from, ports.to);
                    format!("from {from} to {}:{} {bytes:?}", to.node, to.port)
                });
                told.collect::<Vec<_>>().join(", ")
            }
            request => format!("{request:?}"),
        },
        "ipc reply" => match Reply::parse(bytes).expect(FITS) {
            Reply::Datagrams(batch) => {
                let told = batch.iter().map(|(to, from, bytes)| {
                    let Datagram {
                        source,
                        source_port,
                        recovered,
                        remaining,
                        group: _,
                    } = from;
                    format!(
                        "to {to} from {source}:{source_port} {recovered} {remaining:?} {bytes:?}"
                    )
                });
                told.collect::<Vec<_>>().join(", ")
            }
            reply => format!("{reply:?}"),
        },
        _ => message(bytes),
    }
}

fn message(bytes: &[u8]) -> String {
    let messages: Vec<_> = Messages::new(bytes).map(|m| m.expect(FITS)).collect();
    match &messages[..] {
        [Message::Hello(h)] => format!(
            "{} {} {} {} {:?} {:.3} {:x} {} {}",
            h.i_hear_you,
            h.active,
            h.knows_paths,
            h.interval_ms,
            h.echo.map(|echo| echo.hold_us),
            h.loss_in.share(),
            h.boot,
            h.arrived,
            h.lost
        ),
        [Message::Nack(nack)] => {
            let missing: Vec<_> = nack.missing().map(LaneSeq::value).collect();
            format!("{} {missing:?}", nack.strike)
        }
        [Message::TailProbe(probe)] => format!("{} {}", probe.next.value(), probe.count),
        [Message::ReliableAck(ack)] => {
            let ranges = ack.received().map(|(first, count)| (first.value(), count));
            let head = ack.head;
            format!(
                "{} {} {} {} {} {} {:?}",
                head.next.value(),
                head.end.value(),
                head.window,
                head.newest.value(),
                head.hold_us,
                head.repeated,
                ranges.collect::<Vec<_>>()
            )
        }
        [Message::ReliableSkip(skip)] => format!("{}", skip.first.value()),
        [Message::ReliableRate(rate)] => format!("{}", rate.kbps),
        [Message::LaneHolds(holds)] => {
            let holds = holds
                .holds()
                .map(|hold| (hold.destination, hold.routing, hold.room));
            format!("{:?}", holds.collect::<Vec<_>>())
        }
        [Message::LinkDoubt(doubt)] => format!("{}>{}", doubt.from, doubt.to),
        [Message::Repair(repair)] => format!(
            "{} {} {:b} {:?} {:x?}",
            repair.newest.value(),
            repair.seed,
            repair.members,
            repair.ages,
            &repair.sum[20..]
        ),
        [Message::LaneReport(report)] => {
            format!("{} {} {}", report.received, report.lost, report.run_256ths)
        }
        [Message::SeenAt(at)] => {
            format!("{:?} {}", at.ipv4().expect("the example is IPv4"), at.port)
        }
        [Message::StreamSeenAt(seen)] => {
            let at = seen.endpoint;
            let ip = at.ipv4().expect("the example is IPv4");
            format!("{ip:?} {} {}", at.port, seen.is_dialled)
        }
        [Message::FlowAims(aims)] => {
            let told = aims.iter().map(|aim| {
                let [from, to] =
                    [aim.source, aim.destination].map(|(node, port)| format!("{node}:{port}"));
                format!("{from} {to} {:?} {:?}", aim.aim.target(), aim.aim.most())
            });
            told.collect::<Vec<_>>().join(", ")
        }
        [Message::ClockOffset(clock)] => format!("{} {:x}", clock.reference, clock.offset_us),
        [Message::MtuProbe(probe)] => format!("{} {}", probe.number, probe.bytes),
        [Message::MtuAnswer(answer)] => format!("{} {}", answer.number, answer.bytes),
        [Message::RecordAck(acks)] => format!("{:?}", acks.iter().collect::<Vec<_>>()),
        other => panic!("not one message: {other:?}"),
    }
}

#[test]
fn every_example_reads_as_told() {
    let readings = [
        "Clear { kind: Control, session: SessionIndex(abcdef), counter_low: 1234567 }",
        "real-time expected-latency 5 ttl 32 10.7.0.3:5000 10.7.0.9:7",
        "recovered real-time expected-latency 5 ttl 32 10.7.0.3:5000 10.7.0.9:7",
        "false false true 1000 None 0.000 b0070001 0 0",
        "true true false 1000 Some(10000) 0.050 b0070001 40961 258",
        "1 [5, 6, 37, 38]",
        "39 2",
        "7 13 256 9 1000 3 [(12, 1), (8, 2)]",
        "[(NodeAddr(168230915), ExpectedLatency, 18), (NodeAddr(4009820675), Stamped, 65535)]",
        "10.7.0.1>10.7.0.2",
        "2565 1 101 [0, 40] [2a, 0, 17, ff]",
        "3000 3 512",
        "[198, 51, 100, 2] 40001",
        "[198, 51, 100, 2] 443 true",
        "10.7.0.1 fffffc18",
        "10.7.0.3:5000 10.7.0.9:7 Some(0.0001) Some(1.0)",
        "40",
        "25000",
        "7 36",
        "7 1439",
        "[Key { kind: RecordKind(1), origin: NodeAddr(168230915), seq: RecordSeq(256) }]",
        "10.7.0.1>10.7.0.2 10.7.0.2>10.7.0.3",
        "Reply 10.7.0.3 2",
        "cafe0001 fffffff0 262144 [(16, 32), (48, 64)] [104, 105]",
        "cafe0001 7 262144 [(16, 32), (48, 64)] [] expired",
        "cafe0001 1 131072 [] [104, 105] opening 7 under 1122334455667788",
        "Options(Options { class: Class { link: RealTime, routing: ExpectedLatency, priority: 5 }, \
         scheme: None, deadline: Some(65.0ms), delivery: InOrder, ttl: 16, give_up: Some(60.00s), control: Some(Bbr), early: true, aim: Aim { target_ppm: 0, spared: 0 } })",
        "Datagram(Datagram { source: NodeAddr(168230915), source_port: VirtualPort(5000), \
         recovered: true, remaining: Remaining(650), group: None }, [104, 105])",
        "ConnectStream(Destination { node: NodeAddr(168230915), port: VirtualPort(5000) }, Messages)",
        "Reset { reason: NoRoute }",
        "BindRange { first: VirtualPort(20000), last: VirtualPort(50000) }",
        "from 20000 to 10.7.0.3:5000 [104, 105], from 20002 to 10.7.0.3:5001 []",
        "to 20000 from 10.7.0.3:5000 true Remaining(650) [104, 105]",
    ];
    let told: Vec<_> = rows("Examples")[1..]
        .iter()
        .map(|row| reading(row[0], &bytes(row[1])))
        .collect();
    assert_eq!(told, readings);
}
