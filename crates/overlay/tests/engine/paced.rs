//! Video that is delivered at the pace at which it was sent: how even and how late the delivery is, compared with
//! delivery in order. `--nocapture` shows what was measured.
#![allow(
    clippy::disallowed_macros,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test that shows what it measured"
)]

use crate::world::Nodes;
use crate::world::video::{Flow, run, set_group};
use base::{Duration, Time};
use overlay::request::Delivery;
use overlay::sockets::default_options;
use wire::groups::Setting;

/// What a member's socket receives of a flow, without the first seconds.
struct Seen {
    p50_ms: f64,
    p99_ms: f64,
    /// Largest number of packets within 10 ms.
    most: usize,
    lost: u64,
}

/// Sends 1000 packets/s over three hops that lose 2 % each.
fn seen(rtt_ms: u64, delivery: Delivery) -> Seen {
    seen_within(rtt_ms, (rtt_ms * 5 / 2 + 100) as u16, delivery)
}

/// Same as [`seen`], with another deadline.
fn seen_within(rtt_ms: u64, deadline_ms: u16, delivery: Delivery) -> Seen {
    let hop = format!("delay={}us loss=2%", rtt_ms * 1_000 / 6);
    let mut nodes = Nodes::new(3, 4, &[(0, 1), (1, 2), (2, 3)], &hop);
    nodes.run_ms(5_000);
    let deadline = Duration::from_millis(deadline_ms.into());
    let mut flows = [Flow::new(&mut nodes, 1, (0, 3), 1_000, deadline)];
    let setting = Setting {
        class: default_options().class,
        deadline_ms,
        delivery: Some(delivery),
        ..Setting::of(flows[0].group)
    };
    set_group(&mut nodes, 0, setting);
    nodes.run_ms(300);
    run(&mut nodes, &mut flows, 6_000, true);
    run(&mut nodes, &mut flows, 1_500, false);
    let [flow] = &flows;
    assert!(flow.came.is_sorted());
    let begun = flow.at[0].0 + Duration::from_secs(2);
    let steady: Vec<(Time, Duration)> = flow
        .at
        .iter()
        .copied()
        .filter(|(at, _)| *at > begun)
        .collect();
    let mut delays: Vec<Duration> = steady.iter().map(|(_, took)| *took).collect();
    delays.sort_unstable();
    let share = |of: usize| delays[delays.len() * of / 100].as_micros() as f64 / 1e3;
    let within = |i: usize| {
        let until = steady[i].0 + Duration::from_millis(10);
        steady[i..].iter().take_while(|(at, _)| *at < until).count()
    };
    let seen = Seen {
        p50_ms: share(50),
        p99_ms: share(99),
        most: (0..steady.len()).map(within).max().unwrap(),
        lost: flow.lost(),
    };
    nodes.world.close().unwrap();
    println!(
        "round trip {rtt_ms} ms, {delivery:?}: median {:.1} ms, p99 {:.1} ms, at most {} packets in 10 ms, lost {}",
        seen.p50_ms, seen.p99_ms, seen.most, seen.lost
    );
    seen
}

#[test]
fn what_is_repaired_leaves_in_no_burst() {
    for rtt_ms in [20, 100] {
        let in_order = seen(rtt_ms, Delivery::InOrder);
        let as_sent = seen(rtt_ms, Delivery::AsSent(None));
        let after_ms = rtt_ms * 2;
        let after = Duration::from_millis(after_ms);
        let timed = seen(rtt_ms, Delivery::AsSent(Some(after)));
        for seen in [&in_order, &as_sent, &timed] {
            assert_eq!(seen.lost, 0);
        }
        // At this pace 10 packets are sent in 10 ms. The delivery is checked every half millisecond.
        assert!(
            as_sent.most <= 12 && timed.most <= 11,
            "{} {}",
            as_sent.most,
            timed.most
        );
        assert!(in_order.most > 15, "{}", in_order.most);
        assert!(as_sent.p50_ms <= in_order.p99_ms + 2.0 * rtt_ms as f64 / 3.0);
        let off = (timed.p50_ms - after_ms as f64)
            .abs()
            .max((timed.p99_ms - after_ms as f64).abs());
        assert!(off <= 2.0, "{off} ms from {after_ms}");
    }
}

/// A header can express at most 6.55 s, whatever deadline was set. The age of a packet is still computed correctly from
/// it.
#[test]
fn a_release_time_holds_where_the_deadline_is_longer_than_a_header_tells() {
    let after = Duration::from_millis(300);
    let seen = seen_within(20, 10_000, Delivery::AsSent(Some(after)));
    assert_eq!(seen.lost, 0);
    let off = (seen.p50_ms - 300.0).abs().max((seen.p99_ms - 300.0).abs());
    assert!(off <= 2.0, "{off} ms from 300");
}

#[test]
fn what_was_sent_before_anybody_joined_delays_nobody_for_long() {
    let mut nodes = Nodes::new(3, 4, &[(0, 1), (1, 2), (2, 3)], "delay=5ms");
    nodes.run_ms(5_000);
    let deadline = Duration::from_millis(500);
    let flow = Flow::new(&mut nodes, 1, (0, 3), 200, deadline);
    let setting = Setting {
        class: default_options().class,
        deadline_ms: 500,
        delivery: Some(Delivery::AsSent(None)),
        ..Setting::of(flow.group)
    };
    set_group(&mut nodes, 0, setting);
    // The sender begins while the join is under way.
    let next = nodes.world.now();
    let mut flows = [Flow { next, ..flow }];
    run(&mut nodes, &mut flows, 2_000, true);
    run(&mut nodes, &mut flows, 1_000, false);
    let [flow] = &flows;
    let missed = flow.came.first().copied().unwrap();
    assert!((1..16).contains(&missed), "{missed} before the join");
    assert_eq!(flow.lost(), missed);
    assert!(flow.latest < Duration::from_millis(125), "{}", flow.latest);
    let soon = flow.at[0].0 + Duration::from_millis(300);
    let later = flow.at.iter().filter(|(at, _)| *at >= soon);
    let latest = later.map(|(_, took)| *took).max().unwrap();
    assert!(latest < Duration::from_millis(20), "{latest}");
    nodes.world.close().unwrap();
}

/// The path loses everything for 100 ms, once. A repair would take longer than the deadline.
#[test]
fn after_a_gap_the_flow_is_soon_as_early_as_before() {
    let mut nodes = Nodes::new(3, 2, &[(0, 1)], "delay=30ms");
    nodes.run_ms(5_000);
    let deadline = Duration::from_millis(50);
    let mut flows = [Flow::new(&mut nodes, 1, (0, 1), 200, deadline)];
    let setting = Setting {
        class: default_options().class,
        deadline_ms: 50,
        delivery: Some(Delivery::AsSent(None)),
        ..Setting::of(flows[0].group)
    };
    set_group(&mut nodes, 0, setting);
    nodes.run_ms(1_000);
    run(&mut nodes, &mut flows, 2_000, true);
    nodes.set_outage(0, 1, true);
    run(&mut nodes, &mut flows, 100, true);
    nodes.set_outage(0, 1, false);
    let healed = nodes.world.now();
    run(&mut nodes, &mut flows, 2_000, true);
    let [flow] = &flows;
    assert!((15..30).contains(&flow.lost()), "{}", flow.lost());
    let late = |ms: u64| {
        let from = healed + Duration::from_millis(ms);
        let later = flow.at.iter().filter(|(at, _)| *at >= from);
        later.map(|(_, took)| *took).max().unwrap()
    };
    assert!(late(0) > Duration::from_millis(45), "{}", late(0));
    assert!(late(500) < Duration::from_millis(35), "{}", late(500));
    nodes.world.close().unwrap();
}
