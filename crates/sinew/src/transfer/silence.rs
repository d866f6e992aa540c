//! The note of `sinew send` for its user if the other end does not answer: what the command waits for, and what to
//! check.
//!
//! ```text
//!   connect ── waits for SILENCE ──────────────────────────────────▶ note
//!          └─▶ open at once, by a ticket ── the node still calls ───▶ note
//! ```

use crate::control::Control;
use crate::show::{list, text};
use client::Target;
use serde_json::Value;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// The time without an answer after which the user reads what is missing. Choice: longer than an opening takes over a
/// slow network with a lost packet, and short enough that nobody gives up before.
const SILENCE: Duration = Duration::from_secs(1);

/// A watch over the opening of one stream. It ends when it is dropped.
pub(super) struct Silence(Sender<Target>);

impl Silence {
    /// Begins to watch. `word` is the destination as the user has written it. Only a control socket can say later
    /// whether a stream that is open at once has had an answer.
    pub(super) fn watch(to: Target, word: &str, control: Option<PathBuf>) -> Silence {
        let (sender, receiver) = channel();
        let text = note(to, word);
        // Nobody waits for this thread: it ends when the watch is dropped, or with the process.
        thread::spawn(move || {
            if is_silent(to, control, &receiver) {
                let before = match io::stderr().is_terminal() {
                    true => "\r\x1b[K",
                    false => "",
                };
                // If standard error is closed, there is no place for the note.
                let _ = writeln!(io::stderr(), "{before}sinew: {text}");
            }
        });
        Silence(sender)
    }

    /// The stream is open, with this address at this end.
    pub(super) fn on_open(&self, local: Target) {
        // The thread may have ended with its note.
        let _ = self.0.send(local);
    }
}

/// Waits. Returns true if there was no answer, and the watch continues.
fn is_silent(to: Target, control: Option<PathBuf>, opened: &Receiver<Target>) -> bool {
    let local = match opened.recv_timeout(SILENCE) {
        Ok(local) => local,
        Err(why) => return why == RecvTimeoutError::Timeout,
    };
    if opened.recv_timeout(SILENCE) != Err(RecvTimeoutError::Timeout) {
        return false;
    }
    let status = control.and_then(|path| Control::connect(&path).ok()?.status().ok());
    status.is_some_and(|status| still_calls(&status, local, to))
}

/// Returns true if the node has had no answer to the opening of this stream.
fn still_calls(status: &Value, local: Target, to: Target) -> bool {
    let (from, to) = (local.to_string(), to.to_string());
    let mut streams = list(&status["snapshot"]["streams"]).iter();
    let own = streams.find(|stream| text(&stream["from"]) == from && text(&stream["to"]) == to);
    own.is_some_and(|stream| text(&stream["state"]) == "calling")
}

fn note(to: Target, word: &str) -> String {
    let node = word.rsplit_once(':').map_or(word, |(node, _)| node);
    format!(
        "{word} does not answer yet: waiting. Check that there is a path to the node (`sinew ping {node}`), and that a \
         program listens there (`sinew listen {}`)",
        to.port.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_stream_that_still_calls_is_told_from_others() {
        let status = json!({"snapshot": {"streams": [
            {"from": "10.7.0.1:40000", "to": "10.7.0.2:5000", "state": "open"},
            {"from": "10.7.0.1:40001", "to": "10.7.0.2:5000", "state": "calling"},
        ]}});
        let at = |text: &str| Target::parse(text).unwrap();
        let to = at("10.7.0.2:5000");
        for (local, expected) in [(40_000, false), (40_001, true), (40_002, false)] {
            let local = at(&format!("10.7.0.1:{local}"));
            assert_eq!(still_calls(&status, local, to), expected, "{local}");
        }
        let note = note(to, "fra:5000");
        for expected in [
            "fra:5000 does not answer",
            "`sinew ping fra`",
            "`sinew listen 5000`",
        ] {
            assert!(note.contains(expected), "{note}");
        }
    }
}
