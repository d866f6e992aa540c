//! Packets seen a moment ago, to recognize a packet that comes back.
//!
//! Bridges recognize each other's frames by the Ethernet address. The digest is for packets that come back under
//! another address: from a router, a wireless network, or a cable that closes a loop.

use super::packet::{IPV4_BYTES, IPV6_BYTES};
use base::{Duration, Time};

/// How long a packet is remembered. A packet that loops on an Ethernet is back within milliseconds, and one that loops
/// through an overlay within its deadline.
pub const HOLD: Duration = Duration::from_secs(1);
/// Number of packets that are remembered: a second of 16 k packets/s, or the last 200 ms of 80 k packets/s. Each takes
/// 16 bytes, 256 KiB in all.
pub const SLOTS: usize = 1 << 14;
/// Number of bytes from the start of the payload that the fingerprint covers. They include the checksum of UDP, which
/// depends on the whole payload.
const PAYLOAD_BYTES: usize = 64;
/// 2^64 divided by the golden ratio, rounded to an odd number.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Fingerprints of packets seen a moment ago.
#[derive(Debug)]
pub struct Digest {
    seed: u64,
    slots: Box<[Slot]>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    print: u64,
    until: Time,
}

/// The fingerprint of a packet, which does not change on the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Print(u64);

impl Digest {
    /// Creates an empty digest. Without the seed, nobody can make two packets look alike.
    #[must_use]
    pub fn new(seed: u64) -> Digest {
        let none = Slot {
            print: 0,
            until: Time::ZERO,
        };
        Digest {
            seed: seed | 1,
            slots: vec![none; SLOTS].into_boxed_slice(),
        }
    }

    /// Returns the fingerprint of an IP packet. It covers everything except the TTL or hop limit and the header's
    /// checksum, which routers change.
    #[must_use]
    pub fn print(&self, packet: &[u8]) -> Print {
        let mut mixed = self.seed;
        let mut mix = |word: u64| {
            let wide = u128::from(mixed.rotate_left(23) ^ word) * u128::from(MULTIPLIER);
            mixed = (wide as u64) ^ ((wide >> 64) as u64);
        };
        let is_v6 = packet.first().is_some_and(|first| first >> 4 == 6);
        let header = if is_v6 { IPV6_BYTES } else { IPV4_BYTES };
        let upto = packet.len().min(header + PAYLOAD_BYTES);
        for (n, chunk) in packet[..upto].chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            match (n, is_v6) {
                (0, true) => word[7] = 0,
                (1, false) => (word[0], word[2], word[3]) = (0, 0, 0),
                _ => {}
            }
            mix(u64::from_le_bytes(word));
        }
        Print(mixed)
    }

    /// Remembers a packet.
    pub fn insert(&mut self, now: Time, Print(print): Print) {
        self.slots[slot(print)] = Slot {
            print,
            until: now + HOLD,
        };
    }

    /// Returns whether the packet was seen a moment ago.
    #[must_use]
    pub fn contains(&self, now: Time, Print(print): Print) -> bool {
        let slot = &self.slots[slot(print)];
        slot.print == print && slot.until > now
    }
}

fn slot(print: u64) -> usize {
    print as usize % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_known_again_whatever_its_ttl_for_a_second() {
        let mut digest = Digest::new(1);
        let mut packet = [0x45u8; 100];
        let print = digest.print(&packet);
        digest.insert(Time::ZERO, print);
        (packet[8], packet[10], packet[11]) = (1, 2, 3);
        assert_eq!(digest.print(&packet), print);
        assert!(digest.contains(Time::ZERO, print));
        assert!(!digest.contains(Time::ZERO + HOLD, print));
    }

    #[test]
    fn a_packet_of_ipv6_is_known_whatever_its_hop_limit_and_by_its_payload() {
        let digest = Digest::new(1);
        let mut packet = [0x60u8; 140];
        let print = digest.print(&packet);
        packet[7] = 1;
        assert_eq!(digest.print(&packet), print);
        for at in (0..IPV6_BYTES + PAYLOAD_BYTES).filter(|&at| at != 7) {
            let mut changed = packet;
            changed[at] ^= 1;
            assert_ne!(digest.print(&changed), print, "{at}");
        }
    }

    #[test]
    fn packets_that_differ_in_a_bit_differ() {
        let digest = Digest::new(1);
        let packet: [u8; 84] = core::array::from_fn(|n| n as u8);
        let print = digest.print(&packet);
        for at in (0..84).filter(|at| ![8, 10, 11].contains(at)) {
            let mut changed = packet;
            changed[at] ^= 1;
            assert_ne!(digest.print(&changed), print, "{at}");
        }
        for len in 0..84 {
            assert_ne!(digest.print(&packet[..len]), print, "{len}");
        }
        assert_ne!(Digest::new(3).print(&packet), print, "the seed counts");
    }
}
