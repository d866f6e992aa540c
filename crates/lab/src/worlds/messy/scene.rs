//! A messy world, drawn from its seed, and as a scenario file.

use super::story::Story;
use base::Rng;
use std::fmt::Write as _;

/// The time after which a packet of a call is late.
pub(super) const DEADLINE_MS: u64 = 150;
/// The same for a message of a reliable stream, over the overlay or TCP.
pub(super) const STREAM_DEADLINE_MS: u64 = 1_000;
/// Time for nodes to settle before calls begin.
const SETTLE_MS: u64 = 5_000;
/// The longest delay plus jitter of a path while losses or jitter are drawn separately for twin and overlay: no packet
/// is late by chance alone.
const IN_TIME_MS: u64 = 130;
/// Rate of a call on a link: 160 bytes of payload and the overlay's headers, fifty times a second.
const CALL_KBIT: u64 = 90;
/// The same for UDP, whose headers no path counts.
const UDP_KBIT: u64 = 64;
/// Rate of hellos, link state and requests on a link.
const CONTROL_KBIT: u64 = 80;

/// A world before it runs.
#[derive(Clone, Debug)]
pub(super) struct Scene {
    /// For each node, how far its clock is ahead in seconds, and how fast it is.
    clocks: Vec<(u64, i64)>,
    links: Vec<Link>,
    pub(super) flows: Vec<Flow>,
    /// The faults in any order: the time, and the words of a scenario.
    faults: Vec<(u64, String)>,
    seconds: u64,
}

#[derive(Clone, Debug)]
struct Link {
    a: usize,
    b: usize,
    there: Path,
    back: Path,
    /// The largest random losses that it has at any time, in either direction.
    worst: Loss,
}

/// Calls from one node to another, or to a group of several.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) from: usize,
    count: u64,
    /// Whether it is a reliable stream, whose twin uses TCP.
    pub(super) is_stream: bool,
    pub(super) receivers: Vec<Receiver>,
}

/// A receiver of a flow.
#[derive(Clone, Debug)]
pub(super) struct Receiver {
    pub(super) to: usize,
    /// The link to it from the sender, if there is one: then it has a twin.
    pub(super) direct: Option<usize>,
    /// The largest random losses of its twin.
    pub(super) loss: Option<Loss>,
}

/// Losses that are drawn packet by packet.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Loss {
    /// The loss in permille.
    pub(super) permille: u64,
    /// The probability that the packet after a lost one is lost, in percent.
    pub(super) burst_pct: u64,
}

/// One direction of a link.
#[derive(Clone, Copy, Debug)]
struct Path {
    delay_ms: u64,
    jitter_ms: u64,
    reorders: bool,
    loss: Loss,
    /// The rate; `None` means no limit.
    rate_kbit: Option<u64>,
}

impl Loss {
    fn draw(rng: &mut Rng) -> Loss {
        let permille = match rng.below(4) {
            0 => 0,
            1 => rng.below(10),
            2 => rng.below(30),
            _ => rng.below(100),
        };
        let burst_pct = [0, 0, 25, 50][rng.below(4) as usize];
        // A burstiness below the loss itself would mean that losses avoid each other.
        let burst_pct = if burst_pct * 10 > permille {
            burst_pct
        } else {
            0
        };
        Loss {
            permille,
            burst_pct,
        }
    }

    /// Returns the worse of two, as a limit for random effects.
    fn worse(self, other: Loss) -> Loss {
        Loss {
            permille: self.permille.max(other.permille),
            burst_pct: self.burst_pct.max(other.burst_pct),
        }
    }
}

impl Path {
    fn draw(rng: &mut Rng) -> Path {
        let most_ms = [5, 30, 80][rng.below(3) as usize];
        let delay_ms = 1 + rng.below(most_ms);
        let mut path = Path {
            delay_ms,
            jitter_ms: 0,
            reorders: false,
            loss: Loss::draw(rng),
            rate_kbit: None,
        };
        path.vary(rng);
        path
    }

    /// Draws another jitter.
    fn vary(&mut self, rng: &mut Rng) {
        let most = [1, 5, 20, 60][rng.below(4) as usize];
        let room = IN_TIME_MS.saturating_sub(self.delay_ms);
        self.jitter_ms = rng.below(most + 1).min(room);
        self.reorders = self.jitter_ms > 0 && rng.chance(0.5);
    }

    fn words(&self) -> String {
        let mut words = format!("delay={}ms", self.delay_ms);
        if self.jitter_ms > 0 {
            let _ = write!(words, " jitter={}ms", self.jitter_ms);
        }
        if self.reorders {
            words += " reorder";
        }
        if self.loss.permille > 0 {
            let (whole, tenths) = (self.loss.permille / 10, self.loss.permille % 10);
            let _ = write!(words, " loss={whole}.{tenths}%");
            if self.loss.burst_pct > 0 {
                let _ = write!(words, " burst={}%", self.loss.burst_pct);
            }
        }
        if let Some(rate) = self.rate_kbit {
            let _ = write!(words, " rate={rate}kbit");
        }
        words
    }
}

impl Scene {
    pub(super) fn draw(rng: &mut Rng) -> Scene {
        let most = [1, 2, 3, 6][rng.below(4) as usize];
        let nodes = 2 + rng.below(most) as usize;
        let mut scene = Scene {
            clocks: (0..nodes).map(|_| clock(rng)).collect(),
            links: links(rng, nodes),
            flows: Vec::new(),
            faults: Vec::new(),
            seconds: 60,
        };
        for _ in 0..1 + rng.below(3) {
            let flow = scene.flow(rng);
            scene.flows.push(flow);
        }
        for _ in 0..rng.below(7) {
            scene.trouble(rng);
        }
        for flow in &mut scene.flows {
            for receiver in &mut flow.receivers {
                receiver.loss = receiver.direct.map(|link| scene.links[link].worst);
            }
        }
        scene
    }

    /// Draws a flow. Most calls are between neighbours: these have twins. Some are those of a group, to all neighbours
    /// of the sender.
    fn flow(&self, rng: &mut Rng) -> Flow {
        let link = rng.below(self.links.len() as u64) as usize;
        let ends = (self.links[link].a, self.links[link].b);
        let (from, to) = match rng.below(8) {
            0 => {
                let nodes = self.clocks.len() as u64;
                let from = rng.below(nodes);
                let to = (from + 1 + rng.below(nodes - 1)) % nodes;
                (from as usize, to as usize)
            }
            1..=4 => ends,
            _ => (ends.1, ends.0),
        };
        let receivers = match rng.chance(0.25) {
            true => (0..self.clocks.len())
                .filter(|to| self.between(from, *to).is_some())
                .collect(),
            false => vec![to],
        };
        let receiver = |to: &usize| Receiver {
            to: *to,
            direct: self.between(from, *to),
            loss: None,
        };
        let receivers: Vec<Receiver> = receivers.iter().map(receiver).collect();
        Flow {
            from,
            count: [1, 1, 1, 3][rng.below(4) as usize],
            is_stream: rng.chance(0.25) && receivers.len() == 1,
            receivers,
        }
    }

    /// Returns the link between two nodes.
    fn between(&self, a: usize, b: usize) -> Option<usize> {
        let joins = |link: &Link| [(link.a, link.b), (link.b, link.a)].contains(&(a, b));
        self.links.iter().position(joins)
    }

    /// Draws a fault.
    fn trouble(&mut self, rng: &mut Rng) {
        let end_ms = self.seconds * 1_000;
        let at = rng.below(end_ms * 9 / 10);
        let link = rng.below(self.links.len() as u64) as usize;
        match rng.below(9) {
            0 | 1 => self.outage(link, at, between(rng, 50, 10_000)),
            2 => self.runs(rng, link, at),
            3 => {
                let (every, span) = (between(rng, 2_000, 20_000), between(rng, 100, 2_000));
                let mut at = at;
                while at < end_ms {
                    self.outage(link, at, span);
                    at += every + span;
                }
            }
            4 => {
                let node = rng.below(self.clocks.len() as u64);
                let span = between(rng, 100, 8_000);
                self.faults.push((
                    at,
                    format!("kind = \"stall\"\nnode = \"n{node}\"\nfor = \"{span}ms\"\n"),
                ));
            }
            5 => {
                let delay_ms = between(rng, 2, 250);
                self.change(rng, link, at, |path, _| {
                    path.delay_ms = delay_ms;
                    path.jitter_ms = path.jitter_ms.min(IN_TIME_MS.saturating_sub(delay_ms));
                });
            }
            6 => self.change(rng, link, at, Path::vary),
            7 => self.change(rng, link, at, |path, rng| path.loss = Loss::draw(rng)),
            _ => {
                let rate_kbit = Some(self.rate_kbit(rng));
                self.change(rng, link, at, |path, _| path.rate_kbit = rate_kbit);
            }
        }
    }

    /// Draws a rate that carries everything at once; or, for a single flow, one that is too low even for UDP, so that
    /// its twin is late with all packets that it does not lose.
    fn rate_kbit(&self, rng: &mut Rng) -> u64 {
        let copies = |flow: &Flow| flow.count * flow.receivers.len() as u64;
        let calls: u64 = self.flows.iter().map(copies).sum();
        let is_alone = self.flows.len() == 1 && self.flows[0].receivers.len() == 1;
        match is_alone && rng.chance(0.3) {
            true => calls * UDP_KBIT * (30 + rng.below(50)) / 100,
            false => (calls * CALL_KBIT + CONTROL_KBIT) * (150 + rng.below(300)) / 100,
        }
    }

    /// Adds losses in runs: for a while outages of some hundred milliseconds, each with its own length.
    fn runs(&mut self, rng: &mut Rng, link: usize, from: u64) {
        let (mean_gap, mean_run) = (between(rng, 300, 3_000), between(rng, 40, 500));
        let until = (from + between(rng, 2_000, 30_000)).min(self.seconds * 1_000);
        let mut at = from;
        while at < until {
            let run = 20 + memoryless(rng, mean_run);
            self.outage(link, at, run);
            at += run + 20 + memoryless(rng, mean_gap);
        }
    }

    fn outage(&mut self, link: usize, at: u64, span: u64) {
        for (when, kind) in [(at, "link-down"), (at + span, "link-up")] {
            if when <= self.seconds * 1_000 {
                for place in self.places(link) {
                    let words = format!("kind = \"{kind}\"\n{place}");
                    self.faults.push((when, words));
                }
            }
        }
    }

    /// Changes a path; in one case of three in one direction only.
    fn change(
        &mut self,
        rng: &mut Rng,
        link: usize,
        at: u64,
        change: impl Fn(&mut Path, &mut Rng),
    ) {
        let only = rng.below(6);
        let mut changed = self.links[link].clone();
        // Both directions are drawn, so that later draws do not depend on the choice.
        change(&mut changed.there, rng);
        change(&mut changed.back, rng);
        match only {
            0 => changed.back = self.links[link].back,
            1 => changed.there = self.links[link].there,
            _ => {}
        }
        changed.worst = changed
            .worst
            .worse(changed.there.loss)
            .worse(changed.back.loss);
        self.links[link].worst = changed.worst;
        for (n, place) in self.places(link).into_iter().enumerate() {
            let (mut path, mut back) = (changed.there.words(), changed.back.words());
            if n > 0 && self.is_turned(n, link) {
                (path, back) = (back, path);
            }
            self.faults.push((
                at,
                format!("kind = \"link-set\"\n{place}path = \"{path}\"\nback = \"{back}\"\n"),
            ));
        }
    }

    /// Returns the link, and the twins that have the same faults.
    fn places(&self, link: usize) -> Vec<String> {
        let ends = &self.links[link];
        let own = format!("a = \"n{}\"\nb = \"n{}\"\n", ends.a, ends.b);
        let twins = self.twins_over(link);
        let twins = twins.map(|(n, to, _)| format!("flow = \"twin {n} n{to}\"\n"));
        [own].into_iter().chain(twins).collect()
    }

    /// Returns each twin that has the same faults as a link: the flow's index, the receiver, and whether it runs in the
    /// opposite direction of the link.
    fn twins_over(&self, link: usize) -> impl Iterator<Item = (usize, usize, bool)> + '_ {
        let flows = self.flows.iter().enumerate();
        // TCP has a separate world.
        let flows = flows.filter(|(_, flow)| !flow.is_stream);
        flows.flat_map(move |(n, flow)| {
            let over = flow.receivers.iter();
            let over = over.filter(move |of| of.direct == Some(link));
            over.map(move |of| (n, of.to, flow.from != self.links[link].a))
        })
    }

    /// Returns whether the twin at an index of [`Scene::places`] runs in the opposite direction of the link.
    fn is_turned(&self, place: usize, link: usize) -> bool {
        let twin = self.twins_over(link).nth(place - 1);
        twin.is_some_and(|(.., turned)| turned)
    }

    /// Returns the name of the twin of a flow's receiver.
    pub(super) fn twin_name(&self, flow: usize, receiver: usize) -> String {
        format!("twin {flow} n{}", self.flows[flow].receivers[receiver].to)
    }

    /// Adds the faults to a story.
    pub(super) fn tell(&self, story: &Story) {
        let of_twin = |words: &&(u64, String)| words.1.contains("flow = ");
        for (at, words) in self.faults.iter().filter(|words| !of_twin(words)) {
            let words = words.trim_end().replace('\n', " ");
            story.tell(at * 1_000, format!("trouble: {words}"));
        }
    }

    /// Returns the scenario file: flows, then their twins. The initial state comes first, then the faults.
    pub(super) fn text(&self, seed: u64) -> String {
        let mut text = format!(
            "[scenario]\nname = \"world-{seed}\"\nduration = \"{}s\"\nsettle = \"{SETTLE_MS}ms\"\n\
             sealing = false\nseed = {seed}\n",
            self.seconds
        );
        for (n, (ahead_s, drift_ppm)) in self.clocks.iter().enumerate() {
            let _ = write!(
                text,
                "\n[[node]]\nname = \"n{n}\"\nclock_ahead = \"{ahead_s}s\"\nclock_drift_ppm = {drift_ppm}\n"
            );
        }
        for link in &self.links {
            let (there, back) = (link.there.words(), link.back.words());
            let _ = write!(
                text,
                "\n[[link]]\na = \"n{}\"\nb = \"n{}\"\npath = \"{there}\"\nback = \"{back}\"\n",
                link.a, link.b
            );
        }
        for (n, flow) in self.flows.iter().enumerate() {
            let (class, deadline_ms) = match flow.is_stream {
                true => ("class = \"reliable\"\nstream = true\n", STREAM_DEADLINE_MS),
                false => ("", DEADLINE_MS),
            };
            let rest = format!("count = {}\ndeadline = \"{deadline_ms}ms\"\n", flow.count);
            let (first, others) = flow.receivers.split_first().expect("somebody gets it");
            let ends = |to: usize| format!("from = \"n{}\"\nto = \"n{to}\"\n", flow.from);
            let also: Vec<String> = others.iter().map(|of| format!("\"n{}\"", of.to)).collect();
            let also = match also.is_empty() {
                true => String::new(),
                false => format!("also = [{}]\n", also.join(", ")),
            };
            let _ = write!(
                text,
                "\n[[flow]]\nname = \"call {n}\"\n{}{also}{class}{rest}",
                ends(first.to)
            );
            for receiver in &flow.receivers {
                let link = receiver.direct.filter(|_| !flow.is_stream);
                let Some(link) = link.map(|link| &self.links[link]) else {
                    continue;
                };
                let path = if flow.from == link.a {
                    link.there
                } else {
                    link.back
                };
                let (to, path) = (receiver.to, path.words());
                let _ = write!(
                    text,
                    "\n[[flow]]\nname = \"twin {n} n{to}\"\n{}{rest}direct = true\npath = \"{path}\"\n",
                    ends(to)
                );
            }
        }
        for (at, words) in &self.faults {
            let _ = write!(text, "\n[[fault]]\nat = \"{at}ms\"\n{words}");
        }
        text
    }
}

/// Draws a connected network of `nodes` nodes: a tree and some additional links.
fn links(rng: &mut Rng, nodes: usize) -> Vec<Link> {
    let mut ends: Vec<(usize, usize)> = Vec::new();
    for b in 1..nodes {
        let a = match rng.chance(0.3) {
            true => b - 1,
            false => rng.below(b as u64) as usize,
        };
        ends.push((a, b));
    }
    for _ in 0..rng.below(1 + nodes as u64) {
        let a = rng.below(nodes as u64) as usize;
        let b = rng.below(nodes as u64) as usize;
        let pair = (a.min(b), a.max(b));
        if a != b && !ends.contains(&pair) {
            ends.push(pair);
        }
    }
    let link = |(a, b): (usize, usize)| {
        let there = Path::draw(rng);
        let back = match rng.chance(0.3) {
            true => Path::draw(rng),
            false => there,
        };
        let (a, b) = if rng.chance(0.5) { (a, b) } else { (b, a) };
        Link {
            a,
            b,
            there,
            back,
            worst: there.loss.worse(back.loss),
        }
    };
    ends.into_iter().map(link).collect()
}

fn clock(rng: &mut Rng) -> (u64, i64) {
    let ahead_s = if rng.chance(0.5) { rng.below(4_300) } else { 0 };
    let drift_ppm = match rng.below(3) {
        0 => rng.below(1_001) as i64 - 500,
        1 => rng.below(101) as i64 - 50,
        _ => 0,
    };
    (ahead_s, drift_ppm)
}

/// Draws a number with an even distribution of its logarithm.
fn between(rng: &mut Rng, least: u64, most: u64) -> u64 {
    let (least, most) = (least as f64, most as f64);
    (least * (most / least).powf(rng.unit())).round() as u64
}

fn memoryless(rng: &mut Rng, mean: u64) -> u64 {
    (-(1.0 - rng.unit()).ln() * mean as f64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Carrier, FaultKind, Place, Scenario};

    #[test]
    fn every_scene_is_a_scenario_and_all_kinds_of_trouble_come() {
        let (mut twins, mut groups, mut kinds) = (0, 0, [0; 4]);
        for seed in 0..300 {
            let scene = Scene::draw(&mut Rng::new(seed));
            let text = scene.text(seed);
            let scenario =
                Scenario::parse("world", &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
            let direct = |flow: &&crate::scenario::Flow| matches!(flow.carrier, Carrier::Direct(_));
            twins += scenario.flows.iter().filter(direct).count();
            groups += scenario
                .flows
                .iter()
                .filter(|flow| !flow.also.is_empty())
                .count();
            for fault in &scenario.faults {
                match fault.kind {
                    FaultKind::Down(Place::Link(_) | Place::Second(_)) => kinds[0] += 1,
                    FaultKind::Down(Place::Flow(_)) => kinds[1] += 1,
                    FaultKind::Set(..) => kinds[2] += 1,
                    FaultKind::Stall(..) => kinds[3] += 1,
                    _ => {}
                }
            }
        }
        assert!(twins > 300 && groups > 30, "{twins} {groups}");
        assert!(kinds.iter().all(|count| *count > 50), "{kinds:?}");
    }

    #[test]
    fn a_twin_that_goes_the_other_way_has_the_other_path() {
        let path = |delay_ms| Path {
            delay_ms,
            jitter_ms: 0,
            reorders: false,
            loss: Loss::default(),
            rate_kbit: None,
        };
        let flow = |from, to| Flow {
            from,
            count: 1,
            is_stream: false,
            receivers: vec![Receiver {
                to,
                direct: Some(0),
                loss: None,
            }],
        };
        let mut scene = Scene {
            clocks: vec![(0, 0); 2],
            links: vec![Link {
                a: 0,
                b: 1,
                there: path(10),
                back: path(20),
                worst: Loss::default(),
            }],
            flows: vec![flow(0, 1), flow(1, 0)],
            faults: Vec::new(),
            seconds: 10,
        };
        let mut rng = Rng::new(1);
        scene.change(&mut rng, 0, 5_000, |path, _| path.delay_ms += 100);
        let changes: Vec<&str> = scene
            .faults
            .iter()
            .map(|(_, words)| words.as_str())
            .collect();
        let path_of = |words: &str| {
            words
                .lines()
                .rfind(|l| l.starts_with("path"))
                .unwrap()
                .to_owned()
        };
        assert_eq!(path_of(changes[0]), path_of(changes[1]));
        assert_ne!(path_of(changes[0]), path_of(changes[2]));
        let scenario = Scenario::parse("world", &scene.text(1)).unwrap();
        let Carrier::Direct(twin) = &scenario.flows[3].carrier else {
            panic!("the second call's twin")
        };
        assert_eq!(twin.there.delay().as_millis(), 20);
    }
}
