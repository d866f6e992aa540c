//! A node's whole table: from an arriving record to the next hops by all metrics.

use super::{BenchError, Options, Samples, same};
use base::{NodeAddr, Rng, Time};
use graph::{Metric, Topology};
use net::Clock;
use overlay::link::LinkIndex;
use overlay::link_state::{Database, Judgement, Name, Origination, Verdict};
use overlay::route::{Changed, Tables};
use wire::link_state::Link;
use wire::record::RecordKind;
use wire::{Latency, Loss};

/// Measures the time from an accepted record to the updated table: repaired, and from scratch.
pub(super) fn measure(topology: &Topology, options: &Options) -> Result<Samples, BenchError> {
    let clock = Clock::new();
    let own = topology
        .nodes()
        .next()
        .map(|node| topology.addr(node))
        .unwrap_or_default();
    let mut database = Database::new(own);
    let mut makers: Vec<(Database, Vec<Link>)> = topology
        .nodes()
        .map(|node| {
            let edges = topology.links_from(node).iter();
            let links = edges.map(|edge| Link {
                neighbor: topology.addr(edge.peer),
                latency: Latency::from_micros(edge.link.latency_us),
                loss: Loss(edge.link.loss),
                availability: wire::Availability::STEADY,
            });
            (Database::new(topology.addr(node)), links.collect())
        })
        .collect();
    let mut tables = Tables::new(own);
    originate(&mut database, &makers[0].1)?;
    for (maker, links) in makers.iter_mut().skip(1) {
        tell(&mut database, maker, links)?;
    }
    tables.update(&mut database);
    let mut samples = Samples {
        name: "table",
        ..Samples::default()
    };
    let mut rng = Rng::new(options.seed);
    while samples.repair_ns.len() < options.changes.min(1_000) {
        let at = 1 + rng.below(makers.len() as u64 - 1) as usize;
        let (maker, links) = &mut makers[at];
        if links.is_empty() {
            continue;
        }
        let place = rng.below(links.len() as u64) as usize;
        let link = &mut links[place];
        link.latency = Latency::from_micros(1 + rng.below(10_000) as u32);
        tell(&mut database, maker, links)?;
        let start = clock.now();
        let changed = tables.update(&mut database);
        let repair = clock.now().since(start).as_nanos();
        samples.repair_ns.push(repair);
        if changed == Changed::Hops {
            samples.effective_ns.push(repair);
        }
        // Tables that have not followed any change yet are computed from scratch.
        let mut copy = database.clone();
        let mut fresh = Tables::new(own);
        let start = clock.now();
        fresh.update(&mut copy);
        samples.full_ns.push(clock.now().since(start).as_nanos());
        let all = |tables: &Tables, to: NodeAddr| Metric::ALL.map(|m| tables.route(m, to));
        let mut destinations = fresh.destinations();
        same(destinations.all(|to| all(&tables, to) == all(&fresh, to)))?;
    }
    Ok(samples)
}

fn originate(database: &mut Database, links: &[Link]) -> Result<(), BenchError> {
    let what = Origination {
        strikes: 0,
        links,
        certificate_serial: 1,
        options: &[],
    };
    let made = database.originate(Time::ZERO, what, |_| [0; 64]);
    made.map(drop)
        .map_err(|error| BenchError::Option(format!("a node has too many links: {error}")))
}

/// Enters the maker's report of its links, as flooding would.
fn tell(database: &mut Database, maker: &mut Database, links: &[Link]) -> Result<(), BenchError> {
    originate(maker, links)?;
    let own = maker.nodes().next().unwrap_or_default();
    let name = Name {
        kind: RecordKind::LINK_STATE,
        origin: own,
    };
    let record = maker.record(Time::ZERO, name);
    let verdict = record.map(|(_, record)| {
        database.on_record(Time::ZERO, LinkIndex(0), &record, |_| Judgement::Good)
    });
    match verdict {
        Some(Verdict::Accepted(_)) => Ok(()),
        other => Err(BenchError::Start(format!(
            "a record of {own} was not accepted: {other:?}"
        ))),
    }
}
