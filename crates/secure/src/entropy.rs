//! The node's random numbers: a key that replaces itself with every number that it produces.
//!
//! ```text
//!   key --ChaCha20--> | next key 32 | number 32 |
//! ```
//!
//! An attacker who reads the key from a node's memory learns the numbers to come, until the node is started with fresh
//! entropy. He does not learn earlier numbers: past sessions stay secret.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use zeroize::Zeroizing;

/// Derives another seed from a seed and a name. Neither seed reveals anything about the other.
pub(crate) fn apart(seed: &[u8; 32], name: &[u8]) -> Secret {
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, seed);
    let tag = ring::hmac::sign(&key, name);
    let mut other = Secret::default();
    other.copy_from_slice(tag.as_ref());
    other
}

/// 32 random bytes that are wiped when dropped.
pub(crate) type Secret = Zeroizing<[u8; 32]>;

pub(crate) struct Entropy {
    key: Secret,
}

impl Entropy {
    pub(crate) fn new(seed: [u8; 32]) -> Entropy {
        Entropy {
            key: Zeroizing::new(seed),
        }
    }

    pub(crate) fn draw(&mut self) -> Secret {
        let mut stream = ChaCha20Rng::from_seed(*self.key);
        let mut number = Secret::default();
        stream.fill_bytes(self.key.as_mut_slice());
        stream.fill_bytes(number.as_mut_slice());
        number
    }

    pub(crate) fn draw_u32(&mut self) -> u32 {
        let [a, b, c, d, ..] = *self.draw();
        u32::from_be_bytes([a, b, c, d])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_draw_equal_numbers_and_no_number_twice() {
        let (mut a, mut b) = (Entropy::new([1; 32]), Entropy::new([1; 32]));
        let mut drawn = std::collections::BTreeSet::new();
        for _ in 0..1_000 {
            let number = a.draw();
            assert_eq!(number, b.draw());
            assert!(drawn.insert(*number));
        }
        assert_ne!(a.draw_u32(), Entropy::new([2; 32]).draw_u32());
    }

    #[test]
    fn seeds_apart_are_apart() {
        let seed = [1; 32];
        let names: [&[u8]; 2] = [b"one", b"other"];
        let [one, other] = names.map(|name| apart(&seed, name));
        assert!(*one != *other && *one != seed && *one == *apart(&seed, b"one"));
        let (mut a, mut b) = (Entropy::new(seed), Entropy::new(*one));
        assert!((0..100).all(|_| a.draw() != b.draw()));
    }

    #[test]
    fn the_key_does_not_give_what_was_drawn() {
        let mut entropy = Entropy::new([1; 32]);
        let number = entropy.draw();
        let mut stream = ChaCha20Rng::from_seed(*entropy.key);
        let mut ahead = [0; 32 * 64];
        stream.fill_bytes(&mut ahead);
        assert!(!ahead.windows(32).any(|window| window == number.as_slice()));
    }
}
