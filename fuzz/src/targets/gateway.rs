//! Fuzz targets of `gateway`: messages of SOCKS clients and of phones, and messages and packets of hosts on a network.

use base::{Duration, NodeAddr, Time};
use core::net::{Ipv4Addr, Ipv6Addr};
use gateway::multicast::bridge::{self, Bridge};
use gateway::multicast::channel::carrier;
use gateway::multicast::drops::Drop;
use gateway::multicast::hello::{Rank, Role};
use gateway::multicast::igmp::emit::Speaker;
use gateway::multicast::igmp::{
    self, Address, Host, Message, Querier, Query, RecordKind, Timing, emit, mld,
};
use gateway::multicast::notice::Notice;
use gateway::multicast::{Rules, packet};
use gateway::socks::message;

use crate::Target;

pub(crate) const TARGETS: &[Target] = &[
    ("gateway_socks", socks),
    ("gateway_rules", rules),
    ("gateway_sip", sip),
    ("gateway_igmp", hosts),
    ("gateway_mld", hosts_v6),
    ("gateway_bridge", multicast_bridge),
    ("gateway_amt", amt),
];

/// No reader takes more bytes than exist, and a parsed datagram has its payload at its end.
fn socks(data: &[u8]) {
    let takes = [
        message::greeting(data).map(|read| read.map(|(_, used)| used)),
        message::user(data).map(|read| read.map(|(_, used)| used)),
        message::request(data).map(|read| read.map(|(_, used)| used)),
    ];
    for used in takes.into_iter().flatten().flatten() {
        assert!(used <= data.len());
    }
    if let Ok(Some((from, payload))) = message::datagram(data) {
        let (header, len) = message::datagram_header(&from);
        assert_eq!([&header[..len], payload].concat(), data);
    }
}

/// A parsed rule is written as one with the same meaning.
fn rules(data: &[u8]) {
    let Ok(text) = core::str::from_utf8(data) else {
        return;
    };
    if let Ok(rule) = text.parse::<gateway::allow::Rule>() {
        assert_eq!(rule.to_string().parse(), Ok(rule));
    }
}

/// The next gateway can parse a message that passes, and passes it on, too. A gateway adds only its own bytes.
fn sip(data: &[u8]) {
    let Some(passed) = gateway::sip::passed_on(data, "192.0.2.1:5060") else {
        return;
    };
    // A compact header grows to its full name, and a gateway adds a Via and a Record-Route.
    assert!(
        passed.len() <= 3 * data.len() + 1_000,
        "{} of {}",
        passed.len(),
        data.len()
    );
    if let Some(again) = gateway::sip::passed_on(&passed, "192.0.2.2:5060") {
        assert!(again.len() <= passed.len() + 1_000);
    }
}

/// A parsed message survives being written and parsed again. Whatever hosts and routers send, a router's table keeps
/// its limits, and becomes empty after they have become silent.
fn hosts(data: &[u8]) {
    let mut message = data.to_vec();
    // With a correct checksum, changed bytes get beyond the checksum test.
    emit::put_checksum(&mut message);
    let Ok(message) = Message::parse(&message) else {
        return;
    };
    if let Message::ReportV3(records) = &message {
        let records: Vec<_> = records
            .iter()
            .map(|record| (record.kind, record.group, record.sources.iter().collect()))
            .collect();
        survives(&records);
    }
    let own = [1, 2, 9].map(|n| Ipv4Addr::new(10, 0, 0, n));
    ends(&message, own, Ipv4Addr::new(239, 1, 1, 1));
}

/// The same for MLD, with the bytes of a whole packet.
fn hosts_v6(data: &[u8]) {
    let mut packet = data.to_vec();
    mend_v6(&mut packet);
    let Ok(ip) = packet::Ip::parse(&packet) else {
        return;
    };
    if !mld::is_mld(&ip, &packet) {
        return;
    }
    let Ok(message) = mld::parse(&ip, &packet) else {
        return;
    };
    if let Message::ReportV3(records) = &message {
        let records: Vec<SaidV6> = records
            .iter()
            .map(|record| (record.kind, record.group, record.sources.iter().collect()))
            .collect();
        let mut frame = Vec::new();
        let from = Speaker {
            mac: [2, 0, 0, 0, 0, 1],
            address: Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9),
        };
        let each = records
            .iter()
            .map(|(kind, group, sources)| (*kind, *group, &sources[..]));
        let count = mld::report(&mut frame, from, each);
        let packet = &frame[packet::ETHERNET_BYTES..];
        let ip = packet::Ip::parse(packet).expect("a right header");
        let Ok(Message::ReportV3(again)) = mld::parse(&ip, packet) else {
            panic!("what was written is not read");
        };
        let again = again.iter().map(|record| {
            let said: SaidV6 = (record.kind, record.group, record.sources.iter().collect());
            said
        });
        assert!(again.eq(records[..count].iter().cloned()));
    }
    let own = [1, 2, 9].map(|n| Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, n));
    ends(&message, own, Ipv6Addr::new(0xff1e, 0, 0, 0, 0, 0, 0, 1));
}

type SaidV6 = (RecordKind, Ipv6Addr, Vec<Ipv6Addr>);

/// Whatever hosts and routers send, a table becomes empty after they have become silent.
fn ends<A: Address>(message: &Message<'_, A>, [lower, own, higher]: [A; 3], wanted: A) {
    let timing = Timing::default();
    let mut querier = Querier::new(timing, own, true, Time::ZERO);
    let mut host = Host::new(&timing, 1);
    host.want(Time::ZERO, wanted, Vec::new());
    let (mut now, mut members) = (Time::from_nanos(1), Counted::default());
    for from in [lower, higher] {
        let from = Speaker {
            mac: [2, 0, 0, 0, 0, 9],
            address: from,
        };
        querier.on_message(now, from, message, &Rules::default(), &mut members);
        if let Message::Query(asked) = message {
            host.on_query(now, asked, &timing);
        }
        now += Duration::from_millis(300);
        querier.on_timeout(now, &mut members);
    }
    assert_eq!(members.0 as usize, querier.groups().len());
    let mut turns = 0;
    while querier.groups().len() > 0 {
        now = now.max(querier.next_timeout());
        querier.on_timeout(now, &mut members);
        turns += 1;
        assert!(turns < 100_000, "it never ends");
    }
    assert_eq!(members.0, 0);
}

type Said = (RecordKind, Ipv4Addr, Vec<Ipv4Addr>);

fn survives(records: &[Said]) {
    let speaker = Speaker {
        mac: [2, 0, 0, 0, 0, 1],
        address: Ipv4Addr::new(10, 0, 0, 9),
    };
    let mut frame = Vec::new();
    let each = records
        .iter()
        .map(|(kind, group, sources)| (*kind, *group, &sources[..]));
    let count = emit::report(&mut frame, speaker, each);
    let packet = &frame[packet::ETHERNET_BYTES..];
    let ip = packet::Ip::parse(packet).expect("a right header");
    let again = Message::parse(&packet[ip.header_bytes..ip.total_bytes]);
    let Ok(Message::ReportV3(again)) = again else {
        panic!("what was written is not read");
    };
    let again = again.iter().map(|record| {
        let said: Said = (record.kind, record.group, record.sources.iter().collect());
        said
    });
    assert!(again.eq(records[..count].iter().cloned()));
}

/// The number of groups with members, according to the reports.
#[derive(Default)]
struct Counted(i64);

impl<A> igmp::Outlet<A> for Counted {
    fn query(&mut self, _: &Query<'_, A>) {}
    fn member(&mut self, _: A, is_wanted: bool) {
        self.0 += if is_wanted { 1 } else { -1 };
    }
    fn channel(&mut self, _: A, _: A, _: bool) {}
    fn refused(&mut self, _: Speaker<A>, _: A, _: Drop) {}
    fn unanswered(&mut self, _: A) {}
}

impl bridge::Outlet for Counted {
    fn transmit(&mut self, frame: &[u8]) {
        assert!((60..=1_514).contains(&frame.len()));
    }
    fn member(&mut self, _: NodeAddr, is_wanted: bool) {
        self.0 += if is_wanted { 1 } else { -1 };
    }
    fn notice(&mut self, _: Notice) {}
    fn role(&mut self, _: Role, _: Option<Rank>) {}
}

/// Sends frames, packets of the overlay, and time to a bridge. One byte selects the operation, another one its amount;
/// then come the bytes. A packet that crosses is complete, and its group is allowed.
fn multicast_bridge(mut data: &[u8]) {
    const MTU: usize = 200;
    let port = bridge::Port {
        address: Some((Ipv4Addr::new(10, 1, 0, 1), 24)),
        mtu: MTU,
        filters_path: true,
    };
    let mut now = Time::from_nanos(1);
    let mut bridge = Bridge::new(bridge::Settings::new(NodeAddr(0x0a07_0001), 1), now);
    let mut out = Counted::default();
    bridge.set_port(now, Some(port), &mut out);
    while let Some((&[what, len], rest)) = data.split_first_chunk() {
        // Only frames and packets have further bytes.
        let count = if matches!(what % 5, 1..=3) { len } else { 0 };
        let (bytes, rest) = rest.split_at(rest.len().min(count.into()));
        data = rest;
        let mut bytes = bytes.to_vec();
        match what % 5 {
            0 => {
                now += Duration::from_millis(10 * u64::from(len));
                while bridge.next_timeout() <= now {
                    bridge.on_timeout(now, &mut out);
                }
            }
            1 | 2 => {
                if what % 5 == 2 && bytes.len() > packet::ETHERNET_BYTES {
                    mend(&mut bytes[packet::ETHERNET_BYTES..]);
                }
                if let Some((group, sent)) = bridge.on_frame(now, &mut bytes, &mut out) {
                    let ip = packet::Ip::parse(sent).expect("a right header");
                    assert_eq!(ip.total_bytes, sent.len());
                    assert_eq!(carrier(ip.destination, ip.source), group);
                    assert!(Rules::default().allows(ip.destination) && ip.ttl > 0);
                }
            }
            3 => {
                mend(&mut bytes);
                let group = match packet::Ip::parse(&bytes) {
                    Ok(ip) => carrier(ip.destination, ip.source),
                    Err(_) => NodeAddr(0xef01_0101),
                };
                let put = &mut |head: &[u8], body: &[u8]| {
                    let frame = [head, body].concat();
                    assert!(frame.len() <= packet::ETHERNET_BYTES + MTU);
                    let packet = &frame[packet::ETHERNET_BYTES..];
                    let ip = packet::Ip::parse(packet).expect("a right header");
                    assert_eq!(ip.total_bytes, packet.len());
                };
                bridge.on_overlay(now, group, &bytes, &mut out, put);
            }
            _ => {
                bridge.set_reach(now, len & 2 == 0, &mut out);
                let port = (len % 2 == 0).then_some(port);
                bridge.set_port(now, port, &mut out);
            }
        }
    }
    bridge.set_port(now, None, &mut out);
    assert_eq!(out.0, 0, "all that was joined is left");
}

/// A parsed message survives being written and parsed again. A relay to which nobody has shown a valid MAC keeps
/// nothing, and answers at most once.
fn amt(data: &[u8]) {
    use gateway::amt::message::Message as Amt;
    use gateway::amt::relay::{self, Outlet, Relay};

    struct Answers(Vec<Vec<u8>>);
    impl Outlet for Answers {
        fn send(&mut self, _: core::net::SocketAddr, bytes: &[u8]) -> bool {
            self.0.push(bytes.to_vec());
            true
        }
        fn member(&mut self, _: NodeAddr, _: bool) {
            panic!("nobody has shown a MAC");
        }
    }

    if let Ok(message) = Amt::parse(data) {
        let mut bytes = Vec::new();
        message.emit(&mut bytes);
        assert_eq!(Amt::parse(&bytes), Ok(message));
    }
    let now = Time::from_nanos(1);
    let settings = relay::Settings {
        address: Ipv4Addr::new(192, 0, 2, 1).into(),
        rules: Rules::default(),
        secret: [7; 32],
    };
    let mut relay = Relay::new(settings, now);
    let mut answers = Answers(Vec::new());
    let from = (Ipv4Addr::new(192, 0, 2, 7), 40_000).into();
    relay.on_datagram(now, from, data, &mut answers);
    relay.on_overlay(now, NodeAddr(0xef01_0101), data, &mut answers);
    assert!(answers.0.len() <= 1 && relay.tunnels() == 0);
    for answer in &answers.0 {
        assert!(Amt::parse(answer).is_ok());
    }
}

/// Corrects the length of an IPv6 packet, and the checksum of MLD behind a router alert.
fn mend_v6(packet: &mut [u8]) {
    const MESSAGE_AT: usize = packet::IPV6_BYTES + 8;
    if let Some(payload) = packet.len().checked_sub(packet::IPV6_BYTES) {
        packet[4..6].copy_from_slice(&(payload as u16).to_be_bytes());
        if packet[6] == packet::PROTOCOL_OPTIONS {
            mld::put_checksum(packet, MESSAGE_AT);
        }
    }
}

/// Corrects lengths and checksums of a packet, and of IGMP or MLD in it, so that changed bytes get beyond these tests.
fn mend(packet: &mut [u8]) {
    if packet.first().is_some_and(|first| first >> 4 == 6) {
        return mend_v6(packet);
    }
    let total = packet.len() as u16;
    let header = usize::from(packet.first().copied().unwrap_or(0) & 0xf) * 4;
    if header < packet::IPV4_BYTES || packet.len() < header {
        return;
    }
    packet[2..4].copy_from_slice(&total.to_be_bytes());
    packet[10..12].fill(0);
    let right = packet::checksum(&packet[..header]);
    packet[10..12].copy_from_slice(&right.to_be_bytes());
    if packet[9] == packet::PROTOCOL_IGMP {
        emit::put_checksum(&mut packet[header..]);
    }
}
