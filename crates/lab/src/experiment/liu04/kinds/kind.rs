//! The kinds of links: the hosts, the links between them, and other traffic.

use crate::experiment::liu04::hosts::Link;

/// Numbers of connections on each segment of a placement.
pub(super) const STRIPES: [u8; 4] = [1, 2, 4, 8];
/// The kind whose rate is part of the goals, and that rate.
pub(super) const LONG: usize = 3;
pub(super) const LONG_MBIT: f64 = 1_000.0;

/// A kind of links. The copy starts at host 0.
pub(super) struct Kind {
    pub(super) name: &'static str,
    /// The rate of each link, unless a cell sets another one.
    pub(super) mbit: f64,
    /// Pairs of hosts, and the other properties of the link between them.
    links: &'static [([usize; 2], &'static str)],
    /// The destination of the copy.
    pub(super) to: usize,
    /// The relays of each path that is tried.
    pub(super) ways: &'static [&'static [usize]],
    pub(super) beside: Beside,
}

/// The other traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beside {
    Nobody,
    /// A connection that sends as fast as possible over the same link.
    Connection,
    /// A transfer that occupies the only place of this relay.
    Transfer(usize),
}

/// All kinds, in the order of the cells' numbers.
pub(super) const KINDS: [Kind; 7] = [
    Kind {
        name: "clean",
        mbit: 20.0,
        links: &[([0, 1], "delay=10ms queue=100")],
        to: 1,
        ways: &[&[]],
        beside: Beside::Nobody,
    },
    Kind {
        name: "lossy",
        mbit: 100.0,
        links: &[([0, 1], LOSSY)],
        to: 1,
        ways: &[&[]],
        beside: Beside::Nobody,
    },
    Kind {
        name: "three lossy",
        mbit: 100.0,
        links: &[([0, 1], LOSSY), ([1, 2], LOSSY), ([2, 3], LOSSY)],
        to: 3,
        // The first relay alone would be as good as the second.
        ways: &[&[], &[2], &[1, 2]],
        beside: Beside::Nobody,
    },
    Kind {
        name: "long",
        // Choice: two processors that also run the nodes cannot emulate more.
        mbit: 300.0,
        links: &[([0, 1], "delay=80ms loss=0.01% queue=2000")],
        to: 1,
        ways: &[&[]],
        beside: Beside::Nobody,
    },
    Kind {
        name: "short and bad",
        mbit: 100.0,
        links: &[
            ([0, 1], "delay=200us loss=20% queue=200"),
            ([0, 2], "delay=10ms loss=1% queue=200"),
            ([2, 1], "delay=10ms loss=1% queue=200"),
        ],
        to: 1,
        ways: &[&[], &[2]],
        beside: Beside::Nobody,
    },
    Kind {
        name: "shared",
        mbit: 50.0,
        links: &[([0, 1], "delay=10ms queue=200")],
        to: 1,
        ways: &[&[]],
        beside: Beside::Connection,
    },
    Kind {
        name: "busy relay",
        mbit: 100.0,
        links: &[
            ([0, 1], "delay=40ms loss=1% queue=200"),
            ([0, 2], LOSSY),
            ([2, 1], LOSSY),
            ([0, 3], "delay=15ms loss=0.5% queue=200"),
            ([3, 1], "delay=15ms loss=0.5% queue=200"),
        ],
        to: 1,
        // The other transfer uses host 2.
        ways: &[&[], &[3]],
        beside: Beside::Transfer(2),
    },
];

const LOSSY: &str = "delay=10ms loss=0.5% queue=200";

impl Kind {
    /// Returns the links at this rate.
    pub(super) fn links(&self, mbit: f64) -> Vec<Link> {
        let link = |(ends, words): &([usize; 2], &str)| Link {
            ends: *ends,
            words: format!("rate={mbit}mbit {words}"),
        };
        self.links.iter().map(link).collect()
    }

    /// Returns whether other programs, which cannot use relays, have a link to the destination.
    pub(super) fn is_direct(&self) -> bool {
        let mut links = self.links.iter();
        links.any(|(ends, _)| *ends == [0, self.to] || *ends == [self.to, 0])
    }

    /// Returns all placements that are tried: relays, and connections on each segment.
    pub(super) fn placements(&self) -> Vec<(Vec<usize>, u8)> {
        let ways = self.ways.iter();
        ways.flat_map(|way| STRIPES.map(|stripes| (way.to_vec(), stripes)))
            .collect()
    }

    /// Describes the kind for the report.
    pub(super) fn shown(&self) -> String {
        let mut words: Vec<&str> = self.links.iter().map(|(_, words)| *words).collect();
        words.dedup();
        let beside = match self.beside {
            Beside::Nobody => String::new(),
            Beside::Connection => ", beside a connection that sends all it can".to_owned(),
            Beside::Transfer(_) => ", and the better relay has no place free".to_owned(),
        };
        format!(
            "{}: {} link(s) of {} Mbit/s ({}){beside}",
            self.name,
            self.links.len(),
            self.mbit,
            words.join("; ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::impair::Model;

    #[test]
    fn other_programs_copy_wherever_there_is_a_link() {
        let direct = KINDS.each_ref().map(Kind::is_direct);
        assert_eq!(direct, [true, true, false, true, true, true, true]);
        assert_eq!(KINDS[2].name, "three lossy");
    }

    #[test]
    fn links_are_such_as_can_be_emulated_and_ways_lead_over_them() {
        for kind in &KINDS {
            let links = kind.links(kind.mbit);
            for link in &links {
                let model = link.words.parse::<Model>();
                assert!(model.is_ok(), "{}: {model:?}", link.words);
            }
            let hosts = links.iter().flat_map(|link| link.ends).max();
            assert!(hosts.is_some_and(|last| kind.to <= last), "{}", kind.name);
            assert_eq!(kind.placements().len(), kind.ways.len() * STRIPES.len());
            // Relays on a path have links with each other and the target; a missing link to the first one is dialled.
            for way in kind.ways.iter().filter(|way| !way.is_empty()) {
                let nodes = way.iter().copied().chain([kind.to]);
                let nodes: Vec<usize> = nodes.collect();
                for pair in nodes.windows(2) {
                    let joins =
                        |ends: [usize; 2]| ends == [pair[0], pair[1]] || ends == [pair[1], pair[0]];
                    assert!(links.iter().any(|link| joins(link.ends)), "{}", kind.name);
                }
            }
        }
        assert!(KINDS[LONG].mbit < LONG_MBIT, "as the claim says");
    }
}
