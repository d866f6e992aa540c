//! Standard output: lines, JSON, and what its terminal is like.

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

/// How tables are drawn on standard output now, where nothing is wished for.
pub fn look() -> Look {
    look_for(&Wish::default())
}

/// How tables are drawn on standard output now.
pub fn look_for(wish: &Wish) -> Look {
    let is_terminal = io::stdout().is_terminal();
    Look {
        width: (!wish.wide).then(width),
        only: wish.columns.clone(),
        colour: is_terminal && colours(),
        notes: is_terminal,
    }
}

/// Columns of the window; without one those that the environment names, and else 80.
pub fn width() -> usize {
    let window = net::terminal::size(io::stdout()).map(|(columns, _)| columns);
    let named = || std::env::var("COLUMNS").ok()?.parse().ok();
    window.or_else(named).unwrap_or(WIDTH)
}

/// True unless the user has refused them [no-color.org], or the terminal cannot.
fn colours() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    !is_set("NO_COLOR") && !dumb
}
