//! Additions of later versions that are marked as optional are skipped, wherever they are. Critical additions, or
//! additions where a length is fixed, are refused with the right error.

use super::control::only;
use super::records::{link_state, read_link_state};
use super::{A, B, open, written};
use wire::certificate::{self as format, Options};
use wire::control::{CRITICAL, Hello, Message, Messages, kind};
use wire::groups::Groups;
use wire::record::{Record, RecordKind};
use wire::relay::VERSIONS;
use wire::{Malformed, bytes::Reader};

/// Kinds that are not assigned yet.
const LATER: [u8; 3] = [0x40, 0x66, 0x7f];

#[test]
fn unknown_messages_between_neighbours_are_stepped_over() {
    let hello = open!("control").line("hello");
    let rate = open!("control").line("reliable-rate");
    for later in LATER {
        let unknown = [later, 0, 2, 7, 7];
        let bytes = [&unknown[..], &hello, &unknown, &rate, &unknown].concat();
        let read: Result<Vec<_>, _> = Messages::new(&bytes).collect();
        let read = read.unwrap();
        let known = |message: &Message<'_>| !matches!(message, Message::Unknown { .. });
        let known: Vec<_> = read.iter().filter(|it| known(it)).cloned().collect();
        assert_eq!(known, [only(&hello), only(&rate)]);
        assert_eq!(read.len(), 5);
        let critical = [&hello[..], &[later | CRITICAL, 0, 0], &rate].concat();
        let read: Vec<_> = Messages::new(&critical).collect();
        assert_eq!(read, [Ok(only(&hello)), Err(Malformed::Critical)]);
    }
}

#[test]
fn unknown_records_stand_beside_others() {
    let mut body = open!("record").line("link-state");
    let known = body[3..].to_vec();
    for later in LATER {
        body.truncate(3);
        let unknown = [later, 0, 1, 0, 0, 9];
        body.extend([&unknown[..], &known, &unknown].concat());
        let len = (body.len() - 3) as u16;
        body[1..3].copy_from_slice(&len.to_be_bytes());
        let Message::Records(records) = only(&body) else {
            panic!("no records");
        };
        let read: Vec<Record<'_>> = records.iter().filter(|it| it.kind.is_known()).collect();
        assert_eq!(read.len(), 1);
        assert_eq!(
            (read[0].kind, read[0].body),
            (RecordKind::LINK_STATE, &[1, 2, 3][..])
        );
    }
}

#[test]
fn unknown_options_of_link_states_change_nothing_that_is_known() {
    let alone = open!("link-state").line("17-protection");
    let known = &alone[36..alone.len() - 64];
    for later in LATER {
        for unknown in [&[later, 0][..], &[later, 3, 1, 2, 3]] {
            let options = [unknown, known, unknown].concat();
            let body = link_state(&options);
            let read = read_link_state(&body);
            let lone = read_link_state(&alone);
            let told = |read: &wire::link_state::LinkState<'_>| {
                read.protections().unwrap().collect::<Vec<_>>()
            };
            assert_eq!(told(&read), told(&lone));
            // The options are flooded unchanged.
            assert_eq!(read.options().count(), 3);
        }
        let critical = link_state(&[later | CRITICAL, 0]);
        let refused = wire::link_state::LinkState::parse(&critical);
        assert_eq!(refused, Err(Malformed::Critical));
    }
    // A later version of an option is unknown, and only the option itself is lost.
    let body = link_state(&[
        8, 6, 2, 0, 0, 0, 1, 9, 14, 1, 2, 15, 2, 1, 1, 16, 1, 2, 17, 0,
    ]);
    let read = read_link_state(&body);
    assert_eq!(read.seals(), None);
    assert!(!read.tallies() && !read.has_group_keys() && !read.tallies_groups());
    assert!(read.protections().is_none());
}

#[test]
fn unknown_items_of_groups_change_nothing_that_is_known() {
    let alone = open!("groups").line("all-items");
    let end = alone.len() - 64;
    let lone = Groups::parse(RecordKind::GROUPS, &alone).unwrap();
    for later in LATER {
        let unknown = [later, 0, 3, 1, 2, 3];
        let parts = [
            &alone[..16],
            &unknown,
            &alone[16..end],
            &unknown,
            &alone[end..],
        ];
        let body = parts.concat();
        let read = Groups::parse(RecordKind::GROUPS, &body).unwrap();
        assert!(read.members().eq(lone.members()));
        assert!(read.settings().eq(lone.settings()));
        assert!(read.permits().eq(lone.permits()));
        let mut critical = body;
        critical[16] |= CRITICAL;
        let refused = Groups::parse(RecordKind::GROUPS, &critical);
        assert_eq!(refused, Err(Malformed::Critical));
    }
}

#[test]
fn unknown_options_of_certificates_are_skipped() {
    let rights = [2u8, 5, 0xef, 1, 0, 0, 16];
    for later in LATER {
        let unknown = [later, 2, 1, 2];
        let all = [&unknown[..], &rights, &unknown].concat();
        let bytes = [&(all.len() as u16).to_be_bytes()[..], &all].concat();
        let options = Options::parse(&mut Reader::new(&bytes)).unwrap();
        let ranges: Vec<_> = options.rights().unwrap().iter().collect();
        let first = base::NodeAddr(0xef01_0000);
        assert_eq!(ranges, [format::GroupRange::new(first, 16).unwrap()]);
        let critical = [0, 2, later | CRITICAL, 0];
        let refused = Options::parse(&mut Reader::new(&critical));
        assert_eq!(refused.map(drop), Err(Malformed::Critical));
    }
}

#[test]
fn a_bit_that_was_reserved_says_one_thing_more_and_new_reasons_are_no_errors() {
    // The last reserved bit of a hello now has a meaning, and changes nothing else.
    let before = open!("control").line("hello-all-flags");
    let mut after = before.clone();
    after[3] |= 0x80;
    let (Message::Hello(before), Message::Hello(after)) = (only(&before), only(&after)) else {
        panic!("both are hellos");
    };
    assert!(after.lets_wait && !before.lets_wait);
    assert_eq!(
        Hello {
            lets_wait: false,
            ..after
        },
        before
    );
    // Unknown kinds of failure, refusals of Scribe and codes of exits are shown unchanged.
    let other = wire::relay::FailureKind::Other(200);
    let failed = wire::relay::Message::Failed {
        node: A,
        kind: other,
        about: Some(B),
        text: "new",
    };
    let bytes = written(|bytes| failed.emit(bytes));
    assert_eq!(wire::relay::Message::parse(3, &bytes[4..]), Ok(failed));
    let refusal = wire::scribe::Refusal::from_byte(200);
    assert_eq!(refusal.to_byte(), 200);
    assert_eq!(wire::exit::Code::from_byte(200).to_byte(), 200);
    assert_eq!(wire::ipc::ErrorCode::from_byte(200).to_byte(), 200);
    assert_eq!(wire::ipc::DropReason::from_byte(200).to_byte(), 200);
}

#[test]
fn what_cannot_be_skipped_has_a_label_of_its_own() {
    // An unknown role, version or critical message of bulk data ends the connection.
    let preamble = |version, role| {
        wire::relay::Preamble::bytes(&[b'S', b'N', b'R', b'L', version, role, 0, 0])
    };
    assert_eq!(preamble(6, 3), Err(Malformed::Value));
    for version in [VERSIONS.start() - 1, VERSIONS.end() + 1] {
        assert_eq!(preamble(version, 0), Err(Malformed::Version));
    }
    assert_eq!(wire::relay::head([17, 0, 0, 0]), Err(Malformed::Kind));
    // With an unknown transport kind or message of Scribe, only the message is dropped and counted.
    assert_eq!(wire::transport::Kind::of(&[7]), Err(Malformed::Kind));
    assert_eq!(
        wire::scribe::Message::parse(&[1, 200]),
        Err(Malformed::Kind)
    );
    assert_eq!(
        wire::scribe::Message::parse(&[2, 1]),
        Err(Malformed::Version)
    );
    // For an unknown request, the client gets the error.
    assert_eq!(wire::ipc::Request::parse(&[99]), Err(Malformed::Kind));
    // A known message has a fixed length.
    let mut longer = open!("control").line("clock-offset");
    longer.push(0);
    longer[2] += 1;
    assert_eq!(longer[0], kind::CLOCK_OFFSET);
    let read: Vec<_> = Messages::new(&longer).collect();
    assert_eq!(read, [Err(Malformed::Length)]);
}
