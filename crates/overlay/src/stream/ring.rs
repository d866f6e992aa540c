//! Bytes of a stream by their place: a ring that grows with what it holds, and is never larger than twice that.

/// The smallest size of a ring, in bytes.
const LEAST: usize = 4 << 10;

/// A ring of bytes. Its user knows which places it holds.
#[derive(Clone, Debug, Default)]
pub(super) struct Ring {
    /// The length is a power of two, or 0.
    bytes: Vec<u8>,
}

impl Ring {
    /// Makes room for `held.start..end`, and keeps the bytes in `held`.
    pub(super) fn reserve(&mut self, held: core::ops::Range<u64>, end: u64) {
        let need = end.saturating_sub(held.start) as usize;
        if need <= self.bytes.len() {
            return;
        }
        let mut larger = Ring {
            bytes: vec![0; need.next_power_of_two().max(LEAST)],
        };
        let (a, b) = self.parts(held.start, (held.end - held.start) as usize);
        larger.write(held.start, a);
        larger.write(held.start + a.len() as u64, b);
        *self = larger;
    }

    /// Writes bytes at their place, for which there must be room.
    pub(super) fn write(&mut self, at: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let from = at as usize & (self.bytes.len() - 1);
        let first = bytes.len().min(self.bytes.len() - from);
        self.bytes[from..from + first].copy_from_slice(&bytes[..first]);
        self.bytes[..bytes.len() - first].copy_from_slice(&bytes[first..]);
    }

    /// Reads the bytes at a place.
    pub(super) fn read(&self, at: u64, out: &mut [u8]) {
        let (a, b) = self.parts(at, out.len());
        out[..a.len()].copy_from_slice(a);
        out[a.len()..].copy_from_slice(b);
    }

    /// Gives the memory back.
    pub(super) fn clear(&mut self) {
        self.bytes = Vec::new();
    }

    /// Returns the bytes of memory.
    pub(super) fn capacity(&self) -> usize {
        self.bytes.len()
    }

    fn parts(&self, at: u64, len: usize) -> (&[u8], &[u8]) {
        if len == 0 {
            return (&[], &[]);
        }
        let from = at as usize & (self.bytes.len() - 1);
        let first = len.min(self.bytes.len() - from);
        (&self.bytes[from..from + first], &self.bytes[..len - first])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_kept_by_place_while_the_ring_grows() {
        let mut ring = Ring::default();
        let byte = |at: u64| (at * 7 % 251) as u8;
        let (mut low, mut high) = (1 << 33, 1 << 33);
        for step in 1..200u64 {
            let end = high + step * 13;
            ring.reserve(low..high, end);
            let bytes: Vec<u8> = (high..end).map(byte).collect();
            ring.write(high, &bytes);
            high = end;
            low += step * 7;
            let mut read = vec![0; (high - low) as usize];
            ring.read(low, &mut read);
            assert!(
                read.iter()
                    .enumerate()
                    .all(|(i, b)| *b == byte(low + i as u64))
            );
        }
        assert!(ring.capacity() as u64 <= 2 * (high - low) + 200 * 20);
        ring.clear();
        assert_eq!(ring.capacity(), 0);
    }
}
