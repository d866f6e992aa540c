//! The head of every packet of a scenario's flows, simulated or real.
//!
//! ```text
//!   stream (32 bits) | number (32) | time of sending, ns (64) | zero up to the packet's size
//! ```

use super::PACKET_BYTES_MIN;
use base::Time;

/// Writes the head of a packet, which has at least [`PACKET_BYTES_MIN`] bytes.
pub(crate) fn put(packet: &mut [u8], stream: u32, number: u32, sent: Time) {
    let head = u128::from(stream) << 96 | u128::from(number) << 64 | u128::from(sent.as_nanos());
    packet[..PACKET_BYTES_MIN].copy_from_slice(&head.to_be_bytes());
}

/// Returns stream, number and time of sending; `None` if the packet is too short.
pub(crate) fn read(packet: &[u8]) -> Option<(u32, u32, Time)> {
    let (head, _) = packet.split_first_chunk::<PACKET_BYTES_MIN>()?;
    let head = u128::from_be_bytes(*head);
    let sent = Time::from_nanos(head as u64);
    Some(((head >> 96) as u32, (head >> 64) as u32, sent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_as_written_and_short_ones_are_none() {
        let mut packet = [7; 20];
        let sent = Time::from_nanos(0x0102_0304_0506_0708);
        put(&mut packet, 3, u32::MAX, sent);
        assert_eq!(read(&packet), Some((3, u32::MAX, sent)));
        assert_eq!(packet[16..], [7; 4]);
        for len in 0..PACKET_BYTES_MIN {
            assert_eq!(read(&packet[..len]), None);
        }
    }
}
