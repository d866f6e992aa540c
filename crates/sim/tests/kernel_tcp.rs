//! The simulator's TCPs compared with the kernel's, on the same path: 10 Mbit/s and 50 packets each way, with losses in
//! one direction, goodput from the 5th to the 40th second.
//!
//! The kernel's numbers are of Linux 6 through `sinew emulate`, which uses the same code to impair links, with one
//! connection. Sender, emulator and receiver ran with real-time priority: without it, a busy machine adds milliseconds
//! to each round trip and takes up to a third of the goodput. The numbers are means of two runs, of five at 10 ms and 1
//! % for Reno; they are within 10 % of each other. That kernel has no module for Westwood+; the crate `congestion`
//! compares it with its paper.
#![allow(clippy::unwrap_used)]
#![allow(
    clippy::disallowed_macros,
    clippy::print_stdout,
    reason = "the table prints what it measures"
)]

use base::impair::Model;
use base::{Duration, Time};
use congestion::Family;
use sim::tcp::{Network, Settings, Traffic};

/// Payload of a full segment with time stamps.
const PAYLOAD_BYTES: f64 = 1_448.0;

/// The family, the delay each way in milliseconds, the loss in per cent, and the kernel's Mbit/s.
type Row = (Family, u64, f64, f64);

fn model(text: &str) -> Model {
    text.parse().unwrap()
}

fn at(seconds: u64) -> Time {
    Time::ZERO + Duration::from_secs(seconds)
}

/// Returns the mean goodput of `seeds` runs, in Mbit/s.
fn simulated((family, delay_ms, loss_pct, _): Row, seeds: u64) -> f64 {
    let one = |seed| {
        let path = format!("rate=10mbit delay={delay_ms}ms queue=50");
        let mut network = Network::default();
        let (a, b) = (network.host(), network.host());
        network.link_one_way(a, b, model(&format!("{path} loss={loss_pct}%")));
        network.link_one_way(b, a, model(&path));
        let flow = network.connect(a, b, Settings::linux(family), Traffic::unlimited());
        let mut world = network.build(seed);
        world.run_until(at(40));
        let late = |d: &&sim::tcp::Delivery| d.delivered > at(5);
        let count = flow.deliveries(&world).iter().filter(late).count();
        count as f64 * PAYLOAD_BYTES * 8.0 / 35.0 / 1e6
    };
    (1..=seeds).map(one).sum::<f64>() / seeds as f64
}

const TABLE: [Row; 12] = [
    (Family::NewReno, 10, 0.5, 7.58),
    (Family::NewReno, 10, 1.0, 5.54),
    (Family::NewReno, 10, 2.0, 3.86),
    (Family::NewReno, 25, 0.5, 3.78),
    (Family::NewReno, 25, 1.0, 2.57),
    (Family::NewReno, 25, 2.0, 1.66),
    (Family::Cubic, 10, 0.5, 7.39),
    (Family::Cubic, 10, 1.0, 4.99),
    (Family::Cubic, 10, 2.0, 3.37),
    (Family::Cubic, 25, 0.5, 3.58),
    (Family::Cubic, 25, 1.0, 2.33),
    (Family::Cubic, 25, 2.0, 1.45),
];

#[test]
fn reno_and_cubic_get_over_losses_what_the_kernels_do() {
    let mut far = Vec::new();
    for row in TABLE {
        let (family, delay_ms, loss_pct, linux) = row;
        let here = simulated(row, 8);
        let off = here / linux - 1.0;
        println!(
            "{family} {delay_ms} ms {loss_pct} %: {here:.2} here, Linux {linux:.2} Mbit/s, {:+.0} %",
            off * 100.0
        );
        if off.abs() > 0.1 {
            far.push((family, delay_ms, loss_pct, here, linux));
        }
    }
    assert!(far.is_empty(), "{far:?}");
}
