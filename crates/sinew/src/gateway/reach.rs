//! Checks whether the calls of a gateway can be protected within their deadline over the present paths, before the
//! first call and then regularly.
//!
//! ```text
//!   thread ── status, network ──▶ operator's socket of the node
//!      ├──▶ a warning for each destination whose deadline cannot be protected, once
//!      └──▶ what calls to each would miss ──▶ metrics
//! ```
//!
//! The destinations are the nodes whose certificates name domains, because calls go to no other nodes.

use crate::control::Control;
use crate::failure::Failure;
use crate::show::{list, text};
use client::Options;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use tools::explain::{self, Asked, Class, View};

/// Interval of the checks. Choice: losses are announced some seconds after they began, and a check takes about a
/// millisecond for each destination.
const EVERY: std::time::Duration = std::time::Duration::from_secs(30);
/// Most destinations that are checked: the first ones in the order of the status. The others are not reported.
const DESTINATIONS_MAX: usize = 256;

/// The results, by the name of the destination's node: the share of a call's packets that would be missed, and whether
/// this is more than the target.
pub(super) type Reached = Arc<Mutex<BTreeMap<String, Expected>>>;

/// What a call would miss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Expected {
    pub(super) missed: f64,
    pub(super) is_short: bool,
}

/// The thread of the checks. Dropping this value ends it.
pub(super) struct Reach {
    pub(super) reached: Reached,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Reach {
    /// Starts the checks. The first one comes at once. `warn` is called once for each destination.
    pub(super) fn start(
        control: PathBuf,
        options: &Options,
        warn: impl Fn(&str) + Send + 'static,
    ) -> std::io::Result<Reach> {
        let reached = Reached::default();
        let kept = Arc::clone(&reached);
        let about = about(options);
        let (stop, stopped) = channel();
        let run = move || {
            let mut warned = BTreeSet::new();
            loop {
                // If the node does not answer, the old results stay until the next check.
                if let Ok((view, status)) = asked(&control) {
                    let (now, warnings) = look(&view, &status, &about);
                    for (name, warning) in warnings {
                        if warned.insert(name) {
                            warn(&warning);
                        }
                    }
                    *kept.lock().unwrap_or_else(PoisonError::into_inner) = now;
                }
                if stopped.recv_timeout(EVERY) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("reach".into());
        Ok(Reach {
            reached,
            stop: Some(stop),
            thread: Some(thread.spawn(run)?),
        })
    }
}

impl Drop for Reach {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // The thread has reported its own panic.
            let _ = thread.join();
        }
    }
}

fn asked(control: &std::path::Path) -> Result<(View, Value), Failure> {
    let mut control = Control::connect(control)?;
    let status = control.status()?;
    Ok((crate::why::ask(&mut control)?, status))
}

/// Returns what to ask about packets with these options.
fn about(options: &Options) -> Asked {
    let deadline = options.deadline.unwrap_or_default();
    let deadline = base::Duration::from_nanos(deadline.as_nanos() as u64);
    Asked {
        // Packets on every link miss no more than those on the best path.
        class: options.routing.label().parse().unwrap_or(Class::Best),
        deadline: deadline.min(explain::DEADLINE_MAX),
        runners_up: 0,
        aim: options.aim,
    }
}

/// Returns what calls to each destination would miss, and by name the warnings for destinations that cannot be
/// protected.
fn look(
    view: &View,
    status: &Value,
    asked: &Asked,
) -> (BTreeMap<String, Expected>, Vec<(String, String)>) {
    let own = text(&status["snapshot"]["address"]);
    let (mut now, mut warnings) = (BTreeMap::new(), Vec::new());
    let is_destination =
        |node: &&Value| text(&node["address"]) != own && !list(&node["domains"]).is_empty();
    let nodes = list(&status["nodes"]).iter().filter(is_destination);
    for node in nodes.take(DESTINATIONS_MAX) {
        let address = text(&node["address"]);
        let Ok(why) = explain::why(view, own, address, asked) else {
            // Without a path a call misses everything, and exactly then the metrics must show it.
            let name = node["name"].as_str().unwrap_or(address);
            let nothing = Expected {
                missed: 1.0,
                is_short: true,
            };
            now.insert(name.to_owned(), nothing);
            continue;
        };
        let on_links = why.choice.missed_pct / 1e2;
        // Once calls have passed, the two ends may repair losses that the links leave.
        let ends = list(&status["snapshot"]["ends"]).iter();
        let mut repair = ends.filter(|end| text(&end["node"]) == address);
        let repair = repair.next().map(|end| &end["repair"]);
        let is_repaired = |repair: &&Value| repair["repair_pct"].as_f64() > Some(0.0);
        let left = repair.filter(is_repaired);
        let left = left.and_then(|repair| repair["predicted_pct"].as_f64());
        let missed = left.map_or(on_links, |left| on_links.min(left / 1e2));
        let warning = why.warning().filter(|_| left.is_none());
        let expected = Expected {
            missed,
            is_short: warning.is_some(),
        };
        now.insert(why.to.name.clone(), expected);
        warnings.extend(warning.map(|warning| (why.to.address.clone(), warning)));
    }
    (now, warnings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use client::RouteBy;
    use serde_json::json;
    use std::time::Duration;

    /// What to ask about calls with this deadline.
    fn within(ms: u64) -> Asked {
        about(&Options::voice(Duration::from_millis(ms)))
    }

    fn network(latency_us: u32) -> View {
        protected(latency_us, "auto")
    }

    fn protected(latency_us: u32, protect: &str) -> View {
        let link = |from: &str, to: &str| json!({"from": from, "to": to, "latency_us": latency_us, "loss": 3_277, "strikes": 5});
        let (ams, nyc, fra) = ("10.7.0.1", "10.7.0.2", "10.7.0.3");
        let node = |address: &str, name: &str| json!({"address": address, "name": name});
        let clean = |from: &str, to: &str| json!({"from": from, "to": to, "latency_us": 5_000, "loss": 0, "strikes": 5});
        let network = json!({
            "teller": ams, "profile": "modern", "detect_us": 2_000, "late_us": 100_000,
            "protect": protect, "holds": [],
            "nodes": [node(ams, "ams"), node(nyc, "nyc"), node(fra, "fra")],
            "links": [link(ams, nyc), link(nyc, ams), clean(ams, fra), clean(fra, ams)],
            "rule": {"spacing_s": 1.0, "worse_s": 1.0, "worse_unclear_s": 1.0,
                     "better_s": 1.0, "better_unclear_s": 1.0, "better_max_s": 1.0},
        });
        View::new(serde_json::from_value(network).unwrap()).unwrap()
    }

    fn status() -> Value {
        let node = |address: &str, domains: Value| json!({"address": address, "domains": domains});
        json!({"snapshot": {"address": "10.7.0.1"}, "nodes": [
            node("10.7.0.1", json!(["ams.example"])),
            node("10.7.0.2", json!(["nyc.example"])),
            node("10.7.0.3", json!([])),
        ]})
    }

    #[test]
    fn what_two_ends_repair_is_not_warned_of() {
        let asked = within(130);
        let view = protected(60_000, "requests");
        let mut status = status();
        let (before, warned) = look(&view, &status, &asked);
        assert!(before["nyc"].is_short && warned.len() == 1);
        status["snapshot"]["ends"] = json!([
            {"node": "10.7.0.2", "repair": {"repair_pct": 30.0, "predicted_pct": 0.02}}
        ]);
        let (now, warned) = look(&view, &status, &asked);
        assert!(!now["nyc"].is_short && warned.is_empty());
        assert!((now["nyc"].missed - 0.0002).abs() < 1e-9);
    }

    #[test]
    fn the_paths_that_the_gateway_asks_for_are_checked() {
        let by = |label| Options {
            routing: RouteBy::from_label(label).unwrap(),
            ..Options::voice(Duration::from_millis(150))
        };
        for (label, class) in [
            ("best", Class::Best),
            ("disjoint", Class::Disjoint(2)),
            ("flooding", Class::Best),
        ] {
            assert_eq!(about(&by(label)).class, class);
        }
    }

    #[test]
    fn a_destination_without_a_path_misses_everything() {
        let mut status = status();
        let gone = [("10.7.0.4", "lon"), ("10.7.0.5", "par")];
        let nodes = status["nodes"].as_array_mut().unwrap();
        nodes.extend(
            gone.map(
                |(address, name)| json!({"address": address, "name": name, "domains": [name]}),
            ),
        );
        let (now, warnings) = look(&network(60_000), &status, &within(150));
        let nothing = Expected {
            missed: 1.0,
            is_short: true,
        };
        assert_eq!((now.len(), now["lon"], now["par"]), (3, nothing, nothing));
        assert_eq!(warnings, []);
    }

    #[test]
    fn destinations_whose_deadline_cannot_be_protected_are_warned_of() {
        let (now, warnings) = look(&network(60_000), &status(), &within(150));
        assert_eq!(
            now.len(),
            1,
            "calls go to nodes with domains alone: {now:?}"
        );
        assert!(!now["nyc"].is_short && now["nyc"].missed < 0.001, "{now:?}");
        assert_eq!(warnings, []);
        let (now, warnings) = look(&network(60_000), &status(), &within(65));
        assert!(now["nyc"].is_short && now["nyc"].missed > 0.01, "{now:?}");
        let [(to, warning)] = &warnings[..] else {
            panic!("{warnings:?}")
        };
        assert_eq!(to, "10.7.0.2");
        for part in [
            "calls to nyc",
            "65 ms",
            "ams-nyc",
            "a deadline of ",
            "sinew why ams nyc",
        ] {
            assert!(warning.contains(part), "{part}: {warning}");
        }
        assert!(!warning.contains('\n'));
    }
}
