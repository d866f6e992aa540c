//! Protection of real-time lanes over links that are too long for requests: the remaining loss with repair packets, and
//! their cost.
//!
//! ```text
//!   a ──── T ms, 5 % loss both ways ──── b      one call or twenty, deadline T + 60 ms: a request takes 3 T
//! ```
//!
//! The nodes are production nodes in the simulator. Each cell runs with protection and, for comparison of the bytes,
//! without any; the short link also runs with requests alone.

mod cliff;
mod pilot;
mod queue;
mod video;

use super::{
    Cell, CellError, ClaimText, Experiment, Findings, Plan, Row, Rows, Size, Verdict, claim,
};
use crate::plot::{Axis, Chart, Mark, Series};
use crate::scenario::{Report, Scenario, Simulation};
use crate::stats::mean_and_error;
use base::Duration;

/// The experiments.
pub(super) const EXPERIMENTS: &[&dyn Experiment] = &[
    &ONE_LINK,
    &cliff::CLIFF,
    &pilot::PILOT,
    &queue::QUEUE,
    &video::VIDEO,
];

const ONE_LINK: OneLink = OneLink;
const ID: &str = "protection/one-link";
const SOURCE: &str = "RFC 8681, block codes beside it";
/// Loss of the link, both ways, in percent.
const LOSS_PCT: f64 = 5.0;
/// The part of the deadline that exceeds the one-way delay of the link.
const SLACK_MS: f64 = 60.0;
/// The delay of the short link, where requests are enough, and its deadline.
const SHORT_MS: f64 = 10.0;
const SHORT_DEADLINE_MS: f64 = 100.0;
/// The factor by which requests alone may leave more, or cost less, by chance.
const LIKE: f64 = 1.01;

/// The promises: name, text, and the limits in percent missed and percent of bytes added.
const BARS: &[(&str, &str, f64, f64)] = &[
    (
        "independent",
        "20 calls, T = 30, 50, 80 ms, independent losses, aimed at 0.01 %",
        0.02,
        30.0,
    ),
    (
        "burst-50",
        "the same with bursts of 50 %, as it comes",
        0.15,
        40.0,
    ),
    (
        "burst-75",
        "the same with bursts of 75 %, as it comes",
        0.8,
        60.0,
    ),
    (
        "one-independent",
        "one call, T = 30, 50, 80 ms, independent losses, as it comes",
        0.27,
        105.0,
    ),
    ("one-burst", "the same with bursts of 50 %", 0.4, 105.0),
    (
        "one-dear-independent",
        "one call, independent losses, at most 210 % more",
        0.02,
        210.0,
    ),
    (
        "one-dear-burst",
        "the same with bursts of 50 %",
        0.08,
        210.0,
    ),
];

const CLAIMS: &[ClaimText] = &[
    bar(0, "missed at most 0.02 %, at most 30 % more bytes"),
    bar(1, "missed at most 0.15 %, at most 40 % more bytes"),
    bar(2, "missed at most 0.8 %, at most 60 % more bytes"),
    bar(3, "missed at most 0.27 %, at most 105 % more bytes"),
    bar(4, "missed at most 0.40 %, at most 105 % more bytes"),
    bar(5, "missed at most 0.02 %, at most 210 % more bytes"),
    bar(6, "missed at most 0.08 %, at most 210 % more bytes"),
    claim(
        ID,
        "short",
        SOURCE,
        "T = 10 ms, deadline 100 ms, 20 calls, bursts of 0 and 25 %",
        "missed at most 0.02 %, and no more bytes than with requests alone",
    ),
];

/// Returns the claims of all experiments.
pub(super) fn claims() -> impl Iterator<Item = &'static ClaimText> {
    let others = [&cliff::CLAIM, &video::CLAIM];
    CLAIMS
        .iter()
        .chain(pilot::CLAIMS)
        .chain(queue::CLAIMS)
        .chain(others)
}

const fn bar(at: usize, says: &'static str) -> ClaimText {
    claim(ID, BARS[at].0, SOURCE, BARS[at].1, says)
}

struct OneLink;

/// The parameters of a cell.
#[derive(Clone, Copy, Debug)]
struct Case {
    /// One-way delay of the link.
    t_ms: f64,
    calls: f64,
    burst_pct: f64,
    /// Whether a lane with a single call may have two repair packets per packet.
    dear: bool,
}

impl Case {
    fn of(cell: &Cell) -> Case {
        let at = |name: &str| {
            let found = cell.parameters.iter().find(|(key, _)| *key == name);
            found.map_or(0.0, |(_, value)| *value)
        };
        Case {
            t_ms: at("T ms"),
            calls: at("calls"),
            burst_pct: at("burst %"),
            dear: at("dear") > 0.0,
        }
    }

    fn cell(self) -> Cell {
        let flag = |set: bool| f64::from(u8::from(set));
        let mut key = format!(
            "T={} calls={} burst={}",
            self.t_ms, self.calls, self.burst_pct
        );
        if self.dear {
            key += " dear";
        }
        Cell {
            key,
            parameters: vec![
                ("T ms", self.t_ms),
                ("calls", self.calls),
                ("burst %", self.burst_pct),
                ("dear", flag(self.dear)),
            ],
            words: Vec::new(),
        }
    }

    fn is_short(self) -> bool {
        self.t_ms == SHORT_MS
    }

    /// Returns the name of the limit that applies.
    fn bar(self) -> &'static str {
        let one = self.calls == 1.0;
        match (one, self.dear, self.burst_pct) {
            _ if self.is_short() => "short",
            (false, _, 0.0) => "independent",
            (false, _, 50.0) => "burst-50",
            (false, ..) => "burst-75",
            (true, false, 0.0) => "one-independent",
            (true, false, _) => "one-burst",
            (true, true, 0.0) => "one-dear-independent",
            (true, true, _) => "one-dear-burst",
        }
    }

    /// Returns its scenario, with a length of `seconds`. `protect` is `auto` or the alternative that it is compared
    /// with.
    fn scenario(self, seconds: u64, protect: &str) -> String {
        let deadline_ms = match self.is_short() {
            true => SHORT_DEADLINE_MS,
            false => self.t_ms + SLACK_MS,
        };
        let mut settings = format!("protect = \"{protect}\"\n");
        if self.dear {
            settings += "protect_most_single = 2.0\nprotect_target = 0.0001\n";
        }
        if self.bar() == "independent" {
            settings += "protect_target = 0.0001\n";
        }
        let path = match self.burst_pct {
            0.0 => format!("loss={LOSS_PCT}%"),
            burst => format!("loss={LOSS_PCT}% burst={burst}%"),
        };
        let mut text = format!(
            "[scenario]\nname = \"protection\"\nduration = \"{seconds}s\"\nsettle = \"10s\"\nsealing = false\n\
             [settings]\n{settings}[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n\
             [[link]]\na = \"a\"\nb = \"b\"\npath = \"delay={}ms {path}\"\n",
            self.t_ms
        );
        for call in 0..self.calls as u32 {
            text += &format!(
                "[[flow]]\nname = \"call{call}\"\nfrom = \"a\"\nto = \"b\"\ndeadline = \"{deadline_ms}ms\"\n"
            );
        }
        text
    }
}

/// Returns how often a cell is run, and for how many seconds.
fn runs(case: Case, size: Size) -> (u64, u64) {
    let seconds = match case.calls {
        1.0 => 600,
        _ => 60,
    };
    match size {
        Size::Quick => (3, seconds),
        Size::Full => (10, seconds * 2),
    }
}

fn run(case: Case, seconds: u64, protect: &str, seed: u64) -> Result<Report, CellError> {
    run_text(&case.scenario(seconds, protect), seed)
}

fn run_text(text: &str, seed: u64) -> Result<Report, CellError> {
    let scenario = Scenario::parse("protection", text);
    let scenario = scenario.map_err(|error| CellError(error.to_string()))?;
    let mut simulation = Simulation::new(&scenario, seed);
    while simulation.run_for(Duration::from_secs(3_600)) {}
    Ok(simulation.finish())
}

/// Returns the percentage of the packets that were lost or late.
fn missed_pct(report: &Report) -> f64 {
    let packets = report.flows.iter().map(|flow| &flow.packets);
    let missed: u64 = packets
        .clone()
        .map(|packets| packets.lost + packets.late)
        .sum();
    100.0 * missed as f64 / packets.map(|packets| packets.sent).sum::<u64>().max(1) as f64
}

impl Experiment for OneLink {
    fn id(&self) -> &'static str {
        ID
    }

    fn title(&self) -> &'static str {
        "Repair where a link is too long for requests"
    }

    fn method(&self, size: Size) -> String {
        let one = Case {
            t_ms: 50.0,
            calls: 1.0,
            burst_pct: 0.0,
            dear: false,
        };
        let (count, seconds) = runs(one, size);
        format!(
            "Production nodes in the simulator, one link that loses {LOSS_PCT} % both ways, deadline T + {SLACK_MS} ms: {count} runs of \
             {seconds} s with one call, of {} s with twenty, from the first packet on. Missed is lost or late, with the standard error over \
             the runs. Bytes are those of all datagrams, beside the same without any protection. Trunks with independent losses \
             and dear calls are aimed at 0.01 %, all else at the default 0.05 %.",
            seconds / 10
        )
    }

    fn cells(&self, size: Size) -> Vec<Cell> {
        let case = |t_ms: f64, calls: f64, burst_pct: f64, dear: bool| Case {
            t_ms,
            calls,
            burst_pct,
            dear,
        };
        let mut cases = Vec::new();
        for t_ms in [30.0, 50.0, 80.0] {
            cases.extend([0.0, 50.0, 75.0].map(|burst| case(t_ms, 20.0, burst, false)));
            if size == Size::Full || t_ms == 50.0 {
                cases.extend([0.0, 50.0].map(|burst| case(t_ms, 1.0, burst, false)));
                cases.extend([0.0, 50.0].map(|burst| case(t_ms, 1.0, burst, true)));
            }
        }
        cases.extend([0.0, 25.0].map(|burst| case(SHORT_MS, 20.0, burst, false)));
        cases.into_iter().map(Case::cell).collect()
    }

    fn measure(&self, plan: &Plan, cell: &Cell, seed: u64) -> Result<Row, CellError> {
        let case = Case::of(cell);
        let (count, seconds) = runs(case, plan.size);
        let mut row = Row::of(cell);
        let compared = if case.is_short() { "requests" } else { "off" };
        let bare = run(case, seconds, compared, seed)?;
        let bytes = |report: &Report| report.overlay.wire_bytes as f64;
        let (mut missed, mut added) = (Vec::new(), 0.0);
        for n in 0..count {
            let report = run(case, seconds, "auto", seed.wrapping_add(n))?;
            missed.push(missed_pct(&report));
            added += 100.0 * (bytes(&report) / bytes(&bare) - 1.0) / count as f64;
        }
        let (mean, error) = mean_and_error(&missed);
        row.set("missed %", mean);
        row.set("error %", error);
        row.set("added %", added);
        row.set("without %", missed_pct(&bare));
        Ok(row)
    }

    fn conclude(&self, _: &Plan, rows: &Rows) -> Findings {
        let of = |name: &str| -> Vec<&Row> {
            let is_one = |row: &&Row| bar_of(row) == name;
            rows.0.iter().filter(is_one).collect()
        };
        let mut verdicts: Vec<Verdict> = BARS
            .iter()
            .map(|(name, _, missed, added)| verdict(name, &of(name), *missed, *added))
            .collect();
        verdicts.push(verdict("short", &of("short"), 0.02, 100.0 * (LIKE - 1.0)));
        Findings {
            charts: vec![chart(rows)],
            verdicts,
        }
    }

    fn table(&self, rows: &Rows) -> Vec<Vec<String>> {
        table(rows.0.iter())
    }

    fn files(&self, plan: &Plan) -> Vec<(String, String)> {
        let file = |cell: Cell| {
            let case = Case::of(&cell);
            let name = cell.key.replace([' ', '='], "-");
            let (_, seconds) = runs(case, plan.size);
            (format!("{name}.toml"), case.scenario(seconds, "auto"))
        };
        self.cells(plan.size).into_iter().map(file).collect()
    }
}

/// Returns the name of the limit that applies to a row.
fn bar_of(row: &Row) -> &'static str {
    let case = Case {
        t_ms: row.parameter("T ms"),
        calls: row.parameter("calls"),
        burst_pct: row.parameter("burst %"),
        dear: row.parameter("dear") > 0.0,
    };
    case.bar()
}

fn table<'r>(rows: impl Iterator<Item = &'r Row>) -> Vec<Vec<String>> {
    let head = ["cell", "missed %", "±", "bytes +%", "without %"];
    let mut table = vec![head.map(str::to_owned).to_vec()];
    for row in rows {
        let line = [
            row.cell.clone(),
            format!("{:.4}", row.value("missed %")),
            format!("{:.4}", row.value("error %")),
            format!("{:.1}", row.value("added %")),
            format!("{:.3}", row.value("without %")),
        ];
        table.push(line.to_vec());
    }
    table
}

/// Returns a verdict on whether all rows stay within both limits.
fn verdict(name: &'static str, rows: &[&Row], missed_pct: f64, added_pct: f64) -> Verdict {
    let holds =
        |row: &&&Row| row.value("missed %") <= missed_pct && row.value("added %") <= added_pct;
    let good = rows.iter().filter(holds).count();
    let tells = |row: &&Row| {
        format!(
            "{}: {:.4} ± {:.4} %, bytes {:+.1} %",
            row.cell,
            row.value("missed %"),
            row.value("error %"),
            row.value("added %")
        )
    };
    let text = rows.iter().map(tells).collect::<Vec<_>>().join("; ");
    match rows.is_empty() {
        true => Verdict::untested(name, "no cell"),
        false => Verdict::of(name, good == rows.len(), text),
    }
}

fn chart(rows: &Rows) -> Chart {
    let kinds = [("independent", 0), ("burst-50", 1), ("burst-75", 2)];
    let series = kinds.map(|(name, color)| Series {
        name: name.into(),
        color,
        mark: Mark::Dots,
        points: rows
            .0
            .iter()
            .filter(|row| bar_of(row) == name)
            .map(|row| (row.parameter("T ms"), row.value("missed %")))
            .collect(),
    });
    let points = series.iter().flat_map(|series| &series.points);
    let most = points.map(|(_, y)| *y).fold(0.1, f64::max);
    Chart {
        title: "Missed by twenty calls; without repair it is 5 %".into(),
        x: Axis {
            label: "one way, ms".into(),
            min: 0.0,
            max: 90.0,
        },
        y: Axis {
            label: "missed, %".into(),
            min: 0.0,
            max: most,
        },
        series: series.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(missed: f64, added: f64) -> Row {
        let mut row = Row::default();
        row.set("missed %", missed);
        row.set("added %", added);
        row
    }

    #[test]
    fn a_verdict_fails_for_a_packet_and_for_a_byte_too_many() {
        let judge = |missed, added| verdict("burst-50", &[&row(missed, added)], 0.15, 40.0).holds;
        assert_eq!(judge(0.15, 40.0), Some(true));
        assert_eq!(judge(0.16, 40.0), Some(false));
        assert_eq!(judge(0.15, 40.1), Some(false));
        assert_eq!(verdict("burst-50", &[], 0.15, 40.0).holds, None);
    }

    #[test]
    fn every_cell_is_a_scenario() {
        for size in [Size::Quick, Size::Full] {
            for cell in ONE_LINK.cells(size) {
                let text = Case::of(&cell).scenario(60, "auto");
                let scenario = Scenario::parse("protection", &text);
                assert!(
                    scenario.is_ok(),
                    "{}: {:?}\n{text}",
                    cell.key,
                    scenario.err()
                );
            }
        }
    }
}
