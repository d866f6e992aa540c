//! How soon calls take another path when a link fails, and what keeps routes from flapping. [Amir06 §III-A, §IV-B]
//!
//! ```text
//!          ┌── upper ──┐        20 ms, until something happens to it
//!      west            east
//!          └── lower ──┘        30 ms
//! ```
//!
//! A cell is one fault with one set of timers. The paper's timers and the defaults also run without their damping: the
//! consequences for a link that comes and goes are the paper's reason for damping.

use super::chain::{PACKET_BYTES, STREAMS, head};
use crate::experiment::{Cell, CellError, Experiment, Findings, Plan, Row, Rows, Size, Verdict};
use crate::plot::{Axis, Chart, Mark, Series};
use crate::scenario::{Call, Scenario, Simulation};
use crate::stats;
use base::Duration;
use overlay::{Event, Settings};
use std::cell::RefCell;
use std::fmt::Write as _;
use std::rc::Rc;

/// The experiment.
pub(super) const REROUTE: Reroute = Reroute;

/// Time of the first fault.
const MISHAP_S: u32 = 40;
/// Length of the observation after a crash, and after a link begins to change its cost or to come and go: ten of the
/// paper's 30 s.
const AFTER_CRASH_S: u32 = 40;
const AFTER_CHANGES_S: u32 = 300;
/// Time between two packets of a call.
const INTERVAL_S: f64 = 0.02;
/// Deadline of the calls.
const DEADLINE_US: u32 = 100_000;
/// Links that come and go: at the given interval in seconds they are down for the given milliseconds. Each is down
/// longer than one of the profiles takes to notice.
const FAST: Mishap = Mishap::Flap(6, 1_500);
const SLOW: Mishap = Mishap::Flap(20, 12_000);
/// How often a link's delay changes.
const COST_EVERY_S: u32 = 4;
/// Detection without damping: after one second of missed hellos.
const HASTY_S: u64 = 1;

/// Calls around a diamond.
pub(super) struct Reroute;

/// The sets of timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timers {
    Paper,
    /// The paper's timers, but cost updates may follow each other freely.
    PaperUndamped,
    /// In addition, a link counts as down after a second.
    PaperHasty,
    Modern,
    /// The defaults, but a failed link carries packets as soon as it is heard again.
    ModernUndamped,
}

/// The faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mishap {
    /// The relay on the better path crashes.
    Crash,
    /// A link is silent for this many seconds.
    Silence(u32),
    /// A link's delay changes repeatedly.
    Cost,
    /// A link comes and goes: at an interval in seconds it is down for some milliseconds.
    Flap(u32, u32),
}

const ALL: [(Mishap, Timers); 11] = [
    (Mishap::Crash, Timers::Paper),
    (Mishap::Crash, Timers::Modern),
    (Mishap::Silence(8), Timers::Paper),
    (Mishap::Silence(12), Timers::Paper),
    (Mishap::Cost, Timers::Paper),
    (SLOW, Timers::Paper),
    (SLOW, Timers::PaperUndamped),
    (FAST, Timers::Paper),
    (FAST, Timers::PaperHasty),
    (FAST, Timers::Modern),
    (FAST, Timers::ModernUndamped),
];

/// The links that come and go, with their names in a chart.
const FLAPS: [((Mishap, Timers), &str); 6] = [
    ((SLOW, Timers::Paper), "12 of 20 s, the paper's timers"),
    ((SLOW, Timers::PaperUndamped), "undamped"),
    ((FAST, Timers::Paper), "1.5 of 6 s, the paper's timers"),
    ((FAST, Timers::PaperHasty), "hasty"),
    ((FAST, Timers::Modern), "the defaults"),
    ((FAST, Timers::ModernUndamped), "undamped"),
];

impl Timers {
    fn word(self) -> &'static str {
        match self {
            Timers::Paper => "paper",
            Timers::PaperUndamped => "paper-undamped",
            Timers::PaperHasty => "paper-hasty",
            Timers::Modern => "default",
            Timers::ModernUndamped => "default-undamped",
        }
    }

    fn settings(self) -> Settings {
        let mut settings = match self {
            Timers::Paper | Timers::PaperUndamped | Timers::PaperHasty => Settings::paper(),
            Timers::Modern | Timers::ModernUndamped => Settings::modern(),
        };
        match self {
            Timers::Paper | Timers::Modern => {}
            Timers::PaperUndamped => settings.announce.spacing = Duration::ZERO,
            Timers::PaperHasty => {
                settings.announce.spacing = Duration::ZERO;
                for pace in [&mut settings.hello.active, &mut settings.hello.idle] {
                    pace.interval = Duration::from_millis(200);
                    pace.down_after = Duration::from_secs(HASTY_S);
                }
            }
            Timers::ModernUndamped => {
                settings.hello.price.first = Duration::ZERO;
                settings.hello.price.most = Duration::ZERO;
                settings.announce.hold = Duration::ZERO;
                settings.announce.spacing = Duration::ZERO;
            }
        }
        settings
    }
}

impl Mishap {
    fn word(self) -> String {
        match self {
            Mishap::Crash => "crash".into(),
            Mishap::Silence(seconds) => format!("silence-{seconds}s"),
            Mishap::Cost => "cost".into(),
            SLOW => "slow-flap".into(),
            Mishap::Flap(..) => "fast-flap".into(),
        }
    }

    fn seconds(self) -> u32 {
        match self {
            Mishap::Crash | Mishap::Silence(_) => MISHAP_S + AFTER_CRASH_S,
            Mishap::Cost | Mishap::Flap(..) => MISHAP_S + AFTER_CHANGES_S,
        }
    }

    /// Returns the faults of a scenario; `phase_ms` shifts them relative to hellos and packets.
    fn faults(self, phase_ms: u32) -> String {
        const LINK: &str = "a = \"west\"\nb = \"upper\"\n";
        let at = MISHAP_S * 1_000 + phase_ms;
        let fault = |at: u32, kind: &str, with: &str| {
            format!("[[fault]]\nat = \"{at}ms\"\nkind = \"{kind}\"\n{with}")
        };
        match self {
            Mishap::Crash => fault(at, "crash", "node = \"upper\"\n"),
            Mishap::Silence(seconds) => {
                fault(at, "link-down", LINK) + &fault(at + seconds * 1_000, "link-up", LINK)
            }
            Mishap::Cost => {
                let change = |at, delay_ms| {
                    let every = 2 * COST_EVERY_S;
                    let with =
                        format!("{LINK}path = \"delay={delay_ms}ms\"\nevery = \"{every}s\"\n");
                    fault(at, "link-set", &with)
                };
                change(at, 18) + &change(at + COST_EVERY_S * 1_000, 10)
            }
            Mishap::Flap(every_s, down_ms) => {
                let with = format!("{LINK}every = \"{every_s}s\"\n");
                fault(at, "link-down", &with) + &fault(at + down_ms, "link-up", &with)
            }
        }
    }
}

impl Experiment for Reroute {
    fn id(&self) -> &'static str {
        "amir06/reroute"
    }

    fn title(&self) -> &'static str {
        "Calls around a link that fails, or comes and goes"
    }

    fn method(&self, size: Size) -> String {
        format!(
            "Production nodes in the simulator: {STREAMS} calls from west to east, by way of upper \
             (20 ms) as long as that is better, else by way of lower (30 ms). Upper crashes; or its \
             link to west is silent for 8 or 12 s; or that link's delay changes every \
             {COST_EVERY_S} s; or it is down for 12 s of every 20, or for 1.5 s of every 6. With the \
             paper's timers and with the defaults, {} runs each. Undamped are the paper's without a \
             least time between two cost updates, and the defaults without the time that a link which \
             failed must wait and without the spacing of announcements; hasty are the paper's, \
             undamped, with detection after {HASTY_S} s of silence.",
            runs(size)
        )
    }

    fn cells(&self, _: Size) -> Vec<Cell> {
        let cell = |(place, (mishap, timers)): (usize, &(Mishap, Timers))| Cell {
            key: format!("{} {}", mishap.word(), timers.word()),
            parameters: vec![("case", place as f64)],
            words: Vec::new(),
        };
        ALL.iter().enumerate().map(cell).collect()
    }

    fn measure(&self, plan: &Plan, cell: &Cell, seed: u64) -> Result<Row, CellError> {
        let (mishap, timers) = ALL[cell.parameter("case") as usize];
        let mut row = Row::of(cell);
        let mut runs_of = Vec::new();
        for run in 0..runs(plan.size) {
            // Phases are spread over a second, which is the longest interval of hellos.
            let phase_ms = 1_000 * run / runs(plan.size);
            runs_of.push(one(
                mishap,
                timers,
                phase_ms,
                seed.wrapping_add(u64::from(run)),
            )?);
        }
        let most = |of: fn(&Run) -> f64| stats::most(runs_of.iter().map(of));
        let least = |of: fn(&Run) -> f64| stats::least(runs_of.iter().map(of));
        let sum = |of: fn(&Run) -> f64| runs_of.iter().map(of).sum::<f64>();
        row.set("longest_gap_s", most(|run| run.longest_gap_s));
        row.set("links_down", sum(|run| run.links_down));
        row.set("route_changes", sum(|run| run.route_changes));
        row.set("first_down_least_s", least(|run| run.first_down_s));
        row.set("first_down_most_s", most(|run| run.first_down_s));
        row.set("updates", sum(|run| run.updates));
        row.set("updates_apart_s", least(|run| run.updates_apart_s));
        row.set("missed", sum(|run| run.missed) / sum(|run| run.sent));
        let gaps = runs_of.iter().enumerate();
        row.draw(
            "longest_gap_s",
            gaps.map(|(n, run)| (n as f64 + 1.0, run.longest_gap_s)),
        );
        row.draw("missed_calls_pct", runs_of.swap_remove(0).missed_pct);
        Ok(row)
    }

    fn conclude(&self, _: &Plan, rows: &Rows) -> Findings {
        let found = |wanted: (Mishap, Timers)| {
            let place = ALL.iter().position(|case| *case == wanted)?;
            rows.with(&[("case", place as f64)]).next()
        };
        let of = |mishap, timers| found((mishap, timers)).cloned().unwrap_or_default();
        let crash = [Timers::Paper, Timers::Modern].map(|timers| of(Mishap::Crash, timers));
        let flap = FLAPS.map(|((mishap, timers), _)| of(mishap, timers));
        Findings {
            charts: vec![crash_chart(&crash), flap_chart(&flap)],
            verdicts: vec![
                seconds(&crash),
                ten_seconds(
                    &of(Mishap::Silence(8), Timers::Paper),
                    &of(Mishap::Silence(12), Timers::Paper),
                ),
                thirty_seconds(&of(Mishap::Cost, Timers::Paper)),
                instability(&flap),
            ],
        }
    }
}

/// Returns the runs per cell.
fn runs(size: Size) -> u32 {
    match size {
        Size::Quick => 5,
        Size::Full => 20,
    }
}

/// The result of one run.
struct Run {
    sent: f64,
    missed: f64,
    longest_gap_s: f64,
    links_down: f64,
    route_changes: f64,
    /// Time from the fault to the first link that was given up; NaN if there was none.
    first_down_s: f64,
    /// Number of records of west that east accepted after the fault, and the shortest time between two; NaN if there
    /// are fewer than two.
    updates: f64,
    updates_apart_s: f64,
    /// Percentage of missed packets of all calls, by the second.
    missed_pct: Vec<(f64, f64)>,
}

/// The reports of nodes, with the scenario's time.
#[derive(Default)]
struct Seen {
    first_down_s: Option<f64>,
    updates_s: Vec<f64>,
}

fn one(mishap: Mishap, timers: Timers, phase_ms: u32, seed: u64) -> Result<Run, CellError> {
    let failed = |error: &dyn std::fmt::Display| CellError(error.to_string());
    let text = scenario(mishap, phase_ms);
    let scenario = Scenario::parse("reroute", &text).map_err(|error| failed(&error))?;
    let mishap_s = f64::from(MISHAP_S) + f64::from(phase_ms) / 1e3;
    let (west, east) = (scenario.nodes[0].address, 3);
    let seen = Rc::new(RefCell::new(Seen::default()));
    let mut simulation = Simulation::with_settings(&scenario, seed, timers.settings());
    let notes = seen.clone();
    simulation.watch(move |at, node, event| {
        let after_s = at.as_secs_f64() - mishap_s;
        let mut seen = notes.borrow_mut();
        match event {
            Event::LinkDown { .. } if after_s >= 0.0 => {
                seen.first_down_s.get_or_insert(after_s);
            }
            Event::RecordAccepted { origin }
                if node == east && *origin == west && after_s >= 0.0 =>
            {
                seen.updates_s.push(after_s);
            }
            _ => {}
        }
    });
    while simulation.run_for(Duration::from_secs(3_600)) {}
    let (report, calls) = simulation.finish_with_calls();
    let seen = seen.take();
    let (overlay, packets) = (&report.overlay, &report.flows[0].packets);
    let apart = seen.updates_s.windows(2).map(|pair| pair[1] - pair[0]);
    Ok(Run {
        sent: packets.sent as f64,
        missed: (packets.lost + packets.late) as f64,
        longest_gap_s: packets.longest_gap_ms / 1e3,
        links_down: overlay.links_down as f64,
        route_changes: overlay.route_changes as f64,
        first_down_s: seen.first_down_s.unwrap_or(f64::NAN),
        updates: seen.updates_s.len() as f64,
        updates_apart_s: stats::least(apart),
        missed_pct: missed_pct(&calls[0]),
    })
}

/// Returns the diamond with its calls, as a scenario file.
fn scenario(mishap: Mishap, phase_ms: u32) -> String {
    // Settings are passed separately; the paper's profile takes longer to settle, which has no effect on the others.
    let mut text = head("reroute", "paper", mishap.seconds() * 1_000);
    for node in ["west", "upper", "lower", "east"] {
        let _ = write!(text, "[[node]]\nname = \"{node}\"\n");
    }
    for (relay, delay_ms) in [("upper", 10), ("lower", 15)] {
        for end in ["west", "east"] {
            let _ = write!(
                text,
                "[[link]]\na = \"{end}\"\nb = \"{relay}\"\npath = \"delay={delay_ms}ms\"\n"
            );
        }
    }
    let _ = write!(
        text,
        "[[flow]]\nfrom = \"west\"\nto = \"east\"\ncount = {STREAMS}\npacket = {PACKET_BYTES}\n"
    );
    text + &mishap.faults(phase_ms)
}

fn missed_pct(calls: &[Call]) -> Vec<(f64, f64)> {
    let per_second = (1.0 / INTERVAL_S) as usize;
    let longest = calls.iter().map(Vec::len).max().unwrap_or(0);
    let second = |n: usize| {
        let packets = calls
            .iter()
            .flat_map(|call| call.iter().skip(n * per_second).take(per_second));
        let missed = packets
            .filter(|us| us.is_none_or(|us| us > DEADLINE_US))
            .count();
        let share = missed as f64 / (calls.len() * per_second) as f64;
        (n as f64 - f64::from(MISHAP_S), 100.0 * share)
    };
    (0..longest / per_second).map(second).collect()
}

fn crash_chart(rows: &[Row; 2]) -> Chart {
    let measured = |(i, (row, name)): (usize, (&Row, &'static str))| Series {
        name: name.into(),
        color: i as u8,
        mark: Mark::Line,
        points: row.points("longest_gap_s").to_vec(),
    };
    let most = rows[0].points("longest_gap_s").len().max(2);
    Chart {
        title: "Silence of a call when a relay dies".into(),
        x: Axis {
            label: "run".into(),
            min: 1.0,
            max: most as f64,
        },
        y: Axis {
            label: "silence, s".into(),
            min: 0.0,
            max: 12.0,
        },
        series: rows
            .iter()
            .zip(["the paper's timers", "the defaults"])
            .enumerate()
            .map(measured)
            .collect(),
    }
}

fn flap_chart(rows: &[Row; FLAPS.len()]) -> Chart {
    let names = FLAPS.map(|(_, name)| name);
    let measured = |(i, (row, name)): (usize, (&Row, &'static str))| {
        // The curves are cumulative, so that four series can be distinguished.
        let mut sum = 0.0;
        let after = row
            .points("missed_calls_pct")
            .iter()
            .filter(|(s, _)| *s >= 0.0);
        let points = after.map(|(s, pct)| {
            sum += pct / 100.0;
            (*s, sum)
        });
        Series {
            name: name.into(),
            color: i as u8,
            mark: Mark::Line,
            points: points.collect(),
        }
    };
    let series: Vec<Series> = rows.iter().zip(names).enumerate().map(measured).collect();
    let last = series.iter().filter_map(|series| series.points.last());
    let y_max = last.map(|(_, y)| *y).fold(1.0, f64::max);
    Chart {
        title: "A call over a link that comes and goes".into(),
        x: Axis {
            label: "since it began, s".into(),
            min: 0.0,
            max: f64::from(AFTER_CHANGES_S),
        },
        y: Axis {
            label: "missed so far, s of speech".into(),
            min: 0.0,
            max: y_max,
        },
        series,
    }
}

fn seconds([paper, modern]: &[Row; 2]) -> Verdict {
    let (paper_s, modern_s) = (paper.value("longest_gap_s"), modern.value("longest_gap_s"));
    let text = format!(
        "longest silence of a call when a relay dies: {paper_s:.2} s with the paper's timers, \
         {modern_s:.2} s with the defaults"
    );
    Verdict::of("seconds", paper_s <= 30.0 && modern_s <= 1.0, text)
        .note("what routing on the Internet takes is not measured here")
}

fn ten_seconds(eight: &Row, twelve: &Row) -> Verdict {
    let (least, most) = (
        twelve.value("first_down_least_s"),
        twelve.value("first_down_most_s"),
    );
    let text = format!(
        "{} links given up in 8 s of silence; in 12 s, after {least:.1} to {most:.1} s",
        eight.value("links_down")
    );
    let holds = eight.value("links_down") == 0.0 && least >= 8.5 && most <= 11.0;
    Verdict::of("ten-seconds", holds, text).note(
        "silence counts from the last packet heard, up to an interval before the link fails: down \
         after 9.9 s, within the \"under 10 seconds\" of §III-A",
    )
}

fn thirty_seconds(row: &Row) -> Verdict {
    let (updates, apart) = (row.value("updates"), row.value("updates_apart_s"));
    let text = format!(
        "{updates} updates of a link whose delay changed every {COST_EVERY_S} s, at least {apart:.2} s apart"
    );
    // The sender's timers and the floods are late by milliseconds, which vary.
    Verdict::of("thirty-seconds", updates > 2.0 && apart >= 29.9, text)
}

fn instability(
    [slow, slow_undamped, fast, hasty, modern, undamped]: &[Row; FLAPS.len()],
) -> Verdict {
    let told = |row: &Row| {
        format!(
            "{:.2} % missed, {} route changes",
            100.0 * row.value("missed"),
            row.value("route_changes")
        )
    };
    let text = format!(
        "down 12 s of 20, the paper's timers: {}; undamped: {}. Down 1.5 s of 6, the defaults: {}; \
         undamped: {}",
        told(slow),
        told(slow_undamped),
        told(modern),
        told(undamped)
    );
    let papers = slow.value("missed") < slow_undamped.value("missed");
    let defaults = modern.value("missed") < undamped.value("missed");
    let unseen = format!(
        "down 1.5 s of 6, the paper's timers notice nothing ({}), while hasty ones follow every \
         change ({}): in a network as small as this, where a new route is known everywhere within \
         50 ms, not noticing costs more than the instability that it avoids",
        told(fast),
        told(hasty)
    );
    let verdict = Verdict::of("instability", papers && defaults, text);
    match (papers, defaults) {
        (true, true) => verdict.note(unseen),
        (false, true) => verdict.note(format!(
            "the defaults' damping pays; the paper's 30 s lie between two updates of a cost, and a \
             link that goes down or comes up is told at once, so they change nothing where a link \
             comes and goes; {unseen}"
        )),
        _ => verdict.note(format!(
            "damping costs more here than the changes that it prevents; {unseen}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mishap_is_a_scenario() {
        for (mishap, _) in ALL {
            let text = scenario(mishap, 200);
            let parsed = Scenario::parse("reroute", &text);
            assert!(!parsed.unwrap().faults.is_empty(), "{text}");
        }
    }

    #[test]
    fn misses_are_counted_by_the_second() {
        let mut call: Call = vec![Some(20_000); 150];
        call[50..75].fill(None);
        call[149] = Some(DEADLINE_US + 1);
        let pct: Vec<f64> = missed_pct(&[call.clone(), call])
            .iter()
            .map(|point| point.1)
            .collect();
        assert_eq!(pct, [0.0, 50.0, 2.0]);
    }
}
