//! The node's log: one line per change of state, derived from events, on standard error or in a file.
//!
//! ```text
//!   engine's thread --event--> Log --line--.
//!   other threads -------------line--------+--> bounded queue --> a thread that writes
//!
//!   text      2026-11-23T08:40:05.123Z info ams: link to 10.7.0.2 is up
//!   json      {"time":"2026-11-23T08:40:05.123Z","level":"info","node":"ams","text":"link to 10.7.0.2 is up"}
//!   journal   <6>ams: link to 10.7.0.2 is up          systemd takes the number as PRIORITY, and has the time
//! ```
//! Packets are never logged. A line that others can provoke (by handshakes that are refused) is
//! said once for each address and reason, then once a minute with the number of those left out, and
//! all of them together are limited in rate. A standard error that does not take what is written (a
//! stopped terminal, a full pipe) holds nobody up: lines are lost then, and their number is told.

use crate::date::moment;
use base::token_bucket::TokenBucket;
use base::{NodeAddr, Time, UnderlayAddr};
use net::clock::Clock;
use overlay::event::Event;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// Lines per second about what others can provoke, and how many may come at once.
const PROVOKED_PER_S: f64 = 1.0;
const PROVOKED_AT_ONCE: f64 = 10.0;
/// A line of one kind about one address is said again after so long.
const REPEATED: base::Duration = base::Duration::from_secs(60);
/// Addresses and kinds that are told apart: 64 of some 100 bytes. The oldest makes room.
const MAX_KINDS: usize = 64;
/// Lines that may wait for standard error: some 100 KB, more than a node says in an hour.
const MAX_WAITING: usize = 1_024;
/// How long the end of the process waits for the last lines to be written.
const PATIENCE: Duration = Duration::from_secs(1);

/// How much a line matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something does not work, and will not by itself.
    Error,
    /// Something is not as it should be.
    Warning,
    /// What happens.
    #[default]
    Info,
}

/// How a line is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// For people: time, level, node, text.
    #[default]
    Text,
    /// An object for each line.
    Json,
    /// With the level as systemd's journal takes it.
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

/// Where lines go; for any thread. Copies share one queue.
#[derive(Clone, Debug)]
pub struct Lines {
    style: Arc<Style>,
    /// None says nothing.
    queue: Option<SyncSender<Message>>,
    lost: Arc<AtomicU64>,
    /// What matters less is not said.
    level: Arc<AtomicU8>,
}

/// What is the same of all lines.
#[derive(Debug)]
struct Style {
    name: Box<str>,
    clock: Clock,
    format: Format,
}

impl Style {
    fn line(&self, level: Level, text: &str) -> String {
        let name = &self.name;
        let time = || moment(self.clock.unix_ms());
        match self.format {
            Format::Text => format!("{} {} {name}: {text}\n", time(), level.label()),
            Format::Json => {
                let line = serde_json::json!({
                    "time": time(), "level": level.label(), "node": name, "text": text,
                });
                format!("{line}\n")
            }
            Format::Journal => format!("<{}>{name}: {text}\n", level.priority()),
        }
    }
}

/// What the thread that writes is told.
enum Message {
    Line(String),
    /// From here on lines go there.
    Sink(Box<dyn Write + Send>),
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

    /// The word in a line.
    pub const fn label(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warning => "warning",
            Level::Info => "info",
        }
    }

    /// As syslog(3) counts.
    const fn priority(self) -> u8 {
        match self {
            Level::Error => 3,
            Level::Warning => 4,
            Level::Info => 6,
        }
    }
}

/// Waits, when it is dropped, until the lines are written, though not for ever.
#[derive(Debug)]
pub struct Flushed {
    done: Receiver<()>,
}

impl Lines {
    /// Lines that tell the time of day by `clock`, how much they matter, and the node's name,
    /// written to standard error, or nowhere if `quiet`. The first part is to be dropped last.
    pub fn new(name: &str, clock: Clock, quiet: bool) -> (Flushed, Lines) {
        Lines::formatted(name, clock, quiet, Format::Text)
    }

    /// The same in another format.
    pub fn formatted(name: &str, clock: Clock, quiet: bool, format: Format) -> (Flushed, Lines) {
        Lines::to((name, clock, format), (!quiet).then(io::stderr))
    }

    fn to<W: Write + Send + 'static>(
        (name, clock, format): (&str, Clock, Format),
        sink: Option<W>,
    ) -> (Flushed, Lines) {
        let style = Arc::new(Style {
            name: name.into(),
            clock,
            format,
        });
        let (finished, done) = sync_channel(1);
        let lost = Arc::new(AtomicU64::new(0));
        let queue = sink.and_then(|sink| {
            let (queue, messages) = sync_channel(MAX_WAITING);
            let lost = Arc::clone(&lost);
            let style = Arc::clone(&style);
            let thread = std::thread::Builder::new()
                .name("log".into())
                .spawn(move || {
                    write_all(Box::new(sink), &messages, &lost, &style);
                    let _ = finished.send(());
                });
            thread.ok().map(|_| queue)
        });
        (
            Flushed { done },
            Lines {
                style,
                queue,
                lost,
                level: Arc::new(AtomicU8::new(Level::Info as u8)),
            },
        )
    }

    /// Says what matters as much as `level` and more, from now on.
    pub fn set_level(&self, level: Level) {
        self.level.store(level as u8, Ordering::Relaxed);
    }

    /// Appends lines to a file from now on, or to the one that has its name now.
    pub fn append_to(&self, path: &Path) -> io::Result<()> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        if let Some(queue) = &self.queue {
            // Whoever asks for it can wait until the lines before are written.
            let _ = queue.send(Message::Sink(Box::new(file)));
        }
        Ok(())
    }

    /// Writes to standard error from now on.
    pub fn to_standard_error(&self) {
        if let Some(queue) = &self.queue {
            let _ = queue.send(Message::Sink(Box::new(io::stderr())));
        }
    }

    /// Writes one line about what happens.
    pub fn say(&self, text: &str) {
        self.at(Level::Info, text);
    }

    /// Writes one line about what is not as it should be.
    pub fn warn(&self, text: &str) {
        self.at(Level::Warning, text);
    }

    /// Writes one line about what does not work.
    pub fn error(&self, text: &str) {
        self.at(Level::Error, text);
    }

    fn at(&self, level: Level, text: &str) {
        let Some(queue) = &self.queue else { return };
        if level as u8 > self.level.load(Ordering::Relaxed) {
            return;
        }
        let line = self.style.line(level, text);
        if queue.try_send(Message::Line(line)).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Flushed {
    fn drop(&mut self) {
        // The writer goes when the last copy of `Lines` has gone; whoever is left is not waited for.
        let _: Result<(), RecvTimeoutError> = self.done.recv_timeout(PATIENCE);
    }
}

fn write_all(
    mut sink: Box<dyn Write + Send>,
    messages: &Receiver<Message>,
    lost: &AtomicU64,
    style: &Style,
) {
    for message in messages {
        let line = match message {
            Message::Line(line) => line,
            Message::Sink(next) => {
                let _ = sink.flush();
                sink = next;
                continue;
            }
        };
        // Nobody can be told that standard error is gone.
        let _ = sink.write_all(line.as_bytes());
        let left_out = lost.swap(0, Ordering::Relaxed);
        if left_out > 0 {
            let told = format!("{left_out} lines were lost: standard error was not read");
            let _ = sink.write_all(style.line(Level::Warning, &told).as_bytes());
        }
    }
    let _ = sink.flush();
}

/// The log of the loop.
#[derive(Debug)]
pub struct Log {
    lines: Lines,
    provoked: TokenBucket,
    left_out: BTreeMap<&'static str, u64>,
    /// What was said of whom, by address and kind.
    said: BTreeMap<([u8; 16], &'static str), Said>,
    /// Sessions that were told and have not become a link since: a neighbour that answers and then
    /// refuses is dialled for ever.
    sessions: BTreeMap<NodeAddr, Said>,
}

/// A line that others have provoked: when it was said, and how often it was left out since.
#[derive(Debug)]
struct Said {
    at: Time,
    left_out: u64,
}

impl Log {
    /// A log that writes `lines`.
    pub fn new(lines: Lines) -> Log {
        let provoked = TokenBucket::new(PROVOKED_PER_S, PROVOKED_AT_ONCE, Time::ZERO);
        Log {
            lines,
            provoked,
            left_out: BTreeMap::new(),
            said: BTreeMap::new(),
            sessions: BTreeMap::new(),
        }
    }

    /// Where the lines go.
    pub fn lines(&self) -> &Lines {
        &self.lines
    }

    /// Logs an event, if it is one that an operator wants to read.
    pub fn event(&mut self, now: Time, event: &Event) {
        match *event {
            Event::Established { peer, at } => self.session(now, peer, at),
            Event::Refused { from, why } => {
                let text = format!("handshake with {from} refused: {why}");
                self.about(now, from, why.label(), &text);
            }
            Event::EndRefused { node, why } => self
                .lines
                .warn(&format!("no session from end to end with {node}: {why}")),
            Event::Unanswered { peer, at, silence } => {
                let seconds = silence.as_millis() / 1_000;
                self.lines.warn(&format!(
                    "no answer from {at}: is UDP open there? ({peer}, for {seconds} s; it may also \
                     not run, or be of another network)"
                ));
            }
            Event::PathBad { to, lost } => {
                let text = format!(
                    "a path to {to} lost {} % more than its links say: others are tried",
                    f64::from(lost) / 10.0
                );
                self.limited(now, "paths", &text);
            }
            Event::Suspected {
                suspect,
                to,
                lost,
                among,
            } => {
                let among = match among {
                    0 | 1 => String::new(),
                    many => format!(" (or another of {many})"),
                };
                self.lines.warn(&format!(
                    "{suspect}{among} swallows {} % of what goes to {to}, though its links look well: \
                     packets go around it",
                    f64::from(lost) / 10.0
                ));
            }
            Event::GroupStarved { group, to, lost } => {
                let text = format!(
                    "the tree of {group} lost {} % of what goes to {to}, more than its links say: {to} gets each \
                     packet a second time",
                    f64::from(lost) / 10.0
                );
                self.limited(now, "trees", &text);
            }
            Event::GroupWhole { group, to } => {
                let text = format!("the tree of {group} carries packets to {to} again");
                self.limited(now, "trees", &text);
            }
            Event::Unsuspected { suspect, to } => {
                self.line(&format!("{suspect} carries packets to {to} again"));
            }
            Event::LinkUp { peer } => {
                self.sessions.remove(&peer);
                self.line(&format!("link to {peer} is up"));
            }
            Event::LinkDown { peer, why } => {
                self.lines.warn(&format!("link to {peer} is down: {why}"));
            }
            Event::Way { peer, is_stream } => self.line(&match is_stream {
                true => format!("link to {peer} runs over TCP: UDP has no answer"),
                false => format!("link to {peer} runs over UDP again"),
            }),
            Event::PathChanged {
                peer,
                from,
                to,
                why,
            } => self.line(&format!(
                "link to {peer}: path changed from {from} (socket {}) to {to} (socket {}): {why}",
                from.socket, to.socket
            )),
            Event::Moved { peer, at } => self.line(&format!("{peer} is reached at {at} now")),
            Event::RecordRefused { origin } => {
                let text = format!("a record that claims to be of {origin} was refused");
                self.limited(now, "records", &text);
            }
            Event::RootSucceeded { number, until_s } => self.lines.warn(&format!(
                "the network has root key {number} now: certificates of older ones count until {}",
                crate::date::until(until_s)
            )),
            Event::RootRefused { number } => {
                let text = format!(
                    "another root key {number} than the known one was refused: if the old root key signed it, somebody \
                     else has that key"
                );
                self.limited(now, "roots", &text);
            }
            Event::GroupsIgnored { by, group, prefix } => {
                let text = format!(
                    "what {by} says of {group}/{prefix} is ignored: its certificate does not let it set these groups"
                );
                self.limited(now, "groups", &text);
            }
            _ => {}
        }
    }

    /// Writes one line.
    pub fn line(&self, text: &str) {
        self.lines.say(text);
    }

    /// Writes a line that others can provoke, or counts it under `label` when there are too many.
    /// True if it was written.
    pub fn limited(&mut self, now: Time, label: &'static str, text: &str) -> bool {
        if !self.provoked.try_take(now, 1.0) {
            *self.left_out.entry(label).or_default() += 1;
            return false;
        }
        self.lines.warn(text);
        for (label, count) in core::mem::take(&mut self.left_out) {
            self.lines.warn(&format!(
                "{count} more lines of this kind left out: {label}"
            ));
        }
        true
    }

    /// A session that comes to nothing begins again every few seconds: it is said once a minute.
    fn session(&mut self, now: Time, peer: NodeAddr, at: UnderlayAddr) {
        let mut text = format!("session with {peer} at {at}");
        if let Some(said) = self.sessions.get_mut(&peer) {
            if now.since(said.at) < REPEATED {
                said.left_out += 1;
                return;
            }
            text += &format!(
                ", and {} more since this was said last: none has become a link",
                said.left_out
            );
        }
        if self.sessions.len() >= MAX_KINDS {
            self.sessions.clear();
        }
        let said = Said {
            at: now,
            left_out: 0,
        };
        self.sessions.insert(peer, said);
        self.line(&text);
    }

    /// The same for a line about an address that may repeat what was said of it: once a minute.
    fn about(&mut self, now: Time, from: UnderlayAddr, label: &'static str, text: &str) {
        let key = (from.ip, label);
        if let Some(said) = self.said.get_mut(&key) {
            if now.since(said.at) < REPEATED {
                said.left_out += 1;
                return;
            }
            let left_out = core::mem::take(&mut said.left_out);
            said.at = now;
            return self.lines.warn(&match left_out {
                0 => text.to_owned(),
                _ => format!("{text} ({left_out} more times since this was said last)"),
            });
        }
        if !self.limited(now, label, text) {
            return;
        }
        if self.said.len() >= MAX_KINDS {
            let oldest = self.said.iter().min_by_key(|(_, said)| said.at);
            if let Some(oldest) = oldest.map(|(key, _)| *key) {
                self.said.remove(&oldest);
            }
        }
        let said = Said {
            at: now,
            left_out: 0,
        };
        self.said.insert(key, said);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Condvar, Mutex};

    /// A sink that keeps what is written, and takes nothing while it is shut.
    #[derive(Clone, Default)]
    struct Sink(Arc<(Mutex<(bool, String)>, Condvar)>);

    impl Sink {
        fn shut(&self, shut: bool) {
            self.0.0.lock().unwrap().0 = shut;
            self.0.1.notify_all();
        }
        fn text(&self) -> String {
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

    #[test]
    fn refusals_are_limited_and_what_was_left_out_is_told() {
        let sink = Sink::default();
        let (flushed, lines) = Lines::to(("ams", Clock::new(), Format::Text), Some(sink.clone()));
        let mut log = Log::new(lines);
        let refused = |host: u8| Event::Refused {
            from: net::addr::underlay(format!("192.0.2.{host}:7700").parse().unwrap(), 0),
            why: secure::Refusal::Mac,
        };
        // One that dials again and again is named once, and later again with the number.
        for _ in 0..100 {
            log.event(Time::ZERO, &refused(1));
        }
        log.event(Time::ZERO + REPEATED, &refused(1));
        // Very many are not named each.
        for host in 2..102 {
            log.event(Time::ZERO + REPEATED, &refused(host));
        }
        log.event(Time::ZERO + REPEATED * 2, &refused(200));
        drop(log);
        drop(flushed);
        let text = sink.text();
        let named = text.matches("handshake with 192.0.2.1:7700 refused");
        assert_eq!(named.count(), 2, "{text}");
        assert!(text.contains("(99 more times"), "{text}");
        let all = text.matches("refused: mac1").count();
        assert_eq!(all, 2 + PROVOKED_AT_ONCE as usize + 1, "{text}");
        assert!(
            text.contains("90 more lines of this kind left out: mac"),
            "{text}"
        );
    }

    #[test]
    fn a_session_that_becomes_no_link_is_said_once_a_minute() {
        let sink = Sink::default();
        let (flushed, lines) = Lines::to(("fra", Clock::new(), Format::Text), Some(sink.clone()));
        let mut log = Log::new(lines);
        let session = |peer| Event::Established {
            peer: NodeAddr(peer),
            at: net::addr::underlay("192.0.2.1:7700".parse().unwrap(), 0),
        };
        // A node that was revoked dials two others for ever: both answer, and then say nothing.
        for seconds in 0..=60 {
            let now = Time::ZERO + base::Duration::from_secs(seconds);
            log.event(now, &session(1));
            log.event(now, &session(2));
        }
        // A neighbour that was restarted: both sessions become links, both are news.
        let peer = NodeAddr(3);
        for _ in 0..2 {
            log.event(Time::ZERO, &session(peer.0));
            log.event(Time::ZERO, &Event::LinkUp { peer });
        }
        drop(log);
        drop(flushed);
        let text = sink.text();
        for (peer, lines) in [(1, 2), (2, 2), (3, 2)] {
            let line = format!("session with {} at", NodeAddr(peer));
            assert_eq!(text.matches(&line).count(), lines, "{text}");
        }
        assert_eq!(text.matches("and 59 more").count(), 2, "{text}");
    }

    #[test]
    fn a_line_has_the_time_of_day_and_how_much_it_matters() {
        let sink = Sink::default();
        let (flushed, lines) = Lines::to(("ams", Clock::new(), Format::Text), Some(sink.clone()));
        lines.say("one");
        lines.set_level(Level::Warning);
        lines.say("two");
        lines.warn("three");
        drop(lines);
        drop(flushed);
        let text = sink.text();
        let [one, three] = text.lines().collect::<Vec<_>>()[..] else {
            panic!("{text}")
        };
        assert!(three.ends_with("Z warning ams: three"), "{three}");
        let (time, line) = one.split_once(' ').unwrap();
        assert_eq!(line, "info ams: one");
        let year: u64 = time[..4].parse().unwrap();
        assert!(
            time.len() == 24 && time.ends_with('Z') && year > 2020,
            "{time}"
        );
    }

    #[test]
    fn programs_get_an_object_and_the_journal_a_priority() {
        let written = |format| {
            let sink = Sink::default();
            let (flushed, lines) = Lines::to(("ams", Clock::new(), format), Some(sink.clone()));
            lines.warn("\"two\"\nlines");
            drop(lines);
            drop(flushed);
            sink.text()
        };
        let said = written(Format::Json);
        let line: serde_json::Value = serde_json::from_str(&said).unwrap();
        let word = |key: &str| line[key].as_str().unwrap();
        let told = (
            word("level"),
            word("node"),
            word("text"),
            word("time").len(),
        );
        assert_eq!(told, ("warning", "ams", "\"two\"\nlines", 24));
        assert_eq!(said.lines().count(), 1);
        assert!(written(Format::Journal).starts_with("<4>ams: "));
    }

    #[test]
    fn a_file_that_was_renamed_is_left_for_a_new_one_of_its_name() {
        let dir = crate::files::test_directory("log");
        let path = dir.join("sinew.log");
        let (flushed, lines) =
            Lines::to(("ams", Clock::new(), Format::Text), Some(Sink::default()));
        lines.append_to(&path).unwrap();
        lines.say("one");
        std::fs::rename(&path, dir.join("sinew.log.1")).unwrap();
        lines.append_to(&path).unwrap();
        lines.say("two");
        drop(lines);
        drop(flushed);
        let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
        assert!(read("sinew.log.1").contains("one") && read("sinew.log").contains("two"));
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_sink_that_takes_nothing_holds_nobody_up() {
        let sink = Sink::default();
        sink.shut(true);
        let (flushed, lines) = Lines::to(("ams", Clock::new(), Format::Text), Some(sink.clone()));
        for i in 0..MAX_WAITING + 10 {
            lines.say(&format!("line {i}"));
        }
        sink.shut(false);
        drop(lines);
        drop(flushed);
        let text = sink.text();
        assert!(
            text.contains("line 0") && text.contains("lines were lost"),
            "{text}"
        );
    }
}
