//! The lane against naive models, and over lossy links.

mod against_models;
mod history;
mod monte_carlo;
mod receiver;
mod world;

use base::{Duration, NodeAddr, Time, VirtualPort};
use wire::data::{Class, FlowSeq, LaneSeq, LinkProtocol, Remaining, Repr, Routing};

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn at_us(us: u64) -> Time {
    Time::ZERO + Duration::from_micros(us)
}

/// A packet of a voice stream of eight bytes.
pub(crate) fn voice(id: u64, remaining: Remaining) -> Vec<u8> {
    packet(id, 8, remaining)
}

/// A packet of a voice stream: overlay header, then `len` bytes that begin with `id`.
fn packet(id: u64, len: usize, remaining: Remaining) -> Vec<u8> {
    let mut bytes = vec![0x5a; wire::HEADER_BYTES + len];
    let header = Repr {
        class: Class {
            link: LinkProtocol::RealTime,
            routing: Routing::ExpectedLatency,
            priority: 5,
        },
        ttl: 10,
        has_extension: false,
        congested: false,
        recovered: false,
        has_transport: false,
        remaining,
        source: NodeAddr(1),
        destination: NodeAddr(6),
        source_port: VirtualPort(7000),
        destination_port: VirtualPort(8000),
        flow_seq: FlowSeq::of(id),
        lane_seq: LaneSeq::new(0),
    };
    header.emit(&mut bytes).unwrap();
    let id = id.to_be_bytes();
    let shown = len.min(id.len());
    bytes[wire::HEADER_BYTES..][..shown].copy_from_slice(&id[..shown]);
    bytes
}
