//! The goals of the real-time lane, in virtual time: the residual loss of one strike on one link, and the residual loss
//! of the default over a chain. `--nocapture` shows the values. The tests named `_full` use the full numbers of packets
//! (`--release -- --ignored --nocapture`).
#![allow(
    clippy::disallowed_macros,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test that shows what it measured"
)]

use crate::world::streams::{Streams, standard_error};
use crate::world::{Nodes, chain, voice};
use base::Duration;
use overlay::Settings;
use overlay::realtime;

const HOP: Duration = Duration::from_millis(10);
/// Interval between two packets of ten calls.
const SPACING: Duration = Duration::from_millis(2);
/// Block size of the bootstrap: one second of ten calls, longer than any burst of losses or recovery.
const BLOCK: usize = 500;

/// A cell of [Amir06 Fig. 4]: `packets` of ten calls over one link.
fn one_strike(loss: u32, burst: u32, packets: u64) {
    let mut settings = Settings::modern();
    settings.realtime = realtime::Settings {
        strikes: 1,
        redundant_last: false,
        tail_probes: 0,
        // The formula covers requests only, so nothing else may repair.
        aims: realtime::Settings::paper().aims,
        ..realtime::Settings::modern()
    };
    let path = format!("delay=10ms loss={loss}% burst={burst}%");
    let seed = u64::from(loss * 100 + burst);
    let mut nodes = Nodes::with(seed, 2, &chain(2), "delay=10ms", settings);
    nodes.run_ms(2_000);
    nodes.link(0, 1, &path);
    let mut calls = Streams::calls(&mut nodes, 10, 0, 1, voice());
    calls.run(&mut nodes, SPACING * packets);
    calls.finish(&mut nodes);

    let p = f64::from(loss) / 100.0;
    let expected = p * (1.0 - (1.0 - p).powi(2));
    let lost: Vec<bool> = calls.fates().iter().map(Option::is_none).collect();
    let residual = lost.iter().filter(|l| **l).count() as f64 / lost.len() as f64;
    let error = standard_error(&lost, BLOCK);
    println!(
        "one strike, loss {loss:2} % burst {burst:2} %: {:.4} % of {packets} lost, \
         expected {:.4} % (off by {:+.2} standard errors of {:.4} %), bound 2.4 p^2 = {:.4} %",
        residual * 100.0,
        expected * 100.0,
        (residual - expected) / error,
        error * 100.0,
        2.4 * p * p * 100.0
    );
    assert!((residual - expected).abs() <= 3.0 * error);
    assert!(residual < 2.4 * p * p);
    assert_eq!(calls.duplicates, 0);

    // Recovered packets arrive 3T + Δ after they were sent, where Δ is the time to the next packet that arrives.
    // [Amir06 Fig. 6]
    let recovered: Vec<Duration> = calls
        .fates()
        .into_iter()
        .flatten()
        .filter(|delay| *delay > HOP)
        .collect();
    let three = HOP * 3;
    let least = recovered.iter().min().unwrap();
    let mean = recovered.iter().map(|d| d.as_secs_f64()).sum::<f64>() / recovered.len() as f64;
    // A gap of n packets is seen n spacings after its first packet. The mean for the first packet of a gap is 1/(1-b)
    // spacings.
    let b = f64::from(burst.max(loss)) / 100.0;
    let delta = SPACING.as_secs_f64() / (1.0 - b);
    println!(
        "    recovered: {}, after {:.2} ms on average, {:.2} ms at least (3T + delta = {:.2})",
        recovered.len(),
        mean * 1e3,
        least.as_secs_f64() * 1e3,
        (three.as_secs_f64() + delta) * 1e3
    );
    assert_eq!(*least, three + SPACING);
    assert!((mean - three.as_secs_f64() - delta).abs() < 0.1 * delta);
    nodes.world.close().unwrap();
}

fn six_cells(packets: u64) {
    for loss in [2, 5, 10] {
        for burst in [0, 50] {
            one_strike(loss, burst, packets);
        }
    }
}

#[test]
fn one_strike_leaves_what_arithmetic_says() {
    six_cells(50_000);
}

#[test]
#[ignore = "500 000 packets in each of six cells"]
fn one_strike_leaves_what_arithmetic_says_full() {
    six_cells(500_000);
}

/// Returns the number of bytes on all wires per payload byte.
fn bytes_per_byte(nodes: &Nodes, packets: u64) -> f64 {
    let sent: u64 = (0..6)
        .flat_map(|i| nodes.party(i).sent.values())
        .map(|traffic| traffic.wire_bytes())
        .sum();
    sent as f64 / (packets as f64 * crate::world::PAYLOAD as f64)
}

/// Runs ten calls over five links, the third of which loses packets in both directions. Returns the bytes on the wires
/// per byte of payload.
fn five_links(delay: &str, loss: u32, burst: u32, packets: u64, bound: f64) -> f64 {
    let limit = Duration::from_millis(100);
    let path = format!("delay={delay}");
    let mut nodes = Nodes::new(u64::from(loss), 6, &chain(6), &path);
    nodes.link(2, 3, &format!("{path} loss={loss}% burst={burst}%"));
    // The estimate of the packet loss needs time to follow.
    nodes.run_ms(10_000);
    let mut calls = Streams::calls(&mut nodes, 10, 0, 5, voice());
    calls.run(&mut nodes, SPACING * packets);
    calls.finish(&mut nodes);
    let missed = calls.missed(limit);
    let share = missed as f64 / packets as f64;
    let never = calls.missed(Duration::MAX);
    let ratio = bytes_per_byte(&nodes, packets);
    let (there, back) = (nodes.link_status(2, 3), nodes.link_status(3, 2));
    println!(
        "default, {delay} a link, loss {loss:2} % burst {burst} %: {missed} of {packets} lost or late, {:.4} % ({never} never came), \
         bound {:.2} %; on the lossy link {:.4} sent again per original and {:.4} requested; \
         {ratio:.3} bytes on five wires per payload byte",
        share * 100.0,
        bound * 100.0,
        there.realtime.retransmissions as f64 / there.realtime.originals as f64,
        back.realtime.requests as f64 / there.realtime.originals as f64,
    );
    assert!(share <= bound);
    assert_eq!(calls.duplicates, 0);
    nodes.world.close().unwrap();
    ratio
}

fn default_over_five_links(packets: u64) {
    let without = five_links("10ms", 0, 0, packets, 0.0);
    for (loss, bound) in [(5, 0.0007), (10, 0.0045)] {
        let with = five_links("10ms", loss, 0, packets, bound);
        println!(
            "    recovery adds {:.2} % of the bytes on all wires, {:.1} % of the bytes on the lossy one",
            (with / without - 1.0) * 100.0,
            (with / without - 1.0) * 500.0
        );
    }
}

/// The demo, on hosts that add half a millisecond to two milliseconds on each link. The second request cannot wait
/// until the answer to the first one is overdue.
#[test]
fn hosts_that_add_to_the_delay_leave_room_for_a_second_strike() {
    for delay in ["10500us", "11ms", "11500us", "12ms"] {
        five_links(delay, 5, 25, 100_000, 0.0002);
    }
}

#[test]
fn the_default_keeps_the_deadline_over_five_links() {
    default_over_five_links(20_000);
}

#[test]
#[ignore = "500 000 packets over five links, three times"]
fn the_default_keeps_the_deadline_over_five_links_full() {
    default_over_five_links(500_000);
}
