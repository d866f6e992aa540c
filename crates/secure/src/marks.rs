//! Marks of packets, by which a node recognizes a packet that arrives a second time.
//!
//! ```text
//!   rest, in blocks      m0 m1 | m2 m3 | ...                 keys that nobody else knows
//!   NH                   (m0 + k0)(m1 + k1) + (m2 + k2)(m3 + k3) + ...      modulo 2^128
//!   over all blocks      ((length and class) · k + NH of head) · k + NH of block ...   modulo 2^61 - 1
//!   mark                 the upper half of its product with an odd number
//! ```
//! Each node draws its own keys and sends no mark to anybody. So an attacker cannot find a change of a packet that
//! keeps its mark: two different packets have the same mark with a probability of 2^-31, whatever they contain. This is
//! universal hashing, from the building blocks of UMAC (RFC 4418).
//!
//! Choice: no MAC. The advantage of a MAC is that marks may be public, but it would cost a relay as much as a seal.

use crate::entropy::apart;
use crate::session::BOUND_BYTES;
use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};

/// Number of words of a block: one block holds a datagram of any usual link, 2 KiB.
const BLOCK_WORDS: usize = 256;
const HEAD_WORDS: usize = BOUND_BYTES / WORD_BYTES;
const WORD_BYTES: usize = 8;
const PAIR_BYTES: usize = 2 * WORD_BYTES;
/// A prime for which the remainder needs no division.
const PRIME: u64 = (1 << 61) - 1;

/// Computes the marks of one node.
pub struct PacketMarks {
    head: [u64; HEAD_WORDS],
    block: Box<[u64; BLOCK_WORDS]>,
    /// Always below [`PRIME`].
    step: u64,
    /// Always odd.
    last: u64,
    salt: u64,
}

impl PacketMarks {
    /// Derives the keys from a node's seed, which may be the same as for its handshakes.
    pub fn new(seed: &[u8; 32]) -> PacketMarks {
        let mut stream = ChaCha20Rng::from_seed(*apart(seed, b"sinew packet marks 1"));
        PacketMarks {
            head: core::array::from_fn(|_| stream.next_u64()),
            block: Box::new(core::array::from_fn(|_| stream.next_u64())),
            step: stream.next_u64() % PRIME,
            last: stream.next_u64() | 1,
            salt: stream.next_u64(),
        }
    }

    /// Returns a secret for the table that stores marks.
    pub fn salt(&self) -> u64 {
        self.salt
    }

    /// Returns the mark of a packet, computed from its class, from the part of its header that no hop changes, and from
    /// the `rest`. Never 0.
    #[inline]
    pub fn of(&self, class: u8, head: &[u8; BOUND_BYTES], rest: &[u8]) -> u32 {
        // Missing bytes of the last word count as 0, so the length is included as well.
        let begin = (rest.len() as u64) << 8 | u64::from(class);
        let mut sum = self.step(begin, sum_of(&self.head, head));
        for block in rest.chunks(BLOCK_WORDS * WORD_BYTES) {
            sum = self.step(sum, sum_of(&self.block[..], block));
        }
        ((sum.wrapping_mul(self.last) >> 32) as u32).max(1)
    }

    #[inline]
    fn step(&self, sum: u64, next: u128) -> u64 {
        let next = (next as u64 & PRIME) + ((next >> 61) as u64 & PRIME) + (next >> 122) as u64;
        let product = u128::from(sum) * u128::from(self.step);
        reduced((product as u64 & PRIME) + (product >> 61) as u64 + reduced(next))
    }
}

/// Reduces a number below 2^63 modulo [`PRIME`]; the result may be larger by [`PRIME`].
#[inline]
fn reduced(number: u64) -> u64 {
    (number & PRIME) + (number >> 61)
}

/// Computes NH of UMAC, with words of 64 bits.
#[inline]
fn sum_of(keys: &[u64], bytes: &[u8]) -> u128 {
    let mut sum = 0_u128;
    let mut pairs = bytes.chunks_exact(PAIR_BYTES);
    let mut keys = keys.chunks_exact(2);
    for (pair, keys) in pairs.by_ref().zip(keys.by_ref()) {
        sum = sum.wrapping_add(product_of(pair, keys));
    }
    let left = pairs.remainder();
    if let Some(keys) = keys.next().filter(|_| !left.is_empty()) {
        let mut pair = [0; PAIR_BYTES];
        pair[..left.len()].copy_from_slice(left);
        sum = sum.wrapping_add(product_of(&pair, keys));
    }
    sum
}

#[inline]
fn product_of(pair: &[u8], keys: &[u64]) -> u128 {
    let word = |at: usize| {
        let bytes = pair[at * WORD_BYTES..].first_chunk();
        u64::from_le_bytes(*bytes.expect("a pair has two words")).wrapping_add(keys[at])
    };
    u128::from(word(0)) * u128::from(word(1))
}

/// Shows no keys.
impl core::fmt::Debug for PacketMarks {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("PacketMarks").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: [u8; BOUND_BYTES] = [7; BOUND_BYTES];

    fn marks() -> PacketMarks {
        PacketMarks::new(&[1; 32])
    }

    #[test]
    fn equal_packets_have_equal_marks_at_one_node_alone() {
        let other = PacketMarks::new(&[2; 32]);
        for len in [0, 1, 24, 200, 1_416, 2_048, 2_049, 9_000] {
            let rest = vec![0x5a; len];
            let mark = marks().of(0, &HEAD, &rest);
            assert_eq!(mark, marks().of(0, &HEAD, &rest));
            assert_ne!(mark, other.of(0, &HEAD, &rest), "{len}");
        }
    }

    #[test]
    fn whatever_is_changed_changes_the_mark() {
        let marks = marks();
        for len in [24, 40, 41, 1_416, 4_100] {
            let rest = vec![0x5a; len];
            let mark = marks.of(0, &HEAD, &rest);
            assert_ne!(mark, marks.of(1, &HEAD, &rest));
            assert_ne!(mark, marks.of(0, &HEAD, &rest[..len - 1]));
            for bit in 0..len * 8 {
                let mut changed = rest.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                assert_ne!(mark, marks.of(0, &HEAD, &changed), "{len}, {bit}");
            }
            for bit in 0..HEAD.len() * 8 {
                let mut changed = HEAD;
                changed[bit / 8] ^= 1 << (bit % 8);
                assert_ne!(mark, marks.of(0, &changed, &rest), "{len}, {bit}");
            }
        }
    }

    #[test]
    fn what_is_missing_is_not_what_is_zero_and_blocks_have_an_order() {
        let marks = marks();
        let of = |rest: &[u8]| marks.of(0, &HEAD, rest);
        assert_ne!(of(&[0; 24]), of(&[0; 25]));
        assert_ne!(of(&[0; 2_048]), of(&[0; 4_096]));
        let mut blocks = vec![1; 2_048];
        blocks.extend([2; 2_048]);
        let mut turned = vec![2; 2_048];
        turned.extend([1; 2_048]);
        assert_ne!(of(&blocks), of(&turned));
    }
}
