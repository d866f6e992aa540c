//! The exits of a running node: virtual ports that lead to one TCP target each, and the targets that gateways may ask
//! for. Both are listed in the configuration, and empty by default. They can change while the node runs. Existing
//! connections continue.

use crate::config::{Exit, Exits};
use client::{Error, Node, Options};
use gateway::allow::Allowed;
use gateway::beyond::{Beyond, BeyondHandle};
use gateway::seldom::{Seldom, Shown};
use gateway::{Event, ExitHandle};
use host::log::Lines;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// The exits, each served by its own thread until the node stops.
#[derive(Clone)]
pub struct Serving {
    node: Node,
    lines: Lines,
    open: Arc<Mutex<Open>>,
}

/// The handles that change running exits.
#[derive(Default)]
struct Open {
    ports: BTreeMap<u16, ExitHandle>,
    beyond: Option<BeyondHandle>,
}

impl Serving {
    /// Serves each exit as an ordinary client at `client_socket`. The node does not run yet, so each thread waits until
    /// the node answers.
    pub fn start(exits: &Exits, client_socket: &Path, lines: &Lines) -> io::Result<Serving> {
        let serving = Serving {
            node: Node::at(client_socket),
            lines: lines.clone(),
            open: Arc::default(),
        };
        if !exits.allow.is_empty() {
            let (here, allowed) = (serving.clone(), Allowed::new(exits.allow.clone()));
            let serve = move || match here.bind_allowed(allowed) {
                Ok(beyond) => here.serve_allowed(beyond),
                Err(why) => here.not_allowed(&why),
            };
            thread::Builder::new().name("exit".into()).spawn(serve)?;
        }
        for exit in &exits.ports {
            let thread = thread::Builder::new().name(format!("exit {}", exit.port));
            let (here, exit) = (serving.clone(), exit.clone());
            let serve = move || match here.bind(&exit) {
                Ok(bound) => here.serve(&exit, &bound),
                Err(why) => here.not_served(exit.port, &why),
            };
            thread.spawn(serve)?;
        }
        Ok(serving)
    }

    /// Changes the exits from `before` to `now`. Returns the changes, and the errors. A change that failed is undone in
    /// `now`, so that the next reload tries it again.
    pub fn change(&self, before: &Exits, now: &mut Exits) -> Vec<Result<String, String>> {
        let mut changes = Vec::new();
        for exit in &before.ports {
            let port = exit.port;
            if !now.ports.iter().any(|it| it.port == port) {
                if let Some(handle) = self.open().ports.remove(&port) {
                    handle.close();
                }
                changes.push(Ok(format!("exit {port} is listed no more")));
            }
        }
        now.ports.retain(|exit| {
            if before.ports.contains(exit) {
                return true;
            }
            let (port, to) = (exit.port, &exit.to);
            let done = self.lead(exit);
            let is_done = done.is_ok();
            changes.push(match done {
                Ok(()) => Ok(format!("exit {port} leads to {to}")),
                Err(why) => Err(format!("exit {port}: {why}")),
            });
            is_done
        });
        if before.allow != now.allow {
            changes.push(match self.allow(Allowed::new(now.allow.clone())) {
                Ok(()) => Ok("what exits allow".to_owned()),
                Err(why) => {
                    now.allow.clone_from(&before.allow);
                    Err(format!("what exits allow: {why}"))
                }
            });
        }
        changes
    }

    /// Lets a port lead to a target, whether the port is served already or not.
    fn lead(&self, exit: &Exit) -> Result<(), String> {
        if let Some(handle) = self.open().ports.get(&exit.port) {
            handle.lead_to(&exit.to);
            return Ok(());
        }
        let bound = self.bind(exit).map_err(|why| why.to_string())?;
        let (here, exit) = (self.clone(), exit.clone());
        let thread = thread::Builder::new().name(format!("exit {}", exit.port));
        let started = thread.spawn(move || here.serve(&exit, &bound));
        started.map(drop).map_err(|why| why.to_string())
    }

    fn allow(&self, allowed: Allowed) -> Result<(), String> {
        if let Some(handle) = &self.open().beyond {
            // With an empty list, the ports stay, and refuse all connections.
            handle.allow(allowed);
            return Ok(());
        }
        let beyond = self.bind_allowed(allowed).map_err(|why| why.to_string())?;
        let here = self.clone();
        let thread = thread::Builder::new().name("exit".into());
        let started = thread.spawn(move || here.serve_allowed(beyond));
        started.map(drop).map_err(|why| why.to_string())
    }

    fn bind(&self, exit: &Exit) -> Result<gateway::Exit, Error> {
        let report = reporter(&self.lines);
        let bound =
            gateway::Exit::bind(&self.node, exit.port, &exit.to, Options::stream(), report)?;
        let handle = bound.handle().map_err(Error::Io)?;
        self.open().ports.insert(exit.port, handle);
        Ok(bound)
    }

    fn serve(&self, exit: &Exit, bound: &gateway::Exit) {
        let Exit { port, to } = exit;
        self.lines.say(&format!("exit: port {port} leads to {to}"));
        self.not_served(*port, &bound.serve());
    }

    fn not_served(&self, port: u16, why: &Error) {
        // The node is stopping, or the exit was removed from the configuration.
        if !matches!(why, Error::Closed) {
            let text = format!("exit: port {port} is not served: {why}");
            self.lines.say(&text);
            // Without the handle, the listener is closed: the node refuses calls, and a reload opens the port again.
            self.open().ports.remove(&port);
        }
    }

    fn bind_allowed(&self, allowed: Allowed) -> Result<Beyond, Error> {
        let beyond = Beyond::bind(&self.node, allowed, reporter(&self.lines))?;
        self.open().beyond = Some(beyond.handle());
        Ok(beyond)
    }

    fn serve_allowed(&self, beyond: Beyond) {
        let text = "exit: gateways may leave the overlay here to what is listed";
        self.lines.say(text);
        self.not_allowed(&beyond.serve());
    }

    fn not_allowed(&self, why: &Error) {
        if !matches!(why, Error::Closed) {
            self.lines
                .say(&format!("exit: gateways are not served: {why}"));
            self.open().beyond = None;
        }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the function that logs failures, with a limit for each node so that no node can fill the log.
fn reporter(lines: &Lines) -> Arc<dyn Fn(&Event) + Send + Sync> {
    let (say, clock) = (lines.clone(), net::Clock::new());
    let failures = Mutex::new(Seldom::every(SAID_EVERY));
    Arc::new(move |event: &Event| {
        let mut failures = failures.lock().unwrap_or_else(PoisonError::into_inner);
        for text in said(&mut failures, clock.now(), event) {
            say.say(&text);
        }
    })
}

/// The time in which there is one log line about one node.
const SAID_EVERY: base::Duration = base::Duration::from_secs(60);

/// Returns the lines for the log that are due at an event.
fn said(
    failures: &mut Seldom<String, (String, String)>,
    now: base::Time,
    event: &Event,
) -> Vec<String> {
    if let Event::Failed { from, .. } = event {
        let node = from
            .rsplit_once(':')
            .map_or(from.as_str(), |(node, _)| node);
        let failure = (node.to_owned(), event.to_string());
        failures.note(now, node.to_owned(), failure);
    }
    let shown = failures.take(now).into_iter();
    let lines = shown.map(|shown| match shown {
        Shown::First((_, text)) => format!("exit: {text}"),
        Shown::Again {
            last: (node, text),
            again,
            ..
        } => format!("exit: {text} ({again} failures of {node} since the last line about it)"),
        Shown::Others(count) => format!("exit: {count} failures of other nodes"),
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_minute_is_said_of_a_node_and_the_rest_is_counted() {
        let mut failures = Seldom::every(SAID_EVERY);
        let mut fail = |s: u64, from: &str| {
            let [from, to, why] = [from, "fra:22", "refused"].map(str::to_owned);
            let now = base::Time::ZERO + base::Duration::from_secs(s);
            said(&mut failures, now, &Event::Failed { from, to, why })
        };
        assert_eq!(fail(0, "10.7.0.1:1").len(), 1);
        for _ in 0..1_000 {
            assert_eq!(fail(30, "10.7.0.1:2"), [""; 0]);
        }
        assert_eq!(fail(30, "10.7.0.2:1").len(), 1, "others are heard");
        let line = fail(60, "10.7.0.1:3").concat();
        assert!(line.contains("1000 failures of 10.7.0.1"), "{line}");
    }
}
