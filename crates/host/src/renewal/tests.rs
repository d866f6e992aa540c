use super::*;
use crate::relay::failure::FailureKind;
use crate::testing::{AMS, TestNode, identity, validity};
use secure::{Authority, Issuer, Mandate, Newcomer};
use wire::certificate::KEY_BYTES;

/// Creates a renewer for the certificate of `node`, without an issuer.
fn renewer(node: &TestNode) -> Renewer {
    let source = Source {
        issuers: Vec::new(),
        file: node.dir.join("node.cert"),
    };
    let lines = Lines::new("ams", Clock::new(), true).1;
    Renewer::new(source, node.identity.clone(), node.commander.clone(), lines)
}

#[test]
fn a_thousand_nodes_ask_for_certificates_of_a_new_root_one_after_the_other() {
    for (left_s, spread_s) in [(30 * 86_400, 3_600), (3_600, 360), (0, 10)] {
        let mut turns = vec![0; spread_s];
        for i in 0..1_000 {
            turns[turn_s(NodeAddr(0x0a07_0001 + i), left_s) as usize] += 1;
        }
        let most = 2 * 1_000_usize.div_ceil(spread_s);
        assert!(
            turns.iter().all(|count| *count <= most),
            "{left_s} {turns:?}"
        );
    }
}

#[test]
fn those_who_wait_for_their_issuer_ask_less_and_less_and_not_together() {
    for failures in 0..40 {
        let mut pauses = vec![0; 61];
        for i in 0..1_000 {
            pauses[crowd_pause_s(NodeAddr(0x0a07_0001 + i), failures) as usize] += 1;
        }
        assert!(pauses[..10].iter().all(|count| *count == 0), "{failures}");
        if failures >= 3 {
            assert!(pauses[..30].iter().all(|count| *count == 0), "{failures}");
            assert!(pauses[30..].iter().all(|count| *count < 100), "{failures}");
        }
    }
    let mut node = TestNode::start("renewal-pause");
    let mut renewer = renewer(&node);
    let now_s = Clock::new().unix_s();
    // The certificate's lifetime of a day has more hundredths than the time that an old root has left.
    assert_eq!(renewer.pause_s(now_s), 864);
    // Near the end the pause is shorter, and after it as before, so that the time window of an issuer with shorter
    // lifetimes is not missed.
    let ends_s = node.identity.certificate().fields().not_after_s;
    for (left_s, pause_s) in [(8_640, 864), (600, 60), (9, 1), (0, 864)] {
        assert_eq!(renewer.pause_s(ends_s - left_s), pause_s, "{left_s}");
    }
    node.authority.rotate(&[9; 32], now_s, now_s).unwrap();
    renewer.outdated = renewer.outdated(&node.authority.network(), now_s);
    renewer.failures = 7;
    assert!((30..=60).contains(&renewer.pause_s(now_s + 1_000)));
}

fn place(n: u8) -> Place {
    Place {
        endpoints: vec![format!("issuer-{n}:7700")],
        key: [n; KEY_BYTES],
    }
}

fn away() -> AskError {
    AskError::Unreachable {
        endpoint: "ams:7700".into(),
        error: io::ErrorKind::TimedOut.into(),
    }
}

fn given(certificate: &Certificate) -> Given {
    Given {
        certificate: certificate.clone(),
        revocations: None,
        neighbors: Vec::new(),
        others: Vec::new(),
        chain: Vec::new(),
    }
}

/// Returns the next certificate after this one, valid until `not_after_s`.
fn longer(authority: &mut Authority, present: &Certificate, not_after_s: u64) -> Certificate {
    let validity = secure::Validity {
        not_after_s,
        ..validity()
    };
    authority.renew(present, validity).unwrap()
}

/// Returns which issuers are asked at this second, if each of them fails in this way.
fn asked(renewer: &mut Renewer, now_s: u64, fail: impl Fn(u8) -> AskError) -> Vec<u8> {
    let present = renewer.identity.certificate().clone();
    let mut asked = Vec::new();
    let found = renewer.find(now_s, &present, |place| {
        asked.push(place.key[0]);
        Err(fail(place.key[0]))
    });
    assert!(found.is_err());
    asked
}

#[test]
fn others_are_asked_when_the_own_issuer_has_been_away_for_two_thirds_of_the_time_and_not_when_it_refuses()
 {
    let mut node = TestNode::start("renewal-others");
    let mut renewer = renewer(&node);
    assert!(asked(&mut renewer, u64::MAX, |_| away()).is_empty());
    renewer.source.issuers = vec![place(1), place(2), place(3)];
    let fields = node.identity.certificate().fields();
    let (lifetime_s, ends_s) = (fields.not_after_s - fields.not_before_s, fields.not_after_s);
    let from_s = ends_s - lifetime_s / 9;
    assert_eq!(renewer.others_from_s(from_s), from_s);
    assert_eq!(
        asked(&mut renewer, ends_s - lifetime_s / 3, |_| away()),
        [1]
    );
    assert_eq!(asked(&mut renewer, from_s - 1, |_| away()), [1]);
    assert_eq!(asked(&mut renewer, from_s, |_| away()), [1, 2, 3]);
    let refused = |_| AskError::Refused {
        kind: FailureKind::Forbidden,
        text: "this key was revoked".into(),
    };
    assert_eq!(asked(&mut renewer, ends_s, refused), [1]);
    // An issuer that is only unable to renew counts as unreachable.
    let kinds = FailureKind::ALL.into_iter();
    for kind in kinds.filter(|kind| *kind != FailureKind::Forbidden) {
        let unable = |_| AskError::Refused {
            kind,
            text: "its delegation has ended".into(),
        };
        assert_eq!(asked(&mut renewer, from_s - 1, unable), [1]);
        assert_eq!(asked(&mut renewer, from_s, unable), [1, 2, 3], "{kind:?}");
    }
    // The issuers that the node was told about come after the configured ones, and each only once.
    told::write(&renewer.source.file, &[place(3), place(4)]).unwrap();
    assert_eq!(asked(&mut renewer, ends_s, |_| away()), [1, 2, 3, 4]);
    std::fs::remove_file(node.dir.join("issuers.json")).unwrap();
    // One of the other issuers may lack the delegation that the next one has.
    let by_two = |n| if n == 1 { away() } else { refused(n) };
    assert_eq!(asked(&mut renewer, ends_s, by_two), [1, 2, 3]);
    // After the first issuer that gives a certificate, none is asked.
    let certificate = node.identity.certificate().clone();
    let later = longer(&mut node.authority, &certificate, ends_s + 60);
    let found = renewer.find(ends_s, &certificate, |place| match place.key[0] {
        2 => Ok(given(&later)),
        3 => panic!("asked in vain"),
        _ => Err(away()),
    });
    assert!(found.unwrap().1);
}

#[test]
fn under_an_old_root_others_are_asked_before_its_time_is_over() {
    let mut node = TestNode::start("renewal-others-root");
    let mut renewer = renewer(&node);
    let ends_s = node.identity.certificate().fields().not_after_s;
    let now_s = ends_s - 80_000;
    let until_s = now_s + 3_600;
    node.authority.rotate(&[9; 32], until_s, now_s).unwrap();
    let network = node.authority.network();
    renewer
        .operate(Operation::Succeed(network.chain_bytes()))
        .unwrap();
    let due_s = renewer.due_s(now_s);
    assert!((now_s..now_s + 360).contains(&due_s), "{due_s}");
    let from_s = renewer.others_from_s(now_s);
    assert_eq!(from_s, until_s - (until_s - due_s) / 3);
}

/// Returns the next certificate of `node`, valid until its present one ends, by an issuer that has the key of the
/// present one.
fn by_issuer(node: &mut TestNode) -> Certificate {
    let own = node.identity.certificate().clone();
    let signer = own.fields().subject.signing_key;
    let mandate = Mandate {
        addresses: (NodeAddr(0x0a07_0080), NodeAddr(0x0a07_0083)),
        certificates: 1,
        validity: validity(),
        lifetime_s: 60,
        names: "",
        domains: &[],
        groups: None,
        tags: &[],
    };
    let delegation = node.authority.delegate(&own, &mandate).unwrap();
    let serial = delegation.fields().serials.0;
    let issuer = Issuer::new(node.identity.clone(), delegation).unwrap();
    let newcomer = Newcomer {
        address: mandate.addresses.0,
        name: "home",
        static_key: [7; KEY_BYTES],
        signing_key: signer,
        domains: &[],
        groups: &[],
        tags: &[],
    };
    let validity = issuer.validity(validity().not_before_s);
    issuer.issue(&newcomer, serial, validity).unwrap()
}

#[test]
fn whoever_has_signed_the_present_certificate_is_asked_first() {
    let mut node = TestNode::start("renewal-order");
    let mut source = renewer(&node).source;
    source.issuers = vec![place(1), place(2)];
    let own = node.identity.certificate().clone();
    let by_root = source.in_order(&own);
    assert_eq!(by_root, source.issuers);
    let signer = own.fields().subject.signing_key;
    let renewed = by_issuer(&mut node);
    source.issuers[1].key = signer;
    let order: Vec<_> = source.in_order(&renewed).iter().map(|it| it.key).collect();
    assert_eq!(order, [signer, [1; KEY_BYTES]]);
}

#[test]
fn the_own_issuer_is_asked_when_another_one_that_has_signed_refuses() {
    let mut node = TestNode::start("renewal-order-refused");
    let mut renewer = renewer(&node);
    let ends_s = node.identity.certificate().fields().not_after_s;
    let present = by_issuer(&mut node);
    let signer = present.fields().options.delegation();
    let signer = Delegation::parse(signer.unwrap()).unwrap().issuer;
    renewer.source.issuers = vec![place(1), place(2), place(3)];
    renewer.source.issuers[1].key = signer;
    let forbidden = || AskError::Refused {
        kind: FailureKind::Forbidden,
        text: "has ended".into(),
    };
    for fail in [forbidden, away] {
        let mut asked = Vec::new();
        let later = longer(
            &mut node.authority,
            node.identity.certificate(),
            ends_s + 60,
        );
        let found = renewer.find(ends_s, &present, |place| {
            asked.push(place.key);
            match place.key == [1; KEY_BYTES] {
                true => Ok(given(&later)),
                false => Err(fail()),
            }
        });
        // The own issuer has given it, and no issuer is reported as unreachable.
        assert!(!found.unwrap().1);
        assert_eq!(asked, [signer, [1; KEY_BYTES]]);
    }
    // The same holds if the signer of the present certificate gives the next one.
    let later = longer(
        &mut node.authority,
        node.identity.certificate(),
        ends_s + 60,
    );
    let found = renewer.find(ends_s, &present, |_| Ok(given(&later)));
    assert!(!found.unwrap().1);
}

#[test]
fn others_are_asked_when_the_own_issuer_gives_nothing_that_ends_later() {
    let mut node = TestNode::start("renewal-others-cut");
    let mut renewer = renewer(&node);
    renewer.source.issuers = vec![place(1), place(2)];
    let present = node.identity.certificate().clone();
    let fields = present.fields();
    let (lifetime_s, ends_s) = (fields.not_after_s - fields.not_before_s, fields.not_after_s);
    let from_s = ends_s - lifetime_s / 9;
    let cut = longer(&mut node.authority, &present, ends_s);
    let later = longer(&mut node.authority, &present, ends_s + 1);
    let mut find = |now_s, by_own: &Certificate, by_other: &Certificate| {
        let found = renewer.find(now_s, &present, |place| {
            Ok(given(if place.key[0] == 1 { by_own } else { by_other }))
        });
        found.map(|(given, is_by_other)| (given.certificate, is_by_other))
    };
    assert_eq!(find(from_s, &cut, &later), Ok((later.clone(), true)));
    assert_eq!(find(from_s, &present, &later), Ok((later.clone(), true)));
    assert_eq!(find(from_s, &later, &later), Ok((later.clone(), false)));
    // Before that time a different certificate is accepted, because it may have other rights; the same one is not.
    assert_eq!(find(from_s - 1, &cut, &later), Ok((cut.clone(), false)));
    for (now_s, by_own) in [(from_s - 1, &present), (from_s, &cut)] {
        let why = find(now_s, by_own, &cut).unwrap_err();
        assert!(why.contains("ends later than the present one"), "{why}");
    }
}

#[test]
fn what_an_operator_puts_into_the_file_is_taken_by_the_engine_or_by_nobody() {
    let mut node = TestNode::start("renewal-file");
    let mut renewer = renewer(&node);
    let in_force = |node: &TestNode| node.commander.status().unwrap().snapshot.certificate_serial;
    let file = renewer.source.file.clone();
    let put = |certificate: &Certificate| {
        std::fs::write(&file, certificate.to_text()).unwrap();
    };
    let own = node.identity.certificate().clone();
    let renewed = node.authority.renew(&own, validity()).unwrap();
    put(&renewed);
    renewer.look_at_file();
    let serial = renewed.fields().serial;
    assert_eq!(in_force(&node), serial);
    assert_eq!(renewer.identity.certificate(), &renewed);

    // The certificate is of another network, for the same key.
    let mut other = Authority::generate(&[8; 32]);
    let mut foreign = identity(&mut other, [1; 64], AMS);
    while foreign.certificate().fields().serial <= serial {
        foreign = identity(&mut other, [1; 64], AMS);
    }
    put(foreign.certificate());
    renewer.look_at_file();
    assert_eq!(in_force(&node), serial);
    assert_eq!(renewer.identity.certificate(), &renewed);

    // The operator has given this certificate to the engine.
    let given = node.authority.renew(&renewed, validity()).unwrap();
    let keys = renewer.identity.keys().clone();
    let taken = Identity::new(keys, given.clone()).unwrap();
    renewer.operate(Operation::Renew(Box::new(taken))).unwrap();
    put(&given);
    renewer.look_at_file();
    assert_eq!(renewer.identity.certificate(), &given);
}
