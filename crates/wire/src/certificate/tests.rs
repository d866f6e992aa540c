use super::*;
use proptest::prelude::*;

const STATIC_KEY: [u8; 32] = [0x51; 32];
const SIGNING_KEY: [u8; 32] = [0x52; 32];
pub(super) const SIGNATURE: [u8; 64] = [0x53; 64];
const NETWORK: NetworkId = NetworkId([0xa0, 1, 2, 3, 4, 5, 6, 7]);

/// Returns a certificate of 10.7.0.3 "ams" with two domains and one option.
fn certificate_bytes() -> Vec<u8> {
    certificate_with(&[0, 5, 0x11, 3, 7, 8, 9])
}

/// Returns the same with other options, which include their length.
pub(super) fn certificate_with(options: &[u8]) -> Vec<u8> {
    [
        &[1][..],
        &NETWORK.0,
        &[0, 0, 0, 42],
        &[10, 7, 0, 3],
        &[0, 0, 0, 0, 0x65, 0, 0, 0],
        &[0, 0, 0, 0, 0x66, 0, 0, 1],
        subject_bytes().as_slice(),
        options,
        &SIGNATURE,
    ]
    .concat()
}

/// Passes a certificate of this name and address with these domains and tags, signed by the root key or by an issuer,
/// to a closure.
pub(crate) fn certified(
    (name, address): (&str, NodeAddr),
    domains: &[&str],
    tags: &[&str],
    is_delegated: bool,
    look: impl FnOnce(&Certificate<'_>),
) {
    let bytes = certificate_bytes();
    let mut certificate = Certificate::parse(&bytes).unwrap();
    let domains = emitted(|w| Domains::emit(domains, w));
    let tags = emitted(|w| Tags::emit(tags, w));
    let delegation = delegation::tests::bytes();
    let said = Said {
        delegation: is_delegated.then_some(&delegation[..]),
        tags: Tags::parse(&tags).unwrap(),
        ..Said::default()
    };
    let options = emitted(|w| Options::NONE.emit_with(&said, w));
    certificate.options = Options::parse(&mut Reader::new(&options)).unwrap();
    certificate.subject.domains = Domains::parse(&mut Reader::new(&domains)).unwrap();
    (certificate.subject.name, certificate.subject.address) = (name, address);
    look(&certificate);
}

#[test]
fn tags_are_an_option_that_nodes_of_before_skip() {
    let tags = emitted(|w| Tags::emit(&["site-ams", "backup"], w));
    let said = Said {
        tags: Tags::parse(&tags).unwrap(),
        ..Said::default()
    };
    let options = emitted(|w| Options::NONE.emit_with(&said, w));
    let item = [&[0, 18, 4, 16][..], b"\x06backup\x08site-ams"].concat();
    assert_eq!(options, item);
    assert_eq!(
        options[2] & CRITICAL,
        0,
        "nodes of earlier versions keep it unread"
    );
    let bytes = certificate_with(&options);
    let certificate = Certificate::parse(&bytes).unwrap();
    let read: Vec<_> = certificate.options.tags().iter().collect();
    assert_eq!(read, ["backup", "site-ams"]);
    assert_eq!(emitted(|w| certificate.emit(w)), bytes);
    // New values replace the old ones, and so does their absence.
    let none = emitted(|w| certificate.options.emit_with(&Said::default(), w));
    assert_eq!(none, [0, 0]);
    for wrong in [
        &[0, 2, 4, 0][..],
        &[0, 8, 4, 2, 1, b'a', 4, 2, 1, b'b'],
        &[0, 4, 4, 2, 1, b'A'],
    ] {
        let read = Options::parse(&mut Reader::new(wrong));
        assert!(read.is_err(), "{wrong:?}");
    }
}

fn request_bytes() -> Vec<u8> {
    [
        &[1][..],
        &NETWORK.0,
        &[10, 7, 0, 3],
        subject_bytes().as_slice(),
        &[0, 5, 0x11, 3, 7, 8, 9],
        &SIGNATURE,
    ]
    .concat()
}

fn subject_bytes() -> Vec<u8> {
    [
        &[3][..],
        b"ams",
        &STATIC_KEY,
        &SIGNING_KEY,
        &[2, 4],
        b"a.nl",
        &[6],
        b"*.b.nl",
    ]
    .concat()
}

fn revocations_bytes() -> Vec<u8> {
    [
        &[0, 0, 0, 9][..],
        &[0, 0, 0, 0, 0x65, 0, 0, 0],
        &[0, 0, 0, 3, 0, 0, 1, 0],
        &SIGNATURE,
    ]
    .concat()
}

fn check_subject(subject: &Subject<'_>) {
    assert_eq!(subject.address, NodeAddr(0x0a07_0003));
    assert_eq!(subject.name, "ams");
    assert_eq!(subject.static_key, STATIC_KEY);
    assert_eq!(subject.signing_key, SIGNING_KEY);
    let domains: Vec<_> = subject.domains.iter().collect();
    assert_eq!(domains, ["a.nl", "*.b.nl"]);
}

fn emitted(emit: impl Fn(&mut Writer<'_>) -> Result<(), Full>) -> Vec<u8> {
    let mut room = [0xa5; MAX_REVOCATIONS_BYTES];
    let mut w = Writer::new(&mut room);
    emit(&mut w).unwrap();
    let written = w.written().to_vec();
    for short in 0..written.len() {
        let mut room = vec![0; short];
        assert_eq!(emit(&mut Writer::new(&mut room)), Err(Full));
    }
    written
}

#[test]
fn a_certificate_and_its_bytes_agree_both_ways() {
    let bytes = certificate_bytes();
    let certificate = Certificate::parse(&bytes).unwrap();
    assert_eq!(certificate.network, NETWORK);
    assert_eq!(certificate.serial, 42);
    assert_eq!(certificate.not_before_s, 0x6500_0000);
    assert_eq!(certificate.not_after_s, 0x6600_0001);
    check_subject(&certificate.subject);
    assert_eq!(certificate.signature, SIGNATURE);
    assert_eq!(emitted(|w| certificate.emit(w)), bytes);
    assert_eq!(signed_part(&bytes), &bytes[..bytes.len() - 64]);
}

#[test]
fn a_request_and_its_bytes_agree_both_ways() {
    let bytes = request_bytes();
    let request = Request::parse(&bytes).unwrap();
    assert_eq!(request.network, NETWORK);
    check_subject(&request.subject);
    assert_eq!(request.signature, SIGNATURE);
    assert_eq!(emitted(|w| request.emit(w)), bytes);
    assert_eq!(certificate_bytes().len() - bytes.len(), VALIDITY_BYTES);
}

#[test]
fn revocations_and_their_bytes_agree_both_ways() {
    let bytes = revocations_bytes();
    let list = Revocations::parse(&bytes).unwrap();
    assert_eq!((list.version, list.issued_s), (9, 0x6500_0000));
    assert_eq!(list.serials.iter().collect::<Vec<_>>(), [3, 256]);
    assert_eq!(list.signature, SIGNATURE);
    assert_eq!(emitted(|w| list.emit(w)), bytes);
}

#[test]
fn truncated_at_every_length_and_lengthened() {
    let (certificate, request) = (certificate_bytes(), request_bytes());
    for cut in 0..certificate.len() {
        let error = Certificate::parse(&certificate[..cut]).unwrap_err();
        assert_eq!(error, Malformed::Short, "cut at {cut}");
    }
    for cut in 0..request.len() {
        let error = Request::parse(&request[..cut]).unwrap_err();
        assert_eq!(error, Malformed::Short, "cut at {cut}");
    }
    let longer = [certificate.as_slice(), &[0]].concat();
    assert_eq!(Certificate::parse(&longer), Err(Malformed::Length));
    let longer = [request.as_slice(), &[0]].concat();
    assert_eq!(Request::parse(&longer), Err(Malformed::Length));
}

#[test]
fn truncated_revocations_are_understood_only_where_a_serial_ends() {
    let bytes = revocations_bytes();
    for cut in 0..bytes.len() {
        let list = Revocations::parse(&bytes[..cut]);
        match cut {
            ..76 => assert_eq!(list, Err(Malformed::Short), "cut at {cut}"),
            76 | 80 => assert!(list.is_ok(), "a shorter list whose signature will not fit"),
            _ => assert_eq!(list, Err(Malformed::Length), "cut at {cut}"),
        }
    }
}

/// Returns the bytes of the certificate with one range replaced.
fn with(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut changed = certificate_bytes();
    changed[at..at + bytes.len()].copy_from_slice(bytes);
    changed
}

#[test]
fn impossible_values_are_refused() {
    let name_at = 33;
    let domains_at = name_at + 4 + 64;
    let options_at = domains_at + 1 + 5 + 7;
    for (bytes, error) in [
        (with(0, &[2]), Malformed::Version),
        (with(13, &[224, 0, 0, 1]), Malformed::Value),
        (with(13, &[0, 0, 0, 0]), Malformed::Value),
        (with(17, &[0xff; 8]), Malformed::Value),
        (with(name_at + 1, b"a\x07s"), Malformed::Value),
        (with(name_at + 1, &[0xff]), Malformed::Text),
        (with(domains_at, &[17]), Malformed::Count),
        (with(domains_at + 2, b"A"), Malformed::Value),
        (with(options_at + 2, &[0x91]), Malformed::Critical),
        (with(options_at + 3, &[4]), Malformed::Length),
        (vec![1; MAX_CERTIFICATE_BYTES + 1], Malformed::Length),
    ] {
        assert_eq!(Certificate::parse(&bytes), Err(error), "{bytes:02x?}");
    }
}

#[test]
fn names_and_domains_have_limits() {
    assert!(is_name(&"n".repeat(63)) && !is_name(&"n".repeat(64)) && !is_name(""));
    assert!(is_name("Zürich 2") && !is_name("a\nb"));
    assert!(is_domain(b"sip-1.example.org") && !is_domain(b"Example.org") && !is_domain(b""));
    assert!(is_domain(&[b'a'; 253]) && !is_domain(&[b'a'; 254]));
    let mut room = [0; 64];
    let many = ["a"; MAX_DOMAINS + 1];
    assert_eq!(Domains::emit(&many, &mut Writer::new(&mut room)), Err(Full));
    let bad = ["a b"];
    assert_eq!(Domains::emit(&bad, &mut Writer::new(&mut room)), Err(Full));
    assert_eq!(Domains::NONE.iter().count(), 0);
}

#[test]
fn serials_ascend_and_are_few() {
    assert_eq!(Serials::parse(&[0; 3]), Err(Malformed::Length));
    assert_eq!(Serials::parse(&[0; 8]), Err(Malformed::Value), "twice");
    assert_eq!(
        Serials::parse(&[0, 0, 0, 2, 0, 0, 0, 1]),
        Err(Malformed::Value)
    );
    let many: Vec<u8> = (0..=MAX_REVOKED as u32)
        .flat_map(u32::to_be_bytes)
        .collect();
    assert_eq!(Serials::parse(&many), Err(Malformed::Count));
    assert!(Serials::parse(&many[4..]).is_ok());
}

#[test]
fn a_certificate_carries_the_succession_of_its_root_and_older_code_skips_it() {
    let succession = Succession {
        network: NETWORK,
        number: 1,
        root: [7; 32],
        until_s: 0x6600_0000,
        issued_s: 0x6500_0000,
        by_old: [8; 64],
        by_new: [9; 64],
    };
    let said = Said {
        succession: Some(&succession),
        ..Said::default()
    };
    let options = emitted(|w| Options::NONE.emit_with(&said, w));
    let item = [&[0, 188, 3, 186][..], &succession.to_bytes()].concat();
    assert_eq!(options, item);
    assert_eq!(
        options[2] & CRITICAL,
        0,
        "nodes of earlier versions keep it unread"
    );
    let bytes = certificate_with(&options);
    let certificate = Certificate::parse(&bytes).unwrap();
    assert_eq!(certificate.options.succession(), Some(succession));
    // A later version of the option is for later code.
    let mut later = options.clone();
    later[4] = 2;
    let bytes = certificate_with(&later);
    assert_eq!(
        Certificate::parse(&bytes).unwrap().options.succession(),
        None
    );
    // The new option replaces the old one.
    let before = Options::parse(&mut Reader::new(&later)).unwrap();
    assert_eq!(emitted(|w| before.emit_with(&said, w)), item);
    let longest = Said {
        delegation: Some(&[1; MAX_DELEGATION_BYTES]),
        rights: Some(Rights::NONE),
        ..said
    };
    let mut room = [0; MAX_OPTIONS_BYTES];
    let written = Options::NONE.emit_with(&longest, &mut Writer::new(&mut room));
    assert_eq!(written, Ok(()));
}

proptest! {
    /// Each value has exactly one encoding.
    #[test]
    fn what_is_understood_is_written_back_byte_for_byte(
        at in 0usize..200, byte: u8, of_request: bool,
    ) {
        let mut bytes = if of_request { request_bytes() } else { certificate_bytes() };
        let at = at % bytes.len();
        bytes[at] = byte;
        if of_request {
            if let Ok(request) = Request::parse(&bytes) {
                prop_assert_eq!(emitted(|w| request.emit(w)), bytes);
            }
        } else if let Ok(certificate) = Certificate::parse(&bytes) {
            prop_assert_eq!(emitted(|w| certificate.emit(w)), bytes);
        }
    }
}
