//! Dissemination graphs in a world of nodes: one path in calm, all links of the ends while these lose packets, and then
//! one path again. [Babay et al. 2017]
//!
//! ```text
//!        .─ 1 ─.    .─ 4 ─.
//!     0 ─┼─ 2 ─┼╳╳╳─┼─ 5 ─┼─ 7       edge links 5 ms, each of 1, 2, 3 to each of 4, 5, 6 25 ms
//!        '─ 3 ─'    '─ 6 ─'
//! ```

use crate::world::{Nodes, PORT, RECEIVER, SENDER, voice};
use base::Duration;
use overlay::Settings;
use overlay::event::Drop;
use overlay::request::Options;
use std::collections::BTreeSet;
use wire::ipc::Scheme;

const TO: usize = 7;
const EDGES: [(usize, usize); 6] = [(0, 1), (0, 2), (0, 3), (4, TO), (5, TO), (6, TO)];
const DEADLINE: Duration = Duration::from_millis(65);

fn world(seed: u64) -> Nodes {
    world_with(seed, Settings::modern())
}

fn world_with(seed: u64, settings: Settings) -> Nodes {
    let middle = (1..=3).flat_map(|a| (4..=6).map(move |b| (a, b)));
    let links: Vec<(usize, usize)> = EDGES.into_iter().chain(middle).collect();
    let mut nodes = Nodes::with(seed, 8, &links, "delay=25ms", settings);
    set_edges(&mut nodes, "");
    nodes.run_ms(5_000);
    let options = Options {
        deadline: Some(DEADLINE),
        ..voice().routed_by(Scheme::Targeted)
    };
    nodes.bind_to(TO, RECEIVER, PORT, options);
    nodes.set_sender(0, SENDER, options);
    nodes.run_ms(10);
    nodes.count();
    nodes
}

/// Settings without the price of outages. Hellos that are lost in a row are an outage, and its price would count for
/// minutes.
fn without_price() -> Settings {
    let mut settings = Settings::modern();
    settings.hello.price.first = Duration::ZERO;
    settings.hello.price.most = Duration::ZERO;
    settings
}

fn set_edges(nodes: &mut Nodes, words: &str) {
    for (a, b) in EDGES {
        nodes.link(a, b, &format!("delay=5ms {words}"));
    }
}

/// Sends one packet every 10 ms for `seconds`. Returns how many packets were missed, and how many copies were sent per
/// packet.
fn talk(nodes: &mut Nodes, number: &mut u64, seconds: u64) -> (usize, f64) {
    let carried = |nodes: &mut Nodes| nodes.count().forwarded + nodes.count().originated;
    let (before, start) = (carried(nodes), nodes.world.now());
    let count = 100 * seconds;
    for i in 0..count {
        let at = start + Duration::from_millis(10 * i);
        nodes.send(at, 0, SENDER, TO, *number + i);
    }
    nodes.run_ms(10 * count + 300);
    *number += count;
    let arrivals = nodes.arrivals().into_iter();
    let in_time = arrivals.filter(|(_, delay)| *delay <= DEADLINE);
    let in_time: BTreeSet<u64> = in_time.map(|(number, _)| number).collect();
    let copies = (carried(nodes) - before) as f64 / count as f64;
    (count as usize - in_time.len(), copies)
}

#[test]
fn a_call_takes_one_path_in_calm_and_the_robust_graph_in_trouble() {
    for seed in 0..2 {
        let (mut nodes, mut number) = (world_with(seed, without_price()), 0);
        assert_eq!(talk(&mut nodes, &mut number, 10), (0, 3.0), "seed {seed}");
        set_edges(&mut nodes, "loss=20% burst=50%");
        talk(&mut nodes, &mut number, 5);
        let (missed, copies) = talk(&mut nodes, &mut number, 40);
        // The graph has three links at each end, and six or seven between them. Some copies never reach a relay and are
        // missing in the count.
        assert!(
            missed <= 4 && (10.0..=13.0).contains(&copies),
            "{seed}: {missed} {copies}"
        );
        set_edges(&mut nodes, "");
        // 50 losses in 5000 packets are 1 %. Then the announcement waits, and then the hold lasts.
        talk(&mut nodes, &mut number, 120);
        assert_eq!(talk(&mut nodes, &mut number, 5), (0, 3.0), "seed {seed}");
        let totals = nodes.count();
        for never in [Drop::StampLoops, Drop::StampStray, Drop::TtlExceeded] {
            assert_eq!(totals.drops(never), 0, "{seed} {never:?}");
        }
        assert_eq!(totals.unstamped, 0, "seed {seed}");
    }
}

/// A node gives an alarm after a few packets and announces it at once. The alarm ends at most 10 s after the last loss,
/// and the trouble ends 10 s after that.
#[test]
fn the_graph_is_there_within_a_second_and_gone_within_forty() {
    for seed in 0..4 {
        let (mut nodes, mut number) = (world_with(seed, without_price()), 0);
        talk(&mut nodes, &mut number, 30);
        set_edges(&mut nodes, "loss=10% burst=50%");
        talk(&mut nodes, &mut number, 1);
        let (_, copies) = talk(&mut nodes, &mut number, 4);
        assert!(copies >= 9.0, "{seed}: {copies}");
        talk(&mut nodes, &mut number, 20);
        set_edges(&mut nodes, "");
        talk(&mut nodes, &mut number, 40);
        assert_eq!(talk(&mut nodes, &mut number, 5), (0, 3.0), "seed {seed}");
    }
}

/// If no node announces alarms, the average of the losses decides, as before.
#[test]
fn without_alarms_the_average_decides() {
    let settings = Settings {
        alarms: false,
        ..Settings::modern()
    };
    let (mut nodes, mut number) = (world_with(0, settings), 0);
    talk(&mut nodes, &mut number, 10);
    set_edges(&mut nodes, "loss=20% burst=50%");
    talk(&mut nodes, &mut number, 5);
    let (missed, copies) = talk(&mut nodes, &mut number, 20);
    assert!(missed <= 4 && copies >= 9.0, "{missed} {copies}");
    set_edges(&mut nodes, "");
    talk(&mut nodes, &mut number, 40);
    assert!(
        talk(&mut nodes, &mut number, 5).1 >= 9.0,
        "it is slow to fall"
    );
}

/// Losses in a full queue are left to the brake. More copies would make the queue longer.
#[test]
fn what_a_full_queue_loses_gives_no_alarm() {
    for seed in 0..2 {
        let settings = Settings {
            brake: None,
            ..Settings::modern()
        };
        let (mut nodes, mut number) = (world_with(seed, settings), 0);
        talk(&mut nodes, &mut number, 10);
        for (a, b) in EDGES {
            nodes.link(a, b, "delay=5ms rate=150kbit queue=50");
        }
        let (missed, copies) = talk(&mut nodes, &mut number, 30);
        assert!(missed >= 300, "seed {seed}: it is too narrow, {missed}");
        assert!(copies <= 3.5, "seed {seed}: {copies}");
    }
}

#[test]
fn a_relay_that_dies_costs_no_more_than_it_takes_to_notice() {
    for seed in 0..3 {
        let (mut nodes, mut number) = (world(seed), 0);
        talk(&mut nodes, &mut number, 5);
        for i in 1..=6 {
            // The relay that the path uses dies, whichever it is. Only the last relay of each side is left.
            if i % 3 != 0 {
                nodes.crash(i);
            }
        }
        talk(&mut nodes, &mut number, 3);
        assert_eq!(talk(&mut nodes, &mut number, 5).0, 0, "seed {seed}");
    }
}
