//! The payloads of speech packets, as sent and as received.

use crate::scenario::PACKET_BYTES_MIN;
use voice::frames::FRAME_SAMPLES;

/// The payload of a packet of speech.
pub(super) type Frame = [u8; FRAME_SAMPLES];

/// Returns the payload of a judged packet: after its end the speech begins again.
pub(super) fn said(speech: &[Frame], place: u32) -> Option<&Frame> {
    speech.get((place as usize).checked_rem(speech.len())?)
}

/// Returns the received payload of a speech packet, if it differs from the sent one. The stamp is replaced by the sent
/// bytes.
pub(super) fn differing(packet: &[u8], said: &Frame) -> Option<Frame> {
    let heard: &Frame = packet.try_into().ok()?;
    let behind = PACKET_BYTES_MIN..;
    (heard[behind.clone()] != said[behind.clone()]).then(|| {
        let mut frame = *said;
        frame[behind.clone()].copy_from_slice(&heard[behind]);
        frame
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::stamp;
    use base::Time;

    #[test]
    fn what_is_heard_is_what_came_behind_the_stamp() {
        let said = [7; FRAME_SAMPLES];
        let mut packet = said;
        stamp::put(&mut packet, 1, 2, Time::ZERO);
        assert_eq!(differing(&packet, &said), None);
        packet[100] = 8;
        let heard = differing(&packet, &said).unwrap();
        assert_eq!((heard[0], heard[99], heard[100]), (7, 7, 8));
        // A packet of another length is not speech.
        assert_eq!(differing(&packet[..80], &said), None);
    }
}
