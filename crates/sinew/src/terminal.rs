//! Standard output: lines, tables, and pages that are drawn again in place.

use crate::failure::{Failure, Outcome};
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

/// How often `--watch` draws.
pub const WATCH: Duration = Duration::from_secs(1);

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

fn unwritten(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::NobodyReads,
        _ => Failure::failed(format_args!("cannot write to standard output: {error}")),
    }
}

/// Draws `page` once, or, if `watch`, once per second in place until the process is ended.
pub fn show(watch: bool, mut page: impl FnMut() -> Result<String, Failure>) -> Outcome {
    if !watch {
        return line(page()?.trim_end());
    }
    let in_place = io::stdout().is_terminal();
    loop {
        let text = page()?;
        if in_place {
            // To the upper left, each line cleared to its end, and what is left below cleared.
            let text = text.trim_end().replace('\n', "\x1b[K\n");
            line(&format!("\x1b[H{text}\x1b[K\x1b[J"))?;
        } else {
            line(&text)?;
        }
        std::thread::sleep(WATCH);
    }
}

/// Where a column's text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Rows under headings, each column as wide as its widest cell.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new(columns: &[(&'static str, Align)]) -> Table {
        Table {
            columns: columns.to_vec(),
            rows: Vec::new(),
        }
    }

    /// Appends a row, with a cell for each column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// True without rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let heading: Vec<String> = self
            .columns
            .iter()
            .map(|(name, _)| (*name).into())
            .collect();
        let width = |i: usize| {
            let cells = self
                .rows
                .iter()
                .chain([&heading])
                .filter_map(|row| row.get(i));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        for row in [&heading].into_iter().chain(&self.rows) {
            let mut text = String::new();
            for ((cell, (_, align)), width) in row.iter().zip(&self.columns).zip(&widths) {
                let gap = if text.is_empty() { "" } else { "  " };
                text += &match align {
                    Align::Left => format!("{gap}{cell:<width$}"),
                    Align::Right => format!("{gap}{cell:>width$}"),
                };
            }
            writeln!(f, "{}", text.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&[("NAME", Align::Left), ("RTT", Align::Right)]);
        table.row(["ams".into(), "3.1".into()]);
        table.row(["zürich".into(), "120.25".into()]);
        assert_eq!(
            table.to_string(),
            "NAME       RTT\nams        3.1\nzürich  120.25\n"
        );
    }
}
