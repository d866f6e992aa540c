//! Parts of a simulation that a program decides instead of the scenario: when a flow sends, what a link loses, and what
//! is observed.
//!
//! ```text
//!   Custom::of(&scenario)                    simulation
//!     .source("a-b", …)   ◀── next packet? ── each stream of the flow
//!     .loss_rule("a", "b", …) ◀── lost? ───── each packet that leaves the queue of that direction
//!     .look(every, …)     ◀── Moment ──────── so often, in the scenario's time
//! ```
//! Equal seeds give equal results only if these parts do. The simulator calls them while the engines wait, so a slow
//! part slows the simulation.

use super::meter::Meter;
use super::record::LinkRecord;
use super::table::listed;
use super::{Carrier, PACKET_BYTES_MIN, Scenario};
use base::Duration;
use overlay::node::MAX_PAYLOAD;
use serde::Serialize;
use tools::spelling::nearest;

/// A packet that a source sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sending {
    /// The time after the flow's start. A time earlier than that of the previous packet means: together with that
    /// packet.
    pub at: Duration,
    /// Bytes of payload; `None` for the flow's own size. An impossible size becomes the nearest possible one.
    pub bytes: Option<usize>,
}

/// The packets of one stream, one after the other; `None` at the end.
pub type PacketSource = Box<dyn FnMut() -> Option<Sending> + Send>;

/// Decides whether a packet is lost. The arguments are the time at which it was handed to the path, in seconds of the
/// scenario's time, which is negative while the network settles; and its bytes, with all headers except those of UDP
/// and IP.
pub type LossRule = Box<dyn FnMut(f64, usize) -> bool + Send>;

/// Observes the simulation at a moment.
pub type Look = Box<dyn FnMut(&Moment) + Send>;

/// The state of the simulation at a moment.
#[derive(Clone, Debug, Serialize)]
pub struct Moment {
    /// The moment, in seconds of the scenario's time.
    pub at_s: f64,
    /// Each link in each direction, in the form of the end of a record.
    pub links: Vec<LinkRecord>,
    /// The counts of each flow so far.
    pub flows: Vec<FlowSoFar>,
}

/// What has happened to a flow's packets so far. Packets under way have been sent and have not arrived.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowSoFar {
    /// Its name.
    pub name: String,
    /// Judged packets that were sent; for a group, counted for each receiver.
    pub sent: u64,
    /// Packets that arrived.
    pub received: u64,
    /// Packets that arrived within the deadline.
    pub in_time: u64,
    /// For bulk: bytes that arrived.
    pub bulk_bytes: u64,
}

impl FlowSoFar {
    pub(super) fn of(name: String) -> FlowSoFar {
        FlowSoFar {
            name,
            sent: 0,
            received: 0,
            in_time: 0,
            bulk_bytes: 0,
        }
    }

    /// Adds the counts of a meter.
    pub(super) fn add(&mut self, meter: &Meter) {
        let [sent, received, in_time] = meter.so_far();
        self.sent += sent;
        self.received += received;
        self.in_time += in_time;
        self.bulk_bytes += meter.bulk_bytes;
    }
}

/// Why a program cannot decide a part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadCustom(String);

/// The parts of a simulation that a program decides.
pub struct Custom<'s> {
    scenario: &'s Scenario,
    /// With the indices of flow and stream.
    pub(super) sources: Vec<((usize, usize), PacketSource)>,
    /// With the indices of both nodes.
    pub(super) loss_rules: Vec<((usize, usize), LossRule)>,
    pub(super) look: Option<(Duration, Look)>,
    /// Whether the result of each packet is kept.
    pub(super) keeps_packets: bool,
}

impl<'s> Custom<'s> {
    /// Creates an empty set: everything is as in the scenario.
    #[must_use]
    pub fn of(scenario: &'s Scenario) -> Custom<'s> {
        Custom {
            scenario,
            sources: Vec::new(),
            loss_rules: Vec::new(),
            look: None,
            keeps_packets: false,
        }
    }

    /// Lets the streams of a flow send the packets of `source`, which gets the number of the stream.
    ///
    /// # Errors
    /// [`BadCustom`] if there is no such flow, or it does not send single packets.
    pub fn source(
        &mut self,
        flow: &str,
        mut source: impl FnMut(usize) -> PacketSource,
    ) -> Result<(), BadCustom> {
        let names = self.scenario.flows.iter().map(|flow| flow.name.as_str());
        let place = place("flow", flow, &names.collect::<Vec<_>>())?;
        let meant = &self.scenario.flows[place];
        if meant.is_bulk || matches!(meant.carrier, Carrier::Tcp(..)) {
            return Err(BadCustom(format!(
                "flow `{flow}` is bulk or TCP: only packets and messages of the overlay or of UDP can be chosen"
            )));
        }
        let streams = 0..meant.count;
        self.sources
            .extend(streams.map(|n| ((place, n), source(n))));
        Ok(())
    }

    /// Lets `rule` decide the losses in the direction of a link from one node to another, instead of the scenario.
    /// Rate, queue, delay and faults stay those of the scenario.
    ///
    /// # Errors
    /// [`BadCustom`] if there is no such link.
    pub fn loss_rule(&mut self, from: &str, to: &str, rule: LossRule) -> Result<(), BadCustom> {
        let nodes = self.scenario.nodes.iter().map(|node| node.name.as_str());
        let nodes: Vec<&str> = nodes.collect();
        let ends = (place("node", from, &nodes)?, place("node", to, &nodes)?);
        let mut links = self.scenario.links.iter();
        if !links.any(|link| (link.a, link.b) == ends || (link.b, link.a) == ends) {
            return Err(BadCustom(format!(
                "there is no link between `{from}` and `{to}`"
            )));
        }
        self.loss_rules.push((ends, rule));
        Ok(())
    }

    /// Calls `look` with the state of the simulation every `every`, first after that time, up to the end. The calls are
    /// some milliseconds late, so that they change nothing.
    ///
    /// # Errors
    /// [`BadCustom`] if the interval is longer than the scenario, or shorter than a millisecond.
    pub fn look(&mut self, every: Duration, look: Look) -> Result<(), BadCustom> {
        if every < Duration::from_millis(1) || every > self.scenario.duration {
            return Err(BadCustom(format!(
                "a look every {} s: expected a time from 0.001 s to the scenario's {} s",
                every.as_secs_f64(),
                self.scenario.duration.as_secs_f64()
            )));
        }
        self.look = Some((every, look));
        Ok(())
    }

    /// Keeps the result of each packet: 16 bytes each.
    pub fn keep_packets(&mut self) {
        self.keeps_packets = true;
    }
}

/// Returns the index of a name, or an error with the nearest name.
fn place(what: &str, name: &str, known: &[&str]) -> Result<usize, BadCustom> {
    let found = known.iter().position(|one| *one == name);
    found.ok_or_else(|| {
        BadCustom(match nearest(name, known) {
            Some(meant) => format!("no {what} `{name}`; did you mean `{meant}`?"),
            None => format!("no {what} `{name}`; there are {}", listed(known)),
        })
    })
}

/// The times of a stream's packets.
pub(super) enum Moments {
    /// Drawn by the flow's pattern.
    Drawn(sim::traffic::Source),
    /// Chosen by a program's source.
    Chosen {
        source: PacketSource,
        next: Option<Sending>,
    },
}

impl Moments {
    /// Returns the times of a program's source.
    pub(super) fn chosen(mut source: PacketSource) -> Moments {
        Moments::Chosen {
            next: source().map(Sending::possible),
            source,
        }
    }

    /// Returns the next packet; `None` if there is none.
    pub(super) fn peek(&self) -> Option<Sending> {
        match self {
            Moments::Drawn(source) => Some(Sending {
                at: source.peek(),
                bytes: None,
            }),
            Moments::Chosen { next, .. } => *next,
        }
    }

    /// Advances to the packet after it.
    pub(super) fn advance(&mut self) {
        match self {
            Moments::Drawn(source) => drop(source.next()),
            Moments::Chosen { source, next } => {
                let Some(last) = *next else { return };
                *next = source().map(|sending| Sending {
                    at: sending.at.max(last.at),
                    ..sending.possible()
                });
            }
        }
    }
}

impl Sending {
    /// Limits the size to one that a packet can have.
    fn possible(self) -> Sending {
        let fit = |bytes: usize| bytes.clamp(PACKET_BYTES_MIN, MAX_PAYLOAD);
        Sending {
            bytes: self.bytes.map(fit),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Record, record};
    use std::sync::{Arc, Mutex};

    const PAIR: &str = "[scenario]\nname = 'pair'\nduration = '2s'\n\
        [[node]]\nname = 'a'\n[[node]]\nname = 'b'\n\
        [[link]]\na = 'a'\nb = 'b'\npath = 'delay=10ms'\n\
        [[flow]]\nfrom = 'a'\nto = 'b'\n[[flow]]\nname = 'tcp'\nfrom = 'a'\nto = 'b'\ntcp = 'cubic'\n\
        path = 'delay=10ms rate=10mbit'\npattern = 'bulk'\n";

    fn pair() -> Scenario {
        Scenario::parse("pair.toml", PAIR).unwrap()
    }

    fn run<'s>(scenario: &'s Scenario, choose: impl FnOnce(&mut Custom<'s>)) -> Record {
        let mut custom = Custom::of(scenario);
        choose(&mut custom);
        record(scenario, 7, custom, |_| true).unwrap()
    }

    #[test]
    fn a_source_says_when_and_how_much_and_cannot_stop_time() {
        let scenario = pair();
        let chosen = run(&scenario, |custom| {
            custom.keep_packets();
            let source = |_| -> PacketSource {
                // The times go back, and the sizes are impossible.
                let mut sendings = [(500, 0), (300, 1 << 20), (700, 100)].into_iter();
                Box::new(move || {
                    let (ms, bytes) = sendings.next()?;
                    Some(Sending {
                        at: Duration::from_millis(ms),
                        bytes: Some(bytes),
                    })
                })
            };
            custom.source("a-b", source).unwrap();
        });
        let [packets] = chosen.packets.as_slice() else {
            panic!("{:?}", chosen.packets)
        };
        assert_eq!(
            (&*packets.flow, packets.stream, &*packets.receiver),
            ("a-b", 0, "b")
        );
        assert_eq!(packets.sent_s, [0.5, 0.5, 0.7]);
        assert_eq!(packets.delay_ms, [Some(10.0); 3]);
        let endless = run(&scenario, |custom| {
            let now = Sending {
                at: Duration::ZERO,
                bytes: None,
            };
            let mut left = 3_000;
            let source = move || {
                left -= 1;
                (left > 0).then_some(now)
            };
            let source = |_| -> PacketSource { Box::new(source) };
            custom.source("a-b", source).unwrap();
        });
        assert_eq!(endless.report.flows[0].packets.sent, 2_999);
    }

    #[test]
    fn a_rule_loses_in_its_direction_and_knows_time_and_size() {
        let scenario = pair();
        let plain = run(&scenario, |_| {});
        let lost = |from: &str, to: &str| {
            run(&scenario, |custom| {
                // The rule matches all real-time packets and their repairs in the second second, but no hello.
                let rule = |at_s: f64, bytes: usize| at_s >= 1.0 && bytes > 150;
                custom.loss_rule(from, to, Box::new(rule)).unwrap();
            })
        };
        let there = &lost("a", "b").report.flows[0].packets;
        assert_eq!((there.sent, there.lost), (100, 50));
        let back = lost("b", "a").report.flows[0].packets.clone();
        assert_eq!(back.lost, plain.report.flows[0].packets.lost);
    }

    #[test]
    fn moments_come_at_their_times_and_change_nothing() {
        let scenario = pair();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let looked = run(&scenario, |custom| {
            let seen = Arc::clone(&seen);
            let look = move |moment: &Moment| seen.lock().unwrap().push(moment.clone());
            custom
                .look(Duration::from_millis(250), Box::new(look))
                .unwrap();
        });
        let seen = seen.lock().unwrap();
        let times: Vec<f64> = seen.iter().map(|moment| moment.at_s).collect();
        assert_eq!(times, [0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0]);
        let call = &seen[3].flows[0];
        assert_eq!((call.sent, call.received), (50, 50), "{call:?}");
        assert!(seen[7].flows[1].bulk_bytes > seen[3].flows[1].bulk_bytes);
        assert_eq!(seen[7].links.len(), 2);
        assert_eq!(looked.report.flows, run(&scenario, |_| {}).report.flows);
    }

    #[test]
    fn what_is_not_there_is_answered() {
        let scenario = pair();
        let mut custom = Custom::of(&scenario);
        let silent = |_| -> PacketSource { Box::new(|| None) };
        let rule = || -> LossRule { Box::new(|_, _| false) };
        let nothing = || -> Look { Box::new(|_| {}) };
        for (told, word) in [
            (custom.source("a-c", silent), "did you mean `a-b`?"),
            (custom.source("tcp", silent), "bulk or TCP"),
            (
                custom.loss_rule("a", "elsewhere", rule()),
                "there are `a` and `b`",
            ),
            (custom.loss_rule("a", "a", rule()), "no link between"),
            (custom.look(Duration::ZERO, nothing()), "from 0.001 s"),
        ] {
            let error = told.unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
