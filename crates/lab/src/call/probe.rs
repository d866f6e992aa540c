//! The packets of a synthetic call: as large as speech, but they carry times.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |               RTP header, 12 bytes (lab::rtp)                 |
//! +---------------------------------------------------------------+
//! |                       magic "SNWC"                            |
//! +---------------+---------------+-------------------------------+
//! | kind          | hearings, n   |           zero                |
//! +---------------+---------------+-------------------------------+
//! | n × (packet's number, low 16 bits; when it was heard, in µs   |
//! | of the answerer's clock, low 32 bits), the latest first ...   |
//! ```
//!
//! Kind 1 is the caller's and has no hearings; kind 2 the answer, with the caller's RTP header, so
//! that its number says which packet it answers.

use crate::rtp::{self, HEADER_BYTES, PACKET_BYTES, Place};
use voice::frames::FRAME_SAMPLES;

/// Hearings in an answer: at 20 ms each they bridge an outage of 480 ms on the way back. The
/// packet has room for 25: (160 − 8) / 6.
pub(crate) const HEARINGS: usize = 24;
const HEARING_BYTES: usize = 6;
const HEAD_BYTES: usize = 8;
const MAGIC: [u8; 4] = *b"SNWC";
const _: () = assert!(HEAD_BYTES + HEARINGS * HEARING_BYTES <= FRAME_SAMPLES);

/// When a packet was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hearing {
    /// Its number in its call.
    pub(crate) index: u32,
    /// Microseconds on the answerer's clock, which wraps.
    pub(crate) at_us: u32,
}

/// A packet of either direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    /// Of the caller.
    Call(Place),
    /// Of the answerer: which packet it answers, and what it has heard, the latest first.
    Answer(Place, Vec<Hearing>),
}

const CALL: u8 = 1;
const ANSWER: u8 = 2;

/// The caller's packet.
pub(crate) fn emit_call(place: Place) -> [u8; PACKET_BYTES] {
    emit(place, CALL, &[])
}

/// The answer to packet `place`.
pub(crate) fn emit_answer(place: Place, heard: &[Hearing]) -> [u8; PACKET_BYTES] {
    emit(place, ANSWER, heard)
}

fn emit(place: Place, kind: u8, heard: &[Hearing]) -> [u8; PACKET_BYTES] {
    let heard = &heard[..heard.len().min(HEARINGS)];
    let mut body = [0; FRAME_SAMPLES];
    body[..4].copy_from_slice(&MAGIC);
    body[4] = kind;
    body[5] = heard.len() as u8;
    let cells = body[HEAD_BYTES..].chunks_exact_mut(HEARING_BYTES);
    for (cell, hearing) in cells.zip(heard) {
        cell[..2].copy_from_slice(&(hearing.index as u16).to_be_bytes());
        cell[2..].copy_from_slice(&hearing.at_us.to_be_bytes());
    }
    rtp::emit(place, &body)
}

/// Reads a packet; `None` when it is none of these.
pub(crate) fn parse(packet: &[u8]) -> Option<Probe> {
    let place = rtp::parse(packet)?;
    let body = packet.get(HEADER_BYTES..)?;
    let (magic, kind, count) = (body.get(..4)?, *body.get(4)?, usize::from(*body.get(5)?));
    if magic != MAGIC {
        return None;
    }
    match kind {
        CALL if count == 0 => Some(Probe::Call(place)),
        ANSWER if count <= HEARINGS => {
            let cells = body
                .get(HEAD_BYTES..)?
                .chunks_exact(HEARING_BYTES)
                .take(count);
            Some(Probe::Answer(
                place,
                cells.map(|cell| hearing(place.index, cell)).collect(),
            ))
        }
        _ => None,
    }
}

/// Numbers are near the one that is answered, so their low bits tell them.
fn hearing(answered: u32, cell: &[u8]) -> Hearing {
    let low = u16::from_be_bytes([cell[0], cell[1]]);
    let distance = low.wrapping_sub(answered as u16) as i16;
    Hearing {
        index: answered.wrapping_add_signed(i32::from(distance)),
        at_us: u32::from_be_bytes([cell[2], cell[3], cell[4], cell[5]]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_survive_in_both_directions() {
        let place = Place {
            source: 9,
            index: 65_537,
        };
        assert_eq!(parse(&emit_call(place)), Some(Probe::Call(place)));
        for count in [0, 1, HEARINGS] {
            let heard: Vec<Hearing> = (0..count as u32)
                .map(|n| Hearing {
                    index: 65_540 - n,
                    at_us: u32::MAX - n,
                })
                .collect();
            let packet = emit_answer(place, &heard);
            assert_eq!(parse(&packet), Some(Probe::Answer(place, heard)));
        }
        let many = vec![
            Hearing {
                index: 65_537,
                at_us: 1
            };
            HEARINGS + 3
        ];
        let Some(Probe::Answer(_, kept)) = parse(&emit_answer(place, &many)) else {
            panic!()
        };
        assert_eq!(kept.len(), HEARINGS);
    }

    #[test]
    fn bytes_stand_where_the_picture_says() {
        let place = Place {
            source: 1,
            index: 0x0102,
        };
        let packet = emit_answer(
            place,
            &[Hearing {
                index: 0x0102,
                at_us: 0x0a0b_0c0d,
            }],
        );
        assert_eq!(
            packet[12..26],
            [
                b'S', b'N', b'W', b'C', 2, 1, 0, 0, 0x01, 0x02, 0x0a, 0x0b, 0x0c, 0x0d
            ]
        );
    }

    #[test]
    fn strange_packets_are_neither() {
        let good = emit_answer(
            Place {
                source: 1,
                index: 5,
            },
            &[],
        );
        for len in 0..good.len() {
            assert_eq!(parse(&good[..len]), None);
        }
        for (at, value) in [(12, b'X'), (16, 0), (16, 3), (17, HEARINGS as u8 + 1)] {
            let mut bad = good;
            bad[at] = value;
            assert_eq!(parse(&bad), None, "byte {at}");
        }
        let mut call = emit_call(Place {
            source: 1,
            index: 5,
        });
        call[17] = 1;
        assert_eq!(parse(&call), None, "a caller has heard nothing");
    }
}
