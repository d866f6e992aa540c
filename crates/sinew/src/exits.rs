//! The exits of a running node: virtual ports behind each of which is one TCP target, and what
//! gateways may ask for, as its configuration lists them. None by default.

use crate::config::{Exit, Exits};
use client::{Error, Node, Options};
use gateway::Event;
use gateway::allow::Allowed;
use gateway::beyond::Beyond;
use host::log::Lines;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Serves each exit on a thread of its own, as an ordinary client at `client_socket`, until the
/// node stops.
pub fn start(exits: &Exits, client_socket: &Path, lines: &Lines) -> io::Result<()> {
    if !exits.allow.is_empty() {
        let (node, lines) = (Node::at(client_socket), lines.clone());
        let allowed = Allowed::new(exits.allow.clone());
        let thread = thread::Builder::new().name("exit".into());
        thread.spawn(move || serve_allowed(&node, allowed, &lines))?;
    }
    for exit in &exits.ports {
        let (node, exit, lines) = (Node::at(client_socket), exit.clone(), lines.clone());
        thread::Builder::new()
            .name(format!("exit {}", exit.port))
            .spawn(move || serve(&node, &exit, &lines))?;
    }
    Ok(())
}

/// Says what fails, so that no node can fill the log.
fn reporter(lines: &Lines) -> Arc<dyn Fn(&Event) + Send + Sync> {
    let say = lines.clone();
    let said = Mutex::new(Said::default());
    Arc::new(move |event: &Event| {
        let Event::Failed { from, .. } = event else {
            return;
        };
        let node = from
            .rsplit_once(':')
            .map_or(from.as_str(), |(node, _)| node);
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        match said.note(node, Instant::now()) {
            None => {}
            Some(0) => say.say(&format!("exit: {event}")),
            Some(more) => say.say(&format!(
                "exit: {event} ({more} more failures of {node} since the last line about it)"
            )),
        }
    })
}

/// How often something is said of one node.
const SAID_EVERY: Duration = Duration::from_secs(60);
/// Nodes that are told apart; the one that was spoken of first makes room.
const MAX_SAID: usize = 256;

/// Of which nodes something was said, when, and how much was not since.
#[derive(Debug, Default)]
struct Said(BTreeMap<String, (Instant, u64)>);

impl Said {
    /// Something of this node: whether it is to be said, and how much was not.
    fn note(&mut self, node: &str, now: Instant) -> Option<u64> {
        if let Some((at, more)) = self.0.get_mut(node) {
            if now.saturating_duration_since(*at) < SAID_EVERY {
                *more += 1;
                return None;
            }
            *at = now;
            return Some(core::mem::take(more));
        }
        if self.0.len() >= MAX_SAID
            && let Some((oldest, _)) = self.0.iter().min_by_key(|(_, (at, _))| *at)
        {
            let oldest = oldest.clone();
            self.0.remove(&oldest);
        }
        self.0.insert(node.to_owned(), (now, 0));
        Some(0)
    }
}

fn serve_allowed(node: &Node, allowed: Allowed, lines: &Lines) {
    let error = match Beyond::bind(node, allowed, reporter(lines)) {
        Ok(beyond) => {
            lines.say("exit: gateways may leave the overlay here to what is listed");
            beyond.serve()
        }
        Err(error) => error,
    };
    // The node is stopping, and this with it.
    if !matches!(error, Error::Closed) {
        lines.say(&format!("exit: gateways are not served: {error}"));
    }
}

fn serve(node: &Node, exit: &Exit, lines: &Lines) {
    let report = reporter(lines);
    let Exit { port, to } = exit;
    let error = match gateway::Exit::bind(node, *port, to, Options::stream(), report) {
        Ok(bound) => {
            lines.say(&format!("exit: port {port} leads to {to}"));
            bound.serve()
        }
        Err(error) => error,
    };
    // The node is stopping, and this with it.
    if !matches!(error, Error::Closed) {
        lines.say(&format!("exit: port {port} is not served: {error}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_minute_is_said_of_a_node_and_the_rest_is_counted() {
        let (mut said, now) = (Said::default(), Instant::now());
        assert_eq!(said.note("10.7.0.1", now), Some(0));
        for _ in 0..1_000 {
            assert_eq!(said.note("10.7.0.1", now + SAID_EVERY / 2), None);
        }
        assert_eq!(said.note("10.7.0.2", now), Some(0), "others are heard");
        assert_eq!(said.note("10.7.0.1", now + SAID_EVERY), Some(1_000));
        for i in 0..2 * MAX_SAID {
            said.note(&i.to_string(), now + SAID_EVERY);
        }
        assert_eq!(said.0.len(), MAX_SAID);
    }
}
