//! Whole connections: the data arrives once, in order, whatever happens on the path.

use super::*;
use base::impair::Model;
use base::{Duration, Time};
use congestion::Family;

fn model(text: &str) -> Model {
    text.parse().unwrap()
}

/// Runs one flow over a chain of equal links. The third link has losses.
fn chain(
    settings: Settings,
    traffic: Traffic,
    loss: &str,
    seed: u64,
    seconds: u64,
) -> (World, Flow) {
    let mut network = Network::default();
    let hosts: Vec<_> = (0..6).map(|_| network.host()).collect();
    for (n, pair) in hosts.windows(2).enumerate() {
        let clean = model("rate=10mbit delay=10ms queue=49");
        let lossy = model(&format!("rate=10mbit delay=10ms queue=49 loss={loss}"));
        network.link_one_way(pair[0], pair[1], if n == 2 { lossy } else { clean.clone() });
        network.link_one_way(pair[1], pair[0], clean);
    }
    let flow = network.connect(hosts[0], hosts[5], settings, traffic);
    let mut world = network.build(seed);
    world.run_until(Time::ZERO + Duration::from_secs(seconds));
    (world, flow)
}

type World = crate::World<TcpHost>;

#[test]
fn every_family_delivers_everything_in_order_over_a_lossy_chain() {
    for family in Family::ALL {
        let traffic = Traffic::cbr(500_000, 1000).between(Duration::ZERO, Duration::from_secs(50));
        let mut settings = Settings::of_2003(family);
        settings.segment_bytes = 1040;
        let (world, flow) = chain(settings, traffic, "2%", 7, 90);
        let numbers: Vec<u32> = flow.deliveries(&world).iter().map(|d| d.number).collect();
        assert_eq!(numbers, (0..3125).collect::<Vec<u32>>(), "{family}");
        let sent = flow.sent(&world);
        assert!(sent.recoveries + sent.timeouts > 10, "{family}: {sent:?}");
        assert!(sent.again < 600, "{family}: {sent:?}");
        world.close().unwrap();
    }
}

#[test]
fn without_losses_a_file_fills_the_path() {
    for family in Family::ALL {
        let settings = Settings::ns2(family).with_window(1000);
        let (world, flow) = chain(settings, Traffic::unlimited(), "0%", 3, 60);
        let rate = flow.received(&world).delivered as f64 * 1040.0 * 8.0 / 60.0;
        // TCP-Real pauses whenever the reported rate falls a little.
        assert!(rate > 7.5e6, "{family}: {rate}");
        world.close().unwrap();
    }
}

/// Runs a FACK connection, the original or the modified one, over one link of 50 ms with losses.
fn single(modified: bool, loss: &str, seed: u64) -> Vec<Delivery> {
    let mut network = Network::default();
    let (a, b) = (network.host(), network.host());
    let lossy = model(&format!("rate=10mbit delay=50ms queue=49 loss={loss}"));
    network.link_one_way(a, b, lossy);
    network.link_one_way(b, a, model("rate=10mbit delay=50ms queue=49"));
    let traffic = Traffic::cbr(500_000, 960);
    let flow = network.connect(a, b, Settings::of_2003(Family::Fack), traffic);
    if modified {
        network.deliver_by_number(flow);
    }
    let mut world = network.build(seed);
    world.run_until(Time::ZERO + Duration::from_secs(200));
    flow.deliveries(&world).to_vec()
}

#[test]
fn the_modified_fack_is_fack_on_a_point_to_point_connection() {
    // The comparison of [Amir03 §III], packet by packet.
    for loss in ["0%", "0.5%", "1%", "2%", "5%"] {
        let original = single(false, loss, 11);
        assert!(original.len() > 8_000, "{loss}: {}", original.len());
        assert_eq!(original, single(true, loss, 11), "{loss}");
    }
    assert_ne!(single(false, "2%", 11), single(false, "2%", 12));
}

/// Runs a flow over five hops of 10 ms, each a connection of its own.
fn hop_by_hop(
    relay: Relay,
    settings: Settings,
    loss: &str,
    traffic: Traffic,
) -> (World, Flow, Flow) {
    let mut network = Network::default();
    let hosts: Vec<_> = (0..6).map(|_| network.host()).collect();
    for (n, pair) in hosts.windows(2).enumerate() {
        let clean = model("rate=10mbit delay=10ms queue=49");
        let lossy = model(&format!("rate=10mbit delay=10ms queue=49 loss={loss}"));
        network.link_one_way(pair[0], pair[1], if n == 2 { lossy } else { clean.clone() });
        network.link_one_way(pair[1], pair[0], clean);
    }
    let first = network.connect(hosts[0], hosts[1], settings.clone(), traffic);
    let mut flow = first;
    for host in &hosts[2..] {
        flow = network.relay(flow, relay, *host, settings.clone());
    }
    (network.build(5), first, flow)
}

#[test]
fn hop_by_hop_delivers_in_order_and_sooner() {
    for (forward, family) in [
        (Forward::AsItComes, Family::Fack),
        (Forward::InOrder, Family::NewReno),
    ] {
        let traffic = Traffic::cbr(500_000, 960).between(Duration::ZERO, Duration::from_secs(100));
        let relay = Relay {
            forward,
            pace: None,
        };
        let settings = Settings::of_2003(family);
        let (mut world, _, last) = hop_by_hop(relay, settings.clone(), "1%", traffic);
        world.run_until(Time::ZERO + Duration::from_secs(130));
        let deliveries = last.deliveries(&world);
        let numbers: Vec<u32> = deliveries.iter().map(|d| d.number).collect();
        assert_eq!(numbers, (0..numbers.len() as u32).collect::<Vec<u32>>());
        // The stream lasts 100 s: messages of 960 bytes at 500 kbit/s.
        assert_eq!(numbers.len(), 6511, "{forward:?}");
        let (end, flow) = chain(settings, traffic, "1%", 5, 130);
        let late = |deliveries: &[Delivery]| {
            let limit = Duration::from_millis(100);
            deliveries.iter().filter(|d| d.delay() > limit).count()
        };
        let (by_hop, by_end) = (late(deliveries), late(flow.deliveries(&end)));
        assert!(by_hop * 4 < by_end, "{forward:?}: {by_hop} {by_end}");
    }
}

#[test]
fn a_relay_without_loss_sends_nothing_twice() {
    let bounded = Settings {
        receive_buffer: 320,
        send_buffer: 320,
        ..Settings::of_2003(Family::Reno)
    };
    let of_2003 = |family| Settings::of_2003(family);
    let families = [Family::Reno, Family::NewReno, Family::Sack, Family::Fack];
    for settings in families.map(of_2003).into_iter().chain([bounded]) {
        for (forward, kbps) in [(Forward::AsItComes, 500), (Forward::InOrder, 1000)] {
            let relay = Relay {
                forward,
                pace: None,
            };
            let traffic = Traffic::cbr(kbps * 1000, 960);
            let family = settings.family;
            let (mut world, first, last) = hop_by_hop(relay, settings.clone(), "0%", traffic);
            world.run_until(Time::ZERO + Duration::from_secs(20));
            assert!(last.received(&world).delivered > 1_200, "{family}");
            assert_eq!(first.sent(&world).again, 0, "{family} {forward:?}");
            for hop in [first, last] {
                assert_eq!(hop.received(&world).duplicates, 0, "{family} {forward:?}");
            }
            // There is one acknowledgement for each segment and no superfluous one.
            let back = world.counts(first.to(), first.from()).delivered;
            let there = first.received(&world).segments;
            assert!(back <= there, "{family} {forward:?}: {back} {there}");
            world.close().unwrap();
        }
    }
}

#[test]
fn a_relay_at_its_own_pace_pushes_back_to_the_source() {
    let settings = Settings {
        receive_buffer: 16,
        send_buffer: 16,
        ..Settings::ns2(Family::NewReno)
    };
    for loss in ["0%", "1%"] {
        let relay = Relay {
            forward: Forward::InOrder,
            pace: Some(Duration::from_millis(20)),
        };
        let (mut world, first, last) =
            hop_by_hop(relay, settings.clone(), loss, Traffic::unlimited());
        world.run_until(Time::ZERO + Duration::from_secs(100));
        let (sent, got) = (first.sent(&world), last.received(&world));
        // After the first seconds, one segment per 20 ms passes.
        assert!(got.delivered > 4500, "{loss}: {got:?}");
        // Four hops with two buffers of 16 each hold the rest: the source waits.
        assert!(
            sent.segments - sent.again < got.delivered + 4 * 32 + 40,
            "{sent:?} {got:?}"
        );
        assert_eq!(got.beyond, 0, "nothing is sent beyond what was advertised");
        world.close().unwrap();
    }
}

#[test]
fn a_slow_reader_closes_the_window_and_opens_it_again() {
    let mut network = Network::default();
    let (a, b) = (network.host(), network.host());
    network.link(a, b, &model("rate=10mbit delay=10ms queue=49 loss=5%"));
    let settings = Settings {
        receive_buffer: 4,
        ..Settings::ns2(Family::Reno)
    };
    let flow = network.connect(a, b, settings, Traffic::unlimited());
    network.read_slowly(flow, Duration::from_millis(500));
    let mut world = network.build(3);
    world.run_until(Time::ZERO + Duration::from_secs(100));
    // Window updates are lost as well: then the sender probes.
    let got = flow.received(&world);
    assert!((150..=200).contains(&got.delivered), "{got:?}");
}

#[test]
fn delayed_acknowledgements_halve_what_goes_back() {
    let acks = |delayed: Option<Duration>| {
        let mut settings = Settings::ns2(Family::NewReno);
        settings.delayed_ack = delayed;
        let (world, flow) = chain(settings, Traffic::unlimited(), "0%", 3, 20);
        let back = world.counts(flow.to(), crate::HostId(4)).delivered;
        back as f64 / flow.received(&world).segments as f64
    };
    assert!(acks(None) > 0.99);
    let share = acks(Some(Duration::from_millis(100)));
    assert!((0.49..0.52).contains(&share), "{share}");
}

#[test]
fn datagrams_arrive_as_they_come_and_once() {
    let mut network = Network::default();
    let (a, router, b) = (network.host(), network.host(), network.host());
    network.link(a, router, &model("rate=1mbit delay=5ms queue=10 loss=10%"));
    network.link(router, b, &model("rate=1mbit delay=5ms queue=10"));
    let voice = network.datagrams(a, b, Traffic::cbr(64_000, 160));
    let mut world = network.build(9);
    world.run_until(Time::ZERO + Duration::from_secs(100));
    let got = voice.deliveries(&world);
    assert!((4400..4600).contains(&got.len()), "{}", got.len());
    assert!(got.windows(2).all(|pair| pair[0].number < pair[1].number));
    // The delay is 188 bytes at 1 Mbit/s, twice, and 10 ms.
    let delay = got[0].delay();
    assert_eq!(delay.as_micros(), 10_000 + 2 * 1504);
}

#[test]
fn equal_seeds_go_the_same_way() {
    let digest = |seed| {
        let settings = Settings::ns2(Family::Sack);
        chain(settings, Traffic::unlimited(), "1%", seed, 20)
            .0
            .digest()
    };
    assert_eq!(digest(1), digest(1));
    assert_ne!(digest(1), digest(2));
}

#[test]
fn hosts_that_join_a_world_share_the_bottleneck_of_a_link_there() {
    type Both = crate::Either<crate::UdpHost, TcpHost>;
    let mut world: crate::World<Both> = crate::World::new(1);
    let mut plain = || world.add_host(crate::Either::A(crate::UdpHost::default()));
    let (a, b) = (plain(), plain());
    let wire: Model = "rate=10mbit delay=10ms queue=50".parse().unwrap();
    world.link_one_way(a, b, wire.clone());
    world.link_one_way(b, a, wire);
    let mut network = Network::beside(2);
    let file = |network: &mut Network| {
        let (from, to) = (network.host(), network.host());
        network.link_through(from, to, (a, b));
        network.link_through(to, from, (b, a));
        network.connect(
            from,
            to,
            Settings::linux(Family::NewReno),
            Traffic::unlimited(),
        )
    };
    let files = [file(&mut network), file(&mut network)];
    network.join(&mut world, crate::Either::B);
    let got = |world: &crate::World<Both>| files.map(|file| file.received(world).delivered);
    world.run_until(Time::ZERO + Duration::from_secs(30));
    let before = got(&world);
    // 10 Mbit/s are 833 segments of 1500 bytes per second for both together.
    let sum = before[0] + before[1];
    assert!((23_000..=25_000).contains(&sum), "{before:?}");
    assert!(before.iter().all(|count| *count > 8_000), "{before:?}");
    // An outage of the link affects both.
    world.set_outage(a, b, true);
    world.run_until(Time::ZERO + Duration::from_secs(40));
    let during = got(&world);
    assert!(during[0] + during[1] - sum < 100, "{during:?}");
    world.set_outage(a, b, false);
    world.partition(&[a]);
    world.run_until(Time::ZERO + Duration::from_secs(50));
    assert_eq!(got(&world), during);
}
