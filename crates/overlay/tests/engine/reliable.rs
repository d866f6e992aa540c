//! Reliable links between real nodes in the simulator: everything arrives once, at a fair rate, and losses are repaired
//! on the hop where they occur. [Amir03 §III, §IV]
#![allow(clippy::unwrap_used)]

use crate::world::{Nodes, PORT, Plan, SENDER, addr, chain, model, read};
use base::{ClientId, Duration, Time};
use overlay::event::Drop;
use overlay::reliable::{Family, LinkSettings};
use overlay::request::{Operation, Options, RequestError};
use overlay::{Neighbor, Reply, Settings};
use wire::data::{Class, LinkProtocol, Routing};

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

/// Returns the delays from sending to delivery in order, for datagrams at a steady pace from the first to the last node
/// of a chain.
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
    // Hellos do not wait behind the queued packets, so the link stays up.
    assert_eq!(nodes.link_status(0, 1).counts.downs, 0);
    assert_eq!(nodes.count().drops(Drop::LaneFull), 0);
    nodes.world.close().unwrap();
}

#[test]
fn a_slow_second_hop_holds_the_first_and_the_client_back() {
    let mut nodes = Nodes::new(4, 3, &chain(3), "delay=5ms");
    nodes.link(0, 1, "delay=5ms rate=100mbit queue=200");
    nodes.link(1, 2, "delay=5ms rate=2mbit queue=50");
    nodes.run_ms(2_000);
    nodes.bind(2, reliable());
    nodes.set_sender(0, SENDER, reliable());
    let start = nodes.world.now() + Duration::from_millis(1);
    let count = 20_000;
    for n in 0..count {
        // 8 Mbit/s.
        nodes.send_to(
            start + Duration::from_millis(1) * n,
            0,
            SENDER,
            (2, PORT),
            n,
            1_000,
        );
    }
    nodes.run_ms(25_000);
    let (mut refused, mut delays) = (0, Vec::new());
    for answer in nodes.world.take_replies() {
        match answer.reply {
            Reply::Refused(RequestError::Congested) => refused += 1,
            Reply::Datagram { payload, .. } => {
                delays.push(answer.at.since(read(payload.bytes()).1));
            }
            _ => {}
        }
    }
    // All accepted packets have arrived, and none of them waited for long anywhere.
    assert_eq!(refused + delays.len() as u64, count);
    assert_eq!(nodes.count().drops(Drop::LaneFull), 0);
    let longest = delays.iter().max().unwrap();
    assert!(*longest < Duration::from_millis(1_500), "{longest}");
    let used = delays.len() as f64 * 1_000.0 * 8.0 / 20.0;
    assert!(used > 0.8 * 2e6, "{used}");
    nodes.world.close().unwrap();
}

#[test]
fn what_waits_for_a_dead_link_takes_another() {
    for seed in 0..3 {
        let edges = [(0, 1), (1, 3), (0, 2), (2, 3)];
        let mut nodes = Nodes::new(seed, 4, &edges, "delay=10ms");
        nodes.link(0, 2, "delay=15ms");
        nodes.run_ms(3_000);
        nodes.bind(3, reliable());
        nodes.set_sender(0, SENDER, reliable());
        let start = nodes.world.now();
        let count = 1_500;
        for n in 0..count {
            let at = start + Duration::from_millis(2) * n;
            nodes.send_to(at, 0, SENDER, (3, PORT), n, 500);
        }
        nodes.run_ms(1_000);
        nodes.set_outage(0, 1, true);
        nodes.run_ms(6_000);
        nodes.set_outage(0, 1, false);
        nodes.run_ms(5_000);
        let (mut came, mut refused) = (vec![0; count as usize], 0);
        let mut longest = Duration::ZERO;
        for answer in nodes.world.take_replies() {
            match answer.reply {
                Reply::Datagram { payload, .. } => {
                    let (number, sent) = read(payload.bytes());
                    came[number as usize] += 1;
                    longest = longest.max(answer.at.since(sent));
                }
                Reply::Refused(RequestError::Congested) => refused += 1,
                Reply::Refused(why) => panic!("{why}"),
                _ => {}
            }
        }
        // Until the link is known to be dead, the lane fills up, and then accepts no more packets. The accepted packets
        // arrive, once.
        assert!(came.iter().all(|times| *times <= 1), "seed {seed}");
        assert_eq!(came.iter().sum::<u64>() + refused, count, "seed {seed}");
        assert!(refused < 250, "{refused}");
        assert!(longest < Duration::from_millis(1_000), "{longest}");
        // The lanes work afterwards, including the one that was down.
        let delays = in_order_delays(&mut nodes, 3, 200, 500, Duration::from_millis(5));
        assert!(delays.iter().all(|ms| *ms < 60.0), "{delays:?}");
        assert!(
            nodes.link_status(0, 1).reliable.received < 10,
            "nothing goes back"
        );
        nodes.world.close().unwrap();
    }
}

#[test]
fn a_neighbour_that_restarts_is_sent_to_anew() {
    let mut nodes = Nodes::new(6, 2, &chain(2), "delay=10ms");
    nodes.run_ms(2_000);
    nodes.introduce(&[(0, 1)]);
    let before = in_order_delays(&mut nodes, 1, 300, 500, Duration::from_millis(2));
    assert!(before.iter().all(|ms| *ms < 20.0));
    nodes.restart(1);
    nodes.run_ms(5_000);
    let after = in_order_delays(&mut nodes, 1, 300, 500, Duration::from_millis(2));
    assert!(after.iter().all(|ms| *ms < 20.0));
    nodes.world.close().unwrap();
}

/// Returns what one lane carries of a source that always has data to send, in bits per second.
fn carried(seed: u64, (family, spares): (Family, bool), path: &str, seconds: u64) -> f64 {
    let mut settings = Settings::modern();
    settings.reliable.family = family;
    settings.reliable.spares_random_losses = spares;
    let mut nodes = Nodes::with(seed, 2, &chain(2), path, settings);
    nodes.run_ms(3_000);
    nodes.bind(1, reliable());
    nodes.set_sender(0, SENDER, reliable());
    let (mut bytes, bytes_each) = (0, 1_000);
    for second in 0..seconds {
        let start = nodes.world.now();
        for n in 0..1_400 {
            let at = start + Duration::from_micros(1_000_000 / 1_400) * n;
            nodes.send_to(at, 0, SENDER, (1, PORT), n, bytes_each);
        }
        nodes.run_ms(1_000);
        for answer in nodes.world.take_replies() {
            if let Reply::Datagram { payload, .. } = answer.reply
                && second >= 5
            {
                bytes += payload.len();
            }
        }
    }
    bytes as f64 * 8.0 / (seconds - 5) as f64
}

/// The model of [Amir03 Fig. 9] for one acknowledgement per packet.
fn padhye(rtt_s: f64, rto_s: f64, p: f64) -> f64 {
    let timeouts = rto_s * f64::min(1.0, 3.0 * (3.0 * p / 8.0).sqrt()) * p * (1.0 + 32.0 * p * p);
    1_000.0 * 8.0 / (rtt_s * (2.0 * p / 3.0).sqrt() + timeouts)
}

#[test]
fn a_lossy_long_link_carries_about_what_a_tcp_would() {
    let path = "delay=50ms rate=10mbit queue=100 loss=1%";
    let rate = carried(7, (Family::NewReno, false), path, 65);
    let ratio = rate / padhye(0.1, 0.2, 0.01);
    assert!((0.75..1.35).contains(&ratio), "{ratio}");
    // A lane that distinguishes these losses from congestion uses the available rate.
    let rate = carried(7, (Family::Cubic, true), path, 65);
    assert!(rate > 8e6, "{rate}");
}

/// A lane must not carry packets that it cannot carry in time. Otherwise everything behind them would be late as well.
#[test]
fn an_overloaded_lane_carries_what_is_in_time() {
    let mut nodes = Nodes::new(9, 3, &chain(3), "delay=10ms rate=4mbit queue=20");
    nodes.run_ms(2_000);
    let options = Options {
        deadline: Some(Duration::from_millis(150)),
        ..reliable()
    };
    nodes.bind(2, options);
    nodes.set_sender(0, SENDER, options);
    let start = nodes.world.now() + Duration::from_millis(1);
    // For 20 s, the source sends 1.5 times as much as a link carries. A packet takes 1100 bytes with all headers.
    let (count, bytes) = (13_600, 1_000);
    let interval = Duration::from_micros(1_467);
    let (mut in_time, mut late, mut refused) = (0, 0, 0);
    for n in 0..count {
        let at = start + interval * n;
        nodes.send_to(at, 0, SENDER, (2, PORT), n, bytes);
        if n % 100 == 99 {
            nodes.world.run_until(at);
        }
    }
    nodes.run_ms(3_000);
    for answer in nodes.world.take_replies() {
        match answer.reply {
            Reply::Datagram { payload, .. } => {
                let delay = answer.at.since(read(payload.bytes()).1);
                match delay <= Duration::from_millis(150) {
                    true => in_time += 1,
                    false => late += 1,
                }
            }
            Reply::Refused(RequestError::Congested) => refused += 1,
            _ => {}
        }
    }
    let expired = nodes.count().drops(Drop::Expired);
    let share = f64::from(in_time) / count as f64;
    assert!(
        share >= 0.6,
        "{share}: {late} late, {refused} refused, {expired} expired"
    );
    // The queue of the link may grow after a packet has left the lane, so some packets are late anyway.
    assert!(
        expired > 0 && late <= count / 50,
        "{late} late, {expired} expired"
    );
    nodes.world.close().unwrap();
}

/// Returns what the links from the first node to the second and the third carry, in Mbit/s.
fn carried_by_both(nodes: &mut Nodes) -> [f64; 2] {
    let (warm, seconds) = (8, 12);
    let mut bytes = [0; 2];
    for second in 0..seconds {
        let start = nodes.world.now();
        for n in 0..1_400 {
            let at = start + Duration::from_micros(1_000_000 / 1_400) * n;
            for to in [1, 2] {
                nodes.send_to(at, 0, ClientId(60 + to as u32), (to, PORT), n, 1_000);
            }
        }
        nodes.run_ms(1_000);
        for answer in nodes.world.take_replies() {
            let to = nodes
                .hosts
                .iter()
                .position(|host| *host == answer.host)
                .unwrap();
            if let Reply::Datagram { payload, .. } = answer.reply
                && second >= warm
            {
                bytes[to - 1] += payload.len();
            }
        }
    }
    bytes.map(|bytes| bytes as f64 * 8.0 / (seconds - warm) as f64 / 1e6)
}

#[test]
fn each_link_may_have_a_congestion_control_of_its_own() {
    let cut = LinkSettings {
        family: Some(Family::NewReno),
        spares_random_losses: Some(false),
        ..LinkSettings::default()
    };
    let plan = Plan {
        edges: vec![(0, 1), (0, 2)],
        lanes: vec![((0, 1), cut)],
        ..Plan::of(3)
    };
    let mut nodes = Nodes::planned(8, plan);
    for to in [1, 2] {
        nodes.link(0, to, "delay=50ms rate=10mbit queue=100 loss=1%");
        nodes.bind(to, reliable());
        nodes.set_sender(0, ClientId(60 + to as u32), reliable());
    }
    nodes.run_ms(3_000);
    let controls = |nodes: &Nodes| [1, 2].map(|to| nodes.link_status(0, to).reliable.congestion);
    assert_eq!(controls(&nodes), ["newreno", "cubic"]);
    let [first, second] = carried_by_both(&mut nodes);
    assert!(first < 3.0 && second > 7.0, "{first} {second}");
    // A reload changes each link as the new configuration says, and no other link.
    for (to, reliable) in [(1, LinkSettings::default()), (2, cut)] {
        let neighbor = Neighbor {
            addr: addr(to),
            name: format!("n{to}"),
            at: Some(nodes.at(to)),
            more: Vec::new(),
            capacity_kbps: 0,
            reliable,
        };
        nodes.operate(0, Operation::Meet(neighbor));
    }
    nodes.run_ms(10);
    assert_eq!(controls(&nodes), ["cubic", "newreno"]);
    let [first, second] = carried_by_both(&mut nodes);
    assert!(first > 7.0 && second < 3.0, "{first} {second}");
    assert_eq!(nodes.link_status(0, 1).counts.downs, 0);
}
