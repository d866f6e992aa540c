use super::*;
use crate::files::test_directory;
use crate::renewal::Place;
use base::NodeAddr;
use secure::{Authority, Identity, Keys, Mandate, Newcomer, Revocations, Validity};
use std::path::PathBuf;
use wire::bytes::Reader;
use wire::relay::join::{Endpoints, Join};

const NOW_S: u64 = 1_790_000_000;
const DAY_S: u64 = 86_400;
/// The time at which the certificate of home has nine of its thirty days left.
const LATER_S: u64 = NOW_S + 21 * DAY_S;
const HOME: NodeAddr = NodeAddr(0x0a07_00c1);
const GROUPS: [GroupRange; 1] = [GroupRange::ALL];

/// No other node is known, and the revocations are those of this network.
struct By<'a>(&'a Network);

impl Known for By<'_> {
    fn has_name(&self, _: &str) -> bool {
        false
    }
    fn has_address(&self, _: NodeAddr) -> bool {
        false
    }
    fn has_revoked(&self, certificate: &Certificate) -> bool {
        self.0.has_revoked(certificate)
    }
}

/// A network with two issuers: `ams` has certified home, and `fra` may renew that.
struct Scene {
    authority: Authority,
    network: Network,
    ams: Issuer,
    fra: Issuer,
    /// The delegation that `fra` has for members of `ams`.
    renews: Issuer,
    dir: PathBuf,
}

fn mandate<'a>(first: u32, last: u32) -> Mandate<'a> {
    Mandate {
        addresses: (NodeAddr(0x0a07_0000 + first), NodeAddr(0x0a07_0000 + last)),
        certificates: 100,
        validity: Validity {
            not_before_s: NOW_S,
            not_after_s: NOW_S + 300 * DAY_S,
        },
        lifetime_s: (30 * DAY_S) as u32,
        names: "",
        domains: &["*.example.net"],
        groups: Some(&GROUPS),
        tags: &["backup"],
    }
}

fn identity(authority: &mut Authority, n: u8, name: &str) -> Identity {
    let keys = Keys::generate(&[n; 64]);
    let id = authority.network().id();
    let request = keys.request(id, NodeAddr(0x0a07_0000 + u32::from(n)), name, &[]);
    let validity = mandate(1, 1).validity;
    let certificate = authority.issue(&request.unwrap(), validity).unwrap();
    Identity::new(keys, certificate).unwrap()
}

fn issuer(authority: &mut Authority, of: &Identity, mandate: &Mandate<'_>) -> Issuer {
    let delegation = authority.delegate(of.certificate(), mandate).unwrap();
    Issuer::new(of.clone(), delegation).unwrap()
}

fn key(n: u8) -> [u8; KEY_BYTES] {
    let shown = Authority::generate(&[9; 32]).network().id();
    let request = Keys::generate(&[n; 64]).request(shown, HOME, "x", &[]);
    request.unwrap().fields().subject.signing_key
}

impl Scene {
    fn new(name: &str) -> Scene {
        Scene::with(name, &mandate(0xc0, 0xfe))
    }

    /// Creates a scene in which `fra` has this mandate.
    fn with(name: &str, renews: &Mandate<'_>) -> Scene {
        let mut authority = Authority::generate(&[1; 32]);
        let (ams, fra) = (
            identity(&mut authority, 1, "ams"),
            identity(&mut authority, 2, "fra"),
        );
        Scene {
            ams: issuer(&mut authority, &ams, &mandate(0xc0, 0xfe)),
            fra: issuer(&mut authority, &fra, &mandate(0x80, 0xbf)),
            renews: issuer(&mut authority, &fra, renews),
            network: authority.network(),
            authority,
            dir: test_directory(name),
        }
    }

    fn books(&self, name: &str, issuer: &Issuer) -> Books {
        let first = issuer.delegation().fields().serials.0;
        Books::open(&self.dir.join(name), first).unwrap()
    }

    /// Returns the admission of `fra`.
    fn admission(&self) -> Admission {
        self.telling_of(Vec::new())
    }

    /// Returns the same, which tells its own members about these issuers.
    fn telling_of(&self, renewed_by: Vec<Place>) -> Admission {
        let own = self.books("fra", &self.fra);
        let others = self.books("renews-ams", &self.renews);
        Admission::new(self.fra.clone(), vec!["fra:7700".into()], own)
            .renewed_by(renewed_by)
            .renewing(vec![(self.renews.clone(), others)])
            .unwrap()
    }

    /// Returns a certificate as `ams` has issued it.
    fn certificate(&self, serial: u32, key: [u8; KEY_BYTES]) -> Certificate {
        let domains = ["a.example.net"];
        let home = Newcomer {
            address: HOME,
            name: "home",
            static_key: [7; KEY_BYTES],
            signing_key: key,
            domains: &domains,
            groups: &GROUPS,
            tags: &["backup"],
        };
        let serial = self.ams.delegation().fields().serials.0 + serial;
        let validity = self.ams.validity(NOW_S);
        self.ams.issue(&home, serial, validity).unwrap()
    }

    fn ask(&self, now_s: u64, shown: &Certificate, key: &[u8; KEY_BYTES]) -> Answer {
        let admission = self.admission();
        let known = By(&self.network);
        admission.renew_shown(now_s, shown, key, &self.network, &known)
    }

    fn revoke(&mut self, list: impl Fn(&mut Authority) -> Revocations) {
        let list = list(&mut self.authority);
        self.network.apply(&list).unwrap();
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

type Answer = Result<Admitted, Refused>;

fn why(refused: Answer) -> String {
    refused.unwrap_err().text
}

#[test]
fn a_member_of_another_issuer_gets_what_it_had_and_a_higher_serial() {
    let scene = Scene::new("others-renewed");
    let shown = scene.certificate(5, key(10));
    let next = scene.ask(LATER_S, &shown, &key(10)).unwrap();
    assert!(!next.is_repeated);
    let peer = scene.network.verify(&next.certificate, LATER_S).unwrap();
    assert_eq!(peer.signing_key(), &key(10));
    let (before, after) = (shown.fields(), next.certificate.fields());
    assert_eq!(after.subject, before.subject);
    assert_eq!(after.options.tags(), before.options.tags());
    assert_eq!(after.groups(), before.groups());
    assert_eq!(after.not_after_s, LATER_S + 30 * DAY_S);
    let serials = scene.renews.delegation().fields().serials;
    assert_eq!(after.serial, serials.0);
    assert!(after.serial > before.serial);
}

#[test]
fn ten_thousand_questions_get_one_certificate_until_half_of_its_time_is_over() {
    let scene = Scene::new("others-rate");
    let shown = scene.certificate(5, key(10));
    let first = scene.ask(LATER_S, &shown, &key(10)).unwrap().certificate;
    let admission = scene.admission();
    let ask = |now_s, shown: &Certificate| {
        let known = By(&scene.network);
        admission.renew_shown(now_s, shown, &key(10), &scene.network, &known)
    };
    for n in 0..10_000 {
        let shown = [&shown, &first][n % 2];
        let again = ask(LATER_S + 60, shown).unwrap();
        assert!(again.is_repeated && again.certificate == first);
    }
    // From half of its lifetime on it is a certificate of this issuer, and in its last third it is renewed.
    let next = ask(LATER_S + 20 * DAY_S, &first).unwrap();
    assert_eq!(
        next.certificate.fields().serial,
        first.fields().serial + 1,
        "one serial each"
    );
}

#[test]
fn questions_before_the_end_of_the_delegation_get_one_certificate() {
    let end_s = LATER_S + 5 * DAY_S;
    let mut ends = mandate(0xc0, 0xfe);
    ends.validity.not_after_s = end_s;
    let scene = Scene::with("others-rate-end", &ends);
    let shown = scene.certificate(5, key(10));
    let first = scene.ask(LATER_S, &shown, &key(10)).unwrap().certificate;
    assert_eq!(first.fields().not_after_s, end_s);
    for n in 1..100 {
        for shown in [&shown, &first] {
            let again = scene.ask(LATER_S + n * 3_600, shown, &key(10)).unwrap();
            assert!(again.is_repeated && again.certificate == first, "{n}");
        }
    }
    let books = scene.books("renews-ams", &scene.renews);
    assert_eq!(books.next_serial(), first.fields().serial + 1);
    assert_eq!(at(&books, HOME).unwrap().earlier, [shown.to_text()]);
}

#[test]
fn a_member_with_many_certificates_that_have_not_ended_gets_no_more() {
    let scene = Scene::new("others-earlier");
    let shown = scene.certificate(0, key(10));
    let first = scene.ask(LATER_S, &shown, &key(10)).unwrap().certificate;
    let mut books = scene.books("renews-ams", &scene.renews);
    let mut member = at(&books, HOME).unwrap();
    member.earlier = vec![first.to_text(); EARLIER_MAX];
    books.correct(member).unwrap();
    let late_s = LATER_S + 21 * DAY_S;
    let refused = scene.ask(late_s, &first, &key(10));
    assert!(why(refused).contains("too many certificates"));
}

#[test]
fn what_this_issuer_cannot_do_another_one_may() {
    let mut ends = mandate(0xc0, 0xfe);
    ends.validity.not_after_s = LATER_S - 1;
    let scene = Scene::with("others-unable", &ends);
    let shown = scene.certificate(5, key(10));
    let ended = scene.ask(LATER_S, &shown, &key(10)).unwrap_err();
    assert_eq!(ended.kind, FailureKind::Unusable);
    // The delegation of `fra` for others was removed.
    let books = scene.books("fra", &scene.fra);
    let alone = Admission::new(scene.fra.clone(), Vec::new(), books);
    let known = By(&scene.network);
    let removed = alone.renew_shown(LATER_S, &shown, &key(10), &scene.network, &known);
    assert_eq!(removed.unwrap_err().kind, FailureKind::Unusable);
    // A node that was revoked at one issuer is refused everywhere.
    let other = scene.ask(LATER_S, &shown, &key(11)).unwrap_err();
    assert_eq!(other.kind, FailureKind::Forbidden);
}

#[test]
fn only_what_counts_is_renewed_and_only_for_its_key() {
    let mut scene = Scene::new("others-counts");
    let shown = scene.certificate(5, key(10));
    let ended = scene.ask(NOW_S + 31 * DAY_S, &shown, &key(10));
    assert!(why(ended).contains("expired"));
    let other = scene.ask(LATER_S, &shown, &key(11));
    assert!(why(other).contains("of another key"));
    let fra = scene.fra.identity().certificate().clone();
    let by_root = scene.ask(LATER_S, &fra, &key(2));
    assert!(why(by_root).contains("the root key has certified this node"));
    let early = scene.ask(NOW_S + 19 * DAY_S, &shown, &key(10));
    assert!(why(early).contains("in the last third of its time only"));
    // Another network has the same names, addresses and keys.
    let stranger = Authority::generate(&[3; 32]).network();
    let admission = scene.admission();
    let foreign = admission.renew_shown(LATER_S, &shown, &key(10), &stranger, &By(&stranger));
    assert!(why(foreign).contains("not renewed"));
    drop(admission);
    scene.revoke(|authority| authority.revoke(&shown, LATER_S).unwrap());
    let revoked = scene.ask(LATER_S, &shown, &key(10));
    assert!(why(revoked).contains("revoked"));
}

#[test]
fn with_the_delegation_of_the_issuer_all_that_it_has_certified_is_renewed_no_more() {
    let mut scene = Scene::new("others-issuer-revoked");
    let shown = scene.certificate(5, key(10));
    let delegation = scene.ams.delegation().clone();
    scene.revoke(|authority| authority.revoke_delegation(&delegation, LATER_S).unwrap());
    let refused = scene.ask(LATER_S, &shown, &key(10));
    assert!(why(refused).contains("revoked"));
}

#[test]
fn the_time_of_an_old_root_is_over_for_members_of_others() {
    let mut scene = Scene::new("others-old-root");
    let shown = scene.certificate(5, key(10));
    let until_s = NOW_S + DAY_S;
    scene.authority.rotate(&[7; 32], until_s, NOW_S).unwrap();
    let fra = scene.fra.identity().clone();
    scene.network = scene.authority.network();
    // This delegation is valid; the old one would end with the old root.
    scene.renews = issuer(&mut scene.authority, &fra, &mandate(0xc0, 0xfe));
    let late = scene.ask(until_s + 1, &shown, &key(10));
    assert!(why(late).contains("not renewed"));
    // Under an old root nobody waits for the last third.
    assert!(scene.ask(until_s, &shown, &key(10)).is_ok());
}

#[test]
fn what_the_own_delegation_does_not_permit_is_refused_and_named() {
    let all = mandate(0xc0, 0xfe);
    let narrow: [GroupRange; 1] = ["239.1.0.0/16".parse().unwrap()];
    let cases = [
        (
            "name",
            "the name `home`",
            Mandate {
                names: "-lab",
                ..all
            },
        ),
        (
            "domain",
            "the domain `a.example.net`",
            Mandate {
                domains: &["b.example.net"],
                ..all
            },
        ),
        (
            "tag",
            "the tag `backup`",
            Mandate {
                tags: &["*-lab"],
                ..all
            },
        ),
        (
            "groups",
            "to set the groups",
            Mandate {
                groups: Some(&narrow),
                ..all
            },
        ),
        (
            "address",
            "has no delegation by which it may renew it",
            Mandate {
                addresses: (NodeAddr(HOME.0 + 1), NodeAddr(HOME.0 + 9)),
                ..all
            },
        ),
    ];
    for (what, words, renews) in cases {
        let scene = Scene::with(&format!("others-within-{what}"), &renews);
        let shown = scene.certificate(5, key(10));
        let told = why(scene.ask(LATER_S, &shown, &key(10)));
        assert!(told.contains(words), "{what}: {told}");
    }
    // The lifetime is bounded by `fra`'s own delegation, whatever the certificate before had.
    let renews = Mandate {
        lifetime_s: 3_600,
        ..all
    };
    let scene = Scene::with("others-within-lifetime", &renews);
    let shown = scene.certificate(5, key(10));
    let next = scene.ask(LATER_S, &shown, &key(10)).unwrap().certificate;
    assert_eq!(next.fields().not_after_s, LATER_S + 3_600);
    // The delegation also bounds the number of certificates: with one serial, the second member gets none.
    let renews = Mandate {
        certificates: 1,
        ..all
    };
    let scene = Scene::with("others-within-serials", &renews);
    let shown = scene.certificate(5, key(10));
    let only = scene.ask(LATER_S, &shown, &key(10)).unwrap().certificate;
    let second = scene.ask(LATER_S + 25 * DAY_S, &only, &key(10));
    assert!(why(second).contains("may not give"));
}

#[test]
fn a_delegation_that_has_ended_or_was_revoked_renews_nothing() {
    let mut ends = mandate(0xc0, 0xfe);
    ends.validity.not_after_s = LATER_S - 1;
    let scene = Scene::with("others-ended", &ends);
    let shown = scene.certificate(5, key(10));
    assert!(why(scene.ask(LATER_S, &shown, &key(10))).contains("has ended or was revoked"));
    let mut scene = Scene::new("others-own-revoked");
    let shown = scene.certificate(5, key(10));
    let own = scene.renews.delegation().clone();
    scene.revoke(|authority| authority.revoke_delegation(&own, LATER_S).unwrap());
    assert!(why(scene.ask(LATER_S, &shown, &key(10))).contains("has ended or was revoked"));
}

#[test]
fn an_address_has_one_key_until_all_its_certificates_have_ended() {
    let scene = Scene::new("others-address");
    let shown = scene.certificate(5, key(10));
    let next = scene.ask(LATER_S, &shown, &key(10)).unwrap().certificate;
    // A thief of the key of `ams` certifies another host in place of home.
    let other = scene.certificate(6, key(11));
    let taken = scene.ask(LATER_S, &other, &key(11));
    assert!(why(taken).contains("another key has a certificate for 10.7.0.193"));
    let ends_s = next.fields().not_after_s;
    let books = scene.books("renews-ams", &scene.renews);
    let member = at(&books, HOME).unwrap();
    assert_eq!(
        (member.key, member.ends_s(), member.earlier),
        (key(10), ends_s, vec![shown.to_text()])
    );
    // `fra` lets nobody join at that address.
    assert!(!scene.admission().gives(HOME));
    let admission = scene.admission();
    assert!(admission.others[0].gives(HOME));
}

#[test]
fn a_key_of_which_a_certificate_was_revoked_is_out_here_too() {
    let mut scene = Scene::new("others-standing");
    let shown = scene.certificate(5, key(10));
    let next = scene.ask(LATER_S, &shown, &key(10)).unwrap().certificate;
    scene.revoke(|authority| authority.revoke(&shown, LATER_S).unwrap());
    let out = scene.ask(LATER_S + 60, &next, &key(10));
    assert!(why(out).contains("this key was revoked"));
}

#[test]
fn books_that_are_full_take_no_other_member() {
    let scene = Scene::new("others-full");
    let shown = scene.certificate(5, key(10));
    let member = as_member(&shown, Vec::new());
    let members: Vec<Member> = (0..MEMBERS_MAX as u32)
        .map(|n| Member {
            address: NodeAddr(0x0a08_0000 + n),
            not_after_s: LATER_S,
            certificate: shown.to_text(),
            ..member.clone()
        })
        .collect();
    let first = scene.renews.delegation().fields().serials.0;
    let text = serde_json::json!({"next_serial": first, "members": members}).to_string();
    let dir = scene.dir.join("renews-ams");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("members.json"), text).unwrap();
    let full = scene.ask(LATER_S, &shown, &key(10)).unwrap_err();
    assert!(full.kind == FailureKind::Busy && full.text.contains("as many as it keeps"));
}

#[test]
fn the_own_issuer_keeps_the_address_and_renews_again_by_a_later_delegation() {
    let mut scene = Scene::new("others-back");
    let admit = |scene: &Scene| {
        let books = scene.books("ams", &scene.ams);
        Admission::new(scene.ams.clone(), vec!["ams:7700".into()], books)
    };
    // Home has joined at `ams`, according to its books.
    let shown = scene.certificate(0, key(10));
    let mut books = scene.books("ams", &scene.ams);
    let fields = shown.fields();
    books
        .enter(Member {
            serial: fields.serial,
            not_after_s: fields.not_after_s,
            certificate: shown.to_text(),
            invitation: "a".into(),
            ..as_member(&shown, Vec::new())
        })
        .unwrap();
    let next_serial = books.next_serial();
    let by_fra = scene.ask(LATER_S, &shown, &key(10)).unwrap().certificate;
    // `ams` can be reached again.
    let ask = |scene: &Scene, now_s| {
        let known = By(&scene.network);
        admit(scene).renew_shown(now_s, &by_fra, &key(10), &scene.network, &known)
    };
    let back_s = LATER_S + 25 * DAY_S;
    for _ in 0..2 {
        assert!(why(ask(&scene, back_s)).contains("a later delegation has renewed"));
    }
    let mut books = scene.books("ams", &scene.ams);
    let member = at(&books, HOME).unwrap();
    assert_eq!(books.next_serial(), next_serial, "no serial comes again");
    assert!(member.certificates().contains(&by_fra.to_text()));
    // A member that others renew again and again has more certificates to remember than one or two.
    let mut crowded = member.clone();
    crowded.earlier = vec![by_fra.to_text(); EARLIER_MAX];
    books.correct(crowded).unwrap();
    let known = By(&scene.network);
    let more = scene.certificate(7, key(10));
    let refused = admit(&scene).renew_shown(LATER_S, &more, &key(10), &scene.network, &known);
    assert!(why(refused).contains("too many certificates"));
    books.correct(member).unwrap();
    // Its own certificate expired more than a month ago, and the other one still reserves the address.
    books.forget_expired(NOW_S + 70 * DAY_S);
    assert!(at(&books, HOME).is_some());
    let ams = scene.ams.identity().clone();
    scene.ams = issuer(&mut scene.authority, &ams, &mandate(0xc0, 0xfe));
    let again = ask(&scene, back_s).unwrap().certificate;
    assert!(again.fields().serial > by_fra.fields().serial);
    // `fra` could not sign a certificate that would be accepted after that one.
    let late_s = back_s + 25 * DAY_S;
    let lower = scene.ask(late_s, &again, &key(10));
    assert!(why(lower).contains("a later delegation has renewed"));
}

#[test]
fn delegations_with_common_addresses_are_refused_at_the_start() {
    let scene = Scene::with("others-overlap", &mandate(0xa0, 0xc0));
    let own = scene.books("fra", &scene.fra);
    let others = scene.books("renews-ams", &scene.renews);
    let overlap = Admission::new(scene.fra.clone(), Vec::new(), own)
        .renewing(vec![(scene.renews.clone(), others)])
        .unwrap_err();
    assert_eq!(overlap, Overlap(NodeAddr(0x0a07_00a0)));
}

#[test]
fn a_token_admits_by_the_own_delegation_alone_and_own_members_alone_are_told_of_others() {
    let scene = Scene::new("others-join");
    let secret = [5; 16];
    let invitation = super::super::Invitation {
        uses: 1,
        expires_s: NOW_S + 60,
        name: None,
        domains: vec![],
        groups: vec![],
        tags: vec![],
    };
    // An invitation in the books for other issuers' members does not count.
    for (dir, is_admitted) in [("renews-ams", false), ("fra", true)] {
        Books::invite(&scene.dir.join(dir), &secret, &invitation, NOW_S).unwrap();
        let ask = Join {
            secret,
            static_key: [7; 32],
            name: "new",
            endpoints: Endpoints::parse(&mut Reader::new(&[0])).unwrap(),
        };
        let other = Place {
            endpoints: vec!["ams:7700".into()],
            key: key(1),
        };
        let admission = scene.telling_of(vec![other.clone()]);
        let shown = scene.certificate(5, key(10));
        let known = By(&scene.network);
        let renewed = admission.renew_shown(LATER_S, &shown, &key(10), &scene.network, &known);
        assert!(renewed.unwrap().tells_of.is_empty(), "it has its own");
        let joined = admission.join(NOW_S, &ask, &key(12), &By(&scene.network));
        assert_eq!(joined.is_ok(), is_admitted, "{dir}");
        if let Ok(joined) = joined {
            let address = joined.certificate.fields().subject.address;
            assert_eq!(address, NodeAddr(0x0a07_0080));
            assert_eq!(joined.tells_of, [other]);
        }
    }
}
