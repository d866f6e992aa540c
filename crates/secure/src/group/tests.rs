//! Keys of groups between a source and its receivers.

use super::*;
use crate::session::MAX_MESSAGES;
use crate::world::authority;
use wire::link::TAG_BYTES;

const BOUND: Bound = [7; 16];

fn keys(seed: u8) -> GroupKeys {
    GroupKeys::new(&authority().network(), &[seed; 32])
}

fn opening(keys: &GroupKeys, of: &SealingKey) -> OpeningKey {
    keys.opening(of.number(), of.secret(), of.first())
}

fn sealed(key: &mut SealingKey, plaintext: &[u8]) -> Vec<u8> {
    let mut datagram = vec![0; CLEAR_BYTES];
    datagram.extend_from_slice(plaintext);
    datagram.resize(datagram.len() + TAG_BYTES, 0);
    key.seal(Kind::Data, &mut datagram, &BOUND).unwrap();
    datagram
}

fn opened(key: &mut OpeningKey, datagram: &[u8], bound: &Bound) -> Result<Vec<u8>, OpenError> {
    let mut copy = datagram.to_vec();
    key.open(Route::Tree, &mut copy, bound)?;
    Ok(copy[CLEAR_BYTES..copy.len() - TAG_BYTES].to_vec())
}

#[test]
fn every_receiver_opens_each_packet_once() {
    let mut source = keys(1);
    let mut key = source.make(Time::ZERO);
    let receivers = [keys(2), keys(3)];
    let mut receivers = receivers.map(|keys| opening(&keys, &key));
    let packets: Vec<_> = (0..200u8).map(|n| sealed(&mut key, &[n; 40])).collect();
    for receiver in &mut receivers {
        for (n, packet) in packets.iter().enumerate().rev() {
            let plaintext = opened(receiver, packet, &BOUND);
            // Numbers that have left the window are not known any more.
            match plaintext {
                Ok(plaintext) => assert_eq!(plaintext, [n as u8; 40]),
                Err(why) => assert!(why == OpenError::Replay && n < 200 - 64, "{n}"),
            }
            assert_eq!(opened(receiver, packet, &BOUND), Err(OpenError::Replay));
        }
    }
}

#[test]
fn nothing_opens_that_was_changed_or_sealed_otherwise() {
    let mut source = keys(1);
    let (mut key, mut other) = (source.make(Time::ZERO), source.make(Time::ZERO));
    assert_ne!(key.number(), other.number());
    let mut receiver = opening(&source, &key);
    let good = sealed(&mut key, b"genuine");
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x40;
        assert!(opened(&mut receiver, &bad, &BOUND).is_err(), "byte {at}");
        assert!(opened(&mut receiver, &good[..at], &BOUND).is_err());
    }
    assert_eq!(opened(&mut receiver, &good, &[8; 16]), Err(OpenError::Tag));
    let foreign = sealed(&mut other, b"genuine");
    assert_eq!(opened(&mut receiver, &foreign, &BOUND), Err(OpenError::Tag));
    assert_eq!(opened(&mut receiver, &good, &BOUND).unwrap(), b"genuine");
}

#[test]
fn who_gets_the_key_late_opens_what_is_under_way_and_nothing_older() {
    let mut source = keys(1);
    let mut key = source.make(Time::ZERO);
    let packets: Vec<_> = (0..6_000).map(|_| sealed(&mut key, b"x")).collect();
    let mut receiver = opening(&source, &key);
    let first = packets.len() - BEFORE as usize;
    assert_eq!(
        opened(&mut receiver, &packets[first - 1], &BOUND),
        Err(OpenError::Replay)
    );
    assert!(opened(&mut receiver, &packets[first], &BOUND).is_ok());
    assert!(opened(&mut receiver, &packets[5_999], &BOUND).is_ok());
    assert!(opened(&mut receiver, &packets[first + 1], &BOUND).is_ok());
}

#[test]
fn who_comes_back_opens_nothing_twice_and_nothing_older_than_who_is_new() {
    let mut source = keys(1);
    let mut key = source.make(Time::ZERO);
    let mut receiver = opening(&source, &key);
    let packets: Vec<_> = (0..6_000).map(|_| sealed(&mut key, b"x")).collect();
    for packet in &packets[..5_000] {
        assert!(opened(&mut receiver, packet, &BOUND).is_ok());
    }
    receiver.renew(&opening(&source, &key));
    for packet in &packets[..5_000] {
        assert_eq!(
            opened(&mut receiver, packet, &BOUND),
            Err(OpenError::Replay)
        );
    }
    assert!(opened(&mut receiver, &packets[5_000], &BOUND).is_ok());
    (0..6_000).for_each(|_| drop(sealed(&mut key, b"x")));
    receiver.renew(&opening(&source, &key));
    assert_eq!(
        opened(&mut receiver, &packets[5_999], &BOUND),
        Err(OpenError::Replay)
    );
}

#[test]
fn what_comes_by_the_tree_is_counted_apart_and_opened_once() {
    let mut source = keys(1);
    let mut key = source.make(Time::ZERO);
    let mut receiver = opening(&source, &key);
    let packets: Vec<_> = (0..40).map(|_| sealed(&mut key, b"x")).collect();
    for packet in &packets[..10] {
        assert!(opened(&mut receiver, packet, &BOUND).is_ok());
    }
    assert_eq!(receiver.came_by_tree(0, 40), Some(10));
    for (n, packet) in packets.iter().enumerate().skip(5) {
        let alone = receiver.open(Route::Alone, &mut packet.clone(), &BOUND);
        assert_eq!(alone.is_ok(), n >= 10, "{n}");
    }
    assert_eq!(receiver.came_by_tree(0, 40), Some(10));
    // The tree brings some of them later, and an attacker sends packets that only look like others.
    for packet in &packets[20..30] {
        assert_eq!(
            opened(&mut receiver, packet, &BOUND),
            Err(OpenError::Replay)
        );
    }
    for packet in &packets[30..] {
        let mut bad = packet.clone();
        *bad.last_mut().unwrap() ^= 1;
        assert_eq!(opened(&mut receiver, &bad, &BOUND), Err(OpenError::Tag));
    }
    let came = [(0, 10), (10, 10), (20, 10), (30, 10)];
    let came = came.map(|(first, len)| receiver.came_by_tree(first, len));
    assert_eq!(came, [10, 0, 10, 0].map(Some));
    let after = sealed(&mut key, b"x");
    assert!(opened(&mut receiver, &after, &BOUND).is_ok());
    assert_eq!(receiver.came_by_tree(40, 1), Some(1));
    let alone = receiver.open(Route::Alone, &mut after.clone(), &BOUND);
    assert_eq!(alone, Err(OpenError::Replay));
}

#[test]
fn a_key_grows_old_by_time_and_by_packets_and_ends() {
    let mut key = keys(1).make(Time::ZERO);
    assert!(!key.wants_rekey(Time::ZERO + REKEY_AFTER - Duration::from_millis(1)));
    assert!(key.wants_rekey(Time::ZERO + REKEY_AFTER));
    key.next_counter = REKEY_AFTER_MESSAGES;
    assert!(key.wants_rekey(Time::ZERO));
    key.next_counter = MAX_MESSAGES;
    let mut room = [0; 40];
    let exhausted = key.seal(Kind::Data, &mut room, &BOUND);
    assert_eq!(exhausted, Err(SealError::Exhausted));
    key.next_counter = 0;
    let short = key.seal(Kind::Data, &mut room[..SEAL_BYTES - 1], &BOUND);
    assert_eq!(short, Err(SealError::Short));
}

#[test]
fn equal_seeds_make_equal_keys_and_no_key_is_shown() {
    let (mut a, mut b) = (keys(1), keys(1));
    let (one, same) = (a.make(Time::ZERO), b.make(Time::ZERO));
    assert_eq!(one.secret(), same.secret());
    assert_ne!(one.secret(), a.make(Time::ZERO).secret());
    assert_ne!(one.secret(), keys(2).make(Time::ZERO).secret());
    let shown = format!("{one:?} {:?} {a:?}", opening(&a, &one));
    let bytes = format!("{:?}", &one.secret()[..4]);
    assert!(!shown.contains(bytes.trim_matches(['[', ']'])), "{shown}");
}
