//! What applications write, and when.

use crate::traffic::{Pattern, Source};
use base::{Duration, Rng, Time};

/// What an application writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// As much as the connection accepts: a file without an end.
    Unlimited,
    /// Messages of equal size, at the times of the pattern.
    Messages {
        /// The times of the messages.
        pattern: Pattern,
        /// Bytes of each message, without headers. A message longer than a segment is sent in several.
        bytes: usize,
    },
}

/// A load between two moments after the start of the world.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Traffic {
    /// The load.
    pub load: Load,
    /// When the load starts.
    pub start: Duration,
    /// When the load ends.
    pub stop: Duration,
}

impl Traffic {
    /// Returns traffic that lasts from the start of the world, without an end.
    pub fn always(load: Load) -> Traffic {
        Traffic {
            load,
            start: Duration::ZERO,
            stop: Duration::MAX,
        }
    }

    /// Returns messages of `bytes` at a constant rate.
    pub fn cbr(rate_bps: u64, bytes: usize) -> Traffic {
        Traffic::always(Load::Messages {
            pattern: Pattern::cbr(rate_bps, bytes),
            bytes,
        })
    }

    /// Returns a file without an end.
    pub fn unlimited() -> Traffic {
        Traffic::always(Load::Unlimited)
    }

    /// Returns the same traffic between two moments.
    #[must_use]
    pub fn between(mut self, start: Duration, stop: Duration) -> Traffic {
        (self.start, self.stop) = (start, stop);
        self
    }
}

/// A running application.
#[derive(Debug)]
pub(crate) struct Application {
    traffic: Traffic,
    /// The future messages; `None` for a file.
    messages: Option<(Source, usize)>,
    started: bool,
}

/// What an application does at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    /// Opens a file without an end.
    File,
    /// Closes the file.
    EndOfFile,
    /// Writes a message of this many bytes.
    Message(usize),
}

impl Application {
    pub(crate) fn new(traffic: Traffic, rng: Rng) -> Application {
        let messages = match traffic.load {
            Load::Unlimited => None,
            Load::Messages { pattern, bytes } => Some((Source::new(pattern, rng), bytes)),
        };
        Application {
            traffic,
            messages,
            started: false,
        }
    }

    /// Returns when it acts next. Times count from the start of the world.
    pub(crate) fn next(&self) -> Option<Time> {
        let (start, stop) = (self.traffic.start, self.traffic.stop);
        let after = match &self.messages {
            Some((source, _)) => start + source.peek(),
            None if !self.started => start,
            None => stop,
        };
        let over = after > stop || (self.messages.is_some() && after == stop);
        (!over && after != Duration::MAX).then(|| Time::ZERO + after)
    }

    /// Returns what it does then.
    pub(crate) fn write(&mut self) -> Write {
        match &mut self.messages {
            Some((source, bytes)) => {
                source.next();
                Write::Message(*bytes)
            }
            None if !self.started => {
                self.started = true;
                Write::File
            }
            None => {
                // Nothing comes after the end.
                self.traffic.stop = Duration::MAX;
                Write::EndOfFile
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_opened_once_and_closed_once() {
        let (start, stop) = (Duration::from_secs(1), Duration::from_secs(2));
        let traffic = Traffic::unlimited().between(start, stop);
        let mut application = Application::new(traffic, Rng::new(1));
        assert_eq!(application.next(), Some(Time::ZERO + start));
        assert_eq!(application.write(), Write::File);
        assert_eq!(application.next(), Some(Time::ZERO + stop));
        assert_eq!(application.write(), Write::EndOfFile);
        assert_eq!(application.next(), None);
    }
}
