//! The exits of a running node: virtual ports behind each of which is one TCP target, as its
//! configuration lists them. None by default.

use crate::config::Exit;
use client::{Error, Node, Options};
use gateway::Event;
use host::log::Lines;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread;

/// Serves each exit on a thread of its own, as an ordinary client at `client_socket`, until the
/// node stops.
pub fn start(exits: &[Exit], client_socket: &Path, lines: &Lines) -> io::Result<()> {
    for exit in exits {
        let (node, exit, lines) = (Node::at(client_socket), exit.clone(), lines.clone());
        thread::Builder::new()
            .name(format!("exit {}", exit.port))
            .spawn(move || serve(&node, &exit, &lines))?;
    }
    Ok(())
}

fn serve(node: &Node, exit: &Exit, lines: &Lines) {
    let say = lines.clone();
    let report = Arc::new(move |event: &Event| {
        if let Event::Failed { .. } = event {
            say.say(&format!("exit: {event}"));
        }
    });
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
