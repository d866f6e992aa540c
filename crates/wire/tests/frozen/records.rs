//! Flooded data: the records' frame, link states with each of their options, and groups.

use super::{A, B, C, GROUP, control::only, open, written};
use base::Duration;
use core::num::NonZeroU8;
use wire::Aim;
use wire::bytes::Writer;
use wire::control::{Builder, Message};
use wire::data::{Class, LinkProtocol, Routing};
use wire::groups::{self, Groups, Permit, Setting, TreeBuilder, Ways};
use wire::ipc::Delivery;
use wire::link_state::{self, Bulk, Link, LinkState, Protection, Rates, RelaysFor, Sending};
use wire::record::{Record, RecordKind, RecordSeq};
use wire::{Availability, Endpoint, Full, Latency, Loss};

const SIGNATURE: [u8; 64] = [0x5a; 64];

const LINKS: [Link; 2] = [
    Link {
        neighbor: B,
        latency: Latency::from_micros(30_000),
        loss: Loss(0x0ccd),
        availability: Availability::STEADY,
    },
    Link {
        neighbor: C,
        latency: Latency::MAX,
        loss: Loss::ALL,
        availability: Availability(3),
    },
];

const REPR: link_state::Repr<'_> = link_state::Repr {
    origin: A,
    seq: RecordSeq(42),
    lifetime_s: 3600,
    certificate_serial: 5,
    strikes: 2,
    links: &LINKS,
    options: &[],
};

fn options(write: impl FnOnce(&mut Writer<'_>) -> Result<(), Full>) -> Vec<u8> {
    written(|bytes| {
        let mut w = Writer::new(&mut bytes[..link_state::OPTIONS_BYTES_MAX]);
        write(&mut w)?;
        Ok(w.len())
    })
}

pub(crate) fn link_state(options: &[u8]) -> Vec<u8> {
    let repr = link_state::Repr { options, ..REPR };
    written(|bytes| repr.emit(bytes, |_| SIGNATURE))
}

/// Checks what all link states here have in common.
pub(crate) fn read_link_state(body: &[u8]) -> LinkState<'_> {
    let read = LinkState::parse(body).unwrap();
    let of = (read.origin, read.seq, read.lifetime_s);
    assert_eq!(of, (REPR.origin, REPR.seq, REPR.lifetime_s));
    let by = (read.certificate_serial, read.strikes, read.signature());
    assert_eq!(by, (REPR.certificate_serial, REPR.strikes, &SIGNATURE));
    assert_eq!(read.links().collect::<Vec<_>>(), LINKS);
    read
}

#[test]
fn link_states() {
    let mut fixtures = open!("link-state");
    fixtures.hold("no-options", &link_state(&[]), |frozen| {
        assert_eq!(read_link_state(frozen).options().count(), 0);
    });
    type Write<'a> = &'a dyn Fn(&mut Writer<'_>) -> Result<(), Full>;
    let mut hold = |name: &str, write: Write<'_>, told: &dyn Fn(&LinkState<'_>)| {
        let body = link_state(&options(write));
        fixtures.hold(name, &body, |frozen| {
            let read = read_link_state(frozen);
            assert_eq!(read.options().count(), 1);
            told(&read);
        });
    };
    hold(
        "1-usable",
        &|w| link_state::write_usable(w, &[(1, 1280)]),
        &|read| assert_eq!(read.usable().collect::<Vec<_>>(), [(1, 1280)]),
    );
    hold(
        "2-capacities",
        &|w| link_state::write_capacities(w, &[(0, 100_000), (1, 2_000)]),
        &|read| {
            let mut told: Vec<_> = read.capacities().collect();
            told.sort_unstable();
            assert_eq!(told, [(0, 100_000), (1, 2_000)]);
        },
    );
    let hops = NonZeroU8::new(4).unwrap();
    hold(
        "4-hops",
        &|w| link_state::write_hops(w, &[(1, hops)]),
        &|read| assert_eq!(read.hops().collect::<Vec<_>>(), [(1, hops)]),
    );
    hold(
        "5-version",
        &|w| link_state::write_version(w, "0.1.0"),
        &|read| assert_eq!(read.version(), Some("0.1.0")),
    );
    let rates = Rates {
        one_kbps: 20_000,
        together_kbps: 80_000,
        is_full: true,
        spread_pct: 15,
    };
    hold(
        "6-rates",
        &|w| link_state::write_link_rates(w, &[(1, rates)]),
        &|read| {
            let (place, told) = read.rates().next().unwrap();
            assert_eq!((place, told.is_full, told.spread_pct), (1, true, 15));
            // A rate has 11 significant bits.
            assert!((19_900..=20_100).contains(&told.one_kbps), "{told:?}");
            assert!((79_600..=80_400).contains(&told.together_kbps), "{told:?}");
        },
    );
    let bulk = Bulk {
        is_closed: true,
        is_for_some: false,
        relays_for: None,
        load: 3,
        sending: Sending::ByRate,
    };
    hold("7-bulk", &|w| link_state::write_bulk(w, bulk), &|read| {
        assert_eq!(read.bulk(), Some(bulk));
    });
    let some = Bulk {
        is_closed: false,
        is_for_some: true,
        ..bulk
    };
    hold(
        "7-bulk-for-some",
        &|w| link_state::write_bulk(w, some),
        &|read| assert_eq!(read.bulk(), Some(some)),
    );
    hold(
        "8-seals",
        &|w| link_state::write_seals(w, 0xb007_0001),
        &|read| assert_eq!(read.seals(), Some(0xb007_0001)),
    );
    let endpoints = [
        Endpoint {
            ip: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 198, 51, 100, 2],
            port: 40_001,
        },
        Endpoint {
            ip: [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7],
            port: 7701,
        },
    ];
    hold(
        "10-endpoints",
        &|w| link_state::write_endpoints(w, &endpoints),
        &|read| assert_eq!(read.endpoints().collect::<Vec<_>>(), endpoints),
    );
    hold(
        "12-tunnels",
        &|w| link_state::write_tunnels(w, &[1]),
        &|read| assert_eq!(read.tunnels().collect::<Vec<_>>(), [1]),
    );
    for (name, places) in [("13-alarms", &[1u8][..]), ("13-no-alarms", &[])] {
        hold(name, &|w| link_state::write_alarms(w, places), &|read| {
            let told: Vec<_> = read.alarms().unwrap().collect();
            let places: Vec<_> = places.iter().copied().map(usize::from).collect();
            assert_eq!(told, places);
        });
    }
    hold("14-tallies", &link_state::write_tallies, &|read| {
        assert!(read.tallies());
    });
    hold("15-group-keys", &link_state::write_group_keys, &|read| {
        assert!(read.has_group_keys());
    });
    hold(
        "16-group-tallies",
        &link_state::write_group_tallies,
        &|read| {
            assert!(read.tallies_groups());
        },
    );
    let protections = [
        Protection::new(256, 16, true),
        Protection::new(1024, 0, false),
    ];
    hold(
        "17-protection",
        &|w| link_state::write_protections(w, &[(1, protections[1]), (0, protections[0])]),
        &|read| {
            let told: Vec<_> = read.protections().unwrap().collect();
            assert_eq!(told, protections);
        },
    );
    for (name, places) in [("18-offer", &[1u8][..]), ("18-offer-keeps-none", &[])] {
        hold(name, &|w| link_state::write_offer(w, places), &|read| {
            let told: Vec<_> = read.offer().unwrap().collect();
            let places: Vec<_> = places.iter().copied().map(usize::from).collect();
            assert_eq!(told, places);
        });
    }
    let hosts = [Endpoint::of_ipv4([192, 168, 1, 7], 7700), endpoints[1]];
    hold(
        "19-hosts",
        &|w| link_state::write_hosts(w, &hosts),
        &|read| assert_eq!(read.hosts().collect::<Vec<_>>(), hosts),
    );
    let words = ["ams", "*-lab", "10.7.0.3", "tag:backup", "@lab.example"];
    let relays_for = RelaysFor::of(&words.map(str::to_owned));
    let some = Bulk { relays_for, ..some };
    // The option is only meaningful together with option 7.
    let body = link_state(&options(|w: &mut Writer<'_>| {
        link_state::write_bulk(w, some)?;
        link_state::write_relays_for(w, &relays_for.unwrap())
    }));
    fixtures.hold("20-relays-for", &body, |frozen| {
        assert_eq!(read_link_state(frozen).bulk(), Some(some));
    });
    fixtures.end();
}

#[test]
fn frames_of_records() {
    let mut fixtures = open!("record");
    let kinds = [
        ("link-state", RecordKind::LINK_STATE),
        ("certificate", RecordKind::CERTIFICATE),
        ("revocations", RecordKind::REVOCATIONS),
        ("later-revocations", RecordKind::LATER_REVOCATIONS),
        ("succession", RecordKind::SUCCESSION),
        ("groups-0", RecordKind::GROUPS),
        ("groups-7", RecordKind::groups(7).unwrap()),
    ];
    let records = kinds.map(|(_, kind)| Record {
        kind,
        age_s: 0x0102,
        body: &[1, 2, 3],
    });
    let built = |records: &[Record<'_>]| {
        written(|bytes| {
            let mut builder = Builder::new(bytes);
            records.iter().try_for_each(|it| builder.record(it))?;
            Ok(builder.len())
        })
    };
    let read = |frozen: &[u8], expected: &[Record<'_>]| {
        let Message::Records(told) = only(frozen) else {
            panic!("no records");
        };
        assert_eq!(told.iter().collect::<Vec<_>>(), expected);
    };
    for ((name, _), record) in kinds.iter().zip(&records) {
        let one = core::slice::from_ref(record);
        fixtures.hold(name, &built(one), |frozen| read(frozen, one));
    }
    let together = built(&records);
    fixtures.hold("together", &together, |frozen| read(frozen, &records));
    fixtures.end();
}

#[test]
fn groups_of_a_node() {
    let mut fixtures = open!("groups");
    let settings = [
        Setting {
            version: 3,
            tree: TreeBuilder::Scribe,
            class: Class {
                link: LinkProtocol::RealTime,
                routing: Routing::ExpectedLatency,
                priority: 5,
            },
            deadline_ms: 150,
            rate_kbps: 2_000,
            ..Setting::of(GROUP)
        },
        Setting {
            group: base::NodeAddr(0xef01_0000),
            prefix: 24,
            version: 4,
            ways: Ways::Two,
            delivery: Some(Delivery::AsSent(Some(Duration::from_millis(200)))),
            ..Setting::of(GROUP)
        },
        Setting {
            ways: Ways::Targeted,
            ..Setting::of(base::NodeAddr(0xef02_0000))
        },
        Setting {
            ways: Ways::One,
            delivery: Some(Delivery::InOrder),
            ..Setting::of(base::NodeAddr(0xef02_0001))
        },
    ];
    let permits = written(|bytes| {
        let mut w = Writer::new(bytes);
        Permit::write(&mut w, (GROUP, 32), Some(&["ams", "ed*"]), None)?;
        let nobody: Option<&[&str]> = Some(&[]);
        Permit::write(&mut w, (GROUP, 32), Some(&["@example.org"]), nobody)?;
        Ok(w.len())
    });
    let members = [GROUP, base::NodeAddr(0xf000_0001)];
    let all = groups::Repr {
        origin: A,
        seq: RecordSeq(42),
        lifetime_s: 3600,
        certificate_serial: 5,
        part: 0,
        members: &members,
        settings: &settings,
        permits: &permits,
    };
    let none = groups::Repr {
        part: 7,
        members: &[],
        settings: &[],
        permits: &[],
        ..all
    };
    let aims = groups::Repr {
        settings: &[Setting {
            aim: Aim::new(Some(0.000_1), Some(0.5)).unwrap(),
            ..Setting::of(GROUP)
        }],
        ..none
    };
    for (name, repr) in [("all-items", all), ("none", none), ("aims", aims)] {
        let body = written(|bytes| repr.emit(bytes, |_| SIGNATURE));
        fixtures.hold(name, &body, |frozen| {
            let kind = RecordKind::groups(repr.part).unwrap();
            let read = Groups::parse(kind, frozen).unwrap();
            let of = (read.origin, read.seq, read.lifetime_s);
            assert_eq!(of, (repr.origin, repr.seq, repr.lifetime_s));
            let by = (read.certificate_serial, read.part, read.signature());
            assert_eq!(by, (repr.certificate_serial, repr.part, &SIGNATURE));
            assert_eq!(read.members().collect::<Vec<_>>(), repr.members);
            let mut told: Vec<_> = read.settings().collect();
            let mut meant = repr.settings.to_vec();
            told.sort_by_key(|it| it.group);
            meant.sort_by_key(|it| it.group);
            assert_eq!(told, meant);
            let words = |permit: Permit<'_>| {
                let list = |words: Option<groups::Words<'_>>| {
                    words.map(|words| words.iter().map(str::to_owned).collect::<Vec<_>>())
                };
                (permit.group, list(permit.send), list(permit.receive))
            };
            let told: Vec<_> = read.permits().map(words).collect();
            let list = |words: &[&str]| Some(words.iter().map(|it| it.to_string()).collect());
            let meant = [
                (GROUP, list(&["ams", "ed*"]), None),
                (GROUP, list(&["@example.org"]), list(&[])),
            ];
            assert_eq!(told, meant[..if repr.permits.is_empty() { 0 } else { 2 }]);
        });
    }
    fixtures.end();
}
