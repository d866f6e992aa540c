use super::*;
use crate::control::{Builder, Message, Messages};
use proptest::prelude::*;

/// Two records in one message, then two keys in another.
const VECTOR: [u8; 3 + 8 + 6 + 3 + 18] = [
    4, 0, 14, // Records
    1, 0, 3, 0x01, 0x2c, 0xaa, 0xbb, 0xcc, //
    0x80, 0, 1, 0, 0, 0xdd, //
    5, 0, 18, // RecordAck
    1, 10, 7, 0, 3, 0, 0, 1, 0, //
    3, 0, 0, 0, 0, 0, 0, 0, 2, //
];

const RECORDS: [Record<'static>; 2] = [
    Record {
        kind: RecordKind::LINK_STATE,
        age_s: 300,
        body: &[0xaa, 0xbb, 0xcc],
    },
    Record {
        kind: RecordKind(0x80),
        age_s: 0,
        body: &[0xdd],
    },
];

const KEYS: [Key; 2] = [
    Key {
        kind: RecordKind::LINK_STATE,
        origin: NodeAddr(0x0a07_0003),
        seq: RecordSeq(256),
    },
    Key {
        kind: RecordKind::REVOCATIONS,
        origin: NodeAddr(0),
        seq: RecordSeq(2),
    },
];

fn build(buffer: &mut [u8], records: &[Record<'_>], keys: &[Key]) -> Result<usize, Full> {
    let mut builder = Builder::new(buffer);
    records.iter().try_for_each(|r| builder.record(r))?;
    keys.iter().try_for_each(|&key| builder.record_ack(key))?;
    Ok(builder.len())
}

#[test]
fn bytes_and_records_agree_both_ways() {
    let mut buffer = [0xa5; VECTOR.len()];
    assert_eq!(build(&mut buffer, &RECORDS, &KEYS), Ok(VECTOR.len()));
    assert_eq!(buffer, VECTOR);
    let messages: Vec<_> = Messages::new(&VECTOR).map(Result::unwrap).collect();
    let [Message::Records(records), Message::RecordAck(acks)] = &messages[..] else {
        panic!("other messages: {messages:?}");
    };
    assert_eq!(records.iter().collect::<Vec<_>>(), RECORDS);
    assert_eq!(acks.iter().collect::<Vec<_>>(), KEYS);
    assert_eq!(RECORDS[0].len(), 8);
    assert!(RECORDS[1].kind.is_critical() && !RECORDS[1].kind.is_known());
}

#[test]
fn a_list_of_a_later_root_has_its_number_in_front() {
    assert_eq!(join_root(2, &[7, 8]), [2, 7, 8]);
    assert_eq!(split_root(&[2, 7, 8]), Ok((2, &[7, 8][..])));
    assert_eq!(split_root(&[]), Err(Malformed::Short));
    for impossible in [0, 17] {
        assert_eq!(split_root(&[impossible, 7]), Err(Malformed::Value));
    }
    let longest = join_root(16, &[0; crate::certificate::MAX_REVOCATIONS_BYTES]);
    assert!(longest.len() <= BODY_BYTES_MAX);
    let later = [RecordKind::LATER_REVOCATIONS, RecordKind::SUCCESSION];
    assert!(
        later
            .iter()
            .all(|kind| kind.is_known() && !kind.is_critical())
    );
}

#[test]
fn every_truncation_is_an_error() {
    let records = &VECTOR[3..17];
    for cut in (0..records.len()).filter(|&cut| cut != 8) {
        assert_eq!(
            Records::parse(&records[..cut]),
            Err(Malformed::Short),
            "{cut}"
        );
    }
    let acks = &VECTOR[20..];
    for cut in (0..acks.len()).filter(|&cut| cut != 9) {
        let error = if cut < 9 {
            Malformed::Short
        } else {
            Malformed::Length
        };
        assert_eq!(Acks::parse(&acks[..cut]), Err(error), "{cut}");
    }
}

#[test]
fn no_room_writes_nothing_of_a_record() {
    for room in 0..VECTOR.len() {
        let mut buffer = [0xa5; VECTOR.len()];
        assert_eq!(
            build(&mut buffer[..room], &RECORDS, &KEYS),
            Err(Full),
            "{room}"
        );
    }
    let mut buffer = [0xa5; 16];
    let mut builder = Builder::new(&mut buffer);
    builder.record(&RECORDS[0]).unwrap();
    assert_eq!(builder.record(&RECORDS[1]), Err(Full));
    assert_eq!(builder.len(), 11);
    assert_eq!(buffer[..11], [4, 0, 8, 1, 0, 3, 1, 44, 0xaa, 0xbb, 0xcc]);
    assert_eq!(buffer[11..], [0xa5; 5]);
}

#[test]
fn a_body_has_a_longest_length_both_ways() {
    let body = [0; BODY_BYTES_MAX + 1];
    let record = |len: usize| Record {
        kind: RecordKind::CERTIFICATE,
        age_s: 0,
        body: &body[..len],
    };
    let mut buffer = [0; 1400];
    assert!(build(&mut buffer, &[record(BODY_BYTES_MAX)], &[]).is_ok());
    assert_eq!(
        build(&mut buffer, &[record(BODY_BYTES_MAX + 1)], &[]),
        Err(Full)
    );
    let mut bytes = vec![0; RECORD_HEADER_BYTES + BODY_BYTES_MAX + 1];
    bytes[1..3].copy_from_slice(&(BODY_BYTES_MAX as u16 + 1).to_be_bytes());
    assert_eq!(Records::parse(&bytes), Err(Malformed::Count));
}

#[test]
fn a_message_longer_than_its_length_field_is_continued_in_another() {
    let body = [7; 1000];
    let record = Record {
        kind: RecordKind::CERTIFICATE,
        age_s: 1,
        body: &body,
    };
    let mut buffer = vec![0; 70_000];
    let len = build(&mut buffer, &[record; 68], &[]).unwrap();
    let counts: Vec<usize> = Messages::new(&buffer[..len])
        .map(|message| match message {
            Ok(Message::Records(records)) => records.iter().count(),
            other => panic!("other message: {other:?}"),
        })
        .collect();
    assert_eq!(counts, [65, 3]);
}

proptest! {
    #[test]
    fn records_round_trip(
        parts in proptest::collection::vec((any::<u8>(), any::<u16>(), proptest::collection::vec(any::<u8>(), 0..50)), 1..10),
        keys in proptest::collection::vec((any::<u8>(), any::<u32>(), any::<u32>()), 1..10),
    ) {
        let records: Vec<_> = parts.iter()
            .map(|(kind, age_s, body)| Record { kind: RecordKind(*kind), age_s: *age_s, body }).collect();
        let keys: Vec<_> = keys.iter()
            .map(|&(kind, origin, seq)| Key { kind: RecordKind(kind), origin: NodeAddr(origin), seq: RecordSeq(seq) }).collect();
        let mut buffer = [0xa5; 800];
        let len = build(&mut buffer, &records, &keys).unwrap();
        let messages: Vec<_> = Messages::new(&buffer[..len]).map(Result::unwrap).collect();
        let [Message::Records(r), Message::RecordAck(a)] = &messages[..] else { panic!() };
        prop_assert_eq!(r.iter().collect::<Vec<_>>(), records);
        prop_assert_eq!(a.iter().collect::<Vec<_>>(), keys);
    }

    #[test]
    fn what_parses_is_whole(bytes in proptest::collection::vec(0u8..6, 0..60)) {
        if let Ok(records) = Records::parse(&bytes) {
            prop_assert_eq!(records.iter().map(|r| r.len()).sum::<usize>(), bytes.len());
        }
    }
}
