//! The keys that the ends of a bulk transfer agree on, so that the relays between them can neither read nor change the
//! data.
//!
//! ```text
//!   beginner: Ephemeral, its public half in the signed order ──▶ end: Ephemeral, its public half signed
//!        '──────────── agree ──▶ Agreed: one for each pair ◀── agree ────────────'
//!                                 ├─ Speech       seals what the sink says of what it has
//!                                 └─ wrap, unwrap the key of the stream ──▶ StreamKey: seal, open frames
//! ```
//! The key of the stream is the same for all sinks, so that relays copy frames unchanged. A sink's messages are sealed
//! under a key that it shares only with the source, so that no sink can send in the name of another. `host::relay`
//! signs the public halves and verifies the signatures.

use crate::entropy::Secret;
use crate::x25519::X25519;
use base::NodeAddr;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{self, HKDF_SHA256, Salt};
use wire::TAG_BYTES;
use wire::certificate::KEY_BYTES;
use wire::relay::{TRANSFER_BYTES, WRAPPED_BYTES};
use zeroize::{Zeroize, Zeroizing};

/// Number of bytes of a stream under one key. The advantage of an attacker against AES-GCM is about the square of the
/// blocks over 2^129: here, 2^-65.
const EPOCH_BYTES: u64 = 1 << 36;

/// The two ends of an agreement, and its transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The id of the transfer.
    pub transfer: [u8; TRANSFER_BYTES],
    /// The node at which the transfer begins.
    pub beginner: NodeAddr,
    /// The other end.
    pub end: NodeAddr,
}

/// A key for one transfer.
pub struct Ephemeral {
    key: X25519,
}

impl Ephemeral {
    /// Makes a key from 32 bytes that nobody can guess.
    pub fn new(mut secret: [u8; KEY_BYTES]) -> Ephemeral {
        let key = X25519::of(&secret);
        secret.zeroize();
        Ephemeral { key }
    }

    /// Returns the public half, for the other end.
    pub fn public(&self) -> [u8; KEY_BYTES] {
        self.key.public()
    }

    /// Returns what this end shares, for this transfer, with the end that has sent `theirs`; `None` if `theirs` is not
    /// a key. `began` says whether the transfer begins at this end.
    pub fn agree(&self, theirs: &[u8; KEY_BYTES], pair: &Pair, began: bool) -> Option<Agreed> {
        let shared = self.key.agree(theirs);
        // A point of small order gives the same result with every key.
        if shared.iter().all(|byte| *byte == 0) {
            return None;
        }
        let mine = self.public();
        let (first, second) = match began {
            true => (&mine, theirs),
            false => (theirs, &mine),
        };
        let agreed = Salt::new(HKDF_SHA256, &pair.transfer).extract(&shared[..]);
        let nodes = [pair.beginner.0.to_be_bytes(), pair.end.0.to_be_bytes()];
        let key = |what: &[u8]| expand(&agreed, &[what, nodes.as_flattened(), first, second]);
        Some(Agreed {
            wrapping: aead(&key(b"sinew transfer wrap 1")),
            saying: aead(&key(b"sinew transfer say 1")),
        })
    }
}

/// The shared secrets of two ends.
pub struct Agreed {
    wrapping: LessSafeKey,
    saying: LessSafeKey,
}

impl Agreed {
    /// Encrypts the stream's key for the other end. Call this only once: a transfer has one stream.
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

    /// Decrypts the key that the other end has wrapped; `None` if it is not from there.
    pub fn unwrap(&self, wrapped: &[u8; WRAPPED_BYTES]) -> Option<StreamKey> {
        let mut bytes = Zeroizing::new(*wrapped);
        let opened = self
            .wrapping
            .open_in_place(nonce(0), Aad::empty(), &mut bytes[..]);
        let secret: [u8; KEY_BYTES] = (*opened.ok()?).try_into().ok()?;
        Some(StreamKey::new(secret))
    }

    /// Returns the channel for the sink's messages to the source, from its start. One end seals, the other one opens.
    pub fn speech(self) -> (Speech, Agreed) {
        let key = self.saying.clone();
        (Speech { key, next: 0 }, self)
    }
}

/// The messages of a sink, one after the other, at both ends.
pub struct Speech {
    key: LessSafeKey,
    next: u64,
}

impl Speech {
    /// Seals the next message. `bound` is sent in the clear beside it and authenticated.
    pub fn seal(&mut self, bound: &[u8], message: &mut Vec<u8>) {
        let nonce = self.nonce();
        let sealed = self
            .key
            .seal_in_place_append_tag(nonce, Aad::from(bound), message);
        sealed.expect("a message is shorter than what one nonce may seal");
    }

    /// Opens the next message; `None` if it is not the next one that the other end has sealed.
    pub fn open<'a>(&mut self, bound: &[u8], message: &'a mut [u8]) -> Option<&'a [u8]> {
        let nonce = self.nonce();
        let opened = self.key.open_in_place(nonce, Aad::from(bound), message);
        opened.ok().map(|message| &*message)
    }

    fn nonce(&mut self) -> Nonce {
        let number = self.next;
        self.next += 1;
        nonce(number)
    }
}

/// The key of a stream. It seals frames by their place in the stream. Each place must be sealed only once.
pub struct StreamKey {
    secret: Secret,
    first: LessSafeKey,
}

impl StreamKey {
    /// Makes a key from 32 bytes that nobody can guess.
    pub fn new(secret: [u8; KEY_BYTES]) -> StreamKey {
        let secret = Secret::new(secret);
        let first = aead(&epoch(&secret, 0));
        StreamKey { secret, first }
    }

    /// Encrypts a frame that begins at this offset, except its last [`TAG_BYTES`], where the tag is written.
    pub fn seal(&self, offset: u64, frame: &mut [u8]) {
        let end = frame.len().checked_sub(TAG_BYTES);
        let (body, tag) = frame.split_at_mut(end.expect("a frame has room for its tag"));
        let sealed = self.with(offset, |key| {
            key.seal_in_place_separate_tag(nonce(offset), Aad::empty(), body)
        });
        let sealed = sealed.expect("a frame is shorter than what one nonce may seal");
        tag.copy_from_slice(sealed.as_ref());
    }

    /// Decrypts a frame in place. Returns false if it is not what was sealed at this offset. Its last [`TAG_BYTES`] are
    /// of no use afterwards.
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
            // Choice: the key is derived again for each frame, which costs a hundredth of sealing it.
            number => act(&aead(&epoch(&self.secret, number))),
        }
    }
}

/// Returns the key for one part of a stream.
fn epoch(secret: &Secret, number: u64) -> Zeroizing<[u8; KEY_BYTES]> {
    let stream = Salt::new(HKDF_SHA256, b"sinew transfer stream 1").extract(&secret[..]);
    expand(&stream, &[&number.to_be_bytes()])
}

pub(crate) fn expand(from: &hkdf::Prk, info: &[&[u8]]) -> Zeroizing<[u8; KEY_BYTES]> {
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    let expanded = from.expand(info, HKDF_SHA256);
    let filled = expanded.and_then(|okm| okm.fill(&mut key[..]));
    filled.expect("SHA-256 gives 32 bytes");
    key
}

pub(crate) fn aead(key: &[u8; KEY_BYTES]) -> LessSafeKey {
    let key = UnboundKey::new(&AES_256_GCM, key);
    LessSafeKey::new(key.expect("AES-256 takes 32 bytes"))
}

pub(crate) fn nonce(number: u64) -> Nonce {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&number.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAIR: Pair = Pair {
        transfer: [9; TRANSFER_BYTES],
        beginner: NodeAddr(1),
        end: NodeAddr(2),
    };

    fn pair() -> (Agreed, Agreed) {
        let (near, far) = (Ephemeral::new([1; 32]), Ephemeral::new([2; 32]));
        let near_agreed = near.agree(&far.public(), &PAIR, true).unwrap();
        let far_agreed = far.agree(&near.public(), &PAIR, false).unwrap();
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
        let others = [
            Pair {
                transfer: [8; TRANSFER_BYTES],
                ..PAIR
            },
            Pair {
                beginner: NodeAddr(3),
                ..PAIR
            },
            Pair {
                end: NodeAddr(3),
                ..PAIR
            },
        ];
        for other in others {
            let agreed = far.agree(&near.public(), &other, false).unwrap();
            assert!(agreed.unwrap(&wrapped).is_none(), "{other:?}");
        }
        let other = far.agree(&near.public(), &PAIR, true).unwrap();
        assert!(other.unwrap(&wrapped).is_none(), "who began it counts");
        let relay = Ephemeral::new([3; 32]);
        let other = relay.agree(&near.public(), &PAIR, false).unwrap();
        assert!(other.unwrap(&wrapped).is_none(), "a relay");
        assert!(near.agree(&[0; 32], &PAIR, true).is_none());
        let mut one = [0; 32];
        one[0] = 1;
        assert!(near.agree(&one, &PAIR, true).is_none());
    }

    #[test]
    fn what_a_sink_says_is_heard_in_its_order_and_whole() {
        let (near, far) = pair();
        let ((mut says, _), (mut hears, _)) = (far.speech(), near.speech());
        let said: Vec<Vec<u8>> = [&b"keys"[..], b"have", b"done"]
            .into_iter()
            .map(|text| {
                let mut message = text.to_vec();
                says.seal(b"bound", &mut message);
                message
            })
            .collect();
        assert_eq!(
            hears.open(b"bound", &mut said[0].clone()),
            Some(&b"keys"[..])
        );
        assert_eq!(hears.open(b"other", &mut said[1].clone()), None);
        assert_eq!(
            hears.open(b"bound", &mut said[2].clone()),
            Some(&b"done"[..])
        );
        let (mut hears, _) = pair().0.speech();
        assert_eq!(
            hears.open(b"bound", &mut said[1].clone()),
            None,
            "one is left out"
        );
        assert_eq!(hears.open(b"bound", &mut []), None);
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
