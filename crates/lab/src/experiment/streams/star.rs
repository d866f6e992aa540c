//! A fast branch next to a slow one, behind one relay.
//!
//! ```text
//!                         ┌── 50 Mbit/s ── fast      one stream
//!   a ── 100 Mbit/s ── relay
//!                         └──  2 Mbit/s ── slow      n streams
//! ```

use super::super::{Cell, Findings, Plan, Rows, Size, claim};
use super::{CellError, ClaimText, Experiment, Row, SOURCE};
use super::{chart, flow, head, link, parsed, run, stream, verdict};
use crate::scenario::Simulation;
use base::Duration;

const WARM_S: u64 = 5;
const SLOW_MBIT: f64 = 2.0;
/// The goals: the shares that the branches keep, and what the relay may hold.
const SHARE: f64 = 0.9;
const HELD_MAX_KB: f64 = 32_000.0;
/// How often the experiment checks what the relay holds.
const LOOK: Duration = Duration::from_millis(100);
/// The index of the relay among the nodes.
const RELAY: usize = 1;

pub(super) struct Star;
const ID: &str = "streams/star";

pub(super) const CLAIMS: &[ClaimText] = &[
    claim(
        ID,
        "fast",
        SOURCE,
        "a stream to a site behind 50 Mbit/s, beside 1 to 64 to a site behind 2 Mbit/s",
        "at least 90 % of what it has alone",
    ),
    claim(
        ID,
        "slow",
        SOURCE,
        "those to the slow site together",
        "at least 90 % of 2 Mbit/s",
    ),
    claim(
        ID,
        "memory",
        SOURCE,
        "what the relay holds for both, at its highest",
        "at most 32 MB",
    ),
];

fn scenario(size: Size, slow: usize) -> String {
    let seconds = match size {
        Size::Quick => 12,
        Size::Full => 25,
    };
    let mut text = head("star", seconds, &["a", "relay", "fast", "slow"]);
    text += &link("a", "relay", "delay=10ms rate=100mbit queue=180");
    text += &link("relay", "fast", "delay=10ms rate=50mbit queue=90");
    text += &link("relay", "slow", "delay=10ms rate=2mbit queue=10");
    text += &stream("to fast", "a", "fast", "pattern = \"bulk\"\n");
    if slow > 0 {
        let more = format!("count = {slow}\npattern = \"bulk\"\n");
        text += &stream("to slow", "a", "slow", &more);
    }
    text + &format!("[measure]\nfrom = \"{WARM_S}s\"\n")
}

impl Experiment for Star {
    fn id(&self) -> &'static str {
        ID
    }

    fn title(&self) -> &'static str {
        "A stream to a fast branch beside many to a slow one, behind one relay"
    }

    fn method(&self, _: Size) -> String {
        "Production nodes in the simulator: bulk streams from one node through a relay to a site behind 50 Mbit/s and to one behind \
         2 Mbit/s, 10 ms per link. What the relay holds is the packets that wait in the lanes of its links and those that are not acknowledged \
         (1400 bytes each), looked at every 100 ms; a real node's memory is more."
            .into()
    }

    fn cells(&self, size: Size) -> Vec<Cell> {
        let slow: &[f64] = match size {
            Size::Quick => &[1.0, 16.0, 64.0],
            Size::Full => &[1.0, 4.0, 8.0, 16.0, 32.0, 64.0],
        };
        slow.iter()
            .map(|slow| Cell::at(&[("slow", *slow)]))
            .collect()
    }

    fn measure(&self, plan: &Plan, cell: &Cell, seed: u64) -> Result<Row, CellError> {
        let mut row = Row::of(cell);
        let alone = run(&scenario(plan.size, 0), seed)?;
        row.set("alone mbit/s", flow(&alone, "to fast")?.goodput_bps / 1e6);
        let text = scenario(plan.size, cell.parameter("slow") as usize);
        let scenario = parsed(&text)?;
        let mut simulation = Simulation::new(&scenario, seed);
        let mut held = 0;
        while simulation.run_for(LOOK) {
            held = held.max(simulation.held_bytes(RELAY));
        }
        let report = simulation.finish();
        row.set("fast mbit/s", flow(&report, "to fast")?.goodput_bps / 1e6);
        row.set("slow mbit/s", flow(&report, "to slow")?.goodput_bps / 1e6);
        row.set("held kB", held as f64 / 1e3);
        Ok(row)
    }

    fn conclude(&self, _: &Plan, rows: &Rows) -> Findings {
        let all: Vec<&Row> = rows.0.iter().collect();
        let fast = |row: &Row| row.value("fast mbit/s") / row.value("alone mbit/s");
        let slow = |row: &Row| row.value("slow mbit/s") / SLOW_MBIT;
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        Findings {
            charts: vec![chart("Held at the relay", "kB", &rows.0, "held kB")],
            verdicts: vec![
                verdict(
                    "fast",
                    &all,
                    |row| SHARE / fast(row),
                    |row| percent(fast(row)),
                ),
                verdict(
                    "slow",
                    &all,
                    |row| SHARE / slow(row),
                    |row| percent(slow(row)),
                ),
                verdict(
                    "memory",
                    &all,
                    |row| row.value("held kB") / HELD_MAX_KB,
                    |row| format!("{:.0} kB", row.value("held kB")),
                ),
            ],
        }
    }

    fn table(&self, rows: &Rows) -> Vec<Vec<String>> {
        let head = ["slow streams", "fast alone", "fast", "slow", "held kB"];
        let mut table = vec![head.map(str::to_owned).to_vec()];
        for row in &rows.0 {
            let number = |key: &str| format!("{:.2}", row.value(key));
            table.push(vec![
                row.parameter("slow").to_string(),
                number("alone mbit/s"),
                number("fast mbit/s"),
                number("slow mbit/s"),
                format!("{:.0}", row.value("held kB")),
            ]);
        }
        table
    }

    fn files(&self, plan: &Plan) -> Vec<(String, String)> {
        let file = |cell: Cell| {
            let slow = cell.parameter("slow") as usize;
            (format!("slow-{slow}.toml"), scenario(plan.size, slow))
        };
        self.cells(plan.size).into_iter().map(file).collect()
    }
}
