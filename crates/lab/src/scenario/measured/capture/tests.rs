//! Captures in the forms of tcpdump and Wireshark: complete, truncated and damaged.

use super::*;
use etherparse::PacketBuilder;
use proptest::prelude::*;

const A: [u8; 4] = [10, 0, 0, 1];
const B: [u8; 4] = [10, 0, 0, 2];

/// A packet of IP, and its time in microseconds.
type Packet = (u32, Vec<u8>);

fn written(builder: PacketBuilderIp, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    builder.write(&mut bytes, payload).unwrap();
    bytes
}

type PacketBuilderIp = etherparse::PacketBuilderStep<etherparse::Icmpv4Header>;

fn asked(us: u32, number: u16) -> Packet {
    let builder = PacketBuilder::ipv4(A, B, 64).icmpv4_echo_request(5, number);
    (us, written(builder, &[0; 8]))
}

fn answered(us: u32, number: u16) -> Packet {
    let builder = PacketBuilder::ipv4(B, A, 64).icmpv4_echo_reply(5, number);
    (us, written(builder, &[0; 8]))
}

fn rtp(us: u32, number: u16) -> Packet {
    let mut payload = [0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 1, 2];
    payload[2..4].copy_from_slice(&number.to_be_bytes());
    let mut bytes = Vec::new();
    let builder = PacketBuilder::ipv4(A, B, 64).udp(4000, 5000);
    builder.write(&mut bytes, &payload).unwrap();
    (us, bytes)
}

/// Writes a file as tcpdump does, with raw IP, or with the header of Ethernet.
fn pcap(packets: &[Packet], is_ethernet: bool) -> Vec<u8> {
    let mut file = 0xa1b2_c3d4_u32.to_le_bytes().to_vec();
    file.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0]);
    file.extend(if is_ethernet { 1_u32 } else { 101 }.to_le_bytes());
    for (us, packet) in packets {
        let head: &[u8] = if is_ethernet {
            &[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]
        } else {
            &[]
        };
        let len = (head.len() + packet.len()) as u32;
        for word in [us / 1_000_000, us % 1_000_000, len, len] {
            file.extend(word.to_le_bytes());
        }
        file.extend(head);
        file.extend(packet);
    }
    file
}

/// Writes a file as Wireshark does: a section, an interface of raw IP, a block for each packet.
fn pcapng(packets: &[Packet]) -> Vec<u8> {
    let block = |kind: u32, body: &[u8]| {
        let len = (12 + body.len()) as u32;
        [
            &kind.to_le_bytes(),
            &len.to_le_bytes(),
            body,
            &len.to_le_bytes(),
        ]
        .concat()
    };
    let section = [
        0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255,
    ];
    let mut file = block(0x0a0d_0d0a, &section);
    file.extend(block(1, &[101, 0, 0, 0, 0, 0, 4, 0]));
    for (us, packet) in packets {
        let len = (packet.len() as u32).to_le_bytes();
        let mut body = [[0; 4], [0; 4], us.to_le_bytes(), len, len].concat();
        body.extend(packet);
        body.resize(body.len().next_multiple_of(4), 0);
        file.extend(block(6, &body));
    }
    file
}

/// Returns twelve requests, 20 ms apart; the fifth has no answer, the others have one after 30 ms.
fn ping() -> Vec<Packet> {
    let mut packets: Vec<Packet> = (0..12)
        .flat_map(|n| {
            let at = 1_000_000 + u32::from(n) * 20_000;
            let answer = (n != 4).then(|| answered(at + 30_000, n));
            [Some(asked(at, n)), answer]
        })
        .flatten()
        .collect();
    packets.sort();
    packets
}

#[test]
fn a_ping_has_delays_and_what_was_not_answered() {
    let twice: Vec<Packet> = ping()
        .into_iter()
        .flat_map(|packet| [packet.clone(), packet])
        .collect();
    for file in [
        pcap(&ping(), false),
        pcap(&ping(), true),
        pcapng(&ping()),
        pcap(&twice, false),
    ] {
        let samples = samples(&file).unwrap();
        assert_eq!(samples.len(), 12);
        for (n, sample) in samples.iter().enumerate() {
            let at_s = 1.0 + 0.02 * n as f64;
            assert!((sample.at_s - at_s).abs() < 1e-6, "{sample:?}");
            assert_eq!((sample.sent, sample.lost == 1), (1, n == 4));
            let delay_ms = sample.delay_ms.unwrap_or(15.0);
            assert!((delay_ms - 15.0).abs() < 1e-3, "{sample:?}");
        }
    }
}

#[test]
fn a_capture_that_was_cut_gives_what_it_has() {
    let file = pcap(&ping(), false);
    // The last request was answered after the cut, so it is left out.
    assert_eq!(samples(&file[..file.len() - 7]).unwrap().len(), 11);
}

#[test]
fn a_stream_has_gaps_also_where_its_numbers_begin_again() {
    let numbers = (0..300_u16)
        .filter(|n| n % 50 != 7)
        .map(|n| n.wrapping_sub(150));
    let packets: Vec<Packet> = numbers.map(|n| rtp(u32::from(n) * 20, n)).collect();
    // A packet that arrives twice adds nothing; one that arrives late was not lost.
    let mut packets = [packets.as_slice(), &packets[200..202]].concat();
    packets.push(rtp(7_000_000, 57_u16.wrapping_sub(150)));
    // A restart is no gap.
    packets.extend((0..50_u16).map(|n| rtp(7_100_000 + u32::from(n) * 20, n + 30_000)));
    let samples = samples(&pcap(&packets, false)).unwrap();
    let sum = |of: fn(&Sample) -> u32| samples.iter().map(of).sum::<u32>();
    assert_eq!((sum(|s| s.sent), sum(|s| s.lost)), (350, 5));
}

#[test]
fn an_outage_of_a_stream_is_lost_while_it_lasts() {
    // There are 50 packets a second for a minute; nothing arrives between 20 and 30 s.
    let numbers = (0..3_000_u16).filter(|n| !(1_000..1_500).contains(n));
    let packets: Vec<Packet> = numbers.map(|n| rtp(u32::from(n) * 20_000, n)).collect();
    let samples = samples(&pcap(&packets, false)).unwrap();
    let lost = samples.iter().filter(|s| (20.0..30.0).contains(&s.at_s));
    assert_eq!(lost.map(|s| s.lost).sum::<u32>(), 500);
}

#[test]
fn what_is_no_measurement_is_refused() {
    for (file, answer) in [
        (pcap(&ping()[..6], false), "no 10 echo requests"),
        (pcap(&[], true), "no 10 echo requests"),
        (
            b"hello, this is no capture at all".to_vec(),
            "a capture of tcpdump",
        ),
        (Vec::new(), "a capture of tcpdump"),
    ] {
        let error = samples(&file).unwrap_err();
        assert!(error.contains(answer), "{error}");
    }
}

proptest! {
    #[test]
    fn no_bytes_panic(at in 0_usize..2_000, with in prop::collection::vec(any::<u8>(), 0..40), is_ng: bool) {
        let mut file = if is_ng { pcapng(&ping()) } else { pcap(&ping(), true) };
        let at = at.min(file.len());
        file.splice(at..(at + with.len()).min(file.len()), with);
        let _ = samples(&file);
    }
}
