//! Data packets: headers, stamps, edges of trees, echoes.

use super::{A, B, C, GROUP, open, written};
use base::VirtualPort;
use wire::data::{Class, FlowSeq, Header, LaneSeq, LinkProtocol, Remaining, Repr, Routing};
use wire::echo::{self, Echo};
use wire::stamp::{Stamp, TreeEdge, emit_subgraph};

pub(super) const HEADER: Repr = Repr {
    class: Class {
        link: LinkProtocol::RealTime,
        routing: Routing::ExpectedLatency,
        priority: 5,
    },
    ttl: 32,
    has_extension: false,
    congested: false,
    recovered: false,
    has_transport: false,
    remaining: Remaining(650),
    source: C,
    destination: A,
    source_port: VirtualPort(5000),
    destination_port: VirtualPort(7),
    flow_seq: FlowSeq(0x0102_0304),
    lane_seq: LaneSeq::new(0xab_cdef),
};

#[test]
fn headers_of_every_class() {
    let mut fixtures = open!("data");
    let mut hold = |name: &str, header: Repr, rest: &[u8]| {
        let mut bytes = [&[0xa5; wire::HEADER_BYTES][..], rest].concat();
        header.emit(&mut bytes).unwrap();
        fixtures.hold(name, &bytes, |frozen| {
            let read = Header::parse(frozen).unwrap();
            assert_eq!(read.repr(), header);
            let (extension, payload) = match header.has_extension {
                true => (Some(&rest[2..rest.len() - 2]), &rest[rest.len() - 2..]),
                false => (None, rest),
            };
            assert_eq!((read.extension(), read.payload()), (extension, payload));
        });
    };
    let links = [
        ("best-effort", LinkProtocol::BestEffort),
        ("real-time", LinkProtocol::RealTime),
        ("reliable", LinkProtocol::Reliable),
    ];
    let routings = [
        ("hops", Routing::Hops),
        ("latency", Routing::Latency),
        ("loss", Routing::Loss),
        ("expected-latency", Routing::ExpectedLatency),
        ("width", Routing::Width),
        ("stamped", Routing::Stamped),
    ];
    let flood = [0, 1, 1, 0x68, 0x69];
    for (link_name, link) in links {
        for (routing_name, routing) in routings {
            let header = Repr {
                class: Class {
                    link,
                    routing,
                    priority: 3,
                },
                has_extension: routing == Routing::Stamped,
                ..HEADER
            };
            let rest = match header.has_extension {
                true => &flood[..],
                false => b"hi",
            };
            hold(&format!("{link_name}-{routing_name}"), header, rest);
            if link == LinkProtocol::RealTime {
                let recovered = Repr {
                    recovered: true,
                    ..header
                };
                hold(&format!("recovered-{routing_name}"), recovered, rest);
            }
            if link == LinkProtocol::Reliable {
                let congested = Repr {
                    congested: true,
                    ..header
                };
                hold(&format!("congested-{routing_name}"), congested, rest);
            }
        }
    }
    let transport = Repr {
        has_transport: true,
        remaining: Remaining::NONE,
        destination: GROUP,
        ..HEADER
    };
    hold("transport-no-deadline-group", transport, b"hi");
    let edge = TreeEdge { from: A, to: B };
    let on_edge = Repr {
        has_extension: true,
        ..transport
    };
    let rest = [&[0, 9], &edge.to_bytes()[..], b"hi"].concat();
    hold("on-a-tree-edge", on_edge, &rest);
    fixtures.end();
}

#[test]
fn stamps_and_edges_of_trees() {
    let mut fixtures = open!("stamp");
    let nodes = [A, B, C];
    let links = [(0, 1), (0, 2), (1, 2)];
    let bytes = written(|bytes| emit_subgraph(&nodes, &links, bytes).map_err(|_| wire::Full));
    fixtures.hold("subgraph", &bytes, |frozen| {
        let Ok(Stamp::Subgraph(subgraph)) = Stamp::parse(frozen) else {
            panic!("no subgraph");
        };
        assert_eq!(subgraph.nodes().collect::<Vec<_>>(), nodes);
        let between = [(A, B), (A, C), (B, C)];
        assert_eq!(subgraph.links().collect::<Vec<_>>(), between);
    });
    for (name, stamp) in [
        ("flooding", Stamp::Flooding),
        ("two-trees", Stamp::TwoTrees),
    ] {
        let bytes = written(|bytes| stamp.emit(bytes).ok_or(wire::Full));
        fixtures.hold(name, &bytes, |frozen| {
            assert_eq!(Stamp::parse(frozen), Ok(stamp));
        });
    }
    let edge = TreeEdge { from: A, to: B };
    fixtures.hold("tree-edge", &edge.to_bytes(), |frozen| {
        assert_eq!(TreeEdge::parse(frozen), Ok(edge));
    });
    fixtures.end();
}

#[test]
fn echoes() {
    let mut fixtures = open!("echo");
    let kinds = [
        ("request", echo::Kind::Request),
        ("reply", echo::Kind::Reply),
        ("ttl-exceeded", echo::Kind::TtlExceeded),
    ];
    for (name, kind) in kinds {
        let echo = Echo {
            kind,
            id: 0x1234,
            seq: 9,
            stamp_us: 0x0102_0304,
            node: C,
            hop: 2,
        };
        let mut bytes = [0xee; 20];
        echo.emit(&mut bytes).unwrap();
        fixtures.hold(name, &bytes, |frozen| {
            assert_eq!(Echo::parse(frozen), Ok(echo));
        });
    }
    fixtures.end();
}
