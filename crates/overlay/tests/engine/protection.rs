//! Coded repair on links that are too long for requests, in whole networks: what it saves, where it stops, and with
//! which neighbors it is not used. `--nocapture` shows what was measured.
#![allow(
    clippy::disallowed_macros,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test that shows what it measured"
)]

use crate::ends::end;
use crate::world::streams::{Stream, Streams};
use crate::world::video::{Flow, run, set_group};
use crate::world::{Nodes, Plan, SENDER, chain, voice};
use base::Duration;
use overlay::Settings;
use overlay::realtime::Protect;
use overlay::request::Options;
use overlay::settings::Sealing;
use overlay::snapshot::ProtectionStatus;
use wire::Aim;
use wire::data::{Class, LinkProtocol};
use wire::groups::Setting;

fn settings(protect: Protect) -> Settings {
    let mut settings = Settings::modern();
    settings.realtime.aims.protect = protect;
    settings
}

fn network(seed: u64, edges: Vec<(usize, usize)>, path: &str, settings: Settings) -> Nodes {
    let count = edges.iter().map(|(a, b)| a.max(b) + 1).max().unwrap();
    let plan = Plan {
        edges: edges.clone(),
        settings,
        ..Plan::of(count)
    };
    let mut nodes = Nodes::planned(seed, plan);
    for (a, b) in edges {
        nodes.link(a, b, path);
    }
    nodes.run_ms(10_000);
    assert!(nodes.all_links_up());
    nodes
}

/// Runs `calls` calls of 20 s from the first node to another one. Returns how many packets did not arrive by the
/// deadline, and how many were sent.
fn calls(nodes: &mut Nodes, to: usize, calls: u64, deadline_ms: u64) -> (usize, usize) {
    let [(odd, of_odd), (even, of_even)] =
        calls_wanting(nodes, (to, calls), deadline_ms, |_| Aim::NONE);
    (odd + even, of_odd + of_even)
}

/// Same as [`calls`], separately for the calls with odd numbers and those with even numbers. `wish` gives what each
/// call wants of repair.
fn calls_wanting(
    nodes: &mut Nodes,
    (to, calls): (usize, u64),
    deadline_ms: u64,
    wish: impl Fn(u64) -> Aim,
) -> [(usize, usize); 2] {
    let deadline = Duration::from_millis(deadline_ms);
    let call = |n: u64| Stream {
        from: 0,
        to,
        interval: Duration::from_millis(20),
        phase: Duration::from_micros(n * 20_000 / calls),
        options: Options {
            deadline: Some(deadline),
            aim: wish(n),
            ..voice()
        },
    };
    let mut streams = Streams::begin(nodes, (0..calls).map(call).collect());
    streams.run(nodes, Duration::from_secs(20));
    streams.finish(nodes);
    assert_eq!(streams.duplicates, 0);
    [1, 0].map(|odd| {
        let of = (0..calls as usize).filter(|n| n % 2 == odd);
        let fates: Vec<_> = of.flat_map(|n| streams.fates_of(n)).collect();
        let missed = fates
            .iter()
            .filter(|(_, delay)| delay.is_none_or(|delay| delay > deadline));
        (missed.count(), fates.len())
    })
}

#[test]
fn what_no_request_can_save_is_saved_by_repair_and_only_by_it() {
    let edges = vec![(0, 1)];
    for (loss, flows, most) in [
        ("loss=5%", 20, 0.1),
        ("loss=5% burst=50%", 20, 0.2),
        ("loss=5%", 1, 0.5),
    ] {
        let path = format!("delay=50ms {loss}");
        let mut requests = network(1, edges.clone(), &path, settings(Protect::Requests));
        let (missed, sent) = calls(&mut requests, 1, flows, 110);
        assert!(
            missed * 100 > sent * 4,
            "{loss}: requests saved some: {missed} of {sent}"
        );
        let mut auto = network(1, edges.clone(), &path, settings(Protect::Auto));
        let (missed, sent) = calls(&mut auto, 1, flows, 110);
        let pct = 100.0 * missed as f64 / sent as f64;
        let lane = auto.link_status(0, 1).realtime;
        println!("{loss}, {flows}: missed {pct:.3} %, {:?}", lane.protection);
        assert!(pct <= most, "{loss}, {flows} calls: {pct} %");
        assert!(lane.protection.plan != "requests" && lane.protection.changes <= 4);
        let other = auto.link_status(1, 0).realtime;
        assert!(other.decoded * 10 > other.missing * 9, "{other:?}");
        auto.world.close().unwrap();
        requests.world.close().unwrap();
    }
}

#[test]
fn a_short_link_has_no_repair_and_a_clean_one_neither() {
    for (path, deadline_ms) in [("delay=10ms loss=5% burst=25%", 100), ("delay=80ms", 140)] {
        let mut nodes = network(2, vec![(0, 1)], path, settings(Protect::Auto));
        let (missed, sent) = calls(&mut nodes, 1, 20, deadline_ms);
        assert!(missed * 5_000 <= sent, "{path}: {missed}");
        assert_eq!(nodes.link_status(0, 1).counts.repair_out, 0, "{path}");
        nodes.world.close().unwrap();
    }
}

#[test]
fn a_full_queue_gets_no_repair() {
    // A call takes 94 kbit/s, including the headers of UDP and IP.
    let mut nodes = network(
        3,
        vec![(0, 1)],
        "delay=30ms rate=1500kbit",
        settings(Protect::Auto),
    );
    calls(&mut nodes, 1, 20, 90);
    let status = nodes.link_status(0, 1);
    assert_eq!(
        status.counts.repair_out, 0,
        "{:?}",
        status.realtime.protection
    );
    nodes.world.close().unwrap();
}

#[test]
fn a_neighbour_that_takes_no_repair_gets_requests() {
    // Nodes that use only requests do not set the bit in their hellos, like nodes of an older version.
    let path = "delay=50ms loss=5%";
    let mut nodes = network(4, vec![(0, 1)], path, settings(Protect::Requests));
    nodes.set_settings(settings(Protect::Auto));
    nodes.restart(0);
    nodes.run_ms(10_000);
    calls(&mut nodes, 1, 20, 110);
    let status = nodes.link_status(0, 1);
    assert_eq!(status.counts.repair_out, 0);
    assert_eq!(
        status.realtime.protection.reason,
        "the neighbour takes no repair packets"
    );
    nodes.world.close().unwrap();
}

#[test]
fn each_hop_repairs_and_each_edge_of_a_groups_tree() {
    let path = "delay=40ms loss=2% burst=50%";
    let mut missed = Vec::new();
    for protect in [Protect::Requests, Protect::Auto] {
        let mut nodes = network(5, chain(4), path, settings(protect));
        let mut flows = [Flow::new(
            &mut nodes,
            1,
            (0, 3),
            950,
            Duration::from_millis(200),
        )];
        run(&mut nodes, &mut flows, 20_000, true);
        run(&mut nodes, &mut flows, 2_000, false);
        let costs = [(0, 1), (1, 2), (2, 3)]
            .map(|(from, to)| nodes.link_status(from, to).realtime.protection.cost_pct);
        println!(
            "{protect:?}: lost {} of {}, repair {costs:.1?} %",
            flows[0].lost(),
            flows[0].sent
        );
        missed.push(flows[0].lost());
        nodes.world.close().unwrap();
    }
    assert!(missed[1] * 20 < missed[0], "{missed:?}");
}

/// The result of calls of 20 s over a path of links that are too long for requests.
struct Way {
    nodes: Nodes,
    /// Missed packets and sent packets, for the calls with odd numbers and for those with even numbers.
    missed: [(usize, usize); 2],
}

impl Way {
    fn of(middle: Option<Protect>, calls: u64, wish: impl Fn(u64) -> Aim) -> Way {
        let plan = Plan {
            edges: chain(3),
            settings: settings(Protect::Auto),
            ..Plan::of(3)
        };
        let mut nodes = Nodes::planned(21, plan);
        for (a, b) in chain(3) {
            nodes.link(a, b, "delay=50ms loss=5%");
        }
        if let Some(middle) = middle {
            nodes.set_settings(settings(middle));
            nodes.restart(1);
        }
        nodes.run_ms(10_000);
        let missed = calls_wanting(&mut nodes, (2, calls), 160, wish);
        Way { nodes, missed }
    }

    /// Returns the state of the lane from a node to the next one, and the number of its repair packets.
    fn lane(&self, from: usize) -> (ProtectionStatus, u64) {
        let link = self.nodes.link_status(from, from + 1);
        (link.realtime.protection, link.counts.repair_out)
    }

    fn end(self) {
        self.nodes.world.close().unwrap();
    }
}

fn want(target: Option<f64>, most: Option<f64>) -> Aim {
    Aim::new(target, most).unwrap()
}

#[test]
fn a_relay_repairs_a_flow_as_its_sender_wants() {
    let usual = Way::of(None, 20, |_| Aim::NONE);
    let strict = Way::of(None, 20, |n| match n {
        0 => want(Some(0.000_01), None),
        _ => Aim::NONE,
    });
    for from in [0, 1] {
        let ((usual, repairs), (strict, more)) = (usual.lane(from), strict.lane(from));
        assert_eq!((usual.target_pct, &usual.target_of), (0.05, &None));
        assert_eq!(strict.target_pct, 0.001);
        assert!(strict.target_of.is_some(), "{strict:?}");
        assert!(more * 10 > repairs * 12, "{more}, {repairs}");
        // The strict flow is one of twenty, and may spend no more on repair than the other flows.
        assert!(strict.repair_pct <= 50.0 && strict.most_pct == 50.0);
    }
    // Flows that accept the losses are not repaired, and neither are flows that want no repair.
    for aim in [want(Some(0.06), None), want(None, Some(0.0))] {
        let way = Way::of(None, 20, |_| aim);
        for from in [0, 1] {
            let (lane, repairs) = way.lane(from);
            // The relay learns this within the first second.
            assert!(repairs < 200, "{repairs} {lane:?}");
        }
        way.end();
    }
    // On a lane with both kinds of flows, only the flows without a wish are covered, at their own target.
    let both = Way::of(None, 20, |n| match n % 2 {
        0 => want(Some(0.06), None),
        _ => Aim::NONE,
    });
    for from in [0, 1] {
        let ((lane, repairs), (_, all)) = (both.lane(from), usual.lane(from));
        assert_eq!(lane.target_pct, 0.05);
        assert!(
            repairs * 10 < all * 8 && repairs * 10 > all,
            "{repairs}, {all}"
        );
    }
    println!("missed: {:?} {:?}", usual.missed, both.missed);
    let [(others, sent), (content, _)] = both.missed;
    assert!(
        others * 200 < sent && content * 20 > sent,
        "{:?}",
        both.missed
    );
    [usual, strict, both].into_iter().for_each(Way::end);
}

/// A relay that repairs nothing itself tells the next node what senders want of it.
#[test]
fn what_senders_want_passes_a_relay_that_repairs_nothing() {
    for protect in [Protect::Requests, Protect::Off] {
        let mut nodes = network(23, chain(4), "delay=20ms loss=2%", settings(Protect::Auto));
        nodes.set_settings(settings(protect));
        nodes.restart(1);
        nodes.run_ms(10_000);
        let strict = want(Some(0.000_1), Some(0.3));
        calls_wanting(&mut nodes, (3, 2), 200, |_| strict);
        let told = nodes.snapshot(3).flows;
        let told = told.iter().map(|flow| (flow.target_pct, flow.most_pct));
        assert_eq!(
            told.collect::<Vec<_>>(),
            [(Some(0.01), Some(30.0)); 2],
            "{protect:?}"
        );
        nodes.world.close().unwrap();
    }
}

/// A socket first wants no repair, and then has no wish of its own. From then on its packets are repaired on all links.
#[test]
fn what_a_sender_wants_no_longer_is_told_too() {
    let mut nodes = network(24, chain(3), "delay=50ms loss=5%", settings(Protect::Auto));
    let mut repairs = [0; 2];
    for (aim, is_repaired) in [(want(None, Some(0.0)), false), (Aim::NONE, true)] {
        let options = Options {
            deadline: Some(Duration::from_millis(160)),
            aim,
            ..voice()
        };
        nodes.set_sender(0, SENDER, options);
        for number in 0..500 {
            let at = nodes.world.now();
            nodes.send(at, 0, SENDER, 2, number);
            nodes.run_ms(20);
        }
        for (from, before) in repairs.iter_mut().enumerate() {
            let count = nodes.link_status(from, from + 1).counts.repair_out;
            let more = count - core::mem::replace(before, count);
            assert_eq!(more > 50, is_repaired, "{from}, {aim:?}: {more}");
        }
    }
    nodes.world.close().unwrap();
}

/// A node that neither sends to a group nor is a member says how the packets of the group are repaired. The source's
/// node and the next one obey.
#[test]
fn a_group_is_repaired_as_its_setting_says() {
    let lanes_of = |aim| {
        let mut nodes = network(
            22,
            chain(4),
            "delay=40ms loss=2% burst=50%",
            settings(Protect::Auto),
        );
        let deadline = Duration::from_millis(150);
        let mut flows = [Flow::new(&mut nodes, 1, (0, 2), 950, deadline)];
        let group = flows[0].group;
        let setting = Setting {
            class: overlay::sockets::default_options().class,
            aim,
            ..Setting::of(group)
        };
        set_group(&mut nodes, 3, setting);
        run(&mut nodes, &mut flows, 10_000, true);
        let lanes = [(0, 1), (1, 2)].map(|(from, to)| {
            let link = nodes.link_status(from, to);
            let plan = link.realtime.protection;
            if let Some(flow) = &plan.target_of {
                assert!(flow.contains(&format!("> {group}:")), "{flow}");
            }
            (plan, link.counts.repair_out)
        });
        println!("{lanes:?}");
        nodes.world.close().unwrap();
        lanes
    };
    let usual = lanes_of(Aim::NONE);
    let strict = lanes_of(Aim::new(Some(0.000_01), Some(0.8)).unwrap());
    for ((usual, repairs), (strict, more)) in usual.iter().zip(&strict) {
        assert_eq!((usual.target_pct, &usual.target_of), (0.05, &None));
        assert_eq!((strict.target_pct, strict.most_pct), (0.001, 80.0));
        assert!(strict.target_of.is_some(), "{strict:?}");
        assert!(more * 10 > repairs * 12, "{more}, {repairs}");
    }
    for ((lane, repairs), (_, usual)) in lanes_of(Aim::new(None, Some(0.0)).unwrap())
        .iter()
        .zip(&usual)
    {
        assert_eq!(lane.reason, "the senders of its flows want no repair");
        assert!(repairs * 10 < *usual, "{repairs}, {usual}");
    }
}

#[test]
fn what_a_repair_packet_told_says_that_it_was_recovered() {
    let mut marked = Vec::new();
    for protect in [Protect::Requests, Protect::Auto] {
        let mut nodes = network(9, vec![(0, 1)], "delay=50ms loss=5%", settings(protect));
        let options = Options {
            deadline: Some(Duration::from_millis(110)),
            ..voice()
        };
        let mut streams = Streams::calls(&mut nodes, 20, 0, 1, options);
        streams.run(&mut nodes, Duration::from_secs(5));
        streams.finish(&mut nodes);
        let lane = nodes.link_status(1, 0).realtime;
        println!("{protect:?}: {} marked, {lane:?}", streams.recovered);
        // Hardly any of the decoded packets were late.
        let late = lane.decoded - streams.recovered;
        assert!(late < 5 && lane.recovered == 0, "{lane:?}");
        marked.push(streams.recovered);
        nodes.world.close().unwrap();
    }
    // Of 5 000 packets 250 are lost, and requests are too late.
    assert!(marked[0] == 0 && marked[1] > 150, "{marked:?}");
}

/// The cost of repair does not count what the link carries beside the calls, nor what it carried before them.
#[test]
fn what_repair_costs_is_told_of_the_packets_that_it_repairs() {
    let path = "delay=50ms loss=5%";
    let mut nodes = network(8, vec![(0, 1)], path, settings(Protect::Auto));
    let interval = |us| Duration::from_micros(us);
    let stream = |interval, link| Stream {
        from: 0,
        to: 1,
        interval,
        phase: interval,
        options: Options {
            class: Class {
                link,
                ..voice().class
            },
            deadline: Some(Duration::from_millis(110)),
            ..voice()
        },
    };
    let beside = stream(interval(250), LinkProtocol::BestEffort);
    let calls = stream(interval(1_000), LinkProtocol::RealTime);
    let mut streams = Streams::begin(&mut nodes, vec![beside, calls]);
    streams.run(&mut nodes, Duration::from_secs(20));
    streams.finish(&mut nodes);
    let told = nodes.link_status(0, 1);
    let plan = told.realtime.protection;
    println!("{plan:?}");
    assert!(told.counts.realtime_out_bytes * 4 < told.counts.data_out_bytes);
    // A repair packet is up to 24 bytes longer than the packets of 183 bytes that it repairs.
    let least = plan.repair_pct * 0.95;
    assert!(plan.repair_pct > 0.0);
    assert!((least..least * 1.25).contains(&plan.cost_pct), "{plan:?}");
    nodes.world.close().unwrap();
}

#[test]
fn what_links_tell_as_measured_is_what_was_missed() {
    for loss in ["loss=5%", "loss=5% burst=50%"] {
        // This is too little repair, and always the same amount.
        let mut settings = settings(Protect::Hop);
        settings.realtime.aims.most = 0.1;
        let path = format!("delay=50ms {loss}");
        let mut nodes = network(6, vec![(0, 1)], &path, settings);
        let (missed, sent) = calls(&mut nodes, 1, 20, 110);
        nodes.run_ms(15_000);
        let told = nodes.link_status(0, 1).realtime.protection;
        println!("{loss}: {missed} of {sent} missed, {told:?}");
        let (pct, of) = (told.measured_pct.unwrap(), told.measured_packets as usize);
        assert!(missed * 200 > sent, "nothing to measure");
        // The first second passes without a plan, and the reports of two more seconds may not belong to the plan.
        assert!(of > sent * 4 / 5 && of <= sent, "{of} of {sent}");
        let counted = pct * of as f64 / 100.0;
        let seen = missed as f64 * of as f64 / sent as f64;
        assert!(
            (counted - seen).abs() < seen * 0.15,
            "{counted} told, {seen} missed"
        );
        nodes.world.close().unwrap();
    }
}

/// Creates two links in a row that both lose packets. A request takes 80 ms, and calls with a deadline of 150 ms have
/// 70. The relay between the links does not repair.
fn two_hops(protect: Protect, path: &str) -> Nodes {
    two_links(protect, path, path)
}

/// The same with different links.
fn two_links(protect: Protect, path: &str, beyond: &str) -> Nodes {
    let plan = Plan {
        edges: vec![(0, 1), (1, 2)],
        settings: settings(protect),
        own_settings: vec![(1, settings(Protect::Requests))],
        ..Plan::of(3)
    };
    let mut nodes = Nodes::planned(4, plan);
    nodes.link(0, 1, path);
    nodes.link(1, 2, beyond);
    nodes.run_ms(10_000);
    assert!(nodes.all_links_up());
    nodes
}

#[test]
fn two_ends_repair_what_their_hops_do_not() {
    for (loss, flows, most) in [("loss=3% burst=50%", 20, 0.2), ("loss=2%", 1, 0.5)] {
        let path = format!("delay=40ms {loss}");
        let mut requests = two_hops(Protect::Requests, &path);
        let (missed, sent) = calls(&mut requests, 2, flows, 150);
        assert!(missed * 100 > sent * 3, "{loss}: {missed} of {sent}");
        let mut nodes = two_hops(Protect::EndToEnd, &path);
        // The first seconds pass before the other end has reported.
        calls(&mut nodes, 2, flows, 150);
        let (missed, sent) = calls(&mut nodes, 2, flows, 150);
        let pct = 100.0 * missed as f64 / sent as f64;
        let (there, back) = (end(&nodes, 0, 2), end(&nodes, 2, 0));
        let repair = there.repair.unwrap();
        println!(
            "{loss}, {flows}: missed {pct:.3} %, {repair:?}, {} restored",
            back.restored
        );
        assert!(pct <= most, "{loss}, {flows} calls: {pct} %");
        assert!(repair.sent > 0 && back.restored > 0, "{repair:?}");
        let measured = repair.measured_pct.unwrap();
        assert!(measured <= most, "{measured} where {pct} are missed");
        assert_eq!(
            nodes.link_status(0, 1).counts.repair_out,
            0,
            "no hop repairs"
        );
        assert_eq!(
            nodes.link_status(1, 2).counts.repair_out,
            0,
            "no hop repairs"
        );
        nodes.world.close().unwrap();
        requests.world.close().unwrap();
    }
}

/// The relay does not repair, and its second link has room for the calls but not for their repair.
#[test]
fn ends_do_not_fill_the_queue_that_a_relay_reports() {
    let narrow = "delay=40ms loss=2% rate=850kbit queue=50";
    let mut nodes = two_links(Protect::EndToEnd, "delay=40ms loss=2%", narrow);
    let repairs = [0; 5].map(|_| {
        calls(&mut nodes, 2, 8, 190);
        end(&nodes, 0, 2).repair.unwrap().sent
    });
    println!("{repairs:?} repair packets");
    // 40 000 packets; 14 000 repair packets if the ends do not listen to the relay.
    assert!(repairs[4] < 2_000, "{repairs:?}");
    nodes.world.close().unwrap();
}

/// Sends spurts of eight packets, with 300 ms between them. Returns how many of all packets did not arrive by the
/// deadline.
fn spurts(nodes: &mut Nodes, spurts: u64) -> usize {
    let options = Options {
        deadline: Some(Duration::from_millis(150)),
        ..voice()
    };
    nodes.bind(2, options);
    nodes.set_sender(0, SENDER, options);
    nodes.run_ms(1);
    nodes.world.take_replies();
    for number in 0..8 * spurts {
        let at = nodes.world.now();
        nodes.send(at, 0, SENDER, 2, number);
        nodes.run_ms(if number % 8 == 7 { 300 } else { 20 });
    }
    8 * spurts as usize - nodes.arrivals().len()
}

#[test]
fn the_last_packets_before_a_silence_are_repaired() {
    let path = "delay=40ms loss=3%";
    let mut requests = two_hops(Protect::Requests, path);
    let without = spurts(&mut requests, 200);
    let mut nodes = two_hops(Protect::EndToEnd, path);
    calls(&mut nodes, 2, 1, 150);
    let with = spurts(&mut nodes, 200);
    println!("missed {with}, with requests alone {without}");
    assert!(without > 50, "{without}");
    // The last packets of the spurts have a seventh or more of the losses, so the bound holds only if they are
    // repaired.
    assert!(with * 12 < without, "{with} of {without}");
    nodes.world.close().unwrap();
    requests.world.close().unwrap();
}

#[test]
fn ends_that_lose_nothing_or_do_not_know_of_repair_send_none() {
    let mut nodes = two_hops(Protect::EndToEnd, "delay=40ms");
    calls(&mut nodes, 2, 20, 150);
    let repair = end(&nodes, 0, 2).repair.unwrap();
    assert_eq!((repair.sent, repair.lost_pct), (0, 0.0), "{repair:?}");
    nodes.world.close().unwrap();
    // Packets that are not sealed have no numbers.
    let open = Settings {
        sealing: Sealing::Off,
        ..settings(Protect::EndToEnd)
    };
    let mut nodes = network(5, vec![(0, 1), (1, 2)], "delay=40ms loss=3%", open);
    calls(&mut nodes, 2, 2, 150);
    assert!(end(&nodes, 0, 2).repair.is_none());
    nodes.world.close().unwrap();
}

#[test]
fn protection_by_paths_uses_more_links_where_there_is_trouble() {
    // A direct link that loses packets, and a path around it that is in time.
    let edges = vec![(0, 1), (0, 2), (2, 1)];
    let missed = |protect: Protect| {
        let plan = Plan {
            edges: edges.clone(),
            settings: settings(protect),
            ..Plan::of(3)
        };
        let mut nodes = Nodes::planned(6, plan);
        nodes.link(0, 1, "delay=40ms loss=4%");
        nodes.link(0, 2, "delay=25ms loss=4%");
        nodes.link(2, 1, "delay=25ms loss=4%");
        nodes.run_ms(20_000);
        let missed = calls(&mut nodes, 1, 5, 70);
        nodes.world.close().unwrap();
        missed
    };
    let (requests, sent) = missed(Protect::Requests);
    let (paths, _) = missed(Protect::Paths);
    println!("requests {requests}, paths {paths} of {sent}");
    assert!(requests * 50 > sent, "{requests} of {sent}");
    assert!(paths * 5 < requests, "{paths} against {requests}");
}

/// What the ends add goes over the same link as the call. It is not a second flow, which would halve what the lane may
/// add for the call.
#[test]
fn ends_on_one_link_leave_no_more_than_the_link_alone() {
    let missed = [Protect::Auto, Protect::EndToEnd].map(|protect| {
        let path = "delay=50ms loss=5% burst=50%";
        let mut nodes = network(5, vec![(0, 1)], path, settings(protect));
        calls(&mut nodes, 1, 1, 110);
        let missed = [0; 10].map(|_| calls(&mut nodes, 1, 1, 110).0);
        let lane = nodes.link_status(0, 1).realtime.protection;
        println!("{protect:?}: {missed:?}, {lane:?}");
        nodes.world.close().unwrap();
        (missed.iter().sum::<usize>(), lane.most_pct)
    });
    let [(alone, most), (with_ends, most_with_ends)] = missed;
    assert_eq!(most, most_with_ends);
    assert!(with_ends <= alone + alone / 2, "{with_ends} after {alone}");
}

/// The other node requests nothing. Requests would do, but there are none.
#[test]
fn a_neighbour_that_requests_nothing_gets_repair() {
    let plan = Plan {
        edges: vec![(0, 1)],
        settings: settings(Protect::Auto),
        own_settings: vec![(1, {
            let mut settings = settings(Protect::Auto);
            settings.realtime.strikes = 0;
            settings
        })],
        ..Plan::of(2)
    };
    let mut nodes = Nodes::planned(6, plan);
    nodes.link(0, 1, "delay=10ms loss=5%");
    nodes.run_ms(10_000);
    calls(&mut nodes, 1, 20, 100);
    let (missed, sent) = calls(&mut nodes, 1, 20, 100);
    let lane = nodes.link_status(0, 1).realtime.protection;
    println!("{missed} of {sent}: {lane:?}");
    assert_eq!(lane.plan, "repair");
    assert!(missed * 500 <= sent, "{missed} of {sent}");
    assert!(lane.requests_pct > 4.0, "{lane:?}");
    nodes.world.close().unwrap();
}

#[test]
fn a_lane_without_repair_says_what_it_is_predicted_to_leave() {
    for (protect, plan, least) in [
        (Protect::Requests, "requests", 4.0),
        (Protect::Off, "none", 4.0),
    ] {
        let path = "delay=50ms loss=5%";
        let mut nodes = network(7, vec![(0, 1)], path, settings(protect));
        calls(&mut nodes, 1, 20, 110);
        let lane = nodes.link_status(0, 1).realtime.protection;
        assert_eq!(lane.plan, plan);
        assert_eq!(lane.reason, "as configured");
        assert!(lane.predicted_pct > least, "{lane:?}");
        nodes.world.close().unwrap();
    }
}
