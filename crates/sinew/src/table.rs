//! Tables that fit a terminal.
//!
//! ```text
//!   Table: columns with a rank, rows of cells with a tone
//!     │ Look: how wide, which columns, with colour or without
//!     ▼
//!   Page: a heading that stays, lines that may be more than the window holds
//! ```
//!
//! By default, a table shows as many columns as fit: those of the highest rank are dropped first, and empty columns
//! before all others. `--wide` shows all columns. `-o rtt,loss` shows the named columns, by their headings: `LOSS IN %`
//! is `loss-in`, and `loss` names all columns of that family.

use crate::failure::Failure;
use clap::Args;
use std::cmp::Ordering;
use std::fmt;

/// The width if there is no terminal and no `COLUMNS`.
pub const WIDTH: usize = 80;
/// The smallest width to which a column of words is shortened.
const WORDS_MIN: usize = 8;
/// The text of an empty cell.
const NOTHING: &str = "-";

/// Which columns are wished for.
#[derive(Clone, Debug, Default, Args)]
pub struct Wish {
    /// Show all columns, however wide the window is
    #[arg(long, conflicts_with = "columns")]
    pub wide: bool,
    /// Show these columns, by their headings: `-o name,rtt,loss`
    #[arg(short = 'o', long, value_name = "COLUMN,..", value_delimiter = ',')]
    pub columns: Vec<String>,
}

/// The settings for drawing a table.
#[derive(Clone, Debug, Default)]
pub struct Look {
    /// The width of the window; `None` without a limit.
    pub width: Option<usize>,
    /// The columns that the user named.
    pub only: Vec<String>,
    /// The output may have colours.
    pub colour: bool,
    /// A note says how many columns are left out.
    pub notes: bool,
}

impl Look {
    /// Returns the settings for a further table of the same page: the named columns apply only to the first one.
    pub fn rest(&self) -> Look {
        Look {
            only: Vec::new(),
            notes: false,
            ..self.clone()
        }
    }
}

/// The alignment of a column's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// For words.
    Left,
    /// For numbers.
    Right,
}

/// A column: its heading, with the unit in lower case after it.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    head: &'static str,
    align: Align,
    /// The rank: 0 is always shown; columns with a higher rank are left out sooner.
    rank: u8,
}

impl Column {
    /// Makes a column of words.
    pub const fn words(head: &'static str, rank: u8) -> Column {
        Column {
            head,
            align: Align::Left,
            rank,
        }
    }

    /// Makes a column of numbers.
    pub const fn numbers(head: &'static str, rank: u8) -> Column {
        Column {
            head,
            align: Align::Right,
            rank,
        }
    }

    /// Returns the column's word on the command line: `LOSS IN %` is `loss-in`.
    fn key(&self) -> String {
        let is_word = |word: &&str| !word.contains(|c: char| c.is_lowercase() || c == '%');
        let words: Vec<&str> = self.head.split(' ').filter(is_word).collect();
        words.join("-").to_lowercase()
    }

    fn is_meant_by(&self, word: &str) -> bool {
        let key = self.key();
        key == word || key.strip_prefix(word).is_some_and(|r| r.starts_with('-'))
    }
}

impl From<(&'static str, Align)> for Column {
    fn from((head, align): (&'static str, Align)) -> Column {
        Column {
            head,
            align,
            rank: 0,
        }
    }
}

/// The meaning of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Neither good nor bad.
    #[default]
    Plain,
    /// The value is good.
    Good,
    /// The value is a warning.
    Warn,
    /// The value is bad.
    Bad,
}

impl Tone {
    /// Returns `Warn` from `warn` on, and `Bad` from `bad` on.
    pub fn above(value: f64, warn: f64, bad: f64) -> Tone {
        match value {
            _ if value >= bad => Tone::Bad,
            _ if value >= warn => Tone::Warn,
            _ => Tone::Plain,
        }
    }

    fn paint(self, text: &str) -> String {
        let code = match self {
            Tone::Plain => return text.to_owned(),
            Tone::Good => "32",
            Tone::Warn => "33",
            Tone::Bad => "31",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// One cell of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// Makes a cell with a tone.
    pub fn toned(text: impl Into<String>, tone: Tone) -> Cell {
        Cell {
            text: text.into(),
            tone,
        }
    }

    /// Makes a cell with a number of `digits` digits after the point; an empty cell for `None`.
    pub fn number(value: Option<f64>, digits: usize) -> Cell {
        value.map_or_else(Cell::nothing, |value| format!("{value:.digits$}").into())
    }

    /// Makes an empty cell.
    pub fn nothing() -> Cell {
        NOTHING.into()
    }

    fn is_nothing(&self) -> bool {
        self.text.is_empty() || self.text == NOTHING
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::toned(text, Tone::Plain)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        text.to_owned().into()
    }
}

/// Rows under headings, each column as wide as its widest cell.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// Makes a table without rows.
    pub fn new<C: Into<Column> + Copy>(columns: &[C]) -> Table {
        Table {
            columns: columns.iter().map(|column| (*column).into()).collect(),
            rows: Vec::new(),
        }
    }

    /// Appends a row, with a cell for each column.
    pub fn row<C: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = C>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Returns true if the table has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Sorts the rows by their first columns. Numbers within words count as numbers: v4 comes before v12.
    pub fn sort(&mut self, columns: usize) {
        self.rows.sort_by(|a, b| {
            let pairs = a.iter().zip(b).take(columns);
            let mut orders = pairs.map(|(a, b)| natural(&a.text, &b.text));
            orders
                .find(|order| order.is_ne())
                .unwrap_or(Ordering::Equal)
        });
    }

    /// Returns the table as a page; `nothing` if it has no rows.
    ///
    /// # Errors
    /// [`Failure::Misused`] if a column was named that the table does not have.
    pub fn page(&self, look: &Look, nothing: &str) -> Result<Page, Failure> {
        let named = self.named(look)?;
        if self.is_empty() {
            return Ok(Page::text(nothing));
        }
        let (shown, width) = match (named, look.width) {
            (Some(named), _) => (named, None),
            (None, None) => ((0..self.columns.len()).collect(), None),
            (None, Some(width)) => (self.fitting(width), Some(width)),
        };
        let widths = self.widths(&shown, width);
        let heading: Vec<Cell> = self.columns.iter().map(|c| c.head.into()).collect();
        let mut heading = self.line(&heading, &shown, &widths, false);
        if look.colour {
            heading = format!("\x1b[1m{heading}\x1b[0m");
        }
        let mut lines: Vec<String> = self
            .rows
            .iter()
            .map(|row| self.line(row, &shown, &widths, look.colour))
            .collect();
        let left_out = self.columns.len() - shown.len();
        if look.notes && width.is_some() && left_out > 0 {
            let note = format!("{left_out} more columns: --wide, or -o {}", self.keys());
            lines.push(faint(&cut(&note, look.width.unwrap_or(WIDTH)), look.colour));
        }
        Ok(Page {
            head: vec![heading],
            lines,
            ..Page::default()
        })
    }

    /// Returns the columns that the user named, in that order.
    fn named(&self, look: &Look) -> Result<Option<Vec<usize>>, Failure> {
        if look.only.is_empty() {
            return Ok(None);
        }
        let mut named = Vec::new();
        for word in &look.only {
            let word = word.trim().to_lowercase();
            let before = named.len();
            let meant = self.columns.iter().enumerate();
            named.extend(meant.filter(|(_, c)| c.is_meant_by(&word)).map(|(i, _)| i));
            if named.len() == before {
                return Err(Failure::misused(format_args!(
                    "no column `{word}`: choose from {}",
                    self.keys()
                )));
            }
        }
        Ok(Some(named))
    }

    fn keys(&self) -> String {
        let keys: Vec<String> = self.columns.iter().map(Column::key).collect();
        keys.join(",")
    }

    /// Returns as many columns as fit.
    fn fitting(&self, width: usize) -> Vec<usize> {
        let mut shown: Vec<usize> = (0..self.columns.len()).collect();
        loop {
            let needed: usize = self
                .widths(&shown, None)
                .iter()
                .map(|width| width + 2)
                .sum();
            if needed <= width + 2 {
                return shown;
            }
            let worth = |&i: &usize| (self.is_blank(i), self.columns[i].rank, i);
            let optional = shown.iter().filter(|i| self.columns[**i].rank > 0);
            let Some(worst) = optional.copied().max_by_key(|i| worth(i)) else {
                return shown;
            };
            shown.retain(|i| *i != worst);
        }
    }

    /// Returns true if a column is empty in every row.
    fn is_blank(&self, column: usize) -> bool {
        let mut cells = self.rows.iter().filter_map(|row| row.get(column));
        cells.all(Cell::is_nothing)
    }

    /// Returns the width of each column: that of its widest cell, or less if the words of all columns do not fit.
    fn widths(&self, shown: &[usize], limit: Option<usize>) -> Vec<usize> {
        let widest = |i: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(i));
            let cells = cells.map(Cell::width);
            cells.fold(self.columns[i].head.chars().count(), usize::max)
        };
        let mut widths: Vec<usize> = shown.iter().map(|i| widest(*i)).collect();
        let Some(limit) = limit else {
            return widths;
        };
        loop {
            let needed: usize = widths.iter().map(|width| width + 2).sum();
            let over = needed.saturating_sub(limit + 2);
            let words = shown.iter().enumerate().filter(|(at, i)| {
                self.columns[**i].align == Align::Left && widths[*at] > WORDS_MIN
            });
            let longest = words.map(|(at, _)| at).max_by_key(|at| widths[*at]);
            match longest {
                Some(at) if over > 0 => {
                    widths[at] = (widths[at] - over.min(widths[at])).max(WORDS_MIN)
                }
                _ => return widths,
            }
        }
    }

    fn line(&self, row: &[Cell], shown: &[usize], widths: &[usize], colour: bool) -> String {
        let mut line = String::new();
        let blank = Cell::default();
        for (at, (i, width)) in shown.iter().zip(widths).enumerate() {
            let cell = row.get(*i).unwrap_or(&blank);
            let text = cut(&cell.text, *width);
            let pad = " ".repeat(width - text.chars().count());
            let text = match colour {
                true => cell.tone.paint(&text),
                false => text,
            };
            let gap = if at == 0 { "" } else { "  " };
            let is_last = at + 1 == shown.len();
            line += &match self.columns[*i].align {
                Align::Left if is_last => format!("{gap}{text}"),
                Align::Left => format!("{gap}{text}{pad}"),
                Align::Right => format!("{gap}{pad}{text}"),
            };
        }
        line.trim_end().to_owned()
    }
}

impl fmt::Display for Table {
    /// Writes the whole table, however wide it is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let page = self.page(&Look::default(), "");
        f.write_str(&page.map(|page| page.to_string()).unwrap_or_default())
    }
}

/// A page to draw: a heading that stays, and lines that may be more than the window holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The node that the page is about, for the title.
    pub(crate) node: String,
    pub(crate) head: Vec<String>,
    pub(crate) lines: Vec<String>,
}

impl Page {
    /// Makes a page of lines without a heading.
    pub fn text(text: &str) -> Page {
        Page {
            lines: text.trim_end().lines().map(str::to_owned).collect(),
            ..Page::default()
        }
    }

    /// Sets the node that the page is about.
    pub fn of(self, node: &str) -> Page {
        Page {
            node: node.to_owned(),
            ..self
        }
    }

    /// Makes a page of lines that are wrapped at spaces to the width of the window. Further lines are indented.
    pub fn wrapped(text: &str, look: &Look, indent: usize) -> Page {
        let Some(width) = look.width else {
            return Page::text(text);
        };
        let lines = text.trim_end().lines();
        Page {
            lines: lines.flat_map(|line| wrap(line, width, indent)).collect(),
            ..Page::default()
        }
    }

    /// Gives the whole page a tone, if the output has colours.
    pub fn toned(mut self, tone: Tone, look: &Look) -> Page {
        if look.colour {
            for line in &mut self.lines {
                *line = tone.paint(line);
            }
        }
        self
    }

    /// Appends an empty line.
    pub fn push_blank(&mut self) {
        self.lines.push(String::new());
    }

    /// Appends another page.
    pub fn push(&mut self, other: Page) {
        self.lines.extend(other.head);
        self.lines.extend(other.lines);
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in self.head.iter().chain(&self.lines) {
            writeln!(f, "{line}")?;
        }
        Ok(())
    }
}

/// Wraps a line at spaces. All lines but the first are indented.
pub fn wrap(line: &str, width: usize, indent: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest = line.to_owned();
    while visible(&rest).count() > width {
        let seen = visible(&rest).take(width + 1);
        let spaces = seen.filter(|(at, c)| *c == ' ' && !rest[..*at].trim().is_empty());
        // The line must not break within the indent. A word longer than the line stays whole.
        let Some((at, _)) = spaces.last().filter(|(at, _)| rest[..*at].len() > indent) else {
            break;
        };
        let next = format!("{}{}", " ".repeat(indent), rest[at..].trim_start());
        rest.truncate(at);
        lines.push(rest.trim_end().to_owned());
        rest = next;
    }
    lines.push(rest);
    lines
}

/// Returns the beginning of a line that fits, with a mark if the line is longer. Colours have no width.
pub fn cut(line: &str, width: usize) -> String {
    let is_longer = visible(line).count() > width;
    if !is_longer {
        return line.to_owned();
    }
    let last = visible(line).nth(width.saturating_sub(1)).map(|(at, _)| at);
    let kept = line.get(..last.unwrap_or(0)).unwrap_or_default();
    let reset = if line.contains('\x1b') { "\x1b[0m" } else { "" };
    format!("{kept}…{reset}")
}

/// Returns the visible characters of a line.
fn visible(line: &str) -> impl Iterator<Item = (usize, char)> {
    let mut hidden = false;
    line.char_indices().filter(move |(_, c)| match c {
        '\x1b' => {
            hidden = true;
            false
        }
        'm' if hidden => {
            hidden = false;
            false
        }
        _ => !hidden,
    })
}

/// Formats a line as less important, if the output has colours.
pub fn faint(text: &str, colour: bool) -> String {
    match colour {
        true => format!("\x1b[2m{text}\x1b[0m"),
        false => text.to_owned(),
    }
}

/// Compares names as users expect: numbers within them count as numbers.
pub fn natural(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a, b);
    loop {
        let (x, y) = (digits(a), digits(b));
        let order = match (x, y) {
            ("", _) | (_, "") => {
                let (Some(c), Some(d)) = (a.chars().next(), b.chars().next()) else {
                    return a.len().cmp(&b.len());
                };
                (a, b) = (&a[c.len_utf8()..], &b[d.len_utf8()..]);
                c.cmp(&d)
            }
            _ => {
                (a, b) = (&a[x.len()..], &b[y.len()..]);
                let (x, y) = (x.trim_start_matches('0'), y.trim_start_matches('0'));
                x.len().cmp(&y.len()).then(x.cmp(y))
            }
        };
        if order.is_ne() {
            return order;
        }
    }
}

fn digits(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_digit());
    &text[..end.unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links() -> Table {
        let mut table = Table::new(&[
            Column::words("NAME", 0),
            Column::numbers("RTT ms", 0),
            Column::numbers("LOSS IN %", 1),
            Column::numbers("LOSS OUT %", 1),
            Column::words("IMPAIRMENT", 2),
            Column::numbers("MTU bytes", 3),
        ]);
        table.row(["v12", "3.1", "0.0", "5.0", "-", "1439"]);
        table.row(["v4", "120.2", "0.1", "0.0", "-", "1439"]);
        table
    }

    fn drawn(table: &Table, width: usize) -> String {
        let look = Look {
            width: Some(width),
            ..Look::default()
        };
        table.page(&look, "none").unwrap().to_string()
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&[("NAME", Align::Left), ("RTT", Align::Right)]);
        table.row(["ams", "3.1"]);
        table.row(["zürich", "120.25"]);
        assert_eq!(
            table.to_string(),
            "NAME       RTT\nams        3.1\nzürich  120.25\n"
        );
    }

    #[test]
    fn what_does_not_fit_is_left_out_by_rank_and_blank_columns_first() {
        let table = links();
        let head = |width| drawn(&table, width).lines().next().unwrap().to_owned();
        let all = "NAME  RTT ms  LOSS IN %  LOSS OUT %  IMPAIRMENT  MTU bytes";
        assert_eq!(head(80), all);
        assert_eq!(head(all.len()), all);
        assert_eq!(
            head(all.len() - 1),
            "NAME  RTT ms  LOSS IN %  LOSS OUT %  MTU bytes"
        );
        assert_eq!(head(40), "NAME  RTT ms  LOSS IN %  LOSS OUT %");
        assert_eq!(head(20), "NAME  RTT ms");
        assert_eq!(head(3), "NAME  RTT ms", "these are always there");
        for width in 12..90 {
            let drawn = drawn(&table, width);
            let longest = drawn.lines().map(|line| line.chars().count()).max();
            assert!(longest.unwrap() <= width, "{width}: {drawn}");
        }
    }

    #[test]
    fn long_words_are_cut_and_say_so() {
        let mut table = Table::new(&[Column::words("PATH", 0), Column::numbers("HOPS", 0)]);
        table.row(["amsterdam-frankfurt-paris", "2"]);
        assert_eq!(
            drawn(&table, 18),
            "PATH          HOPS\namsterdam-f…     2\n"
        );
    }

    #[test]
    fn rows_are_sorted_as_people_count() {
        let mut table = links();
        table.sort(1);
        let names: Vec<String> = drawn(&table, 80)
            .lines()
            .map(|line| line.split(' ').next().unwrap().to_owned())
            .collect();
        assert_eq!(names, ["NAME", "v4", "v12"]);
        assert_eq!(natural("10.7.0.9", "10.7.0.10"), Ordering::Less);
        assert_eq!(natural("a", "ab"), Ordering::Less);
        assert_eq!(natural("a01", "a1"), Ordering::Equal);
    }

    #[test]
    fn columns_are_chosen_by_their_heads() {
        let look = |words: &[&str]| Look {
            width: Some(20),
            only: words.iter().map(|word| (*word).to_owned()).collect(),
            ..Look::default()
        };
        let table = links();
        let page = table.page(&look(&["rtt", "name", "loss"]), "").unwrap();
        assert_eq!(page.head, ["RTT ms  NAME  LOSS IN %  LOSS OUT %"]);
        let Err(Failure::Misused(text)) = table.page(&look(&["colour"]), "") else {
            panic!("there is no such column")
        };
        assert!(text.contains("name,rtt,loss-in,loss-out"), "{text}");
    }

    #[test]
    fn long_lines_are_broken_at_spaces() {
        let line = "links        one, two, three, four";
        assert_eq!(wrap(line, 80, 13), [line]);
        assert_eq!(
            wrap(line, 24, 13),
            ["links        one, two,", "             three, four"]
        );
        let word = "key          averyverylongwordthatdoesnotfit";
        assert_eq!(wrap(word, 24, 13), [word], "words stay whole");
    }

    #[test]
    fn a_colour_takes_no_place() {
        let mut table = Table::new(&[Column::words("STATE", 0), Column::numbers("N", 0)]);
        table.row([Cell::toned("up", Tone::Good), "1".into()]);
        let look = Look {
            colour: true,
            width: Some(80),
            ..Look::default()
        };
        let page = table.page(&look, "").unwrap();
        assert_eq!(page.lines, ["\x1b[32mup\x1b[0m     1"]);
        assert_eq!(cut(&page.lines[0], 80), page.lines[0]);
        assert_eq!(cut(&page.lines[0], 4), "\x1b[32mup\x1b[0m …\x1b[0m");
        assert_eq!(cut("short", 5), "short");
    }
}
