//! Fuzz targets of `secure`: data from files and from floods, and attacks on handshakes and encrypted datagrams, as a
//! sequence of operations.

use std::sync::OnceLock;

use base::{Duration, NodeAddr, Time, UnderlayAddr};
use ring::{digest, hmac};
use secure::{
    Authority, Certificate, Delegation, Handshakes, Identity, Issuer, Keys, Mandate, Network,
    Newcomer, Outcome, PostQuantum, Request, Revocations, Session, Validity,
};
use wire::bytes::Writer;
use wire::certificate::{GroupRange, MAX_REVOCATIONS_BYTES, MAX_TAGS_BYTES, Succession, Tags};
use wire::handshake::{MAC_BYTES, init};
use wire::link::{Kind, SEAL_BYTES};

use crate::Target;

pub(crate) const TARGETS: &[Target] = &[
    ("secure_certificate", certificate),
    ("secure_delegation", delegation),
    ("secure_request", request),
    ("secure_revocations", revocations),
    ("secure_succession", succession),
    ("secure_text", text),
    ("secure_datagram", datagram),
    ("secure_handshake", handshake),
    ("secure_session", session),
];

const NOW_S: u64 = 1_790_000_000;

/// A network of two nodes, the same in every run.
struct Fixture {
    authority: Authority,
    network: Network,
    nodes: [Identity; 2],
    /// The delegation that lets the second node certify others.
    delegation: Delegation,
    /// The certificate of a node that it has certified.
    member: Certificate,
    /// The authority after a rotation of its root key.
    rotated: Authority,
}

fn fixture() -> &'static Fixture {
    static FIXTURE: OnceLock<Fixture> = OnceLock::new();
    FIXTURE.get_or_init(|| {
        let mut authority = Authority::generate(&[1; 32]);
        let network = authority.network();
        let validity = Validity {
            not_before_s: NOW_S,
            not_after_s: NOW_S + 86_400,
        };
        let nodes = [1u8, 2].map(|n| {
            let keys = Keys::generate(&[n; 64]);
            let address = NodeAddr(0x0a07_0000 | u32::from(n));
            let request = keys
                .request(network.id(), address, "node", &["a.example"])
                .expect("a good name");
            let certificate = authority.issue(&request, validity).expect("a good request");
            Identity::new(keys, certificate).expect("its own certificate")
        });
        let mandate = Mandate {
            addresses: (NodeAddr(0x0a07_0080), NodeAddr(0x0a07_00bf)),
            certificates: 100,
            validity,
            lifetime_s: 3_600,
            names: "",
            domains: &["*.example"],
            groups: None,
            tags: &[],
        };
        let issuer = nodes[1].clone();
        let delegation = authority.delegate(issuer.certificate(), &mandate);
        let delegation = delegation.expect("a good mandate");
        let issuer = Issuer::new(issuer, delegation.clone()).expect("its own delegation");
        let newcomer = Newcomer {
            address: NodeAddr(0x0a07_0080),
            name: "home",
            static_key: [7; 32],
            signing_key: nodes[0].certificate().fields().subject.signing_key,
            domains: &["b.example"],
            groups: &[GroupRange::ALL],
            tags: &[],
        };
        let serial = delegation.fields().serials.0;
        let member = issuer.issue(&newcomer, serial, issuer.validity(NOW_S));
        let mut rotated = authority.clone();
        let succeeded = rotated.rotate(&[3; 32], NOW_S + 3_600, NOW_S);
        succeeded.expect("the first of sixteen");
        Fixture {
            member: member.expect("within the delegation"),
            rotated,
            authority,
            network,
            nodes,
            delegation,
        }
    })
}

fn nodes() -> [Handshakes; 2] {
    let fixture = fixture();
    [0u8, 1].map(|n| {
        let identity = fixture.nodes[usize::from(n)].clone();
        Handshakes::new(identity, fixture.network.clone(), [n; 32], Time::ZERO)
    })
}

fn at(n: usize) -> UnderlayAddr {
    UnderlayAddr {
        port: n as u16,
        ..UnderlayAddr::default()
    }
}

/// Each value has one encoding. Only certificates that the root key signed are valid.
fn certificate(data: &[u8]) {
    let Ok(certificate) = Certificate::from_bytes(data) else {
        return;
    };
    written_again(data, |w| certificate.fields().emit(w));
    assert_eq!(
        Certificate::from_text(&certificate.to_text()),
        Ok(certificate.clone())
    );
    let fields = certificate.fields();
    let groups = fields.groups();
    assert!(groups.iter().all(|range| fields.may_set(*range)));
    if let Some(rights) = fields.options.rights() {
        let is_given = |range: &GroupRange| rights.covers(*range);
        assert!(groups.iter().all(is_given));
    }
    let tags: Vec<&str> = fields.options.tags().iter().collect();
    if !tags.is_empty() {
        let mut room = [0; MAX_TAGS_BYTES];
        let mut w = Writer::new(&mut room);
        Tags::emit(&tags, &mut w).expect("they were read");
        let again = Tags::parse(w.written());
        assert_eq!(again, Ok(fields.options.tags()));
    }
    if fixture().network.verify(&certificate, NOW_S).is_ok() {
        let nodes = fixture().nodes.iter().map(Identity::certificate);
        let mut issued = nodes.chain([&fixture().member]);
        assert!(issued.any(|issued| *issued == certificate));
    }
}

/// Each value has one encoding. Only delegations that the root key signed can be revoked.
fn delegation(data: &[u8]) {
    let Ok(delegation) = Delegation::from_bytes(data) else {
        return;
    };
    written_again(data, |w| delegation.fields().emit(w));
    let mut authority = fixture().authority.clone();
    if authority.revoke_delegation(&delegation, NOW_S).is_ok() {
        assert_eq!(delegation, fixture().delegation);
    }
}

fn request(data: &[u8]) {
    let Ok(request) = Request::from_bytes(data) else {
        return;
    };
    written_again(data, |w| request.fields().emit(w));
    let validity = Validity {
        not_before_s: 1,
        not_after_s: 2,
    };
    if let Ok(certificate) = fixture().authority.clone().issue(&request, validity) {
        assert_eq!(certificate.fields().subject, request.fields().subject);
    }
}

fn revocations(data: &[u8]) {
    let Ok(list) = Revocations::from_bytes(data) else {
        return;
    };
    written_again(data, |w| list.fields().emit(w));
    let mut network = fixture().network.clone();
    if network.apply(&list) == Ok(true) {
        assert!(
            list.fields()
                .serials
                .iter()
                .all(|serial| network.is_revoked(serial))
        );
    }
}

/// Each value has one encoding. Only a succession that both roots signed gives a new root, and makes its certificates
/// valid.
fn succession(data: &[u8]) {
    let Ok(succession) = Succession::parse(data) else {
        return;
    };
    assert_eq!(&succession.to_bytes()[..], data);
    let fixture = fixture();
    let mut network = fixture.network.clone();
    let rotated = fixture.rotated.network();
    match network.succeed(&succession) {
        Ok(is_news) => {
            assert!(is_news);
            assert_eq!(network.successions(), rotated.successions());
            let again = Network::from_text(&network.to_text()).expect("just written");
            assert_eq!(again.successions(), network.successions());
            let own = fixture.nodes[0].certificate();
            let until_s = network.counts_until_s(0).expect("it has a successor");
            assert_eq!(
                network.verify(own, until_s).is_ok(),
                until_s <= NOW_S + 86_400
            );
        }
        Err(_) => assert_eq!(network.root_number(), 0),
    }
    let mut after = rotated;
    match after.succeed(&succession) {
        Ok(true) => assert_eq!(after.root_number(), 2),
        known => assert_eq!(known == Ok(false), network.root_number() == 1),
    }
}

fn written_again(data: &[u8], emit: impl Fn(&mut Writer<'_>) -> Result<(), wire::Full>) {
    let mut room = [0xa5; MAX_REVOCATIONS_BYTES];
    let mut w = Writer::new(&mut room);
    emit(&mut w).expect("there is room for the longest");
    assert_eq!(w.written(), data);
}

/// A text that was read from a file is written with the same meaning.
fn text(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(authority) = Authority::from_text(&text) {
        let again = Authority::from_text(&authority.to_text()).expect("just written");
        assert_eq!(format!("{again:?}"), format!("{authority:?}"));
    }
    if let Ok(keys) = Keys::from_text(&text) {
        let again = Keys::from_text(&keys.to_text()).expect("just written");
        assert_eq!(format!("{again:?}"), format!("{keys:?}"));
    }
    if let Ok(network) = Network::from_text(&text) {
        let again = Network::from_text(&network.to_text()).expect("just written");
        assert_eq!(again.id(), network.id());
        assert_eq!(again.successions(), network.successions());
    }
}

/// Sends any bytes to a node that dials and is dialled. The node accepts no wrong peer, and keeps little memory.
fn datagram(data: &[u8]) {
    let [mut a, mut b] = nodes();
    let init = a.dial(Time::ZERO, at(2), None).expect("the first dial");
    b.on_datagram(Time::ZERO, NOW_S, at(1), &init);
    for (n, node) in [&mut a, &mut b].into_iter().enumerate() {
        let outcome = node.on_datagram(Time::ZERO, NOW_S, at(2 - n), data);
        assert!(answers(n, outcome).len() <= 1);
        assert!(node.indices_in_use() <= 2);
    }
}

/// Acts as a network that repeats, changes and misdirects messages, and makes their mac1 valid again as a member can.
/// Each operation is six bytes: the kind, the message, the position (2), the change, and the time. The dialling node
/// decides whether later handshakes are hybrid.
fn handshake(data: &[u8]) {
    let mut nodes = nodes();
    let mut now = Time::ZERO;
    let mut messages: Vec<(usize, Vec<u8>)> = Vec::new();
    for op in data.as_chunks::<6>().0.iter().take(64) {
        let [what, which, hi, lo, change, wait] = *op;
        now += Duration::from_millis(u64::from(wait) * 4);
        let to = usize::from(what >> 7);
        let from = at(if what & 0x40 == 0 { 2 - to } else { 3 });
        match (what & 3, messages.len()) {
            (0, _) | (_, 0) => {
                nodes[to].set_post_quantum(match what & 0x30 {
                    0 => PostQuantum::Off,
                    0x10 | 0x20 => PostQuantum::Prefer,
                    _ => PostQuantum::Require,
                });
                let peer = fixture().nodes[1 - to].address();
                let init = match what & 4 {
                    0 => nodes[to].dial(now, at(2 - to), None),
                    _ => nodes[to].dial_further(now, at(2 - to), peer),
                };
                if let Ok(init) = init {
                    messages.push((1 - to, init));
                }
            }
            (1, _) => {
                for due in nodes[to].on_timeout(now) {
                    if let secure::Due::Send { datagram, .. } = due {
                        messages.push((1 - to, datagram));
                    }
                }
            }
            (fit, count) => {
                let mut message = messages[usize::from(which) % count].1.clone();
                let place = usize::from(u16::from_be_bytes([hi, lo])) % message.len();
                message[place] ^= change;
                if fit == 3 {
                    fit_mac(&mut message);
                }
                let outcome = nodes[to].on_datagram(now, NOW_S, from, &message);
                let answers = answers(to, outcome).into_iter();
                messages.extend(answers.map(|message| (1 - to, message)));
            }
        }
        nodes
            .iter()
            .for_each(|node| assert!(node.indices_in_use() <= 64));
    }
}

/// Returns the messages that a node sends as an answer. The peer of an established session must be the other node.
fn answers(node: usize, outcome: Outcome) -> Vec<Vec<u8>> {
    match outcome {
        Outcome::Reply(messages) => messages,
        Outcome::Cookie(message) => vec![message.to_vec()],
        Outcome::Established(established) => {
            let other = &fixture().nodes[1 - node];
            assert_eq!(established.peer.certificate(), other.certificate());
            established.reply
        }
        Outcome::Refused(_) | Outcome::Failed { .. } => Vec::new(),
    }
}

fn fit_mac(message: &mut [u8]) {
    let end = match Kind::of(message) {
        Ok(Kind::HandshakeInit) => init::MAC1.end,
        _ => message.len(),
    };
    let root = fixture().network.root_key();
    let key = [b"sinew mac1 1", root.as_slice()].concat();
    let key = digest::digest(&digest::SHA256, &key);
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_ref());
    if let Some(start) = end.checked_sub(MAC_BYTES).filter(|_| end <= message.len()) {
        let tag = hmac::sign(&key, &message[..start]);
        message[start..end].copy_from_slice(&tag.as_ref()[..MAC_BYTES]);
    }
}

/// Datagrams in any order, changed, cut and repeated: each is decrypted only once, to its original plaintext. Each
/// operation is four bytes: the kind, the datagram, the position, and the change.
fn session(data: &[u8]) {
    let (mut here, mut there) = sessions();
    let mut sealed: Vec<(Vec<u8>, Vec<u8>, bool)> = Vec::new();
    for op in data.as_chunks::<4>().0.iter().take(512) {
        let [what, which, place, change] = *op;
        if what & 1 == 0 || sealed.is_empty() {
            let plaintext = vec![which; usize::from(place)];
            let mut datagram = vec![0; SEAL_BYTES + plaintext.len()];
            datagram[8..8 + plaintext.len()].copy_from_slice(&plaintext);
            let counter = here.seal(Kind::Data, &mut datagram).expect("few enough");
            assert_eq!(counter, sealed.len() as u64);
            sealed.push((datagram, plaintext, false));
            continue;
        }
        let which = usize::from(which) % sealed.len();
        let (datagram, plaintext, opened) = &mut sealed[which];
        let mut received = datagram.clone();
        let place = usize::from(place) % received.len();
        received[place] ^= change;
        let keep = if what & 2 == 0 { received.len() } else { place };
        let untouched = change == 0 && keep == received.len();
        match there.open(&mut received[..keep]) {
            Ok(open) => {
                assert!(untouched && !*opened);
                assert_eq!(received[open.plaintext], *plaintext);
                assert_eq!(open.counter, which as u64);
                *opened = true;
            }
            Err(_) => assert!(!untouched || *opened),
        }
    }
}

/// Returns the two ends of one session.
fn sessions() -> (Session, Session) {
    let [mut a, mut b] = nodes();
    let now = Time::ZERO;
    let init = a.dial(now, at(2), None).expect("the first dial");
    let Outcome::Reply(response) = b.on_datagram(now, NOW_S, at(1), &init) else {
        panic!("no response");
    };
    let Outcome::Established(here) = a.on_datagram(now, NOW_S, at(2), &response.concat()) else {
        panic!("the response was refused");
    };
    let finish = here.reply.concat();
    let Outcome::Established(there) = b.on_datagram(now, NOW_S, at(1), &finish) else {
        panic!("the finish was refused");
    };
    (here.session, there.session)
}
