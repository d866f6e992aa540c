//! A video to a group over three long hops: each edge of the tree repairs separately.

use super::super::{
    Cell, CellError, ClaimText, Experiment, Findings, Plan, Row, Rows, Size, claim,
};
use super::{SOURCE, missed_pct, run_text};
use crate::stats::{mean, mean_and_error};

pub(super) const VIDEO: Video = Video;
const ID: &str = "protection/video";
const HOP_MS: u64 = 40;
const DEADLINE_MS: u64 = 200;
/// The target of the remaining loss on each of the three hops, as a share of the packets.
const TARGET: f64 = 0.00003;
const MISSED_PCT: f64 = 0.01;
const ADDED_PCT: f64 = 25.0;

pub(super) const CLAIM: ClaimText = claim(
    ID,
    "group",
    SOURCE,
    "10 Mbit/s to a group, three hops of 40 ms that lose 2 % in bursts of 50 %, deadline 200 ms, aimed at 0.003 % on each hop",
    "missed at most 0.01 %, at most 25 % more bytes",
);

pub(super) struct Video;

fn scenario(protect: &str, seconds: u64) -> String {
    let mut text = format!(
        "[scenario]\nname = \"video\"\nduration = \"{seconds}s\"\nsettle = \"10s\"\nsealing = false\n\
         [settings]\nprotect = \"{protect}\"\nprotect_target = {TARGET}\n"
    );
    for node in ["a", "b", "c", "d", "e"] {
        text += &format!("[[node]]\nname = \"{node}\"\n");
    }
    for (a, b) in [("a", "b"), ("b", "c"), ("c", "d"), ("c", "e")] {
        text += &format!(
            "[[link]]\na = \"{a}\"\nb = \"{b}\"\npath = \"delay={HOP_MS}ms loss=2% burst=50%\"\n"
        );
    }
    text + &format!(
        "[[flow]]\nname = \"video\"\nfrom = \"a\"\nto = \"d\"\nalso = [\"e\"]\npattern = \"cbr\"\nrate = \"10mbit\"\n\
         packet = 1316\ndeadline = \"{DEADLINE_MS}ms\"\n"
    )
}

fn runs(size: Size) -> (u64, u64) {
    match size {
        Size::Quick => (3, 30),
        Size::Full => (10, 120),
    }
}

impl Experiment for Video {
    fn id(&self) -> &'static str {
        ID
    }

    fn title(&self) -> &'static str {
        "A video to a group over three long hops that lose in bursts"
    }

    fn method(&self, size: Size) -> String {
        let (count, seconds) = runs(size);
        format!(
            "Production nodes in the simulator: a source, three hops of {HOP_MS} ms, two members behind the last, {count} runs of {seconds} s \
             from the first packet on. Missed is lost or late. Bytes are those of all datagrams, beside the same without any protection."
        )
    }

    fn cells(&self, _: Size) -> Vec<Cell> {
        vec![Cell {
            key: "group".into(),
            parameters: Vec::new(),
            words: Vec::new(),
        }]
    }

    fn measure(&self, plan: &Plan, cell: &Cell, seed: u64) -> Result<Row, CellError> {
        let (count, seconds) = runs(plan.size);
        let bare = run_text(&scenario("off", seconds), seed)?;
        let (mut missed, mut added) = (Vec::new(), Vec::new());
        for n in 0..count {
            let report = run_text(&scenario("auto", seconds), seed.wrapping_add(n))?;
            let ratio = report.overlay.wire_bytes as f64 / bare.overlay.wire_bytes as f64;
            missed.push(missed_pct(&report));
            added.push(100.0 * (ratio - 1.0));
        }
        let (mean_pct, error) = mean_and_error(&missed);
        let mut row = Row::of(cell);
        row.set("missed %", mean_pct);
        row.set("error %", error);
        row.set("added %", mean(added));
        row.set("without %", missed_pct(&bare));
        Ok(row)
    }

    fn conclude(&self, _: &Plan, rows: &Rows) -> Findings {
        let rows: Vec<&Row> = rows.0.iter().collect();
        Findings {
            charts: Vec::new(),
            verdicts: vec![super::verdict("group", &rows, MISSED_PCT, ADDED_PCT)],
        }
    }

    fn table(&self, rows: &Rows) -> Vec<Vec<String>> {
        super::table(rows.0.iter())
    }

    fn files(&self, plan: &Plan) -> Vec<(String, String)> {
        vec![("video.toml".into(), scenario("auto", runs(plan.size).1))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    #[test]
    fn it_is_a_scenario() {
        let text = scenario("auto", 10);
        assert!(Scenario::parse("video", &text).is_ok(), "{text}");
    }
}
