//! How the world merges datagrams that arrive at one moment, as a kernel does before a program sees them.

use base::pool::LARGE_BYTES;
use base::{Burst, Pool};

/// Most datagrams in one arriving burst: the kernel merges no more (UDP_GRO_CNT_MAX).
const MERGED_MAX: usize = 64;

/// How datagrams that arrive together are handed to an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrivals {
    /// Consecutive datagrams of one sender that arrive at the same moment and have equal size (the last may be shorter)
    /// form one burst, as with GRO.
    #[default]
    Bursts,
    /// Each datagram is handed over alone, as without GRO.
    Single,
}

/// Returns both bursts as one, or both unchanged if they differ in size, are too many, or no slot is free.
pub(crate) fn merged(pool: &Pool, mut first: Burst, next: Burst) -> Result<Burst, (Burst, Burst)> {
    let (stride, len) = (first.stride(), first.len());
    let uniform = len.is_multiple_of(stride.max(1))
        && (next.stride() == stride || (next.segments() == 1 && next.len() < stride));
    let small_enough =
        first.segments() + next.segments() <= MERGED_MAX && len + next.len() <= LARGE_BYTES;
    if first.is_empty() || !uniform || !small_enough {
        return Err((first, next));
    }
    if first.spare_mut().len() < next.len() {
        let Some(mut larger) = pool.large() else {
            return Err((first, next));
        };
        larger.spare_mut()[..len].copy_from_slice(first.bytes());
        larger.fill(len, stride);
        first = larger;
    }
    first.spare_mut()[..next.len()].copy_from_slice(next.bytes());
    first.fill(len + next.len(), stride);
    Ok(first)
}
