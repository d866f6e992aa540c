//! `--watch`: a page that is redrawn every second, on a screen of its own.
//!
//! The heading stays in place; arrow keys scroll to rows that do not fit. If the node goes away, the last page stays,
//! with a line that says so, until the node is back. Ctrl-C, `q` and every failure restore the terminal. In a pipe, and
//! as JSON, the output is one page after the other.

use crate::date;
use crate::failure::{Failure, Outcome};
use crate::show::Show;
use crate::table::{Look, Page, cut, faint};
use crate::terminal;
use net::Clock;
use net::epoll::{Interest, Poller};
use net::signals::Termination;
use net::terminal::Keys;
use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};

/// The interval of redrawing.
const EVERY: base::Duration = base::Duration::from_secs(1);
/// The same interval for output in a pipe.
const PAUSE: std::time::Duration = std::time::Duration::from_secs(1);
/// The number of rows if the terminal does not report it.
const ROWS: usize = 24;

const TERMINATION: u64 = 0;
const KEYS: u64 = 1;

/// Shows `page` once, or with `--watch` until the user ends it.
pub fn show(
    args: &Show,
    title: &str,
    mut page: impl FnMut(&Look) -> Result<Page, Failure>,
) -> Outcome {
    let look = || terminal::look_for(&args.wish);
    let first = page(&look())?;
    if !args.watch {
        return print(&first);
    }
    if args.json || !io::stdout().is_terminal() {
        return stream(first, || page(&look()));
    }
    watch(title, first, || {
        let look = Look {
            notes: false,
            ..look()
        };
        page(&look)
    })
}

fn print(page: &Page) -> Outcome {
    terminal::line(page.to_string().trim_end())
}

/// Prints one page after the other. If the node goes away, the function waits for it.
fn stream(first: Page, mut page: impl FnMut() -> Result<Page, Failure>) -> Outcome {
    print(&first)?;
    let mut is_away = false;
    loop {
        std::thread::sleep(PAUSE);
        match page() {
            Ok(page) => {
                is_away = false;
                print(&page)?;
            }
            Err(Failure::Failed(why)) => {
                if !is_away {
                    // If standard error is closed, there is no place for this error.
                    let _ = writeln!(io::stderr(), "sinew: waiting: {why}");
                }
                is_away = true;
            }
            Err(other) => return Err(other),
        }
    }
}

fn watch(title: &str, first: Page, mut page: impl FnMut() -> Result<Page, Failure>) -> Outcome {
    let mut screen = Screen::open()?;
    let (mut shown, mut why) = (first, None);
    loop {
        screen.draw(title, why.as_deref(), &shown)?;
        match screen.wait()? {
            Asked::End => return Ok(()),
            Asked::Move => continue,
            Asked::Nothing => {}
        }
        match page() {
            Ok(page) => (shown, why) = (page, None),
            Err(Failure::Failed(text)) => why = Some(text),
            Err(other) => return Err(other),
        }
    }
}

/// The user's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    End,
    Move,
    Nothing,
}

/// The terminal's second screen, until this value is dropped.
struct Screen {
    poller: Poller,
    termination: Termination,
    /// `None` if standard input is not a terminal.
    keys: Option<Keys>,
    clock: Clock,
    /// The first visible row.
    first: usize,
    next: base::Time,
}

impl Screen {
    fn open() -> Result<Screen, Failure> {
        let poller = Poller::new().map_err(Failure::failed)?;
        let termination = Termination::install().map_err(Failure::failed)?;
        poller
            .add(&termination, TERMINATION, Interest::READ)
            .map_err(Failure::failed)?;
        let keys = Keys::begin().ok();
        if let Some(keys) = &keys {
            poller
                .add(keys, KEYS, Interest::READ)
                .map_err(Failure::failed)?;
        }
        let clock = Clock::new();
        let screen = Screen {
            poller,
            termination,
            keys,
            next: clock.now() + EVERY,
            clock,
            first: 0,
        };
        // Switch to the other screen, and hide the cursor.
        put("\x1b[?1049h\x1b[?25l").map_err(terminal::unwritten)?;
        Ok(screen)
    }

    fn draw(&mut self, title: &str, why: Option<&str>, page: &Page) -> Outcome {
        let size = net::terminal::size(io::stdout());
        let (columns, rows) = size.unwrap_or((terminal::width(), ROWS));
        let time = date::clock(self.clock.unix_s());
        let keys = match self.keys {
            Some(_) => "q ends",
            None => "Ctrl-C ends",
        };
        let of = match page.node.as_str() {
            "" => String::new(),
            node => format!(" of {node}"),
        };
        let title = format!("sinew {title}{of}   {time} UTC   {keys}");
        let mut top = vec![faint(&title, true)];
        if let Some(why) = why {
            top.push(format!("\x1b[31mwaiting: {why}\x1b[0m"));
        }
        let lines = lay_out(top, page, rows, &mut self.first);
        // Move to the upper left, clear each line to its end, and clear the rest below.
        let mut text = String::from("\x1b[H");
        for (i, line) in lines.iter().enumerate() {
            let end = if i + 1 < lines.len() { "\r\n" } else { "" };
            text += &format!("{}\x1b[K{end}", cut(line, columns));
        }
        put(&format!("{text}\x1b[J")).map_err(terminal::unwritten)
    }

    /// Waits until the next redraw, or until the user presses a key.
    fn wait(&mut self) -> Result<Asked, Failure> {
        let mut ready = Vec::new();
        loop {
            let now = self.clock.now();
            if now >= self.next {
                self.next = now + EVERY;
                return Ok(Asked::Nothing);
            }
            self.poller
                .wait(Some(self.next.since(now)), &mut ready)
                .map_err(Failure::failed)?;
            if self.termination.take() > 0 {
                return Ok(Asked::End);
            }
            let keys = self.keys.as_ref().map(Keys::take).unwrap_or_default();
            let is_mute = keys.is_empty() && ready.iter().any(|ready| ready.token == KEYS);
            if is_mute && let Some(keys) = self.keys.take() {
                // The terminal of the keys has gone. Without removal, the poller would report it forever.
                self.poller.remove(&keys).map_err(Failure::failed)?;
            }
            match asked(&keys, &mut self.first) {
                Asked::Nothing => {}
                asked => return Ok(asked),
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // If the terminal has gone, there is nothing to restore.
        let _ = put("\x1b[?25h\x1b[?1049l");
    }
}

fn put(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Returns what the keys request. Arrows, `j` and `k` move the first row.
fn asked(keys: &[u8], first: &mut usize) -> Asked {
    match keys {
        [] => return Asked::Nothing,
        [b'q' | b'Q' | 0x1b, ..] if keys.len() == 1 || keys[0] != 0x1b => return Asked::End,
        b"\x1b[B" | b"\x1bOB" | b"j" => *first += 1,
        b"\x1b[A" | b"\x1bOA" | b"k" => *first = first.saturating_sub(1),
        b"\x1b[6~" | b" " => *first += ROWS / 2,
        b"\x1b[5~" => *first = first.saturating_sub(ROWS / 2),
        _ => return Asked::Nothing,
    }
    Asked::Move
}

/// Returns the lines of a window: the heading, and as many of the other lines as fit.
fn lay_out(mut top: Vec<String>, page: &Page, rows: usize, first: &mut usize) -> Vec<String> {
    top.extend(page.head.iter().cloned());
    let room = rows.saturating_sub(top.len()).max(1);
    let all = page.lines.len();
    if all <= room {
        *first = 0;
        top.extend(page.lines.iter().cloned());
        return top;
    }
    // One line says that there are more lines.
    let room = room.saturating_sub(1).max(1);
    *first = (*first).min(all - room);
    top.extend(page.lines.iter().skip(*first).take(room).cloned());
    let more = format!(
        "{} to {} of {all} lines: arrows move",
        *first + 1,
        *first + room
    );
    top.push(faint(&more, true));
    top
}

/// Converts counters to rates. The map has the last value of each counter, and its time.
#[derive(Clone, Debug, Default)]
pub struct Rates(BTreeMap<String, (u64, f64)>);

impl Rates {
    /// Returns how fast a counter has grown since the last call, per second. `None` at the first call, and if the
    /// counter has restarted.
    pub fn of(&mut self, key: String, total: u64, at_s: f64) -> Option<f64> {
        let (before, then_s) = self.0.insert(key, (total, at_s))?;
        let grown = total.checked_sub(before)?;
        (at_s > then_s).then(|| grown as f64 / (at_s - then_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_began_anew_has_no_rate() {
        let mut rates = Rates::default();
        let mut rate = |total, at_s| rates.of("fra in".to_owned(), total, at_s);
        assert_eq!(rate(100, 10.0), None);
        assert_eq!(rate(150, 12.0), Some(25.0));
        assert_eq!(rate(150, 13.0), Some(0.0));
        assert_eq!(rate(3, 1.0), None, "the node was restarted");
        assert_eq!(rate(5, 2.0), Some(2.0));
    }

    #[test]
    fn the_heading_stays_and_the_rest_moves() {
        let page = Page {
            node: String::new(),
            head: vec!["HEAD".into()],
            lines: (0..30).map(|i| format!("row {i}")).collect(),
        };
        let mut first = 0;
        let lay = |first: &mut usize| lay_out(vec!["title".into()], &page, 10, first);
        let lines = lay(&mut first);
        assert_eq!(lines.len(), 10);
        assert_eq!(lines[..3], ["title", "HEAD", "row 0"]);
        assert!(lines[9].contains("1 to 7 of 30"), "{}", lines[9]);
        first = 1_000;
        let lines = lay(&mut first);
        assert_eq!((lines[1].as_str(), lines[8].as_str()), ("HEAD", "row 29"));
        let few = Page::text("one\ntwo");
        assert_eq!(lay_out(Vec::new(), &few, 10, &mut first), ["one", "two"]);
        assert_eq!(first, 0);
    }

    #[test]
    fn keys_end_and_move() {
        let mut first = 3;
        assert_eq!(asked(b"q", &mut first), Asked::End);
        assert_eq!(asked(b"\x1b", &mut first), Asked::End);
        assert_eq!(asked(b"x", &mut first), Asked::Nothing);
        assert_eq!(asked(b"", &mut first), Asked::Nothing);
        assert_eq!((asked(b"\x1b[B", &mut first), first), (Asked::Move, 4));
        assert_eq!((asked(b"k", &mut first), first), (Asked::Move, 3));
    }
}
