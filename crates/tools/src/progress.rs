//! Progress of a long task: a bar on a terminal; in a pipe one line at the start and, if the caller wants it, one every
//! minute.
//!
//! It goes to standard error, so that standard output holds the result and nothing else.

use std::io::{IsTerminal, Write};

/// Width of the bar in columns. The bar and its text together fit in a line of 80 columns.
const BAR: usize = 20;

/// How progress is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Progress {
    /// Progress is not shown.
    #[default]
    Silent,
    /// A line at the start, and lines of [`Progress::tell`]: for a pipe.
    Heading,
    /// A line per step: for `--verbose` in a pipe.
    Lines,
    /// A line per step, and a bar that is drawn in place: for a terminal.
    Bar,
}

impl Progress {
    /// A bar when standard error is a terminal; otherwise the first line, or all if `verbose`.
    #[must_use]
    pub fn choose(verbose: bool) -> Progress {
        match (std::io::stderr().is_terminal(), verbose) {
            (true, _) => Progress::Bar,
            (false, true) => Progress::Lines,
            (false, false) => Progress::Heading,
        }
    }

    /// Announces the task.
    pub fn begin(self, text: &str) {
        match self {
            Progress::Heading => say(&format!("{text}\n")),
            _ => self.step(text),
        }
    }

    /// Writes a warning that the user must know to read the result.
    pub fn warn(self, text: &str) {
        self.clear();
        self.begin(text);
    }

    /// Reports a step.
    pub fn step(self, text: &str) {
        match self {
            Progress::Silent | Progress::Heading => {}
            Progress::Lines => say(&format!("{text}\n")),
            Progress::Bar => say(&format!("\r\x1b[K{text}\n")),
        }
    }

    /// Redraws the bar, filled to `share`, with `text` beside it.
    pub fn draw(self, share: f64, text: &str) {
        if self == Progress::Bar {
            say(&format!("\r\x1b[K{} {text}", bar(share)));
        }
    }

    /// Writes a line about the progress where there is no bar: for a log.
    pub fn tell(self, text: &str) {
        if matches!(self, Progress::Heading | Progress::Lines) {
            say(&format!("{text}\n"));
        }
    }

    /// Takes the bar off the screen.
    pub fn clear(self) {
        if self == Progress::Bar {
            say("\r\x1b[K");
        }
    }
}

/// Writes to standard error. It ignores errors: a closed terminal must not end the task.
fn say(text: &str) {
    let mut out = std::io::stderr().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn bar(share: f64) -> String {
    let full = (share.clamp(0.0, 1.0) * BAR as f64).round() as usize;
    format!(
        "[{}{}] {:3.0} %",
        "#".repeat(full),
        ".".repeat(BAR - full),
        share.clamp(0.0, 1.0) * 100.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_keeps_its_width() {
        for share in [-1.0, 0.0, 0.333, 1.0, 7.0, f64::NAN] {
            assert_eq!(bar(share).len(), bar(0.5).len(), "{share}");
        }
        assert!(bar(1.0).starts_with(&format!("[{}]", "#".repeat(BAR))));
    }
}
