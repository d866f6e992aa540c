//! The exits of a running node: virtual ports behind each of which is one TCP target, and what
//! gateways may ask for, as its configuration lists them. None by default.

use crate::config::{Exit, Exits};
use client::{Error, Node, Options};
use gateway::Event;
use gateway::allow::Allowed;
use gateway::beyond::Beyond;
use host::log::Lines;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread;

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

fn reporter(lines: &Lines) -> Arc<dyn Fn(&Event) + Send + Sync> {
    let say = lines.clone();
    Arc::new(move |event: &Event| {
        if let Event::Failed { .. } = event {
            say.say(&format!("exit: {event}"));
        }
    })
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
