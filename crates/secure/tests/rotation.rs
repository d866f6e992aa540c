//! A network gets a new root key: what is valid then, for how long, and which keys lose their power.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use base::NodeAddr;
use proptest::prelude::*;
use secure::network::RevocationsError;
use secure::{
    Authority, AuthorityError, Certificate, CertificateError, Identity, Issuer, Keys, Mandate,
    Network, Newcomer, SuccessionError, Validity,
};
use wire::bytes::{Reader, Writer};
use wire::certificate::{self as format, GroupRange, MAX_SUCCESSIONS, Rights, Said, Succession};

const NOW_S: u64 = 1_790_000_000;
const DAY_S: u64 = 86_400;
const YEAR: Validity = Validity {
    not_before_s: NOW_S,
    not_after_s: NOW_S + 365 * DAY_S,
};
/// The end of the old root's validity, unless a test sets another.
const UNTIL_S: u64 = NOW_S + 30 * DAY_S;

fn authority() -> Authority {
    Authority::generate(&[1; 32])
}

fn keys(n: u8) -> Keys {
    Keys::generate(&[100 + n; 64])
}

fn issue(authority: &mut Authority, n: u8) -> Certificate {
    let id = authority.network().id();
    let address = NodeAddr(0x0a07_0000 | u32::from(n));
    let request = keys(n).request(id, address, "ams", &[]).unwrap();
    authority.issue(&request, YEAR).unwrap()
}

fn rotate(authority: &mut Authority, n: u8, until_s: u64) -> Succession {
    authority.rotate(&[n; 32], until_s, NOW_S).unwrap()
}

#[test]
fn the_old_root_counts_for_a_while_and_the_network_keeps_its_id() {
    let mut authority = authority();
    let (id, old) = (authority.network().id(), issue(&mut authority, 1));
    let mut network = authority.network();
    let succession = rotate(&mut authority, 2, UNTIL_S);
    let new = issue(&mut authority, 2);
    assert_eq!(
        network.verify(&new, NOW_S),
        Err(CertificateError::NewerRoot)
    );
    assert_eq!(network.succeed(&succession), Ok(true));
    assert_eq!(network.succeed(&succession), Ok(false), "known by now");
    assert_eq!((network.id(), network.root_number()), (id, 1));
    assert_eq!(network.root_key(), authority.network().root_key());

    let peer = network.verify(&new, NOW_S).unwrap();
    assert_eq!((peer.root(), peer.not_after_s()), (1, YEAR.not_after_s));
    let peer = network.verify(&old, UNTIL_S).unwrap();
    assert_eq!((peer.root(), peer.not_after_s()), (0, UNTIL_S));
    assert_eq!(
        network.verify(&old, UNTIL_S + 1),
        Err(CertificateError::OldRoot)
    );
    assert!(network.counts(0, UNTIL_S) && !network.counts(0, UNTIL_S + 1));
    assert!(network.counts(1, u64::MAX) && !network.counts(2, NOW_S));

    let renewed = authority.renew(&old, YEAR).unwrap();
    assert_eq!(network.root_of(&renewed), Some(1));
    assert!(renewed.fields().serial > new.fields().serial);
    assert!(network.verify(&renewed, UNTIL_S + 1).is_ok());
}

#[test]
fn the_first_word_counts_and_a_thief_of_the_old_root_is_late() {
    let mut thief = authority();
    let mut authority = authority();
    let mut network = authority.network();
    let first = rotate(&mut authority, 2, UNTIL_S);
    let rival = rotate(&mut thief, 3, UNTIL_S + 1);
    network.succeed(&first).unwrap();
    assert_eq!(network.succeed(&rival), Err(SuccessionError::Rival));
    // The thief cannot continue behind his own root either.
    let second = rotate(&mut thief, 4, UNTIL_S);
    assert_eq!(network.succeed(&second), Err(SuccessionError::BadSignature));
    assert_eq!(network.adopt(&thief.network()), Err(SuccessionError::Rival));
    let forged = issue(&mut thief, 9);
    assert_eq!(
        network.verify(&forged, NOW_S),
        Err(CertificateError::NewerRoot)
    );
    assert!(!network.learn(&forged));
    assert_eq!(network.root_number(), 1);
}

#[test]
fn a_succession_needs_both_keys_and_a_new_one() {
    let mut authority = authority();
    let network = authority.network();
    let good = rotate(&mut authority, 2, UNTIL_S);
    let refused = |change: &dyn Fn(&mut Succession)| {
        let mut changed = good;
        change(&mut changed);
        network.clone().succeed(&changed).unwrap_err()
    };
    let unsigned = SuccessionError::BadSignature;
    assert_eq!(refused(&|it| it.until_s += 1), unsigned);
    assert_eq!(refused(&|it| it.root[0] ^= 1), unsigned);
    assert_eq!(refused(&|it| it.by_old[0] ^= 1), unsigned);
    assert_eq!(refused(&|it| it.by_new[0] ^= 1), unsigned);
    assert_eq!(refused(&|it| it.number = 2), SuccessionError::Gap);
    assert_eq!(
        refused(&|it| it.network.0[0] ^= 1),
        SuccessionError::WrongNetwork
    );
    let mut known = network.clone();
    known.succeed(&good).unwrap();
    let back = rotate(&mut authority, 1, UNTIL_S);
    assert_eq!(known.succeed(&back), Err(SuccessionError::WeakKey));
}

#[test]
fn a_node_that_slept_learns_of_the_new_root_by_a_certificate() {
    let mut authority = authority();
    let mut sleeper = authority.network();
    rotate(&mut authority, 2, UNTIL_S);
    let new = issue(&mut authority, 2);
    assert!(sleeper.learn(&new) && !sleeper.learn(&new));
    assert!(sleeper.verify(&new, NOW_S).is_ok());
    // A node that missed two rotations lacks the root in between.
    let mut sleeper = authority.network();
    rotate(&mut authority, 3, UNTIL_S);
    rotate(&mut authority, 4, UNTIL_S);
    let newest = issue(&mut authority, 3);
    assert!(!sleeper.learn(&newest));
    assert_eq!(
        sleeper.verify(&newest, NOW_S),
        Err(CertificateError::NewerRoot)
    );
    assert_eq!(sleeper.adopt(&authority.network()), Ok(true));
    assert_eq!(sleeper.adopt(&authority.network()), Ok(false));
    assert!(sleeper.verify(&newest, NOW_S).is_ok());
}

#[test]
fn where_domains_leave_no_room_the_certificate_goes_without_the_proof() {
    let mut authority = authority();
    let label = "a".repeat(62);
    let long = [&label, &label, &label, &label]
        .map(String::as_str)
        .join(".");
    let domains = [long.as_str(), &long[1..], &long[2..]];
    let id = authority.network().id();
    let request = keys(1).request(id, NodeAddr(0x0a07_0001), "ams", &domains);
    let before = authority.issue(&request.unwrap(), YEAR).unwrap();
    rotate(&mut authority, 2, UNTIL_S);
    let after = authority.renew(&before, YEAR).unwrap();
    assert_eq!(after.fields().options.succession(), None);
    assert!(authority.network().verify(&after, NOW_S).is_ok());
}

#[test]
fn only_the_newest_root_revokes_and_its_list_beats_every_version_of_the_old_one() {
    let mut authority = authority();
    let (one, two) = (issue(&mut authority, 1), issue(&mut authority, 2));
    let mut thief = authority.clone();
    let mut network = authority.network();
    let first = authority.revoke(&one, NOW_S).unwrap();
    network.apply(&first).unwrap();
    // The thief revokes a node before the new root is known.
    let mut text = thief.to_text().to_string();
    while thief.revocations(NOW_S).fields().version < 40 {
        thief.revoke(&two, NOW_S).unwrap();
        text = thief.to_text().to_string();
    }
    let thiefs = Authority::from_text(&text).unwrap().revocations(NOW_S);
    assert_eq!(network.apply(&thiefs), Ok(true));
    let succession = rotate(&mut authority, 2, UNTIL_S);
    network.succeed(&succession).unwrap();
    assert_eq!(
        network.revocations_edition(),
        (0, 40),
        "in force until then"
    );
    let new = authority.revocations(NOW_S);
    assert!(new.fields().version < 40);
    assert_eq!(network.apply(&new), Ok(true));
    assert_eq!(network.revocations_edition(), (1, new.fields().version));
    assert!(network.is_revoked(1) && !network.is_revoked(2));
    assert_eq!(network.apply(&new), Ok(false));
    let later = thief.revoke(&one, NOW_S).unwrap();
    assert_eq!(network.apply(&later), Err(RevocationsError::BadSignature));
    assert_eq!(
        network.restore(&later),
        Ok(false),
        "older, whatever its version"
    );

    // A starting node reads the chain first and then the list, whichever root signed it.
    let mut started = Network::from_text(&network.to_text()).unwrap();
    assert_eq!(started.apply(&first), Err(RevocationsError::BadSignature));
    assert_eq!(started.restore(&first), Ok(true));
    assert_eq!(started.restore(&new), Ok(true));
}

#[test]
fn delegations_go_on_under_the_new_root_and_issuers_know_whom_to_renew() {
    let mut authority = authority();
    let own = issue(&mut authority, 1);
    let mandate = Mandate {
        addresses: (NodeAddr(0x0a07_0080), NodeAddr(0x0a07_00bf)),
        certificates: 100,
        validity: YEAR,
        lifetime_s: 30 * DAY_S as u32,
        names: "-lab",
        domains: &["*.example.net"],
        groups: Some(&[]),
        tags: &[],
    };
    let before = authority.delegate(&own, &mandate).unwrap();
    let issuer = |delegation, network: &Network| {
        let identity = Identity::new(keys(1), own.clone()).unwrap();
        Issuer::new(identity, delegation)
            .unwrap()
            .of_network(network)
    };
    let old_issuer = issuer(before.clone(), &authority.network());
    let newcomer = Newcomer {
        address: NodeAddr(0x0a07_0080),
        name: "home-lab",
        static_key: [7; 32],
        signing_key: own.fields().subject.signing_key,
        domains: &[],
        groups: &[],
        tags: &[],
    };
    let serial = before.fields().serials.0;
    let old = old_issuer.issue(&newcomer, serial, old_issuer.validity(NOW_S));
    let old = old.unwrap();
    assert!(!old_issuer.outdates(&old));

    rotate(&mut authority, 2, UNTIL_S);
    let network = authority.network();
    let again = authority.delegate_again(&own, &before, NOW_S).unwrap();
    let (a, b) = (before.fields(), again.fields());
    assert_eq!(
        (a.addresses, a.names, a.lifetime_s),
        (b.addresses, b.names, b.lifetime_s)
    );
    assert_eq!(
        (a.domains, a.bound(), a.not_after_s),
        (b.domains, b.bound(), b.not_after_s)
    );
    assert!(b.serials.0 > a.serials.1 && b.serials.1 - b.serials.0 == 99);
    let new_issuer = issuer(again, &network);
    assert!(new_issuer.outdates(&old));
    let serial = new_issuer.delegation().fields().serials.0;
    let new = new_issuer.issue(&newcomer, serial, new_issuer.validity(NOW_S));
    let new = new.unwrap();
    assert!(!new_issuer.outdates(&new));
    assert_eq!(
        (network.root_of(&old), network.root_of(&new)),
        (Some(0), Some(1))
    );
    let late = UNTIL_S.min(old.fields().not_after_s) + 1;
    assert!(network.verify(&old, late).is_err());
    let mut sleeper = Authority::generate(&[1; 32]).network();
    assert!(sleeper.learn(&new), "members bring the proof, too");
    assert!(sleeper.verify(&new, NOW_S).is_ok());
    // The old root's delegations end with it, even before they are listed.
    let list = authority.revoke_delegation(&before, NOW_S).unwrap();
    assert_eq!(list.fields().serials.iter().count(), 1);
}

/// The `network.key` of a network that never rotated, in the format before successions existed: serial 7 is next, the
/// list has version 3 and serial 2.
const KEY_BEFORE: &str = "\
-----BEGIN SINEW NETWORK KEY-----
AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAAAABwAAAAMAAAACAAAA
AHE/swA=
-----END SINEW NETWORK KEY-----
";
/// The `network.pub` of that network.
const PUBLIC_BEFORE: &str = "\
-----BEGIN SINEW NETWORK-----
AYqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c
-----END SINEW NETWORK-----
";

#[test]
fn files_hold_the_chain_and_those_of_networks_that_never_rotated_stay_as_they_were() {
    let mut authority = Authority::from_text(KEY_BEFORE).unwrap();
    assert_eq!(*authority.to_text(), KEY_BEFORE);
    assert_eq!(authority.network().to_text(), PUBLIC_BEFORE);
    let public = Network::from_text(PUBLIC_BEFORE).unwrap();
    assert_eq!(public.to_text(), PUBLIC_BEFORE);
    assert_eq!(public.root_number(), 0);
    assert_eq!(authority.revocations(NOW_S).fields().version, 3);
    assert_eq!(issue(&mut authority.clone(), 1).fields().serial, 7);
    rotate(&mut authority, 2, UNTIL_S);
    rotate(&mut authority, 3, UNTIL_S - 1);
    let certificate = issue(&mut authority, 1);
    authority.revoke(&certificate, NOW_S).unwrap();
    let again = Authority::from_text(&authority.to_text()).unwrap();
    assert_eq!(*again.to_text(), *authority.to_text());
    assert_eq!(again.network().to_text(), authority.network().to_text());
    let network = Network::from_text(&authority.network().to_text()).unwrap();
    assert_eq!(network.successions(), authority.network().successions());
    assert_eq!(
        network.counts_until_s(0),
        Some(UNTIL_S - 1),
        "the least of all later ones"
    );
    assert!(!format!("{:?}", authority).contains("root: "));
    assert_eq!(network.id(), public.id());
    let other = Authority::generate(&[9; 32]);
    let mut mixed = other.network();
    assert!(mixed.extend(&network.chain_bytes()).is_err());
    assert!(network.clone().extend(&network.chain_bytes()[1..]).is_err());
}

#[test]
fn a_network_has_so_many_roots_at_most() {
    let mut authority = authority();
    for n in 0..MAX_SUCCESSIONS as u8 {
        rotate(&mut authority, 10 + n, UNTIL_S);
    }
    let one_more = authority.rotate(&[99; 32], UNTIL_S, NOW_S);
    assert_eq!(one_more, Err(AuthorityError::NoRoot));
    let network = Network::from_text(&authority.network().to_text()).unwrap();
    assert_eq!(usize::from(network.root_number()), MAX_SUCCESSIONS);
}

/// Returns a node's request with these options, correctly signed by the node.
fn request_with(authority: &Authority, options: &[u8]) -> secure::Request {
    let id = authority.network().id();
    let plain = keys(1)
        .request(id, NodeAddr(0x0a07_0001), "ams", &[])
        .unwrap();
    let fields = format::Request {
        options: format::Options::parse(&mut Reader::new(options)).unwrap(),
        ..plain.fields()
    };
    let certificate = issue(&mut authority.clone(), 1);
    let identity = Identity::new(keys(1), certificate).unwrap();
    let mut room = [0; format::MAX_CERTIFICATE_BYTES];
    let mut w = Writer::new(&mut room);
    fields.emit(&mut w).unwrap();
    let bytes = w.written_mut();
    let end = bytes.len() - 64;
    let signature = identity.sign(secure::Context::Request, &bytes[..end]);
    bytes[end..].copy_from_slice(&signature);
    secure::Request::from_bytes(bytes).unwrap()
}

#[test]
fn a_request_smuggles_nothing_into_a_certificate() {
    let mut authority = authority();
    let mut rights = [0; format::MAX_RIGHTS_BYTES];
    let mut w = Writer::new(&mut rights);
    Rights::emit(&[GroupRange::ALL], &mut w).unwrap();
    let rights = Rights::parse(w.written()).unwrap();
    let succession = rotate(&mut authority.clone(), 9, UNTIL_S);
    let said = Said {
        rights: Some(rights),
        succession: Some(&succession),
        tags: format::Tags::parse(b"\x06backup").unwrap(),
        ..Said::default()
    };
    let unknown = [0, 4, 0x11, 2, 1, 2];
    let unknown = format::Options::parse(&mut Reader::new(&unknown)).unwrap();
    let mut room = [0; format::MAX_OPTIONS_BYTES];
    let mut w = Writer::new(&mut room);
    unknown.emit_with(&said, &mut w).unwrap();
    let request = request_with(&authority, w.written());
    assert_eq!(request.fields().options.rights(), Some(rights));
    let plain = authority.issue(&request, YEAR).unwrap();
    assert_eq!(plain.fields().options, format::Options::NONE);
    let bounded = authority
        .issue_with(&request, &secure::Grants::default(), YEAR)
        .unwrap();
    let options = bounded.fields().options;
    assert_eq!(
        (options.rights(), options.succession()),
        (Some(Rights::NONE), None)
    );
    assert_eq!(bounded.as_bytes().len(), plain.as_bytes().len() + 2);
}

/// A model of a network that is as simple as possible: the keys in order, and the end of each.
#[derive(Clone, Debug, Default)]
struct Model {
    known: Vec<(u8, u64)>,
}

impl Model {
    fn counts(&self, root: usize, now_s: u64) -> bool {
        root <= self.known.len()
            && self.known[root..]
                .iter()
                .all(|(_, until_s)| now_s <= *until_s)
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// The holder of the secrets of the first `of` roots makes a successor of the last of these.
    Succeed { of: usize, seed: u8, until_s: u64 },
    /// The succession that was made with this number arrives again.
    Again(usize),
    /// A certificate is judged that was signed by the root of the holder of this number.
    Judge { of: usize, now_s: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let moment = NOW_S..NOW_S + 100;
    prop_oneof![
        (0..4usize, 2..9u8, moment.clone()).prop_map(|(of, seed, until_s)| Step::Succeed {
            of,
            seed,
            until_s
        }),
        (0..8usize).prop_map(Step::Again),
        (0..4usize, moment).prop_map(|(of, now_s)| Step::Judge { of, now_s }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Whatever arrives in whatever order: for each number, the first succession that follows the known ones counts.
    #[test]
    fn a_chain_is_what_a_naive_model_says(steps in prop::collection::vec(step(), 1..24)) {
        let mut network = authority().network();
        let mut model = Model::default();
        // The holders of the secrets of each known root: index 0 is the first key's.
        let mut holders = vec![authority()];
        let mut made: Vec<(usize, u8, u64, Authority, Succession)> = Vec::new();
        for step in steps {
            match step {
                Step::Succeed { of, seed, until_s } => {
                    let of = of.min(holders.len() - 1);
                    let mut maker = holders[of].clone();
                    let succession = rotate(&mut maker, seed, until_s);
                    made.push((of, seed, until_s, maker, succession));
                }
                Step::Again(_) if made.is_empty() => continue,
                Step::Again(_) => {}
                Step::Judge { of, now_s } => {
                    let of = of.min(holders.len() - 1);
                    let certificate = issue(&mut holders[of].clone(), 1);
                    let counts = network.verify(&certificate, now_s).is_ok();
                    prop_assert_eq!(counts, model.counts(of, now_s), "root {} at {}", of, now_s);
                    continue;
                }
            }
            let at = match step {
                Step::Again(at) => at % made.len(),
                _ => made.len() - 1,
            };
            let (of, seed, until_s, maker, succession) = made[at].clone();
            let was_root = seed == 1 || model.known.iter().any(|(known, _)| *known == seed);
            let expected = match model.known.get(of) {
                Some(known) if *known == (seed, until_s) => Ok(false),
                Some(_) => Err(SuccessionError::Rival),
                None if was_root => Err(SuccessionError::WeakKey),
                None => Ok(true),
            };
            prop_assert_eq!(network.succeed(&succession), expected);
            if expected == Ok(true) {
                model.known.push((seed, until_s));
                holders.push(maker);
            }
            prop_assert_eq!(usize::from(network.root_number()), model.known.len());
            let again = Network::from_text(&network.to_text()).unwrap();
            prop_assert_eq!(again.successions(), network.successions());
        }
    }
}
