//! A receiver that deliberately loses some of its packets, so that there is something to repair.

use base::Burst;
use wire::link::Kind;

/// Loses the first packet of a burst whenever `of` more packets have arrived.
#[derive(Debug)]
pub(crate) struct Losing {
    of: u64,
    carried: u64,
}

impl Losing {
    /// Creates a receiver that loses one of `of` packets.
    pub(crate) fn one_of(of: u64) -> Losing {
        Losing { of, carried: 0 }
    }

    /// Returns the rest of a burst. Only packets of a lane are lost, no hello and no handshake.
    pub(crate) fn pass(&mut self, mut burst: Burst) -> Option<Burst> {
        if Kind::of(burst.segment(0)) != Ok(Kind::Data) {
            return Some(burst);
        }
        let before = self.carried;
        self.carried += burst.segments() as u64;
        if before / self.of == self.carried / self.of {
            return Some(burst);
        }
        if burst.segments() == 1 {
            return None;
        }
        burst.split_front(1);
        Some(burst)
    }
}
