//! The layouts of a demonstration: the nodes, their links, and the paths of the calls.
//!
//! ```text
//!   CHAIN   phones ── A ── B ── C ═══ D ── E ── F ── phones    overlay
//!              └───── UDP ── emulator ── UDP ─────────┘        direct
//!
//!   LONG    phones ── A ═══ B ── phones                        overlay, protected
//!              ├───── A ═══ B ─────┤                           the same with requests only
//!              └── UDP ── emulator ┘                           direct
//! ```
//!
//! Each overlay is a separate network with separate nodes. All paths have the same delay and draw their losses from the
//! same model, independently.

use base::Duration;
use tools::pace::DEADLINE;

/// One path of the calls.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Way {
    /// Key of the JSON, and name of the recording.
    pub(crate) key: &'static str,
    /// Heading of the table's column.
    pub(crate) head: &'static str,
    /// Its name in the report: "what was heard …".
    pub(crate) phrase: &'static str,
    /// Index of a colour in the report's style.
    pub(crate) color: u8,
    /// The `[settings]` of its nodes.
    pub(crate) settings: &'static str,
}

/// Plain UDP.
const DIRECT: Way = Way {
    key: "direct",
    head: "direct",
    phrase: "directly",
    color: 0,
    settings: "",
};

/// The overlay without settings.
const OVERLAY: Way = Way {
    key: "overlay",
    head: "overlay",
    phrase: "over the overlay",
    color: 1,
    settings: "",
};

const PROTECTED: Way = Way {
    head: "protected",
    phrase: "over the protected overlay",
    ..OVERLAY
};

const REQUESTS: Way = Way {
    key: "requests",
    head: "requests",
    phrase: "over the overlay with requests only",
    color: 3,
    settings: "protect = \"requests\"",
};

/// The nodes of every overlay, their links, and the paths.
#[derive(Debug)]
pub(crate) struct Layout {
    /// The description of the overlays in the first line.
    pub(crate) phrase: &'static str,
    /// The nodes, in the order of the chain.
    pub(crate) names: &'static [&'static str],
    /// Delay of each link.
    pub(crate) hop_delay: Duration,
    /// Index of the lossy link.
    pub(crate) lossy_hop: usize,
    /// Time from sending a packet to playing it.
    pub(crate) deadline: Duration,
    /// The paths: plain UDP first, the overlay without settings last.
    pub(crate) ways: &'static [Way],
}

/// Five links of 10 ms, one of them lossy.
pub(crate) static CHAIN: Layout = Layout {
    phrase: "over six nodes",
    names: &["A", "B", "C", "D", "E", "F"],
    hop_delay: Duration::from_millis(10),
    lossy_hop: 2,
    deadline: DEADLINE,
    ways: &[DIRECT, OVERLAY],
};

/// One link on which a retransmission arrives too late: three times 60 ms exceed the deadline.
pub(crate) static LONG: Layout = Layout {
    phrase: "over one link of 60 ms, with requests only and protected",
    names: &["A", "B"],
    hop_delay: Duration::from_millis(60),
    lossy_hop: 0,
    deadline: Duration::from_millis(130),
    ways: &[DIRECT, REQUESTS, PROTECTED],
};

impl Layout {
    /// Returns the number of links of each overlay.
    pub(crate) fn hops(&self) -> u32 {
        self.names.len() as u32 - 1
    }

    /// Returns the delay from the first node to the last.
    pub(crate) fn delay(&self) -> Duration {
        self.hop_delay * u64::from(self.hops())
    }

    /// Returns the paths that have nodes.
    pub(crate) fn overlays(&self) -> &'static [Way] {
        &self.ways[1..]
    }

    /// Returns the number of processes of all overlays together.
    pub(crate) fn processes(&self) -> usize {
        self.names.len() * self.overlays().len()
    }

    /// Returns the first and the last node.
    pub(crate) fn ends(&self) -> (&'static str, &'static str) {
        (self.names[0], self.names[self.names.len() - 1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_the_long_link_requests_come_too_late_and_on_the_chain_in_time() {
        assert!(LONG.hop_delay * 3 > LONG.deadline);
        assert!(CHAIN.delay() + CHAIN.hop_delay * 2 < CHAIN.deadline);
        for layout in [&CHAIN, &LONG] {
            assert_eq!(layout.ways[0].key, "direct");
            assert_eq!(layout.overlays().last().map(|way| way.key), Some("overlay"));
            assert!(layout.lossy_hop < layout.names.len() - 1);
            assert!(layout.delay() < layout.deadline);
        }
    }
}
