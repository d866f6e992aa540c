//! A scene: paths from `a` to `b`, the impairments of their links, and a fault; written as a scenario file.
//!
//! ```text
//!        ┌── link ─────────────────────────┐      the first path, for plain UDP a single link;
//!        │                                 │      the fault affects this one
//!      a ├── link ── c1 ── link ───────────┤ b
//!        └── link ── c2 ── link ───────────┘      further paths, if any
//! ```

use base::{Duration, Rng};
use std::fmt::Write as _;

/// The time after which a packet of a call is late.
pub(super) const DEADLINE_MS: u32 = 150;
/// Time between two packets of a call.
pub(super) const INTERVAL_MS: f64 = 20.0;
/// How long nodes measure their links before calls begin, in both profiles.
const SETTLE_S: u32 = 15;
/// No fault happens before this time.
const CALM_MS: u64 = 2_000;

/// A network with a fault.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scene {
    /// Its coordinates in a grid; none if it stands alone.
    pub(super) at: Vec<(&'static str, f64)>,
    /// The paths from `a` to `b`. Plain UDP has a path with the properties of the first.
    pub(super) ways: Vec<Way>,
    pub(super) trouble: Trouble,
    /// Whether UDP is affected by the fault of the first path too. Otherwise it has a path like that one without the
    /// fault.
    pub(super) udp_suffers: bool,
    pub(super) calls: Calls,
    pub(super) seconds: u32,
}

/// A path from `a` to `b` with a number of links.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Way {
    pub(super) links: u32,
    pub(super) path: Path,
}

/// The properties of a link, in both directions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Path {
    pub(super) delay_ms: u32,
    pub(super) loss_pct: f64,
    /// The probability that the packet after a lost one is lost.
    pub(super) burst_pct: f64,
    pub(super) jitter_ms: u32,
    pub(super) reorders: bool,
    /// The rate; `None` means no limit.
    pub(super) rate_kbit: Option<u32>,
}

/// The recurring faults, with their interval and length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    Nothing,
    /// An outage of the first link of the first path.
    Outage {
        every_ms: u32,
        for_ms: u32,
    },
    /// The process of the first relay on the first path is not scheduled.
    RelayStalls {
        every_ms: u32,
        for_ms: u32,
    },
    /// Nothing at `a` is scheduled: neither the node, nor its client, nor the sender by UDP.
    SenderStalls {
        every_ms: u32,
        for_ms: u32,
    },
    /// Nothing at `b` is scheduled.
    ReceiverStalls {
        every_ms: u32,
        for_ms: u32,
    },
}

/// The calls of a scene, from `a` to `b`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Calls {
    pub(super) count: u32,
    /// Time between the beginnings of two calls.
    pub(super) apart_ms: u32,
}

impl Calls {
    pub(super) const ONE: Calls = Calls {
        count: 1,
        apart_ms: 0,
    };
}

impl Path {
    /// Creates a path with independent losses.
    pub(super) const fn new(delay_ms: u32, loss_pct: f64) -> Path {
        Path {
            delay_ms,
            loss_pct,
            burst_pct: 0.0,
            jitter_ms: 0,
            reorders: false,
            rate_kbit: None,
        }
    }

    /// Returns the words of a link.
    fn words(&self) -> String {
        let mut words = format!("delay={}ms", self.delay_ms);
        if self.loss_pct > 0.0 {
            let _ = write!(words, " loss={:.6}%", self.loss_pct);
        }
        if self.burst_pct > 0.0 {
            let _ = write!(words, " burst={}%", self.burst_pct);
        }
        if self.jitter_ms > 0 {
            let _ = write!(words, " jitter={}ms", self.jitter_ms);
        }
        if self.reorders {
            words += " reorder";
        }
        if let Some(rate) = self.rate_kbit {
            let _ = write!(words, " rate={rate}kbit");
        }
        words
    }

    /// Returns this many of them in a row as one path. Its jitter is spread evenly, while that of a sum would be less
    /// often near its ends.
    fn in_row(&self, links: u32) -> Path {
        let kept = (1.0 - self.loss_pct / 100.0).powi(links as i32);
        Path {
            delay_ms: self.delay_ms * links,
            jitter_ms: self.jitter_ms * links,
            loss_pct: 100.0 * (1.0 - kept),
            ..*self
        }
    }
}

impl Way {
    /// Creates a path of a single link.
    pub(super) const fn link(path: Path) -> Way {
        Way { links: 1, path }
    }

    /// Returns the path with its delay multiplied.
    pub(super) fn slower(self, factor: f64) -> Way {
        let delay_ms = (f64::from(self.path.delay_ms) * factor) as u32;
        let path = Path {
            delay_ms,
            ..self.path
        };
        Way { path, ..self }
    }
}

impl Trouble {
    /// Returns the interval and length of the faults.
    pub(super) fn rhythm(self) -> Option<(u32, u32)> {
        match self {
            Trouble::Nothing => None,
            Trouble::Outage { every_ms, for_ms }
            | Trouble::RelayStalls { every_ms, for_ms }
            | Trouble::SenderStalls { every_ms, for_ms }
            | Trouble::ReceiverStalls { every_ms, for_ms } => Some((every_ms, for_ms)),
        }
    }

    /// Returns whether no other path avoids the fault, however many there are.
    fn is_at_an_end(self) -> bool {
        matches!(
            self,
            Trouble::SenderStalls { .. } | Trouble::ReceiverStalls { .. }
        )
    }
}

impl Scene {
    /// Creates a scene of one link and one call.
    pub(super) fn link(path: Path, trouble: Trouble, seconds: u32) -> Scene {
        Scene {
            at: Vec::new(),
            ways: vec![Way::link(path)],
            trouble,
            udp_suffers: true,
            calls: Calls::ONE,
            seconds,
        }
    }

    /// Returns the scene over these paths.
    pub(super) fn over(self, ways: Vec<Way>) -> Scene {
        Scene { ways, ..self }
    }

    /// Returns the scene as a point of a grid.
    pub(super) fn at(self, at: &[(&'static str, f64)]) -> Scene {
        let at = at.to_vec();
        Scene { at, ..self }
    }

    /// Returns whether there is a path around the fault.
    pub(super) fn has_another_way(&self) -> bool {
        self.ways.len() > 1 && !self.trouble.is_at_an_end()
    }

    /// Returns whether a packet that a link of the first path has lost can arrive in time after one request: the next
    /// packet reveals the gap, and a round trip follows.
    pub(super) fn can_recover(&self) -> bool {
        let way = &self.ways[0];
        let slowest = way.path.delay_ms + way.path.jitter_ms;
        let asked = f64::from((way.links + 2) * slowest) + INTERVAL_MS;
        asked <= f64::from(DEADLINE_MS)
    }

    /// Returns when faults begin and end, in milliseconds. The seed determines their phase.
    pub(super) fn troubles_ms(&self, seed: u64) -> Vec<(f64, f64)> {
        let Some((every_ms, for_ms)) = self.trouble.rhythm() else {
            return Vec::new();
        };
        let first = self.first_ms(seed, every_ms);
        let all = (0..).map(|n| first + n * u64::from(every_ms));
        all.take_while(|at| *at < u64::from(self.seconds) * 1_000)
            .map(|at| (at as f64, (at + u64::from(for_ms)) as f64))
            .collect()
    }

    fn first_ms(&self, seed: u64, every_ms: u32) -> u64 {
        CALM_MS + Rng::new(seed).below(u64::from(every_ms))
    }

    /// Returns when each call begins: their distance is the configured one, and their packets are evenly spread.
    pub(super) fn starts_ms(&self) -> Vec<f64> {
        let Calls { count, apart_ms } = self.calls;
        let phase = |n| f64::from(n) * INTERVAL_MS / f64::from(count);
        (0..count)
            .map(|n| f64::from(n * apart_ms) + phase(n).floor())
            .collect()
    }

    /// Returns the scenario file: the overlay's calls first, then those by UDP. Sealing does not affect a simulation;
    /// real nodes always seal.
    pub(super) fn text(&self, name: &str, profile: &str, seed: u64, seals: bool) -> String {
        let mut text = format!(
            "[scenario]\nname = \"{name}\"\nprofile = \"{profile}\"\nduration = \"{}s\"\n\
             settle = \"{SETTLE_S}s\"\nsealing = {seals}\nseed = {}\n\n\
             [[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n",
            self.seconds,
            seed & (i64::MAX as u64)
        );
        let mut first_link = ("a".to_owned(), "b".to_owned());
        let mut relays = 0;
        for (n, way) in self.ways.iter().enumerate() {
            let mut nodes = vec!["a".to_owned()];
            for _ in 1..way.links {
                relays += 1;
                let _ = write!(text, "[[node]]\nname = \"c{relays}\"\n");
                nodes.push(format!("c{relays}"));
            }
            nodes.push("b".to_owned());
            for ends in nodes.windows(2) {
                let words = way.path.words();
                let _ = write!(
                    text,
                    "[[link]]\na = \"{}\"\nb = \"{}\"\npath = \"{words}\"\n",
                    ends[0], ends[1]
                );
            }
            if n == 0 {
                first_link = (nodes[0].clone(), nodes[1].clone());
            }
        }
        self.add_flows(&mut text);
        self.add_faults(&mut text, first_link, seed);
        text
    }

    fn add_flows(&self, text: &mut String) {
        let udp = self.ways[0].path.in_row(self.ways[0].links).words();
        for (n, start_ms) in self.starts_ms().iter().enumerate() {
            let _ = write!(
                text,
                "\n[[flow]]\nname = \"call {n}\"\nfrom = \"a\"\nto = \"b\"\nstart = \"{start_ms}ms\"\n\
                 deadline = \"{DEADLINE_MS}ms\"\n"
            );
        }
        // All these calls use one path.
        let _ = write!(
            text,
            "\n[[flow]]\nname = \"udp\"\nfrom = \"a\"\nto = \"b\"\ndirect = true\npath = \"{udp}\"\n\
             count = {}\ndeadline = \"{DEADLINE_MS}ms\"\n",
            self.calls.count
        );
    }

    fn add_faults(&self, text: &mut String, (a, b): (String, String), seed: u64) {
        let Some((every_ms, for_ms)) = self.trouble.rhythm() else {
            return;
        };
        let at_ms = self.first_ms(seed, every_ms);
        let mut fault = |at_ms: u64, words: &str| {
            if Duration::from_millis(at_ms) <= Duration::from_secs(u64::from(self.seconds)) {
                let _ = write!(
                    text,
                    "\n[[fault]]\nat = \"{at_ms}ms\"\nevery = \"{every_ms}ms\"\n{words}"
                );
            }
        };
        let stall =
            |node: &str| format!("kind = \"stall\"\nnode = \"{node}\"\nfor = \"{for_ms}ms\"\n");
        match self.trouble {
            Trouble::Nothing => {}
            Trouble::RelayStalls { .. } => fault(at_ms, &stall("c1")),
            Trouble::SenderStalls { .. } => fault(at_ms, &stall("a")),
            Trouble::ReceiverStalls { .. } => fault(at_ms, &stall("b")),
            Trouble::Outage { .. } => {
                let mut places = vec![format!("a = \"{a}\"\nb = \"{b}\"\n")];
                if self.udp_suffers {
                    places.push("flow = \"udp\"\n".to_owned());
                }
                for place in places {
                    fault(at_ms, &format!("kind = \"link-down\"\n{place}"));
                    let up = at_ms + u64::from(for_ms);
                    fault(up, &format!("kind = \"link-up\"\n{place}"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{FaultKind, Scenario};

    #[test]
    fn udp_takes_the_first_way_in_one_piece_and_suffers_its_outages() {
        let trouble = Trouble::Outage {
            every_ms: 10_000,
            for_ms: 700,
        };
        let way = Way {
            links: 2,
            path: Path::new(20, 1.0),
        };
        let scene = Scene::link(Path::new(20, 1.0), trouble, 60).over(vec![way; 2]);
        let text = scene.text("scene", "modern", 7, false);
        let scenario = Scenario::parse("scene", &text).unwrap();
        assert_eq!((scenario.nodes.len(), scenario.links.len()), (4, 4));
        assert!(text.contains("delay=40ms loss=1.990000%"), "{text}");
        let downs = |kind: &FaultKind| matches!(kind, FaultKind::Down(_));
        let downs = scenario.faults.iter().filter(|f| downs(&f.kind)).count();
        assert_eq!(downs, 2 * scene.troubles_ms(7).len());
        assert!(scene.has_another_way());
    }

    #[test]
    fn a_stalled_end_has_no_way_around_it() {
        let trouble = Trouble::ReceiverStalls {
            every_ms: 10_000,
            for_ms: 800,
        };
        let way = Way::link(Path::new(20, 1.0));
        let scene = Scene::link(way.path, trouble, 30).over(vec![way, Way { links: 2, ..way }]);
        assert!(!scene.has_another_way());
        assert!(Scenario::parse("scene", &scene.text("scene", "paper", 3, true)).is_ok());
    }
}
