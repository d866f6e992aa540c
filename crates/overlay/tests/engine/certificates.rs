//! Admission: strangers, certificates that have expired or were revoked, renewed ones, and more neighbours than a node
//! can have.
#![allow(clippy::unwrap_used)]

use crate::world::neighbour::Neighbour;
use crate::world::party::Ask;
use crate::world::siege::{INTRUDER, Siege, TARGET};
use crate::world::streams::Streams;
use crate::world::{Nodes, Plan, UNIX_S, VALID, addr, authority, chain, identity, model, voice};
use base::{Duration, Engine, NodeAddr, Rng, Time};
use overlay::link::MAX_LINKS;
use overlay::request::Operation;
use overlay::{Event, Reply};
use secure::{CertificateError, Identity, Issuer, Mandate, Newcomer, Refusal, Validity};

/// A host with a certificate of the network for this time dials the target, and is refused.
fn refused(seed: u64, validity: Validity) -> CertificateError {
    let mut siege = Siege::with(seed, |nodes| {
        let mut rng = Rng::new(seed);
        let identity = identity(&mut nodes.authority, &mut rng, INTRUDER, validity);
        Neighbour::new(identity, nodes.authority.network(), [3; 32])
    });
    refusal(&mut siege);
    let refused = siege.nodes.count().refused.clone();
    let all = [
        CertificateError::NotYetValid,
        CertificateError::Expired,
        CertificateError::WrongNetwork,
        CertificateError::BadSignature,
    ];
    let why = all
        .into_iter()
        .find(|why| refused.contains_key(why.label()));
    siege.end();
    why.unwrap_or_else(|| panic!("{refused:?}"))
}

/// The attacker dials, and gets no link.
fn refusal(siege: &mut Siege) {
    let target = siege.target();
    siege.ask(Ask::Dial(target));
    siege.run(Duration::from_secs(2));
    let links = siege.nodes.snapshot(TARGET).links;
    let intruder = addr(INTRUDER).to_string();
    assert!(
        links
            .iter()
            .all(|link| link.peer != intruder || link.state == "no-session")
    );
    for i in 0..3 {
        let database = siege.nodes.running(i).unwrap().database();
        assert!(database.certificate(addr(INTRUDER)).is_none());
    }
}

#[test]
fn a_certificate_counts_in_its_time_only() {
    let second = |not_before_s, not_after_s| Validity {
        not_before_s,
        not_after_s,
    };
    assert_eq!(refused(1, second(0, UNIX_S - 1)), CertificateError::Expired);
    let future = second(UNIX_S + 10_000, UNIX_S + 20_000);
    assert_eq!(refused(2, future), CertificateError::NotYetValid);
}

#[test]
fn a_member_of_another_network_is_not_heard() {
    let mut siege = Siege::from_outside(3);
    refusal(&mut siege);
    assert!(siege.nodes.count().refusals(Refusal::Mac) > 0);
    siege.end();
}

#[test]
fn knowing_the_network_is_not_being_of_it() {
    // The network's root public key is no secret; a certificate of another root does not help.
    let mut siege = Siege::with(4, |nodes| {
        let mut rng = Rng::new(44);
        let mut other = authority(&mut rng);
        let identity = identity(&mut other, &mut rng, INTRUDER, VALID);
        Neighbour::new(identity, nodes.authority.network(), [3; 32])
    });
    refusal(&mut siege);
    let wrong = Refusal::Certificate(CertificateError::WrongNetwork);
    assert!(siege.nodes.count().refusals(wrong) > 0);
    siege.end();
}

#[test]
fn a_revoked_neighbour_is_cut_everywhere_and_not_let_in_again() {
    let mut siege = Siege::from_inside(5);
    let record = siege.rogue().record(1, &[(addr(TARGET), 1_000)]);
    siege.say(wire::link::Kind::Control, [record]);
    siege.run(Duration::from_secs(1));
    let reachable = |siege: &Siege, i| {
        let to = addr(INTRUDER).to_string();
        siege
            .nodes
            .snapshot(i)
            .routes
            .iter()
            .any(|route| route.to == to)
    };
    assert!((0..3).all(|i| reachable(&siege, i)));

    // The list enters at another node and is flooded.
    let certificate = siege.rogue().identity.certificate().clone();
    let list = siege.nodes.authority.revoke(&certificate, UNIX_S).unwrap();
    siege
        .nodes
        .operate(2, Operation::Revoke(list.as_bytes().to_vec()));
    siege.run(Duration::from_secs(1));
    for i in 0..3 {
        assert_eq!(siege.nodes.snapshot(i).revocations_version, 1);
        assert!(!reachable(&siege, i));
        let database = siege.nodes.running(i).unwrap().database();
        assert!(database.links_of(addr(INTRUDER)).is_none());
    }
    let link = siege.nodes.link_status(TARGET, INTRUDER);
    assert_eq!((link.state, link.counts.downs), ("no-session", 1));
    let downs = &siege.nodes.totals.downs;
    assert_eq!(
        downs
            .iter()
            .filter(|(.., peer)| *peer == addr(INTRUDER))
            .count(),
        1
    );

    refusal(&mut siege);
    let revoked = Refusal::Certificate(CertificateError::Revoked);
    assert!(siege.nodes.count().refusals(revoked) > 0);
    siege.end();
}

#[test]
fn a_neighbour_that_is_revoked_amid_calls_leaves_no_timer_behind() {
    // There are losses, so that packets are missing and requested at that time, and others are on their way.
    let mut nodes = Nodes::new(14, 3, &chain(3), "delay=10ms loss=5%");
    nodes.run_ms(2_000);
    let mut calls = Streams::calls(&mut nodes, 5, 0, 2, voice());
    calls.run(&mut nodes, Duration::from_secs(1));
    let certificate = nodes.certificate(2);
    let list = nodes.authority.revoke(&certificate, UNIX_S).unwrap();
    nodes.operate(1, Operation::Revoke(list.as_bytes().to_vec()));
    calls.run(&mut nodes, Duration::from_secs(1));
    assert_eq!(nodes.link_status(1, 2).state, "no-session");
    for i in 0..3 {
        let (due, whose) = nodes.running(i).unwrap().next_timeout().unwrap();
        assert!(due >= nodes.world.now(), "node {i} spins for its {whose}");
    }
}

#[test]
fn an_older_or_a_foreign_list_is_refused() {
    let mut nodes = Nodes::new(6, 2, &chain(2), "delay=10ms");
    nodes.run_ms(2_000);
    let other = authority(&mut Rng::new(99));
    let foreign = other.revocations(UNIX_S);
    let first = nodes.authority.revocations(UNIX_S);
    let certificate = nodes.certificate(1);
    let list = nodes.authority.revoke(&certificate, UNIX_S).unwrap();
    for bytes in [
        foreign.as_bytes(),
        list.as_bytes(),
        first.as_bytes(),
        b"no list",
    ] {
        nodes.operate(0, Operation::Revoke(bytes.to_vec()));
    }
    nodes.run_ms(1);
    let done: Vec<bool> = nodes
        .world
        .take_replies()
        .iter()
        .map(|answer| matches!(answer.reply, Reply::Done))
        .collect();
    assert_eq!(done, [false, true, false, false]);
    assert_eq!(nodes.link_status(0, 1).state, "no-session");
}

/// Node `i` gets a new certificate for its keys.
fn renew(nodes: &mut Nodes, i: usize) -> Identity {
    let certificate = nodes.certificate(i);
    let renewed = nodes.authority.renew(&certificate, VALID).unwrap();
    Identity::new(nodes.identity(i).keys().clone(), renewed).unwrap()
}

#[test]
fn a_renewed_certificate_takes_over_without_interruption_before_the_old_one_is_revoked() {
    let mut nodes = Nodes::new(7, 4, &chain(4), "delay=10ms");
    nodes.run_ms(2_000);
    let mut calls = Streams::calls(&mut nodes, 2, 0, 3, voice());
    calls.run(&mut nodes, Duration::from_secs(1));
    let old = nodes.certificate(1);
    let identity = renew(&mut nodes, 1);
    nodes.operate(1, Operation::Renew(Box::new(identity)));
    calls.run(&mut nodes, Duration::from_secs(3));
    let list = nodes.authority.revoke(&old, UNIX_S).unwrap();
    nodes.operate(3, Operation::Revoke(list.as_bytes().to_vec()));
    calls.run(&mut nodes, Duration::from_secs(30));
    calls.finish(&mut nodes);
    assert_eq!(calls.missed(Duration::MAX), 0);
    assert_eq!(nodes.count().downs.len(), 0);
}

#[test]
fn a_node_that_is_renewed_after_its_certificate_was_revoked_comes_back() {
    for wait_ms in [0, 15, 100, 1_000, 10_000] {
        let mut nodes = Nodes::new(8 + wait_ms, 4, &chain(4), "delay=10ms");
        nodes.run_ms(2_000);
        let old = nodes.certificate(1);
        let list = nodes.authority.revoke(&old, UNIX_S).unwrap();
        nodes.operate(3, Operation::Revoke(list.as_bytes().to_vec()));
        nodes.run_ms(wait_ms);
        let identity = renew(&mut nodes, 1);
        nodes.operate(1, Operation::Renew(Box::new(identity)));
        nodes.run_ms(10_000);
        assert!(
            nodes.all_links_up(),
            "{wait_ms}: {:#?}",
            nodes.snapshot(1).links
        );
        for i in 0..4 {
            let routes = nodes.snapshot(i).routes;
            assert_eq!(
                routes.len(),
                3 * 4,
                "after {wait_ms} ms, node {i}: {routes:#?}"
            );
        }
    }
}

#[test]
fn a_node_whose_certificate_ends_is_out_when_its_sessions_have_ended() {
    let mut nodes = Nodes::new(19, 3, &chain(3), "delay=10ms");
    let short = Validity {
        not_before_s: 0,
        not_after_s: UNIX_S + 100,
    };
    let mut rng = Rng::new(77);
    let ends = identity(&mut nodes.authority, &mut rng, 1, short);
    nodes.set_identity(1, ends);
    nodes.restart(1);
    nodes.run_ms(50_000);
    assert!(nodes.all_links_up());
    nodes.run_ms(1_000_000);
    for i in [0, 2] {
        let node = nodes.snapshot(i);
        assert_eq!(node.links[0].state, "no-session", "{:#?}", node.links);
        assert!(node.routes.is_empty());
    }
    let at_last = Time::ZERO + Duration::from_secs(500);
    let downs = nodes.count().downs.iter().filter(|(at, ..)| *at > at_last);
    assert_eq!(downs.count(), 4, "each end of both links tells");
    let expired = Refusal::Certificate(CertificateError::Expired);
    assert!(nodes.count().refusals(expired) > 0);
    // A new certificate for the same keys brings it back.
    let renewed = renew(&mut nodes, 1);
    nodes.operate(1, Operation::Renew(Box::new(renewed)));
    nodes.run_ms(15_000);
    assert!(nodes.all_links_up(), "{:#?}", nodes.snapshot(1).links);
    assert_eq!(nodes.snapshot(0).routes.len(), 2 * 4);
}

/// A host without a battery for its clock starts in the past, and so do its neighbours.
#[test]
fn nodes_follow_a_clock_that_is_set() {
    let mut nodes = Nodes::new(20, 2, &chain(2), "delay=10ms");
    let day = 86_400;
    let tomorrow = Validity {
        not_before_s: UNIX_S + day,
        not_after_s: UNIX_S + 2 * day,
    };
    let mut rng = Rng::new(78);
    let later = identity(&mut nodes.authority, &mut rng, 1, tomorrow);
    nodes.set_identity(1, later);
    nodes.restart(1);
    nodes.run_ms(20_000);
    let early = Refusal::Certificate(CertificateError::NotYetValid);
    assert!(nodes.count().refusals(early) > 0);
    assert_ne!(nodes.snapshot(0).links[0].state, "up");
    let set = |nodes: &mut Nodes, unix_s: u64| {
        for i in 0..2 {
            nodes.operate(i, Operation::Clock { unix_s });
        }
        nodes.run_ms(20_000);
    };
    set(&mut nodes, UNIX_S + day + 20);
    assert!(nodes.all_links_up(), "{:#?}", nodes.snapshot(0).links);
    assert!(!nodes.snapshot(1).certificate_expires_soon);
    // Back again. What a node says stays newer than what it has said.
    set(&mut nodes, UNIX_S);
    nodes.link(0, 1, "delay=30ms");
    nodes.run_ms(20_000);
    let told = nodes.running(0).unwrap().database();
    let told = told.links_of(addr(1)).unwrap()[0].latency.micros();
    assert!((25_000..35_000).contains(&told), "{told}");
    set(&mut nodes, UNIX_S + 2 * day - 100);
    assert!(nodes.snapshot(1).certificate_expires_soon);
}

#[test]
fn neighbours_are_bounded() {
    let mut nodes = Nodes::planned(9, Plan::of(1));
    let mut rng = Rng::new(9);
    let at = nodes.at(0);
    for i in 1..=MAX_LINKS + 5 {
        let identity = identity(&mut nodes.authority, &mut rng, i, VALID);
        let rogue = Neighbour::new(identity, nodes.authority.network(), [i as u8; 32]);
        let host = nodes
            .world
            .add_host(crate::world::party::Party::rogue(rogue));
        nodes.world.link(host, nodes.hosts[0], &model("delay=1ms"));
        nodes
            .world
            .request(host, crate::world::OPERATOR, Ask::Dial(at));
        nodes.run_ms(60);
    }
    nodes.run_ms(1_000);
    let up = nodes
        .snapshot(0)
        .links
        .iter()
        .filter(|l| l.state == "up")
        .count();
    assert_eq!((nodes.snapshot(0).links.len(), up), (MAX_LINKS, MAX_LINKS));
    let events = nodes.events();
    let full = |event: &Event| {
        matches!(
            event,
            Event::Refused {
                why: Refusal::Full,
                ..
            }
        )
    };
    assert!(events.iter().filter(|(.., event)| full(event)).count() >= 5);
}

#[test]
fn a_list_of_accepted_neighbours_keeps_others_out() {
    let mut nodes = Nodes::planned(10, Plan::of(1));
    let network = nodes.authority.network();
    let accept = |list: &[usize]| Some(list.iter().map(|i| addr(*i)).collect::<Vec<NodeAddr>>());
    let mut config = nodes.config(0, network);
    config.accept = accept(&[2, 3]);
    let party = crate::world::party::Party::node(overlay::Node::new(config));
    nodes.world.restart(nodes.hosts[0], party);
    for i in 1..=3 {
        let rogue = crate::world::script::neighbour(&mut nodes, i);
        let host = nodes.add_rogue(0, rogue, "delay=1ms");
        let at = nodes.at(0);
        nodes
            .world
            .request(host, crate::world::OPERATOR, Ask::Dial(at));
    }
    nodes.run_ms(2_000);
    let peers: Vec<String> = nodes
        .snapshot(0)
        .links
        .into_iter()
        .map(|l| l.peer)
        .collect();
    assert_eq!(peers, [addr(2).to_string(), addr(3).to_string()]);
}

/// Returns after how many seconds a node reported, each time, that neighbours do not answer.
fn unanswered(nodes: &mut Nodes) -> Vec<u64> {
    let events = nodes.events().into_iter();
    let silences = events.filter_map(|(.., event)| match event {
        Event::Unanswered { silence, .. } => Some(silence.as_millis() / 1_000),
        _ => None,
    });
    silences.collect()
}

#[test]
fn a_neighbour_that_does_not_answer_is_told_of_after_ten_seconds_and_then_rarely() {
    let mut nodes = Nodes::new(21, 2, &chain(2), "delay=5ms");
    nodes.crash(1);
    nodes.run_ms(9_000);
    let status = nodes.link_status(0, 1);
    assert!(status.reason.unwrap().starts_with("dialling"));
    assert_eq!(unanswered(&mut nodes), [] as [u64; 0]);
    nodes.run_ms(3_000);
    let status = nodes.link_status(0, 1);
    let reason = status.reason.unwrap();
    assert!(reason.starts_with("no answer from") && reason.contains("is UDP open there?"));
    assert_eq!((status.state, status.heard_s), ("no-session", None));
    nodes.run_ms(600_000);
    let told = unanswered(&mut nodes);
    assert!(told.len() == 3 && told[0] == 10, "{told:?}");
    nodes.restart(1);
    nodes.run_ms(10_000);
    let status = nodes.link_status(0, 1);
    assert_eq!((status.state, status.reason), ("up", None));
    // The same holds for a new neighbour and for one that was lost.
    nodes.crash(1);
    nodes.run_ms(5_000);
    assert_eq!(nodes.link_status(0, 1).reason.as_deref(), Some("silence"));
    nodes.run_ms(10_000);
    assert_eq!(unanswered(&mut nodes).len(), 1);
}

#[test]
fn a_neighbour_of_another_network_is_named_at_both_ends() {
    let plan = Plan {
        edges: chain(2),
        mutual: true,
        ..Plan::of(2)
    };
    let mut nodes = Nodes::planned(22, plan);
    nodes.link(0, 1, "delay=5ms");
    let mut rng = Rng::new(99);
    let mut other = authority(&mut rng);
    let mut config = nodes.config(1, other.network());
    config.identity = identity(&mut other, &mut rng, 1, VALID);
    let party = crate::world::party::Party::node(overlay::Node::new(config));
    nodes.world.restart(nodes.hosts[1], party);
    nodes.run_ms(12_000);
    for (node, peer) in [(0, 1), (1, 0)] {
        let reason = nodes.link_status(node, peer).reason.unwrap();
        assert!(reason.contains("of another network"), "{reason}");
    }
}

#[test]
fn a_neighbour_that_does_not_accept_this_node_is_named() {
    let mut nodes = Nodes::planned(
        23,
        Plan {
            edges: chain(2),
            ..Plan::of(2)
        },
    );
    nodes.link(0, 1, "delay=5ms");
    let network = nodes.authority.network();
    let mut config = nodes.config(1, network);
    config.neighbors.clear();
    config.accept = Some(vec![addr(7)]);
    let party = crate::world::party::Party::node(overlay::Node::new(config));
    nodes.world.restart(nodes.hosts[1], party);
    nodes.run_ms(12_000);
    let reason = nodes.link_status(0, 1).reason.unwrap();
    assert!(reason.contains("`accept`"), "{reason}");
}

/// A ring of four honest nodes, and two leaves: node 4 is an issuer, and has certified node 5.
fn with_issuer(seed: u64) -> (Nodes, secure::Delegation) {
    let edges = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 4), (2, 5), (4, 5)];
    let mut nodes = Nodes::new(seed, 6, &edges, "delay=10ms");
    nodes.run_ms(2_000);
    let mandate = Mandate {
        addresses: (addr(5), addr(5)),
        certificates: 10,
        validity: VALID,
        lifetime_s: 86_400,
        names: "",
        domains: &[],
        groups: Some(&[]),
        tags: &[],
    };
    let (of_issuer, of_member) = (nodes.certificate(4), nodes.certificate(5));
    let delegation = nodes.authority.delegate(&of_issuer, &mandate).unwrap();
    let issuer = Issuer::new(nodes.identity(4).clone(), delegation.clone()).unwrap();
    let subject = of_member.fields().subject;
    let newcomer = Newcomer {
        address: subject.address,
        name: subject.name,
        static_key: subject.static_key,
        signing_key: subject.signing_key,
        domains: &[],
        groups: &[],
        tags: &[],
    };
    let serial = delegation.fields().serials.0;
    let given = issuer.issue(&newcomer, serial, issuer.validity(UNIX_S));
    let identity = Identity::new(nodes.identity(5).keys().clone(), given.unwrap()).unwrap();
    nodes.operate(5, Operation::Renew(Box::new(identity)));
    nodes.run_ms(3_000);
    // The root certified it so that the world can begin; from now on only the issuer's signature counts.
    let list = nodes.authority.revoke(&of_member, UNIX_S).unwrap();
    nodes.operate(0, Operation::Revoke(list.as_bytes().to_vec()));
    nodes.run_ms(2_000);
    assert!(nodes.all_links_up());
    (nodes, delegation)
}

/// Gives node 1 a list while 20 calls go from 0 to 2. No honest node may lose a packet, and after 2 s the honest nodes
/// have no route to the nodes that are `out`.
fn expelled(mut nodes: Nodes, list: &secure::Revocations, out: &[usize]) {
    let mut calls = Streams::calls(&mut nodes, 20, 0, 2, voice());
    calls.run(&mut nodes, Duration::from_secs(2));
    nodes.operate(1, Operation::Revoke(list.as_bytes().to_vec()));
    calls.run(&mut nodes, Duration::from_secs(2));
    for i in 0..4 {
        let routes = nodes.snapshot(i).routes;
        let leads_out = |to: &String| out.iter().any(|at| *to == addr(*at).to_string());
        assert!(!routes.iter().any(|route| leads_out(&route.to)), "node {i}");
    }
    for (honest, other) in [(0, 4), (2, 5)] {
        if out.contains(&other) {
            assert_eq!(nodes.link_status(honest, other).state, "no-session");
        }
    }
    calls.run(&mut nodes, Duration::from_secs(8));
    calls.finish(&mut nodes);
    assert_eq!(calls.missed(Duration::MAX), 0);
}

#[test]
fn a_member_is_out_within_two_seconds_and_twenty_calls_lose_nothing() {
    let (mut nodes, _) = with_issuer(41);
    let given = nodes.running(0).unwrap().database().certificate(addr(5));
    let given = secure::Certificate::from_bytes(given.unwrap()).unwrap();
    let list = nodes.authority.revoke(&given, UNIX_S).unwrap();
    expelled(nodes, &list, &[5]);
}

#[test]
fn an_issuer_and_all_that_it_certified_are_out_within_two_seconds_and_twenty_calls_lose_nothing() {
    let (mut nodes, delegation) = with_issuer(42);
    let of_issuer = nodes.certificate(4);
    nodes.authority.revoke(&of_issuer, UNIX_S).unwrap();
    let list = nodes.authority.revoke_delegation(&delegation, UNIX_S);
    expelled(nodes, &list.unwrap(), &[4, 5]);
}
