//! The cases: the faults of a messy network, and the goals for the defaults with them.

use super::bars::Bar;
use super::scene::{Calls, Path, Scene, Trouble, Way};
use super::sweep::{Case, Lives, Sweep};
use crate::experiment::{Size, claim};

const SOURCE: &str = "never worse";
/// One link of most scenes.
const LINK: Path = Path::new(20, 1.0);

/// All sweeps.
pub(super) const ALL: &[&Sweep] = &[&OUTAGES, &RELAYS, &LOSS, &JITTER, &CAPACITY, &FLAPS, &REAL];

const OUTAGE_BARS: &[Bar] = &[Bar::NoMoreThanUdp, Bar::Silence, Bar::BesideOutages];
const OUTAGE_TEXT: &str = "missed <= UDP's + 0.3 points; silence <= the outage + 400 ms; missed beside outages and the 400 ms after them <= 0.1 %";
const WAY_TEXT: &str = "missed <= UDP's + 0.3 points; silence <= 500 ms";
const STALL_TEXT: &str = "missed <= UDP's + 0.3 points; silence <= the stall + 400 ms";

/// Links that go down.
pub(super) const OUTAGES: Sweep = Sweep {
    id: "messy/outages",
    title: "Links that go down and come back",
    lives: Lives::InVirtualTime,
    cases: &[
        Case {
            claim: claim(
                "messy/outages",
                "half-second",
                SOURCE,
                "One link, down for 0.5 s every 60 s",
                OUTAGE_TEXT,
            ),
            bars: OUTAGE_BARS,
            scenes: |_| vec![Scene::link(LINK, outage(60_000, 500), 600)],
        },
        Case {
            claim: claim(
                "messy/outages",
                "second",
                SOURCE,
                "One link, down for 1 s every 30 s",
                OUTAGE_TEXT,
            ),
            bars: OUTAGE_BARS,
            scenes: |_| vec![Scene::link(LINK, outage(30_000, 1_000), 600)],
        },
        Case {
            claim: claim(
                "messy/outages",
                "two-seconds",
                SOURCE,
                "One link, down for 2 s every 60 s",
                OUTAGE_TEXT,
            ),
            bars: OUTAGE_BARS,
            scenes: |_| vec![Scene::link(LINK, outage(60_000, 2_000), 600)],
        },
        Case {
            claim: claim(
                "messy/outages",
                "lengths",
                SOURCE,
                "One link, outages of other lengths, periods and delays",
                "missed <= UDP's + 0.3 points; silence <= the outage + 400 ms; missed beside outages and the 400 ms after them <= 0.1 %, and what UDP misses there where the delay leaves no time for a repetition",
            ),
            bars: OUTAGE_BARS,
            scenes: outage_grid,
        },
        Case {
            claim: claim(
                "messy/outages",
                "chain",
                SOURCE,
                "A chain whose first link is down for 1 s every 30 s",
                OUTAGE_TEXT,
            ),
            bars: OUTAGE_BARS,
            scenes: |size| {
                let hops = [2, 3, 4, 5];
                let hops = if size == Size::Quick {
                    &hops[1..2]
                } else {
                    &hops
                };
                let scene = |links: &u32| {
                    let path = Path::new(20 / links, 0.5);
                    Scene::link(path, outage(30_000, 1_000), 300)
                        .over(vec![Way {
                            links: *links,
                            path,
                        }])
                        .at(&[("links", f64::from(*links))])
                };
                hops.iter().map(scene).collect()
            },
        },
        Case {
            claim: claim(
                "messy/outages",
                "detour",
                SOURCE,
                "A link that is down for 1 s every 30 s, beside one relay or two relays on two ways",
                WAY_TEXT,
            ),
            bars: &[Bar::NoMoreThanUdp, Bar::Silence],
            scenes: |size| {
                let [direct, relay] = [Way::link(LINK), relay(Path::new(15, 0.5))];
                let triangle = vec![direct, relay];
                let diamond = vec![relay, relay];
                let both = [("triangle", triangle, 1.0), ("diamond", diamond, 2.0)];
                let delays: &[f64] = if size == Size::Quick {
                    &[1.0]
                } else {
                    &[0.5, 1.0, 3.0]
                };
                let scene = |(_, ways, relays): &(&str, Vec<Way>, f64)| {
                    let scene = |factor: &f64| {
                        let ways = ways.iter().map(|way| way.slower(*factor)).collect();
                        Scene::link(LINK, outage(30_000, 1_000), 300)
                            .over(ways)
                            .at(&[("relays", *relays), ("slower", *factor)])
                    };
                    delays.iter().map(scene).collect::<Vec<_>>()
                };
                both.iter().flat_map(scene).collect()
            },
        },
    ],
};

/// Nodes that are not scheduled.
pub(super) const RELAYS: Sweep = Sweep {
    id: "messy/stalls",
    title: "Hosts that do something else for a while",
    lives: Lives::InVirtualTime,
    cases: &[
        Case {
            claim: claim(
                "messy/stalls",
                "relay",
                SOURCE,
                "The relay of a chain stalls for 0.7 s every 15 s; UDP does not pass it",
                STALL_TEXT,
            ),
            bars: &[Bar::NoMoreThanUdp, Bar::Silence],
            scenes: |_| {
                vec![Scene::link(LINK, relay_stalls(15_000, 700), 300).over(vec![relay(LINK)])]
            },
        },
        Case {
            claim: claim(
                "messy/stalls",
                "relay-time",
                SOURCE,
                "The same, with the time that the only way stood still not held against the overlay",
                "missed <= UDP's + 0.3 points + the share of the time that the relay was stalled",
            ),
            bars: &[Bar::NoMoreThanUdpAndStalls],
            scenes: |_| {
                vec![Scene::link(LINK, relay_stalls(15_000, 700), 300).over(vec![relay(LINK)])]
            },
        },
        Case {
            claim: claim(
                "messy/stalls",
                "second-relay",
                SOURCE,
                "The same with a second relay",
                "missed <= 0.3 % and <= UDP's + 0.3 points; silence <= 500 ms; <= 10 changes of the call's route in 300 s",
            ),
            bars: &[
                Bar::NoMoreThanUdp,
                Bar::Missed(0.3),
                Bar::Silence,
                Bar::RouteChanges(10.0),
            ],
            scenes: |_| {
                vec![Scene::link(LINK, relay_stalls(15_000, 700), 300).over(vec![relay(LINK); 2])]
            },
        },
        Case {
            claim: claim(
                "messy/stalls",
                "relays",
                SOURCE,
                "One to three relays side by side, of which one stalls for other times",
                "missed <= UDP's + 0.3 points, and the share of the time that an only relay was stalled; silence <= 500 ms, or an only relay's stall + 400 ms",
            ),
            bars: &[Bar::NoMoreThanUdpAndStalls, Bar::Silence],
            scenes: stall_grid,
        },
        Case {
            claim: claim(
                "messy/stalls",
                "receiver",
                SOURCE,
                "The receiver's host stalls for 0.8 s every 10 s",
                STALL_TEXT,
            ),
            bars: &[Bar::NoMoreThanUdp, Bar::Silence],
            scenes: |_| {
                let trouble = Trouble::ReceiverStalls {
                    every_ms: 10_000,
                    for_ms: 800,
                };
                vec![Scene::link(LINK, trouble, 300)]
            },
        },
        Case {
            claim: claim(
                "messy/stalls",
                "sender",
                SOURCE,
                "The sender's host stalls for 0.8 s every 10 s",
                STALL_TEXT,
            ),
            bars: &[Bar::NoMoreThanUdp, Bar::Silence],
            scenes: |_| {
                let trouble = Trouble::SenderStalls {
                    every_ms: 10_000,
                    for_ms: 800,
                };
                vec![Scene::link(LINK, trouble, 300)]
            },
        },
    ],
};

/// Losses in runs.
pub(super) const LOSS: Sweep = Sweep {
    id: "messy/loss",
    title: "Losses in long runs",
    lives: Lives::InVirtualTime,
    cases: &[
        Case {
            claim: claim(
                "messy/loss",
                "runs",
                SOURCE,
                "One link that loses 5 % in runs (burst 97 %)",
                "missed <= UDP's + 0.3 points; silence <= UDP's + 400 ms; both within two standard errors of the difference",
            ),
            bars: &[Bar::NoMoreThanUdp, Bar::SilenceOfUdp],
            scenes: |_| vec![Scene::link(runs(20, 5.0, 97.0), Trouble::Nothing, 600)],
        },
        Case {
            claim: claim(
                "messy/loss",
                "shares",
                SOURCE,
                "Other shares, runs and delays",
                "missed <= UDP's + 0.3 points; silence <= UDP's + 400 ms; both within two standard errors of the difference",
            ),
            bars: &[Bar::NoMoreThanUdp, Bar::SilenceOfUdp],
            scenes: |size| {
                let full: Vec<Vec<f64>> = grid(&[
                    &[5.0, 20.0, 80.0],
                    &[1.0, 5.0, 10.0],
                    &[50.0, 90.0, 97.0, 99.0],
                ]);
                let quick = vec![
                    vec![5.0, 5.0, 90.0],
                    vec![80.0, 5.0, 97.0],
                    vec![20.0, 1.0, 99.0],
                ];
                let points = if size == Size::Quick { quick } else { full };
                let scene = |p: &Vec<f64>| {
                    Scene::link(runs(p[0] as u32, p[1], p[2]), Trouble::Nothing, 300).at(&[
                        ("delay", p[0]),
                        ("loss", p[1]),
                        ("burst", p[2]),
                    ])
                };
                points.iter().map(scene).collect()
            },
        },
    ],
};

/// Delays that vary.
pub(super) const JITTER: Sweep = Sweep {
    id: "messy/jitter",
    title: "Delays that vary",
    lives: Lives::InVirtualTime,
    cases: &[
        Case {
            claim: claim(
                "messy/jitter",
                "twenty",
                SOURCE,
                "One link with jitter up to 20 ms, in order, and 2 % loss",
                "missed <= 0.1 %; silence <= 400 ms",
            ),
            bars: &[Bar::Missed(0.1), Bar::Silence],
            scenes: |_| vec![jitter(20, 20, 2.0, false)],
        },
        Case {
            claim: claim(
                "messy/jitter",
                "twenty-reordered",
                SOURCE,
                "The same, out of order",
                "missed <= 0.1 %; silence <= 400 ms",
            ),
            bars: &[Bar::Missed(0.1), Bar::Silence],
            scenes: |_| vec![jitter(20, 20, 2.0, true)],
        },
        Case {
            claim: claim(
                "messy/jitter",
                "sixty",
                SOURCE,
                "One link with jitter up to 60 ms, in order, and 2 % loss",
                "missed <= 0.5 %; silence <= 400 ms",
            ),
            bars: &[Bar::Missed(0.5), Bar::Silence],
            scenes: |_| vec![jitter(20, 60, 2.0, false)],
        },
        Case {
            claim: claim(
                "messy/jitter",
                "sixty-reordered",
                SOURCE,
                "The same, out of order",
                "missed <= 0.5 %; silence <= 400 ms",
            ),
            bars: &[Bar::Missed(0.5), Bar::Silence],
            scenes: |_| vec![jitter(20, 60, 2.0, true)],
        },
        Case {
            claim: claim(
                "messy/jitter",
                "delays",
                SOURCE,
                "Other delays, jitter and loss",
                "missed <= UDP's + 0.3 points; silence <= 400 ms",
            ),
            bars: &[Bar::NoMoreThanUdp, Bar::Silence],
            scenes: |size| {
                let full = grid(&[
                    &[5.0, 40.0, 80.0],
                    &[5.0, 20.0, 60.0],
                    &[0.0, 2.0, 5.0],
                    &[0.0, 1.0],
                ]);
                let quick = vec![vec![80.0, 20.0, 2.0, 1.0], vec![5.0, 60.0, 0.0, 1.0]];
                let points = if size == Size::Quick { quick } else { full };
                let scene = |p: &Vec<f64>| {
                    jitter(p[0] as u32, p[1] as u32, p[2], p[3] > 0.0).at(&[
                        ("delay", p[0]),
                        ("jitter", p[1]),
                        ("loss", p[2]),
                        ("reordered", p[3]),
                    ])
                };
                points.iter().map(scene).collect()
            },
        },
    ],
};

/// Too little capacity.
pub(super) const CAPACITY: Sweep = Sweep {
    id: "messy/capacity",
    title: "More calls than a link can carry",
    lives: Lives::InVirtualTime,
    cases: &[
        Case {
            claim: claim(
                "messy/capacity",
                "one-of-three",
                SOURCE,
                "Three calls of 64 kbit/s payload on a link of 150 kbit/s",
                "missed <= UDP's + 0.3 points; one call misses <= 0.5 %, the others are told that they are refused",
            ),
            bars: &[Bar::NoMoreThanUdp, Bar::Served(1)],
            scenes: |_| vec![capacity(150, 3, 0)],
        },
        Case {
            claim: claim(
                "messy/capacity",
                "staggered",
                SOURCE,
                "The same, each call 20 s after the one before",
                "one call misses <= 0.5 %, the others are told that they are refused",
            ),
            bars: &[Bar::Served(1)],
            scenes: |_| vec![capacity(150, 3, 20_000)],
        },
        Case {
            claim: claim(
                "messy/capacity",
                "room",
                SOURCE,
                "Three calls on 300 kbit/s",
                "missed <= UDP's + 0.3 points; all miss <= 0.5 %",
            ),
            bars: &[Bar::NoMoreThanUdp, Bar::Served(3)],
            scenes: |_| vec![capacity(300, 3, 0)],
        },
        Case {
            claim: claim(
                "messy/capacity",
                "rates",
                SOURCE,
                "Two to ten calls on links that carry some of them",
                "missed <= UDP's + 0.3 points",
            ),
            bars: &[Bar::NoMoreThanUdp],
            scenes: |size| {
                let full = grid(&[&[100.0, 200.0, 400.0], &[2.0, 4.0, 10.0]]);
                let quick = vec![vec![200.0, 4.0], vec![400.0, 10.0]];
                let points = if size == Size::Quick { quick } else { full };
                let scene = |p: &Vec<f64>| {
                    capacity(p[0] as u32, p[1] as u32, 0).at(&[("kbit", p[0]), ("calls", p[1])])
                };
                points.iter().map(scene).collect()
            },
        },
    ],
};

/// A path that flaps, and a steady alternative.
pub(super) const FLAPS: Sweep = Sweep {
    id: "messy/flaps",
    title: "A short way that comes and goes beside a long one that stays",
    lives: Lives::InVirtualTime,
    cases: &[
        Case {
            claim: claim(
                "messy/flaps",
                "direct",
                SOURCE,
                "A direct link of 20 ms that is down for 0.8 s every 20 s, a clean detour of 50 ms; UDP over a link that is never down",
                WAY_TEXT,
            ),
            bars: &[Bar::NoMoreThanUdp, Bar::Silence],
            scenes: |_| vec![flap(20_000, 800, 25)],
        },
        Case {
            claim: claim(
                "messy/flaps",
                "rhythms",
                SOURCE,
                "Other rhythms and detours",
                WAY_TEXT,
            ),
            bars: &[Bar::NoMoreThanUdp, Bar::Silence],
            scenes: |size| {
                let full = grid(&[&[5.0, 20.0, 60.0], &[0.2, 0.8, 3.0], &[30.0, 50.0, 100.0]]);
                let quick = vec![vec![5.0, 0.8, 50.0], vec![60.0, 3.0, 100.0]];
                let points = if size == Size::Quick { quick } else { full };
                let scene = |p: &Vec<f64>| {
                    flap((p[0] * 1e3) as u32, (p[1] * 1e3) as u32, p[2] as u32 / 2).at(&[
                        ("every", p[0]),
                        ("for", p[1]),
                        ("detour", p[2]),
                    ])
                };
                points.iter().map(scene).collect()
            },
        },
    ],
};

/// Some of these cases with real nodes.
pub(super) const REAL: Sweep = Sweep {
    id: "messy/real",
    title: "Bad days of real nodes",
    lives: Lives::InEarnest,
    cases: &[
        Case {
            claim: claim(
                "messy/real",
                "outages",
                SOURCE,
                "One link, down for 0.8 s every 10 s",
                STALL_TEXT,
            ),
            bars: &[Bar::NoMoreThanUdp, Bar::Silence],
            scenes: |size| vec![Scene::link(LINK, outage(10_000, 800), real_s(size))],
        },
        Case {
            claim: claim(
                "messy/real",
                "second-relay",
                SOURCE,
                "One of two relays stalls for 0.7 s every 15 s",
                WAY_TEXT,
            ),
            bars: &[Bar::NoMoreThanUdp, Bar::Silence],
            scenes: |size| {
                let scene = Scene::link(LINK, relay_stalls(15_000, 700), real_s(size));
                vec![scene.over(vec![relay(LINK); 2])]
            },
        },
        Case {
            claim: claim(
                "messy/real",
                "receiver",
                SOURCE,
                "The receiver's host stalls for 0.8 s every 10 s",
                STALL_TEXT,
            ),
            bars: &[Bar::NoMoreThanUdp, Bar::Silence],
            scenes: |size| {
                let trouble = Trouble::ReceiverStalls {
                    every_ms: 10_000,
                    for_ms: 800,
                };
                vec![Scene::link(LINK, trouble, real_s(size))]
            },
        },
        Case {
            claim: claim(
                "messy/real",
                "jitter",
                SOURCE,
                "One link with jitter up to 20 ms, out of order, and 2 % loss",
                "missed <= UDP's + 0.3 points; silence <= 400 ms",
            ),
            bars: &[Bar::NoMoreThanUdp, Bar::Silence],
            scenes: |size| {
                let scene = jitter(20, 20, 2.0, true);
                vec![Scene {
                    seconds: real_s(size),
                    ..scene
                }]
            },
        },
    ],
};

/// Returns the seconds of a run with real nodes. They are few because real time is expensive.
const fn real_s(size: Size) -> u32 {
    match size {
        Size::Quick => 40,
        Size::Full => 300,
    }
}

const fn outage(every_ms: u32, for_ms: u32) -> Trouble {
    Trouble::Outage { every_ms, for_ms }
}

const fn relay_stalls(every_ms: u32, for_ms: u32) -> Trouble {
    Trouble::RelayStalls { every_ms, for_ms }
}

/// Returns a path over one relay, with two such links.
const fn relay(path: Path) -> Way {
    Way { links: 2, path }
}

fn runs(delay_ms: u32, loss_pct: f64, burst_pct: f64) -> Path {
    Path {
        burst_pct,
        ..Path::new(delay_ms, loss_pct)
    }
}

fn jitter(delay_ms: u32, jitter_ms: u32, loss_pct: f64, reorders: bool) -> Scene {
    let path = Path {
        jitter_ms,
        reorders,
        ..Path::new(delay_ms, loss_pct)
    };
    Scene::link(path, Trouble::Nothing, 300)
}

fn capacity(rate_kbit: u32, count: u32, apart_ms: u32) -> Scene {
    let path = Path {
        rate_kbit: Some(rate_kbit),
        ..Path::new(20, 0.0)
    };
    Scene {
        calls: Calls { count, apart_ms },
        ..Scene::link(path, Trouble::Nothing, 120)
    }
}

/// Returns a scene whose direct link is down from time to time; the detour has two links of half the delay each.
fn flap(every_ms: u32, for_ms: u32, half_ms: u32) -> Scene {
    let ways = vec![Way::link(LINK), relay(Path::new(half_ms, 0.0))];
    Scene {
        udp_suffers: false,
        ..Scene::link(LINK, outage(every_ms, for_ms), 300).over(ways)
    }
}

fn outage_grid(size: Size) -> Vec<Scene> {
    let full = grid(&[
        &[10.0, 30.0, 60.0],
        &[0.1, 0.5, 1.0, 2.0, 5.0],
        &[5.0, 20.0, 80.0],
    ]);
    let quick = vec![
        vec![10.0, 0.5, 5.0],
        vec![10.0, 2.0, 80.0],
        vec![60.0, 5.0, 20.0],
    ];
    let points = if size == Size::Quick { quick } else { full };
    let scene = |p: &Vec<f64>| {
        let trouble = outage((p[0] * 1e3) as u32, (p[1] * 1e3) as u32);
        Scene::link(Path::new(p[2] as u32, 1.0), trouble, 300).at(&[
            ("every", p[0]),
            ("for", p[1]),
            ("delay", p[2]),
        ])
    };
    points.iter().map(scene).collect()
}

fn stall_grid(size: Size) -> Vec<Scene> {
    let full = grid(&[
        &[1.0, 2.0, 3.0],
        &[0.1, 0.3, 0.7, 2.0, 5.0],
        &[5.0, 20.0, 40.0],
    ]);
    let quick = vec![
        vec![1.0, 2.0, 5.0],
        vec![2.0, 0.3, 20.0],
        vec![3.0, 2.0, 40.0],
    ];
    let points = if size == Size::Quick { quick } else { full };
    let scene = |p: &Vec<f64>| {
        let ways = vec![relay(Path::new(p[2] as u32, 1.0)); p[0] as usize];
        Scene::link(LINK, relay_stalls(15_000, (p[1] * 1e3) as u32), 300)
            .over(ways)
            .at(&[("relays", p[0]), ("for", p[1]), ("delay", p[2])])
    };
    points.iter().map(scene).collect()
}

/// Returns all points of a grid.
fn grid(axes: &[&[f64]]) -> Vec<Vec<f64>> {
    axes.iter().fold(vec![Vec::new()], |points, axis| {
        let longer = |point: &Vec<f64>| {
            let with = |value: &f64| point.iter().copied().chain([*value]).collect();
            axis.iter().map(with).collect::<Vec<Vec<f64>>>()
        };
        points.iter().flat_map(longer).collect()
    })
}
