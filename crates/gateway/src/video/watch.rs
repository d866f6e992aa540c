//! What is counted of a stream, whatever the protocol.

use base::Time;
use voice::ts::{Counts, Monitor};

/// What was seen of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Packets.
    pub packets: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Packets that were lost on some hop of the overlay and recovered there.
    pub recovered: u64,
    /// What TR 101 290 counts.
    pub ts: Counts,
}

/// Counts a stream.
#[derive(Debug, Default)]
pub struct Watch {
    seen: Seen,
    monitor: Monitor,
}

impl Watch {
    /// A packet passes.
    pub fn on_packet(&mut self, now: Time, payload: &[u8], recovered: bool) {
        self.seen.packets += 1;
        self.seen.bytes += payload.len() as u64;
        self.seen.recovered += u64::from(recovered);
        self.monitor.on_datagram(now, payload);
    }

    /// What was seen so far.
    pub fn seen(&self) -> Seen {
        Seen {
            ts: *self.monitor.counts(),
            ..self.seen
        }
    }
}
