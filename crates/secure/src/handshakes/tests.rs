//! Two parties over a perfect and over a bad network. The tests in `attacks` cover attackers.

mod attacks;
mod hybrid;

use super::dial::OF_NEIGHBOURS;
use super::*;
use crate::OpenError;
use crate::limits::HALF_OPEN_LIFETIME;
use crate::sessions::GRACE;
use crate::world::*;
use base::{Duration, Rng};

const T0: Time = Time::ZERO;

fn secs(s: u64) -> Time {
    T0 + Duration::from_secs(s)
}

#[test]
fn three_messages_establish_a_session() {
    let (mut a, mut b) = two();
    let init = a.dial(T0, at(2), Some(address(2))).unwrap();
    let response = b.on_datagram(T0, NOW_S, at(1), &init).reply();
    assert!(response.len() <= init.len(), "no amplification");
    let dialled = a.on_datagram(T0, NOW_S, at(2), &response).established();
    let finish = dialled.reply.concat();
    let accepted = b.on_datagram(T0, NOW_S, at(1), &finish).established();

    assert_eq!(dialled.peer.address(), address(2));
    assert_eq!(accepted.peer.address(), address(1));
    assert_eq!((dialled.from, accepted.from), (at(2), at(1)));
    assert_eq!((dialled.expect, accepted.expect), (Some(address(2)), None));
    assert!(accepted.reply.is_empty());
    let (mut here, mut there) = (dialled.session, accepted.session);
    assert_eq!(here.local_index(), there.peer_index());
    assert_eq!(here.peer_index(), there.local_index());
    assert_eq!((here.version(), there.version()), (1, 1));

    let mut datagram = [7; 64];
    there.seal(Kind::Data, &mut datagram).unwrap();
    let opened = here.open(&mut datagram).unwrap();
    assert_eq!(datagram[opened.plaintext], [7; 40]);
    a.on_confirmed(here.local_index());
    assert_eq!((a.next_timeout(), b.next_timeout()), (None, None));
    assert_eq!((a.indices_in_use(), b.indices_in_use()), (1, 1));
    a.release(here.local_index());
    assert_eq!(a.indices_in_use(), 0);
}

#[test]
fn the_finish_tells_whether_the_session_is_of_a_further_path() {
    let (mut a, mut b) = two();
    for is_further in [false, true] {
        let init = match is_further {
            true => a.dial_further(T0, at(2), address(2)).unwrap(),
            false => a.dial(T0, at(2), None).unwrap(),
        };
        let response = b.on_datagram(T0, NOW_S, at(1), &init).reply();
        let dialled = a.on_datagram(T0, NOW_S, at(2), &response).established();
        let finish = dialled.reply.concat();
        let accepted = b.on_datagram(T0, NOW_S, at(1), &finish).established();
        assert_eq!(accepted.peer.address(), address(1));
        assert_eq!(
            (dialled.is_further, accepted.is_further),
            (is_further, is_further)
        );
        a.on_confirmed(dialled.session.local_index());
    }
}

/// A node that dials a link is asked for a further path of the link, which it refuses because the link is not up yet.
#[test]
fn a_session_that_is_not_taken_ends_no_dial_of_the_own() {
    for takes in [false, true] {
        let (mut a, mut b) = two();
        a.dial(T0, at(2), Some(address(2))).unwrap();
        // This is after the time in which the lower of two crossing Inits is preferred.
        let later = T0 + respond::CROSSING;
        let init = b.dial_further(later, at(1), address(1)).unwrap();
        let response = a.on_datagram(later, NOW_S, at(2), &init).reply();
        let dialled = b.on_datagram(later, NOW_S, at(1), &response).established();
        let finish = dialled.reply.concat();
        let further = a.on_datagram(later, NOW_S, at(2), &finish).established();
        assert!(further.is_further && a.is_dialling(at(2)));
        // Another node's session from that address does not end the dial either.
        a.on_taken(at(2), address(3));
        assert!(a.is_dialling(at(2)));
        match takes {
            true => a.on_taken(further.from, further.peer.address()),
            false => a.release(further.session.local_index()),
        }
        assert_eq!(a.is_dialling(at(2)), !takes);
    }
}

#[test]
fn the_own_address_that_is_answered_is_no_other_peer() {
    let (mut a, mut b) = two();
    let here = UnderlayAddr { local: 3, ..at(2) };
    let init = a.dial(T0, at(2), None).unwrap();
    assert_eq!(a.dial(T0, here, None), Err(DialError::InProgress));
    let response = b.on_datagram(T0, NOW_S, at(1), &init).reply();
    let dialled = a.on_datagram(T0, NOW_S, here, &response).established();
    assert_eq!(dialled.from, here, "what follows leaves from there");
    assert!(!a.hang_up(at(2)), "the dial is over");
}

#[test]
fn one_address_is_dialled_once_at_a_time() {
    let (mut a, _) = two();
    a.dial(T0, at(2), None).unwrap();
    assert_eq!(a.dial(T0, at(2), None), Err(DialError::InProgress));
    assert!(a.dial(T0, at(3), None).is_ok());
    assert!(a.hang_up(at(2)) && !a.hang_up(at(2)));
    assert!(a.dial(T0, at(2), None).is_ok());
    assert_eq!(a.dials(), 2);
}

#[test]
fn dials_have_a_limit() {
    let (mut a, _) = two();
    let to = |port| UnderlayAddr { port, ..at(2) };
    for port in 0..crate::limits::MAX_DIALS as u16 {
        a.dial(T0, to(port), None).unwrap();
    }
    assert_eq!(a.dial(T0, to(9999), None), Err(DialError::TooMany));
}

#[test]
fn an_unanswered_init_is_repeated_with_growing_waits_and_given_up() {
    let (mut a, _) = two();
    let init = a.dial(T0, at(2), Some(address(2))).unwrap();
    let (mut now, mut wait) = (T0, OF_NEIGHBOURS.init);
    for number in 1..=OF_NEIGHBOURS.inits {
        let next = a.next_timeout().unwrap();
        let waited = next.since(now);
        assert!(waited >= wait && waited <= wait.mul_f64(1.25), "{waited}");
        assert_eq!(a.on_timeout(next - Duration::from_nanos(1)), []);
        now = next;
        wait = (wait * 2).min(OF_NEIGHBOURS.init_longest);
        let due = a.on_timeout(now);
        let expected = if number < OF_NEIGHBOURS.inits {
            Due::Send {
                to: at(2),
                datagram: init.clone(),
            }
        } else {
            Due::GaveUp {
                to: at(2),
                expect: Some(address(2)),
            }
        };
        assert_eq!(due, [expected]);
    }
    assert_eq!((a.next_timeout(), a.indices_in_use()), (None, 0));
}

#[test]
fn an_unconfirmed_finish_is_repeated_and_given_up() {
    let (mut a, mut b) = two();
    let init = a.dial(T0, at(2), None).unwrap();
    let response = b.on_datagram(T0, NOW_S, at(1), &init).reply();
    let established = a.on_datagram(T0, NOW_S, at(2), &response).established();
    let (finish, session) = (established.reply.concat(), established.session);
    let mut now = T0;
    for number in 1..=OF_NEIGHBOURS.finishes {
        let next = a.next_timeout().unwrap();
        assert_eq!(next, now + OF_NEIGHBOURS.finish * (1 << (number - 1)));
        now = next;
        let expected = if number < OF_NEIGHBOURS.finishes {
            assert!(now < T0 + HALF_OPEN_LIFETIME, "while the other side waits");
            Due::Send {
                to: at(2),
                datagram: finish.clone(),
            }
        } else {
            Due::Unconfirmed {
                session: session.local_index(),
                to: at(2),
            }
        };
        assert_eq!(a.on_timeout(now), [expected]);
    }
    assert_eq!(a.next_timeout(), None);
    assert_eq!(a.indices_in_use(), 1, "until it is released");
}

#[test]
fn a_half_open_handshake_grows_old() {
    let (mut a, mut b) = two();
    let init = a.dial(T0, at(2), None).unwrap();
    let response = b.on_datagram(T0, NOW_S, at(1), &init).reply();
    let late = T0 + HALF_OPEN_LIFETIME;
    assert_eq!(b.next_timeout(), Some(late));
    assert_eq!(b.on_timeout(late), []);
    assert_eq!((b.half_open(), b.indices_in_use()), (0, 0));
    let established = a.on_datagram(late, NOW_S, at(2), &response).established();
    let finish = established.reply.concat();
    let outcome = b.on_datagram(late, NOW_S, at(1), &finish);
    assert_eq!(outcome.refused(), Refusal::Stale);
}

#[test]
fn both_dial_at_once_and_one_session_results() {
    for seed in 0..8 {
        let mut world = World::new(seed);
        // The ephemeral keys differ each time, so that each side is sometimes the lower one.
        for _ in 0..seed {
            world.party(1).handshakes.entropy.draw();
        }
        world.dial(1, 2);
        world.dial(2, 1);
        world.run_until(secs(20));
        for n in [1, 2] {
            let party = world.party(n);
            assert_eq!(party.established, 1, "seed {seed}");
            assert_eq!(party.sessions.iter().count(), 1);
            assert_eq!(party.handshakes.dials(), 0);
        }
        assert_eq!(world.party(1).failed.len() + world.party(2).failed.len(), 1);
    }
}

#[test]
fn both_dial_but_only_one_way_is_open_for_inits() {
    for open in [1u8, 2] {
        let mut world = World::new(1);
        world.fate = Box::new(move |_, from, datagram| {
            let init = Kind::of(datagram) == Ok(Kind::HandshakeInit);
            let lost = init && from != at(open);
            vec![Duration::from_millis(10); usize::from(!lost)]
        });
        world.dial(1, 2);
        world.dial(2, 1);
        world.run_until(secs(5));
        assert!(world.party(1).peer.is_some() && world.party(2).peer.is_some());
        assert_eq!(world.party(1).handshakes.dials(), 0);
    }
}

/// Returns the behavior of a network that loses 40 %, repeats 10 % and delays by 5 to 80 ms.
fn bad_network() -> Fate {
    Box::new(|rng: &mut Rng, _, _| {
        let copies = usize::from(!rng.chance(0.4)) + usize::from(rng.chance(0.1));
        let delay = |rng: &mut Rng| Duration::from_micros(5_000 + rng.below(75_000));
        (0..copies).map(|_| delay(rng)).collect()
    })
}

fn lossy_run(mut world: World) -> World {
    world.fate = bad_network();
    for (n, other) in [(1, 2), (2, 1)] {
        world.party(n).keep = Some(at(other));
    }
    for ms in 0..600 {
        world.run_until(T0 + Duration::from_millis(ms * 100));
        world.say(1, 2, b"ping");
        world.say(2, 1, b"pong");
    }
    world
}

#[test]
fn a_bad_network_delays_but_does_not_prevent() {
    let worlds = [World::new, World::hybrid];
    let seeds = (0..20).flat_map(|seed| worlds.map(|world| (seed, world(seed))));
    for (seed, world) in seeds {
        let mut world = lossy_run(world);
        for n in [1, 2] {
            let party = world.party(n);
            assert_eq!(party.at(), at(n));
            assert!(party.peer.is_some(), "seed {seed}");
            assert!(party.opened.len() > 200, "seed {seed}");
            assert!(!party.not_opened.contains(&OpenError::Tag), "seed {seed}");
            let in_use = party.handshakes.indices_in_use();
            let held = party.sessions.iter().count();
            assert_eq!(in_use, held + party.handshakes.dials(), "none leaks");
        }
    }
}

#[test]
fn equal_seeds_give_equal_bytes() {
    for world in [World::new, World::hybrid] {
        let sent = |seed| lossy_run(world(seed)).sent;
        assert_eq!(sent(3), sent(3));
        assert_ne!(sent(3), sent(4));
    }
}

/// A packet is sent per millisecond in each direction, delayed by 5 to 80 ms and so reordered, while the sessions are
/// renewed every half second; a fifth of the handshake messages is lost.
#[test]
fn rekeying_loses_no_packet_in_flight() {
    rekeying_loses_nothing(World::new(5), false);
    rekeying_loses_nothing(World::hybrid(5), true);
}

fn rekeying_loses_nothing(mut world: World, is_hybrid: bool) {
    world.fate = Box::new(|rng: &mut Rng, _, datagram| {
        let sealed = Kind::of(datagram).is_ok_and(Kind::is_sealed);
        let lost = !sealed && rng.chance(0.2);
        vec![Duration::from_micros(5_000 + rng.below(75_000)); usize::from(!lost)]
    });
    world.dial(1, 2);
    world.run_until(secs(5));
    let before = [1, 2].map(|n| world.party(n).established);
    for n in [1, 2] {
        // The first hello of a hybrid session may overtake the ciphertext before it.
        world.party(n).not_opened.clear();
    }
    let mut said = [0usize; 2];
    for ms in 0..10_000u64 {
        world.run_until(secs(5) + Duration::from_millis(ms));
        if ms % 500 == 0 && world.party(1).handshakes.dials() == 0 {
            world.dial(1, 2);
        }
        if ms % 700 == 0 && world.party(2).handshakes.dials() == 0 {
            world.dial(2, 1);
        }
        said[0] += usize::from(world.say(1, 2, &ms.to_be_bytes()));
        said[1] += usize::from(world.say(2, 1, &ms.to_be_bytes()));
    }
    world.run_until(secs(16));
    assert_eq!(said, [10_000, 10_000]);
    for (n, before) in [(1, before[0]), (2, before[1])] {
        let party = world.party(n);
        assert_eq!(party.not_opened, []);
        let data = party.opened.iter().filter(|(text, _)| !text.is_empty());
        assert_eq!(data.count(), 10_000);
        assert!(party.established - before > 10, "{}", party.established);
        assert!(party.sessions.iter().all(|it| it.is_hybrid() == is_hybrid));
    }
    world.run_until(secs(30) + GRACE);
    for n in [1, 2] {
        let held = world.party(n).sessions.iter().count();
        assert!(held <= 2, "silent ones are gone: {held}");
        assert_eq!(world.party(n).handshakes.indices_in_use(), held);
    }
}

#[test]
fn a_renewed_certificate_is_shown_from_the_next_handshake_on() {
    let mut authority = authority();
    let mut a = handshakes(&mut authority, 1);
    let mut b = handshakes(&mut authority, 2);
    let renewed = authority.renew(b.identity().certificate(), YEAR).unwrap();
    let serial = renewed.fields().serial;
    let renewed = Identity::new(b.identity().keys().clone(), renewed).unwrap();
    b.set_identity(renewed);
    let init = a.dial(T0, at(2), None).unwrap();
    let response = b.on_datagram(T0, NOW_S, at(1), &init).reply();
    let established = a.on_datagram(T0, NOW_S, at(2), &response).established();
    assert_eq!(established.peer.serial(), serial);
}

#[test]
fn keys_changed_while_a_handshake_is_under_way_do_not_hurt_it() {
    let mut authority = authority();
    let mut a = handshakes(&mut authority, 1);
    let mut b = handshakes(&mut authority, 2);
    let init = a.dial(T0, at(2), None).unwrap();
    let response = b.on_datagram(T0, NOW_S, at(1), &init).reply();
    a.set_identity(identity_for(&mut authority, 5, YEAR));
    b.set_identity(identity_for(&mut authority, 6, YEAR));
    let dialled = a.on_datagram(T0, NOW_S, at(2), &response).established();
    let finish = dialled.reply.concat();
    let accepted = b.on_datagram(T0, NOW_S, at(1), &finish).established();
    assert_eq!(accepted.peer.address(), address(1));
    assert_eq!(dialled.peer.address(), address(2));
}

/// Returns the datagrams of a handshake between two nodes of this network.
fn handshake(network_of: impl Fn(&crate::Authority) -> Network) -> Vec<Vec<u8>> {
    let mut authority = authority();
    let identities = [1, 2].map(|n| identity_for(&mut authority, n, YEAR));
    let [mut a, mut b] =
        identities.map(|identity| Handshakes::new(identity, network_of(&authority), [7; 32], T0));
    let init = a.dial(T0, at(2), Some(address(2))).unwrap();
    let response = b.on_datagram(T0, NOW_S, at(1), &init).reply();
    let dialled = a.on_datagram(T0, NOW_S, at(2), &response).established();
    let finish = dialled.reply.concat();
    let accepted = b.on_datagram(T0, NOW_S, at(1), &finish).established();
    assert_eq!(accepted.peer.address(), address(1));
    let (mut here, mut there) = (dialled.session, accepted.session);
    let mut datagram = [7; 64];
    here.seal(Kind::Data, &mut datagram).unwrap();
    let sealed = datagram.to_vec();
    assert!(there.open(&mut datagram).is_ok());
    vec![init, response, finish, sealed]
}

#[test]
fn an_unsealed_network_says_as_much_and_is_not_understood_by_the_true_one() {
    let earnest = handshake(|authority| authority.network());
    let open = handshake(|authority| authority.network().unsealed());
    let lengths = |datagrams: &[Vec<u8>]| datagrams.iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(lengths(&earnest), lengths(&open));
    assert_ne!(earnest[0], open[0], "no key was multiplied");

    let mut authority = authority();
    let identities = [1, 2].map(|n| identity_for(&mut authority, n, YEAR));
    let networks = [authority.network().unsealed(), authority.network()];
    let mut nodes = identities.into_iter().zip(networks);
    let mut next = || {
        let (identity, network) = nodes.next().unwrap();
        Handshakes::new(identity, network, [7; 32], T0)
    };
    let (mut a, mut b) = (next(), next());
    let init = a.dial(T0, at(2), None).unwrap();
    let response = b.on_datagram(T0, NOW_S, at(1), &init).reply();
    let refused = a.on_datagram(T0, NOW_S, at(2), &response).refused();
    assert_eq!(refused, Refusal::Noise);
}

#[test]
fn a_memo_changes_nothing_but_how_often_signatures_are_looked_at() {
    #[derive(Debug, Default)]
    struct Asked(std::sync::atomic::AtomicUsize);
    impl crate::Memo for Asked {
        fn recall(&self, _: &[u8; 32], verify: &mut dyn FnMut() -> bool) -> bool {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            verify()
        }
    }
    let memo = Arc::new(Asked::default());
    let shared = Arc::clone(&memo);
    let remembered =
        handshake(move |authority| authority.network().with_memo(Arc::clone(&shared) as _));
    assert_eq!(remembered, handshake(|authority| authority.network()));
    assert_eq!(memo.0.load(std::sync::atomic::Ordering::Relaxed), 2);
}
