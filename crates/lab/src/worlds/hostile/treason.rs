//! What a hostile member does, and by when honest nodes have to have got around it.

use base::{Duration, NodeAddr, Rng, Time};

/// One kind of harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    /// Of the packets that it should pass on it loses so many per cent, and takes them as any other
    /// node does: lanes, hellos and records are perfect.
    Swallow {
        /// How many.
        pct: u64,
        /// Handshakes between the two ends of a path pass.
        spares_handshakes: bool,
    },
    /// It changes a bit of so many per cent.
    Corrupt {
        /// How many.
        pct: u64,
    },
    /// It sends packets in the names of others: the next numbers of flows that it has seen, packets that
    /// it has seen once more, and flows that it guesses.
    Forge {
        /// So many per second.
        per_s: u64,
    },
    /// Editions of its own records.
    FloodRecords {
        /// So many per second.
        per_s: u64,
    },
    /// Memberships of groups by the thousand, other ones each time.
    FloodJoins {
        /// Records per second, of 279 groups each.
        per_s: u64,
    },
    /// Openings of streams, in its own name and those of nodes that there are not.
    FloodOpenings {
        /// So many per second.
        per_s: u64,
    },
    /// Handshakes: with its neighbours, and, as an end of paths, with everybody in everybody's name.
    FloodHandshakes {
        /// So many per second.
        per_s: u64,
    },
    /// Datagrams in its own name, some of them stamped "over every link".
    FloodData {
        /// So many per second.
        per_s: u64,
    },
    /// Its links lose nothing and take no time.
    LieAboutLinks,
    /// It has links to nodes to which it has none.
    InventLinks,
    /// It says how all groups are carried, though its certificate does not let it: all of class D, with the highest
    /// version.
    RuleGroups,
    /// Its echoes of hellos were held for nearly all the time that they took, and it hears everything.
    LieInHellos,
}

/// Everything that one hostile member does.
#[derive(Clone, Debug)]
pub(in crate::worlds) struct Treason {
    /// For what it draws itself.
    pub(super) seed: u64,
    /// When it begins.
    pub(super) at: Time,
    pub(super) deeds: Vec<Deed>,
    /// Every node of the network, as link state tells them to anybody.
    pub(super) nodes: Vec<NodeAddr>,
    /// The first port of flows, as anybody can guess it.
    pub(super) ports: [u16; 2],
    pub(super) groups: Vec<NodeAddr>,
}

/// A black hole that swallows everything is out of use within so long.
const WHOLE_HOLE: Duration = Duration::from_secs(2);
/// After a lie about links honest flows may feel for so long what the nodes around a member take to be its links:
/// its own engine, which knows better, sends packets back or nowhere. That is a black hole.
pub(super) const LIE_FELT: Duration = WHOLE_HOLE;

impl Deed {
    pub(super) fn draw(rng: &mut Rng) -> Deed {
        let pct = [100, 100, 50, 50, 5][rng.below(5) as usize];
        // Once in a while thousands per second.
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

    /// For so long honest flows may feel it, where they have another way. The bars of a black hole; what
    /// is no black hole has no such time.
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

    /// A short stable word.
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
    /// One to three deeds, no two of a kind.
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

    /// For so long honest flows may feel it.
    pub(super) fn felt_for(&self) -> Duration {
        let all = self.deeds.iter().map(|deed| deed.felt_for());
        all.max().unwrap_or_default()
    }

    /// What it does, in words.
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
