//! The progress and the rate of a transfer.

use crate::failure::Outcome;
use crate::progress::{self, DRAWN_EVERY, Pace};
use crate::table;
use crate::terminal;
use client::Target;
use net::Clock;
use serde_json::{Value, json};
use std::io::{self, IsTerminal, Write};

/// The progress of a transfer, drawn on a terminal.
pub(super) struct Progress {
    pub(super) bytes: u64,
    /// Bytes to transfer, if that is known.
    total: Option<u64>,
    pace: Pace,
    clock: Clock,
    begun: base::Time,
    drawn: Option<base::Time>,
    draws: bool,
}

impl Progress {
    /// Starts the progress of a transfer. `to_stdout` is true if its data goes to standard output.
    pub(super) fn new(quiet: bool, to_stdout: bool, total: Option<u64>) -> Progress {
        let clock = Clock::new();
        let [err, out] = [io::stderr().is_terminal(), io::stdout().is_terminal()];
        Progress {
            bytes: 0,
            total,
            pace: Pace::default(),
            begun: clock.now(),
            drawn: None,
            draws: !quiet && draws(err, out, to_stdout),
            clock,
        }
    }

    pub(super) fn add(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        if !self.draws {
            return;
        }
        let now = self.clock.now();
        if self
            .drawn
            .is_none_or(|drawn| now.since(drawn) >= DRAWN_EVERY)
        {
            self.drawn = Some(now);
            let seconds = now.since(self.begun).as_secs_f64();
            let rate_bps = self.pace.mark(now, self.bytes);
            let width = net::terminal::size(io::stderr()).map_or(table::WIDTH, |(w, _)| w);
            let bytes = (self.bytes, self.total);
            let text = progress::line(bytes, rate_bps, seconds, "", width);
            let _ = write!(io::stderr(), "\r{}\x1b[K", table::cut(&text, width));
        }
    }

    /// Clears the drawing, and returns how long the transfer took.
    pub(super) fn done(&self) -> f64 {
        if self.drawn.is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
        self.clock.now().since(self.begun).as_secs_f64()
    }

    pub(super) fn tell(
        &self,
        direction: &str,
        peer: Target,
        seconds: f64,
        as_json: bool,
    ) -> Outcome {
        if as_json {
            let rate_bps = (self.bytes as f64 * 8.0 / seconds.max(1e-9)).round();
            let mut value = json!({
                "bytes": self.bytes, "seconds": seconds, "rate_bps": rate_bps,
            });
            value[direction] = Value::String(peer.to_string());
            return terminal::json(&value);
        }
        if io::stderr().is_terminal() {
            let text = progress::whole(self.bytes, seconds);
            let _ = writeln!(io::stderr(), "{direction} {peer}: {text}");
        }
        Ok(())
    }
}

/// Returns true if progress is drawn: on a terminal, unless the data scrolls on the same terminal, where the two would
/// mix.
fn draws(stderr_is_terminal: bool, stdout_is_terminal: bool, data_to_stdout: bool) -> bool {
    stderr_is_terminal && !(data_to_stdout && stdout_is_terminal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_drawn_on_a_terminal_that_the_data_leaves_alone() {
        assert!(
            draws(true, true, false),
            "a file is sent, all on a terminal"
        );
        assert!(draws(true, false, true), "what comes goes into a file");
        assert!(
            !draws(true, true, true),
            "what comes is read on the terminal"
        );
        assert!(!draws(false, true, false), "standard error is a file");
    }
}
