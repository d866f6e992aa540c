//! Issuers: their certificates are valid within their delegation and nowhere else, and end with it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use base::NodeAddr;
use secure::{
    Authority, Certificate, CertificateError, Changes, Delegation, Grants, Identity, IssueError,
    Issuer, Keys, Mandate, Newcomer, Validity,
};
use wire::certificate::GroupRange;

const NOW_S: u64 = 1_790_000_000;
const DAY_S: u64 = 86_400;
const FOR_90_DAYS: Validity = Validity {
    not_before_s: NOW_S,
    not_after_s: NOW_S + 90 * DAY_S,
};
const MANDATE: Mandate<'_> = Mandate {
    addresses: (NodeAddr(0x0a07_0080), NodeAddr(0x0a07_00bf)),
    certificates: 1_000,
    validity: FOR_90_DAYS,
    lifetime_s: 30 * DAY_S as u32,
    names: "",
    domains: &["*.example.net"],
    groups: None,
    tags: &[],
};

fn identity(authority: &mut Authority, n: u8) -> Identity {
    let keys = Keys::generate(&[100 + n; 64]);
    let id = authority.network().id();
    let request = keys.request(id, NodeAddr(0x0a07_0000 | u32::from(n)), "ams", &[]);
    let certificate = authority.issue(&request.unwrap(), FOR_90_DAYS).unwrap();
    Identity::new(keys, certificate).unwrap()
}

fn issuer(authority: &mut Authority) -> Issuer {
    let identity = identity(authority, 1);
    let delegation = authority
        .delegate(identity.certificate(), &MANDATE)
        .unwrap();
    Issuer::new(identity, delegation).unwrap()
}

fn newcomer<'a>(domains: &'a [&'a str]) -> Newcomer<'a> {
    let keys = Keys::generate(&[9; 64]);
    let shown = Authority::generate(&[7; 32]).network().id();
    let request = keys
        .request(shown, NodeAddr(0x0a07_0080), "home", &[])
        .unwrap();
    let subject = request.fields().subject;
    Newcomer {
        address: NodeAddr(0x0a07_0080),
        name: "home",
        static_key: subject.static_key,
        signing_key: subject.signing_key,
        domains,
        groups: &[],
        tags: &[],
    }
}

fn granted<'a>(groups: &'a [GroupRange], tags: &'a [&'a str]) -> Grants<'a> {
    Grants { groups, tags }
}

fn tags(certificate: &Certificate) -> Vec<&str> {
    certificate.fields().options.tags().iter().collect()
}

fn first_serial(issuer: &Issuer) -> u32 {
    issuer.delegation().fields().serials.0
}

#[test]
fn what_an_issuer_signs_counts_and_names_its_bearer() {
    let mut authority = Authority::generate(&[1; 32]);
    let issuer = issuer(&mut authority);
    let domains = ["a.example.net"];
    let newcomer = newcomer(&domains);
    let validity = issuer.validity(NOW_S + DAY_S);
    let certificate = issuer
        .issue(&newcomer, first_serial(&issuer), validity)
        .unwrap();
    let peer = authority
        .network()
        .verify(&certificate, NOW_S + DAY_S)
        .unwrap();
    assert_eq!((peer.name(), peer.address()), ("home", newcomer.address));
    assert_eq!(peer.not_after_s(), NOW_S + 31 * DAY_S);
    assert_eq!(
        authority
            .network()
            .verify(&certificate, NOW_S + 31 * DAY_S + 1),
        Err(CertificateError::Expired)
    );
    // The keys are the newcomer's own, so the newcomer can be a node.
    assert!(Identity::new(Keys::generate(&[9; 64]), certificate.clone()).is_ok());
    assert_eq!(
        Certificate::from_text(&certificate.to_text()).unwrap(),
        certificate
    );
    let text = issuer.delegation().to_text();
    assert_eq!(&Delegation::from_text(&text).unwrap(), issuer.delegation());
}

#[test]
fn nothing_counts_longer_than_the_delegation() {
    let mut authority = Authority::generate(&[1; 32]);
    let issuer = issuer(&mut authority);
    let late = issuer.validity(NOW_S + 80 * DAY_S);
    assert_eq!(late.not_after_s, FOR_90_DAYS.not_after_s);
    let too_late = issuer.validity(NOW_S + 91 * DAY_S);
    let refused = issuer.issue(&newcomer(&[]), first_serial(&issuer), too_late);
    assert_eq!(refused, Err(IssueError::NotDelegated));
}

#[test]
fn an_issuer_refuses_what_is_not_delegated() {
    let mut authority = Authority::generate(&[1; 32]);
    let issuer = issuer(&mut authority);
    let (serial, validity) = (first_serial(&issuer), issuer.validity(NOW_S));
    let good = newcomer(&[]);
    assert!(issuer.issue(&good, serial, validity).is_ok());
    let refused = |newcomer: Newcomer<'_>, serial, validity| {
        issuer.issue(&newcomer, serial, validity).unwrap_err()
    };
    let elsewhere = Newcomer {
        address: NodeAddr(0x0a07_0001),
        ..good
    };
    assert_eq!(
        refused(elsewhere, serial, validity),
        IssueError::NotDelegated
    );
    let foreign = Newcomer {
        domains: &["bank.example.org"],
        ..good
    };
    assert_eq!(refused(foreign, serial, validity), IssueError::NotDelegated);
    assert_eq!(
        refused(good, serial - 1, validity),
        IssueError::NotDelegated
    );
    assert_eq!(
        refused(good, serial + 1_000, validity),
        IssueError::NotDelegated
    );
    let longer = Validity {
        not_after_s: validity.not_after_s + 1,
        ..validity
    };
    assert_eq!(refused(good, serial, longer), IssueError::NotDelegated);
    let nameless = Newcomer { name: "", ..good };
    assert!(matches!(
        refused(nameless, serial, validity),
        IssueError::Malformed(_)
    ));
}

/// The power of a captured issuer: its key signs anything, and everybody can read the delegation.
#[test]
fn nodes_refuse_what_a_dishonest_issuer_signs_beyond_its_delegation() {
    let mut authority = Authority::generate(&[1; 32]);
    let honest = issuer(&mut authority);
    // Another network's root delegates everything to the same key; then the delegation is exchanged.
    let mut other = Authority::generate(&[2; 32]);
    let wide = Mandate {
        addresses: (NodeAddr(0x0a07_0001), NodeAddr(0x0a07_00fe)),
        ..MANDATE
    };
    let identity = identity(&mut other, 1);
    let delegation = other.delegate(identity.certificate(), &wide).unwrap();
    let foreign = Issuer::new(identity, delegation).unwrap();
    let validity = foreign.validity(NOW_S);
    let serial = foreign.delegation().fields().serials.0;
    let certificate = foreign.issue(&newcomer(&[]), serial, validity).unwrap();
    assert_eq!(
        authority.network().verify(&certificate, NOW_S),
        Err(CertificateError::WrongNetwork)
    );
    // Each byte of an honest certificate is changed: none of the results is valid.
    let validity = honest.validity(NOW_S);
    let good = honest
        .issue(&newcomer(&[]), first_serial(&honest), validity)
        .unwrap();
    for at in 0..good.as_bytes().len() {
        let mut bytes = good.as_bytes().to_vec();
        bytes[at] ^= 1;
        if let Ok(changed) = Certificate::from_bytes(&bytes) {
            assert!(
                authority.network().verify(&changed, NOW_S).is_err(),
                "byte {at}"
            );
        }
    }
}

#[test]
fn a_certificate_of_an_issuer_certifies_nobody() {
    let mut authority = Authority::generate(&[1; 32]);
    let issuer = issuer(&mut authority);
    let validity = issuer.validity(NOW_S);
    let certificate = issuer
        .issue(&newcomer(&[]), first_serial(&issuer), validity)
        .unwrap();
    assert!(authority.delegate(&certificate, &MANDATE).is_err());
    let identity = Identity::new(Keys::generate(&[9; 64]), certificate).unwrap();
    let stolen = Issuer::new(identity, issuer.delegation().clone());
    assert_eq!(stolen.unwrap_err(), IssueError::OtherKey);
}

#[test]
fn a_revoked_issuer_takes_along_what_it_signed_and_a_revoked_bearer_only_itself() {
    let mut authority = Authority::generate(&[1; 32]);
    let issuer = issuer(&mut authority);
    let validity = issuer.validity(NOW_S);
    let serial = first_serial(&issuer);
    let one = issuer.issue(&newcomer(&[]), serial, validity).unwrap();
    let two = issuer.issue(&newcomer(&[]), serial + 1, validity).unwrap();
    let mut network = authority.network();
    let list = authority.revoke(&one, NOW_S).unwrap();
    assert_eq!(network.apply(&list), Ok(true));
    assert_eq!(network.verify(&one, NOW_S), Err(CertificateError::Revoked));
    assert!(network.verify(&two, NOW_S).is_ok());
    let list = authority
        .revoke_delegation(issuer.delegation(), NOW_S)
        .unwrap();
    assert_eq!(network.apply(&list), Ok(true));
    assert_eq!(network.verify(&two, NOW_S), Err(CertificateError::Revoked));
    assert!(network.has_revoked(&two));
}

#[test]
fn serials_of_the_root_and_of_issuers_never_meet() {
    let mut authority = Authority::generate(&[1; 32]);
    let issuer = issuer(&mut authority);
    let (first, last) = issuer.delegation().fields().serials;
    assert_eq!(last - first, 999);
    let next = identity(&mut authority, 2);
    assert!(next.certificate().fields().serial > last);
    // The serials stay reserved after a restart, too.
    let again = Authority::from_text(&authority.to_text()).unwrap();
    assert_eq!(format!("{again:?}"), format!("{authority:?}"));
}

#[test]
fn an_issuer_lets_nobody_set_more_groups_than_its_delegation_says() {
    let range = |text: &str| text.parse::<GroupRange>().unwrap();
    let mut authority = Authority::generate(&[1; 32]);
    let identity = identity(&mut authority, 1);
    let bound = [range("239.1.0.0/16")];
    let mandate = Mandate {
        groups: Some(&bound),
        ..MANDATE
    };
    let delegation = authority
        .delegate(identity.certificate(), &mandate)
        .unwrap();
    let issuer = Issuer::new(identity, delegation).unwrap();
    let (serial, validity) = (first_serial(&issuer), issuer.validity(NOW_S));
    let asks = |groups: &[GroupRange]| {
        let newcomer = Newcomer {
            groups,
            ..newcomer(&[])
        };
        issuer.issue(&newcomer, serial, validity)
    };
    let given = asks(&[range("239.1.1.0/24")]).unwrap();
    let peer = authority.network().verify(&given, NOW_S).unwrap();
    let fields = peer.certificate().fields();
    assert!(fields.may_set(range("239.1.1.1")) && !fields.may_set(range("239.1.2.1")));
    assert!(!asks(&[]).unwrap().fields().may_set(range("239.1.1.1")));
    for groups in [&[GroupRange::ALL][..], &[range("239.2.0.1")]] {
        assert_eq!(asks(groups), Err(IssueError::NotDelegated));
    }
    assert_eq!(
        fields.subject.domains.iter().count(),
        0,
        "the bound is nobody's domain"
    );
}

#[test]
fn the_authority_gives_rights_and_a_renewal_keeps_them() {
    let range = |text: &str| text.parse::<GroupRange>().unwrap();
    let keys = Keys::generate(&[9; 64]);
    let mut authority = Authority::generate(&[1; 32]);
    let id = authority.network().id();
    let request = keys.request(id, NodeAddr(0x0a07_0007), "ams", &["a.nl"]);
    let request = request.unwrap();
    let rights = |certificate: &Certificate| {
        let rights = certificate.fields().options.rights();
        rights.map(|rights| rights.iter().collect::<Vec<_>>())
    };
    assert_eq!(
        rights(&authority.issue(&request, FOR_90_DAYS).unwrap()),
        None
    );
    let one = [range("239.1.0.0/16")];
    let certificate = authority
        .issue_with(&request, &granted(&one, &[]), FOR_90_DAYS)
        .unwrap();
    assert_eq!(rights(&certificate).unwrap(), one);
    let renewed = authority.renew(&certificate, FOR_90_DAYS).unwrap();
    assert_eq!(rights(&renewed).unwrap(), one);
    let domains: &[&str] = &["b.nl"];
    let changes = Changes {
        domains: Some(domains),
        ..Changes::default()
    };
    let other = authority.renew_for(&renewed, &changes, FOR_90_DAYS);
    assert_eq!(rights(&other.unwrap()).unwrap(), one);
    let changes = Changes {
        groups: Some(&[]),
        ..Changes::default()
    };
    let none = authority.renew_for(&renewed, &changes, FOR_90_DAYS);
    let none = none.unwrap();
    assert_eq!(rights(&none).unwrap(), []);
    let domains: Vec<&str> = none.fields().subject.domains.iter().collect();
    assert_eq!(domains, ["a.nl"]);
    let nine: Vec<GroupRange> = (0..9).map(|i| range(&format!("239.1.1.{i}"))).collect();
    let refused = authority.issue_with(&request, &granted(&nine, &[]), FOR_90_DAYS);
    assert_eq!(refused, Err(secure::AuthorityError::Groups));
}

#[test]
fn an_issuer_gives_the_tags_that_its_delegation_names_and_no_others() {
    let mut authority = Authority::generate(&[1; 32]);
    let identity = identity(&mut authority, 1);
    let mandate = Mandate {
        tags: &["backup", "*-lab"],
        ..MANDATE
    };
    let before = authority
        .delegate(identity.certificate(), &MANDATE)
        .unwrap();
    let delegation = authority
        .delegate(identity.certificate(), &mandate)
        .unwrap();
    let with = |delegation: &Delegation| Issuer::new(identity.clone(), delegation.clone()).unwrap();
    let asks = |issuer: &Issuer, tags: &[&str]| {
        let newcomer = Newcomer {
            tags,
            ..newcomer(&[])
        };
        issuer.issue(&newcomer, first_serial(issuer), issuer.validity(NOW_S))
    };
    let issuer = with(&delegation);
    let given = asks(&issuer, &["x-lab", "backup"]).unwrap();
    let peer = authority.network().verify(&given, NOW_S).unwrap();
    assert_eq!(tags(peer.certificate()), ["backup", "x-lab"]);
    for beyond in [&["backup", "prod"][..], &["lab"], &["Backup"]] {
        let refused = asks(&issuer, beyond);
        assert!(matches!(
            refused,
            Err(IssueError::NotDelegated | IssueError::Malformed(_))
        ));
    }
    // An issuer of an earlier version may give no tags, and a succeeding root delegates the same again.
    assert!(asks(&with(&before), &[]).is_ok());
    assert_eq!(
        asks(&with(&before), &["backup"]),
        Err(IssueError::NotDelegated)
    );
    let again = authority.delegate_again(identity.certificate(), &delegation, NOW_S);
    assert!(asks(&with(&again.unwrap()), &["x-lab"]).is_ok());
    // An issuer that does not check tags, because it does not know them or wants to give more, is not believed.
    let mut forged = given.as_bytes().to_vec();
    // The first occurrence is in the delegation.
    let at = forged.windows(6).rposition(|it| it == b"backup").unwrap();
    forged[at..at + 6].copy_from_slice(b"broker");
    let body = forged.len() - 64;
    let signature = identity.sign(secure::Context::Certificate, &forged[..body]);
    forged[body..].copy_from_slice(&signature);
    let forged = Certificate::from_bytes(&forged).unwrap();
    assert_eq!(
        authority.network().verify(&forged, NOW_S).unwrap_err(),
        CertificateError::NotDelegated
    );
}

#[test]
fn the_authority_gives_tags_and_a_renewal_keeps_them() {
    let keys = Keys::generate(&[9; 64]);
    let mut authority = Authority::generate(&[1; 32]);
    let id = authority.network().id();
    let request = keys.request(id, NodeAddr(0x0a07_0007), "ams", &[]).unwrap();
    let grants = granted(&[], &["site", "backup"]);
    let certificate = authority
        .issue_with(&request, &grants, FOR_90_DAYS)
        .unwrap();
    assert_eq!(tags(&certificate), ["backup", "site"]);
    let renewed = authority.renew(&certificate, FOR_90_DAYS).unwrap();
    assert_eq!(tags(&renewed), ["backup", "site"]);
    let changes = Changes {
        tags: Some(&["site"]),
        ..Changes::default()
    };
    let other = authority
        .renew_for(&renewed, &changes, FOR_90_DAYS)
        .unwrap();
    assert_eq!(tags(&other), ["site"]);
    let changes = Changes {
        tags: Some(&[]),
        ..Changes::default()
    };
    let none = authority.renew_for(&other, &changes, FOR_90_DAYS).unwrap();
    assert!(tags(&none).is_empty());
    let refused = authority.issue_with(&request, &granted(&[], &["Site"]), FOR_90_DAYS);
    assert_eq!(refused, Err(secure::AuthorityError::Tags));
}
