//! The node's log: one line per change of state, derived from events, on standard error.
//!
//! ```text
//!   engine's thread --event--> Log --line--.
//!   other threads -------------line--------+--> bounded queue --> a thread that writes
//! ```
//! Packets are never logged. A line that others can provoke (by handshakes that are refused) is
//! limited in rate, and the next line tells how many were left out. A standard error that does not
//! take what is written (a stopped terminal, a full pipe) holds nobody up: lines are lost then, and
//! their number is told.

use base::Time;
use base::token_bucket::TokenBucket;
use net::clock::Clock;
use overlay::event::Event;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// Lines per second about what others can provoke, and how many may come at once.
const PROVOKED_PER_S: f64 = 1.0;
const PROVOKED_AT_ONCE: f64 = 10.0;
/// Lines that may wait for standard error: some 100 KB, more than a node says in an hour.
const MAX_WAITING: usize = 1_024;
/// How long the end of the process waits for the last lines to be written.
const PATIENCE: Duration = Duration::from_secs(1);

/// Where lines go; for any thread. Copies share one queue.
#[derive(Clone, Debug)]
pub struct Lines {
    name: Arc<str>,
    clock: Clock,
    /// None says nothing.
    queue: Option<SyncSender<String>>,
    lost: Arc<AtomicU64>,
}

/// Waits, when it is dropped, until the lines are written, though not for ever.
#[derive(Debug)]
pub struct Flushed {
    done: Receiver<()>,
}

impl Lines {
    /// Lines that begin with the time since the start of `clock` and the node's name, written to
    /// standard error, or nowhere if `quiet`. The first part is to be dropped last.
    pub fn new(name: &str, clock: Clock, quiet: bool) -> (Flushed, Lines) {
        Lines::to(name, clock, (!quiet).then(std::io::stderr))
    }

    fn to<W: Write + Send + 'static>(
        name: &str,
        clock: Clock,
        sink: Option<W>,
    ) -> (Flushed, Lines) {
        let (finished, done) = sync_channel(1);
        let lost = Arc::new(AtomicU64::new(0));
        let queue = sink.and_then(|sink| {
            let (queue, lines) = sync_channel(MAX_WAITING);
            let lost = Arc::clone(&lost);
            let thread = std::thread::Builder::new()
                .name("log".into())
                .spawn(move || {
                    write_all(sink, &lines, &lost);
                    let _ = finished.send(());
                });
            thread.ok().map(|_| queue)
        });
        (
            Flushed { done },
            Lines {
                name: name.into(),
                clock,
                queue,
                lost,
            },
        )
    }

    /// Writes one line.
    pub fn say(&self, text: &str) {
        let Some(queue) = &self.queue else { return };
        let line = format!("{} {}: {text}\n", self.clock.now(), self.name);
        if queue.try_send(line).is_err() {
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

fn write_all(mut sink: impl Write, lines: &Receiver<String>, lost: &AtomicU64) {
    for line in lines {
        // Nobody can be told that standard error is gone.
        let _ = sink.write_all(line.as_bytes());
        let left_out = lost.swap(0, Ordering::Relaxed);
        if left_out > 0 {
            let _ = writeln!(
                sink,
                "{left_out} lines were lost: standard error was not read"
            );
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
}

impl Log {
    /// A log that writes `lines`.
    pub fn new(lines: Lines) -> Log {
        let provoked = TokenBucket::new(PROVOKED_PER_S, PROVOKED_AT_ONCE, Time::ZERO);
        Log {
            lines,
            provoked,
            left_out: BTreeMap::new(),
        }
    }

    /// Where the lines go.
    pub fn lines(&self) -> &Lines {
        &self.lines
    }

    /// Logs an event, if it is one that an operator wants to read.
    pub fn event(&mut self, now: Time, event: &Event) {
        match *event {
            Event::Established { peer, at } => self.line(&format!("session with {peer} at {at}")),
            Event::Refused { from, why } => {
                let text = format!("handshake with {from} refused: {why}");
                self.limited(now, why.label(), &text);
            }
            Event::LinkUp { peer } => self.line(&format!("link to {peer} is up")),
            Event::LinkDown { peer, why } => self.line(&format!("link to {peer} is down: {why}")),
            Event::Moved { peer, at } => self.line(&format!("{peer} is reached at {at} now")),
            Event::RecordRefused { origin } => {
                let text = format!("a record that claims to be of {origin} was refused");
                self.limited(now, "records", &text);
            }
            _ => {}
        }
    }

    /// Writes one line.
    pub fn line(&self, text: &str) {
        self.lines.say(text);
    }

    /// Writes a line that others can provoke, or counts it under `label` when there are too many.
    pub fn limited(&mut self, now: Time, label: &'static str, text: &str) {
        if !self.provoked.try_take(now, 1.0) {
            *self.left_out.entry(label).or_default() += 1;
            return;
        }
        self.line(text);
        for (label, count) in core::mem::take(&mut self.left_out) {
            self.line(&format!(
                "{count} more lines of this kind left out: {label}"
            ));
        }
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
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let guard = self.0.0.lock().unwrap();
            let mut guard = self.0.1.wait_while(guard, |(shut, _)| *shut).unwrap();
            guard.1.push_str(std::str::from_utf8(bytes).unwrap());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn refusals_are_limited_and_what_was_left_out_is_told() {
        let sink = Sink::default();
        let (flushed, lines) = Lines::to("ams", Clock::new(), Some(sink.clone()));
        let mut log = Log::new(lines);
        let from = net::addr::underlay("192.0.2.1:7700".parse().unwrap(), 0);
        let event = Event::Refused {
            from,
            why: secure::Refusal::Mac,
        };
        for _ in 0..100 {
            log.event(Time::ZERO, &event);
        }
        log.event(Time::from_nanos(2_000_000_000), &event);
        drop(log);
        drop(flushed);
        let text = sink.text();
        let refused = text
            .matches("handshake with 192.0.2.1:7700 refused")
            .count();
        assert_eq!(refused, PROVOKED_AT_ONCE as usize + 1, "{text}");
        assert!(
            text.contains("90 more lines of this kind left out: mac"),
            "{text}"
        );
    }

    #[test]
    fn a_sink_that_takes_nothing_holds_nobody_up() {
        let sink = Sink::default();
        sink.shut(true);
        let (flushed, lines) = Lines::to("ams", Clock::new(), Some(sink.clone()));
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
