//! A live network as a scenario: what its links were like, from one moment to the next.
//!
//! ```text
//!   network as a node knows it, every second ─▶ Recording ─▶ a change that counts ─▶ scenario file: links, faults
//! ```
//! Of links elsewhere a node knows what their ends announce, which follows a change after some seconds. Of its
//! own links it knows what it measures. Neither tells jitter or runs of loss.

use base::Duration;
use overlay::snapshot::NetworkSnapshot;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// What counts as a change of the delay: a tenth, and so many microseconds.
const DELAY_SHARE: f64 = 0.1;
const DELAY_US: f64 = 500.0;
/// What counts as a change of the loss: a fifth, and so much. Choice: a loss is measured over some hundred
/// packets, and differs from one moment to the next by about as much.
const LOSS_SHARE: f64 = 0.2;
const LOSS: f64 = 0.003;
/// Of the price of a link's outages, what is said of one whose other end is not heard.
const SILENT_US: u32 = u32::MAX;
/// Changes that are kept: each becomes two faults at most, the first of a link three, and a scenario has no more than
/// so many.
const CHANGES_MAX: usize = super::FAULTS_MAX / 3;
/// Seconds that a scenario takes longer than it lasts: for settling, and for what is being recorded.
const MARGIN_S: u64 = 60;
/// Calls that the scenario has, from the node that recorded it to others.
const FLOWS_MAX: usize = 8;

/// One direction of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Path {
    delay_us: f64,
    /// Share of packets lost.
    loss: f64,
    /// What it carries, if that is known.
    rate_kbps: Option<u32>,
}

/// A link of the node that records, as it measures it; addresses in text.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnLink {
    /// The other end.
    pub peer: String,
    /// Round trip.
    pub rtt_us: f64,
    /// Share lost towards the other end, and from there.
    pub loss: [f64; 2],
}

/// What a link was like: nothing while it was down.
type State = Option<[Path; 2]>;

#[derive(Debug, Default)]
struct Link {
    now: State,
    changes: Vec<(Duration, State)>,
}

/// What was recorded.
#[derive(Debug, Default)]
pub struct Recording {
    teller: String,
    /// By address.
    names: BTreeMap<String, String>,
    /// By their ends, the one that sorts first in front.
    links: BTreeMap<[String; 2], Link>,
    /// When the first look was: there the recording begins.
    begun: Option<Duration>,
    last: Duration,
    changes: usize,
}

impl Recording {
    /// The network at a moment. Moments come in order, and count from the first.
    pub fn take(&mut self, at: Duration, network: &NetworkSnapshot, own: &[OwnLink]) {
        let at = at.saturating_sub(*self.begun.get_or_insert(at));
        self.last = at;
        self.teller = network.teller.clone().unwrap_or_default();
        for node in &network.nodes {
            let name = node.name.clone().unwrap_or_else(|| node.address.clone());
            self.names.insert(node.address.clone(), name);
        }
        for end in network.links.iter().flat_map(|link| [&link.from, &link.to]) {
            let known = self.names.entry(end.clone());
            known.or_insert_with(|| end.clone());
        }
        let mut ways: BTreeMap<(&str, &str), Path> = BTreeMap::new();
        for link in network.links.iter().filter(|l| l.price_us != SILENT_US) {
            let way = Path {
                delay_us: f64::from(link.latency_us),
                loss: f64::from(link.loss) / 65_536.0,
                rate_kbps: link.capacity_kbps,
            };
            ways.insert((&link.from, &link.to), way);
        }
        for link in own {
            let here = self.teller.as_str();
            let there = link.peer.as_str();
            for (ends, loss) in [((here, there), link.loss[0]), ((there, here), link.loss[1])] {
                if let Some(way) = ways.get_mut(&ends) {
                    (way.delay_us, way.loss) = (link.rtt_us / 2.0, loss);
                }
            }
        }
        let mut seen = BTreeSet::new();
        let mut states = Vec::new();
        for (&(from, to), &way) in ways.iter().filter(|((from, to), _)| from < to) {
            if let Some(&back) = ways.get(&(to, from)) {
                let ends = [from.to_owned(), to.to_owned()];
                seen.insert(ends.clone());
                states.push((ends, Some([way, back])));
            }
        }
        let gone = self.links.keys().filter(|ends| !seen.contains(*ends));
        states.extend(gone.cloned().map(|ends| (ends, None)).collect::<Vec<_>>());
        for (ends, state) in states {
            let known = self.links.get(&ends);
            let counts = known.is_none_or(|link| differs(&link.now, &state));
            if counts && self.changes < CHANGES_MAX {
                let link = self.links.entry(ends).or_default();
                link.now = state;
                link.changes.push((at, state));
                self.changes += 1;
            }
        }
    }

    /// Nodes, links, and changes after the first.
    pub fn counts(&self) -> (usize, usize, usize) {
        (
            self.names.len(),
            self.links.len(),
            self.changes - self.links.len(),
        )
    }

    /// A scenario has no more changes, is no longer, or has no more nodes and links for so long.
    pub fn is_full(&self) -> bool {
        let ends = (self.names.len() + 2 * self.links.len()) as u64;
        let load = ends * (self.last.as_millis() / 1_000 + MARGIN_S);
        self.changes >= CHANGES_MAX
            || self.last >= super::DURATION_MAX
            || load >= super::NODE_SECONDS_MAX
    }

    /// The scenario file.
    pub fn to_toml(&self, name: &str) -> String {
        let mut out = String::new();
        self.write(name, &mut out)
            .expect("a string takes whatever is written");
        out
    }

    fn write(&self, name: &str, out: &mut String) -> std::fmt::Result {
        let span = self.last.min(super::DURATION_MAX);
        let span_s = span.as_secs_f64().max(1.0);
        let what =
            "# Recorded from a live network. Add flows of your own, then: sinew sim run FILE";
        writeln!(
            out,
            "{what}\n[scenario]\nname = {}\nduration = \"{span_s:.1}s\"",
            serde_json::Value::from(name)
        )?;
        for address in self.names.keys() {
            let name = self.name(address);
            writeln!(out, "\n[[node]]\nname = {name:?}\naddress = \"{address}\"")?;
        }
        let mut faults = Vec::new();
        for (ends, link) in &self.links {
            let Some(first) = link.changes.iter().find_map(|(_, state)| *state) else {
                continue;
            };
            let ends = ends.each_ref().map(|address| self.name(address));
            writeln!(out, "\n[[link]]\na = {:?}\nb = {:?}", ends[0], ends[1])?;
            paths(out, first)?;
            // It is there from the beginning, and down until it was seen.
            let mut before = Some(first);
            let begins = link.changes.first().map_or(Duration::ZERO, |(at, _)| *at);
            if begins > Duration::ZERO {
                faults.push((Duration::ZERO, ends, before, None));
                before = None;
            }
            for (at, state) in &link.changes {
                faults.push((*at, ends, before, *state));
                before = *state;
            }
        }
        faults.sort_by_key(|(at, ..)| *at);
        for (at, ends, before, state) in faults {
            let mut fault = |kind: &str| {
                let ([a, b], at_s) = (ends, at.as_secs_f64());
                let when = format!("at = \"{at_s:.1}s\"\nkind = {kind:?}");
                writeln!(out, "\n[[fault]]\n{when}\na = {a:?}\nb = {b:?}")?;
                state
                    .filter(|_| kind == "link-set")
                    .map_or(Ok(()), |state| paths(out, state))
            };
            match (before, state) {
                (None, None) => {}
                (Some(_), None) => fault("link-down")?,
                (Some(before), Some(state)) if before == state => {}
                (Some(_), Some(_)) => fault("link-set")?,
                (None, Some(_)) => {
                    fault("link-set")?;
                    fault("link-up")?;
                }
            }
        }
        // As many packets as a scenario may have are some calls for a day.
        let calls = (super::PACKETS_MAX as f64 / (50.0 * span_s) / 2.0) as usize;
        let others = self.names.keys().filter(|address| **address != self.teller);
        for other in others.take(calls.clamp(1, FLOWS_MAX)) {
            let (from, to) = (self.name(&self.teller), self.name(other));
            writeln!(out, "\n[[flow]]\nfrom = {from:?}\nto = {to:?}")?;
        }
        Ok(())
    }

    /// What a node is called in the scenario: its address, where its name is too long or is another one's, too.
    fn name<'a>(&'a self, address: &'a str) -> &'a str {
        let Some(name) = self.names.get(address) else {
            return address;
        };
        let has_it = self.names.values().filter(|other| *other == name).count();
        match name.len() <= super::parse::NAME_BYTES_MAX && has_it == 1 {
            true => name,
            false => address,
        }
    }
}

fn paths(out: &mut String, [path, back]: [Path; 2]) -> std::fmt::Result {
    writeln!(
        out,
        "path = \"{}\"\nback = \"{}\"",
        words(path),
        words(back)
    )
}

/// The words of a path.
fn words(way: Path) -> String {
    let mut words = format!("delay={:.3}ms", way.delay_us / 1e3);
    if way.loss >= 5e-5 {
        let _ = write!(words, " loss={:.3}%", 100.0 * way.loss.min(1.0));
    }
    if let Some(kbps) = way.rate_kbps.filter(|kbps| *kbps > 0) {
        let _ = write!(words, " rate={kbps}kbit");
    }
    words
}

fn differs(a: &State, b: &State) -> bool {
    let (Some(a), Some(b)) = (a, b) else {
        return a.is_some() != b.is_some();
    };
    let far = |x: f64, y: f64, share: f64, least: f64| (x - y).abs() > least.max(share * x.max(y));
    a.iter().zip(b).any(|(a, b)| {
        far(a.delay_us, b.delay_us, DELAY_SHARE, DELAY_US)
            || far(a.loss, b.loss, LOSS_SHARE, LOSS)
            || a.rate_kbps != b.rate_kbps
    })
}

#[cfg(test)]
mod tests {
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

    /// What a recording says of a network at each second is what the network was like.
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
        for second in 0..2 * CHANGES_MAX as u64 {
            let latency_us = 10_000 + 10_000 * (second % 2) as u32;
            recording.take(Duration::from_secs(4 + second), &network(latency_us), &[]);
        }
        assert!(recording.is_full());
        assert_eq!(recording.changes, CHANGES_MAX);
    }
}
