//! How well a recording replays: a day of a network whose links change, recorded by one of its nodes second by second as
//! `sinew record` does, and simulated again from the recording alone.
//!
//! ```text
//!   cargo run --release -p lab --example replayed_day -- [hours] [seed]
//! ```
//! It prints what the calls of that node lost and missed then, and in replays with other seeds.

#![allow(clippy::print_stdout)]

use base::Duration;
use base::rng::Rng;
use lab::scenario::{Recording, Report, Scenario, Simulation, simulate};
use std::fmt::Write;

/// Between two changes of a link, in the mean.
const CHANGE_S: u64 = 600;
/// Replays, each with a seed of its own.
const REPLAYS: u64 = 3;

fn main() {
    let number = |n: usize, otherwise: u64| {
        let text = std::env::args().nth(n);
        text.map_or(otherwise, |text| text.parse().expect("a whole number"))
    };
    let (hours, seed) = (number(1, 24), number(2, 1));
    let text = day(hours * 3_600, &mut Rng::new(seed));
    let live = Scenario::parse("day.toml", &text).unwrap_or_else(|why| panic!("{why}"));
    let (recording, report) = recorded(&live, seed);
    let (nodes, links, changes) = recording.counts();
    println!("{hours} h, {nodes} nodes, {links} links, {changes} changes recorded");
    let toml = recording.to_toml("replayed");
    let replayed = Scenario::parse("replayed.toml", &toml).unwrap_or_else(|why| panic!("{why}"));
    // The recording's flows are calls to all other nodes; the day's are the same.
    let replays: Vec<Report> = (1..=REPLAYS)
        .map(|seed| simulate(&replayed, seed))
        .collect();
    println!("call        then: lost %  late %   replayed: lost %  late %   ratio of missed");
    for flow in &report.flows {
        let then = &flow.packets;
        let of_name = |report: &Report| {
            let mut flows = report.flows.iter();
            flows
                .find(|other| other.name == flow.name)
                .map(|flow| flow.packets.clone())
        };
        let now: Vec<_> = replays.iter().filter_map(of_name).collect();
        let mean = |of: fn(&lab::scenario::Judgement) -> f64| {
            now.iter().map(of).sum::<f64>() / now.len().max(1) as f64
        };
        let (lost, late) = (mean(|p| p.lost_pct), mean(|p| p.late_pct));
        println!(
            "{:10} {:13.4} {:7.4} {:17.4} {:7.4} {:17.3}",
            flow.name,
            then.lost_pct,
            then.late_pct,
            lost,
            late,
            (lost + late) / (then.lost_pct + then.late_pct)
        );
    }
}

/// A chain and a way around it; links change their delay, jitter, loss and bursts, and fail now and then.
fn day(seconds: u64, rng: &mut Rng) -> String {
    let mut text = format!("[scenario]\nname = \"day\"\nduration = \"{seconds}s\"\n");
    for name in ["ams", "fra", "nyc"] {
        let _ = write!(text, "[[node]]\nname = \"{name}\"\n");
    }
    let links = [("ams", "fra", 8), ("ams", "nyc", 40)];
    let mut path = |delay_ms: u64| {
        let (more, jitter) = (rng.below(delay_ms / 2 + 1), rng.below(8));
        let loss = [0, 0, 3, 10, 30, 60][rng.below(6) as usize];
        let burst = [0, 25, 50, 75][rng.below(4) as usize];
        let chance = rng.below(CHANGE_S) + CHANGE_S / 2;
        let words = format!(
            "delay={}ms jitter={jitter}ms loss={}.{}% burst={burst}%",
            delay_ms + more,
            loss / 10,
            loss % 10
        );
        (words, chance, rng.below(12) == 0)
    };
    for (a, b, delay_ms) in links {
        let (words, ..) = path(delay_ms);
        let _ = write!(
            text,
            "[[link]]\na = \"{a}\"\nb = \"{b}\"\npath = \"{words}\"\n"
        );
    }
    for other in ["fra", "nyc"] {
        let _ = write!(text, "[[flow]]\nfrom = \"ams\"\nto = \"{other}\"\n");
    }
    for (a, b, delay_ms) in links {
        let mut at = 0;
        loop {
            let (words, after, fails) = path(delay_ms);
            at += after;
            if at + 60 >= seconds {
                break;
            }
            let ends = format!("a = \"{a}\"\nb = \"{b}\"\n");
            match fails {
                true => {
                    let _ = write!(
                        text,
                        "[[fault]]\nat = \"{at}s\"\nkind = \"link-down\"\n{ends}"
                    );
                    let _ = write!(
                        text,
                        "[[fault]]\nat = \"{}s\"\nkind = \"link-up\"\n{ends}",
                        at + 12
                    );
                }
                false => {
                    let _ = write!(
                        text,
                        "[[fault]]\nat = \"{at}s\"\nkind = \"link-set\"\n{ends}path = \"{words}\"\n"
                    );
                }
            }
        }
    }
    text
}

/// The day as its first node records it.
fn recorded(live: &Scenario, seed: u64) -> (Recording, Report) {
    let mut simulation = Simulation::new(live, seed);
    let mut recording = Recording::default();
    simulation.run_for(live.settle);
    let mut at = Duration::ZERO;
    loop {
        if let Some(mut network) = simulation.network_snapshot(0) {
            network.teller = Some(live.nodes[0].address.to_string());
            recording.take(at, &network, &simulation.own_links(0));
        }
        at += Duration::from_secs(1);
        if at > live.duration || !simulation.run_for(Duration::from_secs(1)) {
            break;
        }
    }
    while simulation.run_for(Duration::from_secs(60)) {}
    (recording, simulation.finish())
}
