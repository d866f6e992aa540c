//! Hash tables whose behaviour is the same in every run.
//!
//! The standard tables seed their hasher from global randomness, so the iteration order differs between runs, and "same
//! seed, same trace" breaks. These tables use a fixed hasher. Keys come from authenticated peers or local clients, and
//! every table is bounded, so deliberate collisions only slow down the traffic of the attacker.

use core::hash::{BuildHasherDefault, Hasher};

/// A hash map with a fixed hasher.
pub type Map<K, V> = hashbrown::HashMap<K, V, BuildHasherDefault<FixedHasher>>;
/// A hash set with a fixed hasher.
pub type Set<K> = hashbrown::HashSet<K, BuildHasherDefault<FixedHasher>>;

/// Multiply-and-fold over the words of a key.
#[derive(Clone, Copy, Debug, Default)]
pub struct FixedHasher(u64);

/// An odd constant with well mixed bits (2^64 divided by the golden ratio).
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

impl FixedHasher {
    fn mix(&mut self, word: u64) {
        let wide = u128::from(self.0.rotate_left(23) ^ word) * u128::from(MULTIPLIER);
        self.0 = (wide as u64) ^ ((wide >> 64) as u64);
    }
}

impl Hasher for FixedHasher {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0u8; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
    }
    fn write_u8(&mut self, n: u8) {
        self.mix(u64::from(n));
    }
    fn write_u16(&mut self, n: u16) {
        self.mix(u64::from(n));
    }
    fn write_u32(&mut self, n: u32) {
        self.mix(u64::from(n));
    }
    fn write_u64(&mut self, n: u64) {
        self.mix(n);
    }
    fn write_usize(&mut self, n: usize) {
        self.mix(n as u64);
    }
    fn finish(&self) -> u64 {
        self.0.wrapping_mul(MULTIPLIER) ^ (self.0 >> 32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearby_keys_spread_over_the_low_bits() {
        let mut buckets = [0u32; 64];
        for key in 0..6400u32 {
            let mut h = FixedHasher::default();
            h.write_u32(key);
            buckets[(h.finish() % 64) as usize] += 1;
        }
        assert!(
            buckets.iter().all(|&n| (50..=150).contains(&n)),
            "{buckets:?}"
        );
    }
}
