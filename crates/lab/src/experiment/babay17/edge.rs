//! Problems on all links of source and destination.
//!
//! ```text
//!        .─ a ─.    .─ d ─.
//!     s ─┼─ b ─┼╳╳╳─┼─ e ─┼─ t       edge links 5 ms, each of a, b, c to each of d, e, f 25 ms
//!        '─ c ─'    '─ f ─'
//!
//!     calm           │ reaction │ trouble                        │ calm again
//!     0 ── 20 s ─────┴── 2 s ───┴───────────── 20 s + trouble ───┴── 90 s more
//! ```
//!
//! During a problem the edge links lose 20 % in both directions, in bursts of 50 %.

use super::{PACKET_MS, SCHEMES, SOURCE, cost, missed, run, untested};
use crate::experiment::{
    Cell, CellError, ClaimText, Experiment, Findings, Plan, Row, Rows, Size, Verdict, claim,
};

pub(super) const EDGE: EdgeTrouble = EdgeTrouble;
const ID: &str = "babay17/edge-trouble";
const DEADLINE_MS: u64 = 65;
const CALM_S: u64 = 20;
const REACTION_S: u64 = 2;
const AGAIN_S: u64 = 90;
/// Number of runs. In a quick run these are 300 000 packets during problems: 0.02 % of them are 60, with a standard
/// error of some 10.
const RUNS: u32 = 20;
/// The largest percentage that targeted redundancy may miss during a problem, after the reaction.
const MISSED_PCT: f64 = 0.02;
/// Its highest cost without problems, as a multiple of one path's.
const CALM_COST: f64 = 1.05;

pub(super) const CLAIMS: &[ClaimText] = &[
    claim(
        ID,
        "trouble",
        SOURCE,
        "20 % loss in bursts of 50 % on all links of source and destination, from two seconds after it began",
        "targeted missed at most 0.02 %",
    ),
    claim(
        ID,
        "calm",
        SOURCE,
        "before there is any trouble",
        "targeted costs at most 1.05 × the bytes of one path",
    ),
    claim(
        ID,
        "dear",
        SOURCE,
        "during the trouble",
        "targeted costs fewer bytes than flooding",
    ),
];

pub(super) struct EdgeTrouble;

/// Returns the seconds of a problem.
fn trouble_s(size: Size) -> u64 {
    match size {
        Size::Quick => 300,
        Size::Full => 1_200,
    }
}

fn scenario(scheme: &str, trouble_s: u64) -> String {
    let seconds = CALM_S + trouble_s + AGAIN_S;
    let mut text = format!(
        "[scenario]\nname = \"edge-trouble\"\nduration = \"{seconds}s\"\nsettle = \"10s\"\nsealing = false\n"
    );
    for node in ["s", "a", "b", "c", "d", "e", "f", "t"] {
        text += &format!("[[node]]\nname = \"{node}\"\n");
    }
    let mut link = |a: &str, b: &str, path: &str| {
        text += &format!("[[link]]\na = \"{a}\"\nb = \"{b}\"\npath = \"{path}\"\n");
    };
    let edges = ["s-a", "s-b", "s-c", "d-t", "e-t", "f-t"].map(|edge| edge.split_at(1));
    let edges = edges.map(|(a, b)| (a, &b[1..]));
    edges.iter().for_each(|(a, b)| link(a, b, "delay=5ms"));
    for a in ["a", "b", "c"] {
        ["d", "e", "f"]
            .iter()
            .for_each(|b| link(a, b, "delay=25ms"));
    }
    let (begins, ends) = (CALM_S, CALM_S + trouble_s);
    for (a, b) in edges {
        for (at, words) in [(begins, " loss=20% burst=50%"), (ends, "")] {
            text += &format!(
                "[[fault]]\nat = \"{at}s\"\nkind = \"link-set\"\na = \"{a}\"\nb = \"{b}\"\npath = \"delay=5ms{words}\"\n"
            );
        }
    }
    text += &format!(
        "[[flow]]\nname = \"call\"\nfrom = \"s\"\nto = \"t\"\nrouting = \"{scheme}\"\ndeadline = \"{DEADLINE_MS}ms\"\n"
    );
    text
}

impl Experiment for EdgeTrouble {
    fn id(&self) -> &'static str {
        ID
    }

    fn title(&self) -> &'static str {
        "Trouble around source and destination: one path, two, targeted redundancy, flooding"
    }

    fn method(&self, size: Size) -> String {
        format!(
            "Production nodes in the simulator: eight nodes, edge links of 5 ms, middle links of 25 ms, one call of a packet every \
             {PACKET_MS} ms with a deadline of {DEADLINE_MS} ms. After {CALM_S} s of calm the three links of the source and the three of the destination \
             lose 20 % in bursts of 50 % for {} s, then all is calm again. The first {REACTION_S} s of trouble are told apart. Bytes are all that \
             links carry but for control packets, per byte delivered.",
            trouble_s(size)
        )
    }

    fn cells(&self, _: Size) -> Vec<Cell> {
        (1..=RUNS)
            .map(|n| Cell::at(&[("run", f64::from(n))]))
            .collect()
    }

    fn measure(&self, plan: &Plan, cell: &Cell, seed: u64) -> Result<Row, CellError> {
        let trouble_s = trouble_s(plan.size);
        let ends = CALM_S + trouble_s;
        let mut row = Row::of(cell);
        for scheme in SCHEMES {
            let run = run(
                &scenario(scheme, trouble_s),
                seed,
                &[CALM_S, CALM_S + REACTION_S, ends],
            )?;
            let mut before = 0;
            let phases = [
                ("calm", 0..CALM_S),
                ("reaction", CALM_S..CALM_S + REACTION_S),
                ("trouble", CALM_S + REACTION_S..ends),
                ("again", ends..ends + AGAIN_S),
            ];
            for ((phase, seconds), bytes) in phases.into_iter().zip(run.bytes) {
                let (sent, missed) = missed(&run.calls[0], DEADLINE_MS, seconds);
                row.set(format!("{scheme} {phase} sent"), sent as f64);
                row.set(format!("{scheme} {phase} missed"), missed as f64);
                row.set(
                    format!("{scheme} {phase} cost"),
                    cost(bytes - before, sent - missed),
                );
                before = bytes;
            }
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
            "calm missed %",
            "reaction missed %",
            "trouble missed %",
            "calm bytes",
            "trouble bytes",
            "calm again bytes",
        ];
        let mut table = vec![head.map(str::to_owned).to_vec()];
        for scheme in SCHEMES {
            let missed = |phase| format!("{:.4}", missed_pct(rows, scheme, phase));
            let bytes = |phase| format!("{:.2}", mean_cost(rows, scheme, phase));
            let line = [
                scheme.to_owned(),
                missed("calm"),
                missed("reaction"),
                missed("trouble"),
                bytes("calm"),
                bytes("trouble"),
                bytes("again"),
            ];
            table.push(line.to_vec());
        }
        table
    }

    fn files(&self, plan: &Plan) -> Vec<(String, String)> {
        let file = |scheme: &str| {
            (
                format!("{scheme}.toml"),
                scenario(scheme, trouble_s(plan.size)),
            )
        };
        SCHEMES.into_iter().map(file).collect()
    }
}

fn missed_pct(rows: &Rows, scheme: &str, phase: &str) -> f64 {
    let sum = |what: &str| {
        let name = format!("{scheme} {phase} {what}");
        rows.0.iter().map(|row| row.value(&name)).sum::<f64>()
    };
    100.0 * sum("missed") / sum("sent")
}

/// Returns the mean over the runs, which all deliver almost as many bytes.
fn mean_cost(rows: &Rows, scheme: &str, phase: &str) -> f64 {
    let name = format!("{scheme} {phase} cost");
    rows.0.iter().map(|row| row.value(&name)).sum::<f64>() / rows.0.len() as f64
}

fn verdicts(rows: &Rows) -> Vec<Verdict> {
    if rows.0.is_empty() {
        return untested(CLAIMS);
    }
    let missed = |scheme, phase| missed_pct(rows, scheme, phase);
    let cost = |scheme, phase| mean_cost(rows, scheme, phase);
    let all = |phase: &str,
               of: &dyn Fn(&'static str, &'static str) -> f64,
               name: &'static str,
               digits: usize| {
        let told = SCHEMES.map(|scheme| format!("{scheme} {:.digits$}", of(scheme, name)));
        format!("{phase}: {}", told.join(", "))
    };
    vec![
        Verdict::of(
            "trouble",
            missed("targeted", "trouble") <= MISSED_PCT,
            format!(
                "{}; {}",
                all("missed % in trouble", &missed, "trouble", 4),
                all("in the first two seconds", &missed, "reaction", 2)
            ),
        ),
        Verdict::of(
            "calm",
            cost("targeted", "calm") <= CALM_COST * cost("best", "calm"),
            all("bytes per byte", &cost, "calm", 2),
        ),
        Verdict::of(
            "dear",
            cost("targeted", "trouble") < cost("flooding", "trouble"),
            all("bytes per byte", &cost, "trouble", 2),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    #[test]
    fn each_verdict_can_fail() {
        let judge = |missed: f64, calm: f64, trouble: f64| {
            let mut row = Row::default();
            for scheme in SCHEMES {
                for phase in ["calm", "reaction", "trouble", "again"] {
                    row.set(format!("{scheme} {phase} sent"), 100_000.0);
                    row.set(format!("{scheme} {phase} missed"), missed);
                }
                row.set(format!("{scheme} calm cost"), 4.0);
                row.set(format!("{scheme} trouble cost"), 20.0);
            }
            row.set("targeted calm cost", calm);
            row.set("targeted trouble cost", trouble);
            let verdicts = verdicts(&Rows(vec![row]));
            verdicts
                .iter()
                .map(|verdict| verdict.holds)
                .collect::<Vec<_>>()
        };
        assert_eq!(judge(20.0, 4.2, 19.9), [Some(true); 3]);
        assert_eq!(judge(21.0, 4.21, 20.0), [Some(false); 3]);
    }

    #[test]
    fn every_cell_is_a_scenario() {
        for scheme in SCHEMES {
            let scenario = Scenario::parse("edge", &scenario(scheme, 300));
            assert!(scenario.is_ok(), "{scheme}: {:?}", scenario.err());
        }
    }
}
