//! The packets of a synthetic call. They are as large as speech, but carry times.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |      RTP header, 12 bytes, as the codec has it (`rtp`)     |
//! +---------------------------------------------------------------+
//! |                       magic "SNWC"                            |
//! +---------------+---------------+-------------+-+---------------+
//! | kind          | hearings, n   |    zero     |M|     zero      |
//! +---------------+---------------+-------------+-+---------------+
//! | kind 1: deadline in µs; 0 if the caller's version sends none  |
//! | kind 2: n × (packet's number, low 16 bits; when it was heard, |
//! | in µs of the answerer's clock, low 32 bits), latest first ... |
//! ```
//!
//! Kind 1 is the caller's packet and has no hearings. It says which deadline the answers have. Callers of earlier
//! versions send zeros there, and answerers of earlier versions ignore it; their deadline is [`DEADLINE_BEFORE`].
//!
//! Kind 2 is the answer, with the caller's RTP header, so its sequence number identifies the packet that it answers.
//! With M, the lowest bit of a time is set if the packet was lost on its way and recovered; times are even otherwise.
//! Without M, no information about recovery exists.

use super::codec::{CODECS, Codec};
use super::{DEADLINE_LEAST, DEADLINE_MOST};
use base::Duration;
use voice::rtp::HEADER_BYTES;
use voice::rtp::place::{self, Place};

/// Number of hearings that are remembered. At 20 ms each they bridge an outage of 480 ms on the way back. A packet of
/// G.711 has room for 25, (160 − 8) / 6; one of Opus for 8, which bridge 160 ms.
pub(crate) const HEARINGS: usize = 24;
/// Size of the longest packet.
pub(crate) const PACKET_BYTES: usize = place::PACKET_BYTES;
const HEARING_BYTES: usize = 6;
const HEAD_BYTES: usize = 8;
const DEADLINE_BYTES: usize = 4;
const MAGIC: [u8; 4] = *b"SNWC";
/// The deadline of the versions that send none.
pub(crate) const DEADLINE_BEFORE: Duration = Duration::from_millis(100);
const _: () = assert!(HEAD_BYTES + HEARINGS * HEARING_BYTES <= Codec::Pcmu.payload_bytes());

/// When the answerer received a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hearing {
    /// The number of the packet in its call.
    pub(crate) index: u32,
    /// Microseconds on the answerer's clock, which wraps; always even.
    pub(crate) at_us: u32,
    /// The packet was lost on some hop and recovered there.
    pub(crate) recovered: bool,
}

/// A packet of either direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    /// A packet of the caller, and the deadline of its answer.
    Call(Codec, Place, Duration),
    /// An answer: the packet that it answers, and the packets that the answerer received, the latest first.
    Answer(Codec, Place, Vec<Hearing>),
}

const CALL: u8 = 1;
const ANSWER: u8 = 2;
const MARKED: u8 = 1;

/// Writes the caller's packet. `deadline` is that of its answer.
pub(crate) fn emit_call(codec: Codec, place: Place, deadline: Duration) -> Vec<u8> {
    let mut packet = emit(codec, place, CALL, &[]);
    let us = u32::try_from(deadline.as_micros()).unwrap_or(u32::MAX);
    let at = HEADER_BYTES + HEAD_BYTES;
    packet[at..at + DEADLINE_BYTES].copy_from_slice(&us.to_be_bytes());
    packet
}

/// Writes the answer to packet `place`, with as many hearings as fit.
pub(crate) fn emit_answer(codec: Codec, place: Place, heard: &[Hearing]) -> Vec<u8> {
    emit(codec, place, ANSWER, heard)
}

/// Returns how many hearings fit into a packet.
const fn room(codec: Codec) -> usize {
    let room = (codec.payload_bytes() - HEAD_BYTES) / HEARING_BYTES;
    if room < HEARINGS { room } else { HEARINGS }
}

fn emit(codec: Codec, place: Place, kind: u8, heard: &[Hearing]) -> Vec<u8> {
    let heard = &heard[..heard.len().min(room(codec))];
    let mut packet = vec![0; HEADER_BYTES + codec.payload_bytes()];
    let header = place.header(codec.payload_type(), codec.step());
    packet[..HEADER_BYTES].copy_from_slice(&header);
    let body = &mut packet[HEADER_BYTES..];
    body[..4].copy_from_slice(&MAGIC);
    body[4] = kind;
    body[5] = heard.len() as u8;
    body[6] = if kind == ANSWER { MARKED } else { 0 };
    let cells = body[HEAD_BYTES..].chunks_exact_mut(HEARING_BYTES);
    for (cell, hearing) in cells.zip(heard) {
        let at_us = hearing.at_us & !1 | u32::from(hearing.recovered);
        cell[..2].copy_from_slice(&(hearing.index as u16).to_be_bytes());
        cell[2..].copy_from_slice(&at_us.to_be_bytes());
    }
    packet
}

/// Reads a packet. Returns `None` if it is not a packet of a synthetic call.
pub(crate) fn parse(packet: &[u8]) -> Option<Probe> {
    let (codec, place) = CODECS.iter().find_map(|&codec| {
        let whole = packet.len() == HEADER_BYTES + codec.payload_bytes();
        let place = whole.then(|| Place::of(packet, codec.payload_type(), codec.step()))?;
        Some((codec, place?))
    })?;
    let body = packet.get(HEADER_BYTES..)?;
    let (magic, kind, count) = (body.get(..4)?, *body.get(4)?, usize::from(*body.get(5)?));
    let marked = *body.get(6)? & MARKED != 0;
    if magic != MAGIC {
        return None;
    }
    match kind {
        CALL if count == 0 => {
            let us = body.get(HEAD_BYTES..HEAD_BYTES + DEADLINE_BYTES)?;
            Some(Probe::Call(
                codec,
                place,
                deadline(u32::from_be_bytes(us.try_into().ok()?)),
            ))
        }
        ANSWER if count <= room(codec) => {
            let cells = body.get(HEAD_BYTES..)?.chunks_exact(HEARING_BYTES);
            let heard = cells
                .take(count)
                .map(|cell| hearing(place.index, cell, marked));
            Some(Probe::Answer(codec, place, heard.collect()))
        }
        _ => None,
    }
}

/// Reads the deadline of a caller. It comes from another host, so it is kept within what callers can choose.
fn deadline(us: u32) -> Duration {
    match us {
        0 => DEADLINE_BEFORE,
        us => Duration::from_micros(us.into()).clamp(DEADLINE_LEAST, DEADLINE_MOST),
    }
}

/// Reads one hearing. The packet's number is near the answered one, so its low bits are sufficient.
fn hearing(answered: u32, cell: &[u8], marked: bool) -> Hearing {
    let low = u16::from_be_bytes([cell[0], cell[1]]);
    let distance = low.wrapping_sub(answered as u16) as i16;
    let at_us = u32::from_be_bytes([cell[2], cell[3], cell[4], cell[5]]);
    Hearing {
        index: answered.wrapping_add_signed(i32::from(distance)),
        at_us: at_us & !1,
        recovered: marked && at_us & 1 == 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = Place {
        source: 9,
        index: 65_537,
    };

    fn hearings(count: usize) -> Vec<Hearing> {
        (0..count as u32)
            .map(|n| Hearing {
                index: 65_540 - n,
                at_us: u32::MAX - 1 - 2 * n,
                recovered: n % 3 == 1,
            })
            .collect()
    }

    #[test]
    fn packets_survive_in_both_directions() {
        for codec in CODECS {
            let deadline = Duration::from_micros(62_500);
            let call = emit_call(codec, PLACE, deadline);
            assert_eq!(call.len(), HEADER_BYTES + codec.payload_bytes());
            assert_eq!(parse(&call), Some(Probe::Call(codec, PLACE, deadline)));
            for count in [0, 1, room(codec)] {
                let heard = hearings(count);
                let packet = emit_answer(codec, PLACE, &heard);
                assert_eq!(packet.len(), call.len(), "nobody is sent more than he sent");
                assert_eq!(parse(&packet), Some(Probe::Answer(codec, PLACE, heard)));
            }
            let many = hearings(room(codec) + 3);
            let Some(Probe::Answer(_, _, kept)) = parse(&emit_answer(codec, PLACE, &many)) else {
                panic!()
            };
            assert_eq!(kept, many[..room(codec)], "the latest");
        }
        assert_eq!(CODECS.map(room), [24, 24, 8]);
    }

    #[test]
    fn bytes_stand_where_the_picture_says() {
        let place = Place {
            source: 1,
            index: 0x0102,
        };
        let heard = Hearing {
            index: 0x0102,
            at_us: 0x0a0b_0c0c,
            recovered: true,
        };
        let packet = emit_answer(Codec::Pcma, place, &[heard]);
        assert_eq!(packet[1], 8, "payload type of A-law");
        assert_eq!(
            packet[12..26],
            [
                b'S', b'N', b'W', b'C', 2, 1, 1, 0, 0x01, 0x02, 0x0a, 0x0b, 0x0c, 0x0d
            ]
        );
        let mut unmarked = packet;
        unmarked[18] = 0;
        let Some(Probe::Answer(_, _, read)) = parse(&unmarked) else {
            panic!()
        };
        assert!(!read[0].recovered);
    }

    #[test]
    fn a_caller_says_its_deadline_where_earlier_versions_send_and_read_nothing() {
        let told = |call: &[u8]| match parse(call) {
            Some(Probe::Call(_, _, deadline)) => deadline,
            other => panic!("{other:?}"),
        };
        for codec in CODECS {
            let call = emit_call(codec, PLACE, Duration::from_millis(150));
            // An earlier version sends this, and reads only this much of a caller's packet.
            let mut before = call.clone();
            before[20..24].fill(0);
            assert_eq!(before[12..20], *b"SNWC\x01\0\0\0");
            assert!(before[20..].iter().all(|byte| *byte == 0));
            assert_eq!(call[20..24], 150_000_u32.to_be_bytes());
            assert_eq!(told(&before), DEADLINE_BEFORE);
            for (us, expected) in [(1, DEADLINE_LEAST), (u32::MAX, DEADLINE_MOST)] {
                before[20..24].copy_from_slice(&us.to_be_bytes());
                assert_eq!(told(&before), expected);
            }
        }
    }

    #[test]
    fn strange_packets_are_neither() {
        for codec in CODECS {
            let good = emit_answer(codec, PLACE, &[]);
            for len in 0..good.len() {
                assert_eq!(parse(&good[..len]), None);
            }
            for (at, value) in [
                (12, b'X'),
                (16, 0),
                (16, 3),
                (17, room(codec) as u8 + 1),
                (1, 3),
            ] {
                let mut bad = good.clone();
                bad[at] = value;
                assert_eq!(parse(&bad), None, "byte {at}");
            }
            let mut call = emit_call(codec, PLACE, DEADLINE_BEFORE);
            call[17] = 1;
            assert_eq!(parse(&call), None, "a caller has heard nothing");
        }
    }
}
