//! How far a transfer has come, and how fast.

use crate::failure::Outcome;
use crate::terminal;
use client::Target;
use net::Clock;
use serde_json::{Value, json};
use std::io::{self, IsTerminal, Write};

/// How often the progress is drawn.
const DRAWN_EVERY: base::Duration = base::Duration::from_millis(250);

/// How far a transfer has come, drawn on a terminal.
pub(super) struct Progress {
    pub(super) bytes: u64,
    clock: Clock,
    begun: base::Time,
    drawn: Option<base::Time>,
    draws: bool,
}

impl Progress {
    pub(super) fn new(quiet: bool) -> Progress {
        let clock = Clock::new();
        Progress {
            bytes: 0,
            begun: clock.now(),
            drawn: None,
            // Data that scrolls by on the same terminal would be torn apart.
            draws: !quiet && io::stderr().is_terminal() && !io::stdout().is_terminal(),
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
            let _ = write!(io::stderr(), "\r{}\x1b[K", rate(self.bytes, seconds));
        }
    }

    /// Clears the drawing, and tells how long it took.
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
            let text = rate(self.bytes, seconds);
            let _ = writeln!(io::stderr(), "{direction} {peer}: {text}");
        }
        Ok(())
    }
}

/// Bytes and a rate, for people.
fn rate(bytes: u64, seconds: f64) -> String {
    let mbit = bytes as f64 * 8.0 / 1e6 / seconds.max(1e-9);
    format!(
        "{:.1} MB in {seconds:.1} s, {mbit:.1} Mbit/s",
        bytes as f64 / 1e6
    )
}
