use super::*;
use crate::files::test_directory;
use secure::{Authority, Identity, Keys, Mandate, Validity};
use std::path::PathBuf;
use wire::certificate::GroupRange;
use wire::relay::join::Endpoints;

const NOW_S: u64 = 1_790_000_000;
const DAY_S: u64 = 86_400;
const SECRET: [u8; 16] = [5; 16];

struct Scene {
    authority: Authority,
    issuer: Issuer,
    dir: PathBuf,
}

impl Scene {
    fn new(name: &str) -> Scene {
        let mut authority = Authority::generate(&[1; 32]);
        let keys = Keys::generate(&[2; 64]);
        let validity = Validity {
            not_before_s: NOW_S,
            not_after_s: NOW_S + 90 * DAY_S,
        };
        let id = authority.network().id();
        let request = keys.request(id, NodeAddr(0x0a07_0080), "ams", &[]).unwrap();
        let certificate = authority.issue(&request, validity).unwrap();
        let mandate = Mandate {
            addresses: (NodeAddr(0x0a07_0080), NodeAddr(0x0a07_0083)),
            certificates: 100,
            validity,
            lifetime_s: (30 * DAY_S) as u32,
            names: "",
            domains: &["*.example.net"],
            groups: None,
            tags: &["backup"],
        };
        let delegation = authority.delegate(&certificate, &mandate).unwrap();
        let identity = Identity::new(keys, certificate).unwrap();
        Scene {
            authority,
            issuer: Issuer::new(identity, delegation).unwrap(),
            dir: test_directory(name),
        }
    }

    fn admission(&self) -> Admission {
        let first = self.issuer.delegation().fields().serials.0;
        let books = Books::open(&self.dir, first).unwrap();
        Admission::new(self.issuer.clone(), vec!["ams:7700".into()], books)
    }

    fn invite(&self, uses: u32) {
        let invitation = Invitation {
            uses,
            expires_s: NOW_S + 3_600,
            name: None,
            domains: vec!["a.example.net".into()],
            groups: vec![GroupRange::ALL],
            tags: vec![],
        };
        Books::invite(&self.dir, &SECRET, &invitation, NOW_S).unwrap();
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Returns an invitation for one host that leaves everything open.
fn plain(expires_s: u64) -> Invitation {
    Invitation {
        uses: 1,
        expires_s,
        name: None,
        domains: vec![],
        groups: vec![],
        tags: vec![],
    }
}

fn key(n: u8) -> [u8; KEY_BYTES] {
    let shown = Authority::generate(&[9; 32]).network().id();
    let keys = Keys::generate(&[n; 64]);
    let request = keys.request(shown, NodeAddr(1), "x", &[]).unwrap();
    request.fields().subject.signing_key
}

fn join<'a>(name: &'a str, endpoints: &'a [u8]) -> Join<'a> {
    Join {
        secret: SECRET,
        static_key: [7; 32],
        name,
        endpoints: Endpoints::parse(&mut Reader::new(endpoints)).unwrap(),
    }
}

/// A network of which the node knows only this.
struct Elsewhere {
    name: &'static str,
    address: Option<NodeAddr>,
    revoked: Option<u32>,
}

impl Known for Elsewhere {
    fn has_name(&self, name: &str) -> bool {
        name == self.name
    }
    fn has_address(&self, address: NodeAddr) -> bool {
        self.address == Some(address)
    }
    fn has_revoked(&self, certificate: &Certificate) -> bool {
        self.revoked == Some(certificate.fields().serial)
    }
}

const NOBODY: Elsewhere = Elsewhere {
    name: "",
    address: None,
    revoked: None,
};

fn why(refused: Result<Admitted, Refused>) -> String {
    refused.unwrap_err().text
}

#[test]
fn a_token_admits_as_often_as_it_says_and_the_same_host_again() {
    let scene = Scene::new("admission-uses");
    let admission = scene.admission();
    assert!(
        why(admission.join(NOW_S, &join("home", &[0]), &key(10), &NOBODY))
            .contains("opens nothing")
    );
    scene.invite(1);
    let first = admission
        .join(NOW_S, &join("home", &[0]), &key(10), &NOBODY)
        .unwrap();
    let peer = scene
        .authority
        .network()
        .verify(&first.certificate, NOW_S)
        .unwrap();
    assert_eq!(
        (peer.name(), peer.address().to_string()),
        ("home", "10.7.0.129".into())
    );
    let domains = first.certificate.fields().subject.domains;
    assert_eq!(domains.iter().collect::<Vec<_>>(), ["a.example.net"]);
    assert_eq!(
        first.neighbors,
        [(
            NodeAddr(0x0a07_0080),
            "ams".into(),
            vec!["ams:7700".to_owned()]
        )]
    );
    // The answer was lost: the host asks again, even after the node was restarted.
    let again = scene
        .admission()
        .join(NOW_S + 7_200, &join("home", &[0]), &key(10), &NOBODY)
        .unwrap();
    assert_eq!(
        (again.certificate, again.is_repeated),
        (first.certificate, true)
    );
    // A thief who has found the token comes too late.
    let thief = admission.join(NOW_S, &join("thief", &[0]), &key(11), &NOBODY);
    assert!(why(thief).contains("has been used"));
}

#[test]
fn tags_are_those_of_the_token_that_the_issuer_may_give_and_no_host_asks_for_any() {
    let scene = Scene::new("admission-tags");
    let admission = scene.admission();
    let tags = |secret: u8, tags: &[&str], name: &str| {
        let secret = [secret; 16];
        let invitation = Invitation {
            tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
            ..plain(NOW_S + DAY_S)
        };
        Books::invite(&scene.dir, &secret, &invitation, NOW_S).unwrap();
        let ask = Join {
            secret,
            ..join(name, &[0])
        };
        let admitted = admission.join(NOW_S, &ask, &key(secret[0]), &NOBODY)?;
        let certificate = admitted.certificate;
        let later_s = NOW_S + 20 * DAY_S;
        let address = certificate.fields().subject.address;
        let renewed = admission.renew(later_s, address, &key(secret[0]), &NOBODY)?;
        let of = |certificate: &Certificate| -> Vec<String> {
            let tags = certificate.fields().options.tags();
            tags.iter().map(str::to_owned).collect()
        };
        assert_ne!(renewed.certificate, certificate);
        assert_eq!(
            of(&renewed.certificate),
            of(&certificate),
            "a renewal keeps them"
        );
        Ok::<_, Refused>(of(&certificate))
    };
    assert_eq!(tags(11, &["backup"], "a"), Ok(vec!["backup".to_owned()]));
    // A host can only choose its name, and gets no tag by that.
    assert_eq!(tags(12, &[], "backup"), Ok(vec![]));
    assert!(
        tags(13, &[], "tag:backup")
            .unwrap_err()
            .text
            .contains("not a name")
    );
    // Tags that the issuer may not give are refused, not left out silently.
    let refused = tags(14, &["prod", "backup"], "b").unwrap_err();
    assert!(refused.text.contains("may not give the tag `prod`"));
    // A new delegation may give less than the books say: a renewal leaves that out.
    let first = scene.issuer.delegation().fields().serials.0;
    let mut books = Books::open(&scene.dir, first).unwrap();
    let mut member = books.members()[0].clone();
    member.tags.push("prod".into());
    books.enter(member.clone()).unwrap();
    let later_s = NOW_S + 40 * DAY_S;
    let renewed = scene
        .admission()
        .renew(later_s, member.address, &member.key, &NOBODY)
        .unwrap();
    let tags = renewed.certificate.fields().options.tags();
    assert_eq!(tags.iter().collect::<Vec<_>>(), ["backup"]);
    assert_ne!(renewed.certificate.to_text(), member.certificate);
}

#[test]
fn ten_thousand_requests_get_what_the_token_says_and_leave_nothing() {
    let scene = Scene::new("admission-many");
    let admission = scene.admission();
    scene.invite(3);
    let mut all = Vec::new();
    for n in 0_u32..10_000 {
        let name = format!("n{n}");
        let mut fresh = [0; KEY_BYTES];
        fresh[..4].copy_from_slice(&n.to_be_bytes());
        // Each joins with a key of its own, and then asks again: the first three get the same answer once more.
        for _ in 0..2 {
            let admitted = admission.join(NOW_S, &join(&name, &[0]), &fresh, &NOBODY);
            all.extend(admitted.map(|it| it.certificate.fields().serial));
        }
    }
    all.sort_unstable();
    let [a, b, c] = [all[0], all[2], all[4]];
    assert_eq!(all, [a, a, b, b, c, c]);
    assert_eq!(scene.admission().books().members().len(), 3);
}

#[test]
fn what_has_expired_or_is_taken_is_refused_with_the_reason() {
    let scene = Scene::new("admission-refused");
    let admission = scene.admission();
    scene.invite(10);
    let late = admission.join(NOW_S + 3_601, &join("home", &[0]), &key(10), &NOBODY);
    assert!(why(late).contains("expired"));
    let own = admission.join(NOW_S, &join("ams", &[0]), &key(10), &NOBODY);
    assert!(why(own).contains("another node is called `ams`"));
    for name in ["AMS", "Ams"] {
        let capitals = admission.join(NOW_S, &join(name, &[0]), &key(10), &NOBODY);
        assert!(why(capitals).contains("another node is called"), "{name}");
    }
    for name in [
        "x\"y", "../x", "-x", "a b", "é", ".", "10.7.0.9", "10.7", "12",
    ] {
        let bad = admission.join(NOW_S, &join(name, &[0]), &key(10), &NOBODY);
        assert!(why(bad).contains("not a name for a node"), "{name}");
    }
    let known = admission.join(
        NOW_S,
        &join("fra", &[0]),
        &key(10),
        &Elsewhere {
            name: "fra",
            ..NOBODY
        },
    );
    assert!(why(known).contains("another node is called `fra`"));
    let wanted = NodeAddr(0x0a07_0081);
    let second = admission.join(
        NOW_S,
        &join("home", &[0]),
        &key(10),
        &Elsewhere {
            address: Some(wanted),
            ..NOBODY
        },
    );
    assert_eq!(
        second
            .unwrap()
            .certificate
            .fields()
            .subject
            .address
            .to_string(),
        "10.7.0.130"
    );
    admission
        .join(NOW_S, &join("c", &[0]), &key(12), &NOBODY)
        .unwrap();
    admission
        .join(NOW_S, &join("d", &[0]), &key(13), &NOBODY)
        .unwrap();
    let none_left = admission.join(NOW_S, &join("e", &[0]), &key(14), &NOBODY);
    assert!(why(none_left).contains("no overlay address is left"));
}

#[test]
fn a_certificate_is_renewed_for_its_key_and_serials_rise_over_restarts() {
    let scene = Scene::new("admission-renewed");
    let admission = scene.admission();
    scene.invite(1);
    let first = admission
        .join(NOW_S, &join("home", &[0]), &key(10), &NOBODY)
        .unwrap();
    let address = first.certificate.fields().subject.address;
    assert!(why(admission.renew(NOW_S, address, &key(11), &NOBODY)).contains("did not issue"));
    let early = admission
        .renew(NOW_S + DAY_S, address, &key(10), &NOBODY)
        .unwrap();
    assert!(early.is_repeated && early.certificate == first.certificate);
    let later_s = NOW_S + 20 * DAY_S;
    let next = scene
        .admission()
        .renew(later_s, address, &key(10), &NOBODY)
        .unwrap();
    // If any of its certificates was revoked, the member is refused: the earlier one is still valid, and would be
    // renewed.
    let before = Elsewhere {
        revoked: Some(first.certificate.fields().serial),
        ..NOBODY
    };
    let out = scene
        .admission()
        .renew(later_s + 20 * DAY_S, address, &key(10), &before);
    assert!(why(out).contains("this key was revoked"));
    assert_eq!(
        next.certificate.fields().serial,
        first.certificate.fields().serial + 1
    );
    assert_eq!(next.certificate.fields().not_after_s, later_s + 30 * DAY_S);
    let rejoined = scene.admission();
    // A host that has lost its certificate joins again, and keeps its name and address.
    let secret = [6; 16];
    let invitation = plain(NOW_S + DAY_S);
    Books::invite(&scene.dir, &secret, &invitation, NOW_S).unwrap();
    let ask = Join {
        secret,
        ..join("other", &[0])
    };
    let revoked = Elsewhere {
        revoked: Some(next.certificate.fields().serial),
        ..NOBODY
    };
    assert!(why(rejoined.join(NOW_S, &ask, &key(10), &revoked)).contains("this key was revoked"));
    let again = rejoined.join(NOW_S, &ask, &key(10), &NOBODY).unwrap();
    // The first token stays used, although its host has joined again with another one.
    assert!(
        why(rejoined.join(NOW_S, &join("x", &[0]), &key(20), &NOBODY)).contains("has been used")
    );
    let subject = again.certificate.fields().subject;
    assert_eq!((subject.name, subject.address), ("home", address));
    assert_eq!(
        again.certificate.fields().serial,
        next.certificate.fields().serial + 1
    );
}

#[test]
fn before_its_delegation_ends_an_issuer_gives_one_certificate_until_then() {
    let scene = Scene::new("admission-end");
    scene.invite(1);
    let ask = join("home", &[0]);
    let joined = scene.admission().join(NOW_S, &ask, &key(10), &NOBODY);
    let address = joined.unwrap().certificate.fields().subject.address;
    let end_s = NOW_S + 90 * DAY_S;
    let renew = |now_s| scene.admission().renew(now_s, address, &key(10), &NOBODY);
    let last = renew(end_s - 20 * DAY_S).unwrap();
    assert_eq!(last.certificate.fields().not_after_s, end_s);
    for left_s in [19 * DAY_S, 14 * DAY_S, 3_600, 0] {
        let again = renew(end_s - left_s).unwrap();
        assert!(again.is_repeated && again.certificate == last.certificate);
    }
    // After that it cannot, but another issuer may.
    let ended = renew(end_s + 1).unwrap_err();
    assert_eq!(ended.kind, FailureKind::Unusable);
}

#[test]
fn newcomers_are_told_of_others_that_can_be_dialled() {
    let scene = Scene::new("admission-others");
    let admission = scene.admission();
    scene.invite(10);
    // The second endpoint is invalid, and would break the configuration of others.
    let reachable = [2, 3, b'h', b':', b'1', 3, b'"', b':', b'1'];
    let b = admission
        .join(NOW_S, &join("b", &reachable), &key(10), &NOBODY)
        .unwrap();
    assert_eq!(b.neighbors.len(), 1, "not of itself");
    let c = admission
        .join(NOW_S, &join("c", &[0]), &key(11), &NOBODY)
        .unwrap();
    let names: Vec<&str> = c
        .neighbors
        .iter()
        .map(|(_, name, _)| name.as_str())
        .collect();
    assert_eq!(names, ["ams", "b"]);
    assert_eq!(c.neighbors[1].2, ["h:1"]);
    let network = scene.authority.network();
    answer(&c, (&network, false), |joined| {
        assert_eq!(joined.neighbors.iter().count(), 2);
        assert!(joined.chain.is_empty() && joined.revocations.is_empty());
        Ok(())
    })
    .unwrap();
}

#[test]
fn after_a_rotation_members_are_renewed_once_and_hosts_that_join_learn_of_the_roots() {
    let mut scene = Scene::new("admission-rotation");
    let admission = scene.admission();
    scene.invite(10);
    let first = admission
        .join(NOW_S, &join("home", &[0]), &key(10), &NOBODY)
        .unwrap();
    let address = first.certificate.fields().subject.address;
    let mut old = scene.authority.network();
    let until_s = NOW_S + 10 * DAY_S;
    scene.authority.rotate(&[7; 32], until_s, NOW_S).unwrap();
    let network = scene.authority.network();
    let chain_of = |admitted: &Admitted, is_renewal| {
        let mut chain = Vec::new();
        let told = answer(admitted, (&network, is_renewal), |joined| {
            chain = joined.chain.to_vec();
            Ok(())
        });
        told.unwrap();
        chain
    };
    // As long as the issuer has no delegation of the new root, nodes of older versions are renewed, too.
    assert!(chain_of(&first, true).is_empty());
    assert_eq!(chain_of(&first, false), network.chain_bytes());
    let own = scene.issuer.identity().clone();
    let before = scene.issuer.delegation().clone();
    let again = scene
        .authority
        .delegate_again(own.certificate(), &before, NOW_S)
        .unwrap();
    scene.issuer = Issuer::new(own, again).unwrap().of_network(&network);
    drop(admission);
    let admission = scene.admission();
    let next = admission
        .renew(NOW_S + 60, address, &key(10), &NOBODY)
        .unwrap();
    assert!(!next.is_repeated);
    assert_eq!(network.root_of(&next.certificate), Some(1));
    let serials = |of: &Certificate| of.fields().serial;
    assert!(serials(&next.certificate) > serials(&first.certificate));
    let repeated = admission
        .renew(NOW_S + 61, address, &key(10), &NOBODY)
        .unwrap();
    assert!(repeated.is_repeated && repeated.certificate == next.certificate);
    let chain = chain_of(&next, true);
    old.extend(&chain).unwrap();
    assert!(old.verify(&next.certificate, until_s + 1).is_ok());
}

#[test]
fn books_forget_expired_invitations_and_refuse_damage() {
    let scene = Scene::new("admission-books");
    scene.invite(1);
    let other = plain(NOW_S + 9_999);
    Books::invite(&scene.dir, &[6; 16], &other, NOW_S + 3_601).unwrap();
    let left = Books::invitations(&scene.dir).unwrap();
    assert_eq!(
        left.into_iter().map(|(_, it)| it).collect::<Vec<_>>(),
        [other]
    );
    let path = scene.dir.join("members.json");
    for bad in ["", "{}", "{\"next_serial\":1,\"members\":[{}]}"] {
        std::fs::write(&path, bad).unwrap();
        assert!(Books::open(&scene.dir, 1).is_err(), "{bad}");
    }
}

/// The superuser invites for a node that runs as another user.
#[test]
fn invitations_belong_to_the_owner_of_the_node() {
    use std::os::unix::fs::{MetadataExt, chown};
    let scene = Scene::new("admission-owner");
    let node = scene.dir.join("ams");
    std::fs::create_dir(&node).unwrap();
    if chown(&node, Some(4_242), Some(4_242)).is_err() {
        eprintln!("SKIPPED: invitations_belong_to_the_owner_of_the_node: needs root");
        return;
    }
    let invitation = plain(NOW_S);
    Books::invite(&node.join("issuer"), &SECRET, &invitation, NOW_S).unwrap();
    let file = Books::invitations(&node.join("issuer"))
        .unwrap()
        .remove(0)
        .0;
    for made in [&node.join("issuer"), &file] {
        assert_eq!(std::fs::metadata(made).unwrap().uid(), 4_242);
    }
}
