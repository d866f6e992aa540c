//! The node's status in the text format of Prometheus.
//!
//! A family is announced once by `# HELP` and `# TYPE`, and its samples follow without another family between them. The
//! names of metrics end with their unit, and with `_total` for counters.

use super::page::Page;
use crate::status::Status;
use overlay::snapshot::{LinkStatus, PathStatus};
use std::fmt::Display;

/// Renders the whole page.
pub fn render(status: &Status) -> String {
    let mut page = Page::default();
    node(&mut page, status);
    totals(&mut page, status);
    reasons(&mut page, status);
    links(&mut page, &status.snapshot.links);
    super::groups::groups(&mut page, &status.groups);
    super::groups::bridges(&mut page, &status.bridges);
    if let Some(bulk) = &status.bulk {
        super::bulk::bulk(&mut page, bulk);
    }
    if let Some(gate) = &status.gate {
        super::gate::gate(&mut page, gate);
    }
    sockets(&mut page, status);
    page.into_text()
}

fn node(page: &mut Page, status: &Status) {
    let Status { snapshot, host, .. } = status;
    page.family("sinew_info", "gauge", "What this node is; always 1.")
        .sample(
            &[
                ("name", &snapshot.name),
                ("address", &snapshot.address),
                ("version", &host.version),
                ("profile", &snapshot.profile),
            ],
            1,
        );
    page.gauge(
        "sinew_uptime_seconds",
        "Time since the node started.",
        snapshot.uptime_s,
    );
    page.gauge(
        "sinew_certificate_expiry_timestamp_seconds",
        "The last second in which the node's certificate counts, since 1970.",
        snapshot.certificate_not_after_s,
    );
    if let Some(issuer) = status.issuer {
        page.gauge(
            "sinew_delegation_expiry_timestamp_seconds",
            "The last second in which the node may certify others, since 1970.",
            issuer.delegation_not_after_s,
        );
    }
    page.gauge(
        "sinew_root",
        "How often the root key of the network was replaced.",
        snapshot.root,
    );
    page.gauge(
        "sinew_certificate_root",
        "The number of the root key under which the node's certificate was signed.",
        snapshot.certificate_root.unwrap_or_default(),
    );
    page.gauge(
        "sinew_revocations_version",
        "Version of the list of revoked certificates.",
        snapshot.revocations_version,
    );
    page.gauge(
        "sinew_database_nodes",
        "Nodes in the link-state database.",
        snapshot.database_nodes,
    );
    if let Some(finding) = snapshot.finding {
        let nodes = page.family(
            "sinew_finding_nodes",
            "gauge",
            "Nodes that offer themselves as neighbours, those that were measured, and those to which a link is kept.",
        );
        nodes.sample(&[("state", &"offered")], finding.offers);
        nodes.sample(&[("state", &"measured")], finding.measured);
        nodes.sample(&[("state", &"kept")], finding.kept);
        page.counter(
            "sinew_finding_trials_total",
            "Links that were made to measure a node.",
            finding.trials,
        );
        page.counter(
            "sinew_finding_dropped_total",
            "Links that were ended because neither end kept them.",
            finding.dropped,
        );
    }
    let hybrid = page.family(
        "sinew_sessions_hybrid",
        "gauge",
        "Sessions whose keys a quantum computer does not open.",
    );
    let links = snapshot.links.iter().filter(|link| link.post_quantum);
    hybrid.sample(&[("between", &"neighbours")], links.count());
    let ends = snapshot.ends.iter().filter(|end| end.post_quantum);
    hybrid.sample(&[("between", &"ends")], ends.count());
    let with_session = snapshot
        .ends
        .iter()
        .filter(|end| end.session_age_s.is_some());
    page.gauge(
        "sinew_end_sessions",
        "Nodes with which there are keys to seal packets from end to end.",
        with_session.count(),
    );
    let flooders = page.family(
        "sinew_origin_records_dropped_total",
        "counter",
        "Records of a node that were dropped because it renews them too often.",
    );
    for flooder in &snapshot.flooders {
        flooders.sample(&[("origin", &flooder.node)], flooder.dropped);
    }
    let suspects = page.family(
        "sinew_suspects",
        "gauge",
        "The share that was lost on paths to a node with this relay, or link from it, that look well.",
    );
    for status in &snapshot.suspects {
        let suspect = &status.suspect;
        let link_to = suspect.link_to.as_deref().unwrap_or_default();
        suspects.sample(
            &[
                ("node", &suspect.node),
                ("link_to", &link_to),
                ("path_to", &status.path_to),
            ],
            suspect.lost,
        );
    }
    page.counter(
        "sinew_paths_bad_total",
        "How often a path delivered less than its links say.",
        snapshot.paths_bad,
    );
    let in_the_open = snapshot.ends.iter().filter(|end| !end.seals);
    page.gauge(
        "sinew_end_unsealed_nodes",
        "Nodes that do not seal from end to end.",
        in_the_open.count(),
    );
    page.gauge("sinew_clients", "Connected clients.", host.clients);
    page.gauge("sinew_sockets", "Open overlay sockets.", snapshot.sockets);
    page.gauge(
        "sinew_flows",
        "Flows that the status lists.",
        snapshot.flows.len(),
    );
    page.gauge(
        "sinew_routes",
        "Routes, per destination and metric.",
        snapshot.routes.len(),
    );
}

fn totals(page: &mut Page, status: &Status) {
    let c = &status.counters;
    for (name, help, value) in [
        (
            "forwarded_packets",
            "Packets sent on for others.",
            c.forwarded_packets,
        ),
        (
            "forwarded_bytes",
            "Bytes of packets sent on, headers included.",
            c.forwarded_bytes,
        ),
        (
            "originated_packets",
            "Packets of this node's clients sent.",
            c.originated_packets,
        ),
        (
            "originated_bytes",
            "Their bytes, headers included.",
            c.originated_bytes,
        ),
        (
            "delivered_packets",
            "Packets handed to clients.",
            c.delivered_packets,
        ),
        ("delivered_bytes", "Their payload bytes.", c.delivered_bytes),
        (
            "requested_packets",
            "Lost packets asked for again.",
            c.requested_packets,
        ),
        (
            "retransmitted_packets",
            "Packets sent again on request.",
            c.retransmitted_packets,
        ),
        (
            "retransmitted_bytes",
            "Their bytes, headers included.",
            c.retransmitted_bytes,
        ),
        (
            "repair_packets",
            "Repair packets of real-time lanes sent.",
            c.repair_packets,
        ),
        (
            "repair_bytes",
            "Their bytes, headers included.",
            c.repair_bytes,
        ),
        (
            "recovered_packets",
            "Lost packets that came after all.",
            c.recovered_packets,
        ),
        (
            "control_packets",
            "Control datagrams sent.",
            c.control_packets,
        ),
        (
            "control_bytes",
            "Their bytes, headers included.",
            c.control_bytes,
        ),
        ("sessions", "Handshakes that led to a session.", c.sessions),
        ("links_up", "Times that a link came up.", c.links_up),
        ("links_down", "Times that a link went down.", c.links_down),
        (
            "neighbor_moves",
            "Times that a neighbour's address below changed.",
            c.moved,
        ),
        (
            "records_accepted",
            "Link-state records taken.",
            c.records_accepted,
        ),
        (
            "unstamped_packets",
            "Packets of a stamped class sent by table, for want of a stamp.",
            c.unstamped_packets,
        ),
        (
            "records_refused",
            "Link-state records refused.",
            c.records_refused,
        ),
        (
            "roots_refused",
            "Successions refused that contradict the known root key.",
            c.roots_refused,
        ),
        (
            "groups_ignored",
            "Times that a node began to set groups without the right to.",
            c.groups_ignored,
        ),
        (
            "route_computations",
            "Times the routes were computed.",
            c.route_computations,
        ),
    ] {
        page.counter(&format!("sinew_{name}_total"), help, value);
    }
}

fn reasons(page: &mut Page, status: &Status) {
    page.family(
        "sinew_drops_total",
        "counter",
        "Packets dropped, by reason.",
    );
    for reason in overlay::event::Drop::ALL {
        page.sample(
            &[("reason", &reason.label())],
            status.counters.dropped(reason),
        );
    }
    page.family(
        "sinew_handshakes_refused_total",
        "counter",
        "Handshakes refused, by reason.",
    );
    for (reason, count) in &status.counters.refused {
        page.sample(&[("reason", reason)], count);
    }
}

/// A metric of each link: name, type, help, and the samples with their labels besides the neighbour's, if their values
/// are known.
type Told = (
    &'static str,
    &'static str,
    &'static str,
    fn(&LinkStatus) -> Vec<Sample>,
);
/// The direction or other label of a sample, and its value.
type Sample = (Option<(&'static str, &'static str)>, f64);

const LINKS: &[Told] = &[
    ("up", "gauge", "1 while the link carries packets.", |l| {
        one(f64::from(u8::from(matches!(l.state, "up" | "probing"))))
    }),
    (
        "over_tcp",
        "gauge",
        "1 while the link runs over TCP, because UDP has no answer.",
        |l| one(f64::from(u8::from(l.over == "tcp"))),
    ),
    ("paths", "gauge", "Paths of the link, by state.", |l| {
        let is_up = |path: &&PathStatus| matches!(path.state, "up" | "probing");
        let up = l.paths.iter().filter(is_up).count();
        vec![
            (Some(("state", "up")), up as f64),
            (Some(("state", "down")), (l.paths.len() - up) as f64),
        ]
    }),
    (
        "path_changes_total",
        "counter",
        "Times that what is sent has taken another path.",
        |l| one(l.counts.path_changes as f64),
    ),
    (
        "path_copies_total",
        "counter",
        "Copies of data datagrams that went by a second path.",
        |l| one(l.counts.copies_out as f64),
    ),
    ("rtt_seconds", "gauge", "Smoothed round trip.", |l| {
        l.rtt_ms.map_or(Vec::new(), |ms| one(ms / 1e3))
    }),
    (
        "mtu_bytes",
        "gauge",
        "Longest datagram that the link carries to the neighbour, without UDP and IP.",
        |l| one(f64::from(l.mtu_bytes)),
    ),
    (
        "loss_ratio",
        "gauge",
        "Share of packets lost, by direction.",
        |l| both(l.loss_in_pct / 1e2, l.loss_out_pct / 1e2),
    ),
    (
        "data_packets_total",
        "counter",
        "Data datagrams, by direction.",
        |l| both(l.counts.data_in as f64, l.counts.data_out as f64),
    ),
    (
        "data_bytes_total",
        "counter",
        "Bytes of data datagrams, by direction.",
        |l| {
            both(
                l.counts.data_in_bytes as f64,
                l.counts.data_out_bytes as f64,
            )
        },
    ),
    (
        "control_packets_total",
        "counter",
        "Control datagrams sent.",
        |l| one(l.counts.control_out as f64),
    ),
    (
        "control_bytes_total",
        "counter",
        "Bytes of control datagrams sent.",
        |l| one(l.counts.control_out_bytes as f64),
    ),
    (
        "downs_total",
        "counter",
        "Times that the link went down.",
        |l| one(l.counts.downs as f64),
    ),
    (
        "missing_packets_total",
        "counter",
        "Real-time packets found missing.",
        |l| one(l.realtime.missing as f64),
    ),
    (
        "recovered_packets_total",
        "counter",
        "Missing packets that were recovered.",
        |l| one(l.realtime.recovered as f64),
    ),
    (
        "given_up_packets_total",
        "counter",
        "Missing packets that were given up.",
        |l| one(l.realtime.given_up as f64),
    ),
    (
        "overrun_packets_total",
        "counter",
        "Real-time packets that could not be kept for repair as long as their deadlines: the history was full.",
        |l| one(l.realtime.overrun as f64),
    ),
    (
        "repair_packets_total",
        "counter",
        "Repair packets sent to the neighbour.",
        |l| one(l.counts.repair_out as f64),
    ),
    (
        "repair_bytes_total",
        "counter",
        "Bytes of repair packets sent to the neighbour.",
        |l| one(l.counts.repair_out_bytes as f64),
    ),
    (
        "realtime_bytes_total",
        "counter",
        "Bytes of real-time packets sent to the neighbour for the first time.",
        |l| one(l.counts.realtime_out_bytes as f64),
    ),
    (
        "decoded_packets_total",
        "counter",
        "Packets that repair packets of the neighbour have told.",
        |l| one(l.realtime.decoded as f64),
    ),
    (
        "repair_ratio",
        "gauge",
        "Repair packets per real-time packet to the neighbour, as planned.",
        |l| one(l.realtime.protection.repair_pct / 1e2),
    ),
    (
        "repair_cost_ratio",
        "gauge",
        "Bytes of repair packets per byte of real-time packets to the neighbour, under the present plan.",
        |l| one(l.realtime.protection.cost_pct / 1e2),
    ),
    (
        "residual_predicted_ratio",
        "gauge",
        "Share of real-time packets to the neighbour expected to stay lost.",
        |l| one(l.realtime.protection.predicted_pct / 1e2),
    ),
    (
        "residual_measured_ratio",
        "gauge",
        "Share of real-time packets to the neighbour that stayed lost of late, as it tells.",
        |l| {
            let measured = l.realtime.protection.measured_pct;
            measured.map_or(Vec::new(), |pct| one(pct / 1e2))
        },
    ),
    (
        "retransmitted_packets_total",
        "counter",
        "Packets sent again to the neighbour.",
        |l| one(l.realtime.retransmissions as f64),
    ),
    (
        "reliable_window_packets",
        "gauge",
        "Packets of the reliable lane that may be in flight.",
        |l| one(l.reliable.window),
    ),
    (
        "reliable_in_flight_packets",
        "gauge",
        "Packets of the reliable lane in flight.",
        |l| one(l.reliable.in_flight as f64),
    ),
    (
        "reliable_queued_packets",
        "gauge",
        "Packets that wait for the window of the reliable lane.",
        |l| one(l.reliable.queued as f64),
    ),
    (
        "reliable_packets_total",
        "counter",
        "Packets of the reliable lane, without repetitions.",
        |l| both(l.reliable.received as f64, l.reliable.originals as f64),
    ),
    (
        "reliable_retransmitted_packets_total",
        "counter",
        "Packets of the reliable lane sent again.",
        |l| one(l.reliable.retransmissions as f64),
    ),
    (
        "reliable_timeouts_total",
        "counter",
        "Timeouts of the reliable lane.",
        |l| one(l.reliable.timeouts as f64),
    ),
    (
        "reliable_marked_packets_total",
        "counter",
        "Packets of the reliable lane marked as having met congestion.",
        |l| one(l.reliable.marked as f64),
    ),
    (
        "reliable_overflow_packets_total",
        "counter",
        "Packets dropped because the queue of the reliable lane was full.",
        |l| one(l.reliable.overflows as f64),
    ),
];

fn one(value: f64) -> Vec<Sample> {
    vec![(None, value)]
}

fn both(inward: f64, outward: f64) -> Vec<Sample> {
    vec![
        (Some(("direction", "in")), inward),
        (Some(("direction", "out")), outward),
    ]
}

fn links(page: &mut Page, links: &[LinkStatus]) {
    for (name, kind, help, samples) in LINKS {
        page.family(&format!("sinew_link_{name}"), kind, help);
        for link in links {
            for (label, value) in samples(link) {
                let mut labels: Vec<(&str, &dyn Display)> =
                    vec![("peer", &link.peer), ("name", &link.name)];
                if let Some((key, word)) = &label {
                    labels.push((key, word));
                }
                page.sample(&labels, value);
            }
        }
    }
}

fn sockets(page: &mut Page, status: &Status) {
    let (host, udp) = (&status.host, &status.host.udp);
    page.counter(
        "sinew_cpu_seconds_total",
        "Processor time of the loop's thread.",
        host.cpu_s,
    );
    page.counter(
        "sinew_wakeups_total",
        "Times that the loop woke up.",
        host.wakeups,
    );
    page.family("sinew_buffers", "gauge", "Packet buffers in use, by size.");
    page.sample(&[("size", &"large")], host.buffers_large);
    page.sample(&[("size", &"small")], host.buffers_small);
    page.gauge(
        "sinew_kept_bytes",
        "Bytes of packets that wait, for their predecessors or for a full socket.",
        host.kept_bytes,
    );
    page.gauge(
        "sinew_kept_bytes_limit",
        "As many may be.",
        host.kept_bytes_limit,
    );
    let held = &status.snapshot.held;
    page.gauge(
        "sinew_held_packets",
        "Packets that wait for their predecessors.",
        held.packets,
    );
    page.gauge("sinew_held_bytes", "Their bytes.", held.bytes);
    page.counter(
        "sinew_held_given_up_total",
        "Gaps that were given up because as much is held as may be.",
        held.given_up,
    );
    page.family(
        "sinew_udp_datagrams_total",
        "counter",
        "Datagrams below, by direction.",
    );
    page.sample(&[("direction", &"in")], udp.received);
    page.sample(&[("direction", &"out")], udp.sent);
    page.family(
        "sinew_udp_bytes_total",
        "counter",
        "Their bytes, by direction.",
    );
    page.sample(&[("direction", &"in")], udp.received_bytes);
    page.sample(&[("direction", &"out")], udp.sent_bytes);
    page.family(
        "sinew_udp_drops_total",
        "counter",
        "Datagrams dropped below, by reason.",
    );
    for (reason, count) in [
        ("kernel_receive_buffer", udp.dropped_by_kernel),
        ("no_buffer", udp.dropped_no_buffer),
        ("queue_full", udp.dropped_queue_full),
        ("too_long", udp.dropped_too_long),
        ("unreachable", udp.dropped_unreachable),
        ("forbidden", udp.dropped_forbidden),
        ("failed", udp.dropped_failed),
    ] {
        page.sample(&[("reason", &reason)], count);
    }
}
