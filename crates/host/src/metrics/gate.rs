//! The metrics of the gate for clients on other hosts. No label names a client, because the number of clients is
//! unbounded.

use super::page::Page;
use crate::status::GateStatus;

pub(super) fn gate(page: &mut Page, gate: &GateStatus) {
    page.gauge(
        "sinew_gate_connections",
        "TLS connections of clients on other hosts.",
        gate.connections,
    );
    page.counter(
        "sinew_gate_welcomed_total",
        "TLS connections of clients on other hosts that were let in.",
        gate.welcomed,
    );
    page.family(
        "sinew_gate_turned_away_total",
        "counter",
        "TLS connections at the gate of clients on other hosts that were not let in, by reason.",
    );
    for (reason, count) in &gate.turned_away {
        page.sample(&[("reason", reason)], count);
    }
    page.gauge(
        "sinew_gate_ways",
        "Sockets of clients on other hosts that have asked for a way by UDP.",
        gate.ways,
    );
    page.family(
        "sinew_gate_datagrams_total",
        "counter",
        "Datagrams of sockets that have asked for a way by UDP: from clients by UDP, to clients by UDP and by TLS.",
    );
    for (direction, way, count) in [
        ("in", "udp", gate.received),
        ("out", "udp", gate.sent),
        ("out", "tls", gate.sent_by_tls),
    ] {
        page.sample(&[("direction", &direction), ("way", &way)], count);
    }
    page.family(
        "sinew_gate_dropped_datagrams_total",
        "counter",
        "Datagrams that came to the gate by UDP and were not used, by reason.",
    );
    for (reason, count) in &gate.drops {
        page.sample(&[("reason", reason)], count);
    }
}
