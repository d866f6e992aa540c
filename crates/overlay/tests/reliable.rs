//! Reliable links between real nodes in the simulator: everything arrives once, at a fair rate, and
//! what is lost is repaired on its hop. [Amir03 §III, §IV]
#![allow(clippy::unwrap_used)]

mod world;

use base::{Duration, Time};
use overlay::event::Drop;
use overlay::request::{Options, RequestError};
use overlay::{Reply, Settings};
use wire::data::{Class, LinkProtocol, Routing};
use world::{Nodes, PORT, SENDER, chain, model, read};

fn reliable() -> Options {
    Options {
        class: Class {
            link: LinkProtocol::Reliable,
            routing: Routing::ExpectedLatency,
            priority: 2,
        },
        ..overlay::sockets::default_options()
    }
}

/// Delays from sending to delivery in order, of datagrams at a steady pace from the first to the
/// last node of a chain.
fn in_order_delays(
    nodes: &mut Nodes,
    to: usize,
    count: u64,
    bytes: usize,
    interval: Duration,
) -> Vec<f64> {
    nodes.bind(to, reliable());
    nodes.set_sender(0, SENDER, reliable());
    let start = nodes.world.now() + Duration::from_millis(10);
    let mut delays: Vec<Option<Time>> = vec![None; count as usize];
    let mut sent = 0;
    let collect = |nodes: &mut Nodes, delays: &mut Vec<Option<Time>>| {
        for answer in nodes.world.take_replies() {
            match answer.reply {
                Reply::Datagram { payload, .. } => {
                    let place = &mut delays[read(payload.bytes()).0 as usize];
                    assert!(place.is_none(), "twice");
                    *place = Some(answer.at);
                }
                Reply::Refused(why) => panic!("{why}"),
                _ => {}
            }
        }
    };
    while sent < count {
        for _ in 0..100.min(count - sent) {
            nodes.send_to(start + interval * sent, 0, SENDER, (to, PORT), sent, bytes);
            sent += 1;
        }
        nodes.world.run_until(start + interval * sent);
        collect(nodes, &mut delays);
    }
    nodes.run_ms(5_000);
    collect(nodes, &mut delays);
    let mut latest = Time::ZERO;
    let mut in_order = Vec::new();
    for (n, arrived) in delays.into_iter().enumerate() {
        latest = latest.max(arrived.unwrap_or_else(|| panic!("{n} is missing")));
        in_order.push(latest.since(start + interval * n as u64).as_secs_f64() * 1e3);
    }
    in_order
}

fn share_over(delays: &[f64], ms: f64) -> f64 {
    delays.iter().filter(|d| **d > ms).count() as f64 / delays.len() as f64
}

fn five_hops(seed: u64, loss: &str) -> Nodes {
    let mut nodes = Nodes::new(seed, 6, &chain(6), "delay=10ms rate=10mbit queue=50");
    let path = format!("delay=10ms rate=10mbit queue=50 loss={loss}");
    nodes
        .world
        .link(nodes.hosts[2], nodes.hosts[3], &model(&path));
    nodes.run_ms(3_000);
    nodes
}

/// [Amir03 Fig. 6]: hop by hop, at 1 % loss, 3 % of the packets take longer than 60 ms and 1 %
/// longer than 100 ms.
#[test]
fn at_500_kbit_and_one_percent_loss_few_packets_are_late() {
    let mut nodes = five_hops(1, "1%");
    let delays = in_order_delays(&mut nodes, 5, 10_000, 1_000, Duration::from_millis(16));
    let (over_60, over_100) = (share_over(&delays, 60.0), share_over(&delays, 100.0));
    println!("over 60 ms {over_60:.4}, over 100 ms {over_100:.4}");
    assert!(over_60 > 0.005 && over_60 <= 0.03, "{over_60}");
    assert!(over_100 <= 0.01, "{over_100}");
    nodes.world.close().unwrap();
}

#[test]
fn at_1000_kbit_and_two_percent_loss_nothing_collapses() {
    let mut nodes = five_hops(2, "2%");
    let delays = in_order_delays(&mut nodes, 5, 10_000, 1_000, Duration::from_millis(8));
    let mean = delays.iter().sum::<f64>() / delays.len() as f64;
    let most = delays.iter().copied().fold(0.0, f64::max);
    println!("mean {mean:.2} ms, most {most:.1} ms");
    assert!(mean < 65.0, "{mean}");
    assert!(most < 500.0, "{most}");
    nodes.world.close().unwrap();
}

#[test]
fn everything_arrives_once_over_bad_links() {
    for seed in 0..4 {
        let path = "delay=5ms loss=10% burst=50% jitter=2ms";
        let mut nodes = Nodes::new(seed, 4, &chain(4), path);
        nodes.run_ms(5_000);
        let delays = in_order_delays(&mut nodes, 3, 1_000, 300, Duration::from_millis(20));
        assert!(delays.iter().all(|d| *d < 3_000.0), "seed {seed}");
        nodes.world.close().unwrap();
    }
}

#[test]
fn a_full_lane_refuses_and_control_overtakes_it() {
    let mut nodes = Nodes::with(
        3,
        2,
        &chain(2),
        "delay=10ms rate=1mbit queue=20",
        Settings::modern(),
    );
    nodes.run_ms(2_000);
    nodes.bind(1, reliable());
    nodes.set_sender(0, SENDER, reliable());
    let at = nodes.world.now() + Duration::from_millis(1);
    for n in 0..3_000 {
        nodes.send_to(at, 0, SENDER, (1, PORT), n, 1_000);
    }
    nodes.run_ms(20_000);
    let (mut refused, mut came) = (0, 0);
    for answer in nodes.world.take_replies() {
        match answer.reply {
            Reply::Refused(why) => {
                assert_eq!(why, RequestError::Congested);
                refused += 1;
            }
            Reply::Datagram { .. } => came += 1,
            _ => {}
        }
    }
    assert!(refused > 0 && came > 0, "{refused} {came}");
    assert_eq!(refused + came, 3_000);
    // Hellos are not behind the packets that wait: the link stays up.
    assert_eq!(nodes.link_status(0, 1).counts.downs, 0);
    assert_eq!(nodes.count().drops(Drop::LaneFull), 0);
    nodes.world.close().unwrap();
}
