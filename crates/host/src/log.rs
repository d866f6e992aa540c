//! The node's log: one line per change of state, derived from events, on standard error or in a file.
//!
//! ```text
//!   engine's thread --event--> Log --line--.
//!   other threads -------------line--------+--> [`Lines`]: bounded queue --> a thread that writes
//! ```
//! Packets are never logged. A line that others can provoke (by handshakes that are refused) is logged once for each
//! address and reason, then once a minute with the number of suppressed lines. All such lines together are limited in
//! rate. If standard error does not accept output (a stopped terminal, a full pipe), nothing waits for it: lines are
//! lost then, and their number is logged later.

mod doubles;
mod fields;
mod journal;
mod lines;

pub use fields::Fields;
pub use lines::{Flushed, Format, Level, Lines};

use base::token_bucket::TokenBucket;
use base::{NodeAddr, Time, UnderlayAddr};
use overlay::event::Event;
use std::collections::BTreeMap;

/// Lines per second that others can provoke, and how many may come at once.
const PROVOKED_PER_S: f64 = 1.0;
const PROVOKED_AT_ONCE: f64 = 10.0;
/// A line of one kind about one address is repeated at most at this interval.
const REPEATED: base::Duration = base::Duration::from_secs(60);
/// Number of pairs of address and kind that are distinguished: 64 of some 100 bytes. The oldest one makes room.
const MAX_KINDS: usize = 64;
/// The log of the loop.
#[derive(Debug)]
pub struct Log {
    lines: Lines,
    provoked: TokenBucket,
    left_out: BTreeMap<&'static str, u64>,
    /// The lines that were logged last, by address and kind.
    said: BTreeMap<([u8; 16], &'static str), Said>,
    /// Sessions that were logged and have not become a link since: a neighbour that answers and then refuses is dialled
    /// for ever.
    sessions: BTreeMap<NodeAddr, Said>,
    doubles: doubles::Doubles,
}

/// A line that others have provoked: when it was logged, and how often it was suppressed since.
#[derive(Debug)]
struct Said {
    at: Time,
    left_out: u64,
}

impl Log {
    /// Creates a log that writes to `lines`.
    pub fn new(lines: Lines) -> Log {
        let provoked = TokenBucket::new(PROVOKED_PER_S, PROVOKED_AT_ONCE, Time::ZERO);
        Log {
            lines,
            provoked,
            left_out: BTreeMap::new(),
            said: BTreeMap::new(),
            sessions: BTreeMap::new(),
            doubles: doubles::Doubles::default(),
        }
    }

    /// Returns the lines that the log writes to.
    pub fn lines(&self) -> &Lines {
        &self.lines
    }

    /// Logs an event, if it is one that an operator wants to read.
    pub fn event(&mut self, now: Time, event: &Event) {
        // Most events concern packets, and have no fields.
        let fields = || Fields::of(event);
        if self.doubles.explain(now, event) {
            return;
        }
        match *event {
            Event::Established { peer, at } => self.session(now, (peer, at), fields),
            Event::Refused { from, why } => {
                let text = format!("handshake with {from} refused: {why}");
                self.about(now, (from, why.label()), &text, fields);
            }
            Event::EndRefused { node, why } => {
                let text = format!("no session from end to end with {node}: {why}");
                self.lines.tell(Level::Warning, &text, fields);
            }
            Event::Unanswered { peer, at, silence } => {
                let seconds = silence.as_millis() / 1_000;
                let text = format!(
                    "no answer from {at}: is UDP open there? ({peer}, for {seconds} s; it may also \
                     not run, or be of another network)"
                );
                self.lines.tell(Level::Warning, &text, fields);
            }
            Event::PathBad { to, lost } => {
                let text = format!(
                    "a path to {to} lost {} % more than its links say: others are tried",
                    f64::from(lost) / 10.0
                );
                self.limited(now, "paths", &text, fields);
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
                let text = format!(
                    "{suspect}{among} swallows {} % of what goes to {to}, though its links look well: \
                     packets go around it",
                    f64::from(lost) / 10.0
                );
                self.lines.tell(Level::Warning, &text, fields);
            }
            Event::GroupStarved { group, to, lost } => {
                let text = format!(
                    "the tree of {group} lost {} % of what goes to {to}, more than its links say: {to} gets each \
                     packet a second time",
                    f64::from(lost) / 10.0
                );
                self.limited(now, "trees", &text, fields);
            }
            Event::GroupWhole { group, to } => {
                let text = format!("the tree of {group} carries packets to {to} again");
                self.limited(now, "trees", &text, fields);
            }
            Event::Unsuspected { suspect, to } => {
                let text = format!("{suspect} carries packets to {to} again");
                self.lines.tell(Level::Info, &text, fields);
            }
            Event::LinkUp { peer } => {
                self.sessions.remove(&peer);
                let text = format!("link to {peer} is up");
                self.lines.tell(Level::Info, &text, fields);
            }
            Event::LinkDown { peer, why } => {
                let text = format!("link to {peer} is down: {why}");
                self.lines.tell(Level::Warning, &text, fields);
            }
            Event::Way { peer, is_stream } => {
                let text = match is_stream {
                    true => format!("link to {peer} runs over TCP: UDP has no answer"),
                    false => format!("link to {peer} runs over UDP again"),
                };
                self.lines.tell(Level::Info, &text, fields);
            }
            Event::PathChanged {
                peer,
                from,
                to,
                why,
            } => {
                let text = format!(
                    "link to {peer}: path changed from {from} (socket {}) to {to} (socket {}): {why}",
                    from.socket, to.socket
                );
                self.lines.tell(Level::Info, &text, fields);
            }
            Event::Moved { peer, at } => {
                let text = format!("{peer} is reached at {at} now");
                self.lines.tell(Level::Info, &text, fields);
            }
            Event::Double { node, is_own } => {
                let text = self.doubles.on_double(now, node, is_own);
                self.lines.tell(Level::Warning, &text, fields);
            }
            Event::RecordRefused { origin } => {
                let text = format!("a record that claims to be of {origin} was refused");
                self.limited(now, "records", &text, fields);
            }
            Event::RootSucceeded { number, until_s } => {
                let text = format!(
                    "the network has root key {number} now: certificates of older ones count until {}",
                    crate::date::until(until_s)
                );
                self.lines.tell(Level::Warning, &text, fields);
            }
            Event::RootRefused { number } => {
                let text = format!(
                    "another root key {number} than the known one was refused: if the old root key signed it, somebody \
                     else has that key"
                );
                self.limited(now, "roots", &text, fields);
            }
            Event::GroupsIgnored { by, group, prefix } => {
                let text = format!(
                    "what {by} says of {group}/{prefix} is ignored: its certificate does not let it set these groups"
                );
                self.limited(now, "groups", &text, fields);
            }
            _ => {}
        }
    }

    /// Writes one line.
    pub fn line(&self, text: &str) {
        self.lines.say(text);
    }

    /// Writes a line that others can provoke, or counts it under `label` if there are too many. Returns true if it was
    /// written.
    pub fn limited(
        &mut self,
        now: Time,
        label: &'static str,
        text: &str,
        fields: impl FnOnce() -> Fields,
    ) -> bool {
        if !self.provoked.try_take(now, 1.0) {
            *self.left_out.entry(label).or_default() += 1;
            return false;
        }
        self.lines.tell(Level::Warning, text, fields);
        for (label, count) in core::mem::take(&mut self.left_out) {
            self.lines.warn(&format!(
                "{count} more lines of this kind left out: {label}"
            ));
        }
        true
    }

    /// Logs a session. A session that does not become a link begins again every few seconds: it is logged once a
    /// minute.
    fn session(
        &mut self,
        now: Time,
        (peer, at): (NodeAddr, UnderlayAddr),
        fields: impl FnOnce() -> Fields,
    ) {
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
        self.lines.tell(Level::Info, &text, fields);
    }

    /// Logs a line about an address that may repeat itself: once a minute.
    fn about(
        &mut self,
        now: Time,
        (from, label): (UnderlayAddr, &'static str),
        text: &str,
        fields: impl FnOnce() -> Fields,
    ) {
        let key = (from.ip, label);
        if let Some(said) = self.said.get_mut(&key) {
            if now.since(said.at) < REPEATED {
                said.left_out += 1;
                return;
            }
            let left_out = core::mem::take(&mut said.left_out);
            said.at = now;
            let text = match left_out {
                0 => text.to_owned(),
                _ => format!("{text} ({left_out} more times since this was said last)"),
            };
            return self.lines.tell(Level::Warning, &text, fields);
        }
        if !self.limited(now, label, text, fields) {
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
    use super::lines::sink::Sink;
    use super::*;
    use net::clock::Clock;

    #[test]
    fn refusals_are_limited_and_what_was_left_out_is_told() {
        let sink = Sink::default();
        let (flushed, lines) = Lines::to(("ams", Clock::new(), Format::Text), Some(sink.clone()));
        let mut log = Log::new(lines);
        let refused = |host: u8| Event::Refused {
            from: net::addr::underlay(format!("192.0.2.{host}:7700").parse().unwrap(), 0),
            why: secure::Refusal::Mac,
        };
        // A node that dials again and again is logged once, and later again with the number.
        for _ in 0..100 {
            log.event(Time::ZERO, &refused(1));
        }
        log.event(Time::ZERO + REPEATED, &refused(1));
        // Very many nodes are not logged individually.
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
    fn one_line_names_a_key_on_two_hosts_and_the_flapping_links_are_counted() {
        let sink = Sink::default();
        let (flushed, lines) = Lines::to(("ams", Clock::new(), Format::Text), Some(sink.clone()));
        let mut log = Log::new(lines);
        let (double, other) = (NodeAddr(2), NodeAddr(3));
        let minute = base::Duration::from_secs(60);
        let flap = |log: &mut Log, now: Time, peer| {
            for _ in 0..50 {
                log.event(now, &Event::LinkUp { peer });
                log.event(
                    now,
                    &Event::LinkDown {
                        peer,
                        why: "silence",
                    },
                );
            }
        };
        let report = Event::Double {
            node: double,
            is_own: false,
        };
        for n in 0..2 {
            let now = Time::ZERO + minute * n;
            log.event(now, &report);
            flap(&mut log, now, double);
        }
        // Other links are logged as ever, and this one is, too, when nothing explains it any more.
        log.event(Time::ZERO + minute, &Event::LinkUp { peer: other });
        log.event(Time::ZERO + minute * 3, &Event::LinkUp { peer: double });
        // If this node itself is doubled, that explains all links.
        let own = Event::Double {
            node: NodeAddr(1),
            is_own: true,
        };
        log.event(Time::ZERO + minute * 9, &own);
        flap(&mut log, Time::ZERO + minute * 9, other);
        drop(log);
        drop(flushed);
        let text = sink.text();
        assert_eq!(text.lines().count(), 5, "{text}");
        assert_eq!(
            text.matches("0.0.0.2 runs on two hosts").count(),
            2,
            "{text}"
        );
        assert!(text.contains("(100 lines about flapping links"), "{text}");
        assert!(
            text.contains("another host runs with this node's key: stop one"),
            "{text}"
        );
        assert_eq!(text.matches("link to").count(), 2, "{text}");
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
        // A revoked node keeps dialling two other nodes: both answer, and are then silent.
        for seconds in 0..=60 {
            let now = Time::ZERO + base::Duration::from_secs(seconds);
            log.event(now, &session(1));
            log.event(now, &session(2));
        }
        // A neighbour was restarted: both sessions become links, and both are logged.
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
}
