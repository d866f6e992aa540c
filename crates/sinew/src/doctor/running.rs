//! Checks the running node by its own status.

use super::{Finding, mapping, reach, tcp};
use crate::config::Config;
use crate::control::Control;
use crate::failure::Failure;
use crate::show::text;
use serde_json::Value;
use std::panic;
use std::path::Path;
use std::thread;

/// Asks the running node for its status.
pub(super) fn ask(node: Option<&Path>, config: Option<&Config>) -> Result<Value, Failure> {
    // The directory's node comes first, wherever its socket is.
    let configured = config.and_then(|config| config.control_socket.as_ref());
    let found = match (configured, node) {
        (Some(socket), _) => Control::connect(socket),
        (None, node) => Control::find(node),
    };
    found.and_then(|mut control| control.status())
}

/// Rates the status, or reports why there is none.
pub(super) fn look(
    told: &Result<Value, Failure>,
    config: Option<&Config>,
    findings: &mut Vec<Finding>,
) {
    match told {
        Ok(status) => findings.extend(node(status, config)),
        // The user must say which of several nodes is meant.
        Err(why @ Failure::Misused(_)) => {
            let next = "name one: `sinew doctor --node DIR`";
            findings.push(Finding::weak("node", why.text(), next));
        }
        Err(_) => {
            let next = "start it: `sinew node --config FILE`, or the service";
            findings.push(Finding::weak("node", "none is running", next));
        }
    }
}

fn node(status: &Value, config: Option<&Config>) -> Vec<Finding> {
    let (snapshot, host) = (&status["snapshot"], &status["host"]);
    let seen = format!(
        "{} {}, version {}, pid {}",
        text(&snapshot["name"]),
        text(&snapshot["address"]),
        text(&host["version"]),
        host["pid"]
    );
    let mut findings = vec![Finding::good("node", seen)];
    let links: Vec<&Value> = snapshot["links"].as_array().into_iter().flatten().collect();
    if links.is_empty() {
        findings.push(Finding::weak(
            "links",
            "none",
            "invite another host by `sinew invite`, or add a `[[neighbor]]`",
        ));
    }
    findings.extend(reach::nat(status));
    findings.extend(mapping::look(status));
    findings.extend(reach::paths(&links));
    // Links that do not answer need time, so all are tried at the same time.
    findings.extend(thread::scope(|scope| {
        let asked = links
            .into_iter()
            .map(|it| scope.spawn(move || link(it, config)));
        let asked: Vec<_> = asked.collect();
        let told = asked.into_iter().map(|it| it.join());
        told.map(|it| it.unwrap_or_else(|why| panic::resume_unwind(why)))
            .collect::<Vec<_>>()
    }));
    let dropped = &host["udp"]["dropped_by_kernel"];
    if let Some(count @ 1..) = dropped.as_u64() {
        findings.push(Finding::weak(
            "kernel drops",
            format!("{count} datagrams since the start"),
            "see priority and UDP above: the node was not scheduled in time, or its buffer is small",
        ));
    }
    findings
}

fn link(link: &Value, config: Option<&Config>) -> Finding {
    let (name, state) = (text(&link["name"]), text(&link["state"]));
    let trouble = link["trouble"].as_str();
    let rtt = link["rtt_ms"]
        .as_f64()
        .map_or_else(String::new, |ms| format!(", {ms:.1} ms"));
    let seen = format!("to {name}: {state}{rtt}");
    let is_over_tcp = link["over"] == "tcp";
    match (state, trouble) {
        ("up", _) if is_over_tcp => {
            let trouble = trouble.map_or_else(String::new, |trouble| format!("; {trouble}"));
            Finding::weak(
                "link",
                format!("{seen}, over TCP: UDP is blocked, TCP works; links are slower{trouble}"),
                "let UDP through on both hosts to the ports in `listen`; the link then uses it by itself, mostly within 30 s",
            )
        }
        ("up", None) => Finding::good("link", seen),
        ("up", Some(trouble)) => Finding::weak(
            "link",
            format!("{seen}: {trouble}"),
            "`sinew links` has the numbers, docs/troubleshooting.md what each word means",
        ),
        _ => {
            let seen = trouble.map_or(seen.clone(), |trouble| format!("{seen}: {trouble}"));
            match config.and_then(|config| tcp::look(config, link)) {
                Some((heard, next)) => Finding::bad("link", format!("{seen}; {heard}"), next),
                None => Finding::bad(
                    "link",
                    seen,
                    format!(
                        "let UDP through on both hosts to the ports in `listen`, and see that {name} runs"
                    ),
                ),
            }
        }
    }
}
