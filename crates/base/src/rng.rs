//! Seeded randomness for models and protocols: xoshiro256++ seeded through SplitMix64
//! (Blackman and Vigna). It must not be used for keys: `secure` has its own generator.
//!
//! The algorithm is part of what makes a run repeatable, so it is implemented here and pinned by test vectors instead
//! of depending on a library's default generator.

/// A seeded generator. Equal seeds give equal sequences on every machine.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// Creates the generator of `seed`.
    pub fn new(seed: u64) -> Rng {
        let mut x = seed;
        let mut split = || {
            x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = x;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        };
        Rng {
            state: [split(), split(), split(), split()],
        }
    }

    /// Creates an independent generator for one more source of randomness.
    pub fn fork(&mut self) -> Rng {
        Rng::new(self.next_u64())
    }

    /// Returns the next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Returns a uniform number below `bound`; 0 if the bound is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        // Lemire's reduction; the bias is below bound / 2^64.
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns a number in `0.0..1.0`, with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns true with probability `p`.
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// Fills `bytes` with random bits.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes()[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with the first outputs of xoshiro256++ for the state 1, 2, 3, 4, as computed by the authors' code.
    #[test]
    fn matches_the_reference_sequence() {
        let mut rng = Rng {
            state: [1, 2, 3, 4],
        };
        let expected = [41943041u64, 58720359, 3588806011781223, 3591011842654386];
        assert_eq!(expected.map(|_| rng.next_u64()), expected);
    }

    #[test]
    fn forks_differ_and_repeat() {
        let (mut a, mut b) = (Rng::new(7), Rng::new(7));
        let (mut fa, mut fb) = (a.fork(), b.fork());
        assert_eq!(fa.next_u64(), fb.next_u64());
        assert_ne!(fa.next_u64(), a.next_u64());
    }

    #[test]
    fn chance_comes_close_to_its_probability() {
        let mut rng = Rng::new(1);
        let hits = (0..100_000).filter(|_| rng.chance(0.05)).count();
        assert!((4_700..5_300).contains(&hits), "{hits}");
        assert!((0..1000).all(|_| rng.below(7) < 7));
    }
}
