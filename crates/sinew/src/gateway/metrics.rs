//! The metrics of a gateway for Prometheus.

use super::exchange::Far;
use super::reach::{Expected, Reached};
use super::record;
use gateway::media::SideReport;
use gateway::sip::{Gateway, Record};
use host::metrics::{Page, Source};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use voice::media::Drop;

/// The numbers of a running gateway.
pub(super) struct Numbers(pub(super) Arc<Gateway>, pub(super) Far, pub(super) Reached);

impl Source for Numbers {
    fn metrics(&self) -> Result<String, String> {
        let mut page = Page::default();
        counters(&mut page, &record::counters(&self.0));
        drops(&mut page, &self.0);
        calls(&mut page, &self.0.calls());
        let reached = self.2.lock().unwrap_or_else(PoisonError::into_inner);
        destinations(&mut page, &reached);
        Ok(page.into_text())
    }

    fn status(&self) -> Result<String, String> {
        let calls: Vec<Value> = self
            .0
            .calls()
            .iter()
            .map(|call| record::json(call, &self.1))
            .collect();
        let counters = record::counters(&self.0);
        Ok(json!({"calls": calls, "counters": counters}).to_string())
    }
}

/// Key, whether the number is a counter, and its help text.
const COUNTERS: [(&str, bool, &str); 21] = [
    ("calls", false, "Calls whose media passes now."),
    ("answered", true, "Calls answered."),
    ("ended", true, "Calls ended."),
    ("rejected", true, "INVITEs that the gateway itself refused."),
    (
        "not_allowed",
        true,
        "Requests from addresses that may not use the gateway.",
    ),
    (
        "forged",
        true,
        "Requests within a call from elsewhere than its neighbours.",
    ),
    (
        "too_many_hops",
        true,
        "Requests that had been passed on too often.",
    ),
    (
        "overload",
        true,
        "Requests refused because there was no room for them, and TCP connections closed for this reason.",
    ),
    (
        "flood",
        true,
        "Messages dropped because their source sends too many.",
    ),
    (
        "nonsense",
        true,
        "Datagrams that are not SIP, and TCP connections closed because of such bytes.",
    ),
    (
        "bad_answers",
        true,
        "Answers whose description the gateway could not change.",
    ),
    (
        "unproven",
        true,
        "Answers not repeated to an address that has not shown that it hears them.",
    ),
    (
        "unread",
        true,
        "TCP connections closed because the peer did not read.",
    ),
    ("expired", true, "Calls that ended without a BYE."),
    (
        "nodes_lost",
        true,
        "Calls that ended because a node was lost.",
    ),
    ("udp_ports_free", false, "Media ports that are free."),
    (
        "virtual_ports_free",
        false,
        "Virtual media ports that are free.",
    ),
    ("packets_from_udp", true, "Media packets from phones."),
    (
        "packets_from_overlay",
        true,
        "Media packets from the overlay.",
    ),
    ("packets_to_udp", true, "Media packets to phones."),
    ("packets_to_overlay", true, "Media packets to the overlay."),
];

fn counters(page: &mut Page, values: &Value) {
    for (key, grows, help) in COUNTERS {
        match grows {
            true => page.counter(&format!("sinew_sip_{key}_total"), help, &values[key]),
            false => page.gauge(&format!("sinew_sip_{key}"), help, &values[key]),
        }
    }
}

fn drops(page: &mut Page, gateway: &Gateway) {
    let name = "sinew_sip_media_dropped_total";
    page.family(name, "counter", "Media packets that did not go on.");
    for (reason, count) in gateway.media().drops.iter() {
        page.sample(&[("reason", &Drop::label(reason))], count);
    }
}

const MISSED: &str = "sinew_sip_destination_missed_ratio";
const UNPROTECTED: &str = "sinew_sip_destination_unprotected";

/// Writes the share of packets that calls to each destination are expected to miss.
fn destinations(page: &mut Page, reached: &BTreeMap<String, Expected>) {
    let help = "Share of a call's packets that are expected to miss the deadline.";
    page.family(MISSED, "gauge", help);
    for (to, expected) in reached {
        page.sample(&[("to", to)], expected.missed);
    }
    let help = "1 if the deadline cannot be protected over the present path.";
    page.family(UNPROTECTED, "gauge", help);
    for (to, expected) in reached {
        page.sample(&[("to", to)], u8::from(expected.is_short));
    }
}

/// A number of one direction of a call, if it is known.
type Number = fn(&SideReport) -> Option<f64>;

const NUMBERS: [(&str, &str, Number); 5] = [
    (
        "loss_before_recovery_ratio",
        "Share of packets that some hop has lost.",
        |side| Some(side.quality.counts.loss_before_recovery()),
    ),
    ("loss_ratio", "Share of packets that stayed lost.", |side| {
        Some(side.quality.counts.loss())
    }),
    (
        "late_ratio",
        "Share of packets that came after the deadline, or after they were to be played.",
        |side| {
            let counts = &side.quality.counts;
            let expected = counts.expected.max(1) as f64;
            Some(counts.late as f64 / expected)
        },
    ),
    ("jitter_seconds", "Interarrival jitter.", |side| {
        Some(side.quality.jitter.as_secs_f64())
    }),
    ("mos", "Mean opinion score by the E-model.", |side| {
        side.quality.mos()
    }),
];

/// Writes the numbers of calls' streams, for each side that sends.
fn calls(page: &mut Page, calls: &[Record]) {
    for (name, help, number) in NUMBERS {
        page.family(&format!("sinew_call_{name}"), "gauge", help);
        for call in calls {
            let streams = call.report.iter().flat_map(|report| &report.streams);
            for stream in streams {
                for (from, side) in ["caller", "callee"].into_iter().zip(&stream.sides) {
                    let Some(value) = number(side) else { continue };
                    let id = format!("{:x}", call.number);
                    let labels: [(&str, &dyn std::fmt::Display); 3] =
                        [("call", &id), ("media", &stream.media), ("from", &from)];
                    page.sample(&labels, value);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_that_cannot_be_protected_is_in_the_metrics() {
        let expected = Expected {
            missed: 0.05,
            is_short: true,
        };
        let mut page = Page::default();
        destinations(&mut page, &[("nyc".to_owned(), expected)].into());
        let text = page.into_text();
        for line in [
            "sinew_sip_destination_missed_ratio{to=\"nyc\"} 0.05",
            "sinew_sip_destination_unprotected{to=\"nyc\"} 1",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }

    #[test]
    fn every_number_is_in_the_manual() {
        let manual = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/gateway-sip.md");
        let manual = std::fs::read_to_string(manual).unwrap();
        let counters = COUNTERS.iter().map(|(key, grows, _)| match grows {
            true => format!("`sinew_sip_{key}_total`"),
            false => format!("`sinew_sip_{key}`"),
        });
        let numbers = NUMBERS
            .iter()
            .map(|(name, ..)| format!("`sinew_call_{name}`"));
        let destinations = [MISSED, UNPROTECTED].map(|name| format!("`{name}{{to}}`"));
        let all = counters.chain(numbers).chain(destinations);
        let missing: Vec<String> = all.filter(|name| !manual.contains(name)).collect();
        assert_eq!(missing, Vec::<String>::new());
    }
}
