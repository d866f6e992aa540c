//! Nodes whose keys also come from ML-KEM, beside nodes without it, and beside an attacker who wants the nodes to use
//! none.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::ends::{Tapped, as_it_is, end};
use crate::uplinks::{LIMIT, MS, call, calls, longest_gap, member, planned, up, used};
use crate::world::party::{Ask, Role};
use crate::world::script::neighbour;
use crate::world::siege::{INTRUDER, Siege, TARGET};
use crate::world::streams::Streams;
use crate::world::{Nodes, OPERATOR, PORT, Plan, SENDER, addr, chain, voice};
use base::Duration;
use overlay::Settings;
use overlay::event::Drop;
use overlay::request::Options;
use overlay::settings::Uplinks;
use secure::{PostQuantum, Refusal};
use wire::data::Header;
use wire::link::Kind;
use wire::transport;

const WISHES: [PostQuantum; 3] = [PostQuantum::Off, PostQuantum::Prefer, PostQuantum::Require];

/// Creates a chain of nodes with these settings for post-quantum keys.
fn of(wishes: &[PostQuantum]) -> Nodes {
    let plan = Plan {
        edges: chain(wishes.len()),
        post_quantum: wishes.iter().copied().enumerate().collect(),
        ..Plan::of(wishes.len())
    };
    let mut nodes = Nodes::planned(1, plan);
    for (a, b) in chain(wishes.len()) {
        nodes.link(a, b, "delay=10ms");
    }
    nodes
}

#[test]
fn neighbours_and_ends_have_hybrid_sessions_where_both_want_them() {
    for a in WISHES {
        for b in WISHES {
            let mut nodes = of(&[a, b]);
            nodes.run_ms(4_000);
            let is_off = [a, b].contains(&PostQuantum::Off);
            let is_refused = is_off && [a, b].contains(&PostQuantum::Require);
            for (at, with) in [(0, 1), (1, 0)] {
                let link = &nodes.snapshot(at).links[0];
                assert_eq!(link.state == "up", !is_refused, "{a:?} {b:?}");
                assert_eq!(link.post_quantum, !is_off, "{a:?} {b:?}");
                if !is_refused {
                    let end = end(&nodes, at, with);
                    assert!(end.session_age_s.is_some());
                    assert_eq!(end.post_quantum, !is_off);
                }
            }
        }
    }
}

#[test]
fn who_requires_it_has_no_link_to_who_has_it_not_and_both_know_why() {
    let (first, second) = (addr(0), addr(1));
    for (wishes, dialler_says, responder_says) in [
        (
            [PostQuantum::Require, PostQuantum::Off],
            Refusal::NotHybrid(second),
            None,
        ),
        (
            [PostQuantum::Off, PostQuantum::Require],
            Refusal::HybridAlone(second),
            Some(Refusal::NotHybrid(first)),
        ),
    ] {
        // The first node dials.
        let mut nodes = of(&wishes);
        nodes.run_ms(10_000);
        let link = nodes.snapshot(0).links.remove(0);
        let reason = link.reason.unwrap();
        assert!(
            reason.contains(&dialler_says.to_string()),
            "{reason} instead of {dialler_says}"
        );
        for at in [0, 1] {
            let links = nodes.snapshot(at).links;
            assert!(links.iter().all(|link| link.state == "no-session"));
        }
        let totals = nodes.count();
        assert!(totals.refusals(dialler_says) > 1);
        if let Some(says) = responder_says {
            assert!(totals.refusals(says) > 1);
        }
        assert_eq!(totals.drops(Drop::UnknownSession), 0);
    }
}

/// ```text
///   requires (0) ---- prefers (1) ---- off (2)
/// ```
#[test]
fn nothing_is_sent_to_an_end_that_has_it_not_and_the_others_are_reached() {
    let mut nodes = of(&[PostQuantum::Require, PostQuantum::Prefer, PostQuantum::Off]);
    nodes.run_ms(4_000);
    assert!(nodes.snapshot(0).links[0].post_quantum);
    assert!(!nodes.snapshot(2).links[0].post_quantum);
    for to in [1, 2] {
        nodes.bind(to, voice());
    }
    nodes.set_sender(0, SENDER, voice());
    nodes.run_ms(1);
    nodes.world.take_replies();
    nodes.count();
    for n in 0..100 {
        let at = nodes.world.now() + Duration::from_millis(10) * n;
        nodes.send_to(at, 0, SENDER, (1, PORT), n, 160);
        nodes.send_to(at, 0, SENDER, (2, PORT), 100 + n, 160);
    }
    nodes.run_ms(3_000);
    let mut came: Vec<u64> = nodes.arrivals().into_iter().map(|(n, _)| n).collect();
    came.sort_unstable();
    assert_eq!(came, (0..100).collect::<Vec<_>>());
    assert_eq!(nodes.count().drops(Drop::EndClassic), 100);
    let refused = end(&nodes, 0, 2);
    assert_eq!((refused.sealed, refused.session_age_s), (0, None));
    assert!(refused.reason.unwrap().contains("10.7.0.3"));
    assert!(end(&nodes, 0, 1).reason.is_none());
    let node = nodes.party(0).as_node().unwrap();
    let network = node.network_snapshot(nodes.world.now());
    let why_not = network.nodes.into_iter().filter_map(|node| node.refused);
    assert_eq!(why_not.count(), 1, "`sinew why` says so");
    // The node between them has sessions with both.
    assert!(end(&nodes, 1, 0).post_quantum && !end(&nodes, 1, 2).post_quantum);
}

/// A node without post-quantum keys sends nothing to a node that requires them. That node could never open such
/// packets.
#[test]
fn an_end_without_it_knows_why_nothing_goes_to_one_that_requires_it() {
    let mut nodes = of(&[PostQuantum::Off, PostQuantum::Prefer, PostQuantum::Require]);
    nodes.run_ms(4_000);
    nodes.bind(2, voice());
    nodes.set_sender(0, SENDER, voice());
    nodes.run_ms(1);
    nodes.count();
    for n in 0..100 {
        let at = nodes.world.now() + Duration::from_millis(10) * n;
        nodes.send_to(at, 0, SENDER, (2, PORT), n, 160);
    }
    nodes.run_ms(3_000);
    assert!(nodes.arrivals().is_empty());
    let totals = nodes.count();
    assert_eq!(totals.drops(Drop::EndClassic), 100);
    assert_eq!(totals.drops(Drop::EndNoSession), 0);
    for (at, with, word) in [(0, 2, "prefer"), (2, 0, "upgrade")] {
        let end = end(&nodes, at, with);
        assert_eq!((end.sealed, end.session_age_s), (0, None));
        let reason = end.reason.unwrap();
        let name = addr(with).to_string();
        assert!(reason.contains(&name) && reason.contains(word), "{reason}");
    }
}

/// A sender does not begin a new handshake with such an end for each packet.
#[test]
fn an_end_that_has_it_not_is_asked_seldom() {
    let mut nodes = of(&[PostQuantum::Require, PostQuantum::Prefer, PostQuantum::Off]);
    nodes.run_ms(4_000);
    nodes.set_sender(0, SENDER, voice());
    nodes.count();
    for n in 0..2_000 {
        let at = nodes.world.now() + Duration::from_millis(10) * n;
        nodes.send_to(at, 0, SENDER, (2, PORT), n, 160);
    }
    nodes.run_ms(20_000);
    let totals = nodes.count();
    assert_eq!(totals.drops(Drop::EndClassic), 2_000);
    assert!(totals.drops(Drop::EndHandshake) <= 2, "one in 30 s");
}

/// By the end, links and ends have changed their keys twice, and no packet was lost because of this.
#[test]
fn calls_run_through_changes_of_keys() {
    let mut nodes = of(&[PostQuantum::Require; 3]);
    nodes.run_ms(2_000);
    nodes.introduce(&[(0, 2)]);
    let options = Options {
        deadline: None,
        ..voice()
    };
    let mut calls = Streams::calls(&mut nodes, 1, 0, 2, options);
    calls.run(&mut nodes, Duration::from_secs(1_300));
    calls.finish(&mut nodes);
    assert_eq!(calls.missed(Duration::MAX), 0, "of {}", calls.sent());
    for (at, with) in [(0, 2), (2, 0)] {
        let end = end(&nodes, at, with);
        assert!(end.post_quantum && end.session_age_s.unwrap() < 200.0);
        let link = &nodes.snapshot(at).links[0];
        assert!(link.post_quantum && link.state == "up");
    }
    let totals = nodes.count();
    for reason in [Drop::EndForged, Drop::EndNoSession, Drop::UnknownSession] {
        assert_eq!(totals.drops(reason), 0, "{reason:?}");
    }
}

fn preferring() -> Settings {
    Settings {
        post_quantum: PostQuantum::Prefer,
        ..Settings::modern()
    }
}

/// Returns the kind of the message between two ends in this packet.
fn said_between_ends(packet: &[u8]) -> Option<Kind> {
    let header = Header::parse(packet).unwrap();
    match transport::Kind::of(header.payload()) {
        Ok(transport::Kind::End(kind)) => Some(kind),
        _ => None,
    }
}

/// A relay can prevent two ends from having a session. But it does not make them send anything under weaker keys.
#[test]
fn a_relay_that_swallows_or_changes_handshakes_gets_nothing_under_weaker_keys() {
    let settings = Settings {
        prepared_ends: 0,
        ..preferring()
    };
    let plan = Plan {
        settings,
        ..Plan::of(2)
    };
    let mut tapped = Tapped::new(plan);
    for kind in [Kind::HandshakeInit, Kind::KemKey, Kind::KemCiphertext] {
        let (mut meddled, mut sealed) = (0, 0);
        let mut meddles = |packet: &[u8]| {
            let said = said_between_ends(packet);
            // A responder that has its session confirms it in a packet under that session, which is hybrid.
            sealed += u32::from(said == Some(Kind::Data));
            if said != Some(kind) {
                return as_it_is(packet);
            }
            meddled += 1;
            let mut changed = packet.to_vec();
            // The highest version that the sender speaks.
            let payload = Header::parse(packet).unwrap().payload().len();
            let highest = &mut changed[packet.len() - payload..][5];
            *highest = 1;
            match kind {
                Kind::HandshakeInit => vec![changed],
                _ => Vec::new(),
            }
        };
        let came = tapped.talk(50, &mut meddles);
        assert_eq!(came, [], "{kind:?} {:?}", end(&tapped.nodes, 0, 1));
        tapped.run(4_000, &mut meddles);
        assert!(meddled > 2, "{kind:?}");
        assert_eq!(sealed, 0, "{kind:?}");
        assert_eq!(end(&tapped.nodes, 0, 1).session_age_s, None);
    }
    let came = tapped.talk(50, &mut as_it_is);
    assert_eq!(came.len(), 50);
    for (at, with) in [(0, 1), (1, 0)] {
        assert!(end(&tapped.nodes, at, with).post_quantum);
    }
}

/// The member makes a hundred handshakes per second, and each of them offers a key. The limit of handshakes also limits
/// how many keys are answered.
#[test]
fn a_member_that_offers_keys_without_end_has_no_more_answered_than_handshakes_are() {
    let mut siege = Siege::planned(5, preferring(), |nodes| {
        let mut member = neighbour(nodes, INTRUDER);
        member.handshakes.set_post_quantum(PostQuantum::Prefer);
        member
    });
    let target = siege.target();
    siege.waves(3_000, |_, _| vec![Ask::Dial(target)]);
    assert!(siege.rogue().has_session(target));
    let member = siege.nodes.world.addr(siege.attacker);
    let answers = siege.nodes.party(TARGET).sent(member, Kind::KemCiphertext);
    // An answer has three pieces. The limits of `secure` are 64 at once and 20 per second without a cookie, and 64 and
    // 50 with a cookie.
    let handshakes = answers.datagrams / 3;
    assert!(handshakes > 500, "they are answered: {handshakes}");
    assert!(handshakes <= 128 + 70 * 30, "{handshakes}");
    let asked = siege.nodes.world.engine(siege.attacker).unwrap();
    let asked = asked.sent(target, Kind::KemKey);
    assert!(answers.bytes < asked.bytes, "{answers:?} to {asked:?}");
    let mut nodes = siege.end();
    assert_eq!(nodes.count().drops(Drop::EndForged), 0);
}

/// Creates two nodes with two uplinks each.
fn two_uplinks(uplinks: Uplinks, is_mutual: bool) -> Nodes {
    let settings = Settings {
        uplinks,
        ..preferring()
    };
    let paths = ["delay=10ms", "delay=15ms"];
    planned(1, settings, paths, |plan| plan.mutual = is_mutual)
}

/// Counts the handshakes on a path: the messages that finished them, and the pieces of keys that were offered.
fn handshakes(nodes: &Nodes, path: u8) -> (u64, u64) {
    let said = |kind| {
        let ends = [(0, 1), (1, 0)].into_iter();
        let said = ends.map(|(from, to)| {
            let at = nodes.called((to, path), path);
            nodes.party(from).sent(at, kind).datagrams
        });
        said.sum::<u64>()
    };
    (said(Kind::HandshakeFinish), said(Kind::KemKey))
}

/// Asserts that both ends use this path, with a hybrid session on it.
fn assert_used(nodes: &Nodes, path: u8) {
    for at in [0, 1] {
        assert_eq!(used(nodes, at).number, path);
        assert!(nodes.link_status(at, 1 - at).post_quantum);
    }
}

#[test]
fn both_paths_of_a_link_are_hybrid_and_calls_go_on_when_one_dies() {
    let mut nodes = two_uplinks(Uplinks::One, false);
    assert_eq!((up(&nodes, 0), up(&nodes, 1)), (2, 2));
    for path in [0, 1] {
        let (finishes, keys) = handshakes(&nodes, path);
        assert_eq!((finishes, keys), (1, 3), "path {path}");
    }
    assert_used(&nodes, 0);
    let mut streams = calls(&mut nodes);
    streams.run(&mut nodes, MS * 3_000);
    nodes.set_path_outage((0, 0), (1, 0), true);
    streams.run(&mut nodes, MS * 3_000);
    streams.finish(&mut nodes);
    let gap = longest_gap(&streams);
    assert!(gap <= MS * 250, "{gap}");
    assert_used(&nodes, 1);
    assert_eq!(nodes.count().downs, []);
    nodes.world.close().unwrap();
}

#[test]
fn both_paths_change_from_hybrid_keys_to_hybrid_keys_and_lose_nothing_by_it() {
    for is_mutual in [false, true] {
        let mut nodes = two_uplinks(Uplinks::Copies, is_mutual);
        let both = vec![call(0, 1, Duration::ZERO), call(1, 0, MS * 7)];
        let mut streams = Streams::begin(&mut nodes, both);
        streams.run(&mut nodes, MS * 1_900_000);
        streams.finish(&mut nodes);
        assert_eq!(streams.missed(LIMIT), 0);
        assert_eq!((up(&nodes, 0), up(&nodes, 1)), (2, 2));
        for path in [0, 1] {
            let (finishes, keys) = handshakes(&nodes, path);
            // The first handshake, and one in each ten minutes.
            assert!((3..=5).contains(&finishes), "path {path}: {finishes}");
            assert_eq!(keys, 3 * finishes, "path {path}");
        }
        assert_used(&nodes, 0);
        nodes.set_path_outage((0, 0), (1, 0), true);
        nodes.run_ms(3_000);
        assert_used(&nodes, 1);
        let totals = nodes.count();
        assert_eq!(totals.downs, []);
        assert_eq!(totals.drops(Drop::UnknownSession), 0);
        nodes.world.close().unwrap();
    }
}

/// A neighbour whose first session is classic, and whose session on another path is hybrid.
#[test]
fn what_a_link_says_of_its_keys_is_said_of_the_path_in_use() {
    let settings = Settings {
        uplinks: Uplinks::One,
        ..preferring()
    };
    let plan = Plan {
        settings,
        ..Plan::of(2)
    };
    let mut nodes = Nodes::planned(2, plan);
    nodes.crash(1);
    let (host, to) = member(&mut nodes);
    let mut party = nodes.world.crash(host).unwrap();
    let Role::Rogue(rogue) = &mut party.role else {
        panic!("it is one");
    };
    rogue.handshakes.set_post_quantum(PostQuantum::Prefer);
    nodes.world.restart(host, party);
    let ask = Ask::DialFurther(to[1], addr(0));
    nodes.world.request(host, OPERATOR, ask);
    nodes.run_ms(3_000);
    assert_eq!((used(&nodes, 0).number, up(&nodes, 0)), (0, 2));
    assert!(!nodes.link_status(0, 1).post_quantum);
    nodes.world.set_outage(nodes.hosts[0], host, true);
    nodes.run_ms(10_000);
    assert_eq!((used(&nodes, 0).number, up(&nodes, 0)), (1, 1));
    assert!(nodes.link_status(0, 1).post_quantum);
    nodes.world.close().unwrap();
}
