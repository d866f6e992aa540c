use super::*;
use proptest::prelude::*;

fn pair() -> (Session, Session) {
    pair_of(false)
}

fn pair_of(open: bool) -> (Session, Session) {
    let make = |local, peer, dialled| {
        let parts = Parts {
            shown: Shown::default(),
            local_index: SessionIndex::new(local),
            peer_index: SessionIndex::new(peer),
            version: 1,
            dialled,
            keys: ([1; 32], [2; 32]),
            open,
            window: 1 << 16,
        };
        Session::new(parts, Time::ZERO)
    };
    (make(10, 20, true), make(20, 10, false))
}

fn sealed(session: &mut Session, kind: Kind, plaintext: &[u8]) -> Vec<u8> {
    let mut datagram = vec![0xa5; CLEAR_BYTES];
    datagram.extend_from_slice(plaintext);
    datagram.extend_from_slice(&[0xa5; TAG_BYTES]);
    session.seal(kind, &mut datagram).unwrap();
    datagram
}

#[test]
fn both_directions_and_both_kinds() {
    let (mut a, mut b) = pair();
    for (counter, kind) in [(0, Kind::Data), (1, Kind::Control)] {
        let mut datagram = sealed(&mut a, kind, b"hello");
        assert_eq!(&datagram[1..4], [0, 0, 20], "the peer's index");
        assert_ne!(&datagram[8..13], b"hello");
        let opened = b.open(&mut datagram).unwrap();
        assert_eq!((opened.kind, opened.counter), (kind, counter));
        assert_eq!(opened.session, b.local_index());
        assert_eq!(&datagram[opened.plaintext], b"hello");
        let mut back = sealed(&mut b, kind, b"");
        assert_eq!(a.open(&mut back).unwrap().plaintext, 8..8);
    }
}

#[test]
fn a_session_that_was_agreed_on_seals_as_any_other() {
    let agreed = |dialled| {
        Session::agreed(
            SessionIndex::new(20),
            dialled,
            ([1; 32], [2; 32]),
            Time::ZERO,
        )
    };
    let (mut client, mut gate) = (agreed(true), agreed(false));
    let mut datagram = sealed(&mut client, Kind::Data, b"hello");
    assert_eq!(datagram, VECTOR);
    let again = datagram.clone();
    assert_eq!(gate.open(&mut datagram).unwrap().plaintext, 8..13);
    assert_eq!(gate.open(&mut again.clone()), Err(OpenError::Replay));
    // One side does not accept its own datagrams as the other's.
    assert_eq!(agreed(true).open(&mut again.clone()), Err(OpenError::Tag));
}

/// The result of OpenSSL: AES-256-GCM, key 32 × 01, nonce 4 × 00 and the counter 0, additional data the clear header,
/// plaintext `hello`.
const VECTOR: [u8; 29] = [
    24, 0, 0, 20, 0, 0, 0, 0, 215, 80, 244, 176, 26, 224, 118, 192, 18, 248, 143, 102, 66, 124,
    155, 57, 136, 41, 202, 165, 17,
];

#[test]
fn a_sealed_datagram_byte_for_byte() {
    let (mut a, _) = pair();
    let datagram = sealed(&mut a, Kind::Data, b"hello");
    assert_eq!(datagram, VECTOR);
}

#[test]
fn every_changed_byte_and_every_truncation_is_refused() {
    let (mut a, mut b) = pair();
    let original = sealed(&mut a, Kind::Data, b"a packet");
    for at in 0..original.len() {
        for bit in 0..8 {
            let mut datagram = original.clone();
            datagram[at] ^= 1 << bit;
            let error = b.open(&mut datagram).unwrap_err();
            assert!(matches!(error, OpenError::Tag | OpenError::Short), "{at}");
        }
        let mut datagram = original[..at].to_vec();
        let error = b.open(&mut datagram).unwrap_err();
        let expected = if at < SEAL_BYTES {
            OpenError::Short
        } else {
            OpenError::Tag
        };
        assert_eq!(error, expected, "cut at {at}");
    }
    let mut longer = [original.as_slice(), &[0]].concat();
    assert_eq!(b.open(&mut longer), Err(OpenError::Tag));
    assert!(b.open(&mut original.clone()).is_ok(), "and is not spoilt");
}

#[test]
fn a_datagram_is_opened_once_and_not_by_its_sender() {
    let (mut a, mut b) = pair();
    let datagram = sealed(&mut a, Kind::Data, b"once");
    assert!(b.open(&mut datagram.clone()).is_ok());
    assert_eq!(b.open(&mut datagram.clone()), Err(OpenError::Replay));
    assert_eq!(a.open(&mut datagram.clone()), Err(OpenError::Tag));
}

#[test]
fn counters_go_on_beyond_32_bits_of_the_wire() {
    let (mut a, mut b) = pair();
    // MAX_MESSAGES prevents this, but the format does not depend on that limit.
    let start = (1u64 << 32) - 3;
    b.replay.mark(start - 1);
    a.next_counter = start;
    for counter in start..start + 6 {
        let mut datagram = seal_unlimited(&mut a, counter);
        assert_eq!(b.open(&mut datagram).map(|o| o.counter), Ok(counter));
        assert_eq!(
            b.open(&mut seal_unlimited(&mut a, counter)),
            Err(OpenError::Replay)
        );
    }
}

/// Like `seal`, for any counter.
fn seal_unlimited(session: &mut Session, counter: u64) -> Vec<u8> {
    let clear = Clear {
        kind: Kind::Data,
        session: session.peer_index,
        counter_low: counter as u32,
    };
    let mut datagram = clear.to_bytes().to_vec();
    let tag = session.sealing.seal(counter, &clear.to_bytes(), &mut []);
    datagram.extend_from_slice(&tag.unwrap());
    datagram
}

#[test]
fn a_key_seals_so_much_and_no_more() {
    let (mut a, _) = pair();
    a.next_counter = REKEY_AFTER_MESSAGES - 1;
    assert!(!a.wants_rekey(Time::ZERO));
    sealed(&mut a, Kind::Data, b"");
    assert!(a.wants_rekey(Time::ZERO));
    a.next_counter = MAX_MESSAGES - 1;
    let mut datagram = [0; SEAL_BYTES];
    assert_eq!(a.seal(Kind::Data, &mut datagram), Ok(MAX_MESSAGES - 1));
    let before = datagram;
    assert_eq!(a.seal(Kind::Data, &mut datagram), Err(SealError::Exhausted));
    assert_eq!(datagram, before, "nothing leaves");
    assert_eq!(a.seal(Kind::Data, &mut [0; 23]), Err(SealError::Short));
}

#[test]
fn age_asks_for_a_new_session_and_then_ends_this_one() {
    let (a, b) = pair();
    let at = |age| Time::ZERO + age;
    let before = Duration::from_nanos(1);
    assert!(!a.wants_rekey(at(REKEY_AFTER - before)) && a.wants_rekey(at(REKEY_AFTER)));
    let later = REKEY_AFTER + REKEY_SPREAD;
    assert!(!b.wants_rekey(at(later - before)) && b.wants_rekey(at(later)));
    assert!(!a.is_expired(at(MAX_AGE - before)) && a.is_expired(at(MAX_AGE)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn any_order_opens_each_once(
        mut order in Just((0..200usize).chain(0..200).collect::<Vec<_>>()).prop_shuffle(),
        length in 0usize..64,
    ) {
        let (mut a, mut b) = pair();
        let all: Vec<_> = (0..200).map(|_| sealed(&mut a, Kind::Data, &vec![7; length])).collect();
        let mut opened = [false; 200];
        for at in order.drain(..) {
            let result = b.open(&mut all[at].clone());
            prop_assert_eq!(result.is_ok(), !opened[at]);
            opened[at] = true;
        }
    }
}

#[test]
fn an_open_session_differs_in_secrecy_alone() {
    let ((mut a, mut b), (mut sealing, _)) = (pair_of(true), pair());
    let mut datagram = sealed(&mut a, Kind::Data, b"hello");
    let earnest = sealed(&mut sealing, Kind::Data, b"hello");
    assert_eq!(datagram.len(), earnest.len());
    assert_eq!(datagram[..8], earnest[..8], "the same header and counter");
    assert_eq!(&datagram[8..13], b"hello");
    let opened = b.open(&mut datagram).unwrap();
    assert_eq!(&datagram[opened.plaintext], b"hello");
    assert_eq!(b.open(&mut datagram), Err(OpenError::Replay));
    let mut foreign = earnest;
    assert_eq!(b.open(&mut foreign), Err(OpenError::Replay));
    let mut foreign = sealed(&mut sealing, Kind::Data, b"hello");
    assert_eq!(b.open(&mut foreign), Err(OpenError::Tag));
    let mut back = sealed(&mut b, Kind::Control, b"");
    assert!(a.open(&mut back).is_ok());
}
