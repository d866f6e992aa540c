//! The life of a certificate, as the command line uses it: request, issue, install, verify, renew, revoke, and the text
//! form of everything that is stored.

use base::NodeAddr;
use secure::armour::ArmourError;
use secure::identity::RequestError;
use secure::network::{CLOCK_SKEW_S, EXPIRY_NOTICE_S, RevocationsError, notice_s};
use secure::{
    Authority, AuthorityError, Certificate, CertificateError, Context, Identity, IdentityError,
    Keys, Network, Request, Revocations, Validity,
};

const NOW_S: u64 = 1_790_000_000;
const YEAR: Validity = Validity {
    not_before_s: NOW_S,
    not_after_s: NOW_S + 365 * 86_400,
};
const AMS: NodeAddr = NodeAddr(0x0a07_0003);

fn authority() -> Authority {
    Authority::generate(&[1; 32])
}

fn request(authority: &Authority, keys: &Keys) -> Request {
    let id = authority.network().id();
    keys.request(id, AMS, "ams", &["voice.example.org"])
        .expect("a good name and address")
}

fn issued(authority: &mut Authority) -> (Keys, Certificate) {
    let keys = Keys::generate(&[2; 64]);
    let request = request(authority, &keys);
    let certificate = authority.issue(&request, YEAR).expect("a good request");
    (keys, certificate)
}

#[test]
fn an_issued_certificate_says_what_was_asked_for() {
    let mut authority = authority();
    let (keys, certificate) = issued(&mut authority);
    let peer = authority.network().verify(&certificate, NOW_S).unwrap();
    assert_eq!(
        (peer.address(), peer.name(), peer.serial()),
        (AMS, "ams", 1)
    );
    assert_eq!(peer.not_after_s(), YEAR.not_after_s);
    let fields = certificate.fields();
    assert_eq!(
        fields.subject.domains.iter().collect::<Vec<_>>(),
        ["voice.example.org"]
    );
    let identity = Identity::new(keys, certificate).unwrap();
    assert_eq!((identity.address(), identity.name()), (AMS, "ams"));
}

#[test]
fn what_a_node_signs_verifies_in_its_context_only() {
    let mut authority = authority();
    let (keys, certificate) = issued(&mut authority);
    let peer = authority.network().verify(&certificate, NOW_S).unwrap();
    let identity = Identity::new(keys, certificate).unwrap();
    let signature = identity.sign(Context::LinkState, b"body");
    assert!(peer.signed(Context::LinkState, b"body", &signature));
    assert!(!peer.signed(Context::Request, b"body", &signature));
    assert!(!peer.signed(Context::LinkState, b"bode", &signature));
}

#[test]
fn time_decides_and_clocks_may_differ_a_little() {
    let mut authority = authority();
    let (_, certificate) = issued(&mut authority);
    let network = authority.network();
    let at = |now_s| network.verify(&certificate, now_s).map(|_| ());
    let first = YEAR.not_before_s - CLOCK_SKEW_S;
    assert_eq!(at(first - 1), Err(CertificateError::NotYetValid));
    assert_eq!(at(first), Ok(()));
    assert_eq!(at(YEAR.not_after_s), Ok(()));
    assert_eq!(at(YEAR.not_after_s + 1), Err(CertificateError::Expired));
    assert_eq!(at(0), Err(CertificateError::NotYetValid));
    assert_eq!(at(u64::MAX), Err(CertificateError::Expired));
}

#[test]
fn another_network_and_any_changed_byte_are_refused() {
    let mut authority = authority();
    let (_, certificate) = issued(&mut authority);
    let network = authority.network();
    let other = Authority::generate(&[9; 32]).network();
    assert_eq!(
        other.verify(&certificate, NOW_S),
        Err(CertificateError::WrongNetwork)
    );
    let mut parsed = 0;
    for at in 0..certificate.as_bytes().len() {
        let mut bytes = certificate.as_bytes().to_vec();
        bytes[at] ^= 1;
        let Ok(changed) = Certificate::from_bytes(&bytes) else {
            continue;
        };
        parsed += 1;
        let expected = if (1..9).contains(&at) {
            CertificateError::WrongNetwork
        } else {
            CertificateError::BadSignature
        };
        assert_eq!(network.verify(&changed, NOW_S), Err(expected), "byte {at}");
    }
    assert!(parsed > 150, "most changes keep the form: {parsed}");
}

#[test]
fn renewal_keeps_the_keys_and_raises_the_serial() {
    let mut authority = authority();
    let (keys, certificate) = issued(&mut authority);
    let later = Validity {
        not_before_s: YEAR.not_after_s - 100,
        not_after_s: YEAR.not_after_s + 1_000,
    };
    let renewed = authority.renew(&certificate, later).unwrap();
    assert_eq!(renewed.fields().subject, certificate.fields().subject);
    assert!(renewed.fields().serial > certificate.fields().serial);
    let identity = Identity::new(keys, renewed).unwrap();
    assert_eq!(
        identity.certificate().fields().not_after_s,
        later.not_after_s
    );
}

#[test]
fn the_end_of_a_short_certificate_is_shown_late_in_its_life() {
    let mut authority = authority();
    let (_, certificate) = issued(&mut authority);
    assert_eq!(notice_s(&certificate), EXPIRY_NOTICE_S);
    let month = Validity {
        not_before_s: NOW_S,
        not_after_s: NOW_S + 30 * 86_400,
    };
    let renewed = authority.renew(&certificate, month).unwrap();
    assert_eq!(notice_s(&renewed), 5 * 86_400);
}

#[test]
fn a_revoked_certificate_counts_no_more() {
    let mut authority = authority();
    let (_, certificate) = issued(&mut authority);
    let mut network = authority.network();
    let list = authority.revoke(&certificate, NOW_S).unwrap();
    assert!(network.verify(&certificate, NOW_S).is_ok());
    assert_eq!(network.apply(&list), Ok(true));
    assert!(network.is_revoked(1) && !network.is_revoked(2));
    assert_eq!(
        network.verify(&certificate, NOW_S),
        Err(CertificateError::Revoked)
    );
    assert_eq!(network.apply(&list), Ok(false), "no news");
    assert_eq!(network.revocations(), Some(&list));

    let renewed = authority.renew(&certificate, YEAR).unwrap();
    assert!(network.verify(&renewed, NOW_S).is_ok(), "it is the serial");
    let longer = authority.revoke(&renewed, NOW_S).unwrap();
    assert_eq!(network.apply(&longer), Ok(true));
    assert_eq!(network.apply(&list), Ok(false), "never back to an old list");
    assert!(network.is_revoked(2));
    assert_eq!(network.revocations_version(), 2);
}

#[test]
fn a_list_of_another_root_or_with_a_changed_byte_is_not_taken() {
    let mut authority = authority();
    let (_, certificate) = issued(&mut authority);
    let list = authority.revoke(&certificate, NOW_S).unwrap();
    let mut other = Authority::generate(&[9; 32]).network();
    assert_eq!(other.apply(&list), Err(RevocationsError::BadSignature));
    let mut network = authority.network();
    for at in 0..list.as_bytes().len() {
        let mut bytes = list.as_bytes().to_vec();
        bytes[at] ^= 2;
        if let Ok(changed) = Revocations::from_bytes(&bytes) {
            assert_eq!(
                network.apply(&changed),
                Err(RevocationsError::BadSignature),
                "byte {at}"
            );
        }
    }
    assert_eq!(network.revocations(), None);
}

#[test]
fn the_list_forgets_what_has_expired_and_has_a_limit() {
    let mut authority = authority();
    let (_, first) = issued(&mut authority);
    let mut last = first.clone();
    for _ in 0..256 {
        last = authority.renew(&last, YEAR).unwrap();
        authority.revoke(&last, NOW_S).unwrap();
    }
    assert_eq!(
        authority.revoke(&first, NOW_S),
        Err(AuthorityError::ListFull)
    );
    assert_eq!(
        authority.revocations(NOW_S).fields().serials.iter().count(),
        256
    );
    let after = YEAR.not_after_s + CLOCK_SKEW_S + 1;
    let list = authority.revoke(&first, after).unwrap();
    assert_eq!(list.fields().serials.iter().collect::<Vec<_>>(), [1]);
}

#[test]
fn the_authority_signs_only_what_is_in_order() {
    let mut authority = authority();
    let keys = Keys::generate(&[2; 64]);
    let good = request(&authority, &keys);
    let backwards = Validity {
        not_before_s: 2,
        not_after_s: 1,
    };
    assert_eq!(
        authority.issue(&good, backwards),
        Err(AuthorityError::Validity)
    );
    let elsewhere = request(&Authority::generate(&[9; 32]), &keys);
    assert_eq!(
        authority.issue(&elsewhere, YEAR),
        Err(AuthorityError::WrongNetwork)
    );
    let mut bytes = good.as_bytes().to_vec();
    bytes[12] ^= 1; // another address
    let changed = Request::from_bytes(&bytes).unwrap();
    assert_eq!(
        authority.issue(&changed, YEAR),
        Err(AuthorityError::BadSignature)
    );
    let (_, foreign) = issued(&mut Authority::generate(&[9; 32]));
    assert_eq!(
        authority.renew(&foreign, YEAR),
        Err(AuthorityError::WrongNetwork)
    );
    assert_eq!(
        authority.revoke(&foreign, NOW_S),
        Err(AuthorityError::WrongNetwork)
    );
}

#[test]
fn requests_say_what_is_wrong_with_them() {
    let (keys, id) = (Keys::generate(&[2; 64]), authority().network().id());
    let ask = |address, name: &str, domains: &[&str]| keys.request(id, address, name, domains);
    let group = NodeAddr(0xef01_0203);
    assert_eq!(ask(group, "ams", &[]), Err(RequestError::Address));
    assert_eq!(ask(AMS, "", &[]), Err(RequestError::Name));
    assert_eq!(ask(AMS, "a\nb", &[]), Err(RequestError::Name));
    assert_eq!(ask(AMS, "ams", &["a b"]), Err(RequestError::Domains));
    assert_eq!(ask(AMS, "ams", &["a"; 17]), Err(RequestError::Domains));
    let long = "d".repeat(250);
    let long = long.as_str();
    assert_eq!(ask(AMS, "ams", &[long; 4]), Err(RequestError::TooLong));
    let mut authority = authority();
    let longest = ask(AMS, "ams", &[long; 3]).unwrap();
    assert!(authority.issue(&longest, YEAR).is_ok());
}

#[test]
fn keys_and_certificate_must_belong_together() {
    let mut authority = authority();
    let (_, certificate) = issued(&mut authority);
    let other = Keys::generate(&[3; 64]);
    assert_eq!(
        Identity::new(other, certificate).map(|_| ()),
        Err(IdentityError::OtherKey)
    );
}

#[test]
fn everything_stored_comes_back() {
    let mut authority = authority();
    let (keys, certificate) = issued(&mut authority);
    let list = authority.revoke(&certificate, NOW_S).unwrap();
    let request = request(&authority, &keys);

    let file = [
        keys.to_text().as_str(),
        certificate.to_text().as_str(),
        authority.network().to_text().as_str(),
        list.to_text().as_str(),
        request.to_text().as_str(),
    ]
    .concat();
    assert_eq!(Certificate::from_text(&file).unwrap(), certificate);
    assert_eq!(Revocations::from_text(&file).unwrap(), list);
    assert_eq!(Request::from_text(&file).unwrap(), request);
    assert_eq!(
        Network::from_text(&file).unwrap().id(),
        authority.network().id()
    );
    let keys = Keys::from_text(&file).unwrap();
    assert!(Identity::new(keys, certificate.clone()).is_ok());

    let mut restored = Authority::from_text(&authority.to_text()).unwrap();
    let (a, b) = (
        authority.renew(&certificate, YEAR),
        restored.renew(&certificate, YEAR),
    );
    assert_eq!(a, b, "the same key and the same next serial");
    let lists = (authority.revocations(NOW_S), restored.revocations(NOW_S));
    assert_eq!(lists.0, lists.1);
}

#[test]
fn a_file_that_cannot_be_read_says_what_to_do() {
    let text = authority().network().to_text();
    assert_eq!(
        Keys::from_text(&text).map(|_| ()),
        Err(ArmourError::Missing("SINEW NODE KEY"))
    );
    for cut in 0..text.len() - 1 {
        assert!(Network::from_text(&text[..cut]).is_err(), "cut at {cut}");
    }
    let text = authority().to_text();
    for cut in 0..text.len() - 1 {
        assert!(Authority::from_text(&text[..cut]).is_err(), "cut at {cut}");
    }
    for (label, body) in [
        ("SINEW NETWORK", ""),
        ("SINEW NETWORK", "AA=="),
        ("SINEW NETWORK", "AQ=="),
        ("SINEW NODE KEY", "AQIDBA=="),
        ("SINEW NETWORK KEY", "AQIDBA=="),
        ("SINEW CERTIFICATE", "AQIDBA=="),
    ] {
        let text = format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n");
        let content = |error: ArmourError| matches!(error, ArmourError::Content { .. });
        match label {
            "SINEW NETWORK" => assert!(content(Network::from_text(&text).unwrap_err())),
            "SINEW NODE KEY" => assert!(content(Keys::from_text(&text).unwrap_err())),
            "SINEW NETWORK KEY" => assert!(content(Authority::from_text(&text).unwrap_err())),
            _ => assert!(content(Certificate::from_text(&text).unwrap_err())),
        }
    }
}

#[test]
fn secrets_do_not_show() {
    let (authority, keys) = (authority(), Keys::generate(&[0x77; 64]));
    let shown = format!("{authority:?} {keys:?}");
    let secret = format!("{:?}", [0x77u8; 4]);
    let inner = secret.trim_matches(['[', ']']);
    assert!(!shown.contains(inner) && !shown.contains("1, 1, 1, 1"));
}
