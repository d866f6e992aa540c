//! Parts of a simulation that a program decides instead of the scenario: when a flow sends, what a link loses,
//! and what is looked at on the way.
//!
//! ```text
//!   Custom::of(&scenario)                    simulation
//!     .source("a-b", …)   ◀── next packet? ── each stream of the flow
//!     .loss_rule("a", "b", …) ◀── lost? ───── each packet that leaves the queue of that direction
//!     .look(every, …)     ◀── Moment ──────── so often, in the scenario's time
//! ```
//! Equal seeds give equal results only if these parts do. They are called while the engines wait, so a slow one makes
//! a slow simulation.

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
    /// When, after the flow's start. Earlier than the packet before it means together with that one.
    pub at: Duration,
    /// Bytes of payload; none for the flow's own size. Sizes that a packet cannot have become the nearest possible.
    pub bytes: Option<usize>,
}

/// The packets of one stream, one after the other; none when there are no more.
pub type PacketSource = Box<dyn FnMut() -> Option<Sending> + Send>;

/// Whether a packet is lost: when it was handed to the path, in seconds of the scenario's time, which is negative while
/// the network settles; and its bytes, with all headers but those of UDP and IP.
pub type LossRule = Box<dyn FnMut(f64, usize) -> bool + Send>;

/// Is shown the simulation at a moment.
pub type Look = Box<dyn FnMut(&Moment) + Send>;

/// The simulation at a moment.
#[derive(Clone, Debug, Serialize)]
pub struct Moment {
    /// When, in seconds of the scenario's time.
    pub at_s: f64,
    /// Each link in each direction, as at the end of a record.
    pub links: Vec<LinkRecord>,
    /// Each flow so far.
    pub flows: Vec<FlowSoFar>,
}

/// What has become of a flow's packets so far. Those under way have been sent and have not come.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowSoFar {
    /// Its name.
    pub name: String,
    /// Packets sent that are judged; of a group, for each receiver.
    pub sent: u64,
    /// Packets that came.
    pub received: u64,
    /// Packets that came within the deadline.
    pub in_time: u64,
    /// Of bulk: bytes that came.
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

    /// With what a meter has counted.
    pub(super) fn add(&mut self, meter: &Meter) {
        let [sent, received, in_time] = meter.so_far();
        self.sent += sent;
        self.received += received;
        self.in_time += in_time;
        self.bulk_bytes += meter.bulk_bytes;
    }
}

/// Why a part cannot be decided by a program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadCustom(String);

/// What a program decides of a simulation.
pub struct Custom<'s> {
    scenario: &'s Scenario,
    /// With the places of flow and stream.
    pub(super) sources: Vec<((usize, usize), PacketSource)>,
    /// With the places of both nodes.
    pub(super) loss_rules: Vec<((usize, usize), LossRule)>,
    pub(super) look: Option<(Duration, Look)>,
    /// Whether each packet is kept.
    pub(super) keeps_packets: bool,
}

impl<'s> Custom<'s> {
    /// Nothing yet: everything is as the scenario has it.
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

    /// The streams of a flow send what `source` says, which is given the number of the stream.
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

    /// The direction of a link from one node to another loses what `rule` says, instead of what the scenario says. Rate,
    /// queue, delay and faults stay the scenario's.
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

    /// Shows `look` the simulation `every` so often, first after that time, up to the end; some milliseconds late, so that
    /// looks change nothing.
    ///
    /// # Errors
    /// [`BadCustom`] if that is never, or more often than each millisecond.
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

    /// Keeps what became of each packet: 16 bytes for each.
    pub fn keep_packets(&mut self) {
        self.keeps_packets = true;
    }
}

/// The place of a name, or an error with the nearest one.
fn place(what: &str, name: &str, known: &[&str]) -> Result<usize, BadCustom> {
    let found = known.iter().position(|one| *one == name);
    found.ok_or_else(|| {
        BadCustom(match nearest(name, known) {
            Some(meant) => format!("no {what} `{name}`; did you mean `{meant}`?"),
            None => format!("no {what} `{name}`; there are {}", listed(known)),
        })
    })
}

/// When the packets of a stream are sent.
pub(super) enum Moments {
    /// By the flow's pattern.
    Drawn(sim::traffic::Source),
    /// By a program's source.
    Chosen {
        source: PacketSource,
        next: Option<Sending>,
    },
}

impl Moments {
    /// Those of a program's source.
    pub(super) fn chosen(mut source: PacketSource) -> Moments {
        Moments::Chosen {
            next: source().map(Sending::possible),
            source,
        }
    }

    /// The next packet; none if there is none.
    pub(super) fn peek(&self) -> Option<Sending> {
        match self {
            Moments::Drawn(source) => Some(Sending {
                at: source.peek(),
                bytes: None,
            }),
            Moments::Chosen { next, .. } => *next,
        }
    }

    /// Goes on to the one behind it.
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
    /// Of a size that a packet can have.
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
                // Back in time, and of impossible sizes.
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
                // All real-time packets and their repairs in the second second, but no hello.
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
