//! A live network as a scenario: what its links were like, from one moment to the next.
//!
//! ```text
//!   network as a node knows it, every second ─▶ Recording ─▶ a change that counts ─▶ scenario file: links, faults
//! ```
//! Of links elsewhere a node knows what their ends announce, which follows a change after some seconds and tells neither
//! jitter nor runs of losses. Of its own links it knows what it measures.

use base::Duration;
use overlay::snapshot::NetworkSnapshot;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// What counts as a change of the delay: a tenth, and so many microseconds.
const DELAY_SHARE: f64 = 0.1;
const DELAY_US: f64 = 500.0;
/// What counts as a change of the loss: two fifths of the greater, and so much. Choice: a loss is measured over fifty
/// losses, which vary by a seventh, and by a quarter where they come in runs. The mean of all looks between two changes
/// is what is recorded, so little is lost by this.
const LOSS_SHARE: f64 = 0.4;
const LOSS: f64 = 0.003;
/// What counts as a change of the jitter: a half, and so many microseconds. Choice: it is measured as the median of
/// some samples, which varies by a quarter.
const JITTER_SHARE: f64 = 0.5;
const JITTER_US: f64 = 2_000.0;
/// What counts as a change of the mean run of losses, in packets: a half, and so much.
const RUN_SHARE: f64 = 0.5;
const RUN: f64 = 0.5;
/// For so long all looks must differ: an estimate that was off for a moment is no change.
const LASTS: Duration = Duration::from_secs(2);
/// A jitter below this part of the delay, and so many microseconds, is taken for that of clocks and hosts.
const JITTER_LEAST: f64 = 0.05;
const JITTER_LEAST_US: f64 = 300.0;
/// Over so many packets a loss counts as measured. Choice: as where `sinew links` leaves out its `≈`.
const MEASURED_PACKETS: u64 = 400;
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
    /// At most so much more, evenly.
    jitter_us: f64,
    /// Mean length of a run of losses, in packets.
    run: f64,
    /// Share of packets lost.
    loss: f64,
    /// What it carries, if that is known.
    rate_kbps: Option<u32>,
}

/// A link of the node that records, as it measures it; the address in text.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnLink {
    /// The other end.
    peer: String,
    /// The shortest round trip of late, and by how much half of them are longer.
    rtt_us: f64,
    varies_us: f64,
    /// Share lost towards the other end, and from there.
    loss: [f64; 2],
    /// Mean lengths of runs of losses in the same order, in packets.
    run: [f64; 2],
}

impl OwnLink {
    /// One of `snapshot.links` of a node's status. None of a link that is new: some packets say little, and one of a
    /// few that was lost is per cents.
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

    /// The direction to the other end, or from there. Both directions share the round trip: half of it each, and as the
    /// half of two even spreads is one of them, all of what half of the round trips have more.
    fn put(&self, from_there: bool, way: &mut Path) {
        let place = usize::from(from_there);
        let least_us = JITTER_LEAST_US.max(JITTER_LEAST * self.rtt_us / 2.0);
        let jitters = self.varies_us > least_us;
        way.delay_us = self.rtt_us / 2.0;
        way.jitter_us = if jitters { self.varies_us } else { 0.0 };
        (way.loss, way.run) = (self.loss[place], self.run[place]);
    }
}

/// What a link was like: nothing while it was down.
type State = Option<[Path; 2]>;

#[derive(Debug, Default)]
struct Link {
    /// As it was when it last changed.
    now: State,
    /// Since when, and the mean of all looks since then.
    changes: Vec<(Duration, State)>,
    /// How many looks.
    looks: f64,
    /// Since when all looks differ from how it was.
    other_since: Option<Duration>,
}

impl Link {
    /// Since when it is another link, if it is now: at once if it is there or gone, or what it carries is announced
    /// otherwise; and after a while if it is measured otherwise.
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

    /// A look without a change: it goes into the mean.
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
    if way.jitter_us > 0.0 {
        let _ = write!(words, " jitter={:.3}ms", way.jitter_us / 1e3);
    }
    if way.loss >= 5e-5 {
        let _ = write!(words, " loss={:.3}%", 100.0 * way.loss.min(1.0));
        // The chance that a run goes on; below the loss itself, losses are single.
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
