//! Datagrams of one program that are put onto a TAP together, so that the kernel does its work once and not for each
//! datagram.
//!
//! ```text
//!   IP UDP payload | IP UDP payload | IP UDP payload ──▶ IP UDP payload payload payload ──▶ the kernel cuts them
//! ```
//! Datagrams are combined only if the kernel's split restores them exactly. They have equal headers, no fragmentation,
//! no options, the same length (the last one may be shorter) and correct checksums. Their ids increase by one, or have
//! no meaning because the packet may not be fragmented. [RFC 6864 §4.1]

use super::packet::{ETHERNET_BYTES, IPV4_BYTES, PROTOCOL_UDP, checksum, sum};
use net::packet::Frame;

/// Length of all headers in bytes.
pub const HEAD_BYTES: usize = ETHERNET_BYTES + HEADERS_BYTES;
/// Length of the headers of IP and UDP in bytes.
pub const HEADERS_BYTES: usize = IPV4_BYTES + 8;
/// Maximum number of datagrams that the kernel splits (`UDP_MAX_SEGMENTS` of older kernels).
pub const DATAGRAMS_MAX: usize = 64;
/// Maximum total payload: the length of an IP packet has 16 bits.
const PAYLOAD_BYTES_MAX: usize = 65_535 - HEADERS_BYTES;

/// The fields that must be the same in two datagrams, and the ids.
#[derive(Clone, Copy)]
struct Key {
    /// The TOS, then the flags and the TTL, then the addresses and ports.
    same: ([u8; 1], [u8; 3], [u8; 12]),
    id: u16,
    dont_fragment: bool,
    payload: usize,
}

/// Returns how many of `frames`, from the first one on, can be sent together; 1 if the first one must go alone.
#[must_use]
pub fn length(frames: &[Frame<'_>]) -> usize {
    let mut frames = frames.iter();
    let Some(first) = frames.next().and_then(key) else {
        return 1;
    };
    let (mut count, mut bytes, mut id) = (1, first.payload, first.id);
    for frame in frames.take(DATAGRAMS_MAX - 1) {
        let Some(next) = key(frame) else { break };
        bytes += next.payload;
        id = id.wrapping_add(1);
        let is_next = next.same == first.same
            && (first.dont_fragment || next.id == id)
            && next.payload <= first.payload
            && bytes <= PAYLOAD_BYTES_MAX;
        if !is_next {
            break;
        }
        count += 1;
        if next.payload < first.payload {
            break;
        }
    }
    count
}

/// Returns the headers of a train that [`length`] has found, and the length of the payload in each datagram.
#[must_use]
pub fn head(frames: &[Frame<'_>]) -> Option<([u8; HEAD_BYTES], u16)> {
    let first = frames.first()?;
    let mut head = [0; HEAD_BYTES];
    head[..ETHERNET_BYTES].copy_from_slice(first.head());
    head[ETHERNET_BYTES..].copy_from_slice(first.body().first_chunk::<HEADERS_BYTES>()?);
    let payload = |frame: &Frame<'_>| frame.body().len() - HEADERS_BYTES;
    let total: usize = frames.iter().map(payload).sum();
    let (ip, udp) = head[ETHERNET_BYTES..].split_at_mut(IPV4_BYTES);
    ip[2..4].copy_from_slice(&((HEADERS_BYTES + total) as u16).to_be_bytes());
    ip[10..12].fill(0);
    let right = checksum(ip);
    ip[10..12].copy_from_slice(&right.to_be_bytes());
    let length = (8 + total) as u16;
    udp[4..6].copy_from_slice(&length.to_be_bytes());
    udp[6..8].copy_from_slice(&pseudo(ip, length).to_be_bytes());
    Some((head, payload(first) as u16))
}

/// Returns the fields to compare, if the frame can be part of a train.
fn key(frame: &Frame<'_>) -> Option<Key> {
    let packet = frame.body();
    let (headers, payload) = packet.split_first_chunk::<HEADERS_BYTES>()?;
    let flags = u16::from_be_bytes([headers[6], headers[7]]);
    let length = u16::from_be_bytes([headers[24], headers[25]]);
    let is_plain = frame.head().len() == ETHERNET_BYTES
        && headers[0] == 0x45
        && headers[9] == PROTOCOL_UDP
        // The packet is not a fragment, and the reserved bit is not set.
        && flags & !0x4000 == 0
        && usize::from(length) == 8 + payload.len()
        && !payload.is_empty()
        // A datagram without a checksum would get one.
        && headers[26..28] != [0, 0];
    if !is_plain {
        return None;
    }
    // The kernel will write a correct checksum, so a wrong one must not pass here.
    let (ip, datagram) = packet.split_at(IPV4_BYTES);
    let total = u32::from(pseudo(ip, length)) + u32::from(sum(datagram));
    if (total & 0xffff) + (total >> 16) != 0xffff {
        return None;
    }
    let mut addresses = [0; 12];
    addresses.copy_from_slice(&headers[12..24]);
    Some(Key {
        same: (
            [headers[1]],
            [headers[6], headers[7], headers[8]],
            addresses,
        ),
        id: u16::from_be_bytes([headers[4], headers[5]]),
        dont_fragment: flags & 0x4000 != 0,
        payload: payload.len(),
    })
}

/// Returns the sum of the UDP pseudo header.
fn pseudo(ip: &[u8], length: u16) -> u16 {
    let total = u32::from(sum(&ip[12..20])) + u32::from(PROTOCOL_UDP) + u32::from(length);
    ((total & 0xffff) + (total >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a datagram as Linux sends it, with correct checksums.
    fn datagram(id: u16, flags: u16, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x45, 0xb8];
        packet.extend(((HEADERS_BYTES + payload.len()) as u16).to_be_bytes());
        packet.extend(id.to_be_bytes());
        packet.extend(flags.to_be_bytes());
        packet.extend([8, PROTOCOL_UDP, 0, 0, 10, 0, 0, 1, 239, 1, 1, 1]);
        let right = checksum(&packet);
        packet[10..12].copy_from_slice(&right.to_be_bytes());
        let length = 8 + payload.len() as u16;
        packet.extend([0x13, 0x8c, 0x13, 0x8c]);
        packet.extend(length.to_be_bytes());
        packet.extend([0, 0]);
        packet.extend(payload);
        let mut whole = pseudo(&packet, length).to_be_bytes().to_vec();
        whole.extend(&packet[IPV4_BYTES..]);
        let right = checksum(&whole);
        packet[26..28].copy_from_slice(&right.to_be_bytes());
        packet
    }

    fn together(packets: &[Vec<u8>]) -> usize {
        let frames: Vec<_> = packets.iter().map(|p| Frame::new(&[0; 14], p)).collect();
        length(&frames)
    }

    #[test]
    fn equal_datagrams_go_together_and_a_shorter_one_is_the_last() {
        for flags in [0, 0x4000] {
            let all: Vec<_> = (0..5)
                .map(|n| datagram(65_534u16.wrapping_add(n), flags, &[n as u8; 100]))
                .collect();
            assert_eq!(together(&all), 5);
            let mut mixed = all.clone();
            mixed[2] = datagram(0, flags, &[9; 40]);
            assert_eq!(together(&mixed), 3);
            mixed[2] = datagram(0, flags, &[9; 101]);
            assert_eq!(together(&mixed), 2);
        }
        let still: Vec<_> = (0..3).map(|_| datagram(0, 0x4000, &[1; 10])).collect();
        assert_eq!(
            together(&still),
            3,
            "ids of what may not be fragmented mean nothing"
        );
        let still: Vec<_> = (0..3).map(|_| datagram(0, 0, &[1; 10])).collect();
        assert_eq!(together(&still), 1);
        let many: Vec<_> = (0..100).map(|n| datagram(n, 0, &[1; 1_300])).collect();
        assert_eq!(together(&many), PAYLOAD_BYTES_MAX / 1_300);
        let many: Vec<_> = (0..100).map(|n| datagram(n, 0, &[1; 10])).collect();
        assert_eq!(together(&many), DATAGRAMS_MAX);
    }

    #[test]
    fn what_would_be_changed_goes_alone() {
        let good = datagram(1, 0, &[1; 100]);
        let next = datagram(2, 0, &[2; 100]);
        assert_eq!(together(&[good.clone(), next.clone()]), 2);
        // Version and options, TOS, reserved bit, fragment, TTL, protocol, addresses, ports, length, payload.
        for at in [0, 1, 6, 7, 8, 9, 15, 19, 21, 23, 25, 26, 60] {
            let mut other = next.clone();
            other[at] ^= if at == 6 { 0x80 } else { 1 };
            assert_eq!(together(&[good.clone(), other.clone()]), 1, "{at}");
            if ![1, 8, 15, 19, 21, 23].contains(&at) {
                assert_eq!(together(&[other, datagram(3, 0, &[2; 100])]), 1, "{at}");
            }
        }
        let mut without = next.clone();
        without[26..28].fill(0);
        assert_eq!(together(&[good, without]), 1);
        for len in 0..next.len() {
            assert_eq!(together(&[next[..len].to_vec(), next.clone()]), 1, "{len}");
        }
    }

    #[test]
    fn the_head_is_that_of_one_long_datagram() {
        let all: Vec<_> = (0..3).map(|n| datagram(n, 0, &[n as u8; 100])).collect();
        let frames: Vec<_> = all.iter().map(|p| Frame::new(&[7; 14], p)).collect();
        let (head, segment) = head(&frames).unwrap();
        assert_eq!((segment, &head[..14]), (100, &[7; 14][..]));
        let ip = &head[14..34];
        assert_eq!(sum(ip), 0xffff);
        assert_eq!(ip[2..4], 328u16.to_be_bytes());
        assert_eq!(head[38..40], 308u16.to_be_bytes());
        assert_eq!(head[40..42], pseudo(ip, 308).to_be_bytes());
    }
}
