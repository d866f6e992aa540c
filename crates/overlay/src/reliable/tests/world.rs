//! A lane with its two ends, and a bad network between them.

use crate::reliable::{Lane, Settings};
use base::{Duration, NodeAddr, Rng, Time, VirtualPort};
use std::collections::BTreeMap;
use wire::HEADER_BYTES;
use wire::control::{Builder, Message, Messages};
use wire::data::{Class, FlowSeq, Header, LaneSeq, LinkProtocol, Remaining, Repr, Routing};

/// The bytes of the destination in a header.
const HEADER_DESTINATION: core::ops::Range<usize> = 8..12;

pub(super) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(in crate::reliable) fn at(ms_: u64) -> Time {
    Time::ZERO + ms(ms_)
}

/// Returns a packet of a flow, with `bytes` bytes in all.
pub(in crate::reliable) fn packet(flow: u16, number: u32, bytes: usize) -> Vec<u8> {
    emit(flow, number, bytes, Remaining::NONE)
}

/// Returns such a packet with the time `left` to its deadline.
pub(super) fn packet_within(flow: u16, number: u32, bytes: usize, left: Duration) -> Vec<u8> {
    emit(flow, number, bytes, Remaining::from_duration(left))
}

fn emit(flow: u16, number: u32, bytes: usize, remaining: Remaining) -> Vec<u8> {
    let mut packet = vec![0xa5; bytes.max(HEADER_BYTES)];
    let repr = Repr {
        class: Class {
            link: LinkProtocol::Reliable,
            routing: Routing::Hops,
            priority: 2,
        },
        ttl: 32,
        has_extension: false,
        congested: false,
        recovered: false,
        has_transport: false,
        remaining,
        source: NodeAddr(0x0a07_0001),
        destination: NodeAddr(0x0a07_0002),
        source_port: VirtualPort(flow),
        destination_port: VirtualPort(7_000),
        flow_seq: FlowSeq(number),
        lane_seq: LaneSeq::new(0),
    };
    repr.emit(&mut packet).unwrap();
    packet
}

/// Returns a packet of a flow to another node.
pub(super) fn packet_to(to: u32, flow: u16, number: u32) -> Vec<u8> {
    let mut packet = packet(flow, number, 100);
    packet[HEADER_DESTINATION].copy_from_slice(&to.to_be_bytes());
    packet
}

pub(super) fn number(packet: &[u8]) -> u32 {
    Header::trusted(packet).flow_seq().0
}

pub(super) fn lane() -> Lane {
    Lane::new(Settings::default())
}

/// Lets everything leave that may leave now. Returns lane numbers and packets.
pub(super) fn send(lane: &mut Lane, now: Time) -> Vec<(u32, Vec<u8>)> {
    let mut sent = Vec::new();
    lane.sender.on_timeout(now);
    while lane.sender.peek(now, 0, &|_| None).is_some() {
        let packet = lane.sender.take(now, 0).unwrap();
        let seq = Header::trusted(packet.bytes).lane_seq().value();
        sent.push((seq, packet.bytes.to_vec()));
    }
    sent
}

/// Returns the acknowledgement of the other end, as bytes.
pub(super) fn ack(lane: &mut Lane, now: Time, window: u16) -> Vec<u8> {
    let mut bytes = vec![0; 1_400];
    let mut builder = Builder::new(&mut bytes);
    let head = lane.receiver.acknowledge(now, window);
    if let Some(rate) = lane.receiver.poll_rate() {
        builder.reliable_rate(rate).unwrap();
    }
    builder.reliable_ack(&head, lane.receiver.ranges()).unwrap();
    let len = builder.len();
    bytes.truncate(len);
    bytes
}

pub(super) fn hear(lane: &mut Lane, now: Time, bytes: &[u8]) {
    hear_late(lane, now, Duration::ZERO, bytes);
}

/// The same after the bytes have waited in the socket.
pub(super) fn hear_late(lane: &mut Lane, now: Time, waited: Duration, bytes: &[u8]) {
    for message in Messages::new(bytes) {
        match message.unwrap() {
            Message::ReliableAck(ack) => lane.sender.on_ack(now, waited, &ack),
            Message::ReliableRate(rate) => lane.sender.on_rate(rate),
            Message::ReliableSkip(skip) => lane.receiver.on_skip(skip),
            other => panic!("{other:?}"),
        }
    }
}

/// The behaviour of the network.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    pub(super) loss: f64,
    pub(super) twice: f64,
    pub(super) delay: Duration,
    pub(super) jitter: Duration,
}

/// The two ends, the packets on their way, and those that have arrived.
pub(super) struct World {
    pub(super) now: Time,
    pub(super) from: Lane,
    pub(super) to: Lane,
    pub(super) path: Path,
    rng: Rng,
    order: u64,
    data: BTreeMap<(Time, u64), Vec<u8>>,
    control: BTreeMap<(Time, u64), (bool, Vec<u8>)>,
    /// The numbers in the order of arrival, with the time.
    pub(super) arrived: Vec<(u32, Time)>,
}

impl World {
    pub(super) fn new(seed: u64, settings: Settings, path: Path) -> World {
        World {
            now: Time::ZERO,
            from: Lane::new(settings),
            to: Lane::new(settings),
            path,
            rng: Rng::new(seed),
            order: 0,
            data: BTreeMap::new(),
            control: BTreeMap::new(),
            arrived: Vec::new(),
        }
    }

    /// Returns when a packet sent now arrives: not at all, once, or twice.
    fn arrivals(&mut self) -> Vec<(Time, u64)> {
        let mut arrivals = Vec::new();
        let copies = 1 + usize::from(self.rng.chance(self.path.twice));
        for _ in 0..copies {
            if !self.rng.chance(self.path.loss) {
                let jitter = self.path.jitter.mul_f64(self.rng.unit());
                self.order += 1;
                arrivals.push((self.now + self.path.delay + jitter, self.order));
            }
        }
        arrivals
    }

    pub(super) fn push(&mut self, flow: u16, number: u32) {
        let packet = packet(flow, number, 200);
        assert!(matches!(
            self.from.sender.push(self.now, &packet, None),
            Ok(None)
        ));
    }

    /// Advances by a millisecond.
    pub(super) fn step(&mut self) {
        self.now += ms(1);
        let now = self.now;
        while let Some(entry) = self.data.first_entry()
            && entry.key().0 <= now
        {
            use crate::reliable::Arrival;
            let packet = entry.remove();
            let seq = Header::trusted(&packet[..]).lane_seq();
            let rtt = self.path.delay * 2;
            self.to.receiver.measure(now, packet.len(), rtt);
            match self.to.receiver.on_packet(now, Duration::ZERO, seq) {
                Arrival::New | Arrival::Recovered => self.arrived.push((number(&packet), now)),
                Arrival::Duplicate | Arrival::Beyond => {}
            }
        }
        while let Some(entry) = self.control.first_entry()
            && entry.key().0 <= now
        {
            let (is_ack, bytes) = entry.remove();
            let end = if is_ack { &mut self.from } else { &mut self.to };
            hear(end, now, &bytes);
        }
        for (_, packet) in send(&mut self.from, now) {
            for key in self.arrivals() {
                self.data.insert(key, packet.clone());
            }
        }
        if self.to.receiver.is_due(now) {
            let bytes = ack(&mut self.to, now, 4_096);
            for key in self.arrivals() {
                self.control.insert(key, (true, bytes.clone()));
            }
        }
        if let Some(skip) = self.from.sender.poll_skip() {
            let mut bytes = vec![0; 6];
            Builder::new(&mut bytes).reliable_skip(skip).unwrap();
            for key in self.arrivals() {
                self.control.insert(key, (false, bytes.clone()));
            }
        }
    }

    /// Advances until the sender is empty, by at most `most` milliseconds.
    pub(super) fn finish(&mut self, most: u64) {
        for _ in 0..most {
            if self.from.sender.is_empty() {
                return;
            }
            self.step();
        }
        panic!("still not everything acknowledged: {:#?}", self.from.sender);
    }
}
