//! What applications write, and when.

use crate::traffic::{Pattern, Source};
use base::{Duration, Rng, Time};

/// What an application writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// As much as the connection takes: a file without an end.
    Unlimited,
    /// Messages of equal size, when the pattern says.
    Messages {
        /// When.
        pattern: Pattern,
        /// Bytes of each, without headers. A message of more than a segment goes in several.
        bytes: usize,
    },
}

/// A load between two moments after the start of the world.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Traffic {
    /// What is written.
    pub load: Load,
    /// From when on.
    pub start: Duration,
    /// Until when.
    pub stop: Duration,
}

impl Traffic {
    /// From the start of the world, without an end.
    pub fn always(load: Load) -> Traffic {
        Traffic {
            load,
            start: Duration::ZERO,
            stop: Duration::MAX,
        }
    }

    /// Messages of so many bytes at a constant rate.
    pub fn cbr(rate_bps: u64, bytes: usize) -> Traffic {
        Traffic::always(Load::Messages {
            pattern: Pattern::cbr(rate_bps, bytes),
            bytes,
        })
    }

    /// A file without an end.
    pub fn unlimited() -> Traffic {
        Traffic::always(Load::Unlimited)
    }

    /// The same between two moments.
    #[must_use]
    pub fn between(mut self, start: Duration, stop: Duration) -> Traffic {
        (self.start, self.stop) = (start, stop);
        self
    }
}

/// An application at work.
#[derive(Debug)]
pub(crate) struct Application {
    traffic: Traffic,
    /// The messages to come; `None` for a file.
    messages: Option<(Source, usize)>,
    started: bool,
}

/// What an application does at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    /// Opens a file without an end.
    File,
    /// Closes it.
    EndOfFile,
    /// A message of so many bytes.
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

    /// When it does something next. Times count from the start of the world.
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

    /// What it does then.
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
