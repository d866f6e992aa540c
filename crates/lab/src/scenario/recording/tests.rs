//! A recording replays what was recorded, and noise is no change.

use super::*;
use crate::scenario::{Scenario, snapshot_of};

const DAY: &str = r#"
[scenario]
name = "day"
duration = "60s"
[[node]]
name = "ams"
[[node]]
name = "fra"
[[node]]
name = "lon"
[[link]]
a = "ams"
b = "fra"
path = "delay=10ms loss=2%"
back = "delay=12ms"
[[link]]
a = "fra"
b = "lon"
path = "delay=30ms rate=5mbit"
[[fault]]
at = "10s"
kind = "link-set"
a = "ams"
b = "fra"
path = "delay=40ms loss=5%"
[[fault]]
at = "20s"
kind = "link-down"
a = "fra"
b = "lon"
[[fault]]
at = "35s"
kind = "link-up"
a = "fra"
b = "lon"
[[flow]]
from = "ams"
to = "lon"
"#;

fn recorded(scenario: &Scenario) -> Recording {
    let mut recording = Recording::default();
    for second in 0..60 {
        let at = Duration::from_secs(second);
        let mut network = snapshot_of(scenario, at);
        network.teller = Some("10.7.0.1".to_owned());
        recording.take(at, &network, &[]);
    }
    recording
}

/// The recording's state of a network at each second is the network's real state.
#[test]
fn a_recording_replays_what_was_recorded() {
    let day = Scenario::parse("day.toml", DAY).unwrap();
    let recording = recorded(&day);
    assert_eq!(recording.counts(), (3, 2, 3));
    let toml = recording.to_toml("replayed");
    let replayed =
        Scenario::parse("replayed.toml", &toml).unwrap_or_else(|why| panic!("{why}\n{toml}"));
    for second in 0..60 {
        let at = Duration::from_secs(second);
        let (then, now) = (snapshot_of(&day, at), snapshot_of(&replayed, at));
        assert_eq!(then.links, now.links, "at {second} s\n{toml}");
    }
    assert_eq!(recorded(&replayed).to_toml("replayed"), toml);
}

#[test]
fn noise_is_no_change_and_the_number_of_changes_is_bounded() {
    let day = Scenario::parse("day.toml", DAY).unwrap();
    let network = snapshot_of(&day, Duration::ZERO);
    let network = |latency_us: u32| {
        let mut network = network.clone();
        network
            .links
            .iter_mut()
            .for_each(|link| link.latency_us = latency_us);
        network
    };
    let mut recording = Recording::default();
    for (second, latency_us) in [20_000, 20_400, 21_900, 19_900].into_iter().enumerate() {
        recording.take(
            Duration::from_secs(second as u64),
            &network(latency_us),
            &[],
        );
    }
    assert_eq!(recording.counts().2, 0);
    for second in 0..6 * CHANGES_MAX as u64 {
        let latency_us = 10_000 + 10_000 * (second as u32 / 3 % 2);
        recording.take(Duration::from_secs(4 + second), &network(latency_us), &[]);
    }
    assert!(recording.is_full());
    assert_eq!(recording.changes, CHANGES_MAX);
}
