use super::*;
use base::Duration;
use proptest::prelude::*;
use wire::certificate::{Certificate, Domains, NetworkId, Options, Subject};
use wire::link_state::{OPTIONS_BYTES_MAX, Opt, Repr, SIGNATURE_BYTES, write_option};
use wire::record::BODY_BYTES_MAX;
use wire::{Latency, Loss, Malformed};

/// A stand-in for signatures: the origin's address, repeated.
pub(crate) fn sign(origin: NodeAddr) -> [u8; SIGNATURE_BYTES] {
    core::array::from_fn(|i| origin.0.to_be_bytes()[i % 4])
}

pub(crate) fn is_signed(claim: &Claim<'_>) -> Judgement {
    match claim {
        Claim::LinkState(state) if *state.signature() != sign(state.origin) => Judgement::Refused,
        _ => Judgement::Good,
    }
}

pub(crate) fn node(n: u32) -> NodeAddr {
    NodeAddr(0x0a00_0000 + n)
}

pub(crate) fn link(to: u32, latency_us: u32) -> Link {
    Link {
        neighbor: node(to),
        latency: Latency::from_micros(latency_us),
        loss: Loss(0),
        availability: wire::Availability::STEADY,
    }
}

pub(crate) fn certificate(of: NodeAddr, serial: u32) -> Vec<u8> {
    let certificate = Certificate {
        network: NetworkId([7; 8]),
        serial,
        not_before_s: 0,
        not_after_s: u64::MAX,
        subject: Subject {
            address: of,
            name: "node",
            static_key: [1; 32],
            signing_key: [2; 32],
            domains: Domains::NONE,
        },
        options: Options::NONE,
        signature: [3; 64],
    };
    let mut bytes = [0; BODY_BYTES_MAX];
    let mut w = wire::bytes::Writer::new(&mut bytes);
    certificate.emit(&mut w).unwrap();
    w.written().to_vec()
}

fn body(origin: u32, seq: u32, links: &[Link]) -> Vec<u8> {
    let repr = Repr {
        origin: node(origin),
        seq: RecordSeq(seq),
        lifetime_s: 100,
        certificate_serial: 1,
        strikes: 0,
        links,
        options: &[],
    };
    let mut bytes = [0; BODY_BYTES_MAX];
    let len = repr.emit(&mut bytes, |_| sign(node(origin))).unwrap();
    bytes[..len].to_vec()
}

fn key(origin: u32, seq: u32) -> Key {
    Key {
        kind: RecordKind::LINK_STATE,
        origin: node(origin),
        seq: RecordSeq(seq),
    }
}

const FROM: LinkIndex = LinkIndex(0);

fn at(s: u64) -> Time {
    Time::ZERO + Duration::from_secs(s)
}

fn offer(database: &mut Database, now: Time, age_s: u16, body: &[u8]) -> Verdict {
    let record = Record {
        kind: RecordKind::LINK_STATE,
        age_s,
        body,
    };
    database.on_record(now, FROM, &record, is_signed)
}

fn own_record(database: &mut Database, now: Time, links: &[Link]) -> Key {
    let own = database.own;
    let what = Origination {
        links,
        strikes: 0,
        certificate_serial: 1,
        options: &[],
    };
    database.originate(now, what, |_| sign(own)).unwrap()
}

fn edges(database: &Database) -> Vec<(NodeAddr, NodeAddr, u32)> {
    let t = database.topology();
    let from = |n| t.links_from(n).iter().map(move |e| (n, e));
    let mut all: Vec<_> = t
        .nodes()
        .flat_map(from)
        .map(|(n, e)| (t.addr(n), t.addr(e.peer), e.link.latency_us))
        .collect();
    all.sort_unstable();
    all
}

#[test]
fn the_newest_edition_wins_and_older_ones_are_answered() {
    let mut db = Database::new(node(1));
    let (old, new) = (body(2, 5, &[link(1, 10)]), body(2, 6, &[]));
    assert_eq!(offer(&mut db, at(0), 0, &new), Verdict::Accepted(key(2, 6)));
    assert_eq!(offer(&mut db, at(0), 3, &new), Verdict::Known(key(2, 6)));
    assert_eq!(offer(&mut db, at(0), 0, &old), Verdict::Stale(key(2, 6)));
    assert_eq!(db.links_of(node(2)), Some(&[][..]));
    assert_eq!(db.len(), 1);
}

#[test]
fn what_is_badly_signed_or_malformed_changes_nothing() {
    let mut db = Database::new(node(1));
    let mut forged = body(2, 5, &[link(1, 10)]);
    let last = forged.len() - 1;
    forged[last] ^= 1;
    let refused = Verdict::dropped(Some(key(2, 5)), Reason::Refused);
    assert_eq!(offer(&mut db, at(0), 0, &forged), refused);
    let good = body(2, 5, &[link(1, 10)]);
    for len in 0..good.len() {
        let verdict = offer(&mut db, at(0), 0, &good[..len]);
        assert!(
            matches!(verdict, Verdict::Dropped { .. }),
            "{len}: {verdict:?}"
        );
    }
    let unknown = Record {
        kind: RecordKind(9),
        age_s: 0,
        body: &good,
    };
    let verdict = db.on_record(at(0), FROM, &unknown, is_signed);
    let reason = Reason::Malformed(Malformed::Kind);
    assert_eq!(verdict, Verdict::dropped(None, reason));
    assert!(db.is_empty() && db.generation() == 0);
}

#[test]
fn an_edge_counts_when_both_ends_report_it() {
    let mut db = Database::new(node(1));
    own_record(&mut db, at(0), &[link(2, 10)]);
    assert_eq!((edges(&db), db.generation()), (vec![], 0));
    offer(&mut db, at(0), 0, &body(2, 1, &[link(1, 20), link(3, 5)]));
    let both = vec![(node(1), node(2), 10), (node(2), node(1), 20)];
    assert_eq!((edges(&db), db.generation()), (both.clone(), 1));
    // News that affects no route: a renewal, and an end of a link that the other end does not confirm.
    offer(&mut db, at(1), 0, &body(2, 2, &[link(1, 20), link(3, 5)]));
    offer(
        &mut db,
        at(1),
        0,
        &body(2, 3, &[link(1, 20), link(3, 6), link(4, 1)]),
    );
    assert_eq!((edges(&db), db.generation()), (both, 1));
    offer(&mut db, at(2), 0, &body(2, 4, &[link(1, 21)]));
    assert_eq!(db.generation(), 2);
    offer(&mut db, at(3), 0, &body(2, 5, &[]));
    assert_eq!((edges(&db), db.generation()), (vec![], 3));
}

#[test]
fn records_age_where_they_are_held_and_end() {
    let mut db = Database::new(node(1));
    own_record(&mut db, at(0), &[link(2, 10)]);
    offer(&mut db, at(0), 30, &body(2, 1, &[link(1, 20)]));
    let name = Name::of(key(2, 1));
    assert_eq!(db.record(at(10), name).unwrap().1.age_s, 40);
    assert!(!db.expire(at(69)));
    assert!(db.expire(at(70)));
    assert_eq!((db.len(), edges(&db)), (1, vec![]));
    let again = offer(&mut db, at(70), 100, &body(2, 1, &[]));
    assert_eq!(again, Verdict::dropped(Some(key(2, 1)), Reason::Expired));
    assert!(
        !db.expire(at(1_000_000)),
        "our own record is renewed, not forgotten"
    );
}

#[test]
fn our_record_of_an_earlier_start_is_outdone() {
    let mut db = Database::new(node(1));
    let before = body(1, 700, &[link(9, 1)]);
    let mut forged = before.clone();
    forged[20] ^= 1;
    let last = forged.len() - 1;
    forged[last] ^= 1;
    assert!(matches!(
        offer(&mut db, at(0), 0, &forged),
        Verdict::Dropped { .. }
    ));
    let own = own_record(&mut db, at(0), &[link(2, 10)]);
    assert_eq!(own, key(1, 1));
    assert_eq!(offer(&mut db, at(0), 0, &before), Verdict::Own(key(1, 700)));
    assert!(db.refresh_at() <= at(0), "a new one is due");
    assert_eq!(own_record(&mut db, at(0), &[link(2, 10)]), key(1, 701));
    assert_eq!(
        offer(&mut db, at(1), 0, &before),
        Verdict::Stale(key(1, 701))
    );
    // The same number with other content: an earlier start had counted as far.
    let twin = body(1, 701, &[link(9, 1)]);
    assert_eq!(offer(&mut db, at(1), 0, &twin), Verdict::Own(key(1, 701)));
    assert_eq!(own_record(&mut db, at(1), &[]), key(1, 702));
}

/// A restarted origin may reach a number that it had before.
#[test]
fn of_two_records_with_one_number_all_take_the_same() {
    let one = body(2, 700, &[link(9, 1)]);
    let other = body(2, 700, &[link(9, 2)]);
    let (less, more) = (one.clone().min(other.clone()), one.max(other));
    let mut db = Database::new(node(1));
    assert_eq!(
        offer(&mut db, at(0), 0, &less),
        Verdict::Accepted(key(2, 700))
    );
    assert_eq!(
        offer(&mut db, at(0), 0, &more),
        Verdict::Accepted(key(2, 700))
    );
    assert_eq!(offer(&mut db, at(0), 0, &more), Verdict::Known(key(2, 700)));
    assert_eq!(offer(&mut db, at(0), 0, &less), Verdict::Stale(key(2, 700)));
}

#[test]
fn the_own_record_is_renewed_within_a_third_of_its_lifetime() {
    let mut db = Database::new(node(1));
    let mut intervals: Vec<u64> = Vec::new();
    for _ in 0..20 {
        let now = db.refresh_at();
        own_record(&mut db, now, &[]);
        intervals.push(db.refresh_at().since(now).as_millis());
    }
    assert!(
        intervals.iter().all(|ms| (240_000..=300_000).contains(ms)),
        "{intervals:?}"
    );
    assert!(intervals.windows(2).any(|w| w[0] != w[1]));
}

#[test]
fn records_wait_for_their_certificate_a_bounded_while() {
    let mut db = Database::new(node(1));
    let unknown = |claim: &Claim<'_>| match claim {
        Claim::LinkState(_) => Judgement::NoCertificate,
        _ => Judgement::Good,
    };
    for n in 0..MAX_PENDING as u32 + 5 {
        let body = body(n + 2, 1, &[]);
        let record = Record {
            kind: RecordKind::LINK_STATE,
            age_s: 4,
            body: &body,
        };
        let (first, again) = (
            db.on_record(at(0), FROM, &record, unknown),
            db.on_record(at(0), FROM, &record, unknown),
        );
        assert_eq!(first, again);
        let full = Verdict::dropped(None, Reason::Full);
        assert_eq!(
            first,
            if n < MAX_PENDING as u32 {
                Verdict::Pending
            } else {
                full
            }
        );
    }
    // Only the certificate of one node has arrived.
    let knows_two = |claim: &Claim<'_>| match claim.key().origin {
        origin if origin == node(2) => Judgement::Good,
        _ => Judgement::NoCertificate,
    };
    let verdicts = db.retry_pending(at(3), knows_two);
    assert_eq!(verdicts, [(FROM, Verdict::Accepted(key(2, 1)))]);
    assert_eq!(db.record(at(3), Name::of(key(2, 1))).unwrap().1.age_s, 7);
    assert_eq!(db.pending.len(), MAX_PENDING - 1);
    db.expire(at(19));
    assert_eq!(db.pending.len(), MAX_PENDING - 1);
    db.expire(at(20));
    assert_eq!(db.pending.len(), 0);
}

#[test]
fn what_waits_is_shared_out_among_neighbours() {
    let mut db = Database::new(node(1));
    let offer = |db: &mut Database, from: u16, n: u32| {
        let body = body(n, 1, &[]);
        let record = Record {
            kind: RecordKind::LINK_STATE,
            age_s: 0,
            body: &body,
        };
        db.on_record(at(0), LinkIndex(from), &record, |_| {
            Judgement::NoCertificate
        })
    };
    let waits = |db: &Database, from| {
        let all = db.pending.iter();
        all.filter(|p| p.from == LinkIndex(from)).count()
    };
    // One neighbour sends records that nobody will ever sign, and continues while others arrive.
    let mut numbers = 2..;
    for n in numbers.by_ref().take(200) {
        offer(&mut db, 0, n);
    }
    assert_eq!(waits(&db, 0), MAX_PENDING);
    for n in numbers.by_ref().take(100) {
        offer(&mut db, 1, n);
        offer(&mut db, 0, n + 1_000);
    }
    assert_eq!(waits(&db, 0), MAX_PENDING / 2);
    for n in numbers.by_ref().take(100) {
        offer(&mut db, 2, n);
    }
    assert_eq!(db.pending.len(), MAX_PENDING);
    for from in 0..3 {
        let share = MAX_PENDING / 3..=MAX_PENDING / 3 + 1;
        assert!(share.contains(&waits(&db, from)), "{from}");
    }
}

/// A succession of the first root, and lists of both roots, in the form that the stand-in for signatures accepts.
fn words_of_roots() -> Vec<(RecordKind, Vec<u8>)> {
    let mut authority = secure::Authority::generate(&[1; 32]);
    let first = authority.revocations(1_000).as_bytes().to_vec();
    let succession = authority.rotate(&[2; 32], 2_000, 1_000).unwrap();
    let later = authority.revocations(1_000);
    let later = wire::record::join_root(1, later.as_bytes());
    vec![
        (RecordKind::REVOCATIONS, first),
        (RecordKind::SUCCESSION, succession.to_bytes().to_vec()),
        (RecordKind::LATER_REVOCATIONS, later),
    ]
}

#[test]
fn what_a_root_has_said_does_not_grow_old() {
    for (kind, body) in words_of_roots() {
        let mut db = Database::new(node(1));
        let key = db.insert_verified(at(0), kind, &body).unwrap().unwrap();
        // A neighbour sleeps for longer than ages can express, and then gets the records.
        let late = at(70_000);
        db.expire(late);
        let (_, record) = db.record(late, Name::of(key)).unwrap();
        assert_eq!(record.age_s, 0, "an earlier version takes no older one");
        let mut sleeper = Database::new(node(2));
        // A node of an earlier version reports how long it has held the record.
        for age_s in [record.age_s, 3, u16::MAX] {
            let mut sleeper = sleeper.clone();
            let record = Record { age_s, ..record };
            let verdict = sleeper.on_record(late, FROM, &record, is_signed);
            assert_eq!(verdict, Verdict::Accepted(key), "{age_s}");
        }
        // The record waits for the root, and is accepted when that arrives.
        let record = Record {
            age_s: u16::MAX,
            ..record
        };
        let verdict = sleeper.on_record(late, FROM, &record, |_| Judgement::NoCertificate);
        assert_eq!(verdict, Verdict::Pending);
        let verdicts = sleeper.retry_pending(late + Duration::from_secs(3), is_signed);
        assert_eq!(verdicts, [(FROM, Verdict::Accepted(key))]);
    }
}

#[test]
fn certificates_are_kept_an_hour_after_their_node_was_last_heard_of() {
    let mut db = Database::new(node(1));
    let bytes = certificate(node(2), 4);
    let news = db.insert_certificate(at(0), 0, &bytes);
    assert_eq!(news.unwrap().unwrap().seq, RecordSeq(4));
    let older = certificate(node(2), 3);
    assert_eq!(db.insert_certificate(at(0), 0, &older), Ok(None));
    db.insert_certificate(at(0), 0, &certificate(node(1), 1))
        .unwrap();
    for s in 0..50 {
        offer(&mut db, at(s * 90), 0, &body(2, s as u32 + 1, &[]));
        db.expire(at(s * 90));
    }
    assert_eq!(db.certificate(node(2)), Some(&*bytes));
    let gone = 49 * 90 + 100;
    assert!(db.expire(at(gone)));
    assert!(!db.expire(at(gone + 3_400)));
    assert!(db.expire(at(gone + 3_600)));
    assert_eq!(db.certificate(node(2)), None);
    assert!(db.certificate(node(1)).is_some(), "our own stays");
    // A neighbour that still has the record, at its true age, does not bring it back.
    let record = Record {
        kind: RecordKind::CERTIFICATE,
        age_s: 3_600,
        body: &bytes,
    };
    let verdict = db.on_record(at(gone + 3_700), FROM, &record, is_signed);
    assert!(matches!(
        verdict,
        Verdict::Dropped {
            reason: Reason::Expired,
            ..
        }
    ));
}

#[test]
fn a_database_is_full_at_its_bound_and_stays_useful() {
    let mut db = Database::new(node(1));
    for n in 0..MAX_ORIGINS as u32 {
        let verdict = offer(&mut db, at(0), 0, &body(n + 2, 1, &[]));
        assert_eq!(verdict, Verdict::Accepted(key(n + 2, 1)));
    }
    let one_more = offer(&mut db, at(0), 0, &body(9_999, 1, &[]));
    assert_eq!(one_more, Verdict::dropped(None, Reason::Full));
    let newer = offer(&mut db, at(0), 0, &body(7, 2, &[]));
    assert_eq!(newer, Verdict::Accepted(key(7, 2)));
    own_record(&mut db, at(0), &[]);
    db.remove_origin(node(7));
    assert!(db.links_of(node(7)).is_none());
}

#[test]
fn a_topology_that_has_seen_too_many_nodes_is_built_anew() {
    let mut db = Database::new(node(1));
    own_record(&mut db, at(0), &[link(2, 10)]);
    offer(&mut db, at(0), 0, &body(2, 1, &[link(1, 20)]));
    let before = edges(&db);
    for n in 3..6_000u32 {
        let t = at(u64::from(n) * 200);
        offer(&mut db, t, 0, &body(n, 1, &[link(n + 1, 1)]));
        offer(&mut db, t, 0, &body(n + 1, n, &[link(n, 1)]));
        offer(&mut db, t, 0, &body(2, n, &[link(1, 20)]));
        db.expire(t);
    }
    assert!(db.topology().node_count() < 5_000);
    let seen = edges(&db);
    assert!(before.iter().all(|edge| seen.contains(edge)));
}

#[test]
fn unknown_options_are_kept_byte_for_byte() {
    let mut options = [0; OPTIONS_BYTES_MAX];
    let mut w = wire::bytes::Writer::new(&mut options);
    write_option(
        &mut w,
        Opt {
            kind: 0x55,
            value: b"later",
        },
    )
    .unwrap();
    let len = w.len();
    let mut maker = Database::new(node(2));
    let what = Origination {
        links: &[link(1, 3)],
        strikes: 0,
        certificate_serial: 1,
        options: &options[..len],
    };
    let made = maker.originate(at(0), what, |_| sign(node(2))).unwrap();
    let (_, record) = maker.record(at(0), Name::of(made)).unwrap();
    let mut db = Database::new(node(1));
    assert_eq!(
        db.on_record(at(0), FROM, &record, is_signed),
        Verdict::Accepted(made)
    );
    assert_eq!(
        db.record(at(0), Name::of(made)).unwrap().1.body,
        record.body
    );
}

/// A neighbour reports that a record is old: it cannot be older than its number shows, and an honest copy makes it
/// young again.
#[test]
fn nobody_makes_a_record_older_than_it_is() {
    const UNIX_S: u64 = 1_800_000_000;
    let mut maker = Database::new(node(2));
    maker.set_clock(UNIX_S);
    let what = Origination {
        links: &[link(1, 3)],
        strikes: 0,
        certificate_serial: 1,
        options: &[],
    };
    let made = maker.originate(at(10), what, |_| sign(node(2))).unwrap();
    assert_eq!(made.seq, RecordSeq(1_800_000_010));
    let again = maker.originate(at(10), what, |_| sign(node(2))).unwrap();
    assert_eq!(again.seq, RecordSeq(1_800_000_011), "two in one second");
    let (_, record) = maker.record(at(10), Name::of(again)).unwrap();
    let old = Record {
        age_s: LIFETIME_S - 2,
        ..record
    };
    let mut db = Database::new(node(1));
    db.set_clock(UNIX_S);
    let accepted = db.on_record(at(31), FROM, &old, is_signed);
    assert_eq!(accepted, Verdict::Accepted(again));
    let (_, held) = db.record(at(31), Name::of(again)).unwrap();
    assert_eq!(held.age_s, 20);
    db.expire(at(40));
    assert!(db.links_of(node(2)).is_some());
    // A node whose clock is far ahead believes the false age, until an honest neighbour has sent the record.
    let mut ahead = Database::new(node(3));
    ahead.set_clock(UNIX_S + 100_000);
    assert_eq!(
        ahead.on_record(at(31), FROM, &old, is_signed),
        Verdict::Accepted(again)
    );
    let age = |db: &Database| db.record(at(31), Name::of(again)).unwrap().1.age_s;
    assert_eq!(age(&ahead), LIFETIME_S - 2);
    assert_eq!(
        ahead.on_record(at(31), FROM, &record, is_signed),
        Verdict::Known(again)
    );
    assert_eq!(age(&ahead), 0);
    // The number shows no age to a node whose clock is far behind.
    let mut behind = Database::new(node(4));
    behind.set_clock(UNIX_S - 100_000);
    behind.on_record(at(31), FROM, &old, is_signed);
    assert_eq!(age(&behind), LIFETIME_S - 2);
    // This holds only for identical content.
    let other = body(2, again.seq.0, &[link(1, 9)]);
    let other = Record {
        body: &other,
        age_s: 0,
        ..record
    };
    assert_eq!(
        db.on_record(at(31), FROM, &other, is_signed),
        Verdict::Stale(again)
    );
    assert_eq!(age(&db), 20);
}

/// The number of the newest record, the time at which it was made, and its links, by origin.
type Model = BTreeMap<u32, (u32, u64, Vec<Link>)>;

fn expected_edges(model: &Model) -> Vec<(NodeAddr, NodeAddr, u32)> {
    let says = |a: &u32, b: &u32| {
        let link = model[a].2.iter().find(|l| l.neighbor == node(*b));
        link.map(|l| l.latency.micros())
    };
    let mut expected = Vec::new();
    for a in model.keys() {
        for b in model.keys().filter(|b| a != *b) {
            if let (Some(us), Some(_)) = (says(a, b), says(b, a)) {
                expected.push((node(*a), node(*b), us));
            }
        }
    }
    expected
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// In any order of records, ends and expiry: the edges are those that the newest records of both ends report, and
    /// the generation changes exactly when the edges do.
    #[test]
    fn edges_agree_with_a_naive_model(
        steps in proptest::collection::vec(
            (1u32..7, 1u32..40, proptest::collection::vec((1u32..7, 1u32..4), 0..5), 0u64..60),
            1..80,
        )
    ) {
        let mut db = Database::new(node(99));
        let mut model = Model::new();
        let (mut now, mut generation, mut before) = (0, 0, Vec::new());
        for (origin, seq, told, wait) in steps {
            now += wait / 10;
            let links: Vec<Link> = told.iter().map(|&(to, us)| link(to, us)).collect();
            let told = body(origin, seq, &links);
            offer(&mut db, at(now), 0, &told);
            // Among equal editions the youngest counts, and these are new; among others with one number, the larger one
            // counts.
            let is_news = |(held, _, before): &(u32, u64, Vec<Link>)| {
                *held < seq || *held == seq && body(origin, *held, before) <= told
            };
            if model.get(&origin).is_none_or(is_news) {
                model.insert(origin, (seq, now, links));
            }
            for expire in [false, true] {
                if expire {
                    db.expire(at(now));
                    model.retain(|_, (_, made, _)| now - *made < 100);
                }
                let expected = expected_edges(&model);
                prop_assert_eq!(&edges(&db), &expected);
                prop_assert_eq!(db.generation() != generation, before != expected);
                (generation, before) = (db.generation(), expected);
            }
        }
    }
}

/// Returns a record of node 2, with links to the nodes 1 and 3 and these options.
fn told(seq: u32, options: &[u8]) -> Vec<u8> {
    let repr = Repr {
        origin: node(2),
        seq: RecordSeq(seq),
        lifetime_s: 100,
        certificate_serial: 1,
        strikes: 0,
        links: &[link(1, 10), link(3, 10)],
        options,
    };
    let mut bytes = [0; BODY_BYTES_MAX];
    let len = repr.emit(&mut bytes, |_| sign(node(2))).unwrap();
    bytes[..len].to_vec()
}

#[test]
fn what_links_carry_is_known_by_their_senders_word_and_never_less_than_the_floor() {
    let mut database = Database::new(node(1));
    let usable = |d: &Database| {
        let pairs = [(2, 1), (2, 3), (3, 2)];
        let all = pairs.map(|(from, to)| d.usable(node(from), node(to)));
        (all, d.least_usable())
    };
    assert_eq!(usable(&database), ([1_439; 3], 1_439));
    // 1300 bytes to node 3, and a false value: 16 bytes to node 1.
    let record = told(1, &[1, 6, 1, 0x05, 0x14, 0, 0, 16]);
    offer(&mut database, at(1), 0, &record);
    assert_eq!(usable(&database), ([1_200, 1_300, 1_439], 1_200));
    offer(&mut database, at(1), 0, &told(2, &[1, 3, 1, 0x05, 0x14]));
    assert_eq!(usable(&database), ([1_439, 1_300, 1_439], 1_300));
    assert!(database.expire(at(200)));
    assert_eq!(usable(&database), ([1_439; 3], 1_439));
}

#[test]
fn queues_are_known_by_the_word_of_the_links_senders() {
    let mut database = Database::new(node(1));
    let queued = |d: &Database| {
        let each = [1, 3].map(|to| d.is_queued(node(2), node(to)));
        (each, d.has_queued())
    };
    offer(&mut database, at(1), 0, &told(1, &[17, 3, 0x59, 1, 0xc1]));
    assert_eq!(queued(&database), ([false, true], true));
    offer(&mut database, at(2), 0, &told(2, &[17, 1, 0x59]));
    assert_eq!(queued(&database), ([false, false], false));
    offer(&mut database, at(3), 0, &told(3, &[17, 1, 0xc1]));
    assert_eq!(queued(&database), ([true, true], true));
    assert!(database.expire(at(200)));
    assert_eq!(queued(&database), ([false, false], false));
}

/// The database of node 1 in a triangle in which all links work.
fn triangle() -> Database {
    let mut db = Database::new(node(1));
    own_record(&mut db, at(0), &[link(2, 10), link(3, 10)]);
    for (origin, a, b) in [(2, 1, 3), (3, 1, 2)] {
        let links = [link(a, 10), link(b, 10)];
        offer(&mut db, at(0), 0, &body(origin, 1, &links));
    }
    db
}

fn silent(to: u32) -> Link {
    Link {
        availability: wire::Availability::SILENT,
        ..link(to, 10)
    }
}

/// Returns whether each link that leads to a node counts as silent, in order of the other ends.
fn into(db: &Database, to: u32) -> Vec<bool> {
    let t = db.topology();
    let from = |n| t.links_from(n).iter().map(move |edge| (t.addr(n), edge));
    let edges = t.nodes().flat_map(from);
    let mut edges: Vec<_> = edges
        .filter(|(_, edge)| t.addr(edge.peer) == node(to))
        .map(|(from, edge)| (from, edge.link.is_silent()))
        .collect();
    edges.sort_unstable();
    edges.into_iter().map(|(_, silent)| silent).collect()
}

#[test]
fn a_node_that_a_neighbour_does_not_hear_and_that_says_nothing_is_silent_to_all() {
    let mut db = triangle();
    let told = [link(1, 10), silent(3)];
    offer(&mut db, at(10), 0, &body(2, 2, &told));
    assert_eq!(into(&db, 3), [false, true]);
    let due = db.next_doubt().unwrap();
    assert_eq!(due, at(10) + Duration::from_millis(300));
    db.settle_doubts(due - Duration::from_millis(1));
    assert_eq!(into(&db, 3), [false, true]);
    let generation = db.generation();
    db.settle_doubts(due);
    assert_eq!(into(&db, 3), [true, true]);
    assert!(db.generation() > generation);
    assert_eq!(db.next_doubt(), None);
    // A record from it arrives, and only the link that is reported as silent is silent.
    offer(&mut db, at(12), 0, &body(3, 2, &[link(1, 10), link(2, 10)]));
    assert_eq!(into(&db, 3), [false, true]);
    // The same is reported again: it is no news.
    offer(&mut db, at(13), 0, &body(2, 3, &told));
    assert_eq!(db.next_doubt(), None);
}

#[test]
fn a_doubt_ends_when_nobody_has_it_any_more() {
    for last in [
        // The other end reports the same: a link has failed, not a node.
        body(3, 2, &[link(1, 10), silent(2)]),
        // The link is heard again, or given up.
        body(2, 3, &[link(1, 10), link(3, 10)]),
        body(2, 3, &[link(1, 10)]),
    ] {
        for settles in [false, true] {
            let mut db = triangle();
            offer(&mut db, at(10), 0, &body(2, 2, &[link(1, 10), silent(3)]));
            if settles {
                db.settle_doubts(at(11));
            }
            offer(&mut db, at(12), 0, &last);
            assert_eq!(db.next_doubt(), None);
            assert!(!into(&db, 3)[0], "{settles}");
        }
    }
}

#[test]
fn a_node_that_is_called_silent_denies_it_once() {
    let mut db = triangle();
    let told = [silent(1), link(3, 10)];
    offer(&mut db, at(10), 0, &body(2, 2, &told));
    assert!(db.take_denial() && !db.take_denial());
    assert_eq!(db.next_doubt(), None, "it does not doubt itself");
    offer(&mut db, at(11), 0, &body(2, 3, &told));
    assert!(!db.take_denial());
    // A node need not deny what it reports itself.
    own_record(&mut db, at(12), &[silent(2), link(3, 10)]);
    offer(&mut db, at(13), 0, &body(2, 4, &[link(3, 10)]));
    offer(&mut db, at(14), 0, &body(2, 5, &told));
    assert!(!db.take_denial());
}
