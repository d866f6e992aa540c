//! Arithmetic of GF(256), the field of 256 elements over which packets are combined.
//!
//! A byte is a polynomial over GF(2) modulo x⁸ + x⁴ + x³ + x² + 1. Adding is exclusive or. A sum of many
//! multiples is gathered by the bits of the coefficients:
//!
//! ```text
//!   Σ cᵢ·pᵢ  =  Σₖ xᵏ · ( exclusive or of the pᵢ whose cᵢ has bit k )        k = 7 … 0
//! ```
//!
//! A packet then costs about four exclusive ors of its length, and the seven multiplications by x are paid once
//! for all packets. The sum is made one block of columns after the other: a block stays in registers while all packets
//! are added. If the machine has vector instructions for this, [`vector`] uses them.

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

/// Multiplies every byte by `by`.
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

/// A packet with its coefficient in each sum, zero in those that it is not part of.
type Packet<'a, const R: usize> = ([u8; R], &'a [u8]);

/// The packets of `R` sums: at most `MOST` in all of them, and [`SPAN`] in one sum.
#[derive(Debug)]
pub(super) struct Multiples<'a, const R: usize, const MOST: usize> {
    packets: [Packet<'a, R>; MOST],
    len: usize,
}

impl<'a, const R: usize, const MOST: usize> Multiples<'a, R, MOST> {
    pub(super) const fn new() -> Self {
        Multiples {
            packets: [([0; R], &[]); MOST],
            len: 0,
        }
    }

    /// Adds `bytes` times a coefficient to each sum. Repair packets never have more than `MOST` packets.
    pub(super) fn push(&mut self, by: [u8; R], bytes: &'a [u8]) {
        self.packets[self.len] = (by, bytes);
        self.len += 1;
    }

    /// Adds the sums to `out`. Each slice is as long as the longest packet of its sum, or shorter: bytes beyond its end
    /// are left out.
    pub(super) fn sum_into(&self, out: &mut [&mut [u8]; R]) {
        let packets = &self.packets[..self.len];
        if vector::by_matrices(packets, out) {
            return;
        }
        for (row, out) in out.iter_mut().enumerate() {
            if !vector::by_shuffles(packets, row, out) {
                by_bits(packets, row, out);
            }
        }
    }
}

/// Adds one sum to `out` by plain code.
fn by_bits<const R: usize>(packets: &[Packet<'_, R>], row: usize, out: &mut [u8]) {
    // The packets whose coefficients have the bit, for each bit.
    let mut with = [[0u8; SPAN]; 8];
    let mut many = [0; 8];
    for (n, (by, _)) in packets.iter().enumerate() {
        for bit in 0..8 {
            if by[row] >> bit & 1 == 1 {
                with[bit][many[bit]] = n as u8;
                many[bit] += 1;
            }
        }
    }
    for (n, out) in out.chunks_mut(BLOCK).enumerate() {
        let at = n * BLOCK;
        let mut sum = [0; WORDS];
        // Horner's rule goes from the highest power down.
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

/// Multiplies the eight elements of a word by x. Choice: words, because sums of bytes in an array became loops over
/// memory in some builds, 40 times slower.
const fn all_times_x(word: u64) -> u64 {
    const LOW: u64 = u64::from_ne_bytes([0x7f; 8]);
    const ONE: u64 = u64::from_ne_bytes([1; 8]);
    // FOLD is x⁴ + x³ + x² + 1.
    let highest = word >> 7 & ONE;
    (word & LOW) << 1 ^ highest ^ highest << 2 ^ highest << 3 ^ highest << 4
}

/// Returns the first block of some bytes, with zeros behind the last byte.
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

    const ROWS: usize = 3;

    fn random(rng: &mut Rng, most: u64) -> Vec<u8> {
        let len = rng.below(most + 1) as usize;
        (0..len).map(|_| rng.next_u64() as u8).collect()
    }

    /// Returns the sums, made byte by byte and added to what is there.
    fn naive(packets: &[Packet<'_, ROWS>], before: &[Vec<u8>; ROWS]) -> [Vec<u8>; ROWS] {
        let mut sums = before.clone();
        for (row, sum) in sums.iter_mut().enumerate() {
            for (by, bytes) in packets {
                for (sum, byte) in sum.iter_mut().zip(*bytes) {
                    *sum ^= product(by[row], *byte);
                }
            }
        }
        sums
    }

    type Way = fn(&[Packet<'_, ROWS>], &mut [&mut [u8]; ROWS]) -> bool;

    fn plain(packets: &[Packet<'_, ROWS>], out: &mut [&mut [u8]; ROWS]) -> bool {
        for (row, out) in out.iter_mut().enumerate() {
            by_bits(packets, row, out);
        }
        true
    }

    fn shuffles(packets: &[Packet<'_, ROWS>], out: &mut [&mut [u8]; ROWS]) -> bool {
        let mut rows = out.iter_mut().enumerate();
        rows.all(|(row, out)| vector::by_shuffles(packets, row, out))
    }

    #[test]
    fn sums_and_tables_say_the_same_as_products_byte_by_byte() {
        let mut rng = Rng::new(1);
        // Packets are as long as several blocks, or shorter.
        for most in [20, 200, 700].repeat(20) {
            let packets: Vec<([u8; ROWS], Vec<u8>)> = (0..rng.below(SPAN as u64 + 1))
                .map(|_| {
                    // Some packets are not part of a sum.
                    let by = |rng: &mut Rng| rng.next_u64() as u8 * u8::from(rng.chance(0.8));
                    ([(); ROWS].map(|()| by(&mut rng)), random(&mut rng, most))
                })
                .collect();
            let mut multiples = Multiples::<ROWS, SPAN>::new();
            for (by, bytes) in &packets {
                multiples.push(*by, bytes);
            }
            let known = &multiples.packets[..multiples.len];
            // Sums have any length, and are added to what is there.
            let before = [(); ROWS].map(|()| random(&mut rng, most));
            let wanted = naive(known, &before);
            let ways: [Way; 3] = [plain, vector::by_matrices, shuffles];
            for way in ways {
                let mut sums = before.clone();
                let is_there = way(known, &mut sums.each_mut().map(|sum| &mut sum[..]));
                assert_eq!(&sums, if is_there { &wanted } else { &before });
            }
            let mut sums = before.clone();
            multiples.sum_into(&mut sums.each_mut().map(|sum| &mut sum[..]));
            assert_eq!(sums, wanted);
            // The decoder makes one sum at a time.
            let zeros = [(); ROWS].map(|()| vec![0; most as usize]);
            for (row, wanted) in naive(known, &zeros).iter().enumerate() {
                let mut sum = vec![0; most as usize];
                for (by, bytes) in &packets {
                    add_multiple(&mut sum, by[row], bytes);
                }
                assert_eq!(&sum, wanted);
                scale(&mut sum, 7);
                let scaled: Vec<u8> = wanted.iter().map(|byte| product(*byte, 7)).collect();
                assert_eq!(sum, scaled);
            }
        }
    }
}
