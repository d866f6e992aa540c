//! Twelve cities, problems that come and go, and sixteen calls between the cities.
//!
//! All schemes of a run live in the same [`world`].

pub(super) mod world;

use super::{SCHEMES, SOURCE, cost, missed, percent, run, untested};
use crate::experiment::{
    Cell, CellError, ClaimText, Experiment, Findings, Plan, Row, Rows, Size, Verdict, claim,
};
use world::{BETWEEN_S, CALLS, LINKS, NODES, Problem, changes, trouble};

pub(super) const CITIES: Cities = Cities;
const ID: &str = "babay17/cities";

/// Misses in this time after the beginning of a problem belong to the time before its detection: in whole seconds, from
/// the second in which it begins, so that they include at least 3 s of it.
const EARLY_S: u64 = 4;
/// The least share of flooding's gain over one path that targeted redundancy must achieve.
const SAVED_PCT: f64 = 99.0;
/// And its highest cost, as a multiple of one path's.
const COST: f64 = 2.15;

pub(super) const CLAIMS: &[ClaimText] = &[
    claim(
        ID,
        "saved",
        SOURCE,
        "over 99 % of what flooding saves over one path is saved by targeted redundancy",
        "(one path's misses − targeted's) ≥ 99 % of (one path's − flooding's)",
    ),
    claim(
        ID,
        "cost",
        SOURCE,
        "about the cost of two disjoint paths",
        "targeted carries at most 2.15 × the bytes of one path per byte delivered, on average",
    ),
    claim(
        ID,
        "beyond-two",
        SOURCE,
        "two disjoint paths save 70 %: targeted redundancy saves more",
        "targeted misses fewer packets than two disjoint paths",
    ),
];

pub(super) struct Cities;

/// Returns the length of a run in seconds.
pub(super) fn seconds(size: Size) -> u64 {
    match size {
        Size::Quick => 300,
        Size::Full => 1_800,
    }
}

/// Returns the runs, each with its own problems.
pub(super) fn runs(size: Size) -> Vec<Cell> {
    let runs = match size {
        Size::Quick => 4,
        Size::Full => 10,
    };
    (1..=runs)
        .map(|n| Cell::at(&[("run", f64::from(n))]))
        .collect()
}

/// Returns the runs as scenario files.
pub(super) fn scenarios(
    id: &str,
    plan: &Plan,
    scenario: impl Fn(&[Problem], u64) -> String,
) -> Vec<(String, String)> {
    let seconds = seconds(plan.size);
    let file = |cell: Cell| {
        let problems = trouble(cell.seed(id, plan.seed), seconds);
        let name = cell.key.replace('=', "-");
        (format!("{name}.toml"), scenario(&problems, seconds))
    };
    runs(plan.size).into_iter().map(file).collect()
}

fn scenario(scheme: &str, problems: &[Problem], seconds: u64) -> String {
    let mut text = network("cities", seconds);
    for (from, to, deadline_ms) in CALLS {
        text += &format!(
            "[[flow]]\nfrom = \"{from}\"\nto = \"{to}\"\nrouting = \"{scheme}\"\ndeadline = \"{deadline_ms}ms\"\n"
        );
    }
    text + &faults(problems, seconds)
}

/// Returns the first part of a scenario of the cities, with nodes and links.
pub(super) fn network(name: &str, seconds: u64) -> String {
    let mut text = format!(
        "[scenario]\nname = \"{name}\"\nduration = \"{seconds}s\"\nsettle = \"10s\"\nsealing = false\n"
    );
    for node in NODES {
        text += &format!("[[node]]\nname = \"{node}\"\n");
    }
    for (a, b, ms) in LINKS {
        text += &format!("[[link]]\na = \"{a}\"\nb = \"{b}\"\npath = \"delay={ms}ms\"\n");
    }
    text
}

/// Returns the effects of the problems on links as the text of a scenario.
pub(super) fn faults(problems: &[Problem], seconds: u64) -> String {
    let mut text = String::new();
    let all = changes(problems).into_iter();
    for (at, link, loss) in all.filter(|(at, ..)| *at < seconds as f64) {
        let (a, b, ms) = LINKS[link];
        let at_ms = (at * 1_000.0) as u64;
        let loss = match loss > 0.0 {
            true => format!(" loss={loss:.2}% burst=50%"),
            false => String::new(),
        };
        text += &format!(
            "[[fault]]\nat = \"{at_ms}ms\"\nkind = \"link-set\"\na = \"{a}\"\nb = \"{b}\"\npath = \"delay={ms}ms{loss}\"\n"
        );
    }
    text
}

/// Returns the number of missed packets that were sent in the first seconds of a problem.
fn missed_early(calls: &[crate::scenario::Call], problems: &[Problem], seconds: u64) -> u64 {
    let early = early(problems, seconds).into_iter();
    early
        .flat_map(|second| {
            calls
                .iter()
                .zip(CALLS)
                .map(move |(call, (.., ms))| (second, call, ms))
        })
        .map(|(second, call, ms)| missed(call, ms, second..second + 1).1)
        .sum()
}

/// Returns the first seconds of all problems, each once.
fn early(problems: &[Problem], seconds: u64) -> Vec<u64> {
    let is_early = |second: &u64| {
        let mut starts = problems.iter().map(|p| p.from_s as u64);
        starts.any(|start| (start..start + EARLY_S).contains(second))
    };
    (0..seconds).filter(is_early).collect()
}

impl Experiment for Cities {
    fn id(&self) -> &'static str {
        ID
    }

    fn title(&self) -> &'static str {
        "Twelve cities with trouble that comes and goes: what targeted redundancy saves and costs"
    }

    fn method(&self, size: Size) -> String {
        format!(
            "Production nodes in the simulator: twelve cities, {} links with delays of 1.3 times the great circle at 200 km/ms, {} calls at once, \
             deadline 65 ms across a continent and 150 ms between continents, {} s per run and scheme. A problem begins every {BETWEEN_S} s in the mean, \
             with 60 % around a node and else on one link, lasts 10 to 120 s, and loses 5 to 40 % in bursts of 50 %. All schemes of a run \
             live the same problems. Bytes are all that links carry but for control packets, per byte delivered.",
            LINKS.len(),
            CALLS.len(),
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
        for scheme in SCHEMES {
            let run = run(&scenario(scheme, &problems, seconds), seed, &[])?;
            let judged = run.calls.iter().zip(CALLS);
            let judged = judged.map(|(call, (.., ms))| missed(call, ms, 0..seconds));
            let (sent, missed) = judged.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
            let bytes = run.bytes.iter().sum();
            row.set(format!("{scheme} sent"), sent as f64);
            row.set(format!("{scheme} missed"), missed as f64);
            row.set(format!("{scheme} cost"), cost(bytes, sent - missed));
            let early = missed_early(&run.calls, &problems, seconds);
            row.set(format!("{scheme} early"), early as f64);
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
        let head = [
            "scheme",
            "missed %",
            "of them early",
            "saved %",
            "bytes",
            "of one path",
        ];
        let mut table = vec![head.map(str::to_owned).to_vec()];
        for scheme in SCHEMES {
            let sum = |what: &str| sum(rows, scheme, what);
            let line = [
                scheme.to_owned(),
                format!("{:.4}", percent(sum("missed") as u64, sum("sent") as u64)),
                format!(
                    "{:.0} %",
                    percent(sum("early") as u64, sum("missed") as u64)
                ),
                format!("{:.2}", saved_pct(rows, scheme)),
                format!("{:.2}", sum("cost") / rows.0.len() as f64),
                format!("{:.3}", sum("cost") / self::sum(rows, "best", "cost")),
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

/// Returns the sum over all runs of a kind.
pub(super) fn sum(rows: &Rows, kind: &str, what: &str) -> f64 {
    let name = format!("{kind} {what}");
    rows.0.iter().map(|row| row.value(&name)).sum()
}

/// Returns a kind's share of the gain of the best scheme over the least one, over all runs together.
pub(super) fn saved_of(rows: &Rows, kind: &str, (least, most): (&str, &str)) -> f64 {
    let missed = |kind| sum(rows, kind, "missed");
    100.0 * (missed(least) - missed(kind)) / (missed(least) - missed(most))
}

fn saved_pct(rows: &Rows, scheme: &str) -> f64 {
    saved_of(rows, scheme, ("best", "flooding"))
}

fn verdicts(rows: &Rows) -> Vec<Verdict> {
    if rows.0.is_empty() {
        return untested(CLAIMS);
    }
    let missed = |scheme| sum(rows, scheme, "missed");
    let saved = |scheme| saved_pct(rows, scheme);
    let of_one = |scheme| sum(rows, scheme, "cost") / sum(rows, "best", "cost");
    let told = |of: &dyn Fn(&'static str) -> f64, digits: usize| {
        SCHEMES
            .map(|scheme| format!("{scheme} {:.digits$}", of(scheme)))
            .join(", ")
    };
    vec![
        Verdict::of(
            "saved",
            saved("targeted") >= SAVED_PCT,
            format!("saved %: {}", told(&saved, 2)),
        )
        .because(format!(
            "{:.0} % of what targeted misses was sent in the second in which a problem begins and the {} after it",
            percent(sum(rows, "targeted", "early") as u64, missed("targeted") as u64),
            EARLY_S - 1
        )),
        Verdict::of(
            "cost",
            of_one("targeted") <= COST,
            format!("bytes, of one path: {}", told(&of_one, 3)),
        ),
        Verdict::of(
            "beyond-two",
            missed("targeted") < missed("disjoint"),
            format!(
                "missed of {:.0}: {}",
                sum(rows, "best", "sent"),
                told(&missed, 0)
            ),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    #[test]
    fn each_verdict_can_fail() {
        let judge = |targeted: f64, bytes: f64| {
            let mut row = Row::default();
            let all = [("best", 10_100.0), ("disjoint", 200.0), ("flooding", 100.0)];
            for (scheme, missed) in all.into_iter().chain([("targeted", targeted)]) {
                row.set(format!("{scheme} sent"), 1e6);
                row.set(format!("{scheme} missed"), missed);
                row.set(format!("{scheme} cost"), 4.0);
            }
            row.set("targeted cost", bytes);
            let verdicts = verdicts(&Rows(vec![row]));
            verdicts
                .iter()
                .map(|verdict| verdict.holds)
                .collect::<Vec<_>>()
        };
        assert_eq!(judge(199.0, 8.6), [Some(true); 3]);
        assert_eq!(judge(201.0, 8.7), [Some(false); 3]);
    }

    #[test]
    fn the_second_in_which_a_problem_begins_and_three_more_are_early() {
        let problem = |from_s| Problem {
            links: vec![3],
            from_s,
            to_s: 60.0,
            loss_pct: 10.0,
        };
        assert_eq!(early(&[problem(12.9)], 300), [12, 13, 14, 15]);
        let both = [problem(12.0), problem(14.5)];
        assert_eq!(early(&both, 300), [12, 13, 14, 15, 16, 17]);
        assert_eq!(early(&[problem(298.5)], 300), [298, 299]);
        let mut call = vec![Some(60_000); 1_000];
        for lost in [599, 600, 799, 800] {
            call[lost] = None;
        }
        let missed = |calls: &[Vec<Option<u32>>]| missed_early(calls, &both[..1], 300);
        assert_eq!(missed(&[call.clone(), call]), 4);
    }

    #[test]
    fn every_run_is_a_scenario() {
        for seed in 0..3 {
            let text = scenario("targeted", &trouble(seed, 300), 300);
            let scenario = Scenario::parse("cities", &text);
            assert!(scenario.is_ok(), "{:?}", scenario.err());
        }
    }
}
