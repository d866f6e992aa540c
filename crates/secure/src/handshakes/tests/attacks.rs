//! Attacks from outside, by a dishonest network member, and with bad certificates.

use super::*;
use crate::certificate::Certificate;
use crate::limits::{MAX_HALF_OPEN, PROVEN_PER_S, UNPROVEN_BURST, UNPROVEN_PER_S};
use crate::mac::NetworkMac;
use crate::{Authority, Identity, Validity};
use wire::handshake::{INIT_BYTES, MAC_BYTES, init};

/// Returns the messages of one handshake, and the two nodes after it.
fn transcript() -> (Handshakes, Handshakes, [Vec<u8>; 3]) {
    let (mut a, mut b) = two();
    let init = a.dial(T0, at(2), None).unwrap();
    let response = b.on_datagram(T0, NOW_S, at(1), &init).reply();
    let established = a.on_datagram(T0, NOW_S, at(2), &response).established();
    let finish = established.reply.concat();
    b.on_datagram(T0, NOW_S, at(1), &finish).established();
    (a, b, [init, response, finish])
}

/// Returns `datagram` with each byte changed in turn.
fn changed(datagram: &[u8]) -> impl Iterator<Item = (usize, Vec<u8>)> {
    (0..datagram.len()).map(|at| {
        let mut copy = datagram.to_vec();
        copy[at] ^= 1;
        (at, copy)
    })
}

fn mac_of(handshakes: &Handshakes) -> NetworkMac {
    NetworkMac::new(handshakes.network().root_key())
}

/// Does what a member of the network can do: changes a message and makes its mac1 correct again.
fn with_mac(mac: &NetworkMac, mut datagram: Vec<u8>) -> Vec<u8> {
    let end = match Kind::of(&datagram) {
        Ok(Kind::HandshakeInit) => init::MAC1.end,
        _ => datagram.len(),
    };
    let mac1 = mac.of(&datagram[..end - MAC_BYTES]);
    datagram[end - MAC_BYTES..end].copy_from_slice(&mac1);
    datagram
}

#[test]
fn every_changed_byte_of_every_message_is_refused_and_the_true_one_still_counts() {
    let (mut a, mut b) = two();
    let now = T0;
    let init = a.dial(now, at(2), None).unwrap();
    for (at_byte, bad) in changed(&init) {
        // mac2 without a cookie is ignored: it proves nothing and harms nothing.
        if !init::MAC2.contains(&at_byte) {
            b.on_datagram(now, NOW_S, at(1), &bad).refused();
        }
    }
    assert_eq!(b.half_open(), 0);
    let response = b.on_datagram(now, NOW_S, at(1), &init).reply();
    for (_, bad) in changed(&response) {
        a.on_datagram(now, NOW_S, at(2), &bad).refused();
    }
    let established = a.on_datagram(now, NOW_S, at(2), &response).established();
    let finish = established.reply.concat();
    for (_, bad) in changed(&finish) {
        b.on_datagram(now, NOW_S, at(1), &bad).refused();
    }
    b.on_datagram(now, NOW_S, at(1), &finish).established();
}

#[test]
fn a_member_who_makes_mac1_fit_gets_no_further() {
    for step in 0..40 {
        let (mut a, mut b) = two();
        let mac = mac_of(&a);
        let init = a.dial(T0, at(2), None).unwrap();
        let response = b.on_datagram(T0, NOW_S, at(1), &init).reply();
        // The receiver's index finds the handshake, so it stays unchanged; everything else is changed.
        let noise = 8 + step * (response.len() - 8 - MAC_BYTES) / 40;
        let mut bad = response.clone();
        bad[noise] ^= 1;
        let outcome = a.on_datagram(T0, NOW_S, at(2), &with_mac(&mac, bad));
        assert_eq!(outcome.refused(), Refusal::Noise);
        let established = a.on_datagram(T0, NOW_S, at(2), &response).established();
        let finish = established.reply.concat();
        let noise = 4 + step * (finish.len() - 4 - MAC_BYTES) / 40;
        for _ in 0..3 {
            let mut bad = finish.clone();
            bad[noise] ^= 1;
            let outcome = b.on_datagram(T0, NOW_S, at(1), &with_mac(&mac, bad));
            assert_eq!(outcome.refused(), Refusal::Noise);
        }
        b.on_datagram(T0, NOW_S, at(1), &finish).established();
    }
}

#[test]
fn the_clear_header_of_a_response_cannot_be_forged() {
    let (mut a, mut b) = two();
    let mac = mac_of(&a);
    let init = a.dial(T0, at(2), None).unwrap();
    let response = b.on_datagram(T0, NOW_S, at(1), &init).reply();
    let mut bad = response.clone();
    bad[3] ^= 1; // the responder's index
    bad[7] = 9; // the version
    let outcome = a.on_datagram(T0, NOW_S, at(2), &with_mac(&mac, bad));
    let established = outcome.established();
    assert_eq!(established.session.version(), 1, "the sealed copy counts");
    let finish = established.reply.concat();
    b.on_datagram(T0, NOW_S, at(1), &finish).established();
}

#[test]
fn a_member_who_changes_the_init_is_found_out_by_the_dialler() {
    // The dialler's index finds its dial, so it stays unchanged; Noise binds versions and key.
    for (at_byte, value) in [(5, 9), (8, 0x77)] {
        let (mut a, mut b) = two();
        let mac = mac_of(&a);
        let mut init = a.dial(T0, at(2), None).unwrap();
        init[at_byte] = value;
        let init = with_mac(&mac, init);
        let response = b.on_datagram(T0, NOW_S, at(1), &init).reply();
        let outcome = a.on_datagram(T0, NOW_S, at(2), &response);
        assert_eq!(outcome.refused(), Refusal::Noise);
    }
}

#[test]
fn forged_finishes_and_responses_are_looked_at_a_few_times_only() {
    let (mut a, mut b) = two();
    let mac = mac_of(&a);
    let init = a.dial(T0, at(2), None).unwrap();
    let response = b.on_datagram(T0, NOW_S, at(1), &init).reply();
    let mut bad = response.clone();
    bad[20] ^= 1;
    let bad = with_mac(&mac, bad);
    let mut looked = 0;
    while a.on_datagram(T0, NOW_S, at(2), &bad).refused() == Refusal::Noise {
        looked += 1;
    }
    assert_eq!(looked, 8);
    // After the next Init the dialler examines responses again.
    let later = a.next_timeout().unwrap();
    assert_eq!(a.on_timeout(later).len(), 1);
    let established = a.on_datagram(later, NOW_S, at(2), &response).established();
    let mut bad = established.reply.concat();
    bad[20] ^= 1;
    let bad = with_mac(&mac, bad);
    let mut looked = 0;
    while b.on_datagram(T0, NOW_S, at(1), &bad).refused() == Refusal::Noise {
        looked += 1;
    }
    assert_eq!(looked, 4);
}

#[test]
fn replayed_messages_change_nothing() {
    let (mut a, mut b, [init, response, finish]) = transcript();
    assert_eq!((a.indices_in_use(), b.indices_in_use()), (1, 1));
    let refused =
        |h: &mut Handshakes, from, bytes: &[u8]| h.on_datagram(T0, NOW_S, from, bytes).refused();
    for _ in 0..3 {
        assert_eq!(refused(&mut a, at(2), &response), Refusal::Stale);
        assert_eq!(refused(&mut b, at(1), &finish), Refusal::Stale);
        // An old Init makes one new half-open handshake that nobody can finish.
        let again = b.on_datagram(T0, NOW_S, at(1), &init).reply();
        assert_ne!(again, response);
        assert_eq!(refused(&mut a, at(2), &again), Refusal::Stale);
        assert_eq!(b.half_open(), 1);
    }
    assert_eq!(b.on_timeout(T0 + HALF_OPEN_LIFETIME), []);
    assert_eq!(b.indices_in_use(), 1, "the session");
}

#[test]
fn a_repeated_init_gets_the_same_answer_a_few_times() {
    let (mut a, mut b) = two();
    let init = a.dial(T0, at(2), None).unwrap();
    let response = b.on_datagram(T0, NOW_S, at(1), &init).reply();
    for _ in 0..8 {
        let again = b.on_datagram(T0, NOW_S, at(1), &init).reply();
        assert_eq!(again, response);
    }
    let outcome = b.on_datagram(T0, NOW_S, at(1), &init);
    assert_eq!(outcome.refused(), Refusal::TooMany);
    assert_eq!(b.half_open(), 1);
}

#[test]
fn answers_from_elsewhere_are_refused() {
    let (mut a, mut b) = two();
    let init = a.dial(T0, at(2), None).unwrap();
    let response = b.on_datagram(T0, NOW_S, at(1), &init).reply();
    let refused = a.on_datagram(T0, NOW_S, at(3), &response).refused();
    assert_eq!(refused, Refusal::Address);
    let established = a.on_datagram(T0, NOW_S, at(2), &response).established();
    let finish = established.reply.concat();
    let refused = b.on_datagram(T0, NOW_S, at(3), &finish).refused();
    assert_eq!(refused, Refusal::Address);
}

/// Lets `a` dial `b` and returns the result on each side.
fn meet(mut a: Handshakes, mut b: Handshakes, expect: Option<u8>) -> (Outcome, Option<Outcome>) {
    let init = a.dial(T0, at(2), expect.map(address)).unwrap();
    let response = match b.on_datagram(T0, NOW_S, at(1), &init) {
        Outcome::Reply(response) => response.concat(),
        refused => return (refused, None),
    };
    match a.on_datagram(T0, NOW_S, at(2), &response) {
        Outcome::Established(established) => {
            let finish = established.reply.concat();
            let there = b.on_datagram(T0, NOW_S, at(1), &finish);
            (Outcome::Established(established), Some(there))
        }
        failed => (failed, None),
    }
}

fn node(identity: Identity, authority: &Authority) -> Handshakes {
    Handshakes::new(identity, authority.network(), [9; 32], T0)
}

#[test]
fn a_node_of_another_network_gets_nothing_but_a_failed_mac() {
    let mut elsewhere = Authority::generate(&[77; 32]);
    let (a, b) = (
        handshakes(&mut authority(), 1),
        handshakes(&mut elsewhere, 2),
    );
    let (outcome, _) = meet(a, b, None);
    assert_eq!(outcome.refused(), Refusal::Mac);
}

#[test]
fn a_certificate_of_another_network_is_refused_even_if_mac1_fits() {
    let (mut authority, elsewhere) = (authority(), Authority::generate(&[77; 32]));
    let stranger = || identity_for(&mut elsewhere.clone(), 2, YEAR);
    let expected = Refusal::Certificate(CertificateError::WrongNetwork);
    let liar = node(stranger(), &authority);
    let (here, _) = meet(handshakes(&mut authority, 1), liar, None);
    assert_eq!(here.refused(), expected);
    let liar = node(stranger(), &authority);
    let (_, there) = meet(liar, handshakes(&mut authority, 1), None);
    assert_eq!(there.unwrap().refused(), expected);
}

#[test]
fn expired_early_and_revoked_certificates_are_refused_on_both_sides() {
    let past = Validity {
        not_before_s: 0,
        not_after_s: NOW_S - 1,
    };
    let future = Validity {
        not_before_s: NOW_S + 86_400,
        not_after_s: NOW_S + 2 * 86_400,
    };
    for (validity, revoke, expected) in [
        (past, false, CertificateError::Expired),
        (future, false, CertificateError::NotYetValid),
        (YEAR, true, CertificateError::Revoked),
    ] {
        let mut authority = authority();
        let bad = identity_for(&mut authority, 2, validity);
        let mut good = handshakes(&mut authority, 1);
        if revoke {
            let list = authority.revoke(bad.certificate(), NOW_S).unwrap();
            good.network_mut().apply(&list).unwrap();
        }
        let (outcome, _) = meet(good, node(bad.clone(), &authority), None);
        assert_eq!(outcome.refused(), Refusal::Certificate(expected));

        let mut good = handshakes(&mut authority, 1);
        if revoke {
            let list = authority.revocations(NOW_S);
            good.network_mut().apply(&list).unwrap();
        }
        let (_, there) = meet(node(bad, &authority), good, None);
        assert_eq!(there.unwrap().refused(), Refusal::Certificate(expected));
    }
}

#[test]
fn a_certificate_of_another_key_is_refused_on_both_sides() {
    let mut authority = authority();
    let stolen = identity_for(&mut authority, 3, YEAR).certificate().clone();
    let thief = || Identity::with_foreign_certificate(keys(2), stolen.clone());
    let (outcome, _) = meet(
        handshakes(&mut authority, 1),
        node(thief(), &authority),
        None,
    );
    assert_eq!(outcome.refused(), Refusal::OtherKey);
    let (_, there) = meet(
        node(thief(), &authority),
        handshakes(&mut authority, 1),
        None,
    );
    assert_eq!(there.unwrap().refused(), Refusal::OtherKey);
}

#[test]
fn a_certificate_signed_by_its_holder_is_refused() {
    let mut authority = authority();
    let good = identity_for(&mut authority, 2, YEAR);
    let mut bytes = good.certificate().as_bytes().to_vec();
    bytes[16] ^= 1; // another address
    let forged = Certificate::from_bytes(&bytes).unwrap();
    let liar = node(
        Identity::with_foreign_certificate(keys(2), forged),
        &authority,
    );
    let (outcome, _) = meet(handshakes(&mut authority, 1), liar, None);
    let expected = Refusal::Certificate(CertificateError::BadSignature);
    assert_eq!(outcome.refused(), expected);
}

#[test]
fn another_node_than_expected_and_oneself_are_refused() {
    let (a, b) = two();
    let (outcome, _) = meet(a, b, Some(3));
    assert_eq!(outcome.refused(), Refusal::UnexpectedPeer(address(2)));
    let mut authority = authority();
    let same = identity_for(&mut authority, 1, YEAR);
    let (outcome, _) = meet(node(same.clone(), &authority), node(same, &authority), None);
    assert_eq!(outcome.refused(), Refusal::Myself);
}

#[test]
fn no_common_version_is_refused_before_any_work() {
    let (mut a, mut b) = two();
    let mac = mac_of(&a);
    let mut init = a.dial(T0, at(2), None).unwrap();
    (init[4], init[5]) = (2, 3);
    let outcome = b.on_datagram(T0, NOW_S, at(1), &with_mac(&mac, init));
    assert_eq!(outcome.refused(), Refusal::Version);
    assert_eq!(b.indices_in_use(), 0);
}

/// Returns a well-formed Init with a good mac1, each time a different one, from changing addresses.
fn flood_init(mac: &NetworkMac, template: &[u8], n: u32) -> (UnderlayAddr, Vec<u8>) {
    let mut datagram = template.to_vec();
    datagram[8..12].copy_from_slice(&n.to_be_bytes());
    let mut from = at(9);
    from.ip[12..].copy_from_slice(&n.wrapping_mul(2_654_435_761).to_be_bytes());
    (from, with_mac(mac, datagram))
}

#[test]
fn a_flood_of_garbage_leaves_no_trace() {
    let (_, mut b, messages) = transcript();
    let before = (b.indices_in_use(), b.next_timeout());
    let mut rng = Rng::new(7);
    let mut datagram = [0; INIT_BYTES];
    for n in 0..100_000u32 {
        let length = match n % 3 {
            0 => rng.below(INIT_BYTES as u64 + 1) as usize,
            _ => messages[n as usize % 3].len(),
        };
        // Each datagram begins like one of the messages, and is random from there on.
        let datagram = &mut datagram[..length];
        datagram.fill(0);
        let front = rng.below(64) as usize;
        let random = front.min(length)..length.min(front + 64);
        let like = &messages[n as usize % 3];
        let copied = length.min(like.len());
        datagram[..copied].copy_from_slice(&like[..copied]);
        rng.fill(&mut datagram[random]);
        let outcome = b.on_datagram(T0, NOW_S, at(1), datagram);
        assert!(matches!(outcome, Outcome::Refused(_)), "{outcome:?}");
    }
    assert_eq!((b.indices_in_use(), b.next_timeout()), before);
}

#[test]
fn a_flood_of_well_formed_inits_is_bounded_and_neighbours_get_through() {
    let (mut a, mut b) = two();
    let mac = mac_of(&a);
    let template = a.dial(T0, at(3), None).unwrap();
    let (mut answered, mut cookies, mut most) = (0u32, 0u32, 0);
    let step = Duration::from_micros(100);
    let mut now = T0;
    for n in 0..100_000 {
        let (from, datagram) = flood_init(&mac, &template, n);
        match b.on_datagram(now, NOW_S, from, &datagram) {
            Outcome::Reply(_) => answered += 1,
            Outcome::Cookie(cookie) => {
                cookies += 1;
                assert!(cookie.len() < datagram.len());
            }
            other => panic!("{other:?}"),
        }
        b.on_timeout(now);
        most = most.max(b.half_open());
        now += step;
    }
    // The flood lasts 10 s.
    let allowed = UNPROVEN_BURST + UNPROVEN_PER_S * 10;
    assert!(answered <= allowed && answered >= allowed - 1, "{answered}");
    assert_eq!(answered + cookies, 100_000);
    assert!(most <= MAX_HALF_OPEN);

    // The flood continues; a neighbor needs one more round trip.
    let (from, datagram) = flood_init(&mac, &template, 100_000);
    b.on_datagram(now, NOW_S, from, &datagram);
    let init = a.dial(now, at(2), None).unwrap();
    let Outcome::Cookie(cookie) = b.on_datagram(now, NOW_S, at(1), &init) else {
        panic!("under load");
    };
    let init = a.on_datagram(now, NOW_S, at(2), &cookie).reply();
    let response = b.on_datagram(now, NOW_S, at(1), &init).reply();
    let established = a.on_datagram(now, NOW_S, at(2), &response).established();
    let finish = established.reply.concat();
    b.on_datagram(now, NOW_S, at(1), &finish).established();
    b.on_timeout(now + HALF_OPEN_LIFETIME);
    assert_eq!((b.half_open(), b.indices_in_use()), (0, 1));
}

/// Uses up the handshakes that are possible without a cookie.
fn put_under_load(b: &mut Handshakes, mac: &NetworkMac, template: &[u8]) {
    for n in 0..UNPROVEN_BURST {
        let (from, datagram) = flood_init(mac, template, n);
        b.on_datagram(T0, NOW_S, from, &datagram).reply();
    }
}

#[test]
fn a_cookie_counts_for_its_address_only_and_its_message_cannot_be_forged() {
    let (mut a, mut b) = two();
    let mac = mac_of(&a);
    let init = a.dial(T0, at(2), None).unwrap();
    put_under_load(&mut b, &mac, &init);
    let Outcome::Cookie(cookie) = b.on_datagram(T0, NOW_S, at(1), &init) else {
        panic!("under load");
    };
    for (_, bad) in changed(&cookie) {
        a.on_datagram(T0, NOW_S, at(2), &bad).refused();
        let refit = with_mac(&mac, bad);
        a.on_datagram(T0, NOW_S, at(2), &refit).refused();
    }
    let elsewhere = a.on_datagram(T0, NOW_S, at(3), &cookie).refused();
    assert_eq!(elsewhere, Refusal::Address);
    let with_cookie = a.on_datagram(T0, NOW_S, at(2), &cookie).reply();
    let again = a.on_datagram(T0, NOW_S, at(2), &cookie).refused();
    assert_eq!(again, Refusal::Stale, "no ping-pong");

    // The cookie proves nothing from another address, or with another Init.
    let spoofed = b.on_datagram(T0, NOW_S, at(4), &with_cookie);
    assert!(matches!(spoofed, Outcome::Cookie(_)));
    let mut other = with_cookie.clone();
    other[9] ^= 1;
    let other = b.on_datagram(T0, NOW_S, at(1), &with_mac(&mac, other));
    assert!(matches!(other, Outcome::Cookie(_)));
    for (at_byte, bad) in changed(&with_cookie) {
        if init::MAC2.contains(&at_byte) {
            let outcome = b.on_datagram(T0, NOW_S, at(1), &bad);
            assert!(matches!(outcome, Outcome::Cookie(_)), "byte {at_byte}");
        }
    }
    b.on_datagram(T0, NOW_S, at(1), &with_cookie).reply();
}

#[test]
fn cookies_do_not_lift_the_limits_of_one_source_and_of_all() {
    let (mut a, mut b) = two();
    let mac = mac_of(&a);
    let template = a.dial(T0, at(3), None).unwrap();
    put_under_load(&mut b, &mac, &template);
    let mut reasons = [0u32; 2];
    let mut answered = 0;
    for n in 0..2_000u32 {
        // There are 200 sources that can all receive.
        let mut from = at(0);
        from.ip[14..].copy_from_slice(&((n % 200) as u16).to_be_bytes());
        let (_, mut datagram) = flood_init(&mac, &template, 1_000 + n);
        let mac2 = crate::mac::keyed_by(&b.cookies.cookie(from), &datagram[..init::MAC2.start]);
        datagram[init::MAC2].copy_from_slice(&mac2);
        match b.on_datagram(T0, NOW_S, from, &datagram) {
            Outcome::Reply(_) => answered += 1,
            Outcome::Refused(Refusal::TooMany) => reasons[0] += 1,
            Outcome::Refused(Refusal::TooManyOfSource) => reasons[1] += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(answered, 256);
    assert_eq!(reasons[0] + reasons[1] + answered, 2_000);
    assert!(b.half_open() <= MAX_HALF_OPEN);
    let later = secs(1);
    let mut answered = 0;
    for n in 0..1_000u32 {
        let (from, mut datagram) = flood_init(&mac, &template, 5_000 + n);
        let mac2 = crate::mac::keyed_by(&b.cookies.cookie(from), &datagram[..init::MAC2.start]);
        datagram[init::MAC2].copy_from_slice(&mac2);
        let outcome = b.on_datagram(later, NOW_S, from, &datagram);
        answered += u32::from(matches!(outcome, Outcome::Reply(_)));
    }
    assert_eq!(answered, PROVEN_PER_S);
}
