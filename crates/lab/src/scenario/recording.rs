//! A live network as a scenario: the properties of its links over time.
//!
//! ```text
//!   network as a node knows it, every second ─▶ Recording ─▶ a change that counts ─▶ scenario file: links, faults
//! ```
//! Of links elsewhere, a node knows what their ends announce. Announcements follow a change after some seconds and
//! contain neither jitter nor runs of losses. Of its own links, it knows what it measures.

use base::Duration;
use overlay::snapshot::NetworkSnapshot;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The least change of the delay that counts: a tenth, and this many microseconds.
const DELAY_SHARE: f64 = 0.1;
const DELAY_US: f64 = 500.0;
/// The least change of the loss that counts: two fifths of the greater value, and this much. Choice: a loss is measured
/// over fifty losses, which vary by a seventh, or by a quarter if they come in runs. The recording has the mean of all
/// samples between two changes, so little is lost by this.
const LOSS_SHARE: f64 = 0.4;
const LOSS: f64 = 0.003;
/// The least change of the jitter that counts: a half, and this many microseconds. Choice: the jitter is measured as
/// the median of some samples, which varies by a quarter.
const JITTER_SHARE: f64 = 0.5;
const JITTER_US: f64 = 2_000.0;
/// The least change of the mean run of losses, in packets, that counts: a half, and this much.
const RUN_SHARE: f64 = 0.5;
const RUN: f64 = 0.5;
/// All samples must differ for this long, because a short deviation of an estimate is no change.
const LASTS: Duration = Duration::from_secs(2);
/// A jitter below this share of the delay, and this many microseconds, is attributed to clocks and hosts.
const JITTER_LEAST: f64 = 0.05;
const JITTER_LEAST_US: f64 = 300.0;
/// A loss counts as measured over this many packets. Choice: the same number from which on `sinew links` leaves out its
/// `≈`.
const MEASURED_PACKETS: u64 = 400;
/// The outage price of a link whose other end is silent.
const SILENT_US: u32 = u32::MAX;
/// Most changes that are kept: each becomes at most two faults, the first of a link three, and a scenario has a maximum
/// of faults.
const CHANGES_MAX: usize = super::FAULTS_MAX / 3;
/// Seconds by which the limit on node-seconds must exceed the recording: for settling, and for the time still being
/// recorded.
const MARGIN_S: u64 = 60;
/// Most calls of the scenario, from the recording node to other nodes.
const FLOWS_MAX: usize = 8;

/// One direction of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Path {
    delay_us: f64,
    /// The range above the delay, evenly distributed.
    jitter_us: f64,
    /// Mean length of a run of losses, in packets.
    run: f64,
    /// Share of packets lost.
    loss: f64,
    /// The capacity, if it is known.
    rate_kbps: Option<u32>,
}

/// A link of the recording node, as it measures the link; addresses are text.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnLink {
    /// The other end.
    peer: String,
    /// The shortest recent round trip, and how much longer half of the round trips are.
    rtt_us: f64,
    varies_us: f64,
    /// Share lost towards the other end, and in the opposite direction.
    loss: [f64; 2],
    /// Mean lengths of runs of losses in the same order, in packets.
    run: [f64; 2],
}

impl OwnLink {
    /// Reads one entry of `snapshot.links` of a node's status. Returns `None` for a new link: a loss measured over few
    /// packets is not reliable.
    #[must_use]
    pub fn read(link: &serde_json::Value) -> Option<OwnLink> {
        if link["loss_in_packets"].as_u64()? < MEASURED_PACKETS {
            return None;
        }
        let number = |key: &str| link[key].as_f64();
        Some(OwnLink {
            peer: link["peer"].as_str()?.to_owned(),
            rtt_us: 1e3 * number("rtt_least_ms")?,
            varies_us: 1e3 * number("rtt_varies_ms")?,
            loss: [
                number("loss_out_pct")? / 100.0,
                number("loss_in_pct")? / 100.0,
            ],
            run: [number("loss_run_out")?, number("loss_run_in")?],
        })
    }

    /// Fills in the direction to the other end, or the opposite one. Both directions share the round trip, so each has
    /// half of it as its delay. The median of the sum of two equal even spreads is one spread, so the jitter of each
    /// direction is the excess of the median round trip.
    fn put(&self, from_there: bool, way: &mut Path) {
        let place = usize::from(from_there);
        let least_us = JITTER_LEAST_US.max(JITTER_LEAST * self.rtt_us / 2.0);
        let jitters = self.varies_us > least_us;
        way.delay_us = self.rtt_us / 2.0;
        way.jitter_us = if jitters { self.varies_us } else { 0.0 };
        (way.loss, way.run) = (self.loss[place], self.run[place]);
    }
}

/// The state of a link: `None` while it was down.
type State = Option<[Path; 2]>;

#[derive(Debug, Default)]
struct Link {
    /// The state at its last change.
    now: State,
    /// The changes: each with its time, and the mean of all samples since then.
    changes: Vec<(Duration, State)>,
    /// Number of samples since the last change.
    looks: f64,
    /// The time since which all samples differ from `now`.
    other_since: Option<Duration>,
}

impl Link {
    /// Returns the time since which the link has changed, if it has: at once if it appeared or disappeared, or its
    /// announced capacity changed; and after a while if measured values changed.
    fn changed(&mut self, at: Duration, state: &State) -> Option<Duration> {
        if !differs(&self.now, state) {
            self.other_since = None;
            return None;
        }
        let rates = |state: &State| state.map(|ways| ways.map(|way| way.rate_kbps));
        let since = *self.other_since.get_or_insert(at);
        match rates(&self.now) != rates(state) {
            true => Some(at),
            false => (at.saturating_sub(since) >= LASTS).then_some(since),
        }
    }

    /// Adds a sample without a change to the mean.
    fn more(&mut self, state: &State) {
        self.looks += 1.0;
        let mean = self.changes.last_mut().and_then(|(_, mean)| mean.as_mut());
        let (Some(mean), Some(state)) = (mean, state) else {
            return;
        };
        for (mean, now) in mean.iter_mut().zip(state) {
            mean.delay_us += (now.delay_us - mean.delay_us) / self.looks;
            mean.jitter_us += (now.jitter_us - mean.jitter_us) / self.looks;
            mean.loss += (now.loss - mean.loss) / self.looks;
            mean.run += (now.run - mean.run) / self.looks;
        }
    }
}

/// The recording of a network.
#[derive(Debug, Default)]
pub struct Recording {
    teller: String,
    /// The nodes' names by address.
    names: BTreeMap<String, String>,
    /// The links by their ends, in sorted order.
    links: BTreeMap<[String; 2], Link>,
    /// The time of the first sample, at which the recording begins.
    begun: Option<Duration>,
    last: Duration,
    changes: usize,
}

impl Recording {
    /// Takes a sample of the network. Samples must be in order of time; times count from the first.
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
                jitter_us: 0.0,
                run: 1.0,
                loss: f64::from(link.loss) / 65_536.0,
                rate_kbps: link.capacity_kbps,
            };
            ways.insert((&link.from, &link.to), way);
        }
        for link in own {
            let here = self.teller.as_str();
            let there = link.peer.as_str();
            for (ends, from_there) in [((here, there), false), ((there, here), true)] {
                if let Some(way) = ways.get_mut(&ends) {
                    link.put(from_there, way);
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
            let since = match self.links.get_mut(&ends) {
                Some(link) => link.changed(at, &state),
                None => Some(at),
            };
            match since {
                Some(since) if self.changes < CHANGES_MAX => {
                    let link = self.links.entry(ends).or_default();
                    (link.now, link.looks, link.other_since) = (state, 1.0, None);
                    link.changes.push((since, state));
                    self.changes += 1;
                }
                Some(_) => {}
                None => {
                    let known = self.links.get_mut(&ends);
                    if let Some(link) = known.filter(|link| link.other_since.is_none()) {
                        link.more(&state);
                    }
                }
            }
        }
    }

    /// Returns the numbers of nodes, links, and changes after the first.
    pub fn counts(&self) -> (usize, usize, usize) {
        (
            self.names.len(),
            self.links.len(),
            self.changes - self.links.len(),
        )
    }

    /// Returns whether a scenario cannot have more changes, be longer, or have more nodes and links for this long.
    pub fn is_full(&self) -> bool {
        let ends = (self.names.len() + 2 * self.links.len()) as u64;
        let load = ends * (self.last.as_millis() / 1_000 + MARGIN_S);
        self.changes >= CHANGES_MAX
            || self.last >= super::DURATION_MAX
            || load >= super::NODE_SECONDS_MAX
    }

    /// Returns the scenario file.
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
            // The scenario has the link from the beginning, and it is down until it was first seen.
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
        // The maximum of packets of a scenario is some calls for a day.
        let calls = (super::PACKETS_MAX as f64 / (50.0 * span_s) / 2.0) as usize;
        let others = self.names.keys().filter(|address| **address != self.teller);
        for other in others.take(calls.clamp(1, FLOWS_MAX)) {
            let (from, to) = (self.name(&self.teller), self.name(other));
            writeln!(out, "\n[[flow]]\nfrom = {from:?}\nto = {to:?}")?;
        }
        Ok(())
    }

    /// Returns a node's name in the scenario: its address, if its name is too long or belongs to another node too.
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

/// Returns the words of a path.
fn words(way: Path) -> String {
    let mut words = format!("delay={:.3}ms", way.delay_us / 1e3);
    if way.jitter_us > 0.0 {
        let _ = write!(words, " jitter={:.3}ms", way.jitter_us / 1e3);
    }
    if way.loss >= 5e-5 {
        let _ = write!(words, " loss={:.3}%", 100.0 * way.loss.min(1.0));
        // The burst is the probability that a run continues; if it is below the loss itself, losses are independent.
        let burst = 1.0 - 1.0 / way.run.max(1.0);
        if burst > way.loss {
            let _ = write!(words, " burst={:.1}%", 100.0 * burst);
        }
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
            || far(a.jitter_us, b.jitter_us, JITTER_SHARE, JITTER_US)
            || (a.loss > LOSS && far(a.run, b.run, RUN_SHARE, RUN))
            || a.rate_kbps != b.rate_kbps
    })
}

#[cfg(test)]
mod tests;
