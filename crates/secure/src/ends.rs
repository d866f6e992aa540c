//! What the ends of a transfer of bulk data agree on, so that the relays between them see nothing of it and
//! change nothing in it.
//!
//! ```text
//!   beginner: Ephemeral, its public half in the signed order ──▶ end: Ephemeral, its public half signed
//!        '──────────── agree ──▶ Agreed: one for each pair ◀── agree ────────────'
//!                                 ├─ Transcript   tags what the sink says of what it has
//!                                 └─ wrap, unwrap the key of the stream ──▶ StreamKey: seal, open frames
//! ```
//! The key of the stream is the same for all sinks, so that relays copy frames as they are. What a sink says
//! is tagged under what it alone shares with the source, so that no sink speaks for another. Who signs the
//! public halves, and who verifies that, is the business of `host::relay`.

use crate::entropy::Secret;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{self, HKDF_SHA256, Salt};
use ring::hmac;
use snow::params::DHChoice;
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::Dh;
use subtle::ConstantTimeEq;
use wire::TAG_BYTES;
use wire::certificate::KEY_BYTES;
use wire::relay::{MAC_BYTES, TRANSFER_BYTES, WRAPPED_BYTES};
use zeroize::{Zeroize, Zeroizing};

/// Bytes of a stream under one key. The advantage of an attacker against AES-GCM is about the square of
/// the blocks over 2^129: here, 2^-65.
const EPOCH_BYTES: u64 = 1 << 36;

/// A key for one transfer.
pub struct Ephemeral {
    dh: Box<dyn Dh>,
}

impl Ephemeral {
    /// From 32 bytes that nobody can guess.
    pub fn new(mut secret: [u8; KEY_BYTES]) -> Ephemeral {
        let mut dh = x25519();
        dh.set(&secret);
        secret.zeroize();
        Ephemeral { dh }
    }

    /// What the other end is told.
    pub fn public(&self) -> [u8; KEY_BYTES] {
        let public = self.dh.pubkey().try_into();
        public.expect("X25519 keys have 32 bytes")
    }

    /// What this end shares with the one that has told `theirs`, for this transfer; none if what was told
    /// is no key. `began` says whether the transfer has begun at this end.
    pub fn agree(
        &self,
        theirs: &[u8; KEY_BYTES],
        transfer: &[u8; TRANSFER_BYTES],
        began: bool,
    ) -> Option<Agreed> {
        let mut shared = Zeroizing::new([0; KEY_BYTES]);
        self.dh.dh(theirs, &mut shared[..]).ok()?;
        // Points of small order agree on nothing with everybody.
        if shared.iter().all(|byte| *byte == 0) {
            return None;
        }
        let mine = self.public();
        let (first, second) = match began {
            true => (&mine, theirs),
            false => (theirs, &mine),
        };
        let agreed = Salt::new(HKDF_SHA256, transfer).extract(&shared[..]);
        let key = |what: &[u8]| expand(&agreed, &[what, first, second]);
        Some(Agreed {
            wrapping: aead(&key(b"sinew transfer wrap 1")),
            tagging: hmac::Key::new(hmac::HMAC_SHA256, &key(b"sinew transfer tag 1")[..]),
        })
    }
}

/// What two ends share.
pub struct Agreed {
    wrapping: LessSafeKey,
    tagging: hmac::Key,
}

impl Agreed {
    /// The stream's key, for the other end alone. Once: there is one stream in a transfer.
    pub fn wrap(&self, key: &StreamKey) -> [u8; WRAPPED_BYTES] {
        let mut wrapped = [0; WRAPPED_BYTES];
        let (body, tag) = wrapped.split_at_mut(KEY_BYTES);
        body.copy_from_slice(&key.secret[..]);
        let sealed = self
            .wrapping
            .seal_in_place_separate_tag(nonce(0), Aad::empty(), body);
        let sealed = sealed.expect("a key is shorter than what one nonce may seal");
        tag.copy_from_slice(sealed.as_ref());
        wrapped
    }

    /// The key that the other end has wrapped; none if it has not.
    pub fn unwrap(&self, wrapped: &[u8; WRAPPED_BYTES]) -> Option<StreamKey> {
        let mut bytes = Zeroizing::new(*wrapped);
        let opened = self
            .wrapping
            .open_in_place(nonce(0), Aad::empty(), &mut bytes[..]);
        let secret: [u8; KEY_BYTES] = (*opened.ok()?).try_into().ok()?;
        Some(StreamKey::new(secret))
    }

    /// The beginning of what the sink says.
    pub fn transcript(&self) -> Transcript {
        Transcript(hmac::Context::with_key(&self.tagging))
    }
}

/// What a sink has said so far, at both ends.
#[derive(Clone)]
pub struct Transcript(hmac::Context);

impl Transcript {
    /// It says this: a message of this kind.
    pub fn say(&mut self, kind: u8, bytes: &[u8]) {
        self.0.update(&[kind]);
        self.0.update(&(bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
    }

    /// Shows that all of it was said by the other end.
    pub fn tag(&self) -> [u8; MAC_BYTES] {
        let tag = self.0.clone().sign();
        tag.as_ref().try_into().expect("SHA-256 has 32 bytes")
    }

    /// The other end has said all of it, and nothing else. In constant time.
    pub fn is_tagged(&self, tag: &[u8; MAC_BYTES]) -> bool {
        self.tag().ct_eq(tag).into()
    }
}

/// The key of a stream: seals frames by their place in it. Each place is sealed once.
pub struct StreamKey {
    secret: Secret,
    first: LessSafeKey,
}

impl StreamKey {
    /// From 32 bytes that nobody can guess.
    pub fn new(secret: [u8; KEY_BYTES]) -> StreamKey {
        let secret = Secret::new(secret);
        let first = aead(&epoch(&secret, 0));
        StreamKey { secret, first }
    }

    /// Encrypts a frame that begins at this offset, all but its last [`TAG_BYTES`], where the tag goes.
    pub fn seal(&self, offset: u64, frame: &mut [u8]) {
        let end = frame.len().checked_sub(TAG_BYTES);
        let (body, tag) = frame.split_at_mut(end.expect("a frame has room for its tag"));
        let sealed = self.with(offset, |key| {
            key.seal_in_place_separate_tag(nonce(offset), Aad::empty(), body)
        });
        let sealed = sealed.expect("a frame is shorter than what one nonce may seal");
        tag.copy_from_slice(sealed.as_ref());
    }

    /// Decrypts a frame in its place; false if it is not what was sealed there. Its last [`TAG_BYTES`]
    /// are of no use then.
    #[must_use]
    pub fn open(&self, offset: u64, frame: &mut [u8]) -> bool {
        let opened = self.with(offset, |key| {
            key.open_in_place(nonce(offset), Aad::empty(), frame)
                .map(drop)
        });
        opened.is_ok()
    }

    fn with<T>(&self, offset: u64, act: impl FnOnce(&LessSafeKey) -> T) -> T {
        match offset / EPOCH_BYTES {
            0 => act(&self.first),
            // Choice: made anew for each frame, which costs a hundredth of sealing it.
            number => act(&aead(&epoch(&self.secret, number))),
        }
    }
}

/// The key for one part of a stream.
fn epoch(secret: &Secret, number: u64) -> Zeroizing<[u8; KEY_BYTES]> {
    let stream = Salt::new(HKDF_SHA256, b"sinew transfer stream 1").extract(&secret[..]);
    expand(&stream, &[&number.to_be_bytes()])
}

fn expand(from: &hkdf::Prk, info: &[&[u8]]) -> Zeroizing<[u8; KEY_BYTES]> {
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    let expanded = from.expand(info, HKDF_SHA256);
    let filled = expanded.and_then(|okm| okm.fill(&mut key[..]));
    filled.expect("SHA-256 gives 32 bytes");
    key
}

fn aead(key: &[u8; KEY_BYTES]) -> LessSafeKey {
    let key = UnboundKey::new(&AES_256_GCM, key);
    LessSafeKey::new(key.expect("AES-256 takes 32 bytes"))
}

fn nonce(number: u64) -> Nonce {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&number.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

fn x25519() -> Box<dyn Dh> {
    let dh = DefaultResolver.resolve_dh(&DHChoice::Curve25519);
    dh.expect("snow is built with X25519")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRANSFER: [u8; TRANSFER_BYTES] = [9; TRANSFER_BYTES];

    fn pair() -> (Agreed, Agreed) {
        let (near, far) = (Ephemeral::new([1; 32]), Ephemeral::new([2; 32]));
        let near_agreed = near.agree(&far.public(), &TRANSFER, true).unwrap();
        let far_agreed = far.agree(&near.public(), &TRANSFER, false).unwrap();
        (near_agreed, far_agreed)
    }

    #[test]
    fn both_ends_agree_and_nobody_else() {
        let (near, far) = pair();
        let wrapped = near.wrap(&StreamKey::new([7; 32]));
        let key = far.unwrap(&wrapped).unwrap();
        assert_eq!(*key.secret, [7; 32]);
        for at in 0..wrapped.len() {
            let mut changed = wrapped;
            changed[at] ^= 1;
            assert!(far.unwrap(&changed).is_none(), "byte {at}");
        }
        let (near, far) = (Ephemeral::new([1; 32]), Ephemeral::new([2; 32]));
        let other = far.agree(&near.public(), &[8; 16], false).unwrap();
        assert!(other.unwrap(&wrapped).is_none(), "another transfer");
        let other = far.agree(&near.public(), &TRANSFER, true).unwrap();
        assert!(other.unwrap(&wrapped).is_none(), "who began it counts");
        let relay = Ephemeral::new([3; 32]);
        let other = relay.agree(&near.public(), &TRANSFER, false).unwrap();
        assert!(other.unwrap(&wrapped).is_none(), "a relay");
        assert!(near.agree(&[0; 32], &TRANSFER, true).is_none());
        let mut one = [0; 32];
        one[0] = 1;
        assert!(near.agree(&one, &TRANSFER, true).is_none());
    }

    #[test]
    fn what_a_sink_says_is_tagged_from_the_beginning() {
        let (near, far) = pair();
        let (mut said, mut heard) = (far.transcript(), near.transcript());
        said.say(1, b"keys");
        said.say(1, b"have");
        heard.say(1, b"keys");
        assert!(!heard.is_tagged(&said.tag()), "something is left out");
        heard.say(1, b"have");
        assert!(heard.is_tagged(&said.tag()));
        let mut split = near.transcript();
        split.say(1, b"key");
        split.say(1, b"shave");
        assert!(!split.is_tagged(&said.tag()), "cut elsewhere");
    }

    #[test]
    fn a_frame_opens_only_where_it_was_sealed() {
        let key = StreamKey::new([7; 32]);
        for offset in [0, 5, EPOCH_BYTES - 1, EPOCH_BYTES, 3 * EPOCH_BYTES + 17] {
            let mut frame = b"a piece of a file................".to_vec();
            let plain = frame.clone();
            key.seal(offset, &mut frame);
            let sealed = frame.clone();
            assert_ne!(sealed[..17], plain[..17]);
            assert!(key.open(offset, &mut frame));
            assert_eq!(frame[..17], plain[..17]);
            for elsewhere in [offset + 1, offset + EPOCH_BYTES] {
                assert!(!key.open(elsewhere, &mut sealed.clone()));
            }
            for at in 0..sealed.len() {
                let mut changed = sealed.clone();
                changed[at] ^= 1;
                assert!(!key.open(offset, &mut changed), "byte {at}");
            }
        }
        assert!(!key.open(0, &mut []));
        assert!(!key.open(0, &mut [0; 15]));
    }
}
