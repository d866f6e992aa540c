//! Streams through faults that kernel TCP survives: a partition of five minutes, and a relay that restarts.
//!
//! ```text
//!   a ── 10 ms, 1 % ── relay ── 10 ms, 1 % ── b       messages, each to come once and in order
//!                └─ cut for 5 min, or crashed for 1 min and started again
//! ```

use super::super::{Cell, Findings, Plan, Rows, Size, claim};
use super::{CellError, ClaimText, Experiment, Row, SOURCE};
use super::{chart, flow, head, link, run, stream, verdict};

/// The faults, as a coordinate, and their lengths.
const TROUBLES: [(&str, u64); 2] = [("partition", 300), ("restart", 60)];
const BEGINS_S: u64 = 20;
/// Time in which waiting data must arrive.
const AFTER_S: u64 = 60;
/// Number of streams of messages.
const STREAMS: usize = 8;

pub(super) struct Partition;
const ID: &str = "streams/partition";

pub(super) const CLAIMS: &[ClaimText] = &[
    claim(
        ID,
        "whole",
        SOURCE,
        "streams through a partition of five minutes, and through the restart of a relay that was away for one",
        "every message has come, once and in order",
    ),
    claim(
        ID,
        "alive",
        SOURCE,
        "the same streams",
        "none has ended: not one was opened again",
    ),
];

fn scenario(cell: &Cell) -> String {
    let (kind, lasts_s) = TROUBLES[cell.parameter("trouble") as usize];
    let over_s = BEGINS_S + lasts_s;
    let mut text = head(kind, over_s + AFTER_S, &["a", "relay", "b"]);
    let path = "delay=10ms rate=10mbit queue=50 loss=1%";
    text += &link("a", "relay", path);
    text += &link("relay", "b", path);
    let more = format!(
        "count = {STREAMS}\npattern = \"cbr\"\nrate = \"16kbit\"\npacket = 1000\nstop = \"{over_s}s\"\n"
    );
    text += &stream("messages", "a", "b", &more);
    let (begins, ends) = match kind {
        "partition" => ("\"partition\"\ngroups = [[\"a\"]]", "\"heal\""),
        _ => (
            "\"crash\"\nnode = \"relay\"",
            "\"restart\"\nnode = \"relay\"",
        ),
    };
    for (at, kind) in [(BEGINS_S, begins), (over_s, ends)] {
        text += &format!("[[fault]]\nat = \"{at}s\"\nkind = {kind}\n");
    }
    text
}

impl Experiment for Partition {
    fn id(&self) -> &'static str {
        ID
    }

    fn title(&self) -> &'static str {
        "Streams through a long partition and through the restart of a relay"
    }

    fn method(&self, _: Size) -> String {
        format!(
            "Production nodes in the simulator, three in a row; {STREAMS} streams of messages of 1000 bytes, two a second, go on while the \
             first node is cut off for 300 s, or while the relay is away for 60 s and starts without memory; {AFTER_S} s later every \
             message is to be there. Quick and full runs differ in seeds alone."
        )
    }

    fn cells(&self, size: Size) -> Vec<Cell> {
        let seeds = match size {
            Size::Quick => 2,
            Size::Full => 20,
        };
        let all = (0..TROUBLES.len()).flat_map(|trouble| (1..=seeds).map(move |n| (trouble, n)));
        all.map(|(trouble, n)| Cell::at(&[("trouble", trouble as f64), ("run", f64::from(n))]))
            .collect()
    }

    fn measure(&self, _: &Plan, cell: &Cell, seed: u64) -> Result<Row, CellError> {
        let report = run(&scenario(cell), seed)?;
        let packets = &flow(&report, "messages")?.packets;
        let mut row = Row::of(cell);
        row.set("sent", packets.sent as f64);
        row.set("lost", packets.lost as f64);
        row.set(
            "not once or in order",
            (packets.duplicates + packets.reordered) as f64,
        );
        row.set("reopened", packets.reopened as f64);
        row.set("longest s", packets.delay_ms.max.unwrap_or(f64::NAN) / 1e3);
        Ok(row)
    }

    fn conclude(&self, _: &Plan, rows: &Rows) -> Findings {
        let all: Vec<&Row> = rows.0.iter().collect();
        let bad = |row: &Row| row.value("lost") + row.value("not once or in order");
        // Only zero is allowed, so any other count is far from the goal.
        let none = |count: f64| if count == 0.0 { 0.0 } else { 1.0 + count };
        Findings {
            charts: vec![chart("Longest delay", "s", &rows.0, "longest s")],
            verdicts: vec![
                verdict(
                    "whole",
                    &all,
                    |row| none(bad(row)),
                    |row| {
                        format!(
                            "{:.0} of {:.0} missing",
                            row.value("lost"),
                            row.value("sent")
                        )
                    },
                ),
                verdict(
                    "alive",
                    &all,
                    |row| none(row.value("reopened")),
                    |row| format!("{:.0} opened again", row.value("reopened")),
                ),
            ],
        }
    }

    fn table(&self, rows: &Rows) -> Vec<Vec<String>> {
        let head = ["trouble", "run", "sent", "lost", "reopened", "longest s"];
        let mut table = vec![head.map(str::to_owned).to_vec()];
        for row in &rows.0 {
            let count = |key: &str| format!("{:.0}", row.value(key));
            table.push(vec![
                TROUBLES[row.parameter("trouble") as usize].0.to_owned(),
                row.parameter("run").to_string(),
                count("sent"),
                count("lost"),
                count("reopened"),
                format!("{:.1}", row.value("longest s")),
            ]);
        }
        table
    }

    fn files(&self, plan: &Plan) -> Vec<(String, String)> {
        let file = |cell: Cell| {
            let name = cell.key.replace([' ', '='], "-");
            (format!("{name}.toml"), scenario(&cell))
        };
        self.cells(plan.size).into_iter().map(file).collect()
    }
}
