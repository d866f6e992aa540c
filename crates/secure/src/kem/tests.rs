use super::*;

fn suite() -> Suite {
    Suite::Earnest
}

fn offer(seed: u8) -> Offer {
    Offer::new(&suite(), &mut Entropy::new([seed; 32]))
}

#[test]
fn both_sides_share_a_secret_and_another_ciphertext_gives_another() {
    let offer = offer(1);
    let key = offer.key();
    assert_eq!(key.len(), KEY_BYTES);
    let (ciphertext, shared) = answer(&suite(), &key, &Secret::new([5; 32])).unwrap();
    assert_eq!(ciphertext.len(), CIPHERTEXT_BYTES);
    assert_eq!(*offer.open(&ciphertext).unwrap(), *shared);
    let mut changed = ciphertext.clone();
    changed[100] ^= 1;
    assert_ne!(*offer.open(&changed).unwrap(), *shared);
    assert!(offer.open(&ciphertext[1..]).is_none());
    assert!(answer(&suite(), &key[1..], &Secret::new([5; 32])).is_none());
    assert!(answer(&suite(), &[0xff; KEY_BYTES], &Secret::new([5; 32])).is_none());
}

#[test]
fn equal_entropy_gives_equal_keys() {
    assert_eq!(offer(1).key(), offer(1).key());
    assert_ne!(offer(1).key(), offer(2).key());
}

fn agreed() -> Agreed {
    let key = |byte| aead(&Zeroizing::new([byte; 32]));
    Agreed {
        keys: Zeroizing::new([3; 64]),
        hash: [4; 32],
        of_dialler: key(1),
        of_responder: key(2),
    }
}

/// The key schedule, computed by hand with HMAC-SHA-256 (RFC 5869): the released format is frozen.
#[test]
fn keys_come_of_both_secrets_and_of_all_that_was_said() {
    use ring::hmac::{HMAC_SHA256, Key, sign};
    let mac = |key: &[u8], text: &[&[u8]]| {
        let tag = sign(&Key::new(HMAC_SHA256, key), &text.concat());
        <[u8; 32]>::try_from(tag.as_ref()).unwrap()
    };
    let (key, ciphertext) = ([8; KEY_BYTES], [9; CIPHERTEXT_BYTES]);
    let shared = Secret::new([5; 32]);
    let keys = agreed().hybrid(&shared, &key, &ciphertext);
    let extracted = mac(&[4; 32], &[&[3; 64], &[5; 32]]);
    let said = ring::digest::digest(&SHA256, &[&key[..], &ciphertext].concat());
    let expected = [&b"sinew hybrid dialler 1"[..], b"sinew hybrid responder 1"]
        .map(|label| mac(&extracted, &[label, said.as_ref(), &[1]]));
    assert_eq!([keys.0, keys.1], expected);

    let other = [
        agreed().hybrid(&Secret::new([6; 32]), &key, &ciphertext),
        agreed().hybrid(&shared, &[7; KEY_BYTES], &ciphertext),
        agreed().hybrid(&shared, &key, &[7; CIPHERTEXT_BYTES]),
        Agreed {
            keys: Zeroizing::new([2; 64]),
            ..agreed()
        }
        .hybrid(&shared, &key, &ciphertext),
        Agreed {
            hash: [2; 32],
            ..agreed()
        }
        .hybrid(&shared, &key, &ciphertext),
    ];
    for keys in other {
        assert!(keys.0 != expected[0] && keys.1 != expected[1]);
    }
}

#[test]
fn pieces_open_with_what_sealed_them_and_at_their_place() {
    let receiver = SessionIndex::new(0xabcdef);
    let whole: Vec<u8> = (0..KEY_BYTES).map(|at| (at % 251) as u8).collect();
    let datagrams = agreed().seal(Whole::Key, receiver, &whole);
    let mut pieces = Pieces::new(Whole::Key);
    for (number, datagram) in datagrams.iter().enumerate() {
        let piece = Piece::parse(datagram).unwrap();
        assert_eq!((piece.number, piece.receiver), (number, receiver));
        let last = number + 1 == PIECES;
        let expected = if last { Taken::Whole } else { Taken::Part };
        assert_eq!(pieces.take(&agreed(), &piece), expected);
    }
    assert_eq!(pieces.bytes(), whole);
    let mut elsewhere = datagrams[0].clone();
    elsewhere[1] ^= 1;
    let piece = Piece::parse(&elsewhere).unwrap();
    assert_eq!(pieces.take(&agreed(), &piece), Taken::Forged);
}
