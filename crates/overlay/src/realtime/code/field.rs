//! Arithmetic of GF(256), the field of 256 elements over which packets are combined.
//!
//! A byte is a polynomial over GF(2) modulo x⁸ + x⁴ + x³ + x² + 1. Adding is exclusive or. A sum of many
//! multiples is gathered by the bits of the coefficients:
//!
//! ```text
//!   Σ cᵢ·pᵢ  =  Σₖ xᵏ · ( exclusive or of the pᵢ whose cᵢ has bit k )        k = 7 … 0
//! ```
//!
//! so a packet costs about four exclusive ors of its length, and the seven multiplications by x are paid once
//! for all packets. The sum is made a block of columns after the other: a block stays in registers while all packets are
//! added. Where the machine has instructions for more ([`vector`]), those are used.

mod vector;

use super::SPAN;

/// Columns that are summed at a time.
pub(super) const BLOCK: usize = 64;
const WORDS: usize = BLOCK / 8;

/// x⁸ in lower powers.
const FOLD: u8 = 0x1d;

/// The product of two elements.
pub(super) const fn product(a: u8, b: u8) -> u8 {
    let (mut a, mut sum, mut bit) = (a, 0, 0);
    while bit < 8 {
        if b >> bit & 1 == 1 {
            sum ^= a;
        }
        a = times_x(a);
        bit += 1;
    }
    sum
}

/// The element whose product with `a` is one; `a` is not zero.
pub(super) const fn inverse(a: u8) -> u8 {
    // a²⁵⁵ is one, so a²⁵⁴ is the inverse: the product of a², a⁴, … a¹²⁸.
    let (mut power, mut all, mut step) = (a, 1, 1);
    while step < 8 {
        power = product(power, power);
        all = product(all, power);
        step += 1;
    }
    all
}

const fn times_x(a: u8) -> u8 {
    // All ones where the highest bit is set, without a branch.
    let folds = (a.cast_signed() >> 7).cast_unsigned();
    a << 1 ^ folds & FOLD
}

/// `to` becomes `to` + `by` · `from`, and as long as `from` at least.
pub(super) fn add_multiple(to: &mut Vec<u8>, by: u8, from: &[u8]) {
    if to.len() < from.len() {
        to.resize(from.len(), 0);
    }
    let low = table(by, 0);
    let high = table(by, 4);
    for (to, from) in to.iter_mut().zip(from) {
        *to ^= low[usize::from(from & 0xf)] ^ high[usize::from(from >> 4)];
    }
}

/// Every byte becomes `by` times itself.
pub(super) fn scale(bytes: &mut [u8], by: u8) {
    let low = table(by, 0);
    let high = table(by, 4);
    for byte in bytes {
        *byte = low[usize::from(*byte & 0xf)] ^ high[usize::from(*byte >> 4)];
    }
}

/// The multiples of `by` by the sixteen elements of four bits from `shift` on.
fn table(by: u8, shift: u32) -> [u8; 16] {
    core::array::from_fn(|nibble| product(by, (nibble as u8) << shift))
}

/// Packets, each with its coefficient, whose sum is wanted: at most [`SPAN`].
#[derive(Debug)]
pub(super) struct Multiples<'a> {
    packets: [(u8, &'a [u8]); SPAN],
    len: usize,
}

impl<'a> Multiples<'a> {
    pub(super) const fn new() -> Self {
        Multiples {
            packets: [(0, &[]); SPAN],
            len: 0,
        }
    }

    /// Adds `by` · `bytes`. More than [`SPAN`] are no sum that a repair packet can have.
    pub(super) fn push(&mut self, by: u8, bytes: &'a [u8]) {
        self.packets[self.len] = (by, bytes);
        self.len += 1;
    }

    /// Adds the sum to `out`, which is as long as the longest packet, or shorter: what is behind it is left out.
    pub(super) fn sum_into(&self, out: &mut [u8]) {
        let packets = &self.packets[..self.len];
        if !vector::by_matrices(packets, out) && !vector::by_shuffles(packets, out) {
            by_bits(packets, out);
        }
    }
}

/// The sum as plain code has it.
fn by_bits(packets: &[(u8, &[u8])], out: &mut [u8]) {
    // The packets whose coefficients have a bit.
    let mut with = [[0u8; SPAN]; 8];
    let mut many = [0; 8];
    for (n, (by, _)) in packets.iter().enumerate() {
        for bit in 0..8 {
            with[bit][many[bit]] = n as u8;
            many[bit] += usize::from(by >> bit & 1);
        }
    }
    for (n, out) in out.chunks_mut(BLOCK).enumerate() {
        let at = n * BLOCK;
        let mut sum = [0; WORDS];
        // By Horner's rule, from the highest power down.
        for bit in (0..8).rev() {
            sum.iter_mut().for_each(|word| *word = all_times_x(*word));
            for &n in &with[bit][..many[bit]] {
                let bytes = packets[usize::from(n)].1;
                let block = words(bytes.get(at..).unwrap_or_default());
                for (sum, word) in sum.iter_mut().zip(block) {
                    *sum ^= word;
                }
            }
        }
        let sum = sum.iter().flat_map(|word| word.to_ne_bytes());
        out.iter_mut().zip(sum).for_each(|(to, from)| *to ^= from);
    }
}

/// Eight elements of a word at a time, each times x. Choice: words, since sums of bytes in an array became loops over
/// memory in some builds, 40 times slower.
const fn all_times_x(word: u64) -> u64 {
    const LOW: u64 = u64::from_ne_bytes([0x7f; 8]);
    const ONE: u64 = u64::from_ne_bytes([1; 8]);
    // FOLD is x⁴ + x³ + x² + 1.
    let highest = word >> 7 & ONE;
    (word & LOW) << 1 ^ highest ^ highest << 2 ^ highest << 3 ^ highest << 4
}

/// The first block of some bytes, zeros behind the last.
fn words(bytes: &[u8]) -> [u64; WORDS] {
    let of = |block: &[u8; BLOCK]| {
        let mut words = [0; WORDS];
        for (to, from) in words.iter_mut().zip(block.as_chunks().0) {
            *to = u64::from_ne_bytes(*from);
        }
        words
    };
    match bytes.first_chunk() {
        Some(block) => of(block),
        None => {
            let mut block = [0; BLOCK];
            block[..bytes.len()].copy_from_slice(bytes);
            of(&block)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;

    #[test]
    fn it_is_a_field() {
        for a in 1..=255 {
            assert_eq!(product(a, inverse(a)), 1);
            assert_eq!(product(a, 1), a);
            for b in 0..=255 {
                assert_eq!(product(a, b), product(b, a));
                assert_ne!(product(a, b) == 0, b != 0);
                for c in [3, 0x1d, 0xff] {
                    let sum = product(a, b) ^ product(a, c);
                    assert_eq!(product(a, b ^ c), sum);
                    assert_eq!(product(product(a, b), c), product(a, product(b, c)));
                }
            }
        }
        assert_eq!(product(0x80, 2), FOLD, "the polynomial of the wire");
    }

    type Way = fn(&[(u8, &[u8])], &mut [u8]) -> bool;

    fn plain(packets: &[(u8, &[u8])], out: &mut [u8]) -> bool {
        by_bits(packets, out);
        true
    }

    #[test]
    fn sums_and_tables_say_the_same_as_products_byte_by_byte() {
        let mut rng = Rng::new(1);
        for _ in 0..50 {
            let mut multiples = Multiples::new();
            let packets: Vec<(u8, Vec<u8>)> = (0..rng.below(SPAN as u64 + 1))
                .map(|_| {
                    let len = rng.below(201) as usize;
                    let bytes = (0..len).map(|_| rng.next_u64() as u8).collect();
                    (rng.next_u64() as u8, bytes)
                })
                .collect();
            let mut naive = vec![0; 200];
            let mut rows = vec![0; 200];
            for (by, bytes) in &packets {
                multiples.push(*by, bytes);
                add_multiple(&mut rows, *by, bytes);
                for (sum, byte) in naive.iter_mut().zip(bytes) {
                    *sum ^= product(*by, *byte);
                }
            }
            let mut sum = vec![0; 200];
            multiples.sum_into(&mut sum);
            assert_eq!((&sum, &rows), (&naive, &naive));
            // Each way to it, for sums of any length and on top of what is there.
            let packets = &multiples.packets[..multiples.len];
            let len = rng.below(201) as usize;
            let before: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
            let wanted: Vec<u8> = before.iter().zip(&naive).map(|(a, b)| a ^ b).collect();
            let ways: [Way; 3] = [plain, vector::by_matrices, vector::by_shuffles];
            for way in ways {
                let mut sum = before.clone();
                let is_there = way(packets, &mut sum);
                assert_eq!(&sum, if is_there { &wanted } else { &before });
            }
            scale(&mut sum, 7);
            let scaled: Vec<u8> = naive.iter().map(|byte| product(*byte, 7)).collect();
            assert_eq!(sum, scaled);
        }
    }
}
