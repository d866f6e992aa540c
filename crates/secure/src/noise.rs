//! Noise XX by `snow`, with entropy from a seed.
//!
//! snow gets randomness, Diffie-Hellman, hash and cipher from its resolver. Our resolver returns a ChaCha20 stream of
//! the given seed, so that a handshake can be repeated byte by byte; hash and cipher are ring's, X25519 is
//! curve25519-dalek's. After the handshake the two raw keys are extracted, because sealing works in place and under the
//! nonces of `wire::link`, which snow's own transport does not offer.

use crate::entropy::Secret;
use crate::suite::Suite;
use crate::x25519::X25519;
use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::{CryptoResolver, RingResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, HandshakeState};
use wire::certificate::KEY_BYTES;

const PATTERN: &str = "Noise_XX_25519_AESGCM_SHA256";

/// Creates the side that writes the first message.
pub(crate) fn dialler(
    suite: &Suite,
    secret: &[u8; KEY_BYTES],
    seed: &Secret,
    prologue: &[u8],
) -> HandshakeState {
    builder(suite, secret, seed, prologue)
        .build_initiator()
        .expect("XX needs nothing but the local key")
}

/// Creates the side that reads the first message.
pub(crate) fn responder(
    suite: &Suite,
    secret: &[u8; KEY_BYTES],
    seed: &Secret,
    prologue: &[u8],
) -> HandshakeState {
    builder(suite, secret, seed, prologue)
        .build_responder()
        .expect("XX needs nothing but the local key")
}

fn builder<'a>(
    suite: &Suite,
    secret: &'a [u8; KEY_BYTES],
    seed: &Secret,
    prologue: &'a [u8],
) -> Builder<'a> {
    let params = PATTERN.parse().expect("the pattern is one of snow's");
    let resolver = Resolver {
        seed: seed.clone(),
        open: suite.is_open(),
    };
    Builder::with_resolver(params, Box::new(resolver))
        .local_private_key(secret)
        .and_then(|builder| builder.prologue(prologue))
        .expect("each is set once")
}

struct Resolver {
    seed: Secret,
    /// True if keys are agreed without secrets.
    open: bool,
}

impl CryptoResolver for Resolver {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(Stream(ChaCha20Rng::from_seed(*self.seed))))
    }
    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        match choice {
            DHChoice::Curve25519 if self.open => Some(Box::new(OpenDh([0; KEY_BYTES]))),
            DHChoice::Curve25519 => Some(Box::new(X25519::default())),
            _ => None,
        }
    }
    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        RingResolver.resolve_hash(choice)
    }
    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        RingResolver.resolve_cipher(choice)
    }
}

/// A key agreement that everybody can listen to: the public key is the secret key, and the result of two keys is their
/// sum without carries.
struct OpenDh([u8; KEY_BYTES]);

impl Dh for OpenDh {
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
        self.0.copy_from_slice(secret);
    }
    fn generate(&mut self, rng: &mut dyn Random) -> Result<(), snow::Error> {
        rng.try_fill_bytes(&mut self.0)
    }
    fn pubkey(&self) -> &[u8] {
        &self.0
    }
    fn privkey(&self) -> &[u8] {
        &self.0
    }
    fn dh(&self, public: &[u8], out: &mut [u8]) -> Result<(), snow::Error> {
        for ((out, ours), theirs) in out.iter_mut().zip(&self.0).zip(public) {
            *out = ours ^ theirs;
        }
        Ok(())
    }
}

struct Stream(ChaCha20Rng);

impl Random for Stream {
    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), snow::Error> {
        self.0.fill_bytes(bytes);
        Ok(())
    }
}
