//! Arithmetic of GF(256), the field of 256 elements over which packets are combined.
//!
//! A byte is a polynomial over GF(2) modulo x⁸ + x⁴ + x³ + x² + 1. Adding is exclusive or. A sum of many
//! multiples is gathered in eight planes, one for each bit of the coefficients:
//!
//! ```text
//!   Σ cᵢ·pᵢ  =  Σₖ xᵏ · ( exclusive or of the pᵢ whose cᵢ has bit k )        k = 0 … 7
//! ```
//!
//! so a packet costs about four exclusive ors of its length, and the seven multiplications by x are paid once
//! for all packets. Compilers turn both into vector instructions of any machine without a line of `unsafe`.

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

/// `to` becomes `to` + `from`; it is at least as long.
pub(super) fn add(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to ^= from;
    }
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

/// A sum of multiples, gathered by the bits of the coefficients.
#[derive(Debug, Default)]
pub(super) struct Planes {
    planes: [Vec<u8>; 8],
}

impl Planes {
    /// Begins a sum of zero.
    pub(super) fn clear(&mut self) {
        self.planes.iter_mut().for_each(Vec::clear);
    }

    /// Adds `by` · `bytes`, which stand so far behind the front.
    pub(super) fn add(&mut self, by: u8, at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        for (bit, plane) in self.planes.iter_mut().enumerate() {
            if by >> bit & 1 == 0 {
                continue;
            }
            if plane.len() < end {
                plane.resize(end, 0);
            }
            add(&mut plane[at..end], bytes);
        }
    }

    /// Adds the sum to `out`, which is as long as the longest that was added.
    pub(super) fn sum_into(&mut self, out: &mut [u8]) {
        // By Horner's rule, from the highest power down.
        for bit in (0..8).rev() {
            if bit < 7 {
                let (lower, upper) = self.planes.split_at_mut(bit + 1);
                let (this, above) = (&mut lower[bit], &mut upper[0]);
                if this.len() < above.len() {
                    this.resize(above.len(), 0);
                }
                for (this, above) in this.iter_mut().zip(above.iter()) {
                    *this ^= times_x(*above);
                }
            }
        }
        add(out, &self.planes[0]);
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

    #[test]
    fn planes_and_tables_say_the_same_as_products_byte_by_byte() {
        let mut rng = Rng::new(1);
        let mut planes = Planes::default();
        for _ in 0..50 {
            planes.clear();
            let packets: Vec<(u8, Vec<u8>)> = (0..rng.below(20))
                .map(|_| {
                    let len = rng.below(60) as usize;
                    let bytes = (0..len).map(|_| rng.next_u64() as u8).collect();
                    (rng.next_u64() as u8, bytes)
                })
                .collect();
            let mut naive = vec![0; 60];
            let mut rows = vec![0; 60];
            for (by, bytes) in &packets {
                planes.add(*by, 0, bytes);
                add_multiple(&mut rows, *by, bytes);
                for (sum, byte) in naive.iter_mut().zip(bytes) {
                    *sum ^= product(*by, *byte);
                }
            }
            let mut sum = vec![0; 60];
            planes.sum_into(&mut sum);
            assert_eq!((&sum, &rows), (&naive, &naive));
            scale(&mut sum, 7);
            let scaled: Vec<u8> = naive.iter().map(|byte| product(*byte, 7)).collect();
            assert_eq!(sum, scaled);
        }
    }
}
