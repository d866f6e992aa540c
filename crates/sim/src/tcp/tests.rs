//! Whole connections: what is written arrives once, in order, whatever happens on the way.

use super::*;
use base::impair::Model;
use base::{Duration, Time};
use congestion::Family;

fn model(text: &str) -> Model {
    text.parse().unwrap()
}

/// A chain of equal links, the third with losses, and one flow over all of it.
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
        // TCP-Real waits whenever the rate that it is told falls a little.
        assert!(rate > 7.5e6, "{family}: {rate}");
        world.close().unwrap();
    }
}
