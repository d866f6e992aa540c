//! Streams that share reliable links: an interactive one beside bulk, and a fast branch beside a slow
//! one. [Amir03 §IV]
//!
//! The default cells take seconds. `cargo test -p overlay --test engine sharing -- --ignored --nocapture`
//! runs and prints the whole grid.
#![allow(clippy::unwrap_used)]
#![allow(
    clippy::disallowed_macros,
    clippy::print_stdout,
    reason = "the grid prints what it measures"
)]

use crate::world::sessions::Sessions;
use crate::world::{Nodes, chain};
use base::{ClientId, Time};
use overlay::Settings;
use overlay::reliable::Family;
use overlay::request::Options;
use overlay::stream::{DEFAULT_CLASS, Framing};

/// Size of the request and of the answer of an application, and the interval between requests.
const ECHO_BYTES: usize = 64;
const ECHO_EVERY_MS: u64 = 50;
/// Time in which the streams reach their shares before the measurement begins.
const WARM_MS: u64 = 5_000;
/// Number of bytes to write that a stream never reaches.
const PLENTY: u64 = u64::MAX / 4;
/// Maximum number of bytes that one relay may hold.
const HELD_MAX: usize = 32 << 20;

type Key = (usize, ClientId);

/// The results of an interactive stream and of the bulk streams beside it.
#[derive(Debug)]
struct Fared {
    p50: f64,
    p99: f64,
    most: f64,
    /// Payload of the bulk, in Mbit/s.
    bulk: f64,
}

/// Returns a path of `mbit` whose buffer holds 20 ms.
fn path(mbit: u64, loss: &str) -> String {
    let queue = (mbit * 20_000 / 8 / 1_372).max(10);
    format!("delay=10ms rate={mbit}mbit queue={queue} loss={loss}")
}

fn percentile(sorted: &[f64], share: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * share).round() as usize]
}

/// Opens a stream from one node to another, and waits until it is connected. Returns both ends.
fn open(
    nodes: &mut Nodes,
    sessions: &mut Sessions,
    ends: (usize, usize),
    framing: Framing,
    priority: u8,
) -> (Key, Key) {
    let mut options = Options {
        class: DEFAULT_CLASS,
        ..Options::default()
    };
    options.class.priority = priority;
    let before = sessions.accepted.len();
    let caller = sessions.connect(nodes, ends, framing, Some(options));
    assert!(sessions.run_until(nodes, 5_000, |s| s.accepted.len() > before));
    let (node, client, ..) = sessions.accepted[before];
    (caller, (node, client))
}

fn read(sessions: &mut Sessions, ends: &[Key]) -> u64 {
    ends.iter().map(|end| sessions.end(*end).read).sum()
}

/// Sends requests at a steady pace for `ms`. The other end answers each one at once. Returns the round trips in
/// milliseconds.
fn echoes(
    nodes: &mut Nodes,
    sessions: &mut Sessions,
    (near, far): (Key, Key),
    ms: u64,
) -> Vec<f64> {
    let mut round_trips = Vec::new();
    for tick in 0..ms + 5_000 {
        if tick < ms && tick % ECHO_EVERY_MS == 0 {
            let mut request = vec![0; ECHO_BYTES];
            request[..8].copy_from_slice(&nodes.world.now().as_nanos().to_be_bytes());
            sessions.end(near).messages.push_back(request);
        }
        sessions.run_ms(nodes, 1);
        let asked = core::mem::take(&mut sessions.end(far).received);
        let answers = asked.into_iter().map(|(_, request)| request);
        sessions.end(far).messages.extend(answers);
        for (at, answer) in core::mem::take(&mut sessions.end(near).received) {
            let sent = u64::from_be_bytes(answer[..8].try_into().unwrap());
            round_trips.push(at.since(Time::from_nanos(sent)).as_secs_f64() * 1e3);
        }
        if round_trips.len() as u64 == ms.div_ceil(ECHO_EVERY_MS) {
            break;
        }
    }
    assert_eq!(round_trips.len() as u64, ms.div_ceil(ECHO_EVERY_MS));
    round_trips
}

/// Creates three nodes in a row whose links use this congestion control.
fn row(seed: u64, path: &str, links: Family) -> Nodes {
    let mut settings = Settings::modern();
    settings.reliable.family = links;
    Nodes::with(seed, 3, &chain(3), path, settings)
}

/// Runs an echo over two hops, beside `bulks` bulk streams in the same direction.
fn echo_beside(path: &str, links: Family, bulks: usize, ms: u64) -> Fared {
    let mut nodes = row(1, path, links);
    nodes.run_ms(3_000);
    let mut sessions = Sessions::default();
    sessions.listen(&mut nodes, 2, None);
    sessions.run_ms(&mut nodes, 5);
    let ends = (0, 2);
    let echo = open(&mut nodes, &mut sessions, ends, Framing::Messages, 2);
    sessions.end(echo.1).finishes = false;
    let mut bulk = Vec::new();
    for _ in 0..bulks {
        let (near, far) = open(&mut nodes, &mut sessions, ends, Framing::Bytes, 2);
        sessions.end(far).finishes = false;
        bulk.push((near, far));
    }
    for (near, _) in &bulk {
        sessions.end(*near).to_write = PLENTY;
    }
    sessions.run_ms(&mut nodes, WARM_MS);
    let far: Vec<Key> = bulk.iter().map(|(_, far)| *far).collect();
    let (began, before) = (nodes.world.now(), read(&mut sessions, &far));
    let mut round_trips = echoes(&mut nodes, &mut sessions, echo, ms);
    let took = nodes.world.now().since(began).as_secs_f64();
    let bits = (read(&mut sessions, &far) - before) as f64 * 8.0;
    round_trips.sort_by(f64::total_cmp);
    Fared {
        p50: percentile(&round_trips, 0.5),
        p99: percentile(&round_trips, 0.99),
        most: *round_trips.last().unwrap(),
        bulk: bits / took / 1e6,
    }
}

/// Checks the goals of an echo beside bulk streams. Returns the names of the goals that were missed.
fn judged(beside: &Fared, alone: &Fared, bulk_alone: f64) -> Vec<String> {
    let mut faults = Vec::new();
    let mut hold = |what: &str, good: bool| {
        if !good {
            faults.push(what.to_owned());
        }
    };
    hold("p99", beside.p99 <= alone.p99 + 30.0);
    hold("max", beside.most <= alone.most + 100.0);
    hold("bulk", beside.bulk >= 0.9 * bulk_alone);
    faults
}

/// Runs one cell of the table.
fn echo_cell(links: Family, mbit: u64, loss: &str, bulks: usize, ms: u64) {
    let path = path(mbit, loss);
    let alone = echo_beside(&path, links, 0, ms);
    let beside = echo_beside(&path, links, bulks, ms);
    let bulk_alone = mbit as f64;
    let faults = judged(&beside, &alone, bulk_alone);
    println!(
        "echo over {links}, {mbit} Mbit/s loss {loss} {bulks} bulk: alone p50 {:.0} p99 {:.0} max {:.0}, beside p50 {:.0} p99 {:.0} max {:.0} ms, bulk {:.1} of {bulk_alone:.1} {faults:?}",
        alone.p50, alone.p99, alone.most, beside.p50, beside.p99, beside.most, beside.bulk
    );
    assert!(faults.is_empty(), "{faults:?}: {beside:?} alone {alone:?}");
}

#[test]
fn an_echo_beside_one_bulk_stream_waits_for_its_own_packets_alone() {
    echo_cell(Family::Cubic, 50, "0%", 1, 6_000);
}

#[test]
fn an_echo_beside_sixteen_bulk_streams_is_hardly_later() {
    echo_cell(Family::Cubic, 10, "0%", 16, 6_000);
}

#[test]
fn an_echo_beside_bulk_on_a_lossy_path_is_hardly_later() {
    echo_cell(Family::Cubic, 10, "1%", 4, 20_000);
}

#[test]
fn over_links_that_bear_losses_bulk_fills_a_lossy_path_and_an_echo_is_hardly_later() {
    echo_cell(Family::Bbr, 10, "1%", 4, 10_000);
}

#[test]
#[ignore = "the whole grid takes minutes"]
fn the_grid_of_echoes() {
    grid(Family::Cubic);
}

#[test]
#[ignore = "the whole grid takes minutes"]
fn the_grid_of_echoes_over_links_that_bear_losses() {
    grid(Family::Bbr);
}

fn grid(links: Family) {
    let mut failed = Vec::new();
    for (mbit, loss, bulks) in cells() {
        let cell = std::panic::catch_unwind(|| echo_cell(links, mbit, loss, bulks, 20_000));
        if cell.is_err() {
            failed.push((mbit, loss, bulks));
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}

fn cells() -> Vec<(u64, &'static str, usize)> {
    let mut cells = Vec::new();
    for mbit in [10, 50, 100] {
        for loss in ["0%", "1%"] {
            cells.extend([1, 4, 16].map(|bulks| (mbit, loss, bulks)));
        }
    }
    cells
}

/// The result of a star: the rates to the fast branch and to the slow one, in Mbit/s, and the largest number of bytes
/// that the relay held.
#[derive(Debug)]
struct Star {
    fast: f64,
    slow: f64,
    held: usize,
}

/// Runs one stream to the fast branch and `slow_streams` streams to the slow one, behind one relay.
fn star(slow_streams: usize, ms: u64) -> Star {
    let edges = [(0, 1), (1, 2), (1, 3)];
    let mut nodes = Nodes::new(1, 4, &edges, "delay=10ms");
    nodes.link(0, 1, "delay=10ms rate=100mbit queue=180");
    nodes.link(1, 2, "delay=10ms rate=50mbit queue=90");
    nodes.link(1, 3, "delay=10ms rate=2mbit queue=10");
    nodes.run_ms(3_000);
    let mut sessions = Sessions::default();
    sessions.listen(&mut nodes, 2, None);
    sessions.listen(&mut nodes, 3, None);
    sessions.run_ms(&mut nodes, 5);
    let begin = |nodes: &mut Nodes, sessions: &mut Sessions, to| {
        let (near, far) = open(nodes, sessions, (0, to), Framing::Bytes, 2);
        sessions.end(far).finishes = false;
        (near, far)
    };
    let fast = begin(&mut nodes, &mut sessions, 2);
    let slow: Vec<_> = (0..slow_streams)
        .map(|_| begin(&mut nodes, &mut sessions, 3))
        .collect();
    for (near, _) in slow.iter().chain([&fast]) {
        sessions.end(*near).to_write = PLENTY;
    }
    let slow: Vec<Key> = slow.iter().map(|(_, far)| *far).collect();
    sessions.run_ms(&mut nodes, WARM_MS);
    let before = (read(&mut sessions, &[fast.1]), read(&mut sessions, &slow));
    let mut held = 0;
    for _ in 0..ms / 100 {
        sessions.run_ms(&mut nodes, 100);
        let lanes = nodes
            .snapshot(1)
            .links
            .into_iter()
            .map(|link| link.reliable);
        held = held.max(
            lanes
                .map(|lane| lane.queued_bytes + lane.in_flight * 1_400)
                .sum(),
        );
    }
    let rate = |bytes: u64| bytes as f64 * 8.0 / ms as f64 / 1e3;
    Star {
        fast: rate(read(&mut sessions, &[fast.1]) - before.0),
        slow: rate(read(&mut sessions, &slow) - before.1),
        held,
    }
}

fn star_cell(slow_streams: usize, ms: u64) {
    let alone = star(0, ms);
    let star = star(slow_streams, ms);
    let good = star.fast >= 0.9 * alone.fast && star.slow >= 0.9 * 2.0 && star.held <= HELD_MAX;
    println!(
        "star {slow_streams} slow: fast {:.1} of {:.1}, slow {:.2} Mbit/s, held {} kB {}",
        star.fast,
        alone.fast,
        star.slow,
        star.held / 1_000,
        if good { "" } else { "FAILS" }
    );
    assert!(good, "{slow_streams}: {star:?} alone {alone:?}");
}

#[test]
fn a_slow_branch_with_many_streams_holds_back_nobody_else() {
    star_cell(32, 6_000);
}

#[test]
#[ignore = "the whole grid takes minutes"]
fn the_grid_of_stars() {
    let mut failed = Vec::new();
    for slow in [1, 4, 8, 16, 32, 64] {
        if std::panic::catch_unwind(|| star_cell(slow, 20_000)).is_err() {
            failed.push(slow);
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}

#[test]
fn of_two_bulk_streams_the_one_of_higher_priority_goes_first_and_the_other_goes_on() {
    let mut nodes = Nodes::new(3, 3, &chain(3), &path(10, "0%"));
    nodes.run_ms(3_000);
    let mut sessions = Sessions::default();
    sessions.listen(&mut nodes, 2, None);
    sessions.run_ms(&mut nodes, 5);
    let far = [6, 2].map(|priority| {
        let (near, far) = open(&mut nodes, &mut sessions, (0, 2), Framing::Bytes, priority);
        sessions.end(far).finishes = false;
        sessions.end(near).to_write = PLENTY;
        far
    });
    sessions.run_ms(&mut nodes, WARM_MS);
    let before = far.map(|far| read(&mut sessions, &[far]));
    sessions.run_ms(&mut nodes, 5_000);
    let after = far.map(|far| read(&mut sessions, &[far]));
    let mbits = |i: usize| (after[i] - before[i]) as f64 * 8.0 / 5e6;
    let (high, low) = (mbits(0), mbits(1));
    assert!(high + low > 0.9 * 9.5, "{high} {low}");
    assert!(high > 7.0 * low && low > 0.2, "{high} {low}");
}
