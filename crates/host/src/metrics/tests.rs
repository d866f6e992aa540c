//! The pages of a running node, and its behaviour under misuse.

use super::*;
use crate::relay::ledger::TurnedAway;
use crate::status::{BridgeStatus, BulkStatus, GateStatus, ScribeStatus};
use crate::testing::TestNode;
use net::clock::Clock;
use overlay::snapshot::SourceTotals;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;

fn start(test: &str) -> (TestNode, Metrics) {
    start_with(test, PATIENCE)
}

fn start_with(test: &str, patience: Duration) -> (TestNode, Metrics) {
    let node = TestNode::start(test);
    let (_, lines) = Lines::new("ams", Clock::new(), true);
    let addr = "127.0.0.1:0".parse().unwrap();
    let hosts = Hosts::new(&["ams.example.org".to_owned()]);
    let metrics =
        Metrics::start_with(addr, hosts, node.commander.clone(), lines, patience).unwrap();
    (node, metrics)
}

/// Returns head and body of the answer to `request`.
fn ask(metrics: &Metrics, request: &[u8]) -> (String, String) {
    let mut stream = TcpStream::connect(metrics.local_addr()).unwrap();
    // The server may answer and close before everything is written.
    let _ = stream.write_all(request);
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    (head.to_owned(), body.to_owned())
}

#[test]
fn the_pages_are_served_and_others_are_not() {
    let (_node, metrics) = start("metrics-pages");
    let (head, body) = ask(
        &metrics,
        b"GET /status HTTP/1.1\r\nHost: ams.example.org\r\n\r\n",
    );
    assert!(head.starts_with("HTTP/1.0 200 OK\r\n"), "{head}");
    assert!(
        head.contains(&format!("Content-Length: {}", body.len())),
        "{head}"
    );
    let status: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(status["snapshot"]["name"], "ams");

    let (head, body) = ask(&metrics, b"HEAD /metrics?x=1 HTTP/1.0\r\n\r\n");
    assert!(
        head.starts_with("HTTP/1.0 200 OK\r\n") && body.is_empty(),
        "{head}"
    );
    for (request, status) in [
        (&b"GET / HTTP/1.0\r\n\r\n"[..], "404"),
        (b"GET\n\n", "404"),
        (b"GET /status HTTP/1.1\r\nHost: evil.example\r\n\r\n", "403"),
        (
            b"GET /metrics HTTP/1.1\r\nhost: evil.example:9700\r\n\r\n",
            "403",
        ),
        (
            b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:9700\r\n\r\n",
            "200",
        ),
        (b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "200"),
        (b"POST /metrics HTTP/1.0\r\n\r\n", "405"),
        (b"\x16\x03\x01\r\n\r\n", "405"),
        (b"\r\n\r\n", "400"),
        (&[b'x'; MAX_REQUEST_BYTES + 2_000], "400"),
    ] {
        let (head, _) = ask(&metrics, request);
        assert!(
            head.starts_with(&format!("HTTP/1.0 {status} ")),
            "{request:?}: {head}"
        );
    }
}

#[test]
fn those_who_say_nothing_delay_nobody() {
    // No connection times out in this test.
    let (_node, metrics) = start_with("metrics-silent", Duration::from_secs(3_600));
    let connect = || {
        let stream = TcpStream::connect(metrics.local_addr()).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        stream
    };
    let mut begun = connect();
    begun.write_all(b"GET /metrics HTTP/1.0\r\n").unwrap();
    let silent: Vec<TcpStream> = (0..server::MAX_CONNECTIONS + 8)
        .map(|_| connect())
        .collect();
    let mut asking = connect();
    asking.write_all(b"HEAD /status HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    asking.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.0 200"), "{text}");
    // The first of the silent connections made room, and not one that has begun its request.
    assert_eq!((&silent[0]).read(&mut [0]).unwrap(), 0);
    let last = silent.last().unwrap();
    last.set_nonblocking(true).unwrap();
    let open = (&*last).read(&mut [0]).unwrap_err();
    assert_eq!(open.kind(), io::ErrorKind::WouldBlock);
    begun.write_all(b"\r\n").unwrap();
    let mut text = String::new();
    begun.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.0 200"), "{text}");
}

#[test]
fn one_that_goes_away_early_does_no_harm_and_the_end_is_clean() {
    let (node, metrics) = start("metrics-rude");
    for _ in 0..100 {
        let mut stream = TcpStream::connect(metrics.local_addr()).unwrap();
        stream.write_all(b"GET /metr").unwrap();
    }
    let (head, _) = ask(&metrics, b"GET /metrics HTTP/1.0\r\n\r\n");
    assert!(head.contains("200 OK"), "{head}");
    let addr = metrics.local_addr();
    drop(metrics);
    assert!(TcpStream::connect(addr).is_err());
    drop(node);
}

/// Checks a page against the text format, and returns the names with their labels.
fn check(page: &str) -> BTreeSet<String> {
    let mut series = BTreeSet::new();
    let mut families = BTreeSet::new();
    let mut family = String::new();
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(families.insert(name.to_owned()), "{name} stands twice");
            assert!(help.ends_with('.'), "{line}");
            let kind = lines
                .next()
                .unwrap()
                .strip_prefix(&format!("# TYPE {name} "))
                .unwrap();
            assert_eq!(name.ends_with("_total"), kind == "counter", "{name} {kind}");
            name.clone_into(&mut family);
            continue;
        }
        let (what, value) = line.rsplit_once(' ').unwrap();
        assert!(value.parse::<f64>().unwrap().is_finite(), "{line}");
        let name = what.split('{').next().unwrap();
        assert_eq!(name, family, "a sample stands apart from its family");
        assert!(
            name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'),
            "{name}"
        );
        if let Some(labels) = what.strip_prefix(name).filter(|labels| !labels.is_empty()) {
            assert!(labels.starts_with('{') && labels.ends_with("\"}"), "{line}");
        }
        assert!(series.insert(what.to_owned()), "{what} stands twice");
    }
    series
}

#[test]
fn the_page_keeps_to_the_text_format_and_names_every_reason() {
    let (node, _metrics) = start("metrics-format");
    let mut status = node.commander.status().unwrap();
    status.snapshot.name = "a \"quoted\\ name\nof two lines".into();
    status.counters.refused.insert("mac", 3);
    status.snapshot.links[0].rtt_ms = Some(12.5);
    status.snapshot.links[0].loss_in_pct = 5.0;
    status.groups.totals.sources.push(SourceTotals {
        group: "239.1.1.1".into(),
        packets: 7,
        bytes: 700,
        receivers: 2,
        worst_lost_pct: 5.0,
        sealed: true,
    });
    status.groups.scribe = Some(ScribeStatus::default());
    for interface in ["mcast0", "mcast1"] {
        status.bridges.push(BridgeStatus {
            interface: interface.into(),
            role: "forwarding",
            captured: 9,
            drops: [("flood", 3)].into(),
            ..BridgeStatus::default()
        });
    }
    status.bulk = Some(BulkStatus {
        failed: [("broken", 2)].into(),
        turned_away: [("silent", 5)].into(),
        ..BulkStatus::default()
    });
    status.gate = Some(GateStatus {
        sent: 5,
        drops: [("replay", 4)].into(),
        turned_away: [("late", 1)].into(),
        ..GateStatus::default()
    });
    let page = render(&status);
    assert!(page.ends_with('\n'));
    let series = check(&page);
    for expected in [
        "sinew_link_up{peer=\"10.7.0.2\",name=\"fra\"}",
        "sinew_handshakes_refused_total{reason=\"mac\"}",
        "sinew_certificate_expiry_timestamp_seconds",
        "sinew_udp_drops_total{reason=\"queue_full\"}",
        "sinew_group_trees{tree=\"scribe\"}",
        "sinew_group_source_worst_loss_ratio{group=\"239.1.1.1\"}",
        "sinew_group_source_sealed{group=\"239.1.1.1\"}",
        "sinew_scribe_messages_total{direction=\"in\"}",
        "sinew_bridge_packets_total{interface=\"mcast1\",direction=\"in\"}",
        "sinew_bridge_drops_total{interface=\"mcast0\",reason=\"flood\"}",
        "sinew_bridge_refused_groups{interface=\"mcast0\"}",
        "sinew_bridge_cut_off{interface=\"mcast1\"}",
        "sinew_bulk_transfers_refused_total{reason=\"busy\"}",
        "sinew_bulk_bytes_total{role=\"relay\"}",
        "sinew_gate_dropped_datagrams_total{reason=\"replay\"}",
        "sinew_gate_datagrams_total{direction=\"out\",way=\"udp\"}",
        "sinew_gate_turned_away_total{reason=\"late\"}",
    ] {
        assert!(series.contains(expected), "{expected}");
    }
    for reason in overlay::event::Drop::ALL {
        let expected = format!("sinew_drops_total{{reason=\"{}\"}}", reason.label());
        assert!(series.contains(&expected), "{expected}");
    }
    for why in TurnedAway::ALL.map(TurnedAway::label) {
        let count = if why == "silent" { 5 } else { 0 };
        let expected =
            format!("sinew_bulk_connections_turned_away_total{{reason=\"{why}\"}} {count}\n");
        assert!(page.contains(&expected), "{expected}");
    }
    assert!(page.contains("sinew_bulk_transfers_failed_total{reason=\"broken\"} 2\n"));
    assert!(
        page.contains("name=\"a \\\"quoted\\\\ name\\nof two lines\""),
        "{page}"
    );
    assert!(page.contains("sinew_link_rtt_seconds{peer=\"10.7.0.2\",name=\"fra\"} 0.0125\n"));
    assert!(page.contains("direction=\"in\"} 0.05\n"), "{page}");
}
