//! TCP-Real beside other families: its gain where losses are errors, and its share where they are congestion.
//! [Papadimitriou06 §3.1]

use base::impair::Model;
use base::{Duration, Time};
use congestion::Family;
use sim::World;
use sim::tcp::{Flow, Network, Settings, TcpHost, Traffic};

fn model(text: &str) -> Model {
    text.parse().expect("a model")
}

/// Runs files over one link of 50 ms one way.
fn share(
    families: &[Family],
    window: u32,
    link: &str,
    seed: u64,
    seconds: u64,
) -> (World<TcpHost>, Vec<Flow>) {
    let mut network = Network::default();
    let (left, right) = (network.host(), network.host());
    network.link_one_way(left, right, model(link));
    network.link_one_way(right, left, model("rate=10mbit delay=50ms queue=1000"));
    let mut flows = Vec::new();
    for (n, family) in families.iter().enumerate() {
        let host = network.host();
        network.link(host, left, &model("delay=1ms"));
        let settings = Settings::ns2(*family).with_window(window);
        let starts = Duration::from_millis(137 * n as u64);
        let traffic = Traffic::unlimited().between(starts, Duration::from_secs(seconds));
        let flow = network.connect(host, right, settings, traffic);
        network.count_only(flow);
        flows.push(flow);
    }
    let mut world = network.build(seed);
    world.run_until(Time::ZERO + Duration::from_secs(seconds));
    (world, flows)
}

/// Returns what each of them delivered, over some seeds.
fn delivered(families: &[Family], window: u32, link: &str) -> Vec<f64> {
    let mut all = vec![0.0; families.len()];
    for seed in 1..=3 {
        let (world, flows) = share(families, window, link, seed, 100);
        for (sum, flow) in all.iter_mut().zip(&flows) {
            *sum += flow.received(&world).delivered as f64;
        }
    }
    all
}

#[test]
fn beside_newreno_it_gains_where_losses_are_errors() {
    for (window, link) in [
        (20, "rate=10mbit delay=50ms queue=100 loss=1%"),
        (20, "rate=10mbit delay=25ms queue=100 loss=1%"),
        (20, "rate=10mbit delay=50ms queue=100 loss=3%"),
        (40, "rate=10mbit delay=50ms queue=100 loss=1%"),
    ] {
        let got = delivered(&[Family::NewReno, Family::Real], window, link);
        assert!(got[1] >= 1.3 * got[0], "{window} {link}: {got:?}");
        let alone = |family| delivered(&[family], window, link)[0];
        let (newreno, real) = (alone(Family::NewReno), alone(Family::Real));
        assert!(real >= 1.3 * newreno, "{window} {link}: {newreno} {real}");
    }
}

#[test]
fn losses_of_the_medium_are_told_from_those_of_a_queue() {
    let share_forgiven = |families: &[Family], link: &str| {
        let (world, flows) = share(families, 1000, link, 1, 100);
        let sent = flows[families.len() - 1].sent(&world);
        let losses = sent.recoveries + sent.timeouts;
        assert!(losses > 20, "{link}: {sent:?}");
        sent.forgiven as f64 / losses as f64
    };
    let medium = share_forgiven(
        &[Family::Real],
        "rate=100mbit delay=50ms queue=1000 loss=1%",
    );
    assert!(medium > 0.9, "{medium}");
    let five = [[Family::Reno; 4].as_slice(), &[Family::Real]].concat();
    let queue = share_forgiven(&five, "rate=10mbit delay=25ms queue=50");
    assert!(queue < 0.1, "{queue}");
}

#[test]
fn beside_four_renos_it_takes_a_fair_share_of_a_congested_link() {
    let five = [[Family::Reno; 4].as_slice(), &[Family::Real]].concat();
    for link in [
        "rate=10mbit delay=10ms queue=25",
        "rate=10mbit delay=25ms queue=50",
        "rate=10mbit delay=50ms queue=50",
        "rate=10mbit delay=50ms queue=100",
        "rate=10mbit delay=50ms queue=200",
    ] {
        let got = delivered(&five, 1000, link);
        let share = 5.0 * got[4] / got.iter().sum::<f64>();
        assert!((0.85..1.15).contains(&share), "{link}: {share} {got:?}");
    }
}
