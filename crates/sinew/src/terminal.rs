//! Standard output: lines, JSON, and the properties of its terminal.

use crate::failure::{Failure, Outcome};
use crate::table::{Look, WIDTH, Wish};
use std::io::{self, IsTerminal, Write};

/// Prints text and a line break.
pub fn line(text: &str) -> Outcome {
    let mut out = io::stdout().lock();
    let written = out
        .write_all(text.as_bytes())
        .and_then(|()| out.write_all(b"\n"));
    written.and_then(|()| out.flush()).map_err(unwritten)
}

/// Prints a value as JSON, one line in a pipe, indented on a terminal.
pub fn json(value: &serde_json::Value) -> Outcome {
    if io::stdout().is_terminal() {
        line(&format!("{value:#}"))
    } else {
        line(&value.to_string())
    }
}

pub(crate) fn unwritten(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::NobodyReads,
        _ => Failure::failed(format_args!("cannot write to standard output: {error}")),
    }
}

/// Returns the settings for tables on standard output now, without options of the user.
pub fn look() -> Look {
    look_for(&Wish::default())
}

/// Returns the settings for tables on standard output now.
pub fn look_for(wish: &Wish) -> Look {
    let is_terminal = io::stdout().is_terminal();
    Look {
        width: (!wish.wide).then(width),
        only: wish.columns.clone(),
        colour: is_terminal && colours(),
        notes: is_terminal,
    }
}

/// Returns the width of the window in columns. Without a window, the function uses the environment,
/// or 80.
pub fn width() -> usize {
    let window = net::terminal::size(io::stdout()).map(|(columns, _)| columns);
    let named = || std::env::var("COLUMNS").ok()?.parse().ok();
    window.or_else(named).unwrap_or(WIDTH)
}

/// Returns true unless the user has refused colours [no-color.org], or the terminal has none.
fn colours() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    !is_set("NO_COLOR") && !dumb
}
