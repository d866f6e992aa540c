//! The baseline of `seal_session`: the same bytes with plain ring, without window and header.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

const DATAGRAMS: u64 = 10_000_000;
const BYTES: usize = 207;

fn main() {
    let key = || LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &[7; 32]).expect("32 bytes"));
    let (sealing, opening) = (key(), key());
    let mut datagram = [7; BYTES];
    for counter in 0..DATAGRAMS {
        let nonce = || {
            let mut nonce = [0; 12];
            nonce[4..].copy_from_slice(&counter.to_be_bytes());
            Nonce::assume_unique_for_key(nonce)
        };
        let (front, rest) = datagram.split_at_mut(8);
        let (plaintext, room) = rest.split_at_mut(rest.len() - 16);
        let tag = sealing
            .seal_in_place_separate_tag(nonce(), Aad::from(&*front), plaintext)
            .expect("short enough");
        room.copy_from_slice(tag.as_ref());
        opening
            .open_in_place(nonce(), Aad::from(&*front), rest)
            .expect("sealed just before");
    }
}
