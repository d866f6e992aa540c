//! The frozen formats of signed and sealed data: the bytes of certificates and of everything that is issued, and of
//! whole handshakes with the first datagrams that they protect.
//!
//! Keys, nonces and signatures follow from fixed seeds. So the transcripts fix, besides formats and key schedules, the
//! order in which random numbers are drawn. A change of that order alone does not change a format. It is the only
//! reason to record a transcript again, after `cargo xtask upgrade` has shown that an earlier program can communicate
//! with this one.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

#[path = "../../wire/tests/frozen/fixture.rs"]
mod fixture;

use base::{NodeAddr, Time, UnderlayAddr};
use fixture::{Fixtures, open};
use secure::{
    Authority, Bound, Certificate, Context, Delegation, Grants, GroupKeys, Handshakes, Identity,
    Issuer, Keys, Mandate, Network, Newcomer, Outcome, PostQuantum, Request, Revocations, Route,
    Session, Validity,
};
use std::collections::VecDeque;
use wire::certificate::{GroupRange, Succession};
use wire::link::{CLEAR_BYTES, Kind, SEAL_BYTES};

const NOW_S: u64 = 1_790_000_000;
const YEAR: Validity = Validity {
    not_before_s: NOW_S,
    not_after_s: NOW_S + 365 * 86_400,
};

fn keys(n: u8) -> Keys {
    Keys::generate(&[n; 64])
}

fn address(n: u8) -> NodeAddr {
    NodeAddr(0x0a07_0000 | u32::from(n))
}

fn request(authority: &Authority, n: u8) -> Request {
    let (id, name) = (authority.network().id(), format!("node-{n}"));
    let request = keys(n).request(id, address(n), &name, &["example.org"]);
    request.unwrap()
}

#[test]
fn what_is_issued() {
    let mut fixtures = open!("certificate");
    let mut authority = Authority::generate(&[1; 32]);
    let old = authority.network();
    let text = |fixtures: &mut Fixtures, name: &str, network: &Network| {
        let text = network.to_text();
        fixtures.hold(name, text.as_bytes(), |frozen| {
            let read = Network::from_text(str::from_utf8(frozen).unwrap()).unwrap();
            assert_eq!(read.to_text(), network.to_text());
        });
    };
    text(&mut fixtures, "network-file", &old);
    let node_keys = keys(1).to_text();
    fixtures.hold("key-file", node_keys.as_bytes(), |frozen| {
        let read = Keys::from_text(str::from_utf8(frozen).unwrap()).unwrap();
        assert_eq!(read.static_key(), keys(1).static_key());
        assert_eq!(*read.signing_secret(), *keys(1).signing_secret());
    });

    let asked = request(&authority, 1);
    fixtures.hold("request", asked.as_bytes(), |frozen| {
        let read = Request::from_bytes(frozen).unwrap();
        assert_eq!(read.fields(), asked.fields());
        // Present authorities certify the requests of old nodes.
        assert!(Authority::generate(&[1; 32]).issue(&read, YEAR).is_ok());
    });
    let verified = |network: &Network, frozen: &[u8], n: u8| {
        let read = Certificate::from_bytes(frozen).unwrap();
        let peer = network.verify(&read, NOW_S).unwrap();
        assert_eq!(peer.address(), address(n));
        assert_eq!(read.fields().subject.name, format!("node-{n}"));
        read
    };
    let plain = authority.issue(&asked, YEAR).unwrap();
    fixtures.hold("certificate", plain.as_bytes(), |frozen| {
        verified(&old, frozen, 1);
    });
    let armoured = plain.to_text();
    fixtures.hold("certificate-file", armoured.as_bytes(), |frozen| {
        let read = Certificate::from_text(str::from_utf8(frozen).unwrap()).unwrap();
        assert_eq!(read.as_bytes(), plain.as_bytes());
    });
    let range = [GroupRange::new(NodeAddr(0xef01_0000), 16).unwrap()];
    let asked = request(&authority, 2);
    let grants = Grants {
        groups: &range,
        tags: &[],
    };
    let with_rights = authority.issue_with(&asked, &grants, YEAR).unwrap();
    fixtures.hold(
        "certificate-with-rights",
        with_rights.as_bytes(),
        |frozen| {
            let read = verified(&old, frozen, 2);
            assert_eq!(read.fields().groups(), range);
        },
    );

    let mandate = Mandate {
        addresses: (address(100), address(200)),
        certificates: 50,
        validity: YEAR,
        lifetime_s: 30 * 86_400,
        names: "-107",
        domains: &["*.example.org"],
        groups: Some(&range),
        tags: &[],
    };
    let delegation = authority.delegate(&plain, &mandate).unwrap();
    fixtures.hold("delegation", delegation.as_bytes(), |frozen| {
        let read = Delegation::from_bytes(frozen).unwrap();
        assert_eq!(read.fields(), delegation.fields());
        assert!(old.root_of_delegation(&read).is_some());
    });
    let issuer = Identity::new(keys(1), plain.clone()).unwrap();
    let issuer = Issuer::new(issuer, delegation.clone()).unwrap();
    let subject = keys(107);
    let signing = request(&authority, 107).fields().subject.signing_key;
    let newcomer = Newcomer {
        address: address(107),
        name: "node-107",
        static_key: *subject.static_key(),
        signing_key: signing,
        domains: &[],
        groups: &[],
        tags: &[],
    };
    let first = delegation.fields().serials.0;
    let issued = issuer
        .issue(&newcomer, first, issuer.validity(NOW_S))
        .unwrap();
    fixtures.hold("certificate-by-an-issuer", issued.as_bytes(), |frozen| {
        let read = verified(&old, frozen, 107);
        assert!(read.fields().options.delegation().is_some());
    });
    let list = authority.revoke(&with_rights, NOW_S).unwrap();
    fixtures.hold("revocations", list.as_bytes(), |frozen| {
        let read = Revocations::from_bytes(frozen).unwrap();
        let mut network = old.clone();
        assert_eq!(network.apply(&read), Ok(true));
        assert!(network.has_revoked(&with_rights) && !network.has_revoked(&plain));
    });

    let succession = authority
        .rotate(&[2; 32], NOW_S + 30 * 86_400, NOW_S)
        .unwrap();
    fixtures.hold("succession", &succession.to_bytes(), |frozen| {
        let read = Succession::parse(frozen).unwrap();
        assert_eq!(read, succession);
        assert_eq!(old.clone().succeed(&read), Ok(true));
    });
    let new = authority.network();
    text(&mut fixtures, "network-file-after-a-succession", &new);
    let later = authority.issue(&request(&authority, 3), YEAR).unwrap();
    fixtures.hold("certificate-by-a-later-root", later.as_bytes(), |frozen| {
        verified(&new, frozen, 3);
        let mut network = old.clone();
        assert!(network.learn(&Certificate::from_bytes(frozen).unwrap()));
        verified(&network, frozen, 3);
    });
    what_has_tags(&mut fixtures);
    fixtures.end();
}

/// Uses an authority of its own, so that the serials of the others do not change.
fn what_has_tags(fixtures: &mut Fixtures) {
    let mut authority = Authority::generate(&[1; 32]);
    let grants = Grants {
        groups: &[],
        tags: &["site-ams", "backup"],
    };
    let asked = request(&authority, 1);
    let tagged = authority.issue_with(&asked, &grants, YEAR).unwrap();
    let network = authority.network();
    fixtures.hold("certificate-with-tags", tagged.as_bytes(), |frozen| {
        let read = Certificate::from_bytes(frozen).unwrap();
        assert!(network.verify(&read, NOW_S).is_ok());
        let tags = read.fields().options.tags();
        assert_eq!(tags.iter().collect::<Vec<_>>(), ["backup", "site-ams"]);
    });
    let mandate = Mandate {
        addresses: (address(100), address(200)),
        certificates: 50,
        validity: YEAR,
        lifetime_s: 30 * 86_400,
        names: "",
        domains: &[],
        groups: Some(&[]),
        tags: &["backup", "*-lab"],
    };
    let delegation = authority.delegate(&tagged, &mandate).unwrap();
    fixtures.hold("delegation-with-tags", delegation.as_bytes(), |frozen| {
        let read = Delegation::from_bytes(frozen).unwrap();
        assert!(network.root_of_delegation(&read).is_some());
        assert!(read.fields().permits_tag("x-lab") && !read.fields().permits_tag("prod"));
    });
}

#[test]
fn what_nodes_sign() {
    let mut fixtures = open!("signature");
    let mut authority = Authority::generate(&[1; 32]);
    let asked = request(&authority, 1);
    let certificate = authority.issue(&asked, YEAR).unwrap();
    let identity = Identity::new(keys(1), certificate).unwrap();
    let contexts = [
        ("certificate", Context::Certificate),
        ("delegation", Context::Delegation),
        ("groups", Context::Groups),
        ("link-state", Context::LinkState),
        ("request", Context::Request),
        ("revocations", Context::Revocations),
        ("succession", Context::Succession),
        ("transfer", Context::Transfer),
        ("transfer-end", Context::TransferEnd),
    ];
    for (name, context) in contexts {
        let signature = identity.sign(context, b"what is signed");
        fixtures.hold(name, &signature, |frozen| {
            let key = identity.certificate().fields().subject.signing_key;
            let frozen = frozen.try_into().unwrap();
            assert!(secure::signature::verify(
                &key,
                context,
                b"what is signed",
                frozen
            ));
        });
    }
    fixtures.end();
}

/// Returns the address of node `n`.
fn at(n: u8) -> UnderlayAddr {
    let mut ip = [0; 16];
    ip[10..].copy_from_slice(&[0xff, 0xff, 192, 0, 2, n]);
    UnderlayAddr {
        ip,
        port: 7000,
        socket: 0,
        local: 0,
    }
}

/// Node 1 dials node 2. Both receive the frozen datagrams, and send the same today.
fn talk(
    fixtures: &mut Fixtures,
    (name, of_ends, post_quantum): (&str, bool, PostQuantum),
) -> [Session; 2] {
    let mut authority = Authority::generate(&[1; 32]);
    let mut nodes = [1, 2].map(|n| {
        let asked = request(&authority, n);
        let certificate = authority.issue(&asked, YEAR).unwrap();
        let identity = Identity::new(keys(n), certificate).unwrap();
        let (network, seed) = (authority.network(), [n; 32]);
        let mut node = match of_ends {
            false => Handshakes::new(identity, network, seed, Time::ZERO),
            true => Handshakes::of_ends(identity, network, seed, Time::ZERO),
        };
        node.set_post_quantum(post_quantum);
        node
    });
    let init = nodes[0].dial(Time::ZERO, at(2), Some(address(2))).unwrap();
    let mut flying = VecDeque::from([(1, init)]);
    let mut sessions = [None, None];
    let mut said = 0;
    while let Some((to, datagram)) = flying.pop_front() {
        let from = at(if to == 1 { 1 } else { 2 });
        let mut heard = datagram.clone();
        fixtures.hold(&format!("{name}-{said}"), &datagram, |frozen| {
            heard = frozen.to_vec();
        });
        said += 1;
        let outcome = nodes[to].on_datagram(Time::ZERO, NOW_S, from, &heard);
        let answers = match outcome {
            Outcome::Reply(answers) => answers,
            Outcome::Established(established) => {
                sessions[to] = Some(established.session);
                established.reply
            }
            other => panic!("{other:?}"),
        };
        flying.extend(answers.into_iter().map(|answer| (1 - to, answer)));
    }
    sessions.map(Option::unwrap)
}

#[test]
fn handshakes_and_what_they_seal() {
    let mut fixtures = open!("handshake");
    let bound: Bound = core::array::from_fn(|i| i as u8);
    for kind @ (name, of_ends, _) in [
        ("link", false, PostQuantum::Off),
        ("link-hybrid", false, PostQuantum::Require),
        ("ends", true, PostQuantum::Off),
        ("ends-hybrid", true, PostQuantum::Require),
    ] {
        let [mut dialler, mut acceptor] = talk(&mut fixtures, kind);
        for (direction, kind) in [("there", Kind::Data), ("back", Kind::Control)] {
            let (from, to) = match direction {
                "there" => (&mut dialler, &mut acceptor),
                _ => (&mut acceptor, &mut dialler),
            };
            let mut datagram = [7; 40 + SEAL_BYTES];
            match of_ends {
                false => from.seal(kind, &mut datagram).unwrap(),
                true => from.seal_bound(kind, &mut datagram, &bound).unwrap(),
            };
            fixtures.hold(&format!("{name}-sealed-{direction}"), &datagram, |frozen| {
                let mut frozen = frozen.to_vec();
                let opened = match of_ends {
                    false => to.open(&mut frozen).unwrap(),
                    true => to.open_bound(&mut frozen, &bound).unwrap(),
                };
                assert_eq!(opened.kind, kind);
                assert_eq!(frozen[opened.plaintext], [7; 40]);
            });
        }
    }
    fixtures.end();
}

#[test]
fn packets_to_a_group() {
    let mut fixtures = open!("group");
    let network = Authority::generate(&[1; 32]).network();
    let mut keys = GroupKeys::new(&network, &[1; 32]);
    let mut sealing = keys.make(Time::ZERO);
    let mut opening = keys.opening(sealing.number(), sealing.secret(), sealing.first());
    let bound: Bound = core::array::from_fn(|i| i as u8);
    let mut datagram = [7; 40 + SEAL_BYTES];
    sealing.seal(Kind::Data, &mut datagram, &bound).unwrap();
    fixtures.hold("sealed", &datagram, |frozen| {
        let mut frozen = frozen.to_vec();
        let opened = opening.open(Route::Tree, &mut frozen, &bound);
        assert_eq!(opened, Ok(Kind::Data));
        assert_eq!(frozen[CLEAR_BYTES..CLEAR_BYTES + 40], [7; 40]);
    });
    fixtures.end();
}
