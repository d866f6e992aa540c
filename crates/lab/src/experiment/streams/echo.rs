//! Requests and answers in parallel with bulk, over two hops: in the simulator, and by real nodes on this machine.
//!
//! ```text
//!   a ── rate, 10 ms, a buffer of 20 ms, losses ── relay ── the same ── b      a question each 50 ms, n bulk
//! ```

use super::super::{Cell, Findings, Plan, Rows, Size, Verdict, claim};
use super::{CellError, ClaimText, Experiment, LINKS, Row, SOURCE};
use super::{chart, flow, head, head_for, link, links, parsed, run, stream, verdict};
use crate::live;
use crate::scenario::Report;

/// Bytes of a full datagram of a reliable link.
const DATAGRAM_BYTES: u64 = 1_372;
/// Time in which streams reach their shares before anything is judged.
const WARM_S: u64 = 5;
/// The goals: how much later than without bulk an answer may be, and the share of the link that bulk must have.
const P99_MORE_MS: f64 = 30.0;
const MAX_MORE_MS: f64 = 100.0;
const BULK_SHARE: f64 = 0.9;

/// The experiment, by the nodes that run it.
pub(super) enum Echo {
    /// Nodes in the simulator.
    Simulated,
    /// Processes on this machine, which shape the links themselves.
    Real,
}
const ID: &str = "streams/echo";
const REAL: &str = "streams/real";

pub(super) const CLAIMS: &[ClaimText] = &[
    claim(
        ID,
        "echo",
        SOURCE,
        "answers beside 1 to 16 bulk streams, at every rate and loss, over links as they come",
        "p99 at most alone and 30 ms, the longest at most alone and 100 ms",
    ),
    claim(
        ID,
        "bulk",
        SOURCE,
        "the bulk streams beside these answers, over links as they come",
        "at least 90 % of the link",
    ),
    claim(
        ID,
        "echo-bbr",
        SOURCE,
        "answers beside 1 to 16 bulk streams, at every rate and loss, over links with BBR",
        "p99 at most alone and 30 ms, the longest at most alone and 100 ms",
    ),
    claim(
        ID,
        "bulk-bbr",
        SOURCE,
        "the bulk streams beside these answers, over links with BBR",
        "at least 90 % of the link",
    ),
    claim(
        REAL,
        "echo",
        SOURCE,
        "answers beside 1 to 16 bulk streams, at every rate and loss, by real nodes",
        "p99 at most alone and 30 ms, the longest at most alone and 100 ms",
    ),
    claim(
        REAL,
        "bulk",
        SOURCE,
        "the bulk streams beside these answers, by real nodes",
        "at least 90 % of the link",
    ),
];

impl Echo {
    fn scenario(&self, cell: &Cell, size: Size, bulk: usize) -> String {
        let (mbit, loss) = (cell.parameter("mbit/s") as u64, cell.parameter("loss %"));
        let queue = (mbit * 20_000 / 8 / DATAGRAM_BYTES).max(10);
        let path = format!("delay=10ms rate={mbit}mbit queue={queue} loss={loss}%");
        let seconds = match size {
            Size::Quick => 15,
            Size::Full => 25,
        };
        let nodes = ["a", "relay", "b"];
        let mut text = match self {
            Echo::Simulated => head("echo", seconds, &nodes),
            Echo::Real => head_for("echo", seconds, "", &nodes),
        };
        text += links(cell.parameter("links"));
        text += &link("a", "relay", &path);
        text += &link("relay", "b", &path);
        text += &stream(
            "echo",
            "a",
            "b",
            "pattern = \"cbr\"\nrate = \"10240bit\"\npacket = 64\nanswered = true\n",
        );
        if bulk > 0 {
            let more = format!("count = {bulk}\npattern = \"bulk\"\n");
            text += &stream("bulk", "a", "b", &more);
        }
        text + &format!("[measure]\nfrom = \"{WARM_S}s\"\n")
    }

    /// Runs a scenario's text.
    fn report(&self, plan: &Plan, text: &str, seed: u64) -> Result<Report, CellError> {
        match self {
            Echo::Simulated => run(text, seed),
            Echo::Real => live::report_of(&parsed(text)?, &plan.program)
                .map_err(|error| CellError(error.to_string())),
        }
    }
}

impl Experiment for Echo {
    fn id(&self) -> &'static str {
        match self {
            Echo::Simulated => ID,
            Echo::Real => REAL,
        }
    }

    fn title(&self) -> &'static str {
        match self {
            Echo::Simulated => "Questions and answers beside bulk streams over two hops",
            Echo::Real => "Questions and answers beside bulk streams over two hops, by real nodes",
        }
    }

    fn method(&self, _: Size) -> String {
        let nodes = match self {
            Echo::Simulated => "in the simulator",
            Echo::Real => {
                "on this machine, which emulate the links' delay, rate, buffers and losses"
            }
        };
        format!(
            "Production nodes {nodes}, three in a row, 10 ms each, buffers of 20 ms. A stream asks with 64 bytes every 50 ms and is \
             answered at once, alone and beside bulk streams of its direction, class and priority. Programs act once a millisecond. Loss is \
             of single packets, in both directions."
        )
    }

    fn is_real_time(&self) -> bool {
        matches!(self, Echo::Real)
    }

    fn cells(&self, size: Size) -> Vec<Cell> {
        let (rates, bulks): (&[f64], &[f64]) = match size {
            Size::Quick => (&[10.0, 50.0], &[1.0, 16.0]),
            Size::Full => (&[10.0, 50.0, 100.0], &[1.0, 4.0, 16.0]),
        };
        let links: &[f64] = match self {
            Echo::Simulated => &[0.0, 1.0],
            Echo::Real => &[0.0],
        };
        let mut cells = Vec::new();
        for links in links {
            for rate in rates {
                for loss in [0.0, 1.0] {
                    let cell = |bulk: &f64| {
                        let at = [("links", *links), ("mbit/s", *rate), ("loss %", loss)];
                        Cell::at(&[&at[..], &[("bulk", *bulk)]].concat())
                    };
                    cells.extend(bulks.iter().map(cell));
                }
            }
        }
        cells
    }

    fn measure(&self, plan: &Plan, cell: &Cell, seed: u64) -> Result<Row, CellError> {
        let mut row = Row::of(cell);
        let bulk = cell.parameter("bulk") as usize;
        for (name, bulk) in [("alone", 0), ("beside", bulk)] {
            let report = self.report(plan, &self.scenario(cell, plan.size, bulk), seed)?;
            let echo = &flow(&report, "echo")?.packets;
            let ms = |value: Option<f64>| match echo.lost {
                0 => value.unwrap_or(f64::NAN),
                _ => f64::INFINITY,
            };
            row.set(format!("{name} p50 ms"), ms(echo.delay_ms.p50));
            row.set(format!("{name} p99 ms"), ms(echo.delay_ms.p99));
            row.set(format!("{name} max ms"), ms(echo.delay_ms.max));
            if bulk > 0 {
                row.set("bulk mbit/s", flow(&report, "bulk")?.goodput_bps / 1e6);
            }
        }
        Ok(row)
    }

    fn conclude(&self, _: &Plan, rows: &Rows) -> Findings {
        let of = |links: f64| -> Vec<&Row> { rows.with(&[("links", links)]).collect() };
        let more = |row: &Row, what: &str| {
            row.value(&format!("beside {what} ms")) - row.value(&format!("alone {what} ms"))
        };
        let echo = |key, links| -> Verdict {
            verdict(
                key,
                &of(links),
                |row| (more(row, "p99") / P99_MORE_MS).max(more(row, "max") / MAX_MORE_MS),
                |row| {
                    format!(
                        "p99 {:+.1} ms, longest {:+.1} ms",
                        more(row, "p99"),
                        more(row, "max")
                    )
                },
            )
        };
        let share = |row: &Row| row.value("bulk mbit/s") / row.parameter("mbit/s");
        let bulk = |key, links| -> Verdict {
            verdict(
                key,
                &of(links),
                |row| BULK_SHARE / share(row),
                |row| format!("{:.1} % of the link", 100.0 * share(row)),
            )
        };
        Findings {
            charts: vec![chart("p99 beside bulk", "ms", &rows.0, "beside p99 ms")],
            verdicts: match self {
                Echo::Simulated => vec![
                    echo("echo", 0.0),
                    bulk("bulk", 0.0),
                    echo("echo-bbr", 1.0),
                    bulk("bulk-bbr", 1.0),
                ],
                Echo::Real => vec![echo("echo", 0.0), bulk("bulk", 0.0)],
            },
        }
    }

    fn table(&self, rows: &Rows) -> Vec<Vec<String>> {
        let head = [
            "links",
            "Mbit/s",
            "loss %",
            "bulk",
            "alone p50",
            "p99",
            "max",
            "beside p50",
            "p99",
            "max",
            "bulk Mbit/s",
        ];
        let mut table = vec![head.map(str::to_owned).to_vec()];
        for row in &rows.0 {
            let mut line = vec![LINKS[row.parameter("links") as usize].to_owned()];
            line.extend(["mbit/s", "loss %", "bulk"].map(|key| row.parameter(key).to_string()));
            for name in ["alone", "beside"] {
                let ms = |what| format!("{:.0}", row.value(&format!("{name} {what} ms")));
                line.extend(["p50", "p99", "max"].map(ms));
            }
            line.push(format!("{:.1}", row.value("bulk mbit/s")));
            table.push(line);
        }
        table
    }

    fn files(&self, plan: &Plan) -> Vec<(String, String)> {
        let file = |cell: Cell| {
            let name = cell.key.replace([' ', '=', '/', '%'], "-");
            let bulk = cell.parameter("bulk") as usize;
            (
                format!("{name}.toml"),
                self.scenario(&cell, plan.size, bulk),
            )
        };
        self.cells(plan.size).into_iter().map(file).collect()
    }
}
