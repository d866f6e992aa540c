//! Handshakes, the clear header, and links over TCP.

use super::open;
use wire::handshake::kem::{Piece, Whole};
use wire::handshake::{Cookie, Finish, Init, Response, VersionRange};
use wire::link::{Clear, Kind, SessionIndex};
use wire::tunnel::{Decoder, Record};

const SENDER: SessionIndex = SessionIndex::new(0xab_cdef);
const RECEIVER: SessionIndex = SessionIndex::new(0x12_3456);

#[test]
fn handshakes() {
    let mut fixtures = open!("handshake");
    for (name, versions) in [("init-1", (1, 1)), ("init-1-to-2", (1, 2))] {
        let init = Init {
            sender: SENDER,
            versions: VersionRange {
                min: versions.0,
                max: versions.1,
            },
            noise: &[0x11; 32],
            mac1: &[0x22; 16],
            mac2: &[0x33; 16],
        };
        fixtures.hold(name, &init.to_bytes(), |frozen| {
            assert_eq!(Init::parse(frozen), Ok(init));
        });
    }
    let mac = [0x22; 16];
    let response = Response {
        sender: SENDER,
        receiver: RECEIVER,
        version: 2,
        noise: &[0x44; 150],
    };
    let bytes = [&response.header()[..], response.noise, &mac].concat();
    fixtures.hold("response", &bytes, |frozen| {
        assert_eq!(Response::parse(frozen), Ok(response));
    });
    let finish = Finish {
        receiver: RECEIVER,
        noise: &[0x55; 120],
    };
    let bytes = [&finish.header()[..], finish.noise, &mac].concat();
    fixtures.hold("finish", &bytes, |frozen| {
        assert_eq!(Finish::parse(frozen), Ok(finish));
    });
    let cookie = Cookie {
        receiver: RECEIVER,
        cookie: [0x66; 16],
    };
    let mut bytes = cookie.to_bytes();
    let front = bytes.len() - mac.len();
    bytes[front..].copy_from_slice(&mac);
    fixtures.hold("cookie", &bytes, |frozen| {
        assert_eq!(Cookie::parse(frozen), Ok(cookie));
    });
    let pieces = [
        ("kem-key-0", Whole::Key, 0, 400),
        ("kem-key-2", Whole::Key, 2, 384),
        ("kem-ciphertext-1", Whole::Ciphertext, 1, 400),
        ("kem-ciphertext-2", Whole::Ciphertext, 2, 288),
    ];
    for (name, of, number, len) in pieces {
        let sealed = vec![0x77; len + wire::TAG_BYTES];
        let piece = Piece {
            of,
            receiver: RECEIVER,
            number,
            sealed: &sealed,
        };
        let bytes = [&Piece::header(of, RECEIVER, number)[..], &sealed].concat();
        fixtures.hold(name, &bytes, |frozen| {
            assert_eq!(Piece::parse(frozen), Ok(piece));
        });
    }
    for (name, kind) in [
        ("sealed-data", Kind::Data),
        ("sealed-control", Kind::Control),
    ] {
        let clear = Clear {
            kind,
            session: SENDER,
            counter_low: 0x0123_4567,
        };
        let bytes = [&clear.to_bytes()[..], &[0; wire::TAG_BYTES]].concat();
        fixtures.hold(name, &bytes, |frozen| {
            assert_eq!(Clear::parse(frozen), Ok(clear));
        });
    }
    fixtures.end();
}

#[test]
fn links_over_tcp() {
    let mut fixtures = open!("tunnel");
    let records = [
        ("hello", Record::Hello(&[1; 100])),
        ("datagram", Record::Datagram(&[2; 60])),
    ];
    for (name, record) in records {
        let mut bytes = Vec::new();
        record.append(&mut bytes).unwrap();
        fixtures.hold(name, &bytes, |frozen| {
            let mut decoder = Decoder::default();
            decoder.push(frozen);
            assert_eq!(decoder.take(), Ok(Some(record)));
        });
    }
    fixtures.end();
}
