//! The counter of each stream of a transport stream (ISO/IEC 13818-1, 2.4.3.3).

use super::PACKET_BYTES;

/// The state of one stream's counter.
#[derive(Debug, Default)]
pub(super) struct Continuity {
    /// The counter of the last packet; `None` before the first.
    last: Option<u8>,
    /// Whether the last packet arrived twice.
    is_copied: bool,
}

/// The kind of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    New,
    /// A repetition of the previous packet, which is permitted once.
    Copy,
    /// Another packet was expected.
    Error,
}

impl Continuity {
    /// Classifies a packet by its counter.
    pub(super) fn judge(&mut self, packet: &[u8; PACKET_BYTES]) -> Verdict {
        let counter = packet[3] & 0x0f;
        let has_payload = packet[3] & 0x10 != 0;
        let has_flags = packet[3] & 0x20 != 0 && packet[4] > 0;
        let is_discontinuous = has_flags && packet[5] & 0x80 != 0;
        let last = self.last.replace(counter);
        let was_copied = core::mem::take(&mut self.is_copied);
        let Some(last) = last.filter(|_| !is_discontinuous) else {
            return Verdict::New;
        };
        // The counter counts packets with a payload.
        match has_payload {
            false if counter == last => Verdict::New,
            true if counter == (last + 1) & 0x0f => Verdict::New,
            true if counter == last => {
                self.is_copied = true;
                match was_copied {
                    false => Verdict::Copy,
                    true => Verdict::Error,
                }
            }
            _ => Verdict::Error,
        }
    }
}
