//! Operations on the two ends of a reliable lane.

use super::*;

/// Operations on links: two ends of a reliable lane, a network that loses, repeats and reorders packets, an outage, a
/// restart, destinations that are held, and false acknowledgements. Every packet arrives, and none twice, unless an
/// acknowledgement was false or an end restarted.
pub(super) fn lanes(data: &[u8]) {
    let (mut from, mut to) = (
        Lane::new(overlay::reliable::Settings::default()),
        Lane::new(overlay::reliable::Settings::default()),
    );
    let mut now = Time::ZERO + Duration::from_millis(1);
    let (mut under_way, mut told) = (Vec::<Vec<u8>>::new(), Vec::<Vec<u8>>::new());
    let (mut pushed, mut arrived, mut is_honest) = (0u32, Vec::new(), true);
    // A packet that took another path may have arrived before: its acknowledgement was lost.
    let mut took_another_path = Vec::new();
    let mut ops = data.iter().copied().take(4 * OPS_MAX);
    while let Some(op) = ops.next() {
        let with = ops.next().unwrap_or_default();
        match op % 12 {
            0 | 1 => {
                for _ in 0..=with % 16 {
                    let packet = lane_packet(u16::from(op), pushed, 30 + usize::from(with));
                    pushed += u32::from(from.sender.push(now, &packet, Some(1)).is_ok());
                }
            }
            2 | 3 => leave(&mut from, now, usize::from(with), &mut under_way),
            4 | 5 if !under_way.is_empty() => {
                let at = usize::from(with) % under_way.len();
                // Some packets arrive twice.
                let packet = match op % 2 {
                    0 => under_way.remove(at),
                    _ => under_way[at].clone(),
                };
                come(&mut to, now, &packet, &mut arrived);
            }
            6 if !under_way.is_empty() => {
                under_way.remove(usize::from(with) % under_way.len());
            }
            7 => told.push(lane_ack(&mut to, now, u16::from(with) << 4)),
            8 if !told.is_empty() => {
                let bytes = told.swap_remove(usize::from(with) % told.len());
                lane_hear(&mut from, &mut to, now, &bytes);
            }
            9 => now += Duration::from_millis(1 << (with % 12)),
            10 => {
                is_honest = false;
                let mut body = [with; 15];
                for byte in &mut body {
                    *byte = ops.next().unwrap_or(*byte);
                }
                if let Ok(ack) = wire::control::ReliableAck::parse(&body) {
                    from.sender.on_ack(now, Duration::ZERO, &ack);
                }
            }
            11 if with >= 0xe0 => from.sender.on_hold(
                now,
                Hold {
                    destination: address(1 + usize::from(with & 1)),
                    routing: Routing::Hops,
                    room: u16::from(with >> 1 & 0xf),
                },
            ),
            11 => match with % 4 {
                // All packets have got another path.
                0 => from
                    .sender
                    .give_up(|packet| took_another_path.push(lane_number(&packet.bytes))),
                1 => from.sender.resume(now),
                2 => {
                    to.receiver.reset();
                    from.restart();
                    under_way.clear();
                    told.clear();
                    // A neighbour that has restarted does not know which packets it has received.
                    is_honest = false;
                }
                _ => from.sender.on_timeout(now),
            },
            _ => {}
        }
        if let Some(skip) = from.sender.poll_skip() {
            to.receiver.on_skip(skip);
        }
        assert!(from.sender.in_flight() <= pushed as usize);
        assert!(to.receiver.ranges().count() <= 1_024);
    }
    // From now on no packet is lost.
    for _ in 0..20_000 {
        if from.sender.is_empty() {
            break;
        }
        now += Duration::from_millis(1);
        leave(&mut from, now, usize::MAX, &mut under_way);
        for packet in core::mem::take(&mut under_way) {
            come(&mut to, now, &packet, &mut arrived);
        }
        let bytes = lane_ack(&mut to, now, 1_000);
        lane_hear(&mut from, &mut to, now, &bytes);
    }
    if is_honest {
        assert!(from.sender.is_empty(), "it comes to rest");
        arrived.sort_unstable();
        let over_the_lane = arrived.len();
        arrived.dedup();
        assert_eq!(arrived.len(), over_the_lane, "no packet arrives twice");
        arrived.extend(took_another_path);
        arrived.sort_unstable();
        arrived.dedup();
        assert_eq!(arrived.len() as u32, pushed, "everything arrives");
    }
}

fn lane_packet(flow: u16, number: u32, bytes: usize) -> Vec<u8> {
    let mut packet = vec![0; bytes];
    let header = Repr {
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
        remaining: Remaining::NONE,
        source: address(0),
        destination: address(1 + usize::from(flow & 1)),
        source_port: VirtualPort(flow),
        destination_port: PORT,
        flow_seq: FlowSeq(number),
        lane_seq: LaneSeq::new(0),
    };
    header.emit(&mut packet).expect("room for the header");
    packet
}

fn lane_number(packet: &[u8]) -> u32 {
    wire::data::Header::trusted(packet).flow_seq().0
}

fn leave(lane: &mut Lane, now: Time, most: usize, under_way: &mut Vec<Vec<u8>>) {
    lane.sender.on_timeout(now);
    for _ in 0..most {
        let Some(length) = lane.sender.peek(now, 0, &|_| None) else {
            return;
        };
        let packet = lane.sender.take(now, 0).expect("it was looked at");
        assert_eq!(packet.bytes.len(), length);
        under_way.push(packet.bytes.to_vec());
    }
}

fn come(lane: &mut Lane, now: Time, packet: &[u8], arrived: &mut Vec<u32>) {
    let seq = wire::data::Header::trusted(packet).lane_seq();
    match lane.receiver.on_packet(now, Duration::ZERO, seq) {
        Arrival::New | Arrival::Recovered => arrived.push(lane_number(packet)),
        Arrival::Duplicate | Arrival::Beyond => {}
    }
}

fn lane_ack(lane: &mut Lane, now: Time, window: u16) -> Vec<u8> {
    let mut bytes = vec![0; 1_400];
    let mut builder = Builder::new(&mut bytes);
    let head = lane.receiver.acknowledge(now, window);
    let told = builder.reliable_ack(&head, lane.receiver.ranges());
    told.expect("room for the fixed part");
    let len = builder.len();
    bytes.truncate(len);
    bytes
}

fn lane_hear(from: &mut Lane, to: &mut Lane, now: Time, bytes: &[u8]) {
    for message in wire::control::Messages::new(bytes) {
        match message.expect("as it was written") {
            wire::control::Message::ReliableAck(ack) => {
                from.sender.on_ack(now, Duration::ZERO, &ack)
            }
            wire::control::Message::ReliableSkip(skip) => to.receiver.on_skip(skip),
            other => panic!("{other:?}"),
        }
    }
}
