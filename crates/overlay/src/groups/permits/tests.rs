use super::*;
use wire::bytes::Reader;
use wire::certificate::{Domains, NetworkId, Options, Subject};

const GROUP: NodeAddr = NodeAddr(0xef01_0101);
const AMS: NodeAddr = NodeAddr(0x0a07_0001);
const FRA: NodeAddr = NodeAddr(0x0a07_0002);

fn certificate<'a>(address: NodeAddr, name: &'a str, domains: Domains<'a>) -> Certificate<'a> {
    Certificate {
        network: NetworkId([0; 8]),
        serial: 1,
        not_before_s: 0,
        not_after_s: u64::MAX,
        subject: Subject {
            address,
            name,
            static_key: [0; 32],
            signing_key: [0; 32],
            domains,
        },
        options: Options::NONE,
        signature: [0; 64],
    }
}

fn words(words: &[&str]) -> Option<Vec<String>> {
    Some(words.iter().map(|word| (*word).to_owned()).collect())
}

fn permit(prefix: u8, send: Option<Vec<String>>, receive: Option<Vec<String>>) -> Permit {
    Permit {
        group: NodeAddr(GROUP.0 & mask(prefix)),
        prefix,
        send,
        receive,
    }
}

/// These permits, each from another node, in a network with the nodes `ams`, which has a domain, and `fra`.
fn permits(all: &[Permit]) -> Permits {
    let mut domains = [0; 16];
    let mut w = Writer::new(&mut domains);
    Domains::emit(&["a.example"], &mut w).unwrap();
    let mut reader = Reader::new(w.written());
    let domains = Domains::parse(&mut reader).unwrap();
    let options = Options::parse(&mut Reader::new(b"\x00\x09\x04\x07\x06studio")).unwrap();
    let tagged = Certificate {
        options,
        ..certificate(FRA, "fra", Domains::NONE)
    };
    let speaker = |i: usize| certificate(NodeAddr(i as u32), "speaker", Domains::NONE);
    let known = [certificate(AMS, "ams", domains), tagged];
    let known: Vec<_> = known
        .into_iter()
        .chain((0..all.len()).map(speaker))
        .collect();
    let said = all.iter().enumerate();
    let mut permits = Permits {
        said: said
            .map(|(i, one)| ((NodeAddr(i as u32), RecordKind(23)), vec![one.clone()]))
            .collect(),
        ..Permits::default()
    };
    permits.settle(&known);
    permits
}

#[test]
fn every_kind_of_word_names_whom_it_should() {
    for (word, ams, fra) in [
        ("ams", true, false),
        ("am", false, false),
        ("*ms", true, false),
        ("*", true, true),
        ("tag:studio", false, true),
        ("tag:a.example", false, false),
        ("@a.example", true, false),
        ("@example", false, false),
        ("10.7.0.2", false, true),
        ("10.7.0.9", false, false),
    ] {
        let of = permits(&[permit(32, words(&[word]), None)]);
        assert_eq!(of.may_send(AMS, GROUP), ams, "{word}");
        assert_eq!(of.may_send(FRA, GROUP), fra, "{word}");
        assert!(of.may_receive(AMS, GROUP) && of.may_receive(FRA, GROUP));
        assert!(of.may_send(FRA, NodeAddr(GROUP.0 + 1)), "another group");
    }
}

#[test]
fn each_permit_narrows_and_none_widens() {
    let of = permits(&[
        permit(16, words(&["ams"]), words(&["*"])),
        permit(32, words(&["*", "fra"]), words(&["fra"])),
    ]);
    assert!(of.may_send(AMS, GROUP) && !of.may_send(FRA, GROUP));
    assert!(of.may_receive(FRA, GROUP) && !of.may_receive(AMS, GROUP));
    // For the rest of the range, only the first permit applies.
    let other = NodeAddr(GROUP.0 + 1);
    assert!(of.may_receive(AMS, other) && !of.may_send(FRA, other));
    assert_eq!(of.said(GROUP).count(), 2);
    assert_eq!(of.said(other).count(), 1);
    // Nobody may receive.
    let none = permits(&[permit(32, words(&[]), None)]);
    assert!(!none.may_send(AMS, GROUP));
}

#[test]
fn records_bring_them_and_take_them_back() {
    let one = permit(32, words(&["fra"]), None);
    let bytes = written(core::slice::from_ref(&one), ITEMS_BYTES_MAX).unwrap();
    assert_eq!(written(core::slice::from_ref(&one), bytes.len() - 1), None);
    let mut permits = Permits::default();
    let of = (AMS, RecordKind(23));
    let value = groups::Permit {
        group: GROUP,
        prefix: 32,
        send: None,
        receive: None,
    };
    permits.follow(of, core::iter::once(value));
    assert!(permits.is_stale());
    permits.settle(&[]);
    permits.follow(of, core::iter::once(value));
    assert!(!permits.is_stale(), "the same again");
    permits.follow(of, core::iter::empty());
    assert!(permits.is_stale() && permits.said(GROUP).next().is_none());
}
