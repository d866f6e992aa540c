//! Twelve cities, problems that come and go, and one source with five members: one tree, two trees, and one tree with
//! targeted second paths.
//!
//! The cities and their problems are those of [`super::cities`]. All kinds of a run have the same problems.

use super::cities::world::{BETWEEN_S, LINKS, Problem, trouble};
use super::cities::{faults, network, runs, saved_of, scenarios, seconds, sum};
use super::{cost, missed, percent, run, untested};
use crate::experiment::{
    Cell, CellError, ClaimText, Experiment, Findings, Plan, Row, Rows, Size, Verdict, claim,
};

pub(super) const GROUPS: Groups = Groups;
const ID: &str = "babay17/groups";
const SOURCE: &str = "goal";

/// The source and its members: two across the continent, one nearby, two across oceans.
const FROM: &str = "new-york";
const MEMBERS: [&str; 5] = [
    "los-angeles",
    "san-jose",
    "atlanta",
    "frankfurt",
    "hong-kong",
];
const DEADLINE_MS: u64 = 150;
/// The values of a group's setting for its paths.
const KINDS: [&str; 3] = ["1", "2", "targeted"];
/// Length of the time without any problem.
const CALM_S: u64 = 60;

/// The least share of two trees' gain over one that targeted second paths must achieve.
const SAVED_PCT: f64 = 90.0;
/// Their highest cost, as a multiple of one tree's.
const COST: f64 = 1.3;
/// The largest share of the bytes that two trees add to one which they may add.
const ADDED_PCT: f64 = 50.0;

pub(super) const CLAIMS: &[ClaimText] = &[
    claim(
        ID,
        "saved",
        SOURCE,
        "a second way to members in trouble saves what two trees save",
        "(one tree's misses − targeted's) ≥ 90 % of (one tree's − two trees')",
    ),
    claim(
        ID,
        "cost",
        SOURCE,
        "bytes rise only for the troubled edges",
        "targeted carries at most 1.3 × the bytes of one tree per byte delivered, on average",
    ),
    claim(
        ID,
        "added",
        SOURCE,
        "it is cheaper than two trees all the time",
        "targeted adds at most half of the bytes that two trees add",
    ),
    claim(
        ID,
        "calm",
        SOURCE,
        "in calm there is no cost",
        "without problems, targeted carries the bytes of one tree, to the byte",
    ),
];

pub(super) struct Groups;

fn scenario(ways: &str, problems: &[Problem], seconds: u64) -> String {
    let [first, others @ ..] = MEMBERS;
    let others: Vec<String> = others.iter().map(|name| format!("\"{name}\"")).collect();
    network("groups", seconds)
        + &format!(
            "[[flow]]\nfrom = \"{FROM}\"\nto = \"{first}\"\nalso = [{}]\nways = \"{ways}\"\ndeadline = \"{DEADLINE_MS}ms\"\n",
            others.join(", ")
        )
        + &faults(problems, seconds)
}

impl Experiment for Groups {
    fn id(&self) -> &'static str {
        ID
    }

    fn title(&self) -> &'static str {
        "A group in twelve cities with trouble that comes and goes: what targeted second ways save and cost"
    }

    fn method(&self, size: Size) -> String {
        format!(
            "Production nodes in the simulator: twelve cities, {} links, one source ({FROM}) that sends as a call does to a group with {} members ({}), \
             deadline {DEADLINE_MS} ms, {} s per run and kind: one tree, two trees, one tree with targeted second ways. Problems as in babay17/cities: one begins every \
             {BETWEEN_S} s in the mean, with 60 % around a node and else on one link, lasts 10 to 120 s, and loses 5 to 40 % in bursts of 50 %. All kinds of a \
             run live the same problems, and each runs {CALM_S} s without any. Missed counts each packet at each member. Bytes are all that links carry but for \
             control packets, per byte delivered.",
            LINKS.len(),
            MEMBERS.len(),
            MEMBERS.join(", "),
            seconds(size)
        )
    }

    fn cells(&self, size: Size) -> Vec<Cell> {
        runs(size)
    }

    fn measure(&self, plan: &Plan, cell: &Cell, seed: u64) -> Result<Row, CellError> {
        let seconds = seconds(plan.size);
        let problems = trouble(seed, seconds);
        let mut row = Row::of(cell);
        row.set("problems", problems.len() as f64);
        for ways in KINDS {
            let troubled = run(&scenario(ways, &problems, seconds), seed, &[])?;
            let judged = troubled.calls.iter();
            let judged = judged.map(|call| missed(call, DEADLINE_MS, 0..seconds));
            let (sent, missed) = judged.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
            row.set(format!("{ways} sent"), sent as f64);
            row.set(format!("{ways} missed"), missed as f64);
            let bytes = troubled.bytes.iter().sum();
            row.set(format!("{ways} cost"), cost(bytes, sent - missed));
            let calm = run(&scenario(ways, &[], CALM_S), seed, &[])?;
            row.set(
                format!("{ways} calm"),
                calm.bytes.iter().sum::<u64>() as f64,
            );
        }
        Ok(row)
    }

    fn conclude(&self, _: &Plan, rows: &Rows) -> Findings {
        Findings {
            charts: Vec::new(),
            verdicts: verdicts(rows),
        }
    }

    fn table(&self, rows: &Rows) -> Vec<Vec<String>> {
        let head = ["ways", "missed %", "saved %", "bytes", "of one tree"];
        let mut table = vec![head.map(str::to_owned).to_vec()];
        for ways in KINDS {
            let sum = |what: &str| sum(rows, ways, what);
            let line = [
                ways.to_owned(),
                format!("{:.4}", percent(sum("missed") as u64, sum("sent") as u64)),
                format!("{:.2}", saved_pct(rows, ways)),
                format!("{:.2}", sum("cost") / rows.0.len() as f64),
                format!("{:.3}", of_one(rows, ways)),
            ];
            table.push(line.to_vec());
        }
        table
    }

    fn files(&self, plan: &Plan) -> Vec<(String, String)> {
        scenarios(ID, plan, |problems, seconds| {
            scenario("targeted", problems, seconds)
        })
    }
}

/// Returns the share of two trees' gain over one that a kind of paths achieves.
fn saved_pct(rows: &Rows, ways: &str) -> f64 {
    saved_of(rows, ways, ("1", "2"))
}

fn of_one(rows: &Rows, ways: &str) -> f64 {
    sum(rows, ways, "cost") / sum(rows, "1", "cost")
}

fn verdicts(rows: &Rows) -> Vec<Verdict> {
    if rows.0.is_empty() {
        return untested(CLAIMS);
    }
    let told = |of: &dyn Fn(&'static str) -> f64, digits: usize| {
        KINDS
            .map(|ways| format!("{ways}: {:.digits$}", of(ways)))
            .join(", ")
    };
    let saved = |ways| saved_pct(rows, ways);
    let missed = |ways| sum(rows, ways, "missed");
    let cost = |ways| of_one(rows, ways);
    let calm = |ways| sum(rows, ways, "calm");
    let added = 100.0 * (cost("targeted") - 1.0) / (cost("2") - 1.0);
    let is_calm = rows
        .0
        .iter()
        .all(|row| row.value("targeted calm") == row.value("1 calm"));
    vec![
        Verdict::of(
            "saved",
            saved("targeted") >= SAVED_PCT,
            format!(
                "saved %: {}; missed of {:.0}: {}",
                told(&saved, 2),
                sum(rows, "1", "sent"),
                told(&missed, 0)
            ),
        ),
        Verdict::of(
            "cost",
            cost("targeted") <= COST,
            format!("bytes, of one tree: {}", told(&cost, 3)),
        ),
        Verdict::of(
            "added",
            added <= ADDED_PCT,
            format!("added bytes, of those of two trees: {added:.1} %"),
        ),
        Verdict::of(
            "calm",
            is_calm,
            format!("bytes without problems: {}", told(&calm, 0)),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    #[test]
    fn each_verdict_can_fail() {
        let judge = |missed: f64, cost: f64, calm: f64| {
            let mut row = Row::default();
            for (ways, missed, cost, calm) in [
                ("1", 1_100.0, 10.0, 500.0),
                ("2", 100.0, 20.0, 1_000.0),
                ("targeted", missed, cost, calm),
            ] {
                row.set(format!("{ways} sent"), 1e6);
                row.set(format!("{ways} missed"), missed);
                row.set(format!("{ways} cost"), cost);
                row.set(format!("{ways} calm"), calm);
            }
            let verdicts = verdicts(&Rows(vec![row]));
            verdicts
                .iter()
                .map(|verdict| verdict.holds == Some(true))
                .collect::<Vec<_>>()
        };
        assert_eq!(judge(200.0, 13.0, 500.0), [true; 4]);
        assert_eq!(judge(201.0, 13.1, 501.0), [false, false, true, false]);
        assert_eq!(judge(200.0, 15.1, 500.0), [true, false, false, true]);
    }

    #[test]
    fn every_run_is_a_scenario() {
        for ways in KINDS {
            let text = scenario(ways, &trouble(1, 300), 300);
            let scenario = Scenario::parse("groups", &text);
            assert!(scenario.is_ok(), "{:?}", scenario.err());
        }
    }
}
