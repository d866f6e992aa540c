//! The lines of a log: their formats, and the thread that writes them.
//!
//! ```text
//!   text      2026-11-23T08:40:05.123Z info ams: link to 10.7.0.2 is up
//!   json      {"event":"link-up","level":"info","node":"ams","peer":"10.7.0.2","text":"link to 10.7.0.2 is up",
//!              "time":"2026-11-23T08:40:05.123Z"}
//!   journal   an entry with fields, by [`super::journal`]; where that is not there, on standard error:
//!             <6>ams: link to 10.7.0.2 is up          systemd takes the number as PRIORITY, and has the time
//! ```
//! Lines in a file always have times. Standard error needs none in the format for the journal, because systemd adds
//! them.

use super::fields::Fields;
use super::journal::{self, Journal};
use crate::date::moment;
use net::clock::Clock;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// Number of lines that may wait for standard error: some 100 KB, more than a node writes in an hour.
const MAX_WAITING: usize = 1_024;
/// How long the end of the process waits for the last lines to be written.
const PATIENCE: Duration = Duration::from_secs(1);

/// The importance of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something does not work, and will not recover by itself.
    Error,
    /// Something is wrong.
    Warning,
    /// A normal event.
    #[default]
    Info,
}

/// The format of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// For people: time, level, node, text.
    #[default]
    Text,
    /// JSON: one object for each line.
    Json,
    /// For systemd's journal, with the level as a number. A file gets text.
    Journal,
}

impl std::str::FromStr for Format {
    type Err = String;
    fn from_str(word: &str) -> Result<Format, String> {
        match word {
            "text" => Ok(Format::Text),
            "json" => Ok(Format::Json),
            "journal" => Ok(Format::Journal),
            _ => Err(format!("`{word}`: write text, json or journal")),
        }
    }
}

/// The destination of lines, for any thread. Copies share one queue.
#[derive(Clone, Debug)]
pub struct Lines {
    clock: Clock,
    /// With none, nothing is written.
    queue: Option<SyncSender<Message>>,
    lost: Arc<AtomicU64>,
    /// The least important level that is written.
    level: Arc<AtomicU8>,
    format: Format,
}

/// The properties that all lines have in common.
#[derive(Debug)]
struct Style {
    name: Box<str>,
    format: Format,
}

impl Style {
    fn line(&self, format: Format, said: &Said) -> String {
        let Said {
            unix_ms,
            level,
            text,
            fields,
        } = said;
        let name = &self.name;
        match format {
            Format::Text => format!("{} {} {name}: {text}\n", moment(*unix_ms), level.label()),
            Format::Json => {
                let mut line = serde_json::json!({
                    "time": moment(*unix_ms), "level": level.label(), "node": name, "text": text,
                });
                for (key, value) in fields.iter() {
                    line[key] = value.into();
                }
                format!("{line}\n")
            }
            // The journal treats each line as a message. A line without a number would get the priority of normal
            // events, and a number within a text would count as priority.
            Format::Journal => {
                let level = level.priority();
                let lines = text
                    .lines()
                    .map(|line| format!("<{level}>{name}: {line}\n"));
                lines.collect()
            }
        }
    }

    /// Returns the format of lines in a file, to which no other program adds the time.
    fn of_file(&self) -> Format {
        match self.format {
            Format::Journal => Format::Text,
            format @ (Format::Text | Format::Json) => format,
        }
    }
}

/// A line, and when it was written.
struct Said {
    unix_ms: u64,
    level: Level,
    text: String,
    fields: Fields,
}

/// A message to the thread that writes.
enum Message {
    Said(Said),
    /// The destination of lines from here on.
    Sink(Sink),
}

/// A destination of lines.
enum Sink {
    Console(Box<dyn Write + Send>),
    /// The journal, and standard error for what the journal does not accept.
    Journal(Journal, Box<dyn Write + Send>),
    File(File),
}

impl std::str::FromStr for Level {
    type Err = String;
    fn from_str(word: &str) -> Result<Level, String> {
        let level = Level::ALL.into_iter().find(|level| level.label() == word);
        level.ok_or_else(|| format!("`{word}`: write error, warning or info"))
    }
}

impl Level {
    const ALL: [Level; 3] = [Level::Error, Level::Warning, Level::Info];

    /// Returns the word for the level in a line.
    pub const fn label(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warning => "warning",
            Level::Info => "info",
        }
    }

    /// Returns the priority as defined by syslog(3).
    const fn priority(self) -> u8 {
        match self {
            Level::Error => 3,
            Level::Warning => 4,
            Level::Info => 6,
        }
    }
}

/// When it is dropped, it waits until the lines are written, up to a time limit.
#[derive(Debug)]
pub struct Flushed {
    done: Receiver<()>,
}

impl Lines {
    /// Creates lines with the time by `clock`, their level, and the node's name. They are written to standard error, or
    /// nowhere if `quiet`. The first value returned has to be dropped last.
    pub fn new(name: &str, clock: Clock, quiet: bool) -> (Flushed, Lines) {
        Lines::formatted(name, clock, quiet, Format::Text)
    }

    /// Creates the same in another format.
    pub fn formatted(name: &str, clock: Clock, quiet: bool, format: Format) -> (Flushed, Lines) {
        let sink = (!quiet).then(io::stderr);
        Lines::by(journal::of_standard_error(), (name, clock, format), sink)
    }

    /// Creates the same without a journal, with output that tests can read.
    #[cfg(test)]
    pub(super) fn to<W: Write + Send + 'static>(
        of: (&str, Clock, Format),
        sink: Option<W>,
    ) -> (Flushed, Lines) {
        Lines::by(None, of, sink)
    }

    /// Creates the same with a journal that listens at a path, if there is one.
    fn by<W: Write + Send + 'static>(
        journal: Option<&Path>,
        (name, clock, format): (&str, Clock, Format),
        sink: Option<W>,
    ) -> (Flushed, Lines) {
        let style = Style {
            name: name.into(),
            format,
        };
        let journal = journal.map(Path::to_owned);
        let (finished, done) = sync_channel(1);
        let lost = Arc::new(AtomicU64::new(0));
        let queue = sink.and_then(|sink| {
            let (queue, messages) = sync_channel(MAX_WAITING);
            let lost = Arc::clone(&lost);
            let thread = std::thread::Builder::new()
                .name("log".into())
                .spawn(move || {
                    let sink = Sink::console(Box::new(sink), format, journal.as_deref());
                    write_all(sink, &messages, (&lost, clock), &style);
                    let _ = finished.send(());
                });
            thread.ok().map(|_| queue)
        });
        (
            Flushed { done },
            Lines {
                clock,
                queue,
                lost,
                level: Arc::new(AtomicU8::new(Level::Info as u8)),
                format,
            },
        )
    }

    /// Sets the level: from now on, lines of this and higher importance are written.
    pub fn set_level(&self, level: Level) {
        self.level.store(level as u8, Ordering::Relaxed);
    }

    /// Appends lines to a file from now on. If the file was already in use but renamed, a new file is opened under the
    /// name.
    pub fn append_to(&self, path: &Path) -> io::Result<()> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        if let Some(queue) = &self.queue {
            // The caller may wait here until the queued lines are written.
            let _ = queue.send(Message::Sink(Sink::File(file)));
        }
        Ok(())
    }

    /// Writes lines to standard error from now on.
    pub fn to_standard_error(&self) {
        if let Some(queue) = &self.queue {
            let console = Sink::console(
                Box::new(io::stderr()),
                self.format,
                journal::of_standard_error(),
            );
            let _ = queue.send(Message::Sink(console));
        }
    }

    /// Writes one line about a normal event.
    pub fn say(&self, text: &str) {
        self.tell(Level::Info, text, Fields::default);
    }

    /// Writes one line about something that is wrong.
    pub fn warn(&self, text: &str) {
        self.tell(Level::Warning, text, Fields::default);
    }

    /// Writes one line about something that does not work.
    pub fn error(&self, text: &str) {
        self.tell(Level::Error, text, Fields::default);
    }

    /// Writes one line, with `fields` for programs.
    pub fn tell(&self, level: Level, text: &str, fields: impl FnOnce() -> Fields) {
        let Some(queue) = &self.queue else { return };
        if level as u8 > self.level.load(Ordering::Relaxed) {
            return;
        }
        let said = Said {
            unix_ms: self.clock.unix_ms(),
            level,
            text: text.to_owned(),
            fields: fields(),
        };
        if queue.try_send(Message::Said(said)).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Flushed {
    fn drop(&mut self) {
        // The writer ends when the last copy of `Lines` is dropped. If a copy still exists, the wait ends after a time.
        let _: Result<(), RecvTimeoutError> = self.done.recv_timeout(PATIENCE);
    }
}

fn write_all(
    mut sink: Sink,
    messages: &Receiver<Message>,
    (lost, clock): (&AtomicU64, Clock),
    style: &Style,
) {
    // A disk that was full may have taken the beginning of a line.
    let mut is_torn = false;
    for message in messages {
        let said = match message {
            Message::Said(said) => said,
            Message::Sink(next) => {
                sink.flush();
                (sink, is_torn) = (next, false);
                continue;
            }
        };
        let ended = if is_torn { sink.end_line() } else { Ok(()) };
        is_torn = ended.and_then(|()| sink.write(style, &said)).is_err();
        if is_torn {
            lost.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        let left_out = lost.swap(0, Ordering::Relaxed);
        if left_out > 0 {
            let said = Said {
                unix_ms: clock.unix_ms(),
                level: Level::Warning,
                text: format!("{left_out} lines were lost: they could not be written"),
                fields: Fields::event("lines-lost").with("lines", left_out),
            };
            is_torn = sink.write(style, &said).is_err();
            if is_torn {
                lost.fetch_add(left_out, Ordering::Relaxed);
            }
        }
    }
    sink.flush();
}

impl Sink {
    /// Returns standard error, preceded by the journal if the format asks for it and the journal exists.
    fn console(console: Box<dyn Write + Send>, format: Format, journal: Option<&Path>) -> Sink {
        let journal = journal.filter(|_| format == Format::Journal);
        match journal.and_then(Journal::at) {
            Some(journal) => Sink::Journal(journal, console),
            None => Sink::Console(console),
        }
    }

    fn write(&mut self, style: &Style, said: &Said) -> io::Result<()> {
        if let Sink::Journal(journal, _) = self {
            let of = (&*style.name, said.level.priority());
            if journal.write(of, &said.text, &said.fields).is_ok() {
                return Ok(());
            }
        }
        let format = match self {
            Sink::Console(_) | Sink::Journal(..) => style.format,
            Sink::File(_) => style.of_file(),
        };
        let line = style.line(format, said);
        self.writer().write_all(line.as_bytes())
    }

    /// Ends a line of which only a part was written.
    fn end_line(&mut self) -> io::Result<()> {
        self.writer().write_all(b"\n")
    }

    fn flush(&mut self) {
        let _ = self.writer().flush();
    }

    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Sink::Console(console) | Sink::Journal(_, console) => console,
            Sink::File(file) => file,
        }
    }
}

#[cfg(test)]
pub(super) mod sink {
    use super::*;
    use std::sync::{Condvar, Mutex};

    /// A sink that keeps what is written, and blocks while it is shut.
    #[derive(Clone, Default)]
    pub(in crate::log) struct Sink(Arc<(Mutex<(bool, String)>, Condvar)>);

    impl Sink {
        pub(in crate::log) fn shut(&self, shut: bool) {
            self.0.0.lock().unwrap().0 = shut;
            self.0.1.notify_all();
        }
        pub(in crate::log) fn text(&self) -> String {
            self.0.0.lock().unwrap().1.clone()
        }
    }

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let guard = self.0.0.lock().unwrap();
            let mut guard = self.0.1.wait_while(guard, |(shut, _)| *shut).unwrap();
            guard.1.push_str(std::str::from_utf8(bytes).unwrap());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests;
