//! Handshakes that also use ML-KEM keys: the datagrams, their loss, the choice of the peer, and an attacker who changes
//! them.

use super::super::PostQuantum;
use super::*;
use wire::handshake::init;
use wire::handshake::kem::{PIECES, Piece};

fn two_that(a: PostQuantum, b: PostQuantum) -> (Handshakes, Handshakes) {
    let (mut one, mut other) = two();
    one.set_post_quantum(a);
    other.set_post_quantum(b);
    (one, other)
}

fn prefer() -> (Handshakes, Handshakes) {
    two_that(PostQuantum::Prefer, PostQuantum::Prefer)
}

fn replies(outcome: Outcome) -> Vec<Vec<u8>> {
    match outcome {
        Outcome::Reply(datagrams) => datagrams,
        other => panic!("no reply: {other:?}"),
    }
}

/// Returns the Finish and the pieces of the key; `b` has answered and done nothing more.
fn offered(a: &mut Handshakes, b: &mut Handshakes) -> Vec<Vec<u8>> {
    let init = a.dial(T0, at(2), Some(address(2))).unwrap();
    let response = b.on_datagram(T0, NOW_S, at(1), &init).reply();
    replies(a.on_datagram(T0, NOW_S, at(2), &response))
}

/// Delivers datagrams. Returns the outcome of the last one.
fn hand(to: &mut Handshakes, from: u8, datagrams: &[Vec<u8>]) -> Outcome {
    let mut last = None;
    for datagram in datagrams {
        if let Some(Outcome::Reply(said)) = last.take() {
            assert!(said.is_empty(), "nothing is said in between");
        }
        last = Some(to.on_datagram(T0, NOW_S, at(from), datagram));
    }
    last.unwrap()
}

fn speak(says: &mut Session, hears: &mut Session) -> Result<(), OpenError> {
    let mut datagram = [7; 64];
    says.seal(Kind::Data, &mut datagram).unwrap();
    hears.open(&mut datagram).map(drop)
}

#[test]
fn a_key_and_a_ciphertext_follow_the_finish_and_both_ends_have_the_same_keys() {
    let (mut a, mut b) = prefer();
    let offer = offered(&mut a, &mut b);
    assert_eq!(offer.len(), 1 + PIECES);
    assert_eq!((a.dials(), b.half_open()), (1, 1));
    let accepted = hand(&mut b, 1, &offer).established();
    assert_eq!(accepted.peer.address(), address(1));
    assert_eq!(b.half_open(), 0);
    let answer = accepted.reply;
    assert_eq!(answer.len(), PIECES);
    let dialled = hand(&mut a, 2, &answer).established();
    assert_eq!((dialled.expect, dialled.reply.len()), (Some(address(2)), 0));
    assert_eq!((a.dials(), a.next_timeout()), (0, None));
    let (mut here, mut there) = (dialled.session, accepted.session);
    assert!(here.is_hybrid() && there.is_hybrid());
    // The side that sent the last message does not know whether it has arrived.
    assert!(!here.is_unconfirmed() && there.is_unconfirmed());
    assert!(b.next_timeout().is_some());
    speak(&mut here, &mut there).unwrap();
    b.on_confirmed(there.local_index());
    assert_eq!(b.next_timeout(), None);
    speak(&mut there, &mut here).unwrap();
}

fn repeated(node: &mut Handshakes) -> Vec<Vec<u8>> {
    let due = node.on_timeout(node.next_timeout().unwrap());
    let datagram = |due| match due {
        Due::Send { datagram, .. } => datagram,
        other => panic!("no repetition: {other:?}"),
    };
    due.into_iter().map(datagram).collect()
}

/// The flag for a further path in the Finish also applies to the session that the ciphertext completes later, at both
/// ends and if everything has to be repeated.
#[test]
fn a_hybrid_session_is_of_a_further_path_if_its_finish_says_so() {
    let (mut a, mut b) = prefer();
    let mut sessions = Vec::new();
    for (port, is_further) in [(7000, false), (7001, true), (7002, false)] {
        let [here, there] = [1, 2].map(|n| UnderlayAddr { port, ..at(n) });
        let init = match is_further {
            true => a.dial_further(T0, there, address(2)).unwrap(),
            false => a.dial(T0, there, None).unwrap(),
        };
        let response = b.on_datagram(T0, NOW_S, here, &init).reply();
        let lost = replies(a.on_datagram(T0, NOW_S, there, &response));
        let offer = repeated(&mut a);
        assert_eq!(offer, lost);
        let hand = |to: &mut Handshakes, from, datagrams: Vec<Vec<u8>>| {
            let outcomes = datagrams.iter();
            let outcomes = outcomes.map(|it| to.on_datagram(T0, NOW_S, from, it));
            outcomes.last().unwrap().established()
        };
        let accepted = hand(&mut b, here, offer);
        let answer = repeated(&mut b);
        assert_eq!(answer, accepted.reply);
        let dialled = hand(&mut a, there, answer);
        b.on_confirmed(accepted.session.local_index());
        assert_eq!((dialled.from, accepted.from), (there, here));
        assert_eq!(
            (dialled.is_further, accepted.is_further),
            (is_further, is_further)
        );
        sessions.push((dialled.session, accepted.session));
    }
    for (here, there) in &mut sessions {
        assert!(here.is_hybrid() && there.is_hybrid());
        speak(here, there).unwrap();
        speak(there, here).unwrap();
    }
}

#[test]
fn nobody_is_sent_more_than_it_has_said_and_every_datagram_fits_the_smallest_path() {
    let (mut a, mut b) = prefer();
    let offer = offered(&mut a, &mut b);
    let answer = hand(&mut b, 1, &offer).established().reply;
    for (asked, answered) in offer[1..].iter().zip(&answer) {
        assert!(answered.len() <= asked.len());
        assert!(asked.len() <= 576 - 28 - 47 - 80, "within a stamped packet");
    }
}

/// Nodes that do not prefer hybrid sessions act as old nodes: they announce only version 1, as all nodes did.
#[test]
fn who_prefers_meets_an_older_node_in_a_classic_session() {
    use PostQuantum::{Off, Prefer};
    for (a, b) in [(Off, Prefer), (Prefer, Off), (Off, Off)] {
        let (mut a, mut b) = two_that(a, b);
        let init = a.dial(T0, at(2), None).unwrap();
        let response = b.on_datagram(T0, NOW_S, at(1), &init).reply();
        let mut dialled = a.on_datagram(T0, NOW_S, at(2), &response).established();
        let accepted = hand(&mut b, 1, &dialled.reply).established();
        let mut there = accepted.session;
        assert!(!dialled.session.is_hybrid() && !there.is_hybrid());
        speak(&mut dialled.session, &mut there).unwrap();
    }
}

#[test]
fn who_requires_it_refuses_an_older_node_by_name_on_either_side() {
    let (mut a, mut b) = two_that(PostQuantum::Require, PostQuantum::Off);
    let init = a.dial(T0, at(2), None).unwrap();
    let response = b.on_datagram(T0, NOW_S, at(1), &init).reply();
    let outcome = a.on_datagram(T0, NOW_S, at(2), &response);
    let Outcome::Failed { reason, .. } = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(reason, Refusal::NotHybrid(address(2)));
    assert_eq!(a.indices_in_use(), 0);

    let (mut a, mut b) = two_that(PostQuantum::Off, PostQuantum::Require);
    let init = a.dial(T0, at(2), None).unwrap();
    let response = b.on_datagram(T0, NOW_S, at(1), &init).reply();
    assert!(response.len() <= init.len(), "no more than was asked with");
    let outcome = a.on_datagram(T0, NOW_S, at(2), &response);
    let Outcome::Failed { reason, reply, .. } = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(reason, Refusal::HybridAlone(address(2)));
    assert_eq!(a.indices_in_use(), 0, "no session that nobody hears");
    let refused = hand(&mut b, 1, &[reply.unwrap()]).refused();
    assert_eq!(refused, Refusal::NotHybrid(address(1)));
    assert_eq!((b.indices_in_use(), b.half_open()), (0, 0));
}

/// A node that dials the wrong node learns that first.
#[test]
fn that_another_node_requires_it_is_not_said_of_the_one_that_was_dialled() {
    let (mut a, mut b) = two_that(PostQuantum::Off, PostQuantum::Require);
    let init = a.dial(T0, at(2), Some(address(3))).unwrap();
    let response = b.on_datagram(T0, NOW_S, at(1), &init).reply();
    let outcome = a.on_datagram(T0, NOW_S, at(2), &response);
    assert_eq!(outcome.refused(), Refusal::UnexpectedPeer(address(2)));
}

#[test]
fn two_that_require_it_have_it() {
    let (mut a, mut b) = two_that(PostQuantum::Require, PostQuantum::Prefer);
    let offer = offered(&mut a, &mut b);
    assert!(hand(&mut b, 1, &offer).established().session.is_hybrid());
}

/// An attacker with the network's public key can recompute mac1, and no more.
#[test]
fn nobody_between_two_talks_them_down() {
    let (mut a, mut b) = prefer();
    let mut init = a.dial(T0, at(2), None).unwrap();
    init[5] = 1;
    let mac1 = a.mac.of(&init[..init::MAC1.start]);
    init[init::MAC1].copy_from_slice(&mac1);
    let response = b.on_datagram(T0, NOW_S, at(1), &init).reply();
    assert_eq!(response[7], 1, "it was taken in");
    let refused = a.on_datagram(T0, NOW_S, at(2), &response).refused();
    assert_eq!(refused, Refusal::Noise);

    // Nobody can make a classic node believe that its peer requires hybrid sessions if it does not.
    let (mut a, mut b) = two_that(PostQuantum::Off, PostQuantum::Prefer);
    let init = a.dial(T0, at(2), None).unwrap();
    let mut response = b.on_datagram(T0, NOW_S, at(1), &init).reply();
    response[7] = 2;
    let body = response.len() - 16;
    let mac1 = a.mac.of(&response[..body]);
    response[body..].copy_from_slice(&mac1);
    let outcome = a.on_datagram(T0, NOW_S, at(2), &response);
    assert!(!outcome.established().session.is_hybrid());

    let (mut a, mut b) = prefer();
    let init = a.dial(T0, at(2), None).unwrap();
    let mut response = b.on_datagram(T0, NOW_S, at(1), &init).reply();
    response[7] = 1;
    let body = response.len() - 16;
    let mac1 = a.mac.of(&response[..body]);
    response[body..].copy_from_slice(&mac1);
    let offer = replies(a.on_datagram(T0, NOW_S, at(2), &response));
    assert_eq!(
        offer.len(),
        1 + PIECES,
        "the sealed copy of the version counts"
    );
    assert!(hand(&mut b, 1, &offer).established().session.is_hybrid());
}

/// A responder answers with a version that was not offered, which no real node does.
#[test]
fn a_version_that_was_not_offered_is_refused() {
    let (mut a, mut b) = prefer();
    let init = a.dial(T0, at(2), None).unwrap();
    let response = b.on_datagram(T0, NOW_S, at(1), &init).reply();
    // When the response comes, only the versions in the Init count.
    a.set_post_quantum(PostQuantum::Off);
    assert_eq!(
        replies(a.on_datagram(T0, NOW_S, at(2), &response)).len(),
        1 + PIECES
    );
}

#[test]
fn pieces_come_in_any_order_and_more_than_once() {
    let orders = [
        [1, 2, 3],
        [1, 3, 2],
        [2, 1, 3],
        [2, 3, 1],
        [3, 1, 2],
        [3, 2, 1],
    ];
    for order in orders {
        let (mut a, mut b) = prefer();
        let offer = offered(&mut a, &mut b);
        hand(&mut b, 1, &offer[..1]);
        for at in [order[0], order[1], order[0], order[1]] {
            let said = hand(&mut b, 1, &offer[at..=at]);
            assert!(replies(said).is_empty());
        }
        let accepted = hand(&mut b, 1, &offer[order[2]..=order[2]]).established();
        let again = hand(&mut b, 1, &offer[1..2]).refused();
        assert_eq!(again, Refusal::Stale, "it is over");
        let answer = accepted.reply;
        let first = answer[order[0] - 1].clone();
        let order = order.map(|at| answer[at - 1].clone());
        let mut here = hand(&mut a, 2, &order).established().session;
        assert_eq!(hand(&mut a, 2, &[first]).refused(), Refusal::Stale);
        speak(&mut here, &mut { accepted.session }).unwrap();
    }
}

#[test]
fn a_piece_before_the_finish_or_from_elsewhere_comes_to_nothing() {
    let (mut a, mut b) = prefer();
    let offer = offered(&mut a, &mut b);
    let early = b.on_datagram(T0, NOW_S, at(1), &offer[1]).refused();
    assert_eq!(early, Refusal::Stale);
    hand(&mut b, 1, &offer[..1]);
    let astray = b.on_datagram(T0, NOW_S, at(3), &offer[1]).refused();
    assert_eq!(astray, Refusal::Address);
    let accepted = hand(&mut b, 1, &offer[1..]).established();
    let astray = a.on_datagram(T0, NOW_S, at(3), &accepted.reply[0]);
    assert_eq!(astray.refused(), Refusal::Address);
    hand(&mut a, 2, &accepted.reply).established();
}

#[test]
fn no_changed_byte_is_taken_and_the_true_piece_still_counts() {
    let (mut a, mut b) = prefer();
    let offer = offered(&mut a, &mut b);
    hand(&mut b, 1, &offer[..1]);
    let spoil = |to: &mut Handshakes, from, piece: &[u8]| {
        for at in (5..piece.len()).step_by(7) {
            let mut changed = piece.to_vec();
            changed[at] ^= 1;
            let refused = hand(to, from, &[changed]).refused();
            assert_eq!(refused, Refusal::Kem, "byte {at}");
        }
        // This is the number of another piece with the same length.
        let mut changed = piece.to_vec();
        changed[4] ^= 1;
        assert_eq!(hand(to, from, &[changed]).refused(), Refusal::Kem);
    };
    spoil(&mut b, 1, &offer[1]);
    let accepted = hand(&mut b, 1, &offer[1..]).established();
    spoil(&mut a, 2, &accepted.reply[1]);
    let mut here = hand(&mut a, 2, &accepted.reply).established().session;
    speak(&mut here, &mut { accepted.session }).unwrap();
}

#[test]
fn forged_pieces_without_end_are_not_looked_at_any_more() {
    let (mut a, mut b) = prefer();
    let offer = offered(&mut a, &mut b);
    hand(&mut b, 1, &offer[..1]);
    let mut forged = offer[1].clone();
    forged[9] ^= 1;
    let mut last = None;
    for _ in 0..2_000 {
        last = Some(hand(&mut b, 1, &[forged.clone()]).refused());
    }
    assert_eq!(last, Some(Refusal::TooMany));
    assert_eq!(b.indices_in_use(), 1, "and nothing grows");
}

/// The test uses a piece of another handshake between the same two nodes, and its whole offer.
#[test]
fn what_belongs_to_another_handshake_is_refused() {
    let (mut a, mut b) = prefer();
    let old = offered(&mut a, &mut b);
    let accepted = hand(&mut b, 1, &old).established();
    hand(&mut a, 2, &accepted.reply).established();
    let new = offered(&mut a, &mut b);
    hand(&mut b, 1, &new[..1]);
    assert_eq!(hand(&mut b, 1, &old[1..2]).refused(), Refusal::Stale);
    let mut moved = old[1].clone();
    moved[1..4].copy_from_slice(&new[1][1..4]);
    assert_eq!(hand(&mut b, 1, &[moved]).refused(), Refusal::Kem);
}

/// A member that passes the Noise handshake sends an invalid ML-KEM key (FIPS 203 §7.2: a coefficient of q or more).
#[test]
fn a_key_that_is_none_makes_no_session() {
    let (mut a, mut b) = prefer();
    let offer = offered(&mut a, &mut b);
    hand(&mut b, 1, &offer[..1]);
    let piece = Piece::parse(&offer[1]).unwrap();
    let offered = b.table.offered(piece.receiver).unwrap();
    let bad = [0xff; wire::handshake::kem::KEY_BYTES];
    let pieces = offered
        .agreed
        .seal(wire::handshake::kem::Whole::Key, piece.receiver, &bad);
    assert_eq!(hand(&mut b, 1, &pieces).refused(), Refusal::Kem);
    assert_eq!((b.indices_in_use(), b.half_open()), (0, 0));
}

#[test]
fn an_offer_without_an_answer_is_repeated_and_given_up() {
    let (mut a, mut b) = prefer();
    let offer = offered(&mut a, &mut b);
    for number in 1..=OF_NEIGHBOURS.finishes {
        let now = a.next_timeout().unwrap();
        let due = a.on_timeout(now);
        if number == OF_NEIGHBOURS.finishes {
            let (to, expect) = (at(2), Some(address(2)));
            assert_eq!(due, [Due::Unfinished { to, expect }]);
        } else {
            let again = offer.iter().map(|it| Due::send(at(2), it));
            assert_eq!(due, again.collect::<Vec<_>>());
        }
    }
    assert_eq!((a.next_timeout(), a.indices_in_use()), (None, 0));
}

#[test]
fn an_answer_that_nobody_confirms_is_repeated_and_given_up() {
    let (mut a, mut b) = prefer();
    let offer = offered(&mut a, &mut b);
    let accepted = hand(&mut b, 1, &offer).established();
    let session = accepted.session.local_index();
    for number in 1..=OF_NEIGHBOURS.finishes {
        let now = b.next_timeout().unwrap();
        let due = b.on_timeout(now);
        if number == OF_NEIGHBOURS.finishes {
            assert_eq!(due, [Due::Unconfirmed { session, to: at(1) }]);
        } else {
            let again = accepted.reply.iter().map(|it| Due::send(at(1), it));
            assert_eq!(due, again.collect::<Vec<_>>());
        }
    }
}

#[test]
fn who_waits_for_a_key_in_vain_forgets_it() {
    let (mut a, mut b) = prefer();
    let offer = offered(&mut a, &mut b);
    hand(&mut b, 1, &offer[..3]);
    let late = T0 + HALF_OPEN_LIFETIME;
    assert_eq!(b.on_timeout(late), []);
    assert_eq!((b.half_open(), b.indices_in_use()), (0, 0));
    assert_eq!(hand(&mut b, 1, &offer[3..]).refused(), Refusal::Stale);
}

/// A member that finishes handshakes and never offers a key occupies the places of half-open ones, and no more.
#[test]
fn who_waits_for_a_key_counts_as_half_open() {
    let (mut a, mut b) = prefer();
    let mut waiting = 0;
    for port in 0..200 {
        let from = UnderlayAddr { port, ..at(1) };
        let to = UnderlayAddr { port, ..at(2) };
        let init = a.dial(T0, to, None).unwrap();
        let Outcome::Reply(response) = b.on_datagram(T0, NOW_S, from, &init) else {
            continue;
        };
        let offer = replies(a.on_datagram(T0, NOW_S, to, &response.concat()));
        replies(b.on_datagram(T0, NOW_S, from, &offer[0]));
        waiting += 1;
        assert_eq!(b.half_open(), waiting);
    }
    assert_eq!(waiting as u32, crate::limits::UNPROVEN_BURST);
}

/// Each kind of datagram is lost once, whichever it is: the handshake completes by itself.
#[test]
fn whatever_is_lost_is_repeated() {
    for lost in 0..8 {
        let mut world = World::hybrid(1);
        let mut number = 0;
        world.fate = Box::new(move |_, _, datagram| {
            let counts = !Kind::of(datagram).is_ok_and(Kind::is_sealed);
            let is_lost = counts && number == lost;
            number += usize::from(counts);
            vec![Duration::from_millis(10); usize::from(!is_lost)]
        });
        world.dial(1, 2);
        world.run_until(secs(8));
        for n in [1, 2] {
            let party = world.party(n);
            assert_eq!(party.established, 1, "datagram {lost}");
            assert!(party.sessions.current().unwrap().is_hybrid());
            assert_eq!(party.not_opened.len(), usize::from(n == 1 && lost > 5));
        }
    }
}

#[test]
fn an_unsealed_network_says_as_much_and_has_hybrid_sessions_too() {
    let said = |unsealed: bool| {
        let mut authority = authority();
        let network = match unsealed {
            true => authority.network().unsealed(),
            false => authority.network(),
        };
        let [mut a, mut b] = [1, 2].map(|n| {
            let identity = identity_for(&mut authority, n, YEAR);
            let mut node = Handshakes::new(identity, network.clone(), [n; 32], T0);
            node.set_post_quantum(PostQuantum::Prefer);
            node
        });
        let offer = offered(&mut a, &mut b);
        let accepted = hand(&mut b, 1, &offer).established();
        let mut here = hand(&mut a, 2, &accepted.reply).established().session;
        speak(&mut here, &mut { accepted.session }).unwrap();
        let all = offer.into_iter().chain(accepted.reply);
        all.map(|it| it.len()).collect::<Vec<_>>()
    };
    assert_eq!(said(true), said(false));
}
