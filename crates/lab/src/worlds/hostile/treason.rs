//! The deeds of a hostile member, and the time by which honest nodes must have found a way around it.

use base::{Duration, NodeAddr, Rng, Time};

/// One kind of harmful behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    /// It discards a percentage of the packets that it should forward, and accepts them as any other node does: lanes,
    /// hellos and records are correct.
    Swallow {
        /// The percentage.
        pct: u64,
        /// Whether end-to-end handshakes pass.
        spares_handshakes: bool,
    },
    /// It changes a bit in a percentage of the packets.
    Corrupt {
        /// The percentage.
        pct: u64,
    },
    /// It sends packets in the names of other nodes: the next numbers of flows that it has seen, repetitions of packets
    /// that it has seen, and flows that it guesses.
    Forge {
        /// Packets per second.
        per_s: u64,
    },
    /// It sends editions of its own records.
    FloodRecords {
        /// Records per second.
        per_s: u64,
    },
    /// It announces memberships of thousands of groups, which are different each time.
    FloodJoins {
        /// Records per second, of 279 groups each.
        per_s: u64,
    },
    /// It opens streams, in its own name and those of nodes that do not exist.
    FloodOpenings {
        /// Openings per second.
        per_s: u64,
    },
    /// It sends handshakes: with its neighbours, and, as an end of paths, with every node in every node's name.
    FloodHandshakes {
        /// Handshakes per second.
        per_s: u64,
    },
    /// It sends datagrams in its own name, some of them stamped "over every link".
    FloodData {
        /// Datagrams per second.
        per_s: u64,
    },
    /// It claims that its links lose nothing and have no delay.
    LieAboutLinks,
    /// It claims links to nodes with which it has none.
    InventLinks,
    /// It sets how all groups are carried, though its certificate does not permit it: for all of class D, with the
    /// highest version.
    RuleGroups,
    /// It claims that it held echoes of hellos for nearly all of their time, and that it receives everything.
    LieInHellos,
}

/// All deeds of one hostile member.
#[derive(Clone, Debug)]
pub(in crate::worlds) struct Treason {
    /// The seed for its own random choices.
    pub(super) seed: u64,
    /// When it begins.
    pub(super) at: Time,
    pub(super) deeds: Vec<Deed>,
    /// Every node of the network, as link state announces them to anybody.
    pub(super) nodes: Vec<NodeAddr>,
    /// The first port of flows, which anybody can guess.
    pub(super) ports: [u16; 2],
    pub(super) groups: Vec<NodeAddr>,
}

/// The time within which a black hole that discards everything must be out of use.
const WHOLE_HOLE: Duration = Duration::from_secs(2);
/// How long honest flows may be affected after a lie about links: the nodes around a member believe the false links,
/// while its own engine, which has the true ones, sends packets back or nowhere. That is a black hole.
pub(super) const LIE_FELT: Duration = WHOLE_HOLE;

impl Deed {
    pub(super) fn draw(rng: &mut Rng) -> Deed {
        let pct = [100, 100, 50, 50, 5][rng.below(5) as usize];
        // Occasionally the rate is thousands per second.
        let per_s = [50, 200, 1_000, 4_000][rng.below(4) as usize];
        match rng.below(14) {
            0..=2 => Deed::Swallow {
                pct,
                spares_handshakes: rng.chance(0.5),
            },
            3 => Deed::Corrupt { pct },
            4 | 5 => Deed::Forge { per_s },
            6 => Deed::FloodRecords {
                per_s: per_s.min(1_000),
            },
            7 => Deed::FloodJoins {
                per_s: per_s.min(200),
            },
            8 => Deed::FloodOpenings { per_s },
            9 => Deed::FloodHandshakes {
                per_s: per_s.min(1_000),
            },
            10 => Deed::FloodData { per_s },
            11 => match rng.chance(0.5) {
                true => Deed::LieAboutLinks,
                false => Deed::InventLinks,
            },
            12 => Deed::RuleGroups,
            _ => Deed::LieInHellos,
        }
    }

    /// Returns how long honest flows with another path may be affected. These are the limits for a black hole; other
    /// deeds have no such time.
    pub(super) fn felt_for(self) -> Duration {
        match self {
            Deed::Swallow { pct, .. } | Deed::Corrupt { pct } => match pct {
                51.. => WHOLE_HOLE,
                6..=50 => Duration::from_secs(10),
                _ => Duration::from_secs(120),
            },
            _ => Duration::ZERO,
        }
    }

    /// Returns a short stable word.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Deed::Swallow { .. } => "swallow",
            Deed::Corrupt { .. } => "corrupt",
            Deed::Forge { .. } => "forge",
            Deed::FloodRecords { .. } => "flood-records",
            Deed::FloodJoins { .. } => "flood-joins",
            Deed::FloodOpenings { .. } => "flood-openings",
            Deed::FloodHandshakes { .. } => "flood-handshakes",
            Deed::FloodData { .. } => "flood-data",
            Deed::LieAboutLinks => "lie-links",
            Deed::InventLinks => "invent-links",
            Deed::RuleGroups => "rule-groups",
            Deed::LieInHellos => "lie-hellos",
        }
    }
}

impl Treason {
    /// Draws one to three deeds of different kinds.
    pub(super) fn draw(rng: &mut Rng) -> Vec<Deed> {
        let mut deeds: Vec<Deed> = Vec::new();
        for _ in 0..[1, 1, 2, 3][rng.below(4) as usize] {
            let deed = Deed::draw(rng);
            if deeds.iter().all(|other| other.label() != deed.label()) {
                deeds.push(deed);
            }
        }
        deeds
    }

    pub(super) fn has(&self, deed: impl Fn(&Deed) -> bool) -> bool {
        self.deeds.iter().any(deed)
    }

    /// Returns how long honest flows may be affected.
    pub(super) fn felt_for(&self) -> Duration {
        let all = self.deeds.iter().map(|deed| deed.felt_for());
        all.max().unwrap_or_default()
    }

    /// Describes the deeds in words.
    pub(super) fn told(&self) -> String {
        let words = self.deeds.iter().map(|deed| match deed {
            Deed::Swallow { pct, .. } | Deed::Corrupt { pct } => {
                format!("{} {pct} %", deed.label())
            }
            _ => deed.label().to_owned(),
        });
        let words: Vec<String> = words.collect();
        words.join(", ")
    }
}
