use super::*;
use crate::link::LinkIndex;
use crate::link_state::tests::{is_signed, link, node, sign};
use crate::link_state::{Origination, Verdict};
use base::{Rng, Time};
use wire::Loss;
use wire::link_state::Link;
use wire::record::RecordKind;

/// Enters what `origin` reports about its links into the database of another node, as flooding would.
fn tell(database: &mut Database, origin: u32, links: &[Link]) {
    let mut maker = Database::new(node(origin));
    let what = Origination {
        links,
        strikes: 0,
        certificate_serial: 1,
        options: &[],
    };
    loop {
        let key = maker
            .originate(Time::ZERO, what, |_| sign(node(origin)))
            .unwrap();
        let name = crate::link_state::Name {
            kind: RecordKind::LINK_STATE,
            origin: node(origin),
        };
        let (_, record) = maker.record(Time::ZERO, name).unwrap();
        match database.on_record(Time::ZERO, LinkIndex(0), &record, is_signed) {
            Verdict::Accepted(accepted) => return assert_eq!(accepted, key),
            Verdict::Stale(_) | Verdict::Known(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

fn lossy(to: u32, latency_us: u32, loss: f64) -> Link {
    Link {
        loss: Loss::from_share(loss),
        ..link(to, latency_us)
    }
}

fn own(database: &mut Database, links: &[Link]) {
    let what = Origination {
        links,
        strikes: 0,
        certificate_serial: 1,
        options: &[],
    };
    database
        .originate(Time::ZERO, what, |_| sign(node(1)))
        .unwrap();
}

/// 1 - 4 directly, long and lossy; over 2, fast and lossy; over 3, slow and without loss.
fn diamond() -> Database {
    let mut db = Database::new(node(1));
    own(
        &mut db,
        &[
            lossy(4, 90_000, 0.1),
            lossy(2, 10_000, 0.05),
            link(3, 50_000),
        ],
    );
    tell(
        &mut db,
        2,
        &[lossy(1, 10_000, 0.05), lossy(4, 11_000, 0.05)],
    );
    tell(&mut db, 3, &[link(1, 50_000), link(4, 50_000)]);
    tell(
        &mut db,
        4,
        &[
            lossy(1, 90_000, 0.1),
            lossy(2, 11_000, 0.05),
            link(3, 50_000),
        ],
    );
    db
}

#[test]
fn every_metric_has_its_next_hop() {
    let (mut db, mut tables) = (diamond(), Tables::new(node(1)));
    assert_eq!(tables.next_hop(Metric::Hops, node(4)), None);
    assert_eq!(tables.update(&mut db), Changed::Hops);
    let hops = Metric::ALL.map(|m| tables.next_hop(m, node(4)));
    assert_eq!(hops, [4, 2, 3, 2].map(|n| Some(node(n))));
    let route = tables.route(Metric::Loss, node(4)).unwrap();
    assert_eq!(route.latency, Duration::from_millis(100));
    assert_eq!(tables.latency(node(4)), Some(Duration::from_millis(21)));
    assert_eq!(tables.latency(node(1)), Some(Duration::ZERO));
    assert_eq!(
        tables.latency_from(node(2), node(4)),
        Some(Duration::from_millis(11))
    );
    assert_eq!(tables.latency_from(node(4), node(4)), Some(Duration::ZERO));
    assert_eq!(tables.route(Metric::Hops, node(1)), None, "we are there");
    assert_eq!(tables.route(Metric::Hops, node(9)), None);
    assert_eq!(
        tables.destinations().collect::<Vec<_>>(),
        [2, 3, 4].map(node)
    );
}

#[test]
fn the_generation_changes_with_next_hops_only() {
    let (mut db, mut tables) = (diamond(), Tables::new(node(1)));
    tables.update(&mut db);
    let generation = tables.generation();
    assert_eq!(tables.update(&mut db), Changed::Nothing);
    tell(
        &mut db,
        2,
        &[lossy(1, 10_000, 0.05), lossy(4, 12_000, 0.05)],
    );
    assert_eq!(
        tables.update(&mut db),
        Changed::Nothing,
        "longer, and still the way"
    );
    assert_eq!(tables.latency(node(4)), Some(Duration::from_millis(22)));
    assert_eq!(tables.generation(), generation);
    tell(&mut db, 2, &[lossy(1, 10_000, 0.05)]);
    assert_eq!(tables.update(&mut db), Changed::Hops);
    assert_ne!(tables.generation(), generation);
    assert_eq!(tables.next_hop(Metric::Latency, node(4)), Some(node(4)));
    own(&mut db, &[]);
    assert_eq!(tables.update(&mut db), Changed::Hops);
    assert_eq!(tables.destinations().count(), 0);
}

/// Routes that follow change by change are the same as routes computed from scratch.
#[test]
fn incremental_routes_equal_fresh_ones() {
    let mut rng = Rng::new(11);
    let (mut db, mut tables) = (Database::new(node(1)), Tables::new(node(1)));
    for _ in 0..300 {
        let origin = 1 + rng.below(9) as u32;
        let mut links = Vec::new();
        for to in (1..10).filter(|to| *to != origin) {
            if rng.chance(0.4) {
                let loss = rng.below(6) as f64 / 100.0;
                links.push(lossy(to, 1_000 * (1 + rng.below(20) as u32), loss));
            }
        }
        match origin {
            1 => own(&mut db, &links),
            _ => tell(&mut db, origin, &links),
        }
        tables.update(&mut db);
        let mut fresh = Tables::new(node(1));
        fresh.update(&mut db.clone());
        let all = |t: &Tables| {
            let routes = |to| Metric::ALL.map(|m| t.route(m, to));
            t.destinations()
                .map(|to| (to, routes(to)))
                .collect::<Vec<_>>()
        };
        assert_eq!(all(&tables), all(&fresh));
    }
}
