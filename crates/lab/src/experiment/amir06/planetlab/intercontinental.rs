//! Figure 18: calls between five sites on five continents, over the overlay and by direct UDP: the delays of packets.
//! [Amir06 §V-B]
//!
//! ```text
//!             SICS ─────┐            RNP ══ 290 ms ══ KAIST      what UDP takes
//!    RNP ── Washington ─┴─ KAIST     RNP ── Washington ── KAIST  what the overlay may take
//!               └───────── Monash
//! ```
//!
//! A cell is a sending site in one repetition; it calls the other four, one after the other, with the paper's profile
//! and with the defaults, on nodes that are always scheduled and on nodes that stall as in Figure 16. The text neither
//! mentions losses by scheduling in this experiment nor excludes them, so a claim on losses or delays holds if it does
//! with and without stalls.

use super::mesh::{Mesh, Pair, Trial, loads};
use super::{coordinate, profile_at};
use crate::experiment::{Cell, CellError, Experiment, Findings, Plan, Row, Rows, Size, Verdict};
use crate::plot::{Axis, Chart, Mark, Series};
use crate::scenario::Profile;
use crate::stats::{self, quantile};
use base::Duration;
use graph::generate::cities::{AMIR06_TABLE_II, ROUTED_KM_PER_MS};
use sim::traffic::VOICE_INTERVAL;

/// The figure.
pub(in super::super) const FIG18: Intercontinental = Intercontinental;

/// The sites, in the order of [Amir06 Table II].
const SITES: usize = AMIR06_TABLE_II.len();
const WASHINGTON: usize = 0;
const RNP: usize = 1;
const SICS: usize = 2;
const KAIST: usize = 3;
const MONASH: usize = 4;
/// The shortest and the longest delay. [Amir06 §V-B]
const SHORTEST_US: u32 = 59_000;
const LONGEST_US: u32 = 290_000;
/// The delay of the longest path over Washington: "about 190 msec", which no other pair exceeds, or it would be among
/// the slowest tenth over the overlay. [Amir06 §V-B]
const REROUTED_US: u32 = 190_000;
/// Packets of each stream. [Amir06 §V-B]
const PACKETS: u64 = 2_000;
/// Time in which nodes measure their links before calls begin.
const SETTLE: Duration = Duration::from_secs(60);
/// Number of points of a distribution.
const PERCENTILES: u32 = 1_000;
/// The longest delay that is drawn and judged: the longest path has 290 ms.
const MOST_MS: u32 = 400;
/// Tolerance for a limit that equals a path's own delay, so that rounding does not exceed it.
const ROUNDING_MS: f64 = 0.5;

/// The variants: profiles, and whether nodes stall.
const VARIANTS: [(Profile, bool); 4] = [
    (Profile::Paper, false),
    (Profile::Paper, true),
    (Profile::Modern, false),
    (Profile::Modern, true),
];

/// The experiment.
pub(in super::super) struct Intercontinental;

impl Experiment for Intercontinental {
    fn id(&self) -> &'static str {
        "amir06/fig18"
    }

    fn title(&self) -> &'static str {
        "Planetlab, five continents: delays over the overlay and by UDP"
    }

    fn method(&self, size: Size) -> String {
        format!(
            "Production nodes in the simulator, with the paper's profile and with the defaults: the five sites of \
             Table II, a full mesh. RNP-KAIST takes 290 ms, Washington-KAIST 59 ms, and RNP-Washington what is \
             missing to the 190 ms of the rerouted stream, as in the text; other neighbouring \
             continents are as far apart as by great circle at the speed of Washington-KAIST, and what lies \
             between Asia or Australia and Europe or South America leads by way of Washington, in no more than 190 ms. \
             Every path loses 0.42 % with a burstiness of 72 %. Nodes are always scheduled, and in the other half of \
             the runs (busy) not scheduled for 0.2 to 8 s at a time, as in Figure 16. Each site calls each other one for {PACKETS} packets, 4 overlay and 4 UDP streams, \
             one pair after the other; {} times, with other stalls.",
            repetitions(size)
        )
    }

    fn cells(&self, size: Size) -> Vec<Cell> {
        let runs = (0..repetitions(size)).flat_map(|run| (0..SITES).map(move |from| (run, from)));
        let variants = VARIANTS.iter();
        let cells = variants.flat_map(|(profile, busy)| {
            runs.clone().map(move |(run, from)| {
                Cell::at(&[
                    ("profile", coordinate(*profile)),
                    ("busy", f64::from(u8::from(*busy))),
                    ("from", from as f64),
                    ("run", run as f64),
                ])
            })
        });
        cells.collect()
    }

    fn measure(&self, plan: &Plan, cell: &Cell, _: u64) -> Result<Row, CellError> {
        let from = cell.parameter("from") as usize;
        // Both profiles have the same losses and stalls.
        let alike = ["busy", "from", "run"].map(|name| (name, cell.parameter(name)));
        let seed = Cell::at(&alike).seed(self.id(), plan.seed);
        let span = VOICE_INTERVAL * PACKETS + Duration::from_secs(1);
        let others = (0..SITES).filter(|to| *to != from).enumerate();
        let pair = |(n, to): (usize, usize)| Pair {
            from,
            to,
            start: span * n as u64,
        };
        let pairs: Vec<Pair> = others.map(pair).collect();
        // Other machines are busy in each repetition.
        let loads = match cell.parameter("busy") {
            0.0 => vec![0.0; SITES],
            _ => loads(SITES, plan.seed ^ cell.parameter("run") as u64),
        };
        let trial = Trial {
            profile: profile_at(cell.parameter("profile")),
            mesh: &world(),
            pairs: &pairs,
            packets: PACKETS,
            // Choice: the text mentions additional loss only for the first experiment.
            injected: 0.0,
            loads: &loads,
            threshold: None,
            settle: SETTLE,
        };
        let measured = trial.run(seed)?;
        let mut row = Row::of(cell);
        for (i, carrier) in ["overlay", "udp"].into_iter().enumerate() {
            let streams = measured.streams.iter().flat_map(|both| &both[i]);
            let (sent, lost) = streams.fold((0, 0), |(sent, lost), stream| {
                (sent + stream.packets.sent, lost + stream.packets.lost)
            });
            row.set(format!("{carrier} sent"), sent as f64);
            row.set(format!("{carrier} lost"), lost as f64);
            for (pair, delays) in pairs.iter().zip(&measured.delays_us) {
                let points = distribution(&delays[i]);
                row.draw(format!("{carrier} to {}", pair.to), points);
            }
        }
        Ok(row)
    }

    fn conclude(&self, _: &Plan, rows: &Rows) -> Findings {
        Findings {
            charts: vec![chart(rows)],
            verdicts: vec![
                sites(),
                same_loss(rows),
                fewer_late(rows),
                slowest_tenth(rows),
                through_washington(rows),
                minimal_overhead(rows),
                defaults(rows),
            ],
        }
    }
}

/// Returns the number of worlds with other stalls. The paper has one.
const fn repetitions(size: Size) -> usize {
    match size {
        Size::Quick => 2,
        Size::Full => 20,
    }
}

/// Returns the five sites.
///
/// Choice: the text gives two delays, says that the others lie between them, and that the stream over Washington takes
/// 190 ms. Great circles give the rest, except that in 2005 every cable from Europe or South America to Asia or
/// Australia passed through North America.
fn world() -> Mesh {
    let mut mesh = Mesh::of(&AMIR06_TABLE_II, 0, ROUTED_KM_PER_MS);
    for a in 0..SITES {
        for b in a + 1..SITES {
            let us = mesh.delay_us[a][b].clamp(SHORTEST_US, LONGEST_US);
            mesh.set_delay_us(a, b, us);
        }
    }
    mesh.set_delay_us(WASHINGTON, KAIST, SHORTEST_US);
    mesh.set_delay_us(RNP, WASHINGTON, REROUTED_US - SHORTEST_US);
    for near in [RNP, SICS] {
        for far in [KAIST, MONASH] {
            let us = mesh.delay_us[near][WASHINGTON] + mesh.delay_us[WASHINGTON][far];
            let us = us.min(REROUTED_US);
            mesh.set_delay_us(near, far, us);
        }
    }
    mesh.set_delay_us(RNP, KAIST, LONGEST_US);
    mesh
}

/// Returns delays in ms at even shares of the packets.
fn distribution(delays_us: &[u32]) -> Vec<(f64, f64)> {
    let mut ms: Vec<f64> = delays_us.iter().map(|us| f64::from(*us) / 1e3).collect();
    ms.sort_by(f64::total_cmp);
    let shares = (1..=PERCENTILES).map(|n| f64::from(n) / f64::from(PERCENTILES));
    shares.map(|share| (share, quantile(&ms, share))).collect()
}

/// Returns the delays of all pairs together, in ascending order. Each pair has the same number of points.
fn all(rows: &Rows, carrier: &str, (profile, busy): (Profile, bool)) -> Vec<f64> {
    let at = [
        ("profile", coordinate(profile)),
        ("busy", f64::from(u8::from(busy))),
    ];
    let series = rows.with(&at).flat_map(Row::all_series);
    let mine = series.filter(|(name, _)| name.starts_with(carrier));
    let mut ms: Vec<f64> = mine.flat_map(|(_, points)| points).map(|p| p.1).collect();
    ms.sort_by(f64::total_cmp);
    ms
}

/// Returns the median delay between two sites, with the paper's profile and no stalls.
fn median_ms(rows: &Rows, carrier: &str, from: usize, to: usize) -> f64 {
    let name = format!("{carrier} to {to}");
    let at = [("profile", 0.0), ("busy", 0.0), ("from", from as f64)];
    let points = rows.with(&at).flat_map(|row| row.points(&name));
    let mut ms: Vec<f64> = points.map(|(_, ms)| *ms).collect();
    ms.sort_by(f64::total_cmp);
    quantile(&ms, 0.5)
}

fn chart(rows: &Rows) -> Chart {
    type Line = (&'static str, &'static str, Profile, bool);
    let lines: [Line; 5] = [
        ("overlay", "overlay", Profile::Paper, false),
        ("udp", "udp", Profile::Paper, false),
        ("overlay, busy", "overlay", Profile::Paper, true),
        ("udp, busy", "udp", Profile::Paper, true),
        ("defaults, busy", "overlay", Profile::Modern, true),
    ];
    let series = |(color, (name, carrier, profile, busy)): (usize, Line)| {
        let ms = all(rows, carrier, (profile, busy));
        let count = ms.len().max(1) as f64;
        let grid = (0..=400).map(|n| f64::from(n) * f64::from(MOST_MS) / 400.0);
        let earlier = |limit: f64| ms.partition_point(|ms| *ms <= limit) as f64;
        Series {
            name: name.into(),
            color: color as u8,
            mark: Mark::Line,
            points: grid.map(|x| (x, 100.0 * earlier(x) / count)).collect(),
        }
    };
    Chart {
        title: "Packets that arrive earlier than a delay".into(),
        x: Axis {
            label: "one-way delay, ms".into(),
            min: 0.0,
            max: f64::from(MOST_MS),
        },
        y: Axis {
            label: "packets, %".into(),
            min: 0.0,
            max: 100.0,
        },
        series: lines.into_iter().enumerate().map(series).collect(),
    }
}

fn sites() -> Verdict {
    let mesh = world();
    let delays = mesh.delay_us.iter().enumerate();
    let apart = delays.flat_map(|(a, row)| row.iter().skip(a + 1));
    let (least, most) = apart.fold((u32::MAX, 0), |(least, most), us| {
        (least.min(*us), most.max(*us))
    });
    let text = format!(
        "{SITES} sites, {:.0} to {:.0} ms",
        f64::from(least) / 1e3,
        f64::from(most) / 1e3
    );
    let holds = mesh.delay_us[WASHINGTON][KAIST] == least && mesh.delay_us[RNP][KAIST] == most;
    let holds = holds && (least, most) == (SHORTEST_US, LONGEST_US);
    Verdict::made("sites", holds, text)
        .note("both are set, and RNP-Washington; the others follow from great circles")
}

/// Returns the percentage lost by a carrier.
fn lost(rows: &Rows, carrier: &str, (profile, busy): (Profile, bool)) -> f64 {
    let at = [
        ("profile", coordinate(profile)),
        ("busy", f64::from(u8::from(busy))),
    ];
    let sum = |what: &str| {
        let name = format!("{carrier} {what}");
        rows.with(&at).map(|row| row.value(&name)).sum::<f64>()
    };
    100.0 * sum("lost") / sum("sent")
}

/// The two variants: nodes that are always scheduled, and busy ones.
const BUSY: [(bool, &str); 2] = [(false, "without stalls"), (true, "with")];

fn same_loss(rows: &Rows) -> Verdict {
    let both = BUSY.map(|(busy, word)| {
        let of = (Profile::Paper, busy);
        let (overlay, udp) = (lost(rows, "overlay", of), lost(rows, "udp", of));
        let text = format!("{word}: overlay {overlay:.2} %, UDP {udp:.2} %");
        (text, (overlay - udp).abs() < 0.2)
    });
    together("same-loss", both)
        .note("no loss is recovered: the paper's history of 100 ms is shorter than any round trip here")
        .because("an overlay packet also waits, or is lost, where a relay is not scheduled")
}

/// Returns a verdict that holds if the claim does without and with stalls.
fn together(claim: &'static str, both: [(String, bool); 2]) -> Verdict {
    let text = both.iter().map(|(text, _)| text.as_str());
    let text: Vec<&str> = text.collect();
    let holds = both.iter().all(|(_, holds)| *holds);
    Verdict::of(claim, holds, text.join("; "))
}

/// Returns the number of the 99 percentiles at which the overlay is later, beyond the effect of timers and rounding.
fn later(rows: &Rows, of: (Profile, bool)) -> usize {
    const ALIKE_MS: f64 = 1.0;
    let (overlay, udp) = (all(rows, "overlay", of), all(rows, "udp", of));
    let shares = (1..100).map(|n| f64::from(n) / 100.0);
    // An unknown delay does not count as early.
    let is_later = |share: &f64| {
        let [overlay, udp] = [&overlay, &udp].map(|ms| quantile(ms, *share));
        (overlay - udp).is_nan() || overlay > udp + ALIKE_MS
    };
    shares.filter(is_later).count()
}

fn fewer_late(rows: &Rows) -> Verdict {
    let at = |carrier: &str, of: (Profile, bool)| {
        let ms = all(rows, carrier, of);
        let shares = [0.5, 0.9, 0.95, 0.99].map(|share| format!("{:.0}", quantile(&ms, share)));
        shares.join(", ")
    };
    let both = BUSY.map(|(busy, word)| {
        let of = (Profile::Paper, busy);
        let later = later(rows, of);
        let text = format!(
            "{word}: percentiles 50, 90, 95, 99 of the overlay {} ms, of UDP {} ms, later at {later} of 99",
            at("overlay", of),
            at("udp", of),
        );
        (text, later == 0)
    });
    together("fewer-late", both).because(
        "after a stall a link is announced with what was measured through it, for 30 s at least by the paper's \
         rule, and packets take a longer way meanwhile",
    )
}

fn slowest_tenth(rows: &Rows) -> Verdict {
    // The share is the middle of the slowest tenth.
    const SHARE: f64 = 0.95;
    let about = |ms: f64, paper: f64| (ms - paper).abs() < 0.15 * paper;
    let both = BUSY.map(|(busy, word)| {
        let of = (Profile::Paper, busy);
        let [overlay, udp] = ["overlay", "udp"].map(|carrier| {
            let ms = all(rows, carrier, of);
            quantile(&ms, SHARE)
        });
        let text = format!("{word}: overlay {overlay:.0} ms, UDP {udp:.0} ms");
        (text, about(overlay, 190.0) && about(udp, 290.0))
    });
    together("slowest-tenth", both).note(
        "the middle of the slowest tenth, within 15 %. Without stalls that is the rerouted stream, whose 190 ms are \
         the text's, and pairs that are taken to be no farther apart",
    )
}

/// Judges the defaults, about which the paper says nothing. Here a packet that never arrived counts as later than any
/// limit: a repaired packet is late compared with its neighbours, and early compared with one that UDP has lost.
fn defaults(rows: &Rows) -> Verdict {
    const POINTS: f64 = 0.3;
    let both = BUSY.map(|(busy, word)| {
        let of = (Profile::Modern, busy);
        let [overlay, udp] = ["overlay", "udp"].map(|by| lost(rows, by, of));
        let came = ["overlay", "udp"].map(|by| all(rows, by, of));
        let behind = |limit_ms| {
            there_after(&came[1], udp, limit_ms) - there_after(&came[0], overlay, limit_ms)
        };
        let limits = (1..=MOST_MS).map(|limit_ms| (behind(limit_ms), limit_ms));
        // An unknown value counts as the worst.
        let worse = |a: (f64, u32), b: (f64, u32)| if b.0.is_nan() || b.0 > a.0 { b } else { a };
        let (worst, limit_ms) = limits.fold((f64::MIN, 0), worse);
        let text = format!(
            "{word}: at most {worst:.2} points behind UDP, after {limit_ms} ms; lost {overlay:.2} %, UDP {udp:.2} %"
        );
        (text, worst <= POINTS)
    });
    together("defaults", both)
}

/// Returns the share of the sent packets that has arrived within a limit, in percent, from the delays of those that
/// arrived, in ascending order, and the percentage lost.
fn there_after(came_ms: &[f64], lost_pct: f64, limit_ms: u32) -> f64 {
    let limit_ms = f64::from(limit_ms) + ROUNDING_MS;
    let in_time = came_ms.partition_point(|ms| *ms <= limit_ms);
    (100.0 - lost_pct) * in_time as f64 / came_ms.len().max(1) as f64
}

fn through_washington(rows: &Rows) -> Verdict {
    let mesh = world();
    let by_us = mesh.delay_us[RNP][WASHINGTON] + mesh.delay_us[WASHINGTON][KAIST];
    let by_ms = f64::from(by_us) / 1e3;
    let ms = [(RNP, KAIST), (KAIST, RNP)].map(|(a, b)| median_ms(rows, "overlay", a, b));
    let text = format!(
        "RNP-KAIST {:.1} ms, KAIST-RNP {:.1} ms in the median; by Washington it is {by_ms:.1} ms, directly \
         290 ms",
        ms[0], ms[1]
    );
    let holds = ms.iter().all(|ms| (ms - by_ms).abs() < 1.0);
    Verdict::of("through-washington", holds, text)
}

/// Judges the pairs for which the direct link is the best route.
fn minimal_overhead(rows: &Rows) -> Verdict {
    let pairs = (0..SITES).flat_map(|a| (0..SITES).map(move |b| (a, b)));
    let pairs = pairs.filter(|(a, b)| a != b && (*a.min(b), *a.max(b)) != (RNP, KAIST));
    let over = pairs.map(|(a, b)| median_ms(rows, "overlay", a, b) - median_ms(rows, "udp", a, b));
    let most = stats::most(over);
    let text = format!("at most {most:.3} ms more in the median, of the 18 other pairs");
    Verdict::of("minimal-overhead", most < 1.0, text)
        .note("nodes take no time in the simulator; what they take in earnest is Figure 15's")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_packets_are_there_after_no_time() {
        let came = [10.0, 20.0, 20.000_4, 290.0];
        assert_eq!(there_after(&came, 20.0, 9), 0.0);
        assert_eq!(there_after(&came, 20.0, 20), 60.0);
        assert_eq!(there_after(&came, 20.0, 400), 80.0);
    }

    #[test]
    fn only_rnp_and_kaist_gain_by_a_detour() {
        let mesh = world();
        let us = |a: usize, b: usize| mesh.delay_us[a][b];
        for a in 0..SITES {
            for b in (0..SITES).filter(|b| *b != a) {
                let detour = (0..SITES).filter(|via| *via != a && *via != b);
                let detour = detour.map(|via| us(a, via) + us(via, b)).min();
                let gains = detour.is_some_and(|detour| detour < us(a, b));
                assert_eq!(gains, (a.min(b), a.max(b)) == (RNP, KAIST), "{a}-{b}");
            }
        }
        let by_washington = us(RNP, WASHINGTON) + us(WASHINGTON, KAIST);
        for via in [SICS, MONASH] {
            assert!(us(RNP, via) + us(via, KAIST) > by_washington);
        }
    }
}
