//! Packets of emulated calls: RTP whose header identifies the call and the packet.
//!
//! Real calls have this header, so the emulated ones have it too. The timestamp counts samples from the call's start
//! and so identifies the packet, with 32 bits instead of the 16 of the sequence number; the source identifies the call.

use super::{HEADER_BYTES, Header, Packet};
use crate::frames::FRAME_SAMPLES;

/// Bytes of a packet: header and 20 ms of G.711.
pub const PACKET_BYTES: usize = HEADER_BYTES + FRAME_SAMPLES;

/// Version 2, with no padding, extension or contributing sources: the first byte of all these packets.
const PLAIN: u8 = 0x80;
/// Payload type of G.711 µ-law (RFC 3551).
const PCMU: u8 = 0;

/// The call and the number of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The call's synchronisation source.
    pub source: u32,
    /// Position of the packet in its call, from 0.
    pub index: u32,
}

impl Place {
    /// Returns the header for a codec whose timestamps rise by `step` with each packet.
    #[must_use]
    pub fn header(self, payload_type: u8, step: u32) -> [u8; HEADER_BYTES] {
        let header = Header {
            // The first packet of a talkspurt is marked; these calls are one talkspurt.
            marker: self.index == 0,
            payload_type,
            seq: self.index as u16,
            timestamp: self.index.wrapping_mul(step),
            ssrc: self.source,
        };
        header.to_bytes()
    }

    /// Returns the call and number of a packet from a header that [`Place::header`] has written.
    #[must_use]
    pub fn of(packet: &[u8], payload_type: u8, step: u32) -> Option<Place> {
        let header = Packet::parse(packet).ok()?.header();
        if packet[0] != PLAIN || header.payload_type != payload_type {
            return None;
        }
        let index = header.timestamp.checked_div(step)?;
        let is_ours = header.timestamp.is_multiple_of(step) && index as u16 == header.seq;
        is_ours.then_some(Place {
            source: header.ssrc,
            index,
        })
    }
}

/// Returns a packet with header and speech.
#[must_use]
pub fn emit(place: Place, speech: &[u8; FRAME_SAMPLES]) -> [u8; PACKET_BYTES] {
    let mut packet = [0; PACKET_BYTES];
    packet[..HEADER_BYTES].copy_from_slice(&place.header(PCMU, FRAME_SAMPLES as u32));
    packet[HEADER_BYTES..].copy_from_slice(speech);
    packet
}

/// Returns the call and number of a packet, and the speech in it; `None` if it is not an emulated call's.
#[must_use]
pub fn parse(packet: &[u8]) -> Option<(Place, &[u8; FRAME_SAMPLES])> {
    let speech = packet.get(HEADER_BYTES..)?.try_into().ok()?;
    let place = Place::of(packet, PCMU, FRAME_SAMPLES as u32)?;
    Some((place, speech))
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
                assert_eq!(parse(&emit(place, &SPEECH)), Some((place, &SPEECH)));
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
