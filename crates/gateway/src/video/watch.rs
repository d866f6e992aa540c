//! The counters of a stream, for any protocol.

use base::Time;
use voice::ts::{Counts, Monitor};

/// The counters of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Number of packets.
    pub packets: u64,
    /// Number of their bytes.
    pub bytes: u64,
    /// Number of packets that were lost on some hop of the overlay and recovered there.
    pub recovered: u64,
    /// The counters of TR 101 290.
    pub ts: Counts,
}

/// Counts a stream.
#[derive(Debug, Default)]
pub struct Watch {
    seen: Seen,
    monitor: Monitor,
}

impl Watch {
    /// Counts a packet.
    pub fn on_packet(&mut self, now: Time, payload: &[u8], recovered: bool) {
        self.seen.packets += 1;
        self.seen.bytes += payload.len() as u64;
        self.seen.recovered += u64::from(recovered);
        self.monitor.on_datagram(now, payload);
    }

    /// Returns the counters.
    pub fn seen(&self) -> Seen {
        Seen {
            ts: *self.monitor.counts(),
            ..self.seen
        }
    }
}
