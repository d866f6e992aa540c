//! X25519 [RFC 7748 §5] by curve25519-dalek, in the interface that `snow` expects, and for the secrets that this crate
//! agrees on itself.

use curve25519_dalek::montgomery::MontgomeryPoint;
use snow::types::{Dh, Random};
use wire::certificate::KEY_BYTES;
use zeroize::Zeroizing;

/// A secret and its public key. They are zero before [`Dh::set`] or [`Dh::generate`].
#[derive(Default)]
pub(crate) struct X25519 {
    secret: Zeroizing<[u8; KEY_BYTES]>,
    public: [u8; KEY_BYTES],
}

impl X25519 {
    pub(crate) fn of(secret: &[u8; KEY_BYTES]) -> X25519 {
        X25519 {
            secret: Zeroizing::new(*secret),
            public: MontgomeryPoint::mul_base_clamped(*secret).to_bytes(),
        }
    }

    pub(crate) fn public(&self) -> [u8; KEY_BYTES] {
        self.public
    }

    /// Returns the shared secret of both sides.
    pub(crate) fn agree(&self, public: &[u8; KEY_BYTES]) -> Zeroizing<[u8; KEY_BYTES]> {
        let shared = MontgomeryPoint(*public).mul_clamped(*self.secret);
        Zeroizing::new(shared.to_bytes())
    }
}

impl Dh for X25519 {
    fn name(&self) -> &'static str {
        "25519"
    }
    fn pub_len(&self) -> usize {
        KEY_BYTES
    }
    fn priv_len(&self) -> usize {
        KEY_BYTES
    }
    fn set(&mut self, secret: &[u8]) {
        let secret = secret.try_into().expect("snow hands over whole secrets");
        *self = X25519::of(secret);
    }
    fn generate(&mut self, rng: &mut dyn Random) -> Result<(), snow::Error> {
        let mut secret = Zeroizing::new([0; KEY_BYTES]);
        rng.try_fill_bytes(&mut secret[..])?;
        *self = X25519::of(&secret);
        Ok(())
    }
    fn pubkey(&self) -> &[u8] {
        &self.public
    }
    fn privkey(&self) -> &[u8] {
        &self.secret[..]
    }
    fn dh(&self, public: &[u8], out: &mut [u8]) -> Result<(), snow::Error> {
        let public = public.get(..KEY_BYTES).and_then(|key| key.try_into().ok());
        let shared = self.agree(public.ok_or(snow::Error::Dh)?);
        out.get_mut(..KEY_BYTES)
            .ok_or(snow::Error::Dh)?
            .copy_from_slice(&shared[..]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> [u8; 32] {
        core::array::from_fn(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap())
    }

    /// RFC 7748 §5.2: the base point has the coordinate 9; each result is the next secret, and each secret the next
    /// point.
    #[test]
    fn a_thousand_iterations_end_where_the_standard_says() {
        let mut base = [0; 32];
        base[0] = 9;
        let (mut secret, mut point) = (base, base);
        let first = hex("422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079");
        assert_eq!(X25519::of(&secret).public(), first);
        for _ in 0..1000 {
            let next = *X25519::of(&secret).agree(&point);
            point = std::mem::replace(&mut secret, next);
        }
        let last = hex("684cf59ba83309552800ef566f2f4d3c1c3887c49360e3875f2eb94d99532c51");
        assert_eq!(secret, last);
    }
}
