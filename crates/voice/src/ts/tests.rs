use super::psi::crc;
use super::*;
use proptest::prelude::*;

const PID_MAP: u16 = 0x100;
const PID_VIDEO: u16 = 0x101;
const PID_AUDIO: u16 = 0x102;

fn ms(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

/// Returns a packet whose payload repeats one byte.
fn packet(pid: u16, counter: u8) -> Vec<u8> {
    let [high, low] = pid.to_be_bytes();
    let mut bytes = vec![SYNC, high, low, 0x10 | counter & 0x0f];
    bytes.resize(PACKET_BYTES, 0xaa);
    bytes
}

/// Returns a packet that holds a section from its beginning.
fn table(pid: u16, counter: u8, id: u8, body: &[u8]) -> Vec<u8> {
    let len = 5 + body.len() + 4;
    let mut section = vec![id, 0xb0, len as u8, 0, 1, 0xc1, 0, 0];
    section.extend_from_slice(body);
    section.extend(crc(&section).to_be_bytes());
    let mut bytes = packet(pid, counter);
    bytes[1] |= 0x40;
    bytes[4..].fill(0xff);
    bytes[4] = 0;
    bytes[5..5 + section.len()].copy_from_slice(&section);
    bytes
}

fn associations(counter: u8) -> Vec<u8> {
    // Number 0 names the network's table, which is no program.
    table(0, counter, 0, &[0, 0, 0xe0, 0x10, 0, 1, 0xe1, 0x00])
}

fn map(counter: u8) -> Vec<u8> {
    let body = [
        0xe1, 0x01, 0xf0, 0x02, 0x05, 0x00, // clock of the video, a descriptor of two bytes
        0x1b, 0xe1, 0x01, 0xf0, 0x00, // video
        0x0f, 0xe1, 0x02, 0xf0, 0x02, 0x0a, 0x00, // audio, with a descriptor
    ];
    table(PID_MAP, counter, 2, &body)
}

/// Runs a stream of `count` datagrams, one each 20 ms: every fifth has tables, and `each` changes the packets.
fn play(count: u8, each: impl Fn(u8, &mut Vec<Vec<u8>>)) -> Counts {
    let mut monitor = Monitor::new();
    let mut tables = 0;
    for n in 0..count {
        let mut packets = vec![
            packet(PID_VIDEO, n.wrapping_mul(2)),
            packet(PID_VIDEO, n.wrapping_mul(2) + 1),
            packet(PID_AUDIO, n),
            packet(PID_STUFFING, 7),
        ];
        if n.is_multiple_of(5) {
            packets.extend([associations(tables), map(tables)]);
            tables += 1;
        }
        each(n, &mut packets);
        monitor.on_datagram(ms(20 * u64::from(n)), &packets.concat());
    }
    *monitor.counts()
}

#[test]
fn a_right_stream_counts_nothing() {
    let counts = play(200, |_, _| {});
    assert_eq!(
        (counts.first_priority(), counts.datagrams),
        (0, 200),
        "{counts:?}"
    );
    assert_eq!(
        (counts.transport_error, counts.crc_error, counts.foreign),
        (0, 0, 0)
    );
}

#[test]
fn a_lost_packet_is_one_error() {
    let counts = play(200, |n, packets| {
        if n == 50 {
            packets.remove(1);
        }
    });
    assert_eq!(
        (counts.continuity_count_error, counts.first_priority()),
        (1, 1)
    );
}

#[test]
fn a_packet_may_come_twice_and_not_thrice() {
    let copies = |more: usize| {
        play(200, |n, packets| {
            if n == 50 {
                let twice = vec![packets[0].clone(); more];
                packets.splice(0..0, twice);
            }
        })
        .continuity_count_error
    };
    assert_eq!((copies(1), copies(2)), (0, 1));
}

#[test]
fn the_counter_stands_without_payload_and_jumps_where_it_says() {
    let mut monitor = Monitor::new();
    let mut errors = |packet: Vec<u8>| {
        monitor.on_datagram(ms(0), &packet);
        monitor.counts().continuity_count_error
    };
    let adapted = |counter: u8, control: u8, flags: u8| {
        let mut bytes = packet(PID_VIDEO, counter);
        bytes[3] = control | counter;
        bytes[4] = if control == 0x20 { 183 } else { 1 };
        bytes[5] = flags;
        bytes
    };
    for n in 0..5 {
        errors(packet(PID_STUFFING, n));
    }
    assert_eq!(errors(packet(PID_VIDEO, 3)), 0);
    // This packet has only an adaptation field: the counter is that of the last packet.
    assert_eq!(errors(adapted(3, 0x20, 0)), 0);
    assert_eq!(errors(packet(PID_VIDEO, 4)), 0);
    // The counter jumps, and the packet announces it.
    assert_eq!(errors(adapted(9, 0x30, 0x80)), 0);
    assert_eq!(errors(packet(PID_VIDEO, 10)), 0);
    assert_eq!(errors(adapted(11, 0x20, 0)), 1);
    assert_eq!(errors(adapted(13, 0x30, 0)), 2);
}

#[test]
fn one_wrong_sync_byte_is_an_error_and_two_are_a_loss() {
    let wrong = |count: usize| {
        play(200, |n, packets| {
            if n == 50 {
                // The packets are stuffing, so that nothing else is missed.
                for _ in 0..count {
                    let mut stuffing = packet(PID_STUFFING, 0);
                    stuffing[0] = 0x46;
                    packets.insert(0, stuffing);
                }
            }
        })
    };
    let one = wrong(1);
    assert_eq!((one.sync_byte_error, one.ts_sync_loss), (1, 0));
    assert_eq!(one.first_priority(), 1);
    let two = wrong(2);
    assert_eq!((two.sync_byte_error, two.ts_sync_loss), (2, 1));
    // A truncated packet counts as a wrong one.
    let cut = play(200, |n, packets| {
        if n == 50 {
            packets.push(vec![SYNC; 3]);
        }
    });
    assert_eq!((cut.sync_byte_error, cut.first_priority()), (1, 1));
}

#[test]
fn tables_that_do_not_come_are_missed() {
    let without = |pid: u16| {
        play(200, move |n, packets| {
            let is_table =
                |packet: &Vec<u8>| u16::from_be_bytes([packet[1] & 0x1f, packet[2]]) == pid;
            // The table is missing for 600 ms.
            if n > 50 && n < 77 {
                packets.retain(|packet| !is_table(packet));
            }
        })
    };
    let associations = without(0);
    assert_eq!(
        (associations.pat_error, associations.pmt_error),
        (1, 0),
        "{associations:?}"
    );
    let map = without(PID_MAP);
    assert_eq!((map.pat_error, map.pmt_error), (0, 1), "{map:?}");
}

#[test]
fn another_table_in_the_place_of_associations_is_an_error() {
    let counts = play(200, |n, packets| {
        if n == 50 {
            let at = packets.len() - 2;
            packets[at] = table(0, n / 5, 0x42, &[]);
        }
        if n == 60 {
            let at = packets.len() - 2;
            packets[at][3] |= 0x80;
        }
    });
    assert_eq!(
        (counts.pat_error, counts.first_priority()),
        (2, 2),
        "{counts:?}"
    );
}

#[test]
fn a_table_with_a_wrong_checksum_is_none() {
    let counts = play(200, |n, packets| {
        if n == 50 {
            let at = packets.len() - 1;
            packets[at][14] ^= 1;
        }
    });
    assert_eq!(
        (counts.crc_error, counts.first_priority()),
        (1, 0),
        "{counts:?}"
    );
}

#[test]
fn a_stream_that_is_referred_to_and_silent_is_missed() {
    let mut monitor = Monitor::new();
    for n in 0..120_u8 {
        // A table arrives each 100 ms, and the audio ends after a second.
        let mut packets = vec![associations(n), map(n), packet(PID_VIDEO, n)];
        if n < 10 {
            packets.push(packet(PID_AUDIO, n));
        }
        monitor.on_datagram(ms(100 * u64::from(n)), &packets.concat());
    }
    let counts = monitor.counts();
    assert_eq!(
        (counts.pid_error, counts.first_priority()),
        (2, 2),
        "{counts:?}"
    );
}

#[test]
fn rtp_in_front_changes_nothing_and_other_rtp_is_foreign() {
    let mut monitor = Monitor::new();
    let header = |payload_type| crate::rtp::Header {
        marker: false,
        payload_type,
        seq: 1,
        timestamp: 2,
        ssrc: 3,
    };
    for n in 0..20 {
        let stream = [associations(n), map(n), packet(PID_VIDEO, n)].concat();
        let datagram = [&header(RTP_PAYLOAD_TYPE).to_bytes()[..], &stream].concat();
        monitor.on_datagram(ms(u64::from(n)), &datagram);
    }
    // The packets before the stream is in sync are not counted.
    assert_eq!(monitor.counts().packets, 56);
    assert_eq!(monitor.counts().first_priority(), 0);
    monitor.on_datagram(ms(30), &[&header(0).to_bytes()[..], &[0; 160]].concat());
    assert_eq!(
        (monitor.counts().foreign, monitor.counts().first_priority()),
        (1, 0)
    );
}

#[test]
fn a_section_over_several_packets_is_put_together() {
    let streams: Vec<u8> = (0..60).flat_map(|n| [0x1b, 0xe2, n, 0xf0, 0]).collect();
    let body = [&[0xe1, 0x01, 0xf0, 0][..], &streams].concat();
    let len = 5 + body.len() + 4;
    let mut section = vec![2, 0xb0 | (len >> 8) as u8, len as u8, 0, 1, 0xc1, 0, 0];
    section.extend_from_slice(&body);
    section.extend(crc(&section).to_be_bytes());
    let mut rest = &section[..];
    let mut monitor = Monitor::new();
    monitor.on_datagram(
        ms(0),
        &[packet(PID_STUFFING, 0), packet(PID_STUFFING, 0)].concat(),
    );
    for n in 0..5 {
        monitor.on_datagram(ms(0), &associations(n));
    }
    for n in 0.. {
        let mut one = packet(PID_MAP, n);
        one[4..].fill(0xff);
        let at = if n == 0 { 5 } else { 4 };
        if n == 0 {
            one[1] |= 0x40;
            one[4] = 0;
        }
        let part;
        (part, rest) = rest.split_at(rest.len().min(PACKET_BYTES - at));
        one[at..at + part.len()].copy_from_slice(part);
        monitor.on_datagram(ms(1), &one);
        if rest.is_empty() {
            break;
        }
    }
    assert_eq!(monitor.referred.len(), 60);
    assert_eq!(monitor.referred.keys().next(), Some(&0x200));
}

/// Applies the rule of ETSI TR 101 290 for the counter to all packets of one stream at once.
fn naive_errors(counters: &[u8]) -> u64 {
    let mut errors = 0;
    for (at, &counter) in counters.iter().enumerate().skip(1) {
        let before = counters[at - 1];
        let is_next = counter == (before + 1) % 16;
        // A packet is a copy, unless the previous one was a copy as well.
        let is_copy =
            counter == before && at.checked_sub(2).is_none_or(|at| counters[at] != counter);
        errors += u64::from(!is_next && !is_copy);
    }
    errors
}

proptest! {
    #[test]
    fn continuity_agrees_with_a_naive_count(counters in prop::collection::vec(0_u8..4, 1..60)) {
        let mut monitor = Monitor::new();
        for _ in 0..5 {
            monitor.on_datagram(ms(0), &packet(PID_STUFFING, 0));
        }
        for counter in &counters {
            monitor.on_datagram(ms(0), &packet(PID_VIDEO, *counter));
        }
        prop_assert_eq!(monitor.counts().continuity_count_error, naive_errors(&counters));
    }

    #[test]
    fn any_bytes_are_counted(datagrams in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..400), 0..40)) {
        let mut monitor = Monitor::new();
        for (n, datagram) in datagrams.iter().enumerate() {
            monitor.on_datagram(ms(n as u64), datagram);
        }
        prop_assert_eq!(monitor.counts().datagrams, datagrams.len() as u64);
    }
}
