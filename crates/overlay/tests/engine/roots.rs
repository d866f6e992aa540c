//! The network gets another root key. A node that is renewed in time notices nothing, and a thief of the old key comes
//! too late.
#![allow(clippy::unwrap_used)]

use crate::world::neighbour::{Neighbour, records};
use crate::world::party::{Ask, Party};
use crate::world::siege::{INTRUDER, Siege, TARGET};
use crate::world::streams::Streams;
use crate::world::{Nodes, UNIX_S, VALID, addr, chain, identity, voice};
use base::{Duration, Rng};
use overlay::request::Operation;
use overlay::{Node, Reply};
use secure::{Authority, CertificateError, Identity, Network, Refusal};
use wire::link::Kind;
use wire::record::{RecordKind, join_root};

/// The authority makes another root and tells node `at` about it, together with the revocation list that belongs to it.
fn rotate(nodes: &mut Nodes, at: usize, until_s: u64) {
    nodes.authority.rotate(&[7; 32], until_s, UNIX_S).unwrap();
    deliver(nodes, at);
}

fn deliver(nodes: &mut Nodes, at: usize) {
    let roots = nodes.authority.network().chain_bytes();
    nodes.operate(at, Operation::Succeed(roots));
    let list = nodes.authority.revocations(UNIX_S);
    nodes.operate(at, Operation::Revoke(list.as_bytes().to_vec()));
}

/// Creates a new certificate for the keys of node `i`, signed by the newest root.
fn renewed(nodes: &mut Nodes, i: usize) -> Identity {
    let certificate = nodes.certificate(i);
    let renewed = nodes.authority.renew(&certificate, VALID).unwrap();
    let identity = Identity::new(nodes.identity(i).keys().clone(), renewed).unwrap();
    nodes.set_identity(i, identity.clone());
    identity
}

fn renew(nodes: &mut Nodes, i: usize) {
    let identity = renewed(nodes, i);
    nodes.operate(i, Operation::Renew(Box::new(identity)));
}

/// Returns a thief who has copied the old root key before it was replaced.
fn thief(nodes: &Nodes) -> Authority {
    Authority::from_text(&nodes.authority.to_text()).unwrap()
}

/// Returns the number of the newest root that node `i` knows, and the edition of its revocation list.
fn known(nodes: &Nodes, i: usize) -> (u8, (u8, u32)) {
    let network = nodes.running(i).unwrap().network();
    (network.root_number(), network.revocations_edition())
}

/// Restarts node `i` with the network that it has stored.
fn start_with(nodes: &mut Nodes, i: usize, network: Network) {
    let config = nodes.config(i, network);
    let party = Party::node(Node::new(config));
    nodes.world.restart(nodes.hosts[i], party);
}

fn done(nodes: &mut Nodes) -> Vec<bool> {
    let replies = nodes.world.take_replies();
    let replies = replies.iter();
    replies
        .map(|answer| matches!(answer.reply, Reply::Done))
        .collect()
}

#[test]
fn twenty_calls_lose_nothing_by_a_rotation_and_by_the_end_of_the_old_root() {
    let mut nodes = Nodes::new(61, 4, &chain(4), "delay=10ms");
    nodes.run_ms(2_000);
    nodes.introduce(&[(0, 3)]);
    let mut calls = Streams::calls(&mut nodes, 20, 0, 3, voice());
    calls.run(&mut nodes, Duration::from_secs(1));
    rotate(&mut nodes, 1, UNIX_S + 30);
    calls.run(&mut nodes, Duration::from_secs(1));
    for i in 0..4 {
        assert_eq!(known(&nodes, i), (1, (1, 1)), "node {i}");
        let snapshot = nodes.snapshot(i);
        assert_eq!((snapshot.root, snapshot.certificate_root), (1, Some(0)));
        assert_eq!(snapshot.certificate_not_after_s, UNIX_S + 30);
        assert!(snapshot.certificate_expires_soon);
    }
    for i in 0..4 {
        renew(&mut nodes, i);
        calls.run(&mut nodes, Duration::from_secs(2));
        let snapshot = nodes.snapshot(i);
        assert_eq!((snapshot.root, snapshot.certificate_root), (1, Some(1)));
    }
    // The old root ends in this time. After ten minutes, all sessions get new keys.
    calls.run(&mut nodes, Duration::from_secs(30));
    calls.finish(&mut nodes);
    assert_eq!(calls.missed(Duration::MAX), 0);
    assert_eq!(nodes.count().downs.len(), 0);
    nodes.run_ms(700_000);
    assert!(nodes.all_links_up());
    let totals = nodes.count();
    assert_eq!((totals.downs.len(), totals.roots.len()), (0, 4));
    assert!(totals.refused.is_empty(), "{:?}", totals.refused);
}

#[test]
fn who_is_not_renewed_in_time_is_out_at_that_second_and_comes_back_when_it_is() {
    let mut nodes = Nodes::new(62, 3, &chain(3), "delay=10ms");
    nodes.run_ms(2_000);
    rotate(&mut nodes, 0, UNIX_S + 20);
    nodes.run_ms(500);
    renew(&mut nodes, 0);
    renew(&mut nodes, 1);
    nodes.run_ms(16_000);
    assert!(nodes.all_links_up());
    nodes.run_ms(5_000);
    assert_eq!(nodes.link_status(1, 2).state, "no-session");
    let database = nodes.running(0).unwrap().database();
    assert!(database.links_of(addr(2)).is_none());
    nodes.run_ms(10_000);
    let old = Refusal::Certificate(CertificateError::OldRoot);
    assert!(nodes.count().refusals(old) > 0);
    renew(&mut nodes, 2);
    nodes.run_ms(15_000);
    assert!(nodes.all_links_up());
    assert_eq!(nodes.snapshot(0).routes.len(), 2 * 4);
}

#[test]
fn a_root_that_ends_at_once_takes_the_thiefs_links_with_it() {
    let mut siege = Siege::from_inside(63);
    siege
        .nodes
        .authority
        .rotate(&[7; 32], UNIX_S, UNIX_S)
        .unwrap();
    // The honest nodes get their certificates at once, and the network learns of the new root through these.
    for i in 0..3 {
        renew(&mut siege.nodes, i);
    }
    siege.run(Duration::from_secs(1));
    deliver(&mut siege.nodes, 0);
    siege.run(Duration::from_secs(6));
    let link = siege.nodes.link_status(TARGET, INTRUDER);
    assert_eq!(link.state, "no-session");
    siege.end();
}

#[test]
fn a_rival_is_refused_and_counted_wherever_it_comes_from() {
    let mut siege = Siege::from_inside(64);
    let mut thief = thief(&siege.nodes);
    rotate(&mut siege.nodes, 0, UNIX_S + 1_000);
    siege.run(Duration::from_secs(1));
    let rival = thief.rotate(&[8; 32], u64::MAX, UNIX_S).unwrap();
    let member = identity(&mut thief, &mut Rng::new(64), 9, VALID);
    // A succession or certificate with an invalid signature is no rival, and is no sign of a theft.
    let mut junk = rival.to_bytes();
    *junk.last_mut().unwrap() ^= 1;
    let mut of_junk = member.certificate().as_bytes().to_vec();
    let at = of_junk.len() - 64 - 1;
    of_junk[at] ^= 1;
    let flooded = [
        (RecordKind::SUCCESSION, &junk[..], 0),
        (RecordKind::CERTIFICATE, &of_junk, 0),
        (RecordKind::SUCCESSION, &rival.to_bytes(), 1),
        (RecordKind::CERTIFICATE, member.certificate().as_bytes(), 2),
    ];
    for (kind, body, refused) in flooded {
        siege.say(Kind::Control, [records(&[(kind, body)])]);
        siege.run(Duration::from_secs(1));
        assert_eq!(siege.nodes.count().roots_refused, refused);
    }
    assert_eq!(siege.nodes.count().records_refused, 4);
    siege.nodes.world.take_replies();
    let all = thief.network().chain_bytes();
    siege.nodes.operate(2, Operation::Succeed(all));
    siege.nodes.operate(2, Operation::Succeed(junk.to_vec()));
    siege.nodes.run_ms(0);
    assert_eq!(done(&mut siege.nodes), [false, false]);
    let totals = siege.nodes.count();
    assert_eq!((totals.roots_refused, totals.roots.len()), (3, 3));
    for i in 0..3 {
        let successions = siege.nodes.running(i).unwrap().network().successions();
        assert_eq!(successions, siege.nodes.authority.network().successions());
    }
    siege.end();
}

#[test]
fn a_rival_that_shakes_hands_is_counted() {
    let mut siege = Siege::with(80, |nodes| {
        let mut thief = thief(nodes);
        thief.rotate(&[8; 32], u64::MAX, UNIX_S).unwrap();
        let identity = identity(&mut thief, &mut Rng::new(80), INTRUDER, VALID);
        Neighbour::new(identity, nodes.authority.network(), [3; 32])
    });
    rotate(&mut siege.nodes, 0, UNIX_S + 1_000);
    siege.run(Duration::from_secs(1));
    let target = siege.target();
    siege.ask(Ask::Dial(target));
    siege.run(Duration::from_secs(1));
    assert!(siege.nodes.count().roots_refused > 0);
    assert_eq!(known(&siege.nodes, TARGET).0, 1);
    siege.end();
}

/// Returns the same authority, whose list of revocations has this version.
fn at_version(authority: &Authority, version: u32) -> Authority {
    // The number is behind the version, the key and the next serial.
    with_number(authority, 37, version)
}

/// Returns the same authority, whose next certificate has this serial.
fn at_serial(authority: &Authority, serial: u32) -> Authority {
    with_number(authority, 33, serial)
}

fn with_number(authority: &Authority, at: usize, number: u32) -> Authority {
    const LABEL: &str = "SINEW NETWORK KEY";
    let mut bytes = secure::armour::read(LABEL, &authority.to_text())
        .unwrap()
        .to_vec();
    bytes[at..at + 4].copy_from_slice(&number.to_be_bytes());
    Authority::from_text(&secure::armour::write(LABEL, &bytes)).unwrap()
}

#[test]
fn whom_a_thief_has_revoked_comes_back_with_the_list_of_the_new_root() {
    let mut nodes = Nodes::new(74, 3, &chain(3), "delay=10ms");
    nodes.run_ms(2_000);
    let victim = nodes.certificate(1);
    let mut thief = at_version(&thief(&nodes), u32::MAX - 1);
    let list = thief.revoke(&victim, UNIX_S).unwrap();
    nodes.operate(0, Operation::Revoke(list.as_bytes().to_vec()));
    nodes.run_ms(2_000);
    assert_eq!(nodes.link_status(0, 1).state, "no-session");
    // Node 2 has not heard of the revocation, because it is behind the victim. The victim has not heard of it either.
    assert_eq!(known(&nodes, 2), (0, (0, 0)));
    rotate(&mut nodes, 0, UNIX_S + 1_000);
    nodes.run_ms(15_000);
    assert!(nodes.all_links_up(), "{:#?}", nodes.snapshot(0).links);
    for i in 0..3 {
        assert_eq!(known(&nodes, i), (1, (1, 1)), "node {i}");
    }
    assert_eq!(nodes.snapshot(0).routes.len(), 2 * 4);
}

#[test]
fn no_list_of_the_old_root_holds_back_that_of_the_new_one() {
    let mut siege = Siege::from_inside(65);
    let mut thief = thief(&siege.nodes);
    let victim = siege.nodes.certificate(2);
    // The thief has the highest possible version, and floods it before any node hears of another root.
    let highest = at_version(&thief, u32::MAX).revocations(UNIX_S);
    let first = records(&[(RecordKind::REVOCATIONS, highest.as_bytes())]);
    siege.say(Kind::Control, [first.clone()]);
    siege.run(Duration::from_secs(1));
    assert_eq!(known(&siege.nodes, 0), (0, (0, u32::MAX)));
    rotate(&mut siege.nodes, 0, UNIX_S + 1_000);
    siege.run(Duration::from_secs(1));
    for i in 0..3 {
        assert_eq!(known(&siege.nodes, i), (1, (1, 1)), "node {i}");
    }
    // From then on neither this list nor another one is accepted, whichever root it names.
    thief.revoke(&victim, UNIX_S).unwrap();
    let revoked = thief.revoke(&victim, UNIX_S).unwrap();
    let later = join_root(1, revoked.as_bytes());
    let said = [
        first,
        records(&[(RecordKind::REVOCATIONS, revoked.as_bytes())]),
        records(&[(RecordKind::LATER_REVOCATIONS, &later)]),
    ];
    let before = siege.nodes.count().records_refused;
    siege.say(Kind::Control, said);
    siege.run(Duration::from_secs(1));
    assert_eq!(siege.nodes.count().records_refused, before + 3);
    for i in 0..3 {
        assert_eq!(known(&siege.nodes, i), (1, (1, 1)), "node {i}");
    }
    siege.end();
}

#[test]
fn a_flooded_certificate_brings_the_root_along_that_signed_it() {
    let mut siege = Siege::from_inside(75);
    let mut rng = Rng::new(75);
    let authority = &mut siege.nodes.authority;
    let far = authority.rotate(&[7; 32], UNIX_S + 1_000, UNIX_S).unwrap();
    let member = identity(authority, &mut rng, 9, VALID);
    let certificate = member.certificate().as_bytes();
    // A certificate with an invalid signature teaches nothing.
    let mut junk = certificate.to_vec();
    *junk.last_mut().unwrap() ^= 1;
    for (body, roots) in [(&junk[..], 0), (certificate, 1)] {
        siege.say(Kind::Control, [records(&[(RecordKind::CERTIFICATE, body)])]);
        siege.run(Duration::from_secs(1));
        for i in 0..3 {
            assert_eq!(known(&siege.nodes, i).0, roots, "node {i}");
            let network = siege.nodes.running(i).unwrap().network();
            assert_eq!(network.successions(), &[far][..roots.into()]);
            let held = siege.nodes.running(i).unwrap().database();
            let held = held.certificate(member.address());
            assert_eq!(held, (roots == 1).then_some(certificate));
        }
    }
    assert_eq!(siege.nodes.count().records_refused, 1);
    siege.end();
}

/// A thief of the old root floods the highest serial for node 2, and says in the name of node 2 that it has no links.
/// The thief does so after node 2 has a certificate of the new root. If `is_early` is true, the thief also does so
/// before.
fn thief_in_the_name_of_two(seed: u64, is_early: bool) -> Siege {
    let mut siege = Siege::from_inside(seed);
    let mut thief = at_serial(&thief(&siege.nodes), u32::MAX - 5);
    let forged = identity(&mut thief, &mut Rng::new(seed), 2, VALID);
    let serial = forged.certificate().fields().serial;
    assert!(serial > siege.nodes.certificate(2).fields().serial);
    let liar = Neighbour::new(forged.clone(), siege.nodes.authority.network(), [4; 32]);
    let lies = liar.forged(addr(2), serial, u32::MAX - 5, &[]);
    let lies = records(&[
        (RecordKind::CERTIFICATE, forged.certificate().as_bytes()),
        (RecordKind::LINK_STATE, &lies),
    ]);
    if is_early {
        siege.say(Kind::Control, [lies.clone()]);
        siege.run(Duration::from_secs(1));
        // No other node can tell node 2 its own identity.
        let own = siege.nodes.certificate(2);
        for (i, held) in [(0, &forged), (1, &forged), (2, siege.nodes.identity(2))] {
            let database = siege.nodes.running(i).unwrap().database();
            let certificate = database.certificate(addr(2)).unwrap();
            assert_eq!(certificate, held.certificate().as_bytes(), "node {i}");
        }
        assert_ne!(own.as_bytes(), forged.certificate().as_bytes());
    }
    rotate(&mut siege.nodes, 0, UNIX_S + 1_000);
    siege.run(Duration::from_secs(1));
    for i in 0..3 {
        renew(&mut siege.nodes, i);
    }
    siege.run(Duration::from_secs(4));
    siege.say(Kind::Control, [lies]);
    siege.run(Duration::from_secs(4));
    let genuine = siege.nodes.certificate(2);
    for i in 0..3 {
        let database = siege.nodes.running(i).unwrap().database();
        assert_eq!(database.certificate(addr(2)), Some(genuine.as_bytes()));
        let links = database.links_of(addr(2)).unwrap();
        assert_eq!(links.len(), 1, "node {i}");
    }
    siege
}

#[test]
fn no_serial_of_a_stolen_root_counts_against_a_certificate_of_the_new_one() {
    thief_in_the_name_of_two(76, false).end();
}

#[test]
fn in_whose_name_a_thief_has_spoken_comes_back_with_its_new_certificate() {
    thief_in_the_name_of_two(77, true);
}

#[test]
fn two_successions_that_are_flooded_at_once_are_both_taken() {
    let mut nodes = Nodes::new(81, 4, &chain(4), "delay=10ms");
    nodes.run_ms(2_000);
    for seed in [7, 8] {
        let rotated = nodes.authority.rotate(&[seed; 32], UNIX_S + 1_000, UNIX_S);
        rotated.unwrap();
    }
    // The later succession arrives first, and waits for the other one.
    deliver(&mut nodes, 0);
    nodes.run_ms(2_000);
    for i in 0..4 {
        assert_eq!(known(&nodes, i), (2, (2, 2)), "node {i}");
    }
    for i in 0..4 {
        renew(&mut nodes, i);
    }
    nodes.run_ms(2_000);
    assert!(nodes.all_links_up());
    let totals = nodes.count();
    assert_eq!((totals.roots.len(), totals.roots_refused), (8, 0));
    assert_eq!(totals.records_refused, 0);
}

/// Creates a network in which node 1 has slept through a rotation, and all other nodes have certificates of the new
/// root.
fn asleep(seed: u64, edges: &[(usize, usize)]) -> Nodes {
    let mut nodes = Nodes::new(seed, 3, edges, "delay=10ms");
    nodes.run_ms(2_000);
    nodes.crash(1);
    rotate(&mut nodes, 0, UNIX_S + 10_000);
    nodes.run_ms(500);
    let old = first_network(&nodes);
    for i in [0, 2] {
        renew(&mut nodes, i);
    }
    // From here on, a node hears of the new root only in its handshakes.
    nodes.run_ms(100);
    start_with(&mut nodes, 1, old);
    nodes
}

/// Returns the network as it was before it had another root.
fn first_network(nodes: &Nodes) -> Network {
    Network::new(*nodes.authority.network().root_key()).unwrap()
}

#[test]
fn a_node_that_slept_through_it_learns_of_the_root_whoever_dials() {
    // The earlier node of an edge dials.
    for (seed, edges) in [
        (66, [(0, 1), (1, 2)]),
        (67, [(1, 0), (2, 1)]),
        (68, [(1, 0), (1, 2)]),
    ] {
        let mut nodes = asleep(seed, &edges);
        // Node 2 hears of the rotation only through node 1.
        nodes.run_ms(6_000);
        assert!(
            nodes.all_links_up(),
            "{edges:?} {:#?}",
            nodes.snapshot(1).links
        );
        assert_eq!(known(&nodes, 1).0, 1, "{edges:?}");
        assert_eq!(known(&nodes, 1), known(&nodes, 2), "{edges:?}");
        assert_eq!(nodes.snapshot(0).routes.len(), 2 * 4);
    }
}

#[test]
fn who_slept_through_two_rotations_says_what_to_do_and_does_it_by_a_file() {
    let mut nodes = Nodes::new(69, 2, &chain(2), "delay=10ms");
    nodes.run_ms(2_000);
    let old = nodes.authority.network();
    nodes.crash(0);
    for seed in [7, 8] {
        nodes
            .authority
            .rotate(&[seed; 32], UNIX_S + 10_000, UNIX_S)
            .unwrap();
    }
    deliver(&mut nodes, 1);
    renew(&mut nodes, 1);
    start_with(&mut nodes, 0, old);
    nodes.run_ms(6_000);
    let newer = Refusal::Certificate(CertificateError::NewerRoot);
    assert!(nodes.count().refusals(newer) > 0);
    let link = nodes.link_status(0, 1);
    assert!(link.reason.unwrap().contains("network.pub"));
    let roots = nodes.authority.network().chain_bytes();
    nodes.operate(0, Operation::Succeed(roots));
    nodes.run_ms(10_000);
    assert!(nodes.all_links_up());
    assert_eq!(known(&nodes, 0), (2, (2, 2)));
}

#[test]
fn a_restart_knows_roots_and_list_and_tells_others() {
    let mut nodes = Nodes::new(70, 3, &chain(3), "delay=10ms");
    nodes.run_ms(2_000);
    nodes
        .authority
        .rotate(&[7; 32], UNIX_S + 10_000, UNIX_S)
        .unwrap();
    // The stored state has the roots, and a list that the first root has signed. The list is still in force.
    let mut stored = nodes.authority.network();
    let mut first = first_authority(70);
    let gone = identity(&mut first, &mut Rng::new(5), 9, VALID);
    let list = first.revoke(gone.certificate(), UNIX_S).unwrap();
    assert_eq!(stored.restore(&list), Ok(true));
    start_with(&mut nodes, 0, stored);
    nodes.run_ms(5_000);
    assert_eq!(known(&nodes, 0), (1, (0, 1)));
    let network = nodes.running(0).unwrap().network();
    assert!(network.has_revoked(gone.certificate()));
    for i in 1..3 {
        assert_eq!(known(&nodes, i).0, 1, "node {i}");
    }
    deliver(&mut nodes, 2);
    nodes.run_ms(1_000);
    for i in 0..3 {
        assert_eq!(known(&nodes, i), (1, (1, 1)), "node {i}");
    }
}

/// Returns the authority of the world of this seed, as it was with its first root.
fn first_authority(seed: u64) -> Authority {
    let mut rng = Rng::new(seed);
    crate::world::authority(&mut rng)
}

#[test]
fn the_operator_is_told_what_is_not_taken() {
    let mut nodes = Nodes::new(71, 2, &chain(2), "delay=10ms");
    nodes.run_ms(2_000);
    nodes
        .authority
        .rotate(&[7; 32], UNIX_S + 1_000, UNIX_S)
        .unwrap();
    nodes
        .authority
        .rotate(&[8; 32], UNIX_S + 1_000, UNIX_S)
        .unwrap();
    let roots = nodes.authority.network().chain_bytes();
    for bytes in [&roots[186..], &roots[..185], &roots[..186], &roots, &roots] {
        nodes.operate(0, Operation::Succeed(bytes.to_vec()));
    }
    nodes.run_ms(1);
    assert_eq!(done(&mut nodes), [false, false, true, true, true]);
    // A certificate of the newest root also brings that root along.
    let mut other = Nodes::new(72, 1, &[], "clean");
    other
        .authority
        .rotate(&[7; 32], UNIX_S + 1_000, UNIX_S)
        .unwrap();
    renew(&mut other, 0);
    other.run_ms(1);
    assert_eq!(done(&mut other), [true]);
    assert_eq!(known(&other, 0).0, 1);
}

#[test]
fn an_intruder_with_a_certificate_of_a_stolen_root_counts_until_that_ends() {
    let mut siege = Siege::with(73, |nodes| {
        let mut rng = Rng::new(73);
        let identity = identity(&mut nodes.authority.clone(), &mut rng, INTRUDER, VALID);
        Neighbour::new(identity, nodes.authority.network(), [3; 32])
    });
    for i in 0..3 {
        let until_s = UNIX_S + 15;
        match i {
            0 => rotate(&mut siege.nodes, 0, until_s),
            _ => siege.run(Duration::from_millis(100)),
        }
        renew(&mut siege.nodes, i);
    }
    let target = siege.target();
    siege.ask(Ask::Dial(target));
    siege.run(Duration::from_secs(3));
    assert_eq!(siege.nodes.link_status(TARGET, INTRUDER).state, "up");
    siege.run(Duration::from_secs(12));
    assert_eq!(
        siege.nodes.link_status(TARGET, INTRUDER).state,
        "no-session"
    );
    siege.ask(Ask::Dial(target));
    siege.run(Duration::from_secs(3));
    let old = Refusal::Certificate(CertificateError::OldRoot);
    assert!(siege.nodes.count().refusals(old) > 0);
    siege.end();
}

#[test]
fn a_session_in_the_name_of_a_renewed_node_ends_with_the_root_that_it_was_made_by() {
    let mut siege = Siege::with(78, |nodes| {
        let mut rng = Rng::new(78);
        let identity = identity(&mut nodes.authority.clone(), &mut rng, INTRUDER, VALID);
        Neighbour::new(identity, nodes.authority.network(), [3; 32])
    });
    rotate(&mut siege.nodes, 0, UNIX_S + 15);
    siege.run(Duration::from_millis(200));
    for i in 0..3 {
        renew(&mut siege.nodes, i);
    }
    let target = siege.target();
    siege.ask(Ask::Dial(target));
    siege.run(Duration::from_secs(3));
    assert_eq!(siege.nodes.link_status(TARGET, INTRUDER).state, "up");
    // The genuine node of that address has its certificate by now, with its own keys.
    let mut rng = Rng::new(79);
    let genuine = identity(&mut siege.nodes.authority, &mut rng, INTRUDER, VALID);
    let genuine = genuine.certificate().as_bytes();
    siege.say(
        Kind::Control,
        [records(&[(RecordKind::CERTIFICATE, genuine)])],
    );
    siege.run(Duration::from_secs(1));
    let database = siege.nodes.running(0).unwrap().database();
    assert_eq!(database.certificate(addr(INTRUDER)), Some(genuine));
    // From then on, no other session in the name of that node is accepted, although the old root is still valid.
    let old = Refusal::Certificate(CertificateError::OldRoot);
    assert_eq!(siege.nodes.count().refusals(old), 0);
    siege.ask(Ask::Dial(target));
    siege.run(Duration::from_secs(3));
    assert_eq!(siege.nodes.count().refusals(old), 1);
    siege.run(Duration::from_secs(8));
    let link = siege.nodes.link_status(TARGET, INTRUDER);
    assert_eq!(link.state, "no-session");
    siege.end();
}
