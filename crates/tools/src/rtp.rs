//! The twelve bytes before the speech of each packet: the fixed header of RTP (RFC 3550 §5.1).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-------+-+-------------+-------------------------------+
//! |V=2|P|X|  CC=0 |M|  PT = 0     |        sequence number        |
//! +---------------------------------------------------------------+
//! |                           timestamp                           |
//! +---------------------------------------------------------------+
//! |                    synchronisation source                     |
//! +---------------------------------------------------------------+
//! ```
//!
//! Real calls have it, so the emulated ones do. The timestamp counts samples from the call's start
//! and so names the packet, with 32 bits where the sequence number has 16; the source names the call.

use voice::frames::FRAME_SAMPLES;

/// Bytes of the header.
pub const HEADER_BYTES: usize = 12;
/// Bytes of a packet: header and 20 ms of G.711.
pub const PACKET_BYTES: usize = HEADER_BYTES + FRAME_SAMPLES;

const VERSION_2: u8 = 0x80;
const MARKER: u8 = 0x80;
/// Payload type of G.711 µ-law (RFC 3551).
const PCMU: u8 = 0;

/// Which packet of which call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The call's synchronisation source.
    pub source: u32,
    /// Position of the packet in its call, from 0.
    pub index: u32,
}

/// Writes header and speech.
#[must_use]
pub fn emit(place: Place, speech: &[u8; FRAME_SAMPLES]) -> [u8; PACKET_BYTES] {
    let mut packet = [0; PACKET_BYTES];
    packet[..HEADER_BYTES].copy_from_slice(&header(place, PCMU, FRAME_SAMPLES as u32));
    packet[HEADER_BYTES..].copy_from_slice(speech);
    packet
}

/// The header alone, of a codec whose timestamps rise by `step` with each packet.
pub fn header(place: Place, payload_type: u8, step: u32) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[0] = VERSION_2;
    // The first packet of a talkspurt is marked; these calls are one talkspurt.
    header[1] = payload_type | if place.index == 0 { MARKER } else { 0 };
    header[2..4].copy_from_slice(&(place.index as u16).to_be_bytes());
    let timestamp = place.index.wrapping_mul(step);
    header[4..8].copy_from_slice(&timestamp.to_be_bytes());
    header[8..12].copy_from_slice(&place.source.to_be_bytes());
    header
}

/// Which packet this is; `None` when it is none of ours.
#[must_use]
pub fn parse(packet: &[u8]) -> Option<Place> {
    if packet.len() != PACKET_BYTES {
        return None;
    }
    place(packet, PCMU, FRAME_SAMPLES as u32)
}

/// Which packet this is, by a header that [`header`] has written.
pub fn place(packet: &[u8], payload_type: u8, step: u32) -> Option<Place> {
    let header: &[u8; HEADER_BYTES] = packet.first_chunk()?;
    if header[0] != VERSION_2 || header[1] & !MARKER != payload_type {
        return None;
    }
    let sequence = u16::from_be_bytes([header[2], header[3]]);
    let timestamp = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
    let source = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
    let index = timestamp / step;
    let ours = timestamp.is_multiple_of(step) && index as u16 == sequence;
    ours.then_some(Place { source, index })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEECH: [u8; FRAME_SAMPLES] = [0xff; FRAME_SAMPLES];

    #[test]
    fn bytes_are_those_of_the_rfc() {
        let first = emit(
            Place {
                source: 0x5101_0203,
                index: 0,
            },
            &SPEECH,
        );
        assert_eq!(first[..12], [0x80, 0x80, 0, 0, 0, 0, 0, 0, 0x51, 1, 2, 3]);
        let later = emit(
            Place {
                source: 7,
                index: 0x0001_0203,
            },
            &SPEECH,
        );
        // 0x00010203 · 160 = 0x00a141e0
        assert_eq!(
            later[..12],
            [0x80, 0, 2, 3, 0x00, 0xa1, 0x41, 0xe0, 0, 0, 0, 7]
        );
        assert_eq!(later[12..], SPEECH);
    }

    #[test]
    fn every_place_survives() {
        for index in [0, 1, 49, 65_535, 65_536, 26_000_000] {
            for source in [0, 1, u32::MAX] {
                let place = Place { source, index };
                assert_eq!(parse(&emit(place, &SPEECH)), Some(place));
            }
        }
    }

    #[test]
    fn strange_packets_are_nobodys() {
        let good = emit(
            Place {
                source: 1,
                index: 5,
            },
            &SPEECH,
        );
        for len in 0..good.len() {
            assert_eq!(parse(&good[..len]), None);
        }
        for (at, value) in [(0, 0x81), (1, 8), (3, 6), (7, 1)] {
            let mut bad = good;
            bad[at] = value;
            assert_eq!(parse(&bad), None, "byte {at}");
        }
    }
}
