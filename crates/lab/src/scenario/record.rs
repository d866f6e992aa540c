//! A simulation with all details that a program may examine afterwards: the report, the final state of each link, and
//! the events with their times.
//!
//! ```text
//!   record(scenario, seed, custom, go_on) ──▶ Record { report, links, events, packets }
//!                                    └ asked every few milliseconds of simulated time; false ends it
//! ```
//! The report is byte for byte that of `sinew sim run`, unless a program decides a part of the simulation.

use super::{Custom, Report, Scenario, Simulation};
use base::{Duration, NodeAddr};
use overlay::Event;
use serde::Serialize;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The spans between which a simulation pauses, as in `sinew sim run`.
const SPAN: Duration = Duration::from_secs(1);
/// Most events that are kept, at 100 bytes each: 20 MB. Further ones are only counted.
const EVENTS_MAX: usize = 200_000;

/// The detailed result of a simulation.
#[derive(Clone, Debug, Serialize)]
pub struct Record {
    /// The report, as from `sinew sim run`.
    pub report: Report,
    /// Each link in each direction, at the end.
    pub links: Vec<LinkRecord>,
    /// The events of links and routes from the scenario's zero on, in order of time.
    pub events: Vec<EventRecord>,
    /// Number of events after the first 200 000, which are not kept.
    pub events_left_out: u64,
    /// How often each kind of event happened, including events that are not kept.
    pub event_counts: BTreeMap<&'static str, u64>,
    /// The result of each packet, if packets were to be kept.
    #[serde(skip)]
    pub packets: Vec<PacketRecord>,
}

/// The packets of one stream at one receiver, in the order of sending. TCP and bulk have no such records.
#[derive(Clone, Debug, PartialEq)]
pub struct PacketRecord {
    /// The flow.
    pub flow: String,
    /// The number of the stream in it.
    pub stream: usize,
    /// The receiving node.
    pub receiver: String,
    /// When each was sent, in seconds of the scenario's time.
    pub sent_s: Vec<f64>,
    /// The one-way delay of each packet in milliseconds; `None` if it never arrived.
    pub delay_ms: Vec<Option<f64>>,
}

/// One direction of a link, as the sending node sees it at the end.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkRecord {
    /// The sending node.
    pub from: String,
    /// The receiving node.
    pub to: String,
    /// `up`, `down` or another state of `sinew links`; `crashed` if the sending node does not run.
    pub state: String,
    /// Round trip in milliseconds; `None` before it was measured.
    pub rtt_ms: Option<f64>,
    /// Share of packets lost in this direction, as its receiver counts, in percent; `None` while the sending node does
    /// not run.
    pub loss_pct: Option<f64>,
    /// Bytes of datagrams that entered the path, from the nodes' start on, without UDP and IP headers.
    pub wire_bytes: u64,
    /// Packets of the real-time lane that were sent for the first time.
    pub originals: u64,
    /// Packets of the real-time lane that were retransmitted.
    pub retransmissions: u64,
    /// Repair packets that were sent without a request.
    pub repairs: u64,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EventRecord {
    /// The time, in seconds of the scenario's time.
    pub at_s: f64,
    /// The node that reports it.
    pub node: String,
    /// `link-up`, `link-down`, `rerouted`, `established`, `refused` or `moved`.
    pub event: &'static str,
    /// The neighbour that it concerns, if there is one.
    pub peer: Option<String>,
    /// The reason, if the node reports one.
    pub why: Option<String>,
}

/// Simulates a scenario to its end. `go_on` gets the completed share, from 0 to 1. If it returns false, the simulation
/// ends without a record.
pub fn record(
    scenario: &Scenario,
    seed: u64,
    custom: Custom<'_>,
    mut go_on: impl FnMut(f64) -> bool,
) -> Option<Record> {
    let kept = Rc::new(RefCell::new((Vec::new(), 0, kinds())));
    let names: BTreeMap<NodeAddr, String> = scenario
        .nodes
        .iter()
        .map(|node| (node.address, node.name.clone()))
        .collect();
    let of_place: Vec<String> = scenario
        .nodes
        .iter()
        .map(|node| node.name.clone())
        .collect();
    let mut simulation = Simulation::new(scenario, seed);
    simulation.customise(custom);
    let keeper = Rc::clone(&kept);
    simulation.watch(move |at, node, event| {
        let Some(event) = event_record(at, &of_place[node], event, &names) else {
            return;
        };
        let (events, left_out, counts) = &mut *keeper.borrow_mut();
        *counts.entry(event.event).or_default() += 1;
        match events.len() < EVENTS_MAX {
            true => events.push(event),
            false => *left_out += 1,
        }
    });
    let mut is_wanted = true;
    while simulation.run_for_while(SPAN, |share| {
        is_wanted = go_on(share);
        is_wanted
    }) && is_wanted
    {}
    if !is_wanted {
        return None;
    }
    let (links, packets) = (simulation.links(), simulation.packets());
    let report = simulation.finish();
    let (events, events_left_out, event_counts) = kept.take();
    Some(Record {
        report,
        links,
        events,
        events_left_out,
        event_counts,
        packets,
    })
}

/// Returns the record of a simulation that has not begun: it has every key, but its numbers have no meaning.
pub(crate) fn blank(scenario: &Scenario) -> Record {
    let simulation = Simulation::new(scenario, scenario.seed);
    Record {
        links: simulation.links(),
        report: simulation.finish(),
        events: Vec::new(),
        events_left_out: 0,
        event_counts: kinds(),
        packets: Vec::new(),
    }
}

/// Returns all kinds of events with a count of zero.
fn kinds() -> BTreeMap<&'static str, u64> {
    let kinds = [
        "link-up",
        "link-down",
        "established",
        "refused",
        "moved",
        "path",
        "rerouted",
    ];
    kinds.map(|kind| (kind, 0)).into()
}

/// Returns the record of an event that a reader wants to see individually; events of single packets are in the report's
/// sums.
fn event_record(
    at: Duration,
    node: &str,
    event: &Event,
    names: &BTreeMap<NodeAddr, String>,
) -> Option<EventRecord> {
    let (event, peer, why) = match event {
        Event::LinkUp { peer } => ("link-up", Some(peer), None),
        Event::LinkDown { peer, why } => ("link-down", Some(peer), Some((*why).to_owned())),
        Event::Established { peer, .. } => ("established", Some(peer), None),
        Event::Refused { why, .. } => ("refused", None, Some(format!("{why:?}"))),
        Event::Moved { peer, .. } => ("moved", Some(peer), None),
        Event::PathChanged { peer, why, .. } => ("path", Some(peer), Some(why.to_string())),
        Event::RoutesChanged { rerouted: true, .. } => ("rerouted", None, None),
        _ => return None,
    };
    Some(EventRecord {
        at_s: at.as_secs_f64(),
        node: node.to_owned(),
        event,
        peer: peer.map(|peer| names.get(peer).cloned().unwrap_or_else(|| peer.to_string())),
        why,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAIR: &str = r#"
        [scenario]
        name = "pair"
        duration = "3s"
        [[node]]
        name = "a"
        [[node]]
        name = "b"
        [[link]]
        a = "a"
        b = "b"
        path = "delay=10ms loss=5%"
        [[flow]]
        from = "a"
        to = "b"
        [[fault]]
        at = "1s"
        kind = "link-down"
        a = "a"
        b = "b"
    "#;

    #[test]
    fn a_record_has_the_report_of_a_plain_run_and_what_happened() {
        let scenario = Scenario::parse("pair", PAIR).unwrap();
        let mut shares = Vec::new();
        let record = record(&scenario, 7, Custom::of(&scenario), |share| {
            shares.push(share);
            true
        });
        let record = record.unwrap();
        assert!(shares.is_sorted() && shares.len() > 300);
        let mut plain = Simulation::new(&scenario, 7);
        while plain.run_for(SPAN) {}
        assert_eq!(record.report, plain.finish());
        let down = record
            .events
            .iter()
            .find(|event| event.event == "link-down");
        let down = down.unwrap();
        assert!(down.at_s > 1.0 && down.peer.is_some() && down.why.is_some());
        assert_eq!(record.links.len(), 2);
        let there = &record.links[0];
        assert_eq!((&*there.from, &*there.to), ("a", "b"));
        assert!(
            there.wire_bytes > 50 * 160 && there.originals > 40,
            "{there:?}"
        );
    }

    #[test]
    fn it_ends_as_soon_as_it_is_not_wanted() {
        let scenario = Scenario::parse("pair", PAIR).unwrap();
        let mut left = 5;
        let ended = record(&scenario, 7, Custom::of(&scenario), |_| {
            left -= 1;
            left > 0
        });
        assert!(ended.is_none() && left == 0);
    }
}
