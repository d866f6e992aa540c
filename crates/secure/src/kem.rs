//! Keys that resist a quantum computer: a mixture of the Noise agreement and the ML-KEM-768 (FIPS 203) secret.
//!
//! ```text
//!   dialler                                                    responder
//!   Offer: two secrets ──▶ key ═══════ sealed by Agreed ══════▶ answer ──▶ shared
//!     '─ shared ◀──────────────────────────────────── ciphertext ◀──'
//!                                                                         HKDF-SHA-256
//!   Noise: hash of all its messages ─────────────────────────────── salt ──────┐
//!          keys of both directions ‖ shared ────────────────── key material ───┼──▶ keys of both directions
//!          SHA-256 of key and ciphertext ───────────────────────── info ───────┘
//! ```
//!
//! To learn a key, an attacker must know both the X25519 secret and the ML-KEM secret, because the extraction uses them
//! together. Noise authenticates key and ciphertext twice: as pieces when they arrive, and as inputs of the key
//! derivation. So an attacker who can forge neither certificates nor Noise cannot change them.

use crate::ends::{aead, expand, nonce};
use crate::entropy::{Entropy, Secret};
use crate::suite::Suite;
use ml_kem::ml_kem_768::{DecapsulationKey, EncapsulationKey};
use ml_kem::{Decapsulate, KeyExport};
use ring::aead::{Aad, LessSafeKey};
use ring::digest::{Context, SHA256};
use ring::hkdf::{HKDF_SHA256, Salt};
use snow::HandshakeState;
use wire::TAG_BYTES;
use wire::handshake::kem::{CIPHERTEXT_BYTES, HEADER_BYTES, KEY_BYTES, PIECES, Piece, Whole};
use wire::link::SessionIndex;
use zeroize::{Zeroize, Zeroizing};

/// The keys of the two directions, the dialler's first.
pub(crate) type KeyPair = ([u8; 32], [u8; 32]);

/// The dialler's half. It stores only the 64 bytes from which its keys are made, instead of 10 KiB, while it waits for
/// an answer.
pub(crate) struct Offer {
    secrets: (Secret, Secret),
    /// True if keys are agreed without secrets.
    open: bool,
}

impl Offer {
    pub(crate) fn new(suite: &Suite, entropy: &mut Entropy) -> Offer {
        Offer {
            secrets: (entropy.draw(), entropy.draw()),
            open: suite.is_open(),
        }
    }

    /// Returns the key for the responder.
    pub(crate) fn key(&self) -> Vec<u8> {
        if self.open {
            return self.secrets.0.repeat(KEY_BYTES / 32);
        }
        self.decapsulation_key()
            .encapsulation_key()
            .to_bytes()
            .to_vec()
    }

    /// Returns the secret shared with the node that has answered with this ciphertext. A wrong ciphertext gives another
    /// secret and no error: the difference shows when the keys are used.
    pub(crate) fn open(&self, ciphertext: &[u8]) -> Option<Secret> {
        if self.open {
            return Some(Secret::default());
        }
        let ciphertext = ciphertext.try_into().ok()?;
        let mut shared = self.decapsulation_key().decapsulate(&ciphertext);
        Some(taken(shared.as_mut_slice()))
    }

    fn decapsulation_key(&self) -> DecapsulationKey {
        let (d, z) = &self.secrets;
        let mut seed = ml_kem::Seed::default();
        seed[..32].copy_from_slice(d.as_slice());
        seed[32..].copy_from_slice(z.as_slice());
        let key = DecapsulationKey::from_seed(seed);
        seed.zeroize();
        key
    }
}

/// Computes the responder's half: the ciphertext, and the secret shared with the dialler. `None` if the key is invalid.
pub(crate) fn answer(suite: &Suite, key: &[u8], secret: &Secret) -> Option<(Vec<u8>, Secret)> {
    if suite.is_open() {
        return Some((secret.repeat(CIPHERTEXT_BYTES / 32), Secret::default()));
    }
    let key = EncapsulationKey::new(key.try_into().ok()?).ok()?;
    let mut message = ml_kem::B32::from(**secret);
    let (ciphertext, mut shared) = key.encapsulate_deterministic(&message);
    message.zeroize();
    Some((ciphertext.to_vec(), taken(shared.as_mut_slice())))
}

fn taken(bytes: &mut [u8]) -> Secret {
    let mut secret = Secret::default();
    secret.copy_from_slice(bytes);
    bytes.zeroize();
    secret
}

/// The result of a finished Noise handshake at both sides. It seals the pieces, and the keys are derived from it.
pub(crate) struct Agreed {
    keys: Zeroizing<[u8; 64]>,
    hash: [u8; 32],
    /// The keys that seal the dialler's key, and the responder's ciphertext.
    of_dialler: LessSafeKey,
    of_responder: LessSafeKey,
}

impl Agreed {
    pub(crate) fn new(noise: &mut HandshakeState) -> Agreed {
        let (mut dialler, mut responder) = noise.dangerously_get_raw_split();
        let mut keys = Zeroizing::new([0; 64]);
        keys[..32].copy_from_slice(&dialler);
        keys[32..].copy_from_slice(&responder);
        dialler.zeroize();
        responder.zeroize();
        let hash = noise.get_handshake_hash().try_into();
        let hash: [u8; 32] = hash.expect("SHA-256 gives 32 bytes");
        let from = Salt::new(HKDF_SHA256, &hash).extract(&keys[..]);
        let key = |what: &[u8]| aead(&expand(&from, &[what]));
        Agreed {
            of_dialler: key(b"sinew kem key 1"),
            of_responder: key(b"sinew kem ciphertext 1"),
            keys,
            hash,
        }
    }

    /// Returns the datagrams that carry a key or a ciphertext. Call this once for each: the nonce is the number of a
    /// piece.
    pub(crate) fn seal(&self, of: Whole, receiver: SessionIndex, whole: &[u8]) -> Vec<Vec<u8>> {
        let seal = |number| {
            let header = Piece::header(of, receiver, number);
            let mut datagram = header.to_vec();
            datagram.extend_from_slice(&whole[of.range(number)]);
            let piece = &mut datagram[HEADER_BYTES..];
            let key = self.sealing(of);
            let tag =
                key.seal_in_place_separate_tag(nonce(number as u64), Aad::from(header), piece);
            let tag = tag.expect("a piece is shorter than what one nonce may seal");
            datagram.extend_from_slice(tag.as_ref());
            datagram
        };
        (0..PIECES).map(seal).collect()
    }

    fn open(&self, piece: &Piece<'_>) -> Option<Vec<u8>> {
        let header = Piece::header(piece.of, piece.receiver, piece.number);
        let mut bytes = piece.sealed.to_vec();
        let opened = self.sealing(piece.of).open_in_place(
            nonce(piece.number as u64),
            Aad::from(header),
            &mut bytes,
        );
        opened.ok()?;
        bytes.truncate(piece.sealed.len() - TAG_BYTES);
        Some(bytes)
    }

    fn sealing(&self, of: Whole) -> &LessSafeKey {
        match of {
            Whole::Key => &self.of_dialler,
            Whole::Ciphertext => &self.of_responder,
        }
    }

    /// Returns the keys of the session.
    pub(crate) fn hybrid(&self, shared: &Secret, key: &[u8], ciphertext: &[u8]) -> KeyPair {
        let mut said = Context::new(&SHA256);
        said.update(key);
        said.update(ciphertext);
        let said = said.finish();
        let mut material = Zeroizing::new([0; 96]);
        material[..64].copy_from_slice(&self.keys[..]);
        material[64..].copy_from_slice(&shared[..]);
        let mixed = Salt::new(HKDF_SHA256, &self.hash).extract(&material[..]);
        let key = |what: &[u8]| *expand(&mixed, &[what, said.as_ref()]);
        (
            key(b"sinew hybrid dialler 1"),
            key(b"sinew hybrid responder 1"),
        )
    }
}

/// The received pieces of a key or a ciphertext.
pub(crate) struct Pieces {
    of: Whole,
    bytes: Vec<u8>,
    has: [bool; PIECES],
    /// Number of pieces that were not authentic.
    bad: u32,
}

/// The result of a piece.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Other pieces are missing.
    Part,
    /// All pieces have arrived.
    Whole,
    /// The piece is not authentic.
    Forged,
    /// Too many pieces were not authentic, so this one was not examined.
    TooMany,
}

/// The maximum number of pieces that are not authentic and still examined, in one handshake. Each costs a microsecond
/// and delays nothing.
const BAD_MAX: u32 = 1_000;

impl Pieces {
    pub(crate) fn new(of: Whole) -> Pieces {
        Pieces {
            of,
            bytes: vec![0; of.bytes()],
            has: [false; PIECES],
            bad: 0,
        }
    }

    /// Takes in a piece of the expected kind.
    pub(crate) fn take(&mut self, agreed: &Agreed, piece: &Piece<'_>) -> Taken {
        debug_assert!(piece.of == self.of);
        if self.bad >= BAD_MAX {
            return Taken::TooMany;
        }
        let Some(bytes) = agreed.open(piece) else {
            self.bad += 1;
            return Taken::Forged;
        };
        self.bytes[self.of.range(piece.number)].copy_from_slice(&bytes);
        self.has[piece.number] = true;
        match self.has.iter().all(|has| *has) {
            true => Taken::Whole,
            false => Taken::Part,
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests;
