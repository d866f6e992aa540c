//! Every number of the hello protocol, with its origin.

use super::price;
use base::Duration;

/// How a link is watched while it is in one mode (carrying data, or idle).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The time between two hellos.
    pub interval: Duration,
    /// Silence after which the other end is asked to answer at once.
    pub probe_after: Duration,
    /// The time between two such questions.
    pub probe_interval: Duration,
    /// Silence after which the questions come faster; a third of the round-trip allowance is added.
    pub hurry_after: Duration,
    /// The time between two of these faster questions.
    pub hurry_interval: Duration,
    /// Silence after which the link is down; an allowance of one and a half round trips is added.
    pub down_after: Duration,
}

/// The numbers of [`Hello`](super::Hello).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The pace while the link carries data.
    pub active: Pace,
    /// The pace while the link does not carry data.
    pub idle: Pace,
    /// Silence of an active link after which copies of real-time packets are also sent by another path.
    pub doubt_after: Duration,
    /// For how long after the last data a link counts as active.
    pub active_for: Duration,
    /// For how long after a question the answers continue, unasked, at the pace of the questions: questions get lost,
    /// too. It is twice as long if several questions came in a row.
    pub answer_for: Duration,
    /// The least time between two hellos, however many questions there are.
    pub spacing: Duration,
    /// The round-trip allowance until a round trip has been measured.
    pub rtt_initial: Duration,
    /// The shortest round-trip allowance: a host that is late by a few ms is not a dead link.
    pub rtt_allowance_min: Duration,
    /// The longest round-trip allowance; zero for none at all.
    pub rtt_allowance_max: Duration,
    /// Hellos in a row that bring a link up.
    pub up_hellos: u32,
    /// For how long this row must have lasted.
    pub up_after: Duration,
    /// What outages cost paths that take the link.
    pub price: price::Settings,
    /// For how long packets without another path try a link that has fallen silent.
    pub try_for: Duration,
    /// If a timeout comes later than this, the host did not run, so silence in that time says nothing about the link.
    pub stall: Duration,
}

/// A time that is longer than any link exists, and short enough to be added to any moment.
const NEVER: Duration = Duration::from_secs(100 * 365 * 86_400);

impl Settings {
    /// Returns settings that detect a failure well under one second on a link that carries data.
    ///
    /// Bytes: a hello is 24 bytes, 48 sealed, 76 under UDP/IPv4, 96 under UDP/IPv6. Active, ten
    /// per second are 6.1 (7.7) kbit/s, and questions and answers at 20 % loss add half of that at
    /// most; idle, one per second is 0.6 (0.8) kbit/s.
    pub const fn modern() -> Settings {
        Settings {
            active: Pace {
                // Choice: this gives three chances before the link would be given up without a question.
                interval: Duration::from_millis(100),
                // Choice: one interval, and half an interval for jitter and a late timer.
                probe_after: Duration::from_millis(150),
                probe_interval: Duration::from_millis(40),
                hurry_after: Duration::from_millis(210),
                // Choice: the head of `silence.rs` has the probabilities.
                hurry_interval: Duration::from_millis(7),
                // Choice: with a round trip of 50 ms the other end is given up after 435 ms.
                down_after: Duration::from_millis(360),
            },
            idle: Pace {
                interval: Duration::from_millis(1000),
                probe_after: Duration::from_millis(2200),
                probe_interval: Duration::from_millis(100),
                hurry_after: Duration::from_millis(2800),
                hurry_interval: Duration::from_millis(40),
                // Choice: three and a half intervals.
                down_after: Duration::from_millis(3500),
            },
            // Choice: as soon as the other end is asked. If a working link loses 5 % of its hellos, one packet in
            // thirty is sent twice. In an outage, the packets of the first 150 ms are lost, instead of those of 420 ms.
            doubt_after: Duration::from_millis(150),
            // Choice: longer than the pauses between talkspurts' comfort noise packets and
            // application keep-alives of a call, short enough that an idle link is cheap.
            active_for: Duration::from_millis(1000),
            answer_for: Duration::from_millis(30),
            spacing: Duration::from_millis(5),
            rtt_initial: Duration::from_millis(80),
            rtt_allowance_min: Duration::from_millis(60),
            rtt_allowance_max: Duration::from_millis(1000),
            up_hellos: 3,
            up_after: Duration::from_millis(200),
            price: price::Settings {
                // Choice: for a call, a path that is longer by most of its playout buffer is better than one that fails
                // now and then. A path that is even longer is not.
                first: Duration::from_millis(64),
                // Choice: as much as some outages in a minute. It is then reported for eight minutes.
                most: Duration::from_millis(256),
                // Choice: routes come back after two minutes to a link that is 20 ms shorter.
                halves_every: Duration::from_secs(60),
            },
            // Choice: as long as streams wait; a neighbour that is gone for longer is dialled.
            try_for: Duration::from_secs(300),
            stall: Duration::from_millis(100),
        }
    }

    /// Returns the settings of the paper: one hello per second, and down within 10 s of silence. [Amir06 §III-A, §IV-B]
    pub const fn paper() -> Settings {
        let pace = Pace {
            interval: Duration::from_secs(1),
            probe_after: NEVER,
            probe_interval: Duration::from_secs(1),
            hurry_after: NEVER,
            hurry_interval: Duration::from_secs(1),
            // "In under 10 seconds" [Amir06 §III-A]: the rest is for a stream that notices the failure one packet later
            // and takes a longer path.
            down_after: Duration::from_millis(9_900),
        };
        Settings {
            active: pace,
            idle: pace,
            // The papers send each packet once.
            doubt_after: NEVER,
            active_for: Duration::from_secs(1),
            answer_for: Duration::ZERO,
            spacing: Duration::from_millis(5),
            rtt_initial: Duration::ZERO,
            rtt_allowance_min: Duration::ZERO,
            rtt_allowance_max: Duration::ZERO,
            // Choice: the paper does not say when a link is up again. Here it is up when the other end is heard.
            up_hellos: 1,
            up_after: Duration::ZERO,
            price: price::Settings {
                first: Duration::ZERO,
                most: Duration::ZERO,
                halves_every: Duration::from_secs(60),
            },
            try_for: Duration::ZERO,
            stall: Duration::from_secs(5),
        }
    }

    /// Returns whether silent links are doubted before they are given up.
    pub fn doubts(&self) -> bool {
        self.doubt_after < NEVER
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings::modern()
    }
}
